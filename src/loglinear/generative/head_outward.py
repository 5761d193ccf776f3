r"""A generative model of sentences with projective trees: head-outward, with valence, tags and words.

The root makes one child. A token makes its children on each side from the nearest outward; before each it stops or
goes on, knowing whether it has a child on that side yet (its *valence*), then draws the child's tag, then its word::

    p(x, y) = p(tag, word of the root's child)
              prod over tokens h, sides d:  stop(h, d, v)
                  prod over children c:  (1 - stop(h, d, v)) p(tag_c | h, d, v) p(word_c | tag_c, h, d)

(Collins 1996; Eisner 1996, model C; Klein & Manning 2004.) Counts of trees estimate it, backed off from the head's word
to its tag to neither (:mod:`~loglinear.generative.head_outward_kernels`). It is decoded exactly in O(n^3), gives
log p(x, y), and can be drawn from, trees and sentences together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from loglinear.errors import DataError, OptionError
from loglinear.features.arc_vocabulary import Tokens, TokenVocabulary
from loglinear.generative import head_outward_kernels as kernels
from loglinear.structures import arc_valence

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
LONGEST_DRAW = 400  # tokens; longer sentences are drawn again
FACTORS = (2.0, 2.0, 5.0)  # of smoothing: of stops, tags and words; chosen on held-out sentences of ptbdep and EWT


@dataclass(frozen=True)
class ValenceScores:
    """Scores of S sentences: of arcs to a first and to a later child [A], and of stopping [N, 2 sides, 2]."""

    first: Float
    later: Float
    stops: Float

    def plus(self, arcs: Float) -> ValenceScores:
        """With a score for each arc [A] added."""
        return replace(self, first=self.first + arcs, later=self.later + arcs)


@dataclass(frozen=True)
class HeadOutwardModel:
    """Counts, and probabilities made of them.

    Parameters
    ----------
    n_tags, n_words : int
        Tags and words of the vocabulary.
    lexical : bool
        Whether words are generated and looked at, or tags alone.
    contexts : int64 [C]
        The contexts there are, ascending.
    begins : int64 [C + 1]
        Where the outcomes of each begin.
    outcomes : int32 [O]
    counts : float64 [O]
        How often each outcome was seen in its context.
    factors : tuple of float
        b of the smoothing of stops, tags and words.
    """

    n_tags: int
    n_words: int
    lexical: bool
    contexts: Int64
    begins: Int64
    outcomes: Int32
    counts: Float
    factors: tuple[float, float, float] = FACTORS

    @classmethod
    def fit(
        cls,
        vocabulary: TokenVocabulary,
        tokens: Tokens,
        heads: Int32,
        lexical: bool = True,
        factors: tuple[float, float, float] = FACTORS,
    ) -> HeadOutwardModel:
        """The counts of trees ``heads`` [N]; those that are not projective count as they are."""
        n_tags, n_words = len(vocabulary.tags), len(vocabulary.words)
        if n_tags + 2 > 1 << kernels.TAG_BITS or n_words + 2 > 1 << kernels.WORD_BITS:
            raise DataError(f"{n_tags} tags and {n_words} words are more than a head-outward model takes")
        rows = np.empty((15 * len(heads), 2), dtype=np.int64)
        n = kernels.events(tokens.offsets, tokens.words, tokens.tags, heads, n_tags, lexical, rows)
        contexts, number = np.unique(rows[:n, 0], return_inverse=True)
        pairs, counts = np.unique((number.ravel() << (kernels.WORD_BITS + 1)) | rows[:n, 1], return_counts=True)
        begins = np.searchsorted(pairs >> (kernels.WORD_BITS + 1), np.arange(len(contexts) + 1)).astype(np.int64)
        outcomes = (pairs & ((1 << (kernels.WORD_BITS + 1)) - 1)).astype(np.int32)
        return cls(n_tags, n_words, lexical, contexts, begins, outcomes, counts.astype(np.float64), factors)

    @cached_property
    def _totals(self) -> tuple[Float, Float]:
        """n and T of each context."""
        types = np.diff(self.begins).astype(np.float64)
        return np.add.reduceat(self.counts, self.begins[:-1]), types

    @cached_property
    def _context_table(self) -> tuple[Int64, Int32]:
        return _table(self.contexts)

    @cached_property
    def _outcome_table(self) -> tuple[Int64, Float]:
        contexts = np.repeat(np.arange(len(self.contexts)), np.diff(self.begins))
        table, places = _table((contexts << (kernels.WORD_BITS + 1)) | self.outcomes)
        return table, self.counts[places]

    @cached_property
    def _ends(self) -> Float:
        """Counts of each context's outcomes, cumulated."""
        cumulated = np.cumsum(self.counts)
        before = np.concatenate([[0.0], cumulated])[self.begins[:-1]]
        return cumulated - np.repeat(before, np.diff(self.begins))

    @property
    def _sizes(self) -> Int64:
        return np.array([self.n_tags, self.n_words], dtype=np.int64)

    def with_factors(self, factors: tuple[float, float, float]) -> HeadOutwardModel:
        """The same counts, smoothed otherwise."""
        if not all(0.0 < factor < 1e6 for factor in factors):
            raise OptionError(f"factors={factors!r} of smoothing must be positive numbers")
        return replace(self, factors=factors)

    def scores(self, tokens: Tokens) -> ValenceScores:
        """Log probabilities of all arcs and stops."""
        lengths = np.diff(tokens.offsets)
        n_arcs = int((lengths * (lengths + 1)).sum())
        first, later, stops = np.empty(n_arcs), np.empty(n_arcs), np.zeros((int(tokens.offsets[-1]), 2, 2))
        tags = np.where(tokens.tags < 0, self.n_tags + 1, tokens.tags).astype(np.int32)
        kernels.arc_scores(
            tokens.offsets, tokens.words, tags, self.n_tags, self.lexical, self._sizes, np.array(self.factors),
            *self._context_table, *self._totals, *self._outcome_table, first, later, stops,
        )  # fmt: skip
        return ValenceScores(first, later, stops)

    def viterbi(self, tokens: Tokens, arcs: Float | None = None) -> tuple[Int32, Float]:
        """The most probable trees [N], with log p(x, y) [S]; or those with a score for each ``arcs`` [A] added."""
        scores = self.scores(tokens)
        return best_trees(tokens.offsets, scores if arcs is None else scores.plus(arcs))

    def log_prob(self, tokens: Tokens, heads: Int32) -> Float:
        """log p(x, y) [S] of sentences with projective trees ``heads`` [N]."""
        scores, out = self.scores(tokens), np.empty(len(tokens.offsets) - 1)
        arc_valence.score(tokens.offsets, scores.first, scores.later, scores.stops, heads, out)
        return out

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Int32, Int32, Int32, Int64]:
        """Words, tags and heads [N] of ``n`` drawn sentences, and their offsets [n + 1].

        A word that is -1 is one that the vocabulary does not have; without words all are.
        """
        state = rng.integers(0, 2**63, size=1, dtype=np.uint64)
        words, tags, heads = (np.empty(LONGEST_DRAW, dtype=np.int32) for _ in range(3))
        drawn: list[tuple[Int32, Int32, Int32]] = []
        while len(drawn) < n:
            length = kernels.draw_tree(
                self.n_tags, self.lexical, self._sizes, np.array(self.factors), *self._context_table, *self._totals,
                self.begins, self.outcomes, self._ends, state, words, tags, heads,
            )  # fmt: skip
            if length:
                drawn.append((words[:length].copy(), tags[:length].copy(), heads[:length].copy()))
        offsets = np.cumsum([0, *(len(each[0]) for each in drawn)]).astype(np.int64)
        if not drawn:
            nothing = np.zeros(0, dtype=np.int32)
            return nothing, nothing, nothing, offsets
        columns = [np.concatenate([each[k] for each in drawn]) for k in range(3)]
        return columns[0], columns[1], columns[2], offsets


def best_trees(offsets: Int64, scores: ValenceScores) -> tuple[Int32, Float]:
    """The best trees [N] and their scores [S]."""
    heads, best = np.empty(int(offsets[-1]), dtype=np.int32), np.empty(len(offsets) - 1)
    arc_valence.viterbi(offsets, scores.first, scores.later, scores.stops, heads, best)
    return heads, best


def _table(keys: Int64) -> tuple[Int64, Int32]:
    """A table with open addressing, and the number of the key at each place."""
    size = 1 << max(4, (2 * len(keys)).bit_length())
    table, places = np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=np.int32)
    kernels.fill(np.ascontiguousarray(keys, dtype=np.int64), table, places)
    return table, places
