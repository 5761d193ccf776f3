"""Every criterion with every order, constraint, penalty and kind of annotation, from the registry."""

import numpy as np
import pytest

from loglinear import Tagger
from loglinear.criteria.costs import make_cost
from loglinear.criteria.criterion import CRITERIA, criteria_of
from loglinear.errors import DataError, OptionError
from loglinear.optimizers.optimizer import OPTIMIZERS
from loglinear.structures.chain.structure import Chain

NAMES = sorted(criteria_of(Chain))
WAYS = [(name, optimizer) for name in NAMES for optimizer in CRITERIA.part(name).optimizers]


def make(name, **options):
    """A tagger by that criterion, with those of the options that it takes."""
    optimizer = OPTIMIZERS.part(options.get("optimizer") or CRITERIA.part(name).optimizers[0])
    unfit: tuple[str, ...] = () if optimizer.takes_l1 else ("l1",) if optimizer.takes_l2 else ("l1", "l2")
    if not CRITERIA.part(name).learns_weights:  # no features, no weights
        unfit = ("l1", "l2", "template", "optimizer", "max_iter", "min_count", "pair_features", "states", "transitions")
    options = {key: value for key, value in options.items() if key not in unfit}
    return Tagger(criterion=name, **options)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"order": 2, "constraints": "bio"},
        {"l1": 0.1, "l2": 0.01},
        {"pair_features": True, "min_count": 2},
        {"states": "all", "transitions": "all", "constraints": "bio"},
    ],
    ids=str,
)
def test_training_learns(data, more_data, name, options):
    tagger = make(name, template="words", max_iter=60, **{"l2": 0.05, **options}).fit(*data)
    assert tagger.score(*data) > 0.9 and tagger.score(*more_data) > 0.8
    again = Tagger.load(tagger.to_bytes())
    assert again.criterion == name and again.predict(more_data[0]) == tagger.predict(more_data[0])


@pytest.mark.parametrize("name", NAMES)
def test_partial_labels_dev_data_and_weights(data, more_data, name):
    rng = np.random.default_rng(0)
    partial = [[label if rng.random() < 0.6 else None for label in labels] for labels in data[1]]
    weights = rng.random(len(partial)) + 0.5
    if not CRITERIA.part(name).learns_from_hidden():
        with pytest.raises(DataError, match=r"sequence \d+, position \d+ .*needs one label for each token"):
            make(name, template="chunking").fit(data[0], partial)
        partial = data[1]
    tagger = make(name, template="chunking", l2=0.05, max_iter=60)
    tagger.fit(data[0], partial, *more_data, sample_weight=weights)
    assert tagger.dev_score_ > 0.8


@pytest.mark.parametrize(("name", "optimizer"), WAYS)
def test_resuming_is_exact(data, name, optimizer, tmp_path):
    class Stop(Exception):
        pass

    def resumed(count):
        """Continue, until the count-th iteration from here stops it before its checkpoint; iterations that it saw."""
        seen = []

        def observe(progress):
            seen.append(progress)
            if len(seen) == count:
                raise Stop

        tagger = make(spec, **options)
        try:
            tagger.fit(*data, checkpoint=tmp_path / "c", checkpoint_seconds=0, resume=True, observe=observe)
        except Stop:
            assert Tagger.load(tmp_path / "c").predict(data[0])
        return tagger, len(seen)

    data = data[0][:20], data[1][:20]
    spec = "arow:gamma=100" if name == "arow" else name  # small steps
    options = {"optimizer": optimizer, "template": "words", "l2": 0.1, "max_iter": 10}
    if CRITERIA.part(name).learns_weights:
        options["tolerance"] = 1e-7  # enough iterations to be stopped in
    whole = make(spec, **options).fit(*data)
    left = len(whole.history_)
    assert left >= 4 or not CRITERIA.part(name).learns_weights
    for count in (4, 13):  # in the first part of a training in two parts, and in the second
        _, seen = resumed(count)
        assert seen == min(count, left)
        left -= seen - (seen == count)
    tagger, seen = resumed(None)
    assert seen == left
    assert np.array_equal(tagger.model_.weights, whole.model_.weights)


