"""SIGTERM and a second Ctrl-C end a command soon, whatever it does: nothing stays behind, what was learnt is kept."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import loglinear
from loglinear import model_file
from loglinear.data.corpora.bundled import bundled_text
from problems.corpus import TRAIN

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
SOURCE = str(Path(loglinear.__file__).parents[1])
MAIN = "from loglinear.cli import main; main()"
#: An iteration that lasts for minutes in a kernel: the main thread sees no signal meanwhile.
LONG_KERNEL = """
import os, sys
import numpy as np
from loglinear.cli import common, main
from loglinear.kernels import Kernel
from loglinear.training import run

def spin(x):
    total = 0.0
    while total < 1e15:
        total += x
    return total

spin.__module__ = "loglinear.errors"
spin = Kernel(spin, {}).compiled
spin(1e15)
run.KEEPING_SECONDS = run.KEEPING_SHARE = 0.0
observe = common.TrainingDisplay.observe

def observe_and_spin(display, progress):
    observe(display, progress)
    if progress.iteration == 4:
        os.write(2, b"in a kernel\\n")
        spin(1.0)

common.TrainingDisplay.observe = observe_and_spin
main()
"""


class Command:
    """A command in a process of its own, with a temporary folder of its own."""

    def __init__(self, place, *arguments, code=MAIN):
        self.temporary = place / "temporary"
        self.temporary.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            cwd=place, env={**os.environ, "PYTHONPATH": SOURCE, "TMPDIR": str(self.temporary)},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a background job ignores it
        )  # fmt: skip

    def wait_for(self, line):
        said = ""
        while line not in said:
            more = self.process.stderr.readline()
            assert more, said
            said += more

    def end(self, *signals, within=20.0):
        """Send signals: the seconds until it ended, and what it said; nothing temporary may be left."""
        began = time.perf_counter()
        for number in signals:
            self.process.send_signal(number)
            time.sleep(0.2)
        try:
            _, said = self.process.communicate(timeout=within)
        finally:
            self.process.kill()
        assert list(self.temporary.iterdir()) == []
        return time.perf_counter() - began, said


def left_in(folder):
    return {path.name for path in folder.iterdir()} - {"temporary"}


def same_model(one, other):
    first, second = model_file.load(one).arrays, model_file.load(other).arrays
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
def test_a_training_inside_a_long_kernel_ends_and_can_be_resumed(tmp_path, signals):
    (tmp_path / "train.txt").write_text(TRAIN)
    train = ("train", "train.txt", "--template", "chunking", "--optimizer", "lbfgs", "-o", "a.model")
    command = Command(tmp_path, *train, code=LONG_KERNEL)
    command.wait_for("in a kernel")
    seconds, said = command.end(*signals)
    assert command.process.returncode == 128 + signals[0]
    assert seconds < 10.0  # 2 on a machine that does nothing else
    assert "a.model.checkpoint with --resume" in said
    assert left_in(tmp_path) == {"train.txt", "a.model.checkpoint"}
    resumed = Command(tmp_path, *train, "--resume")
    _, said = resumed.end(within=120.0)
    assert resumed.process.returncode == 0, said
    whole = Command(tmp_path, *train[:-1], "b.model")
    whole.end(within=120.0)
    assert same_model(tmp_path / "a.model", tmp_path / "b.model")


def test_one_ctrl_c_ends_after_the_iteration(tmp_path):
    (tmp_path / "train.txt").write_text(TRAIN)
    slow = LONG_KERNEL.replace("spin(1.0)", "spin(1e6)")
    train = ("train", "train.txt", "--template", "chunking", "--optimizer", "lbfgs", "-o", "a.model")
    command = Command(tmp_path, *train, code=slow)
    command.wait_for("in a kernel")
    _, said = command.end(signal.SIGINT, within=120.0)
    assert command.process.returncode == 130 and "interrupted after iteration 4; go on from a.model.checkpoint" in said


#: A library that makes an error of its own of whatever is raised in it, as Numba does while it is imported.
SWALLOWING = """
import os, time
from loglinear import cli

