"""What can be asked of a trained classifier: labels, probabilities, scores, and why."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from loglinear.errors import OptionError
from loglinear.estimators.candidate_model import CandidateModel
from loglinear.estimators.classifier_inputs import NUMBERS, made_features
from loglinear.estimators.linear_model import LinearModel
from loglinear.threads import thread_count

Float = npt.NDArray[np.float64]


class ClassifierPredictor:
    """Prediction with a trained model; the estimator adds how it is trained.

    Attributes
    ----------
    classes_ : array [Y]
        The labels, sorted.
    model_ : LinearModel or CandidateModel
    threads : int or None
    features : callable or None
        The user's function from an example to features.
    """

    classes_: npt.NDArray[Any]
    model_: LinearModel | CandidateModel
    threads: int | None
    features: Any

    def decision_function(self, X: Any) -> Float:
        """Scores: [S] with two labels, that of the second less that of the first, else [S, Y]."""
        model, data = self._encoded(X)
        if isinstance(model, CandidateModel):
            scores = model.scores(data)
            return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores
        decision = model.decision(data)
        return decision[:, 0] if decision.shape[1] == 1 else decision

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The label of each example [S], that with the best score."""
        model, data = self._encoded(X)
        return self.classes_[model.best(data)]

    def predict_log_proba(self, X: Any) -> Float:
        """Log-probabilities of the labels [S, Y]."""
        model, data = self._encoded(X)
        return model.log_probabilities(data)

    def predict_proba(self, X: Any) -> Float:
        """Probabilities of the labels [S, Y]; those of other criteria than likelihoods are not calibrated."""
        return np.exp(self.predict_log_proba(X))

    def predict_nbest(self, X: Any, k: int = 5) -> list[list[tuple[Any, float]]]:
        """For each example its ``k`` most probable labels, best first, with their probabilities."""
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise OptionError(f"k={k!r} must be a whole number from 1 up")
        probabilities, labels = self.predict_proba(X), self.classes_.tolist()
        order = np.argsort(-probabilities, axis=1, kind="stable")[:, :k]
        return [
            [(labels[y], float(row[y])) for y in best if row[y] > 0.0]
            for row, best in zip(probabilities, order.tolist(), strict=True)
        ]

    def explain(self, x: Any) -> dict[Any, dict[str, float]]:
        """For each label what each feature of one example, and the bias, adds to its score, strongest first.

        With two labels the scores are half the decision function, and that with the other sign.
        """
        kind = getattr(getattr(self._fitted(), "encoder", None), "kind", None)
        model, data = self._encoded(x if kind == NUMBERS and getattr(x, "ndim", 1) == 2 else [x])
        found = model.contributions(data)
        return {
            label: dict(sorted(parts.items(), key=lambda pair: -abs(pair[1])))
            for label, parts in zip(self.classes_.tolist(), found, strict=True)
        }

    def _fitted(self) -> LinearModel | CandidateModel:
        if not hasattr(self, "model_"):
            name = type(self).__name__
            raise NotFittedError(f"this {name} instance is not fitted yet; call fit, or {name}.load")
        return self.model_

    def _encoded(self, X: Any) -> tuple[Any, Any]:
        """The model, and the examples as it takes them."""
        model = self._fitted()
        return model, self._data(model, X)

    def _data(self, model: LinearModel | CandidateModel, X: Any) -> Any:
        """Examples as a model takes them."""
        if isinstance(model, CandidateModel):
            return model.encoder.transform(list(X), model.labels)
        if model.encoder.kind == NUMBERS:
            return validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        examples = X if self.features is None else made_features(self.features, X)
        return model.encoder.transform(examples, thread_count(self.threads))
