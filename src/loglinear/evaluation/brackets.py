"""PARSEVAL: labelled brackets of predicted trees against gold, counted as the program evalb does.

A phrase over the words i .. j - 1 is the bracket (label, i, j). Brackets of a sentence are counted as often as they
occur (Black et al. 1991; evalb by Sekine and Collins, with the parameters of Collins 1997):

    precision = matched / predicted      recall = matched / gold      F1 = 2 P R / (P + R)

Words whose gold tag is punctuation (``, : `` '' .``) are taken out first, and with them phrases of nothing else; the
root's label is not counted; ``ADVP`` and ``PRT`` are the same label. *Exact* are the sentences whose brackets all
match, *tags* the share of the other words with the gold part of speech, *crossing* the predicted brackets that overlap
a gold one without either being inside the other. A sentence without a parse has no predicted brackets.

One departure: evalb takes the punctuation out by each tree's own tags, and gives up a sentence where they differ; here
the gold tags decide for both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from loglinear.arrays import Bool, Int64
from loglinear.data.trees.cleaning import ROOT_LABELS
from loglinear.data.trees.tree import Tree, is_fallback, tree_word
from loglinear.errors import DataError
from loglinear.evaluation.labels import Score, Scored, percent
from loglinear.wording import how_many

PUNCTUATION = frozenset({",", ":", "``", "''", "."})
Bracket = tuple[str, int, int]

COLUMNS = ("gold", "predicted", "matched", "words", "tags", "crossing", "failed")


@dataclass(frozen=True, slots=True)
class BracketReport(Scored):
    """What evalb counts, over all sentences.

    Attributes
    ----------
    counts : int64 [S, 7]
        For each sentence its brackets in gold, prediction and both; its words without punctuation and those with the
        right tag; predicted brackets that cross a gold one; whether it has no parse.
    """

    counts: Int64

    def _sum(self, column: str) -> int:
        return int(self.counts[:, COLUMNS.index(column)].sum())

    @property
    def n_sentences(self) -> int:
        """S."""
        return len(self.counts)

    @property
    def score(self) -> Score:
        """Brackets of gold, prediction and both."""
        return Score(self._sum("gold"), self._sum("predicted"), self._sum("matched"))

    @property
    def right(self) -> Bool:
        """Which sentences [S] have a parse whose brackets all match."""
        gold, predicted, matched = self.counts[:, 0], self.counts[:, 1], self.counts[:, 2]
        return (gold == matched) & (predicted == matched) & (self.counts[:, COLUMNS.index("failed")] == 0)

    @property
    def exact(self) -> float:
        """Percent of the sentences whose brackets all match."""
        return percent(int(self.right.sum()), self.n_sentences)

    @property
    def tag_counts(self) -> Int64:
        """Words without punctuation, the same again, and those with the gold tag: [S, 3], for significance tests."""
        return self.counts[:, [COLUMNS.index(name) for name in ("words", "words", "tags")]]

    @property
    def tags(self) -> float:
        """Percent of the words, punctuation left out, with the gold tag."""
        return percent(self._sum("tags"), self._sum("words"))

    @property
    def crossing(self) -> float:
        """Predicted brackets that cross gold ones, a sentence."""
        return self._sum("crossing") / max(self.n_sentences, 1)

    @property
    def failures(self) -> int:
        """Sentences without a parse."""
        return self._sum("failed")

    def text(self, sentences_per_second: float | None = None) -> str:
        """The report for people."""
        lines = [
            f"sentences  {self.n_sentences:,}, {self.failures:,} without a parse",
            f"brackets   precision {self.precision:.2f}%  recall {self.recall:.2f}%  F1 {self.f1:.2f}",
            f"exact      {self.exact:.2f}% of the sentences; {self.crossing:.2f} crossing brackets a sentence",
            f"tags       {self.tags:.2f}%",
        ]
        if sentences_per_second is not None:
            lines.append(f"speed      {sentences_per_second:,.1f} sentences a second")
        return "\n".join(lines) + "\n"

    def to_dict(self, sentences_per_second: float | None = None) -> dict[str, Any]:
        """The report for JSON; percentages from 0 to 100."""
        figures = {name: getattr(self, name) for name in ("precision", "recall", "f1", "exact", "tags", "failures")}
        return {**figures, "sentences_per_second": sentences_per_second}


def bracket_scores(
    gold: Sequence[Tree],
    predicted: Sequence[Tree | None],
    same_particle: bool = True,
    failed: Sequence[bool] | None = None,
) -> BracketReport:
    """Score predicted trees against gold.

    Parameters
    ----------
    gold, predicted : list of Tree
        Trees of the same sentences; None in ``predicted`` is a sentence without a parse.
    same_particle : bool
        Whether ``ADVP`` and ``PRT`` are the same label.
    failed : list of bool, optional
        Which sentences had no parse; if not given, those whose tree looks like the parser's fallback.

    Raises
    ------
    DataError
        Where the trees are not of the same sentences.
    """
    if len(gold) != len(predicted):
        raise DataError(f"{how_many(len(gold), 'gold tree')}, but {len(predicted)} predicted")
    if failed is None:
        failed = [tree is not None and is_fallback(tree) for tree in predicted]
    if len(failed) != len(predicted):
        raise DataError(f"{how_many(len(predicted), 'predicted tree')}, but {len(failed)} in failed")
    rows = [
        _sentence(number, tree, other, bool(none), same_particle)
        for number, (tree, other, none) in enumerate(zip(gold, predicted, failed, strict=True), 1)
    ]
    return BracketReport(np.array(rows, dtype=np.int64).reshape(-1, len(COLUMNS)))


def bracket_counts(gold: Sequence[Tree], predicted: Sequence[Tree | None], same_particle: bool = True) -> Int64:
    """Brackets [S, 3] of gold, prediction and both, for :func:`~loglinear.evaluation.paired_bootstrap`."""
    return bracket_scores(gold, predicted, same_particle).counts[:, :3]


def _sentence(number: int, gold: Tree, predicted: Tree | None, failed: bool, same_particle: bool) -> list[int]:
    tags = gold.tags()
    kept = [position for position, tag in enumerate(tags) if tag not in PUNCTUATION]
    expected = brackets(gold, kept, same_particle)
    if predicted is None:
        return [len(expected), 0, 0, len(kept), 0, 0, 1]
    _check_words(number, gold.leaves(), predicted.leaves())
    other_tags = predicted.tags()
    right_tags = sum(tags[position] == other_tags[position] for position in kept)
    if failed:
        return [len(expected), 0, 0, len(kept), right_tags, 0, 1]
    own = brackets(predicted, kept, same_particle)
    matched = (Counter(expected) & Counter(own)).total()
    crossing = sum(any(_cross(bracket, other) for other in expected) for bracket in own)
    return [len(expected), len(own), matched, len(kept), right_tags, crossing, 0]


def brackets(tree: Tree, kept: Sequence[int], same_particle: bool = True) -> list[Bracket]:
    """The brackets of a tree over the words at the positions ``kept`` alone, ascending."""
    result = []
    for label, start, end in tree.spans():
        first, last = bisect_left(kept, start), bisect_left(kept, end)
        if first < last and label not in ROOT_LABELS:
            result.append(("ADVP" if same_particle and label == "PRT" else label, first, last))
    return result


def _cross(bracket: Bracket, other: Bracket) -> bool:
    _, start, end = bracket
    _, first, last = other
    return start < first < end < last or first < start < last < end


def _check_words(number: int, gold: list[str], predicted: list[str]) -> None:
    """Reject trees of different sentences."""
    if len(gold) != len(predicted):
        raise DataError(
            f"tree {number}: {how_many(len(gold), 'word')} in the gold tree, but {len(predicted)} in the predicted one"
        )
    for word, other in zip(gold, predicted, strict=True):
        if tree_word(word) != tree_word(other):
            raise DataError(f"tree {number}: the gold tree has {word!r:.40} where the predicted one has {other!r:.40}")
