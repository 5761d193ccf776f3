"""What one measurement is to do, as plain data that goes to another process and into a file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

PLACES = ("train", "test", "scratch")  # where files are says nothing about what is measured


@dataclass(frozen=True)
class Job:
    """One measurement.

    Parameters
    ----------
    kind : {"ours", "passes", "peer", "listed", "criteria", "profile"}
        Whose training and tagging is timed; ``passes`` is our objective and test score after each pass, not timed;
        ``listed`` the peer's memory if all features are in a list first.
    task : str
        Name of the corpus.
    train, test : str
        Column files with the label in the last column.
    template : str
        Text of the template.
    metric : {"f1", "accuracy"}
    tokens : int
        Tokens of the training file.
    scratch : str
        Folder for models and tagged files.
    l2 : float
        Factor of ||w||^2, python-crfsuite's c2.
    criterion, optimizer : str, str or None
        How ours trains; None is the criterion's first choice.
    algorithm : str
        How python-crfsuite trains.
    threads : int
    max_iter : int or None
        Most passes; None is each side's default stop.
    repeat : int
        Which of the repetitions this is.
    names : tuple of str
        For ``criteria``, which ones.
    """

    kind: str
    task: str
    train: str
    test: str
    template: str
    metric: str
    tokens: int
    scratch: str
    l2: float = 1.0
    criterion: str = "cll"
    optimizer: str | None = None
    algorithm: str = "lbfgs"
    threads: int = 1
    max_iter: int | None = None
    repeat: int = 0
    names: tuple[str, ...] = field(default=())

    @property
    def side(self) -> str:
        """Who or what is measured, in words."""
        if self.kind == "peer":
            return f"python-crfsuite {self.algorithm}"
        if self.kind == "listed":
            return "python-crfsuite, memory with features in a list"
        if self.kind == "criteria":
            return "an evaluation of each criterion"
        way = self.criterion if self.optimizer is None else f"{self.criterion} by {self.optimizer}"
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        return {"ours": f"{way}, {threads}", "passes": f"{way}, scores by pass", "profile": f"profile of {way}"}[
            self.kind
        ]

    @property
    def key(self) -> str:
        """A name that is the same for the same measurement."""
        content = {name: value for name, value in asdict(self).items() if name not in PLACES}
        mark = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
        return f"{self.task}: {self.side}, repeat {self.repeat} [{mark}]"

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Job:
        """The job of :meth:`to_dict`."""
        return cls(**{**content, "names": tuple(content["names"])})
