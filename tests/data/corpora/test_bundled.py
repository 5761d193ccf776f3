"""What the bundled corpus promises."""

from __future__ import annotations

import pytest

from loglinear.data.corpora.bundled import SPLITS, TASKS, bundled_rows, bundled_text, bundled_trees
from loglinear.data.trees.heads import ENTITY_TYPES, split_entity
from loglinear.errors import OptionError

PHRASES = frozenset(
    "ROOT S SBAR SBARQ SINV SQ NP NML VP PP ADJP ADVP PRT QP WHNP WHADVP WHADJP WHPP PRN INTJ CONJP FRAG".split()  # noqa: SIM905
)
TAGS = frozenset(
    "CC CD DT EX FW IN JJ JJR JJS LS MD NN NNS NNP NNPS PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH VB VBD VBG VBN VBP "  # noqa: SIM905
    "VBZ WDT WP WP$ WRB . , : `` '' $ -LRB- -RRB-".split()
)


def mentions(split: str) -> list[tuple[str, str]]:
    """Entity mentions of a split as (type, words)."""
    found: list[tuple[str, str]] = []
    for rows in bundled_rows(split, "ner"):
        for word, _, tag in rows:
            if tag.startswith("B-"):
                found.append((tag[2:], word))
            elif tag != "O":
                found[-1] = (tag[2:], f"{found[-1][1]} {word}")
    return found


def test_size_and_shares() -> None:
    sizes = {split: len(bundled_trees(split)) for split in SPLITS}
    total = sum(sizes.values())
    assert total >= 320
    assert 0.65 <= sizes["train"] / total <= 0.75
    assert min(sizes["dev"], sizes["test"]) / total >= 0.13


def test_lengths_are_varied() -> None:
    lengths = [len(tree.leaves()) for split in SPLITS for tree in bundled_trees(split)]
    assert (min(lengths), max(lengths)) == (3, 35)
    assert 12 <= sum(lengths) / len(lengths) <= 15
    assert len(set(lengths)) >= 20


def test_no_sentence_occurs_twice() -> None:
    sentences = [" ".join(tree.leaves()) for split in SPLITS for tree in bundled_trees(split)]
    assert len(set(sentences)) == len(sentences)


@pytest.mark.parametrize("split", SPLITS)
def test_labels_are_penn_labels(split: str) -> None:
    for tree in bundled_trees(split):
        assert tree.label == "ROOT" and len(tree.children) == 1
        for node in tree.nodes():
            label = split_entity(node.label)[0]
            assert label in (TAGS if node.is_preterminal else PHRASES), (label, str(tree))
            if len(node.children) == 1:
                assert split_entity(node.children[0].label)[0] != label, str(tree)


@pytest.mark.parametrize("split", SPLITS)
def test_marks_are_never_nested_and_hold_no_possessive(split: str) -> None:
    for tree in bundled_trees(split):
        for node in tree.nodes():
            if split_entity(node.label)[1]:
                below = [inner for inner in node.nodes() if inner is not node]
                assert not any(split_entity(inner.label)[1] for inner in below), str(tree)
                assert "POS" not in node.tags(), str(tree)


def test_entities_are_many_of_all_types_and_partly_new_in_each_split() -> None:
    found = {split: mentions(split) for split in SPLITS}
    assert sum(map(len, found.values())) >= 250
    known = set(found["train"])
    for split in ("dev", "test"):
        assert {kind for kind, _ in found[split]} == set(ENTITY_TYPES)
        seen = sum(mention in known for mention in found[split]) / len(found[split])
        assert 0.1 <= seen <= 0.7, split


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("task", TASKS)
def test_rows_and_text_hold_the_words_of_the_trees(split: str, task: str) -> None:
    rows = bundled_rows(split, task)
    assert [[row[0] for row in sentence] for sentence in rows] == [tree.leaves() for tree in bundled_trees(split)]
    assert {len(row) for sentence in rows for row in sentence} == {4 if task == "dependency" else 2 + (task != "pos")}
    lines = bundled_text(split, task).split("\n")
    assert len([line for line in lines if line]) == sum(map(len, rows))


def test_trees_without_entities_have_plain_labels() -> None:
    assert any("=" in node.label for tree in bundled_trees("dev") for node in tree.nodes())
    assert not any("=" in node.label for tree in bundled_trees("dev", entities=False) for node in tree.nodes())


def test_all_chunk_types_that_train_needs_occur() -> None:
    kinds = {row[2][2:] for sentence in bundled_rows("train", "chunk") for row in sentence}
    assert {"NP", "VP", "PP", "ADVP", "ADJP", "SBAR", "PRT", "CONJP", "INTJ"} <= kinds


@pytest.mark.parametrize("call", [lambda: bundled_trees("tests"), lambda: bundled_rows("dev", "tags")])
def test_unknown_names_are_errors(call: object) -> None:
    assert callable(call)
    with pytest.raises(OptionError, match="choose one of"):
        call()
