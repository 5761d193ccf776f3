"""Decoding with a base that cannot be taken apart: a search that looks at whole labellings, without a guarantee.

    s(y) = the chain's score of y (weights, constraints) + log q0(x, y)

Where a search may go wrong it looks from three sides, K = ``candidates`` being its width:

1. from left to right, the K best labellings of x_1 ... x_t by s are kept and carried on to t + 1: the base is asked
   about beginnings of the sequence, T Y K times;
2. the K best labellings by the chain's score alone are ranked by s;
3. from the best of all these on, single labels are changed, position by position, as long as that raises s.

Where it ends, no single change of a label is better; a labelling that differs in several may be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from loglinear.structures.chain import Chain, ChainScores

Int32 = npt.NDArray[np.int32]
LogProb = Callable[[Int32], float]
MOST_SWEEPS = 20


def best_found(scores: ChainScores, log_prob: LogProb, candidates: int) -> Int32:
    """The best labelling [T] that the search finds for one sequence.

    ``scores`` are the chain's, with what is ruled out at -inf; ``log_prob`` gives log q0 of a labelling, also of one
    [t] of the first t positions alone.
    """
    chain = Chain([0, len(scores.emission)])

    def total(labels: Int32) -> float:
        own = float(chain.score(scores, labels)[0])
        return own if own == -np.inf else own + log_prob(labels)

    ranked = [*_from_left_to_right(scores, log_prob, candidates), *chain.k_best(scores, candidates)[0][0]]
    values = [total(labels) for labels in ranked]
    best, value = ranked[int(np.argmax(values))].copy(), max(values)
    for _ in range(MOST_SWEEPS):
        before = value
        for t in range(len(best)):
            for y in np.flatnonzero(scores.emission[t] > -np.inf).tolist():
                changed = best.copy()
                changed[t] = y
                if y != best[t] and (other := total(changed)) > value:
                    best, value = changed, other
        if value == before:
            break
    return best


def _from_left_to_right(scores: ChainScores, log_prob: LogProb, width: int) -> list[Int32]:
    """The best labellings [T] of a beam search; none if it comes to where no label is possible."""
    n, y = scores.emission.shape
    kept = [np.zeros(0, dtype=np.int32)]
    for t in range(1, n + 1):
        beginning = replace(
            scores,
            emission=np.ascontiguousarray(scores.emission[:t]),
            stop=scores.stop if t == n else np.zeros(y),
            edge=None if scores.edge is None else np.ascontiguousarray(scores.edge[:t]),
        )
        longer = [np.append(labels, np.int32(label)) for labels in kept for label in range(y)]
        chain = Chain([0, t])
        own = np.array([chain.score(beginning, labels)[0] for labels in longer])
        possible = np.flatnonzero(own > -np.inf).tolist()
        full = [own[i] + log_prob(longer[i]) for i in possible]
        order = sorted(range(len(possible)), key=lambda i: (-full[i], -own[possible[i]]))
        kept = [longer[possible[i]] for i in order[:width]]
    return kept
