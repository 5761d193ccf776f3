"""From a classifier's training data to its model: the problems one after the other, each in its phases."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.criteria.criterion import CostCriterion, Criterion
from loglinear.estimators import classifier_file
from loglinear.estimators.candidate_model import CandidateEncoder, CandidateModel
from loglinear.estimators.checkpoint import AnyCheckpoint, kept_before
from loglinear.estimators.classifier_options import LEAST_SQUARES, ONE_VERSUS_ALL
from loglinear.estimators.classifier_problem import ClassifierProblem, TwoOrMore, uses_base
from loglinear.estimators.linear_model import LinearModel, LinearScores
from loglinear.estimators.options import l2_factor
from loglinear.estimators.phases import MAIN, Arrays, Phase, run_phases
from loglinear.estimators.ridge_solver import solve
from loglinear.estimators.training import Training, TrainingInterrupted, TrainingOutcome, catching_signals
from loglinear.optimizers.flat_dual import why_not_flat_dual
from loglinear.optimizers.objective import AnyObjective, Objective
from loglinear.optimizers.optimizer import OPTIMIZERS, Optimizer, make_optimizer
from loglinear.options import spec_name
from loglinear.structures.flat_features import FlatCorpus, FlatFeatures
from loglinear.structures.gold import Gold

Float = npt.NDArray[np.float64]
AnyModel = LinearModel | CandidateModel
FEW_NUMBERS = 100_000


@dataclass(frozen=True)
class Plan:
    """What is to be trained.

    Parameters
    ----------
    classifier : Classifier
    problem : ClassifierProblem
    parts : list of TwoOrMore
    bases : list
        The generative base of each part, None where there is none.
    n_threads : int
    """

    classifier: Any
    problem: ClassifierProblem
    parts: list[TwoOrMore]
    bases: list[Any]
    n_threads: int

    @classmethod
    def of(cls, classifier: Any, problem: ClassifierProblem, n_threads: int) -> Plan:
        """The plan that a classifier's options make."""
        parts = problem.parts(classifier)
        bases = [part.base(classifier) if uses_base(classifier) else None for part in parts]
        return cls(classifier, problem, parts, bases, n_threads)

    @property
    def criterion_name(self) -> str:
        """What the criterion is called."""
        return spec_name(self.classifier.criterion)

    def model(self, weights: list[Float]) -> AnyModel:
        """The model that the parts' weights make; parts that have none yet have weights of zero."""
        problem, part = self.problem, self.parts[0]
        missing = [np.zeros(part.features.n_features)] * (len(self.parts) - len(weights))
        if isinstance(problem.encoder, CandidateEncoder):
            return CandidateModel(problem.labels, problem.encoder, weights[0])
        learnt = _stacked([part.scores(own, self.criterion_name) for own in [*weights, *missing]])
        apart, base = len(self.parts) > 1, None
        if all(part.base_scores(own) is not None for own in self.bases):
            base = _stacked([part.base_scores(own) for own in self.bases])
        own_base = self.bases[0] if self.bases[0] is not None and base is None else None
        scores = learnt if base is None else learnt.plus(base)
        return LinearModel(problem.labels, problem.encoder, scores, apart, base, own_base)

    def costs(self) -> list[Float]:
        """The table of the cost, if the criterion has one."""
        criterion = self.parts[0].criterion(self.classifier.criterion, self.classifier.cost)
        return [criterion.cost.table] if isinstance(criterion, CostCriterion) else []

    def starts(self, init: AnyModel | None) -> list[Float]:
        """The weights [D] that each part starts from: those of ``init`` where it has the same columns and labels."""
        zeros = [np.zeros(part.features.n_features) for part in self.parts]
        if init is None:
            return zeros
        encoder = self.problem.encoder
        if isinstance(encoder, CandidateEncoder) or isinstance(init, CandidateModel):
            assert isinstance(encoder, CandidateEncoder) and isinstance(init, CandidateModel)
            same = encoder.names.matching(init.encoder.names)
            zeros[0][same[same >= 0]] = init.weights[same >= 0]
            return zeros
        known = {name: i for i, name in enumerate(encoder.names())}
        own = init.scores if init.base is None else init.scores.minus(init.base)
        places = np.array([known.get(name, -1) for name in init.encoder.names()], dtype=np.int64)
        rows, labels = _rows(init.labels), {label: r for r, label in enumerate(_rows(self.problem.labels))}
        coef, intercept = np.zeros((len(labels), encoder.n_columns)), np.zeros(len(labels))
        for r, label in enumerate(rows):
            if label in labels and len(rows) == len(labels):
                coef[labels[label], places[places >= 0]] = own.coef[r, places >= 0]
                intercept[labels[label]] = own.intercept[r]
        if len(self.parts) == 1:
            return [self.parts[0].weights_of(LinearScores(coef, intercept), self.criterion_name)]
        each = [LinearScores(coef[r : r + 1], intercept[r : r + 1]) for r in range(len(coef))]
        return [part.weights_of(one, self.criterion_name) for part, one in zip(self.parts, each, strict=True)]

    # -- the phases of a part ---------------------------------------------------------------------------------------

    def phases(self, i: int, from_zero: bool) -> list[Phase]:
        """The phases that train part ``i``: one, or first the criterion that its own starts from."""
        classifier, part, base = self.classifier, self.parts[i], self.bases[i]
        criterion = part.criterion(classifier.criterion, classifier.cost)
        first = part.criterion(criterion.starts_from) if criterion.starts_from and from_zero else None
        optimizer = self._optimizer(part, criterion, from_zero and first is None)
        l2 = self._l2(part, criterion, optimizer)
        if base is not None:
            return [Phase(MAIN, optimizer, lambda start, kept: (part.m_estimation(base, l2), {}))]
        own = Phase(MAIN, optimizer, self._objective(part, criterion, l2))
        if first is None:
            return [own]
        opening = self._optimizer(part, first, True)
        return [Phase(first.name, opening, self._objective(part, first, self._l2(part, first, opening))), own]

    def _objective(
        self, part: TwoOrMore, criterion: Criterion, l2: float
    ) -> Callable[[Float, Arrays | None], tuple[AnyObjective, Arrays]]:
        made = Objective(
            part.features, part.data.corpus, Gold(part.gold), criterion, None, l2, part.data.weights, self.n_threads,
            n_penalised=part.features.n_penalised,
        )  # fmt: skip
        return lambda start, kept: (made, {})

    def _optimizer(self, part: TwoOrMore, criterion: Criterion, from_zero: bool) -> Optimizer:
        classifier = self.classifier
        l2 = l2_factor(classifier.l2, classifier.variance)
        spec = classifier.optimizer or default_optimizer(part, criterion, l2, from_zero)
        return make_optimizer(spec, max_iter=classifier.max_iter, tolerance=classifier.tolerance, seed=classifier.seed)

    def _l2(self, part: TwoOrMore, criterion: Criterion, optimizer: Optimizer) -> float:
        given = l2_factor(self.classifier.l2, self.classifier.variance)
        return part.l2(criterion, given) if OPTIMIZERS.part(optimizer.name).takes_l2 else 0.0

    # -- training ----------------------------------------------------------------------------------------------------

    def carry_out(
        self,
        training: Callable[..., Training],
        checkpoint: ClassifierCheckpoint | None,
        resume: bool,
        init: AnyModel | None,
    ) -> tuple[AnyModel, TrainingOutcome]:
        """The model, and how it came about."""
        if self.in_closed_form:
            return self._solved()
        resumed, outcomes = kept_before(checkpoint, resume), list[TrainingOutcome]()
        starts = self.starts(init)
        done, objectives = ([], []) if checkpoint is None else (checkpoint.done, checkpoint.objectives)
        if resumed is not None:
            objectives.extend(map(float, resumed[1]["objectives"]))
            done.extend(np.array(resumed[0][f"done.{i}"]) for i in range(len(objectives)))
        for i in range(len(done), len(self.parts)):
            with catching_signals() as stop:
                outcome = run_phases(self.phases(i, init is None), training, starts[i], resumed, init is not None, stop)
                if stop.is_set():
                    raise TrainingInterrupted(outcome.iterations, None if checkpoint is None else str(checkpoint.path))
            done.append(outcome.weights)
            objectives.append(outcome.objective)
            outcomes.append(outcome)
            resumed = None
        total = float(sum(objectives))
        features = self.parts[0].features
        if self.criterion_name == LEAST_SQUARES and isinstance(features, FlatFeatures) and features.n_labels == 2:
            total /= 2.0  # there are two regressions, each the other turned round
        return self.model(done), _together(outcomes, total)

    @property
    def in_closed_form(self) -> bool:
        """Whether there is nothing to iterate: least squares without L1, unless an optimizer is asked for."""
        classifier, rows = self.classifier, isinstance(self.problem.corpus, FlatCorpus)
        return self.criterion_name == LEAST_SQUARES and rows and not classifier.l1 and classifier.optimizer is None

    def _solved(self) -> tuple[AnyModel, TrainingOutcome]:
        """Ridge regression on 1 for the label and -1 for others, all labels at once (one will do for two)."""
        problem, classifier, began = self.problem, self.classifier, time.perf_counter()
        n = len(problem.labels)
        assert not isinstance(problem.encoder, CandidateEncoder)
        targets = np.where(problem.gold[:, np.newaxis] == np.arange(n), 1.0, -1.0)[:, n == 2 :]
        found = solve(
            problem.rows, targets, l2_factor(classifier.l2, classifier.variance), problem.weights, classifier.bias,
            float(classifier.bias_scale),
        )  # fmt: skip
        scores, apart = LinearScores(found.coef, found.intercept), classifier.multiclass == ONE_VERSUS_ALL
        seconds, i = time.perf_counter() - began, found.iterations
        return LinearModel(problem.labels, problem.encoder, scores, apart and n > 2), TrainingOutcome(
            found.coef.ravel(), found.objective, i, i, found.converged, found.message, seconds, None
        )


