"""``loglinear parse``: train a parser on trees, parse sentences, score and draw trees."""

from __future__ import annotations

import json as json_module
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loglinear.cli.common import (
    Screen,
    check_training,
    console,
    fit,
    save,
    say,
    show_differences,
    showing_warnings,
    summarise,
    working,
)
from loglinear.cli.options import (
    AgainstOptions,
    FitOptions,
    Flags,
    Given,
    ModelFile,
    ModelOutput,
    Output,
    add,
    flag,
    flags_of,
    verbs,
)
from loglinear.errors import DataError, OptionError
from loglinear.estimators.options import DependencyOptions, ParserOptions
from loglinear.options import READ, WRITTEN, declared, option, options, spec_name
from loglinear.wording import how_many

if TYPE_CHECKING:
    from loglinear.arrays import Int64
    from loglinear.data import Column
    from loglinear.data.dependencies import Dependencies
    from loglinear.data.trees.tree import Tree
    from loglinear.estimators.parser.estimator import Parser


app = verbs("Train parsers on treebanks, parse sentences, score and draw trees.")
BLOCK = 256  # sentences parsed before their trees are written
DEPENDENCIES = "Dependencies"
DECODING = ("time_limit", "beam", "decoding")  # options of parsing, not of training
SUFFIXES = (".conllu", ".conll")


@options
class UseOptions:
    """How a file is parsed with a model."""

    threads: int | None = option("threads; all cores if not given", default=None, least=1)
    dependencies: bool = option("read the file as CoNLL-U, whatever its name", default=False)
    quiet: bool = option("print nothing but errors", default=False, flags=("-q", "--quiet"))


@options
class ScoreOptions:
    """What the gold trees are compared with, and how."""

    model: Path | None = option("parse the sentences with this model and compare", default=None, file=READ)
    pred: str | None = option("file of predicted trees; an empty tree, (), is a failure", default=None, file=READ)
    max_length: int | None = option(
        "only score sentences of at most this many words, punctuation included", default=None, least=1
    )
    json: bool = option("print JSON", default=False)
    particles_apart: bool = option("ADVP and PRT are different labels; evalb takes them for one", default=False)


@add(app, "train")
def train_command(
    output: ModelOutput,
    phrases: Annotated[ParserOptions, Flags(without=DECODING)],
    arcs: Annotated[DependencyOptions, Flags(panel=DEPENDENCIES, of="dependencies")],
    run: Annotated[FitOptions, Flags(help={"dev": "trees to stop early by"})],
    given: Given,
    trees: Annotated[
        str | None,
        typer.Argument(
            metavar="TREES",
            help="Bracketed trees or CoNLL-U (also .gz, or -); may be left out with --raw or --brackets.",
        ),
        READ,
    ] = None,
    raw: Annotated[
        str | None,
        typer.Option(
            "--raw", metavar="FILE", help="Sentences without trees, one a line, to learn from too, by EM (pcfg-em)."
        ),
        READ,
    ] = None,
    brackets: Annotated[
        str | None,
        typer.Option(
            "--brackets",
            metavar="FILE",
            help="Sentences with some phrases in brackets, (the dog) barked, to learn from too, by EM (pcfg-em).",
        ),
        READ,
    ] = None,
    dependencies: Annotated[bool, flag(UseOptions, "dependencies")] = False,
    set: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set an option of dependency parsers by name: projective=no.",
            rich_help_panel=DEPENDENCIES,
        ),
    ] = None,
) -> None:
    """Train a parser on a treebank, or a dependency parser on CoNLL-U, and write a model file.

    Examples
    --------
    loglinear parse train wsj.mrg -o wsj.model
    loglinear parse train wsj.mrg -o small.model --vertical 2 --horizontal 2     (the parent's label, two siblings)
    loglinear parse train wsj.mrg -o plain.model --annotation none --horizontal all
    loglinear parse train annotated.mrg -o own.model --marks "^-"     (trees with labels like NP^S-TMP)
    loglinear parse train some.mrg --raw news.txt -o em.model     (by EM from the grammar of the trees: pcfg-em)
    loglinear parse train --brackets some.txt -o em.model --criterion pcfg-em:start=random,phrases=10,tags=20
    loglinear parse train ewt.conllu -o ewt.model --criterion cll --dev dev.conllu --no-projective
    loglinear parse train ewt.conllu -o ewt.model --resume     (after Ctrl-C)
    """
    out = console(run.quiet)
    of_phrases, of_arcs = flags_of(ParserOptions), flags_of(DependencyOptions)
    if trees is not None and is_dependencies(trees, dependencies):
        reject_phrase_options(given, "--raw", "--brackets", *(name for name in of_phrases if name not in of_arcs))
        _train_dependencies(trees, _with_settings(arcs, set or []), output, run, out)
        return
    if others := [name for name in (*of_arcs, "--set") if name in given and name not in of_phrases]:
        raise OptionError(f"{' and '.join(others)}: only for dependencies (CoNLL-U); give --dependencies, or leave out")
    sentences = {"--raw": raw, "--brackets": brackets}
    if trees is None and not any(sentences.values()):
        raise OptionError("give what to learn from: TREES or, for EM, sentences by --raw or --brackets")
    if any(sentences.values()) and "--criterion" not in given:
        phrases = replace(phrases, criterion="pcfg-em")
    _train_phrases(trees, sentences, phrases, output, run, out)


