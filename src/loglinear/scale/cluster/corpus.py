"""A corpus that lies on a cluster, as the process that trains sees it.

That process keeps the sentences' lengths and labels, which all that is decided about the corpus as a whole depends on
(constraints, counts of labels, shards), and the weights. Words and attributes stay where they are read. What it learns
of them is merged so that every number is the one that :meth:`TemplateEncoder.fit` gives on one machine:

    values       column by column, the pieces' values in their order; the first occurrence decides
    attributes   (run, template, group, place in it): encoding walks runs of the whole corpus, template by template
    features     which pairs occur: the union, in the order of attributes and codes
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from loglinear import mapped
from loglinear.arrays import Array, Float, Int32, Int64
from loglinear.criteria.criterion import CRITERIA
from loglinear.criteria.hmm import HiddenMarkov
from loglinear.criteria.m_estimation import MEstimation
from loglinear.data import Columns
from loglinear.data.columns.corpus import Column, offsets_of, ranges
from loglinear.errors import DataError, OptionError
from loglinear.estimators.tagger.inputs import checked_weights
from loglinear.features.block import FeatureBlock
from loglinear.features.encoding import BLOCK, EncodedElsewhere, Incidence, runs
from loglinear.features.stored import ElsewhereColumns
from loglinear.features.templates.encoder import Group, TemplateEncoder, Values
from loglinear.features.templates.hashed import HashedTemplateEncoder
from loglinear.optimizers.objective import Cuts
from loglinear.options import spec_name
from loglinear.scale.cluster import worker
from loglinear.scale.cluster.engine import Cluster, Shared
from loglinear.scale.cluster.groups import Groups, Report
from loglinear.scale.cluster.source import Piece
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.gold import Gold
from loglinear.wording import how_many

OPTIMIZERS = ("dual", "lbfgs", "online")  # that train on a cluster


def check_trainable(
    options: Any, y: Any = None, X_dev: Any = None, init: Any = None, keep: Any = None, grow: bool = False,
    checkpoint: Any = None,
) -> None:  # fmt: skip
    """Refuse a tagger's options, and keywords of its fit, that cannot be trained on a cluster (yet)."""
    part = CRITERIA.part(options.criterion)
    if y is not None:
        raise OptionError("y: a corpus on a cluster has its labels in a column; leave it out")
    if keep is not None or grow:
        raise OptionError(f"{'grow' if grow else 'keep'}: not on a cluster yet; train on one machine")
    if part in (HiddenMarkov, MEstimation):
        if X_dev is not None:
            raise OptionError(f"criterion={options.criterion!r} counts on a cluster, without dev data; leave it out")
        return
    criterion = CRITERIA.spec(options.criterion).make(*([None] if part.uses_cost else []))
    refused = {
        f"structure={options.structure!r}": options.structure != "chain",
        f"states={options.states!r}": options.states not in ("observed", "all"),
        f"min_freq={options.min_freq}": bool(options.min_freq),
        "vectors": options.vectors is not None,
        "edge": bool(options.edge),
        "a base": part.uses_base,
        "template=None (ready-made features)": options.template is None,
        f"criterion={options.criterion!r}": bool(
            criterion.scaling or criterion.chooses_after is not None or criterion.predicts_fields
        ),
        f"init={init!r}": isinstance(init, str) and spec_name(init) in CRITERIA.all(),
    }
    for what, applies in refused.items():
        if applies:
            raise OptionError(f"{what} cannot go onto a cluster yet; train on one machine")
    chosen = None if options.optimizer is None else spec_name(str(options.optimizer))
    if chosen is not None and chosen not in OPTIMIZERS:
        raise OptionError(
            f"optimizer={options.optimizer!r} goes over sentences one by one, which a cluster does not do; use "
            f"{' or '.join(name for name in OPTIMIZERS if name in criterion.optimizers)}"
        )
    if "online" in criterion.optimizers and init is not None:
        raise OptionError(f"init: criterion={options.criterion!r} starts from zero on a cluster; leave it out")


