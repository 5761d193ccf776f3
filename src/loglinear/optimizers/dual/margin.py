"""Dual ascent for max-margin on first-order chains: steps on flows through the trellis, and a certified gap.

    primal   sum_i c_i max_y (s(y) + cost_i(y) - s(gold_i)) + l1 |w| + l2 ||w||^2
    dual     sum_i c_i E_i[cost_i] - l2 ||w||^2
    weights  w = -(1 / 2 l2) sum_i c_i (E_i[f] - f(gold_i)),  moved towards zero by l1 / 2 l2

E_i are expectations under any distribution over the labellings of sequence i, which is kept as a flow of mass through
its trellis (:mod:`~loglinear.structures.chain.flow`). For any flows the dual is at most the least primal, so that the
gap between both bounds how far the weights are from the minimum. Without an L1 penalty it is the sum of the sequences'
gaps  c_i (max_y (s(y) + cost_i(y)) - E_i[s + cost_i]).

Block-coordinate Frank-Wolfe (Lacoste-Julien et al. 2013) moves the mass of one sequence at a time towards its best
labelling. It needs many passes, because one step size serves all positions of a sentence, because a step towards a
labelling cannot undo earlier ones (Osokin et al. 2016), and because most of a pass looks at labels that play no part.
Here a pass goes through the sequences in rounds, in a shuffled order:

1. find the best labelling of each sequence, and the worst one that has mass, under the same weights;
2. where the two differ, exchange the pieces, each with its own best step under the weights of that moment;
3. sweep over all exchanges found so far, which costs a fraction of finding them (in the spirit of the cached planes of
   Shah, Kolmogorov & Lampert 2015). Sweeps take one and a quarter times the best step (successive over-relaxation, for
   support vector machines Mangasarian & Musicant 1999), which also raises the dual, and ends sooner. An exchange
   without a step for two passes is forgotten.

On CoNLL-2000 nearly all of the 50,000 exchanges end with mass on both sides, and move in every sweep: there is nothing
to shrink. Passes then solve a linear system, in which the slopes of all exchanges are zero, and the time of a sweep is
what counts. So a sweep searches for no edges (an exchange knows where their masses lie) and reads no values of one.

Conjugate directions over the sweeps (after each, the best point in the plane of its move and the move before, cut where
a mass would be negative) raise the dual faster, but the labellings found meanwhile are worse: on CoNLL-2000 the gap was
0.19 of the objective after ten passes, where it is 0.09 without them (0.16 and 0.10 with a quarter and a sixteenth of
these steps).

Passes end when the gap, computed in double precision from the flows, is below a hundred times the tolerance.

**Threads.** All of them find labellings, which changes no weights, and one makes the exchanges, so that the result is
the same for any number. Dividing the exchanges between two parts that add up their changes, as dual ascent does for
smooth criteria, needs many times as many passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from loglinear.arrays import Array, Arrays, Float, Float32, Int64
from loglinear.optimizers.dual.flat import Certificate, sizes
from loglinear.optimizers.dual.general import DualOptions, check_fits_data, until_certified
from loglinear.optimizers.objective import Objective, shards
from loglinear.optimizers.optimizer import Callback, Result, check_parts_fit, reading_state
from loglinear.structures.chain.flow import (
    BOLDNESS,
    UNIT,
    Exchanges,
    FlatWeights,
    Flow,
    add_differences,
    describe_all,
    find_paths,
    forget,
    in_flat,
    make_exchanges,
    margin_losses,
    set_places,
    start_at_gold,
    tidy,
)
from loglinear.structures.chain.padded import PaddedLayout
from loglinear.structures.rows import aligned
from loglinear.system import in_threads

GAP = 100.0  # the gap that is small enough, as a multiple of the tolerance
ROUNDS, SWEEPS = 16, 16  # of a pass
FIRST, FIRST_ROUNDS = 2, 64  # passes in which steps change more, and so more rounds are worth it
REFRESH_EVERY = 8  # passes after which the weights are made of the flow again, without accumulated rounding
MOST_IDLE = 2  # passes after which an exchange without a step is forgotten
POSITIONS_EACH, EDGES_EACH, FEATURES_EACH = 4, 4, 96  # what there is room for: an exchange for so many positions
LEAST_EDGES = 8  # room of a position
COUNTS = ("iteration", "evaluations")
NUMBERS = ("value", "gap")
EDGES = ("gained", "lost", "gains", "loses")  # what exchanges have for each edge
FOUND = ("sequence", "begin", "length", "idle", "gained", "lost")  # what a checkpoint stores of the exchanges


class MarginProblem:
    """Sequences, weights and penalties of an :class:`~loglinear.optimizers.objective.Objective` over chains."""

    def __init__(self, objective: Objective, l1: float) -> None:
        layout = objective.layout
        assert isinstance(layout, PaddedLayout)
        self.layout, self.l1, self.l2 = layout, l1, objective.l2
        self.n_threads, self.shrink = objective.n_threads, l1 / (2.0 * objective.l2)
        self.valued = len(layout.corpus.row_values) + len(layout.corpus.list_values) > 0
        self.n_positions, self.n_rows = int(layout.corpus.offsets[-1]), layout.n_rows
        exists = self.flat_of(np.ones(layout.features.n_features)) > 0.0
        self.exists = exists.astype(np.int8)
        self.shards = shards(layout.corpus.offsets)
        corpus = layout.corpus
        #: twice the features of the positions before each [N + 1], and two transitions: at most those of an exchange
        self.entries = 2 * (corpus.row_pointer + corpus.list_pointer + np.arange(self.n_positions + 1))
        longest = int(np.diff(corpus.offsets).max(initial=0)), int(np.diff(self.entries[corpus.offsets]).max(initial=0))
        one = max(-(-longest[0] // EDGES_EACH), -(-longest[1] // FEATURES_EACH))
        #: exchanges to have room for, any one of them at least
        self.least_room = max(self.n_positions // POSITIONS_EACH, one, 1)

    def flat_of(self, weights: Float) -> Float32:
        """A weight vector [D] as flat weights."""
        laid_out = self.layout.lay_out(weights)
        flat = aligned(sum(part.size for part in laid_out))
        np.concatenate([part.ravel() for part in laid_out], out=flat)
        return flat

    def vector_of(self, flat: Float | Float32) -> Float:
        """The weight vector [D] of flat weights."""
        weights = self.layout.vector(*in_flat(flat, self.layout))
        return weights if self.shrink == 0.0 else np.sign(weights) * np.maximum(np.abs(weights) - self.shrink, 0.0)

    def weights(self, flat: Float32) -> FlatWeights:
        """Flat weights for kernels."""
        return FlatWeights(flat, in_flat(flat, self.layout), self.exists, self.shrink, self.l2)

    def penalty(self, flat: Float | Float32) -> tuple[float, float]:
        """l2 ||w||^2 and l1 |w|."""
        squares, total = sizes(flat, self.shrink)
        return self.l2 * squares, self.l1 * total

    def sums(self, flow: Flow) -> tuple[Float, float]:
        """The flat weights that a flow makes, before the L1 penalty, and its expected cost."""
        flat = np.zeros(len(self.exists))
        cost = add_differences(self.layout.corpus, flow, self.layout.width, self.n_rows, flat)
        flat *= self.exists / (-2.0 * self.l2)
        return flat, cost

    def certificate(self, flow: Flow) -> Certificate:
        """The weights for a flow; all in double precision."""
        layout = self.layout
        flat, cost = self.sums(flow)
        shrunk = np.sign(flat) * np.maximum(np.abs(flat) - self.shrink, 0.0)

        def losses(shard: tuple[int, int]) -> float:
            return margin_losses(*shard, layout.corpus, shrunk, self.n_rows, layout.n_labels, layout.width)

        l2_part, l1_part = self.penalty(flat)
        value = float(sum(in_threads(losses, self.shards, self.n_threads))) + l2_part + l1_part
        return Certificate(value, value - (cost - l2_part), self.vector_of(flat))


@dataclass
class MarginState:
    """Everything needed to continue as if never stopped.

    Attributes
    ----------
    flat : float32
        The weights before the L1 penalty moves them towards zero, as :class:`FlatWeights` has them.
    flow : Flow
    exchanges : Exchanges
    iteration, evaluations : int
        Passes so far.
    value, gap : float
        The objective and the gap between primal and dual: accumulated during the last pass, or certified.
    certified : float64 [D] or None
        The weights that the value and the gap are certified for.
    problem : MarginProblem or None
        None until a stored state has been compared with the data.
    """

    flat: Float32
    flow: Flow
    exchanges: Exchanges
    iteration: int = 0
    evaluations: int = 0
    value: float = np.inf
    gap: float = np.inf
    certified: Float | None = None
    problem: MarginProblem | None = None

    @property
    def weights(self) -> Float:
        """The weights [D]."""
        if self.certified is not None:
            return self.certified
        assert self.problem is not None
        return self.problem.vector_of(self.flat)

    def to_arrays(self) -> Arrays:
        """The state as named arrays, for a checkpoint: what carries mass, and the edges of the exchanges."""
        flow = self.flow
        carries = (np.arange(flow.edges.shape[1]) < flow.counts[:, None]) & (flow.masses > 0)
        return {
            "counts": np.array([getattr(self, name) for name in COUNTS], dtype=np.int64),
            "values": np.array([getattr(self, name) for name in NUMBERS], dtype=np.float64),
            "flat": self.flat.copy(),
            "edge_counts": carries.sum(axis=1, dtype=np.int32),
            "edges": flow.edges[carries],
            "masses": flow.masses[carries],
            **dict(zip(FOUND, _found_arrays(self.exchanges), strict=True)),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> MarginState:
        """Inverse of :meth:`to_arrays`; what follows from the exchanges' edges is added when the data is known."""
        with reading_state():
            counts = np.array(arrays["edge_counts"], dtype=np.int32)
            nothing = np.zeros((len(counts), 0), dtype=np.int32)
            flow = _room_for_edges(Flow(nothing, nothing, counts))
            carries = np.arange(flow.edges.shape[1]) < counts[:, None]
            flow.edges[carries], flow.masses[carries] = arrays["edges"], arrays["masses"]
            found = [np.array(arrays[name]) for name in FOUND]
            exchanges = _exchanges_of(found, int(found[0].max(initial=-1)) + 1)
            flat = np.array(arrays["flat"], dtype=np.float32)
            names = zip((*COUNTS, *NUMBERS), [*arrays["counts"].tolist(), *arrays["values"].tolist()], strict=True)
            state = cls(flat, flow, exchanges, **dict(names))
            fits = bool((flow.masses.sum(axis=1, dtype=np.int64) == UNIT).all()) and state.iteration >= 0
        check_parts_fit(fits)
        return state


