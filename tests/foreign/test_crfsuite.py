"""CRFsuite's model files: python-crfsuite, which is CRFsuite itself, writes and reads them as a referee."""

import random

import numpy as np
import pytest

import loglinear
from loglinear.errors import ModelFileError, OptionError
from loglinear.estimators.tagger.foreign import chain_model, from_tagger, to_tagger
from loglinear.estimators.tagger.predict import LoadedTagger
from loglinear.foreign.crfsuite import CrfsuiteModel, lookup3, read_crfsuite, write_crfsuite

pycrfsuite = pytest.importorskip("pycrfsuite")
WORDS = ["Rome", "rain", "солнце", "ü", "", "a:b:c", "x\\y", "long-" * 20, "日本", " "]


def random_data(seed: int, n_labels: int = 4, n: int = 30, lengths: tuple[int, int] = (1, 7)):
    """Sequences of attributes with real values, some empty, and labels."""
    rng = random.Random(seed)

    def token():
        names = rng.sample([f"{k}={word}" for k in "pqr" for word in WORDS], rng.randint(0, 6))
        return {name: rng.choice([1.0, -0.5, 2.25, rng.gauss(0, 1)]) for name in names}

    X = [[token() for _ in range(rng.randint(*lengths))] for _ in range(n)]
    return X, [[f"{'LÄ'[rng.randint(0, 1)]}-{rng.randrange(n_labels)}" for _ in x] for x in X]


def trained(path, seed: int, **params) -> bytes:
    """A model file that CRFsuite wrote."""
    trainer = pycrfsuite.Trainer(verbose=False)
    for x, y in zip(*random_data(seed), strict=True):
        trainer.append(x, y)
    trainer.set_params({"max_iterations": 15, **params})
    trainer.train(str(path))
    return path.read_bytes()


def assert_same_answers(data: bytes, ours, X, tolerance: float = 1e-9) -> None:
    """Same labellings, marginals and probabilities as python-crfsuite gives with the file ``data``."""
    theirs = pycrfsuite.Tagger()
    theirs.open_inmemory(data)
    labels = theirs.labels()
    assert list(ours.classes_) == labels
    predicted, marginals = ours.predict(X), ours.predict_marginals(X)
    log_p = ours.log_probability(X, predicted)
    for x, y, rows, p in zip(X, predicted, marginals, log_p, strict=True):
        assert theirs.tag(x) == y
        assert theirs.probability(y) == pytest.approx(np.exp(p), abs=tolerance)
        for t, row in enumerate(rows):
            assert [theirs.marginal(label, t) for label in labels] == pytest.approx(
                [row[label] for label in labels], abs=tolerance
            )


PARAMS = [
    {"c1": 0.0, "c2": 1.0},
    {"c1": 2.0, "c2": 0.01},
    {"c1": 0.1, "c2": 0.1, "feature.possible_states": 1, "feature.possible_transitions": 1},
]


@pytest.mark.parametrize("params", PARAMS)
def test_a_file_of_crfsuite_is_written_again_to_the_byte_and_answers_the_same(tmp_path, params):
    data = trained(tmp_path / "m", 1, **params)
    model = read_crfsuite(data)
    assert write_crfsuite(model) == data
    tagger = to_tagger(model)
    unknown = [[{"new": 1.0, **token} for token in x] for x in random_data(2)[0]]
    assert_same_answers(data, tagger, unknown)
    assert_same_answers(data, LoadedTagger(chain_model(model)), unknown)
    tagger.save(tmp_path / "ours")
    again = loglinear.Tagger.load(tmp_path / "ours")
    np.testing.assert_array_equal(again.model_.weights, tagger.model_.weights)
    assert again.classes_ == tagger.classes_
    assert write_crfsuite(from_tagger(again)) == data


def test_an_empty_model_is_read_and_written(tmp_path):
    pycrfsuite.Trainer(verbose=False).train(str(tmp_path / "m"))
    data = (tmp_path / "m").read_bytes()
    model = read_crfsuite(data)
    assert (model.labels, model.attributes) == ([], [])
    assert write_crfsuite(model) == data
    with pytest.raises(ModelFileError, match="no labels"):
        to_tagger(model)


