"""Checkpoints: a model file of the weights so far that also holds the optimizer's state."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear import model_file
from loglinear.errors import OptionError
from loglinear.estimators import tagger_file
from loglinear.estimators.chain_model import ChainModel
from loglinear.features.encoding import EncodedCorpus
from loglinear.structures.gold import Gold

Float = npt.NDArray[np.float64]
Arrays = dict[str, npt.NDArray[Any]]


def fingerprint(options: dict[str, Any], encoded: EncodedCorpus, gold: Gold, weights: Float | None) -> str:
    """Of all that a resumed run must share with the one that was interrupted: options, data, labels."""
    digest = hashlib.sha256(json.dumps(options, sort_keys=True, default=str).encode())
    edge = None if encoded.edge is None else encoded.edge.ids
    for array in (
        encoded.offsets, encoded.state.pointer, encoded.state.ids, encoded.state.values, edge,
        gold.labels, gold.allowed, weights,
    ):  # fmt: skip
        digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def writer(
    path: Path, model: ChainModel, options: dict[str, Any], mark: str
) -> Callable[[Float, Arrays, dict[str, Any]], None]:
    """A function that writes weights, the optimizer's arrays and notes to ``path``; ``mark`` is the fingerprint."""

    def write(weights: Float, optimizer: Arrays, notes: dict[str, Any]) -> None:
        training = {**notes, "fingerprint": mark, "complete": False}
        header, arrays = tagger_file.to_storage(model.with_weights(weights), options, training)
        model_file.save(path, tagger_file.KIND, header, {**arrays, **optimizer})

    return write


def read(path: Path, mark: str) -> tuple[Arrays, dict[str, Any]]:
    """The optimizer's arrays and the notes of a checkpoint that has the fingerprint ``mark``."""
    stored = model_file.load(path, kind=tagger_file.KIND)
    notes = stored.header.get("training", {})
    if notes.get("fingerprint") != mark:
        raise OptionError(
            f"{path} is the checkpoint of a training with other data or options; give those again to go on, "
            "or remove the file to start anew"
        )
    return stored.arrays, notes
