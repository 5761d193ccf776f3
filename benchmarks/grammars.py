"""PCFGs of the Penn Treebank sample: how well and how quickly they parse, and how quickly sums over trees are made.

    python -m benchmarks.grammars [--held-out | --part dev] [--beams 8 10 12]

Trains on ptb.train and parses ptb.dev and ptb.test, or one of them (--held-out: trains on all but the last 400 trees of
ptb.train and parses those, which is what the lexicon's constants were chosen on). Labelled F1 as evalb counts it; a
sentence without a tree counts as one without brackets. Sentences a second of processor time, one thread, one sentence
at a time: the best tree (with the lexicon's part, without building the tree), log p of the words, expected rules.

With --beams the exact search is compared with searches that have a beam: whole parses, from words to trees, of
sentences of at most 40 words, a second of wall-clock time on one thread and on two; how many trees have the score of
the exact search; and how many sentences had no tree within the beam and were searched again. The parser's default
beam was chosen with --part dev.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.corpora import data_folder
from loglinear.data.trees.annotation import TreeTransform
from loglinear.data.trees.transforms import restore
from loglinear.data.trees.tree import Tree, read_trees
from loglinear.estimators.parser.model import best_parses
from loglinear.evaluation.brackets import bracket_scores
from loglinear.generative.pcfg.counts import treebank_pcfg
from loglinear.generative.pcfg.model import PCFG

GRAMMARS: dict[str, tuple[str, TreeTransform]] = {
    "plain": ("ptb.train.mrg", TreeTransform("none", horizontal=None)),
    "v2 h2": ("ptb.train.mrg", TreeTransform("parent")),
    "K&M trees, h2": ("ptb.train.km.mrg", TreeTransform("none", marks="^-")),
    "rich (default)": ("ptb.train.mrg", TreeTransform()),
}
LENGTHS = (15, 40)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--held-out", action="store_true", help="test on the last 400 trees of ptb.train")
    parser.add_argument("--part", choices=("dev", "test"), help="parse one of the two instead of both")
    parser.add_argument("--beams", type=float, nargs="+", help="compare the exact search with these beams")
    arguments = parser.parse_args()
    folder = data_folder().parent / "ptb"
    parts = (arguments.part,) if arguments.part else ("dev", "test")
    if arguments.beams:
        columns = "grammar", "beam", "F1", "same score", "searched again", "parses/s", "on two threads"
    else:
        columns = "grammar", "rules", "words", "F1", "failures", "best trees/s", "log p/s", "expectations/s"
    table = Table(*columns)
    for name, (file, transform) in GRAMMARS.items():
        trees = read_trees(folder / file)
        if arguments.held_out:
            gold, trees = read_trees(folder / "ptb.train.mrg")[-400:], trees[:-400]
        else:
            gold = [tree for part in parts for tree in read_trees(folder / f"ptb.{part}.mrg")]
        binary = transform.apply(trees)
        model = treebank_pcfg(binary)
        if arguments.beams:
            some = [tree for tree in gold if len(tree.leaves()) <= LENGTHS[-1]]
            for row in _searches(model.with_prior(binary), some, arguments.beams):
                table.add_row(name, *row)
            continue
        for most in LENGTHS:
            some = [tree for tree in gold if len(tree.leaves()) <= most]
            table.add_row(name, f"{len(model.binary):,}", f"<= {most}", *_measured(model, some))
    Console().print(table)


def _measured(model: PCFG, gold: Sequence[Tree]) -> list[str]:
    sentences = [tree.leaves() for tree in gold]
    for words in sentences[:1]:  # compile
        _best(model, words)
        _expected(model, words)
    found, best = _timed(lambda: [_best(model, words) for words in sentences])
    trees = [
        restore(model.tree(words, labels)) if score[0] > -np.inf else None
        for words, (labels, score) in zip(sentences, found, strict=True)
    ]
    able = [words for words, tree in zip(sentences, trees, strict=True) if tree is not None]
    _, inside = _timed(lambda: [model.log_probability([words]) for words in able])
    _, both = _timed(lambda: [_expected(model, words) for words in able])
    failures = sum(tree is None for tree in trees)
    speeds = [f"{len(sentences) / best:.0f}", f"{len(able) / inside:.0f}", f"{len(able) / both:.0f}"]
    return [f"{bracket_scores(gold, trees).f1:.2f}", str(failures), *speeds]


def _searches(model: PCFG, gold: Sequence[Tree], beams: Sequence[float]) -> Iterator[list[str]]:
    """A row for the exact search and for each beam."""
    sentences, best = [tree.leaves() for tree in gold], np.empty(0)
    best_parses(model, sentences[:1], beam=beams[0])  # compile
    gc.collect()
    gc.freeze()  # a full collection over the treebanks in memory, a quarter of a second, would hit one of the rows
    for beam in (np.inf, *beams):
        seconds = []
        for threads in (1, 2):
            begun = time.perf_counter()
            parses = best_parses(model, sentences, threads, time_limit=60.0, beam=beam)
            seconds.append(time.perf_counter() - begun)
        found = np.array([parse.score for parse in parses])
        best = found if beam == np.inf else best
        f1 = bracket_scores(gold, [None if parse.failure else parse.tree for parse in parses]).f1
        again = sum(parse.beam > beam for parse in parses)
        speeds = [f"{len(sentences) / each:.0f}" for each in seconds]
        yield [f"{beam:g}", f"{f1:.2f}", f"{(found == best).sum()} of {len(best)}", str(again), *speeds]


def _best(model: PCFG, words: Sequence[str]) -> Any:
    return model.structure([words]).best(model.scores([words]))


def _expected(model: PCFG, words: Sequence[str]) -> Any:
    return model.structure([words]).expectations(model.scores([words], sums=True))


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.process_time()
    result = work()
    return result, time.process_time() - begun


if __name__ == "__main__":
    main()
