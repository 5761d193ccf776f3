"""Trainings give the weights that version 0.1.0 found, to the last bit, with one thread as with two.

That holds on the kind of machine that the record was made on (``golden_records.py``): the compiler cuts loops into
vectors as long as the processor has them, so that another one adds in another order. On other machines the objective,
the sizes and some of the weights are compared to a tolerance, and digests, iterations and messages are not. ``make.py``
says how to have the bits compared on any machine.
"""

from __future__ import annotations

import warnings

import golden_records
import golden_trainings
import numpy as np
import pytest
from golden_trainings import array_outcome

RECORD = golden_records.read(golden_records.FOLDER / "weights.json")
DIGESTS = ("sha256", "iterations", "evaluations", "message")  # compared on the machine of the record alone
# Elsewhere. Tried with LLVM made to compile for processors with shorter vectors, and without fused multiplication:
# weights found in single precision end up to 2e-5 apart, and the objective, at its minimum, hardly notices. With an L1
# penalty a rounding error may bring another weight to zero, and then training takes another course.
OF_OBJECTIVES = golden_records.Tolerance(1e-6, 1e-6, passed_over=(*DIGESTS, "arrays"))
OF_WEIGHTS = golden_records.Tolerance(1e-4, 1e-4, passed_over=(*DIGESTS, "objective"))
OF_SPARSE_MODELS = golden_records.Tolerance(1e-4, 1e-6, passed_over=(*DIGESTS, "arrays"))


def check(name: str, found: dict) -> None:
    for tolerance in [OF_SPARSE_MODELS] if name in golden_trainings.SPARSE else [OF_OBJECTIVES, OF_WEIGHTS]:
        golden_records.check(RECORD["trainings"][name], found, RECORD["machine"], tolerance)


def test_the_record_has_all_trainings():
    assert set(RECORD["trainings"]) == set(golden_trainings.NAMES)


def test_the_corpus_is_the_one_that_was_trained_on():
    assert golden_trainings.corpus_digests() == RECORD["corpus"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", golden_trainings.NAMES)
def test_a_training_finds_the_same_weights(name: str, threads: int):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that so short a training did not converge is no news
        check(name, golden_trainings.result(name, threads))


def test_a_weight_that_moved_is_noticed():
    """The referee itself: the smallest change of a single weight fails on the machine of the record."""
    weights = np.linspace(-1.0, 1.0, 1000)
    moved = weights.copy()
    moved[500] = np.nextafter(moved[500], 2.0)
    recorded, here = golden_records.plain(array_outcome(weights)), golden_records.machine()
    golden_records.check(recorded, array_outcome(weights), here, OF_WEIGHTS)
    with pytest.raises(AssertionError, match="sha256"):
        golden_records.check(recorded, array_outcome(moved), here, OF_WEIGHTS)
    moved[0] -= 0.01
    with pytest.raises(AssertionError, match="some"):
        golden_records.check(recorded, array_outcome(moved), {**here, "cpu": "another"}, OF_WEIGHTS)
