"""From a training problem to weights: where training starts, in which phases it goes, and how it is watched.

A :class:`Plan` says what is to be done, for weights (:func:`plan_weights`) or for the probabilities of a hidden Markov
model by EM (:func:`plan_em`); :func:`carry_out` does it, with dev data, checkpoints and signals.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from loglinear.arrays import Float, Int64
from loglinear.criteria.criterion import CRITERIA, CostCriterion, Criterion
from loglinear.criteria.hmm import HiddenMarkov
from loglinear.data.columns.corpus import Columns
from loglinear.errors import OptionError
from loglinear.estimators.tagger.inputs import Annotation
from loglinear.estimators.tagger.model import ChainModel
from loglinear.features.templates.encoder import TemplateEncoder, TemplateTable
from loglinear.generative.base import HmmBase
from loglinear.generative.hmm.em import EM, EMState, Expectation, known_counts, perturbed, random_start, start_from
from loglinear.generative.hmm.model import Counts, HiddenMarkovModel, OpenVocabulary, number_of_states, possible_steps
from loglinear.generative.m_estimation import sentence_counts
from loglinear.optimizers.dual.chain import why_not_dual
from loglinear.optimizers.optimizer import Optimizer
from loglinear.options import spec_name
from loglinear.structures.chain.features import ChainFeatures
from loglinear.training.checkpoint import Checkpoint, kept_before
from loglinear.training.plan import MAIN, Phase, phases_of, run_phases
from loglinear.training.run import Training, TrainingInterrupted, TrainingOutcome, catching_signals

if TYPE_CHECKING:
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.estimators.tagger.problem import Problem
    from loglinear.training.dev import DevData


@dataclass(frozen=True)
class Plan:
    """What is to be trained, from where, and in which phases.

    Parameters
    ----------
    problem : Problem
    criterion : Criterion
    trained : ChainModel or HmmInTraining
        The model whose weights are sought.
    start : float64 [D]
        The weights to start from.
    phases : list of Phase
    starts_from : str or None
        Name of the criterion whose model it starts from.
    score_start : bool
        Whether the start, too, may prove to be the best on the dev data.
    """

    problem: Problem
    criterion: Criterion
    trained: ChainModel | HmmInTraining
    start: Float
    phases: list[Phase]
    starts_from: str | None = None
    score_start: bool = False

    @property
    def same_data(self) -> list[Any]:
        """All numbers that a training that goes on must share with the one that was interrupted."""
        arrays: list[Any] = [*self.problem.arrays(), self.start]
        if isinstance(self.criterion, CostCriterion):
            arrays.append(self.criterion.cost.table)
        return arrays


def plan_em(problem: Problem, criterion: HiddenMarkov, data: Expectation, seed: int, with_dev: bool) -> Plan:
    """Probabilities of a hidden Markov model by EM."""
    phase, start = em_phase(problem, criterion, data, seed, with_dev)
    return Plan(problem, criterion, HmmInTraining(problem.model), start, [phase], score_start=True)


def default_optimizer(problem: Problem, criterion: Criterion, l2: float, from_zero: bool) -> str:
    """The first of the criterion's optimizers that applies."""
    for name in criterion.optimizers:
        if name != "dual" or (from_zero and why_not_dual(criterion, problem.model.features, problem.gold, l2) is None):
            return name
    raise AssertionError(f"{criterion.name} has no optimizer that always applies")


def plan_weights(
    problem: Problem,
    criterion: Criterion,
    optimizer: Callable[[str], Optimizer],
    l2: float,
    init: ChainModel | None,
    *,
    keep: int | None,
    seed: int,
    n_threads: int,
) -> Plan:
    """Weights by ``criterion``, from the model ``init`` (with ``keep``, its features that say most alone) or zero.

    ``optimizer`` makes one, given the name of that which is the default.
    """
    problem, start = starting(problem, init, seed, keep, n_threads)
    first = problem.criterion(criterion.starts_from) if criterion.starts_from and init is None else None
    own = optimizer(default_optimizer(problem, criterion, l2, init is None and first is None))
    opening = own if first is None else optimizer(default_optimizer(problem, first, l2, True))
    phases = phases_of(problem, criterion, own, first, opening, l2, n_threads)
    name = None if first is None else first.name
    return Plan(problem, criterion, problem.model, start, phases, name, score_start=init is not None)


def carry_out(
    plan: Plan,
    training: Callable[..., Training],
    dev: DevData | None,
    checkpoint: Checkpoint | None,
    resume: bool,
    n_threads: int,
) -> tuple[ChainModel, TrainingOutcome]:
    """The model, whose weights are the outcome's, and how it came about; ``training`` makes each phase's."""
    if dev is not None:
        training = functools.partial(training, dev_score=dev.score)
    resumed = kept_before(checkpoint, resume)
    training = functools.partial(training, checkpoint=checkpoint)
    model = plan.problem.model
    with catching_signals() as stop:  # what comes between the phases' own watches
        outcome = run_phases(plan.phases, training, plan.start, resumed, plan.score_start, stop)
        if plan.criterion.scaling:
            began = time.perf_counter()
            model = replace(model, scaling=plan.problem.scaling(outcome.weights, n_threads))
            outcome = replace(outcome, seconds=outcome.seconds + time.perf_counter() - began)
        if stop.is_set():
            written = checkpoint is not None and checkpoint.path.exists()
            raise TrainingInterrupted(outcome.iterations, str(checkpoint.path) if checkpoint and written else None)
    if isinstance(plan.trained, HmmInTraining):
        model = plan.trained.with_weights(outcome.weights)
        outcome = replace(outcome, weights=model.weights)
    return model, outcome


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


