"""The chart of best scores: each entry is what the best tree of that symbol over those words scores."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cfg_outcomes import treebanks

from loglinear.structures.tree.best import best_chart
from loglinear.structures.tree.grammar import CFGGrammar, TreeCoder, spans_of
from loglinear.structures.tree.structure import CFGScores, CFGTree


@settings(deadline=None, max_examples=30)
@given(treebanks, st.integers(0, 999))
def test_each_symbol_over_a_span_scores_as_its_best_tree(trees, seed):
    rng, grammar = np.random.default_rng(seed), TreeCoder.of_trees(trees).grammar
    n = int(rng.integers(1, 5))
    starts, ends = spans_of(n)
    scores = CFGScores(
        rng.normal(size=(n, grammar.n_preterminals)), rng.normal(size=(len(starts), grammar.n_binary)),
        rng.normal(size=(len(starts), grammar.n_steps)), np.arange(len(starts), dtype=np.int32),
    )  # fmt: skip
    chart = best_chart(grammar, n, scores)
    for span, (i, j) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        inner = [s for s, (a, b) in enumerate(zip(starts, ends, strict=True)) if i <= a and b <= j]
        within = CFGScores(
            scores.lexical[i:j], scores.binary[inner], scores.steps[inner], np.arange(len(inner), dtype=np.int32)
        )
        for symbol in range(grammar.n_symbols):
            rooted = CFGGrammar(grammar.n_symbols, symbol, grammar.preterminals, grammar.binary, grammar.steps)
            np.testing.assert_allclose(chart[span, symbol], CFGTree(rooted, [j - i]).best(within)[1][0])