def app():
    os.write(2, b"importing\\n")
    try:
        time.sleep(60)
    except KeyboardInterrupt as error:
        raise RuntimeError("no such name") from error

cli.app = app
cli.main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("when", ["start", "join"])
def test_an_interrupt_before_a_command_or_after_it_is_one(number, when):
    """While the thread that waits for signals is started, and while it is ended."""
    code = f"""
import os, signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
original = threading.Thread.{when}

def interrupted(thread, *more):
    os.kill(os.getpid(), {int(number)})
    original(thread, *more)

threading.Thread.{when} = interrupted
from loglinear.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code, "template", "ner"], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "PYTHONPATH": SOURCE})  # fmt: skip
    assert done.returncode == 128 + number and "Traceback" not in done.stderr, (done.returncode, done.stderr)


def test_objects_that_an_interrupt_left_half_made_are_not_told_of():
    code = f"""
import os
from loglinear import cli

class Half:
    def __del__(self):
        raise AttributeError("it was never made")

def interrupted():
    kept.append(Half())
    os.kill(os.getpid(), {int(signal.SIGTERM)})
    import time
    time.sleep(10)

kept = []
cli._run = interrupted
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "PYTHONPATH": SOURCE})  # fmt: skip
    assert done.returncode == 143 and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupt_that_a_library_turns_into_an_error_is_one(tmp_path, number):
    command = Command(tmp_path, code=SWALLOWING)
    command.wait_for("importing")
    _, said = command.end(number)
    assert command.process.returncode == 128 + number and said == "loglinear: interrupted\n"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Files that verbs work on for some seconds, and models."""
    folder = tmp_path_factory.mktemp("corpus")
    text = bundled_text("train", "pos")
    (folder / "train.txt").write_text(text * 3)
    (folder / "long.txt").write_text(text * 200)
    quick = ("train", folder / "train.txt", "-o", folder / "tagger.model", "--max-iter", "3", "-q")
    subprocess.run([sys.executable, "-c", MAIN, *map(str, quick)], env={**os.environ, "PYTHONPATH": SOURCE}, check=True)
    return folder


TRAININGS = {
    "cll": ["train", "{}/train.txt"],
    "lbfgs": ["train", "{}/train.txt", "--optimizer", "lbfgs"],
    "order 2": ["train", "{}/train.txt", "--order", "2"],
    "max-margin": ["train", "{}/train.txt", "--criterion", "max-margin"],
    "perceptron": ["train", "{}/train.txt", "--criterion", "perceptron"],
    "sgd": ["train", "{}/train.txt", "--optimizer", "sgd"],
    "risk": ["train", "{}/train.txt", "--criterion", "risk"],
}
OTHERS = {
    "tag": ["tag", "{}/tagger.model", "{}/long.txt", "-o", "out.txt"],
    "eval": ["eval", "{}/long.txt", "--model", "{}/tagger.model"],
    "tune": ["tune", "{}/train.txt", "--folds", "2", "--grid", "l2=0.1,1", "--json", "cells.json"],
}


def filled(arguments, folder):
    return [argument.replace("{}", str(folder)) for argument in arguments]


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAININGS)
@pytest.mark.parametrize("seed", range(3))
def test_a_training_ends_at_any_moment_and_is_resumed_to_the_last_bit(tmp_path, corpus, name, seed):
    train = [*filled(TRAININGS[name], corpus), "--max-iter", "12", "-o", "a.model"]
    whole = Command(tmp_path, *train[:-1], "b.model")
    began = time.perf_counter()
    _, said = whole.end(within=600.0)
    assert whole.process.returncode == 0, said
    lasts = time.perf_counter() - began
    command = Command(tmp_path, *train)
    time.sleep(random.Random(f"{name} {seed}").uniform(0.0, lasts))
    seconds, said = command.end(signal.SIGTERM)
    assert command.process.returncode in (0, 143, -signal.SIGTERM), said  # the last: before Python had started
    assert seconds < 10.0
    assert left_in(tmp_path) <= {"a.model", "a.model.checkpoint", "b.model"}
    if command.process.returncode != 0:
        resumed = Command(tmp_path, *train, "--resume")
        _, said = resumed.end(within=600.0)
        assert resumed.process.returncode == 0, said
    assert same_model(tmp_path / "a.model", tmp_path / "b.model")


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("after", [0.3, 1.0, 2.0, 4.0])
def test_a_verb_ends_at_any_moment_and_leaves_nothing(tmp_path, corpus, name, after):
    command = Command(tmp_path, *filled(OTHERS[name], corpus))
    time.sleep(after)
    seconds, said = command.end(signal.SIGTERM)
    assert command.process.returncode in (0, 143, -signal.SIGTERM), said
    assert seconds < 10.0
    assert left_in(tmp_path) <= {"tag": {"out.txt"}, "eval": set(), "tune": {"cells.json"}}[name]
    if (tmp_path / "out.txt").exists():  # it was there before the signal, or just after it; not in part
        rows = (corpus / "long.txt").read_text().count("\n")
        assert (tmp_path / "out.txt").read_text().count("\n") == rows


# -- nothing is run from the current folder ----------------------------------------------------------------------------

TRAP = "import os, sys\nos.write(2, b'the trap was imported\\n')\nos._exit(99)\n"


@pytest.fixture
def trapped(tmp_path):
    """A folder whose modules have the names of Python's own."""
    for name in ("queue", "json", "pickle", "socket", "random", "tempfile", "numpy", "joblib", "selectors"):
        (tmp_path / f"{name}.py").write_text(TRAP)
    (tmp_path / "temporary").mkdir()
    return tmp_path


