"""Our side: from a column file to a model and a tagged file, by any criterion and optimizer.

No figure includes Numba's compilation: a few sentences go through everything first.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from loglinear.arrays import Float
from loglinear.criteria.criterion import CRITERIA, criteria_of
from loglinear.data import Column, Columns, atomic_output, read_columns, write_columns
from loglinear.estimators.tagger.estimator import Tagger
from loglinear.experiments.bench.job import Clock, Job, median, peak_megabytes, score_tagged
from loglinear.experiments.pools.pool import Say, warm_up
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.language import TemplateSet
from loglinear.kernels import Kernel
from loglinear.optimizers.optimizer import OPTIMIZERS
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.chain.padded import PaddedLayout
from loglinear.structures.chain.structure import Chain
from loglinear.system import available_cores
from loglinear.training.dev import Dev

Timings = dict[str, float | None]
WARM_SENTENCES, EVALUATIONS = 60, 5


def optimizer_of(job: Job) -> str:
    """The optimizer's spec, the criterion's first choice if none is asked for."""
    return CRITERIA.part(job.criterion).optimizers[0] if job.optimizer is None else job.optimizer


def takes_l2(job: Job) -> bool:
    """Whether the training has an L2 penalty."""
    return CRITERIA.part(job.criterion).learns_weights and OPTIMIZERS.part(optimizer_of(job)).takes_l2


def make_tagger(job: Job, **options: Any) -> Tagger:
    """The tagger that a job asks for."""
    asked: dict[str, Any] = {
        "criterion": job.criterion, "optimizer": job.optimizer, "template": TemplateSet.parse(job.template),
        "l2": job.l2 if takes_l2(job) else None, "max_iter": job.max_iter, "threads": job.threads,
    }  # fmt: skip
    return Tagger(**{**asked, **options})


def tag_file(tagger: Tagger, source: str | Path, target: str | Path) -> None:
    """Write a column file with the predicted label appended to each row."""
    corpus = read_columns(source)
    labels, _ = tagger.predict_numbers(corpus)
    with atomic_output(target) as out:
        write_columns(corpus, out, [Column(labels, tagger.classes_)])


def _warm_up(job: Job) -> None:
    """Do everything that the job does on a few sentences, so that its kernels are compiled and loaded."""
    scratch = Path(job.scratch)
    few = _few_sentences(read_columns(job.train))
    small, model = scratch / "warm.txt", scratch / "warm.model"
    with atomic_output(small) as out:
        write_columns(few, out)
    tagger = make_tagger(job, max_iter=2).fit(read_columns(small))
    tagger.save(model)
    tag_file(Tagger.load(model), small, scratch / "warm.tagged")
    evaluation_seconds(job, few, [job.criterion], lambda text: None, 1)


def _few_sentences(corpus: Columns) -> Columns:
    """The first sentences, and for each label the first that has it: kernels are compiled for the number of labels."""
    _, positions = np.unique(corpus.column(-1).ids, return_index=True)
    with_labels = np.searchsorted(corpus.offsets, positions, side="right") - 1
    return corpus.select(np.union1d(np.arange(min(WARM_SENTENCES, len(corpus))), with_labels))


def evaluation_seconds(job: Job, corpus: Columns, names: Sequence[str], say: Say, times: int = EVALUATIONS) -> Timings:
    """Median seconds of each criterion's value and gradient over the corpus: the work of a pass of L-BFGS.

    Criteria are measured in turn, so that a slow moment affects all alike.
    """
    problem = make_tagger(job, criterion=names[0], optimizer=None).problem(corpus)
    weights = np.random.default_rng(0).normal(scale=0.2, size=problem.model.features.n_features)
    objectives = {
        name: problem.objective(problem.criterion(name), job.l2, job.threads, single_precision=True) for name in names
    }
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for round_ in range(times + 1):
        for name, objective in objectives.items():
            say(f"compiling {name}" if round_ == 0 else f"round {round_} of {times}")
            began = time.perf_counter()
            objective(weights)
            seconds[name].append(time.perf_counter() - began)
    return {name: median(values[1:]) for name, values in seconds.items()}  # the first compiles and allocates memory


def measure_ours(job: Job, say: Say) -> dict[str, Any]:
    """Times, memory, model size and score of one training and one tagging."""
    say("warming up")
    warm_up(f"{job.criterion} by {job.optimizer}", lambda: _warm_up(job))
    clock = Clock()
    model, tagged = (Path(job.scratch) / f"ours.{kind}" for kind in ("model", "tagged"))
    with clock.timing("read"):
        corpus = read_columns(job.train)
    with clock.timing("fit"):
        tagger = make_tagger(job).fit(corpus, observe=lambda progress: say(f"pass {progress.iteration}"))
    with clock.timing("save"):
        tagger.save(model)
    peak = peak_megabytes()
    optimise, iterations = float(tagger.seconds_ or 0.0), int(tagger.n_iter_ or 0)
    result: dict[str, Any] = {
        "file_to_model": clock.total("read", "fit", "save"), "peak_mb": peak, "model_mb": os.path.getsize(model) / 1e6,
        "history": [(progress.seconds, progress.objective) for progress in tagger.history_],
        "exact_history": OPTIMIZERS.part(optimizer_of(job)).exact, "optimizer": optimizer_of(job),
        "objective": tagger.objective_, "message": tagger.message_, "features": tagger.model_.features.n_features,
    }  # fmt: skip
    del tagger
    say("tagging")
    with clock.timing("load"):
        loaded = Tagger.load(model)
    loaded.set_params(threads=job.threads)
    with clock.timing("tag"):
        tag_file(loaded, job.test, tagged)
    del loaded
    result["score"] = score_tagged(tagged, job.metric)
    say("encoding and evaluating")
    with clock.timing("encode"):
        TemplateEncoder(TemplateSet.parse(job.template)).fit(corpus)
    result["per_evaluation"] = evaluation_seconds(job, corpus, [job.criterion], lambda text: None)[job.criterion]
    return {**result, **clock.report(job, optimise, iterations)}


def score_passes(job: Job, say: Say) -> dict[str, Any]:
    """The objective and the test score of the weights after each pass, in a separate, untimed training."""
    corpus, test = read_columns(job.train), read_columns(job.test)
    tagger = make_tagger(job, threads=available_cores(), patience=10**9)
    problem = tagger.problem(corpus)
    known = takes_l2(job)
    objective = problem.objective(problem.criterion(job.criterion), job.l2, available_cores()) if known else None
    objectives: list[float | None] = []
    original = Dev.score

    def score(self: Dev, weights: Sequence[Float]) -> float:
        objectives.append(None if objective is None else float(objective(weights[-1])[0]))
        return original(self, weights)

    Dev.score = score  # type: ignore[method-assign]  # in this process alone, to see each pass's weights
    try:
        tagger.fit(corpus, X_dev=test, observe=lambda progress: say(f"pass {progress.iteration}"))
    finally:
        Dev.score = original  # type: ignore[method-assign]
    scores = [100.0 * (progress.dev_score or 0.0) for progress in tagger.history_]
    return {"objectives": objectives, "scores": scores}


def measure_criteria(job: Job, say: Say) -> dict[str, Any]:
    """Median seconds of an evaluation by each criterion, and by cll."""
    known = criteria_of(Chain)
    names = [n for n in job.names or known if not known[n].uses_base and known[n].learns_weights]
    return {
        "per_evaluation": evaluation_seconds(job, read_columns(job.train), list(dict.fromkeys(["cll", *names])), say)
    }


# ----------------------------------------------------------------------------------------------------------------------
# Where our time goes: the stages of training and tagging, and the kernels under them, on one thread.
#
# The functions of a stage are wrapped with a clock during one run; its time excludes the stages it calls. The time
# that belongs to no stage is ``rest``. Kernels are wrapped where Python calls them, once they are compiled.


Place = tuple[Any, str]
HERE = sys.modules[__name__]
TRAINING: dict[str, list[Place]] = {
    "read": [(HERE, "read_columns")],
    "encode": [(TemplateEncoder, "fit")],
    "collect features": [(ChainFeatures, "collect")],
    "layout": [(ChainFeatures, "lay_out"), (PaddedLayout, "__init__")],
    "save": [(Tagger, "save")],
}
TAGGING: dict[str, list[Place]] = {
    "load": [(Tagger, "load")],
    "read": [(HERE, "read_columns")],
    "encode": [(TemplateEncoder, "transform")],
    "layout": [(ChainFeatures, "lay_out")],
    "score": [(ChainFeatures, "scores")],
    "decode": [(Chain, "viterbi")],
    "write": [(HERE, "write_columns")],
}


class Stages:
    """Seconds and calls of each stage, excluding the stages it calls."""

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
        """Wrap the functions at each stage's places."""
        before: list[tuple[Any, str, Any]] = []
        for name, owners in places.items():
            for place, attribute in owners:
                owner = next(cls for cls in getattr(place, "__mro__", [place]) if attribute in vars(cls))
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
        """Stages in the order in which they first ended, and the rest."""
        rows = [{"name": n, "seconds": s, "calls": self.calls[n]} for n, s in self.seconds.items()]
        return [*rows, {"name": "rest", "seconds": max(0.0, whole - sum(self.seconds.values())), "calls": 1}]


