"""The trainer of python-crfsuite: takes labelled sequences, trains by one of five algorithms, writes a CRFsuite model.

The log is CRFsuite's, line by line (:mod:`~loglinear.compat.pycrfsuite.logparser` reads it), so that programs that
read, print or plot it go on doing so. What differs: passes of dual ascent and iterations of L-BFGS are numbered on, the
step of a line search is not known and said to be 1, and the gradient's norm after a pass of dual ascent, which would
take another pass, is worked out for those who look on (``verbose``), and NaN for others.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from loglinear.compat.pycrfsuite.dataset import Dataset
from loglinear.compat.pycrfsuite.items import ItemError, ItemSequence, items_of, label_text
from loglinear.compat.pycrfsuite.logparser import TrainLogParser
from loglinear.compat.pycrfsuite.parameters import ALGORITHMS, Parameter, algorithm_of
from loglinear.errors import DataError, OptionError
from loglinear.foreign.crfsuite import write_crfsuite
from loglinear.system import replace_file

TITLES = {
    "lbfgs": "L-BFGS optimization",
    "l2sgd": "Stochastic Gradient Descent (SGD)",
    "averaged-perceptron": "Averaged perceptron",
    "passive-aggressive": "Passive Aggressive",
    "arow": "Adaptive Regularization of Weights (AROW)",
}
LOGGED_AS = {"period": "stop", "max_linesearch": "linesearch.max_iterations"}  # by lbfgs
ORDER = ("c1", "c2", "num_memories", "max_iterations", "epsilon", "period", "delta", "linesearch", "max_linesearch")


class BaseTrainer:
    """A trainer whose :meth:`message` prints the log.

    Parameters
    ----------
    algorithm : {"lbfgs", "l2sgd", "ap", "averaged-perceptron", "pa", "passive-aggressive", "arow"}, optional
    params : dict, optional
        Values of the algorithm's parameters (:meth:`set`).
    verbose : bool
        Whether to print the log.
    """

    verbose: bool = True
    _algorithm: str
    _values: dict[str, Any]
    _data: Dataset

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        """A trainer that works even if a subclass does not call ``__init__``."""
        self = super().__new__(cls)
        self._data = Dataset()
        BaseTrainer.select(self, "lbfgs")
        return self

    def __init__(
        self, algorithm: str | None = None, params: Mapping[str, Any] | None = None, verbose: bool = True
    ) -> None:
        if algorithm is not None:
            self.select(algorithm)
        if params is not None:
            self.set_params(params)
        self.verbose = verbose

    # -- parameters --------------------------------------------------------------------------------------------------

    def select(self, algorithm: str, type: str = "crf1d") -> None:
        """Choose an algorithm; all its parameters are at their defaults then."""
        name = algorithm_of(algorithm)
        if type != "crf1d":
            raise OptionError(f"type={type!r:.60} is not known; there is crf1d, the first-order chain")
        self._algorithm = name
        self._values = {each.name: each.default for each in ALGORITHMS[name]}

    def params(self) -> list[str]:
        """The names of the algorithm's parameters."""
        return list(self._values)

    def _parameter(self, name: str) -> Parameter:
        for each in ALGORITHMS[self._algorithm]:
            if each.name == name:
                return each
        raise OptionError(f"Parameter not found: {name!s:.60}; {self._algorithm} has {', '.join(self._values)}")

    def set(self, name: str, value: Any) -> None:
        """Set a parameter; numbers may come as text."""
        self._values[name] = self._parameter(name).read(value)

    def get(self, name: str) -> Any:
        """The value of a parameter."""
        return self._values[self._parameter(name).name]

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Set parameters by name."""
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, Any]:
        """The values of all parameters."""
        return dict(self._values)

    def help(self, name: str) -> str:
        """What a parameter is."""
        return self._parameter(name).help

    # -- data --------------------------------------------------------------------------------------------------------

    def append(self, xseq: Iterable[Any] | ItemSequence, yseq: Iterable[str], group: int = 0) -> None:
        """Add a sequence with its labels; the ``group`` is what ``holdout`` of :meth:`train` may name."""
        if isinstance(yseq, str | bytes):
            raise ItemError(f"the labels of a sequence are a list of strings, not {yseq!r:.60}")
        labels = [label_text(label, t) for t, label in enumerate(yseq)]
        self._data.append(items_of(xseq), labels, int(group))

    def clear(self) -> None:
        """Remove all sequences."""
        self._data = Dataset()

    # -- training ----------------------------------------------------------------------------------------------------

    def message(self, message: str) -> None:
        """Take a piece of the log; to be overridden by who wants it elsewhere."""
        if self.verbose:
            print(message, end="")

    def _before_train(self) -> None:
        pass

    def train(self, model: str | os.PathLike[str], holdout: int = -1) -> None:
        """Train on all sequences but those of the group ``holdout``, and write the model as a file of CRFsuite.

        The holdout data is evaluated after each iteration and logged, no more. No file is written if ``model`` is the
        empty string.
        """
        target = Path(os.fsdecode(model)) if os.fsdecode(model) else None
        if target is not None and not target.parent.is_dir():
            raise FileNotFoundError(f"{target}: there is no folder {target.parent}")
        _check_names(self._data)
        self._before_train()
        _Training(self, holdout).run(target)

    def _shows_all(self) -> bool:
        return bool(self.verbose)


class Trainer(BaseTrainer):
    """A trainer with a log parser and a method for each of its events.

    Attributes
    ----------
    logparser : TrainLogParser or None
        What the log of the last training says.
    """

    logparser: TrainLogParser | None = None

    def _before_train(self) -> None:
        self.logparser = TrainLogParser()

    def message(self, message: str) -> None:
        """Parse a piece of the log, and call the method of the event that it ends, if the trainer is verbose."""
        assert self.logparser is not None
        event = self.logparser.feed(message)
        if not self.verbose or event is None:
            return
        more: list[Any] = []
        if event == "featgen_progress":
            more = [self.logparser.featgen_percent]
        elif event == "iteration":
            more = [self.logparser.last_iteration]
        getattr(self, f"on_{event}")(self.logparser.last_log, *more)

    def on_start(self, log: str) -> None:
        """Training begins."""
        print(log, end="")

    def on_featgen_progress(self, log: str, percent: int) -> None:
        """Some of the features have been generated."""
        print(log, end="")

    def on_featgen_end(self, log: str) -> None:
        """All features have been generated."""
        print(log, end="")

    def on_prepared(self, log: str) -> None:
        """The algorithm has begun."""
        print(log, end="")

    def on_prepare_error(self, log: str) -> None:
        """The algorithm could not begin."""
        print(log, end="")

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:
        """An iteration has ended."""
        print(log, end="")

    def on_optimization_end(self, log: str) -> None:
        """The algorithm has ended."""
        print(log, end="")

    def on_end(self, log: str) -> None:
        """The model has been stored."""
        print(log, end="")


def _check_names(data: Dataset) -> None:
    """Reject, before hours of training, names that CRFsuite's format cannot hold."""
    for what, names in (("label", data.labels), ("attribute", data.corpus.values)):
        for name in names:
            try:
                name.encode("utf-8", "surrogateescape")
                well = "\0" not in name
            except UnicodeEncodeError:
                well = False
            if not well:
                raise DataError(
                    f"the {what} {name!r:.60} has a NUL or is not valid Unicode, which CRFsuite's files cannot hold"
                )


