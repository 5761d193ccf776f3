"""Every estimator is saved, loaded, pickled and copied, and says so when it is not fitted."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import loglinear
from loglinear import LoglinearError, model_file
from loglinear.errors import ModelFileError, ModelKindError, OptionError
from loglinear.estimators.estimator import ESTIMATORS, RUN_DEFAULTS
from problems.estimators import PICKLED, STORED, Fit, fitted

stored = pytest.mark.parametrize("name", STORED)
pickled = pytest.mark.parametrize("name", PICKLED)


@pytest.fixture(autouse=True)
def quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def assert_same(left: Any, right: Any) -> None:
    np.testing.assert_equal(left, right)  # to the last bit


@stored
def test_a_saved_model_answers_the_same(name: str, tmp_path: Path) -> None:
    model, fit = fitted(name), STORED[name]
    model.save(tmp_path / "m")
    content = (tmp_path / "m").read_bytes()
    assert content == model.to_bytes()
    for source in (tmp_path / "m", content):
        again = type(model).load(source, **fit.functions)
        assert type(again) is type(model)
        assert_same(fit.ask(again), fit.ask(model))
        assert again.to_bytes() == content


@stored
def test_load_opens_every_kind(name: str, tmp_path: Path) -> None:
    model, fit = fitted(name), STORED[name]
    model.save(tmp_path / "m")
    for source in (tmp_path / "m", str(tmp_path / "m"), model.to_bytes()):
        again = loglinear.load(source, **fit.functions)
        assert type(again).__name__ == ESTIMATORS[model.kind]
        assert_same(fit.ask(again), fit.ask(model))
        assert again.to_bytes() == model.to_bytes()


def test_every_kind_has_its_estimator() -> None:
    assert {fitted(name).kind for name in STORED} == set(ESTIMATORS)
    for kind, name in ESTIMATORS.items():
        assert getattr(loglinear, name).kind == kind


@pickled
def test_pickles_and_copies_answer_the_same(name: str) -> None:
    model, fit = fitted(name), PICKLED[name]
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert type(again) is type(model)
        assert vars(again).keys() == vars(model).keys()
        assert_same(fit.ask(again), fit.ask(model))
    again = pickle.loads(pickle.dumps(model))
    for attribute, value in vars(model).items():  # nothing that users see is lost
        if isinstance(value, str | int | float | np.ndarray | None) or attribute == "history_":
            assert_same(getattr(again, attribute), value)


@pytest.mark.parametrize("name", [name for name in STORED if name not in ("local tagger", "input classifier")])
def test_the_pickle_of_a_model_is_its_file(name: str) -> None:
    state = fitted(name).__getstate__()
    assert "model_" not in state
    assert model_file.load(state["_model_file"]).kind == fitted(name).kind


def test_a_pickle_holds_the_weights_as_they_are() -> None:
    tagger = STORED["tagger"].fitted().set_params(precision="float16")
    tagger.model_ = tagger.model_.with_weights(tagger.model_.weights / 3)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(tagger)).model_.weights, tagger.model_.weights)


@pickled
def test_clones_are_not_fitted_and_say_so(name: str, tmp_path: Path) -> None:
    model, fit = fitted(name), PICKLED[name]
    for empty in (clone(model), pickle.loads(pickle.dumps(clone(model))), type(model)(**model.get_params(deep=False))):
        kind = type(model).__name__
        with pytest.raises(NotFittedError, match=f"^this {kind} has no model yet; call fit, or {kind}.load$"):
            fit.ask(empty)
        if name in STORED:
            with pytest.raises(NotFittedError, match="has no model yet"):
                empty.save(tmp_path / "m")
            with pytest.raises(NotFittedError, match="has no model yet"):
                empty.to_bytes()
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("name", [name for name, fit in STORED.items() if fit.functions])
def test_objects_of_the_users_own_are_given_again(name: str, tmp_path: Path) -> None:
    model, fit = fitted(name), STORED[name]
    model.save(tmp_path / "own.model")
    for load in (type(model).load, loglinear.load):
        with pytest.raises(OptionError, match=r"own\.model"):
            load(tmp_path / "own.model")
    with pytest.raises(OptionError, match=r"other=\.\.\.: .*own\.model"):
        loglinear.load(tmp_path / "own.model", **fit.functions, other=len)


@stored
def test_functions_that_a_model_has_no_use_for_are_refused(name: str, tmp_path: Path) -> None:
    model, fit = fitted(name), STORED[name]
    model.save(tmp_path / "plain.model")
    for function in ("base", "features", "feature_map", "span_features"):
        if function not in fit.functions:
            with pytest.raises(OptionError, match=r"plain\.model"):
                loglinear.load(tmp_path / "plain.model", **fit.functions, **{function: len})


@stored
def test_a_file_of_another_kind_is_refused(name: str) -> None:
    model = fitted(name)
    for other in ESTIMATORS.values():
        if other != ESTIMATORS[model.kind]:
            with pytest.raises(ModelKindError, match=rf"of kind '{model.kind}', but .*loglinear\.load") as caught:
                getattr(loglinear, other).load(model.to_bytes())
            assert pickle.loads(pickle.dumps(caught.value)).kind == model.kind


def test_a_kind_of_the_future_is_refused() -> None:
    with pytest.raises(ModelFileError, match=r"'oracle', which .* does not know; upgrade"):
        loglinear.load(model_file.dumps("oracle", {}, {}))


# -- files of strangers ------------------------------------------------------------------------------------------------

WRONG: list[Any] = [None, -1, 7, 1.5, True, "x", [], ["x", "x"], [-1], {}, {"kind": "x"}, 2**70]


def changed_headers(header: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """The header with one value missing, or another: at every place but in the free notes."""
    for key, value in header.items():
        yield f"{place}{key} is left out", {k: v for k, v in header.items() if k != key}
        for wrong in WRONG:
            yield f"{place}{key} = {wrong!r}", {**header, key: wrong}
        if isinstance(value, dict):
            for what, inner in changed_headers(value, f"{place}{key}."):
                yield what, {**header, key: inner}


def changed_arrays(arrays: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The arrays with one missing, cut short, of another shape or type, or with numbers out of range."""
    for name, array in arrays.items():
        yield f"{name} is left out", {key: each for key, each in arrays.items() if key != name}
        changes = [array[:-1] if array.ndim else array[None], array[None], array.astype(np.float32)]
        changes += [array.astype(np.int64), np.zeros(0), np.zeros((0, 0)), np.zeros((3, 0), dtype=array.dtype)]
        if array.dtype.kind == "f":
            changes += [array * np.nan, array - np.inf, -array - 1]
        else:
            changes += [array - array.dtype.type(1), array[::-1], np.full_like(array, np.iinfo(array.dtype).max)]
        for number, changed in enumerate(changes):
            yield f"change {number} of {name}", {**arrays, name: np.ascontiguousarray(changed)}


