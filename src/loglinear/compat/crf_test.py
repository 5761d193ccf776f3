"""``crf_test`` of CRF++: ``python -m loglinear.compat.crf_test -m MODEL FILE...``, or ``loglinear crfpp test``.

Takes models of CRF++, and any tagger of columns. What comes out has CRF++'s form: the columns, with tabs between them,
and the label; ``-v`` adds probabilities, ``-n`` the best labellings.
"""

from __future__ import annotations

from typing import Any

from loglinear.compat.commands import Arguments, Output, check_output, command, sentences

USAGE = """\
Usage: crf_test [options] FILE... (- is standard input)
 -m, --model=FILE        the model
 -n, --nbest=INT         the n best labellings of each sentence
 -v, --verbose=INT       1: probabilities of labellings and labels; 2: of all labels, too
 -c, --cost-factor=FLOAT multiply all weights by this
 -o, --output=FILE       where to write
 -h, --help              show this
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    return command("crf_test", USAGE, _run, argv)


def _run(given: Arguments) -> None:
    import numpy as np

    from loglinear.errors import OptionError
    from loglinear.estimators.tagger.predict import LoadedTagger

    model = given.text("-m", "--model")
    n_best, verbose = given.number("-n", "--nbest", default=0, least=0), given.number("-v", "--verbose", default=0)
    cost = given.real("-c", "--cost-factor", default=1.0)
    output = given.text("-o", "--output", default="-")
    files = given.rest(at_least=1)
    if model is None:
        raise OptionError("no model: give -m MODEL")
    check_output(output, model, *files)
    tagger = LoadedTagger.load(model)
    if cost != 1.0:
        tagger.model_ = tagger.model_.with_weights(tagger.model_.weights * cost)
    labels = tagger.classes_
    with Output(output) as out:
        for path in files:
            corpus, rows = sentences(path)
            marginals: Any = None
            if verbose >= 1:
                encoded, _ = tagger._encode(corpus, None)
                marginals = np.split(tagger.model_.marginals(encoded), corpus.offsets[1:-1])
            ranked: Any
            if n_best:
                ranked = tagger.predict_nbest(corpus, n_best)
            else:
                best = tagger.predict(corpus)
                p = np.exp(tagger.log_probability(corpus, best)) if verbose >= 1 else np.zeros(len(best))
                ranked = [[each] for each in zip(best, p.tolist(), strict=True)]
            for i, (sentence, labellings) in enumerate(zip(rows, ranked, strict=True)):
                for rank, (labelling, probability) in enumerate(labellings):
                    if n_best:
                        out.line(f"# {rank} {probability:.6f}")
                    elif verbose >= 1:
                        out.line(f"# {probability:.6f}")
                    for t, (row, label) in enumerate(zip(sentence, labelling, strict=True)):
                        fields = [*row, label]
                        if verbose >= 1:
                            own = marginals[i][t]
                            fields[-1] += f"/{own[labels.index(label)]:.6f}"
                            if verbose >= 2:
                                fields += [f"{name}/{p:.6f}" for name, p in zip(labels, own.tolist(), strict=True)]
                        out.line("\t".join(fields))
                    out.line("")


if __name__ == "__main__":
    raise SystemExit(main())
