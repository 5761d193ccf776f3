"""What users give to a parser, as lists of trees, sentences or examples; anything else is refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from loglinear.data.trees.cleaning import clean, without_marks
from loglinear.data.trees.tree import Tree, parse_tree, tree_word
from loglinear.errors import DataError
from loglinear.wording import how_many

TREES = "a list of trees, each a Tree or a string in brackets"
SENTENCES = "a list of sentences, each a list of words or a string with blanks between them"
EXAMPLES = "a list of trees (a Tree or a string in brackets) and sentences (a list of words, or a string)"
BRACKETS = "for each sentence a tree, a list of brackets (first word, end), or None"

Bracket = tuple[int, int]


class Example(NamedTuple):
    """A sentence to learn from.

    Attributes
    ----------
    words : list of str
    tree : Tree or None
        Its tree, if that is known.
    brackets : list of (int, int) or None
        Spans that no constituent may cross; None if none were given.
    place : str
        Where it comes from, in messages.
    """

    words: list[str]
    tree: Tree | None
    brackets: list[Bracket] | None = None
    place: str = ""


def cleaned_trees(parser: Any, X: Any) -> list[Tree]:
    """Trees as ``parser`` learns from them; those without a word are left out."""
    cleaned = (_cleaned(parser, tree) for tree in given_trees(X))
    return [tree for tree in cleaned if tree is not None]


def gold_trees(parser: Any, X: Any) -> list[Tree]:
    """Trees that the parses of ``parser`` are compared with."""
    return [without_marks(tree, parser.marks) for tree in cleaned_trees(parser, X)]


def given_examples(parser: Any, X: Any, y: Any = None) -> list[Example]:
    """Trees and sentences in words, with what ``y`` says about them; trees without a word are left out."""
    items = list(_items(X, EXAMPLES))
    known = [None] * len(items) if y is None else list(_items(y, BRACKETS))
    if len(known) != len(items):
        raise DataError(f"X has {how_many(len(items), 'sentence')}, but y {how_many(len(known), 'entry')}")
    places = getattr(X, "places", [f"sentence {number} (from 0)" for number in range(len(items))])
    examples = []
    for number, (item, more) in enumerate(zip(items, known, strict=True)):
        is_tree = isinstance(item, Tree) or (isinstance(item, str) and item.lstrip().startswith("("))
        tree = _cleaned(parser, _tree(number, item)) if is_tree else None
        if is_tree and tree is None:
            continue
        words = [tree_word(word) for word in _words(number, item)] if tree is None else tree.leaves()
        if isinstance(more, Tree | str):
            tree, more = _cleaned(parser, _tree(number, more)), None
            if tree is None or tree.leaves() != words:
                raise DataError(f"y[{number}] is a tree of other words than X[{number}]")
        examples.append(Example(words, tree, None if more is None else _brackets(number, more), places[number]))
    return examples


def _cleaned(parser: Any, tree: Tree) -> Tree | None:
    return clean(tree, parser.function_tags, parser.marks)


def _brackets(number: int, given: Any) -> list[Bracket]:
    try:
        brackets = [(int(first), int(end)) for first, end in given]
    except (TypeError, ValueError):
        raise DataError(f"y[{number}] is {given!r:.60}; give {BRACKETS}") from None
    around: list[Bracket] = []  # brackets that are open at the current one, the innermost last
    for first, end in sorted(brackets, key=lambda bracket: (bracket[0], -bracket[1])):
        while around and around[-1][1] <= first:
            around.pop()
        if around and around[-1][1] < end:
            raise DataError(f"brackets {around[-1]} and {(first, end)} of sentence {number} cross; leave out one")
        around.append((first, end))
    return brackets


def given_trees(X: Any) -> list[Tree]:
    """The trees of ``X``; strings are bracketed trees."""
    return [_tree(number, tree) for number, tree in enumerate(_items(X, TREES))]


def _tree(number: int, given: Any) -> Tree:
    if isinstance(given, Tree):
        return given
    if not isinstance(given, str):
        raise DataError(f"tree {number} (from 0) is {given!r:.60}; give {TREES}")
    try:
        return parse_tree(given)
    except DataError as error:
        raise DataError(f"tree {number} (from 0): {error.message}") from None


def given_sentences(X: Any) -> list[list[str]]:
    """The sentences of ``X`` in words; strings are split at blanks."""
    return [_words(number, words) for number, words in enumerate(_items(X, SENTENCES))]


def _words(number: int, given: Any) -> list[str]:
    where = f"sentence {number} (from 0)"
    if isinstance(given, bytes | bytearray) or not isinstance(given, Iterable):
        raise DataError(f"{where} is {given!r:.60}; give {SENTENCES}")
    words = given.split() if isinstance(given, str) else list(given)
    for word in words:
        if not isinstance(word, str):
            raise DataError(f"{where} has {word!r:.60} for a word; a word is a string")
    if not words or not all(words):
        raise DataError(f"{where} has no word, or an empty one; leave it out")
    if any(character.isspace() for word in words for character in word):
        raise DataError(f"{where}: a word may not hold blanks; a sentence is a list of words")
    return words


def _items(X: Any, wanted: str) -> Iterable[Any]:
    """``X``, unless it is one thing instead of a list."""
    if isinstance(X, str | bytes | bytearray | dict) or not isinstance(X, Iterable):
        raise DataError(f"{X!r:.60} is of type {type(X).__name__}; give {wanted}")
    return X
