"""Random batches and problems of trees under small random grammars."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from loglinear.criteria.costs import BracketCost
from loglinear.structures.gold import Gold
from loglinear.structures.tree.grammar import CFGGrammar
from loglinear.structures.tree.structure import CFGScores, CFGTree
from problems.problem import Problem, possible_labels, seeds, without_gaps
from referees.tree import referees


def random_scores(rng: np.random.Generator, tree: CFGTree, many: bool, scale: float, gaps: float = 0.0) -> CFGScores:
    """Normal scores times ``scale``, a share ``gaps`` of them -inf; ``many`` rows, one a span, or a single one."""

    def part(*shape: int) -> npt.NDArray[np.float64]:
        values = rng.normal(size=shape) * scale
        values[rng.random(shape) < gaps] = -np.inf
        return values

    g, x = tree.grammar, tree.n_positions if many else 1
    rows = np.arange(tree.n_positions) if many else np.zeros(tree.n_positions)
    lexical = part(tree.n_words, g.n_preterminals)
    return CFGScores(lexical, part(x, g.n_binary), part(x, g.n_steps), rows.astype(np.int32))


@st.composite
def batches(
    draw: st.DrawFn, rows: tuple[bool, ...] = (False, True), scales: tuple[float, ...] = (1.0, 30.0, 400.0)
) -> tuple[CFGTree, CFGScores]:
    """A few short sentences under a random grammar, one row of scores or one a span, with and without a mask."""
    rng = np.random.default_rng(draw(seeds))
    k = draw(st.integers(1, 4))
    n_rules = draw(st.integers(1, min(6, k**3)))
    codes = rng.choice(k**3, n_rules, replace=False)
    binary = np.stack([codes // k**2, codes // k % k, codes % k], axis=1)
    steps = rng.integers(k, size=(draw(st.integers(0, 4)), 2))
    preterminals = rng.permutation(k)[: draw(st.integers(1, k))]
    tree = CFGTree(CFGGrammar(k, 0, preterminals, binary, steps), draw(st.lists(st.integers(1, 4), max_size=3)))
    scale, gaps = draw(st.sampled_from(scales)), draw(st.sampled_from([0.0, 0.2]))
    scores = random_scores(rng, tree, draw(st.sampled_from(rows)), scale, gaps)
    mask = draw(st.sampled_from(["none", "spans", "symbols"]))
    if mask == "spans":
        scores = tree.restrict(scores, rng.random(tree.n_positions) < 0.8)
    elif mask == "symbols":
        scores = tree.restrict(scores, rng.random((tree.n_positions, k)) < 0.8)
    return tree, scores


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """A row of scores for each span, as costs need it, with and without impossible parts and partial brackets.

    The grammar has the rule 0 -> 0 0 of its root, which is a tag too, so that sentences of all lengths have trees. With
    partial brackets the annotation keeps its tree, against which the cost is counted, and rules spans out beside it.
    """
    rng, k = np.random.default_rng(draw(seeds)), draw(st.integers(1, 3))
    codes = np.union1d([0], rng.choice(k**3, draw(st.integers(1, min(4, k**3))), replace=False))
    binary = np.stack([codes // k**2, codes // k % k, codes % k], axis=1)
    steps = rng.integers(k, size=(draw(st.integers(0, 3)), 2))
    preterminals = np.union1d([0], rng.permutation(k)[: draw(st.integers(1, k))])
    grammar = CFGGrammar(k, 0, preterminals, binary, steps)
    lengths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    tree = CFGTree(grammar, lengths)
    scores = random_scores(rng, tree, True, 1.0, draw(st.sampled_from([0.0, 0.1])))
    brute = referees(tree, scores)
    if not all(one.feasible for one in brute):
        scores = without_gaps(scores)
        brute = referees(tree, scores)
    gold = Gold(possible_labels(rng, brute))
    if draw(st.booleans()):
        gold = Gold(gold.labels, ((gold.labels[:, 0] >= 0) | (rng.random(tree.n_positions) < 0.5)).astype(np.uint8))
    of_steps = [rng.integers(2, size=rng.integers(0, 3)).tolist() for _ in range(grammar.n_steps)]
    of_rules = rng.integers(-1, 2, size=grammar.n_binary)
    cost = BracketCost(of_rules, of_steps, grammar.n_preterminals, draw(st.sampled_from([0.7, 3.0])))
    return Problem(tree, scores, gold, rng.random(len(lengths)) + 0.1, cost)
