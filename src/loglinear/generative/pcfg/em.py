"""EM for PCFGs (inside-outside): from raw sentences, or from sentences some of whose brackets are known.

    E step   expected uses of each rule, given the words and the brackets       (one inside-outside over the sentences)
    M step   p(rule given A) = (expected uses + l) / their sum over A's rules

(Baker 1979; Lari & Young 1990). With brackets, only trees without a constituent that crosses one count (Pereira &
Schabes 1992). Each round raises the objective, log p of what is observed plus l times the logarithm of each
probability, until EM converges to a local maximum. Several starts may end at different ones; the best is the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from itertools import compress
from typing import Any, ClassVar, TypeVar

import numpy as np

from loglinear.arrays import Arrays, Bool, Float, Int32
from loglinear.errors import DataError, InfeasibleError, OptionError
from loglinear.generative.em import EM, EMState, Observed
from loglinear.generative.pcfg.counts import TreebankCounts
from loglinear.generative.pcfg.lexicon import Lexicon
from loglinear.generative.pcfg.model import PCFG, ROUNDING, SENTENCES_AT_ONCE, check_constant
from loglinear.model_file import Reader, string_arrays
from loglinear.structures.tree.grammar import spans_of
from loglinear.structures.tree.structure import CFGScores, CFGTree
from loglinear.system import in_threads

A = TypeVar("A")
Bracket = tuple[int, int]


@dataclass(frozen=True)
class RuleCounts:
    """Expected uses of binary rules [R], unary rules [M] and pairs of terminal and tag [E], and the objective.

    Attributes
    ----------
    log_likelihood : float
        log p of what is observed.
    objective : float
        The same plus the log of the prior that corresponds to the smoothing: what EM raises.
    """

    binary: Float
    unary: Float
    lexical: Float
    log_likelihood: float
    objective: float


@dataclass(frozen=True)
class EMRun:
    """How EM went.

    Attributes
    ----------
    model : PCFG
    objectives, log_likelihoods : list of float
        Of the start and after each round.
    converged : bool
    state : EMState
        To continue from, for a run that was stopped.
    """

    model: PCFG
    objectives: list[float]
    log_likelihoods: list[float]
    converged: bool
    state: EMState


def compatible_spans(n: int, brackets: Sequence[Bracket]) -> Bool:
    """The spans [n (n + 1) / 2] of a sentence that cross none of the brackets (i, j), the words i .. j-1."""
    firsts, ends = spans_of(n)
    allowed = np.ones(len(firsts), dtype=bool)
    for i, j in brackets:
        if not 0 <= i < j <= n:
            raise DataError(f"({i}, {j}) is not a bracket of a sentence of {n} words: give the first word and the end")
        allowed &= ~(((firsts < i) & (ends > i) & (ends < j)) | ((firsts > i) & (firsts < j) & (ends > j)))
    return allowed


class InsideOutside(Observed[PCFG, RuleCounts]):
    """The data of EM: from a model to expected counts, and from those to the next model.

    Parameters
    ----------
    sentences : sequence of sequences of str
    brackets : sequence of sequences of (int, int), optional
        For each sentence the spans that no constituent may cross.
    smoothing : float
        l, added to each expected count.
    n_threads : int
        The counts are the same, to the last bit, for any number.
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[str]],
        brackets: Sequence[Sequence[Bracket]] | None = None,
        *,
        smoothing: float = 0.0,
        n_threads: int = 1,
    ) -> None:
        if not sentences:
            raise DataError("there are no sentences to learn from")
        if brackets is not None and len(brackets) != len(sentences):
            raise DataError(f"brackets of {len(brackets)} sentences were given with {len(sentences)} sentences")
        self._sentences, self.brackets, self._n_threads = sentences, brackets, n_threads
        self.smoothing = check_constant("smoothing", smoothing)
        self._allowed = None
        if brackets is not None:
            self._allowed = [compatible_spans(len(w), b) for w, b in zip(sentences, brackets, strict=True)]

    def __call__(self, model: PCFG) -> RuleCounts:
        """The E step."""
        closure, tags = model.closure, model.lexicon.tags

        def count(first: int, some: list[Int32], tree: CFGTree, scores: CFGScores) -> tuple[float, Float, Float, Float]:
            try:
                log_z, expected = tree.expectations(scores)
            except InfeasibleError as error:
                number = first + error.sequence
                words = " ".join(self._sentences[number])
                raise DataError(f"sentence {number} (from 0) has no tree: {words!r:.100}") from None
            flat = np.concatenate(some)
            pairs = model.lexicon.pairs(flat)
            lexical = np.zeros(len(tags))
            np.add.at(lexical, pairs[1], expected.lexical[pairs[0], tags[pairs[1]]])
            return float(log_z.sum()), expected.binary[0], expected.steps[0], lexical

        log_p, *counts = zip(*self._by_block(model, count), strict=True)
        log_likelihood = sum(log_p)
        binary, steps, lexical = (np.sum(part, axis=0) for part in counts)
        unary = closure.expected_rules(steps)
        return RuleCounts(binary, unary, lexical, log_likelihood, log_likelihood + self._log_prior(model))

    @property
    def n_sentences(self) -> int:
        return len(self._sentences)

    @property
    def n_words(self) -> int:
        """Words of all sentences."""
        return sum(map(len, self._sentences))

    def selected(self, chosen: Bool) -> InsideOutside:
        """The same of some of the sentences [S]."""
        some = copy(self)
        some._sentences = list(compress(self._sentences, chosen))
        some.brackets = None if self.brackets is None else list(compress(self.brackets, chosen))
        some._allowed = None if self._allowed is None else list(compress(self._allowed, chosen))
        return some

    def has_tree(self, model: PCFG) -> Bool:
        """Whether the model can parse each sentence [S] without crossing its brackets."""
        log_z = self._by_block(model, lambda first, some, tree, scores: tree.log_partition(scores))
        return np.concatenate(log_z) > -np.inf

    def _by_block(self, model: PCFG, work: Callable[[int, list[Int32], CFGTree, CFGScores], A]) -> list[A]:
        """What ``work`` makes of each block: its first sentence, its terminals, their trees and the scores of these."""
        terminals = [model.lexicon.terminal_of(words) for words in self._sentences]
        grammar, _ = model.grammar, model.closure  # cached here, before threads use them

        def work_on(first: int) -> A:
            some = terminals[first : first + SENTENCES_AT_ONCE]
            tree = CFGTree(grammar, [len(words) for words in some])
            scores = model.terminal_scores(some, sums=True)
            if self._allowed is not None:
                scores = tree.restrict(scores, np.concatenate(self._allowed[first : first + SENTENCES_AT_ONCE]))
            return work(first, some, tree, scores)

        return in_threads(work_on, range(0, len(terminals), SENTENCES_AT_ONCE), self._n_threads)

    def maximised(self, model: PCFG, found: RuleCounts) -> PCFG:
        """The M step; symbols that were never used keep their probabilities."""
        return maximised(model, found, self.smoothing)

    def _log_prior(self, model: PCFG) -> float:
        return log_prior(model, self.smoothing)


