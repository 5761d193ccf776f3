"""Measurements as tables: medians over the rounds, and the ratio of the two sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from loglinear.experiments.bench.job import (
    PROCESSES,
    first_at_least,
    first_at_most,
    median,
    objective_bound,
    ratio,
    threads_text,
)
from loglinear.experiments.bench.plan import GROWTH_PASSES, Benchmark, Way, trained_as_processes
from loglinear.experiments.tables import MISSING, Table, number, times

Run = dict[str, Any]
Figure = Callable[[Run], float | None] | str  # of a run: a function, or a key of its result
PERCENT = 1e-9  # slack of a comparison of scores, which are in percent
INSTALL = "python-crfsuite is not installed, so only ours is measured: pip install python-crfsuite"


def make_tables(bench: Benchmark, peer_missing: bool = False) -> list[Table]:
    """All tables that the measurements so far allow."""
    tables: list[Table] = []
    for task in dict.fromkeys(job.task for job, _ in bench.results if not job.task.startswith("growth ")):
        tables += [_comparison(bench, task, way) for way in bench.settings.ways]
        tables += filter(None, [_algorithms(bench, task), _processes(bench, task), _whole_trainings(bench, task)])
        tables += [_criteria(bench, task)] if bench.of("criteria", task) else []
        tables += [table for way in bench.settings.ways for table in _profiles(bench, task, way)]
    tables += filter(None, [growth(bench)])
    for table in tables[:1] if peer_missing else []:
        table.notes.append(INSTALL)
    return tables


def _median(runs: Sequence[Run], figure: Figure) -> float | None:
    """The median of a figure over runs."""
    return median(run[figure] if isinstance(figure, str) else figure(run) for run in runs)


def _name(way: Way, bench: Benchmark, task: str) -> str:
    runs = bench.of("ours", task, way)
    optimizer = runs[0]["optimizer"] if runs else way[1]
    return f"{way[0]} by {optimizer}" + (" (the default)" if way[1] is None else "")


def _by_pass(bench: Benchmark, task: str, way: Way, run: Run, what: str) -> list[tuple[float, float]]:
    """The run's seconds after each pass, with the pass's ``objectives`` or ``scores`` measured by an untimed run."""
    untimed = bench.of("passes", task, way)
    if not untimed:
        return [(s, v) for s, v in run["history"]] if what == "objectives" and run["exact_history"] else []
    values = untimed[0][what]
    return [(seconds, v) for (seconds, _), v in zip(run["history"], values, strict=False) if v is not None]


def bound_of(bench: Benchmark, task: str) -> float | None:
    """The objective that counts as converged: within 0.1 % of the least that either side ended at."""
    ours = (run for way in bench.settings.ways if way[0] == "cll" for run in bench.of("ours", task, way))
    return objective_bound(run["objective"] for run in (*bench.of("peer", task, algorithm="lbfgs"), *ours))


def _comparison(bench: Benchmark, task: str, way: Way) -> Table:
    peers = bench.of("peer", task, algorithm="lbfgs")
    corpus = bench.described[task]
    score = median(run["score"] for run in peers)
    bound = bound_of(bench, task) if way[0] == "cll" else None
    metric = {"f1": "test F1", "accuracy": "test accuracy"}[corpus["metric"]]

    def to_bound(run: Run) -> float | None:
        history = _by_pass(bench, task, way, run, "objectives")
        return None if bound is None else first_at_most(history, bound)

    def to_score(run: Run) -> float | None:
        history = _by_pass(bench, task, way, run, "scores")
        return None if score is None else first_at_least(history, score - PERCENT)

    def peer_to_bound(run: Run) -> float | None:
        return None if bound is None else first_at_most(run["history"], bound)

    def read_and_encode(run: Run) -> float:
        return float(run["read"] + run["encode"])

    compared: list[tuple[str, Figure, Figure, int]] = [  # name, ours, the peer's, digits
        ("read and encode (s)", read_and_encode, read_and_encode, 3),
        ("optimise to the default stop (s)", "optimise", "optimise", 3),
        ("optimise to within 0.1 % of the converged objective (s)", to_bound, peer_to_bound, 3),
        (f"optimise to python-crfsuite's {metric} (s)", to_score, "optimise", 3),
        ("value and gradient, one full pass (s)", "per_evaluation", "per_pass", 3),
        ("a pass of the optimizer (s)", "per_pass", "per_pass", 3),
        ("file to model (s)", "file_to_model", "file_to_model", 3),
        ("load the model (s)", "load", "load", 4),
        ("column file to tagged column file (s)", "tag", "tag", 3),
        ("peak memory (MB)", "peak_mb", "peak_mb", 0),
        ("model file (MB)", "model_mb", "model_mb", 2),
    ]
    only_shown = [("passes", "iterations", 0), ("features", "features", 0), ("objective", "objective", 2)]
    rows = [*compared, *((name, key, key, digits) for name, key, digits in (*only_shown, (metric, "score", 2)))]
    settings, labels = bench.settings, [threads_text(n) for n in bench.settings.threads]
    table = Table(
        f"{task}: {corpus['tokens']:,} tokens, {corpus['labels']} labels; {_name(way, bench, task)}, "
        f"l2 = {settings.l2:g}, medians of {settings.repeat}",
        ["", *labels, "python-crfsuite", *(f"times, {label}" for label in labels)],
    )
    sides = [bench.of("ours", task, way, threads=n, max_iter=settings.max_iter) for n in settings.threads]
    for place, (name, our_figure, peer_figure, digits) in enumerate(rows):
        ours, theirs = [_median(runs, our_figure) for runs in sides], _median(peers, peer_figure)
        ratios = [ratio(theirs, value) if place < len(compared) else None for value in ours]
        shown = [number(value, digits) for value in (*ours, theirs)]
        table.add(name, [*ours, theirs, *ratios], [*shown, *map(times, ratios)])
    listed = median(run["peak_mb"] for run in bench.of("listed", task))
    if listed is not None:
        table.notes.append(
            "python-crfsuite's peak is measured with each sentence's features handed over at once; it is "
            f"{listed:,.0f} MB if the features of all sentences are made first, as in its tutorial."
        )
    table.notes += _remarks(bench, task, peers, bound)
    return table


def _remarks(bench: Benchmark, task: str, peers: list[Run], bound: float | None) -> Iterator[str]:
    """What a reader must know about the figures."""
    yield "times is python-crfsuite's figure divided by ours; - means not reached, or nothing to compare."
    if any(run["stopped_early"] for run in peers):
        yield f"python-crfsuite was stopped after {peers[0]['iterations']} iterations: it had not converged."
    for job, result in bench.results:
        if job.task == task and "failed" in result:
            yield f"{job.side}: {result['failed']}."
    if bound is not None:
        yield f"Within 0.1 % of the converged objective is below {bound:,.2f}."


def _algorithms(bench: Benchmark, task: str) -> Table | None:
    """Each algorithm of the peer, and how long ours takes to reach its test score."""
    found = {name: bench.of("peer", task, algorithm=name) for name in bench.settings.algorithms}
    found = {name: runs for name, runs in found.items() if runs}
    if not found:
        return None
    labels = [threads_text(n) for n in bench.settings.threads]
    table = Table(
        f"{task}: python-crfsuite's algorithms, and ours until its test score is theirs",
        ["algorithm", "passes", "score", "optimise (s)", "whole (s)", *(f"ours, {x} (s)" for x in labels),
         *(f"times, {x}" for x in labels), *(f"whole, times, {x}" for x in labels), "ours trained"],
    )  # fmt: skip
    for name, peers in found.items():
        passes, score, optimise, whole = (
            median(run[key] for run in peers) for key in ("iterations", "score", "optimise", "file_to_model")
        )
        assert score is not None
        best: list[tuple[float | None, float | None, str]] = []
        for n in bench.settings.threads:
            reached = [*filter(None, (_reached(bench, task, way, n, score) for way in bench.settings.ways))]
            best.append(min(reached) if reached else (None, None, ""))
        ours, ours_whole, names = zip(*best, strict=True)
        quicker = [ratio(optimise, seconds) for seconds in ours] + [ratio(whole, seconds) for seconds in ours_whole]
        shown = [
            number(passes, 0), number(score, 2), number(optimise, 2), number(whole, 2), *(number(v, 2) for v in ours),
            *map(times, quicker), names[0] or MISSING,
        ]  # fmt: skip
        table.add(name, [passes, score, optimise, whole, *ours, *quicker], shown)
    table.notes.append(
        "whole is from file to model. Ours is the quickest way measured; - is a score that no pass of ours reached."
    )
    if limits := {run["iterations"] for runs in found.values() for run in runs if run["stopped_early"]}:
        table.notes.append(f"python-crfsuite was stopped after {max(limits)} passes unless it ended before.")
    return table


def _reached(bench: Benchmark, task: str, way: Way, threads: int, score: float) -> tuple[float, float, str] | None:
    """Seconds of optimising, and from file to model, until a score is reached; and the way's name."""
    until = []
    for run in bench.of("ours", task, way, threads=threads):
        seconds = first_at_least(_by_pass(bench, task, way, run, "scores"), score - PERCENT)
        if seconds is not None:
            until.append((seconds, run["file_to_model"] - run["optimise"] + seconds))
    if not until:
        return None
    optimise, whole = (median(values) for values in zip(*until, strict=True))
    assert optimise is not None and whole is not None
    return optimise, whole, _name(way, bench, task)


