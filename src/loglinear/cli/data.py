"""``loglinear data``: public corpora, fetched into the user's cache."""

from __future__ import annotations

from typing import Annotated

import typer

from loglinear.cli.common import console, say, show_table, working
from loglinear.cli.options import add, verbs

app = verbs("Fetch public corpora and see which are here.")


@add(app, "get")
def get_command(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Corpora; see `loglinear data list`.")],
    again: Annotated[bool, typer.Option("--again", help="Fetch again what is here already.")] = False,
) -> None:
    """Fetch corpora into the user's cache, check them, and print their folders.

    Examples
    --------
    loglinear data get conll2000
    loglinear data get conll2000 conll2002     (both; the folders are printed)
    """
    from loglinear.data.corpora.download import get, public_corpus
    from loglinear.system import cache_warning

    for name in names:
        public_corpus(name)
    out = console()
    if warning := cache_warning():
        out.print(f"loglinear: {warning}")
    for name in names:
        with working(out, f"fetching {name} ..."):
            folder = get(name, again)
        say(str(folder))


@add(app, "list")
def list_command() -> None:
    """List the corpora that can be fetched, where they come from, and whether they are here and intact.

    Examples
    --------
    loglinear data list
    """
    from loglinear.data.corpora.download import PUBLIC, corpora_cache, folder_of, wrong_files
    from loglinear.experiments.tables import Table
    from loglinear.system import cache_warning

    table = Table("Public corpora", ["name", "what", "source and licence", "here"])
    for name, corpus in PUBLIC.items():
        wrong = wrong_files(name)
        here = f"wrong: {', '.join(wrong)}" if wrong else "no" if folder_of(name) is None else "yes"
        table.add(name, [], [corpus.about, corpus.licence, here])
    table.notes.append(f"The cache is {corpora_cache()}; `loglinear data get NAME` fetches into it.")
    table.notes += filter(None, [cache_warning()])
    show_table(table, console(tables=True))
