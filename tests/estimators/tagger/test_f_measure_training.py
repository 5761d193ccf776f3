"""Training by the expected F-measure: it raises what it maximises, goes with other options, and says what it counts."""

import numpy as np
import pytest

from loglinear import Classifier, DependencyParser, Tagger
from loglinear.criteria.criterion import make_criterion
from loglinear.errors import DataError, OptionError
from loglinear.evaluation.chunks import chunk_spans


def test_training_raises_what_it_maximises(data):
    X, y = data
    cll = Tagger(template="U:%x[0,1]\nB\n", l2=0.1).fit(X, y)

    def expected_f(tagger):
        number = {label: i for i, label in enumerate(tagger.classes_)}
        right = found = units = 0.0
        for rows, labels in zip(tagger.predict_marginals(X), y, strict=True):
            for row, label in zip(rows, labels, strict=True):
                row = np.array(list(row.values()) if isinstance(row, dict) else row)
                found += 1.0 - row[number["O"]]
                if label != "O":
                    units += 1.0
                    right += row[number[label]]
        return 2.0 * right / (units + found)

    tagger = Tagger("f-measure", template="U:%x[0,1]\nB\n", l2=0.1).fit(X, y)
    assert expected_f(tagger) > expected_f(cll) + 0.002
    assert tagger.message_.startswith("from the weights of a model of cll")


@pytest.mark.parametrize("spec", ["f-measure:beta=2", "f-measure:chunks"])
@pytest.mark.parametrize(
    "options", [{"sub_labels": 2}, {"order": 2}, {"structure": "segments"}, {"constraints": "bio"}]
)
def test_it_goes_with_everything_else(data, spec, options):
    tagger = Tagger(spec, template="words", l2=0.05, max_iter=20, **options).fit(*data)
    assert tagger.score(*data) > 0.85
    again = Tagger.load(tagger.to_bytes())
    assert again.criterion == spec and again.predict(data[0]) == tagger.predict(data[0])


def test_counting_chunks_raises_the_expected_f_of_chunks(data):
    """Expected numbers of chunks, from all labellings of the short sentences."""
    X, y = ([each[:4] for each in some[:25]] for some in data)
    options = {"template": "U:%x[0,1]\nB\n", "l2": 0.1, "constraints": "bio"}

    def expected_f(tagger):
        right = found = units = 0.0
        for x, labels in zip(X, y, strict=True):
            wanted = {*zip(*chunk_spans([labels]), strict=True)}
            units += len(wanted)
            for each, p in tagger.predict_nbest([x], 1000)[0]:
                chunks = {*zip(*chunk_spans([each]), strict=True)}
                right, found = right + p * len(chunks & wanted), found + p * len(chunks)
        return 2.0 * right / (units + found)

    plain, by_chunks = (Tagger(spec, **options).fit(X, y) for spec in ("cll", "f-measure:chunks"))
    assert expected_f(by_chunks) > expected_f(plain) + 0.002
    again = Tagger("f-measure:chunks", threads=3, **options).fit(X, y)
    assert np.array_equal(by_chunks.model_.weights, again.model_.weights)


def test_more_recall_for_a_greater_beta(data):
    shares = []
    for beta in (0.2, 1, 5):
        tagger = Tagger(f"f-measure:beta={beta}", template="U:%x[0,1]\n", l2=0.05).fit(*data)
        labels = [label for labels in tagger.predict(data[0]) for label in labels]
        shares.append(sum(label != "O" for label in labels) / len(labels))
    assert shares[0] <= shares[1] <= shares[2] and shares[0] < shares[2]


def test_which_label_does_not_count(data):
    with pytest.raises(
        OptionError, match=r"f-measure:outside=X: the training data has no such label; it has B-NP, .*O"
    ):
        Tagger("f-measure:outside=X", template="words").fit(*data)


@pytest.mark.parametrize(
    ("labels", "outside", "counted"),
    [
        (["B", "I", "O"], None, [True, True, False]),
        (["B", "I", "O"], "I", [True, False, True]),
        ([False, True], None, [False, True]),
        (["no", "yes"], "yes", [True, False]),
        (["a", "b", "c"], None, [True, True, True]),
    ],
)
def test_all_labels_count_but_one(labels, outside, counted):
    criterion = make_criterion("f-measure" if outside is None else f"f-measure:outside={outside}")
    assert criterion.for_labels(labels).counted.tolist() == counted


def test_chunks_are_not_counted_where_labels_are_missing_or_have_none(data):
    seen, (X, y) = [], data
    hidden = [[None, *labels[1:]] for labels in y]
    tagger = Tagger("f-measure:chunks", template="words")
    with pytest.raises(DataError, match="f-measure:chunks needs one label for each token"):
        tagger.fit(X, hidden, observe=seen.append)
    with pytest.raises(OptionError, match="needs labels in BIO, BIOES or BILOU; these are D, N"):
        tagger.fit(X, [[tag for _, tag in x] for x in X], observe=seen.append)
    assert not seen  # before anything is trained


def test_what_it_does_not_train_it_says():
    with pytest.raises(OptionError, match="it counts labels, and trees of arcs have none"):
        DependencyParser(criterion="f-measure").check_options()
    with pytest.raises(OptionError, match="is trained by lbfgs, not by 'sgd'"):
        Tagger("f-measure", optimizer="sgd", template="words").check_options()
    with pytest.raises(OptionError, match="chunks are of sequences of labels"):
        Classifier("f-measure:chunks").fit([[1.0], [2.0]], ["B-X", "O"])
