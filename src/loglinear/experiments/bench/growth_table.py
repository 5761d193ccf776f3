"""How cost grows with the corpus: a row for each size, side and number of threads, and the cost of a token."""

from __future__ import annotations

from typing import Any

from loglinear.experiments.bench.figures import median, ratio
from loglinear.experiments.bench.plan import GROWTH_PASSES, Settings
from loglinear.experiments.bench.results import Results
from loglinear.experiments.table import MISSING, Table, number

PARTS = ("encode", "evaluation", "pass", "tag")


def growth(results: Results, settings: Settings) -> Table | None:
    """The table, None if nothing of it was measured."""
    jobs = [job for job, _ in results.current if job.task.startswith("growth ")]
    sizes = sorted({(job.tokens, job.task) for job in jobs})
    if not sizes:
        return None
    table = Table(
        f"generated corpora: how cost grows; {GROWTH_PASSES} passes, medians of {settings.repeat}",
        ["side", "tokens", "read and encode (s)", "value and gradient (s)", "a pass (s)", "tag (s)", "peak (MB)",
         *(f"{part} (µs a token)" for part in PARTS), "kB a token"],
    )  # fmt: skip
    sides: list[tuple[str, dict[str, Any]]] = [
        (f"ours, {n} thread{'s' if n > 1 else ''}", {"kind": "ours", "threads": n}) for n in settings.threads
    ]
    for name, wanted in [*sides, ("python-crfsuite", {"kind": "peer", "algorithm": "lbfgs"})]:
        per_token = []
        for tokens, task in sizes:
            runs = results.of(task=task, **wanted)
            if not runs:
                continue
            seconds = [
                median(run["read"] + run["encode"] for run in runs), median(run.get("per_evaluation") for run in runs),
                median(run["per_pass"] for run in runs), median(run["tag"] for run in runs),
            ]  # fmt: skip
            peak = median(run["peak_mb"] for run in runs)
            micro = [None if value is None else 1e6 * value / tokens for value in seconds]
            kilobytes = None if peak is None else 1e3 * peak / tokens
            per_token.append((tokens, [*micro, kilobytes]))
            table.add(
                name, [tokens, *seconds, peak, *micro, kilobytes],
                [number(tokens, 0), *(number(value, 3) for value in seconds), number(peak, 0),
                 *(number(value, 2) for value in micro), number(kilobytes, 2)],
            )  # fmt: skip
        if remark := flatness(name, per_token):
            table.notes.append(remark)
    for job, result in results.current:
        if job.task.startswith("growth ") and "failed" in result:
            table.notes.append(f"{job.tokens:,} tokens, {job.side}: {result['failed']}.")
    table.notes.append("Each size tags its own training file.")
    return table


def flatness(name: str, per_token: list[tuple[int, list[float | None]]]) -> str:
    """The cost of a token at the largest size over that at 10^5 tokens, or at the least size above."""
    from_here = [entry for entry in per_token if entry[0] >= 100_000]
    if len(from_here) < 2:
        return ""
    (small, before), (large, after) = from_here[0], from_here[-1]
    grown = [(part, ratio(b, a)) for part, a, b in zip((*PARTS, "memory"), before, after, strict=True)]
    shown = ", ".join(f"{part} {MISSING if value is None else f'{value:.2f}'}" for part, value in grown)
    return f"{name}: cost of a token at {large:,} tokens over that at {small:,}: {shown}."
