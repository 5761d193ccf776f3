"""Damaged, foreign and hostile model files: an error that says what to do, and nothing of them is believed."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import model_file
from loglinear.errors import ModelFileError
from problems.model_files import SMALL, entry, signed, table_of

# -- accidents ----------------------------------------------------------------------------------------------------


def test_every_truncation_and_appended_byte_is_an_error() -> None:
    blob = model_file.dumps("tagger", {"labels": ["B", "I", "O"]}, SMALL)
    for size in range(len(blob)):
        with pytest.raises(ModelFileError):
            model_file.load(blob[:size])
    for extra in (b"\0", b" ", b"{", b"\n", blob):
        with pytest.raises(ModelFileError):
            model_file.load(blob + extra)
        with pytest.raises(ModelFileError):
            model_file.load(extra + blob)


def test_every_changed_byte_is_an_error() -> None:
    blob = model_file.dumps("tagger", {"labels": ["B", "I", "O"]}, SMALL)
    model_file.load(blob)
    for place in range(len(blob)):
        for change in (0xFF, *(1 << bit for bit in range(8))):
            damaged = bytearray(blob)
            damaged[place] ^= change
            with pytest.raises(ModelFileError):
                model_file.load(bytes(damaged))


def test_damage_in_a_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "m.model"
    blob = bytearray(model_file.dumps("tagger", {}, SMALL))
    blob[-3] ^= 1
    path.write_bytes(blob)
    with pytest.raises(ModelFileError, match=r"m\.model is damaged .*copy it again .*or train again"):
        model_file.load(path)


# -- what is not a model ------------------------------------------------------------------------------------------


def _zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a", "b")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"Confidence NN B-NP\n", "a text file"),
        (b"a\tb", "a text file"),
        (_zip(), "a zip archive"),
        (gzip.compress(b"abc" * 20), "a gzip file"),
        (pickle.dumps(list(range(9))), "a Python pickle"),
        (b"lCRF\x10\x00\x00\x00FOMC", "a damaged CRFsuite model"),
        ((2**60).to_bytes(8, "little") + b"{}", "not a loglinear model"),
        ((2**20).to_bytes(8, "little") + b"{}", "cut short"),
        ((2).to_bytes(8, "little") + b"{}", "a safetensors file, but not a loglinear model"),
        (bytes(64), "not a loglinear model"),
    ],
    ids=lambda value: value if isinstance(value, str) else "file",  # archives hold the time, and so would the names
)
def test_other_files_are_told_apart(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(ModelFileError, match=message) as caught:
        model_file.load(tmp_path / "f")
    assert str(tmp_path / "f") in str(caught.value)
    with pytest.raises(ModelFileError, match=message):
        model_file.load(content)


def test_places_that_are_not_files(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="is a folder"):
        model_file.load(tmp_path)
    with pytest.raises(ModelFileError, match="does not exist"):
        model_file.load(tmp_path / "missing")
    with pytest.raises(ModelFileError, match="cannot read"):
        model_file.load("nul\0name")
    with pytest.raises(TypeError):
        model_file.load(7)  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_rather_than_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="not a regular file"):
        model_file.load(tmp_path / "pipe")


def test_another_kind_is_an_error() -> None:
    with pytest.raises(ModelFileError, match=r"'parser'.*'tagger'"):
        model_file.load(model_file.dumps("parser", {}, {}), "tagger")


def test_a_newer_format_says_who_wrote_it_and_to_upgrade() -> None:
    with pytest.raises(ModelFileError, match=r"loglinear 9\.1 in model format 2.*upgrade"):
        model_file.load(signed(table_of({}, format_version="2", loglinear_version="9.1")))
    with pytest.raises(ModelFileError, match=r"of unknown version") as caught:
        model_file.load(signed(table_of({}, format_version="2", loglinear_version="\x1b[2J")))
    assert "\x1b" not in str(caught.value)


# -- adversaries --------------------------------------------------------------------------------------------------


def test_the_adversary_can_sign() -> None:
    found = model_file.load(signed(table_of({"a": entry("U8", [3], [0, 3])}), b"abc"))
    assert found.arrays["a"].tobytes() == b"abc"


@pytest.mark.parametrize(
    "entries",
    [
        {"a": entry("F64", [2**40], [0, 2**43])},
        {"a": entry("U8", [17], [0, 17])},
        {"a": entry("U8", [8], [8, 16])},
        {"a": entry("U8", [16], [-8, 8])},
        {"a": entry("U8", [15], [0, 15])},
        {"a": entry("U8", [16], [0, 16]), "b": entry("U8", [16], [0, 16])},
        {"a": entry("U8", [9], [0, 9]), "b": entry("U8", [8], [8, 16])},
        {"a": entry("U8", [-16], [0, 16])},
        {"a": entry("U8", [-4, -4], [0, 16])},
        {"a": entry("F64", [2**32, 2**32], [0, 0]), "b": entry("U8", [16], [0, 16])},
        {"a": entry("F64", [0, 2**63], [0, 0]), "b": entry("U8", [16], [0, 16])},
        {"a": entry("U8", [1] * 70 + [16], [0, 16])},
        {"a": entry("U8", [16.0], [0, 16])},
        {"a": entry("U8", ["16"], [0, 16])},
        {"a": entry("U8", [True, 16], [0, 16])},
        {"a": entry("U8", 16, [0, 16])},
        {"a": entry("U8", [16], [0])},
        {"a": entry("U8", [16], [False, 16])},
        {"a": entry("U8", [16], "ab")},
        {"a": entry("O", [2], [0, 16])},
        {"a": entry("BF16", [8], [0, 16])},
        {"a": entry(None, [2], [0, 16])},
        {"a": entry([], [2], [0, 16])},
        {"a": {**entry("U8", [16], [0, 16]), "more": 1}},
        {"a": {"dtype": "U8", "shape": [16]}},
        {"a": None},
        {"a": [1, 2]},
        {"a": entry("BOOL", [16], [0, 16])},
        {},
    ],
)
def test_hostile_tables_with_a_right_checksum_are_errors(entries: dict[str, Any]) -> None:
    with pytest.raises(ModelFileError, match="damaged"):
        model_file.load(signed(table_of(entries), bytes(range(16))))


@pytest.mark.parametrize(
    "metadata",
    [
        {"header": "[]"},
        {"header": "1"},
        {"header": "{"},
        {"header": '{"a":NaN}'},
        {"header": '{"a":1,"a":2}'},
        {"header": "[" * 100_000},
        {"header": '{"a":' + "9" * 5000 + "}"},
        {"header": None},
        {"header": {"a": 1}},
        {"kind": None},
        {"kind": 7},
        {"checksum": None},
        {"checksum": "0" * 63},
        {"checksum": "é" * 64},
        {"format_version": None},
        {"format_version": "0"},
        {"format_version": "-1"},
        {"format_version": "1.0"},
        {"format_version": "²"},
        {"format_version": "9" * 5000},
        {"format_version": 1},
    ],
)
def test_hostile_metadata_with_a_right_checksum_are_errors(metadata: dict[str, Any]) -> None:
    with pytest.raises(ModelFileError):
        model_file.load(signed(table_of({}, **metadata)))


@pytest.mark.parametrize("table", [[], 1, "a", None, {"__metadata__": []}, {"__metadata__": {"format": []}}])
def test_tables_that_are_no_tables_are_errors(table: Any) -> None:
    with pytest.raises(ModelFileError):
        model_file.load(signed(table))


def test_nesting_without_end_is_an_error() -> None:
    for text in (b'{"a":' * 50_000, b'{"a":' + b"[" * 100_000):
        with pytest.raises(ModelFileError, match="not valid JSON"):
            model_file.load(len(text).to_bytes(8, "little") + text)


entries_of_any_kind = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([*model_file._DTYPES, "I8", "C64"]),
        "shape": st.lists(st.integers(-1, 5) | st.sampled_from([2**31, 2**62, 2**64]), max_size=3),
        "data_offsets": st.lists(st.integers(-2, 40) | st.sampled_from([2**31, 2**63]), min_size=1, max_size=3),
    }
)


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=3), entries_of_any_kind, max_size=3), st.binary(max_size=32), st.integers(0, 9))
def test_a_hostile_file_is_an_error_or_lies_within_its_bytes(entries: Any, data: bytes, pad: int) -> None:
    try:
        found = model_file.load(signed(table_of(entries), data, pad))
    except ModelFileError:
        return
    stored = sorted((entries[name]["data_offsets"], array.tobytes()) for name, array in found.arrays.items())
    assert b"".join(content for _, content in stored) == data
