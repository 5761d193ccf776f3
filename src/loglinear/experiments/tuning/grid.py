"""Grids: which values of which options are tried, and whether each combination makes sense before any is.

A grid's key is an option of the tagger, or of its criterion or optimizer (``criterion:C``, ``optimizer:memory``). On
the command line ``--grid l2=0.01,0.1,1`` has values between commas; where a value itself has one, semicolons part them:
``--grid "criterion=mira:k=5,C=0.1;cll"``. ``none`` is an option that is not given.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import clone

from loglinear.criteria.criterion import CRITERIA
from loglinear.errors import LoglinearError, OptionError
from loglinear.estimators.options import TaggerOptions
from loglinear.estimators.tagger.estimator import Tagger
from loglinear.estimators.tagger.training import TaggerTraining
from loglinear.experiments.store import option_content, setting_content
from loglinear.experiments.tuning.data import Data
from loglinear.optimizers.optimizer import OPTIMIZERS
from loglinear.options import declared, spec_name
from loglinear.training.plan import planned_optimizer

Setting = dict[str, Any]
PENALTIES = {"l2": -1.0, "variance": 1.0}  # the sign by which sorting puts the strongest penalty first
NO_GRID = ("threads", "verbose", "metric", "patience")
FROM_WEIGHTS = ("lbfgs", "newton", "sgd", "adagrad")  # dual ascent goes from zero, online learners have no penalty


def read_grid(texts: Sequence[str]) -> dict[str, list[Any]]:
    """The grid of ``l2=0.1,1`` and other such texts."""
    grid: dict[str, list[Any]] = {}
    for text in texts:
        key, has_values, values = text.partition("=")
        key = key.strip().replace("-", "_")
        if not has_values:
            raise OptionError(f"--grid {text!r}: write an option and its values, as in l2=0.01,0.1,1")
        _check_key(key)
        if key in grid:
            raise OptionError(f"--grid {text!r}: {key} has a grid already")
        grid[key] = [_value(key, one.strip(), text) for one in values.split(";" if ";" in values else ",")]
    return grid


def _value(key: str, text: str, whole: str) -> Any:
    if not text:
        raise OptionError(f"--grid {whole!r}: a value is empty")
    option = declared(TaggerOptions).get(key)
    if option is None:
        return text
    if text == "none" and option.default is None:
        return None
    try:
        if option.choices and not option.is_switch:
            texts = {str(choice): choice for choice in option.choices}
            option.check(texts.get(text, text))
            return texts[text]
        return option.read(text)
    except OptionError as error:
        raise OptionError(f"--grid {whole!r}: {error}") from None


def _check_key(key: str) -> None:
    known = sorted(set(Tagger().get_params(deep=False)) - set(NO_GRID))
    role, _, option = key.partition(":")
    if not (key in known or (role in ("criterion", "optimizer") and option)):
        raise OptionError(
            f"a grid over {key!r}: there is no such option; there are {', '.join(known)}, and those of the criterion "
            "or optimizer, as in criterion:C"
        )


@dataclass(frozen=True)
class Candidate:
    """One combination: its number, what the grid sets, the tagger that it makes, and how that is trained.

    ``optimizer`` is the one that would train it from zero, None for a model without weights.
    """

    number: int
    setting: Setting
    tagger: Tagger
    optimizer: str | None = None

    @property
    def name(self) -> str:
        """The setting in a line."""
        return named_setting(self.setting) or "as given"

    def options(self) -> dict[str, Any]:
        """All options that differ from their defaults, as JSON keeps them; part of the key of a cell."""
        plain = Tagger().get_params(deep=False)
        given = self.tagger.get_params(deep=False)
        return setting_content(
            {name: value for name, value in given.items() if name not in NO_GRID and not _same(value, plain[name])}
        )


def _same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, str | int | float) and type(one) is type(other) and one == other)


def named_setting(setting: Setting) -> str:
    """A setting in a line."""
    return ", ".join(f"{name}={_shown(name, value)}" for name, value in setting.items())


def _shown(name: str, value: Any) -> str:
    """An option's value as a table shows it."""
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:g}"
    text = str(option_content(name, value))
    return text if len(text) <= 40 and "\n" not in text else f"{text[:30]!r}..."


