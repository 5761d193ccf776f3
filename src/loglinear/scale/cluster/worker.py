"""What workers do: read pieces, number the attributes of a group of shards, and pass over it.

A *group* is a run of sentences of the corpus, made of whole shards. A process keeps the encodings of its groups, and
the objectives over them, between jobs. They are a cache: a job that does not find what it needs says so (:data:`LOST`),
and is sent again behind a :class:`Setup`, from which any process makes the same.

Attributes have numbers of the group's own, in the order of those of the whole corpus, and so do features. Every
attribute that occurs has all its features, so that scores and gradients are sums of the same numbers in the same order
as on one machine.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loglinear.arrays import Array, Float, Int32, Int64
from loglinear.data import Columns
from loglinear.errors import DataError, InfeasibleError
from loglinear.features.block import observed_pairs
from loglinear.features.templates.encoder import FoundAttributes, TemplateEncoder
from loglinear.features.templates.hashed import HashedTemplateEncoder
from loglinear.optimizers.objective import Cuts, Objective
from loglinear.scale.cluster.source import Piece
from loglinear.structures.gold import Gold

LOST = "lost"
_Key = tuple[str, int]  # of a corpus and a group of it


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contents:
    """What the driver has to know of a piece.

    Parameters
    ----------
    lengths : int32 [S]
    labels : int32 [N]
        Numbers of the values of the label column.
    values : list of lists of str
        The distinct values of each column, in order of first occurrence.
    unlabelled, names, format
        As of :class:`~loglinear.data.Columns`.
    label_column : int
    """

    lengths: Int32
    labels: Int32
    values: list[list[str]]
    unlabelled: int | None
    names: list[str] | None
    format: str
    label_column: int


def read_piece(job: tuple[Piece, int | None]) -> Contents:
    """The contents of a piece whose labels are in a column; None is the one that its reader has found by a name."""
    piece, label_column = job
    corpus = piece.columns().without_empty()
    if label_column is None:
        label_column = piece.label_column
    labels = np.zeros(0, dtype=np.int32)
    if corpus.n_tokens:
        labels = corpus.column(label_column).ids
    values = [column.values for column in corpus.columns] if corpus.n_tokens else []
    lengths = np.diff(corpus.offsets).astype(np.int32)
    return Contents(lengths, np.asarray(labels), values, corpus.unlabelled, corpus.names, corpus.format, label_column)


def summarize(job: tuple[Piece, Float | None], how: tuple[Any, int, bool]) -> Any:
    """What a piece, with weights of its sentences, contributes to the counts of an estimator."""
    (piece, weights), (estimator, label_column, partial) = job, how
    corpus = piece.columns().without_empty()
    return estimator.summarize(corpus, None, weights, label_column=label_column, partial=partial)


@dataclass(frozen=True)
class Place:
    """A position of a piece, and what is wrong there."""

    piece: Piece
    position: int
    message: str


def error_at(job: Place) -> Exception:
    """The error of a position, with its file and line."""
    corpus = job.piece.columns().without_empty()
    make = getattr(job.piece, "error_at", None)
    return corpus.error(job.message, job.position) if make is None else make(corpus, job.message, job.position)


# -- attributes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """A group of shards.

    Parameters
    ----------
    corpus : str
        Which corpus.
    number : int
        Which group of it.
    first : int
        Number of its first sentence.
    parts : list of (int, Piece, int, int)
        Pieces with their number, and the first and the end of their sentences.
    runs : list of (int, int)
        Its part of the runs in which the whole corpus is encoded: number of the run, end in sentences of the group.
    n_tokens : int
    """

    corpus: str
    number: int
    first: int
    parts: list[tuple[int, Piece, int, int]]
    runs: list[tuple[int, int]]
    n_tokens: int

    @property
    def key(self) -> _Key:
        """What it is kept under."""
        return self.corpus, self.number

    @property
    def bounds(self) -> tuple[int, int]:
        """Its first sentence and its end, in sentences of the corpus."""
        return self.first, self.first + self.runs[-1][1]

    @property
    def name(self) -> str:
        """What messages call it: the part that it begins with."""
        _, piece, first, _ = self.parts[0]
        return f"{piece.name} (from sentence {first + 1:,} on)" if first else piece.name

    def columns(self) -> Columns:
        """The sentences of the group."""
        corpora = []
        for number, piece, first, end in self.parts:
            corpus = _sentences_of(piece, (self.corpus, number))
            if end > corpus.n_sentences:
                raise self.changed()
            whole = (first, end) == (0, corpus.n_sentences)
            corpora.append(corpus if whole else corpus.select(np.arange(first, end)))
        found = corpora[0] if len(corpora) == 1 else Columns.concatenated(corpora, corpora[0].name)
        if found.n_tokens != self.n_tokens:
            raise self.changed()
        return found

    def changed(self) -> DataError:
        """The error of a part that is read again and holds something else: that would be another model."""
        return DataError("it has changed since training began; train again", self.name)


_last: tuple[_Key, Columns] | None = None


def _sentences_of(piece: Piece, key: _Key) -> Columns:
    """The sentences of a piece; those of the last one are kept, since a file that is not cut has several groups."""
    global _last
    last = _last
    if last is None or last[0] != key:
        last = _last = (key, piece.columns().without_empty())
    return last[1]


@dataclass(frozen=True)
class Found:
    """The attributes of a group.

    Parameters
    ----------
    keys : list of int32 [A_g, M_g]
        Of each set of templates with the same literal text, the attributes as tuples of numbers of values, in order of
        first occurrence; of an encoder into buckets, the buckets, ascending, alone.
    segments : list of lists of (int, int, int)
        Where those were found first: number of the run, of the template in its set, and how many.
    counts : int64 [A] or None
        How often each of all these occurs, if that matters.
    """

    keys: list[Int32]
    segments: list[list[tuple[int, int, int]]]
    counts: Int64 | None


@dataclass
class State:
    """What a process keeps of a group."""

    found: FoundAttributes | None = None  # until it is encoded
    encoded: Any = None  # an EncodedCorpus, or rows
    objective: tuple[str, Objective] | None = None
    member: tuple[str, Any] | None = None  # of a training in rounds, by its name


_states: dict[_Key, State] = {}


def find_attributes(job: tuple[Span, bool], encoder: TemplateEncoder) -> Found:
    """The attributes of a group, given an encoder that knows all values of the corpus; with their counts, if asked."""
    span, with_counts = job
    ends = [end for _, end in span.runs]
    own = encoder.found_in(span.columns(), list(zip([0, *ends[:-1]], ends, strict=True)))
    _states[span.key] = State(own)
    if isinstance(encoder, HashedTemplateEncoder):
        used = np.flatnonzero(own.blocks.counts(own.firsts, own.n_attributes)).astype(np.int32)
        return Found([used[:, None]], [], None)
    counts = own.blocks.counts(own.firsts, own.n_attributes) if with_counts else None
    first = span.runs[0][0]
    segments = [[(first + run, place, n) for run, place, n in each] for each in own.segments]
    return Found([group.used.copy() for group in own.groups], segments, counts)


# -- setting up --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Losses:
    """What an objective over a group is made of; features, annotation and weights are the group's own."""

    name: str
    features: Any
    gold: Gold
    criterion: Any
    penalties: Any
    sequence_weights: Float | None
    cuts: Cuts
    single_precision: bool


