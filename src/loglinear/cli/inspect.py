"""``loglinear inspect``: what is in a model."""

from __future__ import annotations

import json as json_module
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loglinear.cli.common import Screen, say
from loglinear.cli.options import ModelFile as ModelArgument
from loglinear.errors import ModelKindError, OptionError
from loglinear.wording import how_many

if TYPE_CHECKING:
    from loglinear.estimators.classifier.model import KernelModel, LinearScores
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.experiments.tables import Table
    from loglinear.generative.pcfg.model import PCFG
    from loglinear.model_file import ModelFile

Facts = dict[str, Any]
Weighted = tuple[str, float]  # the name of a feature or rule, and its weight


def inspect_command(
    model: ModelArgument,
    top: Annotated[int, typer.Option(min=1, help="How many features to show for each label.")] = 5,
    label: Annotated[list[str] | None, typer.Option(help="Show this label only; may be given several times.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON, all weights included.")] = False,
) -> None:
    """Show what is in a model: its size, its options, and the strongest features of each label.

    Examples
    --------
    loglinear inspect chunker.model
    loglinear inspect chunker.model --label B-NP --top 30
    loglinear inspect chunker.model --json > chunker.json     (every weight)
    """
    from loglinear import model_file

    stored = model_file.load(model)
    if stored.kind not in VIEWS:
        raise ModelKindError(str(model), stored.kind, "tagger")
    view = VIEWS[stored.kind](stored, model)
    for name in label or []:
        if name not in view.names:
            known = ", ".join(view.names) or "it has none"
            raise OptionError(f"--label {name!r} is not one of the model's {view.names_are}: {known}")
    chosen = label or view.names
    if json:
        say(json_module.dumps(view.everything(chosen), ensure_ascii=False, indent=1))
        return
    out = Screen()
    for line in view.lines:
        out.print(line, soft_wrap=True)
    view.show(out, chosen, top)


@dataclass(frozen=True)
class View:
    """What is shown of a model, whatever its kind.

    Parameters
    ----------
    lines : list of str
        The facts above the table.
    names : list of str
        What ``--label`` chooses from.
    everything : callable
        From the chosen names to what ``--json`` prints.
    show : callable
        Prints the table of the chosen names, with that many features of each.
    names_are : str
        What messages call the names.
    """

    lines: list[str]
    names: list[str]
    everything: Callable[[list[str]], Facts]
    show: Callable[[Screen, list[str], int], None]
    names_are: str = "labels"


class _NotInTheFile:
    """Stands for a function or a base of the user's own, where a model is looked at without it."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __call__(self, *arguments: Any) -> Any:
        raise NotImplementedError

    log_prob = sample = __call__


def _print_table(out: Screen, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table whose cells have several lines."""
    from rich.table import Table

    table = Table(*columns, show_lines=True)
    for row in rows:
        table.add_row(*row)
    out.print(table)


def _strongest(weights: Iterable[Weighted], top: int, form: str = "+8.3f") -> str:
    """The names with the greatest weights of either sign, a line each."""
    ranked = sorted(weights, key=lambda pair: (-abs(pair[1]), pair[0]))[:top]
    return "\n".join(f"{weight:{form}}  {name}" for name, weight in ranked)


def _header(stored: ModelFile, *facts: str) -> str:
    """The first line: the file, its size and what is in it."""
    from loglinear.experiments.tables import size

    return f"{stored.name}: {', '.join((size(stored.size), *facts))}"


def _listed(name: str, values: Facts) -> str:
    return f"{name}: {', '.join(f'{key}={value}' for key, value in values.items() if value is not None)}"


def _training_line(training: Facts) -> str:
    objective = training["objective"]
    return f"training: {training['message'] or 'not finished'}" + (
        "" if objective is None else f"; objective {objective:,.3f}"
    )


# ----------------------------------------------------------------------------------------------------------------------
# Taggers.


#: Of each kind of a tagger's features: the name of their list in JSON, and what their keys are.
WEIGHTS = {
    "transition": ("transitions", ("from", "to")),
    "trigram": ("trigrams", ("first", "second", "third")),
    "fourgram": ("fourgrams", ("first", "second", "third", "fourth")),
    "state": ("states", ("attribute", "label")),
    "edge": ("edges", ("attribute", "from", "to")),
    "dense": ("dense", ("attribute", "label")),
    "segment": ("segments", ("attribute", "label")),
    "length": ("lengths", ("length", "label")),
}


