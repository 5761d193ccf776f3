"""Corpora of any size, made by a seed: sentences with trees, and rows of word counts in classes.

Sentences without end from a weighted grammar and a lexicon, with trees and entity marks, the same for a seed.

For scale and for tests: the text is grammatical and meaningless, its vocabulary has the long tail of real text, and
its columns agree with what :mod:`loglinear.data.corpora.bundled` finds in its trees. Every symbol and every word
class has a random stream of its own, so the first n sentences are the same however many follow. Beyond a depth only
the fragments that close soonest are drawn, so every sentence ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from loglinear.arrays import Int32, Int64
from loglinear.data.corpora.bundled import Rows, chunk_tags, entity_tags, pos_tags, task_rows, without_entities
from loglinear.data.trees.tree import Tree, parse_tree
from loglinear.errors import DataError, OptionError

if TYPE_CHECKING:
    pass


# ----------------------------------------------------------------------------------------------------------------------
# Words for the generator: classes read from ``lexicon.txt``, inflected by rule, and open classes made up on demand.
#
# A word of a closed class at rank r (from 1) has weight 1 / (r + 2.7), the law of Zipf (1949) with Mandelbrot's shift.
# Names and numbers are open: a rank is drawn from a power law without end and spelt out, so that the vocabulary keeps
# growing with the text, as Heaps's law says it does.


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
    """The classes of ``lexicon.txt``: class name to words, the frequent first."""
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
    """Spell a rank as a name: frequent ranks have an onset, a nucleus and an end, rarer ones syllables between."""
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


def _surnames(generator: np.random.Generator) -> list[str]:
    return [_name(rank, "person_end") for rank in _ranks(generator, 1.3).tolist()]


def _places(generator: np.random.Generator) -> list[str]:
    return [_name(rank, "place_end") for rank in _ranks(generator, 1.35).tolist()]


def _acronyms(generator: np.random.Generator) -> list[str]:
    letters = "ABCDEFGIMNOPRSTU"
    return [
        "".join(letters[(rank * 11 // 16**place) % 16] for place in range(2 + (rank > 16) + (rank > 300)))
        for rank in _ranks(generator, 1.8).tolist()
    ]


def _cardinals(generator: np.random.Generator) -> list[str]:
    return [f"{20 + rank % 2_000_000:,}" for rank in _ranks(generator, 1.4).tolist()]


def _amounts(generator: np.random.Generator) -> list[str]:
    whole, digit = _ranks(generator, 1.5) % 1000, generator.integers(0, 14, _BATCH)
    return [f"{w}.{d}" if d < 10 else str(w) for w, d in zip(whole.tolist(), digit.tolist(), strict=True)]


def _years(generator: np.random.Generator) -> list[str]:
    return [str(2026 - rank % 400) for rank in _ranks(generator, 1.5).tolist()]


def _days(generator: np.random.Generator) -> list[str]:
    return list(map(str, generator.integers(1, 29, _BATCH).tolist()))


def _compounds(generator: np.random.Generator) -> list[str]:
    nouns, ends = closed_classes()["noun.s"], closed_classes()["compound_end"]
    picked = (_ranks(generator, 1.4) % len(nouns)).tolist()
    return [
        f"{nouns[n]}-{ends[e]}" for n, e in zip(picked, generator.integers(0, len(ends), _BATCH).tolist(), strict=True)
    ]


#: Open class to the function that draws a batch of its words.
OPEN_CLASSES: dict[str, Callable[[np.random.Generator], list[str]]] = {
    "surname": _surnames, "place": _places, "acronym": _acronyms, "cardinal": _cardinals, "amount": _amounts,
    "year": _years, "day": _days, "compound": _compounds,
}  # fmt: skip


def _closed_draw(words: list[str]) -> Callable[[np.random.Generator], list[str]]:
    weights = 1.0 / (np.arange(len(words)) + 3.7)
    bounds = np.cumsum(weights) / weights.sum()

    def draw(generator: np.random.Generator) -> list[str]:
        picked = np.searchsorted(bounds, generator.random(_BATCH), side="right")
        return [words[index] for index in np.minimum(picked, len(words) - 1).tolist()]

    return draw


def word_stream(name: str, generator: np.random.Generator) -> Iterator[str]:
    """Words of a class without end, drawn from ``generator``."""
    if name in OPEN_CLASSES:
        draw = OPEN_CLASSES[name]
    elif name in closed_classes():
        draw = _closed_draw(closed_classes()[name])
    else:
        raise DataError(f"the grammar names a word class that the lexicon lacks: {name}")
    return chain.from_iterable(draw(generator) for _ in iter(int, 1))


# ----------------------------------------------------------------------------------------------------------------------
# The generator's grammar: a weighted tree-substitution grammar read from ``grammar.txt``.
#
# A sentence is made by putting tree fragments into the open places (*sites*) of other fragments, each fragment chosen
# with probability weight / sum of its symbol's weights. Fragments are cut so that a chunk never depends on what is put
# into a site, nor does an entity; hence the columns of every word are known when the grammar is read, and making a
# corpus only draws fragments and words.


START = "Sentence"
SITE = "@"  # label of a site in a fragment; its word is the symbol
_SITE = re.compile(r"@([\w.]+)")
# What a site looks like to its surroundings, and the prefix of a symbol that continues a chunk.
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


def _with_stand_ins(tree: Tree, roots: dict[str, str]) -> str:
    """The fragment's text with a stand-in for every site."""
    return re.sub(rf"\({SITE} ([\w.]+)\)", lambda match: _STAND_IN[roots[match[1]]], str(tree))


