"""Trainings of parsers, of constituents and of dependencies, as :mod:`.training` has those of taggers.

    trees           the sentences of at most 15 words: the first file to train on, all others to test on
    dependencies    the first file to train on, the second to test on

Without files, the bundled corpus stands for them.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache, partial

from loglinear.data.bundled import SPLITS, bundled_rows, bundled_trees
from loglinear.data.conllu import Dependencies, conllu_text, parse_conllu, read_conllu
from loglinear.data.tree_cleaning import read_treebank
from loglinear.data.trees import Tree
from loglinear.errors import LoglinearError
from loglinear.estimators.dependency_parser import DependencyParser
from loglinear.estimators.parser import Parser
from loglinear.evaluation.attachment import attachment_counts, attachment_scores
from loglinear.evaluation.brackets import bracket_scores
from loglinear.experiments.reproduce.training import WARM_UP_ITERATIONS, WARM_UP_SENTENCES, Cell, Job, Warm

TREES, DEPENDENCIES = "trees", "dependencies"
LONGEST = 15


@lru_cache(maxsize=1)
def trees_of(files: tuple[str, ...]) -> tuple[list[Tree], list[Tree]]:
    """Training and test trees."""
    parts = map(read_treebank, files) if files else (bundled_trees(part, entities=False) for part in SPLITS)
    train, *others = ([tree for tree in trees if len(tree.leaves()) <= LONGEST] for trees in parts)
    return train, [tree for trees in others for tree in trees]


@lru_cache(maxsize=1)
def dependencies_of(files: tuple[str, ...]) -> tuple[Dependencies, Dependencies]:
    """Training and test sentences."""
    if files:
        train, test = map(read_conllu, files)
    else:
        texts = ["".join(map(conllu_text, bundled_rows(part, "dependency"))).encode() for part in ("train", "dev")]
        train, test = (parse_conllu(text, "bundled") for text in texts)
    return train, test


def measure_trees(job: Job, warm: Warm | None = None) -> Cell:
    """Train and score a parser of constituents; seconds as :func:`.training.measure` has them."""
    train, test = trees_of(job.files)
    parser = Parser(**job.options, seed=job.seed, threads=job.threads)
    words = [tree.leaves() for tree in test]
    if warm is not None:
        warm.up(job, lambda: parser.fit(train[:WARM_UP_SENTENCES]).predict(words[:1]))
    began = time.process_time()
    parser.fit(train)
    seconds = time.process_time() - began
    if parser.interrupted_:
        raise LoglinearError("the training was stopped by a signal")
    report = bracket_scores(test, parser.predict(words))
    wrong = re.search(r"([\d,]+) wrong ones", parser.message_)
    return {
        "job": job.identity, "test": report.to_dict(), "counts": report.counts[:, :3].tolist(), "seconds": seconds,
        "message": parser.message_, "sentences": len(train), "wrong_edges": wrong[1] if wrong else "",
    }  # fmt: skip


def measure_dependencies(job: Job, warm: Warm | None = None) -> Cell:
    """The same of a parser of dependencies."""
    train, test = dependencies_of(job.files)
    make = partial(DependencyParser, seed=job.seed, threads=job.threads)
    if warm is not None:
        few = train.select(range(min(WARM_UP_SENTENCES, train.n_sentences)))
        least = {} if job.options["criterion"] == "generative" else {"max_iter": WARM_UP_ITERATIONS}
        warm.up(job, lambda: make(**{**job.options, **least}).fit(few).parse(few))
    parser = make(**job.options)
    began = time.process_time()
    parser.fit(train)
    seconds = time.process_time() - began
    parses = parser.parse(test)
    return {
        "job": job.identity, "test": attachment_scores(test, parses.heads, parses.relations).to_dict(),
        "counts": attachment_counts(test, parses.heads).tolist(), "seconds": seconds, "message": parser.message_,
        "sentences": train.n_sentences,
    }  # fmt: skip
