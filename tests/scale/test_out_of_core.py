"""Training with all large arrays in files: the same weights, to the last bit, as in memory."""

import hashlib
import mmap
import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import loglinear
from loglinear import Tagger, mapped, read_columns
from loglinear.data.corpora.bundled import bundled_text
from loglinear.generative import m_estimation
from loglinear.generative.hmm import model as hmm
from loglinear.generative.hmm.model import OpenVocabulary
from loglinear.optimizers import passes
from loglinear.structures.chain import conditionals, deep_pieces

warnings.filterwarnings("ignore")
BATCH = {
    "cll": {"optimizer": "lbfgs"},
    "cll with L1": {"optimizer": "lbfgs", "l1": 0.1},
    "cll in double precision": {"optimizer": "lbfgs", "precision": "float64"},
    "cll of order 2": {"optimizer": "lbfgs", "order": 2},
    "cll with pair features": {"optimizer": "lbfgs", "pair_features": True},
    "cll with buckets": {"optimizer": "lbfgs", "hash_bits": 12},
    "cll of frequent attributes": {"optimizer": "lbfgs", "min_count": 3},
    "softmax-margin": {"criterion": "softmax-margin", "optimizer": "lbfgs"},
    "memm": {"criterion": "memm", "optimizer": "lbfgs"},
    "pseudolikelihood": {"criterion": "pseudolikelihood", "optimizer": "lbfgs"},
    "piecewise": {"criterion": "piecewise", "optimizer": "lbfgs"},
    "max-margin": {"criterion": "max-margin", "optimizer": "lbfgs"},
    "risk": {"criterion": "risk", "optimizer": "lbfgs"},
    "pseudolikelihood of order 2": {"criterion": "pseudolikelihood", "optimizer": "lbfgs", "order": 2},
    "segments": {"structure": "segments", "optimizer": "lbfgs"},
    "m-estimation": {"criterion": "m-estimation"},
    "hmm": {"criterion": "hmm", "template": None, "max_iter": None},
}
IN_AN_ORDER = {
    "dual": {},
    "dual of memm": {"criterion": "memm"},
    "dual of pieces": {"criterion": "nota"},
    "dual of pieces of order 2": {"criterion": "nota", "order": 2},
    "dual of segments": {"structure": "segments"},
    "dual of max-margin": {"criterion": "max-margin"},
    "perceptron": {"criterion": "perceptron"},
    "mira": {"criterion": "mira"},
    "sgd": {"optimizer": "sgd"},
    "adagrad": {"optimizer": "adagrad"},
}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "train.txt"
    path.write_text(bundled_text("train", "chunk"), encoding="utf-8")
    return path


def trained(path, **options):
    options = {"template": "chunking", "max_iter": 4, "threads": 1, **options}
    return Tagger(**options).fit(read_columns(path, layout=False))


def digest(tagger):
    model = tagger.model_
    numbers = model.weights if model.features.n_features else model.base.model.emissions[0]
    return hashlib.sha256(np.ascontiguousarray(numbers).tobytes()).hexdigest(), tagger.objective_


@pytest.fixture
def in_files(tmp_path, monkeypatch):
    """Every array in a file."""
    monkeypatch.setattr(mapped, "SMALL", 0)
    with mapped.Paging(tmp_path, 1e12):
        yield


@pytest.mark.parametrize("name", BATCH)
def test_batch_training_finds_the_same_bits(text, name, request):
    expected = digest(trained(text, **BATCH[name]))
    request.getfixturevalue("in_files")
    assert digest(trained(text, **BATCH[name])) == expected


@pytest.mark.parametrize("name", ["cll", "cll with L1", "m-estimation", "hmm", "memm", "pseudolikelihood"])
def test_pages_that_are_given_back_all_the_time_change_nothing(text, name, in_files):
    expected, ended = digest(trained(text, **BATCH[name])), threading.Event()

    def give_back():
        while not ended.is_set():
            mapped.release()

    taker = threading.Thread(target=give_back)
    taker.start()
    try:
        assert digest(trained(text, **BATCH[name])) == expected
    finally:
        ended.set()
        taker.join()


@pytest.mark.parametrize("name", IN_AN_ORDER)
def test_steps_in_an_order_depend_on_neither_threads_nor_the_bound(text, name, tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "SMALL", 0)
    monkeypatch.setattr(passes, "RUN", 500)
    found = set()
    for threads, room in ((1, 1e12), (2, 1e12), (1, 3e8)):
        with mapped.Paging(tmp_path, mapped.resident() + room):
            found.add(digest(trained(text, threads=threads, **IN_AN_ORDER[name])))
    assert len(found) == 1


def test_a_corpus_of_one_run_is_visited_as_in_memory(text, request):
    expected = digest(trained(text))
    request.getfixturevalue("in_files")
    assert digest(trained(text)) == expected


