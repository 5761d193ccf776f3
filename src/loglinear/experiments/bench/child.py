"""The process that one measurement runs in: a job comes in by standard input, lines of JSON go out.

``{"progress": text}`` now and then, and at the end ``{"result": ...}`` or ``{"error": text, "class": name}``.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, TextIO

from loglinear.errors import LoglinearError
from loglinear.experiments.bench.common import Say
from loglinear.experiments.bench.job import Job

SECONDS_BETWEEN = 0.5


def measure(job: Job, say: Say) -> dict[str, Any]:
    """Do one job here. Each side imports only what is its own, so that its memory is."""
    if job.kind == "peer":
        from loglinear.experiments.bench.peer import measure_peer

        return measure_peer(job, say)
    if job.kind == "listed":
        from loglinear.experiments.bench.peer import measure_listed

        return measure_listed(job, say)
    if job.kind == "profile":
        from loglinear.experiments.bench.profile import profile

        return profile(job, say)
    from loglinear.experiments.bench import ours

    return {"ours": ours.measure_ours, "passes": ours.score_passes, "criteria": ours.measure_criteria}[job.kind](
        job, say
    )


def main(source: TextIO, target: TextIO) -> None:
    """Read a job, do it, and write what comes of it."""
    last = 0.0

    def write(line: dict[str, Any]) -> None:
        target.write(json.dumps(line) + "\n")
        target.flush()

    def say(text: str) -> None:
        nonlocal last
        if time.perf_counter() - last >= SECONDS_BETWEEN:
            last = time.perf_counter()
            write({"progress": text})

    try:
        write({"result": measure(Job.from_dict(json.load(source)), say)})
    except LoglinearError as error:
        write({"error": str(error), "class": type(error).__name__})
    except MemoryError:
        write({"result": {"failed": "out of memory"}})


if __name__ == "__main__":
    main(sys.stdin, sys.stdout)
