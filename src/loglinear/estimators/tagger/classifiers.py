"""Fitted scikit-learn classifiers as data: those whose answers follow from a few arrays, which a model file can hold.

    linear          d = W x + b; the scores are d itself, the log-softmax of d, or what one-versus-rest makes of it
    naive Bayes     the same, of log-probabilities; Bernoulli's of x > threshold
    trees           the mean over trees of the shares of labels at the leaf that x falls into

A :class:`LinearClassifier` or :class:`TreeClassifier` is made of a fitted classifier and then asked about a sample of
the training rows: it is kept only if its answers are the classifier's own. No object of scikit-learn's is stored, and
nothing of it runs when a file is read: the arrays are checked, and the code here evaluates them.

Letters: n rows, D columns, K classes, T trees, M nodes of all trees.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from loglinear.arrays import Arrays, Float, Float32, Int32
from loglinear.errors import OptionError
from loglinear.kernels import kernel
from loglinear.model_file import Reader

LINEAR, BAYES, TREES = "linear models", "naive Bayes", "trees and forests"
SAVED = {
    **dict.fromkeys(
        (
            "LogisticRegression",
            "LogisticRegressionCV",
            "PassiveAggressiveClassifier",
            "Perceptron",
            "RidgeClassifier",
            "RidgeClassifierCV",
            "SGDClassifier",
        ),
        ("sklearn.linear_model", LINEAR),
    ),
    "LinearSVC": ("sklearn.svm", LINEAR),
    "LinearDiscriminantAnalysis": ("sklearn.discriminant_analysis", LINEAR),
    **dict.fromkeys(("BernoulliNB", "ComplementNB", "MultinomialNB"), ("sklearn.naive_bayes", BAYES)),
    **dict.fromkeys(("DecisionTreeClassifier", "ExtraTreeClassifier"), ("sklearn.tree", TREES)),
    **dict.fromkeys(("ExtraTreesClassifier", "RandomForestClassifier"), ("sklearn.ensemble", TREES)),
}  #: classifiers that a model file can hold: module and family
MARGIN, SOFTMAX, ONE_VERSUS_REST, MODIFIED_HUBER = "margin", "softmax", "one-versus-rest", "modified-huber"
LINKS = (SOFTMAX, ONE_VERSUS_REST, MODIFIED_HUBER)  # from linear scores to probabilities


def saved_names() -> str:
    """The names of the classifiers that can be saved, by family."""
    families = {family: [n for n, (_, own) in SAVED.items() if own == family] for family in (LINEAR, BAYES, TREES)}
    return "; ".join(f"{family}: {', '.join(sorted(names))}" for family, names in families.items())


def why_not_saved(classifier: Any) -> str | None:
    """Why a model file cannot hold such a classifier; None if it can."""
    kind = type(classifier)
    module, _ = SAVED.get(kind.__name__, ("", ""))
    if module and kind is getattr(import_module(module), kind.__name__, None):
        return None
    return (
        f"a fitted {kind.__name__} is an object of its own kind, and model files hold data only; those that can be "
        f"saved are {saved_names()}"
    )


# -- linear scores -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LinearClassifier:
    """Linear scores of K classes, or one for the second of two.

    Parameters
    ----------
    classes_ : array of str [K]
    coef_ : float64 [K, D] or [1, D]
    intercept_ : float64 [K] or [1]
    link : {"margin", "softmax", "one-versus-rest", "modified-huber"}
        From scores to the answers: themselves (``decision_function``) or log-probabilities.
    threshold : float, optional
        Columns are 1 where they are greater, else 0; as they are if None.
    """

    form: ClassVar[str] = "linear"
    classes_: Any
    coef_: Float
    intercept_: Float
    link: str
    threshold: float | None = None

    def decision_function(self, rows: Any) -> Float:
        """The scores [n, K], or [n] for two classes with one score."""
        if self.threshold is not None:
            rows = (rows > self.threshold).astype(np.float64)
        scores = np.asarray(rows @ self.coef_.T + self.intercept_)
        return scores[:, 0] if len(self.coef_) == 1 else scores

    def predict_log_proba(self, rows: Any) -> Float:
        """Log-probabilities [n, K]; -inf for zero."""
        scores = self.decision_function(rows)
        if self.link == SOFTMAX:
            return _log_softmax(np.column_stack([np.zeros(len(scores)), scores]) if scores.ndim == 1 else scores)
        shares = expit(scores) if self.link == ONE_VERSUS_REST else (np.clip(scores, -1.0, 1.0) + 1.0) / 2.0
        if shares.ndim == 1:
            shares = np.column_stack([1.0 - shares, shares])
        shares[shares.sum(axis=1) == 0.0] = 1.0
        with np.errstate(divide="ignore"):
            return np.log(shares / shares.sum(axis=1, keepdims=True))

    def to_storage(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays for a model file."""
        return {"link": self.link, "threshold": self.threshold}, {"coef": self.coef_, "intercept": self.intercept_}

    @classmethod
    def from_storage(cls, read: Reader, classes: Any, n_columns: int) -> LinearClassifier:
        """Rebuild from a model file, checked."""
        link = read.choice("link", (MARGIN, *LINKS))
        threshold = None if read.value("threshold") is None else read.number("threshold")
        coef = read.floats("coef", (None, n_columns))
        if len(coef) not in ((1, 2) if len(classes) == 2 else (len(classes),)):
            read.fail("coef", f"{len(coef)} rows for {len(classes)} labels")
        return cls(classes, coef, read.floats("intercept", (len(coef),)), link, threshold)


