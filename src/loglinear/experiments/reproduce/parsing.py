"""Table 2 of the piecewise paper (Sutton & McCallum 2005): parsing by a generative grammar, an MECFG and a PT-CFG.

Sentences have at most 15 words. The paper trained on 9,753 sentences of the Wall Street Journal, which are not free;
here each corpus that is found stands for them: ``craft`` (biomedical, tested on dev) and ``ptb`` (a sample of the same
newspaper, tested on dev and test). A grammar trained on whole trees, a CRF-CFG, is the upper anchor.
"""

from __future__ import annotations

from dataclasses import dataclass

from loglinear.experiments.reproduce.cells import Cells
from loglinear.experiments.reproduce.comparing import BOOTSTRAP, PROCESSOR, against
from loglinear.experiments.reproduce.parser_training import LONGEST, TREES
from loglinear.experiments.reproduce.training import Job
from loglinear.experiments.table import Table, number

CORPORA = ("craft", "ptb")
AGAINST = "mecfg"
COLUMNS = ["system", "P", "R", "F1", f"F1 less {AGAINST}'s (p)", "wrong edges", "exact", "seconds", "published P, R"]


@dataclass(frozen=True)
class System:
    """A row: the parser's criterion, its seed (after the run's), and the paper's precision and recall."""

    criterion: str
    seed: int = 0
    published: str = ""


SYSTEMS = {
    "generative": System("pcfg", published="81.7, 83.1"),
    "mecfg": System("mecfg", published="81.4, 82.7"),
    "pt-cfg": System("nota", published="81.7, 83.2"),
    "pt-cfg, local decoding": System("nota:decoding=local"),
    "mecfg, the paper's features": System("mecfg:places=first+last"),
    "pt-cfg, the paper's features": System("nota:places=first+last"),
    "pt-cfg, a sample of all wrong edges": System("nota:wrong=sample"),
    "pt-cfg, another sample": System("nota:wrong=sample", seed=1),
    "pt-cfg, a third sample": System("nota:wrong=sample", seed=2),
    "m-estimation": System("m-estimation"),
    "crf-cfg": System("cll"),
}
QUICK = ("generative", "mecfg", "pt-cfg")


def table_of(corpus: str, files: tuple[str, ...], cells: Cells, seed: int = 0) -> Table:
    """The table of one corpus, given its files; of the bundled one, a small version, if there are none."""
    jobs = {
        row: Job(TREES, files, {"criterion": SYSTEMS[row].criterion}, seed + SYSTEMS[row].seed)
        for row in (SYSTEMS if files else QUICK)
    }
    made = cells.trained({f"{corpus} parsing {row}": job for row, job in reversed(jobs.items())})  # the slow ones first
    found = {row: made[f"{corpus} parsing {row}"] for row in jobs}
    base = found[AGAINST]
    table = Table(
        f"Piecewise training, Table 2: {corpus}, {base['sentences']:,} trees of at most {LONGEST} words, "
        f"{len(base['counts']):,} to test",
        COLUMNS,
    )
    for row, cell in found.items():
        compared = "" if row == AGAINST else against(base, cell)
        figures = [cell["test"][what] for what in ("precision", "recall", "f1")]
        shown = [number(figure, 2) for figure in figures]
        more = [compared, cell["wrong_edges"], number(cell["test"]["exact"], 1), number(cell["seconds"], 0)]
        table.add(row, figures, [*shown, *more, SYSTEMS[row].published])
    table.notes += [
        f"{BOOTSTRAP} The paper's figures are of other, larger data; its PT-CFG had 1,564,827 wrong edges.",
        PROCESSOR,
    ]
    return table
