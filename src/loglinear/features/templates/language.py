r"""The template language: which observations around a position become attributes.

A template file has one template per line; blank lines and lines that begin with ``#`` are skipped. The first character
says which part of a labelling the template's attributes are joined with:

=====  ==============================================================  ==============
``U``  the label at the position                                       state features
``B``  the pair of labels at the position and the one before           edge features
``*``  both
=====  ==============================================================  ==============

The rest of the line is copied literally, except for macros: ``%x[row,column]`` is replaced by the value ``row``
positions further in that column (CRF++). A bare ``B`` is the label bigram itself. Macros, all with ``row,column``
first:

=====================  ========================================================================================
``%x[0,0]``            the value itself
``%m[0,0,"re"]``       the first match of a regular expression, empty if there is none (Wapiti)
``%t[0,0,"re"]``       ``true`` or ``false``: whether the regular expression matches anywhere (Wapiti)
``%lower[0,0]``        the value in lower case
``%prefix[0,0,3]``     the first 3 characters; no attribute if the value is shorter
``%suffix[0,0,3]``     the last 3 characters; no attribute if the value is shorter
``%shape[0,0]``        a letter for each character: ``A`` upper case, ``a`` lower case, ``0`` digit, else itself
``%brief[0,0]``        the shape with runs of the same letter collapsed
``%gazetteer[0,0,n]``  ``B``, ``I``, ``L`` or ``S`` inside an entry of gazetteer ``n``; no attribute elsewhere
=====================  ========================================================================================

A macro whose name begins with a capital (``%X``, ``%M``, ``%Suffix``) converts its result to lower case;
``%Gazetteer`` ignores case. ``@`` before the row makes it absolute (Wapiti): ``@1`` is the first position of the
sequence, ``@-1`` the last. For any macro, a row outside the sequence gives ``_B-1``, ``_B-2``, ... before it and
``_B+1``, ``_B+2``, ... after it. Regular expressions are Python's, with Wapiti's additional classes ``\a`` letter,
``\l`` lower case, ``\u`` upper case and ``\p`` punctuation, and their complements in capitals.

Two templates that differ only in rows and columns (``U:%x[-1,0]`` and ``U:%x[1,0]``) share their attributes, as in
CRF++, where an attribute is its string. This is how to write a bag of words.

Where the corpus has names for its columns (CoNLL-U, tables), a macro may use a name in place of the number, as in
``%x[-1,upos]``; :func:`with_numbers` replaces it.

A line ``%inside`` leaves out all attributes that look outside the sequence, in place of ``_B-1`` and the like. A line
``%wapiti`` has the macros do what they do in Wapiti, to the byte: ``%m`` and ``%t`` take its own regular expressions
(:class:`~loglinear.features.templates.patterns.WapitiPattern`), capitals (``%X``) lower ASCII letters only, and outside
the sequence are ``_x-1`` to ``_x-4`` and ``_x-#``, ``_x+1`` to ``_x+4`` and ``_x+#``, which macros look at as at other
values.

A bare ``*`` is the label bigram and an attribute that each position has.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING

from loglinear.errors import TemplateError

if TYPE_CHECKING:  # it needs NumPy, and printing a template should not
    from loglinear.features.templates.patterns import Pattern

_MACRO = re.compile(
    r'%([A-Za-z]+)\[\s*(@?)\s*([+-]?\d+)\s*,\s*(\d+)\s*(?:,\s*(?:"((?:[^"\\]|\\.)*)"|([^\]"\s]+)\s*))?\]'
)
_WAPITI_CLASSES: dict[str, Callable[[str], bool]] = {
    "a": str.isalpha,
    "l": str.islower,
    "u": str.isupper,
    "p": lambda character: character in string.punctuation,
}
_NAMED = re.compile(r"(%[A-Za-z]+\[\s*@?\s*[+-]?\d+\s*,\s*)([^\W\d][^,\]\"]*?)(\s*[,\]])")
_DIGITS = 9  # of a row or a column
FARTHEST = 1000  # largest row: boundary values are numbered by their distance
INSIDE = "%inside"
WAPITI = "%wapiti"
SCOPES = {"U": "state", "u": "state", "B": "edge", "b": "edge", "*": "both"}


@cache
def _class_members(letter: str) -> str:
    """Members of a Wapiti class below U+3000, as ranges for the inside of ``[...]``."""
    belongs = _WAPITI_CLASSES[letter]
    ranges: list[list[int]] = []
    for code in range(0x21, 0x3000):
        if belongs(chr(code)):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"\\u{first:04x}-\\u{last:04x}" for first, last in ranges)


@lru_cache(maxsize=1024)  # a set reads its lines twice
def compile_regex(expression: str) -> Pattern:
    """Compile a Python regular expression that may use Wapiti's character classes."""
    from loglinear.features.templates.patterns import Pattern

    translated, in_class, position = "", False, 0
    while position < len(expression):
        token = expression[position : position + 2] if expression[position] == "\\" else expression[position]
        letter = token[1:].lower()
        if letter in _WAPITI_CLASSES:
            negated = token[1:].isupper()
            if in_class and negated:
                raise TemplateError(f'"{expression}": {token} cannot be used inside [...]')
            members = _class_members(letter)
            translated += members if in_class else f"[{'^' if negated else ''}{members}]"
        else:
            in_class = token == "[" or (in_class and token != "]")
            translated += token
        position += len(token)
    try:
        return Pattern(translated, expression)
    except (re.error, RecursionError, OverflowError) as error:
        raise TemplateError(f'the regular expression "{expression}" is not valid: {error}') from None


