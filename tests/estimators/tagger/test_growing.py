"""Taggers that grow: a stream of calls against a learner in plain Python, what is kept, and what is refused."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import Tagger
from loglinear.errors import DataError, ModelFileError, OptionError

EXACT = {"precision": "float64"}


def stream_of(rng, calls=3, n=4, most=4):
    """Batches of sequences with real-valued features; each brings attributes and, as a rule, labels of its own."""
    batches = []
    for call in range(calls):
        X, y = [], []
        for _ in range(n):
            length = int(rng.integers(1, most + 1))
            names = [f"a{i}" for i in range(2 * call + 3)]
            X.append([{k: float(rng.normal()) for k in rng.choice(names, 2, replace=False)} for _ in range(length)])
            y.append([f"L{int(rng.integers(0, min(call + 2, 3)))}" for _ in range(length)])
        batches.append((X, y))
    return batches


class PlainPerceptron:
    """Averaged perceptron over dicts: features are those observed so far, or all pairs."""

    def __init__(self, seed, states, average=True):
        self.seed, self.states, self.average = seed, states, average
        self.w, self.sums, self.steps, self.labels, self.names, self.calls = {}, {}, 0, set(), set(), 0

    def features(self, x, y):
        found = {}
        for t, token in enumerate(x):
            for name, value in token.items():
                found[name, y[t]] = found.get((name, y[t]), 0.0) + value
            if t:
                found["->", y[t - 1], y[t]] = found.get(("->", y[t - 1], y[t]), 0.0) + 1.0
        return {key: value for key, value in found.items() if key in self.w}

    def best(self, x, w):
        """The best labelling; of several, as a search from the end finds it, the one with the first labels there."""

        def score(y):
            return round(sum(w[key] * value for key, value in self.features(x, y).items()), 9)

        labellings = sorted(itertools.product(sorted(self.labels), repeat=len(x)), key=lambda y: y[::-1])
        return max(labellings, key=score)

    def partial_fit(self, X, y):
        self.calls += 1
        self.labels |= set(itertools.chain(*y))
        self.names |= {name for x in X for token in x for name in token}
        for x, own in zip(X, y, strict=True):
            for t, token in enumerate(x):
                for name in token:
                    self.w.setdefault((name, own[t]), 0.0)
                if t:
                    self.w.setdefault(("->", own[t - 1], own[t]), 0.0)
        if self.states == "all":
            for pair in itertools.product(self.names, self.labels):
                self.w.setdefault(pair, 0.0)
        for i in np.random.default_rng([self.seed, self.calls]).permutation(len(X)):
            guess = self.best(X[i], self.w)
            if guess != tuple(y[i]):
                for key, value in self.features(X[i], y[i]).items():
                    self.w[key] += value
                for key, value in self.features(X[i], guess).items():
                    self.w[key] -= value
            self.steps += 1
            for key, value in self.w.items():
                self.sums[key] = self.sums.get(key, 0.0) + value
        return self

    def weights(self):
        return {k: self.sums[k] / self.steps for k in self.w} if self.average else dict(self.w)


def weights_of(tagger):
    edges = {("->", *pair): weight for pair, weight in tagger.transition_weights_.items()}
    return tagger.state_weights_ | edges


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), states=st.sampled_from(["observed", "all"]), average=st.booleans())
def test_a_stream_of_the_perceptron_is_that_of_a_plain_one(seed, states, average):
    batches = stream_of(np.random.default_rng(seed))
    plain = PlainPerceptron(seed, states, average)
    spec = None if average else "online:average=no"
    tagger = Tagger("perceptron", seed=seed, states=states, optimizer=spec, threads=1, **EXACT)
    for X, y in batches:
        plain.partial_fit(X, y)
        tagger = Tagger.load(tagger.partial_fit(X, y).to_bytes())  # a file in between changes nothing
        found, wanted = weights_of(tagger), plain.weights()
        assert set(found) == set(wanted)
        np.testing.assert_allclose([found[key] for key in wanted], list(wanted.values()), atol=1e-12)
        assert tagger.classes_ == sorted(plain.labels)
    assert tagger.n_iter_ == len(batches) and tagger.stream_.state.n_steps == plain.steps


@pytest.mark.parametrize("criterion", ["mira", "passive-aggressive", "perceptron"])
def test_one_call_is_one_pass_of_fit(criterion):
    (X, y), _, _ = stream_of(np.random.default_rng(3), n=12)
    one = Tagger(criterion, max_iter=1, **EXACT).fit(X, y)
    call = Tagger(criterion, **EXACT).partial_fit(X, y)
    fitted, found = weights_of(one), weights_of(call)
    assert {key for key, weight in found.items() if weight} == set(fitted)
    assert all(found[key] == weight for key, weight in fitted.items())


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "sgd:average=yes"])
def test_one_call_is_one_pass_of_fit_with_penalties(optimizer):
    (X, y), _, _ = stream_of(np.random.default_rng(3), n=12)
    one = Tagger(optimizer=optimizer, max_iter=1, l2=0.3, **EXACT).fit(X, y)
    call = Tagger(optimizer=optimizer, l2=0.3, **EXACT).partial_fit(X, y)
    assert weights_of(one) == weights_of(call)


@pytest.mark.parametrize("optimizer", ["sgd:step=0.1", "adagrad:step=0.1"])
def test_penalties_after_fit_count_the_data_that_it_saw(optimizer, tmp_path):
    first, second, _ = stream_of(np.random.default_rng(3), n=40)
    few = [part[:1] for part in second]
    fitted = Tagger(optimizer=optimizer, l2=1.0, **EXACT).fit(*first)
    assert fitted.n_examples_ == 40
    fitted.save(tmp_path / "m")
    before, after = weights_of(fitted), Tagger.load(tmp_path / "m").partial_fit(*few)
    assert after.n_examples_ == 41 and weights_of(fitted.partial_fit(*few)) == weights_of(after)
    own = {name for x in few[0] for token in x for name in token}
    untouched = [key for key in before if key[0] != "->" and key[0] not in own]
    kept = weights_of(after)
    assert all(0.9 * abs(before[key]) <= abs(kept[key]) <= abs(before[key]) for key in untouched)
    unknown = Tagger.load(tmp_path / "m")  # of a model that does not say, nothing is paid
    unknown.n_examples_ = None
    unknown.partial_fit(*few).save(tmp_path / "m")
    again = Tagger.load(tmp_path / "m")
    assert again.n_examples_ is None and again.stream_.n_before is None
    free = Tagger.load(tmp_path / "m").set_params(l2=0.0)
    free.stream_ = again.stream_
    assert weights_of(again.partial_fit(*second)) == weights_of(free.partial_fit(*second))


@pytest.mark.parametrize("options", [
    {"criterion": "perceptron"}, {"criterion": "cll", "order": 2}, {"criterion": "cll", "pair_features": True},
    {"criterion": "cll", "pair_features": "only"}, {"criterion": "softmax-margin", "hash_bits": 10},
    {"criterion": "cll", "sub_labels": 2}, {"criterion": "mira", "order": 3}, {"criterion": "memm"},
    {"criterion": "cll", "optimizer": "adagrad", "l1": 0.01}, {"criterion": "max-margin", "min_freq": 0.5},
])  # fmt: skip
def test_what_is_kept_and_what_grows(options):
    first, second, _ = stream_of(np.random.default_rng(8), n=8)
    tagger = Tagger(seed=1, threads=1, **{**options, **EXACT}).partial_fit(*first)
    before = weights_of(tagger)
    again = pickle.loads(pickle.dumps(tagger))
    nothing = tagger.model_
    tagger.partial_fit(*second)
    after = weights_of(tagger)
    assert set(before) <= set(after) and len(after) > len(before)
    assert nothing.features.n_features < tagger.model_.features.n_features
    assert again.partial_fit(*second).to_bytes() == tagger.to_bytes()  # by seed, and after a pickle
    loaded = Tagger.load(tagger.to_bytes())
    assert loaded.predict(second[0]) == tagger.predict(second[0])
    assert loaded.partial_fit(*first).to_bytes() == tagger.partial_fit(*first).to_bytes()


def test_a_step_of_length_zero_keeps_every_weight():
    first, second, third = stream_of(np.random.default_rng(5), n=8)
    tagger = Tagger(l2=0.1, **EXACT).fit(*first)
    before = weights_of(tagger)
    tagger.set_params(optimizer="sgd:step=1e-300", l2=0.0).partial_fit(*second).partial_fit(*third)
    after = weights_of(tagger)
    assert set(before) <= set(after) and len(after) > len(before)
    for key, weight in after.items():
        assert weight == pytest.approx(before.get(key, 0.0), abs=1e-200)


def test_templates_grow(data, more_data):
    X, y = data
    tagger = Tagger("perceptron", template="chunking", seed=2)
    for i in range(0, len(X), 10):
        tagger.partial_fit(X[i : i + 10], y[i : i + 10])
    whole = Tagger("perceptron", template="chunking", seed=2).partial_fit(X, y)
    names, wanted = set(tagger.model_.encoder.names()), set(whole.model_.encoder.names())
    assert names == wanted and tagger.classes_ == whole.classes_
    assert tagger.model_.features.n_features == whole.model_.features.n_features
    assert abs(tagger.score(*more_data) - whole.score(*more_data)) < 0.1 < tagger.score(*more_data)


def test_constraints_hold_for_labels_to_come():
    """A scheme rules out what it rules out, also for types that come after the model was loaded."""
    tokens = [{"a": 1.0}, {"b": 1.0}, {"c": 1.0}]
    tagger = Tagger("perceptron", constraints="bio").partial_fit([tokens], [["B-X", "I-X", "O"]])
    tagger = Tagger.load(tagger.to_bytes()).partial_fit([tokens], [["O", "B-NEW", "I-NEW"]])
    plain = Tagger("perceptron", constraints="bio").problem(
        [tokens] * 2, [["B-X", "I-X", "O"], ["O", "B-NEW", "I-NEW"]]
    )
    np.testing.assert_array_equal(tagger.model_.penalties.transition, plain.model.penalties.transition)
    np.testing.assert_array_equal(tagger.model_.penalties.start, plain.model.penalties.start)
    assert np.isneginf(plain.model.penalties.transition).any()


def test_memory_is_that_of_the_features(data):
    """Calls that bring nothing new leave the model as large as it was."""
    X, y = data
    tagger = Tagger("perceptron", template="words").partial_fit(X, y)
    size = len(tagger.to_bytes())
    for _ in range(5):
        tagger.partial_fit(X, y)
    assert len(tagger.to_bytes()) - size < 64  # digits of counts


def test_classes_named_before_they_are_seen():
    X, y = [[{"a": 1.0}]], [["A"]]
    tagger = Tagger("perceptron").partial_fit(X, y, classes=["B", "A"])
    assert tagger.classes_ == ["A", "B"]
    assert tagger.partial_fit(X, y, classes=["C"]).classes_ == ["A", "B", "C"]
    assert tagger.partial_fit(X, [["D"]]).classes_ == ["A", "B", "C", "D"]
    with pytest.raises(OptionError, match="classes='AB' is not a list of labels"):
        tagger.partial_fit(X, y, classes="AB")


def test_a_warm_start_that_keeps_everything():
    first, second, _ = stream_of(np.random.default_rng(11), n=10)
    old = Tagger(**EXACT).fit(*first)
    dropped, grown = (Tagger(max_iter=0, **EXACT).fit(*second, init=old, grow=grow) for grow in (False, True))
    assert weights_of(grown) == weights_of(old)  # features of weight 0 are not kept after fit
    assert set(weights_of(dropped)) < set(weights_of(old))
    trained = Tagger(l2=0.0, max_iter=30).fit(*second, init=old, grow=True)
    assert trained.classes_ == ["L0", "L1", "L2"] and set(weights_of(old)) <= set(weights_of(trained))
    assert trained.score(*second) > old.score(*second)
    with pytest.raises(OptionError, match="grow=True needs a model to start from"):
        Tagger().fit(*second, grow=True)


def test_another_criterion_and_fit_begin_anew():
    first, second, _ = stream_of(np.random.default_rng(1))
    tagger = Tagger("perceptron").partial_fit(*first).partial_fit(*second)
    assert tagger.set_params(criterion="mira").partial_fit(*second).n_iter_ == 1
    assert tagger.fit(*second).stream_ is None
    assert tagger.partial_fit(*second).pruned(0.5).stream_ is None


@pytest.mark.parametrize(("options", "message"), [
    ({"optimizer": "lbfgs"}, "needs all data at once.*sgd or adagrad.*grow=True"),
    ({"optimizer": "dual"}, "needs all data at once"),
    ({"criterion": "f-measure"}, "is trained on all data at once"),
    ({"criterion": "m-estimation", "template": "words"}, "is trained on all data at once"),
    ({"criterion": "hmm"}, "is trained on all data at once"),
    ({"structure": "segments"}, "a model of segments does not grow"),
    ({"states": "probable:0.2"}, "half-way through training"),
    ({"prune": 0.5}, "call pruned"),
    ({"criterion": "nota:threshold=0.1"}, "several phases"),
    ({"criterion": "nota:scaling=yes"}, "several phases"),
])  # fmt: skip
def test_what_cannot_grow_is_refused(options, message):
    with pytest.raises(OptionError, match=message):
        Tagger(**options).partial_fit([[("a",)]], [["A"]])


def test_other_models_are_refused(data):
    X, y = [[{"a": 1.0}, {"b": 1.0}]], [["A", "B"]]
    rows, tags = data
    chunker = Tagger("perceptron", template="chunking").partial_fit(rows[:5], tags[:5])
    with pytest.raises(OptionError, match="another template"):
        chunker.set_params(template="words").partial_fit(rows[:5], tags[:5])
    with pytest.raises(OptionError, match="the model so far was trained on columns"):
        chunker.set_params(template=None).partial_fit(X, y)
    for changed, message in (
        ({"order": 2}, "order=2: the model so far has order=1"),
        ({"pair_features": True}, "pair_features=True: the model so far"),
        ({"hash_bits": 9}, "the model so far was trained on ready-made features"),
        ({"transitions": "observed-only"}, "data to come may have it"),
    ):
        tagger = Tagger("perceptron").partial_fit(X, y).set_params(**changed)
        with pytest.raises(OptionError, match=message):
            tagger.partial_fit(X, y)
    hidden = Tagger("m-estimation", template="words").fit(rows, tags)
    with pytest.raises(OptionError, match="a generative base"):
        hidden.set_params(criterion="perceptron").partial_fit(rows, tags)


def test_a_failed_call_changes_nothing():
    first, second, _ = stream_of(np.random.default_rng(1))
    tagger = Tagger("perceptron").partial_fit(*first)
    before = tagger.to_bytes()
    with pytest.raises(DataError):
        tagger.partial_fit(second[0], [["A"]])
    assert tagger.to_bytes() == before


def test_a_stream_that_does_not_fit_its_model_is_refused():
    from loglinear import model_file

    first, _, _ = stream_of(np.random.default_rng(1))
    stored = model_file.load(Tagger("perceptron").partial_fit(*first).to_bytes())
    for name, array in (
        ("stream.current", np.zeros(3)),
        ("stream.sums", np.full(len(stored.arrays["stream.sums"]), np.nan)),
        ("stream.counts", np.array([-1, 4, 0])),
        ("stream.counts", np.array([2.5])),
    ):
        damaged = model_file.dumps("tagger", stored.header, {**stored.arrays, name: array})
        with pytest.raises(ModelFileError, match="does not fit together"):
            Tagger.load(damaged)
