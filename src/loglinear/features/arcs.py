"""Features of arcs as numbers: those seen in the trees of training are numbered, and each arc lists those it has.

    pointer [A + 1], ids       the features of arc a are ids[pointer[a]] .. ids[pointer[a + 1] - 1]

The arcs of a sentence of n tokens are a block [n, n + 1], child by head. What is looked up is one integer
(:class:`ArcTemplate`) in a table with open addressing; no string and no object is made for an arc.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from loglinear.arrays import Bool, Int32, Int64
from loglinear.data.columns.corpus import Column
from loglinear.kernels import kernel
from loglinear.kernels.tables import KeyTable, find
from loglinear.system import in_threads

BETWEEN = 31  # number of the template of tags between
ARCS_AT_ONCE, COLLECTED_AT_ONCE = 40_000, 1_000_000


class Tokens(NamedTuple):
    """N tokens in numbers: word, tag, pair of both and stem [N] each, -1 where it is not known; offsets [S + 1]."""

    words: Int32
    tags: Int32
    pairs: Int32
    stems: Int32
    offsets: Int64


class Lookup(NamedTuple):
    """What is looked up for an arc, and where.

    Parameters
    ----------
    templates : int64 [T, 5]
        :meth:`ArcTemplates.table`.
    between : bool
        Whether tags between are looked at.
    table : KeyTable
        The features that have a number; empty if keys are to be collected instead.
    found : bool [T]
        Scratch: the templates that have a feature at the arc at hand.
    seen : int64 [Q + 1]
        Scratch: when each tag was last met, and the number of arcs so far.
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
def _of_arc(
    views: Int64, head: int, child: int, templates: Int64, keys: Int64, ids: Int32, found: Bool, out: Int64
) -> int:
    """The features of the arc from ``head`` (0: root) to ``child`` (from 1) by the templates into ``out``; how many.

    They are numbers of the table or, if that is empty, the keys themselves.
    """
    n, collect = 0, keys.shape[0] == 0
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
        if collect:
            if templates[t, 2]:
                out[n] = key
                n += 1
            if templates[t, 3]:
                out[n] = key | far
                n += 1
            continue
        if templates[t, 2]:
            slot = find(key, keys)
            if keys[slot] < 0:
                found[t] = False
                continue
            out[n] = ids[slot]
            n += 1
        if templates[t, 3]:
            slot = find(key | far, keys)
            if keys[slot] >= 0:
                out[n] = ids[slot]
                n += 1
    return n


@kernel
def _between(views: Int64, head: int, child: int, keys: Int64, ids: Int32, seen: Int64, out: Int64) -> int:
    """The features of the tags between ``head`` and ``child``, each once, into ``out``; how many."""
    n, n_tags, collect = 0, seen.shape[0] - 1, keys.shape[0] == 0
    low, high = min(head, child), max(head, child)
    tag, child_tag = views[TAG, head], views[TAG, child]
    if tag < 0 or child_tag < 0:
        return n
    seen[n_tags] += 1  # a mark of this arc
    for t in range(low + 1, high):
        middle = views[TAG, t]
        if middle >= 0 and seen[middle] != seen[n_tags]:
            seen[middle] = seen[n_tags]
            key = (BETWEEN << (2 * VIEW_BITS + DISTANCE_BITS)) | ((tag * n_tags + middle) << VIEW_BITS) | child_tag
            key |= (1 if head < child else 2) << (2 * VIEW_BITS)
            if collect:
                out[n] = key
                n += 1
            else:
                slot = find(key, keys)
                if keys[slot] >= 0:
                    out[n] = ids[slot]
                    n += 1
    return n


