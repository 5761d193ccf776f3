"""M-estimation of flat models: the example of the documentation, and what it says of the constant."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from loglinear.generative.m_estimation import MEstimationObjective
from loglinear.optimizers.optimizer import make_optimizer


@pytest.fixture(scope="module")
def example():
    path = Path(__file__).parents[2] / "docs" / "examples" / "flat_density.py"
    spec = importlib.util.spec_from_file_location("flat_density", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_estimate_approaches_the_true_density_and_the_base_does_not(example):
    base, estimate = zip(*example.compare((100, 1_000, 10_000)), strict=True)
    assert estimate[0] > 2 * estimate[1] > 8 * estimate[2]
    assert all(m < q for m, q in zip(estimate, base, strict=True))
    assert base[2] > 0.1 > 0.01 > estimate[2]


@pytest.mark.parametrize("constant", [True, False])
def test_only_with_a_constant_the_truth_is_the_minimum(example, constant):
    """The loss of all the data there could be, without a penalty."""
    p, counts = example.truth(), example.features(example.EVERYTHING, constant)
    q0 = example.product_of(p @ example.EVERYTHING)
    objective = MEstimationObjective(csr_matrix(counts), counts.T @ q0, 0.0, p)
    newton = make_optimizer("newton", max_iter=200, tolerance=1e-12, seed=0)
    weights = newton.minimise(objective, np.zeros(counts.shape[1])).weights
    fitted = q0 * np.exp(counts @ weights)
    distance = example.divergence(p, fitted / fitted.sum())
    assert distance < 1e-6 if constant else distance > 5e-4


def test_the_example_prints_its_table(example, capsys):
    example.main()
    assert len(capsys.readouterr().out.splitlines()) == 5
