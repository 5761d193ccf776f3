"""Reading treebanks as parsers need them: no traces, no function tags, no phrase over itself, one root label.

The Penn Treebank marks the function of a phrase (``NP-SBJ``), phrases that belong together (``NP-1``, ``NP=2``) and
omitted words (``(-NONE- *T*-1)``). :func:`clean` removes these marks, so that a tree covers only the words of its
sentence, as in PARSEVAL.
"""

from __future__ import annotations

import warnings

from loglinear.data.files import Source, source_name
from loglinear.data.trees.heads import phrase_label
from loglinear.data.trees.tree import ROOT, Tree, fold, numbered_trees, read_text_of
from loglinear.errors import DataError

EMPTY_TAG = "-NONE-"
ROOT_LABELS = frozenset({ROOT, "TOP", "S1", "VROOT"})


def clean(tree: Tree, function_tags: bool = False, marks: str = "") -> Tree | None:
    """A tree without traces, without a phrase over one phrase of the same label, and under :data:`ROOT`.

    Parameters
    ----------
    tree : Tree
    function_tags : bool
        Whether to keep what follows ``-``, ``=`` or ``|`` in a phrase label.
    marks : str
        Characters that begin the user's own notes in labels; these notes are kept, and so are function tags.

    Returns
    -------
    Tree or None
        None if no word is left.
    """

    def make(node: Tree, children: list[Tree | None]) -> Tree | None:
        if node.word is not None:
            return None if node.label == EMPTY_TAG else node
        filled = [child for child in children if child is not None]
        label = node.label if function_tags or marks else phrase_label(node.label) or node.label
        if len(filled) == 1 and filled[0].label == label and filled[0].word is None:
            return filled[0]
        return Tree(label, filled) if filled else None

    cleaned = fold(tree, make)
    return None if cleaned is None else rooted(cleaned, marks)


def rooted(tree: Tree, marks: str = "") -> Tree:
    """The tree with :data:`ROOT` as its top label: a root with another name is renamed, a missing one is added."""
    if tree.word is None and part_marked(tree.label, marks)[0] in ROOT_LABELS:
        return tree if tree.label == ROOT else Tree(ROOT, tree.children)
    return Tree(ROOT, [tree])


def part_marked(label: str, marks: str) -> tuple[str, str]:
    """Split a label into its base and the user's note, which begins with one of ``marks``: ``NP`` and ``^S-B``.

    The note does not begin at a label's first character, nor, in a label such as ``-LRB-``, before the second hyphen.
    """
    begin = label.find("-", 1) + 1 if label.startswith("-") else 1
    places = [place for mark in marks if (place := label.find(mark, max(begin, 1))) >= 0]
    cut = min(places, default=len(label))
    return label[:cut], label[cut:]


def without_marks(tree: Tree, marks: str) -> Tree:
    """The tree with the user's notes cut off its labels."""
    return fold(tree, lambda node, children: Tree(part_marked(node.label, marks)[0], children, node.word))


def read_treebank(source: Source, function_tags: bool = False, marks: str = "") -> list[Tree]:
    """Read a file of trees and clean them; trees without words are dropped, with a warning that names the first.

    Raises
    ------
    DataError
        As for :func:`~loglinear.data.trees.tree.read_trees`, and if no tree is left.
    """
    name = source_name(source)
    trees: list[Tree] = []
    empty_lines: list[int] = []
    for line, tree in numbered_trees(read_text_of(source), name):
        cleaned = None if tree is None else clean(tree, function_tags, marks)
        if cleaned is None:
            empty_lines.append(line)
        else:
            trees.append(cleaned)
    if not trees and empty_lines:
        raise DataError("no tree of the file has a word; the first without begins here", name, empty_lines[0])
    if not trees:
        raise DataError("no tree in the file", name)
    if empty_lines:
        count = len(empty_lines)
        trees_are = "a tree without words is" if count == 1 else f"{count} trees without words are"
        warnings.warn(f"{name}:{empty_lines[0]}: {trees_are} left out", stacklevel=2)
    return trees
