"""``wapiti``: ``python -m loglinear.compat.wapiti train|label|dump``, or ``loglinear wapiti ...``.

Objective and patterns are Wapiti's, to the byte (the template directive ``%wapiti``); algorithms that loglinear does
not have are replaced by its own for the same objective. Models are loglinear's; ``label`` and ``dump`` take Wapiti's as
well, and ``label`` any other tagger of columns.
"""

from __future__ import annotations

import sys
from typing import Any

from loglinear.compat.commands import PAGE, Arguments, Output, check_output, command
from loglinear.compat.crf_learn import read_text

USAGE = """\
wapiti train [options] [input data] [model file]
  -T | --type STRING     crf (default), maxent or memm
  -a | --algo STRING     l-bfgs (default), sgd-l1; bcd and rprop minimise the same objective by l-bfgs
  -p | --pattern FILE    patterns for extracting features
  -m | --model FILE      model to start from
  -d | --devel FILE      data to stop by; the best weights are kept
  -t | --nthread INT     threads
  -i | --maxiter INT     iterations, at most
  -1 | --rho1 FLOAT      l1 penalty (0.5)
  -2 | --rho2 FLOAT      l2 penalty (0.0001)
  -w | --stopwin INT     with -d: iterations without a better score to stop after (5)
  -e | --stopeps FLOAT   relative change of the objective to stop at
  -c, -s, -j, -o and settings of algorithms have no effect
wapiti label [options] [input data] [output data]
  -m | --model FILE      the model
  -l | --label           output only labels
  -c | --check           the input has labels: count mistakes
  -s | --score           add scores to the output
  -p | --post            label by posterior probabilities
  -n | --nbest INT       the best labellings
       --force           keep the labels that the input has
wapiti dump [options] [input model] [output text]
  -p | --prec INT        digits of weights (5)
       --all             zero weights, too
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    words = sys.argv[1:] if argv is None else argv
    modes = {"train": _train, "t": _train, "label": _label, "l": _label, "dump": _dump, "d": _dump}

    def run(given: Arguments) -> None:
        from loglinear.errors import OptionError

        mode = words[0]
        if mode not in modes:
            raise OptionError(f"unknown mode {mode!r}: train, label or dump")
        modes[mode](Arguments(words[1:]))

    return command("wapiti", USAGE, run, words)


# ----------------------------------------------------------------------------------------------------------------------
# Training.


def patterns(path: str) -> str:
    """Wapiti's pattern file as a template: comments, which may follow a pattern, are left out."""
    from loglinear.features.templates.language import WAPITI

    lines = [line.partition("#")[0].rstrip() for line in read_text(path).split("\n")]
    return "\n".join([WAPITI, *(line for line in lines if line)])


def _train(given: Arguments) -> None:
    from loglinear.compat.commands import sentences
    from loglinear.errors import OptionError
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.features.templates.language import Template, TemplateSet

    type_ = given.text("-T", "--type", default="crf")
    type_ = "maxent" if given.switch("--me") else type_
    algorithm = given.text("-a", "--algo", default="l-bfgs")
    pattern, dev, init = (given.text(*names) for names in (("-p", "--pattern"), ("-d", "--devel"), ("-m", "--model")))
    threads, iterations = given.number("-t", "--nthread", least=1), given.number("-i", "--maxiter", least=1)
    rho1, rho2 = given.real("-1", "--rho1", default=0.5), given.real("-2", "--rho2", default=0.0001)
    patience, stop = given.number("-w", "--stopwin", default=5, least=1), given.real("-e", "--stopeps")
    for names in (("-c", "--compact"), ("-s", "--sparse"), ("--clip",), ("--cutoff",)):
        given.ignored(*names, switch=True)
    settings = ("--histsz", "--maxls", "--eta0", "--alpha", "--kappa", "--stpmin", "--stpmax", "--stpinc", "--stpdec")
    given.ignored("-j", "--jobsize")
    given.ignored("-o", "--objwin")
    for each in settings:
        given.ignored(each)
    for name in ("--rstate", "--sstate"):
        if given.texts(name):
            raise OptionError(f"{name}: not here; loglinear train has --resume ({PAGE})")
    train, output = given.rest(at_least=2, at_most=2)
    if type_ not in ("crf", "maxent", "memm"):
        raise OptionError(f"-T {type_}: not one of crf, maxent, memm")
    algorithms = ("l-bfgs", "sgd-l1", "bcd", "rprop", "rprop+", "rprop-")
    if algorithm not in algorithms:
        raise OptionError(f"-a {algorithm}: not one of {', '.join(algorithms)}")
    if pattern is None:
        raise OptionError("no patterns: give -p FILE (data whose tokens are observations can only be labelled here)")
    check_output(output, train, pattern, dev, init)
    templates = TemplateSet.parse(patterns(pattern), pattern)
    if type_ == "maxent":  # as there, what looks at pairs of labels has no part in it
        kept = [Template("u", *t.pieces) if t.scope == "both" else t for t in templates if t.scope != "edge"]
        templates = TemplateSet(tuple(kept), wapiti=True)
    corpus, _ = sentences(train)
    has_pairs = templates.has_label_bigram
    more: dict[str, Any] = {} if stop is None else {"tolerance": stop}
    more |= {} if dev is None else {"patience": patience}
    tagger = Tagger(
        template=templates, criterion="memm" if type_ == "memm" else "cll", states="all",
        transitions="all" if has_pairs else "none", l1=rho1, l2=rho2 / 2.0, max_iter=iterations, threads=threads,
        precision="float64", optimizer="sgd" if algorithm == "sgd-l1" and not rho1 else "lbfgs", **more,
    )  # fmt: skip
    tagger.check_options()

    def observe(progress: Any) -> None:
        sys.stderr.write(f"  [{progress.iteration:4d}] obj={progress.objective:<10.2f} time={progress.seconds:.2f}s\n")

    X_dev = None if dev is None else sentences(dev)[0]
    tagger.fit(corpus, X_dev=X_dev, init=init, observe=observe)
    tagger.save(output)
    features = tagger.model_.features
    sys.stderr.write(
        f"* Summary\n    nb labels: {len(tagger.classes_)}\n    nb features: {features.n_features}\n* Done\n"
    )