@dataclass(frozen=True)
class Setup:
    """What makes a process able to pass over a group.

    Parameters
    ----------
    span : Span
    numbers : int32
        The group's own number of each attribute that :func:`find_attributes` found, -1 if it is left out.
    losses : Losses or None
    expected : str or None
        The digest that the encoding had before.
    """

    span: Span
    numbers: Int32
    losses: Losses | None = None
    expected: str | None = None


def set_up(job: Setup, encoder: TemplateEncoder) -> str:
    """Encode a group, and make its objective; a digest of the encoding."""
    global _last
    state, _last = _states.get(job.span.key), None
    if state is None or state.encoded is None:
        if state is None or state.found is None:
            find_attributes((job.span, False), encoder)
            state = _states[job.span.key]
        assert state.found is not None
        if len(job.numbers) != state.found.n_attributes:
            raise job.span.changed()
        encoded = state.found.blocks.encoded(*encoder.scopes(), state.found.firsts, job.numbers)
        state.encoded, state.found = encoder.scoped(encoded), None
    return arm(state, job.span, job.losses, state.encoded.arrays(), job.expected)


def kept(key: _Key) -> State:
    """What this process keeps of a group, from now on at least."""
    return _states.setdefault(key, State())


def arm(state: State, span: Span, losses: Losses | None, arrays: Sequence[Array | None], expected: str | None) -> str:
    """Have the objective of a group that has been read: the digest of its arrays, which must be as ``expected``."""
    found = digest(arrays)
    if expected is not None and found != expected:
        forget(span.key)
        raise span.changed()
    if losses is not None and (state.objective is None or state.objective[0] != losses.name):
        objective = Objective(
            losses.features, state.encoded, losses.gold, losses.criterion, losses.penalties, 0.0,
            losses.sequence_weights, 1, losses.single_precision, cuts=losses.cuts,
        )  # fmt: skip
        state.objective, state.member = (losses.name, objective), None
    return found


