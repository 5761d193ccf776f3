"""From texts with spans to tokens with labels: the one converter that every format goes through.

A span becomes a label for each of its tokens, spelt in a scheme (Ramshaw & Marcus 1995; Ratinov & Roth 2009)::

    text       Anna Berg lives in Oslo           scheme   single  first  inner  last
    spans      |---PER-|          |LOC|          bio      B       B      I      I
    bio        B-PER I-PER O   O  B-LOC          bioes    S       B      I      E
    bioes      B-PER E-PER O   O  S-LOC          bilou    U       B      I      L
                                                 iob1     I       I      I      I   (B right after the same type)

What a labelling cannot say is an error, unless :class:`Rules` ask for the nearest it can: borders inside a token,
overlaps, gaps. The way back, from labels to spans, is :mod:`loglinear.evaluation.spans`.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from loglinear.arrays import Int64
from loglinear.data.columns.corpus import Column, Columns, offsets_of
from loglinear.data.spans.text import Span, Text, TextFile, notice
from loglinear.data.spans.tokens import is_blank, token_offsets
from loglinear.errors import DataError, OptionError

OUTSIDE = "O"
SPELLING = {"bio": "BBII", "bioes": "SBIE", "bilou": "UBIL", "iob1": "IIII"}  # single, first, inner, last
BORDERS, OVERLAPS, GAPS = ("refuse", "snap"), ("refuse", "outermost"), ("refuse", "fill", "split")
SENTENCES = ("auto", "texts", "lines")
_BY_LINES = ("brat",)  # whose texts are whole documents


@dataclass(frozen=True)
class Rules:
    """How spans become labels, and what is done about those that labels cannot express.

    Parameters
    ----------
    scheme : {"bio", "bioes", "bilou", "iob1"}
    borders : {"refuse", "snap"}
        A span that begins or ends inside a token: an error, or widened to whole tokens.
    overlaps : {"refuse", "outermost"}
        Spans that share tokens: an error, or the outermost (of two that cross, the first).
    gaps : {"refuse", "fill", "split"}
        Discontinuous spans: an error, one span from first to last token, or a span a piece.
    sentences : {"auto", "texts", "lines"}
        What a sequence is: a text, or a line of it (more, where a span goes on). ``auto``: lines for brat.
    """

    scheme: str = "bio"
    borders: str = "refuse"
    overlaps: str = "refuse"
    gaps: str = "refuse"
    sentences: str = "auto"

    def __post_init__(self) -> None:
        allowed = {
            "scheme": tuple(SPELLING), "borders": BORDERS, "overlaps": OVERLAPS, "gaps": GAPS, "sentences": SENTENCES,
        }  # fmt: skip
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise OptionError(f"{name}={getattr(self, name)!r} must be one of {', '.join(values)}")


@dataclass(frozen=True)
class TextTokens:
    """Which characters of which text the tokens of a corpus are, for writing it back.

    Attributes
    ----------
    file : TextFile
    of_sentence : int64 [S]
        The text that each sequence comes from.
    begins, ends : int64 [N]
        The characters of each token in its text.
    """

    file: TextFile
    of_sentence: Int64
    begins: Int64
    ends: Int64

    def error(self, message: str, sentence: int) -> DataError:
        """A :class:`DataError` that names the text of a sequence."""
        return self.file.texts[int(self.of_sentence[sentence])].error(message)


TokenSpan = tuple[int, int, str]


def corpus_of_texts(
    file: TextFile, rules: Rules | None = None, labels: bool = True, open_label: str | None = None
) -> Columns:
    """Texts as a corpus: the tokens, and with ``labels`` a column of labels if any text has spans.

    If there are labels, texts that the annotator has rejected or that nobody has annotated are passed over, or have the
    ``open_label`` throughout; texts without tokens are always passed over. A warning says what was, and which spans
    were changed.
    """
    rules = rules or Rules()
    by_lines = rules.sentences == "lines" or (rules.sentences == "auto" and file.format in _BY_LINES)
    words, tags = list[str](), list[str]()
    begins, ends, lengths, of_sentence, lines = list[int](), list[int](), list[int](), list[int](), list[int]()
    labels = labels and any(text.spans is not None for text in file.texts)
    changes, left_out = list[str](), Counter(file.left_out)
    for number, text in enumerate(file.texts):
        is_open = text.passed_over or text.spans is None
        if labels and is_open and open_label is None:
            left_out["unannotated text"] += not text.passed_over
            continue
        tokens = text_tokens(text)
        if not tokens:
            if labels and text.spans:
                raise text.error(f"{text.shown(text.spans[0])} is in a text without tokens")
            left_out["empty text"] += 1
            continue
        spans: list[TokenSpan] = []
        if labels and open_label is not None and is_open:
            tags += [open_label] * len(tokens)
        elif labels:
            spans = token_spans(text, tokens, rules, changes)
            tags += spelt(len(tokens), spans, rules.scheme)
        borders = _line_borders(text.text, tokens, spans) if by_lines else [len(tokens)]
        lengths += [end - begin for begin, end in pairwise([0, *borders])]
        of_sentence += [number] * len(borders)
        lines += [text.line] * len(tokens)
        words += [text.text[begin:end] for begin, end in tokens]
        begins += [begin for begin, _ in tokens]
        ends += [end for _, end in tokens]
    if not words:
        raise DataError("the file holds no tokens" + (" of annotated texts" if labels else ""), file.name)
    for message in (notice(file.name, left_out), _summary(file.name, changes)):
        if message:
            warnings.warn(message, UserWarning, stacklevel=2)
    columns = [Column.from_strings(words)]
    if labels:
        columns.append(Column.from_strings(tags))
    origin = TextTokens(file, np.array(of_sentence, dtype=np.int64), _numbers(begins), _numbers(ends))
    without = None if labels else file.texts[of_sentence[0]].line
    return Columns(
        file.name, offsets_of(lengths), _numbers(lines), columns, unlabelled=without, format=file.format, origin=origin
    )


def _numbers(values: list[int]) -> Int64:
    return np.array(values, dtype=np.int64)


def _summary(name: str, changes: list[str]) -> str:
    if not changes:
        return ""
    more = f"; and {len(changes) - 3:,} more" if len(changes) > 3 else ""
    return f"{name}: {'; '.join(changes[:3])}{more}"


def text_tokens(text: Text) -> list[tuple[int, int]]:
    """The tokens of a text: those that the file gives, else :func:`token_offsets`; never blanks alone."""
    if text.tokens is None:
        return token_offsets(text.text)
    return [(begin, end) for begin, end in text.tokens if not is_blank(text.text[begin:end])]


def _line_borders(text: str, tokens: Sequence[tuple[int, int]], spans: Sequence[TokenSpan]) -> list[int]:
    """The tokens before which a line ends, but for those inside a span; and the number of tokens."""
    inside = {t for first, end, _ in spans for t in range(first + 1, end)}
    borders = [
        t
        for t in range(1, len(tokens))
        if t not in inside and any(c in text[tokens[t - 1][1] : tokens[t][0]] for c in "\n\r\u2028\u2029")
    ]
    return [*borders, len(tokens)]


def token_spans(
    text: Text, tokens: Sequence[tuple[int, int]], rules: Rules | None = None, changes: list[str] | None = None
) -> list[TokenSpan]:
    """The spans of a text as (first token, token after the last, label), ascending and apart.

    ``changes`` gets a sentence for each span that the rules change.
    """
    rules, changes = rules or Rules(), [] if changes is None else changes
    begins, ends = [begin for begin, _ in tokens], [end for _, end in tokens]
    found = list[tuple[int, int, Span]]()
    for span in text.spans or ():
        for part in _whole(text, span, rules, changes):
            first, end = bisect_right(ends, part.start), bisect_left(begins, part.end)
            if first >= end:
                _refuse_or(rules.borders == "snap", text, span, "covers no token", "left out", "borders snap", changes)
            else:
                if begins[first] != part.start or ends[end - 1] != part.end:
                    where = f"{begins[first]}-{ends[end - 1]}"
                    wrong = f"does not begin and end with a token; the nearest whole tokens are {where}"
                    _refuse_or(rules.borders == "snap", text, span, wrong, f"now {where}", "borders snap", changes)
                found.append((first, end, span))
    found.sort(key=lambda each: (each[0], -each[1]))
    kept = list[tuple[int, int, Span]]()
    for first, end, span in found:
        if kept and first < kept[-1][1]:
            wrong = f"shares tokens with {text.shown(kept[-1][2])}; a token has one label"
            _refuse_or(rules.overlaps == "outermost", text, span, wrong, "left out", "overlaps outermost", changes)
        else:
            kept.append((first, end, span))
    return [(first, end, span.label) for first, end, span in kept]


def _whole(text: Text, span: Span, rules: Rules, changes: list[str]) -> Iterable[Span]:
    """A span as spans without gaps."""
    if not span.pieces:
        return [span]
    wanted = rules.gaps != "refuse"
    done = "filled" if rules.gaps == "fill" else "split"
    _refuse_or(wanted, text, span, "is in several pieces", done, "gaps fill, or --gaps split", changes)
    if rules.gaps == "fill":
        return [span]
    return [replace(span, start=start, end=end, pieces=()) for start, end in span.pieces]


def _refuse_or(wanted: bool, text: Text, span: Span, wrong: str, done: str, remedy: str, changes: list[str]) -> None:
    """Note what is done about a span that labels cannot express or, unless that is wanted, refuse it."""
    if not wanted:
        raise text.error(f"{text.shown(span)} {wrong}; correct it, or read with --{remedy}")
    place = f"line {text.line}: " if text.line else text.where
    changes.append(f"{place}{text.shown(span)} {wrong.partition(';')[0]}: {done}")


def spelt(n_tokens: int, spans: Iterable[TokenSpan], scheme: str = "bio") -> list[str]:
    """Token labels of spans that are apart and ascend."""
    single, first, inner, last = tuple(SPELLING[scheme])
    labels, before = [OUTSIDE] * n_tokens, (-1, "")
    for begin, end, label in spans:
        labels[begin:end] = [f"{inner}-{label}"] * (end - begin)
        labels[end - 1] = f"{last}-{label}"
        labels[begin] = f"{single if end - begin == 1 else first}-{label}"
        if scheme == "iob1" and before == (begin, label):
            labels[begin] = f"B-{label}"
        before = end, label
    return labels


def texts_of(corpus: Columns, format: str) -> TextFile:
    """The texts that a corpus was read from; for one of token rows, each sentence's words with blanks between them."""
    if isinstance(corpus.origin, TextTokens):
        return corpus.origin.file
    texts = list[Text]()
    words = corpus.column(0).strings() if corpus.columns else []
    for begin, end in zip(corpus.offsets[:-1].tolist(), corpus.offsets[1:].tolist(), strict=True):
        ends = np.cumsum([len(word) + 1 for word in words[begin:end]]).tolist()
        tokens = [(after - 1 - len(word), after - 1) for word, after in zip(words[begin:end], ends, strict=True)]
        line = int(corpus.lines[begin])
        texts.append(Text(" ".join(words[begin:end]), None, tokens, corpus.name, line))
    return TextFile(corpus.name, format, texts)


