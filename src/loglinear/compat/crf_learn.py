"""``crf_learn`` of CRF++: ``python -m loglinear.compat.crf_learn TEMPLATE TRAIN MODEL``, or ``loglinear crfpp learn``.

The objective is CRF++'s; how it is minimised is not, so that the number of iterations differs. The model is one of
loglinear's, which ``crf_test`` here and every verb of the command line take. Features are joined with all labels and
all pairs of labels, as there.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from loglinear.compat.commands import Arguments, check_output, command, sentences

USAGE = """\
Usage: crf_learn [options] TEMPLATE TRAIN MODEL
 -f, --freq=INT          leave out attributes seen fewer times (1)
 -m, --maxiter=INT       iterations, at most
 -c, --cost=FLOAT        C: the greater, the closer to the data (1)
 -e, --eta=FLOAT         relative change of the objective to stop at (0.0001)
 -a, --algorithm=NAME    CRF-L2 (or CRF, the default), CRF-L1 or MIRA
 -p, --thread=INT        threads
 -H, --shrinking-size=INT  has no effect here
 -t, --textmodel         has no effect here (loglinear inspect MODEL --json)
 -C, --convert           has no effect here: crf_test takes text models as they are
 -h, --help              show this
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    return command("crf_learn", USAGE, _run, argv, switches="tC")


def options_of(algorithm: str, cost: float) -> dict[str, Any]:
    """The options of a tagger for an algorithm of CRF++ and its C."""
    from loglinear.errors import OptionError

    if cost <= 0.0:
        raise OptionError(f"-c {cost:g}: C must be greater than 0")
    name = algorithm.upper()
    if name in ("CRF", "CRF-L2"):
        return {"variance": cost, "optimizer": "lbfgs"}
    if name == "CRF-L1":
        return {"l1": 1.0 / cost, "l2": 0.0, "optimizer": "lbfgs"}
    if name == "MIRA":
        return {"criterion": f"mira:C={cost:g}"}
    raise OptionError(f"-a {algorithm}: not one of CRF-L2, CRF-L1, MIRA")


def _run(given: Arguments) -> None:
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.features.templates.language import TemplateSet

    given.ignored("-H", "--shrinking-size")
    given.ignored("-t", "--textmodel", switch=True)
    given.ignored("-C", "--convert", switch=True)
    frequency = given.number("-f", "--freq", default=1, least=1)
    iterations = given.number("-m", "--maxiter", default=None, least=1)
    eta = given.real("-e", "--eta", default=0.0001)
    threads = given.number("-p", "--thread", default=None, least=1)
    options = options_of(given.text("-a", "--algorithm", default="CRF-L2"), given.real("-c", "--cost", default=1.0))
    template, train, model = given.rest(at_least=3, at_most=3)
    check_output(model, template, train)
    lines = read_text(template)
    corpus, _ = sentences(train)
    began = time.perf_counter()
    templates = TemplateSet.parse(lines, template)
    tagger = Tagger(
        template=templates, states="all", transitions="all" if templates.has_label_bigram else "none",
        min_count=frequency, max_iter=iterations, tolerance=eta, threads=threads, precision="float64", **options,
    )  # fmt: skip
    tagger.check_options()
    before = [0.0]

    def observe(progress: Any) -> None:
        change = abs(before[0] - progress.objective) / before[0] if before[0] else 1.0
        before[0] = progress.objective
        sys.stdout.write(f"iter={progress.iteration} obj={progress.objective:.5f} diff={change:.5f}\n")
        sys.stdout.flush()

    sys.stdout.write(f"Number of sentences: {len(corpus)}\nC:                   {given_cost(options)}\n")
    tagger.fit(corpus, observe=observe)
    tagger.save(model)
    sys.stdout.write(f"Number of features:  {tagger.model_.features.n_features}\n")
    sys.stdout.write(f"\nDone! {time.perf_counter() - began:.2f} s\n")


def given_cost(options: dict[str, Any]) -> str:
    """C, from the options that it gave."""
    if "variance" in options:
        return f"{options['variance']:.5f}"
    return f"{1.0 / options['l1']:.5f}" if "l1" in options else options["criterion"].partition("=")[2]


def read_text(path: str) -> str:
    """A text file's content."""
    from loglinear.data.files import check_text, read_bytes

    raw = read_bytes(path)
    return raw[check_text(raw, path) :].decode("utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
