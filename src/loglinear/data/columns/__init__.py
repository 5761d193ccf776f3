"""One entry point for all formats of corpora: chooses the reader by format name, or by a file's name and content."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from loglinear.data.columns.corpus import Attributes, Columns
from loglinear.data.files import STDIN, Source, byte_blocks, source_name
from loglinear.errors import OptionError

HEAD = 1 << 16  # bytes of a file that its format is recognised by
MOST_HEAD = 1 << 24  # of one that begins with a record of JSON that is longer


def read_spans(
    source: Source,
    format: str,
    *,
    labels: bool = True,
    open_label: str | None = None,
    convention: Any = None,
    **rules: Any,
) -> Columns:
    """Read texts with spans as tokens and labels.

    Parameters
    ----------
    source : path, ``-`` or open binary file
    format : str
        One of :data:`loglinear.data.spans.FORMATS`.
    labels, open_label
        As in :func:`loglinear.data.spans.corpus.corpus_of_texts`.
    convention : Convention, optional
        Keys and offsets.
    **rules
        Fields of :class:`loglinear.data.spans.corpus.Rules`.
    """
    from loglinear.data.spans import read_texts
    from loglinear.data.spans.corpus import Rules, corpus_of_texts

    how = Rules(**rules)
    return corpus_of_texts(read_texts(source, format, convention), how, labels, open_label)


#: The module and the function that read each format of rows, imported when it is first used.
ROW_FORMATS = {
    "columns": "column_file read_columns",
    "crfsuite": "attribute_file read_attributes",
    "jsonl": "text_file read_jsonl",
    "text": "text_file read_text",
    "conllu": "conllu_file read_conllu_columns",
    "csv": "table_file read_table_columns",
    "tsv": "table_file read_table_columns",
    "parquet": "arrow_file read_arrow_columns",
    "arrow": "arrow_file read_arrow_columns",
}
_NAMED = ("csv", "tsv", "parquet", "arrow")  # those whose reader is told the format, and which have columns with names
_ENDINGS = {
    "jsonl": (".jsonl",),
    "crfsuite": (".crfsuite",),
    "conllu": (".conllu",),
    "parquet": (".parquet",),
    "arrow": (".arrow", ".feather"),
}


def format_names() -> tuple[str, ...]:
    """All formats: those of rows, and those of texts with spans."""
    from loglinear.data.spans import FORMATS

    return (*ROW_FORMATS, *FORMATS)


def _reader(format: str) -> Callable[..., Columns | Attributes]:
    if format in ROW_FORMATS:
        module, name = ROW_FORMATS[format].split()
        reader: Callable[..., Columns | Attributes] = getattr(import_module(f"loglinear.data.columns.{module}"), name)
        return reader
    if format not in format_names():
        raise OptionError(f"format is {format!r}; choose one of auto, {', '.join(format_names())}")
    return read_spans


def format_of(source: Source) -> str:
    """Format by extension: ``.jsonl``, ``.crfsuite``, ``.conllu``, ``.parquet``, ``.arrow`` or ``.feather``.

    Also before ``.gz``; anything else is columns.
    """
    name = source_name(source).lower().removesuffix(".gz")
    return next((format for format, endings in _ENDINGS.items() if name.endswith(endings)), "columns")


def sniffed_source(source: Source) -> tuple[str, Source]:
    """The format by name and content, and the source to read from in place of this one, whose beginning may be read.

    The content decides where it is certain: JSON of an annotation tool, CoNLL-U, a long table, Parquet, Arrow; else the
    name.
    """
    by_name = format_of(source)
    if by_name in ("crfsuite", "conllu", "parquet", "arrow"):
        return by_name, source
    if isinstance(source, str | os.PathLike) and source_name(source) != STDIN:
        if os.path.isdir(source) or source_name(source).lower().endswith(".ann"):
            return "brat", source
        again: Source | None = source if os.path.isfile(source) else None
    else:
        again = None
    blocks = byte_blocks(source, HEAD)
    head = next(blocks, b"")
    while len(head) < MOST_HEAD and _has_open_record(head) and (more := _some(blocks, len(head))):
        head += more
    if again is None:
        again = _Peeked(source_name(source), head, blocks)  # type: ignore[assignment]  # what readers need of a file
    else:
        blocks.close()  # type: ignore[attr-defined]  # a generator
    assert again is not None
    return _by_content(source_name(source).lower().removesuffix(".gz"), head) or by_name, again


def _some(blocks: Iterator[bytes], size: int) -> bytes:
    """About as many bytes of the blocks that follow."""
    parts, count = list[bytes](), 0
    while count < size and (block := next(blocks, b"")):
        parts.append(block)
        count += len(block)
    return b"".join(parts)


def _has_open_record(head: bytes) -> bool:
    """Whether a file begins with a record of JSON of which this is not all."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] not in (b"{", b"[") or start.startswith(b'{"tokens"'):
        return False
    if b"\n" not in start:
        return True
    from loglinear.data.spans.lines import first_of_array, is_array

    return is_array(start) and first_of_array(start) is None


def _is_object(head: bytes) -> bool:
    """Whether the first line of a file is an object of JSON; of one that is not all here, whether it holds tokens."""
    from loglinear.documents import parsed_json

    line, _, _ = head.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")
    try:
        return isinstance(parsed_json(line), dict)
    except ValueError:
        return line.startswith(b'{"tokens"')


def _by_content(name: str, head: bytes) -> str | None:
    """The format of a file with this name and beginning, if that is certain."""
    if head[:1] in (b"P", b"A", b"F", b"\xff"):
        from loglinear.data.columns.arrow_file import arrow_format_of

        if format := arrow_format_of(head):
            return format
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:20]
    if start[:1] in (b"{", b"[") or name.endswith(".spacy"):
        from loglinear.data.spans import sniffed

        return sniffed(name, head) or ("jsonl" if _is_object(head) else None)
    if any(line.count(b"\t") == 9 for line in head[: 1 << 12].split(b"\n")):
        from loglinear.data.columns.conllu_file import is_conllu

        if is_conllu(head):
            return "conllu"
    for format, endings in (("csv", (".csv",)), ("tsv", (".tsv", ".tab"))):
        if name.endswith(endings):
            from loglinear.data.columns.table_file import is_long_table

            return format if is_long_table(head, format) else None
    return None


class _Peeked:
    """A stream whose first block has been read, as an open binary file."""

    def __init__(self, name: str, head: bytes, rest: Iterator[bytes]) -> None:
        self.name = name
        self._held, self._rest = head, rest

    def read(self, size: int = -1) -> bytes:
        parts, count = [self._held], len(self._held)
        while (size < 0 or count < size) and (block := next(self._rest, b"")):
            parts.append(block)
            count += len(block)
        whole = b"".join(parts)
        size = count if size < 0 else size
        taken, self._held = whole[:size], whole[size:]
        return taken


def _check_options(reader: Any, format: str, options: Mapping[str, Any]) -> None:
    """Refuse options that a reader does not have."""
    from inspect import Parameter, signature

    known = signature(reader).parameters
    takes_any = any(each.kind is Parameter.VAR_KEYWORD for each in known.values())
    if not takes_any and (unknown := sorted(set(options) - set(known))):
        raise OptionError(f"{unknown[0]}=...: files in the format {format!r} have no such option")


def read(source: Source, format: str = "auto", **options: Any) -> Columns | Attributes:
    """Read a corpus.

    Parameters
    ----------
    source : path, ``-`` or open binary file
        Also compressed with gzip; of brat a folder, or one document.
    format : str
        ``auto`` goes by the content where that is certain, else by the extension, see :func:`format_of`. Or one of
        ``columns``, ``conllu``, ``crfsuite``, ``jsonl``, ``text``, ``csv``, ``tsv``, ``parquet``, ``arrow``,
        ``prodigy``, ``doccano``, ``spacy``, ``docbin``, ``label-studio``, ``label-studio-min``, ``brat``.
    **options
        Passed to the reader of that format, for instance ``separator="tab"`` to :func:`read_columns`.
    """
    if format == "auto":
        format, source = sniffed_source(source)
    reader = _reader(format)
    if options:
        _check_options(reader, format, options)
    if reader is read_spans or format in _NAMED:
        return reader(source, format, **options)
    return reader(source, **options)
