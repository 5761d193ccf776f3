"""A dependency parser's training: the data in numbers, the model to be trained, and the phases of the training."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Array, Arrays, Float, Int32
from loglinear.criteria.costs import make_head_cost
from loglinear.criteria.criterion import CRITERIA, Criterion, make_criterion
from loglinear.criteria.m_estimation import MEstimation
from loglinear.data.dependencies import Dependencies
from loglinear.data.dependency_checks import is_projective, projectivised
from loglinear.errors import DataError
from loglinear.estimators.dependency import file as dependency_file
from loglinear.estimators.dependency.model import DependencyModel, RelationProblem, has_no_tags, rounded
from loglinear.estimators.options import GENERATIVE, M_ESTIMATION, dependency_training
from loglinear.features.arcs import ArcCorpus, ArcEncoder, Tokens, TokenVocabulary
from loglinear.generative.base import Sampling
from loglinear.generative.head_outward import BaseOptions, HeadOutwardModel, expected_counts, read_base, tree_counts
from loglinear.generative.m_estimation import MEstimationObjective
from loglinear.optimizers.dual.chain import dual_unsupported_reason
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.optimizer import Optimizer, make_optimizer
from loglinear.options import spec_name
from loglinear.structures.arcs.features import ArcFeatures
from loglinear.structures.gold import Gold
from loglinear.training.plan import l2_factor, phases_of
from loglinear.training.problem import Learnable, Phase, Stage, Storage

VARIANCE = 3.0  # of M-estimation, and the passes below: chosen on held-out sentences of ptbdep's training data
QUICKEST = "adagrad:average"  # of the optimizers of a smooth criterion, on the same sentences
PASSES = 10
RELATIONS, RELATION_TOLERANCE = "relations", 1e-4
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
        encoder = ArcEncoder(vocabulary, "arcs", np.zeros(0, dtype=np.int64))
        if name != GENERATIVE:
            seen = heads if parser.features == "observed" else None
            encoder = ArcEncoder.fit(vocabulary, "arcs", tokens, seen, parser.min_count)
        features = ArcFeatures(encoder.n_features, parser.projective, parser.single_root)
        model = DependencyModel(vocabulary, which, encoder, features, np.zeros(encoder.n_features), base)
        return cls(corpus, heads, tokens, model, weights, changes)

    def arrays(self) -> list[Array | None]:
        """All numbers that the result depends on."""
        return [self.tokens.words, self.tokens.tags, self.tokens.offsets, self.heads, self.sequence_weights]

    def m_estimation(self, options: BaseOptions, seed: int, l2: float, n_threads: int) -> MEstimationObjective:
        """The objective of M-estimation over the base."""
        base, encoder = self.model.base, self.model.encoder
        assert base is not None
        counts = tree_counts(encoder, self.tokens, self.heads)
        shares = np.ones(counts.shape[0]) if self.sequence_weights is None else self.sequence_weights
        observed = counts.T @ (shares / shares.sum())
        sampling = Sampling(options.samples, options.smoothing, seed)
        expected = expected_counts(base, encoder, sampling, observed, n_threads)
        return MEstimationObjective(counts, expected, l2, self.sequence_weights)


def _warn_without_tags(corpus: Dependencies, which: str) -> None:
    if has_no_tags(corpus.tags(which)):
        other = "upos" if which == "xpos" else "xpos"
        hint = "" if has_no_tags(corpus.tags(other)) else f"; there are some in {other}"
        warnings.warn(f"{corpus.file}: the sentences have no tags in {which}{hint}", stacklevel=2)


def _checked_weights(sample_weight: npt.ArrayLike | None, n_sentences: int) -> Float | None:
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_sentences,) or not (np.isfinite(weights) & (weights >= 0)).all() or not weights.sum() > 0:
        raise DataError(f"sample_weight must be {n_sentences} numbers from 0 up, not all 0")
    return weights


# ----------------------------------------------------------------------------------------------------------------------
# The training of a dependency parser: a stage for the weights of arcs and, if the data has relations, one for these.


@dataclass(frozen=True)
class DependencyTraining(Learnable):
    """The training of a dependency parser.

    Parameters
    ----------
    parser : DependencyParser
        Has the options.
    problem : DependencyProblem
    n_threads : int
    """

    kind: ClassVar[str] = dependency_file.KIND
    parser: Any
    problem: DependencyProblem
    n_threads: int

    @property
    def learns_weights(self) -> bool:
        """Whether arcs have weights to be learnt, or only a base that is counted."""
        return spec_name(self.parser.criterion) != GENERATIVE

    @cached_property
    def arcs(self) -> ArcCorpus:
        """The features of all arcs."""
        return self.problem.model.encoder.arcs(self.problem.tokens, self.n_threads)

    @cached_property
    def relations(self) -> RelationProblem:
        """The training data of relations."""
        problem, corpus = self.problem, self.problem.corpus
        return RelationProblem.of(problem.model.vocabulary, problem.tokens, corpus.heads, corpus.relations)

    def stages(self, options: Any, init: DependencyModel | None) -> list[Stage]:
        stages = []
        if self.learns_weights:
            start = np.zeros(self.problem.model.features.n_features)
            if init is not None:
                same = self.problem.model.encoder.matching(init.encoder)
                start[same[same >= 0]] = init.weights[same >= 0]
            phases = phases_of(self, options, self.n_threads, init is None)
            stages.append(Stage(lambda done: (start, phases), score_start=init is not None))
        if options.relations and self.problem.corpus.has_relations:
            stages.append(Stage(self._relation_stage, counts=False))
        return stages

    def _relation_stage(self, done: Sequence[Float]) -> tuple[Float, list[Phase]]:
        problem = self.relations
        name = "dual" if len(problem.model.labels) > 1 else "lbfgs"
        optimizer = make_optimizer(name, max_iter=None, tolerance=RELATION_TOLERANCE, seed=self.parser.seed)

        def prepare(start: Float, kept: Arrays | None) -> tuple[Any, Arrays]:
            return problem.objective(RELATION_L2, self.n_threads), {}

        return problem.model.weights, [Phase(RELATIONS, optimizer, prepare)]

    def trained_model(self, weights: Sequence[Float]) -> DependencyModel:
        model, rest = self.problem.model, list(weights)
        if self.learns_weights:
            model = replace(model, weights=rounded(rest.pop(0)))
        if not rest:
            return model
        return replace(model, relations=replace(self.relations.model, weights=rounded(rest[0])))

    def storage(self, weights: Sequence[Float], options: Any, notes: dict[str, Any]) -> Storage:
        return dependency_file.to_storage(self.trained_model(weights), options._stored_options(), notes)

    def arrays(self) -> list[Array | None]:
        return self.problem.arrays()

    def identity(self, options: Any) -> dict[str, Any]:
        return {"cost": options.cost}

    def dev_data(self, X: Any, y: Any) -> DevTrees:
        model, corpus = self.problem.model, self.parser._corpus(X, y)
        tokens = model.tokens(corpus)
        return DevTrees(corpus, tokens, model.encoder.arcs(tokens, self.n_threads))

    # -- the weights of arcs, by a criterion -------------------------------------------------------------------------

    def criterion(self, spec: str, cost: Any = None) -> Criterion:
        return make_criterion(spec, make_head_cost(cost) if CRITERIA.part(spec).uses_cost else None)

    def objective(self, criterion: Criterion, l2: float, n_threads: int) -> Any:
        problem = self.problem
        if isinstance(criterion, MEstimation):
            base = read_base(self.parser.base)
            return problem.m_estimation(base, self.parser.seed, l2, n_threads).by(criterion)
        return Objective(
            problem.model.features, self.arcs, Gold(problem.heads), criterion, None, l2, problem.sequence_weights,
            n_threads,
        )  # fmt: skip

    def default_optimizer(self, criterion: Criterion, l2: float, from_zero: bool) -> str:
        possible = dependency_training().optimizers(type(criterion))
        gold = Gold(self.problem.heads)
        if "dual" in possible and dual_unsupported_reason(criterion, self.problem.model.features, gold, l2) is None:
            return "dual"
        return QUICKEST if spec_name(QUICKEST) in possible else next(name for name in possible if name != "dual")

    def default_iterations(self, optimizer: type[Optimizer]) -> int | None:
        return PASSES if optimizer.iteration_is == "pass" and optimizer.name != "dual" else None

    def default_l2(self, criterion: Criterion) -> float:
        return l2_factor(None, VARIANCE) if criterion.uses_base else 1.0


@dataclass(frozen=True)
class DevTrees:
    """Sentences with their trees, encoded once."""

    corpus: Dependencies
    tokens: Tokens
    encoded: ArcCorpus

    def score(self, model: DependencyModel) -> float:
        """The share of tokens with the right head."""
        return float(np.mean(model.best(self.tokens, self.encoded) == self.corpus.heads))

    @property
    def arrays(self) -> list[Array | None]:
        return [self.tokens.words, self.tokens.tags, self.corpus.heads]
