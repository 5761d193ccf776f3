"""Taggers from parts of the data: hidden Markov models, counted or by EM, and M-estimation.

Where all labels are known, counts are all that there is to a model (``criterion="hmm"``). Where some are hidden, the
first summaries give the model that EM starts from, the one that ``fit`` starts from without further starts, and every
round after that is a summary of each part under the model so far and the most probable model given these,

    for _ in range(rounds):
        tagger.from_summaries([tagger.summarize(X, y) for X, y in parts])

The first occurrence of each value in all the data counts as the unknown value, in EM as well, so that a part must be
known again: the start remembers a digest of every part, and which values occur there first. One start differs from
that of ``fit``: a set of labels that turns out to be that of all labels counts for each of them in the start, as a
part cannot tell that nothing is known there.

M-estimation reads its data once, too, but counts are not enough: its loss (1/n) sum_i exp(-w . f_i) needs the features
f_i of each sentence, and what these are is known only with all parts, as the features see first occurrences as unknown.
A summary therefore holds the sentences, in numbers (:class:`NumberedSentences`): four bytes a token and column, which
is less than the rows f_i of a template with more features a token than columns. ``from_summaries`` needs the memory of
``fit``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from loglinear.arrays import Arrays, Float, Int32, Int64
from loglinear.criteria.criterion import CRITERIA, make_criterion
from loglinear.criteria.hmm import HiddenMarkov
from loglinear.criteria.m_estimation import MEstimation
from loglinear.data.columns.corpus import PYTHON, Column, Columns, offsets_of
from loglinear.errors import DataError, OptionError
from loglinear.estimators.summary import Summary, check_same_size, digest_of, options_of
from loglinear.estimators.tagger.inputs import (
    Annotation,
    annotation_of,
    check_feasible,
    checked_weights,
    constraints_of,
    corpus_of,
    encoder_for,
)
from loglinear.estimators.tagger.model import ChainModel, SequenceModel, TrainingData, penalties_of
from loglinear.estimators.tagger.problem import check_emitted
from loglinear.estimators.tagger.training import HOW_MANY, adapted_start, start_of
from loglinear.features.templates.language import TemplateSet
from loglinear.generative.base import HmmBase
from loglinear.generative.em import EMState
from loglinear.generative.hmm.em import NEGLIGIBLE, Expectation, log_prior, without_negligible
from loglinear.generative.hmm.model import HiddenMarkovModel, possible_steps
from loglinear.generative.hmm.summary import ExpectedSequences, SequenceCounts, digest_of_part, is_settled
from loglinear.model_file import Reader, string_arrays
from loglinear.structures.gold import Gold
from loglinear.system import thread_count
from loglinear.training.plan import refuse_iterating
from loglinear.training.problem import MOST_WEIGHT
from loglinear.training.run import Outcome
from loglinear.wording import how_many

if TYPE_CHECKING:
    from loglinear.estimators.tagger.estimator import Tagger

ANY_LABEL = "\U0010ffff"  # after all others


@dataclass(frozen=True)
class Part:
    """A part of the data, as far as it can be read without a model.

    Parameters
    ----------
    corpus : Columns
    annotation : Annotation
    columns : list of int
        The columns that are emitted.
    weights : float64 [S] or None
    label_column : int or None
        That of the corpus; None if the labels were given apart.
    """

    corpus: Columns
    annotation: Annotation
    columns: list[int]
    weights: Float | None
    label_column: int | None

    @classmethod
    def of(cls, tagger: Tagger, X: Any, y: Any, sample_weight: Any, label_column: int, partial: bool) -> Part:
        """Read what the user hands over; arguments as for ``Tagger.fit``."""
        what = f"criterion={tagger.criterion!r}"
        check_emitted(X, what)
        corpus = corpus_of(X, as_rows=True, empty=True)
        if not isinstance(corpus, Columns) or corpus.dense is not None or tagger.vectors is not None:
            raise OptionError(f"{what} models the tokens themselves and cannot take dense features")
        if y is None and not partial and tagger.finds_labels:
            annotation, own = Annotation.unknown(corpus.n_tokens), None
        else:
            annotation = annotation_of(corpus, y, label_column, partial, HOW_MANY)
            own = label_column % corpus.n_columns if y is None else None
        weights = checked_weights(corpus, sample_weight)
        columns = [c for c in range(corpus.n_columns) if c != own]
        if not columns:
            raise OptionError(f"{corpus.name}: there is no column but the labels for a base model to emit")
        return cls(corpus, annotation, columns, weights, own)

    def counts(self, tagger: Tagger) -> SequenceCounts:
        """The counts of the part, which say nothing of a model."""
        offsets, labels = self.corpus.offsets, sorted(self.annotation.label_names())
        gold = self.annotation.gold([*labels, ANY_LABEL])
        times = np.ones(len(offsets) - 1) if self.weights is None else self.weights
        if labels and is_settled(gold, offsets, times):
            self._check_feasible(tagger, labels)
        return SequenceCounts.of(self.corpus, self.columns, gold, labels, tagger.order, self.weights)

    def numbered(self) -> NumberedSentences:
        """The part itself in numbers; labels that were given apart are its last column."""
        if not self.annotation.settled.all():
            message = "summaries of m-estimation need one label for each token; fit takes hidden ones"
            raise self.annotation.place(int(np.argmin(self.annotation.settled)), message)
        columns = list(self.corpus.columns)
        if self.label_column is None:
            names = [next(iter(each or [""])) for each in self.annotation.possible]
            columns.append(Column(self.annotation.ids, names))
        own = [column_of(column) for column in columns]
        place = len(own) - 1 if self.label_column is None else self.label_column
        return NumberedSentences(own, self.corpus.offsets, place, self.weights, self.corpus.names)

    def _check_feasible(self, tagger: Tagger, labels: list[str]) -> None:
        """Refuse labels that the constraints rule out; these may name labels that other parts have."""
        constraints = constraints_of(tagger.constraints, labels)
        if constraints is not None:
            every = sorted({*labels, *constraints.named})
            check_feasible(self.corpus, self.annotation.gold(every), penalties_of(constraints, every), self.corpus)

    def expected(self, tagger: Tagger, model: ChainModel) -> ExpectedSequences:
        """The E step of a model for the part."""
        vocabulary, hmm = model.hmm_base.vocabulary, model.hmm_base.model
        if list(vocabulary.columns) != self.columns:
            raise DataError("the columns of this part are not those of the model", self.corpus.name)
        gold = self.annotation.gold(model.labels)
        check_feasible(self.corpus, gold, model.penalties, self.corpus)
        fields = vocabulary.fields(vocabulary.transform(self.corpus))
        em: PartsOfEM | None = tagger._parts_of_em
        if em is not None:
            labels = sorted(self.annotation.label_names())
            blank = self.annotation.gold([*labels, ANY_LABEL])
            digest = digest_of_part(self.corpus, self.columns, blank, labels, self.weights)
            fields = em.with_unknown(fields, digest, [len(values) - 1 for values in vocabulary.values])
        data = Expectation(
            fields, [table.shape[1] for table in hmm.emissions], self.corpus.offsets, gold, hmm.n_labels, hmm.order,
            weights=self.weights, n_threads=thread_count(tagger.threads),
        )  # fmt: skip
        found = data(hmm)
        return ExpectedSequences(found.counts, found.log_likelihood, data.least_weight)


def column_of(column: Column) -> Column:
    """The column without values that do not occur, such as those of the whole that it was taken from."""
    used = np.flatnonzero(np.bincount(column.ids, minlength=len(column.values)))
    number = np.zeros(len(column.values), dtype=np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    return Column(number[column.ids], [column.values[i] for i in used.tolist()])


@dataclass(frozen=True)
class NumberedSentences:
    """The sentences of a part with their labels, as columns in numbers.

    Parameters
    ----------
    columns : list of Column
    offsets : int64 [S + 1]
    label_column : int
        The column that holds the labels.
    weights : float64 [S] or None
    names : list of str or None
        Of the columns, as the file had them.
    """

    kind: ClassVar[str] = "numbered sentences"
    columns: list[Column]
    offsets: Int64
    label_column: int
    weights: Float | None
    names: list[str] | None

    def __add__(self, other: NumberedSentences) -> NumberedSentences:
        """The sentences of this part followed by another."""
        if (len(self.columns), self.label_column, self.names) != (len(other.columns), other.label_column, other.names):
            mine, theirs = (how_many(len(each.columns), "column") for each in (self, other))
            raise DataError(f"a part has {mine}, another one {theirs}, or other names; all parts need the same")
        columns = []
        for first, then in zip(self.columns, other.columns, strict=True):
            number = {value: v for v, value in enumerate(first.values)}
            places = np.array([number.setdefault(value, len(number)) for value in then.values], dtype=np.int32)
            columns.append(Column(np.concatenate([first.ids, places[then.ids]]), list(number)))
        weights = None
        if self.weights is not None or other.weights is not None:
            each = (np.ones(len(s.offsets) - 1) if s.weights is None else s.weights for s in (self, other))
            weights = np.concatenate(list(each))
        offsets = np.concatenate([self.offsets, other.offsets[1:] + self.offsets[-1]])
        return replace(self, columns=columns, offsets=offsets, weights=weights)

    @property
    def corpus(self) -> Columns:
        """The sentences as a corpus."""
        n = int(self.offsets[-1])
        return Columns(PYTHON, self.offsets, np.zeros(n, dtype=np.int64), self.columns, names=self.names)

    # -- as data -----------------------------------------------------------------------------------------------------

    def to_storage(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays of a file."""
        arrays: Arrays = {"offsets": self.offsets} | ({} if self.weights is None else {"weights": self.weights})
        for c, column in enumerate(self.columns):
            arrays |= {f"{c}.ids": column.ids, **string_arrays(f"{c}.strings", column.values)}
        return {"n_columns": len(self.columns), "label_column": self.label_column, "names": self.names}, arrays

    @classmethod
    def from_storage(cls, read: Reader) -> NumberedSentences:
        """What :meth:`to_storage` described."""
        n_columns = read.integer("n_columns", 2, len(read.arrays))
        offsets = read.array("offsets", (np.int64,), (None,)).copy()
        if len(offsets) < 2 or offsets[0] != 0 or (np.diff(offsets) < 1).any():
            read.fail("offsets", "not those of sentences")
        columns = []
        for c in range(n_columns):
            values = read.strings(f"{c}.strings", distinct=True)
            columns.append(Column(read.ints(f"{c}.ids", (int(offsets[-1]),), len(values)), values))
        weights = read.floats("weights", (len(offsets) - 1,), 0.0, MOST_WEIGHT) if "weights" in read.arrays else None
        names = read.names("names", least=n_columns) if read.has("names") else None
        return cls(columns, offsets, read.integer("label_column", 0, n_columns - 1), weights, names)


