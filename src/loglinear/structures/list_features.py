"""What features that are lists have in common: each is a group of its own, and weights are looked at as they are."""

from __future__ import annotations

from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Float = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
F = TypeVar("F", bound="ListFeatures")


class ListFeatures:
    """D features, each by itself."""

    n_features: int

    @cached_property
    def groups(self) -> Int64:
        """Each feature is a group of its own."""
        return np.arange(self.n_features + 1, dtype=np.int64)

    def as_lists(self: F) -> F:
        """The same features: they are lists."""
        return self

    def lay_out(self, weights: Float, penalties: Any = None) -> Float:
        """The weights themselves."""
        return weights

    def laid_out_again(self, laid_out: Float, weights: Float, penalties: Any = None) -> Float:
        """The same."""
        return laid_out


class VectorGradient:
    """Adds up a gradient [D] by the weights; subclasses say what examples add."""

    def __init__(self, n_features: int) -> None:
        self.vector = np.zeros(n_features)

    def reset(self) -> None:
        """Begin anew."""
        self.vector.fill(0.0)

    def finish(self) -> Float:
        """The gradient [D] of all that was added."""
        return self.vector
