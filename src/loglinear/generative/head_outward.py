"""A generative model of sentences with projective trees: head-outward, with valence, tags and words.

The root generates one child. A token generates its children on each side from the nearest outward; before each it stops
or not, depending on whether it has a child on that side yet (its *valence*), then draws the child's tag and word::

    p(x, y) = p(tag, word of the root's child)
              prod over tokens h, sides d:  stop(h, d, v)
                  prod over children c:  (1 - stop(h, d, v)) p(tag_c | h, d, v) p(word_c | tag_c, h, d)

(Collins 1996; Eisner 1996, model C; Klein & Manning 2004.) It is estimated
from counts, backed off from the head's word to its tag to neither. Decoding is exact, in O(n^3); log p(x, y) is exact
too, and trees can be drawn together with their sentences.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from loglinear.arrays import Float, Int32, Int64, UInt64
from loglinear.errors import DataError, OptionError
from loglinear.features.arcs import ArcEncoder, Tokens, TokenVocabulary
from loglinear.generative.base import SMOOTHING, Sampling
from loglinear.kernels import kernel
from loglinear.kernels.tables import KeyTable, find
from loglinear.options import declared, option, spec_name, spec_options

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


NAME = "head-outward"
LONGEST_DRAW = 400  # tokens; longer sentences are drawn again
FACTORS = (2.0, 2.0, 5.0)  # of smoothing: of stops, tags and words; chosen on held-out sentences of ptbdep and EWT


@dataclass(frozen=True)
class BaseOptions:
    """The options of a spec, as in ``head-outward:words=no,samples=1000``."""

    words: bool = option("generate and look at words too, not tags alone", default=True)
    samples: int = option("trees drawn for the expectations", default=100_000, least=1)
    smoothing: float = option(SMOOTHING.help, default=SMOOTHING.default, least=0, most=SMOOTHING.most)


def read_base(spec: str | None) -> BaseOptions:
    """The options of the base of M-estimation in a spec; None for the defaults."""
    if spec is None:
        return BaseOptions()
    if spec_name(spec) != NAME:
        raise OptionError(f"base={spec!r} is not known for trees; there is {NAME}")
    return BaseOptions(**spec_options(spec, declared(BaseOptions), "base"))


class ValenceScores(NamedTuple):
    """Scores of S sentences: of arcs to a first and to a later child [A], and of stopping [N, 2 sides, 2]."""

    first: Float
    later: Float
    stops: Float

    def plus(self, arcs: Float) -> ValenceScores:
        """With a score for each arc [A] added."""
        return self._replace(first=self.first + arcs, later=self.later + arcs)


@dataclass(frozen=True)
class HeadOutwardModel:
    """Counts, and the probabilities estimated from them.

    Parameters
    ----------
    n_tags, n_words : int
        Tags and words of the vocabulary.
    lexical : bool
        Whether the model has words, or tags only.
    contexts : int64 [C]
        The contexts, ascending.
    begins : int64 [C + 1]
        The first outcome of each.
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
        if n_tags + 2 > 1 << TAG_BITS or n_words + 2 > 1 << WORD_BITS:
            raise DataError(f"{n_tags} tags and {n_words} words are more than a head-outward model takes")
        rows = np.empty((15 * len(heads), 2), dtype=np.int64)
        n = events(tokens.offsets, tokens.words, tokens.tags, heads, n_tags, lexical, rows)
        contexts, number = np.unique(rows[:n, 0], return_inverse=True)
        pairs, counts = np.unique((number.ravel() << (WORD_BITS + 1)) | rows[:n, 1], return_counts=True)
        begins = np.searchsorted(pairs >> (WORD_BITS + 1), np.arange(len(contexts) + 1)).astype(np.int64)
        outcomes = (pairs & ((1 << (WORD_BITS + 1)) - 1)).astype(np.int32)
        return cls(n_tags, n_words, lexical, contexts, begins, outcomes, counts.astype(np.float64), factors)

    @cached_property
    def _arrays(self) -> Counts:
        """The counts as kernels use them."""
        n_outcomes = np.diff(self.begins)
        sums, cumulated = np.add.reduceat(self.counts, self.begins[:-1]), np.cumsum(self.counts)
        before = np.concatenate([[0.0], cumulated])[self.begins[:-1]]
        contexts = np.repeat(np.arange(len(self.contexts)), n_outcomes)
        outcomes = KeyTable.of((contexts << (WORD_BITS + 1)) | self.outcomes)
        return Counts(
            self.lexical,
            sizes=np.array([2, self.n_tags, self.n_words + 1], dtype=np.int64),
            factors=np.array(self.factors),
            contexts=KeyTable.of(self.contexts),
            totals=sums,
            types=n_outcomes.astype(np.float64),
            keys=outcomes.keys,
            counts=self.counts[outcomes.numbers],
            begins=self.begins,
            outcomes=self.outcomes,
            ends=cumulated - np.repeat(before, n_outcomes),
        )

    def with_factors(self, factors: tuple[float, float, float]) -> HeadOutwardModel:
        """The same counts with other smoothing."""
        if not all(0.0 < factor < 1e6 for factor in factors):
            raise OptionError(f"factors={factors!r} of smoothing must be positive numbers")
        return replace(self, factors=factors)

    def scores(self, tokens: Tokens) -> ValenceScores:
        """Log probabilities of all arcs and stops."""
        lengths = np.diff(tokens.offsets)
        n_arcs = int((lengths * (lengths + 1)).sum())
        first, later, stops = np.empty(n_arcs), np.empty(n_arcs), np.zeros((int(tokens.offsets[-1]), 2, 2))
        tags = np.where(tokens.tags < 0, self.n_tags + 1, tokens.tags).astype(np.int32)
        scores = ValenceScores(first, later, stops)
        arc_scores(tokens.offsets, tokens.words, tags, self._arrays, scores)
        return scores

    def viterbi(self, tokens: Tokens, arcs: Float | None = None) -> tuple[Int32, Float]:
        """The most probable trees [N] with log p(x, y) [S], if given with a score for each of ``arcs`` [A] added."""
        scores = self.scores(tokens)
        return best_trees(tokens.offsets, scores if arcs is None else scores.plus(arcs))

    def log_prob(self, tokens: Tokens, heads: Int32) -> Float:
        """log p(x, y) [S] of sentences with projective trees ``heads`` [N]."""
        scores, out = self.scores(tokens), np.empty(len(tokens.offsets) - 1)
        score(tokens.offsets, scores, heads, out)
        return out

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Int32, Int32, Int32, Int64]:
        """Words, tags and heads [N] of ``n`` drawn sentences, and their offsets [n + 1].

        A word of -1 is not in the vocabulary; without words all are -1.
        """
        state = rng.integers(0, 2**63, size=1, dtype=np.uint64)
        words, tags, heads = (np.empty(LONGEST_DRAW, dtype=np.int32) for _ in range(3))
        drawn: list[tuple[Int32, Int32, Int32]] = []
        while len(drawn) < n:
            length = draw_tree(self._arrays, state, words, tags, heads)
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
    viterbi(offsets, scores, heads, best)
    return heads, best


