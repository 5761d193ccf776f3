r"""Pieces of a grammar: the outcomes of each chart edge, a label at a span, normalised separately.

The *outcomes* of a symbol A are its binary rules and its unary steps. Their scores at a span (i, j) are sums of weights
of pairs (attribute of the span, outcome) and of the outcome alone, and an edge (A, i, j) is a small classifier:

    s(e) = bias(e) + b_e + sum_a w(a, e)        p(e | A, i, j) = exp s(e) / sum_{e' of A} exp s(e')
    loss of an edge with outcome e:            log Z(A, i, j) - s(e)                     (MECFG)
    with none of the above, a score of 0:      log(1 + Z(A, i, j)) - s(e),  and for an edge that should not be there
                                               log(1 + Z(A, i, j))                       (Sutton & McCallum 2005, 5)

The offsets b are given: log-probabilities of a base grammar, or 0. If the weight of the base is learnt, they are
(1 + v) log q0(e), where v is the last of the weights, so that with weights of zero the model is the base itself.
Outcomes are numbered symbol by symbol, so those of A are ``first[A]`` to ``first[A + 1]``, and the features that an
attribute has with them are found by bisection.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from loglinear.arrays import Bool, Float, Int32, Int64
from loglinear.features.block import FeatureBlock
from loglinear.features.encoding import Incidence
from loglinear.kernels import kernel
from loglinear.kernels.numbers import longest
from loglinear.system import in_threads

SHARDS = 8


@kernel
def _from(codes: Int32, begin: int, end: int, least: int) -> int:
    """The first index from ``begin`` to ``end`` whose code is at least ``least``; codes are ascending."""
    while begin < end:
        middle = (begin + end) // 2
        if codes[middle] < least:
            begin = middle + 1
        else:
            end = middle
    return begin


class Walk(NamedTuple):
    """The features of all spans, and the outcomes of all symbols.

    Parameters
    ----------
    pointer, ids : int64 [N + 1], int32
        Attributes of each span.
    features, codes : int64 [A + 1], int32 [F]
        Features of each attribute, and the outcome of each feature.
    offsets : float64 [E]
        Scores that outcomes have before any weight.
    first : int64 [K + 1]
        The outcomes of symbol A are ``first[A]`` to ``first[A + 1]``.
    """

    pointer: Int64
    ids: Int32
    features: Int64
    codes: Int32
    offsets: Float
    first: Int64


@kernel
def _evaluate(
    chosen: Int64, edges: tuple[Int64, Int32, Int32, Float], nothing: bool, walk: Walk, weights: Float, gradient: Float
) -> float:
    """Losses of the ``chosen`` edges, each times its weight; adds their gradient. Outcome -1: none of the above.

    ``weights`` and ``gradient`` are those of the outcomes alone [E], then of the pairs [F].
    """
    (pointer, ids, features, codes, offsets, first), (spans, symbols, outcomes, weights_of) = walk, edges
    n_outcomes, total = offsets.shape[0], 0.0
    scores = np.empty(longest(first))
    for edge in chosen:
        span, begin, end = spans[edge], first[symbols[edge]], first[symbols[edge] + 1]
        for e in range(begin, end):
            scores[e - begin] = offsets[e] + weights[e]
        for j in range(pointer[span], pointer[span + 1]):
            last = features[ids[j] + 1]
            f = _from(codes, features[ids[j]], last, begin)
            while f < last and codes[f] < end:
                scores[codes[f] - begin] += weights[n_outcomes + f]
                f += 1
        top = 0.0 if nothing else -np.inf
        for e in range(end - begin):
            top = max(top, scores[e])
        mass = math.exp(-top) if nothing else 0.0
        gold = scores[outcomes[edge] - begin] if outcomes[edge] >= 0 else 0.0
        for e in range(end - begin):
            scores[e] = math.exp(scores[e] - top)
            mass += scores[e]
        weight = weights_of[edge]
        total += weight * (top + math.log(mass) - gold)
        for e in range(end - begin):
            scores[e] *= weight / mass
        if outcomes[edge] >= 0:
            scores[outcomes[edge] - begin] -= weight
        for e in range(begin, end):
            gradient[e] += scores[e - begin]
        for j in range(pointer[span], pointer[span + 1]):
            last = features[ids[j] + 1]
            f = _from(codes, features[ids[j]], last, begin)
            while f < last and codes[f] < end:
                gradient[n_outcomes + f] += scores[codes[f] - begin]
                f += 1
    return total


@kernel
def _fill_scores(first_span: int, walk: Walk, weights: Float, normalise: bool, out: Float) -> None:
    """Scores of all outcomes at spans [n, E]; log-probabilities given the symbol if ``normalise``."""
    pointer, ids, features, codes, offsets, first = walk
    n_outcomes = offsets.shape[0]
    for k in range(out.shape[0]):
        row = out[k]
        for e in range(n_outcomes):
            row[e] = offsets[e] + weights[e]
        for j in range(pointer[first_span + k], pointer[first_span + k + 1]):
            for f in range(features[ids[j]], features[ids[j] + 1]):
                row[codes[f]] += weights[n_outcomes + f]
        if not normalise:
            continue
        for symbol in range(first.shape[0] - 1):
            top, mass = -np.inf, 0.0
            for e in range(first[symbol], first[symbol + 1]):
                top = max(top, row[e])
            if top == -np.inf:
                continue
            for e in range(first[symbol], first[symbol + 1]):
                mass += math.exp(row[e] - top)
            normaliser = top + math.log(mass)
            for e in range(first[symbol], first[symbol + 1]):
                row[e] -= normaliser


@dataclass(frozen=True)
class Edges:
    """Labelled spans to learn from.

    Parameters
    ----------
    spans : int64 [M]
        Numbers of the spans.
    symbols : int32 [M]
        The label of each.
    outcomes : int32 [M]
        What it expands to; -1 if it should not be there.
    weights : float64 [M]
        The weight of each edge's loss.
    """

    spans: Int64
    symbols: Int32
    outcomes: Int32
    weights: Float

    def and_also(self, other: Edges) -> Edges:
        """These edges, followed by ``other``."""
        return Edges(*(np.concatenate(pair) for pair in zip(self.arrays, other.arrays, strict=True)))

    def where(self, mask: Bool) -> Edges:
        """The edges where ``mask`` [M] is True."""
        return Edges(*(array[mask] for array in self.arrays))

    @property
    def arrays(self) -> tuple[Any, Any, Any, Any]:
        """Spans, symbols, outcomes and weights."""
        return self.spans, self.symbols, self.outcomes, self.weights

    def __len__(self) -> int:
        return len(self.spans)


@dataclass(frozen=True)
class PieceFeatures:
    """Which (attribute, outcome) pairs have a weight; in the weight vector they follow those of outcomes alone [E].

    Parameters
    ----------
    first : int64 [K + 1]
        The outcomes of symbol A are ``first[A]`` to ``first[A + 1]``.
    block : FeatureBlock
        (attribute of a span, outcome), as lists.
    offsets : float64 [E]
        Scores that outcomes have before any weight.
    base : float64 [E], optional
        Finite scores of a base, whose weight is learnt: 1 + v, where v is the last of the weights.
    """

    first: Int64
    block: FeatureBlock
    offsets: Float
    base: Float | None = None

    @classmethod
    def observed(cls, first: Int64, spans: Incidence, n_attributes: int, edges: Edges, offsets: Float) -> PieceFeatures:
        """The pairs that occur at correct edges."""
        correct = edges.where(edges.outcomes >= 0)
        order = np.argsort(correct.spans, kind="stable")
        counts = np.bincount(correct.spans, minlength=spans.n_positions)
        code_pointer = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        codes = correct.outcomes[order].astype(np.int32)
        block = FeatureBlock.observed(spans, n_attributes, code_pointer, codes, int(first[-1]))
        return cls(first, block.as_lists(), offsets)

    @property
    def n_features(self) -> int:
        """D = E + F, and one more if the base's weight is learnt."""
        return len(self.offsets) + self.block.n_features + (self.base is not None)

    def of_base(self, weights: Float) -> Float:
        """Scores [E] that outcomes have apart from their own weights: the offsets, and the base times its weight."""
        return self.offsets if self.base is None else self.offsets + (1.0 + weights[-1]) * self.base

    def alone(self, weights: Float) -> Float:
        """Scores [E] of the outcomes alone, without attributes of a span."""
        return self.of_base(weights) + weights[: len(self.offsets)]

    def scores(self, spans: Incidence, begin: int, end: int, weights: Float, normalise: bool) -> Float:
        """Scores [end - begin, E] of all outcomes at spans; log-probabilities given the symbol if ``normalise``."""
        out = np.empty((end - begin, len(self.offsets)))
        _fill_scores(begin, self.walk(spans, weights), weights, normalise, out)
        return out

    def walk(self, spans: Incidence, weights: Float) -> Walk:
        """The arguments of kernels, given the attributes of the spans and the weights."""
        block = self.block
        return Walk(spans.pointer, spans.ids, block.pointer, block.codes, self.of_base(weights), self.first)