def profile(job: Job, say: Say) -> dict[str, Any]:
    """Stages of training and of tagging, and the kernels of both."""
    say("warming up")
    warm_up(f"{job.criterion} by {job.optimizer}", lambda: _warm_up(job))
    optimizer = OPTIMIZERS.part(optimizer_of(job))
    training: dict[str, list[Place]] = {**TRAINING, "passes": [(optimizer, "minimise")]}
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
    """The report on one call, with the functions at these places timed."""
    stages = Stages()
    with stages.watching(places):
        began = time.perf_counter()
        what()
        whole = time.perf_counter() - began
    return stages.report(whole)


def kernel_places() -> dict[str, list[Place]]:
    """The modules that hold each kernel; without those that other kernels call, which cannot be wrapped."""
    found: dict[int, tuple[Any, list[Place]]] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("loglinear."):
            for attribute, value in list(vars(module).items()):
                if isinstance(value, Kernel):
                    found.setdefault(id(value), (value, []))[1].append((module, attribute))
    called = {
        (kernel.py_func.__module__, name) for kernel, _ in found.values() for name in kernel.py_func.__code__.co_names
    }
    return {
        f"{kernel.py_func.__module__.removeprefix('loglinear.')}.{kernel.py_func.__name__}": places
        for kernel, places in found.values()
        if (kernel.py_func.__module__, kernel.py_func.__name__) not in called
    }
