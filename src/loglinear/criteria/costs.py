"""Costs: how bad it is to predict one label, head or bracket where another is right.

A cost factors over positions, c(y) = sum_t cost(y*_t, y_t), so that it enters score space as one more emission score
(Gimpel & Smith 2010, section 5). It is a table over gold label, predicted label and kind of position:

    kind     only (a sequence of one position), first, inner, last

Costs by name, in the words of ``--cost``:

==================  ==============================================================================================
``hamming:m``       m for every wrong label (m = 1 if left out)
``recall:k``        1 for a wrong label, k for ``O`` where the gold starts a chunk: misses weigh more
``precision:k``     1 for a wrong label, k for starting a chunk where the gold is ``O``: false alarms weigh more
``balanced``        for a wrong label, the gold label's inverse frequency, scaled so that the mean over tokens is 1
``FILE.json``       ``{"gold": {"predicted": cost}}``; pairs of different labels that it leaves out cost 1
==================  ==============================================================================================

Labels that start a chunk are those with B, S or U before the hyphen, or every label but ``O`` where labels have no such
prefixes, or they are so rare that I must start chunks too. Raising the cost of the rest of a chunk as well would help
less: it would also apply to chunks that are too long.

Where the annotation allows several labels, a label costs the least of its costs against each of them.

A cost that does not factor, any function of two labellings (:class:`LabellingCost`), cannot enter a search or a sum. It
is asked about the labellings of n-best lists (:mod:`~loglinear.criteria.n_best`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Float, Int32, Int64
from loglinear.criteria.brackets import Brackets
from loglinear.data.columns.corpus import ranges
from loglinear.documents import parsed_json
from loglinear.errors import OptionError
from loglinear.structures.chain.steps import FEWEST_LABELS
from loglinear.structures.chain.wide import CostLists
from loglinear.structures.constraints import detect_scheme
from loglinear.structures.gold import Gold
from loglinear.structures.tree.structure import CFGScores

KINDS = ("only", "first", "inner", "last")
OUTSIDE = "O"
MOST_COST = 1e6
RARE = 0.1  # share of chunk labels: if fewer of them are B, S or U, other labels start chunks too
MOST_REMEMBERED = 1 << 20  # costs of labellings
OWN_PAIRS, OWN_FUNCTION, OWN_MATRIX = "own costs for pairs of labels", "own cost function", "own cost matrix"


class Cost:
    """A cost over the labels of a model.

    Parameters
    ----------
    given : float64 [4, Y, Y] or CostLists
        Cost of a predicted label (last index) where the gold is another, at each kind of position (:data:`KINDS`), as
        a table or as lists. The other form is made when it is first asked for.
    """

    def __init__(self, given: Float | CostLists) -> None:
        self._given = given

    @property
    def n_labels(self) -> int:
        """Y."""
        return self._given.usual.shape[1] if isinstance(self._given, CostLists) else self._given.shape[1]

    @cached_property
    def table(self) -> Float:
        """The costs [4, Y, Y]; with thousands of labels it is better never made."""
        if not isinstance(self._given, CostLists):
            return self._given
        usual, pointer, labels, costs = self._given
        table = np.repeat(usual[:, :, None], usual.shape[1], axis=2)
        rows = table.reshape(-1, usual.shape[1])
        rows[np.repeat(np.arange(len(rows)), np.diff(pointer)), labels] = costs
        return table

    @cached_property
    def lists(self) -> CostLists:
        """The costs as lists; what most labels cost is taken to be the median."""
        if isinstance(self._given, CostLists):
            return self._given
        n, rows = self.n_labels, self._given.reshape(-1, self.n_labels)
        usual = np.sort(rows, axis=1)[:, n // 2]
        row, labels = np.nonzero(rows != usual[:, None])
        pointer = np.searchsorted(row, np.arange(len(rows) + 1)).astype(np.int64)
        return CostLists(usual.reshape(-1, n), pointer, labels.astype(np.int32), rows[row, labels])

    def at(self, gold: Gold, offsets: Int64) -> Float:
        """Cost of each label at each position [N, Y]; ``offsets`` [S + 1] are those of the sequences."""
        kinds = _kinds(offsets)
        if gold.allowed is None:
            return self._against(kinds, gold.labels)
        nearest = np.full(gold.allowed.shape, np.inf)
        for label in np.flatnonzero(gold.allowed.any(axis=0)).tolist():
            possible = gold.allowed[:, label] > 0
            costs = self._against(kinds[possible], np.full(int(possible.sum()), label))
            nearest[possible] = np.minimum(nearest[possible], costs)
        return nearest

    def _against(self, kinds: Int64, gold: npt.NDArray[np.integer]) -> Float:
        """Costs [n, Y] where the ``gold`` labels [n] are right, at positions of these ``kinds`` [n]."""
        if self.n_labels < FEWEST_LABELS or not isinstance(self._given, CostLists):
            return self.table[kinds, gold]
        usual, pointer, labels, costs = self._given
        rows = np.repeat(usual[kinds, gold][:, None], self.n_labels, axis=1)
        row = kinds * self.n_labels + gold
        listed = ranges(pointer[row], pointer[row + 1] - pointer[row])
        rows[np.repeat(np.arange(len(row)), pointer[row + 1] - pointer[row]), labels[listed]] = costs[listed]
        return rows

    def split(self, sub_labels: int) -> Cost:
        """The same cost over sub-labels, ``sub_labels`` of each label."""
        if sub_labels == 1:
            return self
        return Cost(np.repeat(np.repeat(self.table, sub_labels, axis=1), sub_labels, axis=2))

    @property
    def is_zero(self) -> bool:
        """Whether nothing costs anything."""
        given = self._given
        return not (given.usual.any() or given.costs.any() if isinstance(given, CostLists) else given.any())

    def identity(self) -> list[Any]:
        """All of the cost, for telling whether another is the same."""
        return [array.tolist() for array in self.lists]

    def expected(self, marginals: Float, offsets: Int64) -> Float:
        """Cost of each label [N, Y] expected under the ``marginals`` [N, Y] of the right ones."""
        kinds = _kinds(offsets)
        costs = np.empty_like(marginals)
        for kind in range(len(KINDS)):
            here = marginals[kinds == kind]
            if self.n_labels < FEWEST_LABELS:
                costs[kinds == kind] = here @ self.table[kind]
            else:
                usual, others = self._apart(kind)
                costs[kinds == kind] = (here @ usual)[:, None] + here @ others
        return costs

    def _apart(self, kind: int) -> tuple[Float, Any]:
        """What most labels cost [Y], by the gold label, and how much more the others do, a sparse matrix [Y, Y]."""
        import scipy.sparse as sp  # here: few need it, and it takes long to import

        n, (usual, pointer, labels, costs) = self.n_labels, self.lists
        begins = pointer[kind * n : (kind + 1) * n + 1]
        own = slice(begins[0], begins[-1])
        more = costs[own] - np.repeat(usual[kind], np.diff(begins))
        return usual[kind], sp.csr_array((more, labels[own], begins - begins[0]), shape=(n, n))


class LabellingCost:
    """A cost of whole labellings, which need not be a sum over positions: for criteria on n-best lists.

    Parameters
    ----------
    function : callable
        ``function(gold, predicted)`` of two lists of labels, a number of at least 0.
    labels : sequence
        The Y labels.
    """

    is_zero = False

    def __init__(self, function: Callable[[list[Any], list[Any]], float], labels: Sequence[Any]) -> None:
        self._function, self._labels = function, list(labels)
        self._known: dict[tuple[bytes, bytes], float] = {}

    def of(self, gold: Int32, predicted: Int32) -> Float:
        """Costs [K] of the labellings ``predicted`` [K, T] where ``gold`` [T] is right.

        Lists change little from one iteration to the next, so that answers are remembered.
        """
        right, key = [self._labels[y] for y in gold.tolist()], gold.tobytes()
        if (key, key) not in self._known and (cost := self._remember(key, key, right, right)) != 0.0:
            raise OptionError(f"cost({right!r:.60}, the same) is {cost:g}; the right labelling must cost 0")
        costs = np.empty(len(predicted))
        for k, labels in enumerate(predicted):
            known = self._known.get((key, labels.tobytes()))
            if known is None:
                known = self._remember(key, labels.tobytes(), right, [self._labels[y] for y in labels.tolist()])
            costs[k] = known
        return costs

    def _remember(self, gold: bytes, predicted: bytes, right: list[Any], labels: list[Any]) -> float:
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        cost = self._known[gold, predicted] = self._call(right, labels)
        return cost

    def _call(self, right: list[Any], predicted: list[Any]) -> float:
        cost = self._function(list(right), list(predicted))
        if isinstance(cost, bool | np.bool_ | int | float | np.integer | np.floating) and 0.0 <= cost <= MOST_COST:
            return float(cost)
        raise OptionError(
            f"cost({right!r:.60}, {predicted!r:.60}) is {cost!r:.40}; costs are numbers between 0 and {MOST_COST:g}"
        )

    def at(self, gold: Gold, offsets: Int64) -> Float:
        """There is no cost of a single label."""
        raise AssertionError("a cost of whole labellings is asked for those of n-best lists")

    def identity(self) -> list[Any]:
        """What can be told of the function, for telling whether another is the same: its code and what it holds."""
        return [described(self._function)]


def described(value: Any) -> Any:
    """A function as data that is the same in every process: its code, defaults and the values it encloses.

    Of what is neither code, number, string nor a collection of these, there is only the type.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, tuple | list):
        return [described(each) for each in value]
    if isinstance(value, CodeType):
        return [value.co_code.hex(), list(value.co_names), described(value.co_consts)]
    if isinstance(value, partial):
        return [described(value.func), described(value.args), described(sorted(value.keywords.items()))]
    if hasattr(value, "__code__"):
        cells = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
        return [value.__qualname__, described(value.__code__), described(value.__defaults__), described(cells)]
    if callable(value) and hasattr(type(value).__call__, "__code__"):
        held = sorted(getattr(value, "__dict__", {}).items())
        return [type(value).__qualname__, described(type(value).__call__), described(held)]
    return type(value).__qualname__


