"""What is asked of a model file: everything its estimator can say about some inputs, and the command line on them.

The questions of a model are a dict that JSON can hold. What a model refuses is an answer too: the error's class.
"""

from __future__ import annotations

import csv
import hashlib
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from command_line import output_of
from golden_records import one_blas_thread, plain
from own_functions import LOADED_WITH
from safetensors.numpy import load as load_arrays

import loglinear
from loglinear import LoglinearError

KINDS = {
    "tagger": "Tagger",
    "classifier": "Classifier",
    "parser": "Parser",
    "dependency-parser": "DependencyParser",
    "mixture": "Mixture",
    "naive-bayes": "NaiveBayes",
    "ridge": "Ridge",
    "least-squares": "LeastSquares",
}  #: the estimator of each kind of model file
MACHINE = "machine.json"  #: beside the records, says where they were made
NOTES = ("objective_", "n_iter_", "n_evaluations_", "converged_", "message_", "dev_score_", "best_iteration_")
LONG = 12  # entries of a list of weights, above which only its digest is kept
Question = dict[str, Any]
Answers = dict[str, Any]


def metadata_of(content: bytes) -> dict[str, str]:
    """What a model file says of itself: kind, header, version ..."""
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length])["__metadata__"]


def arrays_of(content: bytes) -> dict[str, Any]:
    """The arrays of a model file, read by the safetensors library."""
    return load_arrays(content)


def loaded(name: str, content: bytes | Path, estimator: str) -> Any:
    """The estimator of a model file, with one thread."""
    model = getattr(loglinear, estimator).load(content, **LOADED_WITH.get(name, {}))
    return model.set_params(threads=1) if "threads" in model.get_params(deep=False) else model


def answers(model: Any, path: Path, question: Question, scratch: Path) -> Answers:
    """All answers of a loaded model.

    Parameters
    ----------
    model
        The estimator.
    path
        Its model file, for the command line.
    question
        The inputs.
    scratch
        A folder for files that the command line reads.
    """
    found: Answers = {name.rstrip("_"): getattr(model, name) for name in NOTES if hasattr(model, name)}
    if hasattr(model, "classes_"):
        found["classes"] = model.classes_
    found["options"] = _options(model)
    with one_blas_thread():
        return plain(found | ASK[type(model).__name__](model, path, question, scratch))


def _options(model: Any) -> dict[str, Any]:
    """Constructor options that are not the defaults, as far as text can hold them."""
    simple = {}
    defaults = {name: each.default for name, each in inspect.signature(type(model)).parameters.items()}
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, type(defaults[name])) and value == defaults[name]:
            continue
        if hasattr(value, "to_dict"):
            value = value.to_dict()
        elif name == "template" and value is not None:
            value = str(value)
        elif name == "gazetteers" and value is not None:
            value = [[each.name, sorted(map(list, each.entries))] for each in value]
        if not callable(value) and not hasattr(value, "log_prob") and not hasattr(value, "expected"):
            simple[name] = value
    return simple


def _said(function: Callable[[], Any]) -> Any:
    """An answer, or the class of the error that refuses it."""
    try:
        return plain(function())
    except LoglinearError as error:
        return {"refused": type(error).__name__}


def _inspected(path: Path) -> Any:
    """What ``inspect --json`` prints, long lists as their length and digest."""
    shown = json.loads(output_of("inspect", path, "--json"))
    for key in ("file", "bytes", "options"):  # options are asked of the estimator
        shown.pop(key, None)
    return {key: _summary(value) for key, value in shown.items()}


def _summary(value: Any) -> Any:
    if not isinstance(value, list) or len(value) <= LONG:
        return value
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return {"count": len(value), "sha256": hashlib.sha256(text.encode()).hexdigest()}


# -- sequences -----------------------------------------------------------------------------------------------------


def _tokens(X: list[Any]) -> list[Any]:
    return [[tuple(token) if isinstance(token, list) else token for token in x] for x in X]


def _known(given: list[Any]) -> list[Any]:
    return [[set(label) if isinstance(label, list) else label for label in labels] for labels in given]


def _ask_tagger(tagger: Any, path: Path, question: Question, scratch: Path) -> Answers:
    X, y, given = _tokens(question["X"]), question["y"], _known(question["given"])
    found: Answers = {
        "predict": _said(lambda: tagger.predict(X)),
        "predict_single": _said(lambda: [tagger.predict_single(x) for x in X]),
        "predict_posterior": _said(lambda: tagger.predict(X, decoding="posterior")),
        "predict_min_risk": _said(lambda: tagger.predict(X, decoding="min-risk", cost="recall:3")),
        "predict_given": _said(lambda: tagger.predict(X, given=given)),
        "predict_nbest": _said(lambda: tagger.predict_nbest(X, 3)),
        "predict_nbest_given": _said(lambda: tagger.predict_nbest(X[:1], 2, given=given[:1])),
        "predict_marginals": _said(lambda: _rows_of(tagger.predict_marginals(X))),
        "log_probability": _said(lambda: tagger.log_probability(X, y)),
        "score": _said(lambda: tagger.score(X, y)),
    }
    if question.get("density"):
        found |= _ask_density(tagger, X, y)
    if "text" in question:
        file = scratch / question["file"]
        file.write_text(question["text"], encoding="utf-8")
        found["tag"] = _said(lambda: output_of("tag", path, file, "--marginals", "--threads", 1))
        if "nbest" in question:
            found["tag_nbest"] = output_of("tag", path, file, "--nbest", question["nbest"], "--threads", 1)
    if not hasattr(getattr(tagger, "base", None), "log_prob"):  # of one's own, which inspect does not have
        found["inspect"] = _inspected(path)
    return found


