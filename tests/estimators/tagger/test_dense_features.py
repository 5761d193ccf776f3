"""Dense features: the same model as with the same numbers as items of dicts, which is the referee of everything."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad
from scipy.sparse import csr_matrix

from loglinear import Combination, LocalTagger, Tagger
from loglinear.data import Columns, WordVectors, features_from_frame, read_vectors
from loglinear.errors import DataError, OptionError
from loglinear.estimators.options import M_ESTIMATION

LABELS = ["A", "B", "C"]
W = 3
RNG = np.random.default_rng(7)


def made(n, seed=0):
    """Sequences of dicts with an array, the same with its numbers as items, and labels."""
    rng = np.random.default_rng(seed)
    dense, items, y = [], [], []
    for _ in range(n):
        length = int(rng.integers(1, 6))
        rows = rng.normal(size=(length, W)) + np.array([1.0, 0.0, -2.0])
        words = [{"w": str(rng.integers(4)), "v": float(rng.integers(3))} for _ in range(length)]
        dense.append([{**word, "emb": row} for word, row in zip(words, rows, strict=True)])
        items.append(
            [
                {**word, **{f"emb:{k}": float(x) for k, x in enumerate(row)}}
                for word, row in zip(words, rows, strict=True)
            ]
        )
        noisy = rows[:, 0] + 0.5 * rng.normal(size=length)
        y.append([LABELS[min(2, max(0, int(x)))] for x in noisy])
    return dense, items, y


DENSE, ITEMS, Y = made(12)
PLAIN = {"standardise": False, "precision": "float64", "threads": 1}
TAKES_DENSE = [
    "cll", "f-measure", "jrb", "marginal-likelihood", "max-margin", "memm", "mira", "nota", "passive-aggressive",
    "perceptron", "piecewise", "pseudolikelihood", "risk", "softmax-margin",
]  # fmt: skip


def problems(criterion, options, dense=DENSE, items=ITEMS, y=Y):
    """Both forms' objectives, and the place of each weight of the first among those of the second."""
    found = []
    for X in (dense, items):
        tagger = Tagger(criterion=criterion, **PLAIN, **options)
        problem = tagger.problem(X, y)
        model = problem.model.with_weights(np.arange(1.0, problem.model.features.n_features + 1))
        named = {}
        for kind in model.shown_kinds:
            if not (kind == "edge" and not model.features.edge):
                named |= {
                    ("state" if kind == "dense" else kind, *key): int(w) - 1 for key, w in model.named(kind).items()
                }
        found.append((problem, named))
    (first, mine), (second, theirs) = found
    places = np.array([theirs[key] for key, _ in sorted(mine.items(), key=lambda item: item[1])])
    assert sorted(mine) == sorted(theirs)
    return first, second, places


def values(problem, criterion, weights):
    part = problem.criterion(criterion, None)
    value, gradient = problem.objective(part, 0.3, 1, single_precision=True)(weights)
    return value, gradient.copy()


