"""Tuning: every cell is the training it says, grids are checked first, and what was killed goes on."""

import copy
import csv
import io
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV

import loglinear
from loglinear import Tagger, tune
from loglinear.data import Columns, read_columns
from loglinear.data.corpora.bundled import bundled_text
from loglinear.errors import DataError, OptionError
from loglinear.evaluation import chunk_scores
from loglinear.experiments.tuning.data import Data
from loglinear.experiments.tuning.grid import read_grid

PENALTIES = [0.01, 0.1, 1.0]


def corpus(split, task="chunk"):
    return read_columns(io.BytesIO(bundled_text(split, task).encode()))


@pytest.fixture(scope="module")
def train():
    return corpus("train").select(np.arange(80))


@pytest.fixture(scope="module")
def dev():
    return corpus("dev")


def cells_of(result):
    """All but the time."""
    return [{k: v for k, v in cell.to_dict().items() if k != "seconds"} for cell in result.cells]


def test_each_cell_is_a_training_of_its_own_and_the_best_is_kept(train, dev):
    grid = {"criterion": ["cll", "softmax-margin"], "l2": PENALTIES}
    found = tune(train, X_dev=dev, grid=grid, tagger=Tagger(template="words"), warm=False)
    assert [cell.setting for cell in found.cells] == [
        {"criterion": c, "l2": l2} for c in grid["criterion"] for l2 in PENALTIES
    ]
    for cell in found.cells:
        alone = Tagger(template="words", **cell.setting).fit(train)
        report = chunk_scores(dev.labels(), alone.predict(dev))
        assert cell.score == cell.scores["f1"] == pytest.approx(report.f1)
        assert cell.scores["precision"] == pytest.approx(report.precision)
        assert cell.passes == alone.n_evaluations_
    assert found.best_score == max(cell.score for cell in found.cells)
    assert 100 * found.best_model.score(dev, metric="f1") == pytest.approx(found.best_score)
    assert found.best_model.l2 == found.best_setting["l2"]
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [row["best"] for row in rows].count("True") == 1 and {"l2", "criterion", "f1"} <= set(rows[0])
    assert len(found.table.rows) == 6


def test_warm_starts_go_from_the_strongest_penalty_down_to_the_same_end(train, dev):
    prototype = Tagger(template="words", criterion="memm", optimizer="lbfgs")
    warm = tune(train, X_dev=dev, grid={"l2": PENALTIES}, tagger=prototype)
    cold = tune(train, X_dev=dev, grid={"l2": PENALTIES}, tagger=prototype, warm=False)
    assert [cell.warm for cell in warm.cells] == [True, True, False] and not any(cell.warm for cell in cold.cells)
    assert sum(cell.passes for cell in warm.cells) < sum(cell.passes for cell in cold.cells)
    assert [cell.score for cell in warm.cells] == pytest.approx([cell.score for cell in cold.cells], abs=0.3)


@pytest.mark.parametrize(
    ("prototype", "grid"),
    [
        (Tagger(template="words"), {"l2": PENALTIES}),  # dual ascent, the default, goes from zero
        (Tagger(template="words", criterion="risk", max_iter=3), {"l2": PENALTIES}),  # not convex
        (Tagger(template="words", criterion="max-margin", max_iter=3), {"l2": PENALTIES}),  # not smooth
        (Tagger(template="words", criterion="perceptron"), {"max_iter": [1, 2]}),
    ],
)
def test_what_cannot_start_from_weights_does_not(prototype, grid, train, dev):
    assert not any(cell.warm for cell in tune(train, X_dev=dev, grid=grid, tagger=prototype).cells)


def test_jobs_and_threads_change_nothing(train, dev):
    grid = {"optimizer": ["lbfgs", "sgd"], "l2": PENALTIES, "order": [1, 2]}
    prototype = Tagger(template="words", max_iter=5)
    one = tune(train, X_dev=dev, grid=grid, tagger=prototype.set_params(threads=1))
    two = tune(train, X_dev=dev, grid=grid, tagger=prototype.set_params(threads=2), jobs=2)
    assert cells_of(one) == cells_of(two) and one.best_setting == two.best_setting


