"""Tokens a second and core from Parquet to Parquet, with a chunking model on generated sentences.

    python -m benchmarks.parquet [--tokens N] [--sentences N] [--repeats N] [--template NAME] [--workers 1,2]
                                 [--json FILE]

A model with the template is trained on sentences of the generator; other sentences of it, repeated until there are
enough tokens, are written as Parquet with a row a sentence (lists) and with a row a token, in row groups, and labelled
by what ``loglinear tag IN.parquet -o OUT.parquet`` does, on one thread, with the model loaded and kernels compiled.
The table has the best of the repeats, by the clock on the wall and by the processor's time of this process, which also
counts Arrow's own threads, and the share of reading and writing alone: the same file copied part by part with a column
of text more. With ``--workers`` the files are also labelled by so many worker processes of one thread (``--cluster
local:N``), which have started and loaded the model; efficiency is the speed a worker over that with the first number of
them. Data are written where TMPDIR says.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from loglinear import Tagger
from loglinear.data import Columns, atomic_output
from loglinear.data.columns.arrow_file import ArrowFile, ArrowWriter, list_array, text_array
from loglinear.data.corpora.generator import generate_rows
from loglinear.estimators.tagger.predict import LoadedTagger
from loglinear.scale.cluster.engine import open_cluster
from loglinear.scale.cluster.tagging import ModelFile, parts_on, tag_files
from loglinear.scale.tables import Labelling, tag_file

TRAIN = 5000  # sentences that the model learns from
PART = 4000  # sentences of a row group
NAMES = ("tokens", "pos")
FILES = 4  # of several


def write_data(folder: Path, n_sentences: int, n_tokens: int) -> int:
    """Write the two files, and return how many tokens each has."""
    corpus = Columns.from_rows([[row[:2] for row in s] for s in generate_rows(n_sentences, seed=2)])
    times = max(1, round(n_tokens / corpus.n_tokens))
    offsets = corpus.offsets
    flat = {name: text_array(column.ids, column.values) for name, column in zip(NAMES, corpus.columns, strict=True)}
    lists = pa.table({name: list_array(values, offsets) for name, values in flat.items()})
    rows = pa.table({"sentence_id": np.repeat(np.arange(len(corpus)), np.diff(offsets)), **flat})
    per_part = int(offsets[min(PART, len(corpus))])
    for name, table, size in (("sentences", lists, PART), ("tokens", rows, per_part)):
        with pq.ParquetWriter(folder / f"{name}.parquet", table.schema) as writer:
            for number in range(times):
                if name == "tokens":
                    ids = pa.array(rows.column(0).to_numpy() + number * len(corpus))
                    table = rows.set_column(0, "sentence_id", ids)
                writer.write_table(table, row_group_size=size)
    return times * corpus.n_tokens


def copy(source: Path, target: Path) -> None:
    """Read and write a file part by part, with a column more."""
    with ArrowFile(str(source), "parquet") as file:
        schema = file.schema.append(file.schema.field(file.schema.names[-1]).with_name("copied"))
        with atomic_output(target) as out, ArrowWriter(out, schema, "parquet", file) as writer:
            for part in file.parts():
                writer.write(part.table.append_column("copied", part.table.column(part.table.num_columns - 1)))


def best(action: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Least seconds of the clock on the wall and of the processor; the first call does not count."""
    action()
    found = []
    for _ in range(repeats):
        began, worked = time.perf_counter(), time.process_time()
        action()
        found.append((time.perf_counter() - began, time.process_time() - worked))
    walls, processors = zip(*found, strict=True)
    return min(walls), min(processors)


def label(tagger: LoadedTagger, path: str) -> None:
    """Label a file, on a worker."""
    tag_file(tagger, path, Path(path).parent / "out" / Path(path).name, "parquet")


