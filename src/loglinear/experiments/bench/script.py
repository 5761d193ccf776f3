"""Other tools as a user's script calls them: plain Python around python-crfsuite or Vowpal Wabbit, nothing of ours.

    python script.py PLAN TOOL train TRAIN MODEL
    python script.py PLAN TOOL tag MODEL TEST TAGGED

PLAN is a JSON file with ``templates``, each a list of texts and of ``[row, column, number of a table]``; ``tables``,
from a value of the column to the text that stands for it (null: no attribute); ``labels``; and ``options`` of the tool.
Table -1 is the value itself.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

Sentence = list[tuple[str, ...]]
Table = Mapping[str, "str | None"]
Piece = str | tuple[int, int, Table | None]
Attributes = Callable[[Sentence], list[list[str]]]
FORBIDDEN = {ord(":"): "<colon>", ord("|"): "<bar>"}  # in the names of Vowpal Wabbit's features


def read_sentences(path: str | Path) -> list[Sentence]:
    """Sentences as lists of tuples."""
    text = Path(path).read_text(encoding="utf-8").strip()
    blocks = (block for block in text.split("\n\n") if block.strip())
    return [[tuple(line.split()) for line in block.strip("\n").split("\n")] for block in blocks]


def write_tagged(path: str | Path, sentences: Iterable[Sentence], labels: Iterable[list[str]]) -> None:
    """A column file with a label appended to each row."""
    with open(path, "w", encoding="utf-8") as out:
        for sentence, predicted in zip(sentences, labels, strict=True):
            rows = (" ".join((*row, label)) for row, label in zip(sentence, predicted, strict=True))
            out.write("\n".join(rows) + "\n\n")


def maker(templates: Iterable[Iterable[Piece]]) -> Attributes:
    """The function from a sentence to the attributes of each token, as strings."""
    plans = [list(pieces) for pieces in templates]

    def attributes(sentence: Sentence) -> list[list[str]]:
        n = len(sentence)
        tokens = []
        for t in range(n):
            token = []
            for pieces in plans:
                text = ""
                for piece in pieces:
                    if isinstance(piece, str):
                        text += piece
                        continue
                    row, column, table = piece
                    place = t + row
                    if place < 0:
                        text += f"_B{place}"
                    elif place >= n:
                        text += f"_B+{place - n + 1}"
                    elif table is None:
                        text += sentence[place][column]
                    elif (value := table[sentence[place][column]]) is None:
                        break
                    else:
                        text += value
                else:
                    token.append(text)
            tokens.append(token)
        return tokens

    return attributes


def train_crfsuite(plan: dict[str, Any], attributes: Attributes, train: str, model: str) -> None:
    """File to model; each sentence's features are handed over at once."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", params=plan["options"], verbose=False)
    for sentence in read_sentences(train):
        trainer.append(attributes(sentence), [row[-1] for row in sentence])
    trainer.train(model)


def tag_crfsuite(plan: dict[str, Any], attributes: Attributes, model: str, test: str, tagged: str) -> None:
    """Column file to tagged file."""
    import pycrfsuite

    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    sentences = read_sentences(test)
    write_tagged(tagged, sentences, (tagger.tag(attributes(sentence)) for sentence in sentences))


def train_vw(plan: dict[str, Any], attributes: Attributes, train: str, model: str) -> None:
    """File to model: learning to search with the task ``sequence``, from a file in Vowpal Wabbit's format."""
    import vowpalwabbit

    _write_vw(plan, attributes, train, f"{model}.txt")
    search = f"--search {len(plan['labels'])} --search_task sequence"
    vowpalwabbit.Workspace(f"{search} {plan['options']} -d {model}.txt -f {model} --quiet").finish()


def tag_vw(plan: dict[str, Any], attributes: Attributes, model: str, test: str, tagged: str) -> None:
    """Column file to tagged file."""
    import vowpalwabbit

    _write_vw(plan, attributes, test, f"{tagged}.txt")
    vowpalwabbit.Workspace(f"-t -i {model} -d {tagged}.txt -p {tagged}.numbers --quiet").finish()
    lines = Path(f"{tagged}.numbers").read_text(encoding="utf-8").splitlines()
    labels = [[plan["labels"][int(number) - 1] for number in line.split()] for line in lines if line.strip()]
    write_tagged(tagged, read_sentences(test), labels)


def _write_vw(plan: dict[str, Any], attributes: Attributes, source: str, target: str) -> None:
    """The sentences in Vowpal Wabbit's format: ``number | feature feature ...``; unknown labels are the first."""
    numbers = {label: number for number, label in enumerate(plan["labels"], 1)}
    with open(target, "w", encoding="utf-8") as out:
        for sentence in read_sentences(source):
            for row, token in zip(sentence, attributes(sentence), strict=True):
                out.write(f"{numbers.get(row[-1], 1)} | {' '.join(token).translate(FORBIDDEN)}\n")
            out.write("\n")


ACTIONS: dict[tuple[str, str], Callable[..., None]] = {
    ("crfsuite", "train"): train_crfsuite, ("crfsuite", "tag"): tag_crfsuite,
    ("vw", "train"): train_vw, ("vw", "tag"): tag_vw,
}  # fmt: skip


def main(plan_file: str, tool: str, verb: str, *files: str) -> None:
    """Do what the command line says."""
    plan = json.loads(Path(plan_file).read_text(encoding="utf-8"))
    tables = [*plan["tables"], None]

    def piece(written: Any) -> Piece:
        return written if isinstance(written, str) else (written[0], written[1], tables[written[2]])

    attributes = maker([[piece(each) for each in pieces] for pieces in plan["templates"]])
    ACTIONS[tool, verb](plan, attributes, *files)


if __name__ == "__main__":
    main(*sys.argv[1:])
