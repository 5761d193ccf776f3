"""A cluster: results in order, errors that name the job, and workers that die, whoever does the jobs."""

import asyncio
import gc
import os
import signal
import threading
import time
from contextlib import closing

import numpy as np
import pytest

from loglinear.errors import ClusterError, DataError, OptionError
from loglinear.scale.cluster.engine import Local, Work, open_cluster

distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
_shielded = pytest.importorskip("loglinear.scale.cluster.dask_engine")._shielded


def square(x):
    return x * x


def scaled(x, factor):
    return x * float(factor.sum())


def process(_):
    time.sleep(0.02)
    return os.getpid()


def failing(x):
    if x == 3:
        raise DataError("too short", "part.txt", 7)
    if x == 4:
        raise ZeroDivisionError
    if x == 5:
        raise OSError(28, "No space left on device")
    return x


def deadly(x):
    if x == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def deadly_once(job):
    """Die, unless this has died before."""
    number, mark = job
    if number == 2 and not os.path.exists(mark):
        with open(mark, "w"):
            os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.fixture(params=["threads", "dask"])
def cluster(request):
    return Local(3) if request.param == "threads" else request.getfixturevalue("dask")


class TestAnyCluster:
    @pytest.mark.parametrize("n", [0, 1, 17])
    def test_results_are_in_the_order_of_the_jobs(self, cluster, n):
        seen = []
        found = cluster.map(square, range(n), observe=lambda done, of: seen.append((done, of)))
        assert found == [x * x for x in range(n)]
        assert seen == [(done, n) for done in range(1, n + 1)]

    def test_a_stream_gives_each_number_once(self, cluster):
        assert sorted(cluster.stream(square, [3, 4, 5])) == [(0, 9), (1, 16), (2, 25)]

    def test_a_stream_that_is_closed_leaves_nothing_behind(self, cluster):
        with closing(cluster.stream(square, range(50))) as found:
            next(found)
        assert cluster.map(square, [2]) == [4]

    @pytest.mark.parametrize("size", [1, 100_000])
    def test_shared_values_and_large_jobs_arrive(self, cluster, size):
        with cluster.share(np.ones(size)) as shared:
            found = cluster.map(scaled, [np.full(size, float(x)) for x in range(3)], shared=shared, homes="abc")
        assert [each.tolist()[0] for each in found] == [0.0, size, 2.0 * size]

    def test_jobs_may_be_found_while_others_are_done(self, cluster):
        found, left = {}, [3, 2, 1]
        with cluster.share(np.ones(2)) as one, cluster.share(np.full(2, 5.0)) as two:

            def more():
                if len(found) < 2 or not left:
                    return () if left or len(found) < 5 else None
                return [Work(left.pop(), "later", (two,))]

            for number, result in cluster.stream(scaled, [1, 2], shared=one, more=more):
                found[number] = result
        assert found == {0: 2.0, 1: 4.0, 2: 10.0, 3: 20.0, 4: 30.0}

    def test_what_more_raises_ends_it(self, cluster):
        def more():
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            list(cluster.stream(square, [1], more=more))
        assert cluster.map(square, [2]) == [4]

    def test_an_error_of_a_job_is_raised_as_it_is(self, cluster):
        with pytest.raises(DataError, match=r"^part.txt:7: too short$"):
            cluster.map(failing, range(4))
        with pytest.raises(ZeroDivisionError) as caught:
            cluster.map(failing, [4], names=["part.txt:1"])
        assert caught.value.__notes__ == ["in part.txt:1 of the cluster"]
        with pytest.raises(ClusterError, match=r"part.txt:1: .*No space left on device"):
            cluster.map(failing, [5], names=["part.txt:1"])


