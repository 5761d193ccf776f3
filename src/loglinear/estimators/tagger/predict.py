"""What can be asked of an estimator once it has a model of sequences: labels, probabilities, scores, weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from loglinear import model_file
from loglinear.arrays import Float, Int32, Int64, UInt8
from loglinear.errors import DataError, InfeasibleError, ModelKindError, OptionError
from loglinear.estimators.estimator import Fitted, whole_number
from loglinear.estimators.options import TaggerOptions
from loglinear.estimators.tagger import file as tagger_file
from loglinear.estimators.tagger.inputs import Annotation, Corpus, annotation_of, corpus_of, score_labels
from loglinear.estimators.tagger.model import SequenceModel
from loglinear.model_file import Reader
from loglinear.options import check
from loglinear.system import thread_count

T = TypeVar("T")
DECODINGS = ("viterbi", "posterior", "min-risk")
LOCAL = "local-tagger"  # the kind of the model files of a LocalTagger


class SequencePredictor(Fitted[SequenceModel]):
    """Prediction with a trained model of sequences; estimators add how it is trained.

    Attributes
    ----------
    classes_ : list of str
        The labels, sorted.
    model_ : SequenceModel
        Attributes, features and weights.
    threads : int or None
        Threads, all cores if None.
    """

    classes_: list[str]
    threads: int | None

    def predict(self, X: Any, *, decoding: str = "viterbi", given: Any = None, cost: Any = None) -> list[list[str]]:
        """Labels of each sequence.

        Parameters
        ----------
        X
            Sequences, or a corpus.
        decoding : {"viterbi", "posterior", "min-risk"}
            The most probable labelling (by sub-labels, if there are any), that with the greatest sum of its labels'
            marginals (the least expected number of mistakes), or that with the least expected ``cost``.
        cost
            For ``min-risk``: as for training (``balanced`` apart); None is ``"hamming:1"``.
        given : sequence of label sequences, optional
            What is known: a label that must stay, None, or a set of possible labels, for each token.
        """
        if type(X) is list and len(X) == 1 and decoding == "viterbi" and given is None and cost is None:
            quickly = self._fitted().labels_of_sentence(X[0])
            if quickly is not None:
                return [quickly]
        corpus = self._corpus(X)
        encoded, allowed = self._encode(corpus, given)
        return self._split(self._decode(encoded, allowed, decoding, cost), corpus.given_offsets)

    def predict_numbers(
        self, X: Any, *, decoding: str = "viterbi", given: Any = None, cost: Any = None, confidence: bool = False
    ) -> tuple[Int32, Float | None]:
        """Label numbers [N] (into ``classes_``) of all tokens in a row and, if asked, their probabilities [N].

        The quick way for whole files, without a Python object for each token. Arguments as for :meth:`predict`.
        """
        encoded, allowed = self._encode(X, given)
        labels = self._decode(encoded, allowed, decoding, cost)
        if not confidence:
            return labels, None
        return labels, self.model_.confidence(encoded, labels, allowed, thread_count(self.threads))

    def predict_single(self, x: Any) -> list[str]:
        """Labels of one sequence, as :meth:`predict` gives them: the quickest way for one sentence at a time."""
        quickly = self._fitted().labels_of_sentence(x)
        return self.predict([x])[0] if quickly is None else quickly

    def predict_marginals(self, X: Any, *, given: Any = None) -> list[list[dict[str, float]]]:
        """For each token a dict from label to probability."""
        corpus = self._corpus(X)
        encoded, allowed = self._encode(corpus, given)
        marginals = self.model_.marginals(encoded, allowed, thread_count(self.threads)).tolist()
        return _cut([dict(zip(self.classes_, row, strict=True)) for row in marginals], corpus.given_offsets)

    def predict_marginals_single(self, x: Any) -> list[dict[str, float]]:
        """For each token of one sequence a dict from label to probability."""
        return self.predict_marginals([x])[0]

    def predict_proba(self, X: Any, *, given: Any = None) -> list[Float]:
        """For each sequence an array [T, Y] of the labels' probabilities, in the order of ``classes_``.

        The numbers of :meth:`predict_marginals`, in the shape that scikit-learn has for classifiers.
        """
        corpus = self._corpus(X)
        encoded, allowed = self._encode(corpus, given)
        marginals = self.model_.marginals(encoded, allowed, thread_count(self.threads))
        return [marginals[first:end] for first, end in pairwise(corpus.given_offsets.tolist())]

    def predict_nbest(self, X: Any, k: int = 5, *, given: Any = None) -> list[list[tuple[list[str], float]]]:
        """For each sequence its ``k`` most probable labellings, best first, with their probabilities.

        With sub-labels, those of the best labellings by sub-labels, sorted by their own probability.
        """
        k = whole_number("k", k, 1)
        corpus = self._corpus(X)
        encoded, allowed = self._encode(corpus, given)
        ranked = self.model_.n_best(encoded, k, allowed, thread_count(self.threads))
        found: list[list[tuple[list[str], float]]] = [[([], 1.0)] for _ in corpus.given_offsets[1:]]
        for i, (labellings, probability) in zip(_filled(corpus).tolist(), ranked, strict=True):
            found[i] = [
                ([self.classes_[label] for label in labels], float(p))
                for labels, p in zip(labellings, probability, strict=True)
            ]
        return found

    def predict_spans(self, X: Any, *, given: Any = None) -> list[list[tuple[int, int, str, float]]]:
        """For each sequence the chunks of its most probable labelling: first token, end, type and probability.

        Tokens count from 0, and the end is the token after the last. The probability is that of the whole chunk: of
        these labels on its tokens, and of its ending there. Chunks are read as :mod:`loglinear.evaluation` reads them.
        """
        from loglinear.evaluation.chunks import chunk_ends, chunk_spans

        corpus = self._corpus(X)
        encoded, allowed = self._encode(corpus, given)
        labels, n_threads = self._decode(encoded, allowed), thread_count(self.threads)
        starts, ends, types = chunk_spans((labels, self.classes_, encoded.offsets))
        ending = chunk_ends(self.classes_)
        probability = self.model_.span_probabilities(encoded, labels, (starts, ends), ending, allowed, n_threads)
        sequence = np.searchsorted(encoded.offsets, starts, side="right") - 1
        first = encoded.offsets[sequence]
        spans: list[list[tuple[int, int, str, float]]] = [[] for _ in corpus.given_offsets[1:]]
        rows = zip((starts - first).tolist(), (ends - first).tolist(), types, probability.tolist(), strict=True)
        for i, row in zip(_filled(corpus)[sequence].tolist(), rows, strict=True):
            spans[i].append(row)
        return spans

    def log_probability(self, X: Any, y: Any) -> Float:
        """log p(y given x) of each sequence [S]."""
        corpus = self._corpus(X)
        encoded, _ = self._encode(corpus, None)
        gold = Annotation.from_python(y, corpus.given_offsets).gold(self.classes_)
        if gold.allowed is not None:
            raise DataError("log_probability needs one label a token")
        log_p = np.zeros(len(corpus.given_offsets) - 1)  # an empty sequence has one labelling
        log_p[_filled(corpus)] = self.model_.log_probability(encoded, gold.labels, thread_count(self.threads))
        return log_p

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, *, metric: str = "accuracy") -> float:
        """Share of tokens labelled right (or chunk F1 with ``metric="f1"``), from 0 to 1."""
        if metric not in ("accuracy", "f1"):
            raise OptionError(f"metric={metric!r} is not one of accuracy, f1")
        corpus = self._corpus(X)
        annotation = annotation_of(corpus, y)
        encoded, _ = self._encode(corpus, None)
        predicted = self._decode(encoded, None)
        if sample_weight is None:
            return score_labels(metric, annotation, predicted, self.classes_, encoded.offsets)
        if metric == "f1":
            raise OptionError("sample_weight goes with metric='accuracy' only")
        from loglinear.training.problem import example_weights  # here: labelling a file has no use for it

        lengths = np.diff(corpus.given_offsets)
        weights = np.repeat(example_weights(sample_weight, len(lengths)), lengths)
        right, settled = annotation.known_only(self.classes_) == predicted, annotation.settled
        return float(np.average(right[settled], weights=weights[settled])) if settled.any() else 0.0

    def _decode(self, encoded: Any, allowed: UInt8 | None, decoding: str = "viterbi", cost: Any = None) -> Int32:
        if decoding not in DECODINGS:
            raise OptionError(f"decoding={decoding!r} is not one of {', '.join(DECODINGS)}")
        table = None
        if decoding == "min-risk":
            if isinstance(cost, str) and cost == "balanced":
                raise OptionError(
                    "cost='balanced' belongs to training: a model does not know how frequent its labels were"
                )
            from loglinear.criteria.costs import make_cost

            table = make_cost("hamming" if cost is None else cost, self.classes_, np.ones(len(self.classes_)))
        elif cost is not None:
            raise OptionError(f"a cost goes with decoding='min-risk', not with {decoding!r}")
        return self.model_.decode(encoded, allowed, decoding, thread_count(self.threads), table)

    def _corpus(self, X: Any) -> Corpus:
        model = self._fitted()
        return corpus_of(X, as_rows=model.takes_rows, empty=True, known=model.known_attributes)

    def _encode(self, X: Any, given: Any) -> tuple[Any, UInt8 | None]:
        """The sequences in numbers, and the labels allowed [N, Y] (None: all)."""
        corpus = self._corpus(X)
        encoded = self.model_.encode(corpus, thread_count(self.threads))
        if given is None:
            return encoded, None
        annotation = given if isinstance(given, Annotation) else Annotation.from_python(given, corpus.given_offsets)
        gold = annotation.gold(self.classes_)
        if gold.allowed is not None:
            return encoded, gold.allowed
        return encoded, (np.arange(len(self.classes_)) == gold.labels[:, None]).astype(np.uint8)

    def _split(self, labels: Int32, offsets: Int64) -> list[list[str]]:
        return _cut(list(map(self.classes_.__getitem__, labels.tolist())), offsets)

    # -- the weights by name -------------------------------------------------------------------------------------

    @property
    def state_weights_(self) -> dict[tuple[str, ...], float]:
        """{(attribute, label): weight}."""
        return self._fitted().named("state")

    @property
    def transition_weights_(self) -> dict[tuple[str, ...], float]:
        """{(previous label, label): weight}."""
        return self._fitted().named("transition")

    @property
    def edge_weights_(self) -> dict[tuple[str, ...], float]:
        """{(attribute, previous label, label): weight}; at first tokens of ``pair_features="only"``, after (start)."""
        return self._fitted().named("edge")

    @property
    def dense_weights_(self) -> dict[tuple[str, ...], float]:
        """{(dense column, label): weight}, of the columns as the model standardises them."""
        return self._fitted().named("dense")

    @property
    def segment_weights_(self) -> dict[tuple[str, ...], float]:
        """{(segment attribute, segment label): weight}, of ``structure="segments"``."""
        return self._fitted().named("segment")

    @property
    def length_weights_(self) -> dict[tuple[str, ...], float]:
        """{(length, segment label): weight}, of ``structure="segments"``."""
        return self._fitted().named("length")

    @property
    def trigram_weights_(self) -> dict[tuple[str, ...], float]:
        """{(label two back, previous label, label): weight}."""
        return self._fitted().named("trigram")

    @property
    def fourgram_weights_(self) -> dict[tuple[str, ...], float]:
        """{(label three back, ..., label): weight}."""
        return self._fitted().named("fourgram")


@contextmanager
def located(corpus: Corpus) -> Iterator[None]:
    """Report the line of a sentence that no labelling fits."""
    try:
        yield
    except InfeasibleError as error:
        first = int(corpus.offsets[error.sequence])
        message = "the model's constraints and the labels given leave no labelling for the sentence that begins here"
        raise corpus.error(message + error.hint, first) from None


def _filled(corpus: Corpus) -> Int64:
    """The numbers of the sequences that are not empty, among those that were given."""
    return np.flatnonzero(np.diff(corpus.given_offsets))


def _cut(tokens: list[T], offsets: Int64) -> list[list[T]]:
    """What tokens have, a list for each sequence."""
    return [tokens[first:end] for first, end in pairwise(offsets.tolist())]


# ----------------------------------------------------------------------------------------------------------------------
# A model file to label with: what the command line needs, without the second that importing scikit-learn takes.


class LoadedTagger(SequencePredictor):
    """What :class:`loglinear.Tagger` predicts, for a model of a file; it cannot be trained on.

    Parameters
    ----------
    model : SequenceModel, CombinedModel or ClassifierModel
    threads : int or None
        All cores if None.
    data : dict of str to str, optional
        How files of the training data were read: format, separator, comments.
    """

    def __init__(self, model: Any, threads: int | None = None, data: dict[str, str] | None = None) -> None:
        self.data_ = data or {}
        self.model_ = model
        self.classes_ = list(model.labels)
        self.threads = threads

    @classmethod
    def load(cls, path: str | Path, threads: int | None = None) -> LoadedTagger:
        """Read the model file of any kind of tagger, with the errors that their ``load`` has."""
        read = model_file.read(path)
        if read.kind == LOCAL:
            from loglinear.estimators.tagger import local

            return cls(local.from_storage(read), threads)
        data: dict[str, str] = {}
        if read.kind == tagger_file.KIND:
            model: Any = stored_model(read)
            data = tagger_file.read_data(read)
        else:
            from loglinear.estimators.tagger import combined

            if read.kind != combined.KIND:
                raise ModelKindError(read.file, read.kind[:40], tagger_file.KIND)
            model = combined.from_storage(read)
        return cls(model.with_weights(np.asarray(model.weights, dtype=np.float64)), threads, data)


def stored_model(read: Reader) -> SequenceModel:
    """The model of a tagger's file, without the estimator around it."""
    tagger_file.own_base(read, None)  # refuses a base that only Python can give
    options = read.options()
    with read.building("options"):
        check(TaggerOptions(**options))
    model: SequenceModel = tagger_file.from_storage(read)
    return model
