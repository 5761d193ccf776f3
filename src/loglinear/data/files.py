"""Reading and writing bytes: paths, ``.gz``, standard input and output, open binary files, and atomic output.

:func:`byte_blocks` reads any source block by block and :func:`read_bytes` all at once. Both decompress data that
starts with gzip's magic bytes, so a ``.gz`` name is not needed and standard input may be compressed. What is unpacked
is bounded (:class:`_Unpacked`), and so is a line and whatever is read at once: by the memory that there is.
:func:`atomic_output` opens a file that gets its final name only on success: a killed or failing program leaves the old
file untouched.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import IO, Any, BinaryIO, cast

from loglinear import mapped
from loglinear.documents import parsed_json
from loglinear.errors import DataError, OptionError
from loglinear.streams import TerminalBytes
from loglinear.system import WriteError, memory, size_of, too_large, writing

Source = str | os.PathLike[str] | BinaryIO | IO[bytes]
STDIN, STDOUT = "<stdin>", "<stdout>"
_GZIP = b"\x1f\x8b"
RATIO = "LOGLINEAR_UNPACK_RATIO"
_RATIO = 100  # of unpacked to packed bytes; text has 3 to 20, blanks have 1000
_ALWAYS = 64_000_000  # bytes that any file may unpack to
_PART = 1 << 22  # bytes read at a time where the size of the whole is not known
_LINE_SHARE = 16  # a line may be as long as this part of memory: the places of its fields take several times its bytes


def source_name(source: Source) -> str:
    """Name of a source for messages: its path, ``<stdin>``, or the ``name`` of an open file."""
    if isinstance(source, str | os.PathLike):
        return STDIN if os.fspath(source) == "-" else os.fspath(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<file>"


class _Rejoined:
    """An open file with the bytes that were read to detect its format put back in front; counts what was read."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head, self._rest = head, rest
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        head, self._head = self._head, b""
        if 0 <= size < len(head):
            head, self._head = head[:size], head[size:]
        else:
            head += cast(bytes, self._rest.read(size - len(head) if size >= 0 else -1))
        self.count += len(head)
        return head


class _Unpacked:
    """The content of a gzip file, of which no more is unpacked than a text would give.

    A gzip file of blanks unpacks to a thousand times its size. More than 100 times the bytes read so far, or the ratio
    in ``LOGLINEAR_UNPACK_RATIO``, are an error; 64 MB are always allowed.
    """

    def __init__(self, packed: _Rejoined, name: str) -> None:
        self._packed, self._name, self._count = packed, name, 0
        self._stream = gzip.GzipFile(fileobj=cast(Any, packed), mode="rb")
        given = os.environ.get(RATIO, "")
        if given and not (given.isascii() and given.isdecimal() and 0 < len(given) < 10):
            raise OptionError(f"{RATIO}={given} must be a whole number, such as {10 * _RATIO}")
        self._ratio = int(given or _RATIO)

    def read(self, size: int) -> bytes:
        part = self._stream.read(size if size >= 0 else _PART)
        self._count += len(part)
        if self._count > max(_ALWAYS, self._ratio * self._packed.count):
            raise DataError(
                f"its first {size_of(self._packed.count)} unpack to more than {size_of(self._count)}, more than "
                f"{self._ratio} times as much, which no text does; if it is one, set {RATIO} to a greater number, "
                f"as in {RATIO}={10 * self._ratio}",
                self._name,
            )
        return part


def byte_blocks(source: Source, size: int = -1) -> Iterator[bytes]:
    """Yield the bytes of a path, of ``-`` (standard input) or of an open binary file, decompressed if gzip.

    Blocks have about ``size`` bytes; by default a file is one, and a pipe or a gzip file a few. The source is read
    lazily.

    Raises
    ------
    DataError
        If the file does not exist, cannot be read, holds damaged gzip data or some that unpacks to far too much.
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
            content: Any = _Rejoined(head, stream)
            if packed:
                content = _Unpacked(content, name)
            elif size < 0:
                size = _whole(stream, name)
            while block := content.read(size):
                yield block
        except (DataError, OptionError):
            raise
        except (OSError, EOFError, ValueError, zlib.error) as error:
            if packed:
                raise DataError(f"damaged gzip data: {error}", name) from None
            # a ValueError comes from a path with a NUL byte or from a closed file
            raise DataError(f"cannot be read: {getattr(error, 'strerror', None) or error}", name) from None


def _whole(stream: Any, name: str) -> int:
    """How much to read at a time: all of a file (-1) that memory can hold; of what has no size, a part."""
    try:
        status = os.fstat(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return _PART
    if not stat.S_ISREG(status.st_mode):
        return _PART
    if wrong := too_large(status.st_size):
        raise DataError(f"reading it {wrong}", name)
    return -1


PARSED = 7  # bytes of memory that a byte of text takes, at the least, when something is made of it
AS_OBJECTS = 20  # where that is Python objects


def read_bytes(source: Source, times: int = PARSED) -> bytes:
    """All bytes of a source at once; see :func:`byte_blocks`.

    Where memory has a bound, a source is refused whose content would take more, at so many ``times`` its bytes.
    """
    if isinstance(source, str | os.PathLike) and os.path.isfile(source):
        _check_room(source, os.path.getsize(source) * times)
    blocks = byte_blocks(source)
    first, second = next(blocks, b""), next(blocks, b"")
    if not second:
        return first
    whole = io.BytesIO()  # unlike a list that is joined, it holds each byte once
    for block in chain((first, second), blocks):
        if wrong := too_large(whole.tell() + len(block)):
            raise DataError(f"reading it {wrong}", source_name(source))
        whole.write(block)
        _check_room(source, whole.tell() * times)
    return whole.getvalue()


def _check_room(source: Source, n_bytes: float) -> None:
    mapped.check_room(
        n_bytes, f"{source_name(source)} is of a format that is read at once, and its content would",
        "split it, since of several files one is read at a time, or make a column file of it",
    )  # fmt: skip


def text_blocks(source: Source, size: int) -> Iterator[bytes]:
    """Yield a text in blocks of about ``size`` bytes that end with a line; a longer line is its own block."""
    pieces: list[bytes] = []
    longest = max(_ALWAYS, memory() // _LINE_SHARE)
    for block in byte_blocks(source, size):
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join([*pieces, block[:end]])
            pieces = []
        if end < len(block):
            pieces.append(block[end:])
            if len(pieces) * size > longest:
                message = f"a line of more than {size_of(longest)}, too long for this machine; is it a text file?"
                raise DataError(message, source_name(source))
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
        record = parsed_json(line, **options)
    except ValueError as error:
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
    try:
        with writing(path) as handle:
            if os.path.realpath(path).endswith(".gz"):
                with gzip.GzipFile(filename="", mode="wb", fileobj=handle, mtime=0, compresslevel=6) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield handle
    except WriteError as error:
        raise DataError(f"cannot be written: {error.strerror}", os.fspath(path)) from None
