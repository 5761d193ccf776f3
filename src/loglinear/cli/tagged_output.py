"""How predictions are written, in the format the data came in."""

from __future__ import annotations

from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from loglinear.data import Attributes, Column, Columns, write_columns, write_jsonl
from loglinear.errors import DataError

Int32 = npt.NDArray[np.int32]
Labellings = list[list[tuple[list[str], float]]]


class Writer(Protocol):
    """Writes predictions beside the corpus they were made for."""

    def labels(
        self, out: BinaryIO, labels: Int32, names: list[str], confidence: npt.NDArray[np.float64] | None
    ) -> None:
        """One label a token (numbers [N] into ``names``), and its probability [N] if given."""

    def labellings(self, out: BinaryIO, labellings: Labellings) -> None:
        """Several labellings a sentence, best first, each with its probability."""


def writer(corpus: Columns | Attributes) -> Writer:
    """The writer for the format the corpus came in."""
    if isinstance(corpus, Attributes):
        return _ColumnWriter(_reference_columns(corpus))
    return _JsonWriter(corpus) if corpus.records is not None else _ColumnWriter(corpus)


def _reference_columns(corpus: Attributes) -> Columns:
    """The gold labels of an attribute file as a column (attributes are not written back)."""
    columns = [] if corpus.label is None else [corpus.label]
    return Columns(corpus.name, corpus.offsets, corpus.lines, columns)


def _probabilities(confidence: npt.NDArray[np.float64]) -> Column:
    """Probabilities to four digits, as a factorised column."""
    thousandths = np.rint(confidence * 10_000).astype(np.int64)
    distinct, ids = np.unique(thousandths, return_inverse=True)
    return Column(ids.astype(np.int32), [f"{value / 10_000:.4f}" for value in distinct.tolist()])


class _ColumnWriter:
    def __init__(self, corpus: Columns) -> None:
        self._corpus = corpus

    def labels(
        self, out: BinaryIO, labels: Int32, names: list[str], confidence: npt.NDArray[np.float64] | None
    ) -> None:
        appended = [Column(labels, names)]
        if confidence is not None:
            appended.append(_probabilities(confidence))
        write_columns(self._corpus, out, appended)

    def labellings(self, out: BinaryIO, labellings: Labellings) -> None:
        for label in {label for ranked in labellings for labels, _ in ranked for label in labels}:
            if not label or any(character.isspace() for character in label):
                raise DataError(f"the label {label!r:.60} cannot be written as a field of a column file")
        rows = self._corpus.rows()
        for number, (sentence, ranked) in enumerate(zip(rows, labellings, strict=True), 1):
            for rank, (labels, probability) in enumerate(ranked, 1):
                lines = [f"# sentence = {number}, rank = {rank}, probability = {probability:.6f}"]
                lines += [" ".join((*row, label)) for row, label in zip(sentence, labels, strict=True)]
                out.write(("\n".join(lines) + "\n\n").encode())


class _JsonWriter:
    def __init__(self, corpus: Columns) -> None:
        self._corpus = corpus

    def labels(
        self, out: BinaryIO, labels: Int32, names: list[str], confidence: npt.NDArray[np.float64] | None
    ) -> None:
        strings = Column(labels, names).strings()
        extra: dict[str, list[Any]] = {"predicted": self._sentences(strings)}
        if confidence is not None:
            extra["confidence"] = self._sentences(np.round(confidence, 4).tolist())
        write_jsonl(self._corpus, out, extra)

    def labellings(self, out: BinaryIO, labellings: Labellings) -> None:
        nbest = [[{"labels": labels, "probability": round(p, 6)} for labels, p in ranked] for ranked in labellings]
        write_jsonl(self._corpus, out, {"nbest": nbest})

    def _sentences(self, values: list[Any]) -> list[list[Any]]:
        bounds = self._corpus.offsets.tolist()
        return [values[bounds[i] : bounds[i + 1]] for i in range(len(bounds) - 1)]
