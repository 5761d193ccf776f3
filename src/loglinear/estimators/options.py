"""The options of every estimator, declared once (:mod:`loglinear.options`).

They are the parameters of the estimators' constructors, the options of the command line and the record in model files.
Nothing heavy is imported here: ``--help`` reads these classes.

    ThreadOptions               threads
      RunOptions                seed, verbose
        TrainingOptions         what every iterative training has: criterion, cost, optimizer, penalties, when to stop
          TaggerOptions, ClassifierOptions, DependencyOptions, ParserOptions
        HMMOptions
      CombinationOptions
    MixtureOptions, LeastSquaresOptions, RidgeOptions, LocalTaggerOptions, NaiveBayesOptions

Constructors take ``criterion`` by position, or what else comes first; all others by keyword only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from loglinear.errors import OptionError
from loglinear.options import (
    READ,
    READ_JSON,
    READ_TEMPLATE,
    Option,
    check,
    declared,
    option,
    options,
    spec_name,
    spec_options,
)
from loglinear.wording import how_many

# Headings of --help.
DEV, FEATURES, MODEL, RUN = "Dev data (early stopping)", "Features", "The model", "The run"

PAIRS_ONLY, OBSERVED_ONLY = "only", "observed-only"  # values of pair_features and transitions
STRUCTURES = (CHAIN, SEGMENTS) = ("chain", "segments")
TUNED_BY = ("cll", "softmax-margin", "risk", "jrb", "mert")  # criteria that the weights of a combination are found by
PRECISIONS = ("float64", "float32", "float16")
BIASES = ("free", "penalised", "none")
DIRECT, ONE_VERSUS_ALL = "direct", "one-versus-all"
M_ESTIMATION, LEAST_SQUARES, NAIVE_BAYES = "m-estimation", "least-squares", "naive-bayes"
GENERATIVE = "generative"  # dependency parsers that are counted
WITH_KERNELS = ("cll", LEAST_SQUARES, M_ESTIMATION, "max-margin", "softmax-margin")  # criteria of kernels
COEFFICIENTS_BY = ("dual", "lbfgs", "newton")  # optimizers of kernels
DRAWS = 10_000  # of a base, for the expectations of kernels
ELSEWHERE = {
    **dict.fromkeys(("pcfg", "pcfg-em", "mecfg"), "phrase parsers (on trees in brackets)"),
    GENERATIVE: "dependency parsers",
    NAIVE_BAYES: "classifiers",
}  #: criteria that one kind of estimator alone has, and what they train
ANNOTATIONS = ("none", "parent", "rich")
FACTORS = ("head", "right", "left")
HMM_COMPONENTS = "hmm"
KINDS = ("gaussian", "multinomial", NAIVE_BAYES, HMM_COMPONENTS)  # of components of a mixture
COVARIANCES = ("known", "spherical", "diagonal", "tied", "full")
COVARIANCE, VARIANCE, FLOOR = "diagonal", 1.0, 1e-6  # of Gaussians, by default
STARTS = ("k-means++", "random")
CHOOSE_BY = BIC, AIC, HELD_OUT = "bic", "aic", "held-out"  # what the number of components is chosen by
SOLVERS = ("auto", "closed-form", "conjugate-gradients")
GAUSSIAN_ONLY = ("covariance", "variance", "floor")
MOST_SMOOTHING = 1e6  # beside which counts hardly count
OF_HMM_COMPONENTS = (
    Option("states", None, "how many states to find; those of the label column if not given", least=1, kind=int),
    Option("order", 1, "how many states back a state depends on", choices=(1, 2), kind=int),
    Option("transition_smoothing", 0.1, "added to each count of a step", least=0, most=MOST_SMOOTHING, kind=float),
)  #: what a spec such as hmm:states=4 may say
OF_TABLES = ("kinds", "text", "min_count")


@options
class ThreadOptions:
    """How many threads there are."""

    threads: int | None = option(
        "threads (all cores if not given); the result is the same for any number",
        default=None,
        least=1,
        panel=RUN,
        varies=True,
        stored=False,
    )


@options
class RunOptions(ThreadOptions):
    """How a training runs, whatever it trains."""

    seed: int = option("seed of all that is random", default=0, least=0, panel=RUN)
    verbose: bool = option(
        "print a line for each iteration", default=False, panel=RUN, varies=True, stored=False, python_only=True
    )


@options
class TrainingOptions(RunOptions):
    """What every iterative training of weights has."""

    criterion: str = option(
        "what training minimises, with its options, as in mira:k=5", default="cll", panel=MODEL, kw_only=False
    )
    cost: Any = option(
        "how bad which mistake is: hamming:M, recall:K, precision:K, balanced or FILE.json",
        default=None,
        panel=MODEL,
        in_python="A mapping {(gold, predicted): cost}, a matrix over classes_ or a function cost(gold, predicted, "
        "kind), too (loglinear.criteria.costs), for taggers with risk:k=50 also one of two labellings, "
        "cost(gold, predicted); None is hamming:1.",
        file=READ_JSON,
    )
    optimizer: str | None = option(
        "how the weights are found, as in sgd:step=0.1,average; the criterion's by default", default=None, panel=RUN
    )
    l1: float = option("factor of the sum of |w|: drives weights to exactly zero", default=0.0, least=0, panel=MODEL)
    l2: float | None = option(
        "factor of the sum of w^2 (1 if neither l2 nor variance is given)", default=None, least=0, panel=MODEL
    )
    variance: float | None = option(
        "variance c of a Gaussian prior on the weights: l2 = 1 / 2c", default=None, least=0, panel=MODEL
    )
    max_iter: int | None = option(
        "most iterations, or passes over the data (lbfgs and dual 1000, sgd and adagrad 50, online 20)",
        default=None,
        least=0,
        panel=RUN,
        varies=True,
    )
    tolerance: float = option(
        "stop when 10 iterations of lbfgs lower the objective by less than this share, or dual has primal and dual "
        "within a multiple of that, which the message says",
        default=1e-5,
        least=0,
        panel=RUN,
    )
    patience: int = option("stop after this many iterations without a better dev score", default=20, least=1, panel=DEV)


@options
class TaggerOptions(TrainingOptions):
    """Options of :class:`~loglinear.Tagger`."""

    base: Any = option(
        "for m-estimation, the generative model it starts from: hmm (the default), locally-uniform or empirical; "
        "hmm:samples=100000 draws for its expectations",
        default=None,
        panel=MODEL,
        in_python="Or a distribution of your own, with log_prob(x, y) and sample(n, rng) (loglinear.generative.base).",
    )
    template: Any = option(
        "template file, or a named set: chunking, pos, ner, words",
        default=None,
        panel=FEATURES,
        metavar="FILE|NAME",
        stored=False,
        in_python="The text of a template or a TemplateSet, too. None: tokens come as features.",
        file=READ_TEMPLATE,
    )
    structure: str = option(
        "chain (label tokens) or segments (label spans; semi-Markov)",
        default=CHAIN,
        choices=STRUCTURES,
        panel=MODEL,
    )
    max_length: Any = option(
        "longest segments, in tokens, as a number or for each label, as in PER=4,ORG=8 (the longest of the training "
        "data by default)",
        default=None,
        panel=MODEL,
        metavar="N|LABEL=N,...",
        in_python="A mapping from segment labels to lengths, too.",
    )
    segment_features: str | None = option(
        "what a segment is looked at by, joined by +: string, shape, first, last, prefix, suffix, gazetteer, length "
        "(all by default)",
        default=None,
        panel=FEATURES,
    )
    order: int = option("how many labels back a label depends on", default=1, choices=(1, 2, 3), panel=MODEL)
    sub_labels: int = option("hidden states that each label is split into", default=1, least=1, most=32, panel=MODEL)
    min_count: int = option("leave out attributes seen fewer times in training", default=1, least=1, panel=FEATURES)
    min_freq: float = option(
        "leave out features, pairs of an attribute and a label and label n-grams, whose values in training add up to "
        "less",
        default=0.0,
        least=0,
        panel=FEATURES,
    )
    hash_bits: int | None = option(
        "hash the attributes into 2 to this many buckets, so that no list of them is kept (8 to 26)",
        default=None,
        least=8,
        most=26,
        panel=FEATURES,
    )
    states: str = option(
        "which (attribute, label) pairs get a weight: observed ones, all, or (probable:0.2, probable:0.2,after=10) "
        "observed ones and, after some iterations, those more probable than that under the model so far",
        default="observed",
        panel=FEATURES,
        metavar="observed|all|probable:P",
    )
    transitions: str = option(
        "which label bigrams get a weight; observed-only: the others are impossible",
        default="observed",
        choices=("observed", "all", "none", OBSERVED_ONLY),
        panel=FEATURES,
    )
    pair_features: bool | str = option(
        "join every attribute with the label pair, too, or (only) with the pair alone; that of a first token is of the "
        "start and its label",
        default=False,
        words=(PAIRS_ONLY,),
        panel=FEATURES,
        metavar="[only]",
    )
    edge: Any = option(
        "features by name that are joined with the label pair, too, whatever their value (data of ready-made features)",
        default=None,
        panel=FEATURES,
        metavar="NAME",
        repeats=True,
        in_python="A list of names, such as the keys of dicts.",
    )
    prune: float | None = option(
        "share of the weights to leave out of the trained model, the smallest first",
        default=None,
        above=0,
        most=1,
        panel=MODEL,
        varies=True,
    )
    precision: str = option(
        "numbers that the trained weights are kept as, also in the model file",
        default="float32",
        choices=PRECISIONS,
        panel=MODEL,
        varies=True,
    )
    constraints: Any = option(
        "labellings ruled out: bio, iob1, bioes, bilou, or your own",
        default=None,
        panel=MODEL,
        metavar="NAME|FILE.json",
        stored=False,
        in_python="A Constraints object or a dict.",
        file=READ_JSON,
    )
    gazetteers: Any = option(
        "lists of known names, an entry a line, for the template to look at",
        default=None,
        panel=FEATURES,
        metavar="FILE",
        flags=("--gazetteer",),
        repeats=True,
        stored=False,
        in_python="Gazetteer objects or paths; the named sets look at all of them.",
        file=READ,
    )
    vectors: Any = option(
        "word vectors of the first column, in a text file of word2vec, GloVe or fastText; the model keeps them",
        default=None,
        panel=FEATURES,
        metavar="FILE",
        stored=False,
        in_python="WordVectors or a path.",
        file=READ,
    )
    standardise: bool = option(
        "give dense features the mean 0 and the deviation 1 of the training data; the model keeps both",
        default=True,
        panel=FEATURES,
    )
    class_weight: Any = option(
        "weight of labels: balanced, or a number for some, as in PER=5,O=0.5; a sequence weighs as much as its tokens "
        "on average",
        default=None,
        panel=MODEL,
        metavar="balanced|LABEL=W,...",
        in_python="A mapping from labels to numbers, too.",
    )
    metric: str = option(
        "what the dev data is judged by",
        default="auto",
        choices=("auto", "f1", "accuracy"),
        panel=DEV,
        in_python="auto is chunk F1 if the labels are those of chunks.",
    )


@options
class ClassifierOptions(TrainingOptions):
    """Options of :class:`~loglinear.Classifier`."""

    base: Any = option(
        f"for {M_ESTIMATION}, the generative model it starts from: {NAIVE_BAYES} (the default); with a kernel, "
        f"{NAIVE_BAYES}:samples={DRAWS} says how many rows are drawn for expectations",
        default=None,
        panel=MODEL,
        in_python="Or a model of your own with scores(X) [S, Y], expected() [A, Y], the expected count of each column "
        "together with each label, and, for a bias to be learnt, log_prior [Y]; with a kernel sample(n, rng), rows and "
        "numbers of their labels, in place of expected.",
    )
    kernel: Any = option(
        "scores that are sums of kernels with training rows instead of columns: rbf, poly or linear, as in "
        "rbf:gamma=0.5 or poly:degree=2,coef0=1",
        default=None,
        panel=MODEL,
        in_python="Or a function of your own from rows [S, A] and others [T, A] to numbers [S, T].",
    )
    template: Any = option(
        "what the features of rows of columns are; those of all rows of an example are added up",
        default=None,
        panel=FEATURES,
        stored=False,
        python_only=True,
        file=READ_TEMPLATE,
    )
    features: Any = option(
        "function from an example to its features: names, or a dict",
        default=None,
        stored=False,
        varies=True,
        python_only=True,
    )
    feature_map: Any = option(
        "function from an example and a label to the features of both, z(x, y) of (9.12)",
        default=None,
        stored=False,
        varies=True,
        python_only=True,
    )
    candidates: Any = option(
        "with feature_map, function from an example to the labels it may have; all if not given",
        default=None,
        stored=False,
        varies=True,
        python_only=True,
    )
    text: str = option(
        "how texts are cut and counted: words, tokens or characters, as in words:ngrams=2",
        default="words",
        panel=FEATURES,
        flags=("--words",),
    )
    kinds: Any = option(
        "what the columns of a table are, by name: number, category or text; the others are looked at",
        default=None,
        panel=FEATURES,
        python_only=True,
    )
    raw_numbers: bool = option("leave the numbers of tables as they are", default=False, panel=FEATURES)
    multiclass: str = option(
        "all labels at once, or each against the rest", default=DIRECT, choices=(DIRECT, ONE_VERSUS_ALL), panel=MODEL
    )
    bias: str = option(
        "whether each label has a bias, and a penalty on it", default="free", choices=BIASES, panel=MODEL
    )
    bias_scale: float = option("the constant that a penalised bias is the weight of", default=1.0, above=0, panel=MODEL)
    min_count: int = option(
        "leave out words, names and attributes seen fewer times in training", default=1, least=1, panel=FEATURES
    )
    class_weight: Any = option(
        "weight of the examples of each label: balanced, or a number for some, as in spam=5,ham=0.5",
        default=None,
        panel=MODEL,
        metavar="balanced|LABEL=W,...",
        in_python="A mapping from labels to numbers, too.",
    )


@options
class DependencyOptions(TrainingOptions):
    """Options of :class:`~loglinear.DependencyParser`."""

    criterion: str = option(
        "what training minimises, with its options: generative, m-estimation, cll, ...",
        default="mira",
        panel=MODEL,
        kw_only=False,
    )
    cost: Any = option("how bad a wrong head is: hamming:M", default=None, panel=MODEL, file=READ_JSON)
    variance: float | None = option(
        "variance c of a Gaussian prior: l2 = 1 / 2c (m-estimation: 3)", default=None, least=0, panel=MODEL
    )
    max_iter: int | None = option(
        "most iterations, or passes over the data (lbfgs 1000, others 10)",
        default=None,
        least=0,
        panel=RUN,
        varies=True,
    )
    tolerance: float = option(
        "stop when an objective changes by less than this share of it", default=1e-4, least=0, panel=RUN
    )
    patience: int = option("stop after this many iterations without a better dev score", default=10, least=1, panel=DEV)
    projective: bool = option("whether arcs may not cross", default=True, panel=MODEL)
    single_root: bool = option("whether a tree has exactly one root", default=True, panel=MODEL)
    relations: bool = option("learn relations, where the data has some", default=True, panel=MODEL)
    tags: str = option("the column of tags", default="auto", choices=("auto", "xpos", "upos"), panel=FEATURES)
    base: str | None = option(
        "of generative and m-estimation, as in head-outward:words=no,samples=100000", default=None, panel=MODEL
    )
    features: str = option(
        "features of the trees of training, or of all arcs",
        default="observed",
        choices=("observed", "all"),
        panel=FEATURES,
    )
    min_count: int = option("leave out features seen fewer times in these", default=1, least=1, panel=FEATURES)
    max_length: int = option("leave out longer sentences from training", default=250, least=1, most=2000, panel=RUN)
    parse_length: int = option(
        "longest sentence that is parsed; a longer one gets a chain",
        default=1000,
        least=1,
        most=2000,
        panel=MODEL,
        varies=True,
    )


@options
class ParserOptions(TrainingOptions):
    """Options of :class:`~loglinear.Parser`."""

    criterion: str = option(
        "how the grammar is trained, with its options, as in pcfg:smoothing=0.1",
        default="pcfg",
        panel=MODEL,
        kw_only=False,
    )
    cost: Any = option("how bad a wrong bracket is: hamming:M", default=None, panel=MODEL, file=READ_JSON)
    max_iter: int | None = option(
        "most iterations, or passes over the trees (lbfgs and EM 50, of edge by edge and m-estimation 100, others 10)",
        default=None,
        least=0,
        panel=RUN,
        varies=True,
    )
    annotation: str | None = option(
        "what labels are split by: rich (kinds of phrases and words, the default), parent (the default if vertical is "
        "given) or none",
        default=None,
        choices=ANNOTATIONS,
        panel=FEATURES,
    )
    vertical: int | None = option(
        "labels that a phrase knows, its own and its nearest ancestors': 1 none of these, 2 the parent's",
        default=None,
        least=1,
        panel=FEATURES,
    )
    horizontal: int | None = option(
        "siblings that a binary rule remembers, or all",
        default=2,
        least=0,
        panel=FEATURES,
        none_word="all",
        in_python="None is all.",
    )
    factor: str = option(
        "in which order a phrase's children come apart", default="head", choices=FACTORS, panel=FEATURES
    )
    marks: str = option(
        "characters that begin notes of your own in the labels of the trees, as ^- for NP^S-TMP",
        default="",
        panel=FEATURES,
    )
    function_tags: bool = option("keep what follows - or = in phrase labels", default=False, panel=FEATURES)
    max_length: int | None = option("leave out longer sentences from training", default=None, least=1, panel=RUN)
    time_limit: float | None = option(
        "seconds for a sentence, after which it gets a fallback tree", default=60.0, above=0, panel=MODEL, varies=True
    )
    beam: float | None = option(
        "how much worse than the best of its span a symbol may look (log) before the search drops it, or exact",
        default=10.0,
        above=0,
        panel=MODEL,
        varies=True,
        none_word="exact",
        in_python="None is exact.",
    )
    decoding: str = option(
        "which tree a sentence gets: the most probable, or the one of the brackets most likely to be right",
        default="viterbi",
        choices=("viterbi", "posterior"),
        panel=MODEL,
        varies=True,
    )
    span_features: Any = option(
        "function of the words, i and j that gives the names of more attributes of the words i to j - 1",
        default=None,
        stored=False,
        varies=True,
        python_only=True,
    )


@options
class HMMOptions(RunOptions):
    """Options of :class:`~loglinear.HMM`."""

    order: int = option("how many labels back a label depends on", default=1, choices=(1, 2), kw_only=False)
    labels: int | None = option("how many labels to find where none is known, named 0, 1, ...", default=None, least=1)
    smoothing: float = option("added to each count of a value with a label", default=1.0, least=0, most=MOST_SMOOTHING)
    transition_smoothing: float = option("added to each count of a step", default=0.0, least=0, most=MOST_SMOOTHING)
    restarts: int | None = option(
        "further starts of EM, the best of which is kept (none if some labels are known, else 4)", default=None, least=0
    )
    rounds: int = option("most rounds of EM from each start", default=100, least=0)
    tolerance: float = option(
        "EM ends when a round raises the objective by less than this share", default=1e-6, least=0
    )
    constraints: Any = option(
        "labellings ruled out: bio, iob1, bioes, bilou, or your own", default=None, file=READ_JSON
    )
    patience: int = option("end a start after this many rounds without a better dev score", default=20, least=1)


@options
class CombinationOptions(ThreadOptions):
    """Options of :class:`~loglinear.Combination`."""

    taggers: Any = option(
        "the trained models",
        default=(),
        kw_only=False,
        stored=False,
        python_only=True,
        in_python="A list of at least two Tagger or HMM objects, or their model files.",
    )
    weights: Any = option(
        "a weight for each model, separated by commas; tuned on dev data if not given",
        default=None,
        panel=MODEL,
        metavar="NUMBERS",
        in_python="A list of numbers.",
    )
    criterion: str = option(
        f"what tuning minimises: {', '.join(TUNED_BY)}", default=TUNED_BY[0], panel=MODEL, metavar="NAME"
    )
    cost: Any = option(
        "how bad which mistake is: hamming:M, recall:K, precision:K or FILE.json",
        default=None,
        panel=MODEL,
        in_python="With ``mert``, ``risk:k=50`` and ``softmax-margin:k=50`` also a function of two labellings.",
        file=READ_JSON,
    )
    l2: float = option("factor of the sum of squares of the weights", default=1.0, least=0, panel=MODEL)
    max_iter: int = option("most iterations", default=200, least=0, panel=RUN)
    tolerance: float = option(
        "stop when 10 iterations lower the objective by less than this share", default=1e-9, least=0, panel=RUN
    )
    seed: int = option("seed of all that is random", default=0, least=0, panel=RUN)


@options
class MixtureOptions:
    """Options of :class:`~loglinear.Mixture`."""

    n_components: int = option("how many components", default=2, least=1, kw_only=False, flags=("-k",))
    components: str = option(
        "what they are: gaussian of numbers, multinomial of counts (bags of words), naive-bayes of a table's columns "
        "of names and text, or hmm of sequences, as in hmm:states=4",
        default="gaussian",
        kw_only=False,
        metavar="NAME",
        in_python="hmm takes states (without it, states are known), order (1) and transition_smoothing (0.1).",
    )
    covariance: str | None = option(
        f"of Gaussians: known is the given variance, tied one for all; {COVARIANCE} by default",
        default=None,
        choices=COVARIANCES,
    )
    variance: float | None = option("of Gaussians with covariance known: sigma^2; 1 by default", default=None, above=0)
    smoothing: float | None = option(
        "of all but Gaussians, lambda of the Dirichlet prior (1 by default); of Gaussians, how many rows the prior of "
        "covariances is worth (0)",
        default=None,
        least=0,
    )
    floor: float | None = option(
        "of Gaussians, the least variance, as a share of the variance of all rows; 1e-6 by default",
        default=None,
        above=0,
    )
    start: Any = option("how the first centres are found: k-means++ or random", default=STARTS[0])
    restarts: int = option("further starts of EM, the best of which is kept", default=4, least=0)
    rounds: int = option("most rounds of EM from each start", default=300, least=0)
    tolerance: float = option("EM ends when a round raises the objective by less, per row", default=1e-6, least=0)
    seed: int = option("seed of the starts", default=0, least=0)
    patience: int = option("end a start after this many rounds without a better dev score", default=20, least=1)
    verbose: bool = option("print a line for each round", default=False, varies=True, stored=False, python_only=True)
    kinds: Any = option(
        "of naive-bayes, the kinds of a table's columns",
        default=None,
        python_only=True,
        in_python="A dict from column to category or text; those not in it are guessed.",
    )
    text: str = option(
        "of columns of text, how they are cut: words:ngrams=2, tokens or characters",
        default="words",
        flags=("--words",),
        in_python="For naive-bayes.",
    )
    min_count: int = option(
        "of tables, leave out words and values that occur fewer times",
        default=1,
        least=1,
        in_python="For naive-bayes.",
    )
    threads: int | None = option(
        "of hmm, threads (all cores if not given); the result is the same for any number",
        default=None,
        least=1,
        panel=RUN,
        varies=True,
        stored=False,
    )

    @property
    def family(self) -> str:
        """The kind of the components, without what a spec adds to it."""
        return spec_name(self.components)


@options
class LocalTaggerOptions:
    """Options of :class:`~loglinear.LocalTagger`."""

    classifier: Any = option("the scikit-learn classifier that labels tokens", kw_only=False, stored=False)
    template: Any = option(
        "template file, or a named set: chunking, pos, ner, words", default=None, stored=False, file=READ_TEMPLATE
    )
    min_count: int = option("leave out attributes seen fewer times in training", default=1, least=1)
    constraints: Any = option(
        "labellings ruled out: bio, iob1, bioes, bilou, or your own", default=None, stored=False, file=READ_JSON
    )
    gazetteers: Any = option(
        "lists of known names, an entry a line, for the template to look at",
        default=None,
        stored=False,
        file=READ,
    )
    joined: bool = option("join every attribute with the label before", default=False)
    dense: bool | None = option("give the classifier dense rows; as it wants by default", default=None)
    threads: int | None = option("threads (all cores if not given)", default=None, least=1, stored=False)


@options
class NaiveBayesOptions:
    """Options of :class:`~loglinear.NaiveBayes`."""

    smoothing: float = option("lambda of the Dirichlet prior, added to each count", default=1.0, above=0, kw_only=False)


@options
class LeastSquaresOptions:
    """Options of :class:`~loglinear.LeastSquares`."""

    bias: str = option("whether there is a bias, and a penalty on it", default="free", choices=BIASES)
    bias_scale: float = option("the constant that a penalised bias is the weight of", default=1.0, above=0)
    solver: str = option(
        "how the weights are found",
        default="auto",
        choices=SOLVERS,
        in_python="The closed form is the primal or, with more columns than rows, the dual. auto takes conjugate "
        "gradients for sparse rows of more than 2,000 in both directions.",
    )
    max_iter: int | None = option("most steps of conjugate gradients", default=None, least=1)
    tolerance: float = option("residual at which conjugate gradients end", default=1e-12, least=0)


@options
class RidgeOptions(LeastSquaresOptions):
    """Options of :class:`~loglinear.Ridge`."""

    l2: float = option("factor of the sum of w^2", default=1.0, least=0, kw_only=False)


# -- what goes together ------------------------------------------------------------------------------------------------
# Criteria, costs, optimizers and penalties are held against each other in :mod:`loglinear.training.plan`; here is what
# concerns one estimator's other options. Nothing is imported before a check is asked for.

BASED = "goes with criterion='m-estimation', not with"
COUNTED_PENALTIES = ("l1", "l2", "variance")
COUNTED_FEATURES = (
    "min_count",
    "min_freq",
    "states",
    "transitions",
    "pair_features",
    "edge",
    "hash_bits",
    "prune",
    "precision",
)


class Probable(NamedTuple):
    """Features that join those observed during training: ``states="probable:0.2,after=10"``.

    Parameters
    ----------
    threshold : float
        A pair is added if its label has a greater marginal probability at some token with the attribute.
    after : int
        Iterations after which they are added.
    """

    threshold: float
    after: int = 10

    @property
    def adds_some(self) -> bool:
        """Whether some probability may be greater than the threshold."""
        return self.threshold < 1.0

    def rest(self, max_iter: int) -> int:
        """How many of ``max_iter`` iterations are left to learn their weights; an error if none is."""
        if max_iter <= self.after:
            raise OptionError(
                f"max_iter={max_iter}: probable features are added after {how_many(self.after, 'iteration')}, which "
                "leaves none to learn their weights; allow more, or add them earlier: states='probable:0.2,after=3'"
            )
        return max_iter - self.after


def read_states(states: Any) -> Probable | None:
    """What ``states`` says of probable features; None for ``observed`` and ``all``, an error for anything else."""
    if states in ("observed", "all"):
        return None
    name, _, rest = str(states).partition(":")
    threshold, _, more = rest.partition(",")
    after = more.removeprefix("after=") if more else str(Probable(0.0).after)
    try:
        found = Probable(float(threshold), int(after))
    except ValueError:
        found = Probable(-1.0)
    if name != "probable" or not 0.0 <= found.threshold < math.inf or found.after < 1 or (more and after == more):
        raise OptionError(
            f"states={states!r:.60} is not one of observed, all, and probable:0.2 or probable:0.2,after=10 with a "
            "probability of at least 0 and a number of iterations of at least 1"
        )
    return found


def _changed(estimator: Any, *names: str) -> Iterator[tuple[str, Any]]:
    """Those of an estimator's options that are neither None nor at their default, with their values."""
    known = declared(type(estimator))
    for name in names:
        value, default = getattr(estimator, name), known[name].default
        if value is not None and (default is None or value != default):
            yield name, value