def _tagger(stored: ModelFile, path: Path) -> View:
    from loglinear.estimators.tagger import file as tagger_file
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.model_file import Reader

    own_base = None
    if tagger_file.is_over_own_base(Reader.of(stored)):
        own_base = _NotInTheFile(str(stored.header["base"].get("name")))
    tagger = Tagger.load(path, base=own_base)
    model = tagger.model_
    facts = {
        "file": str(path), "bytes": stored.size, "labels": len(tagger.classes_), "sub_labels": model.sub_labels,
        "criterion": tagger.criterion, "structure": model.structure_name, "order": model.order,
        "attributes": model.encoder.n_attributes, "hash_bits": tagger.hash_bits,
        "features": model.feature_counts,
        "constraints": None if model.constraints is None else model.constraints.to_dict(),
        "training": {
            "objective": tagger.objective_, "iterations": tagger.n_iter_, "message": tagger.message_,
            "dev_score": tagger.dev_score_,
        },
    }  # fmt: skip

    def everything(names: list[str]) -> Facts:
        wanted = set(model.states_of(names))
        options = tagger.get_params(deep=False) | ({} if own_base is None else {"base": own_base.name})
        listed = {
            part: [
                dict(zip((*names, "weight"), (*key, weight), strict=True))
                for key, weight in model.named(kind).items()
                if wanted & set(key[1:] if names[0] in ("attribute", "length") else key)
            ]
            for kind, (part, names) in WEIGHTS.items()
            if kind in model.shown_kinds
        }
        return {
            **facts,
            "options": {k: v for k, v in options.items() if k not in ("template", "gazetteers", "constraints")},
            "template": None if tagger.template is None else str(tagger.template).splitlines(),
            "label_names": tagger.classes_,
            **listed,
        }

    def show(out: Screen, names: list[str], top: int) -> None:
        counted = model.base is not None and not model.features.n_features
        (_print_probabilities if counted else _print_weights)(out, tagger, model.states_of(names), top)

    return View([*_tagger_lines(stored, tagger, facts)], model.shown_labels, everything, show)


def _tagger_lines(stored: ModelFile, tagger: Tagger, facts: Facts) -> Iterator[str]:
    from loglinear.generative.base import HmmBase

    labels = how_many(facts["labels"], "label")
    if facts["sub_labels"] > 1:
        labels += f" of {facts['sub_labels']} sub-labels"
    shape = f"order {facts['order']}" if facts["structure"] == "chain" else facts["structure"]
    yield _header(stored, facts["criterion"], shape, labels)
    base = tagger.model_.base
    if isinstance(base, HmmBase):
        values = zip(base.vocabulary.columns, base.vocabulary.values, strict=True)
        sizes = ", ".join(f"{len(strings):,} of column {c}" for c, strings in values)
        yield f"{base.kind}: {how_many(base.model.n_parameters, 'probability')}, values: {sizes}"
    if isinstance(tagger.base, _NotInTheFile):
        yield f"trained over a base that is not in the file: {tagger.base.name:.80}"
    counts = ", ".join(f"{n:,} {kind}" for kind, n in facts["features"].items() if n)
    if counts or base is None:
        hashed = facts["hash_bits"] is not None
        of = f"{facts['attributes']:,} of {1 << facts['hash_bits']:,} buckets" if hashed else ""
        yield f"{of or how_many(facts['attributes'], 'attribute')}, features: {counts or 'none'}"
    if facts["hash_bits"] is not None:
        yield "attributes are hashed into buckets: their names are not known"
    yield _training_line(facts["training"])


def _print_weights(out: Screen, tagger: Tagger, states: list[str], top: int) -> None:
    features: dict[str, list[Weighted]] = {name: [] for name in states}
    following: dict[str, list[Weighted]] = {name: [] for name in states}
    for kind in tagger.model_.shown_kinds:
        for (first, *others, last), weight in tagger.model_.named(kind).items():
            if kind in ("transition", "trigram", "fourgram"):
                if first in following:
                    following[first].append((f"-> {' -> '.join([*others, last])}", weight))
            elif last in features:
                what = f"length={first}" if kind == "length" else "  after ".join([first, *others])
                features[last].append((what, weight))
    rows = ([name, _strongest(features[name], top), _strongest(following[name], top)] for name in states)
    _print_table(out, ["label", "strongest features", "strongest transitions"], rows)


