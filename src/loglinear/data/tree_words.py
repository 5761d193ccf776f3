"""Words on their way into trees: brackets by their Penn names, and the tree of a sentence that has no parse."""

from __future__ import annotations

from collections.abc import Sequence

from loglinear.data.trees import ROOT, Tree

NO_PARSE = "NOPARSE"
_BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}


def tree_word(word: str) -> str:
    """A word as it stands in a tree: a bracket by its name in the Penn Treebank, as ``-LRB-`` for ``(``."""
    if word in _BRACKETS:
        return _BRACKETS[word]
    return word.replace("(", "-LRB-").replace(")", "-RRB-") if "(" in word or ")" in word else word


def fallback_tree(words: Sequence[str], tags: Sequence[str]) -> Tree:
    """The flagged tree of a sentence without a parse: its words in a row under :data:`NO_PARSE`."""
    return Tree(ROOT, [Tree(NO_PARSE, [Tree(tag, word=word) for tag, word in zip(tags, words, strict=True)])])


def is_fallback(tree: Tree) -> bool:
    """Whether the tree looks like one of :func:`fallback_tree`, as may a flat one of a treebank with such a label."""
    if len(tree.children) != 1 or tree.children[0].label != NO_PARSE:
        return False
    row = tree.children[0].children
    return bool(row) and all(child.is_preterminal for child in row)