def _criteria(bench: Benchmark, task: str) -> Table:
    seconds: dict[str, float] = bench.of("criteria", task)[-1]["per_evaluation"]
    table = Table(f"{task}: value and gradient by each criterion, one thread", ["criterion", "seconds", "to cll"])
    for name, value in seconds.items():
        share = value / seconds["cll"]
        table.add(name, [value, share], [number(value, 4), f"{share:.2f}"])
    return table


def _processes(bench: Benchmark, task: str) -> Table | None:
    """Whole processes, and how many times as long as each of our trainings the other tools' take."""
    found = {name: runs for name, runs in _runs_by_name(bench, task).items() if "--criterion" not in name}
    if not bench.settings.processes or not found:
        return None
    trainings = [(n, found[name]) for n in bench.settings.threads if (name := _training(n)) in found]
    columns = ["process", "seconds", "processor (s)", "peak (MB)", "score"]
    table = Table(f"{task}: whole processes", [*columns, *(f"to train, {threads_text(n)}" for n, _ in trainings)])
    for name, runs in found.items():
        seconds, processor, peak, score = (
            median(run.get(key) for run in runs) for key in ("seconds", "processor", "peak_mb", "score")
        )
        ratios = [ratio(seconds, _median(ours, "seconds")) if ", train" in name else None for _, ours in trainings]
        shown = [number(seconds, 2), number(processor, 2), number(peak, 0), number(score, 2), *map(times, ratios)]
        table.add(name, [seconds, processor, peak, score, *ratios], shown)
    table.notes.append(
        "From start to exit, medians; first runs are measured once. The last columns are the seconds of another tool's "
        "training divided by those of loglinear train on that many threads."
    )
    return table


