"""Base distributions q0(x, y) of M-estimation: easy to estimate, and with computable feature expectations.

    hmm               a hidden Markov model, counted (:mod:`~loglinear.generative.hmm.model`)
    locally-uniform   uniform over what may follow a label, one unigram distribution a field (Smith et al. 2007, eq. 14;
                      there every state has three successors, here the start has those that were seen)
    empirical         q0(y given x) of the hidden Markov model, the inputs of the training data (eq. 15)

The first two are hidden Markov models, so expectations are over all inputs: exact, or by drawing from them
(:class:`Sampling`). The third uses the training inputs only: one forward-backward over them. A base of the user's own
is :class:`OwnBase`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from loglinear.arrays import Bool, Float, Int32
from loglinear.data.columns.corpus import Attributes, Column, Columns
from loglinear.errors import DataError, OptionError
from loglinear.features.encoding import EncodedCorpus
from loglinear.features.names import NameEncoder, attributes_of
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.generative.hmm.expectations import FieldValues, expected_features
from loglinear.generative.hmm.model import Counts, HiddenMarkovModel, OpenVocabulary
from loglinear.options import Option, spec_name, spec_options
from loglinear.structures.chain.features import ChainFeatures, ChainGradient
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.system import in_threads
from loglinear.wording import how_many

# ----------------------------------------------------------------------------------------------------------------------
# Expected feature counts by drawing sequences from the base (Smith, Vail & Lafferty 2007, eq. 7), smoothed.
#
#     E_q0[f]  ~  (1/s) sum over draws (x, y) of f(x, y)             its standard error: the draws' deviation / sqrt(s)
#
# A feature that happens not to be drawn would have an expectation of zero, and only the penalty would then keep its
# weight from growing without bound. So ``smoothing`` (c) average training sequences, with feature counts F, are added
# to the s draws:
#
#     E  =  (s E_drawn + c F) / (s + c)
#
# which is still the expectation under a distribution, the draws mixed with a little of the training data: related
# counts (of a value with each label, and of the value) still add up. A feature of the training data that is never drawn
# is expected c / (s + c) times as often as it occurs there, so that its weight alone is at most log((s + c) / c). Draws
# are made in batches, each with its own seed, so that memory is bounded and the result does not depend on the threads.


Draw = Callable[[int, np.random.Generator], tuple[Columns | Attributes, Int32]]
DRAWS_AT_ONCE = 2_000
STREAM = 3  # of random numbers, different from those of training itself
SAMPLES = Option("samples", None, "sequences drawn for the expectations, which are exact without it", least=1, kind=int)
SMOOTHING = Option("smoothing", 1.0, "average training sequences that count as draws", least=0, kind=float, most=1e9)


@dataclass(frozen=True)
class Estimate:
    """Feature counts of drawn sequences.

    Parameters
    ----------
    mean : float64 [D]
        Of each feature in a sequence.
    error : float64 [D]
        Its standard error; zero for features that were never drawn.
    """

    mean: Float
    error: Float


@dataclass(frozen=True)
class Sampling:
    """How expectations are estimated.

    Parameters
    ----------
    samples : int
        s, the number of sequences drawn.
    smoothing : float
        c, how many average training sequences count as draws.
    seed : int
    """

    samples: int
    smoothing: float = SMOOTHING.default
    seed: int = 0

    def estimate(
        self, draw: Draw, encoder: TemplateEncoder | NameEncoder, features: ChainFeatures, n_threads: int = 1
    ) -> Estimate:
        """Mean feature counts of what ``draw(n, rng)`` draws: a corpus of n sequences and their labels [N]."""
        from loglinear.generative.m_estimation import sentence_counts  # SciPy, which labelling does without

        def sums(n: int, rng: np.random.Generator) -> Float:
            corpus, labels = draw(n, rng)
            counts = sentence_counts(features, encoder.transform(corpus), labels)  # type: ignore[arg-type]  # its kind
            return np.stack([np.asarray(each.sum(axis=0)).ravel() for each in (counts, counts.multiply(counts))])

        total, squares = self.total(sums, n_threads)
        mean = total / self.samples
        return Estimate(mean, np.sqrt(np.maximum(squares / self.samples - mean**2, 0.0) / self.samples))

    def total(self, sums: Callable[[int, np.random.Generator], Float], n_threads: int) -> Float:
        """The sum of ``sums(n, rng)``, arrays for n draws, over all batches; one batch per thread in memory."""

        def batch(number: int) -> Float:
            n = min(DRAWS_AT_ONCE, self.samples - number * DRAWS_AT_ONCE)
            return sums(n, np.random.default_rng([self.seed, STREAM, number]))

        total, numbers = np.zeros(1), range(-(-self.samples // DRAWS_AT_ONCE))
        for begin in range(0, len(numbers), n_threads):
            for part in in_threads(batch, numbers[begin : begin + n_threads], n_threads):
                total = total + part
        return total

    def smoothed(self, drawn: Float, observed: Float) -> Float:
        """E [D] of the mean counts of the draws and of the training data."""
        return (self.samples * drawn + self.smoothing * observed) / (self.samples + self.smoothing)


# ----------------------------------------------------------------------------------------------------------------------
# The bases by name.


Corpus = Columns | Attributes
Encoder = TemplateEncoder | NameEncoder
BASES: dict[str, tuple[Option, ...]] = {
    "hmm": (SAMPLES, SMOOTHING),
    "locally-uniform": (SAMPLES, SMOOTHING),
    "empirical": (),
}


class Base(Protocol):
    """What M-estimation and its models ask of a base distribution."""

    @property
    def has_parts(self) -> bool:
        """Whether log q0 can be written as part scores; if not, decoding is approximate."""

    @property
    def one_by_one(self) -> bool:
        """Whether it must be called for one sequence at a time, in one thread."""

    def prepare(self, corpus: Corpus) -> Corpus:
        """The corpus as the base, and the features over it, see it."""

    def attach(self, encoded: EncodedCorpus, corpus: Corpus) -> EncodedCorpus:
        """The encoding of a corpus returned by :meth:`prepare`, with the data that :meth:`scores` needs."""

    def scores(self, corpus: EncodedCorpus, first: int, end: int) -> ChainScores:
        """log q0 of sequences ``first`` to ``end`` as part scores."""

    def expected(
        self, encoder: Encoder, features: ChainFeatures, corpus: EncodedCorpus, weights: Float | None, n_threads: int
    ) -> Float:
        """E_q0[f], the expected count of each feature in a sequence [D], exactly."""

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Corpus, Int32]:
        """``n`` sequences from q0 and their labels [N]."""

    def mark(self, corpus: EncodedCorpus, labels: Int32) -> Float:
        """Numbers that identify this base beyond the training data, for the fingerprint of a checkpoint."""


def read_base(spec: str, seed: int = 0) -> tuple[str, Sampling | None]:
    """The name in a spec (``hmm:samples=100000``), and how expectations are sampled; None for exact ones."""
    name = spec_name(spec)
    if name not in BASES:
        raise OptionError(
            f"base={spec!r} is not one of {', '.join(BASES)}; in Python it may also be an object with "
            "log_prob(x, y) and sample(n, rng)"
        )
    values = spec_options(spec, BASES[name], "base")
    if "samples" in values:
        return name, Sampling(values["samples"], values.get("smoothing", SMOOTHING.default), seed)
    if values:
        raise OptionError(
            f"base={spec!r}: smoothing is about drawn sequences; say how many, as in {name}:samples=100000"
        )
    return name, None


@dataclass(frozen=True)
class HmmBase:
    """A hidden Markov model as a base, with its vocabulary of the observed columns.

    Parameters
    ----------
    kind : str
        One of :data:`BASES`.
    vocabulary : OpenVocabulary
        The columns it emits, and their values.
    model : HiddenMarkovModel
    """

    kind: str
    vocabulary: OpenVocabulary
    model: HiddenMarkovModel
    has_parts = True
    one_by_one = False

    @classmethod
    def fit(
        cls, kind: str, corpus: Columns, columns: Sequence[int], labels: Int32, n_labels: int, order: int,
        smoothing: float = 1.0, weights: Float | None = None, transition_smoothing: float = 0.0,
    ) -> tuple[HmmBase, Columns]:  # fmt: skip
        """The base of a labelled corpus, and the corpus with first occurrences made unknown.

        ``labels`` is [N]; ``weights`` [S] are how often each sequence counts, once if not given.
        """
        if not columns:
            raise OptionError(f"{corpus.name}: there is no column but the labels for a base model to emit")
        vocabulary, replaced = OpenVocabulary.fit(corpus, columns)
        fields, sizes = vocabulary.fields(replaced), [len(values) for values in vocabulary.values]
        if kind == "locally-uniform":
            counts = Counts.of(fields, sizes, labels, corpus.offsets, n_labels, 1, weights)
            emissions = [np.tile(table.sum(axis=0), (n_labels, 1)) for table in counts.emissions]
            counts = Counts(1, n_labels, (counts.steps > 0).astype(np.float64), emissions)
        else:
            counts = Counts.of(fields, sizes, labels, corpus.offsets, n_labels, order, weights)
        return cls(kind, vocabulary, HiddenMarkovModel.estimated(counts, smoothing, transition_smoothing)), replaced

    def prepare(self, corpus: Corpus) -> Columns:
        """The corpus with unknown values replaced."""
        return self.vocabulary.transform(_columns(corpus))

    def attach(self, encoded: EncodedCorpus, corpus: Corpus) -> EncodedCorpus:
        """The encoding with the numbers of the values that the model emits."""
        return replace(encoded, fields=tuple(self.vocabulary.fields(_columns(corpus))))

    def scores(self, corpus: EncodedCorpus, first: int, end: int) -> ChainScores:
        """log q0 of sequences ``first`` to ``end`` as part scores."""
        lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
        fields = [np.ascontiguousarray(values[lo:hi]) for values in corpus.fields]
        return self.model.scores(fields, corpus.offsets[first : end + 1] - lo)

    def expected(
        self, encoder: Encoder, features: ChainFeatures, corpus: EncodedCorpus, weights: Float | None, n_threads: int
    ) -> Float:
        """E_q0[f], the expected count of each feature in a sequence [D]; ``corpus`` is the training data.

        ``weights`` [S] are those of its sequences, which the empirical base counts.
        """
        if self.kind == "empirical":
            shares = np.ones(corpus.n_sequences) if weights is None else weights
            return _over_training_inputs(self.scores, features, corpus, shares / shares.sum(), n_threads)
        assert isinstance(encoder, TemplateEncoder)
        named = zip(self.vocabulary.columns, self.vocabulary.values, strict=True)
        return expected_features(self.model, encoder, features, [FieldValues(c, v) for c, v in named])

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Columns, Int32]:
        """``n`` sequences and their labels [N]; a value may be the unknown one."""
        fields, labels, offsets = self.model.sample(n, rng)
        return self.vocabulary.corpus(fields, offsets), labels

    def mark(self, corpus: EncodedCorpus, labels: Int32) -> Float:
        """Nothing: the training data determines it."""
        return np.zeros(0)


def _columns(corpus: Corpus) -> Columns:
    """Reject ready-made features, which a hidden Markov model cannot emit."""
    if not isinstance(corpus, Columns):
        raise OptionError(f"{corpus.name} holds ready-made features, but a hidden Markov model is one of columns")
    return corpus


def _over_training_inputs(
    scores: Callable[[EncodedCorpus, int, int], ChainScores],
    features: ChainFeatures,
    corpus: EncodedCorpus,
    shares: Float,
    n_threads: int,
) -> Float:
    """Mean over the training inputs, by their ``shares`` [S], of the expectations given them: one forward-backward."""
    y = features.n_labels

    def block(run: tuple[int, int]) -> Float:
        first, end = run
        lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
        zeros = ChainScores(
            np.zeros((hi - lo, y)), np.zeros((y, y)), np.zeros(y), np.zeros(y),
            None if features.edge is None else np.zeros((hi - lo, y, y)),
            np.zeros((y, y, y)) if features.order == 2 else None,
        )  # fmt: skip
        chain = Chain(corpus.offsets[first : end + 1] - lo)
        parts = chain.expectations(scores(corpus, first, end).plus(zeros), shares[first:end])[1]
        gradient = ChainGradient(features)
        gradient.add(corpus, first, end, parts)
        return gradient.finish()

    blocks = features.blocks(corpus.offsets, 0, corpus.n_sequences)
    return np.sum(in_threads(block, blocks, n_threads), axis=0)


# ----------------------------------------------------------------------------------------------------------------------
# A base distribution of the user's own for M-estimation: any q0(x, y) that can score and be drawn from.
#
#     log_prob(x, y)            log q0(x, y), a number; -inf for what cannot be
#     sample(n, rng)            n pairs (x, y) from q0, all that is random taken from the generator ``rng``
#     expectations(features)    optional: E_q0 of each :class:`Feature`; without it, the mean over draws
#     scores(x, labels)         optional: log q0(x, y) part by part, a dict of arrays over the labels in this order;
#                               without it, decoding is a search, which also calls log_prob for prefixes of the
#                               sequence, and there are no probabilities
#
# ``x`` is a list with a tuple of strings for each position, its columns without the label's (or, without a template, a
# dict from attribute names to values), ``y`` a list of labels. Values are passed as they are, never as unknown ones.

DEFAULT_SAMPLES = 10_000
ROUNDING = 1e-9  # how far below zero a sum that should be zero may be
CHECKED = 100  # training sequences that the base is called for before training
CANDIDATES = Option("candidates", 10, "labellings that an approximate search keeps at a time", least=1, kind=int)


class Feature(NamedTuple):
    """A feature by name, as a user's ``expectations`` gets it.

    Parameters
    ----------
    attribute : str or None
        What is observed at a position, as the template spells it (``U00:the``); None for label n-grams.
    labels : tuple of str
        The label there, or it after the one or two before; none for a feature of the input alone.
    """

    attribute: str | None
    labels: tuple[str, ...]


@dataclass(frozen=True)
class OwnBase:
    """A user's distribution, and how to use it.

    Parameters
    ----------
    distribution : object
        With ``log_prob(x, y)`` and ``sample(n, rng)``; see the module for what else it may have.
    samples : int, optional
        Sequences to draw for the expectations; 10,000 if not given and it has no method ``expectations``.
    smoothing : float
        How many average training sequences count as draws (:class:`Sampling`).
    candidates : int
        Labellings that a search keeps at a time, where decoding is approximate.
    labels : tuple of str
        The Y labels; training sets them.
    columns : tuple of int or None
        The corpus' columns that x is made of, None for ready-made features; training sets them.
    """

    distribution: Any
    samples: int | None = None
    smoothing: float = SMOOTHING.default
    candidates: int = CANDIDATES.default
    labels: tuple[str, ...] = field(default=(), repr=False)
    columns: tuple[int, ...] | None = field(default=None, repr=False)
    one_by_one: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for option in (SAMPLES, SMOOTHING, CANDIDATES):
            option.check(getattr(self, option.name))
        if isinstance(self.distribution, type):
            raise OptionError(f"base={self.name} is a class; give an object of it")
        for method in ("log_prob", "sample"):
            if not callable(getattr(self.distribution, method, None)):
                raise OptionError(
                    f"base={self.distribution!r:.60} has no method {method}; it needs log_prob and sample"
                )

    @classmethod
    def of(cls, base: Any) -> OwnBase:
        """The user's base, wrapped if it is a bare distribution."""
        return base if isinstance(base, OwnBase) else cls(base)

    def bound(self, labels: Sequence[str], columns: Sequence[int] | None) -> OwnBase:
        """The same over these labels and columns."""
        return replace(self, labels=tuple(labels), columns=None if columns is None else tuple(columns))

    @property
    def name(self) -> str:
        """Name of the distribution's class, for messages."""
        own = self.distribution if isinstance(self.distribution, type) else type(self.distribution)
        return f"{own.__module__}.{own.__qualname__}"

    @property
    def has_parts(self) -> bool:
        return callable(getattr(self.distribution, "scores", None))

    def sampling(self, seed: int) -> Sampling | None:
        """How expectations are sampled; None if the distribution computes them."""
        if self.samples is None and callable(getattr(self.distribution, "expectations", None)):
            return None
        return Sampling(DEFAULT_SAMPLES if self.samples is None else self.samples, self.smoothing, seed)

    # -- the corpus --------------------------------------------------------------------------------------------------

    def prepare(self, corpus: Corpus) -> Corpus:
        """The corpus as it is."""
        return corpus

    def attach(self, encoded: EncodedCorpus, corpus: Corpus) -> EncodedCorpus:
        """The encoding with the corpus itself."""
        return replace(encoded, text=corpus)

    def _input(self, corpus: EncodedCorpus, sequence: int) -> list[Any]:
        """x of one sequence."""
        text, (lo, hi) = corpus.text, corpus.offsets[sequence : sequence + 2].tolist()
        assert text is not None
        if isinstance(text, Attributes):
            return named_values(text, lo, hi)
        columns = [text.column(c) for c in self.columns or ()]
        return list(zip(*([c.values[i] for i in c.ids[lo:hi].tolist()] for c in columns), strict=True))

    # -- log q0 ------------------------------------------------------------------------------------------------------

    def scorer(self, corpus: EncodedCorpus, sequence: int) -> Callable[[Int32], float]:
        """From a labelling [T] of one sequence, or [t] of its first t positions, to its log q0."""
        x = self._input(corpus, sequence)

        def log_prob(labels: Int32) -> float:
            result = self.distribution.log_prob(x[: len(labels)], [self.labels[y] for y in labels.tolist()])
            try:
                value = float(result)
            except (TypeError, ValueError):
                value = np.nan
            if not value < np.inf:
                raise DataError(f"{self.name}.log_prob returned {result!r:.40}; expected a finite number or -inf")
            return value

        return log_prob

    def scores(self, corpus: EncodedCorpus, first: int, end: int) -> ChainScores:
        """log q0 of one sequence (``end`` is ``first`` + 1) as part scores."""
        assert end == first + 1
        x, y = self._input(corpus, first), len(self.labels)
        given = self.distribution.scores(x, list(self.labels))
        parts = given.parts() if isinstance(given, ChainScores) else given
        t, shapes = len(x), {"transition": (y, y), "start": (y,), "stop": (y,), "trigram": (y, y, y)}
        shapes |= {"emission": (t, y), "edge": (t, y, y)}
        if not isinstance(parts, Mapping) or not parts.keys() <= shapes.keys():
            raise DataError(f"{self.name}.scores must give a dict of {', '.join(shapes)}, as many of them as there are")
        arrays = {}
        for name, array in parts.items():
            arrays[name] = np.array(array, dtype=np.float64, order="C")
            if arrays[name].shape != shapes[name] or not (arrays[name] < np.inf).all():
                raise DataError(
                    f"{self.name}.scores gives {name} of shape {list(arrays[name].shape)}; it should be "
                    f"{list(shapes[name])} for {t} positions and {y} labels, each number below infinity"
                )
        zeros = {name: np.zeros(shapes[name]) for name in ("emission", "transition", "start", "stop")}
        return ChainScores(**{**zeros, **arrays})

    def check(self, corpus: EncodedCorpus, labels: Int32) -> None:
        """Score the first training sequences, and reject a distribution that cannot be their base."""
        for i, log_q in enumerate(self.mark(corpus, labels).tolist()):
            if log_q == -np.inf:
                raise DataError(
                    f"{self.name}.log_prob of training sequence {i} (from 0) is -inf: a base gives a probability to "
                    "all that may happen; smooth it"
                )
            if self.has_parts:
                lo, hi = corpus.offsets[i : i + 2].tolist()
                parts = float(Chain([0, hi - lo]).score(self.scores(corpus, i, i + 1), labels[lo:hi])[0])
                if not np.isclose(parts, log_q, rtol=1e-6, atol=1e-6):
                    raise DataError(
                        f"{self.name}.scores of training sequence {i} (from 0) add up to {parts:g} along its labels, "
                        f"but log_prob says {log_q:g}"
                    )

    def mark(self, corpus: EncodedCorpus, labels: Int32) -> Float:
        """log q0 of the first training sequences."""
        bounds = corpus.offsets.tolist()
        n = min(CHECKED, corpus.n_sequences)
        return np.array([self.scorer(corpus, i)(labels[bounds[i] : bounds[i + 1]]) for i in range(n)])

    # -- expectations ------------------------------------------------------------------------------------------------

    def expected(
        self, encoder: Encoder, features: ChainFeatures, corpus: EncodedCorpus, weights: Float | None, n_threads: int
    ) -> Float:
        """E_q0[f] [D] from the distribution."""
        named = named_features(features, encoder.names(), self.labels)
        expected = np.array(self.distribution.expectations(named), dtype=np.float64)
        if expected.shape != (features.n_features,) or not np.isfinite(expected).all():
            raise DataError(
                f"{self.name}.expectations gives an array of shape {list(expected.shape)}; it should be "
                f"{features.n_features} finite numbers, one for each feature"
            )
        below = np.flatnonzero(expected < -ROUNDING)
        if (refused := below[_are_counts(features, corpus)[below]]).size:
            first = int(refused[0])
            raise DataError(
                f"{self.name}.expectations gives {expected[first]:g} for {named[first]}; how often something is "
                "expected cannot be negative"
            )
        return expected

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Corpus, Int32]:
        """``n`` sequences and their labels [N]."""
        drawn = list(self.distribution.sample(n, rng))
        try:
            inputs, labels = [x for x, _ in drawn], [list(y) for _, y in drawn]
            lengths = [len(x) for x in inputs]
        except (TypeError, ValueError):
            raise DataError(f"{self.name}.sample({n}, rng) must give pairs (x, y), not {drawn[:1]!r:.60}") from None
        if len(drawn) != n or lengths != [len(y) for y in labels]:
            raise DataError(f"{self.name}.sample({n}, rng) must give {n} pairs (x, y), x and y of the same length")
        number = {label: y for y, label in enumerate(self.labels)}
        flat = [label for y in labels for label in y]
        if unknown := set(flat) - number.keys():
            raise DataError(
                f"{self.name}.sample drew the label {sorted(map(str, unknown))[0]!r}, which the training data lacks"
            )
        try:
            corpus = attributes_of(inputs) if self.columns is None else self._placed(Columns.from_rows(inputs))
        except DataError as error:
            raise DataError(f"{self.name}.sample: {error}") from None
        return corpus, np.array([number[label] for label in flat], dtype=np.int32)

    def _placed(self, drawn: Columns) -> Columns:
        """Drawn rows with their columns at the corpus' positions."""
        assert self.columns is not None
        if drawn.n_columns != len(self.columns):
            have = how_many(drawn.n_columns, "column")
            raise DataError(f"rows have {have}, those of the training data {len(self.columns)}")
        nothing = np.zeros(drawn.n_tokens, dtype=np.int32)
        columns = [Column(nothing, [""]) for _ in range(max(self.columns) + 1)]
        for c, column in zip(self.columns, drawn.columns, strict=True):
            columns[c] = column
        return replace(drawn, columns=columns)


