"""The cache of compiled kernels: nobody else's code is run from it, and damage to it costs a compilation, no more."""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import loglinear
from loglinear import system
from loglinear.kernels import Kernel, cache
from loglinear.system import cache_folder, cache_warning, read_private, replace_file, why_not_private

SOURCE = str(Path(loglinear.__file__).parents[1])
posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")
as_root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
STRANGER = 12345


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    """A home and a temporary folder of its own."""
    for name in ("LOGLINEAR_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "tmp").mkdir(mode=0o1777)
    (tmp_path / "tmp").chmod(0o1777)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    cache_folder.cache_clear()
    yield monkeypatch
    cache_folder.cache_clear()


# -- whose folder it is ------------------------------------------------------------------------------------------------


@posix
def test_whatever_the_umask_folders_and_files_are_this_users_alone(own_cache, tmp_path):
    before = os.umask(0)
    try:
        folder = cache_folder()
        replace_file(folder / "file", b"data")
        os.umask(0o777)
        assert why_not_private(folder / "a" / "b") == ""
    finally:
        os.umask(before)
    assert folder == tmp_path / "home" / ".cache" / "loglinear"
    made = [folder.parent, folder, folder / "a", folder / "a" / "b"]
    assert [stat.S_IMODE(each.stat().st_mode) for each in made] == [0o700] * 4
    assert stat.S_IMODE((folder / "file").stat().st_mode) == 0o600


@posix
@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HOME"])
def test_a_relative_place_is_none(own_cache, tmp_path, variable):
    own_cache.chdir(tmp_path)
    own_cache.setenv(variable, "caches")
    folder = cache_folder()
    assert not (tmp_path / "caches").exists()
    places = {"XDG_CACHE_HOME": tmp_path / "home" / ".cache" / "loglinear", "HOME": tmp_path / "tmp"}
    assert folder in (places[variable], places[variable] / f"loglinear-{os.geteuid()}")


def test_a_relative_cache_of_ones_own_stays_where_it_is_when_the_folder_changes(own_cache, tmp_path):
    own_cache.chdir(tmp_path)
    own_cache.setenv("LOGLINEAR_CACHE", "mine")
    assert cache_folder() == tmp_path / "mine"


def unsafe(folder, how):
    """Make a folder that must not be used."""
    if how == "link":
        folder.with_name("target").mkdir(mode=0o700)
        folder.symlink_to(folder.with_name("target"))
        return
    folder.mkdir(mode=0o700, parents=True)
    if how == "stranger's":
        os.chown(folder, STRANGER, STRANGER)
    elif how == "in a stranger's":
        os.chown(folder.parent, STRANGER, STRANGER)
    elif how == "for all":
        folder.chmod(0o777)
    elif how == "for a group":
        folder.chmod(0o770)
        os.chown(folder, -1, STRANGER)
    elif how == "in one for all":
        folder.parent.chmod(0o777)


UNSAFE = {
    "link": "is a link",
    "for all": "can be written to by others",
    "in one for all": "lies in a folder that others can write to",
    "stranger's": "belongs to another user",
    "in a stranger's": "lies in a folder that others can write to",
    "for a group": "can be written to by others",
}


@posix
@pytest.mark.parametrize("how", [*list(UNSAFE)[:3], *(pytest.param(how, marks=as_root) for how in list(UNSAFE)[3:])])
def test_a_folder_that_others_can_fill_is_not_used(own_cache, tmp_path, how):
    folder = tmp_path / "place" / "cache"
    folder.parent.mkdir()
    unsafe(folder, how)
    assert UNSAFE[how] in why_not_private(folder)
    own_cache.setenv("LOGLINEAR_CACHE", str(folder))
    assert cache_folder() == tmp_path / "home" / ".cache" / "loglinear"
    assert UNSAFE[how] in cache_warning() and str(folder) in cache_warning()
    assert list(folder.iterdir()) == []


@as_root
def test_the_fallback_in_the_temporary_folder_is_not_a_strangers(own_cache, tmp_path):
    """Who has no home finds the name in /tmp taken: the cache is a new folder, gone when the process ends."""
    (tmp_path / "home" / ".cache").write_text("in the way")
    taken = tmp_path / "tmp" / f"loglinear-{os.geteuid()}"
    assert cache_folder() == taken  # /tmp is sticky
    taken.rmdir()
    cache_folder.cache_clear()
    taken.mkdir(mode=0o777)
    os.chown(taken, STRANGER, STRANGER)
    code = "from loglinear.system import cache_folder; (cache_folder() / 'x').mkdir(); print(cache_folder())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": SOURCE, "TMPDIR": str(tmp_path / "tmp")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    used = Path(done.stdout.strip())
    assert used.parent == taken.parent and used != taken
    assert not used.exists() and list(taken.iterdir()) == []


@posix
def test_a_group_of_ones_own_is_nobody_else(own_cache, tmp_path):
    """Where each user has a group and the umask is 002, the folders on the way can be written to by that group."""
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o775)
    own_cache.setattr(system, "_is_own_group", lambda group: True)
    assert why_not_private(place / "cache") == ""
    own_cache.setattr(system, "_is_own_group", lambda group: False)
    assert why_not_private(place / "cache") != ""


