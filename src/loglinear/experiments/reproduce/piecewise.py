"""Tables 1 and 2 of the piecewise paper (Sutton & McCallum 2005): taggers, then parsers.

Table 1 has an MEMM, a CRF and a CRF trained in pieces (CRF-PT).

Entities, scored on the *dev* sentences as there; the CRF-PT has every wrong context as a none-of-the-above instance,
and a factor for each state learnt globally. Parts of speech, trained on 1,154 sentences of CoNLL-2000 (tagged
automatically; the paper has the treebank's tags) and tested on section 20; the CRF-PT has, after 20 iterations, the
wrong contexts with a probability above 0.2, and is decoded locally. The features are words alone: the paper does not
say its own, but their level is that of these, not that of affixes and shapes.

The paper's features are per source state, f(y_t, y_{t-1}, x_t): each attribute is joined with label pairs alone, and
label pairs never seen in training are impossible. Beside these rows stand others, in which attributes are joined with
labels too: what users do, and where the paper's order does not hold.

The L2 factor is chosen on training sentences left out of training: with the first seed a tenth of them for entities;
for parts of speech, with each seed, as many others as are trained on. A further seed leaves out other sentences.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from loglinear.evaluation.significance import mcnemar
from loglinear.experiments.charts import Chart
from loglinear.experiments.reproduce import tasks
from loglinear.experiments.reproduce.softmax_margin import LANGUAGES
from loglinear.experiments.reproduce.tasks import (
    BOOTSTRAP,
    PROCESSOR,
    TREES,
    Job,
    Run,
    System,
    best,
    compared,
    each_once,
    pooled,
    seeds_note,
    standard_error,
    wholly_right,
)
from loglinear.experiments.store import Cell
from loglinear.experiments.tables import Table, number

PENALTIES = {"entities-held": (0.1, 1.0), "tags": (0.01, 0.1, 1.0)}
ITERATIONS = 100
CRF = "CRF"
JOINED = ", labels and pairs"
SOURCE: dict[str, Any] = {"pair_features": "only"}


def _system(criterion: str, published: float | None = None, hours: str = "", like: str = "", **options: Any) -> System:
    """A row: criterion, the paper's figure and time; the row whose L2 factor it takes; further options."""
    if criterion == "cll":
        options = {"optimizer": "lbfgs", **({"transitions": "observed-only"} if options == SOURCE else {}), **options}
    return System({"criterion": criterion, **options}, published, hours, like)


def _decoded(like: str, decoding: str) -> System:
    """A row with the weights of another."""
    return System({}, like=like, decoding=decoding)


_BOTH: dict[str, Any] = {"pair_features": True}
ENTITIES = {
    "MEMM": _system("memm", 88.90, "1 h", **SOURCE),
    CRF: _system("cll", 89.87, "9 h", **SOURCE),
    "CRF-PT": _system("nota:scaling", 90.47, "5:35 h", **SOURCE),
    "CRF-PT, local decoding": _decoded("CRF-PT", "local"),
    "CRF-PT, no factors": _decoded("CRF-PT", "global"),
    f"MEMM{JOINED}": _system("memm", **_BOTH),
    f"CRF{JOINED}": _system("cll", **_BOTH),
    f"CRF-PT{JOINED}": _system("nota:scaling", **_BOTH),
    f"CRF-PT{JOINED}, local decoding": _decoded(f"CRF-PT{JOINED}", "local"),
}
_THRESHOLD = "nota:threshold=0.2,after=20"
TAGS = {
    "MEMM": _system("memm", 88.1, "2:08 h", **SOURCE),
    CRF: _system("cll", 88.1, "14 h", **SOURCE),
    "CRF-PT": _system(f"{_THRESHOLD},local", 88.8, "2:30 h", **SOURCE),
    "CRF-PT, global decoding": _decoded("CRF-PT", "global"),
    "CRF-PT, all wrong contexts": _system("nota:local", like="CRF-PT", **SOURCE),
    "MEMM, labels": _system("memm"),
    "CRF, labels": _system("cll"),
    "CRF-PT, labels": _system(f"{_THRESHOLD},local"),
    "CRF-PT, labels, global decoding": _decoded("CRF-PT, labels", "global"),
    "MEMM, labels, affixes and shapes": _system("memm", template="pos"),
    "CRF, labels, affixes and shapes": _system("cll", template="pos"),
    "CRF-PT, labels, affixes and shapes": _system(f"{_THRESHOLD},local", template="pos"),
}
TEMPLATES = {"entities-held": "ner", "tags": "words"}
RETUNED = ("tags",)  # with each seed


