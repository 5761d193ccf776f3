r"""Semi-Markov models: part scores in, best segmentations, log-partitions, expected parts and draws out.

A labelling is a segmentation: segments (i_k, j_k, y_k) of the tokens i_k to j_k - 1, one after the other, k = 1..K, of
at most L_y tokens each (Sarawagi & Cohen 2004, "Semi-Markov conditional random fields for information extraction")::

    score = start(y_1) + sum_k [ sum_{t = i_k}^{j_k - 1} s_t(token label of t)
                                 + length(j_k - i_k, y_k) + segment_{j_k - 1}(j_k - i_k, y_k) ]
            + sum_{k >= 2} transition(y_{k-1}, y_k) + stop(y_K)

A segment of label y gives its tokens the labels that a scheme such as BIO spells it with
(:mod:`~loglinear.structures.segments.scheme`), which makes segmentations and legal labellings of the tokens the same
thing. So a labelling is, to the outside, a token label for each position, as in a chain: annotation, costs and masks
are those of chains. If every segment has one token, so are the model and all its operations.

A score of -inf rules its part out. Sums are in :mod:`~loglinear.structures.segments.sums`, maxima in
:mod:`~loglinear.structures.segments.best`. Operations keep no state: threads may share a structure.

Letters: S sequences, N tokens in all, Y segment labels, L the greatest limit, K = sum_y L_y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Float, Int32
from loglinear.errors import InfeasibleError, OptionError
from loglinear.structures.gold import Gold
from loglinear.structures.segments import best, sums
from loglinear.structures.segments.scheme import Segmentation, SegmentScheme
from loglinear.structures.segments.sums import Parts
from loglinear.structures.sequences import Sequences, SequenceScores
from loglinear.structures.structure import best_sizes

NAMES = Parts._fields


@dataclass(frozen=True, slots=True)
class SegmentScores(SequenceScores):
    """A number for each part of a batch of S sequences with N tokens in all: scores, expectations or gradients.

    Parameters
    ----------
    emission : float64 [N, token labels]
        s_t, for the token labels that segments are spelt with.
    transition : float64 [Y, Y]
        From a segment's label (row) to the next one's (column).
    start, stop : float64 [Y]
        For the label of the first and of the last segment.
    length : float64 [L, Y]
        ``length[m - 1, y]`` is for segments of m tokens. What is beyond a label's limit does not count.
    segment : float64 [N, L, Y], optional
        ``segment[t, m - 1, y]`` is for the segment of m tokens that **ends** with token t. What would begin before its
        sequence, or is beyond a label's limit, does not count.
    """

    emission: Float
    transition: Float
    start: Float
    stop: Float
    length: Float
    segment: Float | None = None

    @property
    def n_labels(self) -> int:
        """Y."""
        return int(self.transition.shape[0])


class Segments(Sequences):
    """The shape of a batch of segmented sequences, and the operations on its part scores.

    A labelling is the token labels int32 [N] of a segmentation; other labellings are a
    :class:`~loglinear.errors.DataError` that names the place. All operations raise it for scores of a wrong shape, NaN
    or +inf. Where a sequence has no segmentation with a score above -inf, :meth:`log_partition` and :meth:`score` say
    -inf and the others raise :class:`~loglinear.errors.InfeasibleError`.

    Parameters
    ----------
    offsets : int64 [S + 1]
        Sequence i has the tokens ``offsets[i]`` to ``offsets[i + 1] - 1``; ascending from 0, none empty.
    scheme : SegmentScheme
        The segment labels, their limits and their spelling.
    """

    def __init__(self, offsets: npt.ArrayLike, scheme: SegmentScheme) -> None:
        super().__init__(offsets)
        self.scheme = scheme

    # -- a given labelling, O(N) -----------------------------------------------------------------------------------

    def segments(self, labels: npt.ArrayLike) -> Segmentation:
        """The segments that the token labels int32 [N] spell."""
        return self.scheme.segments(self.offsets, self._labels(labels))

    def score(self, scores: SegmentScores, labels: npt.ArrayLike) -> Float:
        """Scores [S] of the labelling ``labels`` int32 [N]."""
        parts, labels, result = self._checked(scores), self._labels(labels), np.empty(self.n_sequences)
        best.score(self.offsets, parts, labels, *self.segments(labels), result)
        return result

    def add_labelling(self, parts: SegmentScores, labels: npt.ArrayLike, weights: npt.ArrayLike) -> None:
        """Add to ``parts``, in place, the weight [S] of each sequence for every part of its labelling int32 [N]."""
        shaped, labels = self._shaped(parts, "writable"), self._labels(labels)
        best.add_labelling(self.offsets, labels, *self.segments(labels), self._weights(weights), shaped)

    # -- best segmentations, O(N (Y^2 + K)) --------------------------------------------------------------------------

    def viterbi(self, scores: SegmentScores) -> tuple[Int32, Float]:
        """Best labelling int32 [N] and its scores [S]."""
        parts = self._checked(scores)
        labels, score = np.empty(self.n_positions, dtype=np.int32), np.empty(self.n_sequences)
        self._raise_infeasible(best.viterbi(self.offsets, parts, self.scheme.spelling, labels, score))
        return labels, score

    def k_best(self, scores: SegmentScores, k: int) -> list[tuple[Int32, Float]]:
        """For each sequence its K <= k best labellings int32 [K, T], best first, and their scores [K].

        K is less than k only if there are no more labellings. The first is that of :meth:`viterbi`; k times its cost.
        """
        n_tokens, n_labels = self.scheme.n_token_labels, scores.transition.shape[0]
        sizes = best_sizes(np.diff(self.offsets), k, n_tokens, work=32.0 * n_labels)
        parts = self._checked(scores)
        found = []
        for i, (first, end) in enumerate(zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist(), strict=True)):
            most = sizes[i]
            labels, score = np.empty((most, end - first), dtype=np.int32), np.empty(most)
            n_found = best.k_best(first, end - first, parts, self.scheme.spelling, labels, score)
            self._raise_infeasible(i if n_found == 0 else -1)
            found.append((labels[:n_found], score[:n_found]))
        return found

    def best_possible(self, scores: SegmentScores, values: Float) -> tuple[Int32, Float]:
        """The possible labelling (score above -inf) with the greatest sum of ``values`` [N, token labels]; the sums."""
        possible = {name: np.where(np.isneginf(array), -np.inf, 0.0) for name, array in scores.parts().items()}
        possible["emission"] += values
        return self.viterbi(SegmentScores(**possible))

    def posterior_decode(self, scores: SegmentScores) -> tuple[Int32, Float]:
        """The possible labelling int32 [N] with the greatest sum of token marginals, and those sums [S].

        The sum is the expected number of correct token labels.
        """
        return self.best_possible(scores, self.expectations(scores)[1].emission)

    # -- sums over segmentations, O(N (Y^2 + K)) ---------------------------------------------------------------------

    def log_partition(self, scores: SegmentScores) -> Float:
        """log Z [S]; -inf where no segmentation is possible."""
        log_z = np.empty(self.n_sequences)
        sums.log_partition(self.offsets, self._checked(scores), self.scheme.spelling, log_z)
        return log_z

    def expectations(self, scores: SegmentScores, weights: npt.ArrayLike | None = None) -> tuple[Float, SegmentScores]:
        """log Z [S] and the expected parts, those of a sequence times its weight [S].

        Emissions are the marginals of token labels [N, token labels]; segments, expected if ``scores`` has them, those
        of spans [N, L, Y]; the other parts are summed over segments and sequences. This is the gradient of ``weights @
        log_partition``.
        """
        return self._expectations(scores, weights, with_segments=scores.segment is not None)[:2]

    def segment_marginals(self, scores: SegmentScores) -> Float:
        """P(there is a segment of label y and m tokens that ends with token t) as ``[t, m - 1, y]``, [N, L, Y]."""
        segment = self._expectations(scores, with_segments=True)[1].segment
        assert segment is not None
        return segment

    def edge_marginals(self, scores: SegmentScores) -> Float:
        """P(a segment of label y' ends with token t - 1, one of label y begins with t) [N, Y, Y], 0 at first tokens."""
        return self._expectations(scores, with_pairs=True)[2]

    def cost_covariance(
        self, scores: SegmentScores, cost: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> tuple[Float, SegmentScores]:
        """E[c] [S] of the cost c = sum_t cost[t, label of t], and its covariances with the parts, times weights [S].

        The covariance with a part is E[c part] - E[c] E[part], in the shapes of :meth:`expectations`: the gradient of
        ``weights @ E[c]`` by the scores. About three times the time of :meth:`expectations`.

        Parameters
        ----------
        scores : SegmentScores
        cost : float64 [N, token labels]
            Finite; a constant added to a token's row adds to E[c] and leaves the covariances as they are.
        weights : float64 [S], optional
            1 if not given; E[c] itself is not weighted.
        """
        parts, factors = self._checked(scores), self._weights(weights)
        costs, unit = self._checked_costs(cost, self.scheme.n_token_labels)
        result, mean = self._blank(scores.segment is not None), np.empty(self.n_sequences)
        self._raise_infeasible(
            sums.covariance(self.offsets, parts, self.scheme.spelling, costs, unit, factors, mean, result)
        )
        return mean, _as_scores(result, scores.segment is not None)

    def sample(self, scores: SegmentScores, n: int, rng: np.random.Generator) -> Int32:
        """``n`` independent draws of labellings, int32 [n, N]; O(n N (Y + L)) more than :meth:`log_partition`."""
        if n < 0:
            raise OptionError(f"n = {n}: the number of draws cannot be negative")
        parts, labels = self._checked(scores), np.empty((n, self.n_positions), dtype=np.int32)
        label_draws = rng.random((n, self.n_positions))
        length_draws = rng.random((n, self.n_positions if self.scheme.n_lengths > 1 else 0))
        self._raise_infeasible(
            sums.sample(self.offsets, parts, self.scheme.spelling, label_draws, length_draws, labels)
        )
        return labels

    def possible(self, gold: Gold) -> tuple[Float, SegmentScores]:
        """log of the number of segmentations that the annotation allows [S], and the expected parts of one at random.

        A part is in some allowed segmentation if its expectation is above zero. -inf, and no parts, where the
        annotation allows none.
        """
        scores = self.restrict(_as_scores(self._blank(False), False), gold.mask(self.scheme.n_token_labels))
        return self._expectations(scores, with_segments=True, may_fail=True)[:2]

    # -- at the door -------------------------------------------------------------------------------------------------

    def _expectations(
        self,
        scores: SegmentScores,
        weights: npt.ArrayLike | None = None,
        with_segments: bool = False,
        with_pairs: bool = False,
        may_fail: bool = False,
    ) -> tuple[Float, SegmentScores, Float]:
        """log Z [S], expected parts and edge marginals; ``may_fail`` admits sequences without a segmentation."""
        parts, factors, expected = self._checked(scores), self._weights(weights), self._blank(with_segments)
        log_z, y = np.empty(self.n_sequences), self.scheme.n_labels
        pairs = np.zeros((self.n_positions if with_pairs else 0, y, y))
        sums.expectations(self.offsets, parts, self.scheme.spelling, factors, log_z, expected, pairs)
        if not may_fail and np.isneginf(log_z).any():
            raise InfeasibleError(int(np.argmax(np.isneginf(log_z))))
        return log_z, _as_scores(expected, with_segments), pairs

    def _raise_infeasible(self, sequence: int) -> None:
        """Raise for the number of a sequence without a segmentation; -1 is none."""
        if sequence >= 0:
            raise InfeasibleError(int(sequence))

    def _blank(self, with_segments: bool) -> Parts:
        """Zeros for a kernel's results."""
        n, y, m = self.n_positions, self.scheme.n_labels, self.scheme.n_lengths
        return Parts(
            np.zeros((n, self.scheme.n_token_labels)), np.zeros((y, y)), np.zeros(y), np.zeros(y), np.zeros((m, y)),
            np.zeros((n if with_segments else 0, m, y)),
        )  # fmt: skip

    def _checked(self, scores: SegmentScores) -> Parts:
        """The arrays of ``scores`` as kernels want them, without NaN and +inf, what the scheme rules out being -inf."""
        parts = self._shaped(scores, "readable")
        if self.scheme.follows.all() and self.scheme.starts.all():
            return parts
        return parts._replace(
            transition=np.where(self.scheme.follows, parts.transition, -np.inf),
            start=np.where(self.scheme.starts, parts.start, -np.inf),
        )

    def _shaped(self, scores: SegmentScores, use: str) -> Parts:
        n, y, m = self.n_positions, self.scheme.n_labels, self.scheme.n_lengths
        shapes = zip(NAMES, ((n, self.scheme.n_token_labels), (y, y), (y,), (y,), (m, y), (n, m, y)), strict=True)
        return Parts(*self._checked_arrays(scores, dict(shapes), (0, m, y), use))

    def _labels(self, labels: npt.ArrayLike) -> Int32:
        return self._checked_labels(labels, self.scheme.n_token_labels)


def _as_scores(parts: Parts, with_segments: bool) -> SegmentScores:
    """A kernel's arrays without the empty ones of absent parts."""
    return SegmentScores(*parts[:5], parts.segment if with_segments else None)
