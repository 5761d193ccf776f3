"""From labels of tokens to spans of the text that the tokens come from: the way back of :mod:`loglinear.data.spans`.

Which tokens a span has is decided by conlleval's rules (:func:`loglinear.evaluation.chunks.chunk_spans`), so that every
labelling has spans, and those that ``eval`` counts. Labels that are of no scheme (parts of speech) make a span of each
token. Letters: N tokens, K spans.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loglinear.arrays import Float, Int64
from loglinear.data.columns.corpus import Column, Columns
from loglinear.data.spans.corpus import OUTSIDE, Rules, TokenSpan, spelt, token_spans, with_spans
from loglinear.data.spans.text import Text, TextFile, from_units, span_of
from loglinear.data.spans.tokens import token_offsets
from loglinear.errors import DataError
from loglinear.evaluation.chunks import chunk_spans, has_chunks
from loglinear.wording import how_many

NAMELESS = "chunk"  # the label of a span whose token labels are a prefix alone


def spans_to_labels(
    text: str,
    spans: Sequence[tuple[int, int, str]],
    tokens: Sequence[tuple[int, int]] | None = None,
    *,
    scheme: str = "bio",
    borders: str = "refuse",
    overlaps: str = "refuse",
) -> tuple[list[tuple[int, int]], list[str]]:
    """The tokens of a text, as (begin, end), and a label for each.

    Parameters
    ----------
    text : str
    spans : sequence of (start, end, label)
        In characters; an end is exclusive.
    tokens : sequence of (begin, end), optional
        Those of :func:`~loglinear.data.spans.tokens.token_offsets` if not given.
    scheme, borders, overlaps
        As in :class:`loglinear.data.spans.corpus.Rules`.

    Raises
    ------
    DataError
        For a span that labels cannot express, if the rules do not say what to do about it.

    Examples
    --------
    >>> spans_to_labels("Anna Berg, Oslo", [(0, 9, "PER"), (11, 15, "LOC")])[1]
    ['B-PER', 'I-PER', 'O', 'B-LOC']
    """
    found = list(token_offsets(text) if tokens is None else tokens)
    place = from_units(text, "characters")
    marked = Text(text, [span_of(text, start, end, label, place, DataError) for start, end, label in spans])
    rules = Rules(scheme, borders, overlaps)
    return found, spelt(len(found), token_spans(marked, found, rules), scheme)


def labels_to_spans(tokens: Sequence[tuple[int, int]], labels: Sequence[str]) -> list[tuple[int, int, str]]:
    """The spans (start, end, label) of tokens (begin, end) with a label each, of whichever scheme.

    >>> labels_to_spans([(0, 4), (5, 9), (11, 15)], ["B-PER", "I-PER", "S-LOC"])
    [(0, 9, 'PER'), (11, 15, 'LOC')]
    """
    if len(tokens) != len(labels):
        raise ValueError(f"{how_many(len(tokens), 'token')} but {how_many(len(labels), 'label')}")
    column = Column.from_strings(labels)
    found = label_spans(column, np.array([0, len(labels)], dtype=np.int64))
    return [(tokens[first][0], tokens[end - 1][1], label) for first, end, label in found]


def label_spans(labels: Column, offsets: Int64) -> list[TokenSpan]:
    """The spans of a labelling [N]: first token, token after the last, counted over the corpus, and label."""
    used = [labels.values[number] for number in np.unique(labels.ids).tolist()]
    if not has_chunks(used):
        strings = labels.strings()
        return [(t, t + 1, label) for t, label in enumerate(strings) if label != OUTSIDE]
    starts, ends, _ = chunk_spans((labels.ids, labels.values, offsets))
    first = labels.ids[starts].tolist()
    names = {number: labels.values[number].partition("-")[2] or NAMELESS for number in set(first)}
    return list(zip(starts.tolist(), ends.tolist(), map(names.__getitem__, first), strict=True))


def marked_texts(corpus: Columns, labels: Column, format: str, confidence: Float | None = None) -> TextFile:
    """The texts of a corpus with the spans that ``labels`` [N] spell.

    ``confidence`` [N] is the probability of each label; a span's is that of its least probable token, which the
    probability of the whole span does not exceed.
    """
    found = label_spans(labels, corpus.offsets)
    starts = np.array([first for first, _, _ in found], dtype=np.int64)
    ends = np.array([end for _, end, _ in found], dtype=np.int64)
    scores = None
    if confidence is not None:
        scores = [float(confidence[first:end].min()) for first, end, _ in found]
    return with_spans(corpus, format, starts, ends, [label for _, _, label in found], scores)
