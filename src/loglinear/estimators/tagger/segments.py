"""Taggers of segments: a semi-Markov model whose features look at whole segments (Sarawagi & Cohen 2004).

Users annotate and get token labels, as with a chain. The labels' scheme (``B-PER I-PER`` is one segment of the label
PER) says which segments they spell; a segment has features of its own beside those of its tokens::

    score(segmentation) = sum over segments (i, j, y)   sum_t  w . f(token t, its label)
                                                      + w . g(tokens i .. j-1, y) + length(j - i, y)
                                                      + transition(label before, y)

Structure and features are :mod:`loglinear.structures.segments`, attributes of spans :mod:`loglinear.features.segments`.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np

from loglinear.arrays import Arrays, Bool, Float, Int32
from loglinear.data.columns.corpus import Attributes, Columns
from loglinear.errors import OptionError
from loglinear.estimators.tagger.inputs import Corpus, Encoder, constraints_of, first_infeasible
from loglinear.estimators.tagger.model import SequenceModel, TrainingData, list_arrays, read_lists
from loglinear.features.segments import DEFAULT, LENGTH, EncodedSegments, SegmentEncoder, read_kinds
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.model_file import Reader, string_arrays
from loglinear.structures.constraints import Constraints, detect_scheme
from loglinear.structures.gold import Gold
from loglinear.structures.segments.features import SegmentFeatures, SegmentPenalties, match_blocks, numbers_of, observe
from loglinear.structures.segments.scheme import MOST_LENGTH, SegmentScheme
from loglinear.structures.segments.structure import Segments
from loglinear.system import thread_count


@dataclass
class SegmentModel(SequenceModel):
    """A model of segments with weights.

    Parameters
    ----------
    labels, encoder, weights, constraints
        As for every :class:`~loglinear.estimators.tagger.model.SequenceModel`: labels and attributes of tokens.
    features : SegmentFeatures
    spans : SegmentEncoder
        Makes attributes of the spans of a corpus.
    """

    structure_name: ClassVar[str] = "segments"
    kinds: ClassVar[tuple[str, ...]] = ("state", "segment", "length", "transition")

    features: SegmentFeatures
    spans: SegmentEncoder = field(default_factory=SegmentEncoder)

    @classmethod
    def collect(cls, data: TrainingData) -> tuple[Self, EncodedSegments, Gold]:
        options, corpus, encoder, gold, labels, transitions, _, known = data
        if corpus.dense is not None:
            raise OptionError(f"structure='segments' has no dense features; leave out {', '.join(corpus.dense)}")
        if known is not None:
            raise OptionError("a model of segments does not grow; train one of all data with fit, or structure='chain'")
        constraints, n_threads = constraints_of(options.constraints, labels), thread_count(options.threads)
        scheme, gold = scheme_of(labels, constraints, options.max_length, corpus, gold)
        check_annotation(corpus, gold, scheme, constraints)
        kinds = segment_kinds(options.segment_features, corpus)
        column, gazetteers, attributes = 0, None, None
        if isinstance(encoder, TemplateEncoder):
            column, gazetteers = min(encoder.templates.columns, default=0), encoder.gazetteers
        spans = SegmentEncoder(kinds, scheme.n_lengths, column, gazetteers)
        shown = observe(corpus.offsets, gold, scheme)
        tokens = encoder.fit(corpus, options.min_count, n_threads)  # type: ignore[arg-type]  # fits the corpus' kind
        if isinstance(corpus, Columns):
            attributes = spans.fit(corpus, np.unique(shown.spans), options.min_count, n_threads)
        encoded = EncodedSegments(tokens, attributes, scheme.n_lengths)
        features = SegmentFeatures.collect(
            encoded, encoder.n_attributes, spans.n_attributes, gold, scheme, options.states, transitions,
            options.states if LENGTH in kinds else "none", shown,
        )  # fmt: skip
        return cls(labels, encoder, features, np.zeros(features.n_features), constraints, spans), encoded, gold

    @classmethod
    def from_storage(cls, read: Reader, labels: list[str], encoder: Encoder) -> Self:
        stored, strings = read.section("spans"), read.strings("spans.strings")
        with read.building("scheme"):
            scheme = SegmentScheme.from_header(labels, read.section("scheme").header)
        y = float(scheme.n_labels)
        read.room("scheme.limits", 64.0 * scheme.n_lengths * y + 32.0 * y * y)
        with read.building("spans"):
            spans = SegmentEncoder.from_storage(dict(stored.header), stored.arrays, strings)
            if spans.n_lengths != scheme.n_lengths:
                read.fail("spans", f"they are of up to {spans.n_lengths} tokens, segments of up to {scheme.n_lengths}")
        c, segment = scheme.n_kinds, None
        if "segment.counts" in read.arrays:
            segment = read_lists(read, "segment", spans.n_attributes, c)
        state = read_lists(read, "state", encoder.n_attributes, scheme.n_token_labels)
        lengths = read.ints("lengths", (None,), scheme.n_lengths * c)
        transitions = read.ints("transitions", (None,), c**2)
        features = SegmentFeatures(scheme, state, segment, lengths, transitions)
        return cls(labels, encoder, features, np.zeros(features.n_features), spans=spans)

    def to_storage(self) -> tuple[dict[str, Any], Arrays]:
        features = self.features
        arrays = {
            **list_arrays("state", features.state),
            **({} if features.segment is None else list_arrays("segment", features.segment)),
            "lengths": features.lengths,
            "transitions": features.transitions,
            **{f"spans.{name}": array for name, array in self.spans.to_arrays().items()},
            **string_arrays("spans.strings", self.spans.strings),
        }
        return {"scheme": features.scheme.to_header(), "spans": self.spans.to_header()}, arrays

    @cached_property
    def penalties(self) -> SegmentPenalties:
        return SegmentPenalties.from_constraints(self.features.scheme, self.constraints)

    def encode(self, corpus: Corpus, n_threads: int = 1) -> EncodedSegments:
        tokens = super().encode(corpus, n_threads)
        spans = self.spans.transform(corpus, n_threads) if isinstance(corpus, Columns) else None
        return EncodedSegments(tokens, spans, self.features.scheme.n_lengths)

    def keeping(self, kept: Bool) -> Self:
        if kept.all():
            return self
        features, used, spans_used = self.features.keep(kept)
        spans = self.spans if features.segment is None else self.spans.keeping(spans_used)
        return replace(
            self, encoder=self.encoder.keeping(used), features=features, weights=self.weights[kept], spans=spans
        )

    def counts(self, corpus: EncodedSegments, labels: Int32) -> Any:
        return self.features.counts(corpus, Gold(labels))

    @property
    def why_infeasible(self) -> str:
        scheme = self.features.scheme
        limits = dict(zip(scheme.segment_labels, scheme.limits.tolist(), strict=True))
        longest = ", ".join(f"{label} {limit}" for label, limit in limits.items() if limit > 1)
        return f"; segments have at most so many tokens: {longest or 'one'}"

    def log_probability(self, corpus: EncodedSegments, labels: Int32, n_threads: int = 1) -> Float:
        """log p(labels given sequence) of each sequence [S]; -inf for labels that spell no segments."""
        scheme, offsets = self.features.scheme, corpus.offsets.tolist()
        legal = np.array(
            [scheme.mistake(np.array([0, b - a]), labels[a:b]) is None for a, b in itertools.pairwise(offsets)], bool
        )
        if not legal.all():
            illegal = np.repeat(~legal, np.diff(corpus.offsets))
            labels = np.where(illegal, self.decode(corpus, n_threads=n_threads), labels).astype(np.int32)
        return np.where(legal, super().log_probability(corpus, labels, n_threads), -np.inf)

    @property
    def shown_labels(self) -> list[str]:
        return list(dict.fromkeys([*self.labels, *self.features.scheme.kind_names]))

    def states_of(self, labels: list[str]) -> list[str]:
        """The labels of tokens, and those of the segments that these spell."""
        scheme, wanted = self.features.scheme, {y for y, label in enumerate(self.labels) if label in labels}
        places = zip(scheme.single, scheme.first, scheme.inner, scheme.last, strict=True)
        spelt = {int(kind) for kind, each in zip(scheme.kinds, places, strict=True) if wanted & {*map(int, each)}}
        return list(dict.fromkeys([*labels, *(scheme.kind_names[kind] for kind in sorted(spelt))]))

    def named(self, kind: str) -> dict[tuple[str, ...], float]:
        if kind not in self.kinds:
            return {}
        names = self.features.names(self.encoder.names(), self.spans.names())
        return {name[1:]: w for name, w in zip(names, self.weights.tolist(), strict=True) if name[0] == kind}

    def weights_from(self, other: SequenceModel) -> Float:
        """A start for this model's weights; of a chain, those of (attribute, label) alone."""
        start, attributes = np.zeros(self.features.n_features), self.matching_attributes(other)
        if isinstance(other, SegmentModel):
            places = self.features.match(other.features, attributes, self.spans.matching(other.spans))
        else:
            if other.sub_labels > 1:
                raise OptionError(f"the model to start from has {other.sub_labels} sub-labels, which segments do not")
            places = match_blocks(
                self.features.state, other.features.state, attributes, numbers_of(self.labels, other.labels)
            )
        found = places >= 0
        start[places[found]] = other.weights[: len(places)][found]
        return start


