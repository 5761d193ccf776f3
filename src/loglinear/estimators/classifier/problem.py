"""A classifier's training data in numbers, and the problems that are solved on it.

Training all labels at once is one problem; one-versus-all is one of two labels for each label. With two labels there
is one weight vector u (Zhang, 9.9), trained as two that differ in their sign alone, w_1 = u / 2 and w_0 = -u / 2: the
losses see only the difference u, and

    2 l2 (|w_0|^2 + |w_1|^2) = l2 |u|^2                    l1 (|w_0| + |w_1|) = l1 |u|

so that the factor of the squares is doubled, and that of the absolute values is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from loglinear.arrays import Array, Arrays, Float, Int32
from loglinear.criteria.criterion import CRITERIA, CostCriterion, Criterion, make_criterion
from loglinear.data.tables import GREATEST, TableFile
from loglinear.errors import DataError, OptionError
from loglinear.estimators.classifier import file as classifier_file
from loglinear.estimators.classifier.inputs import NUMBERS, NumberRows, RowEncoder, made_features, new_encoder
from loglinear.estimators.classifier.model import CandidateEncoder, CandidateModel, LinearModel, LinearScores
from loglinear.estimators.classifier.options import cost_of, own_base
from loglinear.estimators.classifier.ridge import solve
from loglinear.estimators.options import LEAST_SQUARES, ONE_VERSUS_ALL, l2_factor
from loglinear.estimators.tagger.inputs import sequence_weights
from loglinear.generative.m_estimation import MEstimationObjective
from loglinear.generative.naive_bayes import NaiveBayesModel
from loglinear.optimizers.dual.flat import why_not_flat_dual
from loglinear.optimizers.objective import AnyObjective, Objective
from loglinear.optimizers.optimizer import OPTIMIZERS, Optimizer, make_optimizer
from loglinear.options import spec_name
from loglinear.structures.flat.features import CandidateCorpus, CandidateFeatures, FlatCorpus, FlatFeatures
from loglinear.structures.gold import Gold
from loglinear.training.checkpoint import AnyCheckpoint, kept_before
from loglinear.training.plan import MAIN, Phase, run_phases
from loglinear.training.run import Training, TrainingInterrupted, TrainingOutcome, catching_signals

Labels = Array


@dataclass(frozen=True)
class ClassifierProblem:
    """Training data.

    Parameters
    ----------
    labels : array [Y]
    encoder : RowEncoder or CandidateEncoder
    corpus : FlatCorpus or CandidateCorpus
    gold : int32 [S]
        Number of each example's label.
    weights : float64 [S] or None
        Of the examples.
    """

    labels: Labels
    encoder: RowEncoder | CandidateEncoder
    corpus: FlatCorpus | CandidateCorpus
    gold: Int32
    weights: Float | None

    def arrays(self) -> list[Array | None]:
        """All numbers that the result depends on."""
        corpus: Any = self.corpus
        if isinstance(corpus, CandidateCorpus):
            own: list[Any] = list(corpus.parts)
        else:
            own = [corpus.rows.indptr, corpus.rows.indices, corpus.rows.data] if corpus.is_sparse else [corpus.rows]
        return [*own, self.gold, self.weights]

    @property
    def n_numbers(self) -> int:
        """How many numbers other than zero the examples are, or all if they are dense."""
        if isinstance(self.corpus, CandidateCorpus):
            return len(self.corpus.values)
        return int(self.corpus.rows.nnz if self.corpus.is_sparse else self.corpus.rows.size)

    @property
    def rows(self) -> Any:
        """The rows [S, A], a sparse matrix with numbers of the kind that SciPy itself would choose."""
        assert isinstance(self.corpus, FlatCorpus)
        rows = self.corpus.rows
        return sp.csr_matrix((rows.data, rows.indices, rows.indptr), rows.shape) if self.corpus.is_sparse else rows

    def parts(self, classifier: Any) -> list[TwoOrMore]:
        """The problems to be solved, one after the other."""
        n = len(self.labels)
        if classifier.multiclass == ONE_VERSUS_ALL and n > 2:
            apart = [(self.gold == y).astype(np.int32) for y in range(n)]
            return [TwoOrMore(self, gold, [False, True], self._features(classifier, 2), True) for gold in apart]
        return [TwoOrMore(self, self.gold, self.labels.tolist(), self._features(classifier, n), False)]

    def _features(self, classifier: Any, n_labels: int) -> FlatFeatures | CandidateFeatures:
        if isinstance(self.corpus, CandidateCorpus):
            assert isinstance(self.encoder, CandidateEncoder)
            return CandidateFeatures(self.encoder.names.n_attributes, n_labels)
        bias = "none" if own_base(classifier) and not hasattr(classifier.base, "log_prior") else classifier.bias
        return FlatFeatures(self.corpus.n_columns, n_labels, bias, float(classifier.bias_scale))


@dataclass(frozen=True)
class TwoOrMore:
    """One problem: which label each example has.

    Parameters
    ----------
    data : ClassifierProblem
    gold : int32 [S]
    labels : list
        What the numbers in ``gold`` mean, for costs.
    features : FlatFeatures or CandidateFeatures
    told_apart : bool
        Whether label 1 is one of several, and label 0 the rest.
    """

    data: ClassifierProblem
    gold: Int32
    labels: list[Any]
    features: FlatFeatures | CandidateFeatures
    told_apart: bool

    def criterion(self, spec: str, cost: Any = None) -> Criterion:
        """The criterion that a spec names, with the cost if it uses one."""
        if not CRITERIA.part(spec).uses_cost:
            return make_criterion(spec)
        counts = np.bincount(self.gold, self.data.weights, len(self.labels))
        return make_criterion(spec, cost_of(cost, self.labels, counts, self.told_apart))

    def l2(self, criterion: Criterion, factor: float) -> float:
        """The factor of the squares, given that of one weight vector."""
        symmetric = isinstance(self.features, FlatFeatures) and self.features.n_labels == 2
        alone = criterion.uses_base or criterion.name == LEAST_SQUARES
        return 2.0 * factor if symmetric and not alone else factor

    def scores(self, weights: Float, criterion_name: str) -> LinearScores:
        """The functions [R, A] that trained weights [D] are, of one label if there are two."""
        assert isinstance(self.features, FlatFeatures)
        table, added = self.features.split(weights)
        if self.features.n_labels > 2:
            return LinearScores(np.ascontiguousarray(table.T), np.array(added))
        if criterion_name == LEAST_SQUARES:  # a regression on 1 and -1, the other label's being the same turned round
            return LinearScores(np.ascontiguousarray(table[:, 1:].T), np.array(added[1:]))
        return LinearScores(np.ascontiguousarray(table[:, 1:].T - table[:, :1].T), added[1:] - added[:1])

    def weights_of(self, scores: LinearScores, criterion_name: str) -> Float:
        """Weights [D] that :meth:`scores` makes these of."""
        assert isinstance(self.features, FlatFeatures)
        coef, intercept = scores.coef, scores.intercept
        if self.features.n_labels == 2:
            half = 1.0 if criterion_name == LEAST_SQUARES else 0.5
            coef, intercept = half * np.concatenate([-coef, coef]), half * np.concatenate([-intercept, intercept])
        rows = [coef.T]
        if self.features.bias != "none":
            rows.append(intercept[np.newaxis] / self.features.scale)
        return np.concatenate(rows).ravel()

    # -- M-estimation ----------------------------------------------------------------------------------------------

    def base(self, classifier: Any) -> Any:
        """The generative base: naive Bayes by counting, or the user's own."""
        rows = self.data.rows
        least = float((rows.data if sp.issparse(rows) else rows).min(initial=0.0))
        if least < 0.0:
            raise DataError(f"Negative values in data ({least:g}): criterion={classifier.criterion!r} needs counts")
        if own_base(classifier):
            return classifier.base
        values = dict(CRITERIA.spec(classifier.criterion).values)
        n, data = self.features.n_labels, self.data
        counts = np.bincount(self.gold, data.weights, n)
        if not counts.all():
            raise DataError(f"no example of the class {self.labels[int(np.argmin(counts))]!r} has any weight")
        return NaiveBayesModel.fit(rows, self.gold, n, values.get("smoothing", 1.0), data.weights)

    def m_estimation(self, base: Any, l2: float) -> MEstimationObjective:
        """The objective of M-estimation over ``base``: features are counts joined with the label."""
        features, y = self.features, self.features.n_labels
        assert isinstance(features, FlatFeatures)
        rows = sp.csr_matrix(self.data.rows)
        joined = rows.indices.astype(np.int64) * y + np.repeat(self.gold, np.diff(rows.indptr))
        counts = sp.csr_matrix((rows.data, joined, rows.indptr), shape=(rows.shape[0], features.n_columns * y))
        expected = np.asarray(base.expected(), dtype=np.float64)
        if expected.shape != (features.n_columns, y):
            raise OptionError(
                f"the base expects counts of shape {list(expected.shape)}; there are {features.n_columns} columns and "
                f"{y} labels"
            )
        parts = [expected.ravel()]
        if features.bias != "none":
            ones = np.full(len(self.gold), features.scale)
            own = sp.csr_matrix((ones, self.gold, np.arange(len(self.gold) + 1)), shape=(len(self.gold), y))
            counts = sp.hstack([counts, own], format="csr")
            parts.append(features.scale * np.exp(np.asarray(base.log_prior, dtype=np.float64)))
        return MEstimationObjective(counts, np.concatenate(parts), l2, self.data.weights, features.n_penalised)

    def base_scores(self, base: Any) -> LinearScores | None:
        """The functions that the base is, if it is naive Bayes."""
        if not isinstance(base, NaiveBayesModel):
            return None
        coef, intercept = base.log_theta, base.log_prior
        if self.features.n_labels == 2:
            return LinearScores(coef[1:] - coef[:1], intercept[1:] - intercept[:1])
        return LinearScores(coef, intercept)


