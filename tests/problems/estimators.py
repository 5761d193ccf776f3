"""Every estimator, fitted to something small, with a question that it can answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from loglinear import (
    HMM,
    Classifier,
    Combination,
    DependencyParser,
    InputClassifier,
    LeastSquares,
    LocalTagger,
    Mixture,
    NaiveBayes,
    Parser,
    Ridge,
    Tagger,
)
from problems.distributions import Plain

WORDS = [["the", "dog", "ran"], ["a", "cat", "saw", "the", "dog"], ["dogs", "ran", ","]]
TAGS = [["D", "N", "V"], ["D", "N", "V", "D", "N"], ["N", "V", "P"]]
ROWS = [[(word, tag) for word, tag in zip(*pair, strict=True)] for pair in zip(WORDS, TAGS, strict=True)]
CHUNKS = [["B-NP", "I-NP", "B-VP"], ["B-NP", "I-NP", "B-VP", "B-NP", "I-NP"], ["B-NP", "B-VP", "O"]]
TREES = [
    "(ROOT (S (NP (DT the) (NN dog)) (VP (VBD ran))))",
    "(ROOT (S (NP (DT a) (NN cat)) (VP (VBD saw) (NP (DT the) (NN dog)))))",
    "(ROOT (S (NP (NNS dogs)) (VP (VBD ran))))",
]
ARCS = [
    [(2, "det"), (3, "subj"), (0, "root")],
    [(2, "det"), (3, "subj"), (0, "root"), (5, "det"), (3, "obj")],
    [(2, "subj"), (0, "root"), (2, "punct")],
]
TEXTS, VERDICTS = ["good film", "bad film", "good cast", "bad bad plot"], ["+", "-", "+", "-"]
NUMBERS = np.arange(24.0).reshape(8, 3) % 7
COUNTS = (np.arange(32) % 5).reshape(8, 4)


def ends(word: str) -> list[str]:
    """Features of a word."""
    return [word[-1:], word[-2:]]


def together(word: str, label: str) -> list[str]:
    """Features of a word and a label."""
    return [f"{label} {word[-1:]}", label]


def length_of_span(words: list[str], i: int, j: int) -> list[str]:
    """Attributes of a span."""
    return [f"length={min(j - i, 3)}"]


@dataclass(frozen=True)
class Fit:
    """An estimator before it is fitted, what it is fitted to, and what it is asked."""

    estimator: Any
    data: tuple[Any, ...]
    ask: Callable[[Any], Any]
    functions: dict[str, Any] = field(default_factory=dict)

    def fitted(self) -> Any:
        """A fitted copy."""
        from sklearn.base import clone

        return clone(self.estimator).fit(*self.data)


class _OfTaggers(Fit):
    """A combination: of taggers that are fitted already, whatever the estimator says."""

    def fitted(self) -> Any:
        """A fitted copy."""
        return Combination([fitted(name) for name in ("tagger", "hmm", "tagger over an hmm")]).fit(*self.data)


def _marginals(tagger: Any) -> Any:
    return tagger.predict(ROWS), tagger.predict_marginals(ROWS)


def _parses(parser: Any) -> Any:
    return [(str(parse.tree), parse.score) for parse in parser.parse([*WORDS, ["the", "bird", "ran"]])]


STORED: dict[str, Fit] = {
    "tagger": Fit(Tagger(template="words", max_iter=3, constraints="bio"), (ROWS, CHUNKS), _marginals),
    "tagger of order 2": Fit(
        Tagger("mira", order=2, pair_features=True, max_iter=2),
        ([[[w, t] for w, t in rows] for rows in ROWS], CHUNKS),
        lambda tagger: tagger.predict([[[w, t] for w, t in rows] for rows in ROWS]),
    ),
    "tagger of segments": Fit(
        Tagger(template="words", structure="segments", max_iter=3, constraints="bio"), (ROWS, CHUNKS), _marginals
    ),
    "tagger over an hmm": Fit(Tagger("m-estimation", template="words", max_iter=2), (ROWS, CHUNKS), _marginals),
    "tagger over an own base": Fit(
        Tagger("m-estimation", template="words", base=Plain(), max_iter=2, seed=1),
        (ROWS, CHUNKS),
        lambda tagger: tagger.predict(ROWS),
        {"base": Plain()},
    ),
    "hmm": Fit(HMM(order=2, smoothing=0.5), (ROWS, CHUNKS), _marginals),
    "combination": _OfTaggers(Combination(), (ROWS, CHUNKS), _marginals),
    "classifier of texts": Fit(Classifier(max_iter=5), (TEXTS, VERDICTS), lambda c: c.predict_proba(TEXTS)),
    "classifier of numbers": Fit(
        Classifier("max-margin", class_weight={0: 1.0, 1: 2.0, 2: 1.0}),
        (NUMBERS, [0, 1, 2, 0, 1, 2, 0, 1]),
        lambda c: c.decision_function(NUMBERS),
    ),
    "classifier with a base": Fit(
        Classifier("m-estimation"), (COUNTS, ["a", "b"] * 4), lambda c: c.predict_proba(COUNTS)
    ),
    "classifier with a function": Fit(
        Classifier(features=ends), (["dogs", "cat", "cats"], ["p", "s", "p"]), lambda c: c.predict_proba(["bats"]),
        {"features": ends},
    ),
    "classifier with a feature map": Fit(
        Classifier(feature_map=together), (["dogs", "cat", "cats"], ["p", "s", "p"]),
        lambda c: c.predict_proba(["bats"]), {"feature_map": together},
    ),
    "parser": Fit(Parser(), (TREES,), _parses),
    "parser with a function": Fit(
        Parser(criterion="mecfg:iterations=3", span_features=length_of_span), (TREES,), _parses,
        {"span_features": length_of_span},
    ),
    "dependency parser": Fit(DependencyParser(max_iter=2), (ROWS, ARCS), lambda p: p.predict(ROWS)),
    "generative dependency parser": Fit(DependencyParser("generative"), (ROWS, ARCS), lambda p: p.predict(ROWS)),
    "mixture": Fit(Mixture(2, covariance="full", restarts=1), (NUMBERS,), lambda m: m.score_samples(NUMBERS)),
    "mixture of multinomials": Fit(
        Mixture(2, "multinomial", start=np.array([[1.0, 2, 3, 4], [4, 3, 2, 1]])), (COUNTS,),
        lambda m: m.predict_proba(COUNTS),
    ),
    "mixture of naive Bayes": Fit(
        Mixture(2, "naive-bayes"), ([["a", i % 2, "x"] for i in range(8)],),
        lambda m: m.predict_proba([["a", 1, None]]),
    ),
    "mixture of hmms": Fit(Mixture(2, "hmm:states=2"), (ROWS,), lambda m: m.predict_proba(ROWS)),
    "local tagger": Fit(LocalTagger(LogisticRegression(), template="words"), (ROWS, CHUNKS), _marginals),
    "input classifier": Fit(InputClassifier(), (ROWS, ["x", "y", "x"], CHUNKS), lambda c: c.predict_proba(ROWS)),
    "naive Bayes": Fit(NaiveBayes(), (COUNTS, [True, False] * 4), lambda n: n.predict_proba(COUNTS)),
    "ridge": Fit(Ridge(), (NUMBERS, np.arange(8.0)), lambda r: r.predict(NUMBERS)),
    "least squares": Fit(LeastSquares(), (NUMBERS, NUMBERS[:, :2]), lambda r: r.predict(NUMBERS)),
}  # fmt: skip
#: those that can be written to model files

PICKLED: dict[str, Fit] = {
    **STORED,
    "local tagger of neighbours": Fit(
        LocalTagger(KNeighborsClassifier(3), template="words"), (ROWS, CHUNKS), _marginals
    ),
}


@cache
def fitted(name: str) -> Any:
    """The fitted estimator of that name; not to be changed."""
    return PICKLED[name].fitted()
