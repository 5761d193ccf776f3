"""Every criterion on every kind of data, dev data, warm starts, interruptions, M-estimation, model files."""

import signal

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from loglinear import Classifier, NaiveBayes, model_file
from loglinear.errors import DataError, ModelFileError, OptionError
from loglinear.estimators.options import classifier_training
from loglinear.generative.naive_bayes import NaiveBayesModel
from loglinear.training.run import TrainingInterrupted
from problems.texts import text_problem

CRITERIA = [
    "naive-bayes",
    "arow",
    "cll",
    "f-measure",
    "jrb",
    "least-squares",
    "m-estimation",
    "marginal-likelihood",
    "max-margin",
]
CRITERIA += ["mira", "passive-aggressive", "perceptron", "risk", "softmax-margin"]


def test_these_are_all_the_criteria():
    assert classifier_training().criteria() == CRITERIA


@pytest.fixture(scope="module")
def counts():
    return text_problem(80, 40, 3)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("multiclass", ["direct", "one-versus-all"])
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_every_criterion_trains_predicts_and_is_kept(criterion, multiclass, form, n_labels, counts):
    X, y = counts
    X, y = X.toarray() if form == "dense" else X, np.minimum(y, n_labels - 1)
    classifier = Classifier(criterion, multiclass=multiclass).fit(X, y)
    assert classifier.score(X, y) > np.bincount(y).max() / len(y) + 0.2
    p = classifier.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(classifier.classes_[p.argmax(axis=1)], classifier.predict(X))
    np.testing.assert_allclose(np.log(p), classifier.predict_log_proba(X), atol=1e-12)
    again = Classifier.load(classifier.to_bytes())
    np.testing.assert_array_equal(again.predict_proba(X), p)
    assert again.get_params() | {"threads": None} == classifier.get_params()
    assert (again.objective_, again.n_iter_) == (classifier.objective_, classifier.n_iter_)
    assert classifier.n_iter_ >= 1 and classifier.converged_ in (True, False)


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("smoothing", [None, 0.25])
def test_naive_bayes_is_that_of_the_estimator_of_its_own(counts, n_labels, smoothing):
    X, y = counts
    y, weights = np.minimum(y, n_labels - 1), np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    spec = "naive-bayes" if smoothing is None else f"naive-bayes:smoothing={smoothing}"
    ours = Classifier(spec).fit(X, y, sample_weight=weights)
    referee = NaiveBayes(1.0 if smoothing is None else smoothing).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.predict_log_proba(X), referee.predict_log_proba(X), rtol=1e-9, atol=1e-9)
    joint = referee.predict_joint_log_proba(X)[np.arange(len(y)), y]
    log_prior = referee.smoothing * referee.feature_log_prob_.sum()
    assert ours.objective_ == pytest.approx(-weights @ joint - log_prior)
    assert ours.message_ == "counted" and ours.converged_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"l2": 0.1}, "'naive-bayes' counts, and has no use for l2"),
        ({"variance": 1.0}, "no use for variance"),
        ({"l1": 0.1}, "no use for l1"),
        ({"optimizer": "lbfgs"}, "no use for optimizer"),
        ({"max_iter": 5}, "no use for max_iter"),
        ({"cost": "hamming:2"}, "no use for cost"),
        ({"bias": "none"}, "no use for bias"),
        ({"base": "naive-bayes"}, "no use for base"),
        ({"feature_map": lambda x, y: [y]}, "no use for feature_map"),
        ({"criterion": "naive-bayes:smoothing=0"}, "must be greater than 0"),
        ({"criterion": "naive-bayes:lambda=1"}, "has no option 'lambda'; it has smoothing"),
    ],
)
def test_naive_bayes_refuses_what_it_has_no_use_for(options, message):
    with pytest.raises(OptionError, match=message):
        Classifier(**{"criterion": "naive-bayes", **options}).check_options()


@pytest.mark.parametrize("criterion", ["naive-bayes", "m-estimation"])
def test_what_counts_refuses_negative_numbers_and_names_the_column(criterion):
    with pytest.raises(DataError, match=r"-2 in column 'x1'.*needs counts"):
        Classifier(criterion).fit([[1.0, -2.0], [0.0, 1.0]], ["a", "b"])


