"""Errors that a user's input can cause. Each message is a sentence that says where, what, and what to do.

Everything raised on purpose derives from :class:`LoglinearError`; the command line prints its message and exits
with status 2. Each class also derives from the built-in error a Python caller would expect to catch.
"""

from __future__ import annotations


class LoglinearError(Exception):
    """Base of all errors caused by the input."""


class DataError(LoglinearError, ValueError):
    """A file or a sequence that cannot be used as data.

    Parameters
    ----------
    message : str
        What is wrong.
    file : str, optional
        Name of the file (``<stdin>`` for standard input).
    line : int, optional
        Line in the file, from 1; 0 where there are no lines.
    """

    def __init__(self, message: str, file: str | None = None, line: int | None = None) -> None:
        line = line or None
        place = ":".join(str(part) for part in (file, line) if part is not None)
        super().__init__(f"{place}: {message}" if place else message)
        self.message, self.file, self.line = message, file, line

    def __reduce__(self) -> tuple[type[DataError], tuple[str, str | None, int | None]]:
        return type(self), (self.message, self.file, self.line)


class TemplateError(LoglinearError, ValueError):
    """A feature template that cannot be read or does not fit the columns."""


class OptionError(LoglinearError, ValueError):
    """An option with a value, or together with another option, that makes no sense."""


class NotOfferedError(OptionError, AttributeError):
    """A method that an estimator does not have with its options: ``hasattr`` is False."""


class InfeasibleError(LoglinearError, ValueError):
    """A sequence for which constraints and forced labels leave no labelling.

    Parameters
    ----------
    sequence : int
        Index of the sequence, from 0.
    hint : str
        More about why, to end the message with.
    """

    def __init__(self, sequence: int, hint: str = "") -> None:
        super().__init__(
            f"sequence {sequence} (from 0): the constraints and the labels given for it leave no possible labelling"
            f"{hint}"
        )
        self.sequence, self.hint = sequence, hint

    def __reduce__(self) -> tuple[type[InfeasibleError], tuple[int, str]]:
        return type(self), (self.sequence, self.hint)


class ModelFileError(LoglinearError, ValueError):
    """A model file that is damaged, of another kind, or newer than this version reads."""


class ModelKindError(ModelFileError):
    """A model file of another kind than the one asked for.

    Parameters
    ----------
    file : str
        Name of the file.
    kind : str
        The kind of the model in it, as ``"tagger"``.
    wanted : str
        The kind asked for.
    """

    def __init__(self, file: str, kind: str, wanted: str) -> None:
        super().__init__(
            f"{file} holds a model of kind {kind!r}, but one of kind {wanted!r} is needed here (loglinear.load opens "
            "every kind)"
        )
        self.file, self.kind, self.wanted = file, kind, wanted

    def __reduce__(self) -> tuple[type[ModelKindError], tuple[str, str, str]]:
        return type(self), (self.file, self.kind, self.wanted)


class ClusterError(LoglinearError, RuntimeError):
    """A cluster that cannot be reached, has no workers (any more), or keeps losing them over the same job."""
