"""From a corpus and its annotation to a training problem: attributes, features, constraints, a base if there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from loglinear.criteria.criterion import criterion_class, decoded_locally
from loglinear.data.columns import Attributes, Columns
from loglinear.errors import DataError, OptionError
from loglinear.estimators.annotation import Annotation, sequence_weights
from loglinear.estimators.chain_model import ChainModel, penalties_of
from loglinear.estimators.hmm_training import even_base, label_names
from loglinear.estimators.inputs import Corpus, Encoder, check_feasible, constraints_of, encoder_for
from loglinear.estimators.problem import Problem
from loglinear.features.template import TemplateSet
from loglinear.features.template_encoder import TemplateEncoder
from loglinear.generative.base import Base
from loglinear.options import spec_options
from loglinear.structures.chain_features import ChainFeatures
from loglinear.structures.gold import Gold

Float = npt.NDArray[np.float64]


def prepared(
    options: Any, corpus: Corpus, annotation: Annotation, sample_weight: Any, label_column: int | None
) -> Problem:
    """The problem that a tagger with these ``options`` (its attributes) is to solve.

    ``sample_weight`` is a number for each sequence, or None; ``label_column`` the corpus' own, None if labels came
    apart.
    """
    criterion = criterion_class(options.criterion)
    if not len(corpus):
        raise DataError("there is no sequence to train on")
    if isinstance(corpus, Attributes):
        if not len(corpus.ids):
            raise DataError("no token has a feature; in a file, tabs separate the label and the features", corpus.name)
        sample_weight = corpus.sequence_weights if sample_weight is None else sample_weight
    template = options.template if criterion.learns_weights else TemplateSet.parse("B\n")
    encoder = encoder_for(corpus, template, options.gazetteers or (), options.pair_features, label_column)
    if not criterion.takes_partial and not annotation.settled.all():
        message = f"criterion={options.criterion!r} needs one label for each token; cll takes partial ones"
        raise annotation.place(int(np.argmin(annotation.settled)), message)
    values = spec_options(options.criterion, criterion.options, "criterion")
    labels = annotation.label_set() if criterion.learns_weights else label_names(annotation, values.get("labels"))
    gold = annotation.gold(labels)
    label_counts = np.bincount(gold.labels[gold.labels >= 0], minlength=len(labels))
    base = None
    weights = None if sample_weight is None else sequence_weights(sample_weight, len(corpus))
    if criterion.uses_base:
        base, corpus = _fitted_base(options, corpus, gold, labels, label_column, weights)
    encoded = encoder.fit(corpus, options.min_count)  # type: ignore[arg-type]  # the encoder fits the corpus' kind
    if base is not None:
        encoded = replace(encoded, fields=tuple(base.vocabulary.fields(corpus)))  # type: ignore[arg-type]  # columns
    constraints = constraints_of(options.constraints, labels)
    check_feasible(encoded, gold, penalties_of(constraints, labels), corpus)
    gold = gold.split(options.sub_labels, len(labels))
    features = ChainFeatures.collect(
        encoded, encoder.n_attributes, gold, len(labels) * options.sub_labels, options.order, options.states,
        _transitions(options, encoder) if criterion.learns_weights else "none",
    )  # fmt: skip
    model = ChainModel(
        labels, encoder, features, np.zeros(features.n_features), constraints,
        decoded_locally(options.criterion), options.sub_labels, base=base,
    )  # fmt: skip
    problem = Problem(
        model=model,
        encoded=encoded,
        gold=gold,
        sequence_weights=weights,
        label_counts=label_counts,
        corpus=corpus,
        label_column=label_column,
    )
    return problem.marked_for(problem.criterion(options.criterion, options.cost), options.seed)


def _fitted_base(
    options: Any, corpus: Corpus, gold: Gold, labels: list[str], label_column: int | None, weights: Float | None
) -> tuple[Base, Columns]:
    """The generative base, and the corpus with first occurrences made unknown."""
    if not isinstance(corpus, Columns):
        raise OptionError(f"criterion={options.criterion!r} is a model of columns, but the data is ready-made features")
    criterion = criterion_class(options.criterion)
    own = None if label_column is None else label_column % corpus.n_columns
    columns = [c for c in range(corpus.n_columns) if c != own]
    if not criterion.learns_weights:  # it is what training is to find
        return even_base(corpus, columns, len(labels) * options.sub_labels, options.order)
    smoothing = spec_options(options.criterion, criterion.options, "criterion").get("smoothing", 1.0)
    return Base.fit(options.base or "hmm", corpus, columns, gold.labels, len(labels), options.order, smoothing, weights)


def _transitions(options: Any, encoder: Encoder) -> str:
    """As asked; none if a template has no ``B`` line, as in CRF++."""
    if not isinstance(encoder, TemplateEncoder) or encoder.templates.has_label_bigram:
        return options.transitions
    if options.transitions == "all" or options.order == 2:
        asked = "transitions='all'" if options.transitions == "all" else "order=2"
        raise OptionError(f"{asked} needs label bigrams, but the template has no B line; add a line that says B")
    return "none"