def maximised(model: PCFG, found: RuleCounts, smoothing: float = 0.0) -> PCFG:
    """The most probable grammar, given expected uses; symbols that were never used keep their probabilities."""
    binary, unary = found.binary + smoothing, found.unary + smoothing
    totals = np.zeros(model.n_symbols)  # bincount of no rules would give integers
    totals += np.bincount(model.binary_rules[:, 0], binary, minlength=model.n_symbols)
    totals += np.bincount(model.unary_rules[:, 0], unary, minlength=model.n_symbols)

    def shares(values: Float, parents: Int32, old: Float) -> Float:
        used = totals[parents] > 0.0
        return np.where(used, values / np.where(used, totals[parents], 1.0), old)

    tag_totals = np.bincount(model.lexicon.tags, found.lexical, minlength=model.n_tags) + smoothing
    lexical = np.where(tag_totals[model.lexicon.tags] > 0.0, found.lexical + smoothing, model.lexicon.probabilities)
    return replace(
        model,
        binary=shares(binary, model.binary_rules[:, 0], model.binary),
        unary=shares(unary, model.unary_rules[:, 0], model.unary),
        lexicon=model.lexicon.with_counts(lexical),
    )


def log_prior(model: PCFG, smoothing: float) -> float:
    """smoothing times the logarithm of each probability."""
    if not smoothing:
        return 0.0
    values = np.concatenate([model.binary, model.unary, model.lexicon.probabilities])
    return smoothing * float(np.log(np.maximum(values, 1e-300)).sum())