class MarginDual(DualOptions):
    """Passes of visits and sweeps until primal and dual are nearly the same."""

    def minimise(  # the weights it starts from are zero, which the caller has checked
        self, objective: Objective, weights0: Float, *, l1: float = 0.0, callback: Callback = None, state: Any = None
    ) -> Result:
        problem = MarginProblem(objective, l1)
        now = _start(problem) if state is None else _fitting(state, problem)
        small = GAP * self.tolerance
        return until_certified(
            now, small, self.max_iter, lambda: problem.certificate(now.flow), lambda: self._pass(problem, now), callback
        )

    def _pass(self, problem: MarginProblem, now: MarginState) -> None:
        """One more pass, in place."""
        layout, corpus = problem.layout, problem.layout.corpus
        losses, gaps = np.zeros((2, len(corpus.offsets) - 1))
        best, worst = np.zeros((2, problem.n_positions), dtype=np.int32)
        if now.iteration % REFRESH_EVERY == REFRESH_EVERY - 1:
            now.flat[:] = problem.sums(now.flow)[0]
        now.flow, now.exchanges = _room_for_edges(now.flow), _room_for_more(now.exchanges, problem)
        set_places(now.exchanges, now.flow)
        weights = problem.weights(now.flat)

        def find(sequences: Int64) -> None:
            find_paths(
                sequences, corpus, weights, layout.n_labels, layout.lanes, now.flow, best, worst, losses, gaps
            )  # fmt: skip

        sums = np.zeros(len(now.flat), dtype=np.float32)
        rounds = FIRST_ROUNDS if now.iteration < FIRST else ROUNDS
        for r, sequences in enumerate(np.array_split(self.order(corpus.offsets, now.iteration), rounds)):
            in_threads(find, np.array_split(sequences, problem.n_threads), problem.n_threads)
            sweeps = (r + 1) * SWEEPS // rounds - r * SWEEPS // rounds
            make_exchanges(sequences, sweeps, corpus, weights, now.flow, now.exchanges, best, worst, sums, BOLDNESS)
        forget(MOST_IDLE, now.exchanges)
        tidy(now.exchanges, now.flow)
        now.value = float(losses.sum()) + sum(problem.penalty(now.flat))
        now.gap = float(gaps.sum())
        now.iteration += 1
        now.evaluations += 1


