"""A comparison as tables: scores with their tests, what the trainings cost, and each chunk type or label."""

from __future__ import annotations

from loglinear.experiments.comparison_result import ComparisonResult, System
from loglinear.experiments.table import MISSING, Table, number
from loglinear.experiments.tuning_result import TITLES

MARKS = {(False, False): "", (True, False): " *", (True, True): " **"}


def p_value(p: float | None) -> str:
    """A p value in three digits."""
    return MISSING if p is None else "<0.001" if p < 0.0005 else f"{p:.3f}"


def size(n_bytes: int) -> str:
    """A model's size."""
    return f"{n_bytes / 1e6:.2f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:.0f} kB"


def mark(result: ComparisonResult, system: System) -> str:
    """Stars for what differs from the best."""
    against = result.against.get(system.name)
    return "" if against is None else MARKS[against.differs, against.surely]


def score_table(result: ComparisonResult) -> Table:
    """Scores on the test data, and p values against the best."""
    names = list(result.best.scores)
    table = Table(
        f"On the test data ({result.facts['test sentences']:,} sentences), the best first",
        ["criterion", *(TITLES[name] for name in names), "bootstrap p", "McNemar p", "t-test p", "ECE", "dev"],
    )
    for system in result.systems:
        against = result.against.get(system.name)
        figures = [system.scores.get(name) for name in names]
        tests = [None] * 3 if against is None else [against.bootstrap, against.mcnemar, against.t_test]
        error = system.calibrations["width"].expected_error
        shown = [number(value, 2) for value in figures] + [p_value(p) for p in tests]
        table.add(f"{system.name}{mark(result, system)}", [*figures, *tests, error, system.best.score],
                  [*shown, number(100 * error, 2), number(system.best.score, 2)])  # fmt: skip
    table.notes.append(
        f"A star: differs from the best by the paired bootstrap on {result.figure} ({result.draws:,} draws of "
        "sentences, p < 0.05, one-sided); two: also after Holm's correction for the number of comparisons. McNemar: "
        "exact, on sentences labelled right throughout; t-test: paired, on the number of wrong labels of a sentence. "
        "ECE: expected calibration error of the predicted labels' probabilities, in percent, 10 bins of equal width."
    )
    table.notes += [f"Left out: {name}: {reason}" for name, reason in result.left_out.items()]
    return table


def training_table(result: ComparisonResult) -> Table:
    """What the training of each cost, and the setting that was chosen."""
    table = Table(
        f"Training on {result.facts['training sentences']:,} sentences ({result.facts['training tokens']:,} tokens)",
        ["criterion", "seconds", "passes", "features", "model", "settings tried", "chosen on the dev data"],
    )
    for system in result.systems:
        training = system.training
        table.add(
            system.name,
            [training["seconds"], training["passes"], training["features"], training["bytes"], len(system.tuned)],
            [number(training["seconds"], 2), f"{training['passes'] or 0:,}", f"{training['features']:,}",
             size(training["bytes"]), str(len(system.tuned)), system.best.name],
        )  # fmt: skip
    table.notes.append(
        "Seconds, from text to model, are of a training of the chosen setting from zero, alone on all threads."
    )
    return table


def type_table(result: ComparisonResult) -> Table:
    """F1 of each chunk type, or label, by each criterion."""
    chunked = "f1" in result.best.scores
    table = Table(
        f"F1 of each {'chunk type' if chunked else 'label'} on the test data",
        ["type" if chunked else "label", "gold", *(system.name for system in result.systems)],
    )
    for name in sorted({name for system in result.systems for name in system.types}):
        scores = [system.types.get(name) for system in result.systems]
        gold = max(score.gold for score in scores if score is not None)
        figures: list[float | None] = [None if score is None else score.f1 for score in scores]
        table.add(name or "(none)", [gold, *figures], [f"{gold:,}", *(number(value, 2) for value in figures)])
    return table
