"""Moves that leave p(x, y) proportional to q0(x, y) exp(w . f(x, y)) as it is, for many sequences at once.

A sweep is three kinds of moves, each of which keeps p exactly (q0 a hidden Markov model):

    labels   y given x, drawn exactly: forward filtering, backward sampling
    values   x'_tf from e_f( . given y_t), which is q0 of the value given all the rest, so that it is kept with
             probability min(1, exp(w.f(x', y) - w.f(x, y))); positions that no feature sees together move at once
    ends     a cut c in 0 ... T; what stands after it is drawn anew from q0 given the state there. The sequence, now of
             length T', is kept with probability min(1, exp(w.f(x', y') - w.f(x, y)) (T + 1) / (T' + 1)): the cut is
             one of T + 1 here, and one of T' + 1 on the way back

With the third, sequences of all lengths reach each other (c = 0 draws the whole sequence anew).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import offsets_of, ranges
from loglinear.estimators.chain_model import ChainModel
from loglinear.features.encoding import EncodedCorpus
from loglinear.features.template import GAZETTEER
from loglinear.features.template_encoder import TemplateEncoder
from loglinear.generative.hmm import HiddenMarkovModel, states_of
from loglinear.structures.chain import Chain

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Encode = Callable[[list[Int32], Int64], EncodedCorpus]


@dataclass(frozen=True)
class Draws:
    """Sequences with labels, in the base's numbers: fields [N] each, labels [N] and offsets [S + 1]."""

    fields: list[Int32]
    labels: Int32
    offsets: Int64

    def chosen(self, sequences: Int64) -> Draws:
        """Some of the sequences, in the order of their numbers given."""
        lengths = np.diff(self.offsets)[sequences]
        positions = ranges(self.offsets[sequences], lengths)
        return Draws([values[positions] for values in self.fields], self.labels[positions], offsets_of(lengths))


def moved(
    model: ChainModel, base: HiddenMarkovModel, encode: Encode, drawn: Draws, sweeps: int, rng: np.random.Generator
) -> Draws:
    """Sequences after so many sweeps, their labels drawn anew.

    ``encode`` puts fields and offsets into the numbers of the model.
    """
    moves = Moves(model, base, encode, rng)
    for _ in range(sweeps):
        drawn = moves.ends(moves.values(moves.labels(drawn)))
    return moves.labels(drawn)


