"""Model files with one part changed and a right checksum are refused, or used like any other, in bounded memory."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
import pytest

from fuzzing.model_files import GOLDEN, run
from fuzzing.targets import CRASHERS
from loglinear import Classifier, Combination, Mixture, NaiveBayes, Parser, Tagger, model_file
from loglinear.errors import ModelFileError
from loglinear.estimators.tagger.model import _use_of, table_size

OF_61_LABELS = CRASHERS / "models" / "third-order@memory-of-61-labels-173109"


def _changed(name: str, header: dict | None = None, **arrays: object) -> bytes:
    """A golden model with some entries of its header, and some arrays, replaced."""
    found = model_file.load(GOLDEN / f"{name}.model")
    content = {**found.header, **(header or {})}
    for key in ("options", "model"):
        if header and isinstance(header.get(key), dict):
            content[key] = {**found.header[key], **header[key]}
    return model_file.dumps(found.kind, content, {**found.arrays, **arrays})  # type: ignore[arg-type]  # arrays


def test_sub_labels_out_of_proportion_to_the_file() -> None:
    for n in (10**6, 2**53, 10**400):
        blob = _changed("tagger-chain", {"sub_labels": n, "options": {"sub_labels": n}})
        with pytest.raises(ModelFileError, match=r"sub_labels"):
            Tagger.load(blob)


def test_an_order_out_of_proportion_to_the_file() -> None:
    labels = [f"L{y:05}" for y in range(3000)]
    blob = _changed("tagger-second-order", {"labels": labels})
    with pytest.raises(ModelFileError, match=r"using it would take about .*TB"):
        Tagger.load(blob)


@pytest.mark.skipif(sys.platform != "linux", reason="peaks of memory are those that Linux tells")
@pytest.mark.parametrize(("order", "n"), [(2, 120), (3, 40)])
def test_using_a_chain_takes_no_more_than_is_presumed(order: int, n: int) -> None:
    """What a file is refused for must be what its use would take."""
    found = model_file.load(GOLDEN / "tagger-second-order.model" if order == 2 else OF_61_LABELS)
    labels = [f"L{k}" for k in range(n)]
    blob = model_file.dumps(found.kind, {**found.header, "labels": labels}, found.arrays)
    tagger = Tagger.load(blob).set_params(threads=1)
    X, taken = [[("a",) * 3] * 5], []
    for _ in range(2):  # the first loads what is needed
        tagger = Tagger.load(blob).set_params(threads=1)
        ctypes.CDLL(None).malloc_trim(0)  # memory that earlier tests have freed is not there to be used again
        before = _memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
        tagger.predict_marginals(X)
        tagger.predict_nbest(X, k=2)
        tagger.log_probability(X, [labels[:5]])
        taken.append(_memory("VmHWM") - before)
    assert 3.0 * table_size(n, order) < taken[1] < _use_of(n, order, False, False)


def _memory(name: str) -> float:
    """Bytes that Linux tells of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def test_the_tables_of_order_3_count() -> None:
    """61 labels are five tables of 111 MB."""
    with pytest.raises(ModelFileError, match=r"using it would take about 6\d\d MB"):
        Tagger.load(OF_61_LABELS)


def test_more_symbols_than_a_grammar_of_its_size_can_have() -> None:
    n = 150_000
    names = "\n".join(f"{k:x}" for k in range(n)).encode()
    header = {"model": {"n_symbols": n, "n_tags": n - 10, "root": n - 1}}
    with pytest.raises(ModelFileError, match=r"n_symbols: using it would take about .*GB"):
        Parser.load(
            _changed("parser-pcfg", header, names=np.frombuffer(names, dtype=np.uint8), prior_before=np.zeros(1))
        )


@pytest.mark.parametrize("value", [1e150, -1e150, np.nan, np.inf])
def test_numbers_that_no_training_gives(value: float) -> None:
    for name, kind, part in (
        ("tagger-chain", Tagger, "weights"),
        ("classifier-numbers", Classifier, "coef"),
        ("naive-bayes", NaiveBayes, "log_theta"),
    ):
        array = np.array(model_file.load(GOLDEN / f"{name}.model").arrays[part], dtype=np.float64)
        array.flat[0] = value
        with pytest.raises(ModelFileError, match=part):
            kind.load(_changed(name, None, **{part: array}))


def test_naive_bayes_whose_probabilities_do_not_add_up() -> None:
    array = np.array(model_file.load(GOLDEN / "naive-bayes.model").arrays["log_theta"])
    with pytest.raises(ModelFileError, match="do not add up to one"):
        NaiveBayes.load(_changed("naive-bayes", None, log_theta=array - 1.0))


@pytest.mark.parametrize("weight", [1e18, 1e60, 1e100])
def test_probabilities_of_great_weights_are_none_above_one(weight: float) -> None:
    weights = np.array(model_file.load(GOLDEN / "tagger-chain.model").arrays["weights"], dtype=np.float64)
    weights[:] = np.where(np.arange(len(weights)) % 2, weight, -weight)
    assert run("tagger-chain", _changed("tagger-chain", None, weights=weights)) == "used"


def test_a_base_that_emits_a_column_twice() -> None:
    found = model_file.load(GOLDEN / "tagger-hmm-second-order.model")
    base = found.header["base"]
    assert len(base["columns"]) == 2
    with pytest.raises(ModelFileError, match="a column is there twice"):
        Tagger.load(_changed("tagger-hmm-second-order", {"base": {**base, "columns": [0, 0]}}))


@pytest.mark.parametrize("start", [10**400, [[1.0]], 3])
def test_a_start_of_a_mixture_that_is_none(start: object) -> None:
    with pytest.raises(ModelFileError, match="start"):
        Mixture.load(_changed("mixture-spherical", {"options": {"start": start}}))


