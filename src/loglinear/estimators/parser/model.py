"""Grammars whose rules look at the words of their span: the trained model, its training data, and parsing.

Expansions are those of :mod:`~loglinear.structures.tree.grammar`. All of these models score the tags of words by the
lexicon of a generative grammar, p(word given tag).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from loglinear.arrays import Float, Int32, UInt8
from loglinear.criteria.costs import BracketCost
from loglinear.data.trees.cleaning import rooted
from loglinear.data.trees.transforms import base_label, is_intermediate, restore
from loglinear.data.trees.tree import ROOT, Tree, fallback_tree, tree_word
from loglinear.features.spans import SpanAttributes
from loglinear.generative.pcfg.lexicon import Lexicon, LexiconSmoothing, TaggedWord, rare_words, smoothed_lexicon
from loglinear.generative.pcfg.model import PCFG
from loglinear.structures.gold import Gold
from loglinear.structures.tree.best import BracketLabels, bracketing
from loglinear.structures.tree.features import EncodedTrees, SpanFeatures, scaled, word_spans
from loglinear.structures.tree.grammar import ANY_ROOT, CFGGrammar, Outcomes, TreeCoder, span_number
from loglinear.structures.tree.pieces import Edges, PieceFeatures
from loglinear.structures.tree.prior import ContextPrior
from loglinear.structures.tree.structure import CFGScores, CFGTree
from loglinear.system import in_threads

Sentences = Sequence[Sequence[str]]
RARER = 2.0  # a gold tag that the lexicon lacks scores this much (log) below the word's worst tag


@dataclass(frozen=True)
class SpanModel:
    """A grammar with weights of outcomes at spans.

    Parameters
    ----------
    coder : TreeCoder
        Grammar and names.
    lexicon : Lexicon
    attributes : SpanAttributes
    features : SpanFeatures
    weights : float64 [D]
    normalised : bool
        Whether the outcomes of each edge are normalised by themselves, as in an MECFG.
    prior : ContextPrior, optional
        For a search with a beam; without it, searches are exact.
    scaling : float64 [K], optional
        Factors of the scores of each symbol's outcomes.
    """

    coder: TreeCoder
    lexicon: Lexicon
    attributes: SpanAttributes
    features: SpanFeatures
    weights: Float
    normalised: bool
    prior: ContextPrior | None = None
    scaling: Float | None = None

    @property
    def grammar(self) -> CFGGrammar:
        """The symbols and rules."""
        return self.coder.grammar

    def encode(self, sentences: Sentences) -> EncodedTrees:
        """Sentences in numbers."""
        terminals = np.concatenate([np.zeros(0, np.int32), *(self.lexicon.terminal_of(words) for words in sentences)])
        lengths = np.array([len(words) for words in sentences], dtype=np.int64)
        spans = self.attributes.transform(sentences)
        return EncodedTrees(lengths, spans, lambda first, end: self.lexicon.scores(terminals[first:end]))

    def scores(self, sentences: Sentences) -> CFGScores:
        """The part scores of sentences."""
        corpus = self.encode(sentences)
        make = self.features.local_scores if self.normalised else self.features.scores
        scores = make(self.weights, corpus, 0, len(sentences))
        return scores if self.scaling is None else scaled(self.features.outcomes, scores, self.scaling)

    def sum_scores(self, sentences: Sentences) -> CFGScores:
        """The part scores for sums over trees, which are the same."""
        return self.scores(sentences)

    def tree(self, words: Sequence[str], labels: Int32) -> Tree:
        """The binary tree that a labelling [N, 3] of the spans of one sentence means."""
        return self.coder.tree(words, labels)

    def outcome_names(self) -> list[tuple[str, ...]]:
        """The names of the E outcomes: the symbols of a rule, of a unary chain, or a tag."""
        names: list[tuple[str, ...]] = [()] * self.features.outcomes.n_outcomes
        outcomes, symbols = self.features.outcomes, self.coder.symbols
        for numbers, kind, parts in (
            (outcomes.of_rule, "rule", self.grammar.binary.tolist()),
            (outcomes.of_step, "chain", self.coder.chains),
            (outcomes.of_tag, "tag", [[tag] for tag in range(self.coder.n_tags)]),
        ):
            for number, own in zip(numbers.tolist(), parts, strict=True):
                names[number] = (kind, *(symbols[a] for a in own))
        return names

    def weights_from(self, other: SpanModel) -> Float:
        """A start for this model's weights [D]: those of ``other`` for outcomes and attributes that both have."""
        number = {name: e for e, name in enumerate(self.outcome_names())}
        outcome = np.array([number.get(name, -1) for name in other.outcome_names()], dtype=np.int64)
        start, n, m = np.zeros(self.features.n_features), len(number), len(outcome)
        start[outcome[outcome >= 0]] = other.weights[:m][outcome >= 0]
        mine, theirs = self.features.pieces.block, other.features.pieces.block
        attribute = self.attributes.matching(other.attributes)
        of = np.repeat(np.arange(len(theirs.pointer) - 1), np.diff(theirs.pointer))
        wanted = np.where(
            (attribute[of] < 0) | (outcome[theirs.codes] < 0), -1, attribute[of] * n + outcome[theirs.codes]
        )
        known = np.repeat(np.arange(len(mine.pointer) - 1), np.diff(mine.pointer)) * n + mine.codes
        place = np.minimum(np.searchsorted(known, wanted), max(len(known) - 1, 0))
        shared = known[place] == wanted if len(known) else np.zeros(len(wanted), dtype=bool)
        start[n + place[shared]] = other.weights[m : m + len(theirs.codes)][shared]
        if self.features.pieces.base is not None and other.features.pieces.base is not None:
            start[-1] = other.weights[-1]
        return start

    def best_tags(self, words: Sequence[str]) -> list[str]:
        """For each word the tag that makes it most likely, without notes."""
        best = np.argmax(self.lexicon.scores(self.lexicon.terminal_of(words)), axis=1)
        return [base_label(self.coder.symbols[tag]) for tag in best.tolist()]


