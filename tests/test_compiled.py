"""Kernels compiled ahead: the same bits as Numba's, without Numba, and never stale or damaged."""

import copy
import gc
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import hypothesis.strategies as st
import numba
import numpy as np
import pytest
from hypothesis import given, settings

import loglinear
from loglinear.criteria.criterion import CRITERIA, criteria_of
from loglinear.data.corpora.bundled import bundled_text
from loglinear.experiments import roads
from loglinear.kernels import Kernel, ahead, build, processor, recorder, signature
from loglinear.kernels.digest import sources_of
from loglinear.structures.chain.structure import Chain
from loglinear.system import available_cores

pytestmark = pytest.mark.skipif(
    processor.level() is None or shutil.which("cc") is None, reason="no kernels are compiled ahead on this machine"
)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """A folder with the kernels of all roads: the package's, if they are current, or made now."""
    calls = build.recorded_roads()
    if build.holds(ahead.SHIPPED, calls):
        return ahead.SHIPPED
    folder = tmp_path_factory.mktemp("cache") / "compiled"
    build.build(folder, calls, processes=available_cores())
    return folder


@pytest.fixture
def environment(compiled):
    """Variables of a process that finds these kernels."""
    return {**os.environ, "LOGLINEAR_CACHE": str(compiled.parent)} if compiled != ahead.SHIPPED else dict(os.environ)


