"""A PCFG from a treebank: relative frequencies of the rules of binary trees, smoothed or not.

    p(B C given A)  = (c(A -> B C) + l) / sum over the rules that A has been seen with

The trees are binary (:func:`loglinear.data.trees.transforms.binarise`), plain, markovised or annotated by the user.
With ``backoff`` = s > 0 a phrase whose label is annotated backs off to all phrases of its base label together,

    p(B C given A)  = (c(A -> B C) + s p(B C given the base of A)) / (c(A) + s),

so that it has their rules too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from loglinear.arrays import Array, Arrays, Float, Int32, Int64
from loglinear.data.trees.transforms import base_label
from loglinear.data.trees.tree import Tree
from loglinear.errors import DataError
from loglinear.generative.pcfg.lexicon import (
    LexiconSmoothing,
    TaggedWord,
    counted_lexicon,
    rare_words,
    smoothed_lexicon,
)
from loglinear.generative.pcfg.model import PCFG, BaseOf, check_constant
from loglinear.model_file import Reader, string_arrays
from loglinear.structures.tree.grammar import ANY_ROOT, Name, constituents
from loglinear.structures.tree.prior import ContextPrior

T = TypeVar("T")
Rule = tuple[Name, ...]  # parent, then one child or two


ABOVE: Name = (ANY_ROOT, False)  # the parent of all roots
Tagged = tuple[Name, str, bool]  # tag, word, whether it begins a sentence
Context = tuple[Name | None, Name]  # a tag, or None for an end of the sentence, beside a symbol


@dataclass(frozen=True)
class TreebankCounts:
    """How often a treebank, or a part of one, uses each rule.

    Counts of parts can be added: all dictionaries are in the order of first occurrences, so that the sum of parts is
    what counting them one after the other gives.

    Attributes
    ----------
    n_trees : int
    rules_and_roots : Counter
        Of tuples of names: parent and two children, parent and one, or :data:`ANY_ROOT` and the root of a tree.
    words : Counter
        Of tag, word and whether the word begins a sentence.
    rare : list
        All occurrences of words that occur at most ``most_rare`` times, in their order.
    before, after : Counter
        Of a tag beside a constituent, and the constituent's symbol; without those of whole sentences.
    labels : frozenset of str
        The labels of the trees as they were before they became binary.
    most_rare : int
    """

    kind: ClassVar[str] = "trees"
    n_trees: int
    rules_and_roots: Counter[Rule]
    words: Counter[Tagged]
    rare: list[Tagged]
    before: Counter[Context]
    after: Counter[Context]
    labels: frozenset[str]
    most_rare: int

    def __add__(self, other: TreebankCounts) -> TreebankCounts:
        """The counts of this part followed by another."""
        words = self.words + other.words
        return TreebankCounts(
            self.n_trees + other.n_trees, self.rules_and_roots + other.rules_and_roots, words,
            rare_words([*self.rare, *other.rare], words, self.most_rare), self.before + other.before,
            self.after + other.after, self.labels | other.labels, self.most_rare,
        )  # fmt: skip

    @property
    def nodes(self) -> Counter[str]:
        """How many nodes of the binary trees have each label."""
        found: Counter[str] = Counter()
        for rule, n in self.rules_and_roots.items():
            for label, _ in rule[1:]:
                found[label] += n
        return found

    def renamed(self, labels: Mapping[str, str]) -> TreebankCounts:
        """The counts of the same trees with other labels."""

        def name(old: Name) -> Name:
            return labels.get(old[0], old[0]), old[1]

        rules: Counter[Rule] = Counter()
        words: Counter[Tagged] = Counter()
        before: Counter[Context] = Counter()
        after: Counter[Context] = Counter()
        for rule, n in self.rules_and_roots.items():
            rules[tuple(map(name, rule))] += n
        for (tag, word, begins), n in self.words.items():
            words[name(tag), word, begins] += n
        for old, new in ((self.before, before), (self.after, after)):
            for (beside, symbol), n in old.items():
                new[None if beside is None else name(beside), name(symbol)] += n
        rare = [(name(tag), word, begins) for tag, word, begins in self.rare]
        return replace(self, rules_and_roots=rules, words=words, rare=rare, before=before, after=after)

    @property
    def n_words(self) -> int:
        """Words, as often as they occur."""
        return self.words.total()

    @property
    def root(self) -> Name:
        """The symbol of whole sentences: an additional one if there are several roots, or words without a phrase."""
        roots = [rule[1] for rule in self.rules_and_roots if rule[0] == ABOVE]
        return ABOVE if len(roots) > 1 or roots[0][1] else roots[0]

    @property
    def rules(self) -> Counter[Rule]:
        """The grammar's rules; those of an additional root are among them if there is one."""
        if self.root == ABOVE:
            return self.rules_and_roots
        return Counter({rule: n for rule, n in self.rules_and_roots.items() if rule[0] != ABOVE})

    def prior(self, number: Mapping[Name, int], n_tags: int) -> ContextPrior:
        """The contexts of symbols, by their numbers."""
        tables = []
        for contexts in (self.before, self.after):
            table = np.zeros((n_tags + 1, len(number)), dtype=np.int32)
            for (tag, symbol), n in contexts.items():
                table[n_tags if tag is None else number[tag], number[symbol]] += n
            table[n_tags, number[self.root]] += self.n_trees
            tables.append(table)
        return ContextPrior(*tables)

    # -- as data -----------------------------------------------------------------------------------------------------

    def to_storage(self) -> tuple[dict[str, Any], Arrays]:
        """Header and arrays of a file: names and words are numbered in the order of their first occurrence."""
        names: dict[Name, int] = {}
        words: dict[str, int] = {}

        def number(name: Name) -> int:
            return names.setdefault(name, len(names))

        def tagged(items: Iterable[Tagged]) -> Array:
            rows = [(number(tag), words.setdefault(word, len(words)), begins) for tag, word, begins in items]
            return np.array(rows, dtype=np.int32).reshape(-1, 3)

        def contexts(items: Iterable[Context]) -> Array:
            rows = [(0 if tag is None else number(tag) + 1, number(symbol)) for tag, symbol in items]
            return np.array(rows, dtype=np.int32).reshape(-1, 2)

        rows = [[*(number(name) + 1 for name in rule), 0][:3] for rule in self.rules_and_roots]
        counted = {
            "rules": np.array(rows, dtype=np.int32).reshape(-1, 3), "words": tagged(self.words),
            "before": contexts(self.before), "after": contexts(self.after),
        }  # fmt: skip
        counters: list[Counter[Any]] = [self.rules_and_roots, self.words, self.before, self.after]
        counts = {f"{part}.counts": _amounts(each) for part, each in zip(counted, counters, strict=True)}
        arrays: Arrays = {**counted, **counts, "rare": tagged(self.rare)}
        arrays |= string_arrays("names", [name for name, _ in names]) | string_arrays("strings", list(words))
        arrays["is_tag"] = np.array([is_tag for _, is_tag in names], dtype=np.uint8)
        arrays |= string_arrays("labels", sorted(self.labels))
        return {"n_trees": self.n_trees, "most_rare": self.most_rare}, arrays

    @classmethod
    def from_storage(cls, read: Reader) -> Self:
        """What :meth:`to_storage` described."""
        strings, is_tag = read.strings("names"), read.ints("is_tag", (None,), 2).tolist()
        with read.building("names"):
            names: list[Name] = [(name, bool(each)) for name, each in zip(strings, is_tag, strict=True)]
        words = read.strings("strings", distinct=True)

        def counter(part: str, items: Sequence[T]) -> Counter[T]:
            found = read.array(f"{part}.counts", (np.int64,), (len(items),))
            if len(items) and found.min() < 1:
                read.fail(f"{part}.counts", "not all counts are positive")
            return Counter(dict(zip(items, found.tolist(), strict=True)))

        def tagged(part: str) -> list[Tagged]:
            rows = read.ints(part, (None, 3)).tolist()
            with read.building(part):
                return [(names[tag], words[word], bool(begins)) for tag, word, begins in rows]

        def contexts(part: str) -> list[Context]:
            rows = read.ints(part, (None, 2), len(names) + 1).tolist()
            with read.building(part):
                return [(names[tag - 1] if tag else None, names[symbol]) for tag, symbol in rows]

        rows = read.ints("rules", (None, 3), len(names) + 1).tolist()
        if not all(parent and left for parent, left, _ in rows):
            read.fail("rules", "a rule without a parent or a child")
        rules: list[Rule] = [tuple(names[a - 1] for a in row if a) for row in rows]
        if not any(rule[0] == ABOVE for rule in rules):
            read.fail("rules", "no tree has a root")
        every, before, after = tagged("words"), contexts("before"), contexts("after")
        return cls(
            read.integer("n_trees", 1), counter("rules", rules), counter("words", every), tagged("rare"),
            counter("before", before), counter("after", after), frozenset(read.strings("labels")),
            read.integer("most_rare"),
        )  # fmt: skip


