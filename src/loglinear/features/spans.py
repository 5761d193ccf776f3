"""Attributes of every span (i, j) of a sentence, for grammars that look at the words.

A *place* is a word at or next to a span's boundary. Each place gives its word and, for spans of one or two words, the
word together with the length (Taskar et al. 2004; Sutton & McCallum 2005, section 5):

    first   w_i          last    w_{j-1}          before   w_{i-1}          after   w_j

Words that are rare or absent in training are replaced by the most specific of their classes (:func:`word_classes`)
that is not rare itself. A user's function may add attributes: ``own(words, i, j)`` returns their names.

Span (i, j) of a sentence, 0 <= i < j <= n, has the number j (j - 1) / 2 + i in it; the spans of all sentences are
numbered sentence after sentence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Int32, Int64
from loglinear.data.columns.corpus import offsets_of
from loglinear.errors import OptionError
from loglinear.features.encoding import UNKNOWN, Incidence, Vocabulary
from loglinear.kernels import kernel

Own = Callable[[Sequence[str], int, int], Sequence[str]]

PLACES = ("first", "last", "before", "after")
BOUNDARY = "<s>"


def span_offsets(lengths: npt.ArrayLike) -> Int64:
    """Where the spans of sentences with these lengths [S] begin [S + 1]."""
    n = np.asarray(lengths, dtype=np.int64)
    return offsets_of(n * (n + 1) // 2)


@kernel
def _fill(lengths: Int64, values: Int32, places: Int64, edge: int, n_values: int, pointer: Int64, ids: Int32) -> None:
    """Attributes (place, length class, value) of all spans; ``values`` are the numbers of all sentences' words."""
    span, filled, first = 0, 0, 0
    for s in range(lengths.shape[0]):
        n = lengths[s]
        for j in range(1, n + 1):
            for i in range(j):
                pointer[span] = filled
                span += 1
                for k in range(places.shape[0]):
                    at = i if places[k] == 0 else j - 1 if places[k] == 1 else i - 1 if places[k] == 2 else j
                    value = values[first + at] if 0 <= at < n else edge
                    ids[filled] = 3 * k * n_values + value
                    filled += 1
                    if j - i < 3:
                        ids[filled] = (3 * k + j - i) * n_values + value
                        filled += 1
        first += n
    pointer[span] = filled


