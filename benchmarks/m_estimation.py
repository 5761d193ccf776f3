"""M-estimation of noun-phrase chunkers in the setting of Smith, Vail & Lafferty (2007), Tables 1 and 2.

    python -m benchmarks.m_estimation [--runs m_estimation.json]

CoNLL-2000; labels other than those of noun phrases become O. About 900 training sentences, drawn by a seed, are for
tuning. The base is a second-order hidden Markov model that emits word and tag, add-1 smoothed, with the first
occurrence of each made unknown. Second-order chains, with two sets of features:

    HMM         word and tag of the position with its label, label bigrams and trigrams
    extended    Sha & Pereira's 19 predicates with the label and with the label pair, label bigrams and trigrams

The variance c is one of 7 from 0.1 to 10, evenly apart in their logarithms, or infinite, chosen on the tuning
sentences; L-BFGS, at most 100 iterations. Only the chosen models' test scores are shown.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.corpora import data_folder
from benchmarks.np_criteria import FEATURES
from benchmarks.runs import Runs
from loglinear import Tagger, read_columns
from loglinear.data import Columns
from loglinear.errors import OptionError
from loglinear.experiments.reproduce.tasks import noun_phrases
from loglinear.features.templates.encoder import TemplateEncoder

VARIANCES = [*np.logspace(-1, 1, 7).round(4).tolist(), math.inf]
M = "m-estimation"
ROWS: list[tuple[str, str, dict[str, Any], str, str]] = [  # name, features, options, chosen by, published P R F1
    ("HMM", "HMM", {"criterion": "hmm"}, "", "85.60 88.68 87.11"),
    ("M-est.", "HMM", {"criterion": M}, "f1", "85.57 88.65 87.08"),
    ("M-est.", "extended", {"criterion": M}, "f1", "88.88 90.42 89.64"),
    ("M-est.", "extended", {"criterion": M}, "precision", "88.88 90.42 89.64"),
    ("M-est., locally uniform", "extended", {"criterion": M, "base": "locally-uniform"}, "f1", "72.91 57.56 64.33"),
    (
        "M-est., locally uniform", "extended", {"criterion": M, "base": "locally-uniform"}, "precision",
        "84.40 37.68 52.10",
    ),
    ("M-est., empirical", "extended", {"criterion": M, "base": "empirical"}, "f1", "84.38 89.43 86.83"),
    ("M-est., input-only features", "extended", {"criterion": f"{M}:input_only"}, "f1", "F1 89.33"),
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("m_estimation.json"), help="file of finished runs")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    train, dev, test = paper_split(arguments.seed)
    runs, console = Runs(arguments.runs), Console(width=140)
    console.print(about_the_base(train))
    table = Table("model", "features", "chosen by", "c", "dev F1", "test P", "R", "F1", "published", "iterations", "s")
    for name, features, options, chosen_by, published in ROWS:
        found = {}
        for c in VARIANCES if chosen_by else [math.nan]:
            tagger = make_tagger(features, c, arguments.threads, options)
            label = f"{features} {options['criterion']} {options.get('base', 'hmm')} c={c:g} seed={arguments.seed}"
            try:
                found[c] = runs.get(label, tagger, train, dev, test)
            except OptionError as error:  # without a penalty there may be no minimum
                print(f"{label}: {error}", flush=True)
        best = max(found, key=lambda c: found[c]["dev"][chosen_by or "f1"])
        report, scores = found[best], found[best]["test"]
        table.add_row(
            name, features, chosen_by or "-", "-" if math.isnan(best) else f"{best:g}", f"{report['dev']['f1']:.2f}",
            f"{scores['precision']:.2f}", f"{scores['recall']:.2f}", f"{scores['f1']:.2f}", published,
            str(report["iterations"]), f"{report['seconds']:.0f}",
        )  # fmt: skip
    console.print(table)


def paper_split(seed: int) -> tuple[Columns, Columns, Columns]:
    """Noun phrases: training, tuning (900 sentences of the training file) and test data."""
    everything, test = (noun_phrases(read_columns(data_folder() / name)) for name in ("train.txt", "test.txt"))
    order = np.random.default_rng(seed).permutation(len(everything))
    return everything.select(np.sort(order[900:])), everything.select(np.sort(order[:900])), test


def make_tagger(features: str, c: float, threads: int | None, options: dict[str, Any]) -> Tagger:
    if options["criterion"] == "hmm":
        return Tagger(order=2, threads=threads, **options)
    template, pair_features = FEATURES[features]
    penalty: dict[str, Any] = {"l2": 0.0} if math.isinf(c) else {"variance": c}
    return Tagger(
        template=template, order=2, pair_features=pair_features, max_iter=100, threads=threads, **penalty, **options
    )


def about_the_base(train: Columns) -> str:
    """The base's counts, and how long the expectations of the extended features take."""
    problem = make_tagger("extended", 1.0, None, {"criterion": M}).problem(train)
    model = problem.model
    assert model.base is not None and isinstance(model.encoder, TemplateEncoder)
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        model.base.expected(model.encoder, model.features, problem.encoded, None, 1)
        seconds.append(time.perf_counter() - began)
    words, tags = (len(values) for values in model.base.vocabulary.values)
    return (
        f"base: {words:,} words and {tags} tags with the unknown one, {model.base.model.n_parameters:,} parameters "
        f"(published: 9,014, 46, 27,213)\n"
        f"expectations of {model.features.n_features:,} features: {min(seconds):.2f} s"
    )


if __name__ == "__main__":
    main()