# ----------------------------------------------------------------------------------------------------------------------
# EM over parts of the sentences: what a start is made from, and the E step of a part.


@dataclass(frozen=True)
class SentenceCounts:
    """What a part of the sentences contributes to the start of EM.

    Parameters
    ----------
    trees : TreebankCounts or None
        Of the sentences whose trees are known.
    words : Counter
        Of all sentences, in the order of first occurrences.
    n_sentences : int
    """

    kind: ClassVar[str] = "sentences"
    trees: TreebankCounts | None
    words: Counter[str]
    n_sentences: int

    def __add__(self, other: SentenceCounts) -> SentenceCounts:
        """The counts of this part followed by another."""
        trees = self.trees or other.trees
        if self.trees is not None and other.trees is not None:
            trees = self.trees + other.trees
        return SentenceCounts(trees, self.words + other.words, self.n_sentences + other.n_sentences)

    # -- as data -----------------------------------------------------------------------------------------------------

    def to_storage(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays of a file."""
        header, arrays = (None, {}) if self.trees is None else self.trees.to_storage()
        stored: Arrays = {f"trees.{name}": array for name, array in arrays.items()}
        stored |= string_arrays("of_sentences", list(self.words))
        stored["of_sentences.counts"] = np.array(list(self.words.values()), dtype=np.int64)
        return {"trees": header, "n_sentences": self.n_sentences}, stored

    @classmethod
    def from_storage(cls, read: Reader) -> SentenceCounts:
        """What :meth:`to_storage` described."""
        words = read.strings("of_sentences", distinct=True)
        counts = read.array("of_sentences.counts", (np.int64,), (len(words),))
        if len(words) and counts.min() < 1:
            read.fail("of_sentences.counts", "not all counts are positive")
        trees = TreebankCounts.from_storage(read.section("trees")) if read.has("trees") else None
        return cls(trees, Counter(dict(zip(words, counts.tolist(), strict=True))), read.integer("n_sentences", 1))


@dataclass(frozen=True)
class ExpectedRules:
    """The E step of a part.

    Parameters
    ----------
    binary, unary, lexical, log_likelihood
        As of :class:`RuleCounts`.
    n_sentences, n_words, left_out : int
        Sentences that were learnt from, their words, and sentences that the grammar cannot parse.
    """

    kind: ClassVar[str] = "expected rules"
    binary: Float
    unary: Float
    lexical: Float
    log_likelihood: float
    n_sentences: int
    n_words: int
    left_out: int

    @classmethod
    def of(cls, model: PCFG, data: InsideOutside) -> ExpectedRules:
        """Expected uses in the sentences that the grammar can parse."""
        left_out = 0
        try:
            found = data(model)
        except DataError:  # of a sentence without a tree; to look for these first would double the work
            can = data.has_tree(model)
            left_out = int((~can).sum())
            if not can.any():
                binary, unary, lexical = map(np.zeros_like, (model.binary, model.unary, model.lexicon.log_p))
                return cls(binary, unary, lexical, 0.0, 0, 0, left_out)
            data = data.selected(can)
            found = data(model)
        return cls(
            found.binary, found.unary, found.lexical, found.log_likelihood, data.n_sentences, data.n_words, left_out
        )

    def __add__(self, other: ExpectedRules) -> ExpectedRules:
        return ExpectedRules(
            **{each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)}
        )

    def counts(self, model: PCFG, smoothing: float) -> RuleCounts:
        """The counts as an E step of all sentences has them."""
        objective = self.log_likelihood + log_prior(model, smoothing)
        return RuleCounts(self.binary, self.unary, self.lexical, self.log_likelihood, objective)

    # -- as data -----------------------------------------------------------------------------------------------------

    def to_storage(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays of a file."""
        header = {name: getattr(self, name) for name in ("log_likelihood", "n_sentences", "n_words", "left_out")}
        return header, {"binary": self.binary, "unary": self.unary, "lexical": self.lexical}

    @classmethod
    def from_storage(cls, read: Reader) -> ExpectedRules:
        """What :meth:`to_storage` described."""
        binary, unary, lexical = (
            read.floats(name, (None,), -ROUNDING, np.inf) for name in ("binary", "unary", "lexical")
        )
        n_sentences, n_words, left_out = (read.integer(name) for name in ("n_sentences", "n_words", "left_out"))
        log_likelihood = read.number("log_likelihood")
        return cls(binary, unary, lexical, log_likelihood, n_sentences, n_words, left_out)


def em(
    starts: Sequence[PCFG],
    data: InsideOutside,
    *,
    max_iter: int = 50,
    tolerance: float = 1e-5,
    observe: Callable[[EMState], bool | None] | None = None,
    state: EMState | None = None,
) -> tuple[EMRun, list[float]]:
    """EM from each start: the run that ends with the greatest objective, and the objectives of all.

    A run ends after ``max_iter`` rounds, or when a round raises the objective by at most the share ``tolerance`` of it.

    ``observe`` sees the state after each round, and ends EM if it returns True; from that ``state`` EM continues as if
    never stopped.
    """
    if not starts:
        raise OptionError("starts: give at least one model to start from")
    if max_iter < 0:
        raise OptionError(f"max_iter={max_iter} must be at least 0")
    optimizer = EM(lambda i: starts[i], len(starts), max_iter, tolerance)
    result = optimizer.minimise(data, starts[0].parameters, callback=observe, state=state)
    now: EMState = result.state
    model = starts[now.start].with_parameters(now.candidate)
    return EMRun(model, now.objectives, now.log_likelihoods, result.converged, now), now.ended


def random_pcfg(n_phrases: int, n_tags: int, words: Sequence[str], rng: np.random.Generator) -> PCFG:
    """A start without a treebank: all binary rules over ``n_phrases`` phrases and ``n_tags`` tags, at random.

    Phrases are named X0, X1, ..., the first being the root, tags T0, T1, ...; the root may also be any one tag.
    """
    if n_phrases < 1 or n_tags < 1 or not words:
        raise OptionError(f"n_phrases={n_phrases}, n_tags={n_tags}: there must be at least one of each, and a word")
    k = n_phrases + n_tags
    left, right, parent = np.meshgrid(np.arange(k), np.arange(k), np.arange(n_tags, k), indexing="ij")
    rules = np.stack([parent.ravel(), left.ravel(), right.ravel()], axis=1).astype(np.int32)
    unary_rules = np.stack([np.full(n_tags, n_tags), np.arange(n_tags)], axis=1).astype(np.int32)
    vocabulary = list(dict.fromkeys(words))
    size = len(vocabulary)
    tags = np.tile(np.arange(n_tags, dtype=np.int32), size)
    lexicon = Lexicon(n_tags, vocabulary, np.arange(size + 1) * n_tags, tags, np.zeros(size * n_tags))
    names = [*(f"T{t}" for t in range(n_tags)), *(f"X{a}" for a in range(n_phrases))]
    blank = PCFG(names, n_tags, rules, np.ones(len(rules)), unary_rules, np.ones(n_tags), lexicon)
    return perturbed(blank, rng)


def perturbed(model: PCFG, rng: np.random.Generator, strength: float = 1.0) -> PCFG:
    """Another start near a model: each probability times a random number from 1 to 1 + strength, then normalised."""

    def noisy(values: Float) -> Float:
        return values * (1.0 + strength * rng.random(len(values)))

    counts = RuleCounts(noisy(model.binary), noisy(model.unary), noisy(model.lexicon.probabilities), 0.0, 0.0)
    return maximised(model, counts)