class ClusterColumns(ElsewhereColumns):
    """Token rows on a cluster. Only the label column has positions; of the others, :attr:`columns` has the values."""

    cluster: Cluster
    pieces: list[Piece]
    _made: list[OnCluster]
    _deaths_before: int
    firsts: Int64  # the first sentence of each piece, and the number of sentences
    key: str
    label_column: int
    report: Report
    say: Callable[[str], None] | None = None  # is told what training is going to take

    @classmethod
    def read(
        cls,
        cluster: Cluster,
        pieces: Sequence[Piece],
        label_column: int | None = -1,
        observe: Callable[[int, int], None] | None = None,
    ) -> ClusterColumns:
        """The corpus of some pieces, which the workers read; ``label_column`` is None if the reader finds it."""
        deaths, jobs = cluster.deaths, [(piece, label_column) for piece in pieces]
        names = [piece.name for piece in pieces]
        found: list[worker.Contents] = cluster.map(worker.read_piece, jobs, names=names, observe=observe)
        there = [(piece, each) for piece, each in zip(pieces, found, strict=True) if len(each.lengths)]
        if not there:
            raise DataError("there is no sequence to train on", names[0] if names else None)
        pieces, found = [piece for piece, _ in there], [each for _, each in there]
        _check_alike(pieces, found)
        n_columns, label_column = len(found[0].values), found[0].label_column
        place = label_column % n_columns if -n_columns <= label_column < n_columns else None
        offsets = offsets_of(np.concatenate([each.lengths for each in found]))
        columns = _joined(found, place)
        more = f" and {len(pieces) - 1} more" if len(pieces) > 1 else ""
        corpus = cls(
            f"{pieces[0].name}{more}", offsets, np.zeros(1, dtype=np.int64), columns, unlabelled=found[0].unlabelled,
            names=found[0].names, format=found[0].format,
        )  # fmt: skip
        corpus.cluster, corpus.pieces, corpus.key = cluster, pieces, uuid.uuid4().hex
        corpus.firsts, corpus.label_column = offsets_of([len(each.lengths) for each in found]), label_column
        corpus.report, corpus._made, corpus._deaths_before = Report(cluster.n_workers, len(pieces)), [], deaths
        return corpus

    def release(self) -> None:
        """Let the workers forget the corpus; what was lost on the way is in the report from now on."""
        for on in self._made:
            on.release()
        self._made.clear()
        self.report.deaths = self.cluster.deaths - self._deaths_before

    def check(self, options: Any, **keywords: Any) -> None:
        """Refuse what cannot be trained on a cluster (yet)."""
        check_trainable(options, **keywords)

    def summaries(self, estimator: Any, sample_weight: Any, label_column: int, partial: bool) -> list[Any]:
        """A summary of each piece."""
        weights = checked_weights(self, sample_weight)
        bounds = list(pairwise(self.firsts.tolist()))
        parts = [None if weights is None else weights[first:end] for first, end in bounds]
        jobs = list(zip(self.pieces, parts, strict=True))
        names = [piece.name for piece in self.pieces]
        with self.cluster.share((estimator, label_column, partial)) as shared:
            return self.cluster.map(worker.summarize, jobs, names=names, homes=names, shared=shared)

    def error(self, message: str, position: int) -> DataError:
        """The error with file and line, which a worker looks up."""
        sentence = int(np.searchsorted(self.offsets, position, side="right")) - 1
        n = int(np.searchsorted(self.firsts, sentence, side="right")) - 1
        place = worker.Place(self.pieces[n], position - int(self.offsets[self.firsts[n]]), message)
        (error,) = self.cluster.map(worker.error_at, [place], names=[self.pieces[n].name])
        assert isinstance(error, DataError)
        return error

    def select(self, sentences: Any) -> Columns:
        raise OptionError("sentences of a corpus on a cluster cannot be chosen (--dev-split); give dev data in a file")

    @cached_property
    def spans(self) -> list[worker.Span]:
        """The groups: what lies between two cuts that shards of both precisions have."""
        cuts = Cuts.by_size(self.offsets)
        ends = sorted({end for _, end in cuts.double} & {end for _, end in cuts.single})
        walked = runs(self.offsets, 0, self.n_sentences, BLOCK)
        run_ends = np.array([end for _, end in walked])
        spans = []
        for number, (first, end) in enumerate(pairwise([0, *ends])):
            before, last = np.searchsorted(run_ends, [first, end - 1], side="right").tolist()
            own = [(run, min(int(run_ends[run]), end) - first) for run in range(before, last + 1)]
            begin, stop = np.searchsorted(self.firsts, [first, end - 1], side="right").tolist()
            parts = [
                (n - 1, self.pieces[n - 1], max(0, first - int(self.firsts[n - 1])),
                 min(int(self.firsts[n]), end) - int(self.firsts[n - 1]))
                for n in range(begin, stop + 1)
            ]  # fmt: skip
            n_tokens = int(self.offsets[end] - self.offsets[first])
            spans.append(worker.Span(self.key, number, first, parts, own, n_tokens))
        return spans

    def fitted(self, encoder: Any, min_count: int) -> tuple[Any, ClusterEncoded]:
        """An encoder that knows the attributes of the corpus, and the corpus as numbers on the cluster."""
        if not isinstance(encoder, TemplateEncoder):
            raise OptionError("on a cluster a corpus needs a template")
        encoder.check_columns(self)
        return fitted(self, encoder, min_count)


