"""The same cells, whoever does the trainings: threads, processes, or the workers of a cluster."""

import json
import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from loglinear import Classifier, Tagger, compare, tune
from loglinear.errors import ClusterError, DataError, LoglinearError, OptionError
from loglinear.experiments.path import regularisation_path
from loglinear.experiments.pools import cluster as clusters
from loglinear.experiments.pools.cluster import ClusterPool
from loglinear.experiments.pools.pool import Stopped
from loglinear.experiments.pools.processes import ProcessPool
from loglinear.experiments.pools.threads import ThreadPool
from loglinear.experiments.reproduce.tasks import Cells, Job, cell_shape
from loglinear.experiments.store import Store
from loglinear.scale.cluster import sent
from loglinear.scale.cluster.engine import Local

GRID = {"criterion": ["memm", "hmm"], "l2": [0.1, 1.0]}
SEEN = ("seconds", "clock_seconds", "machine", "date", "command", "history")
OTHERS = ["processes", "cluster", pytest.param("dask", marks=pytest.mark.slow)]
AND_SLOWLY = ["cluster", *(pytest.param(name, marks=pytest.mark.slow) for name in ("processes", "dask"))]


@pytest.fixture
def pool(request):
    """A pool by its name."""
    name = request.param
    if name == "dask":
        pytest.importorskip("distributed")
    made = {
        "threads": lambda: ThreadPool(2),
        "processes": lambda: ProcessPool(2),
        "cluster": lambda: ClusterPool(Local(2)),
        "dask": lambda: ClusterPool(request.getfixturevalue("dask")),
    }[name]()
    with made:
        yield made


def untimed(value):
    """Without what depends on the clock."""
    if isinstance(value, dict):
        return {key: untimed(each) for key, each in value.items() if key not in SEEN}
    return [untimed(each) for each in value] if isinstance(value, list) else value


def kept(path):
    return untimed(json.loads(path.read_text()))


def order(cells):
    return {key: cells[key] for key in sorted(cells)}


@pytest.mark.parametrize("pool", OTHERS, indirect=True)
def test_a_tuning_and_where_it_was_stopped(pool, corpora, tmp_path):
    train, dev, _ = corpora
    how = {"grid": {"l2": [0.1, 1.0, 3.0]}, "tagger": Tagger("memm", template="words", optimizer="lbfgs", max_iter=8)}
    here = tune(train, X_dev=dev, **how, results=tmp_path / "here.json")

    def stop(progress):
        if progress.score is not None:
            raise KeyboardInterrupt

    path = tmp_path / "there.json"
    with (
        pytest.raises(KeyboardInterrupt),
        type(pool)(1) if isinstance(pool, ProcessPool) else pool_again(pool) as first,
    ):
        tune(train, X_dev=dev, **how, results=path, pool=first, observe=stop)
    assert len(kept(path)["cells"]) == 1
    seen = []
    there = tune(train, X_dev=dev, **how, results=path, pool=pool, observe=seen.append)
    assert order(kept(path)["cells"]) == order(kept(tmp_path / "here.json")["cells"])
    assert kept(path)["table"] == kept(tmp_path / "here.json")["table"]
    assert np.array_equal(there.best_model.model_.weights, here.best_model.model_.weights)
    assert max(each.running for each in seen) == 1 and seen[-1].running == 0 and seen[-1].done == 3


def pool_again(pool):
    """Another pool of the same cluster."""
    return ClusterPool(pool._cluster)


@pytest.mark.parametrize("pool", AND_SLOWLY, indirect=True)
def test_cross_validation_with_halving(pool, corpora):
    how = {"grid": {"l2": [0.1, 1.0, 3.0, 9.0]}, "tagger": Tagger(template="words", max_iter=4), "folds": 2,
           "halving": [0.5, 1]}  # fmt: skip
    here, there = tune(corpora[0], **how), tune(corpora[0], **how, pool=pool)
    assert untimed(there.to_dict()) == untimed(here.to_dict())
    assert np.array_equal(there.best_model.model_.weights, here.best_model.model_.weights)