class SpanAttributes:
    """Numbered attributes of spans.

    Parameters
    ----------
    places : sequence of str
        Which words to look at, of :data:`PLACES`.
    min_count : int
        Words that occur less often in training are replaced by one of their classes.
    own : callable, optional
        ``own(words, i, j)`` returns the names of more attributes of the span of words i to j - 1.
    """

    def __init__(self, places: Sequence[str] = ("first", "last"), min_count: int = 2, own: Own | None = None) -> None:
        unknown = [place for place in places if place not in PLACES]
        if unknown or len(set(places)) != len(places):
            raise OptionError(f"places={'+'.join(places)!r}: give each at most once of {', '.join(PLACES)}")
        self.places, self.min_count, self.own = tuple(places), min_count, own
        self.values, self.names = Vocabulary(), Vocabulary()

    def fit(self, sentences: Sequence[Sequence[str]]) -> Incidence:
        """Number the values of a training corpus, lock, and return the attributes of its spans."""
        counts = Counter(word for sentence in sentences for word in sentence)
        classes = Counter(name for w, c in counts.items() if c < self.min_count for name in word_classes(w))
        frequent = [value for counter in (counts, classes) for value, c in counter.items() if c >= self.min_count]
        self.values = Vocabulary(list(dict.fromkeys([BOUNDARY, ANYTHING, *frequent])), locked=True)
        self.names = Vocabulary()
        incidence = self.transform(sentences)
        self.names.lock()
        return incidence

    @property
    def n_attributes(self) -> int:
        """A; the attributes of the user's function are the last."""
        return 3 * len(self.places) * len(self.values) + len(self.names)

    def described(self, attributes: Int64) -> tuple[Int64, Int64, Int64]:
        """Of each attribute [n] the place (its number among ``places``), the length (0: any) and the value.

        The place is -1, and the others say nothing, for attributes of the user's function.
        """
        n = len(self.values)
        place = np.where(attributes < 3 * len(self.places) * n, attributes // (3 * n), -1)
        return place, attributes // n % 3, attributes % n

    def matching(self, other: SpanAttributes) -> Int64:
        """For each attribute of ``other`` [A'], the number of the same attribute here, or -1."""
        values, names = self.values.ids(other.values.strings), self.names.ids(other.names.strings)
        n, numbers = len(self.values), []
        for place in other.places:
            first = 3 * self.places.index(place) * n if place in self.places else -1
            for kind in range(3):
                numbers.append(np.where((values == UNKNOWN) | (first < 0), -1, first + kind * n + values))
        numbers.append(np.where(names == UNKNOWN, -1, 3 * len(self.places) * n + names))
        return np.concatenate(numbers).astype(np.int64)

    def transform(self, sentences: Sequence[Sequence[str]]) -> Incidence:
        """Attributes of all spans of the sentences; names that do not occur in training are left out."""
        lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        n_spans, n_values = int(span_offsets(lengths)[-1]), len(self.values)
        words = list(dict.fromkeys(word for sentence in sentences for word in sentence))
        numbers = dict(zip(words, map(self.value_of, words), strict=True))
        values = np.array([numbers[word] for sentence in sentences for word in sentence], dtype=np.int32)
        pointer = np.empty(n_spans + 1, dtype=np.int64)
        ids = np.empty(2 * len(self.places) * n_spans, dtype=np.int32)
        places = np.array([PLACES.index(place) for place in self.places], dtype=np.int64)
        _fill(lengths, values, places, self.values.id(BOUNDARY), n_values, pointer, ids)
        incidence = Incidence(pointer, ids[: pointer[-1]])
        return incidence if self.own is None else self._with_own(incidence, self.own, sentences)

    def value_of(self, word: str) -> int:
        """The number of a word's value: its own, or that of its most specific class that has one."""
        return next(number for value in (word, *word_classes(word)) if (number := self.values.id(value)) != UNKNOWN)

    def _with_own(self, incidence: Incidence, own: Own, sentences: Sequence[Sequence[str]]) -> Incidence:
        """The incidence with the attributes that the user's function gives each span."""
        first, more = 3 * len(self.places) * len(self.values), []
        for words in sentences:
            for j in range(1, len(words) + 1):
                for i in range(j):
                    result: Any = own(words, i, j)
                    names = list(result) if isinstance(result, Iterable) and not isinstance(result, str) else [None]
                    if not all(isinstance(name, str) for name in names):
                        raise OptionError(f"the function of span_features gave {result!r:.60}, not a list of strings")
                    numbers = self.names.ids(names)
                    more.append(first + numbers[numbers != UNKNOWN])
        offsets = offsets_of([len(numbers) for numbers in more])
        places = np.repeat(incidence.pointer[1:], np.diff(offsets))
        ids = np.insert(incidence.ids, places, np.concatenate([*more, np.zeros(0, np.int32)]))
        return Incidence(incidence.pointer + offsets, ids.astype(np.int32))

    # -- storage -------------------------------------------------------------------------------------------------

    def to_header(self) -> dict[str, Any]:
        """Everything as JSON types; the user's function is not stored."""
        return {
            "places": list(self.places), "min_count": self.min_count, "own": self.own is not None,
            "values": self.values.strings, "names": self.names.strings,
        }  # fmt: skip

    @classmethod
    def from_header(cls, header: Mapping[str, Any], own: Own | None = None) -> SpanAttributes:
        """Rebuild; the user's function must be passed again."""
        if bool(header["own"]) != (own is not None):
            raise ValueError("the function of span features is missing, or one too many")
        attributes = cls(tuple(map(str, header["places"])), int(header["min_count"]), own)
        attributes.values = Vocabulary([str(value) for value in header["values"]], locked=True)
        attributes.names = Vocabulary([str(name) for name in header["names"]], locked=True)
        if not {BOUNDARY, ANYTHING} <= set(attributes.values.strings):
            raise ValueError("the values of span attributes lack the boundary")
        return attributes


# ----------------------------------------------------------------------------------------------------------------------
# Classes of words by their form, as a hint to their part of speech: nested, from the most specific to all words.
#
# Each class is a string; the classes of a word are a list, the most specific first, each contained in the next:
#
#     case, digits, hyphen and a suffix of 3, 2, 1 letters;  case, digits and hyphen;  anything
#
# as in ``<lower-ing>``, ``<lower-ng>``, ``<lower-g>``, ``<lower>``, ``<word>``. The case also says whether a
# capitalised word begins a sentence and, if so, whether its lower-case form is a known word (Weischedel et al. 1993;
# the Stanford and Berkeley parsers use similar signatures).


ANYTHING = "<word>"
LONGEST_SUFFIX = 3


def word_classes(word: str, first: bool = False, known: Container[str] = ()) -> list[str]:
    """The classes of a word, the most specific first; ``first``: it begins a sentence."""
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
        ending = "-" + word[-2:].lower() if word[:1].isdigit() else ""
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
