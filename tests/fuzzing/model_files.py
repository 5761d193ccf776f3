"""Model files with parts changed and a right checksum, as an adversary would make them, loaded and used.

:func:`changed` changes values of the header, arrays, or the table of a model file, or puts in what another model has
there, and signs the file again. :func:`used` loads it and asks it for all that its estimator can say. Whatever was
changed, the outcome must be an answer or a :class:`~loglinear.LoglinearError`, in bounded memory and time, and
probabilities must be numbers from 0 to 1.
"""

from __future__ import annotations

import copy
import io
import json
import random
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

import loglinear
from fuzzing.files import command, scratch
from fuzzing.targets import Target, WrongAnswer
from loglinear import LoglinearError, model_file
from loglinear.estimators.estimator import ESTIMATORS
from problems.model_files import signed

GOLDEN = Path(__file__).parents[1] / "golden" / "models"
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 255, 10**4, 10**6, 2**31, 2**53, 2**63, 10**30, 10**400, 0.0, -0.5, 0.5,
    1e-300, 1e150, 1e308, -1e308, "", "x", "\ud800", "\u202e\x1b[2J", "a" * 1000, "chain", "segments", "none",
    "%x[0,0]", [], [0], [[]], ["a", "a"], ["a", None], [1e308], {}, {"a": 1}, [[[[1]]]], ["x"] * 300,
)  # fmt: skip
NUMBERS = (0.0, -0.0, -1.0, 1.0, 1e150, 1e308, -1e308, np.nan, np.inf, -np.inf, 1e-300, 1e99, -700.0, 710.0)
TYPES = ("f8", "f4", "f2", "i8", "i4", "u1", "?")
SIZES = (0, 1, -1, 7, 8, 2**31, 2**63, 2**64, 10**30, 1.5, True, None, "8")
SHARES = {"tagger-own-base": 0.02, "tagger-own-base-with-scores": 0.01}  # of the slow ones, beside 1 of the others
SHARES |= dict.fromkeys(("classifier-table", "classifier-table-one-versus-all", "mixture-of-words"), 0.2)
SHARES |= dict.fromkeys(
    (f"tagger-m-estimation-{n}" for n in ("second-order", "locally-uniform", "hmm", "input-only")), 0.1
)


@dataclass(frozen=True)
class Model:
    """A model file to be changed, and what it is asked."""

    content: bytes
    question: dict[str, Any]
    given: dict[str, Any] = field(default_factory=dict)  # own functions, which loading wants again

    @property
    def kind(self) -> str:
        return str(model_file.load(self.content).kind)


@cache
def models() -> dict[str, Model]:
    """Every golden model, and one for whatever has come since."""
    if str(GOLDEN.parent) not in sys.path:
        sys.path.insert(0, str(GOLDEN.parent))
    from own_functions import LOADED_WITH

    from fuzzing.more_models import more_models

    found = {}
    for path in sorted(GOLDEN.glob("*.model")):
        question = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))["question"]
        found[path.stem] = Model(path.read_bytes(), question, LOADED_WITH.get(path.stem, {}))
    for name, (content, X) in more_models().items():
        found[name] = Model(content, {"X": X})
    return found


@cache
def _shares() -> tuple[list[str], list[float]]:
    names = sorted(models())
    return names, list(accumulate(SHARES.get(name, 1.0) for name in names))


@cache
def _kin() -> dict[str, list[str]]:
    """The names of the models of each kind."""
    found: dict[str, list[str]] = {}
    for name, model in models().items():
        found.setdefault(model.kind, []).append(name)
    return found


# -- changing ------------------------------------------------------------------------------------------------------


def drawn(rng: random.Random) -> tuple[str, bytes]:
    """The name of a model, and its file with some changes."""
    names, shares = _shares()
    name = rng.choices(names, cum_weights=shares)[0]
    return name, changed(models()[name].content, rng)


def changed(content: bytes, rng: random.Random) -> bytes:
    """A model file with one change or a few; the same file where JSON cannot hold the change."""
    try:
        return _changed(content, rng)
    except ValueError:
        return content


@cache
def _opened(content: bytes) -> tuple[model_file.ModelFile, str]:
    """A known model's file, and its header as text, which is quicker to read than to copy."""
    found = model_file.load(content)
    return found, json.dumps(found.header)


