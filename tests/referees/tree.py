"""The referee of trees of a grammar: every derivation of a short sentence, scored one by one."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np

from loglinear.criteria.brackets import Brackets
from loglinear.structures.gold import Gold
from loglinear.structures.tree.grammar import CFGGrammar, span_number
from loglinear.structures.tree.structure import CFGScores, CFGTree
from referees.enumeration import Bools, Enumeration, Floats, Functions, Labels

Node = tuple[int, int, int, int, int]  # i, j, rule or tag, split, step
Derivation = tuple[Node, ...]


def derivations(grammar: CFGGrammar, n: int) -> list[Derivation]:
    """All trees over n words, straight from the definition: at each span at most one step above a rule or a tag."""
    memory: dict[tuple[int, int, int], list[Derivation]] = {}

    def below(i: int, j: int, a: int, step: int) -> list[Derivation]:
        found: list[Derivation] = []
        if j - i == 1:
            return [((i, j, p, -1, step),) for p, b in enumerate(grammar.preterminals.tolist()) if b == a]
        for r, (parent, left, right) in enumerate(grammar.binary.tolist()):
            if parent == a:
                for k in range(i + 1, j):
                    for x, y in itertools.product(whole(i, k, left), whole(k, j, right)):
                        found.append(((i, j, r, k, step), *x, *y))
        return found

    def whole(i: int, j: int, a: int) -> list[Derivation]:
        key = (i, j, a)
        if key not in memory:
            memory[key] = below(i, j, a, -1)
            for u, (parent, child) in enumerate(grammar.steps.tolist()):
                if parent == a:
                    memory[key] = memory[key] + below(i, j, child, u)
        return memory[key]

    return whole(0, n, grammar.root)


def labellings(structure: CFGTree, scores: CFGScores) -> list[Derivation]:
    """All trees of one sentence."""
    return derivations(structure.grammar, structure.n_words)


def labels_of(structure: CFGTree, labelling: Derivation) -> Labels:
    """Rule or tag, split and step of each span int32 [spans, 3]."""
    labels = np.full((structure.n_positions, 3), -1, dtype=np.int32)
    for i, j, rule, split, step in labelling:
        labels[span_number(i, j)] = rule, split, step
    return labels


def score(structure: CFGTree, scores: CFGScores, labelling: Derivation) -> float:
    """Score of one tree of one sentence, straight from the definition."""
    grammar, total = structure.grammar, 0.0
    for i, j, rule, _, step in labelling:
        span = span_number(i, j)
        x = scores.row_of_span[span]
        symbol = grammar.preterminals[rule] if j - i == 1 else grammar.binary[rule, 0]
        total += scores.lexical[i, rule] if j - i == 1 else scores.binary[x, rule]
        above = symbol
        if step >= 0:
            total += scores.steps[x, step]
            above = grammar.steps[step, 0]
        if scores.allowed is not None:
            mask = scores.allowed[span]
            if not (mask[symbol % len(mask)] and mask[above % len(mask)]):
                return -np.inf
    return float(total)


def blank(structure: CFGTree, scores: CFGScores) -> CFGScores:
    """Parts of zero."""
    return scores.zeros_like()


def add_parts(structure: CFGTree, parts: CFGScores, labelling: Derivation, weight: float) -> None:
    """Add the weight to every part of a tree."""
    for i, j, rule, _, step in labelling:
        x = parts.row_of_span[span_number(i, j)]
        if j - i == 1:
            parts.lexical[i, rule] += weight
        else:
            parts.binary[x, rule] += weight
        if step >= 0:
            parts.steps[x, step] += weight


def example(structure: CFGTree, s: int) -> CFGTree:
    """Sentence ``s`` alone."""
    return CFGTree(structure.grammar, [structure.word_offsets[s + 1] - structure.word_offsets[s]])


def scores_of(structure: CFGTree, scores: CFGScores, s: int) -> CFGScores:
    """The scores of sentence ``s``; its rules and steps keep the rows of the batch."""
    words, spans = structure.word_offsets[s : s + 2], structure.offsets[s : s + 2]
    allowed = None if scores.allowed is None else scores.allowed[spans[0] : spans[1]]
    rows = scores.row_of_span[spans[0] : spans[1]]
    return CFGScores(scores.lexical[words[0] : words[1]], scores.binary, scores.steps, rows, allowed)


class BruteForce(Enumeration):
    """All trees of one sentence with their scores."""

    of = Functions(labellings, labels_of, score, blank, add_parts, example, scores_of)

    @classmethod
    def costs_of(cls, structure: CFGTree, costs: CFGScores, s: int) -> CFGScores:
        """The costs of sentence ``s``: a cost for each part."""
        return scores_of(structure, costs, s)

    def costs(self, costs: Any) -> Floats:
        """The cost of each tree, given a cost for each part."""
        return np.array([score(self.structure, costs, one) for one in self.labellings])

    def fits(self, gold: Gold) -> Bools:
        """Whether each tree is the gold one or, with partial brackets [spans], has no span that they rule out."""
        if gold.allowed is None:
            return np.array([np.array_equal(labels, gold.labels) for labels in self.labels])
        return np.array([gold.allowed[labels[:, 0] >= 0].all() for labels in self.labels])

    def brackets(self, labels: Brackets) -> list[Counter[tuple[int, int, int]]]:
        """How often each tree has each bracket (label, i, j)."""
        return [Counter(brackets_of(one, labels)) for one in self.labellings]

    def right_brackets(self, gold: Gold, labels: Brackets) -> Floats:
        """How often each tree has each bracket of the gold tree [trees, brackets]."""
        own = self.labellings[[np.array_equal(each, gold.labels) for each in self.labels].index(True)]
        wanted = sorted(set(brackets_of(own, labels)))
        return np.array([[float(found[each]) for each in wanted] for found in self.brackets(labels)])


def brackets_of(labelling: Derivation, labels: Brackets) -> list[tuple[int, int, int]]:
    """The brackets of a tree."""
    found = []
    for i, j, rule, _, step in labelling:
        own = [] if j - i == 1 else [int(labels.rule_labels[rule])]
        found += [(label, i, j) for label in [*own, *(labels.step_labels[step] if step >= 0 else [])] if label >= 0]
    return found


referees = BruteForce.of_batch
