"""Training that is stopped early, interrupted, resumed or started from another model; and model files."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from loglinear import Tagger
from loglinear.errors import ModelFileError, OptionError
from loglinear.training.run import TrainingInterrupted


def test_early_stopping_keeps_the_best_weights(data, more_data):
    tagger = Tagger(template="words", l2=0.001, patience=3).fit(*data, *more_data)
    scores = [progress.dev_score for progress in tagger.history_]
    assert tagger.dev_score_ == max(scores)
    assert tagger.best_iteration_ == scores.index(max(scores)) + 1
    assert tagger.score(*more_data, metric="f1") == pytest.approx(max(scores))
    assert tagger.n_iter_ <= tagger.best_iteration_ + 3 or tagger.converged_


@pytest.mark.parametrize("metric", ["f1", "accuracy"])
def test_the_dev_score_is_the_metric_asked_for(data, more_data, metric):
    tagger = Tagger(template="words", metric=metric, max_iter=5).fit(*data, *more_data)
    assert tagger.dev_score_ == pytest.approx(tagger.score(*more_data, metric=metric))


def test_a_warm_start_saves_iterations(data):
    cold = Tagger(template="chunking", optimizer="lbfgs", tolerance=1e-7).fit(*data)
    warm = Tagger(template="chunking", optimizer="lbfgs", tolerance=1e-7).fit(*data, init=cold)
    assert warm.n_iter_ < cold.n_iter_ / 2
    assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-5)


def test_a_warm_start_takes_over_what_both_models_have(data, more_data, tmp_path):
    old = Tagger(template="chunking", order=2, pair_features=True).fit(*data)
    old.save(tmp_path / "old.model")
    X = more_data[0]
    y = [["B-NEW" if label == "O" else label for label in labels] for labels in more_data[1]]
    new = Tagger(template="chunking", order=2, pair_features=True, max_iter=0).fit(X, y, init=tmp_path / "old.model")
    assert "B-NEW" in new.classes_
    for kind in ("state_weights_", "edge_weights_", "transition_weights_", "trigram_weights_"):
        theirs, mine = getattr(old, kind), getattr(new, kind)
        shared = set(theirs) & set(mine)
        assert shared and all(mine[key] == theirs[key] for key in shared)
        assert all(theirs.get(key, 0.0) == weight for key, weight in mine.items())  # zero weights are not kept


def test_resuming_gives_the_weights_of_a_run_that_was_not_stopped(data, more_data, tmp_path):
    checkpoint = tmp_path / "model.checkpoint"

    class Stop(Exception):
        pass

    def stop_at(iteration):
        def observe(progress):
            if progress.iteration == iteration:
                raise Stop

        return observe

    options = {"template": "chunking", "l2": 0.1, "l1": 0.05, "tolerance": 1e-7}
    whole = Tagger(**options).fit(*data, *more_data)
    for iteration in (3, 7):
        with pytest.raises(Stop):
            Tagger(**options).fit(
                *data, *more_data, checkpoint=checkpoint, checkpoint_seconds=0, resume=True, observe=stop_at(iteration)
            )
        assert Tagger.load(checkpoint).predict(data[0])  # a usable model
    resumed = Tagger(**options, threads=1).fit(*data, *more_data, checkpoint=checkpoint, resume=True)
    assert resumed.to_bytes() == whole.to_bytes()
    finished = Tagger(**options).fit(*data, *more_data, checkpoint=checkpoint, resume=True)
    assert np.array_equal(finished.model_.weights, whole.model_.weights)  # going on from the end stays there


def test_a_checkpoint_of_another_training_is_refused(data, more_data, tmp_path):
    checkpoint = tmp_path / "model.checkpoint"

    def stop(progress):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        Tagger(template="words").fit(
            *data, checkpoint=checkpoint, checkpoint_seconds=0, observe=lambda p: p.iteration == 3 and stop(p)
        )
    with pytest.raises(OptionError, match="other data or options"):
        Tagger(template="words", l2=2.0).fit(*data, checkpoint=checkpoint, resume=True)
    with pytest.raises(OptionError, match="other data or options"):
        Tagger(template="words").fit(*more_data, checkpoint=checkpoint, resume=True)
    with pytest.raises(OptionError, match="needs the checkpoint"):
        Tagger(template="words").fit(*data, resume=True)
    with pytest.raises(OptionError, match="did not end"):
        Tagger(template="words").fit(*data, checkpoint=checkpoint)
    with pytest.raises(OptionError, match="other data or options"):
        Tagger(template="words").fit(
            *data, checkpoint=checkpoint, resume=True, init=Tagger(template="words").fit(*data)
        )


def test_a_checkpoint_with_other_dev_labels_is_refused(data, more_data, tmp_path):
    def stop(progress):
        if progress.iteration == 3:
            raise RuntimeError

    options = {"checkpoint": tmp_path / "c", "checkpoint_seconds": 0}
    with pytest.raises(RuntimeError):
        Tagger(template="words").fit(*data, *more_data, observe=stop, **options)
    others = [["O"] * len(labels) for labels in more_data[1]]
    with pytest.raises(OptionError, match="other data or options"):
        Tagger(template="words").fit(*data, more_data[0], others, resume=True, **options)
    with pytest.raises(OptionError, match="without X_dev"):
        Tagger(template="words").fit(*data, y_dev=others)


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_training(data, tmp_path, monkeypatch):
    def full(*arguments):
        raise ModelFileError("no room")

    monkeypatch.setattr("loglinear.model_file.save", full)
    with pytest.warns(RuntimeWarning, match="no checkpoint could be written"):
        tagger = Tagger(template="words").fit(*data, checkpoint=tmp_path / "c", checkpoint_seconds=0)
    assert tagger.score(*data) > 0.9


SCRIPT = textwrap.dedent(
    """
    import sys
    from loglinear import Tagger
    X = [[(f"w{i * j % 17}", f"t{i % 3}") for j in range(9)] for i in range(40)]
    y = [[f"L{(i + j * j) % 5}" for j in range(9)] for i in range(40)]
    def observe(progress):
        print(progress.iteration, flush=True)
        import time; time.sleep(0.05)
    tagger = Tagger(template="chunking", l2=1e-4, tolerance=0, optimizer="lbfgs")
    tagger.fit(X, y, checkpoint=sys.argv[1], observe=observe)
    """
)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_checkpoint(tmp_path, sign):
    checkpoint = tmp_path / "model.checkpoint"
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(checkpoint)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    for line in process.stdout:
        if int(line) == 4:
            break
    process.send_signal(sign)
    error = process.communicate(timeout=60)[1].decode()
    assert "TrainingInterrupted" in error and process.returncode != 0
    stopped = Tagger.load(checkpoint)
    assert stopped.n_iter_ >= 4 and len(stopped.classes_) == 5


def test_an_interruption_without_a_checkpoint_is_still_an_interruption(data):
    before = signal.getsignal(signal.SIGINT)

    def interrupt(progress):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

    with pytest.raises(TrainingInterrupted, match=r"after iteration 1$"):
        Tagger(template="words").fit(*data, observe=interrupt)
    assert signal.getsignal(signal.SIGINT) is before


# -- model files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"template": "chunking"},
        {"template": "ner", "order": 2, "constraints": "bio"},
        {"template": "words", "pair_features": True, "l1": 0.5},
        {"template": None, "states": "all", "transitions": "all"},
    ],
)
def test_a_saved_model_answers_as_before(data, more_data, tmp_path, options):
    X, Z = data[0], more_data[0]
    if options["template"] is None:
        X, Z = ([[{"w": w, "t": t} for w, t in s] for s in part] for part in (X, Z))
    tagger = Tagger(**options).fit(X, data[1])
    path = tmp_path / "some.model"
    tagger.save(path)
    for again in (Tagger.load(path), Tagger.load(path.read_bytes())):
        assert again.predict_marginals(Z) == tagger.predict_marginals(Z)
        assert again.predict_nbest(Z, 3) == tagger.predict_nbest(Z, 3)
        assert again.state_weights_ == tagger.state_weights_
        assert again.get_params()["l2"] == tagger.l2
        assert again.to_bytes() == path.read_bytes()


def test_every_flipped_byte_and_every_truncation_is_an_error():
    tagger = Tagger(template="U:%x[0,0]\nB\n").fit([["a", "b"]], [["x", "y"]])
    content = tagger.to_bytes()
    for i in range(len(content)):
        with pytest.raises(ModelFileError):
            Tagger.load(content[:i])
        with pytest.raises(ModelFileError):
            Tagger.load(content[:i] + bytes([content[i] ^ (1 << i % 8)]) + content[i + 1 :])


def test_a_well_signed_model_that_does_not_fit_together_is_an_error(data):
    from loglinear import model_file

    tagger = Tagger(template="words", order=2, pair_features=True).fit(*data)
    stored = model_file.load(tagger.to_bytes())
    broken = 0
    for name, array in stored.arrays.items():
        changes = [array[:-1]]
        if name != "strings.offsets":  # one more offset is one more, empty, string that nothing uses: no damage
            changes.append(np.concatenate([array, array[-1:]]))
        if array.dtype.kind == "i":
            changes += [
                np.where(np.arange(len(array)) == 0, -1, array),
                np.where(np.arange(len(array)) == 0, 2**30, array),
            ]
        else:
            changes += [array * np.nan] if array.dtype.kind == "f" else []
        for changed in changes:
            content = model_file.dumps(stored.kind, stored.header, {**stored.arrays, name: changed.astype(array.dtype)})
            with pytest.raises(ModelFileError):
                Tagger.load(content)
            broken += 1
    for key, value in [
        ("labels", []), ("labels", ["a", "a"]), ("order", 7), ("constraints", {"scheme": 3}), ("encoder", {}),
        ("options", {"l2": -1}), ("options", {"x": 1}), ("training", None),
    ]:  # fmt: skip
        with pytest.raises(ModelFileError):
            Tagger.load(model_file.dumps(stored.kind, {**stored.header, key: value}, stored.arrays))
        broken += 1
    assert broken > 30
