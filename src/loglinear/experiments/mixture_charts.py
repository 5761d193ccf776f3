"""Charts of mixtures: rows and components in two dimensions (Fig. 9.7), and how EM climbed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.errors import OptionError
from loglinear.experiments.charts import COLOURS, Line, drawing, line_chart

Float = npt.NDArray[np.float64]
MOST_ROWS = 5000  # that are drawn
DEVIATIONS = (1.0, 2.0)  # of the ellipses


def component_chart(mixture: Any, x: Float, columns: Sequence[int] | None, names: Sequence[str]) -> str:
    """Rows [n, D] in the colour of their component, and each Gaussian as ellipses of one and two deviations.

    Parameters
    ----------
    mixture : Mixture
        Of Gaussians.
    x : float64 [n, D]
    columns : two ints, or None
        The columns to see; None: the two directions in which the rows, in units of their columns' deviations, vary
        most.
    names : sequence of str
        Of the components.
    """
    if mixture.components != "gaussian" or x.shape[1] < 2:
        raise OptionError("a chart of components is of Gaussians in two or more columns")
    theta = mixture.model_.components
    axes, labels = _axes(mixture, x, columns)
    k, d = theta.means.shape
    expanded = theta.shape.expanded(theta.covariances, k, d)
    shown = x if len(x) <= MOST_ROWS else x[np.random.default_rng(0).choice(len(x), MOST_ROWS, replace=False)]
    belongs, centre = mixture.model_.joint(shown).argmax(axis=1), _centre(x, columns)
    points, means = (shown - centre) @ axes, (theta.means - centre) @ axes
    with drawing(f"{k} components of {len(x):,} rows", *labels) as (canvas, done):
        from matplotlib.patches import Ellipse

        for number in range(k):
            colour = COLOURS[number % len(COLOURS)]
            mine = points[belongs == number]
            canvas.plot(mine[:, 0], mine[:, 1], linestyle="none", marker=".", markersize=4, color=colour, alpha=0.5)
            full = np.diag(expanded[number]) if theta.shape.axial else expanded[number % len(expanded)]
            values, vectors = np.linalg.eigh(axes.T @ full @ axes)
            angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
            for deviations in DEVIATIONS:
                width, height = 2.0 * deviations * np.sqrt(values[::-1])
                canvas.add_patch(
                    Ellipse(means[number], width, height, angle=angle, fill=False, edgecolor=colour, linestyle=":",
                            linewidth=1.8)
                )  # fmt: skip
            canvas.plot(*means[number], marker="+", markersize=11, markeredgewidth=2, color=colour, linestyle="none",
                        label=f"{names[number]} ({mixture.weights_[number]:.0%})")  # fmt: skip
        if k <= 2 * len(COLOURS):
            canvas.legend()
    return done[0]


def climb_chart(mixture: Any) -> str:
    """The log-likelihood, and with the prior the objective, at the start and after each round."""
    rounds = list(range(len(mixture.objectives_)))
    with_prior = mixture.objectives_ != mixture.log_likelihoods_
    lines = [Line("log-likelihood" if with_prior else "", rounds, mixture.log_likelihoods_, marker="")]
    if with_prior:
        lines.append(Line("with the prior", rounds, mixture.objectives_, marker="", dashed=True))
    return line_chart("EM, the best start", "round", "log-likelihood", lines)


def _centre(x: Float, columns: Sequence[int] | None) -> Float:
    return np.zeros(x.shape[1]) if columns is not None else x.mean(axis=0)


def _axes(mixture: Any, x: Float, columns: Sequence[int] | None) -> tuple[Float, tuple[str, str]]:
    """Two directions [D, 2] and their names."""
    d = x.shape[1]
    known = getattr(mixture, "feature_names_in_", [f"column {j}" for j in range(d)])
    if columns is None and d == 2:
        columns = (0, 1)
    if columns is not None:
        first, second = columns
        return np.eye(d)[:, [first, second]], (str(known[first]), str(known[second]))
    unit = np.sqrt(mixture.model_.components.prior.spread)
    scaled = (x - x.mean(axis=0)) / unit
    _, _, directions = np.linalg.svd(scaled, full_matrices=False)
    turned: Float = directions[:2] * np.sign(directions[:2, np.abs(directions[:2]).argmax(axis=1)].diagonal())[:, None]
    return (turned / unit).T, ("first principal component", "second principal component")
