"""Measurements, their order, what is kept of them, and the tables they make."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from loglinear.errors import DataError, LoglinearError, OptionError
from loglinear.experiments import corpora
from loglinear.experiments.bench import processes as bench_processes
from loglinear.experiments.bench.job import Job, peak_megabytes
from loglinear.experiments.bench.ours import Stages, kernel_places
from loglinear.experiments.bench.plan import Benchmark, Settings, distinct, in_child, processes
from loglinear.experiments.bench.tables import make_tables
from loglinear.experiments.store import Store
from loglinear.experiments.tables import markdown


def quiet(text):
    assert isinstance(text, str)


def measure(job, say):
    return job.measure(say)


def kept_in(path, resume=False):
    return Store(path, "bench", {}, lambda key, cell: {"job": dict, "result": dict}, resume)


@pytest.fixture
def corpus(tmp_path):
    return corpora.generated(600, tmp_path)


@pytest.fixture
def job(corpus, tmp_path):
    def make(kind, **fields):
        return Job(
            kind=kind, task=corpus.name, train=str(corpus.train), test=str(corpus.test), template=corpus.template,
            metric=corpus.metric, tokens=corpus.n_tokens, scratch=str(tmp_path), **fields,
        )  # fmt: skip

    return make


# -- measurements ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [None, "lbfgs", "dual"])
def test_ours_and_the_peer_measure_the_same_things(job, optimizer):
    pytest.importorskip("pycrfsuite")
    ours = measure(job("ours", optimizer=optimizer), quiet)
    peer = measure(job("peer"), quiet)
    common = {"read", "encode", "optimise", "file_to_model", "load", "tag", "peak_mb", "model_mb", "per_pass"}
    for side in (ours, peer):
        assert all(math.isfinite(side[name]) and side[name] > 0 for name in common)
        assert side["iterations"] == len(side["history"]) and not side["stopped_early"]
        assert side["optimise"] <= side["file_to_model"]
        times = [seconds for seconds, _ in side["history"]]
        assert times == sorted(times) and times[-1] <= side["optimise"]
    assert ours["features"] == peer["features"]
    assert ours["objective"] == pytest.approx(peer["objective"], rel=1e-3)
    assert ours["score"] == pytest.approx(peer["score"], abs=1.0)


def test_the_scores_by_pass_end_at_the_model_s_own(job):
    for optimizer in ("lbfgs", "dual"):
        ours = measure(job("ours", optimizer=optimizer), quiet)
        passes = measure(job("passes", optimizer=optimizer), quiet)
        assert len(passes["scores"]) == len(passes["objectives"]) == ours["iterations"]
        assert passes["scores"][-1] == pytest.approx(ours["score"], abs=0.2)  # the model's weights are rounded
        assert passes["objectives"][-1] == pytest.approx(ours["objective"], rel=1e-6)


def test_online_learners_have_scores_by_pass_but_no_objective(job):
    passes = measure(job("passes", criterion="perceptron", max_iter=3), quiet)
    assert passes["objectives"] == [None] * 3 and passes["scores"][-1] > 50
    assert measure(job("ours", criterion="perceptron", max_iter=3), quiet)["stopped_early"]


@pytest.mark.parametrize("algorithm", ["l2sgd", "ap", "pa", "arow"])
def test_the_peer_s_other_algorithms_stop_where_told(job, algorithm):
    pytest.importorskip("pycrfsuite")
    found = measure(job("peer", algorithm=algorithm, max_iter=2), quiet)
    assert found["iterations"] == 2 and found["stopped_early"] and found["objective"] is None


def test_memory_of_features_in_a_list(job):
    pytest.importorskip("pycrfsuite")
    assert measure(job("listed", max_iter=1), quiet)["peak_mb"] > 0


def test_criteria_are_measured_beside_cll(job):
    found = measure(job("criteria", names=("perceptron", "risk", "m-estimation")), quiet)["per_evaluation"]
    assert list(found) == ["cll", "perceptron", "risk"] and all(seconds > 0 for seconds in found.values())


def test_a_profile_has_stages_and_kernels(job):
    found = measure(job("profile", optimizer="lbfgs", max_iter=2), quiet)
    training = {row["name"]: row for row in found["training stages"]}
    assert {"read", "encode", "collect features", "passes", "save", "rest"} <= set(training)
    assert training["passes"]["calls"] == 1
    assert {"load", "read", "encode", "write"} <= {row["name"] for row in found["tagging stages"]}
    assert any("chain.padded" in row["name"] for row in found["training kernels"])
    kernels = kernel_places()
    assert not any("<lambda>" in name or "wrapper" in name for name in kernels)  # all is as it was


def test_a_stage_is_not_charged_for_those_it_calls():
    stages = Stages()
    inner = stages.timed("inner", lambda: sum(range(100_000)))
    outer = stages.timed("outer", inner)
    outer()
    outer()
    assert stages.calls == {"inner": 2, "outer": 2}
    assert 0 <= stages.seconds["outer"] < stages.seconds["inner"]
    report = stages.report(1.0)
    assert sum(row["seconds"] for row in report) == pytest.approx(1.0) and report[-1]["name"] == "rest"


def test_a_process_of_its_own_measures_and_reports_mistakes(job):
    pytest.importorskip("pycrfsuite")
    told = []
    found = in_child(job("ours", max_iter=2), told.append)
    assert found["iterations"] == 2 and "warming up" in told
    assert 0 < found["peak_mb"] < 10_000 and peak_megabytes() > 0
    with pytest.raises(OptionError, match="optimizer='none' is not known"):
        in_child(job("ours", optimizer="none"), quiet)
    with pytest.raises(LoglinearError, match="status 1"):
        in_child(job("peer", algorithm="nothing of the kind"), quiet)


def test_each_process_is_measured_and_every_training_scored(job):
    pytest.importorskip("pycrfsuite")
    for name in processes("warm", peer=True):
        found = measure(job("process", process=name, state="warm", max_iter=2), quiet)
        assert found["seconds"] > 0 and found["processor"] > 0 and found["peak_mb"] > 1
        assert ("score" in found) == name.endswith("train")
        assert found.get("score", 100.0) > 50


def test_a_first_run_has_an_empty_cache(job, monkeypatch):
    seen = []

    def run(arguments, environment):
        folder = Path(environment["LOGLINEAR_CACHE"]) if environment else None
        seen.append((arguments[-1] if folder is None else "measured", folder is not None and not any(folder.iterdir())))
        return {"seconds": 1.0}

    monkeypatch.setattr(bench_processes, "run", run)
    measure(job("process", process="tag few", state="first"), quiet)
    assert [empty for _, empty in seen] == [False, True]  # training the model, then the measured run


def test_a_process_that_fails_says_what_it_said(job):
    with pytest.raises(LoglinearError, match="no-such"):
        bench_processes.run((*bench_processes.OURS, "tag", "no-such.model", "none.txt"), {})


def test_the_script_makes_the_attributes_of_the_benchmark(job, tmp_path):
    pytest.importorskip("pycrfsuite")
    template = "U0:%x[0,0]\nU1:%suffix[-1,0,3]\nU2:%Shape[1,0]/%x[0,1]\nB\n"
    here = replace(job("process", process="crfsuite train", state="warm", max_iter=3), template=template)
    peer = measure(replace(here, kind="peer"), quiet)
    found = measure(here, quiet)
    assert found["score"] == pytest.approx(peer["score"])


# -- the order, and what is kept -------------------------------------------------------------------------------------


def made_up(job, observe):
    """A measurement without measuring: the peer ten times as slow, the lbfgs history that of the others."""
    slow = 10.0 if job.kind == "peer" or job.process.startswith("crfsuite") else 1.0
    if job.kind == "passes":
        return {"objectives": [200.0, 100.05, 100.0], "scores": [80.0, 90.0, 91.0]}
    if job.kind == "criteria":
        return {"per_evaluation": {"cll": 2.0, "risk": 3.0}}
    if job.kind == "listed":
        return {"peak_mb": 640.0}
    if job.kind == "process":
        return {"seconds": 30.0 if job.criterion == "risk" else 20.0 * slow, "processor": 1.0, "peak_mb": 5.0,
                **({"score": 90.0} if job.process.endswith("train") else {})}  # fmt: skip
    if job.kind == "profile":
        return {"optimizer": "lbfgs", "training stages": [{"name": "read", "seconds": 1.0, "calls": 2}]}
    history = [(slow * 1, 200.0), (slow * 2, 100.2), (slow * 3, 100.04)]
    seconds = ("read", "encode", "load", "tag", "save", "per_pass", "per_evaluation", "model_mb")
    return {
        **dict.fromkeys(seconds, slow), "optimise": 3 * slow, "file_to_model": 5 * slow * (1 + job.repeat),
        "peak_mb": 100 * slow, "iterations": 3, "history": history, "exact_history": False, "optimizer": "lbfgs",
        "objective": 100.04 if job.kind == "peer" else 100.0, "features": 7, "score": 90.0,
        "stopped_early": job.kind == "peer" and job.max_iter is not None,
    }  # fmt: skip


def benchmark(corpus, tmp_path, store=None, measuring=made_up, **settings):
    given = {"repeat": 3, "ways": (("cll", None),), **settings}
    return Benchmark(Settings(**given), [corpus], tmp_path, store or kept_in(None), measuring)


def ignore(*anything):
    pass


def test_rounds_have_each_side_once(corpus, tmp_path):
    seen, totals = [], set()
    benchmark(corpus, tmp_path, repeat=2, algorithms=("ap",)).run(
        lambda number, total, job: (seen.append((job.kind, job.threads, job.algorithm, job.repeat)), totals.add(total)),
        quiet,
    )
    rounds = [
        [("ours", 1, "lbfgs", r), ("ours", 2, "lbfgs", r), ("peer", 1, "lbfgs", r), ("peer", 1, "ap", r)]
        for r in (0, 1)
    ]
    assert seen == [("passes", 1, "lbfgs", 0), ("listed", 1, "lbfgs", 0), *rounds[0], *rounds[1]]
    assert totals == {len(seen)}


def test_growth_goes_from_small_to_large_and_spares_the_peer(corpus, tmp_path):
    seen = []
    benchmark(corpus, tmp_path, repeat=1, threads=(1,), sizes=(2000, 500), peer_most=1000).run(
        lambda number, total, job: seen.append((number, total, job.task, job.kind)), quiet
    )
    assert [entry for entry in seen if entry[2].startswith("growth")] == [
        (5, 7, "growth generated:5e2", "ours"),
        (6, 7, "growth generated:5e2", "peer"),
        (7, 7, "growth generated:2e3", "ours"),
    ]


def test_an_interrupted_benchmark_goes_on_from_its_file(corpus, tmp_path):
    path, done = tmp_path / "bench.json", []

    def breaks(job, observe):
        if len(done) == 4:
            raise KeyboardInterrupt
        done.append(job.key)
        return made_up(job, observe)

    with pytest.raises(KeyboardInterrupt):
        benchmark(corpus, tmp_path, kept_in(path), breaks).run(ignore, quiet)
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert list(kept["cells"]) == done and str(tmp_path) not in path.read_text(encoding="utf-8")
    assert kept["about"]["machine"]["versions"]["python"]
    more = []

    def counts(job, observe):
        more.append(job.key)
        return made_up(job, observe)

    benchmark(corpus, tmp_path, kept_in(path, resume=True), counts).run(ignore, quiet)
    assert len(more) == 2 + 3 * 3 - 4 and not set(more) & set(done)
    again = []
    benchmark(corpus, tmp_path, kept_in(path, resume=True), lambda job, _: again.append(job)).run(ignore, quiet)
    assert again == []
    other = benchmark(corpus, tmp_path, kept_in(path, resume=True), counts, l2=0.5)
    other.run(ignore, quiet)  # another objective is another measurement
    assert len(other.store.cells) == 2 * (2 + 3 * 3) and {job.l2 for job, _ in other.results} == {0.5}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 2}', '{"format": 2, "cells": {"a": {"job": {}, "result": {}}}}']
)
def test_a_file_of_something_else_is_refused(text, tmp_path):
    path = tmp_path / "bench.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=r"bench.json: no results of loglinear bench"):
        kept_in(path, resume=True)
    for other in ('{"format": 99}', '{"format": 1, "machine": {}, "corpora": {}, "tables": [], "runs": {}}'):
        path.write_text(other, encoding="utf-8")
        with pytest.raises(DataError, match="another version"):
            kept_in(path, resume=True)


# -- tables ----------------------------------------------------------------------------------------------------------


def run_made_up(corpus, tmp_path, **settings):
    made = benchmark(corpus, tmp_path, **settings)
    made.run(ignore, quiet)
    return make_tables(made), made


def rows_of(table):
    return {row.name: row for row in table.rows}


def test_the_comparison_shows_medians_and_ratios(corpus, tmp_path):
    (table,), _ = run_made_up(corpus, tmp_path)
    rows = rows_of(table)
    assert rows["file to model (s)"].figures == [10.0, 10.0, 100.0, 10.0, 10.0]
    assert rows["file to model (s)"].cells == ["10.000", "10.000", "100.000", "10.0", "10.0"]
    assert rows["read and encode (s)"].figures == [2.0, 2.0, 20.0, 10.0, 10.0]
    # by the objectives of the untimed training ours is there at its second pass, the peer by its own log at its third
    assert rows["optimise to within 0.1 % of the converged objective (s)"].figures == [2.0, 2.0, 30.0, 15.0, 15.0]
    assert rows["optimise to python-crfsuite's test F1 (s)"].figures == [2.0, 2.0, 30.0, 15.0, 15.0]
    assert rows["objective"].cells == ["100.00", "100.00", "100.04", "-", "-"]
    assert any("640 MB" in note for note in table.notes)


def test_algorithms_criteria_and_profiles_have_tables(corpus, tmp_path):
    tables, _ = run_made_up(
        corpus, tmp_path, algorithms=("ap",), criteria=("risk",), profile=True, sizes=(500,), peer_iterations=3
    )
    titles = [table.title.split(":")[-1] for table in tables]
    assert len(tables) == 6 and "python-crfsuite's algorithms" in tables[1].title, titles
    ap = rows_of(tables[1])["ap"]
    assert ap.figures == [3, 90.0, 30.0, 100.0, 2.0, 2.0, 15.0, 15.0, 100 / 9, 100 / 9]
    assert rows_of(tables[2])["risk"].figures == [30.0, 1.5, 5.0, 90.0]
    assert rows_of(tables[3])["risk"].figures == [3.0, 1.5]
    assert rows_of(tables[4])["read"].cells == ["1.0000", "100.0 %", "2"]
    assert [row.name for row in tables[5].rows] == ["ours, 1 thread", "ours, 2 threads", "python-crfsuite"]
    assert any("after 3 iterations" in note for note in tables[0].notes)
    text = markdown(tables, {"cores": 2, "processor": "some", "versions": {"python": "3"}}, "loglinear bench")
    assert "| file to model (s) | 10.000 | 10.000 | 100.000 | 10.0 | 10.0 |" in text
    for table in text.split("**")[2::2]:
        assert len({line.count("|") for line in table.splitlines() if line.startswith("|")}) == 1


def test_whole_processes_are_compared(corpus, tmp_path):
    tables, made = run_made_up(corpus, tmp_path, processes=True, criteria=("risk",))
    rows = rows_of(next(table for table in tables if table.title.endswith("whole processes")))
    assert rows["a script with python-crfsuite, train"].figures == [200.0, 1.0, 5.0, 90.0, 10.0, 10.0]
    assert rows["loglinear train, 2 threads"].figures[-2:] == [None, None]
    assert "loglinear train, 2 threads, first run" in rows and not any("risk" in name for name in rows)
    repeats = [job.repeat for job in made.jobs.values() if job.kind == "process" and job.state != "warm"]
    assert repeats and not any(repeats)


def test_what_only_counts_is_not_among_the_trainings(corpus, tmp_path):
    _, made = run_made_up(corpus, tmp_path, criteria=("hmm", "risk"))
    trained = {job.criterion for job in made.jobs.values() if job.kind == "process"}
    assert trained == {"cll", "risk"}


def test_a_side_that_failed_is_named(corpus, tmp_path):
    def out_of_memory(job, observe):
        return {"failed": "out of memory"} if job.kind == "peer" else made_up(job, observe)

    made = benchmark(corpus, tmp_path, measuring=out_of_memory)
    made.run(ignore, quiet)
    (table,) = make_tables(made)
    assert rows_of(table)["file to model (s)"].figures == [10.0, 10.0, None, None, None]
    assert "python-crfsuite lbfgs: out of memory." in table.notes


def test_without_the_peer_only_ours_is_measured(corpus, tmp_path):
    made = benchmark(corpus, tmp_path, peer=False, algorithms=("ap",), sizes=(500,))
    made.run(ignore, quiet)
    assert {job.kind for job, _ in made.results} == {"passes", "ours"}
    tables = make_tables(made, peer_missing=True)
    assert any("pip install python-crfsuite" in note for note in tables[0].notes)
    assert rows_of(tables[0])["file to model (s)"].cells == ["10.000", "10.000", "-", "-", "-"]


def test_an_unfinished_benchmark_still_makes_tables(corpus, tmp_path):
    made = benchmark(corpus, tmp_path, algorithms=("ap",), criteria=("risk",), profile=True, sizes=(500,))
    made.run(ignore, quiet)
    everything = dict(made.store.cells)
    for n in range(1, len(everything)):
        made.store.cells = dict(list(everything.items())[:n])
        assert make_tables(made)


# -- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"repeat": 0}, "repeat=0"), ({"threads": (0,)}, "threads=0"), ({"threads": ()}, "at least one"),
        ({"ways": ()}, "at least one"), ({"algorithms": ("sgd",)}, "'sgd' is not python-crfsuite's"),
        ({"criteria": ("cl",)}, "'cl' is not known"), ({"ways": (("cl", None),)}, "'cl' is not known"),
        ({"ways": (("perceptron", "dual"),)}, "not by 'dual'"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(settings, part):
    with pytest.raises(OptionError, match=part):
        Settings(**settings)


def test_a_way_that_names_the_default_optimizer_is_measured_once():
    from loglinear.criteria.criterion import CRITERIA

    first = CRITERIA.part("cll").optimizers[0]
    assert distinct([("cll", None), ("cll", first), ("cll", "adagrad")]) == (("cll", None), ("cll", "adagrad"))
