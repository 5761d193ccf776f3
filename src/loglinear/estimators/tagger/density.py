"""A chain model with a generative base as a density of inputs and labels: probabilities, the normaliser, draws.

    p(x, y) = q0(x, y) exp(w . f(x, y)) / Z          p(x) = sum_y p(x, y)          Z = E_q0[exp(w . f)]

Labellings that the constraints rule out have weight zero. The sum over labellings is one forward pass. Z is exact where
p is a hidden Markov model again (:mod:`~loglinear.generative.hmm.tilted`); otherwise it is estimated by importance
sampling. Only inputs are drawn; the labels are summed out of their weights (Rao-Blackwell), which lowers the variance:

    Z ~ (1/m) sum_i v_i        v_i = sum_y q0(x_i, y) exp(w . f(x_i, y)) / q0(x_i)        x_1 ... x_m from q0

Where few draws carry all the weight, they are led from q0 to p in K steps (annealed importance sampling, Neal 2001)
over p_k proportional to q0 exp(k/K w . f). The weight of a draw is then the product of  p_k(x_k-1) / p_k-1(x_k-1),
none of them normalised, and x_k is what moves that keep p_k make of x_k-1.

Draws from p are those inputs resampled by v_i, with labels drawn exactly from p(y given x); or Markov chains that start
from such a sample (:class:`Moves`).

A base of the user's own (:class:`OwnDensity`) draws, too. If it says what its parts score, all of this is the same, but
for the moves, which only a hidden Markov model has. If it has no more than log q0(x, y), labels are not summed out:

    Z ~ (1/m) sum_i exp(w . f(x_i, y_i))        (x_1, y_1) ... (x_m, y_m) from q0
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from loglinear.arrays import Bool, Float, Int32, Int64, UInt8
from loglinear.data.columns.corpus import Column, Columns, offsets_of, ranges
from loglinear.errors import DataError, OptionError
from loglinear.estimators.estimator import MOST_DRAWS, whole_number
from loglinear.estimators.tagger.inputs import Annotation
from loglinear.estimators.tagger.model import ChainModel, SequenceModel
from loglinear.estimators.tagger.predict import SequencePredictor
from loglinear.features.encoding import EncodedCorpus
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.language import GAZETTEER
from loglinear.generative.base import Corpus, HmmBase, OwnBase, named_values
from loglinear.generative.hmm.model import states_of
from loglinear.generative.hmm.tilted import TiltedChain, joint_fields, tilted
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.structures.gold import Gold
from loglinear.system import in_threads, thread_count

METHODS = ("auto", "exact", "importance", "gibbs")
PORTION = 50_000  # sequences at a time, where a portion is as good as the whole
FEWEST_EFFECTIVE = 100  # with fewer effective draws, or fewer than are asked for, there is a warning


@dataclass(frozen=True)
class LogNormaliser:
    """log Z, and how well it is known.

    Parameters
    ----------
    value : float
        log Z.
    standard_error : float
        Of ``value``, by the spread of the weights; zero if it is exact. It cannot account for regions of high weight
        that no draw has reached.
    effective_sample_size : float
        (sum v)^2 / sum v^2, the number of draws from p itself that would do as well; inf if it is exact.
    draws : int
        Sequences drawn from the base; zero if it is exact.
    """

    value: float
    standard_error: float = 0.0
    effective_sample_size: float = float("inf")
    draws: int = 0

    @property
    def exact(self) -> bool:
        """Whether there is no sampling error."""
        return self.draws == 0


def density_of(model: SequenceModel) -> Density:
    """The density of a chain model that has a base with inputs of its own."""
    if model.base is None:
        raise OptionError(
            "this is a conditional model, of labels given the input: it has no p(x). Train one with "
            "criterion='hmm' or 'm-estimation' for that; log_probability gives log p(y given x)"
        )
    assert isinstance(model, ChainModel)
    if isinstance(model.base, OwnBase):
        return OwnDensity(model, model.base)
    assert isinstance(model.base, HmmBase)
    if model.base.kind == "empirical":
        raise OptionError(
            "base='empirical' takes its inputs from the training data and gives none to others: there is no p(x). "
            "Train with base='hmm' for that; log_probability gives log p(y given x)"
        )
    return HmmDensity(model, model.base)


class Density(ABC):
    """The density of a chain model that has a base.

    Parameters
    ----------
    model : ChainModel
    """

    def __init__(self, model: ChainModel) -> None:
        self.model = model
        self._normalisers: dict[tuple[int, int, int], LogNormaliser] = {}

    def log_weights(
        self, encoded: EncodedCorpus, gold: Gold | None = None, n_threads: int = 1, model: ChainModel | None = None
    ) -> Float:
        """log of q0(x, y) exp(w . f(x, y)) [S], summed over the labellings that ``gold`` leaves (all if None).

        ``model`` may be one with other weights.
        """

        def total(chain: Chain, scores: ChainScores, positions: slice) -> Float:
            if gold is None:
                return chain.log_partition(scores)
            part = gold.slice(positions.start, positions.stop)
            if part.allowed is None:
                return chain.score(scores, part.labels)
            return chain.log_partition(chain.restrict(scores, part.allowed))

        return np.concatenate([np.zeros(0), *(model or self.model).map_blocks(encoded, None, n_threads, total)])

    def log_normaliser(self, draws: int, seed: int, steps: int = 1, n_threads: int = 1) -> LogNormaliser:
        """log Z: zero for the base alone, exact if p is a hidden Markov model, else from ``draws`` sequences."""
        if (known := self._known_normaliser()) is not None:
            return LogNormaliser(known)
        key = (draws, seed, steps)
        if key not in self._normalisers:
            found = _log_mean(self._annealed(draws, steps, np.random.default_rng([seed, 3]), n_threads))
            if found.effective_sample_size < FEWEST_EFFECTIVE:
                warnings.warn(
                    f"log Z rests on {found.effective_sample_size:.1f} effective draws of {draws:,}, and is likely to "
                    "be too small; take more draws or more steps, or train with a stronger penalty",
                    stacklevel=3,
                )
            self._normalisers[key] = found
        return self._normalisers[key]

    @property
    def _is_base(self) -> bool:
        return not self.model.weights.any() and self.model.constraints is None

    def _known_normaliser(self) -> float | None:
        """log Z where it is known exactly."""
        return 0.0 if self._is_base else None

    @abstractmethod
    def _annealed(self, draws: int, steps: int, rng: np.random.Generator, n_threads: int) -> Float:
        """log v [draws] of sequences led from the base to the model in ``steps`` steps."""

    @abstractmethod
    def sample(self, n: int, method: str, rng: np.random.Generator, draws: int, sweeps: int, n_threads: int = 1) -> Any:
        """``n`` draws from p, with their ``labels`` [N]; see :meth:`loglinear.Tagger.sample`."""

    @abstractmethod
    def draws_exactly(self, method: str) -> bool:
        """Whether draws by that method are independent ones from p, as many in portions as at once."""

    @abstractmethod
    def corpus(self, drawn: Any, between: Column) -> Corpus:
        """What was drawn as a corpus; ``between`` fills columns that the base does not draw."""

    def _check_method(self, method: str) -> None:
        if method not in METHODS:
            raise OptionError(f"method={method!r} is not one of {', '.join(METHODS)}")

    def _shares(self, log_weights: Float, n: int) -> Float:
        """Probabilities [draws] to resample by; warns if they are worth fewer draws than the ``n`` asked for."""
        effective, draws = _log_mean(log_weights).effective_sample_size, len(log_weights)
        if effective < max(n, FEWEST_EFFECTIVE):
            warnings.warn(
                f"{draws:,} draws from the base are worth {effective:.1f} from the model, and {n:,} are asked for: "
                "many will be the same; take more draws, or gibbs with more sweeps",
                stacklevel=5,
            )
        shares = np.exp(log_weights - log_weights.max())
        return shares / shares.sum()


class HmmDensity(Density):
    """The density of a model over a hidden Markov model."""

    def __init__(self, model: ChainModel, base: HmmBase) -> None:
        super().__init__(model)
        assert isinstance(model.encoder, TemplateEncoder)
        self.base, self.encoder = base, model.encoder

    @cached_property
    def exact(self) -> TiltedChain | None:
        """The density as a hidden Markov model, None if it is not one."""
        model, hmm = self.model, self.base.model
        if model.features.edge is not None and model.features.edge.n_features:
            return None
        sizes = [table.shape[1] for table in hmm.emissions]
        groups = joint_fields(self.encoder, self.base.vocabulary.columns, sizes)
        if groups is None:
            return None

        def emission(fields: list[Int32]) -> Float:
            encoded = self.encoded(fields, np.arange(len(fields[0]) + 1))
            blocks = [model.features.scores(model.laid_out, encoded, *block) for block in model.blocks(encoded)]
            return np.concatenate([scores.emission for scores in blocks])

        laid_out = model.laid_out
        ngrams = ChainScores(
            np.zeros((0, hmm.n_labels)), laid_out.transition, laid_out.start, laid_out.stop, None, laid_out.trigram
        )
        return tilted(hmm, ngrams, groups, emission)

    def _known_normaliser(self) -> float | None:
        known = super()._known_normaliser()
        return self.exact.log_normaliser if known is None and self.exact is not None else known

    def _annealed(self, draws: int, steps: int, rng: np.random.Generator, n_threads: int) -> Float:
        drawn, total = self._weighted(draws, rng, n_threads, self._step(1, steps))
        dead = np.isneginf(total)  # the constraints leave them no labelling
        drawn, total = drawn.chosen(np.flatnonzero(~dead)), total[~dead]
        for k in range(1, steps):
            now, later = self._step(k, steps), self._step(k + 1, steps)
            drawn = self.moved(drawn, 1, rng, now)
            encoded = self.encoded(drawn.fields, drawn.offsets)
            weights = [self.log_weights(encoded, None, n_threads, model) for model in (later, now)]
            total = total + weights[0] - weights[1]
        return np.append(total, np.full(int(dead.sum()), -np.inf))

    def _step(self, k: int, steps: int) -> ChainModel:
        """The model k steps from the base."""
        return self.model if k == steps else self.model.with_weights(self.model.weights * (k / steps))

    # -- draws ---------------------------------------------------------------------------------------------------

    def sample(
        self, n: int, method: str, rng: np.random.Generator, draws: int, sweeps: int, n_threads: int = 1
    ) -> Draws:
        self._check_method(method)
        if self.draws_exactly(method):
            chain = self.base.model if self._is_base else self.exact
            assert chain is not None
            return Draws(*chain.sample(n, rng))
        if method == "exact":
            raise OptionError(
                "method='exact' is for models whose features look at labels and at single positions (a template with "
                "rows 0 only, without label pairs); take importance or gibbs"
            )
        drawn = self._resampled(n, draws, rng, n_threads)
        return self.moved(drawn, sweeps, rng) if method == "gibbs" else drawn

    def draws_exactly(self, method: str) -> bool:
        return method in ("auto", "exact") and (self._is_base or self.exact is not None)

    def _weighted(
        self, draws: int, rng: np.random.Generator, n_threads: int, model: ChainModel | None = None
    ) -> tuple[Draws, Float]:
        """Sequences from the base, and log v of each: its weight with the labels summed out."""
        drawn = Draws(*self.base.model.sample(draws, rng))
        encoded = self.encoded(drawn.fields, drawn.offsets)

        def under_base(block: tuple[int, int]) -> Float:
            chain = Chain(encoded.offsets[block[0] : block[1] + 1] - encoded.offsets[block[0]])
            return chain.log_partition(self.base.scores(encoded, *block))

        base = np.concatenate(in_threads(under_base, self.model.blocks(encoded), n_threads))
        return drawn, self.log_weights(encoded, None, n_threads, model) - base

    def _resampled(self, n: int, draws: int, rng: np.random.Generator, n_threads: int) -> Draws:
        drawn, log_weights = self._weighted(draws, rng, n_threads)
        return self.moved(drawn.chosen(rng.choice(draws, size=n, p=self._shares(log_weights, n))), 0, rng)

    def moved(self, drawn: Draws, sweeps: int, rng: np.random.Generator, model: ChainModel | None = None) -> Draws:
        """Sequences after that many sweeps of :class:`Moves`, with labels drawn given the inputs."""
        moves = Moves(self, rng, model)
        for _ in range(sweeps):
            drawn = moves.ends(moves.values(moves.labels(drawn)))
        return moves.labels(drawn)

    # -- numbers and strings -------------------------------------------------------------------------------------

    def corpus(self, drawn: Draws, between: Column) -> Columns:
        return self.columns(drawn.fields, drawn.offsets, between)

    def columns(self, fields: list[Int32], offsets: Int64, between: Column | None = None) -> Columns:
        """A corpus of the base's values [N] of each field; ``between`` fills columns that the base does not emit."""
        vocabulary, n = self.base.vocabulary, int(offsets[-1])
        filling = Column(np.zeros(n, dtype=np.int32), ["_"]) if between is None else between
        columns = [filling] * (max(vocabulary.columns) + 1)
        for c, values, strings in zip(vocabulary.columns, fields, vocabulary.values, strict=True):
            columns[c] = Column(values, strings)
        return Columns("<drawn>", offsets, np.zeros(n, dtype=np.int64), columns)

    def encoded(self, fields: list[Int32], offsets: Int64) -> EncodedCorpus:
        """The base's values in the numbers of the model."""
        return replace(self.encoder.transform(self.columns(fields, offsets)), fields=tuple(fields))


