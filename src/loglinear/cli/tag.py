"""``loglinear tag``: label a file with a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loglinear.cli.common import (
    Comments,
    Format,
    LabelColumn,
    Separator,
    Threads,
    console,
    read_corpus,
    start_quickly,
    working,
)

if TYPE_CHECKING:
    from loglinear.data import Attributes, Columns
    from loglinear.estimators.chain_predictor import ChainPredictor

EXAMPLES = """
[bold]Examples[/bold]

loglinear tag chunker.model test.txt | loglinear eval -

loglinear tag ner.model news.txt --format text --marginals -o news.tagged

loglinear tag ner.model half-labelled.txt --force     (a label column; * where the label is open)

echo "Anna Berg lives in Oslo" | loglinear tag words.model - --format text     (a model that looks at words only)
"""


def tag_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.")],
    input: Annotated[
        str, typer.Argument(metavar="INPUT", help="File to label (also .gz, or - for standard input).")
    ] = "-",
    output: Annotated[str, typer.Option("-o", "--output", help="Where to write; - is standard output.")] = "-",
    marginals: Annotated[
        bool, typer.Option("--marginals", help="Append the probability of each token's label as one more column.")
    ] = False,
    nbest: Annotated[
        int | None, typer.Option(min=1, help="Write the K most probable labellings of each sentence.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Keep the labels of the label column: A, A|B for either, * for any.")
    ] = False,
    decoding: Annotated[
        str,
        typer.Option(help="viterbi (the best labelling), posterior (the best labels) or min-risk (the least cost)."),
    ] = "viterbi",
    cost: Annotated[
        str | None,
        typer.Option(help="For min-risk: hamming:M, recall:K, precision:K or FILE.json.", show_default=False),
    ] = None,
    threads: Threads = None,
    format: Format = "auto",
    separator: Separator = "auto",
    comments: Comments = "auto",
    label_column: LabelColumn = -1,
) -> None:
    """Label a file: its rows come out with the predicted label appended."""
    start_quickly()
    from loglinear.cli import tagged_output as outputs
    from loglinear.data import atomic_output
    from loglinear.errors import OptionError
    from loglinear.estimators.inputs import annotation_of
    from loglinear.estimators.loaded_tagger import LoadedTagger

    if nbest is not None and (marginals or decoding != "viterbi"):
        raise OptionError("--nbest goes without --marginals and --decoding: each labelling has its own probability")
    if label_column != -1 and not force:
        raise OptionError("--label-column goes with --force: only then are labels of the input looked at")
    tagger = LoadedTagger.load(model, threads)
    screen = console()
    with working(screen, f"reading {input}"):
        corpus = read_corpus(input, format, separator, comments)
    given = None
    if force:
        _check_label_column(tagger, corpus, label_column)
        given = annotation_of(corpus, None, label_column, partial=True)
    write = outputs.writer(corpus)
    with working(screen, f"labelling {len(corpus):,} sentences"), atomic_output(output) as out, located(corpus):
        if nbest is not None:
            write.labellings(out, tagger.predict_nbest(corpus, nbest, given=given))
        else:
            labels, confidence = tagger.predict_numbers(
                corpus, decoding=decoding, given=given, cost=cost, confidence=marginals
            )
            write.labels(out, labels, tagger.classes_, confidence)


@contextmanager
def located(corpus: Columns | Attributes) -> Iterator[None]:
    """Say where in the file a sentence stands that no labelling fits."""
    from loglinear.errors import InfeasibleError

    try:
        yield
    except InfeasibleError as error:
        first = int(corpus.offsets[error.sequence])
        message = "the model's constraints and the labels given leave no labelling for the sentence that begins here"
        raise corpus.error(message + error.hint, first) from None


def _check_label_column(tagger: ChainPredictor, corpus: Columns | Attributes, label_column: int) -> None:
    """Refuse to take for labels a column that the model looks at."""
    from loglinear.data import Columns
    from loglinear.errors import OptionError
    from loglinear.features.template_encoder import TemplateEncoder

    encoder = tagger.model_.encoder
    if isinstance(corpus, Columns) and isinstance(encoder, TemplateEncoder) and corpus.n_columns > 1:
        column = label_column % corpus.n_columns
        if column in encoder.templates.columns:
            raise OptionError(
                f"--force takes labels from column {column} (from 0) of {corpus.name}, at which the model looks; "
                "add a column of labels (* where one is open), or name it with --label-column"
            )
