"""One entry point for all formats of corpora: chooses the reader by format name or file extension."""

from __future__ import annotations

from typing import Any

from loglinear.data.columns.attribute_file import read_attributes
from loglinear.data.columns.column_file import read_columns
from loglinear.data.columns.corpus import Attributes, Columns
from loglinear.data.columns.text_file import read_jsonl, read_text
from loglinear.data.files import Source, source_name
from loglinear.errors import OptionError

READERS: dict[str, Any] = {
    "columns": read_columns,
    "crfsuite": read_attributes,
    "jsonl": read_jsonl,
    "text": read_text,
}


def format_of(source: Source) -> str:
    """Format by extension: ``.jsonl``, ``.crfsuite`` (also before ``.gz``), anything else columns."""
    name = source_name(source).lower().removesuffix(".gz")
    return next((form for form in ("jsonl", "crfsuite") if name.endswith(f".{form}")), "columns")


def read(source: Source, format: str = "auto", **options: Any) -> Columns | Attributes:
    """Read a corpus.

    Parameters
    ----------
    source : path, ``-`` or open binary file
        Also compressed with gzip.
    format : {"auto", "columns", "crfsuite", "jsonl", "text"}
        ``auto`` goes by the extension, see :func:`format_of`.
    **options
        Passed to the reader of that format, for instance ``separator="tab"`` to :func:`read_columns`.
    """
    if format == "auto":
        format = format_of(source)
    if format not in READERS:
        raise OptionError(f"format is {format!r}; choose one of auto, {', '.join(READERS)}")
    corpus: Columns | Attributes = READERS[format](source, **options)
    return corpus
