"""Expected counts in the trees of a PCFG (Smith, Vail & Lafferty 2007, section 4.1.2).

    i_A = sum over A -> B C of p i_B i_C + sum over A -> B of p i_B,       i_tag = 1         probability of an end
    o_A = [A is the root] + sum over rules with A among their children of  o_parent p i_sibling     expected occurrences

A grammar is *tight* if its trees end with probability one: if the spectral radius of the matrix M(A, B), the expected
number of B's among the children of an A, is at most one (Booth & Thompson 1973). Then i = 1 and the second system is
linear. Otherwise the first one is solved by Newton's iteration from 0, which ascends to its least solution (Etessami &
Yannakakis 2009; Stolcke 1995 iterates without derivatives). Expected counts are then those of trees that end, per tree
begun. Relative frequencies of a treebank are always tight (Chi & Geman 1998).

A *fragment* is a contiguous piece of a tree: a tuple of a label and its children, each a fragment or a word; one
without children may continue in any way:

    E[fragment] = o_top  product of its rules' probabilities  product of i at its open leaves

as in ``("NP", ("DT", "the"), ("NN",))``.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_matrix, csr_matrix, identity
from scipy.sparse.linalg import splu, spsolve

from loglinear.arrays import Float, Int32, Int64
from loglinear.errors import DataError
from loglinear.generative.pcfg.model import CERTAIN, PCFG, radius_of

Fragment = tuple[Any, ...]
MOST_ROUNDS = 200


class Expectations:
    """Expected counts in a tree of a PCFG.

    Parameters
    ----------
    model : PCFG

    Attributes
    ----------
    radius : float
        Spectral radius of M, of the symbols that the root leads to.
    tight : bool
        Whether trees end with probability one.
    """

    def __init__(self, model: PCFG) -> None:
        self.model = model
        self.radius = radius_of(self._reached(self._children(np.ones(model.n_symbols))))
        self.tight = self.radius <= 1.0 + CERTAIN

    def _children(self, inside: Float) -> csr_matrix:
        """M [K, K] with each child weighted by the probability that its sibling ends."""
        model, k = self.model, self.model.n_symbols
        parent, left, right = model.binary_rules.T
        a, b = model.unary_rules.T
        values = np.concatenate([model.binary * inside[right], model.binary * inside[left], model.unary])
        places = np.concatenate([parent, parent, a]), np.concatenate([left, right, b])
        return csr_matrix((values, places), shape=(k, k))

    def _reached(self, matrix: csr_matrix) -> csr_matrix:
        reached = np.zeros(self.model.n_symbols, dtype=bool)
        reached[self.model.root] = True
        while True:
            wider = reached | (matrix.T @ reached > 0)
            if (wider == reached).all():
                return matrix[reached][:, reached]
            reached = wider

    @cached_property
    def inside(self) -> Float:
        """i [K]: the probability that the tree below a symbol ends."""
        model = self.model
        if self.tight:
            return np.ones(model.n_symbols)
        parent, left, right = model.binary_rules.T
        a, b = model.unary_rules.T
        inside = np.zeros(model.n_symbols)
        inside[: model.n_tags] = 1.0
        for _ in range(MOST_ROUNDS):
            image = np.bincount(parent, model.binary * inside[left] * inside[right], minlength=model.n_symbols)
            image += np.bincount(a, model.unary * inside[b], minlength=model.n_symbols)
            image[: model.n_tags] = 1.0
            step = spsolve(csc_matrix(identity(model.n_symbols) - self._children(inside)), image - inside)
            inside = np.minimum(inside + np.maximum(step, 0.0), 1.0)
            if np.abs(step).max() < 1e-14:
                break
        return inside

    @cached_property
    def outside(self) -> Float:
        """o [K]: how often a symbol occurs in a tree that ends, apart from what is below it."""
        k = self.model.n_symbols
        begun = np.zeros(k)
        begun[self.model.root] = 1.0
        if self.radius >= 1.0 - CERTAIN and self.tight:
            raise DataError(f"the grammar's trees are infinitely large on average (spectral radius {self.radius:.9g})")
        found: Float = spsolve(csc_matrix(identity(k) - self._children(self.inside).T), begun)
        return np.atleast_1d(found)

    @cached_property
    def ends(self) -> float:
        """The probability that a tree ends."""
        return float(self.inside[self.model.root])

    @cached_property
    def binary(self) -> Float:
        """Expected uses [R] of the binary rules."""
        parent, left, right = self.model.binary_rules.T
        return self.outside[parent] * self.model.binary * self.inside[left] * self.inside[right]

    @cached_property
    def unary(self) -> Float:
        """Expected uses [M] of the unary rules."""
        a, b = self.model.unary_rules.T
        return self.outside[a] * self.model.unary * self.inside[b]

    @cached_property
    def steps(self) -> Float:
        """Expected uses [U] of the closure's steps A <- B, whole chains of unary rules from A down to B.

        A chain begins at an A that is not the child of a unary rule and ends at a B that is not expanded by one.
        """
        a, b = self.model.unary_rules.T
        bottoms = self.inside.copy()
        np.subtract.at(bottoms, a, self.model.unary * self.inside[b])
        return self.begun_steps * bottoms[self.model.closure.steps[:, 1]]

    @cached_property
    def begun_steps(self) -> Float:
        """The same [U], whatever is below B and whether it ends."""
        a, b = self.model.unary_rules.T
        tops = self.outside.copy()
        np.subtract.at(tops, b, self.outside[a] * self.model.unary)
        return tops[self.model.closure.steps[:, 0]] * np.exp(self.model.closure.log_total)

    @cached_property
    def lexical(self) -> Float:
        """Expected uses [E] of the lexicon's pairs of terminal and tag."""
        lexicon = self.model.lexicon
        return self.outside[lexicon.tags] * lexicon.probabilities

    @cached_property
    def length(self) -> float:
        """Expected number of words."""
        return float(self.outside[: self.model.n_tags].sum())

    def fragment(self, fragment: Fragment) -> float:
        """Expected count of a contiguous fragment; 0 if one of its rules is not in the grammar."""
        top = self._symbol(fragment)
        total = 1.0 if top is None else float(self.outside[top])
        stack = [fragment]
        while stack and top is not None and total > 0.0:
            node = stack.pop()
            total *= self._probability(node)
            stack.extend(child for child in node[1:] if isinstance(child, tuple))
        return total if top is not None else 0.0

    def _symbol(self, fragment: Fragment) -> int | None:
        if not fragment or not isinstance(fragment[0], str):
            raise DataError(f"a fragment is a tuple that begins with a label, not {fragment!r:.80}")
        number = self.model.coder.number
        if len(fragment) == 2 and isinstance(fragment[1], str):
            return number.get((fragment[0], True))
        phrase = number.get((fragment[0], False))
        return number.get((fragment[0], True)) if phrase is None and len(fragment) == 1 else phrase

    def _probability(self, node: Fragment) -> float:
        """Probability of a node's rule, or of ending if it is open."""
        model = self.model
        symbol, children = self._symbol(node), node[1:]
        if symbol is None:
            return 0.0
        if not children:
            return float(self.inside[symbol])
        if isinstance(children[0], str):
            x = model.lexicon.terminals.index(children[0]) if children[0] in model.lexicon.terminals else -1
            own = slice(*model.lexicon.pointer[x : x + 2]) if x >= 0 else slice(0, 0)
            return float(model.lexicon.probabilities[own][model.lexicon.tags[own] == symbol].sum())
        below = [self._symbol(child) for child in children]
        if len(children) > 2:
            raise DataError(f"({node[0]} ...) has {len(children)} children; fragments are binary, as the grammar is")
        known = [child for child in below if child is not None]
        if len(known) < len(below):
            return 0.0
        if len(children) == 1:
            return float(model.unary[(model.unary_rules == [symbol, *known]).all(axis=1)].sum())
        r = model.grammar.number_of_binary([[symbol, *known]])[0]
        return float(model.binary[r]) if r >= 0 else 0.0


