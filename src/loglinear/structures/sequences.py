"""What structures over sequences of tokens share: arithmetic on part scores, and checks of what comes in.

Letters: S sequences, N positions in all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Array, Float, Int32
from loglinear.errors import DataError
from loglinear.kernels import kernel


class SequenceScores:
    """Arrays by name, some of which may be None; subclasses are dataclasses of them, with ``emission`` [N, labels]."""

    __slots__ = ()
    emission: Float

    def parts(self) -> Mapping[str, Float]:
        """The arrays that are not None, by name."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]  # a dataclass
        return {name: array for name, array in named.items() if array is not None}

    def zeros_like(self) -> Self:
        """Zeros of the same shapes."""
        zeros = {name: np.zeros(array.shape) for name, array in self.parts().items()}
        return replace(self, **zeros)  # type: ignore[type-var]  # a dataclass

    def plus(self, other: Self) -> Self:
        """The sum, as new arrays; a part that only one of them has is copied."""
        total = {name: array.copy() for name, array in self.parts().items()}
        for name, array in other.parts().items():
            total[name] = total[name] + array if name in total else array.copy()
        return replace(self, **total)  # type: ignore[type-var]  # a dataclass

    def times(self, factor: float) -> Self:
        """The product with a number, as new arrays; what is ruled out (-inf) stays so, whatever the factor."""
        product = {}
        for name, array in self.parts().items():
            ruled_out = np.isneginf(array)
            product[name] = np.where(ruled_out, -np.inf, factor * np.where(ruled_out, 0.0, array))
        return replace(self, **product)  # type: ignore[type-var]  # a dataclass

    def dot(self, other: Self) -> float:
        """Sum of the products of all parts that both have; parts that ``other`` rules out (-inf) count as zero."""
        mine, total = self.parts(), 0.0
        for name, array in other.parts().items():
            if name in mine:
                total += float(np.vdot(mine[name], np.where(np.isneginf(array), 0.0, array)))
        return total

    def with_costs(self, costs: Float) -> Self:
        """The scores plus a cost for each label at each position [N, labels]; shares the other arrays."""
        return replace(self, emission=self.emission + costs)  # type: ignore[type-var]  # a dataclass

    def subtract(self, other: Self) -> None:
        """Subtract in place; ``other`` must not have parts that are missing here."""
        mine = self.parts()
        for name, array in other.parts().items():
            if name not in mine:
                raise DataError(f"there is no {name} part to subtract from; give both the same parts")
            np.subtract(mine[name], array, out=mine[name])


S = TypeVar("S", bound=SequenceScores)


