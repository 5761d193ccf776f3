"""Text as a bag of words: how often each word, or run of words or characters, occurs in it.

How it is cut is said by a spec:

``words:ngrams=2``                   words, marks such as ``!?``, and pairs of them next to each other
``tokens``                           what stands between white space
``characters:ngrams=4,shortest=2``   runs of two to four characters inside words (with the space at their edges)
``words:lowercase=no``               upper and lower case are told apart
``words:presence``                   1 for what occurs, however often

scikit-learn's analyser does the cutting. The runs that training had make the vocabulary; others count for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from loglinear.errors import DataError, OptionError
from loglinear.options import Option, spec_name, spec_options

PATTERNS = {"words": r"(?u)\w+|[^\w\s]+", "tokens": r"\S+", "characters": None}
OPTIONS = (
    Option("ngrams", 1, "longest run of words, tokens or characters", least=1, most=10, kind=int),
    Option("shortest", 1, "shortest run", least=1, most=10, kind=int),
    Option("lowercase", True, "take upper case for lower case", choices=(False, True)),
    Option("presence", False, "1 for what occurs, however often", choices=(False, True)),
)


@dataclass(frozen=True)
class BagOfWords:
    """A vocabulary, and how text is cut.

    Parameters
    ----------
    spec : str
        How text is cut.
    vocabulary : tuple of str
        The D runs that count, sorted.
    """

    spec: str
    vocabulary: tuple[str, ...]

    @classmethod
    def fit(cls, texts: Sequence[str], spec: str = "words", min_count: int = 1) -> BagOfWords:
        """The vocabulary of training texts; runs that occur fewer than ``min_count`` times are left out."""
        vectoriser = _vectoriser(spec)
        try:
            counts = vectoriser.fit_transform(texts)
        except ValueError:  # scikit-learn's word for it
            raise DataError(f"text={spec!r}: the texts hold nothing to count") from None
        runs = vectoriser.get_feature_names_out()
        kept = np.asarray(counts.sum(axis=0)).ravel() >= min_count
        return cls(spec, tuple(runs[kept].tolist()))

    @cached_property
    def _counter(self) -> Any:
        return _vectoriser(self.spec, self.vocabulary)

    def matrix(self, texts: Sequence[str]) -> sp.csr_matrix:
        """Counts [N, D] of the vocabulary in texts."""
        if not self.vocabulary:
            return sp.csr_matrix((len(texts), 0))
        return sp.csr_matrix(self._counter.transform(texts))

    def to_dict(self) -> dict[str, Any]:
        """For a model file."""
        return {"spec": self.spec, "vocabulary": list(self.vocabulary)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BagOfWords:
        """Inverse of :meth:`to_dict`; a ValueError says what does not fit."""
        spec, vocabulary = str(values["spec"]), tuple(str(word) for word in values["vocabulary"])
        check_text(spec)
        if len(set(vocabulary)) != len(vocabulary):
            raise ValueError("the words are not distinct")
        return cls(spec, vocabulary)


def check_text(spec: str) -> dict[str, Any]:
    """What a spec says; one that makes no sense is refused."""
    name = spec_name(spec)
    if name not in PATTERNS:
        raise OptionError(f"text={spec!r} is not known; there are: {', '.join(PATTERNS)}, as in words:ngrams=2")
    values = {option.name: option.default for option in OPTIONS} | spec_options(spec, OPTIONS, "text")
    if values["shortest"] > values["ngrams"]:
        raise OptionError(f"text={spec!r}: the shortest run is longer than the longest (ngrams={values['ngrams']})")
    return values


def _vectoriser(spec: str, vocabulary: Sequence[str] | None = None) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    values, pattern = check_text(spec), PATTERNS[spec_name(spec)]
    return CountVectorizer(
        analyzer="char_wb" if pattern is None else "word", ngram_range=(values["shortest"], values["ngrams"]),
        lowercase=values["lowercase"], binary=values["presence"], token_pattern=pattern, vocabulary=vocabulary,
        dtype=np.float64,
    )  # fmt: skip
