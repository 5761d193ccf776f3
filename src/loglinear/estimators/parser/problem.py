"""Criteria that train a parser's grammar, and the training itself.

    pcfg             counted: relative frequencies of rules
    pcfg-em          the same of sentences whose trees are not known, or only brackets of them: expected by EM
    mecfg, nota      edges of charts one by one: no parsing to train, but once or a few times for nota
    cll, mira, ...   the criteria of chains, on whole trees
    m-estimation     features of spans tilt a PCFG: no inference at all, but once a round where trees are hidden

A criterion called ``some-name`` is a class decorated with :func:`register`; what a spec may set (``nota:delta=3``) are
its :func:`~loglinear.options.option` fields.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from scipy.sparse import csr_matrix, diags

from loglinear.arrays import Array, Arrays, Bool, Float, Int32, Int64
from loglinear.criteria.brackets import Brackets
from loglinear.criteria.costs import hamming_factor
from loglinear.criteria.criterion import CRITERIA, Criterion, criteria_of, make_criterion
from loglinear.data.trees.annotation import TreeTransform
from loglinear.data.trees.cleaning import clean, without_marks
from loglinear.data.trees.transforms import base_label, is_intermediate
from loglinear.data.trees.tree import Tree, fold
from loglinear.errors import DataError, OptionError
from loglinear.estimators.conventions import clone
from loglinear.estimators.estimator import UNFINISHED, restore_notes
from loglinear.estimators.options import ELSEWHERE
from loglinear.estimators.parser import file as parser_file
from loglinear.estimators.parser.inputs import Bracket, Example, given_examples, gold_trees
from loglinear.estimators.parser.model import Parse, SpanModel, SpanProblem, TreeModel, best_parses
from loglinear.evaluation.brackets import bracket_scores
from loglinear.features.encoding import Incidence
from loglinear.features.spans import ANYTHING, SpanAttributes
from loglinear.generative.base import SMOOTHING, Sampling
from loglinear.generative.em import EM
from loglinear.generative.m_estimation import Expected, MEstimationObjective, soft_rounds
from loglinear.generative.pcfg.counts import TreebankCounts, counted_pcfg, treebank_pcfg
from loglinear.generative.pcfg.em import (
    ExpectedRules,
    InsideOutside,
    SentenceCounts,
    compatible_spans,
    perturbed,
    random_pcfg,
)
from loglinear.generative.pcfg.expectations import Boundaries, Expectations
from loglinear.generative.pcfg.model import PCFG, draw_trees
from loglinear.optimizers.dual.chain import dual_unsupported_reason
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.optimizer import Optimizer
from loglinear.options import (
    Option,
    Registry,
    Spec,
    declared,
    in_new_spelling,
    option,
    options,
    options_of,
    spec_name,
    warn_of_old_spelling,
)
from loglinear.structures.tree.best import best_chart
from loglinear.structures.tree.features import SpanFeatures, scaled, scaling_gradient
from loglinear.structures.tree.grammar import ANY_ROOT
from loglinear.structures.tree.pieces import Edges, PieceObjective
from loglinear.structures.tree.structure import CFGTree
from loglinear.system import in_threads, thread_count
from loglinear.training.plan import Trained, check_training, l2_factor, phases_of
from loglinear.training.problem import MAIN, Learnable, Phase, Stage, Storage
from loglinear.wording import how_many

TREE_CRITERIA: Registry[TreeCriterion] = Registry("criterion", {})
register = TREE_CRITERIA.register
A = TypeVar("A")
STREAM = 4  # of random numbers, different from those of chains
SCALING, SCALING_STEPS = "scaling", 20
OF_WEIGHTS = ("cost", "optimizer", "l1", "l2", "variance")  # options that only a training of weights has
OTHERWISE = (
    "m-estimation",  # trees have their own, over a PCFG
    "passive-aggressive",  # looks costs up by position, and those of trees are of parts
)  # criteria whose operations trees have, but that are not trained tree by tree
PARSERS = Trained(
    "parser", "phrase trees", CFGTree, registry=TREE_CRITERIA, limited={"dual": ("max-margin",)}, elsewhere=ELSEWHERE
)


class TreeCriterion(ABC):
    """How a model of trees is trained and stored.

    Class attributes are as those of :class:`~loglinear.criteria.criterion.Criterion`; ``most_iterations`` are those of
    L-BFGS, and ``most_passes`` those of other optimizers, unless told otherwise.

    Attributes
    ----------
    is_trained : str
        How, in messages.
    unused : tuple of str
        Options of the parser's training that it has no use for.
    takes_sentences : bool
        Whether it learns from sentences without a tree, too.
    takes_prior : bool
        Whether the training trees have a prior for the model's scores, so that a search may have a beam: the scores
        must be logarithms of probabilities, and of these trees.
    only_with : dict
        Options that make sense only if another one has a certain value: by name, that other one and the value.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    learns_weights: ClassVar[bool] = True
    is_trained: ClassVar[str] = "is trained"
    unused: ClassVar[tuple[str, ...]] = ()
    takes_sentences: ClassVar[bool] = False
    for_hidden: ClassVar[tuple[str, ...]] = ()
    takes_prior: ClassVar[bool] = True
    uses_cost: ClassVar[bool] = False
    starts_from: ClassVar[str | None] = None
    optimizers: ClassVar[tuple[str, ...]] = ("lbfgs",)
    most_iterations: ClassVar[int] = 100
    most_passes: ClassVar[int] = 10
    only_with: ClassVar[dict[str, tuple[str, Any]]] = {}

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> None:
        """Refuse options that do not go together; ``values`` are those given."""
        known = declared(cls)
        for name, (other, needed) in cls.only_with.items():
            chosen = values.get(other, known[other].default)
            if chosen != needed and values.get(name, known[name].default) != known[name].default:
                raise OptionError(f"{name}={values[name]!r} goes with {other}={needed}, not {other}={chosen}")


def check_parser(parser: Any) -> None:
    """Refuse training options of a :class:`~loglinear.Parser` that do not go together."""
    new = in_current_spelling(parser)
    check_training(new, PARSERS)
    criterion = TREE_CRITERIA.part(new.criterion)
    for name in criterion.unused:
        if getattr(new, name) != declared(type(parser))[name].default:
            raise OptionError(f"criterion={criterion.name!r} {criterion.is_trained}, and has no use for {name}")
    if criterion.uses_cost:
        hamming_factor(new.cost, "bracket")
    if parser.span_features is not None:
        if not callable(parser.span_features):
            raise OptionError(f"span_features={parser.span_features!r:.60} must be a function of the words, i and j")
        if not criterion.learns_weights:
            raise OptionError(f"span_features goes with criteria whose rules look at words, not {parser.criterion!r}")


