"""Grammars whose rules look at the words of their span: the trained model, its training data in numbers, its file.

Expansions are those of :mod:`~loglinear.structures.cfg_outcomes`; words are given their tags by the lexicon of a
generative grammar, p(word given tag), in every one of these models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.criteria.bracket_cost import BracketCost
from loglinear.data.tree_transforms import base_label, is_intermediate
from loglinear.data.trees import Tree
from loglinear.features.block import FeatureBlock
from loglinear.features.span_attributes import Own, SpanAttributes
from loglinear.generative.lexicon import Lexicon, LexiconSmoothing, TaggedWord, smoothed_lexicon
from loglinear.generative.pcfg import PCFG
from loglinear.structures.cfg_features import EncodedTrees, SpanFeatures, word_spans
from loglinear.structures.cfg_grammar import CFGGrammar
from loglinear.structures.cfg_outcomes import Outcomes
from loglinear.structures.cfg_pieces import Edges, PieceFeatures
from loglinear.structures.cfg_tree import CFGScores, CFGTree
from loglinear.structures.gold import Gold
from loglinear.structures.tree_coder import ANY_ROOT, TreeCoder

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Sentences = Sequence[Sequence[str]]
RARER = 2.0  # how much less a gold tag that the lexicon left out scores than the worst it has, as a logarithm


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
    """

    coder: TreeCoder
    lexicon: Lexicon
    attributes: SpanAttributes
    features: SpanFeatures
    weights: Float
    normalised: bool

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
        return make(self.weights, corpus, 0, len(sentences))

    def sum_scores(self, sentences: Sentences) -> CFGScores:
        """The same: scores of the best trees and for sums over trees do not differ."""
        return self.scores(sentences)

    def tree(self, words: Sequence[str], labels: Int32) -> Tree:
        """The binary tree that a labelling [N, 3] of the spans of one sentence means."""
        return self.coder.tree(words, labels)

    def best_tags(self, words: Sequence[str]) -> list[str]:
        """The tag of each word that makes it most likely, without notes."""
        best = np.argmax(self.lexicon.scores(self.lexicon.terminal_of(words)), axis=1)
        return [base_label(self.coder.symbols[tag]) for tag in best.tolist()]

    # -- files ---------------------------------------------------------------------------------------------------------

    def to_storage(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """What of the model stands in a file: a header of JSON, and arrays."""
        grammar, block = self.grammar, self.features.pieces.block
        header: dict[str, Any] = {
            "symbols": self.coder.symbols, "n_tags": self.coder.n_tags, "root": grammar.root,
            "chains": [list(chain) for chain in self.coder.chains], "terminals": self.lexicon.terminals,
            "attributes": self.attributes.to_header(), "normalised": self.normalised,
        }  # fmt: skip
        arrays: dict[str, npt.NDArray[Any]] = {
            "binary_rules": grammar.binary, "lexicon_pointer": self.lexicon.pointer, "lexicon_tags": self.lexicon.tags,
            "lexicon_log_p": self.lexicon.log_p, "feature_pointer": block.pointer, "feature_codes": block.codes,
            "offsets": self.features.pieces.offsets, "weights": self.weights,
        }  # fmt: skip
        return header, arrays

    @classmethod
    def from_storage(
        cls, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], own: Own | None = None
    ) -> SpanModel:
        """The model of a file; whatever does not fit together is a ValueError or a DataError."""
        symbols, n_tags = [str(symbol) for symbol in header["symbols"]], int(header["n_tags"])
        chains = [tuple(int(a) for a in chain) for chain in header["chains"]]
        if any(len(chain) < 2 for chain in chains):
            raise ValueError("a chain has fewer than two symbols")
        rules = _array(arrays, "binary_rules", "i", 2)
        steps = [(chain[0], chain[-1]) for chain in chains]
        grammar = CFGGrammar(len(symbols), int(header["root"]), np.arange(n_tags), rules, steps)
        coder = TreeCoder(symbols, n_tags, grammar, chains)
        attributes = SpanAttributes.from_header(header["attributes"], own)
        outcomes = Outcomes(grammar)
        e = outcomes.n_outcomes
        pointer, codes = _array(arrays, "feature_pointer", "i", 1), _array(arrays, "feature_codes", "i", 1)
        _check_pointer(pointer, attributes.n_attributes, codes, e)
        block = FeatureBlock(pointer.astype(np.int64), codes.astype(np.int32), e).as_lists()
        offsets, weights = _array(arrays, "offsets", "f", 1), _array(arrays, "weights", "f", 1)
        if offsets.shape != (e,) or weights.shape != (e + len(codes),) or not np.isfinite(weights).all():
            raise ValueError("the weights are not as many finite numbers as there are features")
        if not (offsets < np.inf).all():
            raise ValueError("a base score is no number")
        terminals = [str(terminal) for terminal in header["terminals"]]
        tags_of, tags = _array(arrays, "lexicon_pointer", "i", 1), _array(arrays, "lexicon_tags", "i", 1)
        log_p = _array(arrays, "lexicon_log_p", "f", 1)
        _check_pointer(tags_of, len(terminals), tags, n_tags)
        if log_p.shape != tags.shape or not (log_p < np.inf).all():
            raise ValueError("the lexicon's numbers do not fit its tags")
        lexicon = Lexicon(n_tags, terminals, tags_of.astype(np.int64), tags.astype(np.int32), log_p.astype(np.float64))
        features = SpanFeatures(outcomes, PieceFeatures(outcomes.first, block, offsets.astype(np.float64)))
        return cls(coder, lexicon, attributes, features, weights.astype(np.float64), bool(header["normalised"]))


