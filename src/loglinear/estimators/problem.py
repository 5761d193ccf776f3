"""A training problem: the data in numbers and the model whose weights are sought."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from loglinear.criteria.costs import make_cost
from loglinear.criteria.criterion import CRITERIA, Criterion, make_criterion
from loglinear.criteria.field_likelihood import FieldLikelihood
from loglinear.criteria.m_estimation import MEstimation
from loglinear.criteria.scaling import scaled, scaling_gradient
from loglinear.data import Columns
from loglinear.errors import OptionError
from loglinear.estimators.chain_model import ChainModel
from loglinear.estimators.checkpoint import corpus_arrays
from loglinear.estimators.inputs import Corpus
from loglinear.features.encoding import EncodedCorpus
from loglinear.features.template_encoder import TemplateEncoder
from loglinear.generative.m_estimation import MEstimationObjective, sentence_counts
from loglinear.generative.sampled_expectations import Sampling
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.optimizers.objective import Objective
from loglinear.structures.chain import Chain, ChainScores
from loglinear.structures.gold import Gold

Float = npt.NDArray[np.float64]
SCALING_STEPS = 20


@dataclass(frozen=True)
class Problem:
    """What is to be learnt from.

    Parameters
    ----------
    model : ChainModel
        The model, with weights of zero.
    encoded : EncodedCorpus
        The S training sequences.
    gold : Gold
        Their annotation.
    sequence_weights : float64 [S] or None
        Weight of each sequence's loss; None is one for all.
    label_counts : int64 [Y]
        How many positions are settled to have each label.
    corpus : Columns or Attributes
        The text itself, for criteria that predict it too.
    label_column : int or None
        The corpus' column of labels.
    sampling : Sampling or None
        How a base's expectations are drawn; None if they are exact.
    """

    model: ChainModel
    encoded: EncodedCorpus
    gold: Gold
    sequence_weights: npt.NDArray[np.float64] | None
    label_counts: npt.NDArray[np.int64]
    corpus: Corpus
    label_column: int | None
    sampling: Sampling | None = None

    def criterion(self, spec: str, cost: Any = None) -> Criterion:
        """The criterion of that spec over this problem's labels; ``cost`` is what a user gives, None for Hamming."""
        if not CRITERIA.part(spec).uses_cost:
            return make_criterion(spec, None)
        table = make_cost("hamming" if cost is None else cost, self.model.labels, self.label_counts)
        if CRITERIA.part(spec).starts_from and not table.table.any():
            raise OptionError(f"criterion={spec!r} minimises the cost, and cost={cost!r:.40} is zero for every label")
        return make_criterion(spec, table.split(self.model.sub_labels))

    def marked_for(self, criterion: Criterion, seed: int) -> Problem:
        """The same with the annotation marked as ``criterion`` wants it before training."""
        rng = np.random.default_rng([seed, 1])
        features = self.model.features
        gold = criterion.choose(self.gold, self.encoded.offsets, features.n_labels, features.order, rng)
        return replace(self, gold=gold)

    def contexts_chosen(self, criterion: Criterion, weights: Float, n_threads: int) -> npt.NDArray[np.uint8]:
        """The contexts that ``criterion`` learns from, given the weights so far: uint8 [N, Y] or [N, Y, Y]."""
        model = self.model.with_weights(weights)

        def choose(chain: Chain, scores: ChainScores, positions: slice) -> npt.NDArray[np.uint8]:
            marginals = chain.expectations(scores)[1].emission if scores.order == 1 else chain.edge_marginals(scores)
            gold = self.gold.slice(positions.start, positions.stop)
            contexts = criterion.choose_again(gold, chain.offsets, marginals).contexts
            assert contexts is not None
            return contexts

        return np.concatenate(model.map_blocks(self.encoded, None, n_threads, choose))

    def completed(self, weights: Float, n_threads: int) -> npt.NDArray[np.int32]:
        """Of the labels that the annotation leaves, the most probable ones [N] given the weights so far."""

        def complete(chain: Chain, scores: ChainScores, positions: slice) -> npt.NDArray[np.int32]:
            allowed = self.gold.slice(positions.start, positions.stop).allowed
            assert allowed is not None
            return chain.viterbi(chain.restrict(scores, allowed))[0]

        return np.concatenate(self.model.with_weights(weights).map_blocks(self.encoded, None, n_threads, complete))

    def scaling(self, weights: Float, n_threads: int) -> Float:
        """What to multiply the pieces after each label by [Y + 1], so that the chain as a whole is most likely."""
        model, likelihood = self.model.with_weights(weights), make_criterion("cll")
        ones = np.ones(self.encoded.n_sequences)
        weight = ones if self.sequence_weights is None else self.sequence_weights

        def objective(alpha: Float) -> tuple[float, Float]:
            def evaluate(chain: Chain, scores: ChainScores, positions: slice) -> tuple[float, Float]:
                gold = self.gold.slice(positions.start, positions.stop)
                first = int(np.searchsorted(self.encoded.offsets, positions.start))
                losses, parts = likelihood.evaluate(
                    chain, scaled(chain, scores, alpha), gold, weight[first : first + chain.n_sequences]
                )
                return float(losses.sum()), scaling_gradient(chain, scores, alpha, parts)

            found = model.map_blocks(self.encoded, None, n_threads, evaluate)
            return sum(value for value, _ in found), np.sum([gradient for _, gradient in found], axis=0)

        return LBFGS(max_iter=SCALING_STEPS).minimise(objective, np.ones(model.features.n_labels + 1)).weights

    def objective(
        self, criterion: Criterion, l2: float, n_threads: int, single_precision: bool = False
    ) -> Objective | MEstimationObjective:
        """Losses by ``criterion`` and the L2 penalty as a function of the weights."""
        model = self.model
        if isinstance(criterion, MEstimation):
            counts = sentence_counts(model.features, self.encoded, self.gold.labels)
            return MEstimationObjective(counts, self._expected(counts, n_threads), l2, self.sequence_weights)
        objective = Objective(
            self.model.features,
            self.encoded,
            self.gold,
            criterion,
            self.model.penalties,
            l2,
            self.sequence_weights,
            n_threads,
            single_precision,
        )
        if criterion.predicts_fields:
            objective.terms.append(self._field_likelihood(n_threads))
        return objective

    def _expected(self, counts: csr_matrix, n_threads: int) -> Float:
        """E_q0[f] [D]; ``counts`` [S, D] are the features of the training data."""
        model, base, weights = self.model, self.model.base, self.sequence_weights
        assert base is not None
        if self.sampling is None:
            return base.expected(model.encoder, model.features, self.encoded, weights, n_threads)
        threads = 1 if base.one_by_one else n_threads
        drawn = self.sampling.estimate(base.draw, model.encoder, model.features, threads).mean
        shares = np.ones(counts.shape[0]) if weights is None else weights
        return self.sampling.smoothed(drawn, counts.T @ (shares / shares.sum()))

    def _field_likelihood(self, n_threads: int) -> FieldLikelihood:
        encoder = self.model.encoder
        if not isinstance(encoder, TemplateEncoder) or not isinstance(self.corpus, Columns):
            raise OptionError(
                "pseudolikelihood:joint predicts columns of the data; give a template and columns, not ready features"
            )
        return FieldLikelihood(
            encoder, self.corpus, self.encoded, self.model.features, self.gold.labels, self.sequence_weights, n_threads,
            self.label_column,
        )  # fmt: skip

    def arrays(self) -> list[npt.NDArray[Any] | None]:
        """All numbers that the result depends on."""
        gold, base = self.gold, self.model.base
        mark = None if base is None else base.mark(self.encoded, gold.labels)
        return [*corpus_arrays(self.encoded), gold.labels, gold.allowed, gold.contexts, self.sequence_weights, mark]
