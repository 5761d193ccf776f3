"""scikit-learn's conventions for estimators, without importing scikit-learn, which takes over a second.

An estimator here has ``get_params``, ``set_params`` and scikit-learn's protocols for copies (``__sklearn_clone__``) and
tags (``__sklearn_tags__``), so that pipelines, grid searches and ``sklearn.base.clone`` take it. Only ``isinstance`` of
``sklearn.base.BaseEstimator`` is false. Parameters are those of the constructor, as there.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any, ClassVar, Self, TypeVar

T = TypeVar("T")


class Conventions:
    """What scikit-learn expects of an estimator.

    Attributes
    ----------
    estimator_type : str or None
        ``classifier``, ``regressor`` or ``clusterer``, for scikit-learn's tags.
    """

    estimator_type: ClassVar[str | None] = None

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Names of the constructor's parameters, sorted."""
        return sorted(name for name in inspect.signature(cls.__init__).parameters if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; with ``deep`` also those of parameters that are estimators, as ``name__other``."""
        params: dict[str, Any] = {}
        for name in self._get_param_names():
            params[name] = value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params |= {f"{name}__{other}": each for other, each in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of a parameter that is an estimator as ``name__other``."""
        known, inner = self._get_param_names(), dict[str, dict[str, Any]]()
        for key, value in params.items():
            name, nested, other = key.partition("__")
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {', '.join(known)}."
                )
            if nested:
                inner.setdefault(name, {})[other] = value
            else:
                setattr(self, name, value)
        for name, others in inner.items():
            getattr(self, name).set_params(**others)
        return self

    def __sklearn_clone__(self) -> Self:
        """An unfitted estimator with copies of the parameters."""
        params = {name: clone(value) for name, value in self.get_params(deep=False).items()}
        return type(self)(**params)

    def __sklearn_tags__(self) -> Any:
        """What kind of estimator this is, in scikit-learn's terms."""
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

        supervised = self.estimator_type in ("classifier", "regressor")
        return Tags(
            estimator_type=self.estimator_type,
            target_tags=TargetTags(required=supervised),
            transformer_tags=None,
            regressor_tags=RegressorTags() if self.estimator_type == "regressor" else None,
            classifier_tags=ClassifierTags() if self.estimator_type == "classifier" else None,
        )

    def __repr__(self) -> str:
        """The constructor's call, with the parameters that are not at their defaults."""
        known = inspect.signature(type(self).__init__).parameters
        changed = []
        for name, value in self.get_params(deep=False).items():
            text = repr(value)
            if text != repr(known[name].default):
                changed.append(f"{name}={text}")
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str:
        """How notebooks show it."""
        from sklearn.utils import estimator_html_repr

        return str(estimator_html_repr(self))

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


class ClassifierConventions(Conventions):
    """Those of a classifier."""

    estimator_type = "classifier"

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the examples whose label is predicted right."""
        from sklearn.metrics import accuracy_score

        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))  # type: ignore[attr-defined]  # theirs


class RegressorConventions(Conventions):
    """Those of a regressor."""

    estimator_type = "regressor"

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2, the share of the targets' variance that the predictions explain."""
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X), sample_weight=sample_weight))  # type: ignore[attr-defined]  # theirs


def clone(value: T) -> T:
    """An unfitted copy of an estimator, a deep copy of anything else, as ``sklearn.base.clone(value, safe=False)``."""
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(clone(each) for each in value)
    if isinstance(value, Conventions):
        return value.__sklearn_clone__()
    if hasattr(value, "get_params") and not isinstance(value, type):
        from sklearn.base import clone as clone_other

        return clone_other(value)
    return copy.deepcopy(value)
