"""What estimators share: model files, pickles, the error before they are fitted, and notes on how training went.

An estimator defines the content of its model file (``_storage``) and restores itself from it (``_restore``); saving,
loading and pickling follow from these. :func:`load` opens a model of any kind.

This module does not import scikit-learn, so that files can be labelled without it.
"""

from __future__ import annotations

import functools
import inspect
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypedDict, TypeVar

import loglinear
from loglinear import model_file
from loglinear.arrays import Arrays
from loglinear.errors import ModelFileError, OptionError
from loglinear.estimators.conventions import Conventions
from loglinear.model_file import Reader, plain
from loglinear.options import check, declared

if TYPE_CHECKING:
    from loglinear.training.run import Outcome, Progress

M = TypeVar("M")
F = TypeVar("F", bound=Callable[..., Any])

ESTIMATORS = {
    "tagger": "Tagger",
    "combination": "Combination",
    "local-tagger": "LocalTagger",
    "input-classifier": "InputClassifier",
    "classifier": "Classifier",
    "parser": "Parser",
    "dependency-parser": "DependencyParser",
    "mixture": "Mixture",
    "naive-bayes": "NaiveBayes",
    "ridge": "Ridge",
    "least-squares": "LeastSquares",
}  #: by the kind of model that each one's files hold


MOST_DRAWS = 10_000_000  # at a time: memory holds all of them at once


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Check an argument that is a number from ``least`` up; ``most`` limits how many can be drawn at a time."""
    number = None if isinstance(value, bool) or not isinstance(value, Integral) else int(value)
    if number is None or number < least:
        raise OptionError(f"{name}={value!r} must be a whole number from {least} up")
    if most is not None and number > most:
        raise OptionError(f"{name}={value!r} is too many at a time; draw at most {most:,}, each time by another seed")
    return number


class Fitted(Generic[M]):
    """Something that must learn a model before use.

    Attributes
    ----------
    model_
        What was learnt.
    """

    model_: M
    learnt: ClassVar[str] = "model_"  #: the attribute that fitting sets

    def _fitted(self) -> M:
        """What was learnt; an error if nothing has been yet."""
        if not hasattr(self, self.learnt):
            from sklearn.exceptions import NotFittedError  # a second's import that labelling can do without

            name = type(self).__name__
            raise NotFittedError(
                f"this {name} has no model yet; call fit" + (f", or {name}.load" if hasattr(self, "load") else "")
            )
        model: M = getattr(self, self.learnt)
        return model


class Estimator(Fitted[M], Conventions, ABC):
    """An estimator whose model can be stored. Its options are those of a class decorated with ``options``.

    Attributes
    ----------
    kind : str
        The kind of its model files.
    in_file : tuple of str
        Fitted attributes that a pickle need not hold, because its model file does.
    functions : tuple of str
        Options that are objects of the user's own, which files cannot hold: :meth:`load` takes them again.
    """

    kind: ClassVar[str]
    in_file: ClassVar[tuple[str, ...]] = ("model_",)
    functions: ClassVar[tuple[str, ...]] = ()

    # -- what each estimator defines ---------------------------------------------------------------------------------

    @abstractmethod
    def _storage(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays of the model file; raises an error before the estimator is fitted."""

    @abstractmethod
    def _restore(self, read: Reader, given: Mapping[str, Any]) -> None:
        """Restore the model from a file; the options are already set. ``given``: the user's own objects, by option."""

    def _exact_storage(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays for pickles, with all numbers in full precision."""
        return self._storage()

    def check_options(self) -> None:
        """Refuse options that make no sense, by themselves or together, as :meth:`fit` does first of all."""
        check(self)

    def _stored_options(self) -> dict[str, Any]:
        """The options that a model file records: those that JSON can hold and the model does not imply."""
        return {name: plain(getattr(self, name)) for name, each in declared(type(self)).items() if each.stored}

    @classmethod
    def _read_options(cls, read: Reader) -> dict[str, Any]:
        """A file's options, as keywords of the constructor."""
        return read.options()

    @classmethod
    def _check_given(cls, read: Reader, given: Mapping[str, Any]) -> None:
        """Refuse to load a model without the objects of the user's own that it was trained with, or with others."""

    def _given(self) -> dict[str, Any]:
        """The objects of the user's own, by option."""
        return {name: getattr(self, name) for name in self.functions}

    # -- files -------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the model to one file that holds data only; functions of your own are not in it."""
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
        """The estimator of a file."""
        cls._check_given(read, given)
        options = cls._read_options(read)
        with read.building("options"):
            estimator = cls(**{**options, **{name: each for name, each in given.items() if each is not None}})
            estimator.check_options()
        estimator._restore(read, given)
        return estimator

    # -- pickles and copies --------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """All attributes, the model as a model file."""
        state = super().__getstate__()
        if hasattr(self, self.learnt):
            state = {name: value for name, value in state.items() if name not in self.in_file}
            state["_model_file"] = model_file.dumps(self.kind, *self._exact_storage())
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        content = state.pop("_model_file", None)
        super().__setstate__(state)
        if content is not None:
            loaded = vars(type(self)._read(model_file.read(content, self.kind), self._given()))
            vars(self).update({name: loaded[name] for name in self.in_file if name in loaded})

    def __copy__(self) -> Self:
        """A copy that shares the model."""
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self))
        return copied


