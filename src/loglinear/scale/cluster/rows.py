"""Rows of numbers with labels on a cluster, for classifiers: the same as :mod:`~loglinear.scale.cluster.corpus` is for
sentences, and simpler, since columns have their numbers already.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from loglinear.arrays import Array, Float, Int64
from loglinear.data.columns.corpus import offsets_of
from loglinear.data.tables import GREATEST
from loglinear.errors import DataError, OptionError
from loglinear.optimizers.objective import Cuts
from loglinear.scale.cluster import worker
from loglinear.scale.cluster.engine import Cluster
from loglinear.scale.cluster.groups import Groups, Report
from loglinear.structures.flat.features import FlatCorpus, FlatElsewhere, FlatFeatures
from loglinear.structures.gold import Gold
from loglinear.wording import how_many


@dataclass(frozen=True)
class RowsPiece:
    """A partition of rows: a data frame, or a block of an array and of its labels.

    Parameters
    ----------
    number : int
    rows, labels : Delayed
        ``labels`` is None for a data frame with a column ``label_column``.
    label_column : str or None
    """

    number: int
    rows: Any
    labels: Any
    label_column: str | None

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"partition {self.number} (from 0)"

    def read(self) -> tuple[Any, Array, list[str] | None]:
        """Rows [n, A], labels [n], and names of columns."""
        import scipy.sparse as sp
        from dask.base import compute

        rows, labels = compute(self.rows, self.labels, scheduler="synchronous")
        names = None
        if self.label_column is not None:
            if self.label_column not in rows.columns:
                raise DataError(f"{self.name} has no column {self.label_column!r}; it has {', '.join(rows.columns)}")
            labels = rows[self.label_column].to_numpy()
            rows = rows.drop(columns=self.label_column)
            names = list(map(str, rows.columns))
        labels = np.asarray(labels)
        try:
            made = FlatCorpus.of(rows if sp.issparse(rows) else np.asarray(rows, dtype=np.float64)).rows
        except (TypeError, ValueError) as error:
            raise DataError(f"{self.name}: all columns but the labels hold numbers ({error})") from None
        values = made.data if sp.issparse(made) else made
        if not np.isfinite(values).all() or (values.size and np.abs(values).max() > GREATEST):
            raise DataError(f"{self.name}: numbers must be finite, and less than {GREATEST:g}")
        if made.shape[0] != len(labels):
            raise DataError(f"{self.name} has {how_many(made.shape[0], 'row')} but {how_many(len(labels), 'label')}")
        return made, labels, names


def pieces_of_rows(X: Any, y: Any, label_column: str | None) -> list[RowsPiece]:
    """The partitions of a Dask data frame with its labels in a column, or of Dask arrays [S, A] and [S]."""
    kinds = [type(each).__module__.partition(".")[0] for each in (X, y)]
    if not hasattr(X, "to_delayed") or (y is not None and not hasattr(y, "to_delayed")):
        raise OptionError(
            f"a classifier on a cluster learns from a Dask data frame (label_column=...) or two Dask arrays, not from "
            f"{' and '.join(kinds)}; what is in this process is quicker trained by Classifier"
        )
    if hasattr(X, "columns"):
        if label_column is None or y is not None:
            raise OptionError("of a Dask data frame, label_column names the column of the labels, and there is no y")
        return [RowsPiece(n, each, None, label_column) for n, each in enumerate(X.to_delayed())]
    if y is None or label_column is not None:
        raise OptionError("of a Dask array, y is the array of the labels, and there is no label_column")
    if X.ndim != 2 or y.ndim != 1 or X.numblocks[1] != 1 or X.chunks[0] != y.chunks[0]:
        raise OptionError(
            f"X [S, A] and y [S] are cut alike and along rows alone, not X into {X.numblocks} blocks and y into "
            f"{y.numblocks}; rechunk them"
        )
    blocks = zip(X.to_delayed()[:, 0], y.to_delayed(), strict=True)
    return [RowsPiece(n, rows, labels, None) for n, (rows, labels) in enumerate(blocks)]


def read_labels(piece: RowsPiece) -> tuple[Array, int, list[str] | None]:
    """Labels, number of columns and their names of a piece."""
    rows, labels, names = piece.read()
    return labels, int(rows.shape[1]), names


@dataclass(frozen=True)
class RowsSetup:
    """What makes a process able to pass over a group of rows."""

    span: worker.Span
    losses: worker.Losses | None
    expected: str | None


def set_up_rows(job: RowsSetup) -> str:
    """Read a group's rows, and make its objective; a digest of the rows."""
    import scipy.sparse as sp

    state = worker.kept(job.span.key)
    if state.encoded is None:
        parts = [piece.read()[0][first:end] for _, piece, first, end in job.span.parts]
        sparse = any(map(sp.issparse, parts))
        state.encoded = FlatCorpus.of(sp.vstack(parts, format="csr") if sparse else np.concatenate(parts))
    rows = state.encoded.rows
    arrays = [rows.data, rows.indices, rows.indptr] if state.encoded.is_sparse else [rows]
    return worker.arm(state, job.span, job.losses, arrays, job.expected)


