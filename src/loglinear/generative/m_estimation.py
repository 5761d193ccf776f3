"""The M-estimator's objective over sentence-level feature counts: one sparse product an evaluation.

    F(w) = (1/n) sum_i c_i exp(-w . f_i)  +  w . E_q0[f]  +  l2 ||w||^2          f_i the feature counts of sentence i
    dF   = -(1/n) sum_i c_i exp(-w . f_i) f_i  +  E_q0[f]  +  2 l2 w

with weights c_i (1 unless given) that add up to n. The counts are collected once, S rows with about T times the number
of templates entries each; no pass needs a label again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loglinear.arrays import Float, Int32, Int64
from loglinear.errors import OptionError
from loglinear.features.block import FeatureBlock, Features
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.kernels import kernel
from loglinear.kernels.tables import Lists
from loglinear.structures.chain.features import ChainFeatures

if TYPE_CHECKING:  # imported where it is used: most taggers do without SciPy
    from scipy.sparse import csr_matrix

LOWEST = -1e4  # an objective below this is unbounded in practice: that of zero weights is 1


@kernel
def _fired(
    lists: Lists, features: Features, wanted: Int64, base: int, out: Int64, out_values: Float, ends: Int64
) -> int:
    """Features of each position's attributes whose code is the one ``wanted`` there [N]; -1 wants none.

    ``ends`` [N] is their number up to each position; with an empty ``out`` they are only counted.
    """
    pointer, ids, values = lists
    n, has_values = 0, values.shape[0] > 0
    for t in range(wanted.shape[0]):
        if wanted[t] >= 0:
            for j in range(pointer[t], pointer[t + 1]):
                for f in range(features.pointer[ids[j]], features.pointer[ids[j] + 1]):
                    if features.codes[f] == wanted[t]:
                        if out.shape[0]:
                            out[n] = base + f
                            out_values[n] = values[j] if has_values else 1.0
                        n += 1
                        break
        ends[t] = n
    return n


def sentence_counts(features: ChainFeatures, corpus: EncodedCorpus, labels: Int32) -> csr_matrix:
    """Feature counts of each labelled sentence, a sparse matrix [S, D]."""
    y, n = features.n_labels, len(labels)
    state, edge, *ngrams = features.slices
    sentence = np.repeat(np.arange(corpus.n_sequences), np.diff(corpus.offsets))
    within = np.arange(n) - corpus.offsets[sentence]
    wide = labels.astype(np.int64)
    pairs = np.where(within >= 1, np.roll(wide, 1) * y + wide, -1)
    triples = np.where(within >= 2, np.roll(wide, 2) * y * y + pairs, -1)
    fours = np.where(within >= 3, np.roll(wide, 3) * y**3 + triples, -1)
    parts = [_block_counts(features.state, corpus.state, wide, state.start, sentence)]
    if features.input_only:
        parts.append(_block_counts(features.state, corpus.state, np.full(n, y), state.start, sentence))
    if features.edge is not None and corpus.edge is not None:
        parts.append(_block_counts(features.edge, corpus.edge, pairs, edge.start, sentence))
    known = (features.transitions, features.trigrams, features.fourgrams)
    for codes, own, segment in zip(known, (pairs, triples, fours), ngrams, strict=True):
        place = np.minimum(np.searchsorted(codes, own), max(len(codes) - 1, 0))
        found = np.flatnonzero((own >= 0) & (codes[place] == own)) if len(codes) else np.zeros(0, dtype=np.int64)
        parts.append((sentence[found], segment.start + place[found], np.ones(len(found))))
    rows, columns, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    from scipy.sparse import csr_matrix

    matrix = csr_matrix((values, (rows, columns)), shape=(corpus.n_sequences, features.n_features))
    matrix.sum_duplicates()
    return matrix


def _block_counts(
    block: FeatureBlock, incidence: Incidence, wanted: Int64, base: int, sentence: Int64
) -> tuple[Int64, Int64, Float]:
    """Sentence, feature and value of each feature that fires."""
    ends = np.empty(len(wanted), dtype=np.int64)
    arguments = (incidence.lists(), block.features, wanted, base)
    n = _fired(*arguments, np.zeros(0, dtype=np.int64), np.zeros(0), ends)
    out, out_values = np.empty(n, dtype=np.int64), np.empty(n)
    if n:
        _fired(*arguments, out, out_values, ends)
    counts = np.diff(ends, prepend=0)
    return np.repeat(sentence, counts), out, out_values


class MEstimationObjective:
    """The objective as a function of the weights.

    Parameters
    ----------
    counts : csr_matrix [S, D]
        Feature counts of each sentence.
    expected : float64 [D]
        E_q0[f].
    l2 : float
        Factor of ||w||^2.
    sequence_weights : float64 [S], optional
        Weight of each sentence; one if not given.
    n_penalised : int, optional
        Only the first ``n_penalised`` weights are penalised; all if not given.
    """

    def __init__(
        self,
        counts: csr_matrix,
        expected: Float,
        l2: float = 0.0,
        sequence_weights: Float | None = None,
        n_penalised: int | None = None,
    ) -> None:
        self.n_penalised = len(expected) if n_penalised is None else n_penalised
        self._counts, self._turned = counts, counts.T.tocsr()
        self._expected, self.l2 = expected, l2
        weights = np.ones(counts.shape[0]) if sequence_weights is None else sequence_weights
        self._shares = weights / weights.sum()

    def __call__(self, weights: Float) -> tuple[float, Float]:
        """Value and gradient at ``weights`` [D]; inf where exp overflows."""
        with np.errstate(over="ignore"):
            shares = self._shares * np.exp(-(self._counts @ weights))
            penalised = np.where(np.arange(len(weights)) < self.n_penalised, weights, 0.0)
            value = float(shares.sum() + weights @ self._expected + self.l2 * (penalised @ penalised))
        if not np.isfinite(value):
            return np.inf, np.zeros_like(weights)
        if value < LOWEST:
            raise OptionError(
                f"the objective of m-estimation falls without end (l2 is {self.l2:g}): some sum of features is "
                "never negative in the training data but is so on average under the base; give a greater penalty, as "
                "in --variance 1 (variance=1)"
            )
        return value, self._expected + 2.0 * self.l2 * penalised - self._turned @ shares

    def hessian(self, weights: Float) -> Float:
        """Second derivatives [D, D], for models of few features."""
        shares = self._shares * np.exp(-(self._counts @ weights))
        from scipy.sparse import diags

        penalty = diags(np.where(np.arange(len(weights)) < self.n_penalised, 2.0 * self.l2, 0.0))
        curved = self._turned @ diags(shares) @ self._counts + penalty
        return np.asarray(curved.todense())
