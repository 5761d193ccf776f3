"""Models of CRF++ and Wapiti: made up here, and labelled by sums over strings, one observation at a time."""

import itertools
import random
from pathlib import Path

import numpy as np
import pytest

import loglinear
from loglinear.errors import ModelFileError, TemplateError
from loglinear.estimators.tagger.foreign import chain_model, read_foreign, to_tagger
from loglinear.estimators.tagger.predict import LoadedTagger
from loglinear.features.templates.patterns import WapitiPattern
from loglinear.foreign.crfpp import read_crfpp
from loglinear.foreign.wapiti import read_wapiti
from referees import foreign_files as files

WORDS = ["a", "b", "a/b", "/", "b/a/a", "Ä", "Ab1", "_B-1", "_x-1", "x+", "日本"]
CRFPP_TEMPLATES = [
    "U00:%x[0,0]",
    "U01:%x[-1,0]/%x[0,0]",
    "U02:%x[-2,1]",
    "U02:%x[2,0]",
    "U%x[0,0]%x[1,1]",
    "U9",
    "B",
    "B1:%x[0,1]",
]
PATTERNS = [
    "u:w=%x[0,0]", "U:%X[-1,0]/%x[1,1]", 'u:t=%t[-1,0,"^[0-9]+$"]', 'u:p=%m[0,0,"^.?.?"]',
    'u:q=%m[1,0,"\\u.*$"]%m[-2,1,".$"]', 'u:f=%t[@1,0,"\\\\a"]', "u:l=%x[@-1,0]", 'u:n=%t[-6,0,"#"]', "*",
    "b:w=%x[0,0]", "*:%x[-1,1]", "u:w=%x[0,0]",
]  # fmt: skip


def sentences(seed: int, n: int = 12) -> list[list[tuple[str, str]]]:
    rng = random.Random(seed)
    return [[(rng.choice(WORDS), rng.choice(WORDS)) for _ in range(rng.randint(1, 5))] for _ in range(n)]


def brute_force(n_labels: int, states: np.ndarray, pairs: np.ndarray, local: bool = False):
    """Best labelling and marginals of scores [T, Y] and [T, Y, Y], by listing all labellings."""
    n = len(states)
    steps = states[:, None, :] + pairs
    steps[0] = states[0]
    if local:
        steps -= np.log(np.exp(steps).sum(axis=2, keepdims=True))
    scores = {
        y: steps[0, 0, y[0]] + sum(steps[t, y[t - 1], y[t]] for t in range(1, n))
        for y in itertools.product(range(n_labels), repeat=n)
    }
    p = np.exp(np.array(list(scores.values())))
    marginals = np.zeros((n, n_labels))
    for y, q in zip(scores, p / p.sum(), strict=True):
        marginals[np.arange(n), list(y)] += q
    return max(scores, key=scores.__getitem__), marginals


def assert_same(tagger, labels, X, scores_of, local=False):
    predicted, marginals = tagger.predict(X), tagger.predict_marginals(X)
    for x, y, rows in zip(X, predicted, marginals, strict=True):
        best, expected = brute_force(len(labels), *scores_of(x), local)
        np.testing.assert_allclose([[row[label] for label in labels] for row in rows], expected, atol=1e-9)
        assert [labels[i] for i in best] == y


def crfpp_model(seed: int, labels=("A", "B", "Ö")):
    """Templates, keys with the places of their weights, and weights."""
    rng, n = np.random.default_rng(seed), len(labels)
    chosen = [t for t in CRFPP_TEMPLATES if rng.random() < 0.8] or CRFPP_TEMPLATES[:1]
    seen = sorted({files.crfpp_observation(t, x, i) for x in sentences(seed) for i in range(len(x)) for t in chosen})
    keys, total = {}, 0
    for key in rng.permutation(seen).tolist():
        keys[key] = total
        total += n if key[0] == "U" else n * n
    return list(labels), chosen, keys, rng.normal(size=total).astype(np.float32)


@pytest.mark.parametrize("seed", range(6))
def test_crfpp_in_both_forms_is_what_its_strings_say(seed):
    labels, templates, keys, weights = crfpp_model(seed, ("A", "B", "Ö") if seed else ("A",))
    cost, n = 1.5, len(labels)

    def scores_of(x):
        states, pairs = np.zeros((len(x), n)), np.zeros((len(x), n, n))
        for t in range(len(x)):
            for template in templates:
                place = keys.get(files.crfpp_observation(template, x, t))
                if place is not None and template[0] == "U":
                    states[t] += cost * weights[place : place + n].astype(float)
                elif place is not None:
                    pairs[t] += cost * weights[place : place + n * n].astype(float).reshape(n, n)
        return states, pairs

    X = sentences(seed) + sentences(seed + 100)
    for data in (
        files.crfpp_binary(labels, templates, keys, weights, cost),
        files.crfpp_text(labels, templates, keys, weights.astype(float), cost),
    ):
        found = read_crfpp(data)
        assert {k.decode(): v for k, v in zip(found.keys, found.values.tolist(), strict=True)} == keys
        tagger = loglinear.load(data)
        assert_same(tagger, labels, X, scores_of)
        again = loglinear.load(tagger.to_bytes())
        np.testing.assert_array_equal(again.model_.weights, tagger.model_.weights)
        assert again.predict(X) == tagger.predict(X)
        assert [again.predict_single(x) for x in X] == tagger.predict(X)


