"""Tables 1 and 2 and Figures 1, 2 and 3 of the M-estimation paper (Smith, Vail & Lafferty 2007).

Noun phrases of CoNLL-2000. 900 training sentences, drawn by the seed, are for tuning. Second-order chains over words
and tags, of which the first occurrence of each becomes an unknown one; two sets of features:

    HMM         word and tag of the position with its label, label bigrams and trigrams
    extended    Sha & Pereira's 19 predicates with the label and with the label pair, label bigrams and trigrams

The variance c of the penalty is one of seven from 0.1 to 10, evenly apart in their logarithms, or infinite, chosen by
F1 on the tuning sentences; L-BFGS from zero, at most 100 iterations. All of that is as in the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from loglinear.experiments.charts import Chart
from loglinear.experiments.reproduce.tasks import (
    BOOTSTRAP,
    DEPENDENCIES,
    PROCESSOR,
    Cell,
    Job,
    against,
    beside,
    best,
    penalty,
)
from loglinear.experiments.store import ReproduceCells
from loglinear.experiments.tables import Table, number

HMM, EXTENDED = "HMM features", "extended features"
FEATURES: dict[str, dict[str, Any]] = {
    HMM: {"template": "U0:%x[0,0]\nU1:%x[0,1]\nB\n"},
    EXTENDED: {"template": "chunking", "pair_features": True},
}
VARIANCES = (*np.logspace(-1, 1, 7).round(4).tolist(), math.inf)
QUICK_VARIANCES = (0.1, 1.0, 10.0)
SIZES = (250, 500, 1000, 2000, 4000)
CURVE_SMOOTHING = (
    0.1  # of the transitions: in few sentences not all are met, and some test sentences would be impossible
)
QUICK_SIZES = (40, 80)
ITERATIONS = 100


@dataclass(frozen=True)
class System:
    """A way of training, and the published precision, recall and F1 with each set of features it has there."""

    options: dict[str, Any]
    published: dict[str, tuple[float | None, float | None, float]] = field(default_factory=dict)
    hours: str = ""  # of Fig. 1

    @property
    def unknown(self) -> bool:
        """Whether first occurrences are to be made unknown ones: a base does that by itself."""
        return self.options["criterion"].partition(":")[0] not in ("hmm", "m-estimation")


SYSTEMS = {
    "HMM": System({"criterion": "hmm"}, {HMM: (85.60, 88.68, 87.11)}, "2 s"),
    "CRF": System({"criterion": "cll"}, {HMM: (90.40, 89.56, 89.98), EXTENDED: (94.04, 93.68, 93.86)}, "64:18 h"),
    "PL": System(
        {"criterion": "pseudolikelihood"}, {HMM: (80.31, 81.37, 80.84), EXTENDED: (91.88, 91.79, 91.83)}, "9:35 h"
    ),
    "MEMM": System({"criterion": "memm"}, {HMM: (86.03, 88.62, 87.31), EXTENDED: (90.89, 92.15, 91.51)}, "3:40 h"),
    "M-est.": System(
        {"criterion": "m-estimation"}, {HMM: (85.57, 88.65, 87.08), EXTENDED: (88.88, 90.42, 89.64)}, "1:04 h"
    ),
}
BASES = {
    "l.u.": System({"criterion": "m-estimation", "base": "locally-uniform"}),
    "emp.": System({"criterion": "m-estimation", "base": "empirical"}),
    "input-only": System({"criterion": "m-estimation:input_only"}),
}
TABLE_2 = (  # base, name there, chosen by, published
    ("M-est.", "HMM", "f1", (88.88, 90.42, 89.64)),
    ("M-est.", "HMM", "precision", (88.88, 90.42, 89.64)),
    ("l.u.", "locally uniform", "f1", (72.91, 57.56, 64.33)),
    ("l.u.", "locally uniform", "precision", (84.40, 37.68, 52.10)),
    ("emp.", "empirical", "f1", (84.38, 89.43, 86.83)),
    ("input-only", "HMM, input-only features", "f1", (None, None, 89.33)),
)
SLOW_FIRST = ("CRF", "PL", "MEMM", "emp.", "input-only", "M-est.", "l.u.", "HMM")


@dataclass
class Grid:
    """The trainings of one run.

    Parameters
    ----------
    files : tuple of str
        train.txt and test.txt of CoNLL-2000; none for the bundled corpus, a small version.
    cells : Cells
    seed : int
    """

    files: tuple[str, ...]
    cells: ReproduceCells
    seed: int = 0

    def job(self, name: str, features: str, c: float, n_train: int | None = None) -> Job:
        """The training of a system with a set of features and a variance."""
        system = {**SYSTEMS, **BASES}[name]
        options = {**system.options, "order": 2}
        if n_train is not None and not system.unknown:
            options["criterion"] += f":transition_smoothing={CURVE_SMOOTHING}"
        if system.options["criterion"] != "hmm":
            options |= {**FEATURES[features], **penalty(c), "max_iter": ITERATIONS}
        return Job("noun-phrases", self.files, options, self.seed, system.unknown, n_train)

    def variances(self, name: str) -> tuple[float, ...]:
        """Of a system; a hidden Markov model has none."""
        return (math.nan,) if name == "HMM" else VARIANCES if self.files else QUICK_VARIANCES

    def train(self) -> dict[tuple[str, str], dict[str, Cell]]:
        """The cells of each system and set of features, by name."""
        jobs: dict[tuple[str, str], dict[str, Job]] = {}
        for features in (EXTENDED, HMM):
            for name in SLOW_FIRST:
                if features in SYSTEMS[name].published if name in SYSTEMS else features == EXTENDED:
                    jobs[name, features] = {
                        self.label(name, features, c): self.job(name, features, c) for c in self.variances(name)
                    }
        cells = self.cells.trained({label: job for of in jobs.values() for label, job in of.items()})
        return {key: {label: cells[label] for label in of} for key, of in jobs.items()}

    def label(self, name: str, features: str, c: float, n_train: int | None = None) -> str:
        """The name of a cell."""
        corpus = "conll2000" if self.files else "bundled"
        size = "" if n_train is None else f", {n_train} sentences"
        return f"{corpus} {name}, {features}" + ("" if math.isnan(c) else f", c={c:g}") + size

    def variance_of(self, label: str) -> str:
        """The variance that is part of a cell's name."""
        return label.partition(", c=")[2].partition(",")[0] or "-"

    def curves(self, chosen: dict[str, str]) -> dict[str, dict[int, Cell]]:
        """Cells of fewer training sentences, each system's with the variance chosen for all of them."""
        jobs: dict[str, Job] = {}
        places: dict[str, tuple[str, int]] = {}
        for name, label in chosen.items():
            c = float(self.variance_of(label).replace("-", "nan"))
            for size in SIZES if self.files else QUICK_SIZES:
                features = EXTENDED if EXTENDED in SYSTEMS[name].published else HMM
                smaller = self.label(name, features, c, size)
                jobs[smaller], places[smaller] = self.job(name, features, c, size), (name, size)
        found: dict[str, dict[int, Cell]] = {name: {} for name in chosen}
        for label, cell in self.cells.trained(jobs).items():
            name, size = places[label]
            if "failed" not in cell:
                found[name][size] = cell
        return found