def _joined(found: Sequence[worker.Contents], place: int | None) -> list[Column]:
    """The columns of all pieces: distinct values in order of first occurrence; positions in column ``place`` alone."""
    known: list[dict[str, int]] = [{} for _ in found[0].values]
    labels = mapped.Growing(np.int32)
    for each in found:
        for c, (numbers, values) in enumerate(zip(known, each.values, strict=True)):
            new = [numbers.setdefault(value, len(numbers)) for value in values]
            if c == place:
                labels.append(mapped.taken(np.array(new, dtype=np.int32), each.labels))
    ids, nowhere = labels.array(), np.zeros(0, dtype=np.int32)
    return [Column(ids if c == place else nowhere, list(values)) for c, values in enumerate(known)]


def _check_alike(pieces: Sequence[Piece], found: Sequence[worker.Contents]) -> None:
    first = found[0]
    for piece, other in zip(pieces, found, strict=True):
        if (len(other.values), other.names) != (len(first.values), first.names):
            has = ", ".join(other.names) if other.names else how_many(len(other.values), "column")
            expected = ", ".join(first.names or []) or len(first.values)
            raise DataError(
                f"it has {has}, but {pieces[0].name} has {expected}; all parts need the same columns", piece.name
            )
        if (other.unlabelled is None) != (first.unlabelled is None):
            raise DataError("some parts have labels and others have none", piece.name, other.unlabelled)


# ----------------------------------------------------------------------------------------------------------------------
# Numbering.


def fitted(corpus: ClusterColumns, encoder: TemplateEncoder, min_count: int) -> tuple[TemplateEncoder, ClusterEncoded]:
    """See :meth:`ClusterColumns.fitted`; the encoder is changed."""
    encoder.number_values([column.values for column in corpus.columns])
    cluster, spans = corpus.cluster, corpus.spans
    shared = cluster.share(encoder)
    names, homes = [span.name for span in spans], [span.key for span in spans]
    jobs = [(span, min_count > 1) for span in spans]
    found: list[worker.Found] = cluster.map(worker.find_attributes, jobs, names=names, homes=homes, shared=shared)
    if isinstance(encoder, HashedTemplateEncoder):
        known_as = _merge_buckets(encoder, found)
    else:
        known, counts, known_as = merged(encoder, found)
        if min_count > 1:
            assert counts is not None
            kept = counts >= min_count
            left = np.where(kept, np.cumsum(kept) - 1, -1)
            known_as = [left[each] for each in known_as]
            known = known.keeping(kept)
        known.values.lock()
        encoder = known
    attributes = [np.sort(each[each >= 0]) for each in known_as]  # each has a number of its own
    numbers = [_places(theirs, each) for theirs, each in zip(attributes, known_as, strict=True)]
    if isinstance(encoder, HashedTemplateEncoder):
        numbers = [_by_bucket(places, each, encoder) for places, each in zip(numbers, found, strict=True)]
    on = OnCluster(corpus, shared, attributes, numbers)
    corpus._made.append(on)
    on.digests = on.prepared()
    encoded = ClusterEncoded(corpus.offsets, on, has_edges=len(encoder.scopes()[1]) > 0)
    return encoder, encoded


