"""The annotation of a batch: for each position one label, or the set of labels it may have.

Hidden and partial labels are treated alike by all criteria: the numerator is not the score of one gold labelling but
the log-partition over the labellings that :attr:`Gold.allowed` permits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loglinear import mapped
from loglinear.arrays import Bool, Int32, Int64, UInt8
from loglinear.kernels import kernel


@dataclass(frozen=True, slots=True)
class Gold:
    """Annotation of N positions with Y labels.

    Parameters
    ----------
    labels : int32 [N]
        The label of each position, -1 where it is not known.
    allowed : uint8 [N, Y] or None
        1 where the annotation allows the label; None if the label of every position is known.
    contexts : uint8 [N, Y] at order 1, [N, Y, Y] at order 2, or None
        For criteria that also learn from wrong contexts: 1 for those to use, stored at the last position of the
        context. At order 2 the context that ends at a first position is a single label: row ``contexts[t, 0]``. None:
        use all.
    """

    labels: Int32
    allowed: UInt8 | None = None
    contexts: UInt8 | None = None

    def slice(self, first: int, end: int) -> Gold:
        """Positions ``first`` to ``end``; without a mask if all their labels are known."""
        labels = self.labels[first:end]
        contexts = None if self.contexts is None else self.contexts[first:end]
        if self.allowed is None or (labels >= 0).all():
            return Gold(labels, contexts=contexts)
        return Gold(labels, self.allowed[first:end], contexts)

    def mask(self, n_labels: int) -> Bool:
        """Whether each position may have each of ``n_labels`` labels [N, n_labels]."""
        if self.allowed is None:
            return np.equal(np.arange(n_labels), self.labels[:, None])
        return self.allowed[:, :n_labels] > 0

    def split(self, sub_labels: int, n_labels: int) -> Gold:
        """The annotation over the sub-labels of ``n_labels`` labels: any sub-label of an allowed label."""
        if sub_labels == 1:
            return self
        allowed = np.repeat(self.mask(n_labels).astype(np.uint8), sub_labels, axis=1)
        return Gold(np.full(len(self.labels), -1, dtype=np.int32), allowed)

    def label_lists(self, n_labels: int, unlabelled_as_any: bool) -> tuple[Int64, Int32]:
        """Possible labels of each position: pointer [N + 1] and labels.

        A position that may have any label gets all labels if ``unlabelled_as_any``, else none.
        """
        if self.allowed is None:
            return mapped.span(len(self.labels) + 1), self.labels
        allowed = self.allowed.astype(bool)
        if not unlabelled_as_any and n_labels > 1:
            allowed &= ~allowed.all(axis=1, keepdims=True)
        pointer = np.concatenate([[0], np.cumsum(allowed.sum(axis=1))]).astype(np.int64)
        return pointer, np.nonzero(allowed)[1].astype(np.int32)


@kernel
def _pair_codes(offsets: Int64, pointer: Int64, labels: Int32, n_labels: int, code_pointer: Int64, out: Int32) -> int:
    """Codes ``previous * Y + label`` of each position, none at first positions; an empty ``out`` only counts them."""
    filled = 0
    for i in range(offsets.shape[0] - 1):
        for t in range(offsets[i], offsets[i + 1]):
            code_pointer[t] = filled
            if t == offsets[i]:
                continue
            for j in range(pointer[t - 1], pointer[t]):
                for k in range(pointer[t], pointer[t + 1]):
                    if out.shape[0]:
                        out[filled] = labels[j] * n_labels + labels[k]
                    filled += 1
    code_pointer[offsets[-1]] = filled
    return filled


@kernel
def _mark_ngrams(
    offsets: Int64,
    pointer: Int64,
    labels: Int32,
    n_labels: int,
    bigrams: UInt8,
    trigrams: UInt8,
) -> None:
    """Mark the label bigrams [Y^2] and trigrams [Y^3] that the annotation allows; stops when all are marked.

    If ``trigrams`` is empty, only bigrams are marked.
    """
    left = bigrams.shape[0] + trigrams.shape[0]
    for i in range(offsets.shape[0] - 1):
        for t in range(offsets[i] + 1, offsets[i + 1]):
            for j in range(pointer[t - 1], pointer[t]):
                for k in range(pointer[t], pointer[t + 1]):
                    code = labels[j] * n_labels + labels[k]
                    if not bigrams[code]:
                        bigrams[code] = 1
                        left -= 1
                    if trigrams.shape[0] and t > offsets[i] + 1:
                        for h in range(pointer[t - 2], pointer[t - 1]):
                            triple = labels[h] * n_labels * n_labels + code
                            if not trigrams[triple]:
                                trigrams[triple] = 1
                                left -= 1
            if not left:
                return


def pair_codes(offsets: Int64, label_lists: tuple[Int64, Int32], n_labels: int) -> tuple[Int64, Int32]:
    """Codes of the possible pairs (previous label, label) at each position: pointer [N + 1] and codes."""
    code_pointer = mapped.zeros(int(offsets[-1]) + 1, np.int64)
    n = _pair_codes(offsets, *label_lists, n_labels, code_pointer, np.zeros(0, dtype=np.int32))
    codes = mapped.empty(n, np.int32)
    if n:
        _pair_codes(offsets, *label_lists, n_labels, code_pointer, codes)
    return code_pointer, codes


@kernel
def _mark_fourgrams(offsets: Int64, pointer: Int64, labels: Int32, n_labels: int, fourgrams: UInt8) -> None:
    """Mark the label 4-grams [Y^4] that the annotation allows; stops when all are marked."""
    left = fourgrams.shape[0]
    for i in range(offsets.shape[0] - 1):
        for t in range(offsets[i] + 3, offsets[i + 1]):
            for g in range(pointer[t - 3], pointer[t - 2]):
                for h in range(pointer[t - 2], pointer[t - 1]):
                    pair = labels[g] * n_labels + labels[h]
                    for j in range(pointer[t - 1], pointer[t]):
                        for k in range(pointer[t], pointer[t + 1]):
                            code = (pair * n_labels + labels[j]) * n_labels + labels[k]
                            if not fourgrams[code]:
                                fourgrams[code] = 1
                                left -= 1
            if not left:
                return


def observed_ngrams(offsets: Int64, label_lists: tuple[Int64, Int32], n_labels: int, order: int) -> list[Int32]:
    """Codes of the label bigrams, trigrams and 4-grams that the annotation allows, ascending; those up to the order."""
    marks = [np.zeros(n_labels ** (k + 1) if k <= order else 0, dtype=np.uint8) for k in (1, 2, 3)]
    _mark_ngrams(offsets, *label_lists, n_labels, *marks[:2])
    if order == 3:
        _mark_fourgrams(offsets, *label_lists, n_labels, marks[2])
    return [np.flatnonzero(marked).astype(np.int32) for marked in marks]
