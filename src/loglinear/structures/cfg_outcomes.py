"""The outcomes of symbols, numbered: what an edge of a chart, a symbol over a span, may expand to.

An outcome is a binary rule, a step, or, for a preterminal, its word. They are numbered symbol by symbol, so that those
of symbol A are the run ``first[A]`` to ``first[A + 1]``.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from loglinear.structures.cfg_grammar import CFGGrammar
from loglinear.structures.cfg_pieces import Edges

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


class Outcomes:
    """The E = R + U + P outcomes of a grammar.

    Attributes
    ----------
    first : int64 [K + 1]
        Where the outcomes of each symbol begin.
    of_rule, of_step, of_tag : int64 [R], [U], [P]
        The outcome that a binary rule, a step or a preterminal's word is.
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

    def edges(self, labels: Int32, is_word: npt.NDArray[np.bool_]) -> Edges:
        """The edges of trees given as a labelling [N, 3] of spans, of which ``is_word`` [N] says which are one word."""
        there, stepped = labels[:, 0] >= 0, labels[:, 2] >= 0
        rules, words, steps = (np.flatnonzero(mask) for mask in (there & ~is_word, there & is_word, stepped))
        spans = np.concatenate([rules, words, steps]).astype(np.int64)
        outcomes = np.concatenate(
            [self.of_rule[labels[rules, 0]], self.of_tag[labels[words, 0]], self.of_step[labels[steps, 2]]]
        ).astype(np.int32)
        return Edges(spans, self.symbol[outcomes], outcomes, np.ones(len(spans)))

    @cached_property
    def has_choice(self) -> npt.NDArray[np.bool_]:
        """Whether a symbol has any outcome [K]."""
        return np.diff(self.first) > 0