def _log_mean(log_weights: Float) -> LogNormaliser:
    """log of the mean of weights, with its standard error."""
    greatest, n = float(log_weights.max()), len(log_weights)
    if not np.isfinite(greatest):
        raise OptionError("no sequence drawn from the base fits the constraints; take more draws")
    weights = np.exp(log_weights - greatest)
    mean = float(weights.mean())
    error = float(weights.std(ddof=1) / mean / np.sqrt(n))
    return LogNormaliser(greatest + float(np.log(mean)), error, float(weights.sum() ** 2 / (weights**2).sum()), n)


# ----------------------------------------------------------------------------------------------------------------------
# Moves that leave p(x, y), proportional to q0(x, y) exp(w . f(x, y)), invariant, for many sequences at once.
#
# A sweep is three kinds of moves, each of which keeps p exactly (q0 a hidden Markov model):
#
#    labels   y given x, drawn exactly: forward filtering, backward sampling
#    values   x'_tf from e_f( . given y_t), which is q0 of the value given all the rest, so that it is kept with
#             probability min(1, exp(w.f(x', y) - w.f(x, y))); positions that no feature sees together move at once
#    ends     a cut c in 0 ... T; what follows it is drawn again from q0 given the state there. The sequence, now of
#             length T', is kept with probability min(1, exp(w.f(x', y') - w.f(x, y)) (T + 1) / (T' + 1)): the cut is
#             one of T + 1 here, and one of T' + 1 on the way back
#
# With the third, sequences of all lengths reach each other (c = 0 draws the whole sequence again).


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


