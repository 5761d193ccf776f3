"""Dependency trees against gold: how many tokens have the right head (UAS), and the right relation as well (LAS).

    UAS = 100 * tokens with the gold head / N           LAS = 100 * tokens with the gold head and relation / N

Every token counts, including punctuation, unless tags to leave out are given. Letters: S sentences, N tokens in all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Bool, Int64
from loglinear.data.columns.corpus import Column
from loglinear.data.dependencies import Dependencies
from loglinear.errors import DataError
from loglinear.evaluation.labels import percent
from loglinear.wording import how_many


@dataclass(frozen=True, slots=True)
class AttachmentReport:
    """Tokens in all, with the right head, and with the right head and relation (None if there are no relations).

    Attributes
    ----------
    tokens, heads, labelled : int
    sentences, exact : int
        Sentences in all, and those in which every head is right.
    failures : int or None
        Sentences that have a fallback tree because they could not be parsed; None if that is not known.
    """

    tokens: int
    heads: int
    labelled: int | None
    sentences: int
    exact: int
    failures: int | None = None

    @property
    def uas(self) -> float:
        """Percent of the tokens with the right head."""
        return percent(self.heads, self.tokens)

    @property
    def las(self) -> float | None:
        """Percent of the tokens with the right head and relation."""
        return None if self.labelled is None else percent(self.labelled, self.tokens)

    def text(self) -> str:
        """The report as a line of text."""
        las = "" if self.las is None else f"  LAS {self.las:6.2f}"
        exact = percent(self.exact, self.sentences)
        failures = "" if self.failures is None else f"  failures {self.failures}"
        counts = f"{how_many(self.tokens, 'token')}, {how_many(self.sentences, 'sentence')}"
        return f"{counts}: UAS {self.uas:6.2f}{las}  exact {exact:6.2f}{failures}\n"

    def to_dict(self) -> dict[str, float | None]:
        """The report for JSON; percentages from 0 to 100, ``failures`` a number of sentences."""
        return {
            "tokens": self.tokens,
            "sentences": self.sentences,
            "uas": self.uas,
            "las": self.las,
            "exact": percent(self.exact, self.sentences),
            "failures": self.failures,
        }


def right_heads(gold: Dependencies, heads: npt.ArrayLike, relations: Column | None) -> tuple[Bool, Bool | None]:
    """Masks [N] of the tokens with the right head, and of those with the right relation too."""
    predicted = np.asarray(heads)
    if predicted.shape != (gold.n_tokens,):
        raise DataError(f"{gold.n_tokens} gold heads but {predicted.size} predicted ones")
    if (gold.heads < 0).any():
        raise DataError("the gold sentences have no trees to compare with", gold.file)
    right = predicted == gold.heads
    if relations is None or not gold.has_relations:
        return right, None
    if len(relations) != gold.n_tokens:
        raise DataError(f"{gold.n_tokens} gold relations but {len(relations)} predicted ones")
    number = {value: i for i, value in enumerate(gold.relations.values)}
    gold_ids = np.array([number.get(value, -1) for value in relations.values], dtype=np.int64)
    return right, right & (gold_ids[relations.ids] == gold.relations.ids)


def attachment_scores(
    gold: Dependencies,
    heads: npt.ArrayLike,
    relations: Column | None = None,
    leave_out: Iterable[str] = (),
    fallback: npt.ArrayLike | None = None,
) -> AttachmentReport:
    """Score predicted ``heads`` [N] and ``relations`` [N]; tokens with a tag in ``leave_out`` do not count.

    ``fallback`` is a mask [S] of the sentences that could not be parsed, where that is known.
    """
    right, labelled = right_heads(gold, heads, relations)
    tags = gold.tags()
    out = set(leave_out)
    counts = ~np.array([value in out for value in tags.values], dtype=bool)[tags.ids]
    wrong = np.add.reduceat((~right & counts).astype(np.int64), gold.offsets[:-1])
    return AttachmentReport(
        int(counts.sum()),
        int((right & counts).sum()),
        None if labelled is None else int((labelled & counts).sum()),
        gold.n_sentences,
        int((wrong == 0).sum()),
        None if fallback is None else int(np.count_nonzero(fallback)),
    )


def attachment_counts(gold: Dependencies, heads: npt.ArrayLike) -> Int64:
    """Tokens, tokens and right heads of each sentence [S, 3], for
    :func:`~loglinear.evaluation.significance.paired_bootstrap`."""
    right, _ = right_heads(gold, heads, None)
    lengths = np.diff(gold.offsets)
    return np.stack([lengths, lengths, np.add.reduceat(right.astype(np.int64), gold.offsets[:-1])], axis=1)
