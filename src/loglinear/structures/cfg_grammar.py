"""The rules of a context-free grammar as the chart kernels want them: numbers, sorted so that charts fill quickly.

Symbols are 0 .. K-1, some of them *preterminals*, which stand over single words. Two kinds of rules build the rest:

    binary    A -> B C    [R], sorted by left child, then right child: those of a left child lie together (CSR)
    step      A <- B      [U], sorted by child: a unary move that is made at most once at a span

There are no other unary rules. A model with chains of unary rules makes each chain a step, or the closure of all of
them (:mod:`loglinear.generative.unary_closure`), so that the chart of a span is filled in two rounds:

    chart0[i, j, A] = sum over k and A -> B C of  score(A -> B C) * chart[i, k, B] * chart[k, j, C]       (j - i > 1)
    chart [i, j, A] = chart0[i, j, A] + sum over steps A <- B of  score(A <- B) * chart0[i, j, B]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from loglinear.errors import DataError

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Rules = tuple[Int64, Int32, Int32, Int64, Int32, Bytes, Int32]


class CFGGrammar:
    """Symbols and rules, without scores; a rule's number is its row in :attr:`binary` or :attr:`steps`.

    Parameters
    ----------
    n_symbols : int
        K.
    root : int
        The symbol of whole sentences.
    preterminals : int [P]
        Symbols over single words; a word's tag is given as a number 0 .. P-1, its place in this list.
    binary : int [R, 3]
        Parent, left child and right child, in any order; kept sorted, without repetitions.
    steps : int [U, 2]
        Parent and child, in any order; kept sorted (stably). Two steps may join the same symbols.
    """

    def __init__(
        self,
        n_symbols: int,
        root: int,
        preterminals: npt.ArrayLike | Sequence[int],
        binary: npt.ArrayLike,
        steps: npt.ArrayLike = (),
    ) -> None:
        self.n_symbols, self.root = int(n_symbols), int(root)
        self.preterminals = _numbers("preterminals", preterminals, (-1,), self.n_symbols)
        rules = _numbers("binary", binary, (-1, 3), self.n_symbols)
        moves = _numbers("steps", steps, (-1, 2), self.n_symbols)
        if not 0 <= self.root < self.n_symbols:
            raise DataError(f"root = {root} is not one of the {n_symbols} symbols 0, 1, ...")
        if len(np.unique(self.preterminals)) < len(self.preterminals):
            raise DataError("a symbol is listed twice among the preterminals")
        order = np.lexsort((rules[:, 0], rules[:, 2], rules[:, 1]))
        self.binary = np.ascontiguousarray(rules[order])
        if len(self.binary) > 1 and (self.binary[1:] == self.binary[:-1]).all(axis=1).any():
            raise DataError("a binary rule is listed twice")
        self.steps = np.ascontiguousarray(moves[np.argsort(moves[:, 1], kind="stable")])

    @property
    def n_preterminals(self) -> int:
        """P."""
        return len(self.preterminals)

    @property
    def n_binary(self) -> int:
        """R."""
        return len(self.binary)

    @property
    def n_steps(self) -> int:
        """U."""
        return len(self.steps)

    @cached_property
    def rules(self) -> Rules:
        """What kernels take.

        ``left_pointer`` int64[K + 1], ``parent`` and ``right`` int32[R], ``child_pointer`` int64[K + 1],
        ``step_parent`` int32[U], ``is_left`` uint8[K] (1 for symbols that are some rule's left child) and
        ``preterminals`` int32[P].
        """
        symbols = np.arange(self.n_symbols + 1)
        left_pointer = np.searchsorted(self.binary[:, 1], symbols).astype(np.int64)
        child_pointer = np.searchsorted(self.steps[:, 1], symbols).astype(np.int64)
        parent, right = self.binary[:, 0].copy(), self.binary[:, 2].copy()
        is_left = (np.diff(left_pointer) > 0).astype(np.uint8)
        return left_pointer, parent, right, child_pointer, self.steps[:, 0].copy(), is_left, self.preterminals

    def number_of_binary(self, rules: npt.ArrayLike) -> Int64:
        """The numbers of binary rules given as parent, left, right [n, 3]; -1 for those the grammar does not have."""
        return _found(_codes(self.binary, self.n_symbols), _codes(np.asarray(rules).reshape(-1, 3), self.n_symbols))


def span_number(i: int, j: int) -> int:
    """Number of the span of the words i .. j-1 within its sentence: j (j - 1) / 2 + i."""
    return j * (j - 1) // 2 + i


def spans_of(length: int) -> tuple[Int64, Int64]:
    """First word and end of each span of a sentence of ``length`` words, by their numbers."""
    ends = np.repeat(np.arange(1, length + 1), np.arange(1, length + 1))
    firsts = np.arange(len(ends)) - ends * (ends - 1) // 2
    return firsts.astype(np.int64), ends.astype(np.int64)


def _numbers(name: str, values: npt.ArrayLike, shape: tuple[int, ...], n_symbols: int) -> Int32:
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros((0, *shape[1:]), dtype=np.int32)
    if array.ndim != len(shape) or array.shape[1:] != shape[1:] or not np.issubdtype(array.dtype, np.integer):
        wanted = ", ".join("any" if n < 0 else str(n) for n in shape)
        raise DataError(f"{name} is {array.dtype} {list(array.shape)}, not whole numbers [{wanted}]")
    if array.min() < 0 or array.max() >= n_symbols:
        raise DataError(f"{name} names a symbol that is not one of the {n_symbols} symbols 0, 1, ...")
    return np.ascontiguousarray(array, dtype=np.int32)


def _codes(rows: npt.NDArray[np.integer], n_symbols: int) -> Int64:
    codes = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        codes = codes * n_symbols + column
    return codes


def _found(known: Int64, wanted: Int64) -> Int64:
    order = np.argsort(known, kind="stable")
    place = np.searchsorted(known[order], wanted)
    inside = place < len(known)
    numbers = np.full(len(wanted), -1, dtype=np.int64)
    candidates = order[place[inside]]
    numbers[inside] = np.where(known[candidates] == wanted[inside], candidates, -1)
    return numbers
