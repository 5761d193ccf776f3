"""Mistakes in a tagger's data and options are named with their place."""

import numpy as np
import pytest

from loglinear import Tagger
from loglinear.errors import DataError, LoglinearError, OptionError


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda X, y: (X, y[:-1]), "60 sequences but 59 label sequences"),
        (lambda X, y: (X, [y[0][:-1], *y[1:]]), r"sequence 0 \(from 0\) has"),
        (lambda X, y: (X, [*y[:2], [3] * len(y[2]), *y[3:]]), r"sequence 2, position 0 \(from 0\): a label is"),
        (lambda X, y: (X, [*y[:2], [set()] * len(y[2]), *y[3:]]), "an empty set of labels"),
        (lambda X, y: (X, "labels"), "not a list of label sequences"),
        (lambda X, y: ([*X[:3], [], *X[4:]], y), r"sequence 3 \(from 0\) has 0 tokens but \d+ labels"),
        (lambda X, y: ([*X[:3], [("a", 1)], *X[4:]], y), r"sequence 3, position 0 \(from 0\)"),
        (lambda X, y: ([*X[:3], [("a",)], *X[4:]], y), r"sequence 3, position 0 \(from 0\)"),
        (lambda X, y: ("sentences", y), "X is a str"),
        (lambda X, y: ([], []), "no sequence|no token"),
        (lambda X, y: (X, None), "column"),
    ],
)
def test_bad_data_is_named(data, change, says):
    X, y = change(*data)
    with pytest.raises((DataError, OptionError), match=says):
        Tagger(template="chunking").fit(X, y)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"l2": -1}, "l2=-1 must be at least 0"),
        ({"l1": "much"}, "l1='much' must be a number"),
        ({"l2": 1.0, "variance": 1.0}, "the same thing twice"),
        ({"variance": 0}, "variance=0"),
        ({"order": 4}, "order=4 is not one of 1, 2, 3"),
        ({"min_count": 0}, "min_count=0 must be at least 1"),
        ({"max_iter": 1.5}, "max_iter=1.5 must be a whole number"),
        ({"criterion": "crf"}, "criterion='crf' is not known"),
        ({"constraints": "bioe"}, "no constraints named 'bioe'"),
        ({"constraints": "bilou", "template": "words"}, "bilou"),
        ({"template": "chunkin"}, "the named sets are chunking"),
        ({"template": 3}, "template is a int"),
        ({"constraints": ["bio"]}, "is not the name of a scheme"),
        ({"gazetteers": "places.txt"}, "in a list"),
        ({"threads": 0}, "threads=0"),
        ({"states": "some"}, "observed, all"),
        ({"metric": "bleu"}, "auto, f1, accuracy"),
        ({"l2": float("nan")}, "must be a number"),
    ],
)
def test_bad_options_are_named(data, options, says):
    labels = [["E-NP" if "bilou" in options.values() else label for label in ls] for ls in data[1]]
    with pytest.raises(LoglinearError, match=says):
        Tagger(**{"template": "words", **options}).fit(data[0], labels)


def test_training_labels_that_break_the_constraints_are_named(data):
    X, y = [[("a", "b")] * 3] * 2, [["B-NP", "I-NP", "O"], ["B-NP", "O", "I-NP"]]
    with pytest.raises(DataError, match=r"sequence 1, position 2 \(from 0\): .*constraints"):
        Tagger(template="words", constraints="bio").fit(X, y)


def test_a_label_the_model_does_not_know_is_named(data):
    tagger = Tagger(template="words").fit(*data)
    with pytest.raises(DataError, match=r"sequence 0, position 0 \(from 0\): label 'B-XP' is not one of"):
        tagger.predict([[("a", "b")]], given=[["B-XP"]])
    assert tagger.score([[("a", "b")]], [["B-XP"]]) == 0.0


@pytest.mark.parametrize("weights", [[1.0], [-1.0] * 60, [0.0] * 60, [np.nan] * 60, "many"])
def test_bad_sequence_weights_are_refused(data, weights):
    with pytest.raises(OptionError, match="sample_weight"):
        Tagger(template="words").fit(*data, sample_weight=weights)
