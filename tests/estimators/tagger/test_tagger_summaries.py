"""Hidden Markov taggers of parts: those of all sequences, to the last bit; EM over parts; parts that do not fit."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from loglinear import HMM, Constraints, Summary, Tagger, TemplateSet, read_columns
from loglinear.errors import DataError, OptionError
from loglinear.estimators.conventions import clone

TEMPLATE = TemplateSet.parse("U1:%x[0,1]\nU2:%x[-1,1]\nB")
Data = tuple[list[Any], list[Any], Any]


def sequences(rng: np.random.Generator, columns: int = 1, labels: str = "ABCD", drift: bool = True) -> Data:
    """Random sequences, in which new labels and values turn up on the way."""
    X, y = [], []
    for i in range(int(rng.integers(4, 25))):
        length, k = int(rng.integers(1, 6)), 1 + (i // 4 if drift else len(labels)) % len(labels)
        y.append([labels[rng.integers(k)] for _ in range(length)])
        words = [[f"w{rng.integers(4 + i)}" for _ in range(length)] for _ in range(columns)]
        X.append(list(zip(*words, strict=True)) if columns > 1 else words[0])
    return X, y, rng.random(len(X)) + 0.1


def cuts(rng: np.random.Generator, n: int) -> list[slice]:
    ends = [0, *sorted(rng.choice(np.arange(1, n), size=rng.integers(1, min(5, n - 1) + 1), replace=False)), n]
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


def parts_of(tagger: Any, data: Data, where: list[slice], weighted: bool = False) -> list[Summary]:
    X, y, weights = data
    return [tagger.summarize(X[s], y[s], weights[s] if weighted else None) for s in where]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_model_of_parts_is_that_of_all_sequences(seed: int, order: int, weighted: bool) -> None:
    """Also where labels and values occur in some parts only, with fractional weights, and through files."""
    rng = np.random.default_rng([seed, order])
    data = X, y, weights = sequences(rng, columns=1 + seed % 2)
    tagger = Tagger(criterion="hmm:smoothing=0.3,transition_smoothing=0.1", order=order)
    parts = parts_of(tagger, data, cuts(rng, len(X)), weighted)
    parts = [Summary.load(each.to_bytes()) if rng.random() < 0.5 else each for each in parts]
    whole = clone(tagger).fit(X, y, sample_weight=weights if weighted else None)
    together = clone(tagger).from_summaries(pickle.loads(pickle.dumps(parts)))
    assert together.to_bytes() == whole.to_bytes()
    assert (together.objective_, together.message_) == (whole.objective_, whole.message_)


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_parts_is_an_order_of_the_sequences(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y, weights = sequences(rng)
    where = cuts(rng, len(X))
    where = [where[i] for i in rng.permutation(len(where))]
    tagger = Tagger(criterion="hmm").from_summaries(parts_of(Tagger(criterion="hmm"), (X, y, weights), where))
    again = [[sequence for s in where for sequence in each[s]] for each in (X, y)]
    assert tagger.to_bytes() == Tagger(criterion="hmm").fit(*again).to_bytes()


def test_parts_are_added_two_by_two_as_all_at_once() -> None:
    data = sequences(np.random.default_rng(3))
    a, b, c, d = parts_of(Tagger(criterion="hmm"), data, [slice(i, i + 1 if i < 3 else None) for i in range(4)])
    models = [Tagger(criterion="hmm").from_summaries(some) for some in ([a, b, c, d], [a + b, c + d], [a + (b + c), d])]
    assert len({model.to_bytes() for model in models}) == 1


@pytest.mark.parametrize("constraints", ["bio", Constraints(scheme="bio", forbidden=[("B-X", "B-Y")])])
def test_constraints_may_name_labels_of_other_parts(constraints: Any) -> None:
    tagger = Tagger(criterion="hmm", constraints=constraints)
    X, y = [["a", "b"], ["a", "c", "a"]], [["B-X", "I-X"], ["B-Y", "O", "O"]]
    together = clone(tagger).from_summaries([tagger.summarize(X[:1], y[:1]), tagger.summarize(X[1:], y[1:])])
    assert together.to_bytes() == clone(tagger).fit(X, y).to_bytes()
    with pytest.raises(DataError, match="sequence 0, position 1"):
        tagger.summarize([["a", "b"]], [["O", "I-X"]])


# -- EM ----------------------------------------------------------------------------------------------------------------


def hidden(rng: np.random.Generator, y: list[Any], share: float, sets: bool = True) -> list[Any]:
    """Labels of which a share is not known, or known to be one of two."""

    def one(label: str) -> Any:
        if rng.random() >= share:
            return label
        return {label, "A"} if sets and rng.random() < 0.4 else None

    return [[one(label) for label in labels] for labels in y]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_em_over_parts_is_em_on_all_sequences(seed: int, order: int, share: float) -> None:
    """The same start, objectives and probabilities; the objective never falls."""
    rng = np.random.default_rng([seed, order])
    X, y, weights = sequences(rng)
    y, rounds = hidden(rng, y, share), 5
    place = int(rng.integers(len(X)))
    X[place], y[place] = ["w0", "w1", "w2"], ["A", "B", "C"]  # no set of two is a set of all labels
    spec = f"hmm:smoothing=0.5,transition_smoothing=0.1,restarts=0,tolerance=0,rounds={rounds}"
    where = cuts(rng, len(X))
    tagger = Tagger(criterion=spec, order=order)
    for _ in range(rounds + 1):
        tagger.from_summaries(parts_of(tagger, (X, y, weights), where, weighted=bool(seed % 2)))
    whole = Tagger(criterion=spec, order=order).fit(X, y, sample_weight=weights if seed % 2 else None)
    np.testing.assert_allclose(tagger.log_likelihoods_, whole.log_likelihoods_[:rounds], rtol=1e-9)
    assert tagger.classes_ == whole.classes_
    assert tagger.model_.hmm_base.vocabulary == whole.model_.hmm_base.vocabulary
    mine, theirs = (each.model_.hmm_base.model.parameters for each in (tagger, whole))
    np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-9)
    objectives = tagger._parts_of_em.objectives
    assert all(b >= a - 1e-9 * abs(a) for a, b in pairwise(objectives))


def test_em_over_parts_finds_labels_and_says_where_it_is() -> None:
    rng = np.random.default_rng(5)
    X, _, _ = sequences(rng, drift=False)
    spec = "hmm:labels=2,restarts=0,smoothing=0.5,tolerance=1e-3"
    where = cuts(rng, len(X))
    tagger = Tagger(criterion=spec, seed=4)

    def summaries() -> list[Summary]:
        return [tagger.summarize(X[s]) for s in where]

    tagger.from_summaries(summaries())
    assert tagger.message_.startswith("the start of EM, from random probabilities")
    while not tagger.converged_:
        tagger = pickle.loads(pickle.dumps(tagger))  # as a worker gets it
        tagger.from_summaries([Summary.load(each.to_bytes()) for each in summaries()])
    whole = Tagger(criterion=spec, seed=4).fit(X)
    assert tagger.log_likelihoods_ == pytest.approx(whole.log_likelihoods_[: len(tagger.log_likelihoods_)], rel=1e-9)
    assert tagger.classes_ == ["0", "1"] and "converged after" in tagger.message_


@pytest.mark.parametrize("seed", range(4))
def test_em_over_parts_starts_from_a_given_model(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, y, weights = sequences(rng)
    init = Tagger(criterion="hmm").fit(X[:4], y[:4])
    y = hidden(rng, y, 0.5)
    y[-1] = [None] * len(X[-1])
    spec = "hmm:tolerance=0,rounds=2"
    tagger, where = Tagger(criterion=spec), cuts(rng, len(X))
    tagger.from_summaries(parts_of(tagger, (X, y, weights), where), init=init)
    assert "from the given model" in tagger.message_
    for _ in range(2):
        tagger.from_summaries(parts_of(tagger, (X, y, weights), where))
    whole = Tagger(criterion=spec).fit(X, y, init=init)
    np.testing.assert_allclose(tagger.log_likelihoods_, whole.log_likelihoods_[:2], rtol=1e-9)


def test_an_hmm_goes_the_same_way(tmp_path: Any) -> None:
    rng = np.random.default_rng(8)
    X, y, weights = sequences(rng)
    hmm = HMM(smoothing=0.2)
    parts_of(hmm, (X, y, weights), [slice(None)])[0].save(tmp_path / "all")
    assert hmm.from_summaries([tmp_path / "all"]).to_bytes() == HMM(smoothing=0.2).fit(X, y).to_bytes()
    spoiled = hidden(rng, y, 0.6)
    spoiled[0] = [None] * len(X[0])
    by_parts, whole = HMM(restarts=0, rounds=3, tolerance=0), HMM(restarts=0, rounds=3, tolerance=0).fit(X, spoiled)
    for _ in range(4):
        by_parts = pickle.loads(pickle.dumps(by_parts))  # as a worker gets it
        by_parts.from_summaries(parts_of(by_parts, (X, spoiled, weights), cuts(np.random.default_rng(1), len(X))))
    np.testing.assert_allclose(by_parts.log_likelihoods_, whole.log_likelihoods_[:3], rtol=1e-9)


# -- M-estimation ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("base", [None, "locally-uniform", "hmm:samples=300", "empirical"])
def test_m_estimation_of_parts_is_that_of_all_sentences(seed: int, base: str | None) -> None:
    rng = np.random.default_rng(seed)
    data = X, y, weights = sequences(rng, columns=2)
    tagger = Tagger(
        criterion="m-estimation", base=base, template=TEMPLATE, variance=1, max_iter=8, precision="float64",
    )  # fmt: skip
    parts = parts_of(tagger, data, cuts(rng, len(X)), weighted=bool(seed % 2))
    parts = [Summary.load(each.to_bytes()) if rng.random() < 0.5 else each for each in parts]
    whole = clone(tagger).fit(X, y, sample_weight=weights if seed % 2 else None)
    assert clone(tagger).from_summaries(pickle.loads(pickle.dumps(parts))).to_bytes() == whole.to_bytes()


def test_columns_of_files_keep_their_label_column_and_their_names(tmp_path: Any) -> None:
    corpora = []
    for i, text in enumerate(["A a x\nB b y\n\n", "A c x\n\nC a z\n"]):
        (tmp_path / str(i)).write_text(text)
        corpora.append(read_columns(tmp_path / str(i)))
    (tmp_path / "all").write_text("A a x\nB b y\n\nA c x\n\nC a z\n")
    for options in ({"criterion": "hmm"}, {"criterion": "m-estimation", "template": TEMPLATE, "variance": 1}):
        tagger = Tagger(**options)
        parts = [tagger.summarize(corpus, label_column=0) for corpus in corpora]
        whole = clone(tagger).fit(read_columns(tmp_path / "all"), label_column=0)
        assert tagger.from_summaries(parts).to_bytes() == whole.to_bytes()


# -- mistakes ----------------------------------------------------------------------------------------------------------


def test_other_criteria_and_options_are_refused() -> None:
    assert not hasattr(Tagger(), "summarize") and hasattr(Tagger(criterion="hmm"), "summarize")
    with pytest.raises(OptionError, match="hmm and m-estimation are"):
        Tagger(criterion="cll").summarize([["a"]], [["A"]])
    with pytest.raises(OptionError, match="class_weight"):
        Tagger(criterion="hmm", class_weight="balanced").from_summaries([])
    part = Tagger(criterion="hmm").summarize([["a"]], [["A"]])
    with pytest.raises(OptionError, match="made with order=1 and is used with order=2"):
        Tagger(criterion="hmm", order=2).from_summaries([part])
    with pytest.raises(DataError, match=r"of 1 column, another one .* of 2 columns"):
        Tagger(criterion="hmm").from_summaries([part, Tagger(criterion="hmm").summarize([[("a", "b")]], [["A"]])])
    with pytest.raises(OptionError, match="it has no use for a model to start from"):
        Tagger(criterion="hmm").from_summaries([part], init=Tagger(criterion="hmm").fit([["a"]], [["A"]]))
    with pytest.raises(DataError, match="no token has a label"):
        Tagger(criterion="hmm").from_summaries([Tagger(criterion="hmm").summarize([["a"]], [[None]])])
    with pytest.raises(OptionError, match="asks for labels to be found"):
        Tagger(criterion="hmm:labels=2").from_summaries([Tagger(criterion="hmm:labels=2").summarize([["a"]], [["A"]])])


def test_a_round_of_em_wants_the_same_parts_and_the_same_model() -> None:
    first, second = ([["a", "b"]], [["A", None]]), ([["b", "a"]], [["B", None]])
    tagger = Tagger(criterion="hmm:smoothing=0.5")
    start = [tagger.summarize(*first), tagger.summarize(*second)]
    with pytest.raises(DataError, match="two parts are the same"):
        clone(tagger).from_summaries([start[0], start[0]])
    tagger.from_summaries(start)
    with pytest.raises(DataError, match="none of those"):
        tagger.summarize([["a"]], [["A"]])
    expected = [tagger.summarize(*first), tagger.summarize(*second)]
    with pytest.raises(OptionError, match="all of them with the same model"):
        tagger.from_summaries([expected[0], start[1]])
    tagger.from_summaries(expected)
    with pytest.raises(OptionError, match="another model than this one"):
        tagger.from_summaries(expected)
    with pytest.raises(OptionError, match="different models"):
        tagger.from_summaries([expected[0], tagger.summarize(*second)])
