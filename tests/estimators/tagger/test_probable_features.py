"""Features that join those observed half-way (``states="probable:0.2"``): which ones, and how training goes on."""

import re
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import Tagger
from loglinear.criteria.criterion import CRITERIA
from loglinear.errors import OptionError
from loglinear.estimators.options import LEAST_SQUARES

TEMPLATE = "U0:%x[0,0]\nU1:%x[-1,1]/%x[0,1]\nU2:%x[1,0]\nB"
LEARNERS = [name for name, each in CRITERIA.all().items() if each.learns_weights and name not in (LEAST_SQUARES, "hmm")]


def problem_with(data, **options):
    """An untrained problem, and weights under which nothing is certain."""
    problem = Tagger(template=TEMPLATE, **options).problem(*data)
    rng = np.random.default_rng(0)
    return problem, rng.normal(size=problem.model.features.n_features)


def pairs_by_brute_force(problem, weights, threshold, kind):
    """{(attribute, label or label pair)} whose marginal is above the threshold at some position with the attribute."""
    model, corpus = problem.model.with_weights(weights), problem.encoded
    found = set()
    for i in range(corpus.n_sequences):
        chain, scores = model.structure(corpus, i, i + 1), model.part_scores(corpus, i, i + 1)
        table = chain.marginals(scores) if kind == "state" else chain.edge_marginals(scores)
        incidence = getattr(corpus, kind)
        for t, row in enumerate(table.reshape(len(table), -1), start=int(corpus.offsets[i])):
            attributes = incidence.ids[incidence.pointer[t] : incidence.pointer[t + 1]].tolist()
            found |= {(a, c) for a in attributes for c in np.flatnonzero(row > threshold).tolist()}
    return found


