"""Binary trees as charts: the grammar that a treebank uses, and each tree as a labelling of its spans.

Every node of a binary tree stands in a maximal chain of unary nodes over a *bottom*, which is a preterminal or has two
children. The chain's labels above the bottom are one step of the grammar, so that a span has a bottom and at most one
step, whatever the chain's length:

    (ROOT (S (VP (VB Go))))       a preterminal VB, and the step ROOT <- VB of the chain ROOT, S, VP

Where trees have different labels at the root, all of them get :data:`TOP` above it, which is taken off again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.data.trees import Tree
from loglinear.errors import DataError
from loglinear.structures.cfg_grammar import CFGGrammar, span_number

Int32 = npt.NDArray[np.int32]
TOP = "<top>"


class _Node(NamedTuple):
    """A bottom with the chain above it: labels from the top of the chain, the bottom's last; children if it has two."""

    start: int
    end: int
    labels: tuple[str, ...]
    split: int  # -1 for a preterminal
    children: tuple[str, str] | None  # the labels at the top of both parts


def _nodes(tree: Tree) -> list[_Node]:
    """The nodes of a binary tree, chains put together."""
    found, order = [], list(tree.nodes())
    sizes: dict[int, int] = {}
    stack: list[int] = []
    for node in reversed(order):
        if len(node.children) > 2:
            raise DataError(f"a node ({node.label}) has {len(node.children)} children; binarise the tree first")
        size = 1 if node.word is not None else sum(stack.pop() for _ in node.children)
        sizes[id(node)] = size
        stack.append(size)
    start, inside = 0, set()
    for node in order:
        if id(node) not in inside:
            chain, bottom = [node.label], node
            while len(bottom.children) == 1:
                bottom = bottom.children[0]
                inside.add(id(bottom))
                chain.append(bottom.label)
            size, split, children = sizes[id(node)], -1, None
            if bottom.children:
                left, right = bottom.children
                split, children = start + sizes[id(left)], (left.label, right.label)
            found.append(_Node(start, start + size, tuple(chain), split, children))
        start += node.word is not None
    return found


@dataclass(frozen=True)
class ChartTreebank:
    """A grammar with the names of its symbols and steps.

    Parameters
    ----------
    symbols : list of str
        K names.
    grammar : CFGGrammar
    chains : list of tuple of str
        For each of the U steps, the labels above the bottom, from the top.
    """

    symbols: list[str]
    grammar: CFGGrammar
    chains: list[tuple[str, ...]]

    @classmethod
    def of(cls, trees: Iterable[Tree]) -> ChartTreebank:
        """The symbols, binary rules and unary chains that occur in binary trees."""
        tags: dict[str, None] = {}
        rules: dict[tuple[str, str, str], None] = {}
        moves: dict[tuple[tuple[str, ...], str], None] = {}
        roots: dict[str, None] = {}
        for tree in trees:
            roots[tree.label] = None
            for node in _nodes(tree):
                *chain, bottom = node.labels
                if node.children is None:
                    tags[bottom] = None
                else:
                    rules[bottom, *node.children] = None
                if chain:
                    moves[tuple(chain), bottom] = None
        if len(roots) > 1:
            moves = _with_top(moves, rules, tags, roots)
        names = [*tags, *(label for rule in rules for label in rule), *(chain[0] for chain, _ in moves)]
        symbols = list(dict.fromkeys([*names, *roots]))
        number = {symbol: k for k, symbol in enumerate(symbols)}
        in_order = sorted(moves, key=lambda move: number[move[1]])  # as the grammar has them
        grammar = CFGGrammar(
            len(symbols),
            number[TOP if len(roots) > 1 else next(iter(roots))] if roots else 0,
            [number[tag] for tag in tags],
            [[number[label] for label in rule] for rule in rules],
            [[number[chain[0]], number[bottom]] for chain, bottom in in_order],
        )
        return cls(symbols, grammar, [chain for chain, _ in in_order])

    @cached_property
    def _number(self) -> dict[str, int]:
        return {symbol: k for k, symbol in enumerate(self.symbols)}

    @cached_property
    def _steps(self) -> dict[tuple[tuple[str, ...], str], int]:
        bottoms = [self.symbols[child] for child in self.grammar.steps[:, 1].tolist()]
        return {(chain, bottom): u for u, (chain, bottom) in enumerate(zip(self.chains, bottoms, strict=True))}

    @cached_property
    def _rules(self) -> dict[tuple[int, ...], int]:
        return {tuple(rule): r for r, rule in enumerate(self.grammar.binary.tolist())}

    @cached_property
    def tags(self) -> list[str]:
        """Names of the preterminals [P]."""
        return [self.symbols[k] for k in self.grammar.preterminals.tolist()]

    @property
    def has_top(self) -> bool:
        """Whether a symbol was put above the trees' own roots."""
        return self.symbols[self.grammar.root] == TOP

    def labels(self, tree: Tree) -> Int32:
        """The labelling int32 [N, 3] of a binary tree: rule (or tag), split and step of each span."""
        nodes = _nodes(tree)
        labels = np.full((nodes[0].end * (nodes[0].end + 1) // 2, 3), -1, dtype=np.int32)
        try:
            for place, node in enumerate(nodes):
                row = labels[span_number(node.start, node.end)]
                *chain, bottom = (TOP, *node.labels) if place == 0 and self.has_top else node.labels
                if node.children is None:
                    row[0] = self._tag_numbers[bottom]
                else:
                    row[0] = self._rules[tuple(self._number[label] for label in (bottom, *node.children))]
                    row[1] = node.split
                if chain:
                    row[2] = self._steps[tuple(chain), bottom]
        except KeyError as error:
            raise DataError(f"the grammar has no such symbol, rule or chain as in the tree: {error.args[0]}") from None
        return labels

    @cached_property
    def _tag_numbers(self) -> dict[str, int]:
        return {tag: p for p, tag in enumerate(self.tags)}

    def tree(self, words: Sequence[str], labels: npt.NDArray[np.integer]) -> Tree:
        """The binary tree that a labelling [N, 3] of one sentence's spans means."""
        built: dict[tuple[int, int], Tree] = {}
        to_do = [(0, len(words), False)]
        while to_do:
            i, j, ready = to_do.pop()
            rule, split, step = labels[span_number(i, j)].tolist()
            if j - i > 1 and not ready:
                to_do += [(i, j, True), (split, j, False), (i, split, False)]
                continue
            if j - i == 1:
                node = Tree(self.tags[rule], word=words[i])
            else:
                label = self.symbols[int(self.grammar.binary[rule, 0])]
                node = Tree(label, (built.pop((i, split)), built.pop((split, j))))
            for above in reversed(self.chains[step] if step >= 0 else ()):
                if above != TOP:
                    node = Tree(above, (node,))
            built[i, j] = node
        return built[0, len(words)]


def _with_top(
    moves: dict[tuple[tuple[str, ...], str], None],
    rules: dict[tuple[str, str, str], None],
    tags: dict[str, None],
    roots: dict[str, None],
) -> dict[tuple[tuple[str, ...], str], None]:
    """The chains and, for every bottom and chain that may stand at the root, the same with :data:`TOP` above."""
    at_root = {((TOP, *chain), bottom): None for chain, bottom in moves if chain[0] in roots}
    bottoms = [*dict.fromkeys(rule[0] for rule in rules), *tags]
    return {**moves, **at_root, **{((TOP,), bottom): None for bottom in bottoms if bottom in roots}}
