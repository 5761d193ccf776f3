"""What annotation says about a batch: one label a position, or a set of labels it may have.

Hidden or partial annotation is the same thing everywhere: the criterion's numerator is a log-partition over the
labellings that :attr:`Gold.allowed` leaves instead of one gold score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Gold:
    """Annotation of N positions with Y labels.

    Parameters
    ----------
    labels : int32 [N]
        The label of each position, -1 where it is not settled.
    allowed : uint8 [N, Y] or None
        1 where the annotation allows the label; None if every position has its one label.
    """

    labels: Int32
    allowed: npt.NDArray[np.uint8] | None = None

    def slice(self, first: int, end: int) -> Gold:
        """Positions ``first`` to ``end``; settled if all of them are."""
        labels = self.labels[first:end]
        if self.allowed is None or (labels >= 0).all():
            return Gold(labels)
        return Gold(labels, self.allowed[first:end])

    def label_lists(self, n_labels: int, unlabelled_as_any: bool) -> tuple[Int64, Int32]:
        """Possible labels of each position: pointer [N + 1] and labels.

        Positions that may have any label count as having all of them if ``unlabelled_as_any``, else none.
        """
        if self.allowed is None:
            return np.arange(len(self.labels) + 1, dtype=np.int64), self.labels
        allowed = self.allowed.astype(bool)
        if not unlabelled_as_any and n_labels > 1:
            allowed &= ~allowed.all(axis=1, keepdims=True)
        pointer = np.concatenate([[0], np.cumsum(allowed.sum(axis=1))]).astype(np.int64)
        return pointer, np.nonzero(allowed)[1].astype(np.int32)


@kernel
def _join(
    offsets: Int64,
    left_pointer: Int64,
    left: Int32,
    right_pointer: Int64,
    right: Int32,
    lag: int,
    width: int,
    pointer: Int64,
    out: Int32,
) -> int:
    """Codes ``left[t - 1] * width + right[t]`` of each position from its sequence's ``lag``-th on.

    With an empty ``out`` they are only counted.
    """
    filled = 0
    for i in range(offsets.shape[0] - 1):
        for t in range(offsets[i], offsets[i + 1]):
            pointer[t] = filled
            if t - offsets[i] < lag:
                continue
            for j in range(left_pointer[t - 1], left_pointer[t]):
                for k in range(right_pointer[t], right_pointer[t + 1]):
                    if out.shape[0]:
                        out[filled] = left[j] * width + right[k]
                    filled += 1
    pointer[offsets[-1]] = filled
    return filled


def joined_codes(
    offsets: Int64, left: tuple[Int64, Int32], right: tuple[Int64, Int32], lag: int, width: int
) -> tuple[Int64, Int32]:
    """Code lists of neighbouring positions: a left code at t - 1 with a right label at t.

    Joining label lists gives the pairs (``lag`` 1); joining those again with the labels gives the trigrams (``lag`` 2).
    """
    pointer = np.zeros(int(offsets[-1]) + 1, dtype=np.int64)
    arguments = (offsets, left[0], left[1], right[0], right[1], lag, width, pointer)
    out = np.empty(_join(*arguments, np.zeros(0, dtype=np.int32)), dtype=np.int32)
    if len(out):
        _join(*arguments, out)
    return pointer, out
