"""Hidden Markov models and M-estimation as taggers."""

import pytest

from loglinear import Tagger
from loglinear.errors import OptionError
from loglinear.features.python_features import attributes_of


def test_with_weights_of_zero_the_model_is_its_base(data, more_data):
    base = Tagger(criterion="hmm", order=2).fit(*data)
    zero = Tagger(criterion="m-estimation", template="words", order=2, variance=1e-9).fit(*data)
    assert base.predict(more_data[0]) == zero.predict(more_data[0])


@pytest.mark.parametrize("kind", ["hmm", "locally-uniform", "empirical"])
@pytest.mark.parametrize("order", [1, 2])
def test_every_base_learns_and_is_saved(data, more_data, kind, order):
    tagger = Tagger(criterion="m-estimation", base=kind, order=order, template="words", l2=0.05).fit(*data)
    assert tagger.score(*data) > 0.85
    again = Tagger.load(tagger.to_bytes())
    assert again.predict_marginals(more_data[0]) == tagger.predict_marginals(more_data[0])
    assert again.predict([[("never", "seen")]]) == tagger.predict([[("never", "seen")]])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"criterion": "cll", "base": "hmm"}, "goes with criterion='m-estimation'"),
        ({"criterion": "m-estimation", "base": "gaussian"}, "is not one of hmm, locally-uniform, empirical"),
        ({"criterion": "m-estimation", "optimizer": "sgd"}, "is trained by lbfgs, newton"),
        ({"criterion": "m-estimation", "optimizer": "newton", "l1": 0.5}, "takes no l1"),
        ({"criterion": "m-estimation", "sub_labels": 2}, "which sub-label is right"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(data, options, reason):
    with pytest.raises(OptionError, match=reason):
        Tagger(**{"template": "words", **options} if options["criterion"] != "hmm" else options).fit(*data)


def test_features_that_come_ready_made_have_no_columns_to_emit():
    with pytest.raises(OptionError, match="ready-made features"):
        Tagger(criterion="hmm").fit(attributes_of([[["w=a"]]]), [["X"]])


@pytest.mark.parametrize(
    "option", [{"l2": 1.0}, {"template": "words"}, {"min_count": 3}, {"optimizer": "lbfgs"}], ids=str
)
def test_options_about_weights_are_refused_where_there_are_none(data, option):
    with pytest.raises(OptionError, match="is counted, and has no features or weights"):
        Tagger(criterion="hmm", **option).fit(*data)
    with pytest.raises(OptionError, match="no use for a model to start from"):
        Tagger(criterion="hmm").fit(*data, init=Tagger(criterion="hmm").fit(*data))


@pytest.mark.parametrize("kind", ["hmm", "locally-uniform", "empirical"])
def test_a_sequence_of_weight_two_counts_twice(data, kind):
    X, y = data[0][:20], data[1][:20]
    weights = [1.0, 2.0] * 10
    twice = [i for i in range(20) for _ in range(1 + i % 2)]
    expected = []
    for sequences, labels, given in ((X, y, weights), ([X[i] for i in twice], [y[i] for i in twice], None)):
        tagger = Tagger(criterion="m-estimation", base=kind, template="U:%x[0,1]\nB")
        problem = tagger.problem(sequences, labels, sample_weight=given)
        expected.append(problem)
    # what occurs once is unknown, so only the tags, which all occur often, are the same events in both
    steps = [problem.model.base.model.steps for problem in expected]
    assert steps[0] == pytest.approx(steps[1])
