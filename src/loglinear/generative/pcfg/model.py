"""Probabilistic context-free grammars: a tree is a product of its rules' probabilities.

    p(tree, words) = product over its nodes of  p(B C given A),  p(B given A)  or  p(word given tag)

The probabilities of a phrase's binary and unary rules add up to one, and so do those of a tag's words
(:mod:`~loglinear.generative.pcfg.lexicon`). Chains of unary rules become steps
(:class:`UnaryClosure`), so that the trees of a sentence are those of
:class:`~loglinear.structures.tree.structure.CFGTree` with the part scores

    lexical = log p(word given tag)    binary = log p(B C given A)    steps = log of the best chain, or of all together

Letters: K symbols, P tags, R binary rules, M unary rules, U steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components, dijkstra

from loglinear.arrays import Array, Float, Int32, Int64
from loglinear.data.trees.transforms import base_label
from loglinear.data.trees.tree import Tree
from loglinear.errors import DataError, OptionError
from loglinear.generative.pcfg.lexicon import Lexicon
from loglinear.kernels import kernel
from loglinear.model_file import Reader
from loglinear.structures.tree.grammar import ANY_ROOT, CFGGrammar, TreeCoder, constituents
from loglinear.structures.tree.prior import ContextPrior
from loglinear.structures.tree.structure import CFGScores, CFGTree
from loglinear.system import in_threads

Sentences = Sequence[Sequence[str]]
SENTENCES_AT_ONCE = 16
ROUNDING = 1e-9  # by which a probability in a file may be above one


@dataclass(frozen=True)
class PCFG:
    """A grammar with probabilities.

    Parameters
    ----------
    symbols : list of str
        K names, tags first.
    root : int
        The symbol of whole sentences.
    binary_rules : int32 [R, 3]
        Parent, left and right child, sorted by left child, right child and parent.
    binary : float64 [R]
        Their probabilities given the parent.
    unary_rules : int32 [M, 2]
        Parent and child.
    unary : float64 [M]
        Their probabilities given the parent.
    lexicon : Lexicon
        Of the P tags.
    prior : ContextPrior, optional
        For a search with a beam; without it, searches are exact.
    """

    symbols: list[str] = field(repr=False)
    root: int
    binary_rules: Int32 = field(repr=False)
    binary: Float = field(repr=False)
    unary_rules: Int32 = field(repr=False)
    unary: Float = field(repr=False)
    lexicon: Lexicon
    prior: ContextPrior | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        grammar = CFGGrammar(len(self.symbols), self.root, np.arange(self.n_tags), self.binary_rules)
        if (grammar.binary != self.binary_rules).any():
            raise DataError("the binary rules must be sorted by left child, right child and parent")

    @property
    def n_symbols(self) -> int:
        """K."""
        return len(self.symbols)

    @property
    def n_tags(self) -> int:
        """P."""
        return self.lexicon.n_tags

    @property
    def parameters(self) -> Float:
        """Probabilities of binary and unary rules, and log p(word given tag), as a vector [P]."""
        return np.concatenate([self.binary, self.unary, self.lexicon.log_p])

    def with_parameters(self, parameters: Float) -> PCFG:
        """The same grammar with other parameters [P], without a prior."""
        ends = [len(self.binary), len(self.binary) + len(self.unary)]
        binary, unary, log_p = np.split(np.array(parameters), ends)
        return replace(self, binary=binary, unary=unary, lexicon=replace(self.lexicon, log_p=log_p), prior=None)

    @cached_property
    def closure(self) -> UnaryClosure:
        """The chains of unary rules."""
        return UnaryClosure(self.n_symbols, self.unary_rules, self.unary)

    @cached_property
    def coder(self) -> TreeCoder:
        """From trees to labellings and back."""
        steps, tags = self.closure.steps, np.arange(self.n_tags)
        grammar = CFGGrammar(self.n_symbols, self.root, tags, self.binary_rules, steps)
        return TreeCoder(self.symbols, self.n_tags, grammar, self.closure.chains)

    @property
    def grammar(self) -> CFGGrammar:
        """The rules, and the steps that represent chains of unary rules."""
        return self.coder.grammar

    # -- sentences ---------------------------------------------------------------------------------------------------

    def structure(self, sentences: Sentences) -> CFGTree:
        """The shape of sentences."""
        return CFGTree(self.grammar, [len(words) for words in sentences])

    def scores(self, sentences: Sentences, sums: bool = False) -> CFGScores:
        """Log-probabilities as part scores: for the best trees, or with ``sums`` for sums over trees."""
        terminals = [self.lexicon.terminal_of(words) for words in sentences]
        return self.terminal_scores(terminals, sums)

    def sum_scores(self, sentences: Sentences) -> CFGScores:
        """The part scores for sums over trees."""
        return self.scores(sentences, sums=True)

    def terminal_scores(self, terminals: Sequence[Int32], sums: bool = False) -> CFGScores:
        """The same of sentences given as the numbers of their words in the lexicon."""
        n_spans = sum(len(words) * (len(words) + 1) // 2 for words in terminals)
        flat = np.concatenate([np.zeros(0, dtype=np.int32), *terminals])
        steps = self.closure.log_total if sums else self.closure.best
        return CFGScores(self.lexicon.scores(flat), self._log_binary, steps[None, :], np.zeros(n_spans, dtype=np.int32))

    @property
    def log_rules(self) -> tuple[Float, Float]:
        """Scores of the grammar's binary rules [R] and of its steps [U], the best chains."""
        return self._log_binary[0], self.closure.best

    @cached_property
    def _log_binary(self) -> Float:
        with np.errstate(divide="ignore"):
            return np.log(self.binary)[None, :]

    def log_probability(self, sentences: Sentences, n_threads: int = 1) -> Float:
        """log p(words) [S], the sum over all their trees; -inf for sentences without one."""
        assert self.grammar.n_symbols  # made once, before there are threads

        def of_block(first: int) -> Float:
            block = sentences[first : first + SENTENCES_AT_ONCE]
            return self.structure(block).log_partition(self.scores(block, sums=True))

        blocks = in_threads(of_block, range(0, len(sentences), SENTENCES_AT_ONCE), n_threads)
        return np.concatenate([np.zeros(0), *blocks])

    def tree(self, words: Sequence[str], labels: npt.ArrayLike) -> Tree:
        """The binary tree of a labelling [N, 3] of the spans of one sentence."""
        return self.coder.tree(words, labels)

    def best_tags(self, words: Sequence[str]) -> list[str]:
        """The most probable part of speech of each word by itself, without annotations."""
        joint = self.lexicon.scores(self.lexicon.terminal_of(words)) + self._log_tag_frequency
        commonest = int(np.argmax(self._log_tag_frequency))
        best = np.where(np.isneginf(joint).all(axis=1), commonest, np.argmax(joint, axis=1))
        return [base_label(self.symbols[t]) for t in best.tolist()]

    @cached_property
    def _log_tag_frequency(self) -> Float:
        from loglinear.generative.pcfg.expectations import Expectations

        with np.errstate(divide="ignore"):
            return np.log(np.maximum(Expectations(self).outside[: self.n_tags], 1e-300))

    def log_joint(self, tree: Tree) -> float:
        """log p(tree, words) of a binary tree, -inf if one of its rules is not in the grammar."""
        total, number = 0.0, self.coder.number
        found = constituents(tree)
        words = [c.word for c in sorted(found, key=lambda c: c.start) if c.word is not None]
        lexical = self.lexicon.scores(self.lexicon.terminal_of(words))
        above: tuple[int, ...] = (self.root,) if self.symbols[self.root] == ANY_ROOT else ()
        try:
            if not above and number[found[0].chain[0]] != self.root:
                return -np.inf
            for c in found:
                chain = above + tuple(number[name] for name in c.chain)
                above = ()
                total += sum(self._log_unary[pair] for pair in pairwise(chain))
                if c.parts is None:
                    total += float(lexical[c.start, chain[-1]])
                else:
                    r = self._rule_number[chain[-1], number[c.parts[0]], number[c.parts[1]]]
                    total += float(self._log_binary[0, r])
        except KeyError:
            return -np.inf
        return total

    @cached_property
    def _log_unary(self) -> dict[tuple[int, int], float]:
        pairs = zip(self.unary_rules.tolist(), self.unary.tolist(), strict=True)
        return {(a, b): float(np.log(p)) if p > 0.0 else -np.inf for (a, b), p in pairs}

    @cached_property
    def _rule_number(self) -> dict[tuple[int, int, int], int]:
        return {(a, b, c): r for r, (a, b, c) in enumerate(self.binary_rules.tolist())}

    # -- as data -----------------------------------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The grammar for a model file: a header of JSON, and arrays."""
        text = "\n".join([*self.symbols, *self.lexicon.terminals]).encode()
        header = {"n_symbols": self.n_symbols, "n_tags": self.n_tags, "root": self.root}
        return header, {
            "names": np.frombuffer(text, dtype=np.uint8),
            "binary_rules": self.binary_rules,
            "binary": self.binary,
            "unary_rules": self.unary_rules,
            "unary": self.unary,
            "lexicon_pointer": self.lexicon.pointer,
            "lexicon_tags": self.lexicon.tags,
            "lexicon_log_p": self.lexicon.log_p,
            **({} if self.prior is None else self.prior.to_arrays()),
        }

    @classmethod
    def from_storage(cls, read: Reader) -> PCFG:
        """The grammar that :meth:`to_arrays` described."""
        blob = read.array("names", (np.uint8,), (None,))
        with read.building("names"):
            names = bytes(blob).decode().split("\n")
        k = read.integer("n_symbols", 1, len(names))
        n_tags, root = read.integer("n_tags", 1, k), read.integer("root", 0, k - 1)
        read.room("n_symbols", grammar_room(n_tags, k, "prior_before" in read.arrays))
        of_words = read.lists("lexicon_pointer", "lexicon_tags", len(names) - k, n_tags)
        log_p = read.floats("lexicon_log_p", of_words[1].shape, high=ROUNDING)
        binary_rules, unary_rules = read.ints("binary_rules", (None, 3), k), read.ints("unary_rules", (None, 2), k)
        binary = read.floats("binary", (len(binary_rules),), 0.0, 1.0 + ROUNDING)
        unary = read.floats("unary", (len(unary_rules),), 0.0, 1.0 + ROUNDING)
        lexicon, prior = Lexicon(n_tags, names[k:], *of_words, log_p), ContextPrior.from_storage(read, n_tags, k)
        with read.building("binary_rules"):
            return cls(names[:k], root, binary_rules, binary, unary_rules, unary, lexicon, prior)


