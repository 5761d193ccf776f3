"""Dependencies by M-estimation, as on a slide of the paper's talk: a generative base, and the base with features.

The talk has 85.2 % for its base and 86.4 % for the base tilted by McDonald-style features, on section 22 of the Wall
Street Journal. Here it is ``ptbdep``, a sample of that newspaper, and ``ewt``, the English Web Treebank, scored on dev.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from loglinear.data.bundled import bundled_rows
from loglinear.data.conllu import Dependencies, conllu_text, parse_conllu, read_conllu
from loglinear.estimators.dependency_parser import DependencyParser
from loglinear.evaluation.attachment import attachment_counts, attachment_scores
from loglinear.evaluation.significance import paired_bootstrap
from loglinear.experiments.reproduce.cells import Cells
from loglinear.experiments.reproduce.training import Cell
from loglinear.experiments.table import Table, number

CORPORA = ("ptbdep", "ewt")
COLUMNS = ["system", "UAS", "LAS", "exact", "UAS less the base's (p)", "seconds", "published UAS"]
TAGS = "head-outward:words=no"


@dataclass(frozen=True)
class System:
    """A row: the parser's options, the row of its base, and what the talk has."""

    options: dict[str, Any] = field(default_factory=dict)
    base: str = ""
    published: str = ""


SYSTEMS = {
    "generative, tags alone": System({"criterion": "generative", "base": TAGS}),
    "m-estimation over tags alone": System(
        {"criterion": "m-estimation", "base": TAGS, "variance": 1.0}, "generative, tags alone"
    ),
    "generative": System({"criterion": "generative"}, published="85.2"),
    "m-estimation": System({"criterion": "m-estimation"}, "generative", "86.4"),
    "mira": System({"criterion": "mira"}),
    "cll": System({"criterion": "cll"}),
}
QUICK = ("generative", "m-estimation", "mira")


def measure(system: System, train: Dependencies, dev: Dependencies, threads: int | None) -> Cell:
    """Train and score one system; seconds are of processor time."""
    began = time.process_time()
    parser = DependencyParser(**system.options, threads=threads).fit(train)
    seconds = time.process_time() - began
    parses = parser.parse(dev)
    report = attachment_scores(dev, parses.heads, parses.relations).to_dict()
    counts = attachment_counts(dev, parses.heads).tolist()
    return {**report, "seconds": seconds, "message": parser.message_, "counts": counts}


def tables(files: dict[str, list[Path]], cells: Cells, threads: int | None = None) -> list[Table]:
    """The table of each corpus, given its training and dev files, or of the bundled one if there is none."""
    if not files:
        texts = ["".join(map(conllu_text, bundled_rows(part, "dependency"))).encode() for part in ("train", "dev")]
        train, dev = (parse_conllu(text, "bundled") for text in texts)
        return [table_of("bundled", train, dev, cells, threads, QUICK)]
    found = []
    for name, paths in files.items():
        train, dev = (read_conllu(path) for path in paths)
        found.append(table_of(name, train, dev, cells, threads, tuple(SYSTEMS)))
    return found


def table_of(
    name: str, train: Dependencies, dev: Dependencies, cells: Cells, threads: int | None, systems: tuple[str, ...]
) -> Table:
    """The table of one corpus."""
    table = Table(
        f"M-estimation, dependencies: {name}, {train.n_sentences:,} sentences, {dev.n_sentences:,} of dev", COLUMNS
    )
    for row in systems:
        system = SYSTEMS[row]
        cell = cells.get(
            f"{name} {row}",
            partial(measure, system, train, dev, threads),
        )
        against = ""
        if system.base:
            base = cells.done[f"{name} {system.base}"]
            compared = paired_bootstrap(np.array(base["counts"]), np.array(cell["counts"]))
            against = f"{compared.second - compared.first:+.2f} ({compared.p:.4f})"
        figures = [cell["uas"], cell["las"]]
        shown = [number(figure, 2) for figure in figures]
        table.add(
            row, figures, [*shown, number(cell["exact"], 1), against, number(cell["seconds"], 0), system.published]
        )
    table.notes.append("Gold tags; every token counts. p is that of the paired bootstrap by sentence.")
    return table