class _Shapes(dict[int, str]):
    """For :meth:`str.translate`: the letter for each character in a shape, computed at its first use."""

    def __missing__(self, code: int) -> str:
        c = chr(code)
        self[code] = "A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c
        return self[code]


_SHAPES = _Shapes()


def shape(value: str) -> str:
    """``Fed-Ex2`` -> ``Aaa-Aa0``."""
    return value.translate(_SHAPES)


def brief(value: str) -> str:
    """``Fed-Ex2`` -> ``Aa-Aa0``: the shape with runs collapsed."""
    whole = shape(value)
    return whole[:1] + "".join([c for before, c in pairwise(whole) if c != before])


def _matcher(argument: str) -> Callable[[str], str | None]:
    pattern = compile_regex(argument)
    return lambda value: pattern.find(value) or ""


def _tester(argument: str) -> Callable[[str], str | None]:
    pattern = compile_regex(argument)
    return lambda value: "false" if pattern.find(value) is None else "true"


def _length(argument: str) -> int:
    if not (argument.isascii() and argument.isdecimal() and len(argument) < 10 and 1 <= int(argument) <= 1000):
        raise TemplateError(f"a prefix or suffix needs a length from 1 to 1000, not {argument!r:.60}")
    return int(argument)


def _prefixer(argument: str) -> Callable[[str], str | None]:
    n = _length(argument)
    return lambda value: value[:n] if len(value) >= n else None


def _suffixer(argument: str) -> Callable[[str], str | None]:
    n = _length(argument)
    return lambda value: value[-n:] if len(value) >= n else None


PLAIN: dict[str, Callable[[str], str | None]] = {
    "x": lambda value: value,
    "lower": str.lower,
    "shape": shape,
    "brief": brief,
}
WITH_ARGUMENT: dict[str, Callable[[str], Callable[[str], str | None]]] = {
    "m": _matcher,
    "t": _tester,
    "prefix": _prefixer,
    "suffix": _suffixer,
}
GAZETTEER = "gazetteer"


def _wapiti_function(function: str, argument: str) -> Callable[[str], str]:
    """What a macro does in Wapiti."""
    if function == "x":
        return str
    from loglinear.features.templates.patterns import WapitiPattern

    pattern = WapitiPattern(argument)
    if function == "m":
        return lambda value: pattern.find(value) or ""
    return lambda value: "false" if pattern.find(value) is None else "true"


