"""A dependency parser's training: the data in numbers, the model to be trained, and the phases of the training."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Array, Arrays, Float, Int32
from loglinear.criteria.costs import make_head_cost
from loglinear.criteria.criterion import CRITERIA, Criterion, make_criterion
from loglinear.data.columns.corpus import Column
from loglinear.data.dependencies import NOTHING, Dependencies
from loglinear.data.dependency_checks import is_projective, projectivised
from loglinear.errors import DataError
from loglinear.estimators.dependency.model import DependencyModel, RelationModel
from loglinear.estimators.dependency.options import (
    GENERATIVE,
    L2,
    M_ESTIMATION,
    QUICKEST,
    optimizer_of,
    optimizer_spec,
    penalty_of,
    read_base,
)
from loglinear.features.arcs import ArcCorpus, ArcEncoder, Tokens, TokenVocabulary
from loglinear.generative.base import Sampling
from loglinear.generative.head_outward import HeadOutwardModel, expected_counts, tree_counts
from loglinear.generative.m_estimation import MEstimationObjective
from loglinear.optimizers.objective import AnyObjective, Objective
from loglinear.options import spec_name
from loglinear.structures.arcs.features import ArcFeatures
from loglinear.structures.gold import Gold
from loglinear.training.plan import MAIN, Phase

RELATION_L2 = 0.3


@dataclass(frozen=True)
class DependencyProblem:
    """Training data and the model to be trained.

    Attributes
    ----------
    corpus : Dependencies
        The sentences that are not too long.
    heads : int32 [N]
        Their trees, made projective where they must be.
    tokens : Tokens
    model : DependencyModel
        With weights of zero.
    sequence_weights : float64 [S] or None
    changes : str
        What was left out or changed, for the message.
    """

    corpus: Dependencies
    heads: Int32
    tokens: Tokens
    model: DependencyModel
    sequence_weights: Float | None
    changes: str

    @classmethod
    def of(
        cls, parser: Any, corpus: Dependencies, sample_weight: npt.ArrayLike | None, n_threads: int
    ) -> DependencyProblem:
        """The problem that a parser's options make of a corpus."""
        weights = _checked_weights(sample_weight, corpus.n_sentences)
        short = np.flatnonzero(np.diff(corpus.offsets) <= parser.max_length)
        changes = ""
        if len(short) < corpus.n_sentences:
            if not len(short):
                raise DataError(f"no sentence has at most max_length={parser.max_length} tokens", corpus.file)
            changes = f"; {corpus.n_sentences - len(short)} sentences longer than {parser.max_length} left out"
            corpus, weights = corpus.select(short), None if weights is None else weights[short]
        heads = corpus.heads
        if parser.projective:
            crossing = int(np.count_nonzero(~is_projective(corpus.offsets, heads)))
            if crossing:
                changes += f"; crossing arcs of {crossing} sentence{'' if crossing == 1 else 's'} lifted"
            heads = projectivised(corpus.offsets, heads)
        which = parser.tags
        if which == "auto":
            which = "xpos" if corpus.tags("auto") is corpus.xpos else "upos"
        tags = corpus.tags(which)
        _warn_without_tags(corpus, which)
        vocabulary = TokenVocabulary.fit(corpus.words, tags)
        tokens = vocabulary.tokens(corpus.words, tags, corpus.offsets)
        name, base = spec_name(parser.criterion), None
        if name in (GENERATIVE, M_ESTIMATION):
            base = HeadOutwardModel.fit(vocabulary, tokens, heads, read_base(parser.base).words)
        nothing = ArcEncoder(vocabulary, "arcs", np.zeros(0, dtype=np.int64))
        encoder = nothing
        if name != GENERATIVE:
            seen = heads if parser.features == "observed" else None
            encoder = ArcEncoder.fit(vocabulary, "arcs", tokens, seen, parser.min_count)
        features = ArcFeatures(encoder.n_features, parser.projective, parser.single_root)
        model = DependencyModel(vocabulary, which, encoder, features, np.zeros(encoder.n_features), base)
        return cls(corpus, heads, tokens, model, weights, changes)

    def arrays(self) -> list[Array | None]:
        """All numbers that the result depends on."""
        return [self.tokens.words, self.tokens.tags, self.tokens.offsets, self.heads, self.sequence_weights]

    def with_relations(self, model: DependencyModel, parser: Any, n_threads: int) -> DependencyModel:
        """The model with a model of relations, if they are wanted and there are any."""
        if not parser.relations or not self.corpus.has_relations:
            return model
        corpus = self.corpus
        relations = RelationModel.fit(
            model.vocabulary, self.tokens, corpus.heads, corpus.relations, RELATION_L2, parser.seed, n_threads
        )
        return replace(model, relations=relations)

    def m_estimation(self, parser: Any, l2: float, n_threads: int) -> MEstimationObjective:
        """The objective of M-estimation over the base."""
        options, base, encoder = read_base(parser.base), self.model.base, self.model.encoder
        assert base is not None
        counts = tree_counts(encoder, self.tokens, self.heads)
        shares = np.ones(counts.shape[0]) if self.sequence_weights is None else self.sequence_weights
        observed = counts.T @ (shares / shares.sum())
        sampling = Sampling(options.samples, options.smoothing, parser.seed)
        expected = expected_counts(base, encoder, sampling, observed, n_threads)
        return MEstimationObjective(counts, expected, l2, self.sequence_weights)