def _print_probabilities(out: Screen, tagger: Tagger, states: list[str], top: int) -> None:
    """For a hidden Markov model: each label's most frequent values, and what follows it."""
    model, base = tagger.model_, tagger.model_.hmm_base
    visits = base.model.inflow

    def greatest(names: list[str], probabilities: list[float]) -> str:
        return _strongest([pair for pair in zip(names, probabilities, strict=True) if pair[1] > 0.0], top, "6.4f")

    following = [*(f"-> {name}" for name in model.states), "(end)"]
    rows = []
    for y, name in enumerate(model.states):
        if name in states:
            same = base.model.label_of == y
            total = float(visits[same].sum())
            after = base.model.steps[:-1][same] * visits[same][:, None] / (total or 1.0)
            values = zip(base.vocabulary.values, base.model.emissions, strict=True)
            emitted = (greatest(strings, emission[y].tolist()) for strings, emission in values)
            rows.append([name, *emitted, greatest(following, after.sum(axis=0).tolist())])
    _print_table(out, ["label", *(f"values of column {c}" for c in base.vocabulary.columns), "next label"], rows)


# ----------------------------------------------------------------------------------------------------------------------
# Combinations of taggers: the weight of each.


def _combination(stored: ModelFile, path: Path) -> View:
    from loglinear.estimators.tagger.combined import Combination

    combination = Combination.load(path)
    members: list[Facts] = [
        {
            "weight": weight, "criterion": tagger.criterion, "order": tagger.order,
            "features": tagger.model_.features.n_features,
            "template": None if tagger.template is None else str(tagger.template).splitlines(),
        }
        for weight, tagger in zip(combination.weights_.tolist(), combination.taggers_, strict=True)
    ]  # fmt: skip
    facts: Facts = {
        "file": stored.name, "bytes": stored.size, "kind": stored.kind, "order": combination.model_.order,
        "label_names": combination.classes_, "options": combination._stored_options(), "members": members,
        "training": dict(stored.header["training"]),
    }  # fmt: skip
    sizes = (
        f"{how_many(len(members), 'model')}",
        f"order {facts['order']}",
        f"{how_many(len(combination.classes_), 'label')}",
    )
    lines = [
        _header(stored, stored.kind, *sizes),
        _listed("options", facts["options"]),
        _training_line(facts["training"]),
    ]

    def show(out: Screen, names: list[str], top: int) -> None:
        rows = []
        for each in members:
            template = each["template"] or []
            shown = [*template[:top], "..."] if len(template) > top else template
            sizes = [str(each["order"]), f"{each['features']:,}"]
            rows.append([f"{each['weight']:+.4f}", each["criterion"], *sizes, "\n".join(shown)])
        _print_table(out, ["weight", "criterion", "order", "features", "template"], rows)

    return View(lines, [], lambda names: facts, show)


# ----------------------------------------------------------------------------------------------------------------------
# Taggers made of a classifier: the weights of its columns, or how often trees look at each.


def _local_tagger(stored: ModelFile, path: Path) -> View:
    import numpy as np

    from loglinear.estimators.tagger.classifiers import LinearClassifier
    from loglinear.estimators.tagger.local import LocalTagger

    tagger = LocalTagger.load(path)
    model, columns = tagger.model_, _local_columns(tagger)
    facts: Facts = {
        "file": str(path), "bytes": stored.size, "kind": stored.kind, "labels": len(tagger.classes_),
        "label_names": tagger.classes_, "classifier": str(stored.header["classifier"]["name"]),
        "options": dict(stored.header["options"]["classifier"]), "attributes": model.columns.n_attributes,
        "columns": model.columns.n_columns, "method": model.method,
        "constraints": None if model.constraints is None else model.constraints.to_dict(),
    }  # fmt: skip
    weights: dict[str, list[Weighted]] = {}
    linear = isinstance(model.data, LinearClassifier)
    if isinstance(model.data, LinearClassifier):
        coef = model.data.coef_
        rows = [-coef[0], coef[0]] if len(coef) == 1 else list(coef)
        for label, row in zip(model.data.classes_.tolist(), rows, strict=True):
            weights[label] = list(zip(columns, row.tolist(), strict=True))
    elif model.data is not None:
        looked = np.bincount(model.data.feature[model.data.children[:, 0] >= 0], minlength=len(columns)).tolist()
        weights["(all labels)"] = [(name, float(n)) for name, n in zip(columns, looked, strict=True) if n]
        facts |= {"trees": len(model.data.roots), "nodes": len(model.data.feature)}
    what = "weight" if linear else "nodes"
    given = ", ".join(f"{name}={value}" for name, value in facts["options"].items())
    trees = (
        ""
        if linear or model.data is None
        else f"; {how_many(facts['trees'], 'tree')}, {how_many(facts['nodes'], 'node')}"
    )
    lines = [
        _header(stored, facts["classifier"], f"{how_many(facts['labels'], 'label')}"),
        f"{how_many(facts['attributes'], 'attribute')}, {how_many(facts['columns'], 'column')}{trees}",
        f"options: {given}",
    ]

    def everything(names: list[str]) -> Facts:
        chosen = {label: own for label, own in weights.items() if not linear or label in names}
        return facts | {
            "features": [
                {"label": label, "column": name, what: value} for label, own in chosen.items() for name, value in own
            ]
        }

    def show(out: Screen, names: list[str], top: int) -> None:
        chosen = {label: own for label, own in weights.items() if not linear or label in names}
        form = "+8.3f" if linear else "6.0f"
        rows = ([label, _strongest(own, top, form)] for label, own in chosen.items())
        _print_table(out, ["label", "strongest columns" if linear else "columns that most nodes look at"], rows)

    return View(lines, tagger.classes_, everything, show)