def pairs_of(block):
    return set(zip((block.keys // block.n_codes).tolist(), block.codes.tolist(), strict=True))


@pytest.mark.parametrize("threshold", [0.05, 0.2, 0.6])
@pytest.mark.parametrize(
    "options", [{}, {"order": 2}, {"order": 3}, {"pair_features": True}, {"pair_features": "only"},
                {"constraints": "bio"}, {"criterion": "memm"}, {"sub_labels": 2},
                {"criterion": "m-estimation:input_only"}],
)  # fmt: skip
def test_those_added_are_the_ones_that_brute_force_finds(data, options, threshold):
    problem, weights = problem_with(data, **options)
    grown = problem.with_probable(weights, threshold, 2).model.features
    before = problem.model.features
    for kind in ("state", "edge"):
        block = getattr(before, kind)
        if block is not None:
            likely = pairs_by_brute_force(problem, weights, threshold, kind)
            assert pairs_of(getattr(grown, kind)) == pairs_of(block) | likely
            assert (np.diff(getattr(grown, kind).keys) > 0).all()
    np.testing.assert_array_equal(grown.transitions, before.transitions)


def test_a_threshold_of_zero_adds_all_and_one_of_one_nothing(data):
    problem, weights = problem_with(data)
    every = Tagger(template=TEMPLATE, states="all").problem(*data).model.features
    grown = problem.with_probable(weights, 0.0, 1).model.features
    np.testing.assert_array_equal(grown.state.keys, every.state.keys)
    same = problem.with_probable(weights, 1.0, 1).model.features
    np.testing.assert_array_equal(same.state.keys, problem.model.features.state.keys)


@pytest.mark.parametrize("criterion", LEARNERS)
def test_every_criterion_learns_their_weights(data, criterion):
    options = {"template": TEMPLATE, "max_iter": 8}
    tagger = Tagger(criterion, states="probable:0.1,after=3", **options).fit(*data)
    observed = Tagger(criterion, **options).fit(*data)
    added = tagger.state_weights_.keys() - observed.state_weights_.keys()
    assert added and any(tagger.state_weights_[key] for key in added)
    added_after = sum(progress.phase == "observed" for progress in tagger.history_)
    assert re.search(rf"after {added_after} iterations \d+ features added as probable", tagger.message_)
    nothing = Tagger(criterion, states="probable:1", **options).fit(*data)
    np.testing.assert_array_equal(nothing.model_.weights, observed.model_.weights)
    assert nothing.message_ == observed.message_
    again = Tagger(criterion, states="probable:0.1,after=3", threads=2, **options).fit(*data)
    np.testing.assert_array_equal(again.model_.weights, tagger.model_.weights)


@pytest.mark.parametrize(
    ("options", "interrupted"),
    [({}, False), ({}, True), ({"optimizer": "lbfgs"}, False), ({"optimizer": "sgd"}, True),
     ({"criterion": "max-margin"}, False), ({"criterion": "risk"}, True), ({"criterion": "mira"}, False)],
)  # fmt: skip
def test_where_nothing_is_added_training_goes_on_as_without(data, options, interrupted, tmp_path):
    options = {"template": TEMPLATE, "max_iter": 8, "l2": 0.3, "tolerance": 1e-9, **options}
    if options.get("criterion") == "mira":
        del options["l2"]
    observed = Tagger(**options).fit(*data)
    tagger = Tagger(states="probable:0.9999999,after=3", **options)
    if interrupted:
        seen = []

        def stop(progress):
            seen.append(progress)
            if [each.phase for each in seen].count("main") == 2:
                raise InterruptedError

        with suppress(InterruptedError):  # some learners have nothing left to learn
            tagger.fit(*data, checkpoint=tmp_path / "c", checkpoint_seconds=0.0, observe=stop)
        tagger = Tagger(**tagger.get_params())
    tagger.fit(*data, checkpoint=tmp_path / "c", resume=True)
    np.testing.assert_array_equal(tagger.model_.weights, observed.model_.weights)
    assert tagger.n_iter_ == observed.n_iter_ == len(tagger.history_)
    none = "after 3 iterations no feature added as probable under the model so far; then "
    start, _, end = observed.message_.rpartition("model of cll: ")
    assert tagger.message_ == f"{start}{_}{none}{end}"


@pytest.mark.parametrize("optimizer", ["dual", "lbfgs"])
def test_with_all_of_them_the_minimum_is_that_of_all_features(data, optimizer):
    options = {"template": TEMPLATE, "optimizer": optimizer, "tolerance": 1e-8}
    every = Tagger(states="all", **options).fit(*data)
    grown = Tagger(states="probable:0,after=3", **options).fit(*data)
    assert grown.n_features_trained_ == every.n_features_trained_
    assert grown.objective_ == pytest.approx(every.objective_, rel=1e-6)


@pytest.mark.parametrize("criterion", ["cll", "risk", "nota:threshold=0.2,after=2", "nota:scaling", "perceptron"])
@pytest.mark.parametrize("stopped_after", [2, 4, 6])
def test_an_interrupted_training_goes_on_bit_for_bit(data, criterion, stopped_after, tmp_path):
    options = {"template": TEMPLATE, "states": "probable:0.1,after=4", "max_iter": 9}
    options |= {} if criterion == "perceptron" else {"l2": 0.01, "tolerance": 0.0}
    whole = Tagger(criterion, **options).fit(*data)
    opening = [progress.phase for progress in whole.history_].index("observed")
    seen = []

    def stop(progress):
        seen.append(progress)
        if len(seen) == opening + stopped_after:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        Tagger(criterion, **options).fit(*data, checkpoint=tmp_path / "c", checkpoint_seconds=0.0, observe=stop)
    resumed = Tagger(criterion, **options).fit(*data, checkpoint=tmp_path / "c", resume=True)
    assert resumed.to_bytes() == whole.to_bytes()


def test_dev_data_judges_the_larger_model(data, more_data):
    tagger = Tagger(template=TEMPLATE, states="probable:0.1,after=3", optimizer="lbfgs").fit(*data, *more_data)
    judged = [progress for progress in tagger.history_ if progress.dev_score is not None]
    assert {progress.phase for progress in judged} == {"main"} and len(judged) == len(tagger.history_) - 3
    assert tagger.dev_score_ == pytest.approx(tagger.score(*more_data, metric="f1"))
    assert [progress.phase for progress in tagger.history_[:3]] == ["observed"] * 3


def test_a_model_file_has_them_and_the_option(data, more_data, tmp_path):
    tagger = Tagger(template=TEMPLATE, states="probable:0.1").fit(*data)
    tagger.save(tmp_path / "m")
    loaded = Tagger.load(tmp_path / "m")
    assert loaded.states == "probable:0.1" and loaded.state_weights_ == tagger.state_weights_
    assert loaded.predict(more_data[0]) == tagger.predict(more_data[0])


def test_training_starts_from_another_model(data):
    first = Tagger(template=TEMPLATE).fit(*data)
    tagger = Tagger(template=TEMPLATE, states="probable:0.1", tolerance=1e-7).fit(*data, init=first)
    cold = Tagger(template=TEMPLATE, states="probable:0.1", tolerance=1e-7).fit(*data)
    assert tagger.objective_ == pytest.approx(cold.objective_, rel=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"states": "probable"}, "is not one of observed, all"),
        ({"states": "probable:often"}, "is not one of observed, all"),
        ({"states": "probable:-0.1"}, "a probability of at least 0"),
        ({"states": "probable:nan"}, "a probability of at least 0"),
        ({"states": "probable:0.2,20"}, "is not one of observed, all"),
        ({"states": "probable:0.2,after=0"}, "a number of iterations of at least 1"),
        ({"states": "possible:0.2"}, "is not one of observed, all"),
        ({"states": None}, "is not one of observed, all"),
        ({"max_iter": 10}, "max_iter=10: probable features are added after 10 iterations"),
        ({"structure": "segments"}, "goes with structure='chain'"),
        ({"criterion": "hmm", "template": None}, "has no features or weights"),
    ],
)
def test_what_makes_no_sense_is_refused(data, options, message):
    with pytest.raises(OptionError, match=message):
        Tagger(**{"template": "words", "states": "probable:0.2", **options}).fit(*data)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 4))
def test_the_union_of_blocks_has_the_pairs_of_both(seed, n_attributes, n_codes):
    from loglinear.features.block import FeatureBlock

    rng = np.random.default_rng(seed)

    def some(n):
        kept = rng.random((n_attributes, n)) < 0.4
        pointer = np.concatenate([[0], np.cumsum(kept.sum(axis=1))]).astype(np.int64)
        return FeatureBlock(pointer, np.nonzero(kept)[1].astype(np.int32), n)

    one, other = some(n_codes + 1), some(n_codes)
    both = one.plus(other)
    assert pairs_of(both) == pairs_of(one) | pairs_of(other)
    assert both.n_codes == one.n_codes and len(both.pointer) == n_attributes + 1