def _trained(run: Run, task: str, systems: dict[str, System]) -> dict[str, Cell]:
    """The cells of each row, one for each seed, with the L2 factor chosen for it, as one."""
    metric = "accuracy" if task == "tags" else "f1"

    also = {name: tuple(s.decoding for s in systems.values() if s.like == name and s.decoding) for name in systems}

    def jobs(name: str, seed: int, factors: tuple[float, ...]) -> dict[str, Job]:
        options = {"template": TEMPLATES[task], **systems[name].options, "max_iter": ITERATIONS}
        return {
            run.name(f"{task} {name}, l2={l2:g}", seed): run.job(
                task, {**options, "l2": l2}, seed=seed, also=also[name]
            )
            for l2 in factors
        }

    trained = {name: system for name, system in systems.items() if not system.decoding}
    tuning = run.seeds if task in RETUNED else run.seeds[:1]
    own = [name for name, system in trained.items() if not system.like]
    tuned = run.cells.by_row({(name, seed): jobs(name, seed, PENALTIES[task]) for seed in tuning for name in own})
    chosen = {row: cells[best(cells, metric)]["job"]["options"]["l2"] for row, cells in tuned.items()}
    rows = {
        (name, seed): jobs(name, seed, (chosen[system.like or name, seed if seed in tuning else run.seed],))
        for seed in run.seeds
        for name, system in trained.items()
    }
    found = run.cells.single(rows)
    for name, system in systems.items():
        for seed in run.seeds if system.decoding else ():
            cell = found[system.like, seed]
            found[name, seed] = {**cell, **cell["also"][system.decoding]}
    return {name: pooled([found[name, seed] for seed in run.seeds]) for name in systems}


def entities(run: Run) -> list[Table | Chart]:
    """Named entities, F1 on the dev sentences."""
    found = _trained(run, "entities-held", ENTITIES)
    language = LANGUAGES.get(run.corpus, "the bundled corpus")
    what = f"entities of {language}, dev sentences, {found[CRF]['sentences']:,} training sentences"
    english = (
        "The published figures are of CoNLL-2003 English, with features of its own: the column to read is that of the "
        "differences to the CRF."
    )
    return [_table(run, "entities-held", what, "f1", ENTITIES, found, [english] if run.corpus != "eng" else [])]


def tags(run: Run) -> list[Table | Chart]:
    """Parts of speech from few sentences, accuracy on the test sentences."""
    found = _trained(run, "tags", TAGS)
    sizes = f"{found[CRF]['sentences']:,} training sentences, {len(found[CRF]['counts']):,} to test"
    note = (
        "The published figures are of 1,154 other sentences of the same newspaper, tested on sections 20 and 21. The "
        "paper does not say its features: of four sets that were tried, the one whose accuracy on the test sentences "
        "is nearest to the published level was taken."
    )
    return [_table(run, "tags", f"parts of speech of {run.corpus}, {sizes}", "accuracy", TAGS, found, [note])]


def crf_of(name: str, systems: dict[str, System]) -> str:
    """The CRF with the same features as a row, which both names end with or have before what differs in decoding."""
    features = [crf[len(CRF) :] for crf in systems if crf.startswith(CRF) and not crf.startswith(f"{CRF}-")]
    return CRF + max((rest for rest in features if rest in name), key=len)


def _order(systems: dict[str, System], found: dict[str, Cell], metric: str) -> str:
    """A note that puts the rows in the paper's order and in that of these figures, the worst first."""
    rows = [name for name, system in systems.items() if system.published is not None]
    theirs = _ascending({name: systems[name].published for name in rows})
    ours = _ascending({name: found[name]["test"][metric] for name in rows})
    says = "the same here" if theirs == ours else f"here {ours}"
    return f"From the worst to the best, rows that the paper has: there {theirs}, {says}."


def _ascending(figures: dict[str, float]) -> str:
    """Names in the order of their figures: ``A < B = C``."""
    order = sorted(figures, key=figures.__getitem__)
    signs = ["", *(" = " if figures[a] == figures[b] else " < " for a, b in pairwise(order))]
    return "".join(sign + name for sign, name in zip(signs, order, strict=True))


