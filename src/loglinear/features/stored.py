"""Corpora that have their encoding already, so that training need not encode them again, or that are elsewhere."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from loglinear.data.columns.corpus import Attributes, Columns
from loglinear.features.encoding import EncodedCorpus


@dataclass(frozen=True)
class Encoding:
    """How a corpus was encoded, and what came of it.

    Parameters
    ----------
    made_by : str
        :func:`recipe_of` the encoder before it was fitted.
    encoder
        Afterwards: it knows the attributes of the corpus.
    encoded : EncodedCorpus
    """

    made_by: str
    encoder: Any
    encoded: EncodedCorpus


@dataclass(eq=False)
class EncodedColumns(Columns):
    """Token rows that have been encoded already.

    Attributes
    ----------
    encoding : Encoding
    """

    encoding: Encoding | None = field(default=None, kw_only=True)


class ElsewhereColumns(Columns, ABC):
    """Token rows that are not in this process, which has their sentences' lengths, their labels and all values."""

    @abstractmethod
    def fitted(self, encoder: Any, min_count: int) -> tuple[Any, EncodedCorpus]:
        """An encoder that knows the attributes of the corpus, and the corpus in numbers, which are elsewhere, too."""

    @abstractmethod
    def check(self, options: Any, **keywords: Any) -> None:
        """Refuse what cannot be trained there: an estimator's ``options``, and ``keywords`` of its fit."""

    @abstractmethod
    def summaries(self, estimator: Any, sample_weight: Any, label_column: int, partial: bool) -> Iterable[Any]:
        """What the parts contribute to a model of counts (``estimator.summarize``), in their order."""


def recipe_of(encoder: Any, min_count: int) -> str:
    """A digest of all that the encoding of a corpus depends on besides the corpus."""
    header = {"kind": encoder.kind, **encoder.to_header(), "min_count": min_count}
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def fitted(encoder: Any, corpus: Columns | Attributes, min_count: int, n_threads: int) -> tuple[Any, EncodedCorpus]:
    """An encoder that knows the attributes of a training corpus, and the corpus in numbers."""
    if isinstance(corpus, ElsewhereColumns):
        return corpus.fitted(encoder, min_count)
    encoding = corpus.encoding if isinstance(corpus, EncodedColumns) else None
    if encoding is not None and encoding.made_by == recipe_of(encoder, min_count):
        return encoding.encoder, encoding.encoded
    return encoder, encoder.fit(corpus, min_count, n_threads)
