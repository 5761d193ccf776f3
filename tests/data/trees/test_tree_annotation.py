"""Laws of notes on labels and of the whole transformation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.data.trees.annotation import PHRASE_NOTES, TAG_NOTES, TreeTransform, forgetful, notes_on
from loglinear.data.trees.cleaning import part_marked, without_marks
from loglinear.data.trees.transforms import base_label, binarise, is_intermediate, noted, restore
from loglinear.data.trees.tree import Tree, parse_tree
from loglinear.errors import OptionError

token = st.sampled_from(["NP", "VP", "S", "PP", "IN", "NN", "VBZ", "CC", "-LRB-", "a^b", "@x", ",", "A|B", "<", "x\\"])
preterminals = st.builds(lambda label, word: Tree(label, word=word), token, token)
trees = st.recursive(
    preterminals, lambda inner: st.builds(Tree, token, st.lists(inner, min_size=1, max_size=6)), max_leaves=15
).map(lambda tree: Tree("ROOT", [tree]))
ALL = (*PHRASE_NOTES, *TAG_NOTES)
transforms = st.builds(
    TreeTransform,
    annotation=st.sampled_from(["none", "parent", "rich"]),
    vertical=st.integers(1, 3),
    horizontal=st.one_of(st.none(), st.integers(0, 3)),
    factor=st.sampled_from(["head", "left", "right"]),
    least=st.integers(1, 4),
    least_intermediate=st.integers(1, 4),
    notes=st.lists(st.sampled_from(ALL), unique=True).map(tuple),
    noted_siblings=st.booleans(),
)


@given(st.lists(trees, min_size=1, max_size=5), transforms)
def test_every_transformation_can_be_restored(forest: list[Tree], transform: TreeTransform) -> None:
    binary = transform.apply(forest)
    assert [restore(tree) for tree in binary] == forest
    assert all(len(node.children) <= 2 for tree in binary for node in tree.nodes())
    assert all(tree.label == "ROOT" for tree in binary)


@given(st.lists(trees, min_size=1, max_size=5), st.integers(2, 5))
def test_labels_with_notes_are_seen_often_enough(forest: list[Tree], least: int) -> None:
    binary = TreeTransform(least=least, least_intermediate=least, horizontal=2, notes=ALL).apply(forest)
    counts: dict[str, int] = {}
    for tree in binary:
        for node in tree.nodes():
            counts[node.label] = counts.get(node.label, 0) + 1
    for label, count in counts.items():
        if is_intermediate(label):
            assert count >= least or label.endswith(("<", ">"))
        else:
            assert count >= least or label == noted(base_label(label))


def test_forgetting_begins_with_the_last_sibling() -> None:
    tree = binarise(parse_tree("(VP (VB a) (NP b) (PP c) (X d))"), horizontal=None)
    assert str(tree) == "(VP (@VP|VB>PP,NP (@VP|VB>NP (VB a) (NP b)) (PP c)) (X d))"
    assert str(forgetful([tree], 2)[0]) == "(VP (@VP|VB> (@VP|VB> (VB a) (NP b)) (PP c)) (X d))"
    # two nodes remember a PP last, so that much may stay
    other = binarise(parse_tree("(VP (VB a) (S b) (PP c) (X d))"), horizontal=None)
    assert "(@VP|VB>PP (@VP|VB> " in str(forgetful([tree, other], 2)[0])


SENTENCE = """
(ROOT (S (NP (NP (DT the) (NN share)) (PP (IN of) (NP (NP (NNP Apple) (POS 's)) (NN profit)))) (VP (VBD was)
(VP (VBN said) (S (VP (TO to) (VP (VB rise) (NP (CD 5) (NN %))))))) (CC but) (ADVP (RB slowly)) (. .)))
"""


@pytest.mark.parametrize(
    ("name", "label", "expected"),
    [
        ("parent", "NP", ["S", "NP", "PP", "NP", "VP"]),
        ("base", "NP", ["", "B", "", "B", "B"]),
        ("possessive", "NP", ["", "", "", "P", ""]),
        ("right-recursive", "NP", ["R", "", "", "", ""]),
        ("verb-form", "VP", ["VBF", "VBN", "TO", "VB"]),
        ("clause-form", "S", ["VBF", "TO"]),
        ("gap", "S", ["", "G"]),
        ("unary", "S", ["", "U"]),
        ("with-verb", "NP", ["", "", "", "", ""]),
        ("with-verb", "S", ["v", "v"]),
        ("coordination", "S", ["C", ""]),
        ("preposition", "PP", ["of"]),
        ("head-tag", "NP", ["hNN", "hNN", "hNN", "hNNP", "hNN"]),
        ("tag-parent", "NN", ["NP", "NP", "NP"]),
        ("auxiliary", "VBD", ["BE"]),
        ("in-place", "IN", ["n"]),
        ("in-place", "TO", ["v"]),
        ("conjunction", "CC", ["but"]),
        ("percent", "NN", ["", "", "%"]),
        ("alone", "RB", ["A"]),
        ("alone", "DT", [""]),
        ("own-word", "IN", ["=of"]),
    ],
)
def test_notes(name: str, label: str, expected: list[str]) -> None:
    tree = parse_tree(SENTENCE)
    notes = notes_on(tree, [name])
    found = [about for node, about in zip(tree.nodes(), notes, strict=True) if node.label == label]
    assert found == [[text] if text else [] for text in expected]


@given(trees)
def test_notes_are_of_every_node_but_the_root(tree: Tree) -> None:
    notes = notes_on(tree, ALL)
    assert len(notes) == len(list(tree.nodes()))
    assert notes[0] == []
    assert all(about for about in notes_on(tree, ["parent", "tag-parent"])[1:])


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("NP^S-B", ("NP", "^S-B")),
        ("ROOT-U-v", ("ROOT", "-U-v")),
        ("-LRB-^NP", ("-LRB-", "^NP")),
        ("-LRB-", ("-LRB-", "")),
        ("-", ("-", "")),
        ("^", ("^", "")),
        ("PRP$^NP", ("PRP$", "^NP")),
    ],
)
def test_marked_labels(label: str, expected: tuple[str, str]) -> None:
    assert part_marked(label, "^-") == expected


def test_trees_with_notes_of_their_own() -> None:
    tree = parse_tree("(ROOT-U (S^ROOT (NP^S-B (DT^NP a) (JJ^NP b) (NN^NP c)) (-LRB-^S d)))")
    (binary,) = TreeTransform("none", marks="^-").apply([tree])
    plain = without_marks(tree, "^-")
    assert str(plain) == "(ROOT (S (NP (DT a) (JJ b) (NN c)) (-LRB- d)))"
    assert restore(binary) == plain
    labels = {node.label for node in binary.nodes()}
    assert len(labels) == 8 and "ROOT" in labels  # the notes tell them apart


@pytest.mark.parametrize(
    "options", [{"annotation": "some"}, {"marks": "^"}, {"vertical": 0}, {"horizontal": -1}, {"factor": "x"}]
)
def test_what_makes_no_sense_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(OptionError):
        TreeTransform(**options)  # type: ignore[arg-type]
