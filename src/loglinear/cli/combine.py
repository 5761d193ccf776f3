"""``loglinear combine``: several taggers as one, with weights tuned on dev data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loglinear.cli import common
from loglinear.cli.options import CorpusOptions, FitOptions, Flags, Given, ModelOutput, Quiet
from loglinear.errors import OptionError
from loglinear.estimators.options import DEV, CombinationOptions
from loglinear.options import READ, spec_name
from loglinear.wording import how_many

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loglinear.data import Attributes, Columns
    from loglinear.estimators.tagger.combined import Combination
    from loglinear.experiments.tables import Table

METRICS = {"f1": "F1", "accuracy": "accuracy"}  # in words

# Options without a meaning where weights are given.
TUNING = ("criterion", "cost", "l2", "max_iter", "tolerance", "seed")


def combine_command(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model files of two or more taggers."), READ],
    output: ModelOutput,
    asked: CombinationOptions,
    files: Annotated[CorpusOptions, Flags(without=("weights",))],
    given: Given,
    dev: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Annotated file that no model was trained on, to tune the weights on.",
            rich_help_panel=DEV,
        ),
        READ,
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Combine taggers log-linearly: p(y given x) is the product of their probabilities, each to the power of a weight.

    Examples
    --------
    loglinear combine hmm.model crf.model --dev dev.txt -o both.model
    loglinear combine words.model tags.model shapes.model --dev dev.txt --criterion risk --cost recall:2 -o all.model
    loglinear combine hmm.model crf.model --dev dev.txt --criterion mert -o both.model     (least error, not loss)
    loglinear combine hmm.model crf.model --weights 0.1,1 -o both.model     (no tuning)
    loglinear eval test.txt --model both.model --against crf.model
    """
    from loglinear.estimators.tagger.combined import Combination

    out = common.console(quiet, tables=True)
    if asked.weights is not None and (dev is not None or (idle := _flags_among(given))):
        what = "--dev" if dev is not None else idle[0]
        raise OptionError(f"--weights says what {what} would find; leave out one of them")
    if asked.weights is None and dev is None:
        raise OptionError("give dev data to tune the weights on (--dev), or the weights themselves (--weights)")
    weights = None if asked.weights is None else common.numbers("weights", asked.weights)
    combination = Combination(**{**vars(asked), "taggers": models, "weights": weights})
    combination.check_options()
    corpus = None
    if dev is not None:
        with common.working(out, f"reading {dev}"):
            corpus = files.read(dev)
    run = FitOptions(quiet=quiet)
    common.fit(combination, corpus, run, out, output=output, label_column=files.label_column, partial=files.partial)
    common.save(combination, output)
    common.show_table(_table(combination, models, corpus, files), out)
    common.summarise(
        combination, out, output,
        data="none" if corpus is None else _data(combination),
        objective=_objective(combination),
        following="loglinear eval TEST --model MODEL;  loglinear tag MODEL FILE;  loglinear inspect MODEL",
    )  # fmt: skip


def _data(combination: Combination) -> str:
    """What the weights were tuned on, and what was left out."""
    tokens, n_left_out = how_many(combination.n_tokens_, "token"), combination.n_left_out_
    left_out = f"; {how_many(n_left_out, 'sentence')} left out" if n_left_out else ""
    return f"{how_many(combination.n_sequences_, 'sentence')}, {tokens} to tune on{left_out}"


def _objective(combination: Combination) -> str:
    """An error and what it is; empty for other objectives, which :func:`~loglinear.cli.common.summarise` words."""
    if spec_name(combination.criterion) != "mert" or combination.objective_ is None:
        return ""
    metric = combination.tuned_metric_
    return f"{combination.objective_:,.4f}, " + (f"1 - {METRICS[metric]}" if metric else "the mean cost of a sentence")


def _flags_among(given: Given) -> list[str]:
    """The flags of tuning that were given."""
    return [flag for name in TUNING if (flag := f"--{name.replace('_', '-')}") in given]


def _table(
    combination: Combination, models: list[Path], corpus: Columns | Attributes | None, files: CorpusOptions
) -> Table:
    """Each model with its weight and, if there is dev data with one label a token, its scores there alone.

    These are F1 where the labels are those of chunks, else accuracy, and the metric that was tuned.
    """
    from loglinear.experiments.tables import Table, number
    from loglinear.structures.constraints import detect_scheme

    usual = "accuracy" if detect_scheme(combination.classes_) is None else "f1"
    metrics = list(filter(None, dict.fromkeys([combination.tuned_metric_, usual])))
    scored = corpus is not None and not files.partial
    metrics = metrics if scored else []
    table = Table("Combination", ["model", "weight", *(f"dev {METRICS[metric]}" for metric in metrics)])
    rows = [*zip(map(str, models), combination.weights_.tolist(), combination.taggers_, strict=True)]
    for model, weight, tagger in [*rows, *([("all", None, combination)] if scored else [])]:
        scores: list[float] = []
        if corpus is not None and scored:
            tagger.set_params(threads=combination.threads)
            scores = _scores(tagger, corpus, files.label_column, metrics)
        table.add(model, [weight, *scores], [number(weight, 4), *(number(score, 2) for score in scores)])
    return table


def _scores(
    tagger: Combination, corpus: Columns | Attributes, label_column: int, metrics: Sequence[str]
) -> list[float]:
    """Each metric of a tagger's labels, in percent."""
    from loglinear.estimators.tagger.inputs import annotation_of, score_labels

    annotation, found = annotation_of(corpus, None, label_column), tagger.predict_numbers(corpus)[0]
    return [100.0 * score_labels(each, annotation, found, tagger.classes_, corpus.offsets) for each in metrics]