class Sequences(ABC):
    """The shape of a batch of sequences.

    Parameters
    ----------
    offsets : int64 [S + 1]
        Sequence i has the positions ``offsets[i]`` to ``offsets[i + 1] - 1``; ascending from 0, none empty.
    """

    def __init__(self, offsets: npt.ArrayLike) -> None:
        self.offsets = as_array("offsets", offsets, np.int64, (None,))
        if len(self.offsets) == 0 or self.offsets[0] != 0:
            raise DataError("offsets must begin with 0 and end with the number of positions")
        lengths = np.diff(self.offsets)
        if (lengths <= 0).any():
            i = int(np.argmax(lengths <= 0))
            raise DataError(f"sequence {i} (from 0) has length {lengths[i]}; leave out sequences without positions")
        self.n_sequences = len(lengths)
        self.n_positions = int(self.offsets[-1])

    def restrict(self, scores: S, allowed: npt.ArrayLike) -> S:
        """The scores, with -inf for the labels where ``allowed`` [N, labels] is 0; shares the other arrays."""
        mask = np.asarray(allowed)
        if mask.shape != np.shape(scores.emission):
            raise DataError(f"allowed has the shape {mask.shape}, the emissions {np.shape(scores.emission)}")
        return replace(scores, emission=np.where(mask, scores.emission, -np.inf))  # type: ignore[type-var]  # a dataclass

    def sums_of(self, values: Float, labels: Int32) -> Float:
        """Sums [S] of the ``values`` [N, Y] of the labels [N]."""
        chosen: Float = values[np.arange(self.n_positions), labels]
        return np.add.reduceat(chosen, self.offsets[:-1]) if self.n_sequences else chosen

    def marginals(self, scores: Any) -> Float:
        """Probability of each label at each position [N, labels]."""
        emission: Float = self.expectations(scores)[1].emission
        return emission

    @abstractmethod
    def expectations(self, scores: Any, weights: npt.ArrayLike | None = None) -> tuple[Float, Any]:
        """log Z [S], and the expected parts."""

    def _checked_arrays(
        self, scores: SequenceScores, shapes: Mapping[str, tuple[int, ...]], absent: tuple[int, ...], use: str
    ) -> list[Float]:
        """The arrays of ``scores`` in the form that kernels take, empty ones of the shape ``absent`` for None.

        Those to be ``readable`` must not have NaN or +inf, those to be ``writable`` must be of that form already.
        """
        arrays = []
        for name, shape in shapes.items():
            part = getattr(scores, name)
            array = np.empty(absent) if part is None else as_array(name, part, np.float64, shape)
            if use == "writable" and part is not None and array is not part:
                raise DataError(f"the {name} part must be a writable, C-contiguous float64 array to be added to")
            if use == "readable" and array.size and not array.max() < np.inf:
                raise DataError(f"the {name} scores contain NaN or +inf; only finite numbers and -inf are scores")
            arrays.append(array)
        return arrays

    def _checked_labels(self, labels: npt.ArrayLike, n_labels: int) -> Int32:
        array: Int32 = as_array("labels", labels, np.int32, (self.n_positions,))
        if len(array) and not (array.min() >= 0 and array.max() < n_labels):
            t = int(np.argmax((array < 0) | (array >= n_labels)))
            raise DataError(f"label {array[t]} at position {t} (from 0) is not one of the {n_labels} labels 0, 1, ...")
        return array

    def _weights(self, weights: npt.ArrayLike | None) -> Float:
        """Weights [S] of the sequences, 1 if not given."""
        if weights is None:
            return np.ones(self.n_sequences)
        array: Float = as_array("weights", weights, np.float64, (self.n_sequences,))
        if not np.isfinite(array).all():
            raise DataError("the weights of the sequences must be finite numbers")
        return array

    def _checked_costs(self, cost: npt.ArrayLike, n_labels: int) -> tuple[Float, float]:
        """The costs in the form that kernels take, and the power of two that makes the greatest of them about one."""
        array: Float = as_array("cost", cost, np.float64, (self.n_positions, n_labels))
        greatest = max(float(array.max(initial=0.0)), -float(array.min(initial=0.0)))
        if not greatest < np.inf:
            raise DataError("the costs contain NaN or infinite numbers; give a finite cost to each label")
        exponent = int(np.frexp(greatest)[1])
        return array, float(np.ldexp(1.0, -min(max(exponent, -1000), 1000)))


def as_array(name: str, value: Any, dtype: type, shape: tuple[int | None, ...]) -> Array:
    """``value`` as the kind of array that the kernels are compiled for; ``value`` itself if it is one already."""
    if type(value) is np.ndarray and value.shape == shape and value.dtype == dtype and value.flags.carray:
        return value
    array = np.asarray(value)
    if len(array.shape) != len(shape) or any(n is not None and n != m for n, m in zip(shape, array.shape, strict=True)):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise DataError(f"{name} has the shape {list(array.shape)}, not [{wanted}]")
    if array.dtype == dtype and array.flags.carray:  # aligned, writable, C-contiguous
        return array
    if not np.can_cast(array.dtype, dtype, "same_kind") and array.size:
        raise DataError(f"{name} must be numbers of the type {np.dtype(dtype).name}, not {array.dtype}")
    return np.array(array, dtype=dtype, order="C")


@kernel
def draw_one(weights: Float, uniform: float) -> int:
    """A number drawn in proportion to ``weights`` [n], by one ``uniform`` number of [0, 1)."""
    total = 0.0
    for j in range(weights.shape[0]):
        total += weights[j]
    reached, drawn = 0.0, 0
    for j in range(weights.shape[0]):
        if weights[j] > 0.0:  # an impossible one is never drawn, whatever the rounding
            drawn = j
            reached += weights[j]
            if reached > uniform * total:
                break
    return drawn
