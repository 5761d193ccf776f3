"""The command line of the campaign: ``python -m fuzzing`` in ``tests/``."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from fuzzing.campaign import environment, rechecked, run, still_fails
from fuzzing.targets import CRASHERS, HOMES, target

EXAMPLES = """examples:
  python -m fuzzing                                 a minute of each target
  python -m fuzzing models --cases 1000000 --minutes 60
  python -m fuzzing models --bounds-check --cases 10000   kernels compiled with checks of their indices (minutes)
  python -m fuzzing coverage --minutes 10           readers, guided by coverage (needs the extra fuzz)
  python -m fuzzing readers --recheck --seed 1      after something was mended
  python -m fuzzing replay readers columns@x-17     what is wrong with a kept case
  python -m fuzzing shrink readers columns@x-17     make it small, and keep it for the tests
The same command goes on where the last one ended; another --seed begins anew."""


def main() -> int:
    if sys.argv[1:2] == ["replay"]:
        return replay(sys.argv[2], sys.argv[3], Path(sys.argv[-1]))
    if sys.argv[1:2] == ["shrink"]:
        return shrink(sys.argv[2], Path(sys.argv[3]))
    parser = argparse.ArgumentParser(
        "python -m fuzzing", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", help=f"some of {', '.join(HOMES)}, coverage (all by default)")
    parser.add_argument("--cases", type=int, default=10**9, help="up to this number of a case, of each target")
    parser.add_argument("--minutes", type=float, default=1.0, help="at most this long, for each target")
    parser.add_argument("--seed", type=int, default=0, help="another one gives other cases")
    parser.add_argument("--folder", type=Path, default=Path(".fuzz"), help="for tallies and what is found")
    parser.add_argument("--bounds-check", action="store_true", help="kernels check their indices (NUMBA_BOUNDSCHECK)")
    parser.add_argument("--recheck", action="store_true", help="run again what failed, and forget what does no more")
    asked = parser.parse_args()
    folder: Path = asked.folder.resolve()
    os.environ["FUZZ_FOUND"] = str(folder)
    faults = 0
    for name in asked.targets or [*HOMES, "coverage"]:
        deadline = time.monotonic() + 60.0 * asked.minutes
        if name == "coverage":
            faults += coverage(asked.minutes, asked.seed, folder)
            continue
        if name not in HOMES:
            parser.error(f"no target {name!r}; there are {', '.join(HOMES)} and coverage")
        if asked.recheck:
            print(f"{name}: {rechecked(name, asked.seed, folder).line()}")
            continue
        tally = run(
            name, seed=asked.seed, cases=asked.cases, folder=folder, deadline=deadline,
            bounds_check=asked.bounds_check, tell=show,
        )  # fmt: skip
        show("", end="")
        print(f"{name}: {tally.line()}; workers grew by at most {tally.growth:.0f} MB")
        for fault, count in tally.n_faults.most_common():
            print(f"  {count} times {fault}: cases {', '.join(map(str, tally.faults[fault]))}")
        faults += sum(tally.n_faults.values())
    if faults:
        print(f"what failed is in {folder / 'found'}; make it small with: python -m fuzzing shrink TARGET FILE")
    return bool(faults)


def show(line: str, end: str = "") -> None:
    """Progress on one line, where there is a terminal."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r{line[:width]:<{width}}\r")
        sys.stderr.flush()


def coverage(minutes: float, seed: int, folder: Path) -> int:
    """Readers under atheris, in a process of its own, which ends at the first fault of each reader."""
    try:
        import atheris  # noqa: F401
    except ImportError:
        print("coverage: skipped, for want of atheris (pip install -e '.[fuzz]')")
        return 0
    command = [sys.executable, "-m", "fuzzing.coverage", str(minutes), str(seed), str(folder)]
    return subprocess.run(command, env=environment()).returncode


def replay(name: str, part: str, path: Path) -> int:
    """Print what is wrong with a case."""
    if path == Path(part):  # the name of a kept file says the part
        part = path.name.partition("@")[0]
    chosen = target(name)
    word, fault = chosen.outcome(part, path.read_bytes())
    print(fault)
    if os.environ.get("FUZZ_TRACE"):
        print(word, chosen.run(part, path.read_bytes()))
    return bool(fault)


def shrink(name: str, path: Path) -> int:
    """Make a case small, and keep it among the crashers."""
    chosen, part, content = target(name), path.name.partition("@")[0], path.read_bytes()
    fault = still_fails(name, part, content)
    if not fault:
        print(f"{path}: no fault any more")
        return 0
    if fault.startswith(("crash", "hang")):  # each trial needs a process of its own
        small = chosen.minimise(part, content, lambda some: still_fails(name, part, some) == fault)
    else:
        chosen.prepare()
        small = chosen.minimise(part, content, lambda some: chosen.outcome(part, some)[1] == fault)
    (CRASHERS / name).mkdir(parents=True, exist_ok=True)
    kept = CRASHERS / name / path.name
    kept.write_bytes(small)
    print(f"{fault}: {len(content)} to {len(small)} bytes, {kept}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
