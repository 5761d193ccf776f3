"""The files that a verb reads and writes: one check, before any work, that outputs can be written and destroy nothing.

Declarations say what a value names (:class:`loglinear.options.File`): options in their classes, parameters of a verb in
their annotations, ``Annotated[str, typer.Argument(...), READ]``. :func:`loglinear.cli.options.takes` hands them to
:func:`check` before it calls the verb, so that no verb needs a check of its own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from loglinear.errors import OptionError
from loglinear.options import READ, WRITTEN_FOLDER, File, declared
from loglinear.system import check_file, check_writable_folder

PIPE = "-"
ANNOTATIONS = ".ann"  # of brat, beside the text in a file of its own
PART = File(written=True, parts=True)  # one of the files in a folder


@dataclass(frozen=True)
class Named:
    """A file on the command line: the flag or argument that names it, its name, and what becomes of it."""

    flag: str
    path: str
    file: File


def named(flag: str, file: File, value: Any) -> Iterator[Named]:
    """The files that a value names: none if it is None or a word, several if it is a list or a setting."""
    if value is None:
        return
    if isinstance(value, list | tuple):
        for each in value:
            yield from named(flag, file, each)
    elif file.settings is not None:
        option, _, values = str(value).partition("=")
        known = declared(file.settings).get(option.strip())
        if known is not None and known.file is not None:
            yield from named(flag, known.file, [part.strip() for part in values.replace(";", ",").split(",")])
    elif file.written or (str(value) not in file.words and str(value).endswith(file.suffix)):
        yield Named(flag, os.fspath(value), file)


def check(files: Iterable[Named]) -> None:
    """Reject outputs that cannot be written, or that are an input or another output under whatever name.

    Files are compared by what they are, not by their names: links, hard links and redirected standard streams are
    seen through. Devices and pipes may be named any number of times.
    """
    files = list(_spread(list(files)))
    inputs = (each for each in files if not (each.file.written or each.file.folder))
    taken = {key: f"the input {path}" for each in inputs for path in _files_in(each.path) for key in _keys(path, 0)}
    for each in (each for each in files if each.file.written):
        check_place(each)
        for path in (each.path, *_beside(each)):
            for key in _keys(path, 1):
                other = taken.setdefault(key, each.flag)
                if other != each.flag:
                    _reject(each, path, other)


def _files_in(path: str) -> list[str]:
    """An input, and if it is an encoded corpus what it consists of."""
    from loglinear.scale.parts import FILES_ENCODED, is_encoded

    return [path, *(os.path.join(path, name) for name in FILES_ENCODED)] if is_encoded(path) else [path]


def _spread(files: list[Named]) -> Iterator[Named]:
    """The files with parts in the place of what names several, and for each a file in the folder to write to.

    What is in a folder that is read (an encoded corpus, brat's documents) is an input, and so is what a glob finds.
    """
    found = {}
    for each in files:
        if each.file.parts and not each.file.written:
            from loglinear.scale.parts import parts_of

            found[each] = parts_of(each.path)
    parts = next((names for names in found.values() if names is not None), None)
    for each in files:
        if parts is None or not each.file.parts:
            yield each
            if not (each.file.written or each.file.folder or each.path == PIPE):
                yield from (Named(each.flag, path, READ) for path in _within(each.path))
        elif not each.file.written:
            yield from (Named(each.flag, name, READ) for name in found[each] or [])
        elif each.path != PIPE:
            yield Named(each.flag, each.path, WRITTEN_FOLDER)
            yield from (Named(each.flag, os.path.join(each.path, os.path.basename(name)), PART) for name in parts)


def _within(path: str) -> list[str]:
    """The files that are in a folder, that a glob finds, or that belong to one of brat's annotations."""
    if path.endswith(ANNOTATIONS):
        return [_text_of(path)]
    try:
        if os.path.isdir(path):
            return sorted(each.path for each in os.scandir(path))
    except OSError:  # whoever reads it will say so
        return []
    from loglinear.scale.parts import parts_of

    return parts_of(path) or []


def check_place(output: Named) -> None:
    """Reject an output that cannot be written, before hours are spent on it."""
    path, file = output.path, output.file
    if path == PIPE:
        if file.resumed and not file.piped:
            raise OptionError(f"{output.flag} keeps what is finished, to continue from it, in a file; name one")
        if not file.piped:
            raise OptionError(
                "-: models and charts are written to files, not to standard output; name a file, as in -o FILE"
            )
        return
    if not path.lower().endswith(file.suffix):
        raise OptionError(f"{path}: charts are written as SVG; name a file that ends in {file.suffix}")
    if file.folder:
        _check_folder(path)
        return
    if file is PART and not os.path.lexists(path):  # its folder has been checked
        return
    for each in (path, *_beside(output)):
        check_file(each)


def _check_folder(path: str) -> None:
    """Reject a folder that cannot be made or written to."""
    folder = os.path.realpath(path)
    while not os.path.lexists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise OptionError(f"{path}: {folder} is not a folder; name another one")
    check_writable_folder(path, folder)


def _beside(output: Named) -> list[str]:
    """What is written beside an output: a checkpoint, the text of brat's annotations."""
    if output.path == PIPE:
        return []
    texts = [_text_of(output.path)] if output.file.piped and output.path.endswith(ANNOTATIONS) else []
    return [output.path + suffix for suffix in output.file.beside] + texts


def _text_of(annotations: str) -> str:
    return annotations.removesuffix(ANNOTATIONS) + ".txt"


def _keys(path: str, descriptor: int) -> list[object]:
    """What all names of a file share: its inode or, if there is none yet, its real path.

    ``-`` is the standard stream of that ``descriptor``, and the file it is redirected to. Devices and pipes have none.
    """
    own: list[object] = [(PIPE, descriptor)] if path == PIPE else []
    try:
        status = os.fstat(descriptor) if path == PIPE else os.stat(path)
    except (OSError, ValueError):
        return own or [os.path.realpath(path)]
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        own.append((status.st_dev, status.st_ino))
    return own


def _reject(output: Named, path: str, other: str) -> None:
    if path == PIPE and not other.startswith("the input"):
        raise OptionError(
            f"{other} - and {output.flag} -: standard output has room for one of them; write the other to a file"
        )
    what = f"{output.flag} {output.path}" + ("" if path == output.path else f", by {path} beside it,")
    raise OptionError(f"{what} would overwrite {other}; name another file")
