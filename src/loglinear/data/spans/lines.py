"""JSON files of texts: one record a line, or one array of records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NoReturn

from loglinear.data.files import Source, check_text, read_bytes, source_name
from loglinear.documents import parsed_json
from loglinear.errors import DataError


def no_constant(constant: str) -> NoReturn:
    """For ``json.loads``: NaN and Infinity are not JSON."""
    raise ValueError(f"{constant} is not JSON")


def json_lines(source: Source) -> Iterator[tuple[int, Any]]:
    """The value on each line of a file that is not blank, with its number (from 1)."""
    name, raw = source_name(source), read_bytes(source)
    start = check_text(raw, name)
    for number, line in enumerate(raw[start:].split(b"\n"), 1):
        if line.strip():
            try:
                yield number, parsed_json(line, parse_constant=no_constant)
            except ValueError as error:
                raise DataError(f"no valid JSON: {error}", name, number) from None


def json_array(source: Source, what: str) -> list[Any]:
    """The values of a file that is one array; ``what`` says of what, for messages."""
    name, raw = source_name(source), read_bytes(source)
    start = check_text(raw, name)
    try:
        value = parsed_json(raw[start:], parse_constant=no_constant)
    except ValueError as error:
        raise DataError(f"no valid JSON: {error}", name) from None
    if not isinstance(value, list):
        raise DataError(f"the file must be one array of {what}", name)
    return value


def is_array(source_head: bytes) -> bool:
    """Whether a JSON file begins as an array that goes on for several lines, or holds objects."""
    head = source_head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not head.startswith(b"["):
        return False
    inside = head[1:].lstrip()
    return inside[:1] in (b"{", b"[", b"]") or not inside


def first_of_array(head: bytes) -> Any:
    """The first value of an array of which this may only be the beginning; None if that is not whole."""
    inside = head.removeprefix(b"\xef\xbb\xbf").lstrip()[1:].lstrip().decode(errors="replace")
    try:
        return json.JSONDecoder().raw_decode(inside)[0]
    except (ValueError, RecursionError):
        return None


def encoded(value: Any, **how: Any) -> bytes:
    """A JSON value as UTF-8, with escapes only where UTF-8 cannot do."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, **how).encode()
    except UnicodeEncodeError:  # a lone surrogate in a key that is kept as it is, legal only as an escape
        return json.dumps(value, allow_nan=False, **how).encode()


def write_lines(records: Iterable[Any], out: BinaryIO) -> None:
    """Write records, one a line."""
    for record in records:
        out.write(encoded(record) + b"\n")


def write_array(records: Iterable[Any], out: BinaryIO) -> None:
    """Write records as one array, a record a line."""
    between = b"[\n"
    for record in records:
        out.write(between + encoded(record))
        between = b",\n"
    out.write(b"[]\n" if between == b"[\n" else b"\n]\n")
