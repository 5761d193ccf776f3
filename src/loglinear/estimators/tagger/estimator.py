"""The tagger: a model of sequences behind scikit-learn's conventions."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, Unpack

from loglinear import model_file
from loglinear.arrays import Arrays
from loglinear.criteria.costs import describe
from loglinear.criteria.criterion import CRITERIA
from loglinear.criteria.hmm import HiddenMarkov
from loglinear.criteria.m_estimation import MEstimation
from loglinear.errors import OptionError
from loglinear.estimators.conventions import OfferedIf
from loglinear.estimators.estimator import (
    RunKeywords,
    TrainedEstimator,
    keep_outcome,
    notes_of,
    read_notes,
    restore_notes,
    trains,
)
from loglinear.estimators.growing import Stream, advanced, continued, note_of, stream_optimizer
from loglinear.estimators.options import (
    CHAIN,
    TaggerOptions,
    check_tagger_training,
    forbids_unseen,
    kept_of,
    read_states,
    tagger_training,
)
from loglinear.estimators.summary import Summary, from_counts, merged
from loglinear.estimators.tagger import file as tagger_file
from loglinear.estimators.tagger.density import DensityPredictor
from loglinear.estimators.tagger.inputs import Annotation, annotation_of, constraints_of, corpus_of
from loglinear.estimators.tagger.model import ChainModel, SequenceModel
from loglinear.estimators.tagger.problem import Problem, check_emitted, prepared
from loglinear.estimators.tagger.summary import NumberedSentences, Part, PartsOfEM, counted, estimated, summary_of
from loglinear.estimators.tagger.training import (
    HOW_MANY,
    OBSERVED,
    HmmTraining,
    TaggerTraining,
    is_criterion_name,
    keeping,
    opening_tagger,
    start_weights,
)
from loglinear.features.stored import ElsewhereColumns
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.generative.base import is_own
from loglinear.generative.em import EMState
from loglinear.generative.hmm.summary import SequenceCounts
from loglinear.model_file import Reader, restored, stored
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
    python-crfsuite's rules, arrays among them (dense features). With a template, a token is a row: a string, or a tuple
    of strings. A sequence may also be (tokens, array [T, D]), or such an array alone. Corpora read by
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
    data_ : dict of str to str
        How the files of the training data were read, where that was said: format, separator, comments. The command line
        reads others like them.
    stream_ : Stream or None
        Where :meth:`partial_fit` goes on; None after :meth:`fit`.
    log_likelihoods_ : list of float
        For ``hmm``, that of what is observed at the start of EM and after each round (empty for other criteria).
    """

    kind = tagger_file.KIND
    functions = ("base",)
    in_file = ("model_", "stream_")
    stream_: Stream | None = None
    _parts_of_em: PartsOfEM | None = None
    n_evaluations_: int | None
    n_features_trained_: int
    pruned_score_: float | None
    log_likelihoods_: list[float]
    data_: dict[str, str]

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
        grow: bool = False,
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
        grow : bool
            Keep all labels, attributes and features of the model to start from, beside those of this data. A penalty
            draws weights that this data says nothing of towards zero; ``l2=0``, few iterations and :meth:`partial_fit`
            do not.
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
        if grow and (init is None or is_criterion_name(init) or keep is not None):
            what = "goes without keep" if keep is not None else "needs a model to start from (init)"
            raise OptionError(f"grow=True {what}")
        given: dict[str, Any] = {"sample_weight": sample_weight, "label_column": label_column, "partial": partial}
        if isinstance(X, ElsewhereColumns):
            X.check(self, y=y, X_dev=X_dev, init=init, keep=keep, grow=grow, checkpoint=run.get("checkpoint"))
            if spec.part in (HiddenMarkov, MEstimation):
                check_counted(self)
                return self._counted_elsewhere(X, init, given)
        start, opening = self._opened(init) if grow else None, None
        if self._emits_columns():
            check_emitted(X, f"criterion={self.criterion!r}")
            X = corpus_of(X, as_rows=True, empty=True)
        problem = self.problem(X, y, **given, known=None if start is None else start._fitted())
        training = self._training(problem, label_column, partial, X_dev is not None)
        self._parts_of_em = None
        if isinstance(training, HmmTraining) and training.data.settled:
            refuse_iterating("hmm", "is counted in one go where all labels are known", init=init, dev=X_dev)
            model = problem.model
            assert isinstance(model, ChainModel)
            columns = model.hmm_base.vocabulary.columns
            counts = SequenceCounts.of(X, columns, problem.gold, model.labels, self.order, problem.sequence_weights)
            self._keep(*counted(self, counts, model))
            self.message_ += unused_options_note(self.criterion)
            return self
        if is_criterion_name(init) and not isinstance(training, HmmTraining):
            opening = opening_tagger(self, str(init))
            if opening._emits_columns():
                check_emitted(problem.corpus, f"init={str(init)!r}")
            init = start = opening.fit(X, y, **given)
        elif start is None and not is_criterion_name(init):
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

    def _counted_elsewhere(self, corpus: ElsewhereColumns, init: Any, given: dict[str, Any]) -> Tagger:
        """The model of a corpus that is not in this process, from summaries of its parts; by EM, a round each."""
        began = time.perf_counter()
        self.from_summaries(corpus.summaries(self, **given), init)
        hidden = CRITERIA.spec(self.criterion).make() if self._parts_of_em is not None else None
        while isinstance(hidden, HiddenMarkov) and not self.converged_ and (self.n_iter_ or 0) < hidden.rounds:
            self.from_summaries(corpus.summaries(self, **given))
        self.seconds_ = time.perf_counter() - began
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

    # -- parts ---------------------------------------------------------------------------------------------------

    @OfferedIf(lambda estimator: check_counted(estimator))
    def summarize(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, label_column: int = -1, partial: bool = False
    ) -> Summary:
        """What a part of the data contributes to a model of ``hmm`` or ``m-estimation``, for :meth:`from_summaries`.

        Of ``hmm``, counts of the part, whatever is in the others. In the middle of EM, which :meth:`from_summaries` has
        begun, they are the counts expected under the model so far. Of ``m-estimation``, the part's sentences in
        numbers: its loss needs the features of each of them. Arguments as for :meth:`fit`.
        """
        self.check_options()
        check_counted(self)
        return summary_of(self, Part.of(self, X, y, sample_weight, label_column, partial))

    @OfferedIf(lambda estimator: check_counted(estimator))
    def from_summaries(
        self, summaries: Iterable[Summary | str | Path], init: Tagger | str | Path | None = None
    ) -> Tagger:
        """The model of all parts together.

        Where all labels are known it is what :meth:`fit` learns from all parts one after the other, to the last bit,
        for any cut into parts.

        Where some are hidden, the first call gives the model that EM starts from, the one :meth:`fit` starts from
        without restarts; each further call is a round, from summaries of the same parts that were made with the model
        so far. ``log_likelihoods_`` and ``objective_`` are then those of the model that the round began with, and
        ``converged_`` says whether the last round gained less than ``tolerance``. A worker gets the tagger as a pickle:
        a model file holds the model, but not where EM is.

        Parameters
        ----------
        summaries : iterable of Summary or path
            What :meth:`summarize` made of each part, or files of these.
        init : Tagger or path, optional
            For the first call, start EM from the probabilities of this model, for labels and values that it has; with
            ``m-estimation`` as for :meth:`fit`.
        """
        self.check_options()
        check_counted(self)
        summary = merged(self, summaries)
        if isinstance(summary.counts, NumberedSentences):
            sentences = summary.counts
            weights, label_column = sentences.weights, sentences.label_column
            return self.fit(sentences.corpus, init=init, sample_weight=weights, label_column=label_column)
        start = self._opened(init)
        with from_counts():
            model, outcome = estimated(self, summary, None if start is None else start._fitted())
        self._keep(model, outcome)
        if not self.log_likelihoods_:  # EM has only begun
            self.objective_ = None
        return self

    @OfferedIf(lambda estimator: check_growing(estimator))
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: Collection[str] | None = None,
        *,
        sample_weight: Any = None,
        label_column: int = -1,
        partial: bool = False,
    ) -> Tagger:
        """Go on training with more data: one pass over it by steps of an online learner, of sgd or of adagrad.

        Labels, attributes and features that are new join those that the model has, with weights of zero; nothing is
        forgotten. ``optimizer=None`` means the online learner's own steps, else ``sgd``. Every call goes on where the
        one before ended, also after the model was saved and loaded; averages are those of all steps since the first
        call. After :meth:`fit`, the first call starts from the weights that it found. A call takes time in proportion
        to the model as well as to its data: give sequences by the hundred rather than one by one.

        Parameters
        ----------
        X, y, sample_weight, label_column, partial
            As for :meth:`fit`.
        classes : collection of str, optional
            Labels that the model is to have from now on, whether or not this data has them.
        """
        self.check_options()
        named = _checked_classes(classes)
        optimizer = check_growing(self)
        model = self.model_ if hasattr(self, "model_") else None
        began = time.perf_counter()
        given = {"sample_weight": sample_weight, "label_column": label_column, "partial": partial}
        problem = self.problem(X, y, **given, known=model, classes=named)
        training, grown = self._training(problem, label_column, partial, False), problem.model
        stream = continued(self.stream_, self, optimizer)
        if model is None:
            start = start_weights(grown, None, self.seed)
        else:
            assert isinstance(grown, ChainModel)  # no others grow
            placed = grown.placing(model)
            start = placed(model.weights)
            stream = None if stream is None else stream.moved(placed)
        stream = advanced(training, self, optimizer, start, stream, problem.encoded.n_sequences, training.n_threads)
        self._keep_stream(grown, stream)
        self.seconds_ = time.perf_counter() - began
        return self

    def _keep_stream(self, model: SequenceModel, stream: Stream) -> None:
        """Take over the model of a stream; features stay even where their weight is zero, as they may move later."""
        weights = restored(*stored(stream.state.weights, self.precision))
        self.model_, self.stream_ = model.with_weights(weights), stream
        self.classes_, self.n_features_trained_ = list(model.labels), model.features.n_features
        self.objective_, self.n_iter_, self.n_evaluations_ = float(stream.state.value), stream.calls, stream.calls
        self.converged_, self.message_, self.history_ = False, note_of(stream), []
        self.dev_score_ = self.best_iteration_ = self.pruned_score_ = None
        self.log_likelihoods_ = []

    def problem(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        label_column: int = -1,
        partial: bool = False,
        known: SequenceModel | None = None,
        classes: Collection[str] = (),
    ) -> Problem:
        """The training data in numbers and the model to be trained on it, for those who want the objective itself.

        Arguments as for :meth:`fit`; the model also has the labels, attributes and features of ``known``, and the
        labels ``classes``.
        """
        if known is not None:
            check_known(self, known)
        if emits_columns := self._emits_columns():
            check_emitted(X, f"criterion={self.criterion!r}")
        corpus = corpus_of(X, as_rows=self.template is not None or emits_columns, empty=True)
        if y is None and not partial and self.finds_labels:  # every column is something observed
            return prepared(self, corpus, Annotation.unknown(corpus.n_tokens), sample_weight, None)
        remedy = "" if CRITERIA.part(self.criterion).learns_weights else HOW_MANY
        annotation = annotation_of(corpus, y, label_column, partial, remedy)
        column = label_column if y is None else None
        return prepared(self, corpus, annotation, sample_weight, column, known, classes)

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
        self.model_, self.stream_ = model.rounded(self.precision), None
        self.n_features_trained_, self.pruned_score_ = self.model_.features.n_features, None
        if self.prune is not None:
            self.model_ = self.model_.pruned(kept_of(self.n_features_trained_, self.prune))
        self.classes_ = list(model.labels)
        keep_outcome(self, outcome)
        self.n_evaluations_ = outcome.evaluations
        self.log_likelihoods_ = list(outcome.state.log_likelihoods) if isinstance(outcome.state, EMState) else []

    def pruned(self, share: float | None = None, *, keep: int | None = None) -> Tagger:
        """This tagger with a smaller model: without the given ``share`` of its weights, or with ``keep`` of them.

        Those nearest to zero go, and with them the attributes and values that nothing else looks at. A stream of
        :meth:`partial_fit` ends; the next call begins one from the weights left.
        """
        model = self._fitted()
        if not model.features.n_features:
            raise OptionError(f"a model of criterion={self.criterion!r} has no weights to leave out")
        smaller = copy(self)
        smaller.model_ = model.pruned(kept_of(model.features.n_features, share, keep))
        smaller.stream_ = None
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
        model, options = self._fitted(), {**self._stored_options(), "precision": precision}
        if self.stream_ is None:
            model = model.rounded(precision)
        return self._with_stream(*tagger_file.to_storage(model, options, self._notes(), precision))

    def _exact_storage(self) -> tuple[dict[str, Any], Arrays]:
        return self._with_stream(*tagger_file.to_storage(self._fitted(), self._stored_options(), self._notes()))

    def _with_stream(self, header: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        """A model file's content with where the stream stands, if there is one."""
        if self.stream_ is None:
            return header, arrays
        stream, more = self.stream_.to_storage()
        return {**header, "stream": stream}, {**arrays, **more}

    def _notes(self) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if forbids_unseen(self):  # the model's constraints have the label pairs of training as well
            constraints = constraints_of(self.constraints, self.classes_) or Constraints()
            given = {"given_constraints": constraints.to_dict()}
        if data := getattr(self, "data_", None):
            given["data"] = data
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
        tagger_file.read_data(read)
        self._take(model, notes)
        self.stream_ = Stream.from_storage(read, model.features.n_features)
        if "given_constraints" in notes:
            with read.building("training"):
                constraints = Constraints.from_dict(notes["given_constraints"])
            self.constraints = None if constraints == Constraints() else constraints

    def _take(self, model: SequenceModel, notes: Mapping[str, Any]) -> None:
        """Have this model, with what is known about its training."""
        if isinstance(model.encoder, TemplateEncoder) and CRITERIA.part(self.criterion).learns_weights:
            self.template = model.encoder.templates
            self.gazetteers = list(model.encoder.gazetteers.values()) or None
        self.constraints = model.constraints
        self.model_, self.classes_ = model, list(model.labels)
        self.stream_ = None
        self.n_features_trained_ = notes.get("features", model.features.n_features)
        restore_notes(self, notes)
        self.data_ = notes.get("data") or {}
        self.n_evaluations_, self.pruned_score_ = notes.get("evaluations"), notes.get("pruned_score")
        self.log_likelihoods_ = []

    @classmethod
    def around(cls, model: SequenceModel, notes: Mapping[str, Any], **options: Any) -> Self:
        """A tagger of a model that was made elsewhere, with ``notes`` as model files have them on training."""
        tagger = cls(**options)
        tagger.check_options()
        tagger._take(model, notes)
        return tagger


# ----------------------------------------------------------------------------------------------------------------------
# What can grow.


def check_growing(tagger: Tagger) -> str:
    """Refuse options that a stream of calls cannot have; the spec of its optimizer."""
    trained, criterion = tagger_training(tagger.structure), CRITERIA.part(tagger.criterion)
    optimizer = stream_optimizer(tagger, criterion, trained.optimizers(criterion))
    probable = read_states(tagger.states)
    made = CRITERIA.spec(tagger.criterion).make(*([None] if criterion.uses_cost else []))
    reason = None
    if tagger.structure != CHAIN:
        reason = f"structure={tagger.structure!r}: a model of segments does not grow; train on all data with fit"
    elif probable is not None and probable.adds_some:
        reason = f"states={tagger.states!r} looks at the model half-way through training; use observed or all"
    elif criterion.chooses_after is not None or made.chooses_after is not None or made.scaling or made.schedule():
        reason = f"criterion={tagger.criterion!r} is trained in several phases; leave out the options that ask for them"
    elif tagger.prune is not None:
        reason = f"prune={tagger.prune}: weights may still move; call pruned() when the last data has been seen"
    if reason is not None:
        raise OptionError(f"partial_fit: {reason}")
    return optimizer


def check_counted(tagger: Tagger) -> None:
    """Refuse options with which a model is not made of counts of parts."""
    reason, criterion = None, CRITERIA.part(tagger.criterion)
    if criterion not in (HiddenMarkov, MEstimation):
        reason = f"criterion={tagger.criterion!r} is not learnt from counts of parts; hmm and m-estimation are"
    elif is_own(tagger.base):
        reason = "a base of your own sees the data as it is; train on all of it with fit"
    elif tagger.class_weight is not None and criterion is HiddenMarkov:
        reason = "class_weight asks for the labels of all parts; give the weights themselves (sample_weight)"
    elif tagger.sub_labels > 1:
        reason = f"sub_labels={tagger.sub_labels} are found in all of the data at once, with fit"
    if reason is not None:
        raise OptionError(f"summarize: {reason}")


def check_known(tagger: Tagger, known: SequenceModel) -> None:
    """Refuse to keep all of a model that the tagger's options do not describe."""
    if not isinstance(known, ChainModel) or tagger.structure != CHAIN:
        structure = known.structure_name
        raise OptionError(
            f"the model so far is one of {structure}, and structure={tagger.structure!r}; only chains grow: to start "
            "from the weights that both have, use fit with init alone"
        )
    if forbids_unseen(tagger):
        raise OptionError(
            f"transitions={tagger.transitions!r} rules out what is not in the data, and data to come may have it; use "
            "transitions='observed'"
        )
    if known.base is not None or known.scaling is not None:
        what = "a generative base" if known.base is not None else "factors for its pieces"
        raise OptionError(
            f"the model so far has {what}, which new data does not extend; start from its weights by init"
        )
    for name, mine, theirs in (
        ("order", tagger.order, known.order),
        ("sub_labels", tagger.sub_labels, known.sub_labels),
    ):
        if mine != theirs:
            raise OptionError(f"{name}={mine}: the model so far has {name}={theirs}; a model grows by more of the same")


def _checked_classes(classes: Collection[str] | None) -> Collection[str]:
    """The labels that a user names."""
    if classes is None:
        return ()
    named = classes if isinstance(classes, str) else list(classes)
    if isinstance(named, str) or not all(isinstance(label, str) for label in named):
        raise OptionError(f"classes={classes!r:.60} is not a list of labels, which are strings")
    return named
