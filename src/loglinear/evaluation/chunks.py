"""Chunks against gold, with the rules and the output of the shared tasks' conlleval.

A label is a tag and, after the first hyphen, a type: ``B-NP`` is the tag B and the type NP. Whether a chunk starts or
ends between two neighbouring labels depends on those two alone (Tjong Kim Sang and Veenstra 1999, *Representing text
chunks*), so that IOB1, IOB2, IOE1, IOE2 and the bracket tags ``[`` and ``]`` are all read by one rule::

    start   B after B I O;  I after O E;  E after O E;  [ and ] always;  another type than before, unless O or .
    end     before B O of B I;  before I E O of E;  [ and ] always;  another type than after, unless O or .

Any other tag starts and ends a chunk by a change of type only (labels of BIOES and BILOU are read as BIO first). An
``O`` stands between sentences. A chunk is correct when gold and prediction start it together, agree on its type
throughout and end it together; then::

    precision = correct / found      recall = correct / gold      FB1 = 2 P R / (P + R)

Labels without types or chunk tags (parts of speech) have no chunks: use :func:`loglinear.evaluation.accuracy_report`.
Letters: S sequences, N positions in all.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from loglinear.arrays import Bool, Int64
from loglinear.evaluation.labels import Labelling, Score, Scored, aligned, percent, scores_by_name

_TAGS = ("O", "B", "I", "E", ".", "[", "]")
_OTHER = len(_TAGS)
_STARTS = ("BB", "IB", "OB", "OI", "EE", "EI", "OE")
_ENDS = ("BB", "BO", "IB", "IO", "EE", "EI", "EO")


@dataclass(frozen=True, slots=True)
class ChunkReport(Scored):
    """What conlleval counts.

    Attributes
    ----------
    tokens : int
        Positions in all.
    correct_tags : int
        Positions whose predicted label is the gold one.
    phrases, found, correct : int
        Chunks of the gold, of the prediction, and those both have.
    types : dict from type to Score
        Sorted by name.
    """

    tokens: int
    correct_tags: int
    phrases: int
    found: int
    correct: int
    types: dict[str, Score]

    @property
    def accuracy(self) -> float:
        """Percent of the positions with the gold label."""
        return percent(self.correct_tags, self.tokens)

    @property
    def score(self) -> Score:
        """Chunks of the gold, of the prediction, and those both have."""
        return Score(self.phrases, self.found, self.correct)

    def text(self) -> str:
        """The report exactly as conlleval prints it."""
        lines = [
            f"processed {self.tokens} tokens with {self.phrases} phrases; "
            f"found: {self.found} phrases; correct: {self.correct}.\n"
        ]
        if self.tokens:
            lines.append(f"accuracy: {self.accuracy:6.2f}%; {_figures(self.score)}\n")
        for name, score in self.types.items():
            padding = " " * (17 - len(name.encode()))  # conlleval pads bytes
            line = f"{padding}{name}: {_figures(score)}  {score.found}\n"
            # conlleval lists the nameless type once for the gold and once for the prediction.
            lines.append(line * 2 if not name and score.gold and score.found else line)
        return "".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON; percentages from 0 to 100."""
        return {
            "tokens": self.tokens,
            "phrases": self.phrases,
            "found": self.found,
            "correct": self.correct,
            "accuracy": self.accuracy,
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "types": {name: score.to_dict() for name, score in self.types.items()},
        }


def _figures(score: Score) -> str:
    return f"precision: {score.precision:6.2f}%; recall: {score.recall:6.2f}%; FB1: {score.f1:6.2f}"


def chunk_scores(gold: Labelling, predicted: Labelling, *, as_written: bool = False) -> ChunkReport:
    """Score predicted chunks against gold as conlleval does; O(N).

    Parameters
    ----------
    gold, predicted : list of lists of str, or (ids [N], values, offsets [S + 1])
        The labels of the same sequences.
    as_written : bool
        Leave labels of BIOES and BILOU as they are, as conlleval does; otherwise read them as the chunks they spell.

    Raises
    ------
    DataError
        Naming the first sequence whose two labellings have different lengths.
    """
    chunks = _Chunks(gold, predicted, as_written)
    phrases, found, correct = (len(rows) for rows in chunks.counted)
    types = scores_by_name(chunks.names, [chunks.types[rows] for rows in chunks.counted])
    return ChunkReport(chunks.n_tokens, chunks.correct_tags, phrases, found, correct, types)


