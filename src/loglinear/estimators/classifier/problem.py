"""A classifier's training data in numbers, and the problems that are solved on it.

Training all labels at once is one problem; one-versus-all is one of two labels for each label. With two labels there
is one weight vector u (Zhang, 9.9), trained as two that differ in their sign alone, w_1 = u / 2 and w_0 = -u / 2: the
losses see only the difference u, and

    2 l2 (|w_0|^2 + |w_1|^2) = l2 |u|^2                    l1 (|w_0| + |w_1|) = l1 |u|

so that the factor of the squares is doubled, and that of the absolute values is not.

With a kernel the weights are coefficients of training rows, found in the coordinates of a factor of the Gram matrix
(:mod:`~loglinear.optimizers.coefficients`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from loglinear.arrays import Array, Arrays, Float, Int32, Int64
from loglinear.criteria.costs import make_cost
from loglinear.criteria.criterion import CRITERIA, CostCriterion, Criterion, make_criterion
from loglinear.criteria.m_estimation import MEstimation
from loglinear.data.tables import GREATEST, TableFile
from loglinear.errors import DataError, OptionError
from loglinear.estimators.classifier import file as classifier_file
from loglinear.estimators.classifier.inputs import (
    NUMBERS,
    NumberRows,
    RowEncoder,
    TemplateRows,
    made_features,
    new_encoder,
)
from loglinear.estimators.classifier.model import (
    CandidateEncoder,
    CandidateModel,
    KernelModel,
    LinearModel,
    LinearScores,
    best_labels,
)
from loglinear.estimators.classifier.ridge import ridge_coefficients, solve
from loglinear.estimators.options import (
    BALANCED,
    DRAWS,
    LEAST_SQUARES,
    NAIVE_BAYES,
    ONE_VERSUS_ALL,
    base_draws,
    draws_for_expectations,
    learns_from_counts,
    naive_bayes_smoothing,
    own_base,
    read_class_weight,
)
from loglinear.features.gram import MOST_ROWS, Factor, KernelFunction, blocks, gram, make_kernel, training_gram
from loglinear.generative.m_estimation import MEstimationObjective
from loglinear.generative.naive_bayes import NaiveBayesModel, log_dirichlet
from loglinear.optimizers.coefficients import CoefficientObjective, Coefficients
from loglinear.optimizers.dual.flat import flat_dual_unsupported_reason
from loglinear.optimizers.objective import AnyObjective, Objective
from loglinear.optimizers.optimizer import Optimizer
from loglinear.options import spec_name
from loglinear.structures.flat.features import CandidateCorpus, CandidateFeatures, FlatCorpus, FlatFeatures
from loglinear.structures.gold import Gold
from loglinear.system import thread_count
from loglinear.training.plan import first_that_applies, l2_factor, phases_of
from loglinear.training.problem import MAIN, Learnable, Phase, Stage, Storage, example_weights
from loglinear.training.run import Outcome, train
from loglinear.wording import how_many

Labels = Array
AnyModel = LinearModel | KernelModel | CandidateModel
COSTS_OF_TWO = ("hamming", "balanced")  # those that make sense for one label against the rest


def corpus_arrays(corpus: Any) -> list[Array | None]:
    """All numbers of encoded examples."""
    if isinstance(corpus, CandidateCorpus):
        return list(corpus.parts)
    return [corpus.rows.indptr, corpus.rows.indices, corpus.rows.data] if corpus.is_sparse else [corpus.rows]


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
    kernel : KernelFunction or None
    factor : Factor or None
        Of the Gram matrix of the rows, with a kernel.
    """

    labels: Labels
    encoder: RowEncoder | CandidateEncoder
    corpus: FlatCorpus | CandidateCorpus
    gold: Int32
    weights: Float | None
    kernel: KernelFunction | None = None
    factor: Factor | None = None

    def arrays(self) -> list[Array | None]:
        """All numbers that the result depends on."""
        own = [] if self.factor is None else [self.factor.rows]
        return [*corpus_arrays(self.corpus), self.gold, self.weights, *own]

    def with_kernel(self, given: Any) -> ClassifierProblem:
        """The same data, compared by the kernel that a user gives."""
        kernel = make_kernel(given).fitted(self.rows)
        return replace(self, kernel=kernel, factor=Factor.of(training_gram(kernel, self.rows)))

    @property
    def in_coordinates(self) -> ClassifierProblem:
        """The same data with the rows of the factor for columns, and without a kernel."""
        assert self.factor is not None
        return replace(self, corpus=FlatCorpus(self.factor.rows), kernel=None, factor=None)

    @property
    def n_numbers(self) -> int:
        """How many numbers the examples have: those that are not zero if they are sparse."""
        if isinstance(self.corpus, CandidateCorpus):
            return len(self.corpus.values)
        return int(self.corpus.rows.nnz if self.corpus.is_sparse else self.corpus.rows.size)

    @property
    def rows(self) -> Any:
        """The rows [S, A]; a sparse matrix has the index types that SciPy itself would choose."""
        assert isinstance(self.corpus, FlatCorpus)
        rows = self.corpus.rows
        return sp.csr_matrix((rows.data, rows.indices, rows.indptr), rows.shape) if self.corpus.is_sparse else rows

    def parts(self, classifier: Any) -> list[LabelProblem]:
        """The problems to be solved, one after the other."""
        n = len(self.labels)
        found = [LabelProblem(self, self.gold, self.labels.tolist(), self._features(classifier, n), False)]
        if classifier.multiclass == ONE_VERSUS_ALL and n > 2:
            apart = [(self.gold == y).astype(np.int32) for y in range(n)]
            found = [LabelProblem(self, gold, [False, True], self._features(classifier, 2), True) for gold in apart]
        return [part.with_base(classifier) for part in found]

    def _features(self, classifier: Any, n_labels: int) -> FlatFeatures | CandidateFeatures:
        if isinstance(self.corpus, CandidateCorpus):
            assert isinstance(self.encoder, CandidateEncoder)
            return CandidateFeatures(self.encoder.names.n_attributes, n_labels)
        bias = "none" if own_base(classifier) and not hasattr(classifier.base, "log_prior") else classifier.bias
        n = self.corpus.n_columns if self.kernel is None else self.corpus.n_sequences
        return FlatFeatures(n, n_labels, bias, float(classifier.bias_scale))


