"""Trainings in other processes: the same outcome as here, kept at once, and the best of them chosen on dev alone."""

import json

import numpy as np
import pytest
from scipy import stats

from loglinear import Tagger
from loglinear.errors import DataError, LoglinearError, OptionError
from loglinear.estimators.parser.estimator import Parser
from loglinear.experiments.pools.pool import warm_up
from loglinear.experiments.pools.processes import ProcessPool
from loglinear.experiments.reproduce import m_estimation, piecewise, softmax_margin
from loglinear.experiments.reproduce.tasks import (
    DEPENDENCIES,
    ONES,
    TREES,
    Cells,
    Job,
    Run,
    System,
    beside,
    best,
    cell_shape,
    ones,
    pooled,
    split_of,
    standard_error,
    wholly_right,
)
from loglinear.experiments.store import FORMAT, Store, read_results
from loglinear.features.templates.language import TemplateSet
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
        with ProcessPool(n) as workers:
            there = cells_in(tmp_path / f"{n}.json", workers).trained(jobs)
        assert {name: without_seconds(cell) for name, cell in there.items()} == here
        assert all(cell["seconds"] > 0 for cell in there.values())


PARSERS = {TREES: {"criterion": "pcfg"}, DEPENDENCIES: {"criterion": "generative"}}


@pytest.mark.parametrize("task", PARSERS)
def test_parsers_are_trained_by_workers_too(task):
    job = Job(task, (), PARSERS[task])
    with ProcessPool(1) as workers:
        there = dict(workers.run({"one": job}))["one"]
    assert without_seconds(there) == without_seconds(json.loads(json.dumps(job.measure())))
    assert there["job"] == job.identity and there["seconds"] > 0


def test_trees_without_relations_have_no_labelled_score(tmp_path):
    rows = ["1\ta\t_\tD\t_\t_\t2\t_\t_\t_", "2\tb\t_\tN\t_\t_\t0\t_\t_\t_"]
    for name in ("train", "dev"):
        (tmp_path / name).write_text("\n".join([*rows, "", ""]) * 3)
    files = tuple(str(tmp_path / name) for name in ("train", "dev"))
    run = Run("ptbdep", files, cells_in(tmp_path / "cells.json", ProcessPool(1)))
    with run.cells.pool:
        cell = run.trained(DEPENDENCIES, {"generative": System(PARSERS[DEPENDENCIES])})["generative"]
    assert cell["test"]["las"] is None and cell["test"]["uas"] == 100.0
    assert cells_in(tmp_path / "cells.json").store.cells["ptbdep generative"] == cell


def test_other_decodings_of_the_same_weights_are_scored_too():
    options = {"template": "words", "pair_features": "only", "max_iter": 10, "l2": 0.1}
    job = Job("entities", (), {"criterion": "nota:scaling", **options}, also=("local", "global"))
    cell = job.measure()
    assert job.identity["also"] == ("local", "global")
    assert "also" not in Job("entities", (), {"criterion": "nota", **options}).identity
    for how, criterion in (("local", "nota:local"), ("global", "nota")):
        alone = Job("entities", (), {"criterion": criterion, **options}).measure()
        assert cell["also"][how] == {part: alone[part] for part in ("dev", "test", "counts")}


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
    with ProcessPool(1) as workers:
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
    with ProcessPool(1) as workers, pytest.raises(DataError, match=r"bad.txt:2"):
        list(workers.run({"bad": Job("entities", files, CLL)}))
    with ProcessPool(1) as workers, pytest.raises(LoglinearError, match=r"wrong: the worker process ended .*TypeError"):
        list(workers.run({"wrong": Job("entities", (), {"criterion": "cll", "no": "option"})}))


