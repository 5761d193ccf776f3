"""Laws of the fields' half of joint pseudolikelihood.

The referee is brute force: each field's value in the Python rows is replaced by every value of its column, the rows are
encoded, and the sentence is scored; that gives the loss and, by the features' counts, the gradient.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.special import logsumexp

import loglinear.criteria.field_likelihood as field_likelihood
from loglinear.criteria import field_likelihood as criteria_field_likelihood
from loglinear.criteria.field_likelihood import FieldLikelihood
from loglinear.data.columns.corpus import Columns
from loglinear.data.corpora.bundled import bundled_rows
from loglinear.errors import OptionError
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.gazetteer import Gazetteer
from loglinear.features.templates.language import TemplateSet
from loglinear.features.templates.sets import template_text
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.gold import Gold

POOL = [
    "U00:%x[0,0]",
    "U01:%x[-1,0]",
    "U02:%x[0,1]",
    "U03:%x[-1,0]/%x[0,0]",
    "U04:%x[0,0]/%x[1,0]",
    "U05:%x[0,0]/%x[1,1]",
    "U06:%x[-2,1]/%x[2,1]",
    "U07:%x[-1,1]/%x[0,1]/%x[1,1]",
    "U:%x[-1,0]\nU:%x[1,0]",  # a bag of words: shared attributes
    "U10:%lower[0,0]",
    "U11:%brief[-1,0]/%x[0,0]",
    "U12:%x[0,0]/%suffix[0,0,1]",  # the same field twice
    "U13:%x[0,0]/%Suffix[0,0,2]/%x[0,1]",
    'U14:%t[0,0,"^\\u"]/%x[1,0]',
    "U15:%shape[0,0]/%shape[1,0]/%x[0,1]",
    "U16:%x[0,0]/%x[0,0]",
    "U17:%suffix[0,0,2]/%brief[0,0]/%x[-1,0]",
    "U20:%x[@1,0]",
    "U21:%x[@-1,0]/%x[0,0]",
    "U22:%x[@1,0]/%brief[@-1,0]/%x[1,1]",
    "U30:%gazetteer[0,0,known]/%x[0,1]",
    "U31:no macro",
    "B",
    "B40:%x[0,0]",
    "B41:%x[1,0]/%x[0,1]",
    "*42:%x[-1,1]/%x[0,0]",
]
WORDS = ["a", "b", "ab", "Ab", "B", "a1", "_B-1"]  # the last is also what stands before a sentence
KNOWN = Gazetteer("known", ["a", "Ab"])


class Case:
    """A corpus, its encoder and features, and the referee."""

    def __init__(self, rows, labels, template, states="observed", pair_features=False, min_count=1, weights=None):
        self.corpus, self.labels = Columns.from_rows(rows), np.array(labels, dtype=np.int32)
        templates = TemplateSet.parse(template)
        self.encoder = TemplateEncoder(templates, {"known": KNOWN}, pair_features)
        self.encoded = self.encoder.fit(self.corpus, min_count)
        self.n_labels = int(self.labels.max()) + 1
        n_attributes = self.encoder.n_attributes
        self.features = ChainFeatures.collect(
            self.encoded, n_attributes, Gold(self.labels), self.n_labels, states=states
        )
        self.sequence_weights = weights

    def likelihood(self, n_threads=1, label_column=None):
        return FieldLikelihood(
            self.encoder, self.corpus, self.encoded, self.features, self.labels, self.sequence_weights, n_threads,
            label_column,
        )  # fmt: skip

    def counts(self, rows, labels):
        """Features of each of many sentences [sentences, D], all of the same labels."""
        encoded = self.encoder.transform(Columns.from_rows(rows))
        before = np.concatenate([[0], labels[:-1]])
        counts = csr_matrix((len(rows), self.features.n_features))
        for which, block, segment, codes, first in (
            (encoded.state, self.features.state, self.features.slices[0], labels, 0),
            (encoded.edge, self.features.edge, self.features.slices[1], before * self.n_labels + labels, 1),
        ):
            if which is None or block is None:
                continue
            owner = np.repeat(np.arange(encoded.n_positions), np.diff(which.pointer))
            sentence, t = np.divmod(owner, len(labels))
            known = np.repeat(np.arange(len(block.pointer) - 1), np.diff(block.pointer)) * block.n_codes + block.codes
            number = {key: f for f, key in enumerate(known.tolist())}
            found = [number.get(key, -1) for key in (which.ids.astype(np.int64) * block.n_codes + codes[t]).tolist()]
            column = np.array(found, dtype=np.int64)
            kept = (column >= 0) & (t >= first)
            places = (sentence[kept], segment.start + column[kept])
            counts += csr_matrix((np.ones(kept.sum()), places), shape=counts.shape)
        return counts

    def referee(self, weights, sentences=None, label_column=None):
        """Loss and gradient from the definition."""
        rows, loss, gradient = self.corpus.rows(), 0.0, np.zeros(self.features.n_features)
        for s in range(len(rows)) if sentences is None else sentences:
            importance = 1.0 if self.sequence_weights is None else self.sequence_weights[s]
            labels = self.labels[self.corpus.offsets[s] : self.corpus.offsets[s + 1]]
            for c in self.encoder.templates.columns - {label_column}:
                values = sorted(set(self.corpus.columns[c].strings()))
                for t, row in enumerate(rows[s]):
                    others = [[*rows[s][:t], (*row[:c], value, *row[c + 1 :]), *rows[s][t + 1 :]] for value in values]
                    counts = self.counts(others, labels)
                    scores, gold = counts @ weights, values.index(row[c])
                    log_sum = logsumexp(scores)
                    loss += importance * (log_sum - scores[gold])
                    gradient += importance * (counts.T @ np.exp(scores - log_sum) - counts[[gold]].toarray()[0])
        return loss, gradient


@st.composite
def cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    words, tags = WORDS[: draw(st.integers(1, len(WORDS)))], ["X", "y", "Z"]
    rows = [[(str(rng.choice(words)), str(rng.choice(tags))) for _ in range(n)] for n in lengths]
    template = "\n".join(draw(st.lists(st.sampled_from(POOL), min_size=1, max_size=6, unique=True)))
    return Case(
        rows,
        rng.integers(0, draw(st.integers(1, 3)), sum(lengths)),
        template,
        draw(st.sampled_from(["observed", "all"])),
        draw(st.booleans()),
        draw(st.sampled_from([1, 2])),
        rng.random(len(lengths)) if draw(st.booleans()) else None,
    ), rng


@settings(max_examples=150, deadline=None)
@given(
    cases(),
    st.sampled_from([0.0, 1.0, 20.0, 200.0, 1000.0]),
    st.sampled_from([0.0, 1.0, 1e9]),  # classes for all macros, for those that join values, for none
    st.sampled_from([1, 1, 4, 1000]),
)
def test_loss_and_gradient_equal_brute_force(case_and_rng, scale, coarse_from, node_from):
    case, rng = case_and_rng
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(criteria_field_likelihood, "COARSE_FROM", coarse_from)
        patch.setattr(field_likelihood, "NODE_FROM", node_from)
        likelihood = case.likelihood()
    weights = scale * rng.choice([-1.0, 0.0, 1.0], case.features.n_features)
    if scale <= 20.0:
        weights += scale * rng.normal(size=len(weights))
    value, gradient = likelihood(weights)
    loss, by_counting = case.referee(weights)
    assert value == pytest.approx(loss, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(gradient, by_counting, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("weight", [10.0, 20.0, 40.0, 100.0, 200.0])
def test_a_class_whose_mass_the_node_took_away_keeps_its_gradient(weight):
    """The rate of a class is as large as its factor, exp(weight), and must not meet the context's mass of "aaa".

    Of context, node (after "p") and field (tag X):  "aaa" w - 2w + w,  its class 0 + 0 + w,  "c" w + 0 + 0.
    """
    spellings = ["aaa", "aaA", "aAa", "aAA", "Aaa", "AaA", "AAa", "AAA"]  # enough alike to be a class
    rows = [[("p", "Y"), (word, tag)] for word in [*spellings, "c"] for tag in "XY"]
    case = Case(rows, np.zeros(2 * len(rows)), "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nU2:%lower[0,0]/%x[0,1]", "all")
    share = {"U0:aaa": 1.0, "U0:c": 1.0, "U1:p/aaa": -2.0, "U2:aaa/X": 1.0}
    assert share.keys() <= set(case.encoder.names())
    weights = np.zeros(case.features.n_features)
    weights[case.features.slices[0]] = [weight * share.get(name, 0.0) for name in case.encoder.names()]
    value, gradient = case.likelihood()(weights)
    loss, by_counting = case.referee(weights)
    assert value == pytest.approx(loss, rel=1e-9)
    np.testing.assert_allclose(gradient, by_counting, rtol=1e-8, atol=1e-8)


@settings(max_examples=30, deadline=None)
@given(cases())
def test_gradient_equals_finite_differences(case_and_rng):
    case, rng = case_and_rng
    likelihood, weights = case.likelihood(), rng.normal(size=case.features.n_features)
    gradient = likelihood(weights)[1].copy()
    direction = rng.normal(size=len(weights))
    slope = (likelihood(weights + 1e-5 * direction)[0] - likelihood(weights - 1e-5 * direction)[0]) / 2e-5
    assert slope == pytest.approx(gradient @ direction, rel=1e-5, abs=1e-6)


def bundled_case(template, n_sentences=None):
    """The bundled chunking corpus, words and tags, as a case."""
    sentences = bundled_rows("train", "chunk")[:n_sentences]
    rows = [[row[:2] for row in sentence] for sentence in sentences]
    names = [row[2] for sentence in sentences for row in sentence]
    known = sorted(set(names))
    return Case(rows, [known.index(name) for name in names], template)


@pytest.mark.parametrize("name", ["chunking", "ner"])
@pytest.mark.parametrize("scale", [0.5, 5.0])
def test_named_sets_on_real_sentences(name, scale):
    case = bundled_case(template_text(name))
    lengths = np.diff(case.corpus.offsets)
    shortest = int(np.argmin(np.where(lengths >= 4, lengths, 99)))
    case.sequence_weights = np.eye(len(lengths))[shortest]  # so that brute force has one sentence to do
    weights = scale * np.random.default_rng(0).normal(size=case.features.n_features)
    value, gradient = case.likelihood()(weights)
    loss, by_counting = case.referee(weights, [shortest])
    assert value == pytest.approx(loss, rel=1e-9)
    np.testing.assert_allclose(gradient, by_counting, rtol=1e-7, atol=1e-9)


def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    case = bundled_case(template_text("ner"), 80)
    weights = np.random.default_rng(0).normal(size=case.features.n_features)
    whole = case.likelihood()(weights)
    monkeypatch.setattr(field_likelihood, "FIELDS_PER_SHARD", 100)
    value, gradient = case.likelihood()(weights)
    assert value == pytest.approx(whole[0], rel=1e-12)  # shards change the order of the sums, no more
    np.testing.assert_allclose(gradient, whole[1], rtol=1e-8, atol=1e-10)
    for n_threads in (2, 3, 8):
        again, other = case.likelihood(n_threads)(weights)
        assert again == value and np.array_equal(other, gradient)


def test_a_second_call_does_not_remember_the_first():
    case = bundled_case(template_text("chunking"), 20)
    likelihood, rng = case.likelihood(), np.random.default_rng(0)
    one, two = rng.normal(size=(2, case.features.n_features))
    value, gradient = likelihood(one)
    gradient = gradient.copy()
    likelihood(two)
    again, other = likelihood(one)
    assert again == value and np.array_equal(other, gradient)


def test_weights_of_zero_leave_every_value_as_likely():
    case = Case([[("a", "X"), ("b", "Y")], [("c", "X")]], [0, 1, 0], "U0:%x[0,0]\nU1:%x[0,1]")
    assert case.likelihood()(np.zeros(case.features.n_features))[0] == pytest.approx(3 * np.log(3) + 3 * np.log(2))


def test_the_label_column_is_no_field():
    rows = [[("a", "X"), ("b", "Y")], [("c", "X")]]
    case = Case(rows, [0, 1, 0], "U0:%x[0,0]\nU1:%x[0,1]/%x[0,0]")
    weights = np.random.default_rng(0).normal(size=case.features.n_features)
    for column in (1, -1):
        value, gradient = case.likelihood(label_column=column)(weights)
        loss, by_counting = case.referee(weights, label_column=1)
        assert value == pytest.approx(loss)
        np.testing.assert_allclose(gradient, by_counting, atol=1e-12)


def test_a_corpus_without_fields_or_tokens_has_no_loss():
    case = Case([[("a", "X")]], [0], "U0:constant")
    assert case.likelihood()(np.ones(case.features.n_features)) == (0.0, [0.0])
    case.corpus, case.labels = Columns.from_rows([]), np.zeros(0, dtype=np.int32)
    case.encoded = case.encoder.transform(case.corpus)
    assert case.likelihood()(np.ones(case.features.n_features))[0] == 0.0


def test_gazetteers_of_several_words_are_refused():
    case = Case([[("a", "X")]], [0], "U0:%x[0,0]")
    case.encoder = TemplateEncoder(
        TemplateSet.parse("U0:%gazetteer[0,0,known]"), {"known": Gazetteer("known", ["a", "new york"])}
    )
    case.encoder.fit(case.corpus)
    with pytest.raises(OptionError, match=r"U0:%gazetteer\[0,0,known\].*entries of one word"):
        case.likelihood()


def test_missing_labels_are_refused():
    case = Case([[("a", "X"), ("b", "X")]], [0, 1], "U0:%x[0,0]")
    case.labels[1] = -1
    with pytest.raises(OptionError, match="complete the labels"):
        case.likelihood()


def test_weights_that_went_to_infinity_give_no_crash():
    case = bundled_case(template_text("chunking"), 5)
    with np.errstate(all="ignore"):  # kernels as plain Python warn
        value, _ = case.likelihood()(np.full(case.features.n_features, np.inf))
    assert not np.isfinite(value)