def check_tagger(tagger: Any) -> None:
    """Refuse options of a :class:`~loglinear.Tagger` that make no sense each by itself, as a model file's may."""
    check(tagger)
    read_states(tagger.states)
    if tagger.prune is not None:
        kept_of(1, tagger.prune)
    names = tagger.edge or ()
    if not isinstance(names, list | tuple | set) or not all(isinstance(name, str) and name for name in names):
        raise OptionError(f"edge={tagger.edge!r:.60} is not a list of names of features")


def check_tagger_training(tagger: Any) -> None:
    """Refuse a :class:`~loglinear.Tagger` whose options make no sense, or do not fit together."""
    from loglinear.criteria.criterion import CRITERIA
    from loglinear.generative.base import OwnBase, is_own, read_base
    from loglinear.training.plan import check_criterion, check_optimizer

    check_tagger(tagger)
    if tagger.edge and tagger.pair_features:
        raise OptionError(f"pair_features={tagger.pair_features!r} joins all features with label pairs; leave out edge")
    check_class_weight(tagger.class_weight)
    trained = tagger_training(tagger.structure)
    check_criterion(tagger, trained)
    _check_segments(tagger)
    criterion, given = CRITERIA.part(tagger.criterion), CRITERIA.spec(tagger.criterion)
    if not criterion.learns_weights:
        _check_counted(tagger, criterion.name)
    if tagger.base is not None and criterion.name != M_ESTIMATION:
        raise OptionError(f"base={tagger.base!r:.60} {BASED} {criterion.name!r}")
    if is_own(tagger.base):
        OwnBase.of(tagger.base)
    elif tagger.base is not None:
        read_base(tagger.base)
    probable = read_states(tagger.states)
    if probable is not None and probable.adds_some and tagger.max_iter is not None:
        probable.rest(tagger.max_iter)
    if tagger.order == 3:
        _check_third_order(tagger, criterion, bool(given["nota"]))
    if tagger.sub_labels > 1 and not criterion.learns_from_hidden():
        able = ", ".join(other for other, each in CRITERIA.all().items() if each.learns_from_hidden())
        raise OptionError(
            f"sub_labels={tagger.sub_labels}: which sub-label is right is not known, and criterion={criterion.name!r} "
            f"needs one label for each token; those that do not are {able}"
        )
    if tagger.hash_bits is not None:
        _check_hashed(tagger, criterion.uses_base, bool(given["joint"]))
    if tagger.pair_features == PAIRS_ONLY and (criterion.uses_base or given["joint"]):
        what = "has a base model" if criterion.uses_base else "predicts columns"
        raise OptionError(
            f"pair_features={PAIRS_ONLY!r}: criterion={tagger.criterion!r} {what}, and expects the same "
            "features of every token, but first tokens have their own here; use pair_features=True"
        )
    if given["joint"] and tagger.optimizer is not None and spec_name(tagger.optimizer) != "lbfgs":
        raise OptionError(
            f"criterion={tagger.criterion!r} is trained by lbfgs alone: {spec_name(tagger.optimizer)} goes sequence by "
            "sequence, and the likelihood of the columns does not"
        )
    check_optimizer(tagger, trained)