def _training(threads: int) -> str:
    return f"{PROCESSES['train']}, {threads_text(threads)}"


def _runs_by_name(bench: Benchmark, task: str) -> dict[str, list[Run]]:
    """The runs of each whole process."""
    found: dict[str, list[Run]] = {}
    for job, result in bench.results:
        if job.kind == "process" and job.task == task and "failed" not in result:
            found.setdefault(job.side, []).append(result)
    return found


def _whole_trainings(bench: Benchmark, task: str) -> Table | None:
    """The training of each criterion as a whole process."""
    threads = bench.settings.threads[-1]
    runs = {name: bench.of("process", task, (name, None), process="train", state="warm", threads=threads)
            for name in trained_as_processes(bench.settings.criteria)}  # fmt: skip
    if not bench.settings.criteria or not all(runs.values()):
        return None
    table = Table(
        f"{task}: loglinear train by each criterion, start to exit, default stop, {threads_text(threads)}",
        ["criterion", "seconds", "to cll", "peak (MB)", "score"],
    )
    base = _median(runs["cll"], "seconds")
    for name, found in runs.items():
        seconds, peak, score = (_median(found, key) for key in ("seconds", "peak_mb", "score"))
        share = ratio(seconds, base)
        shown = [number(seconds, 2), times(share), number(peak, 0), number(score, 2)]
        table.add(name, [seconds, share, peak, score], shown)
    return table


