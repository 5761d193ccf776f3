"""The kernels of :mod:`.field_likelihood`: a field's sum over values, and its gradient, on three levels of lists.

A level changes the scores of some values of the level below: context, node, field. Each keeps the sum of its masses
exp(score - highest). On the way back there is a *rate*, the sum of weight / Z over the fields so far, and, where a
field has more or less than the rate times the mass, *changes*. V values, K classes of values, U = V + K units.

    bundles   [B + 1]   spans of each bundle: every context, node and field has a bundle of lists
    spans     [., 2]    first and end of a list's entries
    entries   [E, 2]    (unit, feature)
    class_of  [V]       class of each value; empty if there are no classes
    values    [6, V]    rows SCORE, MASS, CHANGE of the node, and SAVED what the context has where the node has others
    classes   [4, K]    rows CONTEXT_MASS, CONTEXT_RATE, NODE_MASS, NODE_RATE
    units     [3, U]    rows EXTRA (weights collected), PART (mass, then gradient), BEFORE (see _listed_sum)
    marks     [4, U]    rows SEEN (in which collection last), TOUCHED, NODE_TOUCHED; the last: number of collections
    state     [7]       scalars of the context and the node
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loglinear.kernels import kernel

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

SCORE, MASS, CHANGE, SAVED, N_VALUE_ROWS = 0, 1, 2, 3, 6
CONTEXT_MASS, CONTEXT_RATE, NODE_MASS, NODE_RATE, N_CLASS_ROWS = range(5)
EXTRA, PART, BEFORE, N_UNIT_ROWS = range(4)
SEEN, TOUCHED, NODE_TOUCHED, STAMP, N_MARK_ROWS = range(5)
HIGHEST, TOTAL, RATE, HIGHEST_OF_NODE, TOTAL_OF_NODE, RATE_OF_NODE, FRESH, N_STATE = range(8)
CONTEXT, NODE, LEAF, OBSERVED = range(4)

CANCELLED = 1e-4  # a sum below this share of what it was subtracted from has lost too many digits
FARTHEST = 300.0  # exp of twice it, summed, is finite


def new_work(n_values: int, n_classes: int) -> tuple[Float, Float, Float, Int64, Float]:
    """``values``, ``classes``, ``units``, ``marks`` and ``state`` for :func:`evaluate`."""
    n_units = n_values + n_classes
    return (
        np.zeros((N_VALUE_ROWS, n_values)),
        np.zeros((N_CLASS_ROWS, n_classes)),
        np.zeros((N_UNIT_ROWS, n_units)),
        np.zeros((N_MARK_ROWS, n_units), dtype=np.int64),
        np.zeros(N_STATE),
    )


@kernel
def _collect(
    bundles: Int64, spans: Int64, entries: Int32, bundle: int, weights: Float, extra: Float, marks: Int64
) -> int:
    """Add up the weights of a bundle of lists by unit, into ``extra``; returns how many units were touched."""
    seen, touched = marks[SEEN], marks[TOUCHED]
    marks[STAMP, 0] += 1
    stamp = marks[STAMP, 0]
    count = 0
    for s in range(bundles[bundle], bundles[bundle + 1]):
        for j in range(spans[s, 0], spans[s, 1]):
            unit = entries[j, 0]
            if seen[unit] != stamp:
                seen[unit] = stamp
                extra[unit] = 0.0
                touched[count] = unit
                count += 1
            extra[unit] += weights[entries[j, 1]]
    return count


@kernel
def _spread(bundles: Int64, spans: Int64, entries: Int32, bundle: int, parts: Float, gradient: Float) -> None:
    """Add what each unit has in ``parts`` to the gradient of the features of a bundle."""
    for s in range(bundles[bundle], bundles[bundle + 1]):
        for j in range(spans[s, 0], spans[s, 1]):
            gradient[entries[j, 1]] += parts[entries[j, 0]]


@kernel
def _refresh(class_of: Int32, scores: Float, masses: Float, class_masses: Float) -> tuple[float, float]:
    """Masses of all values from their scores; returns the highest score and the sum of the masses."""
    highest = scores[0]
    for v in range(1, scores.shape[0]):
        highest = max(highest, scores[v])
    without = np.exp(-highest) if highest >= 0.0 else 0.0  # the mass of the many values that no weight speaks for
    total = 0.0
    class_masses[:] = 0.0
    for v in range(scores.shape[0]):
        masses[v] = np.exp(scores[v] - highest) if scores[v] != 0.0 else without
        total += masses[v]
        if class_masses.shape[0]:
            class_masses[class_of[v]] += masses[v]
    return highest, total


@kernel
def _enter_node(
    count: int, class_of: Int32, values: Float, classes: Float, extra: Float, marks: Int64, state: Float
) -> None:
    """Put what was collected, ``count`` values, on top of the context."""
    scores, masses, changes, class_masses = values[SCORE], values[MASS], values[CHANGE], classes[NODE_MASS]
    class_masses[:] = classes[CONTEXT_MASS]
    classes[NODE_RATE] = 0.0
    highest, total, farthest = state[HIGHEST], state[TOTAL], -np.inf
    for i in range(count):
        v = marks[TOUCHED, i]
        marks[NODE_TOUCHED, i] = v
        values[SAVED, i], values[SAVED + 1, i], values[SAVED + 2, i] = scores[v], masses[v], changes[v]
        changes[v] = 0.0
        scores[v] += extra[v]
        farthest = max(farthest, scores[v] - highest)
    fresh = not farthest <= FARTHEST
    for i in range(0 if fresh else count):
        v = marks[NODE_TOUCHED, i]
        mass = np.exp(scores[v] - highest)
        total += mass - masses[v]
        if class_masses.shape[0]:
            class_masses[class_of[v]] += mass - masses[v]
        masses[v] = mass
    if count and (fresh or not total > CANCELLED * state[TOTAL]):
        fresh = True
        highest, total = _refresh(class_of, scores, masses, class_masses)
    state[HIGHEST_OF_NODE], state[TOTAL_OF_NODE], state[RATE_OF_NODE] = highest, total, 0.0
    state[FRESH] = 1.0 if fresh else 0.0


@kernel
def _leave_node(
    count: int, class_of: Int32, values: Float, classes: Float, parts: Float, marks: Int64, state: Float
) -> None:
    """Gradient by the node's scores to ``parts``; rate and changes to the context, whose scores and masses return."""
    scores, masses, changes, class_rates = values[SCORE], values[MASS], values[CHANGE], classes[NODE_RATE]
    fresh = state[FRESH] != 0.0
    if fresh:  # masses of another highest score than the context's: all of them are changes
        for v in range(masses.shape[0]):
            rate = state[RATE_OF_NODE]
            if class_rates.shape[0]:
                rate += class_rates[class_of[v]]
            changes[v] += masses[v] * rate
    for i in range(count):
        v = marks[NODE_TOUCHED, i]
        rate = 0.0 if fresh else state[RATE_OF_NODE]
        if class_rates.shape[0] and not fresh:
            rate += class_rates[class_of[v]]
        parts[v] = changes[v] + masses[v] * rate
        changes[v] = values[SAVED + 2, i] + parts[v] - values[SAVED + 1, i] * rate
        scores[v], masses[v] = values[SAVED, i], values[SAVED + 1, i]
    if fresh:
        _refresh(class_of, scores, masses, classes[CONTEXT_MASS])
    else:
        state[RATE] += state[RATE_OF_NODE]
        for k in range(class_rates.shape[0]):
            classes[CONTEXT_RATE, k] += class_rates[k]


