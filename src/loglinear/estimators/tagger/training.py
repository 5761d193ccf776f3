"""A tagger's training: weights by a criterion, or the probabilities of a hidden Markov model by EM.

:class:`ChainTraining` and :class:`HmmTraining` are what :func:`loglinear.training.run.train` is given. To the training
of a hidden Markov model its probabilities are the weights, so that dev data, checkpoints and warm starts work as for
any other tagger.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import clone

from loglinear.arrays import Array, Arrays, Float, Int64
from loglinear.criteria.criterion import CRITERIA, CostCriterion, Criterion
from loglinear.criteria.hmm import HiddenMarkov
from loglinear.criteria.m_estimation import MEstimation
from loglinear.data.columns.corpus import Columns
from loglinear.errors import DataError, OptionError
from loglinear.estimators.tagger import file as tagger_file
from loglinear.estimators.tagger.inputs import Annotation, annotation_of, corpus_of, score_labels
from loglinear.estimators.tagger.model import ChainModel, SequenceModel
from loglinear.features.encoding import EncodedCorpus
from loglinear.features.templates.encoder import TemplateEncoder, TemplateTable
from loglinear.generative.base import HmmBase, OwnBase, is_own
from loglinear.generative.em import EM, EMState
from loglinear.generative.hmm.em import Expectation, known_counts, perturbed, random_start, start_from
from loglinear.generative.hmm.model import Counts, HiddenMarkovModel, OpenVocabulary, number_of_states, possible_steps
from loglinear.optimizers.dual.chain import dual_unsupported_reason
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.optimizers.optimizer import Optimizer
from loglinear.options import spec_name
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.constraints import detect_scheme
from loglinear.structures.gold import Gold
from loglinear.training.plan import first_that_applies, phases_of
from loglinear.training.problem import MAIN, Learnable, Phase, Stage, Storage
from loglinear.training.run import Outcome

if TYPE_CHECKING:
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.estimators.tagger.problem import Problem

OPENING = "opening"
SCALING, SCALING_STEPS = "scaling", 20


@dataclass(frozen=True)
class ChainTraining(Learnable):
    """The training of a chain model's weights.

    Parameters
    ----------
    problem : Problem
    seed, n_threads : int
    metric : {"auto", "f1", "accuracy"}
        What dev data is judged by.
    label_column : int
    partial : bool
        How dev data that is a corpus is read.
    """

    kind: ClassVar[str] = tagger_file.KIND
    problem: Problem
    seed: int = 0
    n_threads: int = 1
    metric: str = "auto"
    label_column: int = -1
    partial: bool = False

    def stages(self, options: Any, init: SequenceModel | None) -> list[Stage]:
        start = start_weights(self.problem.model, init, self.seed)
        phases = phases_of(self, options, self.n_threads, init is None)
        stages = [Stage(lambda done: (start, phases), score_start=init is not None)]
        if self.criterion(options.criterion, options.cost).scaling:
            stages.append(Stage(self._scaling, counts=False))
        return stages

    def _scaling(self, done: Sequence[Float]) -> tuple[Float, list[Phase]]:
        """What to multiply the pieces after each label by [Y + 1], so that the chain as a whole is most likely."""
        objective = self.problem.scaling_objective(done[0], self.n_threads)
        ones = np.ones(self.problem.model.features.n_labels + 1)
        return ones, [Phase(SCALING, LBFGS(max_iter=SCALING_STEPS), lambda start, kept: (objective, {}))]

    def trained_model(self, weights: Sequence[Float]) -> SequenceModel:
        model = self.problem.model.with_weights(weights[0])
        return model if len(weights) == 1 else replace(model, scaling=weights[1])  # type: ignore[call-arg]  # of chains

    def storage(self, weights: Sequence[Float], options: Any, notes: dict[str, Any]) -> Storage:
        return tagger_file.to_storage(self.trained_model(weights), options._stored_options(), notes)

    def arrays(self) -> list[Array | None]:
        return self.problem.arrays()

    def identity(self, options: Any) -> dict[str, Any]:
        criterion = self.criterion(options.criterion, options.cost)
        found: dict[str, Any] = {"labels": self.problem.model.labels}
        if isinstance(criterion, CostCriterion):
            found["costs"] = criterion.cost.table.tolist()
        if is_own(options.base):  # what it says of the training data is among the arrays
            own = OwnBase.of(options.base)
            found["own base"] = (own.name, own.samples, own.smoothing)
        return found

    def dev_data(self, X: Any, y: Any) -> DevSequences:
        model = self.problem.model
        corpus = corpus_of(X, as_rows=isinstance(model.encoder, TemplateEncoder))
        encoded = model.encode(corpus)
        annotation = annotation_of(corpus, y, self.label_column, self.partial)
        if not annotation.label_names() & set(model.labels):
            raise DataError("none of the dev data's labels is a label of the training data", corpus.name)
        metric = self.metric
        if metric == "auto":
            chunks = detect_scheme(model.labels) is not None and annotation.settled.all()
            metric = "f1" if chunks else "accuracy"
        return DevSequences(encoded, annotation, metric, model.labels, self.n_threads)

    def with_model(self, model: SequenceModel) -> ChainTraining:
        """The same of another model of the same labels."""
        return replace(self, problem=replace(self.problem, model=model))

    # -- by a criterion ----------------------------------------------------------------------------------------------

    def criterion(self, spec: str, cost: Any = None) -> Criterion:
        return self.problem.criterion(spec, cost)

    def objective(self, criterion: Criterion, l2: float, n_threads: int) -> Any:
        return self.problem.objective(criterion, l2, n_threads, single_precision=True)

    def default_optimizer(self, criterion: Criterion, l2: float, from_zero: bool) -> str:
        features, gold = self.problem.model.features, self.problem.gold

        def applies(name: str) -> bool:
            return name != "dual" or (from_zero and dual_unsupported_reason(criterion, features, gold, l2) is None)

        return first_that_applies(criterion, applies)

    def own_phases(self, criterion: Criterion, optimizer: Optimizer, l2: float, n_threads: int) -> list[Phase] | None:
        """Those of criteria that look at the model half-way.

        nota:threshold=...   first without wrong contexts, then with those that are probable under the model at that
                             point
        m-estimation         where labels are hidden, rounds, each from the labels most probable under the model at
                             that point
        """
        if isinstance(criterion, MEstimation) and self.problem.gold.allowed is not None:
            return self._rounds(criterion, optimizer, l2)
        if criterion.chooses_after is None:
            return None

        def without_contexts(start: Float, kept: Arrays | None) -> tuple[Any, Arrays]:
            return self.objective(criterion, l2, n_threads), {}

        def with_probable_contexts(start: Float, kept: Arrays | None) -> tuple[Any, Arrays]:
            problem = self.problem
            contexts = problem.contexts_chosen(criterion, start, n_threads) if kept is None else kept["contexts"]
            again = replace(problem, gold=replace(problem.gold, contexts=np.array(contexts)))
            return again.objective(criterion, l2, n_threads), {"contexts": contexts}

        after = min(criterion.chooses_after, optimizer.max_iter)
        beginning, rest = (replace(optimizer, max_iter=n) for n in (after, optimizer.max_iter - after))  # type: ignore[type-var]  # dataclasses
        return [Phase(OPENING, beginning, without_contexts), Phase(MAIN, rest, with_probable_contexts)]

    def _rounds(self, criterion: MEstimation, optimizer: Optimizer, l2: float) -> list[Phase]:
        """A phase for each round of completing the labels and learning from them."""
        problem, made = self.problem, dict[bytes, Any]()  # the last objective, by the labels it is of

        def from_completed_labels(start: Float, kept: Arrays | None) -> tuple[Any, Arrays]:
            labels = problem.completed(start, self.n_threads) if kept is None else np.array(kept["labels"])
            if labels.tobytes() not in made:
                made.clear()
                made[labels.tobytes()] = replace(problem, gold=Gold(labels)).objective(criterion, l2, self.n_threads)
            return made[labels.tobytes()], {"labels": labels}

        names = [*(f"round {i + 1}" for i in range(criterion.rounds - 1)), MAIN]
        return [Phase(name, optimizer, from_completed_labels) for name in names]


@dataclass(frozen=True)
class DevSequences:
    """A labelled corpus as a model in training sees it."""

    encoded: EncodedCorpus
    annotation: Annotation
    metric: str
    labels: list[str]
    n_threads: int

    def score(self, model: SequenceModel) -> float:
        predicted = model.decode(self.encoded, n_threads=self.n_threads)
        return score_labels(self.metric, self.annotation, predicted, model.labels, self.encoded.offsets)

    @property
    def arrays(self) -> list[Array | None]:
        return [*self.encoded.arrays(), self.annotation.known_only(self.labels)]


# ----------------------------------------------------------------------------------------------------------------------
# Where training starts from: zero, another model, or a model of a quicker criterion trained first.
#
# A model p(y given x) ~ q0(x, y) exp(w . f(x, y)) with a generative base q0 is taken over as a whole: where the new
# model has the features to say so, log q0 becomes part of its weights,
#
#     (value v of a column at the position itself, y)     log e(v given y)
#     (y', y)  or  (y'', y', y)                           log t(y given the labels before)
#
# each up to a constant that is the same for all labels, and so changes no probability.

SUB_LABEL_NOISE = 0.1  # standard deviation of the weights that training with sub-labels starts from
OPENING_VARIANCE = 1.0  # of the M-estimate that training starts from; its loss is a mean, whatever the data's size


def opening_tagger(tagger: Tagger, spec: str) -> Tagger:
    """An untrained tagger like this one, but of the criterion ``spec``, whose model it is to start from."""
    criterion = CRITERIA.part(spec)
    if not criterion.learns_weights:
        raise OptionError(
            f"init={spec!r}: {criterion.name} has no weights to start from; m-estimation has it as a base"
        )
    changed: dict[str, Any] = {"criterion": spec, "optimizer": None, "sub_labels": 1, "l1": 0.0, "constraints": None}
    if not criterion.uses_cost:
        changed["cost"] = None
    if criterion.uses_base:
        changed |= {"l2": None, "variance": OPENING_VARIANCE}
    elif criterion.optimizers == ("online",):
        changed |= {"l2": None, "variance": None}
    return clone(tagger).set_params(**changed)


def names_a_criterion(init: Any) -> bool:
    """Whether a start is the name of a criterion rather than a file or a model."""
    return isinstance(init, str | Path) and spec_name(str(init)) in CRITERIA.all() and not Path(init).exists()


def keeping(problem: Problem, other: SequenceModel, seed: int, keep: int, n_threads: int = 1) -> Problem:
    """The problem with ``keep`` features alone, the most informative of the model ``other``.

    These have the greatest |weight| sqrt(how often it occurs). The weight alone would favour what was seen once, the
    count alone what says nothing.
    """
    start = start_weights(problem.model, other, seed)
    if keep >= len(start):
        return problem
    labels = problem.gold.labels if problem.gold.allowed is None else problem.completed(start, n_threads)
    counts = problem.model.counts(problem.encoded, labels)
    times = np.asarray(abs(counts).sum(axis=0), dtype=np.float64).ravel()
    kept = np.zeros(len(start), dtype=bool)
    kept[np.argsort(-np.abs(start) * np.sqrt(times), kind="stable")[:keep]] = True
    model = problem.model.keeping(kept)
    return replace(problem, model=model, encoded=model.encode(problem.corpus))


def start_weights(model: SequenceModel, other: SequenceModel | None, seed: int) -> Float:
    """The weights [D] that training starts from; ``other`` is the model to start from, if any."""
    start = model.weights
    if other is not None:
        start = model.weights_from(other)
        if isinstance(other.base, HmmBase) and model.base is None and isinstance(model, ChainModel):
            start = start + _base_as_weights(model, other, other.base)
    if model.sub_labels > 1 and (other is None or other.sub_labels == 1):  # sub-labels that start alike stay alike
        start = start + np.random.default_rng([seed, 2]).normal(scale=SUB_LABEL_NOISE, size=len(start))
    return start


def _base_as_weights(model: ChainModel, other: SequenceModel, base: HmmBase) -> Float:
    """What the weights [D] of ``model`` are to gain so that it says what ``other``'s base does."""
    gained = np.zeros(model.features.n_features)
    label = {name: y for y, name in enumerate(other.labels)}
    same = np.array([label.get(name, -1) for name in model.labels for _ in range(model.sub_labels)])
    if (same < 0).any() or not isinstance(model.encoder, TemplateEncoder):
        return gained
    for table in model.encoder.tables():
        log_p = _emissions(table, model.encoder, base)
        if log_p is not None:
            _add_to_states(gained, model.features, table.first, log_p[:, same])
    _add_to_ngrams(gained, model.features, base, same)
    return gained


