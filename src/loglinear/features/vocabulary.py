"""Strings to numbers, in order of first sight; locks after training so that new strings stay unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

UNKNOWN = -1


class Vocabulary:
    """A bijection between strings and 0..n-1.

    Parameters
    ----------
    strings : sequence of str, optional
        Distinct strings; the i-th gets number i.
    locked : bool
        Whether strings not in it get :data:`UNKNOWN` instead of a new number.
    """

    def __init__(self, strings: Sequence[str] = (), locked: bool = False) -> None:
        self.strings: list[str] = list(strings)
        self.locked = locked
        self._ids = {string: i for i, string in enumerate(self.strings)}
        if len(self._ids) != len(self.strings):
            raise ValueError("a vocabulary's strings must be distinct")

    def lock(self) -> None:
        self.locked = True

    def id(self, string: str) -> int:
        """The string's number; a new one if unlocked and not seen before, :data:`UNKNOWN` if locked."""
        number = self._ids.get(string)
        if number is None:
            if self.locked:
                return UNKNOWN
            number = self._ids[string] = len(self.strings)
            self.strings.append(string)
        return number

    def ids(self, strings: Iterable[str | None]) -> npt.NDArray[np.int32]:
        """Numbers of many strings; None has none (:data:`UNKNOWN`)."""
        if self.locked:
            get = self._ids.get
            return np.array([get(s, UNKNOWN) if s is not None else UNKNOWN for s in strings], dtype=np.int32)
        return np.array([self.id(s) if s is not None else UNKNOWN for s in strings], dtype=np.int32)

    def __getitem__(self, number: int) -> str:
        return self.strings[number]

    def __len__(self) -> int:
        return len(self.strings)

    def __contains__(self, string: str) -> bool:
        return string in self._ids
