"""Features of arcs as numbers: the features of the training trees are numbered, and each arc has a list of them.

    pointer [A + 1], ids       the features of arc a are ids[pointer[a]] .. ids[pointer[a + 1] - 1]

The arcs of a sentence of n tokens are a block [n, n + 1], child by head. Each feature is one integer
(:class:`ArcTemplate`), looked up in a table with open addressing; no strings or objects are made per arc.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from loglinear.arrays import Bool, Int32, Int64
from loglinear.data.columns.corpus import Column, offsets_of
from loglinear.features.encoding import Vocabulary, concatenated, runs
from loglinear.kernels import kernel
from loglinear.kernels.tables import KeyTable, find
from loglinear.system import in_threads

BETWEEN = 31  # number of the template for tags between head and child
ARCS_AT_ONCE, COLLECTED_AT_ONCE = 40_000, 1_000_000
NO_HEADS = np.zeros(0, dtype=np.int32)  # in place of heads: all arcs


class Tokens(NamedTuple):
    """N tokens in numbers: word, tag, pair of both, and stem [N], each -1 if unknown; offsets [S + 1]."""

    words: Int32
    tags: Int32
    pairs: Int32
    stems: Int32
    offsets: Int64


class Lookup(NamedTuple):
    """What to look up for an arc, and where.

    Parameters
    ----------
    templates : int64 [T, 5]
        :meth:`ArcTemplates.table`.
    between : bool
        Whether to use the tags between head and child.
    table : KeyTable
        The features that have a number; empty to collect keys instead.
    found : bool [T]
        Scratch: the templates that have a feature at the current arc.
    seen : int64 [Q + 1]
        Scratch: the last arc at which each tag was seen, and the number of arcs so far.
    """

    templates: Int64
    between: bool
    table: KeyTable
    found: Bool
    seen: Int64


@kernel
def _views(first: int, end: int, tokens: Tokens, sizes: Int64, out: Int64) -> None:
    """All views of the root and of the tokens ``first`` to ``end`` into ``out`` [views, n + 1].

    ``sizes`` [4] are the numbers of words, pairs, stems and tags.
    """
    words, tags, pairs, stems, _ = tokens
    n, n_tags = end - first, sizes[3]
    for t in range(n + 1):
        tag = n_tags - 3 if t == 0 else np.int64(tags[first + t - 1])
        before = n_tags - 2 if t == 0 else (n_tags - 3 if t == 1 else np.int64(tags[first + t - 2]))
        after = n_tags - 1 if t == n else np.int64(tags[first + t])
        out[NONE, t] = 0
        out[WORD, t] = sizes[0] if t == 0 else np.int64(words[first + t - 1])
        out[TAG, t] = tag
        out[PAIR, t] = sizes[1] if t == 0 else np.int64(pairs[first + t - 1])
        out[STEM, t] = sizes[2] if t == 0 else np.int64(stems[first + t - 1])
        out[LEFT_TAG, t] = before * n_tags + tag if before >= 0 and tag >= 0 else -1
        out[TAG_RIGHT, t] = tag * n_tags + after if after >= 0 and tag >= 0 else -1
        whole = before >= 0 and tag >= 0 and after >= 0
        out[THREE_TAGS, t] = (before * n_tags + tag) * n_tags + after if whole else -1


@kernel
def _append(key: int, table: KeyTable, out: Int64, n: int) -> int:
    """Append the number of ``key``, if it has one, to the ``n`` features in ``out``; returns the new n.

    If the table is empty, the key itself is appended.
    """
    keys, ids = table
    if keys.shape[0] == 0:
        out[n] = key
        return n + 1
    slot = find(key, keys)
    if keys[slot] < 0:
        return n
    out[n] = ids[slot]
    return n + 1


@kernel
def _of_arc(views: Int64, head: int, child: int, templates: Int64, table: KeyTable, found: Bool, out: Int64) -> int:
    """Write the templates' features of the arc from ``head`` (0: root) to ``child`` (from 1) to ``out``; returns n."""
    n = 0
    distance = abs(head - child)
    bin_ = distance if distance < 5 else (5 if distance < 10 else 6)
    far = (bin_ if head < child else bin_ + 6) << (2 * VIEW_BITS)
    for t in range(templates.shape[0]):
        a, b, parent = views[templates[t, 0], head], views[templates[t, 1], child], templates[t, 4]
        found[t] = False
        if a < 0 or b < 0 or (parent >= 0 and not found[parent]):
            continue
        key = (t << (2 * VIEW_BITS + DISTANCE_BITS)) | (a << VIEW_BITS) | b
        found[t] = True
        if templates[t, 2]:
            before, n = n, _append(key, table, out, n)
            found[t] = n > before
        if templates[t, 3] and found[t]:
            n = _append(key | far, table, out, n)
    return n


