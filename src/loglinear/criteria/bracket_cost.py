"""The cost of trees: one for each labelled bracket that the gold tree does not have.

    c(y) = sum over phrases (A, i, j) of y of  m [ (A, i, j) is no bracket of the gold tree ]

Labels are compared without the notes that a grammar added to them, and the nodes that only binarise rules cost nothing.
A bracket over one word, made by a unary step, counts too; a part of speech does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from loglinear.structures.cfg_tree import CFGScores
from loglinear.structures.gold import Gold

Int64 = npt.NDArray[np.int64]


class BracketCost:
    """The cost of parts of trees under a grammar.

    Parameters
    ----------
    rule_labels : int [R]
        The label of each binary rule's bracket, -1 if it is none.
    step_labels : list of list of int
        The labels of the brackets of each of the U steps.
    n_tags : int
        P.
    multiplier : float
        m.
    """

    def __init__(
        self, rule_labels: npt.ArrayLike, step_labels: Sequence[Sequence[int]], n_tags: int, multiplier: float = 1.0
    ) -> None:
        self._rules = np.asarray(rule_labels, dtype=np.int64)
        self._steps, self._n_tags, self.multiplier = [list(labels) for labels in step_labels], n_tags, multiplier
        n_labels = max([int(self._rules.max(initial=-1)), *(max(labels, default=-1) for labels in self._steps)]) + 1
        self._step_counts = np.zeros((len(self._steps), n_labels))
        for u, labels in enumerate(self._steps):
            for label in labels:
                self._step_counts[u, label] += 1.0

    def at(self, gold: Gold, offsets: Int64) -> CFGScores:
        """Cost of each part, given the gold trees; spans that have no gold bracket share a row."""
        labels = gold.labels
        n_labels = self._step_counts.shape[1]
        there = np.flatnonzero((labels[:, 0] >= 0) | (labels[:, 2] >= 0))
        row_of_span = np.zeros(len(labels), dtype=np.int32)
        row_of_span[there] = np.arange(1, len(there) + 1)
        wrong = np.ones((len(there) + 1, n_labels + 1))  # the last is of what is no bracket
        wrong[:, -1] = 0.0
        is_word = np.zeros(len(labels), dtype=bool)
        n_words = 0
        for first, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            n = int((np.sqrt(8 * (end - first) + 1) - 1) / 2 + 0.5)
            ends = np.arange(1, n + 1)
            is_word[first + ends * (ends + 1) // 2 - 1] = True
            n_words += n
        for row, span in enumerate(there.tolist(), 1):
            rule, _, step = labels[span].tolist()
            if rule >= 0 and not is_word[span]:
                wrong[row, self._rules[rule]] = 0.0
            if step >= 0:
                wrong[row, self._steps[step]] = 0.0
        return CFGScores(
            np.zeros((n_words, self._n_tags)),
            self.multiplier * wrong[:, self._rules],
            self.multiplier * (wrong[:, :-1] @ self._step_counts.T),
            row_of_span,
        )
