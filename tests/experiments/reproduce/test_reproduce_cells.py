"""Trainings in other processes: the same outcome as here, kept at once, and the best of them chosen on dev alone."""

import json

import pytest

from loglinear import Tagger
from loglinear.errors import DataError, LoglinearError
from loglinear.estimators.parser.estimator import Parser
from loglinear.experiments.reproduce import m_estimation, piecewise, softmax_margin
from loglinear.experiments.reproduce.tasks import (
    DEPENDENCIES,
    TREES,
    Cells,
    Job,
    Run,
    beside,
    best,
    cell_shape,
)
from loglinear.experiments.store import FORMAT, Store, read_results
from loglinear.experiments.workers import Pool, warm_up
from loglinear.training.run import TrainingInterrupted
from problems.workers import Sure

CLL = {"criterion": "cll", "template": "ner", "max_iter": 15, "optimizer": "lbfgs"}


def quiet(_):
    return


def cells_in(path, pool=None, **mark):
    return Cells(Store(path, "reproduce", mark, cell_shape), pool, quiet)


def without_seconds(cell):
    return {k: v for k, v in cell.items() if k != "seconds"}


def test_workers_give_what_this_process_gives_whatever_their_number(tmp_path):
    jobs = {f"l2={l2:g}": Job("entities", (), {**CLL, "l2": l2}) for l2 in (0.1, 1.0, 10.0)}
    here = {name: without_seconds(json.loads(json.dumps(job.measure()))) for name, job in jobs.items()}
    for n in (1, 2):
        with Pool(n) as workers:
            there = cells_in(tmp_path / f"{n}.json", workers).trained(jobs)
        assert {name: without_seconds(cell) for name, cell in there.items()} == here
        assert all(cell["seconds"] > 0 for cell in there.values())


PARSERS = {TREES: {"criterion": "pcfg"}, DEPENDENCIES: {"criterion": "generative"}}


@pytest.mark.parametrize("task", PARSERS)
def test_parsers_are_trained_by_workers_too(task):
    job = Job(task, (), PARSERS[task])
    with Pool(1) as workers:
        there = dict(workers.run({"one": job}))["one"]
    assert without_seconds(there) == without_seconds(json.loads(json.dumps(job.measure())))
    assert there["job"] == job.identity and there["seconds"] > 0


def test_a_parser_whose_training_was_stopped_is_no_cell(monkeypatch):
    def stopped(parser, trees):
        raise TrainingInterrupted(1, None)

    monkeypatch.setattr(Parser, "fit", stopped)
    with pytest.raises(TrainingInterrupted):
        Job(TREES, (), PARSERS[TREES]).measure()


def test_warming_up_is_done_once_for_each_kind_of_training(monkeypatch):
    practised = []

    def practise():
        practised.append(kind)
        raise LoglinearError("no matter: the job will say so")

    for kind in ("once", "another", "once"):
        warm_up(kind, practise)
    assert practised == ["once", "another"]
    fit, fitted = Tagger.fit, []
    monkeypatch.setattr(Tagger, "fit", lambda self, *a, **k: fitted.append(self.criterion) or fit(self, *a, **k))
    for criterion in ("memm", "piecewise"):
        for l2 in (1.0, 2.0):
            Job("entities", (), {"criterion": criterion, "template": "words", "l2": l2, "max_iter": 1}).measure()
    assert fitted == ["memm"] * 3 + ["piecewise"] * 3, "the first of each kind is preceded by a small one"


def test_a_job_of_other_options_data_or_seed_is_another_cell(tmp_path):
    with Pool(1) as workers:
        cells = cells_in(tmp_path / "cells.json", workers)
        first = cells.trained({"one": Job("entities", (), CLL)})["one"]
        assert cells.trained({"one": Job("entities", (), CLL, threads=2)})["one"] is first
        assert cells.trained({"one": Job("entities", (), {**CLL, "l2": 0.1})})["one"]["counts"] != first["counts"]
    files = []
    for n in range(2):
        files.append(tmp_path / f"{n}.txt")
        files[-1].write_text("a\n" * (n + 1))
    assert len({json.dumps(Job("tags", (str(file),), CLL, seed).identity) for file in files for seed in (0, 1)}) == 4
    assert str(tmp_path) not in json.dumps(Job("tags", (str(files[0]),), CLL, init="m", keep=str(files[1])).identity)


