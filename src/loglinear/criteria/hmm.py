"""The hidden Markov model alone: relative frequencies of the training data, and no weights to learn.

    p(x, y) = prod_t t(y_t given the labels before) prod_f e_f(x_tf given y_t)

(:mod:`~loglinear.generative.hmm.model`)

In score space there is nothing to minimise; the model is its generative base. Where labels are hidden, the frequencies
are those expected given what is observed, found by EM (:mod:`~loglinear.generative.hmm.em`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loglinear.arrays import Float
from loglinear.criteria.criterion import Criterion, register
from loglinear.options import option, options

if TYPE_CHECKING:
    from loglinear.structures.chain.structure import Chain, ChainScores
    from loglinear.structures.gold import Gold

MOST_SMOOTHING = 1e6  # beyond that, counts hardly matter


@options
class Counted(Criterion):
    """A criterion whose model has a generative base, counted from the data."""

    uses_base = True

    smoothing: float = option("added to each count of a value with a label", default=1.0, least=0, most=MOST_SMOOTHING)
    transition_smoothing: float = option("added to each count of a step", default=0.0, least=0, most=MOST_SMOOTHING)


@register
@options
class HiddenMarkov(Counted):
    """Nothing: the base is counted."""

    name = "hmm"
    summary = "hidden Markov model: relative frequencies, by EM where labels are hidden; no weights to learn"
    convex = True
    needs = ("piece_normalisers",)  # not called: the base is made of a chain's pieces
    learns_weights = False
    optimizers = ("lbfgs",)
    for_hidden = ("restarts", "rounds", "tolerance")

    labels: int | None = option(
        "how many labels to find where none is known, named 0, 1, ...", default=None, least=1, example=10
    )
    restarts: int | None = option(
        "further starts of EM, the best of which is kept (none if some labels are known, else 4)",
        default=None,
        least=0,
        example=4,
    )
    rounds: int = option("most rounds of EM from each start", default=100, least=0)
    tolerance: float = option(
        "EM ends when a round raises the objective by less than this share", default=1e-6, least=0
    )

    def evaluate(self, structure: Chain, scores: ChainScores, gold: Gold, weights: Float) -> tuple[Float, ChainScores]:
        return np.zeros(structure.n_sequences), scores.zeros_like()
