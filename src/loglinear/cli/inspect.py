"""``loglinear inspect``: what is in a model."""

from __future__ import annotations

import json as json_module
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loglinear.errors import OptionError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from loglinear.arrays import Float
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.experiments.tables import Table as TextTable
    from loglinear.model_file import ModelFile

    Float = Float


def inspect_command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.")],
    top: Annotated[int, typer.Option(min=1, help="How many features to show for each label.")] = 5,
    label: Annotated[list[str] | None, typer.Option(help="Show this label only; may be given several times.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, all weights included.")] = False,
) -> None:
    """Show a model: sizes, options, the strongest features of each label, and what else it has.

    Examples
    --------
    loglinear inspect chunker.model
    loglinear inspect chunker.model --label B-NP --top 30
    loglinear inspect chunker.model --json > chunker.json     (every weight)
    """
    from loglinear import model_file
    from loglinear.errors import ModelKindError, OptionError
    from loglinear.estimators.tagger import file as tagger_file
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.model_file import Reader

    stored = model_file.load(model)
    if stored.kind in MIXTURE_KINDS:
        show_model(model, stored.kind, top, label, json)
        return
    if stored.kind in LINEAR_KINDS:
        inspect_linear(stored, model, top, label or [], json)
        return
    if stored.kind in PARSER_KINDS:
        inspect_parser(stored, top, label or [], json)
        return
    if stored.kind != Tagger.kind:
        raise ModelKindError(str(model), stored.kind, Tagger.kind)
    own = tagger_file.is_over_own_base(Reader.of(stored))
    tagger = Tagger.load(model, base=_NotInTheFile(str(stored.header["base"].get("name"))) if own else None)
    chosen = label or tagger.classes_
    for name in chosen:
        if name not in tagger.classes_:
            raise OptionError(f"--label {name!r} is not one of the model's labels: {', '.join(tagger.classes_)}")
    states = tagger.model_.states_of(chosen)
    if json:
        typer.echo(json_module.dumps(_everything(tagger, model, states), ensure_ascii=False, indent=1))
    else:
        _show(tagger, model, states, top)