CHILDREN = {
    "spawn": """
        import multiprocessing
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(abs, [-1]))
    """,
    "-m": """
        import subprocess
        subprocess.run([sys.executable, "-m", "compileall", "-q", "nowhere"], check=False)
        subprocess.run([sys.executable, "-c", "import json, queue, random; print([1])"], check=True)
    """,
}


@pytest.mark.parametrize("how", ["spawn", "-m"])
def test_no_process_of_a_verb_imports_what_lies_in_the_current_folder(trapped, how):
    """Whatever starts a Python process in a verb: multiprocessing, joblib's ``-m``, a library that we do not know."""
    body = CHILDREN[how].replace("\n        ", "\n    ")
    code = f"""
import sys
from loglinear import cli

def verb():{body}
if __name__ == "__main__":
    cli._run = verb
    cli.main()
"""
    script = trapped / "temporary" / "start.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, "-P", str(script)], cwd=trapped, env={**os.environ, "PYTHONPATH": SOURCE},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0 and "[1]" in done.stdout and "trap" not in done.stderr, done.stderr


def test_python_m_loglinear_imports_nothing_from_the_current_folder(trapped):
    done = subprocess.run(
        [sys.executable, "-m", "loglinear", "template", "chunking"], cwd=trapped,
        env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and done.stdout, done.stderr


def test_a_c_compiler_in_the_current_folder_is_not_run(trapped, monkeypatch):
    from loglinear.kernels import build

    for name in ("cc", "gcc-of-mine"):
        (trapped / name).write_text("#!/bin/sh\nexit 1\n")
        (trapped / name).chmod(0o755)
    monkeypatch.chdir(trapped)
    monkeypatch.setattr(build, "level", lambda: "any")
    monkeypatch.setenv("PATH", f".:{os.pathsep}bin")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(build.BuildError, match="no C compiler 'cc'"):
        build.c_compiler()
    monkeypatch.setenv("CC", "./gcc-of-mine -g")  # which the user names
    assert build.c_compiler() == [str(trapped / "gcc-of-mine"), "-g"]
