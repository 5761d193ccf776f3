"""Readers under atheris: texts that reach new lines of the package are kept and changed further.

``python -m fuzzing.coverage MINUTES SEED FOLDER``, which ``python -m fuzzing coverage`` starts. Atheris ends a process
at the first fault, so each reader has one of its own, and what it kept is its corpus in FOLDER next time.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROOMS = [
    "loglinear.data",
    "loglinear.features.templates",
    "loglinear.options",
    "loglinear.documents",
    "loglinear.criteria",
]
AS_LONG_AS = 30  # seconds for a text


def all_readers(minutes: float, seed: int, folder: Path, names: list[str]) -> int:
    """Every reader (or those of ``names``) for its share of the time; the number of those with a fault."""
    from fuzzing.readers import READERS

    readers = {name: reader for name, reader in READERS.items() if not names or name in names}

    faults, texts, shares = 0, 0, sum(reader.share for reader in readers.values())
    for name, reader in readers.items():
        seconds = max(5, int(60 * minutes * reader.share / shares))
        corpus = folder / "coverage" / name
        corpus.mkdir(parents=True, exist_ok=True)
        for number, text in enumerate(reader.seeds):
            (corpus / f"seed-{number}").write_bytes(text)
        words = folder / "coverage" / f"{name}.words"
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in reader.words if word))
        found = folder / "found" / "readers"
        found.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable, "-m", "fuzzing.coverage", name, str(corpus), f"-max_total_time={seconds}",
            f"-seed={seed + 1}", f"-dict={words}", f"-timeout={AS_LONG_AS}", "-rss_limit_mb=2500", "-max_len=20000",
            f"-artifact_prefix={found}/{name}@",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        runs = re.findall(r"^(?:#|Done )(\d+)", done.stderr, re.MULTILINE)
        texts += int(runs[-1]) if runs else 0
        if done.returncode:
            faults += 1
            print(f"coverage, {name}: {(done.stderr.strip().splitlines() or ['?'])[-1][:200]}; see {found}")
    print(f"coverage: {texts:,} texts; {faults} faults")
    return faults


def _escaped(word: bytes) -> str:
    return "".join(chr(c) if chr(c).isascii() and chr(c).isalnum() else f"\\x{c:02x}" for c in word)


def _modules_with_kernels() -> list[str]:
    """Numba does not compile what atheris has instrumented."""
    source = Path(__file__).parents[2] / "src"
    paths = [path for path in source.rglob("*.py") if re.search(r"kernel$", path.read_text("utf-8"), re.MULTILINE)]
    return [".".join(path.relative_to(source).with_suffix("").parts) for path in paths]


def one_reader(name: str, arguments: list[str]) -> None:
    """Atheris on a reader, for ever or as its arguments say."""
    import atheris

    with atheris.instrument_imports(include=ROOMS, exclude=_modules_with_kernels()):
        from fuzzing import readers
    from loglinear import LoglinearError

    readers.prepare()
    read = readers.READERS[name].read

    def once(content: bytes) -> None:
        with suppress(LoglinearError):
            read(content)

    atheris.Setup([sys.argv[0], *arguments], once)
    atheris.Fuzz()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    if sys.argv[1].replace(".", "").isdigit():
        sys.exit(all_readers(float(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]) > 0)
    one_reader(sys.argv[1], sys.argv[2:])
