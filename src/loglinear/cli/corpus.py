"""``loglinear corpus``: the bundled corpus, or as much generated text as you like, as a column file."""

from __future__ import annotations

from typing import Annotated

import typer

from loglinear.cli.options import Output
from loglinear.errors import OptionError
from loglinear.options import option, options


@options
class SentenceOptions:
    """Which sentences are written, and how."""

    task: str = option(
        "columns: pos (word, tag), chunk or ner (word, tag, label), dependency (word, tag, head, relation); or trees, "
        "a bracketed tree a line; or conllu, dependencies as CoNLL-U",
        default="chunk",
    )
    generate: int | None = option("make so many sentences by the grammar instead", default=None, least=1)
    seed: int | None = option("seed of the generated sentences (0 if not given)", default=None, least=0)


def corpus_command(
    asked: SentenceOptions,
    split: Annotated[
        str | None,
        typer.Argument(metavar="SPLIT", help="train, dev or test of the bundled corpus (train if not given)."),
    ] = None,
    output: Output = "-",
) -> None:
    """Write the bundled corpus, or generated sentences, as columns or as trees.

    Examples
    --------
    loglinear corpus train > train.txt
    loglinear corpus test --task ner > test.txt
    loglinear corpus --generate 10000 --seed 7 --task pos > many.txt
    """
    from loglinear.data import atomic_output
    from loglinear.data.corpora.bundled import bundled_rows, bundled_text, bundled_trees
    from loglinear.data.corpora.generator import generate_rows, generate_trees
    from loglinear.data.dependencies import conllu_text

    task, generate, seed = asked.task, asked.generate, asked.seed
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
