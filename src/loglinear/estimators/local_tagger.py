"""Any scikit-learn classifier as a tagger (Zhang, section 9.6.2): each label from the one before it and the input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import has_fit_parameter

from loglinear.data.columns import Attributes
from loglinear.errors import DataError, OptionError
from loglinear.estimators.annotation import sequence_weights
from loglinear.estimators.chain_model import penalties_of
from loglinear.estimators.chain_predictor import ChainPredictor
from loglinear.estimators.inputs import (
    Corpus,
    annotation_of,
    check_feasible,
    constraints_of,
    corpus_of,
    encoder_for,
)
from loglinear.estimators.local_model import METHODS, ClassifierModel, LocalColumns
from loglinear.estimators.options import check_options
from loglinear.features.gazetteer import Gazetteer
from loglinear.features.template import TemplateSet
from loglinear.features.template_encoder import TemplateEncoder
from loglinear.structures.constraints import Constraints
from loglinear.threads import thread_count

Float = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
MOST_BYTES = 2_000_000_000  # of a dense training matrix


class LocalTagger(ChainPredictor, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Labels sequences with a classifier that predicts each label from the one before it and the token's attributes.

    Decoding runs over the whole sequence, on the classifier's log-probabilities (``predict_log_proba``, else
    ``predict_proba``) or, if it has none, on its ``decision_function``. The latter is no logarithm of a probability:
    labels are fine, but the probabilities of :meth:`predict_marginals` and :meth:`predict_nbest` are those of a chain
    with these scores, and not calibrated. A probability counts as at least 2.2e-308, so that a zero is never final.
    Constraints hold when labels are predicted; the classifier does not learn of them.

    ``X`` is a list of sequences as for :class:`loglinear.Tagger`.

    Parameters
    ----------
    classifier : scikit-learn classifier
        Trained on one row for each token: its attributes and which label stands before it (one column each, and one
        for no label). Classes are the labels' strings. A copy is trained; with a single label, none is.
    template : str, path, TemplateSet or None
        A named set (``chunking``, ``pos``, ``ner``, ``words``), the text of a template, a template file, or templates
        as objects. None: tokens come as features. Without a ``B`` line there is no column for the label before.
    min_count : int
        Attributes seen fewer times in training are left out.
    constraints : str, Constraints, dict or None
        Labellings ruled out: ``"bio"``, ``"iob1"``, ``"bioes"``, ``"bilou"``, or your own.
    gazetteers : sequence of Gazetteer or paths, optional
        Lists of known names for the template to look at.
    joined : bool
        Join every attribute with the label before it as well, a column for each pair that stands in the training data.
    dense : bool or None
        Whether the classifier gets arrays (True) or sparse matrices (False); None: arrays if it refuses sparse ones.
    threads : int or None
        Threads that ask the classifier at once, all cores if None.

    Attributes
    ----------
    classes_ : list of str
        The labels, sorted.
    classifier_ : object
        The trained copy of the classifier.
    model_ : ClassifierModel
        Attributes, columns and the classifier.
    """

    model_: ClassifierModel  # type: ignore[assignment]  # a predictor only asks what both kinds of model have
    classifier_: Any

    def __init__(
        self,
        classifier: Any,
        template: str | Path | TemplateSet | None = None,
        min_count: int = 1,
        constraints: str | Constraints | dict[str, Any] | None = None,
        gazetteers: Sequence[Gazetteer | str | Path] | None = None,
        joined: bool = False,
        dense: bool | None = None,
        threads: int | None = None,
    ) -> None:
        self.classifier = classifier
        self.template = template
        self.min_count = min_count
        self.constraints = constraints
        self.gazetteers = gazetteers
        self.joined = joined
        self.dense = dense
        self.threads = threads

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
        corpus = corpus_of(X, as_rows=self.template is not None)
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

    def save(self, path: str | Path) -> NoReturn:
        """Refuse: a classifier of any kind is not data, and model files hold data only."""
        raise OptionError(
            f"a LocalTagger cannot be saved to {path}: its classifier is an object of any kind, and model files hold "
            "data only; pickle it yourself (joblib.dump), or train Tagger(criterion='memm'), which can be saved"
        )

    # -- training ------------------------------------------------------------------------------------------------

    def _check_options(self) -> None:
        check_options(self.get_params(deep=False))
        thread_count(self.threads)
        if not isinstance(self.joined, bool | np.bool_):
            raise OptionError(f"joined={self.joined!r} is not one of False, True")
        if self.dense is not None and not isinstance(self.dense, bool | np.bool_):
            raise OptionError(f"dense={self.dense!r} is not one of None, False, True")
        kind = type(self.classifier)
        if isinstance(self.classifier, type) or not (hasattr(kind, "fit") and hasattr(kind, "get_params")):
            raise OptionError(
                f"classifier={self.classifier!r:.60} is no scikit-learn classifier; give an object, as LinearSVC()"
            )
        # A method may be there only once a classifier is fitted, or by its options: this looks for the hopeless.
        if not any(hasattr(kind, method) for method in METHODS):
            raise _no_scores(self.classifier)

    def _weights(self, corpus: Corpus, sample_weight: Any) -> Float | None:
        """The weight of each sequence [S], checked; refuses a corpus that nothing can be learnt from."""
        if not len(corpus):
            raise DataError("there is no sequence to train on")
        if isinstance(corpus, Attributes):
            if not len(corpus.ids):
                raise DataError(
                    "no token has a feature; in a file, tabs separate the label and the features", corpus.name
                )
            sample_weight = corpus.sequence_weights if sample_weight is None else sample_weight
        if sample_weight is None:
            return None
        if not has_fit_parameter(self.classifier, "sample_weight"):
            raise OptionError(
                f"{type(self.classifier).__name__} takes no sample_weight; leave out the sequences' weights, or choose "
                "a classifier whose fit takes them"
            )
        return sequence_weights(sample_weight, len(corpus))

    def _train(self, model: ClassifierModel, rows: sp.csr_matrix, names: npt.NDArray[Any], weights: Any) -> None:
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
        there = [method for method in METHODS if hasattr(classifier, method)]
        if not there or not hasattr(classifier, "classes_"):
            raise _no_scores(classifier)
        model.method = there[0]
        if model.method == "decision_function" and len(model.labels) > 2 and _is_one_vs_one(classifier):
            raise OptionError(
                f"{type(classifier).__name__} scores pairs of labels (decision_function_shape='ovo'); set it to 'ovr'"
            )
        model.linear = model.is_linear(rows)

    def _fitted(self) -> ClassifierModel:  # type: ignore[override]  # as model_
        if not hasattr(self, "model_"):
            raise NotFittedError("this LocalTagger has no model yet; call fit")
        return self.model_


def _previous(labels: Int32, offsets: npt.NDArray[np.int64], n_labels: int) -> Int32:
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
