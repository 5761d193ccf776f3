"""Data to stop early by: what a model in training scores on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loglinear.arrays import Array, Float
from loglinear.errors import DataError
from loglinear.estimators.tagger.inputs import Annotation, annotation_of, corpus_of, score_labels
from loglinear.estimators.tagger.model import ChainModel
from loglinear.estimators.tagger.training import HmmInTraining
from loglinear.features.encoding import EncodedCorpus
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.structures.constraints import detect_scheme
from loglinear.training.checkpoint import corpus_arrays


@dataclass(frozen=True)
class DevData:
    """A labelled corpus as a model in training sees it.

    Parameters
    ----------
    trained : ChainModel or HmmInTraining
        The model, whose weights are to be replaced.
    encoded : EncodedCorpus
    annotation : Annotation
    metric : {"f1", "accuracy"}
    n_threads : int
    """

    trained: ChainModel | HmmInTraining
    encoded: EncodedCorpus
    annotation: Annotation
    metric: str
    n_threads: int

    @classmethod
    def of(
        cls,
        trained: ChainModel | HmmInTraining,
        X: Any,
        y: Any,
        label_column: int,
        partial: bool,
        metric: str,
        n_threads: int,
    ) -> DevData:
        """What a user gives, in numbers; arguments as for :meth:`loglinear.Tagger.fit`."""
        model = trained.model if isinstance(trained, HmmInTraining) else trained
        corpus = corpus_of(X, as_rows=isinstance(model.encoder, TemplateEncoder))
        encoded = model.encode(corpus)
        annotation = annotation_of(corpus, y, label_column, partial)
        if not annotation.label_names() & set(model.labels):
            raise DataError("none of the dev data's labels is a label of the training data", corpus.name)
        if metric == "auto":
            chunks = detect_scheme(model.labels) is not None and annotation.settled.all()
            metric = "f1" if chunks else "accuracy"
        return cls(trained, encoded, annotation, metric, n_threads)

    def score(self, weights: Float) -> float:
        """The score of the model with these weights [D]."""
        model = self.trained.with_weights(weights)
        predicted = model.decode(self.encoded, n_threads=self.n_threads)
        return score_labels(self.metric, self.annotation, predicted, model.labels, self.encoded.offsets)

    @property
    def arrays(self) -> list[Array | None]:
        """All numbers that the scores depend on."""
        return [*corpus_arrays(self.encoded), self.annotation.known_only(self.trained.labels)]
