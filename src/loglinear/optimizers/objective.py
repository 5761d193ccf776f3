"""The objective a batch optimizer sees: losses of all sequences plus the penalty, on all cores.

    f(w) = sum_i weight_i * loss_i(scores(w)) + l2 ||w||^2              ||w|| of the weights that are penalised

The corpus is cut into shards whose number depends on the data alone. A worker takes a shard at a time and walks it in
blocks that stay in cache: weights to part scores (features), part scores to loss and part gradient (criterion and
structure), part gradient to weight gradient (features). A criterion of the corpus as a whole has a first walk, which
sums the totals that its gradient depends on. The shards' sums are then added in their order, so that the
result is the same, to the last bit, for any number of threads.

Some passes can be made in single precision (:class:`SinglePrecision`), which is several times faster;
:meth:`Objective.use_double_precision` switches that off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np

from loglinear.arrays import Float, Float32, Int32, Int64
from loglinear.criteria.criterion import CorpusCriterion, CostCriterion, Criterion, missing_operations
from loglinear.errors import InfeasibleError
from loglinear.features.encoding import EncodedCorpus
from loglinear.features.segments import EncodedSegments
from loglinear.structures.chain import wide
from loglinear.structures.chain.conditionals import ConditionalLayout, LocalLayout
from loglinear.structures.chain.deep_pieces import DeepPieceLayout
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.chain.listed import ListedChain, ListedFeatures
from loglinear.structures.chain.padded import PaddedLayout
from loglinear.structures.chain.padded_pieces import PieceLayout
from loglinear.structures.chain.risk import RISKS, RiskLayout
from loglinear.structures.chain.steps import is_sparse, is_too_wide
from loglinear.structures.chain.wide import WideLayout
from loglinear.structures.flat.features import FlatCorpus, FlatFeatures
from loglinear.structures.gold import Gold
from loglinear.structures.rows import PaddedWeights
from loglinear.structures.segments.features import SegmentFeatures
from loglinear.structures.segments.padded import SegmentLayout
from loglinear.structures.structure import DenseGradient, EncodedExamples, PartFeatures
from loglinear.system import in_threads

A = TypeVar("A")
G = TypeVar("G")
T = TypeVar("T")
AnyObjective = Callable[[Float], tuple[float, Float]]

MOST_SHARDS = 8
TOKENS_PER_SHARD = 2_000
TOKENS_OF_LARGE = 1_000_000  # of a shard in single precision, where that makes more of them


def shards(offsets: Int64, most: int = MOST_SHARDS) -> list[tuple[int, int]]:
    """Cut S sequences into runs of about the same number of positions, none of them empty.

    There are at most ``most``, more from five million positions on: one for each million (of :data:`SHARDS`), or for
    each half million (of :data:`MOST_SHARDS`), so that the cuts of the one are also cuts of the other.
    """
    n_positions, n_sequences = int(offsets[-1]), len(offsets) - 1
    most = max(most, most // SHARDS * (n_positions // TOKENS_OF_LARGE))
    n = max(1, min(most, n_positions // TOKENS_PER_SHARD, n_sequences))
    cuts = np.searchsorted(offsets, np.linspace(0, n_positions, n + 1)[1:-1])
    bounds = sorted({0, n_sequences, *cuts.tolist()})
    return list(pairwise(bounds))


class Cuts(NamedTuple):
    """The shards of passes in double and in single precision: runs of sequences."""

    double: list[tuple[int, int]]
    single: list[tuple[int, int]]

    @classmethod
    def by_size(cls, offsets: Int64) -> Cuts:
        """Those of a corpus with these offsets [S + 1]."""
        return cls(shards(offsets), shards(offsets, SHARDS))


def n_alive(runs: Sized, n_threads: int) -> int:
    """How many gradients are kept at a time: one for each shard, unless there are many of them."""
    return min(len(runs), max(MOST_SHARDS, n_threads))


def in_waves(
    walk: Callable[[A, G], float], runs: Sequence[A], gradients: Sequence[G], n_threads: int
) -> Iterator[tuple[float, G]]:
    """Value and gradient of each run in order; at most as many are walked at a time as there are ``gradients``."""
    for first in range(0, len(runs), len(gradients)):
        wave = list(zip(runs[first : first + len(gradients)], gradients, strict=False))
        yield from zip(in_threads(lambda each: walk(*each), wave, n_threads), gradients, strict=False)


class Objective:
    """Losses and penalty of a corpus as a function of the weights.

    Parameters
    ----------
    features : PartFeatures
    corpus : EncodedExamples
        S sequences; a tree counts as the sequence of its positions.
    gold : Gold
    criterion : Criterion
    penalties
        Hard constraints, as the features take them.
    l2 : float
        Factor of ||w||^2.
    sequence_weights : float64 [S], optional
        Weight of each sequence's loss; one if not given.
    n_threads : int
        Threads to use; the value does not depend on it.
    single_precision : bool
        Whether to use single precision where that is supported.
    n_penalised : int, optional
        Only the first ``n_penalised`` weights are penalised; all if not given.
    cuts : Cuts, optional
        The shards; by size if not given.
    """

    def __init__(
        self,
        features: PartFeatures,
        corpus: EncodedExamples,
        gold: Gold,
        criterion: Criterion,
        penalties: Any,
        l2: float = 0.0,
        sequence_weights: Float | None = None,
        n_threads: int = 1,
        single_precision: bool = False,
        n_penalised: int | None = None,
        cuts: Cuts | None = None,
    ) -> None:
        self.n_penalised = features.n_features if n_penalised is None else n_penalised
        self.features, self.corpus, self.gold = features, corpus, gold
        self.criterion, self.penalties, self.l2 = criterion, penalties, l2
        self.sequence_weights = np.ones(corpus.n_sequences) if sequence_weights is None else sequence_weights
        self.n_threads = n_threads
        self.terms: list[AnyObjective] = []  # added to the objective: value and gradient [D]
        self._single_precision, self._cuts = single_precision, cuts

    @cached_property
    def cuts(self) -> Cuts:
        """The shards."""
        return Cuts.by_size(self.corpus.offsets) if self._cuts is None else self._cuts

    @cached_property
    def layout(self) -> Layout:
        """Weights and corpus laid out for passes in single precision: the layout decides what they sum over."""
        name, criterion = self.criterion.name, self.criterion
        if isinstance(self.features, SegmentFeatures):
            assert isinstance(self.corpus, EncodedSegments)
            costs = criterion.cost.table if isinstance(criterion, CostCriterion) else None
            data = (self.features, self.corpus, self.penalties, self.gold.labels, self.sequence_weights)
            return SegmentLayout(*data, costs)
        if name in SUMS and is_sparse(self._chain_features, self.penalties):
            return self.wide_layout()
        if name in GIVEN_AFTER:
            return ConditionalLayout(*self._chain_data, GIVEN_AFTER[name])
        if name in PIECES:
            simple = self._chain_features.order == 1 and self._chain_features.edge is None
            kind = PieceLayout if simple else DeepPieceLayout
            return kind(*self._chain_data, name == "nota", self.gold.contexts)
        if not isinstance(criterion, CostCriterion):
            return PaddedLayout(*self._chain_data)
        costs = criterion.cost.table
        return (
            RiskLayout(*self._chain_data, costs, RISKS[name])
            if name in RISKS
            else PaddedLayout(*self._chain_data, costs)
        )

    def wide_layout(self, prune: float = 0.0) -> WideLayout:
        """The same for many labels; ``prune`` is the least probability of labels that passes look at."""
        costs = self.criterion.cost.lists if isinstance(self.criterion, CostCriterion) else wide.NO_COSTS
        return WideLayout(*self._chain_data, costs, prune)

    @property
    def _chain_features(self) -> ChainFeatures:
        assert isinstance(self.features, ChainFeatures)
        return self.features

    @property
    def _chain_data(self) -> tuple[ChainFeatures, EncodedCorpus, Any, Int32, Float]:
        """What every layout of a chain is made of."""
        assert isinstance(self.corpus, EncodedCorpus)
        return self._chain_features, self.corpus, self.penalties, self.gold.labels, self.sequence_weights

    @cached_property
    def part_features(self) -> PartFeatures:
        """The features that general passes go through: with many labels, those whose part scores are lists."""
        features = self.features
        if not isinstance(features, ChainFeatures) or missing_operations(type(self.criterion), ListedChain):
            return features
        return ListedFeatures.of(features, self.penalties) or features

    @cached_property
    def _too_wide(self) -> bool:
        """Whether passes in single precision would go over all pairs of too many labels."""
        if not isinstance(self.features, ChainFeatures) or self.criterion.name in (*SUMS, *GIVEN_AFTER):
            return False
        return is_too_wide(self.features, self.penalties)

    @cached_property
    def _quick(self) -> SinglePrecision | None:
        """Passes in single precision, if they are supported."""
        if self._too_wide or unsupported_reason(self.criterion, self.features, self.gold) is not None:
            return None
        return SinglePrecision(self.layout, self.cuts.single, self.n_threads)

    @cached_property
    def _quick_value(self) -> SinglePrecision | None:
        """The value alone in single precision, if that is supported."""
        if self._quick is not None or self._too_wide:
            return self._quick
        if local_unsupported_reason(self.criterion, self.features, self.gold) is not None:
            return None
        return SinglePrecision(self.layout, self.cuts.single, self.n_threads)

    @cached_property
    def _gradients(self) -> list[DenseGradient]:
        return [self.part_features.dense_gradient() for _ in range(n_alive(self.cuts.double, self.n_threads))]

    def use_double_precision(self) -> bool:
        """Use double precision from now on; False if that makes no difference."""
        was_quick, self._single_precision = self._single_precision and self._quick is not None, False
        return was_quick

    def __call__(self, weights: Float) -> tuple[float, Float]:
        """Value and gradient at ``weights`` [D]; the gradient array is used again by the next call."""
        quick = self._quick(weights, self.n_threads) if self._single_precision and self._quick is not None else None
        value, gradient = self._in_blocks(weights) if quick is None else quick
        return with_terms(value, gradient, weights, self.terms, self.l2, self.n_penalised)

    def value(self, weights: Float) -> float:
        """The value alone; quicker than a call where passes are made in single precision."""
        found = None
        if self._single_precision and not self.terms and self._quick_value is not None:
            found = self._quick_value.value(weights, self.n_threads)
        if found is None:
            return self(weights)[0]
        return found + self.l2 * float(np.sum(weights[: self.n_penalised] ** 2))

    def _in_blocks(self, weights: Float) -> tuple[float, Float]:
        totals, criterion = self.totals(weights), self.criterion
        values, gradient = [], self._gradients[0].vector
        for k, (value, part) in enumerate(self.double_parts(weights, totals)):
            values.append(value)
            if k == 0:
                gradient = part if len(self.cuts.double) <= len(self._gradients) else part.copy()
            else:
                gradient += part
        if isinstance(criterion, CorpusCriterion):
            assert totals is not None
            return criterion.loss(totals), gradient
        return float(sum(values)), gradient

    # -- shard by shard ----------------------------------------------------------------------------------------------

    def totals(self, weights: Float) -> Float | None:
        """What a criterion of the corpus as a whole sums up first [K]; None for any other."""
        return np.sum(self.double_totals(weights), axis=0) if isinstance(self.criterion, CorpusCriterion) else None

    def double_totals(self, weights: Float) -> list[Float]:
        """The totals [K] of each shard."""
        assert isinstance(self.criterion, CorpusCriterion)
        laid_out, totals_of = self.part_features.lay_out(weights, self.penalties), self.criterion.totals
        runs = self.cuts.double
        return in_threads(lambda run: self._totals(run, laid_out, totals_of), runs, self.n_threads)

    def double_parts(self, weights: Float, totals: Float | None) -> Iterator[tuple[float, Float]]:
        """Losses and gradient [D] of each shard in order; the arrays of gradients are used again."""
        laid_out, criterion = self.part_features.lay_out(weights, self.penalties), self.criterion
        evaluate: Any = criterion.evaluate
        if isinstance(criterion, CorpusCriterion):
            evaluate = partial(_without_losses, criterion.gradient, totals)

        def walk(run: tuple[int, int], gradient: DenseGradient) -> float:
            return self._add_gradient(run, gradient, laid_out, evaluate)

        yield from ((v, g.vector) for v, g in in_waves(walk, self.cuts.double, self._gradients, self.n_threads))

    def single_parts(self, weights: Float) -> list[tuple[float, Float32]] | None:
        """The same in single precision, of which the gradients are copies; None where that is not used."""
        if not self._single_precision or self._quick is None:
            return None
        quick = self._quick
        return [
            (value, quick.layout.vector(*parts).astype(np.float32))
            for value, parts in quick.parts(weights, self.n_threads)
        ]

    def single_values(self, weights: Float) -> list[float] | None:
        """Losses of each shard in single precision; None where that is not used."""
        quick = self._quick_value if self._single_precision else None
        return None if quick is None else quick.values(weights, self.n_threads)

    def _totals(self, run: tuple[int, int], laid_out: Any, totals_of: Callable[..., Float]) -> Float:
        return np.sum([found for _, _, found in self._in_shard(run, laid_out, totals_of)], axis=0)

    def _add_gradient(
        self, run: tuple[int, int], gradient: DenseGradient, laid_out: Any, evaluate: Callable[..., tuple[Float, Any]]
    ) -> float:
        gradient.reset()
        total = 0.0
        for first, end, (losses, parts) in self._in_shard(run, laid_out, evaluate):
            total += float(losses.sum())
            gradient.add(self.corpus, first, end, parts)
        gradient.finish()
        return total

    def _in_shard(
        self, run: tuple[int, int], laid_out: Any, function: Callable[..., T]
    ) -> Iterator[tuple[int, int, T]]:
        """First example and end of each block, and a function of its structure, scores, annotation and weights."""
        for first, end in self.part_features.blocks(self.corpus.offsets, *run):
            lo, hi = int(self.corpus.offsets[first]), int(self.corpus.offsets[end])
            structure = self.part_features.structure(self.corpus, first, end)
            scores = self.part_features.scores(laid_out, self.corpus, first, end)
            try:
                found = function(structure, scores, self.gold.slice(lo, hi), self.sequence_weights[first:end])
            except InfeasibleError as error:
                raise InfeasibleError(first + error.sequence) from None
            yield first, end, found


def with_terms(
    value: float, gradient: Float, weights: Float, terms: Iterable[AnyObjective], l2: float, n_penalised: int
) -> tuple[float, Float]:
    """Losses and their gradient [D], which is changed, with further ``terms`` and l2 ||w||^2 added."""
    for term in terms:
        more, more_gradient = term(weights)
        value += more
        gradient += more_gradient
    if l2:
        with np.errstate(over="ignore"):  # after too large a step, which the optimizer takes back
            penalised = weights[:n_penalised]
            value += l2 * float(np.sum(penalised**2))
            gradient[:n_penalised] += 2.0 * l2 * penalised
    return value, gradient


def _without_losses(gradient: Callable[..., Any], *arguments: Any) -> tuple[Float, Any]:
    """A gradient as :meth:`Criterion.evaluate` returns it, without losses."""
    return np.zeros(0), gradient(*arguments)


# ----------------------------------------------------------------------------------------------------------------------
# Losses and gradient of chains in single precision: several times faster than block by block.
#
# For one label a position. Sums over sequences are made in double precision, those within a shard's gradient in single;
# the shards depend on the data alone, so that the result is the same for any number of threads.

SHARDS = 4
SUMS = ("cll", "softmax-margin")  # criteria of sums over labellings
IN_SINGLE_PRECISION = (*SUMS, *RISKS)  # those that also have a gradient
GIVEN_AFTER = {"memm": False, "pseudolikelihood": True}  # criteria of labels given neighbours: those after, too?
PIECES = ("piecewise", "nota")  # criteria of pieces whose contexts are free
Layout = PaddedLayout | ConditionalLayout | DeepPieceLayout | WideLayout | SegmentLayout


def unsupported_reason(
    criterion: Criterion, features: PartFeatures, gold: Gold, names: tuple[str, ...] = IN_SINGLE_PRECISION
) -> str | None:
    """Why passes in single precision by criteria with these ``names`` cannot be used, or None if they can."""
    if isinstance(features, SegmentFeatures):
        names = SUMS
    elif not isinstance(features, ChainFeatures):
        return "it goes over chains and segments"
    if criterion.name not in names:
        of = " of segments" if isinstance(features, SegmentFeatures) else ""
        return f"it is for {', '.join(names[:-1])} and {names[-1]}{of}"
    if criterion.own_form:
        return f"it does not do {criterion.own_form}"
    if isinstance(features, ChainFeatures) and not features.is_plain:
        return "it goes over first-order chains without pair features and dense features"
    if gold.allowed is not None:
        return "it needs one label for each token, and no sub-labels"
    return None


def local_unsupported_reason(criterion: Criterion, features: PartFeatures, gold: Gold) -> str | None:
    """Why the pieces of a chain cannot be trained in single precision, or None if they can."""
    if not isinstance(features, ChainFeatures) or criterion.name not in (*GIVEN_AFTER, *PIECES):
        return "it goes over chains, by criteria of their pieces"
    if criterion.own_form:
        return f"it does not do {criterion.own_form}"
    if features.order > 2:
        return "it goes over chains of order 1 and 2"
    if features.dense:
        return "it does not go over dense features"
    if criterion.predicts_fields:
        return "it predicts labels only, not observed columns"
    if gold.allowed is not None:
        return "it needs one label for each token, and no sub-labels"
    return None


class SinglePrecision:
    """Losses of a corpus, without the penalty, as a function of the weights.

    Parameters
    ----------
    layout : Layout
    shards : list of (int, int)
        Runs of sequences.
    n_threads : int
        Threads of most calls.
    """

    def __init__(self, layout: Layout, shards: list[tuple[int, int]], n_threads: int = 1) -> None:
        self.layout, self._n_threads = layout, n_threads
        self._sequences = [np.arange(first, end, dtype=np.int64) for first, end in shards]

    @cached_property
    def _gradients(self) -> list[PaddedWeights]:
        return [self.layout.zeros() for _ in range(n_alive(self._sequences, self._n_threads))]

    def values(self, weights: Float, n_threads: int) -> list[float]:
        """Losses of each shard, nan or infinite if the scores exceed the range of single precision."""
        layout, laid_out = self.layout, self.layout.lay_out(weights)
        return in_threads(lambda sequences: layout.losses(sequences, laid_out), self._sequences, n_threads)

    def value(self, weights: Float, n_threads: int) -> float | None:
        """The value alone, which takes neither a pass backward nor the memory of gradients."""
        total = float(sum(self.values(weights, n_threads)))
        return total if np.isfinite(total) else None

    def parts(self, weights: Float, n_threads: int) -> Iterator[tuple[float, PaddedWeights]]:
        """Losses and gradient of each shard in order; the arrays of gradients are used again."""
        layout, laid_out = self.layout, self.layout.lay_out(weights)
        assert not isinstance(layout, LocalLayout), "its criteria have no gradient in single precision"

        def walk(sequences: Int64, gradient: PaddedWeights) -> float:
            for part in gradient:
                part.fill(0.0)
            return layout.evaluate(sequences, laid_out, gradient)

        yield from in_waves(walk, self._sequences, self._gradients, n_threads)

    def __call__(self, weights: Float, n_threads: int) -> tuple[float, Float] | None:
        """Value and gradient [D]; None if the scores exceed the range of single precision."""
        values: list[float] = []
        totals: list[Float] = []
        for value, parts in self.parts(weights, n_threads):
            if not values:
                totals = [part.astype(np.float64) for part in parts]
            else:
                for total, part in zip(totals, parts, strict=True):
                    total += part
            values.append(value)
        value = float(sum(values))
        return (value, self.layout.vector(*totals)) if np.isfinite(value) else None


# ----------------------------------------------------------------------------------------------------------------------
# Rows of numbers with flat labels, for compiled passes over them.


class FlatRows(NamedTuple):
    """N rows of A columns with their labels.

    Parameters
    ----------
    pointer : int64 [N + 1]
    ids : int32
        Empty if each row has all columns.
    values : float64
    gold : int32 [N]
    sample_weights : float64 [N]
    costs : float64 [Y, Y]
        Of each label (last) where another is right.
    z : float
        Value of the bias' column.
    """

    pointer: Int64
    ids: Int32
    values: Float
    gold: Int32
    sample_weights: Float
    costs: Float
    z: float


def flat_rows(objective: Objective) -> FlatRows:
    """Rows, labels, weights and costs of an objective over flat labels, for kernels."""
    features, corpus, criterion = objective.features, objective.corpus, objective.criterion
    assert isinstance(features, FlatFeatures) and isinstance(corpus, FlatCorpus)
    data, n_labels = corpus.rows, features.n_labels
    costs = np.zeros((n_labels, n_labels))
    if isinstance(criterion, CostCriterion):
        costs = np.ascontiguousarray(criterion.cost.table[0])  # a row is a sequence of one position
    if corpus.is_sparse:
        pointer, ids, values = data.indptr, data.indices, data.data
    else:
        pointer = np.arange(corpus.n_sequences + 1) * features.n_columns
        ids, values = np.zeros(0, dtype=np.int32), data.ravel()
    gold, weights = np.ascontiguousarray(objective.gold.labels), np.ascontiguousarray(objective.sequence_weights)
    z = 0.0 if features.bias == "none" else float(features.scale)
    return FlatRows(pointer, ids, values, gold, weights, costs, z)
