"""The dependency parser from sentences to trees and back from its file."""

import io
import os
import signal
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from loglinear import DependencyParser, model_file, read_conllu
from loglinear.data import Dependencies
from loglinear.data.dependency_checks import cycle_member, is_projective
from loglinear.errors import DataError, LoglinearError, ModelFileError, OptionError
from loglinear.estimators.dependency import file as dependency_file
from loglinear.training.run import TrainingInterrupted

NOUNS, VERBS = ["dog", "cat", "man", "bird", "house"], ["saw", "liked", "fed", "chased"]
ADJECTIVES = ["old", "big", "red"]


def phrase(rng, words, arcs, head, relation):
    """Add a noun phrase such as "the old dog"."""
    adjectives = int(rng.integers(0, 3))
    noun = len(words) + adjectives + 2
    words += [
        ("the" if rng.random() < 0.5 else "a", "DT"),
        *((str(rng.choice(ADJECTIVES)), "JJ") for _ in range(adjectives)),
    ]
    arcs += [(noun, "det"), *[(noun, "amod")] * adjectives]
    words.append((str(rng.choice(NOUNS)), "NN"))
    arcs.append((head, relation))


def treebank(n, seed):
    """Sentences such as "the old dog saw a cat ." with their trees and relations."""
    rng = np.random.default_rng(seed)
    sentences, heads = [], []
    for _ in range(n):
        words, arcs = [], []
        phrase(rng, words, arcs, -1, "nsubj")
        verb = len(words) + 1
        words.append((str(rng.choice(VERBS)), "VBD"))
        arcs.append((0, "root"))
        phrase(rng, words, arcs, verb, "obj")
        words.append((".", "."))
        arcs.append((verb, "punct"))
        sentences.append(words)
        heads.append([(verb if head == -1 else head, relation) for head, relation in arcs])
    return sentences, heads


TRAIN, TEST = treebank(60, 0), treebank(30, 1)
QUICK = {"max_iter": 5, "threads": 1}
SYSTEMS = [
    {"criterion": "mira", **QUICK},
    {"criterion": "mira:k=3,C=0.1", "cost": "hamming:2", "projective": False, **QUICK},
    {"criterion": "cll", **QUICK},
    {"criterion": "cll", "optimizer": "lbfgs", "projective": False, "single_root": False, "max_iter": 15},
    {"criterion": "softmax-margin", "optimizer": "sgd", **QUICK},
    {"criterion": "max-margin", **QUICK},
    {"criterion": "risk", **QUICK},
    {"criterion": "risk:k=4,anneal=2", **QUICK},
    {"criterion": "marginal-likelihood", **QUICK},
    {"criterion": "jrb", "l2": 0.1, **QUICK},
    {"criterion": "perceptron", "features": "all", "min_count": 2, **QUICK},
    {"criterion": "passive-aggressive", **QUICK},
    {"criterion": "generative"},
    {"criterion": "generative", "base": "head-outward:words=no"},
    {"criterion": "m-estimation", "base": "head-outward:samples=2000", "variance": 1.0},
]


@pytest.mark.parametrize("options", SYSTEMS, ids=lambda options: f"{options['criterion']}-{len(options)}")
def test_every_criterion_learns_a_simple_language(options):
    parser = DependencyParser(**options).fit(*TRAIN)
    report = parser.evaluate(*TEST)
    assert report.uas > 95
    assert report.las > 95
    assert parser.score(*TEST) == pytest.approx(report.uas / 100)
    again = DependencyParser.load(parser.to_bytes())
    assert again.predict(TEST[0]) == parser.predict(TEST[0])
    assert again.get_params() == {**parser.get_params(), "threads": None}
    assert again.to_bytes() == parser.to_bytes()


def test_what_it_finds_are_trees_of_the_kind_asked_for():
    rng = np.random.default_rng(5)
    odd = [
        [(str(rng.choice([*NOUNS, "new"])), str(rng.choice(["NN", "DT", "XX"]))) for _ in range(n)]
        for n in range(1, 12)
    ]
    for projective in (True, False):
        parser = DependencyParser(projective=projective, **QUICK).fit(*TRAIN)
        parses = parser.parse(odd)
        offsets = np.cumsum([0, *map(len, odd)]).astype(np.int64)
        assert cycle_member(offsets, parses.heads) < 0
        assert (np.add.reduceat(parses.heads == 0, offsets[:-1]) == 1).all()
        assert is_projective(offsets, parses.heads).all() or not projective
        assert not parses.fallback.any()


