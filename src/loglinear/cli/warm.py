"""``loglinear warm``: compile kernels before they are needed."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from loglinear.cli.common import Screen, console, working

DEFAULT, EVERY = "the default training and labelling", "training by every criterion and labelling"


def warm_command(
    all: Annotated[bool, typer.Option("--all", help="Also those that taggers need for the other criteria.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Compile even what is compiled and current.")] = False,
) -> None:
    """Compile kernels ahead, into the user's cache: for an image, for CI, or after an edit of the sources.

    Without it, a kernel that did not come with the package is compiled when it is first called.

    Examples
    --------
    loglinear warm
    loglinear warm --all
    """
    from loglinear.kernels import ahead, build
    from loglinear.system import available_cores

    out, began, road = console(), time.perf_counter(), EVERY if all else DEFAULT
    try:
        with working(out, f"looking for the kernels of {road}") as say:
            calls = build.recorded_roads(criteria=all)
            if not again and any(build.holds(folder, calls) for folder in (ahead.SHIPPED, ahead.user_folder())):
                out.print(f"the {len(calls.signatures)} kernels of {road} are compiled already")
                return
            n, _ = build.build(
                ahead.user_folder(), calls, available_cores(), lambda done, of: say(f"compiling kernel {done} of {of}")
            )
    except build.BuildError as error:
        out.print(str(error))
        _walk(out, all)
    else:
        out.print(f"compiled {n} kernels of {road} into {ahead.user_folder()}, {_since(began)}")


def _walk(out: Screen, all: bool) -> None:
    """Where no library can be linked: walk the roads, so that Numba compiles what they call, and keeps it."""
    from loglinear.experiments.roads import FEWER_LABELS, LABELS, walk_criteria, walk_default
    from loglinear.kernels import compile_quietly
    from loglinear.system import cache_folder

    began = time.perf_counter()
    compile_quietly(out.is_terminal)
    with working(out, "compiling kernels with Numba"):
        walk_default(LABELS)
        if all:
            walk_criteria(FEWER_LABELS)
    out.print(f"walked {EVERY if all else DEFAULT}: Numba's kernels are in {cache_folder()}, {_since(began)}")


def _since(began: float) -> str:
    return f"{time.perf_counter() - began:.1f} s"