def uses_base(classifier: Any) -> bool:
    """Whether the criterion has a generative base."""
    return CRITERIA.part(spec_name(classifier.criterion)).uses_base


# ----------------------------------------------------------------------------------------------------------------------
# From what a user hands to a classifier to its training problem, and to data to stop early by.


def prepared(classifier: Any, X: Any, y: Any, sample_weight: Any, n_threads: int) -> ClassifierProblem:
    """The training data in numbers."""
    if y is None:
        raise DataError("a Classifier requires y to be passed, but the target y is None")
    encoder: Any
    corpus: FlatCorpus | CandidateCorpus
    if classifier.feature_map is not None:
        examples = list(X)
        own = labels_of(y, len(examples))
        encoder, labels, corpus = CandidateEncoder.fit(
            classifier.feature_map, classifier.candidates, examples, own, classifier.min_count
        )
        left = encoder.names.n_attributes
    else:
        encoder, rows, own = _encoded(classifier, X, y, n_threads)
        labels, corpus, left = np.unique(own), FlatCorpus.of(rows), encoder.n_columns
    if not left:
        raise DataError(f"no features are left to learn from (min_count={classifier.min_count})")
    problem = ClassifierProblem(labels, encoder, corpus, numbers_of(labels, own), None)
    return replace(problem, weights=_weights(classifier, problem, sample_weight))


