"""What all referees have in common: an example's labellings one by one, and what follows from their scores.

A referee is a module named after a floor of ``structures``. It enumerates the labellings of a batch of one example and
scores each straight from the definition, in seven functions that have the same names in every referee
(:class:`Functions`); sums, maxima and covariances over the labellings are written here once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.structures.gold import Gold

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Labels = npt.NDArray[np.int32]


class Functions(NamedTuple):
    """The functions of a referee; ``structure`` is a batch of one example but in the last two.

    labellings(structure, scores)
        All labellings, each in the form that is easiest to score.
    labels_of(structure, labelling)
        A labelling int32 [T, ...] in the form that the structure's operations take.
    score(structure, scores, labelling)
        Its score, straight from the definition.
    blank(structure, scores)
        Parts of zero, parts that are optional among them.
    add_parts(structure, parts, labelling, weight)
        Add the weight to every part of the labelling, in place.
    example(structure, s)
        Example ``s`` of a batch as a batch of its own.
    scores_of(structure, scores, s)
        Its scores.
    """

    labellings: Callable[[Any, Any], Sequence[Any]]
    labels_of: Callable[[Any, Any], Labels]
    score: Callable[[Any, Any, Any], float]
    blank: Callable[[Any, Any], Any]
    add_parts: Callable[[Any, Any, Any, float], None]
    example: Callable[[Any, int], Any]
    scores_of: Callable[[Any, Any, int], Any]


class Enumeration:
    """All labellings of one example with their scores.

    Attributes
    ----------
    labellings, labels, values
        The labellings as the referee has them and as the structure takes them, and their scores.
    feasible, log_z, probabilities
        Whether a score is above -inf, log Z, and p(y) of each labelling (zeros where none is possible).
    """

    of: ClassVar[Functions]

    def __init__(self, structure: Any, scores: Any) -> None:
        self.structure, self.scores = structure, scores
        self.labellings = list(self.of.labellings(structure, scores))
        self.labels = [self.of.labels_of(structure, one) for one in self.labellings]
        self.values = np.array([self.of.score(structure, scores, one) for one in self.labellings])
        top = self.values.max(initial=-np.inf)
        self.feasible = bool(top > -np.inf)
        self.log_z, self.probabilities = -np.inf, np.zeros(len(self.values))
        if self.feasible:
            weights = np.exp(self.values - top)
            self.log_z = float(top + np.log(weights.sum()))
            self.probabilities = weights / weights.sum()

    @classmethod
    def of_batch(cls, structure: Any, scores: Any) -> list[Any]:
        """The enumeration of each example of a batch."""
        examples = range(structure.n_sequences)
        return [cls(cls.of.example(structure, s), cls.of.scores_of(structure, scores, s)) for s in examples]

    def log_partition(self) -> float:
        """log Z."""
        return self.log_z

    def expectations(self, factors: npt.ArrayLike | None = None) -> Any:
        """E[factor * parts], the factor a number for each labelling, or 1."""
        shares = self.probabilities if factors is None else self.probabilities * np.asarray(factors)
        expected = self.of.blank(self.structure, self.scores)
        for labelling, share in zip(self.labellings, shares.tolist(), strict=True):
            self.of.add_parts(self.structure, expected, labelling, share)
        return expected

    def covariance(self, costs: Any) -> tuple[float, Any]:
        """E[c], and the covariances of c with the parts: the sum of p(y) (c(y) - E[c]) parts(y)."""
        own = self.costs(costs)
        mean = float(self.probabilities @ own)
        return mean, self.expectations(own - mean)

    def best(self) -> float:
        """The best score."""
        return float(self.values.max(initial=-np.inf))

    def k_best(self, k: int) -> Floats:
        """Scores of the ``k`` best possible labellings, best first."""
        return np.sort(self.values[self.values > -np.inf])[::-1][:k]

    # -- what annotation and costs say about each labelling; here of positions that choose one of several ------------

    @classmethod
    def costs_of(cls, structure: Any, costs: Any, s: int) -> Any:
        """The costs of example ``s``, cut from those of a batch as a cost's ``at`` gives them."""
        return costs[structure.offsets[s] : structure.offsets[s + 1]]

    def costs(self, costs: Any) -> Floats:
        """The cost of each labelling, given a cost for each choice at each position [T, choices]."""
        return np.array([costs[np.arange(len(labels)), labels].sum() for labels in self.labels])

    def fits(self, gold: Gold) -> Bools:
        """Whether each labelling is one that the annotation of this example allows."""
        return self.fits_at(gold).all(axis=1)

    def fits_at(self, gold: Gold) -> Bools:
        """Whether the annotation allows what each labelling has at each position, [labellings, T]."""
        if gold.allowed is None:
            return np.array([labels == gold.labels for labels in self.labels])
        return np.array([gold.allowed[np.arange(len(labels)), labels] > 0 for labels in self.labels])


def gold_of(structure: Any, gold: Gold, s: int) -> Gold:
    """The annotation of example ``s`` of a batch."""
    rows = slice(structure.offsets[s], structure.offsets[s + 1])
    return Gold(gold.labels[rows], None if gold.allowed is None else gold.allowed[rows])
