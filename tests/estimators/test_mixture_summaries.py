"""Mixtures by EM over parts: the rounds of EM on all rows, for every kind of components; parts that do not fit."""

from __future__ import annotations

import copy
import pickle
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from loglinear import Mixture, Summary
from loglinear.errors import OptionError

ROUNDS = 6
FAMILIES: dict[str, dict[str, Any]] = {
    "gaussian known": {"covariance": "known"},
    **{f"gaussian {c}": {"covariance": c, "smoothing": 0.5} for c in ("spherical", "diagonal", "tied", "full")},
    "multinomial": {"components": "multinomial", "smoothing": 0.3},
    "sparse multinomial": {"components": "multinomial"},
    "naive Bayes": {"components": "naive-bayes", "smoothing": 0.5},
    "hmm": {"components": "hmm:states=2,transition_smoothing=0.1", "smoothing": 0.4},
}


def rows(family: str, rng: np.random.Generator, n: int = 60) -> Any:
    if family.startswith("gaussian"):
        return np.concatenate([rng.normal(size=(n // 2, 3)), 1e3 + 3.0 * rng.normal(size=(n - n // 2, 3))])[
            rng.permutation(n)
        ]
    if "multinomial" in family:
        x = rng.poisson(rng.random((2, 5))[rng.integers(2, size=n)] * 4.0).astype(float)
        return sparse.csr_matrix(x) if "sparse" in family else x
    if family == "hmm":
        return [[f"w{rng.integers(4)}" for _ in range(rng.integers(1, 6))] for _ in range(n)]
    return [[f"a{rng.integers(3)}", rng.choice(["b", "c", None])] for _ in range(n)]


def cuts(rng: np.random.Generator, n: int) -> list[slice]:
    ends = [0, *sorted(rng.choice(np.arange(1, n), size=rng.integers(1, 5), replace=False)), n]
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


def quiet(call: Any, *arguments: Any, **keywords: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return call(*arguments, **keywords)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("family", FAMILIES)
def test_em_over_parts_is_em_on_all_rows(family: str, seed: int) -> None:
    """The same objectives, which never fall, and the same parameters, also with weights and known components."""
    rng = np.random.default_rng([seed, len(family)])
    x = rows(family, rng)
    weights = rng.integers(0, 3, size=60) * rng.random(60) if seed % 2 else np.ones(60)
    known = [int(k) if rng.random() < 0.1 else -1 for k in rng.integers(2, size=60)] if seed > 1 else None
    mixture = Mixture(2, rounds=ROUNDS, tolerance=0.0, seed=seed, **FAMILIES[family])
    quiet(mixture.fit, x)
    quiet(mixture.set_params(rounds=1).fit, x, sample_weight=rng.random(60))  # some other model
    mixture.set_params(rounds=ROUNDS)
    whole = quiet(copy.copy(mixture).fit, x, known=known, sample_weight=weights, init=mixture)
    where = cuts(rng, 60)
    for _ in range(ROUNDS):
        mixture = pickle.loads(pickle.dumps(mixture))  # as a worker gets it
        parts = [
            mixture.summarize(x[s], None, weights[s], known=None if known is None else known[s])
            for s in where if weights[s].any()
        ]  # fmt: skip
        mixture.from_summaries([Summary.load(each.to_bytes()) if rng.random() < 0.5 else each for each in parts])
    n = min(ROUNDS, len(whole.objectives_))
    np.testing.assert_allclose(mixture.objectives_[:n], whole.objectives_[:n], rtol=1e-9)
    assert all(b >= a - 1e-9 * abs(a) for a, b in pairwise(mixture.objectives_))
    if n == ROUNDS:
        np.testing.assert_allclose(mixture.model_.parameters, whole.model_.parameters, rtol=1e-6, atol=1e-8)
    assert not hasattr(mixture, "labels_") and len(mixture.predict(x)) == 60
    assert Mixture.load(mixture.to_bytes()).objectives_ == mixture.objectives_


def test_it_says_when_it_has_converged() -> None:
    rng = np.random.default_rng(2)
    x = rows("gaussian full", rng)
    mixture = quiet(Mixture(2, rounds=1, seed=1).fit, x[:20])
    mixture.converged_ = False
    while not mixture.converged_:
        mixture.from_summaries(mixture.summarize(each) for each in (x[:11], x[11:12], x[12:]))
    whole = quiet(Mixture(2, rounds=50, seed=1).fit, x, init=quiet(Mixture(2, rounds=1, seed=1).fit, x[:20]))
    assert mixture.objectives_[-1] == pytest.approx(whole.objectives_[-1], rel=1e-6)
    assert mixture.message_.startswith("converged after")


def test_parts_that_do_not_fit_are_refused() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 2))
    with pytest.raises(Exception, match="no model yet"):
        Mixture(2).summarize(x)
    mixture = quiet(Mixture(2, rounds=2).fit, x)
    part = mixture.summarize(x)
    with pytest.raises(ValueError, match="at least one non-zero"):
        mixture.summarize(x, None, np.zeros(60))
    with pytest.raises(OptionError, match="made with rounds=2 and is used with rounds=3"):
        quiet(Mixture(2, rounds=3).fit, x).from_summaries([part])
    mixture.from_summaries([part])
    with pytest.raises(OptionError, match="another model than this one"):
        mixture.from_summaries([part])