def _train_phrases(
    trees: str | None,
    sentences: dict[str, str | None],
    model: ParserOptions,
    output: Path,
    run: FitOptions,
    out: Screen,
) -> None:
    """Train on bracketed trees, and on files of sentences by their flags, and write a model file."""
    from loglinear.data.trees.cleaning import read_treebank
    from loglinear.data.trees.tree import Tree, TreesAndSentences, read_sentences, read_trees_and_sentences
    from loglinear.estimators.parser.estimator import Parser
    from loglinear.estimators.parser.inputs import given_examples

    parser = Parser(**vars(model))
    parser.check_options()
    if (files := [flag for flag, file in sentences.items() if file is not None]) and not parser.takes_sentences:
        raise OptionError(
            f"{' and '.join(files)}: criterion={parser.criterion!r} learns from trees alone; "
            "--criterion pcfg-em and m-estimation learn from sentences, too"
        )
    check_training(output, run)

    by_em = spec_name(parser.criterion) == "pcfg-em"

    def read(source: str) -> Sequence[Tree | list[str]]:
        return read_trees_and_sentences(source) if by_em else read_treebank(source, model.function_tags, model.marks)

    with showing_warnings(out), working(out, f"reading {trees or ' and '.join(filter(None, sentences.values()))}"):
        treebank: Sequence[Tree | list[str]] = TreesAndSentences([], [], []) if trees is None else read(trees)
        for flag_name, file in sentences.items():
            if file is not None:
                if flag_name == "--raw":
                    _reject_trees(file)
                if not isinstance(treebank, TreesAndSentences):
                    n = len(treebank)
                    treebank = TreesAndSentences(treebank, [str(trees)] * n, [None] * n)
                treebank = treebank.and_also(read_sentences(file, brackets=flag_name == "--brackets"))
        dev = None if run.dev is None else read(run.dev)
    known = treebank.brackets if isinstance(treebank, TreesAndSentences) else None
    metric = "F1" if dev is None or all(isinstance(tree, Tree) for tree in dev) else "probability of a word"
    fit(parser, treebank, run, out, output=output, metric=metric, y=known, X_dev=dev)
    save(parser, output)
    grammar, left_out, hidden = parser.model_.grammar, "", not all(isinstance(each, Tree) for each in treebank)
    what = "sentence" if hidden or by_em else "tree"
    if parser.max_length is not None:
        longer = sum(len(example.words) > parser.max_length for example in given_examples(parser, treebank))
        left_out = f"; {how_many(longer, what)} longer than {parser.max_length:,} left out"
    summarise(
        parser, out, output,
        data=f"{how_many(parser.n_trees_, what)}, {how_many(parser.n_words_, 'word')}, "
        f"{how_many(len(parser.classes_), 'label')}{left_out}",
        features=f"{how_many(grammar.n_symbols, 'symbol')}, {how_many(grammar.n_binary, 'binary rule')}, "
        f"{how_many(grammar.n_steps, 'unary step')}, "
        f"{how_many(grammar.n_preterminals, 'part of speech', 'parts of speech')}",
        following="loglinear parse eval TREES --model MODEL;  loglinear parse run MODEL SENTENCES",
    )  # fmt: skip


