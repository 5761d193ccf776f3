"""The training algorithms of CRFsuite with their parameters: names, defaults and help, and how a value is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from loglinear.errors import OptionError

MOST = 2**31 - 1  # of a whole number


@dataclass(frozen=True)
class Parameter:
    """A parameter of a training algorithm.

    Parameters
    ----------
    name, help : str
    default
    least : float or None
        The least value of a number.
    choices : tuple
        The values there are; empty if they are not listed.
    """

    name: str
    default: Any
    help: str
    least: float | None = 0.0
    choices: tuple[Any, ...] = ()

    def read(self, value: Any) -> Any:
        """The value that a program gives, checked; numbers may come as text."""
        kind = type(self.default)
        read: Callable[[Any], Any] = {bool: _switch, int: _whole}.get(kind, kind)
        try:
            found = read(value)
        except (TypeError, ValueError, OverflowError):
            wanted = {bool: "True or False", int: "a whole number", float: "a number", str: "a name"}[kind]
            raise OptionError(f"{self.name}={value!r:.60} must be {wanted}") from None
        if self.choices and found not in self.choices:
            raise OptionError(f"{self.name}={value!r:.60} is not one of {', '.join(map(str, self.choices))}")
        if kind in (int, float) and not (math.isfinite(found) and (self.least is None or found >= self.least)):
            raise OptionError(f"{self.name}={value!r:.60} must be a finite number of at least {self.least:g}")
        return found


def _switch(value: Any) -> bool:
    number = float(value)
    if number not in (0.0, 1.0):
        raise ValueError(value)
    return bool(number)


def _whole(value: Any) -> int:
    number = int(value) if isinstance(value, str) else value
    if number != int(number):
        raise ValueError(value)
    return min(int(number), MOST)


_FEATURES = (
    Parameter("feature.minfreq", 0.0, "The least frequency of a feature that is kept: the sum of its values."),
    Parameter("feature.possible_states", False, "Whether every attribute has a feature with every label."),
    Parameter("feature.possible_transitions", False, "Whether every pair of labels has a feature."),
)
_L2 = Parameter("c2", 1.0, "The factor of the L2 penalty, the sum of the squared weights.")
_PERIOD = Parameter("period", 10, "The iterations that the stopping rule looks back.", 1)
_PASSES = Parameter("max_iterations", 100, "The most iterations.")
_EPSILON = Parameter("epsilon", 0.0, "Training stops when the mean loss of a sequence is at most this.")

#: The parameters of each algorithm, in CRFsuite's order.
ALGORITHMS: Mapping[str, tuple[Parameter, ...]] = {
    "lbfgs": (
        *_FEATURES,
        Parameter("c1", 0.0, "The factor of the L1 penalty, the sum of the weights' sizes."),
        _L2,
        Parameter("max_iterations", MOST, "The most iterations."),
        Parameter("num_memories", 6, "The pairs of steps that L-BFGS estimates the curvature from.", 1),
        Parameter("epsilon", 1e-5, "Training stops when the gradient is at most this share of the weights long."),
        _PERIOD,
        Parameter("delta", 1e-5, "Training stops when the objective fell by less than this share in a period."),
        Parameter(
            "linesearch", "MoreThuente", "The line search of L-BFGS; there is one here, whichever is named.",
            choices=("MoreThuente", "Backtracking", "StrongBacktracking"),
        ),
        Parameter("max_linesearch", 20, "The most evaluations of a line search.", 1),
    ),
    "l2sgd": (
        *_FEATURES,
        _L2,
        Parameter("max_iterations", 1000, "The most passes over the data."),
        _PERIOD,
        Parameter("delta", 1e-6, "Training stops when the objective fell by less than this share in a period."),
        Parameter("calibration.eta", 0.1, "The first step size that is tried; here it is found without."),
        Parameter("calibration.rate", 2.0, "The factor between step sizes that are tried; here it is 2."),
        Parameter("calibration.samples", 1000.0, "The sequences that step sizes are tried on; here 500."),
        Parameter("calibration.candidates", 10, "The step sizes to choose from; here as many as get better."),
        Parameter("calibration.max_trials", 20, "The most step sizes that are tried; here 12 in each direction."),
    ),
    "averaged-perceptron": (*_FEATURES, _PASSES, _EPSILON),
    "passive-aggressive": (
        *_FEATURES,
        Parameter(
            "type", 1, "How far to step: 0 until the labelling is right, 1 (PA-I) at most c, 2 (PA-II) softened by c.",
            choices=(0, 1, 2),
        ),
        Parameter("c", 1.0, "How aggressive: the largest step of type 1."),
        Parameter("error_sensitive", True, "Whether the margin is the root of the number of wrong labels, or 1."),
        Parameter("averaging", True, "Whether the weights are the mean of those after each step."),
        _PASSES,
        _EPSILON,
    ),
    "arow": (
        *_FEATURES,
        Parameter("variance", 1.0, "The variance of each weight at first."),
        Parameter("gamma", 1.0, "What losses are weighed against changes with: the greater, the smaller the steps."),
        _PASSES,
        _EPSILON,
    ),
}  # fmt: skip
ALIASES = {"ap": "averaged-perceptron", "pa": "passive-aggressive"}


def algorithm_of(name: Any) -> str:
    """The full name of an algorithm."""
    lower = str(name).lower()
    found = ALIASES.get(lower, lower)
    if found not in ALGORITHMS:
        raise OptionError(f"algorithm={name!r:.60} is not known; there are {', '.join([*ALGORITHMS, *ALIASES])}")
    return found
