"""Dependencies by M-estimation, as on a slide of the paper's talk: a generative base, and the base with features.

The talk has 85.2 % for its base and 86.4 % for the base tilted by McDonald-style features, on section 22 of the Wall
Street Journal. Here it is ``ptbdep``, a sample of that newspaper, and ``ewt``, the English Web Treebank, scored on dev.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from loglinear.experiments.reproduce.cells import Cells
from loglinear.experiments.reproduce.comparing import BOOTSTRAP, PROCESSOR, against
from loglinear.experiments.reproduce.parser_training import DEPENDENCIES
from loglinear.experiments.reproduce.training import Job
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


def table_of(corpus: str, files: tuple[str, ...], cells: Cells, seed: int = 0) -> Table:
    """The table of one corpus, given its training and dev files; of the bundled one if there are none."""
    rows = tuple(SYSTEMS if files else QUICK)
    made = cells.trained({f"{corpus} {row}": Job(DEPENDENCIES, files, SYSTEMS[row].options, seed) for row in rows})
    found = {row: made[f"{corpus} {row}"] for row in rows}
    first = found[rows[0]]
    table = Table(
        f"M-estimation, dependencies: {corpus}, {first['sentences']:,} sentences, {len(first['counts']):,} of dev",
        COLUMNS,
    )
    for row, cell in found.items():
        system = SYSTEMS[row]
        compared = against(found[system.base], cell) if system.base else ""
        figures = [cell["test"]["uas"], cell["test"]["las"]]
        shown = [*(number(figure, 2) for figure in figures), number(cell["test"]["exact"], 1)]
        table.add(row, figures, [*shown, compared, number(cell["seconds"], 0), system.published])
    table.notes += [f"Gold tags; every token counts. {BOOTSTRAP}", PROCESSOR]
    return table
