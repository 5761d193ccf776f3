"""``loglinear bench``: how fast training and tagging are here, beside python-crfsuite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loglinear.cli.common import show_table, wide_console

if TYPE_CHECKING:
    from rich.console import Console

    from loglinear.experiments.bench.job import Job
    from loglinear.experiments.bench.plan import Benchmark, Settings
    from loglinear.experiments.corpora import Corpus

EXAMPLES = """
[bold]Examples[/bold]

loglinear bench --quick     (a minute, on the bundled corpus)

loglinear bench train.txt --test test.txt --template chunking     (your own column file, label last)

loglinear bench --task conll2000 --algorithms l2sgd,ap,pa,arow --json bench.json     (wants LOGLINEAR_DATA)

loglinear bench --task generated:1e5 --sizes 1e4,1e5,1e6 --repeat 1 --peer-iterations 20

loglinear bench --task bundled --criteria all --profile

loglinear bench --full --json bench.json --markdown bench.md     (all of it, for hours; --resume after Ctrl-C)
"""

WHAT, HOW, OUT = "What is measured", "How", "What comes out"


def bench_command(
    train: Annotated[
        str | None, typer.Argument(metavar="TRAIN", help="Your own column file, label in the last column.")
    ] = None,
    test: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to test on, with TRAIN.", rich_help_panel=WHAT)
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME", help="Template file or named set; each task has its own.", rich_help_panel=WHAT
        ),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="conll2000, pos (from LOGLINEAR_DATA), bundled, generated:TOKENS; may be given several times. By "
            "default conll2000 if it is there, else bundled.",
            rich_help_panel=WHAT,
            show_default=False,
        ),
    ] = None,
    ways: Annotated[
        str,
        typer.Option(
            help="How ours trains, between commas: CRITERION is its default optimizer, CRITERION/OPTIMIZER another.",
            rich_help_panel=WHAT,
        ),
    ] = "cll,cll/lbfgs",
    algorithms: Annotated[
        str, typer.Option(help="python-crfsuite's other algorithms: l2sgd,ap,pa,arow or all.", rich_help_panel=WHAT)
    ] = "",
    criteria: Annotated[
        str, typer.Option(help="Criteria whose evaluation is compared with cll's: names or all.", rich_help_panel=WHAT)
    ] = "",
    sizes: Annotated[
        str, typer.Option(help="Tokens of generated corpora, to see how cost grows: 1e4,1e5.", rich_help_panel=WHAT)
    ] = "",
    profile: Annotated[
        bool, typer.Option("--profile", help="Say where our time goes, by stage and by kernel.", rich_help_panel=WHAT)
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="One round, at most 20 passes of either side.", rich_help_panel=WHAT)
    ] = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="conll2000, pos and generated:1e6, all algorithms and criteria, 1e4 to 1e7, profiles.",
            rich_help_panel=WHAT,
        ),
    ] = False,
    threads: Annotated[str, typer.Option(help="Numbers of threads of ours.", rich_help_panel=HOW)] = "1,2",
    repeat: Annotated[
        int | None, typer.Option(min=1, help="Rounds; 3 by default.", rich_help_panel=HOW, show_default=False)
    ] = None,
    l2: Annotated[float, typer.Option(min=0.0, help="L2 factor, c2 of python-crfsuite.", rich_help_panel=HOW)] = 1.0,
    max_iter: Annotated[
        int | None, typer.Option(min=1, help="Most passes of ours.", rich_help_panel=HOW, show_default=False)
    ] = None,
    peer_iterations: Annotated[
        int | None,
        typer.Option(
            min=1, help="Most passes of python-crfsuite; the tables say so.", rich_help_panel=HOW, show_default=False
        ),
    ] = None,
    peer_most: Annotated[
        str, typer.Option(help="Most tokens of --sizes that python-crfsuite is measured on.", rich_help_panel=HOW)
    ] = "1e6",
    peer: Annotated[
        bool, typer.Option("--peer/--no-peer", help="Measure python-crfsuite too.", rich_help_panel=HOW)
    ] = True,
    json: Annotated[
        Path | None,
        typer.Option("--json", metavar="FILE", help="Keep every measurement here, as it is made.", rich_help_panel=OUT),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write the tables here too.", rich_help_panel=OUT)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from what the JSON file holds.", rich_help_panel=OUT)
    ] = False,
) -> None:
    """Measure training and tagging beside python-crfsuite: same file, same features, same objective."""
    import tempfile

    from loglinear.cli.train import check_place
    from loglinear.criteria.criterion import criteria_of
    from loglinear.errors import OptionError
    from loglinear.experiments.bench.peer import ALGORITHMS
    from loglinear.experiments.bench.plan import Benchmark, Settings, distinct, peer_is_installed
    from loglinear.experiments.corpora import size_of
    from loglinear.experiments.store import Store, machine
    from loglinear.structures.chain.structure import Chain

    if quick and full:
        raise OptionError("--quick and --full ask for opposite things; give one")
    if resume and json is None:
        raise OptionError("--resume goes on from the measurements of --json FILE; name it")
    for path in filter(None, (json, markdown)):
        check_place(path)
    others = [name for name in ALGORITHMS if name != "lbfgs"]
    settings = Settings(
        threads=tuple(_whole("threads", text) for text in _listed(threads)),
        repeat=repeat or (1 if quick else 3),
        l2=l2,
        ways=distinct(_way(text) for text in _listed(ways)),
        algorithms=tuple(others if full or algorithms == "all" else _listed(algorithms)),
        criteria=tuple(criteria_of(Chain) if full or criteria == "all" else _listed(criteria)),
        sizes=tuple(size_of(text) for text in _listed(sizes or ("1e4,1e5,1e6,1e7" if full else ""))),
        max_iter=max_iter or (20 if quick else None),
        peer_iterations=peer_iterations or (20 if quick else None),
        peer=peer and peer_is_installed(),
        peer_most=size_of(peer_most),
        profile=profile or full,
    )
    screen = wide_console()
    tasks = task or (_all_tasks(screen) if full and train is None else [])
    store = Store(json, "bench", {"machine": machine()}, lambda key, cell: {"job": dict, "result": dict}, resume)
    with tempfile.TemporaryDirectory(prefix="loglinear-bench-") as folder:
        corpora = _corpora(train, test, template, tasks, quick, Path(folder))
        benchmark = Benchmark(settings, corpora, Path(folder), store)
        if settings.peer:
            _check_peer(settings, corpora)
        try:
            try:
                _watch(benchmark, screen)
            finally:
                if benchmark.results:
                    _report(benchmark, screen, markdown, peer_missing=peer and not settings.peer)
        except KeyboardInterrupt:
            kept = "" if json is None else f"; what was measured is in {json}: go on with --resume"
            typer.echo(f"loglinear: interrupted{kept}", err=True)
            raise typer.Exit(130) from None


def _corpora(
    train: str | None, test: Path | None, template: str | None, tasks: list[str], quick: bool, folder: Path
) -> list[Corpus]:
    from loglinear.errors import OptionError
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


def _all_tasks(screen: Console) -> list[str]:
    """What --full measures on: real corpora if they are there."""
    from loglinear.experiments.corpora import has_conll2000

    if has_conll2000():
        return ["conll2000", "pos", "generated:1e6"]
    screen.print("conll2000 and pos are left out: set LOGLINEAR_DATA to the folder that holds conll2000/ and ewt/")
    return ["bundled", "generated:1e6"]


def _check_peer(settings: Settings, corpora: list[Corpus]) -> None:
    from loglinear.errors import OptionError
    from loglinear.experiments.bench.peer import why_not
    from loglinear.features.templates.language import TemplateSet

    for corpus in corpora:
        if reason := why_not(TemplateSet.parse(corpus.template)):
            raise OptionError(f"python-crfsuite cannot be measured on {corpus.name}: {reason}; try --no-peer")


def _watch(benchmark: Benchmark, screen: Console) -> None:
    """Do it, with a line for each measurement and a live one while it lasts."""
    import time

    from loglinear.cli.common import working

    if screen.is_terminal:
        with screen.status("measuring ...") as status:
            what, began = "", 0.0

            def before(number: int, total: int, job: Job) -> None:
                nonlocal what, began
                what, began = f"{number} of {total}  {job.task}: {job.side}", time.perf_counter()
                status.update(what)

            def observe(text: str) -> None:
                status.update(f"{what}  {text}  {time.perf_counter() - began:.0f} s")

            benchmark.run(before, observe)
        return
    with working(screen, "measuring"):
        benchmark.run(
            lambda number, total, job: screen.print(f"{number} of {total}  {job.task}: {job.side}"), lambda text: None
        )


def _report(benchmark: Benchmark, screen: Console, markdown_file: Path | None, peer_missing: bool) -> None:
    """Show the tables, and keep them."""
    import shlex
    import sys
    from dataclasses import asdict

    from loglinear.data import atomic_output
    from loglinear.experiments.bench.tables import make_tables
    from loglinear.experiments.store import machine
    from loglinear.experiments.tables import markdown

    tables = make_tables(benchmark, peer_missing)
    for table in tables:
        show_table(table, screen)
    benchmark.store.finish({"corpora": benchmark.described, "tables": [asdict(table) for table in tables]})
    if markdown_file is not None:
        command = shlex.join(["loglinear", *sys.argv[1:]])
        with atomic_output(markdown_file) as out:
            out.write(markdown(tables, machine(), command).encode())


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _whole(name: str, text: str) -> int:
    from loglinear.errors import OptionError

    if not text.isdecimal():
        raise OptionError(f"--{name}: {text!r} is no whole number")
    return int(text)


def _way(text: str) -> tuple[str, str | None]:
    criterion, _, optimizer = text.partition("/")
    return criterion, optimizer or None
