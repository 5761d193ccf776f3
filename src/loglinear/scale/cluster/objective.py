"""The objective of a corpus on a cluster: the sum of its shards, in the same order as on one machine.

    f(w) = sum_k loss_k(w) + l2 ||w||^2              shard k is on some worker

A pass sends each group the weights of its own features, and gets back the loss and the gradient of each of its shards,
by these features alone: in single precision where the objective is (the numbers are the same), else in double. Sums are
made here, in the order of the shards, which depends on the data alone. So the value and the gradient are those of
:class:`~loglinear.optimizers.objective.Objective`, to the last bit, for any number of workers.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np

from loglinear.arrays import Float, Int64
from loglinear.criteria.criterion import CorpusCriterion
from loglinear.optimizers.objective import AnyObjective, Cuts, with_terms
from loglinear.optimizers.rounds import Beginning
from loglinear.scale.cluster import worker
from loglinear.scale.cluster.groups import FIRST_TYPICAL, Groups, expectation
from loglinear.scale.cluster.rounds import ClusterGroups
from loglinear.structures.gold import Gold


class ClusterObjective:
    """Losses and penalty of a corpus on a cluster as a function of the weights; arguments as of ``Objective``."""

    def __init__(
        self, on: Groups, features: Any, gold: Gold, criterion: Any, penalties: Any, l2: float,
        sequence_weights: Float | None, single_precision: bool, n_penalised: int | None = None,
    ) -> None:  # fmt: skip
        self.on, self.features, self.criterion, self.penalties, self.l2 = on, features, criterion, penalties, l2
        self.gold, self.sequence_weights = gold, sequence_weights
        self.n_penalised = features.n_features if n_penalised is None else n_penalised
        self.terms: list[AnyObjective] = []
        self.report = on.report
        # Of the whole corpus: a group may have no partial labels where others do.
        self._single_precision = self._single_value = single_precision and gold.allowed is None
        self._index: list[Int64] = []
        self._losses = self._made()
        self._name = self._losses[0].name

    def _made(self) -> list[worker.Losses]:
        on, name = self.on, uuid.uuid4().hex
        cuts, made = Cuts.by_size(on.offsets), []
        for g, span in enumerate(on.spans):
            first, end = span.bounds
            lo, hi = int(on.offsets[first]), int(on.offsets[end])
            features, index = on.own_features(self.features, g)
            own = Cuts(*([(a - first, b - first) for a, b in each if first <= a < end] for each in cuts))
            weights = None if self.sequence_weights is None else self.sequence_weights[first:end]
            self._index.append(index)
            made.append(
                worker.Losses(
                    name, features, self.gold.slice(lo, hi), self.criterion, self.penalties, weights, own,
                    self._single_precision,
                )
            )  # fmt: skip
        return made

    def use_double_precision(self) -> bool:
        """Use double precision from now on; False if that makes no difference."""
        was, self._single_precision, self._single_value = self._single_precision, False, False
        return was

    @property
    def n_features(self) -> int:
        """D."""
        return int(self.features.n_features)

    def groups(self, beginning: Beginning) -> ClusterGroups:
        """Its groups of shards, for learning in rounds."""
        self._arm()
        return ClusterGroups(self.on, self.n_features, self._index, self._name, beginning)

    def _arm(self) -> None:
        """Have the groups' objectives be these."""
        if self.on.losses is not self._losses:
            self.on.losses = self._losses
            self.on.prepared()

    def __call__(self, weights: Float) -> tuple[float, Float]:
        """Value and gradient at ``weights`` [D]."""
        found = self._in_single_precision(weights) if self._single_precision else None
        value, gradient = self._in_double_precision(weights) if found is None else found
        return with_terms(value, gradient, weights, self.terms, self.l2, self.n_penalised)

    def value(self, weights: Float) -> float:
        """The value alone."""
        if self._single_value and not self.terms:
            parts = [values for _, values in self._passed("value", weights)]
            if any(values is None for values in parts):
                self._single_value = False
            else:
                total = float(sum(value for values in parts for value in values))
                if np.isfinite(total):
                    return total + self.l2 * float(np.sum(weights[: self.n_penalised] ** 2))
        return self(weights)[0]

    def _in_single_precision(self, weights: Float) -> tuple[float, Float] | None:
        values, gradient, unused = list[float](), np.zeros(len(weights)), False
        for g, parts in self._passed("single", weights):
            if parts is None:
                unused = True
                continue
            self._add(g, parts, values, gradient)
        if unused:
            self._single_precision = False
            return None
        value = float(sum(values))
        return (value, gradient) if np.isfinite(value) else None

    def _in_double_precision(self, weights: Float) -> tuple[float, Float]:
        totals = None
        if isinstance(self.criterion, CorpusCriterion):
            totals = np.sum([each for _, found in self._passed("totals", weights) for each in found], axis=0)
        values, gradient = list[float](), np.zeros(len(weights))
        for g, parts in self._passed("double", weights, totals):
            self._add(g, parts, values, gradient)
        return (self.criterion.loss(totals) if totals is not None else float(sum(values))), gradient

    def _add(self, g: int, parts: list[tuple[float, Any]], values: list[float], gradient: Float) -> None:
        """Add what the shards of a group gave, one after the other."""
        index = self._index[g]
        for value, part in parts:
            values.append(value)
            gradient[index] += part
            self.report.exchanged += part.nbytes

    def _passed(self, kind: str, weights: Float, totals: Float | None = None) -> Iterator[tuple[int, Any]]:
        """What each group gives, in their order."""
        began, on, report = time.perf_counter(), self.on, self.report
        self._arm()
        jobs, counts = [], kind in ("single", "double")
        for span, index in zip(on.spans, self._index, strict=True):
            own = weights[index]
            if kind == "single":
                own = own.astype(np.float32)  # as the passes would
            jobs.append(worker.Pass(span.key, span.first, self._name, kind, own, totals))
            report.exchanged += own.nbytes
        work = 0.0
        for g, (seconds, parts) in on.over_groups(worker.pass_over, jobs):
            work += seconds
            yield g, parts
        took = time.perf_counter() - began
        report.passes, report.seconds, report.work = report.passes + counts, report.seconds + took, report.work + work
        if report.passes == FIRST_TYPICAL and counts and on.say is not None:
            on.say(expectation("pass", took, work, report.exchanged / report.passes, report.workers))
