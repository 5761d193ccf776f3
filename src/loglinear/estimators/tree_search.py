"""The best trees of many sentences: on several threads, each within a time limit, and never without an answer.

Sentences are parsed one at a time, the longest first. A watch sets a flag when a sentence's time is up, and the kernel,
which looks at the flag before each span, gives up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from loglinear.data.tree_transforms import restore
from loglinear.data.tree_words import fallback_tree, tree_word
from loglinear.data.trees import Tree
from loglinear.estimators.posterior_trees import PosteriorDecoder
from loglinear.structures.cfg_grammar import CFGGrammar
from loglinear.structures.cfg_tree import CFGScores, CFGTree
from loglinear.structures.tree_coder import TreeCoder
from loglinear.threads import in_threads

MOST_WORDS = 1000  # of a sentence that is parsed; charts grow with the square
SUMS = 6.0  # how much longer than the search for the best tree sums may take


class TreeModel(Protocol):
    """A trained model of trees, as parsing sees it: a grammar, and scores of its rules over the words of sentences."""

    @property
    def grammar(self) -> CFGGrammar:
        """The symbols and rules."""

    @property
    def coder(self) -> TreeCoder:
        """The names of the symbols, and what the steps stand for."""

    def scores(self, sentences: Sequence[Sequence[str]]) -> CFGScores:
        """The part scores of sentences, for their best trees."""

    def sum_scores(self, sentences: Sequence[Sequence[str]]) -> CFGScores:
        """The part scores of sentences, for sums over trees."""

    def tree(self, words: Sequence[str], labels: npt.NDArray[np.int32]) -> Tree:
        """The binary tree that a labelling [N, 3] of the spans of one sentence means."""

    def best_tags(self, words: Sequence[str]) -> list[str]:
        """The most probable part of speech of each word by itself, without notes."""


class Parse(NamedTuple):
    """A tree for a sentence.

    Attributes
    ----------
    tree : Tree
        The best tree, or one flagged as none.
    score : float
        Its score; -inf if there is no parse.
    failure : str
        Why there is none; empty if there is.
    """

    tree: Tree
    score: float
    failure: str


def best_parses(
    model: TreeModel,
    sentences: Sequence[Sequence[str]],
    n_threads: int = 1,
    time_limit: float | None = None,
    observe: Callable[[], Any] | None = None,
    posterior: bool = False,
) -> list[Parse]:
    """The best tree of each sentence, which has a word at least; ``observe`` is called after each.

    ``posterior`` asks for trees of the brackets most likely to be right; the scores stay those of the most probable.
    """
    decoder = PosteriorDecoder(model.coder) if posterior else None

    def parse(number: int) -> Parse:
        found = _parse(model, [tree_word(word) for word in sentences[number]], time_limit, decoder)
        if observe is not None:
            observe()
        return found

    longest_first = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
    parses = in_threads(parse, longest_first, n_threads)
    in_order: list[Parse | None] = [None] * len(sentences)
    for number, found in zip(longest_first, parses, strict=True):
        in_order[number] = found
    return [found for found in in_order if found is not None]


def _parse(model: TreeModel, words: list[str], time_limit: float | None, decoder: PosteriorDecoder | None) -> Parse:
    if len(words) > MOST_WORDS:
        return _failed(model, words, f"no parse of more than {MOST_WORDS:,} words")
    stop, begin = np.zeros(1, dtype=np.uint8), time.perf_counter()
    watch = None
    if time_limit is not None:
        watch = threading.Timer(time_limit, stop.fill, (1,))
        watch.daemon = True
        watch.start()
    try:
        tree, scores = CFGTree(model.grammar, [len(words)]), model.scores([words])
        labels, best = tree.best(scores, stop=stop)
        if best[0] == -np.inf and not stop[0]:  # perhaps a word has not the tag it needs
            labels, best = tree.best(scores.with_any_tag(), stop=stop)
    finally:
        if watch is not None:
            watch.cancel()
    if best[0] == -np.inf:
        return _failed(model, words, f"no parse within {time_limit:g} seconds" if stop[0] else "no parse")
    likeliest = None
    if decoder is not None and (time_limit is None or SUMS * (time.perf_counter() - begin) < time_limit):
        likeliest = decoder.tree(words, model.sum_scores([words]))
    return Parse(restore(model.tree(words, labels)) if likeliest is None else likeliest, float(best[0]), "")


def _failed(model: TreeModel, words: list[str], failure: str) -> Parse:
    return Parse(fallback_tree(words, model.best_tags(words)), -np.inf, failure)
