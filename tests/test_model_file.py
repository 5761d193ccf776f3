"""Laws of model files: what was saved comes back, and nothing else ever does."""

from __future__ import annotations

import ast
import builtins
import hashlib
import inspect
import mmap
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as safetensors_load

from loglinear import model_file, system
from loglinear.errors import ModelFileError
from problems.model_files import SMALL, any_text, headers, same, some_arrays

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

            class Full(system._Writer):
                def write(self, _: Any) -> int:
                    with system._naming(path):
                        raise error

            patch.setattr(system, "_Writer", Full)
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
