"""Room 1, text in: readers, writers and the bundled corpus.

Importing this room is cheap: Numba is imported when a file is read or written.
"""

from loglinear.data.attributes import read_attributes, write_attributes
from loglinear.data.column_file import read_columns, write_columns
from loglinear.data.columns import Attributes, Column, Columns
from loglinear.data.conllu import Dependencies, read_conllu, write_conllu
from loglinear.data.files import atomic_output
from loglinear.data.formats import format_of, read
from loglinear.data.jsonl import read_jsonl, write_jsonl
from loglinear.data.plain import read_text

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
