"""From labelled sequences and CRFsuite's parameters to a model: what each of its algorithms is here.

    lbfgs                 sum of log Z - s(y*) + c1 |w| + c2 ||w||^2: dual ascent, finished by L-BFGS if need be; L-BFGS
                          alone without an L2 penalty, or if its own parameters are given
    l2sgd                 the same objective without c1, by sgd
    averaged-perceptron   perceptron, averaged
    passive-aggressive    passive-aggressive; error_sensitive=False is margin=one
    arow                  arow, not averaged

A feature is kept if the sum of its values in the training data (of a label pair: its count) is at least
``feature.minfreq``; as there, that leaves out features whose values are negative on the whole. Features that are only
possible have the sum zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from loglinear.arrays import Float, Int32
from loglinear.compat.pycrfsuite.dataset import Dataset
from loglinear.compat.pycrfsuite.parameters import ALGORITHMS
from loglinear.data.columns.corpus import Attributes
from loglinear.estimators.tagger.foreign import from_tagger
from loglinear.estimators.tagger.model import ChainModel, SequenceModel
from loglinear.estimators.tagger.predict import LoadedTagger
from loglinear.estimators.tagger.problem import Problem
from loglinear.estimators.tagger.training import TaggerTraining
from loglinear.features.encoding import EncodedCorpus
from loglinear.features.names import NameEncoder
from loglinear.foreign.crfsuite import CrfsuiteModel
from loglinear.optimizers.dual.chain import DualAscent, dual_unsupported_reason
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.online.general import Online
from loglinear.optimizers.optimizer import Callback, Optimizer, Result
from loglinear.optimizers.stochastic.general import SGD
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.gold import Gold
from loglinear.system import thread_count
from loglinear.training.problem import MAIN, Phase, Stage
from loglinear.training.run import Outcome, Progress, train

OWN_TO_LBFGS = ("num_memories", "epsilon", "period", "linesearch", "max_linesearch")
CERTIFIED = 0.01  # of ``delta``: the tolerance of dual ascent, whose gap is then at most 2 delta of the objective


@dataclass(frozen=True)
class OnlineUntil(Online):
    """Online learning that stops when a pass leaves a mean loss of at most ``enough``.

    Parameters
    ----------
    by_moves : bool
        Whether the share of sequences that were not right counts in place of the loss, and must be less than that; when
        none is left, the mean is that after all ``max_iter`` passes nevertheless.
    """

    enough: float = 0.0
    by_moves: bool = False

    def minimise(
        self, objective: Objective, weights0: Float, *, l1: float = 0.0, callback: Callback = None, state: Any = None
    ) -> Result:
        n = objective.corpus.n_sequences
        reached = []

        def after_a_pass(now: Any) -> bool:
            if (now.moves / n < self.enough) if self.by_moves else (now.value / n <= self.enough):
                reached.append(now)
            stops = callback is not None and callback(now)
            return bool(stops) or bool(reached)

        result = super().minimise(objective, weights0, l1=l1, callback=after_a_pass, state=state)
        if reached:
            return replace(result, converged=True)
        now = result.state
        if self.by_moves and not now.moves and len(now.sums):  # all that the passes left would change is the mean
            left = (self.max_iter - now.iteration) * n
            now.sums += left * now.current
            now.n_steps += left
        return result


@dataclass(frozen=True)
class CrfsuiteTraining(TaggerTraining):
    """A training with an optimizer of its own.

    Parameters
    ----------
    spec : str
        Of the criterion.
    optimizer : Optimizer or None
    l1, l2 : float
    """

    spec: str = "cll"
    optimizer: Optimizer | None = None
    l1: float = 0.0
    l2: float = 0.0

    def stages(self, options: Any, init: Any) -> list[Stage]:
        optimizer = self.optimizer
        assert optimizer is not None
        criterion = self.criterion(self.spec)
        start = np.zeros(self.problem.model.features.n_features)

        def prepare(start: Float, kept: Any) -> tuple[Any, dict[str, Any]]:
            return self.objective(criterion, self.l2, self.n_threads), {}

        return [Stage(lambda done: (start, [Phase(MAIN, optimizer, prepare, self.l1)]))]


@dataclass(frozen=True)
class Prepared:
    """Training data in numbers.

    Parameters
    ----------
    problem : Problem
    n_empty : int
        Sequences without a token, which teach nothing.
    """

    problem: Problem
    n_empty: int

    @property
    def n_features(self) -> int:
        return int(self.problem.model.features.n_features)

    @property
    def n_attributes(self) -> int:
        return len(self.problem.model.encoder.names())


def prepared(dataset: Dataset, holdout: int, parameters: Mapping[str, Any]) -> Prepared:
    """The problem of the sequences that are not in the group ``holdout``."""
    corpus, labels, n_empty = dataset.part(holdout, inside=False)
    names, gold = list(dataset.labels), Gold(labels)
    encoder = NameEncoder()
    encoded = encoder.fit(corpus)
    features = ChainFeatures.collect(
        encoded, encoder.n_attributes, gold, len(names), 1,
        "all" if parameters["feature.possible_states"] else "observed",
        "all" if parameters["feature.possible_transitions"] else "observed",
    )  # fmt: skip
    model = ChainModel(names, encoder, features, np.zeros(features.n_features))
    kept = frequencies(features, encoded, labels, len(names)) >= parameters["feature.minfreq"]
    if not kept.all():
        model = model.keeping(kept)
        encoded = model.encode(corpus)
    counts = np.bincount(labels, minlength=len(names))
    return Prepared(Problem(model, encoded, gold, None, counts, corpus, None), n_empty)


def frequencies(features: ChainFeatures, corpus: EncodedCorpus, labels: Int32, n_labels: int) -> Float:
    """The sum of each feature's values in the training data [D]."""
    state = features.state
    token = np.repeat(np.arange(len(labels)), np.diff(corpus.state.pointer))
    own = corpus.state.ids.astype(np.int64) * n_labels + labels[token]
    keys = np.repeat(np.arange(len(state.pointer) - 1), np.diff(state.pointer)) * n_labels + state.codes
    place = np.searchsorted(keys, own)  # keys are sorted, and those that occur are all there
    sums = np.bincount(place, corpus.state.values, minlength=len(keys)).astype(np.float64)
    inner = np.ones(len(labels), dtype=bool)
    inner[corpus.offsets[:-1]] = False
    after = np.flatnonzero(inner)
    pairs = labels[after - 1].astype(np.int64) * n_labels + labels[after]
    counts = np.bincount(pairs, minlength=n_labels**2)[features.transitions]
    return np.concatenate([sums, counts.astype(np.float64)])


