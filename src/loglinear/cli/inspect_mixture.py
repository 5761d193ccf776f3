"""``loglinear inspect`` for mixtures and naive Bayes: their components, and what tells each from the others."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from loglinear.experiments.table import Table

    Float = npt.NDArray[np.float64]

KINDS = ("mixture", "naive-bayes")


def show_model(path: Path, kind: str, top: int, labels: list[str] | None, as_json: bool) -> None:
    """Show a model of one of the :data:`KINDS`."""
    from rich.console import Console

    from loglinear.cli.common import show_table
    from loglinear.estimators.mixture import Mixture
    from loglinear.estimators.naive_bayes import NaiveBayes

    model = Mixture.load(path) if kind == "mixture" else NaiveBayes.load(path)
    names = component_labels(model)
    chosen = _chosen(labels, names)
    if as_json:
        typer.echo(json_module.dumps(_everything(model, path, kind, names, chosen), ensure_ascii=False, indent=1))
        return
    out = Console(highlight=False)
    size = f"{path.stat().st_size / 1e3:,.1f} kB"
    what = "naive Bayes" if kind == "naive-bayes" else f"a mixture of {_what(model)}"
    out.print(f"{path}: {size}, {what}, {len(names)} {_things(model)}, {model.n_features_in_:,} columns", markup=False)
    if kind == "mixture":
        out.print(f"training: {model.message_}", markup=False, soft_wrap=True)
    show_table(component_table(model, top, chosen), out)


def component_labels(model: Any) -> list[str]:
    """What the components, or classes, are called."""
    if hasattr(model, "component_names_"):
        return [str(k) if name is None else name for k, name in enumerate(model.component_names_)]
    return [str(label) for label in model.classes_]


def component_table(model: Any, top: int, chosen: list[int] | None = None) -> Table:
    """Share of each component, and the columns that tell it from the others."""
    import numpy as np

    from loglinear.experiments.table import Table

    names = component_labels(model)
    shares = model.weights_ if hasattr(model, "weights_") else np.exp(model.class_log_prior_)
    gaussian = getattr(model, "components", "multinomial") == "gaussian"
    columns = ["component" if hasattr(model, "weights_") else "label", "share", _telling_title(gaussian)]
    table = Table(_things(model)[0].upper() + _things(model)[1:], columns)
    for k in range(len(names)) if chosen is None else chosen:
        telling = _telling_means(model, k, top) if gaussian else _telling_words(model.feature_log_prob_, shares, k, top)
        cells = _cells(model, telling, gaussian)
        table.add(names[k], [float(shares[k])], [f"{shares[k]:.1%}", cells])
    return table


def _telling_title(gaussian: bool) -> str:
    return "means far from all rows' (in deviations)" if gaussian else "columns (how much more often)"


def _cells(model: Any, telling: list[tuple[int, float, float]], gaussian: bool) -> str:
    names = getattr(model, "feature_names_in_", None)

    def name(j: int) -> str:
        return f"column {j}" if names is None else str(names[j])

    if gaussian:
        return ", ".join(f"{name(j)} {value:.4g} ({far:+.1f})" for j, value, far in telling)
    return ", ".join(f"{name(j)} ({ratio:.1f}x)" for j, _, ratio in telling)


def _telling_means(model: Any, k: int, top: int) -> list[tuple[int, float, float]]:
    """Columns whose mean is farthest from that of all rows: number, mean, distance in standard deviations."""
    import numpy as np

    far = (model.means_[k] - model.weights_ @ model.means_) / np.sqrt(model.model_.components.prior.spread)
    best = np.argsort(-np.abs(far), kind="stable")[:top]
    return [(int(j), float(model.means_[k, j]), float(far[j])) for j in best]


def _telling_words(log_theta: Float, shares: Float, k: int, top: int) -> list[tuple[int, float, float]]:
    """Words j with the greatest theta_kj log(theta_kj / theta_j): number, theta_kj, theta_kj / theta_j."""
    import numpy as np

    theta = np.exp(log_theta)
    overall = shares @ theta
    gain = theta[k] * np.log(theta[k] / overall) if len(shares) > 1 else theta[k]
    best = np.argsort(-gain, kind="stable")[:top]
    return [(int(j), float(theta[k, j]), float(theta[k, j] / overall[j])) for j in best]


def _everything(model: Any, path: Path, kind: str, names: list[str], chosen: list[int]) -> dict[str, Any]:
    import numpy as np

    columns = getattr(model, "feature_names_in_", None)
    facts: dict[str, Any] = {
        "file": str(path),
        "bytes": path.stat().st_size,
        "kind": kind,
        "options": {k: v if not hasattr(v, "tolist") else v.tolist() for k, v in model.get_params(deep=False).items()},
        "columns": None if columns is None else columns.tolist(),
    }
    if kind == "mixture":
        facts["training"] = {
            "rounds": model.n_iter_,
            "converged": model.converged_,
            "message": model.message_,
            "log_likelihoods": model.log_likelihoods_,
            "objectives": model.objectives_,
        }
    shares = model.weights_ if kind == "mixture" else np.exp(model.class_log_prior_)
    gaussian = getattr(model, "components", None) == "gaussian"
    facts["components"] = []
    for k in chosen:
        entry: dict[str, Any] = {"name": names[k], "share": float(shares[k])}
        if gaussian:
            of_one = model.covariance not in ("known", "tied")
            entry["mean"] = model.means_[k].tolist()
            entry["covariance"] = (model.covariances_[k] if of_one else model.covariances_).tolist()
        else:
            entry["probabilities"] = np.exp(model.feature_log_prob_[k]).tolist()
        facts["components"].append(entry)
    return facts


def _chosen(labels: list[str] | None, names: list[str]) -> list[int]:
    from loglinear.errors import OptionError

    if not labels:
        return list(range(len(names)))
    for label in labels:
        if label not in names:
            raise OptionError(f"--label {label!r} is not one of the model's: {', '.join(names)}")
    return [names.index(label) for label in labels]


def _what(model: Any) -> str:
    if model.components == "multinomial":
        return "multinomials"
    return f"Gaussians ({model.model_.components.covariance} covariance)"


def _things(model: Any) -> str:
    return "components" if hasattr(model, "component_names_") else "labels"
