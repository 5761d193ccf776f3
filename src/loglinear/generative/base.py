"""Base distributions q0(x, y) of M-estimation: easy to estimate, and with feature expectations that can be had.

    hmm               a hidden Markov model, counted (:mod:`~loglinear.generative.hmm`)
    locally-uniform   uniform over what may follow a label, one unigram distribution a field (Smith et al. 2007, eq. 14)
    empirical         q0(y given x) of the hidden Markov model, the inputs of the training data (eq. 15)

The first two are hidden Markov models, so expectations are over all inputs: exact, or by drawing from them
(:mod:`~loglinear.generative.sampled_expectations`). The third looks at the training inputs alone: one forward-backward
over them. A base of the user's own is :class:`~loglinear.generative.own_base.OwnBase`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from loglinear.data.columns import Attributes, Columns
from loglinear.errors import OptionError
from loglinear.features.encoding import EncodedCorpus
from loglinear.features.name_encoder import NameEncoder
from loglinear.features.template_encoder import TemplateEncoder
from loglinear.generative.hmm import Counts, HiddenMarkovModel
from loglinear.generative.open_vocabulary import OpenVocabulary
from loglinear.generative.sampled_expectations import SAMPLES, SMOOTHING, Sampling
from loglinear.generative.window_expectations import FieldValues, expected_features
from loglinear.options import Option, spec_name, spec_options
from loglinear.structures.chain import Chain, ChainScores
from loglinear.structures.chain_features import ChainFeatures, ChainGradient
from loglinear.threads import in_threads

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
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
        """Whether it can say log q0 as part scores; if not, decoding is approximate."""

    @property
    def one_by_one(self) -> bool:
        """Whether it is to be asked about one sequence at a time, in one thread."""

    def prepare(self, corpus: Corpus) -> Corpus:
        """The corpus as the base, and the features over it, are to see it."""

    def attach(self, encoded: EncodedCorpus, corpus: Corpus) -> EncodedCorpus:
        """The encoding of a corpus that :meth:`prepare` gave, with what :meth:`scores` looks at."""

    def scores(self, corpus: EncodedCorpus, first: int, end: int) -> ChainScores:
        """log q0 of sequences ``first`` to ``end`` as part scores."""

    def expected(
        self,
        encoder: Encoder,
        features: ChainFeatures,
        corpus: EncodedCorpus,
        weights: Float | None = None,
        n_threads: int = 1,
    ) -> Float:
        """E_q0[f], the expected count of each feature in a sequence [D], exactly."""

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Corpus, Int32]:
        """``n`` sequences from q0 and their labels [N]."""

    def mark(self, corpus: EncodedCorpus, labels: Int32) -> Float:
        """Numbers that tell this base from others which the training data does not: a checkpoint keeps them."""


def read_base(spec: str, seed: int = 0) -> tuple[str, Sampling | None]:
    """The name in a spec (``hmm:samples=100000``), and how expectations are sampled; None if they are exact."""
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
    """A base that is a hidden Markov model, with what it knows of the observed columns.

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

        ``labels`` is [N]; a sequence counts its weight [S], one if there are none.
        """
        if not columns:
            raise OptionError(f"{corpus.name}: there is no column but the labels for a base model to emit")
        vocabulary, replaced = OpenVocabulary.fit(corpus, columns)
        fields, sizes = vocabulary.fields(replaced), [len(values) for values in vocabulary.values]
        if kind == "locally-uniform":
            counts = Counts.of(fields, sizes, labels, corpus.offsets, n_labels, 1, weights)
            counts = Counts(
                1,
                n_labels,
                (counts.steps > 0).astype(np.float64),
                [np.tile(table.sum(axis=0), (n_labels, 1)) for table in counts.emissions],
            )
        else:
            counts = Counts.of(fields, sizes, labels, corpus.offsets, n_labels, order, weights)
        return cls(kind, vocabulary, HiddenMarkovModel.estimated(counts, smoothing, transition_smoothing)), replaced

    def prepare(self, corpus: Corpus) -> Columns:
        """The corpus with values that are not known made unknown."""
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
        self,
        encoder: Encoder,
        features: ChainFeatures,
        corpus: EncodedCorpus,
        weights: Float | None = None,
        n_threads: int = 1,
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
        """Nothing: the training data settles it."""
        return np.zeros(0)


def _columns(corpus: Corpus) -> Columns:
    """Refuse ready-made features, which a hidden Markov model cannot emit."""
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
