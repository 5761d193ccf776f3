"""The labelled brackets of constituency trees: which ones the gold trees have, and how many the model expects.

A *bracket* (X, i, j) is a phrase labelled X over the words i .. j-1. Binary rules and steps make them: a rule those of
its parent, a step those of its symbols above the child; nodes that only binarise a rule make none, nor do parts of
speech. Labels are those of the treebank, without a grammar's annotations. A tree is the set of its brackets here, as it
is where X over X has been collapsed; the expected number of a bracket is then its probability,

    p(X, i, j) = sum over rules labelled X of E[rule at (i, j)]  +  sum over steps u of  n_u(X) E[u at (i, j)]

with n_u(X) the number of times that step u makes X. What a criterion counts by brackets is a sum over parts, given a
value for each bracket, so that its gradient is the covariance of parts and cost that trees have.

Letters: N spans, R rules, U steps, L labels, G spans of gold constituents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Bool, Float, Int32, Int64
from loglinear.structures.gold import Gold
from loglinear.structures.tree.structure import CFGScores, CFGTree


class GoldBrackets(NamedTuple):
    """The brackets of gold trees, in rows: row 0 for all spans without a constituent, then one for each with one.

    Attributes
    ----------
    row_of_span : int32 [N]
    is_gold : bool [G + 1, L]
    sentence : int64 [G + 1]
        That of each row; row 0 has none, and says 0.
    """

    row_of_span: Int32
    is_gold: Bool
    sentence: Int64


class Brackets:
    """Which brackets the parts of trees under a grammar make.

    Parameters
    ----------
    rule_labels : int [R]
        The label of each binary rule's bracket, -1 if it has none.
    step_labels : list of list of int
        The labels of the brackets of each of the U steps.
    n_tags : int
        P.
    """

    def __init__(self, rule_labels: npt.ArrayLike, step_labels: Sequence[Sequence[int]], n_tags: int) -> None:
        self.step_labels, self._n_tags = [list(labels) for labels in step_labels], n_tags
        self.rule_labels = np.asarray(rule_labels, dtype=np.int64)
        pairs = [(u, label) for u, labels in enumerate(self.step_labels) for label in labels]
        self._steps, self._step_labels = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        self.n_labels = int(max(self.rule_labels.max(initial=-1), self._step_labels.max(initial=-1))) + 1  #: L

    def of_gold(self, gold: Gold, offsets: Int64) -> GoldBrackets:
        """The brackets of the gold trees."""
        labels, is_word = gold.labels, _is_word(offsets)
        spans = np.flatnonzero((labels[:, 0] >= 0) | (labels[:, 2] >= 0))
        row_of_span = np.zeros(len(labels), dtype=np.int32)
        row_of_span[spans] = np.arange(1, len(spans) + 1)
        rules, steps = np.where(is_word[spans], -1, labels[spans, 0]), labels[spans, 2]
        made = np.zeros((len(spans) + 1, self.n_labels + 1), dtype=bool)  # the last column: rules that make none
        by_rule = np.flatnonzero(rules >= 0)
        made[by_rule + 1, self.rule_labels[rules[by_rule]]] = True
        by_step = np.flatnonzero(steps >= 0)
        of_step = np.zeros((len(self.step_labels), self.n_labels), dtype=bool)
        of_step[self._steps, self._step_labels] = True
        made[by_step + 1, :-1] |= of_step[steps[by_step]]
        sentence = np.searchsorted(offsets, np.concatenate([[0], spans]), side="right") - 1
        return GoldBrackets(row_of_span, np.ascontiguousarray(made[:, :-1]), sentence)

    def parts(self, values: Float, row_of_span: Int32, offsets: Int64) -> CFGScores:
        """The sum of the ``values`` [G + 1, L] of brackets as numbers for parts."""
        wide = np.concatenate([values, np.zeros((len(values), 1))], axis=1)
        steps = np.zeros((len(self.step_labels), len(values)))
        np.add.at(steps, self._steps, values.T[self._step_labels])
        lexical = np.zeros((int(_is_word(offsets).sum()), self._n_tags))
        return CFGScores(lexical, wide[:, self.rule_labels], np.ascontiguousarray(steps.T), row_of_span)

    def expected(self, structure: CFGTree, scores: CFGScores, gold: GoldBrackets, weights: Float) -> Float:
        """Expected numbers of brackets [G + 1, L], each sentence's times its weight [S]; row 0: of all other spans."""
        nothing = self.parts(np.zeros(gold.is_gold.shape), gold.row_of_span, structure.offsets)
        apart = scores.with_costs(nothing)  # in rows that no gold span shares with another
        found = structure.expectations(apart, weights)[1]
        rows = np.zeros(len(apart.binary), dtype=np.int64)
        rows[apart.row_of_span] = gold.row_of_span
        by_row, others = self._by_label(found), rows == 0
        expected = np.zeros((len(gold.is_gold), self.n_labels))
        expected[rows[~others]] = by_row[~others]
        expected[0] = by_row[others].sum(axis=0)
        return expected

    def _by_label(self, parts: CFGScores) -> Float:
        """Sums [X, L] of the numbers of rules and steps, by the brackets that they make."""
        sums = np.zeros((self.n_labels + 1, len(parts.binary)))
        np.add.at(sums, self.rule_labels, parts.binary.T)
        np.add.at(sums, self._step_labels, parts.steps.T[self._steps])
        return sums[:-1].T


def _is_word(offsets: Int64) -> Bool:
    """Whether each span [N] is a word, given where the sentences' spans begin [S + 1]."""
    is_word = np.zeros(int(offsets[-1]), dtype=bool)
    for first, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        n = int((np.sqrt(8 * (end - first) + 1) - 1) / 2 + 0.5)
        ends = np.arange(1, n + 1)
        is_word[first + ends * (ends + 1) // 2 - 1] = True
    return is_word
