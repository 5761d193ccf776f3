"""Features per source state: attribute x (previous label, label) alone, after a silent start at first tokens."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear import Tagger
from loglinear.criteria.criterion import CRITERIA
from loglinear.data.columns.corpus import Columns
from loglinear.errors import OptionError
from loglinear.estimators.options import LEAST_SQUARES
from loglinear.features.names import NameEncoder, attributes_of
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.hashed import Buckets, HashedNameEncoder, HashedTemplateEncoder
from loglinear.features.templates.language import TemplateSet
from loglinear.structures.chain.structure import Chain

START = "(start)"
TEMPLATE = "U0:%x[0,0]\nU1:%x[-1,1]/%x[0,1]\n*2:%x[1,1]\nB3:%x[0,1]\nB"
LEARNED = [name for name, each in CRITERIA.all().items() if each.learns_weights and not each.uses_base]
LEARNERS = [*(name for name in LEARNED if name != LEAST_SQUARES), "nota:local", "nota:scaling"]


def names_of(x):
    """The attributes that TEMPLATE makes of a sentence of rows, and their values, by position."""
    tags = ["_B-1", *(tag for _, tag in x), "_B+1"]
    return [
        {f"U0:{word}": 1.0, f"U1:{tags[t]}/{tag}": 1.0, f"*2:{tags[t + 2]}": 1.0, f"B3:{tag}": 1.0}
        for t, (word, tag) in enumerate(x)
    ]


def valued(x):
    """A sentence of rows as features with values."""
    return [{"word": word, tag: 0.5 + t, "bias": 1.0} for t, (word, tag) in enumerate(x)]


def values_of(x):
    """The attributes of :func:`valued` and their values, by position."""
    return [{f"word:{word}": 1.0, tag: 0.5 + t, "bias": 1.0} for t, (word, tag) in enumerate(x)]


def score(tagger, attributes, labels):
    """The sum of the weights of f(y_{t-1}, y_t, x_t), of label pairs and of label triples: the definition."""
    edges, pairs, triples = tagger.edge_weights_, tagger.transition_weights_, tagger.trigram_weights_
    total, before = 0.0, [START, *labels]
    for t, (label, values) in enumerate(zip(labels, attributes, strict=True)):
        total += sum(value * edges.get((name, before[t], label), 0.0) for name, value in values.items())
        total += pairs.get((before[t], label), 0.0) if t else 0.0
        total += triples.get((before[t - 1], before[t], label), 0.0) if t > 1 else 0.0
    return total


@pytest.fixture(scope="module")
def few(data):
    """Sentences of at most four tokens that begin with several labels."""
    begins = [min(i % 3, len(x) - 1) for i, x in enumerate(data[0][:12])]
    X, y = ([one[k : k + 4] for one, k in zip(every, begins, strict=False)] for every in data)
    return X, y


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("criterion", LEARNERS)
@pytest.mark.parametrize("from_template", [True, False])
def test_scores_are_those_of_the_features(few, criterion, order, from_template):
    X, y = few if from_template else ([valued(x) for x in few[0]], few[1])
    options = {"template": TEMPLATE if from_template else None, "order": order, "max_iter": 5, "precision": "float64"}
    penalty = {} if CRITERIA.part(criterion).optimizers == ("online",) else {"l2": 0.1}
    tagger = Tagger(criterion, pair_features="only", **options, **penalty).fit(X, y)
    assert tagger.state_weights_ == {} and any(before == START for _, before, _ in tagger.edge_weights_)
    model = tagger.model_
    corpus = Columns.from_rows(X) if from_template else attributes_of(X)
    encoded = model.encode(corpus)
    scores = model.features.scores(model.laid_out, encoded, 0, 3)
    attributes = [(names_of if from_template else values_of)(x) for x in few[0][:3]]
    structure, rng = Chain(encoded.offsets[:4]), np.random.default_rng(0)
    for _ in range(20):
        numbers = rng.integers(len(model.labels), size=structure.n_positions).astype(np.int32)
        labels = np.split(np.array(model.labels)[numbers], structure.offsets[1:-1])
        expected = [score(tagger, attributes[i], labels[i].tolist()) for i in range(3)]
        ruled_out = model.penalties.of_labelling(structure.offsets, numbers)
        np.testing.assert_allclose(structure.score(scores, numbers), expected + ruled_out, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("order", [1, 2])
def test_probabilities_are_those_of_all_labellings(few, order):
    X, y = few
    tagger = Tagger(template=TEMPLATE, pair_features="only", order=order, l2=0.1, precision="float64").fit(X, y)
    for x in X[:3]:
        labellings = list(itertools.product(tagger.classes_, repeat=len(x)))
        totals = np.array([score(tagger, names_of(x), labels) for labels in labellings])
        best = labellings[int(totals.argmax())]
        assert tagger.predict([x])[0] == tagger.predict_single(x) == list(best)
        expected = totals.max() - np.logaddexp.reduce(totals)
        np.testing.assert_allclose(tagger.log_probability([x], [list(best)]), [expected], atol=1e-9)


@pytest.mark.parametrize("criterion", ["memm", "nota", "pseudolikelihood"])
@pytest.mark.parametrize("order", [1, 2])
def test_dual_ascent_finds_the_minimum_of_lbfgs(data, criterion, order):
    options = {"template": TEMPLATE, "pair_features": "only", "order": order, "l2": 0.3, "tolerance": 1e-7}
    default = Tagger(criterion, **options).fit(*data)
    lbfgs = Tagger(criterion, optimizer="lbfgs", **options).fit(*data)
    assert default.objective_ == pytest.approx(lbfgs.objective_, rel=2e-4)


@pytest.mark.parametrize("options", [{}, {"criterion": "memm"}, {"criterion": "nota"}, {"hash_bits": 12}, {"order": 2}])
def test_a_model_file_has_the_same_features_and_answers(data, more_data, options, tmp_path):
    tagger = Tagger(template=TEMPLATE, pair_features="only", l2=0.1, max_iter=20, **options).fit(*data)
    tagger.save(tmp_path / "m")
    loaded = Tagger.load(tmp_path / "m")
    assert loaded.pair_features == "only" and loaded.edge_weights_ == tagger.edge_weights_
    assert loaded.predict(more_data[0]) == tagger.predict(more_data[0])
    np.testing.assert_array_equal(loaded.predict_marginals(more_data[0])[0], tagger.predict_marginals(more_data[0])[0])
    again = Tagger(template=TEMPLATE, pair_features="only", l2=0.1, max_iter=20, threads=2, **options).fit(*data)
    np.testing.assert_array_equal(again.model_.weights, tagger.model_.weights)


@pytest.mark.parametrize("criterion", ["cll", "memm", "nota"])
def test_an_interrupted_training_goes_on_bit_for_bit(few, criterion, tmp_path):
    options = {"template": TEMPLATE, "pair_features": "only", "l2": 0.01, "tolerance": 0.0}
    Tagger(criterion, max_iter=4, **options).fit(*few, checkpoint=tmp_path / "c")
    resumed = Tagger(criterion, max_iter=9, **options).fit(*few, checkpoint=tmp_path / "c", resume=True)
    assert resumed.to_bytes() == Tagger(criterion, max_iter=9, **options).fit(*few).to_bytes()


rows = st.tuples(st.sampled_from("abc"), st.sampled_from("xy"))
corpora = st.lists(st.lists(rows, min_size=1, max_size=5), min_size=1, max_size=5)


@settings(max_examples=40)
@given(train=corpora, test=corpora, kind=st.sampled_from(["template", "hashed template", "names", "hashed names"]))
def test_labels_alone_are_joined_at_first_positions_only(train, test, kind):
    templates = TemplateSet.parse(TEMPLATE.replace("B3", "U3"))

    def encoder(pair_features):
        if "template" in kind:
            if "hashed" in kind:
                return HashedTemplateEncoder(templates, None, pair_features, Buckets(8))
            return TemplateEncoder(templates, None, pair_features)
        return HashedNameEncoder(pair_features, Buckets(8)) if "hashed" in kind else NameEncoder(pair_features)

    both, only = encoder(True), encoder("only")
    for corpus, fit in ((train, True), (test, False)):
        made = Columns.from_rows(corpus) if "template" in kind else attributes_of(list(map(valued, corpus)))
        plain, own = ((e.fit(made) if fit else e.transform(made)) for e in (both, only))
        np.testing.assert_array_equal(own.edge.pointer, plain.edge.pointer)
        np.testing.assert_array_equal(own.edge.ids, plain.edge.ids)
        firsts = set(own.offsets[:-1].tolist())
        for t in range(own.n_positions):
            mine, theirs = (slice(*e.state.pointer[t : t + 2].tolist()) for e in (own, plain))
            assert own.state.ids[mine].tolist() == (plain.state.ids[theirs].tolist() if t in firsts else [])
            if own.state.values is not None and t in firsts:
                np.testing.assert_array_equal(own.state.values[mine], plain.state.values[theirs])


def test_a_start_has_the_weights_of_the_same_features_only(data):
    options = {"template": "words", "l2": 0.1, "max_iter": 10}
    only = Tagger(pair_features="only", **options).fit(*data)
    both = Tagger(pair_features=True, **options).fit(*data)
    same = Tagger(pair_features="only", **{**options, "max_iter": 0}).fit(*data, init=only)
    assert same.edge_weights_ == only.edge_weights_
    other = Tagger(pair_features="only", **{**options, "max_iter": 0}).fit(*data, init=both)
    assert other.edge_weights_ and not any(before == START for _, before, _ in other.edge_weights_)
    back = Tagger(pair_features=True, **{**options, "max_iter": 0}).fit(*data, init=only)
    assert not back.state_weights_ and back.edge_weights_.items() <= only.edge_weights_.items()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "m-estimation"}, "has a base model"),
        ({"criterion": "pseudolikelihood:joint"}, "predicts columns"),
        ({"criterion": "hmm", "template": None}, "has no features or weights"),
        ({"structure": "segments"}, "goes with structure='chain'"),
        ({"pair_features": "sometimes"}, "is not one of False, True, only"),
    ],
)
def test_what_it_does_not_go_with_is_refused(data, options, message):
    with pytest.raises(OptionError, match=message):
        Tagger(**{"template": "words", "pair_features": "only", **options}).fit(*data)


# -- label pairs that never occur --------------------------------------------------------------------------------------


def seen_in(y):
    """The label pairs and the first labels of an annotation; after a label that is always the last there may be any."""
    labels = sorted({label for one in y for label in one})
    pairs = {pair for one in y for pair in itertools.pairwise(one)}
    left = {before for before, _ in pairs}
    return pairs | {(last, label) for last in set(labels) - left for label in labels}, {one[0] for one in y}


labellings = st.lists(st.lists(st.sampled_from("ABCD"), min_size=1, max_size=5), min_size=1, max_size=5)


@settings(max_examples=30)
@given(y=labellings, length=st.integers(1, 7), seed=st.integers(0, 99))
def test_only_pairs_that_were_seen_are_possible(y, length, seed):
    X = [[[f"w{t}", "bias"] for t in range(len(one))] for one in y]
    tagger = Tagger(transitions="observed-only", l2=1.0, max_iter=3).fit(X, y)
    pairs, firsts = seen_in(y)
    rng = np.random.default_rng(seed)
    x = [[f"w{k}"] for k in rng.integers(6, size=length)]
    expected = sum(
        labels[0] in firsts and pairs >= set(itertools.pairwise(labels))
        for labels in itertools.product(tagger.classes_, repeat=length)
    )
    found = tagger.predict_nbest([x], k=300)[0]
    assert len(found) == min(300, expected) > 0
    for labels, _ in found:
        assert labels[0] in firsts and pairs >= set(itertools.pairwise(labels))
    if expected <= 300:
        assert sum(p for _, p in found) == pytest.approx(1.0)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("criterion", ["memm", "nota", "nota:local", "nota:scaling", "cll"])
@pytest.mark.parametrize("transitions", ["observed", "observed-only", "all", "none"])
def test_which_criteria_rule_out_unseen_pairs(data, criterion, order, transitions):
    options = {"order": order, "l2": 0.1, "max_iter": 10, "pair_features": "only", "transitions": transitions}
    tagger = Tagger(criterion, template=TEMPLATE, **options).fit(*data)
    ruled_out = transitions == "observed-only" or (transitions == "observed" and criterion != "cll")
    seen = seen_in(data[1])[0]
    unseen = [pair for pair in itertools.product(tagger.classes_, repeat=2) if pair not in seen]
    assert unseen
    x, (before, after) = [("the", "D"), ("noun1", "N")], unseen[0]
    if before not in seen_in(data[1])[1]:
        x, before, after = x[:1], after, None
    possible = not np.isneginf(tagger.log_probability([x], [[label for label in (before, after) if label]]))[0]
    assert possible != ruled_out
    assert (tagger.model_.constraints is None) != ruled_out and tagger.constraints is None
    loaded = Tagger.load(tagger.to_bytes())
    assert loaded.predict(data[0]) == tagger.predict(data[0])
    assert loaded.model_.constraints == tagger.model_.constraints


@pytest.mark.parametrize("criterion", ["memm", "nota"])
@pytest.mark.parametrize("pair_features", [False, True])
def test_other_features_leave_unseen_pairs_possible(data, criterion, pair_features):
    tagger = Tagger(criterion, template=TEMPLATE, pair_features=pair_features, l2=0.1, max_iter=3).fit(*data)
    assert tagger.model_.constraints is None


def test_own_constraints_hold_as_well(data):
    X, y = data
    seen = seen_in(y)[0]
    never = sorted(pair for pair in seen if pair[0] == "O")[:1]
    kept = [i for i, one in enumerate(y) if never[0] not in set(itertools.pairwise(one))]
    tagger = Tagger(template="words", transitions="observed-only", constraints={"scheme": "bio", "forbidden": never},
                    max_iter=5)  # fmt: skip
    tagger.fit([X[i] for i in kept], [y[i] for i in kept])
    possible = tagger.model_.penalties.rules.masks()[0].astype(bool)
    number = {label: k for k, label in enumerate(tagger.classes_)}
    assert not possible[number["O"], number[never[0][1]]] and not possible[number["O"], number["I-NP"]]
    assert possible.sum() <= len(seen_in([y[i] for i in kept])[0])


@pytest.mark.parametrize("constraints", [None, "bio", {"forbidden": [["O", "I-NP"]]}])
def test_a_loaded_tagger_has_the_constraints_it_was_given_and_learns_new_pairs(data, constraints):
    tagger = Tagger(template="words", transitions="observed-only", constraints=constraints, max_iter=5)
    twos = [one[:2] for one in data[1]]
    tagger.fit([x[:2] for x in data[0]] + [[("noun1", "N"), (",", "P")]], [*twos, ["B-NP", "O"]])
    loaded = Tagger.load(tagger.to_bytes())
    assert loaded.to_bytes() == tagger.to_bytes() and loaded.model_.constraints == tagger.model_.constraints
    assert (loaded.constraints is None) == (constraints is None)
    assert len(seen_in(twos)[0]) != len(seen_in(data[1])[0])
    again, new = loaded.fit(*data), Tagger(template="words", transitions="observed-only", constraints=constraints)
    assert again.to_bytes() == new.set_params(max_iter=5).fit(*data).to_bytes()


def test_segments_have_no_pairs_to_rule_out(data):
    with pytest.raises(OptionError, match="transitions='observed-only' goes with structure='chain'"):
        Tagger(template="words", structure="segments", transitions="observed-only").fit(*data)


def test_features_chosen_by_name_are_joined_with_label_pairs(tmp_path):
    """The same model as of a template whose line for that feature begins with ``*``."""
    words = [["a", "b", "c", "a"], ["b", "a"], ["c", "c", "b"]] * 3
    labels = [["X", "Y", "Y", "X"], ["Y", "Y"], ["X", "Y", "X"]] * 3
    dicts = [[{"w": w, "low": w * 2, "w2": 0.5} for w in x] for x in words]
    for bits in (None, 12):
        tagger = Tagger(edge=["w"], hash_bits=bits, precision="float64").fit(dicts, labels)
        alone = Tagger(hash_bits=bits).fit(dicts, labels)
        joined = Tagger(pair_features=True, precision="float64", hash_bits=bits).fit(dicts, labels)
        assert not alone.edge_weights_
        names = {name for name, *_ in tagger.edge_weights_}
        assert len(names) == 3
        assert names < {name for name, *_ in joined.edge_weights_}
        assert bits or names == {"w:a", "w:b", "w:c"}
        tagger.save(tmp_path / "m")
        other = Tagger.load(tmp_path / "m")
        assert other.edge == ["w"]
        assert other.predict_marginals(dicts) == tagger.predict_marginals(dicts)
        assert other.pruned(0.5).predict(dicts)
    same = Tagger(template="*:w:%x[0,0]\nU:low:%x[0,1]\nB", precision="float64")
    rows = [[(w, w * 2) for w in x] for x in words]
    same.fit(rows, labels)
    ours = Tagger(edge=("w",), precision="float64").fit([[{"w": w, "low": w * 2} for w in x] for x in words], labels)
    assert ours.objective_ == pytest.approx(same.objective_, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"edge": "w"}, "not a list of names"),
        ({"edge": ["w"], "pair_features": True}, "leave out edge"),
        ({"edge": ["w"], "template": "words"}, "ready-made"),
        ({"edge": ["w"], "structure": "segments"}, "segments have no features of pairs"),
    ],
)
def test_names_of_features_that_make_no_sense(options, says):
    with pytest.raises(OptionError, match=says):
        Tagger(**options).fit([["a"]] if "template" in options else [[{"w": "a"}]], [["X"]])
