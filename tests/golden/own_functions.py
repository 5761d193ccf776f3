"""What model files do not hold: functions and distributions of the user's own, which loading wants again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

MEANINGS = {"bank": ["money", "river"], "spring": ["metal", "season", "water"]}


class WordsByLabel:
    """A distribution for M-estimation: words from a list by label; labels stay as they are three times in four."""

    words = {"N": ["time", "flies", "arrow"], "V": ["flies", "like", "time"]}  # noqa: RUF012  # never changed

    def _emission(self, label: str, word: str) -> float:
        return 0.33 if word in self.words[label] else 0.00001

    def log_prob(self, x: Sequence[tuple[str]], y: Sequence[str]) -> float:
        p = float(np.log(0.5) * len(x))
        for t, ((word,), label) in enumerate(zip(x, y, strict=True)):
            step = 0.5 if t == 0 else 0.75 if y[t - 1] == label else 0.25
            p += float(np.log(step) + np.log(self._emission(label, word)))
        return p

    def sample(self, n: int, rng: np.random.Generator) -> list[Any]:
        drawn = []
        for _ in range(n):
            y = [str(rng.choice(["N", "V"]))]
            while rng.random() < 0.5:
                y.append(y[-1] if rng.random() < 0.75 else "NV"[y[-1] == "N"])
            x = [(str(rng.choice(self.words[label])),) for label in y]
            drawn.append((x, y))
        return drawn


class ScoredWordsByLabel(WordsByLabel):
    """The same, part by part, so that sums over labellings are exact."""

    def scores(self, x: Sequence[tuple[str]], labels: Sequence[str]) -> dict[str, Any]:
        emission = [[0.5 * self._emission(label, word) for label in labels] for (word,) in x]
        transition = [[0.75 if a == b else 0.25 for b in labels] for a in labels]
        return {
            "emission": np.log(emission),
            "transition": np.log(transition),
            "start": np.log(np.full(len(labels), 0.5)),
        }


class EvenBase:
    """A base for classifiers: all labels alike, every column expected once with each."""

    def __init__(self, n_columns: int, n_labels: int) -> None:
        self.shape = n_columns, n_labels
        self.log_prior = np.log(np.full(n_labels, 1.0 / n_labels))

    def scores(self, X: Any) -> Any:
        return np.tile(self.log_prior, (X.shape[0], 1))

    def expected(self) -> Any:
        return np.full(self.shape, 1.0 / self.shape[1])


def shape_and_end(word: str) -> dict[str, Any]:
    """Features of a word: its last letters, whether it has a capital, and its length."""
    return {"end": word[-2:], "capital": word[:1].isupper(), "length": len(word) / 10}


def meanings(x: Sequence[str]) -> list[str]:
    """Candidates: what a word may mean."""
    return MEANINGS[x[0]]


def clues(x: Sequence[str], sense: str) -> list[str]:
    """Features of a word in its sentence together with a meaning."""
    return [f"{sense} {word}" for word in x[1].split()]


def length_of_span(words: Sequence[str], i: int, j: int) -> list[str]:
    """An attribute of the words i to j - 1 for parsers."""
    return [f"length={min(j - i, 3)}"]


LOADED_WITH: dict[str, dict[str, Any]] = {
    "tagger-own-base": {"base": WordsByLabel()},
    "tagger-own-base-with-scores": {"base": ScoredWordsByLabel()},
    "classifier-function": {"features": shape_and_end},
    "classifier-candidates": {"feature_map": clues, "candidates": meanings},
    "classifier-own-base": {"base": EvenBase(6, 2)},
    "parser-span-features": {"span_features": length_of_span},
}  #: keyword arguments of ``load``, by the model's name
