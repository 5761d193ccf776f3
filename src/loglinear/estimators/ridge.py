"""Least squares and ridge regression behind scikit-learn's conventions (Zhang, 9.2 and 9.3)."""

from __future__ import annotations

import time
from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from loglinear import model_file
from loglinear.errors import LoglinearError, ModelFileError
from loglinear.estimators.annotation import sequence_weights
from loglinear.estimators.classifier_file import Arrays, finite
from loglinear.estimators.ridge_solver import CLOSED, GRADIENTS, RidgeSolution, solve
from loglinear.estimators.stored_model import StoredModel, source_name
from loglinear.model_file import pack_strings, unpack_strings
from loglinear.options import Option
from loglinear.structures.flat_features import BIASES

Float = npt.NDArray[np.float64]
OPTIONS = {
    option.name: option
    for option in (
        Option("l2", 1.0, "factor of the sum of w^2", least=0, kind=float),
        Option("bias", "free", "whether there is a bias, and a penalty on it", choices=BIASES),
        Option("bias_scale", 1.0, "the constant that a penalised bias is the weight of", above=0, kind=float),
        Option("solver", "auto", "how the weights are found", choices=("auto", CLOSED, GRADIENTS)),
        Option("max_iter", None, "most steps of conjugate gradients", least=1, kind=int),
        Option("tolerance", 1e-12, "residual at which conjugate gradients end", least=0, kind=float),
    )
}