@pytest.mark.parametrize(("name", "optimizer"), WAYS)
def test_two_threads_train_the_same_tagger(data, name, optimizer, monkeypatch):
    monkeypatch.setattr("loglinear.optimizers.objective.TOKENS_PER_SHARD", 50)  # several shards
    options = {"optimizer": optimizer, "template": "words", "l2": 0.1, "max_iter": 5}
    one, two = (make(name, threads=threads, **options).fit(*data) for threads in (1, 2))
    assert np.array_equal(one.model_.weights, two.model_.weights)


@pytest.mark.parametrize("name", [name for name in NAMES if CRITERIA.part(name).starts_from])
def test_a_criterion_that_needs_a_start_says_where_it_came_from(data, name):
    first = CRITERIA.part(name).starts_from
    tagger = Tagger(criterion=name, template="words").fit(*data)
    assert tagger.message_.startswith(f"from the weights of a model of {first}")
    told = Tagger(criterion=name, template="words").fit(*data, init=Tagger(template="words").fit(*data))
    assert not told.message_.startswith("from the weights")


@pytest.mark.parametrize("name", [name for name in NAMES if CRITERIA.part(name).uses_cost])
@pytest.mark.parametrize(
    "cost", ["hamming:5", "recall:3", "balanced", {("B-NP", "O"): 4.0}, lambda g, p, k: float(g != p)]
)
def test_costs_of_all_kinds(data, name, cost):
    tagger = make(name, cost=cost, template="words", l2=0.1, max_iter=40).fit(*data)
    assert tagger.score(*data) > 0.85
    Tagger.load(tagger.to_bytes())


def test_leaning_towards_recall_finds_more(data, more_data):
    """The share of chunk labels predicted grows with the price of missing them."""
    shares = []
    for k in (0.0, 1.0, 10.0, 50.0):
        tagger = Tagger(criterion="softmax-margin", cost=f"recall:{k}", template="words", l2=3.0).fit(*data)
        predicted = [label for labels in tagger.predict(more_data[0]) for label in labels]
        shares.append(sum(label != "O" for label in predicted) / len(predicted))
    assert shares == sorted(shares) and shares[0] < shares[-1]


def test_a_cost_without_use_is_refused(data):
    with pytest.raises(OptionError, match="takes no cost"):
        Tagger(criterion="cll", cost="hamming:5", template="words").fit(*data)
    with pytest.raises(OptionError, match="names the label 'X'"):
        Tagger(criterion="risk", cost={("X", "O"): 5}, template="words").fit(*data)


def test_an_memm_is_a_product_of_normalised_pieces(data, more_data):
    tagger = Tagger(criterion="memm", template="U:%x[0,0]\nB\n", constraints="bio", l2=0.5).fit(*data)
    X = [x[:5] for x in more_data[0][:10]]
    for i, ranked in enumerate(tagger.predict_nbest(X, 4**5)):
        assert sum(p for _, p in ranked) == pytest.approx(1.0)  # no partition function is needed
        assert ranked[0][0] == tagger.predict(X)[i]
    first = [x[:1] for x in X]
    whole, alone = tagger.predict_marginals(X), tagger.predict_marginals(first)
    assert [w[0] for w in whole] == [pytest.approx(a[0]) for a in alone]  # what follows does not matter: label bias


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("constraints", [None, "bio"])
def test_minimum_risk_decoding_has_the_least_expected_cost(data, more_data, order, constraints):
    tagger = Tagger(template="U:%x[0,1]\nB\n", order=order, constraints=constraints, l2=5.0).fit(*data)
    X = [x[:4] for x in more_data[0][:15]]
    assert tagger.predict(X, decoding="min-risk") == tagger.predict(X, decoding="posterior")
    cost = make_cost("recall:4", tagger.classes_, np.ones(4)).table[0]
    number = {label: y for y, label in enumerate(tagger.classes_)}
    for x, chosen in zip(X, tagger.predict(X, decoding="min-risk", cost="recall:4"), strict=True):
        ((*ranked,),) = [tagger.predict_nbest([x], 4**4)[0]]

        def expected(labels, ranked=ranked):
            return sum(
                p * sum(cost[number[g], number[y]] for g, y in zip(gold, labels, strict=True)) for gold, p in ranked
            )

        best = min(expected(labels) for labels, _ in ranked)
        assert expected(chosen) == pytest.approx(best)


