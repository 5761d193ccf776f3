"""Data that many jobs need: a process gets them once, however many jobs it does.

A :class:`Shared` value pickles to its token alone. Whoever sends a job to another process asks :func:`pickled` which
values it refers to, sends those that are not there yet, and has the job :func:`unpickled` there with them.
"""

from __future__ import annotations

import io
import pickle
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")
Dump = Callable[[Any], bytes]
_now = threading.local()  # while a job is pickled or unpickled: the values that it refers to, by token
_made: WeakValueDictionary[int, Any] = WeakValueDictionary()  # by the identity of the value, which each keeps alive
_making = threading.Lock()


class Shared(Generic[T]):
    """A value that jobs have in common; it must not be changed.

    Parameters
    ----------
    value : any
    token : str, optional
        Its name in other processes; a new one if not given.
    """

    def __init__(self, value: T, token: str = "") -> None:
        self.value, self.token = value, token or uuid.uuid4().hex

    @classmethod
    def of(cls, value: T) -> Shared[T]:
        """The value as a shared one: the same for the same object."""
        with _making:
            found: Shared[T] | None = _made.get(id(value))
            if found is None:
                found = _made[id(value)] = cls(value)
            return found

    def __reduce__(self) -> tuple[Callable[[str], Shared[Any]], tuple[str]]:
        getattr(_now, "sent", {})[self.token] = self
        return _held, (self.token,)


def _held(token: str) -> Shared[Any]:
    return Shared(_now.held[token], token)


def pickled(job: Any, dump: Dump = pickle.dumps) -> tuple[bytes, dict[str, Shared[Any]]]:
    """A job as bytes, and the shared values that it refers to by their tokens."""
    _now.sent = {}
    try:
        return dump(job), _now.sent
    finally:
        del _now.sent


def unpickled(data: bytes, held: Mapping[str, Any]) -> Any:
    """The job of these bytes, with the shared values by their tokens."""
    _now.held = held
    try:
        return pickle.load(io.BytesIO(data))
    finally:
        del _now.held