@kernel
def _between(views: Int64, head: int, child: int, table: KeyTable, seen: Int64, out: Int64) -> int:
    """Write the features of the distinct tags between ``head`` and ``child`` to ``out``; returns how many."""
    n, n_tags = 0, seen.shape[0] - 1
    low, high = min(head, child), max(head, child)
    tag, child_tag = views[TAG, head], views[TAG, child]
    if tag < 0 or child_tag < 0:
        return n
    seen[n_tags] += 1  # marks this arc
    for t in range(low + 1, high):
        middle = views[TAG, t]
        if middle >= 0 and seen[middle] != seen[n_tags]:
            seen[middle] = seen[n_tags]
            key = (BETWEEN << (2 * VIEW_BITS + DISTANCE_BITS)) | ((tag * n_tags + middle) << VIEW_BITS) | child_tag
            n = _append(key | (1 if head < child else 2) << (2 * VIEW_BITS), table, out, n)
    return n


@kernel
def _encode(
    first: int, end: int, tokens: Tokens, heads: Int32, sizes: Int64, lookup: Lookup, pointer: Int64, out: Int64
) -> int:
    """Features of the arcs of sentences ``first`` to ``end``: of all arcs, or of those to ``heads`` [N] if not empty.

    Fills ``pointer`` [arcs + 1] and ``out``, which must be large enough, and returns the number of features.
    """
    templates, between, table, found, seen = lookup
    offsets, arc, filled = tokens.offsets, 0, 0
    pointer[0] = 0
    for s in range(first, end):
        n = offsets[s + 1] - offsets[s]
        views = np.empty((N_VIEWS, n + 1), np.int64)
        _views(offsets[s], offsets[s + 1], tokens, sizes, views)
        for child in range(1, n + 1):
            low, high = 0, n
            if heads.shape[0]:
                low = high = int(heads[offsets[s] + child - 1])
            for head in range(low, high + 1):
                if head != child:
                    filled += _of_arc(views, head, child, templates, table, found, out[filled:])
                    if between:
                        filled += _between(views, head, child, table, seen, out[filled:])
                arc += 1
                pointer[arc] = filled
    return filled


@dataclass(frozen=True)
class ArcCorpus:
    """Features of all arcs of S sentences.

    Parameters
    ----------
    offsets : int64 [S + 1]
        Where the sentences' tokens begin.
    arc_offsets : int64 [S + 1]
        Where their arcs begin.
    pointer : int64 [A + 1]
    ids : int32
        The features of arc a are ``ids[pointer[a]:pointer[a + 1]]``.
    """

    offsets: Int64
    arc_offsets: Int64
    pointer: Int64
    ids: Int32

    @property
    def n_sequences(self) -> int:
        """S."""
        return len(self.offsets) - 1


