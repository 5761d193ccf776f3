"""What of a generative base stands in a model file, and how it is read back with every bound checked.

header   kind, order, columns, sizes (values of each)
arrays   base.steps [K + 1, Y + 1]; base.emissions [Y, sum of sizes]; base.strings.* (packed)

Of a base of the user's own a file says only that there is one: kind ``own``, its name, columns and candidates. Whoever
loads the model gives it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.errors import OptionError
from loglinear.generative.base import BASES, Base, HmmBase
from loglinear.generative.hmm import HiddenMarkovModel, number_of_states
from loglinear.generative.open_vocabulary import OpenVocabulary
from loglinear.generative.own_base import CANDIDATES, OwnBase
from loglinear.model_file import pack_strings, unpack_strings

Arrays = dict[str, npt.NDArray[Any]]
OWN = "own"


def to_storage(base: Base) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a base."""
    if isinstance(base, OwnBase):
        columns = None if base.columns is None else list(base.columns)
        return {"kind": OWN, "name": base.name, "columns": columns, "candidates": base.candidates}, {}
    assert isinstance(base, HmmBase)
    sizes = [len(values) for values in base.vocabulary.values]
    blob, offsets = pack_strings([value for values in base.vocabulary.values for value in values])
    header = {
        "kind": base.kind,
        "order": base.model.order,
        "columns": list(base.vocabulary.columns),
        "sizes": sizes,
    }
    arrays: Arrays = {
        "base.steps": base.model.steps,
        "base.emissions": np.concatenate(base.model.emissions, axis=1),
        "base.strings.bytes": blob,
        "base.strings.offsets": offsets,
    }
    return header, arrays


def own_base(header: Any, given: Any, name: str) -> OwnBase | None:
    """The base that whoever loads the file ``name`` gives; an error if the model needs one, or has no use for one."""
    stored = header.get("base") if isinstance(header, dict) else None
    if not isinstance(stored, dict) or stored.get("kind") != OWN:
        if given is not None:
            raise OptionError(f"base={given!r:.60}: the model of {name} has no base of one's own")
        return None
    if given is None:
        raise OptionError(
            f"{name}: the model's base is one of its maker's own ({stored.get('name')!s:.80}), which the file does not "
            "hold; the model can only be used from Python, with Tagger.load(path, base=...)"
        )
    base = OwnBase.of(given)
    return (
        base if isinstance(given, OwnBase) else replace(base, candidates=stored.get("candidates", CANDIDATES.default))
    )


def bound(base: OwnBase, header: dict[str, Any], labels: list[str]) -> OwnBase:
    """The user's base over a model's labels and columns."""
    columns = header["columns"]
    whole = columns is None or all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in columns)
    if not whole or columns == []:
        raise ValueError("the columns of the base cannot be read")
    return base.bound(labels, columns)


def from_storage(header: dict[str, Any], arrays: Arrays, n_labels: int) -> HmmBase:
    """The base of a header and arrays; what does not fit is a ValueError."""
    kind, order, columns, sizes = (header[name] for name in ("kind", "order", "columns", "sizes"))
    whole = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in (*columns, *sizes))
    if kind not in BASES or order not in (1, 2) or not whole or len(columns) != len(sizes) or not columns:
        raise ValueError("the base model is of no known kind")
    strings = unpack_strings(arrays["base.strings.bytes"], arrays["base.strings.offsets"])
    ends = np.cumsum(sizes)
    if len(strings) != ends[-1] or min(sizes) < 1:
        raise ValueError("the base model's values do not fit its columns")
    steps = _probabilities(arrays["base.steps"], (number_of_states(n_labels, order) + 1, n_labels + 1))
    emissions = _probabilities(arrays["base.emissions"], (n_labels, int(ends[-1])))
    if not np.allclose(steps.sum(axis=1), 1.0, atol=1e-6):
        raise ValueError("the base model's probabilities do not add up")
    values = [strings[end - size : end] for end, size in zip(ends.tolist(), sizes, strict=True)]
    tables = [np.ascontiguousarray(table) for table in np.split(emissions, ends[:-1], axis=1)]
    return HmmBase(kind, OpenVocabulary(tuple(columns), values), HiddenMarkovModel(order, n_labels, steps, tables))


def _probabilities(array: npt.NDArray[Any], shape: tuple[int, int]) -> npt.NDArray[np.float64]:
    if array.shape != shape or array.dtype.kind != "f" or not ((array >= 0) & (array <= 1)).all():
        raise ValueError("the base model's probabilities do not fit the labels")
    return np.array(array, dtype=np.float64)
