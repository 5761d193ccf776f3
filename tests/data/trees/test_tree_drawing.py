"""Drawings show every node, and are well-formed."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from loglinear.data.trees.drawing import draw, draw_svg, outline, text_width
from loglinear.data.trees.tree import Tree, parse_tree

SVG = "{http://www.w3.org/2000/svg}"
token = st.text(
    st.characters(blacklist_characters=" \t\r\n\f\v()", blacklist_categories=("Cs",)), min_size=1, max_size=6
)
plain = st.text(alphabet="abcXYZ<&'\"", min_size=1, max_size=6)


def trees_of(tokens: st.SearchStrategy[str]) -> st.SearchStrategy[Tree]:
    preterminals = st.builds(lambda label, word: Tree(label, word=word), tokens, tokens)
    return st.recursive(
        preterminals, lambda inner: st.builds(Tree, tokens, st.lists(inner, min_size=1, max_size=4)), max_leaves=10
    )


def test_a_small_tree() -> None:
    tree = parse_tree("(ROOT (S (NP (DT the) (NN dog)) (VP (VBD ran))))")
    assert draw(tree).splitlines() == [
        "     ROOT",
        "       │",
        "       S",
        "    ┌──┴───┐",
        "   NP     VP",
        " ┌──┴─┐    │",
        "DT   NN   VBD",
        " │    │    │",
        "the  dog  ran",
    ]
    assert outline(tree).splitlines() == [
        "ROOT", "└─ S", "   ├─ NP", "   │  ├─ DT the", "   │  └─ NN dog", "   └─ VP", "      └─ VBD ran",
    ]  # fmt: skip


@given(trees_of(plain))
def test_a_drawing_shows_every_text_in_its_row(tree: Tree) -> None:
    rows = draw(tree).splitlines()
    by_depth: dict[int, list[str]] = {}
    stack: list[tuple[Tree, int]] = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        by_depth.setdefault(depth, []).append(node.label)
        if node.word is not None:
            by_depth.setdefault(depth + 1, []).append(node.word)
        stack.extend((child, depth + 1) for child in reversed(node.children))
    assert len(rows) == 2 * max(by_depth) + 1
    for depth, texts in by_depth.items():
        assert rows[2 * depth].split() == texts
    for row in rows[1::2]:
        assert set(row) <= set(" │─┌┐└┘├┤┬┴┼")


@given(trees_of(token))
def test_any_tree_can_be_drawn(tree: Tree) -> None:
    assert draw(tree).count("\n") % 2 == 1
    assert draw(tree, width=1) in (outline(tree), draw(tree))
    assert len(outline(tree).split("\n")) == len(list(tree.nodes())) + 1
    picture = ElementTree.fromstring(draw_svg(tree))
    texts = [element.text for element in picture.iter(f"{SVG}text")]
    assert len(texts) == len(list(tree.nodes())) + len(tree.leaves())
    shown = [text for text in tree.leaves() if text.isprintable()]
    assert set(shown) <= set(texts)


def test_wide_characters_count_twice() -> None:
    assert [text_width(text) for text in ("dog", "東京", "e\u0301")] == [3, 4, 1]


def test_a_deep_tree_is_drawn() -> None:
    tree = parse_tree("(X " * 3000 + "(N w)" + ")" * 3000)
    assert draw(tree).count("\n") == 2 * 3001 + 1
    assert draw_svg(tree).count("<text") == 3002
