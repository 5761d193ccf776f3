"""Running the command line in this process, on a small file."""

import io
import sys

import pytest

from loglinear.cli import main
from problems.corpus import TRAIN


class Result:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err


@pytest.fixture
def run(monkeypatch, capfdbinary):
    """Run the command line in this process: ``run("tag", model, stdin="...")``."""

    def call(*arguments, stdin=""):
        content = stdin if isinstance(stdin, bytes) else stdin.encode()
        monkeypatch.setattr(sys, "argv", ["loglinear", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        monkeypatch.setenv("COLUMNS", "200")
        capfdbinary.readouterr()
        status = 0
        try:
            main()
        except SystemExit as stop:
            status = stop.code or 0
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        return Result(status, captured.out.decode(), captured.err.decode())

    return call


@pytest.fixture
def files(tmp_path):
    (tmp_path / "train.txt").write_text(TRAIN, encoding="utf-8")
    return tmp_path


@pytest.fixture
def model(files, run):
    result = run("train", files / "train.txt", "-o", files / "m.model", "--template", "chunking", "--l2", "0.01", "-q")
    assert (result.status, result.out, result.err) == (0, "", "")
    return files / "m.model"
