"""Checkpoints: a model file of the weights so far that also holds the optimizer's state."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from loglinear import model_file
from loglinear.arrays import Array, Arrays, Float
from loglinear.errors import OptionError
from loglinear.estimators.tagger import file as tagger_file
from loglinear.estimators.tagger.model import ChainModel
from loglinear.features.encoding import EncodedCorpus


def corpus_arrays(encoded: EncodedCorpus) -> list[Array | None]:
    """All numbers of an encoded corpus, for :func:`fingerprint`."""
    edge = None if encoded.edge is None else encoded.edge.ids
    return [encoded.offsets, encoded.state.pointer, encoded.state.ids, encoded.state.values, edge, *encoded.fields]


def fingerprint(options: dict[str, Any], arrays: Iterable[Array | None]) -> str:
    """Of all that a resumed run must share with the one that was interrupted: options and data."""
    digest = hashlib.sha256(json.dumps(options, sort_keys=True, default=str).encode())
    for array in arrays:
        digest.update(b"-" if array is None else np.ascontiguousarray(array).data)
    return digest.hexdigest()


class InTraining(Protocol):
    """What a training finds weights for."""

    def with_weights(self, weights: Float) -> ChainModel:
        """The model that these weights make."""


@dataclass(frozen=True)
class AnyCheckpoint(ABC):
    """Where a training keeps what it needs to go on; each kind of model says how it is stored.

    Parameters
    ----------
    path : Path
    model
        The model in training, or what makes one of weights.
    options : dict
        The estimator's options, as a model file keeps them.
    mark : str
        The training's :func:`fingerprint`.
    """

    kind: ClassVar[str]
    path: Path
    model: Any
    options: dict[str, Any]
    mark: str

    @abstractmethod
    def storage(self, weights: Float, training: dict[str, Any]) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays of a file of the model with these weights."""

    def save(self, weights: Float, optimizer: Arrays, notes: dict[str, Any]) -> None:
        """Write weights, the optimizer's arrays and notes; the file is whole at any moment."""
        header, arrays = self.storage(weights, {**notes, "fingerprint": self.mark, "complete": False})
        model_file.save(self.path, self.kind, header, {**arrays, **optimizer})

    def load(self) -> tuple[Arrays, dict[str, Any]] | None:
        """The optimizer's arrays and the notes; None if there is no file. One of another training is refused."""
        if not self.path.exists():
            return None
        stored = model_file.load(self.path, kind=self.kind)
        notes = stored.header.get("training", {})
        if notes.get("fingerprint") != self.mark:
            raise OptionError(
                f"{self.path} is the checkpoint of a training with other data or options; give those again to go on, "
                "or remove the file to start anew"
            )
        return stored.arrays, notes


def kept_before(checkpoint: AnyCheckpoint | None, resume: bool) -> tuple[Arrays, dict[str, Any]] | None:
    """What a training that goes on begins with, None for one that begins anew; refuses what is neither."""
    if checkpoint is None:
        if resume:
            raise OptionError("resume=True needs the checkpoint to go on from")
        return None
    if checkpoint.path.exists() and not resume:
        raise OptionError(f"{checkpoint.path} is of a training that did not end; go on with resume, or remove it")
    return checkpoint.load() if resume else None


@dataclass(frozen=True)
class Checkpoint(AnyCheckpoint):
    """The checkpoint of a chain model in training."""

    kind = tagger_file.KIND
    model: InTraining

    def storage(self, weights: Float, training: dict[str, Any]) -> tuple[dict[str, Any], Arrays]:
        return tagger_file.to_storage(self.model.with_weights(weights), self.options, training)
