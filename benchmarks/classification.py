"""Multinomial logistic regression beside scikit-learn's: same rows, same penalty, the same function says the objective.

    python -m benchmarks.classification [--task text,digits,...] [--threads 1,2] [--repeats N] [--json FILE]

The text set is generated (200,000 rows, 100,000 columns, 20 classes, by a seed). Each training is a process of its own,
theirs and ours in turn; reading the rows counts on neither side, nor does loading our compiled kernels (a training of
three rows goes first). scikit-learn has its defaults (lbfgs, tol 1e-4, 100 iterations) and C = 1, that is l2 = 0.5, or
1 with two classes, for which it has one vector, the difference of ours. Ours is ``dual`` with a free bias:

    to theirs   so many passes that the objective is at most where scikit-learn ended
    to the end  until primal and dual differ by less than the tolerance, 0.001 of the objective

Seconds are of the clock on the wall and of the processor; memory is the peak of the whole process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table

C, EXACT = 1.0, 1e-7
TASKS = ("text", "digits", "breast-cancer", "wine")
ROWS_AT_ONCE = 10_000


def prepare(task: str, rows: int, columns: int, classes: int, path: Path) -> str:
    """Write a task's rows and labels; says what they are."""
    if task == "text":
        from loglinear.data.corpora.generator import generate_text_classes

        x, y = generate_text_classes(rows, columns, classes, seed=0)
    else:
        from sklearn import datasets
        from sklearn.preprocessing import StandardScaler

        load = {
            "digits": datasets.load_digits,
            "breast-cancer": datasets.load_breast_cancer,
            "wine": datasets.load_wine,
        }[task]
        x, y = load(return_X_y=True)
        x = sp.csr_matrix(StandardScaler().fit_transform(x))
    sp.save_npz(path.with_suffix(".npz"), x, compressed=False)
    np.save(path.with_suffix(".npy"), y.astype(np.int32))
    return f"{task}: {x.shape[0]:,} rows, {x.shape[1]:,} columns, {len(np.unique(y))} classes, {x.nnz:,} numbers"


def read(path: Path, dense: bool) -> tuple[Any, Any]:
    x = sp.load_npz(path.with_suffix(".npz"))
    return (x.toarray() if dense else x), np.load(path.with_suffix(".npy"))


def penalty_of(y: Any) -> float:
    """The factor of ||w||^2 that C stands for."""
    return (1.0 if int(y.max()) == 1 else 0.5) / C


def objective_of(x: Any, y: Any, columns: Any, bias: Any) -> float:
    """Sum of -log p and the penalty, in double precision: the referee of both sides."""
    total = penalty_of(y) * float(np.sum(columns**2))
    for first in range(0, len(y), ROWS_AT_ONCE):
        scores = x[first : first + ROWS_AT_ONCE] @ columns + bias
        top = scores.max(axis=1, keepdims=True)
        gold = scores[np.arange(len(scores)), y[first : first + ROWS_AT_ONCE]]
        total += float(np.sum(top[:, 0] + np.log(np.exp(scores - top).sum(axis=1)) - gold))
    return total


def train_theirs(x: Any, y: Any) -> dict[str, Any]:
    import warnings

    from sklearn.linear_model import LogisticRegression

    warnings.simplefilter("ignore")
    wall, processor = time.perf_counter(), time.process_time()
    model = LogisticRegression(C=C).fit(x, y)
    facts = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    facts |= {"passes": int(model.n_iter_[0]), "peak": peak()}
    coefficients, bias = model.coef_.T, model.intercept_
    if coefficients.shape[1] == 1:  # theirs is one vector for two classes: the difference of ours
        coefficients, bias = np.hstack([-coefficients, coefficients]) / 2, np.concatenate([-bias, bias]) / 2
    return facts | {"objective": objective_of(x, y, coefficients, bias)}


def fit_ours(x: Any, y: Any, threads: int, tolerance: float, passes: int | None, callback: Any = None) -> Any:
    from loglinear.criteria.criterion import make_criterion
    from loglinear.optimizers.objective import Objective
    from loglinear.optimizers.optimizer import make_optimizer
    from loglinear.structures.flat.features import FlatCorpus, FlatFeatures
    from loglinear.structures.gold import Gold

    features = FlatFeatures(x.shape[1], int(y.max()) + 1)
    objective = Objective(
        features, FlatCorpus.of(x), Gold(y), make_criterion("cll"), None, penalty_of(y), n_threads=threads,
        n_penalised=features.n_penalised,
    )  # fmt: skip
    optimizer = make_optimizer("dual", max_iter=passes, tolerance=tolerance, seed=0)
    result = optimizer.minimise(objective, np.zeros(features.n_features), callback=callback)
    return result, *features.split(result.weights)


