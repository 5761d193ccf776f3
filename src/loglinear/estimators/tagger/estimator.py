"""The tagger: a model of sequences behind scikit-learn's conventions."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, Unpack

from loglinear import model_file
from loglinear.arrays import Arrays
from loglinear.criteria.costs import describe
from loglinear.criteria.criterion import CRITERIA
from loglinear.criteria.hmm import HiddenMarkov
from loglinear.errors import OptionError
from loglinear.estimators.estimator import (
    RunKeywords,
    TrainedEstimator,
    keep_outcome,
    notes_of,
    read_notes,
    restore_notes,
    trains,
)
from loglinear.estimators.options import (
    CHAIN,
    TaggerOptions,
    check_tagger_training,
    forbids_unseen,
    kept_of,
    read_states,
)
from loglinear.estimators.tagger import file as tagger_file
from loglinear.estimators.tagger.density import DensityPredictor
from loglinear.estimators.tagger.inputs import Annotation, annotation_of, constraints_of, corpus_of
from loglinear.estimators.tagger.model import SequenceModel
from loglinear.estimators.tagger.problem import Problem, check_emitted, prepared
from loglinear.estimators.tagger.training import (
    HOW_MANY,
    OBSERVED,
    HmmTraining,
    TaggerTraining,
    is_criterion_name,
    keeping,
    opening_tagger,
)
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.generative.base import is_own
from loglinear.generative.em import EMState
from loglinear.model_file import Reader
from loglinear.options import declared, documented, in_new_spelling, spec_name, warn_of_old_spelling
from loglinear.structures.constraints import Constraints
from loglinear.system import thread_count
from loglinear.training.dev import Dev
from loglinear.training.plan import refuse_iterating, unused_options_note
from loglinear.training.run import Outcome, rounds_note, train
from loglinear.wording import how_many


@documented
class Tagger(TaggerOptions, DensityPredictor, TrainedEstimator[SequenceModel]):
    """Labels sequences with a log-linear model of chains or segments (``criterion="cll"``: conditional random fields).

    ``X`` is a list of sequences. Without a template, a token is its features: a dict or a list of strings, by
    python-crfsuite's rules. With a template, a token is a row: a string, or a tuple of strings. Corpora read by
    :mod:`loglinear.data` are taken as they are.

    PARAMETERS

    Attributes
    ----------
    classes_ : list of str
        The labels, sorted.
    model_ : SequenceModel
        Attributes, features and weights.
    objective_, n_iter_, n_evaluations_, converged_, message_, seconds_ : how training went.
    history_ : list of Progress
        Each iteration's objective, time and dev score.
    n_features_trained_ : int
        Features whose weight is not zero, before pruning.
    pruned_score_ : score on the dev data after pruning, None without either.
    dev_score_, best_iteration_ : score and iteration of the weights kept, None without dev data.
    log_likelihoods_ : list of float
        For ``hmm``, that of what is observed at the start of EM and after each round (empty for other criteria).
    """

    kind = tagger_file.KIND
    functions = ("base",)
    n_evaluations_: int | None
    n_features_trained_: int
    pruned_score_: float | None
    log_likelihoods_: list[float]

    # -- training ------------------------------------------------------------------------------------------------

    @trains
    def fit(
        self,
        X: Any,
        y: Any = None,
        X_dev: Any = None,
        y_dev: Any = None,
        *,
        sample_weight: Any = None,
        init: Tagger | str | Path | None = None,
        keep: int | None = None,
        label_column: int = -1,
        partial: bool = False,
        **run: Unpack[RunKeywords],
    ) -> Tagger:
        """Train.

        Parameters
        ----------
        X, y
            Sequences and their labels. A label is a string, None (unknown) or a set of strings (one of them). ``y`` may
            be left out if ``X`` is a corpus that has labels.
        X_dev, y_dev
            Data to stop early by; the weights with the best score on it are kept.
        sample_weight : array of float, optional
            Weight of each sequence's loss.
        init : Tagger, path or name of a criterion, optional
            Start from the weights of this model where it has the same features, its generative base included; with
            ``hmm``, from its probabilities. With the name of a criterion (``"m-estimation"``), from a model trained by
            that on the same data first.
        keep : int, optional
            Train this number of features only, the most informative of the model to start from: those with the greatest
            |weight| times the root of its count.
        KEYWORDS
        label_column, partial
            For corpora: which column holds the labels, and whether ``*`` and ``A|B`` mean any label and either.
        """
        self.check_options()
        spec = CRITERIA.spec(self.criterion)
        if (new := in_new_spelling(spec)[0]).values != spec.values:
            warn_of_old_spelling(f"criterion={self.criterion!r}", f"criterion={str(new)!r}")
        if keep is not None and (init is None or keep < 1):
            what = "needs a model to start from (init)" if init is None else "must be at least 1"
            raise OptionError(f"keep={keep} {what}")
        given = {"sample_weight": sample_weight, "label_column": label_column, "partial": partial}
        problem, opening = self.problem(X, y, **given), None
        training = self._training(problem, label_column, partial, X_dev is not None)
        if isinstance(training, HmmTraining) and training.data.settled:
            refuse_iterating("hmm", "is counted in one go where all labels are known", init=init, dev=X_dev)
            self._keep(*training.counted())
            self.message_ += unused_options_note(self.criterion)
            return self
        if is_criterion_name(init) and not isinstance(training, HmmTraining):
            opening = opening_tagger(self, str(init))
            if opening._emits_columns():
                check_emitted(problem.corpus, f"init={str(init)!r}")
            init = opening.fit(X, y, **given)
        start = self._opened(init)
        other = None if start is None else start._fitted()
        if other is not None and other.structure_name != self.structure == CHAIN:
            file = f"{init}: " if isinstance(init, str | Path) else ""
            raise OptionError(
                f"{file}the model to start from is one of {other.structure_name}, this one a chain; start from a model "
                f"with structure={CHAIN!r}, or train with structure={other.structure_name!r}"
            )
        if keep is not None and other is not None:
            training = replace(training, problem=keeping(problem, other, self.seed, keep, training.n_threads))
        model, outcome = train(training, self, dev=Dev.of(training, X_dev, y_dev), init=other, **run)
        self._keep(model, outcome)
        outcome.raise_interruption()
        if self.prune is not None and X_dev is not None:
            self.pruned_score_ = training.with_model(self.model_).dev_data(X_dev, y_dev).score(self.model_)
        if training.probable is not None:
            self._tell_added(training, outcome)
        self._tell_beginning(problem, init, opening)
        return self

    def _tell_added(self, training: TaggerTraining, outcome: Outcome) -> None:
        """Say how many features joined those observed, and after how many iterations."""
        opening = outcome.weights[0]
        added = training.grown(opening).model.features.n_features - len(opening)
        after = how_many(sum(progress.phase == OBSERVED for progress in outcome.history), "iteration")
        what = how_many(added, "feature") if added else "no feature"
        self.message_ = f"after {after} {what} added as probable under the model so far; then {self.message_}"

    def _tell_beginning(self, problem: Problem, init: Any, opening: Tagger | None) -> None:
        """Say where training began, and which options had no effect."""
        began_by = CRITERIA.part(self.criterion).starts_from if init is None else None
        if opening is not None:
            began_by = spec_name(opening.criterion)
            self.seconds_ = (self.seconds_ or 0.0) + (opening.seconds_ or 0.0)
        if began_by is not None:
            self.message_ = f"from the weights of a model of {began_by}: {self.message_}"
        if problem.gold.allowed is None:
            self.message_ += unused_options_note(self.criterion)
        elif CRITERIA.part(self.criterion).completes:
            self.message_ += rounds_note(self.history_)

    def _training(self, problem: Problem, label_column: int, partial: bool, with_dev: bool) -> TaggerTraining:
        """How the problem is solved: by weights, or by EM."""
        criterion = problem.criterion(self.criterion, self.cost)
        how = (self.seed, thread_count(self.threads), self.metric, label_column, partial)
        if not isinstance(criterion, HiddenMarkov):
            probable = read_states(self.states)
            return TaggerTraining(problem, *how, probable if probable and probable.adds_some else None)
        training = HmmTraining(problem, *how, hmm=criterion, with_dev=with_dev)
        if with_dev and not training.data.settled and criterion.labels is not None:
            raise OptionError(
                f"labels={criterion.labels}: the labels found in unlabelled data are not those of dev data"
            )
        return training

    def problem(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, label_column: int = -1, partial: bool = False
    ) -> Problem:
        """The training data in numbers and the model to be trained on it, for those who want the objective itself.

        Arguments as for :meth:`fit`.
        """
        if emits_columns := self._emits_columns():
            check_emitted(X, f"criterion={self.criterion!r}")
        corpus = corpus_of(X, as_rows=self.template is not None or emits_columns)
        if y is None and not partial and self.finds_labels:  # every column is something observed
            return prepared(self, corpus, Annotation.unknown(corpus.n_tokens), sample_weight, None)
        remedy = "" if CRITERIA.part(self.criterion).learns_weights else HOW_MANY
        annotation = annotation_of(corpus, y, label_column, partial, remedy)
        return prepared(self, corpus, annotation, sample_weight, label_column if y is None else None)

    def _emits_columns(self) -> bool:
        """Whether the model has a base that emits the columns of the data."""
        return CRITERIA.part(self.criterion).uses_base and not is_own(self.base)

    @property
    def finds_labels(self) -> bool:
        """Whether the labels are to be found in unlabelled data."""
        options = dict(CRITERIA.spec(self.criterion).values)
        return options.get("labels") is not None

    def _keep(self, model: SequenceModel, outcome: Outcome) -> None:
        # Weights are kept to the precision of the model file, so that a saved model answers exactly as this one does.
        self.model_ = model.rounded(self.precision)
        self.n_features_trained_, self.pruned_score_ = self.model_.features.n_features, None
        if self.prune is not None:
            self.model_ = self.model_.pruned(kept_of(self.n_features_trained_, self.prune))
        self.classes_ = list(model.labels)
        keep_outcome(self, outcome)
        self.n_evaluations_ = outcome.evaluations
        self.log_likelihoods_ = list(outcome.state.log_likelihoods) if isinstance(outcome.state, EMState) else []

    def pruned(self, share: float | None = None, *, keep: int | None = None) -> Tagger:
        """This tagger with a smaller model: without the given ``share`` of its weights, or with ``keep`` of them.

        Those nearest to zero go, and with them the attributes and values that nothing else looks at.
        """
        model = self._fitted()
        if not model.features.n_features:
            raise OptionError(f"a model of criterion={self.criterion!r} has no weights to leave out")
        smaller = copy(self)
        smaller.model_ = model.pruned(kept_of(model.features.n_features, share, keep))
        return smaller

    def check_options(self) -> None:
        """Refuse options that make no sense, as :meth:`fit` does first of all."""
        check_tagger_training(self)

    # -- files ---------------------------------------------------------------------------------------------------

    def _stored_options(self) -> dict[str, Any]:
        options = super()._stored_options()
        options["cost"] = None if self.cost is None else describe(self.cost)
        options["base"] = None if is_own(self.base) else self.base  # the file says so where it describes the base
        return options

    def _storage(self, precision: str | None = None) -> tuple[dict[str, Any], Arrays]:
        if precision is not None and not CRITERIA.part(self.criterion).learns_weights:
            raise OptionError(
                f"precision={precision!r}: criterion={self.criterion!r} has no weights to be kept as such"
            )
        precision = self.precision if precision is None else precision
        declared(TaggerOptions)["precision"].check(precision)
        model, options = self._fitted().rounded(precision), {**self._stored_options(), "precision": precision}
        return tagger_file.to_storage(model, options, self._notes(), precision)

    def _exact_storage(self) -> tuple[dict[str, Any], Arrays]:
        return tagger_file.to_storage(self._fitted(), self._stored_options(), self._notes())

    def _notes(self) -> dict[str, Any]:
        given = {}
        if forbids_unseen(self):  # the model's constraints have the label pairs of training as well
            constraints = constraints_of(self.constraints, self.classes_) or Constraints()
            given = {"given_constraints": constraints.to_dict()}
        return {
            **notes_of(self),
            **given,
            "features": self.n_features_trained_,
            "evaluations": self.n_evaluations_,
            "pruned_score": self.pruned_score_,
        }

    def save(self, path: str | Path, precision: str | None = None) -> None:
        """Write the model to one file that holds data only, its weights as ``precision`` (else the tagger's own)."""
        model_file.save(path, self.kind, *self._storage(precision))

    def to_bytes(self, precision: str | None = None) -> bytes:
        """The model file's content."""
        return model_file.dumps(self.kind, *self._storage(precision))

    @classmethod
    def load(cls, source: str | Path | bytes, base: Any = None) -> Self:
        """Read a model from a file or from its bytes. Loading runs no code of the file's.

        ``base`` is the user's own distribution, for a model that was trained over one: files do not hold it.
        """
        return cls._read(model_file.read(source, cls.kind), {"base": base})

    def _given(self) -> dict[str, Any]:
        return {"base": self.base if is_own(self.base) else None}

    @classmethod
    def _check_given(cls, read: Reader, given: Mapping[str, Any]) -> None:
        tagger_file.own_base(read, given.get("base"))

    def _restore(self, read: Reader, given: Mapping[str, Any]) -> None:
        model, notes = tagger_file.from_storage(read, tagger_file.own_base(read, given.get("base"))), read_notes(read)
        if isinstance(model.encoder, TemplateEncoder) and CRITERIA.part(self.criterion).learns_weights:
            self.template = model.encoder.templates
            self.gazetteers = list(model.encoder.gazetteers.values()) or None
        self.constraints = model.constraints
        if "given_constraints" in notes:
            with read.building("training"):
                constraints = Constraints.from_dict(notes["given_constraints"])
            self.constraints = None if constraints == Constraints() else constraints
        self.model_, self.classes_ = model, list(model.labels)
        self.n_features_trained_ = notes.get("features", model.features.n_features)
        restore_notes(self, notes)
        self.n_evaluations_, self.pruned_score_ = notes.get("evaluations"), notes.get("pruned_score")
        self.log_likelihoods_ = []
