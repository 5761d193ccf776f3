"""Why ``nota:scaling`` does not repair global decoding: the factors of pieces by the sentences they are learnt from.

    python -m benchmarks.scaling [--sentences 700] [--l2 0.3]

``nota`` with features per source state on the first sentences of the Spanish entities, then a factor for each source
state by at most 20 steps of L-BFGS on ``cll``, learnt from the same sentences or from a fifth as many that follow them;
F1 on the first 700 sentences of testa.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.corpora import data_folder
from loglinear import Tagger, read_columns
from loglinear.arrays import Float
from loglinear.criteria.criterion import make_criterion
from loglinear.criteria.local import locally_normalised, scaled, scaling_gradient
from loglinear.data import Columns
from loglinear.estimators.tagger.model import ChainModel
from loglinear.evaluation import chunk_scores
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.structures.gold import Gold

STEPS, TEST = 20, 700
Form = Callable[[Any, Any], Any]  # from a chain and its scores to scores


def labels_of(model: ChainModel, corpus: Columns) -> Any:
    column, places = corpus.columns[-1], {label: y for y, label in enumerate(model.labels)}
    return np.array([places[value] for value in column.values], dtype=np.int32)[column.ids]


def learnt(model: ChainModel, corpus: Columns, form: Form) -> tuple[Float, Float]:
    """The factors [Y + 1] of the pieces, and cll before and after."""
    encoded, gold, likelihood = model.encode(corpus), labels_of(model, corpus), make_criterion("cll")

    def objective(alpha: Float) -> tuple[float, Float]:
        def evaluate(chain: Any, scores: Any, positions: slice) -> tuple[float, Float]:
            scores = form(chain, scores)
            ones = np.ones(chain.n_sequences)
            losses, parts = likelihood.evaluate(chain, scaled(chain, scores, alpha), Gold(gold[positions]), ones)
            return float(losses.sum()), scaling_gradient(chain, scores, alpha, parts)

        values, gradients = zip(*model.map_blocks(encoded, None, 1, evaluate), strict=True)
        return sum(values), np.sum(gradients, axis=0)

    ones = np.ones(len(model.labels) + 1)
    found = LBFGS(max_iter=STEPS).minimise(objective, ones)
    return found.weights, np.array([objective(ones)[0], found.value])


def f1(model: ChainModel, corpus: Columns, form: Form) -> float:
    """F1 of the best labellings."""
    blocks = model.map_blocks(
        model.encode(corpus), None, 1, lambda chain, scores, positions: chain.viterbi(form(chain, scores))[0]
    )
    column = corpus.columns[-1]
    gold = (column.ids, column.values, corpus.offsets)
    return chunk_scores(gold, (np.concatenate(blocks), list(model.labels), corpus.offsets)).f1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=700)
    parser.add_argument("--l2", type=float, default=0.3)
    arguments = parser.parse_args()
    n, place = arguments.sentences, data_folder("conll2002")
    everything, test = read_columns(place / "esp.train"), read_columns(place / "esp.testa").select(np.arange(TEST))
    train, others = everything.select(np.arange(n)), everything.select(np.arange(n, n + n // 5))
    tagger = Tagger("nota", template="ner", pair_features="only", l2=arguments.l2, max_iter=100).fit(train)
    model = tagger.model_
    forms: dict[str, Form] = {"global": lambda chain, scores: scores, "local": locally_normalised}
    table = Table("decoding", "factors learnt from", "cll before", "after", "factors", "F1")
    for name, form in forms.items():
        table.add_row(name, "none", "", "", "", f"{f1(model, test, form):.2f}")
        for what, corpus in (("the same sentences", train), ("other sentences", others)):
            alpha, value = learnt(model, corpus, form)
            figure = f1(model, test, lambda chain, scores, a=alpha, g=form: scaled(chain, g(chain, scores), a))
            low, high = alpha.min(), alpha.max()
            row = [name, what, *(f"{v:,.1f}" for v in value), f"{low:.2f} to {high:.2f}", f"{figure:.2f}"]
            table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
