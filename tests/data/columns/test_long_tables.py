"""Long tables and data sets: sentences by a column, data frames, Hugging Face's records."""

import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data import (
    Columns,
    features_from_frame,
    from_datasets,
    from_frame,
    read,
    read_jsonl,
    read_table_columns,
    write_jsonl,
    write_table_columns,
)
from loglinear.data.columns import sniffed_source
from loglinear.errors import DataError, OptionError

GMB = "Sentence #,Word,POS,Tag\nSentence: 1,Anna,NNP,B-per\n,sang,VBD,O\nSentence: 2,Oslo,NNP,B-geo\n"


def reading(text, format="csv", **how):
    source = io.BytesIO(text.encode())
    source.name = "t"
    return read_table_columns(source, format, **how)


@pytest.mark.parametrize("again", ["", "Sentence: 1"])
def test_the_sentence_stands_in_its_first_row_or_in_each(again, tmp_path):
    text = GMB.replace("\n,sang", f"\n{again},sang")
    corpus = reading(text)
    assert corpus.rows() == [[("Anna", "NNP", "B-per"), ("sang", "VBD", "O")], [("Oslo", "NNP", "B-geo")]]
    assert corpus.names == ["Word", "POS", "Tag"] and corpus.lines.tolist() == [2, 3, 4]
    assert corpus.labels(corpus.number("pos")) == [["NNP", "VBD"], ["NNP"]]
    (tmp_path / "t.csv").write_text(text)
    assert read(tmp_path / "t.csv").rows() == corpus.rows()
    (tmp_path / "t.tsv").write_text(text.replace(",", "\t"))
    assert read(tmp_path / "t.tsv").rows() == corpus.rows()
    out = io.BytesIO()
    write_table_columns(corpus, out, "csv", {"Tag": ["x", "y", "z"]})
    assert out.getvalue().decode().splitlines()[0] == "Sentence #,Word,POS,Tag,Tag_"
    assert out.getvalue().decode().splitlines()[1:] == [
        line + "," + tag for line, tag in zip(text.splitlines()[1:], "xyz", strict=True)
    ]


def test_other_tables_are_left_to_the_classifier(tmp_path):
    (tmp_path / "t.csv").write_text("label,text\nspam,a\n")
    assert sniffed_source(tmp_path / "t.csv")[0] == "columns"


cells = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=4).filter(str.strip)


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(cells, cells), min_size=1, max_size=3), min_size=1, max_size=3))
def test_write_then_read_is_the_identity(sentences):
    corpus = Columns.from_rows(sentences)
    out = io.BytesIO()
    write_table_columns(corpus, out, "csv")
    assert reading(out.getvalue().decode()).rows() == sentences


@pytest.mark.parametrize(
    "text, how, message",
    [
        (GMB.replace("Sentence #", "who"), {}, "t: no column is called as usual for the sentence of each row"),
        (GMB.replace("Word", "x"), {}, "for the token of each row .*--token-column"),
        (GMB, {"sentence": "doc"}, "there is no column 'doc'"),
        (GMB + "Sentence: 1,a,b,c\n", {}, "t:5: sentence 'Sentence: 1' comes back"),
        (GMB.replace("sang", " "), {}, "t:3: column 'Word' is empty"),
        (GMB + "x\n", {}, "t:5: 1 cell under 4 columns"),
    ],
)
def test_bad_tables_are_refused(text, how, message):
    with pytest.raises(DataError, match=message):
        reading(text, **how)


def test_data_frames_of_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(io.StringIO(GMB))
    assert from_frame(frame).rows() == reading(GMB).rows()
    numbered = frame.assign(**{"Sentence #": [1.0, None, 2.0]}).rename(columns={"Sentence #": "s", "Word": "w"})
    assert from_frame(numbered, sentence="s", tokens="w").rows() == reading(GMB).rows()
    with pytest.raises(DataError, match=r"row 2 \(from 0\): sentence '1' comes back"):
        from_frame(frame.assign(**{"Sentence #": [1, 2, 1]}))
    with pytest.raises(DataError, match="not a data frame"):
        from_frame([["a"]])


