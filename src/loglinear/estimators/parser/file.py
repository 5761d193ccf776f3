"""What of a parser stands in a model file, and how it is read back.

    header   options (of the parser), labels, training (trees, words, seconds, message), model (the criterion's own)
    arrays   the criterion's own

A file with a right checksum may still come from a stranger: nothing in it is run, and numbers are checked before use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loglinear.arrays import Arrays
from loglinear.errors import LoglinearError, ModelFileError, OptionError
from loglinear.estimators.options import ParserOptions
from loglinear.estimators.parser.problem import tree_criterion
from loglinear.features.spans import Own
from loglinear.options import declared

if TYPE_CHECKING:
    from loglinear.estimators.parser.estimator import Parser

KIND = "parser"


def _check_function(header: dict[str, Any], name: str, span_features: Own | None) -> None:
    """Refuse to load a model without the function of span features that it was trained with, or with one too many."""
    model = header.get("model")
    attributes = model.get("attributes") if isinstance(model, dict) else None
    had_one = isinstance(attributes, dict) and bool(attributes.get("own"))
    if had_one and span_features is None:
        raise OptionError(
            f"{name}: trained with a function of span features; load it with the same (span_features=...)"
        )
    if span_features is not None and not had_one:
        raise OptionError(f"{name}: trained without a function of span features; load it without span_features")


def to_storage(parser: Parser) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of the model file of a fitted parser."""
    parser._fitted()
    criterion, _ = tree_criterion(parser.criterion)
    model, arrays = criterion.to_storage(parser.model_)
    header = {
        "options": {name: getattr(parser, name) for name, each in declared(ParserOptions).items() if each.stored},
        "labels": parser.classes_,
        "training": {
            "trees": parser.n_trees_,
            "words": parser.n_words_,
            "seconds": parser.seconds_,
            "message": parser.message_,
        },
        "model": model,
    }
    return header, arrays


def from_storage(
    cls: type[Parser], header: dict[str, Any], arrays: Arrays, name: str, span_features: Own | None = None
) -> Parser:
    """The parser of a file's header and arrays; anything that does not fit is a :class:`ModelFileError`."""
    _check_function(header, name, span_features)
    try:
        options = {str(key): value for key, value in header["options"].items() if key in declared(ParserOptions)}
        parser = cls(**options, span_features=span_features)
        parser.check_options()
        criterion, _ = tree_criterion(parser.criterion)
        parser.model_ = criterion.from_storage(header["model"], arrays, span_features)
        labels, training = header["labels"], header["training"]
        if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
            raise ValueError("the labels are not a list of strings")
        parser.classes_ = labels
        parser.n_trees_, parser.n_words_ = int(training["trees"]), int(training["words"])
        parser.seconds_, parser.message_ = float(training["seconds"]), str(training["message"])
    except (LoglinearError, KeyError, TypeError, ValueError, AttributeError, OverflowError, MemoryError) as error:
        detail = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise ModelFileError(f"{name}: the model file's content does not fit together ({detail}); train anew") from None
    return parser