@dataclass(frozen=True)
class LabelProblem(Learnable):
    """One problem: which label each example has.

    Parameters
    ----------
    data : ClassifierProblem
    gold : int32 [S]
    labels : list
        What the numbers in ``gold`` mean, for costs.
    features : FlatFeatures or CandidateFeatures
        With a kernel, its columns are the training rows.
    one_versus_rest : bool
        Whether label 1 stands against all others, which are label 0.
    base : optional
        The generative base, for M-estimation.
    expected : float64 [r, Y], optional
        With a kernel, the coordinates of rows expected under the base, together with each label.
    """

    data: ClassifierProblem
    gold: Int32
    labels: list[Any]
    features: FlatFeatures | CandidateFeatures
    one_versus_rest: bool
    base: Any = None
    expected: Float | None = None

    def criterion(self, spec: str, cost: Any = None) -> Criterion:
        """The criterion that a spec names, with the cost if it uses one."""
        if CRITERIA.spec(spec)["chunks"]:
            raise OptionError(
                f"criterion={spec!r}: chunks are of sequences of labels; a classifier's examples have one"
            )
        if not CRITERIA.part(spec).uses_cost:
            return make_criterion(spec).for_labels(self.labels)
        counts = np.bincount(self.gold, self.data.weights, len(self.labels))
        return make_criterion(spec, cost_of(cost, self.labels, counts, self.one_versus_rest))

    def objective(self, criterion: Criterion, l2: float, n_threads: int) -> AnyObjective:
        """Losses and penalty; with two labels the factor of the squares is that of one weight vector."""
        features, data = self.features, self.data
        if data.factor is not None:
            linear = self._in_coordinates(data.factor).objective(criterion, l2, n_threads)
            return CoefficientObjective(linear, data.factor, features.n_labels)
        if isinstance(criterion, MEstimation):
            return self.m_estimation(self.base, l2).by(criterion)
        if isinstance(features, FlatFeatures) and features.n_labels == 2 and criterion.name != LEAST_SQUARES:
            l2 = 2.0 * l2
        return Objective(
            features, data.corpus, Gold(self.gold), criterion, None, l2, data.weights, n_threads,
            n_penalised=features.n_penalised,
        )  # fmt: skip

    def default_optimizer(self, criterion: Criterion, l2: float, from_zero: bool) -> str:
        """The first of the criterion's optimizers that applies.

        L-BFGS does not get far with losses that have kinks. On smooth ones it is as fast as dual ascent if there are
        few numbers, ends nearer to the optimum, and gains more from a start.
        """

        def applies(name: str) -> bool:
            if name == "lbfgs":
                return criterion.smooth
            if name != "dual":
                return True
            unfit = flat_dual_unsupported_reason(criterion, self.features, Gold(self.gold), l2) is not None
            if unfit or self.data.kernel is not None:
                return not unfit
            return not (criterion.smooth and (not from_zero or self.data.n_numbers < FEW_NUMBERS))

        return first_that_applies(criterion, applies)

    def own_phases(self, criterion: Any, optimizer: Optimizer, l2: float, n_threads: int) -> list[Phase] | None:
        """With a kernel, the optimizer finds coefficients."""
        if self.data.kernel is None:
            return None

        def prepare(start: Float, kept: Arrays | None) -> tuple[AnyObjective, Arrays]:
            return self.objective(criterion, l2, n_threads), {}

        return [Phase(MAIN, Coefficients(optimizer), prepare)]

    def _in_coordinates(self, factor: Factor) -> LabelProblem:
        """The same problem, linear in the coordinates of a factor."""
        assert isinstance(self.features, FlatFeatures)
        features = replace(self.features, n_columns=factor.rows.shape[1])
        base = None if self.expected is None else ExpectedRows(self.expected, getattr(self.base, "log_prior", None))
        return replace(self, data=self.data.in_coordinates, features=features, base=base)

    def scores(self, weights: Float, criterion_name: str) -> LinearScores:
        """The linear functions of trained weights [D]: one for each label, a single one if there are two labels."""
        assert isinstance(self.features, FlatFeatures)
        table, added = self.features.split(weights)
        if self.features.n_labels > 2:
            return LinearScores(np.ascontiguousarray(table.T), np.array(added))
        if criterion_name == LEAST_SQUARES:  # one regression on targets 1 and -1; the other label's is its negative
            return LinearScores(np.ascontiguousarray(table[:, 1:].T), np.array(added[1:]))
        return LinearScores(np.ascontiguousarray(table[:, 1:].T - table[:, :1].T), added[1:] - added[:1])

    def grown_weights(self, weights: Float, labels: Array, known: FlatFeatures, columns: Int64) -> Float:
        """Weights [D] of a model with fewer ``labels`` and ``columns`` (their places here), zero for what is new."""
        assert isinstance(self.features, FlatFeatures)
        table = np.zeros((self.features.n_features // self.features.n_labels, self.features.n_labels))
        rows = np.append(columns, len(table) - 1) if known.bias != "none" else columns
        table[np.ix_(rows, label_ids(self.data.labels, labels))] = weights.reshape(-1, known.n_labels)
        return table.ravel()

    def weights_of(self, scores: LinearScores, criterion_name: str) -> Float:
        """The weights [D] of linear functions: the inverse of :meth:`scores`."""
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

    def with_base(self, classifier: Any) -> LabelProblem:
        """The problem with its generative base, if the criterion uses one: counted naive Bayes, or the user's own."""
        if not learns_from_counts(classifier.criterion):
            return self
        self._check_counts(classifier.criterion)
        if own_base(classifier):
            return replace(self, base=classifier.base)._with_expected(classifier)
        if spec_name(classifier.criterion) == NAIVE_BAYES:
            smoothing = naive_bayes_smoothing(classifier.criterion)
        else:
            smoothing = CRITERIA.spec(classifier.criterion).values.get("smoothing", 1.0)
        rows, n, data = self.data.rows, self.features.n_labels, self.data
        counts = np.bincount(self.gold, data.weights, n)
        if not counts.all():
            raise DataError(f"no example of the class {self.labels[int(np.argmin(counts))]!r} has any weight")
        base = NaiveBayesModel.fit(rows, self.gold, n, smoothing, data.weights)
        return replace(self, base=base)._with_expected(classifier)

    def _with_expected(self, classifier: Any) -> LabelProblem:
        """With a kernel, the coordinates of rows expected under the base: exactly if it is linear, else by draws.

        E_q0[k(x_i, x) 1(y)] of the pivots x_i are the products of these with the coordinates of x_i.
        """
        kernel, factor, base = self.data.kernel, self.data.factor, self.base
        if kernel is None or factor is None:
            return self
        pivots, n_labels = self.data.rows[factor.pivots], self.features.n_labels
        if draws_for_expectations(classifier):
            n = (base_draws(classifier.base) if isinstance(classifier.base, str) else None) or DRAWS
            drawn, labels = _checked_draws(base.sample(n, np.random.default_rng(classifier.seed)), n, pivots, n_labels)
            similar = np.zeros((n_labels, len(factor.pivots)))
            for first, end in blocks(n, len(factor.pivots)):
                own = np.eye(n_labels)[labels[first:end]] / n
                similar += own.T @ gram(kernel, drawn[first:end], pivots)
        else:
            similar = np.asarray(pivots @ expected_counts(base, (pivots.shape[1], n_labels))).T
        return replace(self, expected=np.ascontiguousarray(factor.coordinates(similar).T))

    def _check_counts(self, criterion: str) -> None:
        """Refuse negative numbers, and say in which column the least of them is."""
        rows = self.data.rows
        least = np.asarray(rows.min(axis=0).toarray() if sp.issparse(rows) else rows.min(axis=0)).ravel()
        worst = int(least.argmin())
        if least[worst] < 0.0:
            assert not isinstance(self.data.encoder, CandidateEncoder)
            column = self.data.encoder.names()[worst]
            raise DataError(
                f"Negative values in data ({least[worst]:g} in column {column!r}): criterion={criterion!r} needs counts"
            )

    def m_estimation(self, base: Any, l2: float) -> MEstimationObjective:
        """The objective of M-estimation over ``base``: features are counts joined with the label."""
        features, y = self.features, self.features.n_labels
        assert isinstance(features, FlatFeatures)
        rows = sp.csr_matrix(self.data.rows)
        joined = rows.indices.astype(np.int64) * y + np.repeat(self.gold, np.diff(rows.indptr))
        counts = sp.csr_matrix((rows.data, joined, rows.indptr), shape=(rows.shape[0], features.n_columns * y))
        parts = [expected_counts(base, (features.n_columns, y)).ravel()]
        if features.bias != "none":
            ones = np.full(len(self.gold), features.scale)
            own = sp.csr_matrix((ones, self.gold, np.arange(len(self.gold) + 1)), shape=(len(self.gold), y))
            counts = sp.hstack([counts, own], format="csr")
            parts.append(features.scale * np.exp(np.asarray(base.log_prior, dtype=np.float64)))
        return MEstimationObjective(counts, np.concatenate(parts), l2, self.data.weights, features.n_penalised)

    def base_scores(self) -> LinearScores | None:
        """The base as linear functions, if it is naive Bayes."""
        base = self.base
        if not isinstance(base, NaiveBayesModel):
            return None
        coef, intercept = base.log_theta, base.log_prior
        if self.features.n_labels == 2:
            return LinearScores(coef[1:] - coef[:1], intercept[1:] - intercept[:1])
        return LinearScores(coef, intercept)


@dataclass(frozen=True)
class ExpectedRows:
    """What M-estimation must know of a base: rows expected together with each label [A, Y], and the labels [Y]."""

    rows: Float
    log_prior: Float | None

    def expected(self) -> Float:
        """E[x_j 1(label = y)] [A, Y]."""
        return self.rows


def expected_counts(base: Any, shape: tuple[int, int]) -> Float:
    """What a base expects of each column together with each label [A, Y]."""
    expected = np.asarray(base.expected(), dtype=np.float64)
    if expected.shape != shape:
        raise OptionError(
            f"the base expects counts of shape {list(expected.shape)}; there are {shape[0]} columns and {shape[1]} "
            "labels"
        )
    return expected


def _checked_draws(drawn: Any, n: int, like: Any, n_labels: int) -> tuple[Any, Array]:
    """Rows [n, A] and numbers of labels [n] that a base has drawn; rows come as those of the data, dense or sparse."""
    try:
        rows, labels = drawn
        dense = rows.toarray() if sp.issparse(rows) and not sp.issparse(like) else rows
        rows = FlatCorpus.of(sp.csr_matrix(dense) if sp.issparse(like) else dense).rows
        labels = np.asarray(labels)
    except (TypeError, ValueError) as error:
        raise DataError(f"base.sample(n, rng) must give rows and the numbers of their labels: {error}") from None
    if rows.shape != (n, like.shape[1]) or labels.shape != (n,):
        raise DataError(
            f"base.sample({n}, rng) gave rows of shape {list(rows.shape)} and labels of shape {list(labels.shape)}, "
            f"not [{n}, {like.shape[1]}] and [{n}]"
        )
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= n_labels:
        raise DataError(f"base.sample({n}, rng): labels are whole numbers from 0 to {n_labels - 1}")
    return rows, labels


def cost_of(spec: Any, labels: list[Any], counts: Any, of_two: bool) -> Any:
    """The cost over ``labels``; with ``of_two``, each against the rest, only some costs make sense."""
    spec = "hamming" if spec is None else spec
    if of_two and not (isinstance(spec, str) and spec_name(spec) in COSTS_OF_TWO):
        raise OptionError(
            f"cost={spec!r:.60} is over pairs of labels, and multiclass={ONE_VERSUS_ALL!r} tells each label from all "
            f"others at once; there are {' and '.join(COSTS_OF_TWO)}"
        )
    from_file = isinstance(spec, str) and spec.endswith(".json")
    return make_cost(spec, [str(label) for label in labels] if from_file else labels, counts)


# ----------------------------------------------------------------------------------------------------------------------
# The training problem and the dev data of what a user gives to a classifier.


def prepared(
    classifier: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    n_threads: int,
    known: LinearModel | None = None,
    classes: Any = None,
) -> ClassifierProblem:
    """The training data in numbers, with all columns and labels of ``known``, and with the labels ``classes``."""
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
        encoder, rows, own = _encoded(classifier, X, y, n_threads, None if known is None else known.encoder)
        labels, corpus, left = _all_labels(own, known, classes), FlatCorpus.of(rows), encoder.n_columns
    if not left:
        raise DataError(f"no features are left to learn from (min_count={classifier.min_count})")
    problem = ClassifierProblem(labels, encoder, corpus, label_ids(labels, own), None)
    problem = replace(problem, weights=_weights(classifier, problem, sample_weight))
    return problem if classifier.kernel is None else problem.with_kernel(classifier.kernel)


def _all_labels(own: Array, known: LinearModel | None, classes: Any) -> Array:
    """The labels of the data, those of a model and those named, sorted."""
    parts = [own, *([] if known is None else [known.labels]), *([] if classes is None else [labels_of(classes, None)])]
    parts = [part for part in parts if len(part)]
    if len({part.dtype.kind in "OSU" for part in parts}) > 1:
        examples = " and ".join(repr(part.tolist()[0]) for part in parts)
        raise DataError(f"labels are of one kind, not numbers and text ({examples:.80})")
    return np.unique(np.concatenate(parts)) if len(parts) > 1 else np.unique(own)


def _encoded(
    classifier: Any, X: Any, y: Any, n_threads: int, known: RowEncoder | None = None
) -> tuple[Any, Any, Array]:
    """The encoder, grown from a ``known`` one, rows [S, A] and labels [S]."""
    encoder = new_encoder(X, classifier)
    if known is not None and known.kind != encoder.kind:
        raise OptionError(f"the model so far was trained on {known.kind}, and X is of {encoder.kind}")
    if encoder.kind == NUMBERS:
        if classifier.min_count > 1:
            raise OptionError(f"min_count={classifier.min_count} counts named features; these are columns of numbers")
        how = {"accept_sparse": "csr", "dtype": np.float64, "order": "C", "reset": known is None}
        rows, own = validate_data(classifier, X, y, **how)
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
    if known is not None:
        if isinstance(encoder, TemplateRows) and isinstance(known, TemplateRows):
            known = TemplateRows(encoder.template, known.encoder)
        return *known.grown(X, classifier.min_count, n_threads), own
    return encoder, encoder.fit(X, classifier.min_count, n_threads), own


def labels_of(y: Any, n_examples: int | None) -> Array:
    """The labels [S] as an array, checked as scikit-learn checks them."""
    labels = column_or_1d(y, warn=True)
    for i, label in enumerate(labels.tolist() if labels.dtype == object else []):
        if label is None:
            raise DataError(f"the label of example {i} (from 0) is None; leave examples without a label out")
    check_classification_targets(labels)
    if n_examples is not None and len(labels) != n_examples:
        raise DataError(f"X has {how_many(n_examples, 'example')}, but y {how_many(len(labels), 'label')}")
    return np.asarray(labels)


def label_ids(labels: Array, y: Array) -> Int32:
    """The place of each of ``y`` [S] in ``labels`` [Y], -1 for one that is not there."""
    places = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
    return np.where(labels[places] == y, places, -1).astype(np.int32)


def _weights(classifier: Any, problem: ClassifierProblem, sample_weight: Any) -> Float | None:
    """The weights [S] of the examples, times those of their labels; None if all are one."""
    n, n_labels = len(problem.gold), len(problem.labels)
    if n_labels < 2:
        alone = f"y has one class alone, {problem.labels.tolist()!r:.60}; a classifier needs two"
        raise DataError(f"{alone} (partial_fit takes those to come as classes)")
    weights = None if sample_weight is None else example_weights(sample_weight, n, "example")
    if classifier.class_weight is None:
        return weights
    if classifier.class_weight != BALANCED:
        given = read_class_weight(classifier.class_weight)
        if isinstance(classifier.class_weight, str):  # labels as text
            named = {str(label): label for label in problem.labels.tolist()}
            given = {named.get(label, label): weight for label, weight in given.items()}
        each = compute_class_weight(given, classes=problem.labels, y=problem.labels[problem.gold])
    else:
        counts = np.bincount(problem.gold, weights, n_labels)
        each = counts.sum() / (n_labels * np.where(counts > 0, counts, np.inf))
    return example_weights(each[problem.gold] * (1.0 if weights is None else weights), n, "example")


@dataclass(frozen=True)
class DevExamples:
    """Data to stop early by.

    Parameters
    ----------
    data
        The examples, as the model takes them.
    gold : int32 [S]
        The numbers of their labels, -1 for one that training does not know.
    similar : float64 [S, n], optional
        With a kernel, their kernels with the n training rows.
    """

    data: Any
    gold: Int32
    similar: Float | None = None

    @property
    def arrays(self) -> list[Array | None]:
        corpus = self.data if isinstance(self.data, CandidateCorpus) else FlatCorpus.of(self.data)
        return [*corpus_arrays(corpus), self.gold]

    def score(self, model: AnyModel) -> float:
        """The accuracy of a model."""
        if self.similar is not None and isinstance(model, KernelModel):
            return float(np.mean(best_labels(model.decision(self.data, self.similar)) == self.gold))
        return float(np.mean(model.best(self.data) == self.gold))


def split_labels(table: Any, y: Any, label_column: str) -> tuple[TableFile, list[str]]:
    """The table without its label column, and the labels."""
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
# The training of a classifier: a stage for all labels, or one for each.

FEW_NUMBERS = 100_000


@dataclass(frozen=True)
class ClassifierTraining:
    """What is to be trained.

    Parameters
    ----------
    classifier : Classifier
    problem : ClassifierProblem
    parts : list of LabelProblem
        One for each stage.
    """

    kind: ClassVar[str] = classifier_file.KIND
    classifier: Any
    problem: ClassifierProblem
    parts: list[LabelProblem]

    @property
    def criterion_name(self) -> str:
        """The criterion's name."""
        return spec_name(self.classifier.criterion)

    def stages(self, options: Any, init: AnyModel | None) -> list[Stage]:
        n_threads = thread_count(options.threads)

        def stage(part: LabelProblem, start: Float) -> Stage:
            phases = phases_of(part, options, n_threads, init is None)
            return Stage(lambda done: (start, phases), score_start=init is not None)

        return [stage(part, start) for part, start in zip(self.parts, self.starts(init), strict=True)]

    def trained_model(self, weights: Sequence[Float]) -> AnyModel:
        """The model of the parts' weights, zero for parts that are not trained yet."""
        problem, part = self.problem, self.parts[0]
        missing = [np.zeros(part.features.n_features)] * (len(self.parts) - len(weights))
        if isinstance(problem.encoder, CandidateEncoder):
            return CandidateModel(problem.labels, problem.encoder, weights[0])
        learnt = _stacked([part.scores(own, self.criterion_name) for own in [*weights, *missing]])
        apart, base = len(self.parts) > 1, None
        if all(each.base_scores() is not None for each in self.parts):
            base = _stacked([each.base_scores() for each in self.parts])
        own_base = part.base if part.base is not None and base is None else None
        if problem.kernel is not None:
            return self._kernel_model(learnt, apart, base, own_base)
        scores = learnt if base is None else learnt.plus(base)
        return LinearModel(problem.labels, problem.encoder, scores, apart, base, own_base)

    def _kernel_model(self, scores: LinearScores, *more: Any) -> KernelModel:
        """The model of coefficients [R, S] of all training rows."""
        problem, numbers = self.problem, np.arange(len(self.problem.gold))
        assert problem.kernel is not None and not isinstance(problem.encoder, CandidateEncoder)
        return KernelModel(problem.labels, problem.encoder, problem.kernel, problem.rows, numbers, scores, *more)

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
        if isinstance(init, KernelModel):
            own, places, n_columns = self._projected(init), np.arange(len(self.problem.gold)), len(self.problem.gold)
        else:
            known = {name: i for i, name in enumerate(encoder.names())}
            own = init.scores if init.base is None else init.scores.minus(init.base)
            places = np.array([known.get(name, -1) for name in init.encoder.names()], dtype=np.int64)
            n_columns = encoder.n_columns
        theirs, mine = ({a: r for r, a in enumerate(_scored_labels(each.labels))} for each in (init, self.problem))
        coef, intercept = np.zeros((len(mine), n_columns)), np.zeros(len(mine))
        for label in theirs.keys() & mine.keys() if len(theirs) == len(mine) else ():
            coef[mine[label], places[places >= 0]] = own.coef[theirs[label], places >= 0]
            intercept[mine[label]] = own.intercept[theirs[label]]
        if len(self.parts) == 1:
            return [self.parts[0].weights_of(LinearScores(coef, intercept), self.criterion_name)]
        each = [LinearScores(coef[r : r + 1], intercept[r : r + 1]) for r in range(len(coef))]
        return [part.weights_of(one, self.criterion_name) for part, one in zip(self.parts, each, strict=True)]

    def _projected(self, init: KernelModel) -> LinearScores:
        """The functions of a model of the same kernel, as far as they are sums over these training rows."""
        kernel, factor, encoder = self.problem.kernel, self.problem.factor, self.problem.encoder
        assert kernel is not None and factor is not None and not isinstance(encoder, CandidateEncoder)
        if init.kernel.to_header() != kernel.to_header():
            raise OptionError(f"init: its kernel is {init.kernel}, not {kernel}; give the same one, options included")
        if init.encoder.names() != encoder.names():
            raise OptionError("init: a model with a kernel compares all columns at once, and its columns are others")
        similar = gram(kernel, self.problem.rows[factor.pivots], init.support) @ init.scores.coef.T
        coefficients = factor.coefficients(factor.coordinates(similar.T).T)
        return LinearScores(np.ascontiguousarray(coefficients.T), init.scores.intercept)

    def storage(self, weights: Sequence[Float], options: Any, notes: dict[str, Any]) -> Storage:
        by_function = options.features is not None
        model = _pruned(self.trained_model(weights))
        return classifier_file.to_storage(model, options._stored_options(), notes, by_function)

    def arrays(self) -> list[Array | None]:
        return self.problem.arrays()

    def identity(self, options: Any) -> dict[str, Any]:
        criterion = self.parts[0].criterion(options.criterion, options.cost)
        costs = criterion.cost.table.tolist() if isinstance(criterion, CostCriterion) else None
        known = {"labels": self.problem.labels.tolist(), "costs": costs, "own base": own_base(options)}
        return known | ({} if self.problem.kernel is None else {"kernel": self.problem.kernel.to_header()})

    def dev_data(self, X: Any, y: Any) -> DevExamples:
        if y is None:
            raise OptionError("X_dev is given without y_dev; give both, or none")
        if len(self.parts) > 1:
            raise OptionError(f"X_dev goes with multiclass='direct': {ONE_VERSUS_ALL} trains label by label")
        zeros = np.zeros(self.parts[0].features.n_features)
        data = self.classifier._data(self.trained_model([zeros]), X)
        n = data.n_sequences if isinstance(data, CandidateCorpus) else data.shape[0]
        gold = label_ids(self.problem.labels, labels_of(y, n))
        if not (gold >= 0).any():
            raise DataError("none of the dev data's labels is a label of the training data")
        kernel, rows = self.problem.kernel, len(self.problem.gold)
        if kernel is None or n * rows > MOST_ROWS**2:
            return DevExamples(data, gold)
        return DevExamples(data, gold, gram(kernel, data, self.problem.rows))

    def trained(self, **how: Any) -> tuple[AnyModel, Outcome]:
        """The model, and how training went; arguments as for :func:`loglinear.training.run.train`."""
        model, outcome = train(self, self.classifier, **how)
        features = self.parts[0].features
        if self.criterion_name == LEAST_SQUARES and isinstance(features, FlatFeatures) and features.n_labels == 2:
            outcome = replace(outcome, objective=outcome.objective / 2.0)  # one of two regressions, mirror images
        return _pruned(model), outcome

    @property
    def in_closed_form(self) -> bool:
        """Whether nothing iterates: naive Bayes; least squares without L1, unless an optimizer is asked for."""
        if self.criterion_name == NAIVE_BAYES:
            return True
        classifier, rows = self.classifier, isinstance(self.problem.corpus, FlatCorpus)
        return self.criterion_name == LEAST_SQUARES and rows and not classifier.l1 and classifier.optimizer is None

    def solved(self) -> tuple[AnyModel, Outcome]:
        """The best model in closed form, and what it took."""
        return self._counted() if self.criterion_name == NAIVE_BAYES else self._regressed()

    def _counted(self) -> tuple[AnyModel, Outcome]:
        """Naive Bayes as linear functions, w_y = log theta_y and b_y = log p(y) (Zhang, 9.4.1).

        The objective is -sum_i c_i log p(x_i, y_i) - log p(theta), summed over the parts.
        """
        problem, began = self.problem, time.perf_counter()
        assert not isinstance(problem.encoder, CandidateEncoder)
        smoothing, objective = naive_bayes_smoothing(self.classifier.criterion), 0.0
        for part in self.parts:
            joint = part.base.scores(problem.rows)[np.arange(len(part.gold)), part.gold]
            objective -= float(joint.sum() if problem.weights is None else problem.weights @ joint)
            objective -= log_dirichlet(part.base.log_theta, smoothing)
        scores = _stacked([part.base_scores() for part in self.parts])
        outcome = Outcome([scores.coef.ravel()], objective, 1, 1, True, "counted", time.perf_counter() - began)
        return LinearModel(problem.labels, problem.encoder, scores, len(self.parts) > 1), outcome

    def _regressed(self) -> tuple[AnyModel, Outcome]:
        """Ridge regression on 1 for the label and -1 for others, all labels at once (one regression for two)."""
        problem, classifier, began = self.problem, self.classifier, time.perf_counter()
        n = len(problem.labels)
        assert not isinstance(problem.encoder, CandidateEncoder)
        targets = np.where(problem.gold[:, np.newaxis] == np.arange(n), 1.0, -1.0)[:, n == 2 :]
        l2 = l2_factor(classifier.l2, classifier.variance)
        rows = problem.rows if problem.factor is None else problem.factor.rows
        found = solve(rows, targets, l2, problem.weights, classifier.bias, float(classifier.bias_scale))
        scores, apart = LinearScores(found.coef, found.intercept), classifier.multiclass == ONE_VERSUS_ALL and n > 2
        model: AnyModel = LinearModel(problem.labels, problem.encoder, scores, apart)
        if problem.factor is not None:
            coefficients = ridge_coefficients(scores(rows), targets, l2, problem.weights)
            model = _pruned(self._kernel_model(LinearScores(coefficients, found.intercept), apart))
        seconds, i = time.perf_counter() - began, found.iterations
        return model, Outcome([found.coef.ravel()], found.objective, i, i, found.converged, found.message, seconds)


def _pruned(model: AnyModel) -> AnyModel:
    """A model without rows that do not count."""
    return model.pruned() if isinstance(model, KernelModel) else model


def _scored_labels(labels: Array) -> list[Any]:
    """The label of each of the scores [R]: the second of two labels, else each label."""
    return labels.tolist()[-1:] if len(labels) == 2 else labels.tolist()


def _stacked(scores: list[Any]) -> LinearScores:
    return LinearScores(np.concatenate([s.coef for s in scores]), np.concatenate([s.intercept for s in scores]))
