"""Laws of the chunk scores: two referees (seqeval, and conlleval's rules one token at a time), and the exact text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities

from loglinear.errors import DataError
from loglinear.evaluation import ChunkReport, chunk_scores

Labels = list[list[str]]
bio = st.sampled_from(["O", "B-NP", "I-NP", "B-VP", "I-VP"])
any_tag = st.sampled_from(["O", "B", "I", "E", "S", "L", "U", ".", "[", "]", "NN", ""])
any_type = st.sampled_from(["", "-", "-NP", "-VP", "-A-B", "-0", "-é"])
anything = st.tuples(any_tag, any_type).map("".join)


def pairs(label: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[Labels, Labels]]:
    sentence = st.lists(st.tuples(label, label) | label.map(lambda y: (y, y)), min_size=1, max_size=8)
    return st.lists(sentence, max_size=5).map(
        lambda sentences: ([[g for g, _ in s] for s in sentences], [[p for _, p in s] for s in sentences])
    )


def scores(report: ChunkReport) -> tuple[float, ...]:
    return report.precision, report.recall, report.f1


@settings(deadline=None)
@given(pairs(bio))
def test_seqeval_agrees_on_bio(labels: tuple[Labels, Labels]) -> None:
    gold, predicted = labels
    report = chunk_scores(gold, predicted)
    found = [set(get_entities(side)) for side in labels] if gold else [set(), set()]
    assert (report.phrases, report.found) == (len(found[0]), len(found[1]))
    assert report.correct == len(found[0] & found[1])
    if found[0] and found[1]:
        referee = [100 * score(gold, predicted) for score in (precision_score, recall_score, f1_score)]
        assert scores(report) == pytest.approx(referee)
    for name, score in report.types.items():
        assert score.gold == sum(kind == name for kind, *_ in found[0])
        assert score.correct == sum(kind == name for kind, *_ in found[0] & found[1])


def split(label: str) -> tuple[str, str]:
    tag, _, kind = label.partition("-")
    return tag, "" if kind == "0" else kind


def starts(before: tuple[str, str], here: tuple[str, str]) -> bool:
    by_tag = before[0] + here[0] in ("BB", "IB", "OB", "OI", "EE", "EI", "OE") and len(before[0]) == len(here[0]) == 1
    by_type = here[0] not in ("O", ".") and before[1] != here[1]
    return by_tag or by_type or here[0] in ("[", "]")


def ends(before: tuple[str, str], here: tuple[str, str]) -> bool:
    by_tag = before[0] + here[0] in ("BB", "BO", "IB", "IO", "EE", "EI", "EO") and len(before[0]) == len(here[0]) == 1
    by_type = before[0] not in ("O", ".") and before[1] != here[1]
    return by_tag or by_type or before[0] in ("[", "]")


def token_by_token(gold: Labels, predicted: Labels) -> tuple[int, int, int, int]:
    """Phrases, found, correct and correct labels by a state that walks over the tokens."""
    outside = ("O", "")
    steps: list[tuple[tuple[str, str], tuple[str, str]]] = []
    for one, other in zip(gold, predicted, strict=True):
        steps += [(split(g), split(p)) for g, p in zip(one, other, strict=True)] + [(outside, outside)]
    phrases = found = correct = 0
    going = False
    before = (outside, outside)
    for here in steps:
        end = ends(before[0], here[0]), ends(before[1], here[1])
        if going and all(end):
            correct, going = correct + 1, False
        elif going and (any(end) or here[0][1] != here[1][1]):
            going = False
        start = starts(before[0], here[0]), starts(before[1], here[1])
        going = going or (all(start) and here[0][1] == here[1][1])
        phrases, found = phrases + start[0], found + start[1]
        before = here
    tags = sum(
        split(g) == split(p) for one, two in zip(gold, predicted, strict=True) for g, p in zip(one, two, strict=True)
    )
    return phrases, found, correct + going, tags


@settings(deadline=None, max_examples=400)
@given(pairs(anything) | pairs(bio) | pairs(st.sampled_from(["E-X", "I-X", "E", "I", "B", "O", "."])))
def test_a_walk_over_the_tokens_agrees_on_all_tags(labels: tuple[Labels, Labels]) -> None:
    report = chunk_scores(*labels, as_written=True)
    assert (report.phrases, report.found, report.correct, report.correct_tags) == token_by_token(*labels)
    assert report.phrases == sum(score.gold for score in report.types.values())
    assert report.found == sum(score.found for score in report.types.values())
    assert list(report.types) == sorted(report.types)


@given(pairs(anything))
def test_swapping_gold_and_prediction_swaps_precision_and_recall(labels: tuple[Labels, Labels]) -> None:
    one, other = chunk_scores(*labels), chunk_scores(*reversed(labels))
    assert (one.precision, one.recall, one.accuracy) == (other.recall, other.precision, other.accuracy)


@given(st.lists(st.lists(bio, min_size=1), max_size=4))
def test_gold_against_itself_is_perfect(labels: Labels) -> None:
    report = chunk_scores(labels, labels)
    assert report.correct == report.phrases == report.found
    assert report.f1 == (100 if report.phrases else 0)


def test_arrays_and_lists_say_the_same() -> None:
    gold, predicted = [["B-NP", "I-NP", "O"], ["B-VP"]], [["B-NP", "O", "O"], ["B-VP"]]
    offsets = np.array([0, 3, 4])
    arrays = (np.array([2, 0, 1, 3], dtype=np.int32), ["I-NP", "O", "B-NP", "B-VP"], offsets)
    other = (np.array([0, 1, 1, 2], dtype=np.int32), ["B-NP", "O", "B-VP"], offsets)
    assert chunk_scores(arrays, other) == chunk_scores(gold, predicted)
    assert chunk_scores(arrays, predicted).to_dict() == chunk_scores(gold, other).to_dict()


def test_sentences_do_not_run_together() -> None:
    assert chunk_scores([["B-NP"], ["I-NP"]], [["B-NP"], ["I-NP"]]).correct == 2
    assert chunk_scores([["B-NP", "I-NP"]], [["B-NP", "I-NP"]]).correct == 1


def test_the_text_is_conllevals() -> None:
    # The expected text was printed by the Perl script, version 2004-01-26, for these labels.
    gold = [["B-NP", "I-NP", "O", "B-VP"], ["B-ADJP", "B-NP", "I-NP"]]
    predicted = [["B-NP", "I-NP", "B-PP", "B-VP"], ["O", "B-NP", "O"]]
    assert chunk_scores(gold, predicted).text() == (
        "processed 7 tokens with 4 phrases; found: 4 phrases; correct: 2.\n"
        "accuracy:  57.14%; precision:  50.00%; recall:  50.00%; FB1:  50.00\n"
        "             ADJP: precision:   0.00%; recall:   0.00%; FB1:   0.00  0\n"
        "               NP: precision:  50.00%; recall:  50.00%; FB1:  50.00  2\n"
        "               PP: precision:   0.00%; recall:   0.00%; FB1:   0.00  1\n"
        "               VP: precision: 100.00%; recall: 100.00%; FB1: 100.00  1\n"
    )


def test_the_text_of_odd_labels_is_conllevals() -> None:
    perfect = "precision: 100.00%; recall: 100.00%; FB1: 100.00"
    nameless = chunk_scores([["B", "I", "O"]], [["B", "I", "O"]]).text()
    assert nameless.splitlines()[2:] == [f"{'':17}: {perfect}  1"] * 2
    accented = chunk_scores([["B-é"]], [["B-é"]]).text()
    assert accented.splitlines()[2] == f"{'':15}é: {perfect}  1"
    assert chunk_scores([], []).text() == "processed 0 tokens with 0 phrases; found: 0 phrases; correct: 0.\n"
    tags = chunk_scores([["DT", "NN"]], [["DT", "VB"]])
    assert tags.text().splitlines()[1].startswith("accuracy:  50.00%; precision:   0.00%")
    assert tags.types == {}


def test_the_dictionary() -> None:
    report = chunk_scores([["B-NP", "O"]], [["B-NP", "B-VP"]]).to_dict()
    assert list(report) == ["tokens", "phrases", "found", "correct", "accuracy", "precision", "recall", "f1", "types"]
    assert report["accuracy"] == 50 and report["recall"] == 100
    assert report["types"]["VP"]["found"] == 1 and report["types"]["VP"]["gold"] == 0


@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [
        ([["O"], ["O"]], [["O"], ["O", "O"]], "sequence 1 .from 0.: 1 gold label but 2"),
        ([["O"]], [["O"], ["O"]], "1 gold sequence but 2"),
        ([["O"]], ["O"], "sequence 0 .from 0. is a string"),
    ],
)
def test_labellings_of_different_shapes_are_refused(gold: Labels, predicted: Labels, message: str) -> None:
    with pytest.raises(DataError, match=message):
        chunk_scores(gold, predicted)
