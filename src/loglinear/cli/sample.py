"""``loglinear sample``: draw sequences from a generative model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loglinear.cli.common import console, showing_warnings, working
from loglinear.cli.options import Output, Threads
from loglinear.errors import OptionError
from loglinear.options import option, options


@options
class SampleOptions:
    """How many sequences are drawn, and how."""

    n: int = option("sequences to draw, at most 10,000,000", default=1, least=1, flags=("-n",))
    method: str = option(
        "how: exact (hidden Markov models), importance (draws of the base, chosen by their weights), gibbs (Markov "
        "chains that continue from there) or auto (exact where possible, else importance)",
        default="auto",
    )
    seed: int | None = option("seed of the draws; the model's if not given", default=None, least=0)
    draws: int | None = option("draws of the base to choose from; 20 n, at least 10,000", default=None, least=2)
    sweeps: int = option("sweeps of gibbs", default=20, least=0)


def sample_command(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model file, trained with --criterion hmm or m-estimation.")
    ],
    asked: SampleOptions,
    output: Output = "-",
    threads: Threads = None,
) -> None:
    """Draw labelled sequences from a generative model, with the columns it was trained on.

    Examples
    --------
    loglinear train train.txt -o hmm.model --criterion hmm && loglinear sample hmm.model -n 5
    loglinear sample m.model -n 100 --method gibbs --sweeps 50 --seed 1 -o drawn.txt     (a model of m-estimation)
    """
    from loglinear.data import atomic_output, write_columns
    from loglinear.estimators.tagger.estimator import Tagger

    tagger = Tagger.load(model)
    tagger.set_params(threads=threads)
    screen = console()
    try:
        with showing_warnings(screen), working(screen, f"drawing {asked.n:,} sequences"):
            corpus, label = tagger.sample_columns(**vars(asked))
    except MemoryError:
        remedy = "draw fewer at a time (-n, --draws), each time by another --seed"
        raise OptionError(
            f"there is no memory for {max(asked.n, asked.draws or 0):,} sequences at once; {remedy}"
        ) from None
    with atomic_output(output) as out:
        write_columns(corpus, out, [] if any(column is label for column in corpus.columns) else [label])
