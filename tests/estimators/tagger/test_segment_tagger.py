"""Taggers of segments: equal to chains where segments are tokens, and everything that a tagger can do."""

import itertools
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import loglinear
from loglinear import Gazetteer, LocalTagger, Tagger, model_file, read_columns
from loglinear.cli import app
from loglinear.criteria.criterion import CRITERIA
from loglinear.errors import DataError, InfeasibleError, ModelFileError, OptionError
from loglinear.estimators.options import tagger_training
from loglinear.evaluation.chunks import chunk_ends, chunk_spans
from problems.estimators import CHUNKS, ROWS

NAMES = tagger_training("segments").criteria()
ONLINE = [name for name in NAMES if CRITERIA.part(name).optimizers == ("online",)]
NO_BASE = ("hmm", "memm", "m-estimation", "nota", "piecewise", "pseudolikelihood")


def make(name="cll", **options):
    unfit = ("l1", "l2") if name in ONLINE else ()
    options = {"structure": "segments", "template": "words", "max_iter": 40, "l2": 0.05, **options}
    return Tagger(name, **{key: each for key, each in options.items() if key not in unfit})


def segments_of(tagger, labels):
    """The segments that a labelling of one sentence spells."""
    numbers = np.array([tagger.classes_.index(label) for label in labels], dtype=np.int32)
    found = tagger.model_.features.scheme.segments(np.array([0, len(labels)]), numbers)
    return [tuple(map(int, segment)) for segment in zip(*found, strict=True)]


def score_of(tagger, x, labels):
    """Sum of the weights that a labelling of a sentence has, by the names of its features."""
    kinds = {kind: tagger.model_.named(kind) for kind in tagger.model_.kinds}
    names, spans, scheme = tagger.model_.encoder.names(), tagger.model_.spans, tagger.model_.features.scheme
    encoded = tagger.model_.encode(tagger._corpus([x]))
    total, before = 0.0, None
    for start, end, y in segments_of(tagger, labels):
        kind = scheme.kind_names[scheme.kinds[y]]
        for t in range(start, end):
            lo, hi = encoded.tokens.state.pointer[t : t + 2]
            total += sum(kinds["state"].get((names[a], labels[t]), 0.0) for a in encoded.tokens.state.ids[lo:hi])
        place = (end - 1) * encoded.n_lengths + end - start - 1
        if encoded.spans is not None:
            lo, hi = encoded.spans.pointer[place : place + 2]
            attributes = [spans.names()[a] for a in encoded.spans.ids[lo:hi]]
            total += sum(kinds["segment"].get((attribute, kind), 0.0) for attribute in attributes)
        total += kinds["length"].get((str(end - start), kind), 0.0)
        total += 0.0 if before is None else kinds["transition"].get((before, kind), 0.0)
        before = kind
    return total


def legal(tagger, n):
    """All labellings of n tokens that spell segments."""
    scheme = tagger.model_.features.scheme
    for labels in itertools.product(range(len(tagger.classes_)), repeat=n):
        if scheme.mistake(np.array([0, n]), np.array(labels, dtype=np.int32)) is None:
            yield [tagger.classes_[y] for y in labels]


# -- the same as a chain where every token is a segment ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["cll", "softmax-margin", "risk", "jrb", "max-margin"])
def test_segments_of_one_token_are_a_chain(data, name):
    X, y = data[0], [[row[1] for row in x] for x in data[0]]
    one, other = (
        Tagger(name, template="U:%x[0,0]\nU:%x[-1,0]\nB\n", structure=structure, segment_features=features)
        for structure, features in (("chain", None), ("segments", "none"))
    )
    problems = [tagger.problem(X, y) for tagger in (one, other)]
    objectives = [problem.objective(problem.criterion(name, None), 0.3, 1) for problem in problems]
    weights = np.random.default_rng(0).normal(size=problems[0].model.features.n_features)
    (value, gradient), (value_again, gradient_again) = (objective(weights) for objective in objectives)
    assert value_again == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(gradient_again, gradient, atol=1e-9)
    models = [problem.model.with_weights(weights) for problem in problems]
    encoded = [model.encode(problem.corpus) for model, problem in zip(models, problems, strict=True)]
    marginals = [model.marginals(corpus) for model, corpus in zip(models, encoded, strict=True)]
    np.testing.assert_allclose(marginals[1], marginals[0], atol=1e-9)
    np.testing.assert_array_equal(*(model.decode(corpus) for model, corpus in zip(models, encoded, strict=True)))