def test_mistakes_come_back_as_what_they_are(tmp_path):
    (tmp_path / "bad.txt").write_text("a B\na\n")
    files = (str(tmp_path / "bad.txt"),) * 3
    with Pool(1) as workers, pytest.raises(DataError, match=r"bad.txt:2"):
        list(workers.run({"bad": Job("entities", files, CLL)}))
    with Pool(1) as workers, pytest.raises(LoglinearError, match=r"wrong: the worker process ended .*TypeError"):
        list(workers.run({"wrong": Job("entities", (), {"criterion": "cll", "no": "option"})}))


def test_a_training_without_a_minimum_is_a_cell_that_is_never_chosen():
    options = {"criterion": "m-estimation", "template": "chunking", "order": 2, "pair_features": True, "l2": 0.0}
    cell = Job("noun-phrases", (), options).measure()
    assert "falls without end" in cell["failed"]
    fine = {"dev": {"f1": 1.0}}
    assert best({"a": cell, "b": fine}) == "b"
    with pytest.raises(DataError, match="falls without end"):
        best({"a": cell})


class NoMinimum(Sure):
    """M-estimates without a penalty fail."""

    def run(self, jobs):
        for name, cell in super().run(jobs):
            fails = "M-est." in name and "c=inf" in name
            yield name, {"job": cell["job"], "failed": "no minimum", "seconds": 1.0} if fails else cell


@pytest.mark.parametrize("workers", [Sure, NoMinimum])
def test_the_third_figure_says_where_a_line_ends(workers, tmp_path):
    files = [tmp_path / "train.txt", tmp_path / "test.txt"]
    for file in files:
        file.write_text("")
    charts = m_estimation.reproduce(Run("conll2000", tuple(map(str, files)), cells_in(None, workers())))[3:]
    points = {line["name"]: len(line["x"]) for line in charts[2].lines}
    fails = workers is NoMinimum
    assert points["HMM"] == 1 and points["CRF"] == 8 and points["M-est."] == 8 - fails
    assert "to none" in charts[2].note and ("M-est.: to c = 10" in charts[2].note) == fails
    charts = m_estimation.reproduce(Run("bundled", (), cells_in(None, workers())))[3:]
    assert "to weak (c = 10)" in charts[2].note


def test_choosing_looks_at_dev_alone():
    cells = {
        "one": {"dev": {"f1": 80.0, "precision": 10.0}, "test": {"f1": 1.0}},
        "two": {"dev": {"f1": 79.0, "precision": 90.0}, "test": {"f1": 99.0}},
        "same": {"dev": {"f1": 80.0, "precision": 10.0}, "test": {"f1": 50.0}},
    }
    assert best(cells) == "one" and best(cells, "precision") == "two"


def test_published_figures_stand_beside_ours():
    assert beside([1.0, 2.0, 90.0], (85.6, None, 87.11)) == ["85.60 - 87.11", "+2.89"]
    assert beside([1.0], (None,)) == ["-", "-"]
    assert m_estimation.penalty(float("inf")) == {"l2": 0.0} and m_estimation.penalty(2.0) == {"variance": 2.0}


def test_a_grid_is_the_papers():
    small, run = (Run("conll2000", files, cells_in(None)) for files in ((), ("x",)))
    assert len(m_estimation.variances(small, "CRF")) == 3
    assert len(m_estimation.variances(run, "CRF")) == 8 and len(m_estimation.variances(run, "HMM")) == 1
    job = m_estimation.job(run, "CRF", m_estimation.EXTENDED, 0.1)
    assert job.unknown and job.options["order"] == 2 and job.options["max_iter"] == 100
    assert not any(m_estimation.job(run, name, m_estimation.HMM, 1.0).unknown for name in ("M-est.", "HMM"))
    for c, shown in ((0.4642, "0.4642"), (float("inf"), "inf"), (float("nan"), "-")):
        name = "HMM" if shown == "-" else "CRF"
        ((label, job),) = m_estimation.jobs(run, name, m_estimation.HMM, 250, c).items()
        assert (f", c={shown}, 250 sentences" in label) == (shown != "-") and job.n_train == 250
        cell = {"job": {"options": job.options}}
        assert m_estimation.shown_variance(cell) == shown