def named_values(text: Attributes, lo: int, hi: int) -> list[dict[str, float]]:
    """Ready-made features of the positions ``lo`` to ``hi``: a dict from names to values for each."""
    bounds, values = text.pointer[lo : hi + 1].tolist(), text.weights
    names = [text.values[i] for i in text.ids[bounds[0] : bounds[-1]].tolist()]
    given = [1.0] * len(names) if values is None else values[bounds[0] : bounds[-1]].tolist()
    pairs = list(zip(names, given, strict=True))
    return [dict(pairs[a - bounds[0] : b - bounds[0]]) for a, b in pairwise(bounds)]


def _are_counts(features: ChainFeatures, corpus: EncodedCorpus) -> Bool:
    """Whether each feature [D] is a count: all except those of attributes with values other than one."""
    counts = np.ones(features.n_features, dtype=bool)
    for block, incidence, segment in zip(
        (features.state, features.edge), (corpus.state, corpus.edge), features.slices[:2], strict=True
    ):
        if block is not None and incidence is not None and incidence.values is not None:
            valued = np.zeros(len(block.pointer) - 1, dtype=bool)
            valued[incidence.ids[incidence.values != 1.0]] = True
            counts[segment] = ~np.repeat(valued, np.diff(block.pointer))
    return counts