def test_halving_trains_all_on_a_part_and_the_best_third_on_more(train, dev):
    grid = {"l2": [0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]}
    seen = []
    found = tune(
        train, X_dev=dev, grid=grid, tagger=Tagger(template="words"), halving=(0.1, 0.5, 1.0), observe=seen.append
    )
    shares = [cell.share for cell in found.cells]
    assert shares.count(0.1) == 4 and shares.count(0.5) == 2 and shares.count(1.0) == 1 and found.best.share == 1.0
    assert [p.total for p in seen] == [11] * len(seen) and seen[-1].done == 11
    on_a_part = tune(
        Data.of(train, None, True).part(0.1, 0).corpus, X_dev=dev, grid=grid, tagger=Tagger(template="words")
    )
    lost = [(a.score, b.score) for a, b in zip(found.cells, on_a_part.cells, strict=True) if a.share == 0.1]
    assert all(a == b for a, b in lost) and max(a for a, _ in lost) <= sorted(c.score for c in on_a_part.cells)[-3]


def test_cross_validation_scores_each_sentence_once_and_trains_the_best_on_all(train):
    seen = []
    prototype = Tagger(template="words")
    found = tune(train, grid={"l2": PENALTIES}, folds=4, tagger=prototype, observe=seen.append)
    parts = Data.of(train, None, True).folds(4, 0)
    assert sorted(len(held) for _, held in parts) == [20] * 4
    figures = [
        chunk_scores(held.corpus.labels(), Tagger(template="words", l2=0.1).fit(some.corpus).predict(held.corpus)).f1
        for some, held in parts
    ]
    assert found.cells[1].score == pytest.approx(np.mean(figures))
    assert found.cells[1].spread == pytest.approx(np.std(figures, ddof=1))
    whole = Tagger(template="words", **found.best_setting).fit(train)
    assert found.best_model.objective_ == pytest.approx(whole.objective_)
    assert {p.best_name for p in seen if p.score is not None and p.done < 10} == {None}  # no lucky part is the best


def test_python_data_weights_and_metrics_of_ones_own():
    X = [[{"w": "the"}, {"w": "dog"}, {"w": "barks"}], [{"w": "a"}, {"w": "cat"}, {"w": "sleeps"}]] * 3
    y = [["D", "N", "V"]] * 6
    prototype = Tagger(seed=1)
    calls = []

    def few_nouns(gold, predicted):
        calls.append((gold, predicted))
        return -float(sum(label == "N" for labels in predicted for label in labels))

    weights = [1.0, 2.0] * 3
    found = tune(X, y, X, y, grid={"l2": [0.1, 1e4]}, tagger=prototype, metric=few_nouns, sample_weight=weights)
    assert found.metric == "few_nouns" and len(calls) == 2 and calls[0][0] == y
    assert found.best_score == max(cell.score for cell in found.cells)
    weighted = Tagger(l2=0.1, seed=1).fit(X, y, sample_weight=weights)
    assert found.cells[0].passes == weighted.n_evaluations_
    plain = tune(X, y, X, y, grid={"l2": [0.1]})
    assert plain.metric == "accuracy" and plain.best_score == 100.0 and "f1" not in plain.best.scores
    with pytest.raises(OptionError, match="counts chunks"):
        tune(X, y, X, y, grid={"l2": [0.1]}, metric="f1")
    with pytest.raises(OptionError, match="not a number"):
        tune(X, y, X, y, grid={"l2": [0.1]}, metric=lambda gold, predicted: "good")


def test_options_of_criterion_and_optimizer_and_other_kinds_of_models(train, dev):
    found = tune(train, X_dev=dev, grid={"criterion:C": [0.01, 1.0], "cost": ["hamming:1", "recall:3"]},
                 tagger=Tagger(template="words", criterion="mira:k=2", max_iter=2))  # fmt: skip
    assert found.best_model.criterion.startswith("mira:k=2,C=") and len(found.cells) == 4
    found = tune(train, X_dev=dev, grid={"optimizer:memory": [1, 10], "template": ["words", "chunking"]},
                 tagger=Tagger(optimizer="lbfgs", max_iter=3))  # fmt: skip
    assert found.best_model.optimizer.startswith("lbfgs:memory=")
    assert tune(train, X_dev=dev, grid={"criterion": ["hmm", "hmm:smoothing=0.1"]}).best_score > 50
    found = tune(train, X_dev=dev, grid={"constraints": [None, "bio"]}, tagger=Tagger(template="words", max_iter=2))
    assert len(found.cells) == 2


