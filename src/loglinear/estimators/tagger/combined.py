"""A log-linear combination of trained taggers: one chain whose part scores are weighted sums of theirs.

    p(y given x)  proportional to  prod_k p_k(y given x)^{a_k}          score(y) = sum_k a_k score_k(y)

score_k is what model k is decoded by: the score of a conditional random field, the joint log-probability of a hidden
Markov model (log p(x) does not depend on y), the sum of the pieces' log-probabilities of a locally normalised model.
All are sums over parts of a chain, so the sum of them is one too, of the highest order among them, and everything a
chain can do is exact: best labellings, probabilities, n-best lists. Smith, Cohn & Osborne (2005) call it a logarithmic
opinion pool; Smith, Vail & Lafferty (2007, section 6) have generative and discriminative models in mind.

The K weights are those of a log-linear model with K dense features, the scores of its members: a criterion of
whole labellings finds them on dev data, as it would find any others. With ``cll`` that is a convex problem,

    min_a  sum_i [log Z_a(x_i) - sum_k a_k score_k(y_i)] + l2 ||a||^2        d/da_k = E_a[score_k] - score_k(y_i)

``mert`` (:mod:`~loglinear.optimizers.mert`) takes the direction of the weights from the error itself of the best
labellings on dev data, and their length from ``cll``: the best labelling does not depend on it, probabilities do.

A labelling that a member rules out (a score of -inf: its constraints, a step that an unsmoothed hidden Markov model has
never seen) is ruled out for the combination; p_k^0 is one, so a member of weight zero has no say at all.

Letters: K members, S sequences, N positions in all, Y labels.

References
----------
Smith, Cohn & Osborne 2005, Logarithmic opinion pools for conditional random fields (ACL).
Smith, Vail & Lafferty 2007, Computationally efficient M-estimation of log-linear structure models (ACL).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from loglinear.arrays import Array, Arrays, Bool, Float, Int32, Int64
from loglinear.data.columns.corpus import offsets_of, ranges
from loglinear.errors import DataError, OptionError
from loglinear.estimators.estimator import TrainedEstimator, notes_of, read_notes, restore_notes
from loglinear.estimators.options import TUNED_BY, CombinationOptions
from loglinear.estimators.tagger.inputs import Annotation, Corpus, annotation_of, checked_weights, corpus_of
from loglinear.estimators.tagger.model import ChainModel, SequenceInference
from loglinear.estimators.tagger.predict import SequencePredictor, stored_model
from loglinear.model_file import Reader
from loglinear.options import documented, options_of, spec_name, spec_options
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.structures.constraints import detect_scheme
from loglinear.structures.gold import Gold
from loglinear.structures.structure import ListFeatures, VectorGradient
from loglinear.system import in_threads, thread_count
from loglinear.wording import how_many

if TYPE_CHECKING:
    from loglinear.criteria.costs import Cost, LabellingCost
    from loglinear.criteria.criterion import Criterion
    from loglinear.optimizers.mert import MERT, Lists
    from loglinear.optimizers.objective import Objective
    from loglinear.optimizers.optimizer import Result
    from loglinear.training.run import Progress

KIND = "combination"
LEAST_MEMBERS = 2


# ----------------------------------------------------------------------------------------------------------------------
# The model.


@dataclass(frozen=True)
class CombinedCorpus:
    """The same sequences as each member sees them.

    Parameters
    ----------
    offsets : int64 [S + 1]
    seen : list of EncodedCorpus
        One for each member.
    """

    offsets: Int64
    seen: list[Any]

    @property
    def n_sequences(self) -> int:
        """S."""
        return len(self.offsets) - 1

    @property
    def n_positions(self) -> int:
        """N."""
        return int(self.offsets[-1])


class CombinedFeatures(ListFeatures):
    """K features of labellings, the members' scores: weights [K] to part scores and back."""

    def __init__(self, members: Sequence[ChainModel]) -> None:
        self.members, self.n_features = members, len(members)

    def structure(self, corpus: CombinedCorpus, first: int, end: int) -> Chain:
        """The shape of sequences ``first`` to ``end``."""
        return Chain(corpus.offsets[first : end + 1] - corpus.offsets[first])

    def blocks(self, offsets: Int64, first: int, end: int) -> list[tuple[int, int]]:
        """The sequences in runs that are small enough for every member."""
        return max((member.features.blocks(offsets, first, end) for member in self.members), key=len)

    def scores_of(self, k: int, corpus: CombinedCorpus, first: int, end: int) -> ChainScores:
        """Part scores of member ``k``, with what it rules out at -inf."""
        found = self.members[k].part_scores(corpus.seen[k], first, end)
        return found if isinstance(found, ChainScores) else found.over_matrix()

    def scores(self, weights: Float, corpus: CombinedCorpus, first: int, end: int) -> ChainScores:
        """sum_k weights[k] times the part scores of member k; what any of them rules out stays so."""
        terms = (self.scores_of(k, corpus, first, end).times(a) for k, a in enumerate(weights.tolist()))
        total = next(terms)
        for term in terms:
            total = total.plus(term)
        return total

    def dense_gradient(self) -> _MemberGradient:
        """A gradient by the weights."""
        return _MemberGradient(self)


