"""Learning in rounds: groups of sequences that live apart, and exchange the weights that they share now and then.

A *round* is made by all groups at the same time: each learns from its own sequences, from the same weights, and sends
back how its work has changed them. A feature that occurs in one group only belongs to that group: it never travels
before the end. What becomes of the changes is up to the algorithm, :mod:`~loglinear.optimizers.dual.rounds` or
:mod:`~loglinear.optimizers.online.rounds`; here is what both share.

**Lost groups.** What a group keeps follows from the shared weights that it was sent in each round, and from nothing
else. The state of a training is therefore the history of the shared weights: whoever takes over a group makes its
rounds again, and ends with the same bits, and so does a training that goes on from a checkpoint, with as many
workers as there are then.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from loglinear.arrays import Array, Bool, Float, Int64
from loglinear.errors import OptionError
from loglinear.optimizers.optimizer import StoredState


class History(NamedTuple):
    """What has been sent to a group, or to all.

    Parameters
    ----------
    shared : list of float [F]
        The shared weights at the beginning of each round; a group is sent those that it has.
    cautions : list of float
        Factors that made its steps smaller.
    """

    shared: list[Array]
    cautions: list[float]


class RoundResult(NamedTuple):
    """What a group has to say of a round.

    Parameters
    ----------
    change : float [F]
        Of the weights that it shares with other groups.
    totals : float64
        Numbers to be added over the groups; the algorithm knows which.
    """

    change: Array
    totals: Float


class Collected(NamedTuple):
    """A group's part of the model.

    Parameters
    ----------
    own : float64
        Weights of the features that it shares with no other group.
    each : float64
        A number for each of its features; the algorithm knows which.
    """

    own: Float
    each: Float


class Group(ABC):
    """A group of sequences, in the process that works on them.

    Attributes
    ----------
    is_own : bool [D]
        Which of its features it shares with no other group.
    n_rounds : int
        How many it has made.
    last : RoundResult or None
        Of the last one.
    """

    is_own: Bool
    n_rounds = 0
    last: RoundResult | None = None

    def follow(self, history: History, first: int = 0) -> RoundResult | None:
        """Make the rounds of the ``history`` that this group has not made yet; what the last one gave.

        The history may begin with the round of number ``first``, which must not be after the group's next one.
        """
        if not first <= self.n_rounds <= first + len(history.shared):
            raise ValueError(f"the group has made {self.n_rounds} rounds, not {first} to {first + len(history.shared)}")
        while self.n_rounds < first + len(history.shared):
            k = self.n_rounds - first
            self.last = self.round(history.shared[k], history.cautions[k])
            self.n_rounds += 1
        return self.last

    @abstractmethod
    def round(self, shared: Array, caution: float) -> RoundResult:
        """One more round, from the ``shared`` weights [F] and the group's own."""

    @abstractmethod
    def collected(self) -> Collected:
        """Its part of the model, as it is now."""


class Groups(Protocol):
    """The groups of a corpus, wherever they are; one that lacks rounds of a history makes them first.

    Attributes
    ----------
    shared : int64 [F]
        Numbers of the features that several groups have.
    among : int64 [F]
        How many groups have each of them.
    """

    shared: Int64
    among: Int64

    def round(self, history: History) -> Sequence[tuple[Int64, RoundResult]]:
        """Of each group, places among the shared features, and what its last round of the ``history`` gave."""

    def collect(self, history: History) -> Sequence[tuple[Int64, Int64, Collected]]:
        """Of each group, the numbers of its own features and of all its features, and its part."""


class Beginning(Protocol):
    """How groups begin; a value that pickles."""

    def group(self, objective: Any, multiplicity: Int64, n_groups: int, number: int) -> Group:
        """The group of this number that has not made a round.

        ``objective`` is that of its sequences, with the features that they have; ``multiplicity`` [D] says how many of
        the ``n_groups`` have each of these.
        """


@runtime_checkable
class Apart(Protocol):
    """An objective whose sequences live apart, in groups.

    Attributes
    ----------
    n_features : int
        D.
    """

    n_features: int

    def groups(self, beginning: Beginning) -> Groups:
        """Its groups, begun in this way."""


@dataclass
class RoundsState(StoredState):
    """The history of a training in rounds, from which everything else follows.

    Attributes
    ----------
    sent : float [R, F]
        The shared weights at the beginning of each round.
    cautions : float64 [R]
        Factors that made its steps smaller.
    shared : float64 [F]
        The shared weights now.
    iteration, evaluations : int
        Rounds so far, and passes.
    value : float
        The objective during the last round.
    groups : Groups or None
        None until a stored state has been compared with the data.
    size : int
        D.
    """

    arrays: ClassVar[tuple[str, ...]] = ("sent", "cautions", "shared")

    sent: Array
    cautions: Float
    shared: Float
    iteration: int = 0
    evaluations: int = 0
    value: float = np.inf
    groups: Groups | None = None
    size: int = 0
    _found: tuple[int, Float, Float] | None = field(default=None, repr=False)  # rounds, weights, sums of each

    @property
    def history(self) -> History:
        """What has been sent so far."""
        return History(list(self.sent), self.cautions.tolist())

    @property
    def weights(self) -> Float:
        """The weights [D]; asks the groups for theirs."""
        return self.collected()[0]

    def collected(self) -> tuple[Float, Float]:
        """The weights [D], and what the groups say of each feature, added up [D]; they are asked once a round."""
        if self._found is None or self._found[0] != self.iteration:
            assert self.groups is not None
            weights, each = np.zeros(self.size), np.zeros(self.size)
            if self.iteration:
                for own, mine, part in self.groups.collect(self.history):
                    weights[own] = part.own
                    each[mine] += part.each
                weights[self.groups.shared] = self.shared
            self._found = self.iteration, weights, each
        return self._found[1:]

    def fits(self) -> bool:
        return self.sent.shape == (self.iteration, len(self.shared)) and self.cautions.shape == (self.iteration,)

    def release(self) -> None:
        """Free what only further rounds need."""
        self.collected()
        self.sent = self.sent[:0].copy()

    def one_more(self, caution: float, share: Float | float) -> Float:
        """Make a round: ``share`` [F] of the groups' changes, in their order, is added; their totals, added up."""
        assert self.groups is not None
        self.sent = np.concatenate([self.sent, self.shared.astype(self.sent.dtype)[None]])
        self.cautions = np.append(self.cautions, caution)
        change, totals = np.zeros_like(self.shared), np.zeros(0)
        for places, found in self.groups.round(self.history):
            change[places] += found.change
            totals = found.totals if not totals.size else totals + found.totals
        self.shared = self.sent[-1].astype(np.float64) + share * change
        self.iteration += 1
        return totals


def check_starts_at_zero(weights: Float, what: str) -> None:
    """Refuse starting weights [D] that groups would have to be sent."""
    if weights.any():
        raise OptionError(f"{what} over groups of sequences that live apart starts from zero, not from another model")