def _reject_trees(file: str) -> None:
    """Reject a treebank as the file of --raw, where brackets and labels would be read as words."""
    from loglinear.data.files import read_bytes

    if file == "-":  # can be read once only
        return
    lines = read_bytes(file)[:100_000].decode("utf-8", errors="replace").splitlines()
    first = next((line.strip() for line in lines if line.strip()), "")
    if re.match(r"\(\s*(\S+\s+)?\(\s*\S", first) or re.fullmatch(r"\(\s*[^\s()]+", first):
        raise OptionError(
            f"--raw {file} begins with a tree ({first!r:.40}), whose brackets and labels would be read as words; give "
            "a treebank as TREES, sentences with some brackets as --brackets, and plain sentences as --raw"
        )


def _train_dependencies(source: str, model: DependencyOptions, output: Path, run: FitOptions, out: Screen) -> None:
    """Train on a CoNLL-U file and write a model file."""
    from loglinear.data.dependencies import read_conllu
    from loglinear.estimators.dependency.estimator import DependencyParser
    from loglinear.estimators.options import check_dependency_parser

    parser = DependencyParser(**vars(model))
    check_dependency_parser(parser)
    check_training(output, run)
    with working(out, f"reading {source}"):
        corpus = read_conllu(source, single_root=parser.single_root)
        dev = None if run.dev is None else read_conllu(run.dev, single_root=parser.single_root)
    seconds = fit(parser, corpus, run, out, output=output, metric="heads right", X_dev=dev)
    save(parser, output)
    relations, left_out = parser.model_.relations, corpus.n_sentences - (parser.n_trees_ or 0)
    known = "no relations" if relations is None else how_many(len(relations.labels), "relation")
    longer = f" ({left_out:,} longer than {parser.max_length} left out)" if left_out else ""
    summarise(
        parser, out, output,
        data=f"{how_many(parser.n_trees_ or 0, 'tree')}{longer}, {how_many(parser.n_tokens_ or 0, 'token')}, {known}",
        features=f"{parser.model_.features.n_features:,} of arcs",
        metric=" % of the heads right",
        seconds=seconds,
        following="loglinear parse eval GOLD.conllu --model MODEL;  loglinear parse run MODEL FILE.conllu",
    )  # fmt: skip


def _with_settings(model: DependencyOptions, settings: list[str]) -> DependencyOptions:
    """The options, changed by settings such as ``projective=no``."""
    known = declared(DependencyOptions)
    values = {name: value for name, value in vars(model).items() if value != known[name].default}
    for setting in settings:
        name, equals, text = (part.strip() for part in setting.partition("="))
        name = name.replace("-", "_")
        if not equals or name not in known:
            raise OptionError(f"--set {setting!r}: give NAME=VALUE with one of {', '.join(known)}")
        value = known[name].read(text)
        if values.setdefault(name, value) != value:
            raise OptionError(f"--set {setting!r}: {name} is also given as {values[name]!r}")
    return DependencyOptions(**values)


