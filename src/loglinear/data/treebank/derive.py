"""Columns derived from trees: parts of speech, named entities, and the rows of each task.

An entity mark is a suffix ``=TYPE`` of a label, phrase or preterminal, with TYPE one of :data:`ENTITY_TYPES`; the
entity is the yield of the marked node, so entities are contiguous by construction. Of nested marks the outermost
counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from loglinear.data.treebank.chunks import chunk_tags
from loglinear.data.treebank.dependencies import dependencies
from loglinear.data.treebank.labels import split_entity
from loglinear.data.trees import Tree, parse_tree
from loglinear.errors import OptionError

Rows = list[tuple[str, ...]]
_LABEL = re.compile(r"\(([^ ()]+)")


def without_entities(tree: Tree) -> Tree:
    """The same tree with the entity marks removed from its labels."""
    return parse_tree(_LABEL.sub(lambda match: "(" + split_entity(match[1])[0], str(tree)))


def pos_tags(tree: Tree) -> list[str]:
    """Parts of speech without entity marks (length T)."""
    return [split_entity(tag)[0] for tag in tree.tags()]


def entity_tags(tree: Tree) -> list[str]:
    """Named entities in BIO (length T)."""
    tags: list[str] = []
    stack: list[tuple[Tree, str | None]] = [(tree, None)]
    begun: str | None = None  # type of a marked node whose first word is still to come
    while stack:
        node, inside = stack.pop()
        if inside is None:
            inside = split_entity(node.label)[1]
            begun = inside or begun
        if node.word is None:
            stack.extend((child, inside) for child in reversed(node.children))
        elif inside is None:
            tags.append("O")
        else:
            tags.append(f"B-{inside}" if begun else f"I-{inside}")
            begun = None
    return tags


def _pos_rows(tree: Tree) -> Rows:
    return list(zip(tree.leaves(), pos_tags(tree), strict=True))


def _chunk_rows(tree: Tree) -> Rows:
    return list(zip(tree.leaves(), pos_tags(tree), chunk_tags(tree), strict=True))


def _entity_rows(tree: Tree) -> Rows:
    return list(zip(tree.leaves(), pos_tags(tree), entity_tags(tree), strict=True))


def _dependency_rows(tree: Tree) -> Rows:
    heads, relations = dependencies(tree)
    return list(zip(tree.leaves(), pos_tags(tree), map(str, heads), relations, strict=True))


#: Task name to the function that makes its rows from a tree.
TASKS: dict[str, Callable[[Tree], Rows]] = {
    "pos": _pos_rows,
    "chunk": _chunk_rows,
    "ner": _entity_rows,
    "dependency": _dependency_rows,
}


def task_rows(task: str) -> Callable[[Tree], Rows]:
    """The function that makes the rows of ``task`` from a tree."""
    if task not in TASKS:
        raise OptionError(f"there is no task {task!r}; choose one of {', '.join(TASKS)}")
    return TASKS[task]


def rows_text(sentences: list[Rows]) -> str:
    """Sentences as column text: a token a line, columns separated by a space, a blank line after each sentence."""
    return "".join("\n".join(map(" ".join, rows)) + "\n\n" for rows in sentences)