_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@dataclass(frozen=True)
class Macro:
    """One observation: a function of the value ``row`` positions away in ``column``.

    Parameters
    ----------
    row : int
        Offset from the current position, or, if ``absolute``, a position from 1 (from -1 at the end).
    column : int
        Column of the corpus, from 0.
    function : str
        Name of the macro without ``%``, in lower case: ``x``, ``m``, ``t``, ``lower``, ``prefix``, ...
    argument : str
        Regular expression, length or gazetteer name; empty for functions that take none.
    lowered : bool
        Put the result in lower case (the macro's name begins with a capital).
    absolute : bool
        ``row`` counts from the ends of the sequence.
    wapiti : bool
        Do what Wapiti's macro of that name does.
    """

    row: int
    column: int = 0
    function: str = "x"
    argument: str = ""
    lowered: bool = False
    absolute: bool = False
    wapiti: bool = False

    def __post_init__(self) -> None:
        if self.function in WITH_ARGUMENT or self.function == GAZETTEER:
            if not self.argument:
                raise TemplateError(f"%{self.function}[{self.row},{self.column}] needs an argument after the column")
            if self.wapiti and self.function in "mt":
                from loglinear.features.templates.patterns import WapitiPattern

                WapitiPattern(self.argument)
            elif self.function != GAZETTEER:
                WITH_ARGUMENT[self.function](self.argument)  # raises for a bad expression or length
        elif self.function not in PLAIN:
            known = ", ".join(f"%{name}" for name in [*PLAIN, *WITH_ARGUMENT, GAZETTEER])
            raise TemplateError(f"there is no macro %{self.function}; there are {known}")
        elif self.argument:
            raise TemplateError(f"%{self.function} takes a row and a column only")
        if abs(self.row) > FARTHEST:
            raise TemplateError(f"row {self.row} is too far away; templates look at most {FARTHEST} positions away")
        if self.wapiti and self.function not in ("x", "m", "t"):
            raise TemplateError(f"there is no macro %{self.function} in Wapiti; there are %x, %m and %t")
        if self.column < 0:
            raise TemplateError(f"columns count from 0, not {self.column}")
        if self.absolute and self.row == 0:
            raise TemplateError("absolute rows count from 1 (or from -1 at the end), not 0")

    @property
    def source(self) -> tuple[int, str, str, bool, bool]:
        """What is computed, regardless of the row: macros with the same source share their values."""
        return (self.column, self.function, self.argument, self.lowered, self.wapiti)

    def compute(self) -> Callable[[str], str | None]:
        """The function from a value of the column to the observation (None: no attribute)."""
        if self.wapiti:
            own = _wapiti_function(self.function, self.argument)
            return (lambda value: own(value).translate(_ASCII_LOWER)) if self.lowered else own
        function = PLAIN.get(self.function) or WITH_ARGUMENT[self.function](self.argument)
        if self.lowered:
            return lambda value: None if (observation := function(value)) is None else observation.lower()
        return function

    def __str__(self) -> str:
        name = self.function.capitalize() if self.lowered else self.function
        argument = ""
        if self.function in ("m", "t"):
            argument = f',"{self.argument}"'
        elif self.argument:
            argument = f",{self.argument}"
        return f"%{name}[{'@' if self.absolute else ''}{self.row},{self.column}{argument}]"


def has_names(text: str) -> bool:
    """Whether a template names a column, as in ``%x[0,upos]``."""
    return any(_NAMED.search(line) for line in text.split("\n") if not line.startswith("#"))


def with_numbers(text: str, names: Sequence[str], name: str = "template") -> str:
    """A template's text with the columns' names replaced by their numbers; errors name ``name`` and the line."""
    known = {column.lower(): number for number, column in reversed(list(enumerate(names)))}
    exact = {column: number for number, column in enumerate(names)}

    def replaced(line: int, match: re.Match[str]) -> str:
        found = exact.get(match[2], known.get(match[2].lower()))
        if found is None:
            there = f"there are {', '.join(names)}" if names else "the columns of this data have numbers only"
            raise TemplateError(f"{name}:{line}: there is no column {match[2]!r:.40}; {there}")
        return f"{match[1]}{found}{match[3]}"

    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.startswith("#"):
            lines[number - 1] = _NAMED.sub(partial(replaced, number), line)
    return "\n".join(lines)


@dataclass(frozen=True)
class Template:
    """A line of the template language: literal text and macros.

    ``Template("U05:", Macro(-1), "/", Macro(0))`` is the line ``U05:%x[-1,0]/%x[0,0]``.
    """

    pieces: tuple[str | Macro, ...]

    def __init__(self, *pieces: str | Macro) -> None:
        object.__setattr__(self, "pieces", tuple(pieces))
        first = pieces[0] if pieces else ""
        if not isinstance(first, str) or first[:1] not in SCOPES:
            raise TemplateError(f"a template begins with U, B or *, not {str(first)!r} (or is the line {INSIDE})")

    @classmethod
    @lru_cache(maxsize=1024)  # a set checks that its lines can be read back
    def parse(cls, line: str, wapiti: bool = False) -> Template:
        """Read one line; ``wapiti``: its macros are those of Wapiti."""
        pieces: list[str | Macro] = []
        end = 0
        for match in _MACRO.finditer(line):
            if match.start() > end:
                pieces.append(line[end : match.start()])
            name, at, row, column, quoted, bare = match.groups()
            argument = quoted if quoted is not None else bare or ""
            if max(len(row), len(column)) > _DIGITS:
                raise TemplateError(f"{match.group()!r:.40}... has a row or a column of more than {_DIGITS} digits")
            pieces.append(Macro(int(row), int(column), name.lower(), argument, name[0].isupper(), bool(at), wapiti))
            end = match.end()
        if end < len(line) or not pieces:
            pieces.append(line[end:])
        for piece in pieces:
            if isinstance(piece, str) and (bad := re.search(r"%[A-Za-z]+\[[^\]]*\]?", piece)):
                raise TemplateError(f"{bad.group()!r} is not a macro; write %x[row,column], for example %x[-1,0]")
        return cls(*pieces)

    @cached_property
    def macros(self) -> tuple[Macro, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, Macro))

    @property
    def scope(self) -> str:
        """``state``, ``edge`` or ``both``."""
        return SCOPES[str(self.pieces[0])[0]]

    @property
    def is_label_bigram(self) -> bool:
        """A ``B`` line without observations: the transitions themselves."""
        return self.scope == "edge" and not self.macros

    @property
    def skeleton(self) -> tuple[str, ...]:
        """The literal text around the macros; templates with the same skeleton share their attributes."""
        texts, open_text = [], ""
        for piece in self.pieces:
            if isinstance(piece, Macro):
                texts.append(open_text)
                open_text = ""
            else:
                open_text += piece
        return (*texts, open_text)

    def render(self, values: Iterable[str]) -> str:
        """The attribute's name for the macros' ``values``."""
        value = iter(values)
        return "".join(next(value) if isinstance(piece, Macro) else piece for piece in self.pieces)

    def __str__(self) -> str:
        return "".join(str(piece) for piece in self.pieces)


