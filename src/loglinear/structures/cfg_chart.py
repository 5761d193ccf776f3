"""The best score of every symbol over every span: what a parser finds on its way, good or bad.

    chart0[i, j, A] = max over k and A -> B C of  binary(A -> B C at (i, j)) + chart[i, k, B] + chart[k, j, C]
    chart [i, j, A] = max of chart0[i, j, A] and, over steps A <- B, step(A <- B at (i, j)) + chart0[i, j, B]

It is for learning from edges that should not be there; best trees are found quicker elsewhere
(:mod:`~loglinear.structures.cfg_viterbi`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel
from loglinear.structures.cfg_grammar import CFGGrammar, Rules
from loglinear.structures.cfg_tree import CFGScores

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]


@kernel
def _fill_chart(
    n: int,
    rules: Rules,
    first_span: int,
    first_word: int,
    lexical: Float,
    binary: Float,
    steps: Float,
    row_of_span: Int32,
    chart: Float,
) -> None:
    """Fill ``chart`` [spans, K], -inf at first, of one sentence of ``n`` words."""
    left_pointer, parent, right, child_pointer, step_parent, _, preterminals = rules
    n_symbols = chart.shape[1]
    active = np.empty((chart.shape[0], n_symbols), dtype=np.int32)
    n_active = np.zeros(chart.shape[0], dtype=np.int64)
    bottom = np.empty(n_symbols)
    for j in range(1, n + 1):
        for i in range(j - 1, -1, -1):
            span = j * (j - 1) // 2 + i
            here, row = chart[span], row_of_span[first_span + span]
            if j - i == 1:
                for p in range(preterminals.shape[0]):
                    here[preterminals[p]] = lexical[first_word + i, p]
            for k in range(i + 1, j):
                one, other = k * (k - 1) // 2 + i, j * (j - 1) // 2 + k
                before, after = chart[one], chart[other]
                for a in range(n_active[one]):
                    left = active[one, a]
                    for r in range(left_pointer[left], left_pointer[left + 1]):
                        value = before[left] + after[right[r]] + binary[row, r]
                        if value > here[parent[r]]:
                            here[parent[r]] = value
            for a in range(n_symbols):
                bottom[a] = here[a]
            for a in range(n_symbols):
                if bottom[a] > -np.inf:
                    for u in range(child_pointer[a], child_pointer[a + 1]):
                        value = bottom[a] + steps[row, u]
                        if value > here[step_parent[u]]:
                            here[step_parent[u]] = value
            for a in range(n_symbols):
                if here[a] > -np.inf:
                    active[span, n_active[span]] = a
                    n_active[span] += 1


def best_chart(grammar: CFGGrammar, length: int, scores: CFGScores) -> Float:
    """The chart [N, K] of one sentence of ``length`` words, -inf where a symbol is not possible."""
    chart = np.full((length * (length + 1) // 2, grammar.n_symbols), -np.inf)
    _fill_chart(
        length, grammar.rules, 0, 0, np.ascontiguousarray(scores.lexical), np.ascontiguousarray(scores.binary),
        np.ascontiguousarray(scores.steps), scores.row_of_span, chart,
    )  # fmt: skip
    return chart