def forbids_unseen(tagger: Any) -> bool:
    """Whether label pairs that never occur in training are impossible.

    By ``transitions="observed-only"``, and by default for criteria of pieces with features per source state.
    """
    from loglinear.criteria.criterion import CRITERIA

    by_default = tagger.pair_features == PAIRS_ONLY and CRITERIA.part(tagger.criterion).seen_pairs_only
    return tagger.transitions == OBSERVED_ONLY or (tagger.transitions == "observed" and by_default)


def tagger_training(structure: str) -> Any:
    """What criteria and optimizers must know of taggers of a structure."""
    from loglinear.structures.chain.structure import Chain
    from loglinear.training.plan import Trained

    if structure == CHAIN:
        return Trained("tagger", "chains of labels", Chain, pieces=True, elsewhere=ELSEWHERE)
    from loglinear.structures.segments.structure import Segments

    limited = {"dual": ("cll", "softmax-margin", "max-margin")}
    return Trained("tagger of segments", "segments", Segments, limited=limited, bases=False, elsewhere=ELSEWHERE)


CHAIN_ONLY = {
    "order": "a segment depends on one segment before it, not on several",
    "sub_labels": "segments have no hidden sub-labels",
    "pair_features": "segments have no features of pairs of labels",
    "edge": "segments have no features of pairs of labels",
    "vectors": "segments have no dense features",
}  #: options of chains, and why segments do not have them


