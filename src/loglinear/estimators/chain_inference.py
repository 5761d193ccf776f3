"""What can be asked of anything that scores the parts of chains: labellings, probabilities, expected costs.

A model may split each label into k hidden *sub-labels* (state ``y * k + j`` is sub-label j of label y). Its part scores
are then over the Y k states, while all that goes in and comes out here is about the Y labels: the probability of a
label is the sum over its sub-labels, that of a labelling the sum over all labellings by sub-labels that it stands for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from loglinear.criteria.costs import Cost
from loglinear.data.columns import Attributes, Columns
from loglinear.errors import InfeasibleError
from loglinear.features.encoding import EncodedCorpus
from loglinear.features.name_encoder import NameEncoder
from loglinear.features.template_encoder import TemplateEncoder
from loglinear.structures.chain import Chain, ChainScores
from loglinear.threads import in_threads

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Allowed = npt.NDArray[np.uint8]
Ranked = tuple[Int32, Float]
R = TypeVar("R")

MOST_PATHS = 4096  # labellings by sub-labels looked through for distinct labellings


class ChainInference(ABC):
    """Inference block by block in threads, given part scores.

    Attributes
    ----------
    labels : list of str
        The Y labels.
    sub_labels : int
        k, the hidden states of each label; 1 if the labels are the states.
    encoder : TemplateEncoder or NameEncoder
        Makes attributes of a corpus.
    """

    labels: list[str]
    sub_labels: int
    encoder: TemplateEncoder | NameEncoder

    @property
    def why_infeasible(self) -> str:
        """What beside constraints and given labels may leave a sequence without a labelling, for error messages."""
        return ""

    def encode(self, corpus: Columns | Attributes, n_threads: int = 1) -> EncodedCorpus:
        """A corpus in numbers, as this model looks at it."""
        return self.encoder.transform(corpus, n_threads)  # type: ignore[arg-type]  # the encoder's kind of corpus

    def labels_of_sentence(self, x: Any) -> list[str] | None:
        """Best labels of one sentence of the user's, at low latency; None if it must go the way of all corpora."""
        return None

    @abstractmethod
    def part_scores(self, corpus: EncodedCorpus, first: int, end: int) -> ChainScores:
        """Part scores of sequences ``first`` to ``end``, with what is ruled out at -inf."""

    @abstractmethod
    def blocks(self, corpus: EncodedCorpus) -> list[tuple[int, int]]:
        """All sequences in runs whose part scores stay small."""

    def decode(
        self,
        corpus: EncodedCorpus,
        allowed: Allowed | None = None,
        decoding: str = "viterbi",
        n_threads: int = 1,
        cost: Cost | None = None,
    ) -> Int32:
        """Best label of each position [N], of those the constraints and ``allowed`` [N, Y] leave.

        ``viterbi``: the most probable labelling (by sub-labels, if there are any); ``posterior``: that with the
        greatest sum of its labels' marginals; ``min-risk``: that with the least expected ``cost``.
        """

        def best(chain: Chain, scores: ChainScores, positions: slice) -> Int32:
            if decoding == "viterbi":
                return chain.viterbi(scores)[0] // self.sub_labels
            values = self._label_marginals(chain, scores)
            if decoding == "min-risk" and cost is not None:
                values = -cost.expected(values, chain.offsets)
            states = np.repeat(values, self.sub_labels, axis=1)
            return chain.best_possible(scores, states)[0] // self.sub_labels

        return _joined(self.map_blocks(corpus, allowed, n_threads, best), np.int32)

    def marginals(self, corpus: EncodedCorpus, allowed: Allowed | None = None, n_threads: int = 1) -> Float:
        """Probability of each label at each position [N, Y]."""
        blocks = self.map_blocks(
            corpus, allowed, n_threads, lambda chain, scores, positions: self._label_marginals(chain, scores)
        )
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.labels)))

    def n_best(self, corpus: EncodedCorpus, k: int, allowed: Allowed | None = None, n_threads: int = 1) -> list[Ranked]:
        """For each sequence its best labellings [K, T] and their probabilities [K], K <= k.

        With sub-labels they are the k labellings that have the best labellings by sub-labels, the most probable first.
        """

        def best(chain: Chain, scores: ChainScores, positions: slice) -> list[Ranked]:
            log_z = chain.log_partition(scores)
            if self.sub_labels > 1:
                return [_sorted(*one) for one in self._distinct(chain, scores, k, log_z)]
            found = chain.k_best(scores, k)
            return [(labels, np.exp(score - z)) for (labels, score), z in zip(found, log_z, strict=True)]

        return [one for block in self.map_blocks(corpus, allowed, n_threads, best) for one in block]

    def log_probability(self, corpus: EncodedCorpus, labels: Int32, n_threads: int = 1) -> Float:
        """log p(labels given sequence) of each sequence [S]; ``labels`` is [N]."""

        def log_p(chain: Chain, scores: ChainScores, positions: slice) -> Float:
            if self.sub_labels == 1:
                return chain.score(scores, labels[positions]) - chain.log_partition(scores)
            return chain.log_partition(self._only(chain, scores, labels[positions])) - chain.log_partition(scores)

        return _joined(self.map_blocks(corpus, None, n_threads, log_p), np.float64)

    def _only(self, chain: Chain, scores: ChainScores, labels: Int32) -> ChainScores:
        """The scores with all but the sub-labels of ``labels`` [N] ruled out."""
        mask = np.arange(len(self.labels)) == labels[:, None]
        return chain.restrict(scores, np.repeat(mask, self.sub_labels, axis=1))

    def _label_marginals(self, chain: Chain, scores: ChainScores) -> Float:
        states = chain.expectations(scores)[1].emission
        return states if self.sub_labels == 1 else states.reshape(len(states), -1, self.sub_labels).sum(axis=2)

    def _distinct(self, chain: Chain, scores: ChainScores, k: int, log_z: Float) -> list[Ranked]:
        """For each sequence at most ``k`` distinct labellings with their probabilities, the sub-labels summed out."""
        n_paths = k * self.sub_labels
        while True:
            paths = chain.k_best(scores, n_paths)
            found = [_first_distinct(states // self.sub_labels, k) for states, _ in paths]
            unfinished = [
                len(labels) < k and len(states) == n_paths for labels, (states, _) in zip(found, paths, strict=True)
            ]
            if not any(unfinished) or n_paths >= MOST_PATHS:
                break
            n_paths *= 2
        probabilities = [np.zeros(len(labels)) for labels in found]
        for rank in range(max(map(len, found))):
            chosen = np.concatenate([labels[min(rank, len(labels) - 1)] for labels in found])
            log_p = chain.log_partition(self._only(chain, scores, chosen)) - log_z
            for i, each in enumerate(probabilities):
                if rank < len(each):
                    each[rank] = np.exp(log_p[i])
        return list(zip(found, probabilities, strict=True))

    def map_blocks(
        self,
        corpus: EncodedCorpus,
        allowed: Allowed | None,
        n_threads: int,
        operation: Callable[[Chain, ChainScores, slice], R],
    ) -> list[R]:
        """``operation(chain, scores, positions)`` for each block of sequences, in order."""

        def run(block: tuple[int, int]) -> R:
            first, end = block
            lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
            chain = Chain(corpus.offsets[first : end + 1] - lo)
            scores = self.part_scores(corpus, first, end)
            if allowed is not None:
                scores = chain.restrict(scores, np.repeat(allowed[lo:hi], self.sub_labels, axis=1))
            try:
                return operation(chain, scores, slice(lo, hi))
            except InfeasibleError as error:
                raise InfeasibleError(first + error.sequence, self.why_infeasible) from None

        return in_threads(run, self.blocks(corpus), n_threads)


def _first_distinct(labellings: Int32, k: int) -> Int32:
    """The first ``k`` distinct rows, in their order."""
    _, place = np.unique(labellings, axis=0, return_index=True)
    return labellings[np.sort(place)[:k]]


def _sorted(labels: Int32, probabilities: Float) -> Ranked:
    order = np.argsort(-probabilities, kind="stable")
    return labels[order], probabilities[order]


def _joined(blocks: list[npt.NDArray[R]], dtype: type[R]) -> npt.NDArray[R]:  # type: ignore[type-var]  # any scalar type
    return np.concatenate(blocks) if blocks else np.zeros(0, dtype=dtype)