@pytest.mark.parametrize("seed", range(8))
def test_what_we_write_crfsuite_reads(seed):
    rng = np.random.default_rng(seed)
    n_labels, n_attributes = int(rng.integers(1, 40)), int(rng.integers(0, 300))
    pairs = np.flatnonzero(rng.random(n_attributes * n_labels) < 0.2)
    moves = np.flatnonzero(rng.random(n_labels**2) < 0.3)
    rng.shuffle(pairs)
    weights = np.where(rng.random(len(pairs)) < 0.1, 0.0, rng.normal(size=len(pairs)))
    names = [f"{'ä' * int(rng.integers(0, 40))}{i}" for i in range(n_attributes)]
    model = CrfsuiteModel(
        [f"label {i}" for i in range(n_labels)], names, pairs // n_labels, pairs % n_labels, weights,
        moves // n_labels, moves % n_labels, rng.normal(size=len(moves)),
    )  # fmt: skip
    data = write_crfsuite(model)
    again = read_crfsuite(data)
    assert write_crfsuite(again) == data
    kept = weights != 0.0
    assert dict(
        zip([(again.attributes[a], y) for a, y in zip(again.state_attributes, again.state_labels, strict=True)],
            again.state_weights, strict=True)
    ) == dict(
        zip([(names[a], y) for a, y in zip(pairs[kept] // n_labels, pairs[kept] % n_labels, strict=True)],
            weights[kept], strict=True)
    )  # fmt: skip
    words = [*names[:50], "unknown"]
    X = [[list(rng.choice(words, size=3)) for _ in range(5)] for _ in range(20)]
    assert_same_answers(data, to_tagger(model), X)


def test_a_tagger_that_crfsuite_cannot_have_is_refused_with_the_reason():
    X, y = random_data(3)
    for options, why in (
        ({"order": 2}, "order 2"),
        ({"pair_features": True}, "label pairs"),
        ({"sub_labels": 2}, "sub-labels"),
        ({"criterion": "memm"}, "label by label"),
        ({"constraints": {"forbid": [["L-0", "L-1"]]}}, "constraints"),
        ({"hash_bits": 10}, "hashed"),
    ):
        with pytest.raises(OptionError, match=why):
            from_tagger(loglinear.Tagger(max_iter=1, **options).fit(X, y))
    with pytest.raises(OptionError, match="dense"):
        from_tagger(loglinear.Tagger(max_iter=1).fit([(x, np.ones((len(x), 2))) for x in X], y))


def test_our_own_tagger_goes_to_crfsuite():
    X, y = random_data(4)
    tagger = loglinear.Tagger(precision="float64", max_iter=10).fit(X, y)
    assert_same_answers(write_crfsuite(from_tagger(tagger)), tagger, random_data(5)[0])


def test_labels_and_attributes_that_the_format_has_no_room_for_are_refused():
    nothing, weight = np.zeros(0, dtype=np.int64), np.zeros(0)
    for labels in (["a\0b"], ["a", "a"], ["\ud800"]):
        with pytest.raises(OptionError, match="CRFsuite's format"):
            write_crfsuite(CrfsuiteModel(labels, [], nothing, nothing, weight, nothing, nothing, weight))


def test_bytes_that_are_not_utf8_come_back_as_they_were():
    zero, nothing = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    odd = CrfsuiteModel(["a"], ["\udcff\udcfe"], zero, zero, np.ones(1), nothing, nothing, np.zeros(0))
    data = write_crfsuite(odd)
    assert b"\xff\xfe\0" in data
    assert read_crfsuite(data).attributes == odd.attributes


def test_the_hash_is_that_of_jenkins():
    # the values that lookup3.c gives in its own self-test and, beyond it, its published examples
    assert lookup3([b""]).tolist() == [0xDEADBEEF]
    assert lookup3([b"Four score and seven years ago"]).tolist() == [0x17770551]
    mixed = [b"x" * n for n in (0, 1, 11, 12, 13, 24, 25, 100)]
    assert lookup3(mixed).tolist() == [int(lookup3([key])[0]) for key in mixed]


# -- damage --------------------------------------------------------------------------------------------------------


def test_every_truncation_and_every_damaged_byte_of_the_structure_is_refused_or_read(tmp_path):
    data = trained(tmp_path / "m", 6, c1=1.5)
    for n in range(0, len(data), 7):
        with pytest.raises(ModelFileError):
            read_crfsuite(data[:n], "m.crfsuite")
    rng, read = random.Random(0), 0
    for _ in range(1500):
        damaged = bytearray(data)
        damaged[rng.randrange(len(data))] = rng.randrange(256)
        try:
            read_crfsuite(bytes(damaged), "m.crfsuite")
            read += 1
        except ModelFileError as error:
            assert "m.crfsuite" in str(error)
    assert 0 < read < 1500  # a weight's bytes may be anything
