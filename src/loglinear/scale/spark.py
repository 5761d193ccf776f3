"""Labels in Spark: an iterator ``pandas_udf`` that loads the model once for each Python worker.

The driver sends the path of the model file and the SHA-256 of its content. Workers read the path itself, as on a shared
file system, or else the file of that name that ``SparkContext.addFile`` has brought them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from loglinear.data.columns.arrow_file import pyarrow
from loglinear.errors import OptionError
from loglinear.scale import models
from loglinear.scale.tables import CONFIDENCE, PREDICTED, Labelling, labels_of_table


def tag_udf(
    path: str | os.PathLike[str], *, confidence: bool = False, decoding: str = "viterbi", threads: int | None = 1
) -> Any:
    """A function on columns of Spark: from arrays of tokens, and further columns of the model, to arrays of labels.

    Parameters
    ----------
    path : path
        Model file.
    confidence : bool
        Whether to give the labels' probabilities, too: the result is a structure of ``predicted`` and ``confidence``.
    decoding : {"viterbi", "posterior", "min-risk"}
    threads : int or None
        One by default, since Spark runs a task on each core; None is all cores.

    Raises
    ------
    OptionError
        If pyspark is not installed.

    Examples
    --------
    >>> df.withColumn("predicted", tag_udf("ner.model")("tokens"))  # doctest: +SKIP
    >>> df.withColumn("predicted", tag_udf("chunker.model")("tokens", "pos_tags"))  # doctest: +SKIP
    """
    try:
        pandas_udf = import_module("pyspark.sql.functions").pandas_udf
    except ImportError:
        raise OptionError("tag_udf is a function of Spark, which is not installed: pip install pyspark") from None
    typing, pandas = import_module("typing"), import_module("pandas")
    name, digest = os.path.abspath(path), models.digest_of(path)

    def tag(batches: Any) -> Any:
        from loglinear.scale.spark import tagged_batches

        return tagged_batches(batches, name, digest, confidence, decoding, threads)

    given = typing.Iterator[typing.Tuple[pandas.Series, ...]]
    tag.__annotations__ = {  # what Spark tells kinds of functions by
        "batches": given,
        "return": typing.Iterator[pandas.DataFrame if confidence else pandas.Series],
    }
    kind = f"{PREDICTED} array<string>, {CONFIDENCE} array<float>" if confidence else "array<string>"
    return pandas_udf(kind)(tag)


def tagged_batches(
    batches: Iterator[tuple[Any, ...]], path: str, digest: str, confidence: bool, decoding: str, threads: int | None
) -> Iterator[Any]:
    """What a Python worker of Spark does: labels of each batch of columns (pandas series)."""
    pa, pandas = pyarrow(), import_module("pandas")
    tagger = models.loaded(_here(path), digest, threads)
    how = Labelling(decoding, confidence=confidence)
    for columns in batches:
        names = ["tokens", *(f"column{number}" for number in range(1, len(columns)))]
        table = pa.table({name: pa.Array.from_pandas(column) for name, column in zip(names, columns, strict=True)})
        labels = labels_of_table(tagger, table, names, how=how)
        found = {name: values.to_pylist() for name, values in labels.items()}
        yield pandas.DataFrame(found) if confidence else pandas.Series(found[PREDICTED], dtype=object)


def _here(path: str) -> str:
    """The path of the model on this machine."""
    if os.path.exists(path):
        return path
    return str(import_module("pyspark").SparkFiles.get(os.path.basename(path)))