def reproduce(files: tuple[str, ...], cells: ReproduceCells, seed: int = 0) -> tuple[list[Table], list[Chart]]:
    """The paper's tables and figures."""
    grid = Grid(files, cells, seed)
    found = grid.train()
    chosen = {key: best(of) for key, of in found.items()}
    at_full_size = {
        name: chosen[name, EXTENDED if EXTENDED in system.published else HMM] for name, system in SYSTEMS.items()
    }
    curves = grid.curves(at_full_size)
    tables = [_table_1(grid, chosen), _table_2(grid, found), _times(grid, at_full_size)]
    return tables, [_figure_1(grid, at_full_size), _figure_2(grid, at_full_size, curves), _figure_3(grid, found)]


def _figures(cell: Cell) -> list[float]:
    return [cell["test"][what] for what in ("precision", "recall", "f1")]


def _table_1(grid: Grid, chosen: dict[tuple[str, str], str]) -> Table:
    hmm = grid.cells.done[chosen["HMM", HMM]]
    corpus = "conll2000" if grid.files else "bundled"
    table = Table(
        f"M-estimation, Table 1: noun phrases of {corpus}, {hmm['sentences']:,} training sentences",
        ["", "P", "R", "F1", "published P R F1", "F1 less published", "F1 less the HMM's (p)", "c", "iterations", "s"],
    )
    for features in (HMM, EXTENDED):
        for name, system in SYSTEMS.items():
            if features not in system.published:
                continue
            label = chosen[name, features]
            cell = grid.cells.done[label]
            figures = _figures(cell)
            table.add(
                f"{name}, {features}", figures,
                [
                    *(number(figure, 2) for figure in figures), *beside(figures, system.published[features]),
                    "" if cell is hmm else against(hmm, cell), grid.variance_of(label),
                    str(cell["iterations"] or "-"), number(cell["seconds"], 1),
                ],
            )  # fmt: skip
    table.notes += [f"{BOOTSTRAP} c is chosen by F1 on the tuning sentences.", PROCESSOR]
    extended = grid.cells.done[chosen["M-est.", EXTENDED]]["features"]
    table.notes.append(
        f"The extended set has {extended:,} features here, 630,862 in the paper. PL is the conditional form. "
        "Precision, recall and F1 are conlleval's."
    )
    return table


