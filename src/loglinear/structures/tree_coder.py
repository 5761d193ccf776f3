"""From binary trees to labellings of spans and back: the names of a grammar's symbols, and what its steps stand for.

Symbols 0 .. P-1 are the tags, over single words, the others phrases; a tag and a phrase of the same name are different
symbols. A *step* A <- B is a chain of unary rules A -> ... -> B. All nodes over the
same words make one chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.data.trees import Tree
from loglinear.errors import DataError
from loglinear.structures.cfg_grammar import CFGGrammar, span_number

Ints = npt.NDArray[np.int32]
Chain = tuple[int, ...]
Name = tuple[str, bool]  # a label, and whether it is a tag
ANY_ROOT = ""  #: the symbol above all roots where a treebank has several; no label can have this name


class Constituent(NamedTuple):
    """A span of a binary tree: the labels over it, from top to bottom, and its two parts or its word."""

    chain: tuple[Name, ...]
    start: int
    end: int
    split: int
    parts: tuple[Name, Name] | None
    word: str | None


def constituents(tree: Tree) -> list[Constituent]:
    """The constituents of a tree of binary and unary rules, a parent before its parts."""
    chains: list[list[Tree]] = []
    stack = [tree]
    while stack:
        chain = [stack.pop()]
        while len(chain[-1].children) == 1:
            chain.append(chain[-1].children[0])
        bottom = chain[-1]
        if len(bottom.children) > 2:
            raise DataError(f"({bottom.label} ...) has {len(bottom.children)} children; binarise the tree first")
        chains.append(chain)
        stack.extend(reversed(bottom.children))
    widths: list[int] = []
    splits = [0] * len(chains)
    for number in range(len(chains) - 1, -1, -1):
        if chains[number][-1].children:
            splits[number], right = widths.pop(), widths.pop()
            widths.append(splits[number] + right)
        else:
            widths.append(1)
    found = []
    places = [(0, widths[0])]
    for chain, left in zip(chains, splits, strict=True):
        start, end = places.pop()
        bottom = chain[-1]
        names = tuple((node.label, node.word is not None) for node in chain)
        if bottom.word is not None:
            found.append(Constituent(names, start, end, -1, None, bottom.word))
        else:
            one, other = ((child.label, child.word is not None) for child in bottom.children)
            found.append(Constituent(names, start, end, start + left, (one, other), None))
            places += [(start + left, end), (start, start + left)]
    return found


class TreeCoder:
    """The names behind a grammar's numbers.

    Parameters
    ----------
    symbols : list of str
        K names, tags first.
    n_tags : int
        P; the grammar's preterminals are 0 .. P-1.
    grammar : CFGGrammar
    chains : list of tuple of int
        For each step the symbols from its parent down to its child.
    """

    def __init__(self, symbols: Sequence[str], n_tags: int, grammar: CFGGrammar, chains: Sequence[Chain]) -> None:
        self.symbols, self.n_tags, self.grammar = list(symbols), n_tags, grammar
        self.chains = [tuple(int(a) for a in chain) for chain in chains]
        ends = np.array([(chain[0], chain[-1]) for chain in self.chains], dtype=np.int32).reshape(-1, 2)
        if len(self.symbols) != grammar.n_symbols or ends.shape != grammar.steps.shape or (ends != grammar.steps).any():
            raise DataError("the names do not fit the grammar: one for each symbol, a chain for each step")
        if grammar.preterminals.tolist() != list(range(n_tags)):
            raise DataError(f"the grammar's preterminals must be its first {n_tags} symbols")
        self.number = {(name, a < n_tags): a for a, name in enumerate(self.symbols)}
        self._step_of = {chain: u for u, chain in reversed(list(enumerate(self.chains)))}
        self._step_between = {(chain[0], chain[-1]): u for u, chain in reversed(list(enumerate(self.chains)))}
        binary = grammar.binary.tolist()
        self._rule_of = {(parent, left, right): r for r, (parent, left, right) in enumerate(binary)}

    @classmethod
    def of_trees(cls, trees: Sequence[Tree]) -> TreeCoder:
        """The grammar of all binary rules and unary chains of some binary trees, each chain one step."""
        names: dict[Name, None] = {}
        binary: dict[tuple[Name, Name, Name], None] = {}
        chains: dict[tuple[Name, ...], None] = {}
        roots = dict.fromkeys((tree.label, tree.word is not None) for tree in trees)
        top = next(iter(roots)) if len(roots) == 1 else (ANY_ROOT, False)
        for tree in trees:
            for number_in_tree, c in enumerate(constituents(tree)):
                chain = (top, *c.chain) if len(roots) > 1 and number_in_tree == 0 else c.chain
                names.update(dict.fromkeys(chain))
                if len(chain) > 1:
                    chains[chain] = None
                if c.parts is not None:
                    binary[(chain[-1], *c.parts)] = None
        tags, phrases = ([name for name in names if name[1] is tag] for tag in (True, False))
        number = {name: a for a, name in enumerate([*tags, *phrases])}
        rules = [[number[name] for name in rule] for rule in binary]
        numbered = sorted((tuple(number[name] for name in chain) for chain in chains), key=lambda chain: chain[-1])
        steps = [(chain[0], chain[-1]) for chain in numbered]
        grammar = CFGGrammar(len(number), number[top], np.arange(len(tags)), rules, steps)
        return cls([name for name, _ in number], len(tags), grammar, numbered)

    def labels(self, tree: Tree) -> Ints | None:
        """The labelling [N, 3] of a binary tree; None if the grammar lacks one of its rules.

        A unary chain that is no step itself is taken for one between the same symbols, if there is one.
        """
        found = constituents(tree)
        labels = np.full((span_number(0, found[0].end) + found[0].end, 3), -1, dtype=np.int32)
        above = (self.grammar.root,) if self.symbols[self.grammar.root] == ANY_ROOT else ()
        for c in found:
            try:
                chain = above + tuple(self.number[name] for name in c.chain)
                step = -1
                if len(chain) > 1:
                    step = self._step_of[chain] if chain in self._step_of else self._step_between[chain[0], chain[-1]]
                rule = chain[-1]
                if c.parts is not None:
                    rule = self._rule_of[chain[-1], self.number[c.parts[0]], self.number[c.parts[1]]]
            except KeyError:
                return None
            labels[span_number(c.start, c.end)] = rule, c.split, step
            above = ()
        return labels if self._root_of(found[0], labels) == self.grammar.root else None

    def _root_of(self, top: Constituent, labels: Ints) -> int:
        rule, _, step = labels[span_number(top.start, top.end)].tolist()
        if step >= 0:
            return int(self.grammar.steps[step, 0])
        return rule if top.word is not None else int(self.grammar.binary[rule, 0])

    def tree(self, words: Sequence[str], labels: npt.ArrayLike) -> Tree:
        """The binary tree that a labelling [N, 3] of the spans of one sentence means."""
        rows = np.asarray(labels)
        binary = self.grammar.binary
        built: list[Tree] = []
        order: list[tuple[int, int]] = []
        stack = [(0, len(words))]
        while stack:
            i, j = stack.pop()
            order.append((i, j))
            if j - i > 1:
                k = int(rows[span_number(i, j), 1])
                if not i < k < j:
                    raise DataError(f"the labels are no tree: the words {i} to {j - 1} (from 0) have no split point")
                stack += [(k, j), (i, k)]
        for i, j in reversed(order):
            rule, _, step = rows[span_number(i, j)].tolist()
            if j - i == 1:
                node = Tree(self.symbols[rule], word=words[i])
            else:
                left, right = built.pop(), built.pop()
                node = Tree(self.symbols[binary[rule, 0]], [left, right])
            chain = self.chains[step] if step >= 0 else ()
            for a in reversed(chain[:-1]):
                if self.symbols[a] != ANY_ROOT:
                    node = Tree(self.symbols[a], [node])
            built.append(node)
        return built[0]
