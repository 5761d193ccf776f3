"""What each criterion is: its loss over all labellings of one example, straight from its definition.

Each definition takes the scores s and the costs c of all labellings, and a mask of those that the annotation allows;
those in BY_POSITION take the probabilities of all labellings, and a mask [labellings, positions].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from referees.enumeration import Bools, Floats

OF_CORPUS = ("f-measure",)  # defined by totals of a corpus, in criteria/test_f_measure.py
LOCAL = ("memm", "nota", "piecewise", "pseudolikelihood")  # defined by pieces of a chain, in criteria/test_criteria.py

#: Definitions by position: of the labellings' probabilities p, and whether the annotation allows each at position t.
BY_POSITION: dict[str, Callable[[Floats, Bools], float]] = {
    "marginal-likelihood": lambda p, fits: -np.log(p @ fits).sum(),
}

DEFINITIONS: dict[str, Callable[[Floats, Floats, Bools], float]] = {
    "cll": lambda s, c, fits: logsumexp(s) - logsumexp(s[fits]),
    "softmax-margin": lambda s, c, fits: logsumexp(s + c) - logsumexp(s[fits]),
    "max-margin": lambda s, c, fits: max(s + c) - max(s[fits]),
    "jrb": lambda s, c, fits: logsumexp(s + c) - logsumexp(s),
    "risk": lambda s, c, fits: np.exp(s - logsumexp(s)) @ c,
    "m-estimation": lambda s, c, fits: np.exp(-s[fits]).sum(),
    "hmm": lambda s, c, fits: 0.0,  # the base is counted, not learnt
    "perceptron": lambda s, c, fits: max(s) - max(s[fits]),
    "mira": lambda s, c, fits: max(s + c) - max(s[fits]),
    "passive-aggressive": lambda s, c, fits: max(s) - max(s[fits]) + np.sqrt(c[np.argmax(s)]),
    "arow": lambda s, c, fits: max(s) - max(s[fits]) + c[np.argmax(s)],
    "least-squares": lambda s, c, fits: np.square(s - np.where(fits, 1.0, -1.0))[s > -np.inf].sum(),
}
