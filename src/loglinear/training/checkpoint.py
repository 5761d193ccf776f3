"""Checkpoints: a model file of the weights so far, with everything needed to continue as if never stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loglinear import mapped, model_file
from loglinear.arrays import Array, Arrays, Float
from loglinear.errors import LoglinearError, ModelFileError, OptionError
from loglinear.options import declared
from loglinear.training.problem import Problem

Kept = tuple[Arrays, dict[str, Any]]


def fingerprint(what: dict[str, Any], arrays: Iterable[Array | None]) -> str:
    """A digest of what a resumed run must share with the interrupted one: options and data."""
    digest = hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode())
    for array in arrays:
        digest.update(b"-" if array is None else np.ascontiguousarray(array).data)
    return digest.hexdigest()


def fixed_options(options: Any) -> dict[str, str]:
    """The options that must not change between the interrupted and the resumed training.

    Costs, and a base or a kernel of the user's own, are for the problem to identify: their text does not say what they
    are.
    """
    fixed = {name: getattr(options, name) for name, each in declared(type(options)).items() if not each.varies}
    own = [name for name in ("base", "kernel") if not isinstance(fixed.get(name), str | None)]
    return {name: str(value) for name, value in fixed.items() if name not in ("cost", *own)}


@dataclass(frozen=True)
class Checkpoint:
    """Where a training stores what it needs to continue.

    Parameters
    ----------
    path : Path
    problem : Problem
        Says how its model is stored.
    options
        The estimator.
    mark : str
        The training's :func:`fingerprint`.
    """

    path: Path
    problem: Problem
    options: Any
    mark: str

    @property
    def written(self) -> str | None:
        """The file's name, if it exists."""
        return str(self.path) if self.path.exists() else None

    def save(self, weights: Sequence[Float], state: Arrays, notes: dict[str, Any]) -> None:
        """Write the weights of the stages so far, the run's arrays and notes; the file is complete at any moment."""
        notes = {**notes, "fingerprint": self.mark, "complete": False}
        header, arrays = self.problem.storage(weights, self.options, notes)
        model_file.save(self.path, self.problem.kind, header, {**arrays, **state})

    def load(self) -> Kept | None:
        """The run's arrays and notes; None if there is no file. Rejects the checkpoint of another training."""
        if not self.path.exists():
            return None
        try:
            stored = model_file.load(self.path, kind=self.problem.kind, paged=mapped.is_active())
        except ModelFileError as error:
            reason = str(error).partition(" copy it again")[0].rstrip(":;")
            raise ModelFileError(f"{reason}; delete {self.path} to start again") from None
        notes = stored.header.get("training")
        if not isinstance(notes, dict):
            raise ModelFileError(f"{self.path} is not a checkpoint: it says nothing of a training; delete the file")
        if notes.get("fingerprint") != self.mark:
            raise OptionError(
                f"{self.path} is the checkpoint of a training with other data or options; give those again to go on, "
                "or remove the file to start again"
            )
        return stored.arrays, notes


@contextmanager
def reading(checkpoint: Checkpoint | None, over: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Report parts of a checkpoint that are missing or make no sense, and what to do; not once it is ``over``."""
    try:
        yield
    except ModelFileError as error:
        if checkpoint is None or over():
            raise
        raise _unusable(checkpoint, str(error)) from None
    except LoglinearError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        if checkpoint is None or over():
            raise
        raise _unusable(checkpoint, f"{type(error).__name__}: {error}") from None


def _unusable(checkpoint: Checkpoint, why: str) -> ModelFileError:
    return ModelFileError(f"{checkpoint.path}: no training can continue from it ({why}); delete it to start again")


def resume_state(checkpoint: Checkpoint | None, resume: bool) -> Kept | None:
    """What a resumed training continues from, None for a new one; rejects an option without its counterpart."""
    if checkpoint is None:
        if resume:
            raise OptionError("resume=True needs the checkpoint to go on from")
        return None
    if checkpoint.path.exists() and not resume:
        raise OptionError(f"{checkpoint.path} is of a training that did not end; go on with resume, or remove it")
    return checkpoint.load() if resume else None
