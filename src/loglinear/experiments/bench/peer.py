"""The other side: python-crfsuite as a script would use it, from a column file to a model and a tagged file."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from loglinear.experiments.bench.common import Clock, Say, peak_megabytes, score_tagged
from loglinear.experiments.bench.job import Job
from loglinear.experiments.bench.strings import maker, read_sentences
from loglinear.features.template import TemplateSet

ALGORITHMS = ("lbfgs", "l2sgd", "ap", "pa", "arow")
PENALISED = ("lbfgs", "l2sgd")  # those that take c2


def parameters(job: Job) -> dict[str, Any]:
    """Training parameters: the same objective, everything else as it comes."""
    given: dict[str, Any] = {"c2": job.l2} if job.algorithm in PENALISED else {}
    if job.max_iter is not None:
        given["max_iterations"] = job.max_iter
    return given


def _watched(job: Job, say: Say) -> Any:
    """A trainer that notes when each iteration ended."""
    import pycrfsuite

    class Watched(pycrfsuite.Trainer):  # type: ignore[misc]  # it has no types
        began = ended = 0.0

        def message(self, message: str) -> None:
            event = self.logparser.feed(message)
            if event == "featgen_end":
                self.began = time.perf_counter()
                self.history: list[tuple[float, float]] = []
            elif event == "iteration":
                last = self.logparser.last_iteration
                self.history.append((time.perf_counter() - self.began, last.get("loss", float("nan"))))
                say(f"iteration {last['num']}")
            elif event == "optimization_end":
                self.ended = time.perf_counter()

    return Watched(algorithm=job.algorithm, params=parameters(job), verbose=False)


def measure_listed(job: Job, say: Say) -> dict[str, Any]:
    """Peak memory where the features of all sentences are made before any is handed over, as its tutorial has it."""
    attributes = maker(TemplateSet.parse(job.template))
    trainer = _watched(job, say)
    say("reading and making features")
    sentences = read_sentences(job.train)
    features = [attributes(sentence) for sentence in sentences]
    labels = [[row[-1] for row in sentence] for sentence in sentences]
    for tokens, gold in zip(features, labels, strict=True):
        trainer.append(tokens, gold)
    trainer.train(str(Path(job.scratch) / "listed.crfsuite"))
    return {"peak_mb": peak_megabytes()}


def measure_peer(job: Job, say: Say) -> dict[str, Any]:
    """Times, memory, model size and score of one training and one tagging.

    Each sentence's features are handed over as they are made, which takes the least memory.
    """
    import pycrfsuite

    clock = Clock()
    attributes = maker(TemplateSet.parse(job.template))
    model, tagged = (str(Path(job.scratch) / f"peer.{kind}") for kind in ("crfsuite", "tagged"))
    say("reading and making features")
    trainer = _watched(job, say)
    with clock.timing("read"):
        sentences = read_sentences(job.train)
    with clock.timing("encode"):
        for sentence in sentences:
            trainer.append(attributes(sentence), [row[-1] for row in sentence])
    with clock.timing("fit"):
        trainer.train(model)
    peak = peak_megabytes()
    log = trainer.logparser
    history = trainer.history
    say("tagging")
    with clock.timing("load"):
        tagger = pycrfsuite.Tagger()
        tagger.open(model)
    with clock.timing("tag"), open(tagged, "w", encoding="utf-8") as out:
        for sentence in read_sentences(job.test):
            labels = tagger.tag(attributes(sentence))
            rows = (" ".join((*row, label)) for row, label in zip(sentence, labels, strict=True))
            out.write("\n".join(rows) + "\n\n")
    result = {
        "read": clock.seconds["read"],
        "encode": clock.seconds["encode"],
        "optimise": trainer.ended - trainer.began,
        "file_to_model": clock.total("read", "encode", "fit"),
        "load": clock.seconds["load"],
        "tag": clock.seconds["tag"],
        "peak_mb": peak,
        "model_mb": os.path.getsize(model) / 1e6,
        "iterations": len(history),
        "history": history,
        "objective": history[-1][1] if history and job.algorithm == "lbfgs" else None,
        "stopped_early": job.max_iter is not None and len(history) >= job.max_iter,
        "features": log.featgen_num_features,
        "score": score_tagged(tagged, job.metric),
    }
    result["per_pass"] = result["optimise"] / max(1, result["iterations"])
    return result
