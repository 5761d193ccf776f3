"""Laws of trees and of their bracketed text."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.data.trees.tree import Tree, parse_tree, parse_trees, read_trees, read_trees_and_sentences
from loglinear.errors import DataError

DATA = Path(os.environ.get("LOGLINEAR_DATA", Path(__file__).parents[3] / ".." / "shared" / "data"))
HOSTILE = sorted((DATA / "hostile_trees").glob("*.mrg"))

token = st.text(
    st.characters(blacklist_characters=" \t\r\n\f\v()", blacklist_categories=("Cs",)), min_size=1, max_size=6
)
preterminals = st.builds(lambda label, word: Tree(label, word=word), token, token)
trees = st.recursive(
    preterminals, lambda inner: st.builds(Tree, token, st.lists(inner, min_size=1, max_size=4)), max_leaves=12
)


@given(trees)
def test_text_reads_back_to_the_same_tree(tree: Tree) -> None:
    again = parse_tree(str(tree))
    assert again == tree
    assert (again.leaves(), again.tags(), again.spans()) == (tree.leaves(), tree.tags(), tree.spans())
    assert pickle.loads(pickle.dumps(tree)) == tree


@given(st.lists(trees, max_size=4))
def test_layout_of_the_text_does_not_matter(forest: list[Tree]) -> None:
    one_a_line = "\n".join(map(str, forest))
    spread = "\n\n# note\n".join(str(tree).replace(" ", "\r\n  ") for tree in forest)
    if forest:
        assert "\n  " in spread
    assert list(parse_trees(one_a_line)) == list(parse_trees(spread)) == forest


@given(trees)
def test_spans_are_the_phrases_of_the_tree(tree: Tree) -> None:
    phrases = [node for node in tree.nodes() if not node.is_preterminal]
    spans = tree.spans()
    words = tree.leaves()
    assert [label for label, _, _ in spans] == [node.label for node in phrases]
    assert [words[start:end] for _, start, end in spans] == [node.leaves() for node in phrases]
    for _, start, end in spans:  # no two phrases cross
        assert not any(start < other < end < last for _, other, last in spans)


@given(st.text(alphabet="( )ab\n#", max_size=40))
def test_any_text_is_trees_or_an_error_with_a_line(text: str) -> None:
    try:
        forest = list(parse_trees(text, "f"))
    except DataError as error:
        assert error.line is not None and 1 <= error.line <= text.count("\n") + 1
    else:
        assert list(parse_trees("\n".join(map(str, forest)))) == forest


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("(ROOT (NN a))\n(ROOT (S (NN dog))", 2, "left open"),
        ("(ROOT (S (NN dog))\n(ROOT (NN cat))\n", 1, "left open"),
        ("( (S (NN dog))\n( (S (NN cat)))\n", 1, "left open"),
        ("(ROOT (NN dog)))", 1, "too many"),
        ("\n( )", 2, "empty tree"),
        ("(ROOT (NP ))", 1, "empty tree"),
        ("(ROOT (NN two words))", 1, "two words"),
        ("(ROOT (NP (DT the) dog))", 1, "beside subtrees"),
        ("(ROOT (NP the (NN dog)))", 1, "subtree after the word"),
        ("dog", 1, r"'dog' stands outside any bracket; a tree begins with '\('$"),
        ("# text\n1\tdog\tdog\tNOUN\n", 2, "'1' stands outside any bracket.*for CoNLL-U there is parse --dependencies"),
        ("(ROOT (NP ((NN dog))))", 1, "without a label"),
    ],
)
def test_malformed_text_is_an_error_with_file_and_line(text: str, line: int, says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        list(parse_trees(text, "some.mrg"))
    assert (caught.value.file, caught.value.line) == ("some.mrg", line)


def test_unlabelled_outer_bracket_is_the_root() -> None:
    assert parse_tree("( (S (NN dog)) )") == parse_tree("(ROOT (S (NN dog)))")


def test_depth_is_not_limited_by_recursion() -> None:
    depth = 50_000
    tree = parse_tree("(X " * depth + "(N w)" + ")" * depth)
    assert tree.leaves() == ["w"]
    assert len(tree.spans()) == depth
    assert parse_tree(str(tree)) == tree


@pytest.mark.parametrize("arguments", [{}, {"word": "a b"}, {"word": "("}, {"word": ""}])
def test_a_node_that_cannot_be_written_cannot_be_made(arguments: dict[str, str]) -> None:
    with pytest.raises(DataError):
        Tree("NN", **arguments)
    with pytest.raises(DataError):
        Tree("NP", [Tree("NN", word="dog")], word="dog")


def test_files_may_be_compressed_and_marked(tmp_path: Path) -> None:
    text = "# two trees\n(ROOT (NN café))\r\n(ROOT (NN dog))"
    (tmp_path / "plain.mrg").write_bytes(text.encode("utf-8-sig"))
    (tmp_path / "packed.mrg.gz").write_bytes(gzip.compress(text.encode()))
    plain = read_trees(tmp_path / "plain.mrg")
    assert [tree.leaves() for tree in plain] == [["café"], ["dog"]]
    assert read_trees(str(tmp_path / "packed.mrg.gz")) == plain


@pytest.mark.parametrize(
    ("raw", "line"),
    [(b"(ROOT (NN a))\n(ROOT (NN \xff))", 2), (b"", None), (b"\n# only\n", None), (b"\x1f\x8bxx", None)],
)
def test_bad_files_are_errors_that_name_them(tmp_path: Path, raw: bytes, line: int | None) -> None:
    path = tmp_path / "bad.mrg"
    path.write_bytes(raw)
    with pytest.raises(DataError) as caught:
        read_trees(path)
    assert (caught.value.file, caught.value.line) == (str(path), line)
    with pytest.raises(DataError, match="cannot be read"):
        read_trees(tmp_path / "missing.mrg")


def test_files_of_trees_and_sentences(tmp_path: Path) -> None:
    path, tree = tmp_path / "some.txt", parse_tree("(ROOT (S (N a) (V b)))")
    path.write_text("the dog\n\n(ROOT\n  (S (N a)\n (V b)))\n# no (sentence\n  a cat (1)\n(ROOT (S (N a) (V b)))\n")
    assert read_trees_and_sentences(path) == [["the", "dog"], tree, ["a", "cat", "(1)"], tree]
    path.write_text("a b\n(ROOT (S\nc d\n")
    with pytest.raises(DataError, match="two words") as caught:
        read_trees_and_sentences(path)
    assert caught.value.line == 3
    path.write_text("# nothing\n\n")
    with pytest.raises(DataError, match="no tree and no sentence"):
        read_trees_and_sentences(path)


@pytest.mark.skipif(not HOSTILE, reason="no hostile_trees under LOGLINEAR_DATA")
@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: path.name)
def test_hostile_files_give_trees_or_a_clear_error(path: Path) -> None:
    try:
        forest = read_trees(path)
    except DataError as error:
        assert error.file == str(path) and error.line is not None
    else:
        assert all(tree.leaves() for tree in forest)
        assert [parse_tree(str(tree)) for tree in forest] == forest
