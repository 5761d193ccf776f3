"""Standard streams, and text as people may safely see it there.

Words, labels and paths come from files of others, and a terminal obeys what it is sent: :func:`visible` shows control
characters instead. :func:`standard_streams` is for a command line: no stream that is closed, full, without a reader or
of a small character set stops the work that a command is there for.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn, TextIO, cast

#: Control characters but tabs and line breaks, directions that reorder what follows, and halves of characters.
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
ESCAPED = "loglinear.escaped"  # what an encoding does with a character that it does not have


def visible(text: str) -> str:
    r"""The text with characters that steer a terminal written as JSON writes them: an escape is ``\u001b``."""
    return UNSEEN.sub(lambda found: _escaped(found[0]), text)


def _escaped(characters: str) -> str:
    units = characters.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def _escape_unknown(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return _escaped(error.object[error.start : error.end]), error.end


codecs.register_error(ESCAPED, _escape_unknown)


class TerminalBytes:
    """A terminal that UTF-8 text is written to in pieces, as bytes; what would steer it is shown."""

    def __init__(self, out: Any) -> None:
        self._out, self._decoder = out, codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> int:
        """Write some bytes; those of an incomplete character wait for the next ones."""
        self._out.write(visible(self._decoder.decode(data)).encode())
        return len(data)


class _Closed(io.RawIOBase):
    """In place of a standard stream that was closed before the program began: the first use says so."""

    def __init__(self, name: str) -> None:
        self.name = name

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> NoReturn:
        raise OSError(errno.EBADF, "it is closed", self.name)

    def write(self, data: Any) -> NoReturn:
        raise OSError(errno.EBADF, "it is closed", self.name)


class _Messages:
    """Standard error: messages that it cannot take are lost, and the work goes on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with self._losing():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._losing():
            self._stream.flush()

    @contextmanager
    def _losing(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            forget(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def forget(stream: TextIO) -> None:
    """Redirect a stream to nowhere, so that Python's flush at exit cannot fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def standard_streams() -> Iterator[None]:
    """Make the standard streams safe to use, for as long as the block runs.

    Closed ones are replaced: standard error by nothing, the others by a stream whose use is an error. Characters that
    their encoding does not have are escaped.
    """
    before = sys.stdin, sys.stdout, sys.stderr
    if None in before:
        _occupy_descriptors()
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(cast(Any, _Closed("standard input")))
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(cast(Any, _Closed("standard output")), write_through=True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the program ends
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # a stream of some other kind
            cast(Any, stream).reconfigure(errors=ESCAPED)
    sys.stderr = cast(Any, _Messages(sys.stderr))
    try:
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = before


def _occupy_descriptors() -> None:
    """Open nowhere as the standard streams that are closed, so that no file of ours becomes one of them."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
