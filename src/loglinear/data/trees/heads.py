"""Head rules: the heads of phrases, and projective dependencies from constituency trees; the parts of labels.

Each phrase has a head child, found by a table in the manner of Magerman (1995) and Collins (1999); the head word of
every other child depends on the head word of the phrase. One word has head 0, the root. Any table gives projective
dependency trees without cycles. As in Collins's table, auxiliaries head their verb phrase, and prepositions and
complementisers their phrase; a relative or question word depends on the verb of its clause.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from loglinear.data.trees.tree import Tree

_NOUNS = "NN NNS NNP NNPS NML NX"
_FINITE = "VBD VBZ VBP MD"
_NP_RULE = f"< {_NOUNS} / > NP WHNP / < $ CD PRP QP EX WP WDT / < POS JJ JJR JJS ADJP DT VBG VBN RB"
_CLAUSE_RULE = "> VP / > S SINV SQ SBARQ / > ADJP UCP / > NP / > SBAR PP ADVP"

#: Label to head rule: groups tried in turn; ``>`` takes the first child with a label of the group, ``<`` the last.
_RULES = {
    "NP": _NP_RULE, "WHNP": _NP_RULE, "NX": _NP_RULE, "NML": _NP_RULE, "NAC": _NP_RULE,
    "QP": "> $ / < CD NN NNS / < JJ JJR RB DT",
    "VP": f"> TO {_FINITE} VB VBN VBG / > VP / > ADJP NP",
    "S": _CLAUSE_RULE, "ROOT": _CLAUSE_RULE, "RRC": _CLAUSE_RULE, "PRN": _CLAUSE_RULE,
    "FRAG": "> VP / > S SBAR NP ADJP ADVP PP WHNP WHADVP INTJ",
    "SINV": f"> {_FINITE} VB / > VP S",
    "SQ": f"> {_FINITE} VB / > VP SQ",
    "SBARQ": "> SQ S SINV SBARQ FRAG",
    "SBAR": "> IN TO / > S SQ SINV SBAR FRAG / > WHNP WHADVP WHPP",
    "PP": "> IN TO VBG VBN RP JJ FW / > PP", "WHPP": "> IN TO",
    "ADJP": "> JJ JJR JJS VBN VBG / > ADJP / > NN NNS $ QP CD RB",
    "WHADJP": "> JJ JJR / > WRB", "WHADVP": "< WRB RB",
    "ADVP": "< RB RBR RBS / < ADVP / < IN JJ JJR NN WRB",
    "PRT": "> RP", "INTJ": "> UH", "CONJP": "< CC RB IN", "LST": "> LS CD"
}  # fmt: skip
_PARSED = {
    label: [(group.split()[0] == "<", frozenset(group.split()[1:])) for group in rule.split(" / ")]
    for label, rule in _RULES.items()
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_COPULA = _words(
    "be is are was were been being am 's 're 'm seem seems seemed become becomes became remain remains remained"
)
_TIME = _words(
    "today yesterday tomorrow tonight morning afternoon evening night day days week weeks month months year years hour "
    "hours minute minutes time times Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March "
    "April May June July August September October November December weekend spring summer autumn winter"
)
#: Relation names: root, sbj(ect), obj(ect), prd (predicative), vc (verb chain), comp(lement clause), sub (clause of a
#: complementiser), modifiers of noun, verb, adjective or adverb, and of a preposition, prt (particle), wh, cc, conj.
RELATIONS = _words("root sbj obj prd vc comp sub nmod vmod amod pmod prt wh cc conj punct dep")
_NOUN_PHRASE = frozenset({"NP", "WHNP", "NX", "NML", "NAC", "QP"})
_CLAUSE = frozenset({"S", "SINV", "SQ", "SBARQ", "RRC", "FRAG", "ROOT", "PRN"})


def _head_child(tree: Layout, node: int) -> int:
    children = tree.children[node]
    for rightmost, wanted in _PARSED.get(tree.labels[node], ()):
        for child in reversed(children) if rightmost else children:
            if tree.labels[child] in wanted:
                return child
    words = [child for child in children if not tree.is_punctuation(child) and tree.labels[child] != "CC"]
    return (words or children)[0]


def head_children(flat: Layout) -> list[int]:
    """For each node, in the order of :meth:`Tree.nodes`, which of its children (from 0) is the head."""
    return [children.index(_head_child(flat, node)) if children else 0 for node, children in enumerate(flat.children)]


def _clause_relation(tree: Layout, node: int, child: int, head: int) -> str:
    """Relation inside a clause: the noun phrase next to the verb is its subject, after it when inverted."""
    label = tree.labels[child]
    siblings = tree.children[node]
    if label == "VP":
        return "vc"
    if label in {"WHNP", "WHADVP", "WHPP", "WHADJP"}:
        return "wh"
    if label in {"NP", "SBAR", "S"}:
        before = [other for other in siblings if other < head and tree.labels[other] == "NP"]
        after = [other for other in siblings if other > head and tree.labels[other] == "NP"]
        subject = before[-1:] or (after[:1] if tree.labels[node] in {"SINV", "SQ"} else [])
        if subject == [child]:
            return "sbj"
        return "vmod" if label == "NP" else "comp"
    return "vmod"


def _relation(tree: Layout, node: int, child: int, head: int, words: list[int]) -> str:
    """Name the dependency of ``child`` on the head child of ``node``; ``words`` holds each node's head position."""
    parent, label = tree.labels[node], tree.labels[child]
    if tree.is_punctuation(child):
        return "punct"
    if label in {"CC", "CONJP"}:
        return "cc"
    if child > head and any(
        head < other < child and tree.labels[other] in {"CC", "CONJP"} for other in tree.children[node]
    ):
        return "conj"
    if label == "PRT":
        return "prt"
    if parent in _NOUN_PHRASE:
        return "nmod"
    if parent == "VP":
        if label in {"VP", "SBAR", "S"}:
            return "vc" if label == "VP" else "comp"
        if label == "NP":
            if tree.words[words[child]] in _TIME:
                return "vmod"
            return "prd" if tree.words[words[head]].lower() in _COPULA else "obj"
        return "prd" if label == "ADJP" else "vmod"
    if parent in _CLAUSE:
        return _clause_relation(tree, node, child, head)
    if parent == "SBAR":
        return "wh" if label.startswith("WH") else "sub" if label in {"S", "SINV", "SQ", "SBAR"} else "amod"
    if parent in {"PP", "WHPP"}:
        return "pmod" if child > head else "amod"
    return "amod" if parent in {"ADJP", "ADVP", "WHADJP", "WHADVP"} else "dep"


