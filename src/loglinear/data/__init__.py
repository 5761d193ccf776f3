"""Room 1, text in: readers, writers and the bundled corpus.

Importing this room is cheap: Numba is imported when a file is read or written.
"""

from loglinear.data.columns import format_of, read
from loglinear.data.columns.attribute_file import read_attributes, write_attributes
from loglinear.data.columns.column_file import read_columns, write_columns
from loglinear.data.columns.corpus import Attributes, Column, Columns
from loglinear.data.columns.text_file import read_jsonl, read_text, write_jsonl
from loglinear.data.dependencies import Dependencies, read_conllu, write_conllu
from loglinear.data.files import atomic_output

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
