"""The head-outward model against its definition, written out in plain Python."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data import Column
from loglinear.errors import DataError, OptionError
from loglinear.features.arcs import ArcEncoder, TokenVocabulary
from loglinear.generative.base import Sampling
from loglinear.generative.head_outward import HeadOutwardModel, drawn_counts, tree_counts
from referees.arcs import trees

ROOT = "<root>"


class Written:
    """The model as its definition says."""

    def __init__(self, sentences, heads, words, tags, lexical, factors):
        self.words, self.tags, self.lexical, self.factors = words, tags, lexical, factors
        self.counts: dict[tuple, Counter] = {}
        for sentence, tree in zip(sentences, heads, strict=True):
            for kind, outcome, context in self.events(sentence, tree):
                for depth, own in enumerate(self.contexts(kind, context)):
                    self.counts.setdefault((kind, depth, *own), Counter())[outcome] += 1

    def contexts(self, kind, context):
        side, valence, (head_word, head_tag), child_tag = context
        if kind == "word":
            found = [(child_tag,), (child_tag, side, head_tag), (child_tag, side, head_tag, head_word)]
        else:
            found = [(side, valence), (side, valence, head_tag), (side, valence, head_tag, head_word)]
        return found[: 3 if self.lexical and head_word != ROOT else 2]

    def events(self, sentence, tree):
        tokens = [(ROOT, ROOT), *sentence]
        for head in range(len(tokens)):
            for side in ("left", "right"):
                children = [t for t, h in enumerate(tree, 1) if h == head and (t < head) == (side == "left")]
                children = children[::-1] if side == "left" else children
                for i, child in enumerate(children):
                    context = (side, int(i > 0), tokens[head], tokens[child][1])
                    if head:
                        yield "stop", 0, context
                    yield "tag", tokens[child][1], context
                    if self.lexical:
                        yield "word", tokens[child][0], context
                if head:
                    yield "stop", 1, (side, int(bool(children)), tokens[head], None)

    def probability(self, kind, outcome, context):
        n = {"stop": 2, "tag": len(self.tags), "word": len(self.words) + 1}[kind]
        factor, p = self.factors[("stop", "tag", "word").index(kind)], 1.0 / n
        for depth, own in enumerate(self.contexts(kind, context)):
            counter = self.counts.get((kind, depth, *own))
            if counter is None:
                break
            weight = factor * len(counter)
            p = (counter[outcome] + weight * p) / (sum(counter.values()) + weight)
        return p

    def log_prob(self, sentence, tree):
        return sum(np.log(self.probability(*event)) for event in self.events(sentence, tree))


def fitted(sentences, heads, lexical, factors):
    words = Column.from_strings(word for sentence in sentences for word, _ in sentence)
    tags = Column.from_strings(tag for sentence in sentences for _, tag in sentence)
    vocabulary = TokenVocabulary.fit(words, tags)
    offsets = np.cumsum([0, *map(len, sentences)]).astype(np.int64)
    tokens = vocabulary.tokens(words, tags, offsets)
    flat = np.array([head for tree in heads for head in tree], dtype=np.int32)
    model = HeadOutwardModel.fit(vocabulary, tokens, flat, lexical, factors)
    return model, vocabulary, tokens, flat


def numbered(vocabulary, sentences):
    words = Column.from_strings(word for sentence in sentences for word, _ in sentence)
    tags = Column.from_strings(tag for sentence in sentences for _, tag in sentence)
    return vocabulary.tokens(words, tags, np.cumsum([0, *map(len, sentences)]).astype(np.int64))


@st.composite
def treebanks(draw, most=4):
    token = st.tuples(st.sampled_from("abc"), st.sampled_from("NVD"))
    lengths = draw(st.lists(st.integers(1, most), min_size=1, max_size=6))
    sentences = [draw(st.lists(token, min_size=n, max_size=n)) for n in lengths]
    heads = [draw(st.sampled_from(trees(n, True, True))) for n in lengths]
    return sentences, heads


@given(treebanks(), treebanks(), st.booleans())
def test_probabilities_and_best_trees_are_those_of_the_definition(train, test, lexical):
    factors = (1.0, 0.5, 3.0)
    model, vocabulary, _, _ = fitted(*train, lexical, factors)
    written = Written(*train, vocabulary.words, vocabulary.tags, lexical, factors)
    sentences, heads = test
    tokens = numbered(vocabulary, sentences)
    flat = np.array([head for tree in heads for head in tree], dtype=np.int32)
    right = [written.log_prob(sentence, tree) for sentence, tree in zip(sentences, heads, strict=True)]
    assert model.log_prob(tokens, flat) == pytest.approx(right)
    found, best = model.viterbi(tokens)
    for s, sentence in enumerate(sentences):
        values = {tree: written.log_prob(sentence, tree) for tree in trees(len(sentence), True, True)}
        assert best[s] == pytest.approx(max(values.values()))
        own = tuple(found[tokens.offsets[s] : tokens.offsets[s + 1]].tolist())
        assert values[own] == pytest.approx(best[s])


@given(treebanks(), st.integers(0, 1000))
def test_scores_of_arcs_tilt_the_trees(train, seed):
    model, _, tokens, _ = fitted(*train, True, (1.0, 1.0, 1.0))
    lengths = np.diff(tokens.offsets)
    arcs = np.random.default_rng(seed).normal(size=int((lengths * (lengths + 1)).sum()))
    _, best = model.viterbi(tokens, arcs)
    written = Written(*train, sorted({w for s in train[0] for w, _ in s}), sorted({t for s in train[0] for _, t in s}),
                      True, (1.0, 1.0, 1.0))  # fmt: skip
    first = 0
    for s, sentence in enumerate(train[0]):
        n = len(sentence)
        block = arcs[first : first + n * (n + 1)].reshape(n, n + 1)
        first += n * (n + 1)
        values = [
            written.log_prob(sentence, tree) + sum(block[t, h] for t, h in enumerate(tree))
            for tree in trees(n, True, True)
        ]
        assert best[s] == pytest.approx(max(values))


@pytest.mark.parametrize("lexical", [True, False])
def test_draws_have_the_model_s_probabilities(lexical):
    sentences = [[("a", "D"), ("b", "N")], [("b", "N")], [("b", "N"), ("c", "V")], [("c", "V")]]
    heads = [[2, 0], [0], [2, 0], [0]]
    model, vocabulary, _, _ = fitted(sentences, heads, lexical, (0.5, 0.5, 0.5))
    words, tags, drawn, offsets = model.sample(40_000, np.random.default_rng(0))
    counts: Counter = Counter()
    for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        counts[tuple(zip(words[a:b].tolist(), tags[a:b].tolist(), drawn[a:b].tolist(), strict=True))] += 1
    checked = 0
    for tree, count in counts.most_common(25):
        own_words, own_tags, own_heads = (np.array(each, dtype=np.int32) for each in zip(*tree, strict=True))
        tokens = vocabulary.drawn(own_words, own_tags, np.array([0, len(tree)]))
        p = float(np.exp(model.log_prob(tokens, own_heads)[0]))
        assert abs(count / 40_000 - p) < 5 * np.sqrt(p * (1 - p) / 40_000)
        checked += 1
    assert checked == 25


def test_probabilities_of_short_sentences_add_up_to_those_drawn():
    sentences, heads = [[("a", "N")], [("b", "N"), ("a", "V")]], [[0], [2, 0]]
    model, _, _, _ = fitted(sentences, heads, False, (0.3, 0.3, 0.3))
    total = 0.0
    for n in (1, 2, 3):
        for code in range(2**n):
            tags = np.array([(code >> t) & 1 for t in range(n)], dtype=np.int32)
            vocabulary = TokenVocabulary(["a", "b"], ["N", "V"], np.zeros(1, dtype=np.int64))
            tokens = vocabulary.drawn(np.zeros(n, dtype=np.int32), tags, np.array([0, n]))
            for tree in trees(n, True, True):
                total += np.exp(model.log_prob(tokens, np.array(tree, dtype=np.int32))[0])
    offsets = model.sample(20_000, np.random.default_rng(1))[3]
    assert total == pytest.approx(np.mean(np.diff(offsets) <= 3), abs=0.02)
    assert total < 1.0


@settings(max_examples=10)
@given(treebanks())
def test_expected_counts_are_those_of_the_draws(train):
    model, vocabulary, tokens, heads = fitted(*train, True, (0.2, 0.2, 0.2))
    encoder = ArcEncoder.fit(vocabulary, "arcs", tokens, heads)
    counts = tree_counts(encoder, tokens, heads)
    assert counts.shape == (len(train[0]), encoder.n_features)
    assert np.asarray(counts.sum(axis=0)).ravel().min() >= 1
    sampling = Sampling(2_500, seed=3)
    one, two = (drawn_counts(model, encoder, sampling, threads) for threads in (1, 2))
    assert (one == two).all()
    total = one * 2_500
    assert total == pytest.approx(np.round(total), abs=1e-6)


def test_unknown_words_and_tags_leave_a_tree():
    model, vocabulary, _, _ = fitted([[("a", "D"), ("b", "N")]], [[2, 0]], True, (1.0, 1.0, 1.0))
    tokens = numbered(vocabulary, [[("new", "X"), ("b", "N"), ("a", "X")]])
    heads, best = model.viterbi(tokens)
    assert np.isfinite(best).all()
    assert (heads == 0).sum() == 1


def test_mistakes_are_refused():
    model, vocabulary, tokens, heads = fitted([[("a", "D")]], [[0]], True, (1.0, 1.0, 1.0))
    with pytest.raises(OptionError, match="factors"):
        model.with_factors((0.0, 1.0, 1.0))
    many = TokenVocabulary(["a"], [str(i) for i in range(2000)], vocabulary.pairs)
    with pytest.raises(DataError, match="2000 tags"):
        HeadOutwardModel.fit(many, tokens, heads)
