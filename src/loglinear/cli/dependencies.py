"""What ``loglinear parse`` does with CoNLL-U files: the verbs of the dependency parser."""

from __future__ import annotations

import json as json_module
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from loglinear.cli.common import working

if TYPE_CHECKING:
    from rich.console import Console

    from loglinear.estimators.dependency_parser import DependencyParser

SUFFIXES = (".conllu", ".conll")


def is_dependencies(path: str | None, asked: bool, model: Path | None = None) -> bool:
    """Whether a file is CoNLL-U, by its name, because it was asked for, or by the model it goes with."""
    if asked or (path is not None and path.removesuffix(".gz").endswith(SUFFIXES)):
        return True
    if model is None:
        return False
    from loglinear import model_file
    from loglinear.estimators.dependency_file import KIND

    return model_file.load(model).kind == KIND


def refuse_phrase_options(context: typer.Context, *names: str) -> None:
    """Refuse those of the named options that were given: they are for phrases alone."""
    from loglinear.errors import OptionError

    flags = [f"--{name.replace('_', '-')}" for name in names if _is_given(context, name)]
    if flags:
        does = "makes" if len(flags) == 1 else "make"
        raise OptionError(f"{' and '.join(flags)} {does} no sense for dependencies (CoNLL-U): only phrases have that")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def given_options(context: typer.Context, *names: str) -> dict[str, Any]:
    """Those of the named options that were given, with their values."""
    return {name: context.params[name] for name in names if _is_given(context, name)}


def _options(settings: list[str], given: dict[str, Any]) -> dict[str, Any]:
    """Options of the parser: the given ones, and those of texts such as ``projective=no``."""
    from loglinear.errors import OptionError
    from loglinear.estimators.dependency_options import OPTIONS

    values = dict(given)
    for setting in settings:
        name, equals, text = (part.strip() for part in setting.partition("="))
        name = name.replace("-", "_")
        if not equals or name not in OPTIONS:
            raise OptionError(f"--set {setting!r}: give NAME=VALUE with one of {', '.join(OPTIONS)}")
        value = OPTIONS[name].read(text)
        if values.setdefault(name, value) != value:
            raise OptionError(f"--set {setting!r}: {name} is also given as {values[name]!r}")
    return values


def train(source: str, output: Path, dev: str | None, settings: list[str], given: dict[str, Any], out: Console) -> None:
    """Train on a CoNLL-U file and write a model file; ``given`` are options of the parser beside the settings."""
    from loglinear.data.conllu import read_conllu
    from loglinear.estimators.dependency_options import check_dependency_parser
    from loglinear.estimators.dependency_parser import DependencyParser

    parser = DependencyParser(**_options(settings, given))
    check_dependency_parser(parser)
    with working(out, f"reading {source}"):
        corpus = read_conllu(source, single_root=parser.single_root)
        dev_corpus = None if dev is None else read_conllu(dev, single_root=parser.single_root)
    began = time.perf_counter()
    with working(out, f"training on {corpus.n_sentences:,} trees"):
        parser.fit(corpus, X_dev=dev_corpus)
    seconds = time.perf_counter() - began
    parser.save(output)
    relations = parser.model_.relations
    known = "no" if relations is None else f"{len(relations.labels):,}"
    score = "" if parser.dev_score_ is None else f"; {100 * parser.dev_score_:.2f} % of the dev heads right"
    left_out = corpus.n_sentences - (parser.n_trees_ or 0)
    longer = f" ({left_out:,} longer than {parser.max_length} left out)" if left_out else ""
    out.print(f"data       {parser.n_trees_:,} trees{longer}, {parser.n_tokens_:,} tokens, {known} relations")
    out.print(f"features   {parser.model_.features.n_features:,} of arcs")
    out.print(f"training   {parser.message_}{score}; {seconds:.1f} s")
    out.print(f"model      {output} ({output.stat().st_size / 1e6:.1f} MB)")
    out.print(
        f"next       loglinear parse eval GOLD.conllu --model {output};  loglinear parse run {output} FILE.conllu"
    )


def _loaded(model: Path, threads: int | None) -> DependencyParser:
    from loglinear.estimators.dependency_parser import DependencyParser

    parser: DependencyParser = DependencyParser.load(model).set_params(threads=threads)
    return parser


def run(model: Path, source: str, output: str, threads: int | None, out: Console) -> None:
    """Parse a CoNLL-U file with tags: the same file with heads and relations."""
    from loglinear.data import atomic_output
    from loglinear.data.conllu import read_conllu, write_conllu

    parser = _loaded(model, threads)
    corpus = read_conllu(source, trees=False)
    with working(out, f"parsing {corpus.n_sentences:,} sentences"):
        parses = parser.parse(corpus)
    for s in parses.fallback.nonzero()[0].tolist():
        where = f"{corpus.file}:{corpus.lines[corpus.offsets[s]]}"
        length = int(corpus.offsets[s + 1] - corpus.offsets[s])
        why = f"{length} tokens are too many (parse_length={parser.parse_length})"
        out.print(f"loglinear: {where}: {why}: a fallback tree stands for it", markup=False)
    with atomic_output(output) as stream:
        write_conllu(corpus, stream, parses.heads, parses.relations)


def evaluate(
    gold: str,
    model: Path | None,
    pred: str | None,
    max_length: int | None,
    json: bool,
    threads: int | None,
    out: Console,
) -> None:
    """UAS and LAS of a model, or of a file of predictions, on a CoNLL-U file."""
    import numpy as np

    from loglinear.data.conllu import read_conllu
    from loglinear.errors import DataError
    from loglinear.evaluation.attachment import attachment_scores

    corpus, speed, fallback = read_conllu(gold, single_root=False), None, None
    chosen = np.flatnonzero(np.diff(corpus.offsets) <= (max_length or corpus.n_tokens))
    if not len(chosen):
        raise DataError(f"no sentence has at most {max_length} tokens", gold)
    if model is not None:
        corpus = corpus.select(chosen)
        parser = _loaded(model, threads)
        parser.parse(corpus.select([0]))  # loads the kernels, which is no part of the speed
        with working(out, f"parsing {corpus.n_sentences:,} sentences"):
            begin = time.perf_counter()
            parses = parser.parse(corpus)
            speed = corpus.n_sentences / max(time.perf_counter() - begin, 1e-9)
        heads, relations, fallback = parses.heads, parses.relations, parses.fallback
    else:
        assert pred is not None
        other = read_conllu(pred, single_root=False)
        if not np.array_equal(other.offsets, corpus.offsets):
            raise DataError(f"its sentences are not those of {gold}, or of other lengths", pred)
        other, corpus = other.select(chosen), corpus.select(chosen)
        heads, relations = other.heads, other.relations if other.has_relations else None
    report = attachment_scores(corpus, heads, relations, fallback=fallback)
    if json:
        typer.echo(json_module.dumps({**report.to_dict(), "sentences_per_second": speed}, indent=2))
    else:
        typer.echo(report.text() + ("" if speed is None else f"{speed:.0f} sentences a second\n"), nl=False)
