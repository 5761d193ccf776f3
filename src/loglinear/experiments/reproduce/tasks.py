"""What the papers' taggers are trained and scored on: column files made into training, tuning and test sentences.

    noun-phrases    CoNLL-2000 with all labels but those of noun phrases made O; 900 training sentences are for tuning
                    (Smith, Vail & Lafferty 2007, section 5)
    entities        CoNLL-2002 or -2003: train, testa and testb as they are
    entities-held   the same train with a tenth left out for tuning, tested on testa (Sutton & McCallum 2005, section 4)
    entities-all    all of train, tested on testa
    tags            the words and tags of CoNLL-2000: 1,154 training sentences and as many others for tuning
                    (Sutton & McCallum 2005, section 4)

Which sentences are left out is drawn by the seed. Without files, the bundled corpus stands for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from io import BytesIO

import numpy as np
import numpy.typing as npt

from loglinear.data import Column, Columns, read_columns
from loglinear.data.bundled import bundled_text

Split = tuple[Columns, Columns, Columns]
UNKNOWN = "<OOV>"
TUNING_SENTENCES = 900  # of the noun phrases
TAG_SENTENCES = 1154
HELD_SHARE, BUNDLED_SHARE = 10, 5  # a tenth, a fifth


def noun_phrases(corpus: Columns) -> Columns:
    """The corpus with all labels but those of noun phrases made O."""
    labels, kept = corpus.columns[-1], ["B-NP", "I-NP", "O"]
    number = np.array([kept.index(value) if value in kept else 2 for value in labels.values], dtype=np.int32)
    corpus.columns[-1] = Column(number[labels.ids], kept)
    return corpus


def with_unknown_words(train: Columns, *others: Columns) -> None:
    """The first occurrence of each word and tag in ``train``, and unknown ones in ``others``, become one, in place."""
    for c in range(len(train.columns) - 1):
        column = train.columns[c]
        values = [*column.values, UNKNOWN]
        ids = column.ids.copy()
        ids[np.unique(ids, return_index=True)[1]] = len(values) - 1
        known = {values[i] for i in np.unique(ids)}
        train.columns[c] = Column(ids, values)
        for other in others:
            theirs = other.columns[c]
            keep = np.array([value in known for value in theirs.values])
            number = np.where(keep, np.arange(len(keep)), len(keep)).astype(np.int32)
            other.columns[c] = Column(number[theirs.ids], [*theirs.values, UNKNOWN])


def _read(files: tuple[str, ...], task: str) -> list[Columns]:
    """The files, or train, dev and test of the bundled corpus' ``task``."""
    if files:
        return [read_columns(path, layout=False) for path in files]
    texts = [bundled_text(split, task).encode() for split in ("train", "dev", "test")]
    return [read_columns(BytesIO(text)) for text in texts]


def drawn(n: int, seed: int) -> npt.NDArray[np.int64]:
    """Sentence numbers [n] in an order drawn by the seed."""
    return np.random.default_rng(seed).permutation(n)


def _left_out(train: Columns, n: int, seed: int) -> tuple[Columns, Columns]:
    """The corpus without ``n`` sentences, and these."""
    order = drawn(len(train), seed)
    return train.select(np.sort(order[n:])), train.select(np.sort(order[:n]))


def _noun_phrases(files: tuple[str, ...], seed: int) -> Split:
    everything, *_, test = map(noun_phrases, _read(files, "chunk"))
    n = TUNING_SENTENCES if files else len(everything) // BUNDLED_SHARE
    return *_left_out(everything, n, seed), test


def _entities(files: tuple[str, ...], seed: int) -> Split:
    train, dev, test = _read(files, "ner")
    return train, dev, test


def _entities_held(files: tuple[str, ...], seed: int) -> Split:
    train, dev, _ = _read(files, "ner")
    return *_left_out(train, len(train) // HELD_SHARE, seed), dev


def _entities_all(files: tuple[str, ...], seed: int) -> Split:
    train, dev, _ = _read(files, "ner")
    return train, dev, dev


def _tags(files: tuple[str, ...], seed: int) -> Split:
    train, *_, test = _read(files, "pos")
    train, test = (Columns(each.name, each.offsets, each.lines, each.columns[:2]) for each in (train, test))
    n = TAG_SENTENCES if files else len(train) // 2
    order = drawn(len(train), seed)
    return train.select(np.sort(order[:n])), train.select(np.sort(order[n : 2 * n])), test


TASKS: dict[str, Callable[[tuple[str, ...], int], Split]] = {
    "noun-phrases": _noun_phrases,
    "entities": _entities,
    "entities-held": _entities_held,
    "entities-all": _entities_all,
    "tags": _tags,
}


@lru_cache(maxsize=2)
def split_of(task: str, files: tuple[str, ...], seed: int, unknown: bool = False, n_train: int | None = None) -> Split:
    """Training, tuning and test sentences.

    ``unknown`` makes the first occurrence of each value an unknown one, as the hidden Markov model does by itself;
    ``n_train`` keeps only so many training sentences, drawn by the seed, the fewer among the more.
    """
    train, dev, test = TASKS[task](files, seed)
    if n_train is not None:
        train = train.select(np.sort(drawn(len(train), seed + 1)[:n_train]))
    if unknown:
        with_unknown_words(train, dev, test)
    return train, dev, test