class RowGroups(Groups):
    """The groups of rows."""

    def prepared(self, only: Sequence[int] | None = None) -> list[str]:
        """Have the groups (or ``only`` some) read, and their objectives made: digests of the rows."""
        chosen = range(len(self.spans)) if only is None else only
        jobs = [
            RowsSetup(self.spans[g], None if self.losses is None else self.losses[g], self.expected(g)) for g in chosen
        ]
        names, homes = [self.name_of(g) for g in chosen], [self.spans[g].key for g in chosen]
        return self.cluster.map(set_up_rows, jobs, names=names, homes=homes)

    def own_features(self, features: FlatFeatures, g: int) -> tuple[FlatFeatures, Int64]:
        """All of them."""
        return features, np.arange(features.n_features)


class ClusterRows(FlatElsewhere):
    """Rows of numbers on a cluster; their labels are here."""

    def __init__(self, cluster: Cluster, pieces: Sequence[RowsPiece]) -> None:
        super().__init__(None)
        self._deaths_before = cluster.deaths
        found = cluster.map(read_labels, pieces, names=[piece.name for piece in pieces])
        there = [(piece, each) for piece, each in zip(pieces, found, strict=True) if len(each[0])]
        if not there:
            raise DataError("there is no example to train on")
        labels, sizes, names = zip(*(each for _, each in there), strict=True)
        for (piece, _), size, own in zip(there, sizes, names, strict=True):
            if (size, own) != (sizes[0], names[0]):
                raise DataError(f"{piece.name} has other columns than {there[0][0].name}")
        self._labels, self._names = np.concatenate(labels), names[0]
        self._shape = len(self._labels), sizes[0]
        firsts = offsets_of([len(each) for each in labels])
        key, offsets = uuid.uuid4().hex, np.arange(len(self._labels) + 1, dtype=np.int64)
        cuts = Cuts.by_size(offsets)
        ends = [end for _, end in cuts.double]  # there are no passes in single precision
        spans = []
        for number, (first, end) in enumerate(pairwise([0, *ends])):
            begin, stop = np.searchsorted(firsts, [first, end - 1], side="right").tolist()
            parts = [
                (
                    n - 1,
                    there[n - 1][0],
                    max(0, first - int(firsts[n - 1])),
                    min(int(firsts[n]), end) - int(firsts[n - 1]),
                )
                for n in range(begin, stop + 1)
            ]
            spans.append(worker.Span(key, number, first, parts, [(0, end - first)], end - first))  # type: ignore[arg-type]
        self.groups = RowGroups(cluster, spans, offsets, Report(cluster.n_workers, len(pieces)))
        self.groups.digests = self.groups.prepared()

    @property
    def labels(self) -> Array:
        return self._labels

    @property
    def names(self) -> list[str] | None:
        return self._names

    @property
    def is_sparse(self) -> bool:
        return False

    @property
    def n_sequences(self) -> int:
        return self._shape[0]

    @property
    def n_columns(self) -> int:
        return self._shape[1]

    def arrays(self) -> list[Array | None]:
        """Digests, which do not depend on the number of workers."""
        return [np.frombuffer("".join(self.groups.digests).encode(), dtype=np.uint8)]

    def objective(self, features: FlatFeatures, gold: Gold, criterion: Any, l2: float, weights: Float | None) -> Any:
        """Losses and penalty as a function of the weights."""
        from loglinear.scale.cluster.objective import ClusterObjective

        return ClusterObjective(
            self.groups, features, gold, criterion, None, l2, weights, False, n_penalised=features.n_penalised
        )

    def release(self) -> None:
        """Let the workers forget the rows; what was lost on the way is in the report from now on."""
        self.groups.release()
        self.groups.report.deaths = self.groups.cluster.deaths - self._deaths_before
