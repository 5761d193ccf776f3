"""``train --cluster``: the same file as without, and nothing left behind however it ends."""

import os
import signal
import subprocess
import sys
import time

import pytest

from loglinear.cli import main

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    for part in range(2):
        rows = [
            f"w{(i * 7 + part) % 91} P{i % 5} {'ABC'[(i * i + part) % 3]}\n" + "\n" * (i % 6 == 5) for i in range(9000)
        ]
        (folder / f"part{part}.txt").write_text("".join(rows) + "\n")
    return folder


@pytest.fixture
def run(monkeypatch):
    """Runs the command in this process; its exit status."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["loglinear", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0

    return run


def test_the_file_is_the_same(loopback, run, corpus, tmp_path, capfd):
    given = ["train", corpus / "part*", "--template", "words", "--optimizer", "lbfgs", "--max-iter", 8]
    assert run(*given, "-o", tmp_path / "one.model") == 0
    assert run(*given, "-o", tmp_path / "other.model", "--cluster", "local:2") == 0
    assert (tmp_path / "one.model").read_bytes() == (tmp_path / "other.model").read_bytes()
    told = capfd.readouterr()
    assert "2 workers, dashboard at http://127.0.0.1:" in told.out + told.err
    assert "a pass takes" in told.out + told.err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("to_all", [False, True])
def test_a_signal_leaves_no_process_and_no_folder(corpus, tmp_path, number, to_all):
    """Ctrl-C goes to all processes of a terminal, a signal of another program to one."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "loglinear", "train", str(corpus / "part*"), "-o", str(tmp_path / "m.model")]
    options = ["--template", "chunking", "--l2", "0.0001", "--max-iter", "100000", "--cluster", "local:2"]
    process = subprocess.Popen(
        [*command, *options, "--tolerance", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True, env={**os.environ, "TMPDIR": str(scratch)},
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if "iteration" in line:
            break
    assert any(scratch.iterdir())
    (os.killpg if to_all else os.kill)(process.pid, number)
    assert process.wait(30) == 128 + number
    for _ in range(100):
        left = subprocess.run(["ps", "-o", "args=", "-s", str(process.pid)], capture_output=True, text=True).stdout
        if not left.strip():
            break
        time.sleep(0.1)
    assert not left.strip()
    assert not list(scratch.iterdir())
    assert not (tmp_path / "m.model").exists()
