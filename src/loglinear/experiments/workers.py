"""Several trainings at a time, each in a process of its own, on one thread.

A worker is a process that reads jobs from its standard input, a JSON line each, and answers with a line. It ends when
its input does, also in the middle of a training: nothing goes on when the run has been killed.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import loglinear
from loglinear import errors
from loglinear.experiments.reproduce.tasks import (
    DEPENDENCIES,
    TREES,
    Cell,
    Job,
    Warm,
    measure,
    measure_dependencies,
    measure_trees,
)

MEASURES = {TREES: measure_trees, DEPENDENCIES: measure_dependencies}  # all other tasks are taggers'
POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Worker:
    """A process that trains."""

    def __init__(self) -> None:
        package = str(Path(loglinear.__file__).resolve().parents[1])
        path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the worker
        self._process = subprocess.Popen(
            [sys.executable, "-m", "loglinear.experiments.workers"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints, text=True, encoding="utf-8",
            env={**os.environ, **dict.fromkeys(POOLS, "1"), "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the process that started it, which then ends this one
        )  # fmt: skip

    def do(self, name: str, job: Job) -> Cell:
        """Do a job; what it raises is raised here."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(job.to_dict()) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            status = self._process.wait()
            self._complaints.seek(0)
            text = self._complaints.read().decode(errors="replace").strip().splitlines()
            reason = text[-1] if text else "nothing was said; the system may have ended it for want of memory"
            raise errors.LoglinearError(f"{name}: the training process ended with status {status}: {reason}")
        said: dict[str, Any] = json.loads(answer)
        if "error" in said:
            kind = getattr(errors, said["class"], errors.LoglinearError)
            if kind is errors.InfeasibleError:  # whose message is made of the sequence's number
                kind = errors.DataError
            raise kind(f"{name}: {said['error']}")
        return said["cell"]

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._complaints):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:  # a job it will never read
                    continue


class Workers:
    """So many trainings at a time.

    Parameters
    ----------
    n : int
        Processes; each is started when there is something for it to do.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._workers: list[Worker] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def run(self, jobs: dict[str, Job]) -> Iterator[tuple[str, Cell]]:
        """Each job's name and cell, as they are finished; jobs are begun in their order."""
        waiting: queue.SimpleQueue[tuple[str, Job]] = queue.SimpleQueue()
        finished: queue.SimpleQueue[tuple[str, Cell | BaseException]] = queue.SimpleQueue()
        for item in jobs.items():
            waiting.put(item)

        def serve(worker: Worker) -> None:
            while True:
                try:
                    name, job = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    finished.put((name, worker.do(name, job)))
                except BaseException as error:
                    finished.put((name, error))
                    return

        while len(self._workers) < min(self.n, len(jobs)):
            self._workers.append(Worker())
        for worker in self._workers:
            threading.Thread(target=serve, args=(worker,), daemon=True).start()
        for _ in jobs:
            name, outcome = finished.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield name, outcome


def main() -> None:
    """Be a worker."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what anything prints is no answer
    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            jobs.put(line)
        os._exit(0)  # whoever gave the jobs has gone, or needs no more

    threading.Thread(target=listen, daemon=True).start()
    warm = Warm()
    while True:
        job = Job.from_dict(json.loads(jobs.get()))
        try:
            answer: dict[str, Any] = {"cell": MEASURES.get(job.task, measure)(job, warm)}
        except errors.LoglinearError as error:
            answer = {"error": str(error), "class": type(error).__name__}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