@kernel
def _listed_sum(
    count: int, class_of: Int32, values: Float, classes: Float, units: Float, marks: Int64, state: Float
) -> float:
    """Sum of exp(g - highest) over all values, from the node's and the listed units; -1 if it would lose its digits.

    Leaves the masses of listed units in PART. In BEFORE: of a value, its mass without its own entry; of a class, the
    factor of its values' masses.
    """
    scores, masses, seen, touched = values[SCORE], values[MASS], marks[SEEN], marks[TOUCHED]
    extra, parts, before = units[EXTRA], units[PART], units[BEFORE]
    n_values, stamp, highest = scores.shape[0], marks[STAMP, 0], state[HIGHEST_OF_NODE]
    total = largest = state[TOTAL_OF_NODE]
    if state[FRESH] == 0.0:
        largest = max(largest, state[TOTAL])
    for i in range(count if classes.shape[1] else 0):
        unit = touched[i]
        if unit >= n_values:
            if not abs(extra[unit]) <= FARTHEST:
                return -1.0
            before[unit] = np.exp(extra[unit])
            mass = classes[NODE_MASS, unit - n_values]
            parts[unit] = mass * before[unit]
            total += parts[unit] - mass
            largest = max(largest, parts[unit])
            if state[FRESH] == 0.0:  # CONTEXT_MASS is what NODE_MASS was taken from, and meets the rate on the way back
                largest = max(largest, classes[CONTEXT_MASS, unit - n_values] * before[unit])
    for i in range(count):
        v = touched[i]
        if v < n_values:
            score, mass, unit = scores[v] + extra[v] - highest, masses[v], -1
            if class_of.shape[0] and seen[n_values + class_of[v]] == stamp:
                unit = n_values + class_of[v]
                score += extra[unit]
                mass *= before[unit]
            if not score <= 2 * FARTHEST:
                return -1.0
            parts[v] = np.exp(score)
            before[v] = mass
            total += parts[v] - mass
            largest = max(largest, mass)
            if unit >= 0:
                parts[unit] += parts[v] - mass
    return total if total > CANCELLED * largest else -1.0


