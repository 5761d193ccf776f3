"""``loglinear tag``: label a file with a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from loglinear.cli.common import console, working
from loglinear.cli.options import ModelFile, Output, ReadingLabels, Threads
from loglinear.errors import DataError, InfeasibleError, OptionError
from loglinear.kernels import compile_without_scipy
from loglinear.options import READ, READ_JSON, option, options
from loglinear.wording import how_many

if TYPE_CHECKING:
    from loglinear.arrays import Float, Int32
    from loglinear.cli.options import CorpusOptions
    from loglinear.data import Attributes, Column, Columns
    from loglinear.estimators.tagger.predict import SequencePredictor


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


def tag_command(
    model: ModelFile,
    how: TagOptions,
    files: ReadingLabels,
    input: Annotated[
        str, typer.Argument(metavar="INPUT", help="File to label (also .gz, or - for standard input)."), READ
    ] = "-",
    output: Output = "-",
    threads: Threads = None,
) -> None:
    """Label a file: it comes out in its own format, with the predicted labels appended or the predicted spans in place.

    Examples
    --------
    loglinear tag chunker.model test.txt | loglinear eval -
    loglinear tag ner.model news.txt --format text --marginals -o news.tagged
    loglinear tag ner.model half-labelled.txt --force     (a label column; * where the label is open)
    loglinear tag ner.model texts.jsonl -o tagged.jsonl     (of doccano, Prodigy, spaCy: with the predicted spans)
    loglinear tag ner.model tasks.json --marginals -o predictions.json     (Label Studio: predictions with scores)
    loglinear tag pos.model test.conllu --column upos -o tagged.conllu
    loglinear tag ner.model news.txt --format text --output-format prodigy -o to-correct.jsonl
    echo "Anna Berg lives in Oslo" | loglinear tag words.model - --format text     (a model that looks at words only)
    """
    compile_without_scipy()
    from loglinear.data import atomic_output
    from loglinear.estimators.tagger.inputs import ANY, annotation_of
    from loglinear.estimators.tagger.predict import LoadedTagger

    if how.nbest is not None and (how.marginals or how.decoding != "viterbi"):
        raise OptionError("--nbest gives each labelling its probability; leave out --marginals and --decoding")
    if files.label_column != -1 and not how.force:
        raise OptionError(
            "--label-column goes with --force, which keeps the labels of that column; give both, or neither"
        )
    tagger = LoadedTagger.load(model, threads)
    screen = console()
    with working(screen, f"reading {input}"):
        files = files.like(tagger.data_, input)
        corpus = files.read(input, layout=True, labels=how.force, open_label=ANY if how.force else None)
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


@contextmanager
def located(corpus: Columns | Attributes) -> Iterator[None]:
    """Report the line of a sentence that no labelling fits."""
    try:
        yield
    except InfeasibleError as error:
        first = int(corpus.offsets[error.sequence])
        message = "the model's constraints and the labels given leave no labelling for the sentence that begins here"
        raise corpus.error(message + error.hint, first) from None


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
    from loglinear.data.spans import FORMATS

    if chosen not in FORMATS:
        others = f"columns, jsonl, conllu, csv, tsv, {', '.join(FORMATS)}"
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
