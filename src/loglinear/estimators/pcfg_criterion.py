"""``criterion="pcfg"``: a probabilistic context-free grammar, counted (:mod:`loglinear.generative.pcfg`)."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from loglinear.estimators.tree_criteria import Arrays, TreeCriterion, TreeTraining, register_tree_criterion
from loglinear.features.span_attributes import Own
from loglinear.generative.pcfg import PCFG
from loglinear.generative.pcfg_estimate import treebank_pcfg
from loglinear.options import Option


@register_tree_criterion
class PcfgCriterion(TreeCriterion):
    """Relative frequencies of rules, and of words with an answer for unknown ones."""

    name: ClassVar[str] = "pcfg"
    summary: ClassVar[str] = "log p(tree, words): relative frequencies of the rules"
    options: ClassVar[tuple[Option, ...]] = (
        Option("smoothing", 0.0, "added to the count of each rule that a phrase is seen with", least=0, kind=float),
        Option("backoff", 0.0, "how much a phrase leans on all of the same label without notes", least=0, kind=float),
    )

    @classmethod
    def fit(cls, training: TreeTraining) -> PCFG:
        """Count."""
        grammar = treebank_pcfg(training.binary, **training.values)
        training.message = f"counted; {len(grammar.unary):,} unary rules, {len(grammar.lexicon.terminals):,} words"
        return grammar

    @classmethod
    def to_storage(cls, model: Any) -> tuple[dict[str, Any], Arrays]:
        """The grammar as data."""
        return cast(PCFG, model).to_arrays()

    @classmethod
    def from_storage(cls, header: dict[str, Any], arrays: Arrays, span_features: Own | None = None) -> PCFG:
        """The grammar of a file."""
        return PCFG.from_arrays(header, arrays)