def _start(problem: MarginProblem) -> MarginState:
    """The state in which all mass flows along the gold labellings, and the weights are zero."""
    n, corpus = problem.n_positions, problem.layout.corpus
    edges, masses = np.zeros((2, n, LEAST_EDGES), dtype=np.int32)
    flow = Flow(edges, masses, np.zeros(n, dtype=np.int32))
    start_at_gold(corpus, problem.layout.width, flow)
    exchanges = _no_exchanges(len(corpus.offsets) - 1, problem.least_room, valued=problem.valued)
    return MarginState(aligned(len(problem.exists)), flow, exchanges, problem=problem)


def _fitting(state: Any, problem: MarginProblem) -> MarginState:
    """A stored state, if it fits the problem, with what it does not store."""
    check_fits_data(isinstance(state, MarginState) and len(state.flat) == len(problem.exists))
    now: MarginState = state
    corpus, found, n = problem.layout.corpus, now.exchanges, int(now.exchanges.used[0])
    n_sequences, most_edges = len(corpus.offsets) - 1, problem.layout.width**2
    fits = len(now.flow.counts) == problem.n_positions and len(found.newest) <= n_sequences
    fits = fits and max(part.max(initial=0) for part in (now.flow.edges, found.gained, found.lost)) < most_edges
    sequence, ends = found.sequence[:n], found.begin[:n] + np.diff(found.edge_pointer[: n + 1])
    fits = fits and bool(((found.begin[:n] >= corpus.offsets[sequence]) & (ends <= corpus.offsets[sequence + 1])).all())
    check_fits_data(fits)
    flat = aligned(len(now.flat))
    flat[:] = now.flat
    features = int(np.sum(problem.entries[ends] - problem.entries[found.begin[:n]]))
    exchanges = _with_room(found, len(found.sequence), problem.valued, features)
    exchanges = exchanges._replace(newest=np.full(n_sequences, -1, dtype=np.int32))
    describe_all(corpus, problem.weights(flat), exchanges)
    flow = now.flow
    while not tidy(exchanges, flow):
        flow = _with_edges(flow, 2 * flow.edges.shape[1])
    return replace(now, flat=flat, flow=flow, exchanges=exchanges, problem=problem, certified=None)