class _MemberGradient(VectorGradient):
    """The gradient [K] by the members' weights: d/da_k = sum over parts of d/dpart times score_k(part)."""

    def __init__(self, features: CombinedFeatures) -> None:
        super().__init__(features.n_features)
        self._features = features

    def add(self, corpus: CombinedCorpus, first: int, end: int, parts: ChainScores) -> None:
        """Add the gradient by the part scores of sequences ``first`` to ``end``."""
        for k in range(self._features.n_features):
            self.vector[k] += parts.dot(self._features.scores_of(k, corpus, first, end))


@dataclass
class CombinedModel(SequenceInference):
    """Chain models with a weight each, and inference with the weighted sum of their scores.

    Parameters
    ----------
    members : list of ChainModel
        Over the same labels and the same kind of data.
    weights : float64 [K]
    """

    members: list[ChainModel]
    weights: Float
    cached = ()

    def __post_init__(self) -> None:
        self.labels, self.encoder = self.members[0].labels, self.members[0].encoder
        chosen = np.flatnonzero(self.weights)
        self._features, self._chosen = CombinedFeatures([self.members[k] for k in chosen]), chosen

    @property
    def order(self) -> int:
        """How many labels back a label depends on."""
        return max(_order(member) for member in self.members)

    @property
    def input_columns(self) -> set[int]:
        """The columns that any member looks at."""
        return set().union(*(member.input_columns for member in self.members))

    @property
    def why_infeasible(self) -> str:
        return next(filter(None, (member.why_infeasible for member in self._features.members)), "")

    def with_weights(self, weights: Float) -> Self:
        """The same members with other weights."""
        return replace(self, weights=weights)

    def named(self, kind: str) -> dict[tuple[str, ...], float]:
        """Not here: features and their weights are those of the members."""
        raise AttributeError(f"a combination has no {kind} weights of its own: ask each of its taggers_")

    def encode(self, corpus: Corpus, n_threads: int = 1) -> CombinedCorpus:
        """The corpus as the members see it that have a say."""
        members = self._features.members
        return CombinedCorpus(
            corpus.offsets, [member.encode(_seen_by(member, corpus), n_threads) for member in members]
        )

    def part_scores(self, corpus: CombinedCorpus, first: int, end: int) -> ChainScores:
        return self._features.scores(self.weights[self._chosen], corpus, first, end)

    def blocks(self, corpus: CombinedCorpus) -> list[tuple[int, int]]:
        return self._features.blocks(corpus.offsets, 0, corpus.n_sequences)


def _seen_by(member: ChainModel, corpus: Corpus) -> Corpus:
    """The corpus with the dense features alone that a member was trained with."""
    if corpus.dense is None:
        return corpus
    known = () if member.dense is None else member.dense.widths
    return replace(corpus, dense={name: rows for name, rows in corpus.dense.items() if name in known} or None)


def _order(member: ChainModel) -> int:
    from loglinear.generative.base import HmmBase

    return max(member.order, member.base.model.order if isinstance(member.base, HmmBase) else 1)


