"""A training problem: the data in numbers and the model whose weights are sought."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from loglinear import mapped
from loglinear.arrays import Array, Float, Int32, Int64, UInt8
from loglinear.criteria.costs import LabellingCost, is_of_labellings, make_cost
from loglinear.criteria.criterion import CRITERIA, Criterion, decoded_locally, make_criterion, uses_lists
from loglinear.criteria.field_likelihood import FieldLikelihood
from loglinear.criteria.hmm import HiddenMarkov
from loglinear.criteria.local import scaled, scaling_gradient
from loglinear.criteria.m_estimation import MEstimation
from loglinear.data import Columns
from loglinear.data.columns.corpus import Attributes
from loglinear.errors import OptionError
from loglinear.estimators.conventions import clone
from loglinear.estimators.options import OBSERVED_ONLY, read_class_weight
from loglinear.estimators.tagger.inputs import Annotation, Corpus, Encoder, checked_weights, encoder_for
from loglinear.estimators.tagger.model import ChainModel, SequenceModel, TrainingData, check_size, model_class
from loglinear.estimators.tagger.training import HmmTraining, even_base, label_names
from loglinear.features.encoding import concatenated, lists_of
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.features.templates.language import TemplateSet
from loglinear.generative.base import BASES, Base, HmmBase, OwnBase, Sampling, is_own, read_base
from loglinear.generative.hmm.model import Counts, HiddenMarkovModel, possible_steps
from loglinear.generative.m_estimation import Expected, MEstimationObjective, expected_sentence_counts
from loglinear.optimizers.objective import AnyObjective, Objective
from loglinear.structures.chain.features import ChainFeatures
from loglinear.structures.chain.listed import ListedScores
from loglinear.structures.chain.structure import Chain
from loglinear.structures.gold import Gold
from loglinear.structures.structure import Scores, Structure
from loglinear.system import thread_count
from loglinear.training.problem import example_weights


@dataclass(frozen=True)
class Problem:
    """What is to be learnt from.

    Parameters
    ----------
    model : SequenceModel
        The model, with weights of zero.
    encoded : EncodedCorpus or EncodedSegments
        The S training sequences.
    gold : Gold
        Their annotation.
    sequence_weights : float64 [S] or None
        Weight of each sequence's loss; None is one for all.
    label_counts : int64 [Y]
        How many positions are settled to have each label.
    corpus : Columns or Attributes
        The text itself, for criteria that predict it too.
    label_column : int or None
        The corpus' column of labels.
    sampling : Sampling or None
        How a base's expectations are drawn; None if they are exact.
    """

    model: SequenceModel
    encoded: Any
    gold: Gold
    sequence_weights: Float | None
    label_counts: Int64
    corpus: Corpus
    label_column: int | None
    sampling: Sampling | None = None

    def criterion(self, spec: str, cost: Any = None) -> Criterion:
        """The criterion of that spec over this problem's labels; ``cost`` is what a user gives, None for Hamming."""
        if not CRITERIA.part(spec).uses_cost:
            return make_criterion(spec).for_labels(np.repeat(self.model.labels, self.model.sub_labels).tolist())
        if is_of_labellings(cost) and uses_lists(spec):
            if self.model.sub_labels > 1 or self.gold.allowed is not None:
                raise OptionError("a cost of whole labellings needs one label for each token, and no sub-labels")
            own, first = LabellingCost(cost, self.model.labels), self.gold.labels[: self.encoded.offsets[1]]
            own.of(first, first[np.newaxis])  # a mistake is better told before a cll model is trained to start from
            return make_criterion(spec, own)
        table = make_cost("hamming" if cost is None else cost, self.model.labels, self.label_counts)
        if CRITERIA.part(spec).starts_from and table.is_zero:
            raise OptionError(f"criterion={spec!r} minimises the cost, and cost={cost!r:.40} is zero for every label")
        return make_criterion(spec, table.split(self.model.sub_labels))

    def marked_for(self, criterion: Criterion, seed: int) -> Problem:
        """The problem with the annotation marked as ``criterion`` wants it before training."""
        rng = np.random.default_rng([seed, 1])
        gold = criterion.choose(self.gold, self.encoded.offsets, len(self.model.states), self.model.order, rng)
        return replace(self, gold=gold)

    def contexts_chosen(self, criterion: Criterion, weights: Float, n_threads: int) -> UInt8:
        """The contexts that ``criterion`` learns from, given the weights so far: uint8 [N, Y, ...], Y to the order."""
        model = self.model.with_weights(weights)

        def choose(chain: Chain, scores: Scores, positions: slice) -> UInt8:
            marginals = chain.expectations(scores)[1].emission
            if scores.order > 1:
                marginals = chain.edge_marginals(scores, scores.order).reshape(-1, *(scores.n_labels,) * scores.order)
            gold = self.gold.slice(positions.start, positions.stop)
            contexts = criterion.choose_again(gold, chain.offsets, marginals).contexts
            assert contexts is not None
            return contexts

        return np.concatenate(model.map_blocks(self.encoded, None, n_threads, choose))

    def with_probable(self, weights: Float, threshold: float, n_threads: int) -> Problem:
        """The problem with more features: pairs that are more probable than ``threshold`` given the weights so far.

        These are (attribute, label), and with pair features (attribute, label pair), of which the label, or pair, has a
        greater marginal probability at some position with the attribute (Sutton & McCallum 2005, section 3, add
        *unsupported* features, those that never occur with the right label, to suppress wrong ones).
        """
        features = self.model.features
        assert isinstance(features, ChainFeatures)

        def likely(chain: Chain, scores: Scores, positions: slice) -> list[tuple[Int64, Int32]]:
            tables = [chain.marginals(scores)]
            if features.edge is not None:
                tables.append(chain.edge_marginals(scores).reshape(len(tables[0]), -1))
            return [lists_of(table > threshold) for table in tables]

        found = self.model.with_weights(weights).map_blocks(self.encoded, None, n_threads, likely)
        labels, *pairs = (concatenated(blocks) for blocks in zip(*found, strict=True))
        larger = features.with_probable(self.encoded, labels, pairs[0] if pairs else None)
        return replace(self, model=replace(self.model, features=larger, weights=np.zeros(larger.n_features)))

    def completed(self, weights: Float, n_threads: int) -> Int32:
        """Of the labels that the annotation leaves, the most probable ones [N] given the weights so far."""
        assert self.gold.allowed is not None
        n_labels = self.gold.allowed.shape[1]

        def complete(structure: Structure, scores: Scores, positions: slice) -> Int32:
            allowed = self.gold.slice(positions.start, positions.stop).mask(n_labels)
            return structure.viterbi(structure.restrict(scores, allowed))[0]

        return np.concatenate(self.model.with_weights(weights).map_blocks(self.encoded, None, n_threads, complete))

    def expected(self, weights: Float, n_threads: int) -> Expected:
        """Feature counts expected under the labellings that the annotation leaves, given the weights so far."""
        from scipy.sparse import vstack

        corpus, features = self.encoded, self.model.features

        def left(chain: Chain, scores: Scores, positions: slice) -> Scores:
            allowed = self.gold.slice(positions.start, positions.stop).mask(len(self.model.states))
            return chain.restrict(scores, allowed)

        def count(chain: Chain, scores: Scores, positions: slice) -> tuple[Any, Float]:
            first = int(np.searchsorted(corpus.offsets, positions.start))
            run = first, first + chain.n_sequences
            return expected_sentence_counts(features, corpus, *run, left(chain, scores, positions))

        def sum_up(chain: Chain, scores: Scores, positions: slice) -> Float:
            return chain.log_partition(left(chain, scores, positions))

        counts, tilted = zip(*self.model.with_weights(weights).map_blocks(corpus, None, n_threads, count), strict=True)
        untilted = self.model.with_weights(0.0 * weights).map_blocks(corpus, None, n_threads, sum_up)
        return Expected.of(vstack(counts, format="csr"), weights, np.concatenate(tilted), np.concatenate(untilted))

    def scaling_objective(self, weights: Float, n_threads: int) -> AnyObjective:
        """Loss of the chain as a whole as a function of factors [Y + 1] of the pieces after each label."""
        model, likelihood = self.model.with_weights(weights), make_criterion("cll")
        ones = np.ones(self.encoded.n_sequences)
        weight = ones if self.sequence_weights is None else self.sequence_weights

        def objective(alpha: Float) -> tuple[float, Float]:
            def evaluate(chain: Chain, scores: Scores, positions: slice) -> tuple[float, Float]:
                if isinstance(scores, ListedScores):  # a factor for each label leaves no transition without a score
                    chain, scores = Chain(chain.offsets), scores.over_matrix()
                gold = self.gold.slice(positions.start, positions.stop)
                first = int(np.searchsorted(self.encoded.offsets, positions.start))
                losses, parts = likelihood.evaluate(
                    chain, scaled(chain, scores, alpha), gold, weight[first : first + chain.n_sequences]
                )
                return float(losses.sum()), scaling_gradient(chain, scores, alpha, parts)

            values, gradients = zip(*model.map_blocks(self.encoded, None, n_threads, evaluate), strict=True)
            return sum(values), np.sum(gradients, axis=0)

        return objective

    def objective(
        self, criterion: Criterion, l2: float, n_threads: int, single_precision: bool = False
    ) -> Objective | MEstimationObjective:
        """Losses by ``criterion`` and the L2 penalty as a function of the weights."""
        model = self.model
        if isinstance(criterion, MEstimation):
            counts = model.counts(self.encoded, self.gold.labels)
            objective = MEstimationObjective(counts, self.base_counts(counts, n_threads), l2, self.sequence_weights)
            return objective.by(criterion)
        losses = Objective(
            model.features, self.encoded, self.gold, criterion, model.penalties, l2, self.sequence_weights, n_threads,
            single_precision,
        )  # fmt: skip
        if criterion.predicts_fields:
            losses.terms.append(self._field_likelihood(n_threads))
        return losses

    def base_counts(self, counts: Any, n_threads: int) -> Float:
        """E_q0[f] [D]; ``counts`` [S, D] are the features of the training data, which smooth sampled expectations."""
        model, base, weights = self.model, self.model.base, self.sequence_weights
        assert base is not None
        if self.sampling is None:
            return base.expected(model.encoder, model.features, self.encoded, weights, n_threads)
        threads = 1 if base.one_by_one else n_threads
        drawn = self.sampling.estimate(base.draw, model.encoder, model.features, threads).mean
        shares = np.ones(counts.shape[0]) if weights is None else weights
        return self.sampling.smoothed(drawn, counts.T @ (shares / shares.sum()))

    def _field_likelihood(self, n_threads: int) -> FieldLikelihood:
        encoder = self.model.encoder
        if not isinstance(encoder, TemplateEncoder) or not isinstance(self.corpus, Columns):
            raise OptionError(
                "pseudolikelihood:joint predicts columns of the data; give a template and columns, not ready features"
            )
        return FieldLikelihood(
            encoder, self.corpus, self.encoded, self.model.features, self.gold.labels, self.sequence_weights, n_threads,
            self.label_column,
        )  # fmt: skip

    def arrays(self) -> list[Array | None]:
        """All numbers that the result depends on."""
        gold, base = self.gold, self.model.base
        mark = None if base is None else base.mark(self.encoded, gold.labels)
        return [*self.encoded.arrays(), gold.labels, gold.allowed, gold.contexts, self.sequence_weights, mark]