@add(app, "run")
def run_command(
    model: ModelFile,
    parsing: Annotated[ParserOptions, Flags(only=DECODING)],
    use: UseOptions,
    given: Given,
    input: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="Sentences, one a line, words separated by blanks (also .gz, or - for standard input).",
        ),
        READ,
    ] = "-",
    output: Output = "-",
    draw: Annotated[bool, typer.Option("--draw", help="Draw the trees instead of writing brackets.")] = False,
    log_prob: Annotated[
        bool,
        typer.Option(
            "--log-prob",
            help="Write log p(words), the sum over all trees, instead of a tree (models of pcfg, pcfg-em).",
        ),
    ] = False,
) -> None:
    """Parse sentences: a tree a line; a blank line for a blank line; (ROOT (NOPARSE ...)) where there is no parse.

    Examples
    --------
    echo "The dog saw a cat ." | loglinear parse run wsj.model
    loglinear parse run wsj.model sentences.txt -o sentences.mrg --time-limit 10
    echo "The dog saw a cat ." | loglinear parse run wsj.model --draw
    loglinear parse run wsj.model sentences.txt --log-prob     (a number a line; -inf where there is no parse)
    loglinear parse run ewt.model tagged.conllu -o parsed.conllu
    """
    from loglinear.data import atomic_output
    from loglinear.data.files import source_name
    from loglinear.data.trees.drawing import draw as drawn
    from loglinear.data.trees.tree import read_text_of

    out = console(use.quiet)
    if is_dependencies(input, use.dependencies, model):
        reject_phrase_options(given, "--draw", "--log-prob", "--time-limit", "--beam", "--decoding")
        _run_dependencies(model, input, output, use.threads, out)
        return
    parser = _loaded(model, use.threads, parsing)
    lines = read_text_of(input).split("\n")
    if lines[-1] == "":
        lines.pop()
    sentences = [line.split() for line in lines]
    if log_prob:
        if wrong := [name for name in ("--draw", "--time-limit", "--beam", "--decoding") if name in given]:
            raise OptionError(
                f"--log-prob sums over all trees exactly, and writes none; leave out {' and '.join(wrong)}"
            )
        _write_log_prob(parser, sentences, output, out)
        return
    with _progress(out, "parsing", sum(map(bool, sentences))) as advance, atomic_output(output) as stream:
        for first in range(0, len(sentences), BLOCK):
            block = sentences[first : first + BLOCK]
            parses = iter(parser.parse([words for words in block if words], observe=advance))
            for line, words in enumerate(block, first + 1):
                parse = next(parses) if words else None
                if parse is not None and parse.failure:
                    _report_failure(out, f"{source_name(input)}:{line}", parse.failure)
                text = "" if parse is None else drawn(parse.tree, out.width) if draw else str(parse.tree)
                stream.write(text.encode() + b"\n")


def _write_log_prob(parser: Parser, sentences: list[list[str]], output: str, out: Screen) -> None:
    """log p(words) of each sentence, a blank line for a blank line, and the perplexity of all on the console."""
    import numpy as np

    from loglinear.data import atomic_output

    some = [words for words in sentences if words]
    with working(out, f"summing over the trees of {how_many(len(some), 'sentence')}"):
        values = parser.log_prob(some)
    left = iter(values.tolist())
    with atomic_output(output) as stream:
        for words in sentences:
            stream.write(f"{next(left):.6f}\n".encode() if words else b"\n")
    n_words, possible = sum(map(len, some)), int(np.isfinite(values).sum())
    if possible < len(some):
        out.print(f"{len(some) - possible:,} of {len(some):,} sentences have no parse, and probability 0")
    elif n_words:
        out.print(f"{how_many(n_words, 'word')}, perplexity {np.exp(-values.sum() / n_words):,.2f} a word")


