"""Laws of the pieces of a chain: normalisers and their gradients against loops straight from the definition."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from loglinear.errors import DataError
from loglinear.structures.chain.structure import Chain, ChainScores
from problems.chain import batches, random_scores

few = settings(max_examples=6 if numba.config.DISABLE_JIT else 60, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def spread_over(chain, scores):
    """(sequence, position, first, context, parts by name) of every piece: a part is an index into its array."""
    for i, (first, end) in enumerate(zip(chain.offsets[:-1].tolist(), chain.offsets[1:].tolist(), strict=True)):
        for t in range(first, end):
            for context in product(range(scores.n_labels), repeat=min(t - first, scores.order)):
                outcomes = []
                for y in range(scores.n_labels):
                    parts = [("emission", (t, y))]
                    parts += [("start", (y,))] if t == first else [("transition", (context[-1], y))]
                    parts += [("stop", (y,))] if t == end - 1 else []
                    parts += [("edge", (t, context[-1], y))] if t > first and scores.edge is not None else []
                    parts += [("trigram", (*context[-2:], y))] if len(context) >= 2 else []
                    parts += [("fourgram", (*context, y))] if len(context) == 3 else []
                    outcomes.append(parts)
                yield i, t, context, outcomes


def place(t, context, n_labels):
    """Where the normaliser of a piece is kept."""
    if len(context) == 1:
        return "emission", (t - 1, *context)
    row = context[0] if len(context) == 2 else context[0] * n_labels + context[1]
    return "edge", (t - 1, row, context[-1])


def piece_scores(scores, outcomes, nothing):
    values = [sum(getattr(scores, name)[where] for name, where in parts) for parts in outcomes]
    return np.array([*values, 0.0] if nothing else values)


def random_contexts(rng, chain, scores, kept):
    """Weights of contexts, a share ``kept`` of them not zero."""
    n, y = scores.emission.shape

    def weights(*shape):
        return rng.random(shape) * (rng.random(shape) < kept)

    edge = weights(n, y ** (scores.order - 1), y) if scores.order > 1 else None
    return ChainScores(weights(n, y), np.zeros((y, y)), np.zeros(y), np.zeros(y), edge)


@few
@given(batches(), st.booleans())
def test_normalisers_sum_over_the_labels_of_a_piece(batch, nothing):
    chain, scores = batch
    first, found = chain.piece_normalisers(scores, nothing)
    expected_first, expected = np.zeros(chain.n_sequences), found.zeros_like()
    for i, t, context, outcomes in spread_over(chain, scores):
        log_z = logsumexp(piece_scores(scores, outcomes, nothing))
        if context:
            name, where = place(t, context, scores.n_labels)
            getattr(expected, name)[where] = log_z
        else:
            expected_first[i] = log_z
    np.testing.assert_allclose(first, expected_first, rtol=1e-12, atol=1e-12)
    assert found.parts().keys() == expected.parts().keys()
    for name, array in expected.parts().items():
        np.testing.assert_allclose(getattr(found, name), array, rtol=1e-12, atol=1e-12)


@few
@given(batches(), st.booleans(), seeds, st.sampled_from([0.02, 0.3, 1.0]))
def test_expectations_are_the_weighted_probabilities_of_the_labels(batch, nothing, seed, kept):
    chain, scores = batch
    rng = np.random.default_rng(seed)
    weights, contexts = rng.random(chain.n_sequences), random_contexts(rng, chain, scores, kept)
    gradient = ChainScores(**{name: rng.normal(size=array.shape) for name, array in scores.parts().items()})
    expected = ChainScores(**{name: array.copy() for name, array in gradient.parts().items()})
    values = np.zeros(chain.n_sequences)
    for i, t, context, outcomes in spread_over(chain, scores):
        weight = weights[i]
        if context:
            name, where = place(t, context, scores.n_labels)
            weight = getattr(contexts, name)[where]
        rows = piece_scores(scores, outcomes, nothing)
        log_z = logsumexp(rows)
        if weight == 0.0:
            continue
        values[i] += weight * log_z
        if log_z > -np.inf:
            for p, parts in zip(np.exp(rows - log_z), outcomes, strict=False):  # nothing has no parts
                for name, where in parts:
                    getattr(expected, name)[where] += weight * p
    found = chain.add_piece_expectations(gradient, scores, weights, contexts, nothing)
    np.testing.assert_allclose(found, values, rtol=1e-10, atol=1e-10)
    for name, array in expected.parts().items():
        np.testing.assert_allclose(getattr(gradient, name), array, rtol=1e-10, atol=1e-10, err_msg=name)


@few
@given(batches(), st.booleans(), seeds)
def test_the_contexts_of_a_labelling_are_weights_too(batch, nothing, seed):
    chain, scores = batch
    rng = np.random.default_rng(seed)
    labels = rng.integers(scores.n_labels, size=chain.n_positions).astype(np.int32)
    weights, one, other = rng.random(chain.n_sequences) + 0.1, scores.zeros_like(), scores.zeros_like()
    contexts = chain.piece_normalisers(scores)[1].zeros_like()
    blank = other if scores.order == 3 else contexts  # edges of three labels are those of a chain of order 3
    chain.add_labelling(replace(contexts, trigram=blank.trigram, fourgram=blank.fourgram), labels, weights)
    other = scores.zeros_like()
    by_weights = chain.add_piece_expectations(one, scores, weights, contexts, nothing)
    by_labels = chain.add_piece_expectations(other, scores, weights, labels, nothing)
    np.testing.assert_allclose(by_labels, by_weights, rtol=1e-10, atol=1e-10)
    for i in np.flatnonzero(np.isfinite(by_weights)):  # an impossible labelling has no gradient
        rows = slice(chain.offsets[i], chain.offsets[i + 1])
        np.testing.assert_allclose(other.emission[rows], one.emission[rows], rtol=1e-10, atol=1e-10)
    if np.isfinite(by_weights).all():
        for name, array in one.parts().items():
            np.testing.assert_allclose(getattr(other, name), array, rtol=1e-10, atol=1e-10)


@few
@given(batches(gaps=(0.0,)), seeds)
def test_given_its_neighbours_a_label_has_the_odds_of_whole_labellings(batch, seed):
    chain, scores = batch
    rng = np.random.default_rng(seed)
    labels = rng.integers(scores.n_labels, size=chain.n_positions).astype(np.int32)
    if not np.isfinite(chain.score(scores, labels)).all():
        return
    expected, here = np.zeros(chain.n_sequences), chain.score(scores, labels)
    sequence = np.repeat(np.arange(chain.n_sequences), np.diff(chain.offsets))
    for t in range(chain.n_positions):
        changed = [np.where(np.arange(chain.n_positions) == t, y, labels) for y in range(scores.n_labels)]
        i = sequence[t]
        expected[i] += logsumexp([chain.score(scores, other)[i] for other in changed]) - here[i]
    found = chain.add_given_neighbours(scores.zeros_like(), scores, labels, np.ones(chain.n_sequences))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("nothing", [False, True])
def test_wide_chains_in_one_go_and_score_by_score_agree(order, edges, nothing):
    """A spread of the transitions that is too large for products changes the way, not the result."""
    rng = np.random.default_rng(order)
    n_labels = 3 if numba.config.DISABLE_JIT else 9
    chain = Chain([0, 7, 8, 13])
    scores = random_scores(rng, chain.n_positions, n_labels, order, edges, scale=1.0, gaps=0.1)
    far = replace(scores, transition=scores.transition.copy())
    far.transition[0, 0] = -2000.0  # as good as ruled out
    never = replace(scores, transition=scores.transition.copy())
    never.transition[0, 0] = -np.inf
    weights, contexts = rng.random(3), random_contexts(rng, chain, scores, 1.0)
    results = []
    for one in (far, never):
        gradient = one.zeros_like()
        values = chain.add_piece_expectations(gradient, one, weights, contexts, nothing)
        results.append((values, chain.piece_normalisers(one, nothing), gradient))
    live = np.isfinite(results[1][0])
    np.testing.assert_allclose(results[0][0][live], results[1][0][live], rtol=1e-10)
    alive = np.isfinite(results[1][1][1].emission)
    np.testing.assert_allclose(results[0][1][1].emission[alive], results[1][1][1].emission[alive], rtol=1e-10)
    if live.all():
        for name, array in results[1][2].parts().items():
            np.testing.assert_allclose(getattr(results[0][2], name), array, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("size", [500.0, -500.0, 1e5, -1e5])
@pytest.mark.parametrize("nothing", [False, True])
def test_large_scores_neither_overflow_nor_vanish(size, nothing):
    chain, y = Chain([0, 4]), 3
    scores = ChainScores(np.full((4, y), size), np.full((y, y), size), np.zeros(y), np.zeros(y))
    first, found = chain.piece_normalisers(scores, nothing)
    least = 0.0 if nothing else -np.inf
    assert first[0] == pytest.approx(max(size + np.log(y), least))
    np.testing.assert_allclose(found.emission[:3], max(2 * size + np.log(y), least))
    gradient = scores.zeros_like()
    chain.add_piece_expectations(gradient, scores, [1.0], replace(found, emission=np.ones((4, y))), nothing)
    share = 0.0 if nothing and size < 0 else 1.0
    np.testing.assert_allclose(gradient.emission[1:], share, atol=1e-100)
    np.testing.assert_allclose(gradient.emission[0], share / y, atol=1e-100)
    np.testing.assert_allclose(gradient.transition, share, atol=1e-100)


def test_a_context_without_a_possible_label_is_dead_and_has_no_gradient():
    chain, y = Chain([0, 3]), 2
    transition = np.array([[0.0, 1.0], [-np.inf, -np.inf]])
    scores = ChainScores(np.zeros((3, y)), transition, np.zeros(y), np.zeros(y))
    _, found = chain.piece_normalisers(scores)
    assert np.isneginf(found.emission[:2, 1]).all() and np.isfinite(found.emission[:2, 0]).all()
    assert (chain.piece_normalisers(scores, nothing=True)[1].emission[:2, 1] == 0.0).all()
    gradient = scores.zeros_like()
    chain.add_piece_expectations(gradient, scores, [1.0], replace(found, emission=np.ones((3, y))), nothing=True)
    assert (gradient.transition[1] == 0.0).all() and np.isfinite(gradient.emission).all()


def test_what_does_not_fit_is_refused():
    chain = Chain([0, 3])
    rng = np.random.default_rng(0)
    one, two = random_scores(rng, 3, 2), random_scores(rng, 3, 2, order=2)
    contexts = {scores.order: chain.piece_normalisers(scores)[1] for scores in (one, two)}
    with pytest.raises(DataError, match="the parts that the scores have"):
        chain.add_piece_expectations(one.zeros_like(), two, [1.0], contexts[2])
    with pytest.raises(DataError, match="at order 2 and only there"):
        chain.add_piece_expectations(two.zeros_like(), two, [1.0], contexts[1])
    with pytest.raises(DataError, match="contexts of 2 labels"):
        chain.add_piece_expectations(one.zeros_like(), one, [1.0], random_scores(rng, 3, 4))
    with pytest.raises(DataError, match="NaN"):
        chain.piece_normalisers(replace(one, emission=np.full((3, 2), np.nan)))


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="this is that run")
def test_the_laws_hold_without_compilation():
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
