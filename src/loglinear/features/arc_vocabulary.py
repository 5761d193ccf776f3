"""Words and tags of sentences as numbers, for features of arcs and for generative dependency models.

Besides its word and tag a token has the pair of both, and a *stem*: the first five letters of its word in lower case,
digits as 0, to back off to. What training did not have is -1. The root and what lies beyond a sentence have tags of
their own::

    tags      0 .. Q-4      Q-3: the root      Q-2: before the root      Q-1: after the last token
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import Column

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

STEM = 5  # letters
_DIGIT = re.compile(r"[0-9]")


def stem_of(word: str) -> str:
    """What a word is backed off to."""
    return _DIGIT.sub("0", word[:STEM].lower())


@dataclass(frozen=True)
class Tokens:
    """N tokens in numbers: word, tag, pair of both and stem [N] each, -1 where it is not known; offsets [S + 1]."""

    words: Int32
    tags: Int32
    pairs: Int32
    stems: Int32
    offsets: Int64


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
