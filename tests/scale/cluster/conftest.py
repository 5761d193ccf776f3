"""A cluster of processes on this machine, started once for all tests."""

import pytest

from loglinear.scale.cluster.engine import open_cluster


@pytest.fixture(scope="package")
def dask(loopback):
    """Two worker processes."""
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    with open_cluster("local:2") as cluster:
        yield cluster
