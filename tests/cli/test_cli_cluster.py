"""Mixtures on the command line."""

import csv
import inspect
import io
import json
import signal
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from loglinear import Mixture, NaiveBayes

TOPICS = {"sport": "goal match team player score", "food": "bread soup cook taste salt"}


@pytest.fixture
def numbers(tmp_path):
    """Forty points around (0, 0, 7) and around (10, 5, 7), with names for a few."""
    rng = np.random.default_rng(0)
    rows = [["width", "height", "same", "kind", "remark"]]
    for i in range(80):
        x, y = rng.normal(size=2) + ((10, 5) if i % 2 else (0, 0))
        rows.append([f"{x:.4f}", f"{y:.4f}", "7", ("big" if i % 2 else "small") if i < 6 else "", "seen, yes"])
    path = tmp_path / "points.csv"
    with path.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out).writerows(rows)
    return path


@pytest.fixture
def texts(tmp_path):
    rng = np.random.default_rng(1)
    path = tmp_path / "texts.jsonl"
    with path.open("w", encoding="utf-8") as out:
        for i in range(60):
            words = TOPICS["sport" if i % 2 else "food"].split()
            text = " ".join([*rng.choice(words, size=6), "the", "and"])
            out.write(json.dumps({"body": text, "topic": ("sport" if i % 2 else "food") if i < 4 else None}) + "\n")
    return path


def rows_in(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_gaussians_are_found_shown_saved_and_used(numbers, run, tmp_path):
    model, rows = tmp_path / "m.model", tmp_path / "rows.csv"
    result = run("cluster", numbers, "-k", 2, "--number", "width", "--number", "height", "-o", model, "--rows", rows)
    assert (result.status, result.out) == (0, "")
    for word in (
        "data       80 rows, 2 columns",
        "the best of 5 starts converged",
        "50.0%",
        "width",
        "model  ",
        "next  ",
    ):
        assert word in result.err
    found = rows_in(rows.read_text())
    assert [row["row"] for row in found] == [str(i) for i in range(1, 81)]
    assert len({row["component"] for row in found[::2]}) == len({row["component"] for row in found[1::2]}) == 1
    used = run("cluster", numbers, "--predict", model)
    assert (used.status, used.err) == (0, "") and used.out == rows.read_text()
    again = run("cluster", numbers, "--predict", model, "-o", tmp_path / "other.jsonl")
    assert (again.status, again.out, again.err) == (0, "", "")
    lines = [json.loads(line) for line in (tmp_path / "other.jsonl").read_text().splitlines()]
    assert len(lines) == 80 and lines[0]["component"] == found[0]["component"] and lines[0]["probability"] <= 1.0


def test_all_columns_of_numbers_are_taken(numbers, run):
    result = run("cluster", numbers, "-k", 2, "--covariance", "full")
    assert result.status == 0 and "80 rows, 3 columns" in result.err and "warning" not in result.err


def test_known_rows_name_the_components(numbers, run, tmp_path):
    result = run("cluster", numbers, "-k", 2, "--label", "kind", "--rows", "-", "-q")
    assert (result.status, result.err) == (0, "")
    names = [row["component"] for row in rows_in(result.out)]
    assert names == ["small", "big"] * 40


def test_text_is_a_bag_of_words(texts, run, tmp_path):
    model = tmp_path / "t.model"
    result = run("cluster", texts, "-k", 2, "--text", "body", "--labels", "topic", "-o", model, "--plot-rounds",
                 tmp_path / "climb.svg")  # fmt: skip
    assert result.status == 0 and "words of body" in result.err
    assert next(line for line in result.err.splitlines() if "sport" in line).count("x)") >= 1
    used = run("cluster", texts, "--predict", model)
    assert [row["component"] for row in rows_in(used.out)] == ["food", "sport"] * 30
    shown = run("inspect", model, "--top", 3)
    assert shown.status == 0 and "a mixture of multinomials" in shown.out
    sport = next(line for line in shown.out.splitlines() if line.startswith("│ sport"))
    assert any(word in sport for word in TOPICS["sport"].split()) and "soup" not in sport
    assert "with the prior" in (tmp_path / "climb.svg").read_text()
    guessed = run("cluster", texts, "-k", 2, "--label", "topic", "-q", "--rows", "-")  # the only column of text
    assert guessed.status == 0 and guessed.out == used.out


def test_numbers_can_be_counts(tmp_path, run):
    path = tmp_path / "counts.tsv"
    path.write_text("a\tb\n5\t0\n4\t1\n0\t6\n1\t5\n")
    result = run("cluster", path, "-k", 2, "--components", "multinomial", "--rows", "-", "-q")
    names = [row["component"] for row in rows_in(result.out)]
    assert names[0] == names[1] != names[2] == names[3]


def test_inspect_gives_everything_as_json(numbers, run, tmp_path):
    model = tmp_path / "m.model"
    for covariance in ("known", "tied", "full"):
        run("cluster", numbers, "-k", 2, "--number", "width", "--number", "height", "--covariance", covariance,
            "--labels", "kind", "-o", model, "-q")  # fmt: skip
        told = json.loads(run("inspect", model, "--json", "--label", "big").out)
        assert told["kind"] == "mixture" and told["columns"] == ["width", "height"]
        assert [entry["name"] for entry in told["components"]] == ["big"]
        assert told["components"][0]["mean"] == pytest.approx([10, 5], abs=0.6)
        assert np.shape(told["components"][0]["covariance"]) == (() if covariance == "known" else (2, 2))
        assert told["training"]["rounds"] + 1 == len(told["training"]["objectives"])
    assert "Gaussians (full covariance)" in run("inspect", model).out
    assert run("inspect", model, "--label", "huge").status == 2


def test_inspect_shows_naive_bayes(run, tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"goal": [5, 4, 0, 0], "soup": [0, 0, 5, 6]})
    NaiveBayes().fit(frame, ["sport", "sport", "food", "food"]).save(tmp_path / "nb.model")
    shown = run("inspect", tmp_path / "nb.model", "--top", 1)
    assert shown.status == 0 and "naive Bayes, 2 labels, 2 columns" in shown.out
    assert "goal" in next(line for line in shown.out.splitlines() if "sport" in line)
    told = json.loads(run("inspect", tmp_path / "nb.model", "--json").out)
    assert told["kind"] == "naive-bayes" and sum(told["components"][0]["probabilities"]) == pytest.approx(1.0)