# ----------------------------------------------------------------------------------------------------------------------
# Labelling.


def _label(given: Arguments) -> None:
    import numpy as np

    from loglinear.errors import OptionError
    from loglinear.estimators.tagger.inputs import annotation_of
    from loglinear.estimators.tagger.predict import LoadedTagger

    model, n_best = given.text("-m", "--model"), given.number("-n", "--nbest", default=1, least=1)
    only_labels, check = given.switch("-l", "--label"), given.switch("-c", "--check")
    scores, posterior, force = given.switch("-s", "--score"), given.switch("-p", "--post"), given.switch("--force")
    given.ignored("--me", switch=True)
    files = given.rest(at_most=2)
    if model is None:
        raise OptionError("no model: give -m MODEL")
    if check and force:
        raise OptionError("--check and --force: give one of them")
    check_output(files[1] if len(files) > 1 else None, model, files[0] if files else None)
    tagger = LoadedTagger.load(model)
    corpus, lines = _corpus(tagger, files[0] if files else "-", check or force)
    known = annotation_of(corpus, None, -1, partial=True) if force else None
    labels, local = tagger.classes_, getattr(tagger.model_, "local", False)
    encoded, allowed = tagger._encode(corpus, known)
    posterior = posterior and not local
    if n_best > 1:
        ranked = [list(found) for found, _ in tagger.model_.n_best(encoded, n_best, allowed)]
    else:
        best = tagger.model_.decode(encoded, allowed, "posterior" if posterior else "viterbi")
        ranked = [[each] for each in np.split(best, encoded.offsets[1:-1])]
    parts = _parts(tagger.model_, encoded, posterior) if scores else None
    with Output(files[1] if len(files) > 1 else "-") as out:
        for i, labellings in enumerate(ranked):
            for rank, numbers in enumerate(labellings):
                own = [] if parts is None else parts(i, numbers)
                if parts is not None:
                    whole = np.prod(own) if posterior or local else np.sum(own)
                    out.line(f"# {rank} {whole:.6f}")
                for t, number in enumerate(numbers.tolist()):
                    name = labels[number]
                    fields = ([] if only_labels else [lines[i][t]]) + [name]
                    fields += [f"{name}/{own[t]:.6f}"] if parts is not None else []
                    out.line("\t".join(fields))
                out.line("")
    if check:
        _report(corpus, [each[0] for each in ranked], labels)


def _corpus(tagger: Any, path: str, labelled: bool) -> tuple[Any, list[list[str]]]:
    """The sentences of a file as the model takes them, and their lines."""
    from io import BytesIO

    from loglinear.data import Attributes, Column, read_columns
    from loglinear.data.columns.corpus import offsets_of
    from loglinear.data.files import read_bytes
    from loglinear.errors import DataError
    from loglinear.features.names import attributes_of

    raw = read_bytes(path)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise DataError("the file is not UTF-8 text", path) from None
    sentences, current = list[list[str]](), list[str]()
    for line in [*text.replace("\r\n", "\n").split("\n"), ""]:
        if line.strip():
            current.append(line)
        elif current:
            sentences.append(current)
            current = []
    if not sentences:
        raise DataError("the file holds no tokens", path)
    if tagger.model_.takes_rows:
        source = BytesIO(raw)
        source.name = path
        return read_columns(source, comments="none", docstart=False, layout=False), sentences
    rows = [[line.split() for line in lines] for lines in sentences]
    corpus: Attributes = attributes_of([[row[: len(row) - labelled] for row in sentence] for sentence in rows], path)
    if labelled:
        corpus.label = Column.from_strings([row[-1] for sentence in rows for row in sentence])
    assert len(corpus.offsets) == len(offsets_of(list(map(len, rows))))
    return corpus, sentences


