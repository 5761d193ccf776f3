"""``crfsuite``: ``python -m loglinear.compat.crfsuite learn|tag|dump``, or ``loglinear crfsuite ...``.

``learn`` writes models that CRFsuite itself reads, and prints its log; ``tag`` takes these, and any other tagger of
attributes.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from itertools import pairwise
from typing import Any

from loglinear.compat.commands import Arguments, Output, check_output, command

USAGE = """\
crfsuite learn [options] [DATA...]      (- is standard input)
  -t, --type=1d           the kind of model: there is one
  -a, --algorithm=NAME    lbfgs (default), l2sgd, ap, pa, arow
  -p, --set=NAME=VALUE    a parameter of the algorithm, such as c2=1
  -m, --model=FILE        where to write the model
  -g, --split=N           split the data into N groups
  -e, --holdout=M         evaluate with group M, which is not trained on
  -x, --cross-validate    train and evaluate with each group left out
  -H, --help-parameters   show the parameters of the algorithm
crfsuite tag [options] [DATA]
  -m, --model=FILE        the model
  -t, --test              evaluate: the first field is the label
  -r, --reference         write the label of the data as well
  -p, --probability       write the probability of each labelling
  -i, --marginal          write the probability of each label
  -l, --marginal-all      write those of all labels
  -q, --quiet             write no labels
crfsuite dump MODEL
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    words = sys.argv[1:] if argv is None else argv
    modes = {"learn": (_learn, "xHh"), "tag": (_tag, "trpilqh"), "dump": (_dump, "h")}

    def run(given: Arguments) -> None:
        from loglinear.errors import OptionError

        if words[0] not in modes:
            raise OptionError(f"unknown mode {words[0]!r}: learn, tag or dump")
        mode, switches = modes[words[0]]
        mode(Arguments(words[1:], switches))

    return command("crfsuite", USAGE, run, words)


# ----------------------------------------------------------------------------------------------------------------------
# Training.


def _learn(given: Arguments) -> None:
    from loglinear.errors import OptionError

    Trainer: Any = import_module("loglinear.compat.pycrfsuite").Trainer

    type_, algorithm = given.text("-t", "--type", default="1d"), given.text("-a", "--algorithm", default="lbfgs")
    parameters, model = given.texts("-p", "--set"), given.text("-m", "--model", default="")
    groups, holdout = given.number("-g", "--split", least=1), given.number("-e", "--holdout", least=1)
    each, parameters_only = given.switch("-x", "--cross-validate"), given.switch("-H", "--help-parameters")
    files = given.rest() or ["-"]
    if type_ not in ("1d", "crf1d"):
        raise OptionError(f"-t {type_}: there is 1d alone")
    if (each or holdout is not None) and holdout is not None and groups is not None and holdout > groups:
        raise OptionError(f"-e {holdout}: there are {groups} groups")
    if each and not groups:
        raise OptionError("-x: give the number of groups with -g")

    check_output(model or None, *files)

    def trainer() -> Any:
        made = _printing(Trainer)(algorithm)
        for setting in parameters:
            name, equals, value = setting.partition("=")
            if not equals or name not in made.params():
                raise OptionError(f"-p {setting}: not NAME=VALUE of {', '.join(sorted(made.params()))}")
            try:
                made.set(name, value)
            except ValueError as error:
                raise OptionError(f"-p {setting}: {error}") from None
        return made

    if parameters_only:
        chosen = trainer()
        sys.stdout.write("".join(f"{name}={chosen.get(name)}\n    {chosen.help(name)}\n" for name in chosen.params()))
        return
    X, y, group = _data(files, groups)
    for left_out in range(groups) if each and groups else [-1 if holdout is None else holdout - 1]:
        own = trainer()
        for x, labels, number in zip(X, y, group, strict=True):
            own.append(x, labels, number)
        if each:
            sys.stdout.write(f"===== Cross validation ({left_out + 1}/{groups}) =====\n")
        own.train("" if each else model, left_out)


def _printing(trainer: Any) -> Any:
    """The class of trainers that print their log."""

    class Printing(trainer):  # type: ignore[misc]  # a class that is known at run time
        def message(self, message: str) -> None:
            sys.stdout.write(message)
            sys.stdout.flush()

    return Printing


def _data(files: list[str], groups: int | None) -> tuple[list[Any], list[Any], list[int]]:
    """Sequences, labels and groups: the number of each file or, with ``groups``, every n-th sequence."""
    from loglinear.data import read_attributes
    from loglinear.errors import DataError

    X, y, group = list[Any](), list[Any](), list[int]()
    for number, path in enumerate(files):
        corpus = read_attributes(path)
        if corpus.label is None:
            raise DataError("the file has no labels", path)
        xs, labels = _sequences(corpus), corpus.label.strings()
        offsets = corpus.offsets.tolist()
        for i, x in enumerate(xs):
            X.append(x)
            y.append(labels[offsets[i] : offsets[i + 1]])
            group.append(number if groups is None else len(group) % groups)
    return X, y, group


def _sequences(corpus: Any) -> list[list[dict[str, float]]]:
    """The attributes of each token with their values, as sequences; values of what is there twice add up."""
    names, ids, pointer = corpus.values, corpus.ids.tolist(), corpus.pointer.tolist()
    values = [1.0] * len(ids) if corpus.weights is None else corpus.weights.tolist()
    tokens = []
    for t in range(len(pointer) - 1):
        token = dict[str, float]()
        for j in range(pointer[t], pointer[t + 1]):
            token[names[ids[j]]] = token.get(names[ids[j]], 0.0) + values[j]
        tokens.append(token)
    offsets = corpus.offsets.tolist()
    return [tokens[offsets[i] : offsets[i + 1]] for i in range(len(offsets) - 1)]