def _changed(content: bytes, rng: random.Random) -> bytes:
    how = rng.random()
    if how < 0.04:
        return _bytes_changed(content, rng)
    if how < 0.1:
        return _table_changed(content, rng)
    found, text = _opened(content)
    header, arrays = json.loads(text), dict(found.arrays)
    if rng.random() < 0.45:
        for _ in range(rng.randint(1, 3)):
            _gently(header, arrays, rng)
        return model_file.dumps(found.kind, header, arrays)
    for _ in range(1 if rng.random() < 0.6 else rng.randint(2, 4)):
        how = rng.random()
        if how < 0.12:
            other = models()[rng.choice(_kin()[found.kind])]
            _spliced(header, arrays, _opened(other.content)[0], rng)
        elif how < 0.17 and arrays:
            _longer_or_shorter(arrays, rng)
        elif arrays and how < 0.56:
            name = rng.choice(sorted(arrays))
            array = _array(arrays[name], rng)
            if array is None:
                del arrays[name]
            else:
                arrays[name] = array
        else:
            _value(header, rng)
    kind = found.kind if rng.random() < 0.99 else rng.choice([*ESTIMATORS, "", "x" * 100])
    return model_file.dumps(kind, header, arrays)


def _gently(header: dict[str, Any], arrays: dict[str, Any], rng: random.Random) -> None:
    """A change, in place, after which the file is often still a model: what loads is then used."""
    names = [name for name, array in arrays.items() if array.size]
    if not names or rng.random() < 0.2:
        _value_like_others(header, rng)
        return
    name = rng.choice(sorted(names))
    array = np.array(arrays[name])
    flat = array.reshape(-1)
    places = [rng.randrange(len(flat)) for _ in range(rng.choice([1, 1, 4, len(flat)]))]
    if flat.dtype.kind == "f":
        with np.errstate(all="ignore"):
            flat[places] *= rng.choice([0.0, -1.0, 0.5, 2.0, 30.0, 1e4])
    elif flat.dtype.kind == "b":
        flat[places] ^= True
    else:
        flat[places] = [flat[rng.randrange(len(flat))] for _ in places]  # numbers of this array
    arrays[name] = array


def _value_like_others(header: Any, rng: random.Random) -> None:
    """Put a value of the header in place of another of its type beside it, in place; or a number one more or less."""
    here = header
    while here:
        keys = sorted(here) if isinstance(here, dict) else list(range(len(here)))
        key = rng.choice(keys)
        inner = here[key]
        if isinstance(inner, dict | list) and inner:
            here = inner
            continue
        if isinstance(inner, bool):
            here[key] = not inner
        elif isinstance(inner, int):
            here[key] = max(0, inner + rng.choice([-1, 1]))
        elif isinstance(inner, float):
            here[key] = inner * rng.choice([0.5, 2.0])
        elif isinstance(inner, str) and rng.random() < 0.5:
            here[key] = inner + rng.choice("xB-0/é")
        else:
            here[key] = copy.deepcopy(here[rng.choice(keys)])
        return


def _bytes_changed(content: bytes, rng: random.Random) -> bytes:
    """Bytes lost, added or changed, with the checksum of what was there before."""
    blob = bytearray(content)
    place = rng.randrange(len(blob))
    match rng.randrange(4):
        case 0:
            blob[place] ^= 1 << rng.randrange(8)
        case 1:
            del blob[place:]
        case 2:
            del blob[place : place + rng.randint(1, 64)]
        case _:
            blob[place:place] = rng.randbytes(rng.randint(1, 64))
    return bytes(blob)


