"""Every format through the verbs: train, tag, eval, convert; predictions come back in the format of the file."""

import json

import pytest

from loglinear.data import read, read_texts

TEXTS = [
    ("Anna Berg 👩\u200d🚀 sang in Oslo.", [(0, 9, "PER"), (22, 26, "LOC")]),
    ("Oslo heard\r\nAnna Berg, שלום.", [(0, 4, "LOC"), (12, 21, "PER")]),
    ("", []),
    ("Anna", [(0, 4, "PER")]),
]
CONLLU = (
    "# sent_id = 1\n1\tvamos\tir\tVERB\t_\t_\t0\troot\t_\t_\n2-3\tal\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\ta\ta\tADP\t_\t_\t3\tcase\t_\t_\n3\tel\tel\tDET\t_\t_\t1\tobl\t_\t_\n3.1\tx\tx\tX\t_\t_\t_\t_\t0:r\t_\n\n"
)
FORMATS = ["doccano", "prodigy", "spacy", "label-studio", "label-studio-min", "brat"]


def named(folder, format):
    return folder / {"brat": "corpus", "label-studio": "ls.json", "label-studio-min": "min.json"}.get(
        format, f"{format}.jsonl"
    )


@pytest.fixture
def spans(tmp_path, run):
    """The same texts in every format."""
    records = [{"text": text, "label": [list(span) for span in own], "id": n} for n, (text, own) in enumerate(TEXTS)]
    source = tmp_path / "doccano.jsonl"
    source.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), newline="")
    for format in FORMATS[1:]:
        result = run("data", "convert", source, "-o", named(tmp_path, format), "--to", format)
        assert (result.status, result.err) == (0, "")
    return tmp_path


@pytest.fixture
def ner(spans, run):
    result = run("train", spans / "doccano.jsonl", "-o", spans / "m", "--template", "words", "--l2", "0.01", "-q")
    assert (result.status, result.err) == (0, "")
    return spans / "m"


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_is_tagged_in_its_own_format(run, spans, ner, format):
    source, output = named(spans, format), spans / ("out" if format == "brat" else "out.json")
    lines = [] if format != "brat" else ["--sentences", "texts"]
    tagged = run("tag", ner, source, "-o", output, *lines)
    assert tagged.status == 0 and "1 empty text" in tagged.err
    assert read_texts(output).format == format
    scored = run("eval", source, "--pred", output, "--json", *lines)
    assert scored.status == 0, scored.err
    assert json.loads(scored.out)["f1"] == 100.0 and json.loads(scored.out)["phrases"] == 5
    assert run("eval", source, "--model", ner, *lines).status == 0
    if format == "label-studio":
        assert "--pred" in run("eval", output).err
        both = run("eval", output, "--pred", output, "--json")
        assert json.loads(both.out)["f1"] == 100.0
    else:
        assert [t.spans for t in read_texts(output)] == [t.spans for t in read_texts(source)]


@pytest.mark.parametrize("format", FORMATS)
def test_conversion_there_and_back_is_the_identity(run, spans, format):
    back = spans / "back.jsonl"
    assert run("data", "convert", named(spans, format), "-o", back, "--to", "doccano").status == 0
    assert [(t.text, t.spans) for t in read_texts(back)] == [
        (t.text, t.spans) for t in read_texts(spans / "doccano.jsonl")
    ]


def test_confidence_goes_where_there_is_a_place_for_it(run, spans, ner):
    source = spans / "doccano.jsonl"
    refused = run("tag", ner, source, "--marginals")
    assert refused.status == 2 and "doccano has no place for probabilities" in refused.err
    prodigy = run("tag", ner, source, "--marginals", "--output-format", "prodigy")
    spans_of = [span for line in prodigy.out.splitlines() for span in json.loads(line)["spans"]]
    assert len(spans_of) == 5 and all(0 < span["score"] <= 1 for span in spans_of)
    tasks = json.loads(run("tag", ner, spans / "ls.json", "--marginals").out)
    assert tasks[0]["annotations"] and 0 < tasks[0]["predictions"][0]["score"] <= 1
    brat = run("tag", ner, source, "--marginals", "--output-format", "brat", "-o", spans / "b")
    assert brat.status == 0 and any("AnnotatorNotes" in file.read_text() for file in (spans / "b").glob("*.ann"))
    refused = run("tag", ner, source, "--nbest", 2)
    assert refused.status == 2 and "a place for one labelling" in refused.err