def _check_segments(tagger: Any) -> None:
    """Refuse what only chains have for a tagger of segments, and the other way round."""
    if tagger.structure == CHAIN:
        for name, value in _changed(tagger, "max_length", "segment_features"):
            raise OptionError(f"{name}={value!r:.60} goes with structure={SEGMENTS!r}: a chain labels single tokens")
        return
    if tagger.transitions == OBSERVED_ONLY:
        raise OptionError(f"transitions={OBSERVED_ONLY!r} goes with structure={CHAIN!r}; give constraints")
    if read_states(tagger.states) is not None:
        raise OptionError(f"states={tagger.states!r} goes with structure={CHAIN!r}; use observed or all")
    for name, value in _changed(tagger, *CHAIN_ONLY):
        raise OptionError(f"{name}={value!r} goes with structure={CHAIN!r}: {CHAIN_ONLY[name]}")
    from loglinear.features.segments import read_kinds

    if tagger.segment_features is not None:
        read_kinds(tagger.segment_features)


def _check_counted(tagger: Any, name: str) -> None:
    """Refuse what is about features and weights for a model that has none."""
    for other, value in _changed(tagger, "max_iter", "tolerance"):
        raise OptionError(
            f"{other}={value!r}: criterion={name!r} has no weights to optimise; where labels are hidden, "
            f"{name}:{'rounds' if other == 'max_iter' else other}={value!r} says when EM ends"
        )
    for other, value in _changed(tagger, "optimizer", "template", "gazetteers", *COUNTED_PENALTIES, *COUNTED_FEATURES):
        raise OptionError(f"{other}={value!r:.40}: criterion={name!r} is counted, and has no features or weights")