def fitted(
    data: Prepared, algorithm: str, parameters: Mapping[str, Any], observe: Callable[[Progress], None]
) -> tuple[SequenceModel, Outcome | None]:
    """The trained model, and how it went; None if there is nothing to learn."""
    problem, threads = data.problem, thread_count(None)
    if not data.n_features or not problem.encoded.n_sequences:
        return problem.model, None
    spec, optimizer, l1, l2 = _planned(problem, algorithm, parameters)
    training = CrfsuiteTraining(problem, 0, threads, spec=spec, optimizer=optimizer, l1=l1, l2=l2)
    model, outcome = train(training, None, observe=observe)
    outcome.raise_interruption()
    return model, outcome


def _planned(problem: Problem, algorithm: str, given: Mapping[str, Any]) -> tuple[str, Optimizer, float, float]:
    """Criterion, optimizer and the factors of both penalties."""
    most = given["max_iterations"]
    if algorithm == "lbfgs":
        return "cll", _batch_optimizer(problem, given), given["c1"], given["c2"]
    if algorithm == "l2sgd":
        return "cll", SGD(max_iter=most, tolerance=given["delta"]), 0.0, given["c2"]
    enough = given["epsilon"]
    if algorithm == "averaged-perceptron":
        return "perceptron", OnlineUntil(most, 0.0, enough=enough, by_moves=True), 0.0, 0.0
    if algorithm == "arow":
        spec = f"arow:variance={given['variance']!r},gamma={given['gamma']!r}"
        return spec, OnlineUntil(most, 0.0, average=False, enough=enough), 0.0, 0.0
    cap = f",C={given['c']!r}" if given["type"] else ""
    margin = "" if given["error_sensitive"] else ",margin=one"
    spec = f"passive-aggressive:variant={given['type']}{cap}{margin}"
    return spec, OnlineUntil(most, 0.0, average=given["averaging"], enough=enough), 0.0, 0.0