@pytest.mark.parametrize("type_", range(3))
@pytest.mark.parametrize("seed", range(3))
def test_wapiti_is_what_its_strings_say(type_, seed):
    rng, labels = np.random.default_rng(seed), ["A", "Ö", "C"][: 1 + seed % 3]
    n = len(labels)
    patterns = [p for p in PATTERNS if rng.random() < 0.8]
    seen = {files.wapiti_observation(p, x, t) for x in sentences(seed) for t in range(len(x)) for p in patterns}
    observations = rng.permutation(sorted(o.decode("latin-1") for o in seen)).tolist()
    starts, total = {}, 0
    for observation in observations:
        starts[observation.encode("latin-1")] = total
        total += {"u": n, "b": n * n}.get(observation[0], n + n * n)
    weights = rng.normal(size=total) * (rng.random(total) < 0.7)
    whole = [o.encode("latin-1").decode("utf-8", "replace") for o in observations]
    if any("\ufffd" in o for o in whole):  # a part of a letter: write the bytes as they are
        data = files.wapiti_text(type_, [p[0].lower() + p[1:] for p in patterns], labels, [], weights).decode()
        head, _, tail = data.partition("#qrk#0\n")
        nets = b"".join(b"%d:%s,\n" % (len(o.encode("latin-1")), o.encode("latin-1")) for o in observations)
        data = head.encode() + b"#qrk#%d\n" % len(observations) + nets + tail.encode()
    else:
        data = files.wapiti_text(type_, [p[0].lower() + p[1:] for p in patterns], labels, whole, weights)

    def scores_of(x):
        states, pairs = np.zeros((len(x), n)), np.zeros((len(x), n, n))
        for t in range(len(x)):
            for pattern in patterns:
                place = starts.get(files.wapiti_observation(pattern, x, t))
                if place is None:
                    continue
                if pattern[0].lower() != "b":
                    states[t] += weights[place : place + n]
                    place += n
                if pattern[0].lower() != "u" and type_ != 0:
                    pairs[t] += weights[place : place + n * n].reshape(n, n)
        return states, pairs

    X = sentences(seed) + sentences(seed + 100)
    tagger = loglinear.load(data)
    assert_same(tagger, labels, X, scores_of, local=type_ == 1)
    again = loglinear.load(tagger.to_bytes())
    assert again.predict(X) == tagger.predict(X)
    assert again.predict_marginals(X) == tagger.predict_marginals(X)


def test_wapiti_without_patterns_has_observations_for_tokens():
    labels, observations = ["A", "B"], ["u1", "b2", "*3"]
    weights = np.arange(1.0, 2 + 4 + 6 + 1) / 5
    tagger = to_tagger(read_wapiti(files.wapiti_text(2, [], labels, observations, weights)))
    X = [[["u1", "new"], ["b2", "*3"], ["*3"]], [["b2"]]]

    def scores_of(x):
        states, pairs = np.zeros((len(x), 2)), np.zeros((len(x), 2, 2))
        for t, token in enumerate(x):
            states[t] = ("u1" in token) * weights[:2] + ("*3" in token) * weights[6:8]
            pairs[t] = (("b2" in token) * weights[2:6] + ("*3" in token) * weights[8:]).reshape(2, 2)
        return states, pairs

    assert_same(tagger, labels, X, scores_of)


# -- Wapiti's expressions -------------------------------------------------------------------------------------------


def test_wapitis_expressions_find_what_wapiti_finds():
    rng = random.Random(0)
    atoms = ["a", "b", ".", "\\a", "\\U", "\\d", "\\P", "\\.", "+", "[", "ä", "$", "^", "\\s", "\\w"]
    checked = 0
    for _ in range(3000):
        expression = (
            rng.choice(["", "^"])
            + "".join(rng.choice(atoms) + rng.choice(["", "", "*", "?"]) for _ in range(rng.randint(1, 4)))
            + rng.choice(["", "$"])
        )
        if expression[:2] in ("^*", "^?"):
            continue
        value = "".join(rng.choice("abAB1+[ä. $^") for _ in range(rng.randint(0, 7)))
        found, expected = WapitiPattern(expression).find(value), files.wapiti_find(expression, value)
        assert (None if found is None else found.encode("utf-8", "surrogateescape")) == expected, (expression, value)
        checked += expected is not None
    assert checked > 300
    for wrong in ("*a", "a**", "a?*", "^*", "a\\"):
        with pytest.raises(TemplateError, match=r"repeats nothing|backslash"):
            WapitiPattern(wrong)


