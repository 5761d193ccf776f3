"""Spanish named entities (CoNLL-2002) by every criterion, tuned on testa, scored once on testb.

    python -m benchmarks.spanish_ner [--runs spanish_ner.json] [--criteria cll softmax-margin ...]

After Gimpel & Smith (2010), Table 1, with F1 on testa choosing the L2 factor and then the Hamming cost's multiple:

    l2      0.1 and 1; also 0.01, 3 and 10 for cll, 3 and 10 for softmax-margin; 1 and 3 for max-margin; 0.01 for risk
            and jrb; 1 for the last seven
    m       1; also 0.2, 0.5, 5, 10 and 20 with an l2 of 1 and 3 for softmax-margin, 0.5 and 5 with the best l2 for the
            others

Criteria with a cost start from the best cll model and go on for at most 40 iterations, the others go for at most 100
from zero, but for ``dual``: there cll and softmax-margin are both trained from zero by 50 passes at most, with an l2 of
0.3, 1 and 3 and an m of 0.5, 1 and 2. Online learners stop at the pass that is best on testa. The template is ``ner``,
first order; ``pairs`` joins its attributes with label pairs too. p is the paired bootstrap's (10,000 draws of
sentences) against cll, by ``dual`` for ``dual``. Stopped, it goes on from the runs in its file.
"""

from __future__ import annotations

import argparse
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.corpora import data_folder
from benchmarks.runs import Runs
from loglinear import Tagger, read_columns
from loglinear.evaluation import paired_bootstrap

PENALTIES, MULTIPLES = (0.1, 1.0), (0.2, 0.5, 5, 10, 20)
TO_THE_END = (0.3, 1.0, 3.0)  # penalties of what dual ascent trains
WARM = ("softmax-margin", "max-margin", "jrb", "risk")  # start from the best cll model
Options = dict[str, Any]


def l2(*values: float, **options: Any) -> list[Options]:
    """The same options with each of the L2 factors."""
    return [{"max_iter": 40 if options["criterion"] in WARM else 100, **options, "l2": value} for value in values]


def some(criterion: str, **choices: tuple[Any, ...]) -> list[Options]:
    """A criterion with each value of one of its options."""
    sign = "," if ":" in criterion else ":"
    return [{"criterion": f"{criterion}{sign}{name}={value}"} for name, values in choices.items() for value in values]


FIRST: dict[str, list[Options]] = {
    "cll": l2(0.01, *PENALTIES, 3.0, 10.0, criterion="cll", optimizer="lbfgs"),
    "softmax-margin": l2(*PENALTIES, 3.0, 10.0, criterion="softmax-margin", optimizer="lbfgs")
    + [
        {**options, "cost": f"hamming:{m}"}
        for options in l2(1.0, 3.0, criterion="softmax-margin", optimizer="lbfgs")
        for m in MULTIPLES
    ],
    "cll, dual": l2(*TO_THE_END, criterion="cll", optimizer="dual", max_iter=50),
    "softmax-margin, dual": [
        {**options, "cost": f"hamming:{m}"}
        for options in l2(*TO_THE_END, criterion="softmax-margin", optimizer="dual", max_iter=50)
        for m in (0.5, 1, 2)
    ],
    "max-margin": l2(1.0, 3.0, criterion="max-margin"),
    "jrb": l2(0.01, criterion="jrb"),
    "risk": l2(0.01, criterion="risk"),
    "perceptron": [{"criterion": "perceptron"}],
    "mira": some("mira", C=(0.1, 1)),
    "mira, 5 best": some("mira:k=5", C=(0.1,)),
    "passive-aggressive": some("passive-aggressive", C=(0.1, 1)),
    "memm": l2(*PENALTIES, criterion="memm"),
    "pseudolikelihood": l2(*PENALTIES, criterion="pseudolikelihood"),
    "piecewise": l2(*PENALTIES, criterion="piecewise"),
    "nota, threshold 0.2": l2(1.0, criterion="nota:threshold=0.2"),
    "nota, threshold 0.2, local": l2(1.0, criterion="nota:threshold=0.2,decoding=local"),
    "cll, 2 sub-labels": l2(1.0, criterion="cll", sub_labels=2),
    "cll, pairs": l2(1.0, criterion="cll", pair_features=True),
    "memm, pairs": l2(1.0, criterion="memm", pair_features=True),
    "nota, pairs": l2(1.0, criterion="nota", pair_features=True),
    "nota, pairs, local": l2(1.0, criterion="nota:decoding=local", pair_features=True),
}
COSTLY = ("max-margin", "jrb", "risk", "mira")
ONLINE = ("perceptron", "mira", "mira, 5 best", "passive-aggressive")


