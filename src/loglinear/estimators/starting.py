"""Where training starts from: zero, another model, or a model of a quicker criterion trained first.

A model p(y given x) ~ q0(x, y) exp(w . f(x, y)) with a generative base q0 is taken over as a whole: where the new model
has the features to say so, log q0 becomes part of its weights,

    (value v of a column at the position itself, y)     log e(v given y)
    (y', y)  or  (y'', y', y)                           log t(y given the labels before)

each up to a constant that is the same for all labels, and so changes no probability.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from loglinear.criteria.criterion import CRITERIA
from loglinear.errors import OptionError
from loglinear.estimators.chain_model import ChainModel
from loglinear.estimators.problem import Problem
from loglinear.features.template_encoder import TemplateEncoder, TemplateTable
from loglinear.generative.base import HmmBase
from loglinear.generative.m_estimation import sentence_counts
from loglinear.options import spec_name
from loglinear.structures.chain_features import ChainFeatures

if TYPE_CHECKING:
    from loglinear.estimators.tagger import Tagger

Float = npt.NDArray[np.float64]
SUB_LABEL_NOISE = 0.1  # standard deviation of the weights that training with sub-labels starts from
OPENING_VARIANCE = 1.0  # of the M-estimate that training starts from; its loss is a mean, whatever the data's size


def opening_tagger(tagger: Tagger, spec: str) -> Tagger:
    """An untrained tagger like this one, but of the criterion ``spec``, whose model it is to start from."""
    criterion = CRITERIA.part(spec)
    if not criterion.learns_weights:
        raise OptionError(
            f"init={spec!r}: {criterion.name} has no weights to start from; m-estimation has it as a base"
        )
    changed: dict[str, Any] = {"criterion": spec, "optimizer": None, "sub_labels": 1, "l1": 0.0, "constraints": None}
    if not criterion.uses_cost:
        changed["cost"] = None
    if criterion.uses_base:
        changed |= {"l2": None, "variance": OPENING_VARIANCE}
    elif criterion.optimizers == ("online",):
        changed |= {"l2": None, "variance": None}
    return clone(tagger).set_params(**changed)


def names_a_criterion(init: Any) -> bool:
    """Whether a start is the name of a criterion rather than a file or a model."""
    return isinstance(init, str | Path) and spec_name(str(init)) in CRITERIA.all() and not Path(init).exists()


def starting(
    problem: Problem, other: ChainModel | None, seed: int, keep: int | None = None, n_threads: int = 1
) -> tuple[Problem, Float]:
    """The problem and the weights [D] that training starts from.

    ``other`` is the model to start from, if any; with ``keep``, only so many features are left, those that say most in
    it: |weight| sqrt(how often it occurs). The weight alone would favour what was seen once, its count what says
    nothing.
    """
    start = _start_weights(problem.model, other, seed)
    if keep is None or keep >= len(start):
        return problem, start
    labels = problem.gold.labels if problem.gold.allowed is None else problem.completed(start, n_threads)
    counts = sentence_counts(problem.model.features, problem.encoded, labels)
    times = np.asarray(abs(counts).sum(axis=0), dtype=np.float64).ravel()
    kept = np.zeros(len(start), dtype=bool)
    kept[np.argsort(-np.abs(start) * np.sqrt(times), kind="stable")[:keep]] = True
    model = problem.model.keeping(kept)
    return replace(problem, model=model, encoded=model.encode(problem.corpus)), start[kept]


def _start_weights(model: ChainModel, other: ChainModel | None, seed: int) -> Float:
    start = model.weights
    if other is not None:
        start = model.weights_from(other)
        if isinstance(other.base, HmmBase) and model.base is None:
            start = start + _base_as_weights(model, other, other.base)
    if model.sub_labels > 1 and (other is None or other.sub_labels == 1):  # sub-labels that start alike stay alike
        start = start + np.random.default_rng([seed, 2]).normal(scale=SUB_LABEL_NOISE, size=len(start))
    return start


def _base_as_weights(model: ChainModel, other: ChainModel, base: HmmBase) -> Float:
    """What the weights [D] of ``model`` are to gain so that it says what ``other``'s base does."""
    gained = np.zeros(model.features.n_features)
    label = {name: y for y, name in enumerate(other.labels)}
    same = np.array([label.get(name, -1) for name in model.labels for _ in range(model.sub_labels)])
    if (same < 0).any() or not isinstance(model.encoder, TemplateEncoder):
        return gained
    for table in model.encoder.tables():
        log_p = _emissions(table, model.encoder, base)
        if log_p is not None:
            _add_to_states(gained, model.features, table.first, log_p[:, same])
    _add_to_ngrams(gained, model.features, base, same)
    return gained


def _emissions(table: TemplateTable, encoder: TemplateEncoder, base: HmmBase) -> Float | None:
    """log p(value given label) [A, Y] of a template that looks at one value at the position itself; None of others."""
    macros = table.template.macros
    if len(macros) != 1 or (macros[0].row, macros[0].function) != (0, "x") or macros[0].absolute or macros[0].lowered:
        return None
    if macros[0].column not in base.vocabulary.columns or not table.in_state:
        return None
    place = base.vocabulary.columns.index(macros[0].column)
    number = {value: v for v, value in enumerate(base.vocabulary.values[place])}
    strings = encoder.values.strings
    values = [number.get(strings[key], len(number) - 1) for key in table.keys[:, 0].tolist()]
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(base.model.emissions[place].T)[values])


def _add_to_states(gained: Float, features: ChainFeatures, first: int, log_p: Float) -> None:
    """Add log probabilities [A, Y] of the attributes from ``first`` on to the features that they have.

    Those they have not stay at zero, so the constant is chosen to make that right on average.
    """
    n, y = log_p.shape
    log_p = np.maximum(log_p, np.log(1e-12))
    pointer = features.state.pointer[first : first + n + 1]
    attribute = np.repeat(np.arange(n), np.diff(pointer))
    codes = features.state.codes[pointer[0] : pointer[-1]]
    own = codes < y
    has = np.zeros((n, y), dtype=bool)
    has[attribute[own], codes[own]] = True
    missing = np.where(has.all(axis=1, keepdims=True), True, ~has)
    constant = (log_p * missing).sum(axis=1) / missing.sum(axis=1)
    places = np.arange(pointer[0], pointer[-1])[own]
    gained[places] += log_p[attribute[own], codes[own]] - constant[attribute[own]]


def _add_to_ngrams(gained: Float, features: ChainFeatures, base: HmmBase, same: npt.NDArray[np.int64]) -> None:
    """Add log probabilities of the steps to the label n-grams, up to the least of them."""
    _, _, transition, trigram = features.segments
    order, n = base.model.order, base.model.n_labels
    if order == 2 and features.order == 2:
        steps = base.model.steps[:-1].reshape(n + 1, n, n + 1)[:n, :, :n][np.ix_(same, same, same)]
        segment, codes = trigram, features.trigrams
    else:
        visits = base.model.inflow if order == 2 else np.ones(n)
        by_label = (base.model.steps[:-1, :-1] * visits[:, None]).reshape(-1, n, n).sum(axis=0)
        by_label /= np.maximum(by_label.sum(axis=1, keepdims=True), 1e-300)
        steps = by_label[np.ix_(same, same)]
        segment, codes = transition, features.transitions
    log_p = np.log(np.maximum(steps.ravel()[codes], 1e-12))
    if len(log_p):
        gained[segment] += log_p - log_p.min()
