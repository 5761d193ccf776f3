"""From what users hand over to corpora, encoders and annotations, with errors that name the place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from loglinear import mapped
from loglinear.arrays import Bool, Float, Int32, Int64
from loglinear.data.columns.corpus import Attributes, Column, Columns, ranges
from loglinear.errors import DataError, OptionError
from loglinear.features.encoding import EncodedCorpus, runs
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.gazetteer import Gazetteer
from loglinear.features.templates.language import TemplateSet
from loglinear.structures.chain.features import Penalties
from loglinear.structures.chain.structure import Chain
from loglinear.structures.constraints import Constraints, constraints_named
from loglinear.structures.gold import Gold, observed_ngrams
from loglinear.system import check_memory
from loglinear.wording import how_many

if TYPE_CHECKING:
    from loglinear.features.names import KnownAttributes, NameEncoder

Corpus = Columns | Attributes
Encoder: TypeAlias = "TemplateEncoder | NameEncoder"
FEASIBILITY_BLOCK = 1 << 12  # positions whose labels are checked together


def corpus_of(X: Any, as_rows: bool, empty: bool = False, known: KnownAttributes | None = None) -> Corpus:
    """The user's sequences as a corpus: of token rows, or of features.

    With ``empty``, sequences may be empty: the corpus' ``given_offsets`` have them, its ``offsets`` do not. Of Python
    features only those that are ``known`` are read, if that is given.
    """
    if isinstance(X, Columns | Attributes):
        if isinstance(X, Columns) and not as_rows:
            from loglinear.features.templates.sets import SETS

            raise OptionError(f"{X.name} holds columns, and columns need a template: {', '.join(SETS)}, or your own")
        if isinstance(X, Attributes) and as_rows:
            raise OptionError(f"{X.name} holds ready-made features, but the model looks at columns")
        return X
    if isinstance(X, str | bytes | Mapping) or not hasattr(X, "__iter__"):
        raise DataError(f"X is a {type(X).__name__}, not a list of sequences")
    if type(X).__module__.partition(".")[0] in ("pandas", "polars") and hasattr(X, "columns"):
        raise DataError(
            "X is a table, a row a token; loglinear.data.features_from_frame(X, group=..., label=...) makes a corpus"
        )
    if as_rows:
        from loglinear.features.dense import parted_rows

        tokens, dense = parted_rows(X)
        corpus = Columns.from_rows(tokens, empty=empty)
        corpus.dense = None if dense is None else dense.matrices(corpus.n_tokens)
        return corpus
    from loglinear.features.names import attributes_of

    return attributes_of(X, empty=empty, known=known)


def checked_weights(corpus: Corpus, sample_weight: Any) -> Float | None:
    """The weight of each training sequence [S], None if all are one; refuses a corpus without anything to learn from.

    ``sample_weight`` is what the user gives; None takes the corpus' own weights.
    """
    from loglinear.training.problem import example_weights  # tagging does without it

    if not len(corpus):
        raise DataError("there is no sequence to train on")
    if isinstance(corpus, Attributes):
        if not len(corpus.ids) and corpus.dense is None:
            raise DataError("no token has a feature; in a file, tabs separate the label and the features", corpus.name)
        sample_weight = corpus.sequence_weights if sample_weight is None else sample_weight
    if sample_weight is None:
        return None
    lengths = np.diff(corpus.given_offsets)
    weights = example_weights(sample_weight, len(lengths))
    return weights if corpus.given is None else example_weights(weights[lengths > 0], len(corpus))


def annotation_of(
    corpus: Corpus, y: Any, label_column: int = -1, partial: bool = False, remedy: str = ""
) -> Annotation:
    """Labels given apart, or those of the corpus itself; where it has none, the error ends with ``remedy``."""
    if y is not None:
        return Annotation.from_python(y, corpus.given_offsets)
    if isinstance(corpus, Columns):
        if label_column == -1 and corpus.unlabelled is not None:
            raise DataError(f"this sentence has no labels{remedy}", corpus.name, corpus.unlabelled)
        if not len(corpus):
            return Annotation.unknown(0)
        if corpus.n_columns < 2:
            line = int(corpus.lines[0]) if corpus.n_tokens and corpus.lines[0] else None
            raise DataError(f"there is only one column: the label column is missing{remedy}", corpus.name, line)
        return Annotation.from_column(corpus.column(label_column), partial, lambda t, message: corpus.error(message, t))
    if corpus.label is not None:
        return Annotation.from_column(corpus.label, partial, lambda t, message: corpus.error(message, t))
    raise DataError("y is missing: give the labels of each sequence")


def encoder_for(
    corpus: Corpus,
    template: str | Path | TemplateSet | None,
    gazetteers: Sequence[Gazetteer | str | Path],
    pair_features: bool | str,
    label_column: int | None,
    hash_bits: int | None = None,
    all_gazetteers: bool = True,
    edge: Sequence[str] = (),
) -> Encoder:
    """A new encoder for the corpus; ``label_column`` (None: labels come apart) is one the template must not look at.

    With ``hash_bits``, one that hashes attributes into 2^hash_bits buckets. With ``all_gazetteers`` the template has to
    look at all of them. The features named in ``edge`` are joined with label pairs as well.
    """
    from loglinear.features.names import NameEncoder
    from loglinear.features.templates.hashed import Buckets, HashedNameEncoder, HashedTemplateEncoder
    from loglinear.features.templates.sets import SETS, load_template

    buckets = None if hash_bits is None else Buckets(hash_bits)
    if isinstance(corpus, Attributes):
        if gazetteers:
            raise OptionError("gazetteers need tokens and a template; the data comes as ready-made features")
        names = tuple(edge)
        return (
            NameEncoder(pair_features, names) if buckets is None else HashedNameEncoder(pair_features, buckets, names)
        )
    if edge:
        raise OptionError("edge names ready-made features; in a template, begin a line with * instead")
    if isinstance(gazetteers, str | Path):
        raise OptionError("gazetteers is a list of Gazetteer objects or files; put the one you have in a list")
    read = [g if isinstance(g, Gazetteer) else Gazetteer.read(g) for g in gazetteers]
    by_name = {gazetteer.name: gazetteer for gazetteer in read}
    if len(by_name) != len(read):
        raise OptionError(f"two gazetteers have the same name: {', '.join(sorted(g.name for g in read))}")
    if template is None:
        raise OptionError(f"columns need a template: one of {', '.join(SETS)}, or your own")
    templates = load_template(template, corpus.n_columns - (label_column is not None), by_name, corpus.names)
    if all_gazetteers and (unused := set(by_name) - templates.gazetteers):
        name = sorted(unused)[0]
        raise OptionError(f"the template does not look at the gazetteer {name!r}; add a line U:%gazetteer[0,0,{name}]")
    if label_column is not None and label_column % corpus.n_columns in templates.columns:
        raise OptionError(
            f"the template looks at column {label_column % corpus.n_columns} (from 0) of {corpus.name}, which "
            "holds the labels to be learnt"
        )
    if buckets is not None:
        return HashedTemplateEncoder(templates, by_name, pair_features, buckets)
    return TemplateEncoder(templates, by_name, pair_features)


def constraints_of(constraints: str | Constraints | dict[str, Any] | None, labels: list[str]) -> Constraints | None:
    """Constraints by name, as an object, or as the dict a model file keeps."""
    if constraints is None or isinstance(constraints, Constraints):
        return constraints
    if isinstance(constraints, dict):
        return Constraints.from_dict(constraints)
    if not isinstance(constraints, str):
        raise OptionError(
            f"constraints={constraints!r:.60} is not the name of a scheme, Constraints or a dict of rules"
        )
    return constraints_named(constraints, labels)


def with_seen_pairs(constraints: Constraints | None, labels: list[str], offsets: Int64, gold: Gold) -> Constraints:
    """The constraints, with the pairs (label, next label) and the first labels ruled out that the annotation never has.

    A label that is always the last may be followed by any: each label then has a next one, and so there are labellings
    of every length.
    """
    given, n = constraints or Constraints(), len(labels)
    rules, (pointer, possible) = given.rules(labels), gold.label_lists(n, unlabelled_as_any=True)
    seen = observed_ngrams(offsets, (pointer, possible), n, 1)[0].astype(np.int64)
    last = np.setdiff1d(np.arange(n), seen // n)
    pairs = np.append(seen, (last[:, None] * n + np.arange(n)).ravel())
    before, after = np.divmod(np.sort(pairs[rules.allowed(pairs)]), n)
    lengths = pointer[offsets[:-1] + 1] - pointer[offsets[:-1]]
    first = np.unique(possible[ranges(pointer[offsets[:-1]], lengths)])
    return replace(
        given,
        allowed=[(labels[a], labels[b]) for a, b in zip(before.tolist(), after.tolist(), strict=True)],
        starts=[labels[y] for y in first.tolist() if rules.starts[y]],
    )


def first_infeasible(
    offsets: Int64, gold: Gold, structure: Callable[[Int64], Any], scores: Callable[[int], Any]
) -> int | None:
    """The first sequence whose annotation the constraints leave no labelling for, or None.

    Parameters
    ----------
    offsets : int64 [S + 1]
    gold : Gold
    structure, scores : callable
        From offsets to their structure, and from a number of positions to part scores with what is ruled out at -inf.
    """
    for first, end in runs(offsets, 0, len(offsets) - 1, FEASIBILITY_BLOCK):
        lo, hi = int(offsets[first]), int(offsets[end])
        shape, parts, part = structure(offsets[first : end + 1] - lo), scores(hi - lo), gold.slice(lo, hi)
        if part.allowed is None:
            total = shape.score(parts, part.labels)
        else:
            total = shape.log_partition(shape.restrict(parts, part.allowed))
        if np.isneginf(total).any():
            return first + int(np.argmin(total))
    return None


def check_feasible(encoded: EncodedCorpus | Columns, gold: Gold, penalties: Penalties, corpus: Corpus) -> None:
    """Refuse training labels that the constraints rule out, naming the place."""
    if gold.allowed is None:
        broken = np.flatnonzero(np.isneginf(penalties.of_labelling(encoded.offsets, gold.labels)))
        sequence = int(broken[0]) if len(broken) else None
    else:
        sequence = first_infeasible(encoded.offsets, gold, Chain, penalties.scores)
    if sequence is None:
        return
    first, end = encoded.offsets[sequence : sequence + 2].tolist()
    labels, place = gold.labels[first:end], 0
    if (labels >= 0).all() and penalties.start[labels[0]] == 0.0:
        pairs = labels[:-1].astype(np.int64) * len(penalties.start) + labels[1:]
        broken = np.flatnonzero(~penalties.rules.allowed(pairs))
        place = int(broken[0]) + 1 if len(broken) else len(labels) - 1
    if (labels < 0).any():
        message = (
            "no labelling of this sequence fits both its partial labels and the constraints (a label that stands "
            "nowhere in the training data cannot be chosen); mend the data or train without constraints"
        )
    else:
        message = "the label here breaks the constraints; mend the data or train without them"
    raise corpus.error(message, first + place)


def score_labels(metric: str, annotation: Annotation, predicted: Int32, labels: list[str], offsets: Int64) -> float:
    """Accuracy or chunk F1, from 0 to 1, of predicted label numbers [N].

    A gold label that the model lacks is never predicted; accuracy skips tokens whose label is not settled.
    """
    settled = annotation.settled
    if metric == "accuracy":
        right = annotation.known_only(labels)[settled] == predicted[settled]
        return float(right.mean()) if len(right) else 0.0
    if not settled.all():
        raise annotation.place(int(np.argmin(settled)), "F1 needs one gold label for each token")
    from loglinear.evaluation.chunks import chunk_scores

    values = [*labels, *sorted(annotation.label_names() - set(labels))]
    return chunk_scores((annotation.known_only(values), values, offsets), (predicted, values, offsets)).f1 / 100.0


# ----------------------------------------------------------------------------------------------------------------------
# From a user's labels to numbers: one label a token, none, or a set of possible ones.
#
# In Python a token's label is a string, None (any label) or a collection of strings (one of them). In files, where
# partial labels are asked for, ``*`` is any label and ``A|B`` is A or B.


ANY = "*"
EITHER = "|"
Possible = frozenset[str] | None  # None: any label


def possible_labels(text: str) -> Possible:
    """What a partial label of a file allows: ``*`` any, ``A|B`` either, ``A`` only A."""
    return None if text == ANY else frozenset(text.split(EITHER))


class Annotation:
    """The annotation of N tokens, factorised: token t may have the labels ``possible[ids[t]]``.

    Parameters
    ----------
    ids : int32 [N]
    possible : list of (frozenset of str or None)
        What each distinct annotation allows; None is any label.
    place : callable
        ``place(t, message)`` makes the error that names where token t stands.
    """

    def __init__(self, ids: Int32, possible: list[Possible], place: Callable[[int, str], DataError]) -> None:
        self.ids, self.possible, self.place = ids, possible, place

    @classmethod
    def from_column(cls, column: Column, partial: bool, place: Callable[[int, str], DataError]) -> Annotation:
        """Labels of a file; ``partial`` says whether ``*`` and ``A|B`` have their meaning."""
        read = possible_labels if partial else lambda text: frozenset([text])
        return cls(column.ids, [read(value) for value in column.values], place)

    @classmethod
    def from_python(cls, y: Any, offsets: Int64) -> Annotation:
        """A user's label sequences for sequences of the given ``offsets`` [S + 1]."""
        lengths = np.diff(offsets)
        if isinstance(y, str | bytes) or not isinstance(y, Iterable):
            raise DataError(f"the labels are a {type(y).__name__}, not a list of label sequences")
        sequences = list(y)
        if len(sequences) != len(lengths):
            raise DataError(
                f"given are {how_many(len(lengths), 'sequence')} but {how_many(len(sequences), 'label sequence')}"
            )
        index: dict[Possible, int] = {}
        ids: list[int] = []
        for i, (labels, length) in enumerate(zip(sequences, lengths.tolist(), strict=True)):
            if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
                raise DataError(f"labels of sequence {i} (from 0): a {type(labels).__name__}, not a list of labels")
            labels = list(labels)
            if len(labels) != length:
                tokens = how_many(length, "token")
                raise DataError(f"sequence {i} (from 0) has {tokens} but {how_many(len(labels), 'label')}")
            ids.extend(index.setdefault(_possible(label, i, t), len(index)) for t, label in enumerate(labels))

        def place(position: int, message: str) -> DataError:
            i = int(np.searchsorted(offsets, position, side="right")) - 1
            return DataError(f"sequence {i}, position {position - int(offsets[i])} (from 0): {message}")

        return cls(np.array(ids, dtype=np.int32), list(index), place)

    @classmethod
    def unknown(cls, n_tokens: int) -> Annotation:
        """Tokens of which nothing is known."""
        return cls(np.zeros(n_tokens, dtype=np.int32), [None], lambda t, message: DataError(message))

    def _used(self) -> list[int]:
        """Numbers of the distinct annotations that occur."""
        return np.flatnonzero(mapped.counts(self.ids, len(self.possible))).tolist()

    @property
    def settled(self) -> Bool:
        """Which of the N tokens have one label only."""
        single = [possible is not None and len(possible) == 1 for possible in self.possible]
        return np.array(single, dtype=bool)[self.ids]

    def label_names(self) -> set[str]:
        """All labels that occur."""
        labels: set[str] = set()
        return labels.union(*(self.possible[k] or () for k in self._used()))

    def label_set(self, remedy: str = "") -> list[str]:
        """All labels that occur, sorted; none at all is an error that ends with ``remedy``."""
        labels = self.label_names()
        if not labels:
            raise DataError(f"no token has a label to learn from{remedy}")
        return sorted(labels)

    def gold(self, labels: Sequence[str]) -> Gold:
        """The annotation in numbers; a label that is not among ``labels`` is an error that names its place."""
        index = {label: y for y, label in enumerate(labels)}
        allowed: dict[int, list[int]] = {}
        for k in self._used():
            possible = self.possible[k]
            for label in possible or ():
                if label not in index:
                    position = int(np.argmax(self.ids == k))
                    known = ", ".join(labels[:8]) + (", ..." if len(labels) > 8 else "")
                    raise self.place(position, f"label {label!r} is not one of the model's labels ({known})")
            allowed[k] = list(range(len(labels))) if possible is None else [index[label] for label in possible]
        settled = np.full(len(self.possible), -1, dtype=np.int32)
        for k, numbers in allowed.items():
            if len(numbers) == 1:
                settled[k] = numbers[0]
        gold_labels = mapped.taken(settled, self.ids)
        if (gold_labels >= 0).all():
            return Gold(gold_labels)
        check_memory(float(len(self.ids)) * len(labels), f"a mask of {how_many(len(labels), 'label')} for each token")
        masks = np.zeros((len(self.possible), len(labels)), dtype=np.uint8)
        for k, numbers in allowed.items():
            masks[k, numbers] = 1
        return Gold(gold_labels, masks[self.ids])

    def known_only(self, labels: Collection[str]) -> Int32:
        """Number of each token's label among ``labels``; -1 where it has none of them or more than one."""
        index = {label: y for y, label in enumerate(labels)}
        numbers = [
            index.get(next(iter(possible)), -1) if possible is not None and len(possible) == 1 else -1
            for possible in self.possible
        ]
        return np.array(numbers, dtype=np.int32)[self.ids]


def _possible(label: Any, sequence: int, position: int) -> Possible:
    """What one Python label allows."""
    if label is None:
        return None
    if isinstance(label, str):
        if not label.isascii():
            try:
                label.encode()
            except UnicodeEncodeError:
                place = f"sequence {sequence}, position {position} (from 0)"
                raise DataError(f"{place}: the label {label!r} is not valid Unicode text") from None
        return frozenset([str(label)])
    if isinstance(label, Collection) and not isinstance(label, bytes):
        possible = frozenset(label)
        if not possible:
            raise DataError(f"sequence {sequence}, position {position} (from 0): an empty set of labels allows nothing")
        if all(isinstance(name, str) for name in possible):
            return possible
    raise DataError(
        f"sequence {sequence}, position {position} (from 0): a label is a string, None (any) or a set of strings, "
        f"not {label!r:.60}"
    )
