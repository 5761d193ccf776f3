"""What is not needed to label a file is not imported."""

import os
import subprocess
import sys

import pytest

from loglinear.cli import VERBS

compiled = pytest.mark.skipif(
    os.environ.get("LOGLINEAR_COMPILED") == "0", reason="kernels compiled ahead are switched off: Numba imports more"
)


def modules_after(code, *arguments):
    told = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", told, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    return done.stdout, set(done.stderr.split())


RUN = "from loglinear.cli import main\ntry:\n    main()\nexcept SystemExit as end:\n    assert not end.code"


@compiled
def test_labelling_a_file_needs_neither_scikit_learn_nor_scipys_linear_algebra(model, files):
    tagged, modules = modules_after(RUN, "tag", model, files / "train.txt", "--marginals")
    assert len(tagged.splitlines()[0].split()) == 5
    assert not modules & {"sklearn", "scipy.linalg", "scipy.sparse", "scipy.stats"}


def ours(modules):
    return {module for module in modules if module.split(".")[0] == "loglinear"}


@compiled
def test_labelling_a_file_imports_few_modules_and_none_that_the_model_does_not_need(model, files):
    _, modules = modules_after(RUN, "tag", model, files / "train.txt")
    assert 30 < len(ours(modules)) <= 65
    rooms = ("criteria", "generative", "optimizers", "training", "evaluation", "experiments", "structures.tree")
    unused = {module for module in ours(modules) if module.startswith(tuple(f"loglinear.{room}" for room in rooms))}
    assert not unused
    assert {module for module in modules if module.startswith("loglinear.cli.")} == {
        "loglinear.cli.common", "loglinear.cli.files", "loglinear.cli.options", "loglinear.cli.tag",
    }  # fmt: skip


def test_what_a_model_needs_is_imported_when_its_header_says_so(run, files):
    path = files / "m.model"
    assert run("train", files / "train.txt", "-o", path, "--criterion", "hmm", "-q").status == 0
    _, modules = modules_after(RUN, "tag", path, files / "train.txt")
    assert "loglinear.generative.base" in modules and "sklearn" not in modules
    options = ("--template", "chunking", "--criterion", "memm", "-q")
    assert run("train", files / "train.txt", "-o", path, *options).status == 0
    _, modules = modules_after(RUN, "tag", path, files / "train.txt", "--marginals")
    assert "loglinear.criteria.local" in modules and "loglinear.generative.base" not in modules


def test_a_verb_is_imported_alone():
    _, modules = modules_after(RUN, "template", "chunking")
    assert "loglinear.cli.template" in modules and "loglinear.cli.train" not in modules
    told, modules = modules_after(RUN, "--help")
    assert "loglinear.cli.train" in modules and "Train" in told


@compiled
def test_evaluation_with_a_model_needs_no_scikit_learn(model, files):
    _, modules = modules_after(RUN, "eval", files / "train.txt", "--model", model)
    assert not modules & {"sklearn", "scipy.sparse"}


def test_help_and_the_package_itself_are_light():
    _, modules = modules_after(RUN, "tag", "--help")
    assert not modules & {"numpy", "numba", "sklearn", "scipy"}
    _, modules = modules_after(RUN, "--help")  # lists the verbs, and so imports each
    assert {f"loglinear.cli.{file}" for file in VERBS.values()} <= modules
    assert not modules & {"numpy", "numba", "sklearn", "scipy"}
    _, modules = modules_after("import loglinear")
    assert not modules & {"numpy", "numba", "sklearn", "scipy", "typer", "rich"}


def test_scipy_is_there_for_whoever_wants_it_afterwards(model, files):
    after = RUN + "\nimport scipy.linalg\nassert scipy.linalg.solve([[2.0]], [4.0]) == 2.0"
    modules_after(after, "tag", model, files / "train.txt")


def test_a_tagger_is_imported_and_trained_without_what_it_does_not_need():
    _, modules = modules_after("from loglinear import Tagger, read_columns\nTagger(template='words')")
    assert "numpy" in modules and not modules & {"numba", "scipy", "sklearn", "pandas", "matplotlib"}
    fit = "Tagger(template='words').fit([['a', 'b'], ['b']], [['X', 'Y'], ['Y']])"
    _, modules = modules_after(f"from loglinear import Tagger\n{fit}")
    assert not modules & {"sklearn", "scipy.sparse", "pandas", "matplotlib"}
