"""Large arrays in files: the same numbers as in memory, little memory, and no crash where the disk has no room."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loglinear
from loglinear import mapped
from loglinear.errors import OptionError
from loglinear.system import WriteError

SOURCE = str(Path(loglinear.__file__).parents[1])
linux = pytest.mark.skipif(not mapped.resident(), reason="this system does not say how much memory a process holds")


@pytest.fixture(params=["memory", "files"])
def place(request, tmp_path, monkeypatch):
    """In memory, and with every array in a file."""
    if request.param == "memory":
        yield request.param
        return
    monkeypatch.setattr(mapped, "SMALL", 0)
    with mapped.Paging(tmp_path, 1e12):
        yield request.param


def run(code, folder):
    """What a program prints, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, env=environment)
    return done.stdout or done.stderr


def numbers(n, low=0, high=9):
    return np.random.default_rng(n).integers(low, high, size=n).astype(np.int32)


@pytest.mark.parametrize("n", [0, 1, 7, 5000])
def test_arrays_are_those_of_numpy(place, n, monkeypatch):
    monkeypatch.setattr(mapped, "PIECE", 100)
    values, chosen = np.arange(9.0), numbers(n)
    np.testing.assert_array_equal(mapped.zeros((n, 3), np.float32), np.zeros((n, 3), np.float32))
    np.testing.assert_array_equal(mapped.span(n), np.arange(n))
    np.testing.assert_array_equal(mapped.taken(values, chosen), values[chosen])
    np.testing.assert_array_equal(mapped.taken(values, chosen, out=np.empty(n)), values[chosen])
    np.testing.assert_array_equal(mapped.copied(chosen, np.int64), chosen.astype(np.int64), strict=True)
    np.testing.assert_array_equal(mapped.counts(chosen, 12), np.bincount(chosen, minlength=12))
    table = np.arange(3.0 * n, dtype=np.float32).reshape(n, 3)
    found = mapped.copied(table)
    np.testing.assert_array_equal(found, table, strict=True)
    assert not np.shares_memory(found, table)
    np.testing.assert_array_equal(mapped.taken(table, np.arange(n)[::-1]), table[::-1])
    some = numbers(n, low=-3)
    np.testing.assert_array_equal(mapped.counts(some, 9), np.bincount(some[some >= 0], minlength=9))
    made = mapped.empty((n, 2), np.int64)
    made[...] = 7
    assert made.flags.writeable and made.flags.c_contiguous and type(made) is np.ndarray and (made == 7).all()


@given(pieces=st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=20), max_size=20))
@pytest.mark.parametrize("small", [0, 40, 1 << 20])
def test_pieces_grow_to_one_array(tmp_path_factory, small, pieces):
    before, mapped.SMALL = mapped.SMALL, small
    try:
        with mapped.Paging(tmp_path_factory.getbasetemp(), 1e12):
            grown = mapped.Growing(np.int32)
            for piece in pieces:
                grown.append(np.array(piece, dtype=np.int32))
            assert len(grown) == sum(map(len, pieces))
            found = grown.array()
    finally:
        mapped.SMALL = before
    assert found.dtype == np.int32 and found.tolist() == [number for piece in pieces for number in piece]


def test_nothing_is_left_in_the_folder(tmp_path):
    with mapped.Paging(tmp_path, 1e12):
        first, second = mapped.zeros(1 << 20), mapped.Growing(np.int64)
        second.append(np.zeros(1 << 20, dtype=np.int64))
        assert list(tmp_path.iterdir()) == []
        assert len(first) == len(second.array())
    assert not mapped.is_active()


@linux
def test_the_system_is_told_to_read_ahead(tmp_path):
    def announced():
        flags = [
            line.split() for line in Path("/proc/self/smaps").read_text().splitlines() if line.startswith("VmFlags")
        ]
        return sum("sr" in each for each in flags)

    before = announced()
    with mapped.Paging(tmp_path, 1e12):
        array = mapped.zeros(1 << 20)
        assert announced() == before + 1 and len(array) == 1 << 20


BOUND = """
import sys
import numpy as np
from pathlib import Path
from loglinear import mapped

bound = mapped.resident() + 250e6
with mapped.Paging(Path(sys.argv[1]), bound):
    array = mapped.zeros((1000, 100_000))  # 800 MB
    for i, row in enumerate(array):
        row[:] = i
    assert all((row == i).all() for i, row in enumerate(array))
    assert mapped.peak() < bound, (mapped.peak(), bound)
    print("held")
"""


@linux
def test_resident_memory_stays_below_the_bound(tmp_path):
    """The thread that looks at it must get its turn; a machine with many other processes may keep it waiting once."""
    said = [run(BOUND, tmp_path)]
    while said[-1] != "held\n" and len(said) < 3:
        said.append(run(BOUND, tmp_path))
    assert said[-1] == "held\n", said


@linux
def test_a_bound_that_is_too_small_is_refused_with_the_figure(tmp_path):
    with pytest.raises(OptionError, match=r"1 MB of memory are too little: the program alone takes .*; allow at least"):
        mapped.Paging(tmp_path, 1e6)
    with mapped.Paging(tmp_path, mapped.resident() + 300e6):
        mapped.check_room(1e6, "1,000 weights")
        with pytest.raises(OptionError, match=r"too little: 10 weights take 1 GB"):
            mapped.check_room(1e9, "10 weights")
    mapped.check_room(1e15, "nothing is refused where there is no bound")


FULL = """
import resource, signal, sys
from pathlib import Path
from loglinear import mapped

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 21, 1 << 21))
try:
    with mapped.Paging(Path(sys.argv[1]), 1e12):
        mapped.zeros(1 << 20)
except OSError as error:
    print(type(error).__name__, error.filename)
"""


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system cannot reserve room on a disk")
def test_a_disk_without_room_is_an_error_and_no_crash(tmp_path):
    assert run(FULL, tmp_path) == f"{WriteError.__name__} {tmp_path}\n"
