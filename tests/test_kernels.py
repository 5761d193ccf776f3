"""Kernels find a cache folder they may write to, and say so when they are compiled."""

import os
import subprocess
import sys

import pytest

from loglinear import kernels
from loglinear.threads import in_threads, thread_count


@pytest.fixture
def fresh_cache(monkeypatch):
    kernels.cache_folder.cache_clear()
    yield monkeypatch
    kernels.cache_folder.cache_clear()


def test_the_cache_is_where_the_user_says(fresh_cache, tmp_path):
    fresh_cache.setenv("LOGLINEAR_CACHE", str(tmp_path / "mine"))
    assert kernels.cache_folder() == tmp_path / "mine"


def test_the_cache_moves_on_from_folders_it_cannot_write_to(fresh_cache, tmp_path):
    (tmp_path / "file").write_text("in the way")
    fresh_cache.setenv("LOGLINEAR_CACHE", str(tmp_path / "file" / "a"))
    fresh_cache.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "b"))
    fresh_cache.setattr("tempfile.tempdir", str(tmp_path))
    folder = kernels.cache_folder()
    assert folder.parent == tmp_path and os.access(folder, os.W_OK)


def test_the_first_compilation_says_so_and_the_second_run_is_quiet(tmp_path):
    (tmp_path / "a.txt").write_text("a b\n")
    code = f"from loglinear import read_columns; read_columns({str(tmp_path / 'a.txt')!r})"
    environment = {**os.environ, "LOGLINEAR_CACHE": str(tmp_path / "cache")}

    def run():
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stderr

    assert run() == "compiling kernels, once on this machine ...\n"
    assert run() == ""


def test_threads_keep_the_order():
    assert in_threads(lambda x: x * x, range(20), 4) == [x * x for x in range(20)]
    assert thread_count(None) >= 1