def _emissions(table: TemplateTable, encoder: TemplateEncoder, base: HmmBase) -> Float | None:
    """log p(value given label) [A, Y] of a template that looks at one value at the position itself; None of others."""
    macros = table.template.macros
    if len(macros) != 1 or (macros[0].row, macros[0].function) != (0, "x") or macros[0].absolute or macros[0].lowered:
        return None
    if macros[0].column not in base.vocabulary.columns or not table.in_state:
        return None
    place = base.vocabulary.columns.index(macros[0].column)
    number = {value: v for v, value in enumerate(base.vocabulary.values[place])}
    strings = encoder.values.strings
    values = [number.get(strings[key], len(number) - 1) for key in table.keys[:, 0].tolist()]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(base.model.emissions[place].T)[values])


def _add_to_states(gained: Float, features: ChainFeatures, first: int, log_p: Float) -> None:
    """Add log probabilities [A, Y] of the attributes from ``first`` on to the features that they have.

    Those they have not stay at zero, so the constant is chosen to make that right on average.
    """
    n, y = log_p.shape
    log_p = np.maximum(log_p, np.log(1e-12))
    pointer = features.state.pointer[first : first + n + 1]
    attribute = np.repeat(np.arange(n), np.diff(pointer))
    codes = features.state.codes[pointer[0] : pointer[-1]]
    own = codes < y
    has = np.zeros((n, y), dtype=bool)
    has[attribute[own], codes[own]] = True
    missing = np.where(has.all(axis=1, keepdims=True), True, ~has)
    constant = (log_p * missing).sum(axis=1) / missing.sum(axis=1)
    places = np.arange(pointer[0], pointer[-1])[own]
    gained[places] += log_p[attribute[own], codes[own]] - constant[attribute[own]]


