"""brat's standoff: a text in ``NAME.txt``, and its spans in ``NAME.ann`` beside it; a folder is read as a whole.

::

    T1<TAB>PER 0 9<TAB>Anna Berg
    T2<TAB>LOC 19 23;30 34<TAB>Oslo city        a discontinuous span

Offsets count characters of the text as it is, line ends included. Relations, events, attributes and notes are passed
over. A ``.txt`` without ``.ann`` has not been annotated. Predicted spans have their probability in a note.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from loglinear.data.files import Source, atomic_output, check_text, read_bytes, source_name
from loglinear.data.spans.text import Convention, Span, Text, TextFile, from_units, span_of, to_units
from loglinear.errors import DataError, OptionError
from loglinear.system import temporary_folder

_KINDS = {"R": "relation", "*": "relation", "E": "event", "A": "attribute", "M": "attribute", "N": "note", "#": "note"}
_SPAN = re.compile(r"(T\S*)\t(\S+) (\d+ \d+(?:;\d+ \d+)*)(?:\t(.*))?", re.DOTALL)


def read_brat(source: Source, convention: Convention) -> TextFile:
    """Read a folder, or one document by the name of its ``.ann`` or ``.txt``."""
    if not isinstance(source, str | os.PathLike) or os.fspath(source) == "-":
        raise DataError("brat's documents are two files each; name the folder, or one .ann", source_name(source))
    path = Path(source)
    file = TextFile(str(path), "brat", [], head={"folder": path.is_dir()})
    if path.is_dir():
        texts = sorted(path.glob("*.txt"))
        orphans = sorted(set(path.glob("*.ann")) - {each.with_suffix(".ann") for each in texts})
        if orphans:
            raise DataError("there is no text beside it; brat has NAME.txt with each NAME.ann", str(orphans[0]))
        if not texts:
            raise DataError("there are no documents (NAME.txt with NAME.ann) in this folder", str(path))
    else:
        texts = [path.with_suffix(".txt")]
    for each in texts:
        file.texts.append(_document(each, convention, file))
    return file


def _document(path: Path, convention: Convention, file: TextFile) -> Text:
    raw = read_bytes(path)
    check_text(raw, str(path))
    text, beside = raw.decode(), path.with_suffix(".ann")
    document = Text(text, None, None, str(path), 0, record=path.stem)
    if not beside.exists():
        return document
    notes = read_bytes(beside)
    start = check_text(notes, str(beside))
    spans, place = list[Span](), from_units(text, convention.offsets)
    for number, line in enumerate(notes[start:].decode().split("\n"), 1):
        line = line.rstrip("\r")
        if not line.strip():
            continue

        def error(message: str, number: int = number) -> DataError:
            return DataError(message, str(beside), number)

        if line[0] != "T":
            if line[0] not in _KINDS:
                raise error(f"{line!r:.40} is not an annotation of brat's, such as T1<TAB>PER 0 9<TAB>Anna Berg")
            file.left_out[_KINDS[line[0]]] += 1
            continue
        match = _SPAN.fullmatch(line)
        if match is None:
            raise error(f"{line!r:.60}: a span is written as T1<TAB>PER 0 9<TAB>Anna Berg")
        label, offsets, said = match[2], match[3], match[4]
        bounds = [tuple(map(_number, piece.split(" "))) for piece in offsets.split(";")]
        pieces = [span_of(text, begin, end, label, place, error) for begin, end in bounds]
        covered = " ".join(text[piece.start : piece.end] for piece in pieces)
        if said is not None and "".join(covered.split()) != "".join(said.split()):
            raise error(
                f"the span {label!r:.40} {offsets} covers {covered!r:.40}, but is said to cover {said!r:.40}; if the "
                "offsets count UTF-16 units, as JavaScript does, read with --offsets utf16"
            )
        if any(after.start < before.end for before, after in pairwise(pieces)):
            raise error(f"the pieces of the span {label!r:.40} {offsets} are not in order")
        parts = tuple((piece.start, piece.end) for piece in pieces) if len(pieces) > 1 else ()
        spans.append(Span(pieces[0].start, pieces[-1].end, label, parts))
    return Text(text, spans, None, str(beside), 0, record=path.stem)


def _number(digits: str) -> int:
    return int(digits) if len(digits) < 12 else -1


def write_brat(file: TextFile, output: str | os.PathLike[str], convention: Convention) -> None:
    """Write a folder of documents, or one document as ``NAME.ann`` with ``NAME.txt``.

    Documents are called as those read from brat, any others by their number. The folder must not exist.
    """
    target = Path(output)
    if target.name == "-":
        raise OptionError("brat's documents are two files each; name a folder to write, or one .ann, with -o")
    if target.suffix == ".ann":
        if len(file) != 1:
            raise OptionError(f"{target}: {len(file):,} texts are as many documents; name a folder to write")
        with atomic_output(target.with_suffix(".txt")) as out:
            out.write(file.texts[0].text.encode())
        with atomic_output(target) as out:
            out.write(_annotation(file.texts[0], convention))
        return
    width = len(str(len(file)))
    with _new_folder(target) as folder:
        for number, text in enumerate(file, 1):
            own = file.format == "brat" and text.record is not None
            name = text.record if own else f"{number:0{width}d}"
            (folder / f"{name}.txt").write_bytes(text.text.encode())
            if text.spans is not None:
                (folder / f"{name}.ann").write_bytes(_annotation(text, convention))


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """A temporary folder that gets its final name when the block succeeds."""
    if target.exists():
        raise OptionError(f"{target} exists already; name a folder that does not")
    try:
        with temporary_folder(f".{target.name[:100]}.", target.parent) as temporary:
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            os.replace(temporary, target)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror}", str(target)) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _annotation(text: Text, convention: Convention) -> bytes:
    """The lines of an ``.ann``."""
    units: Any = to_units(text.text, convention.offsets)
    lines = list[str]()
    notes = list[str]()
    for number, span in enumerate(text.spans or (), 1):
        if re.search(r"\s", span.label):
            raise text.error(f"{text.shown(span)}: a label of brat's has no blanks")
        pieces = span.pieces or ((span.start, span.end),)
        offsets = ";".join(f"{units(start)} {units(end)}" for start, end in pieces)
        covered = " ".join(text.text[start:end] for start, end in pieces)
        shown = re.sub("[\\n\\r]", " ", covered)
        lines.append(f"T{number}\t{span.label} {offsets}\t{shown}\n")
        if span.score is not None:
            notes.append(f"#{number}\tAnnotatorNotes T{number}\tprobability {span.score:.4f}\n")
    return "".join([*lines, *notes]).encode()
