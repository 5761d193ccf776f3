"""``loglinear inspect`` for linear models: classifiers and regressions."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from loglinear.errors import OptionError

if TYPE_CHECKING:
    from loglinear.model_file import ModelFile

KINDS = ("classifier", "ridge", "least-squares")
Weights = dict[str, dict[str, float]]  #: for each label (or target) the weight of each feature
BIAS = "(bias)"


def inspect_linear(stored: ModelFile, path: Path, top: int, chosen: list[str], json: bool) -> None:
    """Show a linear model, of some labels (or targets) or all: sizes, options, the strongest weights."""
    facts, parts = _classifier(stored, path) if stored.kind == "classifier" else _regression(stored, path)
    known = facts["label_names"]
    for name in chosen:
        if name not in known:
            raise OptionError(f"--label {name!r} is not one of the model's labels: {', '.join(known)}")
    shown = {
        part: {name: own for name, own in weights.items() if not chosen or name in chosen or name == ANY}
        for part, weights in parts.items()
    }
    if json:
        listed = {
            part: [
                {"label": name, "feature": feature, "weight": weight}
                for name, own in weights.items()
                for feature, weight in own.items()
            ]
            for part, weights in shown.items()
        }
        typer.echo(json_module.dumps({**facts, **listed}, ensure_ascii=False, indent=1))
    else:
        _show(facts, shown, top)


ANY = "(all labels)"


def _classifier(stored: ModelFile, path: Path) -> tuple[dict[str, Any], dict[str, Weights]]:
    from loglinear.estimators import classifier_file
    from loglinear.estimators.candidate_model import CandidateModel

    model = classifier_file.from_storage(stored.header, stored.arrays, str(path), None)
    labels = [str(label) for label in model.labels.tolist()]
    facts = _facts(stored, path, labels)
    if isinstance(model, CandidateModel):
        names = model.encoder.names.names()
        facts["kind"] = "classifier with a feature map"
        return facts | {"features": len(names)}, {
            "weights": {ANY: dict(zip(names, model.weights.tolist(), strict=True))}
        }
    names = model.encoder.names()
    parts = {"weights": _named(names, labels, model.scores.coef, model.scores.intercept)}
    if model.base is not None:
        learnt = model.scores.minus(model.base)
        parts = {
            "base": _named(names, labels, model.base.coef, model.base.intercept),
            "learnt": _named(names, labels, learnt.coef, learnt.intercept),
        }
    return facts | {"features": len(names), "inputs": model.encoder.kind}, parts


def _regression(stored: ModelFile, path: Path) -> tuple[dict[str, Any], dict[str, Weights]]:
    from loglinear.estimators.ridge import LeastSquares, Ridge

    model = (Ridge if stored.kind == Ridge.kind else LeastSquares).load(path)
    coef, intercept = stored.arrays["coef"], stored.arrays["intercept"]
    named = getattr(model, "feature_names_in_", None)
    names = [f"x{i}" for i in range(coef.shape[1])] if named is None else named.tolist()
    targets = [f"y{t}" for t in range(len(coef))] if len(coef) > 1 else ["y"]
    own = {
        target: {BIAS: float(b)} | dict(zip(names, row.tolist(), strict=True))
        for target, row, b in zip(targets, coef, intercept, strict=True)
    }
    return _facts(stored, path, targets) | {"features": len(names)}, {"weights": own}


def _facts(stored: ModelFile, path: Path, labels: list[str]) -> dict[str, Any]:
    return {
        "file": str(path),
        "bytes": stored.size,
        "kind": stored.kind,
        "labels": len(labels),
        "label_names": labels,
        "options": dict(stored.header["options"]),
        "training": {
            name: stored.header["training"].get(name) for name in ("objective", "iterations", "message", "dev_score")
        },
    }


def _named(names: list[str], labels: list[str], coef: Any, intercept: Any) -> Weights:
    """The weights of each label; with two labels those of the first are those of the second with the other sign."""
    rows = (
        [(-coef[0], -intercept[0]), (coef[0], intercept[0])] if len(labels) == 2 else zip(coef, intercept, strict=True)
    )
    return {
        label: {BIAS: float(b)} | dict(zip(names, row.tolist(), strict=True))
        for label, (row, b) in zip(labels, rows, strict=True)
    }


def _show(facts: dict[str, Any], parts: dict[str, Weights], top: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    out, options = Console(highlight=False), facts["options"]
    what = "label" if facts["kind"].startswith("classifier") else "target"
    several = "" if facts["labels"] == 1 else "s"
    out.print(
        f"{facts['file']}: {facts['bytes'] / 1e6:.2f} MB, {facts['kind']}, {facts['labels']:,} {what}{several}, "
        f"{facts['features']:,} features", markup=False, soft_wrap=True,
    )  # fmt: skip
    given = ", ".join(f"{name}={value}" for name, value in options.items() if value is not None)
    out.print(f"options: {given}", markup=False, soft_wrap=True)
    training = facts["training"]
    objective = "" if training["objective"] is None else f"; objective {training['objective']:,.3f}"
    out.print(f"training: {training['message'] or 'not finished'}{objective}", markup=False, soft_wrap=True)
    if "base" in parts:
        out.print("scores are the sum of the base's and the learnt ones", markup=False)

    def strongest(own: dict[str, float]) -> Text:
        features = [pair for pair in own.items() if pair[0] != BIAS]
        ranked = sorted(features, key=lambda pair: (-abs(pair[1]), pair[0]))[:top]
        lines = [f"{weight:+8.3f}  {name}" for name, weight in ranked]
        return Text("\n".join([*([f"{own[BIAS]:+8.3f}  {BIAS}"] if BIAS in own else []), *lines]))

    table = Table(what, *(f"strongest {name}" for name in parts), show_lines=True)
    for label in next(iter(parts.values())):
        table.add_row(Text(label), *(strongest(weights[label]) for weights in parts.values()))
    out.print(table)