def test_charts_are_drawn(numbers, run, tmp_path):
    for extra in ([], ["--plot-columns", "height,width"]):
        result = run(
            "cluster", numbers, "-k", 2, "--plot", tmp_path / "c.svg", "--plot-rounds", tmp_path / "r.svg", *extra
        )
        assert result.status == 0 and f"chart      {tmp_path / 'c.svg'}" in result.err
        for name in ("c.svg", "r.svg"):
            ElementTree.parse(tmp_path / name)
        text = (tmp_path / "c.svg").read_text()
        assert ("height" if extra else "first principal component") in text and "0 (50%)" in text


def curve_in(text):
    return [{name: float(cell) for name, cell in row.items()} for row in rows_in(text)]


@pytest.mark.parametrize("options", [(), ("--covariance", "full"), ("--covariance", "tied"), ("--label", "kind")])
@pytest.mark.parametrize("way", ["bic", "aic"])
def test_the_number_of_components_is_chosen_by_the_least_of_the_curve(numbers, run, tmp_path, way, options):
    model, common = tmp_path / "m.model", ("--number", "width", "--number", "height", "--seed", 3, *options)
    result = run("cluster", numbers, "-k", "2-4", *common, "--choose", way, "--curve", "-", "-o", model,
                 "--plot-curve", tmp_path / "c.svg", "--plot-rounds", tmp_path / "r.svg")  # fmt: skip
    assert result.status == 0, result.err
    curve = curve_in(result.out)
    assert [row["components"] for row in curve] == [2, 3, 4]
    best = min(curve, key=lambda row: row[way])
    assert [row["chosen"] for row in curve] == [float(row is best) for row in curve]
    assert f"Chosen by {way}: {best['components']:.0f} components" in result.err
    assert f"chosen by {way}" in (tmp_path / "c.svg").read_text()
    for row in curve:  # each is the mixture of that number alone
        alone = tmp_path / "alone.model"
        assert run("cluster", numbers, "-k", int(row["components"]), *common, "-o", alone, "-q").status == 0
        lone = Mixture.load(alone)
        assert row["log_likelihood"] == pytest.approx(lone.log_likelihoods_[-1])
        assert row["parameters"] == lone.model_.n_parameters
        assert row["aic"] == pytest.approx(2 * row["parameters"] - 2 * row["log_likelihood"])
        assert row["bic"] == pytest.approx(np.log(80) * row["parameters"] - 2 * row["log_likelihood"])
        if row is best:
            assert alone.read_bytes() == model.read_bytes()
    assert sorted(path.name for path in tmp_path.glob("*.checkpoint")) == []