@dataclass
class PartsOfEM:
    """EM over parts that has begun: where values occur first, and how the objective went.

    Parameters
    ----------
    parts : list of str
        The digests of the parts.
    homes : list of int32 [V]
        For each emitted column, the part that each of its known values occurs in first.
    log_likelihoods, objectives : list of float
        Of the model that each round began with.
    """

    parts: list[str]
    homes: list[Int32]
    log_likelihoods: list[float] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, counts: SequenceCounts) -> PartsOfEM:
        """At the start."""
        if len(set(counts.parts)) < len(counts.parts):
            raise DataError(
                "two parts are the same, and the first occurrences of their values cannot be told apart; put them "
                "into one part"
            )
        return cls(counts.parts, [each.homes[each.known] for each in counts.fields])

    def with_unknown(self, fields: list[Int32], digest: str, unknown: list[int]) -> list[Int32]:
        """A part's values [N] of each column, with first occurrences made unknown."""
        if digest not in self.parts:
            raise DataError(
                "this part is none of those that the start of EM was made from; give the same parts in each round, or "
                "begin again with a new estimator"
            )
        part, found = self.parts.index(digest), []
        for values, homes, last in zip(fields, self.homes, unknown, strict=True):
            first = np.full(last + 1, -1, dtype=np.int64)
            first[values[::-1]] = np.arange(len(values), dtype=np.int64)[::-1]
            begun = first[:-1][(homes == part) & (first[:-1] >= 0)]
            replaced = values.copy()
            replaced[begun] = last
            found.append(replaced)
        return found


