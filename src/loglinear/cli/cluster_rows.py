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
    """Names of columns of numbers; or a column of text, and how it is cut into words."""

    numbers: tuple[str, ...]
    text: str | None = None
    words: BagOfWords | None = None

    @classmethod
    def choose(
        cls, table: TableFile, columns: Sequence[str], text: str | None, cut: str, min_count: int, labels: str | None
    ) -> ClusterRows:
        """What the command line asks for; without ``columns`` or ``text``, all columns of numbers.

        A table that has none of these, but one column of text, is taken by its text.
        """
        free = [name for name in table.columns if name != labels]
        kinds = {name: kind_of(table.columns[name]) for name in free}
        if not columns and text is None:
            columns = [name for name in free if kinds[name] == "number"]
            texts = [name for name in free if kinds[name] == "text"]
            if not columns and len(texts) == 1:
                text = texts[0]
            elif not columns:
                raise DataError(
                    f"no column holds numbers alone (there are: {', '.join(table.columns)}); name a column of text "
                    "with --text, or columns of numbers with --columns",
                    table.file,
                )
        if text is not None:
            words = BagOfWords.fit(table.column(text), cut, min_count)
            if not words.vocabulary:
                raise DataError(f"--min-count {min_count}: no word of column {text!r} is in so many rows", table.file)
            return cls((), text, words)
        if labels in columns:
            raise OptionError(f"--labels {labels} is among the --columns; a row cannot be seen by what it is to become")
        if len(set(columns)) != len(columns):
            raise OptionError(f"--columns {','.join(columns)}: a column is there twice")
        return cls(tuple(columns))

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
        assert self.text is not None
        return self.words.matrix(table.column(self.text))

    def to_dict(self) -> dict[str, Any]:
        """For a model file; words are kept there as names of columns."""
        if self.words is None:
            return {"numbers": True}
        return {"text": self.text, "cut": self.words.spec}

    @classmethod
    def of_model(cls, mixture: Any, path: object) -> ClusterRows:
        """As a model's training had them."""
        stored, names = mixture.source_, getattr(mixture, "feature_names_in_", None)
        if names is None:
            raise OptionError(f"{path} was trained on rows without names of columns; use it from Python")
        try:
            if not isinstance(stored, Mapping) or stored.get("numbers"):
                return cls(tuple(names.tolist()))
            words = BagOfWords.from_dict({"spec": stored["cut"], "vocabulary": names.tolist()})
            return cls((), str(stored["text"]), words)
        except (LoglinearError, KeyError) as error:
            raise ModelFileError(f"{path}: how its rows were made cannot be read ({error}); train anew") from None
