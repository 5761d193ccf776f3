"""Trainings whose weights are kept to the last bit: every criterion, optimizer and structure once, on small data.

Each is a function of the number of threads that gives a fitted estimator. What is kept of one (:func:`outcome`) are the
arrays of numbers in its model file, which the safetensors library reads, as digests with some of the numbers beside
them, so that a weight that moved can be judged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from golden_records import one_blas_thread
from model_answers import arrays_of
from sklearn.linear_model import LogisticRegression
from small_data import PHRASES, bundled, clouds, counts, dependencies, sequences, trees, words_of

from loglinear import (
    HMM,
    Classifier,
    DependencyParser,
    InputClassifier,
    LocalTagger,
    Mixture,
    NaiveBayes,
    Parser,
    Ridge,
    Tagger,
    regularisation_path,
)

Training = Callable[[int], Any]
TASKS = ("chunk", "ner", "pos", "trees", "conllu")
SOME = 8  # numbers shown of each array
CHUNKS = {"template": "chunking", "precision": "float64"}
PLAIN = {"template": "U0:%x[0,0]\nU1:%x[0,1]\nU2:%x[-1,1]/%x[0,1]\nB\n", "precision": "float64"}


def _tagger(n: int | None = None, **options: Any) -> Training:
    """A tagger of chunks. All 4,908 tokens are two parts of the data, which two threads share."""
    return lambda threads: Tagger(threads=threads, **{**CHUNKS, **options}).fit(*sequences("chunk", n, split="all"))


def _plain_tagger(n: int | None = None, **options: Any) -> Training:
    """The same with few templates, for criteria that take longer."""
    return _tagger(n, **{**PLAIN, **options})


def _partial(threads: int) -> Tagger:
    X, y = sequences("chunk", split="all")
    some = [[None if (i + t) % 3 == 0 else label for t, label in enumerate(labels)] for i, labels in enumerate(y)]
    return Tagger(threads=threads, max_iter=25, **PLAIN).fit(X, some)


def _by_names(threads: int) -> Tagger:
    X, y = sequences("ner", split="all")
    features = [[{"w": word, "tag": tag, "length": len(word) / 8} for word, tag in x] for x in X]
    return Tagger(optimizer="lbfgs", l1=0.2, l2=0.1, max_iter=40, precision="float64", threads=threads).fit(features, y)


def _with_dev(threads: int) -> Tagger:
    tagger = Tagger(optimizer="adagrad:average", patience=3, max_iter=12, seed=3, threads=threads, **PLAIN)
    return tagger.fit(*sequences("chunk", 100), *sequences("chunk", 20, split="dev"))


def _warm(threads: int) -> Tagger:
    X, y = sequences("chunk", split="all")
    first = Tagger(threads=threads, criterion="memm", max_iter=10, **PLAIN).fit(X[:60], y[:60])
    return Tagger(threads=threads, optimizer="lbfgs", max_iter=20, **PLAIN).fit(X, y, init=first, keep=400)


def _hmm_by_em(threads: int) -> HMM:
    X, y = sequences("chunk", split="all")
    some = [labels if i < 50 else [None] * len(labels) for i, labels in enumerate(y)]
    return HMM(rounds=8, smoothing=0.1, transition_smoothing=0.01, threads=threads).fit(words_of(X), some)


def _hmm_found(threads: int) -> HMM:
    X, _ = sequences("chunk", split="all")
    return HMM(labels=4, smoothing=0.1, rounds=6, restarts=2, order=2, seed=1, threads=threads).fit(words_of(X))


def _documents() -> tuple[list[str], list[str]]:
    """Sentences as documents, by how they end and whether a number is in them."""
    X, _ = sequences("pos", split="all")
    texts = [" ".join(row[0] for row in x[:-1]) for x in X]
    kinds = ["question" if x[-1][0] == "?" else "number" if any(c.isdigit() for c in t) else "statement"
             for x, t in zip(X, texts, strict=True)]  # fmt: skip
    return texts, kinds


def _classifier(**options: Any) -> Training:
    return lambda threads: Classifier(threads=threads, **options).fit(*_documents())


def _of_numbers(**options: Any) -> Training:
    def train(threads: int) -> Classifier:
        X, y = clouds(120, 1, 4)
        return Classifier(threads=threads, **options).fit(X, y)

    return train


def _of_counts(threads: int) -> Classifier:
    X, kind = counts(80, 3, 12)
    return Classifier("m-estimation", variance=2, threads=threads).fit(scipy.sparse.csr_matrix(X), kind)


def _parser(n: int | None = 60, longest: int = 12, **options: Any) -> Training:
    return lambda threads: Parser(threads=threads, **options).fit(trees(n, longest, "all"))


def _dependency_parser(n: int | None = 60, **options: Any) -> Training:
    return lambda threads: DependencyParser(threads=threads, **options).fit(dependencies(n, 100, "all"))


TRAININGS: dict[str, Training] = {
    # chains, conditional
    "cll": _tagger(),
    "cll-lbfgs": _tagger(optimizer="lbfgs", l2=0.5, max_iter=40),
    "cll-l1-dual": _tagger(l1=0.1, l2=0.1),
    "cll-l1-owlqn": _tagger(optimizer="lbfgs", l1=0.5, l2=0.0, max_iter=40),
    "cll-second-order": _plain_tagger(order=2, max_iter=25, constraints="bio"),
    "cll-pair-features": _plain_tagger(pair_features=True, max_iter=25, min_count=2),
    "cll-pair-features-second-order": _plain_tagger(pair_features=True, order=2, max_iter=10, min_count=2),
    "cll-hashed": _tagger(hash_bits=10, max_iter=10),
    "cll-names-owlqn": _by_names,
    "cll-sgd": _tagger(optimizer="sgd", max_iter=5),
    "cll-sgd-l1": _plain_tagger(optimizer="sgd:step=0.2,decay=0.5", l1=0.1, l2=0.1, max_iter=5),
    "cll-adagrad-dev": _with_dev,
    "cll-partial": _partial,
    "cll-sub-labels": _plain_tagger(sub_labels=2, max_iter=15, seed=5),
    "cll-warm-start": _warm,
    "softmax-margin": _tagger(criterion="softmax-margin", cost="recall:3"),
    "softmax-margin-lbfgs": _plain_tagger(criterion="softmax-margin", optimizer="lbfgs", max_iter=25, cost="balanced"),
    "max-margin": _plain_tagger(criterion="max-margin", max_iter=25),
    "max-margin-adagrad": _plain_tagger(criterion="max-margin", optimizer="adagrad", max_iter=5),
    "risk": _plain_tagger(criterion="risk", max_iter=10, l2=0.1),
    "risk-second-order": _plain_tagger(60, criterion="risk", max_iter=5, l2=0.1, order=2),
    "jrb": _plain_tagger(criterion="jrb", max_iter=10, l2=0.1),
    "perceptron": _tagger(criterion="perceptron", max_iter=5),
    "perceptron-second-order": _plain_tagger(criterion="perceptron", max_iter=3, order=2),
    "mira": _tagger(criterion="mira", max_iter=5),
    "mira-k-best": _tagger(criterion="mira:k=4,C=0.1", max_iter=3, cost="hamming:2"),
    "passive-aggressive": _tagger(criterion="passive-aggressive:variant=2", max_iter=5),
    # chains, piece by piece
    "memm": _plain_tagger(criterion="memm", max_iter=25, constraints="bio"),
    "memm-second-order": _plain_tagger(criterion="memm", max_iter=15, order=2),
    "pseudolikelihood": _plain_tagger(criterion="pseudolikelihood", max_iter=25),
    "pseudolikelihood-joint": _plain_tagger(criterion="pseudolikelihood:joint", max_iter=8),
    "piecewise": _plain_tagger(criterion="piecewise", max_iter=25),
    "nota-scaling": _plain_tagger(criterion="nota:scaling", max_iter=15),
    "nota-threshold": _plain_tagger(criterion="nota:threshold=0.2,after=5", max_iter=15),
    "nota-rate": _plain_tagger(criterion="nota:rate=0.3,decoding=local", max_iter=10, pair_features=True, min_count=2),
    # chains, generative
    "hmm": _tagger(criterion="hmm", template=None, precision="float32", order=2),
    "hmm-em": _hmm_by_em,
    "hmm-em-found-labels": _hmm_found,
    "m-estimation": _tagger(criterion="m-estimation", variance=1, max_iter=40),
    "m-estimation-input-only": _plain_tagger(criterion="m-estimation:input_only", variance=1, order=2, max_iter=40),
    "m-estimation-empirical": _plain_tagger(criterion="m-estimation", base="empirical", variance=1, max_iter=20),
    "m-estimation-drawn": _plain_tagger(criterion="m-estimation", base="hmm:samples=2000", variance=1, max_iter=20),
    "m-estimation-newton": _plain_tagger(criterion="m-estimation", optimizer="newton", variance=1, min_count=3),
    # flat labels
    "classifier-cll": _classifier(l2=0.5),
    "classifier-cll-dual": _classifier(l2=0.5, optimizer="dual", tolerance=1e-6),
    "classifier-cll-one-versus-all": _classifier(l2=0.5, multiclass="one-versus-all", class_weight="balanced"),
    "classifier-cll-l1": _classifier(l1=0.5, l2=0.0, max_iter=50),
    "classifier-max-margin": _classifier(criterion="max-margin", l2=0.5, bias="penalised"),
    "classifier-softmax-margin-sgd": _classifier(criterion="softmax-margin", optimizer="sgd", max_iter=5),
    "classifier-risk": _of_numbers(criterion="risk", l2=0.1, max_iter=20),
    "classifier-perceptron": _classifier(criterion="perceptron", max_iter=5),
    "classifier-mira": _classifier(criterion="mira:k=2,C=0.1", max_iter=5),
    "classifier-passive-aggressive": _of_numbers(criterion="passive-aggressive", max_iter=5),
    "classifier-least-squares": _of_numbers(criterion="least-squares"),
    "classifier-least-squares-l1": _of_numbers(criterion="least-squares", l1=1.0, l2=0.0),
    "classifier-m-estimation": _of_counts,
    "naive-bayes": lambda threads: NaiveBayes().fit(*counts(80, 3, 12)),
    "ridge": lambda threads: Ridge(l2=0.3).fit(clouds(60, 5, 6)[0], clouds(60, 6, 2)[0]),
    "ridge-conjugate-gradients": lambda threads: Ridge(l2=0.3, solver="conjugate-gradients").fit(
        clouds(60, 5, 6)[0], clouds(60, 6, 1)[0][:, 0]
    ),
    "mixture-full": lambda threads: Mixture(3, covariance="full", smoothing=2.0, seed=2).fit(clouds(90, 1, 3)[0]),
    "mixture-diagonal": lambda threads: Mixture(3, restarts=2, seed=1).fit(clouds(90, 1, 3)[0]),
    "mixture-multinomial": lambda threads: Mixture(2, components="multinomial", restarts=2).fit(counts(80, 3, 12)[0]),
    # trees
    "parser-pcfg": _parser(),
    "parser-mecfg": _parser(None, 100, criterion="mecfg:iterations=15"),
    "parser-nota": _parser(criterion="nota:after=3,iterations=8", annotation="none"),
    "parser-cll": _parser(criterion="cll:iterations=6", annotation="none"),
    "parser-softmax-margin-sgd": _parser(20, criterion="softmax-margin:iterations=2,optimizer=sgd", annotation="none"),
    "parser-perceptron": _parser(20, criterion="perceptron:iterations=3", annotation="none"),
    "parser-mira": _parser(15, criterion="mira:iterations=2,k=3", annotation="none"),
    "parser-max-margin": _parser(15, criterion="max-margin:iterations=2", annotation="none"),
    "parser-m-estimation": _parser(20, criterion="m-estimation:samples=1000,iterations=10", annotation="none"),
    "dependency-parser-mira": _dependency_parser(max_iter=4),
    "dependency-parser-mira-k-best": _dependency_parser(20, criterion="mira:k=3", max_iter=2, relations=False),
    "dependency-parser-cll": _dependency_parser(criterion="cll", max_iter=3, relations=False),
    "dependency-parser-cll-lbfgs": _dependency_parser(
        None, criterion="cll", optimizer="lbfgs", max_iter=8, relations=False
    ),
    "dependency-parser-crossing": _dependency_parser(
        criterion="softmax-margin", projective=False, max_iter=3, relations=False
    ),
    "dependency-parser-risk": _dependency_parser(20, criterion="risk", max_iter=2, relations=False),
    "dependency-parser-m-estimation": _dependency_parser(
        criterion="m-estimation", base="head-outward:samples=2000", relations=False
    ),
}


SPARSE = {
    "cll-l1-dual",
    "cll-l1-owlqn",
    "cll-names-owlqn",
    "cll-sgd-l1",
    "classifier-cll-l1",
    "classifier-least-squares-l1",
}  #: trainings with an L1 penalty


def outcome(estimator: Any) -> dict[str, Any]:
    """What is kept of a training: how it ended, and for each array of numbers its size, digest and some of it.

    The numbers are those at equal distances, and the one of the greatest size.
    """
    notes = {"objective": "objective_", "iterations": "n_iter_", "evaluations": "n_evaluations_", "message": "message_"}
    found: dict[str, Any] = {key: getattr(estimator, name) for key, name in notes.items() if hasattr(estimator, name)}
    found["arrays"] = {
        name: array_outcome(array)
        for name, array in sorted(arrays_of(estimator.to_bytes()).items())
        if array.dtype.kind == "f"
    }
    return found


def array_outcome(array: np.ndarray) -> dict[str, Any]:
    """Shape, digest and some numbers of an array."""
    flat = np.ascontiguousarray(array).ravel()
    chosen = flat[np.linspace(0, len(flat) - 1, min(SOME, len(flat))).astype(int)] if len(flat) else flat
    shown = {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "sha256": hashlib.sha256(flat.tobytes()).hexdigest(),
    }
    if len(flat):
        finite = np.where(np.isfinite(flat), np.abs(flat), 0.0)
        shown |= {"some": chosen.astype(float).tolist(), "greatest": float(flat[finite.argmax()])}
    return shown


# -- what has no model file ----------------------------------------------------------------------------------------


def _local_tagger(threads: int) -> dict[str, Any]:
    """Labels and probabilities of a tagger made of scikit-learn's logistic regression."""
    X, y = sequences("chunk", 30, labels=PHRASES)
    asked = X[:2]
    tagger = LocalTagger(
        LogisticRegression(max_iter=200), template=PLAIN["template"], constraints="bio", threads=threads
    )
    tagger.fit(X, y)
    marginals = [[list(token.values()) for token in x] for x in tagger.predict_marginals(asked)]
    return {"predict": tagger.predict(asked), "marginals": marginals, "nbest": tagger.predict_nbest(asked[:1], 2)}


