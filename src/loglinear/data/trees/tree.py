"""Constituency trees and the bracketed text they are stored in.

A tree is written ``(ROOT (S (NP (DT The) (NN dog)) (VP (VBD ran))))``: an opening bracket and a label, then either
subtrees or, in a *preterminal*, exactly one word. This is the notation of the Penn Treebank (Marcus, Santorini and
Marcinkiewicz 1993). A file holds one tree per line or trees laid out over several lines; blank lines are skipped, and
so are lines between trees that begin with ``#``. The unlabelled outer bracket of the Penn files is read as ``ROOT``.

Nothing here recurses, so a tree may be deeper than Python's recursion limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from loglinear.data.files import Source, check_text, read_bytes, source_name
from loglinear.errors import DataError

A = TypeVar("A")
Brackets = list[tuple[int, int]]

ROOT = "ROOT"
_TOKEN = re.compile(r"[()]|[^ \t\r\f\v()]+")
_EMPTY = re.compile(r"\s*\(\s*[^\s()]*\s*(?:\(\s*\)\s*)?\)\s*", re.ASCII)
_BROKEN = re.compile(r"[ \t\r\n\f\v()]")


class Tree:
    """A node: a label over children (a phrase) or over one word (a preterminal).

    Parameters
    ----------
    label : str
        Phrase label or part of speech.
    children : iterable of Tree, optional
        Subtrees, at least one; exclusive with ``word``.
    word : str, optional
        The word of a preterminal.
    """

    __slots__ = ("children", "label", "word")

    def __init__(self, label: str, children: Iterable[Tree] = (), word: str | None = None) -> None:
        self.label = label
        self.children: tuple[Tree, ...] = tuple(children)
        self.word = word
        if bool(self.children) == (word is not None):
            raise DataError(f"a node ({label!r}) has either children or a word")
        for text in (label, word):
            if text is not None and (not text or _BROKEN.search(text)):
                raise DataError(f"a label or word may not be empty nor hold blanks or brackets: {text!r}")

    @property
    def is_preterminal(self) -> bool:
        """Whether the node is directly above a word."""
        return self.word is not None

    def nodes(self) -> Iterator[Tree]:
        """Yield every node, a parent before its children, left to right."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def leaves(self) -> list[str]:
        """Words, left to right (length T)."""
        return [node.word for node in self.nodes() if node.word is not None]

    def tags(self) -> list[str]:
        """Labels of the preterminals, left to right (length T)."""
        return [node.label for node in self.nodes() if node.word is not None]

    def spans(self) -> list[tuple[str, int, int]]:
        """Phrases as ``(label, start, end)`` over positions, end excluded, a parent before its children."""
        result: list[tuple[str, int, int]] = []
        open_spans: list[tuple[int, int]] = []  # (index in result, children not seen yet)
        position = 0
        for node in self.nodes():
            if node.word is None:
                result.append((node.label, position, position))
                open_spans.append((len(result) - 1, len(node.children)))
                continue
            position += 1
            while open_spans:  # this word may end any number of phrases
                index, missing = open_spans.pop()
                if missing > 1:
                    open_spans.append((index, missing - 1))
                    break
                label, start, _ = result[index]
                result[index] = (label, start, position)
        return result

    def __str__(self) -> str:
        parts: list[str] = []
        stack: list[Tree | str] = [self]
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                parts.append(item)
            elif item.word is not None:
                parts.append(f" ({item.label} {item.word})")
            else:
                parts.append(f" ({item.label}")
                stack.append(")")
                stack.extend(reversed(item.children))
        return "".join(parts)[1:]

    def __repr__(self) -> str:
        return f"Tree({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, Tree) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return parse_tree, (str(self),)  # the default would recurse


@dataclass(slots=True)
class _Open:
    """A bracket that is not closed yet."""

    label: str | None = None
    children: list[Tree] = field(default_factory=list)
    word: str | None = None


def _take_word(node: _Open, word: str, file: str | None, line: int) -> None:
    if node.label is None and not node.children:
        node.label = word
    elif node.children:
        raise DataError(f"the word {word!r} stands beside subtrees; give it a tag of its own: (TAG {word})", file, line)
    elif node.word is not None:
        raise DataError(f"two words, {node.word!r} and {word!r}, under one tag ({node.label})", file, line)
    else:
        node.word = word


