"""Only `data get`, and clusters and URLs that a user names, open connections: conftest forbids it in every test."""

import ast
import socket
from pathlib import Path

import pytest

import loglinear
from loglinear import Tagger, read_columns
from loglinear.errors import LoglinearError

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
    "asyncio",
    "distributed",
    "fsspec",
    "pyspark",
}
#: The files that could, and when they do.
SPEAKING = {
    "data/corpora/download.py",  # in `data get`
    "scale/cluster/dask_engine.py",  # to the scheduler and the workers that a user names, or starts here
    "scale/cluster/sent.py",  # never: asks Dask for the address of the worker that runs it
    "scale/cluster/source.py",  # where the user names a URL
    "scale/spark.py",  # never: reads a file that Spark has brought
}


def imported(path):
    """The top-level names of all modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "import_module":
            yield from (each.value.split(".")[0] for each in node.args[:1] if isinstance(each, ast.Constant))


def test_few_files_speak_to_servers():
    speaking = {path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py") if SPEAKS & set(imported(path))}
    assert speaking == SPEAKING


@pytest.mark.parametrize("url", ["http://localhost:9/x.txt", "s3://bucket/x.txt"])
def test_without_a_cluster_a_url_is_a_file_that_is_not_there(url, tmp_path):
    """The same holds for all that reads: a connection would be an AssertionError."""
    for read in (read_columns, Tagger.load):
        with pytest.raises((LoglinearError, FileNotFoundError)):
            read(url)


def test_tests_cannot_reach_a_server():
    with pytest.raises(AssertionError, match="network access"):
        socket.create_connection(("localhost", 9))
    with socket.socket() as caller, pytest.raises(AssertionError, match="network access"):
        caller.connect(("127.0.0.1", 9))
