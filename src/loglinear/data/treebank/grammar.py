"""The generator's grammar: a weighted tree-substitution grammar read from ``grammar.txt``.

A sentence is made by putting tree fragments into the open places (*sites*) of other fragments, each fragment chosen
with probability weight / sum of its symbol's weights. Fragments are cut so that a chunk never depends on what is put
into a site, nor does an entity; hence the columns of every word are known when the grammar is read, and making a
corpus is no more than drawing fragments and words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from loglinear.data.treebank.chunks import chunk_tags
from loglinear.data.treebank.derive import entity_tags, pos_tags
from loglinear.data.treebank.lexicon import VERB_FORMS
from loglinear.data.trees import Tree, parse_tree

START = "Sentence"
SITE = "@"  # label of a site in a fragment; its word is the symbol
_SITE = re.compile(r"@([\w.]+)")
# What a site looks like to its surroundings, and what stands before a symbol that goes on a chunk.
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
    text = files("loglinear.data.treebank").joinpath("grammar.txt").read_text(encoding="utf-8")
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