def _array(arrays: Mapping[str, npt.NDArray[Any]], name: str, kind: str, ndim: int) -> npt.NDArray[Any]:
    array = arrays[name]
    if array.dtype.kind != kind or array.ndim != ndim:
        raise ValueError(f"{name} is no array of {ndim} dimensions of the right kind")
    return np.array(array)


def _check_pointer(pointer: npt.NDArray[Any], n: int, entries: npt.NDArray[Any], below: int) -> None:
    fits = len(pointer) == n + 1 and pointer[0] == 0 and pointer[-1] == len(entries) and (np.diff(pointer) >= 0).all()
    if not fits or (len(entries) and not (entries.min() >= 0 and entries.max() < below)):
        raise ValueError("lists do not fit together")


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
        cls, binary: Sequence[Tree], attributes: SpanAttributes, *, base: PCFG | None = None, normalised: bool = False
    ) -> SpanProblem:
        """The problem of binary trees.

        With a ``base``, its grammar, lexicon and log-probabilities: weights of zero are the base itself. Without, the
        grammar of the trees' rules and unary chains, rules of score zero, and a lexicon of the same kind.
        """
        coder = TreeCoder.of_trees(binary) if base is None else base.coder
        found = [coder.labels(tree) for tree in binary]
        labels = np.concatenate([each for each in found if each is not None])
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
        features = SpanFeatures(outcomes, pieces)
        model = SpanModel(coder, lexicon, attributes, features, np.zeros(features.n_features), normalised)
        terminals = np.concatenate([lexicon.terminal_of(sentence) for sentence in sentences])

        def lexical(first: int, end: int) -> Float:
            return _with_gold(lexicon.scores(terminals[first:end]), tags[first:end])

        return cls(model, EncodedTrees(lengths, spans, lexical), Gold(labels), learnt)

    def with_weights(self, weights: Float) -> SpanModel:
        """The model with weights [D]."""
        return replace(self.model, weights=weights)

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
    return smoothed_lexicon(tagged, coder.symbols[: coder.n_tags], base_label, LexiconSmoothing())


def _with_gold(scores: Float, tags: Int32) -> Float:
    """Lexical scores [n, P] in which the gold tags [n] are possible."""
    rows = np.arange(len(tags))
    missing = np.flatnonzero(np.isneginf(scores[rows, tags]))
    if len(missing):
        finite = np.where(np.isneginf(scores[missing]), np.inf, scores[missing])
        least = finite.min(axis=1)
        scores[missing, tags[missing]] = np.where(least < np.inf, least, 0.0) - RARER
    return scores