# -- what is kept ----------------------------------------------------------------------------------------------------


def test_a_grid_that_has_grown_finds_its_cells_and_other_data_is_refused(train, dev, tmp_path, monkeypatch):
    results = tmp_path / "cells.json"
    prototype = Tagger(template="words")
    tune(train, X_dev=dev, grid={"l2": [0.1, 1.0]}, tagger=prototype, results=results)
    kept = json.loads(results.read_text())
    assert len(kept["cells"]) == 2 and kept["best"]["score"] == max(cell["score"] for cell in kept["cells"].values())
    trained = []
    fit = Tagger.fit
    monkeypatch.setattr(
        Tagger, "fit", lambda self, *a, **k: trained.append(self.l2) if k.get("observe") else None or fit(self, *a, **k)
    )
    grown = tune(train, X_dev=dev, grid={"l2": [0.1, 1.0]}, tagger=prototype, results=results)
    assert grown.best_model.classes_ and not [l2 for l2 in trained if l2 is not None]
    monkeypatch.undo()
    for change in (
        {"X_dev": dev.select(range(10))},
        {"metric": "accuracy"},
        {"tagger": Tagger(template="words", seed=3)},
    ):
        with pytest.raises(DataError, match="another experiment"):
            tune(**{"X": train, "X_dev": dev, "grid": {"l2": [1.0]}, "tagger": prototype, "results": results, **change})
    monkeypatch.setattr("loglinear.experiments.store.__version__", "9.9")
    with pytest.raises(DataError, match="version differs"):
        tune(train, X_dev=dev, grid={"l2": [1.0]}, tagger=prototype, results=results)


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{",
        pytest.param("[" * 100_000, id="deep"),
        '{"a": 1}',
        '{"format": 1, "verb": "tune", "mark": {}, "cells": [1]}',
        '{"kind": "loglinear tune", "format": 2, "about": {}, "cells": [1]}',
        '{"kind": "loglinear compare", "format": 2, "about": {}, "cells": {}}',
    ],
)
def test_a_file_of_something_else_is_refused(content, train, dev, tmp_path):
    path = tmp_path / "cells.json"
    path.write_text(content)
    with pytest.raises((DataError, OptionError), match=r"cells\.json"):
        tune(train, X_dev=dev, grid={"l2": [1.0]}, tagger=Tagger(template="words"), results=path)


def test_a_damaged_file_is_refused_and_never_a_crash(train, dev, tmp_path):
    path, arguments = tmp_path / "cells.json", {"grid": {"l2": [1.0]}, "tagger": Tagger(template="words", max_iter=3)}
    tune(train, X_dev=dev, results=path, **arguments)
    whole = json.loads(path.read_text())
    for name in ("about", "score", "scores", "seconds", "passes", "features", "warm"):
        for value in ("gone", None, "x", [], {"f1": "x"}, float("nan"), {"f1": float("nan")}, -1.5):
            damaged = copy.deepcopy(whole)
            place = damaged if name == "about" else next(iter(damaged["cells"].values()))
            place.pop(name) if value == "gone" else place.update({name: value})
            path.write_text(json.dumps(damaged))
            try:
                found = tune(train, X_dev=dev, results=path, **arguments)
            except (DataError, OptionError) as error:
                assert "cells.json" in str(error)
            else:  # a value that may well be
                assert len(found.table.rows) == 1 and found.to_csv() and np.isfinite(found.best_score)


