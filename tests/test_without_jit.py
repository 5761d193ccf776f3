"""The whole road with the kernels run as plain Python, so that a compiler cannot hide a mistake in them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROWS = "the D B-NP\ndog N I-NP\nbarks V B-VP\n\nAnna N B-NP\nsees V B-VP\n. P O\n\n"


def test_train_tag_and_eval_in_plain_python(tmp_path):
    train = tmp_path / "train.txt"
    train.write_text(ROWS, encoding="utf-8")
    (tmp_path / "names.txt").write_text("Anna\nthe dog\n", encoding="utf-8")
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}

    def run(*arguments, stdin=""):
        return subprocess.run(
            [sys.executable, "-W", "error::RuntimeWarning", "-m", "loglinear", *map(str, arguments)],
            input=stdin, env=environment, capture_output=True, text=True, timeout=300, check=True,
        ).stdout  # fmt: skip

    for order in (1, 2):
        model = tmp_path / f"{order}.model"
        options = ("--order", order, "--template", "ner", "--pair-features", "--constraints", "bio", "--l2", "0.1")
        run("train", train, "-o", model, *options, "--gazetteer", tmp_path / "names.txt", "--max-iter", "15")
        tagged = run("tag", model, train)
        assert "FB1: 100.00" in run("eval", "-", stdin=tagged)
        assert run("tag", model, train, "--nbest", "2").count("rank = 2") == 2
        assert run("tag", model, train, "--marginals").count("0.") > 5
        run(
            "train", train, "-o", model, *options[:-2], "--gazetteer", tmp_path / "names.txt", "--criterion", "mira:k=2"
        )
        assert "FB1: 100.00" in run("eval", "-", stdin=run("tag", model, train))


FLAT = """
import sys
sys.path.insert(0, "tests")
import numpy as np
import scipy.sparse as sp
from problems.flat import flat_objective
from loglinear.criteria.criterion import make_criterion
from loglinear.optimizers.dual.chain import DualAscent
from loglinear.optimizers.online.general import Online

rng = np.random.default_rng(0)
rows = rng.normal(size=(12, 3))
labels = rows.argmax(axis=1)
for criterion in ("cll", "max-margin"):
    for data in (rows, sp.csr_matrix(rows)):
        for l1 in (0.0, 0.1):
            objective = flat_objective(data, labels, 3, criterion)
            found = DualAscent(max_iter=300, tolerance=1e-3).minimise(objective, np.zeros(12), l1=l1)
            assert found.converged, found.message
objective.criterion = make_criterion("mira:k=2", objective.criterion.cost)
assert Online(max_iter=20).minimise(objective, np.zeros(12)).weights.any()
print("done")
"""


def test_flat_labels_in_plain_python():
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", FLAT], env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True, text=True, timeout=300, check=False, cwd=Path(__file__).parent.parent,
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr
