"""Training with costs of whole labellings, on n-best lists, and at falling temperatures."""

import numpy as np
import pytest

from loglinear import Tagger
from loglinear.errors import OptionError
from loglinear.training.dev import Dev

OPTIONS = {"template": "words", "l2": 0.1, "max_iter": 15}


def any_wrong(gold, predicted):
    return float(gold != predicted)


def wrong_chunks(gold, predicted):
    """A cost of chunks: those missed and those that are none."""

    def chunks(labels):
        starts = [t for t, label in enumerate(labels) if label[0] == "B"]
        ends = [next((e for e in range(t + 1, len(labels)) if labels[e][0] != "I"), len(labels)) for t in starts]
        return {(t, e, labels[t]) for t, e in zip(starts, ends, strict=True)}

    return len(chunks(gold) ^ chunks(predicted))


@pytest.mark.parametrize("cost", [any_wrong, wrong_chunks])
@pytest.mark.parametrize("criterion", ["risk:k=5", "risk:k=5,anneal=4", "softmax-margin:k=5", "mira:k=5"])
@pytest.mark.parametrize("structure", ["chain", "segments"])
def test_a_tagger_learns_by_a_cost_of_whole_labellings(data, criterion, cost, structure):
    options = {**OPTIONS, "l2": None} if criterion.startswith("mira") else OPTIONS
    tagger = Tagger(criterion, cost=cost, structure=structure, **options).fit(*data)
    assert tagger.score(*data) > 0.85
    again = Tagger.load(tagger.to_bytes())
    assert again.criterion == criterion and again.predict(data[0]) == tagger.predict(data[0])


@pytest.mark.parametrize(
    ("cost", "reason"),
    [
        (lambda gold, predicted: 1.0, "the right labelling must cost 0"),
        (lambda gold, predicted, kind: kind + 1, r"fails: .* takes two arguments"),
        (lambda gold, predicted, kind: [2], r"is \[.*, not a number; .* takes two arguments"),
        (lambda gold, predicted, most=2: [most], r"is \[2\]; costs are numbers"),
        (lambda gold: 0.0, r"cost is a function of \(gold\); a cost of two labels is cost\(gold, predicted, kind\)"),
        (len, r"cost is a function of \(obj, /\)"),
    ],
)
def test_a_function_that_is_no_cost_is_refused(data, cost, reason):
    with pytest.raises(OptionError, match=reason):
        Tagger("risk:k=5", cost=cost, **OPTIONS).fit(*data)


@pytest.mark.parametrize("criterion", ["risk:k=5", "risk:temperature=2", "risk:anneal=4", "softmax-margin:k=5"])
def test_dual_ascent_is_refused_before_anything_is_trained(data, criterion):
    seen = []
    with pytest.raises(OptionError, match=r"optimizer='dual': it does not do .*; use lbfgs"):
        Tagger(criterion, optimizer="dual", **OPTIONS).fit(*data, observe=seen.append)
    assert not seen


def test_training_lowers_the_cost_that_it_minimises(data):
    X, y = data
    options = {"template": "U:%x[0,1]\nB\n", "l2": 0.01}

    def mean_cost(tagger):
        total = 0.0
        for x, labels in zip(X, y, strict=True):
            ranked = tagger.predict_nbest([x], 20)[0]
            total += sum(p * wrong_chunks(labels, one) for one, p in ranked) / sum(p for _, p in ranked)
        return total

    cll = Tagger(**options).fit(X, y)
    risk = Tagger("risk:k=20", cost=wrong_chunks, **options).fit(X, y)
    assert mean_cost(risk) < 0.95 * mean_cost(cll)


@pytest.mark.parametrize("criterion", ["risk", "softmax-margin", "mira", "jrb"])
def test_a_cost_of_whole_labellings_without_lists_is_refused(data, criterion):
    with pytest.raises(OptionError, match=r"of two arguments is one of whole labellings.*give a k, as in risk:k=50"):
        Tagger(criterion, cost=any_wrong, template="words").fit(*data)


def test_a_cost_of_the_right_labelling_is_told_before_anything_is_trained(data):
    seen = []
    with pytest.raises(OptionError, match="the right labelling must cost 0"):
        Tagger("risk:k=3", cost=lambda gold, predicted: 1.0, template="words").fit(*data, observe=seen.append)
    assert seen == []


def test_a_cost_of_whole_labellings_needs_complete_labels(data):
    X, y = data
    with pytest.raises(OptionError, match="needs one label for each token, and no sub-labels"):
        Tagger("risk:k=3", cost=any_wrong, sub_labels=2, template="words").fit(X, y)
    partial = [[None, *labels[1:]] for labels in y]
    with pytest.raises(OptionError, match="needs one label for each token, and no sub-labels"):
        Tagger("risk:k=3", cost=any_wrong, template="words").fit(X, partial)
    Tagger("risk:k=3", template="words", max_iter=3).fit(X, partial)  # costs of labels have no such need


