"""``loglinear warm``: compile kernels before they are needed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from loglinear.cli.common import console, working

if TYPE_CHECKING:
    from rich.console import Console


ROAD = "the default training and labelling"


def warm_command(
    all: Annotated[
        bool, typer.Option("--all", help="Also train taggers by every criterion, and keep what Numba compiles for it.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Compile even what is compiled and current.")] = False,
) -> None:
    """Compile kernels ahead, into the user's cache: for an image, for CI, or after an edit of the sources.

    Without it, a kernel that did not come with the package is compiled when it is first called.

    Examples
    --------
    loglinear warm
    loglinear warm --all
    """
    out = console()
    _build(out, again)
    if all:
        _train_by_all_criteria(out)


def _build(out: Console, again: bool) -> None:
    """Compile the default road into a library; if none can be linked, walk it, so that Numba compiles and caches it."""
    from loglinear.experiments.roads import LABELS, walk_default
    from loglinear.kernels import ahead, build
    from loglinear.system import available_cores, cache_folder

    began = time.perf_counter()
    try:
        with working(out, f"looking for the kernels of {ROAD}") as say:
            calls = build.recorded_road()
            if not again and any(build.holds(folder, calls) for folder in (ahead.SHIPPED, ahead.user_folder())):
                out.print(f"the {len(calls.signatures)} kernels of {ROAD} are compiled already")
                return
            n, _ = build.build(
                ahead.user_folder(), calls, available_cores(), lambda done, of: say(f"compiling kernel {done} of {of}")
            )
    except build.BuildError as error:
        out.print(str(error))
        walk_default(LABELS)
        out.print(f"walked {ROAD}: Numba's kernels are in {cache_folder()}, {_since(began)}")
    else:
        out.print(f"compiled {n} kernels of {ROAD} into {ahead.user_folder()}, {_since(began)}")


def _train_by_all_criteria(out: Console) -> None:
    from loglinear.experiments.roads import criteria_walks, walk_criterion
    from loglinear.kernels import compile_quietly
    from loglinear.system import cache_folder

    began, walks = time.perf_counter(), criteria_walks()
    compile_quietly(out.is_terminal)
    with working(out, "") as say:
        for number, (criterion, order) in enumerate(walks, 1):
            say(f"training {number} of {len(walks)}: {criterion}, order {order}")
            walk_criterion(criterion, order)
    out.print(f"trained by every criterion: Numba's kernels are in {cache_folder()}, {_since(began)}")


def _since(began: float) -> str:
    return f"{time.perf_counter() - began:.1f} s"
