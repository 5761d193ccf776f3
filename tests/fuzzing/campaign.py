"""Workers, watched: what they do is counted, and one that dies, stands still or grows is replaced."""

from __future__ import annotations

import json
import mmap
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzzing.targets import target
from fuzzing.worker import BOARD

TESTS = Path(__file__).parents[1]
SOURCES = TESTS.parent / "src"
TICKS = os.sysconf("SC_CLK_TCK")
A_CASE = 10.0  # CPU seconds that a case may take
A_FIRST = 120.0  # that it may take when it is done for the first time, where it may load modules and compile kernels
ROOM = 500e6  # bytes that a case may take beside ten times its size
GUARD = 2000  # megabytes of address space: more than what is allowed, so that only what is far too much meets it
A_WORKER = 50_000  # cases; then a new one
NAMED = 5  # cases that are kept of each fault


@dataclass
class Tally:
    """What a campaign has seen so far, as its file holds it."""

    seed: int
    next: int = 0
    seconds: float = 0.0  # of the workers' processors
    counts: Counter[str] = field(default_factory=Counter)  # by outcome; names of parts end with a blank
    faults: dict[str, list[int]] = field(default_factory=dict)  # numbers of cases by what was wrong
    n_faults: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, int] = (0.0, -1)  # CPU seconds, number
    peak: tuple[float, int, int] = (0.0, -1, 0)  # megabytes beyond the worker's own, number, bytes of the case
    growth: float = 0.0  # most megabytes by which a worker grew

    @classmethod
    def read(cls, path: Path, seed: int) -> Tally:
        """The tally that was written, or a new one."""
        if not path.exists():
            return cls(seed)
        kept = json.loads(path.read_text())
        counters = {name: Counter(kept[name]) for name in ("counts", "n_faults")}
        return cls(**{**kept, **counters, "slowest": tuple(kept["slowest"]), "peak": tuple(kept["peak"])})

    def write(self, path: Path) -> None:
        path.with_suffix(".new").write_text(json.dumps(vars(self), indent=1, sort_keys=True))
        path.with_suffix(".new").replace(path)

    @property
    def cases(self) -> int:
        return sum(count for word, count in self.counts.items() if not word.endswith(" "))

    def add(self, fault: str, number: int) -> bool:
        """Note a fault; True if it is one of the first of its sort."""
        self.n_faults[fault] += 1
        numbers = self.faults.setdefault(fault, [])
        if len(numbers) < NAMED:
            numbers.append(number)
        return self.n_faults[fault] <= NAMED

    def line(self) -> str:
        """In a line: cases, what became of them, and the worst."""
        kinds = [(word, count) for word, count in self.counts.most_common() if not word.endswith(" ")]
        worst = f"slowest {self.slowest[0]:.2f} s, memory +{self.peak[0]:.0f} MB"
        told = ", ".join(f"{count:,} {word}" for word, count in kinds if word != "fault")
        return f"{self.cases:,} cases ({told}); {sum(self.n_faults.values())} faults; {worst}"


def environment(**more: str) -> dict[str, str]:
    """That of a worker: one thread, the package and the tests of this folder."""
    paths = os.pathsep.join((str(SOURCES), str(TESTS), str(TESTS / "golden")))
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **one, "PYTHONPATH": paths, "MPLBACKEND": "agg", "NO_COLOR": "1", "TERM": "dumb", **more}


