"""What of a parser stands in a model file, and how it is read back.

    header   options (of the parser), labels, training (trees, words, seconds, message), model (the criterion's own)
    arrays   the criterion's own

A file with a right checksum may still come from a stranger: nothing in it is run, and numbers are checked before use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loglinear.errors import LoglinearError, ModelFileError
from loglinear.estimators.parser_options import PARSER_OPTIONS
from loglinear.estimators.tree_criteria import Arrays, tree_criterion

if TYPE_CHECKING:
    from loglinear.estimators.parser import Parser

KIND = "parser"


def to_storage(parser: Parser) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of the model file of a fitted parser."""
    parser._fitted()
    criterion, _ = tree_criterion(parser.criterion)
    model, arrays = criterion.to_storage(parser.model_)
    header = {
        "options": {name: getattr(parser, name) for name in PARSER_OPTIONS if name != "threads"},
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


def from_storage(cls: type[Parser], header: dict[str, Any], arrays: Arrays, name: str) -> Parser:
    """The parser of a file's header and arrays; anything that does not fit is a :class:`ModelFileError`."""
    try:
        parser = cls(**{str(key): value for key, value in header["options"].items() if key in PARSER_OPTIONS})
        parser.check_options()
        criterion, _ = tree_criterion(parser.criterion)
        parser.model_ = criterion.from_storage(header["model"], arrays)
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
