"""Command-line flags made of declared options, and the declared options of files and runs.

The types of a verb's parameters say which options it has:

    @add(app, "train")
    def train_command(train: ..., model: TaggerOptions, files: CorpusOptions) -> None: ...

:func:`takes` replaces each parameter of an options class (:mod:`loglinear.options`) by a flag for every option of the
class, with its type, default, choices, help and panel; the verb is called with an object of the class. With
:class:`Flags` a verb leaves out or changes some of them:

    model: Annotated[TaggerOptions, Flags(only=("order", "threads"), panel="The same for all trainings")]
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand

from loglinear.cli import files as paths
from loglinear.errors import DataError, OptionError
from loglinear.estimators.options import DEV, FEATURES, MODEL, RUN, TaggerOptions
from loglinear.options import (
    READ,
    RESULTS,
    TRAINED_MODEL,
    WRITTEN,
    WRITTEN_FOLDER,
    File,
    Option,
    declared,
    option,
    options,
)
from loglinear.wording import how_many

if TYPE_CHECKING:
    from loglinear.arrays import Float
    from loglinear.data import Attributes, Columns
    from loglinear.data.files import Source
    from loglinear.data.spans import Convention
    from loglinear.data.tables import TableFile

DATA, NAMED = "The files", "Files with names, and texts with spans"
TABLE, FIXED, OUT = "The table", "The same for all trainings", "What comes out"
AGAINST = "Two systems"
PANELS = (DEV, FEATURES, MODEL, "", RUN, TABLE, DATA, NAMED, OUT)  # as --help orders them; "" is any other
ESTIMATORS = "loglinear.estimators.options"
WORDS = "loglinear.words"  # key of a context's notes: the words given after switches, by parameter
GRID = File(settings=TaggerOptions)  # OPTION=VALUES
FORMATS = (
    "auto (by content and name), columns, conllu, crfsuite, jsonl, text, csv, tsv, parquet, arrow, or of texts with "
    "spans prodigy, doccano, spacy, docbin, label-studio, label-studio-min, brat"
)


# -- from declarations to flags ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Flags:
    """Which options of a class a verb has, and how they differ from the declaration.

    Parameters
    ----------
    only, without : tuple of str
        The options it has (all if empty), and those that it leaves out.
    panel : str
        One heading for all of them, instead of those declared.
    defaults, help : mapping
        Other defaults and help texts, by name.
    of : str
        What the class is about. Options that an earlier parameter has as well share its flag; where their defaults
        differ, the help says so in these words.
    """

    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    panel: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    help: Mapping[str, str] = field(default_factory=dict)
    of: str = ""

    def options(self, cls: type) -> Iterator[Option]:
        """The chosen options, as the verb has them."""
        for name, each in declared(cls).items():
            if (not self.only or name in self.only) and name not in self.without and not each.python_only:
                changes: dict[str, Any] = {"help": self.help.get(name, each.help), "panel": self.panel or each.panel}
                yield dataclasses.replace(each, default=self.defaults.get(name, each.default), **changes)


class Given(frozenset[str]):
    """The flags given on the command line: a parameter of this type, in a verb decorated by :func:`takes`."""


@dataclass(frozen=True)
class _Holder:
    """A verb's parameter of an options class: its options, by the names of their flags, and which flags it shares."""

    cls: type
    options: dict[str, Option]
    shared: set[str]

    def make(self, values: Mapping[str, Any], given: set[str]) -> Any:
        """An object of the class; values given are checked, except those of estimators, which check them themselves."""
        arguments = {}
        for name, each in self.options.items():
            value = _value(each, values[name]) if name in given or name not in self.shared else each.default
            renamed = bool(each.flags) and not each.flags[-1].startswith("--")
            if name in given and not each.repeats and (renamed or self.cls.__module__ != ESTIMATORS):
                with _naming_flag(each):
                    each.check(value)
            arguments[each.name] = value
        return self.cls(**arguments)


