"""Which (attribute, code) pairs occur together in a corpus: a bit for each, set in one walk over the positions.

    marks  uint8 [A, ceil(C / 8)]     bit c of row a: attribute a stands at a position that has code c

With the labels of a chunker an attribute takes three bytes, so that the walk stays in the cache. Where codes are many
(pairs of labels), the attributes are taken in ranges whose marks fit into :data:`MOST_BYTES`, one walk each.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Uint8 = npt.NDArray[np.uint8]

MOST_BYTES = 1 << 28


@kernel
def _mark(pointer: Int64, ids: Int32, code_pointer: Int64, codes: Int32, first: int, marks: Uint8) -> None:
    """Set the bits of the attributes ``first``, ``first + 1``, ... that ``marks`` has rows for."""
    n = marks.shape[0]
    for t in range(pointer.shape[0] - 1):
        for k in range(code_pointer[t], code_pointer[t + 1]):
            byte, bit = codes[k] >> 3, np.uint8(1 << (codes[k] & 7))
            for j in range(pointer[t], pointer[t + 1]):
                row = ids[j] - first
                if 0 <= row < n:
                    marks[row, byte] |= bit


@kernel
def _list_marked(marks: Uint8, pointer: Int64, out: Int32) -> int:
    """Codes of each row of ``marks``, ascending, into ``out``; an empty ``out`` only counts them.

    ``pointer`` [rows] says where each begins.
    """
    filled = 0
    for row in range(marks.shape[0]):
        pointer[row] = filled
        for byte in range(marks.shape[1]):
            left = np.int64(marks[row, byte])
            code = 8 * byte
            while left:
                if left & 1:
                    if out.shape[0]:
                        out[filled] = code
                    filled += 1
                left >>= 1
                code += 1
    return filled


def observed_pairs(
    pointer: Int64, ids: Int32, n_attributes: int, code_pointer: Int64, position_codes: Int32, n_codes: int
) -> tuple[Int64, Int32]:
    """Distinct codes of each attribute, ascending: where they begin [A + 1], and the codes.

    Position t has the attributes ``ids[pointer[t]:pointer[t + 1]]`` and the codes
    ``position_codes[code_pointer[t]:code_pointer[t + 1]]``.
    """
    width = -(-n_codes // 8)
    at_once = max(1, min(n_attributes, MOST_BYTES // max(width, 1)))
    starts = np.zeros(n_attributes + 1, dtype=np.int64)
    found = []
    filled = 0
    for first in range(0, n_attributes, at_once):
        end = min(first + at_once, n_attributes)
        marks = np.zeros((end - first, width), dtype=np.uint8)
        _mark(pointer, ids, code_pointer, position_codes, first, marks)
        n = _list_marked(marks, starts[first:end], np.zeros(0, dtype=np.int32))
        codes = np.empty(n, dtype=np.int32)
        if n:
            _list_marked(marks, starts[first:end], codes)
        starts[first:end] += filled
        filled += n
        found.append(codes)
    starts[n_attributes] = filled
    return starts, found[0] if len(found) == 1 else np.concatenate([*found, np.zeros(0, dtype=np.int32)])
