"""The public interface as data: names that can be imported, constructor parameters, and the command line's options."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import typer.main
from command_line import output_of
from golden_records import plain
from typer.core import TyperArgument

import loglinear
import loglinear.data
import loglinear.errors
import loglinear.evaluation
from loglinear.cli import app

Parameters = dict[str, list[str]]
ESTIMATORS = [
    "Tagger",
    "HMM",
    "Parser",
    "LocalTagger",
    "Mixture",
    "NaiveBayes",
    "InputClassifier",
    "DependencyParser",
    "Classifier",
    "LeastSquares",
    "Ridge",
]
NEEDED = {"LocalTagger": {"classifier": None}}  #: parameters without a default, and a value for them


def names() -> dict[str, list[str]]:
    """Public names of each module."""
    errors = vars(loglinear.errors).items()
    return {
        "loglinear": sorted(loglinear.__all__),
        "loglinear.data": sorted(loglinear.data.__all__),
        "loglinear.evaluation": sorted(loglinear.evaluation.__all__),
        "loglinear.errors": sorted(
            name for name, value in errors if isinstance(value, type) and issubclass(value, Exception)
        ),
    }


def error_bases() -> dict[str, list[str]]:
    """What each error can be caught as."""
    return {
        name: [base.__name__ for base in getattr(loglinear.errors, name).__mro__[1:-1]]
        for name in names()["loglinear.errors"]
    }


def constructors() -> dict[str, Any]:
    """For each estimator its parameters in the order of the constructor, with defaults."""
    found = {}
    for name in ESTIMATORS:
        parameters = inspect.signature(getattr(loglinear, name)).parameters
        found[name] = [{"name": each.name, **_default_of(each.default)} for each in parameters.values()]
    return found


def _default_of(value: Any) -> dict[str, Any]:
    return {} if value is inspect.Parameter.empty else {"default": plain(value)}


def options() -> dict[str, dict[str, Any]]:
    """``get_params()`` of each estimator with its defaults."""
    return {name: plain(getattr(loglinear, name)(**NEEDED.get(name, {})).get_params(deep=False)) for name in ESTIMATORS}


def methods() -> dict[str, dict[str, Parameters]]:
    """For each estimator its own public methods with their parameters."""
    found = {}
    for name in ESTIMATORS:
        kind = getattr(loglinear, name)
        own = [each for each in dir(kind) if not each.startswith("_") and inspect.isroutine(getattr(kind, each))]
        found[name] = {
            each: _parameters_of(getattr(kind, each))
            for each in own
            if getattr(kind, each).__module__.startswith("loglinear")
        }
    return found


def functions() -> dict[str, Parameters]:
    """Parameters of public functions, and of the constructors of public classes that are no estimators."""
    found = {}
    for module in (loglinear, loglinear.data, loglinear.evaluation):
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value) and name not in ESTIMATORS and not _is_error(value):
                found[f"{module.__name__}.{name}"] = _parameters_of(value)
    return found


def _parameters_of(function: Any) -> Parameters:
    """Names of the parameters that may be given by place, in order, and of those that go by keyword alone."""
    known = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    return {
        "positional": [each.name for each in known if each.kind is not inspect.Parameter.KEYWORD_ONLY],
        "keyword": [each.name for each in known if each.kind is inspect.Parameter.KEYWORD_ONLY],
    }


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def commands() -> dict[str, list[dict[str, Any]]]:
    """For each command, as ``parse train``, its parameters."""
    return dict(_commands(typer.main.get_command(app), ()))


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    yield " ".join(path), [_parameter(each) for each in command.params]
    for name, sub in getattr(command, "commands", {}).items():
        yield from _commands(sub, (*path, name))


def _parameter(parameter: Any) -> dict[str, Any]:
    """What of a parameter users rely on: its flags or its place, and what it takes."""
    annotation = _annotation(parameter)
    found = {
        "name": parameter.name,
        "flags": [] if isinstance(parameter, TyperArgument) else [*parameter.opts, *parameter.secondary_opts],
        "type": TYPES.get(annotation, str(annotation)),
        "default": None if parameter.default in ((), []) else plain(parameter.default),
        "choices": _choices(parameter, annotation),
        "required": parameter.required,
        "nargs": parameter.nargs,
        "multiple": getattr(parameter, "multiple", False),
        "is_flag": getattr(parameter, "is_flag", False),
    }
    return {key: value for key, value in found.items() if value not in (None, [], False) or key == "default"}


TYPES = {
    int: "integer",
    "integer": "integer",
    "integer range": "integer",
    float: "float",
    "float": "float",
    "float range": "float",
    bool: "boolean",
    "boolean": "boolean",
    str: "text",
    Path: "text",
    "text": "text",
    "path": "text",
    "choice": "text",
}  #: what a user types, by the Python type (newer versions of Typer) or by Click's name of it (older ones)


def _annotation(parameter: Any) -> Any:
    """The Python type of one value, or Click's name of it."""
    if not hasattr(parameter, "type_descriptor"):
        return parameter.type.name
    annotation = parameter.type_descriptor.annotation
    return next((each for each in get_args(annotation) if each is not type(None)), annotation)


def _choices(parameter: Any, annotation: Any) -> list[Any] | None:
    """The values that are taken, where there are only some."""
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [each.value for each in annotation]
    return plain(getattr(getattr(parameter, "type", None), "choices", None))


def interface() -> dict[str, Any]:
    """All of it but the command line."""
    return {
        "names": names(),
        "errors": error_bases(),
        "constructors": constructors(),
        "options": options(),
        "methods": methods(),
        "functions": functions(),
    }


def help_of(command: str, width: int = 100) -> str:
    """What ``loglinear COMMAND --help`` prints."""
    return output_of(*command.split(), "--help", width=width)
