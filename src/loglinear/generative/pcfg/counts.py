"""A PCFG from a treebank: relative frequencies of the rules of binary trees, smoothed or not.

    p(B C given A)  = (c(A -> B C) + l) / sum over the rules that A has been seen with

The trees are binary (:func:`loglinear.data.trees.transforms.binarise`), plain, markovised or annotated by the user.
With ``backoff`` = s > 0 a phrase whose label is annotated backs off to all phrases of its base label together,

    p(B C given A)  = (c(A -> B C) + s p(B C given the base of A)) / (c(A) + s),

so that it has their rules too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loglinear.arrays import Float, Int32
from loglinear.data.trees.transforms import base_label
from loglinear.data.trees.tree import Tree
from loglinear.errors import DataError
from loglinear.generative.pcfg.lexicon import LexiconSmoothing, TaggedWord, counted_lexicon, smoothed_lexicon
from loglinear.generative.pcfg.model import PCFG, BaseOf, check_constant
from loglinear.structures.tree.grammar import ANY_ROOT, Name, constituents

Rule = tuple[Name, ...]  # parent, then one child or two


@dataclass(frozen=True)
class TreebankCounts:
    """How often a treebank uses each rule.

    Attributes
    ----------
    n_trees : int
    root : (str, bool)
        The symbol of whole sentences.
    rules : Counter
        Of tuples of names: parent and two children, or parent and one.
    words : list
        Of tag, word and whether the word begins a sentence.
    """

    n_trees: int
    root: Name
    rules: Counter[Rule]
    words: list[tuple[Name, str, bool]]


def count_trees(trees: Sequence[Tree]) -> TreebankCounts:
    """Count the rules of binary trees; an additional symbol is above the roots if these have different labels."""
    if not trees:
        raise DataError("there are no trees to count")
    roots = dict.fromkeys((tree.label, tree.word is not None) for tree in trees)
    several = len(roots) > 1 or next(iter(roots))[1]
    rules: Counter[Rule] = Counter()
    words: list[tuple[Name, str, bool]] = []
    for tree in trees:
        if several:
            rules[(ANY_ROOT, False), (tree.label, tree.word is not None)] += 1
        for c in constituents(tree):
            rules.update(zip(c.chain[:-1], c.chain[1:], strict=True))
            if c.parts is not None:
                rules[(c.chain[-1], *c.parts)] += 1
            elif c.word is not None:
                words.append((c.chain[-1], c.word, c.start == 0))
    return TreebankCounts(len(trees), (ANY_ROOT, False) if several else next(iter(roots)), rules, words)


def treebank_pcfg(
    trees: Sequence[Tree],
    *,
    smoothing: float = 0.0,
    backoff: float = 0.0,
    lexicon: LexiconSmoothing | None = LexiconSmoothing(),  # noqa: B008  # it is frozen
    base: BaseOf = base_label,
) -> PCFG:
    """The PCFG of binary trees.

    Parameters
    ----------
    trees : sequence of Tree
        With one or two children at each node.
    smoothing : float
        l, added to the count of each rule that a phrase has.
    backoff : float
        s, how much a phrase backs off to those of the same base label.
    lexicon : LexiconSmoothing or None
        How words are smoothed; with None they are not, and unknown words have no tag.
    base : callable
        From a label to the label without annotations.
    """
    check_constant("smoothing", smoothing)
    check_constant("backoff", backoff)
    counts = count_trees(trees)
    rules = _backed_off(counts.rules, backoff, base)
    names = dict.fromkeys(name for rule in rules for name in rule)
    names.setdefault(counts.root)
    names.update(dict.fromkeys(tag for tag, _, _ in counts.words))
    tags, phrases = ([name for name in names if name[1] is is_tag] for is_tag in (True, False))
    number = {name: a for a, name in enumerate([*tags, *phrases])}
    words: list[TaggedWord] = [(number[tag], word, first) for tag, word, first in counts.words]
    if lexicon is None:
        words_of_tags = counted_lexicon(words, len(tags))
    else:
        words_of_tags = smoothed_lexicon(words, [tag for tag, _ in tags], base, lexicon)
    binary_rules, binary = _numbered(rules, number, 3, smoothing)
    unary_rules, unary = _numbered(rules, number, 2, smoothing)
    totals = np.zeros(len(number))
    np.add.at(totals, binary_rules[:, 0], binary)
    np.add.at(totals, unary_rules[:, 0], unary)
    return PCFG(
        [name for name, _ in number], number[counts.root], binary_rules, binary / totals[binary_rules[:, 0]],
        unary_rules, unary / totals[unary_rules[:, 0]], words_of_tags,
    )  # fmt: skip


def _numbered(rules: dict[Rule, float], number: dict[Name, int], size: int, smoothing: float) -> tuple[Int32, Float]:
    """The rules of ``size`` symbols in the grammar's order, and their counts."""
    wanted = [(tuple(number[name] for name in rule), n) for rule, n in rules.items() if len(rule) == size]
    wanted.sort(key=lambda item: (*item[0][1:], item[0][0]))
    array = np.array([rule for rule, _ in wanted], dtype=np.int32).reshape(-1, size)
    return array, np.array([n for _, n in wanted], dtype=np.float64) + smoothing


def _backed_off(counts: Counter[Rule], strength: float, base: BaseOf) -> dict[Rule, float]:
    """Counts plus ``strength`` times the rules' frequencies among all phrases of the same base label."""
    totals: Counter[Name] = Counter()
    pooled: dict[str, Counter[Rule]] = {}
    for rule, n in counts.items():
        totals[rule[0]] += n
        pooled.setdefault(base(rule[0][0]), Counter())[rule[1:]] += n
    result = {rule: float(n) for rule, n in counts.items()}
    for parent in totals if strength else ():
        pool = pooled[base(parent[0])]
        total = sum(pool.values())
        for children, n in pool.items():
            rule = (parent, *children)
            result[rule] = result.get(rule, 0.0) + strength * n / total
    return result