def _table_2(grid: Grid, found: dict[tuple[str, str], dict[str, Cell]]) -> Table:
    table = Table(
        "M-estimation, Table 2: base distributions, extended features; and input-only features (section 5.2)",
        ["base", "chosen by", "P", "R", "F1", "published P R F1", "F1 less published", "F1 less HMM base's (p)", "c"],
    )
    first = found["M-est.", EXTENDED]
    base = first[best(first)]
    for name, shown, metric, published in TABLE_2:
        of = found[name, EXTENDED]
        label = best(of, metric)
        figures = _figures(of[label])
        compared = "" if of[label] is base else against(base, of[label])
        table.add(
            shown, figures,
            [
                {"f1": "F1"}.get(metric, metric), *(number(figure, 2) for figure in figures),
                *beside(figures, published), compared, grid.variance_of(label),
            ],
        )  # fmt: skip
    failed = [label for of in found.values() for label, cell in of.items() if "failed" in cell]
    table.notes.append(f"{BOOTSTRAP} c is chosen on the tuning sentences.")
    if failed:
        names = "; ".join(label.partition(" ")[2] for label in failed)
        table.notes.append(f"Without a penalty there is no minimum, and so no cell, for: {names}.")
    return table


def _times(grid: Grid, chosen: dict[str, str]) -> Table:
    table = Table(
        "M-estimation, Figure 1: training time of the models with extended features",
        ["", "seconds", "iterations", "seconds for 100 iterations", "times the M-estimate's", "published"],
    )
    cells = {name: grid.cells.done[label] for name, label in chosen.items()}
    per_100 = {name: _for_100(cell) for name, cell in cells.items()}
    for name, system in SYSTEMS.items():
        ratio = per_100[name] / per_100["M-est."]
        table.add(
            name, [cells[name]["seconds"], per_100[name]],
            [
                number(cells[name]["seconds"], 1), str(cells[name]["iterations"] or "-"), number(per_100[name], 1),
                number(ratio, 1), system.hours,
            ],
        )  # fmt: skip
    table.notes += [PROCESSOR, "The paper's are hours on the clock of a 2.2 GHz Opteron."]
    return table


def _for_100(cell: Cell) -> float:
    """Seconds of 100 iterations; a hidden Markov model has none."""
    return cell["seconds"] * (ITERATIONS / cell["iterations"] if cell["iterations"] else 1.0)


def _figure_1(grid: Grid, chosen: dict[str, str]) -> Chart:
    seconds = [_for_100(grid.cells.done[chosen[name]]) for name in SYSTEMS]
    labels = [
        f"{value:.3g} s (published {system.hours})" for value, system in zip(seconds, SYSTEMS.values(), strict=True)
    ]
    bars = {"name": "", "x": list(SYSTEMS), "y": seconds, "labels": labels}
    return Chart(
        "m-estimation-1", "Training time: 100 L-BFGS iterations, extended features", "seconds of processor time", "",
        [bars], kind="bars", log_x=True, note="Figure 1 of the paper: training time.",
    )  # fmt: skip


def _figure_2(grid: Grid, chosen: dict[str, str], curves: dict[str, dict[int, Cell]]) -> Chart:
    lines = []
    for name, of in curves.items():
        whole = grid.cells.done[chosen[name]]
        points = {**of, whole["sentences"]: whole}
        lines.append({"name": name, "x": list(points), "y": [cell["test"]["f1"] for cell in points.values()]})
    return Chart(
        "m-estimation-2", "Learning curves, extended features", "training sentences", "F1 on the test sentences",
        lines, log_x=True,
        note="Figure 2 of the paper: F1 over the size of the training data, with the c chosen for all of it. "
        f"Transitions of the HMM and of the base are smoothed by {CURVE_SMOOTHING} where the data is not all of it: "
        "unsmoothed, some test sentences have no labelling.",
    )  # fmt: skip


