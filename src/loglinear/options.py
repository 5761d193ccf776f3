"""Options, declared once with their default and help, and the short texts users write them in.

Criteria and optimizers are named by a *spec*, the name and what is to differ from its defaults:

    nota            nota:rate=0.1            mira:k=5,C=0.1            sgd:step=0.05,average

An option that is named without a value is switched on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loglinear.errors import OptionError

SWITCH = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}


@dataclass(frozen=True)
class Option:
    """One option: its name, default and what it means.

    Parameters
    ----------
    name, default, help
        ``help`` is a line for people, in lower case and without a full stop.
    choices : tuple
        The only values there are; ``(False, True)`` is a switch.
    least, above, most : float, optional
        The value is at least ``least``, greater than ``above``, and at most ``most``.
    kind : type, optional
        ``int`` or ``float``.
    """

    name: str
    default: Any
    help: str
    choices: tuple[Any, ...] = ()
    least: float | None = None
    kind: type | None = None
    above: float | None = None
    most: float | None = None

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return self.choices == (False, True)

    def check(self, value: Any) -> None:
        """Refuse a value that makes no sense, saying what would."""
        if value is None and self.default is None:
            return
        if self.choices and value not in self.choices:
            raise OptionError(f"{self.name}={value!r} is not one of {', '.join(map(str, self.choices))}")
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
        if self.is_switch:
            if text.lower() not in SWITCH:
                raise OptionError(f"{self.name}={text!r} must be yes or no")
            return SWITCH[text.lower()]
        if self.kind is not None:
            try:
                value = self.kind(text)
            except ValueError:
                whole = "whole " if self.kind is int else ""
                raise OptionError(f"{self.name}={text!r} must be a {whole}number") from None
        self.check(value)
        return value


def spec_name(spec: str) -> str:
    """The name in a spec."""
    return str(spec).partition(":")[0].strip()


def spec_options(spec: str, declared: Sequence[Option], role: str) -> dict[str, Any]:
    """What a spec says about the ``declared`` options; ``role`` is what the spec names (``criterion``)."""
    name, _, rest = str(spec).partition(":")
    known = {option.name: option for option in declared}
    values: dict[str, Any] = {}
    for item in filter(None, (item.strip() for item in rest.split(","))):
        key, has_value, text = (part.strip() for part in item.partition("="))
        if key not in known:
            there_are = f"it has {', '.join(known)}" if known else "it has none"
            raise OptionError(f"{role} {name!r} has no option {key!r}; {there_are}")
        if key in values:
            raise OptionError(f"{role} {spec!r} gives {key!r} twice")
        if not has_value and not known[key].is_switch:
            example = known[key].default
            if example is None:
                example = 5 if known[key].kind is int else 0.1
            raise OptionError(f"{role} {spec!r}: {key} needs a value, as in {name}:{key}={example}")
        try:
            values[key] = known[key].read(text if has_value else "yes")
        except OptionError as error:
            raise OptionError(f"{role} {spec!r}: {error}") from None
    return values
