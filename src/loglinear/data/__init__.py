"""Room 1, text in: readers, writers and the bundled corpus.

Importing this room is cheap: each name is imported when it is first used, and Numba when a file is read or written.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loglinear.data.columns import format_of, read, read_spans
    from loglinear.data.columns.arrow_file import read_arrow_columns, write_arrow_columns
    from loglinear.data.columns.attribute_file import read_attributes, write_attributes
    from loglinear.data.columns.column_file import read_columns, write_columns
    from loglinear.data.columns.conllu_file import read_conllu_columns, write_conllu_columns
    from loglinear.data.columns.corpus import Attributes, Column, Columns
    from loglinear.data.columns.table_file import from_frame, read_table_columns, write_table_columns
    from loglinear.data.columns.text_file import from_datasets, read_jsonl, read_text, write_jsonl
    from loglinear.data.dependencies import Dependencies, read_conllu, write_conllu
    from loglinear.data.files import atomic_output
    from loglinear.data.frames import features_from_frame
    from loglinear.data.spans import Convention, Span, Text, TextFile, read_texts, write_texts
    from loglinear.data.vectors import WordVectors, read_vectors

_NAMES = {
    "columns": "format_of read read_spans",
    "columns.arrow_file": "read_arrow_columns write_arrow_columns",
    "columns.attribute_file": "read_attributes write_attributes",
    "columns.column_file": "read_columns write_columns",
    "columns.conllu_file": "read_conllu_columns write_conllu_columns",
    "columns.corpus": "Attributes Column Columns",
    "columns.table_file": "from_frame read_table_columns write_table_columns",
    "columns.text_file": "from_datasets read_jsonl read_text write_jsonl",
    "dependencies": "Dependencies read_conllu write_conllu",
    "files": "atomic_output",
    "frames": "features_from_frame",
    "vectors": "WordVectors read_vectors",
    "spans": "Convention Span Text TextFile read_texts write_texts",
}
_HOMES = {name: f"loglinear.data.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "Attributes",
    "Column",
    "Columns",
    "Convention",
    "Dependencies",
    "Span",
    "Text",
    "TextFile",
    "WordVectors",
    "atomic_output",
    "features_from_frame",
    "format_of",
    "from_datasets",
    "from_frame",
    "read",
    "read_arrow_columns",
    "read_attributes",
    "read_columns",
    "read_conllu",
    "read_conllu_columns",
    "read_jsonl",
    "read_spans",
    "read_table_columns",
    "read_text",
    "read_texts",
    "read_vectors",
    "write_arrow_columns",
    "write_attributes",
    "write_columns",
    "write_conllu",
    "write_conllu_columns",
    "write_jsonl",
    "write_table_columns",
    "write_texts",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'loglinear.data' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
