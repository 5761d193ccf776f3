"""Summaries whose file is whole but whose numbers are not: refused by a sentence, or a model."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from loglinear import Mixture, NaiveBayes, Parser, Summary, Tagger, TemplateSet, model_file
from loglinear.errors import LoglinearError
from loglinear.estimators.summary import KIND
from problems.treebanks import random_trees

X, Y = [["a", "b"], ["a", "c", "b"], ["b"]], [["A", "B"], ["B", "A", "A"], ["A"]]


def _in_em() -> Any:
    tagger, y = Tagger(criterion="hmm:smoothing=0.1"), [["A", "B"], ["B", None, "C"], [None]]
    tagger.from_summaries([tagger.summarize(X, y)])
    return tagger, tagger.summarize(X, y)


def _grammar_in_em() -> Any:
    parser, trees = Parser(criterion="pcfg-em:smoothing=0.1", annotation="none"), random_trees(3, 6)
    parser.from_summaries([parser.summarize(trees)])
    return parser, parser.summarize(trees)


def _of(estimator: Any, *data: Any) -> Any:
    return estimator, estimator.summarize(*data)


def _mixture(rows: Any, **options: Any) -> Any:
    return _of(Mixture(2, rounds=300, tolerance=1e-2, **options).fit(rows), rows)


RNG = np.random.default_rng(0)
MADE = {
    "naive Bayes": lambda: _of(NaiveBayes(), RNG.random((5, 3)), [0, 1, 1, 0, 2]),
    "hmm": lambda: _of(Tagger(criterion="hmm"), X, Y, [0.5, 1.0, 2.0]),
    "hmm in EM": _in_em,
    "m-estimation": lambda: _of(
        Tagger(criterion="m-estimation", template=TemplateSet.parse("U:%x[0,0]\nB"), variance=1, max_iter=3), X, Y
    ),
    "pcfg": lambda: _of(Parser(), random_trees(2, 6)),
    "pcfg-em": lambda: _of(Parser(criterion="pcfg-em"), random_trees(2, 6)),
    "pcfg in EM": _grammar_in_em,
    "mixture of Gaussians": lambda: _mixture(RNG.normal(size=(30, 2))),
    "mixture of multinomials": lambda: _mixture(RNG.poisson(2.0, size=(30, 3)), components="multinomial"),
    "mixture of hmms": lambda: _mixture(X * 4, components="hmm:states=2,transition_smoothing=0.1"),
}


def _changed(array: Any, rng: np.random.Generator) -> Any:
    """The array with other numbers or of another shape."""
    kind = rng.integers(5)
    if kind == 0:
        return array[:-1].copy() if array.ndim and len(array) else np.zeros(3, dtype=array.dtype)
    if kind == 1:
        return np.concatenate([array, array]) if array.ndim else array
    if kind == 2:
        return np.zeros_like(array)
    changed = array.copy()
    if changed.size:
        changed.flat[rng.integers(changed.size)] = [7, 1, 0, 2**20][rng.integers(4)] if kind == 3 else 3
    return changed


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", MADE)
def test_whatever_the_numbers_are_there_is_a_model_or_a_sentence(kind: str) -> None:
    rng = np.random.default_rng(5)
    estimator, summary = MADE[kind]()
    header, arrays = summary._storage()
    whole = model_file.dumps(KIND, header, arrays)
    assert Summary.load(whole).to_bytes() == whole
    for _ in range(80):
        bad_header, bad = deepcopy(header), dict(arrays)
        name = str(rng.choice(list(arrays)))
        if rng.random() < 0.15:
            del bad[name]
        elif rng.random() < 0.8:
            bad[name] = _changed(np.array(arrays[name]), rng)
        else:
            content = bad_header["content"]
            key = str(rng.choice(list(content)))
            content[key] = [None, 0, -1, 5, "x", [], {}, [1, 2]][rng.integers(8)]
        try:
            deepcopy(estimator).from_summaries([Summary.load(model_file.dumps(KIND, bad_header, bad))])
        except LoglinearError as error:
            assert "\n" not in str(error)
