"""Checkpoints with parts changed and a right checksum: loaded as the models that they are, and resumed."""

from __future__ import annotations

import random
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import loglinear
from fuzzing import model_files
from fuzzing.files import folder, scratch
from fuzzing.targets import Target
from loglinear import LoglinearError

SLOW = {"parser-hidden-trees": 0.1, "parser-nota": 0.2, "parser-scaling": 0.2, "parser-em-of-sentences": 0.3}


class _Stop(Exception):
    pass


@cache
def cases() -> dict[str, tuple[Any, bytes]]:
    """Every kind of training, and the checkpoint of one that was stopped after its second iteration."""
    from training.test_every_estimator import CASES  # whatever training comes, its test has it

    found = {}
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, case in CASES.items():
            path = Path(place) / name
            left = [2]

            def observe(progress: Any, left: list[int] = left) -> None:
                left[0] -= 1
                if not left[0]:
                    raise _Stop

            try:
                case.make().fit(*case.data, checkpoint=path, checkpoint_seconds=0, observe=observe)
            except _Stop:
                found[name] = case, path.read_bytes()
    return found


@cache
def _shares() -> tuple[list[str], list[float]]:
    return list(cases()), list(accumulate(SLOW.get(name, 1.0) for name in cases()))


def drawn(rng: random.Random) -> tuple[str, bytes]:
    """The name of a training, and its checkpoint with some changes."""
    names, shares = _shares()
    name = rng.choices(names, cum_weights=shares)[0]
    return name, model_files.changed(cases()[name][1], rng)


def run(name: str, content: bytes) -> str:
    """Load the checkpoint as a model, then go on with the training for an iteration."""
    case, _ = cases()[name]
    path = scratch("some.checkpoint", content)
    refused = ""
    try:
        model: Any = loglinear.load(content)
        model.predict(case.data[0][:3])
    except LoglinearError as error:
        refused = type(error).__name__
    seen = []

    def observe(progress: Any) -> None:
        seen.append(progress)
        if len(seen) > 1:
            raise _Stop

    try:
        case.make().fit(*case.data, checkpoint=path, resume=True, observe=observe)
    except _Stop:
        pass
    finally:
        (folder() / "some.checkpoint").unlink(missing_ok=True)
    return f"resumed, loading {refused}" if refused else "used"


def without_needless_changes(name: str, content: bytes, is_fault: Callable[[bytes], bool]) -> bytes:
    """The checkpoint with as many parts of the original as the fault allows."""
    return model_files.without_needless_changes(name, content, is_fault, cases()[name][1])


def prepare() -> None:
    """Go on with each training once."""
    for name, (_, content) in cases().items():
        run(name, content)


TARGET = Target("checkpoints", drawn, run, prepare, without_needless_changes)
