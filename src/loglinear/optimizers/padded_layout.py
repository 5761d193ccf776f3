"""A chain's weights laid out for quick passes: rows padded to a multiple of eight labels, in single precision.

Attributes with at least three features have a row of W numbers each, of which those of missing features stay zero; the
features of the others are single. Rows are sorted by how often their attribute occurs, so that the busy ones lie
together in the cache; single features by where they first occur, so that those of a sequence lie together.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.features.encoding import EncodedCorpus
from loglinear.kernels import kernel
from loglinear.lanes import N_LANES
from loglinear.optimizers.padded_kernels import PaddedCorpus, PaddedWeights
from loglinear.structures.chain_features import ChainFeatures, Penalties

Float = npt.NDArray[np.float64]
Float32 = npt.NDArray[np.float32]
Int16 = npt.NDArray[np.int16]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
NO_COSTS = np.zeros((0, 0, 0), dtype=np.float32)


@kernel
def _number_singles(ids: Int32, in_row: npt.NDArray[np.bool_], features: Int64, first: Int64, order: Int64) -> None:
    """Number the single features as they are met: ``first`` [A] of each attribute (-1 so far), ``order`` [F]."""
    n = 0
    for j in range(ids.shape[0]):
        a = ids[j]
        if not in_row[a] and first[a] < 0:
            first[a] = n
            for f in range(features[a], features[a + 1]):
                order[n] = f
                n += 1
    for a in range(in_row.shape[0]):  # attributes that do not occur
        if not in_row[a] and first[a] < 0:
            first[a] = n
            for f in range(features[a], features[a + 1]):
                order[n] = f
                n += 1


@kernel
def _count_entries(
    pointer: Int64, ids: Int32, in_row: npt.NDArray[np.bool_], features: Int64, rows: Int64, singles: Int64
) -> None:
    """Where the rows and single features of each position begin [N + 1]."""
    for t in range(pointer.shape[0] - 1):
        n_rows, n_singles = 0, 0
        for j in range(pointer[t], pointer[t + 1]):
            if in_row[ids[j]]:
                n_rows += 1
            else:
                n_singles += features[ids[j] + 1] - features[ids[j]]
        rows[t + 1], singles[t + 1] = rows[t] + n_rows, singles[t] + n_singles


@kernel
def _fill_entries(
    pointer: Int64,
    ids: Int32,
    values: Float,
    in_row: npt.NDArray[np.bool_],
    features: Int64,
    codes: Int32,
    row_of: Int32,
    first: Int64,
    row_ids: Int32,
    row_values: Float32,
    list_ids: Int32,
    list_labels: Int16,
    list_values: Float32,
) -> None:
    """The rows and single features that each position looks at."""
    r, s, has_values = 0, 0, values.shape[0] > 0
    for j in range(ids.shape[0]):
        a = ids[j]
        if in_row[a]:
            row_ids[r] = row_of[a]
            if has_values:
                row_values[r] = values[j]
            r += 1
        else:
            for f in range(features[a], features[a + 1]):
                list_ids[s] = first[a] + f - features[a]
                list_labels[s] = codes[f]
                if has_values:
                    list_values[s] = values[j]
                s += 1


class PaddedLayout:
    """Where each weight of a first-order chain without edge features lies, and the corpus that looks at it.

    Parameters
    ----------
    features : ChainFeatures
    encoded : EncodedCorpus
    penalties : Penalties
        Constraints; what they rule out has a factor of zero.
    gold : int32 [N]
    sequence_weights : float64 [S]
    costs : float64 [4, Y, Y], optional
        Of labels, by the kind of place and the gold label.
    """

    def __init__(
        self,
        features: ChainFeatures,
        encoded: EncodedCorpus,
        penalties: Penalties,
        gold: Int32,
        sequence_weights: Float,
        costs: Float | None = None,
    ) -> None:
        block, y = features.state, features.n_labels
        self.features, self.n_labels, self.width = features, y, -(-y // N_LANES) * N_LANES
        in_row = block.row_of >= 0
        seen = np.bincount(encoded.state.ids, minlength=len(in_row))
        rows = np.flatnonzero(in_row)
        rows = rows[np.argsort(-seen[rows], kind="stable")]
        row_of = np.full(len(in_row), -1, dtype=np.int32)
        row_of[rows] = np.arange(len(rows))
        first = np.full(len(in_row), -1, dtype=np.int64)
        self._single_feature = np.empty(int(np.sum(np.diff(block.pointer)[~in_row])), dtype=np.int64)
        _number_singles(encoded.state.ids, in_row, block.pointer, first, self._single_feature)
        owner = np.repeat(row_of, np.diff(block.pointer))
        self._row_feature = np.flatnonzero(owner >= 0)
        self._row_place = owner[self._row_feature].astype(np.int64) * self.width + block.codes[self._row_feature]
        self.n_rows = len(rows)
        self.corpus = PaddedCorpus(
            encoded.offsets, *_entries(encoded, in_row, block.pointer, block.codes, row_of, first),
            self._blank(), self._has_feature(), self._transition_places(), *self._allowed(penalties), gold,
            NO_COSTS if costs is None else self._padded(costs), sequence_weights,
        )  # fmt: skip

    def _blank(self) -> Float32:
        blank = np.zeros(self.width, dtype=np.float32)
        blank[self.n_labels :] = -1e30
        return blank

    def _has_feature(self) -> npt.NDArray[np.int8]:
        has_feature = np.zeros((self.n_rows, self.width), dtype=np.int8)
        has_feature.ravel()[self._row_place] = 1
        return has_feature

    def _transition_places(self) -> Int64:
        codes = self.features.transitions.astype(np.int64)
        return codes // self.n_labels * self.width + codes % self.n_labels

    def _allowed(self, penalties: Penalties) -> tuple[Float32, Float32, Float32]:
        y, w = self.n_labels, self.width
        transition, start, stop = (np.zeros(shape, dtype=np.float32) for shape in ((w, w), w, w))
        transition[:y, :y], start[:y], stop[:y] = map(np.exp, (penalties.transition, penalties.start, penalties.stop))
        return transition, start, stop

    def _padded(self, costs: Float) -> Float32:
        padded = np.zeros((*costs.shape[:2], self.width), dtype=np.float32)
        padded[:, :, : self.n_labels] = costs
        return padded

    def zeros(self) -> PaddedWeights:
        """Weights of zero."""
        return PaddedWeights(
            np.zeros((self.n_rows, self.width), dtype=np.float32),
            np.zeros(len(self._single_feature), dtype=np.float32),
            np.zeros((self.width, self.width), dtype=np.float32),
        )

    def lay_out(self, weights: Float) -> PaddedWeights:
        """A weight vector [D] in this layout."""
        state, _, transition, _ = self.features.segments
        laid_out = self.zeros()
        laid_out.rows.ravel()[self._row_place] = weights[state][self._row_feature]
        laid_out.lists[:] = weights[state][self._single_feature]
        laid_out.transition.ravel()[self.corpus.transition_places] = weights[transition]
        return laid_out

    def vector(
        self, rows: npt.NDArray[np.floating], lists: npt.NDArray[np.floating], transition: npt.NDArray[np.floating]
    ) -> Float:
        """The weight vector [D] of a layout."""
        weights = np.zeros(self.features.n_features)
        state, _, transitions, _ = self.features.segments
        weights[state][self._row_feature] = rows.ravel()[self._row_place]
        weights[state][self._single_feature] = lists
        weights[transitions] = transition.ravel()[self.corpus.transition_places]
        return weights


def _entries(
    encoded: EncodedCorpus,
    in_row: npt.NDArray[np.bool_],
    features: Int64,
    codes: Int32,
    row_of: Int32,
    first: Int64,
) -> tuple[Int64, Int32, Float32, Int64, Int32, Int16, Float32]:
    """Pointer, ids and values of the rows, and pointer, ids, labels and values of the single features."""
    state, n = encoded.state, len(encoded.state.pointer) - 1
    row_pointer, list_pointer = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    _count_entries(state.pointer, state.ids, in_row, features, row_pointer, list_pointer)
    n_rows, n_lists = int(row_pointer[-1]), int(list_pointer[-1])
    row_ids, list_ids = np.empty(n_rows, dtype=np.int32), np.empty(n_lists, dtype=np.int32)
    list_labels = np.empty(n_lists, dtype=np.int16)
    valued = state.values is not None
    row_values, list_values = (np.empty(size if valued else 0, dtype=np.float32) for size in (n_rows, n_lists))
    values = np.zeros(0) if state.values is None else state.values
    _fill_entries(
        state.pointer, state.ids, values, in_row, features, codes, row_of, first, row_ids, row_values, list_ids,
        list_labels, list_values,
    )  # fmt: skip
    return row_pointer, row_ids, row_values, list_pointer, list_ids, list_labels, list_values
