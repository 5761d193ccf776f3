"""Baum-Welch: hidden Markov models from unlabelled or partly labelled sequences by EM (Baum et al. 1970).

    E step   expected counts of steps and emissions, given the fields and what the annotation leaves
    M step   the relative frequencies of these counts, with the same smoothing as for labelled data

With smoothing the M step is that of a Dirichlet prior, so each round raises (or keeps)

    log p(x) + smoothing * sum log e + transition_smoothing * sum log t
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loglinear.features.encoding import runs
from loglinear.generative.hmm import Counts, Fields, Float, HiddenMarkovModel, Int64, number_of_states
from loglinear.structures.chain import Chain
from loglinear.structures.gold import Gold
from loglinear.threads import in_threads

MOST_POSITIONS = 4096


@dataclass(frozen=True)
class Rounds:
    """Where EM ended.

    Attributes
    ----------
    model : HiddenMarkovModel
    objectives : list of float
        Penalised log-likelihood before each round, and after the last.
    converged : bool
    """

    model: HiddenMarkovModel
    objectives: list[float]
    converged: bool


def expected_counts(
    model: HiddenMarkovModel, fields: Fields, offsets: Int64, gold: Gold | None = None, n_threads: int = 1
) -> tuple[Float, Counts]:
    """log p [S] of what is observed, and the counts expected given that; labels are hidden unless ``gold`` is given."""

    def block(run: tuple[int, int]) -> tuple[Float, Counts]:
        lo, hi = int(offsets[run[0]]), int(offsets[run[1]])
        known = None if gold is None else gold.slice(lo, hi)
        return _of_block(model, [f[lo:hi] for f in fields], offsets[run[0] : run[1] + 1] - lo, known)

    found = in_threads(block, runs(offsets, 0, len(offsets) - 1, MOST_POSITIONS), n_threads)
    total = found[0][1]
    for _, counts in found[1:]:
        total = total + counts
    return np.concatenate([log_p for log_p, _ in found]), total


def _of_block(
    model: HiddenMarkovModel, fields: Sequence[npt.NDArray[np.int32]], offsets: Int64, gold: Gold | None
) -> tuple[Float, Counts]:
    y, chain, scores = model.n_labels, Chain(offsets), model.scores(fields, offsets)
    if gold is not None:
        allowed = gold.allowed
        if allowed is None:
            allowed = (np.arange(y) == gold.labels[:, None]).astype(np.uint8)
        scores = chain.restrict(scores, allowed)
    log_p, parts = chain.expectations(scores)
    steps = np.zeros((number_of_states(y, model.order) + 1, y + 1))
    steps[-1, :-1] = parts.start
    if model.order == 1:
        steps[:-1, :-1], steps[:-1, -1] = parts.transition, parts.stop
    else:
        assert parts.edge is not None and parts.trigram is not None
        by_pair = steps[:-1].reshape(y + 1, y, y + 1)
        first, last = offsets[:-1], offsets[1:] - 1
        alone = first == last
        by_pair[:y, :, :y] = parts.trigram
        by_pair[y, :, :y] = parts.edge[first[~alone] + 1].sum(axis=0)
        by_pair[:y, :, y] = parts.edge[last[~alone]].sum(axis=0)
        by_pair[y, :, y] = parts.emission[first[alone]].sum(axis=0)
    emissions: list[Float] = [
        np.stack(
            [np.bincount(values, parts.emission[:, label], minlength=table.shape[1]) for label in range(y)]
        ).astype(np.float64)
        for values, table in zip(fields, model.emissions, strict=True)
    ]
    return log_p, Counts(model.order, y, steps, emissions)


def baum_welch(
    start: HiddenMarkovModel,
    fields: Fields,
    offsets: Int64,
    gold: Gold | None = None,
    *,
    smoothing: float = 1.0,
    transition_smoothing: float = 0.0,
    max_iter: int = 100,
    tolerance: float = 1e-6,
    n_threads: int = 1,
    observe: Callable[[int, float], None] | None = None,
) -> Rounds:
    """EM from ``start`` until a round raises the objective by less than ``tolerance`` of itself."""
    model, objectives = start, []
    while True:
        log_p, counts = expected_counts(model, fields, offsets, gold, n_threads)
        objectives.append(float(log_p.sum()) + _log_prior(model, smoothing, transition_smoothing))
        if observe is not None:
            observe(len(objectives) - 1, objectives[-1])
        if len(objectives) > 1 and objectives[-1] - objectives[-2] <= tolerance * abs(objectives[-1]):
            return Rounds(model, objectives, True)
        if len(objectives) > max_iter:
            return Rounds(model, objectives, False)
        model = HiddenMarkovModel.estimated(counts, smoothing, transition_smoothing)


def random_start(
    n_labels: int, order: int, sizes: Sequence[int], rng: np.random.Generator, even: float = 5.0
) -> HiddenMarkovModel:
    """A model drawn at random, the more even the greater ``even``."""
    counts = Counts(
        order,
        n_labels,
        rng.gamma(even, size=(number_of_states(n_labels, order) + 1, n_labels + 1)),
        [rng.gamma(even, size=(n_labels, size)) for size in sizes],
    )
    return HiddenMarkovModel.estimated(counts, smoothing=0.0)


def _log_prior(model: HiddenMarkovModel, smoothing: float, transition_smoothing: float) -> float:
    total = 0.0
    if smoothing:
        total += smoothing * sum(float(np.log(table).sum()) for table in model.emissions)
    if transition_smoothing:
        steps = model.steps[model.steps > 0.0]
        total += transition_smoothing * float(np.log(steps).sum())
    return total