def chunk_counts(gold: Labelling, predicted: Labelling) -> Int64:
    """For each sequence its chunks in the gold, in the prediction, and those both have: int64 [S, 3].

    They add up to what :func:`chunk_scores` counts; for significance tests, which draw sequences.
    """
    chunks = _Chunks(gold, predicted, as_written=False)
    counts = [np.bincount(chunks.sequence[rows], minlength=chunks.n_sequences) for rows in chunks.counted]
    return np.stack(counts, axis=1)


def chunk_spans(labels: Labelling) -> tuple[Int64, Int64, list[str]]:
    """Where the chunks of a labelling begin and end (exclusive), counted over all sequences in a row; their types."""
    chunks = _Chunks(labels, labels, as_written=False)
    starting, ending = chunks.boundaries
    first = np.flatnonzero(starting) + 1
    closing = starting | ending  # a label of no scheme may begin a chunk that nothing ends but the next one
    closing[chunks.offsets[1:] + np.arange(chunks.n_sequences)] = True  # or the end of the sequence
    closed = np.flatnonzero(closing) + 1
    last = closed[np.searchsorted(closed, first, side="right")] - 1
    starts, ends = first - 1 - chunks.sequence[first], last - chunks.sequence[last]
    return starts, ends, [chunks.names[kind] for kind in chunks.types[first].tolist()]


def chunk_ends(labels: list[str]) -> Bool:
    """Whether a chunk that a token of the row's label is in ends before a token of the column's label, [Y, Y]."""
    pairs, tags, types, _ = _analysed(as_bio(labels))
    pairs = np.stack(np.meshgrid(pairs, pairs, indexing="ij"))
    ends: Bool = _boundaries(tags[pairs], types[pairs])[1][0]
    return ends


class _Chunks:
    """Where the chunks are, in rows of both labellings with an O before the first sentence and after each.

    ``counted`` holds the rows where chunks start in the gold and in the prediction, and where correct ones end;
    ``types`` is the type of each row (the predicted one for predictions) and ``sequence`` its sequence. ``boundaries``
    says whether a predicted chunk starts, and whether one ends, before each row but the first.
    """

    def __init__(self, gold: Labelling, predicted: Labelling, as_written: bool) -> None:
        gold_ids, predicted_ids, values, offsets = aligned(gold, predicted)
        same_labels = _analysed(values)[0]
        labels, tags, types, self.names = _analysed(values if as_written else as_bio(values))
        self.n_tokens, self.n_sequences = len(gold_ids), len(offsets) - 1
        self.correct_tags = int(np.count_nonzero(same_labels[gold_ids] == same_labels[predicted_ids]))
        places = np.arange(1, self.n_tokens + 1) + np.repeat(np.arange(self.n_sequences), np.diff(offsets))
        n_rows = self.n_tokens + len(offsets)
        rows = np.zeros((2, n_rows), dtype=np.int64)  # an O is row 0 of the tables
        rows[0, places], rows[1, places] = labels[gold_ids], labels[predicted_ids]
        gold_starts, gold_ends = _boundaries(tags[rows[0]], types[rows[0]])
        starts, ends = _boundaries(tags[rows[1]], types[rows[1]])
        gold_types, found_types = types[rows[0]], types[rows[1]]
        same_type = gold_types[1:] == found_types[1:]
        self.boundaries, self.offsets = (starts, ends), offsets
        self.counted = (
            np.flatnonzero(gold_starts) + 1,
            np.flatnonzero(starts) + 1 + n_rows,  # in the second half of types and sequence
            _correct_ends(gold_starts & starts, gold_ends, ends, same_type),
        )
        self.types = np.concatenate([gold_types, found_types])
        sequence = np.concatenate([[0], np.repeat(np.arange(self.n_sequences), np.diff(offsets) + 1)])
        self.sequence = np.concatenate([sequence, sequence]).astype(np.int64)


