"""The default optimizer beside L-BFGS on corpora of different kinds, without any tuning.

    python -m benchmarks.schedules [--runs FILE] [--corpora NAME ...]

    chunks      CoNLL-2000, template ``chunking``, 22 labels
    tags        CoNLL-2000, words and their tags, template ``pos``, 44 labels
    web         the English Web Treebank's Penn tags, template ``pos``, 49 labels
    entities    CoNLL-2002 Spanish, template ``ner``, 9 labels
    addresses   American addresses, template ``ner``

For each: conditional likelihood with an L2 of 1, the same with an L1 and an L2 of 0.1, and softmax-margin with an L2 of
1, by the default optimizer; the first also by L-BFGS. Both stop by their own rule. The objective is the exact one.
Stopped, it goes on from the runs in its file.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.corpora import data_folder
from loglinear import Tagger, read_columns
from loglinear.data.columns.corpus import Columns
from loglinear.data.files import atomic_output

WAYS: dict[str, dict[str, Any]] = {
    "cll, lbfgs": {"l2": 1.0, "optimizer": "lbfgs"},
    "cll": {"l2": 1.0},
    "cll, L1 and L2": {"l1": 0.1, "l2": 0.1},
    "softmax-margin": {"l2": 1.0, "criterion": "softmax-margin"},
}


def _words_and_tags(lines: list[str], word: int, tag: int, separator: str | None) -> Columns:
    """Two columns of a file with more; lines with another number of fields than the first's are breaks."""
    rows = [line.split(separator) for line in lines if not line.startswith("#")]
    text = "\n".join(f"{row[word]}\t{row[tag]}" if len(row) > max(word, tag) and row[0] else "" for row in rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "columns.txt"
        path.write_text(text + "\n", encoding="utf-8")
        return read_columns(path, separator="tab")


def _lines(*names: str) -> list[str]:
    return data_folder().parent.joinpath(*names).read_text(encoding="utf-8").split("\n")


CORPORA: dict[str, tuple[str, Callable[[], Columns]]] = {
    "chunks": ("chunking", lambda: read_columns(data_folder() / "train.txt")),
    "tags": ("pos", lambda: _words_and_tags(_lines("conll2000", "train.txt"), 0, 1, None)),
    "web": ("pos", lambda: _words_and_tags(_lines("ewt", "ewt.train.conllu"), 1, 4, "\t")),
    "entities": ("ner", lambda: read_columns(data_folder().parent / "conll2002" / "esp.train")),
    "addresses": ("ner", lambda: read_columns(data_folder().parent / "usaddress" / "train.txt")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("schedules.json"))
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=list(CORPORA))
    arguments = parser.parse_args()
    table = Table("corpus", "way", "passes", "seconds", "objective", "how it ended")
    done: dict[str, Any] = json.loads(arguments.runs.read_text()) if arguments.runs.exists() else {}
    for name in arguments.corpora:
        template, read = CORPORA[name]
        corpus = None
        for way, options in WAYS.items():
            key = f"{name}: {way}"
            if key not in done:
                corpus = corpus or read()
                tagger = Tagger(template=template, **options).fit(corpus)
                done[key] = {
                    "passes": tagger.n_evaluations_, "seconds": tagger.seconds_, "objective": tagger.objective_,
                    "message": tagger.message_,
                }  # fmt: skip
                with atomic_output(arguments.runs) as out:
                    out.write(json.dumps(done).encode())
            found = done[key]
            numbers = str(found["passes"]), f"{found['seconds']:.1f}", f"{found['objective']:,.2f}"
            table.add_row(name, way, *numbers, found["message"])
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