def _encoded(classifier: Any, X: Any, y: Any, n_threads: int) -> tuple[Any, Any, Array]:
    """The encoder, rows [S, A] and labels [S]."""
    encoder = new_encoder(X, classifier)
    if encoder.kind == NUMBERS:
        if classifier.min_count > 1:
            raise OptionError(f"min_count={classifier.min_count} counts named features; these are columns of numbers")
        rows, own = validate_data(classifier, X, y, accept_sparse="csr", dtype=np.float64, order="C")
        values = rows.data if sp.issparse(rows) else rows
        if values.size and np.abs(values).max() > GREATEST:
            raise DataError(f"X holds numbers up to {np.abs(values).max():g}; scale columns to less than {GREATEST:g}")
        names = getattr(classifier, "feature_names_in_", None)
        return NumberRows(rows.shape[1], None if names is None else names.tolist()), rows, labels_of(own, rows.shape[0])
    if classifier.features is not None:
        X = made_features(classifier.features, X)
    elif not hasattr(X, "__len__"):
        X = list(X)
    own = labels_of(y, len(X))
    return encoder, encoder.fit(X, classifier.min_count, n_threads), own


def labels_of(y: Any, n_examples: int) -> Array:
    """The labels [S] as an array, checked as scikit-learn checks them."""
    labels = column_or_1d(y, warn=True)
    for i, label in enumerate(labels.tolist() if labels.dtype == object else []):
        if label is None:
            raise DataError(f"the label of example {i} (from 0) is None; leave examples without a label out")
    check_classification_targets(labels)
    if len(labels) != n_examples:
        raise DataError(f"there are {n_examples} examples, but {len(labels)} labels")
    return np.asarray(labels)