def _input_classifier(threads: int) -> dict[str, Any]:
    """Classes of sentences by one hidden Markov model for each."""
    X, labels = sequences("pos", 80)
    kinds = ["question" if x[-1][0] == "?" else "statement" for x in X]
    classifier = InputClassifier(Tagger(criterion="hmm", threads=threads), prior="uniform").fit(X, kinds, labels)
    asked = sequences("pos", 4, split="dev")[0]
    return {
        "predict": classifier.predict(asked),
        "joint": classifier.predict_joint_log_proba(asked),
        "shares": classifier.shares_,
    }


def _path(threads: int) -> dict[str, Any]:
    """Errors of a classifier along a grid of penalties."""
    X, y = clouds(60, 1, 4)
    new, truth = clouds(40, 2, 4)
    path = regularisation_path(Classifier(threads=threads), X, y, X_test=new, y_test=truth, l2=[0.01, 1.0, 100.0])
    return path.to_dict()


ANSWERED: dict[str, Callable[[int], dict[str, Any]]] = {
    "local-tagger": _local_tagger,
    "input-classifier": _input_classifier,
    "regularisation-path": _path,
}  #: trainings that leave no file; what is kept are their answers


def corpus_digests() -> dict[str, str]:
    """SHA-256 of the training data: another corpus has other weights."""
    return {task: hashlib.sha256(bundled(task, "all").encode()).hexdigest() for task in TASKS}


def result(name: str, threads: int) -> dict[str, Any]:
    """What a training comes to."""
    with one_blas_thread():
        return ANSWERED[name](threads) if name in ANSWERED else outcome(TRAININGS[name](threads))


NAMES = [*TRAININGS, *ANSWERED]
