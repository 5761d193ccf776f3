"""Checkpoints and results that lack a part, and numbers beyond what scores can hold: each is refused in a sentence."""

import pytest

from loglinear import Tagger, model_file
from loglinear.data import read_attributes
from loglinear.errors import DataError, ModelFileError, OptionError
from loglinear.experiments.store import read_results

X, y = [[["a"], ["b"]], [["b"], ["c"]]] * 3, [["A", "B"], ["B", "A"]] * 3


class Stop(Exception):
    pass


def interrupted(path):
    def stop(step):
        if step.iteration == 2:
            raise Stop

    with pytest.raises(Stop):
        Tagger("cll", optimizer="lbfgs").fit(X, y, checkpoint=path, checkpoint_seconds=0, observe=stop)
    return model_file.load(path.read_bytes())


def test_a_checkpoint_without_its_parts_is_refused(tmp_path):
    path = tmp_path / "m.checkpoint"
    stored = interrupted(path)
    notes, ours = stored.header["training"], [name for name in stored.arrays if name.startswith("optimizer.")]
    wrong = [
        ({**notes, name: value}, ()) for name in ("phase", "stage", "ended", "history", "seconds") for value in ("x",)
    ]
    wrong += [({k: v for k, v in notes.items() if k != name}, ()) for name in ("phase", "stage", "history", "seconds")]
    wrong += [(notes, (name,)) for name in ours] + [("x", ())]
    assert len(wrong) > 10
    for header, without in wrong:
        arrays = {name: array for name, array in stored.arrays.items() if name not in without}
        model_file.save(path, stored.kind, {**stored.header, "training": header}, arrays)
        with pytest.raises(ModelFileError, match=r"m\.checkpoint.*delete"):
            Tagger("cll", optimizer="lbfgs").fit(X, y, checkpoint=path, resume=True)


@pytest.mark.parametrize(
    ("options", "name"),
    [({"l2": 1e-300}, "l2=1e-300"), ({"variance": 1e300}, r"variance=1e\+300"), ({"l2": 5e-324}, "l2=5e-324")],
)
def test_penalties_that_no_number_can_hold_are_named(options, name):
    for criterion in ("cll", "max-margin"):
        with pytest.raises(OptionError, match=name):
            Tagger(criterion, **options).fit(X, y)


def test_values_that_leave_a_score_no_digits_are_named(tmp_path):
    with pytest.raises(DataError, match=r"feature 'a' .* 1e\+15"):
        Tagger("cll").fit([[{"a": 1e30}]], [["A"]])
    (tmp_path / "x.crfsuite").write_text("A\tb\nB\ta:-1e30\n\n")
    with pytest.raises(DataError, match=r"x\.crfsuite:2: attribute 'a:-1e30': values are at most 1e\+15"):
        read_attributes(tmp_path / "x.crfsuite")


@pytest.mark.parametrize("order", [1, 2, 3])
def test_marginals_add_up_to_one_whatever_the_values(order):
    tied = [[{"f": 1.0}, {"f": 1.0}], [{"f": 1.0}, {"f": 1.0}], [{"g": 1.0}, {"g": 1.0}]]
    tagger = Tagger("cll", order=order, l2=0.1, max_iter=20).fit(tied, [["A", "B"], ["B", "A"], ["C", "C"]])
    for value in (1.0, 1e9, 1e15, -1e15):
        for marginals in tagger.predict_marginals([[{"f": value}] * 3])[0]:
            assert sum(marginals.values()) == pytest.approx(1.0, abs=1e-9)


def test_results_with_numbers_that_no_float_holds_are_refused(tmp_path):
    path = tmp_path / "r.json"
    path.write_text(
        '{"kind": "loglinear tune", "format": 2, "about": {"clock_seconds": 1%s}, "cells": {}}' % ("0" * 400)
    )
    with pytest.raises(DataError, match="a whole number of 401 digits"):
        read_results(path, "tune")