def scheme_of(
    labels: list[str], constraints: Constraints | None, max_length: Any, corpus: Corpus, gold: Gold
) -> tuple[SegmentScheme, Gold]:
    """The segments that token labels spell, and the annotation as it spells them.

    The scheme is the one that the constraints name, or that the labels look like. Where ``max_length`` is None, a
    label's segments are at most as long as the longest of the annotation. Labels that are illegal where they are, such
    as an ``I-X`` after ``O``, are read as conlleval reads them, with a warning.
    """
    name = detect_scheme(labels) if constraints is None or constraints.scheme is None else constraints.scheme
    scheme = SegmentScheme.from_labels(labels, name)
    if gold.allowed is None:
        mended = scheme.mended(corpus.offsets, gold.labels)
        if len(changed := np.flatnonzero(mended != gold.labels)):
            before, after = labels[gold.labels[changed[0]]], labels[mended[changed[0]]]
            others = f", and {len(changed) - 1:,} more labels likewise" if len(changed) > 1 else ""
            place = corpus.error(f"the label {before!r} cannot stand here; it is read as {after!r}{others}", changed[0])
            warnings.warn(str(place), stacklevel=2)
        gold = Gold(mended)
    longest = scheme.longest(corpus.offsets, gold.labels)
    scheme = scheme.with_limits(longest if gold.allowed is None else np.full_like(longest, longest.max()))
    if max_length is not None:
        return scheme.with_limits(read_max_length(max_length, scheme)), gold
    most = min(int(np.diff(corpus.offsets).max(initial=1)), MOST_LENGTH)
    while gold.allowed is not None and scheme.n_lengths < most and _infeasible(corpus, gold, scheme) is not None:
        scheme = scheme.with_limits(min(2 * scheme.n_lengths, most))  # unknown labels may hide longer segments
    return scheme, gold