def candidates(tagger: Tagger, grid: Mapping[str, Sequence[Any]]) -> list[Candidate]:
    """All combinations of the grid's values; an error names the one that makes no sense."""
    found: list[Candidate] = []
    for key, values in grid.items():
        _check_key(key)
        if isinstance(values, str) or not hasattr(values, "__iter__") or not list(values):
            raise OptionError(f"the grid of {key} is {values!r:.60}; give a list of values")
    for values in itertools.product(*grid.values()):
        setting = dict(zip(grid, values, strict=True))
        try:
            made = clone(tagger, safe=False).set_params(**_parameters(tagger, setting))
            made.check_options()
        except (LoglinearError, TypeError, ValueError) as error:
            raise _misfit(setting, error) from None
        found.append(Candidate(len(found), setting, made))
    return found


def _parameters(tagger: Tagger, setting: Setting) -> dict[str, Any]:
    """Parameters of the tagger; options of the criterion and the optimizer are added to their specs."""
    plain = {key: value for key, value in setting.items() if ":" not in key}
    for key, value in setting.items():
        role, colon, option = key.partition(":")
        if not colon:
            continue
        spec = plain.get(role, getattr(tagger, role))
        if spec is None:
            raise OptionError(f"{key} is an option of an {role} that is not named; give it")
        if isinstance(value, bool):
            value = "yes" if value else "no"
        plain[role] = f"{spec}{',' if ':' in str(spec) else ':'}{option}={value}"
    return plain


def _misfit(setting: Setting, error: Exception) -> OptionError:
    return OptionError(f"{named_setting(setting) or 'the options'}: {error}")


def rehearsed(chosen: Sequence[Candidate], data: Data) -> list[Candidate]:
    """Try each combination on a few sentences, so that what does not fit the data is said before any training."""
    sample, found = data.sample(), []
    for candidate in chosen:
        try:
            found.append(replace(candidate, optimizer=rehearse(candidate.tagger, sample)))
            if candidate.tagger.constraints is not None and "constraints" in candidate.setting:
                _plain_problem(candidate.tagger, data)
        except (LoglinearError, OSError) as error:
            raise _misfit(candidate.setting, error) from None
    return found


def rehearse(tagger: Tagger, sample: Data) -> str | None:
    """Train for a pass on a few sentences; the name of the optimizer that the whole would have."""
    trial = clone(tagger, safe=False)
    trial.check_options()
    arguments = sample.fit_arguments()
    if not CRITERIA.part(tagger.criterion).learns_weights:
        trial.fit(**arguments)
        return None
    trial.set_params(max_iter=1, min_count=1, threads=1)
    trial.fit(**arguments)
    if tagger.optimizer is not None:
        return spec_name(tagger.optimizer)
    problem = trial.problem(**arguments)
    criterion = problem.criterion(tagger.criterion, tagger.cost)
    return planned_optimizer(TaggerTraining(problem), trial, criterion, criterion.starts_from is None)[0].name


def _plain_problem(tagger: Tagger, data: Data) -> None:
    """Hold all training labels against the constraints, with features that cost little."""
    plain = Tagger(constraints=tagger.constraints, template=None if tagger.template is None else "B\n")
    plain.problem(**data.fit_arguments())


def chains(chosen: Sequence[Candidate], warm: bool) -> list[list[Candidate]]:
    """Runs of combinations that differ in their penalty alone, the strongest first; each starts from the one before.

    Only where that changes the way and not the end: convex, smooth criteria and optimizers that can start from weights.
    (A kinked one, such as max-margin, is seldom at its end when training stops.)
    """
    found: dict[str, list[Candidate]] = {}
    for candidate in chosen:
        penalty = penalty_of(candidate)
        able = warm and penalty is not None and can_start_from_weights(candidate)
        rest = setting_content({key: value for key, value in candidate.setting.items() if key != penalty})
        name = f"{penalty} {rest}" if able else f"number {candidate.number}"
        found.setdefault(name, []).append(candidate)
    for chain in found.values():
        if len(chain) > 1:
            chain.sort(key=_strength)
    return list(found.values())


def penalty_of(candidate: Candidate) -> str | None:
    """The option that a combination sets its penalty by, if it does."""
    return next((name for name in PENALTIES if isinstance(candidate.setting.get(name), int | float)), None)


def _strength(candidate: Candidate) -> float:
    """What combinations with a penalty are sorted by: the strongest penalty comes first."""
    name = penalty_of(candidate)
    assert name is not None
    return PENALTIES[name] * float(candidate.setting[name])


def can_start_from_weights(candidate: Candidate) -> bool:
    """Whether a training may begin with another's weights and end where it would have."""
    tagger = candidate.tagger
    criterion = CRITERIA.part(tagger.criterion)
    if candidate.optimizer not in FROM_WEIGHTS or not OPTIMIZERS.part(candidate.optimizer).takes_l2:
        return False
    return criterion.convex and criterion.smooth and criterion.starts_from is None and tagger.sub_labels == 1
