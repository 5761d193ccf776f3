"""Sentences without end from a weighted grammar and a lexicon, with trees and entity marks, the same for a seed.

For scale and for tests: the text is grammatical and meaningless, its vocabulary has the long tail of real text, and
its columns agree with what :mod:`loglinear.data.treebank.derive` finds in its trees. Every symbol and every word
class has a random stream of its own, so the first n sentences are the same however many follow. Beyond a depth only
the fragments that close soonest are drawn, so every sentence ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat

import numpy as np

from loglinear.data.treebank.derive import Rows, task_rows, without_entities
from loglinear.data.treebank.grammar import SITE, START, Fragment, closing, grammar
from loglinear.data.treebank.lexicon import word_stream
from loglinear.data.trees import Tree
from loglinear.errors import OptionError

_MAX_DEPTH = 7  # fragments above one another before the sentence is brought to its end
_BATCH = 4096  # fragments drawn at once; any value gives the same sentences
_VOWELS = frozenset("aeiouAEIOU")
_CONSONANT_SOUND = ("one", "uni", "use", "eu", "Eu")
_VOWEL_SOUND = ("hour", "honest", "heir")

_Tail = tuple[str, ...]  # the columns after the word
_Place = tuple[str | None, Callable[[], str], _Tail]  # symbol of a site or None, next word, its columns
_Drawn = tuple[Fragment, list[_Place]]


def _stream(choices: list[_Drawn], generator: np.random.Generator) -> Iterator[_Drawn]:
    """Draw among weighted fragments without end."""
    weights = np.array([fragment.weight for fragment, _ in choices])
    bounds = np.cumsum(weights) / weights.sum()
    last = len(choices) - 1
    while True:
        picked = np.searchsorted(bounds, generator.random(_BATCH), side="right")
        yield from [choices[index] for index in np.minimum(picked, last).tolist()]


def _with_articles(words: list[str]) -> None:
    """Turn ``a`` into ``an`` where the next word sounds like it, and begin the sentence with a capital, in place."""
    for position, word in enumerate(words):
        if word == "a":
            following = words[position + 1]
            vowel = following[0] in _VOWELS and not following.startswith(_CONSONANT_SOUND)
            if vowel or following.startswith(_VOWEL_SOUND):
                words[position] = "an"
    first = 1 if words[0] == "``" else 0
    words[first] = words[first][0].upper() + words[first][1:]


class _Sampler:
    """Draws sentences as fragments, words and columns.

    Parameters
    ----------
    seed : int
        Seed of all streams.
    task : str
        Whose columns to give; ``""`` gives none.
    """

    def __init__(self, seed: int, task: str = "") -> None:
        rules = grammar()
        items = [item for fragments in rules.values() for fragment in fragments for item in fragment.items]
        classes = sorted({item.word_class for item in items if item.word_class is not None})
        seeds = iter(np.random.SeedSequence(seed).spawn(2 * len(rules) + len(classes)))
        words = {name: word_stream(name, np.random.default_rng(next(seeds))).__next__ for name in classes}
        self._any: dict[str, Callable[[], _Drawn]] = {}
        self._shortest: dict[str, Callable[[], _Drawn]] = {}
        for symbol in sorted(rules):
            choices: list[_Drawn] = []
            for fragment in rules[symbol]:
                places: list[_Place] = []
                for item in fragment.items:
                    next_word = words[item.word_class] if item.word_class else repeat(item.word or "").__next__
                    places.append((item.symbol, next_word, item.columns.get(task, ())))
                choices.append((fragment, places))
            least = min(closing(fragment) for fragment, _ in choices)
            shortest = [choice for choice in choices if closing(choice[0]) == least]
            self._any[symbol] = _stream(choices, np.random.default_rng(next(seeds))).__next__
            self._shortest[symbol] = _stream(shortest, np.random.default_rng(next(seeds))).__next__

    def sentence(self) -> tuple[list[Fragment], list[str], list[_Tail]]:
        """Draw fragments (parents first, left to right), words and the columns of each word."""
        fragments: list[Fragment] = []
        words: list[str] = []
        tails: list[_Tail] = []
        self._expand(START, 0, fragments, words, tails)
        _with_articles(words)
        return fragments, words, tails

    def _expand(self, symbol: str, depth: int, fragments: list[Fragment], words: list[str], tails: list[_Tail]) -> None:
        fragment, places = self._any[symbol]() if depth < _MAX_DEPTH else self._shortest[symbol]()
        fragments.append(fragment)
        for site, next_word, tail in places:
            if site is None:
                words.append(next_word())
                tails.append(tail)
            else:
                self._expand(site, depth + 1, fragments, words, tails)


def _grow(template: Tree, fragments: Iterator[Fragment], words: Iterator[str]) -> Tree:
    """Build the tree of a sentence; its depth is bounded by the depth of the derivation."""
    if template.word is None:
        return Tree(template.label, [_grow(child, fragments, words) for child in template.children])
    if template.label == SITE:
        return _grow(next(fragments).tree, fragments, words)
    return Tree(template.label, word=next(words))


def _check_count(n: int | None) -> None:
    if n is not None and n < 0:
        raise OptionError(f"the number of sentences may not be negative: {n}")


def generate_trees(n: int | None, seed: int = 0, *, entities: bool = True) -> Iterator[Tree]:
    """Yield generated trees.

    Parameters
    ----------
    n : int or None
        Number of sentences; None never ends.
    seed : int
        The same seed gives the same sentences, the first ones whatever ``n``.
    entities : bool
        Keep the entity marks on the labels.
    """
    _check_count(n)
    sampler = _Sampler(seed)
    for _ in repeat(None) if n is None else repeat(None, n):
        fragments, words, _tails = sampler.sentence()
        following = iter(fragments)
        tree = _grow(next(following).tree, following, iter(words))
        yield tree if entities else without_entities(tree)


def generate_rows(n: int | None, seed: int = 0, task: str = "chunk") -> Iterator[Rows]:
    """Yield the token rows of generated sentences, the same sentences as :func:`generate_trees` gives.

    Parameters
    ----------
    n : int or None
        Number of sentences; None never ends.
    seed : int
        Seed of the sentences.
    task : str
        ``pos``, ``chunk``, ``ner`` or ``dependency``: the columns after the word, as in the bundled corpus.
    """
    _check_count(n)
    derive = task_rows(task)
    if task == "dependency":
        yield from map(derive, generate_trees(n, seed))
        return
    sampler = _Sampler(seed, task)
    for _ in repeat(None) if n is None else repeat(None, n):
        _, words, tails = sampler.sentence()
        yield [(word, *tail) for word, tail in zip(words, tails, strict=True)]
