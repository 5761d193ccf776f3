"""What has been measured so far, kept in a JSON file after every measurement, so that nothing is lost by Ctrl-C."""

from __future__ import annotations

import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from loglinear import __version__
from loglinear.data import atomic_output
from loglinear.errors import DataError
from loglinear.experiments.bench.job import PLACES, Job
from loglinear.threads import available_cores

FORMAT = 1


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    versions = {"loglinear": __version__, "python": platform.python_version()}
    for name in ("numpy", "numba", "python-crfsuite"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {"cores": available_cores(), "processor": _processor(), "system": platform.system(), "versions": versions}


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


class Results:
    """Measurements by key.

    Parameters
    ----------
    path : Path or None
        The file that keeps them.
    resume : bool
        Begin with what the file holds.
    """

    def __init__(self, path: Path | None = None, resume: bool = False) -> None:
        self.path = path
        self.runs: dict[str, tuple[Job, dict[str, Any]]] = {}
        self.asked: set[str] = set()
        self.corpora: dict[str, dict[str, Any]] = {}
        self.tables: list[dict[str, Any]] = []
        if resume and path is not None and path.exists():
            self._read(path)

    def add(self, job: Job, result: dict[str, Any]) -> None:
        """Keep a measurement, on disk too."""
        self.runs[job.key] = (job, result)
        self.save()

    @property
    def current(self) -> list[tuple[Job, dict[str, Any]]]:
        """The measurements that were asked for; a file may hold others, with other settings."""
        return [run for key, run in self.runs.items() if key in self.asked]

    def of(self, kind: str, **wanted: Any) -> list[dict[str, Any]]:
        """Results of the current jobs of that kind whose fields are as wanted, those that failed left out."""
        return [
            result
            for job, result in self.current
            if job.kind == kind and "failed" not in result and all(getattr(job, n) == v for n, v in wanted.items())
        ]

    def save(self) -> None:
        """Write the file, whole or not at all."""
        if self.path is None:
            return
        runs = {}
        for key, (job, result) in self.runs.items():
            fields = {name: value for name, value in job.to_dict().items() if name not in PLACES}
            runs[key] = {"job": fields, "result": result}
        content = {
            "format": FORMAT, "machine": machine(), "corpora": self.corpora, "tables": self.tables, "runs": runs,
        }  # fmt: skip
        with atomic_output(self.path) as out:
            out.write(json.dumps(content, indent=1).encode())

    def _read(self, path: Path) -> None:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise DataError(f"written by another version (format {content['format']}); measure anew", str(path))
            for run in content["runs"].values():
                job = Job.from_dict({**dict.fromkeys(PLACES, ""), **run["job"]})
                self.runs[job.key] = (job, dict(run["result"]))
            self.corpora = dict(content["corpora"])
        except DataError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"no results of loglinear bench ({error}); leave out --resume", os.fspath(path)) from None
