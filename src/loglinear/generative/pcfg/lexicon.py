"""Words and their tags: p(word given tag), for words of the training data and unknown ones.

A *terminal* is a known word or a class of unknown words (:mod:`~loglinear.features.spans`). From the counts
c(t, w) of tags and words, and n(t, z) of tags and classes over the *rare* words of training, which represent unknown
ones,

    p(t given z)  = (n(t, z) + a p(t given the next wider class)) / (n(z) + a)
    p(t given w)  = (c(t, w) + b p(base of t given w) p(t given its base) + d p(t given z of w)) / (c(w) + b + d)
    p(x given t)  = p(t given x) m(x) / sum over x,         m(w) = c(w),  m(z) = n(z) times the share of words seen once

where the *base* of a tag is the tag without a grammar's annotations. The last term, with ``d``, is for words
seen fewer than ``often`` times. Without smoothing p(x given t) is c(t, w) / c(t), and unknown words have no tag.
Tags whose probability is less than ``negligible`` times that of a word's best are left out.

Letters: P tags, V terminals, E pairs of a terminal and a tag it may have.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Float, Int32, Int64
from loglinear.features.spans import ANYTHING, word_classes

TaggedWord = tuple[int, str, bool]  # tag, word, whether it begins a sentence
W = TypeVar("W", bound=tuple[Any, str, bool])


def rare_words(words: Iterable[W], counts: Mapping[W, int], most: int) -> list[W]:
    """The occurrences of words that are seen at most ``most`` times, of tagged words with these counts."""
    totals: Counter[str] = Counter()
    for (_, word, _), n in counts.items():
        totals[word] += n
    return [each for each in words if totals[each[1]] <= most]


@dataclass(frozen=True)
class LexiconSmoothing:
    """The constants of the equations above.

    Parameters
    ----------
    wider : float
        a, how much a class backs off to the next wider one.
    base : float
        b, how much a word's tags back off to their bases.
    rare : int
        Words seen at most this often represent unknown ones.
    unseen : float
        d, how much a word's tags back off to its class.
    often : int
        Words seen at least this often do not back off to a class.
    negligible : float
        Share of the best tag's probability below which a tag is left out.
    """

    wider: float = 10.0
    base: float = 1.0
    rare: int = 3
    unseen: float = 0.5
    often: int = 50
    negligible: float = 1e-4


@dataclass(frozen=True)
class Lexicon:
    """Terminals, and the tags that each may have.

    Parameters
    ----------
    n_tags : int
        P.
    terminals : list of str
        V names, no two the same; those of classes are in angle brackets.
    pointer : int64 [V + 1]
        Where each terminal's tags begin.
    tags : int32 [E]
    log_p : float64 [E]
        log p(terminal given tag).
    """

    n_tags: int
    terminals: list[str] = field(repr=False)
    pointer: Int64 = field(repr=False)
    tags: Int32 = field(repr=False)
    log_p: Float = field(repr=False)
    _number: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_number", {name: x for x, name in enumerate(self.terminals)})

    @classmethod
    def from_joint(cls, n_tags: int, joint: dict[str, dict[int, float]]) -> Lexicon:
        """A lexicon from a number for each terminal and tag: p(terminal given tag) in proportion to it."""
        terminals = list(joint)
        sizes = [len(row) for row in joint.values()]
        pointer = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        tags = np.array([t for row in joint.values() for t in row], dtype=np.int32)
        values = np.array([value for row in joint.values() for value in row.values()], dtype=np.float64)
        return cls(n_tags, terminals, pointer, tags, np.zeros(len(values))).with_counts(values)

    def with_counts(self, counts: npt.ArrayLike, smoothing: float = 0.0) -> Lexicon:
        """The lexicon of relative frequencies of counts [E] (plus ``smoothing``) within each tag."""
        values = np.asarray(counts, dtype=np.float64) + smoothing
        totals = np.bincount(self.tags, weights=values, minlength=self.n_tags)
        with np.errstate(divide="ignore"):
            log_p = np.log(values) - np.log(np.where(totals > 0.0, totals, 1.0))[self.tags]
        return replace(self, log_p=log_p)

    @property
    def probabilities(self) -> Float:
        """p(terminal given tag) [E]."""
        return np.exp(self.log_p)

    def terminal_of(self, words: Sequence[str]) -> Int32:
        """The terminal of each word of a sentence; -1 for unknown words if the lexicon has no classes."""
        return np.array([self._one(word, place == 0) for place, word in enumerate(words)], dtype=np.int32)

    def _one(self, word: str, first: bool) -> int:
        number = self._number.get(word)
        if number is None and first:
            number = self._number.get(word[:1].lower() + word[1:])
        if number is not None:
            return number
        return next((self._number[z] for z in word_classes(word, first, self._number) if z in self._number), -1)

    def scores(self, terminals: Int32) -> Float:
        """log p(terminal given tag) [n, P] of terminals [n]; -inf for tags that a terminal cannot have."""
        scores = np.full((len(terminals), self.n_tags), -np.inf)
        rows, places = self.pairs(terminals)
        scores[rows, self.tags[places]] = self.log_p[places]
        return scores

    def pairs(self, terminals: Int32) -> tuple[Int64, Int64]:
        """The tags that terminals [n] may have: for each pair its place among the terminals, and in :attr:`tags`."""
        known = np.flatnonzero(terminals >= 0)
        first, sizes = self.pointer[terminals[known]], np.diff(self.pointer)[terminals[known]]
        rows = np.repeat(known, sizes)
        places = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(first, sizes)
        return rows, places


def counted_lexicon(words: Mapping[TaggedWord, int], n_tags: int) -> Lexicon:
    """Relative frequencies; unknown words have no tag."""
    joint: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for (tag, word, _), n in words.items():
        joint[word][tag] += n
    return Lexicon.from_joint(n_tags, joint)


def smoothed_lexicon(
    words: Mapping[TaggedWord, int],
    rare: Sequence[TaggedWord],
    tags: Sequence[str],
    base: Callable[[str], str],
    constants: LexiconSmoothing,
) -> Lexicon:
    """The lexicon of the equations above.

    Parameters
    ----------
    words : mapping of (int, str, bool) to int
        How often each tagged word occurs, in the order of their first occurrences.
    rare : sequence of (int, str, bool)
        All occurrences of the words that occur at most ``constants.rare`` times, in their order.
    tags : sequence of str
        The tags' names [P].
    base : callable
        From a tag's name to its base.
    constants : LexiconSmoothing
    """
    by_word: dict[str, Counter[int]] = defaultdict(Counter)
    first: Counter[str] = Counter()
    for (tag, word, begins), n in words.items():
        by_word[word][tag] += n
        first[word] += begins * n
    n_tags = len(tags)
    base_names = sorted({base(tag) for tag in tags})
    base_of = np.array([base_names.index(base(tag)) for tag in tags], dtype=np.int64)
    frequency = _frequencies(words, n_tags)
    within_base = frequency / np.maximum(np.bincount(base_of, weights=frequency)[base_of], 1.0)
    classes = _Classes(by_word, rare, frequency, constants)
    joint: dict[str, dict[int, float]] = {}
    for word, counts in by_word.items():
        total = sum(counts.values())
        seen = np.zeros(n_tags)
        seen[list(counts)] = list(counts.values())
        bases = np.bincount(base_of, weights=seen, minlength=len(base_names))[base_of] / total
        weight = constants.unseen if total < constants.often else 0.0
        given = seen + constants.base * bases * within_base
        if weight:
            given += weight * classes.tags_of(word, first[word] == total)
        given *= total / given.sum()
        joint[word] = _kept(given, constants.negligible)
    once = sum(1 for counts in by_word.values() if sum(counts.values()) == 1)
    for name, (given, mass) in classes.masses().items():
        if name not in by_word:
            joint[name] = _kept(given * (mass * once / max(classes.n, 1.0)), constants.negligible)
    return Lexicon.from_joint(n_tags, joint)


def _frequencies(words: Mapping[TaggedWord, int], n_tags: int) -> Float:
    """How often each tag occurs [P]."""
    tags, counts = np.array([tag for tag, _, _ in words], dtype=np.int64), np.array([*words.values()], dtype=np.float64)
    return np.bincount(tags, counts, minlength=n_tags).astype(np.float64)


def _kept(values: Float, negligible: float) -> dict[int, float]:
    return {int(t): float(values[t]) for t in np.flatnonzero(values > negligible * values.max())}


class _Classes:
    """Tags of the rare words by their classes."""

    def __init__(
        self,
        by_word: dict[str, Counter[int]],
        rare: Sequence[TaggedWord],
        frequency: Float,
        constants: LexiconSmoothing,
    ) -> None:
        self._known, self._wider = by_word, constants.wider
        self._counts: dict[str, Float] = defaultdict(lambda: np.zeros(len(frequency)))
        self._given: dict[str, Float] = {}
        self._up: dict[str, str] = {}
        self._own: Counter[str] = Counter()
        self.n = 0.0
        for tag, word, begins in rare:
            share = 1.0 / sum(by_word[word].values())  # a type counts once
            self.n += share
            names = word_classes(word, begins, by_word)
            self._own[names[0]] += 1
            for name, wider in zip(names, [*names[1:], ""], strict=True):
                self._counts[name][tag] += share
                self._up[name] = wider
        general = self._counts[ANYTHING] + 0.1 * frequency / max(frequency.sum(), 1.0)
        self._up[ANYTHING] = ""
        self._given[ANYTHING] = general / max(general.sum(), 1e-300)

    def given(self, name: str) -> Float:
        """p(tag given a class) [P]."""
        if name not in self._given:
            counts = self._counts[name]
            wider = self.given(self._up[name])
            self._given[name] = (counts + self._wider * wider) / (counts.sum() + self._wider)
        return self._given[name]

    def tags_of(self, word: str, first: bool) -> Float:
        """p(tag given the narrowest class that a word shares with a rare word) [P]."""
        return self.given(next(name for name in word_classes(word, first, self._known) if name in self._up))

    def masses(self) -> dict[str, tuple[Float, float]]:
        """For each class its tags, and the number of unknown words it covers itself, not through a narrower one."""
        narrower: Counter[str] = Counter(self._up[name] for name in self._up if self._counts[name].sum() <= 1.0)
        return {name: (self.given(name), float(max(self._own[name], narrower[name], 0.5))) for name in self._up}
