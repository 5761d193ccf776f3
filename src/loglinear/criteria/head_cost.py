"""How bad a wrong head is: the cost of dependency trees, c(y) = m * (number of tokens with a wrong head)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loglinear.errors import OptionError
from loglinear.structures.gold import Gold

MOST_COST = 1e6


@dataclass(frozen=True)
class HeadCost:
    """A wrong head costs ``each``."""

    each: float = 1.0

    def at(self, gold: Gold, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Cost of each head of each token [N, H]; where several heads are allowed, none of these costs anything."""
        n_heads = int(np.diff(offsets).max(initial=0)) + 1
        costs = np.full((int(offsets[-1]), n_heads), self.each)
        if gold.allowed is None:
            costs[np.arange(len(costs)), gold.labels] = 0.0
        else:
            costs[gold.allowed[:, :n_heads] > 0] = 0.0
        return costs


def make_head_cost(spec: str | None) -> HeadCost:
    """The cost that a user asks for: ``hamming:M``, or None for ``hamming:1``."""
    name, _, number = "hamming:1".partition(":") if spec is None else str(spec).partition(":")
    if name != "hamming":
        raise OptionError(f"cost={spec!r} is not known for trees; there is hamming:M, M for every wrong head")
    try:
        each = float(number) if number else 1.0
    except ValueError:
        raise OptionError(f"cost={spec!r}: {number!r} is not a number") from None
    if not 0.0 <= each <= MOST_COST or math.isnan(each):
        raise OptionError(f"cost={spec!r}: costs lie between 0 and {MOST_COST:g}")
    return HeadCost(each)
