"""Classifiers with kernels: against linear models, explicit feature maps, SVC and KernelRidge; files and training."""

import signal

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_moons
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC

from loglinear import Classifier, load, model_file
from loglinear.errors import DataError, ModelFileError, OptionError
from loglinear.estimators.options import WITH_KERNELS
from loglinear.generative.naive_bayes import NaiveBayesModel
from loglinear.training.run import TrainingInterrupted

EXACT = {"tolerance": 1e-9, "max_iter": 20_000}


def counts(n, n_labels, seed=0, columns=4):
    """Rows of counts, whose labels follow from them, with some noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_labels, n)
    y[:n_labels] = np.arange(n_labels)
    X = rng.poisson(np.where(np.arange(columns) % n_labels == y[:, None], 3.0, 1.0)).astype(np.float64)
    return X, y


@pytest.fixture(scope="module")
def moons():
    return make_moons(120, noise=0.2, random_state=0)


# -- what kernels are ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", WITH_KERNELS)
@pytest.mark.parametrize("multiclass", ["direct", "one-versus-all"])
@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("bias", ["free", "penalised", "none"])
def test_the_linear_kernel_is_the_linear_classifier(criterion, multiclass, n_labels, bias):
    X, y = counts(40, n_labels)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    options = {"l2": 0.7, "multiclass": multiclass, "bias": bias, "bias_scale": 1.5, "class_weight": "balanced"}
    linear = Classifier(criterion, **options, **EXACT).fit(X, y, sample_weight=weights)
    kernel = Classifier(criterion, kernel="linear", **options, **EXACT).fit(X, y, sample_weight=weights)
    assert kernel.objective_ == pytest.approx(linear.objective_, rel=1e-6)
    np.testing.assert_allclose(kernel.coef_, linear.coef_, atol=2e-3)
    np.testing.assert_allclose(kernel.intercept_, linear.intercept_, atol=2e-3)
    np.testing.assert_allclose(kernel.decision_function(X), linear.decision_function(X), atol=1e-2)
    if criterion != "m-estimation":  # whose weights have a base, too
        np.testing.assert_allclose(kernel.dual_coef_ @ kernel.support_vectors_, kernel.coef_, atol=1e-9)
    np.testing.assert_array_equal(X[kernel.support_], kernel.support_vectors_)


def second_degree(X, gamma, coef0):
    """z with z(x) . z(x') = (gamma x . x' + coef0)^2."""
    i, j = np.triu_indices(X.shape[1])
    products = X[:, i] * X[:, j] * np.where(i == j, 1.0, np.sqrt(2.0))
    return np.hstack([gamma * products, np.sqrt(2.0 * gamma * coef0) * X, np.full((len(X), 1), coef0)])


@pytest.mark.parametrize("criterion", [each for each in WITH_KERNELS if each != "m-estimation"])
def test_poly_of_degree_two_is_linear_in_products(criterion):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (np.sum(X**2, axis=1) + 0.3 * rng.normal(size=60) > 1.2).astype(int)
    linear = Classifier(criterion, l2=0.3, **EXACT).fit(second_degree(X, 0.5, 1.0), y)
    kernel = Classifier(criterion, l2=0.3, kernel="poly:degree=2,gamma=0.5,coef0=1", **EXACT).fit(X, y)
    assert kernel.objective_ == pytest.approx(linear.objective_, rel=1e-6)
    new = rng.normal(size=(30, 2))
    np.testing.assert_allclose(
        kernel.decision_function(new), linear.decision_function(second_degree(new, 0.5, 1.0)), atol=1e-2
    )
    assert kernel.score(X, y) > Classifier(criterion, l2=0.3).fit(X, y).score(X, y) + 0.1


@pytest.mark.parametrize("C", [0.5, 10.0, 100.0])
def test_max_margin_is_the_svm_of_libsvm(moons, C):
    X, y = moons
    referee = SVC(C=C, tol=1e-8).fit(X, y)
    ours = Classifier("max-margin", kernel="rbf", l2=0.5 / C, tolerance=1e-8, max_iter=10_000).fit(X, y)
    assert ours.converged_
    np.testing.assert_allclose(ours.decision_function(X), referee.decision_function(X), atol=5e-3)
    assert len(set(ours.support_) ^ set(referee.support_)) <= 2
    inside = ours.dual_coef_[0] @ ours.model_.kernel(ours.support_vectors_, ours.support_vectors_) @ ours.dual_coef_[0]
    hinge = np.maximum(0.0, 1.0 - (2 * y - 1) * referee.decision_function(X)).sum()
    theirs = referee.dual_coef_[0] @ ours.model_.kernel(X[referee.support_], X[referee.support_])
    assert ours.objective_ == pytest.approx(hinge + 0.5 / C * float(theirs @ referee.dual_coef_[0]), rel=1e-5)
    assert inside > 0.0


def test_least_squares_is_kernel_ridge(moons):
    X, y = moons
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    ours = Classifier("least-squares", kernel="rbf:gamma=0.8", l2=0.3, bias="none").fit(X, y, sample_weight=weights)
    referee = KernelRidge(alpha=0.3, kernel="rbf", gamma=0.8).fit(X, 2.0 * y - 1.0, sample_weight=weights)
    np.testing.assert_allclose(ours.dual_coef_[0], referee.dual_coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ours.decision_function(X), referee.predict(X), rtol=1e-7, atol=1e-9)
    assert ours.message_ == "in closed form"
    by_steps = Classifier("least-squares", kernel="rbf:gamma=0.8", l2=0.3, bias="none", optimizer="lbfgs", **EXACT)
    by_steps.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(by_steps.decision_function(X), referee.predict(X), atol=1e-3)
    assert by_steps.objective_ == pytest.approx(ours.objective_, rel=1e-6)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1000),
    criterion=st.sampled_from([each for each in WITH_KERNELS if each != "m-estimation"]),
    n_labels=st.sampled_from([2, 3]),
    l2=st.sampled_from([0.05, 1.0]),
)
def test_no_small_change_of_a_coefficient_lowers_the_objective(seed, criterion, n_labels, l2):
    """The objective written out, at the model's coefficients and near them."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(20, 2)), rng.integers(0, n_labels, 20)
    y[:n_labels] = np.arange(n_labels)
    model = Classifier(criterion, kernel="rbf:gamma=0.7", l2=l2, **EXACT).fit(X, y)
    kernel = model.model_.kernel(X, X)

    def objective(a, b):
        f = kernel @ a.T + b
        if n_labels == 2:
            signed = (2 * y - 1) * f[:, 0]
            losses = {
                "cll": np.logaddexp(0.0, -signed),
                "softmax-margin": np.logaddexp(0.0, 1.0 - signed),
                "max-margin": np.maximum(0.0, 1.0 - signed),
                "least-squares": (1.0 - signed) ** 2,
            }[criterion]
        else:
            others = 1.0 - np.eye(n_labels)[y]
            gold = f[np.arange(20), y]
            losses = {
                "cll": np.log(np.exp(f).sum(axis=1)) - gold,
                "softmax-margin": np.log(np.exp(f + others).sum(axis=1)) - gold,
                "max-margin": (f + others).max(axis=1) - gold,
                "least-squares": ((f - 1.0 + 2.0 * others) ** 2).sum(axis=1),
            }[criterion]
        return losses.sum() + l2 * np.sum((a @ kernel) * a)

    a = np.zeros((len(model.dual_coef_), 20))
    a[:, model.support_] = model.dual_coef_
    best = objective(a, model.intercept_)
    assert best == pytest.approx(model.objective_, rel=1e-6, abs=1e-6)
    for size in (1e-1, 1e-2):
        for _ in range(5):
            other = objective(a + size * rng.normal(size=a.shape), model.intercept_ + size * rng.normal(size=len(a)))
            assert other >= best - 1e-5 * (1.0 + abs(best))


