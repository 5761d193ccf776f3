"""install() puts the look-alikes in the place of the real packages; tagging starts quickly."""

from __future__ import annotations

import subprocess
import sys

import pytest

from loglinear.compat import pycrfsuite
from loglinear.kernels import ahead
from loglinear.structures.chain import best


def told(code, *arguments):
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_install_answers_every_import_and_uninstall_undoes_it():
    code = """
import loglinear.compat, sys
loglinear.compat.install()
loglinear.compat.install()
import pycrfsuite, sklearn_crfsuite
from pycrfsuite import _logparser, _dumpparser, _pycrfsuite
from pycrfsuite._logparser import LabelScore, TrainLogParser
from sklearn_crfsuite import metrics, scorers, utils
from sklearn_crfsuite.estimator import CRF
from sklearn_crfsuite.compat import CRF
import sklearn_crfsuite._fileresource, sklearn_crfsuite.trainer
assert sklearn_crfsuite.CRF is CRF and pycrfsuite.Trainer is _pycrfsuite.Trainer
assert loglinear.compat.pycrfsuite is pycrfsuite and _dumpparser.ParsedDump
print(*{each.split(".")[0] for each in sys.modules} & {"sklearn", "scipy", "numba"}, pycrfsuite.__name__)
loglinear.compat.uninstall()
assert "pycrfsuite" not in sys.modules and "sklearn_crfsuite.trainer" not in sys.modules
import pycrfsuite
print(pycrfsuite.__name__)
"""
    assert told(code) == ["loglinear.compat.pycrfsuite", "pycrfsuite"]


def test_install_after_the_real_package_says_so():
    code = """
import loglinear.compat, pycrfsuite
try:
    loglinear.compat.install()
except ImportError as error:
    print(error)
assert pycrfsuite.__name__ == "pycrfsuite"
"""
    words = " ".join(told(code))
    assert words.startswith("pycrfsuite has been imported already, from ") and "install() first" in words


def test_tagging_needs_neither_scikit_learn_nor_scipy_and_with_compiled_kernels_no_numba(tmp_path):
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.append([{"w": "a", "sub": {"x": 1}}, ["b"]], ["A", "B"])
    trainer.train(tmp_path / "m")
    code = """
import sys
from loglinear.compat import pycrfsuite
tagger = pycrfsuite.Tagger()
tagger.open(sys.argv[1])
print(*tagger.tag([{"w": "a", "sub": {"x": 1}}, {"b": True}]))
tagger.set([["b"]])
print(*sys.modules)
"""
    if ahead.runner_of(best._best_labels) is None:
        pytest.skip("there are no compiled kernels that fit the code; make kernels")
    a, b, *modules = told(code, tmp_path / "m")
    assert (a, b) == ("A", "B")
    assert not {each.split(".")[0] for each in modules} & {"sklearn", "scipy", "numba", "pandas"}
    rooms = ("criteria", "generative", "optimizers", "training", "experiments", "cli")
    assert not [each for each in modules if each.startswith(tuple(f"loglinear.{room}." for room in rooms))]
