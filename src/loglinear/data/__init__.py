"""Room 1, text in: readers, writers and the bundled corpus.

Importing this room is cheap: each name is imported when it is first used, and Numba when a file is read or written.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loglinear.data.columns import format_of, read
    from loglinear.data.columns.attribute_file import read_attributes, write_attributes
    from loglinear.data.columns.column_file import read_columns, write_columns
    from loglinear.data.columns.corpus import Attributes, Column, Columns
    from loglinear.data.columns.text_file import read_jsonl, read_text, write_jsonl
    from loglinear.data.dependencies import Dependencies, read_conllu, write_conllu
    from loglinear.data.files import atomic_output

_HOMES = {
    "Attributes": "loglinear.data.columns.corpus",
    "Column": "loglinear.data.columns.corpus",
    "Columns": "loglinear.data.columns.corpus",
    "Dependencies": "loglinear.data.dependencies",
    "atomic_output": "loglinear.data.files",
    "format_of": "loglinear.data.columns",
    "read": "loglinear.data.columns",
    "read_attributes": "loglinear.data.columns.attribute_file",
    "read_columns": "loglinear.data.columns.column_file",
    "read_conllu": "loglinear.data.dependencies",
    "read_jsonl": "loglinear.data.columns.text_file",
    "read_text": "loglinear.data.columns.text_file",
    "write_attributes": "loglinear.data.columns.attribute_file",
    "write_columns": "loglinear.data.columns.column_file",
    "write_conllu": "loglinear.data.dependencies",
    "write_jsonl": "loglinear.data.columns.text_file",
}

__all__ = [
    "Attributes",
    "Column",
    "Columns",
    "Dependencies",
    "atomic_output",
    "format_of",
    "read",
    "read_attributes",
    "read_columns",
    "read_conllu",
    "read_jsonl",
    "read_text",
    "write_attributes",
    "write_columns",
    "write_conllu",
    "write_jsonl",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'loglinear.data' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
