"""Two systems on the same gold data: each figure is that of its report, and each test the one that suits it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data.dependencies import Dependencies
from loglinear.data.trees.tree import parse_trees
from loglinear.errors import DataError
from loglinear.evaluation import (
    accuracy_report,
    bracket_scores,
    chunk_counts,
    chunk_scores,
    mcnemar,
    paired_attachments,
    paired_bootstrap,
    paired_brackets,
    paired_labels,
    paired_rows,
    paired_t_test,
)
from loglinear.evaluation.attachment import attachment_scores
from loglinear.evaluation.significance import paired_bootstraps, recall

LABELS = ("O", "B-X", "I-X", "B-Y")
triples = st.lists(
    st.integers(1, 5).flatmap(
        lambda n: st.tuples(*(st.lists(st.sampled_from(LABELS), min_size=n, max_size=n) for _ in range(3)))
    ),
    min_size=2,
    max_size=6,
)


@settings(deadline=None)
@given(triples=triples)
def test_labels(triples):
    gold, first, second = (list(each) for each in zip(*triples, strict=True))
    report = paired_labels(gold, first, second, chunks=True, draws=50)
    assert (report.examples, report.draws) == (len(gold), 50)
    for place, system in (("first", first), ("second", second)):
        chunks = chunk_scores(gold, system)
        found = {name: getattr(each, place) for name, each in report.figures.items()}
        assert found == pytest.approx(
            {
                "chunk F1": chunks.f1,
                "chunk precision": chunks.precision,
                "chunk recall": chunks.recall,
                "tag accuracy": accuracy_report(gold, system).accuracy,
                "right sentences": 100.0 * np.mean([g == s for g, s in zip(gold, system, strict=True)]),
            }
        )
    boot = paired_bootstrap(chunk_counts(gold, first), chunk_counts(gold, second), draws=50)
    of_f1 = report.figures["chunk F1"]
    assert (of_f1.bootstrap, of_f1.low, of_f1.high) == pytest.approx((boot.p, boot.low, boot.high))
    right = [[g == s for a, b in zip(gold, system, strict=True) for g, s in zip(a, b, strict=True)]
             for system in (first, second)]  # fmt: skip
    wrong = [[sum(map(str.__ne__, g, s)) for g, s in zip(gold, system, strict=True)] for system in (first, second)]
    of_tags = report.figures["tag accuracy"]
    assert of_tags.mcnemar == pytest.approx(mcnemar(*right).p)
    assert of_tags.t_test == pytest.approx(paired_t_test(*wrong).p)
    assert report.figures["right sentences"].mcnemar == pytest.approx(mcnemar(*(np.array(w) == 0 for w in wrong)).p)
    assert of_f1.mcnemar is None and report.figures["chunk recall"].t_test is None
    assert "chunk F1" not in paired_labels(gold, first, second, chunks=False, draws=5).figures
    assert report.to_dict()["figures"]["chunk F1"]["first"] == of_f1.first


def test_several_figures_share_their_draws():
    rng = np.random.default_rng(0)
    one, other = (np.stack([np.full(40, 5), np.full(40, 5), rng.integers(0, 6, 40)], axis=1) for _ in range(2))
    together = paired_bootstraps([(one, other, "f1"), (one, other, recall), (other, one, "f1")], 300, 7)
    assert together[0] == paired_bootstrap(one, other, 300, 7) and together[1] == pytest.approx(together[0])
    assert together[2].low == pytest.approx(-together[0].high) and together[2].p == together[0].p


@given(st.lists(st.tuples(*[st.sampled_from("abc")] * 3), min_size=2, max_size=20))
def test_rows(rows):
    from sklearn.metrics import f1_score

    gold, first, second = (list(each) for each in zip(*rows, strict=True))
    rng = np.random.default_rng(len(rows))
    losses = rng.random(len(rows)), rng.random(len(rows))
    figures = paired_rows(gold, first, second, losses, draws=20).figures
    for place, system, loss in (("first", first, losses[0]), ("second", second, losses[1])):
        found = {name: getattr(each, place) for name, each in figures.items()}
        accuracy = 100.0 * np.mean([g == s for g, s in zip(gold, system, strict=True)])
        macro = 100.0 * f1_score(gold, system, average="macro", zero_division=0.0)
        assert found == pytest.approx({"accuracy": accuracy, "macro F1": macro, "log loss": loss.mean()})
    right = [[g == s for g, s in zip(gold, system, strict=True)] for system in (first, second)]
    assert figures["accuracy"].mcnemar == pytest.approx(mcnemar(*right).p)
    assert figures["log loss"].t_test == pytest.approx(paired_t_test(*losses).p)
    assert "log loss" not in paired_rows(gold, first, second, draws=5).figures


def test_brackets():
    gold = [*parse_trees("(ROOT (S (NP (D the) (N dog)) (VP (V ran))))\n" * 6)]
    flat = [*parse_trees("(ROOT (S (D the) (N dog) (V ran)))\n")]
    wrong_tag = parse_trees("(ROOT (S (NP (D the) (N dog)) (VP (N ran))))\n")
    one = bracket_scores(gold, [*gold[:3], *flat, None, *wrong_tag])
    other = bracket_scores(gold, [*flat, *gold[1:]])
    figures = paired_brackets(one, other, draws=100).figures
    for place, report in (("first", one), ("second", other)):
        found = {name: getattr(each, place) for name, each in figures.items()}
        assert found == pytest.approx(
            {
                "bracket F1": report.f1,
                "bracket precision": report.precision,
                "bracket recall": report.recall,
                "exact": report.exact,
                "tag accuracy": report.tags,
            }
        )
    # wrong brackets: missing ones of the flat tree (NP, VP) and of none at all (S, NP, VP)
    assert figures["bracket F1"].t_test == pytest.approx(paired_t_test([0, 0, 0, 2, 3, 0], [2, 0, 0, 0, 0, 0]).p)
    right = [True, True, True, False, False, True], [False, True, True, True, True, True]
    assert figures["exact"].mcnemar == pytest.approx(mcnemar(*right).p)


def test_attachments():
    gold = Dependencies.from_sentences(
        [[("the", "D"), ("dog", "N"), ("ran", "V")]] * 5, [[(2, "det"), (3, "subj"), (0, "root")]] * 5
    )
    heads, relations = gold.heads.copy(), gold.relations
    heads[:5] = [3, 1, 0, 2, 0]
    other = Dependencies.from_sentences(
        [[("the", "D"), ("dog", "N"), ("ran", "V")]] * 5, [[(2, "det"), (3, "obj"), (0, "root")]] * 5
    )
    report = paired_attachments(gold, (heads, relations), (other.heads, other.relations), draws=100)
    assert list(report.figures) == ["UAS", "LAS", "exact"]
    for place, (own_heads, own_relations) in (
        ("first", (heads, relations)),
        ("second", (other.heads, other.relations)),
    ):
        scores = attachment_scores(gold, own_heads, own_relations)
        found = {name: getattr(each, place) for name, each in report.figures.items()}
        assert found == pytest.approx({"UAS": scores.uas, "LAS": scores.las, "exact": 100 * scores.exact / 5})
    assert report.figures["UAS"].mcnemar == pytest.approx(mcnemar(heads == gold.heads, other.heads == gold.heads).p)
    assert list(paired_attachments(gold, (heads, None), (other.heads, relations), draws=9).figures) == ["UAS", "exact"]


def test_nothing_cannot_be_compared():
    with pytest.raises(DataError, match="nothing to compare"):
        paired_labels([], [], [], chunks=False)
