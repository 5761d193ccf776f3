"""Plain labels against gold: accuracy, and precision, recall and F1 of each label.

With c(y) tokens of gold label y that were given y, g(y) tokens of gold label y and p(y) tokens given y::

    accuracy = sum_y c(y) / N      precision(y) = c(y) / p(y)      recall(y) = c(y) / g(y)      F1 = 2 P R / (P + R)

This is the report for tasks without chunks, such as parts of speech. Letters: S sequences, N positions in all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Int64
from loglinear.errors import DataError
from loglinear.wording import how_many

#: Labels of a corpus: a list of strings per sequence, or (ids [N], values, offsets [S + 1]).
Labelling = Sequence[Sequence[str]] | tuple[npt.NDArray[np.integer[Any]], Sequence[str], npt.NDArray[np.integer[Any]]]


def percent(part: int, whole: int) -> float:
    """``100 part / whole``, 0 if ``whole`` is 0."""
    return 100 * part / whole if whole else 0.0


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of one kind of thing: how many the gold has, how many were predicted, how many of those are right."""

    gold: int
    found: int
    correct: int

    @property
    def precision(self) -> float:
        """Percent of the predictions that are right."""
        return percent(self.correct, self.found)

    @property
    def recall(self) -> float:
        """Percent of the gold that was found."""
        return percent(self.correct, self.gold)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, in percent."""
        precision, recall = self.precision, self.recall
        return 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0

    def to_dict(self) -> dict[str, float]:
        """Counts and percentages."""
        return {name: getattr(self, name) for name in ("gold", "found", "correct", "precision", "recall", "f1")}


class Scored:
    """A report with a score of everything together."""

    __slots__ = ()

    @property
    def score(self) -> Score:
        """Counts of gold, predictions and both."""
        raise NotImplementedError

    @property
    def precision(self) -> float:
        """Percent of the predictions that are right."""
        return self.score.precision

    @property
    def recall(self) -> float:
        """Percent of the gold that was found."""
        return self.score.recall

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall, in percent."""
        return self.score.f1