class Moves:
    """The moves of a density, or of one over the same base whose features weigh as in ``model``."""

    def __init__(self, density: HmmDensity, rng: np.random.Generator, model: ChainModel | None = None) -> None:
        self._density, self._base, self._rng = density, density.base.model, rng
        self._model = density.model if model is None else model
        self._rows = _rows(density.encoder)

    def labels(self, drawn: Draws) -> Draws:
        """Labels given the inputs."""
        encoded, rng = self._density.encoded(drawn.fields, drawn.offsets), self._rng
        labels = self._model.map_blocks(encoded, None, 1, lambda chain, scores, _: chain.sample(scores, 1, rng)[0])
        return Draws(drawn.fields, np.concatenate(labels), drawn.offsets)

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
        """What follows a cut in each sequence."""
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

    def _blocks(self, drawn: Draws) -> Iterator[tuple[Chain, ChainScores, Int32]]:
        """Blocks of sequences: their shape, their scores without the base, and their labels."""
        model, encoded = self._model, self._density.encoded(drawn.fields, drawn.offsets)
        for first, end in model.blocks(encoded):
            lo, hi = int(encoded.offsets[first]), int(encoded.offsets[end])
            scores = model.features.scores(model.laid_out, encoded, first, end)
            yield Chain(encoded.offsets[first : end + 1] - lo), scores, drawn.labels[lo:hi]

    def _scores(self, drawn: Draws) -> Float:
        """w . f(x, y) [S], with -inf for what the constraints rule out."""
        return np.concatenate([chain.score(scores, labels) for chain, scores, labels in self._blocks(drawn)])

    def _position_scores(self, drawn: Draws) -> Float:
        """What the attributes of each position add to w . f(x, y) [N]; label n-grams do not look at values."""
        totals = []
        for chain, scores, labels in self._blocks(drawn):
            positions = np.arange(len(labels))
            total = scores.emission[positions, labels]
            if scores.edge is not None:
                pairs = scores.edge[positions, np.roll(labels, 1), labels]
                pairs[chain.offsets[:-1]] = 0.0
                total = total + pairs
            totals.append(total)
        return np.concatenate(totals)