def starting(
    problem: Problem, other: ChainModel | None, seed: int, keep: int | None = None, n_threads: int = 1
) -> tuple[Problem, Float]:
    """The problem and the weights [D] that training starts from.

    ``other`` is the model to start from, if any; with ``keep``, only so many features are left, those that say most in
    it: |weight| sqrt(how often it occurs). The weight alone would favour what was seen once, its count what says
    nothing.
    """
    start = _start_weights(problem.model, other, seed)
    if keep is None or keep >= len(start):
        return problem, start
    labels = problem.gold.labels if problem.gold.allowed is None else problem.completed(start, n_threads)
    counts = sentence_counts(problem.model.features, problem.encoded, labels)
    times = np.asarray(abs(counts).sum(axis=0), dtype=np.float64).ravel()
    kept = np.zeros(len(start), dtype=bool)
    kept[np.argsort(-np.abs(start) * np.sqrt(times), kind="stable")[:keep]] = True
    model = problem.model.keeping(kept)
    return replace(problem, model=model, encoded=model.encode(problem.corpus)), start[kept]


def _start_weights(model: ChainModel, other: ChainModel | None, seed: int) -> Float:
    start = model.weights
    if other is not None:
        start = model.weights_from(other)
        if isinstance(other.base, HmmBase) and model.base is None:
            start = start + _base_as_weights(model, other, other.base)
    if model.sub_labels > 1 and (other is None or other.sub_labels == 1):  # sub-labels that start alike stay alike
        start = start + np.random.default_rng([seed, 2]).normal(scale=SUB_LABEL_NOISE, size=len(start))
    return start


def _base_as_weights(model: ChainModel, other: ChainModel, base: HmmBase) -> Float:
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
#
# To the training loop the model's probabilities are its weights (:class:`HmmInTraining`), so that dev data, checkpoints
# and resuming work as for any other tagger.

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


@dataclass(frozen=True)
class HmmInTraining:
    """A hidden Markov tagger whose weights are its probabilities."""

    model: ChainModel

    @property
    def labels(self) -> list[str]:
        """The model's labels."""
        return self.model.labels

    def with_weights(self, weights: Float) -> ChainModel:
        """The tagger with these probabilities [P]."""
        base = self.model.hmm_base
        return replace(self.model, base=replace(base, model=base.model.with_parameters(weights)))


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


def check_use(criterion: HiddenMarkov, data: Expectation, with_init: bool, with_dev: bool) -> None:
    """Refuse dev data and a model to start from where they are of no use."""
    if with_init:
        raise OptionError("criterion='hmm' has no use for a model to start from; it has no weights")
    if with_dev and data.settled:
        raise OptionError(
            "criterion='hmm' is counted in one go where all labels are known; it has no use for dev data to stop by"
        )
    if with_dev and criterion.labels is not None:
        raise OptionError(f"labels={criterion.labels}: the labels found in unlabelled data are not those of dev data")
    if with_dev and criterion.restarts:
        raise OptionError(
            f"restarts={criterion.restarts}: with dev data the best round of one start is chosen; give one of both"
        )


def counted(trained: HmmInTraining, data: Expectation) -> tuple[ChainModel, TrainingOutcome]:
    """The tagger of data whose labels are all known: its counts say it all."""
    began = time.perf_counter()
    hmm = data.maximised(data.known)
    state = EMState(hmm.parameters)
    state.note(data(hmm))
    message, seconds = "counted: there are no weights to learn", time.perf_counter() - began
    outcome = TrainingOutcome(trained.model.weights, state.value, 0, 0, True, message, seconds, None, state=state)
    return trained.with_weights(hmm.parameters), outcome


def em_phase(
    problem: Problem, criterion: HiddenMarkov, data: Expectation, seed: int, with_dev: bool
) -> tuple[Phase, Float]:
    """EM as the one phase of a training, and the probabilities [P] it starts from."""
    gold, n_states = problem.gold, _hmm(problem).n_labels
    assert gold.allowed is not None
    known = bool((gold.allowed == 0).any()) or n_states == 1
    further = criterion.restarts
    if further is None:
        further = 0 if known or with_dev else FURTHER_STARTS
    start = _starts(problem, data, seed, known)
    optimizer = EM(start, 1 + further, criterion.rounds, criterion.tolerance)
    objective: Any = data  # to the optimizer it is an objective, to others not
    return Phase(MAIN, optimizer, lambda weights, kept: (objective, {})), start(0).parameters


def found_by_em(problem: Problem, criterion: HiddenMarkov, seed: int, n_threads: int) -> HmmBase:
    """The hidden Markov model of data whose labels are hidden, in one go."""
    data = expectation_of(problem, criterion, n_threads)
    phase, start = em_phase(problem, criterion, data, seed, with_dev=False)
    objective: Any = data
    found = phase.optimizer.minimise(objective, start)
    return HmmInTraining(problem.model).with_weights(found.weights).hmm_base


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
