"""SIGKILL at any moment: each file is the old one or the new one, and a resumed training ends with the same bits."""

import os
import random
import shutil
import signal
import time
from collections import Counter

import pytest

from faults.commands import Changes, Server
from faults.counts import chosen, count
from faults.verbs import (
    ON_A_CLUSTER,
    VERBS,
    WITH_WORKERS,
    cells_within,
    content_of,
    leftovers,
    same_cells,
    same_model,
    sweep,
)

pytestmark = pytest.mark.slow
BETWEEN = 4  # a command is left to end after so many kills at most


class Killed:
    """A command in a folder that is killed again and again, and continued."""

    def __init__(self, name, verb, server, folder):
        self.name, self.verb, self.server, self.folder = name, verb, server, folder
        self.whole = folder / "whole"
        self.whole.mkdir()
        changes = Changes(folder)
        server.start(*verb.line(), cwd=folder)
        self.changes = changes.wait(10**9, 300.0, lambda: server.has_ended(0.0))
        ended = server.end()
        changes.close()
        assert ended.status == 0, (name, ended)
        self.lasts = ended.seconds
        for output in verb.outputs:
            shutil.move(folder / output, self.whole / output)
        self.clear()
        self.inputs = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def clear(self):
        for name in [*self.verb.outputs, "out.model.checkpoint", "cells.json.models"]:
            path = self.folder / name
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def kill(self, rng):
        """Run it, or continue it, and kill it at some moment: whether that came before its end."""
        if self.verb.only_new:
            self.clear()
        before = {name: content_of(self.folder / name) for name in self.verb.outputs}
        resumed = (self.folder / "out.model.checkpoint").exists()
        if rng.random() < 0.6:  # while it writes
            changes = Changes(self.folder)
            self.server.start(*self.verb.line(resumed), cwd=self.folder)
            changes.wait(rng.randint(1, self.changes), 60.0, lambda: self.server.has_ended(0.0))
            time.sleep(rng.choice([0.0, 0.0, rng.uniform(0.0, 0.003)]))
            changes.close()
        else:
            self.server.start(*self.verb.line(resumed), cwd=self.folder)
            time.sleep(rng.uniform(0.0, 1.1 * self.lasts))
        self.server.kill()
        ended = self.server.end()
        assert ended.status in (0, -signal.SIGKILL), (self.name, ended)
        for name, same in self.verb.outputs.items():
            path = self.folder / name
            if not path.exists():
                assert before[name] is None, f"{self.name}: {name} is lost"
            elif content_of(path) != before[name]:
                whole = cells_within if same is same_cells else same
                assert whole(path, self.whole / name), f"{self.name}: {name} is neither the old nor the new one"
        for path, content in self.inputs.items():
            assert path.read_bytes() == content, f"{self.name}: {path.name} has changed"
        assert len(leftovers(self.folder)) <= len(self.verb.outputs) + 1  # one a file, however often it is killed
        return ended.status != 0

    def finish(self):
        """Let it end, from where it is."""
        if self.verb.only_new:
            self.clear()
        ended = self.server.run(*self.verb.line((self.folder / "out.model.checkpoint").exists()), cwd=self.folder)
        assert ended.status == 0, (self.name, ended)
        for name, same in self.verb.outputs.items():
            ours, whole = self.folder / name, self.whole / name
            assert same(ours, whole) and same(whole, ours), f"{self.name}: {name} differs from an uninterrupted run"
        assert not sweep(self.folder)


def no_process_of(server, within=10.0):
    """Wait until no process is left whose temporary folder is the server's but the server itself."""
    mark, last = f"TMPDIR={server.temporary}".encode(), time.perf_counter() + within
    while time.perf_counter() < last:
        left = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as stream:
                    left += mark in stream.read().split(b"\0")
            except OSError:
                continue
        if left <= 1:
            return True
        time.sleep(0.1)
    return False