class Moves:
    """The moves of a model over ``base``; each takes draws and gives draws."""

    def __init__(self, model: ChainModel, base: HiddenMarkovModel, encode: Encode, rng: np.random.Generator) -> None:
        self._model, self._base, self._encode, self._rng = model, base, encode, rng
        assert isinstance(model.encoder, TemplateEncoder)
        self._rows = _rows(model.encoder)

    def labels(self, drawn: Draws) -> Draws:
        """Labels given the inputs."""
        encoded = self._encode(drawn.fields, drawn.offsets)
        rng = self._rng
        found = self._model.map_blocks(encoded, None, 1, lambda chain, scores, _: chain.sample(scores, 1, rng)[0])
        return Draws(drawn.fields, np.concatenate(found), drawn.offsets)

    def values(self, drawn: Draws) -> Draws:
        """Each value of each field given all the rest."""
        fields, labels, offsets = list(drawn.fields), drawn.labels, drawn.offsets
        lengths = np.diff(offsets)
        longest = int(lengths.max())
        lowest, highest = (-longest, longest) if self._rows is None else self._rows
        sequence = np.repeat(np.arange(len(lengths)), lengths)
        begin, end = offsets[sequence], offsets[sequence + 1]
        position = np.arange(len(labels))
        within, apart = position - begin, highest - lowest + 1  # no feature sees two positions that far apart
        first, last = np.maximum(begin, position - highest), np.minimum(end, position - lowest + 1)
        now = self._position_scores(drawn)
        for place, table in enumerate(self._base.emissions):
            for remainder in range(min(apart, longest)):
                here = np.flatnonzero(within % apart == remainder)
                proposed = fields[place].copy()
                proposed[here] = self._base.emit(table, labels[here], self._rng)
                then = self._position_scores(Draws([*fields[:place], proposed, *fields[place + 1 :]], labels, offsets))
                gained = np.concatenate([[0.0], np.cumsum(then - now)])
                gain = gained[last[here]] - gained[first[here]]  # what a value changes lies between first and last
                kept = here[np.log1p(-self._rng.random(len(here))) < gain]
                fields[place] = fields[place].copy()
                fields[place][kept] = proposed[kept]
                touched = np.zeros(len(labels) + 1, dtype=np.int64)
                np.add.at(touched, first[kept], 1)
                np.add.at(touched, last[kept], -1)
                now = np.where(np.cumsum(touched[:-1]) > 0, then, now)
        return Draws(fields, labels, offsets)

    def ends(self, drawn: Draws) -> Draws:
        """What stands after a cut in each sequence."""
        offsets, n = drawn.offsets, len(drawn.offsets) - 1
        lengths = np.diff(offsets)
        cut = np.minimum((self._rng.random(n) * (lengths + 1)).astype(np.int64), lengths)
        states = states_of(drawn.labels, offsets, self._base.n_labels, self._base.order)[0]
        after = np.where(cut > 0, states[offsets[:-1] + np.maximum(cut, 1) - 1], self._base.n_states)
        tail = Draws(*self._base.sample(n, self._rng, after=after))
        # kept beginnings and new ends alternate
        pieces = np.stack([cut, np.diff(tail.offsets)], axis=1)
        starts = np.stack([offsets[:-1], len(drawn.labels) + tail.offsets[:-1]], axis=1)
        new = _taken(drawn, tail, ranges(starts.ravel(), pieces.ravel()), pieces.sum(axis=1))
        odds = self._scores(new) - self._scores(drawn) + np.log((lengths + 1) / (np.diff(new.offsets) + 1))
        taken = np.log1p(-self._rng.random(n)) < odds
        begin = np.where(taken, len(drawn.labels) + new.offsets[:-1], offsets[:-1])
        chosen = np.where(taken, np.diff(new.offsets), lengths)
        return _taken(drawn, new, ranges(begin, chosen), chosen)

    def _scores(self, drawn: Draws) -> Float:
        """w . f(x, y) [S], with -inf for what the constraints rule out."""
        model, encoded = self._model, self._encode(drawn.fields, drawn.offsets)
        found = []
        for first, end in model.blocks(encoded):
            lo, hi = int(encoded.offsets[first]), int(encoded.offsets[end])
            chain = Chain(encoded.offsets[first : end + 1] - lo)
            found.append(chain.score(model.features.scores(model.laid_out, encoded, first, end), drawn.labels[lo:hi]))
        return np.concatenate(found)

    def _position_scores(self, drawn: Draws) -> Float:
        """What the attributes of each position add to w . f(x, y) [N]; label n-grams do not look at values."""
        model, encoded, labels = self._model, self._encode(drawn.fields, drawn.offsets), drawn.labels
        found = []
        for first, end in model.blocks(encoded):
            lo, hi = int(encoded.offsets[first]), int(encoded.offsets[end])
            scores, own = model.features.scores(model.laid_out, encoded, first, end), labels[lo:hi]
            total = scores.emission[np.arange(hi - lo), own]
            if scores.edge is not None:
                pairs = scores.edge[np.arange(hi - lo), np.roll(own, 1), own]
                pairs[encoded.offsets[first:end] - lo] = 0.0
                total = total + pairs
            found.append(total)
        return np.concatenate(found)


def _taken(one: Draws, other: Draws, positions: Int64, lengths: Int64) -> Draws:
    """Sequences of these lengths [S], whose positions are numbered through ``one`` and then ``other``."""
    fields = [np.concatenate(both)[positions] for both in zip(one.fields, other.fields, strict=True)]
    return Draws(fields, np.concatenate([one.labels, other.labels])[positions], offsets_of(lengths))


def _rows(encoder: TemplateEncoder) -> tuple[int, int] | None:
    """The lowest and highest row that an attribute looks at; None if that has no bounds."""
    macros = [macro for spec in encoder.tables() for macro in spec.template.macros]
    if any(macro.absolute or macro.function == GAZETTEER for macro in macros):
        return None
    rows = [macro.row for macro in macros]
    return min(rows, default=0), max(rows, default=0)
