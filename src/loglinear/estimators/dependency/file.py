"""How a dependency parser is stored in a model file, and read back.

header   options, tags, tag_column, projective, single_root, base (None or its sizes), relations (None or labels),
         training (free notes)
arrays   words (packed strings); pairs; features [D], weights [D]; base.contexts, base.begins, base.outcomes,
         base.counts; relation.features [A], relation.lengths [A], relation.codes [R], relation.weights [R]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loglinear.arrays import Arrays
from loglinear.estimators.dependency.model import DependencyModel, RelationModel
from loglinear.features.arcs import ArcEncoder, TokenVocabulary
from loglinear.features.block import FeatureBlock
from loglinear.generative import head_outward
from loglinear.generative.head_outward import HeadOutwardModel
from loglinear.model_file import Reader, string_arrays
from loglinear.structures.arcs.features import ArcFeatures
from loglinear.structures.chain.features import ChainFeatures

KIND = "dependency-parser"
MOST_FACTOR = 1e6  # by which the base leans on less specific counts


def to_storage(
    model: DependencyModel, options: dict[str, Any], training: dict[str, Any]
) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a model file."""
    base, relations = model.base, model.relations
    header = {
        "options": options,
        "training": training,
        "tags": model.vocabulary.tags,
        "tag_column": model.tags,
        "projective": model.features.projective,
        "single_root": model.features.single_root,
        "base": None if base is None else {"lexical": base.lexical, "factors": list(base.factors)},
        "relations": None if relations is None else relations.labels,
    }
    arrays: Arrays = {
        **string_arrays("words", model.vocabulary.words),
        "pairs": model.vocabulary.pairs,
        "features": model.encoder.features,
        "weights": model.weights.astype(np.float32),
    }
    if base is not None:
        arrays |= {f"base.{name}": getattr(base, name) for name in ("contexts", "begins", "outcomes", "counts")}
    if relations is not None:
        block = relations.features.state
        arrays |= {
            "relation.features": relations.encoder.features,
            "relation.lengths": np.diff(block.pointer).astype(np.int32),
            "relation.codes": block.codes.astype(np.int32),
            "relation.weights": relations.weights.astype(np.float32),
        }
    return header, arrays


def from_storage(read: Reader) -> DependencyModel:
    """The model of a file."""
    tags, words = read.names("tags"), read.strings("words", distinct=True)
    pairs = read.ascending("pairs", below=len(words) * len(tags))
    if not len(pairs):
        read.fail("pairs", "there are no words")
    vocabulary = TokenVocabulary(words, tags, pairs)
    encoder = ArcEncoder(vocabulary, "arcs", read.ascending("features"))
    weights = read.floats("weights", (encoder.n_features,))
    base = _base(read.section("base"), vocabulary) if read.value("base") is not None else None
    if base is None and not encoder.n_features:
        read.fail("features", "the model has neither weights nor a base")
    relations = _relations(read, vocabulary) if read.value("relations") is not None else None
    features = ArcFeatures(encoder.n_features, read.flag("projective"), read.flag("single_root"))
    column = read.choice("tag_column", ("xpos", "upos"))
    return DependencyModel(vocabulary, column, encoder, features, weights, base, relations)


def _base(read: Reader, vocabulary: TokenVocabulary) -> HeadOutwardModel:
    """The base of the section ``base``: for each context the outcomes and how often each was seen."""
    sizes = len(vocabulary.tags), len(vocabulary.words)
    contexts, limits = read.ascending("contexts"), np.array([2, *sizes])
    begins, outcomes = read.lists("begins", "outcomes", len(contexts), int(limits.max()))
    counts = read.floats("counts", outcomes.shape)
    if not len(contexts) or (np.diff(begins) == 0).any() or (counts <= 0).any():
        read.fail("counts", "a context without an outcome, or an outcome that was never seen")
    kinds = np.repeat(contexts >> (2 * head_outward.TAG_BITS + head_outward.WORD_BITS + 2), np.diff(begins)) // 3
    if kinds.max() > 2 or (outcomes >= limits[kinds]).any():
        read.fail("outcomes", "an outcome is out of range for its context")
    factors = read.value("factors")
    with read.building("factors"):
        a, b, c = (float(factor) for factor in factors)
    if not all(0 < factor < MOST_FACTOR for factor in (a, b, c)):
        read.fail("factors", f"not three numbers between 0 and {MOST_FACTOR:g}")
    return HeadOutwardModel(*sizes, read.flag("lexical"), contexts, begins, outcomes, counts, (a, b, c))


def _relations(read: Reader, vocabulary: TokenVocabulary) -> RelationModel:
    labels, none = read.names("relations"), np.zeros(0, dtype=np.int32)
    encoder = ArcEncoder(vocabulary, "relations", read.ascending("relation.features"))
    pointer, codes = read.lists("relation.lengths", "relation.codes", encoder.n_features, len(labels))
    features = ChainFeatures(len(labels), 1, FeatureBlock(pointer, codes, len(labels)), None, none, none)
    return RelationModel(labels, encoder, features, read.floats("relation.weights", (len(codes),)))
