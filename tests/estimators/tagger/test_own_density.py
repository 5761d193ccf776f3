"""Densities over a base of the user's own, by its draws: probabilities, the normaliser and samples."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from loglinear import Tagger
from loglinear.data.columns.corpus import Columns
from loglinear.errors import OptionError
from loglinear.generative.base import OwnBase
from loglinear.structures.constraints import Constraints
from problems.distributions import OfFeatures

WORDS, LABELS, STOP = ["a", "b"], ["P", "Q"], 0.7
TEMPLATE = "U0:%x[0,0]\nB\n"
WINDOW = "U0:%x[0,0]\nU1:%x[-1,0]/%x[0,0]\nB\n"


class Tiny:
    """A hidden Markov model of two labels and two words, of short sequences."""

    start, step = np.array([0.6, 0.4]), np.array([[0.7, 0.3], [0.2, 0.8]])
    emission = np.array([[0.9, 0.1], [0.3, 0.7]])

    def log_prob(self, x, y):
        labels, words = [LABELS.index(label) for label in y], [WORDS.index(word) for (word,) in x]
        p = np.log(self.start[labels[0]]) + np.log(STOP) + (len(y) - 1) * np.log(1 - STOP)
        p += sum(np.log(self.step[a, b]) for a, b in pairwise(labels))
        return p + sum(np.log(self.emission[label, word]) for label, word in zip(labels, words, strict=True))

    def sample(self, n, rng):
        drawn = []
        for _ in range(n):
            y = [int(rng.random() < self.start[1])]
            while rng.random() >= STOP:
                y.append(int(rng.random() < self.step[y[-1], 1]))
            words = [int(rng.random() < self.emission[label, 1]) for label in y]
            drawn.append(([(WORDS[w],) for w in words], [LABELS[label] for label in y]))
        return drawn


class TinyWithScores(Tiny):
    def scores(self, x, labels):
        return {
            "emission": np.log([[self.emission[LABELS.index(y), WORDS.index(w)] for y in labels] for (w,) in x]),
            "transition": np.log(self.step * (1 - STOP)),
            "start": np.log(self.start),
            "stop": np.full(2, np.log(STOP)),
        }


BOTH = pytest.mark.parametrize("base", [Tiny, TinyWithScores], ids=["log_prob", "scores"])


def tilted(base, template=TEMPLATE, scale=0.5, **options):
    """A tagger over a base, with weights drawn at random."""
    drawn = Tiny().sample(200, np.random.default_rng(0))
    X, y = [[word for (word,) in x] for x, _ in drawn], [labels for _, labels in drawn]
    own = OwnBase(base(), samples=200) if isinstance(base, type) else base
    tagger = Tagger(criterion="m-estimation", base=own, template=template, variance=1.0, **options).fit(X, y)
    weights = np.random.default_rng(1).normal(scale=scale, size=tagger.model_.features.n_features)
    tagger.model_ = replace(tagger.model_, weights=weights)
    return tagger


def everything(longest):
    """All inputs and labellings of up to ``longest`` positions."""
    inputs = [list(x) for t in range(1, longest + 1) for x in product(WORDS, repeat=t)]
    return [(x, list(y)) for x in inputs for y in product(LABELS, repeat=len(x))]


def log_z_of(tagger, longest=6):
    pairs = everything(longest)
    return np.logaddexp.reduce(tagger.log_prob([x for x, _ in pairs], [y for _, y in pairs], normalised=False))


@BOTH
@pytest.mark.parametrize("template", [TEMPLATE, WINDOW], ids=["single", "window"])
def test_the_normaliser_is_within_its_error_of_all_sequences(base, template):
    tagger = tilted(base, template)
    found = tagger.log_normaliser(draws=2_000, seed=2)
    assert 0.0 < found.standard_error < 0.05 and found.draws == 2_000 and not found.exact
    assert found.effective_sample_size > 500
    assert abs(found.value - log_z_of(tagger)) < 4 * found.standard_error + 1e-3
    assert tagger.log_normaliser(draws=2_000, seed=2) is found


class OfHmm:
    """The base of a trained tagger, as an object of the user's."""

    def __init__(self, base):
        self.base = base

    def _fields(self, x):
        return [np.array([self.base.vocabulary.values[0].index(word) for (word,) in x], dtype=np.int32)]

    def scores(self, x, labels):
        return self.base.model.scores(self._fields(x), np.array([0, len(x)]))

    def log_prob(self, x, y):
        from loglinear.structures.chain.structure import Chain

        return float(Chain([0, len(x)]).score(self.scores(x, LABELS), [LABELS.index(label) for label in y])[0])

    def sample(self, n, rng):
        corpus, labels = self.base.draw(n, rng)
        names = [LABELS[y] for y in labels.tolist()]
        bounds = corpus.offsets.tolist()
        return [(x, names[lo:hi]) for x, (lo, hi) in zip(corpus.rows(), pairwise(bounds), strict=True)]