def test_other_formats_of_rows(run, spans, ner):
    source = spans / "doccano.jsonl"
    columns = run("tag", ner, source, "--output-format", "columns").out
    assert columns.startswith("Anna B-PER\nBerg I-PER\n")
    records = [json.loads(line) for line in run("tag", ner, source, "--output-format", "jsonl").out.splitlines()]
    assert records[2] == {"tokens": ["Anna"], "predicted": ["B-PER"]}
    table = run("tag", ner, source, "--output-format", "csv").out
    assert table.startswith("sentence_id,token,predicted\n1,Anna,B-PER\n")
    text = run("tag", ner, "-", "--format", "text", "--output-format", "doccano", stdin="Anna Berg\n")
    assert json.loads(text.out) == {"text": "Anna Berg", "label": [[0, 9, "PER"]]}
    for to in ("train.txt", "train.csv"):
        assert run("data", "convert", source, "-o", spans / to).status == 0
        assert read(spans / to).labels() == read(source).labels()
    assert run("data", "convert", spans / "train.txt", "-o", spans / "t.jsonl", "--to", "jsonl").status == 0
    assert read(spans / "t.jsonl").rows() == read(spans / "train.txt").rows()


def test_schemes_and_forced_spans(run, spans, ner):
    source = spans / "doccano.jsonl"
    trained = run("train", source, "-o", spans / "b", "--template", "words", "--scheme", "bioes", "--l2", "0.01", "-q")
    assert trained.status == 0
    tagged = run("tag", spans / "b", source)
    assert [json.loads(line) for line in tagged.out.splitlines()] == [
        json.loads(line) for line in source.read_bytes().splitlines()
    ]
    half = '{"text": "Zoe", "label": [[0, 3, "PER"]]}\n{"text": "Anna"}\n'
    forced = run("tag", ner, "-", "--force", stdin=half)
    assert [json.loads(line)["label"] for line in forced.out.splitlines()] == [[[0, 3, "PER"]], [[0, 4, "PER"]]]


def test_spans_that_labels_cannot_say(run, tmp_path):
    source = tmp_path / "a.jsonl"
    source.write_text('{"text": "Anna Berg", "label": [[0, 3, "PER"]]}\n{"text": "x", "label": [[0, 1, "PER"]]}\n')
    refused = run("train", source, "-o", tmp_path / "m", "--template", "words")
    assert (
        refused.status == 2
        and "a.jsonl:1: the span 'PER' 0-3 ('Ann')" in refused.err
        and "--borders snap" in refused.err
    )
    snapped = run("train", source, "-o", tmp_path / "m", "--template", "words", "--borders", "snap")
    assert snapped.status == 0 and "line 1: the span 'PER' 0-3 ('Ann')" in snapped.err and "now 0-4" in snapped.err
    quiet = run("train", source, "-o", tmp_path / "m2", "--template", "words", "--borders", "snap", "-q")
    assert (quiet.status, quiet.err) == (0, "")
    unknown = run("eval", source, "--model", tmp_path / "m", "--format", "xml")
    assert unknown.status == 2 and "choose one of auto, columns" in unknown.err
    both = run("eval", source, "--borders", "snap")
    assert both.status == 2 and "holds one labelling" in both.err