def run(
    name: str, *, seed: int, cases: int, folder: Path, deadline: float, bounds_check: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> Tally:  # fmt: skip
    """Run the cases of a target up to a number or a time of the monotonic clock, from where the folder's tally ends."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}{'-bounds' if bounds_check else ''}-{seed}.json"
    tally = Tally.read(path, seed)
    more = dict[str, str]()
    if bounds_check:  # machine code with checks is not for the user's cache
        cache = folder.resolve() / "cache-with-bounds-checks"
        cache.mkdir(mode=0o700, exist_ok=True)
        more = {"NUMBA_BOUNDSCHECK": "1", "LOGLINEAR_COMPILED": "0", "LOGLINEAR_CACHE": str(cache)}
    environ, suspects = environment(**more), dict[int, str]()

    def work(end: int) -> tuple[int, str] | None:
        return _one_worker(name, tally, path, end, deadline, environ, tell, suspects)

    while tally.next < cases and time.monotonic() < deadline:
        died = work(min(cases, tally.next + A_WORKER))
        if died is not None:
            number, how = died
            if number > tally.next:  # what was done since the last report is done again, up to the case that did it
                work(number)
            if tally.next == number:
                fault = how if how.startswith("crash") else _second_time(name, tally, number, environ)
                if fault:
                    tally.counts[fault.split(":")[0]] += 1
                    _keep(name, tally, fault, number)
                tally.next = number + 1
        for number in sorted(suspects):
            if fault := _second_time(name, Tally(seed), number, environ):
                _keep(name, tally, fault, number)
        suspects.clear()
        tally.write(path)
    tally.write(path)
    return tally


def _second_time(name: str, tally: Tally, number: int, environ: dict[str, str]) -> str:
    """What is wrong with a case when it is done again in the same process; empty if nothing is.

    Modules are loaded then, and kernels compiled: what is left is the case's own time and memory, on any machine.
    """
    trial, suspects = Tally(tally.seed, next=number), dict[int, str]()
    deadline = time.monotonic() + 100 * A_FIRST
    died = _one_worker(name, trial, None, number + 1, deadline, environ, lambda line: None, suspects, twice=True)
    if died is not None:
        return died[1]
    tally.counts.update(trial.counts)
    for fault in trial.faults:  # it failed in another way, and has been kept
        tally.add(fault, number)
    return suspects.get(number, "")


def _one_worker(
    name: str, tally: Tally, path: Path | None, end: int, deadline: float, environ: dict[str, str],
    tell: Callable[[str], None], suspects: dict[int, str], twice: bool = False,
) -> tuple[int, str] | None:  # fmt: skip
    """Cases up to ``end`` in a worker; the number of the case that it did not survive, and what it died of.

    Those that take much time or memory are added to ``suspects``. With ``twice`` the first case is done once before it
    is measured.
    """
    before = os.times()
    board = tempfile.NamedTemporaryFile()  # noqa: SIM115  # closed below
    board.write(BOARD.pack(-1, 0.0))
    board.flush()
    shown = mmap.mmap(board.fileno(), BOARD.size)
    command = [sys.executable, "-m", "fuzzing.worker", name, str(tally.seed), str(tally.next), str(end), board.name]
    command += [str(GUARD), *(["twice"] if twice else [])]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, env=environ, cwd=tempfile.gettempdir())
    assert worker.stdout is not None
    os.set_blocking(worker.stdout.fileno(), False)
    times = 20 if "NUMBA_BOUNDSCHECK" in environ else 1  # there, a case may compile many kernels
    patience, first = A_CASE * times, A_FIRST * times
    longest = patience if twice else first
    ready, kept, why, last, told = 0.0, b"", "", (-1, time.monotonic()), 0.0
    with selectors.DefaultSelector() as selector:
        selector.register(worker.stdout, selectors.EVENT_READ)
        while True:
            selector.select(0.2)
            data = worker.stdout.read()
            if data == b"":
                break
            kept += data or b""
            *lines, kept = kept.split(b"\n")
            for line in lines:
                said = json.loads(line)
                if "ready" in said:
                    ready = said["ready"]
                    continue
                _take(name, tally, said, ready, patience, suspects)
                if path is not None and time.monotonic() - told > 5.0:
                    tell(f"{name}: {tally.line()}")
                    tally.write(path)
                    told = time.monotonic()
            number, began = BOARD.unpack_from(shown)
            cpu, resident = _process(worker.pid)
            if not ready:
                if twice and cpu > began + first and number >= 0:
                    why = "hang"
                    worker.kill()
                    worker.wait()
                    break
                continue
            if number != last[0]:  # the board may have been read while it was written: look again before judging
                last = number, time.monotonic()
                continue
            if (cpu - began > longest and number >= 0) or time.monotonic() - last[1] > 20 * longest:
                why = "hang"
            elif resident - ready > 3 * ROOM:
                why = "memory"
            if why or time.monotonic() > deadline:
                worker.kill()
                worker.wait()
                break
    status = worker.wait()
    now = os.times()
    tally.seconds += now.children_user + now.children_system - before.children_user - before.children_system
    number = BOARD.unpack_from(shown)[0]
    shown.close()
    board.close()
    worker.stdout.close()
    if why:
        return number, why
    if status == 0 or time.monotonic() > deadline:
        return None
    if number < 0:
        raise RuntimeError(f"the worker of {name} ended with status {status} before its first case")
    return number, f"crash: {signal.Signals(-status).name if status < 0 else f'status {status}'}"


def _take(
    name: str, tally: Tally, said: dict[str, Any], ready: float, patience: float, suspects: dict[int, str]
) -> None:
    """Add a worker's report; a case that took much time or memory becomes a suspect."""
    tally.counts.update(said["counts"])
    tally.next = said["next"]
    tally.slowest = max(tally.slowest, tuple(said["slowest"]))
    tally.growth = max(tally.growth, (said["resident"] - ready) / 1e6)
    megabytes, number, size = said["peak"]
    tally.peak = max(tally.peak, (megabytes, number, size))
    if megabytes * 1e6 > ROOM + 10 * size:
        suspects[number] = "memory"
    if said["slowest"][0] > patience:
        suspects[said["slowest"][1]] = "hang"
    if "fault" in said:
        _keep(name, tally, said["fault"], said["number"])


def _keep(name: str, tally: Tally, fault: str, number: int) -> None:
    """Note a fault, and keep the first cases of its sort; how a process ended is told with the part."""
    part, content = target(name).case(tally.seed, number)
    if fault.startswith(("crash", "hang", "memory")):
        fault = f"{fault} with {part}"
    if tally.add(fault, number):
        place = Path(os.environ.get("FUZZ_FOUND", ".fuzz")) / "found" / name
        place.mkdir(parents=True, exist_ok=True)
        words = re.sub(r"[^A-Za-z0-9_.-]+", "-", fault)[:80]
        (place / f"{part}@{words}-{number}").write_bytes(content)


def _process(pid: int) -> tuple[float, int]:
    """CPU seconds and resident bytes of a process; nothing of one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS, int(fields[21]) * os.sysconf("SC_PAGESIZE")
    except (OSError, IndexError):
        return 0.0, 0


def rechecked(name: str, seed: int, folder: Path) -> Tally:
    """The tally without what fails no more: each case that was kept runs again, in a process of its own."""
    path = folder / f"{name}-{seed}.json"
    tally = Tally.read(path, seed)
    kept = folder / "found" / name
    for case in sorted(kept.iterdir()) if kept.is_dir() else []:
        number = int(case.name.rpartition("-")[2])
        for fault in [each for each, numbers in tally.faults.items() if number in numbers]:
            if not still_fails(name, case.name.partition("@")[0], case.read_bytes()):
                tally.faults[fault].remove(number)
                tally.n_faults[fault] -= 1
                word = fault.split(":")[0].split(" ")[0]
                tally.counts[word if word in ("crash", "hang", "memory") else "fault"] -= 1
                tally.counts["mended since"] += 1
    tally.write(path)
    return tally


def still_fails(name: str, part: str, content: bytes) -> str:
    """What is wrong with a case, found out in a process of its own; empty if nothing is."""
    with tempfile.NamedTemporaryFile() as stream:
        stream.write(content)
        stream.flush()
        command = [sys.executable, "-m", "fuzzing", "replay", name, part, stream.name]
        try:
            done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60)
        except subprocess.TimeoutExpired:
            return "hang"
    return f"crash: {signal.Signals(-done.returncode).name}" if done.returncode < 0 else done.stdout.strip()
