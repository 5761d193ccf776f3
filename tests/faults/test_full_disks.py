"""Disks that fill up at any write, folders that are read-only or go away: a message, and the old file as it was."""

import contextlib
import os
import random
import shutil
import subprocess

import pytest

from faults.counts import chosen, count
from faults.verbs import MODEL, VERBS, cells_within, content_of, leftovers, same_cells, same_encoding, same_files

pytestmark = pytest.mark.slow
OLD = b"what was there before"


def with_old_files(folder, verb):
    """Put something there that the verb is to replace; a file of results is continued, and a folder of files filled."""
    for name, same in verb.outputs.items():
        if same is same_encoding:
            shutil.copytree(folder / "ready", folder / name)
        elif same not in (same_cells, same_files):
            (folder / name).write_bytes(OLD)


def is_old(folder, name, same):
    if same is same_encoding:
        return content_of(folder / name) == content_of(folder / "ready")
    return content_of(folder / name) == (None if same is same_files else OLD)


def check(folder, verb, whole, ended, what):
    """A command met a fault: it said so, and its outputs are old or new ones."""
    assert ended.is_clear, (what, ended)
    for name, same in verb.outputs.items():
        path = folder / name
        if same is same_cells:
            assert not path.exists() or cells_within(path, whole / name), (what, name)
        elif ended.status == 0 or not is_old(folder, name, same):
            assert same(path, whole / name), (what, name, ended)
    assert not leftovers(folder), (what, ended)


@pytest.fixture
def whole(server, fresh):
    """The outputs of verbs that nothing happens to, each made once."""
    for path in server.temporary.iterdir():  # models that found no other place
        shutil.rmtree(path)
    made = {}

    def outputs(name):
        if name not in made:
            made[name] = fresh()
            ended = server.run(*VERBS[name].line(), cwd=made[name])
            assert ended.status == 0, ended
        return made[name]

    return outputs


KINDS = [["write"], ["open"], ["fsync"], ["replace", "rename"]]
NAMES = ["train", "train lbfgs", "tag", "tag gz", "prune", "tune", "compare", "parse train", "parse run",
         "classify train", "cluster", "path", "sample", "encode", "tag files", "update", "combine", "convert",
         "data convert", "data convert brat", "crfsuite learn"]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=[kind[0] for kind in KINDS])
def test_the_disk_is_full_at_any_write(server, fresh, whole, kind):
    """The first time, the second time ... until no write is left to fail."""
    rng, left = random.Random(f"{count('seed')} {kind}"), count("writes")
    known = chosen(NAMES)
    names = rng.sample(known, len(known) if left > 100 else min(3, len(known)))
    failed = 0
    for name in names:
        verb, n = VERBS[name], 0
        while left:
            n += 1 if count("writes") > 100 else rng.randint(1, 3)
            folder = fresh()
            with_old_files(folder, verb)
            ended = server.run(*verb.line(), cwd=folder, fault="full_disk_at", inputs=(n, kind))
            check(folder, verb, whole(name), ended, f"{name}, {kind} {n}")
            if ended.status:
                assert os.strerror(28) in ended.said or "No usable temporary" in ended.said, ended
            shutil.rmtree(folder)
            noticed = ended.status or "No space" in ended.said
            failed += bool(noticed)
            left -= 1
            if not noticed:
                break
        for path in server.temporary.glob("loglinear-*"):  # a model that found no other place
            shutil.rmtree(path)
    assert failed
    print(f"\n{failed} full disks")


