"""From a treebank to the trees a grammar is read off: notes on labels, rare ones removed, then binary rules.

Splitting a label makes a grammar more precise but its counts smaller. So a note is kept only if it can be estimated:
the notes of a label that occurs fewer than ``least`` times are removed from the last to the first, and intermediate
nodes that occur fewer than ``least_intermediate`` times remember fewer siblings (in the spirit of the selective splits
of Klein and Manning 2003).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from loglinear.data.trees.cleaning import part_marked
from loglinear.data.trees.heads import Layout, head_children, layout
from loglinear.data.trees.transforms import binarise, check_orders, factorise, inside, is_intermediate, noted
from loglinear.data.trees.tree import Tree, fold
from loglinear.errors import OptionError

ANNOTATIONS = ("none", "parent", "rich")
#: The notes of the annotation ``rich``.
RICH = (
    "parent", "verb-form", "base", "possessive", "gap", "with-verb", "unary", "right-recursive", "tag-parent",
    "auxiliary", "in-place", "conjunction", "percent", "alone",
)  # fmt: skip
_NOTE = re.compile(r"\\.|(\^)", re.DOTALL)
_END_OF_LABEL = re.compile(r"\\.|(\|)", re.DOTALL)
_SEPARATOR = re.compile(r"\\.|([,<>])", re.DOTALL)


@dataclass(frozen=True)
class TreeTransform:
    """How a treebank's trees become those of a grammar.

    Parameters
    ----------
    annotation : {"rich", "parent", "none"}
        ``rich``: notes on the kind of phrase or part of speech, for English; ``parent``: the labels of ``vertical`` - 1
        ancestors; ``none``: neither.
    vertical : int
        For ``parent``: labels that a phrase knows, its own and those of its ancestors.
    horizontal : int or None
        Siblings that an intermediate node remembers; all if None.
    factor : {"head", "right", "left"}
        In which order the children of a phrase are split off.
    marks : str
        Characters that begin the user's own notes in the labels of the treebank, such as ``^-``; none if empty.
    least, least_intermediate : int
        For ``rich``: how often a label must occur to keep its notes, and an intermediate node to remember its siblings.
    notes : tuple of str
        Names of the notes of ``rich``.
    noted_siblings : bool
        Whether intermediate nodes remember siblings with their notes.
    """

    annotation: str = "rich"
    vertical: int = 2
    horizontal: int | None = 2
    factor: str = "head"
    marks: str = ""
    least: int = 10
    least_intermediate: int = 40
    notes: tuple[str, ...] = RICH
    noted_siblings: bool = False

    def __post_init__(self) -> None:
        check_orders(self.vertical, self.horizontal, self.factor)
        if self.annotation not in ANNOTATIONS:
            raise OptionError(f"annotation={self.annotation!r} is not one of {', '.join(ANNOTATIONS)}")
        if self.marks and self.annotation != "none":
            raise OptionError(
                f"marks={self.marks!r} means that the trees already have notes; use it with annotation='none'"
            )

    def apply(self, trees: Sequence[Tree]) -> list[Tree]:
        """The binary trees, which :func:`~loglinear.data.trees.transforms.restore` turns back into plain ones."""
        if self.marks:
            return [self._marked(tree) for tree in trees]
        if self.annotation != "rich":
            vertical = self.vertical if self.annotation == "parent" else 1
            return [binarise(tree, vertical, self.horizontal, self.factor) for tree in trees]
        notes = [notes_on(tree, self.notes) for tree in trees]
        if self.least > 1:
            _remove_rare(trees, notes, self.least)
        binary = [
            factorise(tree, about, self.horizontal, self.factor, self.noted_siblings)
            for tree, about in zip(trees, notes, strict=True)
        ]
        return forgetful(binary, self.least_intermediate) if self.least_intermediate > 1 else binary

    @property
    def unshortened(self) -> TreeTransform:
        """The transformation that keeps rare notes and remembered siblings, and so looks at each tree by itself."""
        return replace(self, least=1, least_intermediate=1)

    def renamed(self, counts: Mapping[str, int]) -> dict[str, str]:
        """What :meth:`apply` makes of the labels of trees from :attr:`unshortened`, which occur ``counts`` times."""
        if self.annotation != "rich" or self.marks:
            return {label: label for label in counts}
        names = {label: label for label in counts if not is_intermediate(label)}
        while True:
            totals = _totals(counts, names)
            rare = {label for label, n in totals.items() if n < self.least and _last_note(label) is not None}
            if not rare:
                break
            longest = max(map(_n_notes, rare))
            shorter = {label: label[: _last_note(label)] for label in rare if _n_notes(label) == longest}
            names = {label: shorter.get(now, now) for label, now in names.items()}
        within = {inside(label): inside(now) for label, now in names.items()}
        for label in counts:
            if is_intermediate(label):
                end = next(match.start() for match in _END_OF_LABEL.finditer(label) if match[1])
                names[label] = label[:1] + within[label[1:end]] + label[end:]
        middle = Counter({now: n for now, n in _totals(counts, names).items() if is_intermediate(now)})
        forgotten = _forgotten(middle, self.least_intermediate)
        return {label: _followed(now, forgotten) for label, now in names.items()}

    def _marked(self, tree: Tree) -> Tree:
        """A binary tree from one with the user's notes in its labels."""
        parted = [part_marked(node.label, self.marks) for node in tree.nodes()]
        bases = iter([base for base, _ in reversed(parted)])
        plain = fold(tree, lambda node, children: Tree(next(bases), children, node.word))
        notes = [[], *([noted(note)] if note else [] for _, note in parted[1:])]  # the root has none
        return factorise(plain, notes, self.horizontal, self.factor, self.noted_siblings)


