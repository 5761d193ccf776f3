"""What labels are made of: entity marks, function tags, and the tags of punctuation; trees as parallel lists."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from loglinear.data.trees import Tree

ENTITY_TYPES = ("PER", "ORG", "LOC", "MISC")
PUNCTUATION = frozenset({",", ".", ":", "``", "''", "-LRB-", "-RRB-", "(", ")", "HYPH", "NFP"})
_MARK = re.compile(rf"(.+)=({'|'.join(ENTITY_TYPES)})\Z", re.DOTALL)
_FUNCTION = re.compile(r"[-=|].*", re.DOTALL)


def split_entity(label: str) -> tuple[str, str | None]:
    """A label as ``(label without the mark, entity type or None)``."""
    match = _MARK.match(label)
    return (match[1], match[2]) if match else (label, None)


@lru_cache(maxsize=10_000)  # a treebank has few labels, and many nodes
def phrase_label(label: str) -> str:
    """A phrase label without entity mark, function tags and indices (``NP-SBJ-1`` becomes ``NP``)."""
    return label if label.startswith("-") else _FUNCTION.sub("", label)


@dataclass(slots=True)
class Layout:
    """A tree as parallel lists over its nodes, a parent before its children, M nodes and T words.

    Attributes
    ----------
    labels : list of str
        Plain labels (length M).
    children : list of list of int
        Children of each node, left to right (length M); empty for a preterminal.
    start, end : list of int
        Span of each node over the words, end excluded (length M).
    words : list of str
        The words (length T); the word of a preterminal ``i`` is ``words[start[i]]``.
    """

    labels: list[str]
    children: list[list[int]]
    start: list[int]
    end: list[int]
    words: list[str]

    def is_word(self, node: int) -> bool:
        """Whether the node is a preterminal."""
        return not self.children[node]

    def is_punctuation(self, node: int) -> bool:
        """Whether the node is a preterminal of a punctuation mark."""
        return not self.children[node] and self.labels[node] in PUNCTUATION


def layout(tree: Tree) -> Layout:
    """Lay a tree out as parallel lists."""
    result = Layout([], [], [], [], [])
    stack = [(tree, -1)]
    while stack:
        node, parent = stack.pop()
        index = len(result.labels)
        result.children.append([])
        result.start.append(len(result.words))
        result.end.append(len(result.words) + 1)
        if parent >= 0:
            result.children[parent].append(index)
        if node.word is None:
            result.labels.append(phrase_label(node.label))
            stack.extend((child, index) for child in reversed(node.children))
        else:
            result.labels.append(split_entity(node.label)[0])
            result.words.append(node.word)
    for index in range(len(result.labels) - 1, -1, -1):
        if result.children[index]:
            result.end[index] = result.end[result.children[index][-1]]
    return result
