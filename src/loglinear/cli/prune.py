"""``loglinear prune``: make a model smaller, and measure what that costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loglinear.cli.common import console
from loglinear.cli.options import CorpusOptions, ModelFile, ReadingLabels, Threads, changed
from loglinear.errors import OptionError
from loglinear.estimators.options import PRECISIONS
from loglinear.options import READ, WRITTEN_FILE, option, options

if TYPE_CHECKING:
    from loglinear.data import Attributes, Columns
    from loglinear.estimators.tagger.estimator import Tagger


@options
class PruneOptions:
    """What is left out of a model."""

    share: float | None = option("share of the weights to leave out, those nearest to zero", default=None)
    keep: int | None = option("how many weights to keep instead, the greatest", default=None, least=1)
    precision: str | None = option("how numbers are stored; unchanged by default", default=None, choices=PRECISIONS)


def prune_command(
    model: ModelFile,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="SMALL", help="Model file to write."), WRITTEN_FILE],
    asked: PruneOptions,
    files: ReadingLabels,
    test: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Annotated file to compare the two models on (also .gz, or -)."),
        READ,
    ] = None,
    threads: Threads = None,
) -> None:
    """Remove the smallest weights from a model, and the attributes that only they used.

    Examples
    --------
    loglinear prune chunker.model -o small.model --share 0.9 --test test.txt   (a tenth of the weights)
    loglinear prune chunker.model -o small.model --keep 50000
    loglinear prune chunker.model -o small.model --precision float16   (all weights, in fewer bytes)
    """
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.experiments.tables import size

    if not changed(asked, "share", "keep", "precision"):
        raise OptionError("say how to make the model smaller: --share, --keep or --precision")
    tagger = Tagger.load(model)
    corpus = None if test is None else files.read(test)
    bytes_before = model.stat().st_size
    smaller = tagger.pruned(asked.share, keep=asked.keep) if changed(asked, "share", "keep") else tagger
    smaller.save(output, asked.precision)
    out = console()
    features, left = (each.model_.features.n_features for each in (tagger, Tagger.load(output)))
    out.print(f"features   {left:,} of {features:,}")
    out.print(f"model      {output} ({size(output.stat().st_size)}, {size(bytes_before)} before)")
    if corpus is not None:
        out.print(_comparison(tagger, Tagger.load(output), corpus, files, threads))


def _comparison(
    tagger: Tagger, smaller: Tagger, corpus: Columns | Attributes, files: CorpusOptions, threads: int | None
) -> str:
    """The scores of the two models on a corpus, and how many of their labels differ."""
    import numpy as np

    from loglinear.estimators.tagger.inputs import annotation_of, score_labels
    from loglinear.structures.constraints import detect_scheme

    annotation = annotation_of(corpus, None, files.label_column)
    metric = "accuracy" if detect_scheme(tagger.classes_) is None else "f1"
    predicted = [each.set_params(threads=threads).predict_numbers(corpus)[0] for each in (tagger, smaller)]
    before, after = (
        100.0 * score_labels(metric, annotation, labels, tagger.classes_, corpus.offsets) for labels in predicted
    )
    changed = int(np.count_nonzero(predicted[0] != predicted[1]))
    name = {"f1": "F1        ", "accuracy": "accuracy  "}[metric]
    return f"{name} {after:.2f}, {before:.2f} before; {changed:,} of {corpus.n_tokens:,} labels differ"
