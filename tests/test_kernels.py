"""Kernels find a cache folder they may write to, say so when they are compiled, and never run stale machine code."""

import copy
import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import loglinear
from loglinear import Classifier, Tagger
from loglinear.kernels import Kernel, cache, compiler
from loglinear.optimizers.dual import flat as flat_dual
from loglinear.structures.arcs import sums
from loglinear.structures.arcs.best import Sentences
from loglinear.structures.chain import padded
from loglinear.system import cache_folder, in_threads, thread_count


@pytest.fixture
def fresh_cache(monkeypatch):
    cache_folder.cache_clear()
    yield monkeypatch
    cache_folder.cache_clear()


def test_the_cache_is_where_the_user_says(fresh_cache, tmp_path):
    fresh_cache.setenv("LOGLINEAR_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"


def test_the_cache_moves_on_from_folders_it_cannot_write_to(fresh_cache, tmp_path):
    (tmp_path / "file").write_text("in the way")
    fresh_cache.setenv("LOGLINEAR_CACHE", str(tmp_path / "file" / "a"))
    fresh_cache.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "b"))
    fresh_cache.setattr("tempfile.tempdir", str(tmp_path))
    folder = cache_folder()
    assert folder.parent == tmp_path and os.access(folder, os.W_OK)


def test_the_first_compilation_says_so_and_the_second_run_is_quiet(tmp_path):
    (tmp_path / "a.txt").write_text("a b\n")
    code = f"from loglinear import read_columns; read_columns({str(tmp_path / 'a.txt')!r})"
    environment = {**os.environ, "LOGLINEAR_CACHE": str(tmp_path / "cache"), "LOGLINEAR_COMPILED": "0"}

    def run():
        return subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stderr

    assert run() == "compiling new kernels, once on this machine (loglinear warm: all of them) ...\n"
    assert run() == ""


