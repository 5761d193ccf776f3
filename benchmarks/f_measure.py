"""Whether criteria of marginals and of F raise F1 over ``cll``: Spanish entities, most of whose labels are O.

    python -m benchmarks.f_measure [--sentences 2000] [--template ner] [--criteria f-measure ...] [--l2 ...]

Trained on the first sentences of the training data, first order; ``cll`` from zero, all others from the best ``cll``
model, at most 60 iterations. For each penalty precision, recall and F1 of chunks on testa, and F1 of labels other than
O; F1 on testb for the penalty whose F1 of chunks is the best on testa.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.corpora import data_folder
from loglinear import Tagger, read_columns
from loglinear.data import Columns
from loglinear.evaluation import ChunkReport, chunk_scores

CRITERIA = ("f-measure", "f-measure:beta=2", "marginal-likelihood", "risk", "risk:anneal=8")


def chunk_report(tagger: Tagger, corpus: Columns) -> ChunkReport:
    """Scores of chunks."""
    gold = (corpus.columns[-1].ids, corpus.columns[-1].values, corpus.offsets)
    return chunk_scores(gold, (tagger.predict_numbers(corpus)[0], tagger.classes_, corpus.offsets))


def label_f1(tagger: Tagger, corpus: Columns) -> float:
    """F1 of labels other than O, in per cent."""
    gold = np.array(corpus.columns[-1].values)[corpus.columns[-1].ids]
    found = np.array(tagger.classes_)[tagger.predict_numbers(corpus)[0]]
    right = np.count_nonzero((gold == found) & (gold != "O"))
    return 200.0 * right / (np.count_nonzero(gold != "O") + np.count_nonzero(found != "O"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--criteria", nargs="+", default=CRITERIA)
    parser.add_argument("--template", default="ner")
    parser.add_argument("--cll-l2", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--l2", type=float, nargs="+", default=[0.01, 0.1, 1.0], help="of all others")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    train, dev, test = (read_columns(data_folder("conll2002") / f"esp.{part}") for part in ("train", "testa", "testb"))
    train, best_cll = train.select(np.arange(arguments.sentences)), None
    table = Table("criterion", "l2", "P", "R", "F1", "F1 of labels", "testb F1", "iterations", "seconds")
    for criterion in ("cll", *arguments.criteria):
        trained = []
        for l2 in arguments.cll_l2 if criterion == "cll" else arguments.l2:
            most = None if criterion == "cll" else 60
            tagger = Tagger(criterion, template=arguments.template, l2=l2, max_iter=most, threads=arguments.threads)
            trained.append(tagger.fit(train, init=best_cll))
            report = chunk_report(tagger, dev)
            print(f"{criterion} l2={l2:g}: {report.f1:.2f}", flush=True)
        best = max(trained, key=lambda tagger: chunk_report(tagger, dev).f1)
        best_cll = best if criterion == "cll" else best_cll
        for tagger in trained:
            report = chunk_report(tagger, dev)
            figures = [report.precision, report.recall, report.f1, label_f1(tagger, dev)]
            last = f"{chunk_report(tagger, test).f1:.2f}" if tagger is best else ""
            ends = [last, str(tagger.n_iter_), f"{tagger.seconds_:.0f}"]
            table.add_row(criterion, f"{tagger.l2:g}", *(f"{figure:.2f}" for figure in figures), *ends)
    Console().print(table)


if __name__ == "__main__":
    main()