def test_the_directive_survives_and_trains():
    X, y = sentences(1, 30), [["L" if len(w) > 1 else "S" for w, _ in x] for x in sentences(1, 30)]
    template = '%wapiti\nu:w=%x[0,0]\nu:n=%t[-1,0,"^[+]$"]\n*\n'
    tagger = loglinear.Tagger(template=template, transitions="all", states="all", max_iter=5).fit(X, y)
    assert {key[0] for key in tagger.state_weights_} >= {"*", "u:n=false"}
    assert "u:n=true" not in {key[0] for key in tagger.state_weights_}
    assert not tagger.edge_weights_ and len(tagger.transition_weights_) == 4  # a bare * is a bias and the label bigram
    again = loglinear.load(tagger.to_bytes())
    assert str(again.template) == template
    assert again.predict(X) == tagger.predict(X)
    with pytest.raises(TemplateError, match="hashed"):
        loglinear.Tagger(template=template, hash_bits=10).fit(X, y)


def test_outside_the_sequence_macros_look_at_what_wapiti_has_there():
    sentence = [("Ab", "b"), ("c", "D")]
    for pattern in ('u:%t[-1,0,"x"]', "u:%X[-5,0]", "u:%x[6,1]", 'u:%m[1,0,".$"]', "u:%x[@-4,0]", "u:%x[@3,0]"):
        tagger = loglinear.Tagger(template=f"%wapiti\n{pattern}\n", transitions="none", states="all", max_iter=1)
        tagger.fit([sentence], [["A", "B"]])
        expected = {files.wapiti_observation(pattern, sentence, t).decode() for t in range(2)}
        assert {name for name, _ in tagger.state_weights_ | {("", ""): 0.0}} - {""} <= expected
        assert set(tagger.model_.encoder.names()) <= expected


def test_what_cannot_be_used_is_refused_with_the_reason():
    labels, weights = ["A", "B"], np.ones(2)
    with pytest.raises(ModelFileError, match="from a column"):
        chain_model(read_foreign(files.wapiti_text(2, ["u:%x[*0,1]"], labels, ["u:a"], weights), "m"), "m")
    with pytest.raises(ModelFileError, match="none of CRF"):
        chain_model(read_foreign(files.crfpp_text(labels, ["U:%x[9,0]"], {"U:a": 0}, weights), "m"), "m")
    with pytest.raises(ModelFileError, match="too many ways"):
        keys = {f"U{'a' * 60}{i:03d}": 2 * i for i in range(900)}
        template = "U" + "%x[0,0]" * 4
        chain_model(read_foreign(files.crfpp_text(labels, [template], keys, np.ones(1800)), "m"), "m")


# -- models and answers of the tools themselves ----------------------------------------------------------------------


@pytest.fixture
def tools_models(corpora) -> Path:
    folder = corpora / "foreign_models"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    return folder


@pytest.mark.parametrize("name", ["CRF-L2", "CRF-L1", "MIRA"])
def test_crf_test_prints_what_crfpp_printed(tools_models, name, tmp_path):
    from loglinear.compat import crf_test

    out = tmp_path / "out"
    model, text = str(tools_models / f"crfpp.{name}.model"), str(tools_models / "test.txt")
    assert crf_test.main(["-m", model, "-v2", "-o", str(out), text]) == 0
    assert out.read_text() == (tools_models / f"crfpp.{name}.out").read_text()


@pytest.mark.parametrize("name", ["crf", "maxent", "memm"])
def test_wapiti_label_prints_what_wapiti_printed(tools_models, name, tmp_path):
    from loglinear.compat import wapiti

    out = tmp_path / "out"
    model, text = str(tools_models / f"wapiti.{name}.model"), str(tools_models / "test.txt")
    assert wapiti.main(["label", "-m", model, "-p", "-s", text, str(out)]) == 0
    assert out.read_text() == (tools_models / f"wapiti.{name}.out").read_text()


def test_the_text_form_of_crfpp_has_the_same_answers(tools_models):
    X = [[row[:1] for row in x] for x in loglinear.read_columns(tools_models / "test.txt").rows()]
    binary, text = (LoadedTagger.load(tools_models / f"crfpp.CRF-L2.model{end}") for end in ("", ".txt"))
    assert binary.predict(X) == text.predict(X)
    p, q = (np.array([list(row.values()) for x in each.predict_marginals(X) for row in x]) for each in (binary, text))
    np.testing.assert_allclose(p, q, atol=1e-5)  # single precision there
