"""Taggers trained by dual coordinate ascent."""

import numpy as np
import pytest

from loglinear import Tagger
from loglinear.errors import OptionError


def test_a_tagger_trained_so_is_that_of_lbfgs(data, more_data):
    options = {"template": "words", "constraints": "bio"}
    quick = Tagger(optimizer="dual", tolerance=1e-7, **options).fit(*data)
    slow = Tagger(optimizer="lbfgs", tolerance=1e-9, **options).fit(*data)
    assert quick.objective_ == pytest.approx(slow.objective_, rel=1e-4)
    assert quick.predict(more_data[0]) == slow.predict(more_data[0])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"order": 2}, "first-order chains without pair features"),
        ({"pair_features": True}, "first-order chains without pair features"),
        ({"sub_labels": 2}, "one label for each token, and no sub-labels"),
        ({"l2": 0.0}, "needs an L2 penalty, and l2 is 0"),
    ],
    ids=str,
)
def test_what_has_no_such_dual_is_refused(data, options, reason):
    with pytest.raises(OptionError, match=reason):
        Tagger(optimizer="dual", template="words", **options).fit(*data)


def test_other_starts_and_partial_labels_are_refused(data):
    start = Tagger(template="words").fit(*data)
    with pytest.raises(OptionError, match="starts from zero"):
        Tagger(optimizer="dual", template="words").fit(*data, init=start)
    hidden = [[None, *labels[1:]] for labels in data[1]]
    with pytest.raises(OptionError, match="one label for each token"):
        Tagger(optimizer="dual", template="words").fit(data[0], hidden)


@pytest.mark.parametrize(
    ("options", "unit"),
    [
        ({}, "passes"),
        ({"criterion": "softmax-margin"}, "passes"),
        ({"l1": 0.1, "l2": 0.1}, "passes"),
        ({"l1": 0.1, "l2": 0.0}, "iterations"),
        ({"order": 2}, "iterations"),
        ({"pair_features": True}, "iterations"),
        ({"sub_labels": 2}, "iterations"),
        ({"criterion": "memm"}, "passes"),
        ({"criterion": "memm", "order": 2, "pair_features": True}, "passes"),
        ({"criterion": "pseudolikelihood", "order": 2, "pair_features": True}, "passes"),
        ({"criterion": "pseudolikelihood:joint"}, "iterations"),
        ({"criterion": "piecewise"}, "passes"),
        ({"criterion": "piecewise", "order": 2}, "passes"),
        ({"criterion": "nota"}, "passes"),
        ({"criterion": "nota", "pair_features": True}, "passes"),
    ],
    ids=str,
)
def test_it_is_the_default_where_it_applies(data, options, unit):
    tagger = Tagger(template="words", max_iter=2, tolerance=0.0, **options).fit(*data)
    assert tagger.message_.startswith(f"stopped after 2 {unit}")


def test_the_default_starts_from_another_model_by_lbfgs(data):
    start = Tagger(template="words").fit(*data)
    assert "iteration" in Tagger(template="words", max_iter=1, tolerance=0.0).fit(*data, init=start).message_


def test_criteria_that_start_from_another_train_that_by_it(data):
    tagger = Tagger(criterion="risk", template="words").fit(*data)
    assert {progress.phase for progress in tagger.history_} == {"cll", "main"}
    slow = Tagger(criterion="risk", optimizer="lbfgs", template="words").fit(*data)
    assert tagger.objective_ == pytest.approx(slow.objective_, rel=0.05)


def test_weights_stay_where_no_iterations_are_left_after_contexts_are_chosen(data, tmp_path):
    options = {"template": "words", "optimizer": "dual", "max_iter": 5}
    short = Tagger("nota:threshold=0.2,after=5", **options).fit(*data, checkpoint=tmp_path / "c")
    assert np.isfinite(short.objective_) and short.score(*data) > 0.5
    before = Tagger("nota:threshold=0.2,after=9", **options).fit(*data)
    np.testing.assert_array_equal(short.model_.weights, before.model_.weights)
