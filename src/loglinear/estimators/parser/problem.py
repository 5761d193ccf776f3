"""The criteria that a parser's grammar can be trained by, by name: each makes a tree model of a binary treebank.

To add one: a class with the attributes of :class:`TreeCriterion`, decorated with :func:`register_tree_criterion`.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy.sparse import csr_matrix

from loglinear.arrays import Float, Int64
from loglinear.criteria.criterion import CRITERIA, Criterion, make_criterion
from loglinear.data.trees.tree import Tree
from loglinear.errors import OptionError
from loglinear.estimators.parser.model import SpanModel, SpanProblem, TreeModel
from loglinear.features.encoding import Incidence
from loglinear.features.spans import Own, SpanAttributes
from loglinear.generative.base import SMOOTHING, Sampling
from loglinear.generative.m_estimation import MEstimationObjective
from loglinear.generative.pcfg.counts import treebank_pcfg
from loglinear.generative.pcfg.expectations import Expectations
from loglinear.generative.pcfg.model import PCFG, draw_trees
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.optimizer import OPTIMIZERS, make_optimizer
from loglinear.options import Option, options_of, spec_name, spec_options
from loglinear.structures.tree.best import best_chart
from loglinear.structures.tree.features import SpanFeatures
from loglinear.structures.tree.pieces import Edges, PieceObjective
from loglinear.structures.tree.structure import CFGTree
from loglinear.system import in_threads
from loglinear.training.run import Progress


@dataclass
class TreeTraining:
    """What a criterion is given, and what it says when it is done.

    Attributes
    ----------
    trees, binary : list of Tree
        The treebank, and the same trees with notes and in binary rules.
    values : dict
        The criterion's own options.
    n_threads, seed, observe, span_features
        Of the parser and its run.
    message : str
        How training went, for people.
    began : float
        When, on the clock of :func:`time.perf_counter`.
    stop : threading.Event
        Set when training is to end after this iteration, with what it has learnt so far.
    """

    trees: list[Tree]
    binary: list[Tree]
    values: dict[str, Any]
    n_threads: int
    seed: int
    observe: Callable[[Any], None] | None
    span_features: Own | None = None
    message: str = field(default="counted")
    began: float = field(default_factory=time.perf_counter)
    stop: threading.Event = field(default_factory=threading.Event)


class TreeCriterion(ABC):
    """How a model of trees is trained."""

    name: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[tuple[Option, ...]] = ()
    looks_at_words: ClassVar[bool] = False  # whether rules look at the words of their span

    @classmethod  # noqa: B027  # most have nothing to check
    def check(cls, parser: Any, values: dict[str, Any]) -> None:
        """Refuse options of the :class:`~loglinear.Parser` that do not go with the criterion."""

    @classmethod
    @abstractmethod
    def fit(cls, training: TreeTraining) -> TreeModel:
        """Train a model."""


C = TypeVar("C", bound=type[TreeCriterion])
_CRITERIA: dict[str, type[TreeCriterion]] = {}


def register_tree_criterion(criterion: C) -> C:
    """Class decorator: make a criterion known by its name."""
    _CRITERIA[criterion.name] = criterion
    return criterion


def tree_criteria() -> dict[str, type[TreeCriterion]]:
    """All criteria by name."""

    return dict(_CRITERIA)


def _why_not(name: str) -> str:
    """Why a name is none of a criterion for trees; the names of those there are come after it."""
    taggers = CRITERIA.all()
    if name not in taggers:
        return "is not one that trains parsers: "
    if "squared_distance" in taggers[name].needs:
        return "is for flat labels; parsers are trained by "
    missing = "cost_covariance" in taggers[name].needs
    because = ", because there is no covariance with the cost for trees yet" if missing else ""
    return f"is a criterion of taggers that trees do not have{because}; parsers are trained by "


def tree_criterion(spec: str) -> tuple[type[TreeCriterion], dict[str, Any]]:
    """The criterion that a spec as ``pcfg:smoothing=0.1`` names, and the values of all its options."""
    known = tree_criteria()
    name = spec_name(spec)
    if name not in known:
        raise OptionError(f"criterion={spec!r} {_why_not(name)}{', '.join(sorted(known))}")
    criterion = known[name]
    given = spec_options(spec, criterion.options, "criterion")
    return criterion, {option.name: given.get(option.name, option.default) for option in criterion.options}


# ----------------------------------------------------------------------------------------------------------------------
# ``criterion="pcfg"``: a probabilistic context-free grammar, counted (:mod:`loglinear.generative.pcfg.model`).


@register_tree_criterion
class PcfgCriterion(TreeCriterion):
    """Relative frequencies of rules, and of words with an answer for unknown ones."""

    name: ClassVar[str] = "pcfg"
    summary: ClassVar[str] = "log p(tree, words): relative frequencies of the rules"
    options: ClassVar[tuple[Option, ...]] = (
        Option("smoothing", 0.0, "added to the count of each rule that a phrase is seen with", least=0, kind=float),
        Option("backoff", 0.0, "how much a phrase leans on all of the same label without notes", least=0, kind=float),
    )

    @classmethod
    def fit(cls, training: TreeTraining) -> PCFG:
        """Count."""
        grammar = treebank_pcfg(training.binary, **training.values)
        training.message = f"counted; {len(grammar.unary):,} unary rules, {len(grammar.lexicon.terminals):,} words"
        return grammar


# ----------------------------------------------------------------------------------------------------------------------
# Criteria that train a grammar's rules over the words of their spans: edge by edge, or tree by tree.
#
# ``mecfg`` and ``nota`` look at single edges (:mod:`~loglinear.structures.tree.pieces`) and need no inference to train;
# only ``nota`` parses the training trees, once or a few times, to find edges that should not be there. The others are
# the criteria of chains, on trees (:mod:`~loglinear.structures.tree.features`).


SPAN_OPTIONS = (
    Option(
        "places",
        "first+last+before+after",
        "words that rules look at, joined by +: the first and the last of the span, those before and after it",
    ),
    Option("min_count", 2, "words seen less often are seen as their class", least=1, kind=int),
    Option("l2", 1.0, "L2 factor", least=0, kind=float),
    Option("iterations", None, "most iterations", least=1, kind=int),
)
BATCH_ITERATIONS, PASSES = 50, 10  # of trees as wholes, unless told otherwise
BASE = Option("base", True, "begin with the log-probabilities of the pcfg", choices=(False, True))


def span_attributes_of(values: dict[str, Any], own: Own | None = None) -> SpanAttributes:
    """The attributes of spans that a criterion's options ask for, and those of the user's function."""
    return SpanAttributes(tuple(str(values["places"]).split("+")), values["min_count"], own)


class SpanCriterion(TreeCriterion):
    """What all of them share."""

    options: ClassVar[tuple[Option, ...]] = SPAN_OPTIONS
    looks_at_words: ClassVar[bool] = True

    @classmethod
    def check(cls, parser: Any, values: dict[str, Any]) -> None:
        span_attributes_of(values)


def observer_of(training: TreeTraining, phase: str) -> Callable[[Any], bool]:
    """What an optimizer calls after each iteration; whether it is to stop."""

    def observe(state: Any) -> bool:
        if training.observe is not None:
            seconds = time.perf_counter() - training.began
            progress = Progress(state.iteration, state.evaluations, state.value, seconds, None, None, phase)
            training.observe(progress)
        return training.stop.is_set()

    return observe


@register_tree_criterion
class MaximumEntropyGrammar(SpanCriterion):
    """p(BC given A, span), log-linear and normalised for each edge of a chart (Sutton & McCallum 2005, section 5)."""

    name: ClassVar[str] = "mecfg"
    summary: ClassVar[str] = "log p of each expansion given its label and span: no parsing to train (MECFG)"
    default_iterations: ClassVar[int] = 100

    @classmethod
    def fit(cls, training: TreeTraining) -> SpanModel:
        values = training.values
        problem = SpanProblem.of(training.binary, span_attributes_of(values, training.span_features), normalised=True)
        objective = cls._objective(problem, problem.edges, False, training)
        most = values["iterations"] or cls.default_iterations
        found = LBFGS(max_iter=most).minimise(objective, problem.model.weights, callback=observer_of(training, "main"))
        training.message = f"{len(problem.edges):,} edges; {found.message}"
        return problem.with_weights(found.weights)

    @staticmethod
    def _objective(problem: SpanProblem, edges: Edges, nothing: bool, training: TreeTraining) -> PieceObjective:
        features, spans = problem.model.features.pieces, problem.corpus.spans
        return PieceObjective(features, spans, edges, nothing, training.values["l2"], training.n_threads)


@register_tree_criterion
class NoneOfTheAbove(MaximumEntropyGrammar):
    """The same with edges that should not be there, whose outcome is none of the above (PT-CFG)."""

    name: ClassVar[str] = "nota"
    summary: ClassVar[str] = "mecfg with wrong edges, for which none of the above is right (PT-CFG)"
    options: ClassVar[tuple[Option, ...]] = (
        *SPAN_OPTIONS,
        Option(
            "wrong",
            "near",
            "which wrong edges: near the best of their length by the model so far, any that may stand in a chart, or a "
            "sample of these",
            choices=("near", "all", "sample"),
        ),
        Option("delta", 5.0, "near: log-ratio to the best edge of the same length", above=0, kind=float),
        Option("after", 10, "near: iterations of mecfg before the training trees are parsed", least=1, kind=int),
        Option("rounds", 1, "near: how often they are parsed and wrong edges chosen anew", least=1, kind=int),
        Option("rate", 0.01, "sample: probability with which a wrong edge counts", above=0, most=1, kind=float),
        Option("decoding", "global", "by trees as a whole or by normalised edges", choices=("global", "local")),
    )
    only_with: ClassVar[dict[str, str]] = {"delta": "near", "after": "near", "rounds": "near", "rate": "sample"}

    @classmethod
    def check(cls, parser: Any, values: dict[str, Any]) -> None:
        super().check(parser, values)
        for option in cls.options:
            needed, value = cls.only_with.get(option.name, values["wrong"]), values[option.name]
            if needed != values["wrong"] and value != option.default:
                raise OptionError(f"{option.name}={value!r} goes with wrong={needed}, not wrong={values['wrong']}")

    @classmethod
    def fit(cls, training: TreeTraining) -> SpanModel:
        values = training.values
        problem = SpanProblem.of(training.binary, span_attributes_of(values, training.span_features), normalised=True)
        weights, most = problem.model.weights, values["iterations"] or cls.default_iterations
        near = values["wrong"] == "near"
        if near:
            objective = cls._objective(problem, problem.edges, False, training)
            first = LBFGS(max_iter=values["after"])
            started = first.minimise(objective, weights, callback=observer_of(training, "mecfg"))
            weights = started.weights
            if training.stop.is_set():
                training.message = f"no wrong edges yet; {started.message}"
                return problem.with_weights(weights)
        for turn in range(values["rounds"] if near else 1):
            edges = problem.edges.and_also(wrong_edges(problem, weights, training))
            objective = cls._objective(problem, edges, True, training)
            phase = "main" if turn == 0 else f"round {turn + 1}"
            found = LBFGS(max_iter=most).minimise(objective, weights, callback=observer_of(training, phase))
            weights = found.weights
            if training.stop.is_set():
                break
        n_wrong = len(edges) - len(problem.edges)
        training.message = f"{len(problem.edges):,} edges, {n_wrong:,} wrong ones; {found.message}"
        return replace(problem.with_weights(weights), normalised=values["decoding"] == "local")


def wrong_edges(problem: SpanProblem, weights: Float, training: TreeTraining) -> Edges:
    """Edges that a chart may have and the gold tree has not, chosen as the options say."""
    model, corpus, values = problem.with_weights(weights), problem.corpus, training.values
    outcomes = model.features.outcomes
    phrases = outcomes.has_choice & (np.arange(model.grammar.n_symbols) >= model.coder.n_tags)
    right = np.stack([problem.edges.spans, problem.edges.symbols.astype(np.int64)], axis=1)
    right = right[np.argsort(right[:, 0], kind="stable")]

    def choose(sentence: int) -> Int64:
        lo, hi = int(corpus.offsets[sentence]), int(corpus.offsets[sentence + 1])
        scores = model.features.local_scores(weights, corpus, sentence, sentence + 1)
        chart = best_chart(model.grammar, int(corpus.lengths[sentence]), scores)
        chart[:, ~phrases] = -np.inf
        if values["wrong"] == "near":
            ends = np.repeat(np.arange(1, corpus.lengths[sentence] + 1), np.arange(1, corpus.lengths[sentence] + 1))
            lengths = ends - (np.arange(hi - lo) - ends * (ends - 1) // 2)
            best = np.full(int(corpus.lengths[sentence]) + 1, -np.inf)
            np.maximum.at(best, lengths, chart.max(axis=1))
            chosen = chart >= best[lengths][:, None] - values["delta"]
        else:
            chosen = np.ones(chart.shape, dtype=bool)
        chosen &= chart > -np.inf
        first, end = np.searchsorted(right[:, 0], [lo, hi])
        chosen[right[first:end, 0] - lo, right[first:end, 1]] = False
        found = np.argwhere(chosen)
        if values["wrong"] == "sample":
            rng = np.random.default_rng([training.seed, sentence])
            found = found[rng.random(len(found)) < values["rate"]]
        found[:, 0] += lo
        return found.astype(np.int64)

    found = np.concatenate([right[:0], *in_threads(choose, range(corpus.n_sequences), training.n_threads)])
    weight = 1.0 / values["rate"] if values["wrong"] == "sample" else 1.0
    nothing = np.full(len(found), -1, dtype=np.int32)
    return Edges(found[:, 0], found[:, 1].astype(np.int32), nothing, np.full(len(found), weight))


class TreeByTree(SpanCriterion):
    """A criterion of chains, ``chain``, on whole trees."""

    chain: ClassVar[type[Criterion]]

    @classmethod
    def fit(cls, training: TreeTraining) -> SpanModel:
        values = training.values
        base = treebank_pcfg(training.binary) if values["base"] else None
        problem = SpanProblem.of(training.binary, span_attributes_of(values, training.span_features), base=base)
        own = ",".join(f"{option.name}={values[option.name]}" for option in _own_options(cls.chain))
        cost = problem.cost(values["cost"]) if cls.chain.uses_cost else None
        criterion = make_criterion(f"{cls.name}:{own}", cost)
        most = values["iterations"] or (BATCH_ITERATIONS if values["optimizer"] == "lbfgs" else PASSES)
        optimizer = make_optimizer(values["optimizer"], max_iter=most, tolerance=1e-5, seed=training.seed)
        objective = Objective(
            problem.model.features, problem.corpus, problem.gold, criterion, None,
            values.get("l2", 0.0), n_threads=training.n_threads,
        )  # fmt: skip
        found = optimizer.minimise(objective, problem.model.weights, callback=observer_of(training, "main"))
        training.message = f"{problem.corpus.n_sequences:,} trees; {found.message}"
        return problem.with_weights(found.weights)


def _own_options(chain: type[Criterion]) -> tuple[Option, ...]:
    """What a criterion of chains may be told beside what all criteria of spans have."""
    shared = {option.name for option in SPAN_OPTIONS}
    return tuple(each for name, each in options_of(chain).items() if name not in shared)


def _tree_by_tree(name: str, optimizer: str) -> None:
    """Make a criterion of chains one of trees, trained by ``optimizer`` unless told otherwise."""
    chain = CRITERIA[name]
    possible = tuple(each for each in chain.optimizers if each != "dual")
    penalised = any(OPTIMIZERS.part(each).takes_l2 for each in possible)
    options = [option for option in SPAN_OPTIONS if option.name != "l2" or penalised]
    options += [BASE, *_own_options(chain)]
    if chain.uses_cost:
        options.append(Option("cost", 1.0, "what a wrong bracket costs", above=0, kind=float))
    options.append(Option("optimizer", optimizer, "how to get to good weights", choices=possible))
    body = {"name": name, "summary": chain.summary, "chain": chain, "options": tuple(options)}
    body["__doc__"] = f"{chain.__doc__} Of trees."
    register_tree_criterion(type(f"{chain.__name__}OfTrees", (TreeByTree,), body))


for _name in ("cll", "softmax-margin", "jrb"):
    _tree_by_tree(_name, "lbfgs")
_tree_by_tree("max-margin", "adagrad")
for _name in ("perceptron", "mira"):
    _tree_by_tree(_name, "online")


# ----------------------------------------------------------------------------------------------------------------------
# M-estimation of trees over a PCFG: features of spans tilt the grammar, and training needs no inference at all.
#
#     p(tree, words)  proportional to  q0(tree, words) exp(w . f)
#     F(w) = (1/n) sum_i exp(-w . f_i) + w . E_q0[f] + l2 ||w||^2
#
# E_q0[f] is exact for the features of an outcome alone, a binary rule, a unary chain or a tag, which are contiguous
# fragments of a tree (:mod:`~loglinear.generative.pcfg.expectations`). Those that also look at words are counted in
# trees drawn from q0, and the training trees, as if a few of them had been drawn, keep what was never drawn from being
# 0.


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
