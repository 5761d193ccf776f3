"""Whatever version 0.1.0 offered is still there: names, parameters with their defaults, commands with their options.

What is new is no concern of these tests. The words of ``--help`` may change, too; ``help.txt`` keeps those of 0.1.0 for
readers.
"""

from __future__ import annotations

import re
from typing import Any

import golden_records
import public_interface
import pytest

import loglinear

INTERFACE = golden_records.read(golden_records.HERE / "interface.json")
COMMANDS = golden_records.read(golden_records.HERE / "commands.json")
N_COMMANDS = 28  # beside the program itself and the four that only have commands below them
WIDER = {("cluster", "-k"): "text"}  # options that take more than they did: since 0.2.0 also 2-10, to choose from
WIDE = 250  # columns of a terminal that cuts no option's name


@pytest.fixture(scope="module")
def commands() -> dict[str, Any]:
    return public_interface.commands()


# -- Python --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", INTERFACE["names"])
def test_public_names_are_there(module: str):
    assert set(INTERFACE["names"][module]) <= set(public_interface.names()[module])


@pytest.mark.parametrize("error", INTERFACE["errors"])
def test_an_error_is_caught_as_before(error: str):
    assert set(INTERFACE["errors"][error]) <= set(public_interface.error_bases()[error])


@pytest.mark.parametrize("estimator", INTERFACE["constructors"])
def test_a_constructor_takes_the_same_arguments_the_first_of_them_by_position(estimator: str):
    """Since 0.2.0 the others are given by keyword (CHANGELOG): options are inherited, and their order says nothing."""
    recorded = INTERFACE["constructors"][estimator]
    found = public_interface.constructors()[estimator]
    assert all(each in found for each in recorded)
    assert all("default" in each for each in found if each not in recorded), "a new parameter needs a default"
    if estimator != "LeastSquares":  # none of its options is what it is about
        made = getattr(loglinear, estimator)("x")
        assert made.get_params(deep=False)[recorded[0]["name"]] == "x"


@pytest.mark.parametrize("estimator", INTERFACE["options"])
def test_get_params_has_the_same_defaults(estimator: str):
    found = public_interface.options()[estimator]
    assert list(golden_records.differences(INTERFACE["options"][estimator], found, golden_records.EXACT)) == []


@pytest.mark.parametrize("estimator", INTERFACE["methods"])
def test_methods_take_the_same_arguments(estimator: str):
    found = public_interface.methods()[estimator]
    for method, parameters in INTERFACE["methods"][estimator].items():
        assert method in found, f"{estimator}.{method} is gone"
        assert takes(found[method], parameters), f"{estimator}.{method}"


@pytest.mark.parametrize("function", INTERFACE["functions"])
def test_functions_take_the_same_arguments(function: str):
    assert takes(public_interface.functions()[function], INTERFACE["functions"][function])


def takes(found: dict[str, list[str]], recorded: dict[str, list[str]]) -> bool:
    """Whether all calls that were right before still are: the same places, and no keyword gone."""
    places, keywords = recorded["positional"], recorded["keyword"]
    return found["positional"][: len(places)] == places and set(keywords) <= {*found["positional"], *found["keyword"]}


# -- the command line ----------------------------------------------------------------------------------------------


def test_there_are_all_commands(commands: dict[str, Any]):
    assert set(COMMANDS) <= set(commands)
    leaves = [command for command in COMMANDS if command and not any(o.startswith(f"{command} ") for o in COMMANDS)]
    assert len(leaves) == N_COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_options_of_a_command_go_on_working(command: str, commands: dict[str, Any]):
    """Each option has its flags, type and default, and nothing new must be given."""
    by_flag = {flag: each for each in commands[command] for flag in each.get("flags", [])}
    for recorded in COMMANDS[command]:
        for flag in recorded.get("flags", []):
            assert flag in by_flag, f"{command} {flag} is gone"
            was = {**recorded, "type": WIDER.get((command, flag), recorded["type"])}
            assert unlike(was, by_flag[flag]) == [], f"{command} {flag}"
    known = {flag for each in COMMANDS[command] for flag in each.get("flags", [])}
    for flag, each in by_flag.items():
        assert flag in known or not each.get("required"), f"{command} {flag} is new, and must be given"


@pytest.mark.parametrize("command", COMMANDS)
def test_arguments_of_a_command_stand_where_they_stood(command: str, commands: dict[str, Any]):
    recorded = [each for each in COMMANDS[command] if "flags" not in each]
    found = [each for each in commands[command] if "flags" not in each]
    assert len(found) >= len(recorded)
    for old, new in zip(recorded, found, strict=False):
        assert unlike(old, new) == [], f"{command} {old['name']}"
    assert not any(each.get("required") for each in found[len(recorded) :]), f"{command} wants another argument"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_prints_every_flag(command: str):
    page = public_interface.help_of(command, WIDE)
    for recorded in COMMANDS[command]:
        for flag in recorded.get("flags", []):
            assert re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", page), f"{command} --help does not say {flag}"


def unlike(recorded: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """In what a parameter differs, if it takes less than it did or stands for something else when it is left out."""
    wrong = [key for key in ("type", "default", "nargs", "multiple", "is_flag") if recorded.get(key) != found.get(key)]
    if found.get("required") and not recorded.get("required"):
        wrong.append("required")
    if "choices" in found and not set(recorded.get("choices", [])) <= set(found["choices"]):
        wrong.append("choices")
    return wrong
