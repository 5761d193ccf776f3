"""Verbs with random options on tiny files: the flags that a verb has, with values of their type, choices and bounds.

A case is the command line as JSON. The status must be that of success, of an experiment without a result, or of a
user's mistake, and there must be a message unless all went well.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import typer

from fuzzing.files import command, folder
from fuzzing.minimising import needed
from fuzzing.targets import Target, WrongAnswer
from fuzzing.texts import NUMBERS
from loglinear import LoglinearError, Tagger, read_columns
from loglinear.cli import THEIR_OPTIONS, VERBS, app
from loglinear.criteria.criterion import CRITERIA
from loglinear.optimizers.optimizer import OPTIMIZERS
from loglinear.options import declared, options_of

LEFT_OUT = ("bench", "reproduce", "data get", "warm", "demo")  # minutes long, the network, the cache
FORBIDDEN = ("--jobs", "--help", "-h", "--version")
COLUMNS = (
    "the D B-NP\ndog N I-NP\nbarks V B-VP\n\nAnna N B-NP\nsees V B-VP\n. P O\n\na D B-NP\ncat N I-NP\nsleeps V B-VP\n\n"
)
FILES = {
    "train.txt": COLUMNS,
    "dev.txt": COLUMNS[:60].rpartition("\n")[0] + "\n\n",
    "a.crfsuite": "B\tw=the\tn:2\nI\tw=dog\n\nO\tw=a\n\nB\tw=the\n\n",
    "a.jsonl": '{"tokens": ["the", "dog"], "labels": ["B", "I"]}\n{"tokens": ["a"], "labels": ["O"]}\n',
    "plain.txt": "the dog barks\nAnna sees .\n",
    "table.csv": "x,z,town,text,kind\n1,2,Oslo,good film,a\n2,1,Bergen,bad film,b\n3,0,Oslo,good,a\n"
    "5,1,Oslo,bad bad,b\n0,1,Bergen,so good,a\n",
    "numbers.csv": "x,z\n1,2\n2,1.5\n8,9\n9,8.5\n1.5,2.5\n9.5,9\n",
    "trees.mrg": "(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ barks))))\n"
    "(ROOT (S (NP (NNP Anna)) (VP (VBZ sees) (NP (DT a) (NN cat)))))\n",
    "trees.conllu": "1\tthe\t_\tDET\tDT\t_\t2\tdet\t_\t_\n"
    "2\tdog\t_\tNOUN\tNN\t_\t3\tsubj\t_\t_\n3\tbarks\t_\tVERB\tVB\t_\t0\troot\t_\t_\n\n",
    "own.template": "U0:%x[0,0]\nU1:%x[-1,1]\nB\n",
    "names.txt": "Anna\nthe dog\n",
    "cost.json": '{"B-NP": {"O": 3}}',
    "rules.json": '{"scheme": "bio"}',
    "parts/1.txt": COLUMNS,
    "parts/2.txt": COLUMNS[: COLUMNS.index("a D")],
    "kinds.txt": "# kind = a\n" + COLUMNS.strip().replace("\n\n", "\n\n# kind = b\n") + "\n\n",
    "patterns.txt": "U0:%x[0,0]\nB\n",
    "wapiti.txt": "u:%x[0,0]\nb\n",
    "empty.txt": "",
    "broken.txt": "a b\nc\n",
}  # fmt: skip
INPUTS = [
    *FILES,
    "chain.model",
    "hmm.model",
    "trees.model",
    "arcs.model",
    "kinds.model",
    "groups.model",
    "sequences.model",
    "chain.crfsuite",
    "encoded",
    "parts",
    "parts/*",
    "missing.txt",
    "-",
]
OUTPUTS = ["out.model", "out.txt", "out.svg", "out.json", "out.csv", "out", "encoded", "parts", "no/such.txt", "-"]
WORDS = [
    "auto", "columns", "jsonl", "crfsuite", "chunking", "ner", "words", "bio", "bioes", "hmm", "0", "kind", "x", "text",
    "f1", "none", "é", "", "--", "l2=0.1,1", "order=1;2", "x=numeric",
]  # fmt: skip
#: The first words of each verb: what a sensible call begins with.
STARTS: dict[str, list[list[str]]] = {
    "train": [
        ["train.txt", "-o", "out.model"],
        ["a.crfsuite", "-o", "out.model"],
        ["a.jsonl", "-o", "out.model"],
        ["encoded", "-o", "out.model"],
        ["parts/*", "-o", "out.model"],
    ],
    "tag": [
        ["chain.model", "train.txt"],
        ["chain.model", "plain.txt"],
        ["chain.crfsuite", "train.txt"],
        ["chain.model", "parts", "-o", "out"],
        ["chain.model", "parts/*", "-o", "parts", "--existing", "overwrite"],
    ],
    "encode": [["train.txt", "-o", "out"], ["parts", "-o", "out"], ["parts/*", "dev.txt", "-o", "encoded"]],
    "update": [["chain.model", "dev.txt", "-o", "out.model"], ["chain.model", "parts/1.txt", "-o", "out.model"]],
    "convert": [["chain.model", "-o", "out.model", "--to", "crfsuite"], ["chain.crfsuite", "-o", "out.model"]],
    "data convert": [["train.txt", "-o", "out.txt"], ["trees.conllu", "-o", "out.txt", "--to", "columns"]],
    "eval": [["train.txt", "--model", "chain.model"], ["train.txt", "--pred", "train.txt"]],
    "inspect": [["chain.model"], ["trees.model"], ["arcs.model"], ["kinds.model"], ["groups.model"]],
    "combine": [["chain.model", "chain.model", "-o", "out.model", "--dev", "dev.txt"]],
    "prune": [["chain.model", "--share", "0.5", "-o", "out.model"]],
    "path": [["train.txt", "--folds", "2"]],
    "sample": [["hmm.model"], ["trees.model"], ["sequences.model"]],
    "cluster": [["numbers.csv", "-k", "2"], ["numbers.csv", "--predict", "groups.model"]],
    "tune": [["train.txt", "--grid", "l2=0.1,1", "--dev", "dev.txt", "-o", "out.model"]],
    "compare": [["train.txt", "--dev", "dev.txt", "--test", "dev.txt", "--criteria", "cll,memm"]],
    "parse train": [["trees.mrg", "-o", "out.model"], ["trees.conllu", "-o", "out.model"]],
    "parse run": [["trees.model", "plain.txt"], ["arcs.model", "trees.conllu"]],
    "parse eval": [["trees.mrg", "--model", "trees.model"]],
    "parse draw": [["trees.mrg"], ["trees.mrg", "--svg", "out.svg"]],
    "classify train": [["table.csv", "--label", "kind", "-o", "out.model"]],
    "classify train-sequences": [["kinds.txt", "--label", "kind", "-o", "out.model"]],
    "classify run": [["kinds.model", "table.csv"], ["sequences.model", "kinds.txt"]],
    "classify eval": [["kinds.model", "table.csv"], ["sequences.model", "kinds.txt"]],
    "crfpp learn": [["patterns.txt", "train.txt", "out.model"]],
    "crfpp test": [["-m", "chain.model", "train.txt"]],
    "wapiti train": [["-p", "wapiti.txt", "train.txt", "out.model"]],
    "wapiti label": [["-m", "chain.model", "train.txt", "out.txt"]],
    "wapiti dump": [["chain.model", "out.txt"]],
    "crfsuite learn": [["-m", "out.model", "a.crfsuite"]],
    "crfsuite tag": [["-m", "chain.crfsuite", "a.crfsuite"]],
    "crfsuite dump": [["chain.crfsuite"]],
}
FEW = ["--max-iter", "2"]  # so that a case takes milliseconds
#: Flags of other tools' commands, which are theirs and no parameters of ours.
THEIRS = {"crfpp": "CRF++", "wapiti": "Wapiti", "crfsuite": "CRFsuite"}


@cache
def commands() -> dict[str, Any]:
    """The commands by name, as ``parse train``."""
    found: dict[str, Any] = {}

    def walk(name: str, group: Any) -> None:
        if name in LEFT_OUT:
            return
        if hasattr(group, "commands"):
            for word, inner in group.commands.items():
                walk(f"{name} {word}".strip(), inner)
        else:
            found[name] = group

    root: Any = typer.main.get_command(app)
    for verb in VERBS:
        walk(verb, root.commands[verb])
    return found


def drawn(rng: random.Random) -> tuple[str, bytes]:
    """A command line: the first word of its verb, and JSON."""
    name = rng.choice(sorted(commands()))
    verb = commands()[name]
    words = list(rng.choice(STARTS.get(name, [[]])))
    flags = [each for each in verb.params if each.opts and each.opts[0].startswith("-")]
    flags = [each for each in flags if not set(each.opts) & set(FORBIDDEN)]
    arguments = [each for each in verb.params if each not in flags and not (each.opts and each.opts[0].startswith("-"))]
    if not words or rng.random() < 0.1:
        words = [rng.choice(INPUTS) for _ in arguments]
    for each in rng.sample(flags, min(len(flags), rng.choice([0, 1, 1, 2, 3, 5]))):
        flag = rng.choice([*each.opts, *each.secondary_opts])
        words += [flag] if getattr(each, "is_flag", False) else [flag, _value(each, rng)]
    if tool := THEIRS.get(name.partition(" ")[0]):
        for flag in rng.sample(THEIR_OPTIONS[tool], rng.choice([0, 1, 1, 2])):
            words += rng.choice(
                [[], [flag], [flag, rng.choice(NUMBERS).decode()], [flag, rng.choice(INPUTS + OUTPUTS)]]
            )
    if any("--max-iter" in each.opts for each in flags) and "--max-iter" not in words:
        words += FEW
    if rng.random() < 0.05 and words:
        words[rng.randrange(len(words))] = rng.choice([*WORDS, *INPUTS])
    return name.partition(" ")[0], json.dumps([*name.split(), *words]).encode()


def _value(flag: Any, rng: random.Random) -> str:
    """A value for a flag: mostly one of its type, within its bounds."""
    name, kind = flag.opts[-1], _kind(flag)
    if rng.random() < 0.06:
        return rng.choice(NUMBERS).decode()
    if choices := _choices().get(flag.name):
        return rng.choice([str(each) for each in choices])
    if name in ("--criterion", "--criteria"):
        return _spec(CRITERIA, rng)
    if name == "--optimizer":
        return _spec(OPTIMIZERS, rng)
    if name == "--cost":
        return rng.choice(["hamming:2", "recall:3", "precision:0.5", "balanced", "cost.json"])
    if "int" in kind:
        return str(rng.choice([0, 1, 2, 3, 5, 10, -1, rng.randrange(100), 10**6, 10**12]))
    if "float" in kind:
        return str(rng.choice([0.0, 0.1, 0.5, 1.0, 2.5, 1e-5, 1e-300, 1e9, 1e300, -0.5]))
    if any(part in name for part in ("output", "-o", "svg", "json", "csv", "html", "markdown", "plot")):
        return rng.choice(OUTPUTS)
    return rng.choice([*WORDS, *INPUTS])


def _kind(flag: Any) -> str:
    """The type of a flag's value, in a word."""
    annotation = flag.type_descriptor.annotation
    return getattr(annotation, "__name__", str(annotation))


