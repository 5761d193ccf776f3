"""Corpora of the benchmark, and features as strings by plain Python."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear import read_columns
from loglinear.data import Columns
from loglinear.errors import DataError, OptionError
from loglinear.experiments import corpora
from loglinear.experiments.bench.peer import attribute_maker, unsupported_reason
from loglinear.experiments.bench.script import read_sentences
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.language import TemplateSet
from loglinear.features.templates.sets import SETS, load_template

words = st.text("aAbé1-.", min_size=1, max_size=5)
corpus = st.lists(st.lists(st.tuples(words, words, words), min_size=1, max_size=5), min_size=1, max_size=3)


@given(corpus, st.sampled_from(SETS))
def test_strings_are_the_attributes_of_the_template(sentences, name):
    templates = load_template(name, 2)
    encoder = TemplateEncoder(templates)
    state = encoder.fit(Columns.from_rows(sentences)).state
    names = encoder.names()
    ours = [
        sorted(names[a] for a in state.ids[state.pointer[t] : state.pointer[t + 1]]) for t in range(state.n_positions)
    ]
    attributes = attribute_maker(templates)
    assert ours == [sorted(token) for sentence in sentences for token in attributes(sentence)]


@pytest.mark.parametrize(
    ("template", "part"),
    [("B0:%x[0,0]", "label pairs"), ("U0:%x[@1,0]\nB", "%x[@1,0]"), ("U0:%x[0,0]", "no B line")],
)
def test_what_the_peer_cannot_have_is_said(template, part):
    templates = TemplateSet.parse(template)
    assert part in unsupported_reason(templates)
    with pytest.raises(OptionError, match="python-crfsuite cannot"):
        attribute_maker(templates)


@pytest.mark.parametrize("task", ["bundled", "generated:1e3"])
def test_both_sides_read_the_same(task, tmp_path):
    made = corpora.prepare(task, tmp_path)
    rows = read_columns(made.train).rows()
    assert rows == read_sentences(made.train)
    assert made.n_tokens == sum(map(len, rows)) and made.n_sentences == len(rows)
    assert made.n_labels == len({row[-1] for sentence in rows for row in sentence}) and made.metric == "f1"


def test_a_generated_corpus_has_the_size_asked_for_and_another_test_file(tmp_path):
    made = corpora.generated(1000, tmp_path)
    assert made.name == "generated:1e3" and 1000 <= made.n_tokens < 1100
    assert read_columns(made.train).rows() != read_columns(made.test).rows()


def test_own_files_lose_comments_and_document_marks(tmp_path):
    (tmp_path / "a.txt").write_text("# id = 1\n-DOCSTART-\tO\n\nthe\tD\r\ndog\tN\r\n\n\n\nbarks\tV\n", encoding="utf-8")
    made = corpora.own(tmp_path / "a.txt", tmp_path / "a.txt", tmp_path)
    assert read_sentences(made.train) == [[("the", "D"), ("dog", "N")], [("barks", "V")]]
    assert made.metric == "accuracy" and "%Suffix" in made.template
    (tmp_path / "b.txt").write_text("the D B-NP\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a.txt has 2 columns.*b.txt 3"):
        corpora.own(tmp_path / "a.txt", tmp_path / "b.txt", tmp_path)


def test_penn_tags_of_conllu_leave_out_ranges_and_empty_nodes(tmp_path, monkeypatch):
    (tmp_path / "ewt").mkdir()
    text = "# sent_id = 1\n1-2\tdon't\t_\t_\t_\n1\tdo\tdo\tAUX\tVBP\n2\tn't\tnot\tPART\tRB\n"
    text += "2.1\tx\t_\t_\tNN\n\n1\tgo\tgo\tVERB\tVB\n"
    for part in ("train", "dev"):
        (tmp_path / "ewt" / f"ewt.{part}.conllu").write_text(text, encoding="utf-8")
    monkeypatch.setenv("LOGLINEAR_DATA", str(tmp_path))
    made = corpora.prepare("pos", tmp_path)
    assert read_sentences(made.train) == [[("do", "VBP"), ("n't", "RB")], [("go", "VB")]]


def test_absent_corpora_and_unknown_tasks_are_named(tmp_path, monkeypatch):
    monkeypatch.delenv("LOGLINEAR_DATA", raising=False)
    assert not corpora.has_conll2000()
    with pytest.raises(DataError, match="set LOGLINEAR_DATA to the folder that holds conll2000/"):
        corpora.prepare("conll2000", tmp_path)
    monkeypatch.setenv("LOGLINEAR_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"ewt.train.conllu"):
        corpora.prepare("pos", tmp_path)
    for task, part in (("poss", "not known"), ("bundled:1e3", "only generated"), ("generated:many", "'many'")):
        with pytest.raises(OptionError, match=part):
            corpora.prepare(task, tmp_path)
    for size in ("nan", "inf", "1.5e2.", "12.5e0", "-1e5", "10"):
        with pytest.raises(OptionError, match="not a number of tokens"):
            corpora.size_of(size)
