"""How a tagger's model is stored in a model file, and read back.

    header   options, labels, constraints, encoder (template or pair_features ...), weight_exponent, base (None or see
             below), training (free notes)
    arrays   weights [D] (float64, float32 or float16; times 2^weight_exponent); strings (packed); encoder.*

What else there is depends on the structure (:meth:`SequenceModel.to_storage`). Of a chain:

    header   order, local, sub_labels, input_only
    arrays   state.counts, state.codes; edge.counts, edge.codes; transitions; trigrams; fourgrams (order 3); scaling

Of a generative base:

    header   kind, order, columns, sizes (values of each)
    arrays   base.steps [K + 1, Y + 1]; base.emissions [Y, sum of sizes]; base.strings.* (packed)

A base of the user's own is not stored, only that there is one: kind ``own``, its name, columns and candidates. Whoever
loads the model gives it again.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Arrays
from loglinear.errors import OptionError
from loglinear.estimators.tagger.model import MODELS, SequenceModel, model_class
from loglinear.model_file import MOST_EXPONENT, Reader, restored, stored, string_arrays
from loglinear.structures.constraints import Constraints

if TYPE_CHECKING:
    from loglinear.generative.base import Base, HmmBase, OwnBase

KIND = "tagger"
OWN = "own"
MOST = 10_000_000  # columns of a corpus, and values of one
DEFAULT = "chain"  # the structure of a file that names none
_TEMPLATES = "loglinear.features.templates"
ENCODERS = {
    "template": (f"{_TEMPLATES}.encoder", "TemplateEncoder"),
    "names": ("loglinear.features.names", "NameEncoder"),
    "hashed-template": (f"{_TEMPLATES}.hashed", "HashedTemplateEncoder"),
    "hashed-names": (f"{_TEMPLATES}.hashed", "HashedNameEncoder"),
}  #: module and class by kind, imported when a model has one


def to_storage(
    model: SequenceModel, options: dict[str, Any], training: dict[str, Any], precision: npt.DTypeLike = np.float64
) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a model file, the weights stored in the given ``precision``."""
    weights, exponent = stored(model.weights, precision)
    parts, arrays = model.to_storage()
    base, base_arrays = (None, {}) if model.base is None else _base_to_storage(model.base)
    encoder, encoder_arrays = encoder_to_storage(model.encoder)
    header = {
        "options": options,
        "labels": model.labels,
        "weight_exponent": exponent,
        **parts,
        "base": base,
        "constraints": None if model.constraints is None else model.constraints.to_dict(),
        "encoder": encoder,
        "training": training,
    }
    return header, {**arrays, "weights": weights, **base_arrays, **encoder_arrays}


def encoder_to_storage(encoder: Any) -> tuple[dict[str, Any], Arrays]:
    """The header and the arrays of what makes attributes of a corpus."""
    arrays = {f"encoder.{name}": array for name, array in encoder.to_arrays().items()}
    return {"kind": encoder.kind, **encoder.to_header()}, {**string_arrays("strings", encoder.strings), **arrays}


def read_encoder(read: Reader) -> tuple[str, Any]:
    """The kind and the object of what makes attributes of a corpus."""
    attributes, strings = read.section("encoder"), read.strings("strings")
    kind: str = attributes.choice("kind", list(ENCODERS))
    module, name = ENCODERS[kind]
    with read.building("encoder"):
        return kind, getattr(import_module(module), name).from_storage(attributes.header, attributes.arrays, strings)


def from_storage(read: Reader, own: OwnBase | None = None) -> Any:
    """The model of a file; ``own`` is the base that the file does not hold, if it wants one."""
    options, labels, attributes = read.section("options"), read.names("labels"), read.section("encoder")
    kind, encoder = read_encoder(read)
    if attributes.value("bits", None) != options.value("hash_bits", None):
        attributes.fail("bits", "the attributes are not hashed as the options say")
    structure = options.choice("structure", list(MODELS), default=DEFAULT)
    model = model_class(structure).from_storage(read, labels, encoder)
    numbers = read.floats("weights", (model.features.n_features,))
    with np.errstate(over="ignore"):
        weights = restored(numbers, read.integer("weight_exponent", 0, MOST_EXPONENT, default=0))
    if not np.isfinite(weights).all():
        read.fail("weights", "a weight is not a finite number")
    base: Base | None = None
    of_columns = kind.endswith("template")
    if own is not None:
        own = base = _bound(read.section("base"), own, labels)
    elif read.has("base"):
        base = _base_from_storage(read.section("base"), len(labels) * model.sub_labels)
    if base is not None and of_columns != (own is None or own.columns is not None):
        read.fail("base", "the base model and the features are not of the same kind of data")
    with read.building("constraints"):
        rules = read.value("constraints")
        constraints = None if rules is None else Constraints.from_dict(rules)
        model = replace(model, weights=weights, constraints=constraints)
        _ = model.penalties  # constraints that do not fit the labels fail here
    return model if base is None else replace(model, base=base)  # type: ignore[call-arg]  # only chains have one


