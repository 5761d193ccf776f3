"""Attributes that come with names: Python features and CRFsuite attribute files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import Attributes
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.features.vocabulary import UNKNOWN, Vocabulary


class NameEncoder:
    """Encodes corpora whose tokens carry named attributes.

    Parameters
    ----------
    pair_features : bool
        Join the attributes with label pairs as well as with labels.
    """

    kind = "names"

    def __init__(self, pair_features: bool = False) -> None:
        self.pair_features = pair_features
        self.vocabulary = Vocabulary()

    def fit(self, corpus: Attributes, min_count: int = 1, n_threads: int = 1) -> EncodedCorpus:
        """Collect the attributes of a training corpus, lock, and return its encoding; one thread is enough.

        Attributes that occur fewer than ``min_count`` times (and so those that never occur) are left out.
        """
        counts = np.bincount(corpus.ids, minlength=len(corpus.values))
        kept = counts >= max(1, min_count)
        self.vocabulary = Vocabulary([corpus.values[i] for i in np.flatnonzero(kept).tolist()], locked=True)
        return self._encoded(corpus, np.where(kept, np.cumsum(kept) - 1, UNKNOWN).astype(np.int32))

    def transform(self, corpus: Attributes, n_threads: int = 1) -> EncodedCorpus:
        """Encode a corpus with the attributes known from training; others are left out. One thread does it."""
        return self._encoded(corpus, self.vocabulary.ids(corpus.values))

    def _encoded(self, corpus: Attributes, new_ids: npt.NDArray[np.int32]) -> EncodedCorpus:
        state = Incidence(corpus.pointer, corpus.ids, corpus.weights).rename(new_ids)
        return EncodedCorpus(corpus.offsets, state, state if self.pair_features else None)

    @property
    def n_attributes(self) -> int:
        return len(self.vocabulary)

    def names(self) -> list[str]:
        """All attributes' names."""
        return self.vocabulary.strings

    def matching(self, other: NameEncoder) -> npt.NDArray[np.int32]:
        """For each of ``other``'s attributes, the number of the same attribute here, or -1."""
        return self.vocabulary.ids(other.vocabulary.strings)

    def keeping(self, kept: npt.NDArray[np.bool_]) -> NameEncoder:
        """An encoder of the attributes where ``kept``, numbered anew in the same order."""
        encoder = NameEncoder(self.pair_features)
        encoder.vocabulary = Vocabulary([self.vocabulary[i] for i in np.flatnonzero(kept).tolist()], locked=True)
        return encoder

    def to_header(self) -> dict[str, Any]:
        return {"pair_features": self.pair_features}

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {}

    @property
    def strings(self) -> list[str]:
        """The strings a model file stores beside the arrays."""
        return self.vocabulary.strings

    @classmethod
    def from_storage(
        cls, header: dict[str, Any], arrays: Mapping[str, npt.NDArray[Any]], strings: list[str]
    ) -> NameEncoder:
        """Rebuild from what :meth:`to_header`, :meth:`to_arrays` and :attr:`strings` gave."""
        encoder = cls(bool(header["pair_features"]))
        encoder.vocabulary = Vocabulary(strings, locked=True)
        return encoder
