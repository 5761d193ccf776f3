"""What the look of a word says about its part of speech: nested classes, from the most particular to all words.

Each class is a string; those of one word are a list, the most particular first, each part of the next:

    case, digits, hyphen and a suffix of 3, 2, 1 letters;  case, digits and hyphen;  anything

as in ``<lower-ing>``, ``<lower-ng>``, ``<lower-g>``, ``<lower>``, ``<word>``. Whether a capital stands at the beginning
of a sentence is part of the case, and whether the lower-case form is a known word then too (Weischedel et al. 1993; the
signatures of the Stanford and Berkeley parsers are of this kind).
"""

from __future__ import annotations

from collections.abc import Container

ANYTHING = "<word>"
LONGEST_SUFFIX = 3


def word_classes(word: str, first: bool = False, known: Container[str] = ()) -> list[str]:
    """The classes of a word, the most particular first; ``first``: it begins a sentence."""
    shape = _shape(word, first, known)
    if shape.startswith(("number", "sign")):
        return [f"<{shape}>", ANYTHING]
    ending = word.lower()
    sizes = range(min(LONGEST_SUFFIX, len(ending) - 2), 0, -1)
    return [*(f"<{shape}-{ending[-size:]}>" for size in sizes), f"<{shape}>", ANYTHING]


def _shape(word: str, first: bool, known: Container[str]) -> str:
    digits = any(c.isdigit() for c in word)
    letters = [c for c in word if c.isalpha()]
    hyphen = "-hyphen" if "-" in word.strip("-") else ""
    if not letters:
        if not digits:
            return "sign"
        inner = "".join("0" if c.isdigit() else c for c in word)
        mark = next((c for c in "/:.,-$%'" if c in inner), "")
        return f"number{mark}{'-year' if inner == '0000' else ''}"
    if digits:
        ending = "-" + word[-2:].lower() if letters and word[:1].isdigit() else ""
        return f"number-letters{hyphen}{ending}"
    if not word[0].isupper():
        inside = "-inside" if any(c.isupper() for c in letters) else ""
        return f"lower{inside}{hyphen}"
    if len(letters) > 1 and all(c.isupper() for c in letters):
        return f"capitals{'-short' if len(letters) <= 4 else ''}{hyphen}"
    if len(letters) == 1 and len(word) == 2 and word.endswith("."):
        return "initial"
    if first:
        return f"first-{'known' if word.lower() in known else 'capital'}{hyphen}"
    return f"capital{hyphen}"