# -- M-estimation ------------------------------------------------------------------------------------------------------


def test_m_estimation_expects_what_the_base_draws():
    """Against the objective written out with the same draws, minimised over all coefficients."""
    X, y = counts(25, 2, columns=3)
    ours = Classifier("m-estimation", kernel="rbf:gamma=0.05", base="naive-bayes:samples=500", l2=0.05, **EXACT)
    ours.fit(X, y)
    base = NaiveBayesModel.fit(X, y, 2, 1.0)
    drawn, labels = base.sample(500, np.random.default_rng(0))
    kernel = ours.model_.kernel
    expected = kernel(X, drawn.toarray()) @ np.eye(2)[labels] / 500
    gram = kernel(X, X)
    prior = np.exp(base.log_prior)

    def objective(a, b):  # a [S, 2], b [2]
        scores = gram @ a + b
        exps = np.exp(-scores[np.arange(25), y]).mean()
        return exps + np.sum(a * expected) + b @ prior + 0.05 * np.sum(a * (gram @ a))

    from scipy.optimize import minimize

    found = minimize(lambda v: objective(v[:50].reshape(25, 2), v[50:]), np.zeros(52), options={"gtol": 1e-9})
    assert ours.objective_ == pytest.approx(found.fun, abs=1e-7)
    a, b = found.x[:50].reshape(25, 2), found.x[50:]
    scores = gram @ a + b + base.scores(X)
    np.testing.assert_allclose(ours.decision_function(X), scores[:, 1] - scores[:, 0], atol=1e-3)


