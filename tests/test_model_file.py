"""Laws of model files: what was saved comes back, and nothing else ever does."""

from __future__ import annotations

import ast
import builtins
import gzip
import hashlib
import inspect
import io
import json
import mmap
import os
import pickle
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load as safetensors_load

from loglinear import model_file
from loglinear.errors import ModelFileError

DTYPES = [np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8, np.bool_]
SMALL = {
    "weights": np.array([1.5, -2.0, 0.0]),
    "ids": np.arange(4, dtype=np.int32).reshape(2, 2),
    "mask": np.array([True, False, True]),
}

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(lambda name: name != "__metadata__")
any_text = st.text(st.characters(), max_size=8)  # lone surrogates too
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)
headers = st.dictionaries(any_text, json_values, max_size=4)
some_arrays = st.dictionaries(
    names,
    st.sampled_from(DTYPES).flatmap(lambda t: hnp.arrays(t, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))),
    max_size=4,
)


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    """Equal names, types, shapes and bits (NaN included)."""
    return left.keys() == right.keys() and all(
        (a := np.asarray(left[k])).dtype == (b := np.asarray(right[k])).dtype
        and a.shape == b.shape
        and a.tobytes() == b.tobytes()
        for k in left
    )


def signed(table: dict[str, Any], data: bytes = b"", pad: int = 0) -> bytes:
    """A file with any table and a right checksum, as an adversary would make it."""
    text = json.dumps(table, separators=(",", ":")).encode() + b" " * pad
    blob = len(text).to_bytes(8, "little") + text + data
    key = b'"checksum":"'
    if key not in blob:
        return blob
    place = blob.index(key) + len(key)
    digest = hashlib.sha256(blob[:place] + b"0" * 64 + blob[place + 64 :]).hexdigest().encode()
    return blob[:place] + digest + blob[place + 64 :]


