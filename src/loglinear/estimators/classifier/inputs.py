"""A classifier's inputs, as rows of numbers [S, A].

    numbers      dense arrays, data frames, SciPy sparse matrices: the columns as they are
    documents    strings: how often each word, token or run of characters occurs (``text``)
    names        dicts or lists of strings, also made by a user's function (``features``): Python features, by name
    template     rows of columns: the attributes that a template makes, those of all positions of an example added up
    table        what :func:`~loglinear.data.tables.read_table` reads: numbers, categories and texts

Each has a :class:`RowEncoder`: ``fit`` and ``transform`` make rows, ``names`` says what the columns are, and the rest
is what a model file keeps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from loglinear.arrays import Array, Int64
from loglinear.data.columns.corpus import Attributes, Columns
from loglinear.data.tables import TableFile
from loglinear.errors import DataError, OptionError
from loglinear.estimators.options import learns_from_counts
from loglinear.features.encoding import EncodedCorpus
from loglinear.features.joined import joined
from loglinear.features.names import NameEncoder, attributes_of_examples
from loglinear.features.tables import BagOfWords, TableFeatures
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.language import TemplateSet
from loglinear.features.templates.sets import load_template

Arrays = Mapping[str, Array]
Rows = Any  #: float64 [S, A], or a SciPy matrix in CSR
NUMBERS, DOCUMENTS, NAMES, TEMPLATE, TABLE = "numbers", "documents", "names", "template", "table"
HOLDERS = (str, list, tuple, set, frozenset, Mapping)  # types of examples that may be empty


def kind_of(X: Any) -> str:
    """The kind of data in ``X``, by its type and, for lists, its first example that is not empty."""
    if isinstance(X, Attributes):
        return NAMES
    if isinstance(X, TableFile):
        return TABLE
    if isinstance(X, Columns):
        raise OptionError(f"{X.name} holds columns, and columns need a template")
    if sp.issparse(X):
        return NUMBERS
    if isinstance(X, str | bytes | Mapping):
        raise DataError(f"X is a {type(X).__name__}, not a list of examples")
    if getattr(X, "ndim", 1) != 1 or not hasattr(X, "__iter__"):
        return NUMBERS
    first = next((x for x in X if not isinstance(x, HOLDERS) or len(x)), None)
    if first is None:  # all are empty
        first = next(iter(X), None)
        return DOCUMENTS if isinstance(first, str) else NAMES if isinstance(first, HOLDERS) else NUMBERS
    if isinstance(first, str):
        return DOCUMENTS
    named = isinstance(first, Mapping | set | frozenset)
    return NAMES if named or (isinstance(first, list | tuple) and isinstance(first[0], str)) else NUMBERS


def rows_of(encoded: EncodedCorpus, n_columns: int) -> sp.csr_matrix:
    """The attributes of all positions of each sequence, added up [S, A]."""
    state = encoded.state
    values = np.ones(len(state.ids)) if state.values is None else state.values
    rows = sp.csr_matrix((values, state.ids, state.pointer[encoded.offsets]), shape=(encoded.n_sequences, n_columns))
    rows.sum_duplicates()
    return rows


class RowEncoder(ABC):
    """Makes rows of examples."""

    kind: ClassVar[str]

    @property
    def n_columns(self) -> int:
        """A."""
        return len(self.names())

    @abstractmethod
    def fit(self, X: Any, min_count: int, n_threads: int) -> Rows:
        """Find the columns of training examples, and make their rows."""

    @abstractmethod
    def transform(self, X: Any, n_threads: int) -> Rows:
        """Rows of other examples; what training did not see is left out."""

    def grown(self, X: Any, min_count: int, n_threads: int) -> tuple[RowEncoder, Rows]:
        """An encoder that also has the columns of more training examples, and their rows.

        Columns of numbers and those of tables stay what they are.
        """
        return self, self.transform(X, n_threads)

    def places_of(self, known: RowEncoder) -> Int64:
        """Where the columns of an encoder are that this one was :meth:`grown` from."""
        return np.arange(known.n_columns)

    @abstractmethod
    def names(self) -> list[str]:
        """The columns' names [A]."""

    @abstractmethod
    def to_header(self) -> dict[str, Any]:
        """Its part of a model file's header."""

    def to_arrays(self) -> dict[str, Array]:
        """Its arrays in a model file."""
        return {}

    @property
    def strings(self) -> list[str]:
        """Its strings in a model file."""
        return self.names()

    @classmethod
    @abstractmethod
    def from_storage(cls, header: dict[str, Any], arrays: Arrays, strings: list[str]) -> RowEncoder:
        """Rebuild from what was stored."""


