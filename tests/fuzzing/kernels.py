"""Kernels with random arguments within their contracts, beside the same kernels as plain Python.

The arguments are those that the package itself gives them in a random training on random data: small, with labels that
are partial or rare, values that are large or zero, sentences of one token. Each kind of call is made twice, compiled
and as plain Python, with copies of the arguments; results and what was written into the arguments must agree.
"""

from __future__ import annotations

import copy
import json
import random
import threading
import warnings
from collections import Counter
from typing import Any

import numpy as np

from fuzzing.targets import Target, WrongAnswer
from loglinear import Classifier, DependencyParser, LoglinearError, Mixture, Parser, Tagger
from loglinear.kernels import Kernel

MOST_CALLS = 2  # of each kernel in a case that are repeated in plain Python, which takes a thousand times as long
CRITERIA = (
    "cll", "softmax-margin", "memm", "pseudolikelihood", "piecewise", "nota", "risk", "jrb", "max-margin", "perceptron",
    "mira:k=2", "passive-aggressive", "hmm", "f-measure",
)  # fmt: skip
TREES = (
    "(ROOT (S (NP (DT the) (NN dog)) (VP (VBD ran))))", "(ROOT (S (NP (NNS dogs)) (VP (VBD ran))))",
    "(ROOT (S (NP (DT a) (NN cat)) (VP (VBD saw) (NP (DT the) (NN dog)))))", "(ROOT (S (VP (VB go))))",
)  # fmt: skip
seen: Counter[str] = Counter()  # calls that were compared, by kernel


def drawn(rng: random.Random) -> tuple[str, bytes]:
    """What is trained, and from which seed."""
    kind = rng.choice(
        ["tagger"] * 6 + ["segments", "segments", "classifier", "classifier", "parser", "arcs", "mixture"]
    )
    setting: dict[str, Any] = {"seed": rng.randrange(10**9)}
    if kind in ("tagger", "segments"):
        setting["criterion"] = rng.choice(CRITERIA)
        setting["optimizer"] = rng.choice([None, None, "lbfgs", "sgd:step=0.1", "adagrad", "dual"])
        if kind == "tagger":
            setting["order"] = rng.choice([1, 1, 1, 2, 3])
            setting["pair_features"] = rng.choice([False, False, True, "only"])
            setting["states"] = rng.choice(["observed", "all"])
            setting["transitions"] = rng.choice(["observed", "all", "none", "observed-only"])
            setting["sub_labels"] = rng.choice([1, 1, 1, 2])
    elif kind == "classifier":
        setting["criterion"] = rng.choice(["cll", "max-margin", "softmax-margin", "mira", "perceptron", "risk"])
        setting["kernel"] = rng.choice([None, None, "rbf", "poly:degree=2"])
    elif kind == "parser":
        setting["criterion"] = rng.choice(["pcfg", "mecfg", "cll", "softmax-margin", "max-margin", "mira", "nota"])
    elif kind == "arcs":
        setting["criterion"] = rng.choice(["cll", "max-margin", "mira", "softmax-margin"])
        setting["projective"] = rng.random() < 0.7
    return kind, json.dumps(setting).encode()


def run(kind: str, content: bytes) -> str:
    """Train and predict; every kernel's first calls are repeated in plain Python."""
    setting = json.loads(content)
    seed = setting.pop("seed")
    with _Comparing(), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        _TRAIN[kind](np.random.default_rng(seed), {key: value for key, value in setting.items() if value is not None})
    return "used"


# -- trainings -----------------------------------------------------------------------------------------------------


def _sentences(rng: np.random.Generator, labels: list[str]) -> tuple[list[Any], list[Any]]:
    lengths = rng.choice([1, 1, 2, 3, 5, 9], size=rng.integers(2, 7))
    scale = rng.choice([1.0, 1.0, 1e-3, 50.0])
    X: list[Any] = []
    for n in lengths:
        X.append([
            {f"a{rng.integers(9)}": float(rng.choice([1.0, 0.0, -1.0, scale])), f"b{rng.integers(3)}": 1.0}
            for _ in range(n)
        ])  # fmt: skip
    return X, [[str(rng.choice(labels)) for _ in range(n)] for n in lengths]


def _tag(rng: np.random.Generator, setting: dict[str, Any], **more: Any) -> None:
    segments = more.get("structure") == "segments"
    labels = ["O", "B-X", "I-X", "B-Y", "I-Y"] if segments else [f"L{k}" for k in range(rng.integers(2, 12))]
    X, y = _sentences(rng, labels)
    if segments:
        y = [["O" if label[0] == "I" else label for label in row] for row in y]
    if setting["criterion"] == "hmm":
        setting = {"criterion": "hmm", "order": min(setting.get("order", 1), 2)}
        X = [[min(token) for token in x] for x in X]
    elif rng.random() < 0.3:
        y = [[None if rng.random() < 0.3 else label for label in row] for row in y]
    learnt = {} if setting["criterion"] == "hmm" else {"max_iter": 2}
    tagger = Tagger(threads=1, **learnt, **setting, **more).fit(X, y)
    tagger.predict(X)
    tagger.predict_marginals(X)
    tagger.predict_nbest(X, 3)
    tagger.predict_single(X[0])


