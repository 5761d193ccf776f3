"""``loglinear corpus``: write the bundled corpus, or any number of generated sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

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
    generate: int | None = option("generate this many sentences by the grammar instead", default=None, least=1)
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

    if asked.generate is not None and split is not None:
        raise OptionError(f"{split!r} is a part of the bundled corpus, but --generate makes new sentences; give one")
    if asked.generate is None and asked.seed is not None:
        raise OptionError("--seed goes with --generate N; give both, or neither")

    def items(bundled: Callable[..., Any], generated: Callable[..., Any], *what: Any, **how: Any) -> Any:
        if asked.generate is None:
            return bundled(split or "train", *what, **how)
        return generated(asked.generate, asked.seed or 0, *what, **how)

    texts: Iterable[str]
    with atomic_output(output) as out:
        if asked.task == "trees":
            texts = (f"{tree}\n" for tree in items(bundled_trees, generate_trees, entities=False))
        elif asked.task == "conllu":
            texts = map(conllu_text, items(bundled_rows, generate_rows, "dependency"))
        elif asked.generate is None:
            texts = [bundled_text(split or "train", asked.task)]
        else:
            rows = generate_rows(asked.generate, asked.seed or 0, asked.task)
            texts = ("".join(" ".join(row) + "\n" for row in sentence) + "\n" for sentence in rows)
        for text in texts:
            out.write(text.encode())
