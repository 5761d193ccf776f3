"""A chain model with a generative base as a density of inputs and labels: probabilities, the normaliser, draws.

    p(x, y) = q0(x, y) exp(w . f(x, y)) / Z          p(x) = sum_y p(x, y)          Z = E_q0[exp(w . f)]

Labellings that the constraints rule out have weight zero. The sum over labellings is one forward pass. Z is exact where
p is a hidden Markov model again (:mod:`~loglinear.generative.tilted_chain`); otherwise it is estimated by importance
sampling. Only inputs are drawn, the labels are summed out of their weights (Rao-Blackwell), which can but help:

    Z ~ (1/m) sum_i v_i        v_i = sum_y q0(x_i, y) exp(w . f(x_i, y)) / q0(x_i)        x_1 ... x_m from q0

Where few draws carry all the weight, they are led from q0 to p in K steps (annealed importance sampling, Neal 2001)
over p_k proportional to q0 exp(k/K w . f). The weight of a draw is then the product of  p_k(x_k-1) / p_k-1(x_k-1),
none of them normalised, and x_k is what moves that keep p_k make of x_k-1.

Draws from p are those inputs chosen again by v_i, with labels from p(y given x), drawn exactly; or Markov chains that
go on from there (:mod:`~loglinear.estimators.density_moves`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import Column, Columns
from loglinear.errors import OptionError
from loglinear.estimators.chain_model import ChainModel
from loglinear.estimators.density_moves import Draws, moved
from loglinear.features.encoding import EncodedCorpus
from loglinear.features.template_encoder import TemplateEncoder
from loglinear.generative.base import HmmBase
from loglinear.generative.tilted_chain import TiltedChain, joint_fields, tilted
from loglinear.structures.chain import Chain, ChainScores
from loglinear.structures.gold import Gold
from loglinear.threads import in_threads

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
METHODS = ("auto", "exact", "importance", "gibbs")
FEWEST_EFFECTIVE = 100  # below so many effective draws, or fewer than are asked for, there is a warning


@dataclass(frozen=True)
class LogNormaliser:
    """log Z, and how well it is known.

    Parameters
    ----------
    value : float
        log Z.
    standard_error : float
        Of ``value``, by the spread of the weights; zero if it is exact. It is no better than the draws: weights that
        none of them met do not count.
    effective_sample_size : float
        (sum v)^2 / sum v^2, so many draws from p itself would do as well; inf if it is exact.
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


