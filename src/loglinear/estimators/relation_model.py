"""The relation of an arc, once it is known: a log-linear classifier over features of head and child.

    p(r | h, t) ~ exp( sum over features f of the arc h -> t of w_{f, r} )

Arcs are found first, by their own model, and each is then given its best relation: trees cost what they cost without
relations, and the relations see features of their own (:data:`~loglinear.features.arc_templates.RELATIONS`). A
classifier is a chain of length one, and trained as that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loglinear.criteria.criterion import make_criterion
from loglinear.data.columns import Column
from loglinear.features.arc_encoder import ArcEncoder
from loglinear.features.arc_vocabulary import Tokens, TokenVocabulary
from loglinear.features.encoding import EncodedCorpus, Incidence, runs
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.optimizer import make_optimizer
from loglinear.structures.chain_features import ChainFeatures, Penalties
from loglinear.structures.gold import Gold

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
ARCS_AT_ONCE = 4096
TOLERANCE = 1e-4


@dataclass(frozen=True)
class RelationModel:
    """A classifier of arcs.

    Parameters
    ----------
    labels : list of str
        The R relations.
    encoder : ArcEncoder
    features : ChainFeatures
        Of the pairs of a feature of the arc and a relation.
    weights : float64 [D]
    """

    labels: list[str]
    encoder: ArcEncoder
    features: ChainFeatures
    weights: Float

    @classmethod
    def fit(
        cls,
        vocabulary: TokenVocabulary,
        tokens: Tokens,
        heads: Int32,
        relations: Column,
        l2: float,
        seed: int = 0,
        n_threads: int = 1,
    ) -> RelationModel:
        """Train on the arcs to ``heads`` [N] with their ``relations`` [N], by conditional likelihood."""
        used = np.unique(relations.ids)
        labels = sorted(relations.values[r] for r in used.tolist())
        number = {label: r for r, label in enumerate(labels)}
        names = np.array([number.get(value, -1) for value in relations.values], dtype=np.int32)
        gold = Gold(names[relations.ids])
        encoder = ArcEncoder.fit(vocabulary, "relations", tokens, heads)
        corpus = _encoded(encoder, tokens, heads)
        features = ChainFeatures.collect(corpus, encoder.n_features, gold, len(labels), transitions="none")
        objective = Objective(
            features, corpus, gold, make_criterion("cll"), Penalties.none(len(labels)), l2, n_threads=n_threads,
            single_precision=True,
        )  # fmt: skip
        optimizer = make_optimizer(
            "dual" if len(labels) > 1 else "lbfgs", max_iter=None, tolerance=TOLERANCE, seed=seed
        )
        weights = optimizer.minimise(objective, np.zeros(features.n_features)).weights
        return cls(labels, encoder, features, rounded(weights))

    def predict(self, tokens: Tokens, heads: Int32) -> Column:
        """The best relation of each arc [N]."""
        corpus = _encoded(self.encoder, tokens, heads)
        laid_out = self.features.lay_out(self.weights, Penalties.none(len(self.labels)))
        best = [
            np.argmax(self.features.scores(laid_out, corpus, first, end).emission, axis=1)
            for first, end in runs(corpus.offsets, 0, corpus.n_sequences, ARCS_AT_ONCE)
        ]
        return Column(np.concatenate(best).astype(np.int32), self.labels)


def rounded(weights: Float) -> Float:
    """Weights to the precision of the model file, so that a saved model answers exactly as this one does."""
    return weights.astype(np.float32).astype(np.float64)


def _encoded(encoder: ArcEncoder, tokens: Tokens, heads: Int32) -> EncodedCorpus:
    """Each arc a sequence of one position."""
    return EncodedCorpus(np.arange(len(heads) + 1, dtype=np.int64), Incidence(*encoder.chosen(tokens, heads)))
