"""Real corpora through the formats: labels come back as they were, treebanks to the last byte."""

import io
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from loglinear.data import read_columns, read_conllu, read_conllu_columns, read_texts, write_conllu_columns
from loglinear.data.columns import sniffed_source
from loglinear.data.spans import FORMATS, write_texts
from loglinear.data.spans.corpus import Rules, corpus_of_texts
from loglinear.evaluation.spans import label_spans, marked_texts

DATA = Path(os.environ.get("LOGLINEAR_DATA", Path(__file__).parents[3] / ".." / "shared" / "data"))
TREEBANKS = sorted(file for file in DATA.rglob("*.conllu") if "hostile" not in str(file))
CONLL = sorted([*DATA.rglob("esp.testa"), *DATA.rglob("ned.testa")])


@pytest.mark.slow
@pytest.mark.skipif(not CONLL, reason="no conll2002 under LOGLINEAR_DATA")
@pytest.mark.parametrize("file", CONLL, ids=lambda file: file.name)
def test_labels_of_conll_2002_come_back_from_every_format(file, tmp_path):
    corpus = read_columns(file)
    gold = label_spans(corpus.column(-1), corpus.offsets)  # one of the labels is no legal BIO
    marked = marked_texts(corpus, corpus.column(-1), "columns")
    for format in FORMATS:
        if format == "docbin":
            continue
        path = tmp_path / format
        write_texts(marked, path, format)
        assert [(t.text, t.spans) for t in read_texts(path)] == [(t.text, t.spans) for t in marked]
        again = read_texts(path)
        for text, own in zip(again.texts, marked.texts, strict=True):
            object.__setattr__(text, "tokens", own.tokens)  # a tokenizer of their own
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tokens = corpus_of_texts(again, Rules(sentences="texts"))
        assert tokens.column(0).strings() == corpus.column(0).strings()
        assert label_spans(tokens.column(-1), tokens.offsets) == gold


@pytest.mark.slow
@pytest.mark.skipif(not TREEBANKS, reason="no treebanks under LOGLINEAR_DATA")
@pytest.mark.parametrize("file", TREEBANKS, ids=lambda file: file.name)
def test_treebanks_are_written_as_they_were_read(file):
    raw = file.read_bytes()
    corpus = read_conllu_columns(file)
    parsed = read_conllu(file, trees=False)
    assert np.array_equal(corpus.offsets, parsed.offsets)
    assert corpus.column(corpus.number("upos")).strings() == parsed.upos.strings()
    for name in ("upos", "misc", "id"):
        out = io.BytesIO()
        write_conllu_columns(corpus, out, corpus.number(name), corpus.column(corpus.number(name)))
        assert out.getvalue() == raw
    source = io.BytesIO(raw)
    source.name = "a.txt"
    certain = b"# sent_id" in raw[:2000] or b"# text" in raw[:2000]
    assert (sniffed_source(source)[0] == "conllu") >= certain
