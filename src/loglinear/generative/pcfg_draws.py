"""Trees drawn from a PCFG, from the root down: for expectations of features that are no contiguous fragments."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.data.trees import Tree
from loglinear.errors import DataError, OptionError
from loglinear.generative.pcfg import PCFG
from loglinear.kernels import kernel
from loglinear.structures.tree_coder import ANY_ROOT

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
LARGEST = 1_000_000  # nodes of one tree


@kernel
def _draw(
    root: int, n_tags: int, pointer: Int64, cumulative: Float, children: Int32, uniform: Float, used: int,
    chosen: Int64, stack: Int32,
) -> int:  # fmt: skip
    """One derivation, a parent's choice before its children's: the number of choices, -1 if ``uniform`` ran out.

    Choices of symbol a are ``pointer[a]`` to ``pointer[a + 1] - 1``, with ``cumulative`` probabilities; those of tags
    are words, the others rules with ``children`` [choices, 2], the second -1 in unary ones.
    """
    stack[0] = root
    depth, n = 1, 0
    while depth > 0:
        depth -= 1
        a = stack[depth]
        if used + n >= uniform.shape[0] or depth + 2 >= stack.shape[0]:
            return -1
        first, end = pointer[a], pointer[a + 1]
        u = uniform[used + n] * cumulative[end - 1]
        place = first + np.searchsorted(cumulative[first:end], u, side="right")
        choice = min(place, end - 1)
        chosen[used + n] = choice
        n += 1
        if a >= n_tags:
            if children[choice, 1] >= 0:
                stack[depth] = children[choice, 1]
                depth += 1
            stack[depth] = children[choice, 0]
            depth += 1
    return n


def draw_trees(model: PCFG, n: int, rng: np.random.Generator) -> list[Tree]:
    """``n`` independent binary trees; a word may be the name of a class of unknown words."""
    if n < 0:
        raise OptionError(f"n = {n}: the number of draws cannot be negative")
    lexicon, k = model.lexicon, model.n_symbols
    terminals = np.repeat(np.arange(len(lexicon.terminals)), np.diff(lexicon.pointer))
    parents = np.concatenate([lexicon.tags, model.binary_rules[:, 0], model.unary_rules[:, 0]])
    none = np.full((len(model.unary_rules), 1), -1, dtype=np.int32)
    of_rules = np.concatenate([model.binary_rules[:, 1:], np.concatenate([model.unary_rules[:, 1:], none], axis=1)])
    of_words = np.stack([terminals, np.full(len(terminals), -1)], axis=1)
    children = np.concatenate([of_words, of_rules]).astype(np.int32)
    values = np.concatenate([lexicon.probabilities, model.binary, model.unary])
    order = np.argsort(parents, kind="stable")
    pointer = np.searchsorted(parents[order], np.arange(k + 1)).astype(np.int64)
    children, cumulative = np.ascontiguousarray(children[order]), np.cumsum(values[order])
    before = np.concatenate([[0.0], cumulative])[pointer[:-1]]
    cumulative = cumulative - before[parents[order]]
    size, used = 20_000, 0
    trees: list[Tree] = []
    uniform, chosen = rng.random(size), np.zeros(size, dtype=np.int64)
    while len(trees) < n:
        stack = np.zeros(size, dtype=np.int32)
        found = _draw(model.root, model.n_tags, pointer, cumulative, children, uniform, used, chosen, stack)
        if found >= 0:
            trees.append(_tree(model, children, chosen[used : used + found].tolist()))
            used += found
            continue
        if used == 0:
            size *= 2
            if size > LARGEST:
                raise DataError(f"a tree of more than {LARGEST // 2:,} nodes was drawn: the grammar may not be tight")
        uniform, used = np.concatenate([uniform[used:], rng.random(size - (len(uniform) - used))]), 0
        chosen = np.zeros(size, dtype=np.int64)
    return trees


def _tree(model: PCFG, children: Int32, chosen: list[int]) -> Tree:
    """The tree of a derivation."""
    symbols = [model.root]
    labels: list[int] = []
    for choice in chosen:  # which symbol each choice was made for
        a = symbols.pop()
        labels.append(a)
        if a >= model.n_tags:
            left, right = children[choice].tolist()
            symbols += [right, left] if right >= 0 else [left]
    built: list[Tree] = []
    for a, choice in zip(reversed(labels), reversed(chosen), strict=True):
        if a < model.n_tags:
            built.append(Tree(model.symbols[a], word=model.lexicon.terminals[children[choice, 0]]))
        elif children[choice, 1] >= 0:
            built.append(Tree(model.symbols[a], [built.pop(), built.pop()]))
        elif model.symbols[a] != ANY_ROOT:
            built.append(Tree(model.symbols[a], [built.pop()]))
    return built[0]
