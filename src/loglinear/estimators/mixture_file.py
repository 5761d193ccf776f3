"""What of a mixture stands in a model file, and how it is read back with every bound checked.

header   options, components (gaussian or multinomial), names, training (rounds, converged, message), mean_length;
         words (free notes on how columns were made, for the command line)
arrays   log_weights [K], log_likelihoods, objectives; means [K, D], covariances, spread [D]; or log_theta [K, D];
         columns (packed strings); start [K, D] if centres were given
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.errors import LoglinearError, ModelFileError
from loglinear.estimators.mixture_options import FLOOR, KINDS, check_mixture
from loglinear.estimators.stored_names import checked_floats, checked_log_shares, restore_columns, store_columns
from loglinear.generative.gaussian_covariance import SHAPES, CovariancePrior
from loglinear.generative.mixture import MixtureModel
from loglinear.generative.mixture_components import GaussianComponents, MultinomialComponents

KIND = "mixture"
Arrays = dict[str, npt.NDArray[Any]]


def to_storage(mixture: Any) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a model file."""
    theta = mixture.model_.components
    options = {name: _plain(value) for name, value in mixture.get_params(deep=False).items()}
    arrays: Arrays = {
        "log_weights": mixture.model_.log_weights,
        "log_likelihoods": np.array(mixture.log_likelihoods_),
        "objectives": np.array(mixture.objectives_),
        **store_columns(mixture),
    }
    if not isinstance(mixture.start, str):
        options["start"] = None
        arrays["start"] = np.array(mixture.start, dtype=np.float64)
    header = {
        "options": options,
        "names": mixture.component_names_,
        "training": {"rounds": mixture.n_iter_, "converged": mixture.converged_, "message": mixture.message_},
        "source": mixture.source_,
    }
    if isinstance(theta, MultinomialComponents):
        header |= {"components": "multinomial", "mean_length": theta.mean_length, "smoothing": theta.smoothing}
        arrays["log_theta"] = theta.log_theta
    else:
        header |= {"components": "gaussian", "covariance": theta.covariance, "smoothing": theta.prior.smoothing}
        arrays |= {"means": theta.means, "covariances": theta.covariances, "spread": theta.prior.spread}
    return header, arrays


def from_storage(cls: Any, header: dict[str, Any], arrays: Arrays, name: str) -> Any:
    """The estimator; what does not fit is a ModelFileError."""
    try:
        return _checked(cls, header, arrays)
    except (LoglinearError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        detail = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ModelFileError(f"{name}: the model file's content does not fit together ({detail}); train anew") from None


def _checked(cls: Any, header: dict[str, Any], arrays: Arrays) -> Any:
    options = dict(header["options"])
    if options.get("start") is None:
        options["start"] = np.array(arrays["start"])
    mixture = cls(**options)
    check_mixture(mixture)
    k, kind = mixture.n_components, header["components"]
    if kind not in KINDS or kind != mixture.components:
        raise ValueError("the components cannot be read")
    theta = _multinomials(header, arrays, k) if kind == "multinomial" else _gaussians(header, arrays, mixture, k)
    mixture.model_ = MixtureModel(checked_log_shares(arrays["log_weights"], k, "shares of components"), theta)
    names = header["names"]
    if not isinstance(names, list) or len(names) != k or not all(n is None or isinstance(n, str) for n in names):
        raise ValueError("the names of the components cannot be read")
    mixture.component_names_ = names
    d = int((theta.log_theta if isinstance(theta, MultinomialComponents) else theta.means).shape[1])
    restore_columns(mixture, arrays, d)
    notes, n = header["training"], arrays["objectives"].size
    mixture.n_iter_, mixture.converged_ = int(notes["rounds"]), bool(notes["converged"])
    mixture.message_ = str(notes["message"])
    mixture.objectives_ = checked_floats(arrays["objectives"], (n,), "objectives").tolist()
    mixture.log_likelihoods_ = checked_floats(arrays["log_likelihoods"], (n,), "log-likelihoods").tolist()
    mixture.source_ = header["source"]
    return mixture


def _multinomials(header: dict[str, Any], arrays: Arrays, k: int) -> MultinomialComponents:
    log_theta = checked_floats(arrays["log_theta"], (k, int(arrays["log_theta"].shape[1])), "probabilities")
    length, smoothing = float(header["mean_length"]), float(header["smoothing"])
    if not 0.0 <= length < np.inf or not 0.0 < smoothing < np.inf:
        raise ValueError("the prior cannot be read")
    return MultinomialComponents(log_theta, smoothing, length)


def _gaussians(header: dict[str, Any], arrays: Arrays, mixture: Any, k: int) -> GaussianComponents:
    covariance, d = header["covariance"], int(arrays["means"].shape[1])
    if covariance not in SHAPES:
        raise ValueError("the shape of the covariances cannot be read")
    shape = SHAPES[covariance]
    means = checked_floats(arrays["means"], (k, d), "means")
    covariances = checked_floats(arrays["covariances"], shape.array_shape(k, d), "covariances")
    spread = checked_floats(arrays["spread"], (d,), "variances of the columns")
    expanded = shape.expanded(covariances, k, d)
    if shape.axial:
        positive = bool((expanded > 0.0).all())
    else:
        positive = bool((np.linalg.eigvalsh(expanded) > 0.0).all()) and np.array_equal(
            expanded, np.swapaxes(expanded, 1, 2)
        )
    smoothing = float(header["smoothing"])
    if not positive or not (spread > 0.0).all() or not 0.0 <= smoothing < np.inf:
        raise ValueError("the covariances are not positive")
    floor = FLOOR if mixture.floor is None else float(mixture.floor)
    return GaussianComponents(means, covariances, covariance, CovariancePrior(spread, smoothing, floor))


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item() if isinstance(value, np.generic) else value
