"""Dependency parsing by a generative model, by M-estimation over it, and by discriminative criteria.

    python -m benchmarks.dependencies [--corpora ptbdep ewt] [--runs dependencies.json] [--held-out]

Trains on the training part and scores the dev part, with the tags of the files and every token counted, of: the
head-outward model of tags and of words; each with McDonald's features of arcs by M-estimation; conditional likelihood,
softmax-margin and MIRA with the same features, and MIRA over trees whose arcs may cross. All with default options,
which were chosen on what --held-out scores: a tenth of the training sentences, drawn by a seed. The model of
relations, the same for all, is trained once and not counted in the seconds, which are those of the processor.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.corpora import data_folder
from loglinear import DependencyParser, read_conllu
from loglinear.data import Dependencies
from loglinear.data.files import atomic_output
from loglinear.estimators.dependency.model import RelationModel
from loglinear.evaluation.attachment import attachment_counts, attachment_scores
from loglinear.evaluation.significance import paired_bootstrap

TAGS = "head-outward:words=no"
SYSTEMS: dict[str, dict[str, Any]] = {
    "generative, tags": {"criterion": "generative", "base": TAGS},
    "m-estimation, tags": {"criterion": "m-estimation", "base": TAGS, "variance": 1.0},
    "generative": {"criterion": "generative"},
    "m-estimation": {"criterion": "m-estimation"},
    "mira": {"criterion": "mira"},
    "cll": {"criterion": "cll"},
    "softmax-margin": {"criterion": "softmax-margin"},
    "mira, crossing arcs": {"criterion": "mira", "projective": False},
}
BASES = {"m-estimation, tags": "generative, tags", "m-estimation": "generative"}


def measure(
    options: dict[str, Any],
    train: Dependencies,
    dev: Dependencies,
    relations: RelationModel | None,
    threads: int | None,
) -> dict[str, Any]:
    """Train and score one system."""
    DependencyParser(**options, relations=False).fit(train.select(np.arange(20)))  # compiles what it needs
    began = time.process_time()
    parser = DependencyParser(**options, relations=False, threads=threads).fit(train)
    trained = time.process_time()
    parser.model_ = replace(parser.model_, relations=relations)
    parser.parse(dev.select(np.arange(2)))
    before = time.process_time()
    parses = parser.parse(dev)
    parsed = time.process_time()
    report = attachment_scores(dev, parses.heads, parses.relations)
    return {
        **report.to_dict(),
        "seconds": trained - began,
        "sentences_per_second": dev.n_sentences / (parsed - before),
        "features": parser.model_.features.n_features,
        "message": parser.message_,
        "counts": attachment_counts(dev, parses.heads).tolist(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("dependencies.json"), help="file of finished runs")
    parser.add_argument("--corpora", nargs="+", default=["ptbdep", "ewt"])
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--held-out", action="store_true", help="score a tenth of the training sentences")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    runs = json.loads(arguments.runs.read_text()) if arguments.runs.exists() else {}
    for name in arguments.corpora:
        folder = data_folder().parent / name
        train = read_conllu(folder / f"{name}.train.conllu")
        if arguments.held_out:
            order = np.random.default_rng(0).permutation(train.n_sentences)
            n = train.n_sentences // 10
            train, dev = train.select(np.sort(order[n:])), train.select(np.sort(order[:n]))
        else:
            dev = read_conllu(folder / f"{name}.dev.conllu")
        began, relations = time.perf_counter(), None
        if train.has_relations and any(f"{name} {system}" not in runs for system in arguments.systems):
            relations = DependencyParser("generative", threads=arguments.threads).fit(train).model_.relations
            print(f"{name}: relations in {time.perf_counter() - began:.0f} s", flush=True)
        table = Table(
            "system", "UAS", "LAS", "exact", "seconds", "sentences/s", "features", "to its base (p)", title=name
        )
        for system in arguments.systems:
            key = f"{name} {system}{' held-out' if arguments.held_out else ''}"
            if key not in runs:
                runs[key] = measure(SYSTEMS[system], train, dev, relations, arguments.threads)
                with atomic_output(arguments.runs) as out:
                    out.write(json.dumps(runs).encode())
                print(f"{key}: UAS {runs[key]['uas']:.2f}, {runs[key]['seconds']:.0f} s", flush=True)
            run, against = runs[key], ""
            base = runs.get(key.replace(system, BASES.get(system, "-")))
            if base is not None:
                compared = paired_bootstrap(np.array(base["counts"]), np.array(run["counts"]))
                against = f"{compared.second - compared.first:+.2f} ({compared.p:.4f})"
            las = "" if run["las"] is None else f"{run['las']:.2f}"
            table.add_row(
                system, f"{run['uas']:.2f}", las, f"{run['exact']:.2f}", f"{run['seconds']:.0f}",
                f"{run['sentences_per_second']:.0f}", f"{run['features']:,}", against,
            )  # fmt: skip
        Console(width=120).print(table)


if __name__ == "__main__":
    main()