@pytest.mark.parametrize("pool", AND_SLOWLY, indirect=True)
def test_a_comparison(pool, corpora, tmp_path):
    train, dev, test = corpora
    how = {"criteria": "cll,perceptron,m-estimation", "tagger": Tagger(template="words"), "quick": True,
           "draws": 50, "sizes": (0.5,), "grid": {"l2": [1.0]}}  # fmt: skip
    here = compare(train, None, dev, None, test, **how, results=tmp_path / "here.json")
    there = compare(train, None, dev, None, test, **how, results=tmp_path / "there.json", pool=pool)
    assert order(kept(tmp_path / "there.json")["cells"]) == order(kept(tmp_path / "here.json")["cells"])
    assert untimed(there.to_dict()) == untimed(here.to_dict()) and there.left_out == here.left_out


@pytest.mark.parametrize("pool", AND_SLOWLY, indirect=True)
def test_a_path(pool, corpora):
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, "a", "b")
    tagger = Tagger(template="words", max_iter=3)
    for how in (
        {"estimator": Classifier(optimizer="lbfgs"), "X": X, "y": y, "l2": [0.1, 1.0], "folds": 3},
        {"estimator": tagger, "X": corpora[0], "X_test": corpora[1], "l2": [1.0]},
    ):
        assert regularisation_path(**how, pool=pool).to_dict() == regularisation_path(**how).to_dict()


@pytest.fixture
def files(tmp_path):
    from loglinear.data.corpora.bundled import bundled_text

    paths = [tmp_path / f"{split}.txt" for split in ("train", "dev", "test")]
    for path in paths:
        path.write_text(bundled_text(path.stem, "ner"), encoding="utf-8")
    return tuple(map(str, paths))


def jobs_of(files, folder):
    hmm = {"criterion": "hmm"}
    cll = {"criterion": "cll", "template": "words", "max_iter": 2}
    return {"hmm": Job("entities", files, hmm), "cll": Job("entities", files, cll, keep=str(folder / "cll.model"))}


@pytest.mark.parametrize("pool", ["threads", *OTHERS], indirect=True)
def test_cells_of_papers_with_files_on_either_side(pool, files, tmp_path):
    def made(name, where):
        folder = tmp_path / name
        folder.mkdir()
        cells = Cells(Store(folder / "cells.json", "reproduce", {}, cell_shape), where, lambda text: None)
        found = cells.trained(jobs_of(files, folder))
        options = {"criterion": "softmax-margin", "template": "words", "max_iter": 2, "optimizer": "lbfgs"}
        warm = Job("entities", files, options, init=str(folder / "cll.model"))
        return untimed({**found, **cells.trained({"warm": warm})}), (folder / "cll.model").read_bytes()

    with ProcessPool(1) as processes:
        assert made("there", pool) == made("here", processes)


def test_files_that_a_worker_does_not_see_go_along_once(files, tmp_path, monkeypatch):
    there, sizes, real = sent.digest_of, [], sent.content
    monkeypatch.setattr(sent, "content", lambda path, digest: sizes.append(path) or real(path, digest))
    with ClusterPool(Local(2)) as pool:
        seen = dict(pool.run(jobs_of(files, tmp_path)))
        assert sizes == [], "read from the path that both have"
        # Workers look files up by `_place`, the driver by `digests`: only the former lose sight of them.
        monkeypatch.setattr(sent, "_place", blind(sent._place, set(files)))
        unseen = dict(pool.run(jobs_of(files, tmp_path)))
    assert untimed(unseen) == untimed(seen) and sorted(sizes) == sorted(files) and there is sent.digest_of


def test_errors_name_files_as_the_driver_does(files, monkeypatch):
    Path(files[0]).write_text("a b c\nd\n", encoding="utf-8")
    monkeypatch.setattr(sent, "_place", blind(sent._place, set(files)))
    with ClusterPool(Local(1)) as pool, pytest.raises(DataError) as caught:
        pool.do("cell", Job("entities", files, {"criterion": "hmm"}))
    assert str(caught.value).startswith(f"{files[0]}:2: ")


def blind(place, unseen):
    """Looks for files as on a machine that does not have these."""
    return lambda path, digest, content: place(
        f"/nowhere/{Path(path).name}" if path in unseen else path, digest, content
    )


@pytest.mark.parametrize("pool", ["threads", *OTHERS], indirect=True)
def test_errors_are_the_same(pool, corpora, tmp_path):
    train, dev, _ = corpora
    with pytest.raises(LoglinearError, match=r"^missing: .*nowhere"):
        list(pool.run({"missing": Job("tags", (str(tmp_path / "nowhere"),), {"criterion": "hmm"})}))
    if isinstance(pool, ProcessPool):
        return  # it ends its workers after an error
    with pytest.raises(OptionError, match=r"l2=-1"):
        tune(train, X_dev=dev, grid={"l2": [-1.0]}, tagger=Tagger(template="words"), pool=pool)


