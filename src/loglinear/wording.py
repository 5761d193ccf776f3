"""Wording that messages share: counts in words."""

from __future__ import annotations

from typing import SupportsIndex


def how_many(n: SupportsIndex, noun: str, plural: str | None = None) -> str:
    """A count and what is counted: ``1 sentence``, ``2 passes``, ``1,234 entries``.

    ``plural`` is needed for what English does not form by a rule: ``parts of speech``.
    """
    n = int(n)
    return f"{n:,} {noun if n == 1 else plural or plural_of(noun)}"


def plural_of(noun: str) -> str:
    """The regular plural."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return f"{noun[:-1]}ies"
    return f"{noun}s"