def _local_columns(tagger: Any) -> list[str]:
    """What each column of a classifier's rows is."""
    columns, labels, attributes = tagger.model_.columns, tagger.classes_, tagger.model_.encoder.names()
    names = list(attributes)
    if columns.with_previous:
        names += [f"after {label}" for label in (*labels, "(start)")]
    if columns.pairs is not None:
        pairs = (divmod(code, len(labels)) for code in columns.pairs.tolist())
        names += [f"{attributes[a]}  after {labels[y]}" for a, y in pairs]
    return names


# ----------------------------------------------------------------------------------------------------------------------
# Classifiers of sequences: the model of each class.


def _input_classifier(stored: ModelFile, path: Path) -> View:
    import numpy as np

    from loglinear.estimators.tagger.hmm import InputClassifier

    classifier = InputClassifier.load(path)
    names = [str(name) for name in classifier.classes_.tolist()]
    members: list[Facts] = []
    for name, share, tagger in zip(names, np.exp(classifier.log_prior_).tolist(), classifier.taggers_, strict=True):
        hmm = tagger.model_.hmm_base
        members.append({
            "class": name, "prior": share, "labels": tagger.classes_, "order": hmm.model.order,
            "probabilities": hmm.model.n_parameters, "values": [len(values) for values in hmm.vocabulary.values],
            "features": tagger.model_.features.n_features, "mean_length": float(hmm.model.inflow.sum()),
        })  # fmt: skip
    facts: Facts = {
        "file": stored.name, "bytes": stored.size, "kind": stored.kind, "label_names": names,
        "options": {"prior": classifier.prior, "criterion": getattr(classifier.taggers_[0], "criterion", "hmm")},
        "label_key": classifier.label_key_,
    }  # fmt: skip

    def everything(chosen: list[str]) -> Facts:
        return facts | {"classes": [each for each in members if each["class"] in chosen]}

    def show(out: Screen, chosen: list[str], top: int) -> None:
        rows = (
            [
                each["class"], f"{each['prior']:.1%}", ", ".join(each["labels"][:top]), f"{each['probabilities']:,}",
                ", ".join(f"{n:,}" for n in each["values"]), f"{each['features']:,}", f"{each['mean_length']:.1f}",
            ]
            for each in members
            if each["class"] in chosen
        )  # fmt: skip
        titles = ["class", "prior", "labels of tokens", "probabilities", "values", "features", "mean length"]
        _print_table(out, titles, rows)

    lines = [
        _header(
            stored,
            "classes of sequences by p(x)",
            str(facts["options"]["criterion"]),
            f"{how_many(len(names), 'class')}",
        )
    ]
    return View(lines, names, everything, show)


# ----------------------------------------------------------------------------------------------------------------------
# Linear models: classifiers and regressions.


Weights = dict[str, dict[str, float]]  #: for each label (or target) the weight of each feature
BIAS, ANY = "(bias)", "(all labels)"