def _remove_rare(trees: Sequence[Tree], notes: list[list[list[str]]], least: int) -> None:
    """Shorten, in place, the notes of labels that occur fewer than ``least`` times, until no such label has notes."""
    labels = [node.label for tree in trees for node in tree.nodes()]
    noted_labels = list(zip(labels, chain.from_iterable(notes), strict=True))
    while True:
        counts = Counter((label, *about) for label, about in noted_labels)
        rare = {key for key, count in counts.items() if count < least and len(key) > 1}
        if not rare:
            return
        longest = max(map(len, rare))  # the finest first: without its last note it counts for the next coarser one
        for label, about in noted_labels:
            if len(about) + 1 == longest and (label, *about) in rare:
                about.pop()


def forgetful(trees: Sequence[Tree], least: int) -> list[Tree]:
    """Binary trees whose intermediate labels occur at least ``least`` times or remember no sibling."""
    counts = Counter(node.label for tree in trees for node in tree.nodes() if is_intermediate(node.label))
    renamed = _forgotten(counts, least)

    def make(node: Tree, children: list[Tree]) -> Tree:
        return Tree(_followed(node.label, renamed), children, node.word)

    return [fold(tree, make) for tree in trees] if renamed else list(trees)


def _forgotten(counts: Counter[str], least: int) -> dict[str, str]:
    """The next shorter label of each intermediate label that occurs fewer than ``least`` times; changes ``counts``."""
    renamed: dict[str, str] = {}
    for length in range(max(map(_memory, counts), default=0), 0, -1):
        for label in [label for label, count in counts.items() if count < least and _memory(label) == length]:
            renamed[label] = _shorter(label)
            counts[renamed[label]] += counts.pop(label)
    return renamed


def _followed(label: str, renamed: Mapping[str, str]) -> str:
    while label in renamed:
        label = renamed[label]
    return label


def _totals(counts: Mapping[str, int], names: Mapping[str, str]) -> Counter[str]:
    """How often each of the new names occurs."""
    totals: Counter[str] = Counter()
    for label, now in names.items():
        totals[now] += counts[label]
    return totals


def _n_notes(label: str) -> int:
    return sum(match[1] is not None for match in _NOTE.finditer(label))


def _last_note(label: str) -> int | None:
    """Where the last note of a label begins."""
    return max((match.start() for match in _NOTE.finditer(label) if match[1]), default=None)


def _memory(label: str) -> int:
    """How many siblings an intermediate label can forget: 2 for ``@A|H>B,C`` and for ``@A|B,C,D``."""
    places = [match.end() for match in _SEPARATOR.finditer(label) if match[1]]
    return 0 if not places or places[-1] == len(label) else len(places)


def _shorter(label: str) -> str:
    """The intermediate label with one sibling fewer: ``@A|H>B`` for ``@A|H>B,C``, then ``@A|H>``."""
    last = [match.start() for match in _SEPARATOR.finditer(label) if match[1]][-1]
    return label[:last] if label[last] == "," else label[: last + 1]


# ----------------------------------------------------------------------------------------------------------------------
# Notes on phrases and parts of speech: what their labels do not show but a grammar should know.
#
# A treebank's labels are too coarse for a grammar: the NP of a subject differs from the NP of an object, and a finite
# VP from an infinitive. Johnson (1998) and Klein and Manning (2003, *Accurate unlexicalized parsing*) split labels by
# properties of the tree; this is our version of their splits for English, each a small function of a node, named in
# :data:`PHRASE_NOTES` and :data:`TAG_NOTES`. The notes use no word lists except a few forms of *be* and *have*, ``&``,
# ``but`` and ``%``; in other languages most of them never apply.