def test_costs_in_decoding_are_checked(data):
    tagger = Tagger(template="words", max_iter=3).fit(*data)
    with pytest.raises(OptionError, match="goes with decoding='min-risk'"):
        tagger.predict(data[0], cost="recall:2")
    with pytest.raises(OptionError, match="belongs to training"):
        tagger.predict(data[0], decoding="min-risk", cost="balanced")
    with pytest.raises(OptionError, match="viterbi, posterior, min-risk"):
        tagger.predict(data[0], decoding="best")


ANY_ORDER = ("memm", "pseudolikelihood", "piecewise", "nota", "max-margin")  # by dual ascent, and with pair features


@pytest.mark.parametrize(("name", "optimizer"), WAYS)
@pytest.mark.parametrize(
    "options", [{}, {"order": 2, "pair_features": True}, {"l1": 0.1, "constraints": "bio"}], ids=str
)
def test_every_optimizer_of_every_criterion_learns(data, name, optimizer, options):
    if optimizer == "dual" and "order" in options and name not in ANY_ORDER:
        with pytest.raises(OptionError, match=r"first-order chains|order 1"):
            make(name, optimizer=optimizer, template="words", **{"l2": 0.01, **options}).fit(*data)
        return
    tagger = make(name, optimizer=optimizer, template="words", max_iter=15, **{"l2": 0.01, **options}).fit(*data)
    assert tagger.score(*data) > 0.85


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"criterion": "perceptron", "optimizer": "lbfgs"},
            "is trained by online, not by 'lbfgs': its steps are its own",
        ),
        (
            {"criterion": "cll", "optimizer": "online"},
            "how far to step, as arow, mira, .*perceptron do",
        ),
        ({"criterion": "perceptron", "l2": 1.0}, "l2=1: criterion='perceptron' has no penalty"),
        ({"criterion": "mira", "variance": 2.0}, "variance=2: .* has no penalty"),
        ({"criterion": "mira", "l1": 0.5}, "l1=0.5: .* has no penalty"),
        ({"optimizer": "sgd:average", "l1": 0.1}, "the mean of sparse weights is not sparse"),
        ({"optimizer": "sgd:stepp=1"}, "optimizer 'sgd' has no option 'stepp'; it has step, average, decay"),
        (
            {"optimizer": "newtons"},
            f"optimizer='newtons' is not known; there are: {', '.join(OPTIMIZERS)}",
        ),
        ({"optimizer": "newton"}, "not by 'newton': that is for m-estimation"),
        (
            {"criterion": "m-estimation", "optimizer": "newton", "l1": 0.1},
            "'newton' takes no l1=0.1, which has kinks; use lbfgs",
        ),
        ({"optimizer": ""}, "optimizer='' is not known"),
        ({"optimizer": "sgd:step"}, "step needs a value, as in sgd:step=0.1"),
        ({"criterion": "pseudolikelihood:joint", "optimizer": "sgd"}, "'pseudolikelihood:joint' is trained by lbfgs"),
        ({"criterion": "passive-aggressive:variant=0,C=1"}, "C=1 caps or softens a step"),
        ({"sub_labels": 33}, "sub_labels=33 must be at most 32"),
        ({"optimizer": "lbfgs:memory=100000"}, "must be at most 200"),
        ({"criterion": "cll:k=2"}, "criterion 'cll' has no option 'k'; it has none"),
        ({"criterion": "mira:k=0"}, "k=0 must be at least 1"),
        ({"criterion": "pseudolikelihood", "sub_labels": 2}, "which sub-label is right is not known"),
        ({"sub_labels": 0}, "sub_labels=0 must be at least 1"),
    ],
    ids=str,
)
def test_combinations_without_sense_are_refused_with_the_reason(options, reason):
    with pytest.raises(OptionError, match=reason):
        Tagger(template="words", **options).check_options()


@pytest.mark.parametrize("name", ["risk", "nota:threshold=0.2,after=5", "nota:scaling"])
def test_time_and_iterations_are_those_of_all_parts(data, name):
    seen = []
    tagger = Tagger(criterion=name, template="words", l2=0.1).fit(*data, observe=seen.append)
    assert seen == tagger.history_ and len({progress.phase for progress in seen}) == 2
    assert tagger.n_iter_ == sum(progress.phase != "scaling" for progress in seen)  # which is not part of the criterion
    seconds = [progress.seconds for progress in seen]
    assert seconds == sorted(seconds) and tagger.seconds_ >= seconds[-1]


