"""A tagger's training: weights by a criterion, or the probabilities of a hidden Markov model by EM.

:class:`TaggerTraining` and :class:`HmmTraining` are what :func:`loglinear.training.run.train` is given. To the training
of a hidden Markov model its probabilities are the weights, so that dev data, checkpoints and warm starts work as for
any other tagger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from loglinear.arrays import Array, Arrays, Float, Int64
from loglinear.criteria.criterion import CRITERIA, CostCriterion, Criterion
from loglinear.criteria.hmm import HiddenMarkov
from loglinear.criteria.m_estimation import MEstimation
from loglinear.data.columns.corpus import Columns
from loglinear.errors import DataError, OptionError
from loglinear.estimators.conventions import clone
from loglinear.estimators.tagger import file as tagger_file
from loglinear.estimators.tagger.inputs import Annotation, annotation_of, corpus_of, score_labels
from loglinear.estimators.tagger.model import ChainModel, SequenceModel
from loglinear.features.encoding import EncodedCorpus, EncodedElsewhere
from loglinear.features.templates.encoder import TemplateEncoder, TemplateTable
from loglinear.generative.base import HmmBase, OwnBase, is_own
from loglinear.generative.em import EM
from loglinear.generative.hmm.em import Expectation, known_counts, perturbed, random_start, start_from
from loglinear.generative.hmm.model import Counts, HiddenMarkovModel, OpenVocabulary, number_of_states, possible_steps
from loglinear.optimizers.dual.chain import dual_unsupported_reason, has_planes, rounds_unsupported_reason
from loglinear.optimizers.dual.general import DualOptions
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.optimizers.optimizer import Optimizer
from loglinear.options import spec_name
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.constraints import detect_scheme
from loglinear.structures.gold import Gold
from loglinear.training.plan import first_that_applies, phases_of
from loglinear.training.problem import MAIN, Learnable, Phase, Stage, Storage

if TYPE_CHECKING:
    from loglinear.estimators.options import Probable
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.estimators.tagger.problem import Problem
    from loglinear.generative.m_estimation import Expected

OPENING, OBSERVED = "opening", "observed"
SCALING, SCALING_STEPS = "scaling", 20


@dataclass(frozen=True)
class TaggerTraining(Learnable):
    """The training of a tagger's weights by a criterion.

    Parameters
    ----------
    problem : Problem
    seed, n_threads : int
    metric : {"auto", "f1", "accuracy"}
        What dev data is judged by.
    label_column : int
    partial : bool
        How dev data that is a corpus is read.
    probable : Probable or None
        Features that are added on the way.
    """

    kind: ClassVar[str] = tagger_file.KIND
    problem: Problem
    seed: int = 0
    n_threads: int = 1
    metric: str = "auto"
    label_column: int = -1
    partial: bool = False
    probable: Probable | None = None
    _grown: dict[bytes, Problem] = field(default_factory=dict, init=False, repr=False)  # by the opening's weights

    def stages(self, options: Any, init: SequenceModel | None) -> list[Stage]:
        start = start_weights(self.problem.model, init, self.seed)
        phases = phases_of(self, options, self.n_threads, init is None)
        stages = [Stage(lambda done: (start, phases), score_start=init is not None)]
        if self.probable is not None:
            opening, rest = self._opening(phases, self.probable)
            stages = [Stage(lambda done: (start, opening), opens=True)]
            more = copy(options)
            more.max_iter, from_zero = rest, init is None
            second = Stage(lambda done: self._with_probable(more, from_zero, phases[-1], done[0]), score_start=True)
            stages.append(second)
        if self.criterion(options.criterion, options.cost).scaling:
            stages.append(Stage(self._scaling, counts=False))
        return stages

    def _scaling(self, done: Sequence[Float]) -> tuple[Float, list[Phase]]:
        """What to multiply the pieces after each label by [Y + 1], so that the chain as a whole is most likely."""
        problem = self.grown(done[0])
        objective = problem.scaling_objective(done[-1], self.n_threads)
        ones = np.ones(problem.model.features.n_labels + 1)
        return ones, [Phase(SCALING, LBFGS(max_iter=SCALING_STEPS), lambda start, kept: (objective, {}))]

    def trained_model(self, weights: Sequence[Float]) -> SequenceModel:
        own, *scaling = weights
        problem = self.problem
        if self.probable is not None and scaling:
            problem, (own, *scaling) = self.grown(own), scaling
        model = problem.model.with_weights(own)
        return replace(model, scaling=scaling[0]) if scaling else model  # type: ignore[call-arg]  # of chains

    # -- with features that are added on the way ----------------------------------------------------------------------

    def grown(self, weights: Float) -> Problem:
        """The problem with the features that are probable given the ``weights`` [D] of the opening stage."""
        if self.probable is None:
            return self.problem
        key = weights.tobytes()
        if key not in self._grown:
            self._grown.clear()
            self._grown[key] = self.problem.with_probable(weights, self.probable.threshold, self.n_threads)
        return self._grown[key]

    def _opening(self, phases: list[Phase], probable: Probable) -> tuple[list[Phase], int]:
        """The phases cut short after some iterations of the last one, and how many iterations that leaves."""
        *before, main = phases
        rest = probable.rest(main.optimizer.max_iter)
        cut = replace(main, name=OBSERVED, optimizer=replace(main.optimizer, max_iter=probable.after))  # type: ignore[type-var]  # dataclasses
        return [*before, cut], rest

    def _with_probable(self, options: Any, from_zero: bool, main: Phase, weights: Float) -> tuple[Float, list[Phase]]:
        """Weights to go on from after the opening, and the phases of the problem with more features.

        If there are no more, ``main``, the last phase without any, goes on where the opening ended.
        """
        problem, criterion = self.grown(weights), self.criterion(options.criterion, options.cost)
        one_objective = self.own_phases(criterion, main.optimizer, 0.0, self.n_threads) is None
        if one_objective and problem.model.features.n_features == len(weights):
            return weights, [replace(main, continues=True)]
        start = problem.model.weights_from(self.problem.model.with_weights(weights))
        training = replace(self, problem=problem, probable=None)
        phases = phases_of(training, options, self.n_threads, from_zero and not criterion.starts_from)
        return start, [replace(phase, optimizer=_from_anywhere(phase.optimizer)) for phase in phases]

    def storage(self, weights: Sequence[Float], options: Any, notes: dict[str, Any]) -> Storage:
        return tagger_file.to_storage(self.trained_model(weights), options._stored_options(), notes)

    def arrays(self) -> list[Array | None]:
        return self.problem.arrays()

    def identity(self, options: Any) -> dict[str, Any]:
        criterion = self.criterion(options.criterion, options.cost)
        identity: dict[str, Any] = {"labels": self.problem.model.labels}
        if isinstance(criterion, CostCriterion):
            identity["costs"] = criterion.cost.identity()
        if is_own(options.base):  # its probabilities of the training data are among the arrays
            base = OwnBase.of(options.base)
            identity["own base"] = (base.name, base.samples, base.smoothing)
        return identity

    def dev_data(self, X: Any, y: Any) -> DevSequences:
        model = self.problem.model
        corpus = corpus_of(X, as_rows=isinstance(model.encoder, TemplateEncoder), empty=True)
        encoded = model.encode(corpus)
        annotation = annotation_of(corpus, y, self.label_column, self.partial)
        if not annotation.label_names() & set(model.labels):
            raise DataError("none of the dev data's labels is a label of the training data", corpus.name)
        metric = self.metric
        if metric == "auto":
            chunks = detect_scheme(model.labels) is not None and annotation.settled.all()
            metric = "f1" if chunks else "accuracy"
        return DevSequences(encoded, annotation, metric, model.labels, self.n_threads)

    def with_model(self, model: SequenceModel) -> TaggerTraining:
        """The training of another model of the same labels."""
        return replace(self, problem=replace(self.problem, model=model))

    # -- by a criterion ----------------------------------------------------------------------------------------------

    def criterion(self, spec: str, cost: Any = None) -> Criterion:
        return self.problem.criterion(spec, cost)

    def objective(self, criterion: Criterion, l2: float, n_threads: int) -> Any:
        return self.problem.objective(criterion, l2, n_threads, single_precision=True)

    def default_optimizer(self, criterion: Criterion, l2: float, from_zero: bool) -> str:
        features, gold = self.problem.model.features, self.problem.gold

        def applies(name: str) -> bool:
            if name != "dual":
                return True
            if isinstance(self.problem.encoded, EncodedElsewhere):
                penalties = self.problem.model.penalties
                return from_zero and rounds_unsupported_reason(criterion, features, penalties, gold, l2) is None
            starts = from_zero or has_planes(criterion, features)
            return starts and dual_unsupported_reason(criterion, features, gold, l2) is None

        return first_that_applies(criterion, applies)

    def own_phases(self, criterion: Criterion, optimizer: Optimizer, l2: float, n_threads: int) -> list[Phase] | None:
        """Phases of criteria that look at the model half-way.

        nota:threshold=...   first without wrong contexts, then with those that are probable under the model at that
                             point
        m-estimation         where labels are hidden, rounds, each from the labels most probable under the model at
                             that point, or from expected counts
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
        if not rest.max_iter and isinstance(rest, DualOptions):  # which would begin again at zero, and end there
            rest = LBFGS(max_iter=0)
        return [Phase(OPENING, beginning, without_contexts), Phase(MAIN, _from_anywhere(rest), with_probable_contexts)]

    def _rounds(self, criterion: MEstimation, optimizer: Optimizer, l2: float) -> list[Phase]:
        """A phase for each round of completing the labels and learning from them."""
        from loglinear.generative.m_estimation import MEstimationObjective, soft_rounds  # SciPy

        problem, objectives = self.problem, dict[bytes, Any]()  # the last one only, by its labels

        @cache
        def base_counts() -> Float:
            return problem.base_counts(None, self.n_threads)

        def of_expected(found: Expected) -> MEstimationObjective:
            objective = MEstimationObjective(
                found.counts, base_counts(), l2, problem.sequence_weights, log_factors=found.log_factors
            )
            return objective.by(criterion)

        def from_completed_labels(start: Float, kept: Arrays | None) -> tuple[Any, Arrays]:
            labels = problem.completed(start, self.n_threads) if kept is None else np.array(kept["labels"])
            key = labels.tobytes()
            if key not in objectives:
                objectives.clear()
                objectives[key] = replace(problem, gold=Gold(labels)).objective(criterion, l2, self.n_threads)
            return objectives[key], {"labels": labels}

        soft = soft_rounds(lambda start: problem.expected(start, self.n_threads), of_expected)
        names = [*(f"round {i + 1}" for i in range(criterion.rounds - 1)), MAIN]
        return [Phase(name, optimizer, soft if criterion.em == "soft" else from_completed_labels) for name in names]