def is_of_labellings(cost: Any) -> bool:
    """Whether a user's cost is a function of two whole labellings, rather than of two labels and a kind of position.

    A third argument that has a default is the function's own, as in ``lambda gold, predicted, beta=2: ...``, unless
    it is called ``kind``.
    """
    if not callable(cost):
        return False
    try:
        signature = inspect.signature(cost)
    except ValueError:  # a function without a signature
        return False
    third = [*signature.parameters.values(), None, None, None][2]
    own = third is not None and third.default is not inspect.Parameter.empty and third.name != "kind"
    if not own and _takes(signature, "gold", "predicted", "kind"):
        return False
    if not _takes(signature, "gold", "predicted"):
        raise OptionError(
            f"cost is a function of {signature}; a cost of two labels is cost(gold, predicted, kind), and one of two "
            "whole labellings cost(gold, predicted)"
        )
    return True


def _takes(signature: inspect.Signature, *arguments: str) -> bool:
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def _kinds(offsets: Int64) -> Int64:
    """Number in :data:`KINDS` of each position [N]."""
    kinds = np.full(int(offsets[-1]), 2)
    kinds[offsets[1:] - 1] = 3
    kinds[offsets[:-1]] = np.where(np.diff(offsets) == 1, 0, 1)
    return kinds