def test_without_a_penalty_the_last_weights_are_kept():
    options = {"template": "chunking", "order": 2, "pair_features": True, "l2": 0.0, "max_iter": 20}
    with pytest.raises(OptionError, match="falls without end"):
        Job("noun-phrases", (), {"criterion": "m-estimation", **options}).measure()
    assert Job("noun-phrases", (), {"criterion": "m-estimation:unbounded", **options}).measure()["test"]["f1"] > 0
    run = Run("conll2000", ("x",), cells_in(None))
    assert "unbounded" in m_estimation.job(run, "input-only", m_estimation.EXTENDED, float("inf")).options["criterion"]
    assert "unbounded" not in m_estimation.job(run, "M-est.", m_estimation.EXTENDED, 1.0).options["criterion"]


def small_files(folder):
    files = [folder / "train.txt", folder / "test.txt"]
    for file in files:
        file.write_text("")
    return tuple(map(str, files))


@pytest.mark.parametrize("n_seeds", [1, 3])
def test_the_figures_have_a_line_for_each_system(n_seeds, tmp_path):
    workers = Sure()
    made = m_estimation.reproduce(Run("conll2000", small_files(tmp_path), cells_in(None, workers), n_seeds=n_seeds))
    tables, charts = made[:4], made[4:]
    points = {line["name"]: len(line["x"]) for line in charts[2].lines}
    assert points == {"HMM": 1, "CRF": 8, "PL": 8, "MEMM": 8, "M-est.": 8, "MEMM, rightmost": 8}
    assert "to none" in charts[2].note
    sizes = {len(line["x"]) for line in charts[1].lines}
    assert sizes == {len(m_estimation.SIZES) + 1}
    assert len(tables[2].rows) == 1 + len(m_estimation.EMPIRICAL)
    assert all(("±" in row.cells[2]) == (n_seeds > 1) for row in tables[0].rows)
    assert sum("seed 2" in name for name in workers.done) == sum("seed 1" in name for name in workers.done)
    assert not any("last 973" in name and "seed" in name for name in workers.done), "one split, one seed"
    charts = m_estimation.reproduce(Run("bundled", (), cells_in(None, Sure())))[3:]
    assert "to weak (c = 10)" in charts[2].note


def test_features_complete_at_their_rightmost_position_do_not_look_ahead():
    lines = TemplateSet.parse(m_estimation.NOT_AHEAD)
    everything = TemplateSet.parse(m_estimation.CHUNKING)
    assert max(macro.row for line in lines for macro in line.macros) == 0
    assert len(everything) - len(lines) == sum(any(m.row > 0 for m in line.macros) for line in everything) > 5


def test_cells_of_several_seeds_are_pooled():
    def cell(f1, counts, seconds):
        figures = {"precision": f1, "recall": f1, "f1": f1}
        return {"job": {"kind": "entities"}, "dev": figures, "test": figures, "counts": counts, "seconds": seconds}

    cells = [cell(80.0, [[2, 2, 1], [1, 1, 1]], 1.0), cell(90.0, [[2, 3, 2], [1, 0, 0]], 3.0)]
    both = pooled(cells)
    assert both["test"]["f1"] == 85.0 and both["seconds"] == 2.0 and both["counts"] == [[4, 5, 3], [2, 1, 1]]
    low, high = stats.t.interval(0.95, 1, loc=85.0, scale=stats.sem([80.0, 90.0]))
    assert both["spread"]["f1"] == pytest.approx((high - low) / 2)
    assert pooled(cells[:1])["spread"]["f1"] == 0.0
    assert wholly_right(both).tolist() == [False, True], "of the first seed"
    assert standard_error(both, both) == 0.0


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
    with ProcessPool(1) as workers:
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