def _table_changed(content: bytes, rng: random.Random) -> bytes:
    """The table of arrays changed, with a right checksum."""
    length = int.from_bytes(content[:8], "little")
    table, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    names = [name for name in table if name != "__metadata__"]
    entry = table[rng.choice(names)] if names and rng.random() < 0.7 else table["__metadata__"]
    key = rng.choice(sorted(entry))
    value = entry[key]
    if isinstance(value, list) and value and rng.random() < 0.8:
        value[rng.randrange(len(value))] = rng.choice(SIZES)
    elif key == "dtype":
        entry[key] = rng.choice(["F64", "F32", "F16", "I64", "I32", "U8", "BOOL", "BF16", "", 8])
    elif key == "shape" and rng.random() < 0.5:
        entry[key] = rng.choice([[], [0, 10**18], [2**32, 2**32], [1] * 70, [-1]])
    elif rng.random() < 0.3:
        del entry[key]
    elif key == "header":
        text = value
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(text) + 1)
            text = (
                text[:place]
                + rng.choice(["[" * 200, '"', "NaN", "1e999", "9" * 5000, ",", "\\ud800", "{}", ""])
                + text[place + rng.randrange(9) :]
            )
        entry[key] = text
    else:
        entry[key] = rng.choice(VALUES)
    if rng.random() < 0.1:
        table[rng.choice(["weights", "x", "__metadata__"])] = {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]}
    try:
        return signed(table, data)
    except UnicodeEncodeError:
        return content


def _spliced(header: dict[str, Any], arrays: dict[str, Any], other: model_file.ModelFile, rng: random.Random) -> None:
    """Put a part of another model in place of this one's, in place."""
    names = sorted(other.arrays)
    if names and rng.random() < 0.5:
        name = rng.choice(names)
        arrays[name] = other.arrays[name]
        return
    here, there = header, other.header
    while True:
        key = rng.choice(sorted(there)) if there else ""
        inner = there.get(key)
        if isinstance(inner, dict) and inner and isinstance(here.get(key), dict) and rng.random() < 0.7:
            here, there = here[key], inner
            continue
        if key:
            here[key] = copy.deepcopy(inner)
        return


def _longer_or_shorter(arrays: dict[str, Any], rng: random.Random) -> None:
    """All arrays of one length changed to another, in place, so that they fit together."""
    lengths = sorted({len(array) for array in arrays.values() if array.ndim and len(array)})
    if not lengths:
        return
    n = rng.choice(lengths)
    rows = sorted(rng.choices(range(n), k=max(0, n + rng.choice([-2, -1, 1, 2, n]))))
    for name, array in arrays.items():
        if array.ndim and len(array) == n:
            arrays[name] = array[rows]


def _array(array: Any, rng: random.Random) -> Any:
    """The array changed in its type, shape or numbers; None to leave it out."""
    kind, now = rng.randrange(10), np.array(array)
    if kind == 0:
        return None
    if kind == 1:
        with np.errstate(all="ignore"):
            return now.astype(rng.choice(TYPES))
    if kind == 2:
        return np.concatenate([now, now[:1]]) if now.ndim and len(now) else np.zeros(1)
    if kind == 3:
        return now[:-1] if now.ndim else np.zeros(0)
    if kind == 4:
        return now.reshape(-1) if now.ndim > 1 else now.reshape(1, -1)
    if kind == 5:
        return now.reshape(-1)[:0]
    flat = now.reshape(-1)
    if not len(flat):
        return np.append(flat, flat.dtype.type(1))
    if kind == 6:
        a, b = rng.randrange(len(flat)), rng.randrange(len(flat))
        flat[a], flat[b] = flat[b], flat[a]
        return now
    places = slice(None) if kind == 7 else [rng.randrange(len(flat)) for _ in range(rng.choice([1, 1, 1, 3]))]
    value: Any = rng.choice(NUMBERS)
    with np.errstate(all="ignore"):
        if flat.dtype.kind == "f":
            flat[places] = value
        elif flat.dtype.kind == "b":
            flat[places] ^= True
        else:
            info = np.iinfo(flat.dtype)
            most = int(flat.max())
            near = [most, max(most - 1, 0), most + 1 if most < info.max else 0]
            flat[places] = rng.choice([info.max, info.min, 0, 1, 2, min(len(flat), info.max), *near])
    return now


