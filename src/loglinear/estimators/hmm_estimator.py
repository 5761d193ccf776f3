"""The hidden Markov model as an estimator: labelled, partly labelled or unlabelled sequences.

It is a :class:`~loglinear.Tagger` with ``criterion="hmm"`` behind the options that are its own, and writes the same
model file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from loglinear.criteria.criterion import CRITERIA
from loglinear.criteria.hmm import HiddenMarkov
from loglinear.errors import OptionError
from loglinear.estimators.chain_model import ChainModel
from loglinear.estimators.density_predictor import DensityPredictor
from loglinear.estimators.tagger import Tagger
from loglinear.estimators.training import Progress
from loglinear.generative.hmm import HiddenMarkovModel
from loglinear.options import Spec, declared

Float = npt.NDArray[np.float64]
Tokens = list[list[tuple[str, ...]]]


class HMM(DensityPredictor, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A hidden Markov model of order 1 or 2, counted where the labels are known, by EM where they are hidden.

        p(x, y) = prod_t t(y_t given the labels before) prod_f e_f(x_tf given y_t)  t(stop given the last labels)

    ``X`` is a list of sequences; a token is a string, or a tuple of strings, which are emitted independently given the
    label. Corpora of columns read by :mod:`loglinear.data` are taken as they are. The first occurrence of every string
    in training stands for all that is new later.

    Parameters
    ----------
    order : {1, 2}
        How many labels back a label depends on.
    labels : int or None
        How many labels to find in unlabelled data; they are named ``"0"``, ``"1"``, ... None: the data's own.
    smoothing, transition_smoothing : float
        Added to each count of a value with a label, of a step from labels to a label.
    restarts : int or None
        Further starts of EM, the best of which is kept; None is none if some labels are known, else 4.
    rounds : int
        Most rounds of EM from each start.
    tolerance : float
        EM ends when a round raises the objective by less than this share of it.
    constraints : str, Constraints, dict or None
        Labellings ruled out: ``"bio"``, ``"iob1"``, ``"bioes"``, ``"bilou"``, or your own.
    threads : int or None
        Threads, all cores if None. The model is the same for any number.
    seed : int
        Seed of the starts.
    verbose : bool
        Print a line for each round.

    Attributes
    ----------
    classes_ : list of str
        The labels.
    hmm_ : HiddenMarkovModel
        The probabilities: ``steps`` and ``emissions``.
    values_ : list of list of str
        For each emitted column, the strings that ``hmm_.emissions`` are about; the last stands for all others.
    log_likelihoods_ : list of float
        Of what is observed, at the start of EM and after each round of the best start; one if all labels are known.
    objective_ : float
        What training lowers: minus the log-likelihood, and minus ``smoothing`` times the log of each emission and
        ``transition_smoothing`` times that of each step.
    n_iter_, converged_, message_, seconds_, history_ : how training went, all starts together.
    """

    converged_: bool
    message_: str
    objective_: float | None
    n_iter_: int | None
    seconds_: float | None
    history_: list[Progress]
    log_likelihoods_: list[float]

    def __init__(
        self,
        order: int = 1,
        labels: int | None = None,
        smoothing: float = 1.0,
        transition_smoothing: float = 0.0,
        restarts: int | None = None,
        rounds: int = 100,
        tolerance: float = 1e-6,
        constraints: Any = None,
        threads: int | None = None,
        seed: int = 0,
        verbose: bool = False,
    ) -> None:
        self.order = order
        self.labels = labels
        self.smoothing = smoothing
        self.transition_smoothing = transition_smoothing
        self.restarts = restarts
        self.rounds = rounds
        self.tolerance = tolerance
        self.constraints = constraints
        self.threads = threads
        self.seed = seed
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        observe: Callable[[Progress], None] | None = None,
        label_column: int = -1,
        partial: bool = False,
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
        observe : callable, optional
            Called with a :class:`Progress` after each round.
        label_column, partial
            For corpora: which column holds the labels, and whether ``*`` and ``A|B`` mean any label and either.
        """
        tagger = self._tagger().fit(
            X, y, sample_weight=sample_weight, observe=observe, label_column=label_column, partial=partial
        )
        self._keep(tagger)
        return self

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

    def save(self, path: str | Path) -> None:
        """Write the model to one file that holds data only: that of ``Tagger(criterion="hmm")``."""
        self._fitted()
        self._saved.save(path)

    def to_bytes(self) -> bytes:
        """The model file's content."""
        self._fitted()
        return self._saved.to_bytes()

    @classmethod
    def load(cls, source: str | Path | bytes) -> HMM:
        """Read a model from a file or from its bytes. Loading runs no code of the file's."""
        tagger = Tagger.load(source)
        if CRITERIA.part(tagger.criterion) is not HiddenMarkov or tagger.sub_labels > 1:
            kind = tagger.criterion if tagger.sub_labels == 1 else f"{tagger.criterion} with sub-labels"
            raise OptionError(f"the model's criterion is {kind}, not a plain hmm; load it with Tagger.load")
        options = dict(CRITERIA.spec(tagger.criterion).values)
        hmm = cls(order=tagger.order, constraints=tagger.constraints, seed=tagger.seed, **options)
        hmm._keep(tagger)
        return hmm

    # -- the tagger behind it --------------------------------------------------------------------------------------

    def _tagger(self) -> Tagger:
        """The tagger that these options ask for."""
        changed: dict[str, Any] = {}
        for name, each in declared(HiddenMarkov).items():
            value = getattr(self, name)
            each.check(value)
            if value not in (None, each.default):
                changed[name] = value if each.kind is None else each.kind(value)
        return Tagger(
            criterion=str(Spec(HiddenMarkov, changed)), order=self.order,
            constraints=self.constraints, threads=self.threads, seed=self.seed, verbose=self.verbose,
        )  # fmt: skip

    def _keep(self, tagger: Tagger) -> None:
        self._saved = tagger
        self.model_, self.classes_ = tagger.model_, tagger.classes_
        self.objective_, self.n_iter_, self.converged_ = tagger.objective_, tagger.n_iter_, tagger.converged_
        self.message_, self.seconds_, self.history_ = tagger.message_, tagger.seconds_, tagger.history_
        self.log_likelihoods_ = tagger.log_likelihoods_

    def _fitted(self) -> ChainModel:
        if not hasattr(self, "model_"):
            raise NotFittedError("this HMM has no model yet; call fit, or HMM.load")
        return self.model_
