"""Encoded corpora: what comes back is what went in, and what is stale or damaged is refused with the reason."""

import json
import os
import shutil
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear import Tagger, mapped, read_columns
from loglinear.data.columns.attribute_file import read_attributes
from loglinear.data.columns.corpus import Attributes, Columns
from loglinear.data.columns.text_file import read_jsonl
from loglinear.data.corpora.bundled import bundled_text
from loglinear.errors import DataError, OptionError
from loglinear.scale import encoded as encoded_module
from loglinear.scale.encoded import SourceFile, encode, files_of, open_encoded, read_parts
from loglinear.scale.parts import CORPUS, ENCODING, FILES_ENCODED, MANIFEST
from loglinear.system import bytes_of

OPTIONS = {"template": "chunking"}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "train.txt"
    path.write_text("\n".join(bundled_text("train", "chunk").splitlines()[:1500]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def folder(text, tmp_path):
    encode(read_columns(text), tmp_path / "enc", OPTIONS, sources=[str(text)])
    return tmp_path / "enc"


def weights(corpus, **options):
    tagger = Tagger(**{"template": "chunking", "max_iter": 3, "optimizer": "lbfgs", "threads": 1, **options})
    return tagger.fit(corpus).model_.weights


def test_a_corpus_comes_back_as_it_was(text, folder):
    corpus, found = read_columns(text), open_encoded(folder).corpus
    np.testing.assert_array_equal(found.offsets, corpus.offsets)
    np.testing.assert_array_equal(found.lines, corpus.lines)
    assert found.rows() == corpus.rows() and found.name == corpus.name
    assert str(found.error("wrong", 700)) == str(corpus.error("wrong", 700))
    np.testing.assert_array_equal(weights(found), weights(corpus))


@pytest.mark.parametrize(
    "options",
    [{"min_count": 3}, {"pair_features": True}, {"pair_features": "only"}, {"hash_bits": 10}, {"template": "words"}],
)
def test_every_kind_of_encoding_is_stored(text, tmp_path, options):
    corpus = read_columns(text)
    encode(corpus, tmp_path / "enc", {**OPTIONS, **options})
    found = open_encoded(tmp_path / "enc")
    assert found.corpus.encoding is not None
    np.testing.assert_array_equal(weights(found.corpus, **options), weights(corpus, **options))
    np.testing.assert_array_equal(
        Tagger(**found.options, max_iter=3, optimizer="lbfgs", threads=1).fit(found.corpus).model_.weights,
        weights(corpus, **options),
    )


def test_another_template_than_that_of_the_folder_is_looked_up_anew(text, folder):
    found = open_encoded(folder).corpus
    np.testing.assert_array_equal(weights(found, template="words"), weights(read_columns(text), template="words"))


def test_a_selection_is_a_corpus_of_its_own(text, folder):
    some = np.arange(0, 40, 3)
    np.testing.assert_array_equal(
        weights(open_encoded(folder).corpus.select(some)), weights(read_columns(text).select(some))
    )


def test_a_changed_source_is_refused_and_a_touched_one_is_not(text, tmp_path):
    source = tmp_path / "a.txt"
    shutil.copy(text, source)
    encode(read_columns(source), tmp_path / "enc", OPTIONS, sources=[str(source)])
    source.touch()
    open_encoded(tmp_path / "enc")
    source.write_text(source.read_text() + "\nx NN O\n")
    with pytest.raises(DataError, match=r"a\.txt has changed since it was encoded: encode it again"):
        open_encoded(tmp_path / "enc")
    source.unlink()
    open_encoded(tmp_path / "enc")


@pytest.mark.parametrize("name", [MANIFEST, CORPUS, ENCODING])
@pytest.mark.parametrize("damage", ["cut", "emptied", "removed", "flipped"])
def test_damage_is_refused_with_the_place(folder, name, damage):
    file = folder / name
    raw = bytearray(file.read_bytes())
    for place in np.linspace(0, len(raw) - 2, 25).astype(int).tolist():
        if damage == "removed":
            file.unlink(missing_ok=True)
        elif damage == "flipped":
            file.write_bytes(raw[:place] + bytes([raw[place] ^ 0x10]) + raw[place + 1 :])
        else:
            file.write_bytes(raw[:place] if damage == "cut" else b"")
        with pytest.raises(DataError) as caught:
            open_encoded(folder)
        assert str(folder) in str(caught.value)


@pytest.mark.parametrize("name", FILES_ENCODED)
def test_any_byte_that_changes_is_noticed(name, tmp_path):
    (tmp_path / "t.txt").write_text("the D\ndog N\n\na D\ncat N\nran V\n\n")
    encode(read_columns(tmp_path / "t.txt"), tmp_path / "enc", {"template": "words"}, sources=[str(tmp_path / "t.txt")])
    file = tmp_path / "enc" / name
    raw = file.read_bytes()
    for place in range(0, len(raw), 1 if name == MANIFEST else 7):
        file.write_bytes(raw[:place] + bytes([raw[place] ^ 0x01]) + raw[place + 1 :])
        with pytest.raises(DataError):
            open_encoded(tmp_path / "enc")


def test_files_of_two_encodings_do_not_fit(text, folder, tmp_path):
    encode(read_columns(text).select(range(5)), tmp_path / "other", OPTIONS)
    shutil.copy(tmp_path / "other" / ENCODING, folder / ENCODING)
    with pytest.raises(DataError, match="it is the encoding of another corpus"):
        open_encoded(folder)
    shutil.copy(tmp_path / "other" / CORPUS, folder / CORPUS)
    with pytest.raises(DataError, match=r"manifest\.json: it is that of another encoding"):
        open_encoded(folder)


def test_a_manifest_of_another_version_is_refused(folder):
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, "version": 2}))
    with pytest.raises(DataError, match="written by another version of loglinear"):
        open_encoded(folder)


