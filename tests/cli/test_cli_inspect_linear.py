"""``loglinear inspect`` of classifiers and regressions."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from loglinear import Classifier, LeastSquares, Ridge
from loglinear.cli import app
from loglinear.errors import OptionError

TEXTS, LABELS = ["a good film", "a bad film", "so so"], ["+", "-", "0"]


def inspected(*arguments):
    result = CliRunner().invoke(app, ["inspect", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_a_classifiers_strongest_weights(tmp_path):
    path = tmp_path / "film.model"
    classifier = Classifier(l2=0.1).fit(TEXTS, LABELS)
    classifier.save(path)
    shown = inspected(path, "--top", 2)
    assert "classifier, 3 labels, 5 features" in shown and "l2=0.1" in shown
    assert f"{classifier.objective_:,.3f}" in shown
    best = max(zip(np.abs(classifier.coef_[0]), classifier.feature_names_in_, strict=True))[1]
    assert best in shown and shown.count("(bias)") == 3
    everything = json.loads(inspected(path, "--json"))
    weights = {(row["label"], row["feature"]): row["weight"] for row in everything["weights"]}
    for y, label in enumerate(classifier.classes_):
        assert weights[label, "(bias)"] == classifier.intercept_[y]
        for i, name in enumerate(classifier.feature_names_in_):
            assert weights[label, name] == classifier.coef_[y, i]
    assert everything["options"]["l2"] == 0.1 and everything["label_names"] == ["+", "-", "0"]


def test_two_labels_have_opposite_weights(tmp_path):
    path = tmp_path / "two.model"
    classifier = Classifier().fit(TEXTS[:2], LABELS[:2])
    classifier.save(path)
    rows = json.loads(inspected(path, "--json"))["weights"]
    by_label = {label: {r["feature"]: r["weight"] for r in rows if r["label"] == label} for label in "+-"}
    assert {name: -weight for name, weight in by_label["+"].items()} == by_label["-"]
    assert by_label["-"]["bad"] == classifier.coef_[0, classifier.feature_names_in_.tolist().index("bad")]
    only = json.loads(inspected(path, "--json", "--label", "-"))["weights"]
    assert {row["label"] for row in only} == {"-"}
    with pytest.raises(OptionError, match="--label 'x' is not one of the model's labels"):
        inspected(path, "--label", "x")


def test_base_and_learnt_part_are_shown_apart(tmp_path):
    path = tmp_path / "m.model"
    Classifier("m-estimation").fit(TEXTS, LABELS).save(path)
    assert "strongest base" in inspected(path) and "strongest learnt" in inspected(path)
    everything = json.loads(inspected(path, "--json"))
    assert len(everything["base"]) == len(everything["learnt"]) == 3 * (5 + 1)


def test_models_with_functions_can_be_looked_at(tmp_path):
    path = tmp_path / "f.model"
    Classifier(feature_map=lambda x, y: [f"{x} {y}"]).fit(["p", "q"], ["a", "b"]).save(path)
    assert "with a feature map" in inspected(path) and "p a" in inspected(path)
    Classifier(features=str.split).fit(TEXTS, LABELS).save(path)
    assert "good" in inspected(path, "--top", 5)


@pytest.mark.parametrize("kind", [Ridge, LeastSquares])
def test_regressions(kind, tmp_path):
    path, frame = tmp_path / "r.model", pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": [0.0, 1.0, 0.5]})
    model = kind().fit(frame, [1.0, 2.0, 3.5])
    model.save(path)
    shown = inspected(path)
    assert f"{kind.kind}, 1 target, 2 features" in shown and "in closed form" in shown
    rows = json.loads(inspected(path, "--json"))["weights"]
    assert {row["feature"]: row["weight"] for row in rows} == {
        "(bias)": model.intercept_, "a": model.coef_[0], "b": model.coef_[1],
    }  # fmt: skip
    kind().fit(frame.values, np.eye(3)).save(path)
    assert "y2" in inspected(path) and "x1" in inspected(path)
