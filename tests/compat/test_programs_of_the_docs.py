"""The programs of docs/from-other-tools.md, before and after, say the same."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "from-other-tools.md"
SECTION = PAGE.read_text(encoding="utf-8").split("## Programs on python-crfsuite")[1].split("\n## ")[0]
PROGRAMS = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
PAIRS = [PROGRAMS[0:2], PROGRAMS[2:4]]
DATA = """
data = [
    ([{"word": "Eva", "upper": True}, ["word:runs"]], ["NAME", "O"]),
    ([["word:so"], {"word": "Ada", "upper": 1}], ["O", "NAME"]),
]
X, y = [x for x, _ in data], [labels for _, labels in data]
"""


def said(program, folder, start=""):
    whole = f"{start}{DATA}{program}"
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_has_two_programs_before_and_after_and_one_that_installs():
    assert len(PROGRAMS) == 5
    for before, after in PAIRS:
        changed = [(a, b) for a, b in zip(before.splitlines(), after.splitlines(), strict=True) if a != b]
        assert changed and all("import" in a and "loglinear.compat" in b for a, b in changed)


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_a_program_says_the_same_before_and_after(tmp_path, before, after):
    start = "" if "sklearn_crfsuite" not in before else "import loglinear.compat\nloglinear.compat.install()\n"
    told = said(before, tmp_path, start)
    assert said(after, tmp_path) == told and len(told.splitlines()) == 2


def test_install_is_as_the_page_says(tmp_path):
    told = said(PROGRAMS[4], tmp_path)
    assert told.split() == ["loglinear.compat.pycrfsuite.trainer", "loglinear.compat.sklearn_crfsuite.estimator"]