@pytest.mark.parametrize(
    "options", [{}, {"order": 2}, {"order": 3}, {"sub_labels": 2}, {"transitions": "all"}], ids=str
)
@pytest.mark.parametrize("criterion", ["cll", "softmax-margin", "memm", "pseudolikelihood"])
def test_objective_and_gradient_are_those_of_items(criterion, options):
    if "sub_labels" in options and criterion != "cll":
        return  # it needs one label for each token
    first, second, places = problems(criterion, options)
    weights = np.random.default_rng(1).normal(size=len(places))
    moved = np.empty(len(places))
    moved[places] = weights
    (a, by_a), (b, by_b) = values(first, criterion, weights), values(second, criterion, moved)
    assert a == pytest.approx(b, rel=1e-4)  # that of items may be in single precision
    np.testing.assert_allclose(by_a, by_b[places], rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("criterion", ["cll", "softmax-margin", "memm"])
def test_gradient_is_that_of_finite_differences(criterion):
    problem = Tagger(criterion=criterion, **PLAIN).problem(DENSE, Y)
    objective = problem.objective(problem.criterion(criterion, None), 0.1, 1)
    start = np.random.default_rng(2).normal(size=problem.model.features.n_features)
    gradient = objective(start)[1].copy()
    assert check_grad(lambda w: objective(w)[0], lambda w: gradient, start) < 1e-4 * (1 + np.abs(gradient).max())


@pytest.mark.parametrize("criterion", TAKES_DENSE)
def test_every_criterion_trains_and_answers(criterion, tmp_path):
    tagger = Tagger(criterion=criterion, max_iter=15).fit(DENSE, Y)
    assert tagger.score(DENSE, Y) > 0.5
    tagger.save(tmp_path / "m")
    other = Tagger.load(tmp_path / "m")
    assert other.predict(DENSE) == tagger.predict(DENSE)
    assert other.dense_weights_ == tagger.dense_weights_
    assert len(tagger.dense_weights_) == W * len(LABELS)


OPTIMIZERS = [
    ({"optimizer": "lbfgs"}, 1e-6),
    ({"optimizer": "lbfgs", "l1": 0.5}, 1e-4),
    ({"optimizer": "sgd"}, 1e-6),
    ({"optimizer": "sgd", "l1": 0.2}, 1e-6),
    ({"optimizer": "adagrad"}, 1e-6),
    ({"criterion": "perceptron"}, 1e-6),
    ({"criterion": "mira"}, 1e-6),
    ({"criterion": "passive-aggressive"}, 1e-6),
]


@pytest.mark.parametrize(("options", "near"), OPTIMIZERS, ids=str)
def test_every_optimizer_finds_what_it_finds_with_items(options, near):
    fitted = []
    for X in (DENSE, ITEMS):
        limit = {} if "lbfgs" in str(options) else {"max_iter": 5}
        fitted.append(Tagger(**PLAIN, **options, **limit).fit(X, Y))
    ours, theirs = fitted
    if ours.objective_ is not None:
        assert ours.objective_ == pytest.approx(theirs.objective_, rel=max(near, 1e-5))
    expected = {key: w for key, w in theirs.state_weights_.items() if key[0].startswith("emb:")}
    assert {key for key, w in ours.dense_weights_.items() if w} == set(expected)
    for key, weight in expected.items():
        assert ours.dense_weights_[key] == pytest.approx(weight, abs=0.02)
    if "lbfgs" not in str(options):
        assert ours.state_weights_ == pytest.approx(
            {key: w for key, w in theirs.state_weights_.items() if key not in expected}, abs=1e-3
        )


def test_dual_ascent_says_why_not_and_the_default_does_without():
    with pytest.raises(OptionError, match="dense"):
        Tagger(optimizer="dual").fit(DENSE, Y)
    assert "L-BFGS" in Tagger().fit(DENSE, Y).message_ or Tagger().fit(DENSE, Y).converged_


def test_standardised_columns_have_mean_zero_and_the_model_keeps_it(tmp_path):
    scaled = [[{**token, "emb": 1000 * token["emb"] + 5} for token in x] for x in DENSE]
    one, other = Tagger(precision="float64").fit(DENSE, Y), Tagger(precision="float64").fit(scaled, Y)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-9)
    rows = np.array([token["emb"] for x in DENSE for token in x])
    np.testing.assert_allclose(one.model_.dense.mean, rows.mean(axis=0))
    np.testing.assert_allclose(one.model_.dense.scale, rows.std(axis=0))
    loaded = Tagger.load(one.to_bytes())
    assert loaded.predict_marginals(DENSE) == one.predict_marginals(DENSE)
    assert loaded.standardise
    assert Tagger(**PLAIN).fit(DENSE, Y).model_.dense.scale.tolist() == [1.0] * W


def test_threads_and_blocks_change_no_bit():
    X, _, y = made(400, seed=3)
    alone = Tagger(threads=1, max_iter=8).fit(X, y)
    together = Tagger(threads=2, max_iter=8).fit(X, y)
    assert alone.dense_weights_ == together.dense_weights_
    assert alone.predict_marginals(X[:50]) == together.predict_marginals(X[:50])


