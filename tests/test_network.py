"""Only `data get` and clusters open connections: conftest forbids it in every test, and no other file could."""

import ast
import socket
from pathlib import Path

import pytest

import loglinear

SOURCES = Path(loglinear.__file__).parent
SPEAKS = {
    "socket",
    "socketserver",
    "ssl",
    "http",
    "urllib",
    "ftplib",
    "smtplib",
    "requests",
    "urllib3",
    "httpx",
    "pooch",
    "distributed",
    "fsspec",
}


def imported(path):
    """The top-level names of all modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def test_few_files_speak_to_servers():
    speaking = {path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py") if SPEAKS & set(imported(path))}
    on_clusters = {f"scale/cluster/{name}.py" for name in ("dask_engine", "sent", "source")}
    assert speaking == {"data/corpora/download.py", *on_clusters}


def test_tests_cannot_reach_a_server():
    with pytest.raises(AssertionError, match="network access"):
        socket.create_connection(("localhost", 9))
    with socket.socket() as caller, pytest.raises(AssertionError, match="network access"):
        caller.connect(("127.0.0.1", 9))
