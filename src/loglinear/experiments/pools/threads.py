"""Jobs on threads of this process: they share its data, and its cores while kernels run."""

from __future__ import annotations

from typing import Any

from loglinear.experiments.pools.pool import SILENT, Emit, Job, Pool


class ThreadPool(Pool):
    """Does at most ``n`` jobs at a time in this process."""

    def __init__(self, n: int) -> None:
        self.n = n

    def do(self, name: str, job: Job, emit: Emit = SILENT) -> Any:
        """Do a job on the thread of the caller; one that reports progress can be stopped there."""
        return job.measure(emit)