def _from_anywhere(optimizer: Optimizer) -> Optimizer:
    """The optimizer for any starting weights: dual ascent begins again at zero."""
    return replace(optimizer, from_zero=True) if isinstance(optimizer, DualOptions) else optimizer


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
# model has the features for it, log q0 becomes part of its weights,
#
#     (value v of a column at the position itself, y)     log e(v given y)
#     (y', y)  or  (y'', y', y)                           log t(y given the labels before)
#
# each up to a constant that is the same for all labels, and so changes no probability.

SUB_LABEL_NOISE = 0.1  # standard deviation of the weights that training with sub-labels starts from
OPENING_VARIANCE = 1.0  # of the M-estimate that training starts from; its loss is a mean, whatever the data's size


def opening_tagger(tagger: Tagger, spec: str) -> Tagger:
    """An untrained tagger like this one with the criterion ``spec``; this one is to start from its weights."""
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


def is_criterion_name(init: Any) -> bool:
    """Whether ``init`` is the name of a criterion rather than a file or a model."""
    return isinstance(init, str | Path) and spec_name(str(init)) in CRITERIA.all() and not Path(init).exists()


def keeping(problem: Problem, other: SequenceModel, seed: int, keep: int, n_threads: int = 1) -> Problem:
    """The problem with ``keep`` features only, the most informative of the model ``other``.

    These have the greatest |weight| sqrt(count). The weight alone would favour features seen once, the count alone
    uninformative ones.
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
    """What to add to the weights [D] of ``model`` so that it includes the base of ``other``."""
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
    """log p(value given label) [A, Y] of a template that looks at one value at the position itself, else None."""
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
    """Add log probabilities [A, Y] of the attributes from ``first`` on to their features.

    Pairs without a feature stay at zero, so the constant is chosen to make that right on average.
    """
    n, y = log_p.shape
    log_p = np.maximum(log_p, np.log(1e-12))
    pointer = features.state.pointer[first : first + n + 1]
    attribute = np.repeat(np.arange(n), np.diff(pointer))
    codes = features.state.codes[pointer[0] : pointer[-1]]
    labelled = codes < y
    has = np.zeros((n, y), dtype=bool)
    has[attribute[labelled], codes[labelled]] = True
    missing = np.where(has.all(axis=1, keepdims=True), True, ~has)
    constant = (log_p * missing).sum(axis=1) / missing.sum(axis=1)
    places = np.arange(pointer[0], pointer[-1])[labelled]
    gained[places] += log_p[attribute[labelled], codes[labelled]] - constant[attribute[labelled]]


def _add_to_ngrams(gained: Float, features: ChainFeatures, base: HmmBase, same: Int64) -> None:
    """Add log probabilities of the steps to the label n-grams, up to the least of them."""
    _, _, transition, trigram, _ = features.slices
    order, n = base.model.order, base.model.n_labels
    if order == 2 and features.order > 1:
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
    """A hidden Markov model with even probabilities, and the corpus with first occurrences made unknown."""
    if not columns:
        raise OptionError(f"{corpus.name}: there is no column but the labels for a base model to emit")
    vocabulary, replaced = OpenVocabulary.fit(corpus, columns)
    counts = Counts(
        order, n_labels, np.zeros((number_of_states(n_labels, order) + 1, n_labels + 1)),
        [np.zeros((n_labels, len(values))) for values in vocabulary.values],
    )  # fmt: skip
    return HmmBase("hmm", vocabulary, HiddenMarkovModel.estimated(counts)), replaced


@dataclass(frozen=True, kw_only=True)
class HmmTraining(TaggerTraining):
    """The training of a hidden Markov tagger: its weights are its probabilities [P].

    Parameters
    ----------
    hmm : HiddenMarkov
        The criterion.
    with_dev : bool
        Whether dev data chooses the round, in one start unless more are asked for.
    """

    hmm: HiddenMarkov
    with_dev: bool = False

    @cached_property
    def data(self) -> Expectation:
        """The training data and the prior."""
        problem, untrained, penalties = self.problem, self._untrained, self.problem.model.penalties
        transitions, starts, ends = map(np.isfinite, (penalties.transition, penalties.start, penalties.stop))
        return Expectation(
            problem.encoded.fields,
            [table.shape[1] for table in untrained.emissions],
            problem.encoded.offsets,
            problem.gold,
            untrained.n_labels,
            untrained.order,
            weights=problem.sequence_weights,
            smoothing=self.hmm.smoothing,
            transition_smoothing=self.hmm.transition_smoothing,
            possible=possible_steps(transitions, starts, ends, untrained.order),
            n_threads=self.n_threads,
        )

    @property
    def _untrained(self) -> HiddenMarkovModel:
        return self.problem.model.hmm_base.model

    def stages(self, options: Any, init: SequenceModel | None) -> list[Stage]:
        optimizer = self.em(init)
        phase = Phase(MAIN, optimizer, lambda start, kept: (self.data, {}))
        return [Stage(lambda done: (optimizer.start(0).parameters, [phase]), score_start=True)]

    def trained_model(self, weights: Sequence[Float]) -> ChainModel:
        model = self.problem.model
        assert isinstance(model, ChainModel)
        base = model.hmm_base
        return replace(model, base=replace(base, model=base.model.with_parameters(weights[0])))

    def base_by_em(self) -> HmmBase:
        """The hidden Markov model of data whose labels are hidden, in one go."""
        optimizer = self.em()
        result = optimizer.minimise(self.data, optimizer.start(0).parameters)
        return self.trained_model([result.weights]).hmm_base

    def em(self, init: SequenceModel | None = None) -> EM[HiddenMarkovModel]:
        """EM as the criterion asks for: from the model ``init``, what is known of the labels, or at random."""
        allowed, criterion = self.problem.gold.allowed, self.hmm
        assert allowed is not None
        known = bool((allowed == 0).any()) or self._untrained.n_labels == 1
        start, restarts = self._starts(known), criterion.restarts
        if init is not None:
            adapted = adapted_start(start(0), self.problem.model, init, self.data.possible)
            return EM(lambda i: adapted, 1, criterion.rounds, criterion.tolerance)
        if restarts is None:
            restarts = 0 if known or self.with_dev else FURTHER_STARTS
        return EM(start, 1 + restarts, criterion.rounds, criterion.tolerance)

    def _starts(self, known: bool) -> Callable[[int], HiddenMarkovModel]:
        """From the number of a start (from 0) to its model."""
        problem, first, fields = self.problem, self._untrained, self.problem.encoded.fields
        n_labels, order, possible = first.n_labels, first.order, self.data.possible
        sizes = [table.shape[1] for table in first.emissions]
        if known:
            counts = known_counts(
                fields, sizes, problem.encoded.offsets, problem.gold, n_labels, order, problem.sequence_weights
            )
            occurrences = [np.bincount(f, minlength=size).astype(float) for f, size in zip(fields, sizes, strict=True)]
            first = start_from(counts, occurrences, possible)

        def start(i: int) -> HiddenMarkovModel:
            rng = np.random.default_rng([self.seed, 3, i])
            if not known:
                return random_start(n_labels, order, sizes, rng, possible=possible)
            if i == 0 and problem.model.sub_labels == 1:
                return first
            return perturbed(first, rng, possible)  # sub-labels that start alike would stay alike

        return start


def start_of(counts: Counts, occurrences: Sequence[Float], possible: Any, seed: int) -> HiddenMarkovModel:
    """The first start of EM from counts of the known labels and occurrences of each field's values [V]."""
    if any(table.any() for table in counts.emissions) or counts.n_labels == 1:
        return start_from(counts, occurrences, possible)
    rng, sizes = np.random.default_rng([seed, 3, 0]), [len(each) for each in occurrences]
    return random_start(counts.n_labels, counts.order, sizes, rng, possible=possible)