# ----------------------------------------------------------------------------------------------------------------------
# Training: what ``fit`` takes and what is known afterwards, the same for every estimator that iterates.


class TrainedEstimator(Estimator[M]):
    """An estimator that is trained in iterations.

    Attributes
    ----------
    objective_, n_iter_, converged_, message_, seconds_, history_
        How training went.
    dev_score_, best_iteration_
        Score and iteration of the parameters kept, None without dev data.
    """

    objective_: float | None
    n_iter_: int | None
    converged_: bool
    message_: str
    seconds_: float | None
    history_: list[Progress]
    dev_score_: float | None
    best_iteration_: int | None

    @classmethod
    def _opened(cls, init: Self | str | Path | None) -> Self | None:
        """The estimator to start from, loaded if it is a file."""
        return cls.load(init) if isinstance(init, str | Path) else init


class RunKeywords(TypedDict, total=False):
    """Keywords that ``fit`` hands to :func:`loglinear.training.run.train` as they are."""

    checkpoint: str | Path | None
    checkpoint_seconds: float
    resume: bool
    observe: Callable[[Progress], None] | None


RUN_DEFAULTS = {"checkpoint": None, "checkpoint_seconds": 30.0, "resume": False, "observe": None}
RUN_KEYWORDS = """\
checkpoint : path, optional
    File that keeps a usable model and everything needed to continue, written every ``checkpoint_seconds`` and when
    training is interrupted. Delete it once you have saved the model.
resume : bool
    Continue from ``checkpoint`` if it exists.
observe : callable, optional
    Called with a :class:`~loglinear.training.run.Progress` after each iteration."""


