"""The words at the edges of the phrases that a PCFG makes: exact expectations of features of span boundaries.

    first(A, t)  = sum over A -> B C of p i_C first(B, t) + sum over A -> B of p first(B, t),        first(t, t) = 1

is the probability that A makes a tree that ends and begins with tag t, *last* the same at the other edge, and *alone*
that it makes one word of tag t, (I - U)^-1 of the unary rules. They are linear systems, since i is known
(:mod:`~loglinear.generative.pcfg_expectations`). The two parts of a rule are independent given the rule, so that

    E[A -> B C, first word w, last word v]                    = o_A p first(B, w) last(C, v)
    E[A -> B C, first word w, last word v, two words long]    = o_A p alone(B, w) alone(C, v)

where first(B, w) = sum over t of first(B, t) p(w given t). A feature that looks further into the span than its edges is
no product of this kind: draw trees (:mod:`~loglinear.generative.pcfg_draws`) and count.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_matrix, csr_matrix, identity
from scipy.sparse.linalg import splu

from loglinear.errors import DataError
from loglinear.generative.pcfg_expectations import Expectations

Float = npt.NDArray[np.float64]
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

    def _pairs(self, edge: str, symbols: npt.NDArray[np.int32], terminals: npt.NDArray[np.int64]) -> Float:
        """Probability [n] of a terminal [n] at an edge of a symbol's [n] tree."""
        table: Float = getattr(self, edge)
        lexicon = self.model.lexicon
        rows, places = lexicon.pairs(terminals.astype(np.int32))
        values = table[symbols[rows], lexicon.tags[places]] * lexicon.probabilities[places]
        result = np.zeros(len(terminals))
        np.add.at(result, rows, values)
        return result
