"""The look-alike of python-crfsuite against the real one: files, answers, training, log, errors."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pycrfsuite as real
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycrfsuite._logparser import TrainLogParser as RealParser

from loglinear.compat import pycrfsuite as ours
from loglinear.compat.pycrfsuite.logparser import TrainLogParser
from loglinear.estimators.tagger.foreign import chain_model
from loglinear.features.names import attributes_of
from loglinear.foreign.crfsuite import read_crfsuite

ALGORITHMS = ["lbfgs", "l2sgd", "ap", "averaged-perceptron", "pa", "passive-aggressive", "arow"]
LABELS = ["Nomen", "verb", "好", "A:b --> c"]


def data(seed, n=6, longest=7):
    """Sequences of items of all kinds, some empty, some with values below zero, and labels."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        x = []
        for _ in range(rng.integers(0, longest)):
            item = {
                "w": f"v{rng.integers(5)}",
                f"n{rng.integers(3)}": float(rng.normal()),
                "up": bool(rng.random() < 0.5),
            }
            if rng.random() < 0.3:
                item["sub"] = {"a": ["x", "y"], "солнце": b"\xd0\xb4"}
            x.append([f"w:v{rng.integers(5)}", "up"] if rng.random() < 0.2 else {} if rng.random() < 0.1 else item)
        X.append(x)
        y.append([LABELS[min(int(rng.exponential(1.2)), 3)] for _ in x])
    return X, y


def trained(package, path, X, y, algorithm="lbfgs", groups=None, holdout=-1, **params):
    """The model file that a package's trainer writes, and the log."""
    lines = []

    class Listening(package.BaseTrainer):
        def message(self, message):
            lines.append(message)

    trainer = Listening(algorithm)
    trainer.set_params({name.replace("__", "."): value for name, value in params.items()})
    for i, (xseq, yseq) in enumerate(zip(X, y, strict=True)):
        trainer.append(xseq, yseq, 0 if groups is None else groups[i])
    trainer.train(str(path), holdout)
    return path, lines


def model(path):
    return read_crfsuite(Path(path).read_bytes())


def objective(path, X, y, c1, c2):
    """Of the weights in a file, by definition."""
    chain = chain_model(model(path))
    number = {label: i for i, label in enumerate(chain.labels)}
    gold = np.array([number[label] for labels in y for label in labels], dtype=np.int32)
    losses = -chain.log_probability(chain.encode(attributes_of([x for x in X if x])), gold).sum()
    return losses + c1 * np.abs(chain.weights).sum() + c2 * (chain.weights**2).sum()


@given(
    st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.1, 1.0]), st.sampled_from([0.05, 1.0]), st.booleans(),
    st.booleans(), st.sampled_from([0.0, 0.5, 1.5, 2.0]),
)  # fmt: skip
@settings(max_examples=12)
def test_lbfgs_has_crfsuites_features_labels_and_objective(
    tmp_path_factory, seed, c1, c2, states, transitions, minfreq
):
    X, y = data(seed)
    if not any(X):
        return
    folder = tmp_path_factory.mktemp("lbfgs")
    options = {
        "c1": c1, "c2": c2, "feature__possible_states": states, "feature__possible_transitions": transitions,
        "feature__minfreq": minfreq, "epsilon": 1e-7, "delta": 1e-9,
    }  # fmt: skip
    theirs, log = trained(real, folder / "theirs", X, y, **options)
    options["epsilon"] = 1e-5
    mine, own_log = trained(ours, folder / "mine", X, y, **options)
    assert model(mine).labels == model(theirs).labels
    n_features = [next(line for line in lines if line.startswith("Number of features")) for lines in (log, own_log)]
    assert n_features[0] == n_features[1]
    if not n_features[0].endswith(" 0\n"):
        assert objective(mine, X, y, c1, c2) == pytest.approx(objective(theirs, X, y, c1, c2), rel=3e-4)
    if not c1:
        assert model(mine).attributes == model(theirs).attributes


