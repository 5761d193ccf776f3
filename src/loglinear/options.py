"""Options: each is declared once, as a typed field, and everything else follows from the declaration.

    @options
    class TaggerOptions:
        order: int = option("how many labels back a label depends on", default=1, choices=(1, 2))

From that line come the constructor's signature and default, ``get_params``, the check of a value (:func:`check`), the
command-line option, the row of the documentation and the record in a model file (:func:`declared` lists them).

Parts that are chosen by name (criteria, optimizers) are kept in a :class:`Registry`, and chosen by a *spec*: the name
and what is to differ from the defaults,

    nota            nota:rate=0.1            mira:k=5,C=0.1            sgd:step=0.05,average

where an option that is named without a value is switched on. A spec is parsed once, into a :class:`Spec`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import math
import pkgutil
import textwrap
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, dataclass_transform

from loglinear.errors import OptionError

T = TypeVar("T")
C = TypeVar("C", bound=type)
SWITCH = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}


@dataclass(frozen=True)
class File:
    """That a value names a file, and what becomes of the file.

    Parameters
    ----------
    written : bool
        Whether it is written; else it is read.
    piped : bool
        Of a file that is written: whether ``-`` is standard output.
    suffix : str
        How its name ends. A value to read that ends otherwise is a word; one to write is a mistake.
    words : tuple of str
        Values to read that are words, although there may be files of that name.
    resumed : bool
        Of a file that is written: whether the same command continues from it.
    beside : tuple of str
        Of a file that is written: what is appended to its name for others, written beside it.
    folder : bool
        Whether it is a folder.
    parts : bool
        Of a file that is read: whether a glob or a folder may name several. Of one that is written: whether it is then
        the folder of as many files.
    settings : type, optional
        The class of the options to read where the value is OPTION=VALUES, as in ``template=own.txt,ner``.
    """

    written: bool = False
    piped: bool = False
    suffix: str = ""
    words: tuple[str, ...] = ()
    resumed: bool = False
    beside: tuple[str, ...] = ()
    folder: bool = False
    parts: bool = False
    settings: type | None = None


READ = File()
READ_JSON = File(suffix=".json")
READ_TEMPLATE = File(words=("chunking", "pos", "ner", "words"))
READ_FOLDER = File(folder=True)
READ_PARTS = File(parts=True)
WRITTEN = File(written=True, piped=True)
WRITTEN_PARTS = File(written=True, piped=True, parts=True)
WRITTEN_FILE = File(written=True)  # not to standard output
TRAINED_MODEL = File(written=True, beside=(".checkpoint",))
WRITTEN_CHART = File(written=True, suffix=".svg")
PIPED_CHART = File(written=True, piped=True, suffix=".svg")
WRITTEN_FOLDER = File(written=True, folder=True)
RESULTS = File(written=True, resumed=True)


@dataclass(frozen=True)
class Option:
    """One option: its name, default and what it means.

    Parameters
    ----------
    name, default, help
        ``help`` is a line for people, in lower case and without a full stop.
    choices : tuple
        The only legal values; ``(False, True)`` is a switch.
    words : tuple of str
        Values that a switch may have besides on and off.
    least, above, most : float, optional
        The value is at least ``least``, greater than ``above``, and at most ``most``.
    annotation : str
        Its type, as docstrings show it.
    kind : type, optional
        ``int`` or ``float``.
    may_be_none : bool
        Whether None is a value although the default is another.
    panel : str
        Heading under which ``--help`` lists it.
    metavar : str
        What ``--help`` shows for the value.
    varies : bool
        Whether a resumed training may have another value than the interrupted one.
    stored : bool
        Whether a model file records it.
    in_python : str
        Sentences for the docstring: other values that Python takes, or what a value means there.
    python_only : bool
        Whether the command line does not have it.
    flags : tuple of str
        Its names on the command line, if not ``--name-with-hyphens``.
    repeats : bool
        Whether the command line takes it several times, for a list.
    none_word : str
        The word for None where the value is written as text.
    instead : str
        The new name, if this is an old spelling that still works.
    example
        A value that a message may suggest, where the default is none to suggest.
    file : File, optional
        What becomes of the file, if the value names one.
    """

    name: str
    default: Any
    help: str
    annotation: str = ""
    choices: tuple[Any, ...] = ()
    words: tuple[str, ...] = ()
    least: float | None = None
    kind: type | None = None
    above: float | None = None
    most: float | None = None
    may_be_none: bool = False
    panel: str = ""
    metavar: str | None = None
    varies: bool = False
    stored: bool = True
    in_python: str = ""
    python_only: bool = False
    flags: tuple[str, ...] = ()
    repeats: bool = False
    none_word: str = ""
    instead: str = ""
    example: Any = None
    file: File | None = None

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return self.choices == (False, True)

    @property
    def suggested(self) -> Any:
        """A legal value, for messages."""
        values = (self.example, self.default, *self.choices, 1000 if self.kind is int else 0.1)
        return next(value for value in values if value is not None)

    def check(self, value: Any) -> None:
        """Raise an :class:`OptionError` that says what is legal if ``value`` is not."""
        if value is None and (self.default is None or self.may_be_none):
            return
        if self.choices and value not in (legal := (*self.choices, *self.words)):
            raise OptionError(f"{self.name}={value!r} is not one of {', '.join(map(str, legal))}")
        if self.kind is int and (isinstance(value, bool) or not hasattr(value, "__index__")):
            raise OptionError(f"{self.name}={value!r} must be a whole number")
        if self.kind is float and (isinstance(value, bool) or not hasattr(value, "__float__") or math.isnan(value)):
            raise OptionError(f"{self.name}={value!r} must be a number")
        if self.least is not None and not value >= self.least:
            raise OptionError(f"{self.name}={value!r} must be at least {self.least:g}")
        if self.above is not None and not value > self.above:
            raise OptionError(f"{self.name}={value!r} must be greater than {self.above:g}")
        if self.most is not None and not value <= self.most:
            raise OptionError(f"{self.name}={value!r} must be at most {self.most:g}")
        if self.kind is float and math.isinf(value):
            raise OptionError(f"{self.name}={value!r} must be finite")

    def read(self, text: str) -> Any:
        """The value that a spec's ``text`` means."""
        value: Any = text
        if self.none_word and text == self.none_word:
            return None
        if self.is_switch:
            if text in self.words:
                return text
            if text.lower() not in SWITCH:
                raise OptionError(f"{self.name}={text!r} must be {', '.join(('yes', *self.words))} or no")
            return SWITCH[text.lower()]
        if self.kind is not None:
            try:
                value = self.kind(text)
            except ValueError:
                whole, word = "whole " if self.kind is int else "", f", or {self.none_word}" if self.none_word else ""
                raise OptionError(f"{self.name}={text!r} must be a {whole}number{word}") from None
        self.check(value)
        return value


