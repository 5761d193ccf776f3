"""A classifier as a tagger: what it decodes is the best by enumeration, and shortcuts give the slow way's numbers."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, MultinomialNB
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from loglinear import Constraints, Tagger
from loglinear.errors import InfeasibleError
from loglinear.estimators.tagger import local
from loglinear.estimators.tagger.local import FLOOR, LocalTagger
from loglinear.features.names import token_attributes
from loglinear.structures.chain.structure import Chain
from loglinear.structures.constraints import constraint_masks
from problems.classifiers import CLASSIFIERS, NAMES, Forgetful, features_of


@pytest.fixture(scope="module")
def features(data):
    return [features_of(sentence) for sentence in data[0]]


@pytest.fixture(scope="module")
def new_features(more_data):
    return [features_of(sentence) for sentence in more_data[0]]


class Referee:
    """The same classifier trained on rows made token by token, and scores of labellings one by one."""

    def __init__(self, tagger, X, y):
        self.labels, self.joined = sorted({label for labels in y for label in labels}), tagger.joined
        self.attributes = {name: a for a, name in enumerate(tagger.model_.encoder.names())}
        before = [pair for labels in y for pair in (None, *labels[:-1])]
        tokens = [token for sequence in X for token in sequence]
        self.pairs = sorted(
            {(self.attributes[a], self.labels.index(b)) for x, b in zip(tokens, before, strict=True) if b is not None
             for a, _ in token_attributes(x)}
        )  # fmt: skip
        rows = np.array([self.row(token, b) for token, b in zip(tokens, before, strict=True)])
        self.dense = tagger.model_.dense
        names = np.array([label for labels in y for label in labels])
        self.classifier = clone(tagger.classifier).fit(rows if self.dense else sp.csr_matrix(rows), names)

    def row(self, token, before):
        """Attributes, the label before, and their pairs."""
        known = [(self.attributes[name], v) for name, v in token_attributes(token) if name in self.attributes]
        values, context = np.zeros(len(self.attributes)), np.zeros(len(self.labels) + 1)
        for a, v in known:
            values[a] += v
        b = len(self.labels) if before is None else self.labels.index(before)
        context[b] = 1
        if not self.joined:
            return np.concatenate([values, context])
        joined = np.zeros(len(self.pairs))
        for a, v in known:
            if (a, b) in self.pairs:
                joined[self.pairs.index((a, b))] += v
        return np.concatenate([values, context, joined])

    def local(self, token, before):
        """{label: score} of a token after a label."""
        row = self.row(token, before)[None]
        row = row if self.dense else sp.csr_matrix(row)
        if hasattr(self.classifier, "predict_proba"):
            with np.errstate(divide="ignore"):
                log = getattr(self.classifier, "predict_log_proba", lambda r: np.log(self.classifier.predict_proba(r)))
                scores = np.maximum(log(row)[0], FLOOR)
        else:
            scores = np.ravel(self.classifier.decision_function(row))
            scores = np.array([-scores[0], scores[0]]) if len(scores) == 1 else scores
        return dict(zip(self.classifier.classes_, scores, strict=True))

    def all_scores(self, sequence):
        """{labelling: score} of all labellings."""
        first = self.local(sequence[0], None)
        after = [{before: self.local(token, before) for before in self.labels} for token in sequence[1:]]
        return {
            y: first[y[0]] + sum(after[t][a][b] for t, (a, b) in enumerate(pairwise(y)))
            for y in product(self.labels, repeat=len(sequence))
        }

    def check(self, tagger, sequence):
        """The labelling found is a best one, with its probability in the chain of these scores."""
        scores = self.all_scores(sequence)
        best, log_z = max(scores.values()), logsumexp(list(scores.values()))
        labels = tagger.predict_single(sequence)
        assert scores[tuple(labels)] == pytest.approx(best, rel=1e-6, abs=1e-6)
        assert tagger.log_probability([sequence], [labels])[0] == pytest.approx(best - log_z, rel=1e-6, abs=1e-6)
        two = tagger.predict_nbest([sequence], 2)[0]
        expected = sorted(scores.values(), reverse=True)[: len(two)]
        assert [p for _, p in two] == pytest.approx(np.exp(np.array(expected) - log_z), rel=1e-5, abs=1e-9)


# -- decoding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=NAMES)
def test_decoding_is_the_best_by_enumeration(data, features, new_features, classifier, joined):
    X, y = features[:40], data[1][:40]
    tagger = LocalTagger(classifier, joined=joined).fit(X, y)
    referee = Referee(tagger, X, y)
    for sequence in [sequence for sequence in new_features if len(sequence) <= 4][:6]:
        referee.check(tagger, sequence)


@st.composite
def corpora_of_lists(draw):
    """Random feature lists (repeated ones too) and labels, at least two labels in all."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=2, max_size=6))
    token = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3)
    n_labels = draw(st.integers(2, 3))
    X = [[draw(token) for _ in range(n)] for n in lengths]
    y = [[draw(st.sampled_from("PQR"[:n_labels])) for _ in range(n)] for n in lengths]
    y[0][0], y[1][0] = "P", "Q"
    return X, y


