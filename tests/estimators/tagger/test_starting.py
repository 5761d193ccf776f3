"""Training that starts from another model: its base taken over as weights, a quicker criterion first, few features."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import Tagger
from loglinear.errors import LoglinearError
from loglinear.estimators.tagger.training import start_weights
from loglinear.generative.hmm.model import HiddenMarkovModel

TEMPLATE = "U0:%x[0,0]\nU1:%x[0,1]\nB"


class Stop(Exception):
    pass


def rows(rng, n, values=("a", "b", "c")):
    """Sequences in which every value comes often enough to be known."""
    lengths = rng.integers(1, 6, size=n)
    return [[(str(rng.choice(values)), str(rng.choice(["x", "y"]))) for _ in range(length)] for length in lengths]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), order=st.sampled_from([1, 2]))
def test_a_base_taken_over_as_weights_gives_the_same_probabilities(seed, order):
    """With all features there and starts and stops that say nothing, p(y given x) is the hidden Markov model's."""
    rng = np.random.default_rng(seed)
    X = rows(rng, 60)
    y = [[str(rng.choice(["P", "Q", "R"])) for _ in x] for x in X]
    hmm = Tagger(criterion="hmm", order=order).fit(X, y)
    base = hmm.model_.base
    steps = base.model.steps.copy()
    steps[:, -1] = 0.0
    last = len(steps) - 1  # at order 2 what follows the first label is like what follows it anywhere
    if order == 2:
        steps[last - 3 : last] = steps[:3]
        for y_before in range(1, 4):
            steps[y_before * 3 : (y_before + 1) * 3] = steps[:3]
    steps[last, :-1] = 1.0
    steps[:last, :-1] += 0.1
    steps /= steps.sum(axis=1, keepdims=True) / 0.9
    steps[:, -1] = 0.1
    steps[last] = [1 / 3, 1 / 3, 1 / 3, 0.0]
    plain = HiddenMarkovModel(order, 3, steps, base.model.emissions)
    object.__setattr__(base, "model", plain)
    crf = Tagger(template=TEMPLATE, states="all", transitions="all", order=order)
    problem = crf.problem(X, y)
    start = start_weights(problem.model, hmm.model_, seed=0)
    long = [x for x in X if len(x) > 1]
    if order == 1:
        model = problem.model.with_weights(start)
        crf.model_, crf.classes_ = model, model.labels
        for mine, theirs in zip(crf.predict_marginals(long), hmm.predict_marginals(long), strict=True):
            for one, other in zip(mine, theirs, strict=True):
                assert one == pytest.approx(other, abs=1e-5)
    else:  # the first step has no trigram; those from the third position on are the trigrams of the model
        log_p = np.log(steps[:last].reshape(4, 3, 4)[:3, :, :3])
        gained = start[problem.model.features.slices[3]].reshape(3, 3, 3)
        assert gained == pytest.approx(log_p - log_p.min(), abs=1e-9)


@pytest.mark.parametrize("options", [{}, {"order": 2}, {"l1": 0.2}, {"sub_labels": 2}, {"constraints": "bio"}], ids=str)
def test_an_m_estimate_is_a_start_that_ends_where_zero_does(data, options):
    options = {"template": "words", "tolerance": 1e-9, **options}
    from_zero = Tagger(**options).fit(*data)
    started = Tagger(**options).fit(*data, init="m-estimation")
    assert started.message_.startswith("from the weights of a model of m-estimation")
    if "sub_labels" not in options:  # with hidden variables the ends may differ
        assert started.objective_ == pytest.approx(from_zero.objective_, rel=1e-4)
    assert started.score(*data) > 0.9


@pytest.mark.parametrize("init", ["memm", "perceptron", "softmax-margin", "m-estimation:smoothing=0.1"])
def test_any_criterion_with_weights_is_a_start(data, init):
    started = Tagger(template="words", l2=1.0).fit(*data, init=init)
    assert started.objective_ == pytest.approx(Tagger(template="words", l2=1.0).fit(*data).objective_, rel=1e-3)


@pytest.mark.parametrize("criterion", ["cll", "m-estimation", "perceptron", "max-margin"])
def test_few_features_alone_are_trained(data, more_data, criterion):
    whole = Tagger(template="words").fit(*data)
    few = Tagger(criterion=criterion, template="words").fit(*data, *more_data, init=whole, keep=40)
    names = ("state_weights_", "edge_weights_", "transition_weights_", "trigram_weights_")
    assert 0 < sum(len(getattr(few, name)) for name in names) <= 40
    assert few.score(*more_data) > 0.8
    assert Tagger.load(few.to_bytes()).predict(data[0]) == few.predict(data[0])


def test_what_is_kept_weighs_much_and_occurs_often(data):
    options = {"template": "U:%x[0,0]\nB"}
    whole = Tagger(**options).fit(*data)
    few = Tagger(**options).fit(*data, init=whole, keep=15)
    weights = {**whole.state_weights_, **whole.transition_weights_}
    times = Counter((f"U:{row[0]}", label) for x, y in zip(*data, strict=True) for row, label in zip(x, y, strict=True))
    times |= Counter(pair for y in data[1] for pair in pairwise(y))
    said = {key: abs(weight) * np.sqrt(times[key]) for key, weight in weights.items()}
    assert set(sorted(said, key=said.get)[-15:]) == {*few.state_weights_, *few.transition_weights_}


def test_what_started_from_few_features_goes_on(data, tmp_path):
    options = {"init": "m-estimation", "keep": 60}
    whole = Tagger(template="words").fit(*data, **options)

    def stop(progress):
        if progress.iteration == 4:
            raise Stop

    with pytest.raises(Stop):
        Tagger(template="words").fit(*data, checkpoint=tmp_path / "c", checkpoint_seconds=0, observe=stop, **options)
    resumed = Tagger(template="words").fit(*data, checkpoint=tmp_path / "c", resume=True, **options)
    assert resumed.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"keep": 10}, "keep=10 needs a model to start from"),
        ({"keep": 0, "init": "memm"}, "keep=0 must be at least 1"),
        ({"init": "hmm"}, "hmm has no weights to start from"),
        ({"init": "m-estimation:colour=1"}, "colour"),
        ({"init": "no-such-file"}, "no-such-file"),
    ],
    ids=str,
)
def test_a_start_that_makes_no_sense_is_refused(data, options, reason):
    with pytest.raises(LoglinearError, match=reason):
        Tagger(template="words").fit(*data, **options)