def test_a_cluster_that_fails_ends_what_waits_for_it():
    class Failing(Local):
        def stream(self, function, jobs, **how):
            yield from ()
            raise ClusterError("the cluster has had no worker for 60 s")

    with ClusterPool(Failing(2)) as pool, pytest.raises(ClusterError, match="no worker"):
        dict(pool.run({"one": Job("tags", (), {"criterion": "hmm"})}))


def test_a_cluster_that_fails_is_no_reason_to_leave_a_criterion_out(corpora):
    class Failing(Local):
        def stream(self, function, jobs, **how):
            yield from ()
            raise ClusterError("the cluster has had no worker for 60 s")

    how = {"criteria": "cll,hmm", "tagger": Tagger(template="words"), "quick": True}
    with ClusterPool(Failing(2)) as pool, pytest.raises(ClusterError, match="no worker"):
        compare(corpora[0], None, corpora[1], None, corpora[2], **how, pool=pool)


def test_data_are_sent_once(corpora):
    class Counting(Local):
        def share(self, value):
            values.append(value)
            return super().share(value)

    values = []
    how = {"criteria": "cll,memm,hmm", "tagger": Tagger(template="words"), "quick": True, "halving": [0.5, 1]}
    with ClusterPool(Counting(2)) as pool:
        compare(corpora[0], None, corpora[1], None, corpora[2], **how, sizes=[0.5, 0.7], pool=pool, draws=10)
    assert len(values) == len(set(map(id, values))) == 4, "all training data, two parts of it, dev data"


def test_pool_and_jobs_are_two_ways_to_say_it(corpora):
    with pytest.raises(OptionError, match="both say"):
        tune(corpora[0], X_dev=corpora[1], grid={"l2": [1.0]}, jobs=2, pool=ThreadPool(2))
    pool = ClusterPool(Local(1))
    pool.close()
    with pytest.raises(ClusterError, match="closed"):
        pool.do("x", Job("tags", (), {"criterion": "hmm"}))


def slow_job(task, *values):
    """Does a job after a while, in which somebody may kill the process."""
    time.sleep(0.3)
    return clusters.do_task(task, *values)


@pytest.mark.slow
def test_a_cell_whose_worker_dies_is_trained_again(dask, corpora, monkeypatch, tmp_path):
    how = {"grid": {"l2": [0.1, 1.0, 3.0], "criterion": ["cll", "memm"]}, "tagger": Tagger(template="words")}
    here = tune(corpora[0], X_dev=corpora[1], **how)
    monkeypatch.setattr(clusters, "do_task", slow_job)
    pids, before, killed = [*dask.client.run(os.getpid).values()], dask.deaths, []

    def kill(progress):
        if progress.done and not killed:
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    with ClusterPool(dask) as pool:
        there = tune(corpora[0], X_dev=corpora[1], **how, pool=pool, observe=kill, results=tmp_path / "there.json")
        assert killed and dask.deaths > before
        assert untimed(there.to_dict()) == untimed(here.to_dict())
        assert np.array_equal(there.best_model.model_.weights, here.best_model.model_.weights)


@dataclass(frozen=True)
class Endless(Job):
    """Says that it goes on, until nobody waits for it."""

    def measure(self, say):
        Path(self.keep).write_text("begun")
        Path(self.init).write_text("begun")
        try:
            while True:
                say(None)
                time.sleep(0.01)
        except Stopped:
            Path(self.init).write_text("stopped")
            raise

    @property
    def reads(self):
        return ()

    @property
    def writes(self):
        return ()


def drained(stream):
    with suppress(Stopped):
        list(stream)


@pytest.mark.slow
def test_a_job_that_nobody_waits_for_ends(dask, tmp_path):
    said = tmp_path / "said"
    with ClusterPool(dask) as pool:
        stream = pool.run({"endless": Endless("x", (), {}, init=str(said), keep=str(tmp_path / "more"))})
        thread = threading.Thread(target=drained, args=(stream,), daemon=True)
        thread.start()
        wait_for(said.exists)
    wait_for(lambda: said.read_text() == "stopped")


def wait_for(condition):
    limit = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.05)