@dataclass(frozen=True, slots=True)
class LabelReport:
    """Accuracy, and the score of each label by name.

    Attributes
    ----------
    tokens, correct : int
        Positions in all, and those with the gold label.
    labels : dict from label to Score
        Sorted by name.
    """

    tokens: int
    correct: int
    labels: dict[str, Score]

    @property
    def accuracy(self) -> float:
        """Percent of the positions with the gold label."""
        return percent(self.correct, self.tokens)

    def text(self) -> str:
        """The report as lines of text, one per label after the total."""
        lines = [f"processed {self.tokens} tokens; correct: {self.correct}.\n"]
        if self.tokens:
            lines.append(f"accuracy: {self.accuracy:6.2f}%\n")
        for label, score in self.labels.items():
            lines.append(
                f"{label:>17}: precision: {score.precision:6.2f}%; recall: {score.recall:6.2f}%; "
                f"F1: {score.f1:6.2f}  {score.found}\n"
            )
        return "".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON; percentages from 0 to 100."""
        return {
            "tokens": self.tokens,
            "correct": self.correct,
            "accuracy": self.accuracy,
            "labels": {label: score.to_dict() for label, score in self.labels.items()},
        }


def flat_accuracy(gold_ids: npt.ArrayLike, predicted_ids: npt.ArrayLike) -> float:
    """Share, from 0 to 1, of the positions where two arrays of ids [N] agree; 0 if they are empty."""
    gold, predicted = np.asarray(gold_ids), np.asarray(predicted_ids)
    if gold.shape != predicted.shape:
        raise DataError(f"{how_many(gold.size, 'gold label')} but {predicted.size} predicted")
    return float(np.mean(gold == predicted)) if gold.size else 0.0


def accuracy_report(gold: Labelling, predicted: Labelling) -> LabelReport:
    """Score predicted labels against gold, label by label; O(N)."""
    gold_ids, predicted_ids, values, _ = aligned(gold, predicted)
    agree = gold_ids == predicted_ids
    labels = scores_by_name(values, (gold_ids, predicted_ids, gold_ids[agree]))
    return LabelReport(len(gold_ids), int(np.count_nonzero(agree)), labels)


def scores_by_name(names: Sequence[str], ids: Sequence[Int64]) -> dict[str, Score]:
    """The scores of the names that occur, sorted, from the ids of gold, predictions and correct predictions."""
    counts = [np.bincount(numbers, minlength=len(names)).tolist() for numbers in ids]
    scores = {name: Score(*count) for name, *count in zip(names, *counts, strict=True)}
    return {name: scores[name] for name in sorted(scores) if scores[name].gold or scores[name].found}


def label_counts(gold: Labelling, predicted: Labelling) -> Int64:
    """For each sequence its positions, the same again, and those labelled right: int64 [S, 3].

    For significance tests, which draw sequences; precision, recall and F1 of these counts are all the accuracy.
    """
    gold_ids, predicted_ids, _, offsets = aligned(gold, predicted)
    lengths = np.diff(offsets)
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    right = np.bincount(sequence[gold_ids == predicted_ids], minlength=len(lengths))
    return np.stack([lengths, lengths, right], axis=1).astype(np.int64)


def confusions(gold: Labelling, predicted: Labelling) -> tuple[list[str], Int64]:
    """The labels that occur, sorted, and how often each gold label (row) was predicted as which: int64 [Y, Y]."""
    gold_ids, predicted_ids, values, _ = aligned(gold, predicted)
    n = len(values)
    table = np.bincount(gold_ids * n + predicted_ids, minlength=n * n).reshape(n, n)
    seen = [y for y in sorted(range(n), key=values.__getitem__) if table[y].any() or table[:, y].any()]
    return [values[y] for y in seen], table[np.ix_(seen, seen)].astype(np.int64)


def aligned(gold: Labelling, predicted: Labelling) -> tuple[Int64, Int64, list[str], Int64]:
    """Gold ids [N], predicted ids [N], the values of both, and the offsets [S + 1] of two labellings.

    Raises
    ------
    DataError
        Naming the first sequence whose two labellings have different lengths.
    """
    gold_ids, gold_values, offsets = _arrays(gold)
    ids, values, other = _arrays(predicted)
    if not np.array_equal(offsets, other):
        if len(offsets) != len(other):
            raise DataError(f"{how_many(len(offsets) - 1, 'gold sequence')} but {len(other) - 1} predicted")
        lengths = np.diff(offsets), np.diff(other)
        first = int(np.argmax(lengths[0] != lengths[1]))
        message = f"{how_many(lengths[0][first], 'gold label')} but {lengths[1][first]} predicted"
        raise DataError(f"sequence {first} (from 0): {message}")
    index = {value: number for number, value in enumerate(dict.fromkeys([*gold_values, *values]))}
    maps = [np.array([index[value] for value in some], dtype=np.int64) for some in (gold_values, values)]
    return maps[0][gold_ids], maps[1][ids], list(index), offsets


def _arrays(labelling: Labelling) -> tuple[Int64, Sequence[str], Int64]:
    if isinstance(labelling, tuple) and len(labelling) == 3 and isinstance(labelling[0], np.ndarray):
        ids, values, bounds = labelling
        return np.asarray(ids, dtype=np.int64), values, np.asarray(bounds, dtype=np.int64)
    sequences: Any = labelling
    for number, sequence in enumerate(sequences):
        if isinstance(sequence, str):
            raise DataError(f"sequence {number} (from 0) is a string; give a list of labels")
    strings = [label for sequence in sequences for label in sequence]
    index = {value: number for number, value in enumerate(dict.fromkeys(strings))}
    numbers = np.fromiter(map(index.__getitem__, strings), dtype=np.int64, count=len(strings))
    offsets = np.cumsum([0] + [len(sequence) for sequence in sequences], dtype=np.int64)
    return numbers, list(index), offsets
