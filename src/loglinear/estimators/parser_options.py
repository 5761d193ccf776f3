"""The options of a parser, declared once: they feed the estimator's checks, the command line and the docs."""

from __future__ import annotations

from typing import Any

from loglinear.options import Option

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
