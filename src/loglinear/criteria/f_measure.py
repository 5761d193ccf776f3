"""Expected F-measure of the whole corpus (Jansche 2005; Suzuki, McDermott & Isozaki 2006).

A *unit* is a position whose label counts, which all do but one: ``O``, outside of chunks. With the expected numbers of
units that the model finds rightly (A), that it finds at all (P), and the number of units in the annotation (G), summed
over all examples times their weights,

    loss = G (1 - F)        F = (1 + beta^2) A / (beta^2 G + P)        A = sum_t p(y_t = y*_t) [y*_t counts]
                                                                       P = sum_t p(y_t counts)

F weighs recall beta times as much as precision. This is the F of expected numbers, not the expected F: what Jansche
maximises by softening the decisions of a classifier, here for any structure with exact marginals. The factor G makes
the loss a number of units, as the losses of other criteria grow with the corpus, so that penalties mean about the same.

The loss is a function of totals over the corpus, not a sum over examples, so a pass has two halves: the totals, then
the gradient given the totals, which is a covariance with a cost that depends on them:

    gradient = Cov(c, part)                 c(y) = - G sum_t ( dF/dA [y_t = y*_t counts] + dF/dP [y_t counts] )

    dF/dA = (1 + beta^2) / (beta^2 G + P)                dF/dP = - F / (beta^2 G + P)

Where the annotation allows several labels, a position is a unit if all of them count, and then any of them is right; it
is left out if only some of them count.

With ``chunks`` the units of label sequences are whole **chunks** (:mod:`~loglinear.criteria.chunks`), what evaluation
counts: A is the sum of the probabilities of the annotation's chunks, P the expected number of tokens that begin one.

The units of **phrase trees** are labelled brackets (:mod:`~loglinear.criteria.brackets`): A sums the probabilities of
the gold tree's brackets, P those of all brackets, and F is that of evaluation but for punctuation, which it leaves out.

It is not convex, and flat where the model is sure: training starts from
a conditional-likelihood model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from loglinear.arrays import Bool, Float, Int64
from loglinear.criteria.chunks import Chunks
from loglinear.criteria.costs import OUTSIDE
from loglinear.criteria.criterion import CorpusCriterion, register
from loglinear.errors import OptionError
from loglinear.options import option, options

if TYPE_CHECKING:
    from loglinear.criteria.brackets import Brackets
    from loglinear.structures.gold import Gold
    from loglinear.structures.structure import Scores


@register
@options
class FMeasure(CorpusCriterion):
    """G (1 - F) of the expected numbers of units.

    Parameters
    ----------
    beta : float
        How many times as much recall weighs as precision.
    outside : str or None
        The label that does not count; None: ``O``. Without that, of two labels the first does not count, of more all
        do, and F is the expected accuracy.
    chunks : bool
        Whether units are whole chunks.
    counted : bool [Y] or None
        Which labels count, with ``chunks`` by beginning one; :meth:`for_labels` sets it.
    spelt : Chunks or None
        What the labels say about chunks; :meth:`for_labels` sets it.
    brackets : Brackets or None
        Those of phrase trees; :meth:`for_brackets` sets it.
    """

    name = "f-measure"
    summary = "F-measure: of the expected numbers of labels found, right and wrong, over the whole corpus"
    convex = False
    starts_from = "cll"
    needs = ("marginals", "cost_covariance")
    needs_of_trees = ("cost_covariance", "expectations")
    counts_labels = True
    for_tokens = ("outside", "chunks")

    beta: float = option("how many times as much recall weighs as precision", default=1.0, above=0, most=1000)
    outside: str | None = option("the label that does not count, if not O", default=None, example="NONE")
    chunks: bool = option("count whole chunks, not labels", default=False)
    counted: Bool | None = field(default=None, kw_only=True)
    spelt: Chunks | None = field(default=None, kw_only=True)
    brackets: Brackets | None = field(default=None, kw_only=True)

    @classmethod
    def check(cls, values: Mapping[str, Any]) -> None:
        """Reject a label that does not count where it is not labels that count."""
        if values.get("chunks") and values.get("outside") is not None:
            raise OptionError(f"outside={values['outside']!r} is for counting labels; leave it out, or chunks")

    def for_labels(self, labels: Sequence[Any]) -> FMeasure:
        """The same criterion over labels with these names [Y]."""
        names = [str(label) for label in labels]
        if self.chunks:
            spelt = Chunks(names)
            return replace(self, counted=spelt.begins, spelt=spelt)
        outside = self.outside
        if outside is None:
            outside = names[0] if OUTSIDE not in names and len(set(names)) == 2 else OUTSIDE
        elif outside not in names:
            known = ", ".join(sorted(set(names))[:8])
            raise OptionError(f"f-measure:outside={outside}: the training data has no such label; it has {known}")
        return replace(self, counted=np.array([name != outside for name in names]))

    def for_brackets(self, brackets: Brackets) -> FMeasure:
        """The same criterion over the brackets of phrase trees."""
        return replace(self, brackets=brackets)

    def choose(self, gold: Gold, offsets: Int64, n_labels: int, order: int, rng: np.random.Generator) -> Gold:
        """The annotation as it is; refused before training if chunks are to be counted and labels are missing."""
        if self.spelt is not None:
            self.spelt.of_gold(gold, offsets)
        return gold

    def totals(self, structure: Any, scores: Scores, gold: Gold, weights: Float) -> Float:
        """A, P and G of the batch."""
        if self.brackets is not None:
            own = self.brackets.of_gold(gold, structure.offsets)
            expected = self.brackets.expected(structure, scores, own, weights)
            return np.array(
                [expected[own.is_gold].sum(), expected.sum(), weights[own.sentence] @ own.is_gold.sum(axis=1)]
            )
        if self.spelt is not None:
            chunks, probabilities = self.spelt.probabilities(structure, scores, gold)
            factors, begun = weights[chunks.sequence], structure.marginals(scores)[:, self.counted].sum(axis=1)
            return np.array(
                [factors @ probabilities, np.repeat(weights, np.diff(structure.offsets)) @ begun, factors.sum()]
            )
        right, found, units = self._units(gold)
        marginals, factors = structure.marginals(scores), np.repeat(weights, np.diff(structure.offsets))
        return np.array(
            [factors @ np.einsum("ny,ny->n", marginals, each) for each in (right, found)] + [factors @ units]
        )

    def loss(self, totals: Float) -> float:
        """G (1 - F)."""
        right, _, units = totals.tolist()
        return float(units - self._slopes(totals)[0] * right)

    def gradient(self, totals: Float, structure: Any, scores: Scores, gold: Gold, weights: Float) -> Scores:
        """The covariance of parts and cost."""
        reward, price = self._slopes(totals)
        costs: Any
        if self.brackets is not None:
            own = self.brackets.of_gold(gold, structure.offsets)
            costs = self.brackets.parts(
                np.where(own.is_gold, price - reward, price), own.row_of_span, structure.offsets
            )
        elif self.spelt is not None:
            costs = np.tile(np.where(self.spelt.begins, price, 0.0), (structure.n_positions, 1))
        else:
            right, found, _ = self._units(gold)
            costs = price * found - reward * right
        gradient: Scores = structure.cost_covariance(scores, costs, weights)[1]
        if self.spelt is not None:
            self.spelt.add_gradient(structure, scores, gold, -reward * weights, gradient)
        return gradient

    def _slopes(self, totals: Float) -> tuple[float, float]:
        """G dF/dA and - G dF/dP."""
        right, found, units = totals.tolist()
        if units == 0.0:
            return 0.0, 0.0  # nothing to find
        size = self.beta**2 * units + found
        reward = units * (1.0 + self.beta**2) / size
        return reward, reward * right / size

    def _units(self, gold: Gold) -> tuple[Bool, Bool, Bool]:
        """Whether each label is a right unit [N, Y], and whether it is one at all; whether each position is one [N]."""
        assert self.counted is not None, "for_labels says which labels count"
        allowed = gold.mask(len(self.counted))
        may: Bool = np.logical_or.reduce(allowed & self.counted, axis=1)
        must: Bool = np.logical_and.reduce(self.counted | ~allowed, axis=1)
        return allowed & must[:, np.newaxis], self.counted & (must | ~may)[:, np.newaxis], must
