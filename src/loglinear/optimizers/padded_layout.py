"""A chain's weights laid out for quick passes: rows padded to a multiple of eight labels, in single precision.

Attributes with at least three features have a row of W numbers each, of which those of missing features stay zero;
the others have lists. Rows and lists are sorted by how often their attribute occurs, so that the busy ones lie together
in the cache, and each position names its rows first, then its lists:

    position t    rows  ids[pointer[t]:middle[t]]         lists  ids[middle[t]:pointer[t + 1]]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loglinear.features.encoding import EncodedCorpus
from loglinear.structures.chain_features import ChainFeatures, Penalties

Float = npt.NDArray[np.float64]
Float32 = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
LANES = 8  # numbers that a vector instruction works on at a time


@dataclass
class PaddedWeights:
    """Weights, or a gradient by them.

    Parameters
    ----------
    rows : float32 [R, W]
    lists : float32 [F]
    transition : float32 [W, W]
    """

    rows: Float32
    lists: Float32
    transition: Float32


class PaddedLayout:
    """Where each weight of a first-order chain without edge features lies, and the corpus that looks at it.

    Parameters
    ----------
    features : ChainFeatures
    corpus : EncodedCorpus
    penalties : Penalties
        Constraints; what they rule out has a factor of zero.
    """

    def __init__(self, features: ChainFeatures, corpus: EncodedCorpus, penalties: Penalties) -> None:
        block, y = features.state, features.n_labels
        self.features, self.n_labels, self.width = features, y, -(-y // LANES) * LANES
        dense, counts = block.row_of >= 0, np.diff(block.pointer)
        seen = np.bincount(corpus.state.ids, minlength=len(counts))
        by_use = np.argsort(-seen, kind="stable")
        rows, lists = by_use[dense[by_use]], by_use[~dense[by_use]]
        number = np.empty(len(counts), dtype=np.int32)
        number[rows], number[lists] = np.arange(len(rows)), np.arange(len(lists))
        self._place_features(features, number, dense, len(rows), counts[lists])
        self.pointer = corpus.state.pointer
        self.ids, self.middle, self.values = _rows_first(corpus, dense, number)
        self.transition_factor, self.start, self.stop = self._factors(penalties)

    def _place_features(
        self,
        features: ChainFeatures,
        number: Int32,
        dense: npt.NDArray[np.bool_],
        n_rows: int,
        list_lengths: Int64,
    ) -> None:
        block, w = features.state, self.width
        owner = np.repeat(np.arange(len(number)), np.diff(block.pointer))
        in_row = dense[owner]
        self.list_pointer = np.concatenate([[0], np.cumsum(list_lengths)]).astype(np.int64)
        within = np.arange(len(owner)) - block.pointer[owner]
        listed = np.flatnonzero(~in_row)
        self._list_feature = np.empty(len(listed), dtype=np.int64)
        self._list_feature[self.list_pointer[number[owner[listed]]] + within[listed]] = listed
        self.list_labels = np.ascontiguousarray(block.codes[self._list_feature])
        self._row_feature = np.flatnonzero(in_row)
        self._row_place = number[owner[in_row]].astype(np.int64) * w + block.codes[in_row]
        self.has_feature = np.zeros((n_rows, w), dtype=np.float32)
        self.has_feature.ravel()[self._row_place] = 1.0
        codes = features.transitions.astype(np.int64)
        self._transition_place = codes // self.n_labels * w + codes % self.n_labels
        self.has_transition = np.zeros((w, w), dtype=np.float32)
        self.has_transition.ravel()[self._transition_place] = 1.0

    def _factors(self, penalties: Penalties) -> tuple[Float32, Float32, Float32]:
        y, w = self.n_labels, self.width
        transition, start, stop = np.zeros((w, w)), np.zeros(w), np.zeros(w)
        transition[:y, :y], start[:y], stop[:y] = map(np.exp, (penalties.transition, penalties.start, penalties.stop))
        return transition.astype(np.float32), start.astype(np.float32), stop.astype(np.float32)

    def lay_out(self, weights: Float) -> PaddedWeights:
        """A weight vector [D] in this layout."""
        state, _, transition, _ = self.features.segments
        laid_out = PaddedWeights(
            np.zeros_like(self.has_feature),
            weights[state][self._list_feature].astype(np.float32),
            np.zeros_like(self.has_transition),
        )
        laid_out.rows.ravel()[self._row_place] = weights[state][self._row_feature]
        laid_out.transition.ravel()[self._transition_place] = weights[transition]
        return laid_out

    def vector(self, laid_out: PaddedWeights) -> Float:
        """The weight vector [D] of a layout."""
        weights = np.zeros(self.features.n_features)
        state, _, transition, _ = self.features.segments
        weights[state][self._row_feature] = laid_out.rows.ravel()[self._row_place]
        weights[state][self._list_feature] = laid_out.lists
        weights[transition] = laid_out.transition.ravel()[self._transition_place]
        return weights

    @property
    def mean_square(self) -> float:
        """Sum of the squared values of a position's attributes, on average."""
        n = max(len(self.pointer) - 1, 1)
        return float(np.sum(self.values.astype(np.float64) ** 2)) / n if len(self.values) else len(self.ids) / n


def _rows_first(corpus: EncodedCorpus, dense: npt.NDArray[np.bool_], number: Int32) -> tuple[Int32, Int64, Float32]:
    """The rows and lists [E] of each position, rows first; where its lists begin [N]; and the values [E], if any."""
    state = corpus.state
    position = np.repeat(np.arange(len(state.pointer) - 1), np.diff(state.pointer))
    in_row = dense[state.ids]
    n_rows = np.bincount(position, in_row, minlength=len(state.pointer) - 1).astype(np.int64)
    middle = state.pointer[:-1] + n_rows
    rows_before: Int64 = np.cumsum(in_row) - in_row  # among all entries
    first_row = rows_before[np.minimum(state.pointer[:-1], max(len(position) - 1, 0))] if len(position) else n_rows
    place_in_rows = rows_before - first_row[position]
    place_in_lists = np.arange(len(position)) - state.pointer[position] - place_in_rows
    place = np.where(in_row, state.pointer[position] + place_in_rows, middle[position] + place_in_lists)
    ids = np.empty(len(position), dtype=np.int32)
    ids[place] = number[state.ids]
    values = np.zeros(0, dtype=np.float32)
    if state.values is not None:
        values = np.empty(len(position), dtype=np.float32)
        values[place] = state.values
    return ids, middle, values
