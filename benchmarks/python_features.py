"""Python features (a dict for each token) beside sklearn-crfsuite: training, labelling, one sentence at a time.

    python benchmarks/python_features.py [--sentences N] [--repeat R]

The data is Spanish CoNLL-2002, the features those of sklearn-crfsuite's tutorial (words, suffixes, shapes, parts of
speech, and those of the neighbours: 19 a token). Both packages train the same objective (L1 0.1, L2 0.1), in one
thread, and label esp.testb. Every figure is CPU time, the least of R runs that alternate between the packages.
Needs sklearn-crfsuite, and CoNLL-2002 in LOGLINEAR_DATA.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sklearn_crfsuite

from loglinear import Tagger
from loglinear.data import read_columns

C1 = C2 = 0.1
MOST_ITERATIONS = 100


def word2features(sentence: list[tuple[str, ...]], i: int) -> dict[str, Any]:
    """Features of a token, after sklearn-crfsuite's tutorial."""
    word, tag = sentence[i][:2]
    features: dict[str, Any] = {
        "bias": 1.0,
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word[-2:]": word[-2:],
    }
    features |= {"postag": tag, "postag[:2]": tag[:2]}
    features |= {f"word.{name}()": getattr(word, name)() for name in ("isupper", "istitle", "isdigit")}
    for step, end in ((-1, "BOS"), (1, "EOS")):
        if not 0 <= i + step < len(sentence):
            features[end] = True
            continue
        near, near_tag = sentence[i + step][:2]
        features |= {f"{step:+}:word.{name}()": getattr(near, name)() for name in ("lower", "istitle", "isupper")}
        features |= {f"{step:+}:postag": near_tag, f"{step:+}:postag[:2]": near_tag[:2]}
    return features


def sentences(path: Path, most: int | None = None) -> tuple[list[Any], list[list[str]]]:
    """Features and labels of a column file's sentences."""
    rows = read_columns(path).rows()[:most]
    X = [[word2features(sentence, t) for t in range(len(sentence))] for sentence in rows]
    return X, [[token[-1] for token in sentence] for sentence in rows]


def least(calls: dict[str, Callable[[], Any]], repeat: int) -> dict[str, float]:
    """The least CPU seconds of each call, the calls alternating."""
    seconds = dict.fromkeys(calls, float("inf"))
    for _ in range(repeat):
        for name, call in calls.items():
            began = time.process_time()
            call()
            seconds[name] = min(seconds[name], time.process_time() - began)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, help="sentences to train on (all)")
    parser.add_argument("--repeat", type=int, default=5, help="runs of labelling")
    parser.add_argument("--fits", type=int, default=1, help="runs of training")
    arguments = parser.parse_args()
    folder = Path(os.environ.get("LOGLINEAR_DATA", "../shared/data")) / "conll2002"
    X, y = sentences(folder / "esp.train", arguments.sentences)
    X_test, y_test = sentences(folder / "esp.testb")

    theirs = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=C1, c2=C2, max_iterations=MOST_ITERATIONS)
    ours = Tagger(l1=C1, l2=C2, max_iter=MOST_ITERATIONS, threads=1, precision="float64")
    warm = Tagger(l1=C1, l2=C2, max_iter=2, threads=1).fit(X[:50], y[:50])  # compiles kernels
    warm.predict(X_test[:5]), warm.predict_marginals(X_test[:5]), warm.predict_single(X_test[0])
    fits = least({"theirs": lambda: theirs.fit(X, y), "ours": lambda: ours.fit(X, y)}, arguments.fits)
    tell("fit", fits)
    print(f"    objective {theirs.training_log_.last_iteration['loss']:.2f} (theirs) {ours.objective_:.2f} (ours)")
    for name, label in {
        "predict": lambda crf: crf.predict(X_test),
        "predict_marginals": lambda crf: crf.predict_marginals(X_test),
        "predict_single": lambda crf: [crf.predict_single(x) for x in X_test],
    }.items():
        both = {"theirs": lambda label=label: label(theirs), "ours": lambda label=label: label(ours)}
        tell(name, least(both, arguments.repeat))
    print(f"token accuracy: {theirs.score(X_test, y_test):.5f} (theirs) {ours.score(X_test, y_test):.5f} (ours)")


def tell(what: str, seconds: dict[str, float]) -> None:
    """Print a line of the table."""
    ratio = seconds["ours"] / seconds["theirs"]
    print(
        f"{what:18} {seconds['theirs']:8.3f} s (theirs) {seconds['ours']:8.3f} s (ours)  ratio {ratio:.2f}", flush=True
    )


if __name__ == "__main__":
    main()