def dependencies(tree: Tree) -> tuple[list[int], list[str]]:
    """Heads and relations of the words of a tree.

    Returns
    -------
    heads : list of int
        Position of each word's head, from 1; 0 for the root (length T).
    relations : list of str
        Names from :data:`RELATIONS` (length T).
    """
    flat = layout(tree)
    words = flat.start[:]  # position of the head word of each node
    heads = [0] * len(flat.words)
    relations = ["root"] * len(flat.words)
    for node in range(len(flat.labels) - 1, -1, -1):  # children come after their parent in the layout
        if flat.children[node]:
            head = _head_child(flat, node)
            words[node] = words[head]
            for child in flat.children[node]:
                if child != head:
                    heads[words[child]] = words[head] + 1
                    relations[words[child]] = _relation(flat, node, child, head, words)
    return heads, relations


# ----------------------------------------------------------------------------------------------------------------------
# Parts of labels (entity marks, function tags), the tags of punctuation, and trees as parallel lists.


ENTITY_TYPES = ("PER", "ORG", "LOC", "MISC")
PUNCTUATION = frozenset({",", ".", ":", "``", "''", "-LRB-", "-RRB-", "(", ")", "HYPH", "NFP"})
_MARK = re.compile(rf"(.+)=({'|'.join(ENTITY_TYPES)})\Z", re.DOTALL)
_FUNCTION = re.compile(r"[-=|].*", re.DOTALL)


def split_entity(label: str) -> tuple[str, str | None]:
    """Split a label into ``(label without the mark, entity type or None)``."""
    match = _MARK.match(label)
    return (match[1], match[2]) if match else (label, None)


@lru_cache(maxsize=10_000)  # a treebank has many nodes but few labels
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
    """Convert a tree to parallel lists."""
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
