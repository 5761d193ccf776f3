"""``loglinear inspect``: what is in a model."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from loglinear.estimators.tagger import Tagger

EXAMPLES = """
[bold]Examples[/bold]

loglinear inspect chunker.model

loglinear inspect chunker.model --label B-NP --top 30

loglinear inspect chunker.model --json > chunker.json     (every weight)
"""


def inspect_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.")],
    top: Annotated[int, typer.Option(min=1, help="How many features to show for each label.")] = 5,
    label: Annotated[list[str] | None, typer.Option(help="Show this label only; may be given several times.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, all weights included.")] = False,
) -> None:
    """Show a model: sizes, options, the strongest features of each label, and what else it has."""
    from loglinear import model_file
    from loglinear.cli import inspect_classifier, inspect_mixture
    from loglinear.errors import OptionError
    from loglinear.estimators.tagger import Tagger

    stored = model_file.load(model)
    if stored.kind in inspect_mixture.KINDS:
        inspect_mixture.show_model(model, stored.kind, top, label, json)
        return
    if stored.kind in inspect_classifier.KINDS:
        inspect_classifier.inspect_linear(stored, model, top, label or [], json)
        return
    tagger = Tagger.load(model)
    chosen = label or tagger.classes_
    for name in chosen:
        if name not in tagger.classes_:
            raise OptionError(f"--label {name!r} is not one of the model's labels: {', '.join(tagger.classes_)}")
    states = tagger.model_.states_of(chosen)
    if json:
        typer.echo(json_module.dumps(_everything(tagger, model, states), ensure_ascii=False, indent=1))
    else:
        _show(tagger, model, states, top)


def _facts(tagger: Tagger, path: Path) -> dict[str, Any]:
    features = tagger.model_.features
    state, edge, transition, trigram = (segment.stop - segment.start for segment in features.segments)
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "labels": len(tagger.classes_),
        "sub_labels": tagger.model_.sub_labels,
        "criterion": tagger.criterion,
        "order": features.order,
        "attributes": tagger.model_.encoder.n_attributes,
        "hash_bits": tagger.hash_bits,
        "features": {"state": state, "edge": edge, "transition": transition, "trigram": trigram},
        "constraints": None if tagger.model_.constraints is None else tagger.model_.constraints.to_dict(),
        "training": {
            "objective": tagger.objective_,
            "iterations": tagger.n_iter_,
            "message": tagger.message_,
            "dev_score": tagger.dev_score_,
        },
    }


def _everything(tagger: Tagger, path: Path, states: list[str]) -> dict[str, Any]:
    wanted = set(states)
    options = tagger.get_params(deep=False)
    return {
        **_facts(tagger, path),
        "options": {k: v for k, v in options.items() if k not in ("template", "gazetteers", "constraints")},
        "template": None if tagger.template is None else str(tagger.template).splitlines(),
        "label_names": tagger.classes_,
        "transitions": [
            {"from": a, "to": b, "weight": w} for (a, b), w in tagger.transition_weights_.items() if wanted & {a, b}
        ],
        "trigrams": [
            {"first": a, "second": b, "third": c, "weight": w}
            for (a, b, c), w in tagger.trigram_weights_.items()
            if wanted & {a, b, c}
        ],
        "states": [
            {"attribute": a, "label": y, "weight": w} for (a, y), w in tagger.state_weights_.items() if y in wanted
        ],
        "edges": [
            {"attribute": a, "from": y, "to": z, "weight": w}
            for (a, y, z), w in tagger.edge_weights_.items()
            if wanted & {y, z}
        ],
    }


def _show(tagger: Tagger, path: Path, states: list[str], top: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from loglinear.generative.base import HmmBase

    out = Console(highlight=False)
    facts = _facts(tagger, path)
    counts = ", ".join(f"{n:,} {kind}" for kind, n in facts["features"].items() if n)
    labels = f"{facts['labels']} labels" + (f" of {facts['sub_labels']} sub-labels" if facts["sub_labels"] > 1 else "")
    out.print(
        f"{path}: {facts['bytes'] / 1e6:.2f} MB, {facts['criterion']}, order {facts['order']}, {labels}", markup=False
    )
    base = tagger.model_.base
    if isinstance(base, HmmBase):
        sizes = ", ".join(
            f"{len(values):,} of column {c}"
            for c, values in zip(base.vocabulary.columns, base.vocabulary.values, strict=True)
        )
        out.print(f"{base.kind}: {base.model.n_parameters:,} probabilities, values: {sizes}")
    if counts or base is None:
        kind = "attributes" if facts["hash_bits"] is None else f"of {1 << facts['hash_bits']:,} buckets"
        out.print(f"{facts['attributes']:,} {kind}, features: {counts}")
    if facts["hash_bits"] is not None:
        out.print("attributes are hashed into buckets: their names are not known")
    objective = facts["training"]["objective"]
    shown = "" if objective is None else f"; objective {objective:,.3f}"
    out.print(f"training: {facts['training']['message']}{shown}", markup=False, soft_wrap=True)

    if base is not None and not counts:
        out.print(_probabilities(tagger, states, top))
        return

    def strongest(weights: list[tuple[str, float]]) -> Text:
        ranked = sorted(weights, key=lambda pair: (-abs(pair[1]), pair[0]))[:top]
        return Text("\n".join(f"{weight:+8.3f}  {name}" for name, weight in ranked))

    features: dict[str, list[tuple[str, float]]] = {name: [] for name in states}
    for (attribute, name), weight in tagger.state_weights_.items():
        if name in features:
            features[name].append((attribute, weight))
    for (attribute, before, name), weight in tagger.edge_weights_.items():
        if name in features:
            features[name].append((f"{attribute}  after {before}", weight))
    following: dict[str, list[tuple[str, float]]] = {name: [] for name in states}
    for (before, name), weight in tagger.transition_weights_.items():
        if before in following:
            following[before].append((f"-> {name}", weight))
    for (first, second, third), weight in tagger.trigram_weights_.items():
        if first in following:
            following[first].append((f"-> {second} -> {third}", weight))
    table = Table("label", "strongest features", "strongest transitions", show_lines=True)
    for name in states:
        table.add_row(Text(name), strongest(features[name]), strongest(following[name]))
    out.print(table)


def _probabilities(tagger: Tagger, states: list[str], top: int) -> Table:
    """Of a hidden Markov model: the values that each label most often has, and what follows it."""
    from rich.table import Table
    from rich.text import Text

    model, base = tagger.model_, tagger.model_.hmm_base
    visits = base.model.inflow

    def greatest(names: list[str], probabilities: list[float]) -> Text:
        ranked = sorted(zip(probabilities, names, strict=True), key=lambda pair: (-pair[0], pair[1]))[:top]
        return Text("\n".join(f"{p:6.4f}  {name}" for p, name in ranked if p > 0.0))

    table = Table("label", *(f"values of column {c}" for c in base.vocabulary.columns), "next label", show_lines=True)
    following = [*(f"-> {name}" for name in model.states), "(end)"]
    for y, name in enumerate(model.states):
        if name in states:
            same = base.model.label_of == y
            total = float(visits[same].sum())
            after = base.model.steps[:-1][same] * visits[same][:, None] / (total or 1.0)
            values = [
                greatest(strings, emission[y].tolist())
                for strings, emission in zip(base.vocabulary.values, base.model.emissions, strict=True)
            ]
            table.add_row(Text(name), *values, greatest(following, after.sum(axis=0).tolist()))
    return table
