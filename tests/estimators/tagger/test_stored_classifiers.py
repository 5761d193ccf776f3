"""Taggers of scikit-learn classifiers in model files: the same answers afterwards, and nothing but data inside."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import loglinear
from loglinear import model_file
from loglinear.errors import ModelFileError, OptionError
from loglinear.estimators.tagger.classifiers import SAVED, TreeClassifier, as_data, read_classifier, untrained
from loglinear.estimators.tagger.local import LocalTagger
from loglinear.estimators.tagger.predict import LoadedTagger
from problems.classifiers import features_of

OPTIONS = {
    "LogisticRegressionCV": {"Cs": [0.1, 1.0], "cv": 2, "l1_ratios": [0.0], "use_legacy_attributes": True},
    "RandomForestClassifier": {"n_estimators": 7},
    "ExtraTreesClassifier": {"n_estimators": 4, "max_leaf_nodes": 9},
}
SPECS = [
    *((name, OPTIONS.get(name, {})) for name in SAVED),
    ("SGDClassifier", {"loss": "log_loss"}),
    ("SGDClassifier", {"loss": "modified_huber"}),
    ("LogisticRegression", {"fit_intercept": False}),
    ("BernoulliNB", {"binarize": 0.5}),
    ("BernoulliNB", {"binarize": None}),
    ("ComplementNB", {"norm": True}),
    ("DecisionTreeClassifier", {"class_weight": "balanced", "max_depth": 4}),
    ("RandomForestClassifier", {"n_estimators": 3, "bootstrap": False}),
]
pytestmark = pytest.mark.filterwarnings("ignore")


def made(name, options):
    known = untrained(name, {}).get_params()
    seeded = {"random_state": 0} if "random_state" in known else {}
    return untrained(name, {**{key: value for key, value in options.items() if key in known}, **seeded})


@pytest.mark.parametrize(("name", "options"), SPECS, ids=lambda value: value if isinstance(value, str) else None)
@pytest.mark.parametrize("two", [False, True], ids=["labels", "two labels"])
def test_a_loaded_tagger_gives_the_same_answers(name, options, two, data, more_data):
    X, y = data
    y = [["B" if label.startswith("B") else "O" for label in labels] for labels in y] if two else y
    rows = name == "BernoulliNB" and options.get("binarize") is None  # values other than 0 and 1 make no sense there
    make = (lambda x: x) if rows or two else features_of
    tagger = LocalTagger(made(name, options), template="words" if rows or two else None, joined=two, constraints="bio")
    if two:
        tagger.constraints = None
    tagger.fit([make(x) for x in X], y)
    new = [make(x) for x in more_data[0]]
    loaded = LocalTagger.load(tagger.to_bytes())
    assert loaded.predict(new) == tagger.predict(new) and loaded.classes_ == tagger.classes_
    encoded, _ = tagger._encode(new, None)
    n_threads, mine, theirs = 1, tagger.model_, loaded.model_
    np.testing.assert_allclose(
        theirs.marginals(encoded, None, n_threads), mine.marginals(encoded, None, n_threads), atol=1e-9
    )
    assert loaded.to_bytes() == tagger.to_bytes()
    assert type(loaded.classifier) is type(tagger.classifier)
    assert loaded.classifier.get_params().keys() == tagger.classifier.get_params().keys()


def test_files_are_opened_by_all_who_label(data, more_data, tmp_path):
    tagger = LocalTagger(LogisticRegression(C=0.7), template="chunking", constraints="bio").fit(*data)
    tagger.save(tmp_path / "m.model")
    for opened in (loglinear.load(tmp_path / "m.model"), LoadedTagger.load(tmp_path / "m.model")):
        assert opened.predict(more_data[0]) == tagger.predict(more_data[0])
    loaded = LocalTagger.load(tmp_path / "m.model")
    assert loaded.classifier.C == 0.7 and str(loaded.template) == str(tagger.model_.encoder.templates)
    assert loaded.fit(*data).predict(more_data[0]) == tagger.predict(more_data[0])  # it can be trained again


def test_one_label_needs_no_classifier_in_a_file():
    tagger = LocalTagger(LogisticRegression(), template="words").fit([["a", "b"]], [["O", "O"]])
    assert LocalTagger.load(tagger.to_bytes()).predict([["c"]]) == [["O"]]


def test_others_are_refused(data):
    class Own(LogisticRegression):
        pass

    for classifier in (GradientBoostingClassifier(n_estimators=1), Own()):
        tagger = LocalTagger(classifier, template="words").fit(*data)
        with pytest.raises(OptionError, match="model files hold data only; those that can be saved are linear models"):
            tagger.to_bytes()


def test_a_classifier_is_kept_only_if_its_answers_follow_from_its_arrays():
    rows, labels = sp.csr_matrix(np.eye(6)), np.array(["a", "b", "c"] * 2)
    classifier = LogisticRegression().fit(rows, labels)
    answers = classifier.predict_log_proba(rows)
    assert as_data(classifier, "predict_log_proba", rows, answers) is not None
    assert as_data(classifier, "predict_log_proba", rows, answers - 0.1) is None


def test_trees_are_walked_as_scikit_learn_does():
    rng = np.random.default_rng(0)
    rows = np.where(rng.random((300, 20)) < 0.3, rng.normal(size=(300, 20)), 0.0)
    labels = np.array(["a", "b", "c", "d"])[rng.integers(4, size=300)]
    classifier = DecisionTreeClassifier(random_state=0).fit(rows[:200], labels[:200])
    trees = TreeClassifier.of(classifier)
    for shown in (rows, sp.csr_matrix(rows)):
        np.testing.assert_allclose(np.exp(trees.predict_log_proba(shown)), classifier.predict_proba(rows))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("SVC:C=2", "'SVC' is an object of its own kind once it is fitted, .* saved are linear models: Linear"),
        ("Forest", "'Forest' is not a classifier of scikit-learn's"),
        ("LinearSVC:D=1", "'LinearSVC' has no option 'D'; it has C, class_weight"),
        ("LinearSVC:C", "C needs a value"),
        ("LinearSVC:C=1,C=2", "gives 'C' twice"),
    ],
)
def test_specs_that_make_no_sense(spec, message):
    with pytest.raises(OptionError, match=message):
        read_classifier(spec)


def test_specs_give_values_of_their_types():
    found = read_classifier("SGDClassifier:alpha=1e-3,max_iter=7,shuffle=no,loss=log_loss,class_weight=none")
    assert (found.alpha, found.max_iter, found.shuffle, found.loss) == (1e-3, 7, False, "log_loss")
    assert found.class_weight is None


def test_damaged_content_is_refused(data):
    linear = LocalTagger(LogisticRegression(), template="words", joined=True).fit(*data)._storage()
    trees = LocalTagger(DecisionTreeClassifier(random_state=0), template="words").fit(*data)._storage()
    of_linear, of_trees = linear[0]["classifier"], trees[0]["classifier"]
    children = trees[1]["classifier.children"]
    back, far, half = children.copy(), children.copy(), children.copy()
    back[0, 0], far[0, 1] = 0, len(children)
    half[np.flatnonzero(children[:, 0] < 0)[0], 1] = 0
    bad = [
        (linear, {"classifier": {**of_linear, "name": "SVC"}}, {}),
        (linear, {"classifier": {**of_linear, "form": "pickle"}}, {}),
        (linear, {"classifier": {**of_linear, "form": "trees"}}, {}),
        (linear, {"classifier": {**of_linear, "method": "__init__"}}, {}),
        (linear, {"classifier": {**of_linear, "link": "eval"}}, {}),
        (linear, {"classifier": {**of_linear, "classes": ["x", "y"]}}, {}),
        (linear, {"options": {**linear[0]["options"], "classifier": {"C": 1, "own": 2}}}, {}),
        (linear, {"columns": {**linear[0]["columns"], "n_attributes": 3}}, {}),
        (linear, {}, {"classifier.coef": linear[1]["classifier.coef"][:, :-1]}),
        (linear, {}, {"classifier.coef": linear[1]["classifier.coef"] * np.nan}),
        (linear, {}, {"classifier.intercept": np.zeros(1)}),
        (linear, {}, {"columns.pairs": linear[1]["columns.pairs"][::-1].copy()}),
        (trees, {"classifier": {**of_trees, "method": "decision_function"}}, {}),
        (trees, {"classifier": {**of_trees, "linear": True}}, {}),
        (trees, {}, {"classifier.children": back}),
        (trees, {}, {"classifier.children": far}),
        (trees, {}, {"classifier.children": half}),
        (trees, {}, {"classifier.feature": trees[1]["classifier.feature"] + 10_000}),
        (trees, {}, {"classifier.roots": np.array([len(children)], dtype=np.int32)}),
        (trees, {}, {"classifier.roots": np.zeros(0, dtype=np.int32)}),
        (trees, {}, {"classifier.shares": trees[1]["classifier.shares"] / 2}),
        (trees, {}, {"classifier.threshold": trees[1]["classifier.threshold"] * np.inf}),
    ]
    for (header, arrays), changed, replaced in bad:
        content = model_file.dumps(LocalTagger.kind, {**header, **changed}, {**arrays, **replaced})
        with pytest.raises(ModelFileError, match="does not fit together"):
            LocalTagger.load(content)
