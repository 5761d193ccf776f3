"""What local criteria share: a chain cut into pieces that are scored and normalised by themselves.

The piece of position t scores its label y given its *context*, the labels before it that it depends on:

    first position            no context         start(y) + s_t(y)
    second (at order 2)       y'                 transition(y', y) + edge_t(y', y) + s_t(y)
    the others                y' or (y'', y')    ... + trigram(y'', y', y) at order 2

with stop(y) added at last positions. Summed along a labelling the pieces give its score. Pieces of the same kind are
handled together as one array; a gradient by their scores goes back to the parts the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from loglinear.structures.chain import Chain, ChainScores

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
MOST_NUMBERS = 2_000_000  # of one array of pieces


@dataclass(frozen=True)
class Pieces:
    """Positions whose pieces have contexts of the same length.

    Parameters
    ----------
    scores : ChainScores
        The part scores.
    positions : int64 [n]
    last : bool [n]
        Whether the position is the last of its sequence.
    depth : int
        Labels in the context: 0, 1 or 2.
    """

    scores: ChainScores
    positions: Int64
    last: npt.NDArray[np.bool_]
    depth: int

    def table(self) -> Float:
        """Scores of all contexts and labels [n, Y, .., Y]: the context from the oldest label on, then the label."""
        s, t, extra = self.scores, self.positions, (slice(None), *(None,) * self.depth, slice(None))
        own = s.emission[t] + np.where(self.last[:, None], s.stop, 0.0)
        if self.depth == 0:
            return own + s.start
        pair = s.transition + (s.edge[t] if s.edge is not None else 0.0)
        if self.depth == 1:
            return np.broadcast_to(pair, (len(t), *s.transition.shape)) + own[extra]
        assert s.trigram is not None
        pairs = np.broadcast_to(pair, (len(t), *s.transition.shape))[:, None]
        return s.trigram + pairs + own[extra]

    def rows(self, labels: Int32) -> Float:
        """Scores of all labels in the context that the labelling ``labels`` [N] gives [n, Y]."""
        s, t = self.scores, self.positions
        row = s.emission[t] + np.where(self.last[:, None], s.stop, 0.0)
        if self.depth == 0:
            return row + s.start
        before = labels[t - 1]
        row += s.transition[before]
        if s.edge is not None:
            row += s.edge[t, before]
        if self.depth == 2 and s.trigram is not None:
            row += s.trigram[labels[t - 2], before]
        return row

    def add_table(self, gradient: ChainScores, table: Float) -> None:
        """Add a gradient by :meth:`table` to that by the parts."""
        own = table.reshape(len(table), -1, table.shape[-1]).sum(axis=1)
        self._add_own(gradient, own)
        if self.depth == 0:
            return
        pairs = table if self.depth == 1 else table.sum(axis=1)
        gradient.transition[...] += pairs.sum(axis=0)
        if gradient.edge is not None:
            gradient.edge[self.positions] += pairs
        if self.depth == 2 and gradient.trigram is not None:
            gradient.trigram[...] += table.sum(axis=0)

    def add_rows(self, gradient: ChainScores, labels: Int32, rows: Float) -> None:
        """Add a gradient by :meth:`rows` to that by the parts."""
        self._add_own(gradient, rows)
        if self.depth == 0:
            return
        before = labels[self.positions - 1]
        np.add.at(gradient.transition, before, rows)
        if gradient.edge is not None:
            gradient.edge[self.positions, before] += rows
        if self.depth == 2 and gradient.trigram is not None:
            np.add.at(gradient.trigram, (labels[self.positions - 2], before), rows)

    def _add_own(self, gradient: ChainScores, own: Float) -> None:
        gradient.emission[self.positions] += own
        gradient.stop[...] += own[self.last].sum(axis=0)
        if self.depth == 0:
            gradient.start[...] += own.sum(axis=0)


def pieces(structure: Chain, scores: ChainScores, whole_tables: bool) -> Iterator[Pieces]:
    """All positions by the length of their context, in runs that keep ``whole_tables`` (or else rows) small."""
    within = np.arange(structure.n_positions) - np.repeat(structure.offsets[:-1], np.diff(structure.offsets))
    last = np.zeros(structure.n_positions, dtype=bool)
    last[structure.offsets[1:] - 1] = True
    deepest = scores.order
    for depth in range(deepest + 1):
        positions = np.flatnonzero(np.minimum(within, deepest) == depth)
        width = scores.n_labels ** (depth + 1 if whole_tables else 1)
        run = max(1, MOST_NUMBERS // width)
        for first in range(0, len(positions), run):
            chosen = positions[first : first + run]
            yield Pieces(scores, chosen, last[chosen], depth)


def locally_normalised(structure: Chain, scores: ChainScores) -> ChainScores:
    """A chain of order 1 whose score of a labelling is sum_t log p(y_t given y_{t-1}), the pieces normalised.

    Everything lies in the emissions of first positions and in the edges [N, Y, Y]; what was ruled out stays so.
    """
    n, y = structure.n_positions, scores.n_labels
    emission, edge = np.zeros((n, y)), np.zeros((n, y, y))
    for piece in pieces(structure, scores, whole_tables=True):
        table = piece.table()
        log_z, _ = log_sum_exp(table)
        normalised = table - np.where(np.isneginf(log_z), 0.0, log_z)[..., None]
        (emission if piece.depth == 0 else edge)[piece.positions] = normalised
    return replace(
        scores, emission=emission, edge=edge, transition=np.zeros((y, y)), start=np.zeros(y), stop=np.zeros(y)
    )


def sequence_of(structure: Chain) -> Int64:
    """The sequence of each position [N]."""
    return np.repeat(np.arange(structure.n_sequences), np.diff(structure.offsets))


def log_sum_exp(table: Float) -> tuple[Float, Float]:
    """log sum exp over the last axis, and the probabilities; a row of -inf has -inf and zeros."""
    top = table.max(axis=-1, keepdims=True)
    scaled = np.exp(table - np.where(np.isneginf(top), 0.0, top))
    total = scaled.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        log_total = np.log(total) + top
    return log_total[..., 0], np.divide(scaled, total, out=np.zeros_like(scaled), where=total > 0)
