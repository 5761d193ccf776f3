"""Walks through the package on small data, which call the kernels that users call.

``python -m loglinear.kernels.build`` compiles ahead what these walks call. :func:`walk_default` reads, encodes, trains
by dual ascent and by L-BFGS, saves, loads, labels and scores; :func:`walk_criteria` does so for every criterion, and
trains by stochastic steps, too. A pass may be compiled for each number of vectors of eight labels, so the walks train
with a number of labels for each (:data:`LABELS`, :data:`FEWER_LABELS`).
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from loglinear.criteria.criterion import CRITERIA, criteria_of
from loglinear.data import Column, Columns, read_columns, write_columns
from loglinear.estimators.tagger.estimator import Tagger
from loglinear.estimators.tagger.predict import LoadedTagger
from loglinear.evaluation.chunks import chunk_scores
from loglinear.evaluation.labels import accuracy_report
from loglinear.optimizers.objective import PIECES
from loglinear.structures.chain.conditionals import LocalLayout
from loglinear.structures.chain.padded import PaddedLayout
from loglinear.structures.chain.structure import Chain
from loglinear.system import temporary_folder

#: Numbers of labels: one for each number of vectors of eight, up to eight; and beyond, for blocks of 5 to 8 vectors.
LABELS = (5, 12, 20, 28, 36, 44, 52, 60, 70, 90, 105, 120)
#: Those that all criteria are walked with: more than 48 labels are rarer, and each number takes 12 s to compile.
FEWER_LABELS = LABELS[:6]
FEW_LABELS = 12  # where their number does not matter: as many vectors as the bundled corpus's chunks
WORDS = 80  # enough for pairs of them to be looked up in a hash table
PASSES = 3  # of an optimizer: first, following and last


def small_text(n_labels: int, n_words: int) -> str:
    """Sentences of words, tags and chunks: ``n_labels`` labels, and at least ``n_words`` different words."""
    kinds = [f"K{k}" for k in range((n_labels - 1) // 2)]
    labels = ["O", *(f"{mark}-{kind}" for kind in kinds for mark in "BI")]
    labels += [f"B-L{k}" for k in range(n_labels - len(labels))]
    labels *= -(-n_words // n_labels)
    sentences = []
    for at in range(0, len(labels), 4):
        chosen = labels[at : at + 4]
        if chosen[0].startswith("I"):
            chosen.insert(0, "B" + chosen[0][1:])
        sentences.append("\n".join(f"w{at + k} T{k % 3} {label}" for k, label in enumerate(chosen)))
    return "\n\n".join([*sentences, sentences[0]]) + "\n"


def walk_default(numbers_of_labels: Iterable[int]) -> None:
    """Read, train, save, load, label and score, as by default; train with each of the numbers of labels."""
    for template, constraints in (("chunking", "bio"), ("ner", "bio"), ("pos", None), ("words", None), (None, None)):
        _walk_chain(Tagger(template=template, constraints=constraints, max_iter=PASSES))
    Tagger(template="chunking", optimizer="lbfgs", max_iter=PASSES).fit(_read(small_text(FEW_LABELS, WORDS)))
    with _as_if_large():
        for number in numbers_of_labels:
            corpus = _read(small_text(number, max(number, WORDS)))
            for criterion, optimizer in (("cll", "dual"), ("cll", "lbfgs"), ("softmax-margin", "dual")):
                Tagger(template="words", criterion=criterion, optimizer=optimizer, max_iter=1, threads=1).fit(corpus)


def walk_criteria(numbers_of_labels: Iterable[int]) -> None:
    """The same by every criterion, with chains of both orders, and by stochastic steps."""
    criteria = criteria_of(Chain)
    for criterion in criteria:
        for order in (1, 2):
            _walk_criterion(criterion, order)
    corpus = _read(small_text(LABELS[0], WORDS))
    for optimizer in ("sgd", "adagrad"):
        Tagger(template="chunking", optimizer=optimizer, max_iter=PASSES).fit(corpus)
    with _as_if_large():
        for number in numbers_of_labels:
            corpus = _read(small_text(number, max(number, WORDS)))
            for criterion in criteria:
                for order in (1, 2) if criterion in PIECES else (1,):  # others have kernels for either order
                    if criteria[criterion].learns_weights:
                        Tagger(template="words", criterion=criterion, order=order, max_iter=1, threads=1).fit(corpus)


@contextmanager
def _as_if_large() -> Iterator[None]:
    """Context in which two parts share a pass over few sequences, as they do over thousands."""
    layouts: tuple[Any, ...] = (PaddedLayout, LocalLayout)
    before = [layout.sequences_a_part for layout in layouts]
    try:
        for layout in layouts:
            layout.sequences_a_part = 1
        yield
    finally:
        for layout, number in zip(layouts, before, strict=True):
            layout.sequences_a_part = number


@contextmanager
def _files(text: str) -> Iterator[tuple[Path, Path]]:
    """A training file and a place for a model, while they are needed."""
    with temporary_folder() as folder:
        (folder / "train.txt").write_text(text, encoding="utf-8")
        yield folder / "train.txt", folder / "a.model"


def _read(text: str) -> Columns:
    with _files(text) as (train, _):
        return read_columns(train)


def _walk_chain(tagger: Tagger) -> None:
    with _files(small_text(FEW_LABELS, WORDS)) as (train, model):
        corpus, plain = read_columns(train), read_columns(train, layout=True)
        if tagger.template is None:
            X = [[[f"word={word}", f"tag={tag}"] for word, tag, _ in rows] for rows in corpus.rows()]
            y = [[label for *_, label in rows] for rows in corpus.rows()]
            tagger.fit(X, y)
            tagger.predict(X)
        else:
            tagger.fit(corpus, X_dev=corpus)
            tagger.predict([[row[:-1] for row in rows] for rows in corpus.rows()[:1]])
        tagger.save(model)
        loaded = LoadedTagger.load(model)
    if tagger.template is not None:
        _label(loaded, plain)
    if tagger.template == "chunking":
        for decoding in ("posterior", "min-risk"):
            loaded.predict_numbers(plain, decoding=decoding)


def _walk_criterion(criterion: str, order: int) -> None:
    with _files(small_text(LABELS[0], WORDS)) as (train, model):
        corpus, plain = read_columns(train), read_columns(train, layout=True)
        if CRITERIA[criterion].learns_weights:
            tagger = Tagger(template="chunking", criterion=criterion, order=order, max_iter=PASSES)
            tagger.fit(corpus, X_dev=corpus)
        else:
            tagger = Tagger(criterion=criterion, order=order).fit(corpus)
        tagger.save(model)
        _label(LoadedTagger.load(model), plain)


def _label(tagger: LoadedTagger, corpus: Columns) -> None:
    labels, _ = tagger.predict_numbers(corpus)
    confident, confidence = tagger.predict_numbers(corpus, confidence=True)
    assert confidence is not None and np.array_equal(labels, confident)
    tagger.predict_marginals(corpus)
    column, truth = Column(labels, tagger.classes_), corpus.column(-1)
    write_columns(corpus, io.BytesIO(), [column])
    for score in (chunk_scores, accuracy_report):
        score((truth.ids, truth.values, corpus.offsets), (column.ids, column.values, corpus.offsets))
