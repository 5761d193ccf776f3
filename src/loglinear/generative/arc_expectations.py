"""Feature counts of trees, and their expectations under a head-outward model by drawing trees from it.

    E_q0[f]  ~  (1/s) sum over draws (x, y) of f(x, y)                  (Smith, Vail & Lafferty 2007, eq. 7)

smoothed as :class:`~loglinear.generative.sampled_expectations.Sampling` does. A drawn tree costs its n arcs, no chart.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from loglinear.features.arc_encoder import ArcEncoder
from loglinear.features.arc_vocabulary import Tokens
from loglinear.generative.head_outward import HeadOutwardModel
from loglinear.generative.sampled_expectations import DRAWS_AT_ONCE, STREAM, Sampling
from loglinear.threads import in_threads

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]


def tree_counts(encoder: ArcEncoder, tokens: Tokens, heads: Int32) -> csr_matrix:
    """Feature counts of each tree, a sparse matrix [S, D]."""
    pointer, ids = encoder.chosen(tokens, heads)
    shape = (len(tokens.offsets) - 1, encoder.n_features)
    matrix = csr_matrix((np.ones(len(ids)), ids, pointer[tokens.offsets]), shape=shape)
    matrix.sum_duplicates()
    return matrix


def drawn_counts(base: HeadOutwardModel, encoder: ArcEncoder, sampling: Sampling, n_threads: int = 1) -> Float:
    """Mean feature counts [D] of trees drawn from ``base``, in batches with a seed each."""
    _ = encoder.table  # made here, once, before threads ask for it
    base.sample(1, np.random.default_rng(0))

    def batch(number: int) -> Float:
        n = min(DRAWS_AT_ONCE, sampling.samples - number * DRAWS_AT_ONCE)
        words, tags, heads, offsets = base.sample(n, np.random.default_rng([sampling.seed, STREAM, number]))
        ids = encoder.chosen(encoder.vocabulary.drawn(words, tags, offsets), heads)[1]
        return np.bincount(ids, minlength=encoder.n_features).astype(np.float64)

    total, numbers = np.zeros(encoder.n_features), range(-(-sampling.samples // DRAWS_AT_ONCE))
    for begin in range(0, len(numbers), n_threads):
        for counts in in_threads(batch, numbers[begin : begin + n_threads], n_threads):
            total += counts
    return total / sampling.samples


def expected_counts(
    base: HeadOutwardModel, encoder: ArcEncoder, sampling: Sampling, observed: Float, n_threads: int = 1
) -> Float:
    """E_q0[f] [D], ``observed`` [D] being the mean counts of the training data."""
    return sampling.smoothed(drawn_counts(base, encoder, sampling, n_threads), observed)
