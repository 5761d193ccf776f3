"""Settings as JSON keeps them, files and functions by what they hold: a key of results must change when they do.

A function is known by its code, its default arguments and the variables around it, a callable object by its class's
code and its state. What is not looked at are global variables, and what other functions it calls are made of.
"""

from __future__ import annotations

import functools
import hashlib
import re
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loglinear.features.sets import SETS

Within = tuple[Any, ...]
SIMPLE = (type(None), bool, int, float, complex, str, bytes)


def setting_content(setting: Mapping[str, Any]) -> dict[str, Any]:
    """Options by name."""
    return {name: option_content(name, value) for name, value in setting.items()}


def option_content(name: str, value: Any) -> Any:
    """The value of an option."""
    if isinstance(value, list | tuple):
        return [option_content(name, one) for one in value]
    return content_of(Path(value) if isinstance(value, str) and _is_file(name, value) else value)


def _is_file(name: str, value: str) -> bool:
    """Whether the value of that option is the name of a file that is there."""
    may_be = {
        "template": value not in SETS and "\n" not in value and "%" not in value,
        "cost": value.endswith(".json"),
        "constraints": value.endswith(".json"),
        "gazetteers": True,
    }
    return may_be.get(name, False) and Path(value).is_file()


def content_of(value: Any) -> Any:
    """Any value: as it is if JSON can keep it, else its kind and a few digits that change with it."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return f"{value.name} {_hash(value.read_bytes())}" if value.is_file() else str(value)
    if isinstance(value, Mapping):
        return {str(key): content_of(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [content_of(one) for one in value]
    return f"{_name(value)} {_hash(_described(value, ()).encode())}"


def _name(value: Any) -> str:
    """What a value is called."""
    if isinstance(value, functools.partial):
        return _name(value.func)
    if not callable(value):
        return type(value).__name__
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def _described(value: Any, within: Within) -> str:
    """All that a value is made of, the same in every process; ``within`` are the values that it is a part of."""
    if any(value is outer for outer in within):
        return "itself"
    inner = (*within, value)

    def parts(values: Any) -> str:
        return ", ".join(_described(one, inner) for one in values)

    if isinstance(value, SIMPLE):
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"array({value.dtype}, {value.shape}, {_hash(np.ascontiguousarray(value).tobytes())})"
    if isinstance(value, set | frozenset):
        return f"set({', '.join(sorted(_described(one, inner) for one in value))})"
    if isinstance(value, Mapping):
        return f"mapping({parts(value.items())})"
    if isinstance(value, Sequence):
        return f"{type(value).__name__}({parts(value)})"
    if isinstance(value, types.CodeType):
        return f"code({value.co_code!r}, {parts(value.co_consts)}, {value.co_names})"
    if isinstance(value, functools.partial):
        return f"partial({parts((value.func, value.args, value.keywords))})"
    if isinstance(value, types.MethodType):
        return f"method({parts((value.__func__, value.__self__))})"
    if isinstance(value, types.FunctionType):
        around = [_of_cell(cell) for cell in value.__closure__ or ()]
        return f"function({parts((value.__code__, value.__defaults__, value.__kwdefaults__, around))})"
    if isinstance(value, type | types.BuiltinFunctionType | types.ModuleType):
        return _name(value)
    code = [type(value).__call__] if callable(value) else []
    return f"{type(value).__qualname__}({parts([*code, *_state(value)])})"


def _of_cell(cell: Any) -> Any:
    """What a variable around a function is; None if it has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _state(value: Any) -> list[Any]:
    """What an object holds."""
    if hasattr(value, "to_dict"):
        return [value.to_dict()]
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if hasattr(value, name)]
    held = [vars(value)] if hasattr(value, "__dict__") else []
    held += [{name: getattr(value, name) for name in slots}] if slots else []
    return held or [re.sub(r" at 0x[0-9a-f]+", "", repr(value))]
