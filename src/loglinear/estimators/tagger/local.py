"""Any scikit-learn classifier as a tagger (Zhang, section 9.6.2): each label from the one before it and the input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from loglinear.arrays import Array, Arrays, Bool, Float, Int32, Int64
from loglinear.errors import DataError, OptionError
from loglinear.estimators.conventions import Conventions, clone
from loglinear.estimators.estimator import Estimator
from loglinear.estimators.options import LocalTaggerOptions
from loglinear.estimators.tagger.classifiers import (
    FORMS,
    SAVED,
    StoredClassifier,
    as_data,
    plain_options,
    untrained,
    why_not_saved,
)
from loglinear.estimators.tagger.file import encoder_to_storage, read_encoder
from loglinear.estimators.tagger.inputs import (
    Corpus,
    Encoder,
    annotation_of,
    check_feasible,
    checked_weights,
    constraints_of,
    corpus_of,
    encoder_for,
)  # fmt: skip
from loglinear.estimators.tagger.model import SequenceInference, penalties_of
from loglinear.estimators.tagger.predict import LOCAL, SequencePredictor
from loglinear.features.encoding import EncodedCorpus, Incidence, runs
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.model_file import Reader
from loglinear.options import check, documented
from loglinear.structures.chain.features import Penalties
from loglinear.structures.chain.structure import ChainScores
from loglinear.structures.constraints import Constraints
from loglinear.system import thread_count

MOST_BYTES = 2_000_000_000  # of a dense training matrix


@documented
class LocalTagger(LocalTaggerOptions, SequencePredictor, Estimator["ClassifierModel"]):
    """Labels sequences with a classifier that predicts each label from the one before it and the token's attributes.

    Decoding runs over the whole sequence, on the classifier's log-probabilities (``predict_log_proba``, else
    ``predict_proba``) or, if it has none, on its ``decision_function``, which is not a log-probability:
    labels are fine, but the probabilities of :meth:`predict_marginals` and :meth:`predict_nbest` are those of a chain
    with these scores, and not calibrated. A probability counts as at least 2.2e-308, so that a zero is never final.
    Constraints hold when labels are predicted; the classifier does not learn of them.

    ``X`` is a list of sequences as for :class:`loglinear.Tagger`.

    :meth:`save` writes linear models, naive Bayes models, trees and forests
    (:mod:`~loglinear.estimators.tagger.classifiers`) as data, and refuses all others; :meth:`load` reads them back
    without running anything of theirs.

    PARAMETERS

    Attributes
    ----------
    classes_ : list of str
        The labels, sorted.
    classifier_ : object
        The trained copy of the classifier; of a loaded model, what gives the same answers.
    model_ : ClassifierModel
        Attributes, columns and the classifier.
    """

    kind = LOCAL
    model_: ClassifierModel  # type: ignore[assignment]  # a predictor only asks what both kinds of model have
    classifier_: Any

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, label_column: int = -1) -> LocalTagger:
        """Train the classifier.

        Parameters
        ----------
        X, y
            Sequences and their labels, a string for each token. ``y`` may be left out if ``X`` is a corpus that has
            labels.
        sample_weight : array of float, optional
            Weight of each sequence, given to the classifier for each of its tokens.
        label_column : int
            For corpora: which column holds the labels.
        """
        self._check_options()
        corpus = corpus_of(X, as_rows=self.template is not None, empty=True)
        if corpus.dense is not None:
            raise DataError("a LocalTagger takes no dense features; Tagger does")
        annotation = annotation_of(corpus, y, label_column)
        weights = self._weights(corpus, sample_weight)
        encoder = encoder_for(
            corpus, self.template, self.gazetteers or (), self.joined, label_column if y is None else None
        )
        if not annotation.settled.all():
            message = "a LocalTagger needs one label for each token; Tagger(criterion='cll') takes partial ones"
            raise annotation.place(int(np.argmin(annotation.settled)), message)
        labels = annotation.label_set()
        gold = annotation.gold(labels)
        encoded = encoder.fit(corpus, self.min_count)  # type: ignore[arg-type]  # the encoder fits the corpus' kind
        constraints = constraints_of(self.constraints, labels)
        check_feasible(encoded, gold, penalties_of(constraints, labels), corpus)
        previous = _previous(gold.labels, encoded.offsets, len(labels))
        with_previous = not isinstance(encoder, TemplateEncoder) or encoder.templates.has_label_bigram
        columns = LocalColumns.collect(encoded, encoder.n_attributes, previous, len(labels), with_previous)
        if not columns.n_columns:
            raise OptionError(f"no attribute is seen {self.min_count} times in the training data; lower min_count")
        model = ClassifierModel(labels, encoder, columns, clone(self.classifier), constraints)
        if len(labels) > 1:
            rows = columns.matrix(*columns.attributes(encoded, 0, encoded.n_positions), previous)
            token_weights = None if weights is None else np.repeat(weights, np.diff(encoded.offsets))
            self._train(model, rows, np.array(labels)[gold.labels], token_weights)
        self.model_, self.classifier_, self.classes_ = model, model.classifier, list(labels)
        return self

    # -- files and pickles -----------------------------------------------------------------------------------------

    def _storage(self) -> tuple[dict[str, Any], Arrays]:
        self._fitted()
        if (why := why_not_saved(self.classifier)) is not None:
            raise OptionError(f"a LocalTagger with it cannot be saved: {why}; or pickle it yourself (joblib.dump)")
        header, arrays = to_storage(self.model_, type(self.classifier).__name__)
        header["options"] = {**self._stored_options(), "classifier": plain_options(self.classifier)}
        return header, arrays

    @classmethod
    def _read_options(cls, read: Reader) -> dict[str, Any]:
        options = read.options()
        with read.building("options"):
            name = read.section("classifier").choice("name", list(SAVED))
            classifier = untrained(name, dict(options.pop("classifier")))
        return {**options, "classifier": classifier}

    def check_options(self) -> None:
        """Refuse options that make no sense, as :meth:`fit` does first of all."""
        self._check_options()

    def _restore(self, read: Reader, given: Mapping[str, Any]) -> None:
        model = from_storage(read)
        if isinstance(model.encoder, TemplateEncoder):
            self.template = model.encoder.templates
            self.gazetteers = list(model.encoder.gazetteers.values()) or None
        self.constraints = model.constraints
        self.model_, self.classifier_, self.classes_ = model, model.classifier, list(model.labels)

    __getstate__ = Conventions.__getstate__  # a pickle holds the classifier, of whatever kind
    __setstate__ = Conventions.__setstate__

    # -- training ------------------------------------------------------------------------------------------------

    def _check_options(self) -> None:
        check(self)
        thread_count(self.threads)
        kind = type(self.classifier)
        if isinstance(self.classifier, type) or not (hasattr(kind, "fit") and hasattr(kind, "get_params")):
            raise OptionError(
                f"classifier={self.classifier!r:.60} is not a scikit-learn classifier; give an object, as LinearSVC()"
            )
        # A method may be there only once a classifier is fitted, or by its options: this looks for the hopeless.
        if not any(hasattr(kind, method) for method in METHODS):
            raise _no_scores(self.classifier)

    def _weights(self, corpus: Corpus, sample_weight: Any) -> Float | None:
        """The weight of each sequence [S], checked; refuses a corpus that nothing can be learnt from."""
        from sklearn.utils.validation import has_fit_parameter  # labelling a file has no use for it

        weights = checked_weights(corpus, sample_weight)
        if weights is not None and not has_fit_parameter(self.classifier, "sample_weight"):
            raise OptionError(
                f"{type(self.classifier).__name__} takes no sample_weight; leave out the sequences' weights, or choose "
                "a classifier whose fit takes them"
            )
        return weights

    def _train(self, model: ClassifierModel, rows: sp.csr_matrix, names: Array, weights: Any) -> None:
        """Train the model's classifier on rows [N, D] and the labels' names [N], and find out how to ask it."""
        further = {} if weights is None else {"sample_weight": weights}
        model.dense = bool(self.dense)
        if not model.dense:
            try:
                model.classifier.fit(rows, names, **further)
            except (TypeError, ValueError) as error:
                if "sparse" not in str(error).lower():
                    raise
                if self.dense is not None:
                    raise OptionError(
                        f"{type(self.classifier).__name__} takes no sparse matrices ({error}); leave out dense=False"
                    ) from None
                model.dense, model.classifier = True, clone(self.classifier)
        if model.dense:
            model.classifier.fit(_as_dense(rows), names, **further)
        classifier = model.classifier
        methods = [method for method in METHODS if hasattr(classifier, method)]
        if not methods or not hasattr(classifier, "classes_"):
            raise _no_scores(classifier)
        model.method = methods[0]
        if model.method == "decision_function" and len(model.labels) > 2 and _is_one_vs_one(classifier):
            raise OptionError(
                f"{type(classifier).__name__} scores pairs of labels (decision_function_shape='ovo'); set it to 'ovr'"
            )
        sample = rows[:: max(1, rows.shape[0] // SAMPLE)]
        model.linear = model.is_linear(sample)
        dense = sample.toarray() if model.dense else sample
        model.data = as_data(classifier, model.method, dense, model._answer(dense))


def _previous(labels: Int32, offsets: Int64, n_labels: int) -> Int32:
    """The label before each position [N]; Y at first positions."""
    previous = np.roll(labels, 1)
    previous[offsets[:-1]] = n_labels
    return previous


def _as_dense(rows: sp.csr_matrix) -> Float:
    """Rows [N, D] as an array, if it is not too big."""
    n_bytes = 8 * rows.shape[0] * rows.shape[1]
    if n_bytes > MOST_BYTES:
        raise OptionError(
            f"the classifier wants dense data, and {rows.shape[0]:,} tokens with {rows.shape[1]:,} columns would take "
            f"{n_bytes / 1e9:.1f} GB (at most {MOST_BYTES / 1e9:g}); raise min_count, or choose another classifier"
        )
    array: Float = rows.toarray()
    return array


def _is_one_vs_one(classifier: Any) -> bool:
    options = classifier.get_params()
    return any(name.split("__")[-1] == "decision_function_shape" and options[name] == "ovo" for name in options)


def _no_scores(classifier: Any) -> OptionError:
    return OptionError(
        f"{type(classifier).__name__} gives labels without scores; a LocalTagger's classifier needs predict_proba or "
        "decision_function"
    )


# ----------------------------------------------------------------------------------------------------------------------
# A classifier as the scorer of a chain (Zhang, section 9.6.2): predict y_t from (y_{t-1}, x), Viterbi on the scores.
#
#     score(y) = sum_t f(y_t given y_{t-1}, x, t)
#
# f is the classifier's log-probability, so that the product is that of an MEMM (9.18), or its decision function where
# it has no probabilities. The classifier is asked about every position once for every label that may stand before it,
# many rows a call. Where its scores are linear in the columns, the attributes' share is computed once and the previous
# label's added: the same numbers, a Y-th of the work.


METHODS = ("predict_log_proba", "predict_proba", "decision_function")  # the first that a classifier has is used
FLOOR = float(np.log(np.finfo(np.float64).tiny))  # -708.4: a probability counts as at least 2.2e-308
MOST_ROWS = 100_000  # of one call with sparse rows
MOST_DENSE = 8_000_000  # numbers of one call with dense rows
SAMPLE = 200  # training rows on which scores are compared with linear ones


@dataclass(frozen=True)
class LocalColumns:
    """The columns of the matrix a classifier sees, a row for a position and the label before it.

        a                   attribute a                                          A columns
        A + y'              the label before is y'; A + Y: there is none         Y + 1 columns, if ``with_previous``
        ... + j             attribute and label before, ``pairs[j] = a Y + y'``  P columns

    Parameters
    ----------
    n_attributes, n_labels : int
        A and Y.
    with_previous : bool
        Whether the label before is a column of its own.
    pairs : int64 [P] or None
        The pairs (attribute, label before) that stand in the training data, ascending; None if none are joined.
    """

    n_attributes: int
    n_labels: int
    with_previous: bool
    pairs: Int64 | None

    @classmethod
    def collect(
        cls, corpus: EncodedCorpus, n_attributes: int, previous: Int32, n_labels: int, with_previous: bool
    ) -> LocalColumns:
        """The columns of a training corpus; ``previous`` [N] has Y at first positions."""
        if corpus.edge is None:
            return cls(n_attributes, n_labels, with_previous, None)
        before = np.repeat(previous, np.diff(corpus.edge.pointer))
        codes = corpus.edge.ids.astype(np.int64) * n_labels + before
        pairs = np.unique(codes[before < n_labels])
        return cls(n_attributes, n_labels, with_previous, pairs if len(pairs) else None)

    @property
    def first_pair(self) -> int:
        return self.n_attributes + (self.n_labels + 1 if self.with_previous else 0)

    @property
    def n_columns(self) -> int:
        return self.first_pair + (0 if self.pairs is None else len(self.pairs))

    @property
    def depend_on_previous(self) -> bool:
        """Whether the label before makes a difference."""
        return self.with_previous or self.pairs is not None

    def attributes(self, corpus: EncodedCorpus, lo: int, hi: int) -> tuple[sp.csr_matrix, sp.csr_matrix | None]:
        """Attributes of positions ``lo`` to ``hi`` [n, A]: those by themselves, and those to be joined (None: none)."""
        state = self._rows(corpus.state, lo, hi)
        if self.pairs is None or corpus.edge is None:
            return state, None
        return state, state if corpus.edge is corpus.state else self._rows(corpus.edge, lo, hi)

    def _rows(self, incidence: Incidence, lo: int, hi: int) -> sp.csr_matrix:
        first, end = int(incidence.pointer[lo]), int(incidence.pointer[hi])
        values = np.ones(end - first) if incidence.values is None else incidence.values[first:end].copy()
        parts = values, incidence.ids[first:end].copy(), incidence.pointer[lo : hi + 1] - first
        rows = sp.csr_matrix(parts, shape=(hi - lo, self.n_attributes))
        rows.sum_duplicates()  # a token may name an attribute twice, and trees want each column once and in order
        return rows

    def matrix(self, state: sp.csr_matrix, edge: sp.csr_matrix | None, previous: Int32) -> sp.csr_matrix:
        """Rows [n, D] of attributes [n, A] and the label before each [n] (Y: none)."""
        blocks = [state]
        if self.with_previous:
            n = len(previous)
            one_hot = np.ones(n), previous, np.arange(n + 1, dtype=np.int32)
            blocks.append(sp.csr_matrix(one_hot, shape=(n, self.n_labels + 1)))
        if edge is not None and self.pairs is not None:
            blocks.append(self._joined(edge, previous, self.pairs))
        return sp.hstack(blocks, format="csr") if len(blocks) > 1 else state

    def _joined(self, edge: sp.csr_matrix, previous: Int32, pairs: Int64) -> sp.csr_matrix:
        """Columns of the pairs [n, P]; pairs that training did not have are left out, as unknown attributes are."""
        before = np.repeat(previous, np.diff(edge.indptr))
        codes = edge.indices.astype(np.int64) * self.n_labels + before
        place = np.minimum(np.searchsorted(pairs, codes), len(pairs) - 1)
        known = (before < self.n_labels) & (pairs[place] == codes)
        pointer = np.concatenate([[0], np.cumsum(known)])[edge.indptr]
        return sp.csr_matrix((edge.data[known], place[known], pointer), shape=(edge.shape[0], len(pairs)))


@dataclass(frozen=True)
class LinearScores:
    """Weights of a classifier whose scores are linear, by what they belong to.

    Parameters
    ----------
    attribute : float64 [A, Y]
    intercept : float64 [Y]
    previous : float64 [Y + 1, Y]
        Row y' is for the label before, row Y for none.
    joined : sparse [A, Y Y] or None
        Of attribute a, label before y' and label y in column y' Y + y.
    """

    attribute: Float
    intercept: Float
    previous: Float
    joined: sp.csr_matrix | None

    @classmethod
    def lay_out(cls, coef: Float, intercept: Float, columns: LocalColumns) -> LinearScores:
        """From a classifier's weights [D, Y] and [Y]."""
        n_labels, n_attributes = columns.n_labels, columns.n_attributes
        previous, joined = np.zeros((n_labels + 1, n_labels)), None
        if columns.with_previous:
            previous = coef[n_attributes : columns.first_pair].copy()
        if columns.pairs is not None:
            attribute, before = np.divmod(columns.pairs, n_labels)
            pointer = np.searchsorted(attribute, np.arange(n_attributes + 1)) * n_labels
            indices = (before[:, None] * n_labels + np.arange(n_labels)).ravel()
            parts = coef[columns.first_pair :].ravel(), indices, pointer
            joined = sp.csr_matrix(parts, shape=(n_attributes, n_labels**2))
        return cls(np.ascontiguousarray(coef[:n_attributes]), intercept, previous, joined)

    def emission(self, state: sp.csr_matrix) -> Float:
        """The share of the positions' attributes [n, Y]."""
        scores: Float = state @ self.attribute + self.intercept
        return scores

    def edge(self, edge: sp.csr_matrix | None) -> Float | None:
        """The share of attributes joined with the label before [n, Y, Y]."""
        if edge is None or self.joined is None:
            return None
        scores: Float = (edge @ self.joined).toarray().reshape(-1, len(self.intercept), len(self.intercept))
        return scores


