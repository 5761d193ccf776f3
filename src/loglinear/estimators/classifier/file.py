"""How a classifier is stored in a model file, and read back.

    header   options, labels (type and values), encoder (kind and what it needs), by_function, one_versus_all, own_base,
             training (free notes); with a kernel, kernel (name and options)
    arrays   coef [R, A], intercept [R]; base.coef [R, A], base.intercept [R] if there is a naive Bayes base (the others
             hold the learnt part alone then); weights [D] for a feature map; strings (packed); encoder.*
             with a kernel, coef [R, M], kernel.numbers [M] (of the support rows in the training data), and the support
             rows: kernel.rows [M, A], or kernel.pointer [M + 1], kernel.columns and kernel.values if they are sparse

Objects of the user's own (features, feature_map, candidates, base, a kernel) are not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from loglinear.arrays import Arrays
from loglinear.errors import OptionError
from loglinear.estimators.classifier import model as classifier_model
from loglinear.estimators.classifier.inputs import ENCODERS
from loglinear.estimators.classifier.model import (
    CandidateEncoder,
    CandidateModel,
    KernelModel,
    LinearModel,
    LinearScores,
)
from loglinear.features.gram import KERNELS, OwnKernel, kernel_of_header
from loglinear.features.names import NameEncoder
from loglinear.model_file import Reader, label_header, string_arrays

KIND = "classifier"


def to_storage(
    model: LinearModel | KernelModel | CandidateModel,
    options: dict[str, Any],
    training: dict[str, Any],
    by_function: bool = False,
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
        learnt = model.scores
        if isinstance(model, LinearModel) and model.base is not None:
            learnt = learnt.minus(model.base)
        arrays = {"coef": learnt.coef, "intercept": learnt.intercept}
        if isinstance(model, KernelModel):
            header["kernel"] = model.kernel.to_header()
            arrays |= {f"kernel.{name}": array for name, array in _support_arrays(model).items()}
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
    own_kernel = read.has("kernel") and read.section("kernel").text("name") == OwnKernel.name
    if own_kernel and not callable(given["kernel"]):
        raise OptionError(
            f"{read.file} was trained with a kernel of your own; give the function again, as in kernel=my_kernel"
        )
    known = {needed, "base", "candidates" if has_map else None, "kernel" if own_kernel else None}
    for option, value in given.items():
        if value is not None and option not in known:
            raise OptionError(f"{read.file} was trained without {option}; leave it out")
    if read.flag("own_base", False) != (given["base"] is not None):
        again = "over a base of your own; give it again, as in base=..."
        raise OptionError(f"{read.file} was trained {again if given['base'] is None else 'without such a base'}")


def from_storage(read: Reader, given: Mapping[str, Any]) -> LinearModel | KernelModel | CandidateModel:
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
    if read.has("kernel"):
        return _kernel_model(read, labels, encoder, shape, given)
    scores, base = _scores(read, "", shape), None
    if "base.coef" in read.arrays:
        base = _scores(read, "base.", shape)
        scores = scores.plus(base)
    return LinearModel(labels, encoder, scores, read.flag("one_versus_all"), base, given.get("base"))


def _support_arrays(model: KernelModel) -> Arrays:
    """The support rows, and their numbers."""
    rows, numbers = model.support, {"numbers": model.numbers}
    if not sp.issparse(rows):
        return {**numbers, "rows": np.ascontiguousarray(rows)}
    pointer, columns = rows.indptr.astype(np.int64), rows.indices.astype(np.int32)
    return {**numbers, "pointer": pointer, "columns": columns, "values": rows.data}


def _kernel_model(
    read: Reader, labels: Any, encoder: Any, shape: tuple[int, int], given: Mapping[str, Any]
) -> KernelModel:
    own = read.section("kernel")
    own.choice("name", [*KERNELS, OwnKernel.name])
    with read.building("kernel"):
        kernel = kernel_of_header(own.header, given.get("kernel"))
    numbers = own.ascending("numbers")
    n, n_columns = len(numbers), shape[1]
    if not n:
        own.fail("numbers", "there are no support rows")
    if "rows" in own.arrays:
        support: Any = own.floats("rows", (n, n_columns))
    else:
        pointer, columns = own.lists("pointer", "columns", n, n_columns)
        support = sp.csr_matrix((own.floats("values", (len(columns),)), columns, pointer), shape=(n, n_columns))
    scores = LinearScores(read.floats("coef", (shape[0], n)), read.floats("intercept", shape[:1]))
    base = _scores(read, "base.", shape) if "base.coef" in read.arrays else None
    apart = read.flag("one_versus_all")
    return KernelModel(labels, encoder, kernel, support, numbers, scores, apart, base, given.get("base"))


def _scores(read: Reader, prefix: str, shape: tuple[int, int]) -> LinearScores:
    return LinearScores(read.floats(f"{prefix}coef", shape), read.floats(f"{prefix}intercept", shape[:1]))
