"""UAS and LAS."""

import numpy as np
import pytest

from loglinear.data import Column, Dependencies
from loglinear.errors import DataError
from loglinear.evaluation.attachment import attachment_counts, attachment_scores

SENTENCES = [[("a", "D"), ("b", "N"), (".", ".")], [("c", "N")]]
TREES = [[(2, "det"), (0, "root"), (2, "punct")], [(0, "root")]]


def test_heads_and_relations_are_counted():
    gold = Dependencies.from_sentences(SENTENCES, TREES)
    relations = Column(np.array([0, 1, 0, 1], dtype=np.int32), ["det", "root"])
    report = attachment_scores(gold, [2, 0, 1, 0], relations)
    assert (report.tokens, report.heads, report.labelled, report.sentences, report.exact) == (4, 3, 3, 2, 1)
    assert (report.uas, report.las) == (75.0, 75.0)
    other = attachment_scores(gold, [2, 0, 2, 0], relations)
    assert (other.uas, other.las, other.exact) == (100.0, 75.0, 2)
    assert "UAS  75.00  LAS  75.00" in report.text()
    assert report.to_dict()["las"] == 75.0
    assert report.failures is None
    assert "failures" not in report.text()


def test_sentences_that_could_not_be_parsed_are_counted():
    gold = Dependencies.from_sentences(SENTENCES, TREES)
    report = attachment_scores(gold, [2, 0, 1, 0], fallback=np.array([True, False]))
    assert report.to_dict()["failures"] == 1
    assert report.text().endswith("failures 1\n")


def test_tags_may_be_left_out_and_relations_lacking():
    gold = Dependencies.from_sentences(SENTENCES, TREES)
    report = attachment_scores(gold, [2, 0, 1, 0], leave_out=["."])
    assert (report.tokens, report.uas, report.las, report.exact) == (3, 100.0, None, 2)
    unlabelled = Dependencies.from_sentences(SENTENCES, [[2, 0, 2], [0]])
    assert not unlabelled.has_relations
    assert attachment_scores(unlabelled, [2, 0, 2, 0], gold.relations).las is None


def test_counts_of_sentences_add_up_to_the_report():
    gold = Dependencies.from_sentences(SENTENCES, TREES)
    counts = attachment_counts(gold, [2, 0, 1, 0])
    assert counts.tolist() == [[3, 3, 2], [1, 1, 1]]


def test_what_does_not_fit_is_refused():
    gold = Dependencies.from_sentences(SENTENCES, TREES)
    with pytest.raises(DataError, match="4 gold heads but 3"):
        attachment_scores(gold, [2, 0, 1])
    with pytest.raises(DataError, match="no trees"):
        attachment_scores(Dependencies.from_sentences(SENTENCES), [2, 0, 1, 0])
