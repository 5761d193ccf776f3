"""Labels for data sets of Hugging Face: a callable for ``datasets.map`` whose fingerprint depends on the model alone.

``map`` caches its results under a fingerprint of the function, which is what the function pickles to. A tagger with its
weights and caches would pickle differently every time; :class:`BatchTagger` pickles to the path and the SHA-256 of the
model file, and its options.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from loglinear.data.columns.arrow_file import pyarrow
from loglinear.errors import DataError
from loglinear.scale import models
from loglinear.scale.tables import CONFIDENCE, PREDICTED, Labelling, chosen_columns, labels_of_table


class BatchTagger:
    """Labels batches of a data set: ``dataset.map(BatchTagger("ner.model"), batched=True)``.

    Parameters
    ----------
    path : path
        Model file. Each process loads it once, and refuses it if its content has changed.
    digest : str, optional
        SHA-256 of its content, by default that of the file as it is now.
    columns : sequence of str, optional
        The columns of the model's corpus in their order, the tokens first. By default the tokens alone, in a column
        called as usual (``tokens``, ``words``, ...).
    names : mapping of str to sequence of str, optional
        What numbers in a column mean, from 0, as in ``{"pos_tags": dataset.features["pos_tags"].feature.names}``.
    predicted : str
        Name of the new column.
    confidence : str, optional
        Name of another one for the labels' probabilities.
    decoding : {"viterbi", "posterior", "min-risk"}
    threads : int or None
        One by default, for ``map(..., num_proc=N)``; None is all cores.

    Examples
    --------
    >>> tagged = dataset.map(BatchTagger("ner.model"), batched=True)  # doctest: +SKIP
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        digest: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        names: Mapping[str, Sequence[str]] | None = None,
        predicted: str = PREDICTED,
        confidence: str | None = None,
        decoding: str = "viterbi",
        threads: int | None = 1,
    ) -> None:
        self.path, self.digest = os.fspath(path), digest or models.digest_of(path)
        self._columns = None if columns is None else list(columns)
        self._names = None if names is None else {name: list(values) for name, values in names.items()}
        self._predicted, self._confidence = predicted, confidence
        self._decoding, self.threads = decoding, threads

    def __getstate__(self) -> dict[str, Any]:
        """All there is: the model itself is never part of it."""
        return dict(self.__dict__)

    def __call__(self, batch: Any) -> Any:
        """The new columns of a batch: a mapping of names to lists, or (with all columns) an Arrow table."""
        pa = pyarrow()
        tagger = models.loaded(self.path, self.digest, self.threads)
        if isinstance(batch, pa.Table):
            table, there = batch, batch.column_names
        else:
            table, there = None, list(batch.keys())
        chosen = chosen_columns(there, self._columns, None)
        if table is None:
            try:
                table = pa.table({name: pa.array(batch[name]) for name in chosen})
            except (pa.ArrowException, TypeError, ValueError) as error:
                reason = str(error.args[0] if error.args else error).partition("\n")[0]
                raise DataError(f"the columns {', '.join(chosen)} do not hold lists of text: {reason}") from None
        how = Labelling(self._decoding, confidence=self._confidence is not None)
        found = labels_of_table(tagger, table, chosen, None, self._names, how)
        new = {self._predicted: found[PREDICTED]}
        if self._confidence is not None:
            new[self._confidence] = found[CONFIDENCE]
        if not isinstance(batch, pa.Table):
            return {name: values.to_pylist() for name, values in new.items()}
        for name, values in new.items():
            place = batch.schema.get_field_index(name)
            batch = batch.append_column(name, values) if place < 0 else batch.set_column(place, name, values)
        return batch