@pytest.mark.parametrize(
    "options", [{}, {"c": 0.2}, {"type": 0}, {"type": 2, "c": 0.7}, {"error_sensitive": False}, {"averaging": False}]
)
@pytest.mark.parametrize("algorithm", ["ap", "pa", "arow"])
def test_online_algorithms_find_crfsuites_weights_in_one_sequence(tmp_path, algorithm, options):
    """Whose order leaves nothing to chance; CRFsuite divides its sums by one more than there were steps."""
    if options and algorithm != "pa":
        return
    ((x,), (y,)) = data(3, n=1, longest=60)
    assert len(x) > 30
    files = [
        trained(package, tmp_path / package.__name__, [x], [y], algorithm, max_iterations=7, **options)[0]
        for package in (real, ours)
    ]
    theirs, mine = map(model, files)
    averaged = algorithm == "ap" or (algorithm == "pa" and options.get("averaging", True))
    for get in ("state_features", "transitions"):
        found, wanted = (
            dict(vars(open_(package, file).info())[get]) for package, file in ((ours, files[1]), (ours, files[0]))
        )
        assert {*found} | {*wanted}
        values = np.array([[found.get(name, 0.0), wanted.get(name, 0.0)] for name in {*found, *wanted}])
        if averaged:
            assert np.corrcoef(values.T)[0, 1] > 0.97
        else:
            np.testing.assert_allclose(values[:, 0], values[:, 1], atol=1e-9)
    assert theirs.labels == mine.labels


def as_good(tagger, x, labels):
    """Whether a labelling is the best one by a tagger, or as probable as that to the last digits: a tie."""
    best = tagger.tag(x)
    return labels == best or tagger.probability(labels) == pytest.approx(tagger.probability(best), rel=1e-12)


def open_(package, path):
    tagger = package.Tagger()
    tagger.open(str(path))
    return tagger


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_both_open_both_files_and_answer_the_same(tmp_path_factory, seed):
    X, y = data(seed)
    if not any(X):
        return
    folder = tmp_path_factory.mktemp("both")
    for package, other in ((real, ours), (ours, real)):
        path, _ = trained(package, folder / package.__name__, X, y, c1=0.1, c2=0.1)
        theirs, mine = open_(real, path), open_(ours, path)
        assert mine.labels() == theirs.labels()
        more = data(seed + 1)[0]
        assert all(as_good(theirs, x, found) for x, found in zip(more, mine.tag_all(more), strict=True))
        ready = mine.tag_all(ours.ItemSequence(x) for x in more)
        assert all(as_good(theirs, x, found) for x, found in zip(more, ready, strict=True))
        for x in [*X, *more]:
            assert mine.tag(x) == mine.tag(iter(x)) == mine.tag(ours.ItemSequence(x)) == mine.tag()
            assert as_good(theirs, x, mine.tag(x))
            assert mine.probability(mine.tag(x)) == pytest.approx(theirs.probability(theirs.tag(x)), abs=1e-12)
            mine.set(x)
            theirs.set(x)  # the real one's marginals after its own tag() are no probabilities
            for t in range(len(x)):
                for label in theirs.labels():
                    assert mine.marginal(label, t) == pytest.approx(theirs.marginal(label, t), abs=1e-12)
                assert sum(mine.marginals()[t].values()) == pytest.approx(1.0)
            items = real.ItemSequence(x).items()
            assert ours.ItemSequence(x).items() == items and len(ours.ItemSequence(x)) == len(items)
        theirs.dump(str(folder / "theirs.txt"))
        mine.dump(folder / "mine.txt")
        assert (folder / "mine.txt").read_bytes() == (folder / "theirs.txt").read_bytes()
        again = pickle.loads(pickle.dumps(mine))
        assert again.tag(X[0]) == theirs.tag(X[0])
        with mine.open_inmemory(path.read_bytes()) as third:
            assert third.tag(X[0]) == theirs.tag(X[0]) and other is not None


