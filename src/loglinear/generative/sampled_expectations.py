"""Expected feature counts by drawing sequences from the base (Smith, Vail & Lafferty 2007, eq. 7), smoothed.

    E_q0[f]  ~  (1/s) sum over draws (x, y) of f(x, y)             its standard error: the draws' deviation / sqrt(s)

A feature that no draw happens to have would get an expectation of zero, and only the penalty would then keep its weight
from growing without end. So, next to the s draws, ``smoothing`` (c) sequences count that are like the training data's
on average, with feature counts F:

    E  =  (s E_drawn + c F) / (s + c)

which is still the expectation under a distribution, the draws with a little of the training data mixed in: counts that
belong together (a value with each label, and the value) still add up. A feature of the training data that is never
drawn is expected c / (s + c) times as often as it occurs there: by itself it is worth at most log((s + c) / c). Draws
are made in batches, each with its own seed, so that memory is bounded and the result is the same for any number of
threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import Attributes, Columns
from loglinear.features.name_encoder import NameEncoder
from loglinear.features.template_encoder import TemplateEncoder
from loglinear.options import Option
from loglinear.structures.chain_features import ChainFeatures
from loglinear.threads import in_threads

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Draw = Callable[[int, np.random.Generator], tuple[Columns | Attributes, Int32]]
DRAWS_AT_ONCE = 2_000
STREAM = 3  # of random numbers, apart from those that training itself uses
SAMPLES = Option("samples", None, "sequences drawn for the expectations, which are exact without it", least=1, kind=int)
SMOOTHING = Option("smoothing", 1.0, "average training sequences that count as draws", least=0, kind=float, most=1e9)


@dataclass(frozen=True)
class Estimate:
    """Feature counts of drawn sequences.

    Parameters
    ----------
    mean : float64 [D]
        Of each feature in a sequence.
    error : float64 [D]
        Its standard error; zero for what was never drawn.
    """

    mean: Float
    error: Float


@dataclass(frozen=True)
class Sampling:
    """How expectations are to be estimated.

    Parameters
    ----------
    samples : int
        s, the number of sequences drawn.
    smoothing : float
        c, how many sequences like the training data's count as draws.
    seed : int
    """

    samples: int
    smoothing: float = SMOOTHING.default
    seed: int = 0

    def estimate(
        self, draw: Draw, encoder: TemplateEncoder | NameEncoder, features: ChainFeatures, n_threads: int = 1
    ) -> Estimate:
        """Mean feature counts of what ``draw(n, rng)`` draws: a corpus of n sequences and their labels [N]."""
        from loglinear.generative.m_estimation import sentence_counts  # SciPy, which labelling does without

        def batch(number: int) -> tuple[Float, Float]:
            n = min(DRAWS_AT_ONCE, self.samples - number * DRAWS_AT_ONCE)
            corpus, labels = draw(n, np.random.default_rng([self.seed, STREAM, number]))
            counts = sentence_counts(features, encoder.transform(corpus), labels)  # type: ignore[arg-type]  # its kind
            return np.asarray(counts.sum(axis=0)).ravel(), np.asarray(counts.multiply(counts).sum(axis=0)).ravel()

        total, squares = np.zeros((2, features.n_features))
        numbers = range(-(-self.samples // DRAWS_AT_ONCE))
        for begin in range(0, len(numbers), n_threads):  # as many batches in memory as there are threads
            for own, own_squares in in_threads(batch, numbers[begin : begin + n_threads], n_threads):
                total += own
                squares += own_squares
        mean = total / self.samples
        return Estimate(mean, np.sqrt(np.maximum(squares / self.samples - mean**2, 0.0) / self.samples))

    def smoothed(self, drawn: Float, observed: Float) -> Float:
        """E [D] of the mean counts of the draws and of the training data."""
        return (self.samples * drawn + self.smoothing * observed) / (self.samples + self.smoothing)