def token_places(corpus: Columns, file: TextFile) -> TextTokens:
    """Where the tokens of a corpus are in the texts that :func:`texts_of` gives."""
    if isinstance(corpus.origin, TextTokens):
        return corpus.origin
    places = np.array([place for text in file.texts for place in text.tokens or ()], dtype=np.int64).reshape(-1, 2)
    return TextTokens(file, np.arange(len(file), dtype=np.int64), places[:, 0], places[:, 1])


def with_spans(
    corpus: Columns, format: str, starts: Int64, ends: Int64, labels: Sequence[str], scores: Any = None
) -> TextFile:
    """The texts of a corpus with other spans.

    Parameters
    ----------
    corpus : Columns
    format : str
        What to call the format of texts made of rows.
    starts, ends : int64 [K]
        The tokens of each span, counted over the corpus; ``ends`` are exclusive.
    labels : sequence of K strings
    scores : float [K], optional
        The probability of each span.
    """
    file = texts_of(corpus, format)
    places = token_places(corpus, file)
    sentence = np.searchsorted(corpus.offsets, starts, side="right") - 1
    spans: list[list[Span]] = [[] for _ in file.texts]
    begins, finishes = places.begins[starts].tolist(), places.ends[np.asarray(ends) - 1].tolist()
    values = [None] * len(labels) if scores is None else [round(float(score), 4) for score in scores]
    for number, begin, end, label, score in zip(
        places.of_sentence[sentence].tolist(), begins, finishes, labels, values, strict=True
    ):
        spans[number].append(Span(begin, end, label, score=score))
    seen = set(places.of_sentence.tolist())
    return file.with_texts(
        replace(text, spans=own if number in seen or not text.passed_over else text.spans)
        for number, (text, own) in enumerate(zip(file.texts, spans, strict=True))
    )
