"""Table 1 of the softmax-margin paper (Gimpel & Smith 2010): named entities by seven criteria, and by the others.

The paper's data is English (CoNLL-2003); Spanish or Dutch (CoNLL-2002) replaces it where it is not available. The L2
factor C and the multiple m of the Hamming cost are chosen by F1 on testa, scored once on testb:

    C    0.01, 0.1, 1 as in the paper, and 3; for MIRA it is the cap of the step; 0 and 0.01 for risk and JRB
    m    1, 5, 10, 20 as in the paper, and 0.5

The paper made 100 passes of stochastic (sub)gradient steps of 0.01. Here cll and softmax-margin are trained by at most
100 iterations of L-BFGS from zero; max-margin, risk and JRB by at most 40 from the best cll model, as risk and JRB were
in the paper; perceptron and MIRA by 20 passes, their weights averaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from loglinear.experiments.charts import Chart
from loglinear.experiments.reproduce import tasks
from loglinear.experiments.reproduce.tasks import BOOTSTRAP, PROCESSOR, Job, Run, best, compared
from loglinear.experiments.store import Cell
from loglinear.experiments.tables import Table, number

LANGUAGES = {"eng": "CoNLL-2003 English", "esp": "CoNLL-2002 Spanish", "ned": "CoNLL-2002 Dutch"}
PENALTIES, MULTIPLES = (0.01, 0.1, 1.0, 3.0), (0.5, 1, 5, 10, 20)
QUICK_PENALTIES, QUICK_MULTIPLES = (0.1, 1.0), (1, 5)
FROM_ZERO, FROM_CLL, PASSES = 100, 40, 20
REFERENCE = "softmax-margin"


@dataclass(frozen=True, kw_only=True)
class System(tasks.System):
    """A row: its options but for C and m, and the paper's F1 on dev and on test.

    Parameters
    ----------
    penalty : {"l2", "C", "c", ""}
        Where C goes: the L2 factor, an option of the criterion, the variance; nowhere.
    values : tuple of float
        What C is tried as; those of the paper if empty.
    cost : bool
        Whether m is tried too.
    warm : bool
        Whether it starts from the best cll model.
    """

    penalty: str = "l2"
    values: tuple[float, ...] = ()
    cost: bool = False
    warm: bool = False


def _zero(criterion: str, **more: Any) -> dict[str, Any]:
    return {"criterion": criterion, "max_iter": FROM_ZERO, **more}


def _from_cll(criterion: str, published: tuple[float, float], *values: float) -> System:
    return System({"criterion": criterion, "max_iter": FROM_CLL}, published, values=values, cost=True, warm=True)


def _online(criterion: str, published: tuple[float, float] | None = None, **more: Any) -> System:
    return System({"criterion": criterion, "max_iter": PASSES}, published, **more)


STEPS = (0.01, 0.1, 1.0)
SYSTEMS: dict[str, System] = {
    "perceptron": _online("perceptron", (90.48, 83.98), penalty=""),
    "MIRA": _online("mira", (91.13, 85.72), penalty="C", values=STEPS, cost=True),
    "CLL": System(_zero("cll", optimizer="lbfgs"), (90.79, 85.46)),
    "max-margin": _from_cll("max-margin", (91.17, 85.28)),
    "risk": _from_cll("risk", (91.14, 85.59), 0.0, 0.01),
    "JRB": _from_cll("jrb", (91.05, 85.65), 0.0, 0.01),
    REFERENCE: System(_zero("softmax-margin", optimizer="lbfgs"), (91.30, 85.84), cost=True),
}
OTHERS: dict[str, System] = {
    "passive-aggressive": _online("passive-aggressive", penalty="C", values=STEPS),
    "MEMM": System(_zero("memm")),
    "pseudolikelihood": System(_zero("pseudolikelihood")),
    "piecewise": System(_zero("piecewise")),
    "NOTA, threshold 0.2, local decoding": System(_zero("nota:threshold=0.2,decoding=local")),
    "hidden Markov model": System({"criterion": "hmm"}, penalty=""),
    "M-estimation": System(_zero("m-estimation"), penalty="c", values=(0.1, 1.0, 10.0)),
}


def jobs(run: Run, name: str, init: str = "") -> dict[str, Job]:
    """Every training of a row, by its cell's name."""
    system = (SYSTEMS | OTHERS)[name]
    values, multiples = (PENALTIES, MULTIPLES) if run.files else (QUICK_PENALTIES, QUICK_MULTIPLES)
    found: dict[str, Job] = {}
    for value, multiple in product(
        (system.values or values) if system.penalty else (0.0,), multiples if system.cost else (None,)
    ):
        options, label = dict(system.options), f"{run.corpus} {name}"
        if options["criterion"] != "hmm":
            options["template"] = "ner"
        if system.penalty == "C":
            options["criterion"] += f":C={value:g}"
        elif system.penalty:
            options["variance" if system.penalty == "c" else "l2"] = value
        label += f" {system.penalty}={value:g}" if system.penalty else ""
        if multiple is not None:
            options["cost"] = f"hamming:{multiple:g}"
            label += f" m={multiple:g}"
        keep = str(run.cells.store.model_path(label)) if name == "CLL" else ""
        found[label] = run.job("entities", options, init=init, keep=keep)
    return found


def train(run: Run, names: list[str]) -> dict[str, dict[str, Cell]]:
    """The cells of each row by name: first those trained from zero, then those that start from the best cll model."""
    systems = SYSTEMS | OTHERS
    run.cells.store.folder.mkdir(parents=True, exist_ok=True)
    cold = {name: jobs(run, name) for name in ["CLL", *(n for n in names if not systems[n].warm and n != "CLL")]}
    cells = run.cells.by_row(cold)
    start = cold["CLL"][best(cells["CLL"])].keep
    cells |= run.cells.by_row({name: jobs(run, name, start) for name in names if systems[name].warm})
    return {name: cells[name] for name in names}


def entities(run: Run) -> list[Table | Chart]:
    """The paper's table, with the other criteria below it."""
    systems = SYSTEMS | (OTHERS if run.files else {})
    found = train(run, list(systems))
    chosen = {name: best(cells) for name, cells in found.items()}
    reference = found[REFERENCE][chosen[REFERENCE]]
    language = LANGUAGES.get(run.corpus, "the bundled corpus")
    table = Table(
        f"Softmax-margin, Table 1: entities of {language}, {reference['sentences']:,} training sentences",
        [
            "", "dev F1", "test P", "R", "F1", "published dev, test F1", "test F1 less published",
            "test F1 less softmax-margin's (p)", "chosen", "s",
        ],
    )  # fmt: skip
    for name, label in chosen.items():
        cell, dev = found[name][label], found[name][label]["dev"]["f1"]
        figures, shown = compared(cell, reference, systems[name].published or (None,))
        setting = label.removeprefix(f"{run.corpus} {name}").strip() or "-"
        table.add(name, [dev, *figures], [number(dev, 2), *shown, setting, number(cell["seconds"], 0)])
    if run.corpus != "eng":
        table.notes.append("The published figures are of CoNLL-2003 English, with features of its own.")
    table.notes += [
        f"{BOOTSTRAP} l2 (C for MIRA, c for M-estimation) and m are chosen by F1 on the dev sentences. "
        f"Template ner; L-BFGS of at most {FROM_ZERO} iterations; max-margin, risk and JRB: {FROM_CLL} from the best "
        f"CLL model; online learners: {PASSES} passes, averaged.",
        f"{PROCESSOR} The time of the CLL model that others start from is not included.",
    ]
    return [table]
