"""Words for the generator: classes read from ``lexicon.txt``, inflected by rule, and open classes made up on demand.

A word of a closed class at rank r (from 1) has weight 1 / (r + 2.7), the law of Zipf (1949) with Mandelbrot's shift.
Names and numbers are open: a rank is drawn from a power law without end and spelt out, so that the vocabulary keeps
growing with the text, as Heaps's law says it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from itertools import chain

import numpy as np
import numpy.typing as npt

from loglinear.errors import DataError

_BATCH = 4096  # words drawn at once; any value gives the same words
_VOWELS = "aeiou"
VERB_FORMS = {"z": "VBZ", "p": "VBP", "s": "VBD", "t": "VBD", "b": "VB", "n": "VBN", "g": "VBG"}
_LAST_RANK = 2_000_000  # beyond it names would become absurdly long


def _sibilant(word: str) -> bool:
    return word.endswith(("s", "x", "z", "ch", "sh"))


def plural(noun: str) -> str:
    """Regular plural of a noun, also the regular third person of a verb."""
    if noun.endswith("y") and noun[-2:-1] not in _VOWELS:
        return noun[:-1] + "ies"
    return noun + ("es" if _sibilant(noun) or noun.endswith(("tomato", "potato", "go", "do")) else "s")


def verb_forms(entry: str) -> dict[str, str]:
    """Forms of a verb from its entry: ``lemma``, ``lemma*`` (doubles), or ``lemma/past/participle``."""
    base, *irregular = entry.split("/")
    stem = base = base.removesuffix("*")
    if entry.startswith(f"{base}*"):
        stem = base + base[-1]
    if base.endswith("y") and base[-2] not in _VOWELS:
        past = base[:-1] + "ied"
    else:
        past = stem + ("d" if stem.endswith("e") else "ed")
    progressive = (stem[:-1] if stem.endswith("e") and not stem.endswith("ee") else stem) + "ing"
    past, participle = irregular or (past, past)
    return {"z": plural(base), "p": base, "s": past, "t": past, "b": base, "n": participle, "g": progressive}


@cache
def closed_classes() -> dict[str, list[str]]:
    """The classes of ``lexicon.txt``: class name to words, the frequent first."""
    classes: dict[str, list[str]] = {}
    name = kind = ""
    text = files("loglinear.data.treebank").joinpath("lexicon.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            name, _, kind = line.strip("[]").partition(" ")
        elif not line.startswith("#"):
            for entry in line.split():
                if kind == "noun":
                    singular, _, several = entry.partition("/")
                    forms = {".s": singular, ".p": several or plural(singular)}
                elif kind == "verb":
                    forms = {f".{form}": word for form, word in verb_forms(entry).items()}
                else:
                    forms = {"": entry}
                for form, word in forms.items():
                    classes.setdefault(name + form, []).append(word)
    return classes


def _name(rank: int, ends: str) -> str:
    """Spell a rank as a name: frequent ranks have an onset, a nucleus and an end, rarer ones syllables between."""
    classes = closed_classes()
    onsets, nuclei, middles, last = (classes[name] for name in ("onset", "nucleus", "middle", ends))
    size = len(onsets) * len(nuclei) * len(last)
    more, short = divmod(rank, size)
    short = short * 1009 % size  # a prime scatters neighbouring ranks over the syllables
    short, onset = divmod(short, len(onsets))
    end, nucleus = divmod(short, len(nuclei))
    between = ""
    while more:
        more, digit = divmod(more, len(middles))
        between += middles[digit]
    return onsets[onset] + nuclei[nucleus] + between + last[end]


def _ranks(generator: np.random.Generator, exponent: float) -> npt.NDArray[np.int64]:
    """Ranks from 1 with P(rank > r) = r^(1 - exponent)."""
    drawn = (1.0 - generator.random(_BATCH)) ** (-1.0 / (exponent - 1.0))
    return np.minimum(drawn, _LAST_RANK).astype(np.int64)


def _surnames(generator: np.random.Generator) -> list[str]:
    return [_name(rank, "person_end") for rank in _ranks(generator, 1.3).tolist()]


def _places(generator: np.random.Generator) -> list[str]:
    return [_name(rank, "place_end") for rank in _ranks(generator, 1.35).tolist()]


def _acronyms(generator: np.random.Generator) -> list[str]:
    letters = "ABCDEFGIMNOPRSTU"
    return [
        "".join(letters[(rank * 11 // 16**place) % 16] for place in range(2 + (rank > 16) + (rank > 300)))
        for rank in _ranks(generator, 1.8).tolist()
    ]


def _cardinals(generator: np.random.Generator) -> list[str]:
    return [f"{20 + rank % 2_000_000:,}" for rank in _ranks(generator, 1.4).tolist()]


def _amounts(generator: np.random.Generator) -> list[str]:
    whole, digit = _ranks(generator, 1.5) % 1000, generator.integers(0, 14, _BATCH)
    return [f"{w}.{d}" if d < 10 else str(w) for w, d in zip(whole.tolist(), digit.tolist(), strict=True)]


def _years(generator: np.random.Generator) -> list[str]:
    return [str(2026 - rank % 400) for rank in _ranks(generator, 1.5).tolist()]


def _days(generator: np.random.Generator) -> list[str]:
    return list(map(str, generator.integers(1, 29, _BATCH).tolist()))


def _compounds(generator: np.random.Generator) -> list[str]:
    nouns, ends = closed_classes()["noun.s"], closed_classes()["compound_end"]
    picked = (_ranks(generator, 1.4) % len(nouns)).tolist()
    return [
        f"{nouns[n]}-{ends[e]}" for n, e in zip(picked, generator.integers(0, len(ends), _BATCH).tolist(), strict=True)
    ]


#: Open class to the function that draws a batch of its words.
OPEN_CLASSES: dict[str, Callable[[np.random.Generator], list[str]]] = {
    "surname": _surnames, "place": _places, "acronym": _acronyms, "cardinal": _cardinals, "amount": _amounts,
    "year": _years, "day": _days, "compound": _compounds,
}  # fmt: skip


def _closed_draw(words: list[str]) -> Callable[[np.random.Generator], list[str]]:
    weights = 1.0 / (np.arange(len(words)) + 3.7)
    bounds = np.cumsum(weights) / weights.sum()

    def draw(generator: np.random.Generator) -> list[str]:
        picked = np.searchsorted(bounds, generator.random(_BATCH), side="right")
        return [words[index] for index in np.minimum(picked, len(words) - 1).tolist()]

    return draw


def word_stream(name: str, generator: np.random.Generator) -> Iterator[str]:
    """Words of a class without end, drawn from ``generator``."""
    if name in OPEN_CLASSES:
        draw = OPEN_CLASSES[name]
    elif name in closed_classes():
        draw = _closed_draw(closed_classes()[name])
    else:
        raise DataError(f"the grammar names a word class that the lexicon lacks: {name}")
    return chain.from_iterable(draw(generator) for _ in iter(int, 1))
