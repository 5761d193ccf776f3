"""The hidden Markov model alone: relative frequencies of the training data, and no weights to learn.

    p(x, y) = prod_t t(y_t given the labels before) prod_f e_f(x_tf given y_t)       (:mod:`~loglinear.generative.hmm`)

In score space there is nothing to minimise; the model is its generative base.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loglinear.criteria.criterion import Criterion, Float, register
from loglinear.options import Option

if TYPE_CHECKING:
    from loglinear.structures.chain import Chain, ChainScores
    from loglinear.structures.gold import Gold

SMOOTHING = Option("smoothing", 1.0, "added to each count of a value with a label", least=0, kind=float)


@register
class HiddenMarkov(Criterion):
    """Nothing: the base is counted."""

    name = "hmm"
    summary = "hidden Markov model: relative frequencies, counted; there are no weights to learn"
    convex = True
    needs = ()
    takes_partial = False
    uses_base = True
    learns_weights = False
    optimizers = ("lbfgs",)
    options = (SMOOTHING,)

    def __init__(self, smoothing: float = 1.0) -> None:
        self.smoothing = smoothing

    def evaluate(self, structure: Chain, scores: ChainScores, gold: Gold, weights: Float) -> tuple[Float, ChainScores]:
        return np.zeros(structure.n_sequences), scores.zeros_like()
