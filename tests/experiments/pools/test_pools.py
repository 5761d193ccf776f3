"""One pool: what tasks find comes to the thread that asked, mistakes end all, and no worker survives its parent."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import loglinear
from loglinear.errors import DataError, LoglinearError
from loglinear.experiments.bench.job import Job
from loglinear.experiments.pools.pool import OutOfMemory, Stopped
from loglinear.experiments.pools.processes import ProcessPool
from loglinear.experiments.pools.threads import ThreadPool
from loglinear.experiments.reproduce import tasks

PACKAGE = str(Path(loglinear.__file__).resolve().parents[1])
QUICK = {"criterion": "hmm"}


def emitting(*items):
    def task(emit):
        for item in items:
            emit(item)

    return task


@pytest.mark.parametrize("n", [1, 2, 5])
def test_everything_comes_out_each_tasks_items_in_their_order(n):
    found = list(ThreadPool(n).stream(emitting(*((task, place) for place in range(20))) for task in range(4)))
    assert sorted(found) == [(task, place) for task in range(4) for place in range(20)]
    for task in range(4):
        assert [place for number, place in found if number == task] == list(range(20))
    if n == 1:
        assert found == sorted(found), "tasks are begun in their order"
    assert list(ThreadPool(n).stream([])) == []


def test_a_mistake_ends_the_other_tasks_and_is_the_one_that_is_raised():
    ended, began = threading.Event(), threading.Event()

    def endless(emit):
        try:
            began.set()
            while True:
                emit("still here")
                time.sleep(0.001)
        except Stopped:
            ended.set()
            raise

    def wrong(emit):
        began.wait()
        emit("found before")
        raise IndexError("the task's own")

    seen = []
    with pytest.raises(IndexError, match="the task's own"):
        for item in ThreadPool(2).stream([endless, wrong]):
            seen.append(item)
    assert ended.is_set() and "found before" in seen


def test_whoever_leaves_the_stream_stops_the_tasks():
    ended = threading.Event()

    def endless(emit):
        try:
            while True:
                emit(1)
                time.sleep(0.001)
        except Stopped:
            ended.set()

    stream = ThreadPool(1).stream([endless])
    assert next(stream) == 1
    stream.close()
    assert ended.is_set()


def test_every_kind_of_job_has_its_function():
    for jobs in (tasks.Job, Job):
        for place in jobs.MEASURES.values():
            module, _, name = place.partition(":")
            assert callable(getattr(__import__(module, fromlist=[name]), name))


def test_a_worker_takes_no_module_of_the_current_folder(tmp_path, monkeypatch):
    for name in ("queue", "json", "numpy", "loglinear", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with ProcessPool(1) as pool:
        ((name, cell),) = pool.run({"one": tasks.Job("tags", (), QUICK)})
    assert name == "one" and cell["seconds"] >= 0


def test_workers_are_used_again_and_end_with_the_pool():
    with ProcessPool(2) as pool:
        for _ in range(2):
            assert len(dict(pool.run({str(n): tasks.Job("tags", (), QUICK, n) for n in range(2)}))) == 2
        processes = [worker._process for worker in pool._workers]
        assert 1 <= len(processes) <= 2 and all(process.poll() is None for process in processes)
    assert all(process.poll() is not None for process in processes)


def test_a_worker_that_the_system_kills_is_out_of_memory():
    with ProcessPool(1) as pool:
        list(pool.run({"first": tasks.Job("tags", (), QUICK)}))
        os.kill(pool._workers[0]._process.pid, signal.SIGKILL)
        with pytest.raises(OutOfMemory, match="second: killed by the system"):
            list(pool.run({"second": tasks.Job("tags", (), QUICK)}))


def test_mistakes_have_the_jobs_name_and_their_own_class(tmp_path):
    with ProcessPool(1) as pool, pytest.raises(DataError, match=r"missing: .*nowhere"):
        list(pool.run({"missing": tasks.Job("tags", (str(tmp_path / "nowhere"),), QUICK)}))
    with (
        ProcessPool(1) as pool,
        pytest.raises(LoglinearError, match="unknown: the worker process ended with status 1: KeyError"),
    ):
        list(pool.run({"unknown": tasks.Job("nothing", (), QUICK)}))


PARENT = """
import sys
from loglinear.experiments.pools.processes import ProcessPool
from loglinear.experiments.reproduce.tasks import Job
jobs = {str(n): Job("entities", (), {"criterion": "cll", "template": "ner", "tolerance": 0.0, "max_iter": 10**6,
        "optimizer": "lbfgs", "l2": 1e-9}, n) for n in range(2)}
with ProcessPool(2) as pool:
    for worker_number, _ in enumerate(pool.run(jobs)):
        pass
"""


def children_of(pid):
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(place.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_survives_its_parent(signal_number):
    if signal_number == signal.SIGINT and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        pytest.skip("SIGINT is ignored here, as in a background job")
    environment = {**os.environ, "PYTHONPATH": PACKAGE}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], env=environment, stderr=subprocess.DEVNULL)
    while len(workers := children_of(parent.pid)) < 2:
        assert parent.poll() is None
        time.sleep(0.02)
    time.sleep(0.5)
    parent.send_signal(signal_number)
    assert parent.wait(timeout=60) != 0
    limit = time.perf_counter() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.perf_counter() < limit, "a worker goes on without its parent"
        time.sleep(0.02)