# -- probabilities are those of all segmentations ----------------------------------------------------------------------


@pytest.mark.parametrize("constraints", [None, "bio", {"scheme": "bio", "forbidden": [("B-VP", "B-NP")]}])
def test_probabilities_and_best_labellings_are_those_of_all_segmentations(constraints):
    y = CHUNKS if constraints != {"scheme": "bio", "forbidden": [("B-VP", "B-NP")]} else None
    if y is None:
        y = [["B-NP", "I-NP", "B-VP"], ["B-NP", "I-NP", "O", "B-NP", "I-NP"], ["B-NP", "B-VP", "O"]]
    tagger = make(constraints=constraints, max_length=3, precision="float64").fit(ROWS, y)
    for x in [row[:4] for row in ROWS]:
        every = list(legal(tagger, len(x)))
        if isinstance(constraints, dict):
            every = [labels for labels in every if ("B-VP", "B-NP") not in itertools.pairwise(labels)]
        scores = np.array([score_of(tagger, x, labels) for labels in every])
        p = np.exp(scores - np.logaddexp.reduce(scores))
        nbest = tagger.predict_nbest([x], k=len(every) + 5)[0]
        assert len(nbest) == len(every)
        order = np.argsort(-p, kind="stable")
        np.testing.assert_allclose([q for _, q in nbest], p[order], atol=1e-9)
        assert every[order[0]] == nbest[0][0] == tagger.predict([x])[0]
        np.testing.assert_allclose(tagger.log_probability([x] * len(every), every), np.log(p), atol=1e-8)
        for t, row in enumerate(tagger.predict_marginals([x])[0]):
            for label, q in row.items():
                assert q == pytest.approx(sum(p[i] for i, each in enumerate(every) if each[t] == label), abs=1e-9)
        for first, end, kind, q in tagger.predict_spans([x])[0]:
            spelt = [f"B-{kind}", *[f"I-{kind}"] * (end - first - 1)]
            has = [each[first:end] == spelt and (end == len(x) or each[end] != f"I-{kind}") for each in every]
            assert q == pytest.approx(p[has].sum(), abs=1e-9)


@pytest.mark.parametrize("options", [{}, {"sub_labels": 2, "seed": 1}, {"order": 2}, {"constraints": "bio"}], ids=str)
def test_spans_of_chains_have_the_probability_of_all_labellings_that_hold_them(options):
    tagger = Tagger(template="words", max_iter=20, l2=0.05, **options).fit(ROWS, CHUNKS)
    for x in [row[:3] for row in ROWS]:
        every = [list(each) for each in itertools.product(tagger.classes_, repeat=len(x))]
        p = np.exp(tagger.log_probability([x] * len(every), every))
        best, ends = tagger.predict([x])[0], chunk_ends(tagger.classes_)
        number = tagger.classes_.index
        found = tagger.predict_spans([x], given=[[None] * len(x)])[0]
        assert found == tagger.predict_spans([x])[0]
        assert [span[:3] for span in found] == list(
            zip(*(each if i == 2 else each.tolist() for i, each in enumerate(chunk_spans([best]))), strict=True)
        )
        for first, end, _, q in found:
            has = [
                each[first:end] == best[first:end] and (end == len(x) or ends[number(best[end - 1]), number(each[end])])
                for each in every
            ]
            assert q == pytest.approx(p[has].sum(), abs=1e-9)