def _without_end(line: str) -> str:
    """A line without blanks and carriage returns at its end."""
    return line.rstrip(" \t\r")


def _is_writable(template: Template) -> bool:
    """Whether the template's line can be read back as the same template."""
    line = str(template)
    try:
        again = Template.parse(line, any(macro.wapiti for macro in template.macros))
    except TemplateError:
        return False
    return "\n" not in line and _without_end(line) == line and str(again) == line and again.macros == template.macros


@dataclass(frozen=True, repr=False)
class TemplateSet:
    """All templates of a model, in order; model files store them as text, so each must be expressible as a line.

    With ``inside``, a template has no attribute where one of its rows is outside the sequence; with ``wapiti``, macros
    are those of Wapiti.
    """

    templates: tuple[Template, ...]
    inside: bool = False
    wapiti: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "templates", tuple(self.templates))
        for template in self.templates:
            if not isinstance(template, Template):
                raise TemplateError(f"a TemplateSet holds Template objects, not {template!r:.60}")
            if not _is_writable(template):
                raise TemplateError(
                    f"the template {str(template)!r} cannot be written as a line of the template language: it has line "
                    "breaks, blanks at the end, bare quotes in a regular expression, or text that looks like a macro"
                )
        if not self.templates:
            raise TemplateError("there is no template; write lines such as U00:%x[0,0]")

    @classmethod
    def parse(cls, text: str, name: str = "template") -> TemplateSet:
        """Read a template file's text; errors name ``name`` and the line."""
        templates, inside, wapiti = [], False, WAPITI in map(_without_end, text.split("\n"))
        for number, raw_line in enumerate(text.split("\n"), 1):
            line = _without_end(raw_line)
            if not line or line.startswith("#"):
                continue
            if line == INSIDE:
                inside = True
            if line in (INSIDE, WAPITI):
                continue
            try:
                templates.append(Template.parse(line, wapiti))
            except TemplateError as error:
                raise TemplateError(f"{name}:{number}: {error}") from None
        if not templates:
            raise TemplateError(f"{name}: there is no template in it; write lines such as U00:%x[0,0]")
        return cls(tuple(templates), inside, wapiti)

    @property
    def observing(self) -> tuple[Template, ...]:
        """The templates that make attributes: all but a bare ``B``."""
        return tuple(template for template in self.templates if not template.is_label_bigram)

    @property
    def has_label_bigram(self) -> bool:
        return any(template.scope != "state" and not template.macros for template in self.templates)

    @property
    def columns(self) -> set[int]:
        """The columns the templates look at."""
        return {macro.column for template in self.templates for macro in template.macros}

    @property
    def gazetteers(self) -> set[str]:
        """The gazetteers the templates name."""
        return {m.argument for t in self.templates for m in t.macros if m.function == GAZETTEER}

    def __iter__(self) -> Iterator[Template]:
        return iter(self.templates)

    def __len__(self) -> int:
        return len(self.templates)

    def __str__(self) -> str:
        directives = [(INSIDE, self.inside), (WAPITI, self.wapiti)]
        return "".join(f"{line}\n" for line, said in directives if said) + "".join(
            f"{template}\n" for template in self.templates
        )

    def __repr__(self) -> str:
        first = ", ".join(map(str, self.templates[:2]))
        more = ", ..." if len(self) > 2 else ""
        return f"<TemplateSet of {len(self)}: {first}{more}>"
