"""A trained linear classifier: scores of labels, their probabilities, and what each column adds to them.

    f_y(x) = w_y . x + b_y                  p(y) = exp f_y / sum_y' exp f_y'            direct (9.11)
                                            p(y) = sigma(f_y) / sum_y' sigma(f_y')      one-versus-all

With two labels there is one score f = f_1 - f_0 (9.9), and p(1) = sigma(f). Letters: S rows, Y labels, A columns, R
scores: 1 with two labels, else Y.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_expit, logsumexp

from loglinear.estimators.classifier_inputs import RowEncoder, Rows

Float = npt.NDArray[np.float64]
Labels = npt.NDArray[Any]


@dataclass(frozen=True)
class LinearScores:
    """R linear functions of rows.

    Parameters
    ----------
    coef : float64 [R, A]
    intercept : float64 [R]
    """

    coef: Float
    intercept: Float

    def __call__(self, rows: Rows) -> Float:
        """Their values [S, R]."""
        return np.asarray(rows @ self.coef.T) + self.intercept

    def plus(self, other: LinearScores) -> LinearScores:
        """The sum of both."""
        return LinearScores(self.coef + other.coef, self.intercept + other.intercept)

    def minus(self, other: LinearScores) -> LinearScores:
        """The difference of both."""
        return LinearScores(self.coef - other.coef, self.intercept - other.intercept)


@dataclass(frozen=True)
class LinearModel:
    """What a classifier has learnt.

    Parameters
    ----------
    labels : array [Y]
        Sorted.
    encoder : RowEncoder
    scores : LinearScores
        All of the model, a linear base included.
    one_versus_all : bool
        Whether each label was told from all others by itself.
    base : LinearScores, optional
        The part of the scores that is the generative base's.
    own_base : object, optional
        A base of the user's own, whose scores are added; it is not in ``scores``.
    """

    labels: Labels
    encoder: RowEncoder
    scores: LinearScores
    one_versus_all: bool = False
    base: LinearScores | None = None
    own_base: Any = None

    def decision(self, rows: Rows) -> Float:
        """The scores [S, R]."""
        scores = self.scores(rows)
        if self.own_base is not None:
            own = np.asarray(self.own_base.scores(rows), dtype=np.float64)
            scores += own[:, 1:] - own[:, :1] if len(self.labels) == 2 else own
        return scores

    def best(self, rows: Rows) -> npt.NDArray[np.int64]:
        """The number of each row's best label [S]."""
        decision = self.decision(rows)
        return (decision[:, 0] > 0).astype(np.int64) if decision.shape[1] == 1 else decision.argmax(axis=1)

    def log_probabilities(self, rows: Rows) -> Float:
        """log p [S, Y]."""
        return log_probabilities(self.decision(rows), self.one_versus_all)

    def contributions(self, row: Rows) -> list[dict[str, float]]:
        """For each label what each column of one row [1, A], and the bias, adds to its score."""
        dense = np.asarray(row.toarray() if hasattr(row, "toarray") else row, dtype=np.float64).ravel()
        names, present = self.encoder.names(), np.flatnonzero(dense)
        found = []
        for y in range(len(self.labels)):
            sign, r = (y - 0.5, 0) if len(self.labels) == 2 else (1.0, y)
            parts = sign * dense[present] * self.scores.coef[r, present]
            own = {BIAS: float(sign * self.scores.intercept[r])}
            found.append(own | {names[i]: float(part) for i, part in zip(present.tolist(), parts, strict=True)})
        return found


BIAS = "(bias)"


def log_probabilities(decision: Float, one_versus_all: bool) -> Float:
    """log p [S, Y] of scores [S, R]."""
    if decision.shape[1] == 1:
        return np.asarray(log_expit(decision * np.array([-1.0, 1.0])))
    logs = log_expit(decision) if one_versus_all else decision
    return np.asarray(logs - logsumexp(logs, axis=1, keepdims=True))
