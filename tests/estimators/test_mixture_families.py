"""Mixtures of naive Bayes models over tables and of hidden Markov models over sequences, as users see them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import loglinear
from loglinear import Mixture, model_file
from loglinear.data.columns.corpus import Columns
from loglinear.errors import DataError, ModelFileError, OptionError
from loglinear.generative.hmm.model import Counts, HiddenMarkovModel

RNG = np.random.default_rng(0)
TRUE = np.arange(80) % 2
CELLS = [
    [
        str(RNG.choice(["red", "pink"] if k else ["blue", "green"])),
        None if RNG.random() < 0.2 else int(RNG.integers(3)) + 3 * int(k),
        " ".join(RNG.choice(["goal", "team", "match"] if k else ["soup", "salt", "bread"], size=6)),
    ]
    for k in TRUE
]
WORDS = [
    [str(RNG.choice([["the", "a"], ["dog", "cat"]][t % 2] if k else [["buy", "sell"], ["stock", "bond"]][t % 2]))
     for t in range(RNG.integers(2, 7))]
    for k in TRUE
]  # fmt: skip
TAGS = [["D" if t % 2 == 0 else "N" for t in range(len(x))] for x in WORDS]
TABLE = {"components": "naive-bayes", "restarts": 1}
HIDDEN = {"components": "hmm:states=2", "restarts": 1, "threads": 1}


def agreement(found: Any) -> float:
    return max(float((found == TRUE).mean()), float((found != TRUE).mean()))


def test_classes_are_found_in_a_table_of_names_and_text() -> None:
    mixture = Mixture(2, **TABLE, kinds={"x2": "text"}).fit(CELLS)
    assert agreement(mixture.labels_) == 1.0 and mixture.n_features_in_ == 3
    assert mixture.inputs_.kinds == {"x0": "category", "x1": "category", "x2": "text"}
    assert "x1=4" in mixture.inputs_.names and "x2:goal" in mixture.inputs_.names
    np.testing.assert_array_equal(mixture.labels_, mixture.predict(CELLS))
    by_name = {"x0": [row[0] for row in CELLS], "x1": [row[1] for row in CELLS], "x2": [row[2] for row in CELLS]}
    for other in (by_name, pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in by_name.items()})):
        again = Mixture(2, **TABLE, kinds={"x2": "text"}).fit(other)
        np.testing.assert_array_equal(again.predict_proba(other), mixture.predict_proba(CELLS))


def test_what_is_not_known_of_a_row_is_summed_out() -> None:
    mixture = Mixture(2, **TABLE).fit([row[:2] for row in CELLS])
    np.testing.assert_allclose(mixture.predict_proba([[None, None]]), mixture.weights_[None])
    theta, columns = np.exp(mixture.feature_log_prob_), mixture.inputs_.names
    joint = mixture.weights_ * theta[:, columns.index("x0=red")]
    np.testing.assert_allclose(mixture.predict_proba([["red", "never seen"]]), [joint / joint.sum()])
    assert mixture.score_samples([["red", None]]) == pytest.approx([np.log(joint.sum())])


def test_sequences_are_clustered_by_what_they_hold_and_in_which_order() -> None:
    mixture = Mixture(2, **HIDDEN).fit(WORDS)
    assert agreement(mixture.labels_) == 1.0
    np.testing.assert_array_equal(mixture.labels_, mixture.predict(WORDS))
    there, back = [["x", "y", "z"] * 3] * 6, [["z", "y", "x"] * 3] * 6  # the same words in another order
    ordered = Mixture(2, components="hmm:states=3", restarts=9, smoothing=0.1, seed=1).fit(there + back)
    assert sorted(np.unique(ordered.labels_[:6]).tolist() + np.unique(ordered.labels_[6:]).tolist()) == [0, 1]


@pytest.mark.parametrize("order", [1, 2])
def test_known_states_of_one_component_are_counted(order: int) -> None:
    spec = f"hmm:order={order},transition_smoothing=0.2"
    mixture = Mixture(1, components=spec, smoothing=0.5).fit(WORDS, states=TAGS)
    assert mixture.inputs_.states == ("D", "N")
    known = {value: i for i, value in enumerate(mixture.inputs_.vocabulary.values[0])}
    words = np.array([known[word] for x in WORDS for word in x], dtype=np.int32)
    labels = np.array(["DN".index(tag) for y in TAGS for tag in y], dtype=np.int32)
    offsets = np.concatenate([[0], np.cumsum([len(x) for x in WORDS])])
    counts = Counts.of([words], [len(known)], labels, offsets, 2, order)
    counted = HiddenMarkovModel.estimated(counts, 0.5, 0.2)
    np.testing.assert_allclose(mixture.hmms_[0].parameters, counted.parameters)
    assert mixture.log_likelihood(WORDS, states=TAGS) == pytest.approx(counted.log_p(counts))
    assert mixture.log_likelihood(WORDS) > mixture.log_likelihood(WORDS, states=TAGS)  # the states are summed out


def test_states_may_be_known_in_part_or_stand_in_a_column() -> None:
    partial = [[None if (i + t) % 3 else tag for t, tag in enumerate(y)] for i, y in enumerate(TAGS)]
    assert agreement(Mixture(2, components="hmm", restarts=1).fit(WORDS, states=partial).labels_) == 1.0
    corpus = Columns.from_rows([list(zip(y, x, strict=True)) for x, y in zip(WORDS, TAGS, strict=True)], "file")
    from_column = Mixture(2, components="hmm", restarts=1).fit(corpus, label_column=0)
    apart = Mixture(2, components="hmm", restarts=1).fit(WORDS, states=TAGS)
    assert from_column.inputs_.vocabulary.columns == (1,)
    np.testing.assert_array_equal(from_column.model_.parameters, apart.model_.parameters)
    np.testing.assert_array_equal(from_column.predict_proba(corpus), apart.predict_proba(WORDS))


@pytest.mark.parametrize(("options", "x"), [(TABLE, CELLS), (HIDDEN, WORDS)], ids=["table", "sequences"])
def test_known_rows_weights_and_draws(options: Any, x: Any) -> None:
    names = [["one", "two"][k] if i < 4 else None for i, k in enumerate(TRUE.tolist())]
    mixture = Mixture(2, **options).fit(x, known=names)
    assert mixture.component_names_ == ["one", "two"] and (mixture.labels_ == TRUE).all()
    assert mixture.bic(x) == pytest.approx(
        -2 * mixture.score_samples(x).sum() + mixture.model_.n_parameters * np.log(len(x))
    )
    weights = np.where(np.arange(80) < 60, 1.0, 0.0)
    light, few = Mixture(2, **options).fit(x, sample_weight=weights), Mixture(2, **options).fit(x[:60])
    np.testing.assert_allclose(light.model_.parameters, few.model_.parameters)
    assert len(light.labels_) == 80
    doubled = Mixture(2, **options).fit(x, sample_weight=np.full(80, 2.0))
    assert doubled.log_likelihood(x, sample_weight=np.full(80, 2.0)) == pytest.approx(2 * doubled.log_likelihood(x))
    rows, components = mixture.sample(200, seed=1)
    assert len(rows) == 200 and (mixture.predict(rows) == components).mean() > 0.9


@pytest.mark.parametrize(
    ("options", "x", "more"),
    [
        ({**TABLE, "kinds": {"x2": "text"}, "text": "words:ngrams=2", "min_count": 2}, CELLS, {}),
        (HIDDEN, WORDS, {}),
        ({"components": "hmm:order=2", "restarts": 0}, WORDS, {"states": TAGS}),
    ],
)
def test_files_keep_the_model(options: Any, x: Any, more: Any, tmp_path: Any) -> None:
    mixture = Mixture(2, **options).fit(x, **more)
    mixture.save(tmp_path / "m.model")
    loaded = loglinear.load(tmp_path / "m.model")
    for method in ("predict", "predict_proba", "score_samples"):
        np.testing.assert_array_equal(getattr(loaded, method)(x), getattr(mixture, method)(x))
    assert loaded.to_bytes() == mixture.to_bytes() and loaded.sample(5, seed=2)[0] == mixture.sample(5, seed=2)[0]
    assert loaded.inputs_ == mixture.inputs_ and loaded.bic(x) == mixture.bic(x)
    assert clone(loaded).get_params() == {**mixture.get_params(), "threads": None}
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(mixture)).predict(x), mixture.predict(x))
    started = Mixture(2, **options).fit(x, init=loaded, **more)
    assert started.objectives_[0] == pytest.approx(mixture.objectives_[-1], abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"components": "hmm:labels=2"}, "components 'hmm' has no option 'labels'; it has states, order"),
        ({"components": "hmm:states=0"}, "states=0 must be at least 1"),
        ({"components": "hmm:order=3"}, "order=3 is not one of 1, 2"),
        ({"components": "gaussian:states=2"}, "components 'gaussian' has no option 'states'"),
        ({"components": "naive-bayes", "covariance": "full"}, "covariance='full' is for components='gaussian'"),
        ({"components": "naive-bayes", "smoothing": 0}, "smoothing=0"),
        ({"components": "naive-bayes", "start": [[1.0]]}, "components='naive-bayes' have no centres"),
        ({"components": "naive-bayes", "threads": 2}, "threads=2 is for components='hmm'"),
        ({"components": "hmm:states=2", "kinds": {"a": "text"}}, "kinds=.* is for components='naive-bayes'"),
        ({"components": "naive-bayes", "kinds": {"x0": "number"}}, "column 'x0' cannot be a 'number' here"),
    ],
)
def test_mistakes_in_options_are_said(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Mixture(**options).fit(CELLS)


def test_mistakes_in_data_are_said() -> None:
    table, sequences = Mixture(2, components="naive-bayes"), Mixture(2, components="hmm:states=2")
    for x in ("text", [["a"], ["b", "c"]], ["ab", "cd"], {}, {"a": []}, 3):
        with pytest.raises(DataError, match="not a table"):
            table.fit(x)
    with pytest.raises(DataError, match="column 'x1' holds no value"):
        table.fit([["a", None], ["b", None]])
    with pytest.raises(OptionError, match="states: components='naive-bayes' have none"):
        table.fit(CELLS, states=TAGS)
    with pytest.raises(OptionError, match="states=2 are to be found, but the states are given"):
        sequences.fit(WORDS, states=TAGS)
    with pytest.raises(DataError, match="say how many to find"):
        Mixture(2, components="hmm").fit(WORDS)
    with pytest.raises(DataError, match="fewer rows than components"):
        sequences.fit(WORDS[:1])
    with pytest.raises(DataError, match="label 'X' is not one of"):
        Mixture(2, components="hmm").fit(WORDS, states=TAGS).predict(WORDS[:1], states=[["X"] * len(WORDS[0])])
    with pytest.raises(OptionError, match="no parameters in common"):
        Mixture(2, **HIDDEN).fit(WORDS[:40], init=Mixture(2, **HIDDEN).fit([["other", "words"]] * 4))


def test_damaged_content_is_refused() -> None:
    table = Mixture(2, **TABLE).fit(CELLS)._storage()
    hmms = Mixture(2, **HIDDEN).fit(WORDS)._storage()
    steps, emissions = hmms[1]["steps"], hmms[1]["emissions"]
    bad: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
        (table, {"components": "hmm"}, {}),
        (table, {"table": {"columns": []}}, {}),
        (table, {"table": 3}, {}),
        (table, {"smoothing": 0}, {}),
        (table, {}, {"log_theta": table[1]["log_theta"] + 0.1}),
        (table, {}, {"log_theta": table[1]["log_theta"][:, :-1]}),
        (table, {}, {"mean_lengths": np.array([-1.0, 1.0, 1.0])}),
        (table, {}, {"single": np.ones(2, dtype=np.uint8)}),
        (hmms, {"order": 2}, {}),
        (hmms, {"states": ["0"]}, {}),
        (hmms, {"states": ["0", "0"]}, {}),
        (hmms, {"sizes": [3]}, {}),
        (hmms, {"columns": [-1]}, {}),
        (hmms, {"transition_smoothing": -1.0}, {}),
        (hmms, {}, {"steps": steps / 2}),
        (hmms, {}, {"steps": steps * np.nan}),
        (hmms, {}, {"emissions": emissions / 2}),
        (hmms, {}, {"emissions": emissions[:1]}),
    ]
    for (header, arrays), changed, replaced in bad:
        with pytest.raises(ModelFileError, match="does not fit together"):
            Mixture.load(model_file.dumps(Mixture.kind, {**header, **changed}, {**arrays, **replaced}))