@add(app, "eval")
def eval_command(
    gold: Annotated[str, typer.Argument(metavar="GOLD", help="Gold trees (also .gz, or - for standard input)."), READ],
    parsing: Annotated[
        ParserOptions,
        Flags(
            only=("marks", "function_tags", *DECODING),
            help={"marks": "cut labels at these characters first, as ^- for NP^S-TMP"},
        ),
    ],
    asked: ScoreOptions,
    other: AgainstOptions,
    use: UseOptions,
    given: Given,
) -> None:
    """Score trees as evalb does: labelled precision, recall and F1, exact match, parts of speech, failures.

    With --against, two parsers are compared: by what they get right, and by tests of whether that is chance.

    Examples
    --------
    loglinear parse eval test.mrg --model wsj.model --max-length 40
    loglinear parse eval test.mrg --pred other-parser.mrg --json
    loglinear parse eval test.mrg --model wsj.model --against other-parser.mrg
    loglinear parse eval test.conllu --model ewt.model --against other.model
    """
    from loglinear.data.trees.cleaning import read_treebank, without_marks
    from loglinear.evaluation.brackets import bracket_scores
    from loglinear.evaluation.paired import paired_brackets
    from loglinear.model_file import is_model

    other.reject_alone(given)
    if (asked.model is None) == (asked.pred is None):
        raise OptionError("give what to compare with the gold trees: --model or --pred")
    out = console(use.quiet)
    if is_dependencies(gold, use.dependencies, asked.model):
        reject_phrase_options(
            given, "--marks", "--function-tags", "--particles-apart", "--time-limit", "--beam", "--decoding"
        )
        _evaluate_dependencies(gold, asked, other, use.threads, out)
        return
    with showing_warnings(out):
        trees = read_treebank(gold, parsing.function_tags, parsing.marks)
    chosen = [n for n, tree in enumerate(trees) if len(tree.leaves()) <= (asked.max_length or len(tree.leaves()))]
    if not chosen:
        raise DataError(f"no sentence has at most {asked.max_length} words", gold)
    first = str(asked.model or asked.pred)
    systems = [
        _parsed(_loaded(Path(source), use.threads, parsing), [trees[n].leaves() for n in chosen], out)
        if model
        else _Parses(_read_predicted(source, parsing, trees, gold, chosen))
        for source, model in ((first, asked.model is not None), (other.against, is_model(other.against or "")))
        if source is not None
    ]
    kept = [trees[n] if not parsing.marks else without_marks(trees[n], parsing.marks) for n in chosen]
    reports = []
    for parses in systems:
        predicted = parses.trees
        if parsing.marks:
            predicted = [None if tree is None else without_marks(tree, parsing.marks) for tree in predicted]
        apart = asked.particles_apart
        reports.append(bracket_scores(kept, predicted, same_particle=not apart, failed=parses.failed))
    if other.against is not None:
        facts = [report.to_dict(parses.speed) for report, parses in zip(reports, systems, strict=True)]
        tests = paired_brackets(reports[0], reports[1], draws=other.draws)
        show_differences(tests, [first, other.against], facts, asked.json)
    elif asked.json:
        say(json_module.dumps(reports[0].to_dict(systems[0].speed), indent=2))
    else:
        say(reports[0].text(systems[0].speed), nl=False)
        say(systems[0].note, nl=False)


@dataclass(frozen=True)
class _Parses:
    """Predicted trees of the sentences, None without one.

    ``failed`` are those without a parse (None: not known), ``speed`` is in sentences a second, ``note`` a line about
    the search.
    """

    trees: Sequence[Tree | None]
    failed: list[bool] | None = None
    speed: float | None = None
    note: str = ""


def _parsed(parser: Parser, sentences: list[list[str]], out: Screen) -> _Parses:
    parser.parse(sentences[:1])  # loads the kernels, which the speed does not include
    with _progress(out, "parsing", len(sentences)) as advance:
        began = time.perf_counter()
        parses = parser.parse(sentences, observe=advance)
        speed = len(sentences) / max(time.perf_counter() - began, 1e-9)
    narrowest = min(parse.beam for parse in parses)
    again = sum(parse.beam > narrowest and not parse.failure for parse in parses)
    note = f"beam       {how_many(again, 'sentence')} had no tree within {narrowest:g}, and were searched again\n"
    return _Parses(
        [parse.tree for parse in parses], [bool(parse.failure) for parse in parses], speed, note * bool(again)
    )


def _read_predicted(
    source: str, parsing: ParserOptions, gold: Sequence[Tree], gold_file: str, chosen: list[int]
) -> list[Tree | None]:
    """Predicted trees of the chosen sentences, None for empty ones; trees of other words are rejected."""
    from loglinear.data.files import source_name
    from loglinear.data.trees.cleaning import clean
    from loglinear.data.trees.tree import numbered_trees, read_text_of, tree_word

    name = source_name(source)
    lines, trees = [], []
    for line, tree in numbered_trees(read_text_of(source), name):
        lines.append(line)
        trees.append(None if tree is None else clean(tree, parsing.function_tags, parsing.marks))
    if len(trees) != len(gold):
        raise DataError(f"{how_many(len(gold), 'tree')}, but {len(trees)} in {source}", gold_file)
    for n in chosen:
        tree, words = trees[n], gold[n].leaves()
        if tree is not None and [*map(tree_word, tree.leaves())] != [*map(tree_word, words)]:
            text = " ".join(words)
            raise DataError(f"the words of tree {n + 1} are not those in {gold_file}: {text!r:.60}", name, lines[n])
    return [trees[n] for n in chosen]


