"""Counts in words: one of a thing is in the singular, in reports and in errors."""

import io

import pytest

from loglinear import Classifier, Parser, Tagger, read_columns
from loglinear.data.dependencies import Dependencies
from loglinear.errors import DataError
from loglinear.wording import how_many


@pytest.mark.parametrize(
    ("n", "noun", "text"),
    [
        (0, "tree", "0 trees"),
        (1, "tree", "1 tree"),
        (1000, "entry", "1,000 entries"),
        (2, "class", "2 classes"),
        (2, "day", "2 days"),
    ],
)
def test_a_count_in_words(n, noun, text):
    assert how_many(n, noun) == text


@pytest.mark.parametrize("criterion", ["cll", "mecfg", "nota", "pcfg-em"])
def test_a_parser_of_one_tree(criterion):
    parser = Parser(criterion, max_iter=1).fit(["(S (NP (DT the) (NN cat)) (VP (VB ran)))"])
    assert "1 trees" not in parser.message_ and "1 sentences" not in parser.message_


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tagger().fit([[["a"]]], []), "given are 1 sequence but 0 label sequences"),
        (lambda: Tagger().fit([[["a"]]], [["X", "Y"]]), r"sequence 0 \(from 0\) has 1 token but 2 labels"),
        (lambda: Classifier().fit([{"a": 1}], ["p", "q"]), "X has 1 example, but y 2 labels"),
        (lambda: read_columns(io.BytesIO(b"a b\nc\n")), "this row has 1 field, the first row"),
        (lambda: Dependencies.from_sentences([[("a", "D")]], [[0, 1]]), "has 1 token, but 2 heads"),
        (lambda: Dependencies.from_sentences([[("a", "D")]], []), "1 sentence, but 0 trees"),
    ],
)
def test_one_of_a_thing_in_errors(make, message):
    with pytest.raises(DataError, match=message):
        make()
