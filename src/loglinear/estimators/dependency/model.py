"""A dependency parser's model: its features and weights, and the search for the best trees.

best tree of x = argmax_y  w . f(x, y)  [ + log q0(x, y)  with a generative base ]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loglinear.arrays import Bool, Float, Int32, Int64
from loglinear.criteria.criterion import make_criterion
from loglinear.data.columns.corpus import Column, ranges
from loglinear.data.dependencies import NOTHING, ROOT, Dependencies
from loglinear.errors import DataError
from loglinear.features.arcs import ArcCorpus, ArcEncoder, Tokens, TokenVocabulary
from loglinear.features.encoding import EncodedCorpus, Incidence, runs
from loglinear.generative.head_outward import HeadOutwardModel, best_trees
from loglinear.optimizers.objective import Objective
from loglinear.structures.arcs.features import ArcFeatures
from loglinear.structures.arcs.structure import arc_offsets
from loglinear.structures.chain.features import ChainFeatures, Penalties
from loglinear.structures.gold import Gold
from loglinear.system import in_threads

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
        The sentences that were too long to be parsed: each token hangs from the one before.
    """

    heads: Int32
    relations: Column | None
    fallback: Bool


@dataclass(frozen=True)
class DependencyModel:
    """Features and weights of arcs, with a generative base or without.

    Parameters
    ----------
    vocabulary : TokenVocabulary
    tags : {"xpos", "upos"}
        The column of tags.
    encoder : ArcEncoder
        Of D features; of none if there is only a base.
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

    def tokens(self, corpus: Dependencies) -> Tokens:
        """A corpus in numbers."""
        tags = corpus.tags(self.tags)
        if NOTHING not in self.vocabulary.tags and has_no_tags(tags):
            raise DataError(f"the sentences have no tags where the model looks for them, in {self.tags}", corpus.file)
        return self.vocabulary.tokens(corpus.words, tags, corpus.offsets)

    def best(self, tokens: Tokens, arcs: ArcCorpus | None = None) -> Int32:
        """The best trees [N]; ``arcs`` are the encoded arcs of these sentences, if the caller has them."""
        scores, n = None, len(tokens.offsets) - 1
        if self.features.n_features:
            scores = self.features.scores(self.weights, self.encoder.arcs(tokens, 1) if arcs is None else arcs, 0, n)
        if self.base is not None:
            base = self.base.scores(tokens)
            return best_trees(tokens.offsets, base if scores is None else base.plus(scores.arcs))[0]
        assert scores is not None
        return self.features.tree(tokens.offsets).viterbi(scores)[0]

    def parse(self, corpus: Dependencies, parse_length: int, n_threads: int = 1) -> Parses:
        """The best trees of all sentences of at most ``parse_length`` tokens; longer ones become a chain."""
        tokens = self.tokens(corpus)
        lengths = np.diff(tokens.offsets)
        too_long = lengths > parse_length
        heads = np.arange(corpus.n_tokens, dtype=np.int32) - np.repeat(tokens.offsets[:-1], lengths).astype(np.int32)
        short = np.flatnonzero(~too_long)
        chosen = selected(tokens, short)
        _ = (
            self.encoder.table,
            self.base and self.base.scores(selected(tokens, short[:1])),
        )  # cache before threads

        def block(run: tuple[int, int]) -> Int32:
            return self.best(selected(chosen, np.arange(*run)))

        found = in_threads(block, runs(arc_offsets(chosen.offsets), 0, len(short), ARCS_AT_ONCE), n_threads)
        if found:
            heads[ranges(tokens.offsets[:-1][short], lengths[short])] = np.concatenate(found)
        relations = None if self.relations is None else self.relations.predict(tokens, heads)
        if relations is not None and too_long.any():
            relations = _with_root(relations, tokens.offsets[:-1][too_long])
        return Parses(heads, relations, too_long)


def has_no_tags(column: Column) -> bool:
    """Whether all tokens are without a tag."""
    return all(column.values[i] == NOTHING for i in np.unique(column.ids).tolist())


def _with_root(relations: Column, roots: Int64) -> Column:
    """The relations with ROOT for the tokens ``roots``."""
    values, ids = list(dict.fromkeys([*relations.values, ROOT])), relations.ids.copy()
    ids[roots] = values.index(ROOT)
    return Column(ids, values)


def selected(tokens: Tokens, sentences: Int64) -> Tokens:
    """Some of the sentences."""
    lengths = np.diff(tokens.offsets)[sentences]
    places = ranges(tokens.offsets[:-1][sentences], lengths)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Tokens(tokens.words[places], tokens.tags[places], tokens.pairs[places], tokens.stems[places], offsets)


# ----------------------------------------------------------------------------------------------------------------------
# The relation of an arc, once it is known: a log-linear classifier over features of head and child.
#
#     p(r | h, t) ~ exp( sum over features f of the arc h -> t of w_{f, r} )
#
# The tree is found first, without relations, and then each arc gets its best relation, by features of its own
# (:data:`~loglinear.features.arcs.RELATIONS`). The classifier is trained as a chain of length one.

RELATIONS_AT_ONCE = 4096


@dataclass(frozen=True)
class RelationModel:
    """A classifier of arcs.

    Parameters
    ----------
    labels : list of str
        The R relations.
    encoder : ArcEncoder
    features : ChainFeatures
        Of the pairs of a feature of the arc and a relation.
    weights : float64 [D]
    """

    labels: list[str]
    encoder: ArcEncoder
    features: ChainFeatures
    weights: Float

    def predict(self, tokens: Tokens, heads: Int32) -> Column:
        """The best relation of each arc [N]."""
        corpus = _encoded(self.encoder, tokens, heads)
        laid_out = self.features.lay_out(self.weights, Penalties.none(len(self.labels)))
        best = [
            np.argmax(self.features.scores(laid_out, corpus, first, end).emission, axis=1)
            for first, end in runs(corpus.offsets, 0, corpus.n_sequences, RELATIONS_AT_ONCE)
        ]
        return Column(np.concatenate(best).astype(np.int32), self.labels)


@dataclass(frozen=True)
class RelationProblem:
    """Arcs with their relations, in numbers.

    Parameters
    ----------
    model : RelationModel
        With weights of zero.
    corpus : EncodedCorpus
        The arcs of training, each a sequence of one position.
    gold : Gold
        Their relations.
    """

    model: RelationModel
    corpus: EncodedCorpus
    gold: Gold

    @classmethod
    def of(cls, vocabulary: TokenVocabulary, tokens: Tokens, heads: Int32, relations: Column) -> RelationProblem:
        """Of the arcs to ``heads`` [N] with their ``relations`` [N]."""
        labels = sorted(relations.values[r] for r in np.unique(relations.ids).tolist())
        number = {label: r for r, label in enumerate(labels)}
        gold = Gold(np.array([number.get(value, -1) for value in relations.values], dtype=np.int32)[relations.ids])
        encoder = ArcEncoder.fit(vocabulary, "relations", tokens, heads)
        corpus = _encoded(encoder, tokens, heads)
        features = ChainFeatures.collect(corpus, encoder.n_features, gold, len(labels), transitions="none")
        return cls(RelationModel(labels, encoder, features, np.zeros(features.n_features)), corpus, gold)

    def objective(self, l2: float, n_threads: int) -> Objective:
        """Conditional likelihood and penalty."""
        none = Penalties.none(len(self.model.labels))
        return Objective(
            self.model.features, self.corpus, self.gold, make_criterion("cll"), none, l2, n_threads=n_threads,
            single_precision=True,
        )  # fmt: skip


def rounded(weights: Float) -> Float:
    """Weights to the precision of the model file, so that a saved model answers exactly as this one does."""
    return weights.astype(np.float32).astype(np.float64)


def _encoded(encoder: ArcEncoder, tokens: Tokens, heads: Int32) -> EncodedCorpus:
    """Each arc a sequence of one position."""
    return EncodedCorpus(np.arange(len(heads) + 1, dtype=np.int64), Incidence(*encoder.chosen(tokens, heads)))
