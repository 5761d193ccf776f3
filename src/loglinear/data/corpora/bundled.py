"""The corpus that comes with the package: 365 hand-written English trees, and the columns derived from them.

Splits: ``train``, ``dev`` and ``test``. Tasks: ``pos`` (word, tag), ``chunk`` (word, tag, chunk), ``ner`` (word, tag,
entity), ``dependency`` (word, tag, head, relation). The sentences are original and may be used freely.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files

from loglinear.data.trees.heads import Layout, dependencies, layout, split_entity
from loglinear.data.trees.tree import Tree, parse_tree, parse_trees
from loglinear.errors import OptionError

SPLITS = ("train", "dev", "test")


@cache
def _split(name: str) -> tuple[Tree, ...]:
    if name not in SPLITS:
        raise OptionError(f"the bundled corpus has no split {name!r}; choose one of {', '.join(SPLITS)}")
    file = f"{name}.mrg"
    text = files("loglinear.data.corpora").joinpath(file).read_text(encoding="utf-8")
    return tuple(parse_trees(text, file))


def bundled_trees(split: str, *, entities: bool = True) -> list[Tree]:
    """Trees of a split, with entity marks on their labels (``NP=PER``) unless ``entities`` is False."""
    return [tree if entities else without_entities(tree) for tree in _split(split)]


def bundled_rows(split: str, task: str) -> list[Rows]:
    """Token rows of a split: a list per sentence of a tuple per token, with the columns of the task."""
    return list(map(task_rows(task), _split(split)))


def bundled_text(split: str, task: str) -> str:
    """Token rows of a split as column text: one token per line, a blank line after each sentence."""
    return rows_text(bundled_rows(split, task))


# ----------------------------------------------------------------------------------------------------------------------
# Columns derived from trees: parts of speech, named entities, and the rows of each task.
#
# An entity mark is a suffix ``=TYPE`` on the label of a phrase or preterminal, where TYPE is one of
# :data:`ENTITY_TYPES`; the entity is the yield of the marked node, so entities are always contiguous. If marks are
# nested, only the outermost counts.


Rows = list[tuple[str, ...]]
_LABEL = re.compile(r"\(([^ ()]+)")


def without_entities(tree: Tree) -> Tree:
    """The tree with the entity marks removed from its labels."""
    return parse_tree(_LABEL.sub(lambda match: "(" + split_entity(match[1])[0], str(tree)))


def pos_tags(tree: Tree) -> list[str]:
    """Parts of speech without entity marks (length T)."""
    return [split_entity(tag)[0] for tag in tree.tags()]


def entity_tags(tree: Tree) -> list[str]:
    """Named entities in BIO (length T)."""
    tags: list[str] = []
    stack: list[tuple[Tree, str | None]] = [(tree, None)]
    begun: str | None = None  # type of a marked node whose first word has not been reached
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


def _rows(tree: Tree, *columns: Iterable[str]) -> Rows:
    return list(zip(tree.leaves(), pos_tags(tree), *columns, strict=True))


def _dependency_rows(tree: Tree) -> Rows:
    heads, relations = dependencies(tree)
    return _rows(tree, map(str, heads), relations)


#: Task name to the function that makes its rows from a tree.
TASKS: dict[str, Callable[[Tree], Rows]] = {
    "pos": _rows,
    "chunk": lambda tree: _rows(tree, chunk_tags(tree)),
    "ner": lambda tree: _rows(tree, entity_tags(tree)),
    "dependency": _dependency_rows,
}


def task_rows(task: str) -> Callable[[Tree], Rows]:
    """The function that makes the rows of ``task`` from a tree."""
    if task not in TASKS:
        raise OptionError(f"there is no task {task!r}; choose one of {', '.join(TASKS)}")
    return TASKS[task]


def rows_text(sentences: list[Rows]) -> str:
    """Sentences as column text: one token per line, columns separated by a space, a blank line after each sentence."""
    return "".join("\n".join(map(" ".join, rows)) + "\n\n" for rows in sentences)


# ----------------------------------------------------------------------------------------------------------------------
# Base chunks in BIO, derived from trees by the rules of the CoNLL-2000 shared task.
#
# A chunk runs from the left edge of a phrase to its head and contains no other chunk (Tjong Kim Sang and Buchholz 2000,
# after the conversion script of Buchholz). In detail:
#
# - NP: everything up to the head noun, including ADJP, ADVP and QP before it; a possessive NP is a separate chunk, and
#   its ``'s`` begins the next one (``[NP Anna] [NP 's old car]``).
# - VP: auxiliaries, adverbs and ``not`` before a verb, and an infinitive or gerund directly after it are in the verb's
#   chunk (``[VP is widely expected to win]``); words after the last verb are not.
# - PP, SBAR: only the preposition or complementiser (``[PP because of]``, ``[SBAR even if]``).
# - ADJP, ADVP, PRT, CONJP, INTJ, LST: the words up to the last one that is not inside a smaller phrase.
# - An auxiliary before its subject, conjunctions between phrases, and punctuation are outside.
#
# If another chunk interrupts a phrase, the part with the head is the chunk and the rest is outside.


_CHUNK = {
    "NP": "NP", "WHNP": "NP", "NX": "NP", "QP": "NP", "NML": "NP", "NAC": "NP",
    "VP": "VP", "PP": "PP", "WHPP": "PP", "SBAR": "SBAR", "PRT": "PRT", "CONJP": "CONJP", "INTJ": "INTJ", "LST": "LST",
    "ADJP": "ADJP", "WHADJP": "ADJP", "JJP": "ADJP", "ADVP": "ADVP", "WHADVP": "ADVP",
}  # fmt: skip
_ABSORBED = {
    "NP": frozenset({"ADJP", "ADVP", "QP", "NML", "NX", "NAC", "UCP", "WHADJP", "JJP"}),
    "ADJP": frozenset({"ADVP", "QP", "WHADVP"}),
    "ADVP": frozenset({"ADVP", "QP"}),
}
_VERB = frozenset({"VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "MD", "TO", "AUX"})
_NOUN = frozenset({"NN", "NNS", "NNP", "NNPS", "CD", "PRP", "EX", "WP", "$", "#"})
_NO_CONTENT = {"NP": frozenset({"CC", "RB"}), "PP": frozenset({"CC", "RB"}), "SBAR": frozenset({"CC", "RB"})}
_NOMINAL = frozenset({"QP", "NML", "NX", "NAC"})
_WHOLE = frozenset({"PRT", "CONJP", "INTJ", "LST"})  # every word counts


class _Chunker:
    """Gives each word the phrase whose chunk it belongs to, phrases visited from the root down."""

    def __init__(self, tree: Layout) -> None:
        self.tree = tree
        self.owner = [-1] * len(tree.words)
        self.absorbed = bytearray(len(tree.labels))  # nodes completely inside the chunk of a phrase above
        self.joined: set[int] = set()  # VPs whose verbs belong to the chunk of a VP above

    def tags(self) -> list[str]:
        tree = self.tree
        for node, label in enumerate(tree.labels):
            if self.absorbed[node]:
                for child in tree.children[node]:
                    self.absorbed[child] = 1
            elif tree.children[node] and label == "VP":
                if node not in self.joined:
                    self._claim_verbs(node)
            elif tree.children[node] and label in _CHUNK:
                self._claim_run(node, _CHUNK[label])
        result = []
        before = -1
        for node in self.owner:
            kind = _CHUNK[tree.labels[node]] if node >= 0 else ""
            result.append("O" if node < 0 else f"I-{kind}" if node == before else f"B-{kind}")
            before = node
        return result

    def _closes(self, node: int) -> bool:
        """Whether the node is punctuation other than an opening quotation mark, which belongs to what it opens."""
        return self.tree.is_punctuation(node) and self.tree.labels[node] != "``"

    def _claim(self, node: int, parts: list[int]) -> None:
        for part in parts:
            self.absorbed[part] = 1
            for position in range(self.tree.start[part], self.tree.end[part]):
                self.owner[position] = node

    def _claim_run(self, node: int, kind: str) -> None:
        """Claim the last unbroken run of words and absorbed phrases that has content."""
        tree = self.tree
        absorbed = _ABSORBED.get(kind, frozenset())
        best: list[int] = []
        run: list[int] = []
        for child in tree.children[node]:
            if tree.is_word(child):
                if not self.absorbed[child]:  # the 's of a possessive was given to the phrase above
                    run.append(child)
            elif tree.labels[child] in absorbed:
                run.append(child)
            else:
                best = self._trimmed(run, kind) or best
                last = tree.children[child][-1]
                run = [last] if kind == "NP" and tree.labels[last] == "POS" else []
        self._claim(node, self._trimmed(run, kind) or best)

    def _trimmed(self, run: list[int], kind: str) -> list[int]:
        """Cut a run to the chunk in it: no conjunction or punctuation at its edges, no phrase after its head."""
        tree = self.tree
        outside = frozenset[str]() if kind in _WHOLE else frozenset({"CC"})
        words = [child for child in run if tree.is_word(child) and not tree.is_punctuation(child)]
        own_words = [child for child in words if tree.labels[child] not in outside]
        heads = [child for child in own_words if kind != "NP" or tree.labels[child] in _NOUN]
        if kind in {"ADJP", "ADVP"} and not own_words:
            return []  # phrases side by side: each is a separate chunk
        if kind == "NP" and not own_words and not any(tree.labels[child] in _NOMINAL for child in run):
            return []  # a modifier after the noun phrase it belongs to
        light = _NO_CONTENT.get(kind, outside)
        if all(tree.is_punctuation(child) or tree.labels[child] in light for child in run):
            return []
        first, last = 0, len(run)
        while tree.is_punctuation(run[last - 1]) or tree.labels[run[last - 1]] in outside | {"POS"}:
            if last == 1:  # nothing but a possessive mark
                return run[:1]
            last -= 1
        if heads and tree.labels[run[last - 1]] in {"ADVP", "ADJP", "UCP", "WHADJP"}:
            last = max(index for index, child in enumerate(run) if child in heads) + 1
        while tree.labels[run[first]] in outside or self._closes(run[first]):
            first += 1
        return run[first:last]

    def _claim_verbs(self, top: int) -> None:
        """Claim the chain of verbs that begins in the VP ``top`` and continues in the VPs below it."""
        tree = self.tree
        inner = top
        waiting: list[int] = []  # adverbs and the like: in the chunk if a verb follows
        while True:
            following = -1
            for child in tree.children[inner]:
                if not tree.is_word(child) and tree.labels[child] != "ADVP":
                    following = child
                    break
                waiting.append(child)
                if tree.labels[child] in _VERB and tree.is_word(child):
                    self._claim(top, waiting)
                    waiting = []
            if following < 0 or any(map(self._closes, waiting)):
                return
            between = {tree.labels[part] for part in waiting}
            if tree.labels[following] == "S" and not between & {"ADVP", "CC"}:
                following = tree.children[following][0]
            if tree.labels[following] != "VP" or "CC" in between:
                return
            self.joined.add(following)
            inner = following


def chunk_tags(tree: Tree) -> list[str]:
    """Base chunks of a tree in BIO (length T)."""
    return _Chunker(layout(tree)).tags()
