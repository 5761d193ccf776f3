"""A trained chain model: labels, attributes, features, weights and constraints, and what can be asked of them.

This is what a model file holds and what :class:`loglinear.Tagger` wraps. It works on encoded corpora and label numbers;
the estimator turns users' data into those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.criteria.costs import Cost
from loglinear.criteria.local import locally_normalised
from loglinear.criteria.scaling import scaled
from loglinear.data.columns import Attributes, Columns
from loglinear.errors import InfeasibleError, OptionError
from loglinear.estimators.approximate_decoding import best_found
from loglinear.estimators.chain_inference import Allowed, ChainInference, R
from loglinear.estimators.sentence_decoder import SentenceDecoder
from loglinear.estimators.weight_precision import restored, stored
from loglinear.features.encoding import EncodedCorpus
from loglinear.features.name_encoder import NameEncoder
from loglinear.features.template_encoder import TemplateEncoder
from loglinear.generative.base import Base, HmmBase
from loglinear.generative.hmm import possible_steps
from loglinear.generative.own_base import OwnBase
from loglinear.structures.chain import Chain, ChainScores
from loglinear.structures.chain_decoder import ChainDecoder
from loglinear.structures.chain_features import ChainFeatures, ChainWeights, Penalties
from loglinear.structures.constraints import Constraints
from loglinear.threads import in_threads

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Corpus = Columns | Attributes
ANY_LABEL = "(any label)"
WORKED_OUT = ("penalties", "laid_out", "decoder", "_sentences")  # kept from one question to the next


@dataclass
class ChainModel(ChainInference):
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
    sub_labels : int
        Hidden states of each label.
    scaling : float64 [Y + 1] or None
        What the pieces after each label, and the first one, are multiplied by (:mod:`~loglinear.criteria.scaling`).
    base : Base or None
        A generative model whose log-probabilities are added to the scores (:mod:`~loglinear.generative.base`).
    """

    labels: list[str]
    encoder: TemplateEncoder | NameEncoder
    features: ChainFeatures
    weights: Float
    constraints: Constraints | None = None
    local: bool = False
    sub_labels: int = 1
    scaling: Float | None = None
    base: Base | None = None

    @cached_property
    def penalties(self) -> Penalties:
        return penalties_of(self.constraints, self.labels).split(self.sub_labels)

    @property
    def states(self) -> list[str]:
        """Names of the states: the labels, or ``label#j`` for sub-label j."""
        if self.sub_labels == 1:
            return self.labels
        return [f"{label}#{j}" for label in self.labels for j in range(self.sub_labels)]

    def states_of(self, labels: list[str]) -> list[str]:
        """Names of the states of these labels."""
        wanted = set(labels)
        return [state for y, state in enumerate(self.states) if self.labels[y // self.sub_labels] in wanted]

    @cached_property
    def laid_out(self) -> ChainWeights:
        """The weights prepared for scoring."""
        return self.features.lay_out(np.ascontiguousarray(self.weights, dtype=np.float64), self.penalties)

    @cached_property
    def decoder(self) -> ChainDecoder | None:
        """The weights laid out for finding best labellings; None if that needs part scores."""
        plain = self.base is None and self.scaling is None and not self.local
        if not plain or not ChainDecoder.suits(self.features):
            return None
        return ChainDecoder(self.features, np.ascontiguousarray(self.weights, dtype=np.float64), self.penalties)

    @cached_property
    def _sentences(self) -> SentenceDecoder | None:
        return None if self.decoder is None else SentenceDecoder.of(self.encoder, self.decoder, self.labels)

    def labels_of_sentence(self, x: Any) -> list[str] | None:
        """Best labels of one sentence of the user's, at low latency; None if it must go the way of all corpora.

        That is so for models that :class:`ChainDecoder` does not suit, and for what is no plain and faultless sentence.
        """
        return None if self._sentences is None else self._sentences.labels_of(x)

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: what can be worked out again stays behind."""
        return {name: value for name, value in self.__dict__.items() if name not in WORKED_OUT}

    def with_weights(self, weights: Float) -> ChainModel:
        """The same model with other weights."""
        return replace(self, weights=weights)

    def keeping(self, kept: npt.NDArray[np.bool_]) -> ChainModel:
        """The same model with the features where ``kept`` [D] only, and the attributes that still have one."""
        if kept.all():
            return self
        features, used = self.features.keeping(kept)
        return replace(self, encoder=self.encoder.keeping(used), features=features, weights=self.weights[kept])

    def compacted(self) -> ChainModel:
        """The same model without the features of weight zero."""
        return self.keeping(self.weights != 0.0)

    def pruned(self, keep: int) -> ChainModel:
        """The same model with its ``keep`` greatest weights only; of equal ones, the first."""
        sizes = np.abs(self.weights)
        if keep >= len(sizes):
            return self.compacted()
        bound = np.partition(sizes, len(sizes) - keep)[len(sizes) - keep] if keep else np.inf
        kept = sizes > bound
        kept[np.flatnonzero(sizes == bound)[: keep - int(kept.sum())]] = True
        return self.keeping(kept & (sizes > 0.0))

    def rounded(self, precision: str) -> ChainModel:
        """The same model with weights that numbers of that precision hold, without those that they make zero."""
        return self.with_weights(restored(*stored(self.weights, precision))).compacted()

    def part_scores(self, corpus: EncodedCorpus, first: int, end: int) -> ChainScores:
        scores = self.features.scores(self.laid_out, corpus, first, end)
        if self.base is not None:
            if not self.base.has_parts:
                raise OptionError(
                    "the base has no method scores(x, labels), so that sums over labellings cannot be worked out: "
                    "there are no probabilities, and no decoding but an approximate 'viterbi'"
                )
            scores = scores.plus(self.base.scores(corpus, first, end))
        chain = Chain(corpus.offsets[first : end + 1] - corpus.offsets[first])
        if self.scaling is not None:
            scores = scaled(chain, scores, self.scaling)
        return locally_normalised(chain, scores) if self.local else scores

    @property
    def hmm_base(self) -> HmmBase:
        """The base of a model that is known to have a hidden Markov model as such."""
        assert isinstance(self.base, HmmBase)
        return self.base

    @property
    def why_infeasible(self) -> str:
        if not isinstance(self.base, HmmBase):
            return ""
        hmm, rules = self.base.model, self.penalties
        transitions, starts, ends = map(np.isfinite, (rules.transition, rules.start, rules.stop))
        steps = possible_steps(transitions, starts, ends, hmm.order)
        unmet = {
            "smoothing": any((table == 0.0).any() for table in hmm.emissions),
            "transition_smoothing": bool((hmm.steps[steps] == 0.0).any()),
        }
        given = ",".join(f"{option}=0.1" for option, zero in unmet.items() if zero)
        if not given:
            return ""
        remedy = f"hmm:{given}, m-estimation:{given}"
        return f"; what was not met in training has probability zero unless smoothed ({remedy})"

    def encode(self, corpus: Corpus, n_threads: int = 1) -> EncodedCorpus:
        """A corpus in numbers, as this model looks at it."""
        if self.base is None:
            return super().encode(corpus, n_threads)
        known = self.base.prepare(corpus)
        return self.base.attach(super().encode(known, n_threads), known)

    def blocks(self, corpus: EncodedCorpus) -> list[tuple[int, int]]:
        if self.base is not None and self.base.one_by_one:
            return [(i, i + 1) for i in range(corpus.n_sequences)]
        return self.features.blocks(corpus.offsets, 0, corpus.n_sequences)

    def map_blocks(
        self,
        corpus: EncodedCorpus,
        allowed: Allowed | None,
        n_threads: int,
        operation: Callable[[Chain, ChainScores, slice], R],
    ) -> list[R]:
        alone = self.base is not None and self.base.one_by_one
        return super().map_blocks(corpus, allowed, 1 if alone else n_threads, operation)

    def decode(
        self,
        corpus: EncodedCorpus,
        allowed: Allowed | None = None,
        decoding: str = "viterbi",
        n_threads: int = 1,
        cost: Cost | None = None,
    ) -> Int32:
        if decoding == "viterbi" and self.decoder is not None:
            return self._quickly_decoded(self.decoder, corpus, allowed, n_threads)
        base = self.base
        if not isinstance(base, OwnBase) or base.has_parts or decoding != "viterbi":
            return super().decode(corpus, allowed, decoding, n_threads, cost)
        labels = np.empty(corpus.n_positions, dtype=np.int32)
        for i in range(corpus.n_sequences):
            lo, hi = corpus.offsets[i : i + 2].tolist()
            scores = self.features.scores(self.laid_out, corpus, i, i + 1)
            if allowed is not None:
                scores = Chain([0, hi - lo]).restrict(scores, allowed[lo:hi])
            try:
                labels[lo:hi] = best_found(scores, base.scorer(corpus, i), base.candidates)
            except InfeasibleError:
                raise InfeasibleError(i) from None
        return labels

    def _quickly_decoded(
        self, decoder: ChainDecoder, corpus: EncodedCorpus, allowed: Allowed | None, n_threads: int
    ) -> Int32:
        mask = None if allowed is None else np.repeat(allowed, self.sub_labels, axis=1)

        def best(run: tuple[int, int]) -> Int32:
            try:
                return decoder.decode(corpus, *run, mask)
            except InfeasibleError as error:
                raise InfeasibleError(run[0] + error.sequence) from None

        found = in_threads(best, self.blocks(corpus), n_threads)
        labels = np.concatenate([np.zeros(0, dtype=np.int32), *found])
        return labels if self.sub_labels == 1 else labels // self.sub_labels

    # -- the weights by name -------------------------------------------------------------------------------------

    def state_weights(self) -> dict[tuple[str, str], float]:
        """Weight of each (attribute, label); features that look at no label have :data:`ANY_LABEL`."""
        block, weights = self.features.state, self.weights[self.features.segments[0]].tolist()
        names = np.repeat(np.arange(len(block.pointer) - 1), np.diff(block.pointer)).tolist()
        attributes, states = self.encoder.names(), [*self.states, ANY_LABEL]
        return {(attributes[a], states[y]): w for a, y, w in zip(names, block.codes.tolist(), weights, strict=True)}

    def edge_weights(self) -> dict[tuple[str, str, str], float]:
        """Weight of each (attribute, previous label, label)."""
        block = self.features.edge
        if block is None:
            return {}
        weights = self.weights[self.features.segments[1]].tolist()
        names = np.repeat(np.arange(len(block.pointer) - 1), np.diff(block.pointer)).tolist()
        attributes, states, n = self.encoder.names(), self.states, self.features.n_labels
        return {
            (attributes[a], states[c // n], states[c % n]): w
            for a, c, w in zip(names, block.codes.tolist(), weights, strict=True)
        }

    def transition_weights(self) -> dict[tuple[str, str], float]:
        """Weight of each (previous label, label)."""
        states, n, weights = self.states, self.features.n_labels, self.weights[self.features.segments[2]].tolist()
        return {
            (states[c // n], states[c % n]): w for c, w in zip(self.features.transitions.tolist(), weights, strict=True)
        }

    def trigram_weights(self) -> dict[tuple[str, str, str], float]:
        """Weight of each (label two back, previous label, label)."""
        states, n, weights = self.states, self.features.n_labels, self.weights[self.features.segments[3]].tolist()
        return {
            (states[c // n // n], states[c // n % n], states[c % n]): w
            for c, w in zip(self.features.trigrams.tolist(), weights, strict=True)
        }

    def weights_from(self, other: ChainModel) -> Float:
        """A start for this model's weights: those of ``other`` where it has the same feature, else zero."""
        start = np.zeros(self.features.n_features)
        if type(self.encoder) is not type(other.encoder):
            attributes = np.full(other.encoder.n_attributes, -1, dtype=np.int32)
        else:
            attributes = self.encoder.matching(other.encoder)  # type: ignore[arg-type]  # same class, just checked
        for same_state in self._matching_states(other):
            self._copy_weights(other, attributes, same_state, start)
        return start

    def _matching_states(self, other: ChainModel) -> list[npt.NDArray[np.int64]]:
        """Numbers of ``other``'s states among mine, -1 where missing; one list for each copy that is to be made.

        A model without sub-labels is copied into each of mine.
        """
        if other.sub_labels == self.sub_labels:
            number = {state: y for y, state in enumerate(self.states)}
            return [np.array([number.get(state, -1) for state in other.states], dtype=np.int64)]
        if other.sub_labels > 1:
            raise OptionError(
                f"the model to start from has {other.sub_labels} sub-labels, this one {self.sub_labels}; "
                "give it as many, or start from one without"
            )
        number = {label: y for y, label in enumerate(self.labels)}
        first = np.array([number.get(label, -1) for label in other.labels], dtype=np.int64)
        return [np.where(first < 0, -1, first * self.sub_labels + j) for j in range(self.sub_labels)]

    def _copy_weights(
        self, other: ChainModel, attributes: Int32, same_state: npt.NDArray[np.int64], start: Float
    ) -> None:
        """Put into ``start`` [D] the weights of ``other`` for the features that are the same."""
        n, m = self.features.n_labels, other.features.n_labels

        def renamed(codes: Int32, places: int) -> npt.NDArray[np.int64]:
            """Codes over ``other``'s labels as codes over mine; -1 where a label is missing."""
            digits = [same_state[codes.astype(np.int64) // m**k % m] for k in reversed(range(places))]
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
            codes[their_block.codes == m**places] = n if mine.input_only else -1
            width = my_block.n_codes
            keys = np.where((their_attributes >= 0) & (codes >= 0), their_attributes * width + codes, -1)
            own_attributes = np.repeat(np.arange(len(my_block.pointer) - 1), np.diff(my_block.pointer))
            _copy_matching(
                start[mine.segments[segment]], own_attributes * width + my_block.codes,
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


def _copy_matching(
    target: Float, keys: npt.NDArray[np.int64], source: Float, source_keys: npt.NDArray[np.int64]
) -> None:
    """``target[i] = source[j]`` where ``keys[i] == source_keys[j]``; ``keys`` ascend, negative ones match none."""
    if not len(keys):
        return
    place = np.minimum(np.searchsorted(keys, source_keys), len(keys) - 1)
    found = keys[place] == source_keys
    target[place[found]] = source[found]


def penalties_of(constraints: Constraints | None, labels: list[str]) -> Penalties:
    """Hard constraints over ``labels`` as scores."""
    if constraints is None:
        return Penalties.none(len(labels))
    return Penalties(*constraints.penalties(labels))
