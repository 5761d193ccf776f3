"""Model files with one part changed and a right checksum are refused, or used like any other, in bounded memory."""

from __future__ import annotations

import numpy as np
import pytest

from loglinear import Classifier, NaiveBayes, Parser, Tagger, model_file
from loglinear.errors import ModelFileError
from problems.limits import limited
from problems.mutated_models import GOLDEN, fault

_CAMPAIGN = """
print(*campaign(GOLDEN, {seed}, {n}), sep="\\n")
"""
_IMPORTS = "from problems.mutated_models import GOLDEN, campaign\nimport numba, scipy.sparse, sklearn"


def _changed(name: str, header: dict | None = None, **arrays: object) -> bytes:
    """A golden model with some entries of its header, and some arrays, replaced."""
    found = model_file.load(GOLDEN / f"{name}.model")
    content = {**found.header, **(header or {})}
    for key in ("options", "model"):
        if header and isinstance(header.get(key), dict):
            content[key] = {**found.header[key], **header[key]}
    return model_file.dumps(found.kind, content, {**found.arrays, **arrays})  # type: ignore[arg-type]  # arrays


@pytest.mark.parametrize("seed", [20_000])
def test_a_few_mutated_files(seed: int) -> None:
    assert limited(_CAMPAIGN.format(seed=seed, n=150), imports=_IMPORTS, megabytes=3000, seconds=120).strip() == ""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1_000_000, 2_000_000])
def test_many_mutated_files(seed: int) -> None:
    assert limited(_CAMPAIGN.format(seed=seed, n=1000), imports=_IMPORTS, megabytes=3000, seconds=400).strip() == ""


def test_sub_labels_out_of_proportion_to_the_file() -> None:
    for n in (10**6, 2**53, 10**400):
        blob = _changed("tagger-chain", {"sub_labels": n, "options": {"sub_labels": n}})
        with pytest.raises(ModelFileError, match=r"sub_labels"):
            Tagger.load(blob)


def test_an_order_out_of_proportion_to_the_file() -> None:
    labels = [f"L{y:05}" for y in range(3000)]
    blob = _changed("tagger-second-order", {"labels": labels})
    with pytest.raises(ModelFileError, match=r"using it would take about .*GB"):
        Tagger.load(blob)


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
    assert fault("tagger-chain", _changed("tagger-chain", None, weights=weights)) == ""
