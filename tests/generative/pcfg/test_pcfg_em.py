"""Laws of EM over PCFGs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data.trees.tree import parse_tree
from loglinear.errors import DataError, OptionError
from loglinear.generative.pcfg.counts import treebank_pcfg
from loglinear.generative.pcfg.em import InsideOutside, compatible_spans, em, perturbed, random_pcfg
from problems.treebanks import random_trees

few = settings(max_examples=15, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def short(seed: int, cycles: bool = False, most: int = 7):
    return [tree for tree in random_trees(seed, 30, cycles) if len(tree.leaves()) <= most]


@few
@given(seeds, st.booleans(), st.sampled_from([0.0, 0.3]), st.booleans())
def test_the_objective_never_falls(seed, cycles, smoothing, bracketed):
    trees = short(seed, cycles)
    sentences = [tree.leaves() for tree in trees]
    brackets = [[(i, j) for _, i, j in tree.spans()][::2] for tree in trees] if bracketed else None
    start = perturbed(treebank_pcfg(trees, lexicon=None), np.random.default_rng(seed), 2.0)
    data = InsideOutside(sentences, brackets, smoothing=smoothing)
    run, _ = em([start], data, max_iter=6, tolerance=0.0)
    steps = np.diff(run.objectives)
    assert (steps >= -1e-8 * np.abs(run.objectives[1:])).all()
    if not smoothing and not bracketed:
        assert run.log_likelihoods[-1] == pytest.approx(run.model.log_probability(sentences).sum())


@few
@given(seeds)
def test_expected_counts_are_the_gradient_of_the_likelihood(seed):
    trees = short(seed, True, 5)
    sentences = [tree.leaves() for tree in trees]
    model = treebank_pcfg(trees, lexicon=None)
    counts = InsideOutside(sentences)(model)
    for name in ("binary", "unary"):
        values = getattr(model, name)
        for place in range(min(4, len(values))):
            found = []
            for sign in (1, -1):
                moved = values.copy()
                moved[place] *= np.exp(sign * 1e-6)
                found.append(replace(model, **{name: moved}).log_probability(sentences).sum())
            slope = (found[0] - found[1]) / 2e-6
            assert getattr(counts, name)[place] == pytest.approx(slope, rel=1e-4, abs=1e-5)
    assert counts.lexical.sum() == pytest.approx(sum(map(len, sentences)))


def test_all_brackets_of_unambiguous_trees_give_the_treebank_estimate():
    trees = [tree for tree in random_trees(5, 40) if len(tree.leaves()) <= 8]
    sentences, brackets = [tree.leaves() for tree in trees], [[(i, j) for _, i, j in t.spans()] for t in trees]
    free, bound = InsideOutside(sentences), InsideOutside(sentences, brackets)
    model = treebank_pcfg(trees, lexicon=None)
    assert bound(model).log_likelihood <= free(model).log_likelihood
    assert bound(model).log_likelihood >= sum(model.log_joint(tree) for tree in trees) - 1e-9


def test_restarts_keep_the_best_and_threads_change_nothing():
    sentences = [["a", "b"], ["a", "a", "b"], ["a", "b", "a", "b"], ["b"]] * 9
    starts = [random_pcfg(2, 2, ["a", "b"], np.random.default_rng(seed)) for seed in range(3)]
    run, objectives = em(starts, InsideOutside(sentences), max_iter=5)
    assert run.objectives[-1] == max(objectives) and len(set(objectives)) == 3
    threaded, _ = em(starts, InsideOutside(sentences, n_threads=2), max_iter=5)
    assert threaded.objectives == run.objectives
    assert (threaded.model.binary == run.model.binary).all()


def test_random_grammars_learn_from_raw_text():
    """Sentences (ab)^n: a grammar of two phrases comes to give them more than a twentieth of all strings' share."""
    sentences = [["a", "b"] * n for n in (1, 1, 1, 2, 2, 3)]
    start = random_pcfg(2, 2, ["a", "b"], np.random.default_rng(1))
    run, _ = em([start], InsideOutside(sentences), max_iter=60)
    assert run.log_likelihoods[-1] > run.log_likelihoods[0] + 10
    assert run.model.log_probability([["a", "b"]])[0] > run.model.log_probability([["b", "a"]])[0] + 1


def test_mistakes_are_named():
    with pytest.raises(DataError, match="not a bracket"):
        compatible_spans(3, [(2, 5)])
    with pytest.raises(DataError, match="no sentences"):
        InsideOutside([])
    with pytest.raises(DataError, match="brackets of 1"):
        InsideOutside([["a"], ["b"]], [[]])
    model = random_pcfg(1, 1, ["a"], np.random.default_rng(0))
    with pytest.raises(DataError, match="sentence 1"):
        InsideOutside([["a"], ["b"]])(model)
    with pytest.raises(OptionError, match="starts"):
        em([], InsideOutside([["a"]]))
    with pytest.raises(OptionError, match="n_phrases=0"):
        random_pcfg(0, 1, ["a"], np.random.default_rng(0))


def test_grammars_without_binary_rules_are_learnt():
    trees = [parse_tree("(ROOT (NN a))"), parse_tree("(ROOT (NN b))"), parse_tree("(ROOT (VB a))")]
    run, _ = em([treebank_pcfg(trees, lexicon=None)], InsideOutside([["a"], ["b"]]), max_iter=2)
    assert len(run.model.binary) == 0 and run.model.unary.sum() == pytest.approx(1.0)


def test_sentences_that_have_a_tree():
    model = random_pcfg(1, 1, ["a"], np.random.default_rng(0))
    data = InsideOutside([["a"], ["b"], *[["a", "a"]] * 20, ["a", "b"]])
    assert data.has_tree(model).tolist() == [True, False, *[True] * 20, False]


def test_em_that_was_stopped_goes_on_as_if_it_was_not():
    sentences = [["a", "b"], ["a", "a", "b"], ["a", "b", "a", "b"], ["b"]] * 9
    starts = [random_pcfg(2, n_tags, ["a", "b"], np.random.default_rng(n_tags)) for n_tags in (2, 3)]
    data, rounds = InsideOutside(sentences), []
    whole, objectives = em(starts, data, max_iter=4, tolerance=0.0, observe=lambda now: rounds.append(now.phase))
    assert {*rounds} == {"start 1 of 2", "start 2 of 2"}
    for stop in (1, 4, 6):
        half, _ = em(starts, data, max_iter=4, tolerance=0.0, observe=lambda now, stop=stop: now.iteration == stop)
        assert half.state.iteration == stop and not half.converged
        again, others = em(starts, data, max_iter=4, tolerance=0.0, state=half.state)
        assert others == objectives and again.objectives == whole.objectives
        assert (again.model.parameters == whole.model.parameters).all()
