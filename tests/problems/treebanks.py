"""Small random treebanks of binary trees."""

from __future__ import annotations

import numpy as np

from loglinear.data.trees.tree import Tree


def random_tree(rng: np.random.Generator, label: str = "S", depth: int = 0, cycles: bool = False) -> Tree:
    """A tree over the phrases S, A, B and the tags x, y; unary rules go up the alphabet unless ``cycles``."""
    if depth > 3 or rng.random() < 0.2 * depth:
        tag = str(rng.choice(["x", "y", "A"]))  # a tag may have a phrase's name
        return Tree(label, [Tree(tag, word=f"{tag}{rng.integers(3)}".lower())])
    if rng.random() < 0.2:
        choices = ["S", "A", "B"] if cycles else ["A", "B"][["S", "A", "B"].index(label) :]
        if choices:
            return Tree(label, [random_tree(rng, str(rng.choice(choices)), depth + 1, cycles)])
    return Tree(label, [_part(rng, depth, cycles), _part(rng, depth, cycles)])


def _part(rng: np.random.Generator, depth: int, cycles: bool) -> Tree:
    if rng.random() < 0.4:
        tag = str(rng.choice(["x", "y"]))
        return Tree(tag, word=f"{tag}{rng.integers(3)}")
    return random_tree(rng, str(rng.choice(["S", "A", "B"])), depth + 1, cycles)


def random_trees(seed: int, n: int, cycles: bool = False) -> list[Tree]:
    rng = np.random.default_rng(seed)
    return [random_tree(rng, cycles=cycles) for _ in range(n)]


PHRASES = ["S", "NP", "VP", "SBAR", "PP", "ADJP", "N^P", "@X", "A,B|C<D>\\"]
TAGS = ["DT", "NN", "VBD", "VBZ", "VB", "IN", "CC", ",", "POS", "@", "^"]


def english_like(rng: np.random.Generator, depth: int = 0) -> Tree:
    """A tree with labels that notes look at, and some that need escapes."""
    if depth > 1 and rng.random() < 0.5:
        return Tree(str(rng.choice(TAGS)), word=str(rng.choice(["is", "have", "dog", "%", "but"])))
    children = [english_like(rng, depth + 1) for _ in range(rng.integers(1, 6) if depth < 4 else 0)]
    return Tree(str(rng.choice(PHRASES)), children) if children else Tree(str(rng.choice(TAGS)), word="a")