def _analysed(values: list[str]) -> tuple[Int64, Int64, Int64, list[str]]:
    """Number of the (tag, type) pair of each value, then code of the tag and number of the type of each pair.

    Pair 0 is (O, ""), and type 0 is "". A type ``0`` counts as none, as it does in Perl.
    """
    pairs = {("O", ""): 0}
    names = {"": 0}
    labels = np.empty(len(values), dtype=np.int64)
    for number, value in enumerate(values):
        tag, _, name = value.partition("-")
        name = "" if name == "0" else name
        names.setdefault(name, len(names))
        labels[number] = pairs.setdefault((tag, name), len(pairs))
    tags = [_TAGS.index(tag) if tag in _TAGS else _OTHER for tag, _ in pairs]
    types = [names[name] for _, name in pairs]
    return labels, np.array(tags, dtype=np.int64), np.array(types, dtype=np.int64), list(names)


def _rule(pairs: tuple[str, ...]) -> Bool:
    """Table [previous tag, tag] that is true at the given pairs of tags."""
    table = np.zeros((_OTHER + 1, _OTHER + 1), dtype=np.bool_)
    for pair in pairs:
        table[_TAGS.index(pair[0]), _TAGS.index(pair[1])] = True
    return table


_START_TABLE, _END_TABLE = _rule(_STARTS), _rule(_ENDS)
_START_TABLE[:, [_TAGS.index("["), _TAGS.index("]")]] = True
_END_TABLE[[_TAGS.index("["), _TAGS.index("]")], :] = True
_CHANGES = np.array([tag not in ("O", ".") for tag in (*_TAGS, "other")])


def _boundaries(tags: Int64, types: Int64) -> tuple[Bool, Bool]:
    """Whether a chunk starts, and whether one ends, between each entry and the one before: both one shorter."""
    previous, current = tags[:-1], tags[1:]
    changed = types[:-1] != types[1:]
    starts: Bool = _START_TABLE[previous, current] | (changed & _CHANGES[current])
    ends: Bool = _END_TABLE[previous, current] | (changed & _CHANGES[previous])
    return starts, ends


def _correct_ends(starts: Bool, gold_ends: Bool, ends: Bool, same_type: Bool) -> Int64:
    """Entries at which a correct chunk ends: where both end, after both started and agreed in between.

    A chunk that both started is open until the first place where either ends or the types differ, and it is correct if
    both end there. At any place ends come before starts, so a start at the place of the last such event is still open.
    """
    opened = np.flatnonzero(starts & same_type)
    events = np.flatnonzero(gold_ends | ends | ~same_type)
    last_opened = np.searchsorted(opened, events)  # number of starts strictly before each event
    previous_event = np.concatenate(([-1], events[:-1]))[: len(events)]
    is_open = last_opened > np.searchsorted(opened, previous_event)  # a start at the previous event or after it
    correct = events[is_open & gold_ends[events] & ends[events]]
    still_open = len(opened) > 0 and (len(events) == 0 or opened[-1] >= events[-1])
    return np.append(correct, len(starts)) if still_open else correct


# ----------------------------------------------------------------------------------------------------------------------
# Chunk labels of other schemes, put into the one that conlleval's rules read.
#
# conlleval knows the tags B, I and O, and E where it is used with I alone. A chunk of one token (``S-`` in BIOES,
# ``U-`` in BILOU) it would merge with a neighbour of the same type, a ``B-`` after an ``E-`` does not start a chunk,
# and ``L-`` is unknown to it; so labels of those schemes are read as BIO first.


_AS_BIO = {"S": "B", "U": "B", "E": "I", "L": "I"}
_CHUNK_LABEL = re.compile(r"O|[BIESUL](-.+)?", re.DOTALL)


def has_chunks(labels: Collection[str]) -> bool:
    """Whether these are chunk labels: each is ``O`` or a chunk tag, with types unless all are B, I or O."""
    if not all(_CHUNK_LABEL.fullmatch(label) for label in labels):
        return False
    return set(labels) <= set("BIO") or any("-" in label for label in labels)


def as_bio(labels: list[str]) -> list[str]:
    """The labels, rewritten as BIO if they are BIOES or BILOU."""
    tags = {label[:1] for label in labels}
    if not has_chunks(labels) or not (tags & set("SUL") or tags >= set("BE")):
        return labels
    return [_AS_BIO.get(label[0], label[0]) + label[1:] for label in labels]