class PieceObjective:
    """Losses of edges plus l2 ||w||^2 as a function of the weights; the same for any number of threads.

    Parameters
    ----------
    features : PieceFeatures
    spans : Incidence
        Attributes of the spans.
    edges : Edges
    nothing : bool
        Whether "none of the above" is one more outcome, of score 0.
    l2 : float
    n_threads : int
    """

    def __init__(
        self, features: PieceFeatures, spans: Incidence, edges: Edges, nothing: bool, l2: float, n_threads: int = 1
    ) -> None:
        self.features, self.spans, self.edges = features, spans, edges
        self.nothing, self.l2, self.n_threads = nothing, l2, n_threads
        n = len(edges)
        shards = min(SHARDS, max(1, n // 1000))
        self._shards = [np.arange(n * k // shards, n * (k + 1) // shards) for k in range(shards)]

    def __call__(self, weights: Float) -> tuple[float, Float]:
        """Value and gradient at ``weights`` [D]."""
        walk, edges, base = self.features.walk(self.spans, weights), self.edges.arrays, self.features.base

        def evaluate(chosen: Int64) -> tuple[float, Float]:
            gradient = np.zeros(self.features.n_features)
            value = _evaluate(chosen, edges, self.nothing, walk, weights, gradient)
            if base is not None:  # its slope is that of the outcomes alone, times its scores of them
                gradient[-1] = base @ gradient[: len(base)]
            return value, gradient

        losses = in_threads(evaluate, self._shards, self.n_threads)
        value, gradient = 0.0, 2.0 * self.l2 * weights
        for loss, part in losses:
            value += loss
            gradient += part
        return value + self.l2 * float(weights @ weights), gradient
