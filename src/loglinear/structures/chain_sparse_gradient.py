"""The weight gradient of one sequence of a chain as a short list (:mod:`~loglinear.structures.sparse_groups`).

The features of an attribute lie one after the other in the weight vector and are always met together: they are a group,
and so are all label n-grams. Parts are walked as in :class:`~loglinear.structures.chain_features.ChainGradient`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.features.block import NO_VALUES, FeatureBlock
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.kernels import kernel
from loglinear.structures.chain import ChainScores
from loglinear.structures.chain_features import ChainFeatures
from loglinear.structures.sparse_groups import SparseGroups

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Uint8 = npt.NDArray[np.uint8]


@kernel
def _add_attributes(
    pointer: Int64,
    ids: Int32,
    attribute_values: Float,
    codes: Int32,
    first_group: int,
    groups: Int64,
    parts: Float,
    n: int,
    values: Float,
    seen: Uint8,
    touched: Int64,
) -> int:
    """Features of the attributes of positions 0..T-1 (pointer [T + 1]) with parts [T, C]; the new number of groups.

    Attribute a is group ``first_group + a``; ``codes`` are those of the features from the first of these groups on.
    """
    has_values = attribute_values.shape[0] > 0
    base = groups[first_group]
    for t in range(parts.shape[0]):
        part = parts[t]
        nothing = True
        for c in range(part.shape[0]):
            if part[c] != 0.0:
                nothing = False
                break
        if nothing:
            continue
        for j in range(pointer[t], pointer[t + 1]):
            value = attribute_values[j] if has_values else 1.0
            group = first_group + ids[j]
            if not seen[group]:
                seen[group] = 1
                touched[n] = group
                n += 1
            for f in range(groups[group], groups[group + 1]):
                values[f] += value * part[codes[f - base]]
    return n


class SparseChainGradient(SparseGroups):
    """The gradient of one sequence of a chain.

    Parameters
    ----------
    features : ChainFeatures
        Of D features.
    """

    def __init__(self, features: ChainFeatures) -> None:
        super().__init__(features.groups)
        self._features = features

    def add(self, corpus: EncodedCorpus, sequence: int, parts: ChainScores) -> None:
        """Add the gradient by the part scores of one sequence."""
        features = self._features
        lo, hi = int(corpus.offsets[sequence]), int(corpus.offsets[sequence + 1])
        _, _, transition, trigram = features.segments
        self._add_block(features.state, corpus.state, lo, hi, 0, parts.emission)
        if features.edge is not None and corpus.edge is not None and parts.edge is not None:
            first_group = len(features.state.pointer) - 1
            self._add_block(features.edge, corpus.edge, lo, hi, first_group, parts.edge.reshape(hi - lo, -1))
        if trigram.stop > transition.start:
            self.touch(len(self.groups) - 2)
            self.values[transition] += parts.transition.ravel()[features.transitions]
            if parts.trigram is not None:
                self.values[trigram] += parts.trigram.ravel()[features.trigrams]

    def _add_block(
        self, block: FeatureBlock, incidence: Incidence, lo: int, hi: int, first_group: int, parts: Float
    ) -> None:
        """Add the gradient by ``parts`` [hi - lo, C] of positions ``lo`` to ``hi``; attribute a is a group."""
        values = NO_VALUES if incidence.values is None else incidence.values
        self._n = _add_attributes(
            incidence.pointer[lo : hi + 1], incidence.ids, values, block.codes, first_group, self.groups, parts,
            self._n, self.values, self._seen, self._touched,
        )  # fmt: skip
