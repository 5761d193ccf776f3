"""Model files that are loaded once a process, however often they are asked for.

Engines call a function for every batch or partition, and send it to many processes. What is sent is the path of the
model and the SHA-256 of its content; each process loads the model when it is first needed, and checks that it is still
the one that was meant. Files are memory-mapped (:mod:`loglinear.model_file`): processes of a machine share them.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from loglinear.errors import ModelFileError
from loglinear.estimators.tagger.predict import LoadedTagger

MOST = 4  # models kept; of more, the one that was not used for longest is dropped
Key = tuple[str, int, int, int]


@dataclass
class _Kept:
    """What is known of one state of a file."""

    tagger: LoadedTagger | None = None
    digest: str | None = None


_kept: OrderedDict[Key, _Kept] = OrderedDict()
_lock = threading.RLock()


def _new_lock() -> None:
    """In a forked process the lock may be held by a thread that is not there."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


def loaded(path: str | os.PathLike[str], digest: str | None = None, threads: int | None = None) -> LoadedTagger:
    """The tagger of a model file, from memory if this process has it and the file is unchanged.

    Parameters
    ----------
    path : path
    digest : str, optional
        SHA-256 of the file's content; another content is an error.
    threads : int, optional
        Threads that it predicts with, all cores if None.
    """
    with _lock:
        if digest is not None and (found := digest_of(path)) != digest:
            raise ModelFileError(
                f"{os.fspath(path)} has another content (SHA-256 {found[:12]}...) than when it was named "
                f"({digest[:12]}...): put the model back, or name the new one again"
            )
        kept = _of(path)
        if kept.tagger is None:
            kept.tagger = LoadedTagger.load(Path(path))
        return LoadedTagger(kept.tagger.model_, threads, kept.tagger.data_)


def digest_of(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file, in hexadecimal digits; computed once for each state of the file."""
    with _lock:
        kept = _of(path)
        if kept.digest is None:
            try:
                with open(path, "rb") as stream:
                    kept.digest = hashlib.file_digest(stream, "sha256").hexdigest()
            except OSError as error:
                raise ModelFileError(f"cannot read {os.fspath(path)}: {error.strerror}; check the name") from None
        return kept.digest


def _of(path: str | os.PathLike[str]) -> _Kept:
    """What is kept of a file in its present state."""
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelFileError(f"cannot read {os.fspath(path)}: {reason}; check the name") from None
    key = (os.path.realpath(path), status.st_ino, status.st_size, status.st_mtime_ns)
    kept = _kept.setdefault(key, _Kept())
    _kept.move_to_end(key)
    while len(_kept) > MOST:
        _kept.popitem(last=False)
    return kept