def _check_third_order(tagger: Any, criterion: Any, any_neighbours: bool) -> None:
    """Refuse what goes up to order 2."""
    reason = None
    if criterion.uses_base:
        reason = "is, or has as its base, a hidden Markov model, and these are of order 1 or 2"
    elif any_neighbours:
        reason = "sums over all neighbours of a token, and six labels around it are too many"
    if reason is not None:
        raise OptionError(f"order=3: criterion={tagger.criterion!r} {reason}; use order=2")


def _check_hashed(tagger: Any, uses_base: bool, joint: bool) -> None:
    """Refuse what needs to know which attributes there are."""
    reason = None
    if tagger.min_count > 1:
        reason = f"min_count={tagger.min_count} counts attributes, which are not kept; prune=0.5 leaves out weights"
    elif uses_base:
        reason = f"criterion={tagger.criterion!r} has a base model that must know what each attribute looks at"
    elif joint:
        reason = f"criterion={tagger.criterion!r} predicts columns, and must know which attributes a value would make"
    if reason is not None:
        raise OptionError(f"hash_bits={tagger.hash_bits}: {reason}")


def kept_of(n_weights: int, share: float | None, keep: int | None = None) -> int:
    """Number of weights to keep (at least one), from the share to drop or the number to keep."""
    if (share is None) == (keep is None):
        raise OptionError(f"share={share!r} and keep={keep!r} are two ways to say how much to prune; give one of both")
    if keep is not None:
        Option("keep", None, "", least=1, kind=int).check(keep)
        return keep
    if share is None or not 0.0 < share < 1.0:
        raise OptionError(f"a share of {share!r} of the weights cannot be left out; give a number between 0 and 1")
    return max(1, n_weights - round(share * n_weights))


