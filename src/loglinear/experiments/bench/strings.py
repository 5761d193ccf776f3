"""Features as strings in plain Python: what a script around python-crfsuite does, token by token.

The attributes are those that the template makes here; what a macro computes is kept for each distinct value, so that
only the putting together of strings is charged for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from loglinear.errors import OptionError
from loglinear.features.template import GAZETTEER, Macro, TemplateSet

Sentence = list[tuple[str, ...]]
Piece = str | tuple[int, int, "_Known"]


class _Known(dict[str, str | None]):
    """What a macro makes of each value met so far."""

    def __init__(self, function: Callable[[str], str | None]) -> None:
        self._function = function

    def __missing__(self, value: str) -> str | None:
        made = self[value] = self._function(value)
        return made


def why_not(templates: TemplateSet) -> str | None:
    """Why python-crfsuite cannot have these features, None if it can."""
    for template in templates.observing:
        if template.scope != "state":
            return f"it has no features of label pairs, as {template} asks for"
        for macro in template.macros:
            if macro.absolute or macro.function == GAZETTEER:
                return f"the benchmark does not make {macro} in plain Python"
    if not templates.has_label_bigram:
        return "it always has label bigrams, and the template has no B line"
    return None


def read_sentences(path: str | Path) -> list[Sentence]:
    """Sentences as lists of tuples, by plain Python."""
    text = Path(path).read_text(encoding="utf-8").strip()
    blocks = (block for block in text.split("\n\n") if block.strip())
    return [[tuple(line.split()) for line in block.strip("\n").split("\n")] for block in blocks]


def maker(templates: TemplateSet) -> Callable[[Sentence], list[list[str]]]:
    """The function from a sentence to the attributes of each token."""
    reason = why_not(templates)
    if reason is not None:
        raise OptionError(f"python-crfsuite cannot be measured with this template: {reason}")
    computed: dict[tuple[int, str, str, bool], _Known] = {}

    def plan(piece: str | Macro) -> Piece:
        if isinstance(piece, str):
            return piece
        known = computed.setdefault(piece.source, _Known(piece.compute()))
        return (piece.row, piece.column, known)

    plans = [[plan(piece) for piece in template.pieces] for template in templates.observing]

    def attributes(sentence: Sentence) -> list[list[str]]:
        n = len(sentence)
        made = []
        for t in range(n):
            token = []
            for pieces in plans:
                text = ""
                for piece in pieces:
                    if isinstance(piece, str):
                        text += piece
                        continue
                    row, column, known = piece
                    place = t + row
                    if place < 0:
                        text += f"_B{place}"
                    elif place >= n:
                        text += f"_B+{place - n + 1}"
                    elif (value := known[sentence[place][column]]) is None:
                        break
                    else:
                        text += value
                else:
                    token.append(text)
            made.append(token)
        return made

    return attributes