def _warn_without_tags(corpus: Dependencies, which: str) -> None:
    if not _all_nothing(corpus.tags(which)):
        return
    other = "upos" if which == "xpos" else "xpos"
    hint = "" if _all_nothing(corpus.tags(other)) else f"; there are some in {other}"
    warnings.warn(f"{corpus.file}: the sentences have no tags in {which}{hint}", stacklevel=2)


def _all_nothing(column: Column) -> bool:
    return all(column.values[i] == NOTHING for i in np.unique(column.ids).tolist())


def _checked_weights(sample_weight: npt.ArrayLike | None, n_sentences: int) -> Float | None:
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_sentences,) or not (np.isfinite(weights) & (weights >= 0)).all() or not weights.sum() > 0:
        raise DataError(f"sample_weight must be {n_sentences} numbers from 0 up, not all 0")
    return weights


def phases(parser: Any, problem: DependencyProblem, n_threads: int) -> list[Phase]:
    """The phases of a training: one, or first the criterion that its own starts from."""
    l2, name = penalty_of(parser), spec_name(parser.criterion)
    optimizer = optimizer_of(parser, optimizer_spec(parser))
    if name == M_ESTIMATION:
        return [Phase(MAIN, optimizer, lambda start, kept: (problem.m_estimation(parser, l2, n_threads), {}))]
    made: list[ArcCorpus] = []

    def of(criterion: Criterion, penalty: float) -> Callable[[Float, Arrays | None], tuple[AnyObjective, Arrays]]:
        def prepare(start: Float, kept: Arrays | None) -> tuple[AnyObjective, Arrays]:
            if not made:
                made.append(problem.model.arcs(problem.tokens, n_threads))
            objective = Objective(
                problem.model.features, made[0], Gold(problem.heads), criterion, None, penalty,
                problem.sequence_weights, n_threads,
            )  # fmt: skip
            return objective, {}

        return prepare

    kind = CRITERIA.part(parser.criterion)
    cost: Any = make_head_cost(parser.cost) if kind.uses_cost else None
    own = Phase(MAIN, optimizer, of(make_criterion(parser.criterion, cost), l2))
    if kind.starts_from is None:
        return [own]
    opening = optimizer_of(parser, QUICKEST)
    return [Phase(kind.starts_from, opening, of(make_criterion(kind.starts_from), l2 or L2)), own]
