"""Mixtures of hidden Markov models: components and states enumerated, and plain models as a special case."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.arrays import Float
from loglinear.data.columns.corpus import offsets_of
from loglinear.errors import DataError
from loglinear.generative.em import climbed
from loglinear.generative.hmm.components import HmmComponents, Sequences
from loglinear.generative.hmm.em import Expectation, random_start
from loglinear.generative.hmm.model import Counts, HiddenMarkovModel
from loglinear.generative.mixture import MixtureModel, ObjectiveFellWarning, WeightedRows, start_model
from loglinear.structures.gold import Gold

SIZES = [3, 2]


def drawn_sequences(rng: np.random.Generator, n: int, n_labels: int, annotation: str) -> Sequences:
    offsets = offsets_of(rng.integers(1, 4, size=n))
    total = int(offsets[-1])
    fields = [rng.integers(size, size=total).astype(np.int32) for size in SIZES]
    if annotation == "hidden":
        return Sequences(fields, offsets)
    labels = rng.integers(n_labels, size=total).astype(np.int32)
    if annotation == "known":
        return Sequences(fields, offsets, Gold(labels))
    allowed = (rng.random((total, n_labels)) < 0.5).astype(np.uint8)
    allowed[np.arange(total), labels] = 1
    single = allowed.sum(axis=1) == 1
    return Sequences(fields, offsets, Gold(np.where(single, labels, -1).astype(np.int32), allowed))


def drawn_mixture(rng: np.random.Generator, k: int, n_labels: int, order: int) -> MixtureModel:
    models = tuple(random_start(n_labels, order, SIZES, rng, 1.0) for _ in range(k))
    return MixtureModel(np.log(rng.dirichlet(np.ones(k))), HmmComponents(models, 0.7, 0.3))


def labellings(x: Sequences, i: int, n_labels: int) -> list[tuple[int, ...]]:
    """The states that the annotation of sequence i allows."""
    lo, hi = x.offsets[i : i + 2].tolist()
    every = itertools.product(range(n_labels), repeat=hi - lo)
    if x.gold is None:
        return list(every)
    mask = x.gold.mask(n_labels)[lo:hi]
    return [y for y in every if all(mask[t, label] for t, label in enumerate(y))]


def probability(model: HiddenMarkovModel, x: Sequences, i: int, y: tuple[int, ...]) -> tuple[float, Counts]:
    """p(x_i, y), one event after the other, and the counts of these events."""
    lo = int(x.offsets[i])
    steps, emissions = np.zeros_like(model.steps), [np.zeros_like(table) for table in model.emissions]
    p, state = 1.0, model.n_states
    for t, label in enumerate((*y, model.n_labels)):
        p *= model.steps[state, label]
        steps[state, label] += 1
        if label == model.n_labels:
            break
        before = model.n_labels if t == 0 else y[t - 1]
        state = label if model.order == 1 else before * model.n_labels + label
        for table, counted, values in zip(model.emissions, emissions, x.fields, strict=True):
            p *= table[label, values[lo + t]]
            counted[label, values[lo + t]] += 1
    return p, Counts(model.order, model.n_labels, steps, emissions)


def enumerated(model: MixtureModel, x: Sequences, known: Any) -> tuple[Float, Float, list[list[Counts]]]:
    """log p of each sequence, the shares of its components, and the counts expected in each, over all (k, y)."""
    theta: Any = model.components
    n_labels = theta.models[0].n_labels
    totals, shares, counts = [], [], []
    for i in range(len(x)):
        joint, expected = [], []
        for k, hmm in enumerate(theta.models):
            each = [probability(hmm, x, i, y) for y in labellings(x, i, n_labels)]
            total = sum(p for p, _ in each)
            parts = [(np.sum([p * c.steps for p, c in each], axis=0) / total)]
            tables = [np.sum([p * c.emissions[f] for p, c in each], axis=0) / total for f in range(len(SIZES))]
            expected.append(Counts(hmm.order, n_labels, parts[0], tables))
            joint.append(np.exp(model.log_weights[k]) * total if known[i] in (-1, k) else 0.0)
        totals.append(np.log(sum(joint)))
        shares.append(np.array(joint) / sum(joint))
        counts.append(expected)
    return np.array(totals), np.array(shares), counts


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2]), st.sampled_from(["hidden", "partial", "known"]))
@settings(max_examples=15, deadline=None)
def test_both_steps_are_those_of_all_components_and_states(seed: int, order: int, annotation: str) -> None:
    rng = np.random.default_rng(seed)
    model, x = drawn_mixture(rng, 2, 2, order), drawn_sequences(rng, 4, 2, annotation)
    weights, known = rng.random(4) + 0.2, np.array([-1, 1, -1, -1], dtype=np.int32)
    totals, shares, counts = enumerated(model, x, known)
    found = model.expected(x, weights, known)
    np.testing.assert_allclose(found.shares, shares, rtol=1e-9, atol=1e-12)
    assert found.log_likelihood == pytest.approx(weights @ totals)
    theta: Any = model.components
    prior = sum(
        0.7 * sum(np.log(table).sum() for table in hmm.emissions) + 0.3 * np.log(hmm.steps[hmm.steps > 0]).sum()
        for hmm in theta.models
    )
    assert found.objective == pytest.approx(weights @ totals + prior)
    after: Any = model.maximised(x, weights, found.shares)
    np.testing.assert_allclose(np.exp(after.log_weights), weights @ shares / weights.sum())
    for k, hmm in enumerate(after.components.models):
        q = weights * shares[:, k]
        steps = np.tensordot(q, np.array([counts[i][k].steps for i in range(4)]), axes=1) + 0.3
        steps[-1, -1] = 0.0
        np.testing.assert_allclose(hmm.steps, steps / steps.sum(axis=1, keepdims=True), rtol=1e-8)
        for f, table in enumerate(hmm.emissions):
            own = np.tensordot(q, np.array([counts[i][k].emissions[f] for i in range(4)]), axes=1) + 0.7
            np.testing.assert_allclose(table, own / own.sum(axis=1, keepdims=True), rtol=1e-8)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2]), st.sampled_from(["hidden", "partial", "known"]))
@settings(max_examples=15, deadline=None)
def test_the_objective_never_falls(seed: int, order: int, annotation: str) -> None:
    rng = np.random.default_rng(seed)
    x, weights = drawn_sequences(rng, 12, 2, annotation), rng.random(12) + 0.1
    even = HmmComponents.even(3, 2, order, SIZES, 0.5, 0.1)
    start = start_model(even, x, weights, None, "k-means++", rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ObjectiveFellWarning)
        model, state = climbed(start, WeightedRows(x, weights), max_iter=20, tolerance=0.0)
    assert (np.diff(state.objectives) > -1e-8 * np.abs(state.objectives[1:])).all()
    np.testing.assert_allclose(model.posterior(x).sum(axis=1), 1.0)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("annotation", ["hidden", "partial", "known"])
def test_one_component_is_baum_welch(order: int, annotation: str) -> None:
    rng = np.random.default_rng(3)
    x, weights = drawn_sequences(rng, 30, 2, annotation), rng.random(30) + 0.5
    start = random_start(2, order, SIZES, rng)
    gold = x.gold or Gold(np.full(x.offsets[-1], -1, dtype=np.int32), np.ones((x.offsets[-1], 2), dtype=np.uint8))
    plain = Expectation(
        x.fields, SIZES, x.offsets, gold, 2, order, weights=weights, smoothing=0.5, transition_smoothing=0.2
    )  # fmt: skip
    hmm, state = climbed(start, plain, max_iter=5, tolerance=0.0)
    mixture = MixtureModel(np.zeros(1), HmmComponents((start,), 0.5, 0.2))
    found, climb = climbed(mixture, WeightedRows(x, weights), max_iter=5, tolerance=0.0)
    longest = max(len(climb.objectives), len(state.objectives))  # at the maximum, rounding says when they end
    both = [np.pad(each.objectives, (0, longest - len(each.objectives)), mode="edge") for each in (climb, state)]
    np.testing.assert_allclose(*both, rtol=1e-12)
    np.testing.assert_allclose(found.components.parameters, hmm.parameters, rtol=1e-9, atol=1e-12)
    if annotation == "known":
        counts = Counts.of(x.fields, SIZES, gold.labels, x.offsets, 2, order, weights)
        counted = HiddenMarkovModel.estimated(counts, 0.5, 0.2)
        np.testing.assert_allclose(found.components.parameters, counted.parameters, rtol=1e-12)


def test_threads_make_no_difference() -> None:
    rng = np.random.default_rng(5)
    x, model = drawn_sequences(rng, 400, 2, "hidden"), drawn_mixture(rng, 2, 2, 1)
    shares = rng.random((400, 2))
    one, three = model.components, replace(model.components, n_threads=3)  # type: ignore[type-var]  # a dataclass
    np.testing.assert_array_equal(one.log_densities(x), three.log_densities(x))
    np.testing.assert_array_equal(one.maximised(x, shares).parameters, three.maximised(x, shares).parameters)


def test_parameters_are_counted_and_kept() -> None:
    model = drawn_mixture(np.random.default_rng(0), 3, 2, 2)
    again = model.with_parameters(model.parameters)
    np.testing.assert_array_equal(again.parameters, model.parameters)
    # of each of 3: 6 states (pairs) with 2 free steps each and the start with 1; emissions of 3 and 2 values
    assert model.n_parameters == 3 * (6 * 2 + 1 + 2 * (2 + 1)) + 2


def test_an_empty_component_keeps_its_probabilities() -> None:
    rng = np.random.default_rng(1)
    model, x = drawn_mixture(rng, 2, 2, 1), drawn_sequences(rng, 5, 2, "hidden")
    after: Any = model.components.maximised(x, np.array([[1.0, 0.0]] * 5))
    np.testing.assert_array_equal(after.models[1].parameters, model.components.models[1].parameters)  # type: ignore[attr-defined]


def test_draws_have_the_frequencies_of_the_components() -> None:
    rng = np.random.default_rng(2)
    model = drawn_mixture(rng, 2, 2, 1)
    rows, components = model.sample(4000, rng)
    for k, hmm in enumerate(model.components.models):  # type: ignore[attr-defined]
        own = rows[components == k]
        lengths = hmm.inflow.sum()
        assert np.diff(own.offsets).mean() == pytest.approx(lengths, rel=0.1)
        share = (hmm.inflow / lengths) @ hmm.emissions[0]
        np.testing.assert_allclose(np.bincount(own.fields[0], minlength=3) / len(own.fields[0]), share, atol=0.03)


def test_what_no_component_can_make_is_shared_by_their_weights() -> None:
    steps = np.array([[0.0, 1.0], [1.0, 0.0]])  # every sequence has one position
    hmm = HiddenMarkovModel(1, 1, steps, [np.array([[0.5, 0.5]])])
    model = MixtureModel(np.log([0.25, 0.75]), HmmComponents((hmm, hmm), 0.0, 0.0))
    x = Sequences([np.zeros(3, dtype=np.int32)], offsets_of([1, 2]))
    np.testing.assert_allclose(model.posterior(x), [[0.25, 0.75]] * 2)
    assert model.best(x).tolist() == [1, 1] and np.isneginf(model.log_likelihoods(x)).tolist() == [False, True]
    with pytest.raises(DataError, match=r"row 1 .* give more smoothing"):
        model.expected(x, np.ones(2))