def test_crossing_arcs_are_learnt_where_they_may_be():
    sentences = [[("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")]] * 5
    heads = [[3, 4, 0, 3]] * 5
    assert DependencyParser(projective=False, **QUICK).fit(sentences, heads).predict(sentences[:1]) == [[3, 4, 0, 3]]
    assert "crossing" not in DependencyParser(projective=False, **QUICK).fit(sentences, heads).message_
    parser = DependencyParser(**QUICK).fit([*sentences, *TRAIN[0]], [*heads, *([h for h, _ in y] for y in TRAIN[1])])
    assert parser.predict(sentences[:1])[0] == [3, 3, 0, 3]
    assert "; crossing arcs of 5 sentences lifted" in parser.message_


def test_a_root_has_its_relation_where_training_knows_none():
    sentences, heads = [[("a", "A"), ("b", "B")]] * 3, [[(2, "x"), (0, "y")]] * 3
    parser = DependencyParser(parse_length=2, **QUICK).fit(sentences, heads)
    assert parser.predict([sentences[0], [*sentences[0], ("b", "B")]])[1][0] == (0, "root")
    assert parser.predict(sentences[:1]) == heads[:1]


def test_sentences_without_tags_are_learnt_from_with_a_warning():
    untagged = [[(word, "_") for word, _ in sentence] for sentence in TRAIN[0]]
    with pytest.warns(UserWarning, match="no tags in upos"):
        DependencyParser(**QUICK).fit(untagged, TRAIN[1])
    with pytest.warns(UserWarning, match="no tags in upos; there are some in xpos"):
        DependencyParser(tags="upos", **QUICK).fit(*TRAIN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DependencyParser(**QUICK).fit(*TRAIN)


def test_sentences_that_are_too_long_get_a_chain():
    parser = DependencyParser(max_length=7, parse_length=8, **QUICK).fit(*TRAIN)
    long = [("dog", "NN")] * 9
    parses = parser.parse([TEST[0][0][:4], long])
    assert parses.fallback.tolist() == [False, True]
    assert parses.heads[4:].tolist() == list(range(9))
    assert parses.relations.strings()[4] == "root"
    assert "longer than 7 left out" in parser.message_
    assert parser.n_trees_ == sum(len(sentence) <= 7 for sentence in TRAIN[0]) < 60
    assert parser.n_tokens_ == sum(len(sentence) for sentence in TRAIN[0] if len(sentence) <= 7)
    assert DependencyParser.load(parser.to_bytes()).n_trees_ == parser.n_trees_
    with pytest.raises(DataError, match="max_length=1 "):
        DependencyParser(max_length=1).fit(*TRAIN)


def test_sentences_too_long_to_learn_from_are_parsed():
    parser = DependencyParser(max_length=7, **QUICK).fit(*TRAIN)
    assert not parser.parse(TEST[0]).fallback.any()
    assert parser.score(*TEST) > 0.9
    assert DependencyParser.load(parser.to_bytes()).score(*TEST) > 0.9


def test_threads_do_not_change_the_model():
    one, two = (DependencyParser("cll", optimizer="lbfgs", max_iter=5, threads=n).fit(*TRAIN) for n in (1, 2))
    assert one.to_bytes() == two.to_bytes()
    bases = (
        DependencyParser("m-estimation", base="head-outward:samples=3000", max_iter=5, threads=n).fit(*TRAIN)
        for n in (1, 2)
    )
    assert len({base.to_bytes() for base in bases}) == 1


def test_weights_of_sentences_count():
    twice = DependencyParser("cll", optimizer="lbfgs").fit([*TRAIN[0], *TRAIN[0][:10]], [*TRAIN[1], *TRAIN[1][:10]])
    weights = np.where(np.arange(60) < 10, 2.0, 1.0)
    weighted = DependencyParser("cll", optimizer="lbfgs").fit(*TRAIN, sample_weight=weights)
    assert weighted.objective_ == pytest.approx(twice.objective_, rel=1e-3)
    with pytest.raises(DataError, match="sample_weight"):
        DependencyParser().fit(*TRAIN, sample_weight=[1.0])


def test_dev_data_chooses_the_pass():
    seen = []
    parser = DependencyParser(max_iter=6, patience=2).fit(*TRAIN, *TEST, observe=seen.append)
    assert [progress.phase for progress in seen if progress.dev_score is None] == ["relations"] * (
        len(seen) - parser.n_iter_
    )
    assert parser.dev_score_ == max(progress.dev_score for progress in seen if progress.phase == "main")
    assert parser.score(*TEST) == pytest.approx(parser.dev_score_)
    assert len(parser.history_) == len(seen)


@pytest.mark.parametrize("criterion", ["mira", "cll", "risk"])
def test_an_interrupted_training_goes_on_as_if_never_stopped(tmp_path, criterion):
    options = {"criterion": criterion, "max_iter": 4, "threads": 1}
    whole = DependencyParser(**options).fit(*TRAIN)
    path = tmp_path / "checkpoint"

    def interrupt(progress):
        if progress.iteration == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(TrainingInterrupted):
        DependencyParser(**options).fit(*TRAIN, checkpoint=path, observe=interrupt)
    assert DependencyParser.load(path).predict(TEST[0][:1])
    with pytest.raises(OptionError, match="did not end"):
        DependencyParser(**options).fit(*TRAIN, checkpoint=path)
    with pytest.raises(OptionError, match="other data or options"):
        DependencyParser(**options, min_count=2).fit(*TRAIN, checkpoint=path, resume=True)
    again = DependencyParser(**options).fit(*TRAIN, checkpoint=path, resume=True)
    assert (again.model_.weights == whole.model_.weights).all()


def test_corpora_and_files_are_taken(tmp_path):
    corpus = Dependencies.from_sentences(*TRAIN)
    path = tmp_path / "train.conllu"
    path.write_bytes(corpus.raw)
    parser = DependencyParser(**QUICK).fit(str(path))
    assert parser.predict(corpus) == parser.predict(TRAIN[0])
    assert parser.evaluate(read_conllu(path)).uas > 95
    unlabelled = DependencyParser(relations=False, **QUICK).fit(corpus)
    assert isinstance(unlabelled.predict(TEST[0])[0][0], int)
    assert unlabelled.evaluate(*TEST).las is None
    assert clone(parser).get_params() == parser.get_params()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"criterion": "memm"}, "'memm' trains no dependency parser: it trains chains only"),
        (
            {"criterion": "pcfg-em"},
            r"trains no dependency parser: it trains phrase parsers \(on trees in brackets\); there are: generative",
        ),
        ({"criterion": "nonsense"}, "'nonsense' is not known; there are: generative"),
        ({"criterion": "cll", "cost": "hamming:2"}, "takes no cost"),
        ({"criterion": "mira", "cost": "recall:2"}, "cost='recall:2'"),
        ({"criterion": "mira", "l2": 1.0}, "l2=1: criterion='mira' has no penalty"),
        (
            {"criterion": "mira", "optimizer": "lbfgs"},
            "'mira' is trained by online, not by 'lbfgs': its steps are its own",
        ),
        ({"criterion": "cll", "optimizer": "dual"}, "not by 'dual': that does not go over trees of arcs"),
        ({"criterion": "cll", "optimizer": "nonsense"}, "not known"),
        ({"criterion": "generative", "projective": False}, "projective trees"),
        ({"criterion": "m-estimation", "single_root": False}, "one root"),
        ({"criterion": "generative", "l2": 1.0}, "no use for l2"),
        ({"criterion": "generative", "l1": 1.0}, "no use for l1"),
        ({"criterion": "generative", "features": "all"}, "no features to choose"),
        ({"criterion": "m-estimation", "optimizer": "sgd"}, "trained by lbfgs"),
        ({"criterion": "m-estimation:rounds=2"}, "has no option 'rounds'"),
        ({"criterion": "cll", "base": "head-outward"}, "goes with generative"),
        ({"criterion": "generative", "base": "hmm"}, "base='hmm'"),
        ({"criterion": "generative", "base": "head-outward:x=1"}, "no option 'x'"),
        ({"l2": 1.0, "variance": 1.0, "criterion": "cll"}, "twice"),
        ({"tags": "both"}, "tags='both'"),
        ({"max_length": 0}, "max_length=0"),
        ({"min_count": 0}, "min_count=0"),
        ({"threads": 0}, "threads=0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, what):
    with pytest.raises(OptionError, match=what):
        DependencyParser(**options).fit(*TRAIN)


def test_mistakes_of_use_are_named():
    with pytest.raises(NotFittedError):
        DependencyParser().predict(TEST[0])
    with pytest.raises(DataError, match="no trees"):
        DependencyParser().fit(TRAIN[0])
    with pytest.raises(OptionError, match="leave y out"):
        DependencyParser().fit(Dependencies.from_sentences(*TRAIN), TRAIN[1])
    with pytest.raises(OptionError, match="needs the checkpoint"):
        DependencyParser(**QUICK).fit(*TRAIN, resume=True)
    with pytest.raises(OptionError, match="no use for dev data"):
        DependencyParser("generative").fit(*TRAIN, *TEST)


@pytest.mark.parametrize("criterion", ["mira", "m-estimation"])
def test_files_that_do_not_fit_together_are_refused(criterion):
    base = "head-outward:samples=500" if criterion == "m-estimation" else None
    parser = DependencyParser(criterion, base=base, **QUICK).fit(*TRAIN)
    stored = model_file.load(parser.to_bytes())
    for name, array in stored.arrays.items():
        for changed in (array[:-1], array + 1 if array.dtype.kind == "i" else array, array.astype(np.float32) - np.inf):
            if changed.shape == array.shape and (np.asarray(changed) == array).all():
                continue
            raw = model_file.dumps(dependency_file.KIND, stored.header, {**stored.arrays, name: changed})
            try:
                DependencyParser.load(raw).predict(TEST[0][:3])
            except ModelFileError:
                continue
            assert array.dtype.kind == "i"  # other features or contexts, but all of them in range
    for key in stored.header:
        for value in (None, 7, [], "x", {}):
            raw = model_file.dumps(dependency_file.KIND, {**stored.header, key: value}, stored.arrays)
            try:
                DependencyParser.load(raw).predict(TEST[0][:3])
            except LoglinearError:
                continue
            assert (key, value) in [("training", []), ("training", {}), ("options", []), ("options", {}),
                                    ("relations", None), ("base", None)]  # fmt: skip
    with pytest.raises(ModelFileError):
        DependencyParser.load(io.BytesIO(b"nothing").getvalue())


def test_hostile_sentences_get_a_tree(corpora):
    parser = DependencyParser(**QUICK).fit(*TRAIN)
    text = (corpora / "hostile_trees" / "sentences.txt").read_text()
    sentences = [[(word, "NN") for word in line.split()] for line in text.splitlines() if line.strip()]
    parses = parser.parse(sentences)
    offsets = np.cumsum([0, *map(len, sentences)]).astype(np.int64)
    assert cycle_member(offsets, parses.heads) < 0
    assert len(parses.heads) == offsets[-1]


@pytest.fixture(scope="module")
def parsers():
    """One of arcs, one with a base."""
    estimate = {"criterion": "m-estimation", "base": "head-outward:samples=500", "max_iter": 5}
    return [DependencyParser(**QUICK).fit(*TRAIN), DependencyParser(**estimate).fit(*TRAIN)]


@given(st.lists(st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1)), min_size=1, max_size=6), max_size=3))
def test_any_sentence_is_refused_or_gets_a_tree(parsers, sentences):
    for parser in parsers:
        try:
            found = parser.predict(sentences)
        except LoglinearError:
            continue
        assert [len(tree) for tree in found] == [len(sentence) for sentence in sentences]
        assert all(sum(head == 0 for head, _ in tree) == 1 for tree in found)