def test_info_has_whole_weights_and_survives_names_that_look_like_its_own_text(tmp_path):
    x, y = [["a --> b: 1.0"], ["}", "LABELS = {"]], ["(0) x --> y: 2.5", "ATTRIBUTES = {"]
    path, _ = trained(ours, tmp_path / "m", [x], [y])
    info = open_(ours, path).info()
    assert set(info.attributes) == {"a --> b: 1.0", "}", "LABELS = {"} and info.labels == {y[0]: "0", y[1]: "1"}
    file = model(path)
    assert list(info.state_features.values()) == file.state_weights.tolist()
    assert info.header["num_attrs"] == "3" and info.header["size"] == str(path.stat().st_size)


# -- parameters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_parameters_and_their_defaults_are_crfsuites(algorithm):
    theirs, mine = real.Trainer(algorithm), ours.Trainer(algorithm.upper())
    assert mine.params() == theirs.params()
    assert mine.get_params() == theirs.get_params()
    assert all(mine.help(name) for name in mine.params())
    for name in mine.params():
        mine.set(name, str(int(mine.get(name)) if isinstance(mine.get(name), bool) else mine.get(name)))
    assert mine.get_params() == theirs.get_params()


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [("c2", "abc", "must be a number"), ("c2", -1, "at least 0"), ("c2", float("nan"), "finite"),
     ("c3", 1, "not found"), ("max_iterations", 2.5, "whole number"), ("linesearch", "None", "MoreThuente"),
     ("feature.possible_states", 2, "True"), ("num_memories", 0, "at least 1")],
)  # fmt: skip
def test_a_parameter_without_sense_is_refused(name, value, says):
    with pytest.raises(ValueError, match=says):
        ours.Trainer(params={name: value})


@pytest.mark.parametrize("c1", [0.0, 0.5])
def test_training_ends_where_no_stopping_rule_is_on(tmp_path, c1):
    X, y = data(0)
    path, log = trained(ours, tmp_path / "m", X, y, delta=0, epsilon=0, c1=c1)
    exact, _ = trained(ours, tmp_path / "n", X, y, delta=1e-12, epsilon=1e-9, c1=c1)
    assert sum(line.startswith("*****") for line in log) < 2000
    assert open_(ours, path).tag_all(X) == open_(ours, exact).tag_all(X)


def test_selecting_an_algorithm_resets_its_parameters():
    trainer = ours.Trainer(params={"c2": 5})
    trainer.select("lbfgs")
    assert trainer.get("c2") == 1.0
    with pytest.raises(ValueError, match="nothing"):
        trainer.select("nothing")


# -- the log ---------------------------------------------------------------------------------------------------------


def shape(lines):
    """The kinds of lines of a log: all but numbers, the iterations after the first, and how training ended."""
    text = "".join(lines)
    text = re.sub(r"\*{5} (Iteration|Epoch) #[^1]\d* .*?\n\n", "", text, flags=re.DOTALL)
    text = re.sub(r"\*{5} (Iteration|Epoch) #1\d+ .*?\n\n", "", text, flags=re.DOTALL)
    text = re.sub(r"Calibrating.*?\n\n|Terminated with.*?\n\n|Loss: [\d.]+\nTotal", "", text, flags=re.DOTALL)
    text = re.sub(r"(L-BFGS|SGD) (resulted|terminated) .*", "", text)
    text = re.sub(r"Improvement ratio.*\n|Learning rate.*\n|Total number of.*\n|Total sec.*\n|Loss:.*\n", "", text)
    return re.sub(r"-?\d+\.\d+|nan|\d+|\*{6}", "N", text).replace(".", "").strip()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_log_is_crfsuites_line_by_line_and_both_parsers_read_it_alike(tmp_path, algorithm):
    X, y = data(5, n=60)
    groups = [i % 3 for i in range(len(X))]
    logs = [
        trained(package, tmp_path / package.__name__, X, y, algorithm, groups, 1, max_iterations=4)[1]
        for package in (real, ours)
    ]
    numbers = re.compile(r"\d+")
    assert numbers.sub("N", shape(logs[1]).replace("N", "")) == numbers.sub("N", shape(logs[0]).replace("N", ""))
    for log in logs:
        mine, theirs = TrainLogParser(), RealParser()
        assert [mine.feed(line) for line in log] == [theirs.feed(line) for line in log]
        assert mine.events == theirs.events and mine.last_log == theirs.last_log
        for name in (
            "featgen_percent",
            "featgen_num_features",
            "featgen_seconds",
            "training_seconds",
            "storing_seconds",
        ):
            assert (getattr(mine, name) or None) == (getattr(theirs, name) or None)  # the real one forgets zeros
        assert len(mine.iterations) == len(theirs.iterations) > 0
        for own, other in zip(mine.iterations, theirs.iterations, strict=True):
            assert {**own, "scores": None, "error_norm": 0} == {**other, "scores": None, "error_norm": 0}
            assert {k: tuple(v) for k, v in own["scores"].items()} == {k: tuple(v) for k, v in other["scores"].items()}
            assert {"loss", "feature_norm", "time", "item_accuracy", "avg_f1"} <= set(own) or algorithm == "l2sgd"


