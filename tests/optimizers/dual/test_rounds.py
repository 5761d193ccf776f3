"""Dual ascent in rounds: the bound that makes changes addable, the minimum, lost groups, and the order of groups."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.features.block import FeatureBlock
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.optimizers.dual.chain import DualAscent
from loglinear.optimizers.dual.general import FinishState
from loglinear.optimizers.dual.rounds import GroupAscent, History, RoundsState, minimise_in_rounds
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.optimizers.objective import Objective
from loglinear.structures.chain.features import ChainFeatures
from problems.chain import chain_objectives


def part(objective: Objective, first: int, end: int) -> tuple[np.ndarray, np.ndarray, Objective]:
    """Attributes and features that the sequences from ``first`` to ``end`` have, and the objective of these alone."""
    features, corpus = objective.features, objective.corpus
    lo, hi = corpus.offsets[first], corpus.offsets[end]
    pointer = corpus.state.pointer[lo : hi + 1]
    used = slice(pointer[0], pointer[-1])
    attributes, ids = np.unique(corpus.state.ids[used], return_inverse=True)
    values = None if corpus.state.values is None else corpus.state.values[used]
    encoded = EncodedCorpus(
        corpus.offsets[first : end + 1] - lo, Incidence(pointer - pointer[0], ids.astype(np.int32), values)
    )
    block = features.state
    lengths = np.diff(block.pointer)[attributes]
    of = np.concatenate([np.arange(block.pointer[a], block.pointer[a + 1]) for a in attributes.tolist()] or [[]])
    of = of.astype(np.int64)
    own = FeatureBlock(np.concatenate([[0], np.cumsum(lengths)]), block.codes[of], block.n_codes)
    transitions = np.arange(features.slices[2].start, features.slices[2].stop)
    local = Objective(
        replace(features, state=own), encoded, objective.gold.slice(lo, hi), objective.criterion, objective.penalties,
        objective.l2, objective.sequence_weights[first:end],
    )  # fmt: skip
    return attributes, np.concatenate([of, transitions]), local


class Here:
    """The groups of an objective in this process; those whose number is in ``lost`` begin again before each round."""

    def __init__(self, objective: Objective, cuts: Sequence[int], lost: Sequence[int] = (), backwards: bool = False):
        bounds = [0, *cuts, objective.corpus.n_sequences]
        self.parts = [part(objective, *pair) for pair in pairwise(bounds)]
        self.lost, self.backwards = lost, backwards
        n_attributes = len(objective.features.state.pointer) - 1
        self.multiplicity = np.zeros(n_attributes, dtype=np.int64)
        for attributes, _, _ in self.parts:
            self.multiplicity[attributes] += 1
        self.ascents = [self._begin(k) for k in range(len(self.parts))]
        among = [of[~ascent.is_own] for (_, of, _), ascent in zip(self.parts, self.ascents, strict=True)]
        self.shared = np.unique(np.concatenate(among))

    def _begin(self, k: int) -> GroupAscent:
        attributes, _, local = self.parts[k]
        return GroupAscent(local, len(self.parts), self.multiplicity[attributes], [7, k])

    def _places(self, k: int) -> np.ndarray:
        return np.searchsorted(self.shared, self.parts[k][1][~self.ascents[k].is_own])

    def _follow(self, k: int, history: History) -> GroupAscent:
        if k in self.lost:
            self.ascents[k] = self._begin(k)
        mine = [shared[self._places(k)] for shared in history.shared]
        self.ascents[k].follow(History(mine, history.cautions))
        return self.ascents[k]

    def round(self, history: History):
        for k in range(len(self.parts))[:: -1 if self.backwards else 1]:
            self._follow(k, history)
        return [(self._places(k), self.ascents[k].last) for k in range(len(self.parts))]

    def collect(self, history: History):
        ascents = [self._follow(k, history) for k in range(len(self.parts))]
        return [(self.parts[k][1][each.is_own], self.parts[k][1], each.collected()) for k, each in enumerate(ascents)]


@st.composite
def cut_objectives(draw):
    objective = draw(chain_objectives())
    n = objective.corpus.n_sequences
    cuts = draw(st.lists(st.integers(1, n - 1), unique=True, max_size=3)) if n > 1 else []
    return objective, sorted(cuts)


def run(objective: Objective, groups: Here, state=None, max_iter: int = 400, tolerance: float = 1e-9):
    objective.use_double_precision()
    options = DualAscent(max_iter=max_iter, tolerance=tolerance)
    return minimise_in_rounds(options, objective, groups, objective.features.n_features, state=state)


@settings(max_examples=40, deadline=None)
@given(drawn=cut_objectives())
def test_it_ends_where_lbfgs_does(drawn):
    objective, cuts = drawn
    best = LBFGS(max_iter=500, tolerance=1e-12).minimise(objective, np.zeros(objective.features.n_features)).value
    found = run(objective, Here(objective, cuts))
    assert objective(found.weights)[0] == pytest.approx(best, rel=2e-4, abs=2e-4)


@settings(max_examples=40, deadline=None)
@given(drawn=cut_objectives(), passes=st.integers(1, 6))
def test_the_weights_are_what_the_kept_marginals_make_of_them(drawn, passes):
    """w = -(1 / 2 l2) sum_i c_i (E_alpha_i[f] - f(gold_i)), whoever has which sequence."""
    objective, cuts = drawn
    groups = Here(objective, cuts)
    state = run(objective, groups, max_iter=passes, tolerance=0.0).state
    if isinstance(state, FinishState):
        return
    size = objective.features.n_features
    expected = np.zeros(size)
    for (_, of, local), ascent in zip(groups.parts, groups.ascents, strict=True):
        features: ChainFeatures = local.features
        lengths = np.diff(local.corpus.offsets)
        gold = np.eye(features.n_labels)[local.gold.labels]
        change = ascent._kept.alpha[:, : features.n_labels].astype(np.float64) - gold
        change *= np.repeat(local.sequence_weights, lengths)[:, None]
        vector, rows = np.zeros(features.n_features), np.zeros((features.state.n_rows, features.n_labels))
        own = features.slices[0]
        features.state.add_gradient(local.corpus.state, 0, len(change), change, vector[own], rows)
        features.state.gather(rows, vector[own])
        offsets, labels = local.corpus.offsets, local.gold.labels
        for i in range(len(lengths)):
            steps = (
                labels[offsets[i] : offsets[i + 1] - 1] * features.n_labels + labels[offsets[i] + 1 : offsets[i + 1]]
            )
            for f, code in enumerate(features.transitions):
                moved = ascent._kept.transitions[i, f] - np.sum(steps == code)
                vector[features.slices[2]][f] += local.sequence_weights[i] * moved
        np.add.at(expected, of, vector)
    np.testing.assert_allclose(state.weights, -expected / (2.0 * objective.l2), atol=2e-4)


@settings(max_examples=15, deadline=None)
@given(drawn=cut_objectives(), data=st.data())
def test_lost_groups_and_the_order_of_work_change_no_bit(drawn, data):
    objective, cuts = drawn
    lost = data.draw(st.lists(st.integers(0, len(cuts)), unique=True))
    one = run(objective, Here(objective, cuts), max_iter=4, tolerance=0.0).state
    other = run(objective, Here(objective, cuts, lost, backwards=True), max_iter=4, tolerance=0.0).state
    assert np.array_equal(one.weights, other.weights) and one.value == other.value


@settings(max_examples=15, deadline=None)
@given(drawn=cut_objectives(), passes=st.integers(1, 5))
def test_a_stored_state_goes_on_as_if_never_stopped(drawn, passes):
    objective, cuts = drawn
    whole = run(objective, Here(objective, cuts), max_iter=passes + 3, tolerance=0.0).state
    first = run(objective, Here(objective, cuts), max_iter=passes, tolerance=0.0).state
    kind = FinishState if isinstance(first, FinishState) else RoundsState
    if kind is FinishState:
        return
    stored = RoundsState.from_arrays(first.to_arrays())
    again = run(objective, Here(objective, cuts), state=stored, max_iter=passes + 3, tolerance=0.0).state
    assert np.array_equal(again.weights, whole.weights) and again.value == whole.value
