"""Random hidden Markov models, and probabilities straight from the definition."""

import numpy as np

from loglinear.generative.hmm.model import Counts, HiddenMarkovModel, number_of_states

SIZES = (3, 2)


def random_model(rng, n_labels, order, zeros=0.0):
    """Random probabilities; a share of the steps is impossible, but from every state one can stop."""
    steps = rng.random((number_of_states(n_labels, order) + 1, n_labels + 1)) * (
        rng.random((number_of_states(n_labels, order) + 1, n_labels + 1)) >= zeros
    )
    steps[:, -1] = 0.3
    steps[-1] = rng.random(n_labels + 1)
    return HiddenMarkovModel.estimated(
        Counts(order, n_labels, steps, [rng.random((n_labels, size)) for size in SIZES]), smoothing=0.01
    )


def probability(model, labels, fields):
    """p(x, y) of one sequence, straight from the definition."""
    n, p = model.n_labels, 1.0
    padded = [n, n, *labels]
    for t, y in enumerate(labels):
        if model.order == 1:
            row = model.n_states if t == 0 else labels[t - 1]
        else:
            row = model.n_states if t == 0 else padded[t] * n + padded[t + 1]
        p *= model.steps[row, y] * np.prod([table[y, f[t]] for table, f in zip(model.emissions, fields, strict=True)])
    last = labels[-1] if model.order == 1 else padded[-2] * n + padded[-1]
    return p * model.steps[last, -1]


def cut(fields, offsets, i):
    return [f[offsets[i] : offsets[i + 1]] for f in fields]