def test_holdout_data_is_only_reported_on(tmp_path):
    X, y = data(8, n=40)
    groups = [i % 2 for i in range(len(X))]
    held, log = trained(ours, tmp_path / "held", X, y, groups=groups, holdout=1, c2=0.1)
    alone, _ = trained(ours, tmp_path / "alone", X[::2], y[::2], c2=0.1)
    found, wanted = open_(ours, held).info(), open_(ours, alone).info()
    assert found.state_features == pytest.approx(wanted.state_features, abs=1e-3)
    predicted = open_(ours, held).tag_all(X[1::2])
    right = sum(a == b for p, g in zip(predicted, y[1::2], strict=True) for a, b in zip(p, g, strict=True))
    last = [line for line in log if line.startswith("Item accuracy")][-1]
    assert abs(int(last.split()[2]) - right) <= 1 and log[0] == "Holdout group: 2\n"


def test_hooks_see_the_events_and_an_exception_ends_training(tmp_path, capsys):
    seen = []

    class Hooked(ours.Trainer):
        def on_iteration(self, log, info):
            seen.append((info["num"], info["loss"] > 0, info["error_norm"] >= 0, log.startswith("***** Iteration")))
            if len(seen) == 3:
                raise RuntimeError("enough")

    trainer = Hooked()
    X, y = data(5)
    for xseq, yseq in zip(X, y, strict=True):
        trainer.append(xseq, yseq)
    with pytest.raises(RuntimeError, match="enough"):
        trainer.train(tmp_path / "m")
    assert [number for number, *_ in seen] == [1, 2, 3] and all(all(more) for _, *more in seen)
    assert "type: CRF1d" in capsys.readouterr().out and not list(tmp_path.iterdir())
    trainer = pickle.loads(pickle.dumps(ours.Trainer(verbose=False)))
    trainer.append(X[0], y[0])
    pickle.loads(pickle.dumps(trainer)).train(tmp_path / "m")
    trainer.train("")
    assert set(open_(ours, tmp_path / "m").labels()) == set(y[0])


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("xseq", "yseq", "kind", "says"),
    [([["a"]], ["A", "B"], ValueError, r"differ: \|x\| = 1, \|y\| = 2"),
     ([{"a": None}], ["A"], TypeError, "position 0 .*None"),
     ([["a"], {"a": float("nan")}], ["A", "A"], ValueError, "position 1 .*nan"),
     (["abc"], ["A"], ValueError, "position 0 .*'abc'"),
     ("abc", ["A", "B", "C"], ValueError, "a list of items"),
     ({"a": 1}, ["A"], ValueError, "a list of items"),
     ([["a"]], [1], TypeError, "a label is a string"),
     ([["a"]], "A", TypeError, "a list of strings"),
     ([[{"foo": "bar"}]], ["A"], ValueError, "position 0")],
)  # fmt: skip
def test_a_sequence_that_is_none_is_refused_and_leaves_the_data_alone(tmp_path, xseq, yseq, kind, says):
    trainer = ours.Trainer(verbose=False)
    trainer.append([["x"], ["y"]], [b"A", "B"])
    with pytest.raises(kind, match=says):
        trainer.append(xseq, yseq)
    trainer.train(tmp_path / "m")
    assert open_(ours, tmp_path / "m").labels() == ["A", "B"]