@settings(max_examples=40)
@given(
    corpora_of_lists(),
    st.booleans(),
    st.sampled_from(
        [
            LogisticRegression(),
            LinearSVC(random_state=0),
            RidgeClassifier(),
            BernoulliNB(),
            DecisionTreeClassifier(random_state=0),
        ]
    ),
)
def test_any_small_corpus(corpus, joined, classifier):
    X, y = corpus
    tagger = LocalTagger(classifier, joined=joined, threads=1).fit(X, y)
    referee = Referee(tagger, X, y)
    for sequence in [*X[:2], [["a", "z"], ["d", "d"], []]]:
        referee.check(tagger, sequence)


@pytest.mark.parametrize("n_labels", [2, 4])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize(
    ("classifier", "linear"),
    [
        (LogisticRegression(), {2, 4}),
        (LogisticRegression(fit_intercept=False), {2, 4}),
        (LinearSVC(random_state=0), {2, 4}),
        (RidgeClassifier(), {2, 4}),
        (SGDClassifier(random_state=0), {2, 4}),
        (
            LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
            {4},
        ),  # of two labels, one has 1 - p, and loses digits
        (SGDClassifier(loss="log_loss", random_state=0), {2}),  # of more labels it is one against the rest
        (SVC(kernel="linear"), {2}),  # of more labels its weights are those of pairs
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_linear_shortcut_gives_the_numbers_of_asking(
    data, features, new_features, classifier, linear, joined, n_labels
):
    y = data[1] if n_labels == 4 else [["N" if "NP" in label else "O" for label in labels] for labels in data[1]]
    tagger = LocalTagger(classifier, joined=joined).fit(features, y)
    model = tagger.model_
    assert model.linear == (n_labels in linear)
    encoded = tagger._encode(new_features, None)[0]
    slow, lo, hi = replace(model, linear=False).part_scores(encoded, 2, 20), encoded.offsets[2], encoded.offsets[20]
    quick, chain = model.part_scores(encoded, 2, 20), Chain(encoded.offsets[2:21] - lo)
    for labelling in np.random.default_rng(0).integers(0, n_labels, (20, hi - lo)).astype(np.int32):
        assert chain.score(quick, labelling) == pytest.approx(chain.score(slow, labelling), rel=1e-9, abs=1e-8)


def test_logistic_regression_is_the_memm(data, features, new_features):
    """The same objective has the same optimum; a MEMM has no weight for the start, so it gets one as a feature."""
    l2 = 0.5

    def marked(X):
        return [[{**token, "start": True} if t == 0 else token for t, token in enumerate(x)] for x in X]

    memm = Tagger(criterion="memm", l2=l2, states="all", transitions="all", tolerance=1e-12, max_iter=5000)
    memm.fit(marked(features), data[1])
    local = LocalTagger(LogisticRegression(C=1 / (2 * l2), fit_intercept=False, tol=1e-8, max_iter=5000))
    local.fit(features, data[1])
    assert local.predict(new_features) == memm.predict(marked(new_features))
    ours, theirs = (t.log_probability(x, memm.predict(marked(new_features)))
                    for t, x in ((local, new_features), (memm, marked(new_features))))  # fmt: skip
    assert ours == pytest.approx(theirs, abs=2e-3)


@pytest.mark.parametrize("classifier", CLASSIFIERS[:4], ids=NAMES[:4])
def test_sizes_of_calls_make_no_difference(data, more_data, classifier, monkeypatch):
    tagger = LocalTagger(classifier, template="words", threads=1).fit(*data)
    tagger.model_.linear = False
    whole = tagger.model_.marginals(tagger._encode(more_data[0], None)[0])
    monkeypatch.setattr(local, "MOST_ROWS", 7)
    monkeypatch.setattr(local, "MOST_DENSE", 1000)
    monkeypatch.setattr(local, "runs", lambda offsets, first, end, most: [(i, i + 1) for i in range(end)])
    pieces = tagger.model_.marginals(tagger._encode(more_data[0], None)[0], n_threads=3)
    assert pieces == pytest.approx(whole, abs=1e-9)


# -- probabilities, constraints, what is known -----------------------------------------------------------------------


@pytest.mark.parametrize("classifier", CLASSIFIERS[:4], ids=NAMES[:4])
def test_probabilities_add_up(data, features, new_features, classifier):
    tagger = LocalTagger(classifier).fit(features, data[1])
    sequence = next(x for x in new_features if len(x) == 3)
    ranked = tagger.predict_nbest([sequence], 4**3)[0]
    assert len(ranked) == 4**3
    assert sum(p for _, p in ranked) == pytest.approx(1.0)
    for t, token in enumerate(tagger.predict_marginals_single(sequence)):
        for label, probability in token.items():
            assert probability == pytest.approx(sum(p for labels, p in ranked if labels[t] == label), abs=1e-9)


@pytest.mark.parametrize("decoding", ["viterbi", "posterior", "min-risk"])
@pytest.mark.parametrize("classifier", CLASSIFIERS[:6], ids=NAMES[:6])
def test_constraints_hold(data, more_data, classifier, decoding):
    if isinstance(classifier, LogisticRegression | LinearSVC):
        classifier = clone(classifier).set_params(C=1e-4)  # so little learnt that without constraints they break
    tagger = LocalTagger(classifier, template="U:%x[-1,0]\nB", constraints="bio").fit(*data)
    follow, start, _ = constraint_masks("bio", tagger.classes_)
    number = {label: y for y, label in enumerate(tagger.classes_)}
    for labels in tagger.predict(more_data[0], decoding=decoding):
        assert start[number[labels[0]]]
        assert all(follow[number[a], number[b]] for a, b in pairwise(labels))


@pytest.mark.parametrize("classifier", [LogisticRegression(), LinearSVC(random_state=0), MultinomialNB()])
def test_of_the_labellings_the_constraints_leave_the_best_is_found(classifier):
    """In training no a stands beside another, so that of several in a row only the constraints can tell."""
    X, y = [[["a"], ["b"], ["a"]], [["b"], ["a"]]] * 3, [["A", "B", "A"], ["B", "A"]] * 3
    rules, sequence = Constraints(forbidden=[("A", "A")], ends=["A"]), [["a"], ["a"], ["b"], ["b"]]
    tagger = LocalTagger(classifier, constraints=rules).fit(X, y)
    possible = {
        labels: score
        for labels, score in Referee(tagger, X, y).all_scores(sequence).items()
        if ("A", "A") not in pairwise(labels) and labels[-1] == "A"
    }
    found = tagger.predict_single(sequence)
    assert possible[tuple(found)] == pytest.approx(max(possible.values()), rel=1e-6)
    assert found != LocalTagger(classifier).fit(X, y).predict_single(sequence)
    assert sum(p for _, p in tagger.predict_nbest([sequence], 16)[0]) == pytest.approx(1.0)
    assert len(tagger.predict_nbest([sequence], 16)[0]) == len(possible)


@pytest.mark.parametrize("classifier", CLASSIFIERS[:6], ids=NAMES[:6])
def test_what_is_given_stays_even_where_the_classifier_says_zero(data, features, new_features, classifier):
    tagger = LocalTagger(classifier).fit(features, data[1])
    rng = np.random.default_rng(0)
    known = [[tagger.classes_[rng.integers(4)] if t % 2 else None for t in range(len(x))] for x in new_features]
    for found, wanted in zip(tagger.predict(new_features, given=known), known, strict=True):
        assert all(w is None or f == w for f, w in zip(found, wanted, strict=True))
    everything = [[label or "O" for label in labels] for labels in known]
    assert np.isfinite(tagger.log_probability(new_features, everything)).all()


def test_one_label_needs_no_classifier():
    tagger = LocalTagger(LogisticRegression()).fit([[["a"], ["b"]], [["a"]]], [["X", "X"], ["X"]])
    assert tagger.predict([[["c"], ["a"], ["b"]]]) == [["X", "X", "X"]]
    assert tagger.predict_marginals_single([["a"]]) == [{"X": pytest.approx(1.0)}]


@pytest.mark.parametrize("classifier", CLASSIFIERS[:6], ids=NAMES[:6])
def test_labels_that_never_stood_before_another(classifier):
    X = [[["a"], ["b"], ["c"]], [["b"], ["a"], ["c"]]] * 4
    y = [["A", "B", "C"], ["B", "A", "C"]] * 4  # C ends every sequence
    tagger = LocalTagger(classifier).fit(X, y)
    assert tagger.predict([X[0]]) == [y[0]]
    Referee(tagger, X, y).check(tagger, [["c"], ["c"], ["a"]])
    assert tagger.predict([X[0]], given=[["C", "C", "C"]]) == [["C", "C", "C"]]


def test_labels_the_classifier_lacks_cannot_occur(data, features, new_features):
    tagger = LocalTagger(Forgetful()).fit(features, data[1])
    assert "O" in tagger.classes_
    assert not any("O" in labels for labels in tagger.predict(new_features))
    assert all(token["O"] == 0.0 for x in tagger.predict_marginals(new_features) for token in x)
    with pytest.raises(InfeasibleError):
        tagger.predict(new_features, given=[["O"] * len(x) for x in new_features])


def test_without_a_b_line_every_token_is_by_itself(data, more_data):
    tagger = LocalTagger(LogisticRegression(), template="U:%x[0,0]\nU:%x[0,1]").fit(*data)
    encoded = tagger._encode(more_data[0], None)[0]
    rows, _ = tagger.model_.columns.attributes(encoded, 0, encoded.n_positions)
    assert [label for x in tagger.predict(more_data[0]) for label in x] == tagger.classifier_.predict(rows).tolist()
    tagger.model_.linear = False
    assert [label for x in tagger.predict(more_data[0]) for label in x] == tagger.classifier_.predict(rows).tolist()
