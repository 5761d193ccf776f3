"""Options that several verbs share: of experiments, and of tables.

What ``tune`` and ``compare`` share: options of the tagger that are the same for all trainings, and reading data.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loglinear.cli.common import DATA, default, option, read_corpus

if TYPE_CHECKING:
    from loglinear.data import Attributes, Columns
    from loglinear.estimators.tagger.estimator import Tagger


ORDER, MIN_COUNT, TOLERANCE, SEED = map(default, ("order", "min_count", "tolerance", "seed"))
FIXED, RUN, OUT = "The same for all trainings", "The run", "What comes out"

Template = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|NAME",
        help="Template file, or a named set: chunking, pos, ner, words. By default ner for spans, else pos.",
        rich_help_panel=FIXED,
    ),
]
Order = Annotated[int, option("order", panel=FIXED)]
MinCount = Annotated[int, option("min_count", panel=FIXED)]
SchemeOrRules = Annotated[str | None, option("constraints", panel=FIXED, metavar="NAME|FILE.json")]
MaxIter = Annotated[int | None, option("max_iter", panel=FIXED)]
Tolerance = Annotated[float, option("tolerance", panel=FIXED)]
Gazetteers = Annotated[
    list[Path] | None,
    typer.Option("--gazetteer", metavar="FILE", help="List of known names, an entry a line.", rich_help_panel=FIXED),
]
Seed = Annotated[int, option("seed", panel=RUN)]
AllThreads = Annotated[
    int | None,
    typer.Option("--threads", min=1, help="Threads of all trainings together; all cores if not given.",
                 show_default=False, rich_help_panel=RUN),
]  # fmt: skip
Jobs = Annotated[
    int, typer.Option(min=1, help="Trainings at the same time; they share the threads.", rich_help_panel=RUN)
]
Halving = Annotated[
    str,
    typer.Option(
        help="Shares of the training sentences, as in 0.1,0.3,1: after each the best third of the settings goes on.",
        rich_help_panel=RUN,
    ),
]
Partial = Annotated[
    bool,
    typer.Option("--partial", help="Training labels may be partial: * is any, A|B is A or B.", rich_help_panel=DATA),
]


def numbers(name: str, text: str) -> tuple[float, ...]:
    """Numbers between commas."""
    from loglinear.errors import OptionError

    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise OptionError(f"--{name} {text!r}: give numbers between commas, as in 0.1,0.3,1") from None


def prepared(
    tagger: Tagger, template: str | None, corpus: Columns | Attributes, label_column: int, partial: bool
) -> Tagger:
    """The tagger with its template: that asked for, or the one that suits the labels."""
    from loglinear.cli.train import suggested_template
    from loglinear.data import Attributes
    from loglinear.errors import OptionError

    if isinstance(corpus, Attributes):
        if template is not None:
            raise OptionError("--template looks at columns, but the file holds ready-made attributes; leave it out")
        return tagger
    return tagger.set_params(template=template or suggested_template(corpus, label_column, partial))


def read_all(paths: list[str | None], format: str, separator: str, comments: str) -> list[Columns | Attributes | None]:
    """The corpora of these files, read with the same options."""
    return [None if path is None else read_corpus(path, format, separator, comments, layout=False) for path in paths]


def write_text(path: Path | None, text: str) -> None:
    """Write a text file, whole or not at all."""
    from loglinear.data import atomic_output

    if path is not None:
        with atomic_output(path) as out:
            out.write(text.encode())


def interrupted(results: Path | None) -> str:
    """What to say after Ctrl-C."""
    if results is None:
        return "interrupted: nothing was kept; with --json FILE the same command would go on"
    if not results.exists():
        return "interrupted: no training was finished; the same command begins anew"
    return f"interrupted: what is finished is in {results}; the same command goes on"


def check_outputs(results: Path | None, outputs: Mapping[str, Path | None], inputs: Iterable[object]) -> None:
    """Refuse outputs that could not be written, or not beside each other, before time is spent.

    Parameters
    ----------
    results : Path, optional
        What ``--json`` names: a file, as it is read again.
    outputs : mapping from option to Path
    inputs
        Files that are read; what is none is passed over.
    """
    from loglinear.cli.train import check_place
    from loglinear.errors import OptionError

    if str(results) == "-":
        raise OptionError("--json keeps what is finished, to go on from, in a file; name one")
    there = (str(name) for name in inputs if name is not None and os.path.exists(str(name)))
    taken = {os.path.realpath(path): f"the input {path}" for path in there}
    for option_, path in {"--json": results, **outputs}.items():
        if path is None:
            continue
        if str(path) != "-":
            check_place(path)
        other = taken.setdefault("-" if str(path) == "-" else os.path.realpath(path), option_)
        if other != option_:
            raise OptionError(f"{option_} {path} would overwrite {other}; name another file")


# ----------------------------------------------------------------------------------------------------------------------
# What the verbs that read tables share: which column is the label, and what the others are.


TABLE = "The table"

Label = Annotated[
    str | None, typer.Option("--label", metavar="COLUMN", help="Column of the labels.", rich_help_panel=TABLE)
]
NumberColumns = Annotated[
    list[str] | None,
    typer.Option("--number", metavar="COLUMN", help="A column of numbers; may be repeated.", rich_help_panel=TABLE),
]
CategoryColumns = Annotated[
    list[str] | None,
    typer.Option("--category", metavar="COLUMN", help="A column of names; may be repeated.", rich_help_panel=TABLE),
]
TextColumns = Annotated[
    list[str] | None,
    typer.Option("--text", metavar="COLUMN", help="A column of text; may be repeated.", rich_help_panel=TABLE),
]
Ignored = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="COLUMN", help="A column to leave out; may be repeated.", rich_help_panel=TABLE),
]
Words = Annotated[
    str,
    typer.Option(
        help="How text is cut: words (and marks), tokens or characters, as in words:ngrams=2,lowercase=no,presence.",
        rich_help_panel=TABLE,
    ),
]
RawNumbers = Annotated[
    bool,
    typer.Option("--raw-numbers", help="Leave numbers as they are, not standardised.", rich_help_panel=TABLE),
]
TableFormat = Annotated[
    str,
    typer.Option("--format", help="Format: auto (by the file's name), csv, tsv or jsonl.", rich_help_panel=TABLE),
]


def kinds_of(
    numbers: list[str] | None, categories: list[str] | None, texts: list[str] | None, label: str | None = None
) -> dict[str, str]:
    """What the columns are that the command line names; a column named twice is refused."""
    from loglinear.errors import OptionError

    kinds: dict[str, str] = {}
    for kind, names in (("number", numbers), ("category", categories), ("text", texts)):
        for name in names or []:
            if name == label:
                raise OptionError(f"column {name!r} is the label, and cannot be a {kind} to learn from")
            if kinds.get(name, kind) != kind:
                raise OptionError(f"column {name!r} cannot be both a {kinds[name]} and a {kind}")
            kinds[name] = kind
    return kinds