class NumberRows(RowEncoder):
    """Columns of numbers; the estimator checks them, as scikit-learn's do.

    Parameters
    ----------
    size : int
        How many columns there are.
    columns : list of str, optional
        Their names, if they have any.
    """

    kind = NUMBERS

    def __init__(self, size: int, columns: list[str] | None = None) -> None:
        self._size, self.columns = size, columns

    @property
    def n_columns(self) -> int:
        return self._size

    def fit(self, X: Any, min_count: int, n_threads: int) -> Rows:
        return X

    def transform(self, X: Any, n_threads: int) -> Rows:
        return X

    def names(self) -> list[str]:
        return [f"x{i}" for i in range(self._size)] if self.columns is None else self.columns

    def to_header(self) -> dict[str, Any]:
        return {"columns": self._size, "named": self.columns is not None}

    @property
    def strings(self) -> list[str]:
        return self.columns or []

    @classmethod
    def from_storage(cls, header: dict[str, Any], arrays: Arrays, strings: list[str]) -> NumberRows:
        n = header["columns"]
        if type(n) is not int or n < 1 or (header["named"] and len(strings) != n):
            raise ValueError("the columns do not fit together")
        return cls(n, strings if header["named"] else None)


class DocumentRows(RowEncoder):
    """Counts of words, tokens or runs of characters in strings.

    Parameters
    ----------
    text : str
        How a string is split, as in ``"words:ngrams=2"``.
    """

    kind = DOCUMENTS

    def __init__(self, text: str, words: BagOfWords | None = None) -> None:
        self.text = text
        self._words = BagOfWords(text, ()) if words is None else words

    def fit(self, X: Any, min_count: int, n_threads: int) -> Rows:
        self._words = BagOfWords.fit(_documents(X), self.text, min_count)
        return self.transform(X, n_threads)

    def transform(self, X: Any, n_threads: int) -> Rows:
        return self._words.matrix(_documents(X))

    def grown(self, X: Any, min_count: int, n_threads: int) -> tuple[RowEncoder, Rows]:
        known = dict.fromkeys(self._words.vocabulary)
        new = BagOfWords.fit(_documents(X), self.text, min_count).vocabulary
        encoder = DocumentRows(self.text, BagOfWords(self.text, tuple(known | dict.fromkeys(new))))
        return encoder, encoder.transform(X, n_threads)

    def names(self) -> list[str]:
        return list(self._words.vocabulary)

    def to_header(self) -> dict[str, Any]:
        return {"text": self.text}

    @classmethod
    def from_storage(cls, header: dict[str, Any], arrays: Arrays, strings: list[str]) -> DocumentRows:
        if not strings:
            raise ValueError("there are no words")
        return cls(header["text"], BagOfWords.from_dict({"spec": header["text"], "vocabulary": strings}))


def _documents(X: Any) -> list[str]:
    if isinstance(X, str):
        raise DataError(f"X is the string {X!r:.40}; give a list of documents, be it of one")
    documents = list(X)
    for i, document in enumerate(documents):
        if not isinstance(document, str):
            raise DataError(f"example {i} (from 0) is {document!r:.60}, not a string as the others are")
    return documents


class EncodedRows(RowEncoder):
    """Rows of the attributes that an encoder of sequences finds."""

    encoder: NameEncoder | TemplateEncoder

    def places_of(self, known: RowEncoder) -> Int64:
        assert isinstance(known, EncodedRows)
        return self.encoder.matching(known.encoder).astype(np.int64)  # type: ignore[arg-type]  # of the same class

    @property
    def n_columns(self) -> int:
        return self.encoder.n_attributes

    def names(self) -> list[str]:
        return self.encoder.names()

    def to_header(self) -> dict[str, Any]:
        return self.encoder.to_header()

    def to_arrays(self) -> dict[str, Array]:
        return self.encoder.to_arrays()

    @property
    def strings(self) -> list[str]:
        return self.encoder.strings


class NamedRows(EncodedRows):
    """Attributes that come with names."""

    kind = NAMES
    encoder: NameEncoder

    def __init__(self, encoder: NameEncoder | None = None) -> None:
        self.encoder = NameEncoder() if encoder is None else encoder

    def fit(self, X: Any, min_count: int, n_threads: int) -> Rows:
        return rows_of(self.encoder.fit(_named(X), min_count), self.n_columns)

    def transform(self, X: Any, n_threads: int) -> Rows:
        return rows_of(self.encoder.transform(_named(X)), self.n_columns)

    def grown(self, X: Any, min_count: int, n_threads: int) -> tuple[RowEncoder, Rows]:
        new, corpus = NameEncoder(), _named(X)
        new.fit(corpus, min_count)
        encoder = NamedRows(joined(self.encoder, new))
        return encoder, encoder.transform(corpus, n_threads)

    @classmethod
    def from_storage(cls, header: dict[str, Any], arrays: Arrays, strings: list[str]) -> NamedRows:
        return cls(NameEncoder.from_storage(header, arrays, strings))


def _named(X: Any) -> Attributes:
    return X if isinstance(X, Attributes) else attributes_of_examples(X)


