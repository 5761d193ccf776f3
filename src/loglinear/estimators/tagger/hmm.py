"""Estimators made of hidden Markov models: a tagger, and a classifier of whole inputs.

:class:`HMM` learns from labelled, partly labelled or unlabelled sequences. It is a :class:`~loglinear.Tagger` with
``criterion="hmm"`` behind options of its own, and writes the same model file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np

from loglinear import model_file
from loglinear.arrays import Array, Arrays, Float
from loglinear.criteria.criterion import CRITERIA
from loglinear.criteria.hmm import HiddenMarkov
from loglinear.data.columns.corpus import Columns
from loglinear.errors import DataError, OptionError
from loglinear.estimators.conventions import ClassifierConventions, clone
from loglinear.estimators.estimator import Fitted, RunKeywords, TrainedEstimator, trains
from loglinear.estimators.options import HMMOptions
from loglinear.estimators.summary import Summary
from loglinear.estimators.tagger.combined import member_sections
from loglinear.estimators.tagger.density import DensityPredictor
from loglinear.estimators.tagger.estimator import Tagger
from loglinear.estimators.tagger.inputs import corpus_of
from loglinear.estimators.tagger.model import ChainModel
from loglinear.estimators.tagger.summary import PartsOfEM
from loglinear.generative.hmm.model import HiddenMarkovModel
from loglinear.model_file import Reader, label_header
from loglinear.options import Spec, declared, documented, spec_name
from loglinear.training.problem import example_weights
from loglinear.wording import how_many

LEARNT = (
    "model_", "classes_", "objective_", "n_iter_", "converged_", "message_", "seconds_", "history_", "log_likelihoods_",
    "dev_score_", "best_iteration_",
)  # fmt: skip


@documented
class HMM(HMMOptions, DensityPredictor, TrainedEstimator[ChainModel]):
    """A hidden Markov model of order 1 or 2, counted where the labels are known, by EM where they are hidden.

        p(x, y) = prod_t t(y_t given the labels before) prod_f e_f(x_tf given y_t)  t(stop given the last labels)

    ``X`` is a list of sequences; a token is a string, or a tuple of strings, which are emitted independently given the
    label. Corpora of columns read by :mod:`loglinear.data` are taken as they are. The first occurrence of every string
    in training is treated as unknown, which gives new strings their probability.

    PARAMETERS

    Attributes
    ----------
    classes_ : list of str
        The labels.
    hmm_ : HiddenMarkovModel
        The probabilities: ``steps`` and ``emissions``.
    values_ : list of list of str
        For each emitted column, the strings that ``hmm_.emissions`` are about; the last is for all others.
    log_likelihoods_ : list of float
        Of what is observed, at the start of EM and after each round of the best start; one if all labels are known.
    objective_ : float
        What training lowers: minus the log-likelihood, and minus ``smoothing`` times the log of each emission and
        ``transition_smoothing`` times that of each step.
    n_iter_, converged_, message_, seconds_, history_ : how training went, all starts together.
    dev_score_, best_iteration_ : score and round of the probabilities kept, None without dev data.
    """

    kind = Tagger.kind
    in_file = ("model_", "_saved")
    log_likelihoods_: list[float]
    _parts_of_em: PartsOfEM | None = None

    @trains
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        X_dev: Any = None,
        y_dev: Any = None,
        init: Any = None,
        label_column: int = -1,
        partial: bool = False,
        **run: Unpack[RunKeywords],
    ) -> HMM:
        """Count, or run EM.

        Parameters
        ----------
        X, y
            Sequences and their labels. A label is a string, None (unknown) or a set of strings (one of them). Without
            ``y`` the sequences are unlabelled, and ``labels`` says how many to find; if it does not, ``X`` is a corpus
            with a column of labels.
        sample_weight : array of float, optional
            How often each sequence counts.
        X_dev, y_dev
            Data to stop EM early by; the probabilities with the best score on it are kept.
        init : HMM, Tagger or path, optional
            Start EM from the probabilities of this model, for labels and values that it has.
        KEYWORDS
        label_column, partial
            For corpora: which column holds the labels, and whether ``*`` and ``A|B`` mean any label and either.
        """
        tagger = self._tagger()
        try:
            tagger.fit(
                X, y, X_dev, y_dev, sample_weight=sample_weight, init=init, label_column=label_column, partial=partial,
                **run,
            )  # fmt: skip
        finally:
            if hasattr(tagger, "model_"):  # also of a training that was interrupted
                self._keep(tagger)
        return self

    def summarize(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, label_column: int = -1, partial: bool = False
    ) -> Summary:
        """What a part of the data contributes to the model, as :meth:`loglinear.Tagger.summarize`."""
        given: dict[str, Any] = {"label_column": label_column, "partial": partial}
        return self._tagger_in_em().summarize(X, y, sample_weight, **given)

    def from_summaries(self, summaries: Iterable[Summary | str | Path], init: Any = None) -> HMM:
        """The model of all parts together, or a round of EM, as :meth:`loglinear.Tagger.from_summaries`."""
        self._keep(self._tagger_in_em().from_summaries(summaries, init))
        return self

    def _tagger_in_em(self) -> Tagger:
        """The tagger of these options, with the model of EM over parts if it has begun."""
        tagger = self._tagger()
        if self._parts_of_em is not None:
            tagger.model_, tagger._parts_of_em = self._fitted(), self._parts_of_em
        return tagger

    @property
    def finds_labels(self) -> bool:
        """Whether the labels are to be found in unlabelled data."""
        return self.labels is not None

    @property
    def hmm_(self) -> HiddenMarkovModel:
        """The probabilities."""
        return self._fitted().hmm_base.model

    @property
    def values_(self) -> list[list[str]]:
        """The strings of each emitted column."""
        return self._fitted().hmm_base.vocabulary.values

    # -- files ---------------------------------------------------------------------------------------------------

    def _storage(self) -> tuple[dict[str, Any], Arrays]:
        """What ``Tagger(criterion="hmm")`` stores."""
        self._fitted()
        return self._saved._storage()

    @classmethod
    def _read(cls, read: Reader, given: Mapping[str, Any]) -> Self:
        tagger = Tagger._read(read, given)
        if CRITERIA.part(tagger.criterion) is not HiddenMarkov or tagger.sub_labels > 1:
            kind = tagger.criterion if tagger.sub_labels == 1 else f"{tagger.criterion} with sub-labels"
            raise OptionError(f"the model's criterion is {kind}, not a plain hmm; load it with Tagger.load")
        options = dict(CRITERIA.spec(tagger.criterion).values)
        hmm = cls(
            order=tagger.order, constraints=tagger.constraints, seed=tagger.seed, patience=tagger.patience, **options
        )
        hmm._keep(tagger)
        return hmm

    def _restore(self, read: Reader, given: Mapping[str, Any]) -> None:
        self._keep(Tagger._read(read, given))

    # -- the tagger behind it --------------------------------------------------------------------------------------

    def _tagger(self) -> Tagger:
        """The tagger that these options ask for."""
        changed: dict[str, Any] = {}
        for name, option in declared(HiddenMarkov).items():
            value = getattr(self, name)
            option.check(value)
            if value not in (None, option.default):
                changed[name] = value if option.kind is None else option.kind(value)
        return Tagger(
            criterion=str(Spec(HiddenMarkov, changed)), order=self.order,
            constraints=self.constraints, threads=self.threads, seed=self.seed, verbose=self.verbose,
            patience=self.patience,
        )  # fmt: skip

    def _keep(self, tagger: Tagger) -> None:
        self._saved, self._parts_of_em = tagger, tagger._parts_of_em
        for name in LEARNT:
            setattr(self, name, getattr(tagger, name))


# ----------------------------------------------------------------------------------------------------------------------
# Classes of whole inputs by the marginal likelihood of generative taggers, one for each class.
#
#     p(c given x)  proportional to  p(c) p_c(x)        p_c(x) = sum_y p_c(x, y), one forward pass
#
# Each tagger knows the values that its own class repeats, and gives one probability to all others together. These are
# not the same events for two classes: the fewer values a class knows, the more its ``<unknown>`` covers, and the
# greater its probability. All classes are therefore brought to the same set of values, those seen in any of them and
# one for all that was seen in none. A class with K known values of V in all divides its ``<unknown>`` evenly,
#
#     p_c(v given label) = p_c(<unknown> given label) / (V - K + 1)        for each v that c does not know,
#
# for each column. Every p_c then is a distribution over sequences of the same values, and adds up to one.

PRIORS = ("empirical", "uniform")
GENERATIVE = ("hmm", "m-estimation")  # criteria whose models have p(x)
ONLY_LABEL = "_"


class InputClassifier(Fitted[list[Tagger | HMM]], ClassifierConventions):  # its model file holds those of its taggers
    """Classifies sequences by which class' generative model makes them most probable.

    Parameters
    ----------
    tagger : Tagger, HMM or None
        A tagger of the criteria ``hmm`` or ``m-estimation``, of which each class trains a copy; None is
        ``Tagger(criterion="hmm")``.
    prior : {"empirical", "uniform"}
        Probability of a class before its input is seen: its share of the training data, or the same for all.

    Attributes
    ----------
    classes_ : array [C]
        The classes, sorted.
    taggers_ : list of Tagger or HMM
        The model of each class.
    log_prior_ : float64 [C]
    shares_ : list of list of int
        For each class and column, how many values its ``<unknown>`` is shared by.
    """

    kind = "input-classifier"
    functions = ()
    learnt = "taggers_"
    label_key_: str | None = None  # where the command line found the classes
    classes_: Array
    taggers_: list[Tagger | HMM]
    log_prior_: Float
    shares_: list[list[int]]

    def __init__(self, tagger: Tagger | HMM | None = None, prior: str = "empirical") -> None:
        self.tagger = tagger
        self.prior = prior

    def check_options(self) -> None:
        """Refuse options that make no sense, as :meth:`fit` does first of all."""
        if self.prior not in PRIORS:
            raise OptionError(f"prior={self.prior!r} is not one of {', '.join(PRIORS)}")
        if self.tagger is not None and not isinstance(self.tagger, Tagger | HMM):
            raise OptionError(f"tagger={self.tagger!r:.60} is neither a Tagger nor an HMM")
        if isinstance(self.tagger, Tagger) and spec_name(self.tagger.criterion) not in GENERATIVE:
            raise OptionError(
                f"criterion={self.tagger.criterion!r} is of a conditional model, without p(x) to classify "
                f"by; take {' or '.join(GENERATIVE)}"
            )

    def fit(
        self, X: Any, y: Any, labels: Any = None, *, sample_weight: Any = None, labelled: bool = True
    ) -> InputClassifier:
        """Train a model for each class.

        Parameters
        ----------
        X
            Sequences of tokens (strings, or tuples of them), or a corpus of columns whose last one holds the labels.
        y : sequence
            The class of each sequence.
        labels : sequence of label sequences, optional
            The labels of the tokens. If there are none, all tokens have the same: the order of values does not count
            then, unless the tagger has features that see it, or finds labels itself (``hmm:labels=2``).
        sample_weight : array of float, optional
            Weight of each sequence.
        labelled : bool
            For corpora: whether the last column holds the labels.
        """
        self.check_options()
        tagger = Tagger(criterion="hmm") if self.tagger is None else self.tagger
        corpus = _columns(X)
        classes, numbers = np.unique(np.asarray(y), return_inverse=True)
        if len(numbers) != len(corpus):
            raise DataError(f"X has {how_many(len(corpus), 'sequence')}, but y {how_many(len(numbers), 'class')}")
        own = labelled and isinstance(X, Columns) and X.unlabelled is None
        if labels is None and not tagger.finds_labels and not own:
            labels = [[ONLY_LABEL] * length for length in np.diff(corpus.offsets).tolist()]
        if labels is not None and len(labels) != len(corpus):
            raise DataError(f"X has {how_many(len(corpus), 'sequence')}, and there are labels for {len(labels)}")
        weights = np.ones(len(corpus)) if sample_weight is None else example_weights(sample_weight, len(corpus))
        taggers: list[Tagger | HMM] = []
        for c, name in enumerate(classes.tolist()):
            members = np.flatnonzero(numbers == c)
            if not weights[members].any():
                raise DataError(f"the sequences of class {name!r} all have weight zero: there is nothing to learn from")
            member_labels = None if labels is None else [labels[i] for i in members.tolist()]
            member_weights = None if sample_weight is None else weights[members]
            taggers.append(clone(tagger).fit(corpus.select(members), member_labels, sample_weight=member_weights))
            taggers[-1]._density()  # refuses models that have no p(x)
        totals = np.bincount(numbers, weights)
        shares = totals / totals.sum() if self.prior == "empirical" else np.full(len(classes), 1.0 / len(classes))
        self.classes_, self.taggers_, self.log_prior_ = classes, taggers, np.log(shares)
        self.shares_ = [_shares(each, corpus) for each in taggers]
        return self

    # -- files -----------------------------------------------------------------------------------------------------
    #
    # header   prior, label_key, classes (type and values), shares, hmm (whether the members are HMM objects);
    #          members: {"0": what the file of the first tagger has, ...}
    # arrays   log_prior [C]; members.0.*, members.1.*, ...

    def _storage(self) -> tuple[dict[str, Any], Arrays]:
        members = [tagger._storage() for tagger in self._fitted()]
        header = {
            "prior": self.prior,
            "label_key": self.label_key_,
            "classes": label_header(self.classes_),
            "shares": self.shares_,
            "hmm": isinstance(self.taggers_[0], HMM),
            "members": {str(c): own for c, (own, _) in enumerate(members)},
        }
        arrays: Arrays = {"log_prior": self.log_prior_}
        for c, (_, own) in enumerate(members):
            arrays |= {f"members.{c}.{name}": array for name, array in own.items()}
        return header, arrays

    def save(self, path: str | Path) -> None:
        """Write the models of all classes to one file that holds data only."""
        model_file.save(path, self.kind, *self._storage())

    def to_bytes(self) -> bytes:
        """The model file's content."""
        return model_file.dumps(self.kind, *self._storage())

    @classmethod
    def load(cls, source: str | Path | bytes) -> Self:
        """Read a model from a file or from its bytes. Loading runs no code of the file's."""
        return cls._read(model_file.read(source, cls.kind), {})

    @classmethod
    def _read(cls, read: Reader, given: Mapping[str, Any]) -> Self:
        classes, kind = read.labels(key="classes"), HMM if read.flag("hmm") else Tagger
        sections = member_sections(read)
        if len(sections) != len(classes):
            read.fail("members", f"{how_many(len(sections), 'model')} for {how_many(len(classes), 'class')}")
        taggers: list[Tagger | HMM] = [kind._read(section, {}) for section in sections]
        shares = read.value("shares")
        with read.building("members"):
            for tagger in taggers:
                tagger._density()
            sizes = [len(tagger.model_.hmm_base.vocabulary.columns) for tagger in taggers]
        whole = isinstance(shares, list) and all(isinstance(own, list) for own in shares)
        if not whole or [len(own) for own in shares] != sizes or not all(_is_count(n) for own in shares for n in own):
            read.fail("shares", "not a number of values for each class and column")
        key = None if read.value("label_key") is None else read.text("label_key")
        classifier = cls(clone(taggers[0]), read.choice("prior", PRIORS))
        classifier.classes_, classifier.taggers_, classifier.shares_ = classes, taggers, shares
        classifier.log_prior_, classifier.label_key_ = read.log_shares("log_prior", len(classes)), key
        return classifier

    # -- use -------------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """The most probable class of each sequence [S]."""
        joint = self.predict_joint_log_proba(X)
        return self.classes_[np.argmax(joint, axis=1)]

    def predict_log_proba(self, X: Any) -> Float:
        """log p(c given x) [S, C]; the prior where no class can make the input."""
        joint = self.predict_joint_log_proba(X)
        impossible = np.isneginf(joint).all(axis=1)
        joint[impossible] = self.log_prior_
        return joint - np.logaddexp.reduce(joint, axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> Float:
        """p(c given x) [S, C]."""
        return np.exp(self.predict_log_proba(X))

    def predict_joint_log_proba(self, X: Any) -> Float:
        """log p(c) + log p_c(x) [S, C], over the values that all classes share."""
        taggers, corpus = self._fitted(), _columns(X)
        joint = np.empty((len(corpus), len(self.classes_)))
        for c, (tagger, shares) in enumerate(zip(taggers, self.shares_, strict=True)):
            joint[:, c] = self.log_prior_[c] + tagger.log_prob(corpus) - _log_shares(tagger, shares, corpus)
        return joint


def _is_count(value: Any) -> bool:
    return type(value) is int and 1 <= value < 2**53


def _columns(X: Any) -> Columns:
    corpus = corpus_of(X, as_rows=True)
    assert isinstance(corpus, Columns)
    return corpus


def _shares(tagger: Tagger | HMM, corpus: Columns) -> list[int]:
    """How many values each column's unknown value covers: those of the corpus, and one for all others."""
    base = tagger.model_.hmm_base
    counts = []
    for c, values in zip(base.vocabulary.columns, base.vocabulary.values, strict=True):
        column = corpus.column(c)
        seen = {column.values[v] for v in np.flatnonzero(np.bincount(column.ids)).tolist()}
        counts.append(len(seen - set(values[:-1])) + 1)
    return counts


def _log_shares(tagger: Tagger | HMM, shares: list[int], corpus: Columns) -> Float:
    """log of what the probability of each sequence [S] is divided by, as its unknown values are shared."""
    base = tagger.model_.hmm_base
    total = np.zeros(corpus.n_tokens)
    fields = base.vocabulary.fields(base.vocabulary.transform(corpus))
    for ids, values, share in zip(fields, base.vocabulary.values, shares, strict=True):
        total[ids == len(values) - 1] += np.log(share)
    return np.add.reduceat(total, corpus.offsets[:-1]) if len(corpus) else np.zeros(0)
