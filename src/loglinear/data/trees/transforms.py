"""Trees for grammars of binary rules: reversible binarisation and markovisation.

A label of a transformed tree is one of

    base^notes          a node of the tree with notes about it, such as its parent: NP^S
    @...                an intermediate node, which covers some of its parent's children

with ``\\`` before a ``\\`` or ``^`` of the base, before an ``@`` at its start, and, within the label of an intermediate
node, before ``,``, ``|``, ``<`` and ``>``. So :func:`restore` needs only the tree: it drops intermediate nodes and
notes,

    restore(binarise(tree)) == tree.

**Vertical** markovisation of order v notes the labels of v - 1 ancestors (Johnson 1998). **Horizontal** markovisation
of order h lets intermediate nodes remember only h of the siblings they cover, either *head-outward*, from the head
child to both sides (Collins 1999; Klein and Manning 2003), or from one end to the other. A -> L2 L1 H R1 R2 becomes

    head     A -> L2 @A|H<L1     @A|H<L1 -> L1 @A|H>R2,R1     @A|H>R2,R1 -> @A|H>R1 R2     @A|H>R1 -> H R1
    right    A -> L2 @A|L1,H     @A|L1,H -> L1 @A|H,R1 ...     (the rest of the children, from the left)
    left     A -> @A|R1,H R2     @A|R1,H -> @A|H,L1 R1 ...     (the rest, from the right)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain

from loglinear.data.trees.heads import head_children, layout
from loglinear.data.trees.tree import Tree, fold
from loglinear.errors import DataError, OptionError

INTERMEDIATE, NOTES = "@", "^"
FACTORS = ("head", "right", "left")
_TO_ESCAPE = re.compile(r"[\\^]|\A@")
_TO_ESCAPE_INSIDE = re.compile(r"[,|<>]")
_BASE = re.compile(r"(?:[^\\^]|\\.)*", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def noted(base: str, notes: Sequence[str] = ()) -> str:
    """The label of a transformed tree for a ``base`` label with ``notes``."""
    return NOTES.join((_escaped(base), *notes))


@lru_cache(maxsize=10_000)  # a treebank has many nodes but few labels
def _escaped(base: str) -> str:
    return _TO_ESCAPE.sub(r"\\\g<0>", base)


def base_label(label: str) -> str:
    """The label without its notes, as in the original tree."""
    matched = _BASE.match(label)
    return _ESCAPED.sub(r"\1", matched[0] if matched else label)


def is_intermediate(label: str) -> bool:
    """Whether this is the label of an intermediate node."""
    return label.startswith(INTERMEDIATE)


def binarise(
    tree: Tree, vertical: int = 1, horizontal: int | None = None, factor: str = "head", tag_parents: bool = False
) -> Tree:
    """Make every node have one or two children.

    Parameters
    ----------
    tree : Tree
    vertical : int
        Labels that a phrase knows, its own and those of its nearest ancestors: 1 only its own, 2 also its parent's.
    horizontal : int or None
        Siblings that an intermediate node remembers; all if None.
    factor : {"head", "right", "left"}
        In which order the children are split off.
    tag_parents : bool
        Whether parts of speech know their ancestors as phrases do.

    Returns
    -------
    Tree
        A binary tree that :func:`restore` turns back into ``tree``.
    """
    check_orders(vertical, horizontal, factor)
    notes: list[Sequence[str]] = []
    ancestors: list[tuple[str, ...]] = [()]  # those of the nodes still to visit, the next node's last
    for node in tree.nodes():
        above = ancestors.pop()
        notes.append(above if node.word is None or tag_parents else ())
        ancestors.extend([(noted(node.label), *above)[: vertical - 1]] * len(node.children))
    return factorise(tree, notes, horizontal, factor)


def check_orders(vertical: int, horizontal: int | None, factor: str) -> None:
    """Reject invalid orders of markovisation."""
    if isinstance(vertical, bool) or not isinstance(vertical, int) or vertical < 1:
        raise OptionError(f"vertical={vertical!r} must be a whole number from 1 up")
    if horizontal is not None and (isinstance(horizontal, bool) or not isinstance(horizontal, int) or horizontal < 0):
        raise OptionError(f"horizontal={horizontal!r} must be a whole number from 0 up, or None for all siblings")
    if factor not in FACTORS:
        raise OptionError(f"factor={factor!r} is not one of {', '.join(FACTORS)}")


def factorise(
    tree: Tree, notes: Sequence[Sequence[str]], horizontal: int | None, factor: str, noted_siblings: bool = False
) -> Tree:
    """Binarise a tree whose nodes have ``notes``, a list for each node in the order of :meth:`Tree.nodes`.

    With ``noted_siblings`` intermediate nodes remember siblings with their notes, not only their labels.
    """
    heads = head_children(layout(tree)) if factor == "head" else [0] * len(notes)
    backwards = zip(reversed(notes), reversed(heads), strict=True)  # the order in which nodes are folded

    def make(node: Tree, children: list[Tree]) -> Tree:
        about, head = next(backwards)
        label = noted(node.label, about)
        if node.word is not None:
            return Tree(label, word=node.word)
        if len(children) <= 2:
            return Tree(label, children)
        if horizontal is None and len(children) > MOST_SIBLINGS:
            raise DataError(
                f"a phrase ({node.label!r:.40}) of {len(children):,} children; nodes that remember all siblings "
                f"(horizontal=None) have at most {MOST_SIBLINGS:,}: choose how many, as in horizontal=2"
            )
        remembered = [
            inside(child.label if noted_siblings else noted(original.label))
            for child, original in zip(children, node.children, strict=True)
        ]
        return _SPLITS[factor](label, children, remembered, head, horizontal)

    return fold(tree, make)


MOST_SIBLINGS = 2000  # that nodes can remember: the labels of a phrase of n children have n^2 names between them


@lru_cache(maxsize=10_000)
def inside(label: str) -> str:
    """A label as it is written within that of an intermediate node."""
    return _TO_ESCAPE_INSIDE.sub(r"\\\g<0>", label)


def _headed(label: str, children: list[Tree], names: list[str], head: int, horizontal: int | None) -> Tree:
    """Split off the left children first, from the outside in, then the right ones."""
    first, last = 0, len(children) - 1
    reach = len(names) if horizontal is None else horizontal
    parts: list[tuple[str, Tree, bool]] = []  # label of the node that a child hangs from, the child, whether left
    here = label
    while last - first > 1:
        left = first < head
        parts.append((here, children[first] if left else children[last], left))
        first, last = (first + 1, last) if left else (first, last - 1)
        if first < head:
            side, seen = "<", names[first : min(head, first + reach)]
        else:
            side, seen = ">", names[last : max(head, last - reach) : -1]
        here = f"{INTERMEDIATE}{inside(label)}|{names[head]}{side}{','.join(seen)}"
    node = Tree(here, children[first : last + 1])
    for outer, child, left in reversed(parts):
        node = Tree(outer, [child, node] if left else [node, child])
    return node


def _rightward(label: str, children: list[Tree], names: list[str], head: int, horizontal: int | None) -> Tree:
    node, reach = children[-1], len(names) if horizontal is None else horizontal
    for first in range(len(children) - 2, -1, -1):
        rest = ",".join(names[first : first + reach])
        node = Tree(f"{INTERMEDIATE}{inside(label)}|{rest}" if first else label, [children[first], node])
    return node


def _leftward(label: str, children: list[Tree], names: list[str], head: int, horizontal: int | None) -> Tree:
    node, end, reach = children[0], len(children) - 1, len(names) if horizontal is None else horizontal
    for last in range(1, len(children)):
        rest = ",".join(reversed(names[max(0, last + 1 - reach) : last + 1]))
        node = Tree(f"{INTERMEDIATE}{inside(label)}|{rest}" if last < end else label, [node, children[last]])
    return node


_SPLITS: dict[str, Callable[[str, list[Tree], list[str], int, int | None], Tree]] = {
    "head": _headed,
    "right": _rightward,
    "left": _leftward,
}


def restore(tree: Tree) -> Tree:
    """Undo :func:`binarise`: intermediate nodes give their children to their parent, and notes are dropped."""
    if is_intermediate(tree.label):
        raise DataError(f"a tree cannot have an intermediate node at its root: {tree.label!r:.80}")

    def make(node: Tree, children: list[list[Tree]]) -> list[Tree]:
        if node.word is not None:
            return [Tree(base_label(node.label), word=node.word)]
        flat = list(chain.from_iterable(children))
        return flat if is_intermediate(node.label) else [Tree(base_label(node.label), flat)]

    return fold(tree, make)[0]
