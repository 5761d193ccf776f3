"""The estimator of sklearn-crfsuite."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.compat.pycrfsuite import Tagger, Trainer
from loglinear.compat.pycrfsuite.dump import ParsedDump
from loglinear.compat.pycrfsuite.logparser import TrainLogParser
from loglinear.compat.sklearn_crfsuite.fileresource import FileResource
from loglinear.compat.sklearn_crfsuite.trainer import LinePerIterationTrainer
from loglinear.errors import DataError, OptionError
from loglinear.estimators.conventions import Conventions

PARAMETERS = {
    "feature.minfreq": "min_freq",
    "feature.possible_states": "all_possible_states",
    "feature.possible_transitions": "all_possible_transitions",
    "c1": "c1",
    "c2": "c2",
    "max_iterations": "max_iterations",
    "num_memories": "num_memories",
    "epsilon": "epsilon",
    "period": "period",
    "delta": "delta",
    "linesearch": "linesearch",
    "max_linesearch": "max_linesearch",
    "calibration.eta": "calibration_eta",
    "calibration.rate": "calibration_rate",
    "calibration.samples": "calibration_samples",
    "calibration.candidates": "calibration_candidates",
    "calibration.max_trials": "calibration_max_trials",
    "type": "pa_type",
    "c": "c",
    "error_sensitive": "error_sensitive",
    "averaging": "averaging",
    "variance": "variance",
    "gamma": "gamma",
}  #: the estimator's name of each parameter of a trainer
Labels = list[str]
Marginals = list[dict[str, float]]


class CRF(Conventions):
    """A conditional random field over sequences of feature dicts, with sklearn-crfsuite's parameters and attributes.

    A parameter that is None has the algorithm's default; one that the algorithm does not have is refused by ``fit``.
    The model is a file of CRFsuite, ``modelfile``: a temporary one that goes with the estimator, unless
    ``model_filename`` names one, which ``fit`` writes, and which is read if there was no ``fit``.

    Attributes
    ----------
    tagger_ : Tagger
    classes_, attributes_ : list of str
    state_features_ : dict of float
        The weight of each (attribute, label).
    transition_features_ : dict of float
        The weight of each (label, next label).
    num_attributes_, size_ : int
        The size is that of the file, in bytes.
    training_log_ : TrainLogParser
        The log of ``fit``.

    All of them are None before there is a model.
    """

    def __init__(
        self,
        algorithm: str | None = None,
        min_freq: float | None = None,
        all_possible_states: bool | None = None,
        all_possible_transitions: bool | None = None,
        c1: float | None = None,
        c2: float | None = None,
        max_iterations: int | None = None,
        num_memories: int | None = None,
        epsilon: float | None = None,
        period: int | None = None,
        delta: float | None = None,
        linesearch: str | None = None,
        max_linesearch: int | None = None,
        calibration_eta: float | None = None,
        calibration_rate: float | None = None,
        calibration_samples: float | None = None,
        calibration_candidates: int | None = None,
        calibration_max_trials: int | None = None,
        pa_type: int | None = None,
        c: float | None = None,
        error_sensitive: bool | None = None,
        averaging: bool | None = None,
        variance: float | None = None,
        gamma: float | None = None,
        verbose: bool = False,
        model_filename: str | os.PathLike[str] | None = None,
        keep_tempfiles: bool = False,
        trainer_cls: type[Trainer] | None = None,
    ) -> None:
        given = dict(locals())
        for name in [*PARAMETERS.values(), "algorithm", "verbose", "model_filename", "keep_tempfiles", "trainer_cls"]:
            setattr(self, name, given[name])
        self.modelfile = FileResource(model_filename, keep_tempfiles, suffix=".crfsuite", prefix="model")
        self.training_log_: TrainLogParser | None = None
        self._tagger: Tagger | None = None
        self._info_cached: ParsedDump | None = None

    # -- training ----------------------------------------------------------------------------------------------------

    def fit(
        self, X: Iterable[Any], y: Iterable[Sequence[str]], X_dev: Iterable[Any] | None = None, y_dev: Any = None
    ) -> CRF:
        """Train; the dev data is only reported on, iteration by iteration.

        Parameters
        ----------
        X, X_dev : sequences of feature dicts or lists
        y, y_dev : their labels
        """
        if (X_dev is None) != (y_dev is None):
            raise OptionError("Pass both X_dev and y_dev to use the holdout data")
        trainer = (getattr(self, "trainer_cls", None) or LinePerIterationTrainer)(
            algorithm=self.algorithm,  # type: ignore[attr-defined]  # set by name
            params=self._trainer_parameters(),
            verbose=bool(getattr(self, "verbose", False)),
        )
        for xs, ys, group, what in ((X, y, 0, ""), (X_dev, y_dev, 1, " of the dev data")):
            if xs is not None:
                _append(trainer, xs, ys, group, what)
        self._forget()
        self.modelfile.refresh()
        assert self.modelfile.name is not None
        trainer.train(self.modelfile.name, holdout=-1 if X_dev is None else 1)
        self.training_log_ = trainer.logparser
        return self

    def _trainer_parameters(self) -> dict[str, Any]:
        given = {theirs: getattr(self, ours, None) for theirs, ours in PARAMETERS.items()}
        return {name: value for name, value in given.items() if value is not None}

    def _forget(self) -> None:
        self._tagger = self._info_cached = None

    # -- prediction --------------------------------------------------------------------------------------------------

    def _opened(self) -> Tagger:
        tagger = self.tagger_
        if tagger is None:
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("this CRF is not fitted yet: call fit, or name a model file (model_filename)")
        return tagger

    def predict(self, X: Iterable[Any]) -> npt.NDArray[np.object_]:
        """The labels of sequences: an array of lists, or a table if all are of one length."""
        return np.array(self._opened().tag_all(X), dtype=object)

    def predict_single(self, xseq: Any) -> Labels:
        """The labels of a sequence."""
        return self._opened().tag(xseq)

    def predict_marginals(self, X: Iterable[Any]) -> npt.NDArray[np.object_]:
        """The probabilities of all labels of sequences, a dict for each position."""
        return np.array(self._opened().marginals_all(X), dtype=object)

    def predict_marginals_single(self, xseq: Any) -> Marginals:
        """The probabilities of all labels of a sequence, a dict for each position."""
        tagger = self._opened()
        tagger.set(xseq)
        return tagger.marginals()

    def score(self, X: Iterable[Any], y: Any, sample_weight: Any = None) -> float:
        """The share of labels predicted right."""
        from loglinear.compat.sklearn_crfsuite.metrics import flat_accuracy_score

        return float(flat_accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    # -- the model ---------------------------------------------------------------------------------------------------

    @property
    def tagger_(self) -> Tagger | None:
        """The tagger of the model."""
        if self._tagger is None and self.modelfile.name is not None:
            tagger = Tagger()
            tagger.open(self.modelfile.name)
            self._tagger = tagger
        return self._tagger

    @property
    def _info(self) -> ParsedDump | None:
        if self._info_cached is None and self.tagger_ is not None:
            self._info_cached = self.tagger_.info()
        return self._info_cached

    @property
    def classes_(self) -> list[str] | None:
        """The labels, by their first occurrence in training."""
        return None if self.tagger_ is None else self.tagger_.labels()

    @property
    def size_(self) -> int | None:
        """The bytes of the model's file."""
        return None if self._info is None else int(self._info.header["size"])

    @property
    def num_attributes_(self) -> int | None:
        """How many attributes have a feature."""
        return None if self._info is None else int(self._info.header["num_attrs"])

    @property
    def attributes_(self) -> list[str] | None:
        """The attributes that have a feature."""
        return None if self._info is None else list(self._info.attributes)

    @property
    def state_features_(self) -> dict[tuple[str, str], float] | None:
        """The weight of each (attribute, label)."""
        return None if self._info is None else self._info.state_features

    @property
    def transition_features_(self) -> dict[tuple[str, str], float] | None:
        """The weight of each (label, next label)."""
        return None if self._info is None else self._info.transitions

    # -- pickling ----------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_tagger": None, "_info_cached": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Also of what versions 0.3 and later of the real package pickled, which may have fewer parameters."""
        CRF.__init__(self)
        vars(self).update({name: value for name, value in state.items() if name != "_sklearn_version"})
        self._forget()


def _append(trainer: Any, X: Iterable[Any], y: Iterable[Sequence[str]], group: int, what: str) -> None:
    """Give a trainer sequences; errors name the sequence."""
    xs, ys = list(X), list(y)
    if len(xs) != len(ys):
        raise DataError(f"there are {len(xs)} sequences{what}, but labels of {len(ys)}")
    for number, (xseq, yseq) in enumerate(zip(xs, ys, strict=True)):
        try:
            trainer.append(xseq, yseq, group)
        except DataError as error:
            raise type(error)(f"sequence {number}{what} (from 0): {error.message}") from None
