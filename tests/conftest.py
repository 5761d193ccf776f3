"""Where the real corpora are, one hypothesis profile for all tests, and no network."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Every run draws its own examples; where CI is set they are the same each time, so that landing is no matter of luck.
settings.register_profile(
    "loglinear", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("loglinear")


@pytest.fixture(scope="session")
def corpora() -> Path:
    """Folder of the real corpora: LOGLINEAR_DATA, else ../shared/data beside the project; skips if absent."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("LOGLINEAR_DATA", default))
    if not folder.is_dir():
        pytest.skip("the real corpora are not here; set LOGLINEAR_DATA to their folder")
    return folder


network = {"allowed": False, "loopback": False}


def _no_network(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook: a test that connects or asks for an address fails, unless it takes `network_allowed`."""
    if event in ("socket.connect", "socket.sendto", "socket.getaddrinfo") and not network["allowed"]:
        to = arguments[-1] if event != "socket.getaddrinfo" else arguments[0]
        if network["loopback"] and (to[0] if isinstance(to, tuple) else to) in ("127.0.0.1", "localhost", "::1"):
            return
        if not isinstance(to, str | bytes) or event == "socket.getaddrinfo":  # a path is a socket of this machine
            raise AssertionError(f"network access during a test: {event} {arguments}")


sys.addaudithook(_no_network)


@pytest.fixture
def network_allowed():
    """For tests of `data get`, which talk to a server of their own on this machine."""
    network["allowed"] = True
    yield
    network["allowed"] = False


@pytest.fixture(scope="module")
def loopback():
    """For tests of clusters on this machine: lets a file of tests connect to it, and to no other."""
    network["loopback"] = True
    yield
    network["loopback"] = False


@pytest.fixture(scope="module")
def dask(loopback):
    """A cluster of two worker processes."""
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    from loglinear.scale.cluster.engine import open_cluster

    with open_cluster("local:2") as cluster:
        yield cluster
