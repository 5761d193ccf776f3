"""Piecewise training with "none of the above", NOTA (Sutton & McCallum, eq. 6): wrong contexts learn to abstain.

    loss = sum_t [ -s_t(y*_{t-1}, y*_t) + sum_{y'} log(1 + sum_y exp s_t(y', y)) ]

Each piece has an additional outcome, "none of the above", of score 0: it is right in wrong contexts y', and is dropped
at decoding. A piece thus learns to vote against earlier mistakes, without inference. The right contexts
always count; which wrong ones do is chosen once:

    exhaustive       all of them
    rate             each with that probability
    threshold        none at first; after some iterations those more probable than that under the model at that point

Its models are decoded as chains, or by their normalised pieces as MEMMs are (``local``). With ``scaling`` the pieces
after each label are multiplied by a factor learnt globally afterwards (:mod:`~loglinear.criteria.local`).

Where the annotation allows several labellings, the gold score is their log-partition, all contexts that it allows are
right, and the loss is no longer convex.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from loglinear.arrays import Float, Int32, Int64
from loglinear.criteria.criterion import Criterion, register, subtract_gold
from loglinear.criteria.local import as_contexts, excess, per_context, right_contexts
from loglinear.errors import OptionError
from loglinear.options import check, declared, option, options

if TYPE_CHECKING:
    from loglinear.structures.chain.structure import Chain, ChainScores
    from loglinear.structures.gold import Gold


DRAWN_AT_ONCE = 1 << 20
MOST_MARKS = 1 << 32


@register
@options
class NoneOfTheAbove(Criterion):
    """sum_t -s_t(gold) + sum_{y'} log(1 + sum_y exp s_t(y', y)).

    Parameters
    ----------
    rate : float
        Probability with which a wrong context counts; 1 is the exhaustive form.
    threshold : float or None
        Wrong contexts count if their marginal probability after ``after`` iterations is greater; excludes a rate.
    after : int
        See ``threshold``.
    local : bool
        Whether models are decoded by their normalised pieces rather than as chains.
    scaling : bool
        Whether the pieces are scaled to each other afterwards, for global decoding.
    """

    name = "nota"
    summary = "piecewise with none of the above: wrong contexts learn to answer nothing"
    convex = True
    needs = ("add_piece_expectations", "score", "add_labelling", "expectations", "restrict")
    seen_pairs_only = True
    optimizers = ("dual", "lbfgs", "sgd", "adagrad")

    rate: float = option("probability with which a wrong context counts", default=1.0, least=0)
    threshold: float | None = option("count wrong contexts with a greater marginal probability", default=None, least=0)
    after: int = option("iterations after which the threshold is applied", default=20, least=1)
    local: bool = option("decode by normalised pieces, not as a chain", default=False)
    scaling: bool = option("scale the pieces to each other afterwards", default=False)
    decoding: str | None = option("global or local", default=None, choices=("global", "local"), instead="local")

    def __post_init__(self) -> None:
        check(self)
        self.check({name: getattr(self, name) for name in declared(type(self))})
        self.chooses_after = None if self.threshold is None else self.after
        self.local_decoding = self.local or self.decoding == "local"

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> None:
        """Reject options that do not go together; ``values`` need not hold all of them."""
        known = declared(cls)
        given = {name: values.get(name, known[name].default) for name in known}
        if given["rate"] > 1.0:
            raise OptionError(f"rate={given['rate']:g} must be at most 1: it is a probability")
        if given["threshold"] is not None:
            if not given["threshold"] < 1.0:
                raise OptionError(f"threshold={given['threshold']:g} must be less than 1: no probability is greater")
            if given["rate"] != 1.0:
                raise OptionError("rate and threshold are two ways to choose wrong contexts; give one of both")
        elif given["after"] != known["after"].default:
            raise OptionError(f"after={given['after']} goes with a threshold; give one, as in threshold=0.2")
        if given["scaling"] and (given["local"] or given["decoding"] == "local"):
            raise OptionError("scaling calibrates pieces for decoding as a chain; leave it out, or local")

    def evaluate(self, structure: Chain, scores: ChainScores, gold: Gold, weights: Float) -> tuple[Float, ChainScores]:
        gradient = scores.zeros_like()
        contexts: ChainScores | Int32
        if gold.contexts is None:
            every = np.broadcast_to(np.float64(1.0), (structure.n_positions, *(scores.n_labels,) * scores.order))
            contexts = as_contexts(structure, per_context(structure, weights, every))
        elif gold.allowed is None and not gold.contexts.any():
            contexts = gold.labels
        else:
            counted = right_contexts(structure, gold, scores.n_labels, scores.order) | (gold.contexts > 0)
            contexts = as_contexts(structure, per_context(structure, weights, counted))
        normalisers = structure.add_piece_expectations(gradient, scores, weights, contexts, nothing=True)
        return excess(normalisers, weights, subtract_gold(structure, scores, gold, weights, gradient)), gradient

    def choose(self, gold: Gold, offsets: Int64, n_labels: int, order: int, rng: np.random.Generator) -> Gold:
        """The annotation with the wrong contexts that count before training."""
        if self.threshold is None and self.rate == 1.0:
            return replace(gold, contexts=None)
        shape = (int(offsets[-1]), *(n_labels,) * order)
        if math.prod(shape) > MOST_MARKS:
            raise OptionError(
                f"order={order}: which of the wrong contexts of {n_labels} labels count takes a mark for each of "
                f"{math.prod(shape):,}; leave out rate and threshold, or use a lower order"
            )
        contexts = np.zeros(shape, dtype=np.uint8)
        if self.threshold is None:
            flat = contexts.reshape(-1)
            for first in range(0, len(flat), DRAWN_AT_ONCE):  # the numbers drawn take eight times the room
                part = flat[first : first + DRAWN_AT_ONCE]
                part[...] = rng.random(len(part)) < self.rate
        return replace(gold, contexts=contexts)

    def choose_again(self, gold: Gold, offsets: Int64, marginals: Float) -> Gold:
        """The annotation with the contexts that are more probable than the threshold.

        ``marginals`` are those of the emissions [N, Y] at order 1, of the edges [N, Y, Y] at order 2, [N, Y, Y, Y] at
        order 3.
        """
        if self.threshold is None:
            return gold
        contexts = (marginals > self.threshold).astype(np.uint8)
        if marginals.ndim > 2:
            first = offsets[:-1][np.diff(offsets) > 1]  # a sequence of one position has no piece with a context
            seconds = marginals[first + 1] if marginals.ndim == 3 else marginals[first + 1, 0]
            contexts[offsets[:-1]] = 0
            single = contexts.reshape(len(contexts), -1)[:, : contexts.shape[-1]]
            single[first] = seconds.sum(axis=2) > self.threshold
        return replace(gold, contexts=contexts)
