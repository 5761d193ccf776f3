"""Writers of other tools' model files, written down from their formats alone, and slow readers of what is in them.

The double array is the simplest that the format allows: for each node the first base whose children are all free.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np


def double_array(entries: dict[bytes, int]) -> bytes:
    """The units of a double array of these keys and values."""
    trie: dict[int, Any] = {}
    for key, value in entries.items():
        node = trie
        for byte in key:
            node = node.setdefault(byte + 1, {})
        node[0] = value
    base, check, used = {0: 0}, {0: 0}, {0}
    taken_bases, waiting, search = set(), [(0, trie)], 1
    while waiting:
        unit, node = waiting.pop(0)
        b = search
        while b in taken_bases or any(b + letter in used for letter in node):
            b += 1
        if len(waiting) % 64 == 0:
            search = max(search, b - 200)
        taken_bases.add(b)
        base[unit] = b
        for letter, child in node.items():
            used.add(b + letter)
            check[b + letter] = b
            if letter == 0:
                base[b] = -child - 1
            else:
                waiting.append((b + letter, child))
    size = max(used) + 1
    return b"".join(struct.pack("<iI", base.get(p, 0), check.get(p, 0)) for p in range(size))


def crfpp_binary(
    labels: list[str], templates: list[str], keys: dict[str, int], weights: Any, cost: float = 1.0
) -> bytes:
    """A binary model of CRF++."""
    names = b"".join(label.encode() + b"\0" for label in labels)
    lines = b"".join(line.encode() + b"\0" for line in templates)
    lines += b"\0" * (-(len(names) + len(lines)) % 4)
    units = double_array({key.encode(): value for key, value in keys.items()}) if keys else b""
    head = struct.pack("<IidIIII", 100, 0, cost, len(weights), 1, len(units), len(names))
    return head + names + struct.pack("<I", len(lines)) + lines + units + np.asarray(weights, dtype="<f4").tobytes()


def crfpp_text(labels: list[str], templates: list[str], keys: dict[str, int], weights: Any, cost: float = 1.0) -> bytes:
    """The same in text form."""
    blocks = [
        ["version: 100", f"cost-factor: {cost:g}", f"maxid: {len(weights)}", "xsize: 1"],
        labels,
        templates,
        [f"{value} {key}" for key, value in keys.items()],
        [f"{weight:.16f}" for weight in weights],
    ]
    return ("\n\n".join("\n".join(block) for block in blocks) + "\n").encode()


def wapiti_text(type_: int, patterns: list[str], labels: list[str], observations: list[str], weights: Any) -> bytes:
    """A model of Wapiti; ``weights`` has zeros, which the file leaves out."""

    def netstring(text: str) -> str:
        return f"{len(text.encode())}:{text},\n"

    some = [(i, float(w).hex()) for i, w in enumerate(weights) if w]
    return "".join(
        [
            f"#mdl#{type_}#{len(some)}\n#rdr#{len(patterns)}/0/0\n",
            *map(netstring, patterns),
            f"#qrk#{len(labels)}\n",
            *map(netstring, labels),
            f"#qrk#{len(observations)}\n",
            *map(netstring, observations),
            *(f"{i}={w}\n" for i, w in some),
        ]
    ).encode()


# ----------------------------------------------------------------------------------------------------------------------
# Observations of templates, string by string.


def crfpp_observation(template: str, sentence: list[tuple[str, ...]], t: int) -> str:
    """What a template of CRF++ makes at a position."""

    def value(match: re.Match[str]) -> str:
        row, column = t + int(match[1]), int(match[2])
        if row < 0:
            return f"_B{row}"
        return f"_B+{row - len(sentence) + 1}" if row >= len(sentence) else sentence[row][column]

    return re.sub(r"%x\[(-?\d+),(\d+)\]", value, template)


def wapiti_matches(expression: bytes, at: int, text: bytes, place: int) -> int:
    """Where a match of Wapiti's expression from ``at`` on ends if it begins at ``place``; -1 if there is none."""
    if at == len(expression):
        return place
    if expression[at:] == b"$":
        return place if place == len(text) else -1
    width = 2 if expression[at] == 92 else 1
    here, after = expression[at : at + width], at + width
    if expression[after : after + 1] == b"*":
        while True:
            if (end := wapiti_matches(expression, after + 1, text, place)) >= 0:
                return end
            if not (place < len(text) and _matches_one(here, text[place])):
                return -1
            place += 1
    fits = place < len(text) and _matches_one(here, text[place])
    if expression[after : after + 1] == b"?":
        if fits and (end := wapiti_matches(expression, after + 1, text, place + 1)) >= 0:
            return end
        return wapiti_matches(expression, after + 1, text, place)
    return wapiti_matches(expression, after, text, place + 1) if fits else -1


def _matches_one(atom: bytes, byte: int) -> bool:
    if atom == b".":
        return True
    if len(atom) == 1:
        return atom[0] == byte
    letter, character = chr(atom[1]), chr(byte) if byte < 128 else "\x80"
    tests = {
        "a": character.isalpha(), "d": character.isdigit(), "l": character.islower(), "u": character.isupper(),
        "p": 33 <= byte < 127 and not character.isalnum(), "s": character in " \t\n\v\f\r", "w": character.isalnum(),
    }  # fmt: skip
    if letter.lower() in tests:
        test = tests[letter.lower()] and byte < 128
        return not test if letter.isupper() else test
    return atom[1] == byte


def wapiti_find(expression: str, value: str) -> bytes | None:
    """The first match of an expression of Wapiti."""
    pattern, text = expression.encode(), value.encode()
    if pattern[:1] == b"^":
        end = wapiti_matches(pattern, 1, text, 0)
        return None if end < 0 else text[:end]
    for place in range(len(text) + 1):
        if (end := wapiti_matches(pattern, 0, text, place)) >= 0:
            return text[place:end]
    return None


def wapiti_observation(pattern: str, sentence: list[tuple[str, ...]], t: int) -> bytes:
    """What a pattern of Wapiti makes at a position."""
    n = len(sentence)

    def value(match: re.Match[str]) -> str:
        name, absolute, offset, column, expression = match.groups()
        row = int(offset)
        place = (row + n if row < 0 else row - 1) if absolute else t + row
        if place < 0:
            text = ["_x-1", "_x-2", "_x-3", "_x-4", "_x-#"][min(-place - 1, 4)]
        elif place >= n:
            text = ["_x+1", "_x+2", "_x+3", "_x+4", "_x+#"][min(place - n, 4)]
        else:
            text = sentence[place][int(column)]
        found = text.encode()
        if name.lower() == "t":
            found = b"false" if wapiti_find(expression, text) is None else b"true"
        elif name.lower() == "m":
            found = wapiti_find(expression, text) or b""
        if name.isupper():
            found = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in found)
        return found.decode("latin-1")

    line = pattern[0].lower() + pattern[1:]
    escaped = line.encode().decode("latin-1")
    return re.sub(r'%([xtmXTM])\[(@?)(-?\d+),(\d+)(?:,"((?:\\.|[^"\\])*)")?\]', value, escaped).encode("latin-1")