def trains(fit: F) -> F:
    """Method decorator: spell out the :class:`RunKeywords` of ``fit``, in its signature and where it says KEYWORDS."""
    keyword, known = inspect.Parameter.KEYWORD_ONLY, inspect.signature(fit)
    types = {name: annotation.__forward_arg__ for name, annotation in RunKeywords.__annotations__.items()}
    named = [each for each in known.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    named += [inspect.Parameter(n, keyword, default=value, annotation=types[n]) for n, value in RUN_DEFAULTS.items()]
    signature = known.replace(parameters=named)

    @functools.wraps(fit)
    def checked(*arguments: Any, **keywords: Any) -> Any:
        signature.bind(*arguments, **keywords)  # raises TypeError for an unknown keyword
        return fit(*arguments, **keywords)

    vars(checked)["__signature__"] = signature
    checked.__doc__ = (fit.__doc__ or "").replace("KEYWORDS", textwrap.indent(RUN_KEYWORDS, " " * 8).lstrip())
    return checked  # type: ignore[return-value]  # it takes the same


# ----------------------------------------------------------------------------------------------------------------------


def load(source: str | Path | bytes, **functions: Any) -> Any:
    """Open a model of any kind, from a file or from its bytes. Loading runs no code of the file's.

    Parameters
    ----------
    source : path or bytes
    **functions
        Functions and other objects of your own that the model was trained with, which files do not hold: ``base`` of
        taggers and classifiers; ``features``, ``feature_map``, ``candidates`` and ``kernel`` of classifiers;
        ``span_features`` of parsers.

    Returns
    -------
    Tagger, Combination, LocalTagger, InputClassifier, Classifier, Parser, DependencyParser, Mixture, NaiveBayes, Ridge
    or LeastSquares
        A file of an ``HMM`` comes back as a ``Tagger``, which gives the same answers; ``HMM.load`` makes it an ``HMM``.
    """
    read = model_file.read(source)
    if read.kind == "summary":
        raise ModelFileError(
            f"{read.file} holds a summary of a part of the data, not a model; an estimator makes a model of such files "
            "with from_summaries"
        )
    if read.kind not in ESTIMATORS:
        raise ModelFileError(
            f"{read.file} holds a model of kind {read.kind[:40]!r}, which loglinear {loglinear.__version__} does not "
            "know; upgrade with 'pip install --upgrade loglinear'"
        )
    estimator: type[Estimator[Any]] = getattr(loglinear, ESTIMATORS[read.kind])
    for name in functions:
        if name not in estimator.functions:
            taken = ", ".join(estimator.functions) or "none"
            raise OptionError(
                f"{name}=...: {read.file} holds a model of kind {read.kind!r}; objects of your own that such models "
                f"take: {taken}"
            )
    return estimator._read(read, functions)


# ----------------------------------------------------------------------------------------------------------------------
# How training went: attributes of an estimator, and what a model file keeps of them.


UNFINISHED = "a checkpoint of an unfinished training"


def keep_outcome(estimator: Any, outcome: Outcome) -> None:
    """Set an estimator's attributes about its training."""
    estimator.objective_ = outcome.objective
    estimator.n_iter_ = outcome.iterations
    estimator.converged_ = outcome.converged
    estimator.message_ = outcome.message
    estimator.seconds_ = outcome.seconds
    estimator.history_ = outcome.history
    estimator.dev_score_ = outcome.dev_score
    estimator.best_iteration_ = outcome.best_iteration


def notes_of(estimator: Any) -> dict[str, Any]:
    """What a model file keeps of these attributes."""
    n_examples = getattr(estimator, "n_examples_", None)
    return {
        **({} if n_examples is None else {"examples": n_examples}),
        "complete": True,
        "objective": estimator.objective_,
        "iterations": estimator.n_iter_,
        "converged": estimator.converged_,
        "message": estimator.message_,
        "dev_score": estimator.dev_score_,
        "best_iteration": estimator.best_iteration_,
    }


NOTES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("objective", "dev_score", "pruned_score", "seconds"), (int, float)),
    **dict.fromkeys(("iterations", "iteration", "best_iteration", "evaluations", "features"), (int,)),
    **dict.fromkeys(("trees", "tokens", "words", "rounds", "left_out", "examples"), (int,)),
    **dict.fromkeys(("message", "label_column"), (str,)),
    **dict.fromkeys(("converged", "complete"), (bool,)),
}  #: types of notes on training; None is allowed


def read_notes(read: Reader) -> dict[str, Any]:
    """The notes on training in a model file, with known ones checked."""
    notes = read.section("training")
    for name, kinds in NOTES.items():
        value = notes.value(name, None)
        if value is not None and (not isinstance(value, kinds) or (type(value) is bool) != (kinds == (bool,))):
            notes.fail(name, f"{value!r:.40} is not of the type {' or '.join(kind.__name__ for kind in kinds)}")
    return dict(notes.header)


def restore_notes(estimator: Any, notes: Mapping[str, Any]) -> None:
    """Set an estimator's attributes from the notes in a model file or a checkpoint."""
    estimator.objective_ = notes.get("objective")
    estimator.n_iter_ = notes.get("iterations", notes.get("iteration"))
    estimator.converged_ = notes.get("converged", False)
    estimator.message_ = notes.get("message", UNFINISHED)
    estimator.dev_score_ = notes.get("dev_score")
    estimator.best_iteration_ = notes.get("best_iteration")
    estimator.history_, estimator.seconds_ = [], None
    if hasattr(estimator, "n_examples_"):  # of those that grow
        n_examples = notes.get("examples")
        estimator.n_examples_ = None if n_examples is None else max(n_examples, 0)
