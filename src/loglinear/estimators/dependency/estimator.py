"""The dependency parser: a model of arcs behind scikit-learn's conventions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from loglinear.arrays import Arrays
from loglinear.data.dependencies import Dependencies, read_conllu
from loglinear.errors import DataError, OptionError
from loglinear.estimators.dependency import file as dependency_file
from loglinear.estimators.dependency.model import DependencyModel, DevTrees, Parses, rounded
from loglinear.estimators.dependency.options import GENERATIVE, check_dependency_parser
from loglinear.estimators.dependency.problem import DependencyProblem, phases
from loglinear.estimators.estimator import Estimator, keep_outcome, notes_of, read_notes, restore_notes
from loglinear.estimators.options import DependencyOptions
from loglinear.evaluation.attachment import AttachmentReport, attachment_scores
from loglinear.model_file import Reader
from loglinear.options import documented, spec_name
from loglinear.system import thread_count
from loglinear.training.checkpoint import fingerprint, kept_before
from loglinear.training.plan import run_phases
from loglinear.training.run import (
    Progress,
    Training,
    TrainingInterrupted,
    TrainingOutcome,
    catching_signals,
    print_progress,
)


@documented
class DependencyParser(DependencyOptions, Estimator[DependencyModel], BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Finds the heads, and where training has them the relations, of the tokens of sentences.

    ``X`` is a CoNLL-U file, what :func:`loglinear.read_conllu` made of one, or a list of sentences of pairs (word, tag)
    with ``y`` their trees: lists of heads (0 the root, 1 the first token), or of pairs (head, relation).

    PARAMETERS

    Attributes
    ----------
    model_ : DependencyModel
    objective_, n_iter_, converged_, message_, seconds_, history_ : how training went.
    dev_score_, best_iteration_ : share of right heads and iteration of the weights kept, None without dev data.
    n_trees_, n_tokens_ : how many were learnt from; None for a checkpoint.
    """

    kind = dependency_file.KIND
    objective_: float | None
    n_iter_: int | None
    converged_: bool
    message_: str
    seconds_: float | None
    history_: list[Progress]
    dev_score_: float | None
    best_iteration_: int | None
    n_trees_: int | None
    n_tokens_: int | None

    # -- training ------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        X_dev: Any = None,
        y_dev: Any = None,
        *,
        sample_weight: npt.ArrayLike | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_seconds: float = 30.0,
        resume: bool = False,
        observe: Callable[[Progress], None] | None = None,
    ) -> DependencyParser:
        """Train.

        Parameters
        ----------
        X, y
            Sentences and their trees; ``y`` is left out if ``X`` has them.
        X_dev, y_dev
            Data to stop early by; the weights with the most right heads are kept.
        sample_weight : array of float [S], optional
            Weight of each sentence's loss.
        checkpoint : path, optional
            File that keeps a usable model, but for relations, and all that is needed to go on, written every
            ``checkpoint_seconds`` and when training is interrupted. Remove it when you have saved the model.
        resume : bool
            Go on from ``checkpoint`` if it is there.
        observe : callable, optional
            Called with a :class:`~loglinear.training.run.Progress` after each iteration.
        """
        check_dependency_parser(self)
        n_threads = thread_count(self.threads)
        problem = DependencyProblem.of(self, self._corpus(X, y), sample_weight, n_threads)
        outcome = None
        if spec_name(self.criterion) != GENERATIVE:
            dev = None if X_dev is None else DevTrees.of(problem.model, self._corpus(X_dev, y_dev), n_threads)
            kept = None if checkpoint is None else self._checkpoint(Path(checkpoint), problem, dev)
            training = functools.partial(
                Training, l1=self.l1, patience=self.patience, checkpoint_seconds=checkpoint_seconds,
                observe=observe or (print_progress if self.verbose else None), checkpoint=kept,
                dev_score=None if dev is None else dev.score,
            )  # fmt: skip
            outcome = self._run(problem, training, kept, resume, n_threads)
        elif X_dev is not None or checkpoint is not None or resume or sample_weight is not None:
            raise OptionError(f"criterion={GENERATIVE!r} counts: it takes no dev data, weights or checkpoint")
        self._keep(problem, outcome, n_threads)
        return self

    def _run(
        self,
        problem: DependencyProblem,
        training: Any,
        kept: dependency_file.DependencyCheckpoint | None,
        resume: bool,
        n_threads: int,
    ) -> TrainingOutcome:
        resumed = kept_before(kept, resume)
        with catching_signals() as stop:
            start = np.zeros(problem.model.features.n_features)
            outcome = run_phases(phases(self, problem, n_threads), training, start, resumed, False, stop)
            if stop.is_set():
                raise TrainingInterrupted(outcome.iterations, None if kept is None else str(kept.path))
        return outcome

    def _checkpoint(
        self, path: Path, problem: DependencyProblem, dev: DevTrees | None
    ) -> dependency_file.DependencyCheckpoint:
        varying = ("threads", "verbose", "max_iter", "relations", "parse_length")
        options = {k: v for k, v in self.get_params(deep=False).items() if k not in varying}
        own = None if dev is None else dev.corpus.heads
        mark = fingerprint(options, [*problem.arrays(), own])
        return dependency_file.DependencyCheckpoint(path, problem.model, self._stored_options(), mark)

    def _keep(self, problem: DependencyProblem, outcome: TrainingOutcome | None, n_threads: int) -> None:
        model = problem.model
        if outcome is not None:
            model = model.with_weights(rounded(outcome.weights))
        self.model_ = problem.with_relations(model, self, n_threads)
        if outcome is not None:
            keep_outcome(self, outcome)
        else:
            restore_notes(self, {"converged": True, "message": "counted"})
        self.n_trees_, self.n_tokens_ = problem.corpus.n_sentences, problem.corpus.n_tokens
        self.message_ += problem.changes

    # -- use -------------------------------------------------------------------------------------------------------

    def parse(self, X: Any) -> Parses:
        """The trees of sentences, as numbers."""
        return self._fitted().parse(self._corpus(X, None, trees=False), self.parse_length, thread_count(self.threads))

    def predict(self, X: Any) -> list[list[Any]]:
        """For each sentence a list of heads, or of pairs (head, relation) if the model knows relations."""
        if isinstance(X, list) and not X:
            return []
        corpus = self._corpus(X, None, trees=False)
        parses = self.parse(corpus)
        arcs: list[Any] = parses.heads.tolist()
        if parses.relations is not None:
            arcs = list(zip(arcs, parses.relations.strings(), strict=True))
        return [arcs[a:b] for a, b in zip(corpus.offsets[:-1].tolist(), corpus.offsets[1:].tolist(), strict=True)]

    def evaluate(self, X: Any, y: Any = None) -> AttachmentReport:
        """UAS and LAS on sentences with their trees."""
        corpus = self._corpus(X, y)
        parses = self.parse(corpus)
        return attachment_scores(corpus, parses.heads, parses.relations, fallback=parses.fallback)

    def score(self, X: Any, y: Any = None) -> float:
        """The share of tokens with the right head."""
        return self.evaluate(X, y).uas / 100.0

    def _corpus(self, X: Any, y: Any, trees: bool = True) -> Dependencies:
        if isinstance(X, str | Path):
            X = read_conllu(X, trees=trees, single_root=self.single_root)
        corpus = X if isinstance(X, Dependencies) else Dependencies.from_sentences(X, y, self.single_root)
        if isinstance(X, Dependencies) and y is not None:
            raise OptionError("the sentences come with their trees: leave y out")
        if trees and (corpus.heads < 0).any():
            raise DataError("the sentences have no trees to learn from, or to be compared with", corpus.file)
        return corpus

    # -- files ---------------------------------------------------------------------------------------------------

    def check_options(self) -> None:
        """Refuse options that make no sense, as :meth:`fit` does first of all."""
        check_dependency_parser(self)

    def _storage(self) -> tuple[dict[str, Any], Arrays]:
        model = self._fitted()
        training = {**notes_of(self), "trees": self.n_trees_, "tokens": self.n_tokens_}
        return dependency_file.to_storage(model, self._stored_options(), training)

    def _restore(self, read: Reader, given: Mapping[str, Any]) -> None:
        self.model_, notes = dependency_file.from_storage(read), read_notes(read)
        restore_notes(self, notes)
        self.n_trees_, self.n_tokens_ = notes.get("trees"), notes.get("tokens")