class Drawn:
    """A base of one's own: naive Bayes by another name."""

    def __init__(self, X, y, n_labels):
        self.inner = NaiveBayesModel.fit(X, y, n_labels, 1.0)
        self.log_prior = self.inner.log_prior

    def scores(self, X):
        return self.inner.scores(X)

    def sample(self, n, rng):
        return self.inner.sample(n, rng)


def test_a_base_of_ones_own_is_drawn_from():
    X, y = counts(40, 3)
    named = Classifier("m-estimation", kernel="rbf:gamma=0.1", l2=0.1).fit(X, y)
    own = Drawn(X, y, 3)
    ours = Classifier("m-estimation", kernel="rbf:gamma=0.1", l2=0.1, base=own).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), named.decision_function(X), atol=1e-9)
    again = Classifier.load(ours.to_bytes(), base=own)
    np.testing.assert_array_equal(again.predict_proba(X), ours.predict_proba(X))
    assert named.score(X, y) > 0.6


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (lambda n, rng: np.zeros((n, 4)), "must give rows and the numbers of their labels"),
        (lambda n, rng: (np.zeros((n, 3)), np.zeros(n, dtype=int)), "gave rows of shape"),
        (lambda n, rng: (np.zeros((n, 4)), np.full(n, 3)), "labels are whole numbers from 0 to 2"),
    ],
)
def test_draws_that_do_not_fit_are_refused(sample, message):
    X, y = counts(20, 3)
    base = Drawn(X, y, 3)
    base.sample = sample
    with pytest.raises(DataError, match=message):
        Classifier("m-estimation", kernel="rbf", base=base).fit(X, y)


# -- data, files and training ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("criterion", WITH_KERNELS)
@pytest.mark.parametrize("multiclass", ["direct", "one-versus-all"])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_sparse_and_dense_rows_give_the_same_model_which_is_kept(criterion, multiclass, n_labels):
    X, y = counts(40, n_labels)
    dense = Classifier(criterion, kernel="rbf:gamma=0.1", multiclass=multiclass, l2=0.1).fit(X, y)
    sparse = Classifier(criterion, kernel="rbf:gamma=0.1", multiclass=multiclass, l2=0.1).fit(sp.csr_matrix(X), y)
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-3)
    assert sp.issparse(sparse.support_vectors_) and dense.score(X, y) > np.bincount(y).max() / len(y) + 0.15
    for model in (dense, sparse):
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        again = Classifier.load(model.to_bytes())
        np.testing.assert_array_equal(again.predict_proba(X), p)
        np.testing.assert_array_equal(again.support_, model.support_)
        assert again.get_params() | {"threads": None} == model.get_params()
    explained = dense.explain(X[0])
    decision = dense.decision_function(X[:1])[0]
    if n_labels == 2:
        assert sum(explained[1].values()) - sum(explained[0].values()) == pytest.approx(decision)
    else:
        np.testing.assert_allclose([sum(parts.values()) for parts in explained.values()], decision)
    assert next(iter(explained[1])).startswith(("row ", "(b"))