@dataclass
class ClassifierModel(SequenceInference):
    """A chain whose parts a classifier scores.

    Parameters
    ----------
    labels : list of str
        The Y labels.
    encoder : TemplateEncoder or NameEncoder
        Makes attributes of a corpus.
    columns : LocalColumns
    classifier : object
        A fitted classifier; not asked if there is one label only.
    constraints : Constraints or None
    dense : bool
        Whether the classifier wants arrays instead of sparse matrices.
    method : str
        Its method that gives the scores, one of ``METHODS``.
    linear : bool
        Whether the scores may be computed from ``coef_`` and ``intercept_`` (:meth:`is_linear`).
    data : StoredClassifier or None
        The classifier as arrays, if it is of a kind that can be stored.
    """

    cached = ("penalties", "class_labels", "linear_scores")

    labels: list[str]
    encoder: Encoder
    columns: LocalColumns
    classifier: Any
    constraints: Constraints | None = None
    dense: bool = False
    method: str = METHODS[0]
    linear: bool = False
    data: StoredClassifier | None = None
    sub_labels: int = 1

    @cached_property
    def penalties(self) -> Penalties:
        return penalties_of(self.constraints, self.labels)

    @cached_property
    def class_labels(self) -> Int64:
        """The label of each of the classifier's K classes."""
        index, names = {label: y for y, label in enumerate(self.labels)}, [str(c) for c in self.classifier.classes_]
        if strange := set(names) - set(index):
            kind = type(self.classifier).__name__
            raise OptionError(f"{kind} has a class {min(strange)!r}, which is none of the labels it was trained on")
        return np.array([index[name] for name in names], dtype=np.int64)

    @cached_property
    def linear_scores(self) -> LinearScores:
        weights = self._linear_weights()
        assert weights is not None
        return LinearScores.lay_out(*weights, self.columns)

    # -- part scores ---------------------------------------------------------------------------------------------

    def part_scores(self, corpus: EncodedCorpus, first: int, end: int) -> ChainScores:
        lo, hi = int(corpus.offsets[first]), int(corpus.offsets[end])
        if len(self.labels) == 1:
            return self.penalties.scores(hi - lo)
        state, edge = self.columns.attributes(corpus, lo, hi)
        is_first = np.zeros(hi - lo, dtype=bool)
        is_first[corpus.offsets[first:end] - lo] = True
        return (self._linear_parts if self.linear else self._asked_parts)(state, edge, is_first)

    def blocks(self, corpus: EncodedCorpus) -> list[tuple[int, int]]:
        n_labels = len(self.labels)
        if self.linear:
            _ = self.linear_scores  # laid out here, once, before threads ask for it
        additive = self.linear and self.method == "decision_function" and self.columns.pairs is None
        with_edges = self.columns.depend_on_previous and not additive
        most = 1_000_000 // (n_labels + n_labels**2 * with_edges)
        return runs(corpus.offsets, 0, corpus.n_sequences, max(256, min(4096, most)))

    def _asked_parts(self, state: sp.csr_matrix, edge: sp.csr_matrix | None, is_first: Bool) -> ChainScores:
        """Part scores by asking about every position and every label that may stand before it."""
        n, n_labels = len(is_first), len(self.labels)
        if not self.columns.depend_on_previous:
            return self._parts(self.ask(state), None)
        firsts, others = np.flatnonzero(is_first), np.flatnonzero(~is_first)
        positions = np.concatenate([firsts, np.repeat(others, n_labels)])
        before = [np.full(len(firsts), n_labels), np.tile(np.arange(n_labels), len(others))]
        previous = np.concatenate(before).astype(np.int32)
        asked = np.empty((len(positions), n_labels))
        for start in range(0, len(positions), MOST_ROWS):
            run = slice(start, start + MOST_ROWS)
            chosen = positions[run]
            joined = None if edge is None else edge[chosen]
            asked[run] = self.ask(self.columns.matrix(state[chosen], joined, previous[run]))
        emission, edges = np.zeros((n, n_labels)), np.zeros((n, n_labels, n_labels))
        emission[firsts] = asked[: len(firsts)]
        edges[others] = asked[len(firsts) :].reshape(-1, n_labels, n_labels)
        return self._parts(emission, edges)

    def _linear_parts(self, state: sp.csr_matrix, edge: sp.csr_matrix | None, is_first: Bool) -> ChainScores:
        """The same part scores where they are linear, or the log-softmax of linear ones."""
        linear = self.linear_scores
        emission, edges = linear.emission(state), linear.edge(edge)
        transition, start = linear.previous[:-1], linear.previous[-1]
        if self.method == "decision_function":
            return self._parts(emission, edges, transition, start)
        if not self.columns.depend_on_previous:
            return self._parts(_log_softmax(emission), None)
        table = emission[:, None, :] + transition
        if edges is not None:
            table += edges
        starts = np.where(is_first[:, None], _log_softmax(emission + start), 0.0)
        return self._parts(starts, _log_softmax(table))

    def _parts(self, emission: Float, edge: Float | None, transition: Any = 0.0, start: Any = 0.0) -> ChainScores:
        """Part scores with the constraints added."""
        rules = self.penalties
        return ChainScores(emission, rules.transition + transition, rules.start + start, rules.stop, edge)

    # -- the classifier ------------------------------------------------------------------------------------------

    def ask(self, rows: sp.csr_matrix) -> Float:
        """The classifier's scores [n, Y] of rows [n, D]; -inf for labels that it does not have."""
        n = rows.shape[0]
        scores = np.full((n, len(self.labels)), -np.inf)
        step = max(1, MOST_DENSE // rows.shape[1]) if self.dense else max(1, n)
        for start in range(0, n, step):
            run = slice(start, start + step)
            scores[run, self.class_labels] = self._answer(rows[run].toarray() if self.dense else rows)
        return scores

    def _answer(self, rows: sp.csr_matrix | Float) -> Float:
        """Scores [n, K] of the classifier's own classes."""
        kind, n_classes = type(self.classifier).__name__, len(self.class_labels)
        with np.errstate(divide="ignore"):
            answer = np.asarray(getattr(self.classifier, self.method)(rows), dtype=np.float64)
            if self.method == "predict_proba":
                answer = np.log(answer)
        if answer.ndim == 1 and n_classes == 2:
            answer = np.column_stack([-answer, answer])
        if answer.shape != (rows.shape[0], n_classes):
            raise OptionError(
                f"{kind}.{self.method} gives the shape {answer.shape}, not a score for each of {n_classes} labels; if "
                "it has an option decision_function_shape, set it to 'ovr'"
            )
        if self.method != "decision_function":
            np.maximum(answer, FLOOR, out=answer)  # NaN stays
        if not np.isfinite(answer).all():
            raise OptionError(f"{kind}.{self.method} gives NaN or infinite numbers; they cannot be scores")
        return answer

    def is_linear(self, rows: sp.csr_matrix) -> bool:
        """Whether scores from ``coef_`` and ``intercept_`` are those the classifier gives for ``rows``.

        Always asks, so that a classifier whose answers cannot be used is refused here.
        """
        asked, weights = self.ask(rows), self._linear_weights()
        if weights is None:
            return False
        scores = rows @ weights[0] + weights[1]
        if self.method != "decision_function":
            scores = _log_softmax(scores)
        return np.allclose(scores, asked, rtol=1e-7, atol=1e-8)

    def _linear_weights(self) -> tuple[Float, Float] | None:
        """The classifier's ``coef_`` [D, Y] and ``intercept_`` [Y], if it has them in these shapes for all labels."""
        coef, n_labels = getattr(self.classifier, "coef_", None), len(self.labels)
        if coef is None or not np.array_equal(self.class_labels, np.arange(n_labels)):
            return None
        coef = np.atleast_2d(np.asarray(coef.toarray() if sp.issparse(coef) else coef, dtype=np.float64))
        intercept = np.asarray(getattr(self.classifier, "intercept_", 0.0), dtype=np.float64).ravel()
        if n_labels == 2 and len(coef) == 1:
            # One score d for two labels: margins are -d and d, while probabilities are the softmax of 0 and d.
            signs = np.array([-1.0 if self.method == "decision_function" else 0.0, 1.0])
            coef, intercept = signs[:, None] * coef, signs * intercept
        if coef.shape != (n_labels, self.columns.n_columns) or len(intercept) not in (1, n_labels):
            return None
        return np.ascontiguousarray(coef.T), np.broadcast_to(intercept, (n_labels,))

    def named(self, kind: str) -> NoReturn:
        """Refuse: the weights, if any, are the classifier's."""
        raise AttributeError("a LocalTagger has no weights of its own; look at its classifier_")


def _log_softmax(table: Float) -> Float:
    """Logarithms of probabilities over the last axis, none below ``FLOOR``; in place."""
    table -= table.max(axis=-1, keepdims=True)
    table -= np.log(np.exp(table).sum(axis=-1, keepdims=True))
    return np.maximum(table, FLOOR, out=table)


# ----------------------------------------------------------------------------------------------------------------------
# How the model of a LocalTagger is stored in a model file, and read back.
#
# header   options (of the tagger; under "classifier" those of the classifier), labels, constraints, encoder
#          columns      n_attributes, with_previous, joined
#          classifier   name, classes, method, dense, linear, form (None: there is one label) and what that needs
# arrays   strings (packed), encoder.*; columns.pairs [P]; classifier.*


def to_storage(model: ClassifierModel, name: str) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays of a model whose classifier is of the class ``name``."""
    encoder, arrays = encoder_to_storage(model.encoder)
    stored: dict[str, Any] = {"name": name, "method": model.method, "dense": model.dense, "linear": model.linear}
    stored |= {"form": None, "classes": model.labels}
    if len(model.labels) > 1:
        if model.data is None:
            raise OptionError(
                f"a LocalTagger with this {name} cannot be saved: its answers do not follow from its arrays as those "
                "of others do; give it other options, or pickle it yourself (joblib.dump)"
            )
        header, own = model.data.to_storage()
        stored |= {"form": model.data.form, "classes": model.data.classes_.tolist(), **header}
        arrays |= {f"classifier.{part}": array for part, array in own.items()}
    columns = model.columns
    if columns.pairs is not None:
        arrays["columns.pairs"] = columns.pairs
    header = {
        "labels": model.labels,
        "constraints": None if model.constraints is None else model.constraints.to_dict(),
        "encoder": encoder,
        "columns": {
            "n_attributes": columns.n_attributes, "with_previous": columns.with_previous,
            "joined": columns.pairs is not None,
        },
        "classifier": stored,
    }  # fmt: skip
    return header, arrays


def from_storage(read: Reader) -> ClassifierModel:
    """The model of a file, every part checked."""
    labels, (_, encoder) = read.names("labels"), read_encoder(read)
    stored, own = read.section("columns"), read.section("classifier")
    n_attributes = stored.integer("n_attributes", most=2**31 - 1)
    if n_attributes != encoder.n_attributes:
        stored.fail("n_attributes", f"{n_attributes}, but the encoder makes {encoder.n_attributes}")
    pairs = stored.ascending("pairs", n_attributes * len(labels)) if stored.flag("joined") else None
    columns = LocalColumns(n_attributes, len(labels), stored.flag("with_previous"), pairs)
    with read.building("constraints"):
        rules = read.value("constraints")
        constraints = None if rules is None else Constraints.from_dict(rules)
    method, classes = own.choice("method", METHODS), own.names("classes")
    data = None
    if len(labels) > 1:
        if not set(classes) <= set(labels):
            own.fail("classes", "a class is none of the labels")
        form = FORMS[own.choice("form", list(FORMS))]
        data = form.from_storage(own, np.array(classes), columns.n_columns)
        if not hasattr(data, method):
            own.fail("method", f"{method} is not how {form.form} are asked")
    model = ClassifierModel(
        labels, encoder, columns, data, constraints, own.flag("dense"), method, own.flag("linear"), data
    )
    with read.building("constraints"):
        _ = model.penalties  # constraints that do not fit the labels fail here
    if model.linear and (data is None or model._linear_weights() is None):
        own.fail("linear", "the weights are not of the shape for linear scores")
    return model
