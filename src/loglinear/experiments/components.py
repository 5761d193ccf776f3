"""How many components a mixture should have: one mixture for each number, and the curve to choose by.

    bic        -2 log-likelihood + (free parameters) log n          Schwarz 1978; the smallest
    aic        -2 log-likelihood + 2 (free parameters)              Akaike 1974; the smallest
    held-out   mean log p(x) of rows that were held out             the greatest

The first two judge a mixture by the rows it was trained on. Of known components (semi-supervised learning) their
log-likelihood is that of the rows together with what is known of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from loglinear.arrays import Int64
from loglinear.errors import DataError, OptionError
from loglinear.estimators.options import AIC, BIC, HELD_OUT
from loglinear.experiments.charts import Line, Mark, line_chart
from loglinear.experiments.tables import Table, number
from loglinear.wording import how_many

if TYPE_CHECKING:
    from loglinear.estimators.mixture import Mixture

TITLES = {BIC: "BIC", AIC: "AIC", HELD_OUT: "mean held-out log p(x)"}
MOST_NUMBERS = 1000  # of components to choose from
SPLIT = 1  # sets the seed of the held-out rows apart from those of the starts


def component_numbers(text: str) -> list[int]:
    """The numbers, ascending, that ``3``, ``2-10`` or ``2,4,8-10`` means."""
    found: set[int] = set()
    for part in text.split(","):
        if (match := re.fullmatch(r"\s*([0-9]+)(?:-([0-9]+))?\s*", part)) is None:
            raise OptionError(f"-k {text}: give a number of components, or several, as in 2-10 or 2,4,8")
        first, last = int(match[1]), int(match[2] or match[1])
        if first < 1:
            raise OptionError(f"-k {text} must be at least 1")
        if last < first:
            raise OptionError(f"-k {text}: from {first} to {last} there is no number; write the smaller one first")
        if last - first >= MOST_NUMBERS:
            raise OptionError(f"-k {text}: give at most {MOST_NUMBERS:,} numbers to choose from")
        found.update(range(first, last + 1))
    return sorted(found)


def held_out_rows(n: int, share: float, seed: int, known: Sequence[Any] | None = None) -> tuple[Int64, Int64]:
    """Numbers of the rows to train on and of those held out, each ascending.

    A ``share`` of the rows is drawn, at least one. Rows of a known component (entries of ``known`` that are not None)
    are not drawn: they say what the components are.
    """
    free = np.arange(n) if known is None else np.array([i for i, name in enumerate(known) if name is None], dtype=int)
    if len(free) < 2:
        raise DataError(f"{len(free)} rows without a known component: too few to hold some out; choose by bic or aic")
    n_held = min(max(1, round(share * len(free))), len(free) - 1)
    held = np.sort(np.random.default_rng([seed, SPLIT]).permutation(free)[:n_held])
    return np.setdiff1d(np.arange(n), held), held


@dataclass(frozen=True)
class Judged:
    """A mixture of the curve.

    Parameters
    ----------
    components : int
    log_likelihood : float
        Of the rows that it was trained on.
    parameters : int
        Free parameters.
    bic, aic : float
    held_out : float or None
        Mean log p(x) of the rows held out, if there are any.
    """

    components: int
    log_likelihood: float
    parameters: int
    bic: float
    aic: float
    held_out: float | None = None

    @classmethod
    def of(
        cls, mixture: Mixture, x: Any, known: Sequence[Any] | None = None, held_out: Any = None, **more: Any
    ) -> Judged:
        """Judge a mixture by its training rows [n, D] and, if there are any, by rows held out [m, D].

        ``more`` are the training rows' weights and states, as for :meth:`Mixture.log_likelihood`.
        """
        log_likelihood = mixture.log_likelihood(x, known, **more)
        judged_by_others = None if held_out is None else mixture.score(held_out)
        return cls(
            mixture.n_components, log_likelihood, mixture.model_.n_parameters, mixture.bic(x, known, **more),
            mixture.aic(x, known, **more), judged_by_others,
        )  # fmt: skip

    def cost(self, way: str) -> float:
        """The smaller the better, in a way of ``CHOOSE_BY``."""
        if way == HELD_OUT:
            assert self.held_out is not None
            return -self.held_out
        return self.bic if way == BIC else self.aic

    def said(self, way: str) -> str:
        """A line about it."""
        value = -self.cost(way) if way == HELD_OUT else self.cost(way)
        return f"{how_many(self.components, 'component')}: {TITLES[way]} {value:,.3f}"


@dataclass
class Curve:
    """Mixtures with ascending numbers of components, and how to choose one."""

    way: str
    judged: list[Judged] = field(default_factory=list)

    @property
    def best(self) -> Judged:
        """The best; of equally good ones that of the fewest components."""
        return min(self.judged, key=lambda each: each.cost(self.way))

    def table(self) -> Table:
        """The curve, for people."""
        held = self.way == HELD_OUT
        titles = ["components", "log-likelihood", "parameters", "BIC", "AIC", *([TITLES[HELD_OUT]] if held else [])]
        table, best = Table(f"Chosen by {self.way}: {how_many(self.best.components, 'component')}", titles), self.best
        for each in self.judged:
            figures = [each.log_likelihood, each.parameters, each.bic, each.aic, *([each.held_out] if held else [])]
            digits = (1, 0, 1, 1, 4)
            cells = [number(figure, d) for figure, d in zip(figures, digits, strict=False)]
            table.add(f"{each.components}{' *' if each is best else ''}", figures, cells)
        return table

    def columns(self) -> dict[str, list[Any]]:
        """The curve, for programs: columns by name."""
        names = ["components", "log_likelihood", "parameters", "bic", "aic", *(["held_out"] * (self.way == HELD_OUT))]
        best = self.best
        return {
            **{name: [getattr(each, name) for each in self.judged] for name in names},
            "chosen": [int(each is best) for each in self.judged],
        }

    def chart(self) -> str:
        """The curve as SVG: BIC and AIC, or the held-out log-likelihood."""
        places = [each.components for each in self.judged]
        if self.way == HELD_OUT:
            lines = [Line("", places, [-each.cost(HELD_OUT) for each in self.judged])]
        else:
            lines = [Line(TITLES[way], places, [each.cost(way) for each in self.judged]) for way in (BIC, AIC)]
        y_label = TITLES[HELD_OUT] if self.way == HELD_OUT else "BIC, AIC"
        marks = [Mark(f"chosen by {self.way}", self.best.components)]
        return line_chart("How many components", "components", y_label, lines, marks=marks)