class Dataset(dict):
    """As much of a Hugging Face data set as is used."""

    def __init__(self, columns, names=None):
        super().__init__(columns)
        self.column_names = list(columns)
        feature = type("Sequence", (), {"feature": type("ClassLabel", (), {"names": names})})
        self.features = {"ner_tags": feature} if names else {}


def test_datasets():
    columns = {"tokens": [["Oslo", "!"], ["a"]], "ner_tags": [[1, 0], [0]]}
    rows = [[("Oslo", "B-LOC"), ("!", "O")], [("a", "O")]]
    assert from_datasets(Dataset(columns, ["O", "B-LOC"])).rows() == rows
    assert from_datasets(columns, names=["O", "B-LOC"]).rows() == rows
    assert from_datasets(columns | {"ner_tags": [["B-LOC", "O"], ["O"]]}).rows() == rows
    assert from_datasets(columns, labels=None).rows() == [[("Oslo",), ("!",)], [("a",)]]
    for wrong, how, message in [
        (columns, {}, "sequence 0 .*position 0: the label 1: there are no names"),
        (columns, {"names": ["O"]}, "of 1 names"),
        (columns | {"ner_tags": [[1], [0]]}, {"names": ["O", "X"]}, "2 tokens but 1 ner_tags"),
        (columns, {"labels": "pos"}, "no column 'pos'; there are tokens, ner_tags"),
        (columns | {"ner_tags": [[-100, 0], [0]]}, {"names": ["O"]}, "the label -100"),
        (3, {}, "choose a split"),
    ]:
        with pytest.raises(DataError, match=message):
            from_datasets(wrong, **how)


def test_json_lines_with_other_keys_and_numbered_labels():
    def records(*values):
        return io.BytesIO("".join(json.dumps(value) + "\n" for value in values).encode())

    record = {"words": ["Oslo", "!"], "ner_tags": [1, 0], "id": "7"}
    how = {"tokens_key": "words", "label_keys": ["ner_tags"]}
    corpus = read_jsonl(records(record), **how, label_names=["O", "B-LOC"])
    assert corpus.rows() == [[("Oslo", "B-LOC"), ("!", "O")]]
    out = io.BytesIO()
    write_jsonl(corpus, out, {"predicted": [["O", "O"]]})
    assert json.loads(out.getvalue()) == record | {"predicted": ["O", "O"]}
    with pytest.raises(DataError, match=r"1: \"ner_tags\" must be a list of strings, or of numbers .*--label-names"):
        read_jsonl(records(record), **how)
    with pytest.raises(DataError, match="holds 1, but there are 1 names"):
        read_jsonl(records(record), **how, label_names=["O"])
    with pytest.raises(DataError, match='"tokens" is missing; name the key'):
        read_jsonl(records(record))
    with pytest.raises(DataError, match="--format doccano"):
        read_jsonl(records({"text": "a"}))
    out = io.BytesIO()
    write_jsonl(Columns.from_rows([[("a", "X")]]), out, tokens_key="words", labels_key="tags")
    assert json.loads(out.getvalue()) == {"words": ["a"], "tags": ["X"]}


def test_frames_with_arrays_with_numbers_for_names_and_without_rows():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"sentence": [1, 1], "word": ["a", "b"], "emb": [np.zeros(2)] * 2, "n": [1.0, 2.0]})
    with pytest.raises(DataError, match=r"column 'emb' holds arrays.*features_from_frame"):
        from_frame(frame)
    assert from_frame(frame[["sentence", "word"]][:0]).n_sentences == 0
    assert features_from_frame(frame[:0], group="sentence").n_sentences == 0
    numbered = frame.set_axis([0, 1, 2, 3], axis=1)
    found = features_from_frame(numbered, group=0)
    assert found.values == ["1:a", "1:b"] and sorted(found.dense) == ["2", "3"]
    with pytest.raises(OptionError, match="no column '0'"):
        features_from_frame(numbered, group="0")
    with pytest.raises(DataError, match="more than one column 'word'"):
        features_from_frame(frame.set_axis(["sentence", "word", "word", "n"], axis=1), group="sentence")
