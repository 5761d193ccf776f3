"""M-estimation of trees over a PCFG: features of spans tilt the grammar, and training needs no inference at all.

    p(tree, words)  proportional to  q0(tree, words) exp(w . f)
    F(w) = (1/n) sum_i exp(-w . f_i) + w . E_q0[f] + l2 ||w||^2

E_q0[f] is exact for the features of an outcome alone, a binary rule, a unary chain or a tag, which are contiguous
fragments of a tree (:mod:`~loglinear.generative.pcfg_expectations`). Those that also look at words are counted in trees
drawn from q0, and the training trees, as if a few of them had been drawn, keep what was never drawn from being 0.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from loglinear.estimators.span_criteria import SPAN_OPTIONS, SpanCriterion, observer_of, span_attributes_of
from loglinear.estimators.span_model import SpanModel, SpanProblem
from loglinear.estimators.tree_criteria import TreeTraining, register_tree_criterion
from loglinear.features.encoding import Incidence
from loglinear.generative.m_estimation import MEstimationObjective
from loglinear.generative.pcfg import PCFG
from loglinear.generative.pcfg_draws import draw_trees
from loglinear.generative.pcfg_estimate import treebank_pcfg
from loglinear.generative.pcfg_expectations import Expectations
from loglinear.generative.sampled_expectations import SMOOTHING, Sampling
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.options import Option
from loglinear.structures.cfg_features import SpanFeatures
from loglinear.structures.cfg_pieces import Edges
from loglinear.structures.cfg_tree import CFGTree
from loglinear.threads import in_threads

Float = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
DRAWS_AT_ONCE = 1_000
STREAM = 4  # of random numbers, apart from those of chains


def tree_counts(features: SpanFeatures, spans: Incidence, edges: Edges, offsets: Int64) -> csr_matrix:
    """Feature counts [S, D] of trees given by their edges; ``offsets`` [S + 1] say where a sentence's spans begin."""
    block, e = features.pieces.block, features.outcomes.n_outcomes
    sentence = np.searchsorted(offsets, edges.spans, side="right") - 1
    sizes = np.diff(spans.pointer)[edges.spans]
    rows = np.repeat(np.arange(len(edges)), sizes)
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    attributes = spans.ids[spans.pointer[edges.spans][rows] + within].astype(np.int64)
    known = np.repeat(np.arange(len(block.pointer) - 1), np.diff(block.pointer)) * e + block.codes
    wanted = attributes * e + edges.outcomes[rows]
    place = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    there = np.flatnonzero(known[place] == wanted) if len(known) else np.zeros(0, dtype=np.int64)
    columns = np.concatenate([edges.outcomes.astype(np.int64), e + place[there]])
    of = np.concatenate([sentence, sentence[rows[there]]])
    shape = (len(offsets) - 1, features.n_features)
    counts = csr_matrix((np.ones(len(columns)), (of, columns)), shape=shape)
    counts.sum_duplicates()
    return counts


def expected_counts(model: SpanModel, base: PCFG, sampling: Sampling, observed: Float, n_threads: int) -> Float:
    """E_q0[f] [D]: of drawn trees, smoothed by the means of the training trees, and exact for outcomes alone."""

    def batch(number: int) -> Float:
        n = min(DRAWS_AT_ONCE, sampling.samples - number * DRAWS_AT_ONCE)
        trees = draw_trees(base, n, np.random.default_rng([sampling.seed, STREAM, number]))
        sentences = [tree.leaves() for tree in trees]
        labels = [model.coder.labels(tree) for tree in trees]
        structure = CFGTree(model.grammar, [len(words) for words in sentences])
        edges = model.features.outcomes.edges(
            np.concatenate([each for each in labels if each is not None]), structure.is_word
        )
        counts = tree_counts(model.features, model.attributes.transform(sentences), edges, structure.offsets)
        return np.asarray(counts.sum(axis=0)).ravel()

    numbers = range(-(-sampling.samples // DRAWS_AT_ONCE))
    drawn = np.sum(in_threads(batch, numbers, n_threads), axis=0) / sampling.samples
    expected = sampling.smoothed(drawn, observed)
    exact, outcomes = Expectations(base), model.features.outcomes
    expected[outcomes.of_rule], expected[outcomes.of_step] = exact.binary, exact.steps
    expected[outcomes.of_tag] = exact.outside[: base.n_tags]
    return expected


@register_tree_criterion
class MEstimationOfTrees(SpanCriterion):
    """q0 exp(w . f) over a PCFG q0."""

    name: ClassVar[str] = "m-estimation"
    summary: ClassVar[str] = "M-estimation over the pcfg: no parsing and no normaliser to train"
    default_iterations: ClassVar[int] = 100
    options: ClassVar[tuple[Option, ...]] = (
        *SPAN_OPTIONS,
        Option("samples", 20_000, "trees drawn from the pcfg for the expectations", least=1, kind=int),
        SMOOTHING,
    )

    @classmethod
    def fit(cls, training: TreeTraining) -> SpanModel:
        values: dict[str, Any] = training.values
        base = treebank_pcfg(training.binary)
        problem = SpanProblem.of(training.binary, span_attributes_of(values, training.span_features), base=base)
        counts = tree_counts(problem.model.features, problem.corpus.spans, problem.edges, problem.corpus.offsets)
        sampling = Sampling(values["samples"], values["smoothing"], training.seed)
        observed = np.asarray(counts.mean(axis=0)).ravel()
        expected = expected_counts(problem.model, base, sampling, observed, training.n_threads)
        objective = MEstimationObjective(counts, expected, values["l2"])
        most = values["iterations"] or cls.default_iterations
        found = LBFGS(max_iter=most).minimise(objective, problem.model.weights, callback=observer_of(training, "main"))
        training.message = f"{counts.shape[0]:,} trees, {sampling.samples:,} drawn; {found.message}"
        return problem.with_weights(found.weights)
