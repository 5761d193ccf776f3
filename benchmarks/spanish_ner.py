"""Spanish named entities (CoNLL-2002) by every criterion, tuned on testa, scored once on testb.

    python -m benchmarks.spanish_ner [--runs spanish_ner.json] [--criteria cll softmax-margin ...]

After Gimpel & Smith (2010), Table 1: the L2 factor is one of 0.01, 0.1, 1 (0 and 0.01 for risk and jrb, which start
from the best cll model), the cost Hamming times 1, 5, 10 or 20, both chosen by F1 on testa; online learners stop at the
pass that is best there. The template is ``ner``, first order. p is the paired bootstrap's (10,000 draws of sentences)
against cll. Stopped, it goes on from the runs in its file.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.runs import Runs, spanish_folder
from loglinear import Tagger, read_columns
from loglinear.evaluation import paired_bootstrap

PENALTIES, MULTIPLES = (0.01, 0.1, 1.0), (1, 5, 10, 20)
Grid = list[dict[str, Any]]


def penalised(criterion: str, optimizer: str | None = None) -> Grid:
    return [{"criterion": criterion, "optimizer": optimizer, "l2": l2} for l2 in PENALTIES]


def costly(criterion: str, penalties: tuple[float, ...] = PENALTIES, optimizer: str | None = None) -> Grid:
    return [
        {"criterion": criterion, "optimizer": optimizer, "l2": l2, "cost": f"hamming:{m}"}
        for l2, m in product(penalties, MULTIPLES)
    ]


GRIDS: dict[str, Grid] = {
    "cll": penalised("cll"),
    "softmax-margin": costly("softmax-margin"),
    "max-margin": costly("max-margin", optimizer="adagrad:average"),
    "jrb": costly("jrb", (0.0, 0.01)),
    "risk": costly("risk", (0.0, 0.01)),
    "perceptron": [{"criterion": "perceptron"}],
    "mira": [{"criterion": f"mira:C={C}", "cost": f"hamming:{m}"} for C, m in product((0.01, 0.1, 1), (1, 5))],
    "mira, 5 best": [{"criterion": f"mira:k=5,C={C}"} for C in (0.01, 0.1, 1)],
    "passive-aggressive": [{"criterion": f"passive-aggressive:C={C}"} for C in (0.01, 0.1, 1)],
    "memm": penalised("memm"),
    "pseudolikelihood": penalised("pseudolikelihood"),
    "piecewise": penalised("piecewise"),
    "nota": penalised("nota"),
    "nota, local": penalised("nota:decoding=local"),
    "nota, scaled": penalised("nota:scaling"),
    "nota, rate 0.3": penalised("nota:rate=0.3"),
    "nota, threshold 0.2, local": penalised("nota:threshold=0.2,decoding=local"),
    "cll, 2 sub-labels": [{"criterion": "cll", "sub_labels": 2, "l2": l2} for l2 in PENALTIES],
}
ONLINE = ("perceptron", "mira", "mira, 5 best", "passive-aggressive")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("spanish_ner.json"), help="file of finished runs")
    parser.add_argument("--criteria", nargs="+", choices=list(GRIDS), default=list(GRIDS), metavar="NAME")
    arguments = parser.parse_args()
    train, dev, test = (read_columns(spanish_folder() / f"esp.{part}") for part in ("train", "testa", "testb"))
    runs = Runs(arguments.runs)
    best: dict[str, dict[str, Any]] = {}
    cll_model: Tagger | None = None
    for name in arguments.criteria:
        reports = []
        for options in GRIDS[name]:
            fit: dict[str, Any] = {"X_dev": dev} if name in ONLINE else {}
            label = " ".join(str(value) for value in options.values() if value is not None)
            if name in ("risk", "jrb") and label not in runs.done:
                if cll_model is None:
                    chosen = max(GRIDS["cll"], key=lambda o: runs.done[f"cll {o['l2']}"]["dev"]["f1"])
                    cll_model = Tagger(template="ner", **chosen).fit(train)
                fit["init"] = cll_model
            tagger = Tagger(template="ner", **options)
            reports.append({"options": options, **runs.get(label, tagger, train, dev, test, **fit)})
        best[name] = max(reports, key=lambda report: report["dev"]["f1"])
    show(best)


def show(best: dict[str, dict[str, Any]]) -> None:
    table = Table("criterion", "chosen", "dev F1", "test P", "R", "F1", "p to cll", "iterations", "seconds")
    for name, report in best.items():
        p = ""
        if "cll" in best and name != "cll":
            one, other = (np.array(best[each]["test_counts"]) for each in ("cll", name))
            p = f"{paired_bootstrap(one, other).p:.3f}"
        chosen = " ".join(f"{k}={v}" for k, v in report["options"].items() if k not in ("optimizer",) and v is not None)
        table.add_row(
            name, chosen, f"{report['dev']['f1']:.2f}", f"{report['test']['precision']:.2f}",
            f"{report['test']['recall']:.2f}", f"{report['test']['f1']:.2f}", p, str(report["iterations"]),
            f"{report['seconds']:.0f}",
        )  # fmt: skip
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
