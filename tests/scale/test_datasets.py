"""A callable for ``datasets.map``: its pickle is the path, the digest and the options, whatever it has done."""

import os
import pickle
import shutil

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'loglinear[parquet]'")

from loglinear.errors import DataError, ModelFileError  # noqa: E402
from loglinear.scale import BatchTagger, models  # noqa: E402

COLUMNS = ["tokens", "pos"]


@pytest.fixture
def batch(sentences):
    return {"tokens": [[word for word, _ in s] for s in sentences], "pos": [[tag for _, tag in s] for s in sentences]}


def test_batches_get_the_labels_that_predict_gives(batch, model_path, expected):
    assert BatchTagger(model_path, columns=COLUMNS)(batch) == {"predicted": expected}
    both = BatchTagger(model_path, columns=COLUMNS, predicted="tags", confidence="p")(batch)
    assert both["tags"] == expected and [len(row) for row in both["p"]] == [len(row) for row in expected]
    table = BatchTagger(model_path, columns=COLUMNS)(pa.table(batch))
    assert table.column_names == [*COLUMNS, "predicted"] and table.column("predicted").to_pylist() == expected
    again = BatchTagger(model_path, columns=COLUMNS)(table)
    assert again.equals(table)
    assert BatchTagger(model_path, columns=COLUMNS)({name: [] for name in COLUMNS}) == {"predicted": []}


def test_the_pickle_is_the_same_before_and_after_and_small(batch, model_path, expected):
    tag = BatchTagger(model_path, columns=COLUMNS)
    before = pickle.dumps(tag)
    tag(batch)
    copied = pickle.loads(before)
    assert pickle.dumps(tag) == before == pickle.dumps(BatchTagger(model_path, columns=COLUMNS)) and len(before) < 1000
    assert models.digest_of(model_path).encode() in before and os.fspath(model_path).encode() in before
    assert copied(batch)["predicted"] == expected


def test_a_model_that_has_changed_is_refused(batch, model_path, tmp_path):
    path = tmp_path / "m.model"
    shutil.copy(model_path, path)
    tag = BatchTagger(path, columns=COLUMNS)
    path.write_bytes(b"other")
    with pytest.raises(ModelFileError, match="has another content"):
        tag(batch)
    with pytest.raises(ModelFileError, match="No such file"):
        BatchTagger(tmp_path / "none.model")


def test_what_is_wrong_is_named(model_path):
    with pytest.raises(DataError, match=r"there are sentence; name them in columns=\[...\]"):
        BatchTagger(model_path)({"sentence": [["a"]]})
    with pytest.raises(DataError, match="do not hold lists of text"):
        BatchTagger(model_path, columns=["tokens"])({"tokens": [[1, "a"]]})


def test_the_fingerprint_is_stable_and_map_uses_its_cache(batch, model_path, expected, tmp_path):
    datasets = pytest.importorskip("datasets", reason="Hugging Face's datasets is not installed")
    from datasets.fingerprint import Hasher

    data = datasets.Dataset.from_dict(batch)
    tag = BatchTagger(model_path, columns=COLUMNS)
    before = Hasher.hash(tag)
    mapped = data.map(tag, batched=True, batch_size=2)
    assert mapped["predicted"][:] == expected
    assert Hasher.hash(tag) == before == Hasher.hash(BatchTagger(model_path, columns=COLUMNS))
    assert (
        mapped._fingerprint
        == data.map(BatchTagger(model_path, columns=COLUMNS), batched=True, batch_size=2)._fingerprint
    )