def test_standard_output_has_room_for_one_table(numbers, run):
    result = run("cluster", numbers, "-k", "1-2", "--number", "width", "--curve", "-", "--rows", "-")
    assert (result.status, result.out) == (2, "") and "write the other to a file" in result.err


def test_a_dev_score_is_the_log_likelihood_of_a_row(numbers, run):
    result = run("cluster", numbers, "-k", 2, "--number", "width", "--number", "height", "--dev", numbers)
    total = float(result.err.split("; log-likelihood ")[1].split("\n")[0])
    score = float(result.err.split("dev score")[1].split(" at ")[0])
    assert score == pytest.approx(total / 80, rel=0.02) and result.status == 0


def test_bic_finds_as_many_components_as_there_are(numbers, run):
    result = run("cluster", numbers, "-k", "1-5", "--number", "width", "--number", "height")
    assert result.status == 0 and "Chosen by bic: 2 components" in result.err


def test_rows_held_out_choose_the_number_and_the_mixture_is_of_all_rows(numbers, texts, run, tmp_path):
    for table, options, n in (
        (numbers, ("--number", "width", "--number", "height"), 80),
        (texts, ("--text", "body"), 60),
    ):
        model, curve = tmp_path / "m.model", tmp_path / "curve.jsonl"
        command = ("cluster", table, "-k", "1,2,4", *options, "--choose", "held-out", "--held-out", 0.25)
        result = run(*command, "--curve", curve, "-o", model, "--plot-curve", tmp_path / "c.svg")
        assert result.status == 0 and f"data       {n} rows" in result.err
        rows = [json.loads(line) for line in curve.read_text().splitlines()]
        best = max(rows, key=lambda row: row["held_out"])
        assert [row["chosen"] for row in rows] == [int(row is best) for row in rows] and best["components"] != 1
        alone = tmp_path / "alone.model"
        assert run("cluster", table, "-k", best["components"], *options, "-o", alone, "-q").status == 0
        assert alone.read_bytes() == model.read_bytes()
        again = run(*command, "--curve", "-", "-q")
        assert [row["held_out"] for row in curve_in(again.out)] == pytest.approx([row["held_out"] for row in rows])
        other = run(*command, "--curve", "-", "-q", "--seed", 1)
        assert curve_in(other.out)[0]["held_out"] != rows[0]["held_out"]


def test_an_interrupted_choice_is_resumed(numbers, run, tmp_path, monkeypatch):
    model, whole = tmp_path / "m.model", tmp_path / "whole.model"
    command = ("cluster", numbers, "-k", "2-4", "--number", "width", "--choose", "aic", "--curve", "-")
    asked = run(*command, "-o", whole)
    monkeypatch.setattr(Mixture, "fit", stopped_at(Mixture.fit, 3))
    stopped = run(*command, "-o", model)
    assert stopped.status == 130 and f"{model}.k3.checkpoint with --resume" in stopped.err
    monkeypatch.undo()
    refused = run(*command, "-o", model)
    assert refused.status == 2 and "m.model.k3.checkpoint belongs to an unfinished training" in refused.err
    resumed = run(*command, "-o", model, "--resume")
    assert resumed.status == 0 and "resuming from" in resumed.err
    assert resumed.out == asked.out and model.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob("*.checkpoint"))