@pytest.mark.parametrize("criterion", ["cll", "max-margin", "m-estimation"])
def test_threads_change_nothing(criterion):
    X, y = counts(60, 3)
    one, two = (Classifier(criterion, kernel="rbf", threads=n).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)


@pytest.mark.parametrize("criterion", [each for each in WITH_KERNELS if each != "m-estimation"])
def test_a_row_of_weight_two_counts_as_two_rows(moons, criterion):
    X, y = moons
    weights = np.random.default_rng(0).integers(0, 3, len(y))
    repeated = np.repeat(np.arange(len(y)), weights)
    options = {"kernel": "rbf:gamma=0.7", "l2": 0.2, "tolerance": 1e-8, "max_iter": 5000}
    weighted = Classifier(criterion, **options).fit(X, y, sample_weight=weights)
    several = Classifier(criterion, **options).fit(X[repeated], y[repeated])
    assert weighted.objective_ == pytest.approx(several.objective_, rel=1e-6)
    np.testing.assert_allclose(weighted.decision_function(X), several.decision_function(X), atol=5e-3)
    assert (weights[weighted.support_] > 0).all()


def test_other_inputs_have_kernels_too():
    texts = ["a good film", "good, very good", "a bad film", "bad and dull", "dull film"]
    model = Classifier(kernel="poly:degree=2,coef0=1", l2=0.1).fit(texts, ["+", "+", "-", "-", "-"])
    assert model.predict(["a dull and bad book", "very good"]).tolist() == ["-", "+"]
    assert Classifier.load(model.to_bytes()).predict(["good"]).tolist() == ["+"]
    costly = Classifier("softmax-margin", kernel="rbf", cost={("+", "-"): 50.0, ("-", "+"): 0.1}, l2=1.0)
    assert costly.fit(texts, ["+", "+", "-", "-", "-"]).predict(texts).tolist() == ["+"] * 5


def test_dev_data_stops_early_and_keeps_the_best(moons):
    X, y = moons
    X_dev, y_dev = make_moons(60, noise=0.3, random_state=1)
    model = Classifier("cll", kernel="rbf:gamma=20", l2=1e-4, patience=3)
    model.fit(X, y, X_dev, y_dev)
    scores = [progress.dev_score for progress in model.history_]
    assert model.dev_score_ == max(scores) == model.score(X_dev, y_dev)
    assert model.n_iter_ <= model.best_iteration_ + 3
    based = Classifier("m-estimation", kernel="rbf", l2=0.1)
    counted, labels = counts(40, 3)
    based.fit(counted, labels, counted, labels)
    assert based.dev_score_ == based.score(counted, labels)


def test_a_start_from_a_model_of_the_same_kernel(moons, tmp_path):
    X, y = moons
    options = {"kernel": "rbf:gamma=1", "l2": 0.05, "optimizer": "lbfgs"}
    first = Classifier("cll", **options).fit(X, y)
    again = Classifier("cll", **options).fit(X, y, init=first)
    assert again.n_iter_ < first.n_iter_ / 2
    assert again.objective_ == pytest.approx(first.objective_, rel=1e-4)
    stopped = Classifier("cll", **options, max_iter=0).fit(X[:80], y[:80], init=first)
    new = make_moons(20, noise=0.1, random_state=5)[0]  # with some rows fewer, nearly the same function
    np.testing.assert_allclose(stopped.decision_function(new), first.decision_function(new), atol=0.3)
    first.save(tmp_path / "m.model")
    with pytest.raises(OptionError, match="its kernel is rbf:gamma=1, not rbf:gamma=2"):
        Classifier("cll", kernel="rbf:gamma=2").fit(X, y, init=tmp_path / "m.model")
    with pytest.raises(OptionError, match="a model with a kernel and one without"):
        Classifier("cll").fit(X, y, init=first)
    with pytest.raises(OptionError, match="its columns are others"):
        Classifier("cll", kernel="rbf:gamma=1").fit(np.hstack([X, X]), y, init=first)


