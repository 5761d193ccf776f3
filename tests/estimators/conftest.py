"""A small tagging problem with words, tags and chunk labels."""

import numpy as np
import pytest


def make_sentences(n, seed=0):
    """Sentences of (word, tag) rows with BIO labels that follow from them, and a little noise."""
    rng = np.random.default_rng(seed)
    nouns = [f"noun{i}" for i in range(30)]
    verbs = [f"verb{i}" for i in range(15)]
    X, y = [], []
    for _ in range(n):
        rows, labels = [], []
        for _ in range(rng.integers(1, 4)):
            if rng.random() < 0.6:
                rows.append(("the", "D"))
                labels.append("B-NP")
            inside = len(rows) > 0 and labels[-1] == "B-NP"
            rows.append((nouns[rng.zipf(1.5) % 30], "N"))
            labels.append("I-NP" if inside else "B-NP")
            if rng.random() < 0.7:
                rows.append((verbs[rng.zipf(1.5) % 15], "V" if rng.random() < 0.9 else "N"))
                labels.append("B-VP")
            if rng.random() < 0.4:
                rows.append((",", "P"))
                labels.append("O")
        X.append(rows)
        y.append(labels)
    return X, y


@pytest.fixture(scope="session")
def data():
    return make_sentences(60)


@pytest.fixture(scope="session")
def more_data():
    return make_sentences(40, seed=1)
