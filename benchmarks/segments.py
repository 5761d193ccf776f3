"""Taggers of segments beside chains with BIO labels: accuracy on entities and addresses, and the time of a pass.

    python -m benchmarks.segments [--l2 0.03 0.1 0.3 1] [--task entities addresses pass]

Entities are those of CoNLL-2002 Spanish: trained on esp.train, judged on esp.testa (dev). Addresses are those of
usaddress, each run of tokens with the same label being one segment: trained on four fifths of the training data
(chosen by a seed), judged on the rest. Both models look at the same template, have the same labels and BIO
constraints, and are trained by L-BFGS to its own end, with each of the L2 factors.

A pass is the value and gradient of the objective in double precision on one thread, of a chain and of segments of up
to L tokens over the same token attributes and labels, alternated; the ratio is that of the medians.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from benchmarks.corpora import data_folder
from loglinear import Tagger, read_columns
from loglinear.data import Column, Columns
from loglinear.structures.segments.scheme import SegmentScheme

WAYS = {"chain": {}, "segments": {"structure": "segments"}}


def row(*cells: object) -> None:
    """A row of a table, as soon as it is known."""
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def runs_as_bio(corpus: Columns) -> Columns:
    """Labels X of runs of tokens as B-X and I-X."""
    label = corpus.column(-1)
    begins = np.append(True, label.ids[1:] != label.ids[:-1])
    begins[corpus.offsets[:-1]] = True
    values = [f"{prefix}-{value}" for prefix in "BI" for value in label.values]
    ids = np.where(begins, label.ids, label.ids + len(label.values)).astype(np.int32)
    return replace(corpus, columns=[*corpus.columns[:-1], Column(ids, values)])


def mended(corpus: Columns) -> Columns:
    """The few labels that break BIO read as conlleval reads them."""
    label = corpus.column(-1)
    ids = SegmentScheme.from_labels(label.values, "bio").mended(corpus.offsets, label.ids)
    return replace(corpus, columns=[*corpus.columns[:-1], Column(ids, label.values)])


def entities(seed: int) -> tuple[Columns, Columns]:
    folder = data_folder("conll2002")
    return mended(read_columns(folder / "esp.train")), read_columns(folder / "esp.testa")


def addresses(seed: int) -> tuple[Columns, Columns]:
    train = runs_as_bio(read_columns(data_folder("usaddress") / "train.txt"))
    order = np.random.default_rng(seed).permutation(len(train))
    n_dev = len(train) // 5
    return train.select(np.sort(order[n_dev:])), train.select(np.sort(order[:n_dev]))


def accuracy(task: str, penalties: list[float], seed: int) -> None:
    train, dev = {"entities": entities, "addresses": addresses}[task](seed)
    row(task, "l2", "dev F1", "iterations", "features", "seconds")
    row(*["---"] * 6)
    for name, options in WAYS.items():
        for l2 in penalties:
            tagger = Tagger(template="ner", constraints="bio", l2=l2, optimizer="lbfgs", **options).fit(train)
            f1 = 100 * tagger.score(dev, metric="f1")
            row(
                name,
                f"{l2:g}",
                f"{f1:.2f}",
                tagger.n_iter_,
                f"{tagger.n_features_trained_:,}",
                f"{tagger.seconds_:.0f}",
            )


def passes(lengths: list[int], repeat: int) -> None:
    train, _ = entities(0)
    row("L", "chain, ms", "segments, ms", "ratio", "L + 2")
    row(*["---"] * 5)
    for longest in lengths:
        objectives = []
        for options in ({}, {"structure": "segments", "max_length": longest}):
            short = _no_longer(train, longest)
            problem = Tagger(template="ner", threads=1, **options).problem(short)
            objectives.append((problem.objective(problem.criterion("cll"), 1.0, 1), problem.model.weights))
        times: list[list[float]] = [[], []]
        for _ in range(repeat + 1):
            for each, (objective, weights) in zip(times, objectives, strict=True):
                began = time.perf_counter()
                objective(weights)
                each.append(time.perf_counter() - began)
        chain, segments = (1000 * float(np.median(each[1:])) for each in times)
        row(longest, f"{chain:.0f}", f"{segments:.0f}", f"{segments / chain:.2f}", longest + 2)


def _no_longer(corpus: Columns, longest: int) -> Columns:
    """Only the sentences without a longer segment."""
    label = corpus.column(-1)
    inside = np.array([value.startswith("I-") for value in label.values])[label.ids]
    run = np.zeros(len(inside), dtype=np.int64)
    for _ in range(longest):  # tokens inside a segment that have so many before them in it
        run = np.where(inside, np.append(0, run[:-1]) + 1, 0)
    too_long = np.add.reduceat(run >= longest, corpus.offsets[:-1]) > 0
    return corpus.select(np.flatnonzero(~too_long))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", default=["entities", "addresses", "pass"])
    parser.add_argument("--l2", type=float, nargs="+", default=[0.03, 0.1, 0.3, 1.0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for task in arguments.task:
        if task == "pass":
            passes(arguments.lengths, arguments.repeat)
        else:
            accuracy(task, arguments.l2, arguments.seed)


if __name__ == "__main__":
    main()