@stored
def test_a_strangers_file_is_an_error_that_names_it_or_can_be_used(name: str, tmp_path: Path) -> None:
    model, fit, path = fitted(name), STORED[name], tmp_path / "strange.model"
    whole, refused, used = model_file.load(model.to_bytes()), 0, 0
    files = [(what, header, whole.arrays) for what, header in changed_headers(whole.header)]
    files += [(what, whole.header, arrays) for what, arrays in changed_arrays(dict(whole.arrays))]
    for what, header, arrays in files:
        path.write_bytes(model_file.dumps(whole.kind, header, arrays))
        try:
            again = loglinear.load(path, **fit.functions)
        except LoglinearError as error:
            assert "strange.model" in str(error), what
            refused += 1
            continue
        try:
            fit.ask(again)
        except LoglinearError:  # a model of other data
            continue
        except (ValueError, TypeError) as error:
            pytest.fail(f"{what}: {error!r}")
        used += 1
    assert refused > 20 and used


@pytest.mark.parametrize(
    ("name", "part", "header", "arrays"),
    [
        ("tagger", "weights", {}, {"weights": np.zeros(3)}),
        ("tagger", "labels", {"labels": "BIO"}, {}),
        ("tagger", "encoder.kind", {"encoder": {"kind": "x"}}, {}),
        ("tagger over an hmm", "base.order", {"base": {"kind": "hmm", "order": 3}}, {}),
        ("combination", "weights", {}, {"weights": np.zeros(3)}),
        ("combination", "members", {"members": {"0": {}, "2": {}}}, {}),
        ("classifier of texts", "labels.values", {"labels": {"type": "str", "values": ["b", "a"]}}, {}),
        ("parser", "model.root", {"model": {"n_symbols": 5, "n_tags": 2, "root": 9}}, {}),
        ("dependency parser", "relation.codes", {}, {"relation.codes": np.zeros(1)}),
        ("mixture", "training", {"training": {}}, {}),
        ("naive Bayes", "log_prior", {}, {"log_prior": np.zeros(2)}),
        ("ridge", "coef", {}, {"coef": np.zeros((0, 3))}),
    ],
)  # fmt: skip
def test_errors_name_the_part(name: str, part: str, header: Any, arrays: Any, tmp_path: Path) -> None:
    model, path = fitted(name), tmp_path / "m.model"
    whole = model_file.load(model.to_bytes())
    path.write_bytes(model_file.dumps(whole.kind, {**whole.header, **header}, {**whole.arrays, **arrays}))
    with pytest.raises(ModelFileError) as caught:
        type(model).load(path)
    assert str(caught.value).startswith(f"{path}: the content of the model file does not fit together ({part}")
    assert str(caught.value).endswith("; copy it again, or train again")


def test_every_problem_is_fresh() -> None:
    fit: Fit = STORED["ridge"]
    assert fit.fitted() is not fit.fitted() and not hasattr(fit.estimator, "coef_")


@pytest.mark.parametrize("name", ["Classifier", "DependencyParser", "Mixture", "Parser"])
def test_fit_spells_out_the_keywords_of_every_training(name: str) -> None:
    fit = getattr(loglinear, name).fit
    known = inspect.signature(fit).parameters
    assert {each: known[each].default for each in RUN_DEFAULTS} == RUN_DEFAULTS
    assert "checkpoint : path, optional\n            File that" in fit.__doc__ and "KEYWORDS" not in fit.__doc__
    with pytest.raises(TypeError, match="unexpected keyword argument 'checkpiont'"):
        getattr(loglinear, name)().fit([], checkpiont="x")


def test_an_option_that_is_none_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(TypeError, match="Tagger has no option 'standardize'; did you mean standardise"):
        loglinear.Tagger(standardize=False)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"Classifier has no option 'c1'$"):
        loglinear.Classifier(c1=1.0)  # type: ignore[call-arg]