def _add_to_ngrams(gained: Float, features: ChainFeatures, base: HmmBase, same: Int64) -> None:
    """Add log probabilities of the steps to the label n-grams, up to the least of them."""
    _, _, transition, trigram = features.segments
    order, n = base.model.order, base.model.n_labels
    if order == 2 and features.order == 2:
        steps = base.model.steps[:-1].reshape(n + 1, n, n + 1)[:n, :, :n][np.ix_(same, same, same)]
        segment, codes = trigram, features.trigrams
    else:
        visits = base.model.inflow if order == 2 else np.ones(n)
        by_label = (base.model.steps[:-1, :-1] * visits[:, None]).reshape(-1, n, n).sum(axis=0)
        by_label /= np.maximum(by_label.sum(axis=1, keepdims=True), 1e-300)
        steps = by_label[np.ix_(same, same)]
        segment, codes = transition, features.transitions
    log_p = np.log(np.maximum(steps.ravel()[codes], 1e-12))
    if len(log_p):
        gained[segment] += log_p - log_p.min()


# ----------------------------------------------------------------------------------------------------------------------
# Training a hidden Markov tagger: counted where every label is known, by EM where some are hidden.

FURTHER_STARTS = 4  # where no label is known
HOW_MANY = "; if there are none, say how many to find (hmm:labels=10, HMM(labels=10))"


