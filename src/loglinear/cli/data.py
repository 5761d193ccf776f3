"""``loglinear data``: public corpora, fetched into the user's cache; and the conversion of formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from loglinear.cli.common import console, say, show_table, working
from loglinear.cli.options import DATA, FORMATS, CorpusOptions, Flags, Output, add, verbs, warn
from loglinear.errors import OptionError
from loglinear.options import READ

if TYPE_CHECKING:
    from loglinear.data import Column, Columns

app = verbs("Fetch public corpora, see which are here, and convert data from one format to another.")


@add(app, "get")
def get_command(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Corpora; see `loglinear data list`.")],
    again: Annotated[bool, typer.Option("--again", help="Fetch again what is here already.")] = False,
) -> None:
    """Fetch corpora into the user's cache, check them, and print their folders.

    Examples
    --------
    loglinear data get conll2000
    loglinear data get conll2000 conll2002     (both; the folders are printed)
    """
    from loglinear.data.corpora.download import get, public_corpus
    from loglinear.system import cache_warning

    for name in names:
        public_corpus(name)
    out = console()
    if warning := cache_warning():
        out.print(f"loglinear: {warning}")
    for name in names:
        with working(out, f"fetching {name} ..."):
            folder = get(name, again)
        say(str(folder))


@add(app, "list")
def list_command() -> None:
    """List the corpora that can be fetched, where they come from, and whether they are here and intact.

    Examples
    --------
    loglinear data list
    """
    from loglinear.data.corpora.download import PUBLIC, corpora_cache, folder_of, wrong_files
    from loglinear.experiments.tables import Table
    from loglinear.system import cache_warning

    table = Table("Public corpora", ["name", "what", "source and licence", "here"])
    for name, corpus in PUBLIC.items():
        wrong = wrong_files(name)
        here = f"wrong: {', '.join(wrong)}" if wrong else "no" if folder_of(name) is None else "yes"
        table.add(name, [], [corpus.about, corpus.licence, here])
    table.notes.append(f"The cache is {corpora_cache()}; `loglinear data get NAME` fetches into it.")
    table.notes += filter(None, [cache_warning()])
    show_table(table, console(tables=True))


@add(app, "convert")
def convert_command(
    input: Annotated[
        str, typer.Argument(metavar="IN", help="Annotated file (also .gz, or -); of brat a folder, or one .ann."), READ
    ],
    files: Annotated[CorpusOptions, Flags(without=("format", "partial", "weights"))],
    output: Output = "-",
    source: Annotated[
        str, typer.Option("--from", metavar="FORMAT", help=f"Format of IN: {FORMATS}.", rich_help_panel=DATA)
    ] = "auto",
    target: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="FORMAT", help="Format to write; by the name of OUT if not given.", rich_help_panel=DATA
        ),
    ] = None,
) -> None:
    """Convert annotated data from one format to another.

    Between formats of texts with spans nothing but the format changes: spans may overlap or begin inside a token.

    Examples
    --------
    loglinear data convert doccano.jsonl -o train.txt --to columns
    loglinear data convert train.txt -o to-correct.jsonl --to prodigy
    loglinear data convert export.json -o corpus --to brat     (from Label Studio, to a folder)
    loglinear data convert spans.jsonl --from doccano -o train.spacy --borders snap     (spaCy must be installed)
    loglinear data convert dev.conllu --column upos -o dev.txt
    loglinear data convert train.txt -o train.parquet     (pyarrow must be installed: pip install 'loglinear[parquet]')
    """
    from loglinear.data import Attributes, atomic_output, write_attributes
    from loglinear.data.columns import format_names, sniffed_source
    from loglinear.data.spans import FORMATS as SPANS
    from loglinear.data.spans import read_texts, write_texts
    from loglinear.data.spans.text import notice

    to = target or _format_by_name(output)
    known = [name for name in format_names() if name != "text"]
    if to not in known:
        raise OptionError(f"--to {to}: choose one of {', '.join(known)}")
    found, stream = sniffed_source(input) if source == "auto" else (source, input)
    if found in SPANS and to in SPANS:
        texts = read_texts(stream, found, files.convention())
        write_texts(texts, output, to, files.convention())
        if said := notice(texts.name, texts.left_out if to != found else {}):
            warn(said)
        return
    files.format = found
    column = files.column
    if to == "conllu" and found not in ("conllu", "csv", "tsv", "parquet", "arrow"):
        files.column = None  # it names a column of the output
    corpus = files.read(stream, labels=found != "conllu" or files.column is not None)
    if isinstance(corpus, Attributes):
        if to != "crfsuite":
            raise OptionError(f"{input} holds ready-made attributes, which only --to crfsuite can hold")
        with atomic_output(output) as out:
            write_attributes(corpus, out)
    elif to == "crfsuite":
        raise OptionError("--to crfsuite: its attributes are made by a template in training; convert to another format")
    elif to in SPANS:
        _write_spans(corpus, output, to, files)
    else:
        with atomic_output(output) as out:
            _write_rows(corpus, out, to, files, column)


def _format_by_name(output: str) -> str:
    """The format that a file's name says."""
    name = output.lower().removesuffix(".gz")
    endings = {
        ".conllu": "conllu", ".spacy": "docbin", ".ann": "brat", ".csv": "csv", ".tsv": "tsv", ".txt": "columns",
        ".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow",
    }  # fmt: skip
    for ending, format in endings.items():
        if name.endswith(ending):
            return format
    raise OptionError(f"-o {output}: its name does not say which format to write; add --to, as in --to prodigy")


