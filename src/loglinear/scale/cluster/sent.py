"""Files that jobs on a cluster read: from the path that the driver knows, where a worker has the same file there, or
else from a copy of the content, which is sent once.

A worker is told the SHA-256 of each file. It looks at the path first: on a shared file system nothing is sent. Where
the file is missing, or has another content, the job's answer is :class:`Missing`, and the driver sends the job again
together with the content, which stays with the worker's process under its digest.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from loglinear.errors import DataError
from loglinear.system import temporary_folder


@dataclass(frozen=True)
class Missing:
    """What a job answers that needs the content of files: their digests."""

    digests: tuple[str, ...]


_lock = threading.Lock()
_folder: Path | None = None


def places(files: Mapping[str, str], contents: Mapping[str, bytes]) -> dict[str, str] | Missing:
    """Where this process reads files.

    Parameters
    ----------
    files : mapping of str to str
        From paths, as the driver knows them, to digests.
    contents : mapping of str to bytes
        From digests to what has been sent.

    Returns
    -------
    places : dict of str to str, or Missing
        From the driver's paths to those here.
    """
    found = {path: _place(path, digest, contents.get(digest)) for path, digest in files.items()}
    missing = tuple(dict.fromkeys(files[path] for path, place in found.items() if place is None))
    return Missing(missing) if missing else {path: place for path, place in found.items() if place is not None}


def _place(path: str, digest: str, content: bytes | None) -> str | None:
    """Where this process reads a file; None if it has no such file."""
    if digest_of(path) == digest:
        return path
    copy = scratch() / digest / os.path.basename(path)
    with _lock:
        if copy.exists():
            return str(copy)
        if content is None:
            return None
        copy.parent.mkdir(exist_ok=True)
        unfinished = copy.with_name(f"{copy.name}.part")
        unfinished.write_bytes(content)
        os.replace(unfinished, copy)
        return str(copy)


def scratch() -> Path:
    """A folder of this process, which goes when it ends."""
    global _folder
    with _lock:
        if _folder is None or not _folder.exists():
            stack = ExitStack()
            _folder = stack.enter_context(temporary_folder("loglinear-sent-"))
            atexit.register(stack.close)
        return _folder


def digests(paths: tuple[str, ...]) -> dict[str, str]:
    """SHA-256 of each file, for :func:`places`; a file that is not here either has none, and is the job's to report."""
    found = {path: digest_of(path) for path in paths}
    return {path: digest for path, digest in found.items() if digest is not None}


def digest_of(path: str) -> str | None:
    """SHA-256 of a file, computed once for each state of it; None if it cannot be read."""
    try:
        status = os.stat(path)
        return _digest(path, status.st_ino, status.st_size, status.st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=1024)
def _digest(path: str, *state: int) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def content(path: str, digest: str) -> bytes:
    """The content of a file, to be sent; one that is not what its digest says is an error."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path) from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise DataError("the file has changed since the command began; start it again", path)
    return data


def worker_name() -> str:
    """What messages call this process: the address of a worker of Dask."""
    try:
        from distributed import get_worker

        return f"the worker at {get_worker().address}"
    except (ImportError, ValueError):
        return "this process"


def is_awaited() -> bool:
    """Whether the driver still waits for the job that this thread does."""
    try:
        from distributed import get_worker, worker

        task = get_worker().state.tasks.get(worker.thread_state.key)  # type: ignore[attr-defined]  # not exported
    except (ImportError, ValueError, AttributeError):
        return True
    return task is not None and task.state == "executing"