# ----------------------------------------------------------------------------------------------------------------------
# Kernels of the head-outward model: smoothed probabilities by looking up counts, and drawing trees.
#
# Each outcome e has contexts c_1, c_2, ... from the coarsest to the finest. With n(c, e) its count in context c, n(c)
# the sum and T(c) the number of distinct outcomes there (Witten & Bell 1991, with a factor; Collins 1999)::
#
#     p_0(e) = 1 / number of outcomes            p_l(e) = (n(c_l, e) + b T(c_l) p_{l-1}(e)) / (n(c_l) + b T(c_l))
#
# A context is a number of 63 bits::
#
#     level | side | whether there is a child | tag of the head | word of the head + 1 | tag of the child
#
# and an outcome in a context the context's number and the outcome's.


TAG_BITS, WORD_BITS = 10, 20
STOP, TAG, WORD = 0, 3, 6  # first levels of the three kinds of outcomes
LEFT, RIGHT = 0, 1


class Counts(NamedTuple):
    """Counts in C contexts, as kernels look them up.

    Parameters
    ----------
    lexical : bool
        Whether the model has words, or tags only.
    sizes : int64 [3]
        The numbers of outcomes of each kind: 2, tags, words and the unknown one.
    factors : float64 [3]
        b of each kind.
    contexts : KeyTable
    totals, types : float64 [C]
        n(c) and T(c).
    keys, counts : int64, float64 [places]
        A table of the outcomes in their contexts, and n(c, e).
    begins : int64 [C + 1]
        The outcomes of context c are ``begins[c]`` to ``begins[c + 1]``.
    outcomes, ends : int32, float64 [O]
        The outcomes, and their cumulated counts.
    """

    lexical: bool
    sizes: Int64
    factors: Float
    contexts: KeyTable
    totals: Float
    types: Float
    keys: Int64
    counts: Float
    begins: Int64
    outcomes: Int32
    ends: Float


