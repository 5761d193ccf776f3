"""Training a hidden Markov tagger: counted where every label is known, by EM where some are hidden.

To the training loop the model's probabilities are its weights (:class:`HmmInTraining`), so that dev data, checkpoints
and resuming work as for any other tagger.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.criteria.hmm import HiddenMarkov
from loglinear.data.columns import Columns
from loglinear.errors import OptionError
from loglinear.estimators.annotation import Annotation
from loglinear.estimators.chain_model import ChainModel
from loglinear.estimators.phases import MAIN, Phase
from loglinear.estimators.problem import Problem
from loglinear.estimators.training import TrainingOutcome
from loglinear.generative.base import HmmBase
from loglinear.generative.baum_welch import Expectation
from loglinear.generative.em import EM, EMState
from loglinear.generative.em_starts import known_counts, perturbed, random_start, start_from
from loglinear.generative.hmm import Counts, HiddenMarkovModel, number_of_states, possible_steps
from loglinear.generative.open_vocabulary import OpenVocabulary

Float = npt.NDArray[np.float64]
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
