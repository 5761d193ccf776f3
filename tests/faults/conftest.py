"""One folder of inputs for all campaigns, and servers that start commands."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from faults.commands import Server
from faults.verbs import make_inputs

collect_ignore = [] if sys.platform.startswith("linux") else ["."]  # they watch folders, and limit memory


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the verbs read."""
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Starts commands."""
    made = Server(tmp_path_factory.mktemp("server"))
    yield made
    made.close()


@pytest.fixture
def fresh(inputs: Path, tmp_path: Path) -> Callable[[], Path]:
    """New folders with the inputs."""
    made = []

    def new() -> Path:
        folder = tmp_path / str(len(made))
        shutil.copytree(inputs, folder)
        made.append(folder)
        return folder

    return new