# ----------------------------------------------------------------------------------------------------------------------
# From a corpus and its annotation to a training problem: attributes, features, constraints, a base if there is one.

BASE_ROUNDS, BASE_STEP_SMOOTHING = 20, 0.01  # of EM, for a base where labels are hidden


def prepared(
    options: Any,
    corpus: Corpus,
    annotation: Annotation,
    sample_weight: Any,
    label_column: int | None,
    known: SequenceModel | None = None,
    classes: Collection[str] = (),
) -> Problem:
    """The problem that a tagger with these ``options`` (its attributes) is to solve.

    ``sample_weight`` is a number for each sequence, or None; ``label_column`` is that of the corpus, None if the labels
    were given separately. The model has all labels, attributes and features of ``known``, and the labels ``classes``.
    """
    criterion = CRITERIA.part(options.criterion)
    weights = checked_weights(corpus, sample_weight)
    if corpus.dense is not None or options.vectors is not None:
        _check_dense(criterion, options.criterion)
    template = options.template if criterion.learns_weights else TemplateSet.parse("B\n")
    encoder = encoder_for(
        corpus, template, options.gazetteers or (), options.pair_features, label_column, options.hash_bits,
        all_gazetteers=options.structure == "chain", edge=options.edge or (),
    )  # fmt: skip
    if not criterion.learns_from_hidden() and not annotation.settled.all():
        message = f"criterion={options.criterion!r} needs one label for each token; cll takes partial ones"
        raise annotation.place(int(np.argmin(annotation.settled)), message)
    values = dict(CRITERIA.spec(options.criterion).values)
    if known is not None or classes:
        labels = sorted(annotation.label_names().union(() if known is None else known.labels, classes))
    else:
        labels = annotation.label_set() if criterion.learns_weights else label_names(annotation, values.get("labels"))
    if options.structure == ChainModel.structure_name:
        check_size(len(labels) * options.sub_labels, options.order, has_edges=False)  # before anything large is made
    gold = annotation.gold(labels)
    label_counts = mapped.counts(gold.labels, len(labels))
    weights = class_weighted(options.class_weight, gold, labels, corpus.offsets, weights)
    base, sampling = None, None
    if criterion.uses_base:
        hidden = criterion.learns_weights and (gold.allowed is not None or options.sub_labels > 1)
        if hidden:
            base, corpus = _hidden_base(options, corpus, annotation, weights, label_column)
        else:
            base, sampling, corpus = _fitted_base(options, corpus, gold, labels, label_column, weights)
    transitions = _transitions(options, encoder) if criterion.learns_weights else "none"
    data = TrainingData(options, corpus, encoder, gold, labels, transitions, bool(values.get("input_only")), known)
    model, encoded, gold = model_class(options.structure).collect(data)
    if options.min_freq:
        model, encoded = _frequent(options.min_freq, model, encoded, gold, corpus, known)
    if decoded_locally(options.criterion):
        model = replace(model, local=True)  # type: ignore[call-arg]  # criteria of pieces are for chains
    if base is not None:
        encoded, model = base.attach(encoded, corpus), replace(model, base=base)  # type: ignore[call-arg]  # as are bases
    if isinstance(base, OwnBase):
        base.check(encoded, gold.labels)
    problem = Problem(model, encoded, gold, weights, label_counts, corpus, label_column, sampling)
    return problem.marked_for(problem.criterion(options.criterion, options.cost), options.seed)


