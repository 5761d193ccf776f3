"""The narrow waist: the operations that criteria and optimizers use, the same for every structure.

A *structure* is the shape of a batch of S examples with N positions in all, ``offsets`` [S + 1]. Each structure defines
its positions: a token of a chain, a token with its head, a span of a tree. Three kinds of data go through it:

scores
    A number for each part; scores, expected parts and gradients have the same type. It has ``zeros_like()``,
    ``subtract(other)`` in place and ``with_costs(costs)``, the scores plus a cost for each choice at a position.
labelling
    A choice for each position, an int32 array [N, ...].
gold
    A :class:`~loglinear.structures.gold.Gold`: a labelling, or the labellings that the annotation allows.

:class:`PartFeatures` turns a weight vector into scores, and gradients by scores into gradients by weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from loglinear.arrays import Float, Int32, Int64
from loglinear.errors import OptionError
from loglinear.system import check_memory

Scores = Any  #: the type of a structure's part scores


class Structure(Protocol):
    """Operations on the part scores of a batch. Some structures have further ones, which some criteria need.

    Scores are finite or -inf. An example that has no labelling with a score above -inf has a :meth:`score` and a
    :meth:`log_partition` of -inf; :meth:`viterbi`, :meth:`k_best` and :meth:`expectations`, and ``cost_covariance`` and
    ``sample`` of structures that have them, raise :class:`~loglinear.errors.InfeasibleError`, which names the example.

    A part belongs to a position (an emission), or to the whole batch (a chain's transitions). Expectations and
    gradients of the latter are sums over all examples of the batch. To weigh examples differently, pass ``weights``:
    the sums cannot be split afterwards.
    """

    offsets: Int64
    n_sequences: int
    n_positions: int

    def score(self, scores: Scores, labels: Any) -> Float:
        """Scores [S] of a labelling."""

    def add_labelling(self, parts: Scores, labels: Any, weights: Any) -> None:
        """Add to ``parts`` the weight [S] of each example for every part of its labelling."""

    def restrict(self, scores: Scores, allowed: Any) -> Scores:
        """The scores, with -inf for whatever the annotation rules out."""

    def viterbi(self, scores: Scores) -> tuple[Int32, Float]:
        """The best labelling and its scores [S]."""

    def k_best(self, scores: Scores, k: int) -> list[tuple[Int32, Float]]:
        """For each example its K <= k best labellings [K, T, ...] and their scores [K]."""

    def log_partition(self, scores: Scores) -> Float:
        """log Z [S]; -inf where no labelling is possible."""

    def expectations(self, scores: Scores, weights: Any = None) -> tuple[Float, Scores]:
        """log Z [S], and the expected parts: the sum over examples of weight [S] times E[parts of the example]."""


class EncodedExamples(Protocol):
    """A corpus as numbers: what its features need, and where its examples begin."""

    @property
    def offsets(self) -> Int64:
        """Example i has the positions ``offsets[i]`` to ``offsets[i + 1]``."""

    @property
    def n_sequences(self) -> int:
        """S."""


class DenseGradient(Protocol):
    """Where one worker adds up its share of the weight gradient."""

    vector: Float

    def reset(self) -> None:
        """Set the gradient to zero."""

    def add(self, corpus: Any, first: int, end: int, parts: Scores) -> None:
        """Add the gradient by the part scores of examples ``first`` to ``end``."""

    def finish(self) -> Float:
        """The gradient [D] of all that was added."""


class SparseGradient(Protocol):
    """Collects the gradient of one example at a time, by groups of features."""

    values: Float

    @property
    def touched(self) -> Int64:
        """The groups that have been added to since the last :meth:`clear`."""

    def add(self, corpus: Any, sequence: int, parts: Scores) -> None:
        """Add the gradient by the part scores of one example."""

    def squared_norm(self) -> float:
        """||g||^2 of the gradient collected so far."""

    def clear(self) -> None:
        """Set the gradient to zero again."""

    def take(self) -> tuple[Int64, Float]:
        """The features whose derivative is not zero, and these derivatives; then clear the gradient."""

    def put(self, feature_lists: list[tuple[Int64, Float]], factors: Float) -> None:
        """Add the gradients ``feature_lists[i]``, as returned by :meth:`take`, each times ``factors[i]``."""

    def gram(self, rows: list[tuple[Int64, Float]]) -> Float:
        """Inner products [k, k] of gradients that :meth:`take` has returned."""


class PartFeatures(Protocol):
    """From weights to part scores and back.

    Weights that are always used together are a *group*: a run of the weight vector.
    """

    @property
    def n_features(self) -> int:
        """D, the length of the weight vector."""

    @property
    def groups(self) -> Int64:
        """Where the groups of features begin [G + 1]."""

    def as_lists(self) -> Any:
        """The same features in a form whose :meth:`lay_out` refers to the weight vector itself instead of a copy."""

    def lay_out(self, weights: Float, penalties: Any) -> Any:
        """Prepare a weight vector [D] for :meth:`scores`."""

    def refresh_layout(self, laid_out: Any, weights: Float, penalties: Any) -> Any:
        """The layout after the weights have changed in place."""

    def blocks(self, offsets: Int64, first: int, end: int) -> list[tuple[int, int]]:
        """Cut examples ``first`` to ``end`` into runs whose part scores stay small."""

    def structure(self, corpus: Any, first: int, end: int) -> Structure:
        """The shape of the examples ``first`` to ``end``."""

    def scores(self, laid_out: Any, corpus: Any, first: int, end: int) -> Scores:
        """Part scores of the examples ``first`` to ``end``."""

    def dense_gradient(self) -> DenseGradient:
        """A gradient of all features."""

    def sparse_gradient(self) -> SparseGradient:
        """A gradient of the few features of one example."""

    def active_groups(self, corpus: Any, sequence: int) -> Iterable[tuple[Int64, Int32, int]]:
        """The groups that an example's scores depend on: triples (pointer, ids, first group).

        Each stands for the groups ``first group + ids[pointer[0]:pointer[-1]]``.
        """


# ----------------------------------------------------------------------------------------------------------------------
# What features stored as lists share: each feature is its own group, and weights need no layout.

F = TypeVar("F", bound="ListFeatures")


class ListFeatures:
    """D features, each its own group; subclasses compute scores and gradients."""

    n_features: int

    @cached_property
    def groups(self) -> Int64:
        """Each feature is its own group."""
        return np.arange(self.n_features + 1, dtype=np.int64)

    def as_lists(self: F) -> F:
        """The features themselves, which are lists already."""
        return self

    def lay_out(self, weights: Float, penalties: Any = None) -> Float:
        """The weights themselves."""
        return weights

    def refresh_layout(self, laid_out: Float, weights: Float, penalties: Any = None) -> Float:
        """The layout itself, which is the weight vector."""
        return laid_out


class VectorGradient:
    """Adds up a gradient [D] by the weights; subclasses define ``add``."""

    def __init__(self, n_features: int) -> None:
        self.vector = np.zeros(n_features)

    def reset(self) -> None:
        """Set the gradient to zero."""
        self.vector.fill(0.0)

    def finish(self) -> Float:
        """The gradient [D] of all that was added."""
        return self.vector


def best_sizes(lengths: Int64, k: int, n_choices: float, what: str = "labelling", work: float = 0.0) -> list[int]:
    """How many of the ``k`` best labellings of each sequence to make room for: no more than it has.

    Parameters
    ----------
    lengths : int64 [S]
        Positions of each sequence.
    k : int
    n_choices : float
        Labels of a position, at most.
    what : str
        The structure's word for a labelling.
    work : float
        Bytes that a search keeps for each position and rank.

    Raises
    ------
    OptionError
        If ``k`` is less than 1, or the lists would take more memory than there is.
    """
    if k < 1:
        raise OptionError(f"k = {k}: ask for at least one {what}")
    if n_choices <= 1:
        return [1] * len(lengths)
    # as many positions have k labellings
    full = math.ceil(math.log(k) / math.log(n_choices)) + 1 if n_choices < math.inf else 0
    sizes = [k if n >= full else min(k, int(n_choices**n)) for n in lengths.tolist()]
    held = sum(12.0 * most * n for most, n in zip(sizes, lengths.tolist(), strict=True))
    largest = max((work * most * n for most, n in zip(sizes, lengths.tolist(), strict=True)), default=0.0)
    check_memory(held + largest, f"k = {k:,}: finding so many best {what}s", "ask for fewer")
    return sizes
