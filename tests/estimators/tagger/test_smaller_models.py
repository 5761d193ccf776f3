"""Laws of models made smaller: pruning, and weights in fewer bytes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import HMM, Tagger, model_file
from loglinear.errors import DataError, ModelFileError, OptionError
from loglinear.model_file import restored, stored

X = [["the", "dog", "barks"], ["Anna", "sees", "the", "cat"], ["cats", "bark"], ["the", "cat", "sees", "Anna"]] * 3
Y = [["D", "N", "V"], ["N", "V", "D", "N"], ["N", "V"], ["D", "N", "V", "N"]] * 3


@pytest.fixture(scope="module")
def tagger():
    return Tagger(template="words", l2=0.1, max_iter=15, precision="float64").fit(X, Y)


weights = st.lists(st.floats(-1e300, 1e300, allow_nan=False), min_size=1, max_size=20).map(np.array)


@given(weights, st.sampled_from(["float64", "float32", "float16"]))
def test_stored_weights_come_back_as_near_as_their_precision_is(given_weights, precision):
    numbers, exponent = stored(given_weights, precision)
    assert numbers.dtype == precision and np.isfinite(numbers).all() and exponent >= 0
    again = restored(numbers, exponent)
    info = np.finfo(precision)
    smallest = float(info.smallest_subnormal) * 2.0**exponent
    np.testing.assert_allclose(again, given_weights, rtol=float(info.eps) / 2, atol=smallest)
    twice, more = stored(again, precision)
    assert np.array_equal(restored(twice, more), again)


@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 60000.0))
def test_weights_of_the_usual_size_need_no_exponent(seed, scale):
    some = np.random.default_rng(seed).uniform(-scale / 2, scale / 2, size=20)
    numbers, exponent = stored(some, "float16")
    assert exponent == 0 and np.array_equal(numbers, some.astype(np.float16))


@pytest.mark.parametrize("precision", ["float64", "float32", "float16"])
def test_a_model_in_less_precision_is_read_back_as_it_answers(tagger, tmp_path, precision):
    tagger.save(tmp_path / "m", precision)
    again = Tagger.load(tmp_path / "m")
    assert again.precision == precision
    assert model_file.load(tmp_path / "m").arrays["weights"].dtype == precision
    assert again.to_bytes() == (tmp_path / "m").read_bytes()
    trained = Tagger(template="words", l2=0.1, max_iter=15, precision=precision).fit(X, Y)
    assert np.array_equal(trained.model_.weights, again.model_.weights)
    assert trained.predict_marginals(X) == again.predict_marginals(X)
    np.testing.assert_allclose(again.model_.weights, tagger.model_.rounded(precision).weights)


def test_fewer_bytes_make_smaller_files(tagger):
    sizes = [len(tagger.to_bytes(precision)) for precision in ("float64", "float32", "float16")]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 3


def test_weights_beyond_float16_are_scaled(tagger):
    large = tagger.pruned(keep=tagger.model_.features.n_features)
    large.model_ = tagger.model_.with_weights(tagger.model_.weights * 1e6)
    again = Tagger.load(large.to_bytes("float16"))
    np.testing.assert_allclose(again.model_.weights, large.model_.rounded("float16").weights)
    assert again.predict(X) == large.predict(X)


@pytest.mark.parametrize("exponent", [-1, 5000, 1.0, True, "1", None])
def test_an_exponent_that_makes_no_sense_is_refused(tagger, exponent):
    stored_model = model_file.load(tagger.to_bytes())
    header = {**stored_model.header, "weight_exponent": exponent}
    with pytest.raises(ModelFileError, match="exponent"):
        Tagger.load(model_file.dumps(stored_model.kind, header, stored_model.arrays))


def test_an_exponent_that_makes_weights_infinite_is_refused(tagger):
    stored_model = model_file.load(tagger.to_bytes())
    arrays = {**stored_model.arrays, "weights": stored_model.arrays["weights"] * 1e300}
    header = {**stored_model.header, "weight_exponent": 1023}
    with pytest.raises(ModelFileError, match="not all numbers lie between"):
        Tagger.load(model_file.dumps(stored_model.kind, header, arrays))


def test_precision_that_makes_no_sense_is_refused(tagger, tmp_path):
    with pytest.raises(OptionError, match="float8"):
        tagger.save(tmp_path / "m", "float8")
    with pytest.raises(OptionError, match="precision"):
        Tagger(template="words", precision="half").fit(X, Y)
    counted = Tagger(criterion="hmm").fit([[(w,) for w in x] for x in X], Y)
    with pytest.raises(OptionError, match="no weights"):
        counted.save(tmp_path / "m", "float16")
    for options in ({"prune": 0.5}, {"precision": "float16"}):
        with pytest.raises(OptionError, match="counted"):
            Tagger(criterion="hmm", **options).fit(X, Y)
    assert HMM().fit([[(w,) for w in x] for x in X], Y).to_bytes()


@settings(deadline=None)
@given(keep=st.integers(1, 400))
def test_the_greatest_weights_stay_and_score_as_before(tagger, keep):
    smaller = tagger.pruned(keep=keep)
    before, after = tagger.model_, smaller.model_
    kept = np.sort(np.abs(after.weights))
    assert np.array_equal(kept, np.sort(np.abs(before.weights))[-keep:])
    assert after.named("state").items() <= before.named("state").items()
    assert after.named("transition").items() <= before.named("transition").items()
    used = {name for name, _ in after.named("state")}
    assert set(after.encoder.names()) == used  # no attribute without a weight is left
    if keep < len(before.weights):
        assert all(any(value in name for name in used) for value in after.encoder.values.strings)
    zeroed = before.with_weights(np.where(np.isin(np.abs(before.weights), kept), before.weights, 0.0))
    if len(np.unique(np.abs(before.weights))) == len(before.weights):
        corpus = smaller._corpus(X)
        mine, theirs = after.encode(corpus), zeroed.encode(corpus)
        np.testing.assert_allclose(
            after.part_scores(mine, 0, len(X)).emission, zeroed.part_scores(theirs, 0, len(X)).emission, atol=1e-12
        )
    assert Tagger.load(smaller.to_bytes()).predict(X) == smaller.predict(X)


def test_pruning_after_training_says_what_it_costs():
    options = {"template": "words", "l2": 0.1, "max_iter": 15}
    whole = Tagger(**options).fit(X, Y, X, Y)
    pruned = Tagger(prune=0.75, **options).fit(X, Y, X, Y)
    d = whole.model_.features.n_features
    assert pruned.n_features_trained_ == d and pruned.model_.features.n_features == d - round(0.75 * d)
    assert pruned.dev_score_ == whole.dev_score_ and whole.pruned_score_ is None
    assert pruned.pruned_score_ == pruned.score(X, Y)
    assert np.array_equal(pruned.model_.weights, whole.pruned(0.75).model_.weights)
    again = Tagger.load(pruned.to_bytes())
    assert (again.n_features_trained_, again.pruned_score_) == (d, pruned.pruned_score_)


def test_pruning_that_makes_no_sense_is_refused(tagger):
    for arguments in ({}, {"share": 0.5, "keep": 3}, {"share": 0.0}, {"share": 1.0}, {"share": -1}, {"keep": 0}):
        with pytest.raises(OptionError):
            tagger.pruned(**arguments)
    for prune in (0.0, 1.5, -0.1, "half"):
        with pytest.raises(OptionError, match="prune"):
            Tagger(template="words", prune=prune).fit(X, Y)


def test_pruning_everything_or_nothing_to_prune_is_refused_at_once():
    with pytest.raises(OptionError, match="a share of 1"):
        Tagger(template="words", prune=1.0).check_options()
    few = Tagger(template="words", prune=0.999999).fit(X, Y)
    assert few.model_.features.n_features == 1
    with pytest.raises(OptionError, match="has no weights to leave out"):
        Tagger(criterion="hmm").fit([[(word,) for word in x] for x in X], Y).pruned(0.5)


def test_values_beyond_all_floats_are_refused():
    with pytest.raises(DataError, match="more than 1e308"):
        Tagger().fit([[{"size": 10**400}]], [["A"]])
