"""A generated text set: documents as counts of words, of three topics that share most of their words."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse


def text_set(n: int = 300, d: int = 400, topics: int = 3, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    zipf = 1.0 / np.arange(1, d + 1)
    theta = np.stack([zipf * rng.gamma(0.5, size=d) + 0.02 * zipf for _ in range(topics)])
    theta /= theta.sum(axis=1, keepdims=True)
    y = rng.integers(topics, size=n)
    x = np.stack([rng.multinomial(rng.poisson(60), theta[label]) for label in y])
    return sparse.csr_matrix(x.astype(np.float64)), y