class _Training:
    """One training, and its log."""

    def __init__(self, trainer: BaseTrainer, holdout: int) -> None:
        self.trainer, self.holdout = trainer, holdout
        self.algorithm, self.values = trainer._algorithm, trainer._values
        self.evaluations, self.seconds, self.iteration = 0, 0.0, 0

    def say(self, *lines: str) -> None:
        for line in lines:
            self.trainer.message(line)

    def run(self, target: Path | None) -> None:
        from loglinear.compat.pycrfsuite import training  # here: tagging alone does without all of it

        began = time.perf_counter()
        if self.holdout >= 0:
            self.say(f"Holdout group: {self.holdout + 1}\n", "\n")
        self.say("Feature generation\n", "type: CRF1d\n")
        for name in ("feature.minfreq", "feature.possible_states", "feature.possible_transitions"):
            self.say(f"{name}: {_shown(self.values[name])}\n")
        data = training.prepared(self.trainer._data, self.holdout, self.values)
        model = data.problem.model
        evaluated = training.Holdout(self.trainer._data, self.holdout, model) if self.holdout >= 0 else None
        for tenth in range(10):
            self.say(str(tenth), *("." * 4))
        self.say("10", "\n")
        self.say(f"Number of features: {data.n_features}\n", f"Seconds required: {_since(began)}\n", "\n")
        self.say(f"{TITLES[self.algorithm]}\n", *self.parameter_lines(), "\n")
        began = time.perf_counter()

        def observe(progress: Any) -> None:
            self.say(*self.iteration_lines(progress))
            if evaluated is not None:
                self.say(*evaluated.report(model.with_weights(progress.look.weights)))
            self.say("\n")
            self.evaluations, self.seconds = progress.evaluations, progress.seconds
            self.iteration = progress.iteration

        fitted, outcome = training.fitted(data, self.algorithm, self.values, observe)
        self.say(*self.end_lines(outcome, began))
        began = time.perf_counter()
        file = training.as_crfsuite(fitted.compacted())
        n_features = len(file.state_weights) + len(file.transition_weights)
        n_labels, n_used = len(file.labels), len(file.attributes)
        self.say(
            "Storing the model\n",
            f"Number of active features: {n_features} ({data.n_features})\n",
            f"Number of active attributes: {n_used} ({len(self.trainer._data.corpus.values)})\n",
            f"Number of active labels: {n_labels} ({n_labels})\n",
            "Writing labels\n",
            "Writing attributes\n",
            "Writing feature references for transitions\n",
            "Writing feature references for attributes\n",
        )
        if target is not None:
            replace_file(target, write_crfsuite(file), 0o666)
        self.say(f"Seconds required: {_since(began)}\n", "\n")

    def parameter_lines(self) -> list[str]:
        """The values of the algorithm's own parameters."""
        if self.algorithm == "lbfgs":
            return [f"{LOGGED_AS.get(name, name)}: {_shown(self.values[name])}\n" for name in ORDER]
        own = [name for name in self.values if not name.startswith(("feature.", "calibration."))]
        return [f"{name}: {_shown(self.values[name])}\n" for name in own]

    def iteration_lines(self, progress: Any) -> list[str]:
        """The numbers of an iteration."""
        look, seconds = progress.look, progress.seconds - self.seconds
        word = "Epoch" if self.algorithm == "l2sgd" else "Iteration"
        norm = "Feature L2-norm" if self.algorithm == "l2sgd" else "Feature norm"
        lines = [
            f"***** {word} #{progress.iteration} *****\n",
            f"Loss: {progress.objective:.6f}\n",
            f"{norm}: {look.norm:.6f}\n",
        ]
        if self.algorithm == "lbfgs":
            known = look.knows_gradient or self.trainer._shows_all()
            lines += [
                f"Error norm: {look.gradient_norm if known else math.nan:.6f}\n",
                f"Active features: {look.n_active}\n",
                f"Line search trials: {max(progress.evaluations - self.evaluations, 1)}\n",
                "Line search step: 1.000000\n",
            ]
        return [*lines, f"Seconds required for this iteration: {max(seconds, 0.0):.3f}\n"]

    def end_lines(self, outcome: Any, began: float) -> list[str]:
        """Why training ended."""
        most = self.values["max_iterations"]
        ran_out = outcome is not None and not outcome.converged and self.iteration >= most
        lines = []
        if self.algorithm in ("lbfgs", "l2sgd"):
            name = "L-BFGS" if self.algorithm == "lbfgs" else "SGD"
            if ran_out:
                how = "terminated with the maximum number of iterations"
            elif outcome is None or outcome.converged:
                how = "resulted in convergence" if name == "L-BFGS" else "terminated with the stopping criteria"
            else:
                how = "terminated with the stopping criteria"
            lines += [f"{name} {how}\n"]
            if name == "SGD" and outcome is not None:
                lines += [f"Loss: {outcome.objective:.6f}\n"]
        elif outcome is not None and not ran_out:
            lines += ["Terminated with the stopping criterion\n", "\n"]
        return [*lines, f"Total seconds required for training: {_since(began)}\n", "\n"]


def _shown(value: Any) -> str:
    """A parameter as CRFsuite prints it."""
    return f"{value:.6f}" if isinstance(value, float) else str(int(value) if isinstance(value, bool) else value)


def _since(began: float) -> str:
    return f"{time.perf_counter() - began:.3f}"
