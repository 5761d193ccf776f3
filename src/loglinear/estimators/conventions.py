"""scikit-learn's conventions for estimators, without importing scikit-learn, which takes over a second.

An estimator here has ``get_params``, ``set_params`` and scikit-learn's protocols for copies (``__sklearn_clone__``),
tags (``__sklearn_tags__``) and the routing of metadata (``set_fit_request``, ``get_metadata_routing``), so that
pipelines, grid searches and ``sklearn.base.clone`` take it. Only ``isinstance`` of ``sklearn.base.BaseEstimator`` is
false. Parameters are those of the constructor, as there.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any, ClassVar, Self, TypeVar

from loglinear.errors import DataError, NotOfferedError, OptionError

T = TypeVar("T")
ROUTED = ("fit", "partial_fit", "predict", "predict_proba", "score")  #: methods that metadata can be routed to
DATA = ("self", "X", "y", "classes")  #: arguments that are none


class OfferedIf:
    """Decorator: an estimator has the method only if ``check`` of it raises no OptionError.

    As ``sklearn.utils.metaestimators.available_if``: scikit-learn asks ``hasattr(estimator, "partial_fit")``.
    """

    def __init__(self, check: Callable[[Any], Any]) -> None:
        self.check = check

    def __call__(self, method: Callable[..., Any]) -> Any:
        self.method, self.__doc__ = method, method.__doc__
        return self

    def __get__(self, estimator: Any, kind: type | None = None) -> Any:
        if estimator is None:
            return self.method
        try:
            self.check(estimator)
        except OptionError as error:
            raise NotOfferedError(str(error)) from None
        return MethodType(self.method, estimator)


class Conventions:
    """What scikit-learn expects of an estimator.

    Attributes
    ----------
    estimator_type : str or None
        ``classifier``, ``regressor`` or ``clusterer``, for scikit-learn's tags.
    """

    estimator_type: ClassVar[str | None] = None
    _metadata_request: dict[str, dict[str, Any]]

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
        copied = type(self)(**params)
        if hasattr(self, "_metadata_request"):
            copied._metadata_request = copy.deepcopy(self._metadata_request)
        return copied

    # -- metadata, such as sample_weight, through pipelines and searches --------------------------------------------

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Give each method whose keywords are metadata a ``set_METHOD_request``, as scikit-learn's estimators have."""
        super().__init_subclass__(**keywords)
        for method in ROUTED:
            if _metadata_of(cls, method) and f"set_{method}_request" not in vars(cls):
                setattr(cls, f"set_{method}_request", _requester(method))

    def get_metadata_routing(self) -> Any:
        """What metadata the methods take, and which of them was asked for: scikit-learn's ``MetadataRequest``."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request, asked = MetadataRequest(owner=self), getattr(self, "_metadata_request", {})
        for method in ROUTED:
            for name in _metadata_of(type(self), method):
                getattr(request, method).add_request(param=name, alias=asked.get(method, {}).get(name))
        return request

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


def _metadata_of(cls: type, method: str) -> list[str]:
    """The keywords of a method that are metadata; none if the class has no such method."""
    function = getattr(cls, method, None)
    if function is None:
        return []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = inspect.signature(function).parameters.values()
    return [each.name for each in named if each.name not in DATA and each.kind not in kinds]


def _requester(method: str) -> Any:
    """The method ``set_METHOD_request``."""

    def set_request(self: Any, **metadata: bool | str | None) -> Any:
        from sklearn import get_config

        if not get_config().get("enable_metadata_routing"):
            raise RuntimeError(
                "metadata is routed only after sklearn.set_config(enable_metadata_routing=True); without, "
                "cross_validate and searches hand over what params or fit say"
            )
        known = _metadata_of(type(self), method)
        if unknown := sorted(set(metadata) - set(known)):
            raise TypeError(f"{method} takes no {unknown[0]!r}; it takes {', '.join(known)}")
        self._metadata_request = copy.deepcopy(getattr(self, "_metadata_request", {}))
        self._metadata_request.setdefault(method, {}).update(metadata)
        self.get_metadata_routing()  # refuses anything but a name
        return self

    set_request.__name__ = f"set_{method}_request"
    set_request.__doc__ = f"""Ask pipelines and searches to hand metadata to :meth:`{method}`: True, False, or an alias.

    Needs ``sklearn.set_config(enable_metadata_routing=True)``.
    """
    return set_request


class ClassifierConventions(Conventions):
    """Those of a classifier."""

    estimator_type = "classifier"

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the examples whose label is predicted right."""
        from sklearn.metrics import accuracy_score

        predicted = self.predict(X)  # type: ignore[attr-defined]  # theirs
        try:
            return float(accuracy_score(y, predicted, sample_weight=sample_weight))
        except ValueError as error:  # labels of another type, or another number of them
            raise DataError(f"the labels cannot be compared with the model's: {error}") from None


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