def check_counted(parser: Any) -> None:
    """Refuse options with which a grammar is not made of counts of parts."""
    if TREE_CRITERIA.part(parser.criterion) not in (CountedPcfg, PcfgByEM):
        raise OptionError(
            f"summarize: criterion={parser.criterion!r} is not learnt from counts of parts of the data; pcfg and "
            "pcfg-em are"
        )


def in_current_spelling(parser: Any) -> Any:
    """The parser with old spellings in its criterion replaced by the current ones.

    ``cll:l2=1,iterations=50,optimizer=lbfgs`` is ``criterion="cll", l2=1, max_iter=50, optimizer="lbfgs"``.
    """
    name = spec_name(parser.criterion)
    if name not in TREE_CRITERIA:
        return parser  # the check of the criterion refuses it
    given = TREE_CRITERIA.spec(parser.criterion)
    spec, parameters = in_new_spelling(given)
    if spec.values == given.values:
        return parser
    new = clone(parser).set_params(criterion=str(spec))
    for parameter, value in parameters.items():
        if getattr(parser, parameter) not in (None, value):
            said = f"{parameter}={getattr(parser, parameter)!r}"
            raise OptionError(f"criterion={parser.criterion!r} and {said} say two things; write {said} alone")
        setattr(new, parameter, f"hamming:{value:g}" if parameter == "cost" else value)
    return new


def warn_of_old_names(parser: Any, new: Any) -> None:
    """Warn about old spellings in a parser's criterion; ``new`` is the parser :func:`in_current_spelling`."""
    if new is not parser:
        changed = {name: value for name, value in new.get_params().items() if value != getattr(parser, name)}
        written = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        warn_of_old_spelling(f"criterion={parser.criterion!r}", written)


# ----------------------------------------------------------------------------------------------------------------------
# ``criterion="pcfg"``: a probabilistic context-free grammar, counted (:mod:`loglinear.generative.pcfg.model`).


@register
@options
class CountedPcfg(TreeCriterion):
    """Relative frequencies of rules, and of words with an answer for unknown ones."""

    name = "pcfg"
    summary = "log p(tree, words): relative frequencies of the rules"
    learns_weights = False
    is_trained = "is counted"
    unused = (*OF_WEIGHTS, "max_iter", "tolerance")

    smoothing: float = option("added to the count of each rule that a phrase is seen with", default=0.0, least=0)
    backoff: float = option("how much a phrase leans on all of the same label without notes", default=0.0, least=0)

    def counted(self, counts: TreebankCounts) -> tuple[PCFG, str]:
        """The grammar, and a message about it."""
        grammar = counted_pcfg(counts, smoothing=self.smoothing, backoff=self.backoff, prior=True)
        words = how_many(len(grammar.lexicon.terminals), "word")
        return grammar, f"counted; {how_many(len(grammar.unary), 'unary rule')}, {words}"


# ----------------------------------------------------------------------------------------------------------------------
# ``criterion="pcfg-em"``: the same found by EM (:mod:`loglinear.generative.pcfg.em`), from sentences of which the trees
# are not known, or only some of their brackets (Pereira & Schabes 1992).


@register
@options
class PcfgByEM(TreeCriterion):
    """Expected frequencies of rules, given the words and the brackets that are known."""

    name = "pcfg-em"
    summary = "log p(words, brackets): a pcfg by EM (inside-outside), from brackets or raw sentences"
    learns_weights = False
    is_trained = "is found by EM"
    unused = OF_WEIGHTS
    takes_sentences = True
    takes_prior = False  # EM's symbols come to mean something else than those of the trees
    most_iterations = 50
    only_with = dict.fromkeys(("phrases", "tags", "min_count"), ("start", "random"))

    start: str = option(
        "the grammar that EM starts from: that of the training trees, or all binary rules over the given "
        "numbers of phrase labels and tags, with random probabilities",
        default="treebank",
        choices=("treebank", "random"),
    )
    phrases: int = option("random: how many phrase labels", default=8, least=1)
    tags: int = option("random: how many parts of speech", default=8, least=1)
    min_count: int = option("random: words seen less often are seen as one, as are unknown ones", default=1, least=1)
    brackets: bool = option("no constituent may cross a bracket of the training trees", default=True)
    restarts: int = option("further starts, at random or near the trees' grammar; the best is kept", default=0, least=0)
    smoothing: float = option("added to the expected count of each rule and word", default=0.0, least=0)

    def first(self, counts: SentenceCounts, transform: TreeTransform, seed: int, init: TreeModel | None) -> PCFG:
        """The grammar that EM over parts starts from."""
        binary = None if counts.trees is None else counts.trees.renamed(transform.renamed(counts.trees.nodes))
        return self._start(counts.words, None if binary is None else counted_pcfg(binary), seed, init)(0)

    def expected(self, examples: Sequence[Example], model: PCFG, n_threads: int) -> ExpectedRules:
        """The E step of a part."""
        return ExpectedRules.of(model, self._data(Treebank(list(examples), []), n_threads))

    def training(self, treebank: Treebank, parser: Any, init: TreeModel | None) -> GrammarTraining:
        """What EM is to learn from, and where it starts."""
        seen = Counter(word for example in treebank.examples for word in example.words)
        counted = (
            treebank_pcfg(treebank.binary) if treebank.binary and self.start == "treebank" and init is None else None
        )
        start = cache(self._start(seen, counted, parser.seed, init))
        n_threads = thread_count(parser.threads)
        data = self._data(treebank, n_threads)
        if self.start != "random" or init is not None:  # a grammar of all binary rules parses everything
            treebank, before = treebank.with_tree(data.has_tree(start(0))), treebank
            data = data if treebank is before else self._data(treebank, n_threads)
        return GrammarTraining(parser, treebank, self, data, start)

    def _data(self, treebank: Treebank, n_threads: int) -> InsideOutside:
        sentences = [example.words for example in treebank.examples]
        brackets = [self._known(example) for example in treebank.examples]
        return InsideOutside(sentences, brackets, smoothing=self.smoothing, n_threads=n_threads)

    def counts(self, training: GrammarTraining) -> str:
        """What was learnt from, for the message."""
        brackets = training.data.brackets or ()
        return f"{how_many(len(training.treebank.examples), 'sentence')}, {sum(map(bool, brackets)):,} with brackets"

    def _known(self, example: Example) -> list[Bracket]:
        """The brackets of a sentence that count."""
        if example.brackets is not None:
            return example.brackets
        return [(i, j) for _, i, j in example.tree.spans()] if example.tree is not None and self.brackets else []

    def _start(
        self, seen: Counter[str], counted: PCFG | None, seed: int, init: TreeModel | None
    ) -> Callable[[int], PCFG]:
        """From the number of a start to its grammar: of the words ``seen``, or near the trees' ``counted`` one."""
        if init is not None:
            if not isinstance(init, PCFG):
                raise OptionError("init: EM starts from the probabilities of a pcfg, not from weights")
            return lambda number: init
        if self.start == "random":
            words = [word if n >= self.min_count else ANYTHING for word, n in seen.items()]
            return lambda number: random_pcfg(self.phrases, self.tags, words, np.random.default_rng([seed, number]))
        if counted is None:
            raise DataError("there is no tree whose grammar EM could start from; give some, or start=random")
        return lambda number: perturbed(counted, np.random.default_rng([seed, number])) if number else counted


