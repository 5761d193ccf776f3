"""The other side: python-crfsuite as a script would use it, from a column file to a model and a tagged file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loglinear.errors import OptionError
from loglinear.experiments.bench.job import Clock, Job, peak_megabytes, score_tagged
from loglinear.experiments.bench.script import Attributes, maker, read_sentences, write_tagged
from loglinear.experiments.pools.pool import Say
from loglinear.features.templates.language import GAZETTEER, Macro, TemplateSet

ALGORITHMS = ("lbfgs", "l2sgd", "ap", "pa", "arow")
PENALISED = ("lbfgs", "l2sgd")  # those that take c2


def parameters(job: Job) -> dict[str, Any]:
    """Training parameters: the same objective as ours, defaults for everything else."""
    penalty = {"c2": job.l2} if job.algorithm in PENALISED else {}
    return {**penalty, **({} if job.max_iter is None else {"max_iterations": job.max_iter})}


def _watched(job: Job, say: Say) -> Any:
    """A trainer that records when each iteration ended."""
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
    """Peak memory if the features of all sentences are made before any is handed over, as in its tutorial."""
    attributes = attribute_maker(TemplateSet.parse(job.template))
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

    Each sentence's features are handed over at once, which takes the least memory.
    """
    import pycrfsuite

    clock = Clock()
    attributes = attribute_maker(TemplateSet.parse(job.template))
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
    history = trainer.history
    say("tagging")
    with clock.timing("load"):
        tagger = pycrfsuite.Tagger()
        tagger.open(model)
    with clock.timing("tag"):
        sentences = read_sentences(job.test)
        write_tagged(tagged, sentences, (tagger.tag(attributes(sentence)) for sentence in sentences))
    return {
        **clock.report(job, trainer.ended - trainer.began, len(history)),
        "file_to_model": clock.total("read", "encode", "fit"), "peak_mb": peak,
        "model_mb": os.path.getsize(model) / 1e6, "history": history,
        "objective": history[-1][1] if history and job.algorithm == "lbfgs" else None,
        "features": trainer.logparser.featgen_num_features, "score": score_tagged(tagged, job.metric),
    }  # fmt: skip


# ----------------------------------------------------------------------------------------------------------------------
# Features as strings in plain Python: what a script around python-crfsuite does, token by token.
#
# The attributes are those of the template; what a macro computes is cached for each distinct value, so that only the
# concatenation of strings is measured.


class _Known(dict[str, str | None]):
    """The results of a macro, cached for each value."""

    def __init__(self, function: Callable[[str], str | None]) -> None:
        self._function = function

    def __missing__(self, value: str) -> str | None:
        result = self[value] = self._function(value)
        return result


def unsupported_reason(templates: TemplateSet) -> str | None:
    """Why python-crfsuite cannot be trained with these features; None if it can."""
    for template in templates.observing:
        if template.scope != "state":
            return f"it has no features of label pairs, which {template} asks for"
        for macro in template.macros:
            if macro.absolute or macro.function == GAZETTEER:
                return f"the benchmark does not make {macro} in plain Python"
    if not templates.has_label_bigram:
        return "it always has label bigrams, and the template has no B line"
    return None


def attribute_maker(templates: TemplateSet) -> Attributes:
    """The function from a sentence to the attributes of each token."""
    plans, tables = plans_of(templates)
    return maker([[p if isinstance(p, str) else (*p[:2], tables[p[2]]) for p in plan] for plan in plans])


def plans_of(templates: TemplateSet) -> tuple[list[list[Any]], list[_Known | None]]:
    """The templates as lists of texts and of (row, column, number of a table), and the tables; the last is None."""
    if reason := unsupported_reason(templates):
        raise OptionError(f"python-crfsuite cannot be measured with this template: {reason}")
    macros = [macro for template in templates.observing for macro in template.macros if not is_plain(macro)]
    numbers = {source: k for k, source in enumerate(dict.fromkeys(macro.source for macro in macros))}
    first = {macro.source: macro for macro in reversed(macros)}
    tables: list[_Known | None] = [_Known(first[source].compute()) for source in numbers]

    def written(piece: str | Macro) -> Any:
        return piece if isinstance(piece, str) else (piece.row, piece.column, numbers.get(piece.source, -1))

    return [[written(piece) for piece in template.pieces] for template in templates.observing], [*tables, None]


def is_plain(macro: Macro) -> bool:
    """Whether a macro is the value itself."""
    return macro.function == "x" and not macro.lowered