def test_tags_that_are_elsewhere_are_named(parsers):
    rows = "1\tdog\t_\tNOUN\t_\t_\t_\t_\t_\t_\n"
    with pytest.raises(DataError, match="no tags where the model looks for them, in xpos"):
        parsers[0].predict(read_conllu(io.BytesIO(rows.encode()), trees=False))


def test_ptbdep_with_gold_tags(corpora):
    train = read_conllu(corpora / "ptbdep" / "ptbdep.train.conllu").select(np.arange(300))
    dev = read_conllu(corpora / "ptbdep" / "ptbdep.dev.conllu")
    base = DependencyParser("generative").fit(train).evaluate(dev).uas
    tags = DependencyParser("generative", base="head-outward:words=no").fit(train).evaluate(dev).uas
    estimate = DependencyParser("m-estimation", base="head-outward:samples=20000").fit(train).evaluate(dev).uas
    mira = DependencyParser("mira", max_iter=5).fit(train).evaluate(dev).uas
    assert tags < base < base + 1.2 < estimate < mira


@pytest.mark.parametrize("projective", [True, False])
def test_max_margin_is_trained_by_its_dual_and_resumes(tmp_path, projective):
    options = {"criterion": "max-margin", "projective": projective, "relations": False, "tolerance": 1e-5}
    found = DependencyParser(**options).fit(*TRAIN)
    assert "primal and dual differ by less than 0.001" in found.message_
    assert found.objective_ <= DependencyParser(optimizer="lbfgs", max_iter=60, **options).fit(*TRAIN).objective_
    whole = DependencyParser(max_iter=4, threads=2, **options).fit(*TRAIN)
    DependencyParser(max_iter=2, **options).fit(*TRAIN, checkpoint=tmp_path / "state")
    again = DependencyParser(max_iter=4, **options).fit(*TRAIN, checkpoint=tmp_path / "state", resume=True)
    assert np.array_equal(whole.model_.weights, again.model_.weights)
    assert "primal and dual" not in DependencyParser(l2=0.0, max_iter=1, **options).fit(*TRAIN).message_
