"""Stochastic steps over first-order chains without pair features, compiled: a whole pass over the sequences.

Each step is that of :mod:`~loglinear.optimizers.stochastic.general`, with the same lazy weights, in double precision:
settle the weights that the sequence looks at, score its positions, find the gradient of its loss by the part scores,
descend, and record the step's penalties. The losses are those of

    cll, softmax-margin, jrb       log Z(s), log Z(s + c), or both, by forward-backward
    risk                           E_s[c] and its covariances
    max-margin                     the best labelling under s + c

Tests hold it to the general loop, which does the same sequence by sequence in Python.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from loglinear.arrays import Float, Int32, Int64, UInt8
from loglinear.criteria.criterion import CostCriterion
from loglinear.errors import DataError, InfeasibleError
from loglinear.features.encoding import EncodedCorpus
from loglinear.kernels import kernel
from loglinear.kernels.numbers import DONE, NEEDS_LOG_SPACE, one_run
from loglinear.kernels.tables import Groups, Lists, add_attributes, clear
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.online.chain import (
    ALL_WELL,
    AT_ONCE,
    NO_SCORES,
    NOT_SCORES,
    Attributes,
    Sequences,
    add_costs,
    fill_scores,
    kind_of,
)
from loglinear.optimizers.passes import Lazy, LazyWeights, descend, end_step, settle
from loglinear.structures.chain import covariance, log_sums, structure, sums
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.chain.steps import is_too_wide
from loglinear.structures.chain.sums import Parts

CLL, SOFTMAX_MARGIN, JRB, RISK, MAX_MARGIN = 0, 1, 2, 3, 4
LOSSES = {"cll": CLL, "softmax-margin": SOFTMAX_MARGIN, "jrb": JRB, "risk": RISK, "max-margin": MAX_MARGIN}


class Tables(NamedTuple):
    """Scores of label bigrams, which follow the weights.

    Parameters
    ----------
    transition : float64 [Y, Y]
        With the constraints ``ruled_out``, which are 0 or -inf.
    start, stop : float64 [Y]
    codes : int32 [F]
        Code of each weight from ``begin`` on.
    begin : int
    none : float64 [0, 0, 0]
        The edges and trigrams that there are not.
    """

    transition: Float
    ruled_out: Float
    start: Float
    stop: Float
    codes: Int64
    begin: int
    none: Float


class Found(NamedTuple):
    """Expected parts of one sequence, and where its log-partition and status go."""

    emission: Float
    transition: Float
    ends: Float
    log_z: Float
    status: UInt8


@kernel
def _expect(parts: Parts, weight: float, found: Found) -> float:
    """Log Z of one sequence, -inf if it has no labelling; its expected parts are added to the transitions."""
    n, one = parts.emission.shape[0], np.full(1, weight)
    whole, expected = (
        one_run(0, n),
        Parts(found.emission[:n], found.transition, found.ends[0], found.ends[1], parts.edge, parts.trigram),
    )
    sums.forward_backward(whole, parts, one, found.log_z, found.status, expected)
    if found.status[0] == NEEDS_LOG_SPACE:
        log_sums.forward_backward(whole, np.zeros(1, np.int64), parts, one, found.log_z, expected)
    return found.log_z[0] if found.status[0] in (DONE, NEEDS_LOG_SPACE) else -np.inf


@kernel
def _add_labelling(labels: Int32, weight: float, emission: Float, transition: Float) -> None:
    """Add the parts of a labelling [T], times ``weight``."""
    for t in range(labels.shape[0]):
        emission[t, labels[t]] += weight
        if t > 0:
            transition[labels[t - 1], labels[t]] += weight


@kernel
def _negate(table: Float) -> None:
    """A table [n, m] times -1, in place."""
    for i in range(table.shape[0]):
        for j in range(table.shape[1]):
            table[i, j] *= -1.0


@kernel
def _subtract(less: Float, table: Float) -> None:
    """``less`` [n, m] taken from the first rows of a table."""
    for i in range(less.shape[0]):
        for j in range(less.shape[1]):
            table[i, j] -= less[i, j]


@kernel
def _covary(parts: Parts, costs: Float, unit: float, right: Int32, weight: float, found: Found) -> float:
    """E[c] of one sequence, inf if it has no labelling; covariances of cost and parts."""
    n, one, mean = parts.emission.shape[0], np.full(1, weight), np.zeros(1)
    whole, cost = one_run(0, n), np.empty((n, parts.emission.shape[1]))
    for t in range(n):
        row = costs[kind_of(t, n), right[t]]
        for y in range(row.shape[0]):
            cost[t, y] = row[y]
    result = Parts(found.emission[:n], found.transition, found.ends[0], found.ends[1], parts.edge, parts.trigram)
    covariance.covariance(whole, parts, cost, unit, one, mean, found.status, result)
    if found.status[0] == NEEDS_LOG_SPACE:
        which = np.zeros(1, np.int64)
        covariance.covariance_in_logs(whole, which, parts, cost, unit, one, mean, found.status, result)
    return mean[0] if found.status[0] == DONE else np.inf


@kernel
def _part_gradient(
    kind: int, scores: Float, costs: Float, unit: float, right: Int32, weight: float, tables: Tables, found: Found
) -> float:
    """Loss of a sequence with ``scores`` [T, Y], times its weight, and its gradient in ``found``; inf for none."""
    n = scores.shape[0]
    parts = Parts(scores, tables.transition, tables.start, tables.stop, tables.none, tables.none)
    found.emission[:n] = 0.0
    found.transition[:] = 0.0
    if kind == RISK:
        return weight * _covary(parts, costs, unit, right, weight, found)
    whole, gold_score = one_run(0, n), np.zeros(1)
    loss = 0.0
    if kind == JRB:
        loss = -_expect(parts, weight, found)
        plain = found.emission[:n].copy()
        _negate(found.transition)
    else:
        structure.score(whole, parts, right, gold_score)
        loss = -gold_score[0]
        plain = found.emission[:n]
    if kind != CLL:
        add_costs(costs, right, scores)
    if kind == MAX_MARGIN:
        labels = np.empty(n, np.int32)
        if log_sums.viterbi(whole, parts, labels, found.log_z) >= 0:
            return np.inf
        loss += found.log_z[0]
        _add_labelling(labels, weight, found.emission, found.transition)
    else:
        loss += _expect(parts, weight, found)
    if kind == JRB:
        _subtract(plain, found.emission)
    else:
        _add_labelling(right, -weight, found.emission, found.transition)
    return weight * loss if abs(loss) < np.inf else np.inf


@kernel
def stochastic_pass(
    order: Int64, steps: Float, now: int, kind: int, sequences: Sequences, unit: float, tables: Tables, lazy: Lazy,
    groups: Groups,
) -> tuple[float, int, int]:  # fmt: skip
    """A step of the size ``steps`` [n] for each sequence in the ``order`` [n] given.

    Returns the losses before each step, the step that lazy weights are at (``now`` before the first), and a status.
    """
    n_labels, longest, total, penalised = tables.transition.shape[0], 1, 0.0, lazy.l1 > 0.0 or lazy.l2 > 0.0
    for i in order:
        longest = max(longest, sequences.offsets[i + 1] - sequences.offsets[i])
    scores, square = np.empty((longest, n_labels)), np.empty((n_labels, n_labels))
    found = Found(
        np.empty((longest, n_labels)), square, np.zeros((2, n_labels)), np.zeros(1), np.zeros(1, np.uint8)
    )  # fmt: skip
    pointer, ids, values = sequences.state.lists
    ngrams = np.full(1, lazy.groups.shape[0] - 2)
    everything = np.arange(lazy.settled.shape[0])
    for k in range(order.shape[0]):
        i = order[k]
        first, n = sequences.offsets[i], sequences.offsets[i + 1] - sequences.offsets[i]
        right, weight = sequences.gold[first : first + n], sequences.weights[i]
        if penalised:
            settle(ids[pointer[first] : pointer[first + n]], 0, now, lazy)
            settle(ngrams, 0, now, lazy)
        for f in range(tables.codes.shape[0]):
            p, y = tables.codes[f] // n_labels, tables.codes[f] % n_labels
            tables.transition[p, y] = lazy.weights[tables.begin + f] + tables.ruled_out[p, y]
        if not fill_scores(first, sequences.state, lazy.weights, scores[:n]):
            return total, now, NO_SCORES
        loss = _part_gradient(kind, scores[:n], sequences.costs, unit, right, weight, tables, found)
        if not loss < np.inf:
            return total, now, i
        total += loss
        lists = Lists(pointer[first : first + n + 1], ids, values)
        add_attributes(lists, sequences.state.codes, 0, found.emission[:n], groups)
        if tables.codes.shape[0] > 0:
            group = ngrams[0]
            if not groups.seen[group]:
                groups.seen[group] = 1
                groups.touched[groups.n_touched[0]] = group
                groups.n_touched[0] += 1
            for f in range(tables.codes.shape[0]):
                p, y = tables.codes[f] // n_labels, tables.codes[f] % n_labels
                groups.values[tables.begin + f] += found.transition[p, y]
        descend(groups.touched[: groups.n_touched[0]], groups.values, steps[k], now, lazy)
        clear(groups)
        if end_step(steps[k], now, lazy):
            settle(everything, 0, now + 1, lazy)
            lazy.settled[:] = 0
            now = 0
        else:
            now += 1
    return total, now, ALL_WELL


class ChainPass:
    """Compiled passes over the sequences of an objective with first-order chains."""

    def __init__(self, objective: Objective) -> None:
        features, corpus, criterion = objective.features, objective.corpus, objective.criterion
        assert isinstance(features, ChainFeatures) and isinstance(corpus, EncodedCorpus)
        y, self._kind = features.n_labels, LOSSES[criterion.name]
        costs = criterion.cost.table if isinstance(criterion, CostCriterion) else np.zeros((4, y, y))
        self._unit = 2.0 ** -math.ceil(math.log2(max(float(np.abs(costs).max(initial=0.0)), 1e-300)))
        penalties, transitions = objective.penalties, features.slices[2]
        self._tables = Tables(
            np.array(penalties.transition, dtype=np.float64),
            np.ascontiguousarray(penalties.transition, dtype=np.float64),
            np.ascontiguousarray(penalties.start, dtype=np.float64),
            np.ascontiguousarray(penalties.stop, dtype=np.float64),
            features.transitions.astype(np.int64),
            transitions.start,
            np.zeros((0, 0, 0)),
        )
        self._sequences = Sequences(
            corpus.offsets,
            Attributes.of(corpus.state, features.state, 0),
            Attributes.of(None, None, 0),
            np.ascontiguousarray(objective.gold.labels),
            np.ascontiguousarray(objective.sequence_weights, dtype=np.float64),
            np.ascontiguousarray(costs),
        )

    @classmethod
    def of(cls, objective: Objective) -> ChainPass | None:
        """The passes of an objective; None if they do not support it."""
        features = objective.features
        if not isinstance(features, ChainFeatures) or not features.is_plain:
            return None
        if features.input_only or objective.gold.allowed is not None or objective.criterion.name not in LOSSES:
            return None
        if objective.criterion.own_form or is_too_wide(features, objective.penalties):
            return None  # the general loop does these, and goes over lists
        return cls(objective)

    def __call__(self, order: Int64, steps: Float, lazy: LazyWeights, groups: Groups) -> float:
        """A pass of a step of the given size for each sequence; the losses before each."""
        total = 0.0
        for first in range(0, len(order), AT_ONCE):
            now = slice(first, first + AT_ONCE)
            losses, lazy.now, status = stochastic_pass(
                order[now], steps[now], lazy.now, self._kind, self._sequences, self._unit, self._tables, lazy.state,
                groups,
            )  # fmt: skip
            if status == NO_SCORES:
                raise DataError(NOT_SCORES)
            if status != ALL_WELL:
                raise InfeasibleError(status)
            total += losses
        return total
