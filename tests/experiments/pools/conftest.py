"""A small corpus, and a cluster of processes on this machine, started once for all tests."""

import io

import numpy as np
import pytest

from loglinear.data import read_columns
from loglinear.data.corpora.bundled import bundled_text
from loglinear.scale.cluster.engine import open_cluster


@pytest.fixture(scope="module")
def dask(loopback):
    """Two worker processes."""
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    with open_cluster("local:2") as cluster:
        yield cluster


@pytest.fixture(scope="package")
def corpora():
    """Training, dev and test sentences."""
    texts = (bundled_text(split, "chunk").encode() for split in ("train", "dev", "test"))
    return [read_columns(io.BytesIO(text)).select(np.arange(50)) for text in texts]
