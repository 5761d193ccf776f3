"""What Dask imports when a process of ``local:N`` starts.

A terminal sends Ctrl-C to all processes of a command. What it means is the driver's to decide, which may want the pass
to be finished; without workers it would wait for them in vain.
"""

import signal


def dask_setup(worker: object) -> None:
    """Leave Ctrl-C to the driver, which ends this process when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
