"""The reader of model files: each part comes back as it was written, and each check can fail, naming file and part."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear import model_file
from loglinear.errors import DataError, ModelFileError, OptionError
from loglinear.model_file import Reader, column_arrays, label_header, plain, string_arrays

INT32, INT64, UINT8 = np.int32, np.int64, np.uint8


def reader(header: dict[str, Any] | None = None, /, **arrays: Any) -> Reader:
    """A reader of a header and arrays, as a file gives them."""
    return model_file.read(model_file.dumps("tagger", header or {}, arrays))


def test_a_file_is_read_under_its_name(tmp_path: Path) -> None:
    model_file.save(tmp_path / "m.model", "tagger", {"a": {"b": 1}}, {"a.x": np.zeros(2), "y": np.zeros(1)})
    read = model_file.read(tmp_path / "m.model", "tagger")
    assert (read.file, read.kind, read.place) == (str(tmp_path / "m.model"), "tagger", "")
    section = read.section("a")
    assert section.place == "a." and section.integer("b") == 1 and list(section.arrays) == ["x"]
    assert list(read.section("a", prefix="").arrays) == ["a.x", "y"]
    with pytest.raises(ModelFileError, match=r"m\.model: .* \('a\.c' is missing\)"):
        section.value("c")
    with pytest.raises(ModelFileError, match=r"m\.model: .* \(the array 'a\.z' is missing\)"):
        section.floats("z", (2,))
    assert reader().file == "the model in memory"


Read = Callable[[Reader], Any]
GOOD: list[tuple[Any, Read, Any]] = [
    (3, lambda read: read.integer("part"), 3),
    (3, lambda read: read.integer("part", 3, 3), 3),
    (3, lambda read: read.number("part"), 3.0),
    (0.5, lambda read: read.number("part", above=0), 0.5),
    (0, lambda read: read.number("part", least=0), 0.0),
    (True, lambda read: read.flag("part"), True),
    ("x", lambda read: read.text("part"), "x"),
    ("x", lambda read: read.choice("part", ("x", "y")), "x"),
    (2, lambda read: read.choice("part", (1, 2)), 2),
    (["b", "a"], lambda read: read.names("part"), ["b", "a"]),
    ([], lambda read: read.names("part", least=0), []),
    (None, lambda read: read.value("part"), None),
    (None, lambda read: read.has("part"), False),
    (0, lambda read: read.has("part"), True),
]
BAD: list[tuple[Any, Read, str]] = [
    (-1, lambda read: read.integer("part"), "-1 is not a whole number from 0"),
    (4, lambda read: read.integer("part", 0, 3), "4 is not a whole number from 0 to 3"),
    (True, lambda read: read.integer("part"), "True is not a whole number"),
    (1.0, lambda read: read.integer("part"), "1.0 is not a whole number"),
    ("1", lambda read: read.integer("part"), "'1' is not a whole number"),
    (True, lambda read: read.number("part"), "True is not a number"),
    ("1", lambda read: read.number("part"), "'1' is not a number"),
    (0, lambda read: read.number("part", above=0), "0 is not a finite number greater than 0"),
    (-1, lambda read: read.number("part", least=0), "-1 is not a finite number of at least 0"),
    (1, lambda read: read.flag("part"), "1 is neither true nor false"),
    (None, lambda read: read.text("part"), "None is not a string"),
    ("z", lambda read: read.choice("part", ("x", "y")), "'z' is not one of x, y"),
    (True, lambda read: read.choice("part", (1, 2)), "True is not one of 1, 2"),
    ([], lambda read: read.choice("part", ("x",)), "is not one of x"),
    (["a", "a"], lambda read: read.names("part"), "a string is there twice"),
    (["a"], lambda read: read.names("part", least=2), "fewer strings than 2"),
    ([1], lambda read: read.names("part"), "not a list of strings"),
    ("ab", lambda read: read.names("part"), "not a list of strings"),
    ([], lambda read: read.section("part"), "not a JSON object"),
]


@pytest.mark.parametrize(("stored", "read", "value"), GOOD)
def test_values_come_back(stored: Any, read: Read, value: Any) -> None:
    assert read(reader({"part": stored})) == value


@pytest.mark.parametrize(("stored", "read", "message"), BAD)
def test_values_that_are_not_what_was_asked_for(stored: Any, read: Read, message: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        read(reader({"part": stored}))
    assert "the model in memory: " in str(caught.value) and "(part: " in str(caught.value)
    assert message in str(caught.value)


def test_a_whole_number_beyond_all_floats_is_refused() -> None:
    with pytest.raises(ModelFileError, match=r"part: 1000.* is not a finite number"):
        reader({"part": 10**400}).number("part")


def test_what_is_missing_has_a_default_or_is_an_error() -> None:
    read = reader()
    assert read.integer("a", default=1) == 1 and read.flag("a", False) is False and read.value("a", None) is None
    for ask in (read.integer, read.number, read.flag, read.text, read.names, read.section, read.value):
        with pytest.raises(ModelFileError, match="'a' is missing"):
            ask("a")
    with pytest.raises(ModelFileError, match="'options' is missing"):
        read.options()
    assert reader({"options": {"l2": 1}}).options() == {"l2": 1}


# -- arrays ------------------------------------------------------------------------------------------------------------

ARRAYS: list[tuple[Any, Read, Any]] = [
    (np.ones(2, dtype=np.float16), lambda read: read.floats("part", (2,)), np.ones(2)),
    (np.ones((2, 0)), lambda read: read.floats("part", (2, None)), np.ones((2, 0))),
    (np.array([-np.inf, 0]), lambda read: read.floats("part", (2,), high=0.0), np.array([-np.inf, 0])),
    (np.array([3, 255], UINT8), lambda read: read.ints("part", (2,), 256), np.array([3, 255], INT32)),
    (np.array([3], INT32), lambda read: read.ints("part", (None,)), np.array([3], INT32)),
    (np.array([0, 3]), lambda read: read.ascending("part", 4), np.array([0, 3])),
    (np.log([0.5, 0.5]), lambda read: read.log_shares("part", 2), np.log([0.5, 0.5])),
    (np.array([0.0, -np.inf]), lambda read: read.log_shares("part", 2), np.array([0.0, -np.inf])),
]
BAD_ARRAYS: list[tuple[Any, Read, str]] = [
    (np.ones(2), lambda read: read.floats("part", (3,)), "of shape [2], not [3]"),
    (np.ones(2), lambda read: read.floats("part", (2, None)), "of shape [2], not [2, any]"),
    (np.ones(2, INT32), lambda read: read.floats("part", (2,)), "an array of int32, not of float64"),
    (np.array([1, np.nan]), lambda read: read.floats("part", (2,)), "not all numbers are finite"),
    (np.array([1, np.inf]), lambda read: read.floats("part", (2,)), "not all numbers are finite"),
    (np.array([1, np.nan]), lambda read: read.floats("part", (2,), 0.0), "between 0 and inf"),
    (np.array([1.5]), lambda read: read.floats("part", (1,), 0.0, 1.0), "between 0 and 1"),
    (np.array([-0.5]), lambda read: read.floats("part", (1,), 0.0, 1.0), "between 0 and 1"),
    (np.array([3], INT32), lambda read: read.ints("part", (1,), 3), "from 0 to 3 - 1"),
    (np.array([-1], INT32), lambda read: read.ints("part", (1,)), "from 0 to"),
    (np.array([1.0]), lambda read: read.ints("part", (1,)), "an array of float64, not of uint8 or int32"),
    (np.array([1], INT32), lambda read: read.ints("part", (1, 1)), "of shape [1], not [1, 1]"),
    (np.array([0, 0]), lambda read: read.ascending("part"), "ascending"),
    (np.array([-1, 0]), lambda read: read.ascending("part"), "ascending"),
    (np.array([0, 4]), lambda read: read.ascending("part", 4), "from 0 to 4 - 1"),
    (np.array([0], INT32), lambda read: read.ascending("part"), "an array of int32, not of int64"),
    (np.log([0.5, 0.6]), lambda read: read.log_shares("part", 2), "do not add up to one"),
    (np.array([1.0, -np.inf]), lambda read: read.log_shares("part", 2), "not all numbers lie between"),
]


@pytest.mark.parametrize(("stored", "read", "value"), ARRAYS)
def test_arrays_come_back_as_copies(stored: Any, read: Read, value: Any) -> None:
    found = read(reader(part=stored))
    assert found.dtype == value.dtype and found.flags.writeable and found.flags.c_contiguous
    np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize(("stored", "read", "message"), BAD_ARRAYS)
def test_arrays_that_are_not_what_was_asked_for(stored: Any, read: Read, message: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        read(reader(part=stored))
    assert "(part: " in str(caught.value) and message in str(caught.value)
    with pytest.raises(ModelFileError, match="the array 'part' is missing"):
        read(reader())


@given(st.lists(st.lists(st.integers(0, 6), max_size=4), max_size=5), st.sampled_from([UINT8, INT32, INT64]))
def test_lists_come_back_by_their_lengths_and_by_their_pointer(rows: list[list[int]], kind: type) -> None:
    lengths = np.array([len(row) for row in rows], dtype=kind)
    entries = np.array([entry for row in rows for entry in row], dtype=INT32)
    begins = np.concatenate([[0], np.cumsum(lengths, dtype=INT64)]).astype(INT64)
    for first in (lengths, begins):
        pointer, found = reader(first=first, all=entries).lists("first", "all", len(rows), 7)
        assert (pointer.dtype, found.dtype) == (INT64, INT32)
        assert [found[a:b].tolist() for a, b in pairwise(pointer)] == rows


@pytest.mark.parametrize(
    ("first", "entries", "message"),
    [
        ([1, 1], [0, 7], "all: not all numbers are from 0 to 7 - 1"),
        ([1, 1], [0, -1], "all: not all numbers are from 0 to 7 - 1"),
        ([1, 2], [0, 1], "first: the lists do not cover the 2 entries of all"),
        ([3, -1], [0, 1], "first: not all lengths are from 0 to 2"),
        ([2**31 - 1, 2**31 - 1], [0, 1], "first: not all lengths are from 0 to 2"),
        ([1], [0, 1], "first: 1 numbers for 2 lists"),
        ([1, 1, 0, 0], [0, 1], "first: 4 numbers for 2 lists"),
        ([0, 2, 1], [0, 1], "first: the lists do not cover"),
        ([1, 1, 2], [0, 1], "first: the lists do not cover"),
        ([0, 3, 2], [0, 1], "first: the lists do not cover"),
    ],
)
def test_lists_that_do_not_fit_together(first: list[int], entries: list[int], message: str) -> None:
    read = reader(first=np.array(first, dtype=INT64), all=np.array(entries, dtype=INT32))
    with pytest.raises(ModelFileError) as caught:
        read.lists("first", "all", 2, 7)
    assert message in str(caught.value)


# -- strings, labels, columns ----------------------------------------------------------------------------------------


@given(st.lists(st.text(), max_size=6))
def test_strings_come_back(strings: list[str]) -> None:
    read = reader(None, **string_arrays("words", strings))
    assert read.strings("words") == strings
    if len(set(strings)) < len(strings):
        with pytest.raises(ModelFileError, match="words: a string is there twice"):
            read.strings("words", distinct=True)
    else:
        assert read.strings("words", distinct=True) == strings


@pytest.mark.parametrize(
    ("blob", "offsets", "message"),
    [
        (np.zeros(2, UINT8), np.array([0, 3]), "words: .* do not fit together"),
        (np.zeros(2, UINT8), np.array([0, 2, 1, 2]), "words: .* do not fit together"),
        (np.full(1, 255, UINT8), np.array([0, 1]), "words: a string is not UTF-8"),
        (np.zeros(2), np.array([0, 2]), "words.bytes: an array of float64"),
        (np.zeros(2, UINT8), np.array([0, 2], INT32), "words.offsets: an array of int32"),
    ],
)
def test_strings_that_do_not_fit_together(blob: Any, offsets: Any, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        reader(None, **{"words.bytes": blob, "words.offsets": offsets}).strings("words")


@pytest.mark.parametrize("key", ["type", "kind"])
@pytest.mark.parametrize(
    "labels",
    [["a", "b"], [1, 2, 30], [0.5, 1.0], [False, True], np.array(["a", "b"], dtype=object), np.array([1, 2], UINT8)],
)
def test_labels_come_back_as_they_were(labels: Any, key: str) -> None:
    before = np.array(labels) if isinstance(labels, list) else labels
    after = reader({"labels": label_header(before, key)}).labels()
    assert after.tolist() == before.tolist()
    assert after.dtype.kind == ("i" if before.dtype.kind == "u" else before.dtype.kind)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"type": "str", "values": ["b", "a"]}, "labels.values: the labels are not distinct and sorted"),
        ({"type": "str", "values": ["a", "a"]}, "labels.values: the labels are not distinct and sorted"),
        ({"type": "str", "values": ["a"]}, "labels.values: not a list of 2 or more labels"),
        ({"type": "str", "values": ["a", 1]}, "labels.values: not a list of 2 or more labels of the type str"),
        ({"type": "int", "values": [True, 2]}, "labels.values: not a list of 2 or more labels of the type int"),
        ({"type": "int", "values": [1, 2**70]}, "labels.values: "),
        ({"type": "object", "values": ["a", 1]}, "labels.values: "),
        ({"type": "set", "values": ["a", "b"]}, "labels.type: 'set' is not one of"),
        ({"kind": 3, "values": ["a", "b"]}, "labels.kind: 3 is not one of"),
        ({"values": ["a", "b"]}, "'labels.type' is missing"),
        ({"type": "str"}, "'labels.values' is missing"),
        (["a", "b"], "labels: .* is not a JSON object"),
    ],
)
def test_labels_that_are_none(stored: Any, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        reader({"labels": stored}).labels(least=2)


@pytest.mark.parametrize("labels", [np.array([b"a"]), np.array([(1,)], dtype="i,"), np.array([None, 1], dtype=object)])
def test_labels_that_cannot_be_written(labels: Any) -> None:
    with pytest.raises(OptionError, match="a model file cannot hold the label"):
        label_header(labels)


def test_columns_have_names_or_not() -> None:
    class Fitted:
        feature_names_in_ = np.array(["a", "b"], dtype=object)

    read = reader(None, **column_arrays(Fitted()))
    assert read.columns(2) == ["a", "b"]
    assert column_arrays(object()) == {} and reader().columns(2) is None
    with pytest.raises(ModelFileError, match="columns: 2 names for 3 columns"):
        read.columns(3)


def test_numbers_become_those_of_json() -> None:
    assert [type(plain(value)) for value in (np.float64(1), np.int32(1), np.bool_(True), "x", None)] == [
        float, int, bool, str, type(None),
    ]  # fmt: skip


# -- what other code rejects -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("words"), "encoder: 'words' is missing"),
        (KeyError(), "encoder: an entry is missing"),
        (ValueError("too long"), "encoder: too long"),
        (DataError("no tree"), "encoder: no tree"),
        (TypeError(), "encoder: TypeError"),
        (IndexError("far"), "encoder: far"),
        (OverflowError("large"), "encoder: large"),
        (MemoryError("huge"), "encoder: huge"),
        (AttributeError("odd"), "encoder: odd"),
    ],
)
def test_what_a_constructor_rejects_is_an_error_of_the_file(error: Exception, message: str) -> None:
    with pytest.raises(ModelFileError, match=rf"the model in memory: .*\({message}\)"), reader().building("encoder"):
        raise error


def test_errors_of_the_reader_and_bugs_pass_through() -> None:
    read = reader()
    with pytest.raises(ModelFileError, match="'a' is missing"), read.building("encoder"):
        read.value("a")
    with pytest.raises(RuntimeError, match="a bug"), read.building("encoder"):
        raise RuntimeError("a bug")