def _labels(corpus: Columns, files: CorpusOptions) -> Column | None:
    """The labels of a corpus, None if it has none."""
    is_labelled = corpus.unlabelled is None and corpus.n_columns > 1
    if corpus.format == "conllu":
        is_labelled = files.column is not None
    return corpus.column(files.label_column) if is_labelled else None


def _write_spans(corpus: Columns, output: str, to: str, files: CorpusOptions) -> None:
    from loglinear.data.spans import write_texts
    from loglinear.data.spans.corpus import texts_of
    from loglinear.evaluation.spans import marked_texts

    labels = _labels(corpus, files)
    texts = texts_of(corpus, to) if labels is None else marked_texts(corpus, labels, to)
    write_texts(texts, output, to, files.convention())


def _write_rows(corpus: Columns, out: BinaryIO, to: str, files: CorpusOptions, column: str | None) -> None:
    from loglinear.data import Columns, write_columns, write_jsonl
    from loglinear.data.columns.conllu_file import NAMES, write_conllu_columns
    from loglinear.data.columns.table_file import write_table_columns

    labels = _labels(corpus, files)
    if to == "conllu":
        if column is None or column.lower() not in NAMES or labels is None:
            raise OptionError("--to conllu: say which column the labels go to, as in --column upos")
        write_conllu_columns(corpus, out, NAMES.index(column.lower()), labels)
        return
    kept = corpus.columns[:1] if corpus.format == "conllu" and to == "jsonl" else corpus.columns
    if labels is not None:
        others = [column for column in corpus.columns if column is not labels]
        kept = [*(others[:1] if column is not None else others), labels]
    names = None
    if corpus.names is not None:
        numbers = [next(c for c, own in enumerate(corpus.columns) if own is column) for column in kept]
        names = [corpus.names[c] for c in numbers]
    plain = Columns(
        corpus.name, corpus.offsets, corpus.lines, kept, records=corpus.records, unlabelled=corpus.unlabelled,
        names=names,
    )  # fmt: skip
    if to == "columns":
        write_columns(plain, out)
    elif to == "jsonl":
        write_jsonl(plain, out, tokens_key=files.tokens_key, labels_key=files.labels_key or "labels")
    elif to in ("parquet", "arrow"):
        from loglinear.data.columns.arrow_file import write_arrow_columns

        write_arrow_columns(plain, out, to)
    else:
        write_table_columns(plain, out, to)
