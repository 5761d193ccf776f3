"""The papers that are run again: which corpora each wants, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loglinear.errors import OptionError
from loglinear.experiments.reproduce import chunking, dependencies, entities, found, parsing, pieces
from loglinear.experiments.reproduce.cells import Cells
from loglinear.experiments.reproduce.figures import Chart
from loglinear.experiments.table import Table

Made = tuple[list[Table], list[Chart]]
Files = dict[str, list[Path]]
LANGUAGES = tuple(entities.LANGUAGES)


@dataclass(frozen=True)
class Paper:
    """A paper.

    Parameters
    ----------
    title : str
    corpora : tuple of str
        All that it can be run on.
    chosen : callable
        From the corpora that are there to those that are taken if none is asked for.
    make : callable
        From the corpora's files (none for the bundled corpus), the cells and the seed to tables and charts.
    """

    title: str
    corpora: tuple[str, ...]
    chosen: Callable[[Sequence[str]], list[str]]
    make: Callable[[Files, Cells, int], Made]


def _paths(files: Files, name: str) -> tuple[str, ...]:
    return tuple(map(str, files[name])) if name in files else ()


def _first_language(there: Sequence[str]) -> list[str]:
    return [name for name in LANGUAGES if name in there][:1]


def _m_estimation(files: Files, cells: Cells, seed: int) -> Made:
    names = list(files) or ["bundled"]
    tables: list[Table] = []
    charts: list[Chart] = []
    if "conll2000" in files or not files:
        tables, charts = chunking.reproduce(_paths(files, "conll2000"), cells, seed)
    tables += [
        dependencies.table_of(name, _paths(files, name), cells, seed)
        for name in names
        if name in (*dependencies.CORPORA, "bundled")
    ]
    return tables, charts


def _softmax_margin(files: Files, cells: Cells, seed: int) -> Made:
    return [entities.table_of(name, _paths(files, name), cells, seed) for name in files or ("bundled",)], []


def _piecewise(files: Files, cells: Cells, seed: int) -> Made:
    names = list(files) or ["bundled"]
    tables = [
        pieces.entities(name, _paths(files, name), cells, seed) for name in names if name in (*LANGUAGES, "bundled")
    ]
    tables += [
        pieces.tags(name, _paths(files, name), cells, seed) for name in names if name in ("conll2000", "bundled")
    ]
    tables += [
        parsing.table_of(name, _paths(files, name), cells, seed)
        for name in names
        if name in (*parsing.CORPORA, "bundled")
    ]
    return tables, []


PAPERS = {
    "m-estimation": Paper(
        "Computationally efficient M-estimation of log-linear structure models (Smith, Vail & Lafferty 2007)",
        ("conll2000", *dependencies.CORPORA),
        lambda there: [name for name in there if name == "conll2000"],
        _m_estimation,
    ),
    "softmax-margin": Paper(
        "Softmax-margin CRFs: training log-linear models with cost functions (Gimpel & Smith 2010)",
        LANGUAGES,
        _first_language,
        _softmax_margin,
    ),
    "piecewise": Paper(
        "Fast, piecewise training for discriminative finite-state and parsing models (Sutton & McCallum 2005)",
        (*LANGUAGES, "conll2000", *parsing.CORPORA),
        lambda there: [*_first_language(there), *(name for name in there if name not in LANGUAGES)],
        _piecewise,
    ),
}


def files_for(paper: str, folder: Path | None, asked: Sequence[str] = ()) -> Files:
    """The files of the corpora that are asked for, or of those the paper takes by itself.

    Raises
    ------
    OptionError
        If the paper has no such corpus.
    DataError
        If a corpus that was asked for, or any at all, is not there.
    """
    wanted = PAPERS[paper]
    for name in asked:
        if name not in wanted.corpora:
            raise OptionError(f"corpus {name!r}: {paper} is run on {', '.join(wanted.corpora)}")
    there = found.find(folder, wanted.corpora)
    chosen = list(dict.fromkeys(asked)) or wanted.chosen(list(there))
    absent = [name for name in chosen if name not in there]
    if absent:
        raise found.missing(absent, folder)
    if not chosen:
        raise found.missing(wanted.corpora, folder)
    return {name: there[name] for name in chosen}
