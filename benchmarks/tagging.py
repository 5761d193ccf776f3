"""Labelling beside python-crfsuite: raw column file to tagged column file, one sentence, and the command's start-up.

    python -m benchmarks.tagging [--json FILE] [--repeats N] [--peer-iterations N]

Both sides label CoNLL-2000's test file with the 19 ``chunking`` templates, in turn, in one process: they read the file,
make the features (theirs in Python), label, and write the file with a column more. Warm: models are loaded, kernels
compiled. The medians of the repeats count, by the clock on the wall and by the processor's (of this process). How far
the peer was trained does not matter to its speed. Wants the corpus in LOGLINEAR_DATA.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pycrfsuite
from rich.console import Console
from rich.table import Table

from benchmarks.corpora import data_folder
from loglinear import Tagger, read_columns, template_text
from loglinear.data import Column, atomic_output, write_columns
from loglinear.experiments.bench.peer import attribute_maker
from loglinear.experiments.bench.script import Attributes, read_sentences, write_tagged
from loglinear.features.templates.language import TemplateSet

SENTENCE = 25  # tokens of the single sentence
CALLS = 200  # of it at a time
SENTENCES = 100  # of the file for the command


def label_by_us(tagger: Tagger, source: Path, target: Path) -> None:
    corpus = read_columns(source)
    labels, _ = tagger.predict_numbers(corpus)
    with atomic_output(target) as out:
        write_columns(corpus, out, [Column(labels, tagger.classes_)])


def label_by_peer(tagger: Any, attributes: Attributes, source: Path, target: Path) -> None:
    sentences = read_sentences(source)
    write_tagged(target, sentences, (tagger.tag(attributes(sentence)) for sentence in sentences))


def seconds(action: Callable[[], Any]) -> tuple[float, float]:
    """Of the clock on the wall, and of this process."""
    began, worked = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - began, time.process_time() - worked


def trained_peer(folder: Path, attributes: Attributes, iterations: int, path: Path) -> Any:
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for sentence in read_sentences(folder / "train.txt"):
        trainer.append(attributes(sentence), [row[-1] for row in sentence])
    trainer.set_params({"c1": 0.0, "c2": 1.0, "max_iterations": iterations})
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger


def in_turn(actions: dict[str, Callable[[], Any]], repeats: int) -> dict[str, list[tuple[float, float]]]:
    """Seconds of each action, all of them once in each repeat."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in actions}
    for action in actions.values():
        action()
    for _ in range(repeats):
        for name, action in actions.items():
            times[name].append(seconds(action))
    return times


def measured(folder: Path, scratch: Path, repeats: int, iterations: int) -> dict[str, list[tuple[float, float]]]:
    attributes = attribute_maker(TemplateSet.parse(template_text("chunking")))
    ours = Tagger(template="chunking", optimizer="dual").fit(read_columns(folder / "train.txt"))
    ours.save(scratch / "ours.model")
    one, two = (Tagger.load(scratch / "ours.model").set_params(threads=n) for n in (1, 2))
    peer = trained_peer(folder, attributes, iterations, scratch / "peer.crfsuite")
    test, out = folder / "test.txt", scratch / "tagged.txt"
    rows = [tuple(row[:2]) for row in next(s for s in read_sentences(test) if len(s) == SENTENCE)]
    small = scratch / "small.txt"
    small.write_text("".join(" ".join(r) + "\n" for s in read_sentences(test)[:SENTENCES] for r in [*s, ()]))
    command = [sys.executable, "-m", "loglinear", "tag", scratch / "ours.model", small, "-o", out]
    calls = range(CALLS)
    return in_turn(
        {
            "file, loglinear, 1 thread": lambda: label_by_us(one, test, out),
            "file, loglinear, 2 threads": lambda: label_by_us(two, test, out),
            "file, python-crfsuite": lambda: label_by_peer(peer, attributes, test, out),
            f"{SENTENCE} tokens, loglinear": lambda: [one.predict_single(rows) for _ in calls],
            f"{SENTENCE} tokens, python-crfsuite": lambda: [peer.tag(attributes(rows)) for _ in calls],
            f"loglinear tag, {SENTENCES} sentences": lambda: subprocess.run(command, check=True),
            "Tagger.load": lambda: Tagger.load(scratch / "ours.model"),
        },
        repeats,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--peer-iterations", type=int, default=30, help="iterations of the peer's training")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        times = measured(data_folder(), Path(scratch), arguments.repeats, arguments.peer_iterations)
    table = Table("what", "median", "least", "processor", "python-crfsuite / loglinear", "by processor")
    for name, each in times.items():
        factor, unit = (1e6 / CALLS, "µs") if "tokens" in name else (1e3, "ms")
        wall, processor = (statistics.median(column) for column in zip(*each, strict=True))
        ratios = ["", ""]
        if "file, l" in name or "tokens, l" in name:
            peer = zip(*times[f"{name.split(', ')[0]}, python-crfsuite"], strict=True)
            ratios = [f"{statistics.median(p) / own:.1f}" for p, own in zip(peer, (wall, processor), strict=True)]
        used = "" if "tag," in name else f"{processor * factor:,.0f}"
        table.add_row(name, f"{wall * factor:,.0f} {unit}", f"{min(each)[0] * factor:,.0f}", used, *ratios)
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(times, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
