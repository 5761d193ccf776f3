"""From a treebank to the trees a grammar is read off: notes on labels, rare ones taken back, then binary rules.

Splitting a label makes a grammar sharper and its counts thinner. So a note stays only where it can be estimated: the
notes of a label that is seen fewer than ``least`` times are taken back from the last to the first, and intermediate
nodes that are seen fewer than ``least_intermediate`` times remember fewer siblings (in the spirit of the selective
splits of Klein and Manning 2003).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from loglinear.data.tree_cleaning import part_marked
from loglinear.data.tree_notes import notes_on
from loglinear.data.tree_transforms import binarise, check_orders, factorise, is_intermediate, noted
from loglinear.data.trees import Tree, fold
from loglinear.errors import OptionError

ANNOTATIONS = ("none", "parent", "rich")
#: The notes of the annotation ``rich``.
RICH = (
    "parent", "verb-form", "base", "possessive", "gap", "with-verb", "unary", "right-recursive", "tag-parent",
    "auxiliary", "in-place", "conjunction", "percent", "alone",
)  # fmt: skip
_SEPARATOR = re.compile(r"\\.|([,<>])", re.DOTALL)


@dataclass(frozen=True)
class TreeTransform:
    """How a treebank's trees become those of a grammar.

    Parameters
    ----------
    annotation : {"rich", "parent", "none"}
        ``rich``: notes on what kind of phrase or part of speech it is, for English; ``parent``: the labels of
        ``vertical`` - 1 ancestors; ``none``: neither.
    vertical : int
        For ``parent``: labels that a phrase knows, its own and those of its ancestors.
    horizontal : int or None
        Siblings that an intermediate node remembers; all if None.
    factor : {"head", "right", "left"}
        In which order the children of a phrase come apart.
    marks : str
        Characters that begin the user's own notes in the labels of the treebank, as ``^-``; none if empty.
    least, least_intermediate : int
        How often a label must be seen to keep its notes, an intermediate node to remember its siblings. For ``rich``.
    notes : tuple of str
        Names of the notes of ``rich``.
    """

    annotation: str = "rich"
    vertical: int = 2
    horizontal: int | None = 2
    factor: str = "head"
    marks: str = ""
    least: int = 10
    least_intermediate: int = 40
    notes: tuple[str, ...] = RICH
    noted_siblings: bool = False

    def __post_init__(self) -> None:
        check_orders(self.vertical, self.horizontal, self.factor)
        if self.annotation not in ANNOTATIONS:
            raise OptionError(f"annotation={self.annotation!r} is not one of {', '.join(ANNOTATIONS)}")
        if self.marks and self.annotation != "none":
            raise OptionError(
                f"marks={self.marks!r} says that the trees have notes of their own; use it with annotation='none'"
            )

    def apply(self, trees: Sequence[Tree]) -> list[Tree]:
        """The binary trees, which :func:`~loglinear.data.tree_transforms.restore` turns back into plain ones."""
        if self.marks:
            return [self._marked(tree) for tree in trees]
        if self.annotation != "rich":
            vertical = self.vertical if self.annotation == "parent" else 1
            return [binarise(tree, vertical, self.horizontal, self.factor) for tree in trees]
        notes = [notes_on(tree, self.notes) for tree in trees]
        if self.least > 1:
            _take_back(trees, notes, self.least)
        binary = [
            factorise(tree, about, self.horizontal, self.factor, self.noted_siblings)
            for tree, about in zip(trees, notes, strict=True)
        ]
        return forgetful(binary, self.least_intermediate) if self.least_intermediate > 1 else binary

    def _marked(self, tree: Tree) -> Tree:
        """A tree with notes of the user's in its labels."""
        parted = [part_marked(node.label, self.marks) for node in tree.nodes()]
        bases = iter([base for base, _ in reversed(parted)])
        plain = fold(tree, lambda node, children: Tree(next(bases), children, node.word))
        notes = [[], *([noted(note)] if note else [] for _, note in parted[1:])]  # there is one root
        return factorise(plain, notes, self.horizontal, self.factor, self.noted_siblings)


def _take_back(trees: Sequence[Tree], notes: list[list[list[str]]], least: int) -> None:
    """Shorten, in place, the notes of labels that are seen fewer than ``least`` times, until none is left of them."""
    labels = [[node.label for node in tree.nodes()] for tree in trees]
    while True:
        seen = Counter(
            (label, *about)
            for some, notes_of in zip(labels, notes, strict=True)
            for label, about in zip(some, notes_of, strict=True)
        )
        rare = {key for key, count in seen.items() if count < least and len(key) > 1}
        if not rare:
            return
        longest = max(map(len, rare))  # the finest first: what it leaves behind counts for the next coarser one
        for some, notes_of in zip(labels, notes, strict=True):
            for label, about in zip(some, notes_of, strict=True):
                if len(about) + 1 == longest and (label, *about) in rare:
                    about.pop()


def forgetful(trees: Sequence[Tree], least: int) -> list[Tree]:
    """Binary trees whose intermediate labels are seen ``least`` times, or remember no sibling."""
    seen = Counter(node.label for tree in trees for node in tree.nodes() if is_intermediate(node.label))
    renamed: dict[str, str] = {}
    for length in range(max(map(_memory, seen), default=0), 0, -1):
        for label in [label for label, count in seen.items() if count < least and _memory(label) == length]:
            renamed[label] = _shorter(label)
            seen[renamed[label]] += seen.pop(label)

    def make(node: Tree, children: list[Tree]) -> Tree:
        label = node.label
        while label in renamed:
            label = renamed[label]
        return Tree(label, children, node.word)

    return [fold(tree, make) for tree in trees] if renamed else list(trees)


def _memory(label: str) -> int:
    """How many siblings an intermediate label can forget: 2 for ``@A|H>B,C`` and for ``@A|B,C,D``."""
    places = [match.end() for match in _SEPARATOR.finditer(label) if match[1]]
    return 0 if not places or places[-1] == len(label) else len(places)


def _shorter(label: str) -> str:
    """The intermediate label with one sibling less: ``@A|H>B`` for ``@A|H>B,C``, then ``@A|H>``."""
    last = [match.start() for match in _SEPARATOR.finditer(label) if match[1]][-1]
    return label[:last] if label[last] == "," else label[: last + 1]
