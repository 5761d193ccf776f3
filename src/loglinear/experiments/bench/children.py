"""Measurements in processes of their own, seen from the one that starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import loglinear
from loglinear import errors
from loglinear.experiments.bench.job import Job

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
