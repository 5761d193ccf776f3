"""Training data of spaCy: ``["text", {"entities": [[start, end, "PER"], ...]}]``, and its binary DocBin.

The pairs are one a line or in one array; records ``{"text", "entities": [[0, 4, "PER"]]}`` are taken as well. DocBin
files (``.spacy``) are read and written by spaCy itself, if it is installed.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib import import_module
from typing import Any, BinaryIO

from loglinear.data.files import Source, read_bytes, source_name
from loglinear.data.spans.lines import is_array, json_array, json_lines, write_array, write_lines
from loglinear.data.spans.text import (
    Convention,
    Raise,
    Span,
    Text,
    TextFile,
    checked_string,
    from_units,
    list_of,
    span_of,
    string_of,
    to_units,
)
from loglinear.data.spans.tokens import token_offsets
from loglinear.errors import DataError, OptionError

_EXAMPLE = '["text", {"entities": [[0, 4, "PER"]]}]'


def read_spacy(source: Source, convention: Convention) -> TextFile:
    """Read pairs of text and entities."""
    name, raw = source_name(source), read_bytes(source)
    content = io.BytesIO(raw)
    content.name = name
    array = is_array(raw[:1000]) and not _is_pair_a_line(raw)
    file = TextFile(name, "spacy", [], head={"array": array})
    records = enumerate(json_array(content, f"pairs such as {_EXAMPLE}")) if array else json_lines(content)
    for number, record in records:
        line, where = (0, f"example {number} (from 0): ") if array else (number, "")

        def error(message: str, where: str = where, line: int = line) -> DataError:
            return DataError(where + message, name, line or None)

        text, notes = _parts(record, convention, error)
        key = convention.spans_keys("entities")[0]
        spans = None
        if notes.get(key) is not None:
            place = from_units(text, convention.offsets)
            spans = []
            for each in list_of(notes, key, error):
                if not isinstance(each, list) or len(each) not in (3, 4):
                    raise error(f'"{key}" must hold spans such as [0, 4, "PER"], not {each!r:.60}')
                spans.append(span_of(text, each[0], each[1], each[2], place, error))
        file.texts.append(Text(text, spans, None, name, line, where, record))
    return file


def _is_pair_a_line(raw: bytes) -> bool:
    """Whether the first line is a whole pair, not the beginning of an array of pairs."""
    from loglinear.documents import parsed_json

    first = raw.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0]
    try:
        value = parsed_json(first)
    except ValueError:
        return False
    return isinstance(value, list) and bool(value) and isinstance(value[0], str)


def _parts(record: Any, convention: Convention, error: Raise) -> tuple[str, dict[str, Any]]:
    """The text of a record, and its annotation."""
    if isinstance(record, dict):
        return string_of(record, convention.text_keys("text"), error), record
    if (
        not isinstance(record, list)
        or len(record) != 2
        or not isinstance(record[0], str)
        or not isinstance(record[1], dict)
    ):
        raise error(f"a record must be a pair such as {_EXAMPLE}, not {record!r:.60}")
    return checked_string(record[0], error), record[1]


def write_spacy(file: TextFile, out: BinaryIO, convention: Convention) -> None:
    """Write pairs of text and entities; records of the format keep their other keys."""
    own = file.format == "spacy"
    records = (_record(text, own, convention) for text in file)
    (write_array if own and file.head.get("array") else write_lines)(records, out)


def _record(text: Text, own: bool, convention: Convention) -> Any:
    record: Any = text.record if own and text.record is not None else [text.text, {}]
    if text.spans is None:
        return record
    units = to_units(text.text, convention.offsets)
    entities = [[units(span.start), units(span.end), span.label] for span in text.spans]
    notes = {convention.spans_keys("entities")[0]: entities}
    return record | notes if isinstance(record, dict) else [record[0], record[1] | notes]


# -- DocBin ------------------------------------------------------------------------------------------------------------


def _spacy() -> Any:
    try:
        spacy = import_module("spacy")
        import_module("spacy.tokens")
    except ImportError:
        raise OptionError(
            "DocBin files (.spacy) are read and written by spaCy, which is not installed: pip install spacy; or use "
            "the format spacy, JSON Lines"
        ) from None
    return spacy


def read_docbin(source: Source, convention: Convention) -> TextFile:
    """Read a DocBin: its tokens and entities."""
    spacy = _spacy()
    name = source_name(source)
    file = TextFile(name, "docbin", [])
    try:
        docs = list(spacy.tokens.DocBin().from_bytes(read_bytes(source)).get_docs(spacy.blank("xx").vocab))
    except DataError:
        raise
    except Exception as error:  # spaCy's readers raise many kinds
        raise DataError(f"no DocBin that spaCy can read: {error}", name) from None
    for number, doc in enumerate(docs):
        spans = None
        if doc.has_annotation("ENT_IOB"):
            spans = [Span(entity.start_char, entity.end_char, entity.label_) for entity in doc.ents]
        tokens = [(token.idx, token.idx + len(token)) for token in doc]
        file.texts.append(Text(doc.text, spans, tokens, name, 0, f"document {number} (from 0): "))
    return file


def words_and_spaces(text: str, tokens: Sequence[tuple[int, int]]) -> tuple[list[str], list[bool]]:
    """A text as spaCy has it: words, of which some are blank, and whether a space follows each."""
    words, blanks, at = list[str](), list[bool](), 0
    for begin, end in [*tokens, (len(text), len(text))]:
        if words and text[at:begin].startswith(" "):
            blanks[-1] = True
            at += 1
        for word in (text[at:begin], text[begin:end]):
            if word:
                words.append(word)
                blanks.append(False)
        at = end
    return words, blanks


def write_docbin(file: TextFile, out: BinaryIO, convention: Convention) -> None:
    """Write a DocBin, with the texts' tokens."""
    spacy = _spacy()
    vocab = spacy.blank("xx").vocab
    docs = spacy.tokens.DocBin()
    for text in file:
        tokens = token_offsets(text.text) if text.tokens is None else text.tokens
        words, blanks = words_and_spaces(text.text, tokens)
        doc = spacy.tokens.Doc(vocab, words=words, spaces=blanks)
        if text.spans is not None:
            entities = []
            for span in text.spans:
                entity = doc.char_span(span.start, span.end, label=span.label)
                if entity is None:
                    raise text.error(f"{text.shown(span)} does not begin and end with a token, which a DocBin needs")
                entities.append(entity)
            try:
                doc.set_ents(entities)
            except ValueError:
                raise text.error("spans that share tokens, which a DocBin cannot hold") from None
        docs.add(doc)
    out.write(docs.to_bytes())