# -- from parts to summaries, and from these to models -----------------------------------------------------------------


def summary_of(tagger: Tagger, part: Part) -> Summary:
    """The counts of a part; in the middle of EM those expected under the tagger's model."""
    if CRITERIA.part(tagger.criterion) is MEstimation:
        return Summary(tagger.kind, options_of(tagger), part.numbered())
    if tagger._parts_of_em is None:
        return Summary(tagger.kind, options_of(tagger), part.counts(tagger))
    model = tagger._fitted()
    assert isinstance(model, ChainModel)
    return Summary(tagger.kind, options_of(tagger), part.expected(tagger, model), digest_of_model(model))


def digest_of_model(model: ChainModel) -> str:
    """What tells a hidden Markov tagger from another one."""
    base = model.hmm_base
    return digest_of(base.model.parameters, [model.labels, base.vocabulary.values])


def estimated(tagger: Tagger, summary: Summary, init: SequenceModel | None = None) -> tuple[ChainModel, Outcome]:
    """The model of all parts; EM starts from the model ``init``, if there is one."""
    if isinstance(summary.counts, ExpectedSequences):
        if init is not None:
            raise OptionError("init: EM has begun; it is for the first summaries, which are made without a model")
        return _maximised(tagger, summary.counts, summary.model)
    counts: SequenceCounts = summary.counts
    wanted = dict(CRITERIA.spec(tagger.criterion).values).get("labels")
    if wanted is not None:
        if counts.labels:
            raise OptionError(f"labels={wanted} asks for labels to be found, but a part has some; leave it out")
        counts = counts.over([str(y) for y in range(wanted)])
    if not counts.labels:
        raise DataError(f"no token has a label to learn from{HOW_MANY}")
    model = untrained(tagger, counts)
    if not counts.settled:
        return _started(tagger, counts, model, init)
    refuse_iterating("hmm", "is counted in one go where all labels are known", init=init)
    return counted(tagger, counts, model)


