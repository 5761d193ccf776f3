"""Texts changed at random: bytes, fields, lines, numbers and words of a dictionary, and parts of other texts."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Sequence

NUMBERS = (
    b"0", b"-1", b"1", b"00", b"1e5", b"1e308", b"1e309", b"-1e400", b"1e-400", b"nan", b"inf", b"-inf", b"0x10",
    b"1_0",
    b"2147483648", b"9223372036854775808", b"18446744073709551616", b"9" * 30, b"9" * 400, b"9" * 5000, b"1.5",
    b".", b"-", "١٢".encode(), "²".encode(), b"+1", b" 1",
)  # fmt: skip
ODDITIES = (
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\x80", "\u2028".encode(),
    "\x85".encode(),
    "\u00a0".encode(), "\u3000".encode(), "\u202e".encode(), b"\x1b[2J", b"\r", b"\r\n", b"\n", b"\n\n", b"\t", b"\t\t",
    b" ",
    b"\x0b", b"\x0c", b"\x1c", "İ".encode(), "ß".encode(), "e\u0301".encode(), "\U0010ffff".encode(), b"a" * 3000, b"#",
    b"\\", b'"', b"'",
    b"(" * 300, b")" * 300, b"[" * 300, b'{"a":' * 120, b"",
)  # fmt: skip
_FIELD = re.compile(rb"[^\s:=,()\[\]{}\"|]+")


def changed(text: bytes, words: Sequence[bytes], others: Sequence[bytes], rng: random.Random) -> bytes:
    """The text with one to eight changes; ``words`` are those of its language, ``others`` texts to take parts from."""
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 5, 8])):
        text = _change(text, words, others, rng)[:200_000]
    chance = rng.random()
    if chance < 0.004:
        packed = gzip.compress(text, 1, mtime=0)
        text = packed if chance < 0.002 else packed[: rng.randrange(len(packed))]
    return text


def _change(text: bytes, words: Sequence[bytes], others: Sequence[bytes], rng: random.Random) -> bytes:
    n = len(text)
    a = rng.randrange(n + 1)
    b = min(n, a + rng.choice([1, 1, 2, 5, 20, 100]))
    match rng.randrange(16):
        case 0:
            return text[:a] + bytes([rng.randrange(256)]) + text[b:]
        case 1:
            return text[:a] + text[b:]
        case 2:
            return text[:b] + text[a:]
        case 3:
            return text[:a]
        case 4 | 5:
            return text[:a] + rng.choice(ODDITIES) + text[a:]
        case 6 | 7 | 8 if words:
            return text[:a] + rng.choice(words) + text[rng.choice([a, b]) :]
        case 9 | 10 | 11:
            found = [match.span() for match in _FIELD.finditer(text[:20_000])]
            if not found:
                return rng.choice(NUMBERS)
            first, end = rng.choice(found)
            match rng.randrange(4):
                case 0:
                    new = rng.choice(NUMBERS)
                case 1:
                    new = rng.choice(words or NUMBERS)
                case 2:
                    c, d = rng.choice(found)
                    new = text[c:d]
                case _:
                    new = b""
            return text[:first] + new + text[end:]
        case 12 | 13:
            lines = text.split(b"\n")
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            match rng.randrange(4):
                case 0:
                    lines[i], lines[j] = lines[j], lines[i]
                case 1:
                    lines.insert(i, lines[j])
                case 2:
                    del lines[i]
                case _:
                    lines[i:i] = [lines[j]] * rng.choice([2, 20, 200])
            return b"\n".join(lines)
        case 14 if others:
            other = rng.choice(others)
            c = rng.randrange(len(other) + 1)
            return text[:a] + other[c : c + rng.choice([5, 50, 500])] + text[b:]
        case _:
            return text[:a] + text[a:b] * rng.choice([2, 3, 30]) + text[b:]
