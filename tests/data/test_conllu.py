"""CoNLL-U in and out, and what is no CoNLL-U."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear.data import Column, Dependencies, read_conllu, write_conllu
from loglinear.errors import DataError

TWO = (
    "# sent_id = 1\n# text = don't go\n1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n1\tdo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_\n"
    "2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_\n3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n"
    "3.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t3:conj\t_\n\n\n# another\n1\ta b\t_\tX\tX\t_\t0\troot\t_\tSpaceAfter=No\n\n"
)


def read(text, **options):
    return read_conllu(io.BytesIO(text.encode() if isinstance(text, str) else text), **options)


def written(corpus, *arguments):
    out = io.BytesIO()
    write_conllu(corpus, out, *arguments)
    return out.getvalue()


def rows(heads, relation="dep"):
    return "".join(f"{t}\tw{t}\t_\tX\tY\t_\t{head}\t{relation}\t_\t_\n" for t, head in enumerate(heads, 1)) + "\n"


def test_tokens_trees_and_lines_are_read():
    corpus = read(TWO)
    assert corpus.offsets.tolist() == [0, 3, 4]
    assert corpus.words.strings() == ["do", "n't", "go", "a b"]
    assert corpus.heads.tolist() == [3, 3, 0, 0]
    assert corpus.relations.strings() == ["aux", "advmod", "root", "root"]
    assert corpus.tags().strings() == ["VBP", "RB", "VB", "X"]
    assert corpus.tags("upos").strings() == ["AUX", "PART", "VERB", "X"]
    assert corpus.lines.tolist() == [4, 5, 6, 11]


def test_what_is_no_token_is_kept_in_the_output():
    corpus = read(TWO)
    assert written(corpus) == TWO.encode()
    assert written(corpus, corpus.heads, corpus.relations) == TWO.encode()
    relations = Column(np.array([0, 1, 0, 0], dtype=np.int32), ["root", "obj:long"])
    other = written(corpus, [0, 1, 1, 0], relations).decode()
    changed = TWO.replace("\t3\taux", "\t0\troot").replace("\t3\tadvmod", "\t1\tobj:long")
    assert other == changed.replace("VB\t_\t0\troot\t_\t_\n3.1", "VB\t_\t1\troot\t_\t_\n3.1")
    assert "\t0\troot\t" in written(corpus, [0, 1, 1, 0]).decode()


def test_line_ends_and_a_missing_last_one_are_kept():
    text = TWO.replace("\n", "\r\n").rstrip()
    corpus = read(text)
    assert corpus.n_tokens == 4
    assert written(corpus, corpus.heads, corpus.relations) == text.encode()
    assert read("\ufeff" + TWO).words.strings() == corpus.words.strings()


def test_a_selection_and_python_sentences_are_written_too():
    corpus = read(TWO).select([1, 0])
    assert corpus.words.strings() == ["a b", "do", "n't", "go"]
    again = read(written(corpus))
    assert (again.heads.tolist(), again.offsets.tolist()) == ([0, 3, 3, 0], [0, 1, 4])
    own = Dependencies.from_sentences([[("a", "X"), ("b", "Y")]], [[(2, "det"), (0, "root")]])
    assert read(written(own)).relations.strings() == ["det", "root"]
    assert Dependencies.from_sentences([[("a", "X")]]).heads.tolist() == [-1]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("1\ta\t_\tX\n", 1, "4 fields"),
        ("\n1 a _ X X _ 0 dep _ _\n", 2, "1 field .*words with tags"),
        ("(ROOT (NP (NN dog)))\n", 1, "1 field .*bracketed trees go with a parser of phrases"),
        (rows([0]) + "1\ta\t\tX\tX\t_\t0\tdep\t_\t_\n", 3, "empty field"),
        (rows([2, 1]), 1, "has the head 0"),
        (rows([0, 3, 2]), 2, "cycle through 'w2'"),
        (rows([0]) + rows([0, 0]), 4, "second root"),
        (rows([0, 3]), 2, "out of range: the sentence has 2"),
        (rows([0, "x"]), 2, "'x' is not a number"),
        (rows(["-1"]), 1, "'-1' is not a number"),
        (rows([0, "_"]), 2, "without a head"),
        (rows([0]).replace("1\t", "2\t", 1), 1, "token 2 stands where token 1"),
        (rows([0]).replace("1\t", "0\t", 1), 1, "not a token number"),
        (rows([0]).replace("1\t", "1-x\t", 1), 1, "not a token number"),
        (rows([0]).replace("1\t", "99999999999999999999\t", 1), 1, "not a token number"),
        (rows(["99999999999999999999"]), 1, "is not a number"),
        ("1-2\tab\t_\t_\t_\t_\t_\t_\t_\t_\n\n" + rows([0]), 1, "without tokens"),
        ("", None, "no sentence"),
        ("# only\n\n", None, "no sentence"),
        (b"1\t\xff\t_\tX\tX\t_\t0\tdep\t_\t_\n", 1, "UTF-8"),
    ],
)
def test_mistakes_are_named_with_their_line(text, line, what):
    with pytest.raises(DataError, match=what) as caught:
        read(text)
    assert caught.value.line == line
    assert caught.value.file == "<file>"


def test_trees_with_several_roots_and_none_are_read_where_that_is_wanted():
    assert read(rows([0, 0]), single_root=False).heads.tolist() == [0, 0]
    assert read(rows(["_", "x"]), trees=False).heads.tolist() == [-1, -1]


def test_python_sentences_that_make_no_sense():
    for sentences, heads in (([[("a", "X")]], []), ([[]], None), ([["a"]], None), ([[("a\tb", "X")]], None),
                             ([[("a", "X")]], [[0, 0]]), ([[("a", "X")]], [[1]]), ([[("a", "X")]], [[(0, 3)]]),
                             ([[("a", "X")]], [[(0, "a\tb")]]), ([[("a", "X")]], [[(0, "r", 1)]]),
                             ([[("a", "X")]], [[(0,)]])):  # fmt: skip
        with pytest.raises(DataError):
            Dependencies.from_sentences(sentences, heads)
    with pytest.raises(DataError, match=r"sentence 1 .*half a character"):
        Dependencies.from_sentences([[("a", "X")], [("b", "X"), ("\ud800", "X")]])


def test_a_relation_may_be_none():
    corpus = Dependencies.from_sentences([[("a", "X"), ("b", "Y")]], [[(2, None), (0, None)]])
    assert corpus.relations.strings() == ["_", "_"]
    assert not corpus.has_relations


@pytest.mark.parametrize("name", ["cycle", "head_out_of_range", "missing_columns", "no_root", "two_roots"])
def test_hostile_files_are_refused_with_file_and_line(corpora, name):
    path = corpora / "hostile_trees" / f"{name}.conllu"
    with pytest.raises(DataError) as caught:
        read_conllu(path)
    assert caught.value.file == str(path)
    assert caught.value.line in (1, 2)


@pytest.mark.parametrize("name", ["mwt_emptynode", "nonprojective"])
def test_odd_files_are_read_and_written_as_they_were(corpora, name):
    path = corpora / "hostile_trees" / f"{name}.conllu"
    corpus = read_conllu(path)
    assert written(corpus, corpus.heads, corpus.relations) == path.read_bytes()


@given(st.binary(max_size=200) | st.text("\t\n1234 0-._#ax", max_size=120).map(str.encode))
def test_no_bytes_crash_the_reader(raw):
    for trees in (True, False):
        try:
            corpus = read(raw, trees=trees)
        except DataError:
            continue
        assert corpus.n_tokens == len(corpus.heads) >= 1
        assert written(corpus) == raw


@given(st.data())
def test_any_tree_goes_round(data):
    lengths = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    heads = [[t - 1 if t == 1 else data.draw(st.integers(1, t - 1)) for t in range(1, n + 1)] for n in lengths]
    words = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=4)
    sentences = [[(data.draw(words), data.draw(words)) for _ in range(n)] for n in lengths]
    corpus = Dependencies.from_sentences(sentences, heads)
    assert corpus.heads.tolist() == [head for tree in heads for head in tree]
    assert corpus.words.strings() == [word for sentence in sentences for word, _ in sentence]
