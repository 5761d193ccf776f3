r"""Given labellings: their scores, and their parts counted.

::

    score(y) = start(y_1) + sum_t s_t(y_t) + sum_{t>=2} (transition(y_{t-1}, y_t) + edge_t(y_{t-1}, y_t))
               + sum_{t>=3} trigram(y_{t-2}, y_{t-1}, y_t) + stop(y_T)

Arrays of length zero stand for absent parts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
Parts = tuple[Floats, Floats, Floats, Floats, Floats, Floats]


@kernel
def score(offsets: Offsets, parts: Parts, labels: Ints, scores: Floats) -> None:
    """Scores of the labellings ``labels`` [N] into ``scores`` [S], O(N)."""
    emission, transition, start, stop, edge, trigram = parts
    for i in range(offsets.shape[0] - 1):
        first, last = offsets[i], offsets[i + 1] - 1
        total = start[labels[first]] + stop[labels[last]]
        for t in range(first, last + 1):
            y = labels[t]
            total += emission[t, y]
            if t > first:
                total += transition[labels[t - 1], y]
                if edge.shape[0] > 0:
                    total += edge[t, labels[t - 1], y]
            if t > first + 1 and trigram.shape[0] > 0:
                total += trigram[labels[t - 2], labels[t - 1], y]
        scores[i] = total


@kernel
def add_labelling(offsets: Offsets, labels: Ints, weights: Floats, parts: Parts) -> None:
    """``parts`` += weight of the sequence for each part of its labelling ``labels`` [N], O(N)."""
    emission, transition, start, stop, edge, trigram = parts
    for i in range(offsets.shape[0] - 1):
        first, last, weight = offsets[i], offsets[i + 1] - 1, weights[i]
        start[labels[first]] += weight
        stop[labels[last]] += weight
        for t in range(first, last + 1):
            y = labels[t]
            emission[t, y] += weight
            if t > first:
                transition[labels[t - 1], y] += weight
                if edge.shape[0] > 0:
                    edge[t, labels[t - 1], y] += weight
            if t > first + 1 and trigram.shape[0] > 0:
                trigram[labels[t - 2], labels[t - 1], y] += weight
