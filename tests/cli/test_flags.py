"""Flags follow from declared options: none is missing, and each has the declared default, type and help."""

import inspect
import re
import shlex
from typing import Annotated, Any

import pytest
import typer
import typer.main
from typer.testing import CliRunner

from loglinear.cli import app
from loglinear.cli.options import Flags, Given, add, changed, takes
from loglinear.errors import OptionError
from loglinear.estimators import options as estimators
from loglinear.options import declared, option, options

VERBS = {
    estimators.TaggerOptions: ["train"],
    estimators.ClassifierOptions: ["classify train"],
    estimators.ParserOptions: ["parse train", "parse run"],
    estimators.DependencyOptions: ["parse train"],
    estimators.MixtureOptions: ["cluster"],
}
OTHER_DEFAULTS = {  # the verb has none, or chooses by the data
    ("MixtureOptions", "n_components"): None,
    ("MixtureOptions", "components"): None,
    ("DependencyOptions", "criterion"): "pcfg",
    ("DependencyOptions", "max_length"): None,
    ("DependencyOptions", "tolerance"): 1e-5,  # of phrase parsers, which share the flag; each has its own if not given
    ("DependencyOptions", "patience"): 20,
}


def commands(command: Any = None, path: str = "") -> dict[str, Any]:
    """The commands by name, as ``parse train``."""
    command = command or typer.main.get_command(app)
    below = getattr(command, "commands", {})
    found = {name: each for sub in below for name, each in commands(below[sub], f"{path} {sub}".strip()).items()}
    return found or {path: command}


PLAIN = {"COLUMNS": "250", "NO_COLOR": "1", "TERM": "dumb"}
OTHER_TOOLS = ("crfpp", "wapiti", "crfsuite")  # verbs with those tools' options and help (tests/compat)
COMMANDS = {name: each for name, each in commands().items() if name.split()[0] not in OTHER_TOOLS}
DECLARED = [(cls, each) for cls in VERBS for each in declared(cls).values()]


def flag_of(each):
    return each.flags[-1] if each.flags else f"--{each.name.replace('_', '-')}"


def parameter(cls, each):
    for verb in VERBS[cls]:
        for found in COMMANDS[verb].params:
            if flag_of(each) in (*found.opts, *found.secondary_opts):
                return verb, found
    return None, None


@pytest.mark.parametrize(("cls", "each"), DECLARED, ids=[f"{cls.__name__}.{each.name}" for cls, each in DECLARED])
def test_every_declared_option_is_a_flag_of_the_verb_that_trains(cls, each):
    verb, found = parameter(cls, each)
    if each.python_only:
        assert verb is None or found.name != each.name
        return
    assert verb is not None, f"{flag_of(each)} is missing"
    default = OTHER_DEFAULTS.get((cls.__name__, each.name), each.default)
    assert found.default == (str(default) if each.none_word else default)
    assert (flag_of(each) in found.opts) and bool(found.secondary_opts) == (each.is_switch and each.default is True)
    shared = verb == "parse train" and cls is estimators.DependencyOptions
    if not shared:
        assert each.help[1:] in found.help or each.name in ("template",), found.help


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_names_every_flag_and_ends_its_sentences(verb):
    page = CliRunner().invoke(app, [*verb.split(), "--help"], env=PLAIN).stdout
    assert "Examples" in page and f"loglinear {verb}" in page
    for each in COMMANDS[verb].params:
        assert each.help.endswith("."), f"{verb} {each.name}: {each.help}"
        assert all(flag in page for flag in each.opts if flag.startswith("-"))


def examples(command):
    """The commands under a verb's Examples, without what is piped or said about them."""
    for line in (command.epilog or "").split("\n\n")[1:]:
        for piece in re.split(r" \| | && ", line.partition("     (")[0]):
            if piece.startswith("loglinear "):
                yield shlex.split(piece)[1:]


@pytest.mark.parametrize("verb", COMMANDS)
def test_examples_have_the_flags_of_their_verb(verb):
    shown = list(examples(COMMANDS[verb]))
    assert shown
    for words in shown:
        name = next((name for name in (" ".join(words[:2]), words[0]) if name in COMMANDS), None)
        assert name is not None, f"loglinear {verb}: {' '.join(words)!r} begins with no verb"
        known = {flag for each in COMMANDS[name].params for flag in (*each.opts, *each.secondary_opts)}
        used = {word.partition("=")[0] for word in words if re.match("--?[a-z]", word)}
        assert used <= {*known, "-h", "--help"}, f"loglinear {verb}: {' '.join(words)!r}"


