"""The tagger: a chain model behind scikit-learn's conventions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from loglinear import model_file
from loglinear.criteria.costs import describe
from loglinear.criteria.criterion import CRITERIA
from loglinear.criteria.hmm import HiddenMarkov
from loglinear.errors import ModelFileError, OptionError
from loglinear.estimators.estimator import keep_outcome, notes_of, restore_notes
from loglinear.estimators.options import OPTIONS, check_options, default, kept_of, l2_factor
from loglinear.estimators.tagger import file as tagger_file
from loglinear.estimators.tagger.density import DensityPredictor
from loglinear.estimators.tagger.inputs import Annotation, annotation_of, corpus_of
from loglinear.estimators.tagger.model import ChainModel
from loglinear.estimators.tagger.problem import Problem, check_emitted, prepared
from loglinear.estimators.tagger.training import (
    HOW_MANY,
    HmmInTraining,
    Plan,
    carry_out,
    check_use,
    counted,
    expectation_of,
    names_a_criterion,
    opening_tagger,
    plan_em,
    plan_weights,
)
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.gazetteer import Gazetteer
from loglinear.features.templates.language import TemplateSet
from loglinear.generative.base import OwnBase, is_own
from loglinear.generative.hmm.em import EMState
from loglinear.optimizers.optimizer import OPTIMIZERS, Optimizer, make_optimizer
from loglinear.options import spec_name
from loglinear.structures.constraints import Constraints
from loglinear.system import thread_count
from loglinear.training.checkpoint import Checkpoint, fingerprint
from loglinear.training.dev import DevData
from loglinear.training.plan import check_combination, without_effect
from loglinear.training.run import Progress, Training, TrainingOutcome, print_progress

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]


class Tagger(DensityPredictor, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Labels sequences with a log-linear chain model (a conditional random field with ``criterion="cll"``).

    ``X`` is a list of sequences. Without a template, a token is its features: a dict or a list of strings, by
    python-crfsuite's rules. With a template, a token is a row: a string, or a tuple of strings. Corpora read by
    :mod:`loglinear.data` are taken as they are.

    Parameters
    ----------
    criterion : str
        What training minimises; see :func:`loglinear.criteria.criterion.criteria`. Its own options follow its name, as
        in ``"mira:k=5,C=0.1"``.
    cost : str, mapping, array, callable or None
        For the criteria that use one, how bad which mistake is: ``"hamming:5"``, ``"recall:3"``, ``"precision:3"``,
        ``"balanced"``, a JSON file, ``{(gold, predicted): cost}``, a matrix over ``classes_``, or a function
        ``cost(gold, predicted, kind)`` (:mod:`loglinear.criteria.costs`). None is ``"hamming:1"``.
    optimizer : str or None
        How the weights are found, with its options (``"sgd:step=0.1,average"``); None is the criterion's first choice
        that applies.
        See :func:`loglinear.optimizers.optimizer.optimizers`.
    base : str, object or None
        For ``m-estimation``, the generative model it starts from: ``"hmm"`` (None is the same), ``"locally-uniform"``
        or ``"empirical"`` (:mod:`loglinear.generative.base`). ``"hmm:samples=100000"`` estimates the expectations by
        drawing. Or a distribution of your own, with ``log_prob(x, y)`` and ``sample(n, rng)``
        (:mod:`loglinear.generative.base`).
    template : str, path, TemplateSet or None
        A named set (``chunking``, ``pos``, ``ner``, ``words``), the text of a template, a template file, or templates
        as objects. None: tokens come as features.
    order : {1, 2}
        How many labels back a label depends on.
    l1, l2, variance : float
        The objective is the sum of the losses + l1 |w| + l2 ||w||^2; ``variance`` c means l2 = 1 / 2c. l2 is 1 if
        neither is given; online learners take no penalty.
    sub_labels : int
        Hidden states that each label is split into, told apart in training from a random start.
    min_count : int
        Attributes seen fewer times in training are left out.
    hash_bits : int or None
        Attributes are hashed into 2^hash_bits buckets instead of being kept by name (8 to 26). Those that fall into the
        same bucket share their weights; the model knows no names.
    states : {"observed", "all"}
        Which (attribute, label) pairs get a weight.
    transitions : {"observed", "all", "none"}
        Which label bigrams (and trigrams) get a weight.
    pair_features : bool
        Join every attribute with the pair of labels as well as with the label.
    prune : float or None
        Share of the weights to leave out of the trained model, those nearest to zero.
    precision : {"float64", "float32", "float16"}
        Numbers that the trained weights are kept as, in memory and in the model file.
    constraints : str, Constraints, dict or None
        Labellings ruled out: ``"bio"``, ``"iob1"``, ``"bioes"``, ``"bilou"``, or your own.
    gazetteers : sequence of Gazetteer or paths, optional
        Lists of known names for the template to look at; the named sets look at all of them.
    max_iter : int or None
        Most iterations of the optimizer (passes over the data, where it goes sequence by sequence); None is 1000 for
        L-BFGS and dual ascent, 50 for stochastic and 20 for online ones.
    tolerance : float
        Stop when 10 iterations of L-BFGS lower the objective by less than this share of it, or when ``dual`` has the
        primal and dual objectives within 200 times this share of each other.
    metric : {"auto", "f1", "accuracy"}
        What the dev data is judged by; auto is chunk F1 if the labels are those of chunks.
    patience : int
        With dev data, stop after so many iterations without a better score; the best weights are kept.
    threads : int or None
        Threads, all cores if None. The weights are the same for any number.
    seed : int
        Seed of all that is random: the order of the sequences, samples, the start of sub-labels.
    verbose : bool
        Print a line for each iteration.

    Attributes
    ----------
    classes_ : list of str
        The labels, sorted.
    model_ : ChainModel
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

    objective_: float | None
    n_iter_: int | None
    n_evaluations_: int | None
    converged_: bool
    message_: str
    seconds_: float | None
    history_: list[Progress]
    dev_score_: float | None
    best_iteration_: int | None
    n_features_trained_: int
    pruned_score_: float | None
    log_likelihoods_: list[float]

    def __init__(
        self,
        criterion: str = "cll",
        cost: Any = None,
        optimizer: str | None = None,
        base: Any = None,
        template: str | Path | TemplateSet | None = None,
        order: int = 1,
        l1: float = 0.0,
        l2: float | None = None,
        variance: float | None = None,
        sub_labels: int = 1,
        min_count: int = 1,
        hash_bits: int | None = None,
        states: str = "observed",
        transitions: str = "observed",
        pair_features: bool = False,
        prune: float | None = None,
        precision: str = default("precision"),
        constraints: str | Constraints | dict[str, Any] | None = None,
        gazetteers: Sequence[Gazetteer | str | Path] | None = None,
        max_iter: int | None = None,
        tolerance: float = default("tolerance"),
        metric: str = "auto",
        patience: int = default("patience"),
        threads: int | None = None,
        seed: int = 0,
        verbose: bool = False,
    ) -> None:
        self.criterion = criterion
        self.cost = cost
        self.optimizer = optimizer
        self.base = base
        self.template = template
        self.order = order
        self.l1 = l1
        self.l2 = l2
        self.variance = variance
        self.sub_labels = sub_labels
        self.min_count = min_count
        self.hash_bits = hash_bits
        self.states = states
        self.transitions = transitions
        self.pair_features = pair_features
        self.prune = prune
        self.precision = precision
        self.constraints = constraints
        self.gazetteers = gazetteers
        self.max_iter = max_iter
        self.tolerance = tolerance
        self.metric = metric
        self.patience = patience
        self.threads = threads
        self.seed = seed
        self.verbose = verbose

    # -- training ------------------------------------------------------------------------------------------------

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
        checkpoint: str | Path | None = None,
        checkpoint_seconds: float = 30.0,
        resume: bool = False,
        observe: Callable[[Progress], None] | None = None,
        label_column: int = -1,
        partial: bool = False,
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
            Start from the weights of this model where it has the same features, its generative base included; with the
            name of a criterion (``"m-estimation"``), from a model trained by that on the same data first.
        keep : int, optional
            Train only so many features, those that say most in the model to start from: |weight| times the root of
            how often it occurs.
        checkpoint : path, optional
            File that keeps a usable model and all that is needed to go on, written every ``checkpoint_seconds`` and
            when training is interrupted. Remove it when you have saved the model.
        resume : bool
            Go on from ``checkpoint`` if it is there.
        observe : callable, optional
            Called with a :class:`Progress` after each iteration.
        label_column, partial
            For corpora: which column holds the labels, and whether ``*`` and ``A|B`` mean any label and either.
        """
        self.check_options()
        if keep is not None and (init is None or keep < 1):
            what = "needs a model to start from (init)" if init is None else "must be at least 1"
            raise OptionError(f"keep={keep} {what}")
        n_threads = thread_count(self.threads)
        problem = self.problem(X, y, sample_weight=sample_weight, label_column=label_column, partial=partial)
        criterion = problem.criterion(self.criterion, self.cost)
        seconds_before, began_by = 0.0, None
        if isinstance(criterion, HiddenMarkov):
            expectation = expectation_of(problem, criterion, n_threads)
            check_use(criterion, expectation, init is not None, X_dev is not None)
            if expectation.settled:
                self._keep(*counted(HmmInTraining(problem.model), expectation))
                self.message_ += without_effect(self.criterion)
                return self
            plan = plan_em(problem, criterion, expectation, self.seed, X_dev is not None)
        else:
            if names_a_criterion(init):
                opening = opening_tagger(self, str(init))
                if opening._emits_columns():
                    check_emitted(problem.corpus, f"init={str(init)!r}")
                init = opening.fit(X, y, sample_weight=sample_weight, label_column=label_column, partial=partial)
                seconds_before, began_by = opening.seconds_ or 0.0, spec_name(opening.criterion)
            plan = plan_weights(
                problem, criterion, self._optimizer, self._l2(), None if init is None else _model_of(init),
                keep=keep, seed=self.seed, n_threads=n_threads,
            )  # fmt: skip
            began_by = began_by or plan.starts_from
        dev = None
        if X_dev is not None:
            dev = DevData.of(plan.trained, X_dev, y_dev, label_column, partial, self.metric, n_threads)
        elif y_dev is not None:
            raise OptionError("y_dev is given without X_dev; give both, or none")
        kept = None if checkpoint is None else self._checkpoint(Path(checkpoint), plan, dev)
        training = functools.partial(
            Training, l1=self.l1, patience=self.patience, checkpoint_seconds=checkpoint_seconds,
            observe=observe or (print_progress if self.verbose else None),
        )  # fmt: skip
        model, outcome = carry_out(plan, training, dev, kept, resume, n_threads)
        self._keep(model, replace(outcome, seconds=outcome.seconds + seconds_before))
        if self.prune is not None and X_dev is not None:
            kept_dev = DevData.of(self.model_, X_dev, y_dev, label_column, partial, self.metric, n_threads)
            self.pruned_score_ = kept_dev.score(self.model_.weights)
        if began_by is not None:
            self.message_ = f"from the weights of a model of {began_by}: {self.message_}"
        if problem.gold.allowed is None:
            self.message_ += without_effect(self.criterion)
        return self

    def _checkpoint(self, path: Path, plan: Plan, dev: DevData | None) -> Checkpoint:
        """Where to keep what is needed to go on."""
        varying = ("threads", "verbose", "max_iter", "prune", "precision")
        options = {
            k: v for k, v in self.get_params(deep=False).items() if k not in (*varying, "cost")
        }  # that is kept as a table
        if is_own(self.base):  # what it says of the training data is among what must be the same, too
            own = OwnBase.of(self.base)
            options["base"] = (own.name, own.samples, own.smoothing)
        same = plan.same_data if dev is None else [*plan.same_data, *dev.arrays]
        mark = fingerprint({**options, "labels": plan.trained.labels}, same)
        return Checkpoint(path, plan.trained, self._stored_options(), mark)

    def _optimizer(self, first_choice: str) -> Optimizer:
        spec = first_choice if self.optimizer is None else self.optimizer
        return make_optimizer(spec, max_iter=self.max_iter, tolerance=self.tolerance, seed=self.seed)

    def _l2(self) -> float:
        """The factor of ||w||^2, none for optimizers that take no penalty."""
        spec = self.optimizer or CRITERIA.part(self.criterion).optimizers[0]
        return l2_factor(self.l2, self.variance) if OPTIMIZERS.part(spec).takes_l2 else 0.0

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

    def _keep(self, model: ChainModel, outcome: TrainingOutcome) -> None:
        # Weights are kept to the precision of the model file, so that a saved model answers exactly as this one does.
        self.model_ = model.with_weights(outcome.weights).rounded(self.precision)
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
        check_options(self.get_params(deep=False))
        l2_factor(self.l2, self.variance)
        thread_count(self.threads)
        check_combination(self)

    # -- files ---------------------------------------------------------------------------------------------------

    def _stored_options(self) -> dict[str, Any]:
        """Constructor options that a model file keeps: all that JSON can hold and the model does not say itself."""
        options = self.get_params(deep=False)
        for name in ("template", "constraints", "gazetteers", "threads", "verbose"):
            options.pop(name)
        options["cost"] = None if self.cost is None else describe(self.cost)
        options["base"] = None if is_own(self.base) else self.base  # the file says so where it describes the base
        return {k: v.item() if isinstance(v, np.generic) else v for k, v in options.items()}

    def _storage(self, precision: str | None) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        if precision is not None and not CRITERIA.part(self.criterion).learns_weights:
            raise OptionError(
                f"precision={precision!r}: criterion={self.criterion!r} has no weights to be kept as such"
            )
        precision = self.precision if precision is None else precision
        OPTIONS["precision"].check(precision)
        model, options = self._fitted().rounded(precision), {**self._stored_options(), "precision": precision}
        training = {
            **notes_of(self),
            "features": self.n_features_trained_,
            "evaluations": self.n_evaluations_,
            "pruned_score": self.pruned_score_,
        }
        return tagger_file.to_storage(model, options, training, precision)

    def save(self, path: str | Path, precision: str | None = None) -> None:
        """Write the model to one file that holds data only, its weights as ``precision`` (else the tagger's own)."""
        model_file.save(path, tagger_file.KIND, *self._storage(precision))

    def to_bytes(self, precision: str | None = None) -> bytes:
        """The model file's content."""
        return model_file.dumps(tagger_file.KIND, *self._storage(precision))

    @classmethod
    def load(cls, source: str | Path | bytes, base: Any = None) -> Tagger:
        """Read a model from a file or from its bytes. Loading runs no code of the file's.

        ``base`` is the user's own distribution, for a model that was trained over one: files do not hold it.
        """
        stored = model_file.load(source, kind=tagger_file.KIND)
        name = "the model" if isinstance(source, bytes | bytearray | memoryview) else str(source)
        own = tagger_file.own_base(stored.header, base, name)
        model = tagger_file.from_storage(stored.header, stored.arrays, name, own)
        try:
            options, training = dict(stored.header["options"]), dict(stored.header["training"])
            tagger = cls(**options)
            tagger.base = tagger.base if own is None else base
            tagger.check_options()
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"{name}: the model's options cannot be read ({error}); train anew") from None
        if isinstance(model.encoder, TemplateEncoder) and CRITERIA.part(tagger.criterion).learns_weights:
            tagger.template = model.encoder.templates
            tagger.gazetteers = list(model.encoder.gazetteers.values()) or None
        tagger.constraints = model.constraints
        tagger.model_ = model
        tagger.classes_ = list(model.labels)
        tagger.n_features_trained_ = training.get("features", model.features.n_features)
        restore_notes(tagger, training)
        tagger.n_evaluations_ = training.get("evaluations")
        tagger.pruned_score_ = training.get("pruned_score")
        tagger.log_likelihoods_ = []
        return tagger


def _model_of(init: Tagger | str | Path) -> ChainModel:
    return (init if isinstance(init, Tagger) else Tagger.load(init))._fitted()
