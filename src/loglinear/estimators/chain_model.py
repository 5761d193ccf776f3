"""A trained chain model: labels, attributes, features, weights and constraints, and what can be asked of them.

This is what a model file holds and what :class:`loglinear.Tagger` wraps. It works on encoded corpora and label numbers;
the estimator turns users' data into those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from loglinear.criteria.costs import Cost
from loglinear.criteria.local import locally_normalised
from loglinear.errors import InfeasibleError
from loglinear.features.encoding import EncodedCorpus
from loglinear.features.name_encoder import NameEncoder
from loglinear.features.template_encoder import TemplateEncoder
from loglinear.structures.chain import Chain, ChainScores
from loglinear.structures.chain_features import ChainFeatures, ChainWeights, Penalties
from loglinear.structures.constraints import Constraints
from loglinear.threads import in_threads

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Allowed = npt.NDArray[np.uint8]
R = TypeVar("R")


@dataclass
class ChainModel:
    """A chain model with weights.

    Parameters
    ----------
    labels : list of str
        The Y labels.
    encoder : TemplateEncoder or NameEncoder
        Makes attributes of a corpus.
    features : ChainFeatures
    weights : float64 [D]
    constraints : Constraints or None
    local : bool
        Whether its pieces are normalised one by one (an MEMM) instead of the chain as a whole.
    """

    labels: list[str]
    encoder: TemplateEncoder | NameEncoder
    features: ChainFeatures
    weights: Float
    constraints: Constraints | None = None
    local: bool = False

    @cached_property
    def penalties(self) -> Penalties:
        return penalties_of(self.constraints, self.labels)

    @cached_property
    def laid_out(self) -> ChainWeights:
        """The weights prepared for scoring."""
        return self.features.lay_out(np.ascontiguousarray(self.weights, dtype=np.float64), self.penalties)

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: what can be worked out again stays behind."""
        return {name: value for name, value in self.__dict__.items() if name not in ("penalties", "laid_out")}

    def with_weights(self, weights: Float) -> ChainModel:
        """The same model with other weights."""
        return replace(self, weights=weights)

    def compacted(self) -> ChainModel:
        """The same model without the features of weight zero and the attributes that have no other."""
        kept = self.weights != 0.0
        if kept.all():
            return self
        features, used = self.features.keeping(kept)
        return replace(self, encoder=self.encoder.keeping(used), features=features, weights=self.weights[kept])

    # -- inference, block by block in threads --------------------------------------------------------------------

    def _map_blocks(
        self,
        corpus: EncodedCorpus,
        allowed: Allowed | None,
        n_threads: int,
        operation: Callable[[Chain, ChainScores, int, int], R],
    ) -> list[R]:
        """``operation(chain, scores, first, end)`` for each block of sequences, in order."""
        laid_out = self.laid_out

        def run(block: tuple[int, int]) -> R:
            first, end = block
            lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
            chain = Chain(corpus.offsets[first : end + 1] - lo)
            scores = self.features.scores(laid_out, corpus, first, end)
            if self.local:
                scores = locally_normalised(chain, scores)
            if allowed is not None:
                scores = chain.restrict(scores, allowed[lo:hi])
            try:
                return operation(chain, scores, first, end)
            except InfeasibleError as error:
                raise InfeasibleError(first + error.sequence) from None

        return in_threads(run, self.features.blocks(corpus.offsets, 0, corpus.n_sequences), n_threads)

    def decode(
        self,
        corpus: EncodedCorpus,
        allowed: Allowed | None = None,
        decoding: str = "viterbi",
        n_threads: int = 1,
        cost: Cost | None = None,
    ) -> Int32:
        """Best label of each position [N], of those the constraints and ``allowed`` leave.

        ``viterbi``: the most probable labelling; ``posterior``: that with the greatest sum of its labels' marginals;
        ``min-risk``: that with the least expected ``cost``.
        """

        def best(chain: Chain, scores: ChainScores, first: int, end: int) -> Int32:
            if decoding == "posterior":
                return chain.posterior_decode(scores)[0]
            if decoding == "min-risk" and cost is not None:
                marginals = chain.expectations(scores)[1].emission
                return chain.best_possible(scores, -cost.expected(marginals, chain.offsets))[0]
            return chain.viterbi(scores)[0]

        return _joined(self._map_blocks(corpus, allowed, n_threads, best), np.int32)

    def marginals(self, corpus: EncodedCorpus, allowed: Allowed | None = None, n_threads: int = 1) -> Float:
        """Probability of each label at each position [N, Y]."""
        blocks = self._map_blocks(
            corpus, allowed, n_threads, lambda chain, scores, first, end: chain.expectations(scores)[1].emission
        )
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.labels)))

    def n_best(
        self, corpus: EncodedCorpus, k: int, allowed: Allowed | None = None, n_threads: int = 1
    ) -> list[tuple[Int32, Float]]:
        """For each sequence its best labellings [K, T] and their probabilities [K], K <= k."""

        def best(chain: Chain, scores: ChainScores, first: int, end: int) -> list[tuple[Int32, Float]]:
            log_z = chain.log_partition(scores)
            found = chain.k_best(scores, k)
            return [(labels, np.exp(score - z)) for (labels, score), z in zip(found, log_z, strict=True)]

        return [one for block in self._map_blocks(corpus, allowed, n_threads, best) for one in block]

    def log_probability(self, corpus: EncodedCorpus, labels: Int32, n_threads: int = 1) -> Float:
        """log p(labels given sequence) of each sequence [S]; ``labels`` is [N]."""

        def log_p(chain: Chain, scores: ChainScores, first: int, end: int) -> Float:
            lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
            return chain.score(scores, labels[lo:hi]) - chain.log_partition(scores)

        return _joined(self._map_blocks(corpus, None, n_threads, log_p), np.float64)

    # -- the weights by name -------------------------------------------------------------------------------------

    def state_weights(self) -> dict[tuple[str, str], float]:
        """Weight of each (attribute, label)."""
        block, weights = self.features.state, self.weights[self.features.segments[0]].tolist()
        names = np.repeat(np.arange(len(block.pointer) - 1), np.diff(block.pointer)).tolist()
        attributes = self.encoder.names()
        return {
            (attributes[a], self.labels[y]): w for a, y, w in zip(names, block.codes.tolist(), weights, strict=True)
        }

    def edge_weights(self) -> dict[tuple[str, str, str], float]:
        """Weight of each (attribute, previous label, label)."""
        block = self.features.edge
        if block is None:
            return {}
        weights = self.weights[self.features.segments[1]].tolist()
        names = np.repeat(np.arange(len(block.pointer) - 1), np.diff(block.pointer)).tolist()
        attributes, n = self.encoder.names(), len(self.labels)
        return {
            (attributes[a], self.labels[c // n], self.labels[c % n]): w
            for a, c, w in zip(names, block.codes.tolist(), weights, strict=True)
        }

    def transition_weights(self) -> dict[tuple[str, str], float]:
        """Weight of each (previous label, label)."""
        n, weights = len(self.labels), self.weights[self.features.segments[2]].tolist()
        return {
            (self.labels[c // n], self.labels[c % n]): w
            for c, w in zip(self.features.transitions.tolist(), weights, strict=True)
        }

    def trigram_weights(self) -> dict[tuple[str, str, str], float]:
        """Weight of each (label two back, previous label, label)."""
        n, weights = len(self.labels), self.weights[self.features.segments[3]].tolist()
        return {
            (self.labels[c // n // n], self.labels[c // n % n], self.labels[c % n]): w
            for c, w in zip(self.features.trigrams.tolist(), weights, strict=True)
        }

    def weights_from(self, other: ChainModel) -> Float:
        """A start for this model's weights: those of ``other`` where it has the same feature, else zero."""
        start = np.zeros(self.features.n_features)
        if type(self.encoder) is not type(other.encoder):
            attributes = np.full(other.encoder.n_attributes, -1, dtype=np.int32)
        else:
            attributes = self.encoder.matching(other.encoder)  # type: ignore[arg-type]  # same class, just checked
        index = {label: y for y, label in enumerate(self.labels)}
        same_label = np.array([index.get(label, -1) for label in other.labels], dtype=np.int64)
        n, m = len(self.labels), len(other.labels)

        def renamed(codes: Int32, places: int) -> npt.NDArray[np.int64]:
            """Codes over ``other``'s labels as codes over mine; -1 where a label is missing."""
            digits = [same_label[codes.astype(np.int64) // m**k % m] for k in reversed(range(places))]
            total = np.zeros(len(codes), dtype=np.int64)
            for digit in digits:
                total = total * n + digit
            return np.where(np.min(digits, axis=0, initial=0) < 0, -1, total)

        theirs = other.features
        mine = self.features
        for segment, places in ((0, 1), (1, 2)):
            my_block, their_block = (mine.state, theirs.state) if segment == 0 else (mine.edge, theirs.edge)
            if my_block is None or their_block is None:
                continue
            their_attributes = np.repeat(attributes, np.diff(their_block.pointer)).astype(np.int64)
            codes = renamed(their_block.codes, places)
            keys = np.where((their_attributes >= 0) & (codes >= 0), their_attributes * n**places + codes, -1)
            own_attributes = np.repeat(np.arange(len(my_block.pointer) - 1), np.diff(my_block.pointer))
            _copy_matching(
                start[mine.segments[segment]], own_attributes * n**places + my_block.codes,
                other.weights[theirs.segments[segment]], keys,
            )  # fmt: skip
        for segment, places, my_codes, their_codes in (
            (2, 2, mine.transitions, theirs.transitions),
            (3, 3, mine.trigrams, theirs.trigrams),
        ):
            _copy_matching(
                start[mine.segments[segment]], my_codes.astype(np.int64),
                other.weights[theirs.segments[segment]], renamed(their_codes, places),
            )  # fmt: skip
        return start


def _copy_matching(
    target: Float, keys: npt.NDArray[np.int64], source: Float, source_keys: npt.NDArray[np.int64]
) -> None:
    """``target[i] = source[j]`` where ``keys[i] == source_keys[j]``; ``keys`` ascend, negative ones match none."""
    if not len(keys):
        return
    place = np.minimum(np.searchsorted(keys, source_keys), len(keys) - 1)
    found = keys[place] == source_keys
    target[place[found]] = source[found]


def _joined(blocks: list[npt.NDArray[R]], dtype: type[R]) -> npt.NDArray[R]:  # type: ignore[type-var]  # any scalar type
    return np.concatenate(blocks) if blocks else np.zeros(0, dtype=dtype)


def penalties_of(constraints: Constraints | None, labels: list[str]) -> Penalties:
    """Hard constraints over ``labels`` as scores."""
    if constraints is None:
        return Penalties.none(len(labels))
    return Penalties(*constraints.penalties(labels))