def table_of(entries: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    base = {
        "format": "loglinear",
        "format_version": "1",
        "kind": "tagger",
        "loglinear_version": "0.1.0",
        "header": "{}",
        "checksum": "0" * 64,
    }
    merged = {key: value for key, value in {**base, **metadata}.items() if value is not None}
    return {"__metadata__": merged, **entries}


def entry(dtype: Any, shape: Any, offsets: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


# -- round trips --------------------------------------------------------------------------------------------------


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(headers, some_arrays, any_text.filter(lambda kind: kind.isprintable()))
def test_what_is_saved_comes_back(tmp_path: Path, header: dict[str, Any], arrays: dict[str, Any], kind: str) -> None:
    model_file.save(tmp_path / "m", kind, header, arrays)
    blob = (tmp_path / "m").read_bytes()
    assert blob == model_file.dumps(kind, header, arrays)
    for source in (tmp_path / "m", str(tmp_path / "m"), blob, bytearray(blob), memoryview(blob)):
        found = model_file.load(source, kind)
        assert (found.kind, found.header, found.size) == (kind, header, len(blob))
        assert same(found.arrays, arrays)
        assert all(array.flags.aligned and not array.flags.writeable for array in found.arrays.values())


@settings(deadline=None)
@given(some_arrays)
def test_the_library_reads_our_files(arrays: dict[str, Any]) -> None:
    assert same(safetensors_load(model_file.dumps("tagger", {"a": 1}, arrays)), arrays)


@pytest.mark.parametrize(
    "array",
    [np.arange(10.0)[::2], np.arange(6.0).reshape(2, 3).T, np.arange(3, dtype=">i8"), np.arange(5.0)[::-1]],
    ids=["strided", "transposed", "big-endian", "reversed"],
)
def test_the_layout_in_memory_does_not_matter(array: np.ndarray) -> None:
    found = model_file.load(model_file.dumps("tagger", {}, {"a": array})).arrays["a"]
    assert np.array_equal(found, array)


def test_the_same_content_gives_the_same_bytes_in_every_process() -> None:
    code = (
        "import hashlib, numpy as np; from loglinear import model_file as f;"
        "print(hashlib.sha256(f.dumps('tagger', {'b': 1, 'a': 2}, {'y': np.ones(2), 'x': np.ones(1)})).hexdigest())"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(3)]
    turned = model_file.dumps("tagger", {"a": 2, "b": 1}, {"x": np.ones(1), "y": np.ones(2)})
    assert {run.decode().strip() for run in runs} == {hashlib.sha256(turned).hexdigest()}


def test_a_path_is_mapped_and_outlives_its_replacement(tmp_path: Path) -> None:
    path = tmp_path / "m"
    model_file.save(path, "tagger", {}, {"a": np.arange(1000.0)})
    found = model_file.load(path).arrays["a"]
    base: Any = found
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(getattr(base, "obj", base), mmap.mmap)  # a memoryview of it, in some versions of NumPy
    model_file.save(path, "tagger", {}, {"a": np.zeros(1000)})
    assert np.array_equal(found, np.arange(1000.0))


def test_bytes_are_viewed_but_a_buffer_that_can_change_is_copied() -> None:
    blob = model_file.dumps("tagger", {}, {"a": np.arange(100.0)})
    assert np.shares_memory(model_file.load(blob).arrays["a"], np.frombuffer(blob, np.uint8))
    buffer = bytearray(blob)
    for source in (buffer, memoryview(buffer), memoryview(buffer).toreadonly()):
        found = model_file.load(source).arrays["a"]
        buffer[:] = bytes(len(buffer))
        assert np.array_equal(found, np.arange(100.0))
        buffer[:] = blob
    shifted = memoryview(b"x" + blob)[1:]
    assert model_file.load(shifted).arrays["a"].flags.aligned


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
    with pytest.raises(ModelFileError, match=r"m\.model is damaged .*copy it again .*or train anew"):
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
        (b"lCRF\x10\x00\x00\x00FOMC", "a CRFsuite model"),
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


# -- saving -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_interrupted_save_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    path = tmp_path / "m"
    model_file.save(path, "tagger", {"old": True}, SMALL)

    def fail(*_: Any, **__: Any) -> None:
        raise error

    with monkeypatch.context() as patch:
        if step == "write":

            class Full(io.FileIO):
                def write(self, _: Any) -> int:
                    raise error

            patch.setattr(os, "fdopen", lambda descriptor, mode: Full(descriptor, mode))
        else:
            patch.setattr(os, step, fail)
        with pytest.raises(ModelFileError if isinstance(error, OSError) else KeyboardInterrupt):
            model_file.save(path, "tagger", {"old": False}, {})
    assert [entry.name for entry in tmp_path.iterdir()] == ["m"]
    assert model_file.load(path).header == {"old": True}


def test_places_that_cannot_be_saved_to(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"the folder .*no.* does not exist; create it first"):
        model_file.save(tmp_path / "no" / "m", "tagger", {}, {})
    with pytest.raises(ModelFileError, match="is a folder"):
        model_file.save(tmp_path, "tagger", {}, {})
    with pytest.raises(ModelFileError, match="cannot save"):
        model_file.save(tmp_path / ("x" * 300), "tagger", {}, {})
    with pytest.raises(ModelFileError, match="cannot save"):
        model_file.save(f"{tmp_path}/nul\0name", "tagger", {}, {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_a_clear_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ModelFileError, match="Permission denied"):
        model_file.save(tmp_path / "m", "tagger", {}, {})


@pytest.mark.skipif(os.name != "posix", reason="permission bits and links")
def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        model_file.save(tmp_path / "m", "tagger", {}, {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o640
    (tmp_path / "m").chmod(0o604)
    (tmp_path / "link").symlink_to("m")
    model_file.save(tmp_path / "link", "tagger", {"new": 1}, {})
    assert (tmp_path / "link").is_symlink()
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o604
    assert model_file.load(tmp_path / "m").header == {"new": 1}


def test_a_device_is_written_to_not_replaced() -> None:
    model_file.save(os.devnull, "tagger", {}, SMALL)
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize(
    ("header", "arrays", "error"),
    [
        ({"a": float("nan")}, {}, ValueError),
        ({"a": {1: 2}}, {}, TypeError),
        ({"a": [{None: 2}]}, {}, TypeError),
        ({"a": object()}, {}, TypeError),
        ({"a": "x" * 20_000_000}, {}, ValueError),
        ({}, {"a": np.array(["x"])}, TypeError),
        ({}, {"a": np.array([1 + 2j])}, TypeError),
        ({}, {"a": np.array([None])}, TypeError),
        ({}, {"__metadata__": np.ones(1)}, TypeError),
    ],
)
def test_what_would_not_come_back_is_not_saved(header: Any, arrays: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        model_file.dumps("tagger", header, arrays)


def test_the_module_cannot_run_code_from_a_file() -> None:
    tree = ast.parse(inspect.getsource(model_file))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name.split(".")[0] for name in imported} & {"pickle", "marshal", "shelve", "joblib", "dill"}
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert hasattr(builtins, "eval") and not called & {"eval", "exec", "compile", "__import__"}


# -- strings ------------------------------------------------------------------------------------------------------


@given(st.lists(st.text(st.characters(), max_size=6), max_size=20))
def test_strings_come_back(strings: list[str]) -> None:
    blob, offsets = model_file.pack_strings(strings)
    assert (blob.dtype, offsets.dtype, offsets.shape) == (np.uint8, np.int64, (len(strings) + 1,))
    encoded = [string.encode("utf-8", "surrogatepass") for string in strings]
    assert offsets.tolist() == np.cumsum([0, *map(len, encoded)]).tolist()
    assert blob.tobytes() == b"".join(encoded)
    assert model_file.unpack_strings(blob, offsets) == strings


@given(st.binary(max_size=8), st.lists(st.integers(-2, 10), max_size=5))
def test_strings_that_do_not_fit_are_errors(blob: bytes, offsets: list[int]) -> None:
    arrays = np.frombuffer(blob, np.uint8), np.array(offsets, dtype=np.int64)
    try:
        strings = model_file.unpack_strings(*arrays)
    except ModelFileError:
        return
    assert "".join(strings).encode("utf-8", "surrogatepass") == blob
    assert [len(s.encode("utf-8", "surrogatepass")) for s in strings] == np.diff(offsets).tolist()


@pytest.mark.parametrize(
    ("blob", "offsets"),
    [
        (b"abc", [0, 2]),
        (b"abc", [1, 3]),
        (b"abc", [0, 2, 1, 3]),
        (b"abc", [0, -1, 3]),
        (b"abc", []),
        (b"\xff\xfe", [0, 2]),
        ("é".encode(), [0, 1, 2]),
    ],
)
def test_broken_strings_are_errors(blob: bytes, offsets: list[int]) -> None:
    with pytest.raises(ModelFileError):
        model_file.unpack_strings(np.frombuffer(blob, np.uint8), np.array(offsets, dtype=np.int64))
    with pytest.raises(ModelFileError):
        model_file.unpack_strings(np.frombuffer(blob, np.uint8), np.array([offsets], dtype=np.int64))
    with pytest.raises(ModelFileError):
        model_file.unpack_strings(np.frombuffer(blob, np.uint8), np.array(offsets, dtype=np.int32))