def grammar_room(n_tags: int, n_symbols: int, has_prior: bool) -> float:
    """Bytes that parsing takes: a row of symbols for each word of a long sentence, and what surrounds symbols."""
    return 8.0 * 100 * n_symbols + (24.0 * (n_tags + 1.0) * n_symbols if has_prior else 0.0)


def check_constant(name: str, value: float, least: float = 0.0) -> float:
    """Reject a smoothing constant that is not a finite number from ``least`` up."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < np.inf:
        raise OptionError(f"{name}={value!r} must be a finite number from {least:g} up")
    return float(value)


BaseOf = Callable[[str], str]


# ----------------------------------------------------------------------------------------------------------------------
# Chains of unary rules as single steps: the best chain for an argmax, all chains together for sums.
#
# With U [K, K] the probabilities of the unary rules A -> B,
#
#   best(A, B)  = max over chains A -> ... -> B of the product of their probabilities
#   total(A, B) = sum over chains                = (I - U)^-1 - I,     which is finite if U's spectral radius is below 1
#
# (Stolcke 1995, section 4.5). Where a step is used e(A, B) times on average, the rule C -> D in it is used
#
#     U(C, D)  sum over A, B of  N(A, C) e(A, B) / total(A, B) N(D, B)        times, N = (I - U)^-1.
#
# Only the m symbols that have unary rules are involved, so all matrices are [m, m] or [m, K].


CERTAIN = 1e-9  # a spectral radius closer to 1 than this is 1


def radius_of(matrix: csr_matrix) -> float:
    """Spectral radius of a non-negative square matrix: the greatest among its strongly connected parts."""
    n, part = connected_components(matrix, directed=True, connection="strong")
    sizes = np.bincount(part, minlength=n)
    greatest = float(matrix.diagonal()[sizes[part] == 1].max(initial=0.0))
    order = np.argsort(part, kind="stable")
    ends = np.cumsum(sizes)
    for c in np.flatnonzero(sizes > 1):
        members = order[ends[c] - sizes[c] : ends[c]]
        greatest = max(greatest, _radius_of_part(matrix[members][:, members]))
    return greatest


def _radius_of_part(matrix: csr_matrix) -> float:
    """The same for one strongly connected part: eigenvalues if it is small, else powers of I + A on a vector."""
    if matrix.shape[0] <= 300:
        return float(np.abs(np.linalg.eigvals(matrix.toarray())).max())
    vector, radius = np.full(matrix.shape[0], 1.0 / matrix.shape[0]), 0.0
    for _ in range(20_000):
        image = vector + matrix @ vector  # I + A has no second eigenvalue of the same size
        ratios = image / vector
        vector = image / image.sum()
        radius = float(ratios.max()) - 1.0
        if ratios.max() - ratios.min() < 1e-12:
            break
    return radius


class UnaryClosure:
    """The steps that a grammar's unary rules make possible.

    Parameters
    ----------
    n_symbols : int
        K.
    rules : int [M, 2]
        Parent and child of each unary rule.
    probabilities : float64 [M]

    Attributes
    ----------
    steps : int32 [U, 2]
        Parent and child, sorted by child as a grammar wants them.
    radius : float
        Spectral radius of the unary rules' matrix.
    """

    def __init__(self, n_symbols: int, rules: npt.ArrayLike, probabilities: npt.ArrayLike) -> None:
        self.n_symbols = n_symbols
        self.rules = np.asarray(rules, dtype=np.int32).reshape(-1, 2)
        self.probabilities = np.asarray(probabilities, dtype=np.float64).reshape(-1)
        kept = self.probabilities > 0.0
        graph = (self.probabilities[kept], (self.rules[kept, 0], self.rules[kept, 1]))
        self._matrix = csr_matrix(graph, shape=(n_symbols, n_symbols))
        self._movers = np.unique(self.rules[kept, 0]).astype(np.int64)
        inner = self._matrix[self._movers][:, self._movers]
        self.radius = radius_of(inner) if len(self._movers) else 0.0
        if self.radius >= 1.0 - CERTAIN:
            raise DataError(
                f"the unary rules lead back to where they began with certainty (spectral radius {self.radius:.6g}): "
                "remove unary cycles from the trees"
            )
        m = len(self._movers)
        self._within = np.linalg.inv(np.eye(m) - inner.toarray()) if m else np.zeros((0, 0))  # N [m, m]
        self._total = self._within @ self._matrix[self._movers].toarray() if m else np.zeros((0, n_symbols))
        self._find_chains()

    def _find_chains(self) -> None:
        """Steps, and the best chain of each, by shortest paths over -log p."""
        m, k = len(self._movers), self.n_symbols
        self.chains: list[tuple[int, ...]] = []
        self.steps = np.zeros((0, 2), dtype=np.int32)
        self.best = np.zeros(0)
        self._rows = np.zeros(0, dtype=np.int64)
        if not m:
            return
        lengths = self._matrix.copy()
        lengths.data = np.maximum(-np.log(lengths.data), 1e-15)  # an edge of length 0 would be missing
        distances, before = dijkstra(lengths, indices=self._movers, return_predecessors=True)
        reached = np.isfinite(distances)  # [m, K]; rounding of the inverse may say otherwise
        back = (self._matrix[self._movers][:, self._movers].toarray() > 0.0) & reached[:, self._movers].T
        reached[np.arange(m), self._movers] = back.any(axis=1)
        self._total[~reached] = 0.0
        rows, children = np.nonzero(reached)
        order = np.lexsort((rows, children))
        self._rows = rows[order].astype(np.int64)
        self.steps = np.stack([self._movers[rows[order]], children[order]], axis=1).astype(np.int32)
        values = []
        row_of = np.full(k, -1)
        row_of[self._movers] = np.arange(m)
        for row, (parent, child) in zip(self._rows.tolist(), self.steps.tolist(), strict=True):
            chain = self._path(before[row], parent, child) if parent != child else self._cycle(before, row_of, parent)
            self.chains.append(chain)
            value = sum(float(np.log(self._matrix[a, b])) for a, b in pairwise(chain))
            values.append(value if parent != child else -np.inf)
        self.best = np.array(values)

    @staticmethod
    def _path(before: Int32, parent: int, child: int) -> tuple[int, ...]:
        chain = [child]
        while chain[-1] != parent:
            chain.append(int(before[chain[-1]]))
        return tuple(reversed(chain))

    def _cycle(self, before: Int32, row_of: Int64, a: int) -> tuple[int, ...]:
        """The shortest way from a symbol back to itself that begins with one of its rules."""
        ways = []
        for b in self._matrix[a].indices.tolist():
            if b == a:
                return (a, a)
            if row_of[b] >= 0 and before[row_of[b], a] >= 0:
                ways.append((a, *self._path(before[row_of[b]], b, a)))
        return min(ways, key=len)

    @cached_property
    def log_total(self) -> Float:
        """log total(A, B) of each step [U]; -inf for one so improbable that its total is 0 as a number."""
        with np.errstate(divide="ignore"):
            return np.log(self._total[self._rows, self.steps[:, 1]])

    def expected_rules(self, expected_steps: npt.ArrayLike) -> Float:
        """Expected uses [M] of the unary rules, where steps are used ``expected_steps`` [U] times."""
        m, k = len(self._movers), self.n_symbols
        if not m:
            return np.zeros(len(self.rules))
        shares = np.zeros((m, k))
        total = np.exp(self.log_total)
        used = np.flatnonzero(total > 0.0)
        shares[self._rows[used], self.steps[used, 1]] = np.asarray(expected_steps)[used] / total[used]
        # N [K, K] is the identity except in the rows of movers: within, and total in the other columns
        to_child = shares.copy()  # D = B, for any symbol
        to_child[:, self._movers] = 0.0
        reach = self._total.copy()
        reach[np.arange(m), self._movers] += 1.0  # N(D, :) of the movers D
        through = np.zeros((m, k))
        through[:, self._movers] = shares @ reach.T
        sums = self._within.T @ (through + to_child)  # [C, D]
        row_of = np.full(k, -1)
        row_of[self._movers] = np.arange(m)
        known = row_of[self.rules[:, 0]] >= 0
        counts = np.zeros(len(self.rules))
        counts[known] = self.probabilities[known] * sums[row_of[self.rules[known, 0]], self.rules[known, 1]]
        return counts


# ----------------------------------------------------------------------------------------------------------------------
# Trees drawn from a PCFG, from the root down: for expectations of features other than contiguous fragments.

LARGEST = 1_000_000  # nodes of one tree
NO_RULE = -2


@kernel
def _draw(
    root: int, n_tags: int, pointer: Int64, cumulative: Float, children: Int32, uniform: Float, used: int,
    chosen: Int64, stack: Int32,
) -> int:  # fmt: skip
    """One derivation, a parent's choice before its children's: the number of choices, -1 if ``uniform`` ran out.

    :data:`NO_RULE` if a symbol was met that has no choice. Choices of symbol a are ``pointer[a]`` to
    ``pointer[a + 1] - 1``, with ``cumulative`` probabilities; those of tags are words, the others rules with
    ``children`` [choices, 2], the second -1 in unary ones.
    """
    stack[0] = root
    depth, n = 1, 0
    while depth > 0:
        depth -= 1
        a = stack[depth]
        if used + n >= uniform.shape[0] or depth + 2 >= stack.shape[0]:
            return -1
        first, end = pointer[a], pointer[a + 1]
        if first == end:
            return NO_RULE
        u = uniform[used + n] * cumulative[end - 1]
        place = first + np.searchsorted(cumulative[first:end], u, side="right")
        choice = min(place, end - 1)
        chosen[used + n] = choice
        n += 1
        if a >= n_tags:
            if children[choice, 1] >= 0:
                stack[depth] = children[choice, 1]
                depth += 1
            stack[depth] = children[choice, 0]
            depth += 1
    return n


def draw_trees(model: PCFG, n: int, rng: np.random.Generator) -> list[Tree]:
    """``n`` independent binary trees; a word may be the name of a class of unknown words."""
    if n < 0:
        raise OptionError(f"n = {n}: the number of draws cannot be negative")
    lexicon, k = model.lexicon, model.n_symbols
    terminals = np.repeat(np.arange(len(lexicon.terminals)), np.diff(lexicon.pointer))
    parents = np.concatenate([lexicon.tags, model.binary_rules[:, 0], model.unary_rules[:, 0]])
    none = np.full((len(model.unary_rules), 1), -1, dtype=np.int32)
    of_rules = np.concatenate([model.binary_rules[:, 1:], np.concatenate([model.unary_rules[:, 1:], none], axis=1)])
    of_words = np.stack([terminals, np.full(len(terminals), -1)], axis=1)
    children = np.concatenate([of_words, of_rules]).astype(np.int32)
    values = np.concatenate([lexicon.probabilities, model.binary, model.unary])
    order = np.argsort(parents, kind="stable")
    pointer = np.searchsorted(parents[order], np.arange(k + 1)).astype(np.int64)
    children, cumulative = np.ascontiguousarray(children[order]), np.cumsum(values[order])
    before = np.concatenate([[0.0], cumulative])[pointer[:-1]]
    cumulative = cumulative - before[parents[order]]
    size, used = 20_000, 0
    trees: list[Tree] = []
    uniform, chosen = rng.random(size), np.zeros(size, dtype=np.int64)
    while len(trees) < n:
        stack = np.zeros(size, dtype=np.int32)
        found = _draw(model.root, model.n_tags, pointer, cumulative, children, uniform, used, chosen, stack)
        if found == NO_RULE:
            raise DataError("a symbol without any rule or word was drawn: the grammar has no tree for it")
        if found >= 0:
            trees.append(_tree(model, children, chosen[used : used + found].tolist()))
            used += found
            continue
        if used == 0:
            size *= 2
            if size > LARGEST:
                raise DataError(f"a tree of more than {LARGEST // 2:,} nodes was drawn: the grammar may not be tight")
        uniform, used = np.concatenate([uniform[used:], rng.random(size - (len(uniform) - used))]), 0
        chosen = np.zeros(size, dtype=np.int64)
    return trees


def _tree(model: PCFG, children: Int32, chosen: list[int]) -> Tree:
    """The tree of a derivation."""
    symbols = [model.root]
    labels: list[int] = []
    for choice in chosen:  # which symbol each choice was made for
        a = symbols.pop()
        labels.append(a)
        if a >= model.n_tags:
            left, right = children[choice].tolist()
            symbols += [right, left] if right >= 0 else [left]
    built: list[Tree] = []
    for a, choice in zip(reversed(labels), reversed(chosen), strict=True):
        if a < model.n_tags:
            built.append(Tree(model.symbols[a], word=model.lexicon.terminals[children[choice, 0]]))
        elif children[choice, 1] >= 0:
            built.append(Tree(model.symbols[a], [built.pop(), built.pop()]))
        elif model.symbols[a] != ANY_ROOT:
            built.append(Tree(model.symbols[a], [built.pop()]))
    return built[0]