def label_names(annotation: Annotation, n_labels: int | None) -> list[str]:
    """The labels that occur, or names for the ``n_labels`` to be found where none does."""
    known = sorted(annotation.label_names())
    if n_labels is None:
        return known or annotation.label_set(HOW_MANY)
    if known:
        raise OptionError(
            f"labels={n_labels} asks for labels to be found, but the data has some ({', '.join(known[:5])}"
            f"{', ...' if len(known) > 5 else ''}); leave it out"
        )
    return [str(y) for y in range(n_labels)]


def even_base(corpus: Columns, columns: list[int], n_labels: int, order: int) -> tuple[HmmBase, Columns]:
    """A hidden Markov model in which all is as probable, and the corpus with first occurrences made unknown."""
    if not columns:
        raise OptionError(f"{corpus.name}: there is no column but the labels for a base model to emit")
    vocabulary, replaced = OpenVocabulary.fit(corpus, columns)
    counts = Counts(
        order, n_labels, np.zeros((number_of_states(n_labels, order) + 1, n_labels + 1)),
        [np.zeros((n_labels, len(values))) for values in vocabulary.values],
    )  # fmt: skip
    return HmmBase("hmm", vocabulary, HiddenMarkovModel.estimated(counts)), replaced


@dataclass(frozen=True, kw_only=True)
class HmmTraining(ChainTraining):
    """The training of a hidden Markov tagger by EM: its weights are its probabilities [P].

    Parameters
    ----------
    hmm : HiddenMarkov
        The criterion.
    data : Expectation
    with_dev : bool
        Whether dev data chooses the round, in one start unless more are asked for.
    """

    hmm: HiddenMarkov
    data: Expectation
    with_dev: bool

    def stages(self, options: Any, init: SequenceModel | None) -> list[Stage]:
        optimizer = em_of(self.problem, self.hmm, self.data, self.seed, self.with_dev, init)
        phase = Phase(MAIN, optimizer, lambda start, kept: (self.data, {}))
        return [Stage(lambda done: (optimizer.start(0).parameters, [phase]), score_start=True)]

    def trained_model(self, weights: Sequence[Float]) -> ChainModel:
        return with_probabilities(self.problem.model, weights[0])


