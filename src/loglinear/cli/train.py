"""``loglinear train``: from an annotated file to a model file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from loglinear.cli import common
from loglinear.cli.options import CorpusOptions, FitOptions, Flags, Given, ModelOutput, PagingOptions, changed, flag_of
from loglinear.errors import DataError, LoglinearError, OptionError
from loglinear.estimators.options import DEV, MODEL, RUN, TaggerOptions
from loglinear.options import READ
from loglinear.wording import how_many

if TYPE_CHECKING:
    from pathlib import Path

    from loglinear.arrays import Float
    from loglinear.data import Attributes, Columns
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.estimators.tagger.local import LocalTagger
    from loglinear.scale.cluster.engine import Cluster


INIT = "model to start from, or a criterion (m-estimation) to train one by first"
TEMPLATE = "template file, or a named set: chunking, pos, ner, words. By default ner for spans, else pos"


def train_command(
    train: Annotated[
        str,
        typer.Argument(
            metavar="TRAIN",
            help="Annotated file (also .gz, or - for standard input), a pattern for several, or what encode wrote.",
        ),
        READ,
    ],
    output: ModelOutput,
    model: Annotated[TaggerOptions, Flags(help={"template": TEMPLATE})],
    run: Annotated[FitOptions, Flags(help={"init": INIT})],
    files: CorpusOptions,
    pages: PagingOptions,
    given: Given,
    dev_split: Annotated[
        float | None,
        typer.Option(min=0.0, max=0.9, help="Share of the training sentences to use as dev data.", rich_help_panel=DEV),
    ] = None,
    classifier: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Train this scikit-learn classifier to label each token, as in LogisticRegression:C=0.5; its features "
            "are those of --template, and with --pair-features each joined with the label before.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(min=1, help="Train only this many features, the most informative of --init.", rich_help_panel=RUN),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Train on a Dask cluster: tcp://HOST:PORT of its scheduler, or local:N for N processes here.",
            rich_help_panel=RUN,
        ),
    ] = None,
    grow: Annotated[
        bool,
        typer.Option(
            "--grow",
            help="Keep all labels, attributes and features of --init beside those of TRAIN.",
            rich_help_panel=RUN,
        ),
    ] = False,
) -> None:
    """Train a tagger on an annotated file and write a model file.

    Examples
    --------
    loglinear train train.txt -o chunker.model --template chunking
    loglinear train train.txt -o ner.model --template ner --constraints bio --dev dev.txt
    loglinear train train.txt -o small.model --l1 1 --l2 0 --dev-split 0.1
    loglinear train train.txt -o small.model --prune 0.9 --precision float16 --dev dev.txt
    loglinear train train.txt -o ner.model --template ner --vectors glove.6B.100d.txt
    loglinear train made.crfsuite -o made.model --edge word   (features word=... of label pairs, too)
    loglinear train large.txt.gz -o large.model --template chunking --hash-bits 20
    loglinear train train.txt -o ner.model --criterion softmax-margin --cost recall:3 --dev dev.txt
    loglinear train train.txt -o quick.model --criterion perceptron --max-iter 10
    loglinear train train.txt -o np.model --criterion m-estimation --template chunking --variance 1
    loglinear train dictionary.txt -o pos.model --criterion hmm:smoothing=0.1 --partial   (labels like NN|VB and *)
    loglinear train words.txt -o classes.model --criterion hmm:labels=10   (no labels at all)
    loglinear train train.txt -o chunker.model --template chunking --resume   (after Ctrl-C)
    loglinear train more.txt -o new.model --init chunker.model --grow --template chunking
    loglinear train train.txt -o ner.model --template ner --class-weight balanced --min-freq 2
    loglinear train train.txt -o svm.model --template chunking --classifier LinearSVC:C=0.3 --dev dev.txt
    loglinear train 'parts/*.gz' -o large.model --template chunking --memory 2G   (larger than memory)
    loglinear train encoded/ -o large.model --memory 2G   (what loglinear encode has written)
    loglinear train 'parts/*.gz' -o large.model --template chunking --cluster tcp://10.0.0.1:8786
    """
    out = common.console(run.quiet)
    with pages.paging():
        if cluster is None:
            _train(train, output, model, run, files, given, dev_split, classifier, keep, grow, out)
            return
        if classifier is not None:
            raise OptionError("--cluster: a classifier of scikit-learn's is trained on one machine; leave it out")
        from loglinear.scale.cluster.engine import open_cluster

        with open_cluster(cluster, say=out.print) as opened:
            _train(train, output, model, run, files, given, dev_split, None, keep, grow, out, opened)


def _train(
    train: str,
    output: Path,
    model: TaggerOptions,
    run: FitOptions,
    files: CorpusOptions,
    given: Given,
    dev_split: float | None,
    classifier: str | None,
    keep: int | None,
    grow: bool,
    out: common.Screen,
    cluster: Cluster | None = None,
) -> None:
    from loglinear import mapped
    from loglinear.criteria.criterion import CRITERIA

    if run.dev is not None and dev_split is not None:
        raise OptionError("--dev and --dev-split both ask for dev data; give one")
    if run.dev is None and dev_split is None and changed(model, "metric", "patience"):
        raise OptionError("--metric and --patience need dev data; give --dev or --dev-split with them")
    if classifier is not None:
        if keep is not None:
            raise OptionError("--keep: a classifier of scikit-learn's has all features; leave it out")
        if grow:
            raise OptionError("--grow: a classifier of scikit-learn's starts from no model; leave it out")
        _train_classifier(train, classifier, model, run, files, dev_split, output, out, "--criterion" in given)
        return
    tagger = common.tagger_of(model)
    tagger.check_options()
    common.check_training(output, run)
    learns_weights = CRITERIA.part(model.criterion).learns_weights
    if model.template is not None and not learns_weights:
        raise OptionError(
            f"--template {model.template}: criterion {model.criterion!r} counts, and uses no features; leave it out"
        )
    template = common.read_template(model.template)  # a mistake in it is reported before the data is read
    if cluster is not None and dev_split is not None:
        raise OptionError("--dev-split: sentences on a cluster cannot be chosen; give --dev FILE")
    corpus, dev, weights = _read(
        train, files, run, dev_split, model.seed, out, tagger if learns_weights else None, given, cluster
    )
    if learns_weights and not (template is None and tagger.template is not None):
        common.choose_template(tagger, template, corpus, files, out)
    metric = {"f1": "F1", "auto": "score"}.get(model.metric, model.metric)
    with common.releasing(corpus):
        common.fit(
            tagger, corpus, run, out, output=output, metric=metric, X_dev=dev, sample_weight=weights, keep=keep,
            grow=grow, label_column=files.label_column, partial=files.partial,
        )  # fmt: skip
    tagger.data_ = files.said(train)
    common.save(tagger, output)
    common.summarise(
        tagger, out, output,
        data=_data(corpus, len(tagger.classes_)),
        features=_features(tagger),
        memory=mapped.said(),
        cluster=str(getattr(corpus, "report", "")),
        following="loglinear eval TEST --model MODEL;  loglinear tag MODEL FILE;  loglinear inspect MODEL",
    )  # fmt: skip


OF_CLASSIFIERS = (
    "template",
    "min_count",
    "constraints",
    "gazetteers",
    "pair_features",
    "metric",
    "seed",
    "threads",
    "verbose",
)  # options of a tagger that one made of a classifier has, too


def _train_classifier(
    train: str,
    spec: str,
    model: TaggerOptions,
    run: FitOptions,
    files: CorpusOptions,
    dev_split: float | None,
    output: Path,
    out: common.Screen,
    has_criterion: bool,
) -> None:
    """Train a scikit-learn classifier as a tagger and write a model file; a criterion, the default too, is refused."""
    import time

    from loglinear.estimators.tagger.classifiers import read_classifier
    from loglinear.estimators.tagger.local import LocalTagger
    from loglinear.options import declared

    others = [name for name, each in declared(TaggerOptions).items() if name not in OF_CLASSIFIERS]
    given = changed(model, *(name for name in others if not declared(TaggerOptions)[name].python_only))
    if has_criterion and "--criterion" not in given:
        given = ["--criterion", *given]
    if given := given + changed(run, "init", "resume") + changed(files, "partial"):
        raise OptionError(f"{', '.join(given)}: not with --classifier, which trains by itself; leave out")
    if model.pair_features not in (False, True):
        raise OptionError(f"--pair-features {model.pair_features}: with --classifier it is on or off")
    trained = read_classifier(spec)
    if "random_state" in trained.get_params() and trained.random_state is None:
        trained.set_params(random_state=model.seed)
    tagger = LocalTagger(
        trained, min_count=model.min_count, constraints=common.read_constraints(model.constraints),
        gazetteers=model.gazetteers, joined=model.pair_features, threads=model.threads,
    )  # fmt: skip
    tagger.check_options()
    common.check_training(output, run)
    template = common.read_template(model.template)
    corpus, dev, weights = _read(train, files, run, dev_split, model.seed, out)
    common.choose_template(tagger, template, corpus, files, out)
    began = time.perf_counter()
    with common.working(out, f"training {type(trained).__name__}"), common.showing_warnings(out):
        try:
            tagger.fit(corpus, sample_weight=weights, label_column=files.label_column)
        except LoglinearError:
            raise
        except (ValueError, TypeError) as error:
            raise OptionError(f"--classifier {spec}: {' '.join(str(error).split())}") from None
    seconds = time.perf_counter() - began
    common.save(tagger, output)
    columns = tagger.model_.columns
    common.show_lines(
        {
            "data": _data(corpus, len(tagger.classes_)),
            "features": f"{how_many(columns.n_columns, 'column')}, over {how_many(columns.n_attributes, 'attribute')}",
            "training": f"{trained}; {seconds:.1f} s",
            "dev score": "" if dev is None else _dev_score(tagger, dev, files.label_column, model.metric),
        },
        out,
    )
    common.show_lines(
        common.written(
            output, "loglinear eval TEST --model MODEL;  loglinear tag MODEL FILE;  loglinear inspect MODEL"
        ),
        out,
    )


def _dev_score(tagger: LocalTagger, dev: Columns | Attributes, label_column: int, metric: str) -> str:
    """The score of dev data in words."""
    from loglinear.estimators.tagger.inputs import annotation_of, score_labels
    from loglinear.structures.constraints import detect_scheme

    if metric == "auto":
        metric = "accuracy" if detect_scheme(tagger.classes_) is None else "f1"
    annotation = annotation_of(dev, None, label_column)
    numbers, _ = tagger.predict_numbers(dev)
    score = score_labels(metric, annotation, numbers, tagger.classes_, dev.offsets)
    return f"{100 * score:.2f} ({'F1' if metric == 'f1' else metric})"


def _read(
    train: str,
    files: CorpusOptions,
    run: FitOptions,
    dev_split: float | None,
    seed: int,
    out: common.Screen,
    tagger: Tagger | None = None,
    given: Given | None = None,
    cluster: Cluster | None = None,
) -> tuple[Columns | Attributes, Columns | Attributes | None, Float | None]:
    """Training data, dev data or None, and the sentences' weights or None; an encoded corpus brings options along."""
    from loglinear.scale.encoded import read_parts
    from loglinear.scale.parts import is_encoded

    corpus: Columns | Attributes
    with common.working(out, f"reading {train}"):
        if cluster is not None:
            from loglinear.scale.cluster.corpus import ClusterColumns
            from loglinear.scale.cluster.source import pieces_of

            if is_encoded(train) and tagger is not None and given is not None:
                common.adopt_encoding(tagger, files.read(train), lambda name: flag_of(TaggerOptions, name) in given)
            place = None if files.column is not None else files.label_column
            corpus = ClusterColumns.read(cluster, pieces_of(train, files.read, files.format), place)
            corpus.say, files.label_column = out.print, corpus.label_column
        else:
            corpus = files.read(train) if is_encoded(train) else read_parts([train], files.read)
        weights = files.sentence_weights(len(corpus))
        dev = None if run.dev is None else files.read(run.dev)
    if tagger is not None and given is not None:
        common.adopt_encoding(tagger, corpus, lambda name: flag_of(TaggerOptions, name) in given)
    return (corpus, dev, weights) if dev_split is None else _split(corpus, dev_split, seed, weights)