def _check_dense(criterion: Any, name: str) -> None:
    """Refuse dense features for criteria that ask how probable features are."""
    joint = dict(CRITERIA.spec(name).values).get("joint") or "joint" in name
    if criterion.uses_base or not criterion.learns_weights or joint:
        raise OptionError(
            f"criterion={name!r} models the tokens themselves and cannot take dense features; criteria of labels given "
            "tokens can: cll, softmax-margin, max-margin, memm, perceptron and others"
        )


def class_weighted(
    class_weight: Any, gold: Gold, labels: list[str], offsets: Int64, weights: Float | None
) -> Float | None:
    """The weight of each sequence's loss [S], times what the labels of its tokens weigh on average.

        w_s  <-  w_s / T_s  sum_t c(Y_t)            c(Y) = mean of c(y) over the labels y that the annotation leaves

    c(y) is what ``class_weight`` gives the label, 1 for a label that it does not name; ``balanced`` is
    c(y) = N / (K n_y) with the weighted counts n_y of the K labels that occur, and N their sum.
    """
    if class_weight is None:
        return weights
    lengths = np.diff(offsets)
    own = np.ones(len(lengths)) if weights is None else weights
    settled = gold.labels >= 0
    if class_weight == "balanced":
        counts = np.bincount(gold.labels[settled], np.repeat(own, lengths)[settled], len(labels))
        n_met = max(1, np.count_nonzero(counts))
        each = np.where(counts > 0.0, counts.sum() / (n_met * np.where(counts > 0.0, counts, 1.0)), 1.0)
    else:
        given = read_class_weight(class_weight)
        if unknown := sorted(set(given) - set(labels)):
            raise OptionError(
                f"class_weight: {unknown[0]!r} is not a label of the training data; there are {', '.join(labels)}"
            )
        each = np.array([given.get(label, 1.0) for label in labels])
    tokens = each[gold.labels]
    if gold.allowed is not None:
        hidden = np.flatnonzero(~settled)
        allowed = gold.allowed[hidden].astype(np.float64)
        tokens[hidden] = allowed @ each / np.maximum(1.0, allowed.sum(axis=1))
    return example_weights(own * np.add.reduceat(tokens, offsets[:-1]) / lengths, len(lengths))


