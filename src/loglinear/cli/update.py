"""``loglinear update``: go on training a model with more data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from loglinear.cli import common
from loglinear.cli.options import CorpusOptions, Flags, ModelFile, Quiet
from loglinear.options import READ, WRITTEN_FILE, option, options
from loglinear.wording import how_many


@options
class UpdateOptions:
    """How the steps on new data are made."""

    passes: int = option("how often to go over the data", default=1, least=1)
    optimizer: str | None = option(
        "whose steps: sgd or adagrad, as in sgd:step=0.1,decay=0; by default those of the model's training",
        default=None,
        metavar="NAME",
    )
    label: list[str] = option(
        "a label that the model is to have, whether or not the data has it (repeatable)", default=(), repeats=True
    )


def update_command(
    model: ModelFile,
    data: Annotated[str, typer.Argument(metavar="DATA", help="Annotated file (also .gz, or -)."), READ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="NEW", help="Model file to write."), WRITTEN_FILE],
    asked: UpdateOptions,
    files: Annotated[CorpusOptions, Flags()],
    quiet: Quiet = False,
) -> None:
    """Go on training a tagger with more data, by a step for each sentence; new labels and new features join it.

    Nothing is forgotten: the model's labels, attributes and features stay, and averages are those of all steps since
    the first update. The options of training are the model's own.

    Examples
    --------
    loglinear train monday.txt -o m1.model --criterion perceptron
    loglinear update m1.model tuesday.txt -o m2.model
    loglinear update m2.model wednesday.txt -o m3.model --passes 3
    loglinear update crf.model more.txt -o new.model --optimizer sgd:step=0.1,decay=0
    """
    from loglinear.estimators.tagger.estimator import Tagger

    out = common.console(quiet)
    tagger = Tagger.load(model)
    before = tagger.model_
    if asked.optimizer is not None:
        tagger.set_params(optimizer=asked.optimizer)
    with common.working(out, f"reading {data}"):
        corpus = files.read(data)
        weights = files.sentence_weights(len(corpus))
    given: dict[str, Any] = {"sample_weight": weights, "label_column": files.label_column, "partial": files.partial}
    seconds = 0.0
    with common.showing_warnings(out):
        for i in range(asked.passes):
            with common.working(out, f"pass {i + 1} of {asked.passes}"):
                tagger.partial_fit(corpus, classes=list(asked.label) or None, **given)
            seconds += tagger.seconds_ or 0.0
    common.save(tagger, output)
    new_labels = len(tagger.classes_) - len(before.labels)
    new_features = tagger.model_.features.n_features - before.features.n_features
    common.summarise(
        tagger, out, output,
        data=f"{how_many(len(corpus), 'sentence')}, {how_many(corpus.n_tokens, 'token')}",
        features=f"{tagger.model_.features.n_features:,}, {new_features:,} of them new; "
        f"{how_many(len(tagger.classes_), 'label')}, {new_labels:,} of them new",
        seconds=seconds,
        following="loglinear eval TEST --model MODEL;  loglinear update MODEL MORE -o NEW",
    )  # fmt: skip