# ----------------------------------------------------------------------------------------------------------------------
# Criteria that train a grammar's rules over the words of their spans: edge by edge, or tree by tree.
#
# ``mecfg`` and ``nota`` look at single edges (:mod:`~loglinear.structures.tree.pieces`) and need no inference to train;
# only ``nota`` parses the training trees, once or a few times, to find wrong edges. The others are the criteria of
# chains, on trees (:mod:`~loglinear.structures.tree.features`).


@options
class SpanCriterion(TreeCriterion):
    """A criterion of rules that look at words."""

    places: str = option(
        "words that rules look at, joined by +: the first and the last of the span, those before and after it",
        default="first+last+before+after",
    )
    min_count: int = option("words seen less often are seen as their class", default=2, least=1)
    l2: float | None = option("L2 factor", default=None, least=0, instead="l2")
    iterations: int | None = option("most iterations", default=None, least=1, instead="max_iter")
    optimizer: str | None = option("how to get to good weights", default=None, instead="optimizer", example="lbfgs")
    scaling = False  # of the labels' edges to each other, afterwards

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> None:
        super().check(values)
        places = values.get("places", declared(cls)["places"].default)
        SpanAttributes(tuple(str(places).split("+")))

    def training(self, treebank: Treebank, parser: Any, init: TreeModel | None) -> TreeTraining:
        """The treebank in numbers, to be learnt as the options of a parser ask for."""
        problem = self._problem(treebank.binary, parser, self.problem_options(treebank.binary))
        return TreeTraining(parser, treebank, self, problem)

    def _problem(self, binary: list[Tree], parser: Any, made: dict[str, Any]) -> SpanProblem:
        """Binary trees in numbers; ``made`` are further keywords of :meth:`SpanProblem.of`."""
        attributes = SpanAttributes(tuple(self.places.split("+")), self.min_count, parser.span_features)
        return SpanProblem.of(binary, attributes, prior=self.takes_prior, **made)

    def problem_options(self, binary: list[Tree]) -> dict[str, Any]:
        """Keywords for :meth:`SpanProblem.of`."""
        return {"normalised": True}

    @abstractmethod
    def objective(self, training: TreeTraining, l2: float, n_threads: int) -> Any:
        """Losses and penalty as a function of the weights."""

    def phases(self, training: TreeTraining, optimizer: Optimizer, l2: float, n_threads: int) -> list[Phase] | None:
        """The phases, if there are several."""
        return None

    def finished(self, model: SpanModel) -> SpanModel:
        """The trained model, ready for use."""
        return model

    def counts(self, training: TreeTraining) -> str:
        """What was learnt from, for the message."""
        return how_many(training.problem.corpus.n_sequences, "tree")


@register
@options
class MaximumEntropyGrammar(SpanCriterion):
    """p(BC given A, span), log-linear and normalised for each edge of a chart (Sutton & McCallum 2005, section 5)."""

    name = "mecfg"
    summary = "log p of each expansion given its label and span: no parsing to train (MECFG)"

    base: bool = option("the log-probabilities of the pcfg are a feature, its weight learnt from 1", default=False)

    def problem_options(self, binary: list[Tree]) -> dict[str, Any]:
        base = {"base": treebank_pcfg(binary), "learn_base": True} if self.base else {}
        return {"normalised": True, **base}

    def objective(self, training: TreeTraining, l2: float, n_threads: int) -> Any:
        return _of_edges(training.problem, training.problem.edges, False, l2, n_threads)

    def counts(self, training: TreeTraining) -> str:
        return how_many(len(training.problem.edges), "edge")


def _of_edges(problem: SpanProblem, edges: Edges, nothing: bool, l2: float, n_threads: int) -> PieceObjective:
    return PieceObjective(problem.model.features.pieces, problem.corpus.spans, edges, nothing, l2, n_threads)


@register
@options
class NoneOfTheAbove(MaximumEntropyGrammar):
    """MECFG with wrong edges in addition, whose outcome is none of the above (PT-CFG)."""

    name = "nota"
    summary = "mecfg with wrong edges, for which none of the above is right (PT-CFG)"
    only_with = dict.fromkeys(("delta", "after", "rounds"), ("wrong", "near")) | {"rate": ("wrong", "sample")}

    wrong: str = option(
        "which wrong edges: near the best of their length by the model so far, any that may stand in a chart, or a "
        "sample of these",
        default="near",
        choices=("near", "all", "sample"),
    )
    delta: float = option("near: log-ratio to the best edge of the same length", default=5.0, above=0)
    after: int = option("near: iterations of mecfg before the training trees are parsed", default=10, least=1)
    rounds: int = option("near: how often they are parsed to choose wrong edges again", default=1, least=1)
    rate: float = option("sample: probability with which a wrong edge counts", default=0.01, above=0, most=1)
    parsed: float = option(
        "share of the training trees that are parsed to find wrong edges", default=1.0, above=0, most=1
    )
    local: bool = option("decode by normalised edges, not by trees as a whole", default=False)
    scaling: bool = option("scale the labels' edges to each other afterwards, by cll of whole trees", default=False)
    decoding: str | None = option("global or local", default=None, choices=("global", "local"), instead="local")

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> None:
        super().check(values)
        if values.get("scaling") and (values.get("local") or values.get("decoding") == "local"):
            raise OptionError("scaling calibrates edges for decoding by trees as a whole; leave it out, or local")

    def phases(self, training: TreeTraining, optimizer: Optimizer, l2: float, n_threads: int) -> list[Phase]:
        problem = training.problem

        def with_wrong_edges(turn: int, start: Float, kept: Arrays | None) -> tuple[Any, Arrays]:
            seed = training.parser.seed
            found = wrong_edges(problem, start, self, seed, n_threads, turn) if kept is None else _edges(kept)
            training.n_wrong = len(found)
            objective = _of_edges(problem, problem.edges.and_also(found), True, l2, n_threads)
            return objective, {"spans": found.spans, "symbols": found.symbols, "weights": found.weights}

        if self.wrong != "near":
            return [Phase(MAIN, optimizer, partial(with_wrong_edges, 0))]
        first = replace(optimizer, max_iter=self.after)  # type: ignore[type-var]  # optimizers are dataclasses
        names = [*(f"round {turn + 1}" for turn in range(self.rounds - 1)), MAIN]
        return [
            Phase("mecfg", first, lambda start, kept: (self.objective(training, l2, n_threads), {})),
            *(Phase(name, optimizer, partial(with_wrong_edges, turn)) for turn, name in enumerate(names)),
        ]

    def finished(self, model: SpanModel) -> SpanModel:
        return replace(model, normalised=self.local)

    def counts(self, training: TreeTraining) -> str:
        edges = how_many(len(training.problem.edges), "edge")
        return "no wrong edges yet" if training.n_wrong is None else f"{edges}, {training.n_wrong:,} wrong ones"