class TemplateRows(EncodedRows):
    """The attributes that a template makes of rows of columns.

    Parameters
    ----------
    template : str, path or TemplateSet
        As for :class:`loglinear.Tagger`.
    encoder : TemplateEncoder, optional
        That of a trained model.
    """

    kind = TEMPLATE
    encoder: TemplateEncoder

    def __init__(self, template: str | Path | TemplateSet, encoder: TemplateEncoder | None = None) -> None:
        self.template = template
        if encoder is not None:
            self.encoder = encoder

    def fit(self, X: Any, min_count: int, n_threads: int) -> Rows:
        corpus = _columns(X)
        self.encoder = TemplateEncoder(load_template(self.template, corpus.n_columns))
        return rows_of(self.encoder.fit(corpus, min_count, n_threads), self.n_columns)

    def transform(self, X: Any, n_threads: int) -> Rows:
        return rows_of(self.encoder.transform(_columns(X), n_threads), self.n_columns)

    def grown(self, X: Any, min_count: int, n_threads: int) -> tuple[RowEncoder, Rows]:
        corpus = _columns(X)
        new = TemplateRows(self.template)
        new.fit(corpus, min_count, n_threads)
        encoder = TemplateRows(self.template, joined(self.encoder, new.encoder))
        return encoder, encoder.transform(corpus, n_threads)

    @classmethod
    def from_storage(cls, header: dict[str, Any], arrays: Arrays, strings: list[str]) -> TemplateRows:
        encoder = TemplateEncoder.from_storage(header, arrays, strings)
        return cls(encoder.templates, encoder)


class TableRows(RowEncoder):
    """Numbers, categories and texts of a table.

    Parameters
    ----------
    kinds : mapping or None
        What columns are (:class:`~loglinear.features.tables.TableFeatures`).
    text : str
        How texts are split.
    raw_numbers : bool
        Whether numbers stay as they are.
    features : TableFeatures, optional
        Those of a trained model.
    """

    kind = TABLE
    features: TableFeatures

    def __init__(
        self, kinds: Mapping[str, str] | None, text: str, raw_numbers: bool, features: TableFeatures | None = None
    ) -> None:
        self.kinds, self.text, self.raw_numbers = kinds, text, raw_numbers
        if features is not None:
            self.features = features

    def fit(self, X: Any, min_count: int, n_threads: int) -> Rows:
        self.features = TableFeatures.fit(
            X, self.kinds, text=self.text, raw_numbers=self.raw_numbers, min_count=min_count
        )
        return self.transform(X, n_threads)

    def transform(self, X: Any, n_threads: int) -> Rows:
        if not isinstance(X, TableFile):
            raise OptionError(f"the model was trained on a table (read_table), X is a {type(X).__name__}")
        return self.features.matrix(X)

    def names(self) -> list[str]:
        return self.features.names

    def to_header(self) -> dict[str, Any]:
        return self.features.to_header()

    @property
    def strings(self) -> list[str]:
        return self.features.strings

    @classmethod
    def from_storage(cls, header: dict[str, Any], arrays: Arrays, strings: list[str]) -> TableRows:
        features = TableFeatures.from_storage(header, strings)
        return cls(features.kinds, "words", False, features)


def _columns(X: Any) -> Columns:
    """Examples as sequences of rows: a list is a sequence, a tuple of strings (or a data frame's row) one row."""
    if isinstance(X, Columns):
        return X
    if isinstance(X, Attributes):
        raise OptionError(f"{X.name} holds ready-made features, but the template looks at columns")
    if isinstance(X, str | bytes | Mapping) or not hasattr(X, "__iter__"):
        raise DataError(f"X is a {type(X).__name__}, not a list of examples")
    if getattr(X, "ndim", 1) == 2:
        X = list(map(tuple, np.asarray(X).tolist()))
    return Columns.from_rows([[x] if _is_row(x) else x for x in X])


def _is_row(x: Any) -> bool:
    return isinstance(x, str) or (isinstance(x, tuple) and all(isinstance(value, str) for value in x))


def made_features(features: Callable[[Any], Any], X: Iterable[Any]) -> list[Any]:
    """What a user's function makes of each example; an error in it names the example."""
    made = []
    for i, x in enumerate(X):
        try:
            made.append(features(x))
        except Exception as error:
            raise DataError(f"example {i} (from 0): features raised {type(error).__name__}: {error}") from error
    return made


ENCODERS: dict[str, type[RowEncoder]] = {
    encoder.kind: encoder for encoder in (NumberRows, DocumentRows, NamedRows, TemplateRows, TableRows)
}


def new_encoder(X: Any, options: Any) -> RowEncoder:
    """The encoder to fit to ``X``, by a classifier's options; that of numbers still needs its columns."""
    if options.template is not None:
        return TemplateRows(options.template)
    kind = NAMES if options.features is not None else kind_of(X)
    if kind == TABLE:
        raw = options.raw_numbers or learns_from_counts(options.criterion)
        return TableRows(options.kinds, options.text, raw)
    if options.kinds:
        raise OptionError(f"kinds={options.kinds!r:.60} is of the columns of a table (read_table); X is none")
    if kind == NUMBERS:
        return NumberRows(0)
    return NamedRows() if kind == NAMES else DocumentRows(options.text)
