"""Many numbers at a time: a vector type for kernels whose inner loops are too short for a compiler to vectorise well.

    width = width_of(22)                     # rows of 24 numbers: three groups of eight
    total = load(scores, place, width)       # lanes: the 24 float32 in three registers
    total = total + load(rows, other, width) # + - * / between lanes, and lanes with a float32
    store(scores, place, total)

A kernel learns how many numbers lanes have from the *type* of a :class:`Width`, a tuple with one item for each group of
eight, so that one source is compiled for each width, with loops over groups unrolled and lanes kept in registers. Rows
of more than 64 numbers are several *blocks* of lanes, and kernels that go

    for c in range(0, row_length(width), block_length(width)):

over a row have a loop without steps where a row is one block.

Arrays are flat, contiguous and float32; nothing checks their bounds. LLVM turns the vectors into whatever the processor
has (:mod:`~loglinear.kernels.vectors` has the instructions). Here is what they do: without the compiler
(``NUMBA_DISABLE_JIT``) lanes are NumPy arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loglinear.kernels import lane_function

Lanes = npt.NDArray[np.float32]
Float32 = npt.NDArray[np.float32]
N_LANES = 8  # in a group
MOST_GROUPS = 8  # in a block: half of the sixteen registers of AVX2
LOWEST_EXPONENT = -60.0  # exp of less is taken for zero


class Width(NamedTuple):
    """The length of a row, as a type.

    Parameters
    ----------
    groups : tuple of K zeros
        A block is K groups of eight.
    blocks : int or empty tuple
        The number of blocks in a row; empty if it is one.
    """

    groups: tuple[int, ...]
    blocks: int | tuple[()]

    @property
    def numbers(self) -> int:
        """How many numbers a row has, for Python; kernels ask :func:`row_length`."""
        return N_LANES * len(self.groups) * (self.blocks or 1)


def width_of(n: int) -> Width:
    """The least width of at least ``n`` numbers, in as few blocks as possible."""
    groups = max(1, -(-n // N_LANES))
    blocks = -(-groups // MOST_GROUPS)
    return Width((0,) * -(-groups // blocks), () if blocks == 1 else blocks)


@lane_function
def block_length(width: Width) -> int:
    """How many numbers a block has."""
    return N_LANES * len(width.groups)


@lane_function
def row_length(width: Width) -> int:
    """How many numbers a row has: W."""
    return width.numbers


@lane_function
def load(array: Float32, place: int, width: Width) -> Lanes:
    """The numbers of a block, from ``array[place]`` on."""
    return array[place : place + N_LANES * len(width.groups)].copy()


@lane_function
def store(array: Float32, place: int, lanes: Lanes) -> None:
    """Write lanes to ``array[place]`` and after."""
    array[place : place + len(lanes)] = lanes


@lane_function
def prefetch(array: Float32, place: int, width: Width) -> None:
    """Say that the numbers of a block from ``array[place]`` on will be wanted soon."""


@lane_function
def prefetch_line(array: npt.NDArray[np.generic], place: int) -> None:
    """The same for the line of the cache that ``array[place]`` lies in; the array may be of any type."""


@lane_function
def same(number: np.float32, width: Width) -> Lanes:
    """The same number in all lanes."""
    return np.full(N_LANES * len(width.groups), number, dtype=np.float32)


@lane_function
def greater(one: Lanes, other: Lanes) -> Lanes:
    """The greater of each pair."""
    return np.maximum(one, other)


@lane_function
def lesser(one: Lanes, other: Lanes) -> Lanes:
    """The lesser of each pair."""
    return np.minimum(one, other)


@lane_function
def above(lanes: Lanes, least: np.float32) -> Lanes:
    """Zero instead of what is not above ``least``."""
    return np.where(lanes > least, lanes, np.float32(0.0))


@lane_function
def towards_zero(lanes: Lanes, less: np.float32) -> Lanes:
    """Numbers moved towards zero by ``less``, at most to zero."""
    zero = np.float32(0.0)
    return np.maximum(lanes - less, zero) + np.minimum(lanes + less, zero)


@lane_function
def where_there(numbers: Lanes, lanes: Lanes) -> Lanes:
    """``lanes``, but 0 where ``numbers`` are -0.0."""
    return np.where((numbers == 0.0) & np.signbit(numbers), np.float32(0.0), lanes)


@lane_function
def added(numbers: Lanes, lanes: Lanes) -> Lanes:
    """``numbers + lanes``, but -0.0 where ``numbers`` are -0.0, and nowhere else."""
    total = numbers + lanes + np.float32(0.0)
    return np.where((numbers == 0.0) & np.signbit(numbers), numbers, total)


@lane_function
def total(lanes: Lanes) -> np.float32:
    """The sum of all lanes."""
    return np.float32(lanes.sum())


@lane_function
def greatest(lanes: Lanes) -> np.float32:
    """The greatest of all lanes."""
    return np.float32(lanes.max())


@lane_function
def exponential(lanes: Lanes) -> Lanes:
    """exp of numbers of at most 0; of less than -60 zero.

    exp(r) 2^n with r at most log(2) / 2 in size: a polynomial (Cephes), and n put into a number's exponent bits.
    """
    return np.where(lanes >= LOWEST_EXPONENT, np.exp(lanes), np.float32(0.0))