def _items(symbol: str, tree: Tree, roots: dict[str, str]) -> list[Item]:
    """Lay a fragment out and give each of its own words its columns."""
    text = _with_stand_ins(tree, roots)
    before = 0
    if symbol in _CONTINUING:
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
        is_class = node.word.startswith("*")
        items.append(
            Item(word=None if is_class else node.word, word_class=node.word[1:] if is_class else None, columns=columns)
        )
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
    """Least number of fragments on a path below each symbol, itself included."""
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
    """Least number of fragments on a path that begins with ``fragment``."""
    return 1 + max((heights()[site] for site in fragment.sites()), default=0)


# ----------------------------------------------------------------------------------------------------------------------
# The generator: sentences drawn from the grammar.


_MAX_DEPTH = 7  # fragments above one another before the sentence is brought to its end
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


# ----------------------------------------------------------------------------------------------------------------------
# Rows of word counts in classes, made by a seed: a text classification problem of any size.
#
# Words have Zipf's frequencies, f(k) proportional to 1 / (k + 2.7). Some words are more or less frequent in a class, by
# the exponential of a normal number. A row draws its words from its class alone, so that the classes overlap as topics
# do; a part of the rows has the label of another class.


SHIFT = 2.7  # of Zipf's law (Mandelbrot)
TELLING, STRENGTH = 0.25, 1.0  # share of the words that tell a class, and how much


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
    starts = np.concatenate([[0], np.cumsum(lengths)])
    frequencies = 1.0 / (np.arange(n_columns) + SHIFT)
    words = np.empty(int(starts[-1]), dtype=np.int32)
    for topic in range(n_classes):
        tells = rng.random(n_columns) < TELLING
        upto = np.cumsum(frequencies * np.exp(np.where(tells, STRENGTH * rng.normal(size=n_columns), 0.0)))
        mine = np.repeat(topics == topic, lengths)
        drawn = np.searchsorted(upto, rng.random(int(mine.sum())) * upto[-1], side="right")
        words[mine] = np.minimum(drawn, n_columns - 1)
    counts = sp.csr_matrix((np.ones(len(words)), words, starts), shape=(n_rows, n_columns))
    counts.sum_duplicates()
    anew = rng.random(n_rows) < mislabelled
    classes = np.where(anew, rng.integers(n_classes, size=n_rows), topics).astype(np.int32)
    return counts, classes
