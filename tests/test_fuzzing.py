"""The fuzzing campaign in short, what it once found, and whether it would find what is there."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fuzzing import campaign, minimising
from fuzzing.targets import HOMES, crashers, target

KEPT = [(name, *case) for name in HOMES for case in crashers(name)]
#: The same cases in each run of the tests; `make fuzz` goes through others.
SEED = int(os.environ.get("LOGLINEAR_FUZZ_SEED", "20"))
#: Seconds after which a campaign gives up: far more than it takes, as other processes may hold the processors.
LIMIT = 3600.0
#: Of each target, how many cases the short form has.
SHORT = {"models": 4000, "readers": 30_000, "checkpoints": 200, "verbs": 200, "kernels": 60}


@pytest.fixture
def found(tmp_path, monkeypatch):
    monkeypatch.setenv("FUZZ_FOUND", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("name", "part", "content", "file"), KEPT, ids=[f"{each[0]}-{each[3]}" for each in KEPT])
@pytest.mark.filterwarnings("ignore")
def test_what_failed_once_fails_no_more(name: str, part: str, content: bytes, file: str) -> None:
    assert target(name).outcome(part, content)[1] == ""


@pytest.mark.parametrize("name", ["models", "readers", "verbs", "kernels"])
def test_cases_follow_from_their_numbers(name: str) -> None:
    chosen = target(name)
    assert [chosen.case(5, n) for n in range(20)] == [chosen.case(5, n) for n in range(20)]
    assert len({chosen.case(5, n) for n in range(20)}) > 10
    assert chosen.case(5, 0) != chosen.case(6, 0)


@pytest.mark.slow
def test_the_campaign_finds_planted_faults_and_goes_on(found, monkeypatch):
    """What takes time or memory only when it is done first, as compiling kernels does, is none."""
    monkeypatch.setattr(campaign, "A_CASE", 2.0)
    monkeypatch.setattr(campaign, "A_FIRST", 4.0)
    tally = campaign.run("planted", seed=0, cases=50, folder=found, deadline=time.monotonic() + LIMIT)
    assert tally.next == tally.cases == 50
    assert tally.faults == {
        "crash: SIGSEGV with planted": [7], "hang with planted": [12], "memory with planted": [20],
        "IndexError in planted.py:run": [31], "WrongAnswer in planted": [33], "MemoryError in planted.py:run": [44],
    }  # fmt: skip
    assert tally.counts["LoglinearError"] == 1 and tally.counts["used"] == 50 - 7 + 1
    kept = sorted((found / "found" / "planted").iterdir())
    assert len(kept) == 6 and {path.read_bytes() for path in kept} >= {b"crash", b"hang", b"untyped"}
    again = campaign.run("planted", seed=0, cases=60, folder=found, deadline=time.monotonic() + LIMIT)
    assert again.next == 60 and again.n_faults == tally.n_faults  # goes on, and does nothing twice


def test_an_input_is_made_small():
    fails = lambda text: b"ab" in text and b"z" in text  # noqa: E731
    text = b"first line\nsecond ab line\n" + b"x" * 200 + b"\nlast z\n"
    assert sorted(minimising.smaller("", text, fails)) == sorted(b"abz")
    assert minimising.needed(range(100), lambda some: {7, 50, 51} <= set(some)) == [7, 50, 51]


def _short(name: str, cases: int, found: Path) -> None:
    tally = campaign.run(name, seed=SEED, cases=cases, folder=found, deadline=time.monotonic() + LIMIT)
    assert tally.next == cases
    assert not tally.n_faults, f"seed {tally.seed}: {tally.faults}"


@pytest.mark.parametrize(("name", "cases"), [("models", 40), ("readers", 1000)])
@pytest.mark.filterwarnings("ignore")
def test_a_few_cases(name: str, cases: int) -> None:
    chosen = target(name)
    for number in range(cases):
        part, content = chosen.case(SEED, number)
        assert chosen.outcome(part, content)[1] == "", (SEED, number, part)


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_the_campaign_in_short(name: str, found) -> None:
    _short(name, SHORT[name], found)


@pytest.mark.slow
def test_readers_guided_by_coverage(found):
    pytest.importorskip("atheris", reason="coverage-guided fuzzing wants atheris: pip install -e '.[fuzz]'")
    command = [sys.executable, "-m", "fuzzing.coverage", "0.2", "0", str(found), "columns", "template"]
    done = subprocess.run(command, env=campaign.environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and " 0 faults" in done.stdout, done.stdout + done.stderr
    assert int(done.stdout.rpartition("coverage: ")[2].split()[0].replace(",", "")) > 100
