"""The look-alike of sklearn-crfsuite and the real one, on CoNLL-2002 Spanish with the features of its tutorial.

    python -m benchmarks.crfsuite --peer OTHER/bin/python
    python -m benchmarks.crfsuite --peer OTHER/bin/python --model names.crfsuite

``OTHER`` is an environment with sklearn-crfsuite (this one if not given). Seconds of the processor, the least of the
runs, each in a process of its own, one implementation after the other: fit (with all that it does to features),
predict of the test data at once, and of single sentences; and the objective that fit ended with, worked out here for
both from the model files: log-losses + 0.1 |w| + 0.1 ||w||^2.

Then one model file of CRFsuite's, the one that sklearn-crfsuite has trained or ``--model`` (nothing is trained then),
is opened by python-crfsuite and here, and labels the test data in a batch on one thread: dicts, lists of strings, and
features made ready before (``ItemSequence``; here a corpus as well). ``first`` is the first pass over new objects, in
which values of features are met for the first time; the others are the least of five passes.
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
TAGGERS = {OURS: "loglinear.compat.pycrfsuite", THEIRS: "pycrfsuite"}
PASSES = 5
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


def strings_of(token: dict[str, Any]) -> list[str]:
    """The features of a word as strings."""
    return [f"{name}:{value}" if isinstance(value, str) else name for name, value in token.items() if value]


def batches(implementation: str, model: str) -> dict[str, float]:
    """Seconds in which a model of CRFsuite's labels the test data; run in a process of its own, on one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    package = importlib.import_module(TAGGERS[implementation])
    tagger, clock = package.Tagger(), time.process_time
    tagger.open(model)
    ours, seconds = implementation == OURS, dict[str, float]()
    label_all = tagger.tag_all if ours else lambda X: [tagger.tag(x) for x in X]
    dicts, _ = data("esp.testb")
    strings = [[strings_of(token) for token in x] for x in dicts]
    given: dict[str, Any] = {"dicts": dicts, "lists of strings": strings}
    for X in given.values():
        label_all([*X[:3], *data("esp.testa", 3)[0]])  # whatever is imported or laid out once
    given["ItemSequence"] = [package.ItemSequence(x) for x in dicts]
    for name, X in given.items():
        for i in range(PASSES):
            start = clock()
            label_all(X)
            spent = clock() - start
            if i == 0 and name != "ItemSequence":
                seconds[f"{name}, first"] = spent
            seconds[name] = min(seconds.get(name, spent), spent)
    seconds["ItemSequence; a corpus"] = seconds["ItemSequence"]
    if ours:
        seconds["ItemSequence; a corpus"] = _of_a_corpus(model, dicts)
    return seconds


def _of_a_corpus(model: str, X: list[Any]) -> float:
    """Seconds in which a model labels a corpus, the least of some passes."""
    from loglinear.estimators.tagger.predict import LoadedTagger
    from loglinear.features.names import attributes_of

    tagger, least = LoadedTagger.load(model, threads=1), float("inf")
    corpus = attributes_of(X)
    for _ in range(PASSES):
        start = time.process_time()
        tagger.predict(corpus)
        least = min(least, time.process_time() - start)
    return least


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


def in_a_process(python: str, *arguments: str) -> dict[str, float]:
    """What this program prints with these arguments."""
    out = subprocess.run([python, __file__, *arguments], capture_output=True, text=True, check=True).stdout
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found


def tell(peer: str, runs: dict[str, list[dict[str, float]]]) -> None:
    """Print the least of each figure, and the ratios."""
    print(f"{'':24} {peer:>17} {'loglinear':>12} {'ratio':>7} {'times':>7}")
    for name in runs[OURS][0]:
        theirs, ours = (min(run[name] for run in runs[each]) for each in (THEIRS, OURS))
        print(f"{name:24} {theirs:17.3f} {ours:12.3f} {ours / theirs:7.2f} {theirs / ours:7.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", default=sys.executable, help="the Python of an environment with sklearn-crfsuite")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sentences", type=int, help="of the training data; all if not given")
    parser.add_argument("--model", help="a model file of CRFsuite's to label with; nothing is trained")
    parser.add_argument("--only", nargs=2, metavar=("IMPLEMENTATION", "MODEL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        name, model = options.only
        print(json.dumps(batches(name, options.model) if options.model else measured(name, model, options.sentences)))
        return
    pythons = {THEIRS: options.peer, OURS: sys.executable}
    fits: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
    labels: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
    with tempfile.TemporaryDirectory() as folder:
        models = {name: str(Path(folder) / f"{name}.crfsuite") for name in pythons}
        if not options.model:
            few = ["--sentences", str(options.sentences)] if options.sentences else []
            for _ in range(options.runs):
                for name, python in pythons.items():
                    fits[name].append(in_a_process(python, "--only", name, models[name], *few))
            tell("sklearn-crfsuite", fits)
            theirs, ours = (objective(models[name], options.sentences) for name in (THEIRS, OURS))
            print(f"{'objective':24} {theirs:17.3f} {ours:12.3f}\n")
        model = options.model or models[THEIRS]
        for _ in range(options.runs):
            for name, python in pythons.items():
                labels[name].append(in_a_process(python, "--model", model, "--only", name, model))
        tell("python-crfsuite", labels)


if __name__ == "__main__":
    main()
