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

_NAMES = {
    "columns": "format_of read",
    "columns.attribute_file": "read_attributes write_attributes",
    "columns.column_file": "read_columns write_columns",
    "columns.corpus": "Attributes Column Columns",
    "columns.text_file": "read_jsonl read_text write_jsonl",
    "dependencies": "Dependencies read_conllu write_conllu",
    "files": "atomic_output",
}
_HOMES = {name: f"loglinear.data.{module}" for module, names in _NAMES.items() for name in names.split()}

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