def test_max_iter_bounds_training_with_a_threshold(data):
    for most, parts in ((3, {"opening"}), (8, {"opening", "main"})):
        seen = []
        options = {"criterion": "nota:threshold=0.2,after=5", "template": "words", "max_iter": most, "tolerance": 0}
        Tagger(**options).fit(*data, observe=seen.append)
        assert len(seen) == most and {progress.phase for progress in seen} == parts


def interrupted(tagger, data, path, **options):
    """Train until the third iteration leaves a checkpoint."""

    class Stop(Exception):
        pass

    def observe(progress):
        if progress.iteration == 3:
            raise Stop

    with pytest.raises(Stop):
        tagger.fit(*data, checkpoint=path, checkpoint_seconds=0, observe=observe, **options)


def test_costs_of_ones_own_go_with_checkpoints(data, tmp_path):
    def leaning(factor):
        return lambda gold, predicted, kind: factor * float(gold != predicted)

    for spec, other in (
        ({("B-NP", "O"): 5.0}, {("B-NP", "O"): 6.0}),
        (1.0 - np.eye(4), 2.0 - 2.0 * np.eye(4)),
        (leaning(1.0), leaning(2.0)),
    ):
        options = {"criterion": "softmax-margin", "template": "words"}
        path = tmp_path / "c"
        interrupted(Tagger(cost=spec, **options), data, path)
        with pytest.raises(OptionError, match="other data or options"):
            Tagger(cost=other, **options).fit(*data, checkpoint=path, resume=True)
        whole = Tagger(cost=spec, **options).fit(*data)
        resumed = Tagger(cost=spec, **options).fit(*data, checkpoint=path, resume=True)
        assert np.array_equal(whole.model_.weights, resumed.model_.weights)
        path.unlink()


def test_a_cost_file_that_changed_is_another_training(data, tmp_path):
    costs = tmp_path / "costs.json"
    costs.write_text('{"B-NP": {"O": 5}}')
    tagger = Tagger(criterion="softmax-margin", cost=str(costs), template="words")
    interrupted(tagger, data, tmp_path / "c")
    costs.write_text('{"B-NP": {"O": 500}}')
    with pytest.raises(OptionError, match="other data or options"):
        tagger.fit(*data, checkpoint=tmp_path / "c", resume=True)


def test_a_loaded_models_own_cost_must_be_given_again(data):
    tagger = Tagger(criterion="softmax-margin", cost={("B-NP", "O"): 5.0}, template="words", max_iter=3).fit(*data)
    with pytest.raises(OptionError, match="does not keep your own costs for pairs of labels; give the cost again"):
        Tagger.load(tagger.to_bytes()).fit(*data)


def test_ties_are_learnt_from():
    X, y = [[{"w": c} for c in "ababc"]], [["A", "B", "A", "A", "C"]]
    for criterion in ("perceptron", "mira", "passive-aggressive"):
        assert Tagger(criterion=criterion).fit(X, y).n_iter_ > 1
    for criterion in ("mira", "passive-aggressive"):
        Tagger(criterion=criterion, cost="hamming:0").fit(X, y)


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "lbfgs"])
def test_no_iterations_leave_weights_of_zero_and_a_finite_objective(data, optimizer):
    tagger = Tagger(optimizer=optimizer, template="words", max_iter=0).fit(*data)
    assert np.isfinite(tagger.objective_) and not tagger.model_.weights.any()
    Tagger.load(tagger.to_bytes())


def test_the_problem_is_the_one_that_fit_minimises(data):
    tagger = Tagger(criterion="nota:rate=0.3", template="words", l2=0.5).fit(*data)
    problem = tagger.problem(*data)
    objective = problem.objective(problem.criterion("nota:rate=0.3"), 0.5, 1)
    assert objective(problem.model.weights_from(tagger.model_))[0] == pytest.approx(tagger.objective_, rel=1e-5)


@pytest.mark.parametrize("name", ["risk", "jrb"])
def test_a_cost_of_nothing_is_nothing_to_minimise(data, name):
    with pytest.raises(OptionError, match="is zero for every label"):
        Tagger(criterion=name, cost="hamming:0", template="words").fit(*data)