def test_training_goes_on_where_it_stopped(tmp_path):
    whole = Tagger(precision="float64", max_iter=12).fit(DENSE, Y)
    checkpoint = tmp_path / "c"

    def stop(progress):
        if progress.iteration == 5:
            raise KeyboardInterrupt

    part = Tagger(precision="float64", max_iter=12)
    with contextlib.suppress(KeyboardInterrupt):
        part.fit(DENSE, Y, checkpoint=checkpoint, observe=stop)
    resumed = Tagger(precision="float64", max_iter=12).fit(DENSE, Y, checkpoint=checkpoint, resume=True)
    assert resumed.dense_weights_ == whole.dense_weights_
    start = Tagger(precision="float64", max_iter=0).fit(DENSE, Y, init=whole)
    assert start.dense_weights_ == pytest.approx(whole.dense_weights_)


def test_it_goes_with_hashing_constraints_pair_features_and_pruning():
    for options in (
        {"hash_bits": 10},
        {"pair_features": True},
        {"pair_features": "only"},
        {"edge": ["w"]},
        {"prune": 0.5},
        {"states": "probable:0.2"},
        {"sub_labels": 2, "order": 2},
        {"transitions": "observed-only"},
    ):
        tagger = Tagger(**options, max_iter=20).fit(DENSE, Y)
        other = Tagger.load(tagger.to_bytes())
        assert other.predict(DENSE) == tagger.predict(DENSE)
        assert other.predict_marginals(DENSE[:3]) == tagger.predict_marginals(DENSE[:3])
    partial = [[None if i % 3 == 1 else label for i, label in enumerate(y)] for y in Y]
    assert Tagger(max_iter=10).fit(DENSE, partial).score(DENSE, Y) > 0.5
    assert Tagger(max_iter=10).fit(DENSE, Y, DENSE, Y).dev_score_ > 0.5


# -- what users give ---------------------------------------------------------------------------------------------------


def test_forms_of_the_same_numbers_are_the_same_model():
    rows = [np.array([token["emb"] for token in x]) for x in DENSE]
    words = [[{k: v for k, v in token.items() if k != "emb"} for token in x] for x in DENSE]
    expected = Tagger(**PLAIN).fit(DENSE, Y)
    forms = {
        "lists": [[{**token, "emb": token["emb"].tolist()} for token in x] for x in DENSE],
        "float32": [[{**token, "emb": token["emb"].astype(np.float32)} for token in x] for x in DENSE],
        "pairs": list(zip(words, rows, strict=True)),
        "generators": [(iter(w), r) for w, r in zip(words, rows, strict=True)],
        "sparse": [(w, csr_matrix(r)) for w, r in zip(words, rows, strict=True)],
    }
    for name, X in forms.items():
        tagger = Tagger(**PLAIN).fit(X, Y)
        assert tagger.objective_ == pytest.approx(expected.objective_, rel=1e-5), name
    X = [*forms["pairs"][:3], ([], np.zeros((0, W))), *forms["pairs"][3:]]
    y = [*Y[:3], [], *Y[3:]]
    assert Tagger(**PLAIN).fit(X, y).predict(X)[3] == []


def test_arrays_alone_have_a_bias():
    rows = [np.array([token["emb"] for token in x]) for x in DENSE]
    tagger = Tagger(**PLAIN).fit(rows, Y)
    same = Tagger(**PLAIN).fit([([{"bias": True}] * len(r), r) for r in rows], Y)
    assert tagger.objective_ == same.objective_
    assert tagger.predict_single(rows[0]) == tagger.predict(rows)[0]
    cube = np.stack([r[:1] for r in rows])
    assert Tagger(**PLAIN).fit(cube, [y[:1] for y in Y]).predict(cube)
    sparse = Tagger(**PLAIN, optimizer="lbfgs").fit([csr_matrix(r) for r in rows], Y)
    assert sparse.objective_ == pytest.approx(tagger.objective_, rel=1e-5)


