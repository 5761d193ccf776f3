"""A classifier's training data in numbers, and the problems that are solved on it.

Training all labels at once is one problem; one-versus-all is one of two labels for each label. With two labels there
is one weight vector u (Zhang, 9.9), trained as two that differ in their sign alone, w_1 = u / 2 and w_0 = -u / 2: the
losses see only the difference u, and

    2 l2 (|w_0|^2 + |w_1|^2) = l2 |u|^2                    l1 (|w_0| + |w_1|) = l1 |u|

so that the factor of the squares is doubled, and that of the absolute values is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from loglinear.criteria.criterion import CRITERIA, Criterion, make_criterion
from loglinear.errors import DataError, OptionError
from loglinear.estimators.candidate_model import CandidateEncoder
from loglinear.estimators.classifier_inputs import RowEncoder
from loglinear.estimators.classifier_options import LEAST_SQUARES, ONE_VERSUS_ALL, cost_of, own_base
from loglinear.estimators.linear_model import LinearScores
from loglinear.generative.m_estimation import MEstimationObjective
from loglinear.generative.naive_bayes import NaiveBayesModel
from loglinear.options import spec_name
from loglinear.structures.candidate_features import CandidateCorpus, CandidateFeatures
from loglinear.structures.flat_features import FlatCorpus, FlatFeatures

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Labels = npt.NDArray[Any]


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

    def arrays(self) -> list[npt.NDArray[Any] | None]:
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