BALANCED = "balanced"


def check_class_weight(given: Any) -> None:
    """Refuse weights of labels that are neither ``balanced`` nor numbers from 0 up."""
    if given is not None and given != BALANCED:
        read_class_weight(given)


def read_class_weight(given: Any) -> dict[Any, float]:
    """The weights of labels, from a mapping or from text such as ``PER=5,O=0.5``."""
    pairs = list(given.items()) if isinstance(given, Mapping) else []
    if isinstance(given, str):
        for part in given.split(","):
            label, equals, number = part.rpartition("=")
            if not equals:
                raise OptionError(
                    f"class_weight={given!r:.60} is not 'balanced', and {part!r:.40} is not LABEL=WEIGHT, as in PER=5"
                )
            pairs.append((label.strip(), number.strip()))
    elif not isinstance(given, Mapping):
        raise OptionError(f"class_weight={given!r:.60} is not 'balanced' or a dict from labels to numbers")
    weights: dict[Any, float] = {}
    for label, number in pairs:
        try:
            weight = float(number)
        except (TypeError, ValueError):
            weight = math.nan
        if not 0.0 <= weight < math.inf:
            raise OptionError(f"class_weight: the weight of {label!r} is {number!r:.40}, not a number from 0 up")
        if label in weights:
            raise OptionError(f"class_weight={given!r:.60} names {label!r} twice")
        weights[label] = weight
    if not weights:
        raise OptionError(f"class_weight={given!r} names no label; leave it out, or write 'balanced'")
    return weights