def test_spans_of_a_local_tagger_and_of_nothing(data):
    from sklearn.linear_model import LogisticRegression

    tagger = LocalTagger(LogisticRegression(), template="words").fit(*data)
    assert all(0.0 < q <= 1.0 for spans in tagger.predict_spans(data[0][:5]) for *_, q in spans)
    assert make().fit(*data).predict_spans([]) == []


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y", "I-Y"]), min_size=1, max_size=7), max_size=5),
)
def test_chunks_are_spelt_by_their_labels(labellings):
    """Spans cover exactly the tokens that are not O, in order, and their types are those of their labels."""
    if not labellings:
        return
    starts, ends, types = chunk_spans(labellings)
    tokens = [label for labels in labellings for label in labels]
    borders = np.cumsum([0, *map(len, labellings)])
    covered = [t for start, end in zip(starts, ends, strict=True) for t in range(start, end)]
    assert covered == [t for t, label in enumerate(tokens) if label != "O"]
    table, names = chunk_ends(sorted(set(tokens))), sorted(set(tokens))
    for start, end, kind in zip(starts.tolist(), ends.tolist(), types, strict=True):
        assert {label[2:] for label in tokens[start:end]} == {kind}
        assert not any(start < border < end for border in borders.tolist())
        for t in range(start, end - 1):
            assert not table[names.index(tokens[t]), names.index(tokens[t + 1])]
        if end not in borders:
            assert table[names.index(tokens[end - 1]), names.index(tokens[end])]


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"l1": 0.1, "l2": 0.01, "constraints": "bio"},
        {"states": "all", "transitions": "all", "min_count": 2},
        {"cost": "recall:2", "max_length": {"NP": 3}, "hash_bits": 12},
        {"optimizer": "sgd", "segment_features": "string+length"},
    ],
    ids=str,
)
def test_every_criterion_learns_with_every_kind_of_option(data, more_data, name, options):
    options = dict(options)
    if not CRITERIA.part(name).uses_cost:
        options.pop("cost", None)
    if "sgd" not in CRITERIA.part(name).optimizers:
        options.pop("optimizer", None)
    tagger = make(name, **options).fit(*data)
    assert tagger.score(*data) > 0.9 and tagger.score(*more_data) > 0.8
    again = loglinear.load(tagger.to_bytes())
    assert again.structure == "segments" and again.predict(more_data[0]) == tagger.predict(more_data[0])
    assert pickle.loads(pickle.dumps(tagger)).predict(more_data[0]) == tagger.predict(more_data[0])
    assert again.predict_spans(more_data[0]) == tagger.predict_spans(more_data[0])


@pytest.mark.parametrize("name", NAMES)
def test_partial_labels_dev_data_and_weights(data, more_data, name):
    rng = np.random.default_rng(0)
    partial = [[label if rng.random() < 0.6 else None for label in labels] for labels in data[1]]
    weights = rng.random(len(partial)) + 0.5
    if not CRITERIA.part(name).learns_from_hidden():
        with pytest.raises(DataError, match=r"sequence \d+, position \d+ .*needs one label for each token"):
            make(name).fit(data[0], partial)
        partial = data[1]
    tagger = make(name).fit(data[0], partial, *more_data, sample_weight=weights)
    assert tagger.dev_score_ > 0.7 and tagger.history_


@pytest.mark.parametrize("name", ["cll", "mira", "risk"])
def test_threads_do_not_matter(data, name):
    one, two = (make(name, threads=threads).fit(*data) for threads in (1, 2))
    np.testing.assert_array_equal(one.model_.weights, two.model_.weights)
    assert one.to_bytes() == two.to_bytes()


def test_training_starts_from_segments_and_from_a_chain(data, tmp_path):
    full = make(max_iter=200, optimizer="lbfgs").fit(*data)
    again = make(max_iter=200).fit(*data, init=full)  # which dual ascent does not do
    assert again.n_iter_ < full.n_iter_ and again.objective_ == pytest.approx(full.objective_, rel=1e-3)
    chain, model = Tagger(template="words", l2=0.05).fit(*data), make().problem(*data).model
    named, known = model.with_weights(model.weights_from(chain.model_)).named("state"), chain.state_weights_
    assert any(named.values()) and all(weight == known.get(name, 0.0) for name, weight in named.items())
    assert make(max_iter=200).fit(*data, init=chain).objective_ == pytest.approx(full.objective_, rel=1e-3)
    with pytest.raises(OptionError, match="sub-labels"):
        make().fit(*data, init=Tagger(template="words", sub_labels=2, max_iter=2).fit(*data))
    with pytest.raises(OptionError, match="segments, this one a chain"):
        Tagger(template="words").fit(*data, init=full)
    full.save(tmp_path / "ner.model")
    with pytest.raises(OptionError, match=r"ner\.model: .* this one a chain; .* or train with structure='segments'"):
        Tagger(template="words").fit(*data, init=tmp_path / "ner.model")