def _classifier(stored: ModelFile, path: Path) -> View:
    from loglinear.estimators.classifier import file as classifier_file
    from loglinear.estimators.classifier.model import CandidateModel, KernelModel
    from loglinear.features.gram import OwnKernel
    from loglinear.model_file import Reader

    model = classifier_file.from_storage(Reader.of(stored), {})
    labels = [str(label) for label in model.labels.tolist()]
    if isinstance(model, CandidateModel):
        names = model.encoder.names.names()
        parts = {"weights": {ANY: dict(zip(names, model.weights.tolist(), strict=True))}}
        return _linear(stored, labels, parts, len(names), {"kind": "classifier with a feature map"})
    names = model.encoder.names()
    if isinstance(model, KernelModel):
        rows = [_row_name(model, i, names) for i in range(len(model.numbers))]
        parts = {"coefficients": _of_labels(rows, labels, model.scores)}
        if model.base is not None:
            parts = {"base": _of_labels(names, labels, model.base), **parts}
        kernel = "your own, which is not in the file" if model.kernel.name == OwnKernel.name else str(model.kernel)
        more = {"inputs": model.encoder.kind, "kernel": kernel, "support_rows": len(model.numbers)}
        return _linear(stored, labels, parts, len(names), more)
    scores = {"weights": model.scores}
    if model.base is not None:
        scores = {"base": model.base, "learnt": model.scores.minus(model.base)}
    parts = {part: _of_labels(names, labels, linear) for part, linear in scores.items()}
    return _linear(stored, labels, parts, len(names), {"inputs": model.encoder.kind})


def _of_labels(names: list[str], labels: list[str], linear: LinearScores) -> Weights:
    """The numbers of linear functions, by label and name."""
    coef: Any = linear.coef
    intercept: Any = linear.intercept
    if len(labels) == 2:  # one vector is stored: the first label has it with the other sign
        coef, intercept = [-coef[0], coef[0]], [-intercept[0], intercept[0]]
    return _named(names, labels, coef, intercept)


CELLS = 4  # of a support row that are shown


def _row_name(model: KernelModel, i: int, names: list[str]) -> str:
    """A support row by its number in the training data, with its largest numbers."""
    row = model.support[i]
    dense = row.toarray().ravel() if hasattr(row, "toarray") else row
    largest = sorted(range(len(dense)), key=lambda j: -abs(dense[j]))[:CELLS]
    shown = [f"{names[j]}={dense[j]:.4g}" for j in sorted(largest) if dense[j]]
    more = ["..."] if (dense != 0).sum() > CELLS else []
    return f"row {model.numbers[i]}: {', '.join([*shown, *more])}"


def _regression(stored: ModelFile, path: Path) -> View:
    from loglinear.estimators.classifier.ridge import LeastSquares, Ridge

    model = (Ridge if stored.kind == Ridge.kind else LeastSquares).load(path)
    coef, intercept = stored.arrays["coef"], stored.arrays["intercept"]
    named = getattr(model, "feature_names_in_", None)
    names = [f"x{i}" for i in range(coef.shape[1])] if named is None else named.tolist()
    targets = [f"y{t}" for t in range(len(coef))] if len(coef) > 1 else ["y"]
    return _linear(stored, targets, {"weights": _named(names, targets, coef, intercept)}, len(names), {})


def _named(names: list[str], labels: list[str], coef: Any, intercept: Any) -> Weights:
    return {
        label: {BIAS: float(bias)} | dict(zip(names, row.tolist(), strict=True))
        for label, row, bias in zip(labels, coef, intercept, strict=True)
    }


def _linear(stored: ModelFile, labels: list[str], parts: dict[str, Weights], n_features: int, more: Facts) -> View:
    training = ("objective", "iterations", "message", "dev_score")
    facts = {
        "file": stored.name, "bytes": stored.size, "kind": stored.kind, "labels": len(labels), "label_names": labels,
        "options": dict(stored.header["options"]),
        "training": {name: stored.header["training"].get(name) for name in training},
        "features": n_features, **more,
    }  # fmt: skip
    what = "label" if stored.kind == "classifier" else "target"
    lines = [
        _header(stored, facts["kind"], how_many(len(labels), what), how_many(n_features, "feature")),
        *([f"kernel: {more['kernel']}; {how_many(more['support_rows'], 'support row')}"] if "kernel" in more else []),
        _listed("options", facts["options"]),
        _training_line(facts["training"]),
        *(["scores are the sum of the base's and the learnt ones"] if "base" in parts else []),
    ]

    def everything(names: list[str]) -> Facts:
        listed = {
            part: [
                {"label": name, "feature": feature, "weight": weight}
                for name, features in weights.items()
                if name in (*names, ANY)
                for feature, weight in features.items()
            ]
            for part, weights in parts.items()
        }
        return {**facts, **listed}

    def strongest(features: dict[str, float], top: int) -> str:
        rest = _strongest([pair for pair in features.items() if pair[0] != BIAS], top)
        return f"{features[BIAS]:+8.3f}  {BIAS}\n{rest}".rstrip("\n") if BIAS in features else rest

    def show(out: Screen, names: list[str], top: int) -> None:
        shown = [name for name in next(iter(parts.values())) if name in (*names, ANY)]
        rows = ([name, *(strongest(weights[name], top) for weights in parts.values())] for name in shown)
        _print_table(out, [what, *(f"strongest {part}" for part in parts)], rows)

    return View(lines, labels, everything, show)


