"""``loglinear eval``: score predicted labels."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loglinear.cli.common import say, show_differences
from loglinear.cli.options import AgainstOptions, Given, Reading, Threads
from loglinear.errors import DataError, OptionError
from loglinear.options import READ, option, options
from loglinear.wording import how_many

if TYPE_CHECKING:
    from loglinear.cli.options import CorpusOptions
    from loglinear.data import Attributes, Column, Columns
    from loglinear.estimators.tagger.predict import LoadedTagger


BOTH_KEYS = ("labels", "predicted")  # of JSON Lines records, in the order of columns


@options
class EvalOptions:
    """What the gold labels are compared with, and by which scores."""

    model: Path | None = option("label the file with this model and compare", default=None, file=READ)
    pred: str | None = option("file whose last column holds the predicted labels", default=None, file=READ)
    json: bool = option("print JSON", default=False)
    metric: str = option(
        "what conlleval prints, or a score for each label", default="auto", choices=("auto", "chunks", "labels")
    )
    gold_column: int | None = option(
        "column of the gold labels: the last but one, or the last with --model or --pred", default=None
    )
    pred_column: int = option("column of the predicted labels", default=-1)


def eval_command(
    gold: Annotated[
        str, typer.Argument(metavar="GOLD", help="Annotated file (also .gz, or - for standard input)."), READ
    ],
    files: Reading,
    asked: EvalOptions,
    other: AgainstOptions,
    given: Given,
    threads: Threads = None,
) -> None:
    """Score labels. Without --model or --pred, the last two columns are the gold and the predicted labels.

    With --against, two systems are compared: by what they get right, and by tests of whether that is chance.

    Examples
    --------
    loglinear eval test.txt --model chunker.model
    loglinear eval test.txt --model chunker.model --against other.model
    loglinear eval tagged.txt --against tagged-by-another.txt
    loglinear tag chunker.model test.txt | loglinear eval -
    loglinear eval gold.txt --pred tagged.txt --json
    loglinear eval gold.jsonl --pred tagged.jsonl     (texts with spans: Prodigy, doccano, spaCy, Label Studio, brat)
    loglinear eval test.conllu --column upos --model pos.model
    loglinear tag ner.model test.txt --marginals | loglinear eval - --gold-column -3 --pred-column -2
    """
    from loglinear.evaluation.chunks import chunk_scores, has_chunks
    from loglinear.evaluation.labels import accuracy_report

    other.reject_alone(given)
    if asked.model is not None and asked.pred is not None:
        raise OptionError("--model and --pred both say what to compare with; give one")
    if asked.model is not None and asked.pred_column != -1:
        raise OptionError("--pred-column goes with labels in a file, not with --model; leave one of them out")
    apart = asked.model is not None or asked.pred is not None
    tagger = None
    if asked.model is not None:
        from loglinear.estimators.tagger.predict import LoadedTagger

        tagger = LoadedTagger.load(asked.model, threads)
        files = files.like(tagger.data_, gold)
    corpus = files.read(gold, docstart_is_token=not apart, label_keys=("labels",) if apart else BOTH_KEYS)
    if not apart:
        _check_has_both(corpus, files.column)
    gold_column = asked.gold_column
    if gold_column is None:
        gold_column = files.label_column if apart else -2
    truth = _label_column(corpus, gold_column)
    if tagger is not None:
        prediction = _predicted(tagger, corpus)
    elif asked.pred is not None:
        predicted = files.read(asked.pred, label_keys=("predicted",))
        _check_aligned(corpus, predicted)
        prediction = _label_column(predicted, files.label_column if asked.pred_column == -1 else asked.pred_column)
    else:
        prediction = _label_column(corpus, asked.pred_column)
    systems = [prediction]
    if other.against is not None:
        if asked.pred is not None:
            _check_tokens(corpus, predicted, 1)
        systems.append(_second(other.against, corpus, truth, files, asked, threads))
    names = {*truth.values}.union(*(each.values for each in systems))
    chunks = asked.metric == "chunks" or (asked.metric == "auto" and has_chunks(names))
    score = chunk_scores if chunks else accuracy_report
    labellings = [(each.ids, each.values, corpus.offsets) for each in (truth, *systems)]
    report = score(labellings[0], labellings[1])
    if other.against is not None:
        from loglinear.evaluation.paired import paired_labels

        truth_labels, first, second = labellings
        tests = paired_labels(truth_labels, first, second, chunks, other.draws)
        reports = [report.to_dict(), score(labellings[0], labellings[2]).to_dict()]
        show_differences(tests, [str(asked.model or asked.pred or gold), other.against], reports, asked.json)
    elif asked.json:
        say(json_module.dumps(report.to_dict(), ensure_ascii=False, indent=2))
    else:
        say(report.text(), nl=False)


def _check_has_both(corpus: Columns | Attributes, column: str | None) -> None:
    """Reject a file that has one labelling, where the gold labels and the predicted ones are looked for in it."""
    origin = getattr(corpus, "format", "columns")
    if column is not None or origin not in ("columns", "jsonl", "text", "csv", "tsv", "parquet", "arrow"):
        both = f"; its predictions are compared with --pred {corpus.name}" if origin == "label-studio" else ""
        raise OptionError(
            f"{corpus.name} holds one labelling; compare it with another file (--pred) or with a model (--model){both}"
        )


def _label_column(corpus: Columns | Attributes, number: int) -> Column:
    from loglinear.data import Attributes

    if isinstance(corpus, Attributes):
        if corpus.label is None:
            raise DataError("the file has no labels to score", corpus.name)
        return corpus.label
    if number == -1 and corpus.unlabelled is not None:
        raise DataError("this sentence has no labels", corpus.name, corpus.unlabelled)
    return corpus.column(number)


def _predicted(tagger: LoadedTagger, corpus: Columns | Attributes) -> Column:
    from loglinear.data import Column

    return Column(tagger.predict_numbers(corpus)[0], tagger.classes_)


def _second(
    source: str,
    corpus: Columns | Attributes,
    truth: Column,
    files: CorpusOptions,
    asked: EvalOptions,
    threads: int | None,
) -> Column:
    """The labels of the system to compare with: a model's, or those of a file of the same sentences."""
    from loglinear.model_file import is_model

    apart = asked.model is not None or asked.pred is not None
    if is_model(source):
        if not apart:
            raise OptionError(
                f"--against {source} is a model; compare it with another one (--model) or with a file of predictions "
                "(--pred)"
            )
        from loglinear.estimators.tagger.predict import LoadedTagger

        return _predicted(LoadedTagger.load(source, threads), corpus)
    if apart:
        other = files.read(source, label_keys=("predicted",))
        _check_aligned(corpus, other)
        _check_tokens(corpus, other, 1)
    else:
        other = files.read(source, docstart_is_token=True, label_keys=BOTH_KEYS)
        _check_aligned(corpus, other)
        _check_tokens(corpus, other, 2)
        gold = _label_column(other, asked.gold_column if asked.gold_column is not None else -2)
        _check_same("gold label", (corpus, truth), (other, gold))
    return _label_column(other, files.label_column if asked.pred_column == -1 else asked.pred_column)


