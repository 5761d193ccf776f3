"""The interface of a training criterion, and the registry of all of them.

A criterion lives in score space: it sees a batch of structures, their part scores and the gold annotation, and returns
a loss for each structure and the gradient by the part scores. It never sees a feature, a weight or a label's name.
Each module of this package may define criteria; a class decorated with :func:`register` is found by its name.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from functools import cache
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from loglinear.errors import OptionError

if TYPE_CHECKING:
    from loglinear.structures.chain import Chain, ChainScores
    from loglinear.structures.gold import Gold

Float = npt.NDArray[np.float64]


class Criterion(ABC):
    """What good scores are.

    Class attributes ``name``, ``summary`` (one line: what it minimises), ``convex`` and ``needs`` (the operations of
    the structure it calls) are declared once and feed the command line, the error messages and the documentation.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    convex: ClassVar[bool]
    needs: ClassVar[tuple[str, ...]]

    @abstractmethod
    def evaluate(self, structure: Chain, scores: ChainScores, gold: Gold, weights: Float) -> tuple[Float, ChainScores]:
        """Losses of a batch and their gradient.

        Parameters
        ----------
        structure
            The batch of S structures.
        scores
            Their part scores.
        gold : Gold
            Their annotation.
        weights : float64 [S]
            Weight of each structure.

        Returns
        -------
        losses : float64 [S]
            Loss of each structure times its weight; inf where the gold annotation has no possible structure.
        gradient
            Derivative of the sum of the losses by each part score, shaped like ``scores``.
        """


_REGISTRY: dict[str, type[Criterion]] = {}
C = TypeVar("C", bound=type[Criterion])


def register(criterion: C) -> C:
    """Class decorator: make a criterion known by its name."""
    _REGISTRY[criterion.name] = criterion
    return criterion


@cache
def _discover() -> None:
    package = importlib.import_module("loglinear.criteria")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"loglinear.criteria.{module.name}")


def criteria() -> dict[str, type[Criterion]]:
    """All criteria by name."""
    _discover()
    return dict(sorted(_REGISTRY.items()))


def criterion_named(name: str) -> Criterion:
    """The criterion of that name; an error lists those there are."""
    known = criteria()
    if name not in known:
        raise OptionError(f"criterion={name!r} is not known; there are: {', '.join(known)}")
    return known[name]()