# ----------------------------------------------------------------------------------------------------------------------
# Mixtures and naive Bayes: their components, and what distinguishes each from the others.


def _mixture(stored: ModelFile, path: Path) -> View:
    from loglinear.cli.common import show_table
    from loglinear.estimators.mixture import Mixture
    from loglinear.estimators.naive_bayes import NaiveBayes

    model: Any = Mixture.load(path) if stored.kind == "mixture" else NaiveBayes.load(path)
    names = component_labels(model)
    what, training = "naive Bayes", []
    if stored.kind == "mixture":
        what, training = f"a mixture of {_family(model)}", [f"training: {model.message_}"]
    header = _header(
        stored, what, f"{len(names)} {_components_word(model)}", f"{how_many(model.n_features_in_, 'column')}"
    )

    def places(chosen: list[str]) -> list[int]:
        return [names.index(name) for name in chosen]

    return View(
        [header, *training],
        names,
        lambda chosen: _all_of_mixture(model, stored, names, places(chosen)),
        lambda out, chosen, top: show_table(component_table(model, top, places(chosen)), out),
    )


def _family(mixture: Any) -> str:
    """What a mixture is of."""
    if mixture.family == "gaussian":
        return f"Gaussians ({mixture.model_.components.covariance} covariance)"
    if mixture.family == "hmm":
        return (
            f"hidden Markov models ({how_many(len(mixture.inputs_.states), 'state')}, order {mixture.hmms_[0].order})"
        )
    return "naive Bayes models" if mixture.family == "naive-bayes" else "multinomials"


def component_labels(model: Any) -> list[str]:
    """What the components, or classes, are called."""
    if hasattr(model, "component_names_"):
        return [str(k) if name is None else name for k, name in enumerate(model.component_names_)]
    return [str(label) for label in model.classes_]


def component_table(model: Any, top: int, chosen: list[int] | None = None) -> Table:
    """The share of each component, and the columns that distinguish it from the others."""
    from loglinear.experiments.tables import Table

    names, columns = component_labels(model), _column_names(model)
    shares, word, family = _shares(model), _components_word(model), getattr(model, "family", "multinomial")
    gaussian = family == "gaussian"
    title = "means far from all rows' (in deviations)" if gaussian else "columns (how much more often)"
    if family == "hmm":
        title = "states (share of positions): values (how much more often)"
    table = Table(word.capitalize(), [word.removesuffix("s"), "share", title])
    for k in range(len(names)) if chosen is None else chosen:
        if family == "hmm":
            table.add(names[k], [float(shares[k])], [f"{shares[k]:.1%}", _telling_states(model, shares, k, top)])
            continue
        telling = _telling_means(model, k, top) if gaussian else _telling_words(model, shares, k, top)
        cells = (f"{f'column {j}' if columns is None else columns[j]} {text}" for j, text in telling)
        table.add(names[k], [float(shares[k])], [f"{shares[k]:.1%}", ", ".join(cells)])
    return table


def _column_names(model: Any) -> Any:
    """The names of the columns of theta, or of the rows; None if they have none."""
    if getattr(model, "family", None) == "naive-bayes":
        return model.inputs_.names
    return getattr(model, "feature_names_in_", None)