def _amounts(counter: Counter[Any]) -> Int64:
    return np.array(list(counter.values()), dtype=np.int64)


def count_trees(
    trees: Sequence[Tree], labels: Iterable[str] = (), most_rare: int = LexiconSmoothing().rare
) -> TreebankCounts:
    """Count the rules of binary trees, which had the ``labels`` before they became binary."""
    if not trees:
        raise DataError("there are no trees to count")
    rules: Counter[Rule] = Counter()
    words: list[Tagged] = []
    before: Counter[Context] = Counter()
    after: Counter[Context] = Counter()
    for tree in trees:
        rules[ABOVE, (tree.label, tree.word is not None)] += 1
        found = constituents(tree)
        tags: list[Name | None] = [None] * (found[0].end + 2)  # each sentence has two ends
        for c in found:
            rules.update(zip(c.chain[:-1], c.chain[1:], strict=True))
            if c.parts is not None:
                rules[c.chain[-1], *c.parts] += 1
            elif c.word is not None:
                words.append((c.chain[-1], c.word, c.start == 0))
                tags[c.start + 1] = c.chain[-1]
        before.update((tags[c.start], c.chain[0]) for c in found[1:])
        after.update((tags[c.end + 1], c.chain[0]) for c in found[1:])
    counted = Counter(words)
    rare = rare_words(words, counted, most_rare)
    return TreebankCounts(len(trees), rules, counted, rare, before, after, frozenset(labels), most_rare)


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
    counts = count_trees(trees, most_rare=0 if lexicon is None else lexicon.rare)
    return counted_pcfg(counts, smoothing=smoothing, backoff=backoff, lexicon=lexicon, base=base)


