"""Bytes in and out: paths, ``.gz``, standard input and output, open binary files, and output that appears whole.

:func:`byte_blocks` takes any source and gives its bytes block by block, :func:`read_bytes` all at once, decompressed
when they begin as gzip does (so a ``.gz`` name is not needed, and standard input may be compressed).
:func:`atomic_output` gives a file to write to that takes its name only when all went well: a killed or failing program
leaves the old file as it was.
"""

from __future__ import annotations

import codecs
import gzip
import os
import secrets
import shutil
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from loglinear.errors import DataError

Source = str | os.PathLike[str] | BinaryIO | IO[bytes]
STDIN, STDOUT = "<stdin>", "<stdout>"
_GZIP = b"\x1f\x8b"


def source_name(source: Source) -> str:
    """Name of a source for messages: its path, ``<stdin>``, or what the open file calls itself."""
    if isinstance(source, str | os.PathLike):
        return STDIN if os.fspath(source) == "-" else os.fspath(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<file>"


class _Rejoined:
    """An open file whose first bytes, read to see what it is, stand before the rest again."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head, self._rest = head, rest

    def read(self, size: int = -1) -> bytes:
        head, self._head = self._head, b""
        if not head:
            return cast(bytes, self._rest.read(size))
        if 0 <= size <= len(head):
            head, self._head = head[:size], head[size:]
            return head
        return head + cast(bytes, self._rest.read(size - len(head) if size >= 0 else -1))


def byte_blocks(source: Source, size: int = -1) -> Iterator[bytes]:
    """The bytes of a path, of ``-`` (standard input) or of an open binary file, decompressed if gzip.

    In blocks of about ``size`` bytes, or all at once; the source is read no faster than the blocks are taken.

    Raises
    ------
    DataError
        When there is no such file, it cannot be read, or its compression is damaged.
    """
    name = source_name(source)
    packed = False
    with ExitStack() as closing:
        try:
            if isinstance(source, str | os.PathLike):
                stream: Any = sys.stdin.buffer if name == STDIN else closing.enter_context(open(source, "rb"))
            elif hasattr(source, "read"):
                stream = source
            else:
                kind = type(source).__name__
                raise DataError(f"a corpus is read from a path, '-' or an open binary file, not a {kind}")
            head = stream.read(len(_GZIP))
            if not isinstance(head, bytes):
                raise DataError("open the file in binary mode ('rb')", name)
            while 0 < len(head) < len(_GZIP) and (more := stream.read(len(_GZIP) - len(head))):
                head += more
            packed = head == _GZIP
            rejoined: Any = _Rejoined(head, stream)
            if packed:
                rejoined = closing.enter_context(gzip.GzipFile(fileobj=rejoined, mode="rb"))
            while block := rejoined.read(size):
                yield block
        except DataError:
            raise
        except (OSError, EOFError, ValueError, zlib.error) as error:
            if packed:
                raise DataError(f"damaged gzip data: {error}", name) from None
            # a ValueError is of a path with a NUL, or of a closed file
            raise DataError(f"cannot be read: {getattr(error, 'strerror', None) or error}", name) from None


def read_bytes(source: Source) -> bytes:
    """All bytes of a source at once; see :func:`byte_blocks`."""
    return b"".join(byte_blocks(source))


def text_blocks(source: Source, size: int) -> Iterator[bytes]:
    """A text in blocks of about ``size`` bytes that end where a line does; a longer line is a block of its own."""
    pieces: list[bytes] = []
    for block in byte_blocks(source, size):
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join([*pieces, block[:end]])
            pieces = []
        if end < len(block):
            pieces.append(block[end:])
    if pieces:
        yield b"".join(pieces)


def line_of(raw: bytes, position: int) -> int:
    """Line, from 1, of a byte position."""
    return raw.count(b"\n", 0, position) + 1


def check_text(raw: bytes, name: str, lines_before: int = 0) -> int:
    """Reject bytes that are not UTF-8 text, and return the position where the text begins (after a byte order mark).

    With ``lines_before`` of the text in blocks of their own, marks of a byte order are not looked for.

    Raises
    ------
    DataError
        With the line of the first NUL byte or of the first invalid UTF-8; without one for UTF-16.
    """
    if not lines_before and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DataError("the file is UTF-16; convert it to UTF-8", name, 1)
    nul = raw.find(b"\0")
    if nul >= 0:
        raise DataError("a NUL byte: this is not a text file", name, lines_before + line_of(raw, nul))
    if not raw.isascii():
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            byte = raw[error.start]
            message = f"invalid UTF-8 (byte 0x{byte:02x}); convert the file to UTF-8"
            raise DataError(message, name, lines_before + line_of(raw, error.start)) from None
    return len(codecs.BOM_UTF8) if not lines_before and raw.startswith(codecs.BOM_UTF8) else 0


class _Whole:
    """Writes all it is given: standard output is a raw file in an unbuffered Python, and may take only a part."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def write(self, data: bytes) -> int:
        left = memoryview(data)
        while left:
            left = left[self._out.write(left) or 0 :]
        return len(data)


@contextmanager
def atomic_output(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Binary file to write to, renamed to ``path`` when the block succeeds, removed when it does not.

    ``-`` is standard output; a name that ends in ``.gz`` is compressed (the same bytes at any time of day); a device or
    a pipe is written directly; a symbolic link keeps pointing where it does.
    """
    if os.fspath(path) == "-":
        sys.stdout.flush()
        yield cast(BinaryIO, _Whole(sys.stdout.buffer))
        sys.stdout.buffer.flush()
        return
    target = Path(os.path.realpath(path))
    direct = target.exists() and not target.is_file()
    # Opened here rather than by tempfile, so that the new file has the rights the user's umask gives.
    temporary = target if direct else target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        handle = cast(BinaryIO, open(temporary, "wb" if direct else "xb"))  # noqa: SIM115  # closed below, on any path
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"cannot be written: {reason}", os.fspath(path)) from None
    try:
        with handle:
            if target.name.endswith(".gz"):
                with gzip.GzipFile(filename="", mode="wb", fileobj=handle, mtime=0, compresslevel=6) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield handle
            handle.flush()
            if not direct:
                os.fsync(handle.fileno())
        if not direct:
            if target.exists():
                shutil.copymode(target, temporary)
            os.replace(temporary, target)
    except BaseException:
        if not direct:
            temporary.unlink(missing_ok=True)
        raise
