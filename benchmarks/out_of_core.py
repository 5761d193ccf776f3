"""Training beyond memory beside training in memory: seconds a pass, peak memory, and whether the weights are the same.

    python -m benchmarks.out_of_core [--tokens N] [--memory SIZE] [--passes N] [--optimizer SPEC] [--hash-bits B]
        [--min-count N] [--template NAME] [--threads N] [--beyond-only] [--folder DIR] [--json FILE]

Sentences are generated and written as column files of at most ten million tokens; ``loglinear encode`` makes a folder
of them within the bound; then passes over the folder are made within the bound and, unless ``--beyond-only``, in
memory. Each step is a process of its own, whose peak is what the system says when it has ended. A pass' seconds are
those between two reports of the optimizer, and the medians count. Data are written below ``--folder`` (by default where
TMPDIR says) and removed at the end: for each token about 15 bytes of text, 100 encoded and 100 in use.

**The sentences.** Their 45 tags are a Markov chain, their 21 labels depend on two tags. A word is a rank of its tag,
with probability proportional to (r + q)^-1.8 (Zipf-Mandelbrot), so that the vocabulary of n tokens grows like n^0.56,
as that of text does; half of the words are chosen by the word before (collocations), so that pairs of words repeat.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from loglinear import Tagger, mapped
from loglinear.scale.encoded import open_encoded
from loglinear.system import bytes_of, size_of

TAGS, LABELS = 45, 21
SHAPE, SHIFT = 0.8, 30.0  # of Zipf-Mandelbrot: ranks have weight (r + SHIFT) ** -(1 + SHAPE)
CLOSED, FEW = 20, 60  # tags that have few words, and how few
MEAN, LONGEST = 24, 80  # tokens of a sentence
AT_ONCE = 50_000  # sentences that are generated together
PART = 10_000_000  # tokens of a file


# -- the corpus --------------------------------------------------------------------------------------------------------


def _hashed(*numbers: np.ndarray) -> np.ndarray:
    """A number in [0, 1) that depends on all of the integers alone."""
    state = np.full(numbers[0].shape, 0x9E3779B97F4A7C15, dtype=np.uint64)
    for each in numbers:
        state = (state ^ each.astype(np.uint64)) * np.uint64(0xBF58476D1CE4E5B9)
        state ^= state >> np.uint64(29)
    return (state >> np.uint64(11)).astype(np.float64) / 2.0**53


def _ranks(uniform: np.ndarray, tags: np.ndarray) -> np.ndarray:
    """The word of a tag at a quantile of its law."""
    ranks = (SHIFT * ((1.0 - uniform) ** (-1.0 / SHAPE) - 1.0)).clip(max=2.0**40).astype(np.int64)
    return np.where(tags < CLOSED, ranks % FEW, ranks)


def _word(number: int) -> str:
    """The word of a tag and a rank, as ``rank * TAGS + tag``: letters of the rank, and an ending of the tag's."""
    rank, tag = divmod(number, TAGS)
    letters = "bcdfghjklmnpqrst"[tag % 16]
    while True:
        rank, letter = divmod(rank, 20)
        letters += "aeioubdgklmnprstvwyz"[letter]
        if not rank:
            break
    word = letters + ("", "s", "ing", "ed", "ly", "er")[tag % 6]
    return word.capitalize() if tag % 11 == 7 else word


def sentences(n_tokens: int, seed: int = 0) -> Iterator[tuple[int, str]]:
    """Blocks of sentences as columns of word, tag and label: how many tokens, and the text."""
    fixed = np.random.default_rng(0)
    following = np.cumsum(fixed.dirichlet(np.full(TAGS, 0.15), size=TAGS), axis=1)
    following[:, -1] = 1.0
    label_of = fixed.zipf(1.5, size=(TAGS, TAGS)) % LABELS
    rng, done = np.random.default_rng([seed, 1]), 0
    while done < n_tokens:
        lengths = np.minimum(1 + rng.poisson(rng.gamma(3.0, (MEAN - 1) / 3.0, size=AT_ONCE)), LONGEST)
        keep = np.searchsorted(np.cumsum(lengths), n_tokens - done) + 1
        lengths = lengths[:keep]
        shape = (len(lengths), int(lengths.max()))
        tags, words = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for t in range(shape[1]):
            before = tags[:, t - 1] if t else np.zeros(shape[0], dtype=np.int64)
            tags[:, t] = (rng.random(shape[0])[:, None] > following[before]).sum(axis=1)
            uniform = rng.random(shape[0])
            if t:
                bound = rng.random(shape[0]) < 0.5
                uniform = np.where(bound, _hashed(words[:, t - 1], tags[:, t]), uniform)
            words[:, t] = _ranks(uniform, tags[:, t]) * TAGS + tags[:, t]
        labels = label_of[np.hstack([tags[:, :1], tags[:, :-1]]), tags]
        noise = rng.random(shape) < 0.03
        labels = np.where(noise, rng.integers(0, LABELS, size=shape), labels)
        used = np.arange(shape[1]) < lengths[:, None]
        yield int(lengths.sum()), _text(words[used], tags[used], labels[used], np.cumsum(lengths))
        done += int(lengths.sum())


def _text(words: np.ndarray, tags: np.ndarray, labels: np.ndarray, ends: np.ndarray) -> str:
    values, numbers = np.unique(words, return_inverse=True)
    strings = np.array([_word(int(each)) for each in values], dtype=object)
    endings = np.array([[f" T{tag} L{label}\n" for label in range(LABELS)] for tag in range(TAGS)], dtype=object)
    rows = strings[numbers] + endings[tags, labels]
    rows[ends - 1] += "\n"
    return "".join(rows.tolist())


