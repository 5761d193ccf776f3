"""The options of taggers, parsers and mixtures, declared once: they feed the estimators' checks, the command line
and the docs.
"""

from __future__ import annotations

import math
from typing import Any

from loglinear.errors import OptionError
from loglinear.options import Option

PRECISIONS = ("float64", "float32", "float16")
OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("criterion", "cll", "what training minimises, with its options, as in mira:k=5"),
        Option("cost", None, "how bad which mistake is: hamming:M, recall:K, precision:K, balanced or FILE.json"),
        Option("optimizer", None, "how the weights are found, as in sgd:step=0.1,average; the criterion's by default"),
        Option(
            "base",
            None,
            "for m-estimation, the generative model it starts from: hmm (the default), locally-uniform or empirical; "
            "hmm:samples=100000 draws for its expectations",
        ),
        Option("order", 1, "how many labels back a label depends on: 1 or 2", choices=(1, 2)),
        Option("l1", 0.0, "factor of the sum of |w|: drives weights to exactly zero", least=0, kind=float),
        Option("l2", None, "factor of the sum of w^2 (1 if neither l2 nor variance is given)", least=0, kind=float),
        Option("variance", None, "variance c of a Gaussian prior on the weights: l2 = 1 / 2c", least=0, kind=float),
        Option("sub_labels", 1, "hidden states that each label is split into", least=1, most=32, kind=int),
        Option("min_count", 1, "leave out attributes seen fewer times in training", least=1, kind=int),
        Option(
            "hash_bits",
            None,
            "hash the attributes into 2 to this many buckets, so that no list of them is kept (8 to 26)",
            least=8,
            most=26,
            kind=int,
        ),
        Option("states", "observed", "which (attribute, label) pairs get a weight", choices=("observed", "all")),
        Option("transitions", "observed", "which label bigrams get a weight", choices=("observed", "all", "none")),
        Option("pair_features", False, "join every attribute with the label pair too", choices=(False, True)),
        Option(
            "prune",
            None,
            "share of the weights to leave out of the trained model, the smallest first",
            above=0,
            most=1,
            kind=float,
        ),
        Option(
            "precision",
            "float32",
            "numbers that the trained weights are kept as, also in the model file",
            choices=PRECISIONS,
        ),
        Option("constraints", None, "labellings ruled out: bio, iob1, bioes, bilou, or your own"),
        Option(
            "max_iter",
            None,
            "most iterations, or passes over the data (lbfgs and dual 1000, sgd and adagrad 50, online 20)",
            least=0,
            kind=int,
        ),
        Option(
            "tolerance",
            1e-5,
            "stop when 10 iterations of lbfgs lower the objective by less than this share, or dual has primal and dual "
            "within 200 times that",
            least=0,
            kind=float,
        ),
        Option("metric", "auto", "what the dev data is judged by", choices=("auto", "f1", "accuracy")),
        Option("patience", 20, "stop after so many iterations without a better dev score", least=1, kind=int),
        Option(
            "threads",
            None,
            "threads (all cores if not given); the result is the same for any number",
            least=1,
            kind=int,
        ),
        Option("seed", 0, "seed of all that is random", least=0, kind=int),
    )
}


def default(name: str) -> Any:
    """The default of an option."""
    return OPTIONS[name].default


def check_options(values: dict[str, Any]) -> None:
    """Check each option's value."""
    for name, option in OPTIONS.items():
        if name in values:
            option.check(values[name])
    if values.get("prune") is not None:
        kept_of(1, values["prune"])


def l2_factor(l2: float | None, variance: float | None) -> float:
    """The factor of ||w||^2 that ``l2`` and ``variance`` ask for."""
    if variance is None:
        return 1.0 if l2 is None else float(l2)
    if l2 is not None:
        raise OptionError(f"l2={l2} and variance={variance} say the same thing twice (l2 = 1 / 2 variance); give one")
    if variance == 0:
        raise OptionError("variance=0 would keep every weight at zero; give a positive number")
    factor = 1.0 / (2.0 * variance)
    if math.isinf(factor):
        raise OptionError(f"variance={variance} is too small: l2 = 1 / 2 variance would be infinite")
    return factor


def kept_of(n_weights: int, share: float | None, keep: int | None = None) -> int:
    """How many of ``n_weights`` weights stay, one at least, if a ``share`` is to go, or so many are to be kept."""
    if (share is None) == (keep is None):
        raise OptionError(f"share={share!r} and keep={keep!r} are two ways to say how much to prune; give one of both")
    if keep is not None:
        Option("keep", None, "", least=1, kind=int).check(keep)
        return keep
    if share is None or not 0.0 < share < 1.0:
        raise OptionError(f"a share of {share!r} of the weights cannot be left out; give a number between 0 and 1")
    return max(1, n_weights - round(share * n_weights))