def _frequent(
    least: float, model: SequenceModel, encoded: Any, gold: Gold, corpus: Corpus, known: SequenceModel | None
) -> tuple[SequenceModel, Any]:
    """The model with the features whose values add up to ``least`` in the annotated corpus, and those of ``known``."""
    if gold.allowed is not None:
        raise OptionError(
            f"min_freq={least:g} counts features with their labels, so that every token needs one label (no partial "
            "labels, no sub_labels); min_count counts attributes alone"
        )
    counts = np.asarray(model.counts(encoded, gold.labels).sum(axis=0), dtype=np.float64).ravel()
    kept = counts >= least
    if known is not None and isinstance(model, ChainModel):
        kept |= model.shared_with(known)
    if not kept.any():
        raise OptionError(f"min_freq={least:g} leaves no feature; the most frequent one occurs {counts.max():g} times")
    model = model.keeping(kept)
    return model, model.encode(corpus)


def check_emitted(corpus: Any, what: str) -> None:
    """Refuse ready-made features as the data of a model that emits columns; ``what`` asks for one."""
    if isinstance(corpus, Attributes):
        raise OptionError(f"{corpus.name}: {what} is a model of columns, but the data is ready-made features")


def _fitted_base(
    options: Any, corpus: Corpus, gold: Gold, labels: list[str], label_column: int | None, weights: Float | None
) -> tuple[Base, Sampling | None, Corpus]:
    """The generative base, how its expectations are drawn (None: exact), and the corpus as it is to be seen."""
    columns = None
    if isinstance(corpus, Columns):
        columns = [c for c in range(corpus.n_columns) if label_column is None or c != label_column % corpus.n_columns]
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


