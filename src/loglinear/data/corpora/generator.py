"""Generated corpora of any size, determined by a seed: sentences with trees, and rows of word counts in classes.

Sentences come from a weighted grammar and a lexicon, with trees and entity marks. They are for benchmarks and tests:
the text is grammatical but meaningless, its vocabulary has the long tail of real text, and its columns agree with those
that :mod:`loglinear.data.corpora.bundled` derives from its trees. Every symbol and every word class has its own random
stream, so the first n sentences do not depend on how many follow. Beyond a certain depth only the fragments that close
soonest are drawn, so every sentence ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import chain, repeat
from typing import Any, TypeVar

import numpy as np

from loglinear.arrays import Float, Int32, Int64
from loglinear.data.columns.corpus import offsets_of
from loglinear.data.corpora.bundled import Rows, chunk_tags, entity_tags, pos_tags, task_rows, without_entities
from loglinear.data.trees.tree import Tree, parse_tree
from loglinear.errors import DataError, OptionError

A = TypeVar("A")


# ----------------------------------------------------------------------------------------------------------------------
# Words for the generator: classes read from ``lexicon.txt``, inflected by rule, and open classes made up on demand.
#
# A word of a closed class at rank r (from 1) has weight 1 / (r + 2.7), the law of Zipf (1949) with Mandelbrot's shift.
# Names and numbers are open classes: a rank is drawn from an unbounded power law and spelt out, so that the vocabulary
# keeps growing with the text, as in Heaps's law.


_BATCH = 4096  # words drawn at once; any value gives the same words
_SMALL_VOWELS = "aeiou"
VERB_FORMS = {"z": "VBZ", "p": "VBP", "s": "VBD", "t": "VBD", "b": "VB", "n": "VBN", "g": "VBG"}
_LAST_RANK = 2_000_000  # beyond it names would become absurdly long


def _sibilant(word: str) -> bool:
    return word.endswith(("s", "x", "z", "ch", "sh"))


def plural(noun: str) -> str:
    """Regular plural of a noun, also the regular third person of a verb."""
    if noun.endswith("y") and noun[-2:-1] not in _SMALL_VOWELS:
        return noun[:-1] + "ies"
    return noun + ("es" if _sibilant(noun) or noun.endswith(("tomato", "potato", "go", "do")) else "s")


def verb_forms(entry: str) -> dict[str, str]:
    """Forms of a verb from its entry: ``lemma``, ``lemma*`` (doubles), or ``lemma/past/participle``."""
    base, *irregular = entry.split("/")
    stem = base = base.removesuffix("*")
    if entry.startswith(f"{base}*"):
        stem = base + base[-1]
    if base.endswith("y") and base[-2] not in _SMALL_VOWELS:
        past = base[:-1] + "ied"
    else:
        past = stem + ("d" if stem.endswith("e") else "ed")
    progressive = (stem[:-1] if stem.endswith("e") and not stem.endswith("ee") else stem) + "ing"
    past, participle = irregular or (past, past)
    return {"z": plural(base), "p": base, "s": past, "t": past, "b": base, "n": participle, "g": progressive}


@cache
def closed_classes() -> dict[str, list[str]]:
    """The classes of ``lexicon.txt``: class name to words, frequent ones first."""
    classes: dict[str, list[str]] = {}
    name = kind = ""
    text = files("loglinear.data.corpora").joinpath("lexicon.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            name, _, kind = line.strip("[]").partition(" ")
        elif not line.startswith("#"):
            for entry in line.split():
                if kind == "noun":
                    singular, _, several = entry.partition("/")
                    forms = {".s": singular, ".p": several or plural(singular)}
                elif kind == "verb":
                    forms = {f".{form}": word for form, word in verb_forms(entry).items()}
                else:
                    forms = {"": entry}
                for form, word in forms.items():
                    classes.setdefault(name + form, []).append(word)
    return classes


def _name(rank: int, ends: str) -> str:
    """Spell a rank as a name: an onset, a nucleus and an end, with more syllables between them for rarer ranks."""
    classes = closed_classes()
    onsets, nuclei, middles, last = (classes[name] for name in ("onset", "nucleus", "middle", ends))
    size = len(onsets) * len(nuclei) * len(last)
    more, short = divmod(rank, size)
    short = short * 1009 % size  # a prime scatters neighbouring ranks over the syllables
    short, onset = divmod(short, len(onsets))
    end, nucleus = divmod(short, len(nuclei))
    between = ""
    while more:
        more, digit = divmod(more, len(middles))
        between += middles[digit]
    return onsets[onset] + nuclei[nucleus] + between + last[end]


def _ranks(generator: np.random.Generator, exponent: float) -> Int64:
    """Ranks from 1 with P(rank > r) = r^(1 - exponent)."""
    drawn = (1.0 - generator.random(_BATCH)) ** (-1.0 / (exponent - 1.0))
    return np.minimum(drawn, _LAST_RANK).astype(np.int64)


def _acronym(rank: int) -> str:
    length = 2 + (rank > 16) + (rank > 300)
    return "".join("ABCDEFGIMNOPRSTU"[(rank * 11 // 16**place) % 16] for place in range(length))


_Draw = Callable[[np.random.Generator], list[str]]


def _spelt(exponent: float, spell: Callable[[int], str]) -> _Draw:
    """A function that draws a batch of ranks with this exponent and spells them."""
    return lambda generator: [spell(rank) for rank in _ranks(generator, exponent).tolist()]


def _amounts(generator: np.random.Generator) -> list[str]:
    whole, digit = _ranks(generator, 1.5) % 1000, generator.integers(0, 14, _BATCH)
    return [f"{w}.{d}" if d < 10 else str(w) for w, d in zip(whole.tolist(), digit.tolist(), strict=True)]


def _days(generator: np.random.Generator) -> list[str]:
    return list(map(str, generator.integers(1, 29, _BATCH).tolist()))


def _compounds(generator: np.random.Generator) -> list[str]:
    nouns, ends = closed_classes()["noun.s"], closed_classes()["compound_end"]
    picked, endings = _ranks(generator, 1.4) % len(nouns), generator.integers(0, len(ends), _BATCH)
    return [f"{nouns[n]}-{ends[e]}" for n, e in zip(picked.tolist(), endings.tolist(), strict=True)]


#: Open class to the function that draws a batch of its words.
OPEN_CLASSES: dict[str, _Draw] = {
    "surname": _spelt(1.3, lambda rank: _name(rank, "person_end")),
    "place": _spelt(1.35, lambda rank: _name(rank, "place_end")),
    "acronym": _spelt(1.8, _acronym),
    "cardinal": _spelt(1.4, lambda rank: f"{20 + rank % 2_000_000:,}"),
    "year": _spelt(1.5, lambda rank: str(2026 - rank % 400)),
    "amount": _amounts,
    "day": _days,
    "compound": _compounds,
}


def _weighted_stream(choices: list[A], weights: Float, generator: np.random.Generator) -> Iterator[A]:
    """An endless stream of choices, drawn in proportion to their weights."""
    bounds = np.cumsum(weights) / weights.sum()
    while True:
        picked = np.searchsorted(bounds, generator.random(_BATCH), side="right")
        yield from [choices[index] for index in np.minimum(picked, len(choices) - 1).tolist()]


def word_stream(name: str, generator: np.random.Generator) -> Iterator[str]:
    """An endless stream of words of a class, drawn from ``generator``."""
    if name in OPEN_CLASSES:
        return chain.from_iterable(OPEN_CLASSES[name](generator) for _ in repeat(None))
    if name not in closed_classes():
        raise DataError(f"the grammar names a word class that the lexicon lacks: {name}")
    words = closed_classes()[name]
    return _weighted_stream(words, 1.0 / (np.arange(len(words), dtype=np.float64) + 3.7), generator)


# ----------------------------------------------------------------------------------------------------------------------
# The generator's grammar: a weighted tree-substitution grammar read from ``grammar.txt``.
#
# A sentence is made by putting tree fragments into the open places (*sites*) of other fragments; each fragment is
# chosen with probability weight / sum of its symbol's weights. Fragments are cut so that chunks and entities never
# depend on what is put into a site. So the columns of every word are known when the grammar is read, and generating a
# corpus only draws fragments and words.


START = "Sentence"
SITE = "@"  # label of a site in a fragment; its word is the symbol
_SITE = re.compile(r"@([\w.]+)")
# What a site looks like to the rest of the fragment.
_STAND_IN = {
    "NP": "(NP (NN x))",
    "PP": "(PP (IN x) (NP (NN x)))",
    "S": "(S (NP (PRP x)) (VP (VBD x)))",
    "SBAR": "(SBAR (IN x) (S (NP (PRP x)) (VP (VBD x))))",
    "VP": "(VP (VB x))",
}
_FORMS = {form: (tag, form) for form, tag in VERB_FORMS.items()} | {"B": ("VB", "b"), "G": ("VBG", "g")}
_CONTINUING = frozenset({"VP.b", "VP.n", "VP.g"})


@dataclass(slots=True)
class Item:
    """A place of a fragment in reading order: a site, or a word (literal or of a class) with its columns."""

    symbol: str | None = None
    word: str | None = None
    word_class: str | None = None
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)  # task to the columns after the word


@dataclass(slots=True)
class Fragment:
    """A weighted tree fragment."""

    weight: float
    tree: Tree
    items: list[Item]

    def sites(self) -> Iterator[str]:
        """Yield the symbols of the sites."""
        return (item.symbol for item in self.items if item.symbol is not None)


Grammar = dict[str, list[Fragment]]


def _blocks() -> Iterator[tuple[str, float, str]]:
    """Yield ``(symbol, weight, fragment text)``, verb forms written out."""
    text = files("loglinear.data.corpora").joinpath("grammar.txt").read_text(encoding="utf-8")
    symbol, forms = "", [""]
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            symbol, *forms = line.split()
            forms = forms or [""]
            continue
        weight, fragment = line.split(maxsplit=1)
        for form in forms:
            tag, name = _FORMS.get(form, ("", ""))
            written = fragment.replace("%T", tag).replace("%f", name) if form else fragment
            yield symbol.replace("%", form), float(weight), _SITE.sub(rf"({SITE} \1)", written)


def _items(symbol: str, tree: Tree, roots: dict[str, str]) -> list[Item]:
    """The sites and words of a fragment in reading order, words with their columns."""
    text = re.sub(rf"\({SITE} ([\w.]+)\)", lambda match: _STAND_IN[roots[match[1]]], str(tree))
    before = 0
    if symbol in _CONTINUING:  # the fragment continues the chunk of a modal before it
        text, before = f"(VP (MD x) {text})", 1
    whole = parse_tree(text)
    tags, chunks, entities = pos_tags(whole)[before:], chunk_tags(whole)[before:], entity_tags(whole)[before:]
    items: list[Item] = []
    position = 0
    for node in tree.nodes():
        if node.word is None:
            continue
        if node.label == SITE:
            items.append(Item(symbol=node.word))
            position += _STAND_IN[roots[node.word]].count(" x)")
            continue
        tag, chunk, entity = tags[position], chunks[position], entities[position]
        columns = {"pos": (tag,), "chunk": (tag, chunk), "ner": (tag, entity)}
        if node.word.startswith("*"):
            items.append(Item(word_class=node.word[1:], columns=columns))
        else:
            items.append(Item(word=node.word, columns=columns))
        position += 1
    return items


@cache
def grammar() -> Grammar:
    """Read the grammar: symbol to fragments."""
    rules: dict[str, list[tuple[float, Tree]]] = {}
    for symbol, weight, text in _blocks():
        rules.setdefault(symbol, []).append((weight, parse_tree(text)))
    roots = {symbol: fragments[0][1].label.partition("=")[0] for symbol, fragments in rules.items()}
    return {
        symbol: [Fragment(weight, tree, _items(symbol, tree, roots)) for weight, tree in fragments]
        for symbol, fragments in rules.items()
    }


@cache
def heights() -> dict[str, int]:
    """The fewest fragments on a path down from each symbol."""
    rules = grammar()
    known: dict[str, int] = {}
    while len(known) < len(rules):
        fresh = {
            symbol: 1 + min(max((known[site] for site in fragment.sites()), default=0) for fragment in closed)
            for symbol, fragments in rules.items()
            if symbol not in known
            and (closed := [fragment for fragment in fragments if all(site in known for site in fragment.sites())])
        }
        if not fresh:
            raise AssertionError(f"symbols that never end: {sorted(set(rules) - set(known))}")
        known |= fresh
    return known


def closing(fragment: Fragment) -> int:
    """The fewest fragments on a path down from ``fragment``, itself included."""
    return 1 + max((heights()[site] for site in fragment.sites()), default=0)


# ----------------------------------------------------------------------------------------------------------------------
# The generator: sentences drawn from the grammar.


_MAX_DEPTH = 7  # nested fragments; deeper ones are chosen to end the sentence soon
_VOWELS = frozenset("aeiouAEIOU")
_CONSONANT_SOUND = ("one", "uni", "use", "eu", "Eu")
_VOWEL_SOUND = ("hour", "honest", "heir")

_Tail = tuple[str, ...]  # the columns after the word
_Place = tuple[str | None, Callable[[], str], _Tail]  # symbol of a site or None, next word, its columns
_Drawn = tuple[Fragment, list[_Place]]


def _fragment_stream(choices: list[_Drawn], seed: np.random.SeedSequence) -> Callable[[], _Drawn]:
    """A function that draws the next fragment, by weight."""
    weights = np.array([fragment.weight for fragment, _ in choices])
    return _weighted_stream(choices, weights, np.random.default_rng(seed)).__next__


def _with_articles(words: list[str]) -> None:
    """Turn ``a`` into ``an`` before a vowel sound and capitalise the first word, in place."""
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
            self._any[symbol] = _fragment_stream(choices, next(seeds))
            self._shortest[symbol] = _fragment_stream(shortest, next(seeds))

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
    """Build the tree of a sentence; the recursion is as deep as the tree."""
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
        The same seed gives the same sentences; ``n`` only determines how many.
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
    """Yield the token rows of generated sentences, the same sentences as those of :func:`generate_trees`.

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