# ----------------------------------------------------------------------------------------------------------------------
# Labelling.


def _tag(given: Arguments) -> None:
    import numpy as np

    from loglinear.data import read_attributes
    from loglinear.errors import OptionError
    from loglinear.estimators.tagger.predict import LoadedTagger

    model, began = given.text("-m", "--model"), time.perf_counter()
    test, reference = given.switch("-t", "--test"), given.switch("-r", "--reference")
    probability, marginal = given.switch("-p", "--probability"), given.switch("-i", "--marginal")
    every, quiet = given.switch("-l", "--marginal-all"), given.switch("-q", "--quiet")
    files = given.rest(at_most=1)
    if model is None:
        raise OptionError("no model: give -m MODEL")
    tagger = LoadedTagger.load(model)
    corpus = read_attributes(files[0] if files else "-")
    encoded, _ = tagger._encode(corpus, None)
    best = tagger.model_.decode(encoded)
    offsets, names = corpus.offsets.tolist(), tagger.classes_
    gold = [] if corpus.label is None else corpus.label.strings()
    if not quiet:
        p = np.exp(tagger.model_.log_probability(encoded, best)) if probability else np.zeros(len(corpus))
        marginals = tagger.model_.marginals(encoded) if marginal or every else np.zeros((0, 0))
        labels = best.tolist()
        with Output("-") as out:
            for i in range(len(corpus)):
                if probability:
                    out.line(f"@probability\t{p[i]:.6f}")
                for t in range(offsets[i], offsets[i + 1]):
                    text = f"{gold[t]}\t" if reference else ""
                    text += names[labels[t]]
                    if marginal:
                        text += f":{marginals[t, labels[t]]:.6f}"
                    if every:
                        text += "".join(
                            f"\t{name}:{q:.6f}" for name, q in zip(names, marginals[t].tolist(), strict=True)
                        )
                    out.line(text)
                out.line("")
    if test:
        _report(gold, [names[y] for y in best.tolist()], names, offsets, time.perf_counter() - began)


def _report(gold: list[str], predicted: list[str], names: list[str], offsets: list[int], seconds: float) -> None:
    """What ``-t`` prints: scores of labels, of tokens and of sequences."""
    lines = ["Performance by label (#match, #model, #ref) (precision, recall, F1):"]
    totals = [0.0, 0.0, 0.0]
    for name in names:
        match = sum(g == name == p for g, p in zip(gold, predicted, strict=True))
        model, truth = predicted.count(name), gold.count(name)
        precision, recall = match / model if model else 0.0, match / truth if truth else 0.0
        f1 = 2.0 * precision * recall / (precision + recall) if precision + recall else 0.0
        if model == truth == 0:
            lines.append(f"    {name}: ({match}, {model}, {truth}) (******, ******, ******)")
        else:
            lines.append(f"    {name}: ({match}, {model}, {truth}) ({precision:1.4f}, {recall:1.4f}, {f1:1.4f})")
        totals = [total + own for total, own in zip(totals, (precision, recall, f1), strict=True)]
    n = max(1, len(names))
    lines.append(f"Macro-average precision, recall, F1: ({', '.join(f'{total / n:.6f}' for total in totals)})")
    right = sum(g == p for g, p in zip(gold, predicted, strict=True))
    whole = sum(gold[a:b] == predicted[a:b] for a, b in pairwise(offsets))
    n_sequences = len(offsets) - 1
    lines.append(f"Item accuracy: {right} / {len(gold)} ({right / len(gold):1.4f})")
    lines.append(f"Instance accuracy: {whole} / {n_sequences} ({whole / n_sequences:1.4f})")
    lines.append(f"Elapsed time: {seconds:.6f} [sec] ({n_sequences / seconds:.1f} [instance/sec])")
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


# ----------------------------------------------------------------------------------------------------------------------
# Weights as text.


def _dump(given: Arguments) -> None:
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.estimators.tagger.foreign import from_tagger
    from loglinear.foreign.crfsuite import read_crfsuite, write_crfsuite

    (path,) = given.rest(at_least=1, at_most=1)
    model = read_crfsuite(write_crfsuite(from_tagger(Tagger.load(path))))
    header = model.header
    assert header is not None
    with Output("-") as out:
        out.line("FILEHEADER = {")
        for name, value in header._asdict().items():
            shown = f"0x{value:X}" if name.startswith("off_") else value
            out.line(f"  {name}: {shown}")
        for title, names in (("LABELS", model.labels), ("ATTRIBUTES", model.attributes)):
            out.line(f"}}\n\n{title} = {{")
            for i, name in enumerate(names):
                out.line(f"  {i:5d}: {name}")
        out.line("}\n\nTRANSITIONS = {")
        for a, b, weight in zip(
            model.sources.tolist(), model.targets.tolist(), model.transition_weights.tolist(), strict=True
        ):
            out.line(f"  (1) {model.labels[a]} --> {model.labels[b]}: {weight:.6f}")
        out.line("}\n\nSTATE_FEATURES = {")
        for a, b, weight in zip(
            model.state_attributes.tolist(), model.state_labels.tolist(), model.state_weights.tolist(), strict=True
        ):
            out.line(f"  (0) {model.attributes[a]} --> {model.labels[b]}: {weight:.6f}")
        out.line("}\n")


if __name__ == "__main__":
    raise SystemExit(main())