def test_what_is_no_encoded_corpus_is_not_overwritten(text, tmp_path):
    (tmp_path / "enc").mkdir()
    (tmp_path / "enc" / "precious").write_text("x")
    with pytest.raises(OptionError, match="exists and is not an encoded corpus"):
        encode(read_columns(text), tmp_path / "enc", OPTIONS)
    assert (tmp_path / "enc" / "precious").read_text() == "x"


def test_a_folder_that_holds_other_files_too_stays_as_it_is(text, folder):
    (folder / "precious").write_text("x")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(OptionError, match="holds other files as well, such as precious"):
        encode(read_columns(text), folder, {**OPTIONS, "min_count": 2})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_an_empty_folder_is_taken(text, tmp_path):
    (tmp_path / "enc").mkdir()
    encode(read_columns(text), tmp_path / "enc", OPTIONS)
    assert len(open_encoded(tmp_path / "enc").corpus)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions are those of POSIX")
@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_others_may_enter_the_folder_as_the_umask_says(text, tmp_path, umask):
    before = os.umask(umask)
    try:
        encode(read_columns(text), tmp_path / "enc", OPTIONS)
    finally:
        os.umask(before)
    assert (tmp_path / "enc").stat().st_mode & 0o777 == 0o777 & ~umask


def test_a_source_that_changes_meanwhile_is_an_error_and_leaves_nothing(text, tmp_path):
    source = tmp_path / "a.txt"
    shutil.copy(text, source)
    noted = SourceFile.of(str(source))
    corpus = read_columns(source)
    source.write_text("x NN O\n")
    with pytest.raises(DataError, match=r"a\.txt: has changed while it was being encoded"):
        encode(corpus, tmp_path / "enc", OPTIONS, sources=[noted])
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_of_two_that_write_a_folder_at_once_one_is_the_last(text, tmp_path):
    def work(min_count):
        for _ in range(4):
            encode(read_columns(text), tmp_path / "enc", {**OPTIONS, "min_count": min_count})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (1, 2)))
    assert open_encoded(tmp_path / "enc").options["min_count"] in (1, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["enc"]


def test_an_interrupt_leaves_nothing(text, folder, tmp_path, monkeypatch):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(encoded_module, "encoder_to_storage", interrupted)
    for target in (folder, tmp_path / "new"):
        with pytest.raises(KeyboardInterrupt):
            encode(read_columns(text), target, {**OPTIONS, "min_count": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["enc"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_an_encoded_corpus_is_replaced_whole(text, folder, tmp_path):
    encode(read_columns(text), folder, {**OPTIONS, "min_count": 2})
    assert open_encoded(folder).options["min_count"] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["enc"]
    assert sorted(path.name for path in folder.iterdir()) == [CORPUS, ENCODING, MANIFEST]


# -- several files -----------------------------------------------------------------------------------------------------

SENTENCES = st.lists(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("XY")), min_size=1, max_size=4), min_size=1, max_size=5
)


def written(sentences):
    return "".join("".join(f"{word} {label}\n" for word, label in sentence) + "\n" for sentence in sentences)


@given(parts=st.lists(SENTENCES, min_size=1, max_size=4))
def test_files_read_together_are_one_file(tmp_path_factory, parts):
    folder = tmp_path_factory.mktemp("parts")
    for number, sentences in enumerate(parts):
        (folder / f"{number}.txt").write_text(written(sentences))
    whole = folder / "whole"
    whole.write_text("".join(map(written, parts)))
    found = read_parts([f"{folder}/*.txt"], read_columns)
    expected = read_columns(whole)
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    for own, other in zip(found.columns, expected.columns, strict=True):
        assert own.values == other.values
        np.testing.assert_array_equal(own.ids, other.ids)
    position, number = 0, 0
    for number, sentences in enumerate(parts):
        if number or len(parts) > 1:
            assert f"{number}.txt:1: wrong" in str(found.error("wrong", position))
        position += sum(map(len, sentences))


def test_parts_need_the_same_columns():
    two, three = Columns.from_rows([[("a", "X")]], "two"), Columns.from_rows([[("a", "b", "X")]], "three")
    with pytest.raises(DataError, match="three: it has 3 columns, but two has 2; all parts need the same columns"):
        Columns.concatenated([two, three], "both")


def test_a_pattern_without_files_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"\*\.gz: no file matches"):
        files_of([f"{tmp_path}/*.gz"])


# -- ready-made attributes ---------------------------------------------------------------------------------------------

BAGS = st.dictionaries(st.sampled_from(["w=a", "w=b", "p:1", "q"]), st.sampled_from(["", ":2", ":0.5"]), min_size=1)
ATTRIBUTES = st.lists(
    st.tuples(
        st.sampled_from(["", "@weight:2\n"]), st.lists(st.tuples(st.sampled_from("XY"), BAGS), min_size=1, max_size=3)
    ),
    min_size=1,
    max_size=4,
)


def written_attributes(sentences):
    lines = []
    for weight, tokens in sentences:
        rows = [
            "\t".join([label, *(name.replace(":", "\\:") + value for name, value in bag.items())])
            for label, bag in tokens
        ]
        lines.append(weight + "\n".join(rows) + "\n\n")
    return "".join(lines)


def equal(found, expected):
    assert found.values == expected.values
    assert (found.label.values, found.label.ids.tolist()) == (expected.label.values, expected.label.ids.tolist())
    for name in ("offsets", "pointer", "ids", "weights", "sequence_weights"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@given(parts=st.lists(ATTRIBUTES, min_size=1, max_size=3), paged=st.booleans())
def test_files_of_attributes_read_together_are_one_file(tmp_path_factory, parts, paged):
    folder = tmp_path_factory.mktemp("parts")
    for number, sentences in enumerate(parts):
        (folder / f"{number}.txt").write_text(written_attributes(sentences))
    (folder / "whole").write_text("".join(map(written_attributes, parts)))
    expected = read_attributes(folder / "whole")
    if paged:
        with mapped.Paging(folder, 1e12):
            found = read_parts([f"{folder}/*.txt"], read_attributes)
    else:
        found = read_parts([f"{folder}/*.txt"], read_attributes)
    equal(found, expected)
    assert str(found.error("wrong", found.n_tokens - 1)).startswith(str(folder / f"{len(parts) - 1}.txt:"))


@pytest.mark.parametrize(
    "options",
    [{}, {"min_count": 2}, {"pair_features": True}, {"hash_bits": 8}, {"edge": ["w"]}, {"pair_features": "only"}],
)
@pytest.mark.parametrize("values", ["", ":0.5"])
def test_ready_made_attributes_are_stored(tmp_path, options, values):
    rows = [f"{y}\tw={i % 7}{values}\tp={i % 3}\n" + "\n" * (i % 5 == 4) for i, y in enumerate("XYZ" * 30)]
    (tmp_path / "a").write_text("@weight:3\n" + "".join(rows))
    corpus = read_attributes(tmp_path / "a")
    encode(corpus, tmp_path / "enc", options)
    found = open_encoded(tmp_path / "enc")
    assert isinstance(found.corpus, Attributes)
    equal(found.corpus, corpus)
    trained = Tagger(**found.options, max_iter=3, optimizer="lbfgs", threads=1).fit(found.corpus).model_.weights
    np.testing.assert_array_equal(trained, weights(corpus, template=None, **options))


def test_attributes_and_columns_are_not_one_corpus(tmp_path):
    (tmp_path / "a.crfsuite").write_text("X\tw=1\n")
    (tmp_path / "b.txt").write_text("w X\n")
    with pytest.raises(DataError, match=r"b\.txt: of the files, some hold ready-made attributes"):
        read_parts(
            [str(tmp_path / "a.crfsuite"), str(tmp_path / "b.txt")],
            lambda path: read_attributes(path) if path.endswith("crfsuite") else read_columns(path),
        )


# -- memory ------------------------------------------------------------------------------------------------------------


def test_one_source_is_in_memory_at_a_time(text, tmp_path):
    for number in range(3):
        shutil.copy(text, tmp_path / f"{number}.txt")
    seen = []

    def read_one(path):
        assert all(reference() is None for reference in seen)
        corpus = read_columns(path, layout=False)
        seen.append(weakref.ref(corpus))
        return corpus

    assert len(read_parts([f"{tmp_path}/*.txt"], read_one)) == 3 * len(read_columns(text))


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_read_at_once_and_does_not_fit_is_refused(tmp_path, packed):
    if not mapped.resident():
        pytest.skip("this system does not say how much memory a process holds")
    line, name = '{"tokens": ["a"], "labels": ["X"]}\n', tmp_path / ("a.jsonl.gz" if packed else "a.jsonl")
    raw = (line * 600_000).encode()  # 21 MB, a few kilobytes packed
    if packed:
        import gzip

        raw = b"".join(gzip.compress(raw[first : first + 35_000] + b"\n") for first in range(0, len(raw), 35_000))
        os.environ["LOGLINEAR_UNPACK_RATIO"] = "100000"
    name.write_bytes(raw)
    try:
        with (
            mapped.Paging(tmp_path, mapped.resident() + bytes_of("300M", "")),
            pytest.raises(OptionError, match=r"a\.jsonl.* is of a format that is read at once.* or split it"),
        ):
            read_parts([str(name)], read_jsonl)
    finally:
        os.environ.pop("LOGLINEAR_UNPACK_RATIO", None)