def test_fewer_weights(data):
    tagger = make().fit(*data)
    smaller = tagger.pruned(0.5)
    assert smaller.model_.features.n_features <= tagger.model_.features.n_features // 2 + 1
    kept = sorted(map(abs, tagger.model_.weights.tolist()))[-smaller.model_.features.n_features :]
    np.testing.assert_array_equal(np.sort(np.abs(smaller.model_.weights)), kept)
    assert loglinear.load(smaller.to_bytes()).predict(data[0]) == smaller.predict(data[0])
    few = make().fit(*data, init=tagger, keep=20)
    assert few.model_.features.n_features <= 20


def test_forced_labels_are_kept(data):
    tagger = make().fit(*data)
    x = data[0][0]
    given = [["B-VP"] + [None] * (len(x) - 1)]
    assert tagger.predict([x], given=given)[0][0] == "B-VP"
    assert tagger.predict([x], given=[[{"O", "B-VP"}] * len(x)])[0][0] in ("O", "B-VP")


def test_segments_are_as_long_as_those_of_training_or_as_told(data):
    longest = make().fit(*data).model_.features.scheme
    assert dict(zip(longest.segment_labels, longest.limits.tolist(), strict=True)) == {"NP": 2, "O": 1, "VP": 1}
    only = make(max_length={"NP": 5}).fit(*data).model_.features.scheme  # the others keep theirs
    assert dict(zip(only.segment_labels, only.limits.tolist(), strict=True)) == {"NP": 5, "O": 1, "VP": 1}
    for told in (4, {"NP": 4}, "NP=4", "NP=4,VP=1", np.int64(4), "4"):
        limits = make(max_length=told).fit(*data).model_.features.scheme.limits
        assert limits.max() == 4


def test_whole_names_of_a_gazetteer_and_ready_made_features():
    X = [["New", "York", "is", "big"], ["York", "is", "new"], ["I", "like", "New", "York"]]
    y = [["B-L", "I-L", "O", "O"], ["B-L", "O", "O"], ["O", "O", "B-L", "I-L"]]
    cities = Gazetteer("cities", ["New York", "York"])
    tagger = make(template="U:%shape[0,0]\nB\n", gazetteers=[cities], segment_features="gazetteer").fit(X, y)
    assert tagger.segment_weights_[("gazetteer=cities", "L")] > 0.0
    assert tagger.predict(X) == y and not tagger.length_weights_
    own = make(template=None).fit([[{"w": word} for word in x] for x in X], y)
    assert own.length_weights_ and not own.segment_weights_
    with pytest.raises(OptionError, match="ready-made features, not words"):
        make(template=None, segment_features="string").fit([[{"w": word} for word in x] for x in X], y)


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NO_BASE)
def test_criteria_of_chains_are_refused(name):
    with pytest.raises(OptionError, match=rf"criterion='{name}' trains no tagger of segments.*; there are: .*cll"):
        make(name, template=None, l2=None, max_iter=None).fit(ROWS, CHUNKS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 2}, "order=2 goes with structure='chain': a segment depends on one segment before it"),
        ({"sub_labels": 2}, "sub_labels=2 goes with structure='chain'"),
        ({"pair_features": True}, "pair_features=True goes with structure='chain'"),
        ({"structure": "tree"}, "structure='tree' is not one of chain, segments"),
        ({"structure": "chain", "max_length": 3}, "max_length=3 goes with structure='segments'"),
        ({"structure": "chain", "segment_features": "string"}, "segment_features='string' goes with"),
        ({"segment_features": "string+colour"}, "'colour'"),
        ({"max_length": 0}, "between 1 and 1000"),
        ({"max_length": "NP=x"}, "'x' is not a whole number; give one, or one for each label as in PER=4,ORG=8"),
        ({"max_length": "NP=3,NP=4"}, "names a label twice"),
        ({"max_length": {"NP": "three"}}, "'three' is not a whole number"),
        ({"max_length": {}}, "names no label"),
        ({"max_length": "99999999999999999999"}, "between 1 and 1000"),
        ({"segment_features": "string+"}, "there are no segment attributes ''"),
        ({"segment_features": ""}, "there are no segment attributes ''"),
        ({"max_length": {"PER": 3}}, "'PER', which is not one of NP"),
        ({"max_length": 2.5}, "2.5 is not a whole number"),
        ({"max_length": True}, "True is not a whole number"),
        ({"optimizer": "newton"}, "'cll' is trained by dual, lbfgs, sgd, adagrad, not by 'newton'"),
        ({"name": "memm"}, "'memm' trains no tagger of segments: it trains chains only; there are: "),
        ({"base": "hmm"}, "m-estimation"),
        ({"constraints": {"scheme": "bio", "forbidden": [("I-NP", "B-VP")]}}, "some lengths only"),
    ],
    ids=str,
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        make(**options).fit(ROWS, CHUNKS)