def test_the_model_of_all_the_data_is_kept_too(train, tmp_path, monkeypatch):
    arguments = {"grid": {"l2": [0.1, 1.0]}, "folds": 2, "tagger": Tagger(template="words", max_iter=3)}
    first = tune(train, **arguments, results=tmp_path / "cells.json").best_model
    monkeypatch.setattr("loglinear.experiments.chains.Chains._fit", lambda *_: pytest.fail("trained again"))
    again = tune(train, **arguments, results=tmp_path / "cells.json")
    monkeypatch.setattr(Tagger, "fit", lambda *_, **__: pytest.fail("trained again"))
    assert np.array_equal(again.best_model.model_.weights, first.model_.weights)


def test_only_models_that_something_needs_are_kept_on_the_way(train, dev, tmp_path):
    results, seen = tmp_path / "cells.json", []
    grid = {"l2": PENALTIES, "order": [1, 2]}

    def look(progress):
        folder = tmp_path / "cells.json.models"
        seen.append(len(list(folder.iterdir())) if folder.exists() else 0)

    tagger = Tagger(template="words", criterion="memm", max_iter=3)
    tune(train, X_dev=dev, grid=grid, tagger=tagger, results=results, jobs=2, observe=look)
    assert 1 <= max(seen) <= 3, "the best, and what the next of each chain starts from"
    assert seen[-1] == 1


def test_models_that_were_lost_are_trained_again(train, dev, tmp_path):
    results = tmp_path / "cells.json"
    prototype = Tagger(template="words", optimizer="lbfgs", max_iter=10)
    first = tune(train, X_dev=dev, grid={"l2": PENALTIES}, tagger=prototype, results=results)
    weights = first.best_model.model_.weights
    folder = tmp_path / "cells.json.models"
    assert len(list(folder.iterdir())) == 1
    for model in folder.iterdir():
        model.write_bytes(b"damaged")
    again = tune(train, X_dev=dev, grid={"l2": PENALTIES}, tagger=prototype, results=results)
    assert np.array_equal(again.best_model.model_.weights, weights)


@pytest.mark.slow
def test_killed_midway_it_goes_on_and_gives_the_same_table(tmp_path):
    """SIGKILL, once a few cells are finished; the warm start of the next comes from the file."""
    for split in ("train", "dev"):
        (tmp_path / f"{split}.txt").write_text(bundled_text(split, "chunk"))
    command = [
        sys.executable, "-m", "loglinear", "tune", "train.txt", "--dev", "dev.txt", "--template", "words",
        "--criterion", "memm", "--grid", "l2=0.01,0.03,0.1,0.3,1", "--grid", "order=1,2", "--threads", "1",
        "--max-iter", "30",
    ]  # fmt: skip
    package = os.path.dirname(os.path.dirname(loglinear.__file__))
    environment = {**os.environ, "PYTHONPATH": package}

    def run(*more):
        return subprocess.run(
            [*command, *more], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )

    killed = subprocess.Popen(
        [*command, "--json", "killed.json"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    results = tmp_path / "killed.json"
    while not results.exists() or len(json.loads(results.read_text())["cells"]) < 2:
        assert killed.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    before = json.loads(results.read_text())["cells"]
    assert 2 <= len(before) < 10
    run("--json", "killed.json", "-o", "killed.model")
    run("--json", "whole.json", "-o", "whole.model")
    after, whole = (json.loads((tmp_path / name).read_text()) for name in ("killed.json", "whole.json"))
    assert dict(list(after["cells"].items())[: len(before)]) == before  # times included: nothing was trained again

    def timeless(cells):
        return sorted(({k: v for k, v in cell.items() if k != "seconds"} for cell in cells), key=str)

    assert after["cells"].keys() == whole["cells"].keys()
    for one, other in ((after["cells"].values(), whole["cells"].values()), (after["table"], whole["table"])):
        assert timeless(one) == timeless(other)
    killed_model, whole_model = (Tagger.load(tmp_path / f"{name}.model") for name in ("killed", "whole"))
    assert np.array_equal(killed_model.model_.weights, whole_model.model_.weights)


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("grid", "says"),
    [
        ({"l2": [1.0, -1.0]}, "l2=-1: "),
        ({"order": [1, 4]}, "order=4"),
        ({"criterion": ["cll", "nix"]}, "criterion=nix"),
        ({"criterion": ["cll"], "cost": ["hamming:1"]}, "takes no cost"),
        ({"criterion": ["softmax-margin"], "cost": ["hamming:1", "hamming:x"]}, "cost=hamming:x"),
        ({"criterion": ["softmax-margin"], "cost": [{("B-NP", "nix"): 2.0}]}, "'nix'"),
        ({"template": ["words", "nowhere"]}, "template=nowhere"),
        ({"template": ["words", "U:%x[0,7]"]}, "column 7"),
        ({"constraints": ["bio", "bilou"]}, "constraints=bilou"),
        ({"optimizer": ["lbfgs", "adam"]}, "optimizer=adam"),
        ({"optimizer:memory": [3]}, "not named"),
        ({"criterion:C": [1.0]}, "no option 'C'"),
        ({"l3": [1.0]}, "'l3'"),
        ({"threads": [1]}, "'threads'"),
        ({"l2": []}, "list of values"),
        ({"l2": "0.1"}, "list of values"),
    ],
)
def test_a_bad_value_is_named_before_any_training(grid, says, train, dev, tmp_path):
    with pytest.raises(OptionError, match="(?s).*" + says.replace("[", r"\[")):
        tune(train, X_dev=dev, grid=grid, tagger=Tagger(template="words"), results=tmp_path / "cells.json",
             observe=lambda progress: pytest.fail("something was trained"))  # fmt: skip
    assert not (tmp_path / "cells.json").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "dev data"),
        ({"X_dev": True, "folds": 3}, "not both"),
        ({"folds": 1000}, "2 to 80"),
        ({"X_dev": True, "halving": [0.5, 0.2, 1.0]}, "rising"),
        ({"X_dev": True, "halving": [0.5]}, "rising"),
        ({"X_dev": True, "jobs": 0}, "jobs=0"),
        ({"X_dev": True, "metric": "bleu"}, "'bleu'"),
        ({"X_dev": True, "metric": 3}, "nor a function"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, says, train, dev):
    arguments = {**arguments, **({"X_dev": dev} if "X_dev" in arguments else {})}
    with pytest.raises(OptionError, match=says):
        tune(train, grid={"l2": [1.0]}, tagger=Tagger(template="words"), **arguments)


