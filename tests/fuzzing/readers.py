"""Everything that reads a text: corpora, tables, trees, templates, gazetteers, costs, constraints, results and specs.

A :class:`Reader` is bytes to anything, with a few texts that it reads and the words of their language. Another one is
another line in :data:`READERS`; binary formats are welcome, too.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import loglinear
from fuzzing.files import scratch
from fuzzing.minimising import smaller
from fuzzing.targets import Target, WrongAnswer
from fuzzing.texts import changed
from loglinear import Constraints, Gazetteer, LoglinearError, TemplateSet
from loglinear.cli.common import read_constraints
from loglinear.criteria.costs import make_cost, make_head_cost
from loglinear.criteria.criterion import CRITERIA, cost_users, make_criterion
from loglinear.data import (
    Columns,
    read_attributes,
    read_columns,
    read_conllu,
    read_jsonl,
    read_text,
    write_attributes,
    write_columns,
    write_conllu,
    write_jsonl,
)
from loglinear.data.tables import read_table
from loglinear.data.trees.annotation import TreeTransform
from loglinear.data.trees.cleaning import read_treebank
from loglinear.data.trees.transforms import restore
from loglinear.data.trees.tree import Tree, read_sentences, read_trees, read_trees_and_sentences
from loglinear.experiments.store import Store, read_results
from loglinear.experiments.tuning.grid import read_grid
from loglinear.features.gram import KERNELS
from loglinear.features.segments import read_kinds
from loglinear.features.tables import check_text
from loglinear.features.templates.encoder import TemplateEncoder
from loglinear.generative.base import read_base
from loglinear.optimizers.optimizer import OPTIMIZERS
from loglinear.options import spec_name

LABELS = ["B-NP", "B-VP", "I-NP", "O"]


@dataclass(frozen=True)
class Reader:
    """Something that reads bytes.

    Parameters
    ----------
    read : callable
        Reads, and does with the result what is always done with it.
    seeds : sequence of bytes
        What it reads, to begin with.
    words : sequence of bytes
        Words of the language, to be put in anywhere.
    share : float
        How often it is drawn, beside 1.
    """

    read: Callable[[bytes], Any]
    seeds: Sequence[bytes]
    words: Sequence[bytes] = ()
    share: float = 1.0


# -- what is read, and what it is used for -------------------------------------------------------------------------


def _columns(content: bytes) -> None:
    corpus = read_columns(io.BytesIO(content))
    corpus.rows()
    again = io.BytesIO()
    write_columns(corpus, again)
    if not content.startswith(b"\x1f\x8b") and again.getvalue() != content:
        raise WrongAnswer(f"columns are not written as they were read: {again.getvalue()[:50]!r}")
    _same_rows(corpus, read_columns(io.BytesIO(again.getvalue())))


def _columns_otherwise(content: bytes) -> None:
    how = content[:1].ljust(1)[0]
    separator, comments = ("tab", "space", "auto")[how % 3], ("none", "auto", "%", "##")[how // 3 % 4]
    read_columns(io.BytesIO(content[1:]), separator=separator, comments=comments, docstart=how > 99).rows()


def _same_rows(one: Columns, other: Columns) -> None:
    if one.rows() != other.rows():
        raise WrongAnswer("rows differ when what was written is read again")


def _attributes(content: bytes) -> None:
    corpus = read_attributes(io.BytesIO(content))
    again = io.BytesIO()
    write_attributes(corpus, again)
    other = read_attributes(io.BytesIO(again.getvalue()))
    if corpus.labels() != other.labels() or not np.array_equal(corpus.offsets, other.offsets):
        raise WrongAnswer("attributes differ when what was written is read again")


def _jsonl(content: bytes) -> None:
    corpus = read_jsonl(io.BytesIO(content))
    again = io.BytesIO()
    write_jsonl(corpus, again)
    _same_rows(corpus, read_jsonl(io.BytesIO(again.getvalue())))


def _text(content: bytes) -> None:
    read_text(io.BytesIO(content)).rows()


def _table(format: str) -> Callable[[bytes], None]:
    def read(content: bytes) -> None:
        table = read_table(io.BytesIO(content), format)
        names = list(table.columns)
        for name in names[:3]:
            table.column(name)
        if names:
            _refused(lambda: table.numbers(names[:2]))
            table.without(names[:1])

    return read


def _trees(content: bytes) -> None:
    trees = read_trees(io.BytesIO(content))
    again = read_trees(io.BytesIO("\n".join(map(str, trees)).encode()))
    if list(map(str, trees)) != list(map(str, again)):
        raise WrongAnswer("trees differ when what was written is read again")


def _treebank(content: bytes) -> None:
    trees = read_treebank(io.BytesIO(content))
    for annotation in ("none", "rich", "parent"):
        transform = TreeTransform(annotation=annotation)
        binary = _refused(lambda transform=transform: transform.apply(trees))
        if isinstance(binary, list) and annotation == "none":
            back = [str(restore(tree)) for tree in binary if isinstance(tree, Tree)]
            if back != list(map(str, trees)):
                raise WrongAnswer("trees differ when a transformation is undone")


def _sentences(content: bytes) -> None:
    _refused(lambda: read_sentences(io.BytesIO(content)))
    _refused(lambda: read_sentences(io.BytesIO(content), brackets=True))
    read_trees_and_sentences(io.BytesIO(content))


def _conllu(content: bytes) -> None:
    _refused(lambda: read_conllu(io.BytesIO(content), trees=False))
    corpus = read_conllu(io.BytesIO(content), single_root=False)
    again = io.BytesIO()
    write_conllu(corpus, again)
    read_conllu(io.BytesIO(again.getvalue()), single_root=False)


def _refused(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except LoglinearError as error:
        return type(error).__name__


@cache
def _small_corpus() -> Columns:
    rows = b"The DT B-NP\ndog NN I-NP\n's POS B-NP\nran VBD B-VP\n. . O\n\nA DT B-NP\nWORD9 CD I-NP\n\n"
    return read_columns(io.BytesIO(rows))


def _template(content: bytes) -> None:
    text = _decoded(content)
    templates = TemplateSet.parse(text)
    again = TemplateSet.parse(str(templates))
    if str(again) != str(templates):
        raise WrongAnswer("a template set differs when its text is read again")
    _refused(lambda: TemplateEncoder(templates).fit(_small_corpus()))
    if zlib_turn(content) % 8 == 0:  # some are trained with
        tagger = loglinear.Tagger(template=templates, max_iter=1, threads=1, optimizer="lbfgs")
        _refused(lambda: tagger.fit(_small_corpus()))


def zlib_turn(content: bytes) -> int:
    """A number that follows from the content alone."""
    return sum(content[:64]) + len(content)


def _gazetteer(content: bytes) -> None:
    gazetteer = Gazetteer.read(scratch("places.txt", content))
    corpus = _small_corpus()
    column = corpus.columns[0]
    gazetteer.match(column.ids, column.values, corpus.offsets)
    gazetteer.match(column.ids, column.values, corpus.offsets, lowered=True)
    Gazetteer.from_dict(gazetteer.to_dict())


def _cost(content: bytes) -> None:
    path = scratch("cost.json", content)
    make_cost(str(path), LABELS, np.arange(1, 5)).table  # noqa: B018  # makes it


def _cost_name(content: bytes) -> None:
    text = _decoded(content)
    if not text.endswith(".json"):
        _refused(lambda: make_head_cost(text))
        make_cost(text, LABELS, np.arange(1, 5)).table  # noqa: B018  # makes it


def _constraints(content: bytes) -> None:
    rules = read_constraints(str(scratch("constraints.json", content)))
    assert isinstance(rules, dict)
    constraints = Constraints.from_dict(rules)
    constraints.masks(LABELS)
    Constraints.from_dict(constraints.to_dict())


def _results(verb: str) -> Callable[[bytes], None]:
    def read(content: bytes) -> None:
        path = scratch(f"{verb}.json", content)
        read_results(path, verb)
        Store(path, verb, {}, lambda key, cell: dict, resume=True)

    return read


def _grid(content: bytes) -> None:
    read_grid(_decoded(content).split(" "))


def _spec(read: Callable[[str], Any]) -> Callable[[bytes], None]:
    return lambda content: read(_decoded(content))


def _decoded(content: bytes) -> str:
    """Text as the command line gets it: bytes that are not UTF-8 are halves of characters."""
    return content.decode("utf-8", "surrogateescape")


def _criterion(text: str) -> None:
    make_criterion(text, _COST if spec_name(text) in cost_users() else None)


def _made(registry: Any) -> Callable[[str], Any]:
    return lambda text: registry.spec(text).make()


# -- seeds and words -----------------------------------------------------------------------------------------------

COLUMN_SEEDS = (
    b"The DT B-NP\ndog NN I-NP\nran VBD B-VP\n. . O\n\nIt PRP B-NP\nate VBD B-VP\n. . O\n\n",
    b"# id = 1\n# text = a b\na\tX\tO\nb\tY\tB-X\n\n-DOCSTART-\t-X-\tO\n\nc\tZ\tO\n",
    "größe NN O\r\n\u2019s POS O\r\n\r\n1,000 CD B-X\r\n".encode(),
    b"one\n\ntwo\nthree\n",
)
ATTRIBUTE_SEEDS = (
    b"B-NP\tw=The\tpos=DT\tlen:3\nI-NP\tw=dog\tnum:0.5\tw\\:x:2\n\nO\tw=.\n\n",
    b"O\ta\tb:1e3\tc\\\\d:-2\nX\n\nY\tq:0\n",
)
JSONL_SEEDS = (
    b'{"tokens": ["a", "b"], "labels": ["O", "B-X"]}\n{"tokens": ["c"], "labels": ["O"]}\n',
    b'{"tokens": ["a", "b"], "id": 7}\n\n{"tokens": ["c"], "meta": {"x": [1]}}\n',
    b'{"tokens": [["a", "X"], ["b", "Y"]], "tags": ["O", "B"], "labels": ["O", "B"]}\n',
)
JSON_WORDS = (
    b"null", b"true", b"[]", b"{}", b"NaN", b"Infinity",
    b'"\\ud800"', b'"\\u0000"', b"1e999", b"[[]]", b'""', b'"', b",",
    b":", b"[", b"]", b"{", b"}",
)  # fmt: skip
CSV_SEEDS = (
    b'age,town,remark,ill\n34,Oslo,"slept, well",no\n51,Bergen,"a ""cough""",yes\n,Oslo,none,no\n',
    b'a,b\n1,"two\nlines"\n-1.5,\n',
)
TREE_SEEDS = (
    b"(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))\n(S (NP-SBJ (-NONE- *)) (VP (VB go)))\n",
    b"( (S (NP (NP (DT a) (NN cat)) (PP (IN with) (NP (DT the) (NN hat)))) (VP (VBZ sits)) (. .)) )\n",
    b"(TOP (S|<NP-VP> (NP^S (N a)) (X=1 (V b))))\n",
)
CONLLU_SEEDS = (
    b"# sent_id = 1\n1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n2\tdog\tdog\tNOUN\tNN\tN=S\t3\tnsubj\t_\t_\n"
    b"3\truns\trun\tVERB\tVBZ\t_\t0\troot\t_\t_\n\n",
    b"1-2\tim\t_\t_\t_\t_\t_\t_\t_\t_\n1\tin\tin\tADP\t_\t_\t2\tcase\t_\t_\n"
    b"2\tdem\tder\tDET\t_\t_\t0\troot\t2:x\tA=B\n2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n",
)
TEMPLATE_SEEDS = (
    b"U00:%x[0,0]\nU01:%x[-1,0]/%x[0,1]\nB\n# note\n",
    b'U0:%X[0,0]\nU1:%Suffix[0,0,2]/%prefix[0,0,1]\nU2:%t[0,0,"^\\u"]\nU3:%m[0,0,"[aeiou]+"]\n'
    b"U4:%shape[0,0]\nU5:%x[@1,1]\n*6:%x[0,1]\nB\n",
    b"B1:%x[0,0]\nU7:%lower[-2,0]%brief[1,0]\n",
)
TEMPLATE_WORDS = (
    b"%x[", b"%X[", b"%t[0,0,\"", b"%m[0,0,\"", b"%shape[0,0]", b"%brief[0,0]", b"%suffix[0,0,3]", b"%Prefix[",
    b"%lower[0,0]", b"%length[0,0]", b"\\b", b"(?=a)", b"(?P<n>a)", b"\\1",
    b"%gazetteer[0,0]", b"@-1", b"-1000", b"1001", b"]", b"\"]", b"U", b"B", b"*", b"%", b"%%", b"(a+)+$", b"[^a]",
    b"(a|b)*", b"{1000}", b"a{1,99999}", b"\\u", b"\\d", b".*" * 50, b"(" * 99, b"\\p", b"|", b"^", b"$", b"?",
    b"%inside",
)  # fmt: skip
TREE_WORDS = (
    b"(", b")", b"((", b"))", b"()", b"(NP ", b"(-NONE- *)", b"-LRB-", b"*", b"|", b"<", b">", b"^", b"=", b"-", b"@",
    b"(S (S (S ", b"#",
)  # fmt: skip
RESULT_SEEDS = {
    verb: json.dumps({
        "kind": f"loglinear {verb}", "format": 2, "about": {"version": loglinear.__version__, "seed": 1, "machine": {}},
        "cells": {"tuned cll": {"dev": 0.5, "seconds": 1.5, "values": [1, 2.5], "options": {"l2": 0.1}}},
    }).encode()
    for verb in ("tune", "compare", "reproduce", "bench")
}  # fmt: skip