def test_a_tagger_says_what_it_was_not_given(tmp_path):
    tagger = ours.Tagger()
    for question in (tagger.labels, tagger.tag, lambda: tagger.probability([]), lambda: tagger.marginal("A", 0)):
        with pytest.raises(ValueError, match="open"):
            question()
    for question in (tagger.info, tagger.dump):
        with pytest.raises(RuntimeError, match="open"):
            question()
    path, _ = trained(ours, tmp_path / "m", [[["x"], ["y"]]], [["A", "B"]])
    tagger.open(path)
    with pytest.raises(ValueError, match="no sequence yet"):
        tagger.tag()
    assert tagger.tag([]) == [] and tagger.probability([]) == 0.0 and tagger.marginals() == []
    tagger.set([["x"]])
    with pytest.raises(RuntimeError, match="Failed to convert into label identifier: Q"):
        tagger.marginal("Q", 0)
    with pytest.raises(RuntimeError, match="Q"):
        tagger.probability(["Q"])
    with pytest.raises(ValueError, match="out of range"):
        tagger.marginal("A", 1)
    assert tagger.marginal("A", 0.0) == tagger.marginal("A", np.int64(0))
    with pytest.raises(ValueError, match="differ"):
        tagger.probability(["A", "A"])
    for bad in ("foo", ["foo"], [[{"foo": 1.0}]], 5):
        with pytest.raises(ValueError):
            tagger.tag(bad)
    (tmp_path / "long.txt").write_text("x" * 100_000)
    tagger.dump(tmp_path / "long.txt")
    assert (tmp_path / "long.txt").read_text().endswith("}\n\n")  # nothing is left of what was there
    for data_ in (b"", b"lCRF", b"lCRFfoo" * 100, path.read_bytes()[:-1]):
        with pytest.raises(ValueError, match="CRFsuite"):
            tagger.open_inmemory(data_)
    with pytest.raises(OSError):
        tagger.open(tmp_path / "missing")
    assert tagger.labels() == ["A", "B"]  # of the model before


def test_a_trainer_says_early_that_a_model_could_not_be_written(tmp_path):
    trainer = ours.Trainer(verbose=False)
    trainer.append([["x\0"]], ["A"])
    with pytest.raises(ValueError, match="NUL"):
        trainer.train(tmp_path / "m")
    trainer.clear()
    with pytest.raises(OSError, match="no folder"):
        trainer.train(tmp_path / "no" / "folder")
    trainer.train(tmp_path / "m")  # of nothing
    empty, theirs = open_(ours, tmp_path / "m"), open_(real, tmp_path / "m")
    assert empty.labels() == theirs.labels() == [] and empty.tag([]) == []
    with pytest.raises(ValueError, match="trained on nothing"):
        empty.tag([["x"]])
    assert empty.info().header["num_labels"] == "0"
    assert (
        str(ours.CRFSuiteError(5)) == "Unexpected error" and pickle.loads(pickle.dumps(ours.CRFSuiteError(5))).code == 5
    )


def test_a_model_of_our_own_is_opened_as_well(tmp_path):
    from loglinear import Tagger

    X, y = [[{"w": "a"}, {"w": "b"}]], [["A", "B"]]
    Tagger(max_iter=5, precision="float64").fit(X, y).save(tmp_path / "m")
    tagger = open_(ours, tmp_path / "m")
    assert tagger.tag(X[0]) == ["A", "B"] and ("w:a", "A") in tagger.info().state_features
    Tagger(template="words", max_iter=5).fit([["a", "b"]], y).save(tmp_path / "m")
    with pytest.raises(ValueError, match="looks at columns"):
        tagger.open(tmp_path / "m")