def test_tokens_without_an_array_have_the_mean():
    X = [[{"w": "a", "emb": np.array([1.0, 3.0])}, {"w": "b"}], [{"w": "a", "emb": np.array([3.0, 5.0])}]]
    tagger = Tagger().fit(X, [["A", "B"], ["A"]])
    assert tagger.model_.dense.mean.tolist() == [2.0, 4.0]
    filled = [[{"w": "a", "emb": [1, 3]}, {"w": "b", "emb": [2, 4]}], [{"w": "a", "emb": [3, 5]}]]
    assert tagger.predict_marginals(X) == tagger.predict_marginals(filled)


@pytest.mark.parametrize(
    ("X", "says"),
    [
        ([[{"e": np.ones(2)}, {"e": np.ones(3)}]], r"sequence 0, position 1 .* 3 numbers here, and 2 before"),
        ([[{"e": np.ones(2)}], [{"e": np.ones(3)}]], r"sequence 1.* 3 numbers here, and 2 before"),
        ([[{"e": np.ones(2)}, {"e": "x"}]], r"sequence 0, position 1 .* array at other tokens"),
        ([[{"e": np.array([1.0, np.nan])}]], r"sequence 0, position 0 .* number nan at 1"),
        ([[{"e": np.ones((2, 2))}]], r"sequence 0, position 0 .* shape \(2, 2\)"),
        ([([{"w": "a"}], np.ones((2, 2)))], r"sequence 0 .* 1 token, but 2 rows"),
        ([np.array([[np.inf]])], r"sequence 0, position 0 .* number inf"),
    ],
)  # fmt: skip
def test_errors_name_the_place(X, says):
    with pytest.raises(DataError, match=says):
        Tagger().fit(X, [["A"] * (len(x) if not isinstance(x, tuple) else 1) for x in X])


def test_what_does_not_fit_the_model_is_refused():
    tagger, plain = Tagger(max_iter=2).fit(DENSE, Y), Tagger(max_iter=2).fit([[{"w": "a"}]], [["A"]])
    with pytest.raises(DataError, match="needs the dense feature 'emb'"):
        tagger.predict([[{"w": "a"}]])
    with pytest.raises(DataError, match="without the dense features 'emb'"):
        plain.predict([[{"w": "a", "emb": np.ones(3)}]])
    with pytest.raises(DataError, match="without the dense feature 'other'"):
        tagger.predict([[{"emb": np.ones(3), "other": np.ones(3)}]])
    with pytest.raises(DataError, match="has 4 numbers, in training it had 3"):
        tagger.predict([[{"emb": np.ones(4)}]])
    for estimator in (Tagger(structure="segments"), Tagger(criterion=M_ESTIMATION), LocalTagger("x")):
        with pytest.raises((OptionError, DataError)):
            estimator.fit(DENSE, Y)


@settings(max_examples=20, deadline=None)
@given(st.binary(min_size=1, max_size=4), st.integers(0, 10**6))
def test_damaged_files_are_refused(change, place):
    content = bytearray(_SAVED)
    at = place % len(content)
    content[at : at + len(change)] = change
    try:
        Tagger.load(bytes(content))
    except (DataError, OptionError, ValueError) as error:
        assert type(error).__module__.startswith("loglinear")


_SAVED = Tagger(max_iter=2).fit(DENSE, Y).to_bytes()


# -- word vectors and tables -------------------------------------------------------------------------------------------

WORDS = [["Rome", "fell"], ["rome", "rose", "xyz"]] * 4
TAGS = [["LOC", "O"], ["LOC", "O", "O"]] * 4
VECTORS = "rome 1 0.5\nfell -1 0\nrose -1 0.25\n. . . 0 0\n"


