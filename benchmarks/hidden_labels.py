"""M-estimation from partly labelled sentences: rounds of hard and of soft EM against the labelled sentences alone.

    python -m benchmarks.hidden_labels [--runs hidden_labels.json]

Noun phrases of CoNLL-2000 as in :mod:`benchmarks.m_estimation`: 1,000 training sentences keep their labels; of 3,000
others all labels are hidden, or each with probability one half. First-order chains, template ``chunking``, variance
0.3, 1, 3 or 10 and 1, 2 or 5 rounds, chosen on the tuning sentences, each L-BFGS of at most 100 iterations. Only the
chosen models' test scores are shown. ``cll`` (l2 0.1, 0.3, 1 or 3) sums over what is hidden, and so learns nothing from
sentences without a label.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.m_estimation import paper_split
from benchmarks.runs import Runs
from loglinear import Tagger
from loglinear.data import Columns
from loglinear.data.columns.corpus import Column

LABELLED, OTHERS = 1_000, 3_000
PENALTIES: tuple[dict[str, Any], ...] = tuple({"variance": c} for c in (0.3, 1.0, 3.0, 10.0))
L2: tuple[dict[str, Any], ...] = tuple({"l2": c} for c in (0.1, 0.3, 1.0, 3.0))
ROUNDS = (1, 2, 5)
SYSTEMS: dict[str, tuple[tuple[str, ...], tuple[dict[str, Any], ...]]] = {  # criteria and penalties to choose from
    "hmm, by EM": (("hmm:rounds=20,transition_smoothing=0.01",), ({"template": None, "max_iter": None},)),
    "cll": (("cll",), L2),
    **{
        f"m-estimation, {em}": (tuple(f"m-estimation:em={em},rounds={n}" for n in ROUNDS), PENALTIES)
        for em in ("hard", "soft")
    },
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("hidden_labels.json"), help="file of finished runs")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    runs, (train, dev, test) = Runs(arguments.runs), paper_split(seed=0)
    table = Table("the 3,000 others", "model", "chosen", "dev F1", "test P", "R", "F1", "s")

    def choose(share: float, corpus: Columns, shown: str, name: str) -> None:
        criteria, penalties = SYSTEMS[name]
        found = {}
        for criterion in criteria:
            for penalty in penalties:
                options = {"template": "chunking", "max_iter": 100, "threads": arguments.threads, **penalty}
                tagger = Tagger(criterion=criterion, **options)
                label = f"{share:g} hidden, {criterion} {penalty}"
                found[label] = runs.get(label, tagger, corpus, dev, test, partial=share > 0)
        best = max(found, key=lambda label: found[label]["dev"]["f1"])
        report, scores = found[best], found[best]["test"]
        table.add_row(
            shown, name, best.partition(", ")[2], f"{report['dev']['f1']:.2f}", f"{scores['precision']:.2f}",
            f"{scores['recall']:.2f}", f"{scores['f1']:.2f}", f"{report['seconds']:.0f}",
        )  # fmt: skip

    known = train.select(np.arange(LABELLED))
    for name in ("hmm, by EM", "cll", "m-estimation, hard"):  # nothing is hidden: rounds have no effect
        choose(0.0, known, "left out", name)
    for share, shown in ((1.0, "unlabelled"), (0.5, "half of the labels")):
        corpus = hidden(train.select(np.arange(LABELLED + OTHERS)), share)
        for name in SYSTEMS:
            choose(share, corpus, shown, name)
    Console(width=140).print(table)


def hidden(corpus: Columns, share: float) -> Columns:
    """The corpus with a share of the labels after the first sentences hidden."""
    labels = corpus.columns[-1]
    hide = np.random.default_rng(0).random(len(labels)) < share
    hide[: corpus.offsets[LABELLED]] = False
    ids = np.where(hide, len(labels.values), labels.ids).astype(np.int32)
    columns = [*corpus.columns[:-1], Column(ids, [*labels.values, "*"])]
    return Columns(corpus.name, corpus.offsets, corpus.lines, columns)


if __name__ == "__main__":
    main()