def test_conllu_by_name(run, tmp_path):
    source = tmp_path / "a.conllu"
    source.write_text(CONLLU)
    refused = run("train", source, "-o", tmp_path / "m")
    assert refused.status == 2 and "--column upos" in refused.err
    (tmp_path / "t").write_text("U1:%x[0,form]\nU2:%x[0,lemma]\nB\n")
    for arguments in ([], ["--template", tmp_path / "t"]):
        assert (
            run("train", source, "-o", tmp_path / "m", "--column", "upos", "--l2", "0.01", "-q", *arguments).status == 0
        )
        tagged = run("tag", tmp_path / "m", source, "--column", "upos")
        assert (tagged.status, tagged.out) == (0, CONLLU)
        assert run("tag", tmp_path / "m", "-", "--column", "UPOS", stdin=CONLLU).out == CONLLU
    xpos = run("tag", tmp_path / "m", source, "--column", "xpos").out
    assert "2-3\tal\t_\t_\t_\t" in xpos and "1\tvamos\tir\tVERB\tVERB\t" in xpos
    confident = run("tag", tmp_path / "m", source, "--column", "upos", "--marginals").out
    assert confident.count("\tConfidence=0.") == 3
    assert "say which column" in run("tag", tmp_path / "m", source).err
    scored = run("eval", source, "--column", "upos", "--model", tmp_path / "m", "--json")
    assert json.loads(scored.out)["tokens"] == 3 and json.loads(scored.out)["accuracy"] == 100.0
    (tmp_path / "tagged.conllu").write_text(CONLLU.replace("DET", "X"))
    scored = run("eval", source, "--column", "upos", "--pred", tmp_path / "tagged.conllu", "--json")
    assert json.loads(scored.out)["correct"] == 2
    assert run("data", "convert", source, "--column", "upos", "--to", "columns").out == "vamos VERB\na ADP\nel DET\n\n"
    whole = run("data", "convert", source, "--to", "csv").out
    assert whole.splitlines()[:2] == [
        "sentence_id,form,upos,xpos,lemma,feats,head,deprel,deps,misc,id", "1,vamos,VERB,_,ir,_,0,root,_,_,1",
    ]  # fmt: skip
    assert json.loads(run("data", "convert", source, "--to", "jsonl").out) == {"tokens": ["vamos", "a", "el"]}
    assert json.loads(run("data", "convert", source, "--to", "prodigy").out)["text"] == "vamos a el"
    there = run("data", "convert", "-", "--to", "conllu", "--column", "upos", stdin="a X\nb Y\n")
    assert there.out == "1\ta\t_\tX" + "\t_" * 6 + "\n2\tb\t_\tY" + "\t_" * 6 + "\n\n"
    assert run("train", source, "-o", tmp_path / "m", "--column", "upos", "--label-column", 2).status == 2


def test_tables_and_keys(run, tmp_path):
    (tmp_path / "a.csv").write_text("doc,w,Tag\n1,Anna,B-PER\n,Oslo,B-LOC\n")
    named = ["--format", "csv", "--sentence-column", "doc", "--token-column", "w", "--column", "Tag"]
    trained = run(
        "train", tmp_path / "a.csv", "-o", tmp_path / "m", "--template", "words", "-q", *named, "--l2", "0.01"
    )
    assert trained.status == 0, trained.err
    tagged = run("tag", tmp_path / "m", tmp_path / "a.csv", *named[:-2], "--marginals").out.splitlines()
    assert tagged[0] == "doc,w,Tag,predicted,confidence" and tagged[1].startswith("1,Anna,B-PER,B-PER,0.")
    (tmp_path / "a.jsonl").write_text('{"words": ["Anna", "!"], "ner_tags": [1, 0]}\n')
    keys = ["--tokens-key", "words", "--labels-key", "ner_tags", "--label-names"]
    for names in ("O,B-PER", tmp_path / "names.txt"):
        (tmp_path / "names.txt").write_text("O\nB-PER\n")
        scored = run("eval", tmp_path / "a.jsonl", "--model", tmp_path / "m", *keys, names, "--json")
        assert json.loads(scored.out)["phrases"] == 1
    wrong = run("train", tmp_path / "a.jsonl", "-o", tmp_path / "n", "--column", "Tag", "--tokens-key", "words")
    assert wrong.status == 2 and "have no names" in wrong.err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["a.jsonl", "-o", "x"], "does not say which format"),
        (["a.jsonl", "-o", "x", "--to", "xml"], "--to xml: choose one of columns"),
        (["a.jsonl", "-o", "x", "--to", "crfsuite"], "made by a template"),
        (["a.jsonl", "-o", "x", "--to", "conllu"], "--column upos"),
        (["a.jsonl", "-o", "-", "--to", "brat"], "two files each"),
        (["none.jsonl", "-o", "x", "--to", "columns"], "No such file"),
        (["a.crfsuite", "-o", "x", "--to", "prodigy"], "only --to crfsuite"),
    ],
)
def test_conversions_that_make_no_sense_are_refused(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"text": "Anna", "label": [[0, 4, "PER"]]}\n')
    (tmp_path / "a.crfsuite").write_text("X\tw=a\n")
    result = run("data", "convert", *arguments)
    assert result.status == 2 and message in result.err
    assert not (tmp_path / "x").exists()
