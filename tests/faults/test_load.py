"""One model used by many threads and processes for long, many trainings in a process: equal answers, flat memory."""

import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import loglinear
from faults.commands import SOURCE, TESTS
from faults.counts import count, counts
from loglinear import Tagger, read_columns

pytestmark = pytest.mark.slow
THREADS, PROCESSES = 64, 16
GROWTH = 12_000_000  # bytes that the allocator and the interpreter may take for themselves
_shared = {}


def resident():
    """Bytes of memory that this process has now, without what it shares with others."""
    gc.collect()
    with open("/proc/self/statm") as stream:
        pages = [int(each) for each in stream.read().split()]
    return (pages[1] - pages[2]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def tagger(inputs):
    return Tagger.load(inputs / "tagger.model")


@pytest.fixture(scope="module")
def sentences(inputs):
    return [[row[:1] for row in sentence] for sentence in _rows(inputs / "dev.txt")]


def _rows(path):
    text = Path(path).read_text(encoding="utf-8")
    return [[line.split() for line in block.splitlines()] for block in text.strip().split("\n\n")]


def answers(tagger, sentences):
    """All that a tagger says of some sentences."""
    found = [
        tagger.predict(sentences),
        [tagger.predict_single(sentence) for sentence in sentences],
        tagger.predict_marginals(sentences[:3]),
        tagger.predict_nbest(sentences[:3], k=3),
    ]
    return repr(found)


def test_64_threads_use_one_model(tagger, sentences):
    wanted, wrong, rounds = answers(tagger, sentences), [], [0] * THREADS
    last = time.monotonic() + 60.0 * counts()["minutes"]

    def use(number):
        while (time.monotonic() < last or not rounds[number]) and not wrong:
            try:
                if answers(tagger, sentences) != wanted:
                    wrong.append("another answer")
            except BaseException as error:
                wrong.append(repr(error))
            rounds[number] += 1

    threads = [threading.Thread(target=use, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    time.sleep(min(5.0, 20.0 * counts()["minutes"]))  # all of them have begun
    before = resident()
    for thread in threads:
        thread.join()
    grown = resident() - before
    print(f"\n{sum(rounds)} rounds on {THREADS} threads, memory {grown / 1e6:+.1f} MB from {before / 1e6:.0f} MB")
    assert not wrong and min(rounds) >= 1
    assert grown < GROWTH


def _use_for(seconds, wanted):
    last, before, rounds = time.monotonic() + seconds, None, 0
    while time.monotonic() < last or rounds < 2:
        if answers(_shared["tagger"], _shared["sentences"]) != wanted:
            return rounds, "another answer"
        rounds += 1
        if before is None or (rounds <= 200 and time.monotonic() < last - 0.7 * seconds):
            before = resident()
    return rounds, resident() - before


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_16_processes_use_one_model(tagger, sentences, inputs, method):
    """Forked with the model, or each with its own mapping of the file."""
    wanted, seconds = answers(tagger, sentences), 60.0 * counts()["minutes"]
    if method == "fork":
        _shared.update(tagger=tagger, sentences=sentences)
        with multiprocessing.get_context("fork").Pool(PROCESSES) as pool:
            found = pool.starmap(_use_for, [(seconds, wanted)] * PROCESSES)
    else:
        code = "import sys; from faults.test_load import use_file; use_file(*sys.argv[1:])"
        environment = {**os.environ, "PYTHONPATH": f"{SOURCE}:{TESTS}"}
        (inputs / "wanted").write_text(wanted, encoding="utf-8")
        children = [
            subprocess.Popen([sys.executable, "-c", code, str(inputs), str(min(seconds, 60.0))], env=environment,
                             stdout=subprocess.PIPE, text=True)
            for _ in range(PROCESSES)
        ]  # fmt: skip
        found = [tuple(map(int, child.communicate()[0].split())) for child in children]
    rounds, grown = zip(*found, strict=True)
    print(f"\n{sum(rounds)} rounds in {PROCESSES} processes ({method}), memory at most {max(grown) / 1e6:+.1f} MB")
    assert all(isinstance(each, int) and each < GROWTH for each in grown), grown


def use_file(folder, seconds):
    """A process of its own that uses the model file in a folder; prints its rounds and what its memory grew by."""
    rows = [[row[:1] for row in sentence] for sentence in _rows(Path(folder) / "dev.txt")]
    _shared.update(tagger=Tagger.load(Path(folder) / "tagger.model"), sentences=rows)
    print(*_use_for(float(seconds), (Path(folder) / "wanted").read_text(encoding="utf-8")))


def test_single_sentences_without_end(tagger, sentences):
    wanted = tagger.predict(sentences)
    n = max(count("sentences") // len(sentences), 2)
    before = 0
    for round_ in range(n):
        if round_ == n // 10:
            before = resident()
        for sentence, labels in zip(sentences, wanted, strict=True):
            assert tagger.predict_single(sentence) == labels
    grown = resident() - before
    print(f"\n{n * len(sentences):,} sentences, memory {grown / 1e6:+.1f} MB from {before / 1e6:.0f} MB")
    assert grown < GROWTH / 4


@pytest.mark.parametrize("options", [{}, {"optimizer": "lbfgs"}, {"criterion": "perceptron"}],
                         ids=["dual", "lbfgs", "perceptron"])  # fmt: skip
def test_trainings_one_after_the_other(inputs, options):
    corpus = read_columns(inputs / "pos.txt")
    n, before, weights = count("trainings"), 0, None
    for number in range(n):
        tagger = Tagger(template="pos", max_iter=8, **options).fit(corpus)
        found = tagger.to_bytes()
        same = loglinear.model_file.load(found).arrays
        assert weights is None or all((same[name] == weights[name]).all() for name in weights)
        weights = {name: array.copy() for name, array in same.items()}
        del tagger
        if number == max(n // 10, 3):
            before = resident()
    grown = resident() - before
    print(f"\n{n} trainings {options}, memory {grown / 1e6:+.1f} MB from {before / 1e6:.0f} MB")
    assert grown < GROWTH


FIRST_CALLS = """
import os, sys, threading, time
import numpy as np
from loglinear.kernels import Kernel

def first(x):
    total = 0.0
    for each in x:
        total += second(each) + third(each)
    return total

def second(x):
    return x * x

def third(x):
    return 2.0 * x if x > 0.5 else -x

for function in (first, second, third):
    function.__module__ = "loglinear.errors"
second, third = Kernel(second, {}), Kernel(third, {})
first = Kernel(first, {})
x = np.arange(8.0)
wanted = sum(v * v + (2.0 * v if v > 0.5 else -v) for v in x)

def call(found, number):
    found[number] = first(x)

def in_threads(n):
    found = {}
    threads = [threading.Thread(target=call, args=(found, k)) for k in range(n)]
    for thread in threads:
        thread.start()
    return threads, found

def in_child():
    threads, found = in_threads(2)
    for thread in threads:
        thread.join()
    os._exit(0 if list(found.values()) == [wanted] * 2 else 1)

children = []
def fork():
    pid = os.fork()
    if pid == 0:
        in_child()
    children.append(pid)

import loglinear.kernels.compiler  # imports Numba, once instead of in each child
for _ in range(2):          # before anything is compiled
    fork()
threads, found = in_threads(8)
for _ in range(3):          # while threads compile
    time.sleep(float(sys.argv[1]) / 3)
    fork()
for thread in threads:
    thread.join()
assert list(found.values()) == [wanted] * 8, found
fork()                      # afterwards
last = time.monotonic() + 120
while children and time.monotonic() < last:
    for pid in list(children):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert status == 0, status
            children.remove(pid)
    time.sleep(0.01)
for pid in children:
    os.kill(pid, 9)
assert not children, f"{len(children)} children hang"
"""


@pytest.mark.parametrize("how", range(2 * count("starts")))
def test_the_first_call_compiles_on_many_threads_and_in_many_children_at_once(tmp_path, how):
    """Children are forked before, while and after the parent's threads compile; half of the times with a cache."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "LOGLINEAR_COMPILED": "0"}
    environment["LOGLINEAR_CACHE"] = str(tmp_path / "cache" / str(how % 2))
    script = tmp_path / "first_calls.py"
    script.write_text(FIRST_CALLS)
    for _ in range(1 + how % 2):
        done = subprocess.run(
            [sys.executable, str(script), str(0.05 + 0.1 * (how // 2 % 6))], env=environment, capture_output=True,
            text=True, timeout=200,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
