"""Word vectors: text files of word2vec, GloVe and fastText.

::

    400000 100                        a first line with the numbers of words and of columns, in word2vec and fastText
    the -0.038 -0.244 0.728 ...       a word and its numbers, separated by blanks; a word may hold blanks itself
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Float
from loglinear.data.files import Source, read_bytes, source_name
from loglinear.errors import DataError
from loglinear.system import check_memory

MOST_NUMBER = 1e15


@dataclass(eq=False)
class WordVectors:
    """A vector for each of V words.

    Parameters
    ----------
    words : list of str
        Distinct.
    matrix : float32 [V, W]
    """

    words: list[str]
    matrix: npt.NDArray[np.float32]
    _number: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        matrix = np.ascontiguousarray(self.matrix, dtype=np.float32)
        if matrix.ndim != 2 or len(matrix) != len(self.words) or not matrix.size:
            raise DataError(f"word vectors are a matrix with a row for each of {len(self.words):,} words")
        if not (np.abs(matrix) <= MOST_NUMBER).all():
            raise DataError("word vectors hold a number that is not finite, or too large")
        self.matrix, self._number = matrix, {word: i for i, word in enumerate(self.words)}
        if len(self._number) != len(self.words):
            raise DataError("a word has two vectors")

    @classmethod
    def read(cls, source: Source) -> WordVectors:
        """Read a text file, also compressed with gzip; of a word that stands there twice the first vector counts.

        Raises
        ------
        DataError
            With file and line: another number of numbers than before, one that is not finite, invalid UTF-8.
        """
        name, raw = source_name(source), read_bytes(source)
        rows = _text_of(raw, name).split("\n")
        while rows and not rows[-1].strip():
            rows.pop()
        first = 1 if rows and _is_head(rows[0]) else 0
        if len(rows) <= first:
            raise DataError("the file holds no word vectors", name)
        width = int(rows[0].split()[1]) if first else len(rows[0].split()) - 1
        if width < 1:
            raise DataError("a line is a word and its numbers", name, 1)
        check_memory(4.0 * width * len(rows), f"{len(rows):,} vectors of {width:,} numbers")
        words, matrix = dict[str, None](), np.empty((len(rows) - first, width), dtype=np.float32)
        for number, row in enumerate(rows[first:], start=first + 1):
            parts = row.rstrip("\r ").rsplit(" ", width)
            if len(parts) != width + 1 or not parts[0]:
                found = len(row.split()) - 1
                raise DataError(f"the line has {max(found, 0)} numbers after a word, not {width}", name, number)
            if parts[0] in words:
                continue
            try:
                matrix[len(words)] = parts[1:]
            except ValueError:
                raise DataError(f"what follows {parts[0]!r:.40} is not {width} numbers", name, number) from None
            if not (np.abs(matrix[len(words)]) <= MOST_NUMBER).all():
                raise DataError(f"the vector of {parts[0]!r:.40} holds a number that is not finite", name, number)
            words[parts[0]] = None
        return cls(list(words), matrix[: len(words)].copy())

    @property
    def width(self) -> int:
        """W."""
        return self.matrix.shape[1]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return self.number(word) >= 0 if isinstance(word, str) else False

    def __getitem__(self, word: str) -> npt.NDArray[np.float32]:
        """The vector of a word; zeros for a word that has none."""
        number = self.number(word)
        return self.matrix[number] if number >= 0 else np.zeros(self.width, dtype=np.float32)

    def number(self, word: str) -> int:
        """The row of a word, or else of the same in lower case; -1 if there is none."""
        found = self._number.get(word, -1)
        return found if found >= 0 else self._number.get(word.lower(), -1)

    def rows(self, words: Iterable[str]) -> Float:
        """The vectors of words [n, W], NaN for those that have none."""
        numbers = np.array([self.number(word) for word in words], dtype=np.int64)
        found = self.matrix[numbers].astype(np.float64)
        found[numbers < 0] = np.nan
        return found


def read_vectors(source: Source) -> WordVectors:
    """Read word vectors: :meth:`WordVectors.read`."""
    return WordVectors.read(source)


def _text_of(raw: bytes, name: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise DataError(
            "the line is not UTF-8 text; vectors are read from text files (.txt, .vec)", name, line
        ) from None


def _is_head(line: str) -> bool:
    """Whether a line has just the numbers of words and of columns."""
    parts = line.split()
    return len(parts) == 2 and all(part.isascii() and part.isdecimal() and len(part) < 12 for part in parts)
