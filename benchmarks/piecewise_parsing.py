"""Parsing sentences of at most 15 words by a generative grammar, an MECFG, none of the above, and whole trees.

    python -m benchmarks.piecewise_parsing [--corpora craft ptb] [--systems ...] [--runs piecewise.json] [--held-out]

The comparison of Sutton and McCallum (2005), Table 2, on other data: each system is trained on the training trees of at
most 15 words and scored on the others (craft: dev; ptb: dev and test), with the paired bootstrap against the MECFG.
Seconds are of processor time. The default options were chosen with --held-out, which trains on six sevenths of the
training trees of craft and scores the rest.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.corpora import data_folder
from loglinear import Parser, read_treebank
from loglinear.data.files import atomic_output
from loglinear.data.trees import Tree
from loglinear.evaluation.brackets import bracket_scores
from loglinear.evaluation.significance import paired_bootstrap

LONGEST = 15
SYSTEMS = {
    "generative": "pcfg",
    "mecfg": "mecfg",
    "pt-cfg": "nota",
    "pt-cfg, local": "nota:decoding=local",
    "mecfg, first and last": "mecfg:places=first+last",
    "pt-cfg, first and last": "nota:places=first+last",
    "pt-cfg, 2 rounds": "nota:rounds=2",
    "pt-cfg, sample 1": "nota:wrong=sample",
    "pt-cfg, sample 2": "nota:wrong=sample",
    "pt-cfg, sample 3": "nota:wrong=sample",
    "m-estimation": "m-estimation",
    "mira": "mira",
    "crf-cfg": "cll",
    "softmax-margin": "softmax-margin",
}
SEEDS = {"pt-cfg, sample 2": 2, "pt-cfg, sample 3": 3}
AGAINST = "mecfg"


def trees_of(name: str, held_out: bool) -> tuple[list[Tree], list[Tree]]:
    """Training and test trees of at most 15 words."""
    folder, stem = data_folder().parent / name, {"craft": "craft15", "ptb": "ptb"}[name]
    parts = {
        part: read_treebank(path)
        for part in ("train", "dev", "test")
        if (path := folder / f"{stem}.{part}.mrg").exists()
    }
    train, *others = ([tree for tree in trees if len(tree.leaves()) <= LONGEST] for trees in parts.values())
    if held_out:
        n = len(train) * 6 // 7
        return train[:n], train[n:]
    return train, [tree for trees in others for tree in trees]


def measure(spec: str, seed: int, train: list[Tree], test: list[Tree], threads: int | None) -> dict[str, Any]:
    """Train and score one system."""
    began = time.process_time()
    parser = Parser(criterion=spec, seed=seed, threads=threads).fit(train)
    trained = time.process_time()
    sentences = [tree.leaves() for tree in test]
    parser.predict(sentences[:2])
    before = time.process_time()
    report = bracket_scores(test, parser.predict(sentences))
    return {
        **report.to_dict(len(test) / (time.process_time() - before)),
        "seconds": trained - began,
        "message": parser.message_,
        "counts": report.counts[:, :3].tolist(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("piecewise.json"), help="file of finished runs")
    parser.add_argument("--corpora", nargs="+", choices=["craft", "ptb"], default=["craft", "ptb"])
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--held-out", action="store_true", help="score a seventh of the training trees")
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    runs = json.loads(arguments.runs.read_text()) if arguments.runs.exists() else {}
    for name in arguments.corpora:
        train, test = trees_of(name, arguments.held_out)
        suffix = " held-out" if arguments.held_out else ""
        title = f"{name}{suffix}: {len(train):,} trees, {len(test):,} to test"
        table = Table(
            "system", "P", "R", "F1", f"to {AGAINST} (p)", "exact", "failures", "seconds", "trained", title=title
        )
        for system in arguments.systems:
            key = f"{name} {system}{suffix}"
            if key not in runs:
                runs[key] = measure(SYSTEMS[system], SEEDS.get(system, 0), train, test, arguments.threads)
                with atomic_output(arguments.runs) as out:
                    out.write(json.dumps(runs).encode())
                print(f"{key}: F1 {runs[key]['f1']:.2f}, {runs[key]['seconds']:.0f} s", flush=True)
            run, against = runs[key], ""
            base = runs.get(f"{name} {AGAINST}{suffix}")
            if base is not None and system != AGAINST:
                compared = paired_bootstrap(np.array(base["counts"]), np.array(run["counts"]))
                against = f"{compared.second - compared.first:+.2f} ({compared.p:.3f})"
            table.add_row(
                system, f"{run['precision']:.2f}", f"{run['recall']:.2f}", f"{run['f1']:.2f}", against,
                f"{run['exact']:.1f}", str(run["failures"]), f"{run['seconds']:.0f}", run["message"].partition(";")[0],
            )  # fmt: skip
        Console(width=140).print(table)


if __name__ == "__main__":
    main()