def _log_softmax(scores: Float) -> Float:
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def _linear_candidates(classifier: Any, method: str) -> list[LinearClassifier]:
    """Linear classifiers that a fitted one may be."""
    classes = _names(classifier)
    if (log_theta := getattr(classifier, "feature_log_prob_", None)) is not None:
        prior, threshold = np.asarray(classifier.class_log_prior_, dtype=np.float64), None
        if type(classifier).__name__ == "ComplementNB":
            prior = np.zeros(len(classes))
        if type(classifier).__name__ == "BernoulliNB":
            absent = np.log1p(-np.exp(log_theta))
            log_theta, prior = log_theta - absent, prior + absent.sum(axis=1)
            threshold = None if classifier.binarize is None else float(classifier.binarize)
        return [LinearClassifier(classes, np.asarray(log_theta, dtype=np.float64), prior, SOFTMAX, threshold)]
    coef = classifier.coef_
    coef = np.atleast_2d(np.asarray(coef.toarray() if sp.issparse(coef) else coef, dtype=np.float64))
    intercept = np.broadcast_to(np.asarray(classifier.intercept_, dtype=np.float64).ravel(), (len(coef),)).copy()
    links = (MARGIN,) if method == "decision_function" else LINKS
    return [LinearClassifier(classes, coef, intercept, link) for link in links]


# -- trees -------------------------------------------------------------------------------------------------------------


@kernel
def add_leaves(
    pointer: Int32,
    columns: Int32,
    values: Float32,
    children: Int32,
    feature: Int32,
    threshold: Float,
    shares: Float,
    roots: Int32,
    row: Float32,
    totals: Float,
) -> None:
    """Add to ``totals`` [n, K] the shares [M, K] of the leaf that each row of a sparse matrix falls into, of each tree.

    ``children`` [M, 2] of a leaf are -1; ``row`` [D] is room for one row, zero before and after.
    """
    for i in range(totals.shape[0]):
        total = totals[i]
        for e in range(pointer[i], pointer[i + 1]):
            row[columns[e]] = values[e]
        for t in range(roots.shape[0]):
            node = roots[t]
            while children[node, 0] >= 0:
                node = children[node, 0] if row[feature[node]] <= threshold[node] else children[node, 1]
            leaf = shares[node]
            for k in range(leaf.shape[0]):
                total[k] += leaf[k]
        for e in range(pointer[i], pointer[i + 1]):
            row[columns[e]] = 0.0