def default_optimizer(part: TwoOrMore, criterion: Criterion, l2: float, from_zero: bool) -> str:
    """The first of the criterion's optimizers that applies.

    L-BFGS does not get far with losses that have kinks. Where they have none it is as quick as dual ascent on few
    numbers, and ends nearer to the optimum; and it makes more of a start.
    """
    for name in criterion.optimizers:
        if name == "dual":
            unfit = why_not_flat_dual(criterion, part.features, Gold(part.gold), l2) is not None
            if unfit or (criterion.smooth and (not from_zero or part.data.n_numbers < FEW_NUMBERS)):
                continue
        elif name == "lbfgs" and not criterion.smooth:
            continue
        return name
    raise AssertionError(f"{criterion.name} has no optimizer that always applies")


def _rows(labels: npt.NDArray[Any]) -> list[Any]:
    """What each of the scores [R] is of: the second of two labels, else each label."""
    return labels.tolist()[-1:] if len(labels) == 2 else labels.tolist()


def _stacked(scores: list[Any]) -> LinearScores:
    return LinearScores(np.concatenate([s.coef for s in scores]), np.concatenate([s.intercept for s in scores]))


def _together(outcomes: list[TrainingOutcome], objective: float) -> TrainingOutcome:
    """How all parts went, with the sum of their objectives."""
    worst = next((each for each in outcomes if not each.converged), outcomes[-1])
    return replace(
        worst,
        objective=objective,
        iterations=sum(each.iterations for each in outcomes),
        evaluations=sum(each.evaluations for each in outcomes),
        seconds=sum(each.seconds for each in outcomes),
        history=[progress for each in outcomes for progress in each.history],
    )


@dataclass(frozen=True)
class ClassifierCheckpoint(AnyCheckpoint):
    """The checkpoint of a classifier in training; ``model`` is its :class:`Plan`.

    Parameters
    ----------
    done : list of float64 [D]
        The weights of the parts that are trained.
    objectives : list of float
        And their objectives.
    """

    kind = classifier_file.KIND
    model: Plan
    done: list[Float]
    objectives: list[float]

    def storage(self, weights: Float, training: dict[str, Any]) -> tuple[dict[str, Any], Arrays]:
        model, by_function = self.model.model([*self.done, weights]), self.model.classifier.features is not None
        return classifier_file.to_storage(model, self.options, training, by_function)

    def save(self, weights: Float, optimizer: Arrays, notes: dict[str, Any]) -> None:
        arrays = {f"done.{i}": own for i, own in enumerate(self.done)}
        super().save(weights, {**optimizer, **arrays}, {**notes, "objectives": list(self.objectives)})
