"""Model files of CRF++, binary and text: reading them with every bound checked.

The binary form, all numbers little-endian::

    0     version uint32 (100), type int32, cost factor float64, number of weights, columns used, bytes of the
          dictionary, bytes of the labels: uint32 each
    32    labels, each with a NUL
          bytes of the templates uint32; templates, each with a NUL; zeros up to a multiple of four
          the dictionary: a double array (Aoe, 1989) of units (base int32, check uint32)
          the weights, float32

A node of the dictionary has a base b that no other node has. Unit p is its child by the byte ``p - b - 1`` if
``check[p] == b``, and b itself, with ``check[b] == b`` and a negative base, says that a key ends here, and its value
``-base[b] - 1``. So the whole dictionary is read backwards, from the ends of all keys at once, in time linear in their
lengths.

The key ``U..`` with value v has the weights ``v + y`` of the labels y, the key ``B..`` the weights ``v + y' Y + y`` of
the pairs of labels; each is multiplied by the cost factor.

The text form has the same in lines: ``version: 100``, ``cost-factor: 1``, ``maxid: N``, ``xsize: n``, then, with an
empty line after each, labels, templates, ``value key`` lines, and the weights.

References
----------
Kudo (2005). CRF++: yet another CRF toolkit. https://taku910.github.io/crfpp/
Aoe (1989). An efficient digital search algorithm by using a double-array structure. IEEE TSE 15(9).
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from loglinear.arrays import Array, Float, Int64
from loglinear.errors import ModelFileError

VERSION = 100
_HEADER = struct.Struct("<IidIIII")
_UNIT = np.dtype([("base", "<i4"), ("check", "<u4")])
_PART = 1 << 16  # bytes of text whose numbers are read at a time
_LONGEST = 1 << 16  # bytes of a key; the tool itself reads lines of up to 8192


@dataclass(frozen=True)
class CrfppModel:
    """A first-order chain model with features of single labels and of label pairs.

    Parameters
    ----------
    labels : list of bytes
    templates : list of bytes
        Lines of the template file, without comments.
    cost_factor : float
        What all weights are multiplied by.
    keys : list of bytes
        Observations, as templates make them.
    values : int64 [K]
        Where the weights of each key begin.
    weights : float64 or float32 [N]
    """

    labels: list[bytes]
    templates: list[bytes]
    cost_factor: float
    keys: list[bytes]
    values: Int64
    weights: Array


def read_crfpp(data: bytes | memoryview, source: str = "the model in memory") -> CrfppModel:
    """The model in a file's ``data``; what does not fit together is a :class:`ModelFileError` that names ``source``."""
    view = memoryview(data).cast("B")
    return _Text(view, source).model() if bytes(view[:8]) == b"version:" else _Binary(view, source).model()


class _File:
    def __init__(self, data: memoryview, source: str) -> None:
        self.data, self.source = data, source

    def fail(self, detail: str) -> NoReturn:
        raise ModelFileError(f"{self.source} is a damaged CRF++ model ({detail}): copy it again from where it was made")

    def checked(self, model: CrfppModel) -> CrfppModel:
        """The model, if labels, keys and weights fit together."""
        n = len(model.labels)
        if not n or len(set(model.labels)) != n or b"" in model.labels:
            self.fail("its labels are missing, empty or there twice")
        if not math.isfinite(model.cost_factor):
            self.fail("its cost factor is not a finite number")
        if not all(line[:1] in (b"U", b"B") for line in model.templates) or not model.templates:
            self.fail("its templates are missing, or do not begin with U or B")
        if not all(key[:1] in (b"U", b"B") for key in model.keys):
            self.fail("a key begins neither with U nor with B")
        if not np.isfinite(model.weights).all():
            self.fail("a weight is not a finite number")
        widths = np.array([n if key[:1] == b"U" else n * n for key in model.keys], dtype=np.int64)
        order = np.argsort(model.values, kind="stable")
        ends = np.cumsum(widths[order])
        whole = not len(ends) or int(ends[-1]) == len(model.weights)
        if not whole or not np.array_equal(model.values[order], ends - widths[order]):
            self.fail("its keys do not have each weight once")
        return model