class Tuning:
    """Trains and tunes one criterion after the other."""

    def __init__(self, runs: Runs, threads: int | None) -> None:
        self.runs, self.threads = runs, threads
        self.train, self.dev, self.test = (
            read_columns(data_folder("conll2002") / f"esp.{part}") for part in ("train", "testa", "testb")
        )

    def run(self, name: str, options: Options) -> dict[str, Any]:
        fit: dict[str, Any] = {"X_dev": self.dev} if name in ONLINE else {}
        label = " ".join(f"{key}={value}" for key, value in options.items())
        if name in WARM and label not in self.runs.done:
            fit["init"] = self.cll_model
        tagger = Tagger(template="ner", threads=self.threads, **options)
        report = self.runs.get(label, tagger, self.train, self.dev, self.test, **fit)
        return {"options": options, **report}

    def seconds(self, name: str, options: Options) -> float:
        """Time of one more training; that of the cll model it starts from is not counted."""
        fit: dict[str, Any] = {"X_dev": self.dev} if name in ONLINE else {}
        if name in WARM:
            fit["init"] = self.cll_model
        tagger = Tagger(template="ner", threads=self.threads, **options).fit(self.train, **fit)
        print(f"{name}: {tagger.seconds_:.0f} s", flush=True)
        return tagger.seconds_ or 0.0

    @cached_property
    def cll_model(self) -> Tagger:
        """The best cll model, from which criteria with a cost start."""
        return Tagger(template="ner", threads=self.threads, **self.best("cll")["options"]).fit(self.train)

    def best(self, name: str) -> dict[str, Any]:
        """The run with the best F1 on testa."""
        reports = [self.run(name, options) for options in FIRST[name]]
        if name in COSTLY:
            chosen = _best(reports)["options"]
            reports += [self.run(name, {**chosen, "cost": f"hamming:{m}"}) for m in (0.5, 5)]
        return _best(reports)


def _best(reports: list[dict[str, Any]]) -> dict[str, Any]:
    return max(reports, key=lambda report: report["dev"]["f1"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("spanish_ner.json"), help="file of finished runs")
    parser.add_argument("--criteria", nargs="+", choices=list(FIRST), default=list(FIRST), metavar="NAME")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--times", action="store_true", help="train the chosen models once more, for their times")
    arguments = parser.parse_args()
    tuning = Tuning(Runs(arguments.runs), arguments.threads)
    best = {name: tuning.best(name) for name in arguments.criteria}
    if arguments.times:
        for name, report in best.items():
            report["seconds"] = tuning.seconds(name, report["options"])
    show(best)


def show(best: dict[str, dict[str, Any]]) -> None:
    table = Table("criterion", "chosen", "dev F1", "test P", "R", "F1", "p to cll", "iterations", "seconds")
    for name, report in best.items():
        p = ""
        base = "cll, dual" if name.endswith("dual") else "cll"
        if base in best and name != base:
            one, other = (np.array(best[each]["test_counts"]) for each in (base, name))
            p = f"{paired_bootstrap(one, other).p:.3f}"
        chosen = " ".join(f"{k}={v}" for k, v in report["options"].items() if k != "max_iter")
        table.add_row(
            name, chosen, f"{report['dev']['f1']:.2f}", f"{report['test']['precision']:.2f}",
            f"{report['test']['recall']:.2f}", f"{report['test']['f1']:.2f}", p, str(report["iterations"]),
            f"{report['seconds']:.0f}",
        )  # fmt: skip
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
