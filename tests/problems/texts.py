"""A small text set: counts of words with a Zipf distribution, the labels drawn from a linear model of them."""

import numpy as np
import scipy.sparse as sp


def text_problem(n_rows, n_words, n_labels, seed=0):
    """Counts [n, words] in CSR and labels [n]."""
    rng = np.random.default_rng(seed)
    frequency = 1.0 / np.arange(2, n_words + 2)
    words = rng.choice(n_words, size=(n_rows, 30), p=frequency / frequency.sum())
    rows = np.repeat(np.arange(n_rows), words.shape[1])
    X = sp.csr_matrix((np.ones(words.size), (rows, words.ravel())), shape=(n_rows, n_words))
    scores = X @ rng.normal(size=(n_words, n_labels))
    scores -= scores.mean(axis=0)
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
