"""The tagger of python-crfsuite: labels and probabilities by a model file of CRFsuite, or by one of loglinear's own."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from loglinear.arrays import Float, Int32
from loglinear.compat.pycrfsuite.dump import ParsedDump, info_of, text_of
from loglinear.compat.pycrfsuite.items import (
    ItemSequence,
    corpus_of_items,
    corpus_of_sequences,
    items_of,
    label_text,
)
from loglinear.data.columns.corpus import Attributes
from loglinear.errors import DataError, LoglinearError, ModelFileError
from loglinear.estimators.tagger.foreign import chain_model, from_tagger
from loglinear.estimators.tagger.predict import LoadedTagger
from loglinear.foreign.crfsuite import MAGIC, CrfsuiteModel, read_crfsuite, write_crfsuite
from loglinear.system import thread_count

T = TypeVar("T")


class NotOpenError(LoglinearError, ValueError, RuntimeError):
    """A tagger without a model was asked for something."""


class UnknownLabelError(DataError, RuntimeError):
    """A label that the model does not have."""


class Tagger:
    """Labels sequences with a model that :meth:`open` reads.

    The items of a sequence are as for :class:`ItemSequence`. What :meth:`probability` and :meth:`marginal` answer is
    about the sequence that was given last to :meth:`set` or :meth:`tag`.
    """

    _file: CrfsuiteModel | None  # None for a model of loglinear's own, until it is asked for
    _model: Any  # a chain model; None for a file without labels
    _is_open = False
    _given: Any = None  # None: no sequence; items that are yet to be encoded; or empty
    _encoded: Any = None
    _marginals: Float | None = None

    def open(self, name: str | os.PathLike[str]) -> contextlib.closing[Self]:
        """Read a model file; to be used in a ``with`` statement, or as it is."""
        path = Path(os.fsdecode(name))
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
        if magic == MAGIC:
            self._keep(read_crfsuite(path.read_bytes(), str(path)))
        else:
            loaded = LoadedTagger.load(path, threads=1)
            if getattr(loaded.model_, "takes_rows", True):
                raise ModelFileError(
                    f"{path}: the model looks at columns of tokens (it was trained with a template), and a tagger here "
                    "takes items with ready features; load it with loglinear.load"
                )
            self._keep(None, loaded.model_)
        return contextlib.closing(self)

    def open_inmemory(self, value: bytes) -> contextlib.closing[Self]:
        """Read a model from the bytes of a file that :meth:`Trainer.train` wrote."""
        self._keep(read_crfsuite(value))
        return contextlib.closing(self)

    def _keep(self, file: CrfsuiteModel | None, model: Any = None) -> None:
        if file is not None and file.labels:  # one that was trained on nothing has none
            model = chain_model(file)
        self.close()
        self._file, self._model, self._is_open = file, model, True

    def close(self) -> None:
        """Forget the model."""
        self._file = self._model = None
        self._is_open = False
        self._forget()

    def _forget(self) -> None:
        self._given = self._encoded = self._marginals = None

    def _check_open(self) -> None:
        if not self._is_open:
            raise NotOpenError("the tagger is not opened: call open or open_inmemory first")

    def labels(self) -> list[str]:
        """The labels, in the order of the model."""
        self._check_open()
        return [] if self._model is None else list(self._model.labels)

    def set(self, xseq: Iterable[Any] | ItemSequence) -> None:
        """The sequence that the next questions are about."""
        self._check_open()
        corpus = xseq.corpus if isinstance(xseq, ItemSequence) else corpus_of_items(items_of(xseq))
        self._forget()
        self._keep_sequence(corpus)

    def _keep_sequence(self, corpus: Attributes) -> None:
        if corpus.n_sentences:
            self._encoded = self._trained().encode(corpus)
        self._given = ()

    def _trained(self) -> Any:
        if self._model is None:
            raise NotOpenError("the model has no labels, since it was trained on nothing: it cannot label anything")
        return self._model

    def _current(self) -> Any:
        """The current sequence in numbers; None for an empty one."""
        self._check_open()
        if self._given is None:
            raise NotOpenError("there is no sequence yet: give one to tag or set first")
        if self._given:
            self._keep_sequence(corpus_of_items(self._given))
        return self._encoded

    def tag(self, xseq: Iterable[Any] | ItemSequence | None = None) -> list[str]:
        """The most probable labels of a sequence; of the one given before, if none is given."""
        self._check_open()
        if xseq is not None:
            if self._model is not None and not isinstance(xseq, ItemSequence):
                xseq = items = items_of(xseq)
                labels: list[str] | None = self._model.labels_of_sentence(items)
                if labels is not None:
                    self._forget()
                    self._given = list(items)  # for probability and marginal, if they are asked for
                    return labels
            self.set(xseq)
        encoded = self._current()
        if encoded is None:
            return []
        return [self._model.labels[y] for y in self._model.decode(encoded).tolist()]

    def probability(self, yseq: Iterable[str]) -> float:
        """The probability of a labelling of the current sequence."""
        encoded, labels = self._current(), list(yseq)
        n = 0 if encoded is None else encoded.n_positions
        if len(labels) != n:
            raise DataError(f"The numbers of items and labels differ: |x| = {n}, |y| = {len(labels)}")
        if encoded is None:
            return 0.0  # as CRFsuite has it
        numbers = np.array([self._number(label, t) for t, label in enumerate(labels)], dtype=np.int32)
        return float(np.exp(min(self._model.log_probability(encoded, numbers)[0], 0.0)))

    def marginal(self, y: str, pos: int) -> float:
        """The probability of a label at a position of the current sequence."""
        encoded, number, pos = self._current(), self._number(y, pos), int(pos)
        n = 0 if encoded is None else encoded.n_positions
        if not 0 <= pos < n:
            raise DataError(f"the position, {pos} is out of range of {n}")
        return float(self._probabilities(encoded)[pos, number])

    def marginals(self) -> list[dict[str, float]]:
        """The probabilities of all labels at each position of the current sequence; python-crfsuite has no such."""
        encoded = self._current()
        if encoded is None:
            return []
        return [dict(zip(self._model.labels, row, strict=True)) for row in self._probabilities(encoded).tolist()]

    # -- many sequences, which python-crfsuite has not -------------------------------------------------------------

    def tag_all(self, sequences: Iterable[Any]) -> list[list[str]]:
        """The labels of each of many sequences, on all cores."""

        def labels(model: Any, encoded: Any, threads: int) -> list[str]:
            return list(map(model.labels.__getitem__, model.decode(encoded, n_threads=threads).tolist()))

        return self._for_all(sequences, labels)

    def marginals_all(self, sequences: Iterable[Any]) -> list[list[dict[str, float]]]:
        """The probabilities of all labels at each position of each of many sequences, on all cores."""

        def marginals(model: Any, encoded: Any, threads: int) -> list[dict[str, float]]:
            found = model.marginals(encoded, n_threads=threads).tolist()
            return [dict(zip(model.labels, row, strict=True)) for row in found]

        return self._for_all(sequences, marginals)

    def _for_all(self, sequences: Iterable[Any], of_tokens: Callable[[Any, Any, int], list[T]]) -> list[list[T]]:
        """What a function gives for each token, cut into sequences; empty sequences have nothing."""
        self._check_open()
        known = None if self._model is None else self._model.known_attributes
        corpus, found = corpus_of_sequences(sequences, known), list[T]()
        if corpus.n_sentences:
            found = of_tokens(self._trained(), self._trained().encode(corpus), thread_count(None))
        return [found[begin:end] for begin, end in pairwise(corpus.given_offsets.tolist())]

    def _probabilities(self, encoded: Any) -> Float:
        if self._marginals is None:
            self._marginals = self._model.marginals(encoded)
        return self._marginals

    def _number(self, label: Any, position: int) -> Int32 | int:
        text = label_text(label, position)
        if text not in self._model.labels:
            raise UnknownLabelError(f"Failed to convert into label identifier: {text}")
        return int(self._model.labels.index(text))

    def info(self) -> ParsedDump:
        """The model's labels, attributes and weights by name, and the head of its file."""
        self._check_open()
        file = self._file
        if file is None:
            file = from_tagger(LoadedTagger(self._model, threads=1))
        if file.header is None:
            file = read_crfsuite(write_crfsuite(file))
        assert file.header is not None
        self._file = file
        return info_of(file, file.header)

    def dump(self, filename: str | os.PathLike[str] | None = None) -> None:
        """Write the model as CRFsuite's text to a file, or to standard output."""
        data = text_of(self.info()).encode("utf-8", "surrogateescape")
        if filename is not None:
            Path(os.fsdecode(filename)).write_bytes(data)
            return
        out = getattr(sys.stdout, "buffer", None)
        if out is None:
            sys.stdout.write(data.decode("utf-8", "replace"))
        else:
            sys.stdout.flush()
            out.write(data)
            out.flush()
