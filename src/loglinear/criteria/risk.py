"""Risk: the expected cost under the model, exactly (Gimpel & Smith 2010, eq. 5; Smith & Eisner 2006).

    loss = E_s[c]                                   gradient: E_s[c part] - E_s[c] E_s[part]

The gradient is the covariance of the cost and the parts, by one forward-backward that carries the cost along. Risk is
the quantity of interest, but not convex, so training starts from a conditional-likelihood model.

**Annealing** (Smith & Eisner 2006, section 3): the expectation may be under p(y)^(1/T), normalised, that is, at the
scores s / T. Above T = 1 the loss is smoother and has fewer local minima; below, it approaches the cost of the best
labelling:

    loss = E_{s/T}[c]                               gradient: Cov_{s/T}(c, part) / T

``anneal`` trains at a high temperature first, then at half of it, and so on, each time from the weights found before.

**Lists**: with ``k`` the expectation is over the k best labellings alone, and the cost any function of two labellings:

    loss = sum_i q_i c_i                            q_i = exp(s_i / T) / sum_j exp(s_j / T),       i, j = 1, ..., k
                                                    gradient: sum_i q_i (c_i - loss) [part in y_i] / T
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from loglinear.arrays import Float
from loglinear.criteria.criterion import CostCriterion, Criterion, register
from loglinear.criteria.n_best import n_best
from loglinear.errors import OptionError
from loglinear.options import option, options

if TYPE_CHECKING:
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores


@register
@options
class Risk(CostCriterion):
    """E_s[c]."""

    name = "risk"
    summary = "risk: expected cost under the model"
    convex = False
    starts_from = "cll"
    needs = ("cost_covariance",)  # with k: k_best and add_labelling, which all structures have
    optimizers = ("dual", "lbfgs", "sgd", "adagrad")

    temperature: float = option("expect the cost under p^(1/temperature)", default=1.0, above=0, most=1e6)
    anneal: float | None = option(
        "first temperature, halved until it is the other one", default=None, above=0, most=1e6, example=4
    )
    k: int | None = option("expect the cost over the k best labellings only", default=None, least=1, example=50)

    def __post_init__(self) -> None:
        if self.k is not None:
            self.own_form = "n-best lists"
        elif self.temperature != 1.0 or self.anneal is not None:
            self.own_form = "temperatures"

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> None:
        """Reject a schedule that would heat up."""
        last = values.get("temperature", 1.0)
        if values.get("anneal") is not None and not values["anneal"] > last:
            raise OptionError(f"anneal={values['anneal']:g} must be greater than the last temperature, {last:g}")

    def schedule(self) -> list[tuple[str, Criterion]]:
        """The temperatures above the last one: anneal, anneal / 2, ..."""
        found: list[tuple[str, Criterion]] = []
        warm = self.temperature if self.anneal is None else self.anneal
        while warm > self.temperature:
            found.append((f"temperature {warm:g}", replace(self, temperature=warm, anneal=None)))
            warm /= 2.0
        return found

    def evaluate(self, structure: Any, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        if self.k is not None:
            return self._over_list(self.k, structure, scores, gold, weights)
        cooled, factors = scores, weights
        if self.temperature != 1.0:
            cooled, factors = scores.times(1.0 / self.temperature), weights / self.temperature
        expected_cost, gradient = structure.cost_covariance(cooled, self.costs(structure, gold), factors)
        return weights * expected_cost, gradient

    def _over_list(self, k: int, structure: Any, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        found = n_best(self, structure, scores, gold, k)
        shares = np.exp((found.scores - found.scores[:, :1]) / self.temperature)
        shares /= shares.sum(axis=1, keepdims=True)
        expected_cost = np.einsum("sk,sk->s", shares, found.costs)
        factors = shares * (found.costs - expected_cost[:, np.newaxis]) * (weights / self.temperature)[:, np.newaxis]
        gradient = scores.zeros_like()
        found.add_parts(structure, gradient, factors)
        return weights * expected_cost, gradient