@dataclass(frozen=True)
class SpanProblem:
    """A treebank in numbers, and the model whose weights are sought.

    Parameters
    ----------
    model : SpanModel
        With weights of zero.
    corpus : EncodedTrees
    gold : Gold
        The trees as labellings.
    edges : Edges
        The edges of the trees, those of words among them.
    """

    model: SpanModel
    corpus: EncodedTrees
    gold: Gold
    edges: Edges

    @classmethod
    def of(
        cls,
        binary: Sequence[Tree],
        attributes: SpanAttributes,
        *,
        base: PCFG | None = None,
        normalised: bool = False,
        prior: bool = True,
        learn_base: bool = False,
    ) -> SpanProblem:
        """The problem of binary trees, with or without a prior from them.

        With a ``base``: its grammar, lexicon and log-probabilities, so that the model with zero weights is the base;
        with ``learn_base`` its log-probabilities have a weight, which is that of words too unless edges are
        ``normalised``. Without: the grammar of the trees' rules and unary chains, all with score zero, and a lexicon of
        the same kind.
        """
        coder = TreeCoder.of_trees(binary) if base is None else base.coder
        labels = np.concatenate([labels for tree in binary if (labels := coder.labels(tree)) is not None])
        sentences = [tree.leaves() for tree in binary]
        lengths = np.array([len(words) for words in sentences], dtype=np.int64)
        spans, outcomes = attributes.fit(sentences), Outcomes(coder.grammar)
        tags = labels[word_spans(lengths), 0]
        lexicon = _lexicon(coder, sentences, tags) if base is None else base.lexicon
        edges = outcomes.edges(labels, CFGTree(coder.grammar, lengths).is_word)
        learnt = edges if not normalised else edges.where(edges.symbols >= coder.n_tags)
        offsets = np.zeros(outcomes.n_outcomes)
        if base is not None:
            offsets[outcomes.of_rule], offsets[outcomes.of_step] = base.log_rules
        pieces = PieceFeatures.observed(outcomes.first, spans, attributes.n_attributes, learnt, offsets)
        if learn_base:
            possible = np.isfinite(offsets)
            pieces = replace(pieces, offsets=np.where(possible, 0.0, -np.inf), base=np.where(possible, offsets, 0.0))
        features = SpanFeatures(outcomes, pieces, base_of_words=learn_base and not normalised)
        contexts = ContextPrior.of_labels(coder.grammar, lengths, labels) if prior else None
        model = SpanModel(coder, lexicon, attributes, features, np.zeros(features.n_features), normalised, contexts)
        terminals = np.concatenate([lexicon.terminal_of(sentence) for sentence in sentences])

        def lexical(first: int, end: int) -> Float:
            return _with_gold(lexicon.scores(terminals[first:end]), tags[first:end])

        return cls(model, EncodedTrees(lengths, spans, lexical), Gold(labels), learnt)

    def with_weights(self, weights: Float) -> SpanModel:
        """The model with weights [D]."""
        return replace(self.model, weights=weights)

    def with_trees(self, labels: Int32) -> SpanProblem:
        """The problem with other trees of the same sentences, as labellings [N, 3]; their words' tags are not new."""
        structure = CFGTree(self.model.grammar, self.corpus.lengths)
        edges = self.model.features.outcomes.edges(labels, structure.is_word)
        return replace(self, gold=Gold(labels), edges=edges)

    @cached_property
    def brackets(self) -> tuple[list[int], list[list[int]]]:
        """The label of each rule's bracket (-1: none) and the labels of each step's, as numbers."""
        coder = self.model.coder
        bases = [base_label(symbol) for symbol in coder.symbols]
        number = {base: k for k, base in enumerate(dict.fromkeys(bases))}
        root = coder.grammar.root

        def label(symbol: int) -> int:
            silent = symbol == root or is_intermediate(coder.symbols[symbol]) or coder.symbols[symbol] == ANY_ROOT
            return -1 if silent else number[bases[symbol]]

        steps = [[label(a) for a in chain[:-1] if label(a) >= 0] for chain in coder.chains]
        return [label(parent) for parent in coder.grammar.binary[:, 0].tolist()], steps

    def cost(self, multiplier: float) -> BracketCost:
        """The cost of brackets that the gold trees do not have."""
        return BracketCost(*self.brackets, self.model.coder.n_tags, multiplier)