def test_an_error_in_training_ends_all_and_names_the_setting(train, dev):
    def metric(gold, predicted):
        raise RuntimeError("broken metric")

    with pytest.raises(RuntimeError, match="broken metric"):
        tune(train, X_dev=dev, grid={"l2": PENALTIES}, tagger=Tagger(template="words"), metric=metric, jobs=2)
    with pytest.raises(OptionError, match=r"^l2=0.*dual"):
        tune(train, X_dev=dev, grid={"l2": [0.0]}, tagger=Tagger(template="words", optimizer="dual"))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, "good", 10**400])
def test_a_metric_that_gives_no_number_is_refused(value, train, dev):
    with pytest.raises(OptionError, match=r"l2=1: the metric .* gave .*, not a number"):
        tune(train, X_dev=dev, grid={"l2": [1.0]}, tagger=Tagger(template="words"), metric=lambda g, p: value)


def test_sequences_to_judge_by_that_have_no_labelling_are_named_with_the_setting(train, dev):
    unsmoothed = Tagger("hmm:smoothing=0", order=2)
    with pytest.raises(OptionError, match=r"^order=2: .*on the data to judge by: sequence \d+"):
        tune(train.select(range(8)), X_dev=dev, grid={"order": [2]}, tagger=unsmoothed)


def test_dev_data_of_another_kind_is_refused_and_training_labels_say_the_metric(train, dev):
    arguments = {"grid": {"max_iter": [2]}, "tagger": Tagger("perceptron", template="words")}
    with pytest.raises(DataError, match="another number of columns: 1 beside the label, the training data 2"):
        tune(train, X_dev=corpus("dev", "pos"), **arguments)
    with pytest.raises(DataError, match="none of the dev data's labels"):
        tune(train, X_dev=Columns.from_rows([[("a", "b", "c")]]), **arguments)
    X, y = [[row[:2] for row in sentence] for sentence in train.rows()], train.labels()
    with pytest.raises(DataError, match="another number of columns: 1 beside the label, the training data 2"):
        tune(X, y, X, None, **arguments)  # y_dev forgotten
    few = Columns.from_rows([[("a", "b", "O")], [("a", "b", "X")]])
    assert tune(train, X_dev=few, **arguments).metric == "f1"


