"""Decoding with a base that cannot be taken apart: a search that looks at whole labellings, without a guarantee.

    s(y) = the chain's score of y (weights, constraints) + log q0(x, y)

The best ``candidates`` labellings by the chain's score alone are ranked by s; from the best of them on, single labels
are changed, position by position, as long as that raises s. Where it ends, no single change of a label is better; a
labelling that differs in several may be. Each sweep asks the base T (Y - 1) times.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from loglinear.structures.chain import Chain, ChainScores

Int32 = npt.NDArray[np.int32]
MOST_SWEEPS = 20


def best_found(scores: ChainScores, log_prob: Callable[[Int32], float], candidates: int) -> Int32:
    """The best labelling [T] that the search finds for one sequence.

    ``scores`` are the chain's, with what is ruled out at -inf; ``log_prob`` gives log q0 of a labelling [T].
    """
    chain = Chain([0, len(scores.emission)])

    def total(labels: Int32) -> float:
        own = float(chain.score(scores, labels)[0])
        return own if own == -np.inf else own + log_prob(labels)

    ranked = chain.k_best(scores, candidates)[0][0]
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