def stopped_at(fit, n_components):
    """``fit`` with a Ctrl-C in the second round of the mixture of that many components."""

    def interrupted(self, *arguments, observe, **keywords):
        def watch(step):
            observe(step)
            if self.n_components == n_components and step.iteration == 2:
                signal.raise_signal(signal.SIGINT)

        return fit(self, *arguments, observe=watch, **keywords)

    interrupted.__signature__ = inspect.signature(fit)
    return interrupted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "how many components? give -k"),
        (["-k", 0], "-k 0 must be at least 1"),
        (["-k", "0-3"], "-k 0-3 must be at least 1"),
        (["-k", "two"], "-k two: give a number of components, or several"),
        (["-k", "4-2"], "write the smaller one first"),
        (["-k", "1-99999999999"], "at most 1,000 numbers"),
        (["-k", "2-90"], "-k 2-90: there are fewer rows (80) than components"),
        (["-k", "2-70", "--choose", "held-out"], "-k 2-70: 64 rows are not held out"),
        (["-k", 2, "--choose", "bic"], "--choose: -k 2 leaves nothing to choose"),
        (["-k", 2, "--curve", "-", "--plot-curve", "c.svg"], "--curve, --plot-curve: -k 2 leaves nothing"),
        (["-k", "2-3", "--choose", "mdl"], "choose='mdl' is not one of bic, aic, held-out"),
        (["-k", "2-3", "--held-out", 0.3], "--held-out 0.3 is for --choose held-out"),
        (["-k", "2-3", "--choose", "held-out", "--held-out", 1], "must be at most 0.9"),
        (["-k", "2-3", "--init", "m.model"], "a model has one number of components, but -k 2-3 are several"),
        (["-k", "2-3", "--resume"], "name the model with -o"),
        (["-k", "2-3", "--curve", "none/such/c.csv"], "there is no folder"),
        (["-k", 2, "--number", "depth"], "points.csv: there is no column 'depth'; there are: width, height"),
        (["-k", 2, "--number", "remark"], "points.csv:2: column 'remark' is 'seen, yes', not a number"),
        (["-k", 2, *(x for c in ("width", "height", "same") for x in ("--ignore", c))], "no column holds numbers"),
        (["-k", 2, "--number", "width", "--text", "remark"], "--text and --number"),
        (["-k", 2, "--labels", "sort"], "no column 'sort'"),
        (["-k", 1, "--labels", "kind"], "2 are known by name (big, small)"),
        (["-k", 2, "--label", "width", "--number", "width"], "column 'width' cannot be both"),
        (["-k", 2, "--components", "multinomial"], "is -"),
        (["-k", 2, "--text", "remark", "--components", "gaussian"], "words are counted"),
        (["-k", 2, "--text", "remark", "--min-count", 90], "no word of remark"),
        (["-k", 2, "--text", "remark", "--words", "letters"], "text='letters' is not known"),
        (["-k", 2, "--text", "remark", "--plot", "x.svg"], "--plot draws Gaussians"),
        (["-k", 2, "--number", "width", "--plot", "x.svg"], "needs two columns"),
        (["-k", 2, "--plot-columns", "width,height"], "for which chart?"),
        (["-k", 2, "--plot", "x.svg", "--plot-columns", "width"], "give two of width, height, same"),
        (["-k", 100], "there are fewer rows than components"),
        (["-k", 2, "--covariance", "round"], "covariance='round' is not one of"),
        (["-k", 2, "--start", "kmeans"], "start='kmeans' is not one of"),
        (["-k", 2, "--format", "xls"], "format is 'xls'"),
        (["-k", 2, "-o", "none/such/m.model"], "there is no folder"),
        (["--predict", "none.model"], "none.model does not exist"),
        (["--predict", "none.model", "--choose", "aic"], "--choose: with --predict the model says that"),
        (["--predict", "none.model", "-k", 3], "-k: with --predict the model says that"),
    ],
)
def test_mistakes_end_in_one_line(arguments, message, numbers, run):
    result = run("cluster", numbers, *arguments)
    assert (result.status, result.out) == (2, "")
    assert result.err.count("\n") == 1 and message in result.err


