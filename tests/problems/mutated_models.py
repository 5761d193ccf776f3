"""Model files with one part changed and a right checksum, as an adversary would make them, and their use.

:func:`mutated` changes one value of the header or one array of a model file and writes the file again, so that its
checksum is right. :func:`used` loads the file and asks it for all that its estimator can say. Whatever was changed,
the outcome must be an answer or a :class:`~loglinear.LoglinearError`, in bounded memory and time, and probabilities
must be numbers from 0 to 1::

    for seed in range(1000):
        blob, what = mutated(content, random.Random(seed))
        assert not (wrong := fault(name, blob)), f"{what}: {wrong}"

``python -m problems.mutated_models MODELS SEED N`` (in ``tests/``) does so N times with the model files of a folder,
from a seed on, and prints every fault with the file, the seed and the change that give it again.
"""

from __future__ import annotations

import copy
import json
import random
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import loglinear
from loglinear import LoglinearError, model_file
from loglinear.estimators.estimator import ESTIMATORS

GOLDEN = Path(__file__).parents[1] / "golden" / "models"
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 255, 10**4, 10**6, 2**31, 2**53, 2**63, 10**30, 10**400, 0.0, -0.5, 0.5,
    1e-300, 1e150, 1e308, -1e308, "", "x", "\ud800", "a" * 1000, "chain", "segments", [], [0], [[]], ["a", "a"],
    [1e308], {}, {"a": 1}, [[[[1]]]],
)  # fmt: skip
NUMBERS = (0.0, -1.0, 1.0, 1e150, 1e308, -1e308, np.nan, np.inf, -np.inf, 1e-300)
TYPES = ("f8", "f4", "f2", "i8", "i4", "u1", "?")


