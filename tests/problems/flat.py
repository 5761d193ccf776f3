"""Random training problems of flat labels."""

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

from loglinear.criteria.costs import Cost
from loglinear.criteria.criterion import make_criterion
from loglinear.optimizers.objective import Objective
from loglinear.structures.flat.features import BIASES, FlatCorpus, FlatFeatures
from loglinear.structures.gold import Gold

SMOOTH = ("cll", "softmax-margin")


def flat_objective(rows, labels, n_labels, criterion="cll", l2=0.5, bias="free", scale=1.0, table=None, **more):
    """An objective over rows; the cost is 1 for each wrong label unless there is a table [Y, Y]."""
    features = FlatFeatures(rows.shape[1], n_labels, bias, scale)
    costs = 1.0 - np.eye(n_labels) if table is None else table
    cost = None if criterion in ("cll", "perceptron", "least-squares") else Cost(np.repeat(costs[None], 4, axis=0))
    return Objective(
        features, FlatCorpus.of(rows), Gold(np.asarray(labels, dtype=np.int32)), make_criterion(criterion, cost), None,
        l2, n_penalised=features.n_penalised, **more,
    )  # fmt: skip


@st.composite
def flat_objectives(draw, criteria=SMOOTH, n_rows=None):
    """Sparse or dense, any bias, costs and weights."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, a, y = n_rows or draw(st.integers(1, 30)), draw(st.integers(1, 8)), draw(st.integers(1, 5))
    rows = rng.normal(size=(n, a)) * (rng.random((n, a)) < 0.6)
    if draw(st.booleans()):
        rows = sp.csr_matrix(rows)
    weights = rng.random(n) * 2 * (rng.random(n) < 0.9) if draw(st.booleans()) else None
    return flat_objective(
        rows, rng.integers(y, size=n), y, draw(st.sampled_from(criteria)), draw(st.sampled_from([0.1, 0.5, 3.0])),
        draw(st.sampled_from(BIASES)), draw(st.sampled_from([1.0, 2.0])),
        rng.random((y, y)) * 3 * (1 - np.eye(y)), sequence_weights=weights,
    )  # fmt: skip
