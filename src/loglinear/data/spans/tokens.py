r"""A simple tokenizer that keeps offsets: where the tokens of a text begin and end, in code points.

A token is one of

======  ==========================================================================================================
word    letters, digits, ``_``, and the marks that belong to them: ``Zoë``, ``हिन्दी``, ``A4``
number  digits with ``.`` or ``,`` between digits: ``1,000.50``
symbol  any other character, with its marks, modifiers and what is joined to it: ``-``, an emoji of several, a flag
======  ==========================================================================================================

Blanks, and the zero-width space, separate tokens and belong to none. Words are split at apostrophes and hyphens, so
that a span that covers part of ``Oslo-based`` or ``Anna's`` falls on borders of tokens. No language is special.
"""

from __future__ import annotations

import re
import unicodedata

_JOINERS = "\u200c\u200d"
_BLANK = "\u200b\ufeff"


class _Classes(dict[int, str]):
    """For :meth:`str.translate`: the class of each character, computed at its first use.

    ``w`` letter, ``d`` digit, ``m`` mark or format character, ``j`` joiner, ``r`` regional indicator, ``n`` the
    separators of numbers, ``s`` blank, ``p`` anything else.
    """

    def __missing__(self, code: int) -> str:
        self[code] = kind = _class_of(chr(code))
        return kind


def _class_of(character: str) -> str:
    if character.isspace() or character in _BLANK:
        return "s"
    if character in _JOINERS:
        return "j"
    if "\U0001f1e6" <= character <= "\U0001f1ff":
        return "r"
    category = unicodedata.category(character)
    if category[0] == "M" or category == "Cf" or "\U0001f3fb" <= character <= "\U0001f3ff":
        return "m"
    if category == "Nd":
        return "d"
    if category[0] in "LN" or character == "_":
        return "w"
    return "n" if character in ".," else "p"


_CLASSES = _Classes()
_TOKEN = re.compile(r"(?:d+(?:nd+)*|w)[wdmj]*|rr?[mj]*|[^s][mj]*(?:(?<=j)p[mj]*)*")


def is_blank(text: str) -> bool:
    """Whether a text has nothing but what separates tokens."""
    return all(character.isspace() or character in _BLANK for character in text)


def token_offsets(text: str) -> list[tuple[int, int]]:
    """Begin and end (exclusive) of each token of a text, in code points.

    >>> [text[begin:end] for text in ["Zoë paid 1,000.50 €."] for begin, end in token_offsets(text)]
    ['Zoë', 'paid', '1,000.50', '€', '.']
    """
    return [match.span() for match in _TOKEN.finditer(text.translate(_CLASSES))]
