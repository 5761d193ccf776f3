"""What a parser is given, as lists of trees and of sentences; what is neither is refused, saying what is wanted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loglinear.data.trees import Tree, parse_tree
from loglinear.errors import DataError

TREES = "a list of trees, each a Tree or a string in brackets"
SENTENCES = "a list of sentences, each a list of words or a string with blanks between them"


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
