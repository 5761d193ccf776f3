"""The criteria that a parser's grammar can be trained by, by name: each makes a tree model of a binary treebank.

To add one: a class with the attributes of :class:`TreeCriterion`, decorated with :func:`register_tree_criterion`.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy.typing as npt

from loglinear.criteria.criterion import CRITERIA
from loglinear.data.trees import Tree
from loglinear.errors import OptionError
from loglinear.estimators.tree_search import TreeModel
from loglinear.features.span_attributes import Own
from loglinear.options import Option, spec_name, spec_options

Arrays = dict[str, npt.NDArray[Any]]


@dataclass
class TreeTraining:
    """What a criterion is given, and what it says when it is done.

    Attributes
    ----------
    trees, binary : list of Tree
        The treebank, and the same trees with notes and in binary rules.
    values : dict
        The criterion's own options.
    n_threads, seed, observe, span_features
        Of the parser and its run.
    message : str
        How training went, for people.
    began : float
        When, on the clock of :func:`time.perf_counter`.
    stop : threading.Event
        Set when training is to end after this iteration, with what it has learnt so far.
    """

    trees: list[Tree]
    binary: list[Tree]
    values: dict[str, Any]
    n_threads: int
    seed: int
    observe: Callable[[Any], None] | None
    span_features: Own | None = None
    message: str = field(default="counted")
    began: float = field(default_factory=time.perf_counter)
    stop: threading.Event = field(default_factory=threading.Event)


class TreeCriterion(ABC):
    """How a model of trees is trained and stored."""

    name: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[tuple[Option, ...]] = ()
    looks_at_words: ClassVar[bool] = False  # whether rules look at the words of their span

    @classmethod  # noqa: B027  # most have nothing to check
    def check(cls, parser: Any, values: dict[str, Any]) -> None:
        """Refuse options of the :class:`~loglinear.Parser` that do not go with the criterion."""

    @classmethod
    @abstractmethod
    def fit(cls, training: TreeTraining) -> TreeModel:
        """Train a model."""

    @classmethod
    @abstractmethod
    def to_storage(cls, model: Any) -> tuple[dict[str, Any], Arrays]:
        """What of the model stands in a file: a header of JSON, and arrays."""

    @classmethod
    @abstractmethod
    def from_storage(cls, header: dict[str, Any], arrays: Arrays, span_features: Own | None = None) -> TreeModel:
        """The model of a file; whatever does not fit together raises a ValueError, KeyError or TypeError."""


C = TypeVar("C", bound=type[TreeCriterion])
_CRITERIA: dict[str, type[TreeCriterion]] = {}


def register_tree_criterion(criterion: C) -> C:
    """Class decorator: make a criterion known by its name."""
    _CRITERIA[criterion.name] = criterion
    return criterion


def tree_criteria() -> dict[str, type[TreeCriterion]]:
    """All criteria by name."""
    from loglinear.estimators import pcfg_criterion, span_criteria, span_m_estimation  # noqa: F401  # register themselves

    return dict(_CRITERIA)


def _why_not(name: str) -> str:
    """Why a name is none of a criterion for trees; the names of those there are come after it."""
    taggers = CRITERIA.all()
    if name not in taggers:
        return "is not one that trains parsers: "
    if "squared_distance" in taggers[name].needs:
        return "is for flat labels; parsers are trained by "
    missing = "cost_covariance" in taggers[name].needs
    because = ", because there is no covariance with the cost for trees yet" if missing else ""
    return f"is a criterion of taggers that trees do not have{because}; parsers are trained by "


def tree_criterion(spec: str) -> tuple[type[TreeCriterion], dict[str, Any]]:
    """The criterion that a spec as ``pcfg:smoothing=0.1`` names, and the values of all its options."""
    known = tree_criteria()
    name = spec_name(spec)
    if name not in known:
        raise OptionError(f"criterion={spec!r} {_why_not(name)}{', '.join(sorted(known))}")
    criterion = known[name]
    given = spec_options(spec, criterion.options, "criterion")
    return criterion, {option.name: given.get(option.name, option.default) for option in criterion.options}