@add(app, "draw")
def draw_command(
    trees: Annotated[
        str, typer.Argument(metavar="TREES", help="Bracketed trees (also .gz, or - for standard input)."), READ
    ],
    tree: Annotated[int | None, typer.Option(min=1, help="Only this tree of the file, from 1.")] = None,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write one tree as SVG; - is standard output."), WRITTEN
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(min=1, help="Wider trees become outlines; as wide as the terminal if not given."),
    ] = None,
) -> None:
    """Draw trees in the terminal, or one as SVG.

    Examples
    --------
    loglinear parse draw trees.mrg
    loglinear parse draw trees.mrg --tree 3 --svg third.svg
    """
    from loglinear.data import atomic_output
    from loglinear.data.trees.drawing import draw, draw_svg
    from loglinear.data.trees.tree import read_trees

    forest = read_trees(trees)
    if tree is not None:
        if tree > len(forest):
            raise DataError(f"--tree {tree}: there is no tree {tree}, the file has {len(forest)}", trees)
        forest = [forest[tree - 1]]
    if svg is not None:
        if len(forest) > 1:
            raise OptionError(f"--svg draws one tree, but {trees} has {len(forest)}; choose one with --tree")
        with atomic_output(svg) as stream:
            stream.write(draw_svg(forest[0]).encode())
        return
    cells = width or console().width
    say("\n".join(draw(each, cells) for each in forest), nl=False)


# -- what the verbs share ----------------------------------------------------------------------------------------------


def _loaded(model: Path, threads: int | None, parsing: ParserOptions) -> Parser:
    from loglinear.estimators.parser.estimator import Parser

    return Parser.load(model).set_params(threads=threads, **{name: getattr(parsing, name) for name in DECODING})


def _report_failure(out: Screen, place: str, reason: str) -> None:
    out.print(f"loglinear: {place}: {reason}: used a fallback tree instead")


