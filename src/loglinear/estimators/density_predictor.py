"""What can be asked of a tagger that is a density: probabilities of inputs, and inputs themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import Column, Columns
from loglinear.errors import OptionError
from loglinear.estimators.annotation import Annotation
from loglinear.estimators.chain_predictor import ChainPredictor
from loglinear.estimators.density import Density, LogNormaliser
from loglinear.threads import thread_count

Float = npt.NDArray[np.float64]
DRAWS = 10_000
SWEEPS = 20
MOST_DRAWS = 10_000_000  # at a time: memory holds all of them at once


class DensityPredictor(ChainPredictor):
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
        known to the base count as the one value ``<unknown>``, whose probability is that of all of them together. The
        sequence's length is part of the density.

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
        encoded, _ = self._encode(X, None)
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
        once.
        """
        rng_seed = _number("seed", self.seed if seed is None else seed, 0)
        draws, steps = _number("draws", draws, 2, MOST_DRAWS), _number("steps", steps, 1)
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
        training they stand there again. ``<unknown>`` stands for any value that the model does not know.

        Parameters
        ----------
        n : int
            At most 10,000,000 at a time, as ``draws``.
        method : {"auto", "exact", "importance", "gibbs"}
            Independent draws, where p is a hidden Markov model; sequences of the base, chosen again by their weights
            (there is a warning if few of them weigh much); Markov chains that start from such a choice and go on for
            ``sweeps``. ``auto`` is exact where that is possible, else importance.
        seed : int, optional
            The tagger's if None.
        draws : int, optional
            Sequences drawn from the base to choose from; 20 for each one asked for, at least 10,000 and at most
            10,000,000, if None.
        sweeps : int
            Of ``gibbs``.
        """
        corpus, label = self.sample_columns(n, method, seed=seed, draws=draws, sweeps=sweeps)
        rows: list[list[Any]] = list(corpus.rows())
        if corpus.n_columns == 1:
            rows = [[token[0] for token in sequence] for sequence in rows]
        return rows, self._split(label.ids, corpus.offsets)

    def sample_columns(
        self,
        n: int = 1,
        method: str = "auto",
        *,
        seed: int | None = None,
        draws: int | None = None,
        sweeps: int = SWEEPS,
    ) -> tuple[Columns, Column]:
        """The same as a corpus and a column of labels: no Python object is made for a token."""
        density = self._density()
        rng = np.random.default_rng([_number("seed", self.seed if seed is None else seed, 0), 4])
        n, sweeps = _number("n", n, 1, MOST_DRAWS), _number("sweeps", sweeps, 0)
        enough = min(max(DRAWS, 20 * n), MOST_DRAWS) if draws is None else _number("draws", draws, 2, MOST_DRAWS)
        drawn = density.sample(n, method, rng, enough, sweeps, thread_count(self.threads))
        label = Column((drawn.labels // density.model.sub_labels).astype(np.int32), self.classes_)
        return density.columns(drawn.fields, drawn.offsets, label), label

    def _density(self) -> Density:
        model = self._fitted()
        known = self.__dict__.get("_known_density")
        if known is None or known.model is not model:
            known = self._known_density = Density(model)
        return known


def _number(name: str, value: Any, least: int, most: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise OptionError(f"{name}={value!r} must be a whole number from {least} up")
    if most is not None and value > most:
        raise OptionError(f"{name}={value!r} is too many at a time; draw at most {most:,}, each time by another seed")
    return int(value)