def _value(header: Any, rng: random.Random) -> None:
    """Change one value somewhere in a header, in place."""
    here = header
    while here:
        key = rng.choice(sorted(here)) if isinstance(here, dict) else rng.randrange(len(here))
        inner = here[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.8:
            here = inner
            continue
        chance = rng.random()
        if chance < 0.1:
            del here[key]
        elif isinstance(inner, int | float) and not isinstance(inner, bool) and chance < 0.4:
            here[key] = inner * rng.choice([2, 10, 1000, 10**6, -1]) if chance < 0.3 else inner + rng.choice([1, -1])
        elif isinstance(inner, str) and inner and chance < 0.4:
            place = rng.randrange(len(inner))
            more = rng.choice(["", "\0", "\n", ":", "=", ",", "9", "%", "[", "(a+)+", "\u2028", inner])
            here[key] = inner[:place] + more + inner[place + rng.randrange(3) :]
        elif isinstance(here, list) and chance < 0.5:
            here.insert(key, copy.deepcopy(rng.choice([inner, *VALUES])))
        else:
            here[key] = copy.deepcopy(rng.choice(VALUES))
        return


def without_needless_changes(
    name: str, content: bytes, is_fault: Callable[[bytes], bool], original: bytes | None = None
) -> bytes:
    """The file with as many parts of the original as the fault allows."""
    try:
        now, before = model_file.load(content), model_file.load(original or models()[name].content)
    except LoglinearError:
        return content
    header, arrays = copy.deepcopy(now.header), dict(now.arrays)
    for part in sorted({*arrays, *before.arrays}):
        trial = {key: array for key, array in arrays.items() if key != part}
        if part in before.arrays:
            trial[part] = before.arrays[part]
        if is_fault(model_file.dumps(now.kind, header, trial)):
            arrays = trial
    _restore(header, before.header, lambda: is_fault(model_file.dumps(now.kind, header, arrays)))
    return model_file.dumps(now.kind, header, arrays)


def _restore(here: dict[str, Any], there: dict[str, Any], fails: Callable[[], bool]) -> None:
    for key in sorted({*here, *there}):
        if key in here and key in there and here[key] == there[key]:
            continue
        was = {key: here[key]} if key in here else {}
        here.pop(key, None)
        if key in there:
            here[key] = copy.deepcopy(there[key])
        if not fails():
            here.pop(key, None)
            here.update(was)
            if isinstance(here.get(key), dict) and isinstance(there.get(key), dict):
                _restore(here[key], there[key], fails)


# -- using ---------------------------------------------------------------------------------------------------------


def run(name: str, content: bytes) -> str:
    """Load the file and ask it everything; answers that cannot be right are a :class:`WrongAnswer`."""
    model = models()[name]
    answers = used(content, model.question, model.given)
    for asked in ("predict_proba", "predict_marginals", "predict_nbest", "predict_spans"):
        if asked in answers and not isinstance(answers[asked], str):
            for p in probabilities(answers[asked]):
                if not -1e-9 <= p <= 1.0 + 1e-6:
                    raise WrongAnswer(f"{asked}: a probability of {p}")
    return "used"


def used(content: bytes, question: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """What the model of a file says; the class of the error where it refuses."""
    model: Any = loglinear.load(content, **given)
    if hasattr(model, "threads"):
        model.threads = 1
    X, y = question.get("X", question.get("sentences")), question.get("y")
    if isinstance(X, list) and X and isinstance(X[0], list) and X[0] and isinstance(X[0][0], list):
        X = [[tuple(token) for token in x] for x in X]
    elif question.get("examples") == "tuples":
        X = [tuple(x) for x in X]
    answers: dict[str, Any] = {}
    for name in ("predict", "predict_proba", "predict_marginals", "predict_nbest", "predict_spans"):
        if hasattr(model, name) and X is not None:
            answers[name] = _refused(lambda name=name: getattr(model, name)(X))
    if "table" in question:
        answers["run"] = _refused(lambda: _run_on_table(model.kind, content, question["table"]))
    turn = zlib.crc32(content)  # what takes longer is asked in turns, which must not depend on anything else
    others = [] if X is None else list(_other_questions(model, X, y, question))
    for k in {turn % len(others), turn // 7 % len(others)} if others else ():
        name, ask = others[k]
        answers[name] = _refused(ask)
    if turn % 64 == 0:
        answers["inspect"] = _refused(lambda: inspected(content))
    answers["again"] = len(model.to_bytes())
    return answers


def _refused(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except LoglinearError as error:
        return type(error).__name__


def _other_questions(model: Any, X: Any, y: Any, question: dict[str, Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What can be asked beside predictions, by name."""
    name = type(model).__name__
    if name == "NaiveBayes":
        yield "joint", lambda: model.predict_joint_log_proba(X)
        yield "sample", lambda: model.sample(3)
    elif name == "Mixture":
        yield "score_samples", lambda: model.score_samples(X)
        yield "bic", lambda: model.bic(X)
        yield "sample", lambda: model.sample(3)
    elif name == "Classifier":
        yield "decision_function", lambda: model.decision_function(X)
        if hasattr(model, "coef_"):
            yield "coef", lambda: (model.coef_, model.intercept_)
        if isinstance(X, list):
            yield "explain", lambda: model.explain(X[0])
            yield "score", lambda: model.score(X, y) if y is not None else None
    elif name == "Parser":
        yield "parse", lambda: [str(parse.tree) for parse in model.parse(X)]
        yield "log_prob", lambda: model.log_prob(X)
        yield "sample", lambda: model.sample(2, seed=1)
        yield "posterior", lambda: model.set_params(decoding="posterior").parse(X[:1])
    elif name == "DependencyParser":
        yield "parse", lambda: model.parse(X)
        if "conllu" in question:
            read = lambda: loglinear.read_conllu(io.BytesIO(question["conllu"].encode()))  # noqa: E731
            yield "evaluate", lambda: model.evaluate(read()).text()
    elif hasattr(model, "predict_single"):
        X = X[:2]
        yield "single", lambda: [model.predict_single(x) for x in X]
        yield "marginals_single", lambda: model.predict_marginals_single(X[0])
        yield "posterior", lambda: model.predict(X, decoding="posterior")
        yield "min-risk", lambda: model.predict(X, decoding="min-risk", cost="recall:3")
        labels = list(model.classes_)
        some = [[labels[0], *[None] * (len(x) - 1)] for x in X]
        yield "given", lambda: model.predict(X, given=some)
        yield "marginals_given", lambda: model.predict_marginals(X, given=some)
        yield "log_probability", lambda: model.log_probability(X, [[labels[-1]] * len(x) for x in X])
        yield "score", lambda: model.score(X, [[labels[0]] * len(x) for x in X])
        if hasattr(model, "pruned"):
            yield "pruned", lambda: model.pruned(0.5).predict(X)
        if question.get("density"):
            yield "log_prob", lambda: model.log_prob(X, **({} if name == "HMM" else {"draws": 20}))
            yield "sample", lambda: model.sample(2, seed=1)


def inspected(content: bytes) -> str:
    """What ``inspect`` shows, as a table and as JSON."""
    path = scratch("inspected.model", content)
    return said("inspect", path) + said("inspect", path, "--json")


def said(*arguments: object) -> str:
    """What a command prints; its refusal is an error, as in Python."""
    status, out, err = command(*arguments)
    if status != 0:
        raise LoglinearError(f"status {status}: {err}")
    return out


def _run_on_table(kind: str, content: bytes, table: str) -> str:
    """What the verb that uses such a model makes of a table."""
    path, rows = scratch("used.model", content), scratch("table.csv", table.encode())
    if kind == "mixture":
        return said("cluster", rows, "--predict", path)
    return said("classify", "run", path, rows)


def probabilities(answer: Any) -> list[float]:
    """The probabilities in an answer."""
    if isinstance(answer, np.ndarray):
        return answer.ravel().tolist() if answer.dtype.kind == "f" else []
    if isinstance(answer, float):
        return [answer]
    if isinstance(answer, dict):
        return [p for value in answer.values() for p in probabilities(value)]
    if isinstance(answer, tuple):  # labels, then their probability
        return probabilities(answer[-1])
    if isinstance(answer, list):
        return [p for value in answer for p in probabilities(value)]
    return []


def prepare() -> None:
    """Use every model once, so that kernels are compiled."""
    for name, model in models().items():
        run(name, model.content)
        if hasattr(loglinear, ESTIMATORS[model.kind]):
            loaded = getattr(loglinear, ESTIMATORS[model.kind]).load(model.content, **model.given)
            X = model.question.get("X")
            if isinstance(X, list):
                for _, ask in _other_questions(loaded, X, model.question.get("y"), model.question):
                    _quiet(ask)
        _quiet(lambda content=model.content: inspected(content))


def _quiet(ask: Callable[[], Any]) -> None:
    with suppress(Exception):  # a question that this model cannot be asked; cases will say so, too
        ask()


TARGET = Target("models", drawn, run, prepare, without_needless_changes)