def _telling_states(model: Any, shares: Any, k: int, top: int) -> str:
    """Each state of a hidden Markov model: its share of the positions, and its values that stand out most.

    A value is compared with its share of all positions of the mixture.
    """
    import numpy as np

    visits = [hmm.inflow.reshape(-1, hmm.n_labels).sum(axis=0) for hmm in model.hmms_]
    total = sum(share * each.sum() for share, each in zip(shares, visits, strict=True))
    values = [value for column in model.inputs_.vocabulary.values for value in column]
    emitted = [np.concatenate(hmm.emissions, axis=1) for hmm in model.hmms_]
    overall = sum(share * each @ table for share, each, table in zip(shares, visits, emitted, strict=True)) / total
    lines = []
    for y in np.argsort(-visits[k], kind="stable").tolist():
        own = emitted[k][y]
        gain = own * np.log(np.maximum(own, 1e-300) / np.maximum(overall, 1e-300))
        best = np.argsort(-gain, kind="stable")[:top].tolist()
        words = ", ".join(f"{values[j]} ({own[j] / max(overall[j], 1e-300):.1f}x)" for j in best)
        lines.append(f"{model.inputs_.states[y]} ({visits[k][y] / visits[k].sum():.0%}): {words}")
    return "\n".join(lines)


def _components_word(model: Any) -> str:
    return "components" if hasattr(model, "component_names_") else "labels"


def _shares(model: Any) -> Any:
    import numpy as np

    return model.weights_ if hasattr(model, "weights_") else np.exp(model.class_log_prior_)


def _telling_means(model: Any, k: int, top: int) -> list[tuple[int, str]]:
    """Columns whose mean is farthest from that of all rows, with both: the mean, and how far, in deviations."""
    import numpy as np

    far = (model.means_[k] - model.weights_ @ model.means_) / np.sqrt(model.model_.components.prior.spread)
    best = np.argsort(-np.abs(far), kind="stable")[:top].tolist()
    return [(j, f"{model.means_[k, j]:.4g} ({far[j]:+.1f})") for j in best]


def _telling_words(model: Any, shares: Any, k: int, top: int) -> list[tuple[int, str]]:
    """Words j with the greatest theta_kj log(theta_kj / theta_j), with the ratio theta_kj / theta_j."""
    import numpy as np

    theta = np.exp(model.feature_log_prob_)
    overall = shares @ theta
    gain = theta[k] * np.log(theta[k] / overall) if len(shares) > 1 else theta[k]
    return [(j, f"({theta[k, j] / overall[j]:.1f}x)") for j in np.argsort(-gain, kind="stable")[:top].tolist()]


def _all_of_mixture(model: Any, stored: ModelFile, names: list[str], chosen: list[int]) -> Facts:
    import numpy as np

    columns, family = _column_names(model), getattr(model, "family", None)
    facts: Facts = {
        "file": stored.name, "bytes": stored.size, "kind": stored.kind,
        "options": {k: v if not hasattr(v, "tolist") else v.tolist() for k, v in model.get_params(deep=False).items()},
        "columns": None if columns is None else list(columns), "components": [],
    }  # fmt: skip
    if family == "hmm":
        vocabulary = model.inputs_.vocabulary
        facts |= {"states": list(model.inputs_.states), "columns": list(vocabulary.columns)}
        facts["values"] = [list(values) for values in vocabulary.values]
    if stored.kind == "mixture":
        facts["training"] = {
            "rounds": model.n_iter_, "converged": model.converged_, "message": model.message_,
            "log_likelihoods": model.log_likelihoods_, "objectives": model.objectives_,
        }  # fmt: skip
    shares = _shares(model)
    for k in chosen:
        entry: Facts = {"name": names[k], "share": float(shares[k])}
        if family == "hmm":
            entry["steps"] = model.hmms_[k].steps.tolist()
            entry["emissions"] = [table.tolist() for table in model.hmms_[k].emissions]
        elif family == "gaussian":
            shared = model.covariance in ("known", "tied")
            entry["mean"] = model.means_[k].tolist()
            entry["covariance"] = (model.covariances_ if shared else model.covariances_[k]).tolist()
        else:
            entry["probabilities"] = np.exp(model.feature_log_prob_[k]).tolist()
        facts["components"].append(entry)
    return facts


# ----------------------------------------------------------------------------------------------------------------------
# Parsers: what they were trained on, their sizes, and the rules of each symbol.


