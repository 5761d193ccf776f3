"""``loglinear sample``: sequences drawn from a generative model, as a column file."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from loglinear.cli.common import Threads, console, working

EXAMPLES = """
[bold]Examples[/bold]

loglinear train train.txt -o hmm.model --criterion hmm && loglinear sample hmm.model -n 5

loglinear sample m.model -n 100 --method gibbs --sweeps 50 --seed 1 -o drawn.txt     (a model of m-estimation)
"""


def sample_command(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model file, trained with --criterion hmm or m-estimation.")
    ],
    n: Annotated[int, typer.Option("-n", min=1, help="Sequences to draw, at most 10,000,000.")] = 1,
    method: Annotated[
        str,
        typer.Option(
            help="exact (hidden Markov models), importance (draws of the base, chosen by their weights), gibbs (Markov "
            "chains that go on from there) or auto (exact where possible, else importance)."
        ),
    ] = "auto",
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the draws; the model's if not given.", show_default=False)
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(min=2, help="Draws of the base to choose from; 20 n, at least 10,000.", show_default=False),
    ] = None,
    sweeps: Annotated[int, typer.Option(min=0, help="Sweeps of gibbs.")] = 20,
    output: Annotated[str, typer.Option("-o", "--output", help="Where to write; - is standard output.")] = "-",
    threads: Threads = None,
) -> None:
    """Draw sequences with labels from a generative model, as the columns it was trained on."""
    from loglinear.data import atomic_output, write_columns
    from loglinear.errors import OptionError
    from loglinear.estimators.tagger.estimator import Tagger

    tagger = Tagger.load(model)
    tagger.set_params(threads=threads)
    screen = console()
    try:
        with working(screen, f"drawing {n:,} sequences"), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            corpus, label = tagger.sample_columns(n, method, seed=seed, draws=draws, sweeps=sweeps)
    except MemoryError:
        remedy = "draw fewer at a time (-n, --draws), each time by another --seed"
        raise OptionError(f"there is no memory for {max(n, draws or n):,} sequences at once; {remedy}") from None
    for warning in said:
        screen.print(f"loglinear: warning: {warning.message}", markup=False)
    with atomic_output(output) as out:
        write_columns(corpus, out, [] if any(column is label for column in corpus.columns) else [label])
