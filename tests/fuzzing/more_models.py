"""Models of kinds that the golden files of 0.1.0 do not have, each trained in a moment."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, MultinomialNB
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from loglinear import HMM, Classifier, Combination, InputClassifier, LocalTagger, Mixture, Tagger
from problems.estimators import CHUNKS, COUNTS, NUMBERS, ROWS, TAGS, TEXTS, VERDICTS, WORDS

LOCAL = {
    "logistic": LogisticRegression(max_iter=20), "sgd": SGDClassifier(loss="log_loss", max_iter=5), "svm": LinearSVC(),
    "multinomial": MultinomialNB(), "bernoulli": BernoulliNB(), "tree": DecisionTreeClassifier(random_state=0),
    "forest": RandomForestClassifier(3, random_state=0), "extra-trees": ExtraTreesClassifier(3, random_state=0),
}  # fmt: skip


def more_models() -> dict[str, tuple[bytes, Any]]:
    """Model files and what they are asked, by name."""
    found: dict[str, tuple[bytes, Any]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few: dict[str, Any] = {"template": "words", "max_iter": 5, "threads": 1}
        for name, options in {
            "segments": {"structure": "segments"},
            "segments-mira": {"structure": "segments", "criterion": "mira"},
            "segments-lengths": {"structure": "segments", "max_length": {"NP": 2, "VP": 1}, "constraints": "bio"},
            "third-order": {"order": 3},
            "probable": {"states": "probable:0.1,after=2", "optimizer": "lbfgs"},
            "pair-features-only": {"pair_features": "only"},
            "observed-only": {"transitions": "observed-only"},
            "risk-lists": {"criterion": "risk:k=3"},
            "f-measure": {"criterion": "f-measure"},
        }.items():
            found[name] = Tagger(**few, **options).fit(ROWS, CHUNKS).to_bytes(), ROWS
        many = [[(f"w{t}-{i}",) for t in range(6)] for i in range(12)]
        kinds = [[f"L{(5 * i + t) % 66:02}" for t in range(6)] for i in range(12)]
        found["many-labels"] = Tagger(**few).fit(many, kinds).to_bytes(), many[:2]
        members = [
            Tagger(**few).fit(ROWS, TAGS),
            Tagger(criterion="hmm", threads=1).fit(WORDS, TAGS),
            Tagger(**few, order=2).fit(ROWS, TAGS),
        ]
        pair = [members[0], members[2]]
        found["combination"] = Combination(pair, threads=1).fit(ROWS, TAGS).to_bytes(), ROWS
        tuned = Combination(pair, criterion="mert:k=3,restarts=1", threads=1).fit(ROWS, TAGS)
        found["combination-mert"] = tuned.to_bytes(), ROWS
        for name, classifier in LOCAL.items():
            tagger = LocalTagger(classifier, template="words").fit(ROWS, TAGS)
            found[f"local-{name}"] = tagger.to_bytes(), ROWS
        inputs = InputClassifier(HMM(labels=2, rounds=3, threads=1)).fit(WORDS, ["+", "-", "+"])
        found["input-classifier"] = inputs.to_bytes(), WORDS
        y = np.array(["a", "b"] * 4)
        for name, options in {
            "rbf": {"kernel": "rbf"}, "poly": {"kernel": "poly:degree=2,coef0=1"}, "linear": {"kernel": "linear"},
            "rbf-margin": {"kernel": "rbf", "criterion": "max-margin"},
        }.items():  # fmt: skip
            found[f"kernel-{name}"] = Classifier(threads=1, **options).fit(NUMBERS, y).to_bytes(), NUMBERS
        found["kernel-text"] = Classifier(kernel="poly:degree=2", threads=1).fit(TEXTS, VERDICTS).to_bytes(), TEXTS
        cells = [[f"v{int(value) % 3}" for value in row] for row in COUNTS]
        found["mixture-tables"] = Mixture(2, components="naive-bayes", rounds=3).fit(cells).to_bytes(), cells
        hmms = Mixture(2, components="hmm:states=2", rounds=3, threads=1).fit(WORDS)
        found["mixture-sequences"] = hmms.to_bytes(), WORDS
    return found