@contextmanager
def _progress(out: Screen, what: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar in a terminal, nothing elsewhere; gives what to call for each sentence."""
    if not out.is_terminal or out.quiet:
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.advance(task)


def is_dependencies(path: str | None, asked: bool, model: Path | None = None) -> bool:
    """Whether a file is CoNLL-U: by its name, because the user says so, or by the model it is used with."""
    if asked or (path is not None and path.removesuffix(".gz").endswith(SUFFIXES)):
        return True
    if model is None:
        return False
    from loglinear import model_file
    from loglinear.estimators.dependency.file import KIND

    return model_file.load(model).kind == KIND


def reject_phrase_options(given: Given, *flags: str) -> None:
    """Reject those of the flags that were given: they are for phrases alone."""
    if wrong := [name for name in flags if name in given]:
        make = "makes" if len(wrong) == 1 else "make"
        raise OptionError(f"{' and '.join(wrong)} {make} no sense for dependencies (CoNLL-U), only for phrases")


# -- dependencies ------------------------------------------------------------------------------------------------------


def _run_dependencies(model: Path, source: str, output: str, threads: int | None, out: Screen) -> None:
    """Parse a tagged CoNLL-U file: the same file with heads and relations."""
    from loglinear.data import atomic_output
    from loglinear.data.dependencies import read_conllu, write_conllu
    from loglinear.estimators.dependency.estimator import DependencyParser

    parser = DependencyParser.load(model).set_params(threads=threads)
    corpus = read_conllu(source, trees=False)
    with working(out, f"parsing {how_many(corpus.n_sentences, 'sentence')}"):
        parses = parser.parse(corpus)
    for s in parses.fallback.nonzero()[0].tolist():
        first, end = corpus.offsets[s : s + 2].tolist()
        reason = f"{how_many(end - first, 'token')} are too many (parse_length={parser.parse_length})"
        _report_failure(out, f"{corpus.file}:{corpus.lines[first]}", reason)
    with atomic_output(output) as stream:
        write_conllu(corpus, stream, parses.heads, parses.relations)


def _evaluate_dependencies(
    gold: str, asked: ScoreOptions, other: AgainstOptions, threads: int | None, out: Screen
) -> None:
    """UAS and LAS of a model, or of a file of predictions, on a CoNLL-U file; of two of them if there is a second."""
    import numpy as np

    from loglinear.data.dependencies import read_conllu
    from loglinear.evaluation.attachment import attachment_scores
    from loglinear.evaluation.paired import paired_attachments
    from loglinear.model_file import is_model

    whole = read_conllu(gold, single_root=False)
    chosen = np.flatnonzero(np.diff(whole.offsets) <= (asked.max_length or whole.n_tokens))
    if not len(chosen):
        raise DataError(f"no sentence has at most {asked.max_length} tokens", gold)
    corpus, first = whole.select(chosen), str(asked.model or asked.pred)
    systems = [
        _parsed_arcs(source, corpus, threads, out) if model else _read_arcs(source, whole, chosen)
        for source, model in ((first, asked.model is not None), (other.against, is_model(other.against or "")))
        if source is not None
    ]
    reports = [attachment_scores(corpus, each.heads, each.relations, fallback=each.fallback) for each in systems]
    facts = [
        {**report.to_dict(), "sentences_per_second": each.speed} for report, each in zip(reports, systems, strict=True)
    ]
    if other.against is not None:
        arcs = [(each.heads, each.relations) for each in systems]
        tests = paired_attachments(corpus, arcs[0], arcs[1], draws=other.draws)
        show_differences(tests, [first, other.against], facts, asked.json)
    elif asked.json:
        say(json_module.dumps(facts[0], indent=2))
    else:
        speed = systems[0].speed
        say(reports[0].text() + ("" if speed is None else f"{speed:.0f} sentences a second\n"), nl=False)


@dataclass(frozen=True)
class _Arcs:
    """Heads [N] and relations of a corpus; which sentences have a fallback tree [S], and sentences a second."""

    heads: Any
    relations: Column | None
    fallback: Any = None
    speed: float | None = None


def _parsed_arcs(model: str, corpus: Dependencies, threads: int | None, out: Screen) -> _Arcs:
    from loglinear.estimators.dependency.estimator import DependencyParser

    parser = DependencyParser.load(model).set_params(threads=threads)
    parser.parse(corpus.select([0]))  # loads the kernels, which the speed does not include
    with working(out, f"parsing {how_many(corpus.n_sentences, 'sentence')}"):
        began = time.perf_counter()
        parses = parser.parse(corpus)
        speed = corpus.n_sentences / max(time.perf_counter() - began, 1e-9)
    return _Arcs(parses.heads, parses.relations, parses.fallback, speed)


def _read_arcs(source: str, gold: Dependencies, chosen: Int64) -> _Arcs:
    """The arcs of the chosen sentences in a file, which must have the gold file's words."""
    import numpy as np

    from loglinear.data.dependencies import read_conllu

    read = read_conllu(source, single_root=False)
    lengths, others = np.diff(gold.offsets), np.diff(read.offsets)
    shared = min(len(lengths), len(others))
    differ = np.flatnonzero(lengths[:shared] != others[:shared])
    if len(differ):
        s = int(differ[0])
        line, message = (
            int(read.lines[read.offsets[s]]),
            f"{how_many(others[s], 'token')}, but {lengths[s]} in {gold.file}",
        )
        raise DataError(f"sentence {s + 1} is not that of the gold file: {message}", source, line)
    if len(lengths) != len(others):
        counts = f"{how_many(len(others), 'sentence')}, but {len(lengths)} in the gold file"
        raise DataError(f"the sentences are not those of {gold.file}: {counts}", source)
    words = zip(read.words.strings(), gold.words.strings(), strict=True)
    for t, (word, expected) in enumerate(words):
        if word != expected:
            place = f"{gold.file}:{gold.lines[t]}"
            raise DataError(f"the word is {word!r:.60}, but {expected!r:.60} in {place}", source, int(read.lines[t]))
    arcs = read.select(chosen)
    return _Arcs(arcs.heads, arcs.relations if arcs.has_relations else None)
