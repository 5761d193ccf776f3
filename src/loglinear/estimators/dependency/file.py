"""What of a dependency parser stands in a model file, and how it is read back with every bound checked.

    header   options, tags, tag_column, projective, single_root, base (None or its sizes), relations (None or labels),
             training (free notes)
    arrays   words (packed strings); pairs; features [D], weights [D]; base.contexts, base.begins, base.outcomes,
             base.counts; relation.features [A], relation.lengths [A], relation.codes [R], relation.weights [R]

A file with a right checksum may still come from a stranger: nothing in it is run, and every number is checked before it
is used as an index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from loglinear.arrays import Array, Arrays, Float, Int64
from loglinear.errors import LoglinearError, ModelFileError
from loglinear.estimators.dependency.model import DependencyModel, RelationModel
from loglinear.estimators.dependency.options import check_dependency_parser
from loglinear.features.arcs import ArcEncoder, TokenVocabulary
from loglinear.features.block import FeatureBlock
from loglinear.generative import head_outward
from loglinear.generative.head_outward import HeadOutwardModel
from loglinear.model_file import pack_strings, unpack_strings
from loglinear.structures.arcs.features import ArcFeatures
from loglinear.structures.chain.features import ChainFeatures
from loglinear.training.checkpoint import AnyCheckpoint

KIND = "dependency-parser"


def to_storage(
    model: DependencyModel, options: dict[str, Any], training: dict[str, Any]
) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a model file."""
    blob, offsets = pack_strings(model.vocabulary.words)
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
        "words.bytes": blob,
        "words.offsets": offsets,
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


def from_storage(header: Any, arrays: Arrays, name: str) -> tuple[DependencyModel, dict[str, Any], dict[str, Any]]:
    """The model, the parser's options and the notes on its training; what does not fit is a ModelFileError."""
    try:
        model = _checked(header, arrays)
        return model, dict(header["options"]), dict(header["training"])
    except LoglinearError as error:
        raise ModelFileError(f"{name}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        detail = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ModelFileError(f"{name}: the model file's content does not fit together ({detail}); train anew") from None


def restored_estimator(kind: Any, options: dict[str, Any], name: str) -> Any:
    """An estimator with the options of a file."""
    try:
        estimator = kind(**options)
        check_dependency_parser(estimator)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"{name}: the model's options cannot be read ({error}); train anew") from None
    return estimator


def _checked(header: dict[str, Any], arrays: Arrays) -> DependencyModel:
    tags, column = header["tags"], header["tag_column"]
    if not _distinct_strings(tags) or column not in ("xpos", "upos"):
        raise ValueError("the tags cannot be read")
    words = unpack_strings(arrays["words.bytes"], arrays["words.offsets"])
    if not words or len(set(words)) != len(words):
        raise ValueError("the words are not distinct")
    pairs = _ascending(arrays["pairs"], "pairs")
    if not len(pairs) or pairs[-1] >= len(words) * len(tags):
        raise ValueError("a pair of word and tag is out of range")
    vocabulary = TokenVocabulary(words, tags, pairs)
    for switch in ("projective", "single_root"):
        if not isinstance(header[switch], bool):
            raise ValueError("the kind of the trees cannot be read")
    encoder = ArcEncoder(vocabulary, "arcs", _ascending(arrays["features"], "features"))
    weights = _weights(arrays["weights"], encoder.n_features)
    base = None if header["base"] is None else _base(header["base"], arrays, vocabulary)
    if base is None and not encoder.n_features:
        raise ValueError("the model has neither weights nor a base")
    relations = None if header["relations"] is None else _relations(header["relations"], arrays, vocabulary)
    features = ArcFeatures(encoder.n_features, header["projective"], header["single_root"])
    return DependencyModel(vocabulary, column, encoder, features, weights, base, relations)


def _distinct_strings(values: Any) -> bool:
    whole = isinstance(values, list) and bool(values) and all(isinstance(value, str) for value in values)
    return whole and len(set(values)) == len(values)


def _ascending(array: Array, what: str) -> Int64:
    if array.ndim != 1 or array.dtype != np.int64 or (len(array) and array[0] < 0) or (np.diff(array) <= 0).any():
        raise ValueError(f"the {what} are not ascending numbers")
    return np.array(array)


def _weights(array: Array, n: int) -> Float:
    if array.shape != (n,) or array.dtype.kind != "f" or not np.isfinite(array).all():
        raise ValueError("the weights do not fit the features")
    return array.astype(np.float64)


def _base(header: dict[str, Any], arrays: Arrays, vocabulary: TokenVocabulary) -> HeadOutwardModel:
    contexts = _ascending(arrays["base.contexts"], "contexts")
    begins, outcomes, counts = (np.array(arrays[f"base.{name}"]) for name in ("begins", "outcomes", "counts"))
    fits = begins.dtype == np.int64 and outcomes.dtype == np.int32 and counts.dtype == np.float64 and len(contexts)
    fits = fits and begins.shape == (len(contexts) + 1,) and outcomes.shape == counts.shape == (begins[-1],)
    if not fits or begins[0] != 0 or (np.diff(begins) <= 0).any() or not ((counts > 0) & np.isfinite(counts)).all():
        raise ValueError("the counts of the base do not fit together")
    shift = 2 * head_outward.TAG_BITS + head_outward.WORD_BITS + 2
    kinds = np.repeat(contexts >> shift, np.diff(begins)) // 3
    limits = np.array([2, len(vocabulary.tags), len(vocabulary.words)])
    if kinds.max() > 2 or (outcomes < 0).any() or (outcomes >= limits[kinds]).any():
        raise ValueError("an outcome of the base is out of range")
    lexical, factors = header["lexical"], header["factors"]
    if not isinstance(lexical, bool) or len(factors) != 3 or not all(0 < float(factor) < 1e6 for factor in factors):
        raise ValueError("the base cannot be read")
    sizes = len(vocabulary.tags), len(vocabulary.words)
    a, b, c = (float(factor) for factor in factors)
    return HeadOutwardModel(*sizes, lexical, contexts, begins, outcomes, counts, (a, b, c))


def _relations(labels: Any, arrays: Arrays, vocabulary: TokenVocabulary) -> RelationModel:
    if not _distinct_strings(labels):
        raise ValueError("the relations are not distinct strings")
    encoder = ArcEncoder(vocabulary, "relations", _ascending(arrays["relation.features"], "features"))
    lengths, codes = np.array(arrays["relation.lengths"]), np.array(arrays["relation.codes"])
    fits = lengths.dtype == codes.dtype == np.int32 and lengths.shape == (encoder.n_features,) and codes.ndim == 1
    fits = fits and not (lengths < 0).any() and lengths.sum(dtype=np.int64) == len(codes)
    if not fits or (codes < 0).any() or (codes >= len(labels)).any():
        raise ValueError("the features of relations do not fit together")
    pointer = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)
    none = np.zeros(0, dtype=np.int32)
    features = ChainFeatures(len(labels), 1, FeatureBlock(pointer, codes, len(labels)), None, none, none)
    return RelationModel(labels, encoder, features, _weights(arrays["relation.weights"], len(codes)))


@dataclass(frozen=True)
class DependencyCheckpoint(AnyCheckpoint):
    """The checkpoint of a dependency parser in training."""

    kind = KIND
    model: DependencyModel

    def storage(self, weights: Float, training: dict[str, Any]) -> tuple[dict[str, Any], Arrays]:
        return to_storage(self.model.with_weights(weights), self.options, training)
