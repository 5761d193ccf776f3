"""``loglinear train``: from an annotated file to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loglinear.cli.common import (
    DATA,
    Comments,
    Format,
    LabelColumn,
    Separator,
    console,
    default,
    option,
    read_corpus,
    working,
)

if TYPE_CHECKING:
    from rich.console import Console

    from loglinear.arrays import Float
    from loglinear.data import Attributes, Columns
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.features.templates.language import TemplateSet

EXAMPLES = """
[bold]Examples[/bold]

loglinear train train.txt -o chunker.model --template chunking

loglinear train train.txt -o ner.model --template ner --constraints bio --dev dev.txt

loglinear train train.txt -o small.model --l1 1 --l2 0 --dev-split 0.1

loglinear train train.txt -o small.model --prune 0.9 --precision float16 --dev dev.txt

loglinear train large.txt.gz -o large.model --template chunking --hash-bits 20

loglinear train train.txt -o ner.model --criterion softmax-margin --cost recall:3 --dev dev.txt

loglinear train train.txt -o quick.model --criterion perceptron --max-iter 10

loglinear train train.txt -o np.model --criterion m-estimation --template chunking --variance 1

loglinear train dictionary.txt -o pos.model --criterion hmm:smoothing=0.1 --partial   (labels like NN|VB and *)

loglinear train words.txt -o classes.model --criterion hmm:labels=10   (no labels at all)

