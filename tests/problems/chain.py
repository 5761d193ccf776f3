"""Random training problems of chains."""

import numpy as np
from hypothesis import strategies as st

from loglinear.criteria.costs import Cost
from loglinear.criteria.criterion import make_criterion
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.optimizers.objective import Objective
from loglinear.structures.chain.features import ChainFeatures, Penalties
from loglinear.structures.gold import Gold


@st.composite
def chain_objectives(draw, orders=(1,), edges=False):
    """A random problem with few attributes, so that some of them have long rows and some short lists."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_labels = draw(st.integers(1, 11))
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=8))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n = int(offsets[-1])
    counts = rng.integers(0, 5, n)
    pointer = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    n_attributes = 12
    ids = np.minimum(rng.zipf(1.4, int(pointer[-1])), n_attributes).astype(np.int32) - 1
    values = rng.normal(size=len(ids)) if draw(st.booleans()) else None
    state = Incidence(pointer, ids, values)
    corpus = EncodedCorpus(offsets, state, state if edges and draw(st.booleans()) else None)
    labels = rng.integers(0, n_labels, n).astype(np.int32)
    penalties = Penalties.none(n_labels)
    if draw(st.booleans()):
        ruled_out = rng.random((n_labels, n_labels)) < 0.4
        ruled_out[labels[:-1], labels[1:]] = False
        penalties.transition[ruled_out] = -np.inf
    kinds = st.sampled_from(["observed", "all"])
    features = ChainFeatures.collect(
        corpus, n_attributes, Gold(labels), n_labels, draw(st.sampled_from(orders)), draw(kinds),
        draw(st.sampled_from(["observed", "all", "none"])),
    )  # fmt: skip
    criterion = make_criterion("cll")
    if draw(st.booleans()):
        criterion = make_criterion("softmax-margin", Cost(rng.random((4, n_labels, n_labels)) * (1 - np.eye(n_labels))))
    weights = rng.random(len(lengths)) * 2 if draw(st.booleans()) else None
    return Objective(features, corpus, Gold(labels), criterion, penalties, draw(st.sampled_from([0.3, 1.0])), weights)
