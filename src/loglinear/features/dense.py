"""Dense features: columns of real numbers (embeddings, measurements) that every token has.

A corpus keeps them as a matrix [N, W] under each name, NaN in the rows of tokens that do not have it. For a model they
are one matrix ``M`` [N, K], the columns of all names side by side, standardised by the training data:

    M[t, k]  =  (x[t, k] - mean[k]) / scale[k]                          0 where a token has none

    scores     emission  +=  M W                    W [K, Y]: a weight for each column and label
    gradient   d/dW       =  M^T (d/d emission)

so that a pass over them is two products of matrices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from loglinear.arrays import Arrays, Float, Int64
from loglinear.data.columns.corpus import MOST_VALUE, Attributes, Columns
from loglinear.data.vectors import WordVectors
from loglinear.errors import DataError, OptionError
from loglinear.model_file import string_arrays
from loglinear.system import check_memory
from loglinear.wording import how_many

if TYPE_CHECKING:
    from loglinear.model_file import Reader

VECTOR = "vector"  # the name of the columns of word vectors
MOST_COLUMNS = 1 << 20


@dataclass(frozen=True)
class DenseColumns:
    """The dense columns of a model.

    Parameters
    ----------
    widths : dict from str to int
        How many columns each name has, in their order; K in all.
    mean, scale : float64 [K]
        Subtracted from the columns, and what they are then divided by.
    vectors : WordVectors or None
        Vectors of the words in a corpus' first column; the columns named :data:`VECTOR`.
    """

    widths: dict[str, int]
    mean: Float
    scale: Float
    vectors: WordVectors | None = None

    @classmethod
    def fit(cls, corpus: Columns | Attributes, standardise: bool, vectors: WordVectors | None) -> DenseColumns | None:
        """Those of a training corpus; None if it has none."""
        given = _with_vectors(corpus, vectors)
        widths = {name: matrix.shape[1] for name, matrix in given.items()}
        k = sum(widths.values())
        if not k:
            return None
        columns = cls(widths, np.zeros(k), np.ones(k), vectors)
        if not standardise:
            return columns
        found = [_moments(matrix) for matrix in given.values()]
        mean, scale = (np.concatenate([moments[i] for moments in found]) for i in (0, 1))
        return cls(widths, mean, scale, vectors)

    @property
    def n_columns(self) -> int:
        """K."""
        return len(self.mean)

    def names(self) -> list[str]:
        """A name for each column: ``name:0``, ``name:1``, ..."""
        return [f"{name}:{i}" for name, width in self.widths.items() for i in range(width)]

    def matrix(self, corpus: Columns | Attributes) -> Float:
        """The matrix M [N, K] of a corpus."""
        n = corpus.n_tokens
        check_memory(8.0 * n * self.n_columns, f"{self.n_columns:,} dense features of {n:,} tokens")
        given = _with_vectors(corpus, self.vectors)
        if unknown := sorted(set(given) - set(self.widths)):
            raise DataError(f"the model was trained without the dense feature {unknown[0]!r}", corpus.name)
        if n and (missing := [name for name in self.widths if name not in given]):
            raise DataError(f"the model needs the dense feature {missing[0]!r}, which no token has", corpus.name)
        out, k = np.empty((n, self.n_columns)), 0
        for name, width in self.widths.items() if n else ():
            rows, own = given[name], slice(k, k + width)
            if rows.shape[1] != width:
                message = f"the dense feature {name!r} has {rows.shape[1]} numbers, in training it had {width}"
                raise DataError(message, corpus.name)
            np.subtract(rows, self.mean[own], out=out[:, own])
            out[:, own] /= self.scale[own]
            k += width
        np.nan_to_num(out, copy=False, nan=0.0, posinf=np.inf, neginf=-np.inf)
        if not np.isfinite(out).all():
            raise DataError("a dense feature is too large a number; scale it", corpus.name)
        return out

    def places_of(self, other: DenseColumns) -> Int64:
        """For each of ``other``'s columns the number of the same column here, -1 if there is none."""
        number = {name: k for k, name in enumerate(self.names())}
        return np.array([number.get(name, -1) for name in other.names()], dtype=np.int64)

    def to_header(self) -> dict[str, Any]:
        """What :meth:`from_storage` reads, together with the arrays."""
        return {"names": list(self.widths), "widths": list(self.widths.values()), "vectors": self.vectors is not None}

    def to_arrays(self) -> Arrays:
        arrays: Arrays = {"mean": self.mean, "scale": self.scale}
        if self.vectors is not None:
            arrays |= {"vectors": self.vectors.matrix, **string_arrays("words", self.vectors.words)}
        return arrays

    @classmethod
    def from_storage(cls, read: Reader) -> DenseColumns:
        """Rebuild; checks every bound."""
        names, widths = read.names("names"), read.value("widths")
        if not isinstance(widths, list) or not all(type(w) is int and 0 < w <= MOST_COLUMNS for w in widths):
            read.fail("widths", "not a list of numbers of columns")
        if len(names) != len(widths) or sum(widths) > MOST_COLUMNS:
            read.fail("widths", "they do not fit the names")
        k = sum(widths)
        mean, scale = read.floats("mean", (k,)), read.floats("scale", (k,), 1e-300, 1e300)
        vectors = None
        if read.flag("vectors"):
            words = read.strings("words", distinct=True)
            sizes = dict(zip(names, widths, strict=True))
            if VECTOR not in sizes:
                read.fail("names", "the columns of the word vectors are missing")
            with read.building("vectors"):
                table = read.floats("vectors", (len(words), sizes[VECTOR])).astype(np.float32)
                vectors = WordVectors(words, table)
        return cls(dict(zip(names, widths, strict=True)), mean, scale, vectors)


