"""The corpus that comes with the package: 365 hand-written English trees, and the columns derived from them.

Splits: ``train``, ``dev`` and ``test``. Tasks: ``pos`` (word, tag), ``chunk`` (word, tag, chunk), ``ner`` (word, tag,
entity), ``dependency`` (word, tag, head, relation). The sentences are original and may be used freely.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from loglinear.data.treebank.derive import Rows, rows_text, task_rows, without_entities
from loglinear.data.trees import Tree, parse_trees
from loglinear.errors import OptionError

SPLITS = ("train", "dev", "test")


@cache
def _split(name: str) -> tuple[Tree, ...]:
    if name not in SPLITS:
        raise OptionError(f"the bundled corpus has no split {name!r}; choose one of {', '.join(SPLITS)}")
    file = f"{name}.mrg"
    text = files("loglinear.data.treebank").joinpath(file).read_text(encoding="utf-8")
    return tuple(parse_trees(text, file))


def bundled_trees(split: str, *, entities: bool = True) -> list[Tree]:
    """Trees of a split, with entity marks on the labels (``NP=PER``) unless ``entities`` is False."""
    return [tree if entities else without_entities(tree) for tree in _split(split)]


def bundled_rows(split: str, task: str) -> list[Rows]:
    """Token rows of a split: a list a sentence, a tuple a token, its columns as the task says."""
    return list(map(task_rows(task), _split(split)))


def bundled_text(split: str, task: str) -> str:
    """The same as column text: a token a line, a blank line after each sentence."""
    return rows_text(bundled_rows(split, task))