def _taken(one: Draws, other: Draws, positions: Int64, lengths: Int64) -> Draws:
    """Sequences of these lengths [S], whose positions are numbered through ``one`` and then ``other``."""
    fields = [np.concatenate(both)[positions] for both in zip(one.fields, other.fields, strict=True)]
    return Draws(fields, np.concatenate([one.labels, other.labels])[positions], offsets_of(lengths))


# ----------------------------------------------------------------------------------------------------------------------
# The density of a model over a base of the user's own, by its draws and its log-probabilities.

MOST_LABELLINGS = 10_000  # of a sequence, that are summed one by one where the base has no part scores


class OwnDraws(NamedTuple):
    """Sequences that a base of the user's own drew: a corpus, and their labels [N]."""

    corpus: Corpus
    labels: Int32

    def chosen(self, sequences: Int64) -> OwnDraws:
        """Some of the sequences, in the order of their numbers given."""
        offsets = self.corpus.offsets
        positions = ranges(offsets[sequences], np.diff(offsets)[sequences])
        return OwnDraws(self.corpus.select(sequences), self.labels[positions])


class OwnDensity(Density):
    """The density of a model over a base of the user's own."""

    def __init__(self, model: ChainModel, base: OwnBase) -> None:
        super().__init__(model)
        self.base = base

    def log_weights(
        self, encoded: EncodedCorpus, gold: Gold | None = None, n_threads: int = 1, model: ChainModel | None = None
    ) -> Float:
        if self.base.has_parts:
            return super().log_weights(encoded, gold, n_threads, model)
        mask = (gold or Gold(np.full(encoded.n_positions, -1, dtype=np.int32), self._any(encoded))).mask(self._n_labels)
        return np.array([self._summed(encoded, i, mask) for i in range(encoded.n_sequences)])

    @property
    def _n_labels(self) -> int:
        return len(self.model.labels)

    def _any(self, encoded: EncodedCorpus) -> UInt8:
        return np.ones((encoded.n_positions, self._n_labels), dtype=np.uint8)

    def _summed(self, encoded: EncodedCorpus, sequence: int, mask: Bool) -> float:
        """log of q0(x, y) exp(w . f(x, y)) of one sequence, summed over the labellings that ``mask`` [N, Y] leaves."""
        lo, hi = encoded.offsets[sequence : sequence + 2].tolist()
        left = [np.flatnonzero(row) for row in mask[lo:hi]]
        count = math.prod(map(len, left))
        if count > MOST_LABELLINGS:
            raise OptionError(
                f"{self.base.name} has no method scores(x, labels): its labellings are summed one by one, and a "
                f"sequence of {hi - lo} positions has {count:.2g} (at most {MOST_LABELLINGS:,}); give y, or scores"
            )
        labellings = np.array(list(product(*left)), dtype=np.int32).reshape(count, hi - lo)
        log_q = np.array([self.base.scorer(encoded, sequence)(labels) for labels in labellings])
        chain, scores = (
            Chain([0, hi - lo]),
            self.model.features.scores(self.model.laid_out, encoded, sequence, sequence + 1),
        )
        tilt = np.array([chain.score(scores, labels)[0] for labels in labellings])
        return float(np.logaddexp.reduce(log_q + tilt, initial=-np.inf))

    def _annealed(self, draws: int, steps: int, rng: np.random.Generator, n_threads: int) -> Float:
        if steps > 1:
            raise OptionError(
                f"steps={steps}: draws are led from the base to the model by moves that a hidden Markov model has; "
                f"over {self.base.name}, take more draws"
            )
        return self._weighted(draws, rng)[1]

    def _weighted(self, draws: int, rng: np.random.Generator) -> tuple[OwnDraws, Float]:
        """Sequences from the base, and log v of each; with part scores the labels are summed out."""
        drawn = OwnDraws(*self.base.draw(draws, rng))
        model, encoded = self.model, self.model.encode(drawn.corpus)
        if self.base.has_parts:

            def under_base(sequence: int) -> Float:
                length = int(np.diff(encoded.offsets)[sequence])
                return Chain([0, length]).log_partition(self.base.scores(encoded, sequence, sequence + 1))

            base = np.concatenate([under_base(i) for i in range(draws)])
            return drawn, super().log_weights(encoded) - base
        log_weights = []
        for first, end in model.features.blocks(encoded.offsets, 0, draws):
            lo, hi = encoded.offsets[[first, end]].tolist()
            chain = Chain(encoded.offsets[first : end + 1] - lo)
            scores = model.features.scores(model.laid_out, encoded, first, end)
            log_weights.append(chain.score(scores, drawn.labels[lo:hi]))
        return drawn, np.concatenate(log_weights)

    def sample(
        self, n: int, method: str, rng: np.random.Generator, draws: int, sweeps: int, n_threads: int = 1
    ) -> OwnDraws:
        self._check_method(method)
        if self.draws_exactly(method):
            return OwnDraws(*self.base.draw(n, rng))
        if method in ("exact", "gibbs"):
            raise OptionError(f"method={method!r} is for models over a hidden Markov model; take importance")
        drawn, log_weights = self._weighted(draws, rng)
        drawn = drawn.chosen(rng.choice(draws, size=n, p=self._shares(log_weights, n)))
        if not self.base.has_parts:
            return drawn
        encoded = self.model.encode(drawn.corpus)
        labels = self.model.map_blocks(encoded, None, 1, lambda chain, scores, _: chain.sample(scores, 1, rng)[0])
        return drawn._replace(labels=np.concatenate(labels))

    def draws_exactly(self, method: str) -> bool:
        return method in ("auto", "exact") and self._is_base

    def corpus(self, drawn: OwnDraws, between: Column) -> Corpus:
        if not isinstance(drawn.corpus, Columns) or self.base.columns is None:
            return drawn.corpus
        own = set(self.base.columns)
        columns = [column if c in own else between for c, column in enumerate(drawn.corpus.columns)]
        return replace(drawn.corpus, columns=columns)


