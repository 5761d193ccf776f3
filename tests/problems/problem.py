"""A random problem of any structure: what a criterion is asked, small enough for a referee to enumerate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from loglinear.structures.gold import Gold
from referees.enumeration import Enumeration

seeds = st.integers(0, 2**32 - 1)


@dataclass(frozen=True)
class Problem:
    """A batch of S examples.

    Parameters
    ----------
    structure, scores
        Each example has a labelling with a score above -inf.
    gold : Gold
        An annotation that one possible labelling of each example fits; partial in about half of the problems.
    weights : float64 [S]
        Above 0.
    cost
        A cost with an ``at(gold, offsets)`` for this structure.
    """

    structure: Any
    scores: Any
    gold: Gold
    weights: npt.NDArray[np.float64]
    cost: Any


def arrays_of(scores: Any) -> dict[str, npt.NDArray[np.float64]]:
    """The arrays of scores that any structure's part scores have, by name: not offsets, rows or masks."""
    parts = {field.name: getattr(scores, field.name) for field in fields(scores)}
    return {name: part for name, part in parts.items() if part is not None and part.dtype == np.float64}


def without_gaps(scores: Any) -> Any:
    """The scores with 0 instead of -inf."""
    return replace(scores, **{name: np.where(np.isneginf(a), 0.0, a) for name, a in arrays_of(scores).items()})


def possible_labels(rng: np.random.Generator, brute: Sequence[Enumeration]) -> npt.NDArray[np.int32]:
    """A possible labelling of a batch, each example's drawn from all it has."""
    return np.concatenate([one.labels[rng.choice(np.flatnonzero(one.values > -np.inf))] for one in brute])


def annotated(rng: np.random.Generator, labels: npt.NDArray[np.int32], n_choices: int, partial: bool) -> Gold:
    """The labels [N] as the annotation, or with other choices allowed beside them: about half of all."""
    if not partial:
        return Gold(labels)
    allowed = (rng.random((len(labels), n_choices)) < 0.5).astype(np.uint8)
    allowed[np.arange(len(labels)), labels] = 1
    return Gold(np.where(allowed.sum(axis=1) == 1, labels, -1).astype(np.int32), allowed)