def takes(verb: Callable[..., None]) -> Callable[..., None]:
    """Decorator: a verb's parameters of options classes become flags; see the module's docstring."""
    own, holders, flags = {}, {}, dict[str, tuple[Option, str]]()
    wants_given = None
    for name, parameter in inspect.signature(verb, eval_str=True).parameters.items():
        cls, chosen = _options_class(parameter.annotation)
        if cls is not None:
            found = {_parameter_name(each): each for each in chosen.options(cls)}
            holders[name] = _Holder(cls, found, set(found) & set(flags))
            for flag, each in found.items():
                first, more = flags.get(flag, (each, ""))
                if chosen.of and first.default != each.default:
                    more = f"; {each.default} by default for {chosen.of}"
                flags[flag] = first, more
        elif parameter.annotation is Given:
            wants_given = name
        else:
            own[name] = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    declared_files = {name: _file_of(parameter.annotation) for name, parameter in own.items()}
    declared_files |= {name: each.file for name, (each, _) in flags.items()}
    files = {name: file for name, file in declared_files.items() if file is not None}
    made_of_flags = (_parameter(name, each, more) for name, (each, more) in flags.items())
    parameters = [
        inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
        *sorted([*own.values(), *made_of_flags], key=_place),
    ]

    def shown(name: str) -> str:
        return _flags(flags[name][0])[-1] if name in flags else f"--{name.replace('_', '-')}"

    def command(context: typer.Context, **values: Any) -> None:
        _Verb.quiet = bool(values.get("quiet"))
        given = {name for name in values if getattr(context.get_parameter_source(name), "name", "") != "DEFAULT"}
        values |= context.meta.get(WORDS, {})
        paths.check(each for name, file in files.items() for each in paths.named(shown(name), file, values[name]))
        made = {name: holder.make(values, given) for name, holder in holders.items()}
        if wants_given is not None:
            made[wants_given] = Given(map(shown, given))
        verb(**{name: values[name] for name in own}, **made)

    command.__doc__, command.__name__, command.__module__ = verb.__doc__, verb.__name__, verb.__module__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what Typer reads
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.files = files  # type: ignore[attr-defined]  # for tests
    command.words = {  # type: ignore[attr-defined]  # for :func:`add`
        _flags(each)[-1]: (name, each.words) for name, (each, _) in flags.items() if each.words
    }
    return command


class _Command(TyperCommand):
    """A command whose switches may be followed by a word, as in ``--pair-features only``.

    Typer knows switches and options with a value, but none that may have one. The words are taken out of the arguments
    and noted; :func:`takes` puts them in place of the switches' values.
    """

    words: Mapping[str, tuple[str, tuple[str, ...]]]  #: of each flag: its parameter, and the words

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        left, found = list[str](), dict[str, str]()
        end = args.index("--") if "--" in args else len(args)
        for arg in args[:end]:
            flag, equals, word = arg.partition("=")
            if left and arg in self.words.get(left[-1], ("", ()))[1]:
                found[self.words[left[-1]][0]] = arg
            elif equals and word in self.words.get(flag, ("", ()))[1]:
                left.append(flag)
                found[self.words[flag][0]] = word
            else:
                left.append(arg)
        ctx.meta[WORDS] = found
        return super().parse_args(ctx, [*left, *args[end:]])