class TestDask:
    def test_a_home_keeps_its_worker(self, dask):
        homes = ["a", "b", "c", "d"]
        first = dask.map(process, range(4), homes=homes)
        assert len(set(first)) == 2
        assert dask.map(process, range(3), homes=["d", "b", "a"]) == [first[3], first[1], first[0]]

    @pytest.mark.parametrize("homes", [None, pytest.param([0, 1, 2, 3, 4], marks=pytest.mark.slow)])
    def test_a_job_whose_worker_died_is_done_again(self, dask, tmp_path, homes):
        jobs = [(x, str(tmp_path / "mark")) for x in range(5)]
        before = dask.deaths
        assert dask.map(deadly_once, jobs, homes=homes) == list(range(5))
        assert dask.deaths > before

    @pytest.mark.slow
    def test_shared_values_that_died_are_sent_again(self, dask):
        with dask.share(np.ones(100_000)) as shared:
            assert dask.map(scaled, [1, 2], shared=shared) == [1e5, 2e5]
            for each in set(dask.client.run(os.getpid).values()):
                os.kill(each, signal.SIGKILL)
            assert dask.map(scaled, [1, 2], shared=shared) == [1e5, 2e5]

    @pytest.mark.slow
    @pytest.mark.parametrize("homes", [None, [0, 1, 2, 3, 4]])
    def test_a_deadly_job_is_named(self, dask, homes):
        with pytest.raises(ClusterError, match=r"^part2.txt:1: 3 workers died while they did this"):
            dask.map(deadly, range(5), names=[f"part{k}.txt:1" for k in range(5)], homes=homes)
        assert dask.map(square, range(5)) == [0, 1, 4, 9, 16]

    def test_a_client_is_used_and_left_open(self, dask):
        with distributed.Client(dask.client.scheduler.address, set_as_default=True) as client:
            for spec in (client, None, client.scheduler.address):
                with open_cluster(spec) as cluster:
                    assert cluster.map(square, [3]) == [9]
            assert client.status == "running"

    def test_no_worker_is_an_error_not_a_hang(self):
        with (
            distributed.LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address=None, silence_logs=50) as empty,
            distributed.Client(empty, set_as_default=False) as client,
            pytest.raises(ClusterError, match=r"no worker for 0.5 s"),
        ):
            open_cluster(client, patience=0.5)

    def test_workers_with_other_versions_are_refused_by_name(self, dask, monkeypatch):
        monkeypatch.setattr("loglinear.__version__", "9.9")
        with pytest.raises(ClusterError, match=r"the worker at tcp://.* has loglinear .*, and this process 9\.9"):
            open_cluster(dask.client)

    def test_homes_are_spread_evenly_and_move_as_little_as_possible(self, dask, monkeypatch):
        monkeypatch.setattr(dask, "_owner", {})
        monkeypatch.setattr(dask, "workers", {"a": 1, "b": 1})
        before = dask.settle(range(7))
        assert sorted(list(before.values()).count(each) for each in "ab") == [3, 4]
        monkeypatch.setattr(dask, "workers", {"a": 1, "b": 1, "c": 1})
        joined = dask.settle(range(7))
        assert sorted(list(joined.values()).count(each) for each in "abc") == [2, 2, 3]
        assert all(joined[home] in (before[home], "c") for home in range(7))
        monkeypatch.setattr(dask, "workers", {"b": 1, "c": 2})
        left = dask.settle(range(7))
        assert all(left[home] == joined[home] for home in range(7) if joined[home] == "c")


@pytest.mark.parametrize("spec", ["local:0", "local:x", "local", "somewhere", "", "tcp:/x"])
def test_specs_that_are_none(spec):
    with pytest.raises(OptionError, match="tcp://HOST:PORT"):
        open_cluster(spec)


def test_an_unreachable_scheduler_is_a_sentence(loopback):
    with pytest.raises(ClusterError, match=r"no Dask scheduler answers at tcp://127.0.0.1:9"):
        open_cluster("tcp://127.0.0.1:9", patience=0.5)


def test_ctrl_c_of_a_terminal_leaves_the_workers_alone(loopback):
    with open_cluster("local:1") as cluster:
        (before,) = cluster.map(process, [0])
        os.kill(before, signal.SIGINT)
        assert cluster.map(process, [0]) == [before]
        assert cluster.deaths == 0


@pytest.mark.parametrize("spec", ["tcp://127.0.0.1", "http://127.0.0.1:9", "tcp://127.0.0.1:9x"])
def test_no_client_is_made_for_what_no_scheduler_can_have_as_its_address(spec, monkeypatch):
    # Closing one whose address is wrong takes a minute and prints a traceback.
    monkeypatch.setattr(distributed.Client, "__init__", None)
    with pytest.raises((ClusterError, OptionError), match=spec):
        open_cluster(spec)


def test_no_scratch_folder_is_left(loopback, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with open_cluster("local:1") as cluster:
        assert cluster.map(square, [2, 3]) == [4, 9]
    assert os.listdir(tmp_path) == []


def test_a_fetch_that_nobody_waits_for_is_not_reported():
    told = []

    async def failing_fetch():
        async def fetch():
            await asyncio.sleep(0.01)
            raise OSError("closed")

        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["message"]))
        waiting = asyncio.ensure_future(_shielded(fetch()))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0.05)
        gc.collect()

    asyncio.run(failing_fetch())
    assert told == []


def test_without_dask_the_line_to_type(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"pip install 'loglinear\[dask\]'"):
        open_cluster("local:2")


def test_threads_stop_at_the_first_error():
    done, gate = [], threading.Event()

    def job(x):
        if x == 0:
            raise DataError("bad")
        gate.wait(5.0)
        done.append(x)

    with pytest.raises(DataError):
        try:
            for _ in Local(1).stream(job, range(100)):
                pass
        finally:
            gate.set()
    assert len(done) <= 1