def make_cost(spec: Any, labels: Sequence[str], counts: npt.ArrayLike) -> Cost:
    """The cost specified by the user.

    Parameters
    ----------
    spec : str, mapping, array [Y, Y] or callable
        A name (above), ``{(gold, predicted): cost}``, ``{gold: {predicted: cost}}``, a matrix, or a function
        ``cost(gold, predicted, kind)`` that is called once for each pair of labels and kind of position.
    labels : sequence of str
        The Y labels.
    counts : int [Y]
        How often each is the gold label in training.
    """
    if is_of_labellings(spec):
        raise OptionError(
            "a cost function of two arguments is one of whole labellings, which can only be asked about those of an "
            "n-best list: give a k, as in risk:k=50, softmax-margin:k=50 or mira:k=50 (a combination of taggers "
            "takes it with mert, too); one of single labels takes three arguments, cost(gold, predicted, kind)"
        )
    if isinstance(spec, str):
        return Cost(_named(spec, labels, np.asarray(counts, dtype=np.float64)))
    if isinstance(spec, Mapping):
        return Cost(_listed(spec, labels))
    if callable(spec):
        table = np.array([[[_of_labels(spec, g, p, kind) for p in labels] for g in labels] for kind in KINDS])
    else:
        table = np.asarray(spec, dtype=np.float64)
    if table.shape == (len(labels), len(labels)):
        table = np.repeat(table[None], len(KINDS), axis=0)
    _check(table, labels)
    return Cost(np.ascontiguousarray(table))


def _of_labels(function: Callable[..., Any], gold: str, predicted: str, kind: str) -> float:
    advice = "a cost of two whole labellings takes two arguments, not these three"
    try:
        cost = function(gold, predicted, kind)
    except TypeError as error:
        raise OptionError(f"cost({gold!r}, {predicted!r}, {kind!r}) fails: {error}; {advice}") from error
    try:
        return float(cost)
    except (TypeError, ValueError):
        raise OptionError(f"cost({gold!r}, {predicted!r}, {kind!r}) is {cost!r:.40}, not a number; {advice}") from None