def _lexicon(coder: TreeCoder, sentences: Sentences, tags: Int32) -> Lexicon:
    """p(word given tag) of sentences whose words have the ``tags`` [words]."""
    words = [(word, place == 0) for sentence in sentences for place, word in enumerate(sentence)]
    tagged: list[TaggedWord] = [(tag, *word) for tag, word in zip(tags.tolist(), words, strict=True)]
    counts, constants = Counter(tagged), LexiconSmoothing()
    rare = rare_words(tagged, counts, constants.rare)
    return smoothed_lexicon(counts, rare, coder.symbols[: coder.n_tags], base_label, constants)


def _with_gold(scores: Float, tags: Int32) -> Float:
    """Lexical scores [n, P] in which the gold tags [n] are possible."""
    rows = np.arange(len(tags))
    missing = np.flatnonzero(np.isneginf(scores[rows, tags]))
    if len(missing):
        finite = np.where(np.isneginf(scores[missing]), np.inf, scores[missing])
        least = finite.min(axis=1)
        scores[missing, tags[missing]] = np.where(least < np.inf, least, 0.0) - RARER
    return scores


# ----------------------------------------------------------------------------------------------------------------------
# Parsing: the best trees of many sentences, on several threads, each within a time limit, and always with an answer.
#
# Sentences are parsed one at a time, the longest first. A watch sets a flag when a sentence's time is up; the kernel
# checks the flag before each span and gives up.
#
# With a beam the search is not exact. Where it finds no tree, it is repeated with a wider beam, then exactly, so that
# each sentence with a tree gets one.


MOST_WORDS = 1000  # of a sentence that is parsed: charts grow with the square
WIDER = 1.5  # times as wide is the beam of the second search
SUMS = 6.0  # sums may take this many times as long as the search for the best tree


class TreeModel(Protocol):
    """A trained model of trees, as parsing sees it: a grammar, and scores of its rules over the words of sentences."""

    @property
    def grammar(self) -> CFGGrammar:
        """The symbols and rules."""

    @property
    def coder(self) -> TreeCoder:
        """The names of the symbols, and the chains of the steps."""

    @property
    def prior(self) -> ContextPrior | None:
        """What a beam adds to values; without it, searches are exact."""

    def scores(self, sentences: Sequence[Sequence[str]]) -> CFGScores:
        """The part scores of sentences, for their best trees."""

    def sum_scores(self, sentences: Sequence[Sequence[str]]) -> CFGScores:
        """The part scores of sentences, for sums over trees."""

    def tree(self, words: Sequence[str], labels: Int32) -> Tree:
        """The binary tree that a labelling [N, 3] of the spans of one sentence means."""

    def best_tags(self, words: Sequence[str]) -> list[str]:
        """The most probable part of speech of each word by itself, without notes."""


