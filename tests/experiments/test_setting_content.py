"""What settings are known by: a key changes with a file's content or a function's, and with nothing else."""

from functools import partial

import numpy as np
import pytest

from loglinear.experiments.setting_content import content_of, option_content


def test_a_file_among_the_options_is_known_by_its_content(tmp_path):
    file = tmp_path / "my.template"
    file.write_text("U:%x[0,0]\n")
    first = content_of(file)
    assert option_content("template", str(file)) == first and option_content("gazetteers", [str(file)]) == [first]
    file.write_text("U:%x[0,1]\n")
    assert content_of(file) != first and option_content("template", str(file)) != first


def test_a_file_that_has_the_name_of_a_value_changes_nothing(tmp_path, monkeypatch):
    values = [("criterion", "cll"), ("criterion:smoothing", "1"), ("template", "ner"), ("optimizer", "lbfgs")]
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


def with_default(beta):
    return lambda gold, predicted, beta=beta: beta


@pytest.mark.parametrize("make", [lambda beta: partial(scorer, beta=beta), closure, with_default, Scorer])
def test_functions_differ_by_what_they_have_been_given(make):
    assert content_of(make(1.0)) == content_of(make(1.0)) != content_of(make(2.0))
    assert content_of(make(np.arange(3))) != content_of(make(np.arange(4)))


def test_functions_differ_by_what_they_do():
    assert content_of(lambda g, p: 1.0) != content_of(lambda g, p: 2.0) and content_of(len) == content_of(len)


def test_a_function_that_calls_itself_has_an_end():
    def countdown(n):
        return countdown(n - 1) if n else 0

    assert content_of(countdown) == content_of(countdown) and countdown(3) == 0


def test_numbers_and_texts_are_themselves():
    assert [content_of(value) for value in (np.float64(0.5), "words", None, True, [1, "a"], {"a": 1})] == [
        0.5, "words", None, True, [1, "a"], {"a": 1}
    ]  # fmt: skip