def check_members(members: Sequence[Any], names: Sequence[str]) -> None:
    """Reject models whose part scores cannot be added up; ``names`` are what messages call them."""
    from loglinear.generative.base import HmmBase

    if len(members) < LEAST_MEMBERS:
        raise OptionError(f"a combination has at least {LEAST_MEMBERS} models, not {len(members)}")
    first = members[0]
    for member, name in zip(members, names, strict=True):
        if not isinstance(member, ChainModel):
            raise OptionError(
                f"{name}: a model of {member.structure_name} cannot be combined, since it scores other parts than "
                "chains do; train it with structure='chain'"
            )
        if member.sub_labels > 1:
            raise OptionError(f"{name}: a model with sub-labels cannot be combined: its states are not those of others")
        if member.base is not None and not isinstance(member.base, HmmBase):
            raise OptionError(
                f"{name}: a model over a base of one's own cannot be combined: files do not hold the base"
            )
        if member.takes_rows != first.takes_rows:
            rows, features = (names[0], name) if first.takes_rows else (name, names[0])
            raise OptionError(f"{rows} looks at columns, {features} at ready-made features: no data fits both")
        if member.labels != first.labels:
            raise OptionError(f"{name} and {names[0]} have different labels: {_differing(member.labels, first.labels)}")


def _differing(labels: list[str], others: list[str]) -> str:
    apart = sorted(set(labels) ^ set(others))
    if not apart:
        return "the same in another order"
    shown = ", ".join(f"{label} (only in the {'former' if label in labels else 'latter'})" for label in apart[:4])
    return f"{shown}{', ...' if len(apart) > 4 else ''}; train both on data with the same labels"


# ----------------------------------------------------------------------------------------------------------------------
# Model files.
#
#     header   options; members: {"0": what the file of the first tagger has, ...}; training (free notes)
#     arrays   weights [K]; members.0.*, members.1.*, ...


def member_sections(read: Reader) -> list[Reader]:
    """The members' sections of a model file."""
    members = read.section("members")
    if not members.header or set(members.header) != {str(k) for k in range(len(members.header))}:
        read.fail("members", "they are not numbered from 0 up")
    return [members.section(str(k)) for k in range(len(members.header))]


def model_of(read: Reader, members: Sequence[Any]) -> CombinedModel:
    """The combination of a file, given the models of its members."""
    with read.building("members"):
        check_members(members, [f"member {k}" for k in range(len(members))])
    weights = read.floats("weights", (len(members),))
    if not weights.any():
        read.fail("weights", "all are zero")
    return CombinedModel(list(members), weights)


def from_storage(read: Reader) -> CombinedModel:
    """The model of a file, without the estimators around its members."""
    return model_of(read, [stored_model(section) for section in member_sections(read)])


# ----------------------------------------------------------------------------------------------------------------------
# The estimator.