_FINITE = frozenset({"VBZ", "VBD", "VBP", "MD"})
_VERBS = _FINITE | {"VB", "VBN", "VBG"}
_BE = frozenset({"be", "am", "is", "are", "was", "were", "been", "being", "'s", "'re", "'m"})
_HAVE = frozenset({"have", "has", "had", "having", "'ve", "'d"})
_NOUN_PHRASES = frozenset({"NP", "NX", "NML", "WHNP", "NAC"})
_CLAUSES = frozenset({"S", "SINV", "SQ", "SBAR", "SBARQ"})


class NodeView:
    """A tree as parallel lists over its M nodes, with what the notes need.

    Attributes
    ----------
    flat : Layout
    parents, heads : list of int
        Node of the parent, and of the head child; -1 if none.
    head_tags : list of int
        The preterminal node that heads each node.
    with_verb : list of bool
        Whether there is a verb below.
    """

    def __init__(self, tree: Tree) -> None:
        self.flat: Layout = layout(tree)
        self.labels, self.children = self.flat.labels, self.flat.children
        size = len(self.labels)
        self.parents, self.heads = [-1] * size, [-1] * size
        self.head_tags = list(range(size))
        self.with_verb = [not self.children[node] and self.labels[node] in _VERBS for node in range(size)]
        for node, head in enumerate(head_children(self.flat)):
            for child in self.children[node]:
                self.parents[child] = node
            if self.children[node]:
                self.heads[node] = self.children[node][head]
        for node in range(size - 1, 0, -1):  # children come after their parent
            parent = self.parents[node]
            self.with_verb[parent] = self.with_verb[parent] or self.with_verb[node]
        for node in range(size - 1, -1, -1):
            if self.heads[node] >= 0:
                self.head_tags[node] = self.head_tags[self.heads[node]]

    def parent_label(self, node: int) -> str:
        """Label of the parent, empty at the root."""
        return self.labels[self.parents[node]] if self.parents[node] >= 0 else ""

    def word(self, node: int) -> str:
        """The word that heads the node, in lower case."""
        return self.flat.words[self.flat.start[self.head_tags[node]]].lower()


Note = Callable[[NodeView, int], str]


def _grandparent(view: NodeView, node: int) -> str:
    parent = view.parents[node]
    return view.parent_label(parent) if parent >= 0 else ""


def _unary(view: NodeView, node: int) -> str:
    """A phrase over one phrase."""
    children = view.children[node]
    return "U" if len(children) == 1 and view.children[children[0]] else ""


def _base(view: NodeView, node: int) -> str:
    """A noun phrase of words alone."""
    plain = view.labels[node] == "NP" and not any(view.children[child] for child in view.children[node])
    return "B" if plain else ""


def _verb_form(view: NodeView, node: int) -> str:
    """The form of a verb phrase's head: finite, infinitive, participle, or with ``to``."""
    if view.labels[node] != "VP":
        return ""
    tag = view.labels[view.head_tags[node]]
    return "VBF" if tag in _FINITE else tag


def _clause_form(view: NodeView, node: int) -> str:
    """The form of the verb that heads a clause."""
    if view.labels[node] not in _CLAUSES:
        return ""
    while view.labels[node] in _CLAUSES:
        inner = [child for child in view.children[node] if view.labels[child] in _CLAUSES or view.labels[child] == "VP"]
        if not inner:
            return "V0"
        node = next((child for child in inner if child == view.heads[node]), inner[-1])
    return _verb_form(view, node)


def _gap(view: NodeView, node: int) -> str:
    """A clause with a verb phrase and no subject before it."""
    if view.labels[node] != "S":
        return ""
    before: list[str] = []
    for child in view.children[node]:
        if view.labels[child] == "VP":
            return "" if any(label in {"NP", "SBAR", "S", "EX"} for label in before) else "G"
        before.append(view.labels[child])
    return ""


def _possessive(view: NodeView, node: int) -> str:
    """A noun phrase that ends in a possessive mark."""
    children = view.children[node]
    return "P" if view.labels[node] in _NOUN_PHRASES and view.labels[children[-1]] == "POS" else ""


def _right_recursive(view: NodeView, node: int) -> str:
    """A noun phrase with another at its right edge."""
    if view.labels[node] != "NP":
        return ""
    while view.children[node]:
        node = view.children[node][-1]
        if view.labels[node] == "NP":
            return "R"
    return ""


