"""The hidden Markov model alone: relative frequencies of the training data, and no weights to learn.

    p(x, y) = prod_t t(y_t given the labels before) prod_f e_f(x_tf given y_t)       (:mod:`~loglinear.generative.hmm`)

In score space there is nothing to minimise; the model is its generative base. Where labels are hidden, the frequencies
are those expected given what is observed, found by EM (:mod:`~loglinear.generative.em`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loglinear.criteria.criterion import Criterion, Float, register
from loglinear.options import Option

if TYPE_CHECKING:
    from loglinear.structures.chain import Chain, ChainScores
    from loglinear.structures.gold import Gold

MOST_SMOOTHING = 1e6  # beside which counts hardly count
SMOOTHING = Option(
    "smoothing", 1.0, "added to each count of a value with a label", least=0, kind=float, most=MOST_SMOOTHING
)
TRANSITION_SMOOTHING = Option(
    "transition_smoothing", 0.0, "added to each count of a step", least=0, kind=float, most=MOST_SMOOTHING
)
LABELS = Option("labels", None, "how many labels to find where none is known, named 0, 1, ...", least=1, kind=int)
RESTARTS = Option(
    "restarts",
    None,
    "further starts of EM, the best of which is kept (none if some labels are known, else 4)",
    least=0,
    kind=int,
)
ROUNDS = Option("rounds", 100, "most rounds of EM from each start", least=0, kind=int)
TOLERANCE = Option(
    "tolerance", 1e-6, "EM ends when a round raises the objective by less than this share", least=0, kind=float
)


@register
class HiddenMarkov(Criterion):
    """Nothing: the base is counted."""

    name = "hmm"
    summary = "hidden Markov model: relative frequencies, by EM where labels are hidden; no weights to learn"
    convex = True
    needs = ()
    uses_base = True
    learns_weights = False
    optimizers = ("lbfgs",)
    options = (SMOOTHING, TRANSITION_SMOOTHING, LABELS, RESTARTS, ROUNDS, TOLERANCE)
    for_hidden = ("restarts", "rounds", "tolerance")

    def __init__(
        self,
        smoothing: float = SMOOTHING.default,
        transition_smoothing: float = TRANSITION_SMOOTHING.default,
        labels: int | None = LABELS.default,
        restarts: int | None = RESTARTS.default,
        rounds: int = ROUNDS.default,
        tolerance: float = TOLERANCE.default,
    ) -> None:
        self.smoothing, self.transition_smoothing = smoothing, transition_smoothing
        self.labels, self.restarts, self.rounds, self.tolerance = labels, restarts, rounds, tolerance

    def evaluate(self, structure: Chain, scores: ChainScores, gold: Gold, weights: Float) -> tuple[Float, ChainScores]:
        return np.zeros(structure.n_sequences), scores.zeros_like()