@dataclass(frozen=True)
class ArcEncoder:
    """Numbers features of arcs.

    Parameters
    ----------
    vocabulary : TokenVocabulary
    templates : str
        Name of a set of templates.
    features : int64 [D]
        The features that have a number, ascending.
    """

    vocabulary: TokenVocabulary
    templates: str
    features: Int64

    @classmethod
    def fit(
        cls, vocabulary: TokenVocabulary, templates: str, tokens: Tokens, heads: Int32 | None, min_count: int = 1
    ) -> ArcEncoder:
        """Number the features that occur ``min_count`` times on the arcs to ``heads`` [N], or on all arcs if None."""
        empty = cls(vocabulary, templates, np.zeros(0, dtype=np.int64))
        if heads is not None:
            features, counts = np.unique(empty._listed(tokens, heads, collect=True)[1], return_counts=True)
            return cls(vocabulary, templates, features[counts >= min_count])
        features, counts = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        begins = _arc_offsets(tokens)
        for first, end in runs(begins, 0, len(begins) - 1, COLLECTED_AT_ONCE):
            keys = empty._listed(tokens, NO_HEADS, collect=True, first=first, end=end)[1]
            new, new_counts = np.unique(keys, return_counts=True)
            features, place = np.unique(np.concatenate([features, new]), return_inverse=True)
            counts = np.bincount(place.ravel(), np.concatenate([counts, new_counts]), len(features)).astype(np.int64)
        return cls(vocabulary, templates, features[counts >= min_count])

    @property
    def n_features(self) -> int:
        """D."""
        return len(self.features)

    @property
    def _set(self) -> ArcTemplates:
        return SETS[self.templates]

    @cached_property
    def table(self) -> KeyTable:
        """The features by key, and their numbers."""
        return KeyTable.of(self.features)

    def _listed(
        self, tokens: Tokens, heads: Int32, collect: bool = False, first: int = 0, end: int | None = None
    ) -> tuple[Int64, Int64]:
        """Pointer and features of the arcs of sentences ``first`` to ``end``."""
        end = len(tokens.offsets) - 1 if end is None else end
        lengths = np.diff(tokens.offsets[first : end + 1])
        rows, known = self._set.table(), self.vocabulary
        per_arc = int(rows[:, 2].sum() + rows[:, 3].sum()) + min(int(lengths.max(initial=0)), known.n_tags)
        n_arcs = int(lengths.sum()) if len(heads) else int((lengths * (lengths + 1)).sum())
        pointer, out = np.empty(n_arcs + 1, dtype=np.int64), np.empty(n_arcs * per_arc, dtype=np.int64)
        sizes = np.array([len(known.words), len(known.pairs), len(known.stems), known.n_tags], dtype=np.int64)
        table = KeyTable(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)) if collect else self.table
        found, seen = np.zeros(len(rows), dtype=bool), np.zeros(known.n_tags + 1, dtype=np.int64)
        lookup = Lookup(rows, self._set.between, table, found, seen)
        filled = _encode(first, end, tokens, heads, sizes, lookup, pointer, out)
        return pointer, out[:filled]

    def matching(self, other: ArcEncoder) -> Int64:
        """For each feature of ``other`` [D'], the number of the same feature here, or -1."""
        mask, shift = (1 << VIEW_BITS) - 1, 2 * VIEW_BITS + DISTANCE_BITS
        keys, rows = other.features, self._set.table()
        template = keys >> shift
        views = np.full((BETWEEN + 1, 2), TAG)
        views[: len(rows)] = rows[:, :2]
        views[BETWEEN, 0] = LEFT_TAG  # this part of the key holds two tags, too
        head, child = (keys >> VIEW_BITS) & mask, keys & mask
        renamed = self.vocabulary.matching(other.vocabulary)
        head, child = (_renamed(part, views[template, i], renamed) for i, part in enumerate((head, child)))
        distance = keys & (((1 << DISTANCE_BITS) - 1) << (2 * VIEW_BITS))
        same = (template << shift) | distance | (head << VIEW_BITS) | child
        return _places(same, self.features, (head >= 0) & (child >= 0))

    def chosen(self, tokens: Tokens, heads: Int32) -> tuple[Int64, Int32]:
        """Features of the arc to the head of each token: pointer [N + 1] and ids."""
        pointer, ids = self._listed(tokens, heads)
        return pointer, ids.astype(np.int32)

    def arcs(self, tokens: Tokens, n_threads: int = 1) -> ArcCorpus:
        """Features of all arcs, sentences in threads."""
        begins = _arc_offsets(tokens)
        _ = self.table  # built once, before threads use it

        def block(run: tuple[int, int]) -> tuple[Int64, Int32]:
            pointer, ids = self._listed(tokens, NO_HEADS, first=run[0], end=run[1])
            return pointer, ids.astype(np.int32)

        blocks = in_threads(block, runs(begins, 0, len(begins) - 1, ARCS_AT_ONCE), n_threads)
        return ArcCorpus(tokens.offsets, begins, *concatenated(blocks))


def _arc_offsets(tokens: Tokens) -> Int64:
    """Where each sentence's block of arcs begins [S + 1]."""
    lengths = np.diff(tokens.offsets)
    return offsets_of(lengths * (lengths + 1))


def _places(codes: Int64, known: Int64, valid: Bool) -> Int64:
    """Place of each code [n] in the ascending codes ``known``; -1 if it is not there or not ``valid`` [n]."""
    if not len(known):
        return np.full(len(codes), -1)
    place = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    return np.where(valid & (known[place] == codes), place, -1)


