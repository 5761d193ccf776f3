"""``loglinear criteria``: the criteria that training can minimise, and the optimizers."""

from __future__ import annotations

import json as json_module
from typing import TYPE_CHECKING, Any

from loglinear.cli.common import Screen, say
from loglinear.cli.options import PrintJson

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table

    from loglinear.options import Option


#: The operations that criteria need, as the table calls them; "" for those without inference.
NEEDS = {
    "score": "",
    "add_labelling": "",
    "restrict": "",
    "piece_normalisers": "",
    "add_piece_expectations": "",
    "add_given_neighbours": "",
    "expectations": "marginals",
    "marginals": "marginals",
    "log_partition": "marginals",
    "viterbi": "the best labelling",
    "k_best": "the k best labellings",
    "cost_covariance": "covariance with the cost",
    "squared_distance": "flat labels",
}


def criteria_command(json: PrintJson = False) -> None:
    """List the training criteria and optimizers: what each does, what it needs, its options.

    Examples
    --------
    loglinear criteria
    loglinear train train.txt -o ner.model --template ner --criterion softmax-margin --cost recall:3
    loglinear train train.txt -o ner.model --template ner --criterion mira:k=5 --cost hamming:2
    loglinear parse train trees.mrg -o trees.model --criterion nota:delta=3
    """
    from loglinear.criteria.criterion import CRITERIA
    from loglinear.estimators.parser.problem import TREE_CRITERIA
    from loglinear.optimizers.optimizer import OPTIMIZERS
    from loglinear.options import options_of

    registries: dict[str, Any] = {"optimizers": OPTIMIZERS, "parsing": TREE_CRITERIA}
    facts: dict[str, list[dict[str, Any]]] = {
        "criteria": [
            {
                "name": name,
                "minimises": criterion.summary,
                "convex": criterion.convex,
                "smooth": criterion.smooth,
                "cost": criterion.uses_cost,
                "partial_labels": criterion.learns_from_hidden(),
                "starts_from": criterion.starts_from,
                "needs": list(criterion.needs),
                "optimizers": list(criterion.optimizers),
                "options": _options(options_of(criterion).values()),
            }
            for name, criterion in CRITERIA.all().items()
        ],
        **{
            kind: [
                {"name": name, "does": part.summary, "options": _options(options_of(part).values())}
                for name, part in registry.all().items()
            ]
            for kind, registry in registries.items()
        },
    }
    if json:
        say(json_module.dumps(facts, indent=1))
        return
    console = Screen()
    for table in _tables(facts):
        console.print(table)


def _options(declared: Iterable[Option]) -> list[dict[str, Any]]:
    """The options, without old spellings, which still work."""
    return [
        {"name": option.name, "default": option.default, "help": option.help}
        for option in declared
        if not option.instead
    ]


def _tables(facts: dict[str, list[dict[str, Any]]]) -> list[Table]:
    from rich.table import Column, Table

    yes = {True: "yes", False: "no"}
    criteria = Table(Column("criterion", no_wrap=True), "minimises", "convex", "cost", "needs", title="--criterion")
    for fact in facts["criteria"]:
        needs = ", ".join(dict.fromkeys(filter(None, map(NEEDS.get, fact["needs"])))) or "no inference"
        start = f"; starts from a {fact['starts_from']} model" if fact["starts_from"] else ""
        criteria.add_row(fact["name"], fact["minimises"], yes[fact["convex"]], yes[fact["cost"]], needs + start)
    ways = Table(Column("optimizer", no_wrap=True), "how the weights are found", "trains", title="--optimizer")
    for fact in facts["optimizers"]:
        trains = [each["name"] for each in facts["criteria"] if fact["name"] in each["optimizers"]]
        rest = [each["name"] for each in facts["criteria"] if fact["name"] not in each["optimizers"]]
        ways.add_row(
            fact["name"], fact["does"], f"all but {', '.join(rest)}" if len(rest) < len(trains) else ", ".join(trains)
        )
    options = Table(
        Column("option", no_wrap=True), "default", "what it is", title="their options, as in --criterion mira:k=5,C=0.1"
    )
    for fact in (*facts["criteria"], *facts["optimizers"]):
        for option in fact["options"]:
            default = option["default"]
            if isinstance(default, bool):
                default = yes[default]
            options.add_row(f"{fact['name']}:{option['name']}", "" if default is None else str(default), option["help"])
    trees = Table(
        Column("criterion", no_wrap=True), "what the grammar maximises or minimises", "options",
        title="loglinear parse train --criterion, as in nota:delta=3",
    )  # fmt: skip
    for fact in facts["parsing"]:
        trees.add_row(fact["name"], fact["does"], ", ".join(option["name"] for option in fact["options"]))
    return [criteria, ways, options, trees]
