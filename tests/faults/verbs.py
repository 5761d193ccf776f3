"""What the campaigns run: verbs with small inputs, what each writes, and when two outcomes are the same."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from loglinear import model_file
from loglinear.data.corpora.bundled import bundled_text
from loglinear.scale.encoded import CORPUS, ENCODING, open_encoded
from loglinear.system import remove_abandoned

Same = Callable[[Path, Path], bool]
Content = bytes | dict[str, bytes] | None


def content_of(path: Path) -> Content:
    """What a file holds, or each of the files in a folder; None if there is neither."""
    if path.is_dir():
        return {each.name: each.read_bytes() for each in path.iterdir() if not each.name.endswith(".tmp")}
    return path.read_bytes() if path.exists() else None


def same_model(one: Path, other: Path) -> bool:
    """Whether two model files have the same weights, vocabulary and so on, to the last bit."""
    first, second = model_file.load(one).arrays, model_file.load(other).arrays
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def same_bytes(one: Path, other: Path) -> bool:
    """Whether two files are the same."""
    return one.read_bytes() == other.read_bytes()


def same_files(one: Path, other: Path) -> bool:
    """Whether the files of a folder are those of another, which may have more: a verb may have done some of them."""
    first, second = content_of(one), content_of(other)
    assert isinstance(first, dict) and isinstance(second, dict)
    return first.items() <= second.items()


def same_encoding(one: Path, other: Path) -> bool:
    """Whether two folders hold the same encoded corpus."""
    return open_encoded(one).options == open_encoded(other).options and all(
        same_bytes(one / name, other / name) for name in (CORPUS, ENCODING)
    )


def same_cells(one: Path, other: Path) -> bool:
    """Whether two files of results say the same, apart from times."""
    first, second = (_timeless(json.loads(path.read_text(encoding="utf-8"))["cells"]) for path in (one, other))
    return bool(first == second)


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if "second" not in key and "memory" not in key}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


def cells_within(one: Path, whole: Path) -> bool:
    """Whether a file of results is whole, and has no cells but those of the finished one."""
    first, second = (_timeless(json.loads(path.read_text(encoding="utf-8"))["cells"]) for path in (one, whole))
    return all(key in second and cell == second[key] for key, cell in first.items())


@dataclass(frozen=True)
class Verb:
    """A command line.

    Parameters
    ----------
    arguments : str
    outputs : dict from str to function
        Each file or folder that it writes, and when two of them are the same.
    resumed : str
        What is added to continue after a kill.
    weight : int
        How often it is chosen, relative to others.
    only_new : bool
        Whether it refuses to replace an output.
    """

    arguments: str
    outputs: dict[str, Same] = field(default_factory=dict)
    resumed: str = ""
    weight: int = 1
    only_new: bool = False

    def line(self, resumed: bool = False) -> list[str]:
        """The command line."""
        return [*self.arguments.split(), *(self.resumed.split() if resumed else [])]


MODEL = {"out.model": same_model}
NOW = "--checkpoint-seconds 0"
VERBS = {
    "train": Verb(f"train pos.txt -o out.model --max-iter 12 {NOW}", MODEL, "--resume", 4),
    "train lbfgs": Verb(f"train pos.txt -o out.model --optimizer lbfgs --max-iter 12 {NOW}", MODEL, "--resume", 4),
    "train sgd": Verb(f"train pos.txt -o out.model --optimizer sgd --max-iter 8 {NOW}", MODEL, "--resume", 2),
    "train perceptron": Verb(f"train pos.txt -o out.model --criterion perceptron --max-iter 6 {NOW}", MODEL,
                             "--resume", 2),
    "train dev": Verb(f"train pos.txt --dev dev.txt -o out.model --max-iter 10 {NOW}", MODEL, "--resume", 2),
    "tag": Verb("tag tagger.model pos.txt -o out.txt", {"out.txt": same_bytes}, "", 2),
    "tag gz": Verb("tag tagger.model pos.txt -o out.txt.gz --marginals", {"out.txt.gz": same_bytes}),
    "prune": Verb("prune tagger.model -o out.model --share 0.5", MODEL),
    "tune": Verb("tune pos.txt --folds 2 --grid l2=0.1,1 --max-iter 4 --json cells.json -o out.model",
                 {"cells.json": same_cells, **MODEL}, "", 2),
    "compare": Verb("compare pos.txt --dev dev.txt --test dev.txt --criteria perceptron,cll --grid l2=1 --max-iter 4 "
                    "--json cells.json", {"cells.json": same_cells}, "", 2),
    "parse train": Verb("parse train trees.mrg -o out.model", MODEL, "", 2),
    "parse train cll": Verb(f"parse train trees.mrg -o out.model --criterion cll --max-iter 5 {NOW}", MODEL,
                            "--resume", 2),
    "parse run": Verb("parse run parser.model sentences.txt -o out.txt", {"out.txt": same_bytes}),
    "classify train": Verb(f"classify train table.csv --label y -o out.model {NOW}", MODEL, "--resume", 2),
    "cluster": Verb("cluster points.csv -k 3 -o out.model --rows out.csv",
                    {**MODEL, "out.csv": same_bytes}, "", 2),
    "path": Verb("path pos.txt --grid 0.1,1 --folds 2 --max-iter 4 --csv out.csv", {"out.csv": same_bytes}),
    "sample": Verb("sample hmm.model -n 50 -o out.txt", {"out.txt": same_bytes}),
    "encode": Verb("encode pos.txt -o encoded --template pos", {"encoded": same_encoding}, "", 2),
    "train encoded": Verb(f"train ready -o out.model --max-iter 8 {NOW}", MODEL, "--resume"),
    "tag files": Verb("tag tagger.model parts -o tagged --existing overwrite", {"tagged": same_files}, "", 2),
    "update": Verb("update tagger.model dev.txt -o out.model", MODEL, "", 2),
    "combine": Verb("combine tagger.model other.model --dev dev.txt -o out.model", MODEL),
    "convert": Verb("convert tagger.model -o out.crfsuite --to crfsuite", {"out.crfsuite": same_bytes}),
    "data convert": Verb("data convert pos.txt -o out.jsonl --to jsonl", {"out.jsonl": same_bytes}),
    "data convert brat": Verb("data convert spans.jsonl -o brat --to brat", {"brat": same_files}, only_new=True),
    "classify train-sequences": Verb("classify train-sequences kinds.txt --label kind -o out.model", MODEL),
    "corpus": Verb("corpus train --task pos -o out.txt", {"out.txt": same_bytes}),
    "parse draw": Verb("parse draw trees.mrg --tree 1 --svg out.svg", {"out.svg": same_bytes}),
    "parse eval": Verb("parse eval trees.mrg --model parser.model"),
    "eval": Verb("eval dev.txt --model tagger.model"),
    "inspect": Verb("inspect tagger.model"),
    "classify run": Verb("classify run rows.model table.csv -o out.csv", {"out.csv": same_bytes}),
    "classify eval": Verb("classify eval rows.model table.csv"),
    "crfpp learn": Verb("crfpp learn patterns.txt pos.txt out.model", MODEL),
    "crfpp test": Verb("crfpp test -m tagger.model -o out.txt dev.txt", {"out.txt": same_bytes}),
    "wapiti train": Verb("wapiti train -p wapiti.txt pos.txt out.model", MODEL),
    "wapiti label": Verb("wapiti label -m tagger.model dev.txt out.txt", {"out.txt": same_bytes}),
    "wapiti dump": Verb("wapiti dump tagger.model out.txt", {"out.txt": same_bytes}),
    "crfsuite learn": Verb("crfsuite learn -m out.crfsuite pos.crfsuite", {"out.crfsuite": same_bytes}),
    "crfsuite tag": Verb("crfsuite tag -m attributes.model pos.crfsuite"),
    "crfsuite dump": Verb("crfsuite dump tagger.model"),
}  # fmt: skip
#: They start processes of their own, and take longer.
WITH_WORKERS = {
    "reproduce": Verb("reproduce piecewise --quick --threads 2 --seed 0 --json cells.json", {"cells.json": same_cells}),
    "bench": Verb("bench --quick --json bench.json --resume"),
}
#: The same model as "train lbfgs", by two processes that talk to it through sockets of this machine.
ON_A_CLUSTER = Verb(
    f"train pos.txt -o out.model --cluster local:2 --optimizer lbfgs --max-iter 12 {NOW}", MODEL, "--resume"
)
#: For signals alone: what they write is not compared, or there is nothing.
OTHERS = {
    "demo": Verb("demo --folder demo"),
    "warm": Verb("warm"),
    "reproduce all": Verb("reproduce all --quick --folder all"),
    "reproduce report": Verb("reproduce report"),
    "criteria": Verb("criteria"),
    "template": Verb("template ner"),
    "data list": Verb("data list"),
}


def make_inputs(folder: Path) -> None:
    """Make the files that the verbs read."""
    sentences = bundled_text("train", "pos").split("\n\n")
    (folder / "pos.txt").write_text("\n\n".join(sentences[:60]) + "\n\n", encoding="utf-8")
    (folder / "dev.txt").write_text("\n\n".join(sentences[60:90]) + "\n\n", encoding="utf-8")
    rng = random.Random(0)
    rows = [(rng.gauss(3.0 * (i % 3), 1.0), rng.gauss(0.0, 1.0), "abc"[i % 3]) for i in range(90)]
    (folder / "table.csv").write_text("a,b,y\n" + "".join(f"{a:.4f},{b:.4f},{y}\n" for a, b, y in rows))
    (folder / "points.csv").write_text("a,b\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b, _ in rows))
    for n in range(6):
        (folder / "parts").mkdir(exist_ok=True)
        (folder / "parts" / f"{n}.txt").write_text(
            "\n\n".join(sentences[10 * n : 10 * n + 10]) + "\n\n", encoding="utf-8"
        )
    named = "\n\n".join(f"# kind = {'ab'[n % 2]}\n{each}" for n, each in enumerate(sentences[:40]))
    (folder / "kinds.txt").write_text(named + "\n\n", encoding="utf-8")
    texts = [{"text": f"Anna Berg lives in Oslo {n}", "label": [[0, 9, "PER"]]} for n in range(30)]
    (folder / "spans.jsonl").write_text("".join(json.dumps(each) + "\n" for each in texts))
    lines = [line.split() for each in sentences[:40] for line in (*each.splitlines(), "")]
    rows = [f"{line[1]}\tw={line[0].replace(':', '')}" if line else "" for line in lines]
    (folder / "pos.crfsuite").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "patterns.txt").write_text("U0:%x[0,0]\nU1:%x[-1,0]\nB\n")
    (folder / "wapiti.txt").write_text("u:%x[0,0]\nu:%x[-1,0]\nb\n")
    code = "from loglinear.cli import main; main()"
    for line in (
        "corpus train --task trees -o all.mrg",
        "train pos.txt -o tagger.model --max-iter 5 -q",
        "train pos.txt -o hmm.model --criterion hmm -q",
        "train pos.txt -o other.model --l2 10 --max-iter 5 -q",
        "encode pos.txt -o ready --template words -q",
        "train pos.crfsuite -o attributes.model --max-iter 5 -q",
        "classify train table.csv --label y -o rows.model --max-iter 5 -q",
    ):
        subprocess.run([sys.executable, "-c", code, *line.split()], cwd=folder, check=True)
    trees = (folder / "all.mrg").read_text(encoding="utf-8").splitlines()[:60]
    (folder / "trees.mrg").write_text("\n".join(trees) + "\n", encoding="utf-8")
    words = ["the dog saw a cat", "a man walks", "she sleeps"]
    (folder / "sentences.txt").write_text("\n".join(words) + "\n")
    subprocess.run(
        [sys.executable, "-c", code, "parse", "train", "trees.mrg", "-o", "parser.model", "-q"], cwd=folder, check=True
    )


def leftovers(folder: Path) -> list[str]:
    """Temporary files in a folder and below it that no living process is writing, and which it would remove."""
    found = (path for path in folder.rglob("*.tmp") if not path.parent.name.endswith(".tmp"))
    return sorted(str(path.relative_to(folder)) for path in found)


def sweep(folder: Path) -> list[str]:
    """Remove them as the next writer would; what is left after that."""
    for name in leftovers(folder):
        remove_abandoned(folder / name)
    return leftovers(folder)
