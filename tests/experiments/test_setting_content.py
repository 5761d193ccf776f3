"""What settings are known by: a key changes with a file's content or a function's, and with nothing else."""

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest

from loglinear.experiments.store import content_of, option_content


def test_a_file_among_the_options_is_known_by_its_content(tmp_path):
    file = tmp_path / "my.template"
    file.write_text("U:%x[0,0]\n")
    first = content_of(file)
    assert option_content("template", str(file)) == first and option_content("gazetteers", [str(file)]) == [first]
    file.write_text("U:%x[0,1]\n")
    assert content_of(file) != first and option_content("template", str(file)) != first


def test_a_file_that_has_the_name_of_a_value_changes_nothing(tmp_path, monkeypatch):
    values = [
        ("criterion", "cll"),
        ("criterion:smoothing", "1"),
        ("template", "ner"),
        ("constraints", "bio"),
        ("cost", "hamming:1"),
    ]
    before = [option_content(*value) for value in values]
    monkeypatch.chdir(tmp_path)
    for _, value in values:
        (tmp_path / value).write_text("something")
    assert [option_content(*value) for value in values] == before == [value for _, value in values]


def scorer(gold, predicted, beta=1.0):
    return beta


def closure(beta):
    def inner():
        return beta

    def metric(gold, predicted):
        return inner()

    return metric


class Scorer:
    def __init__(self, beta):
        self.beta = beta

    def __call__(self, gold, predicted):
        return self.beta


class Slotted:
    __slots__ = ("beta",)

    def __init__(self, beta):
        self.beta = beta

    def __call__(self, gold, predicted):
        return self.beta


class Holder:
    def __init__(self, beta):
        self.beta = beta


def with_object(beta):
    holder = Holder(beta)
    return lambda gold, predicted: holder.beta


def with_default(beta):
    return lambda gold, predicted, beta=beta: beta


@pytest.mark.parametrize(
    "make",
    [
        lambda beta: partial(scorer, beta=beta),
        lambda beta: Scorer(beta).__call__,
        closure,
        with_default,
        with_object,
        Scorer,
        Slotted,
    ],
)
def test_functions_differ_by_what_they_have_been_given(make):
    assert content_of(make(1.0)) == content_of(make(1.0)) != content_of(make(2.0))
    assert content_of(make(np.arange(3))) != content_of(make(np.arange(4)))


def test_functions_differ_by_what_they_do():
    assert content_of(lambda g, p: 1.0) != content_of(lambda g, p: 2.0) and content_of(len) == content_of(len)


def test_what_is_inside_counts_and_where_it_stands_does_not():
    def made(text):
        found = {}
        exec(text, found)
        return found["metric"]

    one = "def metric(g, p):\n    return sum(1 for _ in g) + max(p, key=lambda y: y)"
    assert content_of(made(one)) == content_of(made("# a remark\n\n" + one))
    assert content_of(made(one)) != content_of(made(one.replace("sum(1", "sum(2")))


def test_a_function_that_holds_itself_has_an_end():
    def countdown(n):
        return countdown(n - 1) if n else held

    held = [countdown, Scorer(1.0)]
    held[1].own = held[1]
    assert content_of(countdown) == content_of(countdown) and countdown(3) is held
    assert content_of(held[1]) == content_of(held[1])


def test_content_is_the_same_in_every_process():
    program = (
        "from loglinear.experiments.store import content_of\n"
        "words = {'O', 'B-NP', 'I-NP'}\n"
        "def make(words):\n    return lambda g, p: g[0][0] in words or p[0][0] in {'a', 'b', 'c'}\n"
        "print(content_of(make(words)), content_of({'a': words}))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(found) == 1


def test_numbers_and_texts_are_themselves():
    assert [content_of(value) for value in (np.float64(0.5), "words", None, True, [1, "a"], {"a": 1})] == [
        0.5, "words", None, True, [1, "a"], {"a": 1}
    ]  # fmt: skip