def test_killed_commands_lose_nothing_and_leave_no_half_file(server, fresh):
    if not count("kills"):
        pytest.skip("in the long form alone: LOGLINEAR_FAULTS=kills=40")
    rng = random.Random(count("seed"))
    wanted, done, tries = count("kills"), Counter(), 0
    under_way = {}
    known = chosen(VERBS)
    names = [name for name in known for _ in range(VERBS[name].weight)]
    drawn = names if wanted >= 200 or len(known) < len(VERBS) else rng.sample(known, 8)
    since = Counter()
    while sum(done.values()) < wanted:
        tries += 1
        assert tries < 4 * wanted + 100, "most commands end before they are killed"
        name = rng.choice(drawn)
        if name not in under_way:
            under_way[name] = Killed(name, VERBS[name], server, fresh())
        command = under_way[name]
        done[name] += command.kill(rng)
        since[name] += 1
        if since[name] >= rng.randint(1, BETWEEN):
            command.finish()
            since[name] = 0
            if rng.random() < 0.6:  # else the next one replaces what there is
                command.clear()
    for name, command in under_way.items():
        if since[name]:
            command.finish()
    assert no_process_of(server)
    print(f"\n{sum(done.values())} kills in {tries} runs: {dict(done)}")


@pytest.mark.parametrize("name", WITH_WORKERS)
def test_killed_experiments_continue_and_leave_no_process(tmp_path, fresh, name):
    """One kill for twenty of the others: they take a minute each."""
    kills = count("kills") // 20
    if kills < 5:
        pytest.skip("only in a long campaign: LOGLINEAR_FAULTS=long")
    rng, server, verb, folder = random.Random(count("seed")), Server(tmp_path), WITH_WORKERS[name], fresh()
    whole = fresh()
    for _ in range(kills):
        server.start(*verb.line(), cwd=folder)
        time.sleep(rng.uniform(0.5, 12.0))
        server.kill()
        server.end()
        assert no_process_of(server)
        assert len(leftovers(folder)) <= 1
        for path in folder.glob("*.json"):
            assert path.read_bytes()[-1:] == b"}"
    assert len(server.left_behind()) <= 1  # each command removes what the one before it left
    for output, same in verb.outputs.items():
        for place in (folder, whole):
            ended = server.run(*verb.line(), cwd=place)
            assert ended.status == 0, ended
        assert same(folder / output, whole / output)
    server.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_trainings_on_a_cluster_that_are_ended_leave_no_process(tmp_path, fresh, number):
    """Ended once the first checkpoint is there and, in a long campaign, at random moments, too."""
    pytest.importorskip("distributed", reason="the extra dask is not installed")
    rng, server, verb, folder = random.Random(count("seed")), Server(tmp_path), ON_A_CLUSTER, fresh()
    alone = fresh()
    assert server.run(*VERBS["train lbfgs"].line(), cwd=alone).status == 0
    checkpoint, ended_early = folder / "out.model.checkpoint", 0
    for attempt in range(1 + count("kills") // 20):
        server.start(*verb.line(checkpoint.exists()), cwd=folder)
        wait = 120.0 if not attempt else rng.uniform(0.0, 8.0)
        last = time.perf_counter() + wait
        while time.perf_counter() < last and not (attempt == 0 and checkpoint.exists()) and not server.has_ended(0.01):
            pass
        server.kill(number)
        ended = server.end()
        ended_early += ended.status != 0
        assert ended.status in (0, 143, -number), ended
        assert no_process_of(server, 30.0)
        assert len(leftovers(folder)) <= 2
        assert number == signal.SIGKILL or not server.left_behind()
        assert not (folder / "out.model").exists() or same_model(folder / "out.model", alone / "out.model")
    ended = server.run(*verb.line(checkpoint.exists()), cwd=folder)
    assert ended.status == 0, ended
    assert same_model(folder / "out.model", alone / "out.model")
    assert no_process_of(server, 30.0)
    assert not server.left_behind() and not sweep(folder)
    server.close()
    print(f"\n{ended_early} trainings on a cluster ended by {number.name}")
    assert ended_early