def test_a_row_may_take_the_penalty_of_another(monkeypatch):
    asked = {}

    def trained(cells, jobs):
        asked.update(jobs)
        scores = dict.fromkeys(("f1", "precision", "recall", "accuracy"), 50.0)
        better = dict.fromkeys(scores, 60.0)
        return {
            name: {"dev": better if "l2=0.1" in name else scores, "test": scores, "counts": [[2, 2, 1]], "seconds": 1.0,
                   "sentences": 7, "job": {"options": job.options, "kind": job.kind},
                   "also": {how: {"test": better, "counts": [[2, 2, 2]]} for how in job.also}}
            for name, job in jobs.items()
        }  # fmt: skip

    monkeypatch.setattr(Cells, "trained", trained)
    (table,) = piecewise.entities(Run("esp", ("x",), cells_in(None), n_seeds=2))
    assert [row.name for row in table.rows] == list(piecewise.ENTITIES)
    assert {job.kind for job in asked.values()} == {"entities-held"}
    assert all(job.options["pair_features"] in ("only", True) for job in asked.values())
    assert not any("local" in name for name in asked), "other decodings have the same weights"
    assert {row.name for row in table.rows if row.figures == [60.0]} == {
        name for name, system in piecewise.ENTITIES.items() if system.decoding
    }
    again = {name: job for name, job in asked.items() if "seed 1" in name}
    assert all(job.options["l2"] == 0.1 and job.seed == 1 for job in again.values())
    assert len(again) == sum(not system.decoding for system in piecewise.ENTITIES.values())
    asked.clear()
    rows = piecewise.tags(Run("conll2000", ("x",), cells_in(None)))[0].rows
    assert [row.name for row in rows] == list(piecewise.TAGS) and {job.kind for job in asked.values()} == {"tags"}
    assert asked["conll2000 tags CRF, labels, affixes and shapes, l2=0.1"].options["template"] == "pos"


@pytest.mark.parametrize(
    ("row", "crf"),
    [
        ("CRF-PT", "CRF"),
        ("CRF-PT, local decoding", "CRF"),
        ("MEMM", "CRF"),
        ("MEMM, labels", "CRF, labels"),
        ("CRF-PT, labels, affixes and shapes", "CRF, labels, affixes and shapes"),
        ("CRF-PT, labels, global decoding", "CRF, labels"),
        ("CRF, labels", "CRF, labels"),
    ],
)
def test_a_row_is_compared_with_the_crf_of_the_same_features(row, crf):
    assert piecewise.crf_of(row, piecewise.TAGS) == crf


def test_the_recipe_takes_over_what_is_chosen_for_cll(tmp_path, monkeypatch):
    asked = {}

    def trained(cells, jobs):
        asked.update(jobs)
        figures = dict.fromkeys(("f1", "precision", "recall"), 50.0)
        better = dict.fromkeys(figures, 60.0)
        return {
            name: {"dev": better if "C=0.1 average=yes" in name else figures, "test": figures, "counts": [[2, 2, 1]],
                   "seconds": 1.0, "sentences": 7, "job": {"kind": "entities"}}
            for name in jobs
        }  # fmt: skip

    monkeypatch.setattr(Cells, "trained", trained)
    (table,) = softmax_margin.recipe(Run("esp", ("x",), cells_in(tmp_path / "cells.json")))
    assert [row.name for row in table.rows] == list(softmax_margin.RECIPE)
    others = {name: job for name, job in asked.items() if "CLL" not in name}
    assert all(job.options["l2"] == 0.1 and "average=yes" in job.options["optimizer"] for job in others.values())
    starts = {name.split(" C=")[0].split("recipe, ")[1]: job.init for name, job in others.items()}
    assert starts["risk, from ones"] == ONES and starts["max-margin"] == "" and starts["JRB"].endswith(".model")


def test_training_can_start_from_ones():
    options = {"criterion": "risk", "template": "ner", "l2": 1e-9, "max_iter": 1, "cost": "hamming:1"}
    job = Job("entities", (), {**options, "optimizer": "sgd:step=1e-9,decay=0"}, init=ONES)
    assert job.identity["warm"] == ONES
    train = split_of("entities", (), 0)[0]
    start = ones(job, train)
    assert (start.model_.weights == 1.0).all()
    tagger = Tagger(**job.options).fit(train, init=start)
    np.testing.assert_allclose(tagger.model_.weights, 1.0, atol=1e-4)
