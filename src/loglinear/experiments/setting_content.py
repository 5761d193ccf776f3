"""Settings as JSON keeps them, files and functions by what they hold: a key of results must change when they do."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loglinear.features.sets import SETS

FILE_OPTIONS = ("template", "cost", "constraints", "gazetteers")  # a string may be the name of a file there


def setting_content(setting: Mapping[str, Any]) -> dict[str, Any]:
    """Options by name."""
    return {name: option_content(name, value) for name, value in setting.items()}


def option_content(name: str, value: Any) -> Any:
    """The value of an option."""
    if name not in FILE_OPTIONS or (name == "template" and value in SETS):
        return content_of(value)
    if isinstance(value, list | tuple):
        return [option_content(name, one) for one in value]
    is_file = isinstance(value, str) and len(value) < 200 and "\n" not in value and Path(value).is_file()
    return content_of(Path(value) if is_file else value)


def content_of(value: Any) -> Any:
    """Any value; a path is a file, and a function what it does with what it has seen."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return f"{value.name} {_hash(value.read_bytes())}" if value.is_file() else str(value)
    if isinstance(value, Mapping):
        return {str(key): content_of(one) for key, one in value.items()}
    if isinstance(value, Sequence):
        return [content_of(one) for one in value]
    if isinstance(value, np.ndarray):
        return f"array {_hash(np.ascontiguousarray(value).tobytes())}"
    if callable(value):
        return _function_content(value)
    return f"{type(value).__name__} {_hash(_described(value))}"


def _function_content(function: Any, within: tuple[Any, ...] = ()) -> str:
    """Name and code of a function, with its default arguments and the variables around it; a class's state."""
    if isinstance(function, functools.partial):
        inner = [content_of(part) for part in (function.func, function.args, function.keywords)]
        return f"{inner[0]} {_hash(inner[1:])}"
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
    code = getattr(function, "__code__", None)
    if code is None:
        return f"{name} {_hash(content_of(vars(function)))}" if hasattr(function, "__dict__") else name
    around = [_cell_content(cell, (*within, function)) for cell in function.__closure__ or ()]
    given = [content_of(function.__defaults__), content_of(function.__kwdefaults__)]
    return f"{name} {_hash((code.co_code, code.co_consts, code.co_names, around, given))}"


def _cell_content(cell: Any, within: tuple[Any, ...]) -> Any:
    """What a variable around functions is: None if it has no value yet, a name if it is one of these functions."""
    try:
        value = cell.cell_contents
    except ValueError:
        return None
    if any(value is function for function in within):
        return value.__qualname__
    return _function_content(value, within) if hasattr(value, "__closure__") else content_of(value)


def _hash(value: Any) -> str:
    """A few digits that change with the value."""
    content = value if isinstance(value, bytes) else re.sub(r" at 0x[0-9a-f]+", "", repr(value)).encode()
    return hashlib.sha256(content).hexdigest()[:12]


def _described(value: Any) -> str:
    described = value.to_dict() if hasattr(value, "to_dict") else value
    text = repr(described)
    return type(value).__qualname__ if " at 0x" in text else text