def _with_vectors(corpus: Columns | Attributes, vectors: WordVectors | None) -> dict[str, Float]:
    """The dense features of a corpus, those of its words among them."""
    given = dict(corpus.dense or {})
    if vectors is None:
        return given
    if not isinstance(corpus, Columns):
        raise OptionError(
            "vectors are those of words in columns; to ready-made features add them yourself: "
            "{'vector': vectors[word], ...}"
        )
    if VECTOR in given:
        raise OptionError(f"there are word vectors, and arrays that are called {VECTOR!r}, too")
    if corpus.columns:
        column = corpus.columns[0]
        given[VECTOR] = vectors.rows(column.values)[column.ids]
    return given


def _moments(matrix: Float) -> tuple[Float, Float]:
    """Mean and standard deviation of each column, of the tokens that have it; 1 for columns that are constant."""
    present = ~np.isnan(matrix[:, 0])
    rows = matrix if present.all() else matrix[present]
    mean = rows.mean(axis=0, dtype=np.float64)
    variance = np.zeros(rows.shape[1])
    for first in range(0, len(rows), 1 << 14):
        variance += ((rows[first : first + (1 << 14)] - mean) ** 2).sum(axis=0)
    scale = np.sqrt(variance / len(rows))
    scale[scale <= 1e-12 * np.maximum(1.0, np.abs(mean))] = 1.0
    return mean, scale


# ----------------------------------------------------------------------------------------------------------------------
# From what users give to matrices: arrays in dicts, arrays beside the tokens, arrays alone.
#
#     {"w": "Rome", "emb": array [W]}      in a dict: the name is the key
#     (tokens, array [T, W])               beside the tokens of a sequence: the name is ARRAY
#     array [T, W]                         alone: ARRAY, and each token has the attribute BIAS
#
# A sparse matrix of SciPy's in place of an array gives attributes (``array:j``) instead: its zeros cost nothing.

ARRAY, BIAS = "array", "bias"


class DenseRows:
    """Collects the dense features of tokens, position by position."""

    def __init__(self) -> None:
        self._pieces: dict[str, list[tuple[Any, Float]]] = {}  # by name: positions (a slice or a list) and their rows

    def add(self, name: str, positions: Any, rows: Float) -> None:
        """The rows [n, W] of n positions; DataError if W is another number than before."""
        pieces = self._pieces.setdefault(name, [])
        if pieces and pieces[0][1].shape[1] != rows.shape[1]:
            was = pieces[0][1].shape[1]
            raise DataError(f"the dense feature {name!r} has {rows.shape[1]} numbers here, and {was} before")
        pieces.append((positions, rows))

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added."""
        return not self._pieces

    def matrices(self, n: int) -> dict[str, Float] | None:
        """The matrix [n, W] of each name; None if there are none."""
        found: dict[str, Float] = {}
        for name, pieces in self._pieces.items():
            check_memory(8.0 * n * pieces[0][1].shape[1], f"the dense feature {name!r} of {n:,} tokens")
            found[name] = np.full((n, pieces[0][1].shape[1]), np.nan)
            for positions, rows in pieces:
                found[name][positions] = rows
        return found or None


def is_array(value: Any) -> bool:
    """Whether a value of a dict is a row of numbers: an array, or a list or tuple of numbers."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0 and value.dtype.kind in "fiub"
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(number, int | float | np.number) and not isinstance(number, bool) for number in value)


def taken_out(tokens: Sequence[Any], names: set[Any]) -> tuple[list[Any], dict[str, tuple[list[int], Float]]]:
    """Dicts without their arrays, and the arrays of each name as positions and rows; ``names`` are known to be arrays.

    Names of new ones are added to ``names``. DataError begins with the number of the token.
    """
    for token in tokens:
        if isinstance(token, Mapping):
            names.update(name for name, value in token.items() if is_array(value))
    if not names:
        return list(tokens), {}
    left: list[Any] = []
    found: dict[str, tuple[list[int], list[Any]]] = {}
    for t, token in enumerate(tokens):
        if not isinstance(token, Mapping) or names.isdisjoint(token):
            left.append(token)
            continue
        for name, value in token.items():  # in the token's order, so that columns have one
            if name not in names:
                continue
            if not is_array(value):
                raise ArrayError(t, f"feature {name!r} is an array at other tokens, and {value!r:.60} here")
            positions, rows = found.setdefault(name if isinstance(name, str) else name.decode(), ([], []))
            positions.append(t)
            rows.append(value)
        left.append({name: value for name, value in token.items() if name not in names})
    return left, {name: (positions, _stacked(name, positions, rows)) for name, (positions, rows) in found.items()}


