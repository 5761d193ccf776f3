"""From a corpus and its annotation to a training problem: attributes, features, constraints, a base if there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from loglinear.criteria.criterion import CRITERIA, decoded_locally
from loglinear.criteria.hmm import HiddenMarkov
from loglinear.data.columns import Attributes, Columns
from loglinear.errors import DataError, OptionError
from loglinear.estimators.annotation import Annotation, sequence_weights
from loglinear.estimators.chain_model import ChainModel, penalties_of
from loglinear.estimators.hmm_training import even_base, found_by_em, label_names
from loglinear.estimators.inputs import Corpus, Encoder, check_feasible, constraints_of, encoder_for
from loglinear.estimators.problem import Problem
from loglinear.features.template import TemplateSet
from loglinear.features.template_encoder import TemplateEncoder, TemplateTable
from loglinear.generative.base import Base, HmmBase, read_base
from loglinear.generative.own_base import OwnBase, is_own
from loglinear.generative.sampled_expectations import Sampling
from loglinear.structures.chain_features import ChainFeatures
from loglinear.structures.gold import Gold
from loglinear.threads import thread_count

Float = npt.NDArray[np.float64]
BASE_ROUNDS, BASE_STEP_SMOOTHING = 20, 0.01  # of EM, for a base where labels are hidden


def prepared(
    options: Any, corpus: Corpus, annotation: Annotation, sample_weight: Any, label_column: int | None
) -> Problem:
    """The problem that a tagger with these ``options`` (its attributes) is to solve.

    ``sample_weight`` is a number for each sequence, or None; ``label_column`` the corpus' own, None if labels came
    apart.
    """
    criterion = CRITERIA.part(options.criterion)
    if not len(corpus):
        raise DataError("there is no sequence to train on")
    if isinstance(corpus, Attributes):
        if not len(corpus.ids):
            raise DataError("no token has a feature; in a file, tabs separate the label and the features", corpus.name)
        sample_weight = corpus.sequence_weights if sample_weight is None else sample_weight
    template = options.template if criterion.learns_weights else TemplateSet.parse("B\n")
    encoder = encoder_for(
        corpus, template, options.gazetteers or (), options.pair_features, label_column, options.hash_bits
    )
    if not criterion.learns_from_hidden() and not annotation.settled.all():
        message = f"criterion={options.criterion!r} needs one label for each token; cll takes partial ones"
        raise annotation.place(int(np.argmin(annotation.settled)), message)
    values = dict(CRITERIA.spec(options.criterion).values)
    labels = annotation.label_set() if criterion.learns_weights else label_names(annotation, values.get("labels"))
    gold = annotation.gold(labels)
    label_counts = np.bincount(gold.labels[gold.labels >= 0], minlength=len(labels))
    base, sampling = None, None
    weights = None if sample_weight is None else sequence_weights(sample_weight, len(corpus))
    if criterion.uses_base:
        hidden = criterion.learns_weights and (gold.allowed is not None or options.sub_labels > 1)
        if hidden and (options.base is not None and options.base != "hmm"):
            raise OptionError(
                f"base={options.base!r:.60}: where labels are hidden (partial labels, sub-labels), base='hmm' alone "
                "can be found, by EM"
            )
        if hidden:
            base, corpus = _base_by_em(options, corpus, annotation, weights, label_column)
        else:
            base, sampling, corpus = _fitted_base(options, corpus, gold, labels, label_column, weights)
    n_threads = thread_count(options.threads)
    encoded = encoder.fit(corpus, options.min_count, n_threads)  # type: ignore[arg-type]  # fits the corpus' kind
    if base is not None:
        encoded = base.attach(encoded, corpus)
    if isinstance(base, OwnBase):
        base.check(encoded, gold.labels)
    constraints = constraints_of(options.constraints, labels)
    check_feasible(encoded, gold, penalties_of(constraints, labels), corpus)
    gold = gold.split(options.sub_labels, len(labels))
    features = ChainFeatures.collect(
        encoded, encoder.n_attributes, gold, len(labels) * options.sub_labels, options.order, options.states,
        _transitions(options, encoder) if criterion.learns_weights else "none",
        _input_only(encoder) if _criterion_options(options).get("input_only") else None,
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
        sampling=sampling,
    )
    return problem.marked_for(problem.criterion(options.criterion, options.cost), options.seed)


def check_emitted(corpus: Any, what: str) -> None:
    """Refuse ready-made features as the data of a model that emits columns; ``what`` asks for one."""
    if isinstance(corpus, Attributes):
        raise OptionError(f"{corpus.name}: {what} is a model of columns, but the data is ready-made features")


def _fitted_base(
    options: Any, corpus: Corpus, gold: Gold, labels: list[str], label_column: int | None, weights: Float | None
) -> tuple[Base, Sampling | None, Corpus]:
    """The generative base, how its expectations are drawn (None: exact), and the corpus as it is to be seen."""
    own = None if label_column is None or not isinstance(corpus, Columns) else label_column % corpus.n_columns
    columns = [c for c in range(corpus.n_columns) if c != own] if isinstance(corpus, Columns) else None
    if is_own(options.base):
        base = OwnBase.of(options.base)
        return base.bound(labels, columns), base.sampling(options.seed), corpus
    check_emitted(corpus, f"criterion={options.criterion!r}")
    assert isinstance(corpus, Columns) and columns is not None
    if not CRITERIA.part(options.criterion).learns_weights:  # it is what training is to find
        even, seen = even_base(corpus, columns, len(labels) * options.sub_labels, options.order)
        return even, None, seen
    smoothing, step_smoothing = _smoothing(options)
    kind, sampling = read_base(options.base or "hmm", options.seed)
    counted, seen = HmmBase.fit(
        kind, corpus, columns, gold.labels, len(labels), options.order, smoothing, weights, step_smoothing
    )
    return counted, sampling, seen


def _base_by_em(
    options: Any, corpus: Corpus, annotation: Annotation, weights: Float | None, label_column: int | None
) -> tuple[Base, Corpus]:
    """The hidden Markov model of data with hidden labels, and the corpus as it is to be seen."""
    smoothing, step_smoothing = _smoothing(options)
    step_smoothing = step_smoothing or BASE_STEP_SMOOTHING
    spec = f"hmm:smoothing={smoothing!r},transition_smoothing={step_smoothing!r},rounds={BASE_ROUNDS}"
    unused = ("base", "optimizer", "template", "gazetteers", "l2", "variance")
    like = clone(options).set_params(
        criterion=spec, cost=None, l1=0.0, min_count=1, pair_features=False, **dict.fromkeys(unused)
    )
    problem = prepared(like, corpus, annotation, weights, label_column)
    hmm = problem.criterion(spec)
    assert isinstance(hmm, HiddenMarkov)
    return found_by_em(problem, hmm, options.seed, thread_count(options.threads)), problem.corpus


def _smoothing(options: Any) -> tuple[float, float]:
    """What the base adds to the counts of values, and of steps."""
    given = _criterion_options(options)
    return given.get("smoothing", 1.0), given.get("transition_smoothing", 0.0)


def _criterion_options(options: Any) -> dict[str, Any]:
    """What the criterion's spec sets."""
    return dict(CRITERIA.spec(options.criterion).values)