def classifier_training() -> Any:
    """What criteria and optimizers must know of classifiers."""
    from loglinear.structures.flat.structure import Flat
    from loglinear.training.plan import Trained

    return Trained("classifier", "flat labels", Flat, (NAIVE_BAYES,), elsewhere=ELSEWHERE)


def check_classifier(classifier: Any) -> None:
    """Refuse a :class:`~loglinear.Classifier` whose options make no sense, or do not fit together."""
    from loglinear.criteria.criterion import CRITERIA
    from loglinear.features.tables import check_kinds, check_text
    from loglinear.training.plan import check_training

    check(classifier)
    check_text(classifier.text)
    check_kinds(classifier.kinds or {})
    check_training(classifier, classifier_training())
    check_class_weight(classifier.class_weight)
    _check_functions(classifier)
    if spec_name(classifier.criterion) == NAIVE_BAYES:
        _check_naive_bayes(classifier)
        return
    _check_base(classifier, CRITERIA.part(classifier.criterion).uses_base, CRITERIA.spec(classifier.criterion).values)
    _check_kernel(classifier)
    if classifier.multiclass == ONE_VERSUS_ALL:
        if classifier.feature_map is not None:
            raise OptionError(f"multiclass={ONE_VERSUS_ALL!r}: a feature_map is of several labels; use {DIRECT!r}")
        if own_base(classifier):
            raise OptionError(f"multiclass={ONE_VERSUS_ALL!r}: a base of your own is one of all labels; use {DIRECT!r}")


def _check_functions(classifier: Any) -> None:
    given = [name for name in ("template", "features", "feature_map") if getattr(classifier, name) is not None]
    if len(given) > 1:
        raise OptionError(f"{' and '.join(given)} both say what the features are; give one")
    for name in ("features", "feature_map", "candidates"):
        value = getattr(classifier, name)
        if value is not None and not callable(value):
            raise OptionError(f"{name}={value!r:.60} is not a function")
    if classifier.candidates is not None and classifier.feature_map is None:
        raise OptionError("candidates goes with feature_map: labels share no features without one")
    if classifier.feature_map is not None:
        for name, _ in _changed(classifier, "bias", "bias_scale"):
            raise OptionError(f"{name} is not for a feature_map, which may give each label a feature of its own")


def _check_naive_bayes(classifier: Any) -> None:
    """Refuse what a model that is counted has no use for."""
    naive_bayes_smoothing(classifier.criterion)
    unused = ("cost", "optimizer", "l1", "l2", "variance", "max_iter", "tolerance", "patience", "bias", "bias_scale")
    for name, _ in _changed(classifier, *unused, "base", "feature_map", "kernel"):
        raise OptionError(f"criterion={NAIVE_BAYES!r} counts, and has no use for {name}; leave it out")


def naive_bayes_smoothing(criterion: str) -> float:
    """lambda of a criterion as text, ``naive-bayes`` or ``naive-bayes:smoothing=0.5``."""
    known = declared(NaiveBayesOptions)
    return float(spec_options(criterion, known, "criterion").get("smoothing", known["smoothing"].default))


def learns_from_counts(criterion: str) -> bool:
    """Whether a classifier's criterion takes columns for counts, which are not negative."""
    return spec_name(criterion) in (NAIVE_BAYES, M_ESTIMATION)


def _check_base(classifier: Any, uses_base: bool, values: Mapping[str, Any]) -> None:
    base = classifier.base
    if not uses_base:
        if base is not None:
            raise OptionError(f"base={base!r:.60} {BASED} {spec_name(classifier.criterion)!r}")
        return
    for name in values:
        if name != "smoothing":
            raise OptionError(f"criterion={classifier.criterion!r}: {name} is for chains")
    if classifier.feature_map is not None:
        raise OptionError(f"criterion={M_ESTIMATION!r} needs expected counts, which a feature_map does not have")
    if isinstance(base, str):
        if spec_name(base) != NAIVE_BAYES:
            raise OptionError(f"base={base!r} is not known for flat labels; there is {NAIVE_BAYES}, or your own")
        if base_draws(base) and classifier.kernel is None:
            raise OptionError(f"base={base!r}: without a kernel the expectations are exact; leave samples out")
    elif base is not None:
        needed = "sample(n, rng)" if draws_for_expectations(classifier) else "expected()"
        if not (hasattr(base, "scores") and hasattr(base, needed.partition("(")[0])):
            raise OptionError(f"base={base!r:.60} needs the methods scores(X) and {needed}")


