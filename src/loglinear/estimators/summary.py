"""Summaries: what a part of the data contributes to a model that is made of counts.

    estimator.from_summaries([estimator.summarize(part) for part in parts])

is ``estimator.fit`` on all parts together, without ever having them together: a summary is counts, it can be made
anywhere, pickled, stored in a file, and added to that of the next part. It records the estimator's options, as counts
made with others mean something else. Counts that are expected under a model, as those of EM, hold for this model only,
and its digest says which one it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from loglinear import model_file
from loglinear.arrays import Arrays, Float
from loglinear.errors import LoglinearError, ModelFileError, OptionError
from loglinear.model_file import Reader

KIND = "summary"


class PartCounts(Protocol):
    """The counts of a part."""

    kind: ClassVar[str]  #: what is counted, in the words of messages

    def __add__(self, other: Self, /) -> Self:
        """The counts of this part followed by another."""

    def to_storage(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays of a file."""

    @classmethod
    def from_storage(cls, read: Reader) -> Self:
        """What :meth:`to_storage` described."""


@dataclass(frozen=True)
class Summary:
    """What a part of the data contributes to an estimator's model, made by its ``summarize``.

    ``summary + other`` is the summary of both parts, the first one before the other.

    Parameters
    ----------
    estimator : str
        The kind of its model files.
    options : dict of str to str
        The options that it was made with, as JSON.
    counts : LabelledCounts and others
        The counts, which ``from_summaries`` knows how to read.
    model : str
        For counts expected under a model, the digest of this model; else empty.
    columns : list of str, optional
        The names of the data's columns, if they have any.
    """

    estimator: str
    options: dict[str, str]
    counts: Any
    model: str = ""
    columns: list[str] | None = None

    @property
    def digest(self) -> str:
        """The SHA-256 of the estimator's kind and options: summaries that may be added have the same."""
        return hashlib.sha256(json.dumps([self.estimator, self.options], sort_keys=True).encode()).hexdigest()

    def __add__(self, other: Summary) -> Summary:
        check_alike(self, other)
        return replace(self, counts=self.counts + other.counts)

    # -- files -------------------------------------------------------------------------------------------------------
    #
    # header   estimator, options, digest (of these two), counts (their kind), model, columns, content (of the counts)
    # arrays   those of the counts

    def _storage(self) -> tuple[dict[str, Any], Arrays]:
        content, arrays = self.counts.to_storage()
        header = {
            "estimator": self.estimator, "options": self.options, "digest": self.digest, "counts": self.counts.kind,
            "model": self.model, "columns": self.columns, "content": content,
        }  # fmt: skip
        return header, {f"content.{name}": array for name, array in arrays.items()}

    def save(self, path: str | Path) -> None:
        """Write the summary to one file that holds data only."""
        model_file.save(path, KIND, *self._storage())

    def to_bytes(self) -> bytes:
        """The file's content."""
        return model_file.dumps(KIND, *self._storage())

    @classmethod
    def load(cls, source: str | Path | bytes) -> Summary:
        """Read a summary from a file or from its bytes. Loading runs no code of the file's."""
        read = model_file.read(source, KIND)
        options = read.section("options").header
        if not all(isinstance(value, str) for value in options.values()):
            read.fail("options", "not all values are strings")
        counted = _counts_of(read.choice("counts", list(COUNTS)))
        columns = read.names("columns", least=0) if read.has("columns") else None
        content = read.section("content")
        with content.building("counts"):
            counts = counted.from_storage(content)
        summary = cls(read.text("estimator"), dict(options), counts, read.text("model"), columns)
        if read.text("digest") != summary.digest:
            read.fail("digest", "not that of the options")
        return summary


COUNTS = {
    "labelled rows": "loglinear.generative.naive_bayes.LabelledCounts",
    "sequences": "loglinear.generative.hmm.summary.SequenceCounts",
    "expected sequences": "loglinear.generative.hmm.summary.ExpectedSequences",
    "numbered sentences": "loglinear.estimators.tagger.summary.NumberedSentences",
    "expected rows": "loglinear.generative.mixture.ExpectedRows",
    "sentences": "loglinear.generative.pcfg.em.SentenceCounts",
    "expected rules": "loglinear.generative.pcfg.em.ExpectedRules",
    "trees": "loglinear.generative.pcfg.counts.TreebankCounts",
}  #: by their kind, where each class of counts is; imported when a file has it


