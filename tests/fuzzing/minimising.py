"""Delta debugging: what of an input is needed for a fault (Zeller and Hildebrandt 2002)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def needed(parts: Sequence[T], fails: Callable[[Sequence[T]], bool], seconds: float = 20.0) -> list[T]:
    """The parts without those that a fault does without; none alone can be left out, if time suffices."""
    left, n, end = list(parts), 2, time.monotonic() + seconds
    while len(left) >= 2 and time.monotonic() < end:
        size = -(-len(left) // n)
        for first in range(0, len(left), size):
            fewer = left[:first] + left[first + size :]
            if fewer and fails(fewer):
                left, n = fewer, max(n - 1, 2)
                break
        else:
            if n >= len(left):
                break
            n = min(2 * n, len(left))
    return left


def smaller(part: str, content: bytes, is_fault: Callable[[bytes], bool]) -> bytes:
    """The content without lines, then without bytes, that the fault does without."""
    lines = content.splitlines(keepends=True)
    content = b"".join(needed(lines, lambda some: is_fault(b"".join(some)))) if len(lines) > 1 else content
    if len(content) > 1:
        content = bytes(needed(content, lambda some: is_fault(bytes(some))))
    return content
