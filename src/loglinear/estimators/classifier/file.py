"""How a classifier is stored in a model file, and read back.

    header   options, labels (type and values), encoder (kind and what it needs), by_function, one_versus_all, own_base,
             training (free notes)
    arrays   coef [R, A], intercept [R]; base.coef [R, A], base.intercept [R] if there is a naive Bayes base (the others
             hold the learnt part alone then); weights [D] for a feature map; strings (packed); encoder.*

Objects of the user's own (features, feature_map, candidates, base) are not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loglinear.arrays import Arrays
from loglinear.errors import OptionError
from loglinear.estimators.classifier import model as classifier_model
from loglinear.estimators.classifier.inputs import ENCODERS
from loglinear.estimators.classifier.model import CandidateEncoder, CandidateModel, LinearModel, LinearScores
from loglinear.features.names import NameEncoder
from loglinear.model_file import Reader, label_header, string_arrays

KIND = "classifier"


def to_storage(
    model: LinearModel | CandidateModel, options: dict[str, Any], training: dict[str, Any], by_function: bool = False
) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a model file."""
    header: dict[str, Any] = {
        "options": options,
        "training": training,
        "labels": label_header(model.labels),
        "by_function": by_function,
    }
    if isinstance(model, CandidateModel):
        encoder: Any = model.encoder.names
        arrays: Arrays = {"weights": model.weights}
        header |= {"encoder": {"kind": classifier_model.KIND, **encoder.to_header()}}
    else:
        encoder = model.encoder
        learnt = model.scores if model.base is None else model.scores.minus(model.base)
        arrays = {"coef": learnt.coef, "intercept": learnt.intercept}
        if model.base is not None:
            arrays |= {"base.coef": model.base.coef, "base.intercept": model.base.intercept}
        header |= {
            "encoder": {"kind": encoder.kind, **encoder.to_header()},
            "one_versus_all": model.one_versus_all,
            "own_base": model.own_base is not None,
        }
    arrays |= string_arrays("strings", encoder.strings)
    arrays |= {f"encoder.{name}": array for name, array in encoder.to_arrays().items()}
    return header, arrays


def check_given(read: Reader, given: Mapping[str, Any]) -> None:
    """Refuse to load a model without the user's functions and base that it was trained with, or with others.

    ``given`` has each of them by option, None where there is none.
    """
    has_map, by_function = read.section("encoder").text("kind") == classifier_model.KIND, read.flag("by_function")
    needed = "feature_map" if has_map else "features" if by_function else None
    if needed is not None and given[needed] is None:
        raise OptionError(f"{read.file} was trained with a function of your own; give it again, as in {needed}=...")
    known = {needed, "base", "candidates" if has_map else None}
    for option, value in given.items():
        if value is not None and option not in known:
            raise OptionError(f"{read.file} was trained without {option}; leave it out")
    if read.flag("own_base", False) != (given["base"] is not None):
        again = "over a base of your own; give it again, as in base=..."
        raise OptionError(f"{read.file} was trained {again if given['base'] is None else 'without such a base'}")


def from_storage(read: Reader, given: Mapping[str, Any]) -> LinearModel | CandidateModel:
    """The model of a file; ``given`` are the user's functions and base by option, none to only look at the model."""
    labels, strings, part = read.labels(least=2), read.strings("strings"), read.section("encoder")
    kind = part.choice("kind", [*ENCODERS, classifier_model.KIND])
    encoders: dict[str, Any] = {**ENCODERS, classifier_model.KIND: NameEncoder}
    with read.building("encoder"):
        encoder = encoders[kind].from_storage(part.header, part.arrays, strings)
    if kind == classifier_model.KIND:
        feature_map: Any = given.get("feature_map")  # None if the model is only looked at
        candidates = CandidateEncoder(feature_map, given.get("candidates"), encoder)
        return CandidateModel(labels, candidates, read.floats("weights", (encoder.n_attributes,)))
    shape = (1 if len(labels) == 2 else len(labels), encoder.n_columns)
    scores, base = _scores(read, "", shape), None
    if "base.coef" in read.arrays:
        base = _scores(read, "base.", shape)
        scores = scores.plus(base)
    return LinearModel(labels, encoder, scores, read.flag("one_versus_all"), base, given.get("base"))


def _scores(read: Reader, prefix: str, shape: tuple[int, int]) -> LinearScores:
    return LinearScores(read.floats(f"{prefix}coef", shape), read.floats(f"{prefix}intercept", shape[:1]))