@pytest.mark.parametrize(
    "name", ["train", "tag", "tune", "parse train", "cluster", "encode", "tag files", "update", "data convert brat"]
)
def test_no_file_may_grow(server, fresh, whole, name):
    verb = VERBS[name]
    contents = [content_of(whole(name) / output) for output in verb.outputs]
    largest = max(len(data) for each in contents for data in (each.values() if isinstance(each, dict) else [each]))
    for n_bytes in sorted({0, 1, 100, 4096, largest // 2, largest - 1}):
        folder = fresh()
        with_old_files(folder, verb)
        ended = server.run(*verb.line(), cwd=folder, fault="largest_file", inputs=[n_bytes])
        check(folder, verb, whole(name), ended, f"{name}, {n_bytes} bytes")
        assert ended.status != 0 or n_bytes >= largest - 1  # figures of seconds may be shorter
        shutil.rmtree(folder)


@contextlib.contextmanager
def mounted(folder, *how):
    """Mount something on a folder, if that is possible here."""
    done = subprocess.run(["mount", *how, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize("name", ["train", "tag", "tune", "parse train"])
def test_a_real_disk_that_is_full(server, fresh, whole, name):
    verb = VERBS[name]
    for kilobytes in (4, 16, 64, 128):
        folder = fresh()
        disk = folder / "disk"
        disk.mkdir()
        with mounted(disk, "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs"):
            with_old_files(disk, verb)
            line = [f"disk/{each}" if each in verb.outputs else each for each in verb.line()]
            ended = server.run(*line, cwd=folder)
            check(disk, verb, whole(name), ended, f"{name}, {kilobytes} kB")


@pytest.mark.parametrize("name", ["train", "tag", "tune", "parse train", "cluster"])
def test_a_read_only_folder_is_refused_at_once(server, fresh, whole, name):
    verb, folder = VERBS[name], fresh()
    disk = folder / "disk"
    disk.mkdir()
    with_old_files(disk, verb)
    with mounted(disk, "--bind", str(disk)):
        if subprocess.run(["mount", "-o", "remount,bind,ro", str(disk)], check=False).returncode:
            pytest.skip("no folder can be made read-only here")
        line = [f"disk/{each}" if each in verb.outputs else each for each in verb.line()]
        ended = server.run(*line, cwd=folder)
        assert ended.status == 2 and ended.is_clear and "disk" in ended.said, ended
        check(disk, verb, whole(name), ended, name)


@pytest.mark.parametrize(
    "name", ["train", "train lbfgs", "tag", "tune", "parse train cll", "cluster", "encode", "tag files", "update"]
)
def test_a_folder_that_goes_away(server, fresh, whole, name):
    """The folder of the outputs, or the one that the command was started in, is removed while it runs."""
    if not count("kills"):
        pytest.skip("at random moments, as kills are: in the long form alone")
    rng = random.Random(f"{count('seed')} {name}")
    for attempt in range(6 if count("writes") > 100 else 2):
        verb, folder = VERBS[name], fresh()
        out = folder / "out"
        out.mkdir()
        line = [f"out/{each}" if each in verb.outputs else each for each in verb.line()]
        cwd = folder
        if attempt % 2:  # the current folder goes, too
            line = [str(folder / each) if (folder / each).is_file() else each for each in verb.line()]
            cwd = out
        ended = server.run(*line, cwd=cwd, fault="folder_goes", inputs=(str(out), rng.uniform(0.0, 0.5)))
        assert ended.is_clear, (name, ended)
        if ended.status == 0 and out.exists():
            for output, same in verb.outputs.items():
                assert same(out / output, whole(name) / output)
        for path in server.temporary.glob("loglinear-*"):
            if (path / "out.model").exists() and ended.status and verb.outputs == MODEL:
                assert MODEL["out.model"](path / "out.model", whole(name) / "out.model")
            shutil.rmtree(path)


def test_two_writers_of_one_model_and_one_checkpoint(server, fresh, whole, tmp_path_factory):
    """Two trainings that write the same files at once: each is that of one of them, and whole."""
    from faults.commands import Server

    other = Server(tmp_path_factory.mktemp("other"))
    folder, verb = fresh(), VERBS["train lbfgs"]
    different = [*verb.line(), "--l2", "3"]
    second = fresh()
    assert server.run(*different, cwd=second).status == 0
    for _ in range(3 if count("writes") <= 100 else 30):
        other.start(*different, cwd=folder)
        first = server.run(*verb.line(), cwd=folder)
        late = other.end()
        for ended in (first, late):
            assert ended.is_clear, ended
        same = MODEL["out.model"]
        theirs = [same(folder / "out.model", place / "out.model") for place in (whole("train lbfgs"), second)]
        assert any(theirs)
        assert not leftovers(folder)
        for path in ("out.model", "out.model.checkpoint"):
            (folder / path).unlink(missing_ok=True)
    other.close()


def test_two_writers_of_one_file_of_results(server, fresh, whole, tmp_path_factory):
    """Two tunings keep their cells in one file: it is whole, and what one has lost of the other is trained again."""
    from faults.commands import Server

    other = Server(tmp_path_factory.mktemp("other"))
    verb = VERBS["tune"]
    for _ in range(3 if count("writes") <= 100 else 30):
        folder = fresh()
        other.start(*verb.line(), cwd=folder)
        first = server.run(*verb.line(), cwd=folder)
        late = other.end()
        for ended in (first, late):
            assert ended.status == 0, ended
        assert cells_within(folder / "cells.json", whole("tune") / "cells.json")
        assert MODEL["out.model"](folder / "out.model", whole("tune") / "out.model")
        assert not leftovers(folder)
    other.close()


@pytest.mark.parametrize("monotonic", [False, True])
@pytest.mark.parametrize(
    "name", ["train", "train lbfgs", "tune", "parse train cll", "cluster", "encode", "tag files", "update", "combine"]
)
def test_a_clock_that_jumps(server, fresh, whole, name, monotonic):
    verb, folder = VERBS[name], fresh()
    ended = server.run(*verb.line(), cwd=folder, fault="jumping_clock", inputs=(count("seed"), monotonic))
    assert ended.status == 0, ended
    for output, same in verb.outputs.items():
        assert same(folder / output, whole(name) / output)


MANY_LABELS = "train many.txt -o out.model --order 2 --optimizer lbfgs --max-iter 4 --checkpoint-seconds 0"


@pytest.mark.parametrize("name", ["train", "train lbfgs", "order 2", "parse train cll", "tag"])
def test_memory_that_runs_out(server, fresh, name):
    """A command may take so many bytes more than it has: it works, or it says that memory is short."""
    if not count("limits"):
        pytest.skip("in the long form alone: a library may abort, and a process may hang, where threads get no memory")
    rng = random.Random(f"{count('seed')} {name}")
    folder = fresh()
    if name == "order 2":
        rows = ["".join(f"w{rng.randrange(50)}\tL{rng.randrange(60)}\n" for _ in range(20)) for _ in range(40)]
        (folder / "many.txt").write_text("\n".join(rows) + "\n")
    line = MANY_LABELS.split() if name == "order 2" else VERBS[name].line()
    output = folder / ("out.txt" if name == "tag" else "out.model")
    statuses = []
    for _ in range(count("limits")):
        n_bytes = int(10 ** rng.uniform(4.0, 8.7))
        output.write_bytes(OLD)
        ended = server.run(*line, cwd=folder, fault="more_memory", inputs=[n_bytes])
        assert ended.is_clear, (n_bytes, ended)
        if ended.status:
            assert output.read_bytes() == OLD
            assert "memory" in ended.said.lower(), (n_bytes, ended)
        statuses.append(ended.status)
        assert not leftovers(folder)
        (folder / "out.model.checkpoint").unlink(missing_ok=True)
    print(f"\n{statuses}")