def _batch_optimizer(problem: Problem, given: Mapping[str, Any]) -> Optimizer:
    defaults = {each.name: each.default for each in ALGORITHMS["lbfgs"]}
    criterion, most = problem.criterion("cll"), given["max_iterations"]
    if all(given[name] == defaults[name] for name in OWN_TO_LBFGS):
        features: Any = problem.model.features
        if dual_unsupported_reason(criterion, features, problem.gold, given["c2"]) is None:
            return DualAscent(max_iter=most, tolerance=CERTIFIED * given["delta"])
    return LBFGS(
        memory=given["num_memories"], max_iter=most, tolerance=given["delta"], period=given["period"],
        gradient_tolerance=given["epsilon"], max_line_search=given["max_linesearch"],
    )  # fmt: skip


def as_crfsuite(model: SequenceModel) -> CrfsuiteModel:
    """The model in CRFsuite's terms; one without labels is empty."""
    if model.labels:
        return from_tagger(LoadedTagger(model, threads=1))
    none = np.zeros(0, dtype=np.int64)
    return CrfsuiteModel([], [], none, none, np.zeros(0), none, none, np.zeros(0))


# ----------------------------------------------------------------------------------------------------------------------
# Holdout data, which is only reported.


class Holdout:
    """Labelled sequences that a model in training is evaluated on."""

    def __init__(self, dataset: Dataset, group: int, model: SequenceModel) -> None:
        corpus, self._gold, self._n_empty = dataset.part(group, inside=True)
        self._labels, self._corpus = list(dataset.labels), corpus
        self._encoded = self._encode(corpus, model)

    @staticmethod
    def _encode(corpus: Attributes, model: SequenceModel) -> EncodedCorpus | None:
        return model.encode(corpus) if corpus.n_sentences else None

    def report(self, model: SequenceModel) -> list[str]:
        """The lines of CRFsuite's table for a model in training."""
        n, gold, encoded = len(self._labels), self._gold, self._encoded
        predicted = np.zeros(0, dtype=np.int32) if encoded is None else model.decode(encoded)
        right = predicted == gold
        match, model_, ref = (np.bincount(each, minlength=n) for each in (gold[right], predicted, gold))
        zeros = np.zeros(n)
        precision = np.divide(match, model_, out=zeros.copy(), where=(model_ > 0) & (ref > 0))
        recall = np.divide(match, ref, out=zeros.copy(), where=ref > 0)
        f1 = np.divide(2 * precision * recall, precision + recall, out=zeros.copy(), where=precision + recall > 0)
        lines = ["Performance by label (#match, #model, #ref) (precision, recall, F1):\n"]
        for y, name in enumerate(self._labels):
            shares = f"{precision[y]:1.4f}, {recall[y]:1.4f}, {f1[y]:1.4f}" if ref[y] else "******, ******, ******"
            lines.append(f"    {name}: ({match[y]}, {model_[y]}, {ref[y]}) ({shares})\n")
        macro = ", ".join(f"{each.sum() / max(n, 1):.6f}" for each in (precision, recall, f1))
        whole, n_whole = self._n_empty, self._n_empty
        if encoded is not None:
            whole += int(np.logical_and.reduceat(right, encoded.offsets[:-1]).sum())
            n_whole += encoded.n_sequences
        return [
            *lines,
            f"Macro-average precision, recall, F1: ({macro})\n",
            f"Item accuracy: {right.sum()} / {len(right)} ({right.sum() / max(len(right), 1):1.4f})\n",
            f"Instance accuracy: {whole} / {n_whole} ({whole / max(n_whole, 1):1.4f})\n",
        ]
