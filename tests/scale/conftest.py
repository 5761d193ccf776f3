"""A small chunking model in a file, with what it predicts."""

import io

import pytest

from loglinear import Tagger, read_columns
from problems.corpus import TRAIN


@pytest.fixture(scope="package")
def model_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("scale") / "m.model"
    Tagger(template="chunking", l2=0.01).fit(read_columns(io.BytesIO(TRAIN.encode()))).save(path)
    return path


@pytest.fixture(scope="package")
def sentences():
    return [[("the", "D"), ("dog", "N"), ("barks", "V")], [("Anna", "N"), ("sleeps", "V")], [("été", "N"), (".", "P")]]


@pytest.fixture(scope="package")
def expected(model_path, sentences):
    return Tagger.load(model_path).predict(sentences)
