"""Two systems on the same gold data, figure by figure, with tests of whether they differ.

Each figure has the tests that suit it (:mod:`~loglinear.evaluation.significance`):

    bootstrap   every figure: sums over sequences, or over the rows of a table
    McNemar     shares of things that are right or wrong: tokens, sentences, rows
    t-test      what adds up over sequences: wrong labels, chunks, brackets or heads of each; the log loss of each row

McNemar's test takes its items to be independent. Tokens of a sentence are not, so its p over tokens is somewhat too
small; the bootstrap draws whole sentences. Letters: S sequences (or rows), N positions in all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Array, Bool, Float, Int64
from loglinear.data.columns.corpus import Column
from loglinear.data.dependencies import Dependencies
from loglinear.errors import DataError
from loglinear.evaluation.attachment import right_heads
from loglinear.evaluation.brackets import BracketReport
from loglinear.evaluation.chunks import chunk_counts
from loglinear.evaluation.labels import Labelling, aligned
from loglinear.evaluation.significance import f1, mcnemar, paired_bootstraps, paired_t_test

Two = tuple[Any, Any]  #: the same of both systems


@dataclass(frozen=True)
class Difference:
    """A figure of two systems, and the p of each test that suits it.

    Attributes
    ----------
    first, second : float
        The figure of each system: in percent, but for the log loss.
    low, high : float
        The middle 95 % of the bootstrap's differences second - first.
    bootstrap : float
        One-sided.
    mcnemar, t_test : float or None
        Two-sided; None where the test does not suit the figure.
    """

    first: float
    second: float
    low: float
    high: float
    bootstrap: float
    mcnemar: float | None
    t_test: float | None


@dataclass(frozen=True)
class PairedReport:
    """Figures of two systems on S examples, and tests of their differences.

    Attributes
    ----------
    examples : int
        S.
    draws : int
        Samples of the bootstrap.
    figures : dict from name to Difference
    """

    examples: int
    draws: int
    figures: dict[str, Difference]

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        figures = {name: asdict(difference) for name, difference in self.figures.items()}
        return {"examples": self.examples, "draws": self.draws, "figures": figures}


@dataclass(frozen=True)
class _Figure:
    """A figure, the numbers [S, C] it is worked out from, and what its other tests look at.

    ``right``: which items each system has right, for McNemar's test. ``losses``: a number for each sequence [S], for
    the t-test.
    """

    name: str
    numbers: Two
    of: str | Callable[[Any], Float]
    right: Two | None = None
    losses: Two | None = None


def _report(figures: Sequence[_Figure], draws: int, seed: int) -> PairedReport:
    n_examples = figures[0].numbers[0].shape[0]
    if not n_examples:
        raise DataError("there is nothing to compare: no example in the gold data")
    boots = paired_bootstraps([(*figure.numbers, figure.of) for figure in figures], draws, seed)
    differences = {
        figure.name: Difference(
            boot.first,
            boot.second,
            boot.low,
            boot.high,
            boot.p,
            None if figure.right is None else mcnemar(*figure.right).p,
            None if figure.losses is None else paired_t_test(*figure.losses).p,
        )
        for figure, boot in zip(figures, boots, strict=True)
    }
    return PairedReport(n_examples, draws, differences)


# -- what the tests look at --------------------------------------------------------------------------------------------


def _share(name: str, right: tuple[Bool, Bool], offsets: Int64, sequences: str) -> list[_Figure]:
    """The share of N items that are right, and the share of sequences with nothing wrong."""
    lengths = np.diff(offsets)
    sequence = np.repeat(np.arange(len(lengths)), lengths)  # a sequence may be empty
    counts = [np.bincount(sequence[each], minlength=len(lengths)) for each in right]
    one, other = (np.stack([lengths, lengths, n], axis=1) for n in counts)
    whole = [lengths == n for n in counts]
    wrong = (lengths - counts[0], lengths - counts[1])
    return [_Figure(name, (one, other), "accuracy", right, wrong), _all_right(sequences, (whole[0], whole[1]))]


def _all_right(name: str, right: tuple[Bool, Bool]) -> _Figure:
    """The share of examples [S] that are right."""
    one, other = (np.stack([np.ones(len(each)), np.ones(len(each)), each], axis=1) for each in right)
    return _Figure(name, (one, other), "accuracy", right)


def _found(name: str, counts: tuple[Int64, Int64]) -> list[_Figure]:
    """F1, precision and recall of counts (gold, found, correct) [S, 3]; the t-test is on what is missed or made up."""
    one, other = (each[:, 0] + each[:, 1] - 2 * each[:, 2] for each in counts)
    f1_of = _Figure(f"{name} F1", counts, "f1", losses=(one, other))
    return [f1_of, *(_Figure(f"{name} {figure}", counts, figure) for figure in ("precision", "recall"))]


# -- tasks -------------------------------------------------------------------------------------------------------------


def paired_labels(
    gold: Labelling, first: Labelling, second: Labelling, chunks: bool, draws: int = 10_000, seed: int = 0
) -> PairedReport:
    """Compare two labellings of the same sequences: tag accuracy, right sentences and, if asked, chunks."""
    figures = []
    if chunks:
        figures += _found("chunk", (chunk_counts(gold, first), chunk_counts(gold, second)))
    gold_ids, one, _, offsets = aligned(gold, first)
    right = gold_ids == one
    gold_ids, other, _, _ = aligned(gold, second)
    figures += _share("tag accuracy", (right, gold_ids == other), offsets, "right sentences")
    return _report(figures, draws, seed)


def paired_rows(
    gold: Sequence[str],
    first: Sequence[str],
    second: Sequence[str],
    losses: tuple[Float, Float] | None = None,
    draws: int = 10_000,
    seed: int = 0,
) -> PairedReport:
    """Compare two classifications of the same rows: accuracy, macro F1 and, given each row's, the log loss.

    Parameters
    ----------
    gold, first, second : sequence of str [S]
    losses : float64 [S], float64 [S], optional
        -log p of the gold label of each row, by both systems.
    draws, seed
        Of the bootstrap.
    """
    names = sorted({*gold, *first, *second})
    number = {name: y for y, name in enumerate(names)}
    truth, one, other = (np.array([number[label] for label in some]) for some in (gold, first, second))
    figures = [_all_right("accuracy", (truth == one, truth == other))]
    n = len(names)
    figures.append(_Figure("macro F1", (_by_label(truth, one, n), _by_label(truth, other, n)), _macro_f1))
    if losses is not None:
        means = tuple(np.stack([np.ones(len(loss)), loss], axis=1) for loss in losses)
        figures.append(_Figure("log loss", (means[0], means[1]), _mean, losses=losses))
    return _report(figures, draws, seed)


def _by_label(gold: Array, predicted: Array, n_labels: int) -> Any:
    """Gold, predictions and right predictions of each label, 0 or 1 of each row: a sparse matrix [S, 3 Y]."""
    from scipy.sparse import csr_matrix

    rows, right = np.arange(len(gold)), np.flatnonzero(gold == predicted)
    places = np.concatenate([rows, rows, right]), np.concatenate([3 * gold, 3 * predicted + 1, 3 * gold[right] + 2])
    return csr_matrix((np.ones(len(places[0])), places), shape=(len(gold), 3 * n_labels))


def _macro_f1(sums: Float) -> Float:
    """The mean F1 of the labels that stand in gold or prediction."""
    by_label = sums.reshape(*sums.shape[:-1], -1, 3)
    occurs = by_label[..., :2].sum(axis=-1) > 0
    mean: Float = np.where(occurs, f1(by_label), 0.0).sum(axis=-1) / np.maximum(occurs.sum(axis=-1), 1)
    return mean


def _mean(sums: Float) -> Float:
    mean: Float = sums[..., 1] / sums[..., 0]
    return mean


def paired_brackets(first: BracketReport, second: BracketReport, draws: int = 10_000, seed: int = 0) -> PairedReport:
    """Compare two parsers by what evalb counts of the same S gold trees: brackets, exact trees, tags."""
    figures = _found("bracket", (first.counts[:, :3], second.counts[:, :3]))
    figures.append(_all_right("exact", (first.right, second.right)))
    one, other = (each.tag_counts for each in (first, second))
    wrong = (one[:, 0] - one[:, 2], other[:, 0] - other[:, 2])
    figures.append(_Figure("tag accuracy", (one, other), "accuracy", losses=wrong))
    return _report(figures, draws, seed)


def paired_attachments(
    gold: Dependencies,
    first: tuple[npt.ArrayLike, Column | None],
    second: tuple[npt.ArrayLike, Column | None],
    draws: int = 10_000,
    seed: int = 0,
) -> PairedReport:
    """Compare two dependency parsers by their heads [N] and relations: UAS, right trees and, if both have them, LAS."""
    one, other = right_heads(gold, *first), right_heads(gold, *second)
    figures = _share("UAS", (one[0], other[0]), gold.offsets, "exact")
    if one[1] is not None and other[1] is not None:
        figures.insert(1, _share("LAS", (one[1], other[1]), gold.offsets, "")[0])
    return _report(figures, draws, seed)