def digest(arrays: Sequence[Array | None]) -> str:
    """SHA-256 of arrays."""
    sha256 = hashlib.sha256()
    for array in arrays:
        sha256.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
    return sha256.hexdigest()


def state_of(key: _Key, losses: str) -> State | None:
    """What is kept of a group, if it has the objective of that name."""
    state = _states.get(key)
    return None if state is None or state.objective is None or state.objective[0] != losses else state


def forget(job: _Key) -> None:
    """Free what is kept of a group."""
    _states.pop(job, None)


# -- passes ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Observe:
    """Which pairs of attribute and code occur together; codes as :func:`~loglinear.features.block.observed_pairs`."""

    span_key: _Key
    edge: bool
    n_attributes: int
    code_pointer: Int64
    codes: Int32
    n_codes: int


def observe(job: Observe) -> tuple[Int64, Int32] | str:
    """Distinct codes of each of the group's attributes: a pointer and the codes."""
    state = _states.get(job.span_key)
    if state is None or state.encoded is None:
        return LOST
    incidence = state.encoded.edge if job.edge else state.encoded.state
    assert incidence is not None
    return observed_pairs(incidence.pointer, incidence.ids, job.n_attributes, job.code_pointer, job.codes, job.n_codes)


@dataclass(frozen=True)
class Pass:
    """A pass over a group.

    Parameters
    ----------
    span_key, first, losses
        Which group, its first sentence, and the name of its objective.
    kind : str
        ``single`` precision, ``double``, ``value`` in single precision, or ``totals``.
    weights : float64 or float32
        Those of the group's features.
    totals : float64 or None
        Of a criterion of the corpus as a whole.
    """

    span_key: _Key
    first: int
    losses: str
    kind: str
    weights: Array
    totals: Float | None = None


def pass_over(job: Pass) -> Any:
    """Seconds, and what the shards of a group give, one after the other: None if single precision is not used."""
    began, state = time.perf_counter(), state_of(job.span_key, job.losses)
    if state is None or state.objective is None:
        return LOST
    objective, weights = state.objective[1], np.asarray(job.weights)
    try:
        found: Any
        if job.kind == "single":
            found = objective.single_parts(weights)
        elif job.kind == "value":
            found = objective.single_values(weights)
        elif job.kind == "totals":
            found = objective.double_totals(weights)
        else:
            found = [(value, gradient.copy()) for value, gradient in objective.double_parts(weights, job.totals)]
        return time.perf_counter() - began, found
    except InfeasibleError as error:
        raise InfeasibleError(job.first + error.sequence, error.hint) from None
