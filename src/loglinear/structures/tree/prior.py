"""How likely a symbol is in the context of its span: what a beam adds to values before it compares them.

The value of a symbol A at a span (i, j) is that of the words inside. The rest of the tree depends on how frequent A is
and on what surrounds it, so that the beam of :meth:`~loglinear.structures.tree.structure.CFGTree.best` compares

    value(A, i, j)  +  log p(A)  +  log p(word i-1 just before A)  +  log p(word j just after A)

    p(w before A) = sum over tags t of  p(w given t) p(t before A)
    p(t before A) = (c(t, A) + s p(t)) / (c(A) + s)

(after Caraballo and Charniak 1998, *New figures of merit for best-first probabilistic chart parsing*: their boundary
estimate, with the words' tags summed out). The model keeps the counts c(t, A) of tags beside the constituents of its
training trees; p(w given t) is what the lexical scores say of the sentence. The ends of a sentence are a tag, too.

Letters: K symbols, P preterminals, n words of a sentence, S sentences, N spans of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from loglinear.arrays import Array, Arrays, Float, Int32, Int64
from loglinear.kernels import kernel
from loglinear.model_file import Reader
from loglinear.structures.tree.grammar import CFGGrammar

SMOOTHING = 10.0  # s; chosen with the parser's default beam on the dev trees of the Penn Treebank sample


@dataclass(frozen=True)
class ContextPrior:
    """How often each symbol was seen after and before each tag.

    Parameters
    ----------
    before, after : int32 [P + 1, K]
        Constituents of each symbol that follow a tag, or that are followed by one; the last row is for the ends of
        sentences.
    """

    before: Int32
    after: Int32

    @classmethod
    def of_labels(cls, grammar: CFGGrammar, lengths: Int64, labels: Int32) -> Self:
        """The counts of trees ``labels`` [N, 3] over sentences of ``lengths`` [S] words."""
        p, k = grammar.n_preterminals, grammar.n_symbols
        sizes = lengths * (lengths + 1) // 2
        sentence = np.repeat(np.arange(len(lengths)), sizes)
        span = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        end = ((np.sqrt(8.0 * span + 1.0) + 1.0) / 2.0).astype(np.int64)  # j of span j (j - 1) / 2 + i
        start = span - end * (end - 1) // 2
        first = (np.cumsum(lengths) - lengths + 2 * np.arange(len(lengths)))[sentence]  # each sentence has two ends
        rule, _, step = labels.T
        is_word = end - start == 1
        tags = np.full(int(lengths.sum()) + 2 * len(lengths), p)
        tags[(first + start + 1)[is_word]] = rule[is_word]
        kept = np.flatnonzero(rule >= 0)
        symbol = np.empty(len(kept), dtype=np.int64)
        of_word, phrase, stepped = is_word[kept], ~is_word[kept], step[kept] >= 0
        symbol[of_word] = grammar.preterminals[rule[kept][of_word]]
        symbol[phrase] = grammar.binary[rule[kept][phrase], 0]
        symbol[stepped] = grammar.steps[step[kept][stepped], 0]
        counts = (
            np.bincount(tags[place] * k + symbol, minlength=(p + 1) * k).reshape(p + 1, k).astype(np.int32)
            for place in ((first + start)[kept], (first + end + 1)[kept])
        )
        return cls(*counts)

    @cached_property
    def _tables(self) -> tuple[Float, Float]:
        """p(t before A) p(A) and p(t after A), each [P + 1, K]."""
        frequency = self.before.sum(axis=0) + 1.0 / len(self.before)  # a symbol never seen is not impossible
        return _smoothed(self.before) * (frequency / frequency.sum()), _smoothed(self.after)

    def beside(self, word_offsets: Int64, lexical: Float) -> tuple[Float, Float]:
        """What the context of spans adds to the value of each symbol, as two arrays [words + S, K].

        A sentence of n words has n + 1 rows. Row i of the first is log p(A) + log p(word i-1 before A), row j of the
        second log p(word j after A), but for a constant, for the spans (i, j) of ``lexical`` scores [words, P].
        O(K) times the number of tags that the words may have.
        """
        shape = (len(lexical) + len(word_offsets) - 1, self.before.shape[1])
        before, after = np.zeros(shape), np.zeros(shape)
        _add_contexts(word_offsets, np.ascontiguousarray(lexical), *self._tables, before, after)
        return np.log(before, out=before), np.log(after, out=after)

    # -- as data -----------------------------------------------------------------------------------------------------

    def to_arrays(self) -> Arrays:
        """The counts for a model file, tag by tag: how many symbols it was seen with, which, and how often."""
        arrays: dict[str, Array] = {}
        for name in ("before", "after"):
            counts: Int32 = getattr(self, name)
            tags, symbols = np.nonzero(counts)
            arrays[f"prior_{name}"] = np.bincount(tags, minlength=len(counts)).astype(np.int32)
            arrays[f"prior_{name}_symbols"] = symbols.astype(np.int32)
            arrays[f"prior_{name}_counts"] = counts[tags, symbols]
        return arrays

    @classmethod
    def from_storage(cls, read: Reader, n_tags: int, n_symbols: int) -> Self | None:
        """The counts that :meth:`to_arrays` described; None if the file has none."""
        if "prior_before" not in read.arrays:
            return None
        both = []
        for name in ("before", "after"):
            pointer, symbols = read.lists(f"prior_{name}", f"prior_{name}_symbols", n_tags + 1, n_symbols)
            counts = np.zeros((n_tags + 1, n_symbols), dtype=np.int32)
            tags = np.repeat(np.arange(n_tags + 1), np.diff(pointer))
            counts[tags, symbols] = read.ints(f"prior_{name}_counts", (len(symbols),))
            both.append(counts)
        return cls(*both)


def _smoothed(counts: Int32) -> Float:
    """p(t given A) [P + 1, K] from counts of the same shape; above 0."""
    of_tags = counts.sum(axis=1) + 1.0
    return (counts + SMOOTHING * (of_tags / of_tags.sum())[:, None]) / (counts.sum(axis=0) + SMOOTHING)


@kernel
def _add_contexts(
    word_offsets: Int64, lexical: Float, table_before: Float, table_after: Float, before: Float, after: Float
) -> None:
    """Add p(w before A) p(A) and p(w after A), but for a factor, to ``before`` and ``after`` [words + S, K]."""
    p = lexical.shape[1]
    for s in range(word_offsets.shape[0] - 1):
        first, end = word_offsets[s], word_offsets[s + 1]
        _add_row(1.0, table_before[p], before[first + s])
        _add_row(1.0, table_after[p], after[end + s])
        for t in range(first, end):
            tags, most = lexical[t], -np.inf
            for tag in range(p):
                most = max(most, tags[tag])
            for tag in range(p):
                # without a possible tag, all are equally likely
                share = np.exp(tags[tag] - most) if most > -np.inf else 1.0
                if share > 0.0:
                    _add_row(share, table_before[tag], before[t + s + 1])
                    _add_row(share, table_after[tag], after[t + s])


@kernel
def _add_row(factor: float, row: Float, total: Float) -> None:
    for a in range(row.shape[0]):
        total[a] += factor * row[a]