def is_own(base: Any) -> bool:
    """Whether the user's base is a distribution, and not the name of a built-in one."""
    return base is not None and not isinstance(base, str)


def named_features(features: ChainFeatures, attributes: Sequence[str], labels: Sequence[str]) -> list[Feature]:
    """Each feature of the weight vector [D] by name."""
    y, named = len(labels), []
    for block, places in ((features.state, 1), (features.edge, 2)):
        if block is not None:
            owner = np.repeat(np.arange(len(block.pointer) - 1), np.diff(block.pointer)).tolist()
            tuples = _label_tuples(block.codes, places, y, labels)
            named += [Feature(attributes[a], each) for a, each in zip(owner, tuples, strict=True)]
    for codes, places in ((features.transitions, 2), (features.trigrams, 3), (features.fourgrams, 4)):
        named += [Feature(None, each) for each in _label_tuples(codes, places, y, labels)]
    return named


def _label_tuples(codes: Int32, places: int, n_labels: int, labels: Sequence[str]) -> list[tuple[str, ...]]:
    digits = [codes.astype(np.int64) // n_labels**k % n_labels for k in reversed(range(places))]
    named = [tuple(labels[d] for d in row) for row in np.stack(digits, axis=1).tolist()]
    for i in np.flatnonzero(codes == n_labels).tolist() if places == 1 else ():  # of the input alone
        named[i] = ()
    return named
