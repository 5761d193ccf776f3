"""From a user's labels to numbers: one label a token, none, or a set of possible ones.

In Python a token's label is a string, None (any label) or a collection of strings (one of them). In files, where
partial labels are asked for, ``*`` is any label and ``A|B`` is A or B.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import Column
from loglinear.errors import DataError, OptionError
from loglinear.structures.gold import Gold

ANY = "*"
EITHER = "|"
MOST_WEIGHT = 1e9  # of a sequence
Possible = frozenset[str] | None  # None: any label


def possible_labels(text: str) -> Possible:
    """What a partial label of a file allows: ``*`` any, ``A|B`` either, ``A`` only A."""
    return None if text == ANY else frozenset(text.split(EITHER))


class Annotation:
    """The annotation of N tokens, factorised: token t may have the labels ``possible[ids[t]]``.

    Parameters
    ----------
    ids : int32 [N]
    possible : list of (frozenset of str or None)
        What each distinct annotation allows; None is any label.
    place : callable
        ``place(t, message)`` makes the error that names where token t stands.
    """

    def __init__(
        self, ids: npt.NDArray[np.int32], possible: list[Possible], place: Callable[[int, str], DataError]
    ) -> None:
        self.ids, self.possible, self.place = ids, possible, place

    @classmethod
    def from_column(cls, column: Column, partial: bool, place: Callable[[int, str], DataError]) -> Annotation:
        """Labels of a file; ``partial`` says whether ``*`` and ``A|B`` have their meaning."""
        read = possible_labels if partial else lambda text: frozenset([text])
        return cls(column.ids, [read(value) for value in column.values], place)

    @classmethod
    def from_python(cls, y: Any, offsets: npt.NDArray[np.int64]) -> Annotation:
        """A user's label sequences for sequences of the given ``offsets`` [S + 1]."""
        lengths = np.diff(offsets)
        if isinstance(y, str | bytes) or not isinstance(y, Iterable):
            raise DataError(f"the labels are a {type(y).__name__}, not a list of label sequences")
        sequences = list(y)
        if len(sequences) != len(lengths):
            raise DataError(f"there are {len(lengths)} sequences but {len(sequences)} label sequences")
        index: dict[Possible, int] = {}
        ids: list[int] = []
        for i, (labels, length) in enumerate(zip(sequences, lengths.tolist(), strict=True)):
            if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
                raise DataError(f"labels of sequence {i} (from 0): a {type(labels).__name__}, not a list of labels")
            labels = list(labels)
            if len(labels) != length:
                raise DataError(f"sequence {i} (from 0) has {length} tokens but {len(labels)} labels")
            ids.extend(index.setdefault(_possible(label, i, t), len(index)) for t, label in enumerate(labels))

        def place(position: int, message: str) -> DataError:
            i = int(np.searchsorted(offsets, position, side="right")) - 1
            return DataError(f"sequence {i}, position {position - int(offsets[i])} (from 0): {message}")

        return cls(np.array(ids, dtype=np.int32), list(index), place)

    @classmethod
    def unknown(cls, n_tokens: int) -> Annotation:
        """Tokens of which nothing is known."""
        return cls(np.zeros(n_tokens, dtype=np.int32), [None], lambda t, message: DataError(message))

    @property
    def used(self) -> npt.NDArray[np.bool_]:
        """Which of the distinct annotations occur."""
        return np.bincount(self.ids, minlength=len(self.possible)) > 0

    @property
    def settled(self) -> npt.NDArray[np.bool_]:
        """Which of the N tokens have one label only."""
        return np.array([possible is not None and len(possible) == 1 for possible in self.possible], dtype=bool)[
            self.ids
        ]

    def label_names(self) -> set[str]:
        """All labels that occur."""
        labels: set[str] = set()
        for possible, used in zip(self.possible, self.used.tolist(), strict=True):
            if used and possible is not None:
                labels |= possible
        return labels

    def label_set(self, remedy: str = "") -> list[str]:
        """All labels that occur, sorted; none at all is an error that ends with ``remedy``."""
        labels = self.label_names()
        if not labels:
            raise DataError(f"no token has a label to learn from{remedy}")
        return sorted(labels)

    def gold(self, labels: Sequence[str]) -> Gold:
        """The annotation in numbers; a label that is not among ``labels`` is an error that names its place."""
        index = {label: y for y, label in enumerate(labels)}
        masks = np.zeros((len(self.possible), len(labels)), dtype=np.uint8)
        for k, (possible, used) in enumerate(zip(self.possible, self.used.tolist(), strict=True)):
            if not used:
                continue
            if possible is None:
                masks[k] = 1
                continue
            for label in possible:
                if label not in index:
                    position = int(np.argmax(self.ids == k))
                    known = ", ".join(labels[:8]) + (", ..." if len(labels) > 8 else "")
                    raise self.place(position, f"label {label!r} is not one of the model's labels ({known})")
                masks[k, index[label]] = 1
        settled = np.where(masks.sum(axis=1) == 1, masks.argmax(axis=1), -1).astype(np.int32)
        gold_labels = settled[self.ids]
        if (gold_labels >= 0).all():
            return Gold(gold_labels)
        return Gold(gold_labels, masks[self.ids])

    def known_only(self, labels: Collection[str]) -> npt.NDArray[np.int32]:
        """Number of each token's label among ``labels``; -1 where it has none of them or more than one."""
        index = {label: y for y, label in enumerate(labels)}
        numbers = [
            index.get(next(iter(possible)), -1) if possible is not None and len(possible) == 1 else -1
            for possible in self.possible
        ]
        return np.array(numbers, dtype=np.int32)[self.ids]


def _possible(label: Any, sequence: int, position: int) -> Possible:
    """What one Python label allows."""
    if label is None:
        return None
    if isinstance(label, str):
        if not label.isascii():
            try:
                label.encode()
            except UnicodeEncodeError:
                place = f"sequence {sequence}, position {position} (from 0)"
                raise DataError(f"{place}: the label {label!r} is no valid Unicode text") from None
        return frozenset([str(label)])
    if isinstance(label, Collection) and not isinstance(label, bytes):
        possible = frozenset(label)
        if not possible:
            raise DataError(f"sequence {sequence}, position {position} (from 0): an empty set of labels allows nothing")
        if all(isinstance(one, str) for one in possible):
            return possible
    raise DataError(
        f"sequence {sequence}, position {position} (from 0): a label is a string, None (any) or a set of strings, "
        f"not {label!r:.60}"
    )


def sequence_weights(weights: Any, n_sequences: int, each: str = "sequence") -> npt.NDArray[np.float64]:
    """Check a weight for each sequence: none negative or above :data:`MOST_WEIGHT`, not all zero.

    ``each`` is what messages call a sequence.
    """
    try:
        checked = np.ascontiguousarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise OptionError(f"sample_weight must be a number for each {each}") from None
    if checked.shape != (n_sequences,):
        raise OptionError(f"sample_weight has shape {checked.shape}; there are {n_sequences} {each}s")
    bad = np.flatnonzero(~((checked >= 0) & (checked <= MOST_WEIGHT)))
    if len(bad):
        raise OptionError(
            f"sample_weight of {each} {bad[0]} is {checked[bad[0]]:g}; weights lie between 0 and {MOST_WEIGHT:g}"
        )
    if n_sequences and not checked.any():
        raise OptionError(f"sample_weight is zero for every {each}: there is nothing to learn from")
    return checked
