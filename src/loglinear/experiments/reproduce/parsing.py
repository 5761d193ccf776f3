"""Table 2 of the piecewise paper (Sutton & McCallum 2005): parsing by a generative grammar, an MECFG and a PT-CFG.

Sentences have at most 15 words. The paper trained on 9,753 sentences of the Wall Street Journal, which are not free;
here each corpus that is found stands for them: ``craft`` (biomedical, tested on dev) and ``ptb`` (a sample of the same
newspaper, tested on dev and test). A grammar trained on whole trees, a CRF-CFG, is the upper anchor.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from loglinear.data.bundled import bundled_trees
from loglinear.data.tree_cleaning import read_treebank
from loglinear.data.trees import Tree
from loglinear.estimators.parser import Parser
from loglinear.evaluation.brackets import bracket_scores
from loglinear.evaluation.significance import paired_bootstrap
from loglinear.experiments.reproduce.cells import Cells
from loglinear.experiments.reproduce.training import Cell
from loglinear.experiments.table import Table, number

LONGEST = 15
CORPORA = ("craft", "ptb")
AGAINST = "mecfg"
COLUMNS = ["system", "P", "R", "F1", f"F1 less {AGAINST}'s (p)", "wrong edges", "exact", "seconds", "published P, R"]


@dataclass(frozen=True)
class System:
    """A row: the parser's criterion, its seed, and what the paper has for precision and recall."""

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


def trees_of(paths: list[Path]) -> tuple[list[Tree], list[Tree]]:
    """Training and test trees of at most 15 words: those of the first file, and of all others."""
    train, *others = ([t for t in read_treebank(path) if len(t.leaves()) <= LONGEST] for path in paths)
    return train, [tree for trees in others for tree in trees]


def bundled_parts() -> tuple[list[Tree], list[Tree]]:
    """The same of the corpus that comes with the package: a small version, to see it work."""
    parts = [bundled_trees(part, entities=False) for part in ("train", "dev", "test")]
    train, *others = ([tree for tree in trees if len(tree.leaves()) <= LONGEST] for trees in parts)
    return train, [tree for trees in others for tree in trees]


def measure(system: System, train: list[Tree], test: list[Tree], threads: int | None) -> Cell:
    """Train and score one system; seconds are of processor time."""
    began = time.process_time()
    parser = Parser(criterion=system.criterion, seed=system.seed, threads=threads).fit(train)
    seconds = time.process_time() - began
    report = bracket_scores(test, parser.predict([tree.leaves() for tree in test]))
    return {
        **report.to_dict(),
        "seconds": seconds,
        "message": parser.message_,
        "wrong_edges": wrong[1] if (wrong := re.search(r"([\d,]+) wrong ones", parser.message_)) else "",
        "counts": report.counts[:, :3].tolist(),
    }


def tables(files: dict[str, list[Path]], cells: Cells, threads: int | None = None) -> list[Table]:
    """The table of each corpus, given its files, or of the bundled one if there is none."""
    if not files:
        return [_table("bundled", *bundled_parts(), cells, threads, QUICK)]
    return [_table(name, *trees_of(paths), cells, threads, tuple(SYSTEMS)) for name, paths in files.items()]


def _table(
    name: str, train: list[Tree], test: list[Tree], cells: Cells, threads: int | None, systems: tuple[str, ...]
) -> Table:
    title = (
        f"Piecewise training, Table 2: {name}, {len(train):,} trees of at most {LONGEST} words, {len(test):,} to test"
    )
    table = Table(title, COLUMNS)
    found = {
        row: cells.get(f"{name} parsing {row}", partial(measure, SYSTEMS[row], train, test, threads)) for row in systems
    }
    for row, cell in found.items():
        against = ""
        if row != AGAINST:
            compared = paired_bootstrap(np.array(found[AGAINST]["counts"]), np.array(cell["counts"]))
            against = f"{compared.second - compared.first:+.2f} ({compared.p:.3f})"
        figures = [cell["precision"], cell["recall"], cell["f1"]]
        shown = [number(figure, 2) for figure in figures]
        more = [against, cell["wrong_edges"], number(cell["exact"], 1), number(cell["seconds"], 0)]
        table.add(row, figures, [*shown, *more, SYSTEMS[row].published])
    table.notes.append(
        "p is that of the paired bootstrap by sentence. The paper's figures are of other, larger data; "
        "its PT-CFG had 1,564,827 wrong edges."
    )
    return table
