"""Classifiers of rows of numbers on a cluster."""

import numpy as np
import pytest
import scipy.sparse as sp

from loglinear import Classifier
from loglinear.errors import DataError, OptionError
from loglinear.optimizers import objective as objectives
from loglinear.scale import DaskClassifier
from loglinear.scale.cluster.engine import Local

da = pytest.importorskip("dask.array")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(objectives, "TOKENS_PER_SHARD", 40)


def data(sparse=False, n=230, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)) * (rng.random((n, 6)) < 0.5 if sparse else 1.0)
    y = np.array(["a", "b", "c"])[np.argmax(X[:, :3] + 0.5 * rng.normal(size=(n, 3)), axis=1)]
    return X, y


def on_dask(X, y, chunk=50, sparse=False):
    blocks = da.from_array(X, chunks=(chunk, X.shape[1]))
    return blocks.map_blocks(sp.csr_matrix) if sparse else blocks, da.from_array(y, chunks=chunk)


CASES = [{}, {"l1": 0.5}, {"bias": "penalised"}, {"multiclass": "one-versus-all"}, {"criterion": "softmax-margin"}]


@pytest.mark.parametrize("options", CASES)
@pytest.mark.parametrize("sparse", [False, True])
def test_the_weights_are_those_of_one_machine(options, sparse):
    X, y = data(sparse)
    weights = np.linspace(0.5, 1.5, len(y))
    one = Classifier(optimizer="lbfgs", **options).fit(sp.csr_matrix(X) if sparse else X, y, sample_weight=weights)
    found = [
        DaskClassifier(client=Local(n), **options).fit(*on_dask(X, y, chunk, sparse), sample_weight=weights)
        for n, chunk in ((1, 50), (3, 50), (2, 37))
    ]
    for each in found:
        assert each.coef_.tobytes() == found[0].coef_.tobytes()  # for any number of workers and any partitions
        if sparse:
            assert each.coef_.tobytes() == one.coef_.tobytes()
        np.testing.assert_allclose(each.coef_, one.coef_, rtol=1e-6, atol=1e-8)
    assert found[0].report_.groups > 3
    np.testing.assert_array_equal(found[0].predict(X), found[0].to_local().predict(X))
    blocks, _ = on_dask(X, y)
    np.testing.assert_array_equal(found[0].predict(blocks).compute(), found[0].predict(X))


def test_data_frames():
    pandas, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X, y = data()
    frame = pandas.DataFrame(X, columns=list("uvwxyz")).assign(label=y)
    parts = dd.from_pandas(frame, npartitions=4)
    found = DaskClassifier(client=Local(2)).fit(parts, label_column="label")
    one = Classifier(optimizer="lbfgs").fit(frame.drop(columns="label"), y)
    np.testing.assert_allclose(found.coef_, one.coef_, rtol=1e-6, atol=1e-8)
    assert list(found.feature_names_in_) == list("uvwxyz")
    np.testing.assert_array_equal(found.predict(parts).compute().to_numpy(), one.predict(frame.drop(columns="label")))
    with pytest.raises(DataError, match=r"partition \d \(from 0\) has no column 'q'"):
        DaskClassifier(client=Local(2)).fit(parts, label_column="q")
    with pytest.raises(DataError, match=r"partition \d .*hold numbers"):
        DaskClassifier(client=Local(2)).fit(parts.assign(s="text"), label_column="label")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"optimizer": "dual"}, "optimizer='dual'"),
        ({"criterion": "perceptron"}, "criterion='perceptron'"),
        ({"criterion": "naive-bayes", "l2": None}, "criterion='naive-bayes'"),
        ({"kernel": "rbf"}, "kernel"),
    ],
)
def test_what_cannot_go_onto_a_cluster_is_a_sentence(options, what):
    with pytest.raises(OptionError, match=what):
        DaskClassifier(client=Local(1), **options).fit(*on_dask(*data()))


def test_other_data_is_refused():
    X, y = data()
    blocks, labels = on_dask(X, y)
    for given, match in (((X, y), "two Dask arrays"), ((blocks,), "y is the array"), ((blocks, labels[:9]), "rechunk")):
        with pytest.raises(OptionError, match=match):
            DaskClassifier(client=Local(1)).fit(*given)
    X[3, 2] = np.nan
    with pytest.raises(DataError, match=r"partition 0 \(from 0\): numbers must be finite"):
        DaskClassifier(client=Local(1)).fit(*on_dask(X, y))
