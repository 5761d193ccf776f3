"""JSON documents: values of a bounded depth, so that whoever walks one may do so by recursion."""

from __future__ import annotations

import json
from typing import Any

DEEPEST = 100  # levels of lists and objects inside one another


def parsed_json(text: str | bytes, **options: Any) -> Any:
    """The value of a JSON document; a ValueError says what is wrong with it. ``options`` go to ``json.loads``."""
    try:
        value = json.loads(text, **options)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    n_open = text.count(b"[") + text.count(b"{") if isinstance(text, bytes) else text.count("[") + text.count("{")
    if n_open > DEEPEST:  # few documents have so many that they may be too deep
        _check_depth(value)
    return value


_TOO_DEEP = f"lists and objects inside one another, more than {DEEPEST} levels"


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level := [each for each in level if isinstance(each, dict | list)]:
        depth += 1
        if depth > DEEPEST:
            raise ValueError(_TOO_DEEP)
        level = [item for each in level for item in (each.values() if isinstance(each, dict) else each)]