@pytest.mark.parametrize("weights", [7, ["a", 1.0], [1.0], [0.0, 0.0]])
def test_weights_of_a_combination_that_are_none(weights: object) -> None:
    tagger = Tagger.load(GOLDEN / "tagger-chain.model")
    found = model_file.load(Combination([tagger, tagger], weights=[1.0, 2.0]).fit().to_bytes())
    header = {**found.header, "options": {**found.header["options"], "weights": weights}}
    with pytest.raises(ModelFileError, match="weights"):
        Combination.load(model_file.dumps(found.kind, header, found.arrays))


def test_rows_of_a_generous_mean_length_are_drawn_at_once() -> None:
    model = NaiveBayes.load(_changed("naive-bayes", {"mean_length": 9e8}))
    X, _ = model.sample(5, seed=1)
    totals = np.asarray(X.sum(axis=1)).ravel()
    np.testing.assert_allclose(totals, 9e8, rtol=1e-3)
    shares = np.exp(model.feature_log_prob_)
    rows = np.asarray(X.todense() if hasattr(X, "todense") else X) / totals[:, None]
    assert all(min(np.abs(row - share).max() for share in shares) < 1e-3 for row in rows)


def test_unary_rules_without_a_chain_between_them() -> None:
    """Sums over chains are worked out by inversion, and may be positive, by rounding, where there is no chain."""
    from loglinear.generative.pcfg.model import UnaryClosure

    rng = np.random.default_rng(0)
    for _ in range(300):
        rules = np.unique(rng.integers(0, 8, size=(9, 2)), axis=0)
        closure = UnaryClosure(8, rules, rng.choice([0.0, 1e-300, 1e-30, 0.03, 0.1], size=len(rules)))
        assert all(
            chain[0] == a and chain[-1] == b for chain, (a, b) in zip(closure.chains, closure.steps, strict=True)
        )


def test_a_checkpoint_that_fails_when_it_is_used(tmp_path) -> None:
    """What a state is worth may show in the first iteration only; later errors are nobody's but their own."""

    def mixture() -> Mixture:
        return Mixture(2, covariance="full", restarts=0, rounds=6, tolerance=0)

    class StopError(ValueError):
        pass

    def stopping(after: int):
        seen = []

        def observe(progress: object) -> None:
            seen.append(progress)
            if len(seen) == after:
                raise StopError

        return observe

    path, X = tmp_path / "checkpoint", np.random.default_rng(0).normal(size=(30, 3))
    with pytest.raises(StopError):
        mixture().fit(X, checkpoint=path, checkpoint_seconds=0, observe=stopping(2))
    kept = path.read_bytes()
    with pytest.raises(StopError):
        mixture().fit(X, checkpoint=path, resume=True, observe=stopping(1))
    path.write_bytes(kept)
    found = model_file.load(kept)
    changed = {**found.arrays, "optimizer.candidate": -found.arrays["optimizer.candidate"]}
    path.write_bytes(model_file.dumps(found.kind, found.header, changed))
    with pytest.raises(ModelFileError, match="no training can continue from it"):
        mixture().fit(X, checkpoint=path, resume=True)


@pytest.mark.parametrize("optimizer", ["dual", "lbfgs", "sgd", "adagrad"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_checkpoint_with_an_infinite_state_is_refused(tmp_path, optimizer: str, value: float) -> None:
    X = [[{"a"}, {"b"}], [{"b"}, {"c", "a"}]] * 3
    y = [["A", "B"], ["B", "A"]] * 3

    class StopError(ValueError):
        pass

    seen: list[object] = []

    def observe(progress: object) -> None:
        seen.append(progress)
        if len(seen) == 2:
            raise StopError

    tagger = Tagger(optimizer=optimizer, max_iter=5, tolerance=1e-9, threads=1)
    path = tmp_path / "checkpoint"
    with pytest.raises(StopError):
        tagger.fit(X, y, checkpoint=path, checkpoint_seconds=0, observe=observe)
    found = model_file.load(path.read_bytes())
    for name, array in found.arrays.items():
        if name.startswith("optimizer.") and array.dtype.kind == "f" and array.size and name != "optimizer.values":
            changed = {**found.arrays, name: np.full_like(array, value)}
            path.write_bytes(model_file.dumps(found.kind, found.header, changed))
            with pytest.raises(ModelFileError, match="not finite"):
                tagger.fit(X, y, checkpoint=path, checkpoint_seconds=0, resume=True)


def test_an_em_state_whose_counters_and_lists_differ() -> None:
    from loglinear.generative.em import EMState

    state = EMState(
        np.ones(3), n_starts=2, iteration=4, evaluations=6, start=1, log_likelihoods=[-3.0], objectives=[-3.0]
    )
    state.ended, state.best = [-2.0], np.zeros(3)
    state.best_objectives = state.best_log_likelihoods = [-4.0, -2.0]
    whole = state.to_arrays()
    assert EMState.from_arrays(whole).ended == [-2.0]
    nothing = np.zeros(0)
    for change in (
        {"ended": np.array([-2.0, -3.0, -1.0])}, {"ended": nothing}, {"best_objectives": nothing}, {"best": np.ones(2)},
        {"best_objectives": nothing, "best_log_likelihoods": nothing}, {"objectives": nothing},
        {"ended": np.array([np.nan])},
        {"objectives": nothing, "log_likelihoods": nothing}, {"counters": np.array(whole["counters"]) * 7},
    ):  # fmt: skip
        with pytest.raises(ModelFileError):
            EMState.from_arrays({**whole, **change})
