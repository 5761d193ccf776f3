"""How much a campaign does: a little by default, more by ``LOGLINEAR_FAULTS``, as in ``kills=500 seed=3``.

``verbs=encode,tag_files`` keeps to some command lines of :data:`faults.verbs.VERBS`, with ``_`` for the blanks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

#: The short form, which `make test-slow` runs, and what `make faults` runs.
SHORT = {
    "seed": 0,
    "kills": 0,  # of commands, by SIGKILL
    "signals": 0,  # SIGTERMs, at random moments of all verbs
    "writes": 12,  # moments at which the disk fills up, for each kind of file
    "limits": 0,  # amounts of memory that a training is given
    "minutes": 0.1,  # of one model used by all threads, and by all processes
    "sentences": 20_000,  # labelled one at a time
    "trainings": 20,  # in one process
    "starts": 2,  # first calls of kernels on many threads and in many children
}
LONG = {
    "kills": 500, "signals": 200, "writes": 10_000, "limits": 60, "minutes": 10, "sentences": 1_000_000,
    "trainings": 200, "starts": 10,
}  # fmt: skip


def counts() -> dict[str, float]:
    """All counts: those that the environment names, ``long`` for all of the long form, else the short ones."""
    found: dict[str, float] = dict(SHORT)
    for setting in os.environ.get("LOGLINEAR_FAULTS", "").split():
        name, _, value = setting.partition("=")
        if name == "long":
            found |= LONG
        elif name == "verbs":
            continue
        elif name in SHORT:
            found[name] = float(value)
        else:
            raise ValueError(
                f"LOGLINEAR_FAULTS: {setting!r} is none of long, verbs=NAMES, {', '.join(f'{n}=N' for n in SHORT)}"
            )
    return found


def count(name: str) -> int:
    """One of them, a whole number."""
    return int(counts()[name])


def chosen(names: Iterable[str]) -> list[str]:
    """The command lines among ``names`` that the environment keeps to, all of them if it names none."""
    names, wanted = list(names), set[str]()
    for setting in os.environ.get("LOGLINEAR_FAULTS", "").split():
        if setting.startswith("verbs="):
            wanted |= {name.replace("_", " ") for name in setting.removeprefix("verbs=").split(",")}
    return [name for name in names if name in wanted] if wanted else names