@documented
class Combination(CombinationOptions, SequencePredictor, TrainedEstimator[CombinedModel]):
    """Labels sequences by a log-linear combination of trained taggers.

        p(y given x)  proportional to  prod_k p_k(y given x)^{a_k}

    The taggers stay as they are: ``fit`` finds their weights on data that none of them was trained on. They may differ
    in everything but the labels and the kind of data: in template, columns, criterion and order; hidden Markov models
    among them. It predicts as a ``Tagger`` does, and is saved to one file, the taggers included.

    PARAMETERS

    Attributes
    ----------
    classes_ : list of str
        The labels, sorted.
    weights_ : float64 [K]
        The weight of each tagger.
    taggers_ : list of Tagger or HMM
    model_ : CombinedModel
    objective_, n_iter_, converged_, message_, seconds_, history_ : how tuning went.
    n_sequences_, n_tokens_ : int
        Of the dev data, as far as the weights were tuned on it.
    n_left_out_ : int
        Sequences of the dev data that were left out, as some tagger cannot give them their labels.
    """

    kind = KIND
    in_file = ("model_", "taggers_")
    model_: Any  # a CombinedModel
    taggers_: list[Any]
    n_sequences_: int
    n_tokens_: int
    n_left_out_: int

    @property
    def weights_(self) -> Float:
        """The weight of each tagger [K]."""
        return self._fitted().weights.copy()

    @property
    def tuned_metric_(self) -> str | None:
        """What ``mert`` raises on the dev data, ``f1`` or ``accuracy``; None by a cost, and by other criteria."""
        mert = _mert(self)
        return None if mert is None or self.cost is not None else _metric(mert, self._fitted().labels)

    # -- tuning ------------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any = None,
        y: Any = None,
        *,
        sample_weight: Any = None,
        label_column: int = -1,
        partial: bool = False,
        observe: Callable[[Progress], None] | None = None,
    ) -> Combination:
        """Find the taggers' weights on dev data; with ``weights`` given, none is needed.

        Parameters
        ----------
        X, y
            Sequences that no tagger was trained on, and their labels. A label is a string, None (unknown) or a set of
            strings (one of them). ``y`` may be left out if ``X`` is a corpus that has labels.
        sample_weight : array of float, optional
            Weight of each sequence's loss.
        label_column, partial
            For corpora: which column holds the labels, and whether ``*`` and ``A|B`` mean any label and either.
        observe : callable, optional
            Called with a :class:`~loglinear.training.run.Progress` after each iteration.
        """
        self.check_options()
        taggers, names = _opened(self.taggers)
        members = [tagger.model_ for tagger in taggers]
        check_members(members, names)
        tuning = _Tuning.nothing(self._given_weights(len(members)))
        if self.weights is None:
            if X is None:
                raise OptionError("give dev data to tune the weights on, or the weights themselves (weights=[...])")
            corpus = corpus_of(X, as_rows=members[0].takes_rows, empty=True)
            annotation = annotation_of(corpus, y, label_column, partial)
            weights = checked_weights(corpus, sample_weight)
            tuning = _tuned(self, CombinedModel(members, np.full(len(members), 1.0 / len(members))), corpus, annotation,
                            weights, observe)  # fmt: skip
        self.taggers_, self.model_ = taggers, CombinedModel(members, tuning.weights)
        self.classes_, self.n_left_out_ = list(members[0].labels), tuning.n_left_out
        self.n_sequences_, self.n_tokens_ = tuning.n_sequences, tuning.n_tokens
        self.objective_, self.n_iter_, self.converged_ = tuning.objective, tuning.iterations, tuning.converged
        self.message_, self.seconds_, self.history_ = tuning.message, tuning.seconds, tuning.history
        self.dev_score_ = self.best_iteration_ = None
        return self

    def _given_weights(self, n_members: int) -> Float:
        """The weights that the user gives, checked; ones if there are none."""
        if self.weights is None:
            return np.ones(n_members)
        try:
            weights = np.array(self.weights, dtype=np.float64)
        except (TypeError, ValueError):
            raise OptionError(f"weights={self.weights!r:.60}: give a list of numbers, one for each model") from None
        if weights.shape != (n_members,) or not np.isfinite(weights).all() or not weights.any():
            raise OptionError(
                f"weights={self.weights!r:.60}: give a finite number for each of the {n_members} models, not all zero"
            )
        return weights

    def check_options(self) -> None:
        """Refuse options that make no sense, as :meth:`fit` does first of all."""
        super().check_options()
        if spec_name(self.criterion) not in TUNED_BY:
            raise OptionError(f"criterion={self.criterion!r}: weights of models are tuned by {', '.join(TUNED_BY)}")
        if (mert := _mert(self)) is not None and mert.metric is not None and self.cost is not None:
            raise OptionError(
                f"criterion={self.criterion!r}: a metric and a cost are two errors; leave out one of them"
            )

    def __sklearn_clone__(self) -> Self:
        """The same combination without its weights; the taggers are trained already, and shared."""
        return type(self)(**self.get_params(deep=False))

    # -- files ---------------------------------------------------------------------------------------------------------

    def _storage(self) -> tuple[dict[str, Any], Arrays]:
        self._fitted()
        return self._stored([tagger._storage() for tagger in self.taggers_])

    def _exact_storage(self) -> tuple[dict[str, Any], Arrays]:
        self._fitted()
        return self._stored([tagger._exact_storage() for tagger in self.taggers_])

    def _stored(self, members: Sequence[tuple[dict[str, Any], Arrays]]) -> tuple[dict[str, Any], Arrays]:
        header = {
            "options": self._stored_options(),
            "members": {str(k): header for k, (header, _) in enumerate(members)},
            "training": {
                **notes_of(self),
                "sequences": self.n_sequences_,
                "tokens": self.n_tokens_,
                "left_out": self.n_left_out_,
            },
        }
        arrays: Arrays = {"weights": self.model_.weights}
        for k, (_, own) in enumerate(members):
            arrays |= {f"members.{k}.{name}": array for name, array in own.items()}
        return header, arrays

    def _stored_options(self) -> dict[str, Any]:
        from loglinear.criteria.costs import describe

        options = super()._stored_options()
        options["cost"] = None if self.cost is None else describe(self.cost)
        options["weights"] = None if self.weights is None else [float(weight) for weight in self.weights]
        return options

    def _restore(self, read: Reader, given: Mapping[str, Any]) -> None:
        from loglinear.estimators.tagger.estimator import Tagger

        self.taggers_ = [Tagger._read(section, {}) for section in member_sections(read)]
        with read.building("options.weights"):
            self._given_weights(len(self.taggers_))
        self.model_ = model_of(read, [tagger.model_ for tagger in self.taggers_])
        self.taggers, self.classes_ = list(self.taggers_), list(self.model_.labels)
        notes = read_notes(read)
        restore_notes(self, notes)
        self.n_sequences_, self.n_tokens_ = notes.get("sequences", 0), notes.get("tokens", 0)
        self.n_left_out_ = notes.get("left_out", 0)


