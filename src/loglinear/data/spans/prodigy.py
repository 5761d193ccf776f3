"""Prodigy's JSON Lines: ``{"text", "tokens": [...], "spans": [{"start", "end", "label"}], "answer": "accept"}``.

``tokens`` hold ``text``, ``start``, ``end``, ``id`` and ``ws``, and are used if they are there. Answers ``reject`` and
``ignore`` are passed over. Predicted spans have their probability under ``score``.
"""

from __future__ import annotations

from collections import Counter
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

ANSWERS = ("accept", "reject", "ignore")


def read_prodigy(source: Source, convention: Convention) -> TextFile:
    """Read a file of Prodigy's."""
    name = source_name(source)
    file = TextFile(name, "prodigy", [])
    for number, record in json_lines(source):

        def error(message: str, number: int = number) -> DataError:
            return DataError(message, name, number)

        if not isinstance(record, dict):
            raise error('a line must be an object such as {"text": "...", "spans": []}')
        file.texts.append(_text_of(record, name, number, convention, error, file.left_out))
    return file


def _text_of(
    record: dict[str, Any], name: str, number: int, convention: Convention, error: Raise, left_out: Counter[str]
) -> Text:
    text = string_of(record, convention.text_keys("text"), error)
    place = from_units(text, convention.offsets)
    tokens = None if record.get("tokens") is None else _tokens(record, text, place, error)
    answer = record.get("answer", "accept")
    if answer not in ANSWERS:
        raise error(f'"answer" must be one of {", ".join(ANSWERS)}, not {answer!r:.40}')
    left_out["rejected answer" if answer == "reject" else "ignored answer"] += answer != "accept"
    left_out["relation"] += count_of(record, "relations")
    key = _spans_key(record, convention)
    spans = None
    if record.get(key) is not None:
        spans = []
        for each in list_of(record, key, error):
            if not isinstance(each, dict):
                raise error(f'"{key}" must hold objects such as {{"start": 0, "end": 4, "label": "PER"}}')
            start, end, label = each.get("start"), each.get("end"), each.get("label")
            spans.append(span_of(text, start, end, label, place, error, each.get("text")))
    return Text(text, spans, tokens, name, number, record=record, passed_over=answer != "accept")


def _spans_key(record: dict[str, Any], convention: Convention) -> str:
    keys = convention.spans_keys("spans")
    return next((key for key in keys if key in record), keys[0])


def _tokens(record: dict[str, Any], text: str, place: Callable[[int], int], error: Raise) -> list[tuple[int, int]]:
    """The tokens of a record, which ascend and have characters."""
    tokens = list[tuple[int, int]]()
    for number, each in enumerate(list_of(record, "tokens", error)):
        bounds: tuple[Any, Any] = (each.get("start"), each.get("end")) if isinstance(each, dict) else (None, None)
        if not all(isinstance(bound, int) and not isinstance(bound, bool) for bound in bounds):
            raise error(f'token {number} (from 0) must be an object with "start" and "end", not {each!r:.60}')
        begin, end = (place(bound) for bound in bounds)
        if begin < 0 or end <= begin or (tokens and begin < tokens[-1][1]):
            raise error(f"token {number} (from 0) {bounds[0]}-{bounds[1]} is not within the text after the one before")
        if isinstance(each.get("text"), str) and each["text"] != text[begin:end]:
            raise error(f"token {number} (from 0) is {each['text']!r:.40}, but the text there {text[begin:end]!r:.40}")
        tokens.append((begin, end))
    return tokens


def write_prodigy(file: TextFile, out: BinaryIO, convention: Convention) -> None:
    """Write texts as Prodigy does; records of its own keep their other keys."""
    write_lines((_record(text, file.format == "prodigy", convention) for text in file), out)


def _record(text: Text, own: bool, convention: Convention) -> dict[str, Any]:
    record = dict(text.record) if own and text.record is not None else {}
    units = to_units(text.text, convention.offsets)
    if not record:
        record = {convention.text_keys("text")[0]: text.text}
        if text.tokens is not None:
            record["tokens"] = [
                {
                    "text": text.text[begin:end],
                    "start": units(begin),
                    "end": units(end),
                    "id": number,
                    "ws": text.text[end : end + 1].isspace(),
                }
                for number, (begin, end) in enumerate(text.tokens)
            ]
    if text.spans is not None and (convention.predicted or not (own and text.passed_over)):
        begins = {begin: number for number, (begin, _) in enumerate(text.tokens or ())}
        ends = {end: number for number, (_, end) in enumerate(text.tokens or ())}
        record[_spans_key(record, convention)] = [_span(span, units, begins, ends) for span in text.spans]
        if not convention.predicted:
            record.setdefault("answer", "accept")
    return record


def _span(span: Span, units: Callable[[int], int], begins: dict[int, int], ends: dict[int, int]) -> dict[str, Any]:
    out: dict[str, Any] = {"start": units(span.start), "end": units(span.end), "label": span.label}
    if span.start in begins and span.end in ends:
        out |= {"token_start": begins[span.start], "token_end": ends[span.end]}
    return out if span.score is None else out | {"score": span.score}