def _columns_of(corpus: Corpus, label: Column) -> tuple[Columns, Column]:
    """What was drawn, where that is columns."""
    if not isinstance(corpus, Columns):
        raise OptionError("the model's tokens are ready-made features, and no columns; sample gives them")
    return corpus, label


def _rows(encoder: TemplateEncoder) -> tuple[int, int] | None:
    """The lowest and highest row that an attribute looks at; None if that has no bounds."""
    macros = [macro for spec in encoder.tables() for macro in spec.template.macros]
    if any(macro.absolute or macro.function == GAZETTEER for macro in macros):
        return None
    rows = [macro.row for macro in macros]
    return min(rows, default=0), max(rows, default=0)


# ----------------------------------------------------------------------------------------------------------------------
# What can be asked of a tagger that is a density: probabilities of inputs, and inputs themselves.

DRAWS = 10_000
SWEEPS = 20


class DensityPredictor(SequencePredictor):
    """Prediction and, for models with a generative base, the density p(x, y) = q0(x, y) exp(w . f(x, y)) / Z."""

    seed: int

    def log_prob(
        self,
        X: Any,
        y: Any = None,
        *,
        normalised: bool = True,
        draws: int = DRAWS,
        seed: int | None = None,
        steps: int = 1,
    ) -> Float:
        """log p(x, y) of each sequence [S] or, without ``y``, log p(x) = log sum_y p(x, y).

        For models of the criteria ``hmm`` and ``m-estimation``; the base ``empirical`` has no p(x). Values that are not
        known to the base count as the one value ``<unknown>``, whose probability is that of all of them together; a
        base of one's own gets them as they are. The sequence's length is part of the density.

        Parameters
        ----------
        X
            Sequences, or a corpus (whose labels do not count).
        y : sequence of label sequences, optional
            A label, None (any) or a set of labels (one of them) for each token; the sum over the labellings they leave.
        normalised : bool
            Whether to subtract log Z (:meth:`log_normaliser`).
        draws, seed, steps
            For log Z, if it is to be estimated.
        """
        density = self._density()
        corpus = self._corpus(X)
        if corpus.given is not None:
            raise DataError("log_prob is not defined for empty sequences; leave them out")
        encoded, _ = self._encode(corpus, None)
        gold = None if y is None else Annotation.from_python(y, encoded.offsets).gold(self.classes_)
        if gold is not None:
            gold = gold.split(density.model.sub_labels, len(self.classes_))
        log_p = density.log_weights(encoded, gold, thread_count(self.threads))
        return log_p - self.log_normaliser(draws, seed, steps).value if normalised else log_p

    def log_normaliser(self, draws: int = DRAWS, seed: int | None = None, steps: int = 1) -> LogNormaliser:
        """log Z = log E_q0[exp(w . f)] with its standard error; worked out once.

        It is exact if the features look at labels and at single positions (0 for ``hmm`` without constraints);
        otherwise ``draws`` sequences are drawn from the base, by ``seed`` (the tagger's if None). If few of them carry
        all the weight, there is a warning: lead them to the model in more ``steps``, each of which moves all of them
        once (not over a base of one's own).
        """
        rng_seed = whole_number("seed", self.seed if seed is None else seed, 0)
        draws, steps = whole_number("draws", draws, 2, MOST_DRAWS), whole_number("steps", steps, 1)
        return self._density().log_normaliser(draws, rng_seed, steps, thread_count(self.threads))

    def sample(
        self,
        n: int = 1,
        method: str = "auto",
        *,
        seed: int | None = None,
        draws: int | None = None,
        sweeps: int = SWEEPS,
    ) -> tuple[list[list[Any]], list[list[str]]]:
        """``n`` sequences drawn from p(x, y), and their labels.

        A token is a string or, if the model has several columns, a tuple of them; if labels stood between them in
        training they are there again. ``<unknown>`` is any value that the model does not know.

        Parameters
        ----------
        n : int
            At most 10,000,000 at a time, as ``draws``.
        method : {"auto", "exact", "importance", "gibbs"}
            Independent draws, where p is a hidden Markov model; sequences of the base, resampled by their weights (with
            a warning if few of them weigh much); Markov chains of ``sweeps`` sweeps that start from such a sample.
            ``auto`` is exact where that is possible, else importance.
        seed : int, optional
            The tagger's if None.
        draws : int, optional
            Sequences drawn from the base to choose from; 20 for each one asked for, at least 10,000 and at most
            10,000,000, if None.
        sweeps : int
            Of ``gibbs``.
        """
        corpus, label = self._sampled(n, method, seed, draws, sweeps)
        if not isinstance(corpus, Columns):
            tokens = [named_values(corpus, lo, hi) for lo, hi in pairwise(corpus.offsets.tolist())]
            return tokens, self._split(label.ids, corpus.offsets)
        rows: list[list[Any]] = list(corpus.rows())
        if corpus.n_columns == 1:
            rows = [[token[0] for token in sequence] for sequence in rows]
        return rows, self._split(label.ids, corpus.offsets)

    def sample_portions(
        self,
        n: int = 1,
        method: str = "auto",
        *,
        seed: int | None = None,
        draws: int | None = None,
        sweeps: int = SWEEPS,
    ) -> Iterator[tuple[Columns, Column]]:
        """What :meth:`sample_columns` draws, in portions of 50,000 sequences, so that any number takes little memory.

        Only independent draws come in portions; the others are resampled from one set, and come all at once.
        """
        for sampled in self._portions(n, PORTION, method, seed, draws, sweeps):
            yield _columns_of(*sampled)

    def sample_columns(
        self,
        n: int = 1,
        method: str = "auto",
        *,
        seed: int | None = None,
        draws: int | None = None,
        sweeps: int = SWEEPS,
    ) -> tuple[Columns, Column]:
        """What :meth:`sample` draws as a corpus and a column of labels, without a Python object for each token."""
        return _columns_of(*self._sampled(n, method, seed, draws, sweeps))

    def _sampled(self, n: int, method: str, seed: int | None, draws: int | None, sweeps: int) -> tuple[Corpus, Column]:
        (sampled,) = self._portions(n, n, method, seed, draws, sweeps)
        return sampled

    def _portions(
        self, n: int, portion: int, method: str, seed: int | None, draws: int | None, sweeps: int
    ) -> Iterator[tuple[Corpus, Column]]:
        """``n`` draws, ``portion`` at a time where draws are independent, else all at once."""
        density = self._density()
        rng = np.random.default_rng([whole_number("seed", self.seed if seed is None else seed, 0), 4])
        n, sweeps = whole_number("n", n, 1, MOST_DRAWS), whole_number("sweeps", sweeps, 0)
        enough = min(max(DRAWS, 20 * n), MOST_DRAWS) if draws is None else whole_number("draws", draws, 2, MOST_DRAWS)
        portion = portion if density.draws_exactly(method) else n
        for start in range(0, n, portion):
            size = min(portion, n - start)
            drawn = density.sample(size, method, rng, enough, sweeps, thread_count(self.threads))
            label = Column((drawn.labels // density.model.sub_labels).astype(np.int32), self.classes_)
            yield density.corpus(drawn, label), label

    def _density(self) -> Density:
        model = self._fitted()
        known = self.__dict__.get("_known_density")
        if known is None or known.model is not model:
            known = self._known_density = density_of(model)
        return known