def test_a_base_that_is_a_hidden_markov_model_agrees_with_the_exact_density():
    drawn = Tiny().sample(300, np.random.default_rng(3))
    X, y = [[word for (word,) in x] for x, _ in drawn], [labels for _, labels in drawn]
    exact = Tagger(criterion="m-estimation", template=TEMPLATE, variance=1.0, precision="float64").fit(X, y)
    same = OfHmm(exact.model_.base)
    tagger = Tagger(criterion="m-estimation", base=OwnBase(same, samples=200), template=TEMPLATE).fit(X, y)
    weights = tagger.model_.weights_from(exact.model_)
    tagger.model_ = replace(tagger.model_, weights=weights)
    known, found = exact.log_normaliser(), tagger.log_normaliser(draws=1_500)
    assert known.exact and abs(found.value - known.value) < 4 * found.standard_error
    np.testing.assert_allclose(
        tagger.log_prob(X[:20], normalised=False), exact.log_prob(X[:20], normalised=False), rtol=1e-9
    )
    np.testing.assert_allclose(
        tagger.log_prob(X[:20], y[:20], draws=1_500), exact.log_prob(X[:20], y[:20]), atol=4 * found.standard_error
    )


@BOTH
def test_probabilities_of_inputs_and_partial_labels_are_sums(base):
    tagger = tilted(base, WINDOW)
    x = ["a", "b", "b"]
    each = {y: tagger.log_prob([x], [list(y)], normalised=False)[0] for y in product(LABELS, repeat=3)}
    assert tagger.log_prob([x], normalised=False)[0] == pytest.approx(np.logaddexp.reduce(list(each.values())))
    some = [value for y, value in each.items() if y[1] == "Q"]
    partial = tagger.log_prob([x], [[None, "Q", {"P", "Q"}]], normalised=False)[0]
    assert partial == pytest.approx(np.logaddexp.reduce(some))


@BOTH
def test_what_constraints_rule_out_has_no_weight(base):
    tagger = tilted(base)
    tagger.model_ = replace(tagger.model_, constraints=Constraints(forbidden=(("Q", "P"),)))
    assert tagger.log_prob([["a", "b"]], [["Q", "P"]], normalised=False)[0] == -np.inf
    found = tagger.log_normaliser(draws=1_000)
    assert abs(found.value - log_z_of(tagger)) < 4 * found.standard_error + 1e-3
    assert ("Q", "P") not in {pair for row in tagger.sample(50, seed=1, draws=1_000)[1] for pair in pairwise(row)}


@BOTH
def test_draws_have_the_frequencies_of_the_density(base):
    tagger = tilted(base, WINDOW)
    X, y = tagger.sample(1_500, seed=4, draws=4_000)
    drawn = Counter((tuple(x), tuple(labels)) for x, labels in zip(X, y, strict=True))
    pairs, log_z = everything(2), log_z_of(tagger)
    p = np.exp(tagger.log_prob([x for x, _ in pairs], [labels for _, labels in pairs], normalised=False) - log_z)
    found = np.array([drawn[tuple(x), tuple(labels)] for x, labels in pairs])
    assert np.abs(found / 1_500 - p).max() < 0.06
    assert (X, y) == tagger.sample(1_500, seed=4, draws=4_000) != tagger.sample(1_500, seed=5, draws=4_000)


@BOTH
def test_weights_of_zero_leave_the_base(base):
    tagger = tilted(base, scale=0.0)
    assert tagger.log_normaliser().value == 0.0 and tagger.log_normaliser().exact
    assert tagger.log_prob([["a", "b"]], [["P", "Q"]])[0] == pytest.approx(
        Tiny().log_prob([("a",), ("b",)], ["P", "Q"])
    )
    X, _ = tagger.sample(400, "exact", seed=1)
    assert abs(np.mean([len(x) for x in X]) - 1 / STOP) < 0.15


def test_files_columns_and_ready_made_features():
    tagger = tilted(TinyWithScores, WINDOW)
    again = Tagger.load(tagger.to_bytes(), base=OwnBase(TinyWithScores(), samples=200))
    assert again.sample(5, seed=3, draws=500)[1]
    corpus = Columns.from_rows([[("P", "a"), ("Q", "b")], [("P", "b")], [("Q", "a")]])
    options = {"criterion": "m-estimation", "template": "U:%x[0,1]\nB", "variance": 0.5}
    between = Tagger(base=OwnBase(Tiny(), samples=100), **options).fit(corpus, label_column=0)
    rows, labels = between.sample(3, seed=1, draws=300)
    assert [[label for label, _ in x] for x in rows] == labels
    X, y = map(list, zip(*OfFeatures().sample(40, np.random.default_rng(0)), strict=True))
    own = Tagger(criterion="m-estimation", base=OwnBase(OfFeatures(), samples=500), l2=0.02).fit(X, y)
    rows, labels = own.sample(4, seed=1, draws=500)
    assert all(token in ({"up": 1.0}, {"down": 1.0}) for x in rows for token in x)
    assert np.isfinite(own.log_prob(rows, labels, draws=500)).all()
    with pytest.raises(OptionError, match="no columns; sample gives them"):
        own.sample_columns(2, draws=500)


def test_what_cannot_be_asked_is_refused_and_few_effective_draws_are_said():
    tagger = tilted(Tiny)
    with pytest.raises(OptionError, match="its labellings are summed one by one"):
        tagger.log_prob([["a"] * 14], normalised=False)
    with pytest.raises(OptionError, match=r"steps=3: .* take more draws"):
        tagger.log_normaliser(steps=3)
    for method in ("exact", "gibbs"):
        with pytest.raises(OptionError, match=f"method='{method}' is for models over a hidden Markov model"):
            tagger.sample(3, method)
    with pytest.raises(OptionError, match="not one of auto"):
        tagger.sample(3, "slice")
    far = tilted(Tiny, WINDOW, scale=4.0)
    with pytest.warns(UserWarning, match="effective draws"):
        far.log_normaliser(draws=200)
    with pytest.warns(UserWarning, match="are worth"):
        far.sample(100, draws=200)
