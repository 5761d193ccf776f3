"""Model files of version 0.1.0, of all kinds, answer as they did.

Labels, trees and draws must be the same, and so must be every other number to the last bit where the answers were
recorded on the same kind of machine (``golden_records.py`` says what that is). Elsewhere numbers may differ by 1e-12 of
their size: exp and log of another C library, and sums that another processor makes in vectors of another length, differ
in their last bits, and nothing here adds up enough of them for more.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import golden_records
import pytest
from model_answers import KINDS, MACHINE, answers, arrays_of, loaded, metadata_of
from own_functions import LOADED_WITH

import loglinear

MODELS = golden_records.HERE / "models"
RECORDS = golden_records.FOLDER / "models"
NAMES = sorted(path.stem for path in MODELS.glob("*.model"))
ELSEWHERE = golden_records.Tolerance(relative=1e-12, absolute=1e-15)
NOT_SAVED_AGAIN = {
    "tagger-checkpoint": "a saved model has no state to go on from",
}  #: files that loading and saving does not give back, and why
DENSITY = ("log_prob", "log_prob_with_labels", "sample", "log_normaliser")
ANSWERED_NOW = {
    "tagger-own-base": DENSITY,
    "tagger-own-base-with-scores": DENSITY,
}  #: questions that 0.1.0 refused and that have an answer now


@pytest.fixture(autouse=True)
def quietly():
    """Few draws make poor estimates, which the models warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def record_of(name: str) -> dict:
    return golden_records.read(RECORDS / f"{name}.json")


def test_there_are_models_of_every_kind():
    assert {metadata_of((MODELS / f"{name}.model").read_bytes())["kind"] for name in NAMES} == set(KINDS)
    assert all(metadata_of((MODELS / f"{name}.model").read_bytes())["loglinear_version"] == "0.1.0" for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_answers_as_it_did(name: str, tmp_path: Path):
    record, path = record_of(name), MODELS / f"{name}.model"
    found = answers(loaded(name, path, record["estimator"]), path, record["question"], tmp_path)
    for question in ANSWERED_NOW.get(name, ()):
        assert record["answers"].pop(question) == {"refused": "OptionError"} != found[question]
    golden_records.check(record["answers"], found, golden_records.read(RECORDS / MACHINE), ELSEWHERE)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_SAVED_AGAIN])
def test_a_model_that_is_saved_again_has_all_that_its_file_had(name: str):
    """The same arrays, and a header with all entries of the old one; new entries, as of new options, are no loss."""
    content = (MODELS / f"{name}.model").read_bytes()
    model = getattr(loglinear, record_of(name)["estimator"]).load(content, **LOADED_WITH.get(name, {}))
    again = model.to_bytes()
    before, after = arrays_of(content), arrays_of(again)
    assert before.keys() == after.keys()
    for key, array in before.items():
        assert (array.dtype, array.shape) == (after[key].dtype, after[key].shape), key
        assert array.tobytes() == after[key].tobytes(), key
    old, new = metadata_of(content), metadata_of(again)
    assert (old["format"], old["kind"]) == (new["format"], new["kind"])
    wrong = golden_records.differences(json.loads(old["header"]), json.loads(new["header"]), golden_records.EXACT)
    assert list(wrong) == []
    if loglinear.__version__ == old["loglinear_version"]:
        assert again == content


@pytest.mark.parametrize("name", ["tagger-chain", "classifier-text", "parser-pcfg", "dependency-parser-mira"])
def test_the_number_of_threads_changes_no_answer(name: str, tmp_path: Path):
    record, path = record_of(name), MODELS / f"{name}.model"
    model = loaded(name, path, record["estimator"])
    one = answers(model, path, record["question"], tmp_path)
    two = answers(model.set_params(threads=2), path, record["question"], tmp_path)
    one["options"].pop("threads"), two["options"].pop("threads")
    assert one == two


@pytest.mark.parametrize(("cpu", "change"), [(None, 2.3e-16), ("another", 1e-9)])
def test_a_changed_answer_is_noticed(cpu: str | None, change: float):
    """The referee itself: a last bit on the machine of the record, and more than rounding elsewhere, fail."""
    recorded, here = record_of("tagger-chain")["answers"], golden_records.machine()
    made_on = here if cpu is None else {**here, "cpu": cpu}
    golden_records.check(recorded, recorded, made_on, ELSEWHERE)
    changed = json.loads(json.dumps(recorded))
    changed["predict_nbest"][0][0][1] *= 1 + change
    with pytest.raises(AssertionError, match="predict_nbest/0/0/1"):
        golden_records.check(recorded, changed, made_on, ELSEWHERE)
    changed = json.loads(json.dumps(recorded))
    changed["predict"][0][0] = "B-SBAR"
    with pytest.raises(AssertionError, match="predict/0/0"):
        golden_records.check(recorded, changed, made_on, ELSEWHERE)
