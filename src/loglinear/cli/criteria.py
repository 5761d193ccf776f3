"""``loglinear criteria``: what training can minimise."""

from __future__ import annotations

import json as json_module
from typing import Annotated

import typer

EXAMPLES = """
[bold]Examples[/bold]

loglinear criteria

loglinear train train.txt -o ner.model --template ner --criterion softmax-margin --cost recall:3
"""


def criteria_command(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the training criteria: what each minimises, whether it is convex, what it takes."""
    from rich.console import Console
    from rich.table import Table

    from loglinear.criteria.criterion import criteria

    facts = [
        {
            "name": name,
            "minimises": criterion.summary,
            "convex": criterion.convex,
            "smooth": criterion.smooth,
            "cost": criterion.uses_cost,
            "starts_from": criterion.starts_from,
            "needs": list(criterion.needs),
        }
        for name, criterion in criteria().items()
    ]
    if json:
        typer.echo(json_module.dumps(facts, indent=1))
        return
    table = Table("criterion", "minimises", "convex", "takes a cost", "starts from")
    for fact in facts:
        yes = {True: "yes", False: "no"}
        table.add_row(
            str(fact["name"]), str(fact["minimises"]), yes[bool(fact["convex"])], yes[bool(fact["cost"])],
            f"a {fact['starts_from']} model" if fact["starts_from"] else "zero",
        )  # fmt: skip
    Console(highlight=False).print(table)
