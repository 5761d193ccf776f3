"""What a worker process of a cluster of ours does first: leave Ctrl-C, which all processes of a terminal get, to the
process that started it, which ends the pass under way and then the workers."""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Called by Dask in the main thread of the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