@posix
def test_a_file_that_others_can_write_to_is_not_read(tmp_path):
    file = tmp_path / "file"
    replace_file(file, b"data")
    assert read_private(file) == b"data"
    (tmp_path / "link").symlink_to(file)
    with pytest.raises(OSError):
        read_private(tmp_path / "link")
    file.chmod(0o666)
    with pytest.raises(PermissionError):
        read_private(file)


# -- kernels in it -----------------------------------------------------------------------------------------------------


def twice(x):
    return x + x


def fresh(function=twice):
    """A kernel that has not been called in this process."""
    function.__module__ = "loglinear.errors"  # any that can be imported
    return Kernel(function, {})


@pytest.fixture
def kept(own_cache):
    """A kernel's index and data in a cache of its own, and a function that loads the machine code, or gives None."""
    cache._why_not.cache_clear()
    kernel = fresh()
    assert kernel.compiled(2.0) == 4.0
    folder = cache_folder() / cache.FOLDER / "errors"
    (index,), (data,) = folder.glob("*.nbi"), folder.glob("*.nbc")
    signature, context = kernel.compiled.signatures[0], kernel.compiled.targetctx

    files = fresh().compiled._cache

    def load():
        return files.load_overload(signature, context)

    assert load() is not None
    return index, data, load


def works_again(index, load):
    """A kernel gives its result, and the cache is whole afterwards; returns the file of its data."""
    kernel = fresh()
    assert kernel.compiled(2.0) == 4.0
    assert kernel.compiled.stats.cache_misses, "it was taken from a damaged cache"
    assert load() is not None
    (data,) = set(index.parent.iterdir()) - {index}
    return data


@pytest.mark.parametrize("which", ["index", "data"])
@pytest.mark.parametrize("damage", ["emptied", "cut", "longer", "missing", "a folder", "another's"])
def test_a_damaged_file_is_a_miss_and_is_replaced(kept, which, damage):
    index, data, load = kept
    file = index if which == "index" else data
    content = file.read_bytes()
    if damage in ("missing", "a folder"):
        file.unlink()
        if damage == "a folder":
            file.mkdir()
            assert load() is None and fresh().compiled(2.0) == 4.0
            return
    else:
        other = {"emptied": b"", "cut": content[: len(content) // 2], "longer": content + b"\0"}
        file.write_bytes(other.get(damage, (data if which == "index" else index).read_bytes()))
    assert load() is None
    works_again(index, load)


def flips(content, step):
    """Contents with one byte changed: every ``step``-th."""
    for place in range(0, len(content), step):
        changed = bytearray(content)
        changed[place] ^= 0xFF if place % 2 else 1 << (place // 2 % 8)
        yield bytes(changed)


def check_flips(kept, monkeypatch, step):
    index, data, load = kept

    def unpickled(*_):
        raise SystemExit("damaged data was unpickled")  # no Exception, which would be a miss

    for part, reader in (("index", "load"), ("data", "loads")):
        file = index if part == "index" else data
        content = file.read_bytes()
        with monkeypatch.context() as patched:
            patched.setattr(cache.pickle, reader, unpickled)
            for changed in flips(content, step):
                file.write_bytes(changed)
                assert load() is None
        data = works_again(index, load)


def test_a_changed_byte_is_a_miss(kept, monkeypatch):
    check_flips(kept, monkeypatch, 61)


@pytest.mark.slow
def test_each_changed_byte_is_a_miss(kept, monkeypatch):
    check_flips(kept, monkeypatch, 1)


@posix
def test_machine_code_that_others_can_write_is_not_loaded(kept):
    index, data, load = kept
    for file in (index, data):
        file.chmod(0o666)
        assert load() is None
        file.chmod(0o600)
    assert load() is not None


FILL = """
import sys
from loglinear.kernels import Kernel
import numpy as np

def twice(x):
    return x + x

twice.__module__ = "loglinear.errors"
kernel = Kernel(twice, {})
for value in eval(sys.argv[1]):
    assert kernel.compiled(value) == value + value
print(sum(kernel.compiled.stats.cache_misses.values()))
"""


@posix
@pytest.mark.slow
def test_processes_that_fill_one_cache_at_once_do_no_damage(tmp_path):
    """Each asks for the same signatures in another order; all are there afterwards, and right."""
    kinds = [f"np.{kind}(3)" for kind in ("int8", "uint16", "float32", "int64", "float64")]
    asked = [f"[{', '.join(kinds[k:] + kinds[:k])}]" for k in range(3)]
    environment = {**os.environ, "LOGLINEAR_CACHE": str(tmp_path / "cache"), "PYTHONPATH": SOURCE}
    (tmp_path / "fill.py").write_text(FILL)

    def start(values):
        command = [sys.executable, str(tmp_path / "fill.py"), values]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    for process in [start(values) for values in asked]:
        _, said = process.communicate()
        assert process.returncode == 0, said
    assert not list((tmp_path / "cache").rglob("*.tmp"))
    final = start(asked[0])
    out, said = final.communicate()
    assert (out, said) == ("0\n", ""), "something is missing"


# -- leaving nothing behind --------------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    file = tmp_path / "file"
    replace_file(file, b"old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError):
        replace_file(file, b"new")
    assert file.read_bytes() == b"old" and [path.name for path in tmp_path.iterdir()] == ["file"]