def test_a_penalty_that_is_not_given_is_none_to_start_from(train, dev):
    tagger = Tagger("memm", template="words", optimizer="lbfgs", max_iter=3)
    found = tune(train, X_dev=dev, grid={"l2": [None], "variance": [1.0, 2.0]}, tagger=tagger)
    assert [cell.warm for cell in found.cells] == [False, True]


def test_grids_as_texts():
    assert read_grid(["l2=0.01, 1", "cost=none,hamming:5", "order=1,2"]) == {
        "l2": [0.01, 1.0], "cost": [None, "hamming:5"], "order": [1, 2]
    }  # fmt: skip
    assert read_grid(["pair-features=yes,no", "criterion:C=0.1"]) == {
        "pair_features": [True, False], "criterion:C": ["0.1"]
    }  # fmt: skip
    assert read_grid(["criterion=mira:k=5,C=0.1;cll"]) == {"criterion": ["mira:k=5,C=0.1", "cll"]}
    for text, says in [("l2", "as in"), ("l2=", "empty"), ("l2=a", "number"), ("nix=1", "'nix'"), ("order=4", "order")]:
        with pytest.raises(OptionError, match=says):
            read_grid([text])
    with pytest.raises(OptionError, match="already"):
        read_grid(["l2=1", "l2=2"])


# -- data ------------------------------------------------------------------------------------------------------------

tokens = st.tuples(st.sampled_from("abc"), st.sampled_from("XYZ"))
rows = st.lists(st.lists(tokens, min_size=1, max_size=4), min_size=2, max_size=12)


@settings(deadline=None)
@given(rows=rows, seed=st.integers(0, 5), share=st.floats(0.05, 1.0))
def test_parts_are_nested_and_folds_are_a_partition(rows, seed, share):
    data = Data.of(Columns.from_rows(rows), None, True)
    order = data.nested(seed)
    assert sorted(order.tolist()) == list(range(len(rows)))
    small, large = data.part(share / 2, seed), data.part(share, seed)
    assert len(small) <= len(large) and len(large) == (max(1, round(share * len(rows))) if share < 1 else len(rows))
    first = order[: len(small)]
    assert sorted(map(str, small.corpus.rows())) == sorted(str(rows[s]) for s in first)
    assert data.sample().labels() == data.labels()
    folds = data.folds(2, seed)
    assert sorted(str(row) for _, held in folds for row in held.corpus.rows()) == sorted(map(str, rows))
    assert all(len(some) + len(held) == len(rows) for some, held in folds)


@given(rows=rows, place=st.integers(0, 100))
def test_the_mark_changes_with_any_label(rows, place):
    corpus = Columns.from_rows(rows)
    mark = Data.of(corpus, None, True).mark()
    assert mark == Data.of(Columns.from_rows(rows), None, True).mark()
    changed = [[list(row) for row in sentence] for sentence in rows]
    sentence = changed[place % len(rows)]
    sentence[place % len(sentence)][1] += "'"
    assert Data.of(Columns.from_rows(changed), None, True).mark() != mark
    assert Data.of(corpus, None, True, weights=np.arange(1.0, len(rows) + 1)).mark() != mark
    assert Data.of(corpus, corpus.labels(), True).mark() != mark


def test_grid_search_of_scikit_learn_finds_penalty_and_criterion(train):
    X = [[row[:2] for row in sentence] for sentence in train.rows()]
    grid = {"l2": [0.01, 100.0], "criterion": ["cll", "softmax-margin", "pseudolikelihood"]}
    search = GridSearchCV(Tagger(template="words", max_iter=10), grid, cv=3).fit(X, train.labels())
    assert len(search.cv_results_["params"]) == 6 and search.best_params_["l2"] == 0.01
    assert search.predict(X[:1])[0] and search.best_score_ > 0.7
