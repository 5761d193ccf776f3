"""Hidden Markov models and M-estimation as taggers."""

import os
import signal
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from loglinear import Gazetteer, Tagger
from loglinear.data.columns.corpus import Columns
from loglinear.errors import OptionError
from loglinear.estimators.tagger.model import ANY_LABEL
from loglinear.estimators.tagger.problem import Problem
from loglinear.features.names import attributes_of
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.gold import Gold
from loglinear.training.run import TrainingInterrupted


def test_with_weights_of_zero_the_model_is_its_base(data, more_data):
    base = Tagger(criterion="hmm", order=2).fit(*data)
    zero = Tagger(criterion="m-estimation", template="words", order=2, variance=1e-9).fit(*data)
    assert base.predict(more_data[0]) == zero.predict(more_data[0])


@pytest.mark.parametrize("kind", ["hmm", "locally-uniform", "empirical"])
@pytest.mark.parametrize("order", [1, 2])
def test_every_base_learns_and_is_saved(data, more_data, kind, order):
    tagger = Tagger(criterion="m-estimation", base=kind, order=order, template="words", l2=0.05).fit(*data)
    assert tagger.score(*data) > 0.85
    again = Tagger.load(tagger.to_bytes())
    assert again.predict_marginals(more_data[0]) == tagger.predict_marginals(more_data[0])
    assert again.predict([[("never", "seen")]]) == tagger.predict([[("never", "seen")]])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"criterion": "cll", "base": "hmm"}, "goes with criterion='m-estimation'"),
        ({"criterion": "m-estimation", "base": "gaussian"}, "is not one of hmm, locally-uniform, empirical"),
        ({"criterion": "m-estimation", "optimizer": "sgd"}, "is trained by lbfgs, newton"),
        ({"criterion": "m-estimation", "optimizer": "newton", "l1": 0.5}, "takes no l1"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(data, options, reason):
    with pytest.raises(OptionError, match=reason):
        Tagger(**{"template": "words", **options} if options["criterion"] != "hmm" else options).fit(*data)


def test_an_objective_without_end_is_refused_or_cut_off(data):
    options = {"base": "locally-uniform", "template": "words", "l2": 0.0, "max_iter": 60}
    with pytest.raises(OptionError, match="falls without end"):
        Tagger("m-estimation", **options).fit(*data)
    tagger = Tagger("m-estimation:unbounded", **options).fit(*data)
    assert tagger.objective_ < -1e4
    assert tagger.message_.startswith("stopped after ") and "falls without end" in tagger.message_


def test_a_factor_of_the_expectations_is_one_of_the_gradient(data):
    """At zero weights the gradient is the factor times E_q0[f], less the mean feature counts."""

    def gradient(spec):
        problem = Tagger(spec, template="words").problem(*data)
        objective = problem.objective(problem.criterion(spec), 0.0, 1)
        return objective(np.zeros(problem.model.features.n_features))[1]

    none, once, twice = (gradient(f"m-estimation:expectation={factor}") for factor in (0, 1, 2))
    np.testing.assert_allclose(twice - once, once - none)
    np.testing.assert_array_equal(once, gradient("m-estimation"))
    assert np.abs(once - none).max() > 0.1


def test_features_that_come_ready_made_have_no_columns_to_emit():
    with pytest.raises(OptionError, match="ready-made features"):
        Tagger(criterion="hmm").fit(attributes_of([[["w=a"]]]), [["X"]])


@pytest.mark.parametrize(
    "option", [{"l2": 1.0}, {"template": "words"}, {"min_count": 3}, {"optimizer": "lbfgs"}], ids=str
)
def test_options_about_weights_are_refused_where_there_are_none(data, option):
    with pytest.raises(OptionError, match="is counted, and has no features or weights"):
        Tagger(criterion="hmm", **option).fit(*data)
    with pytest.raises(OptionError, match="no use for a model to start from"):
        Tagger(criterion="hmm").fit(*data, init=Tagger(criterion="hmm").fit(*data))


@pytest.mark.parametrize("kind", ["hmm", "locally-uniform", "empirical"])
def test_a_sequence_of_weight_two_counts_twice(data, kind):
    X, y = data[0][:20], data[1][:20]
    weights = [1.0, 2.0] * 10
    twice = [i for i in range(20) for _ in range(1 + i % 2)]
    expected = []
    for sequences, labels, given in ((X, y, weights), ([X[i] for i in twice], [y[i] for i in twice], None)):
        tagger = Tagger(criterion="m-estimation", base=kind, template="U:%x[0,1]\nB")
        problem = tagger.problem(sequences, labels, sample_weight=given)
        expected.append(problem)
    # what occurs once is unknown, so only the tags, which all occur often, are the same events in both
    steps = [problem.model.base.model.steps for problem in expected]
    assert steps[0] == pytest.approx(steps[1])


def test_features_of_the_input_alone_are_one_template_of_each_kind(data):
    template = "U0:%x[-1,0]\nU1:%x[0,0]\nU2:%x[0,1]/%x[1,1]\nU3:%x[-2,1]/%x[-1,1]\nB"
    with_them, without = (
        Tagger(criterion=criterion, template=template, l2=0.1).fit(*data)
        for criterion in ("m-estimation:input_only", "m-estimation")
    )
    assert not any(label == ANY_LABEL for _, label in without.state_weights_)
    alone = {attribute[:3] for attribute, label in with_them.state_weights_ if label == ANY_LABEL}
    assert alone == {"U1:", "U2:"}
    again = Tagger.load(with_them.to_bytes())
    assert again.state_weights_ == with_them.state_weights_
    assert again.predict_marginals(data[0]) == with_them.predict_marginals(data[0])


def test_weights_are_taken_over_from_a_model_with_and_without_features_of_the_input_alone(data):
    options = {"template": "words", "l2": 0.1}
    rich = Tagger(criterion="m-estimation:input_only", **options).fit(*data)
    plain = Tagger(criterion="m-estimation", **options).fit(*data)
    for start, other in ((rich, plain), (plain, rich)):
        problem = Tagger(criterion=other.criterion, **options).problem(*data)
        weights = problem.model.with_weights(problem.model.weights_from(start.model_)).named("state")
        shared = set(weights) & set(start.state_weights_)
        assert {key: weights[key] for key in shared} == pytest.approx(
            {key: start.state_weights_[key] for key in shared}
        )
        assert any(shared) and all(weights[key] == 0 for key in set(weights) - shared)


@pytest.mark.parametrize("kind", ["hmm", "locally-uniform"])
@pytest.mark.parametrize("order", [1, 2])
def test_sampled_expectations_train_nearly_the_same_model(data, more_data, kind, order):
    options = {"criterion": "m-estimation", "order": order, "template": "U:%x[0,0]\nU:%x[-1,1]\nB", "l2": 0.05}
    exact = Tagger(base=kind, **options).fit(*data)
    drawn = Tagger(base=f"{kind}:samples=20000,smoothing=0.5", **options).fit(*data)
    weights = exact.state_weights_
    gaps = [abs(weights[key] - weight) for key, weight in drawn.state_weights_.items() if key in weights]
    assert 0.0 < max(gaps) < 0.2
    again = Tagger.load(drawn.to_bytes())
    assert again.base == drawn.base and again.predict(more_data[0]) == drawn.predict(more_data[0])


def test_the_seed_settles_the_draws(data):
    fits = [
        Tagger(criterion="m-estimation", base="hmm:samples=300", template="words", seed=seed, threads=threads).fit(
            *data
        )
        for seed, threads in ((0, 1), (0, 2), (1, 1))
    ]
    weights = [fit.state_weights_ for fit in fits]
    assert weights[0] == weights[1] != weights[2]


def test_absolute_rows_and_gazetteers_train_by_sampling(data):
    template = "U:%x[@1,1]/%x[0,1]\nU:%gazetteer[0,0,names]\nU:%x[0,0]\nB"
    options = {
        "criterion": "m-estimation",
        "template": template,
        "gazetteers": [Gazetteer("names", ["noun1", "noun2"])],
    }
    with pytest.raises(OptionError, match=r"absolute rows.*base='hmm:samples=100000'"):
        Tagger(**options).fit(*data)
    tagger = Tagger(base="hmm:samples=3000", l2=0.05, **options).fit(*data)
    assert tagger.score(*data) > 0.85
    assert any(name.startswith("U:D/") for name, _ in tagger.state_weights_)


def test_draws_where_the_labels_stand_in_the_middle(data):
    rows = [[(tag, label, word) for (word, tag), label in zip(x, y, strict=True)] for x, y in zip(*data, strict=True)]
    corpus, template = Columns.from_rows(rows), "U:%x[0,2]\nU:%x[-1,0]\nB"
    apart = [[(word, tag) for word, tag in x] for x in data[0]]
    one = Tagger(criterion="m-estimation", template=template, base="hmm:samples=30000").fit(corpus, label_column=1)
    two = Tagger(criterion="m-estimation", template="U:%x[0,0]\nU:%x[-1,1]\nB").fit(apart, data[1])
    assert one.transition_weights_ == pytest.approx(two.transition_weights_, abs=0.05)


def hidden(labels, share, seed):
    """The labels with some of them unknown, or one of two."""
    rng = np.random.default_rng(seed)
    return [[None if rng.random() < share else {y, "O"} if rng.random() < share else y for y in row] for row in labels]


@pytest.mark.parametrize("order", [1, 2])
def test_hidden_labels_are_completed_in_rounds(data, more_data, order):
    X, y = data
    options = {
        "criterion": "m-estimation:rounds=3,transition_smoothing=0.1",
        "template": "words",
        "order": order,
        "l2": 0.1,
    }
    partly = hidden(y, 0.3, seed=order)
    tagger = Tagger(**options).fit(X, partly)
    only_known = [i for i, row in enumerate(partly) if all(isinstance(label, str) for label in row)]
    few = Tagger(**options).fit([X[i] for i in only_known], [y[i] for i in only_known])
    assert tagger.score(*more_data) > max(0.85, few.score(*more_data))
    again = Tagger.load(tagger.to_bytes())
    assert again.predict_marginals(more_data[0]) == tagger.predict_marginals(more_data[0])
    assert np.isfinite(tagger.log_prob(X[:5], partly[:5], normalised=False)).all()


@pytest.mark.parametrize("em", ["hard", "soft"])
def test_rounds_where_all_labels_of_a_block_are_known(data, em, monkeypatch):
    monkeypatch.setattr(
        ChainFeatures, "blocks", lambda self, offsets, first, end: [(i, i + 1) for i in range(first, end)]
    )
    partly = [*data[1][:-1], [None] * len(data[1][-1])]
    tagger = Tagger(criterion=f"m-estimation:em={em},rounds=2", template="words", l2=0.1).fit(data[0], partly)
    assert tagger.score(*data) > 0.85


def test_a_round_starts_from_the_labels_that_the_model_of_then_prefers(data):
    X, partly = data[0], hidden(data[1], 0.3, seed=3)
    options = {"template": "words", "l2": 0.1}
    problem = Tagger(criterion="m-estimation", **options).problem(X, partly)
    weights = np.zeros(problem.model.features.n_features)
    for rounds in (1, 2, 3):
        labels = problem.completed(weights, 1)
        allowed = problem.gold.allowed
        assert allowed[np.arange(len(labels)), labels].all()
        criterion = problem.criterion("m-estimation")
        objective = replace(problem, gold=Gold(labels)).objective(criterion, 0.1, 1)
        weights = LBFGS(max_iter=1000).minimise(objective, weights).weights
        tagger = Tagger(criterion=f"m-estimation:rounds={rounds}", **options).fit(X, partly)
        assert tagger.objective_ == pytest.approx(objective(weights)[0], rel=1e-4)


@pytest.mark.parametrize(
    ("base", "reason"),
    [
        ("hmm:samples=100", "the base is found from the data"),
        ("locally-uniform", "em=soft takes all of them"),
    ],
)
def test_hidden_labels_want_a_base_that_can_be_found(data, base, reason):
    with pytest.raises(OptionError, match=reason):
        Tagger(criterion="m-estimation", base=base, template="words", sub_labels=2).fit(*data)


def test_rounds_go_on_where_they_were(data, tmp_path):
    options = {"criterion": "m-estimation:rounds=3", "template": "words", "l2": 0.1, "sub_labels": 2}
    whole = Tagger(**options).fit(*data)

    class Stop(Exception):
        pass

    def stop_at(count):
        seen = []

        def observe(progress):
            seen.append(progress)
            if len(seen) == count:
                raise Stop

        return observe

    for count in (3, 30, 60):
        with suppress(Stop):
            Tagger(**options).fit(
                *data, checkpoint=tmp_path / "c", checkpoint_seconds=0, resume=True, observe=stop_at(count)
            )
    resumed = Tagger(**options).fit(*data, checkpoint=tmp_path / "c", resume=True)
    assert np.array_equal(resumed.model_.weights, whole.model_.weights)


def test_rounds_end_when_the_labels_stay(data):
    partly = hidden(data[1], 0.2, seed=5)
    options = {"template": "words", "l2": 0.1}
    few, many = (Tagger(criterion=f"m-estimation:rounds={n}", **options).fit(data[0], partly) for n in (10, 500))
    assert many.n_iter_ == few.n_iter_ and many.to_bytes()[-1000:] == few.to_bytes()[-1000:]


def test_a_signal_between_rounds_stops_training(data, tmp_path, monkeypatch):
    completed, calls = Problem.completed, []

    def signalled(self, weights, n_threads):
        calls.append(weights)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return completed(self, weights, n_threads)

    monkeypatch.setattr(Problem, "completed", signalled)
    options = {"criterion": "m-estimation:rounds=3", "template": "words", "l2": 0.1}
    partly = hidden(data[1], 0.3, seed=3)
    with pytest.raises(TrainingInterrupted, match="--resume"):
        Tagger(**options).fit(data[0], partly, checkpoint=tmp_path / "c", checkpoint_seconds=0)
    monkeypatch.setattr(Problem, "completed", completed)
    resumed = Tagger(**options).fit(data[0], partly, checkpoint=tmp_path / "c", resume=True)
    whole = Tagger(**options).fit(data[0], partly)
    assert np.array_equal(resumed.model_.weights, whole.model_.weights)


def test_an_objective_that_falls_without_end_is_an_error(data):
    with pytest.raises(OptionError, match="falls without end"):
        Tagger(criterion="m-estimation", template="chunking", l2=0.0).fit(*data)