@cache
def _choices() -> dict[str, tuple[Any, ...]]:
    """The legal values of options that have a list of them, by name."""
    from loglinear.estimators import options as declarations

    classes = [
        each for each in vars(declarations).values() if isinstance(each, type) and dataclasses.is_dataclass(each)
    ]
    found = [item for each in classes for item in declared(each).items()]
    return {name: (*each.choices, *each.words) for name, each in found if each.choices and not each.is_switch}


def _spec(registry: Any, rng: random.Random) -> str:
    """A part of a registry, with some options of its own."""
    name = rng.choice(list(registry))
    given = []
    for key, each in options_of(registry[name]).items():
        if rng.random() < 0.3:
            values = [each.suggested, 1, 0.5, 2, *each.choices]
            given.append(key if each.is_switch else f"{key}={rng.choice(values)}")
    return f"{name}:{','.join(given)}" if given else name


@cache
def _originals() -> Path:
    """The folder of the inputs, with models of each kind."""
    place = folder() / "originals"
    place.mkdir()
    for name, text in FILES.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text, encoding="utf-8")
    few: dict[str, Any] = {"template": "chunking", "max_iter": 3, "threads": 1}
    Tagger(**few).fit(read_columns(io.BytesIO(COLUMNS.encode()))).save(place / "chain.model")
    with _inside(place):
        for words in (
            ["train", "train.txt", "--criterion", "hmm", "-o", "hmm.model"],
            ["parse", "train", "trees.mrg", "-o", "trees.model"],
            ["parse", "train", "trees.conllu", "-o", "arcs.model", "--max-iter", "2"],
            ["classify", "train", "table.csv", "--label", "kind", "-o", "kinds.model"],
            ["classify", "train-sequences", "kinds.txt", "--label", "kind", "-o", "sequences.model"],
            ["cluster", "numbers.csv", "-k", "2", "-o", "groups.model"],
            ["convert", "chain.model", "-o", "chain.crfsuite", "--to", "crfsuite"],
            ["encode", "train.txt", "-o", "encoded"],
        ):
            status, _, message = command(*words)
            assert status == 0, message
    return place