def test_neighbours_stay_together(in_files, monkeypatch):
    monkeypatch.setattr(passes, "RUN", 10)
    offsets = np.arange(0, 1001, 2)
    order = passes.shuffled(np.arange(500), offsets, [1, 2])
    assert sorted(order.tolist()) == list(range(500))
    assert len(set((offsets[order] // 10).tolist())) == 100
    assert np.count_nonzero(np.diff(offsets[order] // 10)) == 99  # each run is entered once
    assert (np.diff(order) != 1).sum() > 300


def test_a_training_goes_on_in_files_where_it_was_stopped(text, in_files, tmp_path):
    whole = trained(text, optimizer="lbfgs", max_iter=8)
    options = {"template": "chunking", "threads": 1, "optimizer": "lbfgs"}
    corpus, kept = read_columns(text, layout=False), tmp_path / "kept"

    def stop(progress):
        if progress.iteration == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Tagger(max_iter=8, **options).fit(corpus, checkpoint=kept, checkpoint_seconds=0, observe=stop)
    assert kept.exists()
    resumed = Tagger(max_iter=8, **options).fit(corpus, checkpoint=kept, resume=True)
    assert digest(resumed) == digest(whole)


KILLED = """
import os, signal, sys
from pathlib import Path
from loglinear import Tagger, mapped, read_columns
from loglinear.optimizers import passes
from loglinear.structures.chain import conditionals, deep_pieces

def stop(progress):
    if progress.iteration == 3:
        os.kill(os.getpid(), signal.SIGKILL)

mapped.SMALL, passes.RUN = 0, 500
folder = Path(sys.argv[1])
with mapped.Paging(folder / "scratch", mapped.resident() + 500e6):
    tagger = Tagger(template="chunking", threads=1, max_iter=6, **eval(sys.argv[2]))
    corpus = read_columns(folder / "train.txt", layout=False)
    tagger.fit(corpus, checkpoint=folder / "kept", checkpoint_seconds=0, observe=stop)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system kills otherwise")
@pytest.mark.parametrize(
    "options", [{"optimizer": "lbfgs"}, {"optimizer": "lbfgs", "l1": 0.1}, {}, {"criterion": "perceptron"}], ids=str
)
def test_a_killed_training_goes_on_within_another_bound(text, tmp_path, monkeypatch, options):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "train.txt").write_bytes(text.read_bytes())
    environment = {**os.environ, "PYTHONPATH": str(Path(loglinear.__file__).parents[1])}
    command = [sys.executable, "-c", KILLED, str(tmp_path), repr(options)]
    assert subprocess.run(command, env=environment, capture_output=True).returncode == -signal.SIGKILL
    assert (tmp_path / "kept").exists() and not list((tmp_path / "scratch").iterdir())
    monkeypatch.setattr(mapped, "SMALL", 0)
    monkeypatch.setattr(passes, "RUN", 500)
    found = []
    for room, how in ((1e12, {}), (4e8, {"checkpoint": tmp_path / "kept", "resume": True})):
        with mapped.Paging(tmp_path, mapped.resident() + room):
            tagger = Tagger(template="chunking", threads=1, max_iter=6, **options)
            found.append(digest(tagger.fit(read_columns(tmp_path / "train.txt", layout=False), **how)))
    assert found[0] == found[1]


def lowest(array):
    """What an array is a view of."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


def counts(text, **options):
    problem = Tagger(criterion="m-estimation", template="words", **options).problem(read_columns(text, layout=False))
    return m_estimation.sentence_counts(problem.model.features, problem.encoded, problem.gold.labels)


def test_first_occurrences_are_unknown_whatever_the_piece(text, monkeypatch):
    corpus = read_columns(text, layout=False)
    monkeypatch.setattr(mapped, "PIECE", 7)
    vocabulary, replaced = OpenVocabulary.fit(corpus, (0, 1))
    for c, values in zip((0, 1), vocabulary.values, strict=True):
        seen, strings = set(), corpus.columns[c].strings()
        for t, string in enumerate(strings):
            assert (values[replaced.columns[c].ids[t]] == values[-1]) == (string not in seen)
            seen.add(string)


@pytest.mark.parametrize("order", [1, 2])
def test_counts_of_blocks_are_those_of_all(text, monkeypatch, order):
    options = {"criterion": "hmm", "template": None, "max_iter": None, "order": order}
    expected = trained(text, **options).model_.base.model
    monkeypatch.setattr(hmm, "BLOCK", 50)
    found = trained(text, **options).model_.base.model
    for own, other in zip((found.steps, *found.emissions), (expected.steps, *expected.emissions), strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("criterion", ["memm", "pseudolikelihood", "nota"])
def test_blocks_of_gold_labels_change_nothing(text, monkeypatch, criterion):
    expected = digest(trained(text, criterion=criterion, order=2))
    for module in (conditionals, deep_pieces):
        monkeypatch.setattr(module, "BLOCK", 50)
    assert digest(trained(text, criterion=criterion, order=2)) == expected


@pytest.mark.parametrize("options", [{}, {"order": 2}, {"pair_features": True}], ids=str)
def test_the_matrix_of_m_estimation_does_not_depend_on_blocks_and_types(text, monkeypatch, options):
    expected = counts(text, **options)
    monkeypatch.setattr(m_estimation, "BLOCK", 100)
    monkeypatch.setattr(m_estimation, "MOST_ENTRIES", 10)
    found = counts(text, **options)
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_the_matrix_of_m_estimation_lies_in_files(text, in_files):
    found = counts(text)
    assert all(isinstance(lowest(array), mmap.mmap) for array in (found.data, found.indices))


@pytest.mark.parametrize("options", [{"optimizer": "lbfgs"}, {}, {"criterion": "memm"}, {"order": 2}], ids=str)
def test_what_a_checkpoint_consists_of_lies_in_files(text, in_files, tmp_path, options, monkeypatch):
    found = {}

    def save(path, kind, header, arrays):
        found.update(arrays)
        return ""

    monkeypatch.setattr("loglinear.training.checkpoint.model_file.save", save)
    tagger = Tagger(template="chunking", threads=1, max_iter=2, **options)
    tagger.fit(read_columns(text, layout=False), checkpoint=tmp_path / "kept", checkpoint_seconds=0)
    arrays = {name: array for name, array in found.items() if name.startswith("optimizer.") and array.ndim == 2}
    assert arrays and all(isinstance(lowest(array), mmap.mmap) for array in arrays.values() if array.size)
