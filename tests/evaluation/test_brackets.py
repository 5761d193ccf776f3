"""PARSEVAL against examples computed by hand, and its laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.data.trees.tree import Tree, fallback_tree, is_fallback, parse_tree, tree_word
from loglinear.errors import DataError
from loglinear.evaluation import bracket_counts, bracket_scores

GOLD = "(ROOT (S (NP (DT the) (NN dog)) (, ,) (VP (VBD saw) (NP (DT a) (NN cat)) (PP (IN in) (NP (NN town)))) (. .)))"
#      brackets without punctuation: S 0-7, NP 0-2, VP 2-7, NP 3-5, PP 5-7, NP 6-7
LOW = (
    "(TOP (S (NP (DT the) (NN dog)) (, ,) (VP (VBD saw) (NP (NP (DT a) (NN cat)) (PP (IN in) (NP (NNP town))))) (. .)))"
)
#      S 0-7, NP 0-2, VP 2-7, NP 3-7, NP 3-5, PP 5-7, NP 6-7

labels = st.sampled_from(["S", "NP", "VP", "PRT", "ADVP"])
tags = st.sampled_from(["NN", "VB", ",", "."])
preterminals = st.builds(lambda label: Tree(label, word="w"), tags)
trees = st.recursive(
    preterminals, lambda inner: st.builds(Tree, labels, st.lists(inner, min_size=1, max_size=4)), max_leaves=10
).map(lambda tree: Tree("ROOT", [tree]))


def scores(gold: str, predicted: str | None) -> tuple[list[int], dict[str, float]]:
    report = bracket_scores([parse_tree(gold)], [None if predicted is None else parse_tree(predicted)])
    return report.counts[0].tolist(), report.to_dict()


def test_attachment() -> None:
    counts, report = scores(GOLD, LOW)
    assert counts == [6, 7, 6, 7, 6, 0, 0]
    assert report["precision"] == pytest.approx(100 * 6 / 7) and report["recall"] == 100
    assert report["f1"] == pytest.approx(100 * 12 / 13) and report["exact"] == 0
    assert report["tags"] == pytest.approx(100 * 6 / 7) and report["failures"] == 0


def test_punctuation_may_be_attached_anywhere() -> None:
    moved = GOLD.replace("(NN dog)) (, ,)", "(NN dog) (, ,))").replace("(. .)))", "))").replace("town", "town") + ""
    moved = moved.replace("(NN town))))", "(NN town) (. .))))")
    assert scores(GOLD, moved)[0][:3] == [6, 6, 6]
    assert scores(GOLD, moved)[1]["exact"] == 100


def test_a_phrase_of_punctuation_is_none() -> None:
    assert scores("(ROOT (S (NP (NN a)) (X (. .))))", "(ROOT (S (NP (NN a)) (. .)))")[0][:3] == [2, 2, 2]


def test_equal_brackets_match_as_often_as_they_occur() -> None:
    assert scores("(ROOT (NP (NP (NN a))))", "(ROOT (NP (NN a)))")[0][:3] == [2, 1, 1]
    assert scores("(ROOT (NP (NP (NN a))))", "(ROOT (NP (X (NP (NP (NN a))))))")[0][:3] == [2, 4, 2]


def test_crossing() -> None:
    left = "(ROOT (S (X (N a) (N b)) (N c) (N d)))"
    middle = "(ROOT (S (N a) (X (N b) (N c)) (N d)))"
    assert scores(left, middle)[0] == [2, 2, 1, 4, 4, 1, 0]
    assert scores(left, left)[0][5] == 0


def test_particles() -> None:
    gold, other = parse_tree("(ROOT (PRT (RP up)))"), parse_tree("(ROOT (ADVP (RP up)))")
    assert bracket_counts([gold], [other]).tolist() == [[1, 1, 1]]
    assert bracket_counts([gold], [other], same_particle=False).tolist() == [[1, 1, 0]]


def test_no_parse_is_no_bracket() -> None:
    gold = parse_tree(GOLD)
    flagged = fallback_tree(gold.leaves(), gold.tags())
    assert is_fallback(flagged) and not is_fallback(gold)
    assert scores(GOLD, str(flagged))[0] == [6, 0, 0, 7, 7, 0, 1]
    assert scores(GOLD, None)[0] == [6, 0, 0, 7, 0, 0, 1]
    assert scores(GOLD, None)[1] | {"failures": 0} == dict.fromkeys(
        ("precision", "recall", "f1", "exact", "tags", "failures"), 0
    ) | {"sentences_per_second": None}
    # nothing to find is not found by failing
    assert bracket_scores([parse_tree("(ROOT (NN a))")], [None]).exact == 0


OWN_LABEL = "(ROOT (NOPARSE (NP (DT the) (NN dog)) (VBD ran)))"


def test_a_label_of_a_treebank_is_no_flag() -> None:
    assert not is_fallback(parse_tree(OWN_LABEL))
    assert not is_fallback(parse_tree("(ROOT (NOPARSE (NN a)) (NOPARSE (NN b)))"))
    assert scores(OWN_LABEL, OWN_LABEL)[0] == [2, 2, 2, 3, 3, 0, 0]
    flat = parse_tree("(ROOT (NOPARSE (DT the) (NN dog)))")
    assert bracket_scores([flat], [flat], failed=[False]).counts.tolist() == [[1, 1, 1, 2, 2, 0, 0]]
    assert bracket_scores([flat], [flat], failed=[True]).counts.tolist() == [[1, 0, 0, 2, 2, 0, 1]]
    with pytest.raises(DataError, match="but 2 in failed"):
        bracket_scores([flat], [flat], failed=[False, False])


@given(trees)
def test_a_tree_is_its_own_best_prediction(tree: Tree) -> None:
    report = bracket_scores([tree], [tree])
    gold, predicted, matched, words, right, crossing, failed = report.counts[0].tolist()
    assert gold == predicted == matched and words == right and crossing == failed == 0 and report.exact == 100


@given(st.data())
def test_matches_are_symmetric_and_no_more_than_either(data: st.DataObject) -> None:
    tree = data.draw(trees)
    other = data.draw(trees.filter(lambda other: len(other.leaves()) == len(tree.leaves())) | st.just(tree))
    words = [tag in {",", "."} for tag in tree.tags()]
    (gold, predicted, matched), *_ = bracket_counts([tree], [other]).tolist()
    assert matched <= min(gold, predicted)
    if words == [tag in {",", "."} for tag in other.tags()]:
        assert bracket_counts([other], [tree]).tolist() == [[predicted, gold, matched]]


def test_trees_of_other_sentences_are_refused() -> None:
    one, two, other = (parse_tree(f"(ROOT {body})") for body in ("(N a)", "(X (N a) (N b))", "(N b)"))
    with pytest.raises(DataError, match="tree 1: 1 word in the gold tree, but 2"):
        bracket_scores([one], [two])
    with pytest.raises(DataError, match="tree 2: the gold tree has 'a' where the predicted one has 'b'"):
        bracket_scores([one, one], [one, other])
    with pytest.raises(DataError, match="1 gold tree, but 0"):
        bracket_scores([one], [])


def test_brackets_have_names() -> None:
    assert [tree_word(word) for word in ("(", "]", "{", "a(b)", "dog")] == [
        "-LRB-", "-RSB-", "-LCB-", "a-LRB-b-RRB-", "dog",
    ]  # fmt: skip