def test_models_and_tables_that_do_not_fit_are_refused(numbers, texts, run, tmp_path):
    model = tmp_path / "m.model"
    run("cluster", numbers, "-k", 2, "-o", model, "-q")
    result = run("cluster", texts, "--predict", model)
    assert result.status == 2 and "there is no column 'width'" in result.err
    Mixture().fit(np.random.default_rng(0).normal(size=(9, 2))).save(model)
    assert "without names of columns" in run("cluster", numbers, "--predict", model).err
    NaiveBayes().fit(np.ones((2, 2)), [0, 1]).save(model)
    assert "of kind 'naive-bayes'" in run("cluster", numbers, "--predict", model).err


def test_numbers_out_of_reach_are_an_error(tmp_path, run):
    path = tmp_path / "wide.csv"
    path.write_text("a,b\n1e200,1\n-1e200,2\n0,3\n")
    result = run("cluster", path, "-k", 2)
    assert result.status == 2 and "wide.csv:2: column 'a' is '1e200'" in result.err and result.err.count("\n") == 1


def test_warnings_are_said_in_a_line(numbers, run):
    result = run("cluster", numbers, "-k", 2, "--rounds", 1, "--restarts", 0)
    assert result.status == 0 and "loglinear: warning: EM was stopped after 1 round" in result.err


# -- tables of names and text, and sequences ---------------------------------------------------------------------------