def test_temperatures_are_phases(data):
    tagger = Tagger("risk:anneal=4,temperature=0.5", template="words", l2=0.1).fit(*data)
    phases = list(dict.fromkeys(progress.phase for progress in tagger.history_))
    assert phases == ["cll", "temperature 4", "temperature 2", "temperature 1", "main"]
    assert tagger.score(*data) > 0.9


@pytest.mark.parametrize("interrupted_in", [None, "cll", "temperature 4", "main"])
@pytest.mark.parametrize("phase", ["cll", "temperature 4"])
def test_dev_data_judges_the_weights_that_each_temperature_starts_from(
    data, tmp_path, monkeypatch, phase, interrupted_in
):
    class Stop(Exception):
        pass

    def stop(progress):
        if progress.phase == interrupted_in and progress.iteration == 2:
            raise Stop

    ends = {}

    def note(progress):
        ends[progress.phase] = progress.look.weights.copy()

    options = {"template": "words", "l2": 0.1, "max_iter": 3, "optimizer": "lbfgs"}
    Tagger("risk:anneal=4", **options).fit(*data, observe=note)
    assert list(ends) == ["cll", "temperature 4", "temperature 2", "main"]
    monkeypatch.setattr(Dev, "score", lambda self, weights: float(np.array_equal(weights[-1], ends[phase])))
    run = {"checkpoint": tmp_path / "c", "checkpoint_seconds": 0}
    if interrupted_in is not None:
        with pytest.raises(Stop):
            Tagger("risk:anneal=4", **options).fit(*data, *data, observe=stop, **run)
    tagger = Tagger("risk:anneal=4", **options).fit(*data, *data, resume=interrupted_in is not None, **run)
    assert tagger.dev_score_ == 1.0 and tagger.best_iteration_ == 0
    assert np.allclose(tagger.model_.weights, ends[phase], atol=1e-6)


@pytest.mark.parametrize("criterion", ["risk:anneal=4", "risk:k=4", "risk:temperature=2", "pseudolikelihood:nota"])
def test_forms_resume_exactly_and_for_any_number_of_threads(data, tmp_path, monkeypatch, criterion):
    class Stop(Exception):
        pass

    def stop(progress):
        if progress.phase != "cll" and progress.iteration == 2:
            raise Stop

    monkeypatch.setattr("loglinear.optimizers.objective.TOKENS_PER_SHARD", 50)  # several shards
    options = {"template": "words", "l2": 0.1, "max_iter": 6, "tolerance": 1e-7}
    whole = Tagger(criterion, threads=2, **options).fit(*data)
    with pytest.raises(Stop):
        Tagger(criterion, **options).fit(*data, checkpoint=tmp_path / "c", checkpoint_seconds=0, observe=stop)
    resumed = Tagger(criterion, threads=1, **options).fit(*data, checkpoint=tmp_path / "c", resume=True)
    assert np.array_equal(whole.model_.weights, resumed.model_.weights)


def test_another_function_is_another_training(data, tmp_path):
    class Stop(Exception):
        pass

    def stop(progress):
        raise Stop

    def weighed(factor):
        return lambda gold, predicted: factor * wrong_chunks(gold, predicted)

    place = {"checkpoint": tmp_path / "c", "checkpoint_seconds": 0}
    with pytest.raises(Stop):
        Tagger("softmax-margin:k=3", cost=weighed(1.0), **OPTIONS).fit(
            *data, **place, observe=lambda progress: stop(progress) if progress.iteration == 3 else None
        )
    with pytest.raises(OptionError, match="other data or options"):
        Tagger("softmax-margin:k=3", cost=weighed(2.0), **OPTIONS).fit(*data, **place, resume=True)
    whole = Tagger("softmax-margin:k=3", cost=weighed(1.0), **OPTIONS).fit(*data)
    resumed = Tagger("softmax-margin:k=3", cost=weighed(1.0), **OPTIONS).fit(*data, **place, resume=True)
    assert np.array_equal(whole.model_.weights, resumed.model_.weights)


@pytest.mark.parametrize("criterion", ["risk:temperature=2", "softmax-margin:k=3", "pseudolikelihood:nota"])
def test_passes_compiled_for_the_plain_form_are_not_used(data, criterion):
    words = {"risk:temperature=2": "temperatures", "softmax-margin:k=3": "n-best lists"}
    with pytest.raises(OptionError, match=f"it does not do {words.get(criterion, 'none of the above')}"):
        Tagger(criterion, optimizer="dual", template="words").fit(*data)
    for optimizer in ("sgd", "adagrad"):
        tagger = Tagger(criterion, optimizer=optimizer, template="words", l2=0.01, max_iter=10).fit(*data)
        assert tagger.score(*data) > 0.8


@pytest.mark.parametrize(("order", "least"), [(1, 0.9), (2, 0.75)])
def test_none_of_the_above_with_pseudolikelihood_trains_taggers(data, more_data, order, least):
    options = {"template": "words", "l2": 0.05, "order": order, "pair_features": True}
    tagger = Tagger("pseudolikelihood:nota", **options).fit(*data)
    assert tagger.score(*data) > least and tagger.score(*more_data) > least - 0.1
