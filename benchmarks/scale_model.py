"""What training on a cluster costs: a model fitted to measurements, checked against others, and a simulation.

    python -m benchmarks.scale_model measure [--json FILE]      costs on this machine (some minutes)
    python -m benchmarks.scale_model check [--json FILE]        predicted and measured passes, 1 and 2 workers, 4 sizes
    python -m benchmarks.scale_model simulate [--json FILE]     10 to 1,000 workers, 10^8 to 10^12 tokens

**What grows how.** n tokens have D(n) = K n^beta features (Heaps' law; fitted to sentences of ``out_of_core``, whose
vocabulary grows as that of text does). A worker with n = N / W of the N tokens touches D(n) of them: these are the
weights that it needs and the derivatives that it returns. Features that no other worker has number D(N) - D(N - n);
dual ascent and online learners, which learn in rounds, leave them at home.

**A pass** over N tokens by W workers takes

    T = c N / W · drag(W) + r + h W + 2 e b travel + v D(N)

    c    seconds a token, by the kind of pass          r    seconds of an exchange in which nothing travels
    e    bytes of a number that travels                h    seconds of a job: the scheduler's work for each
    b    seconds of a byte through the driver          v    seconds of a feature on the driver
    drag     the slowest of W workers, whose speeds vary: mean of draws
    travel   W D(N / W);   in rounds  W (D(N / W) - private)

Through a **tree** of workers of fan-in F the driver sends and receives F vectors instead, and each level of the tree
adds its own time. With **hashing** D is at most the number of buckets times the labels that an attribute has.

The simulation asks this model about clusters that are not here: what it prints is arithmetic on measured costs and on
the assumptions that it lists, and no measurement.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.out_of_core import sentences
from loglinear import Tagger, read_columns
from loglinear.optimizers.lbfgs import LBFGS
from loglinear.optimizers.rounds import RoundsState
from loglinear.scale.cluster.corpus import ClusterColumns
from loglinear.scale.cluster.engine import Cluster, Local, open_cluster
from loglinear.scale.cluster.source import pieces_of

TEMPLATE = "chunking"
SIZES = (30_000, 100_000, 300_000, 1_000_000)  # tokens, for Heaps' law
COSTED = 300_000  # tokens, of the passes whose costs are measured
CHECKED = (200_000, 600_000, 1_800_000, 6_000_000)  # tokens, of the passes that are predicted and measured
VARIATION = 0.1  # assumed: the standard deviation of the logarithm of a worker's speed
FAN_IN = 8  # assumed, of a tree of workers
NETWORK, ROUND = 1e9, 0.01  # assumed: bytes a second through the driver's link, and the least seconds of an exchange
MEMORY = 64e9  # assumed: bytes of the driver's memory
NUMBER = {"batch": 4, "moments": 8, "dual": 4, "online": 8, "counts": 8}  # bytes of a number that travels
IN_ROUNDS = ("dual", "online")
PAIRS = 10  # of L-BFGS

#: Ways to train: how many passes of each kind until they stop on CoNLL-2000 in four groups (docs/scale.md).
WAYS: dict[str, dict[str, int]] = {
    "cll by L-BFGS": {"batch": 200},
    "cll by dual ascent, then L-BFGS": {"dual": 6, "batch": 37},
    "perceptron": {"online": 10},
    "m-estimation": {"moments": 29},
    "hmm": {"counts": 1},
}


@dataclass(frozen=True)
class Growth:
    """D(n) = K n^beta features of n tokens, and never more than ``most``.

    Parameters
    ----------
    scale, power : float
        K and beta.
    most : float
        With hashing.
    """

    scale: float
    power: float
    most: float = np.inf

    def features(self, tokens: float) -> float:
        """D(n)."""
        return float(min(self.scale * max(tokens, 0.0) ** self.power, self.most))

    def private(self, tokens: float, share: float) -> float:
        """Features that only ``share`` of the tokens have."""
        return max(0.0, self.features(tokens) - self.features(tokens * (1.0 - share)))

    @classmethod
    def fitted(cls, tokens: list[int], features: list[int]) -> Growth:
        """The least squares line through the logarithms."""
        power, scale = np.polyfit(np.log(tokens), np.log(features), 1)
        return cls(float(np.exp(scale)), float(power))


@dataclass(frozen=True)
class Costs:
    """What was measured.

    Parameters
    ----------
    growth : Growth
    token_seconds : dict
        c, of each kind of pass, on one thread.
    round_seconds, job_seconds, byte_seconds : float
        r, h and b.
    feature_seconds : float
        v, of an iteration of L-BFGS.
    encode_seconds : float
        A token, read and numbered, once before training.
    """

    growth: Growth
    token_seconds: dict[str, float]
    round_seconds: float
    job_seconds: float
    byte_seconds: float
    feature_seconds: float
    encode_seconds: float

    @classmethod
    def read(cls, path: Path) -> Costs:
        """What :meth:`write` has written."""
        stored = json.loads(path.read_text(encoding="utf-8"))
        return cls(Growth(**stored.pop("growth")), **stored)

    def write(self, path: Path) -> None:
        stored = asdict(self)
        del stored["growth"]["most"]  # of simulations alone
        path.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


@dataclass(frozen=True)
class Pass:
    """Where the seconds of a pass go."""

    compute: float
    rounds: float
    driver_link: float
    driver_work: float

    @property
    def seconds(self) -> float:
        return self.compute + self.rounds + self.driver_link + self.driver_work

    @property
    def bound(self) -> str:
        """What takes the most of it."""
        return max(asdict(self).items(), key=lambda item: item[1])[0].replace("_", " ")


def drag(workers: int, variation: float = VARIATION, draws: int = 200) -> float:
    """How much longer the slowest of W workers takes than the average one, if speeds vary by ``variation``."""
    rng = np.random.default_rng(0)
    return float(np.exp(variation * rng.standard_normal((draws, workers))).max(axis=1).mean())


def predicted(costs: Costs, kind: str, tokens: float, workers: int, tree: bool = False, variation: float = 0.0) -> Pass:
    """A pass of some kind over ``tokens`` by ``workers``."""
    share, growth = tokens / workers, costs.growth
    touched = growth.features(share)
    if kind in IN_ROUNDS:
        touched -= growth.private(tokens, 1.0 / workers)
    each, total, through = NUMBER[kind] * costs.byte_seconds, growth.features(tokens), workers
    if tree and workers > FAN_IN:
        levels, through = int(np.ceil(np.log(workers) / np.log(FAN_IN))), FAN_IN
        link = 2.0 * each * FAN_IN * sum(growth.features(min(tokens, share * FAN_IN**k)) for k in range(levels))
    else:
        link = 2.0 * each * workers * touched
    return Pass(
        costs.token_seconds[kind] * share * (drag(workers, variation) if variation else 1.0),
        costs.round_seconds + costs.job_seconds * through,
        link,
        0.0 if kind == "counts" else costs.feature_seconds * total,
    )


# -- the simulation ----------------------------------------------------------------------------------------------------


def simulate(costs: Costs, console: Console) -> None:
    """What the model says of clusters of 10 to 1,000 workers."""
    network = replace(costs, byte_seconds=1.0 / NETWORK, round_seconds=max(costs.round_seconds, ROUND))
    for title, hashed in (("all features", np.inf), ("--hash-bits 24, four labels an attribute", 4.0 * 2**24)):
        grown = replace(network, growth=replace(network.growth, most=hashed))
        table = Table("tokens", "workers", "features", *WAYS, title=f"Hours of a training, {title} (what takes most)")
        for tokens in (1e8, 1e9, 1e10, 1e11, 1e12):
            for workers in (1, 10, 100, 1000):
                cells = [_hours(grown, kinds, tokens, workers) for kinds in WAYS.values()]
                size = f"10^{np.log10(tokens):.0f}"
                table.add_row(size, f"{workers:,}", _short(grown.growth.features(tokens)), *cells)
            table.add_section()
        console.print(table)
    console.print(
        f"Assumed: {_short(NETWORK)}B/s through the driver's link, at least {1e3 * ROUND:g} ms an exchange, speeds "
        f"that vary by {VARIATION:.0%} from worker to worker, {MEMORY / 1e9:.0f} GB of memory on the driver. Where a "
        f"tree of fan-in {FAN_IN} is quicker than the driver alone, its hours stand behind the slash."
    )


def _hours(costs: Costs, kinds: dict[str, int], tokens: float, workers: int) -> str:
    """Hours of a training, directly and by a tree, or why there is none."""
    vectors = 2 * PAIRS + 6 if {"batch", "moments"} & set(kinds) else 3
    needed = 8.0 * vectors * costs.growth.features(tokens)
    if needed > MEMORY and "counts" not in kinds:
        return f"driver: {_short(needed)}B"
    found = []
    for tree in (False, True):
        parts = {kind: predicted(costs, kind, tokens, workers, tree, VARIATION) for kind in kinds}
        seconds = sum(n * parts[kind].seconds for kind, n in kinds.items()) + costs.encode_seconds * tokens / workers
        most = max(parts.items(), key=lambda item: kinds[item[0]] * item[1].seconds)[1].bound
        found.append((seconds / 3600.0, most))
    (direct, bound), (by_tree, _) = found
    return f"{_short(direct)}{f' / {_short(by_tree)}' if by_tree < 0.95 * direct else ''} ({bound})"


def _short(number: float) -> str:
    """A number with a letter for thousands and so on."""
    if number < 1.0:
        return f"{number:.2g}"
    for letter in ("", "k", "M", "G", "T"):
        if number < 1000.0:
            return f"{number:.3g}{letter}"
        number /= 1000.0
    return f"{number:.3g}P"


# -- what is measured --------------------------------------------------------------------------------------------------


def echo(job: int, value: Any = None) -> Any:
    """Give back what was shared: what a round costs beside its work."""
    return value


def exchange(repeats: int = 7) -> tuple[float, float, float]:
    """Seconds of a round, of a job more in a round, and of a byte, with two processes on this machine."""
    with open_cluster("local:2") as cluster:

        def seconds(n_jobs: int, n_bytes: int) -> float:
            value, times = np.zeros(n_bytes // 8), []
            for _ in range(repeats):
                began = time.perf_counter()
                with cluster.share(value) as shared:
                    cluster.map(echo, range(n_jobs), homes=list(range(n_jobs)), shared=shared)
                times.append(time.perf_counter() - began)
            return float(np.median(times))

        few, many, size = 2, 34, 16_000_000
        alone, crowd, loaded = seconds(few, 8), seconds(many, 8), seconds(few, size)
    job, byte = max(0.0, (crowd - alone) / (many - few)), (loaded - alone) / (2.0 * few * size)
    return alone - few * job, job, byte


@dataclass(frozen=True)
class Timed:
    """A training: seconds before its first pass, the median of a pass, and of rounds if there are any."""

    before: float
    batch: float
    rounds: float


def timed(cluster: Cluster | None, paths: list[Path], **options: Any) -> Timed:
    """Train on a cluster, or with None in this process, and see how long the passes take."""
    began, seen = time.perf_counter(), [(0, 0.0, "")]
    if cluster is None:
        corpus = read_columns(paths[0], layout=False)
    else:
        corpus = ClusterColumns.read(cluster, pieces_of([str(path) for path in paths], format="columns"))

    def observe(progress: Any) -> None:
        kind = "rounds" if isinstance(progress.look._state, RoundsState) else "batch"
        seen.append((progress.evaluations, progress.seconds, kind))

    tagger = Tagger(template=TEMPLATE, tolerance=0.0, threads=1, **options).fit(corpus, observe=observe)
    whole = time.perf_counter() - began
    times: dict[str, list[float]] = {"rounds": [], "batch": []}
    for (n, second, _), (m, later, kind) in itertools.pairwise(seen):
        times[kind].append((later - second) / (1 if kind == "rounds" else max(1, m - n)))
    medians = {kind: float(np.median(each[1:])) if len(each) > 1 else np.nan for kind, each in times.items()}
    return Timed(whole - tagger.seconds_, medians["batch"], medians["rounds"])


def measure(folder: Path, console: Console) -> Costs:
    """The costs of this machine."""
    counts = []
    for n in SIZES:
        corpus = read_columns(_corpus(folder, n)[0], layout=False)
        counts.append(Tagger(template=TEMPLATE, optimizer="lbfgs", max_iter=1).fit(corpus).model_.features.n_features)
    growth = Growth.fitted(list(SIZES), counts)
    console.print(f"{', '.join(f'{n:,}' for n in counts)} features: {growth.scale:.3g} n^{growth.power:.3f}")
    paths, one = _corpus(folder, COSTED), Local(1)
    batch = timed(one, paths, optimizer="lbfgs", max_iter=10)
    rounds = timed(one, paths, optimizer="dual", max_iter=6)
    online = timed(one, paths, criterion="perceptron", max_iter=5)
    moments = timed(None, paths, criterion="m-estimation", optimizer="lbfgs", max_iter=10)
    began = time.perf_counter()
    Tagger(criterion="hmm", threads=1).fit(read_columns(paths[0], layout=False))
    counted = time.perf_counter() - began
    token = {
        "batch": batch.batch / COSTED, "dual": rounds.rounds / COSTED, "online": online.rounds / COSTED,
        "moments": moments.batch / COSTED, "counts": counted / COSTED,
    }  # fmt: skip
    console.print(", ".join(f"{kind} {1e6 * seconds:.2f} us" for kind, seconds in token.items()) + " a token")
    size, times = 2_000_000, list[float]()
    target = np.random.default_rng(0).standard_normal(size)
    LBFGS(max_iter=30, tolerance=0.0, gradient_tolerance=0.0).minimise(
        lambda w: (0.5 * float((w - target) @ (w - target)) + float(np.sum(w**4)), w - target + 4.0 * w**3),
        np.zeros(size), callback=lambda now: times.append(time.perf_counter()),
    )  # fmt: skip
    feature = float(np.median(np.diff(times))) / size
    round_seconds, job, byte = exchange()
    console.print(
        f"{1e9 * feature:.1f} ns a feature; an exchange {1e3 * round_seconds:.1f} ms, a job {1e3 * job:.2f} ms, "
        f"{1e-6 / byte:.0f} MB/s; {1e6 * batch.before / COSTED:.2f} us to read and number a token"
    )
    return Costs(growth, token, round_seconds, job, byte, feature, batch.before / COSTED)


def _corpus(folder: Path, tokens: int, parts: int = 1) -> list[Path]:
    """Column files of together that many tokens."""
    paths = [folder / f"{tokens}.{number}-of-{parts}.txt" for number in range(parts)]
    for number, path in enumerate(paths):
        if not path.exists():
            path.write_text("".join(text for _, text in sentences(tokens // parts, seed=number)), encoding="utf-8")
    return paths


def check(costs: Costs, folder: Path, console: Console) -> None:
    """Predicted and measured passes with one and two processes of this machine."""
    table = Table("tokens", "workers", "kind", "predicted", "measured", "ratio", title="Seconds of a pass")
    for n_workers in (1, 2):
        with open_cluster(f"local:{n_workers}") as cluster:
            for tokens in CHECKED:
                paths = _corpus(folder, tokens, 4)
                for kind, options in (
                    ("batch", {"optimizer": "lbfgs", "max_iter": 8}), ("dual", {"optimizer": "dual", "max_iter": 5}),
                ):  # fmt: skip
                    found = timed(cluster, paths, **options)
                    seconds = found.batch if kind == "batch" else found.rounds
                    guess = predicted(costs, kind, tokens, n_workers).seconds
                    table.add_row(
                        f"{tokens:,}", str(n_workers), kind, f"{guess:.2f}", f"{seconds:.2f}", f"{seconds / guess:.2f}"
                    )
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "check", "simulate"])
    parser.add_argument("--json", type=Path, default=Path("costs.json"), help="where the costs are (costs.json)")
    arguments, console = parser.parse_args(), Console(width=160)
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.what == "measure":
            measure(Path(scratch), console).write(arguments.json)
        elif not arguments.json.exists():
            parser.error(f"{arguments.json} does not exist; make it by: python -m benchmarks.scale_model measure")
        elif arguments.what == "check":
            check(Costs.read(arguments.json), Path(scratch), console)
        else:
            simulate(Costs.read(arguments.json), console)


if __name__ == "__main__":
    main()
