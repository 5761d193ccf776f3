"""Model files of Wapiti: text in lines and netstrings (``length:bytes,``), read with every bound checked.

::

    #mdl#TYPE#N           0 maxent, 1 memm, 2 crf; N weights that are not zero (older files have no type: crf)
    #rdr#P/COLUMNS/AUTO   P patterns follow, a netstring each; without patterns, tokens are the observations
    #qrk#Y                labels, a netstring each
    #qrk#O                observations, a netstring each
    index=weight          N lines, the weight as a hexadecimal float

Weights are numbered by observation: one whose first letter is u has Y of them, b has Y * Y (previous label first), and
* has Y and then Y * Y.

References
----------
Lavergne, Cappé & Yvon (2010). Practical very large scale CRFs. ACL.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from loglinear.arrays import Float, Int64
from loglinear.errors import ModelFileError

MAXENT, MEMM, CRF = TYPES = ("maxent", "memm", "crf")
_INDEX = re.compile(rb"(\d{1,18})=([-+]?0x[0-9a-fA-F]{1,20}(?:\.[0-9a-fA-F]{0,20})?p[-+]?\d{1,5})")
_DECIMAL = re.compile(rb"(\d{1,18})=([-+]?[0-9.]{1,30}(?:[eE][-+]?\d{1,5})?)")


@dataclass(frozen=True)
class WapitiModel:
    """A maximum-entropy model, an MEMM or a conditional random field.

    Parameters
    ----------
    type : {"maxent", "memm", "crf"}
    patterns : list of bytes
        None of them in a model whose tokens are observations.
    auto : bool
        Whether a letter u was put before each such observation.
    labels : list of bytes
    observations : list of bytes
    places : int64 [N]
        Of the weights that are not zero, ascending.
    weights : float64 [N]
    starts : int64 [O]
        Where the weights of each observation begin.
    """

    type: str
    patterns: list[bytes]
    auto: bool
    labels: list[bytes]
    observations: list[bytes]
    places: Int64
    weights: Float
    starts: Int64


def read_wapiti(data: bytes | memoryview, source: str = "the model in memory") -> WapitiModel:
    """The model in a file's ``data``; what does not fit together is a :class:`ModelFileError` that names ``source``."""
    return _File(bytes(data), source).model()


class _File:
    def __init__(self, data: bytes, source: str) -> None:
        self.data, self.source, self.place = data, source, 0

    def fail(self, detail: str) -> NoReturn:
        raise ModelFileError(
            f"{self.source} is a damaged Wapiti model ({detail}): copy it again from where it was made"
        )

    def head(self, name: bytes, least: int, most: int) -> list[int]:
        """The numbers of the next line, which begins with ``#name#``."""
        end = self.data.find(b"\n", self.place, self.place + 100)
        line = self.data[self.place : end].rstrip(b"\r") if end >= 0 else b""
        self.place = end + 1
        start = b"#%s#" % name
        numbers = re.split(b"[#/]", line[len(start) :]) if line.startswith(start) else []
        if not least <= len(numbers) <= most or not all(re.fullmatch(rb"\d{1,15}", each) for each in numbers):
            self.fail(f"the line #{name.decode()}# is missing, or is not what it should be")
        return list(map(int, numbers))

    def strings(self, number: int, what: str) -> list[bytes]:
        """The next netstrings."""
        if number > len(self.data) // 4:
            self.fail(f"it cannot have {number:,} {what}")
        found, data, place = list[bytes](), self.data, self.place
        for _ in range(number):
            colon = data.find(b":", place, place + 12)
            length = data[place:colon]
            if colon < 0 or not length.isdigit():
                self.fail(f"there are not {number:,} {what}")
            end = colon + 1 + int(length)
            if end + 1 >= len(data) or data[end : end + 1] != b",":
                self.fail(f"one of its {what} does not end where it should")
            found.append(data[colon + 1 : end])
            place = end + 1
            if data[place : place + 1] == b"\r":
                place += 1
            if data[place : place + 1] != b"\n":
                self.fail(f"one of its {what} does not end its line")
            place += 1
        self.place = place
        return found

    def model(self) -> WapitiModel:
        *kind, number = self.head(b"mdl", 1, 2)
        if kind and kind[0] >= len(TYPES):
            self.fail(f"a model of the unknown type {kind[0]}")
        n_patterns, *more = self.head(b"rdr", 2, 3)
        patterns = self.strings(n_patterns, "patterns")
        labels = self.strings(self.head(b"qrk", 1, 1)[0], "labels")
        observations = self.strings(self.head(b"qrk", 1, 1)[0], "observations")
        if not labels or b"" in labels:
            self.fail("its labels are missing or empty")
        for strings, what in ((labels, "label"), (observations, "observation")):
            if len(set(strings)) != len(strings):
                self.fail(f"a {what} is there twice")
        n = len(labels)
        widths = {117: n, 98: n * n, 42: n + n * n}  # u, b and *
        sizes = [widths.get(each[0] if each else 0, 0) for each in observations]
        if 0 in sizes:
            self.fail("an observation begins with none of u, b and *")
        if sum(sizes) >= 2**62:
            self.fail("it has more weights than there can be")
        ends = np.cumsum(np.array(sizes, dtype=np.int64))
        places, weights = self.numbers(number)
        order = np.argsort(places, kind="stable")
        places, weights = places[order], weights[order]
        if len(places) and (places[-1] >= (ends[-1] if len(ends) else 0) or (np.diff(places) == 0).any()):
            self.fail("a weight belongs to nothing, or is there twice")
        starts = ends - np.array(sizes, dtype=np.int64)
        auto = bool(more[1]) if len(more) > 1 else False
        type_ = CRF if not kind else TYPES[kind[0]]
        return WapitiModel(type_, patterns, auto, labels, observations, places, weights, starts)

    def numbers(self, number: int) -> tuple[Int64, Float]:
        """Places and values of the weights."""
        lines = self.data[self.place :].split(b"\n")
        while lines and not lines[-1].strip():
            lines.pop()
        if len(lines) != number:
            self.fail(f"it has {len(lines):,} weights, not {number:,}")
        places, weights = np.empty(number, dtype=np.int64), np.empty(number)
        for i, line in enumerate(lines):
            line = line.rstrip(b"\r")
            if (match := _INDEX.fullmatch(line)) is not None:
                try:
                    weights[i] = float.fromhex(match[2].decode())
                except (OverflowError, ValueError):
                    self.fail("a weight is out of range")
            elif (match := _DECIMAL.fullmatch(line)) is not None:
                try:
                    weights[i] = float(match[2])
                except ValueError:
                    self.fail(f"{line!r:.40} is not a weight")
            else:
                self.fail(f"{line!r:.40} is not a weight")
            places[i] = int(match[1])
            if not math.isfinite(weights[i]):
                self.fail("a weight is not a finite number")
        return places, weights