def _named(spec: str, labels: Sequence[str], counts: Float) -> CostLists:
    if spec.endswith(".json"):
        try:
            costs = parsed_json(Path(spec).read_text(encoding="utf-8"), parse_int=float)
        except OSError as error:
            raise OptionError(f"cost {spec}: cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise OptionError(f"cost {spec}: not valid JSON: {error}") from None
        try:
            return _listed(costs, labels)
        except OptionError as error:
            raise OptionError(f"cost {spec}: {error}") from None
    name, _, number = spec.partition(":")
    ones = np.ones(len(labels))
    if name == "balanced" and not number:
        weight = 1.0 / np.maximum(counts, 1.0)
        weight *= counts.sum() / max(float(weight @ counts), 1e-300)
        return _lists(weight, {}, labels)
    if name not in ("hamming", "recall", "precision"):
        known = "hamming:M, recall:K, precision:K, balanced, or a file that ends in .json"
        if spec in (OWN_PAIRS, OWN_FUNCTION, OWN_MATRIX):
            raise OptionError(f"a model file does not keep your {spec}; give the cost again to train with it")
        raise OptionError(f"cost={spec!r} is not known; there are {known}")
    if name != "hamming" and not number:
        raise OptionError(f"cost={spec!r} needs a number, how many times worse, as in {name}:3")
    factor = _factor(spec, number)
    if not 0.0 <= factor < math.inf:
        raise OptionError(f"cost={spec!r}: costs are finite and at least 0")
    if name == "hamming":
        return _lists(factor * ones, {}, labels)
    if OUTSIDE not in labels:
        raise OptionError(f"cost={spec!r} leans on the label {OUTSIDE!r}, which the training data does not have")
    outside = labels.index(OUTSIDE)
    pairs = [(start, outside) if name == "recall" else (outside, start) for start in _starts(labels, counts).tolist()]
    return _lists(ones, dict.fromkeys(pairs, factor), labels)


def _lists(usual: Float, pairs: Mapping[tuple[int, int], float], labels: Sequence[str]) -> CostLists:
    """Lists of a cost that is the same at every position: ``usual`` [Y] by the gold label, but for the ``pairs`` of a
    gold and a predicted label, and nothing for the right label."""
    n = len(labels)
    listed = {(y, y): 0.0 for y in range(n)} | dict(pairs)
    cells = np.array(sorted(listed), dtype=np.int64).reshape(-1, 2)
    costs = np.array([listed[gold, predicted] for gold, predicted in cells.tolist()], dtype=np.float64)
    for gold, predicted, cost in zip(*cells.T.tolist(), costs.tolist(), strict=True):
        _check_cost(labels[gold], labels[predicted], cost)
    for gold in np.flatnonzero(~(usual <= MOST_COST) | (usual < 0.0)).tolist() if n > 1 else []:
        _check_cost(labels[gold], labels[0 if gold else 1], float(usual[gold]))
    size = len(KINDS)
    pointer = np.searchsorted(cells[:, 0], np.arange(n))
    rows = [pointer + kind * len(cells) for kind in range(size)]
    return CostLists(
        np.tile(usual, (size, 1)),
        np.concatenate([*rows, [size * len(cells)]]).astype(np.int64),
        np.tile(cells[:, 1].astype(np.int32), size),
        np.tile(costs, size),
    )


def _check_cost(gold: str, predicted: str, cost: float) -> None:
    if not 0.0 <= cost <= MOST_COST:
        pair = f"{predicted!r} where {gold!r} is right"
        raise OptionError(f"the cost of {pair} is {cost:g}; costs lie between 0 and {MOST_COST:g}")
    if gold == predicted and cost:
        raise OptionError(f"the right label {gold!r} has a cost of {cost}; it must be 0")


def _factor(spec: Any, number: str) -> float:
    """The number after the colon of a spec; 1 if it is left out."""
    try:
        return float(number or 1.0)
    except ValueError:
        raise OptionError(f"cost={spec!r}: {number!r} is not a number") from None


def _starts(labels: Sequence[str], counts: Float) -> Int64:
    """Numbers of the labels that start a chunk."""
    inside = [y for y, label in enumerate(labels) if label != OUTSIDE]
    starts = [y for y in inside if labels[y].startswith(("B", "S", "U"))]
    if detect_scheme(labels) in ("bio", "bioes", "bilou") and counts[starts].sum() >= RARE * counts[inside].sum():
        return np.array(starts, dtype=np.int64)
    return np.array(inside, dtype=np.int64)


def _listed(pairs: Any, labels: Sequence[str]) -> CostLists:
    """1 for every wrong label, except for the pairs listed."""
    if not isinstance(pairs, Mapping):
        raise OptionError('a cost file holds an object such as {"B-PER": {"O": 5}}')
    number = {label: y for y, label in enumerate(labels)}
    flat: dict[tuple[Any, Any], Any] = {}
    for key, value in pairs.items():
        if isinstance(value, Mapping):
            flat |= {(key, predicted): cost for predicted, cost in value.items()}
        elif isinstance(key, tuple) and len(key) == 2:
            flat[key] = value
        else:
            raise OptionError(f"cost of {key!r}: give {{(gold, predicted): cost}} or {{gold: {{predicted: cost}}}}")
    for (gold, predicted), value in flat.items():
        for label in (gold, predicted):
            if label not in number:
                raise OptionError(f"the cost names the label {label!r}, which the training data does not have")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise OptionError(f"the cost of {predicted!r} where {gold!r} is right is {value!r}, not a number")
    cells = {(number[gold], number[predicted]): float(value) for (gold, predicted), value in flat.items()}
    return _lists(np.ones(len(labels)), cells, labels)


def _check(table: Float, labels: Sequence[str]) -> None:
    n = len(labels)
    if table.shape != (len(KINDS), n, n):
        raise OptionError(f"a cost matrix for {n} labels has the shape [{n}, {n}], not {list(table.shape)}")
    for kind, gold, predicted in np.argwhere(~(table <= MOST_COST) | (table < 0))[:1]:
        _check_cost(labels[gold], labels[predicted], table[kind, gold, predicted])
    for kind, label in np.argwhere(table[:, np.arange(n), np.arange(n)] != 0)[:1]:
        _check_cost(labels[label], labels[label], table[kind, label, label])


def describe(spec: Any) -> str:
    """A cost as it is stored among a model file's options."""
    if isinstance(spec, str):
        return spec
    if isinstance(spec, Mapping):
        return OWN_PAIRS
    return OWN_FUNCTION if callable(spec) else OWN_MATRIX


# ----------------------------------------------------------------------------------------------------------------------
# The cost of dependency trees, c(y) = m * (number of tokens with a wrong head).


@dataclass(frozen=True)
class HeadCost:
    """A wrong head costs ``each``."""

    each: float = 1.0

    def at(self, gold: Gold, offsets: Int64) -> Float:
        """Cost of each head of each token [N, H]; where several heads are allowed, none of these costs anything."""
        n_heads = int(np.diff(offsets).max(initial=0)) + 1
        costs = np.full((int(offsets[-1]), n_heads), self.each)
        if gold.allowed is None:
            costs[np.arange(len(costs)), gold.labels] = 0.0
        else:
            costs[gold.allowed[:, :n_heads] > 0] = 0.0
        return costs


def make_head_cost(spec: str | None) -> HeadCost:
    """The cost specified by the user: ``hamming:M``, or None for ``hamming:1``."""
    return HeadCost(hamming_factor(spec, "head"))


def hamming_factor(spec: Any, part: str) -> float:
    """M of ``hamming:M``, 1 for None: the cost of every wrong ``part`` of a tree."""
    name, _, number = ("hamming" if spec is None else str(spec)).partition(":")
    if name != "hamming":
        raise OptionError(f"cost={spec!r:.60} is not known for trees; there is hamming:M, M for every wrong {part}")
    factor = _factor(spec, number)
    if not 0.0 <= factor <= MOST_COST:
        raise OptionError(f"cost={spec!r}: costs lie between 0 and {MOST_COST:g}")
    return factor


# ----------------------------------------------------------------------------------------------------------------------
# The cost of constituency trees: m for each labelled bracket that the gold tree does not have.
#
#     c(y) = sum over phrases (A, i, j) of y of  m [ (A, i, j) is not a bracket of the gold tree ]
#
# Labels are compared without a grammar's annotations, and nodes that only binarise rules cost nothing. A bracket over
# one word, made by a unary step, counts too; a part of speech does not.


class BracketCost(Brackets):
    """The cost of parts of trees under a grammar.

    Parameters
    ----------
    rule_labels, step_labels, n_tags
        Those of :class:`~loglinear.criteria.brackets.Brackets`.
    multiplier : float
        m.
    """

    def __init__(
        self, rule_labels: npt.ArrayLike, step_labels: Sequence[Sequence[int]], n_tags: int, multiplier: float = 1.0
    ) -> None:
        super().__init__(rule_labels, step_labels, n_tags)
        self.multiplier = multiplier

    def at(self, gold: Gold, offsets: Int64) -> CFGScores:
        """Cost of each part, given the gold trees; spans that have no gold bracket share a row."""
        own = self.of_gold(gold, offsets)
        return self.parts(np.where(own.is_gold, 0.0, self.multiplier), own.row_of_span, offsets)