def read_data(read: Reader) -> dict[str, str]:
    """How files of the training data were read, from the notes on training; empty if they do not say."""
    found = read.section("training").value("data", None)
    if found is None:
        return {}
    known = {"format", "separator", "comments"}
    if not isinstance(found, dict) or not found.keys() <= known or not all(isinstance(v, str) for v in found.values()):
        read.fail("training.data", f"not a dict of {', '.join(sorted(known))}")
    return found


# -- the generative base -----------------------------------------------------------------------------------------------


def _base_to_storage(base: Base) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a base."""
    from loglinear.generative.base import HmmBase, OwnBase

    if isinstance(base, OwnBase):
        columns = None if base.columns is None else list(base.columns)
        return {"kind": OWN, "name": base.name, "columns": columns, "candidates": base.candidates}, {}
    assert isinstance(base, HmmBase)
    header = {
        "kind": base.kind,
        "order": base.model.order,
        "columns": list(base.vocabulary.columns),
        "sizes": [len(values) for values in base.vocabulary.values],
    }
    arrays: Arrays = {
        "base.steps": base.model.steps,
        "base.emissions": np.concatenate(base.model.emissions, axis=1),
        **string_arrays("base.strings", [value for values in base.vocabulary.values for value in values]),
    }
    return header, arrays


def is_over_own_base(read: Reader) -> bool:
    """Whether the model was trained over a base of the user's own."""
    stored = read.value("base", None)
    return isinstance(stored, dict) and stored.get("kind") == OWN


def own_base(read: Reader, given: Any) -> OwnBase | None:
    """The base that whoever loads the file gives; an error if the model needs one, or has no use for one."""
    if not is_over_own_base(read):
        if given is not None:
            raise OptionError(f"base={given!r:.60}: the model of {read.file} was not trained over a base of one's own")
        return None
    stored = read.header["base"]
    if given is None:
        raise OptionError(
            f"{read.file}: the model was trained over a custom base ({stored.get('name')!s:.80}), which model files "
            "cannot store; it can only be used from Python, with Tagger.load(path, base=...)"
        )
    from loglinear.generative.base import CANDIDATES, OwnBase

    base = OwnBase.of(given)
    if isinstance(given, OwnBase):
        return base
    with read.building("base"):
        return replace(base, candidates=stored.get("candidates", CANDIDATES.default))


def _bound(read: Reader, base: OwnBase, labels: list[str]) -> OwnBase:
    """The user's base over a model's labels and columns."""
    columns = None if read.value("columns") is None else whole_numbers(read, "columns")
    with read.building("columns"):
        return base.bound(labels, columns)


def whole_numbers(read: Reader, key: str, least: int = 0) -> list[int]:
    """A list of whole numbers in a header, each from ``least`` to :data:`MOST`."""
    found = read.value(key)
    if not isinstance(found, list) or not found or not all(type(n) is int and least <= n <= MOST for n in found):
        read.fail(key, f"not a list of whole numbers from {least} to {MOST:,}")
    return found


def _base_from_storage(read: Reader, n_labels: int) -> HmmBase:
    """The base of the section ``base``."""
    from loglinear.generative.base import BASES, HmmBase
    from loglinear.generative.hmm.model import HiddenMarkovModel, OpenVocabulary, number_of_states

    kind, order = read.choice("kind", list(BASES)), read.choice("order", (1, 2))
    columns, sizes = whole_numbers(read, "columns"), whole_numbers(read, "sizes", least=1)
    strings = read.strings("strings")
    if len(columns) != len(sizes) or len(strings) != sum(sizes):
        read.fail("sizes", "the values do not fit the columns")
    if len(set(columns)) != len(columns):
        read.fail("columns", "a column is there twice")
    steps = read.floats("steps", (number_of_states(n_labels, order) + 1, n_labels + 1), 0.0, 1.0)
    emissions = read.floats("emissions", (n_labels, len(strings)), 0.0, 1.0)
    if not np.allclose(steps.sum(axis=1), 1.0, atol=1e-6):
        read.fail("steps", "the probabilities do not add up to one")
    ends = np.cumsum(sizes)
    values = [strings[end - size : end] for end, size in zip(ends.tolist(), sizes, strict=True)]
    tables = [np.ascontiguousarray(table) for table in np.split(emissions, ends[:-1], axis=1)]
    return HmmBase(kind, OpenVocabulary(tuple(columns), values), HiddenMarkovModel(order, n_labels, steps, tables))