@pytest.fixture
def survey(tmp_path):
    rng = np.random.default_rng(2)
    path = tmp_path / "survey.csv"
    lines = ["colour,size,note,kind,age"]
    for i in range(60):
        colour, size = rng.choice(["red", "pink"] if i % 2 else ["blue", "green"]), rng.choice(["S", "M", ""])
        note = " ".join(rng.choice(TOPICS["sport" if i % 2 else "food"].split(), size=6))
        lines.append(f"{colour},{size},{note},{('b' if i % 2 else 'a') if i < 4 else ''},{i % 3}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def sequences(tmp_path):
    rng = np.random.default_rng(3)
    path, text = tmp_path / "sequences.txt", ""
    for i in range(60):
        text += f"# kind = {'odd' if i % 2 else 'even'}\n" if i < 4 else "# no kind\n"
        words = [["buy", "sell"], ["stock", "bond"]] if i % 2 else [["the", "a"], ["dog", "cat"]]
        text += "".join(f"{rng.choice(words[t % 2])}\t{'DN'[t % 2]}\n" for t in range(rng.integers(2, 7))) + "\n"
    path.write_text(text)
    return path


def test_a_table_of_names_and_text_is_clustered(survey, run, tmp_path):
    model, rows = tmp_path / "m.model", tmp_path / "rows.csv"
    how = ["--components", "naive-bayes", "--label", "kind"]
    result = run("cluster", survey, "-k", 2, *how, "-o", model, "--rows", rows, "--dev", survey)
    assert result.status == 0 and "columns of numbers are left out (age)" in result.err
    assert "60 rows; colour (category), size (category), note (text)" in result.err
    assert [row["component"] for row in rows_in(rows.read_text())] == ["a", "b"] * 30
    assert run("cluster", survey, "--predict", model).out == rows.read_text()
    shown = run("inspect", model)
    assert "a mixture of naive Bayes models, 2 components, 3 columns" in shown.out and "colour=" in shown.out
    facts = json.loads(run("inspect", model, "--json").out)
    assert "note:goal" in facts["columns"] and len(facts["components"][0]["probabilities"]) == len(facts["columns"])
    named = ["--category", "age", "--category", "colour", "-q"]
    assert run("cluster", survey, "-k", 2, "--components", "naive-bayes", *named, "-o", model).status == 0
    assert Mixture.load(model).inputs_.kinds == {"colour": "category", "age": "category"}
    chosen = run("cluster", survey, "-k", "1-3", *how[:2], "--text", "note", "--curve", "-", "-q")
    assert [row["chosen"] for row in rows_in(chosen.out)] == ["0", "1", "0"]


def test_sequences_are_clustered(sequences, run, tmp_path):
    model, rows = tmp_path / "m.model", tmp_path / "rows.csv"
    how = ["--components", "hmm", "--label", "kind", "--separator", "tab"]
    result = run("cluster", sequences, "-k", 2, *how, "-o", model, "--rows", rows, "--dev", sequences)
    assert result.status == 0 and "60 sequences" in result.err and "2 known states in each component" in result.err
    assert [row["component"] for row in rows_in(rows.read_text())] == ["even", "odd"] * 30
    predicted = rows_in(run("cluster", sequences, "--predict", model).out)
    assert [row["component"] for row in predicted] == ["even", "odd"] * 30
    shown = run("inspect", model)
    assert "hidden Markov models (2 states, order 1), 2 components" in shown.out and "dog" in shown.out
    facts = json.loads(run("inspect", model, "--json", "--label", "odd").out)
    assert facts["states"] == ["D", "N"] and np.shape(facts["components"][0]["steps"]) == (3, 3)
    hidden = ["--components", "hmm:states=2", "--choose", "held-out", "--threads", 1]
    chosen = run("cluster", sequences, "-k", "1-3", *hidden, "--curve", "-", "-q", "-o", model)
    assert len(rows_in(chosen.out)) == 3 and Mixture.load(model).n_components > 1
    weights = tmp_path / "weights.txt"
    weights.write_text("2\n" * 60)
    sums = []
    for more in ([], ["--weights", weights]):
        assert run("cluster", sequences, "-k", 2, *how, *more, "-o", model, "-q").status == 0
        sums.append(Mixture.load(model).log_likelihoods_[-1])
    assert sums[1] == pytest.approx(2 * sums[0], rel=0.1)  # smoothing counts for less


def test_the_component_of_a_sequence_is_a_key_of_json_lines(run, tmp_path):
    path = tmp_path / "sequences.jsonl"
    records = [{"tokens": ["a", "b"] if i % 2 else ["c", "d"], "kind": "odd" if i == 1 else None} for i in range(20)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    result = run("cluster", path, "-k", 2, "--components", "hmm:states=1", "--label", "kind", "--rows", "-", "-q")
    assert [row["component"] for row in rows_in(result.out)] == ["1", "odd"] * 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--components", "hmm:states=2", "--text", "a", "--min-count", 2], "--text, --min-count: for tables"),
        (["--components", "hmm:labels=2"], "has no option 'labels'; it has states"),
        (["--components", "hmm:states=2", "--plot", "x.svg"], "--plot draws Gaussians"),
        (["--components", "hmm:states=2", "--label", "sort"], "no sentence has a comment # sort = NAME"),
        (["--components", "hmm:states=2", "--covariance", "full"], "covariance='full' is for components='gaussian'"),
        (["--components", "hmm", "--label-column", 7], "there is no column 7"),
        (["--components", "naive-bayes", "--number", "a"], "name the column with --category"),
        (["--components", "naive-bayes", "--label-column", 1], "--label-column: for files of sequences"),
        (["--components", "forest"], "is not one of gaussian, multinomial, naive-bayes, hmm"),
        (["--category", "a"], "--category is for --components naive-bayes"),
        (["--components", "hmm:states=2", "--plot-rounds", "x.png"], "x.png: charts are written as SVG"),
    ],
)
def test_mistakes_about_sequences_and_tables_end_in_one_line(arguments, message, sequences, run):
    result = run("cluster", sequences, "-k", 2, *arguments)
    assert (result.status, result.out) == (2, "")
    assert result.err.count("\n") == 1 and message in result.err


def test_a_leftover_checkpoint_does_not_hide_mistakes_in_options(numbers, run, tmp_path):
    (tmp_path / "m.model.checkpoint").write_bytes(b"")
    result = run("cluster", numbers, "-k", 2, "--covariance", "round", "-o", tmp_path / "m.model")
    assert result.status == 2 and "covariance='round'" in result.err
