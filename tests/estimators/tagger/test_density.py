"""Taggers as densities: normalisers, probabilities and draws against enumeration."""

import pickle
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import Constraints, Tagger
from loglinear.data import Column, Columns
from loglinear.errors import OptionError
from loglinear.estimators.tagger.density import Draws, LogNormaliser, Moves
from loglinear.structures.chain.structure import Chain

pytestmark = pytest.mark.slow

SINGLE = "U0:%x[0,0]\nU1:%x[0,1]\nB\n"
JOINED = "U0:%x[0,0]/%x[0,1]\nU1:%x[0,1]\nB\n"
WINDOW = "U0:%x[0,0]\nU1:%x[-1,0]\nU2:%x[0,0]/%x[1,1]\nB\n"
PAIRS = "U0:%x[-1,0]\nB0:%x[0,1]\nB\n"
NOT_EXACT = pytest.mark.parametrize("template", [WINDOW, PAIRS], ids=["window", "pairs"])


def sentences(n=300, seed=0):
    """Short sequences of two columns, with labels P and Q."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        length = min(int(rng.geometric(0.75)), 3)
        labels = rng.choice(["P", "Q"], size=length).tolist()
        tags = ["s" if label == "P" else str(rng.choice(["s", "t"])) for label in labels]
        X.append([(str(rng.choice(["a", "b"])), tag) for tag in tags])
        y.append(labels)
    return X, y


def tilted_tagger(template, order=1, base="hmm", scale=0.5, seed=0, **options):
    """A tagger with weights drawn at random: far enough from its base, and with short sequences."""
    tagger = Tagger(criterion="m-estimation", template=template, order=order, base=base, **options).fit(*sentences())
    weights = np.random.default_rng(seed).normal(scale=scale, size=tagger.model_.features.n_features)
    tagger.model_ = replace(tagger.model_, weights=weights)
    return tagger


def everything(tagger, longest):
    """All inputs of up to ``longest`` positions."""
    tokens = list(product(*tagger.model_.base.vocabulary.values))
    return [list(x) for length in range(1, longest + 1) for x in product(tokens, repeat=length)]


def misfit(X, y, tagger, log_z=None, lengths=(1, 2)):
    """How far drawn pairs of these lengths are from their probabilities: a chi-square in standard deviations.

    Without ``log_z`` the sequences of other lengths do not count.
    """
    drawn = Counter((tuple(x), tuple(labels)) for x, labels in zip(X, y, strict=True))
    inputs = [x for x in everything(tagger, max(lengths)) if len(x) in lengths]
    pairs = [(x, list(labels)) for x in inputs for labels in product(tagger.classes_, repeat=len(x))]
    log_p = tagger.log_prob([x for x, _ in pairs], [labels for _, labels in pairs], normalised=False)
    found = np.array([drawn[tuple(x), tuple(labels)] for x, labels in pairs])
    if log_z is None:
        p = np.exp(log_p - np.logaddexp.reduce(log_p))
    else:
        p = np.exp(log_p - log_z)
        p, found = np.append(p, 1 - p.sum()), np.append(found, len(X) - found.sum())
    order = np.argsort(-p)
    expected, found = found.sum() * p[order], found[order]
    enough = int((expected >= 8).sum())
    expected, found = (np.append(each[:enough], each[enough:].sum()) for each in (expected, found))
    chi2 = float(((found - expected) ** 2 / np.maximum(expected, 1.0)).sum())
    return (chi2 - enough) / np.sqrt(2 * enough)


def close_log_z(tagger, longest=5):
    """log Z by enumeration, the tail left out."""
    return float(np.logaddexp.reduce(tagger.log_prob(everything(tagger, longest), normalised=False)))


# -- probabilities ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2])
def test_the_density_of_a_hidden_markov_model_adds_up(order):
    tagger = Tagger(criterion="hmm", order=order).fit(*sentences())
    assert tagger.log_normaliser() == LogNormaliser(0.0)
    base = tagger.model_.base.model
    states, expected = base.start, []
    for _ in range(3):
        expected.append(states @ base.stop)
        states = states @ base.step
    found = [np.exp(tagger.log_prob([x for x in everything(tagger, 3) if len(x) == k])).sum() for k in (1, 2, 3)]
    np.testing.assert_allclose(found, expected)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), order=st.sampled_from([1, 2]), template=st.sampled_from([SINGLE, JOINED]),
    base=st.sampled_from(["hmm", "locally-uniform"]), forbidden=st.sampled_from([(), (("P", "Q"),)]),
)  # fmt: skip
def test_where_it_is_exact_the_density_is_a_hidden_markov_model_that_adds_up(seed, order, template, base, forbidden):
    tagger = tilted_tagger(template, order, base, 0.3, seed)
    tagger.model_ = replace(tagger.model_, constraints=Constraints(forbidden=forbidden) if forbidden else None)
    try:
        log_z = tagger.log_normaliser()
    except OptionError as error:
        assert "spectral radius" in str(error)
        assert np.abs(np.linalg.eigvals(weighted_steps(tagger))).max() >= 1.0
        return
    assert log_z.exact and log_z.standard_error == 0.0
    exact = tagger._density().exact
    np.testing.assert_allclose(exact.model.steps.sum(axis=1), 1.0)
    for table in exact.model.emissions:
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
    np.testing.assert_allclose(exact.model.outflow, 1.0)  # it stops, so its probabilities add up over all lengths
    X = everything(tagger, 2) + [x for x in everything(tagger, 3) if len(x) == 3][seed % 7 :: 50]
    encoded = tagger.model_.encode(tagger._corpus(X))
    joint = [
        np.ravel_multi_index([encoded.fields[place] for place in group], [exact.sizes[place] for place in group])
        for group in exact.groups
    ]
    scores = exact.model.scores([values.astype(np.int32) for values in joint], encoded.offsets)
    np.testing.assert_allclose(tagger.log_prob(X), Chain(encoded.offsets).log_partition(scores), atol=1e-9)


def weighted_steps(tagger):
    """W of an order, as its definition says, one entry at a time."""
    model = tagger.model_
    hmm, y = model.base.model, model.features.n_labels
    tokens = everything(tagger, 1)
    encoded = model.encode(tagger._corpus(tokens))
    scores = model.features.scores(model.laid_out, encoded, 0, encoded.n_sequences)
    emitted = np.exp(scores.emission + hmm.log_emissions(encoded.fields)).sum(axis=0)
    order = max(hmm.order, model.features.order)
    if order == 1:
        return hmm.steps[:-1, :-1] * np.exp(scores.transition) * emitted
    matrix = np.zeros(((y + 1) * y, (y + 1) * y))
    for a, b, c in product(range(y + 1), range(y), range(y)):
        step = hmm.steps[b if hmm.order == 1 else a * y + b, c]
        trigram = scores.trigram[a, b, c] if a < y else 0.0
        matrix[a * y + b, b * y + c] = step * np.exp(scores.transition[b, c] + trigram) * emitted[c]
    return matrix


def test_a_normaliser_that_is_infinite_is_an_error_but_scores_are_not():
    tagger = tilted_tagger(SINGLE)
    tagger.model_ = replace(tagger.model_, weights=np.full(tagger.model_.features.n_features, 2.0))
    with pytest.raises(OptionError, match="spectral radius"):
        tagger.log_prob([[("a", "s")]])
    assert np.isfinite(tagger.log_prob([[("a", "s")]], normalised=False)).all()


@NOT_EXACT
@pytest.mark.parametrize("order", [1, 2])
def test_the_sampled_normaliser_is_within_its_error(template, order):
    tagger = tilted_tagger(template, order)
    truth = close_log_z(tagger)
    for seed in (0, 1):
        found = tagger.log_normaliser(20_000, seed)
        assert not found.exact and 1_000 < found.effective_sample_size < found.draws == 20_000
        assert 0.0 < found.standard_error < 0.05
        assert found.value == pytest.approx(truth, abs=4 * found.standard_error + 1e-3)
    assert tagger.log_normaliser(20_000, 1) is found and tagger.log_normaliser(20_000, 0).value != found.value
    pairs = [[("a", "s"), ("b", "t")]]
    assert tagger.log_prob(pairs, draws=20_000, seed=1) == pytest.approx(
        tagger.log_prob(pairs, normalised=False) - found.value
    )


@NOT_EXACT
@pytest.mark.parametrize("order", [1, 2])
def test_steps_on_the_way_make_the_draws_worth_more(template, order):
    tagger = tilted_tagger(template, order, scale=0.8)
    at_once, led = tagger.log_normaliser(2_000), tagger.log_normaliser(2_000, steps=20)
    assert led.effective_sample_size > at_once.effective_sample_size
    assert led.standard_error < at_once.standard_error
    assert led.value == pytest.approx(close_log_z(tagger), abs=4 * led.standard_error + 3e-3)


def test_sequences_that_constraints_leave_no_labelling_have_weight_zero():
    tagger = tilted_tagger(WINDOW)
    rules = Constraints(forbidden=[(a, b) for a in "PQ" for b in "PQ"])  # one position at most
    tagger.model_ = replace(tagger.model_, constraints=rules)
    truth = float(np.logaddexp.reduce(tagger.log_prob(everything(tagger, 1), normalised=False)))
    for steps in (1, 5):
        found = tagger.log_normaliser(20_000, steps=steps)
        assert found.value == pytest.approx(truth, abs=4 * found.standard_error)
    assert {len(x) for x in tagger.sample(50, "gibbs")[0]} == {1}


def test_a_normaliser_that_rests_on_few_draws_is_said():
    with pytest.warns(UserWarning, match="log Z rests on"):
        tilted_tagger(WINDOW, scale=2.0, seed=2).log_normaliser(60)


def test_weights_of_zero_leave_nothing_to_normalise():
    tagger = tilted_tagger(WINDOW, scale=0.0)
    assert tagger.log_normaliser() == LogNormaliser(0.0)
    hmm = Tagger(criterion="hmm").fit(*sentences())
    X, y = sentences(20, seed=3)
    np.testing.assert_allclose(tagger.log_prob(X, y), hmm.log_prob(X, y))


@pytest.mark.parametrize("template", [SINGLE, WINDOW], ids=["single", "window"])
def test_labels_that_are_known_in_part_sum_over_the_rest(template):
    tagger = tilted_tagger(template)
    x = [("a", "s"), ("new", "t"), ("b", "t")]
    labellings = [list(labels) for labels in product("PQ", repeat=3)]
    joint = tagger.log_prob([x] * 8, labellings)
    assert tagger.log_prob([x])[0] == pytest.approx(np.logaddexp.reduce(joint))
    some = [v for labels, v in zip(labellings, joint, strict=True) if labels[1] == "P"]
    assert tagger.log_prob([x], [[None, "P", {"P", "Q"}]])[0] == pytest.approx(np.logaddexp.reduce(some))
    np.testing.assert_allclose(joint - tagger.log_prob([x]), tagger.log_probability([x] * 8, labellings))
    assert tagger.log_prob([x]) == tagger.log_prob([[("a", "s"), ("<unknown>", "t"), ("b", "t")]])


def test_what_constraints_rule_out_has_probability_zero_and_the_rest_adds_up():
    tagger = Tagger(criterion="hmm").fit(*sentences())
    tagger.model_ = replace(tagger.model_, constraints=Constraints(forbidden=(("Q", "Q"),)))
    assert tagger.log_prob([[("a", "s"), ("a", "s"), ("a", "t")]], [["P", "Q", "Q"]])[0] == -np.inf
    log_z = tagger.log_normaliser()
    assert log_z.exact and log_z.value == pytest.approx(close_log_z(tagger), abs=1e-3)
    for method in ("exact", "importance", "gibbs"):
        X, y = tagger.sample(2_000, method, seed=1, sweeps=2)
        assert not any("QQ" in "".join(labels) for labels in y)
        assert misfit(X, y, tagger, log_z.value) < 3.5


# -- draws -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("template", [SINGLE, JOINED], ids=["single", "joined"])
def test_exact_draws_have_the_frequencies_of_the_density(template, order):
    tagger = tilted_tagger(template, order, scale=0.4)
    X, y = tagger.sample(20_000, seed=5)
    assert misfit(X, y, tagger, tagger.log_normaliser().value) < 3.5


@NOT_EXACT
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("method", ["importance", "gibbs"])
def test_draws_have_the_frequencies_of_the_density(template, order, method):
    tagger = tilted_tagger(template, order)
    X, y = tagger.sample(4_000, method, seed=2, draws=200_000, sweeps=3)
    assert misfit(X, y, tagger, close_log_z(tagger)) < 3.5


@NOT_EXACT
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("base", ["hmm", "locally-uniform"])
def test_markov_chains_forget_a_start_from_the_base(template, order, base):
    """From the base alone, not chosen again by weights: the moves have all the work to do, lengths included."""
    tagger = tilted_tagger(template, order, base)
    density, log_z = tagger._density(), close_log_z(tagger) if base == "hmm" else None  # the other has a long tail
    rng = np.random.default_rng(3)

    def pairs(draws):
        corpus = density.columns(draws.fields, draws.offsets)
        return corpus.rows(), tagger._split(draws.labels, draws.offsets)

    start = Draws(*density.base.model.sample(4_000, rng))
    assert misfit(*pairs(start), tagger, log_z) > 10
    end = density.moved(start, 40, rng)
    assert misfit(*pairs(end), tagger, log_z) < 3.5


@NOT_EXACT
@pytest.mark.parametrize("length", [2, 3])
def test_moves_of_labels_and_values_alone_draw_from_the_density_given_the_length(template, length):
    tagger = tilted_tagger(template, scale=0.8)
    density, rng = tagger._density(), np.random.default_rng(7)
    labels = rng.integers(0, 2, 8_000 * length).astype(np.int32)
    fields = [density.base.model.emit(table, labels, rng) for table in density.base.model.emissions]
    drawn = Draws(fields, labels, np.arange(8_001) * length)
    moves = Moves(density, rng)
    distances = []
    for _ in range(2):
        rows = density.columns(drawn.fields, drawn.offsets).rows()
        distances.append(misfit(rows, tagger._split(drawn.labels, drawn.offsets), tagger, lengths=(length,)))
        for _ in range(30):
            drawn = moves.labels(moves.values(drawn))
    assert distances[0] > 30 and distances[1] < 3.5


def test_few_effective_draws_are_said():
    tagger = tilted_tagger(WINDOW, scale=2.0)
    with pytest.warns(UserWarning, match="draws from the base are worth"):
        tagger.sample(50, "importance", draws=60)


def test_the_same_seed_gives_the_same_draws_and_columns_keep_their_places():
    tagger = tilted_tagger(WINDOW)
    for method in ("auto", "gibbs"):
        assert tagger.sample(5, method, seed=1) == tagger.sample(5, method, seed=1)
        assert tagger.sample(5, method, seed=1) != tagger.sample(5, method, seed=2)
    X, y = sentences()
    corpus = Columns.from_rows(X)
    corpus.columns.insert(0, Column.from_strings(label for labels in y for label in labels))
    between = Tagger(criterion="hmm").fit(corpus, label_column=0)
    rows, labels = between.sample(30)
    assert [[row[0] for row in sequence] for sequence in rows] == labels
    assert np.isfinite(between.log_prob(rows, labels)).all()
    words, _ = Tagger(criterion="hmm").fit([[w for w, _ in x] for x in X], y).sample(10)
    assert {type(token) for sequence in words for token in sequence} == {str}


def test_a_saved_model_is_the_same_density():
    tagger = Tagger(criterion="m-estimation", template=WINDOW, l2=0.01).fit(*sentences())
    again = Tagger.load(tagger.to_bytes())
    X, y = sentences(10, seed=8)
    np.testing.assert_array_equal(tagger.log_prob(X, y), again.log_prob(X, y))
    assert tagger.sample(5, seed=3) == again.sample(5, seed=3)
    assert pickle.loads(pickle.dumps(tagger)).sample(5, seed=3) == tagger.sample(5, seed=3)


@pytest.mark.parametrize("ask", [lambda t: t.log_prob([["a"]]), lambda t: t.sample(3), lambda t: t.log_normaliser()])
def test_models_without_inputs_of_their_own_are_refused(ask):
    X, y = sentences(20)
    with pytest.raises(OptionError, match="conditional model, of labels given the input"):
        ask(Tagger(template="words").fit(X, y))
    with pytest.raises(OptionError, match="base='empirical' takes its inputs from the training data"):
        ask(Tagger(criterion="m-estimation", base="empirical", template=SINGLE).fit(X, y))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"n": 0}, "n=0 must be"), ({"method": "slice"}, "not one of auto, exact"), ({"seed": -1}, "seed=-1"),
        ({"draws": 1}, "draws=1"), ({"sweeps": True}, "sweeps=True"), ({"method": "exact"}, "rows 0 only"),
    ],
    ids=str,
)  # fmt: skip
def test_draws_that_make_no_sense_are_refused(options, reason):
    with pytest.raises(OptionError, match=reason):
        tilted_tagger(WINDOW).sample(**options)