class _LinearRegressor(StoredModel, MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both regressors share."""

    coef_: Float
    intercept_: Any
    objective_: float
    n_iter_: int
    converged_: bool
    message_: str
    seconds_: float | None
    n_features_in_: int
    feature_names_in_: npt.NDArray[Any]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    @abstractmethod
    def _factor(self) -> float:
        """The factor of the squares."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Find the best weights.

        Parameters
        ----------
        X : array or sparse matrix [S, A]
        y : array [S] or [S, T]
        sample_weight : array of float [S], optional
        """
        options = self.get_params(deep=False)
        for name, value in options.items():
            OPTIONS[name].check(value)
        rows, targets = validate_data(
            self, X, y, accept_sparse="csr", dtype=np.float64, multi_output=True, y_numeric=True
        )
        targets = np.asarray(targets, dtype=np.float64)
        weights = None if sample_weight is None else sequence_weights(sample_weight, rows.shape[0], "example")
        began = time.perf_counter()
        solution = solve(
            rows, targets.reshape(len(targets), -1), self._factor, weights, options["bias"],
            float(options["bias_scale"]), options["solver"], options["max_iter"], options["tolerance"],
        )  # fmt: skip
        self._keep(solution, targets.ndim == 1)
        self.seconds_ = time.perf_counter() - began
        return self

    def _keep(self, solution: RidgeSolution, one_target: bool) -> None:
        self.coef_ = solution.coef[0] if one_target else solution.coef
        self.intercept_ = float(solution.intercept[0]) if one_target else solution.intercept
        self.objective_, self.n_iter_ = solution.objective, solution.iterations
        self.converged_, self.message_ = solution.converged, solution.message

    def predict(self, X: Any) -> Float:
        """What is expected of each row: [S], or [S, T] with several targets."""
        self._check_fitted()
        rows = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        return np.asarray(rows @ self.coef_.T) + self.intercept_

    def _check_fitted(self) -> None:
        if not hasattr(self, "coef_"):
            name = type(self).__name__
            raise NotFittedError(f"this {name} instance is not fitted yet; call fit, or {name}.load")

    # -- files -----------------------------------------------------------------------------------------------------

    def _storage(self) -> tuple[dict[str, Any], Arrays]:
        self._check_fitted()
        options = self.get_params(deep=False).items()
        blob, offsets = pack_strings(getattr(self, "feature_names_in_", np.zeros(0, dtype=object)).tolist())
        header = {
            "options": {k: v.item() if isinstance(v, np.generic) else v for k, v in options},
            "one_target": self.coef_.ndim == 1,
            "training": {
                "complete": True,
                "objective": self.objective_,
                "iterations": self.n_iter_,
                "converged": self.converged_,
                "message": self.message_,
            },
        }
        coef, intercept = np.atleast_2d(self.coef_), np.atleast_1d(np.asarray(self.intercept_, dtype=np.float64))
        return header, {"coef": coef, "intercept": intercept, "strings.bytes": blob, "strings.offsets": offsets}

    @classmethod
    def load(cls, source: str | Path | bytes) -> Any:
        """Read a model from a file or from its bytes. Loading runs no code of the file's."""
        stored = model_file.load(source, kind=cls.kind)
        name = source_name(source)
        try:
            return _restored(cls, stored.header, stored.arrays)
        except (LoglinearError, KeyError, TypeError, ValueError, IndexError) as error:
            raise ModelFileError(f"{name}: the model file's content does not fit together ({error})") from None


def _restored(cls: Any, header: dict[str, Any], arrays: Arrays) -> Any:
    regressor = cls(**header["options"])
    for option, value in regressor.get_params(deep=False).items():
        OPTIONS[option].check(value)
    t, n = arrays["coef"].shape
    coef, intercept = finite(arrays["coef"], (t, n)), finite(arrays["intercept"], (t,))
    names = unpack_strings(arrays["strings.bytes"], arrays["strings.offsets"])
    if (header["one_target"] and t != 1) or not n or (names and len(names) != n):
        raise ValueError("the weights do not fit together")
    training = dict(header["training"])
    solution = RidgeSolution(
        coef, intercept, training["objective"], training["iterations"], training["converged"], training["message"]
    )
    regressor._keep(solution, bool(header["one_target"]))
    regressor.n_features_in_, regressor.seconds_ = n, None
    if names:
        regressor.feature_names_in_ = np.array(names, dtype=object)
    return regressor


class Ridge(_LinearRegressor):
    """Ridge regression: min sum_i c_i (w . x_i + b - y_i)^2 + l2 |w|^2, in closed form or by conjugate gradients.

    Equal to scikit-learn's ``Ridge(alpha=l2)``.

    Parameters
    ----------
    l2 : float
        Factor of |w|^2.
    bias : {"free", "penalised", "none"}
        Whether there is a bias b, and whether it is penalised: then it is the weight of one more column, of constant
        value ``bias_scale``.
    bias_scale : float
    solver : {"auto", "closed-form", "conjugate-gradients"}
        The closed form is the primal or, with more columns than rows, the dual. auto takes conjugate gradients for
        sparse rows of more than 2,000 in both directions.
    max_iter, tolerance
        When conjugate gradients end.

    Attributes
    ----------
    coef_ : float64 [A] or [T, A]
    intercept_ : float or float64 [T]
    n_features_in_, feature_names_in_, objective_, n_iter_, converged_, message_, seconds_
    """

    kind = "ridge"

    def __init__(
        self,
        l2: float = OPTIONS["l2"].default,
        bias: str = "free",
        bias_scale: float = 1.0,
        solver: str = "auto",
        max_iter: int | None = None,
        tolerance: float = OPTIONS["tolerance"].default,
    ) -> None:
        self.l2 = l2
        self.bias = bias
        self.bias_scale = bias_scale
        self.solver = solver
        self.max_iter = max_iter
        self.tolerance = tolerance

    @property
    def _factor(self) -> float:
        return float(self.l2)


class LeastSquares(_LinearRegressor):
    """Least squares: min sum_i c_i (w . x_i + b - y_i)^2 (9.2); of several best w the shortest.

    Parameters and attributes are those of :class:`Ridge`, without ``l2``.
    """

    kind = "least-squares"

    def __init__(
        self,
        bias: str = "free",
        bias_scale: float = 1.0,
        solver: str = "auto",
        max_iter: int | None = None,
        tolerance: float = OPTIONS["tolerance"].default,
    ) -> None:
        self.bias = bias
        self.bias_scale = bias_scale
        self.solver = solver
        self.max_iter = max_iter
        self.tolerance = tolerance

    @property
    def _factor(self) -> float:
        return 0.0