class _NotInTheFile:
    """Stands for a function or a base of the user's own, where a model is looked at without it."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __call__(self, *arguments: Any) -> Any:
        raise NotImplementedError

    log_prob = sample = __call__


# The weights of each kind of features as JSON: the list's name, the names of its entries, how many of them are labels.
WEIGHTS = {
    "transition": ("transitions", ("from", "to"), 2),
    "trigram": ("trigrams", ("first", "second", "third"), 3),
    "state": ("states", ("attribute", "label"), 1),
    "edge": ("edges", ("attribute", "from", "to"), 2),
    "segment": ("segments", ("attribute", "label"), 1),
    "length": ("lengths", ("length", "label"), 1),
}


def _facts(tagger: Tagger, path: Path) -> dict[str, Any]:
    model = tagger.model_
    sizes = [segment.stop - segment.start for segment in model.features.segments]
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "labels": len(tagger.classes_),
        "sub_labels": model.sub_labels,
        "criterion": tagger.criterion,
        "structure": model.structure_name,
        "order": model.order,
        "attributes": model.encoder.n_attributes,
        "hash_bits": tagger.hash_bits,
        "features": dict(zip(model.kinds, sizes, strict=True)),
        "constraints": None if model.constraints is None else model.constraints.to_dict(),
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
        "options": {k: v for k, v in options.items() if k not in ("template", "gazetteers", "constraints")}
        | ({"base": tagger.base.name} if isinstance(tagger.base, _NotInTheFile) else {}),
        "template": None if tagger.template is None else str(tagger.template).splitlines(),
        "label_names": tagger.classes_,
        **{
            WEIGHTS[kind][0]: [
                {**dict(zip(WEIGHTS[kind][1], names, strict=True)), "weight": weight}
                for names, weight in tagger.model_.named(kind).items()
                if wanted & set(names[-WEIGHTS[kind][2] :])
            ]
            for kind in WEIGHTS
            if kind in tagger.model_.kinds
        },
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
    shape = f"order {facts['order']}" if facts["structure"] == "chain" else facts["structure"]
    out.print(f"{path}: {facts['bytes'] / 1e6:.2f} MB, {facts['criterion']}, {shape}, {labels}", markup=False)
    base = tagger.model_.base
    if isinstance(base, HmmBase):
        sizes = ", ".join(
            f"{len(values):,} of column {c}"
            for c, values in zip(base.vocabulary.columns, base.vocabulary.values, strict=True)
        )
        out.print(f"{base.kind}: {base.model.n_parameters:,} probabilities, values: {sizes}")
    if isinstance(tagger.base, _NotInTheFile):
        out.print(f"trained over a base that is not in the file: {tagger.base.name:.80}", markup=False)
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
    following: dict[str, list[tuple[str, float]]] = {name: [] for name in states}
    for kind in tagger.model_.kinds:
        for names, weight in tagger.model_.named(kind).items():
            if kind in ("transition", "trigram"):
                if names[0] in following:
                    following[names[0]].append(("".join(f"-> {name} " for name in names[1:]).strip(), weight))
            elif names[-1] in features:
                what = f"length={names[0]}" if kind == "length" else "  after ".join(names[:-1])
                features[names[-1]].append((what, weight))
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


# ----------------------------------------------------------------------------------------------------------------------
# ``loglinear inspect`` for linear models: classifiers and regressions.


LINEAR_KINDS = ("classifier", "ridge", "least-squares")
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
        _show_linear(facts, shown, top)


ANY = "(all labels)"


def _classifier(stored: ModelFile, path: Path) -> tuple[dict[str, Any], dict[str, Weights]]:
    from loglinear.estimators.classifier import file as classifier_file
    from loglinear.estimators.classifier.model import CandidateModel
    from loglinear.model_file import Reader

    model = classifier_file.from_storage(Reader.of(stored), {})
    labels = [str(label) for label in model.labels.tolist()]
    facts = _linear_facts(stored, path, labels)
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
    from loglinear.estimators.classifier.ridge import LeastSquares, Ridge

    model = (Ridge if stored.kind == Ridge.kind else LeastSquares).load(path)
    coef, intercept = stored.arrays["coef"], stored.arrays["intercept"]
    named = getattr(model, "feature_names_in_", None)
    names = [f"x{i}" for i in range(coef.shape[1])] if named is None else named.tolist()
    targets = [f"y{t}" for t in range(len(coef))] if len(coef) > 1 else ["y"]
    own = {
        target: {BIAS: float(b)} | dict(zip(names, row.tolist(), strict=True))
        for target, row, b in zip(targets, coef, intercept, strict=True)
    }
    return _linear_facts(stored, path, targets) | {"features": len(names)}, {"weights": own}


def _linear_facts(stored: ModelFile, path: Path, labels: list[str]) -> dict[str, Any]:
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


def _show_linear(facts: dict[str, Any], parts: dict[str, Weights], top: int) -> None:
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


# ----------------------------------------------------------------------------------------------------------------------
# ``loglinear inspect`` for mixtures and naive Bayes: their components, and what tells each from the others.


MIXTURE_KINDS = ("mixture", "naive-bayes")


def show_model(path: Path, kind: str, top: int, labels: list[str] | None, as_json: bool) -> None:
    """Show a model of one of the :data:`MIXTURE_KINDS`."""
    from rich.console import Console

    from loglinear.cli.common import show_table
    from loglinear.estimators.mixture import Mixture
    from loglinear.estimators.naive_bayes import NaiveBayes

    model = Mixture.load(path) if kind == "mixture" else NaiveBayes.load(path)
    names = component_labels(model)
    chosen = _chosen(labels, names)
    if as_json:
        typer.echo(json_module.dumps(_all_of_mixture(model, path, kind, names, chosen), ensure_ascii=False, indent=1))
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


def component_table(model: Any, top: int, chosen: list[int] | None = None) -> TextTable:
    """Share of each component, and the columns that tell it from the others."""
    import numpy as np

    from loglinear.experiments.tables import Table as TextTable

    names = component_labels(model)
    shares = model.weights_ if hasattr(model, "weights_") else np.exp(model.class_log_prior_)
    gaussian = getattr(model, "components", "multinomial") == "gaussian"
    columns = ["component" if hasattr(model, "weights_") else "label", "share", _telling_title(gaussian)]
    table = TextTable(_things(model)[0].upper() + _things(model)[1:], columns)
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


def _all_of_mixture(model: Any, path: Path, kind: str, names: list[str], chosen: list[int]) -> dict[str, Any]:
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


# ----------------------------------------------------------------------------------------------------------------------
# ``loglinear inspect`` for parsers: what they were trained on, their sizes, and the rules of each symbol.


PARSER_KINDS = ("parser", "dependency-parser")


def inspect_parser(stored: ModelFile, top: int, chosen: list[str], json: bool) -> None:
    """Show a parser: sizes, options, and of one of phrases the strongest rules."""
    from rich.console import Console

    phrases = stored.kind == "parser"
    facts, rules = _phrase_parser(stored) if phrases else (_dependency_parser(stored), {})
    for name in chosen:
        if name not in rules:
            raise OptionError(
                f"--label {name!r} is not one of the model's symbols: {', '.join(rules) or 'it has none'}"
            )
    shown = {name: own for name, own in rules.items() if not chosen or name in chosen}
    if json:
        if phrases:
            value = facts["rules_are"]
            facts["rules"] = {
                name: [{"rule": rule, value: number if math.isfinite(number) else None} for rule, number in own]
                for name, own in shown.items()
            }
        typer.echo(json_module.dumps(facts, ensure_ascii=False, indent=1))
        return
    out = Console(highlight=False)
    out.print(f"{stored.name}: {stored.size / 1e6:.2f} MB, {stored.kind}", markup=False, soft_wrap=True)
    for name in ("options", "sizes", "training"):
        listed = ", ".join(f"{key}={value}" for key, value in facts[name].items() if value is not None)
        out.print(f"{name}: {listed}", markup=False, soft_wrap=True)
    if phrases:
        _show_rules(out, facts["rules_are"], shown, top)
    else:
        for name in ("tags", "relations"):
            out.print(f"{name}: {', '.join(facts[name] or ['none'])}", markup=False, soft_wrap=True)


def _show_rules(out: Console, value: str, rules: dict[str, list[tuple[str, float]]], top: int) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("symbol", "rules", f"strongest, with their {value}", show_lines=True)
    for name, own in rules.items():
        lines = [f"{value:8.4f}  {rule}" for rule, value in own[:top]]
        table.add_row(Text(name), f"{len(own):,}", Text("\n".join(lines)))
    out.print(table)


def _phrase_parser(stored: ModelFile) -> tuple[dict[str, Any], dict[str, list[tuple[str, float]]]]:
    """Facts, and for each symbol its rules, strongest first."""
    from loglinear.estimators.parser.estimator import Parser
    from loglinear.estimators.parser.file import is_with_function
    from loglinear.generative.pcfg.model import PCFG
    from loglinear.model_file import Reader

    read = Reader.of(stored)
    parser = Parser._read(read, {"span_features": _NotInTheFile() if is_with_function(read) else None})
    model: Any = parser.model_
    sizes = {"symbols": len(model.coder.symbols), "tags": model.coder.n_tags, "words": len(model.lexicon.terminals)}
    binary: Any = model.grammar.binary
    if isinstance(model, PCFG):
        value, scores, chains, chain_scores = "probability", model.binary, model.unary_rules.tolist(), model.unary
        binary = model.binary_rules
    else:
        outcomes = model.features.outcomes
        alone = model.features.pieces.offsets + model.weights[: outcomes.n_outcomes]
        value, scores, chains, chain_scores = (
            "score",
            alone[outcomes.of_rule],
            model.coder.chains,
            alone[outcomes.of_step],
        )
        sizes["features"] = len(model.weights)
    sizes |= {"binary rules": len(scores), "unary rules": len(chains)}
    symbols, rules = model.coder.symbols, dict[str, list[tuple[str, float]]]()
    for join, numbers, own in ((" ", binary.tolist(), scores), (" -> ", chains, chain_scores)):
        for (parent, *children), score in zip(numbers, own.tolist(), strict=True):
            rules.setdefault(symbols[parent], []).append((join.join(symbols[child] for child in children), score))
    ranked = {name: sorted(own, key=lambda pair: (-pair[1], pair[0])) for name, own in sorted(rules.items())}
    facts = _parser_facts(stored, parser, sizes) | {"label_names": parser.classes_, "rules_are": value}
    return facts, ranked


def _dependency_parser(stored: ModelFile) -> dict[str, Any]:
    from loglinear.estimators.dependency.estimator import DependencyParser
    from loglinear.model_file import Reader

    parser = DependencyParser._read(Reader.of(stored), {})
    model = parser.model_
    sizes = {"tags": len(model.vocabulary.tags), "words": len(model.vocabulary.words)}
    sizes |= {"features": model.encoder.n_features}
    if model.base is not None:
        sizes["contexts of the base"] = len(model.base.contexts)
    if model.relations is not None:
        sizes["features of relations"] = len(model.relations.weights)
    facts = _parser_facts(stored, parser, sizes)
    relations = None if model.relations is None else model.relations.labels
    return facts | {"tags": model.vocabulary.tags, "tag_column": model.tags, "relations": relations}


def _parser_facts(stored: ModelFile, parser: Any, sizes: dict[str, int]) -> dict[str, Any]:
    return {
        "file": stored.name,
        "bytes": stored.size,
        "kind": stored.kind,
        "options": parser._stored_options(),
        "sizes": sizes,
        "training": dict(stored.header["training"]),
    }
