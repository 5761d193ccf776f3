"""How weights of span features become the part scores of trees, and part gradients weight gradients.

The weight vector has the outcomes by themselves [E], then the pairs (attribute of a span, outcome) [F], as for pieces
(:mod:`~loglinear.structures.cfg_pieces`): the same features serve models that are normalised edge by edge and models
that are normalised tree by tree. Scores begin with those of a base, the log-probabilities of a grammar and of its
lexicon, so that weights of zero are the base itself:

    s(A -> B C at (i, j)) = log q0(A -> B C) + w(A -> B C) + sum over attributes a of (i, j) of  w(a, A -> B C)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.features.encoding import Incidence, runs
from loglinear.features.span_attributes import span_offsets
from loglinear.structures.cfg_outcomes import Outcomes
from loglinear.structures.cfg_pieces import PieceFeatures
from loglinear.structures.cfg_tree import CFGScores, CFGTree
from loglinear.structures.chain_sparse_gradient import SparseGroups

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
MOST_NUMBERS = 4_000_000  # of part scores in a block
NO_ROWS = np.zeros((0, 0))


@dataclass(frozen=True)
class EncodedTrees:
    """Sentences in numbers, for features of spans.

    Parameters
    ----------
    lengths : int64 [S]
        Words of each sentence.
    spans : Incidence
        Attributes of the N spans.
    lexical : callable
        From a run of words, first and end, to the base's scores [words, P] of their tags.
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
class SpanFeatures:
    """Features of trees: outcomes, and outcomes with attributes of their spans.

    Parameters
    ----------
    outcomes : Outcomes
        Of the grammar.
    pieces : PieceFeatures
        Which pairs have a weight, and the base's scores.
    """

    outcomes: Outcomes
    pieces: PieceFeatures

    @property
    def n_features(self) -> int:
        """D = E + F."""
        return self.pieces.n_features

    @cached_property
    def groups(self) -> Int64:
        """The outcomes by themselves are the first group, and each attribute has one."""
        return np.concatenate([[0], self.outcomes.n_outcomes + self.pieces.block.pointer]).astype(np.int64)

    def as_lists(self) -> SpanFeatures:
        return self

    def lay_out(self, weights: Float, penalties: Any) -> Float:
        return weights

    def laid_out_again(self, laid_out: Float, weights: Float, penalties: Any) -> Float:
        return weights

    def blocks(self, offsets: Int64, first: int, end: int) -> list[tuple[int, int]]:
        """Cut sentences ``first`` to ``end`` into runs whose part scores stay small."""
        return runs(offsets, first, end, max(1, MOST_NUMBERS // self.outcomes.n_outcomes))

    def structure(self, corpus: EncodedTrees, first: int, end: int) -> CFGTree:
        """The shape of sentences ``first`` to ``end``."""
        return CFGTree(self.outcomes.grammar, corpus.lengths[first:end])

    def scores(self, weights: Float, corpus: EncodedTrees, first: int, end: int, normalise: bool = False) -> CFGScores:
        """Part scores of sentences ``first`` to ``end``; log-probabilities of each edge's outcomes if ``normalise``."""
        lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
        rows = self.pieces.scores(corpus.spans, lo, hi, weights, normalise)
        words = word_spans(corpus.lengths[first:end])
        lexical = corpus.lexical(int(corpus.word_offsets[first]), int(corpus.word_offsets[end]))
        return CFGScores(
            lexical + rows[words][:, self.outcomes.of_tag],
            rows.take(self.outcomes.of_rule, axis=1),
            rows.take(self.outcomes.of_step, axis=1),
            np.arange(hi - lo, dtype=np.int32),
        )

    def rows_of(self, corpus: EncodedTrees, first: int, end: int, parts: CFGScores) -> Float:
        """Gradients by part scores as gradients by the outcomes of spans [N, E]."""
        rows = np.zeros((len(parts.row_of_span), self.outcomes.n_outcomes))
        rows[:, self.outcomes.of_rule] = parts.binary
        rows[:, self.outcomes.of_step] = parts.steps
        words = word_spans(corpus.lengths[first:end])
        rows[words[:, None], self.outcomes.of_tag[None, :]] = parts.lexical
        return rows

    def dense_gradient(self) -> SpanGradient:
        """A gradient of all features."""
        return SpanGradient(self)

    def sparse_gradient(self) -> SparseSpanGradient:
        """A gradient of the features of one sentence."""
        return SparseSpanGradient(self)

    def groups_met(self, corpus: EncodedTrees, sequence: int) -> Iterator[tuple[Int64, Int32, int]]:
        """The groups of features that a sentence's scores depend on."""
        lo, hi = int(corpus.offsets[sequence]), int(corpus.offsets[sequence + 1])
        yield np.array([0, 1]), np.zeros(1, dtype=np.int32), 0
        yield corpus.spans.pointer[lo : hi + 1], corpus.spans.ids, 1


class SpanGradient:
    """Where one worker adds up its share of the weight gradient."""

    def __init__(self, features: SpanFeatures) -> None:
        self._features = features
        self.vector = np.zeros(features.n_features)

    def reset(self) -> None:
        self.vector.fill(0.0)

    def add(self, corpus: EncodedTrees, first: int, end: int, parts: CFGScores) -> None:
        """Add the gradient by the part scores of sentences ``first`` to ``end``."""
        features, e = self._features, self._features.outcomes.n_outcomes
        rows = features.rows_of(corpus, first, end, parts)
        self.vector[:e] += rows.sum(axis=0)
        lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
        features.pieces.block.add_gradient(corpus.spans, lo, hi, rows, self.vector[e:], NO_ROWS)

    def finish(self) -> Float:
        """The gradient [D] of all that was added."""
        return self.vector


class SparseSpanGradient(SparseGroups):
    """The gradient of one sentence."""

    def __init__(self, features: SpanFeatures) -> None:
        super().__init__(features.groups)
        self._features = features

    def add(self, corpus: EncodedTrees, sequence: int, parts: CFGScores) -> None:
        """Add the gradient by the part scores of one sentence."""
        features, e = self._features, self._features.outcomes.n_outcomes
        rows = features.rows_of(corpus, sequence, sequence + 1, parts)
        self.touch(0)
        self.values[:e] += rows.sum(axis=0)
        lo, hi = int(corpus.offsets[sequence]), int(corpus.offsets[sequence + 1])
        self.add_block(features.pieces.block, corpus.spans, lo, hi, 1, rows)


def word_spans(lengths: Int64) -> Int64:
    """The numbers of the spans of one word, of sentences with these lengths, in the order of the words."""
    starts = np.repeat(span_offsets(lengths)[:-1], lengths)
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)
    end = np.arange(int(lengths.sum())) - first + 1  # a word's span is (end - 1, end)
    return (starts + end * (end - 1) // 2 + end - 1).astype(np.int64)
