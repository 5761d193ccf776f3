"""The types that all formats of texts with spans are read into: :class:`Span`, :class:`Text` and :class:`TextFile`.

Offsets count characters (code points), as Python does, from 0; an end is exclusive. Programs in JavaScript count UTF-16
units, of which an emoji has two: with ``offsets="utf16"`` readers and writers convert.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from loglinear.errors import DataError, OptionError
from loglinear.wording import how_many

UNITS = ("characters", "utf16")


@dataclass(frozen=True)
class Span:
    """Characters ``start`` to ``end`` (exclusive) of a text, and their label.

    Attributes
    ----------
    pieces : tuple of (start, end)
        Of a discontinuous span (brat), its parts; empty for any other.
    score : float, optional
        The probability of a predicted span.
    """

    start: int
    end: int
    label: str
    pieces: tuple[tuple[int, int], ...] = ()
    score: float | None = None


@dataclass(frozen=True)
class Text:
    """A text with spans.

    Attributes
    ----------
    text : str
    spans : list of Span, optional
        None if nobody has marked any; an empty list says that there is none.
    tokens : list of (begin, end), optional
        The tokens that the file gives; None if it gives none.
    file, line : str, int
        Where it stands, for messages. ``line`` is 0 where lines do not help.
    where : str
        Said before a message where lines do not help, as in ``task 3 (from 0): ``.
    record : optional
        What the file holds of it, for writing it back.
    passed_over : bool
        The annotator has rejected it: not to be learnt from, but written back.
    """

    text: str
    spans: list[Span] | None = None
    tokens: list[tuple[int, int]] | None = None
    file: str = "<python>"
    line: int = 0
    where: str = ""
    record: Any = None
    passed_over: bool = False

    def error(self, message: str) -> DataError:
        """A :class:`DataError` that names the place of the text."""
        return DataError(self.where + message, self.file, self.line or None)

    def shown(self, span: Span) -> str:
        """A span in words: its label, its offsets and its text."""
        return f"the span {span.label!r:.40} {span.start}-{span.end} ({self.text[span.start : span.end]!r:.40})"


@dataclass
class TextFile:
    """The texts of a file (or folder) in their order.

    Attributes
    ----------
    name : str
    format : str
        A key of :data:`loglinear.data.spans.FORMATS`.
    texts : list of Text
    left_out : Counter
        How many things of each kind were passed over (relations, rejected answers), for a message.
    head : mapping
        What else the writer of the same format needs.
    """

    name: str
    format: str
    texts: list[Text]
    left_out: Counter[str] = field(default_factory=Counter)
    head: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[Text]:
        return iter(self.texts)

    def with_texts(self, texts: Iterable[Text]) -> TextFile:
        """The file with other texts."""
        return replace(self, texts=list(texts))


@dataclass(frozen=True)
class Convention:
    """What differs between files of one format.

    Parameters
    ----------
    offsets : {"characters", "utf16"}
        The unit that offsets count.
    text_key, spans_key : str, optional
        Keys of JSON records that hold the text and its spans; None: those that the format usually has.
    predicted : bool
        Read predictions in place of annotations, or write spans as such, in the formats that have both.
    """

    offsets: str = "characters"
    text_key: str | None = None
    spans_key: str | None = None
    predicted: bool = False

    def __post_init__(self) -> None:
        if self.offsets not in UNITS:
            raise OptionError(f"offsets={self.offsets!r} must be one of {', '.join(UNITS)}")

    def text_keys(self, *usual: str) -> tuple[str, ...]:
        """The keys that may hold the text."""
        return (self.text_key,) if self.text_key else usual

    def spans_keys(self, *usual: str) -> tuple[str, ...]:
        """The keys that may hold the spans."""
        return (self.spans_key,) if self.spans_key else usual


def notice(name: str, left_out: Mapping[str, int]) -> str:
    """One sentence that says what was passed over; empty if nothing was."""
    parts = [how_many(count, kind) for kind, count in left_out.items() if count]
    return f"{name}: passed over {', '.join(parts)}" if parts else ""


def from_units(text: str, unit: str) -> Callable[[int], int]:
    """From offsets in a unit to characters; -1 for one inside a character or outside the text."""
    if unit == "characters" or not _has_wide(text):
        return lambda offset: offset if 0 <= offset <= len(text) else -1
    places = {offset: number for number, offset in enumerate(_utf16_places(text))}
    return lambda offset: places.get(offset, -1)


def to_units(text: str, unit: str) -> Callable[[int], int]:
    """From offsets in characters to those in a unit."""
    if unit == "characters" or not _has_wide(text):
        return lambda offset: offset
    return _utf16_places(text).__getitem__


def _has_wide(text: str) -> bool:
    return not text.isascii() and max(text) > "\uffff"


def _utf16_places(text: str) -> list[int]:
    places, at = [0], 0
    for character in text:
        at += 2 if character > "\uffff" else 1
        places.append(at)
    return places


# -- reading parts of records, with errors that say what is wrong ------------------------------------------------------


Raise = Callable[[str], DataError]


def string_of(record: Mapping[str, Any], keys: tuple[str, ...], error: Raise) -> str:
    """The string under the first of the keys that is there; it must be valid Unicode."""
    key = next((key for key in keys if record.get(key) is not None), keys[0])
    value = record.get(key)
    if not isinstance(value, str):
        raise error(f'"{key}" is missing' if value is None else f'"{key}" must be a string, not {value!r:.60}')
    return checked_string(value, error)


def checked_string(value: str, error: Raise) -> str:
    """The string, if it is valid Unicode without NUL."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise error(f"{value!r:.60} holds half of a character (a lone surrogate)") from None
    return value


def count_of(record: Mapping[str, Any], key: str) -> int:
    """How many things there are under a key that is not looked at any further."""
    value = record.get(key)
    return len(value) if isinstance(value, list) else 0


def list_of(record: Mapping[str, Any], key: str, error: Raise) -> list[Any]:
    """The list under a key."""
    value = record.get(key)
    if not isinstance(value, list):
        raise error(f'"{key}" must be a list, not {value!r:.60}')
    return value


def span_of(
    text: str, start: Any, end: Any, label: Any, place: Callable[[int], int], error: Raise, snippet: Any = None
) -> Span:
    """A checked span; ``place`` converts offsets to characters, and ``snippet`` is what the file says it covers."""
    for offset in (start, end):
        if not isinstance(offset, int) or isinstance(offset, bool):
            raise error(f"a span from {start!r:.20} to {end!r:.20}: offsets are whole numbers")
    if not isinstance(label, str) or not label.strip():
        raise error(f"the span {start}-{end} has the label {label!r:.40}; a label is a string that is not empty")
    begin, finish = place(start), place(end)
    if begin < 0 or finish < 0:
        raise error(
            f"the span {label!r:.40} {start}-{end} is not within the text, which has {how_many(len(text), 'character')}"
        )
    if begin > finish:
        raise error(f"the span {label!r:.40} {start}-{end} ends before it begins")
    if isinstance(snippet, str) and not _same_text(text[begin:finish], snippet):
        raise error(
            f"the span {label!r:.40} {start}-{end} covers {text[begin:finish]!r:.40}, but is said to cover "
            f"{snippet!r:.40}; if the offsets count UTF-16 units, as JavaScript does, read with --offsets utf16"
        )
    return Span(begin, finish, checked_string(label, error))


def _same_text(covered: str, said: str) -> bool:
    """Whether two texts are the same but for blanks, which some programs change."""
    return covered == said or "".join(covered.split()) == "".join(said.split())
