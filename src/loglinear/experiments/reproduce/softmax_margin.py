"""Table 1 of the softmax-margin paper (Gimpel & Smith 2010): named entities by seven criteria, and by the others.

The paper's data is English (CoNLL-2003); where that is not there, Spanish or Dutch (CoNLL-2002) stands for it. The L2
factor C and the multiple m of the Hamming cost are chosen by F1 on testa, scored once on testb:

    C    0.01, 0.1, 1 as in the paper, and 3; for MIRA it is the cap of the step; 0 and 0.01 for risk and JRB
    m    1, 5, 10, 20 as in the paper, and 0.5

The paper went 100 times over the data by stochastic (sub)gradient steps of 0.01. Here cll and softmax-margin are
trained by at most 100 iterations of L-BFGS from zero; max-margin, risk and JRB by at most 40 from the best cll model,
as risk and JRB were there; perceptron and MIRA by 20 passes, their weights averaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loglinear.experiments.reproduce.tasks import BOOTSTRAP, PROCESSOR, Cell, Job, against, beside, best
from loglinear.experiments.store import ReproduceCells
from loglinear.experiments.tables import Table, number

LANGUAGES = {"eng": "CoNLL-2003 English", "esp": "CoNLL-2002 Spanish", "ned": "CoNLL-2002 Dutch"}
PENALTIES, MULTIPLES = (0.01, 0.1, 1.0, 3.0), (0.5, 1, 5, 10, 20)
QUICK_PENALTIES, QUICK_MULTIPLES = (0.1, 1.0), (1, 5)
FROM_ZERO, FROM_CLL, PASSES = 100, 40, 20
REFERENCE = "softmax-margin"
Options = dict[str, Any]


@dataclass(frozen=True)
class System:
    """A row: the options of its grid but for C and m, what C is, and the paper's F1 on dev and on test.

    Parameters
    ----------
    options : dict
        Of the tagger.
    penalty : {"l2", "C", "c", ""}
        Where C goes: the L2 factor, an option of the criterion, the variance; nowhere.
    values : tuple of float
        What C is tried as; those of the paper if empty.
    cost : bool
        Whether m is tried too.
    warm : bool
        Whether it starts from the best cll model.
    published : (float, float) or None
    """

    options: Options
    penalty: str = "l2"
    values: tuple[float, ...] = ()
    cost: bool = False
    warm: bool = False
    published: tuple[float, float] | None = None


def _weights(criterion: str, **more: Any) -> Options:
    return {"criterion": criterion, "max_iter": FROM_ZERO, **more}


SYSTEMS: dict[str, System] = {
    "perceptron": System({"criterion": "perceptron", "max_iter": PASSES}, "", published=(90.48, 83.98)),
    "MIRA": System(
        {"criterion": "mira", "max_iter": PASSES}, "C", (0.01, 0.1, 1.0), cost=True, published=(91.13, 85.72)
    ),
    "CLL": System(_weights("cll", optimizer="lbfgs"), published=(90.79, 85.46)),
    "max-margin": System(
        {"criterion": "max-margin", "max_iter": FROM_CLL}, cost=True, warm=True, published=(91.17, 85.28)
    ),
    "risk": System(
        {"criterion": "risk", "max_iter": FROM_CLL}, values=(0.0, 0.01), cost=True, warm=True, published=(91.14, 85.59)
    ),
    "JRB": System(
        {"criterion": "jrb", "max_iter": FROM_CLL}, values=(0.0, 0.01), cost=True, warm=True, published=(91.05, 85.65)
    ),
    REFERENCE: System(_weights("softmax-margin", optimizer="lbfgs"), cost=True, published=(91.30, 85.84)),
}
OTHERS: dict[str, System] = {
    "passive-aggressive": System({"criterion": "passive-aggressive", "max_iter": PASSES}, "C", (0.01, 0.1, 1.0)),
    "MEMM": System(_weights("memm")),
    "pseudolikelihood": System(_weights("pseudolikelihood")),
    "piecewise": System(_weights("piecewise")),
    "NOTA, threshold 0.2, local decoding": System(_weights("nota:threshold=0.2,decoding=local")),
    "hidden Markov model": System({"criterion": "hmm"}, ""),
    "M-estimation": System(_weights("m-estimation"), "c", (0.1, 1.0, 10.0)),
}


@dataclass
class Grid:
    """The trainings on one corpus.

    Parameters
    ----------
    corpus : str
        One of :data:`LANGUAGES`, or ``bundled``.
    files : tuple of str
    cells : Cells
    seed : int
    """

    corpus: str
    files: tuple[str, ...]
    cells: ReproduceCells
    seed: int = 0

    def jobs(self, name: str, init: str = "") -> dict[str, Job]:
        """Every training of a row, by its cell's name."""
        system = (SYSTEMS | OTHERS)[name]
        jobs: dict[str, Job] = {}
        for value in self._values(system):
            for multiple in self._multiples(system):
                options = dict(system.options)
                if options["criterion"] != "hmm":
                    options["template"] = "ner"
                if system.penalty == "C":
                    options["criterion"] += f":C={value:g}"
                elif system.penalty:
                    options["variance" if system.penalty == "c" else "l2"] = value
                if multiple is not None:
                    options["cost"] = f"hamming:{multiple:g}"
                setting = [f"{system.penalty}={value:g}"] if system.penalty else []
                setting += [] if multiple is None else [f"m={multiple:g}"]
                label = " ".join([f"{self.corpus} {name}", *setting])
                keep = str(self.cells.models / f"{self.corpus}-{value:g}.model") if name == "CLL" else ""
                jobs[label] = Job("entities", self.files, options, self.seed, init=init, keep=keep)
        return jobs

    def _values(self, system: System) -> tuple[float, ...]:
        if not system.penalty:
            return (0.0,)
        return system.values or (PENALTIES if self.files else QUICK_PENALTIES)

    def _multiples(self, system: System) -> tuple[float | None, ...]:
        if not system.cost:
            return (None,)
        return MULTIPLES if self.files else QUICK_MULTIPLES

    def train(self, names: list[str]) -> dict[str, dict[str, Cell]]:
        """The cells of each row by name: first what starts from zero, then what starts from the best cll model."""
        systems = SYSTEMS | OTHERS
        cold = {name: self.jobs(name) for name in ["CLL", *(n for n in names if not systems[n].warm and n != "CLL")]}
        cells = self.cells.trained({label: job for of in cold.values() for label, job in of.items()})
        chosen = best({label: cells[label] for label in cold["CLL"]})
        warm = {name: self.jobs(name, cold["CLL"][chosen].keep) for name in names if systems[name].warm}
        cells |= self.cells.trained({label: job for of in warm.values() for label, job in of.items()})
        return {name: {label: cells[label] for label in (cold | warm)[name]} for name in names}