def _rows_of(marginals: list[list[dict[str, float]]]) -> list[list[list[float]]]:
    """Probabilities in the order of ``classes_``."""
    return [[list(token.values()) for token in sentence] for sentence in marginals]


def _ask_density(tagger: Any, X: list[Any], y: list[list[str]]) -> Answers:
    draws = {} if type(tagger).__name__ == "HMM" else {"draws": 300, "seed": 3}
    found = {
        "log_prob": _said(lambda: tagger.log_prob(X, **draws)),
        "log_prob_with_labels": _said(lambda: tagger.log_prob(X, y, **draws)),
        "sample": _said(lambda: tagger.sample(3, seed=7)),
    }
    if draws:
        found["log_normaliser"] = _said(lambda: tagger.log_normaliser(**draws).value)
        found["sample_gibbs"] = _said(lambda: tagger.sample(2, "gibbs", seed=7, draws=50, sweeps=3))
    return found


# -- flat labels ---------------------------------------------------------------------------------------------------


def _ask_classifier(classifier: Any, path: Path, question: Question, scratch: Path) -> Answers:
    if "table" in question:
        found = _ask_on_table(("classify", "run", path), ("--probabilities",), question, scratch)
        return {**found, "inspect": _inspected(path)}
    X = question["X"]
    if question.get("examples") == "sequences":
        X = _tokens(X)
    elif question.get("examples") == "tuples":
        X = [tuple(x) for x in X]
    return {
        "predict": _said(lambda: classifier.predict(X)),
        "predict_proba": _said(lambda: classifier.predict_proba(X)),
        "decision_function": _said(lambda: classifier.decision_function(X)),
        "predict_nbest": _said(lambda: classifier.predict_nbest(X, 2)),
        "explain": _said(lambda: classifier.explain(X[0])),
        "score": _said(lambda: classifier.score(X, question["y"])),
        "coef": _summary(plain(classifier.coef_)),
        "intercept": plain(classifier.intercept_),
        "inspect": _inspected(path),
    }


def _ask_on_table(command: tuple[Any, ...], options: tuple[str, ...], question: Question, scratch: Path) -> Answers:
    """Cells of the table that a command prints, those that are numbers as numbers."""
    file = scratch / "table.csv"
    file.write_text(question["table"], encoding="utf-8")
    if "--predict" in command:
        shown = output_of(command[0], file, *command[1:], *options)
    else:
        shown = output_of(*command, file, *options)
    return {"rows": [[_cell(cell) for cell in row] for row in csv.reader(shown.splitlines())]}


def _cell(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _ask_naive_bayes(model: Any, path: Path, question: Question, scratch: Path) -> Answers:
    X = question["X"]
    return {
        "predict": model.predict(X),
        "predict_proba": model.predict_proba(X),
        "predict_joint_log_proba": model.predict_joint_log_proba(X),
        "class_log_prior": model.class_log_prior_,
        "feature_log_prob": model.feature_log_prob_,
        "sample": list(model.sample(3, seed=5)),
        "inspect": _inspected(path),
    }


def _ask_mixture(model: Any, path: Path, question: Question, scratch: Path) -> Answers:
    found: Answers = {"inspect": _inspected(path), "names": model.component_names_, "weights": model.weights_}
    if "table" in question:
        return found | _ask_on_table(("cluster", "--predict", path), (), question, scratch)
    X = question["X"]
    return found | {
        "predict": model.predict(X),
        "predict_proba": model.predict_proba(X),
        "score_samples": model.score_samples(X),
        "bic": model.bic(X),
        "sample": list(model.sample(3, seed=5)),
        "objectives": model.objectives_,
        "log_likelihoods": model.log_likelihoods_,
    }


def _ask_regression(model: Any, path: Path, question: Question, scratch: Path) -> Answers:
    return {
        "predict": model.predict(question["X"]),
        "coef": model.coef_,
        "intercept": model.intercept_,
        "inspect": _inspected(path),
    }


# -- trees ---------------------------------------------------------------------------------------------------------


def _ask_parser(parser: Any, path: Path, question: Question, scratch: Path) -> Answers:
    sentences = question["X"]
    file = scratch / "sentences.txt"
    file.write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
    parses = parser.parse(sentences)
    posterior = parser.set_params(decoding="posterior").parse(sentences)
    parser.set_params(decoding="viterbi")
    return {
        "parse": [[str(parse.tree), parse.score, bool(parse.failure)] for parse in parses],
        "parse_posterior": [[str(parse.tree), parse.score, bool(parse.failure)] for parse in posterior],
        "score": parser.score(question["trees"]),
        "counts": [parser.n_trees_, parser.n_words_],
        "run": _said(lambda: output_of("parse", "run", path, file, "--threads", 1, "--quiet")),
    }


def _ask_dependency_parser(parser: Any, path: Path, question: Question, scratch: Path) -> Answers:
    file = scratch / "sentences.conllu"
    file.write_text(question["conllu"], encoding="utf-8")
    X = _tokens(question["X"])
    return {
        "predict": parser.predict(X),
        "score": parser.score(file),
        "evaluate": parser.evaluate(file).text(),
        "counts": [parser.n_trees_, parser.n_tokens_],
        "run": _said(lambda: output_of("parse", "run", path, file, "--threads", 1, "--quiet")),
    }


ASK: dict[str, Callable[[Any, Path, Question, Path], Answers]] = {
    "Tagger": _ask_tagger,
    "HMM": _ask_tagger,
    "Classifier": _ask_classifier,
    "Parser": _ask_parser,
    "DependencyParser": _ask_dependency_parser,
    "Mixture": _ask_mixture,
    "NaiveBayes": _ask_naive_bayes,
    "Ridge": _ask_regression,
    "LeastSquares": _ask_regression,
}
