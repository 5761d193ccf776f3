"""What files note of sentences as wholes."""

import pytest

from loglinear.data import read_columns, read_jsonl
from loglinear.data.columns.notes import required_notes, sentence_notes
from loglinear.errors import DataError


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_comment_is_about_the_sentence_that_follows(end, tmp_path):
    first = ["# class = a b", "# other = x", "one 1", "two 2", "", "# some other text", "# class =", "three 3", ""]
    lines = [*first, "#class = ç", "", "-DOCSTART- O", "", "four 4", "", "# class = none follows"]
    path = tmp_path / "f.txt"
    path.write_bytes(("\ufeff" + end.join(lines) + end).encode())
    corpus = read_columns(path)
    assert sentence_notes(corpus, "class") == ["a b", None, "ç"]
    assert sentence_notes(corpus, "clas") == [None] * 3
    with pytest.raises(DataError, match=r"f\.txt:8: the class of this sentence is missing; .* # class = NAME"):
        required_notes(corpus, "class")


def test_a_row_is_no_comment(tmp_path):
    (tmp_path / "f.txt").write_text("# class = x\na b c d\n\n")
    corpus = read_columns(tmp_path / "f.txt", comments="none")
    assert corpus.n_tokens == 2 and sentence_notes(corpus, "class") == [None]


def test_keys_of_json_lines(tmp_path):
    (tmp_path / "f.jsonl").write_text(
        '{"tokens": ["a"], "class": "x"}\n\n{"tokens": ["b"], "class": 3}\n{"tokens": ["c"]}\n'
    )
    corpus = read_jsonl(tmp_path / "f.jsonl")
    assert sentence_notes(corpus, "class") == ["x", "3", None]
    assert required_notes(corpus.select([0, 1]), "class") == ["x", "3"]
    with pytest.raises(DataError, match=r'f\.jsonl:4: .* a key "class"'):
        required_notes(corpus, "class")
    (tmp_path / "f.jsonl").write_text('{"tokens": ["a"], "class": ["x"]}\n')
    with pytest.raises(DataError, match=r'f\.jsonl:1: "class" must be a string'):
        sentence_notes(read_jsonl(tmp_path / "f.jsonl"), "class")
