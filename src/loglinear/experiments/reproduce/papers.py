"""The papers that are run again: which corpora each wants, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loglinear.errors import OptionError
from loglinear.experiments import corpora
from loglinear.experiments.charts import Chart
from loglinear.experiments.reproduce import m_estimation, piecewise, softmax_margin
from loglinear.experiments.store import ReproduceCells
from loglinear.experiments.tables import Table

Made = tuple[list[Table], list[Chart]]
Files = dict[str, list[Path]]
LANGUAGES = tuple(softmax_margin.LANGUAGES)


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
    make: Callable[[Files, ReproduceCells, int], Made]


def _paths(files: Files, name: str) -> tuple[str, ...]:
    return tuple(map(str, files[name])) if name in files else ()


def _first_language(there: Sequence[str]) -> list[str]:
    return [name for name in LANGUAGES if name in there][:1]


def _m_estimation(files: Files, cells: ReproduceCells, seed: int) -> Made:
    names = list(files) or ["bundled"]
    tables: list[Table] = []
    charts: list[Chart] = []
    if "conll2000" in files or not files:
        tables, charts = m_estimation.reproduce(_paths(files, "conll2000"), cells, seed)
    tables += [
        m_estimation.table_of(name, _paths(files, name), cells, seed)
        for name in names
        if name in (*m_estimation.CORPORA, "bundled")
    ]
    return tables, charts


def _softmax_margin(files: Files, cells: ReproduceCells, seed: int) -> Made:
    return [softmax_margin.table_of(name, _paths(files, name), cells, seed) for name in files or ("bundled",)], []


def _piecewise(files: Files, cells: ReproduceCells, seed: int) -> Made:
    names = list(files) or ["bundled"]
    tables = [
        piecewise.entities(name, _paths(files, name), cells, seed) for name in names if name in (*LANGUAGES, "bundled")
    ]
    tables += [
        piecewise.tags(name, _paths(files, name), cells, seed) for name in names if name in ("conll2000", "bundled")
    ]
    tables += [
        piecewise.table_of(name, _paths(files, name), cells, seed)
        for name in names
        if name in (*piecewise.CORPORA, "bundled")
    ]
    return tables, []


PAPERS = {
    "m-estimation": Paper(
        "Computationally efficient M-estimation of log-linear structure models (Smith, Vail & Lafferty 2007)",
        ("conll2000", *m_estimation.CORPORA),
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
        (*LANGUAGES, "conll2000", *piecewise.CORPORA),
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
    there = corpora.find(folder, wanted.corpora)
    chosen = list(dict.fromkeys(asked)) or wanted.chosen(list(there))
    absent = [name for name in chosen if name not in there]
    if absent:
        raise corpora.missing(absent, folder)
    if not chosen:
        raise corpora.missing(wanted.corpora, folder)
    return {name: there[name] for name in chosen}