def _classify(rng: np.random.Generator, setting: dict[str, Any]) -> None:
    n, d, k = int(rng.integers(4, 12)), int(rng.integers(1, 6)), int(rng.integers(2, 5))
    X = rng.normal(size=(n, d)) * rng.choice([1.0, 1e-3, 100.0]) * (rng.random((n, d)) < 0.7)
    y = np.arange(n) % k
    model = Classifier(threads=1, max_iter=3, **setting).fit(X, y)
    model.predict_proba(X)


def _parse(rng: np.random.Generator, setting: dict[str, Any]) -> None:
    trees = [str(rng.choice(TREES)) for _ in range(rng.integers(2, 5))]
    more = {} if setting["criterion"] == "pcfg" else {"max_iter": 1}
    parser = Parser(threads=1, annotation=str(rng.choice(["none", "parent"])), **setting, **more).fit(trees)
    parser.predict(["the dog saw a cat", "dogs ran", "x"])


def _attach(rng: np.random.Generator, setting: dict[str, Any]) -> None:
    X = [[(f"w{rng.integers(4)}", f"t{rng.integers(2)}") for _ in range(rng.integers(1, 6))] for _ in range(4)]
    arcs = [[(0 if t == 0 else int(rng.integers(1, t + 1)), f"r{rng.integers(2)}") for t in range(len(x))] for x in X]
    parser = DependencyParser(threads=1, max_iter=1, **setting).fit(X, arcs)
    parser.predict(X)


def _mix(rng: np.random.Generator, setting: dict[str, Any]) -> None:
    words = [[f"w{rng.integers(4)}" for _ in range(rng.integers(1, 6))] for _ in range(6)]
    Mixture(2, components="hmm:states=2", rounds=2, threads=1).fit(words).predict_proba(words)


_TRAIN: dict[str, Any] = {
    "tagger": _tag,
    "segments": lambda rng, setting: _tag(rng, setting, structure="segments"),
    "classifier": _classify,
    "parser": _parse,
    "arcs": _attach,
    "mixture": _mix,
}


# -- the comparison ------------------------------------------------------------------------------------------------


class _Comparing:
    """A context in which kernels that Python calls run twice."""

    def __enter__(self) -> None:
        self._before, calls, inside = Kernel.__call__, Counter[str](), threading.local()
        before = self._before

        def call(kernel: Kernel, *arguments: Any) -> Any:
            if getattr(inside, "kernel", False):
                return kernel.py_func(*arguments)
            calls[kernel.name] += 1
            if calls[kernel.name] > MOST_CALLS:
                return before(kernel, *arguments)
            others = _copied(arguments, {})
            result = before(kernel, *arguments)
            inside.kernel = True
            try:
                plain = kernel.py_func(*others)
            finally:
                inside.kernel = False
            seen[kernel.name] += 1
            if where := _differ(result, plain, "result") or _differ(arguments, others, "argument"):
                raise WrongAnswer(f"{kernel.name}: {where}")
            return result

        setattr(Kernel, "__call__", call)  # noqa: B010

    def __exit__(self, *_: object) -> None:
        setattr(Kernel, "__call__", self._before)  # noqa: B010


def _copied(value: Any, bases: dict[int, Any]) -> Any:
    """A copy in which arrays share memory where they did: a kernel may write to one and read from another."""
    if isinstance(value, tuple):
        parts = [_copied(part, bases) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if not isinstance(value, np.ndarray) or not value.size:
        return copy.copy(value)
    base = value
    while isinstance(base.base, np.ndarray):
        base = base.base
    if not base.flags.c_contiguous:
        return value.copy()
    if id(base) not in bases:
        bases[id(base)] = base, base.copy()
    place = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return np.ndarray(value.shape, value.dtype, bases[id(base)][1].data, place, value.strides)


def _differ(one: Any, other: Any, place: str) -> str:
    """Where two values differ by more than rounding; empty if nowhere."""
    if isinstance(one, tuple):
        return next(
            filter(None, (_differ(a, b, f"{place}.{i}") for i, (a, b) in enumerate(zip(one, other, strict=True)))), ""
        )
    if one is None or isinstance(one, str):
        return "" if one == other else place
    a, b = np.asarray(one), np.asarray(other)
    if a.shape != b.shape:
        return f"{place}: shapes {a.shape} and {b.shape}"
    if a.dtype.kind == "i" and a.size and np.abs(a).max() > 10**6:  # numbers that were rounded to whole ones
        a, b = a.astype(np.float64), b.astype(np.float64)
    if a.dtype.kind not in "fc":
        return "" if np.array_equal(a, b) else f"{place}: {a.reshape(-1)[:5]} and {b.reshape(-1)[:5]}"
    rough = 1e-3 if np.float32 in (a.dtype, b.dtype) else 1e-6
    size = float(np.max(np.abs(b[np.isfinite(b)]), initial=1.0))
    if np.allclose(a, b, rtol=rough, atol=rough * size, equal_nan=True):
        return ""
    worst = int(np.argmax(np.abs(np.nan_to_num(a - b)).reshape(-1)))
    return f"{place}: {a.reshape(-1)[worst]} and {b.reshape(-1)[worst]} at {worst}"


def prepare() -> None:
    """Compile what is most used."""
    for kind, setting in (("tagger", {"seed": 0, "criterion": "cll"}), ("parser", {"seed": 0, "criterion": "mecfg"})):
        try:
            run(kind, json.dumps(setting).encode())
        except (LoglinearError, WrongAnswer):
            continue


TARGET = Target("kernels", drawn, run, prepare)
