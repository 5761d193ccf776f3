"""The F-measure of expected numbers against the enumeration of all labellings.

Finite differences of its gradient are in ``test_every_structure.py``.
"""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from loglinear.criteria.brackets import Brackets
from loglinear.criteria.criterion import make_criterion
from loglinear.errors import DataError, OptionError
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.structures.gold import Gold
from loglinear.structures.segments.scheme import SegmentScheme
from loglinear.structures.segments.structure import Segments
from problems.problem import arrays_of
from problems.segments import random_scores as random_segments
from referees.enumeration import gold_of
from referees.structures import STRUCTURES

FLOORS = ("chain", "flat", "segments", "tree")


def made(problem, beta):
    if isinstance(problem.cost, Brackets):
        return make_criterion(f"f-measure:beta={beta}").for_brackets(problem.cost)
    return make_criterion(f"f-measure:beta={beta}").for_labels(["O", *range(1, problem.cost.n_labels)])


def is_unit(gold, t):
    """Whether position t of an annotation is a unit: yes, no, or None if that is left open."""
    allowed = [gold.labels[t]] if gold.allowed is None else np.flatnonzero(gold.allowed[t])
    answers = {bool(y != 0) for y in allowed}
    return answers.pop() if len(answers) == 1 else None


def enumerated(floor, problem, beta):
    """The loss from the numbers of units in every labelling, label 0 being the one that does not count.

    Of trees these are brackets.
    """
    right = found = units = 0.0
    for s, one in enumerate(STRUCTURES[floor].referee.referees(problem.structure, problem.scores)):
        gold, weight = gold_of(problem.structure, problem.gold, s), problem.weights[s]
        if floor == "tree":
            wanted = one.right_brackets(gold, problem.cost)
            units += weight * wanted.shape[1]
            right += weight * (one.probabilities @ wanted).sum()
            found += weight * one.probabilities @ [each.total() for each in one.brackets(problem.cost)]
            continue
        known = [is_unit(gold, t) for t in range(len(gold.labels))]
        units += weight * sum(unit is True for unit in known)
        fits = one.fits_at(gold)
        for p, labels, fit in zip(one.probabilities, one.labels, fits, strict=True):
            right += weight * p * sum(unit is True and ok for unit, ok in zip(known, fit, strict=True))
            found += weight * p * sum(unit is not None and y != 0 for unit, y in zip(known, labels, strict=True))
    return units * (1.0 - (1.0 + beta**2) * right / (beta**2 * units + found)) if units else 0.0


@pytest.mark.parametrize("floor", FLOORS)
@settings(max_examples=60)
@given(data=st.data(), beta=st.sampled_from([0.5, 1.0, 3.0]))
def test_losses_equal_the_enumeration_of_units(floor, data, beta):
    problem = data.draw(STRUCTURES[floor].problems.problems())
    criterion = made(problem, beta)
    losses, _ = criterion.evaluate(problem.structure, problem.scores, problem.gold, problem.weights)
    assert losses.sum() == pytest.approx(enumerated(floor, problem, beta), rel=1e-9, abs=1e-9)
    totals = criterion.totals(problem.structure, problem.scores, problem.gold, problem.weights)
    assert losses.sum() <= totals[2] + 1e-9
    assert losses.sum() >= -1e-9 or floor == "tree"  # random steps may make a bracket twice