def _check_tokens(corpus: Columns | Attributes, other: Columns | Attributes, n_label_columns: int) -> None:
    """Reject files of other tokens, which stand in the first column; files that may have labels only have none."""
    from loglinear.data import Attributes

    if isinstance(corpus, Attributes) or isinstance(other, Attributes):
        return
    counts = {corpus.n_columns, other.n_columns}
    if min(counts) > max(2, n_label_columns) or (len(counts) == 1 and min(counts) > n_label_columns):
        _check_same("token", (corpus, corpus.column(0)), (other, other.column(0)))


def _check_same(
    what: str, first: tuple[Columns | Attributes, Column], second: tuple[Columns | Attributes, Column]
) -> None:
    """Reject columns [N] of two files that differ, naming the first place."""
    import numpy as np

    (corpus, one), (other, two) = first, second
    number = {value: i for i, value in enumerate(one.values)}
    ids = np.array([number.get(value, -1) for value in two.values], dtype=np.int64)[two.ids]
    if len(differ := np.flatnonzero(ids != one.ids)):
        t = int(differ[0])
        mine, theirs = one.values[one.ids[t]], two.values[two.ids[t]]
        raise other.error(f"the {what} is {theirs!r:.60}, but {mine!r:.60} in {corpus.name}:{corpus.lines[t]}", t)


def _check_aligned(gold: Columns | Attributes, predicted: Columns | Attributes) -> None:
    """Reject files whose sentences differ in number or length, naming the first place."""
    import numpy as np

    lengths, others = np.diff(gold.offsets), np.diff(predicted.offsets)
    shared = min(len(lengths), len(others))
    differ = np.flatnonzero(lengths[:shared] != others[:shared])
    if len(differ):
        i = int(differ[0])
        line = int(gold.lines[gold.offsets[i]])
        raise DataError(
            f"sentence {i + 1} has {how_many(lengths[i], 'token')}, but {others[i]} in {predicted.name}",
            gold.name,
            line,
        )
    if len(lengths) != len(others):
        longer = gold if len(lengths) > len(others) else predicted
        counts = f"{how_many(len(lengths), 'sentence')} in {gold.name}, but {len(others)} in {predicted.name}"
        raise longer.error(f"{counts}: the first that only one of them has begins here", int(longer.offsets[shared]))
