"""Our side: from a column file to a model and a tagged file, by any criterion and optimizer.

Numba's compilation is no part of any figure: a small piece of the corpus goes the whole road first.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.criteria.criterion import CRITERIA, criteria_of
from loglinear.data import Column, Columns, atomic_output, read_columns, write_columns
from loglinear.estimators.dev_data import DevData
from loglinear.estimators.tagger import Tagger
from loglinear.estimators.training import Progress
from loglinear.experiments.bench.common import Clock, Say, peak_megabytes, score_tagged
from loglinear.experiments.bench.figures import median
from loglinear.experiments.bench.job import Job
from loglinear.features.template import TemplateSet
from loglinear.features.template_encoder import TemplateEncoder
from loglinear.optimizers.optimizer import OPTIMIZERS
from loglinear.structures.chain import Chain
from loglinear.threads import available_cores

Float = npt.NDArray[np.float64]
WARM_SENTENCES, EVALUATIONS = 60, 5


def optimizer_of(job: Job) -> str:
    """The optimizer's spec, the criterion's first choice if none is asked for."""
    return CRITERIA.part(job.criterion).optimizers[0] if job.optimizer is None else job.optimizer


def make_tagger(job: Job, **options: Any) -> Tagger:
    """The tagger that a job asks for."""
    penalised = OPTIMIZERS.part(optimizer_of(job)).takes_l2
    given: dict[str, Any] = {
        "criterion": job.criterion, "optimizer": job.optimizer, "template": TemplateSet.parse(job.template),
        "l2": job.l2 if penalised else None, "max_iter": job.max_iter, "threads": job.threads,
    }  # fmt: skip
    return Tagger(**{**given, **options})


def tag_file(tagger: Tagger, source: str | Path, target: str | Path) -> None:
    """From a column file to the same with the predicted label appended."""
    corpus = read_columns(source)
    labels, _ = tagger.predict_numbers(corpus)
    with atomic_output(target) as out:
        write_columns(corpus, out, [Column(labels, tagger.classes_)])


def warm_up(job: Job) -> None:
    """Compile, or load, every kernel that the job needs."""
    scratch = Path(job.scratch)
    few = read_columns(job.train)
    few = few.select(np.arange(min(WARM_SENTENCES, len(few))))
    small, model = scratch / "warm.txt", scratch / "warm.model"
    with atomic_output(small) as out:
        write_columns(few, out)
    tagger = make_tagger(job, max_iter=2).fit(read_columns(small))
    tagger.save(model)
    tag_file(Tagger.load(model), small, scratch / "warm.tagged")
    evaluation_seconds(job, few, 1)


def evaluation_seconds(job: Job, corpus: Columns, times: int = EVALUATIONS) -> float | None:
    """Seconds of the objective's value and gradient over the corpus: the work of a pass of L-BFGS."""
    problem = make_tagger(job).problem(corpus)
    objective = problem.objective(problem.criterion(job.criterion), job.l2, job.threads, single_precision=True)
    weights = np.random.default_rng(0).normal(scale=0.2, size=problem.model.features.n_features)
    seconds = []
    for _ in range(times + 1):
        began = time.perf_counter()
        objective(weights)
        seconds.append(time.perf_counter() - began)
    return median(seconds[1:])  # the first has the memory to fetch


def measure_ours(job: Job, say: Say) -> dict[str, Any]:
    """Times, memory, model size and score of one training and one tagging."""
    say("warming up")
    warm_up(job)
    clock = Clock()
    model, tagged = (Path(job.scratch) / f"ours.{kind}" for kind in ("model", "tagged"))
    with clock.timing("read"):
        corpus = read_columns(job.train)
    with clock.timing("fit"):
        tagger = make_tagger(job).fit(corpus, observe=_telling(say))
    with clock.timing("save"):
        tagger.save(model)
    peak = peak_megabytes()
    history = [(progress.seconds, progress.objective) for progress in tagger.history_]
    optimise, iterations = float(tagger.seconds_ or 0.0), int(tagger.n_iter_ or 0)
    result: dict[str, Any] = {
        "optimise": optimise,
        "file_to_model": clock.total("read", "fit", "save"),
        "peak_mb": peak,
        "model_mb": os.path.getsize(model) / 1e6,
        "iterations": iterations,
        "per_pass": optimise / max(1, iterations),
        "history": history,
        "exact_history": OPTIMIZERS.part(optimizer_of(job)).exact,
        "optimizer": optimizer_of(job),
        "objective": tagger.objective_,
        "message": tagger.message_,
        "features": tagger.model_.features.n_features,
        "stopped_early": job.max_iter is not None and iterations >= job.max_iter,
    }
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
    result["per_evaluation"] = evaluation_seconds(job, corpus)
    return {**result, **{name: clock.seconds[name] for name in ("read", "encode", "save", "load", "tag")}}


def score_passes(job: Job, say: Say) -> dict[str, Any]:
    """The objective and the test score of the weights after each pass, in a training of its own that no one times."""
    corpus, test = read_columns(job.train), read_columns(job.test)
    tagger = make_tagger(job, threads=available_cores(), patience=10**9)
    problem = tagger.problem(corpus)
    penalised = OPTIMIZERS.part(optimizer_of(job)).takes_l2
    objective = problem.objective(problem.criterion(job.criterion), job.l2, available_cores()) if penalised else None
    objectives: list[float | None] = []
    original = DevData.score

    def score(self: DevData, weights: Float) -> float:
        objectives.append(None if objective is None else float(objective(weights)[0]))
        return original(self, weights)

    DevData.score = score  # type: ignore[method-assign]  # in this process alone, to see each pass's weights
    try:
        tagger.fit(corpus, X_dev=test, observe=_telling(say))
    finally:
        DevData.score = original  # type: ignore[method-assign]
    scores = [100.0 * (progress.dev_score or 0.0) for progress in tagger.history_]
    return {"objectives": objectives, "scores": scores}


def measure_criteria(job: Job, say: Say) -> dict[str, Any]:
    """Median seconds of an evaluation by each criterion, taken in turn so that a slow moment falls on all."""
    known = criteria_of(Chain)
    names = [n for n in job.names or known if not known[n].uses_base and known[n].learns_weights]
    problem = make_tagger(job, criterion="cll", optimizer=None).problem(read_columns(job.train))
    weights = np.random.default_rng(0).normal(scale=0.2, size=problem.model.features.n_features)
    objectives = {
        name: problem.objective(problem.criterion(name), job.l2, job.threads, True) for name in {"cll", *names}
    }
    seconds: dict[str, list[float]] = {name: [] for name in ("cll", *names)}
    for name, objective in objectives.items():
        say(f"compiling {name}")
        objective(weights)
    for round_ in range(EVALUATIONS):
        say(f"round {round_ + 1} of {EVALUATIONS}")
        for name in seconds:
            began = time.perf_counter()
            objectives[name](weights)
            seconds[name].append(time.perf_counter() - began)
    return {"per_evaluation": {name: median(times) for name, times in seconds.items()}}


def _telling(say: Say) -> Any:
    def observe(progress: Progress) -> None:
        say(f"pass {progress.iteration}")

    return observe
