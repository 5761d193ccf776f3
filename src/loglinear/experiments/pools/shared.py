"""Data that many jobs need: a process gets them once, however many jobs it does.

A :class:`Shared` value pickles to the SHA-256 of its content alone. Whoever sends a job to another process asks
:func:`pickled` which values it refers to, sends those that are not there yet, and unpickles the job where they are
:func:`unpickled` with them.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Dump = Callable[[Any], bytes]
_now = threading.local()  # while a job is pickled or unpickled: the values that it refers to, by digest


class Shared(Generic[T]):
    """A value that jobs have in common; it must not be changed."""

    def __init__(self, value: T) -> None:
        self.value = value

    @cached_property
    def content(self) -> bytes:
        """The value as bytes."""
        return pickle.dumps(self.value, protocol=5)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(self.content).hexdigest()

    def __reduce__(self) -> tuple[Callable[[str], Shared[Any]], tuple[str]]:
        getattr(_now, "sent", {})[self.digest] = self
        return _held, (self.digest,)


def _held(digest: str) -> Shared[Any]:
    value = Shared(_now.held[digest])
    value.digest = digest
    return value


def pickled(job: Any, dump: Dump = pickle.dumps) -> tuple[bytes, dict[str, Shared[Any]]]:
    """A job as bytes, and the shared values that it refers to by their digests."""
    _now.sent = {}
    try:
        return dump(job), _now.sent
    finally:
        del _now.sent


def unpickled(data: bytes, held: Mapping[str, Any]) -> Any:
    """The job of these bytes, with the shared values by their digests."""
    _now.held = held
    try:
        return pickle.load(io.BytesIO(data))
    finally:
        del _now.held
