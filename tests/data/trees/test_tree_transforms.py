"""Laws of binarisation, markovisation and cleaning."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.data.trees.cleaning import clean, read_treebank, rooted
from loglinear.data.trees.transforms import FACTORS, base_label, binarise, is_intermediate, noted, restore
from loglinear.data.trees.tree import Tree, parse_tree
from loglinear.errors import DataError, OptionError

DATA = Path(os.environ.get("LOGLINEAR_DATA", Path(__file__).parents[3] / ".." / "shared" / "data"))
token = st.text(alphabet="ab^@\\|<>,-=~é", min_size=1, max_size=4)
preterminals = st.builds(lambda label, word: Tree(label, word=word), token, token)
trees = st.recursive(
    preterminals, lambda inner: st.builds(Tree, token, st.lists(inner, min_size=1, max_size=6)), max_leaves=20
)
orders = st.tuples(st.integers(1, 4), st.one_of(st.none(), st.integers(0, 3)), st.sampled_from(FACTORS), st.booleans())


@given(trees, orders)
def test_a_binarised_tree_can_be_restored(tree: Tree, order: tuple[int, int | None, str, bool]) -> None:
    binary = binarise(tree, *order)
    assert all(len(node.children) <= 2 for node in binary.nodes())
    assert restore(binary) == tree
    assert binary.leaves() == tree.leaves()
    assert restore(parse_tree(str(binary))) == tree


@given(trees, orders)
def test_intermediate_nodes_have_two_children(tree: Tree, order: tuple[int, int | None, str, bool]) -> None:
    binary = binarise(tree, *order)
    assert all(len(node.children) == 2 for node in binary.nodes() if is_intermediate(node.label))
    more = sum(max(len(node.children) - 2, 0) for node in tree.nodes())
    assert sum(is_intermediate(node.label) for node in binary.nodes()) == more


@given(token, st.lists(st.text(alphabet="abS-", max_size=3), max_size=3))
def test_a_label_comes_back_from_its_notes(label: str, notes: list[str]) -> None:
    assert base_label(noted(label, notes)) == label
    assert not is_intermediate(noted(label, notes))


@given(trees)
def test_a_longer_memory_splits_labels_further(tree: Tree) -> None:
    """Each symbol of a higher order stands for one of a lower order only: a refinement."""
    for shorter, longer in (((1, 0), (1, 1)), ((1, 1), (2, 1)), ((2, 1), (2, None)), ((2, 2), (3, 2))):
        coarse = [node.label for node in binarise(tree, *shorter).nodes()]
        fine = [node.label for node in binarise(tree, *longer).nodes()]
        assert len(set(zip(fine, coarse, strict=True))) == len(set(fine))


RULE = "(A (L2 a) (L1 b) (H (x c)) (R1 d) (R2 e))"


def test_head_outward() -> None:
    # the table knows no A: the first child is its head; a VP's is its verb
    binary = binarise(parse_tree("(VP (X a) (Y b) (VB c) (NP d) (PP e))"), horizontal=1)
    assert str(binary) == "(VP (X a) (@VP|VB<Y (Y b) (@VP|VB>PP (@VP|VB>NP (VB c) (NP d)) (PP e))))"


def test_from_one_end() -> None:
    right = binarise(parse_tree(RULE), horizontal=2, factor="right")
    assert str(right) == "(A (L2 a) (@A|L1,H (L1 b) (@A|H,R1 (H (x c)) (@A|R1,R2 (R1 d) (R2 e)))))"
    left = binarise(parse_tree(RULE), horizontal=2, factor="left")
    assert str(left) == "(A (@A|R1,H (@A|H,L1 (@A|L1,L2 (L2 a) (L1 b)) (H (x c))) (R1 d)) (R2 e))"


def test_ancestors() -> None:
    tree = parse_tree("(S (NP (NP (NN a)) (PP b)))")
    assert str(binarise(tree, vertical=3)) == "(S (NP^S (NP^NP^S (NN a)) (PP b)))"
    assert str(binarise(tree, vertical=2, tag_parents=True)) == "(S (NP^S (NP^NP (NN^NP a)) (PP^NP b)))"


def test_depth_is_not_limited_by_recursion() -> None:
    depth = 20_000
    tree = parse_tree("(X " * depth + "(N w)" + " (N w) (N w))" * depth)
    assert restore(binarise(tree, vertical=2, horizontal=1)) == tree
    assert clean(tree) == rooted(tree)


@pytest.mark.parametrize(
    "options", [{"vertical": 0}, {"vertical": 1.5}, {"horizontal": -1}, {"horizontal": True}, {"factor": "up"}]
)
def test_orders_without_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=f"{next(iter(options))}="):
        binarise(parse_tree(RULE), **options)  # type: ignore[arg-type]


def test_what_was_not_binarised_is_not_restored() -> None:
    with pytest.raises(DataError, match="intermediate node at its root"):
        restore(parse_tree("(@A|b (N a) (N b))"))


# -- cleaning --------------------------------------------------------------------------------------------------------


@given(trees)
def test_cleaning_twice_is_cleaning_once(tree: Tree) -> None:
    once = clean(tree)
    assert once is not None and once.leaves() == tree.leaves() and once.tags() == tree.tags()
    assert clean(once) == once
    assert once.label == "ROOT"


def test_traces_and_function_tags_go() -> None:
    tree = parse_tree("( (S (NP-SBJ-1 (NNP Vinken)) (VP (VBZ is) (S (NP-SBJ (-NONE- *-1)) (VP (TO to)))) (. .)))")
    assert str(clean(tree)) == "(ROOT (S (NP (NNP Vinken)) (VP (VBZ is) (S (VP (TO to)))) (. .)))"
    kept = clean(tree, function_tags=True)
    assert kept is not None and "(NP-SBJ-1 (NNP" in str(kept)
    assert clean(parse_tree("(S (NP (-NONE- *)))")) is None


def test_a_phrase_over_itself_goes() -> None:
    assert str(clean(parse_tree("(TOP (NP (NP-1 (NP (NN a)))))"))) == "(ROOT (NP (NN a)))"
    assert str(clean(parse_tree("(NN (NN a))"))) == "(ROOT (NN (NN a)))"  # a tag is no phrase


def test_empty_trees_are_left_out_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "t.mrg"
    path.write_text("(ROOT (NN a))\n( )\n(())\n(ROOT (X (-NONE- *)))\n( (NN b))\n")
    with pytest.warns(UserWarning, match=r"t\.mrg:2: 3 trees without words are left out"):
        assert [tree.leaves() for tree in read_treebank(path)] == [["a"], ["b"]]
    path.write_text("\n( )\n")
    with pytest.raises(DataError, match=r"t\.mrg:2: no tree of the file has a word"):
        read_treebank(path)


@given(st.binary(max_size=60))
def test_any_bytes_are_trees_or_an_error(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.mrg"
    path.write_bytes(raw)
    try:
        forest = read_treebank(path)
    except DataError as error:
        assert error.file == str(path)
    else:
        assert forest


@given(st.text(alphabet="() \n#aN-=|^@\\", max_size=60))
@pytest.mark.filterwarnings("ignore:.*without words")
def test_any_brackets_are_trees_or_an_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.mrg"
    path.write_text(text)
    try:
        forest = read_treebank(path)
    except DataError as error:
        assert error.file == str(path)
    else:
        for tree in forest:
            assert restore(binarise(tree, 2, 1)) == tree


@pytest.mark.skipif(not (DATA / "hostile_trees").is_dir(), reason="no hostile_trees under LOGLINEAR_DATA")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("crlf_unicode", ["(ROOT (NP (NN café) (SYM ±) (CD 0.5)))", "(ROOT (NP (NN 東京)))"]),
        ("raw_ptb_multiline", None),
        ("single_word", ["(ROOT (NP (NN Results)))"]),
        ("unary_chains_cycles", None),
        ("flat_20ary", None),
        ("unknown_labels", None),
        ("extra_close", ":1: a closing bracket too many"),
        ("unbalanced", ":1: brackets left open"),
        ("two_words_in_preterminal", ":1: two words, 'Xpd' and 'TTD'"),
        ("empty_trees", ":1: no tree of the file has a word"),
    ],
)
def test_hostile_files(name: str, expected: list[str] | str | None) -> None:
    path = DATA / "hostile_trees" / f"{name}.mrg"
    if isinstance(expected, str):
        with pytest.raises(DataError) as caught:
            read_treebank(path)
        assert expected in str(caught.value)
        return
    forest = read_treebank(path)
    assert expected is None or [str(tree) for tree in forest] == expected
    for tree in forest:
        assert restore(binarise(tree, 2, 2)) == tree
        assert not any("-NONE-" in tag for tag in tree.tags())
