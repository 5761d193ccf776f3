"""What leaning towards recall does: precision and recall on Spanish entities (testa) over the price k of a miss.

    python -m benchmarks.recall [--k 1 2 5 10] [--l2 10] [--runs recall.json]

Softmax-margin with ``--cost recall:k``, template ``ner``, first order, at most 100 iterations, each from the model
before. The penalty is strong: with a weak one the training data is learnt by heart at any price.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.corpora import data_folder
from benchmarks.runs import Runs
from loglinear import Tagger, read_columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k", type=float, nargs="+", default=[1, 2, 5, 10])
    parser.add_argument("--l2", type=float, default=10.0)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--runs", type=Path, default=Path("recall.json"), help="file of finished runs")
    arguments = parser.parse_args()
    train, dev, test = (read_columns(data_folder("conll2002") / f"esp.{part}") for part in ("train", "testa", "testb"))
    runs, table, found = Runs(arguments.runs), Table("k", "precision", "recall", "F1"), []
    before: Tagger | None = None
    for k in arguments.k:
        tagger = Tagger(
            criterion="softmax-margin", cost=f"recall:{k:g}", optimizer="lbfgs", template="ner", l2=arguments.l2,
            max_iter=100,
            threads=arguments.threads,
        )  # fmt: skip
        name = f"recall:{k:g} l2={arguments.l2:g}"
        if name not in runs.done:
            report = runs.get(name, tagger, train, dev, test, init=before)["dev"]
            before = tagger
        report = runs.done[name]["dev"]
        found.append(report)
        table.add_row(f"{k:g}", f"{report['precision']:.2f}", f"{report['recall']:.2f}", f"{report['f1']:.2f}")
    console = Console()
    console.print(table)
    up = all(a["recall"] <= b["recall"] for a, b in pairwise(found))
    down = all(a["precision"] >= b["precision"] for a, b in pairwise(found))
    console.print(f"recall never falls: {up}; precision never rises: {down}")


if __name__ == "__main__":
    main()
