"""Gazetteers: lists of known names, matched against sequences longest first.

A gazetteer file has one entry per line, its words separated by blanks; blank lines and lines that begin with ``#`` are
skipped. A position inside a match gets ``B``, ``I`` or ``L`` (begin, inside, last) or ``S`` (an entry of one word).
Matches do not overlap: from left to right, the longest entry at each position wins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from loglinear.arrays import Bool, Int32, Int64
from loglinear.errors import DataError
from loglinear.kernels import kernel

MARKS = ("B", "I", "L", "S")


@kernel
def _mark(longest: Int64, marks: Int32) -> None:
    """Greedy cover from the left: ``longest[t]`` words from t are an entry (0: none); ``marks`` is -1 on entry."""
    t = 0
    while t < longest.shape[0]:
        n = longest[t]
        if n == 1:
            marks[t] = 3
        elif n > 1:
            marks[t] = 0
            marks[t + 1 : t + n - 1] = 1
            marks[t + n - 1] = 2
        t += max(1, n)


LONGEST = 1000  # words of an entry: each position is looked up once for each


@dataclass
class Gazetteer:
    """A named list of entries, each a tuple of words, or a string of them separated by blanks."""

    name: str
    entries: Sequence[str | tuple[str, ...]]
    _words: dict[str, int] = field(init=False, repr=False)
    _levels: list[tuple[Int64, Bool]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", self.name):
            raise DataError(f"a gazetteer's name holds letters, digits, '_', '.' and '-' only, not {self.name!r}")
        self.entries = sorted(
            {tuple(entry.split()) if isinstance(entry, str) else tuple(entry) for entry in self.entries}
        )
        if () in self.entries:
            raise DataError(f"the gazetteer {self.name!r} has an empty entry")
        if (longest := max(map(len, self.entries), default=0)) > LONGEST:
            raise DataError(f"the gazetteer {self.name!r} has an entry of {longest:,} words; at most {LONGEST:,}")
        words = dict.fromkeys(word for entry in self.entries for word in entry)
        self._words = {word: number for number, word in enumerate(words)}
        self._levels = self._build_levels()

    @classmethod
    def read(cls, path: str | Path, name: str | None = None) -> Gazetteer:
        """Read a file; by default the gazetteer's name is the file's name up to its first dot."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except OSError as error:
            raise DataError(f"cannot read the gazetteer: {error.strerror}", str(path)) from None
        except UnicodeDecodeError as error:
            line = path.read_bytes()[: error.start].count(b"\n") + 1
            raise DataError("the gazetteer is not valid UTF-8", str(path), line) from None
        entries = [tuple(line.split()) for line in text.splitlines() if line.strip() and not line.startswith("#")]
        if not entries:
            raise DataError("the gazetteer has no entry; write one a line", str(path))
        return cls(name or path.name.split(".")[0], entries)

    def _build_levels(self) -> list[tuple[Int64, Bool]]:
        """The trie by depth: sorted keys (parent * words + word), and which nodes end an entry."""
        width = len(self._words)
        levels = []
        paths, depth = [(0, [self._words[word] for word in entry]) for entry in self.entries], 0
        while paths:
            keys = np.array([parent * width + words[depth] for parent, words in paths], dtype=np.int64)
            nodes, node_of_path = np.unique(keys, return_inverse=True)
            ends, depth = np.zeros(len(nodes), dtype=bool), depth + 1
            ends[node_of_path[[len(words) == depth for _, words in paths]]] = True
            levels.append((nodes, ends))
            paths = [(int(n), words) for n, (_, words) in zip(node_of_path, paths, strict=True) if len(words) > depth]
        return levels

    def match(self, ids: Int32, values: list[str], offsets: Int64, lowered: bool = False) -> Int32:
        """Index into :data:`MARKS` (or -1) of each of N positions of a factorised column (``ids`` [N], ``values``)."""
        if lowered:
            entries = [tuple(word.lower() for word in entry) for entry in self.entries]
            return Gazetteer(self.name, entries).match(ids, [value.lower() for value in values], offsets)
        tokens = np.array([self._words.get(value, -1) for value in values], dtype=np.int64)[ids]
        n = len(ids)
        ends_of_sequence = np.repeat(offsets[1:], np.diff(offsets))
        longest = np.zeros(n, dtype=np.int64)
        alive, node = np.arange(n), np.zeros(n, dtype=np.int64)
        for depth, (keys, ends) in enumerate(self._levels):
            inside = alive + depth < ends_of_sequence[alive]
            alive, node = alive[inside], node[inside]
            key = node * len(self._words) + tokens[alive + depth]
            place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            found = (tokens[alive + depth] >= 0) & (keys[place] == key)
            alive, node = alive[found], place[found]
            longest[alive[ends[node]]] = depth + 1
        marks = np.full(n, -1, dtype=np.int32)
        _mark(longest, marks)
        return marks

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "entries": [" ".join(entry) for entry in self.entries]}

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Gazetteer:
        return cls(stored["name"], [tuple(entry.split(" ")) for entry in stored["entries"]])
