"""What a file of results must look like where it is used, so that a damaged one is refused in a sentence.

A shape is a type (or a tuple of types), a list of one shape for all items, a dict from key to shape (``...`` is for
all keys), or a function that says whether a value will do. Other keys than those of a dict are not looked at.
"""

from __future__ import annotations

import math
import types
from typing import Any

NUMBER = (int, float)
NOTHING = type(None)


def is_finite(value: Any) -> bool:
    """A shape: numbers that a score can be."""
    return isinstance(value, NUMBER) and math.isfinite(value)


def misfit(value: Any, shape: Any, place: str = "it") -> str:
    """The place of the first value that is not of its shape, as in ``about.seed``; empty if there is none."""
    if isinstance(shape, types.FunctionType):
        return "" if shape(value) else place
    if isinstance(shape, list):
        if not isinstance(value, list):
            return place
        parts = [(each, shape[0], f"{place}[{number}]") for number, each in enumerate(value)]
    elif isinstance(shape, dict):
        if not isinstance(value, dict):
            return place
        wanted = dict.fromkeys(value, shape[...]) if ... in shape else shape
        if absent := [name for name in wanted if name not in value]:
            return f"{place}.{absent[0]}"
        parts = [(value[name], each, f"{place}.{name}") for name, each in wanted.items()]
    else:
        return "" if isinstance(value, shape) else place
    return next(filter(None, (misfit(*part) for part in parts)), "")
