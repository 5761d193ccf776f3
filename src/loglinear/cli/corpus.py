"""``loglinear corpus``: the bundled corpus, or as much generated text as you like, as a column file."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLES = """
[bold]Examples[/bold]

loglinear corpus train > train.txt

loglinear corpus test --task ner > test.txt

loglinear corpus --generate 10000 --seed 7 --task pos > many.txt
"""


def corpus_command(
    split: Annotated[
        str | None,
        typer.Argument(metavar="SPLIT", help="train, dev or test of the bundled corpus (train if not given)."),
    ] = None,
    task: Annotated[
        str,
        typer.Option(
            help="Columns: pos (word, tag), chunk or ner (word, tag, label), dependency (word, tag, head, relation); "
            "or trees, a bracketed tree a line; or conllu, dependencies as CoNLL-U."
        ),
    ] = "chunk",
    generate: Annotated[int | None, typer.Option(min=1, help="Make so many sentences by the grammar instead.")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the generated sentences (0 if not given).", show_default=False)
    ] = None,
    output: Annotated[str, typer.Option("-o", "--output", help="Where to write; - is standard output.")] = "-",
) -> None:
    """Write the bundled corpus, or generated sentences, as columns or as trees."""
    from loglinear.data import atomic_output
    from loglinear.data.corpora.bundled import bundled_rows, bundled_text, bundled_trees
    from loglinear.data.corpora.generator import generate_rows, generate_trees
    from loglinear.data.dependencies import conllu_text
    from loglinear.errors import OptionError

    if generate is not None and split is not None:
        raise OptionError(f"{split!r} names a part of the bundled corpus, --generate makes other sentences; give one")
    if generate is None and seed is not None:
        raise OptionError("--seed goes with --generate")
    with atomic_output(output) as out:
        if task == "trees":
            trees = bundled_trees(split or "train", entities=False) if generate is None else None
            for tree in generate_trees(generate, seed or 0, entities=False) if trees is None else trees:
                out.write(f"{tree}\n".encode())
            return
        if task == "conllu":
            sentences = bundled_rows(split or "train", "dependency") if generate is None else None
            for rows in generate_rows(generate, seed or 0, "dependency") if sentences is None else sentences:
                out.write(conllu_text(rows).encode())
            return
        if generate is None:
            out.write(bundled_text(split or "train", task).encode())
            return
        for sentence in generate_rows(generate, seed or 0, task):
            out.write(("".join(" ".join(row) + "\n" for row in sentence) + "\n").encode())
