"""Labels of Dask collections are those of ``Tagger.predict``, whatever the partitions."""

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'loglinear[parquet]'")
dask = pytest.importorskip("dask", reason="the extra dask is not installed")
pd = pytest.importorskip("pandas", reason="pandas is not installed")
bag, dd = pytest.importorskip("dask.bag"), pytest.importorskip("dask.dataframe")

from loglinear import Tagger  # noqa: E402
from loglinear.errors import DataError, ModelFileError, OptionError  # noqa: E402
from loglinear.scale import collections  # noqa: E402
from loglinear.scale.collections import predict  # noqa: E402


@pytest.fixture(params=["path", "tagger"])
def model(request, model_path):
    return str(model_path) if request.param == "path" else Tagger.load(model_path)


@pytest.fixture(autouse=True)
def in_this_process():
    with dask.config.set({"scheduler": "synchronous", "dataframe.convert-string": False}):
        yield


@pytest.mark.parametrize("npartitions", [1, 2, 3])
def test_a_bag_becomes_a_bag_of_labels(model, sentences, expected, npartitions):
    found = predict(model, bag.from_sequence(sentences, npartitions=npartitions))
    assert type(found).__name__ == "Bag" and found.npartitions == npartitions
    assert found.compute() == expected
    assert predict(model, bag.from_sequence(sentences).filter(lambda _: False)).compute() == []


def test_a_frame_of_lists(model, sentences, expected):
    columns = {name: [[row[k] for row in s] for s in sentences] for k, name in enumerate(("tokens", "pos"))}
    frame = dd.from_pandas(pd.DataFrame({"id": [7, 8, 9], **columns}), npartitions=2)
    found = predict(model, frame, columns=["tokens", "pos"], confidence="p")
    assert list(found.columns) == ["id", "tokens", "pos", "predicted", "p"]
    whole = found.compute()
    assert whole["predicted"].tolist() == expected and whole["id"].tolist() == [7, 8, 9]
    assert [len(each) for each in whole["p"]] == [len(each) for each in expected]


def test_a_frame_of_rows(model, sentences, expected):
    rows = [(number, *row) for number, sentence in enumerate(sentences) for row in sentence]
    frame = pd.DataFrame(rows, columns=["sentence_id", "token", "pos"]).set_index("sentence_id", drop=False)
    parts = dd.from_pandas(frame.rename_axis(None), npartitions=3)
    found = predict(model, parts, columns=["token", "pos"], sentence="sentence_id", predicted="label", confidence="p")
    whole = found.compute()
    assert whole["label"].tolist() == [label for labels in expected for label in labels]
    assert found.dtypes["p"] == whole["p"].dtype == "float32"


def test_a_tagger_is_in_the_graph_once(model_path, sentences):
    made = predict(Tagger.load(model_path), bag.from_sequence(sentences * 4, npartitions=4))
    assert sum(str(key).startswith("loglinear-model-") for key in dict(made.dask)) == 1


def test_what_is_wrong_is_said_at_once_or_names_the_worker(model_path, sentences, tmp_path):
    with pytest.raises(OptionError, match="list is not a Dask bag or data frame"):
        predict(model_path, sentences)
    with pytest.raises(OptionError, match="columns: of data frames alone"):
        predict(model_path, bag.from_sequence(sentences), columns=["tokens"])
    text = dd.from_pandas(pd.DataFrame({"tokens": ["a b"]}, dtype="string"), npartitions=1)
    with pytest.raises(OptionError, match="convert-string"):
        predict(model_path, text)
    with pytest.raises(DataError, match="there is no column 'words'"):
        predict(model_path, text, columns=["words"])
    with pytest.raises(ModelFileError, match="cannot read"):
        predict(tmp_path / "nowhere", bag.from_sequence(sentences))
    with pytest.raises(ModelFileError, match=r"this process does not see /nowhere/m\.model"):
        collections._place("/nowhere/m.model", "0")


@pytest.mark.slow
def test_on_workers(request, model, sentences, expected):
    cluster = request.getfixturevalue("dask")
    made = predict(model, bag.from_sequence(sentences * 4, npartitions=4))
    assert cluster.client.compute(made).result() == expected * 4
