"""What of a chain model stands in a model file, and how it is read back with every bound checked.

    header   options, labels, constraints, encoder (template or pair_features ...), order, local, sub_labels,
             input_only, weight_exponent, base (None or see base_file), training (free notes)
    arrays   weights [D] (float64, float32 or float16; times 2^weight_exponent); scaling; strings (packed); encoder.*;
             state.counts, state.codes; edge.counts, edge.codes; transitions; trigrams

A file with a right checksum may still come from a stranger: nothing in it is run, and every number is checked before it
is used as an index.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Array, Arrays, Float, Int32
from loglinear.errors import LoglinearError, ModelFileError, OptionError
from loglinear.estimators.options import TaggerOptions
from loglinear.estimators.tagger.model import ChainModel
from loglinear.features.block import FeatureBlock
from loglinear.features.names import NameEncoder
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.hashed import HashedNameEncoder, HashedTemplateEncoder
from loglinear.generative.base import BASES, CANDIDATES, Base, HmmBase, OwnBase
from loglinear.generative.hmm.model import HiddenMarkovModel, OpenVocabulary, number_of_states
from loglinear.model_file import MOST_EXPONENT, pack_strings, restored, stored, unpack_strings
from loglinear.options import declared
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.constraints import Constraints

KIND = "tagger"
MOST_SCALING = 1e6
ENCODERS: dict[str, type[TemplateEncoder] | type[NameEncoder]] = {
    encoder.kind: encoder for encoder in (TemplateEncoder, NameEncoder, HashedTemplateEncoder, HashedNameEncoder)
}


def to_storage(
    model: ChainModel, options: dict[str, Any], training: dict[str, Any], precision: npt.DTypeLike = np.float64
) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a model file, the weights stored in the given ``precision``."""
    features = model.features
    blob, offsets = pack_strings(model.encoder.strings)
    weights, exponent = stored(model.weights, precision)
    arrays: Arrays = {
        "weights": weights,
        "strings.bytes": blob,
        "strings.offsets": offsets,
        "state.counts": _narrow(np.diff(features.state.pointer)),
        "state.codes": _narrow(features.state.codes),
        "transitions": features.transitions,
        "trigrams": features.trigrams,
    }
    if model.scaling is not None:
        arrays["scaling"] = model.scaling.astype(np.float64)
    if features.edge is not None:
        arrays["edge.counts"] = _narrow(np.diff(features.edge.pointer))
        arrays["edge.codes"] = _narrow(features.edge.codes)
    base = None
    if model.base is not None:
        base, base_arrays = base_to_storage(model.base)
        arrays |= base_arrays
    arrays |= {f"encoder.{name}": array for name, array in model.encoder.to_arrays().items()}
    header = {
        "options": options,
        "labels": model.labels,
        "weight_exponent": exponent,
        "order": features.order,
        "local": model.local,
        "sub_labels": model.sub_labels,
        "input_only": features.input_only,
        "base": base,
        "constraints": None if model.constraints is None else model.constraints.to_dict(),
        "encoder": {"kind": model.encoder.kind, **model.encoder.to_header()},
        "training": training,
    }
    return header, arrays


def from_storage(header: dict[str, Any], arrays: Arrays, name: str, own: OwnBase | None = None) -> ChainModel:
    """The model of a file's header and arrays; anything that does not fit is a :class:`ModelFileError`.

    ``own`` is the base that is not in the file, if it wants one.
    """
    try:
        return _checked(header, arrays, own)
    except (LoglinearError, KeyError, TypeError, ValueError, AttributeError, OverflowError, MemoryError) as error:
        detail = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise ModelFileError(f"{name}: the model file's content does not fit together ({detail}); train anew") from None