loglinear train train.txt -o chunker.model --template chunking --resume   (after Ctrl-C)
"""


DEV, FEATURES, MODEL, RUN = "Dev data: stop early by", "Features", "The model", "The run"


def train_command(
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="Annotated file (also .gz, or - for standard input).")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="MODEL", help="Model file to write.")],
    dev: Annotated[
        str | None, typer.Option(metavar="FILE", help="Annotated file to stop early by.", rich_help_panel=DEV)
    ] = None,
    dev_split: Annotated[
        float | None,
        typer.Option(min=0.0, max=0.9, help="Share of the training sentences to stop early by.", rich_help_panel=DEV),
    ] = None,
    metric: Annotated[str, option("metric", panel=DEV)] = default("metric"),
    patience: Annotated[int, option("patience", panel=DEV)] = default("patience"),
    template: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="Template file, or a named set: chunking, pos, ner, words. By default ner for spans, else pos.",
            rich_help_panel=FEATURES,
        ),
    ] = None,
    min_count: Annotated[int, option("min_count", panel=FEATURES)] = default("min_count"),
    hash_bits: Annotated[int | None, option("hash_bits", panel=FEATURES)] = default("hash_bits"),
    states: Annotated[str, option("states", panel=FEATURES)] = default("states"),
    transitions: Annotated[str, option("transitions", panel=FEATURES)] = default("transitions"),
    pair_features: Annotated[bool, option("pair_features", "--pair-features", panel=FEATURES)] = default(
        "pair_features"
    ),
    prune: Annotated[float | None, option("prune", panel=MODEL)] = default("prune"),
    precision: Annotated[str, option("precision", panel=MODEL)] = default("precision"),
    gazetteer: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="List of known names, an entry a line; may be given several times.",
            rich_help_panel=FEATURES,
        ),
    ] = None,
    criterion: Annotated[str, option("criterion", panel=MODEL)] = default("criterion"),
    cost: Annotated[str | None, option("cost", panel=MODEL)] = default("cost"),
    base: Annotated[str | None, option("base", panel=MODEL)] = default("base"),
    sub_labels: Annotated[int, option("sub_labels", panel=MODEL)] = default("sub_labels"),
    order: Annotated[int, option("order", panel=MODEL)] = default("order"),
    constraints: Annotated[str | None, option("constraints", panel=MODEL, metavar="NAME|FILE.json")] = default(
        "constraints"
    ),
    l1: Annotated[float, option("l1", panel=MODEL)] = default("l1"),
    l2: Annotated[float | None, option("l2", panel=MODEL)] = default("l2"),
    variance: Annotated[float | None, option("variance", panel=MODEL)] = default("variance"),
    optimizer: Annotated[str | None, option("optimizer", panel=RUN)] = default("optimizer"),
    max_iter: Annotated[int | None, option("max_iter", panel=RUN)] = default("max_iter"),
    tolerance: Annotated[float, option("tolerance", panel=RUN)] = default("tolerance"),
    threads: Annotated[int | None, option("threads", panel=RUN)] = default("threads"),
    seed: Annotated[int, option("seed", panel=RUN)] = default("seed"),
    init: Annotated[
        Path | None,
        typer.Option(
            metavar="MODEL|CRITERION",
            help="Model to start from, or a criterion (m-estimation) to train one by first.",
            rich_help_panel=RUN,
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(min=1, help="Train only so many features, those that say most in --init.", rich_help_panel=RUN),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from MODEL.checkpoint if it is there.", rich_help_panel=RUN)
    ] = False,
    checkpoint_seconds: Annotated[
        float, typer.Option(min=0.0, help="Seconds between checkpoints (MODEL.checkpoint).", rich_help_panel=RUN)
    ] = 30.0,
    format: Format = "auto",
    separator: Separator = "auto",
    comments: Comments = "auto",
    label_column: LabelColumn = -1,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Labels may be partial: * is any label, A|B is A or B.", rich_help_panel=DATA),
    ] = False,
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File with a weight for each sentence, a number a line.", rich_help_panel=DATA
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Train a tagger on an annotated file and write a model file."""
    from loglinear.cli.common import TrainingDisplay
    from loglinear.criteria.criterion import CRITERIA
    from loglinear.errors import OptionError
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.features.templates.sets import SETS, load_template
    from loglinear.training.run import TrainingInterrupted

    out = console()
    out.quiet = quiet
    if dev is not None and dev_split is not None:
        raise OptionError("--dev and --dev-split both ask for dev data; give one")
    if dev is None and dev_split is None and (metric != default("metric") or patience != default("patience")):
        raise OptionError("--metric and --patience are about dev data; give --dev or --dev-split with them")
    check_place(output)
    checkpoint = output.with_name(output.name + ".checkpoint")
    if checkpoint.exists() and not resume:
        raise OptionError(f"{checkpoint} is of a training that did not end; go on with --resume, or remove it")
    tagger = Tagger(
        criterion=criterion, cost=cost, optimizer=optimizer, base=base, order=order, l1=l1, l2=l2,
        variance=variance, sub_labels=sub_labels, min_count=min_count, hash_bits=hash_bits, states=states,
        transitions=transitions, pair_features=pair_features, prune=prune, precision=precision,
        constraints=read_constraints(constraints), gazetteers=gazetteer or None,
        max_iter=max_iter, tolerance=tolerance, metric=metric, patience=patience, threads=threads, seed=seed,
    )  # fmt: skip
    tagger.check_options()
    if template is not None and not CRITERIA.part(criterion).learns_weights:
        raise OptionError(f"--template {template}: criterion {criterion!r} is counted, and has no features")
    if template is not None and template not in SETS:
        load_template(Path(template))  # a mistake in it is told before anything is read
    with working(out, f"reading {train}"):
        corpus = read_corpus(train, format, separator, comments, layout=False)
    sentence_weights = None if weights is None else read_weights(weights, len(corpus))
    dev_corpus = None if dev is None else read_corpus(dev, format, separator, comments, layout=False)
    if dev_split is not None:
        corpus, dev_corpus, sentence_weights = _split(corpus, dev_split, seed, sentence_weights)
    if CRITERIA.part(criterion).learns_weights:
        tagger.template = chosen_template(template, corpus, label_column, partial)
        if template is None and tagger.template is not None:
            out.print(f"template: {tagger.template} (choose with --template)")
    if resume:
        out.print(f"going on from {checkpoint}" if checkpoint.exists() else f"no {checkpoint}: starting anew")
    try:
        with TrainingDisplay(out, {"f1": "F1", "accuracy": "accuracy"}.get(metric, "score")) as display:
            tagger.fit(
                corpus, X_dev=dev_corpus, sample_weight=sentence_weights, init=init, keep=keep, checkpoint=checkpoint,
                checkpoint_seconds=checkpoint_seconds, resume=resume, observe=display.observe,
                label_column=label_column, partial=partial,
            )  # fmt: skip
    except TrainingInterrupted as interruption:
        typer.echo(f"loglinear: {interruption}", err=True)
        raise typer.Exit(130) from None
    _save(tagger, output)
    checkpoint.unlink(missing_ok=True)
    _summarise(tagger, corpus, output, out)


def _save(tagger: Tagger, output: Path) -> None:
    """Write the model; if its place has no room any more, to a temporary folder, so that the training is not lost."""
    import tempfile

    from loglinear.errors import ModelFileError

    try:
        tagger.save(output)
    except ModelFileError as error:
        spare = Path(tempfile.mkdtemp(prefix="loglinear-")) / output.name
        tagger.save(spare)
        raise ModelFileError(f"{error}. The model is saved as {spare} instead") from None


def check_place(path: Path) -> None:
    """Refuse an output that could not be written before hours are spent on it."""
    import tempfile

    from loglinear.errors import OptionError

    if str(path) == "-":
        raise OptionError("a model is written to a file, not to standard output; name it with -o")
    if path.is_dir():
        raise OptionError(f"{path} is a folder; name the file to write")
    if not path.parent.is_dir():
        raise OptionError(f"{path}: there is no folder {path.parent}; make it first")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OptionError(f"{path}: nothing can be written in {path.parent}: {error.strerror}") from None


