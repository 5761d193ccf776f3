"""Every format of texts with spans: writing and reading is the identity; bad files are refused with their place."""

import gzip
import io
import json
import warnings

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loglinear.data import Convention, Span, Text, TextFile, read, read_texts, write_texts
from loglinear.data.columns import sniffed_source
from loglinear.data.spans import FORMATS
from loglinear.errors import DataError, OptionError
from problems.span_texts import any_spans, texts, token_aligned

STREAMS = sorted(name for name, each in FORMATS.items() if not each.reads_paths and name != "docbin")


def written(file, format, convention=None):
    out = io.BytesIO()
    FORMATS[format].writer()(file, out, convention or Convention())
    return out.getvalue()


def reading(raw, format, convention=None):
    source = io.BytesIO(raw if isinstance(raw, bytes) else raw.encode())
    source.name = "f"
    return read_texts(source, format, convention)


def facts(file):
    return [(text.text, text.spans, text.passed_over) for text in file]


marked = texts().flatmap(lambda text: st.builds(Text, st.just(text), st.none() | any_spans(text)))


def is_the_identity(format, made, offsets):
    convention = Convention(offsets)
    file = TextFile("f", "columns", made)
    raw = written(file, format, convention)
    again = reading(raw, format, convention)
    assert facts(again) == facts(file)
    assert written(again, format, convention) == raw


several = st.lists(marked, min_size=1, max_size=3), st.sampled_from(["characters", "utf16"])


@pytest.mark.parametrize("format", STREAMS)
@settings(deadline=None, max_examples=30)
@given(*several)
def test_write_then_read_is_the_identity(format, made, offsets):
    is_the_identity(format, made, offsets)


@pytest.mark.slow
@pytest.mark.parametrize("format", STREAMS)
@settings(deadline=None, max_examples=1000)
@given(*several)
def test_write_then_read_is_the_identity_at_length(format, made, offsets):
    is_the_identity(format, made, offsets)


@pytest.mark.parametrize("format", STREAMS)
@settings(deadline=None, max_examples=15)
@given(st.lists(token_aligned(), min_size=1, max_size=3), st.data())
def test_other_spans_in_a_file_that_was_read_change_nothing_else(format, made, data):
    own = reading(written(TextFile("f", "columns", made), format), format)
    assert written(own, format) == written(TextFile("f", "columns", made), format)
    other = own.with_texts(Text(t.text, [Span(0, len(t.text), "Z")], t.tokens, record=t.record) for t in own)
    again = reading(written(other, format), format)
    assert [(t.text, t.spans) for t in again] == [(t.text, [Span(0, len(t.text), "Z")]) for t in own]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.lists(marked, min_size=1, max_size=3))
def test_brat_folders_are_read_as_written(tmp_path_factory, made):
    folder = tmp_path_factory.mktemp("b") / "docs"
    write_texts(TextFile("f", "columns", made), folder, "brat")
    assert [text.spans for text in read_texts(folder)] == [text.spans for text in made]
    assert [text.text for text in read_texts(folder)] == [text.text for text in made]
    write_texts(read_texts(folder), folder.with_name("again"), "brat")
    for file in folder.iterdir():
        assert (folder.with_name("again") / file.name).read_bytes() == file.read_bytes()


@settings(deadline=None, max_examples=25)
@given(st.lists(token_aligned(), min_size=1, max_size=3))
def test_docbin_is_read_as_written(made):
    pytest.importorskip("spacy")
    file = TextFile("f", "columns", made)
    assert facts(reading(written(file, "docbin"), "docbin")) == facts(file)


def test_docbin_without_spacy_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(OptionError, match="pip install spacy"):
        read_texts(io.BytesIO(b"x"), "docbin")


