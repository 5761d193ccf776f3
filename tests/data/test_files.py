"""Laws of files: any source gives the same corpus; output appears whole or not at all."""

import gzip
import io
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from loglinear.data import atomic_output, format_of, read, read_columns
from loglinear.data.files import read_bytes
from loglinear.errors import DataError, OptionError

RAW = b"a DT B\nb NN I\n\nc NN B\n"


def test_every_source_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, packed = tmp_path / "a.txt", tmp_path / "a.txt.gz"
    plain.write_bytes(RAW)
    packed.write_bytes(gzip.compress(RAW))
    expected = read_columns(plain).rows()
    assert expected == [[("a", "DT", "B"), ("b", "NN", "I")], [("c", "NN", "B")]]
    assert read_columns(str(packed)).rows() == expected
    with open(plain, "rb") as handle:
        corpus = read_columns(handle)
    assert corpus.rows() == expected and corpus.name == str(plain)
    for raw in (RAW, gzip.compress(RAW)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))
        corpus = read_columns("-")
        assert corpus.rows() == expected and corpus.name == "<stdin>"


def test_what_cannot_be_read_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(gzip.compress(RAW)[:-6])
    for source in (tmp_path / "missing", tmp_path, damaged):
        with pytest.raises(DataError, match=source.name):
            read_columns(source)
    flipped = bytearray(gzip.compress(RAW * 50))
    flipped[20] ^= 0xFF
    with pytest.raises(DataError, match="gzip"):
        read_bytes(io.BytesIO(bytes(flipped)))
    with pytest.raises(DataError, match="binary"):
        read_bytes(io.StringIO("a"))  # type: ignore[arg-type]
    with pytest.raises(DataError):
        read_bytes("a\0b")


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.jsonl", "jsonl"),
        ("a.JSONL.gz", "jsonl"),
        ("a.crfsuite", "crfsuite"),
        ("a.crfsuite.gz", "crfsuite"),
        ("a.txt", "columns"),
        ("jsonl", "columns"),
        ("-", "columns"),
    ],
)
def test_format_by_extension(name: str, form: str) -> None:
    assert format_of(name) == form


def test_read_chooses_the_reader(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"tokens": ["a"]}')
    (tmp_path / "a.crfsuite").write_text("X\ta:2\n")
    (tmp_path / "a.txt").write_text("a b\tc\n")
    assert type(read(tmp_path / "a.crfsuite")).__name__ == "Attributes"
    assert read(tmp_path / "a.jsonl").n_tokens == 1
    assert read(tmp_path / "a.txt").n_tokens == 1
    assert read(tmp_path / "a.txt", separator="tab").n_tokens == 1
    assert read(tmp_path / "a.txt", "text").n_tokens == 3
    assert read(tmp_path / "a.txt", "crfsuite").n_tokens == 1
    with pytest.raises(OptionError, match="columns, crfsuite, jsonl, text"):
        read(tmp_path / "a.txt", "xml")


@pytest.mark.parametrize("name", ["out.txt", "out.txt.gz"])
def test_output_appears_whole_or_not_at_all(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(KeyboardInterrupt), atomic_output(path) as out:
        out.write(RAW)
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    with atomic_output(path) as out:
        out.write(RAW)
        assert not path.exists()
    assert read_bytes(path) == RAW
    first = path.read_bytes()
    with pytest.raises(RuntimeError), atomic_output(path) as out:
        out.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == first
    with atomic_output(path) as out:
        out.write(RAW)
    assert path.read_bytes() == first and list(tmp_path.iterdir()) == [path]
    assert first.startswith(b"\x1f\x8b") == name.endswith(".gz")


def test_output_keeps_rights_and_links(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    with atomic_output(link) as out:
        out.write(b"new")
    assert link.is_symlink() and target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    fresh, reference = tmp_path / "fresh", tmp_path / "reference"
    with atomic_output(fresh) as out:
        out.write(b"x")
    reference.write_bytes(b"x")
    assert fresh.stat().st_mode == reference.stat().st_mode
    with atomic_output(os.devnull) as out:
        out.write(b"gone")
    with pytest.raises(DataError, match="cannot be written"), atomic_output(tmp_path / "no" / "folder") as out:
        out.write(b"x")


def test_dash_is_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with atomic_output("-") as out:
        out.write(RAW)
    assert capfdbinary.readouterr().out == RAW


def test_importing_the_room_does_not_import_numba() -> None:
    code = "import sys, loglinear.data, loglinear.evaluation; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_kernels_run_without_compilation() -> None:
    here = Path(__file__).parent
    chosen = ["columns/test_column_file.py::test_appended_columns_may_be_strings_pairs_or_columns"]
    chosen += [
        "columns/test_column_file.py::test_comments",
        "columns/test_column_file.py::test_document_marks_are_no_tokens_and_get_an_o_per_column",
    ]
    chosen += [
        "columns/test_column_file.py::test_many_distinct_values_grow_the_table",
        "columns/test_attributes.py::test_sequence_weights",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(here / test) for test in chosen)]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=here.parents[1], check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_an_option_that_a_format_does_not_have_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("a b\n\n")
    with pytest.raises(OptionError, match=r"tokens=\.\.\.: files in the format 'columns' have no such option"):
        read(tmp_path / "a.txt", tokens="word")
    assert len(read(tmp_path / "a.txt", separator="space")) == 1