def _figure_3(grid: Grid, found: dict[tuple[str, str], dict[str, Cell]]) -> Chart:
    lines, unbounded = [], []
    for name, system in SYSTEMS.items():
        of = found[name, EXTENDED if EXTENDED in system.published else HMM]
        cells = [cell for cell in of.values() if "failed" not in cell]
        unbounded += [name] if len(cells) < len(of) else []
        lines.append({
            "name": name, "x": [cell["seconds"] for cell in cells], "y": [cell["dev"]["f1"] for cell in cells],
        })  # fmt: skip
    weakest = max(filter(math.isfinite, grid.variances("CRF")))
    last = "none" if math.inf in grid.variances("CRF") else f"weak (c = {weakest:g})"
    ends = f" {', '.join(unbounded)}: to c = {weakest:g}, without a penalty there is no minimum." if unbounded else ""
    return Chart(
        "m-estimation-3", "F1 against training time, one point for each c", "seconds of processor time",
        "F1 on the tuning sentences", lines, log_x=True,
        note=f"Figure 3 of the paper: each line goes from strong regularisation (c = 0.1) to {last}; the HMM has no c, "
        f"and so one point.{ends}",
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------------------------
# Dependencies by M-estimation, as on a slide of the paper's talk: a generative base, and the base with features.
#
# The talk has 85.2 % for its base and 86.4 % for the base tilted by McDonald-style features, on section 22 of the Wall
# Street Journal. Here it is ``ptbdep``, a sample of that newspaper, and ``ewt``, the English Web Treebank, scored on
# dev.


CORPORA = ("ptbdep", "ewt")
COLUMNS = ["system", "UAS", "LAS", "exact", "UAS less the base's (p)", "seconds", "published UAS"]
TAGS = "head-outward:words=no"


@dataclass(frozen=True)
class DependencySystem:
    """A row: the parser's options, the row of its base, and what the talk has."""

    options: dict[str, Any] = field(default_factory=dict)
    base: str = ""
    published: str = ""


DEPENDENCY_SYSTEMS = {
    "generative, tags alone": DependencySystem({"criterion": "generative", "base": TAGS}),
    "m-estimation over tags alone": DependencySystem(
        {"criterion": "m-estimation", "base": TAGS, "variance": 1.0}, "generative, tags alone"
    ),
    "generative": DependencySystem({"criterion": "generative"}, published="85.2"),
    "m-estimation": DependencySystem({"criterion": "m-estimation"}, "generative", "86.4"),
    "mira": DependencySystem({"criterion": "mira"}),
    "cll": DependencySystem({"criterion": "cll"}),
}
QUICK_DEPENDENCIES = ("generative", "m-estimation", "mira")


def table_of(corpus: str, files: tuple[str, ...], cells: ReproduceCells, seed: int = 0) -> Table:
    """The table of one corpus, given its training and dev files; of the bundled one if there are none."""
    rows = tuple(DEPENDENCY_SYSTEMS if files else QUICK_DEPENDENCIES)
    made = cells.trained(
        {f"{corpus} {row}": Job(DEPENDENCIES, files, DEPENDENCY_SYSTEMS[row].options, seed) for row in rows}
    )
    found = {row: made[f"{corpus} {row}"] for row in rows}
    first = found[rows[0]]
    table = Table(
        f"M-estimation, dependencies: {corpus}, {first['sentences']:,} sentences, {len(first['counts']):,} of dev",
        COLUMNS,
    )
    for row, cell in found.items():
        system = DEPENDENCY_SYSTEMS[row]
        compared = against(found[system.base], cell) if system.base else ""
        figures = [cell["test"]["uas"], cell["test"]["las"]]
        shown = [*(number(figure, 2) for figure in figures), number(cell["test"]["exact"], 1)]
        table.add(row, figures, [*shown, compared, number(cell["seconds"], 0), system.published])
    table.notes += [f"Gold tags; every token counts. {BOOTSTRAP}", PROCESSOR]
    return table