# ----------------------------------------------------------------------------------------------------------------------
# The options of a parser, declared once: they feed the estimator's checks, the command line and the docs.


# The same as in loglinear.data, whose import would take the command line's --help a second.
ANNOTATIONS = ("none", "parent", "rich")
FACTORS = ("head", "right", "left")

PARSER_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("criterion", "pcfg", "how the grammar is trained, with its options, as in pcfg:smoothing=0.1"),
        Option(
            "annotation",
            None,
            "what labels are split by: rich (kinds of phrases and words, the default), parent (the default if vertical "
            "is given) or none",
            choices=ANNOTATIONS,
        ),
        Option(
            "vertical",
            None,
            "labels that a phrase knows, its own and its nearest ancestors': 1 none of these, 2 the parent's",
            least=1,
            kind=int,
        ),
        Option("horizontal", 2, "siblings that a binary rule remembers, or all (None in Python)", least=0, kind=int),
        Option("factor", "head", "in which order a phrase's children come apart", choices=FACTORS),
        Option("marks", "", "characters that begin notes of your own in the labels of the trees, as ^- for NP^S-TMP"),
        Option("function_tags", False, "keep what follows - or = in phrase labels", choices=(False, True)),
        Option("max_length", None, "leave out longer sentences from training", least=1, kind=int),
        Option("time_limit", 60.0, "seconds for a sentence, after which it gets a fallback tree", above=0, kind=float),
        Option(
            "decoding",
            "viterbi",
            "which tree a sentence gets: the most probable, or the one of the brackets most likely to be right",
            choices=("viterbi", "posterior"),
        ),
        Option("threads", None, "threads (all cores if not given)", least=1, kind=int),
        Option("seed", 0, "seed of all that is random", least=0, kind=int),
    )
}


def parser_default(name: str) -> Any:
    """The default of an option."""
    return PARSER_OPTIONS[name].default


# ----------------------------------------------------------------------------------------------------------------------
# The options of a mixture, declared once, and which of them go together.


KINDS = ("gaussian", "multinomial")
COVARIANCES = ("known", "spherical", "diagonal", "tied", "full")  # the shapes of generative/covariance.py
STARTS = ("k-means++", "random")
COVARIANCE, VARIANCE, FLOOR = "diagonal", 1.0, 1e-6  # by default
MIXTURE_OPTIONS: dict[str, Option] = {
    option.name: option
    for option in (
        Option("n_components", 2, "how many components", least=1, kind=int),
        Option("components", "gaussian", "what they are: of numbers, or of counts (bags of words)", choices=KINDS),
        Option(
            "covariance",
            None,
            f"of Gaussians: known is the given variance, tied one for all; {COVARIANCE} by default",
            choices=COVARIANCES,
        ),
        Option("variance", None, "of Gaussians with covariance known: sigma^2; 1 by default", above=0, kind=float),
        Option(
            "smoothing",
            None,
            "of multinomials, lambda of the Dirichlet prior (1 by default); of Gaussians, how many rows the prior of "
            "covariances is worth (0)",
            least=0,
            kind=float,
        ),
        Option(
            "floor",
            None,
            "of Gaussians, the least variance, as a share of the variance of all rows; 1e-6 by default",
            above=0,
            kind=float,
        ),
        Option("start", STARTS[0], "how the first centres are found: k-means++ or random"),
        Option("restarts", 4, "further starts of EM, the best of which is kept", least=0, kind=int),
        Option("rounds", 300, "most rounds of EM from each start", least=0, kind=int),
        Option("tolerance", 1e-6, "EM ends when a round raises the objective by less, per row", least=0, kind=float),
        Option("seed", 0, "seed of the starts", least=0, kind=int),
    )
}
GAUSSIAN_ONLY = ("covariance", "variance", "floor")


def check_mixture(mixture: Any) -> None:
    """Refuse options that make no sense, alone or together."""
    for name, option in MIXTURE_OPTIONS.items():
        option.check(getattr(mixture, name))
    if mixture.components == "multinomial":
        for name in GAUSSIAN_ONLY:
            if getattr(mixture, name) is not None:
                raise OptionError(f"{name}={getattr(mixture, name)!r} is for components='gaussian': counts have none")
        if mixture.smoothing == 0:
            raise OptionError("smoothing=0: a word that a component never has would have probability zero; give more")
    elif mixture.covariance == "known":
        for name in ("smoothing", "floor"):
            if getattr(mixture, name):
                raise OptionError(f"{name}={getattr(mixture, name)!r}: with covariance='known' no variance is learnt")
    elif mixture.variance is not None:
        raise OptionError(f"variance={mixture.variance!r} is for covariance='known'; others are learnt")
    if isinstance(mixture.start, str) and mixture.start not in STARTS:
        raise OptionError(f"start={mixture.start!r} is not one of {', '.join(STARTS)}, nor rows that are centres")
