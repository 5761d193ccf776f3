"""Distributions as users may write them: tiny hidden Markov models in plain Python."""

import numpy as np

LABELS = ["B-NP", "B-VP", "I-NP", "O"]
WORDS = ["the", ",", *(f"noun{i}" for i in range(30)), *(f"verb{i}" for i in range(15)), "x1", "x2", "x3", "x4"]
TAGS = {"B-NP": "DN", "B-VP": "VN", "I-NP": "N", "O": "P"}


class Plain:
    """q0(x, y): I-NP only inside, a tag that the label likes, and any word."""

    def __init__(self, stop=0.2):
        self.stop = stop

    def step(self, before, label):
        """Probability of a label after another (None: at the start), given that there is one."""
        if label == "I-NP":
            return 0.4 if before in ("B-NP", "I-NP") else 0.0
        return 0.2 if before in ("B-NP", "I-NP") else 1 / 3

    def emission(self, label, row):
        liked = TAGS[label]
        tag = 0.94 / len(liked) if row[1] in liked else 0.06 / (4 - len(liked))
        return tag / len(WORDS)

    def log_prob(self, x, y):
        p, before = 0.0, None
        for row, label in zip(x, y, strict=True):
            if before is not None:
                p += np.log(1 - self.stop)
            with np.errstate(divide="ignore"):
                p += np.log(self.step(before, label)) + np.log(self.emission(label, row))
            before = label
        return p + np.log(self.stop)

    def sample(self, n, rng):
        drawn = []
        for _ in range(n):
            x, y, before = [], [], None
            while before is None or rng.random() >= self.stop:
                before = str(rng.choice(LABELS, p=[self.step(before, label) for label in LABELS]))
                tags = np.array([self.emission(before, ("the", tag)) for tag in "DNVP"])
                tag = "DNVP"[rng.choice(4, p=tags / tags.sum())]
                x.append((WORDS[rng.integers(len(WORDS))], tag))
                y.append(before)
            drawn.append((x, y))
        return drawn


class WithScores(Plain):
    """The same, taken apart."""

    def scores(self, x, labels):
        with np.errstate(divide="ignore"):
            return {
                "emission": np.array([[np.log(self.emission(label, row)) for label in labels] for row in x]),
                "transition": np.log([[self.step(a, b) * (1 - self.stop) for b in labels] for a in labels]),
                "start": np.log([self.step(None, label) for label in labels]),
                "stop": np.full(len(labels), np.log(self.stop)),
            }


class WithExpectations(WithScores):
    """The same, with the expectations that many draws have."""

    def expectations(self, features):
        self.asked = features
        return np.linspace(0.0, 0.1, len(features))


class OfFeatures:
    """A distribution over ready-made features: one dict for each position."""

    def log_prob(self, x, y):
        p = np.log(0.5) * len(x)
        for token, label in zip(x, y, strict=True):
            p += np.log(0.5) + np.log(0.9 if ("up" in token) == (label == "A") else 0.1)
        return p

    def sample(self, n, rng):
        drawn = []
        for _ in range(n):
            length = int(rng.geometric(0.5))
            y = [str(label) for label in rng.choice(["A", "B"], length)]
            right = rng.random(length) < 0.9
            drawn.append(
                (
                    [
                        {"up": 1.0} if (label == "A") == ok else {"down": 1.0}
                        for label, ok in zip(y, right, strict=True)
                    ],
                    y,
                )
            )
        return drawn
