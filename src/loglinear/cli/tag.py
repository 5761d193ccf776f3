"""``loglinear tag``: label a file with a model."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Self

import typer

from loglinear.cli.common import PLAIN_SECONDS, Screen, console, working
from loglinear.cli.options import ModelFile, ReadingLabels, Threads, warn
from loglinear.errors import DataError, LoglinearError, OptionError
from loglinear.kernels import compile_without_scipy
from loglinear.options import READ_JSON, READ_PARTS, WRITTEN_PARTS, option, options
from loglinear.streams import visible
from loglinear.wording import how_many

if TYPE_CHECKING:
    from loglinear.arrays import Float, Int32
    from loglinear.cli.options import CorpusOptions
    from loglinear.data import Attributes, Column, Columns
    from loglinear.data.files import Source
    from loglinear.estimators.tagger.predict import LoadedTagger, SequencePredictor
    from loglinear.scale.tables import Counts, Labelling

ARROW = ("parquet", "arrow")  # formats that are labelled part by part
QUIET_SECONDS = 2.0  # before progress is shown


@options
class TagOptions:
    """What is written about each sentence, and how its labels are chosen."""

    marginals: bool = option("append the probability of each token's label as one more column", default=False)
    nbest: int | None = option("write this many most probable labellings of each sentence", default=None, least=1)
    force: bool = option("keep the labels of the label column: A, A|B for either, * for any", default=False)
    decoding: str = option(
        "which labels: viterbi (the best labelling), posterior (the best labels) or min-risk (the least cost)",
        default="viterbi",
    )
    cost: str | None = option(
        "for min-risk: hamming:M, recall:K, precision:K or FILE.json", default=None, file=READ_JSON
    )
    output_format: str | None = option(
        "format to write: that of the input if not given, or another that --format takes", default=None
    )
    existing: str = option(
        "of several files, what becomes of those that are in the output folder already: refuse to begin, overwrite "
        "them, or keep them and label the others",
        default="refuse",
        choices=("refuse", "overwrite", "keep"),
    )


def tag_command(
    model: ModelFile,
    how: TagOptions,
    files: ReadingLabels,
    input: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="File to label (also .gz, or - for standard input); or several: a folder, or a glob in quotes.",
        ),
        READ_PARTS,
    ] = "-",
    output: Annotated[
        str,
        typer.Option("-o", "--output", help="Where to write; - is standard output. Of several files a folder."),
        WRITTEN_PARTS,
    ] = "-",
    threads: Threads = None,
) -> None:
    """Label a file: it comes out in its own format, with the predicted labels appended or the predicted spans in place.

    Several files, named by a folder or a glob, are labelled one after the other into a folder, each under its own name.

    Examples
    --------
    loglinear tag chunker.model test.txt | loglinear eval -
    loglinear tag ner.model news.txt --format text --marginals -o news.tagged
    loglinear tag ner.model half-labelled.txt --force     (a label column; * where the label is open)
    loglinear tag ner.model texts.jsonl -o tagged.jsonl     (of doccano, Prodigy, spaCy: with the predicted spans)
    loglinear tag ner.model tasks.json --marginals -o predictions.json     (Label Studio: predictions with scores)
    loglinear tag pos.model test.conllu --column upos -o tagged.conllu
    loglinear tag ner.model news.txt --format text --output-format prodigy -o to-correct.jsonl
    loglinear tag ner.model news.parquet -o tagged.parquet     (row group by row group; lists of tokens, or long)
    loglinear tag ner.model 'parts/*.parquet' -o tagged     (a folder, with a file for each)
    loglinear tag ner.model 'parts/*.parquet' -o tagged --existing keep     (goes on where it was stopped)
    echo "Anna Berg lives in Oslo" | loglinear tag words.model - --format text     (a model that looks at words only)
    """
    compile_without_scipy()
    from loglinear.estimators.tagger.predict import LoadedTagger

    if how.nbest is not None and (how.marginals or how.decoding != "viterbi"):
        raise OptionError("--nbest gives each labelling its probability; leave out --marginals and --decoding")
    if files.label_column != -1 and not how.force:
        raise OptionError(
            "--label-column goes with --force, which keeps the labels of that column; give both, or neither"
        )
    parts = _parts(input, output, files, how)
    tagger, screen = LoadedTagger.load(model, threads), console()
    if parts is None:
        _tag_file(tagger, input, output, how, files, screen)
    else:
        _tag_parts(tagger, parts, how, files, screen)


def _tag_file(
    tagger: LoadedTagger, input: str, output: str, how: TagOptions, files: CorpusOptions, screen: Screen
) -> None:
    """Label one file."""
    files = files.like(tagger.data_, input)
    format, source = files.format_of(input)
    if format in ARROW and how.output_format in (None, format) and how.nbest is None:
        with ProgressDisplay(screen, input) as display:
            _tag_arrow(tagger, source, output, format, how, files, display.observe)
    else:
        _tag_corpus(tagger, source if input == "-" else input, output, how, files, screen)


def _tag_corpus(
    tagger: LoadedTagger, source: Source, output: str, how: TagOptions, files: CorpusOptions, screen: Screen
) -> int:
    """Label a file that is read as a whole; returns its number of tokens."""
    from loglinear.data import atomic_output
    from loglinear.data.files import source_name
    from loglinear.estimators.tagger.inputs import ANY, annotation_of
    from loglinear.estimators.tagger.predict import located

    with working(screen, f"reading {source_name(source)}"):
        corpus = files.read(source, layout=True, labels=how.force, open_label=ANY if how.force else None)
    given = None
    if how.force:
        _check_label_column(tagger, corpus, files.label_column)
        given = annotation_of(corpus, None, files.label_column, partial=True)
    write = writer(corpus, files, how.output_format)
    write.check(how)
    opened: Any = nullcontext(output) if write.opens_files else atomic_output(output)
    with working(screen, f"labelling {how_many(len(corpus), 'sentence')}"), opened as out, located(corpus):
        if how.nbest is not None:
            write.labellings(out, tagger.predict_nbest(corpus, how.nbest, given=given))
        else:
            labels, confidence = tagger.predict_numbers(
                corpus, decoding=how.decoding, given=given, cost=how.cost, confidence=how.marginals
            )
            write.labels(out, labels, tagger.classes_, confidence)
    return corpus.n_tokens


def _tag_arrow(
    tagger: LoadedTagger,
    source: Source,
    output: str,
    format: str,
    how: TagOptions,
    files: CorpusOptions,
    observe: Callable[[Counts], None],
) -> Counts:
    """Label a Parquet or Arrow file part by part."""
    from loglinear.scale.tables import tag_file

    return tag_file(tagger, source, output, format, files.naming(), _labelling(how, files), observe)


def _labelling(how: TagOptions, files: CorpusOptions) -> Labelling:
    from loglinear.scale.tables import Labelling

    label: int | str | None = None
    if how.force:
        label = files.label_column if files.column is None else files.column
    return Labelling(how.decoding, how.cost, how.marginals, label)


# ----------------------------------------------------------------------------------------------------------------------
# Several files.


def _parts(input: str, output: str, files: CorpusOptions, how: TagOptions) -> list[tuple[str, str]] | None:
    """The files to label and where their outputs go; None if the input is one file."""
    from loglinear.scale.parts import left_to_do, parts_of

    names = None if input == "-" or files.format == "brat" else parts_of(input)
    if names is None:
        if how.existing != "refuse":
            raise OptionError(f"--existing {how.existing} is about the files of a folder; {input} is one file")
        return None
    if not names:
        raise DataError(
            "there is no such file" if not os.path.isdir(input) else "there is no file in the folder", input
        )
    if output == "-":
        raise OptionError(f"{input} is {how_many(len(names), 'file')}: name a folder for their outputs with -o")
    if how.output_format is not None:
        raise OptionError(
            f"--output-format {how.output_format}: of several files each is written under its own name, and so in its "
            "own format; leave it out"
        )
    pairs = left_to_do(names, output, how.existing)
    if len(pairs) < len(names):
        warn(f"{how_many(len(names) - len(pairs), 'file')} of {len(names):,} are in {output} already and are kept")
    return pairs


def _tag_parts(
    tagger: LoadedTagger, parts: list[tuple[str, str]], how: TagOptions, files: CorpusOptions, screen: Screen
) -> None:
    """Label several files, each to the end before the next; all of Parquet and Arrow are looked at first."""
    read = {part: copy(files).like(tagger.data_, part) for part, _ in parts}
    formats = {part: read[part].format_of(part)[0] for part, _ in parts}
    arrow = {part: format for part, format in formats.items() if format in ARROW and how.nbest is None}
    n_rows = 0
    if arrow:
        from loglinear.scale.tables import check_alike

        n_rows = check_alike(tagger, arrow, files.naming(), _labelling(how, files))
        n_rows = n_rows if len(arrow) == len(parts) else 0  # of other files nobody knows how many they have
    done, empty = 0, list[str]()
    try:
        with ProgressDisplay(screen, f"{how_many(len(parts), 'file')}", len(parts), n_rows) as display:
            for part, target in parts:
                os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
                display.begin(part)
                if part in arrow:
                    counts = _tag_arrow(tagger, part, target, arrow[part], how, read[part], display.observe)
                    if not counts.tokens:
                        empty.append(part)
                else:
                    own = copy(read[part])  # reading finds the number of the label column
                    display.count(_tag_corpus(tagger, part, target, how, own, console(quiet=True)))
                done += 1
                display.finish()
    except LoglinearError as error:
        if not done:
            raise
        kept = (
            f"{how_many(done, 'file')} of {len(parts):,} had been labelled before; --existing keep goes on after them"
        )
        raise DataError(f"{error}; {kept}") from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted: {done:,} of {how_many(len(parts), 'file')} are labelled; with --existing keep the same "
            "command goes on"
        ) from None
    if empty:
        others = f" and {how_many(len(empty) - 1, 'other')}" if len(empty) > 1 else ""
        warn(f"no tokens in {empty[0]}{others}: what is written for them has none either")


class ProgressDisplay:
    """A bar over files and rows in a terminal, and a line every few seconds elsewhere, if it takes more than two.

    Parameters
    ----------
    screen : Screen
    what : str
        What is labelled.
    n_files : int
    n_rows : int
        Of all files; 0 if that is not known.
    """

    def __init__(self, screen: Screen, what: str, n_files: int = 1, n_rows: int = 0) -> None:
        self._screen, self._what, self._n_files, self._n_rows = screen, what, n_files, n_rows
        self._files = self._rows = self._tokens = 0  # of finished files
        self._now: Counts | None = None
        self._began = self._shown = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, part: str) -> None:
        """The next file."""
        self._what, self._now = part, None
        self._show()

    def observe(self, counts: Counts) -> None:
        """So much of the file is done."""
        self._now = counts
        if self._n_files == 1:
            self._n_rows = counts.of_rows or 0
        self._show()

    def count(self, n_tokens: int) -> None:
        """A file of so many tokens is done that was labelled as a whole."""
        self._tokens += n_tokens

    def finish(self) -> None:
        """The file is done."""
        if self._now is not None:
            self._rows, self._tokens = self._rows + self._now.rows, self._tokens + self._now.tokens
        self._files, self._now = self._files + 1, None
        self._show()

    def _show(self) -> None:
        now = time.perf_counter()
        if self._screen.quiet or now - self._began < QUIET_SECONDS:
            return
        rows, tokens = self._rows, self._tokens
        if self._now is not None:
            rows, tokens = rows + self._now.rows, tokens + self._now.tokens
        speed = f"{tokens:,} tokens  {tokens / (now - self._began):,.0f} tokens/s"
        share = rows / self._n_rows if self._n_rows else self._files / self._n_files
        if self._screen.is_terminal:
            if self._bar is None:
                from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

                text = TextColumn("{task.description}", markup=False)
                self._bar = Progress(text, BarColumn(), TimeRemainingColumn(), console=self._screen, transient=True)
                self._bar.start()
                self._task = self._bar.add_task("", total=1.0)
            self._bar.update(self._task, completed=min(1.0, share), description=visible(f"{self._what}  {speed}"))
        elif now - self._shown >= PLAIN_SECONDS:
            self._shown = now
            of = f"{self._files:,} of {self._n_files:,} files  " if self._n_files > 1 else ""
            self._screen.print(f"{of}{self._what}  {100 * share:.0f} %  {speed}")


def _check_label_column(tagger: SequencePredictor, corpus: Columns | Attributes, label_column: int) -> None:
    """Reject a column of labels that the model uses as input."""
    from loglinear.data import Columns

    if isinstance(corpus, Columns) and corpus.n_columns > 1:
        column = label_column % corpus.n_columns
        if column in tagger.model_.input_columns:
            raise OptionError(
                f"--force takes labels from column {column} (from 0) of {corpus.name}, which the model uses as input; "
                "add a column of labels (* where one is open), or name it with --label-column"
            )


# ----------------------------------------------------------------------------------------------------------------------
# Writing predictions, in the format of the input.


Labellings = list[list[tuple[list[str], float]]]


class Writer:
    """Writes a corpus with its predictions.

    ``ranks`` says whether it has a place for several labellings, ``scores`` for probabilities; ``opens_files`` that it
    takes a path, not an open file.
    """

    ranks, scores, opens_files = False, True, False
    format = ""

    def check(self, how: TagOptions) -> None:
        """Reject what the format has no place for."""
        if how.nbest is not None and not self.ranks:
            raise OptionError(
                f"--nbest: the format {self.format} has a place for one labelling; write --output-format columns or "
                "jsonl"
            )
        if how.marginals and not self.scores:
            raise OptionError(
                f"--marginals: the format {self.format} has no place for probabilities; leave it out, or write "
                "--output-format prodigy or label-studio"
            )

    def labels(self, out: Any, labels: Int32, names: list[str], confidence: Float | None) -> None:
        """One label for each token (numbers [N] into ``names``), and its probability [N] if given."""
        raise NotImplementedError

    def labellings(self, out: BinaryIO, labellings: Labellings) -> None:
        """Several labellings for each sentence, best first, each with its probability."""
        raise NotImplementedError


def writer(corpus: Columns | Attributes, files: CorpusOptions, format: str | None = None) -> Writer:
    """The writer for a format, by default that of the corpus."""
    from loglinear.data import Attributes

    if isinstance(corpus, Attributes):
        if format not in (None, "columns", "crfsuite"):
            raise OptionError(f"--output-format {format}: ready-made attributes have no words to write; leave it out")
        return _ColumnWriter(_reference_columns(corpus))
    chosen = format or ("columns" if corpus.records is None else "jsonl")
    if format is None and corpus.format != "columns":
        chosen = corpus.format
    if chosen == "jsonl":
        return _JsonWriter(corpus)
    if chosen == "columns":
        return _ColumnWriter(corpus)
    if chosen == "conllu":
        return _ConlluWriter(corpus, files.column)
    if chosen in ("csv", "tsv"):
        return _TableWriter(corpus, chosen)
    if chosen in ARROW:
        return _ArrowWriter(corpus, chosen)
    from loglinear.data.spans import FORMATS

    if chosen not in FORMATS:
        others = f"columns, jsonl, conllu, csv, tsv, {', '.join((*ARROW, *FORMATS))}"
        raise OptionError(f"--output-format {chosen}: choose one of {others}")
    return _SpanWriter(corpus, chosen, files)


def _reference_columns(corpus: Attributes) -> Columns:
    """The gold labels of an attribute file as a column (attributes are not written back)."""
    from loglinear.data import Columns

    columns = [] if corpus.label is None else [corpus.label]
    return Columns(corpus.name, corpus.offsets, corpus.lines, columns)


def _probabilities(confidence: Float) -> Column:
    """Probabilities to four digits, as a factorised column."""
    import numpy as np

    from loglinear.data import Column

    thousandths = np.rint(confidence * 10_000).astype(np.int64)
    distinct, ids = np.unique(thousandths, return_inverse=True)
    return Column(ids.astype(np.int32), [f"{value / 10_000:.4f}" for value in distinct.tolist()])


class _ColumnWriter(Writer):
    ranks, format = True, "columns"

    def __init__(self, corpus: Columns) -> None:
        self._corpus = corpus

    def labels(self, out: BinaryIO, labels: Int32, names: list[str], confidence: Float | None) -> None:
        from loglinear.data import Column, write_columns

        appended = [Column(labels, names)]
        if confidence is not None:
            appended.append(_probabilities(confidence))
        write_columns(self._corpus, out, appended)

    def labellings(self, out: BinaryIO, labellings: Labellings) -> None:
        for label in {label for ranked in labellings for labels, _ in ranked for label in labels}:
            if not label or any(character.isspace() for character in label):
                raise DataError(f"the label {label!r:.60} cannot be written as a field of a column file")
        rows = self._corpus.rows()
        for number, (sentence, ranked) in enumerate(zip(rows, labellings, strict=True), 1):
            for rank, (labels, probability) in enumerate(ranked, 1):
                lines = [f"# sentence = {number}, rank = {rank}, probability = {probability:.6f}"]
                lines += [" ".join((*row, label)) for row, label in zip(sentence, labels, strict=True)]
                out.write(("\n".join(lines) + "\n\n").encode())


class _JsonWriter(Writer):
    ranks, format = True, "jsonl"

    def __init__(self, corpus: Columns) -> None:
        from loglinear.data import Columns

        self._corpus = corpus
        if corpus.records is None and (corpus.names or corpus.origin):  # not every column is one of words
            self._corpus = Columns(corpus.name, corpus.offsets, corpus.lines, corpus.columns[:1])

    def labels(self, out: BinaryIO, labels: Int32, names: list[str], confidence: Float | None) -> None:
        import numpy as np

        from loglinear.data import Column, write_jsonl

        strings = Column(labels, names).strings()
        extra: dict[str, list[Any]] = {"predicted": self._sentences(strings)}
        if confidence is not None:
            extra["confidence"] = self._sentences(np.round(confidence, 4).tolist())
        write_jsonl(self._corpus, out, extra)

    def labellings(self, out: BinaryIO, labellings: Labellings) -> None:
        from loglinear.data import write_jsonl

        nbest = [[{"labels": labels, "probability": round(p, 6)} for labels, p in ranked] for ranked in labellings]
        write_jsonl(self._corpus, out, {"nbest": nbest})

    def _sentences(self, values: list[Any]) -> list[list[Any]]:
        bounds = self._corpus.offsets.tolist()
        return [values[bounds[i] : bounds[i + 1]] for i in range(len(bounds) - 1)]


class _ConlluWriter(Writer):
    format = "conllu"

    def __init__(self, corpus: Columns, column: str | None) -> None:
        from loglinear.data.columns.conllu_file import NAMES

        if column is None or column.lower() not in NAMES:
            raise OptionError(
                "CoNLL-U: say which column the predicted labels go to, as in --column upos (or xpos, lemma, feats, "
                "deprel, misc)"
            )
        self._corpus, self._column = corpus, NAMES.index(column.lower())

    def labels(self, out: BinaryIO, labels: Int32, names: list[str], confidence: Float | None) -> None:
        from loglinear.data import Column
        from loglinear.data.columns.conllu_file import write_conllu_columns

        notes = None if confidence is None else [f"Confidence={value:.4f}" for value in confidence.tolist()]
        write_conllu_columns(self._corpus, out, self._column, Column(labels, names), notes)


class _TableWriter(Writer):
    def __init__(self, corpus: Columns, format: str) -> None:
        self._corpus, self.format = corpus, format

    def labels(self, out: BinaryIO, labels: Int32, names: list[str], confidence: Float | None) -> None:
        from loglinear.data import Column
        from loglinear.data.columns.table_file import write_table_columns

        appended: dict[str, Any] = {"predicted": Column(labels, names).strings()}
        if confidence is not None:
            appended["confidence"] = confidence.tolist()
        write_table_columns(self._corpus, out, self.format, appended)


class _ArrowWriter(Writer):
    def __init__(self, corpus: Columns, format: str) -> None:
        self._corpus, self.format = corpus, format

    def labels(self, out: BinaryIO, labels: Int32, names: list[str], confidence: Float | None) -> None:
        from loglinear.data import Column
        from loglinear.data.columns.arrow_file import write_arrow_columns

        further: dict[str, Any] = {"predicted": Column(labels, names)}
        if confidence is not None:
            further["confidence"] = confidence.astype("float32")
        write_arrow_columns(self._corpus, out, self.format, further)


class _SpanWriter(Writer):
    def __init__(self, corpus: Columns, format: str, files: CorpusOptions) -> None:
        from loglinear.data.spans import FORMATS

        self._corpus, self.format, self._convention = corpus, format, files.convention(predicted=True)
        self._format = FORMATS[format]
        self.scores, self.opens_files = self._format.scores, self._format.reads_paths

    def labels(self, out: Any, labels: Int32, names: list[str], confidence: Float | None) -> None:
        from loglinear.cli.options import warn
        from loglinear.data import Column
        from loglinear.evaluation.spans import marked_texts

        file = marked_texts(self._corpus, Column(labels, names), self.format, confidence)
        if lost := file.left_out["relation"]:
            warn(f"{file.name}: the relations ({lost:,}) are between the spans that were there; they are not written")
        self._format.writer()(file, out, self._convention)