def verbs(help: str, *examples: str) -> typer.Typer:
    """A group of verbs, as ``loglinear parse`` is."""
    return typer.Typer(
        help=help,
        epilog=_shown(examples) if examples else None,
        no_args_is_help=True,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def add(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator: a verb (:func:`takes`) becomes a command. Its docstring is the help, with the lines under Examples."""

    def added(verb: Callable[..., None]) -> Callable[..., None]:
        command = takes(verb)
        said, _, examples = (inspect.getdoc(verb) or "").partition("\n\nExamples\n--------\n")
        kind = type("Command", (_Command,), {"words": command.words})  # type: ignore[attr-defined]  # set by takes
        app.command(name, cls=kind, help=said, epilog=_shown(examples.splitlines()))(command)
        return command

    return added


def _shown(examples: Iterable[str]) -> str:
    return "\n\n".join(["[bold]Examples[/bold]", *examples])


def flag(cls: type, name: str, **changes: Any) -> Any:
    """The flag for one declared option of a verb: ``seed: Annotated[int, flag(RunOptions, "seed")] = 0``."""
    return _flag(dataclasses.replace(declared(cls)[name], **changes))


def changed(holder: Any, *names: str) -> list[str]:
    """The flags of the named options whose values are not the defaults."""
    known = declared(type(holder))
    return [_flags(known[name])[-1] for name in names if getattr(holder, name) != known[name].default]


def flag_of(cls: type, name: str) -> str:
    """The flag of one of a class's options."""
    return _flags(declared(cls)[name])[-1]


def flags_of(cls: type) -> list[str]:
    """The flags that a class's options have on the command line."""
    return [_flags(each)[-1] for each in declared(cls).values() if not each.python_only]


def _options_class(annotation: Any) -> tuple[type | None, Flags]:
    chosen = Flags()
    if get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        chosen = next((each for each in more if isinstance(each, Flags)), chosen)
    return (annotation if dataclasses.is_dataclass(annotation) else None), chosen  # type: ignore[return-value]


def _file_of(annotation: Any) -> File | None:
    """What a parameter of a verb's own says about the file that it names."""
    return next((each for each in get_args(annotation) if isinstance(each, File)), None)


def _flags(each: Option) -> tuple[str, ...]:
    return each.flags or (f"--{each.name.replace('_', '-')}",)


def _parameter_name(each: Option) -> str:
    """The parameter of an option's flag: options of different classes with the same flag share it."""
    longest = _flags(each)[-1].partition("/")[0]
    return longest.removeprefix("--").replace("-", "_") if longest.startswith("--") else each.name


def _parameter(name: str, each: Option, more: str) -> inspect.Parameter:
    kind: Any = bool if each.is_switch else str if each.none_word else each.kind or _text(each)
    default = str(each.default) if each.none_word else each.default
    if each.repeats:
        kind = list[kind]
    if default is None:
        kind = kind | None
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is dataclasses.MISSING else default,
        annotation=Annotated[kind, _flag(each, more)],
    )


def _place(parameter: inspect.Parameter) -> int:
    """The place of a parameter in ``--help``, by its panel; arguments and options without a panel come first."""
    panels = [getattr(each, "rich_help_panel", None) for each in get_args(parameter.annotation)]
    panel = next(filter(None, panels), None)
    return -1 if panel is None else PANELS.index(panel if panel in PANELS else "")


def _text(each: Option) -> type:
    return Path if "Path" in each.annotation else str


def _flag(each: Option, more: str = "") -> Any:
    names = _flags(each)
    if each.is_switch and each.default is True and not each.flags:
        names = (f"{names[0]}/--no-{names[0].removeprefix('--')}",)
    choices = f" ({', '.join(map(str, each.choices))})" if each.choices and not each.is_switch else ""
    several = "; may be given several times" if each.repeats else ""
    return typer.Option(
        *names,
        help=each.help[0].upper() + each.help[1:] + choices + several + more + ".",
        rich_help_panel=each.panel or None,
        metavar=each.metavar,
        show_default=not (each.default is None or each.default is False or each.default == ""),
    )


def _value(each: Option, value: Any) -> Any:
    """The Python value of a command-line value."""
    if each.repeats:
        return list(value) if value else each.default
    if not each.none_word:
        return value
    with _naming_flag(each):
        return each.read(value)


@contextmanager
def _naming_flag(each: Option) -> Iterator[None]:
    """Let errors name the flag, where it has another name than the option or a word for None."""
    try:
        yield
    except OptionError as error:
        if not (each.flags or each.none_word):
            raise
        raise OptionError(str(error).replace(f"{each.name}=", f"{_flags(each)[-1]} ", 1)) from None


# -- options of files and runs -----------------------------------------------------------------------------------------


@options
class CorpusOptions:
    """How annotated files are read."""

    format: str = option(f"format of the files: {FORMATS}", default="auto", panel=DATA)
    separator: str = option(
        "what separates columns: auto (runs of spaces and tabs), tab (exactly one) or space", default="auto", panel=DATA
    )
    comments: str = option(
        "lines to skip: none, those that begin with the given text, or auto (# lines that are not rows)",
        default="auto",
        panel=DATA,
    )
    label_column: int = option("column of the labels, from 0; negative from the last", default=-1, panel=DATA)
    partial: bool = option("labels may be partial: * is any label, A|B is A or B", default=False, panel=DATA)
    weights: Path | None = option(
        "file with a weight for each training sentence, a number a line",
        default=None,
        panel=DATA,
        metavar="FILE",
        file=READ,
    )

    column: str | None = option(
        "column of the labels by its name: of CoNLL-U upos, xpos, lemma, feats, deprel, ..., or one of a table",
        default=None,
        panel=NAMED,
        metavar="NAME",
    )
    tokens_key: str = option("JSON Lines: key of the tokens", default="tokens", panel=NAMED, metavar="KEY")
    labels_key: str | None = option(
        "JSON Lines: key of the labels (labels if not given), or of the spans of texts",
        default=None,
        panel=NAMED,
        metavar="KEY",
    )
    text_key: str | None = option("texts with spans: key of the text", default=None, panel=NAMED, metavar="KEY")
    label_names: str | None = option(
        "JSON Lines, Parquet: what labels given as numbers mean, from 0: O,B-PER,I-PER, or a .txt file with a name a "
        "line",
        default=None,
        panel=NAMED,
        metavar="NAMES",
        file=File(suffix=".txt"),
    )
    sentence_column: str | None = option(
        "tables, Parquet: column that names the sentence, in its first row or in each",
        default=None,
        panel=NAMED,
        metavar="NAME",
    )
    token_column: str | None = option(
        "tables, Parquet: column of the tokens, or of lists of them", default=None, panel=NAMED, metavar="NAME"
    )
    scheme: str = option(
        "how spans become labels of tokens", default="bio", choices=("bio", "iob1", "bioes", "bilou"), panel=NAMED
    )
    borders: str = option(
        "spans that begin or end inside a token: an error, or snapped to whole tokens",
        default="refuse",
        choices=("refuse", "snap"),
        panel=NAMED,
    )
    overlaps: str = option(
        "spans that share tokens: an error, or the outermost is used",
        default="refuse",
        choices=("refuse", "outermost"),
        panel=NAMED,
    )
    gaps: str = option(
        "discontinuous spans: an error, filled, or split into their pieces",
        default="refuse",
        choices=("refuse", "fill", "split"),
        panel=NAMED,
    )
    sentences: str = option(
        "what a sequence is: a whole text, or a line of it; auto is lines for brat",
        default="auto",
        choices=("auto", "texts", "lines"),
        panel=NAMED,
    )
    offsets: str = option(
        "what offsets of spans count: characters, or utf16 units, as JavaScript does",
        default="characters",
        choices=("characters", "utf16"),
        panel=NAMED,
    )

    def read(
        self,
        path: Source,
        *,
        layout: bool = False,
        docstart_is_token: bool = False,
        label_keys: Iterable[str] = ("labels",),
        labels: bool = True,
        open_label: str | None = None,
    ) -> Columns | Attributes:
        """Read a corpus, and find the number of the label column if it is given by name.

        With ``layout`` the text of a column file is kept, so that it can be written back with its comments and blank
        lines. ``docstart_is_token`` reads ``-DOCSTART-`` lines as tokens, as conlleval does, if they have as many
        columns as the others. ``label_keys`` are the keys of JSON Lines records that hold labels. Without ``labels``
        spans are not looked at; texts without any have the ``open_label``.
        """
        from loglinear.data import Columns
        from loglinear.data.files import source_name
        from loglinear.scale.parts import is_encoded

        if isinstance(path, str | Path) and is_encoded(path):
            return self._opened(path, layout)
        name = source_name(path)
        chosen, source = self.format_of(path)
        try:
            corpus = self._read(chosen, source, layout, docstart_is_token, tuple(label_keys), labels, open_label)
        except DataError as error:
            if chosen not in ("columns", "jsonl") or not _named_as_table(path):
                raise
            raise DataError(f"{error.message}; {TABLES}", error.file, error.line) from None
        if self.format == "auto" and _named_as_table(path, (".csv",)) and _all_commas(corpus):
            raise DataError(f"each row has one column of text with commas; {TABLES}", name)
        if self.column is not None:
            if not isinstance(corpus, Columns) or corpus.names is None:
                raise OptionError(f"--column {self.column}: the columns of {name} have no names; say --label-column N")
            number = corpus.number(self.column)
            if self.label_column not in (-1, number):
                raise OptionError(f"--column {self.column} is column {number} of {name}, not {self.label_column}")
            self.label_column = number
        elif labels and isinstance(corpus, Columns) and corpus.format == "conllu":
            raise OptionError(
                f"{name} is CoNLL-U: say which column holds the labels, as in --column upos (or xpos, lemma, feats, "
                "deprel, misc)"
            )
        return corpus

    def _opened(self, folder: str | Path, layout: bool) -> Columns | Attributes:
        """An encoded corpus; how its sources were read is how others are, unless options say something else."""
        from loglinear.data import Columns
        from loglinear.scale.encoded import open_encoded

        if layout:
            raise DataError("this is an encoded corpus, without the text; name the files it was made of", str(folder))
        found, known = open_encoded(folder), declared(CorpusOptions)
        for name in ("format", "separator", "comments", "partial"):
            if getattr(self, name) == known[name].default and name in found.reading:
                setattr(self, name, found.reading[name])
        if self.column is not None and isinstance(found.corpus, Columns):
            self.label_column = found.corpus.number(self.column)
        elif self.label_column == known["label_column"].default:
            self.label_column = found.label_column
        return found.corpus

    def like(self, data: Mapping[str, str], path: str) -> CorpusOptions:
        """The same options with what a model knows about its training ``data`` where nothing else is said.

        A file's name counts for more than that, and an option for more than both.
        """
        from loglinear.data import format_of

        if not data:
            return self
        known, changes = declared(CorpusOptions), dict[str, str]()
        if self.format == "auto" and format_of(path) == "columns":
            changes["format"] = data.get("format", "auto")
        if changes.get("format", self.format) in ("auto", "columns"):
            for name in ("separator", "comments"):
                if getattr(self, name) == known[name].default and name in data:
                    changes[name] = data[name]
        changed = copy.copy(self)
        for name, value in changes.items():
            known[name].check(value)
            setattr(changed, name, value)
        return changed

    def said(self, path: str) -> dict[str, str]:
        """What there is to remember about how a file of training data was read."""
        from loglinear.data import format_of

        said = {name: getattr(self, name) for name in ("format", "separator", "comments")}
        if self.format == "auto" and format_of(path) == "crfsuite":
            said["format"] = "crfsuite"
        return {name: value for name, value in said.items() if value != declared(CorpusOptions)[name].default}

    def format_of(self, path: Source) -> tuple[str, Source]:
        """The format of a file, and the source to read it from."""
        from loglinear.data import format_of
        from loglinear.data.columns import sniffed_source

        if self.format != "auto":
            return self.format, path
        return (format_of(path), path) if changed(self, "separator", "comments") else sniffed_source(path)

    def _read(
        self,
        chosen: str,
        source: Source,
        layout: bool,
        docstart_is_token: bool,
        label_keys: tuple[str, ...],
        labels: bool,
        open_label: str | None,
    ) -> Columns | Attributes:
        from io import BytesIO

        from loglinear.data import read_columns, read_jsonl
        from loglinear.data.columns import ROW_FORMATS, read
        from loglinear.data.files import read_bytes, source_name

        if chosen == "jsonl":
            keys = tuple(self.labels_key if self.labels_key and key == "labels" else key for key in label_keys)
            return read_jsonl(source, label_keys=keys, tokens_key=self.tokens_key, label_names=self._label_names())
        if chosen not in ROW_FORMATS:
            predicted = "predicted" in label_keys and len(label_keys) == 1
            return self._read_spans(source, chosen, labels and bool(label_keys), open_label, predicted)
        if chosen in ("csv", "tsv"):
            return read(source, chosen, sentence=self.sentence_column, tokens=self.token_column)
        if chosen in ("parquet", "arrow"):
            return read(source, chosen, **self.naming())
        if chosen != "columns":
            return read(source, chosen)
        how: dict[str, Any] = {"separator": self.separator, "comments": self.comments}
        if not docstart_is_token:
            return read_columns(source, layout=layout, **how)
        whole = BytesIO(read_bytes(source))
        whole.name = source_name(source)
        try:
            return read_columns(whole, docstart=False, **how)
        except DataError:
            whole.seek(0)
            return read_columns(whole, **how)

    def _read_spans(self, source: Any, format: str, labels: bool, open_label: str | None, predicted: bool) -> Columns:
        """Texts with spans as a corpus; what was passed over or changed is said."""
        import warnings

        from loglinear.data.columns import read

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            corpus = read(
                source, format, labels=labels, open_label=open_label, convention=self.convention(predicted),
                scheme=self.scheme, borders=self.borders, overlaps=self.overlaps, gaps=self.gaps,
                sentences=self.sentences,
            )  # fmt: skip
        for each in caught:
            warn(str(each.message))
        return corpus  # type: ignore[return-value]  # of these formats

    def naming(self) -> dict[str, Any]:
        """What the columns of a Parquet or Arrow file are: options of its reader."""
        return {
            "sentence": self.sentence_column, "tokens": self.token_column, "labels": self.column,
            "label_names": self._label_names(),
        }  # fmt: skip

    def convention(self, predicted: bool = False) -> Convention:
        """How texts with spans are read and written."""
        from loglinear.data.spans import Convention

        return Convention(self.offsets, self.text_key, self.labels_key, predicted)

    def _label_names(self) -> list[str] | None:
        """The names of labels given as numbers."""
        if self.label_names is None:
            return None
        if not self.label_names.endswith(".txt"):
            return [name.strip() for name in self.label_names.split(",")]
        try:
            return Path(self.label_names).read_text(encoding="utf-8").split()
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", self.label_names) from None
        except UnicodeDecodeError:
            raise DataError("the names of the labels are not UTF-8 text", self.label_names) from None

    def sentence_weights(self, n_sentences: int) -> Float | None:
        """The weight of each sentence, if there is a file of weights."""
        import numpy as np

        from loglinear.training.problem import MOST_WEIGHT

        if self.weights is None:
            return None
        numbers, name = [], str(self.weights)
        try:
            content = self.weights.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise DataError("the weights are not valid UTF-8 text", name) from None
        for line, text in enumerate(content.rstrip().splitlines(), 1):
            try:
                numbers.append(float(text))
            except ValueError:
                raise DataError(f"{text!r:.40} is not a number; write a weight for each sentence", name, line) from None
            if not 0.0 <= numbers[-1] <= MOST_WEIGHT:
                raise DataError(f"{text} is not a weight between 0 and {MOST_WEIGHT:g}", name, line)
        if len(numbers) != n_sentences:
            counts = f"{how_many(len(numbers), 'weight')} for {how_many(n_sentences, 'sentence')}"
            raise DataError(f"{counts}; give one for each sentence", name)
        return np.array(numbers)


#: Options of files of sequences that make no sense for tables of examples.
OF_SEQUENCES = tuple(name for name in declared(CorpusOptions) if name not in ("format", "weights"))


class _Verb:
    """What is known of the verb that runs."""

    quiet = False


def warn(message: str) -> None:
    """Say something on standard error, unless the command is to be quiet."""
    from loglinear.streams import visible

    if not _Verb.quiet:
        typer.echo(f"loglinear: {visible(message)}", err=True)


TABLES = "if this is a table (CSV, TSV or JSON Lines), loglinear classify takes it"


def _named_as_table(path: Source, endings: tuple[str, ...] = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson")) -> bool:
    """Whether a file's name ends as that of a table does."""
    from loglinear.data.files import source_name

    return source_name(path).lower().removesuffix(".gz").endswith(endings)


def _all_commas(corpus: Columns | Attributes) -> bool:
    """Whether what was read as one column is a table's cells with commas between them."""
    columns = getattr(corpus, "columns", [])
    return len(columns) == 1 and all("," in value for value in columns[0].values)


Reading = Annotated[CorpusOptions, Flags(without=("label_column", "partial", "weights"))]
ReadingLabels = Annotated[CorpusOptions, Flags(without=("partial", "weights"))]


def _column(help: str, flag: str) -> Any:
    return option(help, default=None, panel=TABLE, metavar="COLUMN", flags=(flag,), repeats=True)


@options
class TableOptions:
    """How tables are read, and what their columns are."""

    label: str | None = option("column of the labels", default=None, panel=TABLE, metavar="COLUMN")
    numbers: list[str] | None = _column("a column of numbers", "--number")
    categories: list[str] | None = _column("a column of names", "--category")
    texts: list[str] | None = _column("a column of text", "--text")
    ignored: list[str] | None = _column("a column to leave out", "--ignore")
    format: str = option("format: auto (by the file's name), csv, tsv or jsonl", default="auto", panel=TABLE)

    def read(self, path: str, *, whole: bool = False) -> TableFile:
        """Read a table; without the columns to ignore, unless ``whole``."""
        from loglinear.data.tables import read_table

        table = read_table(path, self.format)
        return table if whole else table.without(self.ignored or [])

    def kinds(self) -> dict[str, str] | None:
        """The kinds of the columns that the command line names; a column must not have two."""
        kinds: dict[str, str] = {}
        for kind, names in (("number", self.numbers), ("category", self.categories), ("text", self.texts)):
            for name in names or []:
                if name == self.label:
                    raise OptionError(f"column {name!r} is the label, and cannot be a {kind} to learn from as well")
                if kinds.setdefault(name, kind) != kind:
                    raise OptionError(f"column {name!r} cannot be both a {kinds[name]} and a {kind}")
        return kinds or None


@options
class FitOptions:
    """How a training starts, is resumed and shown: the same for every estimator."""

    dev: str | None = option("annotated file to stop early by", default=None, panel=DEV, metavar="FILE", file=READ)
    init: str | None = option("model to start from", default=None, panel=RUN, metavar="MODEL", file=READ)
    resume: bool = option("continue from MODEL.checkpoint if it exists", default=False, panel=RUN)
    checkpoint_seconds: float = option(
        "seconds between checkpoints (MODEL.checkpoint)", default=30.0, least=0, panel=RUN
    )
    quiet: bool = option("print nothing but errors", default=False, flags=("-q", "--quiet"))


@options
class PagingOptions:
    """Corpora that memory does not hold."""

    memory: str | None = option(
        "most memory to hold, as in 2G; what is larger lies in files without a name, which are gone with the process",
        default=None,
        panel=RUN,
        metavar="SIZE",
    )
    out_of_core: bool = option("the same, with half of the machine's memory", default=False, panel=RUN)
    scratch: Path | None = option(
        "folder for these files; by default that for temporary files", default=None, panel=RUN, metavar="DIR",
        file=WRITTEN_FOLDER,
    )  # fmt: skip

    @contextmanager
    def paging(self) -> Iterator[None]:
        """Context in which large arrays lie in files, if that is asked for."""
        import tempfile

        from loglinear import mapped
        from loglinear.system import bytes_of, memory

        if self.memory is None and not self.out_of_core:
            if self.scratch is not None:
                raise OptionError("--scratch goes with --memory or --out-of-core; give one of them")
            yield
            return
        most = memory() / 2 if self.memory is None else bytes_of(self.memory, "--memory")
        folder = Path(tempfile.gettempdir()) if self.scratch is None else self.scratch
        folder.mkdir(parents=True, exist_ok=True)
        with mapped.Paging(folder, most):
            yield


def cluster_option(what: str) -> Any:
    """The option that says which Dask cluster does it."""
    return option(
        f"{what} on a Dask cluster: tcp://HOST:PORT of its scheduler, or local:N for N processes on this machine",
        default=None,
        panel=RUN,
        metavar="ADDRESS",
    )


@options
class ExperimentOptions:
    """Options of experiments with many trainings."""

    metric: str = option(
        "what to judge by: f1, precision, recall, accuracy, sentence-accuracy, or auto: F1 for chunks", default="auto"
    )
    json: Path | None = option(
        "keep finished trainings here (models in FILE.models); the same command continues from it",
        default=None,
        panel=OUT,
        metavar="FILE",
        file=RESULTS,
    )
    halving: str = option(
        "shares of the training sentences, as in 0.1,0.3,1: after each the best third of the settings continues",
        default="",
        panel=RUN,
    )
    jobs: int = option("trainings at the same time; they share the threads", default=1, least=1, panel=RUN)
    cluster: str | None = cluster_option("train")
    quiet: bool = option("print nothing but errors", default=False, flags=("-q", "--quiet"))


@options
class AgainstOptions:
    """A second system, compared with the first by significance tests."""

    against: str | None = option(
        "another model, or file of predictions, to compare with by significance tests",
        default=None,
        panel=AGAINST,
        metavar="FILE",
        file=READ,
    )
    draws: int = option("samples of the paired bootstrap", default=10_000, least=1, panel=AGAINST)

    def reject_alone(self, given: Given, *flags: str) -> None:
        """Reject the flags about a second system where there is none."""
        for name in ("--draws", *flags):
            if name in given and self.against is None:
                raise OptionError(f"{name} goes with --against, a second system; give both, or neither")


# -- parameters of many verbs ------------------------------------------------------------------------------------------


ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file."), READ]
ModelOutput = Annotated[
    Path, typer.Option("-o", "--output", metavar="MODEL", help="Model file to write."), TRAINED_MODEL
]
Output = Annotated[str, typer.Option("-o", "--output", help="Where to write; - is standard output."), WRITTEN]
PrintJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, flag(FitOptions, "quiet")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads; all cores if not given.", show_default=False)]
