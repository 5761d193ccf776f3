"""``loglinear bench``: how fast training and tagging are on this machine, compared with python-crfsuite."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loglinear.cli.common import Screen, console, show_table, working, write_text
from loglinear.cli.options import OUT
from loglinear.errors import OptionError
from loglinear.options import READ, READ_TEMPLATE, RESULTS, WRITTEN_FILE, option, options
from loglinear.system import temporary_folder

if TYPE_CHECKING:
    from loglinear.experiments.bench.job import Job
    from loglinear.experiments.bench.plan import Benchmark, Settings
    from loglinear.experiments.corpora import Corpus


WHAT, HOW = "What is measured", "How"


@options
class BenchOptions:
    """What is measured, how, and where the figures go."""

    test: Path | None = option("file to test on, with TRAIN", default=None, panel=WHAT, metavar="FILE", file=READ)
    template: str | None = option(
        "template file or named set; each task has its own",
        default=None,
        panel=WHAT,
        metavar="FILE|NAME",
        file=READ_TEMPLATE,
    )
    tasks: list[str] | None = option(
        "corpus: conll2000, pos (both from LOGLINEAR_DATA), bundled or generated:TOKENS (by default conll2000 if it is "
        "there, else bundled)",
        default=None,
        panel=WHAT,
        flags=("--task",),
        repeats=True,
    )
    ways: str = option(
        "how ours trains, separated by commas: CRITERION with its default optimizer, or CRITERION/OPTIMIZER",
        default="cll,cll/lbfgs",
        panel=WHAT,
    )
    algorithms: str = option("python-crfsuite's other algorithms: l2sgd,ap,pa,arow or all", default="", panel=WHAT)
    criteria: str = option(
        "criteria whose whole training and whose evaluation are compared with cll's: names or all",
        default="",
        panel=WHAT,
    )
    processes: bool = option(
        "measure whole processes, from start to exit, first runs and Vowpal Wabbit too", default=True, panel=WHAT
    )
    sizes: str = option("tokens of generated corpora, to see how cost grows: 1e4,1e5", default="", panel=WHAT)
    profile: bool = option("show where our time goes, by stage and by kernel", default=False, panel=WHAT)
    quick: bool = option("one round, at most 20 passes of either side", default=False, panel=WHAT)
    full: bool = option(
        "everything: conll2000, pos and generated:1e6, all algorithms and criteria, 1e4 to 1e7, profiles",
        default=False,
        panel=WHAT,
    )
    threads: str = option("numbers of threads of ours", default="1,2", panel=HOW)
    repeat: int | None = option("rounds; 3 by default", default=None, least=1, panel=HOW)
    l2: float = option("L2 factor, c2 of python-crfsuite", default=1.0, least=0, panel=HOW)
    max_iter: int | None = option("most passes of ours", default=None, least=1, panel=HOW)
    peer_iterations: int | None = option(
        "most passes of python-crfsuite, as the tables then say", default=None, least=1, panel=HOW
    )
    peer_most: str = option("most tokens of --sizes that python-crfsuite is measured on", default="1e6", panel=HOW)
    peer: bool = option("measure python-crfsuite too", default=True, panel=HOW)
    json: Path | None = option(
        "write each measurement here as soon as it is made",
        default=None,
        panel=OUT,
        metavar="FILE",
        file=RESULTS,
    )
    markdown: Path | None = option(
        "write the tables here too", default=None, panel=OUT, metavar="FILE", file=WRITTEN_FILE
    )
    resume: bool = option("continue from what the JSON file holds", default=False, panel=OUT)

    def settings(self) -> Settings:
        """What the options ask for, --quick and --full included."""
        from loglinear.criteria.criterion import criteria_of
        from loglinear.experiments.bench.peer import ALGORITHMS
        from loglinear.experiments.bench.plan import Settings, distinct, peer_is_installed
        from loglinear.experiments.corpora import size_of
        from loglinear.structures.chain.structure import Chain

        passes = 20 if self.quick else None
        others = [name for name in ALGORITHMS if name != "lbfgs"]
        return Settings(
            threads=tuple(_whole("threads", text) for text in _listed(self.threads)),
            repeat=self.repeat or (1 if self.quick else 3),
            l2=self.l2,
            ways=distinct(_way(text) for text in _listed(self.ways)),
            algorithms=tuple(others if self.full or self.algorithms == "all" else _listed(self.algorithms)),
            criteria=tuple(criteria_of(Chain) if self.full or self.criteria == "all" else _listed(self.criteria)),
            processes=self.processes,
            sizes=tuple(size_of(text) for text in _listed(self.sizes or ("1e4,1e5,1e6,1e7" if self.full else ""))),
            max_iter=self.max_iter or passes,
            peer_iterations=self.peer_iterations or passes,
            peer=self.peer and peer_is_installed(),
            peer_most=size_of(self.peer_most),
            profile=self.profile or self.full,
        )


def bench_command(
    run: BenchOptions,
    train: Annotated[
        str | None, typer.Argument(metavar="TRAIN", help="Your own column file, label in the last column."), READ
    ] = None,
) -> None:
    """Measure training and tagging, and compare with python-crfsuite: same file, same features, same objective.

    Examples
    --------
    loglinear bench --quick     (a minute, on the bundled corpus)
    loglinear bench train.txt --test test.txt --template chunking     (your own column file, label last)
    loglinear bench --task conll2000 --algorithms l2sgd,ap,pa,arow --json bench.json     (wants LOGLINEAR_DATA)
    loglinear bench --task generated:1e5 --sizes 1e4,1e5,1e6 --repeat 1 --peer-iterations 20
    loglinear bench --task bundled --criteria all --profile
    loglinear bench train.txt --test test.txt --ways cll --repeat 1 --no-peer     (our side alone)
    loglinear bench --full --json bench.json --markdown bench.md     (all of it, for hours; --resume after Ctrl-C)
    """
    from loglinear.experiments.bench.plan import Benchmark
    from loglinear.experiments.store import Store, machine

    if run.quick and run.full:
        raise OptionError("--quick and --full ask for opposite things; give one")
    if run.resume and run.json is None:
        raise OptionError("--resume continues from the measurements of --json FILE; name it")
    settings = run.settings()
    screen = console(tables=True)
    tasks = run.tasks or (_all_tasks(screen) if run.full and train is None else [])
    shape = {"job": dict, "result": dict}
    store = Store(run.json, "bench", {"machine": machine()}, lambda key, cell: shape, run.resume)
    with temporary_folder("loglinear-bench-") as folder:
        corpora = _corpora(train, run.test, run.template, tasks, run.quick, folder)
        benchmark = Benchmark(settings, corpora, folder, store)
        if settings.peer:
            _check_peer(settings, corpora)
        try:
            try:
                _watch(benchmark, screen)
            finally:
                if benchmark.results:
                    _report(benchmark, screen, run.markdown, peer_missing=run.peer and not settings.peer)
        except KeyboardInterrupt:
            kept = "" if run.json is None else f"; what was measured is in {run.json}: continue with --resume"
            raise KeyboardInterrupt(f"interrupted{kept}") from None


def _corpora(
    train: str | None, test: Path | None, template: str | None, tasks: list[str], quick: bool, folder: Path
) -> list[Corpus]:
    from loglinear.experiments.corpora import has_conll2000, own, prepare

    if train is None:
        if test is not None:
            raise OptionError("--test goes with a training file of your own: loglinear bench TRAIN --test TEST")
        return [
            prepare(name, folder, template)
            for name in tasks or ["bundled" if quick or not has_conll2000() else "conll2000"]
        ]
    if test is None:
        raise OptionError(f"{train}: name a file to test on with --test")
    if tasks:
        raise OptionError("a file of your own and --task both say what to measure on; give one")
    return [own(Path(train), test, folder, template)]


def _all_tasks(screen: Screen) -> list[str]:
    """The corpora of --full: real ones if they are available."""
    from loglinear.experiments.corpora import has_conll2000

    if has_conll2000():
        return ["conll2000", "pos", "generated:1e6"]
    screen.print("conll2000 and pos are left out: set LOGLINEAR_DATA to the folder that holds conll2000/ and ewt/")
    return ["bundled", "generated:1e6"]


def _check_peer(settings: Settings, corpora: list[Corpus]) -> None:
    from loglinear.experiments.bench.peer import unsupported_reason
    from loglinear.features.templates.language import TemplateSet

    for corpus in corpora:
        if reason := unsupported_reason(TemplateSet.parse(corpus.template)):
            raise OptionError(f"python-crfsuite cannot be measured on {corpus.name}: {reason}; try --no-peer")


def _watch(benchmark: Benchmark, screen: Screen) -> None:
    """Run it, with a line for each measurement: live in a terminal, plain elsewhere."""
    what, began = "", 0.0

    def before(number: int, total: int, job: Job) -> None:
        nonlocal what, began
        what, began = f"{number} of {total}  {job.task}: {job.side}", time.perf_counter()
        say(what)
        if not screen.is_terminal:
            screen.print(what)

    with working(screen, "measuring ...") as say:
        benchmark.run(before, lambda text: say(f"{what}  {text}  {time.perf_counter() - began:.0f} s"))


def _report(benchmark: Benchmark, screen: Screen, markdown_file: Path | None, peer_missing: bool) -> None:
    """Show the tables, and write them."""
    import shlex
    import sys
    from dataclasses import asdict

    from loglinear.experiments.bench.tables import make_tables
    from loglinear.experiments.store import machine
    from loglinear.experiments.tables import markdown

    tables = make_tables(benchmark, peer_missing)
    for table in tables:
        show_table(table, screen)
    benchmark.store.finish({"corpora": benchmark.described, "tables": [asdict(table) for table in tables]})
    write_text(markdown_file, markdown(tables, machine(), shlex.join(["loglinear", *sys.argv[1:]])))


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _whole(name: str, text: str) -> int:
    if not (text.isdecimal() and len(text) < 10):
        raise OptionError(f"--{name}: {text!r} is not a whole number; give some separated by commas, as in 1,2")
    return int(text)


def _way(text: str) -> tuple[str, str | None]:
    criterion, _, optimizer = text.partition("/")
    return criterion, optimizer or None