@kernel
def _full_sum(count: int, weight: float, class_of: Int32, values: Float, units: Float, marks: Int64) -> float:
    """Log of the sum of exp g over all values, one by one; ``weight`` times p(v) to PART and, added, to CHANGE."""
    extra, parts, before, seen = units[EXTRA], units[PART], units[BEFORE], marks[SEEN]
    n_values, stamp = values.shape[1], marks[STAMP, 0]
    highest = -np.inf
    for v in range(n_values):
        score = values[SCORE, v]
        if seen[v] == stamp:
            score += extra[v]
        if class_of.shape[0] and seen[n_values + class_of[v]] == stamp:
            score += extra[n_values + class_of[v]]
        before[v] = score
        highest = max(highest, score)
    total = 0.0
    for v in range(n_values):
        parts[v] = np.exp(before[v] - highest)
        total += parts[v]
    for i in range(count):
        if marks[TOUCHED, i] >= n_values:
            parts[marks[TOUCHED, i]] = 0.0
    for v in range(n_values):
        parts[v] *= weight / total
        values[CHANGE, v] += parts[v]
        if class_of.shape[0]:
            parts[n_values + class_of[v]] += parts[v]
    return highest + np.log(total)


@kernel
def _field(
    count: int,
    observed: int,
    weight: float,
    class_of: Int32,
    values: Float,
    classes: Float,
    units: Float,
    marks: Int64,
    state: Float,
) -> float:
    """Loss of a field on top of its node, its ``count`` units collected; gradient by their scores to PART."""
    changes, parts, before = values[CHANGE], units[PART], units[BEFORE]
    n_values, stamp = values.shape[1], marks[STAMP, 0]
    total = _listed_sum(count, class_of, values, classes, units, marks, state)
    if total < 0.0:
        log_sum = _full_sum(count, weight, class_of, values, units, marks)
    else:
        log_sum = np.log(total) + state[HIGHEST_OF_NODE]
        rate = weight / total
        state[RATE_OF_NODE] += rate
        for i in range(count):
            unit = marks[TOUCHED, i]
            parts[unit] *= rate
            if unit < n_values:
                changes[unit] += parts[unit] - rate * before[unit]
            else:
                classes[NODE_RATE, unit - n_values] += rate * (before[unit] - 1.0)
    score = values[SCORE, observed]
    changes[observed] -= weight
    if marks[SEEN, observed] == stamp:
        score += units[EXTRA, observed]
        parts[observed] -= weight
    if class_of.shape[0]:
        unit = n_values + class_of[observed]
        if marks[SEEN, unit] == stamp:
            score += units[EXTRA, unit]
            parts[unit] -= weight
    return weight * (log_sum - score)


@kernel
def evaluate(
    fields: Int32,
    field_weights: Float,
    first: int,
    end: int,
    bundles: Int64,
    spans: Int64,
    entries: Int32,
    class_of: Int32,
    values: Float,
    classes: Float,
    units: Float,
    marks: Int64,
    state: Float,
    weights: Float,
    gradient: Float,
) -> float:
    """Loss of the fields ``first`` to ``end``, their gradient added to ``gradient`` [D].

    ``fields`` [N, 4] are (bundles of the context, the node and the field; observed value), those of a context,
    and within it of a node, one after the other.
    """
    extra, parts = units[EXTRA], units[PART]
    loss = 0.0
    i = first
    while i < end:
        context = fields[i, CONTEXT]
        values[SCORE] = 0.0
        values[CHANGE] = 0.0
        classes[CONTEXT_RATE] = 0.0
        for j in range(_collect(bundles, spans, entries, context, weights, extra, marks)):
            values[SCORE, marks[TOUCHED, j]] = extra[marks[TOUCHED, j]]
        state[HIGHEST], state[TOTAL] = _refresh(class_of, values[SCORE], values[MASS], classes[CONTEXT_MASS])
        state[RATE] = 0.0
        while i < end and fields[i, CONTEXT] == context:
            node = fields[i, NODE]
            count = _collect(bundles, spans, entries, node, weights, extra, marks)
            _enter_node(count, class_of, values, classes, extra, marks, state)
            while i < end and fields[i, CONTEXT] == context and fields[i, NODE] == node:
                leaf, observed = fields[i, LEAF], fields[i, OBSERVED]
                listed = _collect(bundles, spans, entries, leaf, weights, extra, marks)
                loss += _field(listed, observed, field_weights[i], class_of, values, classes, units, marks, state)
                _spread(bundles, spans, entries, leaf, parts, gradient)
                i += 1
            _leave_node(count, class_of, values, classes, parts, marks, state)
            if count:
                _spread(bundles, spans, entries, node, parts, gradient)
        for v in range(values.shape[1]):
            rate = state[RATE]
            if class_of.shape[0]:
                rate += classes[CONTEXT_RATE, class_of[v]]
            parts[v] = values[MASS, v] * rate + values[CHANGE, v]
        _spread(bundles, spans, entries, context, parts, gradient)
    return loss