def merged(
    encoder: TemplateEncoder, found: Sequence[worker.Found]
) -> tuple[TemplateEncoder, Int64 | None, list[Int64]]:
    """The encoder with the attributes of all groups, their counts, and the number of each group's own."""
    groups, rows = [], list[list[Int64]]()
    for g in range(len(encoder.group_templates)):
        group, own = _merged_group(len(encoder.group_templates[g].macros), g, found)
        groups.append(group)
        rows.append(own)
    known = encoder.knowing(groups)
    bases = np.concatenate([[0], np.cumsum([group.n_keys for group in groups])]).astype(np.int64)
    numbers = [
        np.concatenate([np.zeros(0, np.int64), *(rows[g][n] + bases[g] for g in range(len(groups)))])
        for n in range(len(found))
    ]
    if found[0].counts is None:
        return known, None, numbers
    counts = np.zeros(int(bases[-1]), dtype=np.int64)
    for own_numbers, each in zip(numbers, found, strict=True):
        assert each.counts is not None
        counts[own_numbers] += each.counts
    return known, counts, numbers


def _merged_group(n_macros: int, g: int, found: Sequence[worker.Found]) -> tuple[Group, list[Int64]]:
    """The attributes of a set of templates in order of first occurrence, and the row of each group's own."""
    segments = []
    for n, each in enumerate(found):
        begin = 0
        for run, place, size in each.segments[g]:
            segments.append((run, place, n, begin, size))
            begin += size
    segments.sort()
    parts = [found[n].keys[g][begin : begin + size] for _, _, n, begin, size in segments]
    keys = np.concatenate([np.zeros((0, n_macros), np.int32), *parts])
    group, nothing = Group.empty(n_macros), np.zeros((1, 0), dtype=np.int32)
    macros = np.zeros((n_macros, 3), dtype=np.int32)
    macros[:, 0] = np.arange(n_macros)
    out = np.empty(len(keys), dtype=np.int32)
    sources = np.ascontiguousarray(keys.T) if n_macros else np.zeros((1, len(keys)), dtype=np.int32)
    group.locate(Values(sources, nothing, nothing), np.array([0, len(keys)]), macros, out, grow=True)
    rows = [np.empty(len(each.keys[g]), dtype=np.int64) for each in found]
    at = 0
    for _, _, n, begin, size in segments:
        rows[n][begin : begin + size] = out[at : at + size]
        at += size
    return group, rows


def _merge_buckets(encoder: HashedTemplateEncoder, found: Sequence[worker.Found]) -> list[Int64]:
    """Have the encoder number the buckets that occur; the numbers of each group's own."""
    from loglinear.features.templates.hashed import Buckets

    used = np.zeros(1 << encoder.buckets.bits, dtype=np.bool_)
    for each in found:
        used[each.keys[0][:, 0]] = True
    encoder.buckets = Buckets(encoder.buckets.bits, used)
    number = np.cumsum(used) - 1
    return [number[each.keys[0][:, 0]].astype(np.int64) for each in found]


def _places(attributes: Int64, numbers: Int64) -> Int32:
    """Where each of ``numbers`` is among the ascending ``attributes``; -1 for -1."""
    return np.where(numbers >= 0, np.searchsorted(attributes, numbers), -1).astype(np.int32)


def _by_bucket(places: Int32, found: worker.Found, encoder: HashedTemplateEncoder) -> Int32:
    by_bucket = np.full(1 << encoder.buckets.bits, -1, dtype=np.int32)
    by_bucket[found.keys[0][:, 0]] = places
    return by_bucket


# ----------------------------------------------------------------------------------------------------------------------
# The corpus in numbers.


class OnCluster(Groups):
    """The groups of a corpus, and what makes them again.

    Parameters
    ----------
    corpus : ClusterColumns
    encoder : Shared
        The encoder that knows the values.
    attributes : list of int64
        The attributes of each group, ascending: its own number k is attribute ``attributes[g][k]`` of the corpus.
    numbers : list of int32
        See :class:`worker.Setup`.
    """

    def __init__(self, corpus: ClusterColumns, encoder: Shared, attributes: list[Int64], numbers: list[Int32]) -> None:
        super().__init__(corpus.cluster, corpus.spans, corpus.offsets, corpus.report, corpus.say)
        self.corpus, self.encoder, self.attributes, self.numbers = corpus, encoder, attributes, numbers

    def prepared(self, only: Sequence[int] | None = None) -> list[str]:
        """Have the groups (or ``only`` some) encoded, and their objectives made: digests of the encodings."""
        chosen = range(len(self.spans)) if only is None else only
        jobs = [
            worker.Setup(
                self.spans[g], self.numbers[g], None if self.losses is None else self.losses[g], self.expected(g)
            )
            for g in chosen
        ]
        names, homes = [self.name_of(g) for g in chosen], [self.spans[g].key for g in chosen]
        return self.cluster.map(worker.set_up, jobs, names=names, homes=homes, shared=self.encoder)

    def own_features(self, features: ChainFeatures, g: int) -> tuple[ChainFeatures, Int64]:
        """The features of a group's attributes and of label n-grams, and where in the weight vector they are."""
        return own_features(features, self.attributes[g])

    def release(self) -> None:
        """Let the workers forget the corpus."""
        super().release()
        self.encoder.release()


