"""Records of what version 0.1.0 answered, and how answers of now are held to them.

Labels, numbers of things and text must be the same everywhere. Floating-point numbers must have the same bits where
the record was made on this kind of machine: the same processor as LLVM names it, with the same versions of the
libraries that compile or compute (:func:`machine`). Elsewhere loops are cut into other vectors, sums are added in
another order, and the C library's exp may round its last bit the other way, so numbers are compared to a tolerance.

To have the bits compared on another machine, let version 0.1.0 make the records there, in a folder of their own
(``make.py`` says how), and name that folder in the environment variable ``LOGLINEAR_GOLDEN``.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from threadpoolctl import threadpool_limits

HERE = Path(__file__).resolve().parent
FOLDER = Path(os.environ.get("LOGLINEAR_GOLDEN", HERE))
LIBRARIES = ("llvmlite", "numba", "numpy", "scipy", "scikit-learn")


def machine() -> dict[str, str]:
    """What the last bits of numbers depend on."""
    features = numba.config.CPU_FEATURES
    if features is None:
        features = llvmlite.binding.get_host_cpu_features().flatten()
    return {
        "cpu": numba.config.CPU_NAME or llvmlite.binding.get_host_cpu_name(),
        "cpu_features": hashlib.sha256(features.encode()).hexdigest()[:12],
        "compiled": "no" if numba.config.DISABLE_JIT else "yes",
        "libc": " ".join(platform.libc_ver()),
        **{name: version(name) for name in LIBRARIES},
    }


def one_blas_thread() -> AbstractContextManager[Any]:
    """Context in which BLAS, which adds in another order on more cores, uses one: records are made and met in it."""
    return threadpool_limits(1, user_api="blas")


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a record as JSON, floats as the shortest text that gives the same bits back."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_text(content, 0) + "\n", encoding="utf-8")


def _text(value: Any, depth: int) -> str:
    """JSON with a line for each short thing, so that changes can be read line by line."""
    whole = json.dumps(value, ensure_ascii=False)
    if len(whole) <= 110 or not isinstance(value, dict | list):
        return whole
    pad = " " * (depth + 1)
    if isinstance(value, dict):
        items = [f"{json.dumps(key, ensure_ascii=False)}: {_text(item, depth + 1)}" for key, item in value.items()]
        brackets = "{}"
    else:
        items, brackets = [_text(item, depth + 1) for item in value], "[]"
    return f"{brackets[0]}\n{pad}" + f",\n{pad}".join(items) + f"\n{' ' * depth}{brackets[1]}"


def read(path: Path) -> Any:
    """A record."""
    return json.loads(path.read_text(encoding="utf-8"))


def plain(value: Any) -> Any:
    """A value as JSON has it: arrays and tuples are lists, sets sorted lists, NumPy's numbers Python's."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if hasattr(value, "toarray"):  # a sparse matrix
        return plain(value.toarray())
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class Tolerance:
    """How far numbers may be from those of a record.

    Attributes
    ----------
    relative, absolute : float
        A float may differ by the greater of the absolute one and the relative one times its size; by nothing if both
        are zero.
    passed_over : tuple of str
        Keys that are not compared.
    """

    relative: float = 0.0
    absolute: float = 0.0
    passed_over: tuple[str, ...] = ()

    def allows(self, recorded: float, found: float) -> bool:
        """Whether a float may stand for one that was recorded."""
        if repr(recorded) == repr(found):  # the same bits, but for kinds of NaN
            return True
        return math.isclose(recorded, found, rel_tol=self.relative, abs_tol=self.absolute)


EXACT = Tolerance()


def differences(recorded: Any, found: Any, tolerance: Tolerance, place: str = "") -> Iterator[str]:
    """Where ``found`` is not what was ``recorded``, a line each.

    A dict may have keys that the record lacks: what is new breaks nobody who used what was there.
    """
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key, value in recorded.items():
            if key in tolerance.passed_over:
                continue
            if key in found:
                yield from differences(value, found[key], tolerance, f"{place}/{key}")
            else:
                yield f"{place}/{key} is gone"
    elif isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        for i, (a, b) in enumerate(zip(recorded, found, strict=True)):
            yield from differences(a, b, tolerance, f"{place}/{i}")
    elif type(recorded) is float and type(found) is float:
        if not tolerance.allows(recorded, found):
            yield f"{place}: {recorded!r} is now {found!r}"
    elif type(recorded) is not type(found) or recorded != found:
        yield f"{place}: {str(recorded)!r:.200} is now {str(found)!r:.200}"


def check(recorded: Any, found: Any, made_on: Mapping[str, str], elsewhere: Tolerance) -> None:
    """Fail if ``found`` is not what was ``recorded``: to the last bit, or as ``elsewhere`` says on other machines."""
    same = made_on == machine()
    wrong = list(differences(recorded, plain(found), EXACT if same else elsewhere))
    how = "to the last bit" if same else f"to {elsewhere.relative:g}, the record being of another machine"
    assert not wrong, f"{len(wrong)} differences ({how}):\n" + "\n".join(wrong[:20])