def test_a_full_disk_under_the_cache_is_said_once_and_gone_on_without(tmp_path):
    resource = pytest.importorskip("resource")
    (tmp_path / "a.txt").write_text("a b\n")
    code = f"from loglinear import read_columns; print(len(read_columns({str(tmp_path / 'a.txt')!r}).columns))"
    environment = {**os.environ, "LOGLINEAR_CACHE": str(tmp_path / "cache"), "LOGLINEAR_COMPILED": "0"}

    def no_file_beyond_1_kb():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))

    done = subprocess.run(
        [sys.executable, "-B", "-c", code],
        env=environment,
        preexec_fn=no_file_beyond_1_kb,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "2\n", done.stderr
    assert done.stderr.count("cannot keep compiled kernels in") == 1 and "Traceback" not in done.stderr


CALLEE = """
from loglinear.kernels import kernel

STEP = 1.0

@kernel
def move(x):
    return x + 10.0

@kernel
def turn(x):
    return -x
"""
CALLER = """
import numpy as np
from loglinear import callee
from loglinear.callee import STEP, move
from loglinear.kernels import kernel
from loglinear.kernels.lanes import load, store, width_of

@kernel
def between(x):  # what changes is two calls away
    return move(x)

@kernel
def walk(x):
    return callee.turn(between(x)) + STEP

@kernel
def double(a, b):  # lanes are only ever added here: no name says so
    return a + b

@kernel
def doubled(row, width):
    store(row, 0, double(load(row, 0, width), load(row, 0, width)))

row = np.arange(8, dtype=np.float32)
doubled(row, width_of(8))
print(walk(0.0), row[3])
"""


@pytest.fixture
def copied_package(tmp_path):
    """A copy of the package with two more modules; returns its folder and a function that runs the second."""
    package = tmp_path / "copy" / "loglinear"
    shutil.copytree(Path(loglinear.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "callee.py").write_text(CALLEE)
    (package / "caller.py").write_text(CALLER)
    environment = {**os.environ, "LOGLINEAR_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(package.parent)}

    def run():
        command = [sys.executable, "-W", "error", "-c", "import loglinear.caller"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split(), "compiling" in done.stderr

    return package, run


@pytest.mark.parametrize(
    ("file", "before", "after", "result"),
    [
        ("callee.py", "x + 10.0", "x + 20.0", ["-19.0", "6.0"]),
        pytest.param("callee.py", "return -x", "return x", ["11.0", "6.0"], marks=pytest.mark.slow),
        pytest.param("callee.py", "STEP = 1.0", "STEP = 2.0", ["-8.0", "6.0"], marks=pytest.mark.slow),
        pytest.param(
            "kernels/vectors.py",
            '(operator.add, "fadd")',
            '(operator.add, "fmul")',
            ["-9.0", "9.0"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_edit_of_what_a_kernel_uses_takes_effect(copied_package, file, before, after, result):
    package, run = copied_package
    assert run() == (["-9.0", "6.0"], True)
    assert run() == (["-9.0", "6.0"], False)  # from the cache
    source = next(package.rglob(file))
    assert source.read_text().count(before) == 1
    source.write_text(source.read_text().replace(before, after))
    assert run() == (result, True)
    assert run() == (result, False)


def test_comments_docstrings_and_places_do_not_compile_anything_again(copied_package):
    package, run = copied_package
    run()
    caller = package / "caller.py"
    caller.write_text("# a comment\n" + caller.read_text().replace("return move(x)", "\n    return move(x)"))
    package.parent.rename(package.parent.parent / "elsewhere")
    (package.parent.parent / "copy").symlink_to(package.parent.parent / "elsewhere")
    assert run() == (["-9.0", "6.0"], False)


def all_kernels():
    found = pkgutil.walk_packages(loglinear.__path__, "loglinear.")
    modules = [m.name for m in found if "__main__" not in m.name and ".integrations." not in m.name]
    values = [value for module in modules for value in vars(importlib.import_module(module)).values()]
    return list({id(each): each for each in values if isinstance(each, Kernel)}.values())


def test_every_kernel_depends_on_constants_alone():
    digests = {compiler.digest_of(kernel) for kernel in all_kernels()}  # a list or dict would raise TypeError
    assert len(digests) == len(all_kernels()) > 100


def test_a_kernel_may_not_use_what_can_change():
    table = {"a": 1}

    def reads(key):
        return table[key]

    reads.__module__ = "loglinear.x"
    with pytest.raises(TypeError, match=r"reads.*dict"):
        compiler.digest_of(reads)


def test_old_machine_code_is_deleted(copied_package):
    package, run = copied_package
    source = package / "callee.py"
    for number in range(cache.KEPT_VERSIONS + 2):
        source.write_text(CALLEE.replace("10.0", f"{number}.0"))
        run()
    kept = list((package.parent.parent / "cache" / cache.FOLDER / "callee").glob("callee.move-*.nbi"))
    assert len(kept) == cache.KEPT_VERSIONS
    assert run()[1] is False


def arrays_in(arguments):
    nested = [value if isinstance(value, tuple) else (value,) for value in arguments]
    return [value for values in nested for value in values if isinstance(value, np.ndarray)]


def moved(arguments, rng):
    """Copies of a kernel's arguments, whose arrays lie side by side in a random order at random addresses."""
    arrays = arrays_in(arguments)
    memory = np.zeros(sum(array.nbytes for array in arrays) + 320 * len(arrays), np.uint8)
    copies, end = {}, 0
    for k in rng.permutation(len(arrays)):
        array = arrays[k]
        begin = -(-(end + int(rng.integers(300))) // array.itemsize) * array.itemsize
        end = begin + array.nbytes
        copies[id(array)] = memory[begin:end].view(array.dtype).reshape(array.shape)
        copies[id(array)][...] = array

    def copy_of(value):
        if hasattr(value, "_fields"):
            return type(value)(*map(copy_of, value))
        return copies.get(id(value), value)

    return [copy_of(value) for value in arguments]


def outcomes(compiled, arguments):
    """What a kernel returns and leaves in its arrays, for the same arguments at different addresses."""
    rng, found = np.random.default_rng(0), set()
    for _ in range(30):
        copies = moved(arguments, rng)
        room = [np.empty(rng.integers(1, 60)) for _ in range(rng.integers(8))]  # moves the kernel's own arrays
        result = compiled(*copies)
        del room
        found.add((repr(result), *(array.tobytes() for array in arrays_in(copies))))
    return found


def recorded(module, name, train):
    """The first calls of a kernel in a training."""
    compiled, calls = getattr(module, name), []

    def record(*arguments):
        calls.append((compiled, copy.deepcopy(arguments)))
        return compiled(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, record)
        train()
    return calls[:5]


def calls_for_flat_labels(rng, n):
    scores, alpha = rng.normal(size=n), rng.dirichlet(np.ones(n))
    yield flat_dual._normalise, (scores, np.zeros(n))
    yield flat_dual._smooth_step, (scores, 1.3, alpha, 2.0, rng.dirichlet(np.ones(n)), np.zeros(n))
    yield flat_dual._hinge_step, (scores, alpha, 2.0, np.zeros(n))
    rows, labels = rng.normal(size=(8, 3)), np.arange(8) % n
    for criterion in ("cll", "max-margin"):
        for name in ("dual_pass", "losses_of", "add_weights", "add_excess", "sizes"):
            classifier = Classifier(criterion=criterion, optimizer="dual", max_iter=4, l2=0.1)
            yield from recorded(flat_dual, name, lambda: classifier.fit(rows, labels))  # noqa: B023


def calls_for_chains(rng, n):
    X = [[[f"w{rng.integers(9)}", f"x{rng.integers(4)}"] for _ in range(rng.integers(1, 9))] for _ in range(12)]
    y = [[f"label {rng.integers(n)}" for _ in x] for x in X]
    for name, optimizer in (("evaluate", "lbfgs"), ("dual_pass", "dual")):
        tagger = Tagger(optimizer=optimizer, max_iter=4, l2=0.1)
        yield from recorded(padded, name, lambda: tagger.fit(X, y))  # noqa: B023


def calls_for_trees(rng, n):
    for dtype in (float, complex):
        arcs = rng.normal(size=2 * n * (n + 1)).astype(dtype)
        log_z, status, expected = np.zeros(2, dtype), np.zeros(2, np.uint8), np.zeros_like(arcs)
        sentences = Sentences(np.array([0, n, 2 * n]), np.array([0, n * (n + 1), 2 * n * (n + 1)]))
        yield sums.scaled, (sentences, arcs, False, rng.random(2), log_z, status, expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n", [2, 5, 8, 17])
@pytest.mark.parametrize("calls", [calls_for_flat_labels, calls_for_chains, calls_for_trees])
def test_loose_kernels_round_the_same_wherever_their_arrays_lie(calls, n):
    differing = [compiled.__name__ for compiled, arguments in calls(np.random.default_rng(n), n)
                 if len(outcomes(compiled, arguments)) > 1]  # fmt: skip
    assert not differing


TRAINING = """
import hashlib, numpy as np
from loglinear.optimizers.dual.flat import Rates, dual_pass
from loglinear.optimizers.objective import FlatRows

rng, n = np.random.default_rng(0), 300
pointer, gold, costs = np.arange(n + 1) * 10, rng.integers(20, size=n).astype(np.int32), 1.0 - np.eye(20)
rows = FlatRows(pointer, np.zeros(0, np.int32), rng.normal(size=10 * n), gold, np.ones(n), costs, 1.0)
weights, alpha = np.zeros((11, 20)), np.eye(20)[gold]
for _ in range(3):
    dual_pass(np.arange(n), rows, Rates(0.5, 0.5, 0.0, 0.0, False), weights, alpha, np.zeros(n), np.zeros(n))
print(hashlib.sha256(weights.tobytes()).hexdigest())
"""


def test_machine_code_does_not_depend_on_what_is_in_the_cache(tmp_path):
    """An empty cache, a full one, one without the caller, and one without it and one of the functions it calls."""
    environment = {**os.environ, "LOGLINEAR_CACHE": str(tmp_path)}
    folder = tmp_path / cache.FOLDER / "optimizers.dual.flat"

    def weights(*missing):
        for name in missing:
            files = list(folder.glob(f"flat.{name}-*"))
            assert files
            for file in files:
                file.unlink()
        command = [sys.executable, "-c", TRAINING]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    first = weights()
    assert weights() == first
    assert weights("dual_pass") == first
    assert weights("dual_pass", "_smooth_step") == first


def test_threads_keep_the_order():
    assert in_threads(lambda x: x * x, range(20), 4) == [x * x for x in range(20)]
    assert thread_count(None) >= 1


def test_the_caller_is_one_of_the_threads():
    both = threading.Barrier(2, timeout=10)  # two items at a time, or it breaks
    found = in_threads(lambda _: (both.wait(), threading.get_ident())[1], range(2), 2)
    assert len(set(found)) == 2 and threading.get_ident() in found


@pytest.mark.parametrize("n_threads", [1, 2, 4])
def test_the_first_item_that_fails_is_reported_and_later_ones_are_not_started(n_threads):
    started = []

    def fail(item):
        started.append(item)
        time.sleep(0.01 if item == 1 else 0.0)
        if item in (1, 2):
            raise ValueError(item)

    with pytest.raises(ValueError, match="1"):
        in_threads(fail, range(100), n_threads)
    assert len(started) < 100
