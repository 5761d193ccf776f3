"""Label schemes: the masks allow exactly the labellings that spell out chunks."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.errors import OptionError
from loglinear.structures.constraints import (
    SCHEMES,
    Constraints,
    constraint_masks,
    constraints_named,
    detect_scheme,
    penalties,
)

TYPES = ("NP", "X-Y")
LABELS = {
    "bio": ["O"] + [f"{p}-{kind}" for kind in TYPES for p in "BI"],
    "iob1": ["O"] + [f"{p}-{kind}" for kind in TYPES for p in "BI"],
    "bioes": ["O"] + [f"{p}-{kind}" for kind in TYPES for p in "BIES"],
    "bilou": ["O"] + [f"{p}-{kind}" for kind in TYPES for p in "BILU"],
}


def spelt(scheme: str, segments: list[tuple[int, str]]) -> list[str]:
    """Labels of a sequence cut into (length, type) segments, type "" for one position outside."""
    single, end = {"bioes": ("S", "E"), "bilou": ("U", "L")}.get(scheme, ("B", "I"))
    labels, before = [], ""
    for length, kind in segments:
        if not kind:
            labels += ["O"] * length
        elif scheme == "iob1":
            labels += [("B-" if before == kind else "I-") + kind] + [f"I-{kind}"] * (length - 1)
        elif length == 1:
            labels += [f"{single}-{kind}"]
        else:
            labels += [f"B-{kind}"] + [f"I-{kind}"] * (length - 2) + [f"{end}-{kind}"]
        before = kind
    return labels


def all_segmentations(n: int):
    """Every way to cut n positions into chunks of the two types and positions outside."""
    if n == 0:
        yield []
        return
    for length in range(1, n + 1):
        for kind in (*TYPES, ""):
            if kind or length == 1:
                yield from ([(length, kind), *rest] for rest in all_segmentations(n - length))


@pytest.mark.parametrize("scheme", list(SCHEMES))
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_possible_labellings_are_those_that_spell_a_segmentation(scheme, n):
    labels = LABELS[scheme]
    transitions, starts, ends = constraint_masks(scheme, labels)
    assert transitions.dtype == starts.dtype == ends.dtype == np.uint8
    possible = set()
    for ids in itertools.product(range(len(labels)), repeat=n):
        if starts[ids[0]] and ends[ids[-1]] and all(transitions[a, b] for a, b in itertools.pairwise(ids)):
            possible.add(tuple(labels[y] for y in ids))
    assert possible == {tuple(spelt(scheme, segments)) for segments in all_segmentations(n)}


@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_labels_without_a_type_are_one_more_type(scheme):
    typed = [label.replace("-X-Y", "") for label in LABELS[scheme]]
    for bare, full in zip(constraint_masks(scheme, typed), constraint_masks(scheme, LABELS[scheme]), strict=True):
        np.testing.assert_array_equal(bare, full)


@pytest.mark.parametrize(
    ("scheme", "label"),
    [("bio", "NN"), ("bio", "E-NP"), ("bioes", "L-NP"), ("bilou", "S-NP"), ("iob1", "b-NP"), ("bio", "I-"), ("bio", ""),
     ("bio", "O-NP"), ("bio", "BI-NP"), ("bio", "-NP")],
)  # fmt: skip
def test_a_label_outside_the_scheme_is_named(scheme, label):
    with pytest.raises(OptionError, match=f"{label!r}.*{scheme!r}"):
        constraint_masks(scheme, ["O", label])


def test_an_unknown_scheme_is_named_with_the_known_ones():
    for make in (lambda: constraint_masks("bmes", ["O"]), lambda: Constraints("bmes")):
        with pytest.raises(OptionError, match=r"'bmes'.*bio, iob1, bioes, bilou"):
            make()


@pytest.mark.parametrize("scheme", ["bio", "bioes", "bilou"])
def test_the_scheme_of_a_full_label_set_is_found(scheme):
    assert detect_scheme(LABELS[scheme]) == scheme


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        (["O", "I-NP", "I-VP", "B-NP"], "iob1"),
        (["O", "B-LST", "B-NP", "I-NP"], "bio"),
        (["O", "B", "I"], "bio"),
        (["O", "S-NP"], "bioes"),
        (["O"], None),
        ([], None),
        (["NN", "VB", "O"], None),
        (["B", "I"], None),
        (["O", "S-NP", "U-NP"], None),
        (["B-NP", "I-NP", "NP"], None),
    ],
)
def test_the_scheme_of_some_label_sets(labels, scheme):
    assert detect_scheme(labels) == scheme


@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_penalties_are_zero_where_allowed(scheme):
    masks = constraint_masks(scheme, LABELS[scheme])
    for mask, penalty in zip(masks, penalties(masks), strict=True):
        assert penalty.dtype == np.float64
        np.testing.assert_array_equal(penalty == 0.0, mask == 1)
        np.testing.assert_array_equal(penalty == -np.inf, mask == 0)
    for mask, penalty in zip(masks, constraints_named(scheme, LABELS[scheme]).penalties(LABELS[scheme]), strict=True):
        np.testing.assert_array_equal(penalty == 0.0, mask == 1)


label = st.sampled_from("ABC")
pairs = st.lists(st.tuples(label, label), max_size=4)


@given(pairs, st.none() | pairs, st.none() | st.lists(label), st.none() | st.lists(label))
def test_own_rules_say_what_they_say_and_survive_json(forbidden, allowed, starts, ends):
    rules = Constraints(forbidden=forbidden, allowed=allowed, starts=starts, ends=ends)
    transitions, start_mask, end_mask = rules.masks("ABC")
    for a, b in itertools.product(range(3), repeat=2):
        pair = ("ABC"[a], "ABC"[b])
        assert transitions[a, b] == (pair not in forbidden and (allowed is None or pair in allowed))
    for y in range(3):
        assert start_mask[y] == (starts is None or "ABC"[y] in starts)
        assert end_mask[y] == (ends is None or "ABC"[y] in ends)
    assert Constraints.from_dict(json.loads(json.dumps(rules.to_dict()))) == rules


def test_own_rules_are_kept_besides_those_of_a_scheme():
    rules = Constraints("bio", forbidden=[("O", "B-NP")], ends=["O"])
    transitions, starts, ends = rules.masks(["O", "B-NP", "I-NP"])
    assert transitions.tolist() == [[1, 0, 0], [1, 1, 1], [1, 1, 1]]
    assert (starts.tolist(), ends.tolist()) == ([1, 1, 0], [1, 0, 0])


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"forbid": []}, "'forbid'"),
        ({"scheme": 3}, "scheme"),
        ({"scheme": "bmes"}, "'bmes'"),
        ({"forbidden": ["AB"]}, "forbidden must be a list of pairs"),
        ({"forbidden": "AB"}, "forbidden must be a list of pairs"),
        ({"forbidden": None}, "forbidden must be a list of pairs"),
        ({"allowed": [["A", "B", "C"]]}, "allowed must be a list of pairs"),
        ({"allowed": [["A", 3]]}, "allowed must be a list of labels"),
        ({"starts": "A"}, "starts must be a list of labels"),
        ({"ends": 3}, "ends must be a list of labels"),
        ([], "object"),
    ],
)
def test_rules_that_are_none_are_refused(rules, message):
    with pytest.raises(OptionError, match=message):
        Constraints.from_dict(rules)


@pytest.mark.parametrize("rules", [{"forbidden": [["A", "D"]]}, {"allowed": [["D", "A"]]}, {"starts": ["D"]}])
def test_rules_about_a_label_that_does_not_exist_are_refused(rules):
    with pytest.raises(OptionError, match="'D'"):
        Constraints.from_dict(rules).masks("ABC")