class Parse(NamedTuple):
    """A tree for a sentence.

    Attributes
    ----------
    tree : Tree
        The best tree, or a fallback tree.
    score : float
        Its score; -inf without a parse.
    failure : str
        Why there is no parse; empty if there is one.
    beam : float
        The beam that it was found with; inf if the search was exact.
    """

    tree: Tree
    score: float
    failure: str
    beam: float = np.inf


def best_parses(
    model: TreeModel,
    sentences: Sequence[Sequence[str]],
    n_threads: int = 1,
    time_limit: float | None = None,
    observe: Callable[[], Any] | None = None,
    posterior: bool = False,
    beam: float = np.inf,
) -> list[Parse]:
    """The best tree of each sentence (of at least one word); ``observe`` is called after each.

    With ``posterior`` the trees have the brackets most likely to be right, and the scores of the most probable trees;
    searches are then exact. So are those of models without a prior.
    """
    decoder = PosteriorDecoder(model.coder) if posterior else None
    width = np.inf if posterior or model.prior is None else beam

    def parse(number: int) -> Parse:
        found = _parse(model, [tree_word(word) for word in sentences[number]], watch, decoder, width)
        if observe is not None:
            observe()
        return found

    longest_first = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
    with Watch(time_limit) as watch:
        parses = dict(zip(longest_first, in_threads(parse, longest_first, n_threads), strict=True))
    return [parses[number] for number in range(len(sentences))]


class Watch:
    """Sets the flags of sentences whose time is up: one thread for all of them, none without a time limit."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._running: dict[int, tuple[float, UInt8]] = {}  # by thread: when its sentence's time is up, and the flag
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        if self.seconds is not None:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closed.set()
        if self.seconds is not None:
            self._thread.join()

    @contextmanager
    def flag(self) -> Iterator[UInt8]:
        """A flag uint8[1] for the sentence of this thread, 0 until its time is up."""
        stop, thread = np.zeros(1, dtype=np.uint8), threading.get_ident()
        if self.seconds is not None:
            self._running[thread] = time.perf_counter() + self.seconds, stop
        try:
            yield stop
        finally:
            self._running.pop(thread, None)

    def _look(self) -> None:
        """Sleep until the first sentence's time is up; one that begins meanwhile has more time than that."""
        assert self.seconds is not None
        wait = self.seconds
        while not self._closed.wait(min(max(wait, 1e-3), 1e6)):  # threads cannot wait for ever
            now = time.perf_counter()
            wait = self.seconds
            for end, stop in list(self._running.values()):
                if end <= now:
                    stop.fill(1)
                else:
                    wait = min(wait, end - now)


def _parse(model: TreeModel, words: list[str], watch: Watch, decoder: PosteriorDecoder | None, beam: float) -> Parse:
    if len(words) > MOST_WORDS:
        return _failed(model, words, f"no parse of more than {MOST_WORDS:,} words")
    begin, time_limit = time.perf_counter(), watch.seconds
    with watch.flag() as stop:
        scores = model.scores([words])
        labels, best, beam_used = _best(model, scores, beam, stop)
        if best == -np.inf and not stop[0]:  # perhaps a word lacks the tag it needs
            labels, best, beam_used = _best(model, scores.with_any_tag(), beam, stop)
    if best == -np.inf:
        return _failed(model, words, f"no parse within {time_limit:g} seconds" if stop[0] else "no parse")
    likeliest = None
    if decoder is not None and (time_limit is None or SUMS * (time.perf_counter() - begin) < time_limit):
        likeliest = decoder.tree(words, model.sum_scores([words]))
    tree = rooted(restore(model.tree(words, labels))) if likeliest is None else likeliest
    return Parse(tree, best, "", beam_used)


def _best(model: TreeModel, scores: CFGScores, beam: float, stop: UInt8) -> tuple[Int32, float, float]:
    """The best tree of one sentence that the beam lets through, else a wider one, else any; its score; the beam."""
    tree = CFGTree(model.grammar, [len(scores.lexical)])
    for width in dict.fromkeys((beam, WIDER * beam, np.inf)):
        labels, best = tree.best(scores, beam=width, prior=model.prior, stop=stop)
        if best[0] > -np.inf or stop[0]:
            break
    return labels, float(best[0]), width


