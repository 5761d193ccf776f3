"""The interface of a training criterion, and the registry of all of them.

A criterion lives in score space: it sees a batch of structures, their part scores and the gold annotation, and returns
a loss for each structure and the gradient by the part scores. It never sees a feature, a weight or a label's name.
A criterion called ``some-name`` is a class decorated with :func:`register` in the module ``some_name`` of this package;
a spec (``mira:k=5``) sets its :func:`~loglinear.options.option` fields.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from loglinear.arrays import Float, Int64
from loglinear.errors import OptionError
from loglinear.options import Registry, Spec, options

if TYPE_CHECKING:
    from loglinear.criteria.brackets import Brackets
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores, Structure


# Modules that hold no criterion.
SHARED = ("brackets", "chunks", "costs", "criterion", "field_likelihood", "local", "n_best", "online")


class Criterion(ABC):
    """A definition of good scores.

    Class attributes are declared once and feed the command line, the error messages and the documentation:

    name, summary
        What it is called, and in one line what it minimises.
    convex, smooth
        In the weights, with complete annotation. L-BFGS may stop at the kinks of a loss that is not smooth, so it is
        not the default for classifiers then, and parsers prefer AdaGrad; only losses that are both are tuned by
        starting from the weights of another setting.
    needs
        The operations that a structure must have: those it calls, or one that only the structures it is for have.
    needs_of_trees
        The same for phrase trees, if it counts their brackets (:meth:`for_brackets`); None: as for all others.
    uses_cost
        Whether it takes a :class:`~loglinear.criteria.costs.Cost`.
    starts_from
        The criterion whose model training starts from by default; None for weights of zero.
    takes_partial
        Whether the annotation may leave a position several labels.
    completes
        Whether, if it takes no partial labels, training completes them in rounds.
    local_decoding
        Whether the trained model is a product of normalised pieces, and decoded as one.
    seen_pairs_only
        Whether label pairs never seen in training are impossible by default in models with features per source state:
        such pairs have no weights to be learnt, and those of the pieces that were seen may all fall below zero.
    for_hidden
        The names of the options that only matter where labels are hidden.
    for_tokens
        The names of the options that only matter where tokens have labels, not in trees.
    optimizers
        Those that can train it, in order of preference: the first that applies is the default. ``lbfgs``, ``sgd`` and
        ``adagrad`` train any criterion; ``dual`` and ``newton`` only those they were written for, and ``online`` a
        subclass of :class:`~loglinear.criteria.online.OnlineLearner`.
    chooses_after
        Iterations after which :meth:`choose_again` is called; None if it never is.
    scaling
        Whether the pieces are scaled to each other afterwards, with a factor for each preceding label.
    predicts_fields
        Whether the model also predicts the observed columns (:class:`~loglinear.criteria.field_likelihood`).
    uses_base
        Whether the model has a generative base distribution.
    counts_labels
        Whether it must know the labels' names (:meth:`for_labels`).
    learns_weights
        Whether there is anything to optimise.
    own_form
        What options have made of it that passes compiled for the criterion's plain form do not compute, in words: ``a
        temperature``. None if they do.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    convex: ClassVar[bool]
    smooth: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]]
    needs_of_trees: ClassVar[tuple[str, ...] | None] = None
    uses_cost: ClassVar[bool] = False
    starts_from: ClassVar[str | None] = None
    takes_partial: ClassVar[bool] = True
    completes: ClassVar[bool] = False
    local_decoding: bool = False
    seen_pairs_only: ClassVar[bool] = False
    for_hidden: ClassVar[tuple[str, ...]] = ()
    for_tokens: ClassVar[tuple[str, ...]] = ()
    optimizers: ClassVar[tuple[str, ...]] = ("lbfgs", "sgd", "adagrad")
    chooses_after: int | None = None
    scaling: bool = False
    predicts_fields: bool = False
    uses_base: ClassVar[bool] = False
    counts_labels: ClassVar[bool] = False
    learns_weights: ClassVar[bool] = True
    own_form: str | None = None

    @abstractmethod
    def evaluate(self, structure: Any, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        """Losses of a batch and their gradient.

        Parameters
        ----------
        structure
            The batch of S structures: a :class:`~loglinear.structures.structure.Structure`, for some criteria a chain.
        scores
            Their part scores.
        gold : Gold
            Their annotation.
        weights : float64 [S]
            Weight of each structure.

        Returns
        -------
        losses : float64 [S]
            Loss of each structure times its weight; inf where the gold annotation has no possible structure.
        gradient
            Derivative of the sum of the losses by each part score, shaped like ``scores``.
        """

    @classmethod
    def learns_from_hidden(cls) -> bool:
        """Whether labels, or sub-labels, may be hidden."""
        return cls.takes_partial or cls.completes

    @classmethod  # noqa: B027  # most have nothing to check
    def check(cls, values: Mapping[str, Any]) -> None:
        """Reject options that do not go together; each by itself has been checked."""

    def for_labels(self, labels: Sequence[Any]) -> Criterion:
        """The same criterion for labels with these names [Y]."""
        return self

    def for_brackets(self, brackets: Brackets) -> Criterion:
        """The same criterion for phrase trees, whose parts make these brackets."""
        return self

    def schedule(self) -> list[tuple[str, Criterion]]:
        """Forms of the criterion to train by one after the other, each with a name, before this form itself."""
        return []

    def choose(self, gold: Gold, offsets: Int64, n_labels: int, order: int, rng: np.random.Generator) -> Gold:
        """Before training: the annotation, with what this criterion learns from marked in it."""
        return gold

    def choose_again(self, gold: Gold, offsets: Int64, marginals: Float) -> Gold:
        """The same, once, given the context marginals of the model so far ([N, Y] at order 1, else [N, Y, Y])."""
        return gold


class CorpusCriterion(Criterion):
    """A criterion of the corpus as a whole: a function of totals, which are sums over examples.

        loss = g(sum_i weight_i totals_i)           gradient: of g(totals) by the scores, the totals being those of all

    A pass over the corpus has two halves, :meth:`totals` and then :meth:`gradient`, so only batch optimizers train it.
    """

    optimizers = ("lbfgs",)

    @abstractmethod
    def totals(self, structure: Any, scores: Scores, gold: Gold, weights: Float) -> Float:
        """The totals [K] of a batch."""

    @abstractmethod
    def loss(self, totals: Float) -> float:
        """The loss of a corpus with these totals [K]."""

    @abstractmethod
    def gradient(self, totals: Float, structure: Any, scores: Scores, gold: Gold, weights: Float) -> Scores:
        """Gradient of the corpus' loss by the part scores of a batch; ``totals`` [K] are those of the corpus."""

    def evaluate(self, structure: Any, scores: Scores, gold: Gold, weights: Float) -> tuple[Float, Scores]:
        """The loss of the batch as a corpus of its own, in equal shares."""
        totals = self.totals(structure, scores, gold, weights)
        losses = np.full(len(weights), self.loss(totals) / max(len(weights), 1))
        return losses, self.gradient(totals, structure, scores, gold, weights)


@options
class CostCriterion(Criterion):
    """A criterion that knows how bad a mistake is."""

    uses_cost = True

    cost: Any = field(kw_only=False)  # a Cost, its counterpart for another structure, or a LabellingCost

    def costs(self, structure: Structure, gold: Gold) -> Float:
        """Cost of each choice at each position ([N, Y] for the labels of a chain)."""
        costs: Float = self.cost.at(gold, structure.offsets)
        return costs

    def augmented(self, structure: Structure, scores: Scores, gold: Gold) -> Scores:
        """The scores plus the cost."""
        return scores.with_costs(self.costs(structure, gold))


def subtract_gold(structure: Structure, scores: Scores, gold: Gold, weights: Float, gradient: Scores) -> Float:
    """Score [S] of the gold labelling; subtracts its parts, times ``weights`` [S], from ``gradient``.

    Where the annotation allows several labellings, it is their log-partition, and the parts are the expected ones.
    """
    if gold.allowed is None:
        structure.add_labelling(gradient, gold.labels, -weights)
        return structure.score(scores, gold.labels)
    gold_score, gold_parts = structure.expectations(structure.restrict(scores, gold.allowed), weights)
    gradient.subtract(gold_parts)
    return gold_score


CRITERIA: Registry[Criterion] = Registry.of_package("criterion", "loglinear.criteria", without=SHARED)
register = CRITERIA.register


def needed_operations(criterion: type[Criterion], structure: type) -> tuple[str, ...]:
    """The operations that a criterion needs of a class of structures."""
    of_trees = criterion.needs_of_trees
    return of_trees if of_trees is not None and hasattr(structure, "expected_brackets") else criterion.needs


def missing_operations(criterion: type[Criterion], structure: type) -> list[str]:
    """The operations that a criterion needs and a class of structures does not have."""
    return [each for each in needed_operations(criterion, structure) if not hasattr(structure, each)]


def criteria_of(structure: type) -> dict[str, type[Criterion]]:
    """The criteria by name whose operations a class of structures has."""
    return {name: each for name, each in CRITERIA.all().items() if not missing_operations(each, structure)}


def make_criterion(spec: str | Spec[Criterion], cost: Any = None) -> Criterion:
    """A criterion ready for use; ``cost`` goes with those that use one, and only with those.

    It is a :class:`~loglinear.criteria.costs.Cost`, or its counterpart for another structure than chains.
    """
    spec = CRITERIA.spec(spec)
    if spec.part.uses_cost:
        if cost is None:
            raise OptionError(f"criterion={spec.name!r} needs a cost")
        return spec.make(cost)
    if cost is not None:
        raise OptionError(f"criterion={spec.name!r} takes no cost; {', '.join(cost_users())} do")
    return spec.make()


def decoded_locally(spec: str | Spec[Criterion]) -> bool:
    """Whether the models that this criterion trains are products of normalised pieces."""
    spec = CRITERIA.spec(spec)
    return bool(spec.part.local_decoding or spec["local"] or spec["decoding"] == "local")


def uses_lists(spec: str | Spec[Criterion]) -> bool:
    """Whether a criterion asks for costs of n-best labellings alone, so that these may be costs of whole labellings."""
    return CRITERIA.spec(spec).values.get("k") is not None


def cost_users() -> list[str]:
    """Names of the criteria that use a cost."""
    return [name for name, criterion in CRITERIA.all().items() if criterion.uses_cost]
