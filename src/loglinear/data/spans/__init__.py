"""Texts with spans, as annotation tools write them: read as tokens with labels, and written back with spans.

==========================  ============================================================================================
``text``                    a text, its spans and where they stand (:class:`Text`, :class:`TextFile`)
``tokens``                  a tokenizer that keeps offsets
``corpus``                  the converter: spans to labels of tokens, and a corpus' tokens back to characters
``lines``                   JSON, one record a line or one array
``prodigy`` ``doccano`` ``spacy`` ``label_studio`` ``brat``   the formats, each a reader and a writer
==========================  ============================================================================================

:data:`FORMATS` is their registry.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from loglinear.data.files import Source, atomic_output
from loglinear.data.spans.text import Convention, Span, Text, TextFile
from loglinear.errors import OptionError

__all__ = ["FORMATS", "Convention", "Span", "Text", "TextFile", "read_texts", "sniffed", "write_texts"]


@dataclass(frozen=True)
class Format:
    """A format of texts with spans: the module and names of its functions, and whether spans have a place for a score.

    With ``reads_paths`` it is more than one stream of bytes.
    """

    module: str
    name: str
    scores: bool = False
    reads_paths: bool = False

    def reader(self) -> Callable[[Source, Convention], TextFile]:
        """Its reader."""
        reader: Callable[[Source, Convention], TextFile] = getattr(self._module(), f"read_{self.name}")
        return reader

    def writer(self) -> Callable[[TextFile, Any, Convention], None]:
        """Its writer: to a binary file or, with ``reads_paths``, to a path."""
        writer: Callable[[TextFile, Any, Convention], None] = getattr(self._module(), f"write_{self.name}")
        return writer

    def _module(self) -> Any:
        return import_module(f"loglinear.data.spans.{self.module}")


FORMATS = {
    "prodigy": Format("prodigy", "prodigy", scores=True),
    "doccano": Format("doccano", "doccano"),
    "spacy": Format("spacy", "spacy"),
    "docbin": Format("spacy", "docbin"),
    "label-studio": Format("label_studio", "label_studio", scores=True),
    "label-studio-min": Format("label_studio", "label_studio_min", scores=True),
    "brat": Format("brat", "brat", scores=True, reads_paths=True),
}


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise OptionError(f"format is {name!r}; texts with spans are in one of {', '.join(FORMATS)}")
    return FORMATS[name]


def read_texts(source: Source, format: str = "auto", convention: Convention | None = None) -> TextFile:
    """Read a file of texts with spans (of brat: a folder, or one document); ``auto`` goes by its content."""
    if format == "auto":
        from loglinear.data.columns import sniffed_source

        format, source = sniffed_source(source)
    return _format(format).reader()(source, convention or Convention())


def write_texts(
    file: TextFile, output: str | os.PathLike[str], format: str = "auto", convention: Convention | None = None
) -> None:
    """Write texts to a path or, as ``-``, to standard output; ``auto`` is the format that they were read from.

    Where that is the format they were read from, the records keep everything but the spans. The file is written whole
    or not at all.
    """
    chosen = _format(file.format if format == "auto" else format)
    if chosen.reads_paths:
        chosen.writer()(file, output, convention or Convention())
        return
    with atomic_output(output) as out:
        chosen.writer()(file, out, convention or Convention())


def sniffed(name: str, head: bytes) -> str | None:
    """The format of texts with spans that a file is in for certain, by its name or its first record; else None.

    ``name`` is in lower case and without ``.gz``, ``head`` the beginning of the file.
    """
    from loglinear.data.spans.lines import first_of_array, is_array
    from loglinear.documents import parsed_json

    if name.endswith(".spacy"):
        return "docbin"
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head[:1] not in (b"{", b"["):
        return None
    first = head.partition(b"\n")[0]
    try:
        record = parsed_json(first)
    except ValueError:
        record = first_of_array(head) if is_array(head) else None
    else:
        if isinstance(record, list) and record and not isinstance(record[0], str):
            record = record[0]  # an array on one line
    return _format_of_record(record)


def _format_of_record(record: Any) -> str | None:
    """The format that a JSON record is in for certain, else None."""
    from loglinear.data.spans.label_studio import is_min_spans

    if isinstance(record, list):
        pair = len(record) == 2 and isinstance(record[0], str) and isinstance(record[1], dict)
        return "spacy" if pair and isinstance(record[1].get("entities"), list) else None
    if not isinstance(record, dict):
        return None
    if isinstance(record.get("data"), dict) and {"annotations", "predictions", "completions"} & {*record}:
        return "label-studio"
    if not isinstance(record.get("text", record.get("data")), str):
        return None
    if any(is_min_spans(value) for value in record.values()):
        return "label-studio-min"
    if isinstance(record.get("spans"), list) and all(isinstance(span, dict) for span in record["spans"]):
        return "prodigy"
    if _are_objects(record.get("tokens"), "start") and "text" in record:
        return "prodigy"
    entities = record.get("entities")
    if isinstance(entities, list) and "text" in record:
        if _are_objects(entities, "start_offset") or (not entities and "relations" in record):
            return "doccano"
        if entities and all(isinstance(each, list) and len(each) == 3 for each in entities):
            return "spacy"
    for key in ("label", "labels"):
        spans = record.get(key)
        if isinstance(spans, list) and all(isinstance(each, list) and len(each) == 3 for each in spans):
            return "doccano"
    return "doccano" if _are_objects(record.get("annotations"), "start_offset") else None


def _are_objects(value: Any, key: str) -> bool:
    """Whether a value is a list, not empty, of objects with a key."""
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) and key in each for each in value)
