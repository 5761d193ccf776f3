"""Measurements in processes of their own: the process, and who starts it.

The process that one measurement runs in: a job comes in by standard input, lines of JSON go out.

``{"progress": text}`` now and then, and at the end ``{"result": ...}`` or ``{"error": text, "class": name}``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import loglinear
from loglinear import errors
from loglinear.errors import LoglinearError
from loglinear.experiments.bench.job import Job, Say

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
        from loglinear.experiments.bench.ours import profile

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


# ----------------------------------------------------------------------------------------------------------------------
# Measurements in processes of their own, seen from the one that starts them.


POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
KILLED = (-9, 137)


def in_child(job: Job, observe: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Do a job in a new process and give what it measured.

    Raises
    ------
    LoglinearError
        What the job raised.
    RuntimeError
        If the process broke down; one that the system killed (for want of memory) gives ``{"failed": reason}``.
    """
    package = str(Path(loglinear.__file__).resolve().parents[1])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    threads = dict.fromkeys(POOLS, str(job.threads))
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            [sys.executable, "-m", "loglinear.experiments.bench.child"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, text=True, encoding="utf-8",
            env={**os.environ, **threads, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for this process, which then ends the child
        )  # fmt: skip
        try:
            assert process.stdin is not None and process.stdout is not None
            with process.stdin as job_input:
                job_input.write(json.dumps(job.to_dict()))
            outcome: dict[str, Any] = {}
            for line in process.stdout:
                said = json.loads(line)
                if "progress" not in said:
                    outcome = said
                elif observe is not None:
                    observe(said["progress"])
            status = process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if "result" in outcome:
            return outcome["result"]
        if "error" in outcome:
            raise getattr(errors, outcome["class"], errors.LoglinearError)(outcome["error"])
        if status in KILLED:
            return {"failed": "killed by the system, probably for want of memory"}
        complaints.seek(0)
        text = complaints.read().decode(errors="replace").strip()
        raise RuntimeError(f"{job.key}: the measuring process ended with status {status}:\n{text[-2000:]}")
