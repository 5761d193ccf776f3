"""Summaries of parts: the model of counts of parts is that of the whole; files, and parts that do not go together."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from loglinear import NaiveBayes, Summary, load
from loglinear.errors import DataError, ModelFileError, OptionError
from loglinear.estimators.conventions import clone
from problems.guides import run_guide


def cuts(rng: np.random.Generator, n: int) -> list[slice]:
    """Slices of n examples into a few parts, in order."""
    ends = [0, *sorted(rng.choice(np.arange(1, n), size=rng.integers(0, min(5, n - 1)), replace=False)), n]
    return [slice(a, b) for a, b in pairwise(ends)]


def through_files(summaries: list[Summary], rng: np.random.Generator) -> list[Summary]:
    """The same summaries as they come out of files and pickles."""
    kept = [Summary.load(each.to_bytes()) if rng.random() < 0.5 else each for each in summaries]
    return [pickle.loads(pickle.dumps(each)) if rng.random() < 0.5 else each for each in kept]


def rows(rng: np.random.Generator, whole: bool) -> tuple[Any, Any, Any]:
    n, d = int(rng.integers(2, 40)), int(rng.integers(1, 6))
    x = rng.poisson(1.0, size=(n, d)) * (1.0 if whole else rng.random((n, d)))
    weights = rng.integers(1, 4, size=n).astype(float) if whole else rng.random(n) + 0.1
    y = rng.integers(4, size=n) if rng.random() < 0.5 else rng.choice(["a", "bb", "ccc"], size=n)
    return (sparse.csr_matrix(x) if rng.random() < 0.5 else x), y, (weights if rng.random() < 0.7 else None)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("whole", [True, False])
def test_naive_bayes_of_parts_is_that_of_all_rows_in_any_order(seed: int, whole: bool) -> None:
    """Labels that occur in some parts only are there; fractional counts and weights add up the same way, too."""
    rng = np.random.default_rng(seed)
    x, y, weights = rows(rng, whole)
    model = NaiveBayes(smoothing=0.5)
    parts = [model.summarize(x[s], y[s], None if weights is None else weights[s]) for s in cuts(rng, len(y))]
    together = clone(model).from_summaries(through_files([parts[i] for i in rng.permutation(len(parts))], rng))
    assert together.to_bytes() == clone(model).fit(x, y, weights).to_bytes()


def test_summaries_are_added_two_by_two_as_all_at_once() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.random((30, 4)), rng.integers(3, size=30)
    a, b, c = (NaiveBayes().summarize(x[s], y[s]) for s in (slice(0, 7), slice(7, 20), slice(20, 30)))
    models = [NaiveBayes().from_summaries(some) for some in ([a, b, c], [a + b, c], [a + (b + c)], iter([a, b + c]))]
    assert len({model.to_bytes() for model in models}) == 1


def test_summaries_may_be_files(tmp_path: Any) -> None:
    x, y = np.eye(4), ["a", "b", "a", "c"]
    NaiveBayes().summarize(x[:2], y[:2]).save(tmp_path / "1")
    NaiveBayes().summarize(x[2:], y[2:]).save(str(tmp_path / "2"))
    found = NaiveBayes().from_summaries([tmp_path / "1", str(tmp_path / "2")])
    assert found.to_bytes() == NaiveBayes().fit(x, y).to_bytes()


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda x, y: NaiveBayes(smoothing=2.0).summarize(x, y), "was made with smoothing=2.0 .* with smoothing=1.0"),
        (lambda x, y: NaiveBayes().summarize(x[:, :2], y), "3 columns, another one 2"),
        (lambda x, y: NaiveBayes().summarize(x, [1, 2, 3]), "strings, those of another one numbers"),
        (lambda x, y: "no such file", "no such file"),
        (lambda x, y: 3, "holds a int"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused_by_a_sentence(other: Any, message: str) -> None:
    x, y = np.eye(3), ["a", "b", "b"]
    with pytest.raises((OptionError, DataError, ModelFileError), match=message):
        NaiveBayes().from_summaries([NaiveBayes().summarize(x, y), other(x, y)])


def test_nothing_and_a_single_summary_are_no_list() -> None:
    with pytest.raises(OptionError, match="no summary"):
        NaiveBayes().from_summaries([])
    with pytest.raises(OptionError, match="not a list"):
        NaiveBayes().from_summaries(NaiveBayes().summarize(np.eye(2), ["a", "b"]))


def test_a_damaged_file_is_refused() -> None:
    content = bytearray(NaiveBayes().summarize(np.eye(3), ["a", "b", "c"]).to_bytes())
    content[-3] ^= 1
    with pytest.raises(ModelFileError):
        Summary.load(bytes(content))


def test_the_programs_of_the_guide_run() -> None:
    defined = run_guide("Models of counts, part by part", "large-data.md")
    assert defined["tagger"].converged_ and defined["mixture"].converged_
    np.testing.assert_allclose(sorted(defined["mixture"].means_[:, 0]), [0.0, 5.0], atol=0.2)
    assert sorted(each.suffix for each in defined["folder"].iterdir()) == [".counts", ".counts", ".txt", ".txt"]


def test_a_summary_is_no_model_and_says_so() -> None:
    content = NaiveBayes().summarize(np.eye(2), ["a", "b"]).to_bytes()
    with pytest.raises(ModelFileError, match=r"holds a summary .* from_summaries"):
        load(content)
