"""Attributes of whole segments: what each span of up to L tokens looks like, as integers.

Which attributes there are is a spec, kinds joined by ``+``; ``string+length+shape`` for instance. For the span
``San José de Costa`` of a column of words:

    kind       attributes                                                            looks at
    string     string=San José de Costa                                              every word
    shape      shape=Aa Aa a Aa                                                      every word
    first      first=San                                                             the first word
    last       last=Costa                                                            the last word
    prefix     prefix=S  prefix=Sa  prefix=San  prefix=San_  (_ is a blank)          the first characters of the whole
    suffix     suffix=a  suffix=ta  suffix=sta  suffix=osta                          the last characters of the whole
    gazetteer  gazetteer=cities, if the whole is an entry of the gazetteer cities    every word
    length     none here: the length itself has weights, the same at every position  -

No string is made for a span. An attribute is a path of *symbols*, the numbers of words, shapes or characters, and all
paths of a kind are kept as a trie, one sorted array of keys for each depth d::

    key = (number of the node at depth d - 1) * (number of symbols) + symbol

so that all spans of a corpus go down the trie together, with one binary search for each span and depth until it leaves
the known paths. Suffixes are paths of characters from the end.

Span (t, m), the m tokens that end with token t, has the number ``t L + m - 1``; spans that would begin before their
sentence have no attributes. Letters: S sentences, N tokens, L the greatest length, A attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from loglinear.arrays import Array, Bool, Int32, Int64
from loglinear.data.columns.corpus import Column, Columns, ranges
from loglinear.errors import OptionError
from loglinear.features.encoding import BLOCK, UNKNOWN, EncodedCorpus, Incidence, Vocabulary, runs
from loglinear.features.templates.gazetteer import Gazetteer
from loglinear.features.templates.language import brief
from loglinear.kernels import kernel
from loglinear.system import in_threads

KINDS = ("string", "shape", "first", "last", "prefix", "suffix", "gazetteer", "length")
DEFAULT = "+".join(KINDS)
LENGTH, GAZETTEER, NOTHING = "length", "gazetteer", "none"
WHOLE, CLOSING = ("string", "shape"), ("last", "suffix")  # those of every token, and of the last; others of the first
MOST_CHARACTERS = 4  # of a prefix or suffix
BLANK = " "


def read_kinds(spec: str | Iterable[str]) -> tuple[str, ...]:
    """The kinds of attributes that a spec such as ``string+length`` names, in the order of :data:`KINDS`."""
    names = spec.split("+") if isinstance(spec, str) else list(spec)
    if names == [NOTHING]:
        return ()
    for name in names:
        if name not in KINDS:
            raise OptionError(
                f"there are no segment attributes {name!r}; join some of {', '.join(KINDS)} by '+', or say {NOTHING}"
            )
    if len(set(names)) != len(names):
        raise OptionError(f"the segment attributes {'+'.join(names)} name a kind twice")
    return tuple(kind for kind in KINDS if kind in names)


@dataclass(frozen=True, slots=True)
class EncodedSegments:
    """A corpus of tokens and spans in numbers.

    Parameters
    ----------
    tokens : EncodedCorpus
        Attributes of tokens, joined with token labels.
    spans : Incidence or None
        Attributes of spans, span (t, m) at place ``t * n_lengths + m - 1``; None if only tokens have attributes.
    n_lengths : int
        L.
    """

    tokens: EncodedCorpus
    spans: Incidence | None
    n_lengths: int

    @property
    def offsets(self) -> Int64:
        """Sentence i has the tokens ``offsets[i]`` to ``offsets[i + 1]``."""
        return self.tokens.offsets

    @property
    def n_sequences(self) -> int:
        """S."""
        return self.tokens.n_sequences

    @property
    def n_positions(self) -> int:
        """N."""
        return self.tokens.n_positions

    def arrays(self) -> list[Array | None]:
        """All its numbers."""
        spans = self.spans
        return [*self.tokens.arrays(), *((spans.pointer, spans.ids) if spans is not None else ())]


@dataclass(frozen=True)
class Paths:
    """A set of sequences of symbols, as a trie.

    Parameters
    ----------
    width : int
        Number of symbols.
    levels : list of (int64 [n], int32 [n])
        For each depth the keys of its nodes, ascending, and the number of the path that ends there, or -1. Paths are
        numbered by depth and key.
    """

    width: int
    levels: list[tuple[Int64, Int32]] = field(default_factory=list)

    @classmethod
    def collect(
        cls, width: int, symbols: Int32, starts: Int64, lengths: Int64, step: int = 1, prefixes: bool = False,
        min_count: int = 1,
    ) -> Paths:  # fmt: skip
        """The paths of ``lengths[i]`` symbols from place ``starts[i]`` on, each the next ``step`` further.

        With ``prefixes``, what a path begins with counts too. Those seen less than ``min_count`` times are left out.
        """
        node, counted = np.zeros(len(starts), dtype=np.int64), []
        for depth in range(int(lengths.max(initial=0))):
            alive = lengths > depth
            starts, lengths, node = starts[alive], lengths[alive], node[alive]
            keys, node = np.unique(node * width + symbols[starts + step * depth], return_inverse=True)
            ends = node if prefixes else node[lengths == depth + 1]
            counted.append((keys, np.bincount(ends, minlength=len(keys)) >= min_count))
        return cls.from_levels(width, counted)

    @classmethod
    def from_levels(cls, width: int, levels: list[tuple[Int64, Bool]]) -> Paths:
        """From keys and whether a path ends there; nodes that lead to no end are dropped."""
        lead = [ends.copy() for _, ends in levels]
        for depth in range(len(levels) - 1, 0, -1):
            lead[depth - 1][levels[depth][0][lead[depth]] // width] = True
        kept_levels: list[tuple[Int64, Int32]] = []
        renumbered, first = np.zeros(1, dtype=np.int64), 0
        for (keys, ends), leads in zip(levels, lead, strict=True):
            if not leads.any():
                break
            kept, is_end = keys[leads], ends[leads]
            numbers = np.where(is_end, first + np.cumsum(is_end) - 1, UNKNOWN).astype(np.int32)
            kept_levels.append((renumbered[kept // width] * width + kept % width, numbers))
            renumbered, first = np.cumsum(leads) - 1, first + int(is_end.sum())
        return cls(width, kept_levels)

    @property
    def n_paths(self) -> int:
        """Number of paths."""
        return sum(int((numbers >= 0).sum()) for _, numbers in self.levels)

    def walk(self, symbols: Int32, starts: Int64, limits: Int64, step: int = 1) -> Iterator[tuple[int, Int64, Int32]]:
        """Go down from each place ``starts`` [B], ``limits`` [B] symbols at most.

        Yields a depth (from 0), which of the starts have come to it, and the number of the path that ends there or -1.
        """
        alive, node = np.arange(len(starts)), np.zeros(len(starts), dtype=np.int64)
        for depth, (keys, numbers) in enumerate(self.levels):
            within = limits[alive] > depth
            alive, node = alive[within], node[within]
            if not len(alive):
                return
            symbol = symbols[starts[alive] + step * depth]
            key = node * self.width + symbol
            place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            found = (symbol >= 0) & (keys[place] == key)
            alive, node = alive[found], place[found]
            yield depth, alive, numbers[node]

    def symbols(self) -> list[Int64]:
        """For each depth, the symbols [paths that end there, depth] of its paths, in the order of their numbers."""
        rows, table = [], np.zeros((1, 0), dtype=np.int64)
        for keys, numbers in self.levels:
            table = np.column_stack([table[keys // self.width], keys % self.width])
            rows.append(table[numbers >= 0])
        return rows

    def keeping(self, kept: Bool) -> Paths:
        """Only the paths where ``kept``, renumbered in the same order."""
        ends = [np.append(kept, False)[numbers] & (numbers >= 0) for _, numbers in self.levels]
        return self.from_levels(self.width, [(keys, each) for (keys, _), each in zip(self.levels, ends, strict=True)])

    def used(self) -> Bool:
        """Which symbols [width] occur."""
        used = np.zeros(self.width, dtype=bool)
        for keys, _ in self.levels:
            used[keys % self.width] = True
        return used

    def renaming(self, renamed: Int64, width: int) -> Paths:
        """Symbol s becomes ``renamed[s]`` of ``width`` symbols; the order must stay."""
        return Paths(
            width, [(keys // self.width * width + renamed[keys % self.width], numbers) for keys, numbers in self.levels]
        )


class _Symbols(NamedTuple):
    """The symbols of each of a column's V values.

    words, shapes : int32 [V]
    characters : int32 [C]
        Those of all values, each with a blank after it.
    places, sizes : int64 [V]
        Where the characters of each value lie, and how many they are, the blank among them.
    listed : dict of int32 [V]
        By gazetteer, the number of each value among the words of its entries, or -1.
    """

    words: Int32
    shapes: Int32
    characters: Int32
    places: Int64
    sizes: Int64
    listed: dict[str, Int32]


class _Text(NamedTuple):
    """The symbols of a run of sentences.

    words, shapes : int32 [n]
    characters : int32 [c]
        The words' characters with a blank after each word.
    begins, ends : int64 [n]
        Where each word's characters begin and end (exclusive).
    starts, stops : int64 [n]
        First and last token (exclusive) of each token's sentence.
    """

    words: Int32
    shapes: Int32
    characters: Int32
    begins: Int64
    ends: Int64
    starts: Int64
    stops: Int64


class _Route(NamedTuple):
    """Where the paths of one kind lie.

    That of token t begins at ``symbols[places[t]]`` and has at most ``room[t]`` symbols, each ``step`` further.
    """

    symbols: Int32
    places: Int64
    room: Int64
    step: int = 1


@kernel
def _fill(
    starts: Int64, n_lengths: int, whole: Int32, opening: Int32, closing: Int32, needed: Int64, begins: Int64,
    ends: Int64, pointer: Int64, ids: Int32,
) -> int:  # fmt: skip
    """Attributes of the spans of n tokens, one after the other, into ``ids``; their number.

    ``whole`` [kinds, n, L] are those of whole spans, ``opening`` [kinds, n] those of the first token and ``closing``
    [kinds, n] of the last, for spans of at least ``needed`` [kinds] characters; -1 is none.
    """
    filled = 0
    for t in range(starts.shape[0]):
        for m in range(n_lengths):
            pointer[t * n_lengths + m] = filled
            first = t - m
            if first < starts[t]:
                continue
            for k in range(whole.shape[0]):
                if whole[k, t, m] >= 0:
                    ids[filled] = whole[k, t, m]
                    filled += 1
            size = ends[t] - begins[first]
            for k in range(needed.shape[0]):
                if needed[k] <= size:
                    if opening[k, first] >= 0:
                        ids[filled] = opening[k, first]
                        filled += 1
                    if closing[k, t] >= 0:
                        ids[filled] = closing[k, t]
                        filled += 1
    pointer[starts.shape[0] * n_lengths] = filled
    return filled


class SegmentEncoder:
    """Encodes the spans of corpora of token rows.

    Parameters
    ----------
    kinds : str or sequence of str
        Which attributes, as a spec (``string+shape``) or a list of kinds.
    n_lengths : int
        L, the length of the longest spans.
    column : int
        The column of words, from 0.
    gazetteers : mapping of name to Gazetteer
        Those that the kind ``gazetteer`` looks into.
    """

    kind = "segments"

    def __init__(
        self,
        kinds: str | Sequence[str] = DEFAULT,
        n_lengths: int = 1,
        column: int = 0,
        gazetteers: Mapping[str, Gazetteer] | None = None,
    ) -> None:
        self.kinds, self.n_lengths, self.column = read_kinds(kinds), n_lengths, column
        self.gazetteers = dict(gazetteers or {}) if GAZETTEER in self.kinds else {}
        self.values = Vocabulary()
        self.paths: dict[str, Paths] = {kind: Paths(1) for kind in self.kinds if kind not in (GAZETTEER, LENGTH)}
        self._entries = {name: _entries(gazetteer) for name, gazetteer in self.gazetteers.items()}

    # -- encoding ------------------------------------------------------------------------------------------------

    def fit(
        self, corpus: Columns, chosen: Int64 | None = None, min_count: int = 1, n_threads: int = 1
    ) -> Incidence | None:
        """Collect the attributes of a training corpus, lock, and return those of its spans.

        Parameters
        ----------
        corpus : Columns
        chosen : int64, optional
            The numbers ``t L + m - 1`` of the spans whose attributes count; all of them if not given. The spans of the
            annotation say enough if only what was observed gets a weight, and leave few attributes.
        min_count : int
            Attributes that fewer of these spans have are left out.
        n_threads : int
            The result is the same for any number.
        """
        self.values = Vocabulary()
        symbols = self._symbols(corpus)
        text = self._text(corpus, symbols, 0, corpus.n_sentences)
        if chosen is None:
            begin = np.arange(corpus.n_tokens)[:, None] - np.arange(self.n_lengths)
            chosen = np.flatnonzero(begin >= text.starts[:, None])
        last, lengths = chosen // self.n_lengths, chosen % self.n_lengths + 1
        first = last - lengths + 1
        for kind in self.paths:
            route, anchor = self._route(kind, text), last if kind in CLOSING else first
            wanted = lengths if kind in WHOLE else route.room[anchor]
            if kind in ("prefix", "suffix"):
                wanted = np.minimum(wanted, text.ends[last] - text.begins[first])
            self.paths[kind] = Paths.collect(
                max(len(self.values), 1), route.symbols, route.places[anchor], wanted, route.step,
                prefixes=kind not in WHOLE, min_count=min_count,
            )  # fmt: skip
        self._compact()
        return self.transform(corpus, n_threads)

    def transform(self, corpus: Columns, n_threads: int = 1) -> Incidence | None:
        """Attributes of all spans of a corpus, those known from training; None if no kind looks at spans."""
        if not self.paths and not self.gazetteers:
            return None
        symbols = self._symbols(corpus)
        blocks = runs(corpus.offsets, 0, corpus.n_sentences, BLOCK)
        found = in_threads(lambda run: self._encode(corpus, symbols, *run), blocks, n_threads)
        sizes = np.concatenate([[0], np.cumsum([len(ids) for _, ids in found])]).astype(np.int64)
        pointers = [pointer[:-1] + size for (pointer, _), size in zip(found, sizes.tolist(), strict=False)]
        pointer = np.concatenate([*pointers, sizes[-1:]])
        return Incidence(pointer, np.concatenate([np.zeros(0, dtype=np.int32), *(ids for _, ids in found)]))

    def _encode(self, corpus: Columns, symbols: _Symbols, first: int, end: int) -> tuple[Int64, Int32]:
        """Attributes of the spans of sentences ``first`` to ``end``: pointer and numbers."""
        text = self._text(corpus, symbols, first, end)
        n = len(text.starts)
        whole, opening, closing, needed = [], [], [], []
        for kind, base in zip(self.paths, self._bases().tolist(), strict=False):
            paths, route = self.paths[kind], self._route(kind, text)
            if kind in WHOLE:
                whole.append(self._whole(paths, route, base))
                continue
            for depth, which, numbers in paths.walk(*route):
                found = np.full((2, n), UNKNOWN, dtype=np.int32)
                found[int(kind in CLOSING), which] = np.where(numbers >= 0, base + numbers, UNKNOWN)
                opening.append(found[0])
                closing.append(found[1])
                needed.append(depth + 1 if kind in ("prefix", "suffix") else 0)
        tokens, first_number = np.arange(n), self.n_attributes - len(self.gazetteers)
        for i, (name, (_, entries)) in enumerate(self._entries.items()):
            ids = corpus.column(self.column).ids[corpus.offsets[first] : corpus.offsets[end]]
            route = _Route(symbols.listed[name][ids], tokens, np.minimum(text.stops - tokens, self.n_lengths))
            hits = self._whole(entries, route, 0) >= 0
            whole.append(np.where(hits, first_number + i, UNKNOWN).astype(np.int32))
        pointer = np.empty(n * self.n_lengths + 1, dtype=np.int64)
        ids = np.empty(n * self.n_lengths * (len(whole) + len(needed)), dtype=np.int32)
        nothing = np.zeros((0, n), dtype=np.int32)
        filled = _fill(
            text.starts, self.n_lengths,
            np.stack(whole) if whole else np.zeros((0, n, self.n_lengths), dtype=np.int32),
            np.stack(opening) if opening else nothing, np.stack(closing) if closing else nothing,
            np.array(needed, dtype=np.int64), text.begins, text.ends, pointer, ids,
        )  # fmt: skip
        return pointer, ids[:filled].copy()

    def _whole(self, paths: Paths, route: _Route, base: int) -> Int32:
        """``base`` plus the number of the path that each span is, [n, L]; -1 where it is none."""
        found = np.full((len(route.places), self.n_lengths), UNKNOWN, dtype=np.int32)
        for depth, which, numbers in paths.walk(*route):
            found[which + depth, depth] = np.where(numbers >= 0, base + numbers, UNKNOWN)
        return found

    def _route(self, kind: str, text: _Text) -> _Route:
        """Where the paths of a kind lie in a text."""
        tokens = np.arange(len(text.starts))
        if kind == "prefix":
            room = text.ends[text.stops - 1] - text.begins
            return _Route(text.characters, text.begins, np.minimum(room, MOST_CHARACTERS))
        if kind == "suffix":
            room = text.ends - text.begins[text.starts]
            return _Route(text.characters, text.ends - 1, np.minimum(room, MOST_CHARACTERS), -1)
        if kind in WHOLE:
            room = np.minimum(text.stops - tokens, self.n_lengths)
            return _Route(text.words if kind == "string" else text.shapes, tokens, room)
        return _Route(text.words, tokens, np.ones_like(tokens))

    def _symbols(self, corpus: Columns) -> _Symbols:
        """The symbols of the values of the words' column; new ones are numbered unless the vocabulary is locked."""
        column = corpus.column(self.column) if corpus.n_tokens else Column(np.zeros(0, dtype=np.int32), [])
        used = (np.bincount(column.ids, minlength=len(column.values)) > 0).tolist()
        strings = [value if u else None for value, u in zip(column.values, used, strict=True)]
        n, nothing = len(strings), np.zeros(0, dtype=np.int32)
        words = shapes = np.full(n, UNKNOWN, dtype=np.int32)
        characters, places, sizes = nothing, np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        if {"string", "first", "last"} & set(self.kinds):
            words = self.values.ids(strings)
        if "shape" in self.kinds:
            shapes = self.values.ids([None if string is None else brief(string) for string in strings])
        if {"prefix", "suffix"} & set(self.kinds):
            texts = [(string or "") + BLANK for string in strings]
            codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
            alphabet, letters = np.unique(codes, return_inverse=True)
            characters = self.values.ids(map(chr, alphabet.tolist()))[letters] if n else nothing
            sizes = np.array([len(text) for text in texts], dtype=np.int64)
            places = np.cumsum(sizes) - sizes
        listed = {
            name: np.array([index.get(value, UNKNOWN) for value in column.values], dtype=np.int32)
            for name, (index, _) in self._entries.items()
        }
        return _Symbols(words, shapes, characters, places, sizes, listed)

    def _text(self, corpus: Columns, symbols: _Symbols, first: int, end: int) -> _Text:
        """Sentences ``first`` to ``end`` as symbols."""
        lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
        ids = corpus.column(self.column).ids[lo:hi] if hi > lo else np.zeros(0, dtype=np.int32)
        lengths = np.diff(corpus.offsets[first : end + 1])
        starts = np.repeat(corpus.offsets[first:end] - lo, lengths)
        sizes = symbols.sizes[ids]
        stops = np.cumsum(sizes)
        return _Text(
            words=symbols.words[ids],
            shapes=symbols.shapes[ids],
            characters=symbols.characters[ranges(symbols.places[ids], sizes)],
            begins=stops - sizes,
            ends=stops - (sizes > 0),
            starts=starts,
            stops=starts + np.repeat(lengths, lengths),
        )

    def _compact(self) -> None:
        """Keep the values that some path uses, and lock."""
        used = np.zeros(max(len(self.values), 1), dtype=bool)
        for paths in self.paths.values():
            used |= paths.used()
        renamed, width = np.cumsum(used) - 1, max(int(used.sum()), 1)
        self.values = Vocabulary([self.values[i] for i in np.flatnonzero(used).tolist()], locked=True)
        self.paths = {kind: paths.renaming(renamed, width) for kind, paths in self.paths.items()}

    # -- the attributes ------------------------------------------------------------------------------------------

    def _bases(self) -> Int64:
        """Number of the first attribute of each kind of paths, then of the gazetteers', and of all attributes."""
        sizes = [*(paths.n_paths for paths in self.paths.values()), len(self.gazetteers)]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @property
    def n_attributes(self) -> int:
        """A."""
        return int(self._bases()[-1])

    def _keys(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Kind and strings of each attribute, in the order of their numbers."""
        strings = self.values.strings
        for kind, paths in self.paths.items():
            for level in paths.symbols():
                for row in level.tolist():
                    yield kind, tuple(strings[symbol] for symbol in row)
        yield from ((GAZETTEER, (name,)) for name in self.gazetteers)

    def names(self) -> list[str]:
        """All attributes' names."""
        return [f"{kind}={_joined(kind, strings)}" for kind, strings in self._keys()]

    def matching(self, other: SegmentEncoder) -> Int32:
        """For each of ``other``'s attributes, the number of the same attribute here, or -1."""
        mine = {key: number for number, key in enumerate(self._keys())}
        return np.array([mine.get(key, UNKNOWN) for key in other._keys()], dtype=np.int32)

    def keeping(self, kept: Bool) -> SegmentEncoder:
        """An encoder of the attributes where ``kept``, renumbered in the same order, and of the values they use."""
        bases = self._bases()
        names = [name for name, keep in zip(self.gazetteers, kept[bases[-2] :].tolist(), strict=True) if keep]
        gazetteers = {name: self.gazetteers[name] for name in names}
        encoder = SegmentEncoder(self.kinds, self.n_lengths, self.column, gazetteers)
        encoder.values = Vocabulary(self.values.strings)
        for k, (kind, paths) in enumerate(self.paths.items()):
            encoder.paths[kind] = paths.keeping(kept[bases[k] : bases[k + 1]])
        encoder._compact()
        return encoder

    # -- storage -------------------------------------------------------------------------------------------------

    def to_header(self) -> dict[str, Any]:
        """What is not arrays or strings, as JSON types."""
        return {
            "kinds": "+".join(self.kinds) or NOTHING,
            "n_lengths": self.n_lengths,
            "column": self.column,
            "gazetteers": [gazetteer.to_dict() for gazetteer in self.gazetteers.values()],
        }

    def to_arrays(self) -> dict[str, Array]:
        """The tries: number of levels of each kind, sizes of the levels, their keys and which of these are ends."""
        levels = [level for paths in self.paths.values() for level in paths.levels]
        nothing = np.zeros(0, dtype=np.int64)
        return {
            "depths": np.array([len(paths.levels) for paths in self.paths.values()], dtype=np.int64),
            "sizes": np.array([len(keys) for keys, _ in levels], dtype=np.int64),
            "keys": np.concatenate([nothing, *(keys for keys, _ in levels)]),
            "ends": np.concatenate([nothing, *(numbers >= 0 for _, numbers in levels)]).astype(np.uint8),
        }

    @property
    def strings(self) -> list[str]:
        """The strings a model file stores beside the arrays."""
        return self.values.strings

    @classmethod
    def from_storage(cls, header: dict[str, Any], arrays: Mapping[str, Array], strings: list[str]) -> SegmentEncoder:
        """Rebuild from what :meth:`to_header`, :meth:`to_arrays` and :attr:`strings` gave; checks every bound."""
        gazetteers = [Gazetteer.from_dict(stored) for stored in header["gazetteers"]]
        encoder = cls(
            str(header["kinds"]), int(header["n_lengths"]), int(header["column"]), {g.name: g for g in gazetteers}
        )
        encoder.values = Vocabulary(strings, locked=True)
        for name in ("depths", "sizes", "keys", "ends"):
            if arrays[name].ndim != 1 or arrays[name].dtype.kind not in "iub":
                raise ValueError(f"{name}: not whole numbers in a row")
        depths, sizes = arrays["depths"].tolist(), arrays["sizes"].tolist()
        keys, ends = arrays["keys"].astype(np.int64), arrays["ends"].astype(bool)
        if len(depths) != len(encoder.paths) or min([0, *depths, *sizes]) < 0 or sum(depths) != len(sizes):
            raise ValueError("the tries of segment attributes do not fit their kinds")
        if sum(sizes) != len(keys) or len(keys) != len(ends):
            raise ValueError("the tries of segment attributes are not complete")
        cuts = np.cumsum(sizes, dtype=np.int64)
        levels = iter(zip(np.split(keys, cuts), np.split(ends, cuts), strict=True))
        for kind, depth in zip(encoder.paths, depths, strict=True):
            encoder.paths[kind] = _checked(len(strings), [next(levels) for _ in range(depth)])
        return encoder


def _joined(kind: str, strings: tuple[str, ...]) -> str:
    """The strings of an attribute's symbols as one."""
    if kind == "suffix":
        return "".join(reversed(strings))
    return "".join(strings) if kind == "prefix" else BLANK.join(strings)


def _checked(width: int, levels: list[tuple[Int64, Bool]]) -> Paths:
    """The trie of stored levels, refused if a node's parent or symbol does not exist."""
    n_parents = 1
    for keys, _ in levels:
        if len(keys) and (keys[0] < 0 or keys[-1] >= n_parents * width or (np.diff(keys) <= 0).any()):
            raise ValueError("a trie of segment attributes is damaged")
        n_parents = len(keys)
    paths = Paths.from_levels(max(width, 1), levels)
    if [len(keys) for keys, _ in paths.levels] != [len(keys) for keys, _ in levels]:
        raise ValueError("a trie of segment attributes leads nowhere")
    return paths


def _entries(gazetteer: Gazetteer) -> tuple[dict[str, int], Paths]:
    """Numbers of the words of a gazetteer, and its entries as paths of these."""
    entries = [tuple(entry) for entry in gazetteer.entries]
    words: dict[str, int] = {}
    symbols = np.array([words.setdefault(word, len(words)) for entry in entries for word in entry], dtype=np.int32)
    lengths = np.array([len(entry) for entry in entries], dtype=np.int64)
    return words, Paths.collect(max(len(words), 1), symbols, np.cumsum(lengths) - lengths, lengths)