def test_risk_starts_from_the_cll_model_that_is_best_on_dev(tmp_path, monkeypatch):
    asked = {}

    def trained(cells, jobs):
        asked.update(jobs)
        return {name: {"dev": {"f1": 90.0 if "l2=0.1" in name else 80.0}} for name in jobs}

    monkeypatch.setattr(Cells, "trained", trained)
    softmax_margin.train(Run("esp", ("x",), cells_in(tmp_path / "cells.json")), ["CLL", "risk", "softmax-margin"])
    assert {job.init for name, job in asked.items() if "risk" in name} == {asked["esp CLL l2=0.1"].keep}
    assert all(not job.init for name, job in asked.items() if "risk" not in name)
    assert {job.options["l2"] for name, job in asked.items() if "risk" in name} == {0.0, 0.01}
    assert {job.options.get("cost") for name, job in asked.items() if "softmax" in name} == {
        f"hamming:{m:g}" for m in softmax_margin.MULTIPLES
    }


def test_a_model_that_was_lost_is_trained_again(tmp_path):
    keep = tmp_path / "kept.model"
    with Pool(1) as workers:
        cells = cells_in(tmp_path / "cells.json", workers)
        job = Job("entities", (), CLL, keep=str(keep))
        first = cells.trained({"cll": job})["cll"]
        assert cells.trained({"cll": job})["cll"] is first
        keep.unlink()
        again = cells.trained({"cll": job})["cll"]
    assert keep.exists() and without_seconds(again) == without_seconds(first)


@pytest.mark.parametrize("content", ["[]", "{", '{"a": 1}', "\x00", "[" * 100_000])
def test_a_file_of_something_else_is_refused(content, tmp_path):
    path = tmp_path / "cells.json"
    path.write_text(content)
    with pytest.raises(DataError, match="no results of loglinear reproduce"):
        cells_in(path)


def test_a_file_of_another_run_or_version_is_refused(tmp_path):
    path = tmp_path / "cells.json"
    cells_in(path, paper="piecewise", seed=0).store.finish({})
    assert cells_in(path, paper="piecewise", seed=0).store.cells == {}
    for other in ({"paper": "m-estimation", "seed": 0}, {"paper": "piecewise", "seed": 1}):
        with pytest.raises(DataError, match="another experiment"):
            cells_in(path, **other)
    path.write_text(path.read_text().replace(f'"format": {FORMAT}', '"format": 99'))
    with pytest.raises(DataError, match="another version"):
        read_results(path, "reproduce")


def test_a_run_that_is_interrupted_loses_no_finished_cell(tmp_path):
    path, jobs = tmp_path / "cells.json", {name: Job(TREES, (), PARSERS[TREES]) for name in ("one", "stop", "two")}
    with pytest.raises(KeyboardInterrupt):
        cells_in(path, Sure()).trained(jobs)
    assert set(read_results(path, "reproduce")["cells"]) == {"one"}
    del jobs["stop"]
    workers = Sure()
    assert set(cells_in(path, workers).trained(jobs)) == {"one", "two"} and workers.done == ["two"]


@pytest.mark.parametrize("task", ["entities", "tags", *PARSERS])
def test_cells_of_other_data_are_made_again(task, tmp_path):
    path, made = tmp_path / "cells.json", []
    for name in ("first", "first", "second"):
        (tmp_path / name).write_text(name)
        workers = Sure()
        cells_in(path, workers).trained({"one": Job(task, (str(tmp_path / name),), CLL)})
        made.append(len(workers.done))
    assert made == [1, 0, 1]


def test_a_row_may_take_the_penalty_of_another_and_entities_are_trained_on_all_in_the_end(monkeypatch):
    asked = {}

    def trained(cells, jobs):
        asked.update(jobs)
        scores = {"f1": 50.0, "accuracy": 50.0}
        better = {"f1": 60.0, "accuracy": 60.0}
        return {
            name: {"dev": better if "l2=0.1" in name else scores, "test": scores, "counts": [[2, 2, 1]], "seconds": 1.0,
                   "sentences": 7, "job": {"options": job.options}}
            for name, job in jobs.items()
        }  # fmt: skip

    monkeypatch.setattr(Cells, "trained", trained)
    (table,) = piecewise.entities(Run("esp", ("x",), cells_in(None)))
    finals = {name: job for name, job in asked.items() if job.kind == "entities-all"}
    assert len(finals) == len(piecewise.ENTITIES) == len(table.rows)
    assert all(job.options["l2"] == 0.1 and job.options["pair_features"] for job in finals.values())
    assert sum("local" in name for name in asked) == 1, "its own penalties are not tried"
    asked.clear()
    rows = piecewise.tags(Run("conll2000", ("x",), cells_in(None)))[0].rows
    assert [row.name for row in rows] == list(piecewise.TAGS) and {job.kind for job in asked.values()} == {"tags"}
    assert asked["conll2000 tags CRF, affixes and shapes, l2=0.1"].options["template"] == "pos"
