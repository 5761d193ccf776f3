"""Which labellings are possible: named label schemes, and rules given by the user.

A chunk of several tokens is written as one label per token (Ramshaw & Marcus 1995; Ratinov & Roth 2009):

    bio      B begins a chunk, I continues it, O is outside                         (also known as IOB2)
    iob1     I is in a chunk; B begins one only right after another of the same type
    bioes    as bio, and E ends a chunk of several tokens, S is a chunk of one
    bilou    bioes with L(ast) for E and U(nit) for S

A label is a prefix, or a prefix, a hyphen and a type (``B-NP``; the type may contain hyphens), or ``O``. Masks become
part scores of 0 and -inf (:func:`penalties`), so inference knows nothing about schemes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from loglinear.arrays import Bool, Float, Int64, UInt8
from loglinear.errors import OptionError

Masks = tuple[UInt8, UInt8, UInt8]
PenaltyArrays = tuple[Float, Float, Float]

Split = tuple[str, str]  # prefix and type of a label


@dataclass(frozen=True)
class _Scheme:
    """Prefixes of a scheme, and which labels may follow each other, begin and end a sequence."""

    prefixes: str
    may_follow: Callable[[Split, Split], bool]
    may_start: str
    may_end: str


def _bio_follows(before: Split, after: Split) -> bool:
    return after[0] != "I" or (before[0] in "BI" and before[1] == after[1])


def _iob1_follows(before: Split, after: Split) -> bool:
    return after[0] != "B" or (before[0] in "BI" and before[1] == after[1])


def _bioes_follows(before: Split, after: Split) -> bool:
    """After B or I the chunk must continue or end (I, E or L) with the same type; elsewhere I, E and L are illegal."""
    if before[0] in "BI":
        return after[0] in "IEL" and before[1] == after[1]
    return after[0] not in "IEL"


SCHEMES: Mapping[str, _Scheme] = {
    "bio": _Scheme("BIO", _bio_follows, "BO", "BIO"),
    "iob1": _Scheme("BIO", _iob1_follows, "IO", "BIO"),
    "bioes": _Scheme("BIOES", _bioes_follows, "BOS", "OES"),
    "bilou": _Scheme("BILOU", _bioes_follows, "BOU", "LOU"),
}


def _split(label: str, prefixes: str) -> Split | None:
    """Prefix and type of a label, or None if it does not have one of these prefixes."""
    prefix, hyphen, kind = label.partition("-")
    is_part = len(prefix) == 1 and prefix in prefixes and bool(kind) == bool(hyphen)
    return (prefix, kind) if is_part and not (prefix == "O" and hyphen) else None


@dataclass(frozen=True)
class Rules:
    """Which transitions are allowed, without a matrix [Y, Y]: by kinds of labels, with exceptions.

    Parameters
    ----------
    kinds : int64 [Y]
        The kind of each label, from 0 to K - 1.
    table : bool [K, K]
        Whether a label of the column's kind may follow one of the row's.
    exceptions : int64 [M]
        Transitions ``previous * Y + label``, ascending, of which the opposite is true.
    starts, ends : uint8 [Y]
        1 where the label may be the first or the last, respectively.
    """

    kinds: Int64
    table: Bool
    exceptions: Int64
    starts: UInt8
    ends: UInt8

    @classmethod
    def anything(cls, n_labels: int) -> Rules:
        """Everything is allowed."""
        return cls.of(np.ones((1, 1), dtype=bool), n_labels)

    @classmethod
    def of(cls, table: Bool, n_labels: int) -> Rules:
        """Rules for labels of a single kind."""
        ones = np.ones(n_labels, np.uint8)
        return cls(np.zeros(n_labels, dtype=np.int64), table, np.zeros(0, dtype=np.int64), ones, ones.copy())

    @classmethod
    def from_masks(cls, transitions: Bool, starts: Bool, ends: Bool) -> Rules:
        """What is more frequent in a mask [Y, Y] of transitions is the rule, the rest are exceptions."""
        usual = bool(2 * np.count_nonzero(transitions) >= transitions.size)
        exceptions = np.flatnonzero(transitions != usual)
        rules = cls.of(np.array([[usual]]), len(transitions))
        return replace(rules, exceptions=exceptions, starts=starts.astype(np.uint8), ends=ends.astype(np.uint8))

    @property
    def n_labels(self) -> int:
        return len(self.kinds)

    def usual(self, transitions: Int64) -> Bool:
        """Whether the kinds of labels alone allow these ``transitions``."""
        before, after = np.divmod(transitions, self.n_labels)
        return self.table[self.kinds[before], self.kinds[after]]

    def allowed(self, transitions: Int64) -> Bool:
        """Whether these ``transitions`` are allowed."""
        return self.usual(transitions) != np.isin(transitions, self.exceptions)

    def without(self, transitions: Int64) -> Rules:
        """These rules, with these ``transitions`` ruled out, too."""
        newly = np.unique(transitions[self.allowed(transitions)])
        return replace(self, exceptions=np.setxor1d(self.exceptions, newly))

    def only(self, transitions: Int64) -> Rules:
        """These rules, with all but these ``transitions`` ruled out, too."""
        left = np.unique(transitions[self.allowed(transitions)])
        return replace(self, table=np.zeros_like(self.table), exceptions=left)

    def split(self, sub_labels: int) -> Rules:
        """The same rules over ``sub_labels`` of each label."""
        if sub_labels == 1:
            return self
        k, n = np.arange(sub_labels), self.n_labels * sub_labels
        before, after = np.divmod(self.exceptions, self.n_labels)
        pairs = (before[:, None] * sub_labels + k)[:, :, None] * n + (after[:, None] * sub_labels + k)[:, None, :]
        starts, ends = np.repeat(self.starts, sub_labels), np.repeat(self.ends, sub_labels)
        return Rules(np.repeat(self.kinds, sub_labels), self.table, np.sort(pairs.ravel()), starts, ends)

    def masks(self) -> Masks:
        """Allowed transitions uint8[Y, Y], starts uint8[Y] and ends uint8[Y]."""
        transitions = np.ascontiguousarray(self.table[np.ix_(self.kinds, self.kinds)], dtype=np.uint8)
        transitions.ravel()[self.exceptions] ^= 1
        return transitions, self.starts.copy(), self.ends.copy()


def scheme_rules(scheme: str, labels: Sequence[str]) -> Rules:
    """The labellings that a scheme allows: a label's prefix is its kind, the exceptions are labels of the same type.

    Raises
    ------
    OptionError
        If the scheme is unknown, or a label does not belong to it.
    """
    if scheme not in SCHEMES:
        raise OptionError(f"there are no constraints named {scheme!r}; choose one of {', '.join(SCHEMES)}")
    rules = SCHEMES[scheme]
    parts, same_type = [], dict[str, list[int]]()
    for y, label in enumerate(labels):
        split = _split(label, rules.prefixes)
        if split is None:
            spelt = ", ".join(f"{prefix} or {prefix}-TYPE" for prefix in rules.prefixes if prefix != "O")
            raise OptionError(
                f"the label {label!r} does not belong to the scheme {scheme!r} ({spelt}, O); "
                "choose another scheme or train without constraints"
            )
        parts.append(split)
        same_type.setdefault(split[1], []).append(y)
    prefixes = rules.prefixes
    table = np.array([[rules.may_follow((a, "one"), (b, "other")) for b in prefixes] for a in prefixes])
    kinds = np.array([prefixes.index(prefix) for prefix, _ in parts], dtype=np.int64)
    exceptions = [
        before * len(labels) + after
        for members in same_type.values()
        for before in members
        for after in members
        if rules.may_follow(parts[before], parts[after]) != table[kinds[before], kinds[after]]
    ]
    starts = np.array([prefix in rules.may_start for prefix, _ in parts], np.uint8)
    ends = np.array([prefix in rules.may_end for prefix, _ in parts], np.uint8)
    return Rules(kinds, table, np.array(sorted(exceptions), dtype=np.int64), starts, ends)


def constraint_masks(scheme: str, labels: Sequence[str]) -> Masks:
    """Masks of the labellings that a scheme allows.

    Parameters
    ----------
    scheme : str
        ``bio``, ``iob1``, ``bioes`` or ``bilou``.
    labels : sequence of str
        The Y labels.

    Returns
    -------
    transitions : uint8[Y, Y]
        1 where the column's label may follow the row's.
    starts, ends : uint8[Y]
        1 where the label may be the first or the last, respectively.

    Raises
    ------
    OptionError
        If the scheme is unknown, or a label does not belong to it.
    """
    return scheme_rules(scheme, labels).masks()


def penalties(masks: Masks) -> PenaltyArrays:
    """Scores of transitions [Y, Y], starts [Y] and stops [Y]: 0 where the masks allow, -inf where not."""
    transition, start, stop = (np.where(mask, 0.0, -np.inf) for mask in masks)
    return transition, start, stop


def detect_scheme(labels: Iterable[str]) -> str | None:
    """The scheme that a label set seems to follow, or None.

    ``bio`` and ``iob1`` have the same prefixes; the answer is ``iob1`` if some type has an I but no B, since a ``bio``
    chunk always begins with B.
    """
    labels = set(labels)
    for scheme in ("bio", "bioes", "bilou"):
        splits = [_split(label, SCHEMES[scheme].prefixes) for label in labels]
        pairs = {split for split in splits if split is not None}
        if len(pairs) < len(labels) or pairs <= {("O", "")}:
            continue
        if "O" not in labels and not any(kind for _, kind in pairs):
            continue  # single letters alone are more likely some other tag set
        begun = {kind for prefix, kind in pairs if prefix == "B"}
        if scheme == "bio" and not {kind for prefix, kind in pairs if prefix == "I"} <= begun:
            return "iob1"
        return scheme
    return None


@dataclass(frozen=True)
class Constraints:
    """Rules for labellings: a scheme, further rules, or both; a labelling must satisfy all of them.

    Parameters
    ----------
    scheme : str, optional
        ``bio``, ``iob1``, ``bioes`` or ``bilou``.
    forbidden : iterable of (str, str)
        Pairs (label, next label) that may not occur.
    allowed : iterable of (str, str), optional
        If given, the only pairs that may occur.
    starts, ends : iterable of str, optional
        If given, the only labels that may be the first or the last of a sequence, respectively.

    Examples
    --------
    >>> rules = Constraints(forbidden=[("DET", "VERB")], starts=["DET", "NOUN"])
    >>> transitions, starts, ends = rules.masks(["DET", "NOUN", "VERB"])
    >>> transitions.tolist(), starts.tolist(), ends.tolist()
    ([[1, 1, 0], [1, 1, 1], [1, 1, 1]], [1, 1, 0], [1, 1, 1])
    """

    scheme: str | None = None
    forbidden: Iterable[tuple[str, str]] = ()
    allowed: Iterable[tuple[str, str]] | None = None
    starts: Iterable[str] | None = None
    ends: Iterable[str] | None = None

    def __post_init__(self) -> None:
        if self.scheme is not None and self.scheme not in SCHEMES:
            raise OptionError(f"there are no constraints named {self.scheme!r}; choose one of {', '.join(SCHEMES)}")
        for name in ("forbidden", "allowed"):
            object.__setattr__(self, name, _pairs(name, getattr(self, name)))
        for name in ("starts", "ends"):
            object.__setattr__(self, name, _labels(name, getattr(self, name)))

    @property
    def named(self) -> set[str]:
        """The labels that the rules name."""
        pairs = [*self.forbidden, *(self.allowed or ())]
        return {*(label for pair in pairs for label in pair), *(self.starts or ()), *(self.ends or ())}

    def rules(self, labels: Sequence[str]) -> Rules:
        """The rules over ``labels``."""
        n = len(labels)
        found = Rules.anything(n) if self.scheme is None else scheme_rules(self.scheme, labels)
        number = {label: y for y, label in enumerate(labels)}

        def find(label: str) -> int:
            if label not in number:
                raise OptionError(f"the constraints name the label {label!r}, which is not one of {', '.join(labels)}")
            return number[label]

        def codes(pairs: Iterable[tuple[str, str]]) -> Int64:
            return np.array([find(before) * n + find(after) for before, after in pairs], dtype=np.int64)

        found = found.without(codes(self.forbidden))
        if self.allowed is not None:
            found = found.only(codes(self.allowed))
        for mask, names in ((found.starts, self.starts), (found.ends, self.ends)):
            if names is not None:
                chosen = [find(name) for name in names]
                mask[np.setdiff1d(np.arange(n), chosen)] = 0
        return found

    def masks(self, labels: Sequence[str]) -> Masks:
        """Allowed transitions uint8[Y, Y], starts uint8[Y] and ends uint8[Y] over ``labels``."""
        return self.rules(labels).masks()

    def penalties(self, labels: Sequence[str]) -> PenaltyArrays:
        """Scores of transitions [Y, Y], starts [Y] and stops [Y] over ``labels``: 0 where allowed, -inf where not."""
        return penalties(self.masks(labels))

    def to_dict(self) -> dict[str, Any]:
        """The rules that are set, as lists and strings that :meth:`from_dict` reads."""
        rules: dict[str, Any] = {}
        if self.scheme is not None:
            rules["scheme"] = self.scheme
        if self.forbidden:
            rules["forbidden"] = [list(pair) for pair in self.forbidden]
        if self.allowed is not None:
            rules["allowed"] = [list(pair) for pair in self.allowed]
        for name in ("starts", "ends"):
            if getattr(self, name) is not None:
                rules[name] = list(getattr(self, name))
        return rules

    @classmethod
    def from_dict(cls, rules: Mapping[str, Any]) -> Constraints:
        """Constraints from ``{"scheme": ..., "forbidden": [[label, next], ...], "allowed", "starts", "ends"}``."""
        known = ("scheme", "forbidden", "allowed", "starts", "ends")
        if not isinstance(rules, Mapping):
            raise OptionError(f"constraints must be an object with some of the keys {', '.join(known)}")
        unknown = [key for key in rules if key not in known]
        if unknown:
            raise OptionError(f"constraints have no key {unknown[0]!r}; the keys are {', '.join(known)}")
        if not isinstance(rules.get("scheme"), str | None):
            raise OptionError(f"the scheme of the constraints must be one of {', '.join(SCHEMES)}")
        return cls(**rules)


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str)


def _pairs(name: str, pairs: Any) -> tuple[tuple[str, str], ...] | None:
    if pairs is None and name == "allowed":
        return None
    checked = [_labels(name, pair) if _is_list(pair) else None for pair in pairs] if _is_list(pairs) else [None]
    if any(pair is None or len(pair) != 2 for pair in checked):
        raise OptionError(f"{name} must be a list of pairs of labels, each a label and the one after it")
    return tuple((pair[0], pair[1]) for pair in checked if pair is not None)


def _labels(name: str, labels: Any) -> tuple[str, ...] | None:
    if labels is None:
        return None
    names = tuple(labels) if _is_list(labels) else (None,)
    if not all(isinstance(label, str) for label in names):
        raise OptionError(f"{name} must be a list of labels")
    return names


def constraints_named(scheme: str, labels: Sequence[str]) -> Constraints:
    """The constraints of a scheme, checked to fit ``labels``."""
    scheme_rules(scheme, labels)
    return Constraints(scheme)