class Density:
    """The density of a chain model that has a base.

    Parameters
    ----------
    model : ChainModel
    """

    def __init__(self, model: ChainModel) -> None:
        if model.base is None:
            raise OptionError(
                "this is a conditional model, of labels given the input: it has no p(x). Train one with "
                "criterion='hmm' or 'm-estimation' for that; log_probability gives log p(y given x)"
            )
        if not isinstance(model.base, HmmBase):
            raise OptionError(
                "the model's base is your own object, which is asked for its probabilities itself: densities are "
                "worked out over the bases hmm and locally-uniform"
            )
        if model.base.kind == "empirical":
            raise OptionError(
                "base='empirical' takes its inputs from the training data and gives none to others: there is no p(x). "
                "Train with base='hmm' for that; log_probability gives log p(y given x)"
            )
        assert isinstance(model.encoder, TemplateEncoder)
        self.model, self.base, self.encoder = model, model.base, model.encoder
        self._normalisers: dict[tuple[int, int, int], LogNormaliser] = {}

    # -- probabilities -------------------------------------------------------------------------------------------

    def log_weights(
        self, encoded: EncodedCorpus, gold: Gold | None = None, n_threads: int = 1, model: ChainModel | None = None
    ) -> Float:
        """log of q0(x, y) exp(w . f(x, y)) [S], summed over the labellings that ``gold`` leaves (all if None).

        ``model`` may be one with other weights.
        """

        def total(chain: Chain, scores: ChainScores, positions: slice) -> Float:
            if gold is None:
                return chain.log_partition(scores)
            own = gold.slice(positions.start, positions.stop)
            if own.allowed is None:
                return chain.score(scores, own.labels)
            return chain.log_partition(chain.restrict(scores, own.allowed))

        found = (model or self.model).map_blocks(encoded, None, n_threads, total)
        return np.concatenate(found) if found else np.zeros(0)

    @cached_property
    def exact(self) -> TiltedChain | None:
        """The density as a hidden Markov model, None if it is none."""
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

    def log_normaliser(self, draws: int, seed: int, steps: int = 1, n_threads: int = 1) -> LogNormaliser:
        """log Z: zero for the base alone, exact if p is a hidden Markov model, else from ``draws`` sequences."""
        if self._is_base:
            return LogNormaliser(0.0)
        if self.exact is not None:
            return LogNormaliser(self.exact.log_normaliser)
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

    def _annealed(self, draws: int, steps: int, rng: np.random.Generator, n_threads: int) -> Float:
        """log v [draws] of sequences that are led from the base to the model in so many steps."""
        drawn, total = self._weighted(draws, rng, n_threads, self._step(1, steps))
        dead = np.isneginf(total)  # the constraints leave them no labelling
        drawn, total = drawn.chosen(np.flatnonzero(~dead)), total[~dead]
        for k in range(1, steps):
            now = self._step(k, steps)
            drawn = moved(now, self.base.model, self.encoded, drawn, 1, rng)
            encoded = self.encoded(drawn.fields, drawn.offsets)
            then = self.log_weights(encoded, None, n_threads, self._step(k + 1, steps))
            total = total + then - self.log_weights(encoded, None, n_threads, now)
        return np.append(total, np.full(int(dead.sum()), -np.inf))

    def _step(self, k: int, steps: int) -> ChainModel:
        """The model k steps from the base."""
        return self.model if k == steps else self.model.with_weights(self.model.weights * (k / steps))

    @property
    def _is_base(self) -> bool:
        return not self.model.weights.any() and self.model.constraints is None

    # -- draws ---------------------------------------------------------------------------------------------------

    def sample(
        self, n: int, method: str, rng: np.random.Generator, draws: int, sweeps: int, n_threads: int = 1
    ) -> Draws:
        """``n`` draws from p; see :meth:`loglinear.Tagger.sample`."""
        if method not in METHODS:
            raise OptionError(f"method={method!r} is not one of {', '.join(METHODS)}")
        if self._is_base and method in ("auto", "exact"):
            return Draws(*self.base.model.sample(n, rng))
        if method in ("auto", "exact") and self.exact is not None:
            return Draws(*self.exact.sample(n, rng))
        if method == "exact":
            raise OptionError(
                "method='exact' is for models whose features look at labels and at single positions (a template with "
                "rows 0 only, without label pairs); take importance or gibbs"
            )
        drawn = self._resampled(n, draws, rng, n_threads)
        return moved(self.model, self.base.model, self.encoded, drawn, sweeps, rng) if method == "gibbs" else drawn

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
        effective = _log_mean(log_weights).effective_sample_size
        if effective < max(n, FEWEST_EFFECTIVE):
            warnings.warn(
                f"{draws:,} draws from the base are worth {effective:.1f} from the model, and {n:,} are asked for: "
                "many will be the same; take more draws, or gibbs with more sweeps",
                stacklevel=4,
            )
        shares = np.exp(log_weights - log_weights.max())
        chosen = rng.choice(draws, size=n, p=shares / shares.sum())
        return moved(self.model, self.base.model, self.encoded, drawn.chosen(chosen), 0, rng)

    # -- numbers and strings -------------------------------------------------------------------------------------

    def columns(self, fields: list[Int32], offsets: npt.NDArray[np.int64], between: Column | None = None) -> Columns:
        """A corpus of the base's values [N] of each field; ``between`` fills columns that the base does not emit."""
        vocabulary, n = self.base.vocabulary, int(offsets[-1])
        filling = Column(np.zeros(n, dtype=np.int32), ["_"]) if between is None else between
        columns = [filling] * (max(vocabulary.columns) + 1)
        for c, values, strings in zip(vocabulary.columns, fields, vocabulary.values, strict=True):
            columns[c] = Column(values, strings)
        return Columns("<drawn>", offsets, np.zeros(n, dtype=np.int64), columns)

    def encoded(self, fields: list[Int32], offsets: npt.NDArray[np.int64]) -> EncodedCorpus:
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
