"""A dependency parser's model: what its weights are weights of, and how it finds the best trees.

best tree of x = argmax_y  w . f(x, y)  [ + log q0(x, y)  with a generative base ]
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import Column, ranges
from loglinear.data.conllu import NOTHING, ROOT, Dependencies
from loglinear.errors import DataError
from loglinear.estimators.relation_model import RelationModel
from loglinear.features.arc_encoder import ArcCorpus, ArcEncoder, arc_runs
from loglinear.features.arc_vocabulary import Tokens, TokenVocabulary
from loglinear.generative.head_outward import HeadOutwardModel, best_trees
from loglinear.structures.arc_features import ArcFeatures
from loglinear.structures.arc_scores import arc_offsets
from loglinear.threads import in_threads

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
ARCS_AT_ONCE = 60_000


@dataclass(frozen=True)
class Parses:
    """Trees that were found.

    Attributes
    ----------
    heads : int32 [N]
    relations : Column or None
        The relation of each arc, if the model knows any.
    fallback : bool [S]
        The sentences that were too long to be parsed: their tokens hang one from the other.
    """

    heads: Int32
    relations: Column | None
    fallback: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class DependencyModel:
    """Features and weights of arcs, with a generative base or without.

    Parameters
    ----------
    vocabulary : TokenVocabulary
    tags : {"xpos", "upos"}
        The column of tags.
    encoder : ArcEncoder
        Of D features; of none if there is nothing but a base.
    features : ArcFeatures
    weights : float64 [D]
    base : HeadOutwardModel or None
    relations : RelationModel or None
    """

    vocabulary: TokenVocabulary
    tags: str
    encoder: ArcEncoder
    features: ArcFeatures
    weights: Float
    base: HeadOutwardModel | None = None
    relations: RelationModel | None = None

    def with_weights(self, weights: Float) -> DependencyModel:
        """The model that these weights make."""
        return replace(self, weights=weights)

    def tokens(self, corpus: Dependencies) -> Tokens:
        """A corpus in numbers."""
        tags = corpus.tags(self.tags)
        if NOTHING not in self.vocabulary.tags and all(tags.values[i] == NOTHING for i in np.unique(tags.ids)):
            raise DataError(f"the sentences have no tags where the model looks for them, in {self.tags}", corpus.file)
        return self.vocabulary.tokens(corpus.words, tags, corpus.offsets)

    def arcs(self, tokens: Tokens, n_threads: int = 1) -> ArcCorpus:
        """The features of all arcs; none are looked for where there are none."""
        return self.encoder.arcs(tokens, n_threads)

    def best(self, tokens: Tokens, arcs: ArcCorpus | None = None) -> Int32:
        """The best trees [N]; ``arcs`` are the features of these sentences, if they are known."""
        n = len(tokens.offsets) - 1
        if not self.features.n_features:
            scores = None
        else:
            scores = self.features.scores(self.weights, self.arcs(tokens) if arcs is None else arcs, 0, n)
        if self.base is not None:
            own = self.base.scores(tokens)
            return best_trees(tokens.offsets, own if scores is None else own.plus(scores.arcs))[0]
        assert scores is not None
        return self.features.tree(tokens.offsets).viterbi(scores)[0]

    def parse(self, corpus: Dependencies, parse_length: int, n_threads: int = 1) -> Parses:
        """The best trees of all sentences of at most ``parse_length`` tokens, and for longer ones a chain."""
        tokens = self.tokens(corpus)
        lengths = np.diff(tokens.offsets)
        too_long = lengths > parse_length
        heads = np.arange(corpus.n_tokens, dtype=np.int32) - np.repeat(tokens.offsets[:-1], lengths).astype(np.int32)
        short = np.flatnonzero(~too_long)
        chosen = selected(tokens, short)
        _ = self.encoder.table, self.base and self.base.scores(selected(tokens, short[:1]))  # made before threads ask

        def block(run: tuple[int, int]) -> Int32:
            return self.best(selected(chosen, np.arange(*run)))

        found = in_threads(block, arc_runs(arc_offsets(chosen.offsets), 0, len(short), ARCS_AT_ONCE), n_threads)
        if found:
            heads[ranges(tokens.offsets[:-1][short], lengths[short])] = np.concatenate(found)
        relations = None if self.relations is None else self.relations.predict(tokens, heads)
        if relations is not None and too_long.any():
            relations = _with_root(relations, tokens.offsets[:-1][too_long])
        return Parses(heads, relations, too_long)


def _with_root(relations: Column, roots: Int64) -> Column:
    """Relations with that of the root for some tokens."""
    values = list(relations.values)
    if ROOT not in values:
        values.append(ROOT)
    ids = relations.ids.copy()
    ids[roots] = values.index(ROOT)
    return Column(ids, values)


def selected(tokens: Tokens, sentences: Int64) -> Tokens:
    """Some of the sentences."""
    lengths = np.diff(tokens.offsets)[sentences]
    places = ranges(tokens.offsets[:-1][sentences], lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Tokens(tokens.words[places], tokens.tags[places], tokens.pairs[places], tokens.stems[places], offsets)


@dataclass(frozen=True)
class DevTrees:
    """Sentences with their trees, encoded once, to judge weights by."""

    model: DependencyModel
    corpus: Dependencies
    tokens: Tokens
    arcs: ArcCorpus

    @classmethod
    def of(cls, model: DependencyModel, corpus: Dependencies, n_threads: int) -> DevTrees:
        """Of dev data."""
        tokens = model.tokens(corpus)
        return cls(model, corpus, tokens, model.arcs(tokens, n_threads))

    def score(self, weights: Float) -> float:
        """The share of tokens with the right head."""
        heads = self.model.with_weights(weights).best(self.tokens, self.arcs)
        return float(np.mean(heads == self.corpus.heads))
