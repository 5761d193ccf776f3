"""``loglinear parse``: train a parser on trees, parse sentences, see how good the trees are, draw them."""

from __future__ import annotations

import json as json_module
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loglinear.cli.common import Threads, console, working
from loglinear.estimators.options import ParserOptions
from loglinear.options import declared

if TYPE_CHECKING:
    from rich.console import Console

    from loglinear.data.trees.tree import Tree
    from loglinear.estimators.dependency.estimator import DependencyParser
    from loglinear.estimators.parser.estimator import Parser


app = typer.Typer(
    help="Train parsers on treebanks, parse sentences, score and draw trees.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
BLOCK = 256  # sentences parsed before their trees are written
PARSER_OPTIONS = declared(ParserOptions)
_TIME_LIMIT = PARSER_OPTIONS["time_limit"].default
GRAMMAR, TREES, RUN, DEPENDENCIES = "The grammar", "The trees", "The run", "Dependencies"

TRAIN_EXAMPLES = """
[bold]Examples[/bold]

loglinear parse train wsj.mrg -o wsj.model

loglinear parse train wsj.mrg -o small.model --vertical 2 --horizontal 2     (the parent's label, two siblings)

loglinear parse train wsj.mrg -o plain.model --annotation none --horizontal all

loglinear parse train annotated.mrg -o own.model --marks "^-"     (trees with labels like NP^S-TMP)

loglinear parse train ewt.conllu -o ewt.model --criterion cll --dev dev.conllu --set projective=no
"""
RUN_EXAMPLES = """
[bold]Examples[/bold]

echo "The dog saw a cat ." | loglinear parse run wsj.model

loglinear parse run wsj.model sentences.txt -o sentences.mrg --time-limit 10

echo "The dog saw a cat ." | loglinear parse run wsj.model --draw

loglinear parse run ewt.model tagged.conllu -o parsed.conllu
"""
EVAL_EXAMPLES = """
[bold]Examples[/bold]

loglinear parse eval test.mrg --model wsj.model --max-length 40

loglinear parse eval test.mrg --pred other-parser.mrg --json
"""
DRAW_EXAMPLES = """
[bold]Examples[/bold]

loglinear parse draw trees.mrg

loglinear parse draw trees.mrg --tree 3 --svg third.svg
"""


def _option(name: str, *flags: str, panel: str, **extra: Any) -> Any:
    """A command-line option for the parser's option of that name."""
    each = PARSER_OPTIONS[name]
    choices = f" ({', '.join(map(str, each.choices))})" if each.choices and not each.is_switch else ""
    return typer.Option(
        *flags,
        help=each.help[0].upper() + each.help[1:] + choices + ".",
        show_default=each.default is not None and not each.is_switch,
        rich_help_panel=panel,
        **extra,
    )


FunctionTags = Annotated[bool, _option("function_tags", "--function-tags", panel=TREES)]
TimeLimit = Annotated[float | None, _option("time_limit", panel=RUN, metavar="SECONDS")]
Decoding = Annotated[str, _option("decoding", panel=RUN)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Dependencies = Annotated[
    bool, typer.Option("--dependencies", help="The file is CoNLL-U, also if its name does not end in .conllu.")
]


@app.command("train", epilog=TRAIN_EXAMPLES)
def train_command(
    context: typer.Context,
    trees: Annotated[str, typer.Argument(metavar="TREES", help="Bracketed trees (also .gz, or - for standard input).")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="MODEL", help="Model file to write.")],
    criterion: Annotated[str, _option("criterion", panel=GRAMMAR)] = PARSER_OPTIONS["criterion"].default,
    annotation: Annotated[str | None, _option("annotation", panel=GRAMMAR)] = None,
    vertical: Annotated[int | None, _option("vertical", panel=GRAMMAR)] = None,
    horizontal: Annotated[str, _option("horizontal", panel=GRAMMAR)] = str(PARSER_OPTIONS["horizontal"].default),
    factor: Annotated[str, _option("factor", panel=GRAMMAR)] = PARSER_OPTIONS["factor"].default,
    marks: Annotated[str, _option("marks", panel=TREES)] = PARSER_OPTIONS["marks"].default,
    function_tags: FunctionTags = False,
    max_length: Annotated[int | None, _option("max_length", panel=TREES)] = None,
    threads: Threads = None,
    seed: Annotated[int, _option("seed", panel=RUN)] = PARSER_OPTIONS["seed"].default,
    dependencies: Dependencies = False,
    dev: Annotated[
        str | None, typer.Option(metavar="FILE", help="CoNLL-U to stop early by.", rich_help_panel=DEPENDENCIES)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Option of a dependency parser, as in projective=no.",
            rich_help_panel=DEPENDENCIES,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Train a parser on a treebank, or on CoNLL-U, and write a model file."""
    from loglinear.cli.common import TrainingDisplay
    from loglinear.cli.train import check_place
    from loglinear.data.trees.cleaning import read_treebank
    from loglinear.errors import OptionError
    from loglinear.estimators.parser.estimator import Parser
    from loglinear.training.run import TrainingInterrupted

    out = console()
    out.quiet = quiet
    check_place(output)
    if is_dependencies(trees, dependencies):
        phrases = ("annotation", "vertical", "horizontal", "factor", "marks", "function_tags")
        refuse_phrase_options(context, *phrases)
        given = given_options(context, "criterion", "max_length", "threads", "seed")
        try:
            with _warnings_shown(out):
                train(trees, output, dev, settings or [], given, out)
        except TrainingInterrupted as interruption:
            typer.echo(f"loglinear: {interruption}", err=True)
            raise typer.Exit(130) from None
        return
    if dev is not None or settings:
        raise OptionError("--dev and --set are for dependencies (CoNLL-U)")
    parser = Parser(
        criterion=criterion, annotation=annotation, vertical=vertical, horizontal=_siblings(horizontal), factor=factor,
        marks=marks, function_tags=function_tags, max_length=max_length, threads=threads, seed=seed,
    )  # fmt: skip
    parser.check_options()
    with _warnings_shown(out), working(out, f"reading {trees}"):
        treebank = read_treebank(trees, function_tags, marks)
    with _warnings_shown(out), TrainingDisplay(out, None) as display:
        parser.fit(treebank, observe=display.observe)
    parser.save(output)
    _summarise(parser, output, out, len(treebank) - parser.n_trees_)
    if parser.interrupted_:
        sys.stderr.write(f"loglinear: training interrupted: {output} holds what was learnt so far\n")
        raise typer.Exit(130)


def _siblings(text: str) -> int | None:
    from loglinear.errors import OptionError

    if text == "all":
        return None
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"--horizontal {text!r} must be a whole number, or all") from None


def _summarise(parser: Parser, output: Path, out: Console, n_longer: int) -> None:
    grammar = parser.model_.grammar
    left_out = "" if parser.max_length is None else f"; {n_longer:,} trees longer than {parser.max_length:,} left out"
    data = f"{parser.n_trees_:,} trees, {parser.n_words_:,} words, {len(parser.classes_):,} labels"
    out.print(f"data       {data}{left_out}")
    out.print(
        f"grammar    {grammar.n_symbols:,} symbols, {grammar.n_binary:,} binary rules, {grammar.n_steps:,} unary "
        f"steps, {grammar.n_preterminals:,} parts of speech"
    )
    out.print(f"training   {parser.message_}; {parser.seconds_:.1f} s")
    out.print(f"model      {output} ({output.stat().st_size / 1e6:.1f} MB)")
    out.print(f"next       loglinear parse eval TREES --model {output};  loglinear parse run {output} SENTENCES")


@app.command("run", epilog=RUN_EXAMPLES)
def run_command(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.")],
    input: Annotated[
        str,
        typer.Argument(
            metavar="INPUT", help="Sentences, one a line, words apart by blanks (also .gz, or - for standard input)."
        ),
    ] = "-",
    output: Annotated[str, typer.Option("-o", "--output", help="Where to write; - is standard output.")] = "-",
    draw: Annotated[bool, typer.Option("--draw", help="Draw the trees instead of writing brackets.")] = False,
    time_limit: TimeLimit = _TIME_LIMIT,
    decoding: Decoding = "viterbi",
    threads: Threads = None,
    dependencies: Dependencies = False,
    quiet: Quiet = False,
) -> None:
    """Parse sentences: a tree a line; a blank line for a blank line; (ROOT (NOPARSE ...)) where there is no parse."""
    from loglinear.data import atomic_output
    from loglinear.data.files import source_name
    from loglinear.data.trees.drawing import draw as drawn
    from loglinear.data.trees.tree import read_text_of

    out = console()
    out.quiet = quiet
    if is_dependencies(input, dependencies, model):
        refuse_phrase_options(context, "draw", "time_limit", "decoding")
        run(model, input, output, threads, out)
        return
    parser = _loaded(model, threads, time_limit, decoding)
    lines = read_text_of(input).split("\n")
    if lines[-1] == "":
        lines.pop()
    sentences = [line.split() for line in lines]
    with _progress(out, "parsing", sum(map(bool, sentences))) as advance, atomic_output(output) as stream:
        for first in range(0, len(sentences), BLOCK):
            block = sentences[first : first + BLOCK]
            parses = iter(parser.parse([words for words in block if words], observe=advance))
            for line, words in enumerate(block, first + 1):
                parse = next(parses) if words else None
                if parse is not None and parse.failure:
                    where = f"{source_name(input)}:{line}"
                    out.print(f"loglinear: {where}: {parse.failure}: a fallback tree stands for it", markup=False)
                text = "" if parse is None else drawn(parse.tree, out.width) if draw else str(parse.tree)
                stream.write(text.encode() + b"\n")


@app.command("eval", epilog=EVAL_EXAMPLES)
def eval_command(
    context: typer.Context,
    gold: Annotated[str, typer.Argument(metavar="GOLD", help="Gold trees (also .gz, or - for standard input).")],
    model: Annotated[Path | None, typer.Option(help="Parse the sentences with this model and compare.")] = None,
    pred: Annotated[str | None, typer.Option(help="File of predicted trees; an empty one, (), is no parse.")] = None,
    max_length: Annotated[
        int | None, typer.Option(min=1, help="Only sentences of at most so many words, punctuation counted.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    marks: Annotated[str, typer.Option(help="Cut labels at these characters first, as ^- for NP^S-TMP.")] = "",
    function_tags: FunctionTags = False,
    particles_apart: Annotated[
        bool, typer.Option("--particles-apart", help="ADVP and PRT are different labels; evalb takes them for one.")
    ] = False,
    time_limit: TimeLimit = _TIME_LIMIT,
    decoding: Decoding = "viterbi",
    threads: Threads = None,
    dependencies: Dependencies = False,
    quiet: Quiet = False,
) -> None:
    """Score trees as evalb does: labelled precision, recall and F1, exact match, parts of speech, failures."""
    from loglinear.data.trees.cleaning import clean, read_treebank, without_marks
    from loglinear.errors import DataError, OptionError
    from loglinear.evaluation.brackets import bracket_scores

    if (model is None) == (pred is None):
        raise OptionError("give what to compare with the gold trees: --model or --pred")
    out = console()
    out.quiet = quiet
    if is_dependencies(gold, dependencies, model):
        phrases = ("marks", "function_tags", "particles_apart", "time_limit", "decoding")
        refuse_phrase_options(context, *phrases)
        evaluate(gold, model, pred, max_length, json, threads, out)
        return
    with _warnings_shown(out):
        trees = read_treebank(gold, function_tags, marks)
    predicted: list[Tree | None] = []
    if pred is not None:
        predicted = [None if tree is None else clean(tree, function_tags, marks) for tree in _read_predicted(pred)]
        if len(predicted) != len(trees):
            raise DataError(f"{len(trees)} trees, but {len(predicted)} in {pred}", gold)
    chosen = [n for n, tree in enumerate(trees) if max_length is None or len(tree.leaves()) <= max_length]
    if not chosen:
        raise DataError(f"no sentence has at most {max_length} words", gold)
    trees, speed, failed = [trees[n] for n in chosen], None, None
    if model is not None:
        parser = _loaded(model, threads, time_limit, decoding)
        sentences = [tree.leaves() for tree in trees]
        parser.parse(sentences[:1])  # loads the kernels, which is no part of the speed
        with _progress(out, "parsing", len(sentences)) as advance:
            begin = time.perf_counter()
            parses = parser.parse(sentences, observe=advance)
            speed = len(sentences) / max(time.perf_counter() - begin, 1e-9)
        predicted, failed = [parse.tree for parse in parses], [bool(parse.failure) for parse in parses]
    else:
        predicted = [predicted[n] for n in chosen]
    if marks:
        trees = [without_marks(tree, marks) for tree in trees]
        predicted = [None if tree is None else without_marks(tree, marks) for tree in predicted]
    report = bracket_scores(trees, predicted, same_particle=not particles_apart, failed=failed)
    if json:
        typer.echo(json_module.dumps(report.to_dict(speed), indent=2))
    else:
        typer.echo(report.text(speed), nl=False)


def _read_predicted(source: str) -> list[Tree | None]:
    """Predicted trees, None for empty ones."""
    from loglinear.data.files import source_name
    from loglinear.data.trees.tree import numbered_trees, read_text_of

    return [tree for _, tree in numbered_trees(read_text_of(source), source_name(source))]


@app.command("draw", epilog=DRAW_EXAMPLES)
def draw_command(
    trees: Annotated[str, typer.Argument(metavar="TREES", help="Bracketed trees (also .gz, or - for standard input).")],
    tree: Annotated[int | None, typer.Option(min=1, help="Only this tree of the file, from 1.")] = None,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write one tree as SVG; - is standard output.")
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(min=1, help="Wider trees become outlines; as wide as the terminal if not given."),
    ] = None,
) -> None:
    """Draw trees in the terminal, or one as SVG."""
    from loglinear.data import atomic_output
    from loglinear.data.trees.drawing import draw, draw_svg
    from loglinear.data.trees.tree import read_trees
    from loglinear.errors import DataError, OptionError

    forest = read_trees(trees)
    if tree is not None:
        if tree > len(forest):
            raise DataError(f"there is no tree {tree}: the file has {len(forest)}", trees)
        forest = [forest[tree - 1]]
    if svg is not None:
        if len(forest) > 1:
            raise OptionError(f"--svg draws one tree, but {trees} has {len(forest)}; choose one with --tree")
        with atomic_output(svg) as stream:
            stream.write(draw_svg(forest[0]).encode())
        return
    cells = width or console().width
    typer.echo("\n".join(draw(one, cells) for one in forest), nl=False)


# -- what the verbs share --------------------------------------------------------------------------------------------


def _loaded(model: Path, threads: int | None, time_limit: float | None, decoding: str) -> Parser:
    from loglinear.estimators.parser.estimator import Parser

    return Parser.load(model).set_params(threads=threads, time_limit=time_limit, decoding=decoding)


@contextmanager
def _warnings_shown(out: Console) -> Iterator[None]:
    """Warnings as lines of their own."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
    for warning in said:
        out.print(f"loglinear: warning: {warning.message}", markup=False)


@contextmanager
def _progress(out: Console, what: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar in a terminal, nothing elsewhere; gives what to call for each sentence."""
    if not out.is_terminal or out.quiet:
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


# ----------------------------------------------------------------------------------------------------------------------
# What ``loglinear parse`` does with CoNLL-U files: the verbs of the dependency parser.


SUFFIXES = (".conllu", ".conll")


def is_dependencies(path: str | None, asked: bool, model: Path | None = None) -> bool:
    """Whether a file is CoNLL-U, by its name, because it was asked for, or by the model it goes with."""
    if asked or (path is not None and path.removesuffix(".gz").endswith(SUFFIXES)):
        return True
    if model is None:
        return False
    from loglinear import model_file
    from loglinear.estimators.dependency.file import KIND

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
    from loglinear.estimators.options import DependencyOptions

    known, values = declared(DependencyOptions), dict(given)
    for setting in settings:
        name, equals, text = (part.strip() for part in setting.partition("="))
        name = name.replace("-", "_")
        if not equals or name not in known:
            raise OptionError(f"--set {setting!r}: give NAME=VALUE with one of {', '.join(known)}")
        value = known[name].read(text)
        if values.setdefault(name, value) != value:
            raise OptionError(f"--set {setting!r}: {name} is also given as {values[name]!r}")
    return values


def train(source: str, output: Path, dev: str | None, settings: list[str], given: dict[str, Any], out: Console) -> None:
    """Train on a CoNLL-U file and write a model file; ``given`` are options of the parser beside the settings."""
    from loglinear.data.dependencies import read_conllu
    from loglinear.estimators.dependency.estimator import DependencyParser
    from loglinear.estimators.options import check_dependency_parser

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


def _loaded_dependency_parser(model: Path, threads: int | None) -> DependencyParser:
    from loglinear.estimators.dependency.estimator import DependencyParser

    parser: DependencyParser = DependencyParser.load(model).set_params(threads=threads)
    return parser


def run(model: Path, source: str, output: str, threads: int | None, out: Console) -> None:
    """Parse a CoNLL-U file with tags: the same file with heads and relations."""
    from loglinear.data import atomic_output
    from loglinear.data.dependencies import read_conllu, write_conllu

    parser = _loaded_dependency_parser(model, threads)
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

    from loglinear.data.dependencies import read_conllu
    from loglinear.errors import DataError
    from loglinear.evaluation.attachment import attachment_scores

    corpus, speed, fallback = read_conllu(gold, single_root=False), None, None
    chosen = np.flatnonzero(np.diff(corpus.offsets) <= (max_length or corpus.n_tokens))
    if not len(chosen):
        raise DataError(f"no sentence has at most {max_length} tokens", gold)
    if model is not None:
        corpus = corpus.select(chosen)
        parser = _loaded_dependency_parser(model, threads)
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