def _stacked(name: str, positions: list[int], rows: list[Any]) -> Float:
    """The rows of a name, all alike, as a matrix of finite numbers."""
    shapes = [np.shape(row) for row in rows]
    for t, shape in zip(positions, shapes, strict=True):
        if len(shape) != 1 or not shape[0]:
            raise ArrayError(t, f"feature {name!r} is an array of shape {shape}; a token has a row of numbers")
        if shape != shapes[0]:
            raise ArrayError(t, f"feature {name!r} has {shape[0]} numbers here, and {shapes[0][0]} before")
    matrix = np.array(rows, dtype=np.float64)
    _check_numbers(matrix, positions, f"feature {name!r}")
    return matrix


class ArrayError(DataError):
    """A dense feature of a token that cannot be used; ``token`` is its number."""

    def __init__(self, token: int, message: str) -> None:
        super().__init__(message)
        self.token = token


def _check_numbers(rows: Float, tokens: Sequence[int], what: str) -> None:
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(rows) <= MOST_VALUE)
    if wrong.any():
        t, k = (int(i) for i in np.argwhere(wrong)[0])
        message = f"{what} has the number {rows[t, k]} at {k} (from 0); numbers are finite, at most {MOST_VALUE:g}"
        raise ArrayError(tokens[t], message)


def is_matrix(x: Any) -> bool:
    """Whether a sequence, or what stands beside its tokens, is a matrix: of NumPy's or SciPy's."""
    return (isinstance(x, np.ndarray) and x.ndim == 2 and x.dtype.kind in "fiub") or _is_sparse(x)


def _is_sparse(x: Any) -> bool:
    return hasattr(x, "tocsr") and getattr(x, "ndim", 0) == 2


def is_pair(x: Any) -> bool:
    """Whether a sequence is (tokens, matrix)."""
    return isinstance(x, tuple) and len(x) == 2 and is_matrix(x[1]) and not is_matrix(x[0])


def parted(x: Any) -> tuple[Any, Float | None]:
    """The tokens of a sequence, and the matrix [T, W] that it is or that stands beside them (None if there is none).

    A sparse matrix becomes attributes of the tokens. ArrayError for numbers that are none.
    """
    if not (is_pair(x) or is_matrix(x)):
        return x, None
    tokens, matrix = x if is_pair(x) else ([{BIAS: True}] * x.shape[0], x)
    if callable(items := getattr(tokens, "items", None)) and not isinstance(tokens, Mapping):
        tokens = items()
    tokens = list(tokens)
    if len(tokens) != matrix.shape[0]:
        numbers = how_many(matrix.shape[0], "row")
        raise DataError(f"it has {how_many(len(tokens), 'token')}, but {numbers} of numbers beside them")
    if not _is_sparse(matrix):
        rows = np.asarray(matrix, dtype=np.float64)
        _check_numbers(rows, range(len(rows)), "the row of numbers")
        return tokens, rows if rows.shape[1] else None
    csr = matrix.tocsr()
    bounds, columns, values = csr.indptr.tolist(), csr.indices.tolist(), csr.data.tolist()
    found: list[Any] = []
    for t, token in enumerate(tokens):
        own = {f"{ARRAY}:{columns[j]}": values[j] for j in range(bounds[t], bounds[t + 1])}
        if not isinstance(token, Mapping):
            if isinstance(token, str | bytes) or not isinstance(token, Iterable):
                raise ArrayError(t, f"beside a sparse matrix, tokens are dicts or lists of strings, not {token!r:.60}")
            token = dict.fromkeys(token, True)
        found.append({**token, **own})
    return found, None


def parted_rows(X: Iterable[Any]) -> tuple[list[Any], DenseRows | None]:
    """Sequences of token rows without the matrices beside them, and these; None if there are none."""
    dense, tokens, n = DenseRows(), list[Any](), 0
    for i, x in enumerate(X):
        if is_matrix(x) or (is_pair(x) and _is_sparse(x[1])):
            raise DataError(f"sequence {i} (from 0): a template looks at rows of strings; give (rows, dense array)")
        try:
            own, matrix = parted(x)
            if matrix is not None:
                dense.add(ARRAY, slice(n, n + len(matrix)), matrix)
                n += len(matrix)
            elif hasattr(own, "__iter__") and not isinstance(own, str | bytes):
                own = own if hasattr(own, "__len__") else list(own)
                n += len(own)
        except DataError as error:
            raise placed(error, i) from None
        tokens.append(own)
    return tokens, None if dense.is_empty else dense


def placed(error: DataError, i: int) -> DataError:
    """The error with the sequence that it is about, and the position if it knows it."""
    where = f", position {error.token}" if isinstance(error, ArrayError) else ""
    return DataError(f"sequence {i}{where} (from 0): {error}")


def vectors_of(vectors: WordVectors | str | Path | None) -> WordVectors | None:
    """Word vectors, read from a file if that is what is given."""
    return vectors if vectors is None or isinstance(vectors, WordVectors) else WordVectors.read(vectors)
