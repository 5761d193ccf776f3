"""Small data for the golden files: sentences of the bundled corpus, and rows that are written out or drawn here.

No other corpus is used, so that anyone may make the files again.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO

import numpy as np
import numpy.typing as npt
from command_line import output_of

from loglinear import read_columns, read_treebank
from loglinear.data import Dependencies, read_conllu

Row = tuple[str, ...]
Sequences = tuple[list[list[Row]], list[list[str]]]


@cache
def bundled(task: str, split: str = "train") -> str:
    """A part of the bundled corpus as ``loglinear corpus`` prints it; ``all`` is train, dev and test."""
    parts = ("train", "dev", "test") if split == "all" else (split,)
    return "".join(output_of("corpus", part, "--task", task) for part in parts)


def sequences(
    task: str, n: int | None = None, longest: int = 100, split: str = "train", labels: frozenset[str] | None = None
) -> Sequences:
    """The first ``n`` (or all) sentences of at most ``longest`` tokens, with these ``labels`` alone if any are given.

    X has the columns of each token without the label, y the labels.
    """
    rows = read_columns(BytesIO(bundled(task, split).encode())).rows()
    short = [s for s in rows if len(s) <= longest and (labels is None or labels.issuperset(row[-1] for row in s))][:n]
    return [[row[:-1] for row in sentence] for sentence in short], [[row[-1] for row in sentence] for sentence in short]


def words_of(X: list[list[Row]]) -> list[list[str]]:
    """Sentences of words only."""
    return [[row[0] for row in sentence] for sentence in X]


def trees(n: int | None = None, longest: int = 100, split: str = "train") -> list[str]:
    """The first ``n`` bracketed trees of at most ``longest`` words."""
    found = read_treebank(BytesIO(bundled("trees", split).encode()))
    return [str(tree) for tree in found if len(tree.leaves()) <= longest][:n]


def conllu(n: int | None = None, longest: int = 100, split: str = "train") -> str:
    """The first ``n`` sentences of at most ``longest`` tokens as CoNLL-U."""
    blocks = bundled("conllu", split).strip().split("\n\n")
    short = [block for block in blocks if block.count("\n") < longest]
    return "".join(f"{block}\n\n" for block in short[:n])


def dependencies(n: int | None = None, longest: int = 100, split: str = "train") -> Dependencies:
    """The same, read."""
    return read_conllu(BytesIO(conllu(n, longest, split).encode()))


def clouds(n: int, seed: int, columns: int = 2) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Rows [n, columns] around three centres, with two decimals, and the number of each row's centre."""
    rng = np.random.default_rng(seed)
    centre = np.arange(n) % 3
    rows = rng.normal(size=(n, columns)) + 3.0 * np.eye(3, columns)[centre]
    return np.round(rows, 2), centre


def counts(n: int, seed: int, columns: int = 6) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows of counts [n, columns] of two kinds, and the kind of each."""
    rng = np.random.default_rng(seed)
    kind = np.arange(n) % 2
    rates = np.stack([np.linspace(3.0, 0.3, columns), np.linspace(0.3, 3.0, columns)])
    return rng.poisson(rates[kind]), kind


PHRASES = frozenset(["B-NP", "I-NP", "B-VP", "I-VP", "O"])  #: labels of simple sentences
TREEBANK = [
    "(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))",
    "(ROOT (S (NP (PRP she)) (VP (VBZ sees) (NP (DT the) (NN dog))) (. .)))",
    "(ROOT (S (NP (NP (DT a) (NN cat)) (PP (IN with) (NP (DT the) (NN hat)))) (VP (VBZ sleeps)) (. .)))",
    "(ROOT (S (NP (PRP she)) (VP (VBZ sees) (NP (DT a) (NN cat)) (PP (IN with) (NP (DT a) (NN hat)))) (. .)))",
    "(ROOT (S (VP (VBZ sleeps)) (. .)))",
    "(ROOT (S (NP (NN cat)) (VP (VBZ sees) (S (VP (VBZ sleeps)))) (. .)))",
    "(ROOT (FRAG (NP (DT the) (NN hat)) (. .)))",
]
REVIEWS = [
    "a good film", "good , very good", "a bad film", "bad and dull", "dull film", "a fine and moving story",
    "what a waste of time", "fine acting , dull plot", "moving and good", "a waste", "very fine", "not good at all",
]  # fmt: skip
STARS = ["+", "+", "-", "-", "-", "+", "-", "0", "+", "-", "+", "0"]
TABLE = """\
age,town,remark,ill
34,Oslo,slept well and ate a lot,no
51,Bergen,has had a cough for three weeks,yes
,Oslo,no complaints at all this year,no
29,Bodø,"a cough, and fever at night",yes
62,Bergen,the knee hurts when it rains,no
45,Oslo,fever and a very bad cough,yes
38,Bodø,came for a certificate and left,no
57,Oslo,cannot sleep because of the cough,yes
"""