def adapted_start(
    first: HiddenMarkovModel, mine: SequenceModel, other: SequenceModel, possible: Any
) -> HiddenMarkovModel:
    """A start for the tagger ``mine``: the probabilities of ``other`` for labels and values that both have.

    Labels that ``other`` does not have keep their probabilities in ``first``; values that it does not know share what
    it gives to unknown ones.
    """
    if not isinstance(other.base, HmmBase):
        raise OptionError("criterion='hmm' starts from the probabilities of a hidden Markov model, and init is none")
    theirs, own = other.base, mine.hmm_base
    if (theirs.model.order, theirs.vocabulary.columns) != (own.model.order, own.vocabulary.columns):
        raise OptionError("init: a hidden Markov model of another order, or of other columns, has nothing in common")
    number = {state: y for y, state in enumerate(other.states)}
    state = np.array([number.get(name, -1) for name in mine.states])
    shared, n, m = state >= 0, len(state), theirs.model.n_labels
    to, to_shared = np.append(state, m), np.append(shared, True)  # the last is the end, or the beginning
    steps, their_steps = first.steps.copy(), theirs.model.steps
    rows, their_rows = steps[:-1].reshape(-1, n, n + 1), their_steps[:-1].reshape(-1, m, m + 1)
    before = their_before = np.zeros(1, int)
    if len(rows) > 1:  # of order 2, where states have a label before, or the beginning
        before, their_before = np.flatnonzero(to_shared), to[to_shared]
    rows[np.ix_(before, shared, to_shared)] = their_rows[np.ix_(their_before, state[shared], to[to_shared])]
    steps[-1, to_shared] = their_steps[-1, to[to_shared]]
    emissions = [table.copy() for table in first.emissions]
    for table, their_table, values, their_values in zip(
        emissions, theirs.model.emissions, own.vocabulary.values, theirs.vocabulary.values, strict=True
    ):
        place = {value: v for v, value in enumerate(their_values)}
        columns = np.array([place.get(value, len(their_values) - 1) for value in values])
        shares = np.bincount(columns, minlength=len(their_values))[columns]
        table[shared] = their_table[np.ix_(state[shared], columns)] / shares
    counts = Counts(first.order, first.n_labels, steps, emissions)
    return HiddenMarkovModel.estimated(counts, smoothing=0.0, possible=possible)
