"""Eight numbers at a time: a vector type for kernels whose inner loops are too short for a compiler to vectorise well.

    total = load(scores, place)              # lanes: eight float32 in a register
    total = total + load(rows, other)        # + - * between lanes, and lanes with a float32
    store(scores, place, total)

Arrays are flat, contiguous and float32 (int8 for :func:`load_flags`); nothing checks their bounds. LLVM turns the
vectors into whatever the processor has (:mod:`~loglinear.kernels.vectors` has the instructions). Here is what they do:
without the compiler (``NUMBA_DISABLE_JIT``) lanes are NumPy arrays of eight.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.kernels import lane_function

Lanes = npt.NDArray[np.float32]
Float32 = npt.NDArray[np.float32]
N_LANES = 8
LOWEST_EXPONENT = -60.0  # exp of less is taken for zero


@lane_function
def load(array: Float32, place: int) -> Lanes:
    """The numbers ``array[place]`` to ``array[place + 7]``."""
    return array[place : place + N_LANES].copy()


@lane_function
def load_flags(array: npt.NDArray[np.int8], place: int) -> Lanes:
    """The same of int8."""
    return array[place : place + N_LANES].astype(np.float32)


@lane_function
def store(array: Float32, place: int, lanes: Lanes) -> None:
    """Write lanes to ``array[place]`` and after."""
    array[place : place + N_LANES] = lanes


@lane_function
def prefetch(array: Float32, place: int) -> None:
    """Say that the numbers from ``array[place]`` on will be wanted soon."""


@lane_function
def same(number: np.float32) -> Lanes:
    """Eight times the same."""
    return np.full(N_LANES, number, dtype=np.float32)


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
def total(lanes: Lanes) -> np.float32:
    """The sum of the eight."""
    return np.float32(lanes.sum())


@lane_function
def greatest(lanes: Lanes) -> np.float32:
    """The greatest of the eight."""
    return np.float32(lanes.max())


@lane_function
def exponential(lanes: Lanes) -> Lanes:
    """exp of numbers of at most 0; of less than -60 zero.

    exp(r) 2^n with r at most log(2) / 2 in size: a polynomial (Cephes), and n put into a number's exponent bits.
    """
    return np.where(lanes >= LOWEST_EXPONENT, np.exp(lanes), np.float32(0.0))