def with_probabilities(model: SequenceModel, parameters: Float) -> ChainModel:
    """A hidden Markov tagger with other probabilities [P]."""
    assert isinstance(model, ChainModel)
    base = model.hmm_base
    return replace(model, base=replace(base, model=base.model.with_parameters(parameters)))


def expectation_of(problem: Problem, criterion: HiddenMarkov, n_threads: int) -> Expectation:
    """The training data and the prior of a hidden Markov tagger."""
    base, penalties = _hmm(problem), problem.model.penalties
    transitions, starts, ends = map(np.isfinite, (penalties.transition, penalties.start, penalties.stop))
    return Expectation(
        problem.encoded.fields,
        [table.shape[1] for table in base.emissions],
        problem.encoded.offsets,
        problem.gold,
        base.n_labels,
        base.order,
        weights=problem.sequence_weights,
        smoothing=criterion.smoothing,
        transition_smoothing=criterion.transition_smoothing,
        possible=possible_steps(transitions, starts, ends, base.order),
        n_threads=n_threads,
    )


def counted(problem: Problem, data: Expectation) -> tuple[ChainModel, Outcome]:
    """The tagger of data whose labels are all known: its counts say it all."""
    began = time.perf_counter()
    hmm = data.estimated(data.known)
    state = EMState(hmm.parameters)
    state.note(data(hmm))
    model = with_probabilities(problem.model, hmm.parameters)
    message, seconds = "counted: there are no weights to learn", time.perf_counter() - began
    return model, Outcome([hmm.parameters], state.value, 0, 0, True, message, seconds, state=state)


def em_of(
    problem: Problem,
    criterion: HiddenMarkov,
    data: Expectation,
    seed: int,
    with_dev: bool = False,
    init: SequenceModel | None = None,
) -> EM[HiddenMarkovModel]:
    """EM as the criterion asks for: from the model ``init``, what is known of the labels, or at random."""
    gold, n_states = problem.gold, _hmm(problem).n_labels
    assert gold.allowed is not None
    known = bool((gold.allowed == 0).any()) or n_states == 1
    start, further = _starts(problem, data, seed, known), criterion.restarts
    if init is not None:
        other = like(start(0), problem.model, init, data.possible)
        return EM(lambda i: other, 1, criterion.rounds, criterion.tolerance)
    if further is None:
        further = 0 if known or with_dev else FURTHER_STARTS
    return EM(start, 1 + further, criterion.rounds, criterion.tolerance)


