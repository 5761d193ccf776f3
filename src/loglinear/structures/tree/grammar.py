"""Grammars as numbers: their rules, labellings that represent trees, and the outcomes of symbols.

The rules of a context-free grammar are numbers, sorted so that kernels fill charts quickly.

Symbols are 0 .. K-1, some of them *preterminals*, which dominate single words. There are two kinds of rules:

    binary    A -> B C    [R], sorted by left child, then right child: those of a left child are a run (CSR)
    step      A <- B      [U], sorted by child: a unary move that is used at most once at a span

There are no other unary rules. A model with chains of unary rules turns each chain, or the closure of all of them, into
a step (:mod:`loglinear.generative.pcfg.model`), so that the chart of a span is filled in two rounds:

    chart0[i, j, A] = sum over k and A -> B C of  score(A -> B C) * chart[i, k, B] * chart[k, j, C]       (j - i > 1)
    chart [i, j, A] = chart0[i, j, A] + sum over steps A <- B of  score(A <- B) * chart0[i, j, B]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Bool, Int32, Int64, UInt8
from loglinear.data.trees.tree import Tree
from loglinear.errors import DataError
from loglinear.structures.tree.pieces import Edges


class Rules(NamedTuple):
    """A grammar as kernels take it: K symbols, R binary rules, U steps, P preterminals.

    Parameters
    ----------
    left_pointer : int64 [K + 1]
        The rules whose left child is B are ``left_pointer[B]`` to ``left_pointer[B + 1]``.
    parent, right : int32 [R]
        Parent and right child of each rule.
    child_pointer : int64 [K + 1]
        The steps from child B are ``child_pointer[B]`` to ``child_pointer[B + 1]``.
    steps : int32 [U, 2]
        Parent and child of each step.
    is_left : uint8 [K]
        1 for symbols that are some rule's left child.
    preterminals : int32 [P]
    root : int
    """

    left_pointer: Int64
    parent: Int32
    right: Int32
    child_pointer: Int64
    steps: Int32
    is_left: UInt8
    preterminals: Int32
    root: int


class CFGGrammar:
    """Symbols and rules, without scores; a rule's number is its row in :attr:`binary` or :attr:`steps`.

    Parameters
    ----------
    n_symbols : int
        K.
    root : int
        The symbol of whole sentences.
    preterminals : int [P]
        Symbols over single words; a word's tag is given as a number 0 .. P-1, its place in this list.
    binary : int [R, 3]
        Parent, left child and right child, in any order; kept sorted, without repetitions.
    steps : int [U, 2]
        Parent and child, in any order; kept sorted (stably). Two steps may join the same symbols.
    """

    def __init__(
        self,
        n_symbols: int,
        root: int,
        preterminals: npt.ArrayLike | Sequence[int],
        binary: npt.ArrayLike,
        steps: npt.ArrayLike = (),
    ) -> None:
        self.n_symbols, self.root = int(n_symbols), int(root)
        self.preterminals = _numbers("preterminals", preterminals, (-1,), self.n_symbols)
        rules = _numbers("binary", binary, (-1, 3), self.n_symbols)
        moves = _numbers("steps", steps, (-1, 2), self.n_symbols)
        if not 0 <= self.root < self.n_symbols:
            raise DataError(f"root = {root} is not one of the {n_symbols} symbols 0, 1, ...")
        if len(np.unique(self.preterminals)) < len(self.preterminals):
            raise DataError("a symbol is listed twice among the preterminals")
        order = np.lexsort((rules[:, 0], rules[:, 2], rules[:, 1]))
        self.binary = np.ascontiguousarray(rules[order])
        if len(self.binary) > 1 and (self.binary[1:] == self.binary[:-1]).all(axis=1).any():
            raise DataError("a binary rule is listed twice")
        self.steps = np.ascontiguousarray(moves[np.argsort(moves[:, 1], kind="stable")])

    @property
    def n_preterminals(self) -> int:
        """P."""
        return len(self.preterminals)

    @property
    def n_binary(self) -> int:
        """R."""
        return len(self.binary)

    @property
    def n_steps(self) -> int:
        """U."""
        return len(self.steps)

    @cached_property
    def rules(self) -> Rules:
        """The grammar as kernels take it."""
        symbols = np.arange(self.n_symbols + 1)
        left_pointer = np.searchsorted(self.binary[:, 1], symbols).astype(np.int64)
        return Rules(
            left_pointer,
            parent=self.binary[:, 0].copy(),
            right=self.binary[:, 2].copy(),
            child_pointer=np.searchsorted(self.steps[:, 1], symbols).astype(np.int64),
            steps=self.steps,
            is_left=(np.diff(left_pointer) > 0).astype(np.uint8),
            preterminals=self.preterminals,
            root=self.root,
        )

    def number_of_binary(self, rules: npt.ArrayLike) -> Int64:
        """The numbers of binary rules given as parent, left, right [n, 3]; -1 for those that the grammar lacks."""
        return _found(_codes(self.binary, self.n_symbols), _codes(np.asarray(rules).reshape(-1, 3), self.n_symbols))


def span_number(i: int, j: int) -> int:
    """Number of the span of the words i .. j-1 within its sentence: j (j - 1) / 2 + i."""
    return j * (j - 1) // 2 + i


def spans_of(length: int) -> tuple[Int64, Int64]:
    """First word and end of each span of a sentence of ``length`` words, by their numbers."""
    ends = np.repeat(np.arange(1, length + 1), np.arange(1, length + 1))
    firsts = np.arange(len(ends)) - ends * (ends - 1) // 2
    return firsts.astype(np.int64), ends.astype(np.int64)


def _numbers(name: str, values: npt.ArrayLike, shape: tuple[int, ...], n_symbols: int) -> Int32:
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros((0, *shape[1:]), dtype=np.int32)
    if array.ndim != len(shape) or array.shape[1:] != shape[1:] or not np.issubdtype(array.dtype, np.integer):
        wanted = ", ".join("any" if n < 0 else str(n) for n in shape)
        raise DataError(f"{name} is {array.dtype} {list(array.shape)}, not whole numbers [{wanted}]")
    if array.min() < 0 or array.max() >= n_symbols:
        raise DataError(f"{name} names a symbol that is not one of the {n_symbols} symbols 0, 1, ...")
    return np.ascontiguousarray(array, dtype=np.int32)


def _codes(rows: npt.NDArray[np.integer], n_symbols: int) -> Int64:
    codes = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        codes = codes * n_symbols + column
    return codes


def _found(known: Int64, wanted: Int64) -> Int64:
    order = np.argsort(known, kind="stable")
    place = np.searchsorted(known[order], wanted)
    inside = place < len(known)
    numbers = np.full(len(wanted), -1, dtype=np.int64)
    candidates = order[place[inside]]
    numbers[inside] = np.where(known[candidates] == wanted[inside], candidates, -1)
    return numbers


# ----------------------------------------------------------------------------------------------------------------------
# From binary trees to labellings of spans and back: the names of a grammar's symbols, and the unary chains of its
# steps.
#
# Symbols 0 .. P-1 are the tags of single words, the others phrases; a tag and a phrase of the same name are different
# symbols. A *step* A <- B is a chain of unary rules A -> ... -> B. All nodes over the same words are one chain.


Chain = tuple[int, ...]
Name = tuple[str, bool]  # a label, and whether it is a tag
ANY_ROOT = ""  #: the symbol above all roots where a treebank has several; no label can have this name


class Constituent(NamedTuple):
    """A span of a binary tree: its labels from top to bottom, and its two parts or its word."""

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
    result = []
    places = [(0, widths[0])]
    for chain, left in zip(chains, splits, strict=True):
        start, end = places.pop()
        bottom = chain[-1]
        names = tuple((node.label, node.word is not None) for node in chain)
        if bottom.word is not None:
            result.append(Constituent(names, start, end, -1, None, bottom.word))
        else:
            parts = tuple((child.label, child.word is not None) for child in bottom.children)
            result.append(Constituent(names, start, end, start + left, (parts[0], parts[1]), None))
            places += [(start + left, end), (start, start + left)]
    return result


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

    def labels(self, tree: Tree) -> Int32 | None:
        """The labelling [N, 3] of a binary tree; None if the grammar lacks one of its rules.

        If a unary chain is not a step, another step between the same symbols is used instead, if there is one.
        """
        spans = constituents(tree)
        labels = np.full((span_number(0, spans[0].end) + spans[0].end, 3), -1, dtype=np.int32)
        above = (self.grammar.root,) if self.symbols[self.grammar.root] == ANY_ROOT else ()
        for c in spans:
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
        return labels if self._root_of(spans[0], labels) == self.grammar.root else None

    def _root_of(self, top: Constituent, labels: Int32) -> int:
        rule, _, step = labels[span_number(top.start, top.end)].tolist()
        if step >= 0:
            return int(self.grammar.steps[step, 0])
        return rule if top.word is not None else int(self.grammar.binary[rule, 0])

    def tree(self, words: Sequence[str], labels: npt.ArrayLike) -> Tree:
        """The binary tree of a labelling [N, 3] of the spans of one sentence."""
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
                    raise DataError(f"the labels are not a tree: words {i} to {j - 1} (from 0) have no split point")
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


# ----------------------------------------------------------------------------------------------------------------------
# The outcomes of symbols: what an edge of a chart, which is a symbol at a span, may expand to.
#
# An outcome is a binary rule, a step or, for a preterminal, its word. Outcomes are numbered symbol by symbol: those of
# symbol A are ``first[A]`` to ``first[A + 1]``.


class Outcomes:
    """The E = R + U + P outcomes of a grammar.

    Attributes
    ----------
    first : int64 [K + 1]
        Where the outcomes of each symbol begin.
    of_rule, of_step, of_tag : int64 [R], [U], [P]
        The outcome of each binary rule, each step and each preterminal's word.
    """

    def __init__(self, grammar: CFGGrammar) -> None:
        self.grammar = grammar
        parents = np.concatenate([grammar.binary[:, 0], grammar.steps[:, 0], grammar.preterminals]).astype(np.int64)
        order = np.argsort(parents, kind="stable")
        number = np.empty(len(parents), dtype=np.int64)
        number[order] = np.arange(len(parents))
        r, u = grammar.n_binary, grammar.n_steps
        self.of_rule, self.of_step, self.of_tag = number[:r], number[r : r + u], number[r + u :]
        self.first = np.searchsorted(parents[order], np.arange(grammar.n_symbols + 1)).astype(np.int64)
        self.symbol = parents[order].astype(np.int32)

    @property
    def n_outcomes(self) -> int:
        """E."""
        return len(self.symbol)

    def edges(self, labels: Int32, is_word: Bool) -> Edges:
        """The edges of trees given as a labelling [N, 3] of spans; ``is_word`` [N] marks spans of one word."""
        labelled, stepped = labels[:, 0] >= 0, labels[:, 2] >= 0
        rules, words, steps = (np.flatnonzero(mask) for mask in (labelled & ~is_word, labelled & is_word, stepped))
        spans = np.concatenate([rules, words, steps]).astype(np.int64)
        outcomes = np.concatenate(
            [self.of_rule[labels[rules, 0]], self.of_tag[labels[words, 0]], self.of_step[labels[steps, 2]]]
        ).astype(np.int32)
        return Edges(spans, self.symbol[outcomes], outcomes, np.ones(len(spans)))

    @cached_property
    def has_choice(self) -> Bool:
        """Whether a symbol has any outcome [K]."""
        return np.diff(self.first) > 0