@pytest.mark.parametrize("criterion", ["cll", "max-margin", "softmax-margin"])
def test_threads_do_not_change_the_model(criterion):
    X, y = text_problem(5000, 60, 3)
    one, two = (Classifier(criterion, threads=threads).fit(X, y) for threads in (1, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_dev_data_chooses_the_weights(counts):
    X, y = counts
    X_dev, y_dev = text_problem(60, 40, 3, seed=1)
    classifier = Classifier("perceptron", patience=3, max_iter=50).fit(X, y, X_dev, y_dev)
    assert classifier.dev_score_ == classifier.score(X_dev, y_dev)
    assert classifier.dev_score_ == max(progress.dev_score for progress in classifier.history_)
    assert classifier.best_iteration_ <= classifier.n_iter_ <= classifier.best_iteration_ + 3
    with pytest.raises(OptionError, match="trains label by label"):
        Classifier(multiclass="one-versus-all").fit(X, y, X_dev, y_dev)
    with pytest.raises(OptionError, match="closed form"):
        Classifier("least-squares").fit(X, y, X_dev, y_dev)
    with pytest.raises(OptionError, match="y_dev is given without X_dev"):
        Classifier().fit(X, y, y_dev=y_dev)
    with pytest.raises(DataError, match="none of the dev data's labels"):
        Classifier().fit(X, y, X_dev, y_dev + 10)


@pytest.mark.parametrize("multiclass", ["direct", "one-versus-all"])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_a_start_from_the_optimum_stays_there(multiclass, n_labels, counts):
    X, y = counts[0], np.minimum(counts[1], n_labels - 1)
    options = {"multiclass": multiclass, "optimizer": "lbfgs"}
    first = Classifier(tolerance=1e-10, **options).fit(X, y)
    again = Classifier(max_iter=0, **options).fit(X, y, init=first)
    np.testing.assert_allclose(again.decision_function(X), first.decision_function(X), atol=1e-10)
    assert again.objective_ == pytest.approx(first.objective_, rel=1e-9)


def test_a_start_goes_by_the_names_of_columns_and_labels():
    first = Classifier().fit(["good film", "bad film", "dull film"], ["+", "-", "0"])
    second = Classifier(max_iter=0, optimizer="lbfgs")
    second.fit(["bad book", "good book", "dull"], ["-", "+", "0"], init=first)
    known = dict(zip(first.feature_names_in_, first.coef_.T, strict=True))
    for name, column in zip(second.feature_names_in_, second.coef_.T, strict=True):
        np.testing.assert_allclose(column, known.get(name, np.zeros(3)))


# -- interruptions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [None, "lbfgs", "sgd"])
@pytest.mark.parametrize("multiclass", ["direct", "one-versus-all"])
def test_an_interrupted_training_goes_on_as_if_it_had_not_been(optimizer, multiclass, counts, tmp_path):
    X, y = counts
    checkpoint = tmp_path / "checkpoint"
    classifier = Classifier(optimizer=optimizer, multiclass=multiclass)
    whole = Classifier(optimizer=optimizer, multiclass=multiclass).fit(X, y)
    stop_at = len(whole.history_) // 2
    seen = []

    def observe(progress):
        seen.append(progress)
        if len(seen) == stop_at:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(TrainingInterrupted):
        classifier.fit(X, y, checkpoint=checkpoint, observe=observe)
    usable = Classifier.load(checkpoint)
    assert usable.message_ == "a checkpoint of an unfinished training"
    assert usable.predict(X).shape == y.shape
    with pytest.raises(OptionError, match="did not end; go on with resume"):
        classifier.fit(X, y, checkpoint=checkpoint)
    with pytest.raises(OptionError, match="other data or options"):
        Classifier(l2=3.0, optimizer=optimizer, multiclass=multiclass).fit(X, y, checkpoint=checkpoint, resume=True)
    resumed = classifier.fit(X, y, checkpoint=checkpoint, resume=True)
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    assert resumed.objective_ == whole.objective_
    with pytest.raises(OptionError, match="resume=True needs the checkpoint"):
        classifier.fit(X, y, resume=True)


def test_a_checkpoint_keeps_what_the_model_needs(tmp_path):
    checkpoint, texts = tmp_path / "checkpoint", ["a b", "b c", "c d", "a d"]

    def stop(progress):
        if progress.iteration == 1:
            signal.raise_signal(signal.SIGINT)

    classifier = Classifier(features=str.split, optimizer="lbfgs")
    with pytest.raises(TrainingInterrupted):
        classifier.fit(texts, [1, 2, 2, 1], texts, [1, 2, 2, 1], checkpoint=checkpoint, observe=stop)
    with pytest.raises(OptionError, match="give it again, as in features="):
        Classifier.load(checkpoint)
    assert len(Classifier.load(checkpoint, features=str.split).predict(texts)) == 4
    with pytest.raises(OptionError, match="other data or options"):
        classifier.fit(texts, [1, 2, 2, 1], ["a"], [1], checkpoint=checkpoint, resume=True)
    assert classifier.fit(texts, [1, 2, 2, 1], texts, [1, 2, 2, 1], checkpoint=checkpoint, resume=True).converged_


# -- M-estimation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", ["free", "penalised", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_m_estimation_finds_the_optimum_of_its_objective(bias, weighted):
    rng = np.random.default_rng(0)
    X, y = rng.poisson(1.0, size=(30, 3)).astype(float), np.arange(30) % 3
    weights = rng.random(30) if weighted else np.ones(30)
    classifier = Classifier("m-estimation:smoothing=0.5", l2=0.1, bias=bias, tolerance=1e-12)
    classifier.fit(X, y, sample_weight=weights if weighted else None)
    base = NaiveBayesModel.fit(X, y, 3, 0.5, weights)

    def objective(flat):
        table = flat.reshape(-1, 3)
        own = np.einsum("ij,ji->i", X, table[:3][:, y]) + (0.0 if bias == "none" else table[3, y])
        value = weights @ np.exp(-own) / weights.sum() + np.sum(table[:3] * base.expected())
        if bias != "none":
            value += table[3] @ np.exp(base.log_prior)
        return value + 0.1 * np.sum(table[: 4 if bias == "penalised" else 3] ** 2)

    start = np.zeros(9 if bias == "none" else 12)
    assert classifier.objective_ == pytest.approx(minimize(objective, start, tol=1e-10).fun, abs=1e-8)
    model = classifier.model_
    np.testing.assert_allclose(model.base(X), base.scores(X))
    np.testing.assert_allclose(model.scores.coef, classifier.coef_)


def test_with_a_strong_penalty_it_is_naive_bayes(counts):
    X, y = counts
    classifier = Classifier("m-estimation", l2=1e9, bias="penalised").fit(X, y)
    scores = NaiveBayesModel.fit(X, y.astype(np.int32), 3, 1.0).scores(X)
    np.testing.assert_allclose(classifier.decision_function(X), scores, atol=1e-6)
    np.testing.assert_array_equal(classifier.predict(X), scores.argmax(axis=1))


def test_m_estimation_keeps_base_and_learnt_part_apart(counts):
    X, y = counts
    classifier = Classifier("m-estimation").fit(X, y)
    again = Classifier.load(classifier.to_bytes())
    np.testing.assert_array_equal(again.model_.base.coef, classifier.model_.base.coef)
    assert np.abs(again.model_.scores.minus(again.model_.base).coef).max() > 1e-3
    with pytest.raises(DataError, match="Negative values in data"):
        Classifier("m-estimation").fit(-X, y)


def test_a_base_of_ones_own(counts):
    X, y = counts
    base = NaiveBayesModel.fit(X, y.astype(np.int32), 3, 1.0)

    class Own:
        scores, expected, log_prior = base.scores, base.expected, base.log_prior

    own, named = Classifier("m-estimation", base=Own()).fit(X, y), Classifier("m-estimation").fit(X, y)
    np.testing.assert_allclose(own.decision_function(X), named.decision_function(X), atol=1e-10)
    with pytest.raises(OptionError, match="give it again, as in base="):
        Classifier.load(own.to_bytes())
    np.testing.assert_array_equal(Classifier.load(own.to_bytes(), base=Own()).predict_proba(X), own.predict_proba(X))
    with pytest.raises(OptionError, match="is one of all labels"):
        Classifier("m-estimation", base=Own(), multiclass="one-versus-all").fit(X, y)
    with pytest.raises(OptionError, match="there are 39 columns"):
        Classifier("m-estimation", base=Own()).fit(X[:, :-1], y)


# -- files that do not fit together ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header, arrays: header["labels"].update(values=[2, 1, 0]), "not distinct and sorted"),
        (lambda header, arrays: header["labels"].update(values=[[1], [2]]), "labels.values: not a list"),
        (lambda header, arrays: header["labels"].update(type="pickle"), "labels.type: 'pickle' is not one of"),
        (lambda header, arrays: header.update(encoder={"kind": "os.system"}), "encoder.kind: 'os.system' is not"),
        (lambda header, arrays: header.pop("encoder"), "'encoder' is missing"),
        (lambda header, arrays: header["encoder"].update(columns=39), r"coef: .* shape \[3, 40\], not \[3, 39\]"),
        (lambda header, arrays: header["options"].update(criterion="nonsense"), "options: criterion='nonsense'"),
        (lambda header, arrays: header["options"].update(shell="rm"), "options: .*shell"),
        (lambda header, arrays: header.update(training=3), "training: 3 is not a JSON object"),
        (lambda header, arrays: arrays.update(coef=np.full((3, 40), np.nan)), "coef: not all numbers are finite"),
        (lambda header, arrays: arrays.update(coef=np.zeros((2, 40))), "coef: .* shape"),
        (lambda header, arrays: arrays.pop("intercept"), "'intercept' is missing"),
    ],
)
def test_a_strangers_file_is_refused(change, message, counts):
    stored = model_file.load(Classifier().fit(*counts).to_bytes())
    header, arrays = stored.header, dict(stored.arrays)
    change(header, arrays)
    with pytest.raises(ModelFileError, match=message):
        Classifier.load(model_file.dumps("classifier", header, arrays))


def test_sparse_and_dense_rows_of_zero_columns_do_no_harm():
    X = sp.csr_matrix(np.array([[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]]))
    classifier = Classifier().fit(X, [0, 1, 0])
    assert (classifier.coef_[:, 1] == 0.0).all()
