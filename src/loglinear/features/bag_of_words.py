"""Text as a bag of words: how often each word, or run of words or characters, occurs in it.

How it is cut is said by a spec:

``words:ngrams=2``          words and pairs of words next to each other
``characters:ngrams=4``     runs of one to four characters inside words (with the space at their edges)
``words:case``              upper and lower case are told apart
``words:binary``            1 for what occurs, however often

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

WAYS = {"words": "word", "characters": "char_wb"}
OPTIONS = (
    Option("ngrams", 1, "longest run of words or characters", least=1, most=8, kind=int),
    Option("case", False, "tell upper and lower case apart", choices=(False, True)),
    Option("binary", False, "1 for what occurs, however often", choices=(False, True)),
)
WORD = r"(?u)\w+|[^\w\s]+"  # also single letters and marks such as !?


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
        """The vocabulary of training texts; runs in fewer than ``min_count`` of them are left out."""
        vectoriser = _vectoriser(spec)
        try:
            counts = vectoriser.fit_transform(texts)
        except ValueError:  # scikit-learn's word for it
            raise DataError("the texts hold no words at all") from None
        runs = vectoriser.get_feature_names_out()
        kept = np.asarray((counts > 0).sum(axis=0)).ravel() >= min_count
        return cls(spec, tuple(runs[kept].tolist()))

    @cached_property
    def _counter(self) -> Any:
        return _vectoriser(self.spec, self.vocabulary)

    def matrix(self, texts: Sequence[str]) -> sp.csr_matrix:
        """Counts [N, D] of the vocabulary in texts."""
        if not self.vocabulary:
            return sp.csr_matrix((len(texts), 0))
        return sp.csr_matrix(self._counter.transform(texts), dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """For a model file."""
        return {"spec": self.spec, "vocabulary": list(self.vocabulary)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BagOfWords:
        """Inverse of :meth:`to_dict`; a ValueError says what does not fit."""
        check_text_spec(str(values["spec"]))
        return cls(str(values["spec"]), tuple(str(word) for word in values["vocabulary"]))


def check_text_spec(spec: str) -> None:
    """Refuse a spec that says nothing."""
    _settings(spec)


def _settings(spec: str) -> tuple[str, dict[str, Any]]:
    name = spec_name(spec)
    if name not in WAYS:
        raise OptionError(f"text={spec!r} is not known; there are {', '.join(WAYS)}, as in words:ngrams=2")
    defaults = {option.name: option.default for option in OPTIONS}
    return WAYS[name], defaults | spec_options(spec, OPTIONS, "text")


def _vectoriser(spec: str, vocabulary: Sequence[str] | None = None) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    analyser, values = _settings(spec)
    return CountVectorizer(
        analyzer=analyser, ngram_range=(1, values["ngrams"]), lowercase=not values["case"], binary=values["binary"],
        token_pattern=WORD if analyser == "word" else None, vocabulary=vocabulary,
    )  # fmt: skip