def untrained(tagger: Tagger, counts: SequenceCounts) -> ChainModel:
    """The tagger's model of the labels and values that were counted, with even probabilities."""
    nothing = Columns("", offsets_of([]), np.zeros(0, dtype=np.int64), [])
    encoder = encoder_for(nothing, TemplateSet.parse("B\n"), (), False, None)
    gold = Gold(np.zeros(0, dtype=np.int32))
    data = TrainingData(tagger, nothing, encoder, gold, counts.labels, "none", False, None)
    model, _, _ = ChainModel.collect(data)
    even = replace(counts.counts, steps=0.0 * counts.counts.steps)
    return replace(model, base=HmmBase("hmm", counts.vocabulary, HiddenMarkovModel.estimated(even)))


def counted(tagger: Tagger, counts: SequenceCounts, model: ChainModel) -> tuple[ChainModel, Outcome]:
    """The model of parts whose labels are all known."""
    tagger._parts_of_em = None
    began, how, events = time.perf_counter(), _criterion(tagger), counts.counts
    hmm = HiddenMarkovModel.estimated(events, how.smoothing, how.transition_smoothing, possible_of(model))
    log_p = hmm.log_p(events)
    objective = log_p + log_prior(hmm, how.smoothing, how.transition_smoothing)
    state = EMState(hmm.parameters, evaluations=1, log_likelihoods=[log_p], objectives=[objective])
    message = "counted: there are no weights to learn"
    seconds = time.perf_counter() - began
    return _with(model, hmm), Outcome([hmm.parameters], state.value, 0, 0, True, message, seconds, state=state)


def _started(
    tagger: Tagger, counts: SequenceCounts, model: ChainModel, init: SequenceModel | None
) -> tuple[ChainModel, Outcome]:
    """The model that EM starts from."""
    em, events = PartsOfEM.of(counts), counts.counts
    occurrences = [each.seen for each in counts.fields]
    hmm = start_of(events, occurrences, possible_of(model), tagger.seed)
    begun = "what is known of the labels" if any(table.any() for table in events.emissions) else "random probabilities"
    if init is not None:
        hmm, begun = adapted_start(hmm, model, init, possible_of(model)), "the given model"
    tagger._parts_of_em = em
    message = f"the start of EM, from {begun}: summarize the {how_many(len(em.parts), 'part')} with it for a round"
    return _with(model, hmm), Outcome(
        [hmm.parameters], np.nan, 0, 0, False, message, 0.0, state=EMState(hmm.parameters)
    )


def _maximised(tagger: Tagger, found: ExpectedSequences, digest: str) -> tuple[ChainModel, Outcome]:
    """The model after a round of EM."""
    model = tagger._fitted()
    if not isinstance(model, ChainModel) or digest_of_model(model) != digest:
        raise OptionError("the summaries were made with another model than this one; make them again with this one")
    for table, own in zip(found.counts.emissions, model.hmm_base.model.emissions, strict=True):
        check_same_size(own, table)
    check_same_size(model.hmm_base.model.steps, found.counts.steps)
    how, em = _criterion(tagger), tagger._parts_of_em or PartsOfEM([], [])
    prior = log_prior(model.hmm_base.model, how.smoothing, how.transition_smoothing)
    em.log_likelihoods.append(found.log_likelihood)
    em.objectives.append(found.log_likelihood + prior)
    counts = without_negligible(found.counts, NEGLIGIBLE * found.least_weight)
    hmm = HiddenMarkovModel.estimated(counts, how.smoothing, how.transition_smoothing, possible_of(model))
    state = EMState(
        hmm.parameters, iteration=len(em.objectives), evaluations=len(em.objectives),
        log_likelihoods=list(em.log_likelihoods), objectives=list(em.objectives),
    )  # fmt: skip
    last = em.objectives[-2:]
    converged = len(last) == 2 and last[1] - last[0] <= how.tolerance * abs(last[1])
    n = len(em.objectives)
    message = f"{'converged' if converged else 'not yet converged'} after {how_many(n, 'round')} over parts"
    return _with(model, hmm), Outcome([hmm.parameters], state.value, n, n, converged, message, 0.0, state=state)


def possible_of(model: ChainModel) -> Any:
    """The steps that the model's constraints allow."""
    penalties, hmm = model.penalties, model.hmm_base.model
    transitions, starts, ends = map(np.isfinite, (penalties.transition, penalties.start, penalties.stop))
    return possible_steps(transitions, starts, ends, hmm.order)


def _with(model: ChainModel, hmm: HiddenMarkovModel) -> ChainModel:
    return replace(model, base=replace(model.hmm_base, model=hmm))


def _criterion(tagger: Tagger) -> HiddenMarkov:
    criterion = make_criterion(tagger.criterion)
    assert isinstance(criterion, HiddenMarkov)
    return criterion
