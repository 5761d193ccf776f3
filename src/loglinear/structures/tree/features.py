"""From weights of span features to part scores of trees, and from gradients by part scores to gradients by weights.

The weight vector has the weights of outcomes alone [E], then those of pairs (attribute of a span, outcome) [F], as for
pieces (:mod:`~loglinear.structures.tree.pieces`): models that are normalised edge by edge and models that are
normalised tree by tree have the same features. The scores of a base, the log-probabilities of a grammar and of its
lexicon, are added, so that with weights of zero the model is the base itself:

    s(A -> B C at (i, j)) = log q0(A -> B C) + w(A -> B C) + sum over attributes a of (i, j) of  w(a, A -> B C)

If the weight of the base is learnt, its scores are multiplied by 1 + v, where v is the last of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from loglinear.arrays import Array, Float, Int32, Int64
from loglinear.features.encoding import Incidence, runs
from loglinear.features.spans import span_offsets
from loglinear.kernels import kernel
from loglinear.kernels.tables import SparseGroups
from loglinear.structures.structure import ListFeatures, VectorGradient
from loglinear.structures.tree.grammar import Outcomes
from loglinear.structures.tree.pieces import PieceFeatures
from loglinear.structures.tree.structure import CFGScores, CFGTree

MOST_NUMBERS = 4_000_000  # most part scores in a block
RULE, STEP = 0, 1  # kinds of outcomes; the third is a tag over its word


class Walk(NamedTuple):
    """The features of n spans.

    Parameters
    ----------
    pointer, ids : int64 [n + 1], int32
        Attributes of each span.
    features, codes : int64 [A + 1], int32 [F]
        Features of each attribute, and the outcome of each feature.
    kinds, numbers : int32 [E]
        The kind of each outcome, and its number among those of the kind.
    word_of_span : int64 [n]
        The word of a span of one word, or -1.
    """

    pointer: Int64
    ids: Int32
    features: Int64
    codes: Int32
    kinds: Int32
    numbers: Int32
    word_of_span: Int64


@kernel
def _add_features(walk: Walk, weights: Float, binary: Float, steps: Float, lexical: Float) -> None:
    """Add the weights [F] of pairs to the scores of spans' rules and steps [n, R], [n, U], and words' tags."""
    pointer, ids, features, codes, kinds, numbers, word_of_span = walk
    for k in range(binary.shape[0]):
        rules, moves, word = binary[k], steps[k], word_of_span[k]
        for j in range(pointer[k], pointer[k + 1]):
            for f in range(features[ids[j]], features[ids[j] + 1]):
                kind, number = kinds[codes[f]], numbers[codes[f]]
                if kind == RULE:
                    rules[number] += weights[f]
                elif kind == STEP:
                    moves[number] += weights[f]
                elif word >= 0:
                    lexical[word, number] += weights[f]


@kernel
def _add_gradient(walk: Walk, binary: Float, steps: Float, lexical: Float, gradient: Float) -> None:
    """The transpose of :func:`_add_features`: add gradients by part scores to those by the weights of pairs [F]."""
    pointer, ids, features, codes, kinds, numbers, word_of_span = walk
    for k in range(binary.shape[0]):
        rules, moves, word = binary[k], steps[k], word_of_span[k]
        for j in range(pointer[k], pointer[k + 1]):
            for f in range(features[ids[j]], features[ids[j] + 1]):
                kind, number = kinds[codes[f]], numbers[codes[f]]
                if kind == RULE:
                    gradient[f] += rules[number]
                elif kind == STEP:
                    gradient[f] += moves[number]
                elif word >= 0:
                    gradient[f] += lexical[word, number]


@dataclass(frozen=True)
class EncodedTrees:
    """Sentences as numbers, for features of spans.

    Parameters
    ----------
    lengths : int64 [S]
        Words of each sentence.
    spans : Incidence
        Attributes of the N spans.
    lexical : callable
        Maps first and end of a run of words to the base's scores [words, P] of their tags.
    """

    lengths: Int64
    spans: Incidence
    lexical: Callable[[int, int], Float]

    @cached_property
    def offsets(self) -> Int64:
        """Where the spans of each sentence begin [S + 1]."""
        return span_offsets(self.lengths)

    @cached_property
    def word_offsets(self) -> Int64:
        """Where the words of each sentence begin [S + 1]."""
        return np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)

    @property
    def n_sequences(self) -> int:
        """S."""
        return len(self.lengths)


@dataclass(frozen=True)
class SpanFeatures(ListFeatures):
    """Features of trees: outcomes, and outcomes with attributes of their spans.

    Parameters
    ----------
    outcomes : Outcomes
        Of the grammar.
    pieces : PieceFeatures
        Which pairs have a weight, and the base's scores.
    base_of_words : bool
        Whether the weight of the base, if it is learnt, is also that of the lexicon's scores of words.
    """

    outcomes: Outcomes
    pieces: PieceFeatures
    base_of_words: bool = False

    @property
    def n_features(self) -> int:  # type: ignore[override]  # it follows from the pieces
        """D = E + F, and one more if the base's weight is learnt."""
        return self.pieces.n_features

    @cached_property
    def groups(self) -> Int64:
        """The outcomes alone are the first group; each attribute is another one, and the base's weight is the last."""
        last = [] if self.pieces.base is None else [self.n_features]
        return np.concatenate([[0], self.outcomes.n_outcomes + self.pieces.block.pointer, last]).astype(np.int64)

    def blocks(self, offsets: Int64, first: int, end: int) -> list[tuple[int, int]]:
        """Cut sentences ``first`` to ``end`` into runs whose part scores stay small."""
        return runs(offsets, first, end, max(1, MOST_NUMBERS // self.outcomes.n_outcomes))

    def structure(self, corpus: EncodedTrees, first: int, end: int) -> CFGTree:
        """The shape of sentences ``first`` to ``end``."""
        return CFGTree(self.outcomes.grammar, corpus.lengths[first:end])

    @cached_property
    def _kinds(self) -> tuple[Int32, Int32]:
        """The kind of each outcome [E], and its number among those of its kind."""
        kinds, numbers = np.empty((2, self.outcomes.n_outcomes), dtype=np.int32)
        for kind, members in enumerate((self.outcomes.of_rule, self.outcomes.of_step, self.outcomes.of_tag)):
            kinds[members], numbers[members] = kind, np.arange(len(members))
        return kinds, numbers

    def _walk(self, corpus: EncodedTrees, first: int, end: int) -> Walk:
        """The features of sentences ``first`` to ``end``, for both kernels."""
        lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
        word_of_span = np.full(hi - lo, -1, dtype=np.int64)
        words = word_spans(corpus.lengths[first:end])
        word_of_span[words] = np.arange(len(words))
        block, spans = self.pieces.block, corpus.spans
        return Walk(spans.pointer[lo : hi + 1], spans.ids, block.pointer, block.codes, *self._kinds, word_of_span)

    def scores(self, weights: Float, corpus: EncodedTrees, first: int, end: int) -> CFGScores:
        """Part scores of sentences ``first`` to ``end``."""
        e, n = self.outcomes.n_outcomes, int(corpus.offsets[end] - corpus.offsets[first])
        alone = self.pieces.alone(weights)
        lexical = self._lexical(corpus, first, end)
        if self.pieces.base is not None and self.base_of_words:
            lexical = np.where(np.isneginf(lexical), -np.inf, (1.0 + weights[-1]) * _finite(lexical))
        lexical = lexical + alone[self.outcomes.of_tag]
        binary, steps = (np.tile(alone[kind], (n, 1)) for kind in (self.outcomes.of_rule, self.outcomes.of_step))
        _add_features(self._walk(corpus, first, end), weights[e:], binary, steps, lexical)
        return CFGScores(lexical, binary, steps, np.arange(n, dtype=np.int32))

    def local_scores(self, weights: Float, corpus: EncodedTrees, first: int, end: int) -> CFGScores:
        """As :meth:`scores`, but with the outcomes of each edge normalised: log-probabilities."""
        lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
        rows = self.pieces.scores(corpus.spans, lo, hi, weights, normalise=True)
        words = word_spans(corpus.lengths[first:end])
        return CFGScores(
            self._lexical(corpus, first, end) + rows[words][:, self.outcomes.of_tag],
            rows.take(self.outcomes.of_rule, axis=1),
            rows.take(self.outcomes.of_step, axis=1),
            np.arange(hi - lo, dtype=np.int32),
        )

    def add_gradient(self, corpus: EncodedTrees, first: int, end: int, parts: CFGScores, gradient: Float) -> None:
        """Add the gradient by the part scores of sentences ``first`` to ``end`` to that by the weights [D]."""
        alone = np.zeros(self.outcomes.n_outcomes)
        alone[self.outcomes.of_rule] = parts.binary.sum(axis=0)
        alone[self.outcomes.of_step] = parts.steps.sum(axis=0)
        alone[self.outcomes.of_tag] = parts.lexical.sum(axis=0)
        gradient[: len(alone)] += alone
        if self.pieces.base is not None:
            gradient[-1] += self.pieces.base @ alone
            if self.base_of_words:
                gradient[-1] += np.sum(parts.lexical * _finite(self._lexical(corpus, first, end)))
        pairs = gradient[self.outcomes.n_outcomes :]
        _add_gradient(self._walk(corpus, first, end), parts.binary, parts.steps, parts.lexical, pairs)

    @staticmethod
    def _lexical(corpus: EncodedTrees, first: int, end: int) -> Float:
        """The base's scores [words, P] of the tags of sentences ``first`` to ``end``."""
        return corpus.lexical(int(corpus.word_offsets[first]), int(corpus.word_offsets[end]))

    def dense_gradient(self) -> SpanGradient:
        """A gradient of all features."""
        return SpanGradient(self)

    def sparse_gradient(self) -> SparseSpanGradient:
        """A gradient of the features of one sentence."""
        return SparseSpanGradient(self)

    def active_groups(self, corpus: EncodedTrees, sequence: int) -> Iterator[tuple[Int64, Int32, int]]:
        """The groups of features that a sentence's scores depend on."""
        lo, hi = int(corpus.offsets[sequence]), int(corpus.offsets[sequence + 1])
        yield np.array([0, 1]), np.zeros(1, dtype=np.int32), 0
        yield corpus.spans.pointer[lo : hi + 1], corpus.spans.ids, 1
        if self.pieces.base is not None:
            yield np.array([0, 1]), np.zeros(1, dtype=np.int32), len(self.groups) - 2


def scaled(outcomes: Outcomes, scores: CFGScores, alpha: Float) -> CFGScores:
    """The scores with the outcomes of each symbol A multiplied by ``alpha[A]`` [K]; what is ruled out remains so.

    Pieces trained one by one are each right, but not on a common scale (Sutton & McCallum 2005, section 3). The factor
    of a tag multiplies the scores of its words.
    """
    lexical, binary, steps = (
        np.where(np.isneginf(array), -np.inf, factors * _finite(array))
        for array, factors in zip(_arrays(scores), _factors(outcomes, alpha), strict=True)
    )
    return CFGScores(lexical, binary, steps, scores.row_of_span, scores.allowed)


def scaling_gradient(outcomes: Outcomes, scores: CFGScores, gradient_of_scaled: CFGScores) -> Float:
    """Derivative by alpha [K] of what has ``gradient_of_scaled`` by the parts of :func:`scaled`."""
    gradient = np.zeros(outcomes.grammar.n_symbols)
    symbols = _factors(outcomes, np.arange(len(gradient)))
    for array, slopes, owners in zip(_arrays(scores), _arrays(gradient_of_scaled), symbols, strict=True):
        np.add.at(gradient, owners, np.sum(slopes * _finite(array), axis=0))
    return gradient


def _arrays(scores: CFGScores) -> tuple[Float, Float, Float]:
    return scores.lexical, scores.binary, scores.steps


def _factors(outcomes: Outcomes, of_symbol: Array) -> tuple[Array, Array, Array]:
    """What a symbol has [K], for the tags [P], rules [R] and steps [U] that are outcomes of it."""
    grammar = outcomes.grammar
    return of_symbol[grammar.preterminals], of_symbol[grammar.binary[:, 0]], of_symbol[grammar.steps[:, 0]]


def _finite(array: Float) -> Float:
    """The array with 0 instead of -inf."""
    return np.where(np.isneginf(array), 0.0, array)


class SpanGradient(VectorGradient):
    """Adds up a gradient [D] by the weights."""

    def __init__(self, features: SpanFeatures) -> None:
        super().__init__(features.n_features)
        self._features = features

    def add(self, corpus: EncodedTrees, first: int, end: int, parts: CFGScores) -> None:
        """Add the gradient by the part scores of sentences ``first`` to ``end``."""
        self._features.add_gradient(corpus, first, end, parts, self.vector)


class SparseSpanGradient(SparseGroups):
    """The gradient of one sentence."""

    def __init__(self, features: SpanFeatures) -> None:
        super().__init__(features.groups)
        self._features = features

    def add(self, corpus: EncodedTrees, sequence: int, parts: CFGScores) -> None:
        """Add the gradient by the part scores of one sentence."""
        self._features.add_gradient(corpus, sequence, sequence + 1, parts, self.values)
        for pointer, ids, first in self._features.active_groups(corpus, sequence):
            self.touch_all(first + ids[pointer[0] : pointer[-1]])


def word_spans(lengths: Int64) -> Int64:
    """The numbers of the spans of single words in sentences with these lengths, in the order of the words."""
    starts = np.repeat(span_offsets(lengths)[:-1], lengths)
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)
    end = np.arange(int(lengths.sum())) - first + 1  # a word's span is (end - 1, end)
    return (starts + end * (end - 1) // 2 + end - 1).astype(np.int64)
