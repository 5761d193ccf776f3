"""The kernels are also plain Python: without compilation the same laws hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_the_laws_hold_without_compilation():
    here = Path(__file__).parent
    laws = [here / "test_segments.py", here / "test_segment_features.py"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, laws)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=here.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert " passed" in run.stdout
