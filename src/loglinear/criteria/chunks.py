"""The chunks of label sequences: which ones the annotation has, and how probable the model finds them.

A chunk is a label that begins one (B-X, or S-X and U-X for a single token) and the longest run of labels after it that
continue it (I-X, E-X, L-X). It is in a labelling if these tokens have its labels and the token after them has none that
would continue it. That is a restriction of single tokens, so that sums over the labellings that have chunk c are sums
under a mask, for every structure over tokens:

    p(c) = Z_c / Z                          gradient:  p(c) (E[part given c] - E[part])

Z_c sums over the labellings that have it. The k-th chunk of every sequence is done in the k-th pass, over the
sequences that have as many. The number of chunks that a labelling has is that of its beginnings, a sum over tokens. An
I-X that continues nothing is in no chunk here; conlleval has it begin one.

Letters: S sequences, N positions, Y labels, C chunks of the annotation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from loglinear.arrays import Bool, Float, Int64
from loglinear.data.columns.corpus import offsets_of, ranges
from loglinear.errors import DataError, OptionError
from loglinear.structures.constraints import detect_scheme

if TYPE_CHECKING:
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores

BEGINNINGS, INSIDE, OPEN = "BSU", "IEL", "BI"  # first letters of labels: those of OPEN may be continued
BY_POSITION = ("emission", "edge", "segment")  # parts of scores with a row for each position


class GoldChunks(NamedTuple):
    """The annotation's chunks [C]: sequence, first position, the position after the last, number in the sequence."""

    sequence: Int64
    first: Int64
    end: Int64
    rank: Int64


class Chunks:
    """What labels say about chunks.

    Parameters
    ----------
    labels : sequence of str
        The Y labels, in BIO, BIOES or BILOU; sub-labels have the name of their label.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        scheme = detect_scheme(labels)
        if scheme is None or scheme == "iob1":
            known = ", ".join(sorted(set(labels))[:8])
            raise OptionError(f"f-measure:chunks needs labels in BIO, BIOES or BILOU; these are {known}")
        kinds = np.array([label[1:] for label in labels])
        first = np.array([label[0] for label in labels])
        self.begins: Bool = np.isin(first, list(BEGINNINGS))  #: whether each label begins a chunk [Y]
        same_kind = kinds[:, None] == kinds
        #: Whether the chunk of a token with the label of the row goes on with the label of the column [Y, Y].
        self.continues: Bool = same_kind & np.isin(first, list(OPEN))[:, None] & np.isin(first, list(INSIDE))
        self._same: Bool = np.array(labels)[:, None] == np.array(labels)

    def of_gold(self, gold: Gold, offsets: Int64) -> tuple[GoldChunks, Bool]:
        """The annotation's chunks, and which labels, all of the same name, are right at each position [N, Y]."""
        right = gold.mask(len(self.begins))
        labels = right.argmax(axis=1)
        if not (right <= self._same[labels]).all() or not right.any(axis=1).all():
            raise DataError("f-measure:chunks needs one label for each token")
        is_first = np.zeros(len(labels), dtype=bool)
        is_first[offsets[:-1]] = True
        goes_on = np.zeros(len(labels), dtype=bool)
        goes_on[1:] = self.continues[labels[:-1], labels[1:]]
        runs = np.flatnonzero(is_first | ~goes_on)
        ends = np.append(runs[1:], len(labels))
        chosen = self.begins[labels[runs]]
        first, end = runs[chosen], ends[chosen]
        sequence = np.searchsorted(offsets, first, side="right") - 1
        rank = np.arange(len(first)) - np.searchsorted(sequence, sequence)
        return GoldChunks(sequence, first, end, rank), right

    def probabilities(self, structure: Any, scores: Scores, gold: Gold) -> tuple[GoldChunks, Float]:
        """The annotation's chunks, and the probability of each [C]."""
        own, right = self.of_gold(gold, structure.offsets)
        log_z, found = structure.log_partition(scores), np.zeros(len(own.first))
        for which, part, masked, _ in self._passes(structure, scores, own, right):
            found[which] = np.exp(part.log_partition(masked) - log_z[own.sequence[which]])
        return own, found

    def add_gradient(self, structure: Any, scores: Scores, gold: Gold, weights: Float, gradient: Scores) -> None:
        """Add that of the sum of the probabilities of all chunks, times the sequences' weights [S]."""
        own, right = self.of_gold(gold, structure.offsets)
        log_z, total, totals = structure.log_partition(scores), gradient.parts(), np.zeros(len(weights))
        for which, part, masked, positions in self._passes(structure, scores, own, right):
            sequences = own.sequence[which]
            shares = weights[sequences] * np.exp(part.log_partition(masked) - log_z[sequences])
            possible = shares != 0.0
            if not possible.any():
                continue
            if not possible.all():  # a sequence that cannot have its chunk has no expectations
                part, positions, masked = _selected(part, masked, np.flatnonzero(possible), positions)
            totals[sequences[possible]] += shares[possible]
            for name, array in part.expectations(masked, shares[possible])[1].parts().items():
                if name in BY_POSITION:
                    total[name][positions] += array
                else:
                    total[name][...] += array
        gradient.subtract(structure.expectations(scores, totals)[1])

    def _passes(
        self, structure: Any, scores: Scores, own: GoldChunks, right: Bool
    ) -> Iterator[tuple[Int64, Any, Scores, Int64]]:
        """For each rank its chunks, their sequences as a batch, scores of the labellings that have them, positions."""
        for rank in range(int(own.rank.max(initial=-1)) + 1):
            which = np.flatnonzero(own.rank == rank)
            everywhere = np.arange(structure.n_positions)
            part, positions, selected = _selected(structure, scores, own.sequence[which], everywhere)
            mask = np.ones((len(positions), len(self.begins)), dtype=bool)
            begins = part.offsets[:-1] + own.first[which] - structure.offsets[own.sequence[which]]
            lengths = own.end[which] - own.first[which]
            mask[ranges(begins, lengths)] = right[ranges(own.first[which], lengths)]
            followed = begins + lengths < part.offsets[1:]
            last = right[own.end[which] - 1].argmax(axis=1)
            mask[(begins + lengths)[followed]] = ~self.continues[last[followed]]
            yield which, part, part.restrict(selected, mask), positions


def _selected(structure: Any, scores: Scores, sequences: Int64, positions: Int64) -> tuple[Any, Int64, Scores]:
    """Some sequences of a batch as one of their own, their ``positions`` and their scores."""
    lengths = np.diff(structure.offsets)[sequences]
    rows, part = ranges(structure.offsets[sequences], lengths), copy(structure)
    part.offsets, part.n_sequences, part.n_positions = offsets_of(lengths), len(sequences), int(lengths.sum())
    cut = {name: np.ascontiguousarray(array[rows]) for name, array in scores.parts().items() if name in BY_POSITION}
    return part, positions[rows], replace(scores, **cut)
