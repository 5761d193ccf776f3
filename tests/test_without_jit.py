"""The whole road with the kernels run as plain Python, so that a compiler cannot hide a mistake in them."""

import os
import subprocess
import sys

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
