"""Chunking on CoNLL-2000 beside python-crfsuite: same file, same features, same objective, one run.

    python -m benchmarks.chunking [--json FILE] [--max-iter N]

Wants the corpus in LOGLINEAR_DATA (or ../shared/data): ``conll2000/train.txt`` and ``test.txt``.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pycrfsuite
from rich.console import Console
from rich.table import Table

from loglinear import Tagger, chunk_scores, read_columns, template_text
from loglinear.features.template import TemplateSet
from loglinear.features.template_encoder import TemplateEncoder

ROWS = ("encode", "train", "iterations", "objective", "F1 on test", "tag test", "features")


def data_folder() -> Path:
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("LOGLINEAR_DATA", default)) / "conll2000"
    if not folder.is_dir():
        raise SystemExit(f"the corpus is not in {folder}; set LOGLINEAR_DATA to the folder that holds conll2000/")
    return folder


def read_as_users_do(path: Path) -> list[list[tuple[str, ...]]]:
    """Sentences as lists of tuples, by plain Python."""
    text = path.read_text(encoding="utf-8").strip()
    return [[tuple(line.split()) for line in sentence.split("\n")] for sentence in text.split("\n\n")]


def strings_as_users_make_them(sentence: list[tuple[str, ...]], templates: TemplateSet) -> list[list[str]]:
    """The template's attributes as strings, token by token: what a python-crfsuite script does."""
    plans = [[(p.row, p.column) if not isinstance(p, str) else p for p in t.pieces] for t in templates.observing]
    n = len(sentence)

    def value(place: int, column: int) -> str:
        if place < 0:
            return f"_B{place}"
        return sentence[place][column] if place < n else f"_B+{place - n + 1}"

    return [
        ["".join(p if isinstance(p, str) else value(t + p[0], p[1]) for p in plan) for plan in plans] for t in range(n)
    ]


def measure_peer(folder: Path, templates: TemplateSet, max_iter: int | None) -> dict[str, Any]:
    train, test = (read_as_users_do(folder / name) for name in ("train.txt", "test.txt"))
    began = time.perf_counter()
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for sentence in train:
        trainer.append(strings_as_users_make_them(sentence, templates), [row[-1] for row in sentence])
    encode = time.perf_counter() - began
    trainer.set_params({"c1": 0.0, "c2": 1.0} | ({"max_iterations": max_iter} if max_iter else {}))
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "peer.crfsuite")
        began = time.perf_counter()
        trainer.train(path)
        seconds = time.perf_counter() - began
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        began = time.perf_counter()
        predicted = [tagger.tag(strings_as_users_make_them(sentence, templates)) for sentence in test]
        tag = time.perf_counter() - began
    last = trainer.logparser.last_iteration
    gold = [[row[-1] for row in sentence] for sentence in test]
    return {
        "encode": encode,
        "train": seconds,
        "iterations": last["num"],
        "objective": last["loss"],
        "F1 on test": chunk_scores(gold, predicted).f1,
        "tag test": tag,
        "features": trainer.logparser.featgen_num_features,
    }


def measure_ours(folder: Path, template: str, max_iter: int | None) -> dict[str, Any]:
    began = time.perf_counter()
    train = read_columns(folder / "train.txt")
    TemplateEncoder(TemplateSet.parse(template)).fit(train)
    encode = time.perf_counter() - began
    began = time.perf_counter()
    tagger = Tagger(template=template, l2=1.0, **({"max_iter": max_iter} if max_iter else {})).fit(train)
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    test = read_columns(folder / "test.txt")
    labels, _ = tagger.predict_numbers(test)
    tag = time.perf_counter() - began
    gold = test.columns[-1]
    score = chunk_scores((gold.ids, gold.values, test.offsets), (labels, tagger.classes_, test.offsets))
    return {
        "encode": encode,
        "train": seconds,
        "iterations": tagger.n_iter_,
        "objective": tagger.objective_,
        "F1 on test": score.f1,
        "tag test": tag,
        "features": tagger.model_.features.n_features,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--max-iter", type=int, help="stop both after so many iterations")
    arguments = parser.parse_args()
    folder, console = data_folder(), Console()
    template = template_text("chunking")
    warm = Tagger(template=template, max_iter=2).fit(read_columns(folder / "test.txt"))
    warm.predict([[("a", "b")]])
    console.print("kernels compiled; ours ...")
    ours = measure_ours(folder, template, arguments.max_iter)
    console.print("python-crfsuite ...")
    peer = measure_peer(folder, TemplateSet.parse(template), arguments.max_iter)
    table = Table("CoNLL-2000, 19 templates, l2 = 1", "loglinear", "python-crfsuite", "ours / theirs")
    for row in ROWS:
        ratio = ours[row] / peer[row]
        shown = [f"{side[row]:,.0f}" if isinstance(side[row], int) else f"{side[row]:,.3f}" for side in (ours, peer)]
        table.add_row(row + (" (s)" if row in ("encode", "train", "tag test") else ""), *shown, f"{ratio:.5f}")
    console.print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps({"loglinear": ours, "python-crfsuite": peer}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
