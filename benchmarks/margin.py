"""Max-margin by its dual beside L-BFGS and AdaGrad: the objective each ends with, and the processor time it takes.

    python -m benchmarks.margin [--task segments trees arcs]

Segments are the chunks of CoNLL-2000 (1,000 sentences of the training data), trees the bundled corpus, arcs 400
sentences of ptbdep's training data. One thread, l2 = 1.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.corpora import data_folder
from loglinear import DependencyParser, Parser, Tagger, read_columns, read_conllu
from loglinear.data.corpora.bundled import bundled_trees

SEGMENTS = {"structure": "segments", "template": "chunking", "constraints": "bio"}
WAYS = {
    "segments": ({"optimizer": "dual"}, {"optimizer": "lbfgs"}),
    "trees": ({"optimizer": "dual"}, {"optimizer": "lbfgs"}, {"optimizer": "adagrad"}),
    "arcs": (
        {"optimizer": "dual", "tolerance": 1e-5},
        {"optimizer": "lbfgs", "max_iter": 300},
        {"optimizer": "adagrad:average"},
    ),
}


def first_sentences(path: Path, n: int, read: Callable[[str], Any]) -> Any:
    """The first ``n`` sentences of a file with a blank line after each."""
    with TemporaryDirectory() as folder:
        part = Path(folder) / path.name
        part.write_text("\n\n".join(path.read_text(encoding="utf-8").split("\n\n")[:n]) + "\n\n", encoding="utf-8")
        return read(str(part))


def problems(tasks: list[str]) -> Iterator[tuple[str, Callable[..., Any], Any]]:
    """Name, estimator and data of each task."""
    if "segments" in tasks:
        chunks = first_sentences(data_folder() / "train.txt", 1000, read_columns)
        yield "segments", partial(Tagger, **SEGMENTS), chunks
    if "trees" in tasks:
        yield "trees", Parser, bundled_trees("train", entities=False)
    if "arcs" in tasks:
        sentences = first_sentences(data_folder("ptbdep") / "ptbdep.train.conllu", 400, read_conllu)
        yield "arcs", partial(DependencyParser, relations=False), sentences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", nargs="*", choices=list(WAYS), default=list(WAYS))
    for name, make, data in problems(parser.parse_args().task):
        for options in WAYS[name]:
            begun = time.process_time()
            trained = make(criterion="max-margin", threads=1, **options).fit(data)
            seconds = time.process_time() - begun
            print(
                f"| {name} | {options} | {trained.objective_:.2f} | {seconds:.0f} s | {trained.message_} |", flush=True
            )


if __name__ == "__main__":
    main()
