"""Noun-phrase chunking by several criteria, in the setting of Smith, Vail & Lafferty (2007), Table 1.

    python -m benchmarks.np_criteria [--runs np_criteria.json]

CoNLL-2000; labels other than those of noun phrases become O. About 900 training sentences, drawn by a seed, are for
tuning; the first occurrence of each word and tag in the others becomes an OOV symbol, as do unknown ones elsewhere.
Second-order chains, with two sets of features:

    HMM         word and tag of the position with its label, label bigrams and trigrams
    extended    Sha & Pereira's 19 predicates with the label and with the label pair, label bigrams and trigrams
    not ahead   those of them that look at no later position

The variance c of the prior is one of four from 0.5 to 15, chosen by F1 on the tuning sentences; L-BFGS, at most 100
iterations, as there. Only the chosen models' test scores are shown.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.corpora import data_folder
from benchmarks.runs import Runs
from loglinear import Tagger, read_columns
from loglinear.experiments.reproduce.tasks import noun_phrases, with_unknown_words

NOT_AHEAD = """
U0:%x[-2,0]
U1:%x[-1,0]
U2:%x[0,0]
U3:%x[-1,0]/%x[0,0]
U4:%x[-2,1]
U5:%x[-1,1]
U6:%x[0,1]
U7:%x[-2,1]/%x[-1,1]
U8:%x[-1,1]/%x[0,1]
U9:%x[-2,1]/%x[-1,1]/%x[0,1]
B
"""
FEATURES = {
    "HMM": ("U0:%x[0,0]\nU1:%x[0,1]\nB\n", False),
    "extended": ("chunking", True),
    "not ahead": (NOT_AHEAD, True),
}
CRITERIA = ["cll", "memm", "pseudolikelihood", "pseudolikelihood:joint"]
PUBLISHED = {
    ("HMM", "cll"): 89.98,
    ("HMM", "memm"): 87.31,
    ("HMM", "pseudolikelihood"): 80.84,
    ("extended", "cll"): 93.86,
    ("extended", "memm"): 91.51,
    ("extended", "pseudolikelihood"): 91.83,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("np_criteria.json"), help="file of finished runs")
    parser.add_argument("--variance", type=float, nargs="+", default=[0.5, 1.5, 5.0, 15.0])
    parser.add_argument("--criteria", nargs="+", help="only these")
    parser.add_argument("--features", nargs="+", choices=list(FEATURES), default=list(FEATURES))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    everything, test = (noun_phrases(read_columns(data_folder() / name)) for name in ("train.txt", "test.txt"))
    order = np.random.default_rng(arguments.seed).permutation(len(everything))
    dev, train = everything.select(np.sort(order[:900])), everything.select(np.sort(order[900:]))
    with_unknown_words(train, dev, test)
    runs = Runs(arguments.runs)
    table = Table("features", "criterion", "c", "dev F1", "test P", "R", "F1", "published F1", "iterations", "seconds")
    for features in arguments.features:
        template, pair_features = FEATURES[features]
        for criterion in CRITERIA:
            if arguments.criteria and criterion not in arguments.criteria:
                continue
            if features == "not ahead" and criterion not in ("cll", "memm"):
                continue
            found = {}
            for c in arguments.variance:
                tagger = Tagger(
                    criterion=criterion,
                    template=template,
                    order=2,
                    pair_features=pair_features,
                    variance=c,
                    max_iter=100,
                    threads=arguments.threads,
                )
                found[c] = runs.get(f"{features} {criterion} c={c:g} seed={arguments.seed}", tagger, train, dev, test)
            best = max(found, key=lambda c: found[c]["dev"]["f1"])
            report = found[best]
            published = PUBLISHED.get((features, criterion))
            table.add_row(
                features, criterion, f"{best:g}", f"{report['dev']['f1']:.2f}", f"{report['test']['precision']:.2f}",
                f"{report['test']['recall']:.2f}", f"{report['test']['f1']:.2f}",
                "" if published is None else f"{published:.2f}", str(report["iterations"]), f"{report['seconds']:.0f}",
            )  # fmt: skip
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
