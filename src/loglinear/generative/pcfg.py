"""Probabilistic context-free grammars: a tree is a product of its rules' probabilities.

    p(tree, words) = product over its nodes of  p(B C given A),  p(B given A)  or  p(word given tag)

The probabilities of a phrase's binary and unary rules add up to one, and so do those of a tag's words
(:mod:`~loglinear.generative.lexicon`). Chains of unary rules become steps
(:mod:`~loglinear.generative.unary_closure`), so that the trees of a sentence are those of
:class:`~loglinear.structures.cfg_tree.CFGTree` with the part scores

    lexical = log p(word given tag)    binary = log p(B C given A)    steps = log of the best chain, or of all together

Letters: K symbols, P tags, R binary rules, M unary rules, U steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.data.tree_transforms import base_label
from loglinear.data.trees import Tree
from loglinear.errors import DataError, OptionError
from loglinear.generative.lexicon import Lexicon
from loglinear.generative.unary_closure import UnaryClosure
from loglinear.structures.cfg_grammar import CFGGrammar
from loglinear.structures.cfg_tree import CFGScores, CFGTree
from loglinear.structures.tree_coder import ANY_ROOT, TreeCoder, constituents

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Sentences = Sequence[Sequence[str]]


@dataclass(frozen=True)
class PCFG:
    """A grammar with probabilities.

    Parameters
    ----------
    symbols : list of str
        K names, tags first.
    root : int
        The symbol of whole sentences.
    binary_rules : int32 [R, 3]
        Parent, left and right child, sorted by left child, right child and parent.
    binary : float64 [R]
        Their probabilities given the parent.
    unary_rules : int32 [M, 2]
        Parent and child.
    unary : float64 [M]
        Their probabilities given the parent.
    lexicon : Lexicon
        Of the P tags.
    """

    symbols: list[str] = field(repr=False)
    root: int
    binary_rules: Int32 = field(repr=False)
    binary: Float = field(repr=False)
    unary_rules: Int32 = field(repr=False)
    unary: Float = field(repr=False)
    lexicon: Lexicon

    def __post_init__(self) -> None:
        grammar = CFGGrammar(len(self.symbols), self.root, np.arange(self.n_tags), self.binary_rules)
        if (grammar.binary != self.binary_rules).any():
            raise DataError("the binary rules must be sorted by left child, right child and parent")

    @property
    def n_symbols(self) -> int:
        """K."""
        return len(self.symbols)

    @property
    def n_tags(self) -> int:
        """P."""
        return self.lexicon.n_tags

    @cached_property
    def closure(self) -> UnaryClosure:
        """The chains of unary rules."""
        return UnaryClosure(self.n_symbols, self.unary_rules, self.unary)

    @cached_property
    def coder(self) -> TreeCoder:
        """From trees to labellings and back."""
        steps, tags = self.closure.steps, np.arange(self.n_tags)
        grammar = CFGGrammar(self.n_symbols, self.root, tags, self.binary_rules, steps)
        return TreeCoder(self.symbols, self.n_tags, grammar, self.closure.chains)

    @property
    def grammar(self) -> CFGGrammar:
        """The rules, and the steps that stand for chains of unary rules."""
        return self.coder.grammar

    # -- sentences ---------------------------------------------------------------------------------------------------

    def structure(self, sentences: Sentences) -> CFGTree:
        """The shape of sentences."""
        return CFGTree(self.grammar, [len(words) for words in sentences])

    def scores(self, sentences: Sentences, sums: bool = False) -> CFGScores:
        """Log-probabilities as part scores: for the best trees, or with ``sums`` for sums over trees."""
        terminals = [self.lexicon.terminal_of(words) for words in sentences]
        return self.terminal_scores(terminals, sums)

    def sum_scores(self, sentences: Sentences) -> CFGScores:
        """The part scores for sums over trees."""
        return self.scores(sentences, sums=True)

    def terminal_scores(self, terminals: Sequence[Int32], sums: bool = False) -> CFGScores:
        """The same of sentences given as the numbers of their words in the lexicon."""
        n_spans = sum(len(words) * (len(words) + 1) // 2 for words in terminals)
        flat = np.concatenate([np.zeros(0, dtype=np.int32), *terminals])
        steps = self.closure.log_total if sums else self.closure.best
        return CFGScores(self.lexicon.scores(flat), self._log_binary, steps[None, :], np.zeros(n_spans, dtype=np.int32))

    @property
    def log_rules(self) -> tuple[Float, Float]:
        """Scores of the grammar's binary rules [R] and of its steps [U], the best chains."""
        return self._log_binary[0], self.closure.best

    @cached_property
    def _log_binary(self) -> Float:
        with np.errstate(divide="ignore"):
            return np.log(self.binary)[None, :]

    def log_probability(self, sentences: Sentences) -> Float:
        """log p(words) [S], the sum over all their trees; -inf for sentences without one."""
        return self.structure(sentences).log_partition(self.scores(sentences, sums=True))

    def tree(self, words: Sequence[str], labels: npt.ArrayLike) -> Tree:
        """The binary tree that a labelling [N, 3] of the spans of one sentence means."""
        return self.coder.tree(words, labels)

    def best_tags(self, words: Sequence[str]) -> list[str]:
        """The most probable part of speech of each word by itself, without notes."""
        joint = self.lexicon.scores(self.lexicon.terminal_of(words)) + self._log_tag_frequency
        commonest = int(np.argmax(self._log_tag_frequency))
        best = np.where(np.isneginf(joint).all(axis=1), commonest, np.argmax(joint, axis=1))
        return [base_label(self.symbols[t]) for t in best.tolist()]

    @cached_property
    def _log_tag_frequency(self) -> Float:
        from loglinear.generative.pcfg_expectations import Expectations

        with np.errstate(divide="ignore"):
            return np.log(np.maximum(Expectations(self).outside[: self.n_tags], 1e-300))

    def log_joint(self, tree: Tree) -> float:
        """log p(tree, words) of a binary tree, -inf if one of its rules is none of the grammar's."""
        total, number = 0.0, self.coder.number
        found = constituents(tree)
        words = [c.word for c in sorted(found, key=lambda c: c.start) if c.word is not None]
        lexical = self.lexicon.scores(self.lexicon.terminal_of(words))
        above: tuple[int, ...] = (self.root,) if self.symbols[self.root] == ANY_ROOT else ()
        try:
            if not above and number[found[0].chain[0]] != self.root:
                return -np.inf
            for c in found:
                chain = above + tuple(number[name] for name in c.chain)
                above = ()
                total += sum(self._log_unary[pair] for pair in pairwise(chain))
                if c.parts is None:
                    total += float(lexical[c.start, chain[-1]])
                else:
                    r = self._rule_number[chain[-1], number[c.parts[0]], number[c.parts[1]]]
                    total += float(self._log_binary[0, r])
        except KeyError:
            return -np.inf
        return total

    @cached_property
    def _log_unary(self) -> dict[tuple[int, int], float]:
        pairs = zip(self.unary_rules.tolist(), self.unary.tolist(), strict=True)
        return {(a, b): float(np.log(p)) if p > 0.0 else -np.inf for (a, b), p in pairs}

    @cached_property
    def _rule_number(self) -> dict[tuple[int, int, int], int]:
        return {(a, b, c): r for r, (a, b, c) in enumerate(self.binary_rules.tolist())}

    # -- as data -----------------------------------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """What a model file keeps: a header of JSON, and arrays."""
        text = "\n".join([*self.symbols, *self.lexicon.terminals]).encode()
        header = {"n_symbols": self.n_symbols, "n_tags": self.n_tags, "root": self.root}
        return header, {
            "names": np.frombuffer(text, dtype=np.uint8),
            "binary_rules": self.binary_rules,
            "binary": self.binary,
            "unary_rules": self.unary_rules,
            "unary": self.unary,
            "lexicon_pointer": self.lexicon.pointer,
            "lexicon_tags": self.lexicon.tags,
            "lexicon_log_p": self.lexicon.log_p,
        }

    @classmethod
    def from_arrays(cls, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> PCFG:
        """The grammar that :meth:`to_arrays` described; anything that does not fit together is a DataError."""
        names = bytes(_array(arrays, "names", np.uint8, 1)).decode().split("\n")
        k, p, root = (int(header[name]) for name in ("n_symbols", "n_tags", "root"))
        if not 0 < p <= k <= len(names) or not 0 <= root < k:
            raise DataError("the numbers of symbols do not fit together")
        pointer = _array(arrays, "lexicon_pointer", np.int64, 1)
        tags, log_p = _array(arrays, "lexicon_tags", np.int32, 1), _array(arrays, "lexicon_log_p", np.float64, 1)
        wrong = len(pointer) != len(names) - k + 1 or (np.diff(pointer) < 0).any() or pointer[0] != 0
        if wrong or not pointer[-1] == len(tags) == len(log_p) or not ((tags >= 0) & (tags < p)).all():
            raise DataError("the lexicon's arrays do not fit together")
        binary_rules, unary_rules = (
            _array(arrays, "binary_rules", np.int32, 2),
            _array(arrays, "unary_rules", np.int32, 2),
        )
        binary, unary = _array(arrays, "binary", np.float64, 1), _array(arrays, "unary", np.float64, 1)
        if binary_rules.shape != (len(binary), 3) or unary_rules.shape != (len(unary), 2):
            raise DataError("rules and probabilities are not equally many")
        for rules, values in ((binary_rules, binary), (unary_rules, unary)):
            if not ((rules >= 0) & (rules < k)).all() or not ((values >= 0.0) & (values <= 1.0 + 1e-9)).all():
                raise DataError("a rule has an unknown symbol or a probability that is none")
        if not (log_p <= 1e-9).all():
            raise DataError("a word has a probability above one")
        lexicon = Lexicon(p, names[k:], pointer, tags, log_p)
        return cls(names[:k], root, binary_rules, binary, unary_rules, unary, lexicon)


def _array(arrays: Mapping[str, npt.NDArray[Any]], name: str, dtype: type, ndim: int) -> npt.NDArray[Any]:
    if name not in arrays or arrays[name].ndim != ndim or arrays[name].dtype != dtype:
        raise DataError(f"the array {name} is missing or of another kind")
    return np.array(arrays[name])


def check_constant(name: str, value: float, least: float = 0.0) -> float:
    """A smoothing constant, refused if it is no finite number from ``least`` up."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < np.inf:
        raise OptionError(f"{name}={value!r} must be a finite number from {least:g} up")
    return float(value)


BaseOf = Callable[[str], str]
