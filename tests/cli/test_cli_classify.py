"""Classifiers of the rows of a table on the command line."""

import csv
import io
import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from loglinear import Classifier, NaiveBayes
from loglinear.data.tables import TableFile, read_table
from loglinear.estimators.classifier.problem import split_labels
from loglinear.experiments.regions import Regions
from loglinear.features.tables import TableFeatures


def reviews(n: int, seed: int) -> list[dict[str, str]]:
    """Rows whose label depends on the words, the price and the place."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        good = rng.random() < 0.5
        words = rng.choice(["nice", "great", "food"] if good else ["awful", "cold", "food"], 4)
        price = rng.normal(10 if good else 20, 2)
        rows.append(
            {
                "id": f"r{rng.integers(10**9)}",
                "review": " ".join(words) + ", that is all",
                "price": "" if rng.random() < 0.1 else f"{price:.2f}",
                "place": str(rng.choice(["home", "away"])),
                "verdict": "good" if good else "bad",
            }
        )
    return rows


def as_csv(rows: list[dict[str, str]], path, delimiter: str = ",") -> None:
    with path.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for name, n in (("train", 200), ("test", 60)):
        rows = reviews(n, seed=n)
        as_csv(rows, folder / f"{name}.csv")
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        (folder / f"{name}.tsv").write_text(
            "\n".join(["\t".join(rows[0]), *("\t".join(row.values()) for row in rows)]) + "\n", encoding="utf-8"
        )
    return folder


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
def test_train_run_and_eval(run, tables, tmp_path, form):
    model = tmp_path / "m.model"
    trained = run("classify", "train", tables / f"train.{form}", "--label", "verdict", "--ignore", "id", "-o", model)
    assert (trained.status, trained.out) == (0, "")
    assert "review (text), price (number), place (category)" in trained.err
    judged = run("classify", "eval", model, tables / f"test.{form}", "--json")
    assert judged.status == 0
    report = json.loads(judged.out)
    assert report["accuracy"] > 95 and report["rows"] == 60 and 0 < report["log_loss"] < 0.3
    labelled = run("classify", "run", model, tables / f"test.{form}", "--probabilities")
    assert labelled.status == 0
    if form == "jsonl":
        rows = [json.loads(line) for line in labelled.out.splitlines()]
    else:
        rows = list(csv.DictReader(io.StringIO(labelled.out), delimiter="," if form == "csv" else "\t"))
    right = np.mean([row["predicted"] == row["verdict"] for row in rows])
    assert 100 * right == pytest.approx(report["accuracy"])
    for row in rows:
        chances = [float(row["p(bad)"]), float(row["p(good)"])]
        assert sum(chances) == pytest.approx(1.0, abs=1e-5)
        assert float(row["predicted_probability"]) == pytest.approx(max(chances), abs=1e-5)


def test_the_model_is_that_of_python(run, tables, tmp_path):
    model = tmp_path / "m.model"
    assert run("classify", "train", tables / "train.csv", "--label", "verdict", "-o", model, "-q").err == ""
    loaded = Classifier.load(model)
    assert list(loaded.classes_) == ["bad", "good"]
    shown = run("inspect", model)
    assert shown.status == 0 and "review:" in shown.out + shown.err


def test_kinds_can_be_said_and_the_confusion_drawn(run, tables, tmp_path):
    model, plot = tmp_path / "m.model", tmp_path / "c.svg"
    options = ("--category", "price", "--text", "review", "--words", "words:ngrams=2", "--min-count", "2")
    trained = run("classify", "train", tables / "train.csv", "--label", "verdict", *options, "-o", model)
    assert trained.status == 0 and "price (category)" in trained.err
    assert run("classify", "eval", model, tables / "test.csv", "--plot", plot).status == 0
    ElementTree.fromstring(plot.read_text(encoding="utf-8"))


@pytest.mark.parametrize("criterion", ["max-margin", "softmax-margin", "perceptron", "mira", "risk", "jrb"])
def test_every_criterion_trains(run, tables, tmp_path, criterion):
    model = tmp_path / "m.model"
    options = ("--label", "verdict", "--ignore", "id", "--criterion", criterion)
    assert run("classify", "train", tables / "train.csv", *options, "-o", model).status == 0
    assert json.loads(run("classify", "eval", model, tables / "test.csv", "--json").out)["accuracy"] > 90


def test_naive_bayes_of_words_and_numbers_as_they_are(run, tables, tmp_path):
    model = tmp_path / "m.model"
    options = ("--label", "verdict", "--ignore", "id", "--criterion", "naive-bayes:smoothing=0.5")
    trained = run("classify", "train", tables / "train.csv", *options, "-o", model)
    assert trained.status == 0 and "counted" in trained.err and "price (number)" in trained.err
    assert json.loads(run("classify", "eval", model, tables / "test.csv", "--json").out)["accuracy"] > 95
    labelled = run("classify", "run", model, tables / "test.csv", "--probabilities")
    assert labelled.status == 0
    shown = run("inspect", model)
    assert shown.status == 0 and "review:awful" in shown.out and "training: counted" in shown.out
    table, labels = split_labels(read_table(str(tables / "train.csv")).without(["id"]), None, "verdict")
    features = TableFeatures.fit(table, raw_numbers=True)
    referee = NaiveBayes(0.5).fit(features.matrix(table), labels)
    chances = referee.predict_proba(features.matrix(read_table(str(tables / "test.csv"))))
    found = [[float(row["p(bad)"]), float(row["p(good)"])] for row in csv.DictReader(io.StringIO(labelled.out))]
    np.testing.assert_allclose(found, chances, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--l2", "1"), "counts, and has no use for l2"),
        (("--dev", "test.csv"), "no use for dev data"),
        (("--init", "m.model"), "no use for a model to start from"),
        (("--number", "depth"), "-1 in column 'depth'"),
    ],
)
def test_naive_bayes_says_what_it_has_no_use_for(run, tables, monkeypatch, tmp_path, options, message):
    monkeypatch.chdir(tables)
    lines = (tables / "train.csv").read_text(encoding="utf-8").splitlines()
    deep = tmp_path / "deep.csv"
    deep.write_text("\n".join([f"{lines[0]},depth", *(f"{line},-1" for line in lines[1:])]), encoding="utf-8")
    table = deep if "depth" in options else "train.csv"
    command = ("classify", "train", table, "--label", "verdict", "--criterion", "naive-bayes")
    result = run(*command, *options, "-o", tmp_path / "m.model")
    assert result.status == 2 and message in result.err and result.err.count("\n") == 1


def test_the_path_of_a_table(run, tables, tmp_path):
    model = tmp_path / "m.model"
    options = ("--label", "verdict", "--ignore", "id", "--folds", "3", "--grid", "0.1,1,10", "-o", model)
    result = run("path", tables / "train.csv", *options)
    assert result.status == 0 and "share of wrong labels" in result.err
    assert json.loads(run("classify", "eval", model, tables / "test.csv", "--json").out)["accuracy"] > 95


@pytest.fixture
def plane(tmp_path, run):
    """A table of three labels in two columns of numbers and a name, and a model of it."""
    rng = np.random.default_rng(3)
    centres = {"a": (0, 0), "b": (6, 0), "c": (3, 5)}
    table = tmp_path / "plane.csv"
    rows = [(name, *(rng.normal(size=2) + at)) for name, at in centres.items() for _ in range(30)]
    lines = [f"{name},{x:.4f},{y:.4f},{'left' if i % 3 else 'right'}" for i, (name, x, y) in enumerate(rows)]
    table.write_text("\n".join(["kind,x,y,side", *lines, "a,,1,left"]), encoding="utf-8")
    assert run("classify", "train", table, "--label", "kind", "-o", tmp_path / "m.model", "-q").status == 0
    return table, tmp_path / "m.model"


@pytest.mark.parametrize("columns", [None, "y,x"])
def test_regions_are_drawn_with_the_rows(run, plane, tmp_path, columns):
    table, model = plane
    chosen = () if columns is None else ("--plot-columns", columns)
    assert run("classify", "eval", model, table, "--plot-regions", tmp_path / "r.svg", *chosen).status == 0
    text = (tmp_path / "r.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert all(f">{word}</text>" in text for word in ("a", "b", "c", "x", "y", "3 labels; typical side"))
    again = tmp_path / "again.svg"
    assert run("classify", "eval", model, table, "--plot-regions", again, *chosen).status == 0
    assert again.read_text(encoding="utf-8") == text


def test_the_regions_are_the_labels_that_the_model_gives(plane, tmp_path):
    table, classifier = read_table(str(plane[0])), Classifier.load(plane[1])
    regions = Regions.of(classifier, table, ("x", "y"), side=15)
    assert regions.labels == ["a", "b", "c"] and regions.fixed == ["side"] and np.isnan(regions.points[-1, 0])
    for i, j in np.ndindex(15, 15):  # one row at a time, at the most frequent side
        cells = {"x": [repr(float(regions.x[j]))], "y": [repr(float(regions.y[i]))], "side": ["left"]}
        assert classifier.predict(TableFile("row", cells, [1]))[0] == regions.labels[regions.best[i, j]]
    assert {0, 1, 2} == set(regions.best.ravel().tolist())
    values = table.numbers(("x", "y"), empty=np.nan)
    assert regions.x[0] < np.nanmin(values[:, 0]) and regions.y[-1] > np.nanmax(values[:, 1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--plot-columns", "x,y"), "for which chart? give --plot-regions"),
        (("--plot-regions", "r.svg", "--plot-columns", "x"), "give two of the model's columns of numbers, x, y"),
        (("--plot-regions", "r.svg", "--plot-columns", "x,side"), "give two of the model's columns of numbers, x, y"),
        (("--plot-regions", "r.svg", "--plot-columns", "x,x"), "give two of the model's columns of numbers, x, y"),
        (("--plot-regions", "none/such/r.svg"), "there is no folder"),
    ],
)
def test_what_cannot_be_drawn_is_told_in_a_line(run, plane, options, message):
    table, model = plane
    result = run("classify", "eval", model, table, *options)
    assert result.status == 2 and message in result.err and result.err.count("\n") == 1


def test_regions_need_two_columns_of_numbers(run, tables, plane, tmp_path):
    model, plot = tmp_path / "one.model", tmp_path / "r.svg"
    assert run("classify", "train", tables / "train.csv", "--label", "verdict", "-o", model, "-q").status == 0
    result = run("classify", "eval", model, tables / "test.csv", "--plot-regions", plot)
    assert result.status == 2 and "the model has 1 (price)" in result.err and not plot.exists()
    new = tmp_path / "new.csv"  # a label that the model does not know has rows, but no region
    new.write_text(plane[0].read_text(encoding="utf-8").replace("\nc,", "\nd,"), encoding="utf-8")
    assert run("classify", "eval", plane[1], new, "--plot-regions", plot).status == 0
    assert ">d</text>" in plot.read_text(encoding="utf-8")


def test_labels_that_the_model_does_not_know_are_told(run, tables, tmp_path):
    model = tmp_path / "m.model"
    assert run("classify", "train", tables / "train.csv", "--label", "verdict", "-o", model).status == 0
    other = (tables / "test.csv").read_text(encoding="utf-8").replace(",good\n", ",fine\n")
    (tmp_path / "other.csv").write_text(other, encoding="utf-8")
    judged = run("classify", "eval", model, tmp_path / "other.csv")
    assert judged.status == 0 and "no log loss: the model does not know the label 'fine'" in judged.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train.csv",), "name the column of the labels"),
        (("train.csv", "--label", "stars"), "train.csv: there is no column 'stars'"),
        (("train.csv", "--label", "price"), "column 'price', the label, is empty"),
        (("train.csv", "--label", "verdict", "--number", "review"), "train.csv:2: column 'review'"),
        (("train.csv", "--label", "verdict", "--ignore", "x"), "there is no column 'x'"),
        (("train.csv", "--label", "verdict", "--number", "price", "--text", "price"), "both a number and a text"),
        (("train.csv", "--label", "verdict", "--words", "letters"), "letters"),
        (("train.csv", "--label", "verdict", "--criterion", "memm"), "memm"),
        (("train.csv", "--label", "verdict", "--text", "verdict"), "column 'verdict' is the label"),
        (("nan.csv", "--label", "verdict"), "nan.csv:3: column 'x' is 'nan', not a number"),
        (("huge.csv", "--label", "verdict"), "huge.csv:3: column 'x' is '1e300', not a number (up to 1e+100)"),
        (("none.csv", "--label", "verdict"), "none.csv: cannot be read"),
        (("broken.csv", "--label", "verdict"), "broken.csv:3: 1 cell under 2 columns"),
    ],
)
def test_mistakes_are_told_in_a_line(run, tables, monkeypatch, arguments, message):
    monkeypatch.chdir(tables)
    (tables / "broken.csv").write_text("verdict,x\na,b\nc\n", encoding="utf-8")
    for name, cell in (("nan", "nan"), ("huge", "1e300")):
        (tables / f"{name}.csv").write_text(f"verdict,x\na,1\nb,{cell}\n", encoding="utf-8")
    result = run("classify", "train", *arguments, "-o", "m.model")
    assert result.status == 2 and message in result.err and result.err.count("\n") == 1
    assert not (tables / "m.model").exists()


def test_a_table_that_lacks_a_column_or_has_too_many_is_refused(run, tables, tmp_path):
    model = tmp_path / "m.model"
    assert run("classify", "train", tables / "train.csv", "--label", "verdict", "-o", model).status == 0
    (tmp_path / "few.csv").write_text("review\nnice\n", encoding="utf-8")
    result = run("classify", "run", model, tmp_path / "few.csv")
    assert result.status == 2 and "there is no column" in result.err
    result = run("classify", "run", model, tables / "test.csv", "--column", "verdict")
    assert result.status == 2 and "has a column 'verdict' already" in result.err


# -- kernels -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rings(tmp_path_factory):
    """A table of two labels, one around the other."""
    rng = np.random.default_rng(0)
    angles, radii = rng.uniform(0, 2 * np.pi, 120), np.repeat([1.0, 3.0], 60) + 0.2 * rng.normal(size=120)
    table = tmp_path_factory.mktemp("rings") / "rings.csv"
    points = zip(radii * np.cos(angles), radii * np.sin(angles), ["in"] * 60 + ["out"] * 60, strict=True)
    table.write_text("\n".join(["x,y,ring", *(f"{x:.4f},{y:.4f},{ring}" for x, y, ring in points)]), encoding="utf-8")
    return table


@pytest.mark.parametrize("criterion", ["cll", "max-margin", "softmax-margin", "least-squares"])
def test_a_kernel_tells_rings_apart(run, rings, tmp_path, criterion):
    model = tmp_path / "m.model"
    options = ("--label", "ring", "--criterion", criterion, "--kernel", "rbf:gamma=0.5", "--l2", "0.1")
    trained = run("classify", "train", rings, *options, "-o", model)
    assert trained.status == 0 and "support rows" in trained.err
    assert json.loads(run("classify", "eval", model, rings, "--json").out)["accuracy"] == 100.0
    labelled = run("classify", "run", model, rings)
    assert labelled.status == 0 and all(
        row["ring"] == row["predicted"] for row in csv.DictReader(io.StringIO(labelled.out))
    )
    shown = run("inspect", model)
    assert shown.status == 0 and "kernel: rbf:gamma=0.5; " in shown.out and "strongest coefficients" in shown.out
    facts = json.loads(run("inspect", model, "--json").out)
    assert facts["kernel"] == "rbf:gamma=0.5"
    assert facts["support_rows"] == len(Classifier.load(model).support_) <= 120
    rows = [each for each in facts["coefficients"] if each["label"] == "in" and each["feature"].startswith("row ")]
    assert len(rows) == facts["support_rows"]
    assert (facts["support_rows"] < 60) == (criterion == "max-margin")


def test_m_estimation_with_a_kernel_draws_as_often_as_it_is_told(run, tables, tmp_path):
    model = tmp_path / "m.model"
    options = ("--label", "verdict", "--ignore", "id", "--criterion", "m-estimation", "--kernel", "rbf:gamma=0.01")
    base = ("--base", "naive-bayes:samples=300")
    assert run("classify", "train", tables / "train.csv", *options, *base, "-o", model).status == 0
    assert json.loads(run("classify", "eval", model, tables / "test.csv", "--json").out)["accuracy"] > 90
    shown = run("inspect", model)
    assert "strongest base" in shown.out and "strongest coefficients" in shown.out


def test_boundaries_of_kernels_are_curved(run, rings, tmp_path):
    """A region in the middle that does not touch the border of the plane, which no line can bound."""
    model, plot = tmp_path / "m.model", tmp_path / "r.svg"
    options = ("--label", "ring", "--kernel", "rbf", "--l2", "0.1", "-o", model, "-q")
    assert run("classify", "train", rings, *options).status == 0
    assert run("classify", "eval", model, rings, "--plot-regions", plot).status == 0
    ElementTree.fromstring(plot.read_text(encoding="utf-8"))
    best = Regions.of(Classifier.load(model), read_table(str(rings)), ("x", "y"), side=30).best
    assert best[15, 15] == 0
    assert (np.concatenate([best[0], best[-1], best[:, 0], best[:, -1]]) == 1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--kernel", "rbg"), "there are: linear, poly, rbf"),
        (("--kernel", "rbf:gamma=x"), "must be a number, or scale"),
        (("--kernel", "rbf", "--l1", "1"), "leave it out"),
        (("--kernel", "rbf", "--criterion", "mira"), "has no kernels"),
    ],
)
def test_kernels_that_there_are_not_are_told_in_a_line(run, rings, tmp_path, options, message):
    result = run("classify", "train", rings, "--label", "ring", *options, "-o", tmp_path / "m.model")
    assert result.status == 2 and message in result.err and result.err.count("\n") == 1


def test_the_path_of_a_kernel(run, rings, tmp_path):
    options = ("--label", "ring", "--kernel", "rbf:gamma=0.5", "--folds", "3", "--grid", "0.1,1,10")
    result = run("path", rings, *options, "-o", tmp_path / "m.model")
    assert result.status == 0, result.err
    assert json.loads(run("classify", "eval", tmp_path / "m.model", rings, "--json").out)["accuracy"] == 100.0