# -- options as fields -------------------------------------------------------------------------------------------------


def option(help: str, *, default: Any = dataclasses.MISSING, kw_only: bool = True, **more: Any) -> Any:
    """A field of a class decorated with :func:`options`.

    ``more`` are parameters of :class:`Option`. Its annotation sets ``kind`` and ``choices`` (``int``, ``float`` or
    ``bool``) and allows None (``| None``). With ``kw_only=False`` the constructor also takes it by position.
    """
    field: Any = dataclasses.field(default=default, kw_only=kw_only, metadata={"option": {"help": help, **more}})
    return field


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(option, dataclasses.field))
def options(cls: C) -> C:
    """Class decorator: the class's options become keywords of its constructor, as attributes of the same name.

    Objects compare by identity, as scikit-learn's estimators do.
    """
    made: Any = dataclass(eq=False, repr=False, kw_only=True)(cls)
    construct = made.__init__

    @functools.wraps(construct)
    def __init__(self: Any, *arguments: Any, **given: Any) -> None:
        unknown = [name for name in given if name not in made.__dataclass_fields__]
        if unknown:
            near = difflib.get_close_matches(unknown[0], made.__dataclass_fields__, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(f"{type(self).__name__} has no option {unknown[0]!r}{hint}")
        construct(self, *arguments, **given)

    made.__init__ = __init__
    return made


def documented(cls: C) -> C:
    """Class decorator: put the class's options into its docstring, in numpydoc's form, where that says PARAMETERS."""
    rows = []
    for name, each in declared(cls).items():
        kind = " or ".join(map(repr, each.choices)) if each.choices and not each.is_switch else each.annotation
        text = f"{each.help[0].upper()}{each.help[1:]}. {each.in_python}".strip()
        rows.append(f"{name} : {kind}" + ("" if each.default is dataclasses.MISSING else f", default {each.default!r}"))
        rows += textwrap.wrap(text, 112, initial_indent="    ", subsequent_indent="    ")
    section = "\n".join(["Parameters", "----------", *rows])
    cls.__doc__ = (cls.__doc__ or "").replace("PARAMETERS", textwrap.indent(section, "    ").lstrip())
    return cls


def declared(cls: type) -> dict[str, Option]:
    """The options of a class by name, those it inherits included, in the order of its constructor."""
    return dict(_declared(cls))


@functools.cache
def _declared(cls: type) -> dict[str, Option]:
    fields = sorted(dataclasses.fields(cls), key=lambda field: field.kw_only is True)
    return {field.name: _option(field) for field in fields if "option" in field.metadata}


def _option(field: Any) -> Option:
    annotation = field.type.__name__ if isinstance(field.type, type) else str(field.type)
    words = annotation.replace("|", " ").split()
    made: dict[str, Any] = {"may_be_none": "None" in words, "annotation": annotation}
    if "bool" in words:
        made["choices"] = (False, True)
    elif "int" in words and "float" not in words:
        made["kind"] = int
    elif "float" in words:
        made["kind"] = float
    return Option(field.name, field.default, **{**made, **field.metadata["option"]})


def check(holder: Any) -> None:
    """Check the value of each option of an object whose class declares some."""
    for name, each in declared(type(holder)).items():
        each.check(getattr(holder, name))


# -- parts chosen by name ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spec(Generic[T]):
    """A part chosen by name, and the option values given to it.

    Parameters
    ----------
    part : type
        The class: it has a ``name``, and :func:`declared` options or none.
    values : mapping
        Values by option name; others have their defaults.
    """

    part: type[T]
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The part's name."""
        return str(self.part.name)  # type: ignore[attr-defined]  # every part has one

    def __getitem__(self, name: str) -> Any:
        """An option's value, its default if none was given; None if the part has no such option."""
        if name in self.values:
            return self.values[name]
        each = options_of(self.part).get(name)
        return None if each is None else each.default

    def make(self, *arguments: Any, **keywords: Any) -> T:
        """Make the part; arguments that are not options come first."""
        return self.part(*arguments, **keywords, **self.values)

    def replace(self, **values: Any) -> Spec[T]:
        """The same part with some values changed."""
        return Spec(self.part, {**self.values, **values})

    def __str__(self) -> str:
        """The spec as text."""
        yes_no = {True: "yes", False: "no"}
        items = (f"{k}={yes_no[v] if isinstance(v, bool) else v}" for k, v in self.values.items())
        return f"{self.name}:{','.join(items)}" if self.values else self.name


def in_new_spelling(spec: Spec[T]) -> tuple[Spec[T], dict[str, Any]]:
    """A spec without old spellings, and the values of those that became parameters of the estimator, by new name.

    An option whose values became options stays in the spec: ``decoding=local`` is now ``local``.
    """
    known, values, parameters = options_of(spec.part), dict[str, Any](), dict[str, Any]()
    for name, value in spec.values.items():
        instead = known[name].instead
        if not instead:
            values[name] = value
        elif instead == name or instead not in known:
            parameters[instead] = value
        elif value == instead:
            values[instead] = True
    return Spec(spec.part, values), parameters


def warn_of_old_spelling(old: str, new: str) -> None:
    """Warn about an old spelling, and give the new one."""
    warnings.warn(f"{old} is an old spelling, which a later version will not know; write {new}", FutureWarning, 3)


def options_of(part: type) -> Mapping[str, Option]:
    """The options that a spec may give to a part."""
    return declared(part) if dataclasses.is_dataclass(part) else {}


def spec_name(spec: str) -> str:
    """The name in a spec's text."""
    return str(spec).partition(":")[0].strip()


def spec_options(spec: str, known: Mapping[str, Option] | Sequence[Option], role: str) -> dict[str, Any]:
    """The values that a spec's text gives to the ``known`` options; ``role`` is what it names (``criterion``)."""
    name, _, rest = str(spec).partition(":")
    if not isinstance(known, Mapping):
        known = {each.name: each for each in known}
    values: dict[str, Any] = {}
    for item in filter(None, (item.strip() for item in rest.split(","))):
        key, has_value, text = (part.strip() for part in item.partition("="))
        if key not in known:
            current = [name for name, each in known.items() if not each.instead]
            there_are = f"it has {', '.join(current)}" if current else "it has none"
            raise OptionError(f"{role} {name!r} has no option {key!r}; {there_are}")
        if key in values:
            raise OptionError(f"{role} {spec!r} gives {key!r} twice")
        if not has_value and not known[key].is_switch:
            raise OptionError(f"{role} {spec!r}: {key} needs a value, as in {name}:{key}={known[key].suggested}")
        try:
            values[key] = known[key].read(text if has_value else "yes")
        except OptionError as error:
            raise OptionError(f"{role} {spec!r}: {error}") from None
    return values


class Registry(Generic[T]):
    """Interchangeable parts by name, each imported when it is first asked for.

    Parameters
    ----------
    role : str
        What messages call a part: ``criterion``.
    homes : mapping
        The module of each name; its part registers itself by the decorator :meth:`register` when it is imported.
    """

    def __init__(self, role: str, homes: Mapping[str, str]) -> None:
        self.role = role
        self._homes = dict(homes)
        self._parts: dict[str, type[T]] = {}

    @classmethod
    def of_package(cls, role: str, package: str, without: Collection[str]) -> Registry[T]:
        """A registry of the parts of a package, each in the module of its name (``softmax-margin`` in
        ``softmax_margin``); ``without`` names the modules that hold none."""
        modules = pkgutil.iter_modules(importlib.import_module(package).__path__)
        names = (module.name for module in modules if module.name not in without)
        return cls(role, {name.replace("_", "-"): f"{package}.{name}" for name in names})

    def register(self, part: C) -> C:
        """Class decorator: make a part known by its ``name``."""
        name: str = part.name  # type: ignore[attr-defined]  # every part has one
        self._homes.setdefault(name, part.__module__)
        self._parts[name] = part
        return part

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._homes))

    def __contains__(self, name: object) -> bool:
        return name in self._homes

    def __getitem__(self, name: str) -> type[T]:
        """The part of that name; the error for an unknown one lists all names."""
        if name not in self._homes:
            raise OptionError(f"{self.role}={name!r} is not known; there are: {', '.join(self)}")
        if name not in self._parts:
            importlib.import_module(self._homes[name])
        if name not in self._parts:
            raise ImportError(
                f"{self._homes[name]} registers no {self.role} {name!r}: "
                f'its class needs name = "{name}" and the decorator @register'
            )
        return self._parts[name]

    def part(self, spec: str | Spec[T]) -> type[T]:
        """The part that a spec names; its options are not looked at."""
        return spec.part if isinstance(spec, Spec) else self[spec_name(spec)]

    def all(self) -> dict[str, type[T]]:
        """All parts by name; imports every one."""
        return {name: self[name] for name in self}

    def spec(self, given: str | Spec[T]) -> Spec[T]:
        """A spec's text parsed and checked; a parsed spec is returned unchanged."""
        if isinstance(given, Spec):
            return given
        part: Any = self.part(given)
        values = spec_options(given, options_of(part), self.role)
        if hasattr(part, "check"):
            part.check(values)
        return Spec(part, values)