class _Binary(_File):
    def model(self) -> CrfppModel:
        if len(self.data) < _HEADER.size:
            self.fail("it is cut short")
        version, _, cost, n_weights, _, n_bytes, n_labels = _HEADER.unpack_from(self.data)
        if version != VERSION:
            raise ModelFileError(f"{self.source} is not a CRF++ model of version {VERSION}")
        place = _HEADER.size
        labels = self.strings(place, n_labels, "labels")
        place += n_labels
        if place + 4 > len(self.data):
            self.fail("it is cut short")
        n_templates = int.from_bytes(self.data[place : place + 4], "little")
        templates = self.strings(place + 4, n_templates, "templates")
        place += 4 + n_templates
        while templates and not templates[-1]:  # what fills up to a multiple of four
            templates.pop()
        if place + n_bytes + 4 * n_weights != len(self.data) or n_bytes % _UNIT.itemsize:
            self.fail("the lengths of its parts and its own do not agree")
        units = np.frombuffer(self.data, _UNIT, n_bytes // _UNIT.itemsize, place) if n_bytes else np.zeros(0, _UNIT)
        weights = np.frombuffer(self.data, "<f4", n_weights, place + n_bytes) if n_weights else np.zeros(0, "<f4")
        keys, values = self.dictionary(units)
        return self.checked(CrfppModel(labels, templates, cost, keys, values, weights))

    def strings(self, place: int, n_bytes: int, what: str) -> list[bytes]:
        if place + n_bytes > len(self.data):
            self.fail(f"its {what} would reach beyond the end")
        text = bytes(self.data[place : place + n_bytes])
        if not text.endswith(b"\0"):
            self.fail(f"its {what} do not end where they should")
        return text[:-1].split(b"\0")

    def dictionary(self, units: Array) -> tuple[list[bytes], Int64]:
        """All keys of the double array and their values."""
        base, check, n = units["base"], units["check"], len(units)  # views: a dictionary may be all of a large file
        nodes = np.flatnonzero((base > 0) & (base < n)).astype(np.int32)
        owner = np.full(n, -1, dtype=np.int32)  # the node that has each base
        owner[base[nodes]] = nodes
        if not np.array_equal(owner[base[nodes]], nodes):
            self.fail("two nodes of its dictionary have the same children")
        del nodes
        ends = np.flatnonzero(base < 0)
        ends = ends[check[ends] == ends]
        starts = owner[ends]
        starts, ends = starts[starts >= 0], ends[starts >= 0]
        depths, blob, total = np.zeros(len(ends), dtype=np.int64), np.zeros(0, dtype=np.uint8), 0
        for writing in (False, True):
            active, here = np.arange(len(ends), dtype=np.int32), starts
            if writing:
                blob, lasts = np.zeros(int(depths.sum()), dtype=np.uint8), np.cumsum(depths)
            for depth in range(_LONGEST + 1):
                going = here != 0
                active, here = active[going], here[going]
                if not len(active):
                    break
                total += len(active)
                above = check[here].astype(np.int64)
                byte = here - above - 1
                if depth == _LONGEST or total > 8 * len(self.data) + 1024:
                    self.fail("its dictionary has endless keys")
                if (above >= n).any() or (byte < 0).any() or (byte > 255).any():
                    self.fail("its dictionary has a node without a way to it")
                if writing:
                    blob[lasts[active] - depth - 1] = byte
                depths[active] = depth + 1
                here = owner[above]
                if (here < 0).any():
                    self.fail("its dictionary has a node without a way to it")
        text, bounds = blob.tobytes(), [0, *np.cumsum(depths).tolist()]
        keys = [text[first:end] for first, end in pairwise(bounds)]
        return keys, -base[ends].astype(np.int64) - 1


class _Text(_File):
    def model(self) -> CrfppModel:
        text, place, blocks = bytes(self.data), 0, list[list[bytes]]()
        for _ in range(4):
            own, place = self.block(text, place)
            blocks.append(own)
        head = {name: value for name, _, value in (line.partition(b": ") for line in blocks[0])}
        labels, templates, entries = blocks[1:]
        if not {b"version", b"cost-factor", b"maxid"} <= head.keys():
            self.fail("its head is incomplete")
        if head[b"version"] != b"%d" % VERSION:
            raise ModelFileError(f"{self.source} is not a CRF++ model of version {VERSION}")
        keys, values = list[bytes](), list[int]()
        for entry in entries:
            value, _, key = entry.partition(b" ")
            keys.append(key)
            values.append(self.number(int, value))
        if len(set(keys)) != len(keys):
            self.fail("a key is there twice")
        numbers = self.weights(text, place)
        if len(numbers) != self.number(int, head[b"maxid"]):
            self.fail(f"it has {len(numbers):,} weights")
        cost = self.number(float, head[b"cost-factor"])
        return self.checked(
            CrfppModel(labels, templates, cost, keys, np.array(values, dtype=np.int64), numbers),
        )

    def block(self, text: bytes, place: int) -> tuple[list[bytes], int]:
        """The lines up to an empty one, and where the next block begins."""
        lines = list[bytes]()
        while place < len(text):
            end = text.find(b"\n", place)
            end = len(text) if end < 0 else end
            line, place = text[place:end].removesuffix(b"\r"), end + 1
            if not line:
                break
            lines.append(line)
        return lines, place

    def weights(self, text: bytes, place: int) -> Float:
        """The numbers of all further lines, some thousand lines at a time."""
        parts = [np.zeros(0)]
        while place < len(text):
            end = text.find(b"\n", min(place + _PART, len(text)))
            end = len(text) if end < 0 else end
            lines = text[place:end].split()
            parts.append(np.array([self.number(float, line) for line in lines], dtype=np.float64))
            place = end + 1
        return np.concatenate(parts)

    def number(self, kind: Any, text: bytes) -> Any:
        if not re.fullmatch(rb"[-+0-9.eE]{1,40}", text):
            self.fail(f"{text!r:.40} is not a number")
        try:
            found = kind(text)
        except ValueError:
            self.fail(f"{text!r:.40} is not a number")
        if abs(found) > 2**53:
            self.fail(f"{text!r:.40} is too large")
        return found