def _renamed(ids: Int64, views: Int64, renamed: dict[int, Int64]) -> Int64:
    """Numbers in another vocabulary of the values ``ids`` [n] of the given ``views`` [n]; -1 if it lacks them."""
    numbers = np.where(views == NONE, 0, -1)
    for view, table in renamed.items():
        if view != TAG:
            numbers = np.where(views == view, table[np.where(views == view, ids, 0)], numbers)
    old, new = len(renamed[TAG]), int(renamed[TAG][-1]) + 1
    for view, n_tags in ((TAG, 1), (LEFT_TAG, 2), (TAG_RIGHT, 2), (THREE_TAGS, 3)):
        codes = np.where(views == view, ids, 0)
        digits = [renamed[TAG][codes // old**k % old] for k in range(n_tags)]
        code = np.sum([digit * new**k for k, digit in enumerate(digits)], axis=0)
        numbers = np.where(views == view, np.where(np.min(digits, axis=0) < 0, -1, code), numbers)
    return numbers


# ----------------------------------------------------------------------------------------------------------------------
# Templates of arc features: a view of the head and a view of the child (McDonald et al. 2005).
#
# A *view* of a token is its word, its tag, both, its stem, or its tag with those of its neighbours. A template joins a
# view of the head with one of the child, either by themselves (``plain``) or with the direction and the distance of the
# arc (``far``: 1, 2, 3, 4, 5-9, 10 or more to either side). In addition, each tag between head and child gives a
# feature: the triple of the three tags with the direction.
#
# A feature is a number of 63 bits: template, distance, view of the head, view of the child. If a template's views are
# finer than those of its *parent*, its feature can only exist where the parent's does, and is otherwise not looked up.


NONE, WORD, TAG, PAIR, STEM, LEFT_TAG, TAG_RIGHT, THREE_TAGS = range(8)
N_VIEWS = 8
VIEW_BITS, DISTANCE_BITS = 27, 4


@dataclass(frozen=True)
class ArcTemplate:
    """Views of head and child; whether they are used by themselves, and with direction and distance."""

    head: int
    child: int
    plain: bool = True
    far: bool = True


@dataclass(frozen=True)
class ArcTemplates:
    """A list of templates, and whether the tags between head and child are used."""

    templates: tuple[ArcTemplate, ...]
    between: bool = True

    def table(self) -> Int64:
        """As numbers [T, 5]: head, child, plain, far, and the number of the parent, an earlier one (-1: none)."""
        finer = {PAIR: (WORD, TAG), WORD: (STEM,), LEFT_TAG: (TAG,), TAG_RIGHT: (TAG,)}
        finer[THREE_TAGS] = (LEFT_TAG, TAG_RIGHT)
        rows: list[list[int]] = []
        for template in self.templates:
            coarser = [(view, template.child) for view in finer.get(template.head, ())]
            coarser += [(template.head, view) for view in finer.get(template.child, ())]
            parent = -1
            for number, row in enumerate(rows):
                if (row[0], row[1]) in coarser and row[2]:
                    parent = number
            rows.append([template.head, template.child, int(template.plain), int(template.far), parent])
        return np.array(rows, dtype=np.int64)

    def __post_init__(self) -> None:
        assert len(self.templates) < 31


_TOKEN_PAIRS = (
    (TAG, TAG), (STEM, TAG), (TAG, STEM), (STEM, STEM), (PAIR, TAG), (TAG, PAIR), (WORD, WORD), (PAIR, WORD),
    (WORD, PAIR), (PAIR, PAIR),
)  # fmt: skip
_CONTEXT_PAIRS = (
    (LEFT_TAG, TAG), (TAG_RIGHT, TAG), (TAG, LEFT_TAG), (TAG, TAG_RIGHT), (LEFT_TAG, LEFT_TAG), (LEFT_TAG, TAG_RIGHT),
    (TAG_RIGHT, LEFT_TAG), (TAG_RIGHT, TAG_RIGHT),
)  # fmt: skip

#: For finding heads. A feature of the child alone adds the same to all its heads, so it is not used by itself.
ARCS = ArcTemplates(
    (
        *(ArcTemplate(head, child) for head, child in _TOKEN_PAIRS + _CONTEXT_PAIRS),
        *(ArcTemplate(view, NONE) for view in (TAG, WORD, PAIR)),
        *(ArcTemplate(NONE, view, plain=False) for view in (TAG, WORD, PAIR, NONE)),
    )
)

#: For finding the relation of a known arc.
RELATIONS = ArcTemplates(
    (
        *(ArcTemplate(head, child) for head, child in _TOKEN_PAIRS),
        *(ArcTemplate(head, child, far=False) for head, child in ((TAG, LEFT_TAG), (TAG, TAG_RIGHT), (LEFT_TAG, TAG))),
        *(ArcTemplate(view, NONE) for view in (TAG, STEM, WORD)),
        *(ArcTemplate(NONE, view) for view in (TAG, STEM, WORD, PAIR, NONE)),
        *(ArcTemplate(NONE, view, far=False) for view in (LEFT_TAG, TAG_RIGHT, THREE_TAGS)),
    )
)
SETS = {"arcs": ARCS, "relations": RELATIONS}


# ----------------------------------------------------------------------------------------------------------------------
# Words and tags of sentences as numbers, for features of arcs and for generative dependency models.
#
# Besides its word and tag a token has the pair of both, and a *stem* to back off to: the first five letters of its word
# in lower case, with digits as 0. What does not occur in training is -1. The root and the ends of a sentence have
# special tags::
#
#     tags      0 .. Q-4      Q-3: the root      Q-2: before the root      Q-1: after the last token


STEM_LETTERS = 5
_DIGIT = re.compile(r"[0-9]")


def stem_of(word: str) -> str:
    """The stem that a word backs off to."""
    return _DIGIT.sub("0", word[:STEM_LETTERS].lower())


@dataclass(frozen=True)
class TokenVocabulary:
    """The words, tags and pairs of both of a training corpus.

    Parameters
    ----------
    words, tags : list of str
    pairs : int64 [n]
        Codes ``word * number of tags + tag`` of the pairs that occur, ascending.
    """

    words: list[str]
    tags: list[str]
    pairs: Int64

    @classmethod
    def fit(cls, words: Column, tags: Column) -> TokenVocabulary:
        """The vocabulary of N tokens."""
        known_words, known_tags = (
            sorted(column.values[i] for i in np.unique(column.ids).tolist()) for column in (words, tags)
        )
        word, tag = cls(known_words, known_tags, np.zeros(0, dtype=np.int64)).numbers(words, tags)
        return cls(known_words, known_tags, np.unique(word.astype(np.int64) * len(known_tags) + tag))

    @property
    def n_tags(self) -> int:
        """Q: the tags, and those of the root and of both ends."""
        return len(self.tags) + 3

    @cached_property
    def stems(self) -> list[str]:
        """The distinct stems."""
        return sorted({stem_of(word) for word in self.words})

    @cached_property
    def _numbers(self) -> dict[int, Vocabulary]:
        """The numbers of words, tags and stems, by view."""
        strings = {WORD: self.words, TAG: self.tags, STEM: self.stems}
        return {view: Vocabulary(known, locked=True) for view, known in strings.items()}

    @cached_property
    def stem_of_word(self) -> Int32:
        """The stem of each word."""
        return self._numbers[STEM].ids(map(stem_of, self.words))

    def matching(self, other: TokenVocabulary) -> dict[int, Int64]:
        """By view, the number here of each word, tag, pair and stem of ``other``, and of its root; -1 if unknown."""
        words, tags, stems = (self._numbers[view].ids(other._numbers[view].strings) for view in (WORD, TAG, STEM))
        pairs = self.pair_numbers(words[other.pairs // len(other.tags)], tags[other.pairs % len(other.tags)])
        return {
            WORD: np.append(words, len(self.words)),
            TAG: np.append(tags, len(self.tags) + np.arange(3)),
            PAIR: np.append(pairs, len(self.pairs)),
            STEM: np.append(stems, len(self.stems)),
        }

    def numbers(self, words: Column, tags: Column) -> tuple[Int32, Int32]:
        """Word and tag of N tokens, -1 for unknown ones."""
        return self._numbers[WORD].ids(words.values)[words.ids], self._numbers[TAG].ids(tags.values)[tags.ids]

    def tokens(self, words: Column, tags: Column, offsets: Int64) -> Tokens:
        """A corpus in numbers."""
        word, tag = self.numbers(words, tags)
        stem = self._numbers[STEM].ids(map(stem_of, words.values))
        return Tokens(word, tag, self.pair_numbers(word, tag), stem[words.ids], offsets)

    def drawn(self, words: Int32, tags: Int32, offsets: Int64) -> Tokens:
        """Tokens with these numbers of words (-1: unknown) and tags."""
        stems = np.where(words >= 0, self.stem_of_word[words], -1).astype(np.int32)
        return Tokens(words, tags, self.pair_numbers(words, tags), stems, offsets)

    def pair_numbers(self, words: Int32, tags: Int32) -> Int32:
        """Numbers of pairs of word and tag; -1 for pairs that do not occur in training."""
        codes = words.astype(np.int64) * len(self.tags) + tags
        return _places(codes, self.pairs, (words >= 0) & (tags >= 0)).astype(np.int32)
