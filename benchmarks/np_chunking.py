"""Noun-phrase chunking on CoNLL-2000 with a second-order chain, L2 chosen on a dev split of the training data.

    python -m benchmarks.np_chunking [--l2 0.03 0.1 0.3 1]

Labels other than those of noun phrases become O, as in Sha & Pereira (2003). Each attribute is joined with the label
and with the label pair, and label trigrams are features. A tenth of the training sentences (chosen by a seed) is the
dev data; the L2 factor with the best F1 there trains on all training sentences, and only that model sees the test data.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.corpora import data_folder
from loglinear import Tagger, read_columns
from loglinear.experiments.reproduce.tasks import noun_phrases


def tagger(l2: float) -> Tagger:
    return Tagger(template="chunking", order=2, pair_features=True, constraints="bio", l2=l2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--l2", type=float, nargs="+", default=[0.03, 0.1, 0.3, 1.0])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    train, test = (noun_phrases(read_columns(data_folder() / name)) for name in ("train.txt", "test.txt"))
    order = np.random.default_rng(arguments.seed).permutation(len(train))
    n_dev = len(train) // 10
    dev, rest = train.select(np.sort(order[:n_dev])), train.select(np.sort(order[n_dev:]))
    scores = {}
    for l2 in arguments.l2:
        began = time.perf_counter()
        fitted = tagger(l2).fit(rest)
        scores[l2] = 100 * fitted.score(dev, metric="f1")
        print(
            f"l2 {l2:g}: dev F1 {scores[l2]:.2f}, {fitted.n_iter_} iterations, {time.perf_counter() - began:.0f} s",
            flush=True,
        )
    best = max(scores, key=lambda l2: scores[l2])
    fitted = tagger(best).fit(train)
    print(f"l2 {best:g} on all training data: test F1 {100 * fitted.score(test, metric='f1'):.2f}")
    print(f"{fitted.model_.features.n_features:,} features, objective {fitted.objective_:.2f}, {fitted.seconds_:.0f} s")


if __name__ == "__main__":
    main()