@pytest.mark.parametrize("head", ["", "4 2\n"])
def test_word_vectors_are_read_and_kept(tmp_path, head):
    path = tmp_path / "v.txt"
    path.write_text(head + VECTORS)
    vectors = read_vectors(path)
    assert vectors.words == ["rome", "fell", "rose", ". . ."]
    assert vectors["Rome"].tolist() == [1.0, 0.5]
    assert vectors["none"].tolist() == [0.0, 0.0]
    assert "Rome" in vectors
    tagger = Tagger(template="U:%x[0,0]\nB", vectors=path).fit(WORDS, TAGS)
    loaded = Tagger.load(tagger.to_bytes())
    path.unlink()
    assert loaded.predict(WORDS) == TAGS
    assert loaded.predict_marginals([["FELL"]]) == tagger.predict_marginals([["FELL"]])
    assert {name for name, _ in tagger.dense_weights_} == {"vector:0", "vector:1"}
    beside = [([*words], np.array([vectors[w] for w in words])) for words in WORDS]
    assert Tagger(template="U:%x[0,0]\nB").fit(beside, TAGS).predict(beside) == TAGS
    with pytest.raises(OptionError, match="ready-made features"):
        Tagger(vectors=vectors).fit([[{"w": "a"}]], [["A"]])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no word vectors"),
        ("a 1 2\nb 1\n", ":2: .*1 numbers after a word, not 2"),
        ("a 1 x\n", ":1: .*not 2 numbers"),
        ("a 1 nan\n", ":1: .*not finite"),
        ("a\n", ":1: .*a word and its numbers"),
    ],
)
def test_damaged_vectors_are_named(tmp_path, text, says):
    path = tmp_path / "v.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=says):
        WordVectors.read(path)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_tables_are_corpora(package):
    module = pytest.importorskip(package)
    data = {
        "sentence": [1, 1, 2, 2, 2],
        "word": ["Rome", "fell", "rome", "rose", None],
        "title": [True, False, False, False, None],
        "length": [4.0, 4.0, 4.0, None, 3.0],
        "emb": [[0.1, 0.2], [0.0, 1.0], [0.3, 0.1], [0.5, 0.5], [0.2, 0.2]],
        "tag": ["LOC", "O", "LOC", "O", "O"],
    }
    frame = module.DataFrame(data)
    corpus = features_from_frame(frame, "sentence", "tag")
    as_dicts = [
        [{"word": "Rome", "title": True, "length": [4.0], "emb": [0.1, 0.2]},
         {"word": "fell", "title": False, "length": [4.0], "emb": [0.0, 1.0]}],
        [{"word": "rome", "title": False, "length": [4.0], "emb": [0.3, 0.1]},
         {"word": "rose", "title": False, "emb": [0.5, 0.5]}, {"length": [3.0], "emb": [0.2, 0.2]}],
    ]  # fmt: skip
    tagger = Tagger().fit(corpus)
    expected = Tagger().fit(as_dicts, [["LOC", "O"], ["LOC", "O", "O"]])
    assert tagger.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    assert tagger.state_weights_ == pytest.approx(expected.state_weights_)
    assert tagger.predict_marginals(corpus) == expected.predict_marginals(as_dicts)
    rows = features_from_frame(frame[["sentence", "length", "emb", "tag"]].assign(word="x") if package == "pandas"
                      else frame.with_columns(word=module.lit("x")), "sentence", "tag", columns=["word"])  # fmt: skip
    assert isinstance(rows, Columns)
    assert Tagger(template="U:%x[0,0]\nB").fit(rows).predict(rows)
    with pytest.raises(DataError, match="features_from_frame"):
        tagger.predict(frame)
    with pytest.raises(OptionError, match="no column 'nothing'"):
        features_from_frame(frame, "nothing")


def test_a_combination_gives_each_tagger_the_dense_features_it_knows():
    words = [[{k: v for k, v in token.items() if k != "emb"} for token in x] for x in DENSE]
    members = [Tagger(max_iter=10).fit(DENSE, Y), Tagger(max_iter=10).fit(words, Y)]
    combined = Combination(members).fit(DENSE, Y)
    assert combined.predict_marginals(DENSE)
    assert combined.score(DENSE, Y) > 0.5
