"""The referee of the tree operations: every derivation of a short sentence, scored one by one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from loglinear.structures.tree.grammar import CFGGrammar, span_number
from loglinear.structures.tree.structure import CFGScores, CFGTree

Node = tuple[int, int, int, int, int]  # i, j, rule or tag, split, step


def derivations(grammar: CFGGrammar, n: int) -> list[tuple[Node, ...]]:
    """All trees over n words, straight from the definition: at each span at most one step above a rule or a tag."""
    memory: dict[tuple[int, int, int, bool], list[tuple[Node, ...]]] = {}

    def below(i: int, j: int, a: int, step: int) -> list[tuple[Node, ...]]:
        found: list[tuple[Node, ...]] = []
        if j - i == 1:
            return [((i, j, p, -1, step),) for p, b in enumerate(grammar.preterminals.tolist()) if b == a]
        for r, (parent, left, right) in enumerate(grammar.binary.tolist()):
            if parent == a:
                for k in range(i + 1, j):
                    for x, y in itertools.product(whole(i, k, left), whole(k, j, right)):
                        found.append(((i, j, r, k, step), *x, *y))
        return found

    def whole(i: int, j: int, a: int) -> list[tuple[Node, ...]]:
        key = (i, j, a, True)
        if key not in memory:
            memory[key] = below(i, j, a, -1)
            for u, (parent, child) in enumerate(grammar.steps.tolist()):
                if parent == a:
                    memory[key] = memory[key] + below(i, j, child, u)
        return memory[key]

    return whole(0, n, grammar.root)


def labels_of(tree: tuple[Node, ...], n: int) -> np.ndarray:
    labels = np.full((n * (n + 1) // 2, 3), -1, dtype=np.int32)
    for i, j, rule, split, step in tree:
        labels[span_number(i, j)] = rule, split, step
    return labels


def sentence_scores(tree: CFGTree, scores: CFGScores, s: int) -> CFGScores:
    """The scores of one sentence of a batch."""
    words, spans = tree.word_offsets[s : s + 2], tree.offsets[s : s + 2]
    allowed = None if scores.allowed is None else scores.allowed[spans[0] : spans[1]]
    rows = scores.row_of_span[spans[0] : spans[1]]
    return CFGScores(scores.lexical[words[0] : words[1]], scores.binary, scores.steps, rows, allowed)


@dataclass
class BruteForce:
    """All trees of one sentence that its scores allow."""

    grammar: CFGGrammar
    n: int
    scores: CFGScores

    def __post_init__(self) -> None:
        trees = derivations(self.grammar, self.n)
        values = [self.score(tree) for tree in trees]
        kept = [x for x, value in enumerate(values) if value > -np.inf]
        self.trees, self.values = [trees[x] for x in kept], np.array([values[x] for x in kept])
        self.feasible = bool(kept)
        self.log_z = float(np.logaddexp.reduce(self.values)) if kept else -np.inf
        self.probabilities = np.exp(self.values - self.log_z) if kept else np.zeros(0)

    def score(self, tree: tuple[Node, ...]) -> float:
        total = 0.0
        for i, j, rule, _, step in tree:
            span = span_number(i, j)
            x = self.scores.row_of_span[span]
            symbol = self.grammar.preterminals[rule] if j - i == 1 else self.grammar.binary[rule, 0]
            total += self.scores.lexical[i, rule] if j - i == 1 else self.scores.binary[x, rule]
            above = symbol
            if step >= 0:
                total += self.scores.steps[x, step]
                above = self.grammar.steps[step, 0]
            if self.scores.allowed is not None:
                mask = self.scores.allowed[span]
                if not (mask[symbol % len(mask)] and mask[above % len(mask)]):
                    return -np.inf
        return float(total)

    def expectations(self) -> CFGScores:
        expected = self.scores.zeros_like()
        for tree, p in zip(self.trees, self.probabilities, strict=True):
            for i, j, rule, _, step in tree:
                x = self.scores.row_of_span[span_number(i, j)]
                if j - i == 1:
                    expected.lexical[i, rule] += p
                else:
                    expected.binary[x, rule] += p
                if step >= 0:
                    expected.steps[x, step] += p
        return expected