ANNA = '"text": "Anna sang"'
RESULT = '{"type": "labels", "from_name": "ner", "to_name": "t", "value": {"start": 0, "end": 4, "labels": ["PER"]}}'
TASK = '{"data": {ANNA}, "annotations": [{"result": [RESULT]}]}'.replace("ANNA", ANNA)
TASKS = f"[{TASK}]".replace("RESULT", RESULT)
OFFSETS = '"start_offset": 0, "end_offset": 4'
SAMPLES = {
    "prodigy": '{ANNA, "spans": [{"start": 0, "end": 4, "label": "PER"}]}',
    "doccano": '{"id": 1, ANNA, "label": [[0, 4, "PER"]]}',
    "doccano labels": '{ANNA, "labels": [[0, 4, "PER"]]}',
    "doccano data": '{"data": "Anna sang", "label": [[0, 4, "PER"]]}',
    "doccano first": '{ANNA, "annotations": [{"label": "PER", OFFSETS}]}',
    "doccano relations": '{ANNA, "entities": [{"id": 9, "label": "PER", OFFSETS}], "relations": []}',
    "spacy": '["Anna sang", {"entities": [[0, 4, "PER"]]}]',
    "spacy array": '[["Anna sang", {"entities": [[0, 4, "PER"]]}],\n ["b", {"entities": []}]]',
    "spacy array on a line": '[["Anna sang", {"entities": [[0, 4, "PER"]]}]]',
    "spacy objects": '{ANNA, "entities": [[0, 4, "PER"]]}',
    "label-studio": TASKS,
    "label-studio pretty": json.dumps(json.loads(TASKS), indent=2),
    "label-studio other key": TASKS.replace('"text"', '"body"'),
    "label-studio old": TASKS.replace("annotations", "completions"),
    "label-studio-min": '[{ANNA, "label": [{"start": 0, "end": 4, "labels": ["PER"]}]}]',
    "label-studio-min other key": '[{ANNA, "ner": [{"start": 0, "end": 4, "labels": ["PER"], "text": "Anna"}]}]',
}
SAMPLES = {name: sample.replace("ANNA", ANNA).replace("OFFSETS", OFFSETS) for name, sample in SAMPLES.items()}


@pytest.mark.parametrize("sample", SAMPLES)
def test_each_variant_is_recognised_read_and_written_as_it_was(sample, tmp_path):
    format = sample.split()[0]
    for name in ("a.jsonl", "a.json", "a.txt", "a.jsonl.gz"):
        raw = SAMPLES[sample].encode() + b"\n"
        (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith("gz") else raw)
        file = read_texts(tmp_path / name)
        assert file.format == format
        assert (file.texts[0].text, file.texts[0].spans) == ("Anna sang", [Span(0, 4, "PER")])
        corpus = read(tmp_path / name)
        assert corpus.format == format and corpus.rows()[0] == [("Anna", "B-PER"), ("sang", "O")]
    stream = io.BytesIO(raw if not name.endswith("gz") else gzip.compress(raw))
    found, again = sniffed_source(stream)
    assert found == format and read_texts(again, found).texts[0].spans == [Span(0, 4, "PER")]
    other = file.with_texts([Text(file.texts[0].text, [Span(5, 9, "X")], record=file.texts[0].record), *file.texts[1:]])
    raw = written(other, format)
    assert reading(raw, "auto").format == format
    assert reading(raw, format).texts[0].spans == [Span(5, 9, "X")]
    keys = json.loads(SAMPLES[sample].partition("\n")[0] if "array" not in sample and "label" not in format else "{}")
    if isinstance(keys, dict):
        assert set(keys) <= set(json.loads(raw)) if keys else True


@pytest.mark.parametrize("sample", ["doccano", "spacy", "label-studio", "label-studio-min", "spacy array on a line"])
def test_a_first_record_longer_than_what_is_looked_at_first(sample, tmp_path):
    long = SAMPLES[sample].replace("Anna sang", "Anna sang " + "la 👍 " * 12_000) + "\n"
    (tmp_path / "a").write_text(long)
    for source in (tmp_path / "a", io.BytesIO(long.encode())):
        assert read(source).rows()[0][0] == ("Anna", "B-PER")


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
@pytest.mark.parametrize(
    "content, format",
    [
        ('{"tokens": ["a"], "labels": ["X"]}\n', "jsonl"),
        ("{ X\n} Y\n", None),
        ("[ X\n] Y\n", None),
        ('{"text": "a"}\n', "jsonl"),  # which says what else it may be
        ('["a", 1]\n', None),
        ("[", None),
        ("", None),
    ],
)
def test_what_is_not_certain_goes_by_the_name(name, content, format, tmp_path):
    (tmp_path / name).write_text(content)
    by_name = "jsonl" if name.endswith("l") else "columns"
    assert sniffed_source(tmp_path / name)[0] == (format or by_name)


