"""Losses and gradient of first-order chains in single precision: several times quicker than block by block.

For conditional log-likelihood and softmax-margin, with one label a position and no pair features. Sums over sequences
are made in double precision, those within a shard's gradient in single; the shards depend on the data alone, so that
the result is the same for any number of threads.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.criteria.criterion import Criterion
from loglinear.optimizers.padded_kernels import evaluate
from loglinear.optimizers.padded_layout import PaddedLayout
from loglinear.structures.chain_features import ChainFeatures
from loglinear.structures.gold import Gold
from loglinear.structures.structure import PartFeatures
from loglinear.threads import in_threads

Float = npt.NDArray[np.float64]
SHARDS = 4


def why_not(criterion: Criterion, features: PartFeatures, gold: Gold) -> str | None:
    """What speaks against passes in single precision, or None."""
    if not isinstance(features, ChainFeatures):
        return "it goes over chains"
    if criterion.name not in ("cll", "softmax-margin"):
        return "it is for cll and softmax-margin"
    if features.order != 1 or features.edge is not None:
        return "it goes over first-order chains without pair features"
    if gold.allowed is not None:
        return "it needs one label for each token, and no sub-labels"
    return None


class SinglePrecision:
    """Losses of a corpus, without the penalty, as a function of the weights.

    Parameters
    ----------
    layout : PaddedLayout
    shards : list of (int, int)
        Runs of sequences.
    """

    def __init__(self, layout: PaddedLayout, shards: list[tuple[int, int]]) -> None:
        self.layout = layout
        self._sequences = [np.arange(first, end, dtype=np.int64) for first, end in shards]
        self._gradients = [layout.zeros() for _ in shards]

    def __call__(self, weights: Float, n_threads: int) -> tuple[float, Float] | None:
        """Value and gradient [D]; None where scores so far apart leave single precision."""
        layout = self.layout
        laid_out = layout.lay_out(weights)
        for part in (part for gradient in self._gradients for part in gradient):
            part.fill(0.0)
        values = in_threads(
            lambda k: evaluate(self._sequences[k], layout.corpus, laid_out, layout.n_labels, self._gradients[k]),
            range(len(self._sequences)),
            n_threads,
        )
        value = float(sum(values))
        if not np.isfinite(value):
            return None
        return value, layout.vector(*(_total(parts) for parts in zip(*self._gradients, strict=True)))


def _total(parts: tuple[npt.NDArray[np.float32], ...]) -> Float:
    """Sum in double precision, in order."""
    total = parts[0].astype(np.float64)
    for part in parts[1:]:
        total += part
    return total