def table_of(corpus: str, files: tuple[str, ...], cells: ReproduceCells, seed: int = 0) -> Table:
    """The paper's table, with the other criteria below it."""
    names = [*SYSTEMS, *(OTHERS if files else ())]
    found = Grid(corpus, files, cells, seed).train(names)
    chosen = {name: best(of) for name, of in found.items()}
    reference = found[REFERENCE][chosen[REFERENCE]]
    train = f"{reference['sentences']:,} training sentences"
    table = Table(
        f"Softmax-margin, Table 1: entities of {LANGUAGES.get(corpus, 'the bundled corpus')}, {train}",
        [
            "", "dev F1", "test P", "R", "F1", "published dev, test F1", "test F1 less published",
            "test F1 less softmax-margin's (p)", "chosen", "s",
        ],
    )  # fmt: skip
    for name, label in chosen.items():
        cell, published = found[name][label], (SYSTEMS | OTHERS)[name].published
        figures = [cell["dev"]["f1"], *(cell["test"][what] for what in ("precision", "recall", "f1"))]
        table.add(
            name, figures,
            [
                *(number(figure, 2) for figure in figures), *beside(figures, published or (None,)),
                "" if name == REFERENCE else against(reference, cell),
                label.removeprefix(f"{corpus} {name}").strip() or "-", number(cell["seconds"], 0),
            ],
        )  # fmt: skip
    if corpus != "eng":
        table.notes.append("The published figures are of CoNLL-2003 English, with features of its own.")
    table.notes += [
        f"{BOOTSTRAP} l2 (C for MIRA, c for M-estimation) and m are chosen by F1 on the dev sentences. "
        f"Template ner; L-BFGS of at most {FROM_ZERO} iterations; max-margin, risk and JRB: {FROM_CLL} from the best "
        f"CLL model; online learners: {PASSES} passes, averaged.",
        f"{PROCESSOR} That of the CLL model that others start from is not counted.",
    ]
    return table
