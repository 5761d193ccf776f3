"""What M-estimation is good for besides itself: a quick training, a start, a selection of features, hidden sub-labels.

    python -m benchmarks.m_estimation_uses [speed start selection sub-labels]

speed       seconds of 100 L-BFGS iterations by m-estimation (expectations not counted) and by cll, same features and
            order, alternated: noun phrases with 3 labels (order 2, extended features), and part-of-speech tags of the
            same corpus with 44 (order 1, words around and affixes)
start       passes and seconds that cll needs until its objective is within 1 % and 0.1 % of the converged one, from
            zero, from an MEMM and from an M-estimate (their own time counted)
selection   F1 on the tuning sentences of cll (100 iterations) with the k features that say most in an M-estimate
            (weight times root of count), against the k that occur most often and k at random
sub-labels  F1 on the tuning sentences of M-estimates with 1 and 2 hidden sub-labels a label

Noun phrases of CoNLL-2000 as in :mod:`benchmarks.m_estimation`; nothing looks at the test data.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from benchmarks.m_estimation import paper_split
from loglinear import Tagger
from loglinear.data import Columns
from loglinear.evaluation import chunk_scores
from loglinear.generative.m_estimation import sentence_counts
from loglinear.optimizers.lbfgs import LBFGS

EXTENDED: dict[str, Any] = {"template": "chunking", "pair_features": True, "order": 2}
TAGGING: dict[str, Any] = {
    "template": "U0:%x[-1,0]\nU1:%x[0,0]\nU2:%x[1,0]\nU3:%suffix[0,0,2]\nU4:%suffix[0,0,3]\nU5:%prefix[0,0,2]\n"
    "U6:%x[-1,0]/%x[0,0]\nU7:%x[0,0]/%x[1,0]\nB\n",
    "order": 1,
}
ITERATIONS = 100


def main() -> None:
    parts: dict[str, Callable[[Columns, Columns, int | None], Table]] = {
        "speed": speed, "start": start, "selection": selection, "sub-labels": sub_labels,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=list(parts), metavar="part")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    train, dev, _ = paper_split(seed=0)
    for name in arguments.parts or parts:
        Console(width=120).print(parts[name](train, dev, arguments.threads))


def f1(tagger: Tagger, corpus: Columns) -> float:
    gold = corpus.columns[-1]
    predicted = (tagger.predict_numbers(corpus)[0], tagger.classes_, corpus.offsets)
    return chunk_scores((gold.ids, gold.values, corpus.offsets), predicted).to_dict()["f1"]


def tags_of(corpus: Columns) -> Columns:
    """The same sentences with words and, as labels, their part-of-speech tags."""
    return Columns(corpus.name, corpus.offsets, corpus.lines, corpus.columns[:2])


def speed(train: Columns, dev: Columns, threads: int | None) -> Table:
    table = Table("labels", "features", "m-estimation, s", "cll, s", "ratio", title=f"{ITERATIONS} L-BFGS iterations")
    for corpus, options in ((train, EXTENDED), (tags_of(train), TAGGING)):
        problems = {
            criterion: Tagger(criterion=criterion, threads=threads, **options).problem(corpus)
            for criterion in ("m-estimation", "cll")
        }
        seconds: dict[str, list[float]] = {name: [] for name in problems}
        for _ in range(2):
            for name, problem in problems.items():
                l2 = 0.5 if name == "m-estimation" else 1.0
                objective = problem.objective(problem.criterion(name), l2, threads or 2)
                objective(np.zeros(problem.model.features.n_features))  # compiled before it is timed
                began = time.perf_counter()
                found = LBFGS(max_iter=ITERATIONS, tolerance=0.0).minimise(
                    objective, np.zeros(problem.model.features.n_features)
                )
                seconds[name].append((time.perf_counter() - began) * ITERATIONS / max(found.state.iteration, 1))
        mine, theirs = (min(seconds[name]) for name in ("m-estimation", "cll"))
        features = " / ".join(f"{problem.model.features.n_features:,}" for problem in problems.values())
        labels = len(problems["cll"].model.labels)
        table.add_row(str(labels), features, f"{mine:.1f}", f"{theirs:.1f}", f"{mine / theirs:.3f}")
    return table


def start(train: Columns, dev: Columns, threads: int | None) -> Table:
    table = Table("start", "its seconds", "passes to 1 %", "seconds", "passes to 0.1 %", "seconds", "first objective")
    best = Tagger(tolerance=1e-7, threads=threads, **EXTENDED).fit(train).objective_
    assert best is not None
    for init in (None, "memm", "m-estimation"):
        tagger = Tagger(threads=threads, **EXTENDED)
        tagger.fit(train, init=init)
        before = max((tagger.seconds_ or 0.0) - tagger.history_[-1].seconds, 0.0)
        cells = []
        for share in (0.01, 0.001):
            reached = next((p for p in tagger.history_ if p.objective <= (1 + share) * best), None)
            cells += ["-", "-"] if reached is None else [str(reached.iteration), f"{reached.seconds + before:.1f}"]
        table.add_row(init or "zero", f"{before:.1f}", *cells, f"{tagger.history_[0].objective:,.0f}")
    return table


def selection(train: Columns, dev: Columns, threads: int | None) -> Table:
    table = Table(
        "features kept", "by M-estimate", "by frequency", "at random", title="cll, F1 on the tuning sentences"
    )
    everything = Tagger(threads=threads, max_iter=ITERATIONS, **EXTENDED).fit(train)
    problem = Tagger(**EXTENDED).problem(train)
    frequency = _counts(problem)
    chance = np.random.default_rng(0).random(len(frequency)) / np.sqrt(np.maximum(frequency, 1.0))  # counts put apart
    for k in (5_000, 20_000, 60_000):
        cells = [
            f1(Tagger(threads=threads, max_iter=ITERATIONS, **EXTENDED).fit(train, init="m-estimation", keep=k), dev)
        ]
        for weight in (frequency, chance):
            ranked = Tagger(threads=threads, max_iter=ITERATIONS, **EXTENDED)
            ranked.model_, ranked.classes_ = problem.model.with_weights(1e-12 * weight), problem.model.labels
            cells.append(
                f1(Tagger(threads=threads, max_iter=ITERATIONS, **EXTENDED).fit(train, init=ranked, keep=k), dev)
            )
        table.add_row(f"{k:,}", *(f"{cell:.2f}" for cell in cells))
    table.add_row(f"all {problem.model.features.n_features:,}", f"{f1(everything, dev):.2f}", "", "")
    return table


def _counts(problem: Any) -> npt.NDArray[np.float64]:
    """How often each feature fires in the gold labellings [D]."""
    counts = sentence_counts(problem.model.features, problem.encoded, problem.gold.labels)
    return np.asarray(counts.sum(axis=0), dtype=np.float64).ravel()


def sub_labels(train: Columns, dev: Columns, threads: int | None) -> Table:
    table = Table("sub-labels", "rounds", "features", "F1 on the tuning sentences", "seconds")
    for n, rounds in ((1, 1), (2, 1), (2, 3), (2, 6)):
        criterion = "m-estimation" if n == 1 else f"m-estimation:rounds={rounds}"
        for features in ("HMM", "extended"):
            template = EXTENDED if features == "extended" else {"template": "U0:%x[0,0]\nU1:%x[0,1]\nB\n", "order": 2}
            tagger = Tagger(
                criterion=criterion, sub_labels=n, variance=1.0, max_iter=100, threads=threads, **template
            ).fit(train)
            table.add_row(str(n), str(rounds), features, f"{f1(tagger, dev):.2f}", f"{tagger.seconds_:.0f}")
    return table


if __name__ == "__main__":
    main()
