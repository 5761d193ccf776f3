"""Training seen from outside: a live line in a terminal, now and then a plain one elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

if TYPE_CHECKING:
    from loglinear.estimators.training import Progress
    from loglinear.experiments.tuning_run import TuningProgress

PLAIN_SECONDS = 5.0


class _Display:
    """A turning wheel in a terminal, while it is open."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._console.quiet:
            self._status = self._console.status("training ...")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()


class TrainingDisplay(_Display):
    """Shows each iteration's objective, dev score and time."""

    def __init__(self, console: Console, metric: str | None) -> None:
        super().__init__(console)
        self._metric = metric
        self._last_line = time.perf_counter()
        self._phase = "main"

    def observe(self, progress: Progress) -> None:
        """Show one iteration, and first of all which part of the training it belongs to, if there are several."""
        if progress.phase != self._phase:
            self._phase = progress.phase
            self._console.print(
                {"main": "now the criterion itself", "opening": "first without wrong contexts"}.get(
                    progress.phase,
                    progress.phase if " " in progress.phase else f"first a {progress.phase} model, to start from",
                )
            )
        text = f"iteration {progress.iteration}  objective {progress.objective:,.2f}"
        if progress.dev_score is not None and progress.best_dev_score is not None:
            text += f"  dev {self._metric} {100 * progress.dev_score:.2f} (best {100 * progress.best_dev_score:.2f})"
        text += f"  {progress.seconds:.1f} s"
        if self._status is not None:
            self._status.update(text)
        elif time.perf_counter() - self._last_line >= PLAIN_SECONDS:
            self._console.print(text)
            self._last_line = time.perf_counter()


class TuningDisplay(_Display):
    """Shows each finished cell with the best so far, and in a terminal the iteration of the one in training."""

    def observe(self, progress: TuningProgress) -> None:
        """Show where it is."""
        self._show(f"{progress.done} of {progress.total}  {progress.name}", progress)

    def observe_part(self, what: str, progress: TuningProgress) -> None:
        """Show where one part of a larger whole is."""
        count = f"{progress.done} of {progress.total}  " if progress.total else ""
        self._show(f"{what}: {count}{progress.name}", progress)

    def _show(self, text: str, progress: TuningProgress) -> None:
        best = "" if progress.best_score is None else f"  (best {progress.best_score:.2f}: {progress.best_name})"
        if progress.score is not None:
            line = f"{text}  {progress.score:.2f}{best}  {progress.seconds:.1f} s"
            self._console.print(line, markup=False, highlight=False)
        elif self._status is not None:
            at = "" if progress.iteration is None else f"  iteration {progress.iteration}"
            self._status.update(Text(f"{text}{at}{best}  {progress.seconds:.1f} s"))
