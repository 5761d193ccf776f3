"""Where our time goes: the stages of training and tagging, and the kernels under them, on one thread.

A stage's functions are wrapped by a clock for the time of one run; a stage that calls another is not charged for it.
What belongs to no stage is ``rest``. Kernels are wrapped where Python calls them, once they are compiled.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loglinear.data import read_columns
from loglinear.estimators.tagger import Tagger
from loglinear.experiments.bench.common import Say
from loglinear.experiments.bench.job import Job
from loglinear.experiments.bench.ours import make_tagger, optimizer_of, tag_file, warm_up
from loglinear.optimizers.optimizer import OPTIMIZERS

Place = tuple[Any, str]
OURS = "loglinear.experiments.bench.ours"
TRAINING: dict[str, list[Place]] = {
    "read": [(__name__, "read_columns")],
    "encode": [("loglinear.features.template_encoder:TemplateEncoder", "fit")],
    "collect features": [("loglinear.structures.chain_features:ChainFeatures", "collect")],
    "layout": [
        ("loglinear.structures.chain_features:ChainFeatures", "lay_out"),
        ("loglinear.optimizers.padded_layout:PaddedLayout", "__init__"),
    ],
    "save": [("loglinear.estimators.tagger:Tagger", "save")],
}
TAGGING: dict[str, list[Place]] = {
    "load": [("loglinear.estimators.tagger:Tagger", "load")],
    "read": [(OURS, "read_columns")],
    "encode": [("loglinear.features.template_encoder:TemplateEncoder", "transform")],
    "layout": [("loglinear.structures.chain_features:ChainFeatures", "lay_out")],
    "score": [("loglinear.structures.chain_features:ChainFeatures", "scores")],
    "decode": [("loglinear.structures.chain:Chain", "viterbi")],
    "write": [(OURS, "write_columns")],
}


class Stages:
    """Seconds and calls by name, each without those of the stages it calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self._inner = [0.0]

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its time added to ``name``."""

        def wrapper(*arguments: Any, **options: Any) -> Any:
            self._inner.append(0.0)
            began = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                spent = time.perf_counter() - began
                self.seconds[name] = self.seconds.get(name, 0.0) + spent - self._inner.pop()
                self.calls[name] = self.calls.get(name, 0) + 1
                self._inner[-1] += spent

        return wrapper

    @contextmanager
    def watching(self, places: dict[str, list[Place]]) -> Iterator[None]:
        """Wrap the functions at each stage's places; those that are not there are passed over."""
        before: list[tuple[Any, str, Any]] = []
        for name, owners in places.items():
            for where, attribute in owners:
                owner = _found(where) if isinstance(where, str) else where
                if owner is None or attribute not in vars(owner):
                    continue
                plain = vars(owner)[attribute]
                before.append((owner, attribute, plain))
                if isinstance(plain, classmethod | staticmethod):
                    setattr(owner, attribute, type(plain)(self.timed(name, plain.__func__)))
                else:
                    setattr(owner, attribute, self.timed(name, plain))
        try:
            yield
        finally:
            for owner, attribute, plain in before:
                setattr(owner, attribute, plain)

    def report(self, whole: float) -> list[dict[str, Any]]:
        """Stages in the order they were first left, and the rest."""
        rows = [{"name": n, "seconds": s, "calls": self.calls[n]} for n, s in self.seconds.items()]
        return [*rows, {"name": "rest", "seconds": max(0.0, whole - sum(self.seconds.values())), "calls": 1}]


def profile(job: Job, say: Say) -> dict[str, Any]:
    """Stages of training and of tagging, and the kernels of both."""
    say("warming up")
    warm_up(job)
    optimizer = OPTIMIZERS.part(optimizer_of(job))
    owner = next(kind for kind in optimizer.__mro__ if "minimise" in vars(kind))
    training: dict[str, list[Place]] = {**TRAINING, "passes": [(owner, "minimise")]}
    model, tagged = (Path(job.scratch) / f"profile.{kind}" for kind in ("model", "tagged"))
    result: dict[str, Any] = {"optimizer": optimizer_of(job)}

    def train() -> None:
        make_tagger(job).fit(read_columns(job.train)).save(model)

    def tag() -> None:
        tagger = Tagger.load(model)
        tagger.set_params(threads=job.threads)
        tag_file(tagger, job.test, tagged)

    for name, what, places in (("training", train, training), ("tagging", tag, TAGGING)):
        say(name)
        result[f"{name} stages"] = _timed(what, places)
        result[f"{name} kernels"] = sorted(_timed(what, kernel_places()), key=lambda row: -row["seconds"])
    return result


def _timed(what: Callable[[], None], places: dict[str, list[Place]]) -> list[dict[str, Any]]:
    """The report on one call with the functions at these places watched."""
    stages = Stages()
    with stages.watching(places):
        began = time.perf_counter()
        what()
        whole = time.perf_counter() - began
    return stages.report(whole)


def kernel_places() -> dict[str, list[Place]]:
    """Where Python finds each kernel of the package that no other kernel calls (those must stay what they are)."""
    from numba.core.registry import CPUDispatcher

    found: dict[int, tuple[Any, list[Place]]] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("loglinear."):
            for attribute, value in list(vars(module).items()):
                if isinstance(value, CPUDispatcher):
                    found.setdefault(id(value), (value, []))[1].append((module, attribute))
    called = {
        (kernel.py_func.__module__, name) for kernel, _ in found.values() for name in kernel.py_func.__code__.co_names
    }
    return {
        f"{kernel.py_func.__module__.removeprefix('loglinear.')}.{kernel.py_func.__name__}": places
        for kernel, places in found.values()
        if (kernel.py_func.__module__, kernel.py_func.__name__) not in called
    }


def _found(where: str) -> Any:
    """A module, or ``module:class``; None if it is not there."""
    module, _, name = where.partition(":")
    try:
        owner = importlib.import_module(module)
    except ModuleNotFoundError:
        return None
    return getattr(owner, name, None) if name else owner