class ClusterIncidence(Incidence):
    """The attributes of positions that are on a cluster."""

    __slots__ = ("edge", "on")
    on: OnCluster
    edge: bool

    def __init__(self, on: OnCluster, edge: bool) -> None:
        super().__init__(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32))
        object.__setattr__(self, "on", on)
        object.__setattr__(self, "edge", edge)

    def observed(self, n_attributes: int, code_pointer: Int64, codes: Int32, n_codes: int) -> tuple[Int64, Int32]:
        """As :func:`~loglinear.features.block.observed_pairs`."""
        on, jobs = self.on, []
        for span, attributes in zip(on.spans, on.attributes, strict=True):
            lo, hi = (int(on.offsets[s]) for s in span.bounds)
            begin, end = int(code_pointer[lo]), int(code_pointer[hi])
            pointer = code_pointer[lo : hi + 1] - begin
            jobs.append(worker.Observe(span.key, self.edge, len(attributes), pointer, codes[begin:end], n_codes))
        found = [np.zeros(0, dtype=np.int64)]
        for g, (pointer, own) in on.over_groups(worker.observe, jobs):
            found.append(np.repeat(on.attributes[g], np.diff(pointer)) * n_codes + own)
        keys = np.concatenate(found)
        keys.sort(kind="stable")  # merges ascending runs
        keys = keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
        counts = np.bincount(keys // n_codes, minlength=n_attributes)
        return offsets_of(counts), (keys % n_codes).astype(np.int32)


class ClusterEncoded(EncodedElsewhere):
    """A corpus in numbers on a cluster; only its offsets are here."""

    __slots__ = ("on",)
    on: OnCluster

    def __init__(self, offsets: Int64, on: OnCluster, has_edges: bool) -> None:
        edge = ClusterIncidence(on, edge=True) if has_edges else None
        super().__init__(offsets, ClusterIncidence(on, edge=False), edge)
        object.__setattr__(self, "on", on)

    def arrays(self) -> list[Array | None]:
        """What stands for all its arrays: digests, which do not depend on the number of workers."""
        return [self.offsets, np.frombuffer("".join(self.on.digests).encode(), dtype=np.uint8)]

    def objective(
        self, features: Any, gold: Gold, criterion: Any, penalties: Any, l2: float, sequence_weights: Float | None,
        single_precision: bool,
    ) -> Any:  # fmt: skip
        """Losses and penalty as a function of the weights."""
        from loglinear.scale.cluster.objective import ClusterObjective

        return ClusterObjective(self.on, features, gold, criterion, penalties, l2, sequence_weights, single_precision)


def own_features(features: ChainFeatures, attributes: Int64) -> tuple[ChainFeatures, Int64]:
    """The features of some attributes and of label n-grams, and where in the weight vector they are."""
    state, in_state = _own_block(features.state, attributes)
    edge, in_edge = (None, np.zeros(0, np.int64)) if features.edge is None else _own_block(features.edge, attributes)
    after = np.arange(features.slices[2].start, features.n_features)
    index = np.concatenate([in_state, in_edge + features.slices[1].start, after])
    return replace(features, state=state, edge=edge), index


def _own_block(block: FeatureBlock, attributes: Int64) -> tuple[FeatureBlock, Int64]:
    lengths = np.diff(block.pointer)[attributes]
    index = ranges(block.pointer[attributes], lengths)
    return FeatureBlock(offsets_of(lengths), block.codes[index], block.n_codes), index
