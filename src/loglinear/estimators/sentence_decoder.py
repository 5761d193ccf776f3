"""One sentence at low latency: from a list of tokens to labels without a corpus in between.

A corpus is made to be read by many; its checks and arrays cost more than labelling 25 tokens. Here a sentence is
checked as it is looked up: a string met before has been checked before. Whatever is not a plain list of plain tokens
is left to the general road, which labels it or says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.errors import InfeasibleError
from loglinear.features.encoding import Incidence
from loglinear.features.hashed_encoder import HashedNameEncoder, HashedTemplateEncoder
from loglinear.features.name_encoder import NameEncoder
from loglinear.features.python_features import token_attributes
from loglinear.features.quick_encoder import QuickEncoder
from loglinear.features.template_encoder import TemplateEncoder
from loglinear.structures.chain_decoder import ChainDecoder

Offsets = npt.NDArray[np.int64]


class SentenceDecoder:
    """Best labels of single sentences. Threads may share it.

    Parameters
    ----------
    attributes : callable
        ``attributes(x, offsets)`` gives the attributes of a sentence; it raises TypeError or ValueError, or says None,
        where the sentence is not plain or not right.
    decoder : ChainDecoder
    labels : list of str
        The Y labels; the decoder's states are the sub-labels of each in turn.
    """

    def __init__(
        self, attributes: Callable[[Any, Offsets], Incidence | None], decoder: ChainDecoder, labels: list[str]
    ) -> None:
        self._attributes, self._decoder = attributes, decoder
        self._name = [label for label in labels for _ in range(decoder.n_labels // len(labels))].__getitem__

    @classmethod
    def of(
        cls, encoder: TemplateEncoder | NameEncoder, decoder: ChainDecoder, labels: list[str]
    ) -> SentenceDecoder | None:
        """For a model's parts; None if its encoder needs a whole corpus."""
        if isinstance(encoder, HashedTemplateEncoder | HashedNameEncoder):
            return None
        if isinstance(encoder, NameEncoder):
            return cls(_FeatureSentences(encoder), decoder, labels)
        quick = encoder.quick
        return None if quick is None or not quick.takes_sentences else cls(_RowSentences(quick), decoder, labels)

    def labels_of(self, x: Any) -> list[str] | None:
        """Labels of a sentence; None if the general road has to label it or to refuse it."""
        kind = type(x)
        if (kind is not list and kind is not tuple) or not x:
            return None
        offsets = np.array((0, len(x)), dtype=np.int64)
        try:
            state = self._attributes(x, offsets)
        except (TypeError, ValueError):
            return None
        if state is None:
            return None
        try:
            return list(map(self._name, self._decoder.best(offsets, state).tolist()))
        except InfeasibleError:
            return None


class _RowSentences:
    """Attributes of a sentence of token rows."""

    def __init__(self, quick: QuickEncoder) -> None:
        self._quick = quick

    def __call__(self, x: Any, offsets: Offsets) -> Incidence | None:
        kinds = set(map(type, x))
        if kinds == {str}:
            columns: list[Any] = [x]
        elif kinds <= {tuple, list}:
            columns = list(zip(*x, strict=True))
        else:
            return None
        quick = self._quick
        if len(columns) < quick.n_columns:
            return None
        for number, column in enumerate(columns):  # those that the templates look at are checked when looked up
            if number not in quick.columns and not all(type(value) is str and value.isascii() for value in column):
                return None
        return Incidence(*quick.sentence(columns, offsets))


class _FeatureSentences:
    """Attributes of a sentence whose tokens are lists of strings or dicts."""

    def __init__(self, encoder: NameEncoder) -> None:
        self._number = encoder.vocabulary.id

    def __call__(self, x: Any, offsets: Offsets) -> Incidence | None:
        number, pointer, ids, values = self._number, [0], [], []
        for token in x:
            if type(token) is dict:
                found = [(number(name), value) for name, value in token_attributes(token)]
            elif type(token) is list and set(map(type, token)) <= {str}:
                found = [(known, 1.0) for known in map(number, token)]
            else:
                return None
            ids += [known for known, _ in found if known >= 0]
            values += [value for known, value in found if known >= 0]
            pointer.append(len(ids))
        weights = None if values.count(1.0) == len(values) else np.array(values, dtype=np.float64)
        return Incidence(np.array(pointer, dtype=np.int64), np.array(ids, dtype=np.int32), weights)
