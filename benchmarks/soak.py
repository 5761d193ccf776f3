"""Training on processes of this machine while one of them is killed every now and then: is the model the same?

    python -m benchmarks.soak [--minutes 30] [--workers 3] [--every 60] [--tokens 500000] [--optimizer lbfgs]

Generated sentences (``out_of_core``), template ``chunking``, hardly any penalty, so that training lasts. After the
minutes it is interrupted; then a tagger in memory makes as many iterations, and the weights are compared bit by bit.
With ``--optimizer dual`` or another way that learns in rounds it is the same training without kills, instead.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.out_of_core import sentences
from loglinear import Tagger, read_columns
from loglinear.scale import DaskTagger
from loglinear.scale.cluster.engine import Local, open_cluster
from loglinear.training.run import TrainingInterrupted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two kills (60)")
    parser.add_argument("--tokens", type=int, default=500_000)
    parser.add_argument("--optimizer", default="lbfgs")
    given, console = parser.parse_args(), Console()
    options: dict[str, Any] = {
        "template": "chunking", "l2": 1e-3, "tolerance": 0.0, "max_iter": 100_000, "precision": "float64",
        "optimizer": given.optimizer,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, open_cluster(f"local:{given.workers}", say=console.print) as cluster:
        source, until = Path(folder) / "train.txt", time.monotonic() + 60.0 * given.minutes
        source.write_text("".join(text for _, text in sentences(given.tokens)), encoding="utf-8")
        kills, over = [0], threading.Event()

        def kill() -> None:
            while not over.wait(min(given.every, max(0.1, until - time.monotonic()))):
                if time.monotonic() >= until:
                    os.kill(os.getpid(), signal.SIGINT)
                    return
                with suppress(OSError, ValueError, RuntimeError):
                    pids = sorted(cluster.client.run(os.getpid).values())  # type: ignore[attr-defined]  # Dask
                    os.kill(pids[kills[0] % len(pids)], signal.SIGKILL)
                    kills[0] += 1

        tagger = DaskTagger(client=cluster, **options)
        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        began, seen = time.monotonic(), list[int]()
        with suppress(TrainingInterrupted):
            tagger.fit(str(source), observe=lambda step: seen.append(step.iteration))
        over.set()
        seconds, report = time.monotonic() - began, tagger.to_local()
        console.print(f"{seen[-1]} iterations in {seconds / 60.0:.1f} minutes, {kills[0]} workers killed")
        options["max_iter"] = seen[-1]
        if given.optimizer == "lbfgs":
            alone = Tagger(**options).fit(read_columns(source))
        else:
            alone = DaskTagger(client=Local(2), **options).fit(str(source)).to_local()
        same = np.array_equal(alone.model_.weights, report.model_.weights)
        console.print("the same weights to the last bit" if same else "OTHER WEIGHTS")
    raise SystemExit(0 if same else 1)


if __name__ == "__main__":
    main()