def _checked(header: dict[str, Any], arrays: Arrays, own: OwnBase | None) -> ChainModel:
    labels, order, options = header["labels"], header["order"], header["options"]
    if (order, header.get("sub_labels", 1)) != (options["order"], options.get("sub_labels", 1)):
        raise ValueError("the model is of another order, or has other sub-labels, than its options say")
    if not isinstance(order, int) or isinstance(order, bool) or not isinstance(header["local"], bool):
        raise ValueError("the order or the kind of decoding cannot be read")
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ValueError("the labels are not a list of strings")
    if not labels or len(set(labels)) != len(labels) or order not in (1, 2):
        raise ValueError("the labels are not distinct, or the order is not 1 or 2")
    strings = unpack_strings(arrays["strings.bytes"], arrays["strings.offsets"])
    kind = header["encoder"]["kind"]
    if kind not in ENCODERS:
        raise ValueError(f"unknown encoder {kind!r}")
    encoder_arrays = {key.removeprefix("encoder."): a for key, a in arrays.items() if key.startswith("encoder.")}
    encoder = ENCODERS[kind].from_storage(header["encoder"], encoder_arrays, strings)
    if header["encoder"].get("bits") != options.get("hash_bits"):
        raise ValueError("the attributes are not hashed as the options say")
    sub_labels = header.get("sub_labels", 1)
    declared(TaggerOptions)["sub_labels"].check(sub_labels)
    n = len(labels) * sub_labels
    edge = _block(arrays, "edge", encoder.n_attributes, n**2) if "edge.counts" in arrays else None
    features = ChainFeatures(
        n_labels=n,
        order=order,
        state=_block(arrays, "state", encoder.n_attributes, n + 1 if header.get("input_only", False) else n),
        edge=edge,
        transitions=_codes(arrays["transitions"], n**2),
        trigrams=_codes(arrays["trigrams"], n**3 if order == 2 else 0),
    )
    weights = arrays["weights"]
    if weights.ndim != 1 or weights.dtype.kind != "f" or len(weights) != features.n_features:
        raise ValueError("the number of weights is not the number of features")
    exponent = header.get("weight_exponent", 0)
    if type(exponent) is not int or not 0 <= exponent <= MOST_EXPONENT:
        raise ValueError("the weights' exponent cannot be read")
    with np.errstate(over="ignore"):
        weights = restored(weights, exponent)
    if not np.isfinite(weights).all():
        raise ValueError("a weight is not a finite number")
    constraints = None if header["constraints"] is None else Constraints.from_dict(header["constraints"])
    scaling = None
    if "scaling" in arrays:
        scaling = np.array(arrays["scaling"], dtype=np.float64)
        if scaling.shape != (n + 1,) or not (np.abs(scaling) <= MOST_SCALING).all():
            raise ValueError("the scaling does not fit the labels")
    base: Base | None = None
    if own is not None:
        base = bound(own, header["base"], labels)
    elif header.get("base") is not None:
        base = base_from_storage(header["base"], arrays, n)
    columns = not isinstance(base, OwnBase) or base.columns is not None
    if base is not None and columns != isinstance(encoder, TemplateEncoder):
        raise ValueError("the base model and the features are not of the same kind of data")
    model = ChainModel(
        labels, encoder, features, weights, constraints, bool(header["local"]), sub_labels, scaling, base
    )
    _ = model.penalties  # constraints that do not fit the labels fail here
    return model


def _narrow(numbers: Array) -> Array:
    """Numbers from 0 up as bytes where all of them fit, else as int32."""
    return numbers.astype(np.uint8 if not len(numbers) or numbers.max() < 256 else np.int32)


def _wide(numbers: Array, what: str) -> Int32:
    """What :func:`_narrow` gave as int32: a writable copy, as Numba would compile every kernel anew for another."""
    if numbers.ndim != 1 or numbers.dtype not in (np.uint8, np.int32):
        raise ValueError(f"{what} are not a list of bytes or int32")
    return numbers.astype(np.int32)


def _codes(codes: Array, below: int) -> Int32:
    wide = _wide(codes, "feature codes")
    if len(wide) and (wide.min() < 0 or wide.max() >= below):
        raise ValueError("a feature code is out of range")
    return wide


def _block(arrays: Arrays, name: str, n_attributes: int, n_codes: int) -> FeatureBlock:
    counts, codes = _wide(arrays[f"{name}.counts"], "counts"), _codes(arrays[f"{name}.codes"], n_codes)
    if len(counts) != n_attributes or (counts < 0).any() or counts.sum(dtype=np.int64) != len(codes):
        raise ValueError(f"the {name} features do not fit the attributes")
    pointer = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
    return FeatureBlock(pointer, codes, n_codes)