# ----------------------------------------------------------------------------------------------------------------------
# Rows of word counts in classes, determined by a seed: a text classification problem of any size.
#
# Words follow Zipf's law: f(k) is proportional to 1 / (k + 2.7). In each class the frequencies of some words are
# multiplied by the exponential of a normal number. All words of a row are drawn from its class, and the classes overlap
# as topics do; some rows get the label of another class.


SHIFT = 2.7  # of Zipf's law (Mandelbrot)
TELLING, STRENGTH = 0.25, 1.0  # share of words whose frequency depends on the class, and how strongly


def generate_text_classes(
    n_rows: int,
    n_columns: int,
    n_classes: int,
    seed: int = 0,
    *,
    shortest: int = 50,
    longest: int = 80,
    mislabelled: float = 0.05,
) -> tuple[Any, Int32]:
    """Word counts and classes.

    Parameters
    ----------
    n_rows, n_columns, n_classes : int
    seed : int
    shortest, longest : int
        Least and most words of a row.
    mislabelled : float
        Share of the rows whose class is redrawn at random.

    Returns
    -------
    counts : csr_matrix [n_rows, n_columns] of float64
    classes : int32 [n_rows]
    """
    import scipy.sparse as sp

    if min(n_rows, n_columns, n_classes) < 1 or not 1 <= shortest <= longest:
        raise OptionError(f"{n_rows} rows, {n_columns} columns, {n_classes} classes, {shortest} to {longest} words")
    rng = np.random.default_rng(seed)
    topics = rng.integers(n_classes, size=n_rows).astype(np.int32)
    lengths = rng.integers(shortest, longest + 1, size=n_rows)
    starts = offsets_of(lengths)
    frequencies = 1.0 / (np.arange(n_columns) + SHIFT)
    words = np.empty(int(starts[-1]), dtype=np.int32)
    for topic in range(n_classes):
        tells = rng.random(n_columns) < TELLING
        upto = np.cumsum(frequencies * np.exp(np.where(tells, STRENGTH * rng.normal(size=n_columns), 0.0)))
        in_topic = np.repeat(topics == topic, lengths)
        drawn = np.searchsorted(upto, rng.random(int(in_topic.sum())) * upto[-1], side="right")
        words[in_topic] = np.minimum(drawn, n_columns - 1)
    counts = sp.csr_matrix((np.ones(len(words)), words, starts), shape=(n_rows, n_columns))
    counts.sum_duplicates()
    redrawn = rng.random(n_rows) < mislabelled
    classes = np.where(redrawn, rng.integers(n_classes, size=n_rows), topics).astype(np.int32)
    return counts, classes
