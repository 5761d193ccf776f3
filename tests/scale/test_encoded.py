"""Encoded corpora: what comes back is what went in, and what is stale or damaged is refused with the reason."""

import json
import os
import shutil
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loglinear import Tagger, read_columns, system
from loglinear.data.columns.corpus import Columns
from loglinear.data.corpora.bundled import bundled_text
from loglinear.errors import DataError, OptionError
from loglinear.scale.encoded import CORPUS, ENCODING, MANIFEST, encode, files_of, is_encoded, open_encoded, read_parts

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
        elif damage == "flipped" and name == MANIFEST:
            file.write_bytes(raw[:place] + b'"' + raw[place + 1 :] if raw[place : place + 1] != b'"' else raw[:place])
        elif damage == "flipped":
            file.write_bytes(raw[:place] + bytes([raw[place] ^ 0x10]) + raw[place + 1 :])
        else:
            file.write_bytes(raw[:place] if damage == "cut" else b"")
        try:
            open_encoded(folder)
        except DataError as error:
            assert str(folder) in str(error)
        else:
            assert name == MANIFEST and damage == "flipped"  # in a text that nothing depends on


def test_files_of_two_encodings_do_not_fit(text, folder, tmp_path):
    encode(read_columns(text).select(range(5)), tmp_path / "other", OPTIONS)
    shutil.copy(tmp_path / "other" / ENCODING, folder / ENCODING)
    with pytest.raises(DataError, match="it is the encoding of another corpus"):
        open_encoded(folder)


def test_a_manifest_of_another_version_is_refused(folder):
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**manifest, "version": 2}))
    with pytest.raises(DataError, match="written by another version of loglinear"):
        open_encoded(folder)


def test_what_is_no_encoded_corpus_is_not_overwritten(text, tmp_path):
    (tmp_path / "enc").mkdir()
    (tmp_path / "enc" / "precious").write_text("x")
    with pytest.raises(OptionError, match="exists and is no encoded corpus"):
        encode(read_columns(text), tmp_path / "enc", OPTIONS)
    assert (tmp_path / "enc" / "precious").read_text() == "x"


@pytest.mark.parametrize("names", [["corpus"], ["manifest.json"], ["corpus", "encoding"]])
def test_files_of_the_same_names_are_not_taken_for_an_encoded_corpus(text, tmp_path, names):
    (tmp_path / "enc").mkdir()
    for name in names:
        (tmp_path / "enc" / name).write_text("{}")
    with pytest.raises(OptionError, match="exists and is no encoded corpus"):
        encode(read_columns(text), tmp_path / "enc", {"template": "ner"})
    assert all((tmp_path / "enc" / name).read_text() == "{}" for name in names)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_with_other_files_keeps_its_encoded_corpus(text, folder):
    (folder / "notes.txt").write_text("x")
    before = contents(folder)
    with pytest.raises(OptionError, match="holds other files as well"):
        encode(read_columns(text), folder, {"template": "ner"})
    assert contents(folder) == before


def test_a_link_to_an_encoded_corpus_is_followed(text, folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    encode(read_columns(text), tmp_path / "link", {"template": "words"})
    assert (tmp_path / "link").is_symlink() and not folder.is_symlink()
    assert open_encoded(folder).options["template"] == open_encoded(tmp_path / "link").options["template"]
    assert sorted(contents(folder)) == sorted([MANIFEST, CORPUS, ENCODING])


@pytest.mark.parametrize("exchanges", [True, False])
def test_at_each_moment_there_is_an_encoded_corpus(text, folder, monkeypatch, exchanges):
    """Names that cannot be exchanged are changed one after the other."""
    if not exchanges:
        monkeypatch.setattr(system, "_exchanged", lambda one, other: False)
    seen, rename = [], os.rename

    def spied(*arguments):
        seen.append(is_encoded(folder))
        rename(*arguments)

    monkeypatch.setattr(os, "rename", spied)
    before = contents(folder)
    encode(read_columns(text), folder, {"template": "words"})
    assert contents(folder) != before and open_encoded(folder).corpus.n_tokens
    assert [path.name for path in folder.parent.iterdir() if path.name.startswith(".")] == []
    if exchanges and sys.platform in ("linux", "darwin"):
        assert seen == [True]  # the attempt that finds it there
    assert folder.stat().st_mode & 0o777 == 0o777 & ~umask()


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


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