def counted_pcfg(
    counts: TreebankCounts,
    *,
    smoothing: float = 0.0,
    backoff: float = 0.0,
    lexicon: LexiconSmoothing | None = LexiconSmoothing(),  # noqa: B008  # it is frozen
    base: BaseOf = base_label,
    prior: bool = False,
) -> PCFG:
    """The PCFG of counted trees; arguments as for :func:`treebank_pcfg`, ``prior`` for one for a search with a beam."""
    check_constant("smoothing", smoothing)
    check_constant("backoff", backoff)
    rules = _backed_off(counts.rules, backoff, base)
    names = dict.fromkeys(name for rule in rules for name in rule)
    names.setdefault(counts.root)
    names.update(dict.fromkeys(tag for tag, _, _ in counts.words))
    tags, phrases = ([name for name in names if name[1] is is_tag] for is_tag in (True, False))
    number = {name: a for a, name in enumerate([*tags, *phrases])}
    words: dict[TaggedWord, int] = {(number[tag], word, first): n for (tag, word, first), n in counts.words.items()}
    if lexicon is None:
        words_of_tags = counted_lexicon(words, len(tags))
    else:
        rare: list[TaggedWord] = [(number[tag], word, first) for tag, word, first in counts.rare]
        words_of_tags = smoothed_lexicon(words, rare, [tag for tag, _ in tags], base, lexicon)
    binary_rules, binary = _numbered(rules, number, 3, smoothing)
    unary_rules, unary = _numbered(rules, number, 2, smoothing)
    totals = np.zeros(len(number))
    np.add.at(totals, binary_rules[:, 0], binary)
    np.add.at(totals, unary_rules[:, 0], unary)
    return PCFG(
        [name for name, _ in number], number[counts.root], binary_rules, binary / totals[binary_rules[:, 0]],
        unary_rules, unary / totals[unary_rules[:, 0]], words_of_tags,
        counts.prior(number, len(tags)) if prior else None,
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