def _failed(model: TreeModel, words: list[str], failure: str) -> Parse:
    return Parse(fallback_tree(words, model.best_tags(words)), -np.inf, failure)


# ----------------------------------------------------------------------------------------------------------------------
# ``decoding="posterior"``: trees of the likeliest brackets (:mod:`loglinear.structures.tree.best`).


PRICE = 0.42  #: of a bracket: half of the F1 that can be expected


class PosteriorDecoder:
    """Makes trees of expected brackets, for the grammar of a coder."""

    def __init__(self, coder: TreeCoder) -> None:
        self._coder = coder
        n_tags, symbols = coder.n_tags, coder.symbols
        bases = {base_label(name) for name in symbols[n_tags:] if not is_intermediate(name)}
        self._labels = sorted(bases - {ANY_ROOT, ROOT})
        number = {label: place for place, label in enumerate(self._labels)}
        self._label_of = np.array(
            [
                -1 if a < n_tags or is_intermediate(name) else number.get(base_label(name), -1)
                for a, name in enumerate(symbols)
            ],
            dtype=np.int32,
        )
        self._tags = sorted({base_label(name) for name in symbols[:n_tags]})
        self._tag_of = np.array([self._tags.index(base_label(name)) for name in symbols[:n_tags]], dtype=np.int64)

    @cached_property
    def brackets(self) -> BracketLabels:
        """The labels of the grammar's symbols and steps."""
        above = [[int(self._label_of[a]) for a in chain[:-1]] for chain in self._coder.chains]
        kept = [[label for label in labels if label >= 0] for labels in above]
        pointer = np.concatenate([[0], np.cumsum([len(labels) for labels in kept], dtype=np.int64)]).astype(np.int64)
        flat = np.array([label for labels in kept for label in labels], dtype=np.int32)
        return BracketLabels(len(self._labels), self._label_of, pointer, flat)

    @cached_property
    def _over(self) -> Float:
        """How many unary chains have label i over label j, minus those with j over i [L, L]."""
        counts = np.zeros((len(self._labels), len(self._labels)))
        for chain in self._coder.chains:
            labels = [int(self._label_of[a]) for a in chain if self._label_of[a] >= 0]
            for place, upper in enumerate(labels):
                for lower in labels[place + 1 :]:
                    counts[upper, lower] += 1.0
        return counts - counts.T

    def tree(self, words: Sequence[str], scores: CFGScores) -> Tree | None:
        """The tree over ``words`` with ``scores`` for sums; None without a parse, or if sums need log space."""
        n = len(words)
        log_z, tags, found = CFGTree(self._coder.grammar, [n]).expected_brackets(scores, self.brackets)
        if log_z[0] == -np.inf:
            return None
        gain = np.maximum(found - PRICE, 0.0)
        split = bracketing(n, gain.sum(axis=1))
        by_base = np.zeros((n, len(self._tags)))
        np.add.at(by_base.T, self._tag_of, tags.T)
        leaves = [
            Tree(self._tags[tag], word=word)
            for tag, word in zip(np.argmax(by_base, axis=1).tolist(), words, strict=True)
        ]
        return Tree(ROOT, self._built(n, gain, split, leaves))

    def _built(self, n: int, gain: Float, split: Int32, leaves: list[Tree]) -> list[Tree]:
        """The children of the root; a span without a label passes its parts to the span above."""
        order: list[tuple[int, int]] = []
        stack = [(0, n)]
        while stack:
            i, j = stack.pop()
            order.append((i, j))
            if j - i > 1:
                k = int(split[span_number(i, j)])
                stack += [(i, k), (k, j)]
        built: list[list[Tree]] = []
        for i, j in reversed(order):
            nodes = [leaves[i]] if j - i == 1 else built.pop(-2) + built.pop()
            labels = np.flatnonzero(gain[span_number(i, j)])
            below_first = np.argsort(self._over[np.ix_(labels, labels)].sum(axis=1), kind="stable")
            for label in labels[below_first].tolist():
                nodes = [Tree(self._labels[label], nodes)]
            built.append(nodes)
        return built[0]
