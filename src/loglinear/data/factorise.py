"""Equal byte strings to equal numbers, in order of first occurrence, one block of text after the other.

The distinct strings lie one after the other in an arena of their own, so that a block of text can be let go once its
fields are numbered, and Python makes one string per distinct value and none per token. Look-up is by open addressing
over the 32-bit FNV-1a hash of Fowler, Noll and Vo, then an exact comparison; O(bytes) expected.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel

Bytes = npt.NDArray[np.uint8]
IdArray = npt.NDArray[np.int32]
IntArray = npt.NDArray[np.int64]


@kernel
def _factorise(
    buffer: Bytes,
    begins: IntArray,
    finishes: IntArray,
    first: int,
    step: int,
    slots: IdArray,
    hashes: IntArray,
    places: IntArray,
    arena: Bytes,
    n: int,
    ids: IdArray,
) -> tuple[IdArray, IntArray, IntArray, Bytes, int]:
    """Fill ids [F] of the fields ``first``, ``first + step``, ...; returns the table, grown, of ``n`` distinct strings.

    ``slots`` [a power of two, at most half of them taken] name strings or are -1; string k is
    ``arena[places[k]:places[k + 1]]``.
    """
    size = slots.shape[0]
    for item in range(ids.shape[0]):
        field = first + item * step
        begin, length = begins[field], finishes[field] - begins[field]
        code = np.int64(2166136261)
        for k in range(length):  # 64-bit products of 32-bit numbers: no overflow, also without Numba
            code = ((code ^ np.int64(buffer[begin + k])) * np.int64(16777619)) & np.int64(0xFFFFFFFF)
        code = ((code ^ (code >> 15)) * np.int64(0x2C1B3C6D)) & np.int64(0xFFFFFFFF)
        code ^= code >> 13
        slot = code & (size - 1)
        while slots[slot] >= 0:
            number = slots[slot]
            if hashes[number] == code:
                other = places[number]
                same = places[number + 1] - other == length
                k = 0
                while same and k < length:
                    same = buffer[begin + k] == arena[other + k]
                    k += 1
                if same:
                    break
            slot = (slot + 1) & (size - 1)
        if slots[slot] < 0:
            if 2 * (n + 1) > size:
                size *= 4
                slots = np.full(size, -1, np.int32)
                hashes = np.append(hashes, np.empty(size // 2 - n, np.int64))
                places = np.append(places, np.empty(size // 2 - n, np.int64))
                for number in range(n):
                    slot = hashes[number] & (size - 1)
                    while slots[slot] >= 0:
                        slot = (slot + 1) & (size - 1)
                    slots[slot] = number
                slot = code & (size - 1)
                while slots[slot] >= 0:
                    slot = (slot + 1) & (size - 1)
            if places[n] + length > arena.shape[0]:
                arena = np.append(arena, np.empty(arena.shape[0] + length, np.uint8))
            for k in range(length):
                arena[places[n] + k] = buffer[begin + k]
            places[n + 1] = places[n] + length
            slots[slot] = n
            hashes[n] = code
            n += 1
        ids[item] = slots[slot]
    return slots, hashes, places, arena, n


class Factoriser:
    """The distinct strings met so far."""

    def __init__(self) -> None:
        self._slots = np.full(1024, -1, dtype=np.int32)
        self._hashes = np.empty(512, dtype=np.int64)
        self._places = np.zeros(513, dtype=np.int64)
        self._arena = np.empty(4096, dtype=np.uint8)
        self._n = 0

    def ids(self, buffer: Bytes, begins: IntArray, finishes: IntArray, first: int = 0, step: int = 1) -> IdArray:
        """Numbers of the fields ``first``, ``first + step``, ... of those that begin and finish at these bytes."""
        ids = np.empty(len(range(first, len(begins), step)), dtype=np.int32)
        self._slots, self._hashes, self._places, self._arena, self._n = _factorise(
            buffer, begins, finishes, first, step, self._slots, self._hashes, self._places, self._arena, self._n, ids
        )
        return ids

    def strings(self) -> list[str]:
        """The distinct strings, by number."""
        places = self._places[: self._n + 1].tolist()
        packed = self._arena[: places[-1]].tobytes()
        if packed.isascii():  # bytes and characters count the same: one decoding for all
            text = packed.decode("ascii")
            return [text[places[k] : places[k + 1]] for k in range(self._n)]
        return [packed[places[k] : places[k + 1]].decode() for k in range(self._n)]
