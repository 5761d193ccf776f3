r"""Regular expressions of templates, in bounded time.

Python's ``re`` goes back and tries again: ``(a+)+$`` takes 2^n steps for n letters. Here an upper bound on the number
of ways in which an expression can match n characters is worked out beforehand, as the coefficients of a polynomial::

    P(one character) = x        P(A B) = P(A) P(B)        P(A | B) = P(A) + P(B)        P(A{m,n}) = sum_k P(A)^k

A value that is short enough for all these ways is matched by ``re``, as nearly all words are. A longer one is matched
by a simulation of all ways at once (Thompson 1968; Pike's order of threads, see Cox 2009), in time linear in the value,
with the result of ``re``: the leftmost match, and of several there the one that ``re`` would try first. The simulation
cannot look around or refer back, nor run a loop whose body may match nothing; values too long for ``re`` are an error
there, unless the user sets ``LOGLINEAR_SLOW_PATTERNS=1``. No model file can ask for that.

References
----------
Thompson (1968). Regular expression search algorithm. CACM 11.
Cox (2009). Regular expression matching: the virtual machine approach. https://swtch.com/~rsc/regexp/regexp2.html
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]  # the only way to read an expression
from typing import Any

import numpy as np

from loglinear.arrays import Float
from loglinear.errors import TemplateError

SLOW = "LOGLINEAR_SLOW_PATTERNS"
MOST_WAYS = 1e6  # that re may have to try for a value
LENGTHS = (32, 256)  # of values for which ways are counted
MOST_INSTRUCTIONS = 10_000
_KEPT = 10_000  # steps that a simulation remembers

_SINGLE = (_constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY, _constants.IN)
_REPEATS = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)


def longest_quick(expression: str) -> int:
    """The length of the longest values that ``re`` can match in :data:`MOST_WAYS` steps, at most 256."""
    tree, longest = _parser.parse(expression), 0
    for n in LENGTHS:
        with np.errstate(over="ignore", invalid="ignore"):
            ways = np.cumsum(_ways(tree, n)) * np.arange(1, n + 2)
        slow = np.flatnonzero(~(ways <= MOST_WAYS))
        longest = n if not len(slow) else int(slow[0]) - 1
        if longest < n:
            break
    return max(longest, 0)


def _ways(tree: Any, n: int) -> Float:
    """Ways to match 0, 1, ..., n characters, at most [n + 1]."""
    total = _nothing(n)
    for kind, value in tree:
        total = _product(total, _ways_of(kind, value, n))
    return total


def _nothing(n: int) -> Float:
    """One way to match no character."""
    return np.eye(1, n + 1)[0]


def _product(a: Float, b: Float) -> Float:
    product = np.convolve(a, b)[: len(a)]
    return np.where(np.isnan(product), np.inf, product)


def _ways_of(kind: Any, value: Any, n: int) -> Float:
    if kind in _SINGLE:
        return np.eye(1, n + 1, 1)[0]
    if kind is _constants.BRANCH:
        return np.add.reduce([_ways(each, n) for each in value[1]])
    if kind is _constants.SUBPATTERN:
        return _ways(value[3], n)
    if kind is _constants.ATOMIC_GROUP:
        return _ways(value, n)
    if kind in (*_REPEATS, _constants.POSSESSIVE_REPEAT):
        least, most, body = value
        return _ways_of_repeat(_ways(body, n), int(least), int(most))
    if kind in (_constants.ASSERT, _constants.ASSERT_NOT):
        inside = _ways(value[1], n)
        return _nothing(n) * max(float(inside.sum()), 1.0)
    if kind is _constants.GROUPREF:
        return np.ones(n + 1)
    if kind is _constants.AT:
        return _nothing(n)
    return np.full(n + 1, np.inf)


def _ways_of_repeat(body: Float, least: int, most: int) -> Float:
    n, terms = len(body) - 1, np.flatnonzero(body)
    if len(terms) == 1 and terms[0] > 0:  # all that it matches has one length
        total, length, ways = np.zeros(n + 1), int(terms[0]), float(body[terms[0]])
        for k in range(least, min(most, n // length) + 1):
            total[k * length] = ways**k if ways < 2.0 or k < 1000 else np.inf
        return total
    power, total = _nothing(n), np.zeros(n + 1)
    for k in range(min(most, least + n, 4 * n) + 1):  # more rounds match no more characters
        if k >= min(least, 3 * n):
            total += power
        power = _product(power, body)
        if not power.any():
            break
    return total


# ----------------------------------------------------------------------------------------------------------------------
# The simulation. A program is a list of instructions; the places that a value may have come to are kept in the order in
# which re would try them, each with where its match began.


class _Unsupported(Exception):
    """What only ``re`` can match."""


class Simulation:
    """An expression as a program.

    Instructions are ("one", test), ("split", places, the first of which is tried first), ("at", condition) and
    ("match",); all but splits go on to the next.
    """

    def __init__(self, expression: str) -> None:
        tree = _parser.parse(expression)
        self._state, self._program = tree.state, list[tuple[Any, ...]]()
        self._emit(tree, tree.state.flags)
        self._add("match")
        self._looks = any(name == "at" for name, *_ in self._program)
        self._steps: dict[tuple[Any, ...], tuple[tuple[int, ...], list[int], int]] = {}

    def _add(self, *instruction: Any) -> int:
        if len(self._program) >= MOST_INSTRUCTIONS:
            raise _Unsupported
        self._program.append(instruction)
        return len(self._program) - 1

    def _emit(self, tree: Any, flags: int) -> None:
        for kind, value in tree:
            if kind in _SINGLE:
                one = _parser.SubPattern(self._state, [(kind, value)])
                self._add("one", _remembered(_compiler.compile(one, flags).fullmatch))
            elif kind is _constants.AT:
                self._add("at", _compiler.compile(_parser.SubPattern(self._state, [(kind, value)]), flags).match)
            elif kind is _constants.SUBPATTERN:
                _, more, fewer, inner = value
                self._emit(inner, (flags | more) & ~fewer)
            elif kind is _constants.BRANCH:
                self._emit_branch(value[1], flags)
            elif kind in _REPEATS:
                self._emit_repeat(value, flags, kind is _constants.MAX_REPEAT)
            else:
                raise _Unsupported

    def _emit_branch(self, branches: Any, flags: int) -> None:
        split, begins, ends = self._add("split", ()), [], []
        for branch in branches:
            begins.append(len(self._program))
            self._emit(branch, flags)
            ends.append(self._add("split", ()))
        self._program[split] = ("split", tuple(begins))
        for end in ends:
            self._program[end] = ("split", (len(self._program),))

    def _emit_repeat(self, repeat: Any, flags: int, greedy: bool) -> None:
        least, most, body = repeat
        endless = most is _constants.MAXREPEAT
        if body.getwidth()[0] == 0 and (endless or most > 1):
            raise _Unsupported
        for _ in range(least):
            self._emit(body, flags)
        choices = []
        for _ in range(1 if endless else most - least):
            choices.append(self._add("split", ()))
            self._emit(body, flags)
        if endless:
            self._add("split", (choices[0],))
        for split in choices:
            ways = (split + 1, len(self._program))
            self._program[split] = ("split", ways if greedy else ways[::-1])

    def search(self, value: str) -> tuple[int, int] | None:
        """Where the match of ``re.search`` begins and ends."""
        places, begins, found = tuple[int, ...](), list[int](), None
        for t in range(len(value) + 1):
            if found is None:  # a match that begins here is tried after all earlier ones
                places, begins = (*places, 0), [*begins, t]
            elif not places:
                break
            places, sources, ended = self._step(places, value, t)
            if ended >= 0:
                found = (begins[ended], t)
            begins = [begins[source] for source in sources]
        return found

    def _step(self, places: tuple[int, ...], value: str, t: int) -> tuple[tuple[int, ...], list[int], int]:
        """The places after the character at ``t``, the place that each came from, and that which matched, or -1."""
        around = value[max(t - 1, 0) : t + 2] if self._looks else value[t : t + 1]
        key = (places, around, t == 0, len(value) - t if len(value) - t < 2 else 2) if self._looks else (places, around)
        step = self._steps.get(key)
        if step is None:
            if len(self._steps) >= _KEPT:
                self._steps.clear()
            step = self._steps[key] = self._new_step(places, value, t)
        return step

    def _new_step(self, places: tuple[int, ...], value: str, t: int) -> tuple[tuple[int, ...], list[int], int]:
        character, seen = value[t : t + 1], set[int]()
        after, sources, kept = list[int](), list[int](), set[int]()
        for source, place in enumerate(places):
            waiting = [place]
            while waiting:
                here = waiting.pop()
                if here in seen:
                    continue
                seen.add(here)
                name, *more = self._program[here]
                if name == "match":
                    return tuple(after), sources, source
                if name == "split":
                    waiting += reversed(more[0])
                elif name == "at":
                    if more[0](value, t):
                        waiting.append(here + 1)
                elif character and here + 1 not in kept and more[0](character):
                    kept.add(here + 1)
                    after.append(here + 1)
                    sources.append(source)
        return tuple(after), sources, -1


def _remembered(test: Callable[[str], Any]) -> Callable[[str], bool]:
    answers: dict[str, bool] = {}

    def passes(character: str) -> bool:
        if character not in answers:
            answers[character] = test(character) is not None
        return answers[character]

    return passes


# ----------------------------------------------------------------------------------------------------------------------


class Pattern:
    """An expression that is searched for in bounded time.

    Parameters
    ----------
    translated : str
        In the form of ``re``.
    expression : str
        As the user wrote it, for messages.
    """

    def __init__(self, translated: str, expression: str) -> None:
        self._re, self._expression = re.compile(translated), expression
        self.translated, self._longest = translated, -1  # not known yet
        self._simulation: Simulation | None = None

    def find(self, value: str) -> str | None:
        """The text of the first match; None if there is none."""
        if len(value) <= self._longest:
            match = self._re.search(value)
            return None if match is None else match.group()
        return self._find_in_long(value)

    def _find_in_long(self, value: str) -> str | None:
        if self._longest < 0:
            self._longest = longest_quick(self.translated)
            return self.find(value)
        if os.environ.get(SLOW) == "1":
            match = self._re.search(value)
            return None if match is None else match.group()
        if self._simulation is None:
            try:
                self._simulation = Simulation(self.translated)
            except _Unsupported:
                raise TemplateError(
                    f'the regular expression "{self._expression}" may take for ever on a value of {len(value):,} '
                    f"characters ({value!r:.30}); write it without looking around, references and loops within loops, "
                    f"or set {SLOW}=1 to wait however long it takes"
                ) from None
        found = self._simulation.search(value)
        return None if found is None else value[slice(*found)]


# ----------------------------------------------------------------------------------------------------------------------
# The expressions of Wapiti's patterns, a language of its own, byte by byte: ``.`` may be a part of a letter.
#
#     .                     any byte
#     \a \d \l \p \s \u \w  an ASCII letter, digit, lower case, punctuation, blank, upper case, letter or digit; in
#                           capitals all others; any other character after a backslash stands for itself
#     ^ first, $ last       the start and the end
#     x* x?                 any number of x, the fewest first; one or none, one first
#
# All else stands for itself: ``+``, ``[``, ``]``, ``|``, ``(`` and ``)``, too.


_WAPITI_CLASSES = {
    "a": "[A-Za-z]", "A": "[^A-Za-z]", "d": "[0-9]", "D": "[^0-9]", "l": "[a-z]", "L": "[^a-z]", "u": "[A-Z]",
    "U": "[^A-Z]", "w": "[0-9A-Za-z]", "W": "[^0-9A-Za-z]", "s": "[ \\t-\\r]", "S": "[^ \\t-\\r]",
    "p": "[!-/:-@\\[-`{-~]", "P": "[^!-/:-@\\[-`{-~]",
}  # fmt: skip


class WapitiPattern:
    """An expression of Wapiti, searched for as it does, in bounded time."""

    def __init__(self, expression: str) -> None:
        characters = expression.encode("utf-8", "surrogateescape").decode("latin-1")
        start, atoms = characters.startswith("^"), list[str]()
        place, end = int(start), len(characters)
        while place < end:
            token = characters[place : place + 2] if characters[place] == "\\" else characters[place]
            if token in ("*", "?") or token == "\\":
                what = "a backslash at the end" if token == "\\" else f"a {token} that repeats nothing"
                raise TemplateError(f'the regular expression "{expression}" has {what}')
            place += len(token)
            if token == "$" and place == end:
                atoms.append("\\Z")
                break
            atom = _WAPITI_CLASSES.get(token[1:], re.escape(token[-1])) if len(token) == 2 else re.escape(token)
            atom = "(?s:.)" if token == "." else atom
            if (repeat := characters[place : place + 1]) and repeat in "*?":
                atom += "*?" if repeat == "*" else "?"
                place += 1
            atoms.append(atom)
        self._pattern = Pattern(("\\A" if start else "") + "".join(atoms), expression)

    def find(self, value: str) -> str | None:
        """The text of the first match; None if there is none. A part of a letter comes as lone surrogates."""
        found = self._pattern.find(value.encode("utf-8", "surrogateescape").decode("latin-1"))
        return None if found is None else found.encode("latin-1").decode("utf-8", "surrogateescape")
