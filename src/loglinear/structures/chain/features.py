"""From a chain's weights to part scores, and from gradients by part scores to gradients by weights.

The weight vector has six parts, one after the other:

    state       (attribute, label)                 -> emission [N, Y]
    edge        (attribute, previous label, label) -> edge [N, Y, Y]
    transition  (previous label, label)            -> transition [Y, Y]
    trigram     (label two back, previous, label)  -> trigram [Y, Y, Y], from order 2 on
    fourgram    (label three back, ..., label)     -> fourgram [Y, Y, Y, Y], order 3 only
    dense       (dense column, label)              -> emission [N, Y], too

A generative model may also have *input-only* features, which belong to an attribute regardless of the label. They are
state features with the code Y, and their score is added to that of each label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from loglinear import mapped
from loglinear.arrays import Bool, Float, Int32, Int64
from loglinear.data.columns.corpus import offsets_of
from loglinear.features.block import FeatureBlock
from loglinear.features.encoding import EncodedCorpus, Incidence, runs
from loglinear.kernels.tables import SparseGroups
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.structures.constraints import Rules
from loglinear.structures.gold import Gold, observed_ngrams, pair_codes
from loglinear.structures.structure import SparseGradient
from loglinear.system import check_memory


class Penalties:
    """Hard constraints as scores: 0 where allowed, -inf where not.

    Parameters
    ----------
    transition : float64 [Y, Y] or Rules
        Of rules the matrix is made when it is first asked for; with many labels it is better never made.
    start, stop : float64 [Y]
    """

    def __init__(self, transition: Float | Rules, start: Float, stop: Float) -> None:
        self._given, self.start, self.stop = transition, start, stop

    @classmethod
    def of(cls, rules: Rules) -> Penalties:
        """The penalties of rules."""
        start, stop = (np.where(mask, 0.0, -np.inf) for mask in (rules.starts, rules.ends))
        return cls(rules, start, stop)

    @classmethod
    def none(cls, n_labels: int) -> Penalties:
        """Everything is allowed."""
        return cls.of(Rules.anything(n_labels))

    @cached_property
    def transition(self) -> Float:
        """Scores of transitions [Y, Y]."""
        given = self._given
        return np.where(given.masks()[0], 0.0, -np.inf) if isinstance(given, Rules) else given

    @cached_property
    def rules(self) -> Rules:
        """Which transitions are allowed."""
        given = self._given
        if isinstance(given, Rules):
            return given
        return Rules.from_masks(*(array == 0.0 for array in (given, self.start, self.stop)))

    def split(self, sub_labels: int) -> Penalties:
        """The same constraints over sub-labels."""
        return self if sub_labels == 1 else Penalties.of(self.rules.split(sub_labels))

    def of_labelling(self, offsets: Int64, labels: Int32) -> Float:
        """0 for each sequence [S] whose ``labels`` [N] are allowed, else -inf."""
        found = np.zeros(len(offsets) - 1)
        for first, end in runs(offsets, 0, len(found), mapped.PIECE):
            own = offsets[first : end + 1] - offsets[first]
            found[first:end] = self._of_run(own, labels[offsets[first] : offsets[end]])
        return found

    def _of_run(self, offsets: Int64, labels: Int32) -> Float:
        pairs = labels[:-1].astype(np.int64) * len(self.start) + labels[1:]
        ruled_out = np.concatenate([[False], ~self.rules.allowed(pairs)])
        ruled_out[offsets[:-1]] = np.isneginf(self.start[labels[offsets[:-1]]])
        ruled_out[offsets[1:] - 1] |= np.isneginf(self.stop[labels[offsets[1:] - 1]])
        return np.where(np.logical_or.reduceat(ruled_out, offsets[:-1]), -np.inf, 0.0)

    def scores(self, n_positions: int) -> ChainScores:
        """Part scores of the constraints alone."""
        return ChainScores(np.zeros((n_positions, len(self.start))), self.transition, self.start, self.stop)


@dataclass(frozen=True, slots=True)
class ChainWeights:
    """A weight vector prepared for scoring: its parts, dense rows, and matrices that include the constraints."""

    state: Float
    state_rows: Float
    edge: Float
    edge_rows: Float
    transition: Float
    trigram: Float | None
    fourgram: Float | None
    start: Float
    stop: Float
    dense: Float


class ChainGradient:
    """Where one worker adds up its share of the weight gradient."""

    def __init__(self, features: ChainFeatures) -> None:
        self._features = features
        self.vector = mapped.zeros(features.n_features)
        self._state_rows = np.zeros((features.state.n_rows, features.state.n_codes))
        self._edge_rows = np.zeros((features.edge.n_rows, features.edge.n_codes) if features.edge else (0, 0))

    def reset(self) -> None:
        for array in (self.vector, self._state_rows, self._edge_rows):
            array.fill(0.0)

    def add(self, corpus: EncodedCorpus, first: int, end: int, parts: ChainScores) -> None:
        """Add the gradient by the part scores of sequences ``first`` to ``end``."""
        features = self._features
        state, edge, transition, trigram, fourgram = features.slices
        lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
        emission = parts.emission
        if features.input_only:
            emission = np.concatenate([emission, emission.sum(axis=1, keepdims=True)], axis=1)
        features.state.add_gradient(corpus.state, lo, hi, emission, self.vector[state], self._state_rows)
        if features.edge is not None and corpus.edge is not None and parts.edge is not None:
            flat = parts.edge.reshape(hi - lo, -1)
            features.edge.add_gradient(corpus.edge, lo, hi, flat, self.vector[edge], self._edge_rows)
        self.vector[transition] += parts.transition.ravel()[features.transition_places]
        if parts.trigram is not None:
            self.vector[trigram] += parts.trigram.ravel()[features.trigrams]
        if parts.fourgram is not None:
            self.vector[fourgram] += parts.fourgram.ravel()[features.fourgrams]
        if corpus.dense is not None:
            self.vector[features.dense_slice] += (corpus.dense[lo:hi].T @ parts.emission).ravel()

    def finish(self) -> Float:
        """The gradient [D] of all that was added."""
        state, edge, *_ = self._features.slices
        self._features.state.gather(self._state_rows, self.vector[state])
        if self._features.edge is not None:
            self._features.edge.gather(self._edge_rows, self.vector[edge])
        return self.vector


@dataclass(frozen=True)
class ChainFeatures:
    """Which features a chain model has.

    Parameters
    ----------
    n_labels : int
        Y.
    order : int
        1, 2 or 3.
    state : FeatureBlock
        (attribute, label); the code Y means "any label".
    edge : FeatureBlock or None
        (attribute, previous label * Y + label).
    transitions : int32
        Codes ``previous * Y + label`` of the label bigrams that have a weight, ascending.
    trigrams : int32
        Codes ``(two back * Y + previous) * Y + label`` of the trigrams that have a weight, ascending.
    fourgrams : int32
        The same of 4-grams.
    dense : int
        K, the number of dense columns; each has a weight for each label.
    """

    n_labels: int
    order: int
    state: FeatureBlock
    edge: FeatureBlock | None
    transitions: Int32
    trigrams: Int32
    fourgrams: Int32 = field(default_factory=lambda: np.zeros(0, dtype=np.int32), kw_only=True)
    dense: int = field(default=0, kw_only=True)

    @classmethod
    def collect(
        cls,
        corpus: EncodedCorpus,
        n_attributes: int,
        gold: Gold,
        n_labels: int,
        order: int = 1,
        states: str = "observed",
        transitions: str = "observed",
        input_only: Bool | None = None,
    ) -> ChainFeatures:
        """The features of a training corpus.

        ``states`` and ``transitions`` select the pairs that get a weight: those seen in the gold labelling
        (``observed``) or ``all``; ``transitions`` may be ``none``. Edge features follow ``states``; trigrams and
        4-grams follow ``transitions``. The attributes in the mask ``input_only`` [A] also get a weight that applies to
        every label.
        """
        lists = gold.label_lists(n_labels, unlabelled_as_any=False)
        edge = None
        if states == "all":
            state = FeatureBlock.everything(n_attributes, n_labels)
            if corpus.edge is not None:
                edge = FeatureBlock.everything(n_attributes, n_labels**2)
        else:
            state = FeatureBlock.observed(corpus.state, n_attributes, *lists, n_labels)
            if corpus.edge is not None:
                pairs = pair_codes(corpus.offsets, lists, n_labels)
                edge = FeatureBlock.observed(corpus.edge, n_attributes, *pairs, n_labels**2)
        if input_only is not None:
            state = state.with_code(n_labels, input_only)
        bigrams, trigrams, fourgrams = _label_ngrams(corpus, gold, n_labels, order, transitions)
        dense = 0 if corpus.dense is None else corpus.dense.shape[1]
        check_memory(40.0 * dense * n_labels, f"weights of {dense:,} dense features and {n_labels:,} labels")
        return cls(n_labels, order, state, edge, bigrams, trigrams, fourgrams=fourgrams, dense=dense)

    def with_probable(
        self, corpus: EncodedCorpus, labels: tuple[Int64, Int32], pairs: tuple[Int64, Int32] | None
    ) -> ChainFeatures:
        """The features with those of each position's attributes and ``labels``, and of its ``pairs`` of labels.

        Both are lists of codes: a pointer [N + 1] and the codes.
        """
        n_attributes, edge = len(self.state.pointer) - 1, self.edge
        state = FeatureBlock.observed(corpus.state, n_attributes, *labels, self.n_labels)
        if edge is not None and corpus.edge is not None and pairs is not None:
            edge = edge.plus(FeatureBlock.observed(corpus.edge, n_attributes, *pairs, self.n_labels**2))
        return replace(self, state=self.state.plus(state), edge=edge)

    def with_keys(self, keys: Sequence[Int64]) -> ChainFeatures:
        """The features with those of other ``keys``: of state and edge features, bigrams, trigrams and 4-grams."""
        state, edge, *ngrams = keys
        codes = [_union(own, more).astype(np.int32) for own, more in zip(self.ngrams, ngrams, strict=True)]
        return ChainFeatures(
            self.n_labels,
            self.order,
            _with_keys(self.state, state),
            None if self.edge is None else _with_keys(self.edge, edge),
            codes[0],
            codes[1],
            fourgrams=codes[2],
            dense=self.dense,
        )

    @property
    def ngrams(self) -> tuple[Int32, Int32, Int32]:
        """The codes of label bigrams, trigrams and 4-grams."""
        return self.transitions, self.trigrams, self.fourgrams

    def as_lists(self) -> ChainFeatures:
        """The same features without dense rows: :meth:`lay_out` then refers to the weight vector itself, not a copy."""
        edge = None if self.edge is None else self.edge.as_lists()
        return replace(self, state=self.state.as_lists(), edge=edge)

    @property
    def transition_places(self) -> Int32 | Int64:
        """Where in the flat transition scores the weights of label bigrams are."""
        return self.transitions

    @property
    def input_only(self) -> bool:
        """Whether some features do not depend on the label."""
        return self.state.n_codes > self.n_labels

    @cached_property
    def slices(self) -> tuple[slice, slice, slice, slice, slice]:
        """Where state, edge, transition, trigram and 4-gram weights lie in the weight vector; then come dense ones."""
        sizes = (self.state.n_features, self.edge.n_features if self.edge else 0, len(self.transitions))
        ends = np.cumsum([0, *sizes, len(self.trigrams), len(self.fourgrams)]).tolist()
        state, edge, transition, trigram, fourgram = (slice(*bounds) for bounds in pairwise(ends))
        return state, edge, transition, trigram, fourgram

    @property
    def dense_slice(self) -> slice:
        """Where the weights [K, Y] of dense columns lie in the weight vector."""
        first = self.slices[-1].stop
        return slice(first, first + self.dense * self.n_labels)

    @property
    def is_plain(self) -> bool:
        """Whether these are features of a first-order chain that compiled passes know: states and transitions alone."""
        return self.order == 1 and self.edge is None and not self.dense

    @cached_property
    def groups(self) -> Int64:
        """Where the groups of weights begin [G + 1]: one for each state attribute and each edge attribute, one for all
        label n-grams and, if there are dense columns, one for all of these."""
        pointers = [self.state.pointer]
        if self.edge is not None:
            pointers.append(self.edge.pointer[1:] + self.slices[1].start)
        ends = [self.slices[-1].stop, self.n_features] if self.dense else [self.n_features]
        return np.concatenate([*pointers, ends]).astype(np.int64)

    @property
    def ngram_group(self) -> int:
        """The group of all label n-grams."""
        return len(self.groups) - 2 - (self.dense > 0)

    @property
    def n_features(self) -> int:
        """D, the length of the weight vector."""
        return self.dense_slice.stop

    def lay_out(self, weights: Float, penalties: Penalties) -> ChainWeights:
        """Prepare a weight vector [D] for :meth:`scores`."""
        state, edge, transition, trigram, fourgram = (weights[part] for part in self.slices)
        tables = self._ngram_tables(transition, trigram, fourgram, penalties)
        return ChainWeights(
            state=state,
            state_rows=self.state.rows(state),
            edge=edge,
            edge_rows=self.edge.rows(edge) if self.edge is not None else np.zeros((0, 0)),
            transition=tables[0],
            trigram=tables[1],
            fourgram=tables[2],
            start=penalties.start,
            stop=penalties.stop,
            dense=weights[self.dense_slice].reshape(self.dense, self.n_labels),
        )

    def refresh_layout(self, laid_out: ChainWeights, weights: Float, penalties: Penalties) -> ChainWeights:
        """The layout with the tables of label n-grams, which are copies, built from the changed ``weights`` [D]."""
        transition, trigram, fourgram = (weights[part] for part in self.slices[2:])
        tables = self._ngram_tables(transition, trigram, fourgram, penalties)
        return replace(laid_out, transition=tables[0], trigram=tables[1], fourgram=tables[2])

    def _ngram_tables(
        self, transition: Float, trigram: Float, fourgram: Float, penalties: Penalties
    ) -> tuple[Float, Float | None, Float | None]:
        """Scores of label bigrams [Y, Y], constraints included, of trigrams [Y, Y, Y] and of 4-grams, by the order."""
        size = 8.0 * (2 * self.n_labels**2 + (self.order > 1) * float(self.n_labels) ** (self.order + 1))
        check_memory(size, f"a table of the scores of {self.order + 1} of {self.n_labels:,} labels")
        matrix = np.zeros(self.n_labels**2)
        matrix[self.transitions] = transition
        table = matrix.reshape(self.n_labels, self.n_labels) + penalties.transition
        longer: list[Float | None] = [None, None]
        for k, codes, weights in ((2, self.trigrams, trigram), (3, self.fourgrams, fourgram)):
            if k <= self.order:
                flat = np.zeros(self.n_labels ** (k + 1))
                flat[codes] = weights
                longer[k - 2] = flat.reshape((self.n_labels,) * (k + 1))
        return table, longer[0], longer[1]

    def scores(self, weights: ChainWeights, corpus: EncodedCorpus, first: int, end: int) -> ChainScores:
        """Part scores of sequences ``first`` to ``end``."""
        lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
        edge = None
        if self.edge is not None and corpus.edge is not None:
            edge = self.edge.scores(corpus.edge, lo, hi, weights.edge, weights.edge_rows)
            edge = edge.reshape(hi - lo, self.n_labels, self.n_labels)
        emission = self.state.scores(corpus.state, lo, hi, weights.state, weights.state_rows)
        if self.input_only:
            emission = emission[:, :-1] + emission[:, -1:]
        if corpus.dense is not None:
            emission += corpus.dense[lo:hi] @ weights.dense
        return ChainScores(
            emission=emission,
            transition=weights.transition,
            start=weights.start,
            stop=weights.stop,
            edge=edge,
            trigram=weights.trigram,
            fourgram=weights.fourgram,
        )

    def structure(self, corpus: EncodedCorpus, first: int, end: int) -> Chain:
        """The chains of sequences ``first`` to ``end``."""
        return Chain(corpus.offsets[first : end + 1] - corpus.offsets[first])

    def dense_gradient(self) -> ChainGradient:
        """A gradient of all features."""
        return ChainGradient(self)

    def sparse_gradient(self) -> SparseGradient:
        """A gradient of the few features of one sequence."""
        return SparseChainGradient(self)

    def active_groups(self, corpus: EncodedCorpus, sequence: int) -> Iterator[tuple[Int64, Int32, int]]:
        """The groups of features that a sequence's scores depend on, as lists with the number of the first group."""
        lo, hi = int(corpus.offsets[sequence]), int(corpus.offsets[sequence + 1])
        yield corpus.state.pointer[lo : hi + 1], corpus.state.ids, 0
        if corpus.edge is not None:
            yield corpus.edge.pointer[lo : hi + 1], corpus.edge.ids, len(self.state.pointer) - 1
        always = np.arange(self.ngram_group, len(self.groups) - 1, dtype=np.int32)
        yield np.array([0, len(always)]), always, 0

    def keeping(self, kept: Bool) -> tuple[ChainFeatures, Bool]:
        """Only the features where ``kept`` [D], and only the attributes that still have one (a mask [A])."""
        state, edge, transition, trigram, fourgram = (kept[part] for part in self.slices)  # and all dense ones
        has_state = _kept_counts(self.state, state)
        has_edge = np.zeros_like(has_state) if self.edge is None else _kept_counts(self.edge, edge)
        used = (has_state + has_edge) > 0

        def block(old: FeatureBlock, counts: Int64, mask: Bool) -> FeatureBlock:
            pointer = np.concatenate([[0], np.cumsum(counts[used])]).astype(np.int64)
            return FeatureBlock(pointer, old.codes[mask], old.n_codes)

        features = ChainFeatures(
            self.n_labels,
            self.order,
            block(self.state, has_state, state),
            None if self.edge is None else block(self.edge, has_edge, edge),
            self.transitions[transition],
            self.trigrams[trigram],
            fourgrams=self.fourgrams[fourgram],
            dense=self.dense,
        )
        return features, used

    def blocks(self, offsets: Int64, first: int, end: int) -> list[tuple[int, int]]:
        """Cut sequences ``first`` to ``end`` into runs whose part scores take at most about 8 MB."""
        width = self.n_labels if self.edge is None else self.n_labels + self.n_labels**2
        most = max(256, min(4096, 1_000_000 // width))
        if self.order == 3:  # criteria of pieces have a number for each three labels; each block one for each four
            most = max(1024, min(most, 1_000_000 // self.n_labels**3))
        return runs(offsets, first, end, most)


def _with_keys(block: FeatureBlock, keys: Int64) -> FeatureBlock:
    """The block with the features of these ``keys`` (``attribute * C + code``)."""
    both = _union(block.keys, keys)
    counts = np.bincount(both // block.n_codes, minlength=len(block.pointer) - 1)
    return FeatureBlock(offsets_of(counts), (both % block.n_codes).astype(np.int32), block.n_codes)


def _union(first: NDArray[np.integer], second: Int64) -> Int64:
    """The distinct numbers of both, ascending; quick where each ascends already, unlike NumPy's own function."""
    both = np.concatenate([first.astype(np.int64), second])
    both.sort(kind="stable")  # merges ascending runs
    distinct = np.ones(len(both), dtype=np.bool_)
    np.not_equal(both[1:], both[:-1], out=distinct[1:])
    return both[distinct]


def _kept_counts(block: FeatureBlock, kept: Bool) -> Int64:
    """How many features of each attribute [A] are ``kept`` [F]."""
    before = np.concatenate([[0], np.cumsum(kept)])
    return np.diff(before[block.pointer])


def _label_ngrams(corpus: EncodedCorpus, gold: Gold, n_labels: int, order: int, which: str) -> list[Int32]:
    """Codes of the label bigrams, trigrams and 4-grams that get a weight."""
    if which == "all":
        check_memory(40.0 * float(n_labels) ** (order + 1), f"a weight for every {order + 1} of {n_labels:,} labels")
    if which in ("all", "none"):
        longest = order if which == "all" else 0
        return [np.arange(n_labels ** (k + 1) if k <= longest else 0, dtype=np.int32) for k in (1, 2, 3)]
    lists = gold.label_lists(n_labels, unlabelled_as_any=True)
    return observed_ngrams(corpus.offsets, lists, n_labels, order)


# ----------------------------------------------------------------------------------------------------------------------
# The weight gradient of a single sequence, kept sparse by groups (:mod:`~loglinear.kernels.tables`).
#
# The features of an attribute lie one after the other in the weight vector and are always used together: they are a
# group, and so are all label n-grams.


class SparseChainGradient(SparseGroups):
    """The gradient of one sequence of a chain.

    Parameters
    ----------
    features : ChainFeatures
        Of D features.
    """

    def __init__(self, features: ChainFeatures) -> None:
        super().__init__(features.groups)
        self._features = features

    def add(self, corpus: EncodedCorpus, sequence: int, parts: ChainScores) -> None:
        """Add the gradient by the part scores of one sequence."""
        features = self._features
        lo, hi = int(corpus.offsets[sequence]), int(corpus.offsets[sequence + 1])
        _, _, transition, trigram, fourgram = features.slices
        self._add_block(features.state, corpus.state, lo, hi, 0, parts.emission)
        if features.edge is not None and corpus.edge is not None and parts.edge is not None:
            first_group = len(features.state.pointer) - 1
            self._add_block(features.edge, corpus.edge, lo, hi, first_group, parts.edge.reshape(hi - lo, -1))
        if fourgram.stop > transition.start:
            self.touch(features.ngram_group)
            self.values[transition] += parts.transition.ravel()[features.transition_places]
            if parts.trigram is not None:
                self.values[trigram] += parts.trigram.ravel()[features.trigrams]
            if parts.fourgram is not None:
                self.values[fourgram] += parts.fourgram.ravel()[features.fourgrams]
        if corpus.dense is not None:
            self.touch(len(features.groups) - 2)
            self.values[features.dense_slice] += (corpus.dense[lo:hi].T @ parts.emission).ravel()

    def _add_block(
        self, block: FeatureBlock, incidence: Incidence, lo: int, hi: int, first_group: int, parts: Float
    ) -> None:
        """Add the gradient by ``parts`` [hi - lo, C] of positions ``lo`` to ``hi``; attribute a is a group."""
        self.add_attributes(incidence.lists(lo, hi), block.codes, first_group, parts)