def _parts(model: Any, encoded: Any, posterior: bool) -> Any:
    """The function from a sequence's number and a labelling to the score of each of its positions.

    With posteriors these are probabilities, in an MEMM those of a label after the one before it, else what each
    position adds to the labelling's score.
    """
    import dataclasses

    import numpy as np

    from loglinear.errors import OptionError
    from loglinear.estimators.tagger.model import ChainModel

    if posterior:
        marginals = np.split(model.marginals(encoded), encoded.offsets[1:-1])
        return lambda i, labels: marginals[i][np.arange(len(labels)), labels]

    if not isinstance(model, ChainModel) or model.order > 1 or model.sub_labels > 1 or model.base is not None:
        raise OptionError("-s: the model is none of Wapiti's kind; with -p there are probabilities")
    local = model.local
    model = dataclasses.replace(model, local=False)

    def of(i: int, labels: Any) -> Any:
        first, end = encoded.offsets[i : i + 2].tolist()
        scores = model.features.scores(model.features.lay_out(model.weights, model.penalties), encoded, i, i + 1)
        steps = scores.emission[: end - first].copy()  # of each label, after the labelling's previous one
        steps[1:] += scores.transition[labels[:-1]]
        steps[0] += scores.start
        steps[-1] += scores.stop
        if scores.edge is not None:
            steps[1:] += scores.edge[np.arange(1, len(labels)), labels[:-1]]
        own = steps[np.arange(len(labels)), labels]
        return np.exp(own - np.logaddexp.reduce(steps, axis=1)) if local else own

    return of


def _report(corpus: Any, predicted: list[Any], names: list[str]) -> None:
    """Mistakes, on standard error."""
    import numpy as np

    column = corpus.label if hasattr(corpus, "label") else corpus.column(-1)
    place = {name: y for y, name in enumerate(names)}
    gold = np.array([place.get(value, -1) for value in column.values], dtype=np.int64)[column.ids]
    found = np.concatenate(predicted)
    wrong = gold != found
    sentences = np.add.reduceat(wrong, corpus.offsets[:-1]) > 0
    lines = [
        f"    Nb sequences  : {len(sentences)}",
        f"    Token error   : {100.0 * wrong.mean():5.2f}%",
        f"    Sequence error: {100.0 * sentences.mean():5.2f}%",
        "* Per label statistics",
    ]
    for y, name in enumerate(names):
        right = int(((gold == y) & (found == y)).sum())
        with np.errstate(all="ignore"):
            recall, precision = np.float64(right) / (gold == y).sum(), np.float64(right) / (found == y).sum()
            f1 = 2.0 * precision * recall / (precision + recall)
        lines.append(f"    {name:<6s}  Pr={precision:.2f}  Rc={recall:.2f}  F1={f1:.2f}")
    sys.stderr.write("".join(f"{line}\n" for line in lines))


# ----------------------------------------------------------------------------------------------------------------------
# Weights as text.


def _dump(given: Arguments) -> None:
    from loglinear.errors import OptionError
    from loglinear.estimators.tagger.predict import LoadedTagger

    digits, every = given.number("-p", "--prec", default=5), given.switch("--all")
    files = given.rest(at_least=1, at_most=2)
    if digits > 100:
        raise OptionError(f"-p {digits}: at most 100 digits")
    check_output(files[1] if len(files) > 1 else None, files[0])
    model: Any = LoadedTagger.load(files[0]).model_
    labels = model.labels
    with Output(files[1] if len(files) > 1 else "-") as out:

        def write(name: str, before: str, label: str, weight: float) -> None:
            if weight != 0.0 or every:
                out.line(f"{name}\t{before}\t{label}\t{weight:.{digits}f}")

        for (name, label), weight in model.named("state").items():
            write(name, "#", label, weight)
        for (before, label), weight in model.named("transition").items():
            write("*", before, label, weight)
        for (name, before, label), weight in model.named("edge").items():
            write(name, before, label, weight)
        if every:
            known = set(model.named("state"))
            for name in model.encoder.names():
                for label in labels:
                    if (name, label) not in known and name[:1].lower() != "b":
                        write(name, "#", label, 0.0)


if __name__ == "__main__":
    raise SystemExit(main())