@pytest.mark.parametrize("criterion", ["max-margin", "m-estimation"])
@pytest.mark.parametrize("kernel", ["rbf:gamma=0.1", "own"])
def test_an_interrupted_training_goes_on_to_the_same_coefficients(criterion, kernel, tmp_path):
    X, y = counts(60, 3)

    def make():  # a new function each time, as in another process
        own = (lambda a, b: np.exp(-0.1 * ((a[:, None] - b) ** 2).sum(axis=2))) if kernel == "own" else kernel
        return Classifier(criterion, kernel=own, l2=0.01, tolerance=1e-7)

    whole = make().fit(X, y)
    place = tmp_path / "c.ckpt"

    def stop(progress):
        if progress.iteration == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(TrainingInterrupted):
        make().fit(X, y, checkpoint=place, observe=stop)
    again = make().fit(X, y, checkpoint=place, resume=True)
    np.testing.assert_array_equal(again.dual_coef_, whole.dual_coef_)
    assert again.n_iter_ == whole.n_iter_ > 3
    with pytest.raises(OptionError, match="other data or options"):
        Classifier(criterion, kernel="rbf:gamma=0.2", l2=0.01, tolerance=1e-7).fit(X, y, checkpoint=place, resume=True)


def nearness(rows, others):
    return np.exp(-((rows[:, None] - others) ** 2).sum(axis=2))


def test_a_kernel_of_ones_own_is_given_again(moons, tmp_path):
    X, y = moons
    own = Classifier("max-margin", kernel=nearness).fit(X, y)
    named = Classifier("max-margin", kernel="rbf:gamma=1").fit(X, y)
    np.testing.assert_allclose(own.decision_function(X), named.decision_function(X), atol=1e-3)
    own.save(tmp_path / "m.model")
    with pytest.raises(OptionError, match="with a kernel of your own; give the function again, as in kernel="):
        Classifier.load(tmp_path / "m.model")
    for again in (Classifier.load(tmp_path / "m.model", kernel=nearness), load(tmp_path / "m.model", kernel=nearness)):
        np.testing.assert_array_equal(again.decision_function(X), own.decision_function(X))
    named.save(tmp_path / "named.model")
    with pytest.raises(OptionError, match="was trained without kernel"):
        Classifier.load(tmp_path / "named.model", kernel=nearness)
    with pytest.raises(OptionError, match="give the function again"):
        Classifier.load(tmp_path / "m.model", kernel="rbf")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "risk"}, "criterion='risk' has no kernels; there are: cll, least-squares"),
        ({"criterion": "perceptron"}, "has no kernels"),
        ({"criterion": "naive-bayes"}, "no use for kernel"),
        ({"optimizer": "sgd"}, "optimizer='sgd' is for weights of columns"),
        ({"optimizer": "dual:prune=0.1"}, "prune=0.1 is for chains"),
        ({"l1": 0.1}, "l1=0.1 is a penalty on weights of columns"),
        ({"l2": 0}, "l2=0 would let"),
        ({"kernel": "rbf:gamma=-1"}, "must be greater than 0"),
        ({"feature_map": lambda x, y: []}, "a feature_map makes none"),
        ({"criterion": "m-estimation", "base": "naive-bayes:samples=0"}, "must be at least 1"),
        ({"criterion": "m-estimation", "base": "naive-bayes:draws=9"}, "has no option 'draws'"),
        ({"criterion": "m-estimation", "base": "naive-bayes:samples=9", "kernel": None}, "leave samples out"),
        ({"criterion": "m-estimation", "base": SVC()}, r"needs the methods scores\(X\) and sample"),
    ],
)
def test_options_that_do_not_go_together_are_refused(moons, options, message):
    X, y = moons
    with pytest.raises(OptionError, match=message):
        Classifier(**{"kernel": "rbf", **options}).fit(np.abs(X), y)