@contextmanager
def _inside(place: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)


def run(verb: str, content: bytes) -> str:
    """Run the command in a folder that holds the inputs and nothing else."""
    words = json.loads(content)
    place = folder() / "here"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(_originals(), place)
    with _inside(place):
        before = _contents(place)
        status, _, message = command(*words, "--threads", "1") if _has_threads(words) else command(*words)
        if status not in (0, 1, 2):
            raise WrongAnswer(f"status {status}: {message[-200:]}")
        if "Traceback" in message or (status and not message.strip()):
            raise WrongAnswer(f"status {status} without a sentence: {message[-300:]}")
        if status == 1 and "out of memory" in message:
            raise WrongAnswer(f"out of memory: {message[-200:]}")
        after = _contents(place)
        for name, data in before.items():
            if after.get(name) != data and _times_named(name, words) != 1:  # once, as an output, is what was asked
                raise WrongAnswer(f"an input was overwritten: {name}")
        if left := [name for name in after if name.endswith(".tmp") or ".tmp/" in name]:
            raise WrongAnswer(f"temporary files are left: {left}")
    if status:
        raise LoglinearError(message)
    return "used"


def _contents(place: Path) -> dict[str, bytes]:
    """The files in a folder and below it."""
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def _times_named(name: str, words: list[str]) -> int:
    """How many words of a command line name a file: itself, its folder, or a glob."""
    return sum(fnmatch(name, word) or name.startswith(f"{word}/") for word in words)


def _has_threads(words: list[str]) -> bool:
    return bool(words) and words[0] in ("train", "tag", "eval", "path") and "--threads" not in words


def prepare() -> None:
    """Make the models, and run every verb once."""
    _originals()
    for name, starts in STARTS.items():
        for words in starts:
            _tolerant(json.dumps([*name.split(), *words]).encode())


def _tolerant(content: bytes) -> None:
    with suppress(LoglinearError):
        run("", content)


def shorter(verb: str, content: bytes, is_fault: Callable[[bytes], bool]) -> bytes:
    """The command line without words that the fault does without."""
    words = json.loads(content)
    return json.dumps(needed(words, lambda some: is_fault(json.dumps(list(some)).encode()))).encode()


TARGET = Target("verbs", drawn, run, prepare, shorter)
