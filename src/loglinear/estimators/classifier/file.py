"""What of a classifier stands in a model file, and how it is read back with every bound checked.

    header   options, labels (type and values), encoder (kind and what it needs), by_function, one_versus_all, own_base,
             training (free notes)
    arrays   coef [R, A], intercept [R]; base.coef [R, A], base.intercept [R] if there is a naive Bayes base (the others
             hold the learnt part alone then); weights [D] for a feature map; strings (packed); encoder.*

A file with a right checksum may still come from a stranger: nothing in it is run, and every number is checked before it
is used as an index. Functions of the user's own (features, feature_map, candidates, base) are not in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loglinear.arrays import Array, Arrays, Float
from loglinear.errors import LoglinearError, ModelFileError, OptionError
from loglinear.estimators.classifier import model as classifier_model
from loglinear.estimators.classifier.inputs import ENCODERS
from loglinear.estimators.classifier.model import (
    CandidateEncoder,
    CandidateModel,
    LinearModel,
    LinearScores,
    functions_again,
)
from loglinear.features.names import NameEncoder
from loglinear.model_file import pack_strings, unpack_strings

KIND = "classifier"

LABEL_TYPES = {"str": np.str_, "object": np.object_, "bool": np.bool_, "int": np.int64, "float": np.float64}


def labels_to_header(labels: Array) -> dict[str, Any]:
    """Labels as JSON: their type, and they."""
    kinds = {"U": "str", "O": "object", "b": "bool", "i": "int", "u": "int", "f": "float"}
    values = labels.tolist()
    if labels.dtype.kind not in kinds or not all(isinstance(value, str | bool | int | float) for value in values):
        raise OptionError(f"a model file cannot keep the label {values[0]!r:.60}; use strings or numbers as labels")
    return {"type": kinds[labels.dtype.kind], "values": values}


def labels_of_header(stored: Any) -> Array:
    """The labels of a file, distinct and sorted."""
    values = stored["values"]
    if not isinstance(values, list) or len(values) < 2 or stored["type"] not in LABEL_TYPES:
        raise ValueError("the labels cannot be read")
    if not all(isinstance(value, str | bool | int | float) for value in values):
        raise ValueError("the labels cannot be read")
    labels: Array = np.array(values, dtype=LABEL_TYPES[stored["type"]])
    if labels.tolist() != values or not np.array_equal(np.unique(labels), labels):
        raise ValueError("the labels are not distinct and sorted")
    return labels


def to_storage(
    model: LinearModel | CandidateModel, options: dict[str, Any], training: dict[str, Any], by_function: bool = False
) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a model file."""
    header = {
        "options": options,
        "training": training,
        "labels": labels_to_header(model.labels),
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
    blob, offsets = pack_strings(encoder.strings)
    arrays |= {"strings.bytes": blob, "strings.offsets": offsets}
    arrays |= {f"encoder.{name}": array for name, array in encoder.to_arrays().items()}
    return header, arrays


def from_storage(header: Any, arrays: Arrays, name: str, given: dict[str, Any] | None) -> LinearModel | CandidateModel:
    """The model of a file's header and arrays.

    ``given`` are the user's functions and base, by option; None if the model is to be looked at alone.
    """
    try:
        kind, by_function = header["encoder"]["kind"], header["by_function"]
        if given is not None:
            functions_again(kind, by_function, {k: v for k, v in given.items() if k != "base"}, name)
            if header.get("own_base", False) != (given["base"] is not None):
                again = "over a base of your own; give it again, as in base=..."
                raise OptionError(f"{name} was trained {again if given['base'] is None else 'without such a base'}")
        return _checked(header, arrays, kind, given or dict.fromkeys(("feature_map", "candidates", "base")))
    except OptionError:
        raise
    except (LoglinearError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        detail = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ModelFileError(f"{name}: the model file's content does not fit together ({detail}); train anew") from None


def _checked(header: dict[str, Any], arrays: Arrays, kind: str, given: dict[str, Any]) -> LinearModel | CandidateModel:
    if not isinstance(header["options"], dict) or not isinstance(header["training"], dict):
        raise ValueError("the options or the notes on training cannot be read")
    labels = labels_of_header(header["labels"])
    strings = unpack_strings(arrays["strings.bytes"], arrays["strings.offsets"])
    own = {key.removeprefix("encoder."): array for key, array in arrays.items() if key.startswith("encoder.")}
    if kind == classifier_model.KIND:
        names = NameEncoder.from_storage(header["encoder"], own, strings)
        encoder = CandidateEncoder(given["feature_map"], given["candidates"], names)
        return CandidateModel(labels, encoder, finite(arrays["weights"], (names.n_attributes,)))
    if kind not in ENCODERS or not isinstance(header["one_versus_all"], bool):
        raise ValueError(f"unknown encoder {kind!r:.40}")
    rows = ENCODERS[kind].from_storage(header["encoder"], own, strings)
    n = 1 if len(labels) == 2 else len(labels)
    scores, base = _scores(arrays, "", n, rows.n_columns), None
    if "base.coef" in arrays:
        base = _scores(arrays, "base.", n, rows.n_columns)
        scores = scores.plus(base)
    return LinearModel(labels, rows, scores, header["one_versus_all"], base, given["base"])


def _scores(arrays: Arrays, prefix: str, n: int, n_columns: int) -> LinearScores:
    return LinearScores(finite(arrays[f"{prefix}coef"], (n, n_columns)), finite(arrays[f"{prefix}intercept"], (n,)))


def finite(array: Array, shape: tuple[int, ...]) -> Float:
    """An array of finite numbers of this shape, a copy."""
    if array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
        raise ValueError("the weights do not fit the columns and labels")
    return np.array(array, dtype=np.float64)