def _close(stack: list[_Open], file: str | None, line: int) -> Tree:
    if not stack:
        raise DataError("a closing bracket too many", file, line)
    node = stack.pop()
    if node.word is None and not node.children:
        inside = f"({node.label} )" if node.label else "( )"
        raise DataError(f"an empty tree, {inside}: a bracket needs a word or subtrees", file, line)
    if node.label is None:
        if stack:
            raise DataError("a bracket without a label inside a tree", file, line)
        node.label = ROOT
    return Tree(node.label, node.children, node.word)


def fold(tree: Tree, make: Callable[[Tree, list[A]], A]) -> A:
    """Call ``make(node, results of its children)`` for all nodes, from the last of :meth:`Tree.nodes` to the first.

    Returns the root's result.
    """
    results: list[A] = []
    for node in reversed(list(tree.nodes())):  # no recursion; the leftmost child comes last, so it is on top
        results.append(make(node, [results.pop() for _ in node.children]))
    return results[0]


def parse_trees(text: str, file: str | None = None) -> Iterator[Tree]:
    """Yield the trees of a bracketed text.

    Parameters
    ----------
    text : str
        Bracketed trees, one per line or over several lines.
    file : str, optional
        Name of the source for messages.

    Raises
    ------
    DataError
        Unbalanced brackets, an empty tree, a word next to subtrees, two words under one tag.
    """
    for line, tree in numbered_trees(text, file):
        if tree is None:
            raise DataError("an empty tree: a bracket needs a word or subtrees", file, line)
        yield tree


def numbered_trees(text: str, file: str | None = None) -> Iterator[tuple[int, Tree | None]]:
    """Like :func:`parse_trees`, each tree with its first line; an empty one on a line, ``( )`` or ``(())``, is None."""
    stack: list[_Open] = []
    first_line = 0
    opening = ""
    for number, line in enumerate(text.split("\n"), 1):
        if not stack and line.startswith("#"):
            continue
        if not stack and _EMPTY.fullmatch(line):
            yield number, None
            continue
        if stack and opening and line.startswith(opening):
            # the next tree begins at the margin like this one did, so a bracket is missing before it
            break
        for match in _TOKEN.finditer(line):
            token = match[0]
            if token == "(":
                if stack and stack[-1].word is not None:
                    raise DataError(f"a subtree after the word {stack[-1].word!r} under one tag", file, number)
                if not stack:
                    first_line = number
                    opening = _opening(line) if match.start() == 0 else ""
                stack.append(_Open())
            elif token == ")":
                tree = _close(stack, file, number)
                if stack:
                    stack[-1].children.append(tree)
                else:
                    yield first_line, tree
            elif stack:
                _take_word(stack[-1], token, file, number)
            else:
                columns = "; for CoNLL-U there is parse --dependencies" if "\t" in line else ""
                raise DataError(f"{token!r} stands outside any bracket; a tree begins with '('{columns}", file, number)
    if stack:
        raise DataError(f"brackets left open at the end of the tree that begins here: {len(stack)}", file, first_line)


def _opening(line: str) -> str:
    """The root's opening bracket with its label, or with the next bracket if it has none."""
    match = re.match(r"\([ \t]*(?:\(|[^ \t\r\f\v()]+(?=[ \t(]))", line)
    return match[0] if match else ""


def parse_tree(text: str) -> Tree:
    """Read the only tree of ``text``."""
    trees = list(parse_trees(text))
    if len(trees) != 1:
        raise DataError(f"expected one tree, found {len(trees)}")
    return trees[0]


def read_trees(source: Source) -> list[Tree]:
    """Read a file of bracketed trees (UTF-8, gzip or plain; ``-`` is standard input; or an open binary file).

    Raises
    ------
    DataError
        For a file that does not exist, is not UTF-8, or holds no tree or an empty or malformed one; with file and line.
    """
    name = source_name(source)
    trees = list(parse_trees(read_text_of(source), name))
    if not trees:
        raise DataError("no tree in the file", name)
    return trees


class TreesAndSentences(list[Tree | list[str]]):
    """Trees and sentences of files.

    Attributes
    ----------
    places : list of str
        Where each begins, as ``trees.txt:12``.
    brackets : list
        The phrases that are marked in a sentence, each its first word and its end; None where none can be.
    """

    def __init__(self, items: Iterable[Tree | list[str]], places: list[str], brackets: list[Brackets | None]) -> None:
        super().__init__(items)
        self.places, self.brackets = places, brackets

    def and_also(self, other: TreesAndSentences) -> TreesAndSentences:
        """These, followed by ``other``."""
        return TreesAndSentences([*self, *other], self.places + other.places, self.brackets + other.brackets)


