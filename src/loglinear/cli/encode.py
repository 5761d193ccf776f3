"""``loglinear encode``: a corpus in numbers, to train on again and again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loglinear.cli import common
from loglinear.cli.files import PIPE
from loglinear.cli.options import CorpusOptions, Flags, PagingOptions, Quiet
from loglinear.errors import OptionError
from loglinear.estimators.options import TaggerOptions
from loglinear.options import READ, WRITTEN_FOLDER
from loglinear.system import thread_count
from loglinear.wording import how_many

OPTIONS = ("template", "min_count", "gazetteers", "pair_features", "hash_bits", "edge", "threads")


def encode_command(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="TRAIN...",
            help="Annotated files (also .gz, or -), or patterns such as 'parts/*.gz'.",
        ),
        READ,
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder to write."), WRITTEN_FOLDER],
    model: Annotated[TaggerOptions, Flags(only=OPTIONS)],
    files: Annotated[CorpusOptions, Flags(without=("weights",))],
    pages: PagingOptions,
    quiet: Quiet = False,
) -> None:
    """Encode annotated files as attributes of a template, in a folder that train takes in their place.

    Reading text and looking attributes up are then done once, and what is trained is the same. A folder whose sources
    have changed, or which is damaged, is refused.

    Examples
    --------
    loglinear encode train.txt -o encoded --template chunking
    loglinear encode 'parts/*.gz' -o encoded --template ner --hash-bits 22 --memory 2G
    loglinear encode made.crfsuite -o encoded   (ready-made features, which need no template)
    loglinear train encoded -o large.model --memory 2G
    """
    from loglinear import mapped
    from loglinear.data import Columns
    from loglinear.scale.encoded import SourceFile, check_target, encode, files_of, read_parts

    check_target(output)
    out = common.console(quiet)
    template = common.read_template(model.template)
    with pages.paging():
        paths = files_of(sources)
        with common.working(out, f"reading {paths[0]}" + (f" and {len(paths) - 1} more" if paths[1:] else "")):
            noted = [SourceFile.of(path) for path in paths if path != PIPE]
            corpus = read_parts(paths, files.read)
        if isinstance(corpus, Columns):
            if model.edge:
                raise OptionError("--edge names ready-made features; in a template, begin a line with * instead")
            if template is None:
                template = common.suggested_template(corpus, files.label_column, files.partial)
                out.print(f"template: {template} (choose with --template)")
        elif template is not None:
            raise OptionError(f"--template {model.template}: {corpus.name} holds ready-made features; leave it out")
        options = {name: getattr(model, name) for name in OPTIONS} | {"template": template}
        with common.working(out, f"encoding {how_many(corpus.n_tokens, 'token')}"):
            encode(
                corpus, output, options, label_column=files.label_column, sources=noted,
                reading={**files.said(paths[0]), "partial": files.partial}, n_threads=thread_count(model.threads),
            )  # fmt: skip
        lines = {
            "data": f"{how_many(len(corpus), 'sentence')}, {how_many(corpus.n_tokens, 'token')}",
            "memory": mapped.said(),
            "folder": str(output),
            "next": f"loglinear train {output} -o MODEL",
        }
        common.show_lines(lines, out)
