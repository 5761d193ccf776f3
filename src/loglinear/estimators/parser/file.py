"""How a parser's model is stored in a model file, and read back.

    header   options (of the parser), labels, training (trees, words, message), model (below)
    arrays   those of the model

A grammar of probabilities (PCFG) is stored as :meth:`~loglinear.generative.pcfg.model.PCFG.to_arrays` says; one whose
rules look at the words of their spans as

    model    symbols, n_tags, root, chains, terminals, attributes, normalised
    arrays   binary_rules [B, 3]; lexicon_pointer, lexicon_tags, lexicon_log_p (for each terminal its tags);
             feature_pointer, feature_codes (for each attribute its outcomes); offsets [E]; weights [E + D];
             base [E] of models that have learnt its weight, the last of the weights; scaling [K] of those that have it

Both may have the counts of a prior (:class:`~loglinear.structures.tree.prior.ContextPrior`); files of 0.1.0 have none,
and these models search without a beam.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loglinear.arrays import Arrays
from loglinear.errors import OptionError
from loglinear.estimators.parser.model import SpanModel
from loglinear.features.block import FeatureBlock
from loglinear.features.spans import Own, SpanAttributes
from loglinear.generative.pcfg.lexicon import Lexicon
from loglinear.generative.pcfg.model import PCFG, grammar_room
from loglinear.model_file import GREATEST, Reader
from loglinear.structures.tree.features import SpanFeatures
from loglinear.structures.tree.grammar import CFGGrammar, Outcomes, TreeCoder
from loglinear.structures.tree.pieces import PieceFeatures
from loglinear.structures.tree.prior import ContextPrior

KIND = "parser"


def is_with_function(read: Reader) -> bool:
    """Whether the model was trained with a function of span features."""
    model = read.value("model", None)
    attributes = model.get("attributes") if isinstance(model, dict) else None
    return isinstance(attributes, dict) and bool(attributes.get("own"))


def check_given(read: Reader, span_features: Own | None) -> None:
    """Refuse to load a model without the function of span features that it was trained with, or with one too many."""
    had_one = is_with_function(read)
    if had_one and span_features is None:
        raise OptionError(
            f"{read.file}: trained with a function of span features; load it with the same (span_features=...)"
        )
    if span_features is not None and not had_one:
        raise OptionError(f"{read.file}: trained without a function of span features; load it without span_features")


def to_storage(
    model: Any, options: dict[str, Any], labels: list[str], training: dict[str, Any]
) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a model file."""
    own, arrays = model.to_arrays() if isinstance(model, PCFG) else _span_to_storage(model)
    return {"options": options, "labels": labels, "training": training, "model": own}, arrays


def from_storage(read: Reader, looks_at_words: bool, span_features: Own | None = None) -> PCFG | SpanModel:
    """The model of a file; ``looks_at_words`` says of which kind it is."""
    own = read.section("model", prefix="")
    return _span_from_storage(own, span_features) if looks_at_words else PCFG.from_storage(own)


def _span_to_storage(model: SpanModel) -> tuple[dict[str, Any], Arrays]:
    grammar, block, lexicon = model.grammar, model.features.pieces.block, model.lexicon
    header: dict[str, Any] = {
        "symbols": model.coder.symbols,
        "n_tags": model.coder.n_tags,
        "root": grammar.root,
        "chains": [list(chain) for chain in model.coder.chains],
        "terminals": lexicon.terminals,
        "attributes": model.attributes.to_header(),
        "normalised": model.normalised,
        **({"base_of_words": model.features.base_of_words} if model.features.pieces.base is not None else {}),
    }
    arrays: Arrays = {
        "binary_rules": grammar.binary,
        "lexicon_pointer": lexicon.pointer,
        "lexicon_tags": lexicon.tags,
        "lexicon_log_p": lexicon.log_p,
        "feature_pointer": block.pointer,
        "feature_codes": block.codes,
        "offsets": model.features.pieces.offsets,
        "weights": model.weights,
        **({} if model.features.pieces.base is None else {"base": model.features.pieces.base}),
        **({} if model.scaling is None else {"scaling": model.scaling}),
        **({} if model.prior is None else model.prior.to_arrays()),
    }
    return header, arrays


def _span_from_storage(read: Reader, span_features: Own | None) -> SpanModel:
    symbols, rules = read.names("symbols"), read.ints("binary_rules", (None, 3))
    n_tags, root = read.integer("n_tags", 1, len(symbols)), read.integer("root", 0, len(symbols) - 1)
    read.room("symbols", grammar_room(n_tags, len(symbols), "prior_before" in read.arrays))
    given = read.value("chains")
    with read.building("chains"):
        chains = [tuple(int(symbol) for symbol in chain) for chain in given]
        if any(len(chain) < 2 for chain in chains):
            read.fail("chains", "a chain has fewer than two symbols")
        if any(not 0 <= symbol < len(symbols) for chain in chains for symbol in chain):
            read.fail("chains", f"not all numbers are from 0 to {len(symbols)} - 1")
    with read.building("binary_rules"):
        steps = [(chain[0], chain[-1]) for chain in chains]
        grammar = CFGGrammar(len(symbols), root, np.arange(n_tags), rules, steps)
        coder, outcomes = TreeCoder(symbols, n_tags, grammar, chains), Outcomes(grammar)
    with read.building("attributes"):
        attributes = SpanAttributes.from_header(read.section("attributes").header, span_features)
    e = outcomes.n_outcomes
    lists = read.lists("feature_pointer", "feature_codes", attributes.n_attributes, e)
    block = FeatureBlock(*lists, e).as_lists()
    offsets = read.floats("offsets", (e,), high=GREATEST)
    base = read.floats("base", (e,)) if "base" in read.arrays else None
    weights = read.floats("weights", (e + len(lists[1]) + (base is not None),))
    terminals = read.names("terminals", least=0)
    of_terminals = read.lists("lexicon_pointer", "lexicon_tags", len(terminals), n_tags)
    log_p = read.floats("lexicon_log_p", of_terminals[1].shape, high=GREATEST)
    lexicon = Lexicon(n_tags, terminals, *of_terminals, log_p)
    of_words = base is not None and read.flag("base_of_words")
    features = SpanFeatures(outcomes, PieceFeatures(outcomes.first, block, offsets, base), of_words)
    prior = ContextPrior.from_storage(read, n_tags, len(symbols))
    scaling = read.floats("scaling", (len(symbols),)) if "scaling" in read.arrays else None
    return SpanModel(coder, lexicon, attributes, features, weights, read.flag("normalised"), prior, scaling)