# ----------------------------------------------------------------------------------------------------------------------
# The words at the edges of a PCFG's phrases: exact expectations of features of span boundaries.
#
#     first(A, t)  = sum over A -> B C of p i_C first(B, t) + sum over A -> B of p first(B, t),        first(t, t) = 1
#
# is the probability that the tree of A ends and begins with tag t, *last* the same at the other edge, and *alone* that
# it is one word of tag t, (I - U)^-1 of the unary rules. They are linear systems, since i is known
# (:mod:`~loglinear.generative.pcfg.expectations`). The two parts of a rule are independent given the rule, so that
#
#     E[A -> B C, first word w, last word v]                    = o_A p first(B, w) last(C, v)
#     E[A -> B C, first word w, last word v, two words long]    = o_A p alone(B, w) alone(C, v)
#
# where first(B, w) = sum over t of first(B, t) p(w given t). A chain of unary rules from A down to B is expected
#
#     tops_A total(A, B) (sum over B -> C D of p first(C, w) i_D,  or  p(w given B) if B is a tag)
#
# times with a first word w. A feature that looks further into the span than its edges, or beyond it, is not such a
# product: draw trees (:mod:`~loglinear.generative.pcfg.model`) and count.

EDGES = ("first", "last", "alone")


class Boundaries:
    """Distributions of the tags and words at the edges of phrases.

    Parameters
    ----------
    expectations : Expectations
        Of the PCFG.
    """

    def __init__(self, expectations: Expectations) -> None:
        self.expectations = expectations
        self.model = expectations.model

    def _solved(self, edge: str) -> Float:
        """[K, P]: (I - M)^-1 of the moves from a symbol to the child at an edge, its columns of tags."""
        model, k = self.model, self.model.n_symbols
        parent, left, right = model.binary_rules.T
        a, b = model.unary_rules.T
        child, sibling = (left, right) if edge == "first" else (right, left)
        shares = model.binary * self.expectations.inside[sibling] if edge != "alone" else np.zeros(len(parent))
        places = np.concatenate([parent, a]), np.concatenate([child, b])
        moves = csr_matrix((np.concatenate([shares, model.unary]), places), shape=(k, k))
        tags = np.zeros((k, model.n_tags))
        tags[: model.n_tags] = np.eye(model.n_tags)
        return np.asarray(splu(csc_matrix(identity(k) - moves)).solve(tags))

    @cached_property
    def first(self) -> Float:
        """Probability [K, P] that a symbol's tree ends and begins with a tag."""
        return self._solved("first")

    @cached_property
    def last(self) -> Float:
        """Probability [K, P] that a symbol's tree ends, its last tag being one."""
        return self._solved("last")

    @cached_property
    def alone(self) -> Float:
        """Probability [K, P] that a symbol's tree is one word of a tag."""
        return self._solved("alone")

    @cached_property
    def _words(self) -> csr_matrix:
        """p(terminal given tag) [P, V]."""
        lexicon = self.model.lexicon
        columns = np.repeat(np.arange(len(lexicon.terminals)), np.diff(lexicon.pointer))
        shape = (lexicon.n_tags, len(lexicon.terminals))
        return csr_matrix((lexicon.probabilities, (lexicon.tags, columns)), shape=shape)

    def words(self, edge: str, terminals: npt.ArrayLike) -> Float:
        """Probability [K, n] that a symbol's tree has a terminal [n] at an edge: first, last, or alone."""
        if edge not in EDGES:
            raise DataError(f"edge={edge!r} is not one of {', '.join(EDGES)}")
        table: Float = getattr(self, edge)
        return np.asarray((self._words[:, np.asarray(terminals)].T @ table.T).T)

    def expected_at_edges(
        self, rules: npt.ArrayLike, first: npt.ArrayLike | None = None, last: npt.ArrayLike | None = None
    ) -> tuple[Float, Float]:
        """Expected uses [n] of binary rules [n] over spans with given words at their edges.

        Parameters
        ----------
        rules : int [n]
            Numbers of binary rules.
        first, last : int [n], optional
            The terminals at the edges; not given: any.

        Returns
        -------
        all_lengths, two_words : float64 [n]
            Over spans of any length, and over those of two words.
        """
        model, inside = self.model, self.expectations.inside
        numbers = np.asarray(rules, dtype=np.int64)
        parent, left, right = model.binary_rules[numbers].T
        begun = self.expectations.outside[parent] * model.binary[numbers]
        found = []
        for edges in (("first", "last"), ("alone", "alone")):
            value = begun.copy()
            for child, edge, terminals in ((left, edges[0], first), (right, edges[1], last)):
                if terminals is not None:
                    value *= self._pairs(edge, child, np.asarray(terminals, dtype=np.int64))
                else:
                    value *= inside[child] if edge != "alone" else self.alone.sum(axis=1)[child]
            found.append(value)
        return found[0], found[1]

    # -- values of words: of rules, steps and tags with one word at an edge of their span ------------------------------

    def of_values(self, value_of: npt.ArrayLike, n_values: int) -> csr_matrix:
        """p(value given tag) [V, P], where each terminal has the value ``value_of`` [terminals] of V = ``n_values``."""
        lexicon = self.model.lexicon
        rows = np.repeat(np.asarray(value_of), np.diff(lexicon.pointer))
        table = csr_matrix((lexicon.probabilities, (rows, lexicon.tags)), shape=(n_values, lexicon.n_tags))
        table.sum_duplicates()
        return table

    def expected_with_value(
        self, kind: str, numbers: Int64, edge: str, length: int, words: csr_matrix, values: Int64
    ) -> Float:
        """Expected uses [n] of rules, steps or tags over spans with a given value at one edge.

        Parameters
        ----------
        kind : {"rule", "step", "tag"}
        numbers : int [n]
            Which ones.
        edge : {"first", "last"}
        length : {0, 1, 2}
            Over spans of that many words; 0 is any number.
        words : csr_matrix [V, P]
            p(value given tag), of :meth:`of_values`.
        values : int [n]
        """
        model, expected = self.model, self.expectations
        if kind == "rule":
            _, left, right = model.binary_rules[numbers].T
            child, sibling = (left, right) if edge == "first" else (right, left)
            begun = expected.outside[model.binary_rules[numbers, 0]] * model.binary[numbers]
            if length == 1:
                return np.zeros(len(numbers))
            table, ends = (getattr(self, edge), expected.inside) if length == 0 else (self.alone, self._single)
            return begun * ends[sibling] * _at_values(table, child, words, values)
        if kind == "step":
            below = model.closure.steps[numbers, 1]
            return expected.begun_steps[numbers] * _at_values(self._unchained(edge, length), below, words, values)
        if length == 2:
            return np.zeros(len(numbers))
        return expected.outside[numbers] * _at_values(np.eye(model.n_tags), numbers, words, values)

    @cached_property
    def _single(self) -> Float:
        """Probability [K] that a symbol's tree is one word."""
        return self.alone.sum(axis=1)

    def _unchained(self, edge: str, length: int) -> Float:
        """Probability [K, P] that a symbol is not expanded by a unary rule, ends, and has a tag at an edge.

        Of trees of ``length`` words; 0 is any number.
        """
        model, inside = self.model, self.expectations.inside
        parent, left, right = model.binary_rules.T
        child, sibling = (left, right) if edge == "first" else (right, left)
        result = np.zeros((model.n_symbols, model.n_tags))
        if length != 1:
            table, ends = (getattr(self, edge), inside) if length == 0 else (self.alone, self._single)
            places = parent, np.arange(len(parent))
            sums = csr_matrix((model.binary * ends[sibling], places), shape=(model.n_symbols, len(parent)))
            result = np.asarray(sums @ table[child])
        if length != 2:
            result[: model.n_tags] += np.eye(model.n_tags)
        return result

    def _pairs(self, edge: str, symbols: Int32, terminals: Int64) -> Float:
        """Probability [n] of a terminal [n] at an edge of a symbol's [n] tree."""
        table: Float = getattr(self, edge)
        lexicon = self.model.lexicon
        rows, places = lexicon.pairs(terminals.astype(np.int32))
        values = table[symbols[rows], lexicon.tags[places]] * lexicon.probabilities[places]
        result = np.zeros(len(terminals))
        np.add.at(result, rows, values)
        return result


def _at_values(table: Float, symbols: npt.NDArray[np.integer[Any]], words: csr_matrix, values: Int64) -> Float:
    """sum over tags t of table[symbol, t] p(value given t), for symbols [n] and values [n]; table [K, P]."""
    sizes = np.diff(words.indptr)[values]
    rows = np.repeat(np.arange(len(values)), sizes)
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    places = words.indptr[values][rows] + within
    shares: Float = table[symbols[rows], words.indices[places]] * words.data[places]
    return np.bincount(rows, shares, minlength=len(values)).astype(np.float64)
