"""Training seen from outside: a live line in a terminal, now and then a plain one elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.status import Status

if TYPE_CHECKING:
    from loglinear.estimators.training import Progress

PLAIN_SECONDS = 5.0


class TrainingDisplay:
    """Shows each iteration's objective, dev score and time."""

    def __init__(self, console: Console, metric: str | None) -> None:
        self._console, self._metric = console, metric
        self._status: Status | None = None
        self._last_line = time.perf_counter()
        self._phase = "main"

    def __enter__(self) -> TrainingDisplay:
        if self._console.is_terminal and not self._console.quiet:
            self._status = self._console.status("training ...")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

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
