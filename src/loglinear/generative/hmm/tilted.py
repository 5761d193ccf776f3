"""A hidden Markov model tilted by weights so that it remains one: its exact normaliser and draws.

    p(x, y) = q0(x, y) exp(s(x, y)) / Z

If s is a sum of scores of label n-grams and of the values at single positions, p is a hidden Markov model again. With
the weights of its steps, emissions summed out,

    W(k, k') = step(k, k') exp(s(k, k')) sum_x e(x given y') exp(s(x, y'))       o = stop + W o       Z = start . o

(o: total weight of all continuations of a state), and its probabilities are  W(k, k') o(k') / o(k). The sums converge
if and only if the spectral radius of W is below one, over the states that can be reached and can stop. There every o
must be positive, and the other way round: a left eigenvector v >= 0 of W with eigenvalue r has (1 - r) v.o = v.stop,
so a solution without negative numbers excludes r > 1, and r = 1 too as every state may stop in the end.

Fields that are scored together are drawn together: they are one *joint* field, whose values are their combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from loglinear.arrays import Bool, Float, Int32, Int64
from loglinear.errors import ModelFileError, OptionError
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.language import GAZETTEER
from loglinear.generative.hmm.model import HiddenMarkovModel
from loglinear.structures.chain.structure import ChainScores

MOST_COMBINATIONS = 1_000_000  # values of all joint fields together


@dataclass(frozen=True)
class TiltedChain:
    """The tilted model as a hidden Markov model.

    Parameters
    ----------
    log_normaliser : float
        log Z.
    model : HiddenMarkovModel
        p, emitting joint fields.
    groups : list of tuple of int
        The fields in each joint field.
    sizes : tuple of int
        Number of values of each field.
    """

    log_normaliser: float
    model: HiddenMarkovModel
    groups: list[tuple[int, ...]]
    sizes: tuple[int, ...]

    def sample(self, n: int, rng: np.random.Generator) -> tuple[list[Int32], Int32, Int64]:
        """``n`` sequences: fields [N] each, labels [N] and offsets [n + 1]."""
        joint, labels, offsets = self.model.sample(n, rng)
        fields = [np.zeros(0, dtype=np.int32)] * len(self.sizes)
        for group, values in zip(self.groups, joint, strict=True):
            for place, column in zip(group, np.unravel_index(values, self._shape(group)), strict=True):
                fields[place] = column.astype(np.int32)
        return fields, labels, offsets

    def _shape(self, group: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.sizes[place] for place in group)


def joint_fields(
    encoder: TemplateEncoder, columns: Sequence[int], sizes: Sequence[int]
) -> list[tuple[int, ...]] | None:
    """The fields that attributes use together; None if attributes span several positions or combine too many values.

    ``columns`` are those of the fields, ``sizes`` their numbers of values.
    """
    group_of = {place: {place} for place in range(len(columns))}
    for spec in encoder.tables():
        if not len(spec.keys):
            continue
        if any(macro.row != 0 or macro.absolute or macro.function == GAZETTEER for macro in spec.template.macros):
            return None
        joined: set[int] = set()
        for macro in spec.template.macros:
            if macro.column not in columns:
                raise ModelFileError(f"the base has no column {macro.column}, which a template looks at")
            joined |= group_of[list(columns).index(macro.column)]
        for place in joined:
            group_of[place] = joined
    groups = sorted({tuple(sorted(group)) for group in group_of.values()})
    combinations = sum(float(np.prod([float(sizes[place]) for place in group])) for group in groups)
    return groups if combinations <= MOST_COMBINATIONS else None


def tilted(
    base: HiddenMarkovModel,
    ngrams: ChainScores,
    groups: list[tuple[int, ...]],
    emission: Callable[[list[Int32]], Float],
) -> TiltedChain:
    """The model ``base`` tilted by scores.

    Parameters
    ----------
    base : HiddenMarkovModel
    ngrams : ChainScores
        Scores of label n-grams; its emissions do not count.
    groups : list of tuple of int
        Fields that are scored together.
    emission : callable
        From the fields [R] of some positions to their scores [R, Y], a sum over the groups.
    """
    sizes = tuple(table.shape[1] for table in base.emissions)
    nowhere = emission([np.zeros(1, dtype=np.int32) for _ in sizes])[0]
    log_sums, tables = nowhere.copy(), []
    for group in groups:
        # a sum over groups: the score of a group is what it adds where all other fields have their first value
        combinations = np.unravel_index(np.arange(np.prod([sizes[f] for f in group])), [sizes[f] for f in group])
        fields = [np.zeros(len(combinations[0]), dtype=np.int32) for _ in sizes]
        log_table = np.zeros((len(fields[0]), base.n_labels))
        for place, values in zip(group, combinations, strict=True):
            fields[place] = values.astype(np.int32)
            with np.errstate(divide="ignore"):
                log_table += np.log(base.emissions[place].T)[values]
        log_table += emission(fields) - nowhere
        greatest = log_table.max(axis=0)
        table = np.exp(log_table - greatest)
        log_sums += greatest + np.log(table.sum(axis=0))
        tables.append(np.ascontiguousarray((table / table.sum(axis=0)).T))
    steps = _weighted_steps(base, ngrams, log_sums)
    log_z, probabilities = _normalised(steps, max(base.order, ngrams.order), base.n_labels)
    return TiltedChain(
        log_z, HiddenMarkovModel(max(base.order, ngrams.order), base.n_labels, probabilities, tables), groups, sizes
    )


def _weighted_steps(base: HiddenMarkovModel, ngrams: ChainScores, emitted: Float) -> Float:
    """Weights [K + 1, Y + 1] of the steps times all emissions of the next label; K of the greater order."""
    y = base.n_labels
    with np.errstate(divide="ignore"):
        log_steps = np.log(base.steps)
    if ngrams.order > base.order:
        log_steps = np.concatenate([np.tile(log_steps[:-1], (y + 1, 1)), log_steps[-1:]])
    by_state = log_steps[:-1].reshape(-1, y, y + 1)  # a view: [1 or Y + 1, Y, Y + 1]
    by_state[:, :, :y] += ngrams.transition
    by_state[:, :, y] += ngrams.stop
    if ngrams.trigram is not None:
        by_state[:y, :, :y] += ngrams.trigram
    log_steps[-1, :y] += ngrams.start
    log_steps[:, :y] += emitted
    with np.errstate(over="ignore"):
        weights: Float = np.exp(log_steps)
    return weights


def _normalised(steps: Float, order: int, n_labels: int) -> tuple[float, Float]:
    """log Z and the probabilities [K + 1, Y + 1] of steps with these weights."""
    chain = HiddenMarkovModel(order, n_labels, steps, [])
    live = np.flatnonzero(_closure(chain.start > 0, chain.step > 0) & _closure(chain.stop > 0, chain.step.T > 0))
    following = np.zeros(chain.n_states)
    try:
        with np.errstate(invalid="ignore"):
            following[live] = np.linalg.solve(np.eye(len(live)) - chain.step[np.ix_(live, live)], chain.stop[live])
    except np.linalg.LinAlgError:
        following[:] = np.nan
    if not np.isfinite(following).all() or (following[live] <= 0.0).any():
        raise OptionError(
            "the model has no normaliser: the weights outgrow the probabilities as sequences get longer (the spectral "
            "radius of its steps is not below 1); train with a stronger penalty, or ask for normalised=False"
        )
    total = float(chain.start @ following)
    if not total > 0.0:
        raise OptionError("the constraints leave no sequence that the base model can make: there is no normaliser")
    probabilities = steps.copy()
    rows, labels = np.arange(chain.n_states)[:, None], np.arange(n_labels)
    reached = labels + 0 * rows if order == 1 else chain.label_of[rows] * n_labels + labels
    probabilities[:-1, :-1] *= following[reached]
    probabilities[:-1] /= np.where(following > 0.0, following, 1.0)[:, None]
    probabilities[:-1][following == 0.0] = np.append(np.zeros(n_labels), 1.0)  # never visited
    probabilities[-1, :-1] *= following[-n_labels:] / total
    return float(np.log(total)), probabilities


def _closure(first: Bool, edges: Bool) -> Bool:
    """All states [K] that can be reached from ``first`` [K] along ``edges`` [K, K]."""
    reached, newest = first.copy(), first
    while newest.any():
        newest = edges[newest].any(axis=0) & ~reached
        reached |= newest
    return reached
