"""The M-estimator's objective over sentence-level feature counts: one sparse product an evaluation.

    F(w) = (1/n) sum_i c_i exp(-w . f_i)  +  w . E_q0[f]  +  l2 ||w||^2          f_i the feature counts of sentence i
    dF   = -(1/n) sum_i c_i exp(-w . f_i) f_i  +  E_q0[f]  +  2 l2 w

with weights c_i (1 unless given) that add up to n. The counts are collected once, S rows with about T times the number
of templates entries each; no pass needs a label again. Where labels are hidden, the counts are expected ones and
sentence i has one more factor (:mod:`~loglinear.criteria.m_estimation` derives it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from loglinear import mapped
from loglinear.arrays import Arrays, Float, Int32, Int64
from loglinear.errors import OptionError
from loglinear.features.block import FeatureBlock, Features
from loglinear.features.encoding import EncodedCorpus, runs
from loglinear.kernels import kernel
from loglinear.kernels.tables import Lists
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.chain.structure import Chain, ChainScores

if TYPE_CHECKING:  # imported where it is used: most taggers do without SciPy
    from scipy.sparse import csr_matrix

    from loglinear.criteria.m_estimation import MEstimation

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


BLOCK = 1 << 16  # positions whose features are counted at a time
MOST_ENTRIES = 2**31 - 1  # of a matrix with numbers of 32 bits; SciPy wants rows and columns of one type


def sentence_counts(features: ChainFeatures, corpus: EncodedCorpus, labels: Int32) -> csr_matrix:
    """Feature counts of each labelled sentence, a sparse matrix [S, D].

    Sentences are counted in blocks. Where large arrays lie in files (:mod:`loglinear.mapped`), those of the matrix do.
    """
    values, columns = mapped.Growing(np.float64), mapped.Growing(np.int32)
    pointer, n_entries = np.zeros(corpus.n_sequences + 1, dtype=np.int64), 0
    for first, end in runs(corpus.offsets, 0, corpus.n_sequences, BLOCK):
        block = _counts(features, corpus, labels, first, end)
        values.append(block.data)
        columns.append(block.indices)
        pointer[first + 1 : end + 1] = n_entries + block.indptr[1:]
        n_entries += block.nnz
    from scipy.sparse import csr_matrix

    data, indices = values.array(), columns.array()
    if n_entries > MOST_ENTRIES:
        indices = mapped.copied(indices, np.int64)
    else:
        pointer = pointer.astype(np.int32)
    return csr_matrix((data, indices, pointer), shape=(corpus.n_sequences, features.n_features), copy=False)


def _counts(features: ChainFeatures, corpus: EncodedCorpus, labels: Int32, first: int, end: int) -> csr_matrix:
    """Feature counts of sentences ``first`` to ``end``."""
    y, lo, hi = features.n_labels, int(corpus.offsets[first]), int(corpus.offsets[end])
    offsets, n = corpus.offsets[first : end + 1] - lo, hi - lo
    state, edge, *ngrams = features.slices
    sentence = np.repeat(np.arange(end - first), np.diff(offsets))
    within = np.arange(n) - offsets[sentence]
    wide = labels[lo:hi].astype(np.int64)
    pairs = np.where(within >= 1, np.roll(wide, 1) * y + wide, -1)
    triples = np.where(within >= 2, np.roll(wide, 2) * y * y + pairs, -1)
    fours = np.where(within >= 3, np.roll(wide, 3) * y**3 + triples, -1)
    lists = corpus.state.lists(lo, hi)
    parts = [_block_counts(features.state, lists, wide, state.start, sentence)]
    if features.input_only:
        parts.append(_block_counts(features.state, lists, np.full(n, y), state.start, sentence))
    if features.edge is not None and corpus.edge is not None:
        parts.append(_block_counts(features.edge, corpus.edge.lists(lo, hi), pairs, edge.start, sentence))
    known = (features.transitions, features.trigrams, features.fourgrams)
    for codes, own, segment in zip(known, (pairs, triples, fours), ngrams, strict=True):
        place = np.minimum(np.searchsorted(codes, own), max(len(codes) - 1, 0))
        found = np.flatnonzero((own >= 0) & (codes[place] == own)) if len(codes) else np.zeros(0, dtype=np.int64)
        parts.append((sentence[found], segment.start + place[found], np.ones(len(found))))
    rows, columns, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    from scipy.sparse import csr_matrix

    matrix = csr_matrix((values, (rows, columns)), shape=(end - first, features.n_features))
    matrix.sum_duplicates()
    return matrix


def _block_counts(
    block: FeatureBlock, lists: Lists, wanted: Int64, base: int, sentence: Int64
) -> tuple[Int64, Int64, Float]:
    """Sentence, feature and value of each feature that fires."""
    ends = np.empty(len(wanted), dtype=np.int64)
    arguments = (lists, block.features, wanted, base)
    n = _fired(*arguments, np.zeros(0, dtype=np.int64), np.zeros(0), ends)
    out, out_values = np.empty(n, dtype=np.int64), np.empty(n)
    if n:
        _fired(*arguments, out, out_values, ends)
    counts = np.diff(ends, prepend=0)
    return np.repeat(sentence, counts), out, out_values


# ----------------------------------------------------------------------------------------------------------------------
# Soft EM, where labels are hidden: expected counts, and factors that make an upper bound of each round's objective.

SETTLED = 1e-6  # rounds end when one changes the objective by no more than this share of it


@dataclass(frozen=True)
class Expected:
    """What a round learns from.

    Parameters
    ----------
    counts : csr_matrix [S, D]
        Feature counts F_i of each sentence, expected given its annotation and the weights v that the round starts with.
    log_factors : float64 [S]
        KL divergence of those labellings' distribution from the base's: v . F_i - g_i(v), zero where all is known.
    """

    counts: csr_matrix
    log_factors: Float

    @classmethod
    def of(cls, counts: csr_matrix, weights: Float, tilted: Float, untilted: Float) -> Expected:
        """From the counts, the ``weights`` [D] and log Z_i [S] with these and with weights of zero."""
        return cls(counts, np.maximum(counts @ weights - (tilted - untilted), 0.0))


def soft_rounds(
    expect: Callable[[Float], Expected], objective: Callable[[Expected], MEstimationObjective]
) -> Callable[[Float, Arrays | None], tuple[Any, Arrays]]:
    """How to prepare each round of soft EM, a phase of training, from an E step and the objective given its result.

    A checkpoint holds the weights that the round started with, from which everything follows.
    """
    last: tuple[float, MEstimationObjective, Arrays] | None = None

    def prepare(start: Float, kept: Arrays | None) -> tuple[Any, Arrays]:
        nonlocal last
        begun = start.copy() if kept is None else np.array(kept["begun"])
        found = objective(expect(begun))
        value = found(begun)[0]
        if kept is None and last is not None and abs(last[0] - value) <= SETTLED * max(1.0, abs(value)):
            return last[1], last[2]
        last = value, found, {"begun": begun}
        return found, last[2]

    return prepare


@kernel
def _expected_fired(
    lists: Lists, features: Features, shares: Float, base: int, out: Int64, out_values: Float, ends: Int64
) -> int:
    """Features of each position's attributes, times the ``shares`` [N, C] of their codes there, if above zero.

    ``ends`` and ``out`` are those of :func:`_fired`.
    """
    pointer, ids, values = lists
    n, has_values = 0, values.shape[0] > 0
    for t in range(shares.shape[0]):
        share = shares[t]
        for j in range(pointer[t], pointer[t + 1]):
            for f in range(features.pointer[ids[j]], features.pointer[ids[j] + 1]):
                if share[features.codes[f]] > 0.0:
                    if out.shape[0]:
                        out[n] = base + f
                        out_values[n] = share[features.codes[f]] * (values[j] if has_values else 1.0)
                    n += 1
        ends[t] = n
    return n


def expected_sentence_counts(
    features: ChainFeatures, corpus: EncodedCorpus, first: int, end: int, scores: ChainScores
) -> tuple[csr_matrix, Float]:
    """Expected feature counts [S, D] of sentences ``first`` to ``end`` given their part ``scores``, and log Z [S]."""
    from scipy.sparse import csr_matrix

    y, lo = features.n_labels, int(corpus.offsets[first])
    offsets = corpus.offsets[first : end + 1] - lo
    n, chain = int(offsets[-1]), Chain(offsets)
    state, edge, transition, trigram, _ = features.slices
    sentence = np.repeat(np.arange(end - first), np.diff(offsets))
    log_z, expected = chain.expectations(
        scores if scores.edge is not None else replace(scores, edge=np.zeros((n, y, y)))
    )
    assert expected.edge is not None
    labels, pairs = expected.emission, expected.edge.reshape(n, -1)
    if features.input_only:
        labels = np.concatenate([labels, np.ones((n, 1))], axis=1)
    parts = [_block_shares(features.state, corpus.state.lists(lo, lo + n), labels, state.start, sentence)]
    if features.edge is not None and corpus.edge is not None:
        parts.append(_block_shares(features.edge, corpus.edge.lists(lo, lo + n), pairs, edge.start, sentence))
    ngrams = [(np.add.reduceat(pairs, offsets[:-1])[:, features.transitions], transition)]
    if len(features.trigrams):
        ngrams.append((_expected_trigrams(chain, scores)[:, features.trigrams], trigram))
    for table, segment in ngrams:
        rows, columns = np.nonzero(table)
        parts.append((rows, segment.start + columns, table[rows, columns]))
    where, which, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    counts = csr_matrix((values, (where, which)), shape=(end - first, features.n_features))
    counts.sum_duplicates()
    return counts, log_z


def _block_shares(
    block: FeatureBlock, lists: Lists, shares: Float, base: int, sentence: Int64
) -> tuple[Int64, Int64, Float]:
    """Sentence, feature and expected value of each feature that may fire."""
    ends = np.empty(len(shares), dtype=np.int64)
    arguments = (lists, block.features, np.ascontiguousarray(shares), base)
    n = _expected_fired(*arguments, np.zeros(0, dtype=np.int64), np.zeros(0), ends)
    out, out_values = np.empty(n, dtype=np.int64), np.empty(n)
    if n:
        _expected_fired(*arguments, out, out_values, ends)
    return np.repeat(sentence, np.diff(ends, prepend=0)), out, out_values


def _expected_trigrams(chain: Chain, scores: ChainScores) -> Float:
    """Expected label trigrams [S, Y^3] of each sentence."""
    totals = np.empty((chain.n_sequences, scores.n_labels**3))
    for i, (lo, hi) in enumerate(pairwise(chain.offsets.tolist())):
        edge = None if scores.edge is None else scores.edge[lo:hi]
        own = replace(scores, emission=scores.emission[lo:hi], edge=edge)
        trigram = Chain([0, hi - lo]).expectations(own)[1].trigram
        assert trigram is not None
        totals[i] = trigram.ravel()
    return totals


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
    log_factors : float64 [S], optional
        log of one more factor of each sentence's exp(-w . f_i), which the weights' sum does not count.
    """

    def __init__(
        self,
        counts: csr_matrix,
        expected: Float,
        l2: float = 0.0,
        sequence_weights: Float | None = None,
        n_penalised: int | None = None,
        log_factors: Float | None = None,
    ) -> None:
        self.n_penalised = len(expected) if n_penalised is None else n_penalised
        # The same sums in the same order: by features is quicker, by sentences walks over arrays in files as they lie.
        self._counts, self._turned = counts, counts.T if mapped.is_active() else counts.T.tocsr()
        self._expected, self.l2, self._endless = expected, l2, False
        weights = np.ones(counts.shape[0]) if sequence_weights is None else sequence_weights
        self._shares, self._log_factors = weights / weights.sum(), log_factors

    def by(self, criterion: MEstimation) -> MEstimationObjective:
        """The objective with the criterion's factor of E_q0[f], and without end if it is ``unbounded``."""
        self._expected = criterion.expectation * self._expected
        self._endless = criterion.unbounded
        return self

    def falls_without_end(self, value: float) -> bool:
        """Whether a value that was reached says that there is no minimum."""
        return value < LOWEST

    def __call__(self, weights: Float) -> tuple[float, Float]:
        """Value and gradient at ``weights`` [D]; inf where exp overflows."""
        with np.errstate(over="ignore"):
            shares = self._losses(weights)
            penalised = np.where(np.arange(len(weights)) < self.n_penalised, weights, 0.0)
            value = float(shares.sum() + weights @ self._expected + self.l2 * (penalised @ penalised))
        if not np.isfinite(value):
            return np.inf, np.zeros_like(weights)
        if value < LOWEST and not self._endless:
            raise OptionError(
                f"the objective of m-estimation falls without end (l2 is {self.l2:g}): some sum of features is "
                "never negative in the training data but is so on average under the base; give a greater penalty, as "
                "in --variance 1 (variance=1)"
            )
        return value, self._expected + 2.0 * self.l2 * penalised - self._turned @ shares

    def _losses(self, weights: Float) -> Float:
        """What each sentence adds to the mean of the losses [S]."""
        exponents = -(self._counts @ weights)
        if self._log_factors is not None:
            exponents += self._log_factors
        return self._shares * np.exp(exponents)

    def hessian(self, weights: Float) -> Float:
        """Second derivatives [D, D], for models of few features."""
        shares = self._losses(weights)
        from scipy.sparse import diags

        penalty = diags(np.where(np.arange(len(weights)) < self.n_penalised, 2.0 * self.l2, 0.0))
        curved = self._turned @ diags(shares) @ self._counts + penalty
        return np.asarray(curved.todense())