# -- a verb of its own -------------------------------------------------------------------------------------------------


@options
class Cooking:
    """Options of a cook."""

    salt: float = option("how much salt", default=1.5, least=0, panel="Taste")
    herbs: list[str] | None = option("a herb", default=None, flags=("--herb",), repeats=True)
    cover: bool = option("with a lid", default=True)
    stir: bool = option("stir", default=False)
    minutes: int | None = option("how long, or ages", default=10, least=1, none_word="ages")
    cook: Any = option("who cooks", default=None, python_only=True)


@options
class Baking:
    """Options of a baker."""

    salt: float = option("how much salt", default=3.0, least=0)
    heat: int = option("how hot", default=200, choices=(180, 200))


def run(verb, *arguments):
    """What the verb was called with."""
    called = []

    def wrapped(**values):
        called.append(values)

    wrapped.__signature__ = inspect.signature(verb, eval_str=True)
    wrapped.__doc__ = verb.__doc__
    kitchen = typer.Typer()
    add(kitchen, "cook")(wrapped)
    result = CliRunner().invoke(kitchen, list(arguments), env=PLAIN)
    if isinstance(result.exception, OptionError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return called[0] if called else result.output


def cook(dish: Annotated[str, typer.Argument()], how: Cooking, given: Given) -> None:
    """Cook.

    Examples
    --------
    loglinear cook soup
    loglinear cook soup --herb dill
    """


def test_a_verb_gets_an_object_with_the_declared_defaults():
    found = run(cook, "soup")
    assert found["dish"] == "soup" and vars(found["how"]) == vars(Cooking())
    assert not found["given"] & {"--salt", "--herb", "--cover"}


def test_a_verb_gets_what_is_given_as_python_has_it():
    arguments = [
        "soup",
        "--herb",
        "dill",
        "--herb",
        "mint",
        "--no-cover",
        "--stir",
        "--minutes",
        "ages",
        "--salt",
        "1.5",
    ]
    found = run(cook, *arguments)
    how = found["how"]
    assert (how.herbs, how.cover, how.stir, how.minutes, how.salt) == (["dill", "mint"], False, True, None, 1.5)
    assert {"--herb", "--cover", "--stir", "--minutes", "--salt"} <= found["given"]
    assert changed(how, "salt", "herbs", "stir", "cover") == ["--herb", "--stir", "--cover"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--salt", "-1"], "salt=-1.0 must be at least 0"),
        (["--minutes", "some"], "--minutes 'some' must be a whole number, or ages"),
        (["--minutes", "0"], "--minutes 0 must be at least 1"),
    ],
)
def test_a_value_that_is_not_legal_is_refused_before_the_verb_runs(arguments, message):
    with pytest.raises(OptionError) as caught:
        run(cook, "soup", *arguments)
    assert message in str(caught.value)


def test_help_comes_from_the_declarations_and_the_docstring():
    page = run(cook, "--help")
    for text in (
        "How much salt.",
        "A herb; may be given several times.",
        "--no-cover",
        "loglinear cook soup --herb dill",
    ):
        assert text in page
    assert "--cook" not in page and "--------" not in page


def test_options_of_the_same_name_share_a_flag_and_keep_their_own_defaults():
    def both(how: Cooking, oven: Annotated[Baking, Flags(of="bread")]) -> None:
        """Both."""

    found = run(both)
    assert (found["how"].salt, found["oven"].salt) == (1.5, 3.0)
    found = run(both, "--salt", "2")
    assert (found["how"].salt, found["oven"].salt) == (2.0, 2.0)
    assert "How much salt; 3.0 by default for bread." in run(both, "--help")


def test_a_verb_may_leave_options_out_and_have_others_otherwise():
    chosen = Flags(
        only=("salt", "stir", "minutes"), without=("stir",), defaults={"salt": None}, help={"salt": "a pinch"}
    )

    def some(how: Annotated[Cooking, chosen]) -> None:
        """Some."""

    assert set(inspect.signature(takes(some)).parameters) == {"context", "salt", "minutes"}
    found = run(some)["how"]
    assert found.salt is None and found.stir is False and found.minutes == 10
    assert "A pinch." in run(some, "--help")
