"""M-estimation of a flat model: the density of binary vectors with pairs, from a product of marginals.

A survey of D yes-no questions whose answers depend on each other in pairs. The base q0 takes the answers for
independent, with their shares in the data; on top of it come weights for a constant, every answer and every pair:

    p(x) = q0(x) exp(w . f(x)) / Z        f(x) = 1, x_i, x_i x_j        q0(x) = prod_i m_i^x_i (1 - m_i)^(1 - x_i)

E_q0[f] is exact, (1, m_i, m_i m_j), and no sum over all 2^D vectors is needed to train. The constant matters: without
it the estimate is not consistent, as  p* exp(-w . f) = q0  has to hold with Z and all. Here D is small, so that the
distance from the truth can be summed out.

    python docs/examples/flat_density.py
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from loglinear.generative.m_estimation import MEstimationObjective
from loglinear.optimizers.optimizer import make_optimizer

Float = npt.NDArray[np.float64]
D = 8
PAIRS = list(combinations(range(D), 2))
EVERYTHING = np.array(list(product([0, 1], repeat=D)), dtype=np.float64)


def features(x: Float, constant: bool = True) -> Float:
    """Feature counts of vectors [n, D]: a constant, the answers, the pairs."""
    pairs = np.stack([x[:, i] * x[:, j] for i, j in PAIRS], axis=1)
    return np.concatenate([np.ones((len(x), int(constant))), x, pairs], axis=1)


def product_of(marginals: Float) -> Float:
    """q0 of every vector."""
    return np.prod(np.where(EVERYTHING == 1.0, marginals, 1.0 - marginals), axis=1)


def truth(seed: int = 0) -> Float:
    """A density of every vector, with dependencies in pairs."""
    rng = np.random.default_rng(seed)
    p = np.exp(features(EVERYTHING) @ rng.normal(scale=0.8, size=1 + D + len(PAIRS)))
    return p / p.sum()


def estimate(x: Float, constant: bool = True) -> tuple[Float, Float]:
    """The base and the M-estimate of every vector's density, from a sample [n, D]."""
    marginals = (x.sum(axis=0) + 1.0) / (len(x) + 2.0)
    both = [marginals[i] * marginals[j] for i, j in PAIRS]
    expected = np.concatenate([np.ones(int(constant)), marginals, both])
    objective = MEstimationObjective(csr_matrix(features(x, constant)), expected, l2=1.0 / len(x))
    newton = make_optimizer("newton", max_iter=100, tolerance=1e-9, seed=0)
    weights = newton.minimise(objective, np.zeros(len(expected))).weights
    q0 = product_of(marginals)
    p = q0 * np.exp(features(EVERYTHING, constant) @ weights)
    return q0, p / p.sum()


def divergence(p: Float, q: Float) -> float:
    """KL(p || q)."""
    return float(np.sum(p * np.log(p / q)))


def compare(sizes: tuple[int, ...] = (100, 1_000, 10_000, 100_000), constant: bool = True) -> list[tuple[float, float]]:
    """KL(truth || base) and KL(truth || M-estimate) for samples of these sizes."""
    p, found = truth(), []
    for n in sizes:
        x = EVERYTHING[np.random.default_rng([n, 1]).choice(len(p), size=n, p=p)]
        found.append(tuple(divergence(p, each) for each in estimate(x, constant)))
    return found


def main() -> None:
    """Print how far both are from the truth."""
    sizes = (100, 1_000, 10_000, 100_000)
    print(f"{'n':>8} {'base':>8} {'M':>8} {'M without a constant':>22}")
    for n, (base, m), (_, bare) in zip(sizes, compare(sizes), compare(sizes, constant=False), strict=True):
        print(f"{n:8d} {base:8.4f} {m:8.4f} {bare:22.4f}")


if __name__ == "__main__":
    main()
