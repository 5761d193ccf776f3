"""Costs: tables over pairs of labels and kinds of positions."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.criteria.costs import KINDS, make_cost
from loglinear.errors import OptionError
from loglinear.structures.gold import Gold

LABELS = ["B-PER", "I-PER", "O"]
COUNTS = [2, 2, 16]


def table(spec):
    made = make_cost(spec, LABELS, COUNTS).table
    assert all(np.array_equal(made[0], other) for other in made[1:]) or callable(spec)
    return made[0]


def test_costs_by_name(tmp_path):
    wrong = 1.0 - np.eye(3)
    assert np.array_equal(table("hamming"), wrong)
    assert np.array_equal(table("hamming:5"), 5 * wrong)
    recall, precision = table("recall:3"), table("precision:3")
    assert recall[0, 2] == 3 and recall.sum() == wrong.sum() + 2
    assert precision[2, 0] == 3 and precision.sum() == wrong.sum() + 2
    assert np.array_equal(table({("B-PER", "O"): 5}), wrong + np.array([[0, 0, 4], [0, 0, 0], [0, 0, 0]]))
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({"B-PER": {"O": 5}}), encoding="utf-8")
    assert np.array_equal(table(str(path)), table({("B-PER", "O"): 5}))
    assert np.array_equal(table(2 * wrong), 2 * wrong)
    path.write_text('{"B-PER": {"O": "x"}}', encoding="utf-8")
    with pytest.raises(OptionError, match=r"costs\.json: the cost of 'O' where 'B-PER' is right is 'x', not a number"):
        table(str(path))


@pytest.mark.parametrize(
    ("labels", "counts", "starting"),
    [
        (["B-X", "E-X", "I-X", "O", "S-X"], [3, 3, 2, 20, 4], ["B-X", "S-X"]),
        (["B-X", "I-X", "I-Y", "O"], [1, 20, 30, 50], ["B-X", "I-X", "I-Y"]),  # IOB1: Y never has a B
        (["B-X", "I-X", "O"], [1, 40, 60], ["B-X", "I-X"]),  # IOB1 as well: hardly any chunk has a B
        (["O", "X", "Y"], [9, 1, 1], ["X", "Y"]),
    ],
    ids=str,
)
def test_leaning_prices_where_chunks_start(labels, counts, starting):
    outside = labels.index("O")
    recall, precision = (make_cost(spec, labels, counts).table[0] for spec in ("recall:3", "precision:3"))
    assert [label for y, label in enumerate(labels) if recall[y, outside] == 3] == starting
    assert np.array_equal(precision, recall.T)
    assert recall.max() == 3 and (recall == 3).sum() == len(starting)


def test_balanced_costs_weigh_rare_labels_and_cost_one_on_average():
    balanced = table("balanced")
    assert balanced[0, 1] == balanced[0, 2] == 8 * balanced[2, 0]
    per_label = balanced.max(axis=1)
    assert np.dot(per_label, COUNTS) / sum(COUNTS) == pytest.approx(1.0)


def test_a_function_is_asked_once_for_each_pair_and_kind():
    asked = []

    def cost(gold, predicted, kind):
        asked.append((gold, predicted, kind))
        return 0.0 if gold == predicted else {"first": 2.0}.get(kind, 1.0)

    made = make_cost(cost, LABELS, COUNTS)
    assert len(asked) == len(set(asked)) == 9 * len(KINDS)
    offsets = np.array([0, 1, 4], dtype=np.int64)
    costs = made.at(Gold(np.array([2, 2, 2, 2], dtype=np.int32)), offsets)
    assert costs.tolist() == [[1, 1, 0], [2, 2, 0], [1, 1, 0], [1, 1, 0]]


@given(st.integers(0, 2**32 - 1))
def test_partial_labels_cost_what_the_nearest_costs(seed):
    rng = np.random.default_rng(seed)
    own = rng.random((3, 3)) * (1 - np.eye(3))
    allowed = (rng.random((5, 3)) < 0.5).astype(np.uint8)
    allowed[np.arange(5), rng.integers(0, 3, 5)] = 1
    offsets = np.array([0, 2, 5], dtype=np.int64)
    costs = make_cost(own, LABELS, COUNTS).at(Gold(np.full(5, -1, dtype=np.int32), allowed), offsets)
    for t in range(5):
        assert costs[t].tolist() == [min(own[g, y] for g in range(3) if allowed[t, g]) for y in range(3)]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("haming", "not known; there are hamming"),
        ("hamming:x", "'x' is not a number"),
        ("hamming:-1", "at least 0"),
        ("hamming:inf", "finite"),
        ("absent.json", "cannot be read"),
        ({("B-PER", "X"): 1}, "names the label 'X'"),
        ({("B-PER", "B-PER"): 1}, "right label 'B-PER' has a cost"),
        ({("B-PER", "O"): "much"}, "not a number"),
        ({"B-PER": 3}, r"give \{\(gold, predicted\): cost\}"),
        (np.zeros((2, 2)), r"has the shape \[3, 3\]"),
        (np.full((3, 3), np.nan), "between 0 and"),
        ("recall", "cost='recall' needs a number, how many times worse, as in recall:3"),
        ("precision:", "cost='precision:' needs a number, .* as in precision:3"),
        ("hamming:1e7", "between 0 and"),
        (lambda gold, predicted, kind: 1.0, "right label"),
    ],
)
def test_bad_costs_are_named(spec, says):
    with pytest.raises(OptionError, match=says):
        make_cost(spec, LABELS, COUNTS)


def test_leaning_costs_need_the_label_outside():
    with pytest.raises(OptionError, match="leans on the label 'O'"):
        make_cost("recall:2", ["N", "V"], [1, 1])