# -- arrays with room --------------------------------------------------------------------------------------------------
# How much room there is at the beginning of a pass depends on what is stored alone, so that a resumed training has the
# same.


def _room_for_edges(flow: Flow) -> Flow:
    """The flow with room for more edges at each position than any has now."""
    room = LEAST_EDGES
    while room <= int(flow.counts.max(initial=0)) + 1:
        room *= 2
    return flow if flow.edges.shape[1] == room else _with_edges(flow, room)


def _with_edges(flow: Flow, room: int) -> Flow:
    """A copy of a flow with another capacity."""
    edges, masses = np.zeros((2, len(flow.counts), room), dtype=np.int32)
    kept = min(room, flow.edges.shape[1])
    edges[:, :kept], masses[:, :kept] = flow.edges[:, :kept], flow.masses[:, :kept]
    return Flow(edges, masses, flow.counts)


def _room_for_more(found: Exchanges, problem: MarginProblem) -> Exchanges:
    """Exchanges with room for at least as many as the problem says, and for as many again as there are."""
    room, (n, n_edges, n_features) = problem.least_room, found.used.tolist()
    while room < 2 * n or EDGES_EACH * room < 2 * n_edges or FEATURES_EACH * room < 2 * n_features:
        room *= 2
    return found if len(found.sequence) == room else _with_room(found, room, problem.valued)


