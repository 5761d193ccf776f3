"""Saving an estimator: one file that holds data only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy.typing as npt

from loglinear import model_file


class StoredModel(ABC):
    """An estimator that can be saved; it says what its model file holds."""

    kind: ClassVar[str]

    @abstractmethod
    def _storage(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Header and arrays of the model file; an estimator that is not fitted raises an error."""

    def save(self, path: str | Path) -> None:
        """Write the model to one file that holds data only; functions of your own are not in it."""
        model_file.save(path, self.kind, *self._storage())

    def to_bytes(self) -> bytes:
        """The model file's content."""
        return model_file.dumps(self.kind, *self._storage())


def source_name(source: Any) -> str:
    """What messages call a model's file, or its bytes."""
    return "the model" if isinstance(source, bytes | bytearray | memoryview) else str(source)