def _opened(given: Any) -> tuple[list[Any], list[str]]:
    """The taggers, files loaded, and what messages call them."""
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.estimators.tagger.hmm import HMM

    if isinstance(given, str | Path | Tagger | HMM):
        given = [given]
    taggers, names = [], []
    for k, each in enumerate(given, 1):
        is_file = isinstance(each, str | Path)
        tagger = Tagger.load(each) if is_file else each
        if not isinstance(tagger, Tagger | HMM):
            raise OptionError(f"tagger {k} is {each!r:.60}: give trained Tagger or HMM objects, or their model files")
        tagger._fitted()
        taggers.append(tagger)
        names.append(str(each) if is_file else f"tagger {k}")
    return taggers, names


# -- tuning: the members' weights as those of a log-linear model -------------------------------------------------------


@dataclass(frozen=True)
class _Tuning:
    """What tuning found, and how it went."""

    weights: Float
    objective: float | None
    iterations: int
    converged: bool
    message: str
    seconds: float
    history: list[Progress]
    n_sequences: int = 0
    n_tokens: int = 0
    n_left_out: int = 0

    @classmethod
    def nothing(cls, weights: Float) -> _Tuning:
        """Weights that were given."""
        return cls(weights, None, 0, True, "the weights were given", 0.0, [])


def _tuned(
    options: Combination,
    model: CombinedModel,
    corpus: Corpus,
    annotation: Annotation,
    sequence_weights: Float | None,
    observe: Callable[[Progress], None] | None,
) -> _Tuning:
    """The weights that minimise the criterion on a corpus, from those of ``model`` on."""
    from loglinear.training.run import Progress

    began, n_threads = time.perf_counter(), thread_count(options.threads)
    encoded, gold, kept = _learnable(model, corpus, annotation, n_threads)
    if gold.allowed is not None and spec_name(options.criterion) in ("risk", "jrb", "mert"):
        raise OptionError(f"criterion={options.criterion!r} needs one label for each token of the dev data")
    n_left_out, history = int(np.count_nonzero(~kept)), list[Progress]()
    if n_left_out:
        warnings.warn(
            f"{n_left_out:,} of the {how_many(len(kept), 'sentence')} of the dev data left out: not every model can "
            f"give their labels{model.why_infeasible}",
            stacklevel=3,
        )

    def see(state: Any) -> None:
        seconds = time.perf_counter() - began
        history.append(Progress(len(history) + 1, state.evaluations, state.value, seconds, None, None))
        if observe is not None:
            observe(history[-1])

    own_weights = np.ones(encoded.n_sequences) if sequence_weights is None else sequence_weights[kept]
    data = _DevData(encoded, gold, np.ascontiguousarray(own_weights), n_threads)
    result = _by_gradient(options, model, data, see)
    if (mert := _mert(options)) is not None:
        result = _by_error(options, mert, model.with_weights(result.weights), data, see)
    return _Tuning(
        result.weights.copy(), float(result.value), len(history), result.converged, result.message,
        time.perf_counter() - began, history, encoded.n_sequences, encoded.n_positions, n_left_out,
    )  # fmt: skip