@dataclass(frozen=True)
class TreeClassifier:
    """The mean of T decision trees.

    Parameters
    ----------
    classes_ : array of str [K]
    n_columns : int
        D.
    roots : int32 [T]
        The first node of each tree, ascending.
    children : int32 [M, 2]
        The node for values up to the threshold, and for greater ones, each after its parent; -1 at a leaf.
    feature : int32 [M]
    threshold : float64 [M]
    shares : float64 [M, K]
        Of the classes, each row's adding up to 1.
    """

    form: ClassVar[str] = "trees"
    classes_: Any
    n_columns: int
    roots: Int32
    children: Int32
    feature: Int32
    threshold: Float
    shares: Float

    @classmethod
    def of(cls, classifier: Any) -> TreeClassifier:
        """The trees of a fitted classifier: its own, or those of its ``estimators_``."""
        trees = [each.tree_ for each in getattr(classifier, "estimators_", [classifier])]
        roots = np.cumsum([0, *(tree.node_count for tree in trees[:-1])]).astype(np.int32)
        children = [np.stack([tree.children_left, tree.children_right], axis=1) for tree in trees]
        moved = [np.where(own < 0, -1, own + root) for own, root in zip(children, roots.tolist(), strict=True)]
        counts = np.concatenate([tree.value[:, 0, :] for tree in trees]).astype(np.float64)
        return cls(
            _names(classifier),
            int(classifier.n_features_in_),
            roots,
            np.concatenate(moved).astype(np.int32),
            np.maximum(np.concatenate([tree.feature for tree in trees]), 0).astype(np.int32),
            np.concatenate([tree.threshold for tree in trees]).astype(np.float64),
            counts / counts.sum(axis=1, keepdims=True),
        )

    def predict_log_proba(self, rows: Any) -> Float:
        """Log-probabilities [n, K]; -inf for zero."""
        matrix = sp.csr_matrix(rows)
        totals = np.zeros((matrix.shape[0], len(self.classes_)))
        add_leaves(
            matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data.astype(np.float32),
            self.children, self.feature, self.threshold, self.shares, self.roots,
            np.zeros(self.n_columns, dtype=np.float32), totals,
        )  # fmt: skip
        with np.errstate(divide="ignore"):
            return np.log(totals / len(self.roots))

    def to_storage(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays for a model file."""
        names = ("roots", "children", "feature", "threshold", "shares")
        return {}, {name: getattr(self, name) for name in names}

    @classmethod
    def from_storage(cls, read: Reader, classes: Any, n_columns: int) -> TreeClassifier:
        """Rebuild from a model file, checked: every path ends at a leaf, and looks at columns that there are."""
        children = read.array("children", (np.int32,), (None, 2)).copy()
        m = len(children)
        roots = read.ints("roots", (None,), m)
        feature, threshold = read.ints("feature", (m,), n_columns), read.floats("threshold", (m,))
        shares = read.floats("shares", (m, len(classes)), 0.0, 1.0)
        inner = children[:, 0] >= 0
        after = children[inner] > np.flatnonzero(inner)[:, None]
        if not after.all() or (children >= m).any() or (children[~inner] != -1).any():
            read.fail("children", "not the nodes of trees")
        if not len(roots) or not np.allclose(shares.sum(axis=1), 1.0, atol=1e-6):
            read.fail("shares", "the shares of the labels do not add up to one")
        return cls(classes, n_columns, roots, children, feature, threshold, shares)


# -- from a fitted classifier to data, and back ------------------------------------------------------------------------

StoredClassifier = LinearClassifier | TreeClassifier
FORMS: dict[str, type[StoredClassifier]] = {each.form: each for each in (LinearClassifier, TreeClassifier)}


def _names(classifier: Any) -> Any:
    return np.array([str(name) for name in classifier.classes_])


def as_data(classifier: Any, method: str, rows: Any, answers: Float) -> StoredClassifier | None:
    """A fitted classifier as data, if that gives the same ``answers`` [n, K] about some ``rows``; else None.

    ``method`` is how the classifier was asked; probabilities are compared as such, as their logarithms may be -inf.
    """
    if why_not_saved(classifier) is not None:
        return None
    trees = SAVED[type(classifier).__name__][1] == TREES
    candidates = [TreeClassifier.of(classifier)] if trees else _linear_candidates(classifier, method)
    for each in candidates:
        if method == "decision_function":
            scores = each.decision_function(rows)  # type: ignore[union-attr]  # trees have probabilities
            own = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
            same = np.allclose(own, answers, rtol=1e-7, atol=1e-8)
        else:
            same = np.allclose(np.exp(each.predict_log_proba(rows)), np.exp(answers), rtol=1e-6, atol=1e-9)
        if same:
            return each
    return None


def plain_options(classifier: Any) -> dict[str, Any]:
    """Those of a classifier's options that are numbers, strings and lists or dicts of these."""
    kept = {}
    for name, value in classifier.get_params(deep=False).items():
        value = value.item() if isinstance(value, np.generic) else value
        try:
            if json.loads(json.dumps(value, allow_nan=False)) == value:
                kept[name] = value
        except (TypeError, ValueError):
            continue
    return kept


def untrained(name: str, options: Mapping[str, Any]) -> Any:
    """A classifier of :data:`SAVED` that is not fitted; a wrong option is an error that names those it has."""
    if name not in SAVED:
        raise OptionError(f"classifier {name!r:.60} cannot be saved; those that can are {saved_names()}")
    kind = getattr(import_module(SAVED[name][0]), name)
    known = kind().get_params(deep=False)
    if strange := [each for each in options if each not in known]:
        raise OptionError(f"classifier {name!r} has no option {strange[0]!r}; it has {', '.join(sorted(known))}")
    return kind(**options)


def read_classifier(spec: str) -> Any:
    """The classifier that ``LogisticRegression:C=0.5,solver=saga`` names, not fitted."""
    name, _, rest = str(spec).partition(":")
    name = name.strip()
    if name not in SAVED:
        raise OptionError(_why_unknown(name))
    options: dict[str, Any] = {}
    for item in filter(None, (item.strip() for item in rest.split(","))):
        key, has_value, text = (part.strip() for part in item.partition("="))
        if not has_value:
            raise OptionError(f"classifier {spec!r}: {key} needs a value, as in {name}:{key}=...")
        if key in options:
            raise OptionError(f"classifier {spec!r} gives {key!r} twice")
        options[key] = _value(text)
    return untrained(name, options)


def _value(text: str) -> Any:
    """A number, True, False, None, or the text itself."""
    words = {"none": None, "true": True, "yes": True, "false": False, "no": False}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _why_unknown(name: str) -> str:
    from sklearn.utils import all_estimators

    if name in dict(all_estimators(type_filter="classifier")):
        why = "is an object of its own kind once it is fitted, and model files hold data only"
    else:
        why = "is not a classifier of scikit-learn's"
    return f"classifier {name!r:.60} {why}; those that can be saved are {saved_names()}"