def _specs(registry: Any, extra: Sequence[bytes] = ()) -> tuple[list[bytes], list[bytes]]:
    """Specs of every part of a registry with options, and the words in them."""
    from loglinear.options import options_of

    seeds, words = list[bytes](), [b":", b"=", b",", b"yes", b"no", *extra]
    for name, part in registry.all().items():
        options = options_of(part)
        given = [f"{key}={each.suggested}" for key, each in options.items() if not each.is_switch]
        seeds += [name.encode(), f"{name}:{','.join(given)}".encode()]
        words += [key.encode() for key in options]
    return seeds, words


_CRITERION_SEEDS, _CRITERION_WORDS = _specs(CRITERIA)
_OPTIMIZER_SEEDS, _OPTIMIZER_WORDS = _specs(OPTIMIZERS)
_KERNEL_SEEDS, _KERNEL_WORDS = _specs(KERNELS)
_COST = make_cost("hamming", LABELS, np.arange(1, 5))
_JSON_COST = (b'{"B-NP": {"O": 3, "I-NP": 0.5}, "O": {"B-VP": 2}}', b'{"O": {"O": 0}}')
_CONSTRAINTS = (
    b'{"scheme": "bio", "forbidden": [["I-NP", "B-VP"]], "ends": ["O"]}',
    b'{"allowed": [["O", "B-NP"], ["B-NP", "I-NP"]], "starts": ["O", "B-NP"]}',
)

