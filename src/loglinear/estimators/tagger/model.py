"""A trained model of sequences: labels, attributes, features, weights and constraints, and inference with them.

This is what a model file holds and what :class:`loglinear.Tagger` wraps. It works on encoded corpora and label numbers;
the estimator turns users' data into those.

    SequenceInference     labellings and probabilities from part scores
      SequenceModel       part scores from features and weights; one subclass for each of :data:`MODELS`
        ChainModel        a linear chain
        SegmentModel      segments of several tokens (:mod:`~loglinear.estimators.tagger.segments`)
      CombinedModel       weighted sums of other models' part scores (:mod:`~loglinear.estimators.tagger.combined`)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Array, Arrays, Bool, Float, Int32, Int64, UInt8
from loglinear.data.columns.corpus import Attributes, Columns, offsets_of, ranges
from loglinear.errors import DataError, InfeasibleError, OptionError
from loglinear.estimators.options import forbids_unseen
from loglinear.estimators.tagger.inputs import check_feasible, constraints_of, with_seen_pairs
from loglinear.features.block import FeatureBlock, find_keys
from loglinear.features.encoding import PAIRS_ONLY, EncodedCorpus, Incidence
from loglinear.features.templates.encoder import TemplateEncoder, TemplateTable
from loglinear.features.templates.index import QuickEncoder
from loglinear.model_file import Reader, restored, stored
from loglinear.structures.chain.best import Decoder, decoder_for
from loglinear.structures.chain.features import ChainFeatures, ChainWeights, Penalties
from loglinear.structures.chain.steps import is_sparse
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.structures.constraints import Constraints
from loglinear.structures.gold import Gold
from loglinear.system import check_memory, in_threads, size_of, thread_count

if TYPE_CHECKING:  # a model that has none of these does without importing them
    from loglinear.criteria.costs import Cost
    from loglinear.features.dense import DenseColumns
    from loglinear.features.names import AttributeReader, KnownAttributes, NameEncoder
    from loglinear.generative.base import Base, HmmBase, OwnBase
    from loglinear.structures.chain.listed import ListedChain, ListedFeatures, ListedScores

# ----------------------------------------------------------------------------------------------------------------------
# Inference with anything that scores the parts of sequences: labellings, probabilities, expected costs.
#
# A model may split each label into k hidden *sub-labels* (state ``y * k + j`` is sub-label j of label y). Its part
# scores are then over the Y k states, while all that goes in and comes out here is about the Y labels: the probability
# of a label is the sum over its sub-labels, that of a labelling the sum over all its labellings by sub-labels.


Ranked = tuple[Int32, Float]
R = TypeVar("R")

MOST_PATHS = 4096  # labellings by sub-labels looked through for distinct labellings


class SequenceInference(ABC):
    """Inference block by block in threads, given part scores.

    Attributes
    ----------
    labels : list of str
        The Y labels.
    sub_labels : int
        k, the hidden states of each label; 1 if the labels are the states.
    encoder : TemplateEncoder or NameEncoder
        Makes attributes of a corpus.
    base : Base or None
        A generative model whose log-probabilities are added to the scores (:mod:`~loglinear.generative.base`).
    """

    cached: ClassVar[tuple[str, ...]]  #: names of cached properties, which are not pickled
    labels: list[str]
    sub_labels: int = 1
    encoder: TemplateEncoder | NameEncoder
    base: Base | None = None

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: everything but the cached properties."""
        return {name: value for name, value in self.__dict__.items() if name not in self.cached}

    @property
    def why_infeasible(self) -> str:
        """What besides constraints and given labels may leave a sequence without a labelling, for error messages."""
        return ""

    @property
    def takes_rows(self) -> bool:
        """Whether a token is a row of columns, not a collection of features."""
        return isinstance(self.encoder, TemplateEncoder)

    @property
    def input_columns(self) -> set[int]:
        """The columns that features look at; none if tokens come as features."""
        return set(self.encoder.templates.columns) if isinstance(self.encoder, TemplateEncoder) else set()

    @property
    def one_by_one(self) -> bool:
        """Whether sequences have to be scored one at a time, in a single thread."""
        return False

    @property
    def known_attributes(self) -> KnownAttributes | None:
        """Reads a user's features into numbers of the encoder's attributes; None if other names count as well."""
        return None

    def encode(self, corpus: Columns | Attributes, n_threads: int = 1) -> Any:
        """A corpus in numbers, as this model looks at it."""
        return self.encoder.transform(corpus, n_threads)  # type: ignore[arg-type]  # the encoder's kind of corpus

    def labels_of_sentence(self, x: Any) -> list[str] | None:
        """Best labels of one sentence of the user's, at low latency; None if the general path has to label it."""
        return None

    def structure(self, corpus: Any, first: int, end: int) -> Any:
        """The shape of sequences ``first`` to ``end``."""
        return Chain(corpus.offsets[first : end + 1] - corpus.offsets[first])

    @abstractmethod
    def part_scores(self, corpus: Any, first: int, end: int) -> Any:
        """Part scores of sequences ``first`` to ``end``, with what is ruled out at -inf."""

    @abstractmethod
    def blocks(self, corpus: Any) -> list[tuple[int, int]]:
        """All sequences in runs whose part scores stay small."""

    def decode(
        self,
        corpus: Any,
        allowed: UInt8 | None = None,
        decoding: str = "viterbi",
        n_threads: int = 1,
        cost: Cost | None = None,
    ) -> Int32:
        """Best label of each position [N], of those the constraints and ``allowed`` [N, Y] leave.

        ``viterbi``: the most probable labelling (by sub-labels, if there are any); ``posterior``: that with the
        greatest sum of its labels' marginals; ``min-risk``: that with the least expected ``cost``.
        """

        if decoding == "viterbi":
            return self.viterbi(corpus, allowed, n_threads)

        def best(structure: Any, scores: Any, positions: slice) -> Int32:
            values = self._label_marginals(structure, scores)
            if decoding == "min-risk" and cost is not None:
                values = -cost.expected(values, structure.offsets)
            states = np.repeat(values, self.sub_labels, axis=1)
            return structure.best_possible(scores, states)[0] // self.sub_labels

        return _joined(self.map_blocks(corpus, allowed, n_threads, best), np.int32)

    def viterbi(self, corpus: Any, allowed: UInt8 | None, n_threads: int) -> Int32:
        """Labels [N] of the most probable labelling of each sequence."""
        blocks = self.map_blocks(
            corpus, allowed, n_threads, lambda structure, scores, positions: structure.viterbi(scores)[0]
        )
        return _joined(blocks, np.int32) // self.sub_labels

    def marginals(self, corpus: Any, allowed: UInt8 | None = None, n_threads: int = 1) -> Float:
        """Probability of each label at each position [N, Y]."""
        blocks = self.map_blocks(
            corpus, allowed, n_threads, lambda structure, scores, positions: self._label_marginals(structure, scores)
        )
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.labels)))

    def confidence(self, corpus: Any, labels: Int32, allowed: UInt8 | None = None, n_threads: int = 1) -> Float:
        """Probability [N] of the label that each position has in ``labels`` [N], without all others' in memory."""

        def of(structure: Any, scores: Any, positions: slice) -> Float:
            own = labels[positions]
            return self._label_marginals(structure, scores)[np.arange(len(own)), own]

        return _joined(self.map_blocks(corpus, allowed, n_threads, of), np.float64)

    def n_best(self, corpus: Any, k: int, allowed: UInt8 | None = None, n_threads: int = 1) -> list[Ranked]:
        """For each sequence its best labellings [K, T] and their probabilities [K], K <= k.

        With sub-labels they are the k labellings that have the best labellings by sub-labels, the most probable first.
        """

        def best(structure: Any, scores: Any, positions: slice) -> list[Ranked]:
            log_z = structure.log_partition(scores)
            if self.sub_labels > 1:
                return [_sorted(*ranked) for ranked in self._distinct(structure, scores, k, log_z)]
            ranked = structure.k_best(scores, k)
            return [(labels, _probability(score - z)) for (labels, score), z in zip(ranked, log_z, strict=True)]

        return list(chain.from_iterable(self.map_blocks(corpus, allowed, n_threads, best)))

    def log_probability(self, corpus: Any, labels: Int32, n_threads: int = 1) -> Float:
        """log p(labels given sequence) of each sequence [S]; ``labels`` is [N]."""

        def log_p(structure: Any, scores: Any, positions: slice) -> Float:
            log_z = structure.log_partition(scores)
            if self.sub_labels == 1:
                return structure.score(scores, labels[positions]) - log_z
            return structure.log_partition(self._only(structure, scores, labels[positions])) - log_z

        return _joined(self.map_blocks(corpus, None, n_threads, log_p), np.float64)

    def span_probabilities(
        self,
        corpus: Any,
        labels: Int32,
        spans: tuple[Int64, Int64],
        ends: Bool,
        allowed: UInt8 | None = None,
        n_threads: int = 1,
    ) -> Float:
        """Probability of each of M spans: that its tokens have their ``labels`` and that it ends where it does.

        Parameters
        ----------
        corpus
            Of N positions.
        labels : int32 [N]
        spans : int64 [M], int64 [M]
            First positions, and those after the last; in order, and none across sequences.
        ends : bool [Y, Y]
            Whether a span ends between a label (row) and the next one (column).
        allowed : uint8 [N, Y], optional
            The labels that are possible.
        n_threads : int

        A pass over the sequences that have them for every first, second, ... span.
        """

        def log_p(structure: Any, scores: Any, positions: slice) -> Float:
            first, last = np.searchsorted(spans[0], [positions.start, positions.stop])
            starts, stops = (place[first:last] - positions.start for place in spans)
            sequence = np.searchsorted(structure.offsets, starts, side="right") - 1
            rank = np.arange(len(starts)) - np.searchsorted(sequence, sequence)
            own, log_z, found = labels[positions], structure.log_partition(scores), np.empty(len(starts))
            for r in range(int(rank.max(initial=-1)) + 1):
                chosen = np.flatnonzero(rank == r)
                mask = np.ones((len(own), len(self.labels)), dtype=np.uint8)
                inside = ranges(starts[chosen], stops[chosen] - starts[chosen])
                mask[inside] = np.arange(len(self.labels)) == own[inside, None]
                before_end = chosen[stops[chosen] < structure.offsets[sequence[chosen] + 1]]
                mask[stops[before_end]] = ends[own[stops[before_end] - 1]]
                only = structure.restrict(scores, np.repeat(mask, self.sub_labels, axis=1))
                found[chosen] = (structure.log_partition(only) - log_z)[sequence[chosen]]
            return found

        return _probability(_joined(self.map_blocks(corpus, allowed, n_threads, log_p), np.float64))

    def _only(self, structure: Any, scores: Any, labels: Int32) -> Any:
        """The scores with all but the sub-labels of ``labels`` [N] ruled out."""
        mask = np.arange(len(self.labels)) == labels[:, None]
        return structure.restrict(scores, np.repeat(mask, self.sub_labels, axis=1))

    def _label_marginals(self, structure: Any, scores: Any) -> Float:
        states = structure.expectations(scores)[1].emission
        np.minimum(states, 1.0, out=states)  # great scores leave rounding errors that are great, too
        return states if self.sub_labels == 1 else states.reshape(len(states), -1, self.sub_labels).sum(axis=2)

    def _distinct(self, structure: Any, scores: Any, k: int, log_z: Float) -> list[Ranked]:
        """For each sequence at most ``k`` distinct labellings with their probabilities, the sub-labels summed out."""
        n_paths = k * self.sub_labels
        while True:
            paths = structure.k_best(scores, n_paths)
            found = [_first_distinct(states // self.sub_labels, k) for states, _ in paths]
            unfinished = [
                len(labels) < k and len(states) == n_paths for labels, (states, _) in zip(found, paths, strict=True)
            ]
            if not any(unfinished) or n_paths >= MOST_PATHS:
                break
            n_paths *= 2
        probabilities = [np.zeros(len(labels)) for labels in found]
        for rank in range(max(map(len, found))):
            chosen = np.concatenate([labels[min(rank, len(labels) - 1)] for labels in found])
            log_p = structure.log_partition(self._only(structure, scores, chosen)) - log_z
            for i, each in enumerate(probabilities):
                if rank < len(each):
                    each[rank] = _probability(log_p[i])
        return list(zip(found, probabilities, strict=True))

    def map_blocks(
        self, corpus: Any, allowed: UInt8 | None, n_threads: int, operation: Callable[[Any, Any, slice], R]
    ) -> list[R]:
        """``operation(structure, scores, positions)`` for each block of sequences, in order."""

        def run(block: tuple[int, int]) -> R:
            first, end = block
            lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
            structure, scores = self.structure(corpus, first, end), self.part_scores(corpus, first, end)
            if allowed is not None:
                scores = structure.restrict(scores, np.repeat(allowed[lo:hi], self.sub_labels, axis=1))
            try:
                return operation(structure, scores, slice(lo, hi))
            except InfeasibleError as error:
                raise InfeasibleError(first + error.sequence, self.why_infeasible) from None

        return in_threads(run, self.blocks(corpus), 1 if self.one_by_one else n_threads)


def _probability(log_p: Any) -> Any:
    """exp(log_p), at most 1: great scores leave rounding errors that are great, too."""
    return np.exp(np.minimum(log_p, 0.0))


def _first_distinct(labellings: Int32, k: int) -> Int32:
    """The first ``k`` distinct rows, in their order."""
    _, place = np.unique(labellings, axis=0, return_index=True)
    return labellings[np.sort(place)[:k]]


def _sorted(labels: Int32, probabilities: Float) -> Ranked:
    order = np.argsort(-probabilities, kind="stable")
    return labels[order], probabilities[order]


def _joined(blocks: list[npt.NDArray[R]], dtype: type[R]) -> npt.NDArray[R]:  # type: ignore[type-var]  # any scalar type
    return np.concatenate(blocks) if blocks else np.zeros(0, dtype=dtype)


# ----------------------------------------------------------------------------------------------------------------------
# The model.

Corpus = Columns | Attributes
ANY_LABEL, START = "(any label)", "(start)"
MODELS = {
    "chain": "loglinear.estimators.tagger.model:ChainModel",
    "segments": "loglinear.estimators.tagger.segments:SegmentModel",
}  #: the class of model by the structure it has, imported when one is asked for


def model_class(structure: str) -> type[SequenceModel]:
    """The class of models of a structure."""
    module, name = MODELS[structure].split(":")
    found: type[SequenceModel] = getattr(import_module(module), name)
    return found


class TrainingData(NamedTuple):
    """What an untrained model is made from.

    options : TaggerOptions
    corpus : Columns or Attributes
    encoder : TemplateEncoder or NameEncoder
        New; it is fitted to the corpus.
    gold : Gold
        The annotation over ``labels``.
    labels : list of str
    transitions : {"observed", "all", "none"}
        Which label bigrams get a weight.
    input_only : bool
        Whether attributes also have a weight that does not depend on the label.
    known : SequenceModel or None
        A trained model all of whose attributes and features the new one is to have; its labels are among ``labels``.
    """

    options: Any
    corpus: Corpus
    encoder: TemplateEncoder | NameEncoder
    gold: Gold
    labels: list[str]
    transitions: str
    input_only: bool
    known: SequenceModel | None = None


@dataclass
class SequenceModel(SequenceInference):
    """Features of sequences with their weights.

    Parameters
    ----------
    labels : list of str
        The Y labels of tokens.
    encoder : TemplateEncoder or NameEncoder
        Makes attributes of a corpus.
    features : PartFeatures
    weights : float64 [D]
    constraints : Constraints or None
    """

    structure_name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]  #: the kinds of features, in the order of the weights
    cached: ClassVar[tuple[str, ...]] = ("penalties", "laid_out")

    labels: list[str]
    encoder: TemplateEncoder | NameEncoder
    features: Any
    weights: Float
    constraints: Constraints | None = None

    @classmethod
    @abstractmethod
    def collect(cls, data: TrainingData) -> tuple[Self, Any, Gold]:
        """The untrained model of a training corpus, the corpus in numbers and its annotation."""

    @classmethod
    @abstractmethod
    def from_storage(cls, read: Reader, labels: list[str], encoder: TemplateEncoder | NameEncoder) -> Self:
        """The model that a file holds, with weights of zero and without constraints."""

    @abstractmethod
    def to_storage(self) -> tuple[dict[str, Any], Arrays]:
        """What :meth:`from_storage` reads: entries of a model file's header, and arrays."""

    @abstractmethod
    def counts(self, corpus: Any, labels: Int32) -> Any:
        """Feature counts of each sequence's labelling, a sparse matrix [S, D]."""

    @abstractmethod
    def named(self, kind: str) -> dict[tuple[str, ...], float]:
        """The weights of a kind of features by what they look at; empty for a kind that the model does not have."""

    @abstractmethod
    def weights_from(self, other: SequenceModel) -> Float:
        """A start for this model's weights: those of ``other`` where it has the same feature, else zero."""

    @abstractmethod
    def keeping(self, kept: Bool) -> Self:
        """The same model with the features where ``kept`` [D] only, and the attributes that still have one."""

    @property
    def order(self) -> int:
        """How many labels back a label depends on."""
        return 1

    @cached_property
    def penalties(self) -> Any:
        """The constraints as scores, in the form that the features take."""
        raise NotImplementedError

    @cached_property
    def laid_out(self) -> Any:
        """The weights prepared for scoring."""
        return self.features.lay_out(np.ascontiguousarray(self.weights, dtype=np.float64), self.penalties)

    @property
    def feature_counts(self) -> dict[str, int]:
        """How many features of each kind :meth:`named` lists."""
        return {kind: part.stop - part.start for kind, part in zip(self.kinds, self.features.slices, strict=True)}

    def with_weights(self, weights: Float) -> Self:
        """The same model with other weights."""
        return replace(self, weights=weights)

    def compacted(self) -> Self:
        """The same model without the features of weight zero."""
        return self.keeping(self.weights != 0.0)

    def pruned(self, keep: int) -> Self:
        """The same model with its ``keep`` greatest weights only; of equal ones, the first."""
        sizes = np.abs(self.weights)
        if keep >= len(sizes):
            return self.compacted()
        bound = np.partition(sizes, len(sizes) - keep)[len(sizes) - keep] if keep else np.inf
        kept = sizes > bound
        kept[np.flatnonzero(sizes == bound)[: keep - int(kept.sum())]] = True
        return self.keeping(kept & (sizes > 0.0))

    def rounded(self, precision: str) -> Self:
        """The same model with weights that numbers of that precision hold, without those that they make zero."""
        return self.with_weights(restored(*stored(self.weights, precision))).compacted()

    @property
    def shown_kinds(self) -> tuple[str, ...]:
        """The kinds of features that this model has, for those who look into it."""
        return (*self.kinds, "dense") if self.features.n_features and "dense" in self.feature_counts else self.kinds

    @property
    def states(self) -> list[str]:
        """Names of the states: the labels, or ``label#j`` for sub-label j."""
        if self.sub_labels == 1:
            return self.labels
        return [f"{label}#{j}" for label in self.labels for j in range(self.sub_labels)]

    @property
    def shown_labels(self) -> list[str]:
        """The labels that features are listed by, for those who look into a model."""
        return self.labels

    def states_of(self, labels: list[str]) -> list[str]:
        """Names of the states of these labels."""
        wanted = set(labels)
        return [state for y, state in enumerate(self.states) if self.labels[y // self.sub_labels] in wanted]

    @property
    def hmm_base(self) -> HmmBase:
        """The base of a model that is known to have a hidden Markov model as such."""
        from loglinear.generative.base import HmmBase

        assert isinstance(self.base, HmmBase)
        return self.base

    def structure(self, corpus: Any, first: int, end: int) -> Any:
        return self.features.structure(corpus, first, end)

    def part_scores(self, corpus: Any, first: int, end: int) -> Any:
        return self.features.scores(self.laid_out, corpus, first, end)

    def blocks(self, corpus: Any) -> list[tuple[int, int]]:
        if self.one_by_one:
            return [(i, i + 1) for i in range(corpus.n_sequences)]
        runs: list[tuple[int, int]] = self.features.blocks(corpus.offsets, 0, corpus.n_sequences)
        return runs

    def matching_attributes(self, other: SequenceModel) -> Int32:
        """For each of ``other``'s attributes, the number of the same attribute here, or -1."""
        if type(self.encoder) is not type(other.encoder):
            return np.full(other.encoder.n_attributes, -1, dtype=np.int32)
        return self.encoder.matching(other.encoder)  # type: ignore[arg-type]  # same class, just checked


def list_arrays(part: str, block: FeatureBlock) -> Arrays:
    """Feature lists as arrays of a model file."""
    return {f"{part}.counts": _narrow(np.diff(block.pointer)), f"{part}.codes": _narrow(block.codes)}


def read_lists(read: Reader, part: str, n_attributes: int, n_codes: int) -> FeatureBlock:
    """What :func:`list_arrays` gave, every bound checked."""
    return FeatureBlock(*read.lists(f"{part}.counts", f"{part}.codes", n_attributes, n_codes), n_codes)


def _narrow(numbers: Array) -> Array:
    """Numbers from 0 up as bytes where all of them fit, else as int32."""
    return numbers.astype(np.uint8 if not len(numbers) or numbers.max() < 256 else np.int32)


# ----------------------------------------------------------------------------------------------------------------------
# Linear chains.

MOST_SCALING = 1e6
MOST_SCORES = 2**31  # numbers in a table of scores, 16 GB
MOST_FOURGRAMS = 2**27  # the same of label 4-grams, 1 GB: a pass keeps several such tables for each thread
TABLES = 6  # of the scores of label n-grams that training holds, with few threads
LONG = 256  # tokens of a sequence that there should be room for
LABELS_OF = {"state": 1, "edge": 2, "transition": 2, "trigram": 3, "fourgram": 4}  # how many labels a kind looks at


@dataclass
class ChainModel(SequenceModel):
    """A chain model with weights.

    Parameters
    ----------
    labels, encoder, weights, constraints
        As for every :class:`SequenceModel`.
    features : ChainFeatures
    local : bool
        Whether its pieces are normalised one by one (an MEMM) instead of the chain as a whole.
    sub_labels : int
        Hidden states of each label.
    scaling : float64 [Y + 1] or None
        What the pieces after each label, and the first one, are multiplied by (:mod:`~loglinear.criteria.local`).
    base : Base or None
        A generative model whose log-probabilities are added to the scores (:mod:`~loglinear.generative.base`).
    dense : DenseColumns or None
        What makes dense features of a corpus, if there are any.
    """

    structure_name = "chain"
    kinds = tuple(LABELS_OF)
    cached = ("penalties", "laid_out", "decoder", "listed", "known_attributes", "_sentences")

    features: ChainFeatures
    local: bool = False
    sub_labels: int = 1
    scaling: Float | None = None
    base: Base | None = None
    dense: DenseColumns | None = None

    @classmethod
    def collect(cls, data: TrainingData) -> tuple[Self, EncodedCorpus, Gold]:
        from loglinear.features.stored import fitted

        options, corpus, encoder, gold, labels, transitions, input_only, known = data
        n_threads = thread_count(options.threads)
        encoder, encoded = fitted(encoder, corpus, options.min_count, n_threads)
        dense = known.dense if isinstance(known, ChainModel) else None  # its columns are standardised as they were
        if known is None and (corpus.dense is not None or options.vectors is not None):
            from loglinear.features.dense import DenseColumns, vectors_of

            dense = DenseColumns.fit(corpus, options.standardise, vectors_of(options.vectors))
        if known is not None:
            from loglinear.features.joined import joined

            encoder = joined(known.encoder, encoder)
            encoded = encoder.transform(corpus, n_threads)
            if dense is None and corpus.dense is not None:
                raise OptionError(f"the model so far has no dense features; leave out {', '.join(corpus.dense)}")
        encoded = encoded if dense is None else replace(encoded, dense=dense.matrix(corpus))
        check_size(len(labels) * options.sub_labels, options.order, encoded.edge is not None)
        constraints = constraints_of(options.constraints, labels)
        check_feasible(encoded, gold, penalties_of(constraints, labels), corpus)
        if forbids_unseen(options):
            constraints = with_seen_pairs(constraints, labels, encoded.offsets, gold)
        gold = gold.split(options.sub_labels, len(labels))
        states = "all" if options.states == "all" else "observed"  # probable ones come later
        features = ChainFeatures.collect(
            encoded, encoder.n_attributes, gold, len(labels) * options.sub_labels, options.order, states, transitions,
            _input_attributes(encoder) if input_only else None,
        )  # fmt: skip
        zeros, k = np.zeros(features.n_features), options.sub_labels
        model = cls(labels, encoder, features, zeros, constraints, sub_labels=k, dense=dense)
        return (model if known is None else model.with_features_of(known)), encoded, gold

    @classmethod
    def from_storage(cls, read: Reader, labels: list[str], encoder: TemplateEncoder | NameEncoder) -> Self:
        options, order = read.section("options"), read.choice("order", (1, 2, 3))
        sub_labels = read.integer("sub_labels", 1, default=1)
        if (order, sub_labels) != (options.value("order"), options.value("sub_labels", 1)):
            read.fail("order", "the model is of another order, or has other sub-labels, than its options say")
        n = len(labels) * sub_labels
        has_edges = "edge.counts" in read.arrays
        plain = order == 1 and not (has_edges or read.has("base") or read.flag("local") or "scaling" in read.arrays)
        read.room("order" if order > 1 else "sub_labels", _use_of(n, order, has_edges, plain))
        dense = None
        if read.has("dense"):
            from loglinear.features.dense import DenseColumns

            dense = DenseColumns.from_storage(read.section("dense"))
        features = ChainFeatures(
            n_labels=n,
            order=order,
            dense=0 if dense is None else dense.n_columns,
            state=read_lists(read, "state", encoder.n_attributes, n + read.flag("input_only", False)),
            edge=read_lists(read, "edge", encoder.n_attributes, n**2) if "edge.counts" in read.arrays else None,
            transitions=read.ints("transitions", (None,), n**2),
            trigrams=read.ints("trigrams", (None,), n**3 if order > 1 else 0),
            fourgrams=read.ints("fourgrams", (None,), n**4) if order == 3 else np.zeros(0, dtype=np.int32),
        )
        scaling = read.floats("scaling", (n + 1,), -MOST_SCALING, MOST_SCALING) if "scaling" in read.arrays else None
        local, zeros = read.flag("local"), np.zeros(features.n_features)
        return cls(labels, encoder, features, zeros, local=local, sub_labels=sub_labels, scaling=scaling, dense=dense)

    def to_storage(self) -> tuple[dict[str, Any], Arrays]:
        features = self.features
        arrays: Arrays = {
            **list_arrays("state", features.state),
            "transitions": features.transitions,
            "trigrams": features.trigrams,
        }
        if features.order == 3:
            arrays["fourgrams"] = features.fourgrams
        if self.scaling is not None:
            arrays["scaling"] = self.scaling.astype(np.float64)
        if features.edge is not None:
            arrays |= list_arrays("edge", features.edge)
        header: dict[str, Any] = {
            "order": features.order,
            "local": self.local,
            "sub_labels": self.sub_labels,
            "input_only": features.input_only,
        }
        if self.dense is not None:
            header["dense"] = self.dense.to_header()
            arrays |= {f"dense.{name}": array for name, array in self.dense.to_arrays().items()}
        return header, arrays

    @property
    def order(self) -> int:
        return self.features.order

    @property
    def by_source(self) -> bool:
        """Whether attributes are joined with label pairs alone (:meth:`EncodedCorpus.by_source`)."""
        return self.encoder.pair_features == PAIRS_ONLY

    @cached_property
    def penalties(self) -> Penalties:
        return penalties_of(self.constraints, self.labels).split(self.sub_labels)

    @cached_property
    def decoder(self) -> Decoder | None:
        """The weights laid out for finding best labellings; None if that needs part scores."""
        plain = self.base is None and self.scaling is None and not self.local
        if not plain or not Decoder.suits(self.features):
            return None
        return decoder_for(self.features, np.ascontiguousarray(self.weights, dtype=np.float64), self.penalties)

    @cached_property
    def listed(self) -> ListedFeatures | None:
        """The features in the form whose part scores are lists; None unless there are many labels, few transitions."""
        plain = self.base is None and self.scaling is None and Decoder.suits(self.features)
        if not plain or not is_sparse(self.features, self.penalties):
            return None
        from loglinear.structures.chain.listed import ListedFeatures

        return ListedFeatures.of(self.features, self.penalties)

    @cached_property
    def laid_out(self) -> ChainWeights:
        weights = np.ascontiguousarray(self.weights, dtype=np.float64)
        return (self.listed or self.features).lay_out(weights, self.penalties)

    def structure(self, corpus: EncodedCorpus, first: int, end: int) -> Chain | ListedChain:
        return (self.listed or self.features).structure(corpus, first, end)

    @cached_property
    def known_attributes(self) -> KnownAttributes | None:
        if self.base is not None or self.encoder.kind != "names":
            return None
        from loglinear.features.names import KnownAttributes

        return KnownAttributes(self.encoder.vocabulary)  # type: ignore[union-attr]  # it has names

    @cached_property
    def _sentences(self) -> SentenceDecoder | None:
        return None if self.decoder is None else SentenceDecoder.of(self)

    def labels_of_sentence(self, x: Any) -> list[str] | None:
        """Best labels of one sentence of the user's, at low latency; None if the general path has to label it.

        That is so for models that no :class:`Decoder` suits, and for anything but a plain, valid sentence.
        """
        return None if self._sentences is None else self._sentences.labels_of(x)

    def keeping(self, kept: Bool) -> Self:
        if kept.all():
            return self
        features, used = self.features.keeping(kept)
        dense = self.features.dense_slice  # one matrix: weights that are not kept are zero
        weights = [self.weights[: dense.start][kept[: dense.start]], np.where(kept[dense], self.weights[dense], 0.0)]
        return replace(self, encoder=self.encoder.keeping(used), features=features, weights=np.concatenate(weights))

    def part_scores(self, corpus: EncodedCorpus, first: int, end: int) -> ChainScores | ListedScores:
        scores: Any = (self.listed or self.features).scores(self.laid_out, corpus, first, end)
        if self.base is not None:
            if not self.base.has_parts:
                raise OptionError(
                    "the base has no method scores(x, labels), so that sums over labellings cannot be worked out: "
                    "there are no probabilities, and no decoding but an approximate 'viterbi'"
                )
            scores = scores.plus(self.base.scores(corpus, first, end))
        if self.scaling is None and not self.local:
            return scores
        from loglinear.criteria.local import locally_normalised, scaled

        structure: Any = self.structure(corpus, first, end)
        if self.scaling is not None:
            scores = scaled(structure, scores, self.scaling)
        return locally_normalised(structure, scores) if self.local else scores

    @property
    def why_infeasible(self) -> str:
        if self.base is None:
            return ""
        from loglinear.generative.base import HmmBase
        from loglinear.generative.hmm.model import possible_steps

        if not isinstance(self.base, HmmBase):
            return ""
        hmm, rules = self.base.model, self.penalties
        transitions, starts, ends = map(np.isfinite, (rules.transition, rules.start, rules.stop))
        steps = possible_steps(transitions, starts, ends, hmm.order)
        unmet = {
            "smoothing": any((table == 0.0).any() for table in hmm.emissions),
            "transition_smoothing": bool((hmm.steps[steps] == 0.0).any()),
        }
        given = ",".join(f"{option}=0.1" for option, zero in unmet.items() if zero)
        if not given:
            return ""
        remedy = f"hmm:{given}, m-estimation:{given}"
        return f"; what was not met in training has probability zero unless smoothed ({remedy})"

    def encode(self, corpus: Corpus, n_threads: int = 1) -> EncodedCorpus:
        known = corpus if self.base is None else self.base.prepare(corpus)
        encoded: EncodedCorpus = super().encode(known, n_threads)
        if self.dense is not None:
            encoded = replace(encoded, dense=self.dense.matrix(known))
        elif known.dense is not None:
            names = ", ".join(map(repr, known.dense))
            raise DataError(f"the model was trained without the dense features {names}", known.name)
        return encoded if self.base is None else self.base.attach(encoded, known)

    @property
    def one_by_one(self) -> bool:
        return self.base is not None and self.base.one_by_one

    def viterbi(self, corpus: EncodedCorpus, allowed: UInt8 | None, n_threads: int) -> Int32:
        if self.decoder is not None:
            return self._quickly_decoded(self.decoder, corpus, allowed, n_threads)
        if self.base is None or self.base.has_parts:
            return super().viterbi(corpus, allowed, n_threads)
        own = cast("OwnBase", self.base)  # no other base is without parts
        labels = np.empty(corpus.n_positions, dtype=np.int32)
        for i in range(corpus.n_sequences):
            lo, hi = corpus.offsets[i : i + 2].tolist()
            scores = self.features.scores(self.laid_out, corpus, i, i + 1)
            if allowed is not None:
                scores = Chain([0, hi - lo]).restrict(scores, allowed[lo:hi])
            try:
                labels[lo:hi] = best_found(scores, own.scorer(corpus, i), own.candidates)
            except InfeasibleError:
                raise InfeasibleError(i) from None
        return labels

    def _quickly_decoded(self, decoder: Decoder, corpus: EncodedCorpus, allowed: UInt8 | None, n_threads: int) -> Int32:
        mask = None if allowed is None else np.repeat(allowed, self.sub_labels, axis=1)

        def best(run: tuple[int, int]) -> Int32:
            try:
                return decoder.decode(corpus, *run, mask)
            except InfeasibleError as error:
                raise InfeasibleError(run[0] + error.sequence) from None

        return _joined(in_threads(best, self.blocks(corpus), n_threads), np.int32) // self.sub_labels

    # -- the weights by name -------------------------------------------------------------------------------------

    def counts(self, corpus: EncodedCorpus, labels: Int32) -> Any:
        from loglinear.generative.m_estimation import sentence_counts

        return sentence_counts(self.features, corpus, labels)

    def named(self, kind: str) -> dict[tuple[str, ...], float]:
        """The weights of a kind of features by attribute, if they look at one, and labels; see :data:`LABELS_OF`.

        Features that look at no label have :data:`ANY_LABEL`. With features per source state, those of first positions
        are edges from :data:`START`, and there are no others of states.
        """
        if kind == "dense":
            columns = [] if self.dense is None else self.dense.names()
            table = self.weights[self.features.dense_slice].tolist()
            return dict(zip(((name, state) for name in columns for state in self.states), table, strict=True))
        if not self.by_source or kind not in ("state", "edge"):
            return self._named(kind)
        if kind == "state":
            return {}
        firsts = {(attribute, START, label): weight for (attribute, label), weight in self._named("state").items()}
        return firsts | self._named("edge")

    @property
    def feature_counts(self) -> dict[str, int]:
        counts = super().feature_counts
        counts |= {"dense": self.features.dense * self.features.n_labels} if self.features.dense else {}
        return counts | {"state": 0, "edge": counts["state"] + counts["edge"]} if self.by_source else counts

    def _named(self, kind: str) -> dict[tuple[str, ...], float]:
        """The weights of the block of features of that kind by name."""
        features, n = self.features, self.features.n_labels
        block = {"state": features.state, "edge": features.edge}.get(kind)
        if kind not in self.kinds or (kind == "edge" and block is None):
            return {}
        if block is not None:
            codes, attributes = block.codes, self.encoder.names()
            names = [[attributes[a] for a in (block.keys // block.n_codes).tolist()]]
        else:
            codes, names = getattr(features, f"{kind}s"), []
        states = [*self.states, ANY_LABEL]
        digits = [codes] if kind == "state" else [codes // n**k % n for k in reversed(range(LABELS_OF[kind]))]
        names += [[states[y] for y in digit.tolist()] for digit in digits]
        weights = self.weights[features.slices[self.kinds.index(kind)]].tolist()
        return dict(zip(zip(*names, strict=True), weights, strict=True))

    def weights_from(self, other: SequenceModel) -> Float:
        return self.placing(other)(other.weights)

    def placing(self, other: SequenceModel) -> Callable[[Float], Float]:
        """A function from a number for each feature of ``other`` to one for each of mine: the same one, else zero."""
        same, dense = list(self._same_features(other)), list(self._same_dense(other))

        def placed(numbers: Float) -> Float:
            mine = np.zeros(self.features.n_features)
            for here, there in same:
                mine[here] = numbers[there]
            for here, there, scales in dense:
                mine[here] = numbers[there] * scales
            return mine

        return placed

    def shared_with(self, other: SequenceModel) -> Bool:
        """Which of the features [D] ``other`` has, too."""
        shared = np.zeros(self.features.n_features, dtype=np.bool_)
        for mine, *_ in (*self._same_features(other), *self._same_dense(other)):
            shared[mine] = True
        return shared

    def with_features_of(self, other: SequenceModel) -> Self:
        """The same model, untrained, with all features of ``other``, whose labels and attributes it has."""
        keys = list(self._keys_of(other))
        every = [np.concatenate([their_keys[part] for _, their_keys in keys]) for part in range(len(self.kinds))]
        features = self.features.with_keys([each[each >= 0] for each in every])
        return replace(self, features=features, weights=np.zeros(features.n_features))

    def _matching_states(self, other: ChainModel) -> list[Int64]:
        """Numbers of ``other``'s states among mine, -1 where missing; one list for each copy that is to be made.

        A model without sub-labels is copied into each of mine.
        """
        if other.sub_labels == self.sub_labels:
            number = {state: y for y, state in enumerate(self.states)}
            return [np.array([number.get(state, -1) for state in other.states], dtype=np.int64)]
        if other.sub_labels > 1:
            raise OptionError(
                f"the model to start from has {other.sub_labels} sub-labels, this one {self.sub_labels}; "
                "give it as many, or start from one without"
            )
        number = {label: y for y, label in enumerate(self.labels)}
        first = np.array([number.get(label, -1) for label in other.labels], dtype=np.int64)
        return [np.where(first < 0, -1, first * self.sub_labels + j) for j in range(self.sub_labels)]

    def _same_features(self, other: SequenceModel) -> Iterator[tuple[Int64, Int64]]:
        """Places of features in my weights, and of the same ones in those of ``other``, for each copy of a part."""
        for my_keys, their_keys in self._keys_of(other):
            for part, theirs, mine, slices in zip(
                my_keys, their_keys, self.features.slices, other.features.slices, strict=True
            ):
                place = find_keys(part, theirs)
                found = np.flatnonzero(place >= 0)
                yield mine.start + place[found], slices.start + found

    def _same_dense(self, other: SequenceModel) -> Iterator[tuple[Int64, Int64, Float]]:
        """The same of dense columns, as [columns, labels], with factors so that the numbers as given weigh the same."""
        if self.dense is None or not isinstance(other, ChainModel) or other.dense is None:
            return
        mine, theirs, columns = self.features, other.features, self.dense.places_of(other.dense)
        k = np.flatnonzero(columns >= 0)
        scales = self.dense.scale[columns[k]] / other.dense.scale[k]
        for same_state in self._matching_states(other):
            y = np.flatnonzero(same_state >= 0)
            here = mine.dense_slice.start + columns[k, None] * mine.n_labels + same_state[y]
            yield here, theirs.dense_slice.start + k[:, None] * theirs.n_labels + y, scales[:, None]

    def _keys_of(self, other: SequenceModel) -> Iterator[tuple[list[Array], list[Int64]]]:
        """For each copy: keys of my features, and those that ``other``'s features have here or -1, part by part."""
        if not isinstance(other, ChainModel):
            raise OptionError(f"the model to start from is one of {other.structure_name}, this one a chain")
        attributes = self.matching_attributes(other).astype(np.int64)
        for same_state in self._matching_states(other):
            yield self._keys(other, attributes, same_state)

    def _keys(self, other: ChainModel, attributes: Int64, same_state: Int64) -> tuple[list[Array], list[Int64]]:
        """The keys, given the number here of each attribute and state of ``other``, or -1."""
        n, m = self.features.n_labels, other.features.n_labels

        def renamed(codes: Int32, places: int) -> Int64:
            """Codes over ``other``'s labels as codes over mine; -1 where a label is missing."""
            digits = [same_state[codes.astype(np.int64) // m**k % m] for k in reversed(range(places))]
            total = np.zeros(len(codes), dtype=np.int64)
            for digit in digits:
                total = total * n + digit
            return np.where(np.min(digits, axis=0, initial=0) < 0, -1, total)

        mine, theirs = self.features, other.features
        my_keys: list[Array] = []
        their_keys: list[Int64] = []
        for my_block, block, places in ((mine.state, theirs.state, 1), (mine.edge, theirs.edge, 2)):
            other_source = my_block is mine.state and self.by_source != other.by_source
            if my_block is None or block is None or other_source:
                my_keys.append(np.zeros(0, dtype=np.int64))
                their_keys.append(np.zeros(0, dtype=np.int64))
                continue
            attribute = np.repeat(attributes, np.diff(block.pointer))
            codes = renamed(block.codes, places)
            codes[block.codes == m**places] = n if mine.input_only else -1
            known = (attribute >= 0) & (codes >= 0)
            my_keys.append(my_block.keys)
            their_keys.append(np.where(known, attribute * my_block.n_codes + codes, -1))
        my_keys += mine.ngrams
        their_keys += [renamed(codes, places) for codes, places in zip(theirs.ngrams, (2, 3, 4), strict=True)]
        return my_keys, their_keys


def _use_of(n_states: int, order: int, has_edges: bool, plain: bool) -> float:
    """Bytes that using a chain takes, on one thread; a ``plain`` one with many labels has lists, no matrix.

    Marginals take most: the weights of the label n-grams, the same for the kernel, their exponentials and those by the
    next label, and what is expected of them.
    """
    n = float(n_states)
    tables = 2000.0 * n if plain else 5.7 * table_size(n_states, order)
    return tables + (8.0 * LONG * n * n if has_edges else 0.0)


def table_size(n_states: int, order: int) -> float:
    """Bytes of the scores of all label n-grams of the order."""
    return 8.0 * float(n_states) ** (order + 1)


def check_size(n_states: int, order: int, has_edges: bool) -> None:
    """Reject more labels than a chain has room for, before anything large is made."""
    if n_states**2 > MOST_SCORES:
        raise DataError(
            f"{n_states:,} labels are too many: a chain has at most {int(MOST_SCORES**0.5):,}, since a score for every "
            f"two of them takes {size_of(8.0 * n_states**2)}"
        )
    if order == 2 and n_states**3 > MOST_SCORES:
        size = f"{8e-9 * float(n_states) ** 3:,.0f} GB"
        raise OptionError(f"order=2 needs a score for every three of {n_states:,} labels ({size}); use order=1")
    if order == 3 and n_states**4 > MOST_FOURGRAMS:
        size, most = f"{8e-9 * float(n_states) ** 4:,.0f} GB", int(MOST_FOURGRAMS**0.25)
        raise OptionError(
            f"order=3 needs a score for every four of {n_states:,} labels ({size}), and goes up to {most} labels; "
            "use order=2"
        )
    if order > 1:
        check_memory(TABLES * table_size(n_states, order), f"order={order} with {n_states:,} labels", "use order=1")
    if has_edges and n_states**2 * LONG > MOST_SCORES:
        raise OptionError(
            f"a template that looks at two labels (B) needs a score for every pair of {n_states:,} labels at each "
            "token; leave it out: label bigrams alone (transitions) take no such room"
        )


def _input_attributes(encoder: TemplateEncoder | NameEncoder) -> Bool:
    """A mask [A] of the attributes that a model of the input needs: one template of each kind.

    Templates that look at the same things some positions apart count the same things but for the sentences' ends; of
    those the one nearest to the position itself is taken.
    """
    if not isinstance(encoder, TemplateEncoder):
        return np.ones(encoder.n_attributes, dtype=bool)
    chosen = np.zeros(encoder.n_attributes, dtype=bool)
    nearest: dict[tuple[Any, ...], tuple[int, TemplateTable]] = {}
    for table in encoder.tables():
        macros = table.template.macros
        first = min((macro.row for macro in macros if not macro.absolute), default=0)
        kind = tuple(macro if macro.absolute else replace(macro, row=macro.row - first) for macro in macros)
        reach = max(abs(macro.row) for macro in macros)
        if table.in_state and (kind not in nearest or reach < nearest[kind][0]):
            nearest[kind] = (reach, table)
    for _, table in nearest.values():
        chosen[table.first : table.first + len(table.keys)] = True
    return chosen


def penalties_of(constraints: Constraints | None, labels: list[str]) -> Penalties:
    """Hard constraints over ``labels`` as scores."""
    if constraints is None:
        return Penalties.none(len(labels))
    return Penalties.of(constraints.rules(labels))


# ----------------------------------------------------------------------------------------------------------------------
# One sentence at low latency: from a list of tokens to labels without a corpus in between.
#
# Making a corpus, with its checks and arrays, costs more than labelling 25 tokens. Here a sentence is checked as it is
# looked up: a string seen before has been checked before. Whatever is not a plain list of plain tokens is left to the
# general path, which labels it or says what is wrong with it.


class SentenceDecoder:
    """Best labels of single sentences. Threads may share it.

    Parameters
    ----------
    attributes : callable
        ``attributes(x, offsets)`` gives the attributes of a sentence; for one that is not plain and valid it raises
        TypeError or ValueError, or returns None.
    decoder : Decoder
    labels : list of str
        The Y labels; the decoder's states are the sub-labels of each in turn.
    """

    def __init__(
        self, attributes: Callable[[Any, Int64], Incidence | None], decoder: Decoder, labels: list[str]
    ) -> None:
        self._attributes, self._decoder = attributes, decoder
        self._name = [label for label in labels for _ in range(decoder.n_labels // len(labels))].__getitem__

    @classmethod
    def of(cls, model: ChainModel) -> SentenceDecoder | None:
        """For a model that has a decoder; None if its encoder needs a whole corpus."""
        encoder, decoder = model.encoder, model.decoder
        assert decoder is not None
        if encoder.kind.startswith("hashed-"):
            return None
        if not isinstance(encoder, TemplateEncoder):
            from loglinear.features.names import UNREADABLE

            assert model.known_attributes is not None
            return cls(partial(_feature_attributes, model.known_attributes.reader, UNREADABLE), decoder, model.labels)
        quick = encoder.quick
        if quick is None or not quick.takes_sentences:
            return None
        return cls(partial(_row_attributes, quick), decoder, model.labels)

    def labels_of(self, x: Any) -> list[str] | None:
        """Labels of a sentence; None if the general path has to label it or to refuse it."""
        kind = type(x)
        if (kind is not list and kind is not tuple) or not x:
            return None
        offsets = np.array((0, len(x)), dtype=np.int64)
        try:
            state = self._attributes(x, offsets)
        except (TypeError, ValueError):
            return None
        if state is None:
            return None
        try:
            return list(map(self._name, self._decoder.best(offsets, state).tolist()))
        except InfeasibleError:
            return None


def _row_attributes(quick: QuickEncoder, x: Any, offsets: Int64) -> Incidence | None:
    """Attributes of a sentence of token rows."""
    kinds = set(map(type, x))
    if kinds == {str}:
        columns: list[Any] = [x]
    elif kinds <= {tuple, list}:
        columns = list(zip(*x, strict=True))
    else:
        return None
    if len(columns) < quick.n_columns:
        return None
    for number, column in enumerate(columns):  # those that the templates look at are checked when looked up
        if number not in quick.columns and not all(type(value) is str and value.isascii() for value in column):
            return None
    return Incidence(*quick.sentence(columns, offsets))


def _feature_attributes(
    reader: AttributeReader, unreadable: tuple[type[Exception], ...], x: Any, offsets: Int64
) -> Incidence:
    """Attributes of a sentence whose tokens are dicts or collections of strings."""
    try:
        return Incidence(*reader.read(x))
    except unreadable:
        bags = [reader.read_slowly(token) for token in x]
        values = np.concatenate([np.ones(len(own)) if some is None else some for _, own, some in bags])
        return Incidence(offsets_of([len(own) for _, own, _ in bags]), np.concatenate([bag[1] for bag in bags]), values)


# ----------------------------------------------------------------------------------------------------------------------
# Decoding with a base that cannot be taken apart: a search that looks at whole labellings, without a guarantee.
#
#     s(y) = the chain's score of y (weights, constraints) + log q0(x, y)
#
# Where a search may go wrong it looks from three sides, K = ``candidates`` being its width:
#
# 1. from left to right, the K best labellings of x_1 ... x_t by s are kept and carried on to t + 1: the base is asked
#    about beginnings of the sequence, T Y K times;
# 2. the K best labellings by the chain's score alone are ranked by s;
# 3. from the best of all these on, single labels are changed, position by position, as long as that raises s.
#
# Where it ends, no single change of a label is better; a labelling that differs in several may be.

LogProb = Callable[[Int32], float]
MOST_SWEEPS = 20


def best_found(scores: ChainScores, log_prob: LogProb, candidates: int) -> Int32:
    """The best labelling [T] that the search finds for one sequence.

    ``scores`` are the chain's, with what is ruled out at -inf; ``log_prob`` gives log q0 of a labelling, also of one
    [t] of the first t positions alone.
    """
    structure = Chain([0, len(scores.emission)])

    def total(labels: Int32) -> float:
        score = float(structure.score(scores, labels)[0])
        return score if score == -np.inf else score + log_prob(labels)

    ranked = [*_from_left_to_right(scores, log_prob, candidates), *structure.k_best(scores, candidates)[0][0]]
    values = [total(labels) for labels in ranked]
    best, value = ranked[int(np.argmax(values))].copy(), max(values)
    for _ in range(MOST_SWEEPS):
        before = value
        for t in range(len(best)):
            for y in np.flatnonzero(scores.emission[t] > -np.inf).tolist():
                changed = best.copy()
                changed[t] = y
                if y != best[t] and (other := total(changed)) > value:
                    best, value = changed, other
        if value == before:
            break
    return best


def _from_left_to_right(scores: ChainScores, log_prob: LogProb, width: int) -> list[Int32]:
    """The best labellings [T] of a beam search; none if it comes to where no label is possible."""
    n, y = scores.emission.shape
    kept = [np.zeros(0, dtype=np.int32)]
    for t in range(1, n + 1):
        beginning = replace(
            scores,
            emission=np.ascontiguousarray(scores.emission[:t]),
            stop=scores.stop if t == n else np.zeros(y),
            edge=None if scores.edge is None else np.ascontiguousarray(scores.edge[:t]),
        )
        longer = [np.append(labels, np.int32(label)) for labels in kept for label in range(y)]
        structure = Chain([0, t])
        own = np.array([structure.score(beginning, labels)[0] for labels in longer])
        possible = np.flatnonzero(own > -np.inf).tolist()
        full = [own[i] + log_prob(longer[i]) for i in possible]
        order = sorted(range(len(possible)), key=lambda i: (-full[i], -own[possible[i]]))
        kept = [longer[possible[i]] for i in order[:width]]
    return kept
