"""Labels of pandas frames, for ``map_partitions`` of Dask and for anything else that works partition by partition."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from loglinear.data.columns.arrow_file import pyarrow
from loglinear.errors import DataError
from loglinear.scale import models
from loglinear.scale.tables import CONFIDENCE, PREDICTED, Labelling, chosen_columns, labels_of_table


def tag_frame(
    frame: Any,
    model_path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    sentence: str | None = None,
    names: Mapping[str, Sequence[str]] | None = None,
    predicted: str = PREDICTED,
    confidence: str | None = None,
    decoding: str = "viterbi",
    digest: str | None = None,
    threads: int | None = 1,
) -> Any:
    """A pandas frame with a column of predicted labels; the model is loaded once a process.

    Parameters
    ----------
    frame : pandas.DataFrame
        A row a sentence, with lists of tokens, or a row a token with a column that names the sentence; each sentence
        is in one frame.
    model_path : path
    columns : sequence of str, optional
        The columns of the model's corpus in their order, the tokens first. By default the tokens alone, in a column
        called as usual (``tokens``, ``words``, ...).
    sentence : str, optional
        The column that names each row's sentence, if a row is a token.
    names : mapping of str to sequence of str, optional
        What numbers in a column mean, from 0.
    predicted : str
        Name of the new column, which replaces one of that name.
    confidence : str, optional
        Name of another one for the labels' probabilities.
    decoding : {"viterbi", "posterior", "min-risk"}
    digest : str, optional
        SHA-256 of the model file; another content is an error.
    threads : int or None
        One by default, since engines run a partition on each core; None is all cores.

    Returns
    -------
    frame : pandas.DataFrame
        With the same index and columns, and the new ones.

    Examples
    --------
    >>> how = {"model_path": "ner.model", "columns": ["tokens"]}
    >>> ddf.map_partitions(tag_frame, **how, meta=tag_frame(ddf._meta, **how))  # doctest: +SKIP
    """
    pa, pandas = pyarrow(), import_module("pandas")
    tagger = models.loaded(model_path, digest, threads)
    chosen = chosen_columns(list(frame.columns), columns, sentence)
    if not len(frame):
        nothing = {predicted: pandas.Series([], index=frame.index, dtype=object)}
        if confidence is not None:
            kind = object if sentence is None else "float32"
            nothing[confidence] = pandas.Series([], index=frame.index, dtype=kind)
        return frame.assign(**nothing)
    asked = frame[[*chosen, *([sentence] if sentence else [])]]
    try:
        table = pa.Table.from_pandas(asked, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = str(error.args[0] if error.args else error).partition("\n")[0]
        raise DataError(f"the frame's columns {', '.join(chosen)} are not text or lists of text: {reason}") from None
    how = Labelling(decoding, confidence=confidence is not None)
    found = labels_of_table(tagger, table, chosen, sentence, names, how)
    new = {predicted: pandas.Series(found[PREDICTED].to_pylist(), index=frame.index, dtype=object)}
    if confidence is not None:
        values = found[CONFIDENCE]
        values = values.to_pylist() if sentence is None else values.to_numpy()
        new[confidence] = pandas.Series(values, index=frame.index)
    return frame.assign(**new)