BAD = [
    ("prodigy", '{"text": "a", "spans": [{"start": 0, "end": 2, "label": "X"}]}', "f:1: the span 'X' 0-2 is not w"),
    ("prodigy", '{"text": "a"}\n{"text": 3}', 'f:2: "text" must be a string'),
    ("prodigy", "{", "f:1: no valid JSON"),
    ("prodigy", "[" * 200 + "]" * 200, "f:1: no valid JSON: lists and objects inside one another"),
    ("prodigy", '{"text": "a", "answer": "maybe"}', '"answer" must be one of'),
    ("prodigy", '{"text": "a", "spans": 1}', '"spans" must be a list'),
    ("prodigy", '{"text": "a", "spans": [1]}', "must hold objects"),
    ("prodigy", '{"text": "a", "spans": [{"start": 0, "end": 1}]}', "has the label None"),
    ("prodigy", '{"text": "a", "spans": [{"start": true, "end": 1, "label": "X"}]}', "whole numbers"),
    ("prodigy", '{"text": "ab", "tokens": [{"start": 0, "end": 2}, {"start": 1, "end": 2}]}', "token 1"),
    ("prodigy", '{"text": "ab", "tokens": [{"start": 0, "end": 1, "text": "b"}]}', "token 0 .* is 'b'"),
    ("prodigy", '{"text": "a\\ud800", "spans": []}', "half of a character"),
    ("prodigy", "1", "must be an object"),
    ("doccano", '{"text": "a", "label": [[0, 1]]}', "must hold spans such as"),
    ("doccano", '{"text": "ab", "label": [[1, 0, "X"]]}', "ends before it begins"),
    ("doccano", '{"label": []}', '"text" is missing'),
    ("spacy", '["a"]', "must be a pair"),
    ("spacy", '[["a", {"entities": [[0, 5, "X"]]}]]', r"example 0 \(from 0\): the span"),
    ("label-studio", "{}", "one array of tasks"),
    ("label-studio", "[{}]", r"task 0 \(from 0\): a task must be an object with \"data\""),
    ("label-studio", "[1]", r"task 0 \(from 0\)"),
    ("label-studio", f"[{TASKS[1:-1]}, {TASKS[1:-1].replace(': 4', ': 40')}]", r"task 1 \(from 0\)"),
    ("label-studio", TASKS.replace('"start"', '"text": "sang", "start"'), "--offsets utf16"),
    ("label-studio-min", '[{"text": "a", "label": [{"start": 0}]}]', r"task 0 \(from 0\)"),
]  # fmt: skip


@pytest.mark.parametrize("format, raw, message", BAD)
def test_bad_files_are_refused_with_their_place(format, raw, message):
    with pytest.raises(DataError, match=message):
        reading(raw, format)


@pytest.mark.parametrize("format", STREAMS)
@settings(deadline=None, max_examples=30)
@given(st.data())
def test_damaged_records_are_refused_or_read_but_never_a_crash(format, data):
    samples = [raw for name, raw in SAMPLES.items() if name.split()[0] == format]
    value = json.loads(data.draw(st.sampled_from(samples)))
    odd = st.sampled_from([None, 1, -1, 1.5, True, "", "x", [], {}, [[]], [{}], [[0, 1, "X"]], {"a": 1}])

    def damage(node):
        if isinstance(node, dict | list) and node and data.draw(st.integers(0, 3)):
            key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else list(range(len(node)))))
            node[key] = damage(node[key])
            return node
        return data.draw(odd)

    raw = json.dumps(damage(value))
    try:
        file = reading(raw, format)
        again = reading(written(file, format), format)
        assert facts(again) == facts(file)
    except DataError:
        pass


def test_what_is_passed_over_is_counted(tmp_path):
    cancelled = '{"was_cancelled": true, "result": []}'
    choice = '{"type": "choices", "value": {"choices": ["x"]}}'
    tasks = [
        f'{{"data": {{{ANNA}}}, "annotations": [{cancelled}, {{"result": [{RESULT}, {choice}]}}, {{"result": []}}]}}',
        f'{{"data": {{{ANNA}}}, "annotations": [{cancelled}]}}',
        f'{{"data": {{{ANNA}}}}}',
    ]
    file = reading(f"[{','.join(tasks)}]", "label-studio")
    assert [text.spans for text in file] == [[Span(0, 4, "PER")], None, None]
    counts = {"cancelled annotation": 2, "result without span": 1, "further annotation": 1}
    assert {key: count for key, count in file.left_out.items() if count} == counts
    with pytest.warns(UserWarning, match="passed over .*2 cancelled annotations"):
        (tmp_path / "a.json").write_text(f"[{','.join(tasks)}]")
        assert read(tmp_path / "a.json").n_sentences == 1
    prodigy = "".join(f'{{{ANNA}, "spans": [], "answer": "{answer}"}}\n' for answer in ("accept", "reject", "ignore"))
    assert [text.passed_over for text in reading(prodigy, "prodigy")] == [False, True, True]


def test_predictions_of_label_studio_are_apart_from_annotations():
    file = reading(TASKS, "label-studio")
    other = file.with_texts([Text("Anna sang", [Span(5, 9, "V", score=0.5)], record=file.texts[0].record)])
    raw = written(other, "label-studio", Convention(predicted=True))
    assert reading(raw, "label-studio").texts[0].spans == [Span(0, 4, "PER")]
    assert reading(raw, "label-studio", Convention(predicted=True)).texts[0].spans == [Span(5, 9, "V")]
    prediction = json.loads(raw)[0]["predictions"][0]
    assert prediction["score"] == prediction["result"][0]["score"] == 0.5
    assert prediction["result"][0]["from_name"] == "ner"