@dataclass(frozen=True)
class _DevData:
    """Sequences to tune on, whose labels every member can give; ``weights`` [S] are the sequences'."""

    encoded: CombinedCorpus
    gold: Gold
    weights: Float
    n_threads: int

    def objective(self, members: Sequence[ChainModel], criterion: Criterion, l2: float) -> Objective:
        """A criterion's value and gradient by the members' weights."""
        from loglinear.optimizers.objective import Objective

        features: Any = CombinedFeatures(members)  # L-BFGS wants no sparse gradients
        return Objective(features, self.encoded, self.gold, criterion, None, l2, self.weights, self.n_threads)


def _by_gradient(options: Combination, model: CombinedModel, data: _DevData, see: Callable[[Any], None]) -> Result:
    """The weights of least loss, from those of ``model`` on."""
    from loglinear.optimizers.lbfgs import LBFGS

    weights, result = model.weights, None
    for criterion in _criteria(options, model.labels, data.gold):
        optimizer = LBFGS(max_iter=options.max_iter, tolerance=options.tolerance)
        result = optimizer.minimise(data.objective(model.members, criterion, options.l2), weights, callback=see)
        weights = result.weights
    assert result is not None
    return result


def _criteria(options: Combination, labels: list[str], gold: Gold) -> list[Criterion]:
    """The criteria to tune by, one after the other: the last is what the options ask for, or ``mert`` starts from."""
    from loglinear.criteria.criterion import CRITERIA, make_criterion

    if _mert(options) is not None:
        return [make_criterion("cll")]
    part = CRITERIA.part(options.criterion)
    if not part.uses_cost and options.cost is not None:
        raise OptionError(f"criterion={options.criterion!r} takes no cost")
    criterion = make_criterion(options.criterion, _cost(options, labels, gold) if part.uses_cost else None)
    first = [] if part.starts_from is None else [make_criterion(part.starts_from)]
    return [*first, *(form for _, form in criterion.schedule()), criterion]


def _cost(options: Combination, labels: list[str], gold: Gold) -> Cost | LabellingCost:
    """The cost of a criterion: one of two labellings where that asks for those of n-best lists alone."""
    from loglinear.criteria.costs import LabellingCost, is_of_labellings
    from loglinear.criteria.criterion import uses_lists

    if is_of_labellings(options.cost) and uses_lists(options.criterion):
        return LabellingCost(options.cost, labels)
    return _cost_of_labels(options, labels, gold)


def _cost_of_labels(options: Combination, labels: list[str], gold: Gold) -> Cost:
    from loglinear.criteria.costs import make_cost

    counts = np.bincount(gold.labels[gold.labels >= 0], minlength=len(labels))
    return make_cost("hamming" if options.cost is None else options.cost, labels, counts)


# -- tuning by the error itself ----------------------------------------------------------------------------------------


def _mert(options: Combination) -> MERT | None:
    """Minimum error rate training with the options of the criterion's spec; None if that names another criterion."""
    from loglinear.optimizers.mert import MERT

    if spec_name(options.criterion) != MERT.name:
        return None
    return MERT(**spec_options(options.criterion, options_of(MERT), "criterion"))


def _by_error(
    options: Combination, mert: MERT, model: CombinedModel, data: _DevData, see: Callable[[Any], None]
) -> Result:
    """The weights of least error, from those of ``model`` on, with the length that makes the labels most probable."""
    from loglinear.criteria.criterion import make_criterion
    from loglinear.optimizers.lbfgs import LBFGS
    from loglinear.optimizers.optimizer import Result

    lists = _NBestLists(model, data, mert.k, _error_of(options, mert, model.labels, data))
    found = mert.minimise(lists.grow, model.weights, max_iter=options.max_iter, seed=options.seed, callback=see)
    direction, objective = found.weights, data.objective(model.members, make_criterion("cll"), options.l2)

    def along(length: Float) -> tuple[float, Float]:
        value, gradient = objective(length * direction)
        return value, np.array([(gradient * direction).sum()])

    usual = np.sqrt((model.weights**2).sum(keepdims=True))
    length = LBFGS(max_iter=options.max_iter, tolerance=options.tolerance).minimise(along, usual).weights
    state = replace(found.state, weights=direction * (length if length > 0.0 else usual))
    return Result(state, found.converged, found.message)


