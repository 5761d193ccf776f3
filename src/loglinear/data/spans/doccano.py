"""doccano's JSON Lines: ``{"id", "text", "label": [[start, end, "PER"], ...]}`` and its variants.

======================================================================================  ==========================
record                                                                                  since
======================================================================================  ==========================
``{"text", "annotations": [{"label", "start_offset", "end_offset"}]}``                  the first versions
``{"text", "labels": [[0, 4, "PER"]]}``                                                 then
``{"id", "text", "label": [[0, 4, "PER"]], "Comments": [...]}``, or ``data`` for ``text``  now
``{"id", "text", "entities": [{"id", "label", "start_offset", "end_offset"}], "relations": [...]}``  with relations
======================================================================================  ==========================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

from loglinear.data.files import Source, source_name
from loglinear.data.spans.lines import json_lines, write_lines
from loglinear.data.spans.text import (
    Convention,
    Raise,
    Span,
    Text,
    TextFile,
    count_of,
    from_units,
    list_of,
    span_of,
    string_of,
    to_units,
)
from loglinear.errors import DataError

_TEXT, _SPANS = ("text", "data"), ("label", "labels", "entities", "annotations")


def read_doccano(source: Source, convention: Convention) -> TextFile:
    """Read a file of doccano's."""
    name = source_name(source)
    file = TextFile(name, "doccano", [])
    for number, record in json_lines(source):

        def error(message: str, number: int = number) -> DataError:
            return DataError(message, name, number)

        if not isinstance(record, dict):
            raise error('a line must be an object such as {"text": "...", "label": [[0, 4, "PER"]]}')
        text = string_of(record, convention.text_keys(*_TEXT), error)
        file.left_out["relation"] += count_of(record, "relations")
        key = _spans_key(record, convention)
        spans = None
        if record.get(key) is not None:
            place = from_units(text, convention.offsets)
            spans = [_span_of(text, each, key, place, error) for each in list_of(record, key, error)]
        file.texts.append(Text(text, spans, None, name, number, record=record))
    return file


def _spans_key(record: dict[str, Any], convention: Convention) -> str:
    keys = convention.spans_keys(*_SPANS)
    return next((key for key in keys if record.get(key) is not None), keys[0])


def _span_of(text: str, each: Any, key: str, place: Callable[[int], int], error: Raise) -> Span:
    if isinstance(each, dict):
        start, end, label = each.get("start_offset"), each.get("end_offset"), each.get("label")
        if isinstance(label, int) and not isinstance(label, bool):
            label = str(label)  # the first versions exported the labels' numbers
        return span_of(text, start, end, label, place, error)
    if not isinstance(each, list) or len(each) != 3:
        raise error(f'"{key}" must hold spans such as [0, 4, "PER"], not {each!r:.60}')
    return span_of(text, each[0], each[1], each[2], place, error)


def write_doccano(file: TextFile, out: BinaryIO, convention: Convention) -> None:
    """Write texts as doccano does; records of its own keep their variant and their other keys, but no relations."""
    write_lines((_record(text, file.format == "doccano", convention) for text in file), out)


def _record(text: Text, own: bool, convention: Convention) -> dict[str, Any]:
    fresh = not (own and text.record is not None)
    record = {convention.text_keys("text")[0]: text.text} if fresh else dict(text.record)
    if text.spans is None:
        return record
    units = to_units(text.text, convention.offsets)
    key = _spans_key(record, convention)
    old = record.get(key) or ()
    if key in ("entities", "annotations") or any(isinstance(each, dict) for each in old):
        number = key == "entities"
        record[key] = [
            ({"id": n} if number else {})
            | {"label": span.label, "start_offset": units(span.start), "end_offset": units(span.end)}
            for n, span in enumerate(text.spans)
        ]
        if "relations" in record:
            record["relations"] = []  # they name spans by their old numbers
    else:
        record[key] = [[units(span.start), units(span.end), span.label] for span in text.spans]
    return record