def python(code, environment, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


# -- the default road --------------------------------------------------------------------------------------------------

COMMANDS = """
import json, sys
from loglinear.cli import main
for arguments in json.loads(sys.argv[1]):
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as end:
        assert not end.code, arguments
"""
NO_NUMBA = "\nassert 'numba' not in sys.modules"
NOTHING_HEAVY = """
heavy = {"numba", "llvmlite", "sklearn", "scipy"} & set(sys.modules)
assert not heavy, heavy
"""


def default_road(folder, *, n_labels=None):
    """Commands that a user gives, on other data than the build's."""
    train, model = folder / "train.txt", folder / "a.model"
    train.write_text(bundled_text("dev", "chunk") if n_labels is None else many_labels(n_labels))
    rest = "--template", "chunking", "--constraints", "bio", "--max-iter", "6", "-q"
    commands = [
        ["train", train, "-o", model, *rest],
        ["tag", model, train, "-o", folder / "tagged.txt"],
        ["tag", model, train, "--marginals", "-o", folder / "marginals.txt"],
        ["tag", model, train, "--decoding", "posterior", "-o", folder / "posterior.txt"],
        ["eval", train, "--model", model],
        ["train", train, "-o", folder / "lbfgs.model", "--optimizer", "lbfgs", *rest],
        ["train", train, "-o", folder / "dev.model", "--dev", train, *rest],
    ]
    return json.dumps([list(map(str, command)) for command in commands])


def many_labels(n):
    rng = np.random.default_rng(n)
    rows = [f"word{rng.integers(50)} T{rng.integers(5)} B-L{k % n}" for k in range(4 * n)]
    return "\n\n".join("\n".join(rows[i : i + 6]) for i in range(0, len(rows), 6)) + "\n"


SOME_LABELS, OTHER_LABELS = (None, 9, 64, 130), (3, 8, 17, 33, 41, 57, 75, 96, 112)


@pytest.mark.parametrize("n_labels", [*SOME_LABELS, *(pytest.param(n, marks=pytest.mark.slow) for n in OTHER_LABELS)])
def test_the_default_road_is_in_the_build_and_needs_no_compiler(environment, tmp_path, n_labels):
    done = python(COMMANDS + NOTHING_HEAVY, environment, default_road(tmp_path, n_labels=n_labels))
    assert "compiling" not in done.stderr


def road_of(criterion, order, folder, n_labels=None):
    """Training by a criterion, and labelling; at order 1 with so many sentences that two parts share a pass."""
    train, model = folder / "train.txt", folder / "a.model"
    bundled = bundled_text("train", "chunk") * (8 if order == 1 else 1)
    train.write_text(bundled if n_labels is None else many_labels(n_labels))
    rest = ["--template", "chunking", "--constraints", "bio", "--max-iter", "4", "--dev", train]
    commands = [
        ["train", train, "-o", model, "--criterion", criterion, "--order", order, "-q"]
        + (rest if CRITERIA[criterion].learns_weights else []),
        ["tag", model, train, "-o", folder / "tagged.txt"],
        ["eval", train, "--model", model],
    ]
    return json.dumps([list(map(str, command)) for command in commands])


@pytest.mark.parametrize("order", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("criterion", criteria_of(Chain))
def test_no_criterion_needs_a_compiler(environment, tmp_path, criterion, order):
    done = python(COMMANDS + NO_NUMBA, environment, road_of(criterion, order, tmp_path))
    assert "compiling" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("n_labels", [3, 9, 33, 48])
@pytest.mark.parametrize("criterion", ["risk", "max-margin", "memm", "nota", "mira"])
def test_no_criterion_needs_a_compiler_for_up_to_48_labels(environment, tmp_path, criterion, n_labels):
    done = python(COMMANDS + NO_NUMBA, environment, road_of(criterion, 1, tmp_path, n_labels))
    assert "compiling" not in done.stderr


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_stochastic_steps_need_no_compiler(environment, tmp_path, optimizer):
    (tmp_path / "train.txt").write_text(bundled_text("dev", "chunk"))
    rest = ["--template", "chunking", "--optimizer", optimizer, "--max-iter", "2", "-q"]
    command = ["train", str(tmp_path / "train.txt"), "-o", str(tmp_path / "a.model"), *rest]
    assert "compiling" not in python(COMMANDS + NO_NUMBA, environment, json.dumps([command])).stderr


def test_both_forms_give_the_same_files_to_the_last_bit(environment, tmp_path):
    written = []
    for form, switch in (("ahead", "1"), ("jit", "0")):
        folder = tmp_path / form
        folder.mkdir()
        code = COMMANDS + (NOTHING_HEAVY if form == "ahead" else "assert 'numba' in sys.modules")
        python(code, {**environment, "LOGLINEAR_COMPILED": switch}, default_road(folder))
        written.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    assert written[0].keys() == written[1].keys() and len(written[0]) == 7
    assert [name for name in written[0] if written[0][name] != written[1][name]] == []


def floats(values):
    """What a kernel returned and left behind, but for whole numbers, of which it may leave some unset."""
    for value in values if isinstance(values, tuple | list) else (values,):
        if isinstance(value, tuple):
            yield from floats(value)
        elif isinstance(value, np.ndarray):
            if value.dtype.kind == "f":
                yield value.tobytes()
        else:
            yield value


def copied_together(value, owners):
    """A copy of arguments in which arrays share memory where they do in the original."""
    if isinstance(value, tuple):
        items = (copied_together(item, owners) for item in value)
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if not isinstance(value, np.ndarray) or value.size == 0:
        return copy.deepcopy(value)
    owner = value
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    memory = owners.setdefault(id(owner), owner.copy(order="K")).ravel(order="K").view(np.uint8)
    place = value.ctypes.data - owner.ctypes.data
    made = np.ndarray(value.shape, value.dtype, memory, place, value.strides)
    made.flags.writeable = value.flags.writeable
    return made


# Numbers of labels for the default road and for all criteria: Numba compiles every kernel for each width of rows.
FEW_WIDTHS = (roads.FEW_LABELS, 70), (roads.FEW_LABELS,)  # of one block and of two
ALL_WIDTHS = roads.LABELS, roads.FEWER_LABELS


@pytest.mark.parametrize("labels", [FEW_WIDTHS, pytest.param(ALL_WIDTHS, marks=pytest.mark.slow)], ids=["few", "all"])
def test_every_kernel_gives_the_bits_of_numbas(compiled, monkeypatch, labels):
    library, compared, lock = ahead.Library(compiled), set(), threading.Lock()

    def both(kernel, *arguments):
        functions = list(library.functions(kernel))
        assert functions, kernel.name
        with lock:  # threads write to parts of the same arrays
            copies = copied_together(arguments, {})
            results = [result for function in functions if (result := function(*arguments)) is not NotImplemented]
            assert len(results) == 1, kernel.name
            ours = list(floats((results[0], arguments)))
            assert ours == list(floats((kernel.compiled(*copies), copies))), kernel.name
        compared.add(kernel.name)
        return results[0]

    monkeypatch.setattr(Kernel, "__call__", both)
    default, criteria = labels
    roads.walk_default(default)
    roads.walk_criteria(criteria)
    assert len(compared) > 40


# -- what is damaged, stale or from elsewhere is not used --------------------------------------------------------------


@pytest.fixture
def copied(compiled, tmp_path):
    folder = tmp_path / "compiled"
    shutil.copytree(compiled, folder)
    return folder


def rewritten(folder, **changes):
    text = json.dumps({**ahead.read_index((folder / ahead.INDEX).read_bytes()), **changes})
    (folder / ahead.INDEX).write_text(f"{ahead.hashlib.sha256(text.encode()).hexdigest()}\n{text}")


def test_what_is_whole_is_used(copied):
    rewritten(copied)
    assert ahead.opened(copied) is not None


@pytest.mark.parametrize("change", [{"format": 0}, {"level": "x86-64-v4"}, {"platform": "plan9-vax"}, {"digest": "0"}])
def test_what_was_made_for_another_machine_is_not_used(copied, change):
    rewritten(copied, **change)
    assert ahead.opened(copied) is None


def test_a_damaged_or_missing_file_is_not_used(copied):
    library, index = next(copied.glob("*.so")), copied / ahead.INDEX
    for file in (library, index):
        whole = file.read_bytes()
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        for damaged in (whole[:middle], whole[:-1], flipped, b""):
            file.write_bytes(damaged)
            ahead.opened.cache_clear()
            assert ahead.opened(copied) is None
        file.write_bytes(whole)
    ahead.opened.cache_clear()
    assert ahead.opened(copied) is not None
    library.unlink()
    ahead.opened.cache_clear()
    assert ahead.opened(copied) is None


def test_what_belongs_to_someone_else_is_not_used(copied, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: copied.stat().st_uid + 1)
    assert ahead.opened(copied) is None


CALLEE = """
from loglinear.kernels import kernel
from loglinear.values import STEP

@kernel
def move(x):
    return x + 10.0
"""
CALLER = """
import numpy as np
from typing import NamedTuple
from loglinear.callee import STEP, move
from loglinear.kernels import kernel

class Pair(NamedTuple):
    left: object
    right: object

@kernel
def walk(x):
    return move(x) + STEP

@kernel
def mixed(pair, flag, small, strided):
    made = np.zeros((2, 3))
    made[1, 2] = pair.left[0] + small
    return Pair(made, pair.right), not flag, strided[1:], np.uint8(250), pair.left[0] * 1j, small

@kernel
def too_much(n):
    return np.empty(n)[0]

@kernel
def refuses(n):
    if n > 2:
        raise ValueError("more than two")
    return n

def all_of_it():
    grid = np.arange(12, dtype=np.int32).reshape(3, 4)
    return [walk(0.0), mixed(Pair(np.ones(1), 2), True, np.float32(0.5), grid[:, 1]), too_much(3) is None, refuses(2)]
"""
BUILD = """
from pathlib import Path
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from loglinear import caller
from loglinear.kernels import build, recorder
with recorder.recorded() as calls:
    caller.all_of_it()
build.build(Path(sys.argv[1]), calls, 1)
"""


@pytest.fixture(scope="session")
def other_package(tmp_path_factory):
    """A copy of the package with more kernels, compiled ahead: its folder and a function that runs code in it."""
    folder = tmp_path_factory.mktemp("other")
    package = folder / "copy" / "loglinear"
    ignored = shutil.ignore_patterns("__pycache__", "compiled")
    shutil.copytree(Path(loglinear.__file__).parent, package, ignore=ignored)
    (package / "values.py").write_text("STEP = 1.0\n")
    (package / "callee.py").write_text(CALLEE)
    (package / "caller.py").write_text(CALLER)
    environment = {**os.environ, "LOGLINEAR_CACHE": str(folder / "cache"), "PYTHONPATH": str(package.parent)}
    python(BUILD, environment, folder / "cache" / "compiled")

    def run(code):
        done = python(f"import sys\nimport numpy as np\nfrom loglinear.caller import *\n{code}", environment)
        return done.stdout.split(), "compiling" in done.stderr

    return package, run


@pytest.mark.parametrize(
    ("file", "before", "after", "result"),
    [
        ("callee.py", "x + 10.0", "x + 20.0", "21.0"),
        ("values.py", "STEP = 1.0", "STEP = 2.0", "12.0"),
        ("caller.py", "move(x) + STEP", "move(x) - STEP", "9.0"),
    ],
)
def test_an_edit_of_what_a_kernel_uses_takes_effect(other_package, file, before, after, result):
    package, run = other_package
    assert run("print(walk(0.0))" + NO_NUMBA) == (["11.0"], False)
    source = package / file
    text = source.read_text()
    assert text.count(before) == 1
    try:
        source.write_text(text.replace(before, after))
        assert run("print(walk(0.0))")[0] == [result]
    finally:
        source.write_text(text)
    assert run("print(walk(0.0))" + NO_NUMBA) == (["11.0"], False)


def test_other_argument_types_are_compiled_by_numba(other_package):
    _, run = other_package
    assert run("print(walk(0))\nassert 'numba' in sys.modules")[0] == ["11.0"]
    assert run("print(walk(True), walk(np.float32(1)))")[0] == ["12.0", "12.0"]


def test_results_of_every_kind_come_back(other_package):
    _, run = other_package
    code = """
grid, ones = np.arange(12, dtype=np.int32).reshape(3, 4), np.ones(1)
pair, flag, view, small, number, single = mixed(Pair(ones, 2), True, np.float32(0.5), grid[:, 1])
assert type(pair) is Pair and pair.right == 2 and pair.left.tolist() == [[0, 0, 0], [0, 0, 1.5]]
assert flag is False and small == 250 and number == 1j and single == 0.5
assert view.tolist() == [5, 9] and np.shares_memory(view, grid)
del grid
assert view.tolist() == [5, 9]  # keeps what it is a part of
kept = [mixed(Pair(ones, k), True, np.float32(k), np.arange(9, dtype=np.int32)[::2])[0].left for k in range(1000)]
assert [array[1, 2] for array in kept] == [1.0 + k for k in range(1000)]
np.add(kept[0], 1, out=kept[0])
"""
    assert run(code + NO_NUMBA) == ([], False)


def test_failures_in_kernels_are_errors_of_python(other_package):
    _, run = other_package
    code = """
for call, error in ((lambda: too_much(2**58), MemoryError), (lambda: refuses(3), RuntimeError),
                    (lambda: refuses(2**70), OverflowError)):
    try:
        call()
    except error as raised:
        assert error is not RuntimeError or "refuses" in str(raised)
    else:
        raise AssertionError(error)
print(refuses(1))
"""
    assert run(code + NO_NUMBA) == (["1"], False)


def test_memory_of_results_is_given_back(other_package):
    _, run = other_package
    code = """
import resource
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
arguments = Pair(np.ones(1), 2), True, np.float32(0.5), np.arange(12, dtype=np.int32)[::2]
for _ in range(20_000):
    mixed(*arguments)
before = peak()
for _ in range(200_000):
    mixed(*arguments)
assert peak() < before + 5_000, peak() - before  # 48 bytes in each result: 10 MB with what goes with them
"""
    assert run(code + NO_NUMBA) == ([], False)


# -- building ----------------------------------------------------------------------------------------------------------


def test_without_a_c_compiler_the_build_says_so_at_once(tmp_path):
    command = [sys.executable, "-m", "loglinear.kernels.build", "-o", str(tmp_path / "compiled")]
    environment = {name: value for name, value in os.environ.items() if name != "CC"}
    done = subprocess.run(
        command, env={**environment, "PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and not (tmp_path / "compiled").exists()
    assert done.stderr.splitlines() == [
        "loglinear.kernels.build: no C compiler 'cc' to link kernels; what is missing is compiled at run time"
    ]


def test_what_the_packages_library_has_not_comes_from_the_users(compiled, tmp_path, monkeypatch):
    from loglinear.kernels.tables import fill
    from loglinear.optimizers.dual.flat import _normalise

    with recorder.recorded() as calls:
        _normalise(np.zeros(3), np.zeros(3))
    build.build(tmp_path / "few", calls, processes=1)
    with recorder.recorded() as calls:
        _normalise(np.zeros(3, np.float32), np.zeros(3, np.float32))
    build.build(tmp_path / "cache" / "compiled", calls, processes=1)
    monkeypatch.setattr(ahead, "SHIPPED", tmp_path / "few")
    monkeypatch.setattr(ahead, "user_folder", lambda: tmp_path / "cache" / "compiled")
    run = ahead.runner_of(_normalise)
    monkeypatch.setattr(Kernel, "compiled", property(lambda kernel: pytest.fail("compiled at run time")))
    for dtype in (np.float64, np.float32):
        run(np.zeros(3, dtype), np.zeros(3, dtype))
    assert ahead.runner_of(fill) is None


@pytest.fixture
def short_walks(monkeypatch):
    """Walks that call one kernel each, so that warming up takes a moment."""
    from loglinear.optimizers.dual.flat import _normalise

    def walk(dtype):
        return lambda labels: _normalise(np.zeros(3, dtype), np.zeros(3, dtype))

    monkeypatch.setattr(roads, "walk_default", walk(np.float64))
    monkeypatch.setattr(roads, "walk_criteria", walk(np.float32))


def warm(monkeypatch, capsys, *arguments):
    from loglinear.cli import main

    monkeypatch.setattr(sys, "argv", ["loglinear", "warm", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    return capsys.readouterr().err


def test_warm_compiles_once_and_all_of_it_if_asked(short_walks, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ahead, "user_folder", lambda: tmp_path / "compiled")
    monkeypatch.setattr(ahead, "SHIPPED", tmp_path / "none")
    assert "compiled 1 kernels of the default training" in warm(monkeypatch, capsys)
    kernel = build.kernel_of("loglinear.optimizers.dual.flat:_normalise")
    ahead.opened.cache_clear()
    assert ahead.Library(ahead.user_folder()).signatures(kernel) == [["float64/1C"] * 2]
    assert "compiled already" in warm(monkeypatch, capsys)
    assert "compiled 1 kernels" in warm(monkeypatch, capsys, "--again")
    assert "compiled 1 kernels of training by every criterion" in warm(monkeypatch, capsys, "--all")
    ahead.opened.cache_clear()
    assert ahead.Library(ahead.user_folder()).signatures(kernel) == [["float64/1C"] * 2, ["float32/1C"] * 2]
    assert "compiled already" in warm(monkeypatch, capsys)


def test_warm_without_a_c_compiler_has_numba_compile(short_walks, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ahead, "user_folder", lambda: tmp_path / "compiled")
    monkeypatch.setattr(ahead, "SHIPPED", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    told = warm(monkeypatch, capsys, "--all")
    assert "no C compiler" in told and "walked training by every criterion" in told
    assert not ahead.user_folder().exists()


WITHOUT_KERNELS = shutil.ignore_patterns("__pycache__", "compiled")


@pytest.mark.slow
@pytest.mark.parametrize("everything", [False, True])
def test_after_warming_up_nothing_is_left_to_compile(tmp_path, everything):
    """A copy of the package without kernels, with a cache of its own."""
    shutil.copytree(Path(loglinear.__file__).parent, tmp_path / "loglinear", ignore=WITHOUT_KERNELS)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "LOGLINEAR_CACHE": str(tmp_path / "cache")}
    python(COMMANDS, environment, json.dumps([["warm", *(["--all"] if everything else [])]]))
    shutil.rmtree(tmp_path / "cache" / "kernels", ignore_errors=True)  # what Numba kept
    for criterion in criteria_of(Chain) if everything else ["cll"]:
        done = python(COMMANDS + NO_NUMBA, environment, road_of(criterion, 1, tmp_path))
        assert "compiling" not in done.stderr


@pytest.mark.slow
def test_a_wheel_brings_the_kernels(compiled, tmp_path):
    """Built in a copy of the project, installed elsewhere; needs pip and, for hatchling, an index of packages."""
    project, copied = Path(__file__).parent.parent, tmp_path / "project"
    shutil.copytree(project / "src", copied / "src", ignore=WITHOUT_KERNELS)
    shutil.copytree(compiled, copied / "src" / "loglinear" / "compiled")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(project / name, copied)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "wheel", "--no-deps", "--wheel-dir", "dist", "."]
    done = subprocess.run(command, cwd=copied, capture_output=True, text=True, check=False)
    if done.returncode and "hatchling" in done.stderr:
        pytest.skip("no index of packages to get hatchling from")
    assert done.returncode == 0, done.stderr
    (wheel,) = (copied / "dist").glob("*.whl")
    assert "py3-none-any" not in wheel.name
    subprocess.run([*pip, "install", "--no-deps", "--target", tmp_path / "site", wheel], check=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "LOGLINEAR_CACHE": str(tmp_path / "cache")}
    for criterion in ("cll", "memm"):
        done = python(COMMANDS + NO_NUMBA, environment, road_of(criterion, 1, tmp_path))
        assert "compiling" not in done.stderr


# -- types -------------------------------------------------------------------------------------------------------------


class Two(NamedTuple):
    one: object
    other: object


DTYPES = ("float64", "float32", "int64", "int32", "int16", "int8", "uint8", "uint64", "bool", "complex128")
scalars = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.none(),
    st.sampled_from(DTYPES).map(lambda name: np.dtype(name).type(1)),
)  # fmt: skip


@st.composite
def arrays(draw):
    shape = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    array = np.zeros(shape, dtype=draw(st.sampled_from(DTYPES)), order=draw(st.sampled_from("CF")))
    if draw(st.booleans()):
        array = array[tuple(slice(None, None, draw(st.sampled_from([1, 2, -1]))) for _ in shape)]
    array.flags.writeable = draw(st.booleans())
    return array


values = st.recursive(
    scalars | arrays(),
    lambda each: st.lists(each, min_size=1, max_size=3).map(tuple) | st.tuples(each, each).map(lambda pair: Two(*pair)),
    max_leaves=6,
)


@settings(deadline=None, max_examples=200)
@given(values)
def test_types_are_described_as_numba_sees_them(value):
    described = signature.describe(value)
    assert build.numba_type(described) == numba.typeof(value)
    assert json.loads(json.dumps(described)) == described
    if value is not None and not isinstance(value, tuple) and not isinstance(value, np.ndarray):
        assert signature.is_single(described) == (np.dtype(described).kind != "c")


@pytest.mark.parametrize("value", ["text", [1], {}, object(), np.zeros(2, ">f8"), np.zeros(2, "U3"), np.ma.zeros(2)])
def test_what_cannot_be_described_is_refused(value):
    with pytest.raises(signature.UnsupportedTypeError):
        signature.describe(value)


def test_the_recorder_sees_what_python_calls_and_nothing_that_kernels_call():
    from loglinear.optimizers.dual import flat

    with recorder.recorded() as calls:
        flat._normalise(np.zeros(3), np.zeros(3))
    assert calls.signatures == {"loglinear.optimizers.dual.flat:_normalise": [["float64/1C", "float64/1C"]]}


def test_a_kernel_depends_on_the_files_of_all_that_it_calls():
    from loglinear.structures.chain import padded

    modules = sources_of(padded.evaluate).modules
    assert {"loglinear.structures.chain.padded", "loglinear.kernels.vectors", "loglinear.kernels.lanes"} <= modules


def test_functions_outlive_the_library_that_made_them(compiled):
    from loglinear.structures.chain.best import _best_labels

    kernel, library = _best_labels, ahead.Library(compiled)
    functions = list(library.functions(kernel))
    assert functions
    del library
    gc.collect()
    garbage = [bytes(200) for _ in range(1000)]  # what has been freed is overwritten
    assert all(function() is NotImplemented for function in functions) and len(garbage) == 1000


def _moved(x):
    return x + 10.0


def test_first_calls_on_many_threads_look_once(compiled, monkeypatch):
    looked, original = [], ahead.runner_of

    def look(kernel):
        looked.append(kernel.name)
        time.sleep(0.01)
        return original(kernel)

    monkeypatch.setattr(ahead, "runner_of", look)
    kernel = Kernel(_moved, {})
    barrier = threading.Barrier(8)

    def first_call(_):
        barrier.wait()
        return kernel(2.0)

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(first_call, range(8)))) == 1
    assert len(looked) == 1


LARGE = """
import sys
from loglinear import Tagger
X = [[[f"w{(7 * i + j) % 50}"] for j in range(3)] for i in range(2100)]
y = [[f"L{(i + j) % 20}" for j in range(3)] for i in range(2100)]
Tagger(template="words", threads=2).fit(X, y)
assert "numba" not in sys.modules and "llvmlite" not in sys.modules
"""


def test_two_parts_of_a_large_corpus_need_no_compiler(environment):
    python(LARGE, environment)