READERS: dict[str, Reader] = {
    "columns": Reader(_columns, COLUMN_SEEDS, (b"-DOCSTART-", b"# ", b"#", b" = "), 2),
    "columns-otherwise": Reader(_columns_otherwise, [b"\x00" + seed for seed in COLUMN_SEEDS], (b"%", b"##", b"\t")),
    "attributes": Reader(
        _attributes, ATTRIBUTE_SEEDS, (b":", b"\\:", b"\\\\", b"\\", b"__BOS__", b"=", b":1e16", b":nan"), 2
    ),
    "jsonl": Reader(_jsonl, JSONL_SEEDS, (*JSON_WORDS, b'"tokens"', b'"labels"', b'"text"')),
    "text": Reader(_text, (b"One sentence, here. Another one!\n\n\xe2\x80\x9cQuoted\xe2\x80\x9d (so) it's\n",), ()),
    "table-csv": Reader(_table("csv"), CSV_SEEDS, (b",", b'"', b'""', b'"\n')),
    "table-tsv": Reader(_table("tsv"), [seed.replace(b",", b"\t") for seed in CSV_SEEDS], (b"\t", b'"')),
    "table-jsonl": Reader(_table("jsonl"), (b'{"a": 1, "b": "x"}\n{"a": null, "b": "y"}\n',), JSON_WORDS),
    "trees": Reader(_trees, TREE_SEEDS, TREE_WORDS),
    "treebank": Reader(_treebank, TREE_SEEDS, TREE_WORDS),
    "sentences": Reader(_sentences, (*TREE_SEEDS, b"the (dog ran) home\nit -LRB- is\n"), TREE_WORDS),
    "conllu": Reader(
        _conllu, CONLLU_SEEDS, (b"\t_", b"1-2", b"0-0", b"2.1", b"0.1", b"# ", b"root", b"_", b"1", b"2", b"3"), 2
    ),
    "template": Reader(_template, TEMPLATE_SEEDS, TEMPLATE_WORDS, 2),
    "gazetteer": Reader(
        _gazetteer, (b"# places\nNew York\nOslo\nSt. John 's Wood\n", b"the dog\nThe\n"), (b"#", b"dog", b"The")
    ),
    "cost": Reader(_cost, _JSON_COST, (*JSON_WORDS, *(f'"{label}"'.encode() for label in LABELS))),
    "cost-name": Reader(
        _cost_name, (b"hamming:2", b"recall:3", b"precision:0.5", b"balanced"), (b"hamming", b"recall", b":"), 0.3
    ),
    "constraints": Reader(
        _constraints, _CONSTRAINTS, (*JSON_WORDS, b'"scheme"', b'"iob"', b'"bioes"', b'"allowed"', b'"O"')
    ),
    **{
        f"results-{verb}": Reader(_results(verb), (seed,), (*JSON_WORDS, b'"cells"', b"10" * 200), 0.3)
        for verb, seed in RESULT_SEEDS.items()
    },
    "grid": Reader(
        _grid,
        (b"l2=0.1,1 criterion:C=1,2 optimizer=lbfgs;sgd:step=0.1", b"template=ner,words sub_labels=1,2"),
        (b"=", b";", b"none", b"order"),
        0.3,
    ),
    "criterion": Reader(_spec(_criterion), _CRITERION_SEEDS, _CRITERION_WORDS),
    "optimizer": Reader(_spec(_made(OPTIMIZERS)), _OPTIMIZER_SEEDS, _OPTIMIZER_WORDS),
    "kernel": Reader(_spec(_made(KERNELS)), _KERNEL_SEEDS, _KERNEL_WORDS, 0.3),
    "base": Reader(
        _spec(read_base),
        (b"hmm:samples=1000,smoothing=0.5", b"locally-uniform", b"empirical"),
        (b"samples", b"smoothing"),
        0.3,
    ),
    "text-spec": Reader(
        _spec(check_text), (b"words:ngrams=2,presence", b"characters:ngrams=3"), (b"ngrams", b"presence"), 0.3
    ),
    "segment-features": Reader(
        _spec(read_kinds), (b"string+shape+first", b"length"), (b"+", b"gazetteer", b"prefix"), 0.2
    ),
}


@cache
def _names() -> tuple[list[str], list[float]]:
    return list(READERS), [reader.share for reader in READERS.values()]


def drawn(rng: random.Random) -> tuple[str, bytes]:
    """A reader's name, and a text for it."""
    names, shares = _names()
    name = rng.choices(names, shares)[0]
    reader = READERS[name]
    return name, changed(rng.choice(reader.seeds), reader.words, reader.seeds, rng)


def run(name: str, content: bytes) -> str:
    """Read the text."""
    READERS[name].read(content)
    return "used"


def prepare() -> None:
    """Read every seed, so that kernels are compiled."""
    for reader in READERS.values():
        for seed in reader.seeds:
            _refused(lambda reader=reader, seed=seed: reader.read(seed))


TARGET = Target("readers", drawn, run, prepare, smaller)