def _input_only(encoder: Encoder) -> npt.NDArray[np.bool_]:
    """A mask [A] of the attributes that a model of the input needs: one template of each kind.

    Templates that look at the same things some positions apart count the same things but for the sentences' ends; of
    those the one nearest to the position itself is taken.
    """
    if not isinstance(encoder, TemplateEncoder):
        return np.ones(encoder.n_attributes, dtype=bool)
    chosen = np.zeros(encoder.n_attributes, dtype=bool)
    nearest: dict[tuple[Any, ...], tuple[int, TemplateTable]] = {}
    for table in encoder.tables():
        macros = table.template.macros
        first = min((macro.row for macro in macros if not macro.absolute), default=0)
        kind = tuple(macro if macro.absolute else replace(macro, row=macro.row - first) for macro in macros)
        reach = max(abs(macro.row) for macro in macros)
        if table.in_state and (kind not in nearest or reach < nearest[kind][0]):
            nearest[kind] = (reach, table)
    for _, table in nearest.values():
        chosen[table.first : table.first + len(table.keys)] = True
    return chosen


def _transitions(options: Any, encoder: Encoder) -> str:
    """As asked; none if a template has no ``B`` line, as in CRF++."""
    if not isinstance(encoder, TemplateEncoder) or encoder.templates.has_label_bigram:
        return options.transitions
    if options.transitions == "all" or options.order == 2:
        asked = "transitions='all'" if options.transitions == "all" else "order=2"
        raise OptionError(f"{asked} needs label bigrams, but the template has no B line; add a line that says B")
    return "none"