def _with_room(found: Exchanges, room: int, valued: bool, features: int | None = None) -> Exchanges:
    """A copy of exchanges with another capacity."""
    copied = _no_exchanges(0, room, features, valued)._replace(newest=found.newest)
    n, n_edges, n_features = found.used.tolist()
    copied.used[:] = found.used
    lengths = {"edge_pointer": n + 1, "pointer": n + 1, **dict.fromkeys(EDGES, n_edges)}
    lengths |= {"places": n_features, "values": n_features if valued else 0, "newest": 0, "used": 3}
    for name in found._fields:
        size = lengths.get(name, n)
        getattr(copied, name)[:size] = getattr(found, name)[:size]
    return copied


def _no_exchanges(n_sequences: int, room: int, features: int | None = None, valued: bool = False) -> Exchanges:
    """Room for exchanges of ``n_sequences`` sequences, whose features have values if ``valued``."""

    def of(dtype: type, size: int) -> Array:
        return np.zeros(size, dtype=dtype)

    edges, features = EDGES_EACH * room, FEATURES_EACH * room if features is None else features
    return Exchanges(
        used=of(np.int64, 3),
        sequence=of(np.int32, room),
        begin=of(np.int64, room),
        edge_pointer=of(np.int64, room + 1),
        gained=of(np.int32, edges),
        lost=of(np.int32, edges),
        gains=of(np.int64, edges),
        loses=of(np.int64, edges),
        pointer=of(np.int64, room + 1),
        middle=of(np.int64, room),
        places=of(np.int32, features),
        values=of(np.float32, features if valued else 0),
        cost=of(np.float32, room),
        square=of(np.float32, room),
        idle=of(np.int32, room),
        before=of(np.int32, room),
        newest=np.full(n_sequences, -1, dtype=np.int32),
    )


def _found_arrays(exchanges: Exchanges) -> list[Array]:
    """What a checkpoint stores of exchanges: :data:`FOUND`."""
    n, n_edges = exchanges.used[:2].tolist()
    lengths = np.diff(exchanges.edge_pointer[: n + 1])
    each: list[Array] = [exchanges.sequence[:n], exchanges.begin[:n], lengths, exchanges.idle[:n]]
    return [array.copy() for array in (*each, exchanges.gained[:n_edges], exchanges.lost[:n_edges])]


def _exchanges_of(found: list[Array], n_sequences: int) -> Exchanges:
    """Inverse of :func:`_found_arrays`, without what follows from the edges."""
    sequence, begin, lengths, idle, gained, lost = found
    n, n_edges = len(sequence), len(gained)
    exchanges = _no_exchanges(n_sequences, max(n, -(-n_edges // EDGES_EACH)), 0)
    exchanges.used[:2] = n, n_edges
    exchanges.sequence[:n], exchanges.begin[:n], exchanges.idle[:n] = sequence, begin, idle
    exchanges.edge_pointer[1 : n + 1] = np.cumsum(lengths)
    exchanges.gained[:n_edges], exchanges.lost[:n_edges] = gained, lost
    return exchanges