def _infeasible(
    corpus: Corpus, gold: Gold, scheme: SegmentScheme, penalties: SegmentPenalties | None = None
) -> int | None:
    """The first sequence whose annotation has no segmentation that the constraints allow, or None."""
    rules = SegmentPenalties.none(scheme) if penalties is None else penalties
    return first_infeasible(
        corpus.offsets, gold, partial(Segments, scheme=scheme), partial(rules.scores, scheme=scheme)
    )


def read_max_length(value: Any, scheme: SegmentScheme) -> int | dict[str, int]:
    """``max_length`` as a number, or one for some segment labels from a mapping or text such as ``PER=4,ORG=8``."""
    if scheme.name is None:
        raise OptionError(
            f"max_length={value!r:.60}: the labels have no scheme (B-X, I-X, ...), so that every token is a segment"
        )
    if isinstance(value, str) and "=" in value:
        pairs = [part.partition("=") for part in value.split(",")]
        labels = [label.strip() for label, _, _ in pairs]
        if len(set(labels)) < len(labels):
            raise OptionError(f"max_length={value!r} names a label twice")
        return {label: _length(value, number.strip()) for label, (_, _, number) in zip(labels, pairs, strict=True)}
    if not isinstance(value, Mapping):
        return _length(value, value)
    if not value:
        raise OptionError("max_length={} names no label; leave it out, or give a number")
    return {label: _length(value, each) for label, each in value.items()}


def _length(asked: Any, value: Any) -> int:
    """A length of segments, from a number or its text; ``asked`` is what the user gave."""
    whole = hasattr(value, "__index__") and not isinstance(value, bool)
    if not (whole or (isinstance(value, str) and value.isdecimal())):
        raise OptionError(
            f"max_length={asked!r:.60}: {value!r:.20} is not a whole number; give one, or one for each label as in "
            "PER=4,ORG=8"
        )
    if (isinstance(value, str) and len(value) > 9) or not 1 <= int(value) <= MOST_LENGTH:
        raise OptionError(f"max_length={asked!r:.60}: lengths of segments lie between 1 and {MOST_LENGTH}")
    return int(value)


def segment_kinds(spec: str | None, corpus: Corpus) -> tuple[str, ...]:
    """The kinds of segment attributes; ready-made features have no words to make any but ``length`` from."""
    if not isinstance(corpus, Attributes):
        return read_kinds(DEFAULT if spec is None else spec)
    kinds = read_kinds(LENGTH if spec is None else spec)
    if beyond := set(kinds) - {LENGTH}:
        raise OptionError(
            f"segment_features={spec!r}: {corpus.name} holds ready-made features, not words, so that segments have no "
            f"{' or '.join(sorted(beyond))}; leave it out, or give columns and a template"
        )
    return kinds


def check_annotation(corpus: Corpus, gold: Gold, scheme: SegmentScheme, constraints: Constraints | None) -> None:
    """Refuse labels that spell no segments, or segments that the constraints rule out, naming the place."""
    penalties = SegmentPenalties.from_constraints(scheme, constraints)
    if gold.allowed is None and (mistake := scheme.mistake(corpus.offsets, gold.labels)) is not None:
        position, message = mistake
        raise corpus.error(message, position)
    sequence = _infeasible(corpus, gold, scheme, penalties)
    if sequence is None:
        return
    first, end = corpus.offsets[sequence : sequence + 2].tolist()
    if gold.allowed is None and constraints is not None:
        labels, (pairs, starts, _) = gold.labels[first:end], constraints.masks(scheme.token_labels)
        broken = np.flatnonzero(~pairs.astype(bool)[labels[:-1], labels[1:]])
        place = 0 if not starts[labels[0]] else int(broken[0]) + 1 if len(broken) else len(labels) - 1
        raise corpus.error("the label here breaks the constraints; mend the data or train without them", first + place)
    raise corpus.error(
        f"no segmentation of this sequence into segments of at most {scheme.n_lengths} tokens fits its labels and the "
        "constraints; mend the data, raise max_length or train without constraints",
        first,
    )
