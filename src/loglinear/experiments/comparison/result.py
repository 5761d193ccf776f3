"""The result of a comparison: systems, tests against the best of them, and what could not be trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from loglinear.arrays import Bool, Float, Int64
from loglinear.evaluation.calibration import Calibration, calibration
from loglinear.evaluation.chunks import chunk_counts, chunk_scores
from loglinear.evaluation.labels import Score, accuracy_report, aligned, confusions, label_counts
from loglinear.evaluation.significance import holm, mcnemar, paired_bootstrap, paired_t_test
from loglinear.experiments.store import Cell, setting_content
from loglinear.experiments.tuning.data import CHUNK_METRICS, Labelled, all_scores
from loglinear.experiments.tuning.run import TunedCell, TuningResult

LEVEL = 0.05


@dataclass(frozen=True)
class Against:
    """Tests of a system against the best: p values, the middle 95 % of the bootstrap's differences, the conclusion.

    ``differs`` is whether the bootstrap's p is below 0.05, ``surely`` whether it is so after Holm's correction for the
    number of systems.
    """

    bootstrap: float
    low: float
    high: float
    mcnemar: float
    mcnemar_corrected: float
    t_test: float
    differs: bool
    surely: bool


@dataclass(frozen=True)
class System:
    """A tuned criterion on the test data.

    Attributes
    ----------
    name : str
        The criterion.
    best : TunedCell
        The setting chosen on the dev data, and how it did there.
    tuned : list of TunedCell
        All settings tried.
    scores : dict from name to percent
        On the test data.
    training : dict
        Seconds, passes, objective, features, bytes, history, message of the training from zero.
    curve : list of (sentences, figure)
        The learning curve on the test data.
    types : dict from chunk type, or label, to Score
    counts : int64 [S, 3]
        The counts that the figure is computed from, for each sentence.
    right : bool [S]
        Which sentences have no wrong label.
    wrong : int64 [S]
        Wrong labels in each sentence.
    calibrations : dict from "width" and "mass" to Calibration
    confused : list of (gold, predicted, times)
        The most frequent confusions.
    predicted : Labelled
    """

    name: str
    best: TunedCell
    tuned: list[TunedCell]
    scores: dict[str, float]
    training: Cell
    curve: list[tuple[int, float]]
    types: dict[str, Score]
    counts: Int64
    right: Bool
    wrong: Int64
    calibrations: dict[str, Calibration]
    confused: list[tuple[str, str, int]]
    predicted: Labelled

    @classmethod
    def examined(
        cls, name: str, tuned: TuningResult, training: Cell, curve: list[tuple[int, float]], gold: Labelled,
        predicted: Labelled, confidence: Float, figure: str,
    ) -> System:  # fmt: skip
        """A system, from its predictions on the test data and their probabilities."""
        counts = labels = label_counts(gold, predicted)
        right = labels[:, 1] == labels[:, 2]
        if figure in CHUNK_METRICS:
            counts = chunk_counts(gold, predicted)
        elif figure == "sentence-accuracy":
            counts = np.stack([np.ones_like(right), np.ones_like(right), right], axis=1).astype(np.int64)
        scores = all_scores(gold, predicted)
        types = chunk_scores(gold, predicted).types if "f1" in scores else accuracy_report(gold, predicted).labels
        gold_ids, ids, _, _ = aligned(gold, predicted)
        sure = np.minimum(confidence, 1.0)
        calibrations = {by: calibration(sure, gold_ids == ids, 10, by) for by in ("width", "mass")}
        return cls(
            name, tuned.best, tuned.cells, scores, training, curve, types, counts, right, labels[:, 1] - labels[:, 2],
            calibrations, _confused(gold, predicted), predicted,
        )  # fmt: skip


def _confused(gold: Labelled, predicted: Labelled, most: int = 5) -> list[tuple[str, str, int]]:
    labels, table = confusions(gold, predicted)
    np.fill_diagonal(table, 0)
    order = np.argsort(-table, axis=None, kind="stable")[:most]
    places = [divmod(int(place), len(labels)) for place in order]
    return [(labels[g], labels[p], int(table[g, p])) for g, p in places if table[g, p]]


class ComparisonResult:
    """Systems, the best on the test data first.

    Attributes
    ----------
    systems : list of System
    left_out : dict from criterion to reason
        What could not be trained on this data.
    figure : str
        What they are compared by.
    facts : dict
        Sizes of the data.
    """

    def __init__(
        self, systems: Sequence[System], left_out: Mapping[str, str], figure: str, facts: dict[str, int], draws: int,
        seed: int, gold: Labelled,
    ) -> None:  # fmt: skip
        self.systems = sorted(systems, key=lambda system: -system.scores[figure])
        self.left_out, self.figure, self.facts, self.draws = dict(left_out), figure, facts, draws
        self.gold, self._seed = gold, seed

    @property
    def best(self) -> System:
        """The system with the best figure on the test data."""
        return self.systems[0]

    @cached_property
    def against(self) -> dict[str, Against]:
        """Each of the other systems against the best."""
        figure = "recall" if self.figure in ("accuracy", "sentence-accuracy") else self.figure
        best, others = self.best, self.systems[1:]
        boots = [paired_bootstrap(best.counts, other.counts, self.draws, self._seed, figure) for other in others]
        corrected = holm([boot.p for boot in boots]).tolist()
        tests = {}
        for other, boot, corrected_p in zip(others, boots, corrected, strict=True):
            exact, approximate = (mcnemar(best.right, other.right, exact=how).p for how in (True, False))
            t_test = paired_t_test(best.wrong, other.wrong).p
            differs, surely = boot.p < LEVEL, corrected_p < LEVEL
            tests[other.name] = Against(boot.p, boot.low, boot.high, exact, approximate, t_test, differs, surely)
        return tests

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "figure": self.figure,
            "data": self.facts,
            "draws": self.draws,
            "left_out": self.left_out,
            "systems": [self._system_dict(system) for system in self.systems],
        }

    def _system_dict(self, system: System) -> dict[str, Any]:
        against = self.against.get(system.name)
        return {
            "criterion": system.name,
            "setting": setting_content(system.best.setting),
            "dev": system.best.score,
            **system.scores,
            **{name: system.training[name] for name in ("seconds", "passes", "features", "bytes", "objective")},
            "calibration": {by: found.to_dict() for by, found in system.calibrations.items()},
            "against_best": None if against is None else asdict(against),
            "types": {name: score.to_dict() for name, score in system.types.items()},
            "confused": system.confused,
            "curve": system.curve,
            "tuned": [cell.to_dict() for cell in system.tuned],
        }