def write_corpus(folder: Path, n_tokens: int, seed: int = 0) -> list[Path]:
    """Write column files of together ``n_tokens`` or a few more."""
    paths, left = [], n_tokens
    while left > 0:
        paths.append(folder / f"part{len(paths):03}.txt")
        with open(paths[-1], "w", encoding="utf-8") as out:
            for n, text in sentences(min(left, PART), seed=seed + len(paths)):
                out.write(text)
                left -= n
    return paths


# -- what is measured --------------------------------------------------------------------------------------------------


def child(arguments: argparse.Namespace) -> None:
    """Train on an encoded folder, and print seconds of the passes, the objective and a digest of the weights."""
    times: list[tuple[float, float]] = []
    bound = None if arguments.within == "memory" else bytes_of(arguments.memory, "--memory")
    with nullcontext() if bound is None else mapped.Paging(arguments.folder, bound):
        found = open_encoded(arguments.folder / "encoded")
        tagger = Tagger(
            optimizer=arguments.optimizer, max_iter=arguments.passes, tolerance=0.0, threads=arguments.threads,
            **found.options,
        )  # fmt: skip
        began = time.perf_counter()
        tagger.fit(found.corpus, observe=lambda _: times.append((time.perf_counter(), time.process_time())))
        weights = np.ascontiguousarray(tagger.model_.weights)
        print(json.dumps({  # of each pass the wall's and the processor's seconds
            "before": times[0][0] - began, "passes": np.diff(times, axis=0).tolist(), "objective": tagger.objective_,
            "features": len(weights), "sha256": hashlib.sha256(weights.tobytes()).hexdigest(),
        }))  # fmt: skip


def measured(command: list[str], scratch: Path) -> dict[str, Any]:
    """Run a process: its seconds on the wall and of the processor, its peak in bytes, and what it printed."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(scratch)}) as it:
        assert it.stdout is not None
        printed = it.stdout.read()
        _, status, usage = os.wait4(it.pid, 0)
        it.returncode = os.waitstatus_to_exitcode(status)
    if it.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {it.returncode}")
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    processor = usage.ru_utime + usage.ru_stime
    return {"wall": time.perf_counter() - began, "processor": processor, "peak": peak, "printed": printed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=float, default=1e6, help="about (default 1e6)")
    parser.add_argument("--memory", default="600M", help="the bound (default 600M)")
    parser.add_argument("--passes", type=int, default=10, help="iterations of the optimizer, at least 2 (default 10)")
    parser.add_argument("--optimizer", default="lbfgs")
    parser.add_argument("--template", default="chunking")
    parser.add_argument("--hash-bits", type=int)
    parser.add_argument("--min-count", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--beyond-only", action="store_true", help="do not train in memory")
    parser.add_argument("--folder", type=Path, help="for the data; by default the folder for temporary files")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--within", choices=("bound", "memory"), help=argparse.SUPPRESS)  # a training of this program's
    arguments = parser.parse_args()
    if arguments.within:
        child(arguments)
        return
    out, figures = Console(), dict[str, Any]()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        began = time.perf_counter()
        parts = write_corpus(folder, int(arguments.tokens))
        out.print(f"{len(parts)} files written in {time.perf_counter() - began:.0f} s")
        command = [sys.executable, "-m", "loglinear", "encode", *map(str, parts), "-o", str(folder / "encoded")]
        command += ["--template", arguments.template, "--memory", arguments.memory, "-q"]
        command += ["--threads", str(arguments.threads), "--min-count", str(arguments.min_count)]
        command += ["--hash-bits", str(arguments.hash_bits)] if arguments.hash_bits else []
        figures["encode"] = measured(command, folder)
        manifest = json.loads((folder / "encoded" / "manifest.json").read_text(encoding="utf-8"))
        figures["corpus"] = {each: manifest[each] for each in ("sentences", "tokens", "attributes")}
        sizes = {path.name: path.stat().st_size for path in [*parts, *(folder / "encoded").iterdir()]}
        text = sum(sizes[path.name] for path in parts)
        figures["bytes"] = {"text": text, "encoded": sizes["corpus"] + sizes["encoding"]}
        out.print(figures["corpus"], figures["bytes"], {k: v for k, v in figures["encode"].items() if k != "printed"})
        for within in ("bound",) if arguments.beyond_only else ("bound", "memory"):
            command = [sys.executable, "-m", "benchmarks.out_of_core", "--within", within, "--folder", str(folder)]
            for option in ("memory", "passes", "optimizer", "threads"):
                command += [f"--{option}", str(getattr(arguments, option))]
            figures[within] = measured(command, folder)
            figures[within] |= json.loads(figures[within].pop("printed"))
            out.print({within: figures[within]})
    table = Table("", "before the first pass", "a pass (median)", "of the processor", "peak", "objective", "weights")
    seconds = {name: np.median(figures[name]["passes"], axis=0) for name in ("memory", "bound") if name in figures}
    for within, times in seconds.items():
        each, name = figures[within], "in memory" if within == "memory" else f"within {arguments.memory}"
        cells = size_of(each["peak"]), repr(each["objective"]), each["sha256"][:12]
        table.add_row(name, *(f"{one:.2f} s" for one in (each["before"], *times)), *cells)
    table.title = f"{figures['corpus']['tokens']:,} tokens, {figures['bound']['features']:,} features"
    out.print(table)
    if "memory" in figures:
        wall, processor = seconds["memory"] / seconds["bound"]
        out.print(f"speed beyond memory: {wall:.2f} of that in memory, {processor:.2f} by the processor's clock")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