@pytest.mark.parametrize("floor", FLOORS)
@settings(max_examples=30)
@given(data=st.data())
def test_gradients_of_parts_of_a_corpus_are_those_of_the_whole(floor, data):
    """Given the totals of all, an example's gradient is its part of the batch's gradient."""
    problem, referee = data.draw(STRUCTURES[floor].problems.problems()), STRUCTURES[floor].referee
    structure, criterion = problem.structure, made(problem, 1.0)
    totals = criterion.totals(structure, problem.scores, problem.gold, problem.weights)
    _, whole = criterion.evaluate(structure, problem.scores, problem.gold, problem.weights)
    added = np.zeros(3)
    for s in range(structure.n_sequences):
        one, own = referee.example(structure, s), referee.scores_of(structure, problem.scores, s)
        batch = one, own, gold_of(structure, problem.gold, s), problem.weights[s : s + 1]
        added += criterion.totals(*batch)
        parts = arrays_of(criterion.gradient(totals, *batch))
        name, part = next(iter(parts.items()))  # emissions, which are by position, or tags, which are by word
        ends = structure.word_offsets if floor == "tree" else structure.offsets
        rows = slice(ends[s], ends[s + 1])
        np.testing.assert_allclose(part, arrays_of(whole)[name][rows], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(added, totals, rtol=1e-12)


# -- whole chunks ------------------------------------------------------------------------------------------------------

SPELT = {"bio": ["O", "B-X", "I-X", "B-Y", "I-Y"], "bioes": ["O", "B-X", "I-X", "E-X", "S-X"]}


def chunks_of(labels):
    """The chunks (first, end, labels) of one sequence, by walking along it."""
    found, t = set(), 0
    while t < len(labels):
        first, t = t, t + 1
        if labels[first][0] in "BSU":
            while (
                t < len(labels)
                and labels[t - 1][0] in "BI"
                and labels[t][0] in "IEL"
                and labels[t][1:] == labels[first][1:]
            ):
                t += 1
            found.add((first, t, tuple(labels[first:t])))
    return found


def chunk_problem(rng, order, names, edges, gaps):
    """Random chains of labels with these names; the annotation is any possible labelling."""
    n, lengths = len(names), rng.integers(1, 4, size=3)
    offsets = np.concatenate([[0], np.cumsum(lengths)])

    def part(*shape):
        values = rng.normal(size=shape) * 2
        values[rng.random(shape) < gaps] = -np.inf
        return values

    scores = ChainScores(
        rng.normal(size=(offsets[-1], n)), part(n, n), part(n), np.zeros(n),
        part(offsets[-1], n, n) if edges else None, rng.normal(size=(n, n, n)) if order == 2 else None,
    )  # fmt: skip
    return Chain(offsets), scores, Gold(rng.integers(n, size=offsets[-1]).astype(np.int32)), rng.random(3) + 0.1


def segment_problem(rng, names, scheme, gaps):
    """Random segments spelt with these labels."""
    lengths = rng.integers(1, 5, size=3)
    structure = Segments(np.concatenate([[0], np.cumsum(lengths)]), SegmentScheme.from_labels(names, scheme))
    scores = random_segments(rng, structure.n_positions, structure.scheme, gaps=gaps)
    drawn = random_segments(rng, structure.n_positions, structure.scheme)
    return structure, scores, Gold(structure.viterbi(drawn)[0]), rng.random(3) + 0.1


def expected_chunks(names, structure, scores, gold, weights):
    """A, P and G from all labellings."""
    totals, floor = np.zeros(3), "chain" if isinstance(structure, Chain) else "segments"
    for s, one in enumerate(STRUCTURES[floor].referee.referees(structure, scores)):
        wanted = chunks_of([names[y] for y in gold_of(structure, gold, s).labels])
        for p, labels in zip(one.probabilities, one.labels, strict=True):
            found = chunks_of([names[y] for y in labels])
            totals += weights[s] * p * np.array([len(found & wanted), len(found), len(wanted)])
    return totals


@pytest.mark.parametrize("scheme", sorted(SPELT))
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 9999), order=st.sampled_from([0, 1, 2]), edges=st.booleans(), gaps=st.sampled_from([0.0, 0.1])
)
def test_chunks_are_counted_and_their_gradient_is_that_of_finite_differences(scheme, seed, order, edges, gaps):
    """Of chains and, as order 0, of segments."""
    rng, names = np.random.default_rng(seed), SPELT[scheme]
    batch = chunk_problem(rng, order, names, edges, gaps) if order else segment_problem(rng, names, scheme, gaps)
    structure, scores = batch[:2]
    assume(np.isfinite(structure.log_partition(scores)).all())
    criterion = make_criterion("f-measure:chunks,beta=2").for_labels(names)
    totals = criterion.totals(*batch)
    np.testing.assert_allclose(totals, expected_chunks(names, *batch), rtol=1e-9, atol=1e-9)
    gradient, step = arrays_of(criterion.evaluate(*batch)[1]), 1e-5
    for name, array in arrays_of(scores).items():
        for place in rng.permutation(array.size)[:6]:
            value, losses = array.flat[place], []
            if not np.isfinite(value):
                assert gradient[name].flat[place] == 0.0
                continue
            for moved in (value + step, value - step):
                array.flat[place] = moved
                losses.append(criterion.loss(criterion.totals(*batch)))
            array.flat[place] = value
            assert gradient[name].flat[place] == pytest.approx((losses[0] - losses[1]) / (2 * step), abs=1e-5, rel=1e-5)


def test_labels_of_other_schemes_and_partial_ones_have_no_chunks_to_count():
    for names in (["N", "V"], ["O", "I-X"]):
        with pytest.raises(OptionError, match="f-measure:chunks needs labels in BIO, BIOES or BILOU; these are"):
            make_criterion("f-measure:chunks").for_labels(names)
    with pytest.raises(OptionError, match="outside='O' is for counting labels"):
        make_criterion("f-measure:chunks,outside=O")
    batch = chunk_problem(np.random.default_rng(0), 1, SPELT["bio"], False, 0.0)
    hidden = Gold(np.full(batch[0].n_positions, -1, dtype=np.int32), np.ones((batch[0].n_positions, 5), dtype=np.uint8))
    with pytest.raises(DataError, match="one label for each token"):
        make_criterion("f-measure:chunks").for_labels(SPELT["bio"]).totals(batch[0], batch[1], hidden, batch[3])