def found_by_em(problem: Problem, criterion: HiddenMarkov, seed: int, n_threads: int) -> HmmBase:
    """The hidden Markov model of data whose labels are hidden, in one go."""
    data = expectation_of(problem, criterion, n_threads)
    optimizer = em_of(problem, criterion, data, seed)
    found = optimizer.minimise(data, optimizer.start(0).parameters)
    return with_probabilities(problem.model, found.weights).hmm_base


def like(first: HiddenMarkovModel, mine: SequenceModel, other: SequenceModel, possible: Any) -> HiddenMarkovModel:
    """A start for the tagger ``mine``: the probabilities of ``other`` for labels and values that both have.

    Labels that ``other`` does not have keep what ``first`` says; values that it does not know share what it gives to
    unknown ones.
    """
    if not isinstance(other.base, HmmBase):
        raise OptionError("criterion='hmm' starts from the probabilities of a hidden Markov model, and init is none")
    base, own = other.base, mine.hmm_base
    if (base.model.order, base.vocabulary.columns) != (own.model.order, own.vocabulary.columns):
        raise OptionError("init: a hidden Markov model of another order, or of other columns, has nothing in common")
    number = {state: y for y, state in enumerate(other.states)}
    theirs = np.array([number.get(state, -1) for state in mine.states])
    there, n, m = theirs >= 0, len(theirs), base.model.n_labels
    to, to_there = np.append(theirs, m), np.append(there, True)  # the last is the end, or the beginning
    steps, their_steps = first.steps.copy(), base.model.steps
    rows, their_rows = steps[:-1].reshape(-1, n, n + 1), their_steps[:-1].reshape(-1, m, m + 1)
    second = len(rows) > 1  # order: then states have a label before, or the beginning
    before, their_before = (np.flatnonzero(to_there), to[to_there]) if second else (np.zeros(1, int), np.zeros(1, int))
    rows[np.ix_(before, there, to_there)] = their_rows[np.ix_(their_before, theirs[there], to[to_there])]
    steps[-1, to_there] = their_steps[-1, to[to_there]]
    emissions = []
    vocabularies = zip(
        first.emissions, base.model.emissions, own.vocabulary.values, base.vocabulary.values, strict=True
    )
    for table, their_table, values, their_values in vocabularies:
        place = {value: v for v, value in enumerate(their_values)}
        columns = np.array([place.get(value, len(their_values) - 1) for value in values])
        shares = np.bincount(columns, minlength=len(their_values))[columns]
        emissions.append(table.copy())
        emissions[-1][there] = their_table[np.ix_(theirs[there], columns)] / shares
    counts = Counts(first.order, first.n_labels, steps, emissions)
    return HiddenMarkovModel.estimated(counts, smoothing=0.0, possible=possible)


def _starts(problem: Problem, data: Expectation, seed: int, known: bool) -> Callable[[int], HiddenMarkovModel]:
    """From the number of a start (from 0) to its model."""
    base, fields = _hmm(problem), problem.encoded.fields
    sizes = [table.shape[1] for table in base.emissions]
    first = base
    if known:
        counts = known_counts(
            fields, sizes, problem.encoded.offsets, problem.gold, base.n_labels, base.order, problem.sequence_weights
        )
        occurrences = [np.bincount(f, minlength=size).astype(float) for f, size in zip(fields, sizes, strict=True)]
        first = start_from(counts, occurrences, data.possible)

    def start(i: int) -> HiddenMarkovModel:
        rng = np.random.default_rng([seed, 3, i])
        if not known:
            return random_start(base.n_labels, base.order, sizes, rng, possible=data.possible)
        if i == 0 and problem.model.sub_labels == 1:
            return first
        return perturbed(first, rng, data.possible)  # sub-labels that start alike would stay alike

    return start


def _hmm(problem: Problem) -> HiddenMarkovModel:
    return problem.model.hmm_base.model