def _split(
    corpus: Columns | Attributes, share: float, seed: int, weights: Float | None
) -> tuple[Columns | Attributes, Columns | Attributes, Float | None]:
    """Training and dev sentences, chosen by the seed."""
    import numpy as np

    order = np.random.default_rng(seed).permutation(len(corpus))
    n_dev = round(share * len(corpus))
    if not 0 < n_dev < len(corpus):
        raise DataError(
            f"--dev-split {share} of {how_many(len(corpus), 'sentence')} leaves no sentence on a side; give --dev FILE",
            corpus.name,
        )
    chosen, rest = np.sort(order[:n_dev]), np.sort(order[n_dev:])
    return corpus.select(rest), corpus.select(chosen), None if weights is None else weights[rest]


def _data(corpus: Columns | Attributes, n_labels: int) -> str:
    """What was learnt from."""
    sizes = how_many(len(corpus), "sentence"), how_many(corpus.n_tokens, "token"), how_many(n_labels, "label")
    return ", ".join(sizes)


def _features(tagger: Tagger) -> str:
    """The number of features of a tagger, or of probabilities if it has none."""
    from loglinear.generative.base import HmmBase

    n, base = tagger.model_.features.n_features, tagger.model_.base
    if isinstance(base, HmmBase) and not n:
        values = sum(len(strings) for strings in base.vocabulary.values)
        return f"none; {how_many(base.model.n_parameters, 'probability')}, over {how_many(values, 'value')}"
    of = f" of {tagger.n_features_trained_:,}" if n < tagger.n_features_trained_ else ""
    return f"{n:,}{of}, over {how_many(tagger.model_.encoder.n_attributes, 'attribute')}"
