"""What the tables of criteria share: corpora, tuning on dev data, and a file of finished runs to go on from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loglinear import Tagger
from loglinear.data import Columns
from loglinear.data.files import atomic_output
from loglinear.evaluation import chunk_counts, chunk_scores


@dataclass
class Runs:
    """Scores of trained taggers by name, kept in a JSON file, so that a stopped table goes on where it was."""

    path: Path

    def __post_init__(self) -> None:
        self.done: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}

    def get(self, name: str, tagger: Tagger, train: Columns, dev: Columns, test: Columns, **fit: Any) -> dict[str, Any]:
        """Train unless done: dev F1, test report and counts by sentence, seconds and iterations."""
        if name not in self.done:
            tagger.fit(train, **fit)
            scores = {}
            for part, corpus in (("dev", dev), ("test", test)):
                gold = (corpus.columns[-1].ids, corpus.columns[-1].values, corpus.offsets)
                predicted = (tagger.predict_numbers(corpus)[0], tagger.classes_, corpus.offsets)
                scores[part] = chunk_scores(gold, predicted).to_dict()
                if part == "test":
                    scores["test_counts"] = chunk_counts(gold, predicted).tolist()
            self.done[name] = {
                **scores,
                "seconds": tagger.seconds_,
                "iterations": tagger.n_iter_,
                "message": tagger.message_,
                "objective": tagger.objective_,
            }
            with atomic_output(self.path) as out:
                out.write(json.dumps(self.done).encode())
            report = self.done[name]
            print(
                f"{name}: dev F1 {report['dev']['f1']:.2f}, {tagger.n_iter_} iterations, {tagger.seconds_:.0f} s",
                flush=True,
            )
        return self.done[name]
