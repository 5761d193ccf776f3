"""The tests of spaCy and NLTK in an environment of their own, as people who install the extras have it.

Both take longer to install than all else the tests need, so that they are not in the extra ``test``.
"""

import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.slow


def test_the_integrations_with_their_packages(tmp_path):
    if all(importlib.util.find_spec(name) for name in ("spacy", "nltk")):
        pytest.skip("both are installed here: the tests themselves ran")
    venv.create(tmp_path / "env", with_pip=True, system_site_packages=False)
    python = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    root = HERE.parent.parent
    command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", f"{root}[spacy,nltk]"]
    pins = subprocess.run([sys.executable, "-m", "pip", "freeze"], capture_output=True, text=True, check=True).stdout
    names = ("numpy", "numba", "llvmlite", "scipy", "scikit-learn", "pytest", "hypothesis")
    command += [line for line in pins.splitlines() if line.partition("==")[0] in names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        pytest.skip(f"spaCy and NLTK cannot be installed here: {done.stderr.strip().splitlines()[-1]:.200}")
    tests = [str(HERE / "test_spacy.py"), str(HERE / "test_nltk.py")]
    run = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", *tests]
    done = subprocess.run(run, capture_output=True, text=True, timeout=900, check=False, cwd=root)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "skipped" not in done.stdout
