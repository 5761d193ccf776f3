"""What the commands of other tools share: their way of giving options, their files, and how they end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from loglinear.errors import LoglinearError, OptionError

if TYPE_CHECKING:
    from loglinear.data import Columns

PAGE = "docs/from-other-tools.md"  # what each option of theirs is here


class Arguments:
    """The arguments of a command, taken one option after the other; what is left are files.

    An option is ``-c 1``, ``-c1``, ``--cost 1`` or ``--cost=1``; each may be given several times, the last one counts.
    """

    def __init__(self, argv: list[str], switches: str = "") -> None:
        self._argv, self._switches, self._read = list(argv), switches, list[str]()

    def _take(self, names: tuple[str, ...], with_value: bool) -> list[str]:
        found, rest, words = list[str](), list[str](), iter(self._argv)
        for word in words:
            if word == "--":
                rest += [word, *words]
                break
            name, equals, value = word.partition("=")
            if word in names:
                if not with_value:
                    found.append("")
                else:
                    value = next(words, "")
                    if not value:
                        raise OptionError(f"{word} needs a value")
                    found.append(value)
            elif with_value and equals and name.startswith("--") and name in names:
                found.append(value)
            elif with_value and word[:2] in names and len(word) > 2 and word[1] != "-":
                found.append(word[2:])
            elif not with_value and len(word) > 2 and word[0] == "-" and set(word[1:]) <= set(self._switches):
                inside = [letter for letter in word[1:] if f"-{letter}" in names]
                left = "".join(letter for letter in word[1:] if f"-{letter}" not in names)
                found += [""] * len(inside)
                rest += [f"-{left}"] if left else []
            else:
                rest.append(word)
        self._argv = rest
        return found

    def switch(self, *names: str) -> bool:
        """Whether an option without a value is there."""
        return bool(self._take(names, with_value=False))

    def texts(self, *names: str) -> list[str]:
        """All values of an option."""
        return self._take(names, with_value=True)

    def text(self, *names: str, default: Any = None) -> Any:
        """The value of an option."""
        return (self._take(names, with_value=True) or [default])[-1]

    def number(self, *names: str, default: Any = None, least: int = 0) -> Any:
        """The value of an option, a whole number."""
        value = self.text(*names)
        if value is None:
            return default
        if not value.isascii() or not value.isdecimal() or len(value) > 15 or int(value) < least:
            raise OptionError(f"{names[0]} {value}: not a whole number from {least} up")
        return int(value)

    def real(self, *names: str, default: Any = None, least: float = 0.0) -> Any:
        """The value of an option, a number."""
        value = self.text(*names)
        if value is None:
            return default
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if not least <= number <= 1e100:
            raise OptionError(f"{names[0]} {value}: not a number from {least:g} up")
        return number

    def ignored(self, *names: str, switch: bool = False) -> None:
        """Take an option that has no meaning here, and say so."""
        if self._take(names, with_value=not switch):
            sys.stderr.write(f"{names[0]} has no effect here ({PAGE})\n")

    def rest(self, at_least: int = 0, at_most: int | None = None) -> list[str]:
        """The files; an error if an option is left, or if they are too few or too many."""
        for i, word in enumerate(self._argv):
            if word == "--":
                del self._argv[i]
                break
            if word.startswith("-") and len(word) > 1:
                raise OptionError(f"there is no option {word}; -h shows those there are, {PAGE} what they are here")
        if len(self._argv) < at_least or (at_most is not None and len(self._argv) > at_most):
            raise OptionError(f"{len(self._argv)} files given; -h shows what is needed")
        return self._argv


class Output:
    """A text to write, to a file or (``-``) to standard output; a file gets its name when all of it is there."""

    def __init__(self, path: str) -> None:
        self._path, self._stack = path, ExitStack()

    def __enter__(self) -> Self:
        from loglinear.data import atomic_output

        self._out = self._stack.enter_context(atomic_output(self._path))
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._stack.__exit__(*error)

    def line(self, text: str) -> None:
        """Write a line."""
        self._out.write(text.encode("utf-8", "surrogateescape") + b"\n")


def check_output(output: str | None, *inputs: str | None) -> None:
    """Reject an output that cannot be written, or is one of the files that are read, by whatever name."""
    from loglinear.system import check_file

    if output is None or output == "-":
        return
    for path in inputs:
        try:
            same = path is not None and path != "-" and os.path.isfile(output) and os.path.samefile(path, output)
        except (OSError, ValueError):
            continue
        if same:
            raise OptionError(f"{output} is read, and would be overwritten: give another name for what is written")
    check_file(output)


def sentences(path: str, layout: bool = False) -> tuple[Columns, list[list[tuple[str, ...]]]]:
    """A column file as a corpus and as rows of strings; no line is a comment or a document mark."""
    from loglinear.data import read_columns

    corpus = read_columns(path, comments="none", docstart=False, layout=layout)
    return corpus, corpus.rows()


def command(name: str, usage: str, run: Callable[[Arguments], None], argv: list[str] | None, switches: str = "") -> int:
    """Run a command: help is printed, and a user's mistake is one line on standard error and status 1."""
    from loglinear import ending
    from loglinear.streams import standard_streams, visible

    words = sys.argv[1:] if argv is None else argv
    if not words or any(word in ("-h", "--help") for word in words):
        sys.stderr.write(usage)
        return 0 if words else 1
    with standard_streams(), ending.watching_signals():
        try:
            run(Arguments(words, switches))
        except LoglinearError as error:
            sys.stderr.write(visible(f"{name}: {error}\n"))
            return 1
        except BrokenPipeError:
            return 128 + 13
        except KeyboardInterrupt:
            sys.stderr.write(f"{name}: interrupted\n")
            return ending.status()
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            sys.stderr.write(visible(f"{name}: {place}{error.strerror or error}\n"))
            return 1
    return 0