# ----------------------------------------------------------------------------------------------------------------------
# What of a generative base stands in a model file, and how it is read back with every bound checked.
#
# header   kind, order, columns, sizes (values of each)
# arrays   base.steps [K + 1, Y + 1]; base.emissions [Y, sum of sizes]; base.strings.* (packed)
#
# Of a base of the user's own a file says only that there is one: kind ``own``, its name, columns and candidates.
# Whoever loads the model gives it.

OWN = "own"


def base_to_storage(base: Base) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a base."""
    if isinstance(base, OwnBase):
        columns = None if base.columns is None else list(base.columns)
        return {"kind": OWN, "name": base.name, "columns": columns, "candidates": base.candidates}, {}
    assert isinstance(base, HmmBase)
    sizes = [len(values) for values in base.vocabulary.values]
    blob, offsets = pack_strings([value for values in base.vocabulary.values for value in values])
    header = {
        "kind": base.kind,
        "order": base.model.order,
        "columns": list(base.vocabulary.columns),
        "sizes": sizes,
    }
    arrays: Arrays = {
        "base.steps": base.model.steps,
        "base.emissions": np.concatenate(base.model.emissions, axis=1),
        "base.strings.bytes": blob,
        "base.strings.offsets": offsets,
    }
    return header, arrays


def own_base(header: Any, given: Any, name: str) -> OwnBase | None:
    """The base that whoever loads the file ``name`` gives; an error if the model needs one, or has no use for one."""
    stored = header.get("base") if isinstance(header, dict) else None
    if not isinstance(stored, dict) or stored.get("kind") != OWN:
        if given is not None:
            raise OptionError(f"base={given!r:.60}: the model of {name} has no base of one's own")
        return None
    if given is None:
        raise OptionError(
            f"{name}: the model's base is one of its maker's own ({stored.get('name')!s:.80}), which the file does not "
            "hold; the model can only be used from Python, with Tagger.load(path, base=...)"
        )
    base = OwnBase.of(given)
    return (
        base if isinstance(given, OwnBase) else replace(base, candidates=stored.get("candidates", CANDIDATES.default))
    )


def bound(base: OwnBase, header: dict[str, Any], labels: list[str]) -> OwnBase:
    """The user's base over a model's labels and columns."""
    columns = header["columns"]
    whole = columns is None or all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in columns)
    if not whole or columns == []:
        raise ValueError("the columns of the base cannot be read")
    return base.bound(labels, columns)


def base_from_storage(header: dict[str, Any], arrays: Arrays, n_labels: int) -> HmmBase:
    """The base of a header and arrays; what does not fit is a ValueError."""
    kind, order, columns, sizes = (header[name] for name in ("kind", "order", "columns", "sizes"))
    whole = all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in (*columns, *sizes))
    if kind not in BASES or order not in (1, 2) or not whole or len(columns) != len(sizes) or not columns:
        raise ValueError("the base model is of no known kind")
    strings = unpack_strings(arrays["base.strings.bytes"], arrays["base.strings.offsets"])
    ends = np.cumsum(sizes)
    if len(strings) != ends[-1] or min(sizes) < 1:
        raise ValueError("the base model's values do not fit its columns")
    steps = _probabilities(arrays["base.steps"], (number_of_states(n_labels, order) + 1, n_labels + 1))
    emissions = _probabilities(arrays["base.emissions"], (n_labels, int(ends[-1])))
    if not np.allclose(steps.sum(axis=1), 1.0, atol=1e-6):
        raise ValueError("the base model's probabilities do not add up")
    values = [strings[end - size : end] for end, size in zip(ends.tolist(), sizes, strict=True)]
    tables = [np.ascontiguousarray(table) for table in np.split(emissions, ends[:-1], axis=1)]
    return HmmBase(kind, OpenVocabulary(tuple(columns), values), HiddenMarkovModel(order, n_labels, steps, tables))


def _probabilities(array: Array, shape: tuple[int, int]) -> Float:
    if array.shape != shape or array.dtype.kind != "f" or not ((array >= 0) & (array <= 1)).all():
        raise ValueError("the base model's probabilities do not fit the labels")
    return np.array(array, dtype=np.float64)
