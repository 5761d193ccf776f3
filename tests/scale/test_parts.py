"""The files that globs and folders name, and where each one's output goes."""

import pytest

from loglinear.errors import OptionError
from loglinear.scale.parts import left_to_do, parts_of, targets


def made(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return folder


def test_globs_name_files_in_the_order_of_names(tmp_path):
    made(tmp_path, "b.txt", "a.txt", "c.csv", "deep/d.txt")
    (tmp_path / "e.txt").mkdir()
    assert parts_of(str(tmp_path / "*.txt")) == [str(tmp_path / name) for name in ("a.txt", "b.txt")]
    assert parts_of(str(tmp_path / "**" / "*.txt"))[-1] == str(tmp_path / "deep" / "d.txt")
    assert parts_of(str(tmp_path / "*.none")) == []


def test_a_file_is_one_file_whatever_its_name(tmp_path):
    made(tmp_path, "a[1].txt")
    assert parts_of(str(tmp_path / "a[1].txt")) is None
    assert parts_of(str(tmp_path / "missing.txt")) is None


def test_a_folder_names_its_files_but_marks_of_other_tools(tmp_path):
    assert parts_of(str(made(tmp_path / "one", "b.txt", "a.txt.gz", ".hidden", "_SUCCESS", "sub/c.txt"))) == [
        str(tmp_path / "one" / name) for name in ("a.txt.gz", "b.txt")
    ]
    saved = made(tmp_path / "two", "data-00000.arrow", "dataset_info.json", "state.json")
    assert parts_of(str(saved)) == [str(saved / "data-00000.arrow")]
    assert parts_of(str(made(tmp_path / "brat", "a.txt", "a.ann"))) is None


def test_outputs_have_the_names_of_the_inputs(tmp_path):
    assert targets(["in/a.txt", "in/b.txt"], "out") == ["out/a.txt", "out/b.txt"]
    with pytest.raises(OptionError, match=r"x/a.txt and y/a.txt have the same name"):
        targets(["x/a.txt", "y/a.txt"], "out")


def test_outputs_that_exist_are_refused_overwritten_or_kept(tmp_path):
    made(tmp_path, "a.txt", "b.txt")
    parts, out = ["in/a.txt", "in/b.txt", "in/c.txt"], str(tmp_path)
    with pytest.raises(OptionError, match=r"a.txt and 1 other are there already; --existing keep"):
        left_to_do(parts, out, "refuse")
    assert len(left_to_do(parts, out, "overwrite")) == 3
    assert left_to_do(parts, out, "keep") == [("in/c.txt", str(tmp_path / "c.txt"))]
