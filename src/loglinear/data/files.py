"""Reading and writing bytes: paths, ``.gz``, standard input and output, open binary files, and atomic output.

:func:`byte_blocks` reads any source block by block and :func:`read_bytes` all at once. Both decompress data that
starts with gzip's magic bytes, so a ``.gz`` name is not needed and standard input may be compressed.
:func:`atomic_output` opens a file that gets its final name only on success: a killed or failing program leaves the old
file untouched.
"""

from __future__ import annotations

import codecs
import gzip
import json
import os
import secrets
import shutil
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from loglinear.ending import removing
from loglinear.errors import DataError
from loglinear.streams import TerminalBytes

Source = str | os.PathLike[str] | BinaryIO | IO[bytes]
STDIN, STDOUT = "<stdin>", "<stdout>"
_GZIP = b"\x1f\x8b"


def source_name(source: Source) -> str:
    """Name of a source for messages: its path, ``<stdin>``, or the ``name`` of an open file."""
    if isinstance(source, str | os.PathLike):
        return STDIN if os.fspath(source) == "-" else os.fspath(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<file>"


class _Rejoined:
    """An open file with the bytes that were read to detect its format put back in front."""

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
    """Yield the bytes of a path, of ``-`` (standard input) or of an open binary file, decompressed if gzip.

    Blocks have about ``size`` bytes; by default there is only one. The source is read lazily.

    Raises
    ------
    DataError
        If the file does not exist, cannot be read, or holds damaged gzip data.
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
            # a ValueError comes from a path with a NUL byte or from a closed file
            raise DataError(f"cannot be read: {getattr(error, 'strerror', None) or error}", name) from None


def read_bytes(source: Source) -> bytes:
    """All bytes of a source at once; see :func:`byte_blocks`."""
    return b"".join(byte_blocks(source))


def text_blocks(source: Source, size: int) -> Iterator[bytes]:
    """Yield a text in blocks of about ``size`` bytes that end with a line; a longer line is its own block."""
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
    """Line number (from 1) of a byte position."""
    return raw.count(b"\n", 0, position) + 1


def check_text(raw: bytes, name: str, lines_before: int = 0) -> int:
    """Reject bytes that are not UTF-8 text, and return the position where the text begins (after a byte order mark).

    In a later block, after ``lines_before`` lines, there is no byte order mark to look for.

    Raises
    ------
    DataError
        With the line of the first NUL byte or of the first invalid UTF-8; or for UTF-16.
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


def json_object(line: str | bytes, example: str, name: str, number: int, **options: Any) -> dict[str, Any]:
    """The JSON object on a line of a file; an error shows an ``example``. ``options`` go to ``json.loads``."""
    try:
        record = json.loads(line, **options)
    except (ValueError, RecursionError) as error:
        raise DataError(f"no valid JSON: {error}", name, number) from None
    if not isinstance(record, dict):
        raise DataError(f"a line must be an object such as {example}", name, number)
    return record


class _Whole:
    """Writes everything it gets: in unbuffered Python, standard output is a raw file that may write only a part."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def write(self, data: bytes) -> int:
        left = memoryview(data)
        while left:
            left = left[self._out.write(left) or 0 :]
        return len(data)


@contextmanager
def atomic_output(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file that is renamed to ``path`` if the block succeeds and removed if it does not.

    ``-`` is standard output. A name that ends in ``.gz`` is compressed, without a time stamp, so that the same data
    gives the same bytes. Devices and pipes are written to directly, and symbolic links are followed, not replaced. In a
    terminal, text that would steer it is shown.
    """
    if os.fspath(path) == "-":
        sys.stdout.flush()
        whole = _Whole(sys.stdout.buffer)
        yield cast(BinaryIO, TerminalBytes(whole) if sys.stdout.isatty() else whole)
        sys.stdout.buffer.flush()
        return
    target = Path(os.path.realpath(path))
    direct = target.exists() and not target.is_file()
    # Not opened by tempfile, so that the new file's permissions follow the user's umask.
    temporary = target if direct else target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        handle = cast(BinaryIO, open(temporary, "wb" if direct else "xb"))  # noqa: SIM115  # closed below, on any path
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"cannot be written: {reason}", os.fspath(path)) from None
    with nullcontext() if direct else removing(temporary):
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