def _edges(kept: Arrays) -> Edges:
    """The wrong edges in a checkpoint."""
    spans, symbols, weights = (np.array(kept[name]) for name in ("spans", "symbols", "weights"))
    return Edges(spans, symbols, np.full(len(spans), -1, dtype=np.int32), weights)


def wrong_edges(
    problem: SpanProblem, weights: Float, chosen_by: NoneOfTheAbove, seed: int, n_threads: int, turn: int = 0
) -> Edges:
    """Edges that a chart may have and the gold tree does not, selected by the criterion's options.

    If only a share of the trees is parsed, another one in each ``turn``, their edges weigh as much as those of all.
    """
    model, corpus = problem.with_weights(weights), problem.corpus
    outcomes = model.features.outcomes
    phrases = outcomes.has_choice & (np.arange(model.grammar.n_symbols) >= model.coder.n_tags)
    right = np.stack([problem.edges.spans, problem.edges.symbols.astype(np.int64)], axis=1)
    right = right[np.argsort(right[:, 0], kind="stable")]

    def choose(sentence: int) -> Int64:
        lo, hi = int(corpus.offsets[sentence]), int(corpus.offsets[sentence + 1])
        scores = model.features.local_scores(weights, corpus, sentence, sentence + 1)
        chart = best_chart(model.grammar, int(corpus.lengths[sentence]), scores)
        chart[:, ~phrases] = -np.inf
        if chosen_by.wrong == "near":
            ends = np.repeat(np.arange(1, corpus.lengths[sentence] + 1), np.arange(1, corpus.lengths[sentence] + 1))
            lengths = ends - (np.arange(hi - lo) - ends * (ends - 1) // 2)
            best = np.full(int(corpus.lengths[sentence]) + 1, -np.inf)
            np.maximum.at(best, lengths, chart.max(axis=1))
            chosen = chart >= best[lengths][:, None] - chosen_by.delta
        else:
            chosen = np.ones(chart.shape, dtype=bool)
        chosen &= chart > -np.inf
        first, end = np.searchsorted(right[:, 0], [lo, hi])
        chosen[right[first:end, 0] - lo, right[first:end, 1]] = False
        found = np.argwhere(chosen)
        if chosen_by.wrong == "sample":
            rng = np.random.default_rng([seed, sentence])
            found = found[rng.random(len(found)) < chosen_by.rate]
        found[:, 0] += lo
        return found.astype(np.int64)

    parsed = np.arange(corpus.n_sequences)
    if chosen_by.parsed < 1.0:
        size = max(1, round(chosen_by.parsed * len(parsed)))
        parsed = np.sort(np.random.default_rng([seed, STREAM, turn]).permutation(len(parsed))[:size])
    found = np.concatenate([right[:0], *in_threads(choose, parsed.tolist(), n_threads)])
    weight = (1.0 / chosen_by.rate if chosen_by.wrong == "sample" else 1.0) * (corpus.n_sequences / len(parsed))
    nothing = np.full(len(found), -1, dtype=np.int32)
    return Edges(found[:, 0], found[:, 1].astype(np.int32), nothing, np.full(len(found), weight))


def scaling_objective(
    problem: SpanProblem, weights: Float, l2: float, n_threads: int
) -> Callable[[Float], tuple[float, Float]]:
    """-log p of whole trees + l2 ||alpha - 1||^2 as a function of the factors alpha [K] of each symbol's outcomes.

    There may be many symbols, most of them rare: without the penalty factors fit the training trees alone.
    """
    features, corpus, likelihood = problem.model.features, problem.corpus, make_criterion("cll")
    blocks = features.blocks(corpus.offsets, 0, corpus.n_sequences)

    def objective(alpha: Float) -> tuple[float, Float]:
        def evaluate(block: tuple[int, int]) -> tuple[float, Float]:
            tree, scores = features.structure(corpus, *block), features.scores(weights, corpus, *block)
            gold = problem.gold.slice(*corpus.offsets[list(block)].tolist())
            losses, parts = likelihood.evaluate(
                tree, scaled(features.outcomes, scores, alpha), gold, np.ones(tree.n_sequences)
            )
            return float(losses.sum()), scaling_gradient(features.outcomes, scores, parts)

        values, gradients = zip(*in_threads(evaluate, blocks, n_threads), strict=True)
        off = alpha - 1.0
        return sum(values) + l2 * float(off @ off), np.sum(gradients, axis=0) + 2.0 * l2 * off

    return objective


@options
class TreeByTree(SpanCriterion):
    """A criterion of chains, ``chain``, on whole trees."""

    chain: ClassVar[type[Criterion]]
    most_iterations: ClassVar[int] = 50

    base: bool = option("begin with the log-probabilities of the pcfg", default=True)
    learn_base: bool = option("learn the weight of the pcfg's log-probabilities, from 1", default=False)
    only_with: ClassVar[dict[str, tuple[str, Any]]] = {"learn_base": ("base", True)}

    def problem_options(self, binary: list[Tree]) -> dict[str, Any]:
        return {"base": treebank_pcfg(binary) if self.base else None, "learn_base": self.learn_base}

    def objective(self, training: TreeTraining, l2: float, n_threads: int) -> Any:
        problem = training.problem
        spec = Spec(self.chain, {name: getattr(self, name) for name in _own_options(self.chain)})
        cost = (problem.cost(hamming_factor(training.parser.cost, "bracket")),) if self.chain.uses_cost else ()
        criterion = spec.make(*cost).for_brackets(Brackets(*problem.brackets, problem.model.coder.n_tags))
        return Objective(problem.model.features, problem.corpus, problem.gold, criterion, None, l2, n_threads=n_threads)


def _own_options(chain: type[Criterion]) -> dict[str, Option]:
    """The options of a criterion of chains that matter for trees, and that criteria of spans do not have anyway."""
    without = (*declared(SpanCriterion), *chain.for_tokens)
    return {name: each for name, each in options_of(chain).items() if name not in without}


def _tree_by_tree(name: str) -> None:
    """Register a criterion of chains as one of trees."""
    chain = CRITERIA[name]
    facts = ("choices", "least", "above", "most", "kind", "may_be_none", "example")
    fields = dict[str, tuple[str, Any]]()
    for own, each in _own_options(chain).items():
        more = {fact: getattr(each, fact) for fact in facts}
        fields[own] = (each.annotation, option(each.help, default=each.default, **more))
    if chain.uses_cost:
        old = option("what a wrong bracket costs", default=None, above=0, instead="cost")
        fields["cost"] = ("float | None", old)
    kinks_first = () if chain.smooth else tuple(by for by in ("dual", "adagrad") if by in chain.optimizers)
    body: dict[str, Any] = {own: made for own, (_, made) in fields.items()}
    body |= {
        "__annotations__": {own: annotation for own, (annotation, _) in fields.items()},
        "__doc__": f"{chain.__doc__} Of trees.", "__module__": __name__,
        "name": name, "summary": chain.summary, "chain": chain, "uses_cost": chain.uses_cost,
        "starts_from": chain.starts_from,
        "takes_prior": "viterbi" not in chain.needs,  # what is learnt from best trees has a scale of its own
        "optimizers": tuple(dict.fromkeys([*kinks_first, *chain.optimizers])),
    }  # fmt: skip
    register(options(type(f"{chain.__name__}OfTrees", (TreeByTree,), body)))


for _name, _criterion in criteria_of(CFGTree).items():
    if _name not in OTHERWISE and _criterion.learns_weights:
        _tree_by_tree(_name)


# ----------------------------------------------------------------------------------------------------------------------
# M-estimation of trees over a PCFG: features of spans tilt the grammar, and training needs no inference at all.
#
#     p(tree, words)  proportional to  q0(tree, words) exp(w . f)
#     F(w) = (1/n) sum_i exp(-w . f_i) + w . E_q0[f] + l2 ||w||^2
#
# E_q0[f] is exact for the features of an outcome alone, a binary rule, a unary chain or a tag, which are contiguous
# fragments of a tree, and for those with the first or the last word of its span
# (:mod:`~loglinear.generative.pcfg.expectations`). Those that look beyond the span, and a user's own, are counted in
# trees drawn from q0; so that no expectation is 0, the training trees count as if a few of them had been drawn.


DRAWS_AT_ONCE = 1_000


def tree_counts(features: SpanFeatures, spans: Incidence, edges: Edges, offsets: Int64) -> csr_matrix:
    """Feature counts [S, D] of trees given by their edges; ``offsets`` [S + 1]: where each sentence's spans begin."""
    block, e = features.pieces.block, features.outcomes.n_outcomes
    sentence = np.searchsorted(offsets, edges.spans, side="right") - 1
    sizes = np.diff(spans.pointer)[edges.spans]
    rows = np.repeat(np.arange(len(edges)), sizes)
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    attributes = spans.ids[spans.pointer[edges.spans][rows] + within].astype(np.int64)
    known = np.repeat(np.arange(len(block.pointer) - 1), np.diff(block.pointer)) * e + block.codes
    wanted = attributes * e + edges.outcomes[rows]
    place = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
    weighted = np.flatnonzero(known[place] == wanted) if len(known) else np.zeros(0, dtype=np.int64)
    columns = np.concatenate([edges.outcomes.astype(np.int64), e + place[weighted]])
    sentences = np.concatenate([sentence, sentence[rows[weighted]]])
    shape = (len(offsets) - 1, features.n_features)
    counts = csr_matrix((np.ones(len(columns)), (sentences, columns)), shape=shape)
    counts.sum_duplicates()
    return counts


EXACT_PLACES = ("first", "last")


def expected_at_edges(model: SpanModel, exact: Expectations) -> tuple[Int64, Float]:
    """The features of outcomes with the first or the last word of their span [n], and their expectations [n]."""
    outcomes, block, attributes = model.features.outcomes, model.features.pieces.block, model.attributes
    of_feature = np.repeat(np.arange(len(block.pointer) - 1), np.diff(block.pointer))
    place, length, value = attributes.described(of_feature)
    boundaries = Boundaries(exact)
    terminals = [attributes.value_of(word) for word in exact.model.lexicon.terminals]
    words = boundaries.of_values(np.array(terminals, dtype=np.int64), len(attributes.values))
    kinds = {"rule": outcomes.of_rule, "step": outcomes.of_step, "tag": outcomes.of_tag}
    found, values = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for kind, own in kinds.items():
        number = np.full(outcomes.n_outcomes, -1, dtype=np.int64)
        number[own] = np.arange(len(own))
        for edge in (each for each in EXACT_PLACES if each in attributes.places):
            for words_long in range(3):
                here = (place == attributes.places.index(edge)) & (length == words_long) & (number[block.codes] >= 0)
                some = np.flatnonzero(here)
                which = number[block.codes[some]]
                values.append(boundaries.expected_with_value(kind, which, edge, words_long, words, value[some]))
                found.append(outcomes.n_outcomes + some)
    return np.concatenate(found), np.concatenate(values)


def expected_counts(model: SpanModel, base: PCFG, sampling: Sampling, observed: Float, n_threads: int) -> Float:
    """E_q0[f] [D]: exact for outcomes alone and with words at the edges of their span, else means of drawn trees.

    Means are smoothed by those of the training trees, and so are exact expectations of 0.
    """

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

    exact, outcomes = Expectations(base), model.features.outcomes
    drawn, (edges, at_edges) = np.zeros(model.features.n_features), expected_at_edges(model, exact)
    if has_drawn_features(model):
        numbers = range(-(-sampling.samples // DRAWS_AT_ONCE))
        drawn = np.sum(in_threads(batch, numbers, n_threads), axis=0) / sampling.samples
    drawn[edges] = 0.0
    expected = sampling.smoothed(drawn, observed)
    expected[edges] = np.where(at_edges > 0.0, at_edges, expected[edges])
    expected[outcomes.of_rule], expected[outcomes.of_step] = exact.binary, exact.steps
    expected[outcomes.of_tag] = exact.outside[: base.n_tags]
    if (scores := model.features.pieces.base) is not None:
        possible = np.isfinite(base.lexicon.log_p)
        words = exact.lexical[possible] @ base.lexicon.log_p[possible]
        expected[-1] = scores[outcomes.of_rule] @ exact.binary + scores[outcomes.of_step] @ exact.steps + words
    return expected


def base_scores(problem: SpanProblem) -> Float:
    """log q0 [S] of the training trees with their words."""
    features, corpus = problem.model.features, problem.corpus
    nothing, found = np.zeros(features.n_features), [np.zeros(0)]
    for first, end in features.blocks(corpus.offsets, 0, corpus.n_sequences):
        labels = problem.gold.labels[corpus.offsets[first] : corpus.offsets[end]]
        tree, scores = features.structure(corpus, first, end), features.scores(nothing, corpus, first, end)
        found.append(tree.score(scores, labels))
    return np.concatenate(found)


def with_last_column(counts: csr_matrix, values: Float) -> csr_matrix:
    """Counts [S, D] whose last column, of zeros so far, is ``values`` [S]."""
    n, d = counts.shape
    return csr_matrix(counts + csr_matrix((values, (np.arange(n), np.full(n, d - 1))), shape=(n, d)))


def has_drawn_features(model: SpanModel) -> bool:
    """Whether there are features whose expectations are not known exactly."""
    return bool(set(model.attributes.places) - set(EXACT_PLACES)) or model.attributes.own is not None


# ----------------------------------------------------------------------------------------------------------------------
# Hidden trees: sentences of which only some brackets are known, or nothing.
#
# The base is the PCFG of the trees that are known. Rounds of EM (:mod:`~loglinear.criteria.m_estimation`) learn from
# the best tree that crosses no bracket, or from counts expected under all such trees: of rules, chains and tags, and of
# these with attributes of their spans. Features are those of the known trees and of the base's best trees of the
# others, which also smooth the base's expectations, once for all rounds.


@dataclass(frozen=True)
class HiddenTrees:
    """What is known of the sentences without a tree.

    Parameters
    ----------
    numbers : list of int
        Which of the sentences these are.
    spans : list of bool [spans]
        For each of them the spans that may be constituents.
    """

    numbers: list[int]
    spans: list[Bool]

    def completed(self, problem: SpanProblem, weights: Float, n_threads: int) -> Int32:
        """The labelling [N, 3] of all sentences, with the best trees of those without one."""
        features, corpus, labels = problem.model.features, problem.corpus, problem.gold.labels.copy()

        def best(number: int, spans: Bool) -> Int32:
            tree = features.structure(corpus, number, number + 1)
            return tree.viterbi(tree.restrict(features.scores(weights, corpus, number, number + 1), spans))[0]

        for number, found in zip(self.numbers, self._each(best, n_threads), strict=True):
            labels[corpus.offsets[number] : corpus.offsets[number + 1]] = found
        return labels

    def expected(self, problem: SpanProblem, counts: csr_matrix, weights: Float, n_threads: int) -> Expected:
        """Expected feature counts [S, D]; ``counts`` are those of the trees, of which the known ones stay."""
        features, corpus, zeros = problem.model.features, problem.corpus, 0.0 * weights

        def expect(number: int, spans: Bool) -> tuple[Int64, Float, float, float]:
            run, total = (number, number + 1), np.zeros(features.n_features)
            tree = features.structure(corpus, *run)
            log_z, parts = tree.expectations(tree.restrict(features.scores(weights, corpus, *run), spans))
            features.add_gradient(corpus, *run, parts, total)
            plain = tree.log_partition(tree.restrict(features.scores(zeros, corpus, *run), spans))
            columns = np.flatnonzero(total)
            return columns, total[columns], float(log_z[0]), float(plain[0])

        known = np.ones(counts.shape[0])
        known[self.numbers] = 0.0
        columns, values, *log_z = zip(*self._each(expect, n_threads), strict=True)
        rows = np.repeat(self.numbers, [len(each) for each in columns])
        hidden = csr_matrix((np.concatenate(values), (rows, np.concatenate(columns))), shape=counts.shape)
        whole = csr_matrix(diags(known) @ counts + hidden)
        tilted, untilted = whole @ weights, np.zeros(len(known))
        tilted[self.numbers], untilted[self.numbers] = log_z
        return Expected.of(whole, weights, tilted, untilted)

    def _each(self, work: Callable[[int, Bool], A], n_threads: int) -> list[A]:
        """What ``work`` makes of each sentence."""
        pairs = list(zip(self.numbers, self.spans, strict=True))
        return in_threads(lambda pair: work(*pair), pairs, n_threads)


def completed_treebank(treebank: Treebank, base: PCFG, n_threads: int) -> tuple[Treebank, list[Tree], HiddenTrees]:
    """The treebank without sentences that the base cannot parse, its trees and the base's best ones, what is hidden."""
    examples = treebank.examples
    without = [number for number, example in enumerate(examples) if example.tree is None]
    brackets = [examples[number].brackets or [] for number in without]
    data = InsideOutside([examples[number].words for number in without], brackets, n_threads=n_threads)
    has_tree = np.ones(len(examples), dtype=bool)
    has_tree[without] = data.has_tree(base)
    treebank = treebank.with_tree(has_tree, "of the trees", "")
    known, binary = iter(treebank.binary), []
    hidden = HiddenTrees([], [])
    for number, example in enumerate(treebank.examples):
        if example.tree is not None:
            binary.append(next(known))
            continue
        spans = compatible_spans(len(example.words), example.brackets or [])
        tree = base.structure([example.words])
        labels, _ = tree.viterbi(tree.restrict(base.scores([example.words]), spans))
        binary.append(base.tree(example.words, labels))
        hidden.numbers.append(number)
        hidden.spans.append(spans)
    return treebank, binary, hidden


@register
@options
class MEstimationOfTrees(SpanCriterion):
    """q0 exp(w . f) over a PCFG q0."""

    name = "m-estimation"
    summary = "M-estimation over the pcfg: no parsing and no normaliser to train"
    takes_sentences = True
    for_hidden = ("rounds", "em")

    samples: int = option(
        "trees drawn from the pcfg for the expectations of words beside the span and of own features",
        default=20_000,
        least=1,
    )
    smoothing: float = option(SMOOTHING.help, default=SMOOTHING.default, least=0, most=SMOOTHING.most)
    learn_base: bool = option("learn the weight of the pcfg's log-probabilities, from 1", default=False)
    rounds: int = option("most rounds, where trees are hidden", default=5, least=1)
    em: str = option(
        "what a round learns from where trees are hidden: the best tree, or expected counts",
        default="hard",
        choices=("hard", "soft"),
    )

    def training(self, treebank: Treebank, parser: Any, init: TreeModel | None) -> TreeTraining:
        if all(example.tree is not None for example in treebank.examples):
            return super().training(treebank, parser, init)
        if not treebank.binary:
            raise DataError("there is no tree whose grammar could be the base of m-estimation; give some")
        base = treebank_pcfg(treebank.binary)
        treebank, binary, hidden = completed_treebank(treebank, base, thread_count(parser.threads))
        if not hidden.numbers:
            return super().training(treebank, parser, init)
        problem = self._problem(binary, parser, self.problem_options(treebank.binary))
        return TreeTraining(parser, treebank, self, problem, hidden=hidden)

    def problem_options(self, binary: list[Tree]) -> dict[str, Any]:
        return {"base": treebank_pcfg(binary), "learn_base": self.learn_base}

    def objective(self, training: TreeTraining, l2: float, n_threads: int) -> Any:
        counts = self._tree_counts(training.problem)
        return MEstimationObjective(counts, self._base_counts(training, counts, n_threads), l2)

    def phases(self, training: TreeTraining, optimizer: Optimizer, l2: float, n_threads: int) -> list[Phase] | None:
        problem, hidden = training.problem, training.hidden
        if hidden is None:
            return None
        first = self._tree_counts(problem)

        @cache
        def base_counts() -> Float:
            return self._base_counts(training, first, n_threads)

        def from_best_trees(start: Float, kept: Arrays | None) -> tuple[Any, Arrays]:
            labels = hidden.completed(problem, start, n_threads) if kept is None else np.array(kept["labels"])
            counts = self._tree_counts(problem.with_trees(labels))
            return MEstimationObjective(counts, base_counts(), l2), {"labels": labels}

        def of_expected(found: Expected) -> MEstimationObjective:
            return MEstimationObjective(found.counts, base_counts(), l2, log_factors=found.log_factors)

        soft = soft_rounds(lambda start: hidden.expected(problem, first, start, n_threads), of_expected)
        names = [*(f"round {turn + 1}" for turn in range(self.rounds - 1)), MAIN]
        return [Phase(name, optimizer, soft if self.em == "soft" else from_best_trees) for name in names]

    def _tree_counts(self, problem: SpanProblem) -> csr_matrix:
        """Feature counts [S, D] of the trees."""
        counts = tree_counts(problem.model.features, problem.corpus.spans, problem.edges, problem.corpus.offsets)
        return with_last_column(counts, base_scores(problem)) if self.learn_base else counts

    def _base_counts(self, training: TreeTraining, counts: csr_matrix, n_threads: int) -> Float:
        """E_q0[f] [D]."""
        base = treebank_pcfg(training.treebank.binary)
        sampling = Sampling(self.samples, self.smoothing, training.parser.seed)
        observed = np.asarray(counts.mean(axis=0)).ravel()
        return expected_counts(training.problem.model, base, sampling, observed, n_threads)

    def counts(self, training: TreeTraining) -> str:
        drawn = f"{self.samples:,} drawn" if has_drawn_features(training.problem.model) else "none drawn"
        n_hidden = 0 if training.hidden is None else len(training.hidden.numbers)
        trees = how_many(training.problem.corpus.n_sequences - n_hidden, "tree")
        return f"{trees}, {how_many(n_hidden, 'sentence') + ' without, ' if n_hidden else ''}{drawn}"


# ----------------------------------------------------------------------------------------------------------------------
# The training of a treebank: of weights, or of probabilities by EM.


class Treebank(NamedTuple):
    """What a parser is trained on: sentences, and the trees that they have, with notes and in binary rules."""

    examples: list[Example]
    binary: list[Tree]

    def with_tree(
        self,
        has_tree: Bool,
        which: str = "EM starts from",
        otherwise: str = ", or start from a random grammar (pcfg-em:start=random)",
    ) -> Treebank:
        """The treebank without sentences [S] that a grammar cannot parse; warns of these.

        ``which`` says in words what grammar that is, and ``otherwise`` what else one may do.
        """
        if has_tree.all():
            return self
        first = self.examples[int(np.argmin(has_tree))]
        shown = f"{first.place}: {' '.join(first.words)!r:.100}"
        remedy = "give more trees or a less detailed annotation (annotation='none', a smaller horizontal)" + otherwise
        if not has_tree.any():
            raise DataError(f"{shown}: the grammar {which} can parse neither this nor another sentence; {remedy}")
        count = int((~has_tree).sum())
        what = "a sentence" if count == 1 else how_many(count, "sentence")
        left_out = f"{what} that the grammar {which} cannot parse {'is' if count == 1 else 'are'} left out"
        warnings.warn(f"{left_out}{'' if count == 1 else ', the first'}: {shown}; {remedy}", stacklevel=4)
        kept = [example for example, can in zip(self.examples, has_tree.tolist(), strict=True) if can]
        return self._replace(examples=kept)

    def describe_in(self, parser: Any) -> None:
        """Set a parser's attributes about its training data."""
        trees = [example.tree for example in self.examples if example.tree is not None]
        parser.classes_ = sorted({node.label for tree in trees for node in tree.nodes()})
        parser.n_trees_, parser.n_words_ = len(self.examples), sum(len(example.words) for example in self.examples)


@dataclass
class ParserTraining(ABC):
    """The training of a parser, of weights or of probabilities.

    Parameters
    ----------
    parser : Parser
        Has the options.
    treebank : Treebank
    made : TreeCriterion
    """

    kind: ClassVar[str] = parser_file.KIND
    parser: Any
    treebank: Treebank
    made: Any

    @property
    def n_threads(self) -> int:
        """Threads to train with."""
        return thread_count(self.parser.threads)

    @abstractmethod
    def trained_model(self, weights: Sequence[Float]) -> TreeModel:
        """The model of the stages' weights."""

    def describe_in(self, parser: Any) -> None:
        """Set the parser's attributes about its training data."""
        self.treebank.describe_in(parser)

    def storage(self, weights: Sequence[Float], options: Any, notes: dict[str, Any]) -> Storage:
        shown = copy(options)
        self.describe_in(shown)
        restore_notes(shown, notes)
        shown.model_, shown.message_ = self.trained_model(weights), UNFINISHED
        header, arrays = shown._storage()
        return {**header, "training": {**header["training"], **notes}}, arrays


@dataclass
class TreeTraining(ParserTraining, Learnable):
    """Weights to be learnt from trees by a criterion.

    Parameters
    ----------
    made : SpanCriterion
    problem : SpanProblem
    n_wrong : int or None
        Wrong edges that were chosen, if any were.
    hidden : HiddenTrees or None
        Sentences without a tree, if there are any; the problem's trees are their first ones.
    """

    problem: SpanProblem
    n_wrong: int | None = field(default=None)
    hidden: HiddenTrees | None = field(default=None)

    def stages(self, options: Any, init: TreeModel | None) -> list[Stage]:
        start = self.problem.model.weights
        if init is not None:
            if not isinstance(init, SpanModel):
                raise OptionError("init: a pcfg has no weights to start from")
            start = self.problem.model.weights_from(init)
        phases = phases_of(self, options, self.n_threads, init is None)
        stages = [Stage(lambda done: (start, phases), score_start=init is not None)]
        if self.made.scaling:
            l2 = l2_factor(options.l2, options.variance)
            stages.append(Stage(lambda done: self._scaling(done[0], l2), counts=False))
        return stages

    def _scaling(self, weights: Float, l2: float) -> tuple[Float, list[Phase]]:
        """What to multiply the outcomes of each symbol by [K], so that the trees as a whole are most likely."""
        objective = scaling_objective(self.problem, weights, l2, self.n_threads)

        def prepare(start: Float, kept: Arrays | None) -> tuple[Any, Arrays]:
            if kept is not None:  # the edges were chosen before the checkpoint
                self.n_wrong = int(kept["n_wrong"][0])
            return objective, {"n_wrong": np.array([self.n_wrong])}

        return np.ones(self.problem.model.grammar.n_symbols), [Phase(SCALING, LBFGS(max_iter=SCALING_STEPS), prepare)]

    def trained_model(self, weights: Sequence[Float]) -> SpanModel:
        model = self.made.finished(self.problem.with_weights(weights[0]))
        return model if len(weights) == 1 else replace(model, scaling=weights[1])

    def arrays(self) -> list[Array | None]:
        spans = [] if self.hidden is None else self.hidden.spans
        trees = _as_array(map(str, self.treebank.binary))
        return [trees, self.problem.corpus.spans.ids, self.problem.gold.labels, *spans]

    def identity(self, options: Any) -> dict[str, Any]:
        return {"cost": options.cost}

    def dev_data(self, X: Any, y: Any) -> DevParses:
        return DevParses(gold_trees(self.parser, X), self.n_threads)

    # -- by a criterion ----------------------------------------------------------------------------------------------

    def criterion(self, spec: str, cost: Any = None) -> Any:
        """The criterion itself, or the one that its training starts from, on the same problem."""
        return TREE_CRITERIA.spec(spec).make() if spec == self.made.starts_from else self.made

    def objective(self, criterion: Any, l2: float, n_threads: int) -> Any:
        return criterion.objective(self, l2, n_threads)

    def default_optimizer(self, criterion: Any, l2: float, from_zero: bool) -> str:
        able = PARSERS.optimizers(type(criterion))
        if able[0] == "dual" and dual_unsupported_reason(criterion, self.problem.model.features, self.problem.gold, l2):
            return able[1]
        return able[0]

    def default_iterations(self, optimizer: type[Optimizer]) -> int | None:
        if optimizer.name == "dual":
            return None
        return self.made.most_iterations if optimizer.name == "lbfgs" else self.made.most_passes

    def own_phases(self, criterion: Any, optimizer: Optimizer, l2: float, n_threads: int) -> list[Phase] | None:
        return self.made.phases(self, optimizer, l2, n_threads)


@dataclass
class GrammarTraining(ParserTraining):
    """Probabilities of a grammar to be found by EM; the weights of its one stage are the grammar's parameters.

    Parameters
    ----------
    made : PcfgByEM
    data : InsideOutside
    start : callable
        From the number of a start (from 0) to its grammar.
    """

    data: InsideOutside
    start: Callable[[int], PCFG]

    def stages(self, options: Any, init: PCFG | None) -> list[Stage]:
        n_starts = 1 + self.made.restarts if init is None else 1
        most = self.made.most_iterations if options.max_iter is None else options.max_iter
        phase = Phase(MAIN, EM(self.start, n_starts, most, options.tolerance), lambda weights, kept: (self.data, {}))
        meaningful = init is not None or self.made.start == "treebank"
        return [Stage(lambda done: (self.start(0).parameters, [phase]), score_start=meaningful)]

    def trained_model(self, weights: Sequence[Float]) -> PCFG:
        return self.start(0).with_parameters(weights[0])

    def describe_in(self, parser: Any) -> None:
        super().describe_in(parser)
        parser.classes_ = labels_of(self.start(0))

    def arrays(self) -> list[Array | None]:
        first = self.start(0)
        sentences = [" ".join(example.words) for example in self.treebank.examples]
        return [_as_array(sentences), _as_array(first.symbols), first.binary_rules, first.unary_rules]

    def identity(self, options: Any) -> dict[str, Any]:
        return {"brackets": self.data.brackets}

    def dev_data(self, X: Any, y: Any) -> DevParses | DevSentences:
        examples = given_examples(self.parser, X, y)
        trees = [without_marks(example.tree, self.parser.marks) for example in examples if example.tree is not None]
        if len(trees) == len(examples):
            return DevParses(trees, self.n_threads, labelled(self.parser))
        return DevSentences([example.words for example in examples], self.n_threads)


def labels_of(grammar: PCFG) -> list[str]:
    """The labels of a grammar's trees, as users see them."""
    symbols = (symbol for symbol in grammar.symbols if symbol != ANY_ROOT and not is_intermediate(symbol))
    return sorted(set(map(base_label, symbols)))


def _as_array(texts: Iterable[str]) -> Array:
    """Texts as bytes."""
    return np.frombuffer("\n".join(texts).encode(), dtype=np.uint8)


# -- dev data ----------------------------------------------------------------------------------------------------------


def labelled(parser: Any) -> bool:
    """Whether a parser's labels are those of its training trees, and not names of symbols that EM found."""
    return TREE_CRITERIA.spec(parser.criterion)["start"] != "random"


@dataclass(frozen=True)
class DevParses:
    """Trees to stop early by; without ``labelled`` only their brackets count."""

    gold: list[Tree]
    n_threads: int
    labelled: bool = True

    def score(self, model: TreeModel) -> float:
        """F1 of brackets, from 0 to 1."""
        parses = best_parses(model, [tree.leaves() for tree in self.gold], self.n_threads)
        return f1_of(self.gold, parses, self.labelled)

    @property
    def arrays(self) -> list[Array | None]:
        return [_as_array(map(str, self.gold))]


def f1_of(gold: Sequence[Tree], parses: Sequence[Parse], labelled: bool = True) -> float:
    """F1 of the brackets of parses, from 0 to 1; without ``labelled`` of brackets whose labels are not compared."""
    trees = [parse.tree for parse in parses]
    if not labelled:
        gold, trees = [list(map(without_labels, some)) for some in (gold, trees)]
    return bracket_scores(gold, trees, failed=[bool(parse.failure) for parse in parses]).f1 / 100


def without_labels(tree: Tree) -> Tree:
    """The tree with one label for all phrases, and one phrase for all that are over the same words."""
    same = fold(tree, lambda node, children: node if node.word is not None else Tree("X", children))
    return clean(same) or same


@dataclass(frozen=True)
class DevSentences:
    """Raw sentences for EM to stop early by."""

    sentences: list[list[str]]
    n_threads: int

    def score(self, model: PCFG) -> float:
        """The geometric mean of the words' probabilities, from 0 to 1: one over the perplexity."""
        total = model.log_probability(self.sentences, self.n_threads).sum()
        return float(np.exp(total / sum(map(len, self.sentences))))

    @property
    def arrays(self) -> list[Array | None]:
        return [_as_array(map(" ".join, self.sentences))]
