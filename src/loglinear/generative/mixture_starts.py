"""Where EM for mixtures starts: centres among the rows, and each row given to the nearest one.

Centres are rows drawn one after the other with a probability proportional to their squared distance from the nearest
centre so far (k-means++, Arthur & Vassilvitskii 2007; of a few candidates the one that leaves the least distance is
taken), or proportional to their weight alone (``random``). A component of which some rows are known has their mean as
its centre. As in Fig. 9.6 all components then weigh the same.

Which rows are drawn depends neither on their order nor on whether a row is there twice or has weight two: the rows are
put in an order of their own, by a projection, and a number between 0 and 1 points into their cumulated weights.

Letters: n rows, D columns, K components.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from loglinear.generative.mixture import UNKNOWN, MixtureModel
from loglinear.generative.mixture_components import Components
from loglinear.generative.naive_bayes import Rows, summed

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
SPREAD = "k-means++"


def squared_distances(points: Rows, centres: Float) -> Float:
    """|x_i - c_k|^2 [n, K], without a copy of sparse rows."""
    if not sparse.issparse(points):
        return np.stack([np.square(points - centre).sum(axis=1) for centre in centres], axis=1)
    squares = np.asarray(points.multiply(points).sum(axis=1)).reshape(-1, 1)
    return np.maximum(squares - 2.0 * np.asarray(points @ centres.T) + np.square(centres).sum(axis=1), 0.0)


def start_model(
    components: Components,
    x: Rows,
    weights: Float,
    known: Int32 | None,
    method: str | Float,
    rng: np.random.Generator,
) -> MixtureModel:
    """The mixture that EM starts from.

    Parameters
    ----------
    components : Components
        K of them, with any parameters.
    x, weights, known
        Rows [n, D], their weights [n] and known components [n] (-1: unknown), or None.
    method : {"k-means++", "random"} or float64 [K, D]
        How centres are found, or rows that are the centres.
    rng : numpy.random.Generator
    """
    points, k = components.points(x), components.n_components
    if isinstance(method, str):
        centres = _drawn_centres(points, weights, known, k, method == SPREAD, rng)
    else:
        centres = components.points(method)
    nearest = squared_distances(points, centres).argmin(axis=1)
    if known is not None:
        nearest = np.where(known == UNKNOWN, nearest, known)
    shares = np.zeros((x.shape[0], k))
    shares[np.arange(len(shares)), nearest] = weights
    return MixtureModel(np.full(k, -np.log(k)), components.started(x, shares))


def _drawn_centres(
    points: Rows, weights: Float, known: Int32 | None, k: int, spread: bool, rng: np.random.Generator
) -> Float:
    """Centres [K, ...]."""
    centres = np.zeros((k, points.shape[1]))
    free = np.ones(k, dtype=bool)
    if known is not None:
        member = (known[:, None] == np.arange(k)) * weights[:, None]
        sizes = member.sum(axis=0)
        free = sizes == 0.0
        centres[~free] = summed(points, member)[~free] / sizes[~free, None]
    order = np.argsort(np.asarray(points @ np.random.default_rng(0).standard_normal(points.shape[1])), kind="stable")
    nearest = squared_distances(points, centres[~free]).min(axis=1) if not free.all() else np.full(len(weights), np.inf)
    for component in np.flatnonzero(free):
        spread_now = spread and np.isfinite(nearest[0])
        chances = weights * nearest if spread_now else weights * (nearest > 0.0)
        if not chances.sum() > 0.0:  # every row is a centre already
            chances = weights
        cumulated = np.cumsum(chances[order])
        places = rng.random(2 + int(np.log(k)) if spread_now else 1) * cumulated[-1]
        rows = order[np.minimum(np.searchsorted(cumulated, places, side="right"), len(order) - 1)]
        candidates = np.asarray(points[rows].todense() if sparse.issparse(points) else points[rows])
        left = np.minimum(squared_distances(points, candidates), nearest[:, None])
        best = int(np.argmin(weights @ left))
        centres[component], nearest = candidates[best], left[:, best]
    return centres