def chosen_template(
    template: str | None, corpus: Columns | Attributes, label_column: int, partial: bool = False
) -> str | TemplateSet | None:
    """The template of that file or name, or one that suits the labels; None for ready-made attributes."""
    from loglinear.data import Attributes
    from loglinear.errors import OptionError
    from loglinear.features.templates.sets import SETS, load_template

    if isinstance(corpus, Attributes):
        if template is not None:
            raise OptionError("--template looks at columns, but the file holds ready-made attributes; leave it out")
        return None
    if template is None:
        return suggested_template(corpus, label_column, partial)
    return template if template in SETS else load_template(Path(template))


def suggested_template(corpus: Columns, label_column: int, partial: bool) -> str:
    """``ner`` where the labels are those of spans and not where it would look for tags, else ``pos``."""
    from loglinear.estimators.tagger.inputs import annotation_of
    from loglinear.structures.constraints import detect_scheme

    labels = annotation_of(corpus, None, label_column, partial).label_names()
    n_columns = len(corpus.columns)
    labels_for_tags = n_columns > 2 and label_column % n_columns == 1
    return "pos" if detect_scheme(labels) is None or labels_for_tags else "ner"


def read_constraints(given: str | None) -> str | dict[str, object] | None:
    """A scheme's name, or the content of a JSON file."""
    import json

    from loglinear.errors import OptionError

    if given is None or not given.endswith(".json"):
        return given
    try:
        content = json.loads(Path(given).read_text(encoding="utf-8"))
    except ValueError as error:
        raise OptionError(f"{given}: not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise OptionError(f"{given}: constraints are a JSON object")
    return content


def _split(
    corpus: Columns | Attributes, share: float, seed: int, weights: Float | None
) -> tuple[Columns | Attributes, Columns | Attributes, Float | None]:
    """Training and dev sentences, chosen by the seed."""
    import numpy as np

    from loglinear.errors import DataError

    order = np.random.default_rng(seed).permutation(len(corpus))
    n_dev = round(share * len(corpus))
    if not 0 < n_dev < len(corpus):
        raise DataError(f"--dev-split {share} of {len(corpus)} sentences leaves no sentence on one side", corpus.name)
    chosen, rest = np.sort(order[:n_dev]), np.sort(order[n_dev:])
    return corpus.select(rest), corpus.select(chosen), None if weights is None else weights[rest]


def read_weights(path: Path, n_sentences: int) -> Float:
    import numpy as np

    from loglinear.errors import DataError
    from loglinear.estimators.tagger.inputs import MOST_WEIGHT

    numbers = []
    try:
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError("the weights are no valid UTF-8 text", str(path)) from None
    for line, text in enumerate(content.rstrip().splitlines(), 1):
        try:
            numbers.append(float(text))
        except ValueError:
            raise DataError(
                f"{text!r:.40} is not a number; write a weight for each sentence", str(path), line
            ) from None
        if not 0.0 <= numbers[-1] <= MOST_WEIGHT:
            raise DataError(f"{text} is no weight; weights lie between 0 and {MOST_WEIGHT:g}", str(path), line)
    if len(numbers) != n_sentences:
        raise DataError(f"{len(numbers)} weights for {n_sentences} sentences", str(path))
    return np.array(numbers)


def _summarise(tagger: Tagger, corpus: Columns | Attributes, output: Path, out: Console) -> None:
    from loglinear.generative.base import HmmBase

    features = tagger.model_.features
    out.print(f"data       {len(corpus):,} sentences, {corpus.n_tokens:,} tokens, {len(tagger.classes_)} labels")
    base = tagger.model_.base
    if isinstance(base, HmmBase) and not features.n_features:
        values = sum(len(strings) for strings in base.vocabulary.values)
        out.print(f"features   none; {base.model.n_parameters:,} probabilities, over {values:,} values")
    else:
        trained = tagger.n_features_trained_
        of = f" of {trained:,}" if features.n_features < trained else ""
        out.print(f"features   {features.n_features:,}{of}, over {tagger.model_.encoder.n_attributes:,} attributes")
    out.print(f"training   {tagger.message_}; {tagger.seconds_:.1f} s")
    out.print(f"objective  {tagger.objective_:,.3f}" + (" at the last iteration" if tagger.best_iteration_ else ""))
    if tagger.dev_score_ is not None:
        out.print(
            f"dev score  {100 * tagger.dev_score_:.2f} at iteration {tagger.best_iteration_}, whose weights are kept"
        )
    if tagger.pruned_score_ is not None:
        out.print(f"pruned     {100 * tagger.pruned_score_:.2f} on the dev data")
    out.print(f"model      {output} ({output.stat().st_size / 1e6:.1f} MB)")
    out.print(
        f"next       loglinear eval TEST --model {output};  loglinear tag {output} FILE;  loglinear inspect {output}"
    )
