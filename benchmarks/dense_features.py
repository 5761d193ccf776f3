"""A pass over dense features beside the two products of matrices that it cannot do without.

    python benchmarks/dense_features.py [--tokens 200000] [--numbers 300] [--labels 20] [--repeat 5]

The data is made up: sequences of 25 tokens, one attribute and a row of normal numbers each, random labels. A pass is
the objective of conditional likelihood with its gradient, in one thread; the products are M W and M' S over the same
blocks. Both in CPU seconds of the whole process, the least of several that alternate.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from loglinear import Tagger

LENGTH = 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=200_000)
    parser.add_argument("--numbers", type=int, default=300)
    parser.add_argument("--labels", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(given.tokens // LENGTH, LENGTH, given.numbers))
    y = rng.integers(given.labels, size=rows.shape[:2])
    began = time.process_time()
    problem = Tagger(threads=1).problem(rows, [[f"L{label}" for label in labels] for labels in y.tolist()])
    print(f"from arrays to a problem: {time.process_time() - began:.2f} s")
    objective = problem.objective(problem.criterion("cll", None), 1.0, 1)
    weights = 0.01 * rng.normal(size=problem.model.features.n_features)
    matrix, table = problem.encoded.dense, rng.normal(size=(given.numbers, given.labels))
    blocks = problem.model.features.blocks(problem.encoded.offsets, 0, problem.encoded.n_sequences)
    bounds = [tuple(problem.encoded.offsets[list(block)].tolist()) for block in blocks]

    def products() -> None:
        gradient = np.zeros_like(table)
        for lo, hi in bounds:
            gradient += matrix[lo:hi].T @ (matrix[lo:hi] @ table)

    seconds = {"pass": np.inf, "products": np.inf}
    for _ in range(given.repeat + 1):
        for name, call in (("pass", lambda: objective(weights)), ("products", products)):
            began = time.process_time()
            call()
            seconds[name] = min(seconds[name], time.process_time() - began)
    shape = f"{given.tokens:,} tokens, {given.numbers} numbers, {given.labels} labels"
    print(f"{shape}: pass {seconds['pass']:.3f} s, products {seconds['products']:.3f} s", end="")
    print(f", ratio {seconds['pass'] / seconds['products']:.2f}")


if __name__ == "__main__":
    main()