def read_trees_and_sentences(source: Source) -> TreesAndSentences:
    """Read a file of trees and of sentences: lines outside trees that do not begin with a bracket, in words.

    Raises
    ------
    DataError
        As :func:`read_trees`.
    """
    name, lines = source_name(source), read_text_of(source).split("\n")
    items: list[tuple[int, Tree | list[str]]] = []
    depth = 0  # brackets that are open
    for number, line in enumerate(lines, 1):
        if not depth and line.strip() and not line.lstrip().startswith(("(", "#")):
            items.append((number, line.split()))
            lines[number - 1] = ""
        elif depth or not line.startswith("#"):
            depth += line.count("(") - line.count(")")
    items += [(number, tree) for number, tree in numbered_trees("\n".join(lines), name) if tree is not None]
    if not items:
        raise DataError("no tree and no sentence in the file", name)
    items.sort(key=lambda item: item[0])
    places = [f"{name}:{number}" for number, _ in items]
    return TreesAndSentences([item for _, item in items], places, [None] * len(items))


def read_sentences(source: Source, *, brackets: bool = False) -> TreesAndSentences:
    """Read a file of sentences, one a line, words separated by blanks; blank lines are left out.

    With ``brackets`` round brackets mark phrases, as in ``(the dog) saw (a cat)``, and a bracket that is a word is
    written ``-LRB-`` or ``-RRB-``. Without, every character belongs to a word.

    Raises
    ------
    DataError
        For a file that does not exist, is not UTF-8, or has no sentence or brackets that do not match; with the line.
    """
    name = source_name(source)
    sentences, places, known = list[Tree | list[str]](), list[str](), list[Brackets | None]()
    for number, line in enumerate(read_text_of(source).split("\n"), 1):
        if line.strip():
            words, marked = _marked_words(line, name, number) if brackets else (line.split(), None)
            sentences.append(words)
            places.append(f"{name}:{number}")
            known.append(marked)
    if not sentences:
        raise DataError("no sentence in the file", name)
    return TreesAndSentences(sentences, places, known)


def _marked_words(line: str, file: str, number: int) -> tuple[list[str], Brackets]:
    """The words of a line, and the spans of those in round brackets."""
    words, found, opened = list[str](), Brackets(), list[int]()
    for token in re.findall(r"[()]|[^\s()]+", line):
        if token == "(":
            opened.append(len(words))
        elif token != ")":
            words.append(token)
        elif not opened:
            raise DataError("a bracket is closed that was not opened", file, number)
        elif opened[-1] == len(words):
            raise DataError("there is no word in a bracket; a bracket that is a word is -LRB- or -RRB-", file, number)
        else:
            found.append((opened.pop(), len(words)))
    if opened:
        raise DataError("a bracket is opened and not closed", file, number)
    return words, found


def read_text_of(source: Source) -> str:
    """The text of a source; raises the same errors as :func:`read_trees`."""
    raw = read_bytes(source)
    return raw[check_text(raw, source_name(source)) :].decode()


# ----------------------------------------------------------------------------------------------------------------------
# Words in trees: brackets by their Penn names, and the tree of a sentence that has no parse.


NO_PARSE = "NOPARSE"
_BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}


def tree_word(word: str) -> str:
    """A word as it is written in a tree: brackets have names, as in the Penn Treebank: ``-LRB-`` for ``(``."""
    if word in _BRACKETS:
        return _BRACKETS[word]
    return word.replace("(", "-LRB-").replace(")", "-RRB-") if "(" in word or ")" in word else word


def fallback_tree(words: Sequence[str], tags: Sequence[str]) -> Tree:
    """The tree for a sentence without a parse: all its words under :data:`NO_PARSE`."""
    return Tree(ROOT, [Tree(NO_PARSE, [Tree(tag, word=word) for tag, word in zip(tags, words, strict=True)])])


def is_fallback(tree: Tree) -> bool:
    """Whether the tree looks like one of :func:`fallback_tree` (a treebank's tree with such a label may, too)."""
    if len(tree.children) != 1 or tree.children[0].label != NO_PARSE:
        return False
    row = tree.children[0].children
    return bool(row) and all(child.is_preterminal for child in row)
