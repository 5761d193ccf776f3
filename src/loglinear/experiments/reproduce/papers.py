"""The papers that are reproduced: the corpora that each needs, and the tables and charts made of them.

A paper whose own way of training takes much longer than ours has a second entry for it, which is run by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loglinear.errors import OptionError
from loglinear.experiments import corpora
from loglinear.experiments.charts import Chart
from loglinear.experiments.reproduce import m_estimation, piecewise, softmax_margin
from loglinear.experiments.reproduce.tasks import Cells, Run
from loglinear.experiments.tables import Table

Files = dict[str, list[Path]]
Part = Callable[[Run], list[Table | Chart]]
LANGUAGES = tuple(softmax_margin.LANGUAGES)
RECIPE = "softmax-margin-recipe"


@dataclass(frozen=True)
class Paper:
    """A paper.

    Parameters
    ----------
    title : str
    parts : list of (corpora, function)
        What makes tables and charts on each of these corpora.
    chosen : callable
        From the available corpora to those that are used unless others are asked for.
    """

    title: str
    parts: list[tuple[tuple[str, ...], Part]]
    chosen: Callable[[Sequence[str]], list[str]]

    @property
    def corpora(self) -> tuple[str, ...]:
        """All corpora that it can be run on."""
        return tuple(name for names, _ in self.parts for name in names)

    def make(self, files: Files, cells: Cells, seed: int, n_seeds: int = 1) -> tuple[list[Table], list[Chart]]:
        """Tables and charts of the corpora with these files, or of the bundled corpus if there are none."""
        made = [
            item
            for names, part in self.parts
            for corpus in files or ("bundled",)
            if corpus in names or not files
            for item in part(Run(corpus, tuple(map(str, files.get(corpus, ()))), cells, seed, n_seeds))
        ]
        return [item for item in made if isinstance(item, Table)], [item for item in made if isinstance(item, Chart)]


def _first_language(there: Sequence[str]) -> list[str]:
    return [name for name in LANGUAGES if name in there][:1]


PAPERS = {
    "m-estimation": Paper(
        "Computationally efficient M-estimation of log-linear structure models (Smith, Vail & Lafferty 2007)",
        [(("conll2000",), m_estimation.reproduce), (m_estimation.CORPORA, m_estimation.dependencies)],
        lambda there: [name for name in there if name == "conll2000"],
    ),
    "softmax-margin": Paper(
        "Softmax-margin CRFs: training log-linear models with cost functions (Gimpel & Smith 2010)",
        [(LANGUAGES, softmax_margin.entities)],
        _first_language,
    ),
    RECIPE: Paper(
        "Softmax-margin CRFs by the paper's own recipe (Gimpel & Smith 2010, section 4.1)",
        [(LANGUAGES, softmax_margin.recipe)],
        _first_language,
    ),
    "piecewise": Paper(
        "Fast, piecewise training for discriminative finite-state and parsing models (Sutton & McCallum 2005)",
        [
            (LANGUAGES, piecewise.entities),
            (("conll2000",), piecewise.tags),
            (piecewise.CORPORA, piecewise.parsing),
        ],
        lambda there: [*_first_language(there), *(name for name in there if name not in LANGUAGES)],
    ),
}


def available(paper: str, folder: Path | None) -> list[str]:
    """All corpora of a paper that are there; of the languages, the first.

    Raises
    ------
    DataError
        If there is none.
    """
    there = list(corpora.find(folder, PAPERS[paper].corpora))
    if not there:
        raise corpora.missing(PAPERS[paper].corpora, folder)
    return [name for name in there if name not in LANGUAGES or name in _first_language(there)]


def files_for(paper: str, folder: Path | None, asked: Sequence[str] = ()) -> Files:
    """The files of the corpora that are asked for, or of the paper's default ones.

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