@pytest.mark.parametrize(
    ("rows", "options", "line", "message"),
    [
        ("a O\nb I-Y\nc B-X\nd I-X\n", {"constraints": "bio"}, 2, "'I-Y' cannot begin a segment"),
        ("a B-X\nb I-X\nc I-X\n", {"max_length": 2}, 1, "more than 2 tokens"),
        ("a O\n\nb B-X\nc I-X\n", {"constraints": {"forbidden": [("B-X", "I-X")]}}, 4, "breaks the constraints"),
        ("a B-X\nb O\nc I-Y\nd B-Y\ne S-X\n", {"constraints": "bio"}, None, "'S-X'"),
    ],
)
def test_labels_that_spell_no_segments_are_refused_with_their_place(tmp_path, rows, options, line, message):
    (tmp_path / "train.txt").write_text(rows)
    with pytest.raises((DataError, OptionError), match=message) as caught:
        make(**options).fit(read_columns(tmp_path / "train.txt"))
    if line is not None:
        assert f"train.txt:{line}: " in str(caught.value)


def test_labels_that_cannot_stand_where_they_do_are_read_as_conlleval_reads_them(tmp_path):
    (tmp_path / "train.txt").write_text("a O\nb I-X\nc I-X\n\nd B-X\ne O\nf I-X\n")
    with pytest.warns(UserWarning, match=r"train.txt:2: the label 'I-X' cannot .* 'B-X', and 1 more labels likewise"):
        tagger = make(constraints="bio").fit(read_columns(tmp_path / "train.txt"))
    right = make(constraints="bio").fit([["a", "b", "c"], ["d", "e", "f"]], [["O", "B-X", "I-X"], ["B-X", "O", "B-X"]])
    np.testing.assert_array_equal(tagger.model_.weights, right.model_.weights)


def test_partial_labels_that_nothing_fits_are_refused_with_their_place():
    with pytest.raises(DataError, match="sequence 1, position 0"):
        make(max_length=1).fit([["a", "b"], ["c", "d"]], [["B-X", "O"], ["B-X", {"I-X"}]])


def test_damaged_files_are_refused():
    stored = model_file.load(make().fit(ROWS, CHUNKS).to_bytes())
    changes = {
        "lengths": lambda a: a + 100,
        "transitions": lambda a: a - 100,
        "state.codes": lambda a: a + 100,
        "segment.counts": lambda a: a[:-1],
        "spans.keys": lambda a: a[::-1].copy(),
        "spans.sizes": lambda a: a + 1,
        "weights": lambda a: a[:-1],
    }
    for name, change in changes.items():
        arrays = {**stored.arrays, name: change(stored.arrays[name])}
        with pytest.raises(ModelFileError):
            Tagger.load(model_file.dumps("tagger", stored.header, arrays))
    for key, value in {"scheme": {"scheme": "bio"}, "spans": {}, "labels": ["O"]}.items():
        with pytest.raises(ModelFileError):
            Tagger.load(model_file.dumps("tagger", {**stored.header, key: value}, stored.arrays))
    options = {**stored.header["options"], "structure": "chain"}
    with pytest.raises(ModelFileError):
        Tagger.load(model_file.dumps("tagger", {**stored.header, "options": options}, stored.arrays))


