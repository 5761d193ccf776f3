"""The dependency parser: a model of arcs behind scikit-learn's conventions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

import numpy.typing as npt

from loglinear.arrays import Arrays
from loglinear.data.dependencies import Dependencies, read_conllu
from loglinear.errors import DataError, OptionError
from loglinear.estimators.dependency import file as dependency_file
from loglinear.estimators.dependency.model import DependencyModel, Parses
from loglinear.estimators.dependency.problem import DependencyProblem, DependencyTraining
from loglinear.estimators.estimator import (
    RunKeywords,
    TrainedEstimator,
    keep_outcome,
    notes_of,
    read_notes,
    restore_notes,
    trains,
)
from loglinear.estimators.options import GENERATIVE, DependencyOptions, check_dependency_parser
from loglinear.evaluation.attachment import AttachmentReport, attachment_scores
from loglinear.model_file import Reader
from loglinear.options import documented, spec_name
from loglinear.system import thread_count
from loglinear.training.dev import Dev
from loglinear.training.plan import refuse_iterating
from loglinear.training.run import train


@documented
class DependencyParser(DependencyOptions, TrainedEstimator[DependencyModel]):
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
    n_trees_: int | None
    n_tokens_: int | None

    # -- training ------------------------------------------------------------------------------------------------

    @trains
    def fit(
        self,
        X: Any,
        y: Any = None,
        X_dev: Any = None,
        y_dev: Any = None,
        *,
        sample_weight: npt.ArrayLike | None = None,
        init: DependencyParser | str | Path | None = None,
        **run: Unpack[RunKeywords],
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
        init : DependencyParser or path, optional
            Start from the weights of this model where it has the same features.
        KEYWORDS
        """
        check_dependency_parser(self)
        n_threads = thread_count(self.threads)
        if spec_name(self.criterion) == GENERATIVE:
            refuse_iterating(GENERATIVE, "counts", init=init, dev=X_dev)
            if sample_weight is not None:
                raise OptionError(f"criterion={GENERATIVE!r} counts, and has no use for sample_weight")
        problem = DependencyProblem.of(self, self._corpus(X, y), sample_weight, n_threads)
        training = DependencyTraining(self, problem, n_threads)
        other = self._opened(init)
        start = None if other is None else other._fitted()
        self.model_, outcome = train(training, self, dev=Dev.of(training, X_dev, y_dev), init=start, **run)
        if training.learns_weights:
            keep_outcome(self, outcome)
        else:
            restore_notes(self, {"converged": True, "message": "counted"})
            self.history_ = outcome.history
        self.n_trees_, self.n_tokens_ = problem.corpus.n_sentences, problem.corpus.n_tokens
        self.message_ += problem.changes
        outcome.raise_interruption()
        return self

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