def _counts_of(kind: str) -> type[Any]:
    module, _, name = COUNTS[kind].rpartition(".")
    found: type[Any] = getattr(import_module(module), name)
    return found


def options_of(estimator: Any) -> dict[str, str]:
    """The options that an estimator's counts depend on, as JSON."""
    given: Mapping[str, Any] = estimator._stored_options()
    return {name: json.dumps(value, sort_keys=True, default=_described) for name, value in sorted(given.items())}


def _described(value: Any) -> Any:
    """An option that JSON cannot hold."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return value.tolist() if hasattr(value, "tolist") else repr(value)


def digest_of(parameters: Float, names: Any = None) -> str:
    """The SHA-256 of a model's parameters, and of the names of what they are about."""
    digest = hashlib.sha256(json.dumps(names).encode())
    digest.update(parameters.tobytes())
    return digest.hexdigest()


def check_alike(first: Summary, other: Summary) -> None:
    """Refuse to add summaries that are not of the same estimator, options, columns, model and kind of counts."""
    _check_estimator(first.estimator, first.options, other)
    if first.columns != other.columns:
        raise OptionError(
            f"a summary is of the columns {_listed(first.columns)}, another one of {_listed(other.columns)}; all parts "
            "need the same"
        )
    if type(first.counts) is not type(other.counts):
        raise OptionError(
            f"a summary is of {first.counts.kind}, another one of {other.counts.kind}; make all of them with the same "
            "model, or all without one"
        )
    if first.model != other.model:
        raise OptionError("the summaries were made with different models; make all of them with the current one")


def _check_estimator(estimator: str, options: Mapping[str, str], summary: Summary) -> None:
    if summary.estimator != estimator:
        raise OptionError(f"the summary is one for a {summary.estimator}, not for a {estimator}")
    for name in sorted({*options, *summary.options}):
        theirs, own = summary.options.get(name), options.get(name)
        if theirs != own:
            raise OptionError(
                f"a summary was made with {name}={theirs or 'null':.60} and is used with {name}={own or 'null':.60}; "
                "make it again"
            )


def _listed(columns: list[str] | None) -> str:
    return "no name" if columns is None else ", ".join(columns[:6]) + (", ..." if len(columns) > 6 else "")


@contextmanager
def from_counts() -> Iterator[None]:
    """Context for making a model of counts: those of a file may not fit the model, whatever its digest says."""
    try:
        yield
    except LoglinearError:
        raise
    except (ArithmeticError, IndexError, KeyError, StopIteration, ValueError) as error:
        detail = str(error).partition("\n")[0]
        raise ModelFileError(
            f"the counts of the summaries do not fit together ({detail:.80}); make the summaries again"
        ) from None


def check_same_size(before: Float, after: Float) -> None:
    """Refuse counts that make a model with more or fewer parameters [P] than the one they were made with."""
    if before.shape != after.shape:
        raise ModelFileError("the counts of the summaries are not those of the model; make the summaries again")


def merged(estimator: Any, summaries: Iterable[Summary | str | Path]) -> Summary:
    """The sum of summaries, or of files of these, for an estimator; they may come one by one from an iterator."""
    if isinstance(summaries, Summary | str | Path) or not hasattr(summaries, "__iter__"):
        raise OptionError(f"summaries is a {type(summaries).__name__}, not a list of what summarize returned")
    options, found = options_of(estimator), None
    for given in summaries:
        summary = Summary.load(given) if isinstance(given, str | Path) else given
        if not isinstance(summary, Summary):
            raise OptionError(f"summaries holds a {type(given).__name__}, not what summarize returned")
        _check_estimator(estimator.kind, options, summary)
        with from_counts():
            found = summary if found is None else found + summary
    if found is None:
        raise OptionError("there is no summary to make a model from")
    return found
