"""Whole processes, from start to exit: what a user waits for, imports and compilation included.

A small launcher measures each: seconds by the clock, processor seconds of all threads, and peak memory. A process runs
once before it is measured, so that its files and kernels are in their caches. A *first* run has an empty cache for
kernels instead, as on a machine where loglinear has just been installed; a *compiling* one also does without the
kernels that are shipped with the package.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import loglinear
from loglinear.criteria.criterion import CRITERIA
from loglinear.data import read_columns
from loglinear.errors import LoglinearError
from loglinear.experiments.bench import script
from loglinear.experiments.bench.job import Job, score_tagged
from loglinear.experiments.bench.ours import takes_l2
from loglinear.experiments.bench.peer import parameters, plans_of
from loglinear.experiments.pools.pool import Say
from loglinear.features.templates.language import TemplateSet
from loglinear.system import temporary_folder

FEW = 100  # sentences
LAUNCHER = """
import json, os, sys, time
began = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(pid, 0)
seconds = time.perf_counter() - began
unit = 1 if sys.platform == "darwin" else 1024
found = {"seconds": seconds, "processor": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss * unit / 1e6}
print(json.dumps({**found, "status": os.waitstatus_to_exitcode(status)}), file=sys.stderr)
"""
OURS = (sys.executable, "-P", "-c", "from loglinear.cli import main; main()")
VW_OPTIONS = "-b 22"


@dataclass(frozen=True)
class Command:
    """What is run.

    Parameters
    ----------
    arguments : tuple of str
    before : tuple of str
        The command that trains the model it uses; empty if it uses none.
    after : tuple of str
        The command that tags the test file with the model it trains; empty if it trains none.
    """

    arguments: tuple[str, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def _model(job: Job, tool: str) -> str:
    return str(Path(job.scratch) / f"{tool}-{job.criterion}.model")


def _tagged(job: Job) -> str:
    return str(Path(job.scratch) / f"{job.process.replace(' ', '-')}-{job.criterion}.tagged")


def _train(job: Job) -> Command:
    template, model = Path(job.scratch) / "template.txt", _model(job, "ours")
    template.write_text(job.template, encoding="utf-8")
    options = [f"--threads={job.threads}", f"--criterion={job.criterion}", f"--template={template}"]
    if takes_l2(job):
        options.append(f"--l2={job.l2}")
    if job.max_iter is not None and CRITERIA.part(job.criterion).learns_weights:
        options.append(f"--max-iter={job.max_iter}")
    tag = (*OURS, "tag", model, job.test, "-o", _tagged(job))
    return Command((*OURS, "train", job.train, "-o", model, *options), after=tag)


def _tag(source: Callable[[Job], str]) -> Callable[[Job], Command]:
    def command(job: Job) -> Command:
        files = (_model(job, "ours"), source(job), "-o", _tagged(job))
        return Command((*OURS, "tag", *files, f"--threads={job.threads}"), before=_train(job).arguments)

    return command


def _few(job: Job) -> str:
    """The first sentences of the test file."""
    path = Path(job.scratch) / "few.txt"
    blocks = Path(job.test).read_text(encoding="utf-8").strip().split("\n\n")
    path.write_text("\n\n".join(blocks[:FEW]) + "\n", encoding="utf-8")
    return str(path)


def _script(tool: str, verb: str) -> Callable[[Job], Command]:
    def command(job: Job) -> Command:
        start, model = (sys.executable, "-I", script.__file__, str(_plan(job, tool)), tool), _model(job, tool)
        train, tag = (*start, "train", job.train, model), (*start, "tag", model, job.test, _tagged(job))
        return Command(train, after=tag) if verb == "train" else Command(tag, before=train)

    return command


def _plan(job: Job, tool: str) -> Path:
    """What :mod:`~loglinear.experiments.bench.script` reads: templates, tables of macros, labels and options."""
    path = Path(job.scratch) / f"{tool}-plan.json"
    if not path.exists():
        templates, tables = plans_of(TemplateSet.parse(job.template))
        corpora = [read_columns(name) for name in (job.train, job.test)]
        columns = {piece[2]: piece[1] for pieces in templates for piece in pieces if not isinstance(piece, str)}
        filled = [
            {value: table[value] for corpus in corpora for value in corpus.column(columns[k]).values}
            for k, table in enumerate(tables)
            if table is not None
        ]
        options = parameters(job) if tool == "crfsuite" else VW_OPTIONS
        labels = list(corpora[0].column(-1).values)
        plan = {"templates": templates, "tables": filled, "labels": labels, "options": options}
        path.write_text(json.dumps(plan), encoding="utf-8")
    return path


def _python(code: str) -> Callable[[Job], Command]:
    return lambda job: Command((sys.executable, "-P", "-c", code))


COMMANDS: Mapping[str, Callable[[Job], Command]] = {
    "numpy": _python("import numpy"),
    "import": _python("from loglinear import Tagger; Tagger()"),
    "help": lambda job: Command((*OURS, "--help")),
    "tag few": _tag(_few),
    "tag": _tag(lambda job: job.test),
    "train": _train,
    "crfsuite train": _script("crfsuite", "train"),
    "crfsuite tag": _script("crfsuite", "tag"),
    "vw train": _script("vw", "train"),
    "vw tag": _script("vw", "tag"),
}
#: Variables of the environment in each state; None stands for an empty folder.
ENVIRONMENTS: Mapping[str, Mapping[str, str | None]] = {
    "warm": {},
    "first": {"LOGLINEAR_CACHE": None},
    "compiling": {"LOGLINEAR_CACHE": None, "LOGLINEAR_COMPILED": "0"},
}


def measure_process(job: Job, say: Say) -> dict[str, Any]:
    """Seconds, processor seconds and peak memory of one process; for a training also the score of its model."""
    command = COMMANDS[job.process](job)
    if command.before:
        _once(job, command.before, say, "training a model")
    if job.state == "warm":
        _once(job, command.arguments, say, "running once before it is measured")
    say("measuring")
    with temporary_folder("loglinear-cache-") as empty:
        found = run(command.arguments, {name: value or str(empty) for name, value in ENVIRONMENTS[job.state].items()})
    if command.after:
        say("scoring")
        run(command.after, {})
        found["score"] = score_tagged(_tagged(job), job.metric)
    return found


def _once(job: Job, arguments: tuple[str, ...], say: Say, what: str) -> None:
    """Run a command unless this benchmark has done so already."""
    done = Path(job.scratch) / f"done-{hashlib.sha256(repr(arguments).encode()).hexdigest()[:16]}"
    if not done.exists():
        say(what)
        run(arguments, {})
        done.touch()


def run(arguments: tuple[str, ...], environment: Mapping[str, str]) -> dict[str, Any]:
    """Run a command to its end; what it prints on standard output is thrown away.

    The launcher is small, so that the peak of memory is the command's own: a process begins with its parent's.
    """
    package = str(Path(loglinear.__file__).parent.parent)
    paths = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), package)))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LAUNCHER, *arguments],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    *said, last = done.stderr.splitlines() or [""]
    try:
        found: dict[str, Any] = json.loads(last)
    except ValueError:
        raise LoglinearError(f"{' '.join(arguments[:6])} ... could not be started: {done.stderr[-300:]}") from None
    if found.pop("status") != 0:
        raise LoglinearError(f"{' '.join(arguments)} failed: {' '.join(said)[-500:]}")
    return found