def _phrase_parser(stored: ModelFile, path: Path) -> View:
    """A parser of phrases; of each symbol the strongest rules are shown."""
    from loglinear.estimators.parser.estimator import Parser
    from loglinear.estimators.parser.file import is_with_function
    from loglinear.generative.pcfg.model import PCFG
    from loglinear.model_file import Reader

    read = Reader.of(stored)
    parser = Parser._read(read, {"span_features": _NotInTheFile() if is_with_function(read) else None})
    model: Any = parser.model_
    sizes = {"symbols": len(model.coder.symbols), "tags": model.coder.n_tags, "words": len(model.lexicon.terminals)}
    if isinstance(model, PCFG):
        value, binary, scores = "probability", model.binary_rules, model.binary
        chains, chain_scores = model.unary_rules.tolist(), model.unary
    else:
        outcomes = model.features.outcomes
        alone = model.features.pieces.alone(model.weights)
        value, binary, scores = "score", model.grammar.binary, alone[outcomes.of_rule]
        chains, chain_scores = model.coder.chains, alone[outcomes.of_step]
        sizes["features"] = len(model.weights)
    sizes |= {"binary rules": len(scores), "unary rules": len(chains)}
    symbols, rules = model.coder.symbols, dict[str, list[Weighted]]()
    for join, numbers, own in ((" ", binary.tolist(), scores), (" -> ", chains, chain_scores)):
        for (parent, *children), score in zip(numbers, own.tolist(), strict=True):
            rules.setdefault(symbols[parent], []).append((join.join(symbols[child] for child in children), score))
    ranked = {name: sorted(own, key=lambda pair: (-pair[1], pair[0])) for name, own in sorted(rules.items())}
    facts = _parser_facts(stored, parser, sizes) | {"label_names": parser.classes_, "rules_are": value}
    lines = _parser_lines(stored, facts)
    if isinstance(model, PCFG):
        facts["density"] = _of_grammar(model)
        lines.append(_listed("density", facts["density"]))

    def everything(names: list[str]) -> Facts:
        return facts | {
            "rules": {
                name: [{"rule": rule, value: score if math.isfinite(score) else None} for rule, score in ranked[name]]
                for name in names
            }
        }

    def show(out: Screen, names: list[str], top: int) -> None:
        rows = (
            [name, f"{len(ranked[name]):,}", "\n".join(f"{score:8.4f}  {rule}" for rule, score in ranked[name][:top])]
            for name in names
        )
        _print_table(out, ["symbol", "rules", f"strongest, with their {value}"], rows)

    return View(lines, list(ranked), everything, show, "symbols")


def _of_grammar(model: PCFG) -> Facts:
    """Whether trees end with probability one, with what probability they do, and how many words they have on average.

    The mean is that of trees that end; None if it is infinite.
    """
    from loglinear.generative.pcfg.expectations import Expectations
    from loglinear.generative.pcfg.model import CERTAIN

    found = Expectations(model)
    finite = not found.tight or found.radius < 1.0 - CERTAIN
    return {
        "tight": found.tight, "spectral_radius": round(found.radius, 6), "ends_with_probability": round(found.ends, 6),
        "mean_words": round(found.length / found.ends, 3) if finite and found.ends > 0.0 else None,
    }  # fmt: skip


def _dependency_parser(stored: ModelFile, path: Path) -> View:
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
    relations = None if model.relations is None else model.relations.labels
    facts = _parser_facts(stored, parser, sizes)
    facts |= {"tags": model.vocabulary.tags, "tag_column": model.tags, "relations": relations}
    listed = [f"{name}: {', '.join(facts[name] or ['none'])}" for name in ("tags", "relations")]
    lines = [*_parser_lines(stored, facts), *listed]
    return View(lines, [], lambda names: facts, lambda out, names, top: None, "symbols")


def _parser_facts(stored: ModelFile, parser: Any, sizes: dict[str, int]) -> Facts:
    return {
        "file": stored.name, "bytes": stored.size, "kind": stored.kind, "options": parser._stored_options(),
        "sizes": sizes, "training": dict(stored.header["training"]),
    }  # fmt: skip


def _parser_lines(stored: ModelFile, facts: Facts) -> list[str]:
    return [_header(stored, stored.kind), *(_listed(name, facts[name]) for name in ("options", "sizes", "training"))]


VIEWS: dict[str, Callable[[ModelFile, Path], View]] = {
    "tagger": _tagger,
    "combination": _combination,
    "local-tagger": _local_tagger,
    "input-classifier": _input_classifier,
    "classifier": _classifier,
    "ridge": _regression,
    "least-squares": _regression,
    "mixture": _mixture,
    "naive-bayes": _mixture,
    "parser": _phrase_parser,
    "dependency-parser": _dependency_parser,
}