@dataclass(frozen=True)
class _Error:
    """An error as a function of counts: those of labellings [n, M] against the gold, and the error of their sums.

    ``counts`` takes sequences [n], offsets [n + 1] and the labellings, one after the other.
    """

    counts: Callable[[Int64, Int64, Int32], Array]
    of_sums: Callable[[Float], Float]


def _metric(mert: MERT, labels: list[str]) -> str:
    """What is raised where there is no cost."""
    from loglinear.optimizers.mert import ACCURACY, F1

    return mert.metric or (ACCURACY if detect_scheme(labels) is None else F1)


def _error_of(options: Combination, mert: MERT, labels: list[str], data: _DevData) -> _Error:
    """1 - F1 of chunks, the share of wrong labels, or the mean cost of a sequence."""
    from loglinear.evaluation.chunks import chunk_counts
    from loglinear.optimizers.mert import F1

    offsets, gold = data.encoded.offsets, data.gold.labels

    def positions(sequences: Int64, bounds: Int64) -> Int64:
        return ranges(offsets[sequences], np.diff(bounds))

    if options.cost is not None:
        cost_of = _costs(options, labels, data)
        return _Error(cost_of, lambda sums: sums[..., 0] / data.weights.sum())
    if _metric(mert, labels) == F1:

        def chunks(sequences: Int64, bounds: Int64, labellings: Int32) -> Array:
            return chunk_counts((gold[positions(sequences, bounds)], labels, bounds), (labellings, labels, bounds))

        return _Error(chunks, lambda sums: 1.0 - 2.0 * sums[..., 2] / np.maximum(sums[..., 0] + sums[..., 1], 1e-300))

    def wrong(sequences: Int64, bounds: Int64, labellings: Int32) -> Array:
        return np.add.reduceat(gold[positions(sequences, bounds)] != labellings, bounds[:-1], dtype=np.int64)[:, None]

    return _Error(wrong, lambda sums: sums[..., 0] / (data.weights * np.diff(offsets)).sum())


def _costs(options: Combination, labels: list[str], data: _DevData) -> Callable[[Int64, Int64, Int32], Array]:
    """The costs [n, 1] of labellings."""
    from loglinear.criteria.costs import LabellingCost, is_of_labellings

    offsets, gold = data.encoded.offsets, data.gold
    if is_of_labellings(options.cost):
        own = LabellingCost(options.cost, labels)

        def of_labellings(sequences: Int64, bounds: Int64, labellings: Int32) -> Array:
            pairs = zip(sequences.tolist(), np.split(labellings, bounds[1:-1]), strict=True)
            return np.array([own.of(gold.labels[offsets[s] : offsets[s + 1]], each[None]) for s, each in pairs])

        return of_labellings
    table = _cost_of_labels(options, labels, gold).at(gold, offsets)

    def of_labels(sequences: Int64, bounds: Int64, labellings: Int32) -> Array:
        own = table[ranges(offsets[sequences], np.diff(bounds)), labellings]
        return np.add.reduceat(own, bounds[:-1])[:, None]

    return of_labels


