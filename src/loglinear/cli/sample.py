"""``loglinear sample``: draw sequences or trees from a generative model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loglinear.cli.common import console, showing_warnings, working
from loglinear.cli.options import Given, Output, Threads
from loglinear.errors import OptionError
from loglinear.options import READ, option, options
from loglinear.wording import how_many


@options
class SampleOptions:
    """How many sequences or trees are drawn, and how."""

    n: int = option("sequences or trees to draw, at most 10,000,000", default=1, least=1, flags=("-n",))
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
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Model file, trained with --criterion hmm or m-estimation; of parsers, pcfg or pcfg-em.",
        ),
        READ,
    ],
    asked: SampleOptions,
    given: Given,
    output: Output = "-",
    threads: Threads = None,
) -> None:
    """Draw from a generative model: labelled sequences, with the columns it was trained on, or trees, one a line.

    Examples
    --------
    loglinear train train.txt -o hmm.model --criterion hmm && loglinear sample hmm.model -n 5
    loglinear sample m.model -n 100 --method gibbs --sweeps 50 --seed 1 -o drawn.txt     (a model of m-estimation)
    loglinear parse train wsj.mrg -o wsj.model && loglinear sample wsj.model -n 5
    """
    from loglinear import model_file
    from loglinear.data import atomic_output, write_columns
    from loglinear.estimators.parser.file import KIND as PARSER
    from loglinear.estimators.tagger.estimator import Tagger

    if model_file.load(model).kind == PARSER:
        _draw_trees(model, asked, given, output)
        return
    tagger = Tagger.load(model)
    tagger.set_params(threads=threads)
    screen = console()
    try:
        with (
            atomic_output(output) as out,
            showing_warnings(screen),
            working(screen, f"drawing {how_many(asked.n, 'sequence')}"),
        ):
            for corpus, label in tagger.sample_portions(**vars(asked)):
                write_columns(corpus, out, [] if any(column is label for column in corpus.columns) else [label])
    except MemoryError:
        remedy = "draw fewer at a time (-n, --draws), each time by another --seed"
        raise OptionError(
            f"there is no memory for {how_many(max(asked.n, asked.draws or 0), 'sequence')} at once; {remedy}"
        ) from None


def _draw_trees(model: Path, asked: SampleOptions, given: Given, output: str) -> None:
    """Draw trees with their words from a parser's grammar."""
    from loglinear.data import atomic_output
    from loglinear.estimators.parser.estimator import Parser

    wrong = [name for name in ("--draws", "--sweeps") if name in given]
    if asked.method not in ("auto", "exact"):
        wrong.append(f"--method {asked.method}")
    if wrong:
        raise OptionError(f"{' and '.join(wrong)}: draws from a grammar are exact; leave out")
    with working(console(), f"drawing {how_many(asked.n, 'tree')}"):
        trees = Parser.load(model).sample(asked.n, seed=asked.seed)
    with atomic_output(output) as out:
        for tree in trees:
            out.write(f"{tree}\n".encode())
