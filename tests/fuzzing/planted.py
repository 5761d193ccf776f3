"""A target with faults of each kind, to see that the campaign finds them."""

from __future__ import annotations

import os
import signal
import time

from fuzzing.minimising import smaller
from fuzzing.targets import Target, WrongAnswer
from loglinear import LoglinearError

#: What a case does, by its number; ``slow once`` and ``large once`` only when it is done first in a process.
FAULTS = {7: b"crash", 12: b"hang", 20: b"memory", 31: b"untyped", 33: b"wrong", 40: b"refused", 44: b"much memory",
          46: b"slow once", 48: b"large once"}  # fmt: skip
SLOW = 3.0  # CPU seconds
done: set[bytes] = set()  # in this process


def run(part: str, content: bytes) -> str:
    """Do what the content says."""
    began = time.process_time()
    match content:
        case b"crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case b"hang":
            while True:
                pass
        case b"memory":  # more than a case may have, less than what ends a worker
            bytearray(700_000_000)
        case b"slow once" if content not in done:
            while time.process_time() < SLOW + began:
                pass
        case b"large once" if content not in done:
            bytearray(700_000_000)
        case b"much memory":
            bytearray(4_000_000_000)
        case b"untyped":
            raise IndexError("planted")
        case b"wrong":
            raise WrongAnswer("planted: two and two are five")
        case b"refused":
            raise LoglinearError("planted")
        case _ if b"ab" in content and b"z" in content:
            raise KeyError("planted")
    done.add(content)
    return "used"


class _Numbered(Target):
    def case(self, seed: int, number: int) -> tuple[str, bytes]:
        """The fault of the number."""
        return "planted", FAULTS.get(number, b"fine")


TARGET = _Numbered("planted", lambda rng: ("planted", b"fine"), run, minimise=smaller)
