"""How much the smoothing of the base matters to M-estimation: add-lambda with a tenth and ten times of 1.

    python -m benchmarks.smoothing [--variance 2.1544]

Noun phrases of CoNLL-2000 in the setting of :mod:`benchmarks.np_criteria` (Smith, Vail & Lafferty 2007, who say
that a tenfold change of lambda has little effect). The variance c is that of the published row's reproduction with
lambda = 1, and the same for all.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.corpora import data_folder
from loglinear import Tagger, read_columns
from loglinear.experiments.reproduce.tasks import noun_phrases, with_unknown_words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variance", type=float, default=2.1544)
    parser.add_argument("--smoothing", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    everything, test = (noun_phrases(read_columns(data_folder() / name)) for name in ("train.txt", "test.txt"))
    order = np.random.default_rng(arguments.seed).permutation(len(everything))
    dev, train = everything.select(np.sort(order[:900])), everything.select(np.sort(order[900:]))
    with_unknown_words(train, dev, test)
    table = Table("lambda", "hidden Markov model, dev", "test", "M-estimate, dev", "test")
    for smoothing in arguments.smoothing:
        row = []
        for tagger in (
            Tagger(f"hmm:smoothing={smoothing:g}", order=2),
            Tagger(
                f"m-estimation:smoothing={smoothing:g}",
                template="chunking",
                order=2,
                pair_features=True,
                variance=arguments.variance,
                max_iter=100,
            ),
        ):
            tagger.fit(train)
            row += [f"{100 * tagger.score(data, metric='f1'):.2f}" for data in (dev, test)]
        table.add_row(f"{smoothing:g}", *row)
    Console().print(table)


if __name__ == "__main__":
    main()
