"""Rare notes go by counts of labels alone: renaming the labels of parts is transforming the whole."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from loglinear.data.trees.annotation import TreeTransform
from loglinear.data.trees.tree import Tree, fold
from problems.treebanks import english_like


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("least", [(1, 1), (3, 2), (10, 40), (2, 5)])
def test_renamed_labels_are_those_of_the_transformation(seed: int, least: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    factor = str(rng.choice(["head", "left", "right"]))
    transform = TreeTransform(
        horizontal=[None, 1, 2][seed % 3], factor=factor, least=least[0], least_intermediate=least[1]
    )
    trees = [Tree("ROOT", [english_like(rng)]) for _ in range(25)]
    whole = transform.apply(trees)
    each = [binary for tree in trees for binary in transform.unshortened.apply([tree])]
    names = transform.renamed(Counter(node.label for tree in each for node in tree.nodes()))
    renamed = [fold(tree, lambda node, children: Tree(names[node.label], children, node.word)) for tree in each]
    assert list(map(str, renamed)) == list(map(str, whole))