def passes_to(x: Any, y: Any, threads: int, target: float) -> dict[str, Any]:
    """How many passes it takes to an objective."""
    n_labels = int(y.max()) + 1

    def reached(state: Any) -> bool:
        table = state.weights.reshape(-1, n_labels)
        return objective_of(x, y, table[:-1], table[-1]) <= target

    return {"passes": fit_ours(x, y, threads, EXACT, None, reached)[0].state.iteration}


def train_ours(x: Any, y: Any, threads: int, tolerance: float, passes: int | None) -> dict[str, Any]:
    from loglinear.optimizers.dual import flat

    few, usual = np.arange(2 * len(np.unique(y))) % len(np.unique(y)), flat.SINGLE_FROM
    for flat.SINGLE_FROM in (usual, 0):  # load the kernels for both precisions
        rows = np.eye(len(few)) if isinstance(x, np.ndarray) else sp.csr_matrix(np.eye(len(few)))
        fit_ours(rows, few.astype(np.int32), threads, 1e-2, 5)
    flat.SINGLE_FROM = usual
    wall, processor = time.perf_counter(), time.process_time()
    result, columns, bias = fit_ours(x, y, threads, tolerance, passes)
    facts = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    facts |= {"passes": result.state.iteration, "peak": peak(), "message": result.message}
    return facts | {"objective": objective_of(x, y, columns, bias)}


def peak() -> float:
    """Megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_a_process(arguments: list[str], threads: int) -> dict[str, Any]:
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [sys.executable, "-m", "benchmarks.classification", "--child", *arguments]
    done = subprocess.run(command, env={**os.environ, **limits}, capture_output=True, text=True, check=True)
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


def child(arguments: list[str]) -> None:
    side, path, dense, threads, tolerance, limit = arguments
    x, y = read(Path(path), dense == "dense")
    if side == "theirs":
        facts = train_theirs(x, y)
    elif side == "passes":
        facts = passes_to(x, y, int(threads), float(limit))
    else:
        facts = train_ours(x, y, int(threads), float(tolerance), int(limit) or None)
    print(json.dumps(facts))


def measured(path: Path, dense: bool, threads: int, repeats: int, tolerance: float) -> dict[str, Any]:
    """The medians of each of the three ways."""
    runs: dict[str, list[dict[str, Any]]] = {"theirs": [], "to theirs": [], "to the end": []}
    for _ in range(repeats):
        common = [str(path), "dense" if dense else "sparse", str(threads), str(tolerance)]
        runs["theirs"].append(in_a_process(["theirs", *common, "0"], threads))
        goal = repr(runs["theirs"][-1]["objective"])
        passes = in_a_process(["passes", *common, goal], threads)["passes"]
        runs["to theirs"].append(in_a_process(["ours", *common[:-1], str(EXACT), str(passes)], threads))
        runs["to the end"].append(in_a_process(["ours", *common, "0"], threads))
    numbers = ("wall", "processor", "passes", "peak", "objective")
    return {way: {name: statistics.median(r[name] for r in each) for name in numbers} for way, each in runs.items()}


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default=",".join(TASKS), help=f"of {', '.join(TASKS)}")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--rows", type=int, default=200_000, help="of the text set")
    parser.add_argument("--columns", type=int, default=100_000, help="of the text set")
    parser.add_argument("--classes", type=int, default=20, help="of the text set")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    arguments = parser.parse_args()
    console, figures = Console(), {}
    with tempfile.TemporaryDirectory() as scratch:
        for task in arguments.task.split(","):
            path = Path(scratch) / task
            what = prepare(task, arguments.rows, arguments.columns, arguments.classes, path)
            for threads in map(int, arguments.threads.split(",")):
                found = measured(path, task != "text", threads, arguments.repeats, arguments.tolerance)
                figures[f"{task}, threads {threads}"] = found
                table = Table(
                    "", "seconds", "of the processor", "passes", "peak MB", "objective", "theirs / ours",
                    title=f"{what}; threads {threads}",
                )  # fmt: skip
                for way, facts in found.items():
                    table.add_row(
                        way, f"{facts['wall']:.2f}", f"{facts['processor']:.2f}", f"{facts['passes']:.0f}",
                        f"{facts['peak']:.0f}", f"{facts['objective']:,.4f}",
                        "" if way == "theirs" else f"{found['theirs']['processor'] / facts['processor']:.1f}",
                    )  # fmt: skip
                console.print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