@kernel
def _encode(
    first: int, end: int, tokens: Tokens, heads: Int32, sizes: Int64, lookup: Lookup, pointer: Int64, out: Int64
) -> int:
    """Features of the arcs of sentences ``first`` to ``end``: of all, or of those to ``heads`` [N] if there are any.

    ``pointer`` [arcs + 1]; the number of features, which may be no more than ``out`` holds.
    """
    templates, between, (keys, ids), found, seen = lookup
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
                    filled += _of_arc(views, head, child, templates, keys, ids, found, out[filled:])
                    if between:
                        filled += _between(views, head, child, keys, ids, seen, out[filled:])
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
        """Number the features that the arcs to ``heads`` [N], or all arcs if None, have ``min_count`` times."""
        empty = cls(vocabulary, templates, np.zeros(0, dtype=np.int64))
        if heads is not None:
            features, counts = np.unique(empty._listed(tokens, heads, collect=True)[1], return_counts=True)
            return cls(vocabulary, templates, features[counts >= min_count])
        lengths, no_heads = np.diff(tokens.offsets), np.zeros(0, dtype=np.int32)
        begins = np.concatenate([[0], np.cumsum(lengths * (lengths + 1))]).astype(np.int64)
        features, counts = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        for first, end in arc_runs(begins, 0, len(lengths), COLLECTED_AT_ONCE):
            found = empty._listed(tokens, no_heads, collect=True, first=first, end=end)[1]
            own, own_counts = np.unique(found, return_counts=True)
            features, place = np.unique(np.concatenate([features, own]), return_inverse=True)
            counts = np.bincount(place.ravel(), np.concatenate([counts, own_counts]), len(features)).astype(np.int64)
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
        rows, table = self._set.table(), self.vocabulary
        per_arc = int(rows[:, 2].sum() + rows[:, 3].sum()) + min(int(lengths.max(initial=0)), table.n_tags)
        n_arcs = int(lengths.sum()) if len(heads) else int((lengths * (lengths + 1)).sum())
        pointer, out = np.empty(n_arcs + 1, dtype=np.int64), np.empty(n_arcs * per_arc, dtype=np.int64)
        sizes = np.array([len(table.words), len(table.pairs), len(table.stems), table.n_tags], dtype=np.int64)
        keys = KeyTable(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)) if collect else self.table
        found, seen = np.zeros(len(rows), dtype=bool), np.zeros(table.n_tags + 1, dtype=np.int64)
        lookup = Lookup(rows, self._set.between, keys, found, seen)
        filled = _encode(first, end, tokens, heads, sizes, lookup, pointer, out)
        return pointer, out[:filled]

    def matching(self, other: ArcEncoder) -> Int64:
        """The number among these features of each feature of ``other`` [D'], -1 where there is none."""
        mask, shift = (1 << VIEW_BITS) - 1, 2 * VIEW_BITS + DISTANCE_BITS
        keys, rows = other.features, self._set.table()
        template = keys >> shift
        views = np.full((BETWEEN + 1, 2), TAG)
        views[: len(rows)] = rows[:, :2]
        views[BETWEEN, 0] = LEFT_TAG  # two tags, as there
        head, child = (keys >> VIEW_BITS) & mask, keys & mask
        renamed = self.vocabulary.matching(other.vocabulary)
        head, child = (_renamed(part, views[template, i], renamed) for i, part in enumerate((head, child)))
        distance = keys & (((1 << DISTANCE_BITS) - 1) << (2 * VIEW_BITS))
        same = (template << shift) | distance | (head << VIEW_BITS) | child
        place = np.minimum(np.searchsorted(self.features, same), max(len(self.features) - 1, 0))
        there = (head >= 0) & (child >= 0) & (self.features[place] == same) if len(self.features) else head < 0
        return np.where(there, place, -1)

    def chosen(self, tokens: Tokens, heads: Int32) -> tuple[Int64, Int32]:
        """Features of the arc to the head of each token: pointer [N + 1] and ids."""
        pointer, ids = self._listed(tokens, heads)
        return pointer, ids.astype(np.int32)

    def arcs(self, tokens: Tokens, n_threads: int = 1) -> ArcCorpus:
        """Features of all arcs, sentences in threads."""
        lengths = np.diff(tokens.offsets)
        begins = np.concatenate([[0], np.cumsum(lengths * (lengths + 1))]).astype(np.int64)
        _ = self.table  # made here, once, before threads ask for it
        no_heads = np.zeros(0, dtype=np.int32)

        def block(run: tuple[int, int]) -> tuple[Int64, Int32]:
            pointer, ids = self._listed(tokens, no_heads, first=run[0], end=run[1])
            return pointer, ids.astype(np.int32)

        blocks = in_threads(block, arc_runs(begins, 0, len(lengths), ARCS_AT_ONCE), n_threads)
        before = np.cumsum([0, *(len(ids) for _, ids in blocks)]).tolist()
        pointers = [pointer[1:] + start for (pointer, _), start in zip(blocks, before, strict=False)]
        nothing = [np.zeros(0, dtype=np.int32)]
        pointer = np.concatenate([np.zeros(1, dtype=np.int64), *pointers])
        return ArcCorpus(tokens.offsets, begins, pointer, np.concatenate(nothing + [ids for _, ids in blocks]))