def test_hidden_labels_may_need_longer_segments():
    X, y = [["a", "b", "c", "d"], ["a", "b"]], [["B-X", None, "I-X", "O"], ["B-X", "O"]]
    tagger = make().fit(X, y)
    assert tagger.model_.features.scheme.n_lengths == 2 and tagger.predict(X, given=y)[0][2] == "I-X"


def test_labels_that_spell_no_segments_have_no_probability(data):
    tagger = make().fit(*data)
    X = [[("the", "D"), ("noun1", "N"), ("noun2", "N")]] * 3
    y = [["B-NP", "I-NP", "I-NP"], ["O", "I-NP", "O"], ["B-NP", "I-NP", "O"]]
    found = tagger.log_probability(X, y)
    assert np.isneginf(found[:2]).all() and np.isfinite(found[2])
    with pytest.raises(InfeasibleError, match="segments have at most so many tokens: NP 2"):
        tagger.predict(X[:1], given=y[:1])


def test_a_limit_for_labels_without_a_scheme_is_refused(data):
    with pytest.raises(OptionError, match="every token is a segment"):
        make(max_length=3).fit(data[0], [[tag for _, tag in x] for x in data[0]])


# -- the command line --------------------------------------------------------------------------------------------------


def test_the_command_line(tmp_path):
    text = "".join(
        "".join(f"{word} {tag} {label}\n" for (word, tag), label in zip(x, y, strict=True)) + "\n"
        for x, y in zip(ROWS, CHUNKS, strict=True)
    )
    train, model = tmp_path / "train.txt", tmp_path / "m.model"
    train.write_text(text)

    def run(*arguments):
        result = CliRunner().invoke(app, [str(each) for each in arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    run(
        "train",
        train,
        "-o",
        model,
        "--template",
        "words",
        "--structure",
        "segments",
        "--max-length",
        "NP=3",
        "--l2",
        0.1,
    )
    tagged = run("tag", model, train, "--marginals")
    assert len(tagged.splitlines()) == len(text.splitlines())
    shown = run("inspect", model)
    assert "segments" in shown and "length=2" in shown and "string=" in shown
    everything = json.loads(run("inspect", model, "--json"))
    assert everything["structure"] == "segments" and set(everything["features"]) == {
        "state",
        "segment",
        "length",
        "transition",
    }
    assert {each["label"] for each in everything["lengths"]} == {"NP", "VP", "O"}
    assert all({each["from"], each["to"]} <= {"NP", "VP", "O"} for each in everything["transitions"])
    only = json.loads(run("inspect", model, "--json", "--label", "B-VP"))
    assert {each["label"] for each in only["states"]} == {"B-VP"} and {each["label"] for each in only["segments"]} == {
        "VP"
    }
    kinds = json.loads(run("inspect", model, "--json", "--label", "NP"))
    assert {each["label"] for each in kinds["segments"]} == {"NP"} and not kinds["states"]
    run("prune", model, "-o", tmp_path / "small.model", "--share", 0.5)
    assert Tagger.load(tmp_path / "small.model").structure == "segments"


def test_experiments_take_the_structure(data, more_data):
    tagger = make(max_iter=5)
    best = loglinear.tune(*data, *more_data, grid={"max_length": [2, 3], "structure": ["segments"]}, tagger=tagger)
    assert best.best_model.structure == "segments"
    compared = loglinear.compare(
        *data, *more_data, *more_data, criteria="all", tagger=make(max_iter=3, l2=None), quick=True, grid={"l2": [0.1]}
    )
    assert {system.name for system in compared.systems} == set(NAMES)