def numbers_of(labels: Array, own: Array) -> Int32:
    """The number of each of ``own`` [S] in ``labels`` [Y], -1 if it is not there."""
    places = np.minimum(np.searchsorted(labels, own), len(labels) - 1)
    return np.where(labels[places] == own, places, -1).astype(np.int32)


def _weights(classifier: Any, problem: ClassifierProblem, sample_weight: Any) -> Float | None:
    """The weights [S] of the examples, those of their labels included; None if all are one."""
    n, n_labels = len(problem.gold), len(problem.labels)
    if n_labels < 2:
        raise DataError(f"y has one class alone, {problem.labels.tolist()!r:.60}; a classifier needs two")
    weights = None if sample_weight is None else sequence_weights(sample_weight, n, "example")
    if classifier.class_weight is None:
        return weights
    if isinstance(classifier.class_weight, Mapping):
        given = dict(classifier.class_weight)
        each = compute_class_weight(given, classes=problem.labels, y=problem.labels[problem.gold])
    else:  # balanced
        counts = np.bincount(problem.gold, weights, n_labels)
        each = counts.sum() / (n_labels * np.where(counts > 0, counts, np.inf))
    return sequence_weights(each[problem.gold] * (1.0 if weights is None else weights), n, "example")


@dataclass(frozen=True)
class DevExamples:
    """Data to stop early by.

    Parameters
    ----------
    plan : Plan
    data
        The examples, as the model takes them.
    gold : int32 [S]
        The numbers of their labels, -1 for one that training does not know.
    """

    plan: Plan
    data: Any
    gold: Int32

    @classmethod
    def of(cls, classifier: Any, plan: Plan, X: Any, y: Any) -> DevExamples | None:
        """What a user gives, in numbers; None if there is none."""
        if X is None:
            if y is not None:
                raise OptionError("y_dev is given without X_dev; give both, or none")
            return None
        if y is None:
            raise OptionError("X_dev is given without y_dev; give both, or none")
        if len(plan.parts) > 1:
            raise OptionError(f"X_dev goes with multiclass='direct': {ONE_VERSUS_ALL} trains label by label")
        data = classifier._data(plan.model([np.zeros(plan.parts[0].features.n_features)]), X)
        n = data.n_sequences if isinstance(data, CandidateCorpus) else data.shape[0]
        gold = numbers_of(plan.problem.labels, labels_of(y, n))
        if not (gold >= 0).any():
            raise DataError("none of the dev data's labels is a label of the training data")
        return cls(plan, data, gold)

    def arrays(self) -> list[Array | None]:
        """All numbers that the scores depend on."""
        corpus = self.data if isinstance(self.data, CandidateCorpus) else FlatCorpus.of(self.data)
        return replace(self.plan.problem, corpus=corpus, gold=self.gold, weights=None).arrays()

    def score(self, weights: Float) -> float:
        """The accuracy of the model with these weights [D]."""
        return float(np.mean(self.plan.model([weights]).best(self.data) == self.gold))


def split_labels(table: Any, y: Any, label_column: str) -> tuple[TableFile, list[str]]:
    """A table without its column of labels, and they."""
    if not isinstance(table, TableFile):
        raise OptionError(f"label_column={label_column!r} is of a table (read_table); X is a {type(table).__name__}")
    if y is not None:
        raise OptionError(f"label_column={label_column!r} and y both say what the labels are; give one")
    labels = table.column(label_column)
    for row, cell in enumerate(labels):
        if not cell.strip():
            raise DataError(f"column {label_column!r}, the label, is empty", table.file, table.lines[row])
    return table.without([label_column]), labels


# ----------------------------------------------------------------------------------------------------------------------
# From a classifier's training data to its model: the problems one after the other, each in its phases.

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
        rows, labels = (
            _scored_labels(init.labels),
            {label: r for r, label in enumerate(_scored_labels(self.problem.labels))},
        )
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


def _scored_labels(labels: Array) -> list[Any]:
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
