"""CoNLL-U as columns: what is a token and what is not, columns by name, and every other byte kept."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import TemplateSet
from loglinear.data import Column, Columns, read, read_conllu, read_conllu_columns, write_conllu_columns
from loglinear.data.columns import sniffed_source
from loglinear.data.columns.conllu_file import NAMES
from loglinear.errors import DataError, TemplateError
from loglinear.features.templates.sets import load_template

VAMOS = (
    "# sent_id = 1\n# text = vamos al mar\n"
    "1\tvamos\tir\tVERB\tV\tA=1|B=2\t0\troot\t_\t_\n"
    "2-3\tal\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    "2\ta\ta\tADP\tS\t_\t3\tcase\t_\t_\n"
    "3\tel mar\tmar\tNOUN\tN\t_\t1\tobl\t_\tX=1\n"
    "3.1\tx\tx\tX\t_\t_\t_\t_\t0:r\t_\n\n"
)


def reading(text, name="f.conllu"):
    source = io.BytesIO(text.encode())
    source.name = name
    return read_conllu_columns(source)


def written(corpus, column, values, misc=None):
    out = io.BytesIO()
    write_conllu_columns(corpus, out, corpus.number(column), Column.from_strings(values), misc)
    return out.getvalue().decode()


def test_ranges_and_empty_nodes_are_no_tokens_and_columns_have_names():
    corpus = reading(VAMOS)
    assert corpus.names == list(NAMES)
    assert [row[:4] for row in corpus.rows()[0]] == [
        ("vamos", "VERB", "V", "ir"), ("a", "ADP", "S", "a"), ("el mar", "NOUN", "N", "mar"),
    ]  # fmt: skip
    assert corpus.labels(corpus.number("UPOS")) == [["VERB", "ADP", "NOUN"]]
    assert corpus.labels(corpus.number("deprel")) == [["root", "case", "obl"]]
    assert corpus.lines.tolist() == [3, 5, 6]
    with pytest.raises(DataError, match=r"f.conllu: there is no column 'tag'; there are form, upos"):
        corpus.number("tag")
    with pytest.raises(DataError, match="numbers, and no names"):
        Columns.from_rows([["a"]]).number("upos")


def test_only_the_column_and_the_notes_change():
    corpus = reading(VAMOS)
    assert written(corpus, "upos", ["VERB", "ADP", "NOUN"]) == VAMOS
    assert written(corpus, "upos", ["A", "B", "C"]) == VAMOS.replace("VERB", "A").replace("ADP", "B").replace(
        "NOUN", "C"
    )
    noted = written(corpus, "lemma", ["ir", "a", "mar"], ["P=1", "P=2", "P=3"])
    assert noted == VAMOS.replace("root\t_\t_", "root\t_\tP=1").replace("case\t_\t_", "case\t_\tP=2").replace(
        "X=1", "X=1|P=3"
    )
    assert written(reading(noted), "lemma", ["ir", "a", "mar"], ["P=1", "P=2", "P=3"]) == noted
    with pytest.raises(DataError, match=r"f.conllu:5: .*cannot be a field"):
        written(corpus, "upos", ["a", "\t", "b"])


fields = st.text(st.sampled_from("aé👍 ש_=|"), min_size=1, max_size=4).filter(lambda text: text.strip())
rows = st.lists(st.tuples(*[fields] * 5), min_size=1, max_size=4)


@settings(deadline=None)
@given(st.lists(st.tuples(rows, st.booleans(), st.booleans()), min_size=1, max_size=3), st.sampled_from(["\n", "\r\n"]))
def test_reading_agrees_with_the_reader_of_parsers_and_writing_is_the_identity(sentences, end):
    text = ""
    for number, (tokens, ranged, empty) in enumerate(sentences):
        lines = [f"# sent_id = {number}"]
        for n, (form, lemma, upos, xpos, feats) in enumerate(tokens, 1):
            if ranged and n == 1 and len(tokens) > 1:
                lines.append("1-2\tx" + "\t_" * 8)
            lines.append("\t".join([str(n), form, lemma, upos, xpos, feats, str(n - 1), "r", "_", "_"]))
            if empty:
                lines.append(f"{n}.1\tx" + "\t_" * 8)
        text += end.join([*lines, "", ""])
    corpus = reading(text)
    parsed = read_conllu(io.BytesIO(text.encode()), trees=False)
    assert corpus.column(0).strings() == parsed.words.strings()
    assert corpus.column(corpus.number("xpos")).strings() == parsed.xpos.strings()
    assert corpus.offsets.tolist() == parsed.offsets.tolist()
    for name in NAMES:
        assert written(corpus, name, corpus.column(corpus.number(name)).strings()) == text


def test_words_of_any_corpus_are_written_as_conllu():
    corpus = Columns.from_rows([["New York", "!"], ["a"]])
    out = io.BytesIO()
    write_conllu_columns(corpus, out, NAMES.index("upos"), Column.from_strings(["PROPN", "PUNCT", "X"]))
    again = reading(out.getvalue().decode())
    assert [row[:2] for sentence in again.rows() for row in sentence] == [
        ("New York", "PROPN"), ("!", "PUNCT"), ("a", "X"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text, certain",
    [
        (VAMOS, True),
        (VAMOS.replace("# sent_id = 1\n# text = vamos al mar\n", ""), True),  # a range
        (VAMOS.replace("# sent_id = 1\n", "\ufeff# sent_id = 1\n"), True),
        (VAMOS.replace("\n", "\r\n"), True),
        ("1\ta\ta\tX\tX\t_\t0\tr\t_\t_\n\n", False),  # CoNLL-X looks the same
        ("# text = x\nThe DT B-NP\n\n", False),
        ("# text = x\n1\ta\tb\n\n", False),
        ("1\ta\ta\tX\tX\t_\t0\tr\t_\t_\n3.1\t_\t_\t_\t_\t_\t_\t_\t_\n\n", False),
        ("", False),
    ],
)
def test_certain_content_is_recognised_under_any_name(text, certain, tmp_path):
    (tmp_path / "a.txt").write_bytes(text.encode())
    assert (sniffed_source(tmp_path / "a.txt")[0] == "conllu") == certain
    if certain:
        assert read(tmp_path / "a.txt").n_tokens == read(io.BytesIO(text.encode())).n_tokens == 3
    (tmp_path / "a.conllu").write_bytes(text.encode())
    assert sniffed_source(tmp_path / "a.conllu")[0] == "conllu"


def test_templates_may_name_columns():
    named = load_template("U1:%x[-1,form]/%Suffix[0, lemma ,2]\nB\n", names=NAMES)
    assert named == TemplateSet.parse("U1:%x[-1,0]/%Suffix[0, 3 ,2]\nB\n")
    assert load_template('U:%t[0,upos,"^N"]', names=NAMES) == TemplateSet.parse('U:%t[0,1,"^N"]')
    with pytest.raises(TemplateError, match="template:2: there is no column 'ner'; there are form, upos"):
        load_template("B\nU1:%x[0,ner]", names=NAMES)
    with pytest.raises(TemplateError, match="have numbers only"):
        load_template("U1:%x[0,upos]")
