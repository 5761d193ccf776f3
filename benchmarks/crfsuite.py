"""The look-alike of sklearn-crfsuite and the real one, on CoNLL-2002 Spanish with the features of its tutorial.

    python -m benchmarks.crfsuite --peer OTHER/bin/python

``OTHER`` is an environment with sklearn-crfsuite (this one if not given). Seconds of the processor, the least of the
runs, each in a process of its own, one implementation after the other: fit (with all that it does to features),
predict of the test data at once, and of single sentences; and the objective that fit ended with, worked out here for
both from the model files: log-losses + 0.1 |w| + 0.1 ||w||^2.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

OURS, THEIRS = "loglinear.compat.sklearn_crfsuite", "sklearn_crfsuite"
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
DATA = Path(os.environ.get("LOGLINEAR_DATA", SHARED)) / "conll2002"
OPTIONS = {"algorithm": "lbfgs", "c1": 0.1, "c2": 0.1, "max_iterations": 100, "all_possible_transitions": True}

Sentence = list[tuple[str, str, str]]


def sentences(name: str) -> list[Sentence]:
    """Sentences of (word, part of speech, label)."""
    found: list[Sentence] = [[]]
    for line in (DATA / name).read_text(encoding="latin-1").splitlines():
        if line.strip():
            word, tag, label = line.split()
            found[-1].append((word, tag, label))
        elif found[-1]:
            found.append([])
    return [sentence for sentence in found if sentence]


def word_features(sentence: Sentence, i: int) -> dict[str, Any]:
    """The features of a word in the tutorial of sklearn-crfsuite."""
    word, tag, _ = sentence[i]
    features: dict[str, Any] = {
        "bias": 1.0,
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word[-2:]": word[-2:],
        "word.isupper()": word.isupper(),
        "word.istitle()": word.istitle(),
        "word.isdigit()": word.isdigit(),
        "postag": tag,
        "postag[:2]": tag[:2],
    }
    for where, j in (("-1", i - 1), ("+1", i + 1)):
        if 0 <= j < len(sentence):
            word, tag, _ = sentence[j]
            features |= {
                f"{where}:word.lower()": word.lower(),
                f"{where}:word.istitle()": word.istitle(),
                f"{where}:word.isupper()": word.isupper(),
                f"{where}:postag": tag,
                f"{where}:postag[:2]": tag[:2],
            }
        else:
            features["BOS" if j < 0 else "EOS"] = True
    return features


def data(name: str, most: int | None = None) -> tuple[list[list[dict[str, Any]]], list[list[str]]]:
    """Features and labels of the sentences of a file."""
    chosen = sentences(name)[:most]
    X = [[word_features(sentence, i) for i in range(len(sentence))] for sentence in chosen]
    return X, [[label for _, _, label in sentence] for sentence in chosen]


def measured(implementation: str, model: str, most: int | None) -> dict[str, float]:
    """Seconds of one run; run in a process of its own."""
    crf = importlib.import_module(implementation).CRF
    X, y = data("esp.train", most)
    crf(**{**OPTIONS, "max_iterations": 2}).fit(X[:50], y[:50])  # whatever is imported or compiled once
    clock = time.process_time
    start, wall = clock(), time.perf_counter()
    tagger = crf(**OPTIONS, model_filename=model).fit(X, y)
    seconds = {"fit": clock() - start, "fit (wall)": time.perf_counter() - wall}
    X_test, y_test = data("esp.testb")
    tagger.predict(X_test[:5])
    start = clock()
    tagger.predict(X_test)
    seconds["predict"] = clock() - start
    start = clock()
    for sentence in X_test:
        tagger.predict_single(sentence)
    seconds["single sentences"] = clock() - start
    seconds["accuracy"] = tagger.score(X_test, y_test)
    seconds["iterations"] = tagger.training_log_.last_iteration["num"]
    return seconds


def objective(model: str, most: int | None) -> float:
    """What the weights in a model file are worth on the training data."""
    import numpy as np

    from loglinear.estimators.tagger.foreign import chain_model
    from loglinear.features.names import attributes_of
    from loglinear.foreign.crfsuite import read_crfsuite

    X, y = data("esp.train", most)
    chain = chain_model(read_crfsuite(Path(model).read_bytes()))
    number = {label: i for i, label in enumerate(chain.labels)}
    gold = np.array([number[label] for labels in y for label in labels], dtype=np.int32)
    losses = -chain.log_probability(chain.encode(attributes_of(X)), gold).sum()
    return float(losses + OPTIONS["c1"] * np.abs(chain.weights).sum() + OPTIONS["c2"] * (chain.weights**2).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", default=sys.executable, help="the Python of an environment with sklearn-crfsuite")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sentences", type=int, help="of the training data; all if not given")
    parser.add_argument("--only", nargs=2, metavar=("IMPLEMENTATION", "MODEL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measured(*options.only, options.sentences)))
        return
    runs: dict[str, list[dict[str, float]]] = {OURS: [], THEIRS: []}
    values = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.runs):
            for implementation, python in ((THEIRS, options.peer), (OURS, sys.executable)):
                model = str(Path(folder) / f"{implementation}.crfsuite")
                command = [python, __file__, "--only", implementation, model]
                if options.sentences:
                    command += ["--sentences", str(options.sentences)]
                out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                runs[implementation].append(json.loads(out.splitlines()[-1]))
                values[implementation] = objective(model, options.sentences)
    print(f"{'':18} {'sklearn-crfsuite':>17} {'loglinear':>12} {'ratio':>7}")
    for name in runs[OURS][0]:
        theirs, ours = (min(run[name] for run in runs[each]) for each in (THEIRS, OURS))
        print(f"{name:18} {theirs:17.3f} {ours:12.3f} {ours / theirs:7.2f}")
    print(f"{'objective':18} {values[THEIRS]:17.3f} {values[OURS]:12.3f}")


if __name__ == "__main__":
    main()