def _table(
    run: Run, task: str, what: str, metric: str, systems: dict[str, System], found: dict[str, Cell], notes: list[str]
) -> Table:
    shown = "accuracy" if metric == "accuracy" else "F1"
    columns = [
        "", shown, "published", "less published", "less the CRF's (p)", "McNemar's p", "l2", "s", "published time",
    ]  # fmt: skip
    table = Table(f"Piecewise training, Table 1: {what}", columns)
    published = systems[CRF].published
    for name, system in systems.items():
        cell = found[name]
        crf = found[crf_of(name, systems)]
        base = None if cell is crf else crf
        figures, cells = compared(cell, base, [system.published], [metric])
        if system.published is not None and base is not None:
            cells[-1] += f"; published {system.published - published:+.2f}"
        p = "" if base is None else number(mcnemar(wholly_right(base), wholly_right(cell)).p, 3)
        l2 = each_once([f"{each['job']['options']['l2']:g}" for each in cell["cells"]])
        table.add(name, figures, [*cells, p, l2, number(cell["seconds"], 1), system.hours])
    table.notes += [
        "Rows without a mark have the paper's features, per source state, with label pairs never seen impossible; the "
        "CRF that a row is compared with has the same features.",
        *notes, _order(systems, found, metric), *seeds_note(run),
        f"{BOOTSTRAP} McNemar's test is that of the paper, on which sentences are wholly right, with the first seed. "
        f"l2 is chosen on training sentences left out, among {', '.join(f'{l2:g}' for l2 in PENALTIES[task])}.",
        PROCESSOR,
    ]  # fmt: skip
    return table


# ----------------------------------------------------------------------------------------------------------------------
# Table 2 of the piecewise paper (Sutton & McCallum 2005): parsing by a generative grammar, an MECFG and a PT-CFG.
#
# Sentences have at most 15 words. The paper trained on 9,753 sentences of the Wall Street Journal, which are not free;
# ``craft`` (biomedical, tested on dev) and ``ptb`` (a sample of the same newspaper, tested on dev and test) are used
# instead. ``gum`` (many genres, parsed automatically; dev and test) is large enough to tell the systems apart, and has
# the first rows alone. A grammar trained on whole trees, a CRF-CFG, is the upper anchor.


CORPORA = ("craft", "ptb", "gum")
AGAINST = "mecfg"
COLUMNS = [
    "system", "P", "R", "F1", f"F1 less {AGAINST}'s (p)", "standard error", "wrong edges", "exact", "seconds",
    "published P, R",
]  # fmt: skip
PAPERS_FEATURES = "mecfg, the paper's features"


PARSING_SYSTEMS = {
    "generative": System({"criterion": "pcfg"}, "81.7, 83.1"),
    "mecfg": System({"criterion": "mecfg"}, "81.4, 82.7"),
    "pt-cfg": System({"criterion": "nota"}, "81.7, 83.2"),
    "pt-cfg, local decoding": System({"criterion": "nota:local"}),
    PAPERS_FEATURES: System({"criterion": "mecfg:places=first+last"}),
    "pt-cfg, the paper's features": System({"criterion": "nota:places=first+last"}, like=PAPERS_FEATURES),
    "pt-cfg, the paper's features, delta 3": System(
        {"criterion": "nota:places=first+last,delta=3"}, like=PAPERS_FEATURES
    ),
    "pt-cfg, the paper's features, delta 7": System(
        {"criterion": "nota:places=first+last,delta=7"}, like=PAPERS_FEATURES
    ),
    "pt-cfg, a sample of all wrong edges": System({"criterion": "nota:wrong=sample"}),
    "pt-cfg, another sample": System({"criterion": "nota:wrong=sample"}, seed=1),
    "pt-cfg, a third sample": System({"criterion": "nota:wrong=sample"}, seed=2),
    "m-estimation": System({"criterion": "m-estimation"}),
    "crf-cfg": System({"criterion": "cll"}),
}
QUICK_PARSING = ("generative", "mecfg", "pt-cfg")
LARGE, SLOW = ("gum",), ("m-estimation", "crf-cfg")


def parsing(run: Run) -> list[Table | Chart]:
    """The table of one corpus; a small version for the bundled one."""
    wanted = list(PARSING_SYSTEMS) if run.files else list(QUICK_PARSING)
    if run.corpus in LARGE:
        wanted = [name for name in wanted if "sample" not in name and name not in SLOW]
    systems = {name: PARSING_SYSTEMS[name] for name in wanted}
    found = run.trained(TREES, systems, "parsing ")
    base = found[AGAINST]
    table = Table(
        f"Piecewise training, Table 2: {run.corpus}, {base['sentences']:,} trees of at most {tasks.LONGEST} words, "
        f"{len(base['counts']):,} to test",
        COLUMNS,
    )
    for name, cell in found.items():
        like = found.get(systems[name].like, base)
        figures, shown = compared(cell, like)
        error = "" if cell is like else number(standard_error(like, cell), 2)
        shown += [error, cell["wrong_edges"], number(cell["test"]["exact"], 1), number(cell["seconds"], 0)]
        table.add(name, figures, [*shown, systems[name].published or ""])
    table.notes += [
        f"{BOOTSTRAP} The standard error is the bootstrap's, of the difference. A pt-cfg is compared with the mecfg of "
        "the same features. The paper's figures are of other, larger data, without a test of significance; its PT-CFG "
        "had 1,564,827 wrong edges.",
        PROCESSOR,
    ]
    return [table]
