"""Training and tagging with hundreds to thousands of labels: seconds, passes, memory and accuracy, as processes.

    python -m benchmarks.labels                          # 500 and 5,000 labels, 40,000 tokens
    python -m benchmarks.labels --labels 50,200,1000
    python -m benchmarks.labels --corpus                 # full morphological tags of LOGLINEAR_DATA's ewt

The data is made up, the same for the same seed, and looks like morphological tags: a label is a part of speech with
features (``N3.17``), parts of speech follow each other like a Markov chain, neighbours tend to agree in case, and the
features of a part of speech are distributed like ranks of words (Zipf). A word is a stem of its label and an ending
that several labels share. Of the Y^2 transitions about as many are observed as there are tokens, or fewer.

``write`` makes the same files for other measurements.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

N_TOKENS, MEAN_LENGTH, PARTS_OF_SPEECH, CASES = 40_000, 25, 16, 6
COMMAND = [sys.executable, "-m", "loglinear"]


def zipf(n: int, flat: float = 2.7) -> np.ndarray:
    """Probabilities of n ranks (Zipf-Mandelbrot)."""
    weights = 1.0 / (np.arange(n) + flat)
    return weights / weights.sum()


def sentences(n_labels: int, n_tokens: int, seed: int) -> list[list[tuple[str, str]]]:
    """Sentences of (word, label) with exactly ``n_labels`` labels; needs as many tokens."""
    rng = np.random.default_rng([seed, n_labels])
    groups = min(PARTS_OF_SPEECH, n_labels)
    members = np.array_split(np.arange(n_labels), groups)
    follows = rng.dirichlet(np.full(groups, 0.3), size=groups)
    shares = [zipf(len(labels)) for labels in members]
    lengths, group = [], 0
    while sum(lengths) < n_tokens:
        lengths.append(min(int(rng.geometric(1.0 / MEAN_LENGTH)) + 2, n_tokens - sum(lengths)))
    labels, case = np.empty(n_tokens, dtype=np.int64), 0
    for t in range(n_tokens):
        group = int(rng.choice(groups, p=follows[group]))
        drawn = int(rng.choice(len(members[group]), p=shares[group]))
        case = drawn % CASES if rng.random() < 0.3 else case
        agreeing = min(drawn - drawn % CASES + case, len(members[group]) - 1)
        labels[t] = members[group][agreeing if rng.random() < 0.9 else drawn]
    counts = np.bincount(labels, minlength=n_labels)
    for label in np.flatnonzero(counts == 0):  # every label occurs: in place of a frequent one
        place = int(rng.choice(np.flatnonzero(counts[labels] > 1)))
        counts[labels[place]] -= 1
        labels[place], counts[label] = label, 1
    owner = np.concatenate([np.full(len(m), g) for g, m in enumerate(members)])
    stems, endings = rng.zipf(1.6, size=n_tokens) % 300, rng.integers(0, 3, size=n_tokens)
    tokens = [
        (f"{chr(97 + owner[y] % 7)}{stem:x}{owner[y] * 31 % 11:x}{(y * 7 + ending) % 53:02d}", f"N{owner[y]}.{y}")
        for y, stem, ending in zip(labels.tolist(), stems.tolist(), endings.tolist(), strict=True)
    ]
    ends = np.cumsum(lengths).tolist()
    return [tokens[end - n : end] for end, n in zip(ends, lengths, strict=True)]


def morphology(path: Path) -> list[list[tuple[str, str]]]:
    """Sentences of (word, full morphological tag) of a CoNLL-U file."""
    found: list[list[tuple[str, str]]] = [[]]
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line:
            found.append([])
        elif not line.startswith("#"):
            fields = line.split("\t")
            if fields[0].isdigit():
                word = fields[1].replace(" ", "_")
                found[-1].append((word, "+".join((fields[3], fields[4], fields[5]))))
    return [sentence for sentence in found if sentence]


def write(path: Path, data: list[list[tuple[str, str]]]) -> None:
    """A column file: word, label."""
    path.write_text("".join("".join(f"{w}\t{y}\n" for w, y in s) + "\n" for s in data), encoding="utf-8")


def run(*arguments: str) -> tuple[float, float, str]:
    """Wall seconds, peak megabytes and output of a verb of the command line."""
    before = time.perf_counter()
    process = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"loglinear {' '.join(arguments)}: {output}")
    scale = 1024.0 if sys.platform != "darwin" else 1024.0**2
    return time.perf_counter() - before, usage.ru_maxrss / scale, output


def measure(name: str, data: list[list[tuple[str, str]]], options: list[str], table: Table) -> None:
    """Train on nine tenths, tag and evaluate the rest."""
    cut = len(data) * 9 // 10
    n_labels = len({label for sentence in data[:cut] for _, label in sentence})
    with tempfile.TemporaryDirectory() as folder:
        train, test, model, tagged = (Path(folder) / each for each in ("train.txt", "test.txt", "model", "tagged.txt"))
        write(train, data[:cut])
        write(test, data[cut:])
        trained = run("train", str(train), "--output", str(model), "--template", "pos", *options)
        labelled = run("tag", str(model), str(test), "--output", str(tagged))
        scored = run("eval", str(test), "--model", str(model), "--metric", "labels")
        size = model.stat().st_size / 1e6
    passes = next((line[11:] for line in trained[2].splitlines() if line.startswith("training")), "")
    accuracy = next((line.strip() for line in scored[2].splitlines() if "accuracy" in line.lower()), "")
    table.add_row(
        name, f"{n_labels:,}", f"{sum(map(len, data[:cut])):,}", f"{trained[0]:.1f}", f"{trained[1]:,.0f}",
        f"{labelled[0]:.1f}", f"{labelled[1]:,.0f}", f"{size:.1f}", f"{passes}\n{accuracy}",
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", default="500,5000", help="numbers of labels of made-up data")
    parser.add_argument("--tokens", type=int, default=N_TOKENS, help="of training data, a ninth more for testing")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", action="store_true", help="full tags of ewt instead")
    parser.add_argument("--write", metavar="FILE", help="only write the data of the first number of labels")
    asked, options = parser.parse_known_args()
    numbers = [int(number) for number in asked.labels.split(",")]
    if asked.write:
        write(Path(asked.write), sentences(numbers[0], asked.tokens, asked.seed))
        return
    table = Table("data", "labels", "tokens", "train (s)", "MB", "tag (s)", "MB", "model (MB)", "")
    if asked.corpus:
        folder = Path(os.environ["LOGLINEAR_DATA"]) / "ewt"
        measure("ewt", morphology(folder / "ewt.train.conllu"), options, table)
    else:
        for n_labels in numbers:
            measure("made up", sentences(n_labels, asked.tokens * 10 // 9, asked.seed), options, table)
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
