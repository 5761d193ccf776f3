"""What a mixture sees of a table's rows: columns of numbers, or the words of a column of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loglinear.data.table_file import TableFile
from loglinear.errors import DataError, LoglinearError, ModelFileError, OptionError
from loglinear.features.bag_of_words import BagOfWords
from loglinear.features.table_features import kind_of


@dataclass(frozen=True)
class ClusterRows:
    """Names of columns of numbers; or columns of text, taken together, and how they are cut into words."""

    numbers: tuple[str, ...]
    texts: tuple[str, ...] = ()
    words: BagOfWords | None = None

    @classmethod
    def choose(
        cls,
        table: TableFile,
        numbers: Sequence[str],
        texts: Sequence[str],
        left_out: Sequence[str],
        cut: str,
        min_count: int,
    ) -> ClusterRows:
        """What the command line asks for; if it names no columns, all columns of numbers, or else all of text."""
        for name in (*numbers, *texts, *left_out):
            table.column(name)
            if name in left_out and name in (*numbers, *texts):
                raise OptionError(f"column {name!r} cannot be both left out (or the label) and looked at")
        if not numbers and not texts:
            kinds = {name: kind_of(cells) for name, cells in table.columns.items() if name not in left_out}
            numbers = [name for name, kind in kinds.items() if kind == "number"]
            texts = [] if numbers else [name for name, kind in kinds.items() if kind == "text"]
        if texts:
            words = BagOfWords.fit(_joined(table, texts), cut, min_count)
            if not words.vocabulary:
                raise DataError(
                    f"--min-count {min_count}: no word of {', '.join(texts)} is in so many rows", table.file
                )
            return cls((), tuple(texts), words)
        if not numbers:
            there = ", ".join(table.columns)
            raise DataError(f"no column holds numbers alone, or text; name some with --text ({there})", table.file)
        return cls(tuple(dict.fromkeys(numbers)))

    @property
    def names(self) -> list[str]:
        """Names of the matrix' columns."""
        return list(self.numbers) if self.words is None else list(self.words.vocabulary)

    def matrix(self, table: TableFile, counts: bool) -> Any:
        """Rows [n, D]: an array of numbers, or words counted in CSR; ``counts``: negative numbers are refused."""
        if self.words is None:
            x = table.numbers(self.numbers)
            if counts and (x < 0.0).any():
                row, column = (int(place[0]) for place in np.nonzero(x < 0.0))
                problem = f"column {self.numbers[column]!r} is {x[row, column]:g}, and counts are not negative"
                raise DataError(
                    f"{problem}; take --components gaussian, or other columns", table.file, table.lines[row]
                )
            return x
        return self.words.matrix(_joined(table, self.texts))

    def to_dict(self) -> dict[str, Any]:
        """For a model file; words are kept there as names of columns."""
        if self.words is None:
            return {"numbers": True}
        return {"texts": list(self.texts), "words": self.words.spec}

    @classmethod
    def of_model(cls, mixture: Any, path: object) -> ClusterRows:
        """As a model's training had them."""
        stored, names = mixture.source_, getattr(mixture, "feature_names_in_", None)
        if names is None:
            raise OptionError(f"{path} was trained on rows without names of columns; use it from Python")
        try:
            if not isinstance(stored, Mapping) or stored.get("numbers"):
                return cls(tuple(names.tolist()))
            words = BagOfWords.from_dict({"spec": stored["words"], "vocabulary": names.tolist()})
            return cls((), tuple(str(name) for name in stored["texts"]), words)
        except (LoglinearError, KeyError, TypeError) as error:
            raise ModelFileError(f"{path}: how its rows were made cannot be read ({error}); train anew") from None


def _joined(table: TableFile, names: Sequence[str]) -> list[str]:
    """The text of each row, one column after the other."""
    return ["\n".join(cells) for cells in zip(*(table.column(name) for name in names), strict=True)]