def on_workers(folder: Path, numbers: list[int], repeats: int) -> dict[str, dict[str, float]]:
    """Least seconds of the clock on the wall with each number of workers; the first call does not count."""
    (folder / "out").mkdir(exist_ok=True)
    model, figures = ModelFile.of(folder / "chunker.model"), dict[str, dict[str, float]]()
    tagger = LoadedTagger.load(folder / "chunker.model", threads=1)
    for number in numbers:
        with open_cluster(f"local:{number}") as cluster:
            parts = parts_on(cluster, model)
            actions: dict[str, Callable[[], Any]] = {
                f"a row a {layout.removesuffix('s')}": lambda layout=layout, parts=parts: tag_file(
                    tagger, str(folder / f"{layout}.parquet"), folder / "out.parquet", "parquet", parts=parts
                )
                for layout in ("sentences", "tokens")
            }
            copies = {str(folder / "sentences.parquet"): None} | {
                os.path.join(folder, f"copy{n}.parquet"): None for n in range(FILES - 1)
            }
            for path in copies:
                if not os.path.exists(path):
                    os.symlink(folder / "sentences.parquet", path)
            actions[f"{FILES} files"] = lambda cluster=cluster, paths=tuple(copies): list(
                tag_files(cluster, model, label, {path: path for path in paths}, str(folder / "out"))
            )
            for name, action in actions.items():
                wall, processor = best(action, repeats)
                files = FILES if name.endswith("files") else 1
                figures[f"{name}: local:{number}"] = {
                    "wall": wall, "processor": processor, "workers": number, "files": files,
                }  # fmt: skip
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1_000_000, help="of each file (default 1,000,000)")
    parser.add_argument("--sentences", type=int, default=20_000, help="different ones (default 20,000)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--template", default="chunking", help="of the model (default chunking)")
    parser.add_argument("--workers", default="", help="numbers of worker processes to measure too, as in 1,2")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    arguments = parser.parse_args()
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        train = Columns.from_rows(list(generate_rows(TRAIN, seed=1)))
        Tagger(template=arguments.template, optimizer="dual").fit(train).save(folder / "chunker.model")
        tagger = LoadedTagger.load(folder / "chunker.model", threads=1)
        n_tokens = write_data(folder, arguments.sentences, arguments.tokens)
        figures: dict[str, dict[str, float]] = {}
        for layout in ("sentences", "tokens"):
            source, target = folder / f"{layout}.parquet", folder / "out.parquet"
            actions: dict[str, Callable[[], Any]] = {
                "labels": lambda s=source, t=target: tag_file(tagger, str(s), t, "parquet"),
                "labels and probabilities": lambda s=source, t=target: tag_file(
                    tagger, str(s), t, "parquet", how=Labelling(confidence=True)
                ),
                "reading and writing alone": lambda s=source, t=target: copy(s, t),
            }
            for name, action in actions.items():
                wall, processor = best(action, arguments.repeats)
                figures[f"a row a {layout.removesuffix('s')}: {name}"] = {"wall": wall, "processor": processor}
        numbers = [int(number) for number in arguments.workers.split(",") if number]
        clusters = on_workers(folder, numbers, arguments.repeats)
    table = Table("one thread", "wall", "processor", "tokens/s", "tokens/s of a core", title=f"{n_tokens:,} tokens")
    for name, each in figures.items():
        speeds = [f"{n_tokens / each[clock]:,.0f}" for clock in ("wall", "processor")]
        table.add_row(name, f"{each['wall']:.2f} s", f"{each['processor']:.2f} s", *speeds)
    Console().print(table)
    if clusters:
        table = Table("workers", "wall", "processor of the driver", "tokens/s", "efficiency")
        for name, each in clusters.items():
            first = clusters[name.replace(f"local:{each['workers']}", f"local:{numbers[0]}")]
            efficiency = first["wall"] * first["workers"] / (each["wall"] * each["workers"])
            speed = f"{each['files'] * n_tokens / each['wall']:,.0f}"
            table.add_row(name, f"{each['wall']:.2f} s", f"{each['processor']:.2f} s", speed, f"{efficiency:.2f}")
        Console().print(table)
        figures |= clusters
    if arguments.json:
        arguments.json.write_text(json.dumps({"tokens": n_tokens, "seconds": figures}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