def mutated(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """A model file with one change, and what was changed."""
    found = model_file.load(content)
    header, arrays = copy.deepcopy(found.header), dict(found.arrays)
    if arrays and rng.random() < 0.5:
        name = rng.choice(sorted(arrays))
        how, array = _array(arrays[name], rng)
        if array is None:
            del arrays[name]
        else:
            arrays[name] = array
        what = f"array {name}: {how}"
    else:
        what = _value(header, rng)
    return model_file.dumps(found.kind, header, arrays), what


def _array(array: Any, rng: random.Random) -> tuple[str, Any]:
    """The array changed in its type, shape or numbers; None to leave it out."""
    kind, changed = rng.randrange(8), np.array(array)
    if kind == 0:
        return "missing", None
    if kind == 1:
        type_ = rng.choice(TYPES)
        with np.errstate(all="ignore"):
            return f"as {type_}", changed.astype(type_)
    if kind == 2:
        return "longer", np.concatenate([changed, changed[:1]]) if changed.ndim and len(changed) else np.zeros(1)
    if kind == 3:
        return "shorter", changed[:-1] if changed.ndim else np.zeros(0)
    if kind == 4:
        return "in another shape", changed.reshape(-1) if changed.ndim > 1 else changed.reshape(1, -1)
    if kind == 5:
        return "empty", changed.reshape(-1)[:0]
    flat = changed.reshape(-1)
    if not len(flat):
        return "one number more", np.append(flat, flat.dtype.type(1))
    place, value = rng.randrange(len(flat)), rng.choice(NUMBERS)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if flat.dtype.kind == "f":
            flat[place if kind == 6 else slice(None)] = value
        elif flat.dtype.kind == "b":
            flat[place] ^= True
        else:
            info = np.iinfo(flat.dtype)
            value = rng.choice([info.max, info.min, 0, 1, int(flat.max()) + 1 if flat.max() < info.max else 0])
            flat[place if kind == 6 else slice(None)] = value
    return f"{value} at {place if kind == 6 else 'all'}", changed


def _value(header: Any, rng: random.Random) -> str:
    """Change one value somewhere in a header, in place."""
    path, here = "", header
    while True:
        if not here:
            return "nothing"
        key = rng.choice(sorted(here)) if isinstance(here, dict) else rng.randrange(len(here))
        path += f".{key}"
        inner = here[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.8:
            here = inner
            continue
        if rng.random() < 0.1:
            del here[key]
            return f"header {path} missing"
        if isinstance(inner, int | float) and not isinstance(inner, bool) and rng.random() < 0.3:
            here[key] = inner * rng.choice([2, 10, 1000, 10**6, -1])
        else:
            here[key] = copy.deepcopy(rng.choice(VALUES))
        return f"header {path} = {here[key]!r:.60}"


# -- use -----------------------------------------------------------------------------------------------------------


def questions(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the golden records ask of a model, and the user's functions that it is loaded with."""
    if str(GOLDEN.parent) not in sys.path:
        sys.path.insert(0, str(GOLDEN.parent))
    from own_functions import LOADED_WITH

    record = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return record["question"], LOADED_WITH.get(name, {})


def used(blob: bytes, question: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """What the model of a file says; the class of the error where it refuses."""
    read = model_file.read(blob)
    if read.kind not in ESTIMATORS:
        raise LoglinearError(f"a model of kind {read.kind}")
    model = getattr(loglinear, ESTIMATORS[read.kind]).load(blob, **given)
    if "threads" in model.get_params(deep=False):
        model.set_params(threads=1)
    X = question.get("X", question.get("sentences"))
    if isinstance(X, list) and X and isinstance(X[0], list) and X[0] and isinstance(X[0][0], list):
        X = [[tuple(token) for token in x] for x in X] if read.kind == "tagger" else X
    answers: dict[str, Any] = {}
    for name in ("predict", "predict_proba", "predict_marginals", "predict_nbest", "predict_spans", "log_joint"):
        if hasattr(model, name) and X is not None:
            try:
                answers[name] = getattr(model, name)(X)
            except LoglinearError as error:
                answers[name] = type(error).__name__
    if hasattr(model, "sample"):
        try:
            answers["sample"] = model.sample(3)
        except (LoglinearError, TypeError) as error:
            answers["sample"] = type(error).__name__
    answers["again"] = len(model.to_bytes())
    return answers


def fault(name: str, blob: bytes) -> str:
    """What is wrong with how a file was loaded and used: an error that is no answer, or a probability that is none."""
    question, given = questions(name)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            answers = used(blob, question, given)
    except LoglinearError:
        return ""
    except Exception as error:  # whatever else comes out of a model file is a fault
        return f"{type(error).__name__}: {error!s:.200}"
    for name in ("predict_proba", "predict_marginals", "predict_nbest", "predict_spans"):
        if name in answers and not isinstance(answers[name], str):
            for p in _probabilities(answers[name]):
                if not -1e-9 <= p <= 1.0 + 1e-6:
                    return f"{name}: a probability of {p}"
    return ""


def _probabilities(answer: Any) -> list[float]:
    if isinstance(answer, np.ndarray):
        return [] if answer.dtype.kind != "f" else answer.ravel().tolist()
    if isinstance(answer, float):
        return [answer]
    if isinstance(answer, dict):
        return [p for value in answer.values() for p in _probabilities(value)]
    if isinstance(answer, tuple):  # labels, then their probability
        return _probabilities(answer[-1])
    if isinstance(answer, list):
        return [p for value in answer for p in _probabilities(value)]
    return []


def campaign(folder: Path, seed: int, n: int, names: list[str] | None = None) -> list[str]:
    """The faults of ``n`` mutated files, one for each seed from ``seed`` on."""
    faults = list[str]()
    chosen = names or sorted(path.stem for path in folder.glob("*.model"))
    contents = {name: (folder / f"{name}.model").read_bytes() for name in chosen}
    for tried in range(n):
        name = chosen[tried % len(chosen)]
        blob, what = mutated(contents[name], random.Random(seed + tried))
        if wrong := fault(name, blob):
            faults.append(f"{name}, seed {seed + tried}, {what}: {wrong}")
    return faults


if __name__ == "__main__":
    count = int(sys.argv[3])
    found = campaign(Path(sys.argv[1]), int(sys.argv[2]), count)
    print(*found, f"{count} files, {len(found)} faults", sep="\n")
    sys.exit(bool(found))