def _profiles(bench: Benchmark, task: str, way: Way) -> Iterator[Table]:
    for found in bench.of("profile", task, way)[-1:]:
        for part, rows in found.items():
            if part == "optimizer":
                continue
            whole = sum(row["seconds"] for row in rows) or 1.0
            title = f"{task}: {part}, {way[0]} by {found['optimizer']}, one thread, {whole:.3f} s in all"
            table = Table(title, [part.split()[1].removesuffix("s"), "seconds", "share", "calls"])
            for row in rows:
                share = row["seconds"] / whole
                if share >= 0.001:
                    shown = [number(row["seconds"], 4), f"{100 * share:.1f} %", number(row["calls"], 0)]
                    table.add(row["name"], [row["seconds"], share, row["calls"]], shown)
            yield table


# ----------------------------------------------------------------------------------------------------------------------
# How cost grows with the corpus: seconds and memory of each size, in all and for a token.


#: Of each part of the work: its name, its title in the table, and its seconds in a run.
PARTS: tuple[tuple[str, str, Figure], ...] = (
    ("encode", "read and encode (s)", lambda run: run["read"] + run["encode"]),
    ("evaluation", "value and gradient (s)", lambda run: run.get("per_evaluation")),
    ("pass", "a pass (s)", "per_pass"),
    ("tag", "tag (s)", "tag"),
)
LEAST_TOKENS = 100_000  # below, costs that do not depend on the corpus weigh too much


def growth(bench: Benchmark) -> Table | None:
    """A row for each side and size; None if nothing of it was measured."""
    results = [(job, result) for job, result in bench.results if job.task.startswith("growth ")]
    sizes = sorted({(job.tokens, job.task) for job, _ in results})
    if not sizes:
        return None
    table = Table(
        f"generated corpora: how cost grows; {GROWTH_PASSES} passes, medians of {bench.settings.repeat}",
        ["side", "tokens", *(title for _, title, _ in PARTS), "peak (MB)",
         *(f"{part} (µs a token)" for part, _, _ in PARTS), "kB a token"],
    )  # fmt: skip
    sides: list[tuple[str, dict[str, Any]]] = [
        *((f"ours, {threads_text(n)}", {"kind": "ours", "threads": n}) for n in bench.settings.threads),
        ("python-crfsuite", {"kind": "peer", "algorithm": "lbfgs"}),
    ]
    for name, wanted in sides:
        costs = {tokens: _costs(runs) for tokens, task in sizes if (runs := bench.of(task=task, **wanted))}
        per_token = {tokens: _per_token(values, tokens) for tokens, values in costs.items()}
        for tokens, (*seconds, peak) in costs.items():
            shown = [number(tokens, 0), *(number(value, 3) for value in seconds), number(peak, 0)]
            shown += [number(value, 2) for value in per_token[tokens]]
            table.add(name, [tokens, *seconds, peak, *per_token[tokens]], shown)
        table.notes += filter(None, [flatness(name, per_token)])
    failed = ((job, result["failed"]) for job, result in results if "failed" in result)
    table.notes += [f"{job.tokens:,} tokens, {job.side}: {reason}." for job, reason in failed]
    table.notes.append("Each size tags its own training file.")
    return table


def _costs(runs: Sequence[Run]) -> list[float | None]:
    """Seconds of each part, and peak memory in MB."""
    return [*(_median(runs, figure) for _, _, figure in PARTS), _median(runs, "peak_mb")]


def _per_token(costs: Sequence[float | None], tokens: int) -> list[float | None]:
    """The same for a token, in microseconds and kB."""
    units = [1e6] * len(PARTS) + [1e3]
    return [None if value is None else unit * value / tokens for unit, value in zip(units, costs, strict=True)]


def flatness(name: str, per_token: Mapping[int, Sequence[float | None]]) -> str:
    """The cost of a token at the largest size over that at 10^5 tokens, or at the next larger size measured."""
    sizes = [tokens for tokens in per_token if tokens >= LEAST_TOKENS]
    if len(sizes) < 2:
        return ""
    small, large = sizes[0], sizes[-1]
    names = [*(part for part, _, _ in PARTS), "memory"]
    grown = [ratio(after, before) for before, after in zip(per_token[small], per_token[large], strict=True)]
    shown = [f"{part} {MISSING if value is None else f'{value:.2f}'}" for part, value in zip(names, grown, strict=True)]
    return f"{name}: cost of a token at {large:,} tokens over that at {small:,}: {', '.join(shown)}."