def _with_verb(view: NodeView, node: int) -> str:
    """A phrase with a verb somewhere below."""
    return "v" if view.with_verb[node] else ""


def _coordination(view: NodeView, node: int) -> str:
    """A phrase with a conjunction among its children."""
    return "C" if any(view.labels[child] in {"CC", "CONJP"} for child in view.children[node]) else ""


def _opening(view: NodeView, node: int) -> str:
    """What a subordinate clause begins with: a question word's phrase, a conjunction, or nothing."""
    if view.labels[node] != "SBAR":
        return ""
    first = view.labels[view.children[node][0]]
    return "W" if first.startswith("WH") else "I" if first in {"IN", "DT"} else ""


def _head_tag(view: NodeView, node: int) -> str:
    """The part of speech that heads a noun phrase, by kind."""
    if view.labels[node] != "NP":
        return ""
    tag = view.labels[view.head_tags[node]]
    kinds = {"NNS": "NN", "NNPS": "NNP", "PRP": "PRP", "NN": "NN", "NNP": "NNP", "CD": "CD", "$": "CD"}
    return "h" + kinds.get(tag, "x")


def _preposition(view: NodeView, node: int) -> str:
    """Whether a prepositional phrase's preposition is ``of``."""
    return "of" if view.labels[node] == "PP" and view.word(node) == "of" else ""


#: Notes on phrases, by name.
PHRASE_NOTES: dict[str, Note] = {
    "parent": NodeView.parent_label,
    "verb-form": _verb_form,
    "base": _base,
    "possessive": _possessive,
    "gap": _gap,
    "clause-form": _clause_form,
    "with-verb": _with_verb,
    "unary": _unary,
    "right-recursive": _right_recursive,
    "opening": _opening,
    "preposition": _preposition,
    "head-tag": _head_tag,
    "coordination": _coordination,
    "grandparent": _grandparent,
}


def _alone(view: NodeView, node: int) -> str:
    """A determiner or adverb without siblings."""
    return "A" if view.labels[node] in {"DT", "RB"} and len(view.children[view.parents[node]]) == 1 else ""


def _auxiliary(view: NodeView, node: int) -> str:
    """A form of *be* or *have*."""
    if view.labels[node] not in _VERBS - {"MD"} or view.parent_label(node) not in {"VP", "SQ", "SINV"}:
        return ""
    word = view.word(node)  # 's is taken for a form of be, as it mostly is
    return "BE" if word in _BE else "HV" if word in _HAVE else ""


def _in_place(view: NodeView, node: int) -> str:
    """Where a preposition or subordinating conjunction stands: what its phrase hangs from."""
    if view.labels[node] not in {"IN", "TO"} or view.parents[node] < 0:
        return ""
    above = _grandparent(view, node)
    if view.parent_label(node) == "SBAR":
        return "s" + above[:1]
    return "n" if above.startswith("N") else "v" if above.startswith(("V", "S")) else "a" if above else ""


def _conjunction(view: NodeView, node: int) -> str:
    """``&`` and ``but`` are conjunctions of other kinds."""
    if view.labels[node] != "CC":
        return ""
    word = view.word(node)
    return word if word in {"&", "but"} else ""


def _percent(view: NodeView, node: int) -> str:
    """``%`` is a special kind of noun."""
    return "%" if view.word(node) == "%" else ""


def _own_word(view: NodeView, node: int) -> str:
    """The word itself, of a closed class."""
    closed = {"IN", "TO", "CC", "DT", "RB", "MD", "WDT", "WP", "WRB", "RP"}
    return "=" + view.word(node) if view.labels[node] in closed else ""


#: Notes on parts of speech, by name.
TAG_NOTES: dict[str, Note] = {
    "tag-parent": NodeView.parent_label,
    "auxiliary": _auxiliary,
    "in-place": _in_place,
    "conjunction": _conjunction,
    "percent": _percent,
    "alone": _alone,
    "own-word": _own_word,
}


def notes_on(tree: Tree, names: Sequence[str]) -> list[list[str]]:
    """The notes of these names, in this order, on each node in the order of :meth:`Tree.nodes`; the root has none."""
    view = NodeView(tree)
    of_phrases = [PHRASE_NOTES[name] for name in names if name in PHRASE_NOTES]
    of_tags = [TAG_NOTES[name] for name in names if name in TAG_NOTES]
    notes: list[list[str]] = [[]]
    for node in range(1, len(view.labels)):
        chosen = of_phrases if view.children[node] else of_tags
        notes.append([text for note in chosen if (text := note(view, node))])
    return notes