def test_fitting_again_without_a_kernel_leaves_nothing_of_it(moons):
    X, y = moons
    model = Classifier(kernel="rbf").fit(X, y)
    assert not hasattr(model, "coef_")
    model.set_params(kernel=None).fit(X, y)
    assert model.coef_.shape == (1, 2) and not hasattr(model, "dual_coef_")


DAMAGES = {
    "no rows": lambda header, arrays: arrays.pop("kernel.rows"),
    "a row fewer": lambda header, arrays: arrays.update({"kernel.rows": arrays["kernel.rows"][1:]}),
    "a column more": lambda header, arrays: arrays.update({"kernel.rows": np.hstack([arrays["kernel.rows"]] * 2)}),
    "not finite": lambda header, arrays: arrays["kernel.rows"].__setitem__((0, 0), np.nan),
    "numbers in disorder": lambda header, arrays: arrays.update({"kernel.numbers": arrays["kernel.numbers"][::-1]}),
    "numbers missing": lambda header, arrays: arrays.update({"kernel.numbers": arrays["kernel.numbers"][:0]}),
    "coefficients missing": lambda header, arrays: arrays.update(coef=arrays["coef"][:, :-1]),
    "no such kernel": lambda header, arrays: header["kernel"].update(name="sigmoid"),
    "no name": lambda header, arrays: header["kernel"].pop("name"),
    "a negative gamma": lambda header, arrays: header["kernel"].update(gamma=-1.0),
    "no gamma": lambda header, arrays: header["kernel"].update(gamma=None),
    "gamma is text": lambda header, arrays: header["kernel"].update(gamma="1"),
    "something else": lambda header, arrays: header["kernel"].update(function="os.system"),
    "kernel is a list": lambda header, arrays: header.update(kernel=[1]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_refused(moons, damage):
    stored = model_file.load(Classifier("max-margin", kernel="rbf").fit(*moons).to_bytes())
    header, arrays = dict(stored.header), {name: array.copy() for name, array in stored.arrays.items()}
    DAMAGES[damage](header, arrays)
    with pytest.raises(ModelFileError):
        Classifier.load(model_file.dumps("classifier", header, arrays))


SPARSE_DAMAGES = {
    "columns out of range": lambda arrays: arrays["kernel.columns"].__setitem__(0, 99),
    "a pointer out of range": lambda arrays: arrays["kernel.pointer"].__setitem__(1, 10**9),
    "values missing": lambda arrays: arrays.update({"kernel.values": arrays["kernel.values"][1:]}),
}


@pytest.mark.parametrize("damage", SPARSE_DAMAGES)
def test_damaged_sparse_rows_are_refused(damage):
    X, y = counts(30, 2)
    stored = model_file.load(Classifier("max-margin", kernel="rbf").fit(sp.csr_matrix(X), y).to_bytes())
    arrays = {name: array.copy() for name, array in stored.arrays.items()}
    SPARSE_DAMAGES[damage](arrays)
    with pytest.raises(ModelFileError):
        Classifier.load(model_file.dumps("classifier", dict(stored.header), arrays))


def test_probabilities_of_cll_are_calibrated():
    """Of rows drawn from a known distribution, p(1) is close to the true one."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, size=(600, 1))
    truth = 0.5 + 0.45 * np.sin(2.0 * X[:, 0])
    y = (rng.random(600) < truth).astype(int)
    model = Classifier("cll", kernel="rbf:gamma=1", l2=0.5).fit(X, y)
    assert np.abs(model.predict_proba(X)[:, 1] - truth).mean() < 0.08
