"""The groups of an objective, in this process: what a cluster has on its workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from loglinear.features.block import FeatureBlock
from loglinear.features.encoding import EncodedCorpus, Incidence
from loglinear.optimizers.objective import Objective
from loglinear.optimizers.rounds import Beginning, Group, History
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
    lists = [np.arange(block.pointer[a], block.pointer[a + 1]) for a in attributes.tolist()]
    of = np.concatenate([np.zeros(0, dtype=np.int64), *lists])
    own = FeatureBlock(np.concatenate([[0], np.cumsum(lengths)]), block.codes[of], block.n_codes)
    transitions = np.arange(features.slices[2].start, features.slices[2].stop)
    local = Objective(
        replace(features, state=own), encoded, objective.gold.slice(lo, hi), objective.criterion, objective.penalties,
        objective.l2, objective.sequence_weights[first:end],
    )  # fmt: skip
    return attributes, np.concatenate([of, transitions]), local


class InGroups:
    """An objective whose sequences are learnt from in groups, as on a cluster.

    Parameters
    ----------
    objective : Objective
    cuts : sequence of int
        Where the sequences are cut.
    lost : sequence of int
        Groups that begin again before each round.
    backwards : bool
        Whether the last group works first.
    """

    def __init__(
        self, objective: Objective, cuts: Sequence[int], lost: Sequence[int] = (), backwards: bool = False
    ) -> None:
        self._objective, self.lost, self.backwards = objective, lost, backwards
        self.n_features, self.n_penalised, self.l2 = objective.features.n_features, objective.n_penalised, objective.l2
        self.criterion, self.features, self.gold = objective.criterion, objective.features, objective.gold
        self.penalties = objective.penalties
        bounds = [0, *cuts, objective.corpus.n_sequences]
        self.parts = [part(objective, *pair) for pair in pairwise(bounds)]
        n = len(objective.features.state.pointer) - 1
        among = np.sum([np.isin(np.arange(n), attributes) for attributes, _, _ in self.parts], axis=0)
        self.multiplicity = np.full(self.n_features, len(self.parts), dtype=np.int64)
        self.multiplicity[objective.features.slices[0]] = np.repeat(among, np.diff(objective.features.state.pointer))

    def __call__(self, weights):
        return self._objective(weights)

    def use_double_precision(self) -> bool:
        return False

    def groups(self, beginning: Beginning) -> Groups:
        self.last = Groups(self, beginning)
        return self.last


class Groups:
    """The groups of an objective, begun in some way."""

    def __init__(self, apart: InGroups, beginning: Beginning) -> None:
        self._apart, self._beginning = apart, beginning
        self.members = [self._member(k) for k in range(len(apart.parts))]
        self.shared = np.flatnonzero(apart.multiplicity > 1)
        self.among = apart.multiplicity[self.shared]

    def _member(self, k: int) -> Group:
        _, of, local = self._apart.parts[k]
        return self._beginning.group(local, self._apart.multiplicity[of], len(self._apart.parts), k)

    def _places(self, k: int) -> np.ndarray:
        return np.searchsorted(self.shared, self._apart.parts[k][1][~self.members[k].is_own])

    def _follow(self, k: int, history: History) -> Group:
        if k in self._apart.lost:
            self.members[k] = self._member(k)
        mine = [shared[self._places(k)] for shared in history.shared]
        self.members[k].follow(History(mine, history.cautions))
        return self.members[k]

    def round(self, history: History):
        for k in range(len(self.members))[:: -1 if self._apart.backwards else 1]:
            self._follow(k, history)
        return [(self._places(k), member.last) for k, member in enumerate(self.members)]

    def collect(self, history: History):
        members = [self._follow(k, history) for k in range(len(self.members))]
        of = [features for _, features, _ in self._apart.parts]
        return [(of[k][each.is_own], of[k], each.collected()) for k, each in enumerate(members)]


@st.composite
def cut_objectives(draw, **options):
    """Objectives of chains, and where to cut their sequences."""
    objective = draw(chain_objectives(**options))
    n = objective.corpus.n_sequences
    cuts = draw(st.lists(st.integers(1, n - 1), unique=True, max_size=3)) if n > 1 else []
    return objective, sorted(cuts)
