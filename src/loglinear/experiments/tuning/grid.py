"""Grids: which values of which options are tried; each combination is checked before any is trained.

A grid's key is an option of the tagger, or of its criterion or optimizer (``criterion:C``, ``optimizer:memory``). On
the command line ``--grid l2=0.01,0.1,1`` separates values by commas, or by semicolons where values have commas
themselves: ``--grid "criterion=mira:k=5,C=0.1;cll"``. ``none`` leaves the option at None.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loglinear.criteria.criterion import CRITERIA
from loglinear.errors import LoglinearError, OptionError
from loglinear.estimators.conventions import clone
from loglinear.estimators.options import TaggerOptions, read_states
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
FROM_WEIGHTS = ("lbfgs", "newton", "sgd", "adagrad")  # dual ascent starts from zero, online learners have no penalty


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
            raise OptionError(f"--grid {text!r}: {key} has a grid already; give all its values in one --grid")
        grid[key] = [_value(key, one.strip(), text) for one in values.split(";" if ";" in values else ",")]
    return grid


def _value(key: str, text: str, whole: str) -> Any:
    if not text:
        raise OptionError(f"--grid {whole!r}: a value is empty; write none to leave the option out")
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
            f"a grid over {key!r}: there is no such option; choose from {', '.join(known)}, and those of the criterion "
            "or optimizer, as in criterion:C"
        )


@dataclass(frozen=True)
class Candidate:
    """One combination: its number, what the grid sets, and the tagger with these options.

    ``optimizer`` is the name of the one that trains it from zero; None for a model without weights.
    """

    number: int
    setting: Setting
    tagger: Tagger
    optimizer: str | None = None

    @property
    def name(self) -> str:
        """The setting in a line."""
        return _setting_text(self.setting) or "as given"

    def options(self) -> dict[str, Any]:
        """All options that differ from their defaults, as JSON keeps them; part of the key of a cell."""
        defaults, options = Tagger().get_params(deep=False), self.tagger.get_params(deep=False)
        return setting_content({
            name: value
            for name, value in options.items()
            if name not in NO_GRID and not _same(value, defaults[name])
        })  # fmt: skip


def _same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, str | int | float) and type(one) is type(other) and one == other)


def _setting_text(setting: Setting) -> str:
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
    """All combinations of the grid's values; an error names the one that cannot be trained."""
    found: list[Candidate] = []
    for key, values in grid.items():
        _check_key(key)
        if isinstance(values, str) or not hasattr(values, "__iter__") or not list(values):
            raise OptionError(f"the grid of {key} is {values!r:.60}; give a list of values")
    for values in itertools.product(*grid.values()):
        setting = dict(zip(grid, values, strict=True))
        try:
            made = clone(tagger).set_params(**_parameters(tagger, setting))
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
            raise OptionError(f"{key} is an option of the {role}, which is not named; name it too")
        if isinstance(value, bool):
            value = "yes" if value else "no"
        plain[role] = f"{spec}{',' if ':' in str(spec) else ':'}{option}={value}"
    return plain


def _misfit(setting: Setting, error: Exception) -> OptionError:
    return OptionError(f"{_setting_text(setting) or 'the options'}: {error}")


def validated(chosen: Sequence[Candidate], data: Data) -> list[Candidate]:
    """Try each combination on a few sentences, so that options that do not fit the data fail before any training."""
    sample, found = data.sample(), []
    for candidate in chosen:
        try:
            found.append(replace(candidate, optimizer=_tried(candidate.tagger, sample)))
            if candidate.tagger.constraints is not None and "constraints" in candidate.setting:
                _check_constraints(candidate.tagger, data)
        except (LoglinearError, OSError) as error:
            raise _misfit(candidate.setting, error) from None
    return found


def _tried(tagger: Tagger, sample: Data) -> str | None:
    """Train for a pass on a few sentences; the name of the optimizer that all sentences are trained by."""
    trial = clone(tagger)
    trial.check_options()
    arguments = sample.fit_arguments()
    if not CRITERIA.part(tagger.criterion).learns_weights:
        trial.fit(**arguments)
        return None
    probable = read_states(tagger.states)
    trial.set_params(max_iter=1 if probable is None else probable.after + 1, min_count=1, threads=1)
    trial.fit(**arguments)
    if tagger.optimizer is not None:
        return spec_name(tagger.optimizer)
    problem = trial.problem(**arguments)
    criterion = problem.criterion(tagger.criterion, tagger.cost)
    return planned_optimizer(TaggerTraining(problem), trial, criterion, True)[0].name


def _check_constraints(tagger: Tagger, data: Data) -> None:
    """Check all training labels against the constraints, with features that cost little."""
    plain = Tagger(constraints=tagger.constraints, template=None if tagger.template is None else "B\n")
    plain.problem(**data.fit_arguments())


def warm_chains(chosen: Sequence[Candidate], warm: bool) -> list[list[Candidate]]:
    """Chains of combinations that differ in their penalty alone, the strongest first; each starts from the one before.

    Only where that does not change the optimum: convex, smooth criteria and optimizers that can start from weights. (A
    criterion with kinks, such as max-margin, has seldom reached its optimum when training stops.)
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
    """The option by which a combination sets its penalty, if it does."""
    return next((name for name in PENALTIES if isinstance(candidate.setting.get(name), int | float)), None)


def _strength(candidate: Candidate) -> float:
    """The key that sorts combinations by their penalty, the strongest first."""
    name = penalty_of(candidate)
    assert name is not None
    return PENALTIES[name] * float(candidate.setting[name])


def can_start_from_weights(candidate: Candidate) -> bool:
    """Whether a training that starts from another's weights ends at the same optimum."""
    tagger = candidate.tagger
    criterion = CRITERIA.part(tagger.criterion)
    if candidate.optimizer not in FROM_WEIGHTS or not OPTIMIZERS.part(candidate.optimizer).takes_l2:
        return False
    return criterion.convex and criterion.smooth and criterion.starts_from is None and tagger.sub_labels == 1