def _hidden_base(
    options: Any, corpus: Corpus, annotation: Annotation, weights: Float | None, label_column: int | None
) -> tuple[Base, Corpus]:
    """The base of data with hidden labels, and the corpus as it is to be seen."""
    kind = options.base or "hmm"
    if kind not in BASES:
        raise OptionError(
            f"base={kind!r:.60}: where labels are hidden (partial labels, sub-labels) the base is found from the data: "
            f"{', '.join(BASES)}, with exact expectations"
        )
    soft = dict(CRITERIA.spec(options.criterion).values).get("em") == "soft"
    if kind == "locally-uniform" and not soft:
        raise OptionError(
            "base='locally-uniform' prefers no labelling, so that there is no best one to take for hidden labels; "
            "m-estimation:em=soft takes all of them"
        )
    smoothing, step_smoothing = _smoothing(options)
    step_smoothing = step_smoothing or BASE_STEP_SMOOTHING
    spec = f"hmm:smoothing={smoothing!r},transition_smoothing={step_smoothing!r},rounds={BASE_ROUNDS}"
    unused = ("base", "optimizer", "template", "gazetteers", "l2", "variance")
    hmm_options = clone(options).set_params(
        criterion=spec, cost=None, l1=0.0, min_count=1, pair_features=False, edge=None, **dict.fromkeys(unused)
    )
    problem = prepared(hmm_options, corpus, annotation, weights, label_column)
    hmm = problem.criterion(spec)
    assert isinstance(hmm, HiddenMarkov)
    training = HmmTraining(problem, options.seed, thread_count(options.threads), hmm=hmm)
    if kind == "locally-uniform":
        return _uniform_base(problem, smoothing), problem.corpus
    return replace(training.base_by_em(), kind=kind), problem.corpus


def _uniform_base(problem: Problem, smoothing: float) -> HmmBase:
    """Uniform over what the constraints let follow a label, with one distribution of values for all labels."""
    base, rules, y = problem.model.hmm_base, problem.model.penalties, len(problem.model.states)
    transitions, starts, ends = map(np.isfinite, (rules.transition, rules.start, rules.stop))
    steps = possible_steps(transitions, starts, ends, 1)
    times = None
    if problem.sequence_weights is not None:
        times = np.repeat(problem.sequence_weights, np.diff(problem.encoded.offsets))
    emissions = [
        np.tile(np.bincount(field, times, minlength=len(values)).astype(np.float64), (y, 1))
        for field, values in zip(problem.encoded.fields, base.vocabulary.values, strict=True)
    ]
    counts = Counts(1, y, steps.astype(np.float64), emissions)
    return HmmBase("locally-uniform", base.vocabulary, HiddenMarkovModel.estimated(counts, smoothing))


def _smoothing(options: Any) -> tuple[float, float]:
    """What the base adds to the counts of values, and of steps."""
    values = dict(CRITERIA.spec(options.criterion).values)
    return values.get("smoothing", 1.0), values.get("transition_smoothing", 0.0)


def _transitions(options: Any, encoder: Encoder) -> str:
    """As asked; none if a template has no ``B`` line, as in CRF++."""
    if not isinstance(encoder, TemplateEncoder) or encoder.templates.has_label_bigram:
        return "observed" if options.transitions == OBSERVED_ONLY else options.transitions
    if options.transitions == "all" or options.order > 1:
        asked = "transitions='all'" if options.transitions == "all" else f"order={options.order}"
        raise OptionError(f"{asked} needs label bigrams, but the template has no B line; add a line that says B")
    return "none"