class _NBestLists:
    """The k best labellings of each sequence by all weights so far, with the members' scores as their features."""

    def __init__(self, model: CombinedModel, data: _DevData, k: int, error: _Error) -> None:
        self._features, self._data, self._k, self._error = CombinedFeatures(model.members), data, k, error
        self._known: list[set[bytes]] = [set() for _ in range(data.encoded.n_sequences)]
        self._sequence = np.zeros(0, dtype=np.int64)
        self._scores = np.zeros((0, len(model.members)))
        self._counts: Float | None = None

    def grow(self, weights: Float) -> tuple[Lists, int]:
        """Add the k best by ``weights`` [K]; the lists, and how many labellings are new."""
        from loglinear.optimizers.mert import Lists

        encoded = self._data.encoded
        blocks = self._features.blocks(encoded.offsets, 0, encoded.n_sequences)
        found = in_threads(lambda block: self._best(weights, *block), blocks, self._data.n_threads)
        sequences, scores, labellings = (list(chain.from_iterable(each)) for each in zip(*found, strict=True))
        new = [i for i, (s, each) in enumerate(zip(sequences, labellings, strict=True)) if self._is_new(s, each)]
        if new:
            own = np.array(sequences, dtype=np.int64)[new]
            joined = np.concatenate([labellings[i] for i in new])
            counts = self._error.counts(own, offsets_of([len(labellings[i]) for i in new]), joined)
            self._add(own, np.array(scores)[new], counts * self._data.weights[own][:, None])
        assert self._counts is not None, "each sequence has a best labelling"
        offsets = np.searchsorted(self._sequence, np.arange(encoded.n_sequences + 1))
        return Lists(offsets, self._scores, self._counts, self._error.of_sums), len(new)

    def _is_new(self, sequence: int, labelling: Int32) -> bool:
        known, content = self._known[sequence], labelling.tobytes()
        if content in known:
            return False
        known.add(content)
        return True

    def _add(self, sequences: Int64, scores: Float, counts: Float) -> None:
        """Put new labellings behind those of the same sequence."""
        order = np.argsort(np.concatenate([self._sequence, sequences]), kind="stable")
        self._sequence = np.concatenate([self._sequence, sequences])[order]
        self._scores = np.concatenate([self._scores, scores])[order]
        before = np.zeros((0, counts.shape[1])) if self._counts is None else self._counts
        self._counts = np.concatenate([before, counts])[order]

    def _best(self, weights: Float, first: int, end: int) -> tuple[list[int], list[Float], list[Int32]]:
        """The k best of sequences ``first`` to ``end``: their sequences, the members' scores [K], and labels."""
        features, encoded = self._features, self._data.encoded
        structure = features.structure(encoded, first, end)
        lists = structure.k_best(features.scores(weights, encoded, first, end), self._k)
        rows = np.empty((max(len(values) for _, values in lists), structure.n_positions), dtype=np.int32)
        for s, (found, _) in enumerate(lists):
            rows[:, structure.offsets[s] : structure.offsets[s + 1]] = found[0]
            rows[: len(found), structure.offsets[s] : structure.offsets[s + 1]] = found
        own = [features.scores_of(k, encoded, first, end) for k in range(features.n_features)]
        scores = np.array([[structure.score(each, labels) for each in own] for labels in rows])
        sequences, vectors, labellings = list[int](), list[Float](), list[Int32]()
        for s, (found, _) in enumerate(lists):
            sequences += [first + s] * len(found)
            vectors += list(scores[: len(found), :, s])
            labellings += list(found)
        return sequences, vectors, labellings


def _learnable(
    model: CombinedModel, corpus: Corpus, annotation: Annotation, n_threads: int
) -> tuple[CombinedCorpus, Gold, Bool]:
    """The sequences whose labels every member can give, encoded; their annotation; and which they are, a mask [S]."""
    known = set(model.labels)
    possible = [None if each is None else each & known for each in annotation.possible]
    foreign = np.array([each is not None and not each for each in possible], dtype=bool)[annotation.ids]
    kept = np.ones(len(corpus), dtype=bool)
    kept[np.searchsorted(corpus.offsets, np.flatnonzero(foreign), side="right") - 1] = False
    while True:
        encoded = model.encode(corpus.select(kept), n_threads)
        chosen = np.flatnonzero(kept)
        positions = ranges(corpus.offsets[chosen], np.diff(corpus.offsets)[chosen])
        gold = Annotation(annotation.ids[positions], possible, annotation.place).gold(model.labels)
        if not len(chosen):
            raise DataError("there is no sentence in the dev data whose labels all models can give", corpus.name)
        feasible = _feasible(model, encoded, gold, n_threads)
        if feasible.all():
            return encoded, gold, kept
        kept[chosen[~feasible]] = False


def _feasible(model: CombinedModel, encoded: CombinedCorpus, gold: Gold, n_threads: int) -> Bool:
    """Which sequences [S] have an annotation that no member rules out."""

    def score(structure: Chain, scores: ChainScores, positions: slice) -> Float:
        own = gold.slice(positions.start, positions.stop)
        if own.allowed is None:
            return structure.score(scores, own.labels)
        return structure.log_partition(structure.restrict(scores, own.allowed))

    return np.isfinite(np.concatenate(model.map_blocks(encoded, None, n_threads, score)))
