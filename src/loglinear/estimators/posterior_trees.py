"""``decoding="posterior"``: trees of the likeliest brackets (:mod:`loglinear.structures.cfg_brackets`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from loglinear.data.tree_transforms import base_label, is_intermediate
from loglinear.data.trees import ROOT, Tree
from loglinear.structures.cfg_brackets import BracketLabels, bracketing
from loglinear.structures.cfg_grammar import span_number
from loglinear.structures.cfg_tree import CFGScores, CFGTree
from loglinear.structures.tree_coder import ANY_ROOT, TreeCoder

Floats = npt.NDArray[np.float64]
PRICE = 0.42  #: of a bracket; half of the F1 that may be hoped for


class PosteriorDecoder:
    """Makes trees of expected brackets, for the grammar of a coder."""

    def __init__(self, coder: TreeCoder) -> None:
        self._coder = coder
        n_tags, symbols = coder.n_tags, coder.symbols
        bases = {base_label(name) for name in symbols[n_tags:] if not is_intermediate(name)}
        self._labels = sorted(bases - {ANY_ROOT, ROOT})
        number = {label: place for place, label in enumerate(self._labels)}
        self._label_of = np.array(
            [
                -1 if a < n_tags or is_intermediate(name) else number.get(base_label(name), -1)
                for a, name in enumerate(symbols)
            ],
            dtype=np.int32,
        )
        self._tags = sorted({base_label(name) for name in symbols[:n_tags]})
        self._tag_of = np.array([self._tags.index(base_label(name)) for name in symbols[:n_tags]], dtype=np.int64)

    @cached_property
    def brackets(self) -> BracketLabels:
        """The labels of the grammar's symbols and steps."""
        above = [[int(self._label_of[a]) for a in chain[:-1]] for chain in self._coder.chains]
        kept = [[label for label in labels if label >= 0] for labels in above]
        pointer = np.concatenate([[0], np.cumsum([len(labels) for labels in kept], dtype=np.int64)]).astype(np.int64)
        flat = np.array([label for labels in kept for label in labels], dtype=np.int32)
        return BracketLabels(len(self._labels), self._label_of, pointer, flat)

    @cached_property
    def _over(self) -> Floats:
        """How many unary rules of the grammar have one label over another, minus the other way round [L, L]."""
        counts = np.zeros((len(self._labels), len(self._labels)))
        for chain in self._coder.chains:
            labels = [int(self._label_of[a]) for a in chain if self._label_of[a] >= 0]
            for place, upper in enumerate(labels):
                for lower in labels[place + 1 :]:
                    counts[upper, lower] += 1.0
        return counts - counts.T

    def tree(self, words: Sequence[str], scores: CFGScores) -> Tree | None:
        """The tree over ``words``, whose ``scores`` are for sums; None if it has none, or its sums need log space."""
        n = len(words)
        log_z, tags, found = CFGTree(self._coder.grammar, [n]).expected_brackets(scores, self.brackets)
        if log_z[0] == -np.inf:
            return None
        gain = np.maximum(found - PRICE, 0.0)
        split = bracketing(n, gain.sum(axis=1))
        by_base = np.zeros((n, len(self._tags)))
        np.add.at(by_base.T, self._tag_of, tags.T)
        leaves = [
            Tree(self._tags[tag], word=word)
            for tag, word in zip(np.argmax(by_base, axis=1).tolist(), words, strict=True)
        ]
        return Tree(ROOT, self._built(n, gain, split, leaves))

    def _built(self, n: int, gain: Floats, split: npt.NDArray[np.int32], leaves: list[Tree]) -> list[Tree]:
        """The children of the root: spans without a label give their parts to the span above."""
        order: list[tuple[int, int]] = []
        stack = [(0, n)]
        while stack:
            i, j = stack.pop()
            order.append((i, j))
            if j - i > 1:
                k = int(split[span_number(i, j)])
                stack += [(i, k), (k, j)]
        built: list[list[Tree]] = []
        for i, j in reversed(order):
            nodes = [leaves[i]] if j - i == 1 else built.pop(-2) + built.pop()
            labels = np.flatnonzero(gain[span_number(i, j)])
            below_first = np.argsort(self._over[np.ix_(labels, labels)].sum(axis=1), kind="stable")
            for label in labels[below_first].tolist():
                nodes = [Tree(self._labels[label], nodes)]
            built.append(nodes)
        return built[0]
