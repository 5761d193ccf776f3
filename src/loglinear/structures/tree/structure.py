"""Trees of a context-free grammar: part scores in, best trees, log-partitions, expected parts and draws out.

A tree y over n words is scored part by part: its tags, its binary rules and its steps
(:mod:`~loglinear.structures.tree.grammar`), each at a span (i, j) of words i .. j-1::

    score(y) = sum over words of  lexical(t, tag)  +  sum over nodes of  binary(i, j, A -> B C) + step(i, j, A <- B)
    p(y)     = exp(score(y)) / Z

*Positions* are spans: a sentence of n words has n (n + 1) / 2, span (i, j) being number j (j - 1) / 2 + i. A
*labelling* is int32 [N, 3], for each span the rule, the split point and the step above it, -1 where there is none; at a
span of one word the first is the number of its tag among the preterminals. A span without a constituent has three -1.

Sums use scaled probabilities (:mod:`~loglinear.structures.tree.sums`) or, for sentences where these could underflow,
log space (:mod:`~loglinear.structures.tree.log_sums`). Operations keep no state, so threads may share a structure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Bool, Float, Int32, Int64, UInt8
from loglinear.errors import DataError, InfeasibleError, OptionError
from loglinear.kernels import kernel
from loglinear.kernels.numbers import INFEASIBLE, NEEDS_LOG_SPACE
from loglinear.structures.structure import best_sizes
from loglinear.structures.tree import best as tree_best
from loglinear.structures.tree import covariance, log_sums, sums
from loglinear.structures.tree.best import BracketLabels, Parts, Search, Sentence, push
from loglinear.structures.tree.grammar import CFGGrammar, Rules
from loglinear.structures.tree.prior import ContextPrior
from loglinear.structures.tree.sums import Brackets

NO_PARTS = Parts(
    np.empty((0, 0)), np.empty((0, 0)), np.empty((0, 0)), np.empty(0, dtype=np.int32), np.empty((0, 1), dtype=np.uint8)
)
NO_CONTEXTS = np.empty((0, 0)), np.empty((0, 0))
NO_BRACKETS = Brackets(
    np.empty(0, dtype=np.int32), np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty((0, 0))
)


@dataclass(frozen=True, slots=True)
class CFGScores:
    """A number for each part of a batch of S sentences with N spans in all: scores, expectations or gradients.

    Parameters
    ----------
    lexical : float64[words, P]
        Of each preterminal over each word.
    binary, steps : float64[X, R], float64[X, U]
        Of each rule and step, in X rows.
    row_of_span : int32[N]
        The row of a span's rules and steps; always 0 if X = 1.
    allowed : uint8[N, K] or uint8[N, 1], optional
        0 for symbols that a span may not have, below or above its step, or for spans that may not be a constituent.
    """

    lexical: Float
    binary: Float
    steps: Float
    row_of_span: Int32
    allowed: UInt8 | None = None

    def zeros_like(self) -> CFGScores:
        """Zeros of the same shapes."""
        lexical, binary, steps = (np.zeros(array.shape) for array in (self.lexical, self.binary, self.steps))
        return CFGScores(lexical, binary, steps, self.row_of_span)

    def subtract(self, other: CFGScores) -> None:
        """Subtract in place; both have the same rows."""
        if self.binary.shape != other.binary.shape:
            raise DataError(f"scores in {len(other.binary)} rows cannot be subtracted from {len(self.binary)} rows")
        for mine, theirs in ((self.lexical, other.lexical), (self.binary, other.binary), (self.steps, other.steps)):
            np.subtract(mine, theirs, out=mine)

    def times(self, factor: float) -> CFGScores:
        """The scores times a factor above 0, as new arrays."""
        return replace(self, lexical=factor * self.lexical, binary=factor * self.binary, steps=factor * self.steps)

    def with_any_tag(self, penalty: float = 10.0) -> CFGScores:
        """The scores with every tag possible: an impossible one gets ``penalty`` less than the worst possible tag."""
        least = np.where(np.isneginf(self.lexical), np.inf, self.lexical).min(axis=1, keepdims=True, initial=np.inf)
        instead = np.where(np.isposinf(least), 0.0, least) - penalty
        return replace(self, lexical=np.where(np.isneginf(self.lexical), instead, self.lexical))

    def with_costs(self, costs: CFGScores) -> CFGScores:
        """The scores plus a cost for each part, as new arrays, with a row for each combination of rows."""
        pairs = self.row_of_span.astype(np.int64) * len(costs.binary) + costs.row_of_span
        if len(self.binary) == len(costs.binary) and (self.row_of_span == costs.row_of_span).all():
            mine = theirs = np.arange(len(self.binary))
            rows = self.row_of_span
        else:
            kinds, inverse = np.unique(pairs, return_inverse=True)
            mine, theirs = np.divmod(kinds, max(len(costs.binary), 1))
            rows = inverse.reshape(-1).astype(np.int32)
        return CFGScores(
            self.lexical + costs.lexical,
            self.binary[mine] + costs.binary[theirs],
            self.steps[mine] + costs.steps[theirs],
            rows,
            self.allowed,
        )


class CFGTree:
    """The shape of a batch of sentences under a grammar, and the operations on their part scores.

    All operations raise :class:`~loglinear.errors.DataError` for scores of a wrong shape, NaN or +inf. Where a sentence
    has no tree with a score above -inf, :meth:`log_partition` and :meth:`score` return -inf and the others raise
    :class:`~loglinear.errors.InfeasibleError`. Time is O(n^3) times the number of applicable rules.

    Parameters
    ----------
    grammar : CFGGrammar
    lengths : int [S]
        Words of each sentence, at least one.
    """

    def __init__(self, grammar: CFGGrammar, lengths: npt.ArrayLike) -> None:
        words = np.asarray(lengths, dtype=np.int64).reshape(-1)
        if (words < 1).any():
            i = int(np.argmax(words < 1))
            raise DataError(f"sentence {i} (from 0) has {words[i]} words; leave out sentences without words")
        self.grammar = grammar
        self.word_offsets = np.concatenate([[0], np.cumsum(words)]).astype(np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(words * (words + 1) // 2)]).astype(np.int64)
        self.n_sequences = len(words)
        self.n_positions = int(self.offsets[-1])
        self.n_words = int(self.word_offsets[-1])

    @cached_property
    def is_word(self) -> Bool:
        """Whether a span is one word [N]."""
        words = np.arange(self.n_words)
        sentence = np.searchsorted(self.word_offsets, words, side="right") - 1
        j = words - self.word_offsets[sentence] + 1
        is_word = np.zeros(self.n_positions, dtype=bool)
        is_word[self.offsets[sentence] + j * (j + 1) // 2 - 1] = True
        return is_word

    # -- a given tree, O(N) ------------------------------------------------------------------------------------------

    def score(self, scores: CFGScores, labels: npt.ArrayLike) -> Float:
        """Scores [S] of the trees ``labels`` int32[N, 3]."""
        parts, result = self._checked(scores), np.empty(self.n_sequences)
        score(self.word_offsets, self.offsets, self.grammar.rules, parts, self._labels(labels), result)
        return result

    def add_labelling(self, parts: CFGScores, labels: npt.ArrayLike, weights: npt.ArrayLike) -> None:
        """Add to ``parts``, in place, the weight [S] of each sentence for every part of its tree int32[N, 3]."""
        arrays = self._shaped(parts)
        for name, array in zip(("lexical", "binary", "steps"), arrays[:3], strict=True):
            if array is not getattr(parts, name):
                raise DataError(f"the {name} part must be a writable, C-contiguous float64 array to be added to")
        checked, factors = self._labels(labels), self._weights(weights)
        add_labelling(self.word_offsets, self.offsets, checked, factors, arrays)

    def restrict(self, scores: CFGScores, allowed: npt.ArrayLike) -> CFGScores:
        """The scores, with all trees ruled out that ``allowed`` forbids; shares the arrays.

        Parameters
        ----------
        allowed : [N] or [N, K]
            0 for spans that may not be constituents (partial brackets), or for symbols that a span may not have.
        """
        mask = np.asarray(allowed)
        wide = mask[:, None] if mask.ndim == 1 else mask
        if wide.shape not in ((self.n_positions, 1), (self.n_positions, self.grammar.n_symbols)):
            wanted = f"[{self.n_positions}] or [{self.n_positions}, {self.grammar.n_symbols}]"
            raise DataError(f"allowed has the shape {list(mask.shape)}, not {wanted}")
        both = (wide != 0) if scores.allowed is None else (wide != 0) & (scores.allowed != 0)
        return replace(scores, allowed=np.ascontiguousarray(both, dtype=np.uint8))

    def check_labels(self, labels: npt.ArrayLike) -> None:
        """Reject labels [N, 3] that are not trees of the grammar."""
        array = self._labels(labels)
        wrong = check(self.word_offsets, self.offsets, self.grammar.rules, array)
        if wrong >= 0:
            raise DataError(f"the labels of sentence {wrong} (from 0) are not a tree of the grammar")

    # -- best trees --------------------------------------------------------------------------------------------------

    def viterbi(self, scores: CFGScores) -> tuple[Int32, Float]:
        """Best trees int32[N, 3] and their scores [S]."""
        labels, best = self.best(scores)
        if np.isneginf(best).any():
            raise InfeasibleError(int(np.argmax(np.isneginf(best))))
        return labels, best

    def best(
        self,
        scores: CFGScores,
        *,
        beam: float = np.inf,
        prior: ContextPrior | None = None,
        stop: UInt8 | None = None,
    ) -> tuple[Int32, Float]:
        """Best trees int32[N, 3] and their scores [S]; -1 and -inf for sentences that have none.

        Parameters
        ----------
        scores : CFGScores
        beam : float
            Symbols of a span that are worse than its best by more than this are dropped. The result may then be a tree
            that is not the best, or none. inf is exact.
        prior : ContextPrior, optional
            What ``beam`` adds to the values that it compares.
        stop : uint8[1], optional
            Another thread may set it to 1 to stop the search: sentences not done by then have no tree.
        """
        if not beam > 0.0:
            raise OptionError(f"beam = {beam}: it must be a number above 0, in nats")
        parts = self._checked(scores)
        labels, best = np.full((self.n_positions, 3), -1, dtype=np.int32), np.full(self.n_sequences, -np.inf)
        search = Search(
            float(beam), *self._contexts(parts, beam, prior), np.zeros(1, dtype=np.uint8) if stop is None else stop
        )
        tree_best.viterbi(self.word_offsets, self.offsets, self.grammar.rules, parts, search, labels, best)
        return labels, best

    def _contexts(self, parts: Parts, beam: float, prior: ContextPrior | None) -> tuple[Float, Float]:
        """What the beam adds to values, by the first word and by the end of a span."""
        if beam == np.inf:
            return NO_CONTEXTS
        g = self.grammar
        if prior is None:
            nothing = np.zeros((self.n_words + self.n_sequences, g.n_symbols))
            return nothing, nothing
        if prior.before.shape != (g.n_preterminals + 1, g.n_symbols):
            raise DataError("the prior is that of another grammar")
        return prior.beside(self.word_offsets, parts.lexical)

    def k_best(self, scores: CFGScores, k: int) -> list[tuple[Int32, Float]]:
        """For each sentence its K <= k best trees int32[K, spans, 3], best first, and their scores [K]."""
        spans, lists = (
            np.diff(self.offsets),
            256 + 2 * self.grammar.n_symbols,
        )  # lists of derivations besides the chart's
        best_sizes(np.maximum(spans, lists), k, np.inf, "tree", work=28.0)
        parts, results = self._checked(scores), []
        for s in range(self.n_sequences):
            word, span = int(self.word_offsets[s]), int(self.offsets[s])
            labels, best = np.empty((k, int(self.offsets[s + 1]) - span, 3), dtype=np.int32), np.empty(k)
            sentence = Sentence(int(self.word_offsets[s + 1]) - word, word, span)
            n_found = tree_best.k_best(sentence, self.grammar.rules, parts, labels, best)
            if n_found == 0:
                raise InfeasibleError(s)
            results.append((labels[:n_found], best[:n_found]))
        return results

    # -- sums over trees ---------------------------------------------------------------------------------------------

    def log_partition(self, scores: CFGScores) -> Float:
        """log Z [S]; -inf where no tree is possible."""
        return self._inside_outside(self._checked(scores), np.ones(self.n_sequences), NO_PARTS)

    def expectations(self, scores: CFGScores, weights: npt.ArrayLike | None = None) -> tuple[Float, CFGScores]:
        """log Z [S], and the expected parts, each sentence's multiplied by its weight [S].

        Rules and steps are summed over the spans that share a row. This is the gradient of ``weights @ log_partition``.
        """
        parts, expected = self._checked(scores), scores.zeros_like()
        log_z = self._inside_outside(parts, self._weights(weights), self._shaped(expected))
        if np.isneginf(log_z).any():
            raise InfeasibleError(int(np.argmax(np.isneginf(log_z))))
        return log_z, expected

    def cost_covariance(
        self, scores: CFGScores, costs: CFGScores, weights: npt.ArrayLike | None = None
    ) -> tuple[Float, CFGScores]:
        """E[c] [S] of a cost that is a sum over parts, and its covariances with the parts, times the weights [S].

        The covariance with a part is E[c part] - E[c] E[part], in the shapes of :meth:`expectations`: the gradient of
        ``weights @ E[c]``.

        Parameters
        ----------
        scores : CFGScores
        costs : CFGScores
            A finite cost for each part, in rows of its own.
        weights : float [S], optional
        """
        parts, prices, result = self._checked(scores), self._shaped(costs), scores.zeros_like()
        for name, array in zip(("lexical", "binary", "steps"), prices[:3], strict=True):
            if not np.isfinite(array).all():
                raise DataError(f"the {name} costs must be finite numbers")
        mean, status = np.empty(self.n_sequences), np.empty(self.n_sequences, dtype=np.uint8)
        covariance.covariance(
            self.word_offsets, self.offsets, self.grammar.rules, parts, prices, self._weights(weights), mean, status,
            self._shaped(result),
        )  # fmt: skip
        if (status == INFEASIBLE).any():
            raise InfeasibleError(int(np.argmax(status == INFEASIBLE)))
        return mean, result

    def sample(self, scores: CFGScores, n: int, rng: np.random.Generator) -> Int32:
        """``n`` independent draws of trees from p, int32[n, N, 3]."""
        if n < 0:
            raise OptionError(f"n = {n}: the number of draws cannot be negative")
        log_z, labels = np.empty(self.n_sequences), np.empty((n, self.n_positions, 3), dtype=np.int32)
        everything = np.arange(self.n_sequences)
        self._in_log_space(self._checked(scores), everything, log_z, rng.random((n, 2, self.n_positions)), labels)
        if np.isneginf(log_z).any():
            raise InfeasibleError(int(np.argmax(np.isneginf(log_z))))
        return labels

    def expected_brackets(self, scores: CFGScores, labels: BracketLabels) -> tuple[Float, Float, Float]:
        """log Z [S], expected tags [words, P], and the expected number of each label at each span [N, L].

        A sentence without a tree, or whose sums need log space, has log Z = -inf here, and its expectations are zero.
        """
        parts, expected = self._checked(scores), scores.zeros_like()
        counts = np.zeros((self.n_positions, labels.n_labels))
        brackets = Brackets(labels.label_of, labels.step_pointer, labels.step_labels, counts)
        log_z, _ = self._scaled(parts, np.ones(self.n_sequences), self._shaped(expected), brackets)
        return log_z, expected.lexical, counts

    def _scaled(self, parts: Parts, weights: Float, expected: Parts, brackets: Brackets) -> tuple[Float, UInt8]:
        """log Z [S] and the status [S] of sums in scaled probabilities."""
        log_z, status = np.empty(self.n_sequences), np.empty(self.n_sequences, dtype=np.uint8)
        rules = self.grammar.rules
        sums.inside_outside(self.word_offsets, self.offsets, rules, parts, weights, log_z, status, expected, brackets)
        return log_z, status

    def _inside_outside(self, parts: Parts, weights: Float, expected: Parts) -> Float:
        """log Z [S]; adds to ``expected``. Sentences that scaled probabilities cannot handle are done in log space."""
        log_z, status = self._scaled(parts, weights, expected, NO_BRACKETS)
        left = np.flatnonzero(status == NEEDS_LOG_SPACE).astype(np.int64)
        if len(left):
            no_draws = np.empty((0, 2, self.n_positions)), np.empty((0, self.n_positions, 3), dtype=np.int32)
            self._in_log_space(parts, left, log_z, *no_draws, weights, expected)
        return log_z

    def _in_log_space(
        self,
        parts: Parts,
        which: Int64,
        log_z: Float,
        numbers: Float,
        labels: Int32,
        weights: Float | None = None,
        expected: Parts = NO_PARTS,
    ) -> None:
        log_sums.inside_outside(
            self.word_offsets, self.offsets, which, self.grammar.rules, parts,
            np.ones(self.n_sequences) if weights is None else weights, log_z, expected, numbers, labels,
        )  # fmt: skip

    # -- checks and conversions --------------------------------------------------------------------------------------

    def _checked(self, scores: CFGScores) -> Parts:
        """The arrays of ``scores`` in the form that kernels take; rejects NaN and +inf."""
        parts = self._shaped(scores)
        for name, array in zip(("lexical", "binary", "steps"), parts[:3], strict=True):
            if array.size and not array.max() < np.inf:
                raise DataError(f"the {name} scores contain NaN or +inf; only finite numbers and -inf are scores")
        return parts

    def _shaped(self, scores: CFGScores) -> Parts:
        g, rows = self.grammar, np.ascontiguousarray(scores.row_of_span, dtype=np.int32)
        x = len(scores.binary)
        wanted = (
            ("lexical", scores.lexical, (self.n_words, g.n_preterminals)),
            ("binary", scores.binary, (x, g.n_binary)),
            ("steps", scores.steps, (x, g.n_steps)),
            ("row_of_span", rows, (self.n_positions,)),
        )
        for name, array, shape in wanted:
            if np.shape(array) != shape:
                raise DataError(f"{name} has the shape {list(np.shape(array))}, not {list(shape)}")
        if self.n_positions and not (rows.min() >= 0 and rows.max() < x):
            raise DataError(f"row_of_span names a row that is not one of the {x} rows 0, 1, ...")
        lexical, binary, steps = (np.ascontiguousarray(array, dtype=np.float64) for _, array, _ in wanted[:3])
        allowed = scores.allowed
        mask = np.empty((0, 1), np.uint8) if allowed is None else np.ascontiguousarray(allowed, dtype=np.uint8)
        if len(mask) and mask.shape not in ((self.n_positions, 1), (self.n_positions, g.n_symbols)):
            raise DataError(f"allowed has the shape {list(mask.shape)}")
        return Parts(lexical, binary, steps, rows, mask)

    def _labels(self, labels: npt.ArrayLike) -> Int32:
        array = np.ascontiguousarray(labels, dtype=np.int32)
        if array.shape != (self.n_positions, 3):
            raise DataError(f"labels has the shape {list(array.shape)}, not [{self.n_positions}, 3]")
        most = np.where(self.is_word, self.grammar.n_preterminals, self.grammar.n_binary)
        if len(array) and (
            array.min() < -1 or (array[:, 0] >= most).any() or array[:, 2].max() >= self.grammar.n_steps
        ):
            raise DataError("labels names a tag, rule or step that the grammar does not have")
        return array

    def _weights(self, weights: npt.ArrayLike | None) -> Float:
        array = np.ones(self.n_sequences) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
        if array.shape != (self.n_sequences,) or not np.isfinite(array).all():
            raise DataError(f"weights must be {self.n_sequences} finite numbers, one for each sentence")
        return array


# ----------------------------------------------------------------------------------------------------------------------
# Given trees: their scores, and the counts of their parts.


@kernel
def score(word_offsets: Int64, span_offsets: Int64, rules: Rules, parts: Parts, labels: Int32, result: Float) -> None:
    """Scores [S] of trees given as ``labels`` [N, 3]; -inf where a symbol is not allowed."""
    lexical, binary, steps, row_of_span, allowed = parts
    parent, preterminals, moves = rules.parent, rules.preterminals, rules.steps
    width = allowed.shape[1]
    for s in range(word_offsets.shape[0] - 1):
        total, span = 0.0, span_offsets[s]
        for j in range(1, word_offsets[s + 1] - word_offsets[s] + 1):
            for i in range(j):
                rule, step, x = labels[span, 0], labels[span, 2], row_of_span[span]
                if rule >= 0:
                    if j - i == 1:
                        total += lexical[word_offsets[s] + i, rule]
                        symbol = preterminals[rule]
                    else:
                        total += binary[x, rule]
                        symbol = parent[rule]
                    above = symbol
                    if step >= 0:
                        total += steps[x, step]
                        above = moves[step, 0]
                    if allowed.shape[0] > 0 and not (
                        allowed[span, symbol if width > 1 else 0] and allowed[span, above if width > 1 else 0]
                    ):
                        total = -np.inf
                span += 1
        result[s] = total


@kernel
def add_labelling(word_offsets: Int64, span_offsets: Int64, labels: Int32, weights: Float, parts: Parts) -> None:
    """Add to ``parts`` the weight [S] of each sentence for every part of its tree."""
    lexical, binary, steps, row_of_span, _ = parts
    for s in range(word_offsets.shape[0] - 1):
        span = span_offsets[s]
        for j in range(1, word_offsets[s + 1] - word_offsets[s] + 1):
            for i in range(j):
                rule, step, x = labels[span, 0], labels[span, 2], row_of_span[span]
                if rule >= 0:
                    if j - i == 1:
                        lexical[word_offsets[s] + i, rule] += weights[s]
                    else:
                        binary[x, rule] += weights[s]
                    if step >= 0:
                        steps[x, step] += weights[s]
                span += 1


@kernel
def check(word_offsets: Int64, span_offsets: Int64, rules: Rules, labels: Int32) -> int:
    """The first sentence whose labels [N, 3] are not a tree of the grammar, or -1.

    From the root down each span must have the symbol that its parent's rule names, and no other span may have a label.
    """
    parent, preterminals, moves = rules.parent, rules.preterminals, rules.steps
    for s in range(word_offsets.shape[0] - 1):
        n, spans = word_offsets[s + 1] - word_offsets[s], span_offsets[s]
        stack = np.empty((n + 1, 3), np.int32)
        stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, rules.root
        depth, n_seen = 1, 0
        while depth > 0:
            depth -= 1
            i, j, symbol = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            here = labels[spans + j * (j - 1) // 2 + i]
            rule, split, step = here[0], here[1], here[2]
            n_seen += 1
            if step >= moves.shape[0] or step < -1:
                return s
            if step >= 0:
                if moves[step, 0] != symbol:
                    return s
                symbol = moves[step, 1]
            if j - i == 1:
                if rule < 0 or rule >= preterminals.shape[0] or preterminals[rule] != symbol or split != -1:
                    return s
                continue
            if rule < 0 or rule >= parent.shape[0] or parent[rule] != symbol or split <= i or split >= j:
                return s
            depth = push(stack, depth, i, split, j, rule, rules)
        for span in range(spans, span_offsets[s + 1]):
            if labels[span, 0] != -1 or labels[span, 1] != -1 or labels[span, 2] != -1:
                n_seen -= 1
        if n_seen != 0:
            return s
    return -1