class Place(NamedTuple):
    """What an outcome depends on; ``word`` may be -1, ``child`` (a tag) only matters for words."""

    side: int
    valence: int
    tag: int
    word: int
    child: int


@kernel
def _context(level: int, place: Place) -> int:
    """The context of a level: 0 to 2 for stopping, 3 to 5 for the child's tag, 6 to 8 for its word."""
    kind, depth = level // 3, level % 3
    side, valence, head_tag, head_word, child_tag = place
    key = level
    if kind == 2:
        valence = 0  # a word does not depend on it
        side = side if depth > 0 else 0
        head_tag = head_tag if depth > 0 else 0
    else:
        child_tag = 0
        head_tag = head_tag if depth > 0 else 0
    word = head_word + 1 if depth == 2 else 0
    key = (key << 1) | side
    key = (key << 1) | valence
    key = (key << TAG_BITS) | head_tag
    key = (key << WORD_BITS) | word
    return (key << TAG_BITS) | child_tag


@kernel
def _probability(kind: int, outcome: int, place: Place, model: Counts) -> float:
    """p(outcome) at a place, of the kind STOP, TAG or WORD."""
    contexts, numbers = model.contexts
    sizes, factors, totals, types, keys, counts = (
        model.sizes, model.factors, model.totals, model.types, model.keys, model.counts
    )  # fmt: skip
    p, depth, n_levels = 1.0 / sizes[kind // 3], 0, 3 if model.lexical and place.word >= 0 else 2
    while depth < n_levels:  # a single exit, so that the compiler omits reference counting
        slot = find(_context(kind + depth, place), contexts)
        if contexts[slot] < 0:
            depth = n_levels
        else:
            number, n = numbers[slot], 0.0
            if outcome >= 0:
                at = find((int(number) << (WORD_BITS + 1)) | outcome, keys)
                n = counts[at] if keys[at] >= 0 else 0.0
            weight = factors[kind // 3] * types[number]
            p = (n + weight * p) / (totals[number] + weight)
        depth += 1
    return p


@kernel
def _note(kind: int, n_levels: int, outcome: int, place: Place, out: Int64, n: int) -> int:
    """Rows (context, outcome) of every level after the first ``n`` of ``out``; their new number."""
    for depth in range(n_levels):
        out[n, 0], out[n, 1] = _context(kind + depth, place), outcome
        n += 1
    return n


@kernel
def _nearest_children(heads: Int32) -> Int64:
    """The nearest child of each token on each side [n + 1, 2], from 1; 0 if it has none."""
    children = np.zeros((heads.shape[0] + 1, 2), np.int64)
    for t in range(1, heads.shape[0] + 1):
        h = heads[t - 1]
        if t < h:
            children[h, LEFT] = t
        elif children[h, RIGHT] == 0:
            children[h, RIGHT] = t
    return children


@kernel
def events(offsets: Int64, words: Int32, tags: Int32, heads: Int32, root_tag: int, lexical: bool, out: Int64) -> int:
    """All outcomes of trees, each with the context of every level: rows (context, outcome) of ``out``; their number."""
    n_rows, depths = 0, 3 if lexical else 2
    for s in range(offsets.shape[0] - 1):
        low = offsets[s]
        n = offsets[s + 1] - low
        children = _nearest_children(heads[low : low + n])
        for t in range(1, n + 1):
            tag, word = int(tags[low + t - 1]), int(words[low + t - 1])
            h = heads[low + t - 1]
            side = RIGHT if t > h else LEFT
            valence = 0 if h == 0 or children[h, side] == t else 1
            head_tag = root_tag if h == 0 else int(tags[low + h - 1])
            head_word = -1 if h == 0 else int(words[low + h - 1])
            n_levels = depths if head_word >= 0 else 2
            place = Place(side, valence, head_tag, head_word, tag)
            if h > 0:
                n_rows = _note(STOP, n_levels, 0, place, out, n_rows)
            n_rows = _note(TAG, n_levels, tag, place, out, n_rows)
            if lexical:
                n_rows = _note(WORD, n_levels, word, place, out, n_rows)
            for side in range(2):
                place = Place(side, 1 if children[t, side] else 0, tag, word, 0)
                n_rows = _note(STOP, depths, 1, place, out, n_rows)
    return n_rows


@kernel
def arc_scores(offsets: Int64, words: Int32, tags: Int32, model: Counts, scores: ValenceScores) -> None:
    """Log probabilities: ``first`` and ``later`` [A] of taking a child, ``stops`` [N, 2, 2] of stopping."""
    a, (first, later, stops) = 0, scores
    for s in range(offsets.shape[0] - 1):
        low = offsets[s]
        n = offsets[s + 1] - low
        for h in range(n + 1):
            tag = model.sizes[1] if h == 0 else int(tags[low + h - 1])
            word = -1 if h == 0 else int(words[low + h - 1])
            going = np.zeros((2, 2))
            if h > 0:
                for side in range(2):
                    for valence in range(2):
                        p = _probability(STOP, 1, Place(side, valence, tag, word, 0), model)
                        stops[low + h - 1, side, valence] = np.log(p)
                        going[side, valence] = np.log1p(-p)
            for t in range(1, n + 1):
                place = a + (t - 1) * (n + 1) + h
                if t == h:
                    first[place] = later[place] = -np.inf
                    continue
                side, child = RIGHT if t > h else LEFT, int(tags[low + t - 1])
                of_word = 0.0
                if model.lexical:
                    p = _probability(WORD, int(words[low + t - 1]), Place(side, 0, tag, word, child), model)
                    of_word = np.log(p)
                for valence in range(2):
                    p = _probability(TAG, child, Place(side, valence, tag, word, 0), model)
                    value = np.log(p) + of_word + going[side, valence]
                    if valence == 0:
                        first[place] = value
                    else:
                        later[place] = value if h > 0 else -np.inf
        a += n * (n + 1)


@kernel
def _uniform(state: UInt64) -> float:
    """A number in [0, 1) (splitmix64; Steele, Lea & Flood 2014)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0


@kernel
def _draw(kind: int, place: Place, model: Counts, state: UInt64) -> int:
    """An outcome drawn from :func:`_probability`: at each level, from the finest, a counted one or none yet."""
    n_outcomes, factor = model.sizes[kind // 3], model.factors[kind // 3]
    begins, ends, totals = model.begins, model.ends, model.totals
    for depth in range(2 if model.lexical else 1, -1, -1):
        if depth == 2 and place.word < 0:
            continue
        slot = find(_context(kind + depth, place), model.contexts.keys)
        if model.contexts.keys[slot] < 0:
            continue
        number = model.contexts.numbers[slot]
        target = _uniform(state) * (totals[number] + factor * model.types[number])
        if target < totals[number]:
            low, high = begins[number], begins[number + 1] - 1
            while low < high:
                middle = (low + high) // 2
                if ends[middle] > target:
                    high = middle
                else:
                    low = middle + 1
            return model.outcomes[low]
    return min(int(_uniform(state) * n_outcomes), n_outcomes - 1)


@kernel
def draw_tree(model: Counts, state: UInt64, words: Int32, tags: Int32, heads: Int32) -> int:
    """Draw a tree with its sentence into ``words``, ``tags`` and ``heads``; its length, 0 if it would be longer."""
    most, unknown = words.shape[0], model.sizes[2] - 1
    tag_of, word_of = np.empty(most + 1, np.int64), np.empty(most + 1, np.int64)
    parent = np.zeros(most + 1, np.int64)
    outer, inner = np.full((most + 1, 2), -1, np.int64), np.full(most + 1, -1, np.int64)  # farthest child; next inward
    tag_of[0], word_of[0] = model.sizes[1], -1
    n, waiting = 1, 0
    while waiting < n:
        h = waiting
        waiting += 1
        for side in range(2):
            if h == 0 and side == LEFT:
                continue
            valence = 0
            while True:
                h_tag, h_word = tag_of[h], word_of[h]
                if h > 0 and _draw(STOP, Place(side, valence, h_tag, h_word, 0), model, state) == 1:
                    break
                if n > most:
                    return 0
                tag, word = _draw(TAG, Place(side, valence, h_tag, h_word, 0), model, state), -1
                if model.lexical:
                    word = _draw(WORD, Place(side, 0, h_tag, h_word, tag), model, state)
                    word = -1 if word == unknown else word
                tag_of[n], word_of[n], parent[n] = tag, word, h
                inner[n], outer[h, side] = outer[h, side], n
                n += 1
                valence = 1
                if h == 0:
                    break
    place, filled = np.zeros(n, np.int64), 0  # in the order of the sentence, from 1
    stack, size = np.empty(2 * n + 2, np.int64), 1
    farthest_first = np.empty(n, np.int64)
    stack[0] = outer[0, RIGHT]
    while size:
        size -= 1
        item = stack[size]
        if item < 0:  # a node whose left side is done
            filled += 1
            place[-item] = filled
            continue
        child = outer[item, RIGHT]
        while child >= 0:
            stack[size] = child
            size += 1
            child = inner[child]
        stack[size] = -item
        size += 1
        child, count = outer[item, LEFT], 0
        while child >= 0:
            farthest_first[count] = child
            count += 1
            child = inner[child]
        for k in range(count - 1, -1, -1):
            stack[size] = farthest_first[k]
            size += 1
    for node in range(1, n):
        t = place[node] - 1
        tags[t], words[t] = tag_of[node], word_of[node]
        heads[t] = 0 if parent[node] == 0 else place[parent[node]]
    return n - 1


# ----------------------------------------------------------------------------------------------------------------------
# Feature counts of trees, and their expectations under a head-outward model by drawing trees from it.
#
#     E_q0[f]  ~  (1/s) sum over draws (x, y) of f(x, y)                  (Smith, Vail & Lafferty 2007, eq. 7)
#
# smoothed as :class:`~loglinear.generative.base.Sampling` does. A drawn tree costs its n arcs, no chart.


def tree_counts(encoder: ArcEncoder, tokens: Tokens, heads: Int32) -> csr_matrix:
    """Feature counts of each tree, a sparse matrix [S, D]."""
    from scipy.sparse import csr_matrix

    pointer, ids = encoder.chosen(tokens, heads)
    shape = (len(tokens.offsets) - 1, encoder.n_features)
    matrix = csr_matrix((np.ones(len(ids)), ids, pointer[tokens.offsets]), shape=shape)
    matrix.sum_duplicates()
    return matrix


def drawn_counts(base: HeadOutwardModel, encoder: ArcEncoder, sampling: Sampling, n_threads: int = 1) -> Float:
    """Mean feature counts [D] of trees drawn from ``base``, in batches with a seed each."""
    _ = encoder.table  # cached here, before threads use it
    base.sample(1, np.random.default_rng(0))

    def counts(n: int, rng: np.random.Generator) -> Float:
        words, tags, heads, offsets = base.sample(n, rng)
        ids = encoder.chosen(encoder.vocabulary.drawn(words, tags, offsets), heads)[1]
        return np.bincount(ids, minlength=encoder.n_features).astype(np.float64)

    return sampling.total(counts, n_threads) / sampling.samples


def expected_counts(
    base: HeadOutwardModel, encoder: ArcEncoder, sampling: Sampling, observed: Float, n_threads: int = 1
) -> Float:
    """E_q0[f] [D], ``observed`` [D] being the mean counts of the training data."""
    return sampling.smoothed(drawn_counts(base, encoder, sampling, n_threads), observed)


# ----------------------------------------------------------------------------------------------------------------------
# Best projective trees with different scores for first and later children, and scores for stopping.
#
# They decode a head-outward model (Eisner 1996, model C; Klein & Manning 2004): a head generates its children on each
# side from the nearest outward, and after each decides whether to stop::
#
#     score(y) = sum over arcs h -> t of  first(h, t) if t is the nearest child of h on its side, else later(h, t)
#                + sum over tokens h and sides d of  stop(h, d, whether h has a child on that side)
#
# The recursions are those of :mod:`~loglinear.structures.arcs.best`, but half trees that may still grow (R, L) differ
# from those that have stopped (R', L')::
#
#     iR(i, j) = max( first(i, j) + L'(i + 1, j),   later(i, j) + max_{i < k < j} R(i, k) + L'(k + 1, j) )
#     R(i, j)  = max_k iR(i, k) + R'(k, j)
#
# and likewise for the other side. The root has one child. Arcs are blocks [n, n + 1], child by head, as everywhere.


RIGHT_HALF, LEFT_HALF, RIGHT_ARC, LEFT_ARC = 0, 1, 2, 3  # kinds of half trees


@kernel
def _best_tree(first: Float, later: Float, stops: Float, heads: Int32) -> float:
    """The best tree of one sentence with arcs [n, n + 1] and stops [n, 2, 2] into ``heads`` [n]; its score."""
    n = first.shape[0]
    right, right_end, left, left_end = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    shut_right, shut_left = np.zeros((n, n)), np.zeros((n, n))  # R'[i, k], L'[j, k] = L'(k, j)
    to_right, to_left = np.zeros((n, n)), np.zeros((n, n))
    splits = np.zeros((4, n, n), np.int32)
    for i in range(n):
        shut_right[i, i] = right_end[i, i] = stops[i, RIGHT, 0]
        shut_left[i, i] = left_end[i, i] = stops[i, LEFT, 0]
    for width in range(1, n):
        for i in range(n - width):
            j = i + width
            best, at = first[j, i + 1] + shut_left[j, i + 1], i
            for k in range(i + 1, j):
                value = right[i, k] + shut_left[j, k + 1] + later[j, i + 1]
                if value > best:
                    best, at = value, k
            to_right[i, j] = best
            splits[RIGHT_ARC, i, j] = at
            best, at = first[i, j + 1] + shut_right[i, j - 1], j - 1
            for k in range(i, j - 1):
                value = shut_right[i, k] + left[j, k + 1] + later[i, j + 1]
                if value > best:
                    best, at = value, k
            to_left[j, i] = best
            splits[LEFT_ARC, i, j] = at
            best, at = -np.inf, i
            for k in range(i, j):
                value = left_end[i, k] + to_left[j, k]
                if value > best:
                    best, at = value, k
            left[j, i] = best
            shut_left[j, i] = left_end[i, j] = best + stops[j, LEFT, 1]
            splits[LEFT_HALF, i, j] = at
            best, at = -np.inf, j
            for k in range(i + 1, j + 1):
                value = to_right[i, k] + right_end[j, k]
                if value > best:
                    best, at = value, k
            right[i, j] = best
            shut_right[i, j] = right_end[j, i] = best + stops[i, RIGHT, 1]
            splits[RIGHT_HALF, i, j] = at
    best, root = -np.inf, -1
    for r in range(n):
        value = first[r, 0] + shut_left[r, 0] + shut_right[r, n - 1]
        if value > best:
            best, root = value, r
    if root < 0:
        return -np.inf
    heads[root] = 0
    stack = np.empty((4 * n + 8, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = RIGHT_HALF, root, n - 1
    stack[1, 0], stack[1, 1], stack[1, 2] = LEFT_HALF, 0, root
    size = 2
    while size:
        size -= 1
        kind, low, high = stack[size]
        if low == high:
            continue
        k = splits[kind, low, high]
        if kind == RIGHT_HALF:
            stack[size, 0], stack[size, 1], stack[size, 2] = RIGHT_HALF, k, high
            stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = RIGHT_ARC, low, k
        elif kind == LEFT_HALF:
            stack[size, 0], stack[size, 1], stack[size, 2] = LEFT_HALF, low, k
            stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = LEFT_ARC, k, high
        else:
            if kind == RIGHT_ARC:
                heads[high] = low + 1
            else:
                heads[low] = high + 1
            stack[size, 0], stack[size, 1], stack[size, 2] = RIGHT_HALF, low, k
            stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = LEFT_HALF, k + 1, high
        size += 2
    return best


@kernel
def viterbi(offsets: Int64, scores: ValenceScores, heads: Int32, best: Float) -> int:
    """Best trees into ``heads`` [N], their scores into ``best`` [S]; the first sentence without one, or -1."""
    a, (first, later, stops) = 0, scores
    for s in range(offsets.shape[0] - 1):
        low, high = offsets[s], offsets[s + 1]
        n = high - low
        end = a + n * (n + 1)
        best[s] = _best_tree(
            first[a:end].reshape(n, n + 1), later[a:end].reshape(n, n + 1), stops[low:high], heads[low:high]
        )
        if best[s] == -np.inf:
            return s
        a = end
    return -1


@kernel
def score(offsets: Int64, scores: ValenceScores, heads: Int32, out: Float) -> None:
    """Scores [S] of the trees ``heads`` [N]."""
    a, (first, later, stops) = 0, scores
    for s in range(offsets.shape[0] - 1):
        low = offsets[s]
        n = offsets[s + 1] - low
        children, total = _nearest_children(heads[low : low + n]), 0.0
        for t in range(1, n + 1):
            h = heads[low + t - 1]
            place = a + (t - 1) * (n + 1) + h
            is_first = t == children[h, RIGHT] or t == children[h, LEFT]
            total += first[place] if is_first else later[place]
            for side in range(2):
                total += stops[low + t - 1, side, 1 if children[t, side] else 0]
        out[s] = total
        a += n * (n + 1)