def test_keys_and_units_may_be_named():
    convention = Convention("utf16", text_key="body", spans_key="names")
    file = reading('{"body": "👍 Anna", "names": [{"start": 3, "end": 7, "label": "PER"}]}', "prodigy", convention)
    assert file.texts[0].spans == [Span(2, 6, "PER")]
    assert b'"start": 3, "end": 7' in written(file, "prodigy", convention)
    with pytest.raises(DataError, match="not within"):  # half of a surrogate pair
        reading('{"body": "👍 Anna", "names": [{"start": 1, "end": 7, "label": "PER"}]}', "prodigy", convention)
    with pytest.raises(OptionError, match="offsets='bytes'"):
        Convention("bytes")


def test_tokens_of_prodigy_are_kept_and_spans_say_theirs():
    tokens = [
        {"text": "Anna", "start": 0, "end": 4, "id": 0, "ws": True},
        {"text": "sang", "start": 5, "end": 9, "id": 1},
    ]
    record = {"text": "Anna sang", "tokens": tokens, "meta": {"source": 1}, "_input_hash": 5}
    file = reading(json.dumps(record), "prodigy")
    raw = written(
        file.with_texts([Text("Anna sang", [Span(0, 9, "X")], file.texts[0].tokens, record=record)]), "prodigy"
    )
    span = {"start": 0, "end": 9, "label": "X", "token_start": 0, "token_end": 1}
    assert json.loads(raw) == record | {"spans": [span], "answer": "accept"}


# -- brat --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def brat(tmp_path):
    def write(notes, text="Anna Berg sang\nin Oslo"):
        (tmp_path / "a.txt").write_bytes(text.encode())
        (tmp_path / "a.ann").write_bytes(notes.encode())
        return tmp_path

    return write


def test_brat_reads_spans_and_counts_the_rest(brat):
    notes = "T1\tPER 0 4;10 14\tAnna sang\nR1\tRel Arg1:T1 Arg2:T2\n#1\tNote T1\tx\n*\tEquiv T1\nA1\tNeg T1\nE1\tX:T1\n"
    folder = brat(notes)
    for source in (folder, folder / "a.ann"):
        file = read_texts(source)
        assert file.texts[0].spans == [Span(0, 14, "PER", ((0, 4), (10, 14)))]
        assert dict(file.left_out) == {"relation": 2, "note": 1, "attribute": 1, "event": 1}
    with pytest.warns(UserWarning, match="2 relations"):
        corpus = read(folder, gaps="split")
    assert corpus.labels() == [["B-PER", "O", "B-PER"], ["O", "O"]]


@pytest.mark.parametrize(
    "notes, message",
    [
        ("T1\tPER 0\tAnna\n", "a.ann:1: .*a span is written as"),
        ("\nT1\tPER 0 400\tAnna\n", "a.ann:2: the span 'PER' 0-400 is not within"),
        ("T1\tPER 0 4\tOslo\n", "said to cover 'Oslo'"),
        ("T1\tPER 10 14;0 4\tsang Anna\n", "not in order"),
        ("hello\n", "not an annotation of brat's"),
        ("T1\tPER 0 99999999999999999999\tAnna\n", "not within"),
    ],
)
def test_bad_brat_is_refused(brat, notes, message):
    with pytest.raises(DataError, match=message):
        read_texts(brat(notes))


def test_brat_needs_both_files_and_a_place(brat, tmp_path):
    folder = brat("")
    (folder / "b.ann").write_text("")
    with pytest.raises(DataError, match="no text beside it"):
        read_texts(folder)
    (folder / "b.ann").unlink()
    file = read_texts(folder)
    with pytest.raises(OptionError, match="exists already"):
        write_texts(file, folder)
    with pytest.raises(OptionError, match="two files each"):
        write_texts(file, "-")
    with pytest.raises(DataError, match="has no blanks"):
        write_texts(file.with_texts([Text("Anna", [Span(0, 4, "a b")])]), tmp_path / "new")
    assert not (tmp_path / "new").exists() and not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
    write_texts(file, tmp_path / "x.ann")
    assert (tmp_path / "x.txt").read_bytes() == b"Anna Berg sang\nin Oslo"
    with pytest.raises(DataError, match="two files each"):
        read_texts(io.BytesIO(b""), "brat")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DataError, match="no documents"):
        read_texts(empty)


@pytest.mark.parametrize("options", [{"colour": 1}, {"scheme": "x"}])
def test_unknown_options_are_refused(options, tmp_path):
    (tmp_path / "a.jsonl").write_text(SAMPLES["doccano"])
    with warnings.catch_warnings(), pytest.raises((TypeError, OptionError)):
        read(tmp_path / "a.jsonl", **options)
