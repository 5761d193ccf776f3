"""A training problem: the data in numbers and the model whose weights are sought."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.criteria.costs import make_cost
from loglinear.criteria.criterion import Criterion, criterion_class, make_criterion
from loglinear.estimators.chain_model import ChainModel
from loglinear.estimators.checkpoint import corpus_arrays
from loglinear.features.encoding import EncodedCorpus
from loglinear.optimizers.objective import Objective
from loglinear.structures.gold import Gold


@dataclass(frozen=True)
class Problem:
    """What is to be learnt from.

    Parameters
    ----------
    model : ChainModel
        The model, with weights of zero.
    encoded : EncodedCorpus
        The S training sequences.
    gold : Gold
        Their annotation.
    sequence_weights : float64 [S] or None
        Weight of each sequence's loss; None is one for all.
    """

    model: ChainModel
    encoded: EncodedCorpus
    gold: Gold
    sequence_weights: npt.NDArray[np.float64] | None

    def criterion(self, name: str, cost: Any = None) -> Criterion:
        """The criterion of that name over this problem's labels; ``cost`` is what a user gives, None for Hamming."""
        if not criterion_class(name).uses_cost:
            return make_criterion(name, None)
        settled = self.gold.labels[self.gold.labels >= 0]
        counts = np.bincount(settled, minlength=len(self.model.labels))
        return make_criterion(name, make_cost("hamming" if cost is None else cost, self.model.labels, counts))

    def objective(self, criterion: Criterion, l2: float, n_threads: int) -> Objective:
        """Losses by ``criterion`` and the L2 penalty as a function of the weights."""
        return Objective(
            self.model.features,
            self.encoded,
            self.gold,
            criterion,
            self.model.penalties,
            l2,
            self.sequence_weights,
            n_threads,
        )

    def arrays(self) -> list[npt.NDArray[Any] | None]:
        """All numbers that the result depends on."""
        return [*corpus_arrays(self.encoded), self.gold.labels, self.gold.allowed, self.sequence_weights]
