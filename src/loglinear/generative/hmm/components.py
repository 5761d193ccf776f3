"""Hidden Markov models as the components of a mixture: clusters of sequences.

    p(x) = sum_k mu_k sum_y p_k(x, y)          p_k a hidden Markov model (:mod:`~loglinear.generative.hmm.model`)

Both the component and the states y are hidden, so that the M step of EM is that of Baum-Welch with each sequence
counted as often as it belongs to the component,

    counts_k = sum_i w_i q_ik E[counts of (x_i, y) given x_i, theta_k]

and theta_k the relative frequencies of these, smoothed (Smyth 1997, Clustering sequences with hidden Markov models;
Zhang, section 9.5, for any p(x given theta_k)). Where the states are known, or some of them, the expectation is over
those that the annotation allows, and the likelihood that of x and what is known of y.

Letters: S sequences, N positions, Y states' labels, K components, V values of a field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from loglinear.arrays import Float, Int32, Int64
from loglinear.data.columns.corpus import offsets_of, ranges
from loglinear.generative.hmm.em import (
    MIXED,
    NEGLIGIBLE,
    expected_counts,
    known_counts,
    log_likelihoods,
    log_prior,
    perturbed,
    random_start,
    start_from,
    without_negligible,
)
from loglinear.generative.hmm.model import Counts, HiddenMarkovModel, number_of_states
from loglinear.generative.mixture import EMPTY, Sums, hellinger
from loglinear.structures.gold import Gold

PAIRS = 4093  # buckets for pairs of values, where starts of EM are looked for


@dataclass(frozen=True)
class Sequences:
    """Sequences as the rows of a mixture.

    Parameters
    ----------
    fields : list of int32 [N]
        The values of each observed column, in numbers.
    offsets : int64 [S + 1]
    gold : Gold, optional
        What is known of the states; None if nothing is.
    """

    fields: list[Int32]
    offsets: Int64
    gold: Gold | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """S, and the number of fields."""
        return len(self.offsets) - 1, len(self.fields)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, chosen: Any) -> Sequences:
        """Some of the sequences, by their numbers or a mask."""
        numbers = np.arange(len(self))[chosen]
        lengths = np.diff(self.offsets)[numbers]
        positions = ranges(self.offsets[:-1][numbers], lengths)
        gold = self.gold
        if gold is not None:
            gold = Gold(gold.labels[positions], None if gold.allowed is None else gold.allowed[positions])
        return Sequences([values[positions] for values in self.fields], offsets_of(lengths), gold)

    @property
    def arrays(self) -> list[Any]:
        """All of it, to tell one training from another."""
        gold = [] if self.gold is None else [self.gold.labels, self.gold.allowed]
        return [*self.fields, self.offsets, *gold]


@dataclass(frozen=True)
class HmmComponents:
    """K hidden Markov models over the same fields, with the same number of labels.

    Parameters
    ----------
    models : tuple of HiddenMarkovModel
    smoothing, transition_smoothing : float
        Added to each count of an emission, of a step: the Dirichlet prior of each model.
    n_threads : int
        The parameters are the same, to the last bit, for any number.
    """

    remedy: ClassVar[str] = "give more smoothing (hmm:transition_smoothing=0.1), or leave the sequence out"
    models: tuple[HiddenMarkovModel, ...]
    smoothing: float
    transition_smoothing: float
    n_threads: int = 1

    @classmethod
    def even(
        cls,
        n_components: int,
        n_labels: int,
        order: int,
        sizes: Sequence[int],
        smoothing: float = 1.0,
        transition_smoothing: float = 0.0,
        n_threads: int = 1,
    ) -> HmmComponents:
        """Equal models with even probabilities; field f has ``sizes[f]`` values."""
        steps = np.zeros((number_of_states(n_labels, order) + 1, n_labels + 1))
        counts = Counts(order, n_labels, steps, [np.zeros((n_labels, size)) for size in sizes])
        even = HiddenMarkovModel.estimated(counts)
        return cls((even,) * n_components, smoothing, transition_smoothing, n_threads)

    @property
    def n_components(self) -> int:
        return len(self.models)

    @property
    def sizes(self) -> list[int]:
        """The number of values of each field."""
        return [table.shape[1] for table in self.models[0].emissions]

    @property
    def n_parameters(self) -> int:
        """Each distribution has one parameter fewer than outcomes; a sequence does not stop before it begins."""
        model = self.models[0]
        steps = model.n_states * model.n_labels + model.n_labels - 1
        return self.n_components * (steps + model.n_labels * sum(size - 1 for size in self.sizes))

    @property
    def parameters(self) -> Float:
        return np.concatenate([model.parameters for model in self.models])

    def with_parameters(self, parameters: Float) -> HmmComponents:
        pieces = np.split(np.asarray(parameters), self.n_components)
        models = (model.with_parameters(piece) for model, piece in zip(self.models, pieces, strict=True))
        return replace(self, models=tuple(models))

    def log_densities(self, x: Sequences) -> Float:
        """log p_k(x_i) [S, K] or, where states are known, log p_k(x_i, what is known of y_i); a forward pass each."""
        each = [log_likelihoods(model, x.fields, x.offsets, x.gold, self.n_threads) for model in self.models]
        return np.stack(each, axis=1)

    def log_prior(self) -> float:
        return sum(log_prior(model, self.smoothing, self.transition_smoothing) for model in self.models)

    def maximised(self, x: Sequences, shares: Float) -> HmmComponents:
        """A step of Baum-Welch for each model; one without sequences keeps its probabilities."""
        return self.estimated(self.counted(x, shares))

    def counted(self, x: Sequences, shares: Float) -> Sums:
        sums = {"sizes": shares.sum(axis=0)}
        for k, model in enumerate(self.models):
            members = np.flatnonzero(shares[:, k] > 0.0)
            counts = Counts(model.order, model.n_labels, 0.0 * model.steps, [0.0 * table for table in model.emissions])
            if len(members):
                own, weights = x if len(members) == len(x) else x[members], shares[members, k]
                _, counts = expected_counts(model, own.fields, own.offsets, own.gold, self.n_threads, weights)
            sums[f"steps.{k}"] = counts.steps
            sums |= {f"emissions.{k}.{f}": table for f, table in enumerate(counts.emissions)}
        return Sums(sums)

    def estimated(self, sums: Sums) -> HmmComponents:
        sizes = sums.sums["sizes"]
        filled = sizes > EMPTY * sizes.sum()
        models = [self._estimated(k, sums.sums) if filled[k] else model for k, model in enumerate(self.models)]
        return replace(self, models=tuple(models))

    def _estimated(self, k: int, sums: dict[str, Float]) -> HiddenMarkovModel:
        model = self.models[k]
        emissions = [sums[f"emissions.{k}.{f}"] for f in range(len(model.emissions))]
        counts = Counts(model.order, model.n_labels, sums[f"steps.{k}"], emissions)
        counts = without_negligible(counts, NEGLIGIBLE * min(1.0, float(sums["sizes"][k])))
        return HiddenMarkovModel.estimated(counts, self.smoothing, self.transition_smoothing)

    def described(self, x: Sequences, weights: Float) -> Sums:
        return Sums()

    def informed(self, sums: Sums) -> HmmComponents:
        return self

    def started(self, x: Sequences, shares: Float, rng: np.random.Generator) -> HmmComponents:
        """A step of Baum-Welch from models drawn at random or, where states are known, from what is known of them.

        Known states are those of the component's own sequences, mixed with those of all.
        """
        models = tuple(self._drawn(x, shares[:, k], rng) for k in range(self.n_components))
        return replace(self, models=models).maximised(x, shares)

    def _drawn(self, x: Sequences, shares: Float, rng: np.random.Generator) -> HiddenMarkovModel:
        n_labels, order = self.models[0].n_labels, self.models[0].order
        if x.gold is None or (x.gold.allowed is not None and bool(x.gold.allowed.all())):
            return random_start(n_labels, order, self.sizes, rng)
        counts = known_counts(
            x.fields, self.sizes, x.offsets, x.gold, n_labels, order, shares + MIXED * shares.mean()
        )  # fmt: skip
        occurrences = [
            np.bincount(values, minlength=size).astype(np.float64)
            for values, size in zip(x.fields, self.sizes, strict=True)
        ]
        return perturbed(start_from(counts, occurrences), rng)

    def points(self, x: Sequences) -> Any:
        """For each field, square roots of the shares of its values and of its pairs of values next to each other.

        Distances are Hellinger's, for any lengths; pairs tell sequences apart that differ in order alone.
        """
        lengths, bags = np.diff(x.offsets), []
        followed = np.ones(int(x.offsets[-1]), dtype=bool)
        followed[x.offsets[1:] - 1] = False
        for values, size in zip(x.fields, self.sizes, strict=True):
            pairs = (values[:-1].astype(np.int64) * size + values[1:])[followed[:-1]] % PAIRS
            bags += [_bag(values, x.offsets, size), _bag(pairs.astype(np.int32), offsets_of(lengths - 1), PAIRS)]
        return sparse.hstack(bags, format="csr")

    def sample(self, components: Int32, rng: np.random.Generator) -> Sequences:
        """A sequence of each of ``components`` [n], with its states as gold."""
        order, parts, lengths = [], [], []
        for k in np.unique(components).tolist():
            mine = np.flatnonzero(components == k)
            fields, labels, offsets = self.models[k].sample(len(mine), rng)
            order.append(mine)
            parts.append([*fields, labels])
            lengths.append(np.diff(offsets))
        *fields, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
        drawn = Sequences(fields, offsets_of(np.concatenate(lengths)), Gold(labels))
        return drawn[np.argsort(np.concatenate(order), kind="stable")]


def _bag(values: Int32, offsets: Int64, size: int) -> Any:
    """Points [S, size] of the values of each sequence."""
    bag = sparse.csr_matrix((np.ones(len(values)), values.copy(), offsets), shape=(len(offsets) - 1, size))
    bag.sum_duplicates()
    return hellinger(bag)
