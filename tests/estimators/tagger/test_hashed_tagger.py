"""Laws of taggers over hashed attributes: as without where nothing meets, and refused where names are needed."""

import numpy as np
import pytest
from test_smaller_models import X, Y

from loglinear import Tagger, model_file
from loglinear.criteria.criterion import criteria_of
from loglinear.errors import ModelFileError, OptionError
from loglinear.structures.chain.structure import Chain

FEATURES = [[{"word": w, "length": len(w)} for w in x] for x in X]
WORDS = {"template": "words", "l2": 0.1}


@pytest.mark.parametrize("options", [{}, {"order": 2}, {"pair_features": True}, {"sub_labels": 2}, {"states": "all"}])
def test_with_many_buckets_the_optimum_is_that_without_hashing(options):
    plain = Tagger(**WORDS, optimizer="lbfgs", tolerance=1e-10, **options).fit(X, Y)
    hashed = Tagger(**WORDS, optimizer="lbfgs", tolerance=1e-10, hash_bits=22, **options).fit(X, Y)
    assert hashed.model_.features.n_features == plain.model_.features.n_features
    if "sub_labels" not in options:  # those start at random, in the order of the features
        assert hashed.objective_ == pytest.approx(plain.objective_, rel=1e-6)
        for mine, theirs in zip(hashed.predict_marginals(X), plain.predict_marginals(X), strict=True):
            for one, other in zip(mine, theirs, strict=True):
                assert one == pytest.approx(other, abs=1e-3)


@pytest.mark.parametrize("name", [name for name, each in criteria_of(Chain).items() if not each.uses_base])
def test_every_criterion_learns_from_buckets(name):
    tagger = Tagger(criterion=name, template="words", hash_bits=12, max_iter=8).fit(X, Y)
    again = Tagger.load(tagger.to_bytes())
    assert again.hash_bits == 12 and again.predict(X) == tagger.predict(X)
    assert again.to_bytes() == tagger.to_bytes()
    assert tagger.score(X, Y) > 0.9


def test_a_model_of_few_buckets_is_bounded_and_holds_no_strings():
    tagger = Tagger(template="pos", hash_bits=8, states="all", max_iter=5).fit(X, Y)
    assert tagger.model_.encoder.n_attributes <= 256
    assert tagger.model_.features.state.n_features <= 256 * 3
    stored = model_file.load(tagger.to_bytes())
    assert len(stored.arrays["strings.bytes"]) == 0 and b"barks" not in tagger.to_bytes()


def test_ready_made_features_partial_labels_and_resuming(tmp_path):
    partial = [[None if k == 1 else label for k, label in enumerate(y)] for y in Y]
    tagger = Tagger(hash_bits=16, max_iter=10).fit(FEATURES, partial, FEATURES, Y)
    assert Tagger.load(tagger.to_bytes()).predict(FEATURES) == tagger.predict(FEATURES)
    assert tagger.score(FEATURES, Y) > 0.8
    path = tmp_path / "c"
    Tagger(hash_bits=16, max_iter=4).fit(FEATURES, Y, checkpoint=path)
    resumed = Tagger(hash_bits=16, max_iter=9).fit(FEATURES, Y, checkpoint=path, resume=True)
    assert np.array_equal(resumed.model_.weights, Tagger(hash_bits=16, max_iter=9).fit(FEATURES, Y).model_.weights)


def test_starting_from_a_hashed_model_and_pruning_it():
    first = Tagger(**WORDS, hash_bits=16).fit(X, Y)
    again = Tagger(**WORDS, hash_bits=16, max_iter=0).fit(X, Y, init=first)
    assert again.state_weights_ == first.state_weights_ and again.predict(X) == first.predict(X)
    small = first.pruned(keep=30)
    assert small.model_.features.n_features == 30 and small.model_.encoder.n_attributes <= 30
    assert len(Tagger(**WORDS, hash_bits=16).fit(X, Y, init=first, keep=40).model_.weights) <= 40
    elsewhere = Tagger(**WORDS, hash_bits=17, max_iter=0).fit(X, Y, init=first)
    assert not any(elsewhere.state_weights_.values()) and elsewhere.transition_weights_ == first.transition_weights_


def test_single_sentences_are_labelled_as_in_a_corpus():
    for tagger, data in ((Tagger(**WORDS, hash_bits=12), X), (Tagger(hash_bits=12), FEATURES)):
        tagger.fit(data, Y)
        assert [tagger.predict_single(x) for x in data] == tagger.predict(data)
        assert tagger.score(data, Y) > 0.9


def test_threads_do_not_show():
    models = [Tagger(**WORDS, hash_bits=12, threads=threads).fit(X, Y).to_bytes() for threads in (1, 3)]
    assert models[0] == models[1]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"hash_bits": 7}, "hash_bits"),
        ({"hash_bits": 27}, "hash_bits"),
        ({"hash_bits": 18.5}, "hash_bits"),
        ({"hash_bits": 18, "min_count": 2}, "min_count"),
        ({"hash_bits": 18, "criterion": "m-estimation"}, "base model"),
        ({"hash_bits": 18, "criterion": "pseudolikelihood:joint"}, "predicts columns"),
    ],
)
def test_what_makes_no_sense_is_refused(options, reason):
    with pytest.raises(OptionError, match=reason):
        Tagger(template="words", **options).fit(X, Y)


def test_what_has_no_weights_cannot_be_hashed():
    with pytest.raises(OptionError, match="counted"):
        Tagger(criterion="hmm", hash_bits=18).fit(X, Y)


def test_a_base_cannot_be_put_into_buckets():
    base = Tagger(criterion="m-estimation", template="words", max_iter=2).fit([[(w,) for w in x] for x in X], Y)
    with pytest.raises(OptionError, match="bucket"):
        Tagger(template="words", hash_bits=12).fit(X, Y, init=base)


def test_files_whose_hashing_does_not_fit_are_refused():
    stored = model_file.load(Tagger(template="words", hash_bits=12, max_iter=2).fit(X, Y).to_bytes())
    encoder = stored.header["encoder"]
    for header in (
        {"encoder": {**encoder, "bits": 13}},
        {"encoder": {**encoder, "kind": "template"}},
        {"options": {**stored.header["options"], "hash_bits": None}},
    ):
        with pytest.raises(ModelFileError, match="fit together"):
            Tagger.load(model_file.dumps(stored.kind, {**stored.header, **header}, stored.arrays))
    for buckets in (np.zeros(512, np.uint8), np.full(512, 255, np.uint8), np.zeros(511, np.uint8)):
        with pytest.raises(ModelFileError, match="fit together"):
            Tagger.load(model_file.dumps(stored.kind, stored.header, {**stored.arrays, "encoder.buckets": buckets}))