def _renamed(ids: Int64, views: Int64, renamed: dict[int, Int64]) -> Int64:
    """Numbers of views [n], each of the kind in ``views`` [n], in another vocabulary; -1 where it has none."""
    found = np.where(views == NONE, 0, -1)
    for view, table in renamed.items():
        if view != TAG:
            found = np.where(views == view, table[np.where(views == view, ids, 0)], found)
    old, new = len(renamed[TAG]), int(renamed[TAG][-1]) + 1
    for view, places in ((TAG, 1), (LEFT_TAG, 2), (TAG_RIGHT, 2), (THREE_TAGS, 3)):
        own = np.where(views == view, ids, 0)
        digits = [renamed[TAG][own // old**k % old] for k in reversed(range(places))]
        code = np.sum([digit * new**k for k, digit in zip(reversed(range(places)), digits, strict=True)], axis=0)
        found = np.where(views == view, np.where(np.min(digits, axis=0) < 0, -1, code), found)
    return found


def arc_runs(arc_offsets: Int64, first: int, end: int, most: int) -> list[tuple[int, int]]:
    """Cut sentences ``first`` to ``end`` into runs of at most ``most`` arcs, or of one sentence."""
    found = []
    while first < end:
        last = int(np.searchsorted(arc_offsets, arc_offsets[first] + most, side="right")) - 1
        last = min(max(last, first + 1), end)
        found.append((first, last))
        first = last
    return found


# ----------------------------------------------------------------------------------------------------------------------
# What a feature of an arc looks at: templates of a view of the head and a view of the child (McDonald et al. 2005).
#
# A *view* of a token is its word, its tag, both, its stem, or its tag with those of its neighbours. A template joins a
# view of the head with one of the child, either by themselves (``plain``) or with the direction and the distance of the
# arc (``far``: 1, 2, 3, 4, 5-9, 10 or more to either side). Besides there is, for each tag that stands between head and
# child, the triple of the three tags with the direction.
#
# A feature is a number of 63 bits: template, distance, view of the head, view of the child. Where a template's views
# are finer than those of its *parent*, a feature of it cannot have been seen where that of the parent has not, and need
# not be looked up.


NONE, WORD, TAG, PAIR, STEM, LEFT_TAG, TAG_RIGHT, THREE_TAGS = range(8)
N_VIEWS = 8
VIEW_BITS, DISTANCE_BITS = 27, 4


@dataclass(frozen=True)
class ArcTemplate:
    """Views of head and child; whether they count by themselves, and with direction and distance."""

    head: int
    child: int
    plain: bool = True
    far: bool = True


@dataclass(frozen=True)
class ArcTemplates:
    """A list of templates, and whether tags between are looked at."""

    templates: tuple[ArcTemplate, ...]
    between: bool = True

    def table(self) -> Int64:
        """As numbers [T, 5]: head, child, plain, far, and the parent (-1: none), which stands before."""
        finer = {
            PAIR: (WORD, TAG),
            WORD: (STEM,),
            LEFT_TAG: (TAG,),
            TAG_RIGHT: (TAG,),
            THREE_TAGS: (LEFT_TAG, TAG_RIGHT),
        }
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


_PAIRS = (
    (TAG, TAG),
    (STEM, TAG),
    (TAG, STEM),
    (STEM, STEM),
    (PAIR, TAG),
    (TAG, PAIR),
    (WORD, WORD),
    (PAIR, WORD),
    (WORD, PAIR),
    (PAIR, PAIR),
    (LEFT_TAG, TAG),
    (TAG_RIGHT, TAG),
    (TAG, LEFT_TAG),
    (TAG, TAG_RIGHT),
    (LEFT_TAG, LEFT_TAG),
    (LEFT_TAG, TAG_RIGHT),
    (TAG_RIGHT, LEFT_TAG),
    (TAG_RIGHT, TAG_RIGHT),
)

#: Of arcs, to find heads by. What looks at the child alone is worth the same for all its heads.
ARCS = ArcTemplates(
    (
        *(ArcTemplate(head, child) for head, child in _PAIRS),
        *(ArcTemplate(view, NONE) for view in (TAG, WORD, PAIR)),
        *(ArcTemplate(NONE, view, plain=False) for view in (TAG, WORD, PAIR, NONE)),
    )
)

#: Of arcs that are known, to find their relation by.
RELATIONS = ArcTemplates(
    (
        *(ArcTemplate(head, child) for head, child in _PAIRS[:10]),
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
# Besides its word and tag a token has the pair of both, and a *stem*: the first five letters of its word in lower case,
# digits as 0, to back off to. What training did not have is -1. The root and what lies beyond a sentence have tags of
# their own::
#
#     tags      0 .. Q-4      Q-3: the root      Q-2: before the root      Q-1: after the last token


STEM_LETTERS = 5  # letters
_DIGIT = re.compile(r"[0-9]")


def stem_of(word: str) -> str:
    """What a word is backed off to."""
    return _DIGIT.sub("0", word[:STEM_LETTERS].lower())


@dataclass(frozen=True)
class TokenVocabulary:
    """The words, tags and pairs of both of a training corpus.

    Parameters
    ----------
    words, tags : list of str
    pairs : int64 [n]
        Codes ``word * number of tags + tag`` of the pairs there are, ascending.
    """

    words: list[str]
    tags: list[str]
    pairs: Int64

    @classmethod
    def fit(cls, words: Column, tags: Column) -> TokenVocabulary:
        """The vocabulary of N tokens."""
        kept_words, kept_tags = (np.unique(column.ids) for column in (words, tags))
        word_names = sorted(words.values[i] for i in kept_words.tolist())
        tag_names = sorted(tags.values[i] for i in kept_tags.tolist())
        vocabulary = cls(word_names, tag_names, np.zeros(0, dtype=np.int64))
        numbers = vocabulary.numbers(words, tags)
        return cls(word_names, tag_names, np.unique(numbers[0].astype(np.int64) * len(tag_names) + numbers[1]))

    @property
    def n_tags(self) -> int:
        """Q: the tags, and those of the root and of both ends."""
        return len(self.tags) + 3

    @cached_property
    def stems(self) -> list[str]:
        """The distinct stems."""
        return sorted({stem_of(word) for word in self.words})

    @cached_property
    def _word_numbers(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    @cached_property
    def _tag_numbers(self) -> dict[str, int]:
        return {tag: i for i, tag in enumerate(self.tags)}

    @cached_property
    def _stem_numbers(self) -> dict[str, int]:
        return {stem: i for i, stem in enumerate(self.stems)}

    @cached_property
    def stem_of_word(self) -> Int32:
        """The stem of each word."""
        return np.array([self._stem_numbers[stem_of(word)] for word in self.words], dtype=np.int32)

    def matching(self, other: TokenVocabulary) -> dict[int, Int64]:
        """For words, tags, pairs and stems, the number here of each one of ``other``, and of its root; -1: none."""
        words = np.array([self._word_numbers.get(word, -1) for word in other.words])
        tags = np.array([self._tag_numbers.get(tag, -1) for tag in other.tags])
        stems = np.array([self._stem_numbers.get(stem, -1) for stem in other.stems])
        word, tag = words[other.pairs // len(other.tags)], tags[other.pairs % len(other.tags)]
        beyond = len(self.tags) + np.arange(3)
        return {
            WORD: np.append(words, len(self.words)),
            TAG: np.append(tags, beyond),
            PAIR: np.append(self.pair_numbers(word.astype(np.int32), tag.astype(np.int32)), len(self.pairs)),
            STEM: np.append(stems, len(self.stems)),
        }

    def numbers(self, words: Column, tags: Column) -> tuple[Int32, Int32]:
        """Word and tag of N tokens, -1 for those not known."""
        word = np.array([self._word_numbers.get(value, -1) for value in words.values], dtype=np.int32)
        tag = np.array([self._tag_numbers.get(value, -1) for value in tags.values], dtype=np.int32)
        return word[words.ids], tag[tags.ids]

    def tokens(self, words: Column, tags: Column, offsets: Int64) -> Tokens:
        """A corpus in numbers."""
        word, tag = self.numbers(words, tags)
        stem = np.array([self._stem_numbers.get(stem_of(value), -1) for value in words.values], dtype=np.int32)
        return Tokens(word, tag, self.pair_numbers(word, tag), stem[words.ids], offsets)

    def drawn(self, words: Int32, tags: Int32, offsets: Int64) -> Tokens:
        """Tokens of numbers; words that are -1 are not known."""
        stems = np.where(words >= 0, self.stem_of_word[words], -1).astype(np.int32)
        return Tokens(words, tags, self.pair_numbers(words, tags), stems, offsets)

    def pair_numbers(self, words: Int32, tags: Int32) -> Int32:
        """Numbers of pairs of word and tag; -1 for those that training did not have."""
        codes = words.astype(np.int64) * len(self.tags) + tags
        place = np.minimum(np.searchsorted(self.pairs, codes), len(self.pairs) - 1)
        known = (words >= 0) & (tags >= 0) & (self.pairs[place] == codes)
        return np.where(known, place, -1).astype(np.int32)
