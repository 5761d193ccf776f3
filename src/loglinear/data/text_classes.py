"""Rows of word counts in classes, made by a seed: a text classification problem of any size.

Words have Zipf's frequencies, f(k) proportional to 1 / (k + 2.7). Some words are more or less frequent in a class, by
the exponential of a normal number. A row draws its words from its class alone, so that the classes overlap as topics
do; a part of the rows has the label of another class.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from loglinear.errors import OptionError

SHIFT = 2.7  # of Zipf's law (Mandelbrot)
TELLING, STRENGTH = 0.25, 1.0  # share of the words that tell a class, and how much


def generate_text_classes(
    n_rows: int,
    n_columns: int,
    n_classes: int,
    seed: int = 0,
    *,
    shortest: int = 50,
    longest: int = 80,
    mislabelled: float = 0.05,
) -> tuple[Any, npt.NDArray[np.int32]]:
    """Word counts and classes.

    Parameters
    ----------
    n_rows, n_columns, n_classes : int
    seed : int
    shortest, longest : int
        Least and most words of a row.
    mislabelled : float
        Share of the rows whose class is drawn anew.

    Returns
    -------
    counts : csr_matrix [n_rows, n_columns] of float64
    classes : int32 [n_rows]
    """
    if min(n_rows, n_columns, n_classes) < 1 or not 1 <= shortest <= longest:
        raise OptionError(f"{n_rows} rows, {n_columns} columns, {n_classes} classes, {shortest} to {longest} words")
    rng = np.random.default_rng(seed)
    topics = rng.integers(n_classes, size=n_rows).astype(np.int32)
    lengths = rng.integers(shortest, longest + 1, size=n_rows)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    frequencies = 1.0 / (np.arange(n_columns) + SHIFT)
    words = np.empty(int(starts[-1]), dtype=np.int32)
    for topic in range(n_classes):
        tells = rng.random(n_columns) < TELLING
        upto = np.cumsum(frequencies * np.exp(np.where(tells, STRENGTH * rng.normal(size=n_columns), 0.0)))
        mine = np.repeat(topics == topic, lengths)
        drawn = np.searchsorted(upto, rng.random(int(mine.sum())) * upto[-1], side="right")
        words[mine] = np.minimum(drawn, n_columns - 1)
    counts = sp.csr_matrix((np.ones(len(words)), words, starts), shape=(n_rows, n_columns))
    counts.sum_duplicates()
    anew = rng.random(n_rows) < mislabelled
    classes = np.where(anew, rng.integers(n_classes, size=n_rows), topics).astype(np.int32)
    return counts, classes
