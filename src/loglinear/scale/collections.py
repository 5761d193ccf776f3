"""Labels of Dask collections: from a bag of sentences to a bag of labels, from a data frame to one with more columns.

Nothing is computed before Dask is asked to. A model file is read by each worker from its path, once a process; a tagger
in memory is part of the graph, once, whatever the number of partitions.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from loglinear.errors import ModelFileError, OptionError
from loglinear.estimators.tagger.predict import LoadedTagger
from loglinear.scale import models
from loglinear.scale.cluster import sent
from loglinear.scale.cluster.engine import INSTALL
from loglinear.scale.frames import tag_frame
from loglinear.scale.tables import PREDICTED, chosen_columns

NAME = "sent.model"  # of a model that has no file


def predict(
    model: Any,
    collection: Any,
    *,
    columns: Sequence[str] | None = None,
    sentence: str | None = None,
    names: Mapping[str, Sequence[str]] | None = None,
    predicted: str = PREDICTED,
    confidence: str | None = None,
    decoding: str = "viterbi",
) -> Any:
    """Labels of a Dask bag or data frame, lazily, as the same kind of collection.

    Parameters
    ----------
    model : path or trained tagger
        A file must have the same path and content for all workers.
    collection : dask.bag.Bag or dask.dataframe.DataFrame
        A bag of sentences, as :meth:`Tagger.predict` takes them, or a data frame as :func:`tag_frame` does: a row a
        sentence, with lists, or a row a token, each sentence in one partition.
    columns, sentence, names, predicted, confidence
        As for :func:`tag_frame`; of data frames alone.
    decoding : {"viterbi", "posterior", "min-risk"}

    Returns
    -------
    collection : dask.bag.Bag or dask.dataframe.DataFrame
        A bag of lists of labels, or the data frame with a column ``predicted`` (and ``confidence``).

    Examples
    --------
    >>> predict("ner.model", dask.bag.from_sequence(sentences)).compute()  # doctest: +SKIP
    >>> predict(tagger, dd.read_parquet("news/*.parquet"), columns=["tokens"]).to_parquet("tagged")  # doctest: +SKIP
    """
    try:
        from dask.base import is_dask_collection
        from dask.delayed import delayed
    except ImportError:
        raise OptionError(f"Dask's collections need Dask, which is not installed: {INSTALL}") from None
    kind = type(collection).__name__
    if not is_dask_collection(collection) or kind not in ("Bag", "DataFrame"):
        raise OptionError(f"{kind} is not a Dask bag or data frame; Tagger.predict labels other data")
    if isinstance(model, str | os.PathLike):
        path = os.path.abspath(model)
        given, digest = path, models.digest_of(path)
    else:
        content = model.to_bytes()
        digest = hashlib.sha256(content).hexdigest()
        given = delayed(content, name=f"loglinear-model-{digest}", traverse=False)
    if kind == "Bag":
        if asked := [name for name, value in {"columns": columns, "sentence": sentence, "names": names,
                                              "confidence": confidence}.items() if value is not None]:  # fmt: skip
            raise OptionError(
                f"{', '.join(asked)}: of data frames alone; a bag's sentences come out as lists of labels"
            )
        return collection.map_partitions(_bag_labels, given, digest, decoding)
    meta = collection._meta
    chosen = chosen_columns(list(meta.columns), columns, sentence)
    if sentence is None and str(meta.dtypes[chosen[0]]).startswith("str"):
        raise OptionError(
            f"column {chosen[0]!r} is text, not lists; if a row is a token, name the column of the sentences "
            "(sentence=...); if Dask made text of the lists, forbid it: "
            'dask.config.set({"dataframe.convert-string": False})'
        )
    how = {"columns": chosen, "sentence": sentence, "names": names, "predicted": predicted, "confidence": confidence,
           "decoding": decoding}  # fmt: skip
    return collection.map_partitions(
        _frame_labels, given, digest, how, meta=_meta(meta, predicted, confidence, sentence)
    )


def _meta(meta: Any, predicted: str, confidence: str | None, sentence: str | None) -> Any:
    """The frame without rows that comes out."""
    new = {predicted: meta.index.to_series().astype(object)}
    if confidence is not None:
        new[confidence] = meta.index.to_series().astype(object if sentence is None else "float32")
    return meta.assign(**new)


def _place(given: str | bytes, digest: str) -> str:
    """Where this process reads the model."""
    if isinstance(given, bytes):
        found = sent.places({NAME: digest}, {digest: given})
        assert not isinstance(found, sent.Missing)
        return found[NAME]
    if not os.path.exists(given):
        raise ModelFileError(
            f"{sent.worker_name()} does not see {given}; name a path that all workers have, or give the tagger itself"
        )
    return given


def _tagger(given: str | bytes, digest: str) -> LoadedTagger:
    return models.loaded(_place(given, digest), digest, threads=1)


def _bag_labels(sentences: Any, given: str | bytes, digest: str, decoding: str) -> list[list[str]]:
    """Labels of a partition of sentences."""
    part = list(sentences)
    return _tagger(given, digest).predict(part, decoding=decoding) if part else []


def _frame_labels(frame: Any, given: str | bytes, digest: str, how: Mapping[str, Any]) -> Any:
    """A partition with its labels."""
    return tag_frame(frame, _place(given, digest), digest=digest, **how)