def base_draws(base: str) -> int | None:
    """How many draws a base asks for, as in ``naive-bayes:samples=20000``; None if it does not say."""
    known = Option("samples", None, "rows drawn for the expectations of kernels", least=1, most=10_000_000, kind=int)
    return spec_options(base, [known], "base").get("samples")


def draws_for_expectations(classifier: Any) -> bool:
    """Whether expectations under a classifier's base are means over draws: those of all kernels but the linear one."""
    kernel = classifier.kernel
    return kernel is not None and not (isinstance(kernel, str) and spec_name(kernel) == "linear")


def _check_kernel(classifier: Any) -> None:
    """Refuse what does not go with a kernel."""
    if classifier.kernel is None:
        return
    from loglinear.features.gram import make_kernel

    shown = f"kernel={classifier.kernel!r:.60}"
    make_kernel(classifier.kernel)
    if classifier.feature_map is not None:
        raise OptionError(f"{shown} is of the rows of examples, and a feature_map makes none; give one of both")
    criterion, optimizer = spec_name(classifier.criterion), spec_name(classifier.optimizer or COEFFICIENTS_BY[0])
    if criterion not in WITH_KERNELS:
        raise OptionError(f"{shown}: criterion={criterion!r} has no kernels; there are: {', '.join(WITH_KERNELS)}")
    if optimizer not in COEFFICIENTS_BY:
        raise OptionError(f"{shown}: optimizer={optimizer!r} is for weights of columns; {' or '.join(COEFFICIENTS_BY)}")
    if classifier.l1:
        raise OptionError(f"{shown}: l1={classifier.l1:g} is a penalty on weights of columns; leave it out")
    if classifier.l2 == 0:
        raise OptionError(f"{shown}: l2=0 would let the scores of most kernels fit any labels; give a positive number")


def own_base(classifier: Any) -> bool:
    """Whether a classifier's base is the user's own."""
    return classifier.base is not None and not isinstance(classifier.base, str)


def dependency_training() -> Any:
    """What criteria and optimizers must know of dependency parsers."""
    from loglinear.structures.arcs.structure import ArcTree
    from loglinear.training.plan import Trained

    return Trained(
        "dependency parser", "trees of arcs", ArcTree, (GENERATIVE, M_ESTIMATION), limited={"dual": ("max-margin",)},
        bases=False, labels=False, elsewhere=ELSEWHERE,
    )  # fmt: skip


def check_dependency_parser(parser: Any) -> None:
    """Refuse a :class:`~loglinear.DependencyParser` whose options make no sense, or do not fit together."""
    from loglinear.criteria.costs import make_head_cost
    from loglinear.generative.head_outward import read_base
    from loglinear.training.plan import check_cost, check_penalties, check_training

    check(parser)
    read_base(parser.base)
    check_training(parser, dependency_training())
    name = spec_name(parser.criterion)
    if name not in (GENERATIVE, M_ESTIMATION):
        make_head_cost(parser.cost)
        if parser.base is not None:
            raise OptionError(f"base={parser.base!r} goes with {GENERATIVE} and {M_ESTIMATION}, not with {name!r}")
        return
    spec_options(parser.criterion, (), "criterion")
    if not (parser.projective and parser.single_root):
        raise OptionError(f"criterion={name!r}: a head-outward model makes projective trees with one root alone")
    check_cost(parser, name, False)
    if name == GENERATIVE:
        for _ in _changed(parser, "features", "min_count"):
            raise OptionError(f"criterion={GENERATIVE!r} has no features to choose")
        for other, _ in _changed(parser, "optimizer", "l1", "l2", "variance", "max_iter"):
            raise OptionError(f"criterion={GENERATIVE!r} counts, and has no use for {other}")
    elif parser.optimizer is not None and spec_name(parser.optimizer) != "lbfgs":
        raise OptionError(f"criterion={M_ESTIMATION!r} is trained by lbfgs, not by {parser.optimizer!r}")
    else:
        check_penalties(parser, parser.optimizer or "lbfgs", name, ("lbfgs",))


def hmm_components(components: str) -> dict[str, Any]:
    """The options of hidden Markov components, by name, that a spec such as ``hmm:states=4`` gives."""
    defaults = {each.name: each.default for each in OF_HMM_COMPONENTS}
    return defaults | spec_options(components, OF_HMM_COMPONENTS, "components")


def check_mixture(mixture: Any) -> None:
    """Refuse options that make no sense, alone or together."""
    check(mixture)
    family = spec_name(mixture.components)
    if family not in KINDS:
        raise OptionError(f"components={mixture.components!r} is not one of {', '.join(KINDS)}")
    spec_options(mixture.components, OF_HMM_COMPONENTS if family == HMM_COMPONENTS else (), "components")
    if family != NAIVE_BAYES:
        for name, value in _changed(mixture, *OF_TABLES):
            raise OptionError(f"{name}={value!r} is for components={NAIVE_BAYES!r}, which look at columns of tables")
    if family != HMM_COMPONENTS and mixture.threads is not None:
        raise OptionError(f"threads={mixture.threads} is for components={HMM_COMPONENTS!r}: others have no use for it")
    if family != "gaussian":
        for name, value in _changed(mixture, *GAUSSIAN_ONLY):
            raise OptionError(f"{name}={value!r} is for components='gaussian': counts have none")
        if mixture.smoothing == 0 and family != HMM_COMPONENTS:
            raise OptionError("smoothing=0: a word that a component never has would have probability zero; give more")
    elif mixture.covariance == "known":
        for name in ("smoothing", "floor"):
            if getattr(mixture, name):
                raise OptionError(f"{name}={getattr(mixture, name)!r}: with covariance='known' no variance is learnt")
    elif mixture.variance is not None:
        raise OptionError(f"variance={mixture.variance!r} is for covariance='known'; others are learnt")
    if isinstance(mixture.start, str):
        if mixture.start not in STARTS:
            raise OptionError(f"start={mixture.start!r} is not one of {', '.join(STARTS)}, nor rows that are centres")
    elif family in (NAIVE_BAYES, HMM_COMPONENTS):
        raise OptionError(f"start: components={family!r} have no centres; give one of {', '.join(STARTS)}")
